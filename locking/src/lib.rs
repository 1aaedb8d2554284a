//! Locks for accelerators, pure: which user holds, which wait, which is next.
//!
//! Users are small numbers, keys come in, grants go out as values, and so does who waits for whom now. What may not
//! live here: suspending or waking anybody (`kernel/core`), doorbells and probes (`kernel/aarch64`), budgets.
//!
//! - [`propagation`]: which thread waits for which, and on which reservation each runs.
//! - [`engine`]: the mutex of one execution engine, copy engine or DSP.
//! - [`group`]: several such locks at once.
//! - [`groups`]: such locks as the kernel has them.
//! - [`pool`]: the tokens of a pool of accelerators: k-FMLP, R2DGLP, pure priority.
//! - [`tokens`]: such a pool as the kernel has it.
//! - [`ck_omlp`]: what is shared across clusters: donation at release.
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
