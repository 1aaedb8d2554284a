//! Locks for accelerators as pure functions: holders, waiters, and the next grant.
//!
//! Users are small numbers and keys are arguments. Grants are return values, and so are changes of the graph of waiting.
//! Not allowed here: suspending or waking threads (`kernel/core`), doorbells and probes (`kernel/aarch64`), budgets.
//!
//! - [`propagation`]: the thread for which each thread waits, and the reservation on which it runs.
//! - [`engine`]: the mutex of one execution engine, copy engine or DSP.
//! - [`group`]: several such locks at once.
//! - [`groups`]: such locks as the kernel has them.
//! - [`pool`]: the tokens of a pool of accelerators: k-FMLP, R2DGLP, pure priority.
//! - [`tokens`]: such a pool as the kernel has it.
//! - [`ck_omlp`]: resources shared across clusters, with donation at release.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod bits;
pub mod ck_omlp;
pub mod engine;
pub mod group;
pub mod groups;
pub mod pool;
pub mod propagation;
pub mod tokens;

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod schedules;
