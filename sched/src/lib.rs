//! Real-time scheduling policy, pure: time, keys, queues, clusters, accounts.
//!
//! The code of this crate knows tasks, jobs and CPUs as numbers. It has no registers, clocks, atomics, kernel or floating point.
//! Time comes in as an argument, a decision goes out as a value; the kernel and the simulator run exactly this code.
//!
//! - [`time`]: instants and spans that cannot be confused and do not wrap.
//! - [`key`]: the order of jobs; policies; tie-breaks.
//! - [`queue`]: a fixed-capacity priority queue.
//! - [`cluster`]: which reservation is linked to which CPU.
//! - [`account`]: one budget with its debt.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod account;
pub mod cluster;
pub mod cpu;
pub mod key;
pub mod queue;
pub mod time;
