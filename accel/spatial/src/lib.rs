//! An execution engine of many SMs: thread blocks of several contexts run beside each other, and SMs are taken away within
//! microseconds.
//!
//! A *kernel* is a grid of thread blocks. An *SM* runs blocks of one kernel at a time, as many as its registers, its shared memory
//! and its threads allow. A *policy* decides which kernel an SM belongs to. A *mechanism* determines how an SM changes hands while
//! blocks are on it: their state is saved to memory, or they run to their end.
//!
//! The crate is pure: no register, no clock, no allocation. Time comes in as an argument, in nanoseconds. One code runs in the
//! device, in a driver that decides for a device, and in a simulator.
//!
//! - [`limits`]: the resources of an SM, the needs of a block, the length of a save.
//! - [`parboil`]: the 24 kernels of the paper's Table 1, as data.
//! - [`table`]: the input of a policy: kernels with their keys and tokens, SMs with their states.
//! - [`policy`]: the interface of policies. The policies are in [`queues`], [`priority`], [`tokens`] and [`real_time`].
//! - [`preemption`]: the mechanisms.
//! - [`engine`]: the SM driver, which carries decisions out and counts time.
//! - [`account`]: time of SMs, by context.
//!
//! # Invariants
//!
//! 1. Each block of a kernel is issued to the host once. A block that was preempted runs on for exactly the time it had left.
//! 2. A kernel's tokens plus the SMs it holds or has reserved are its budget.
//! 3. The nanoseconds of all SMs are running, saving, restoring or idle, and the sum of the four is SMs times time.
//! 4. Equal calls give equal results: nothing depends on anything but the arguments.
//!
//! Not here: rings, doorbells and translation (the device), where keys come from (the kernel), bounds on delays (`sched`).
//! Source: Tanasic et al., "Enabling Preemptive Multiprogramming on GPUs", ISCA 2014. Deviations are named where they are.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod account;
pub mod engine;
pub mod limits;
pub mod parboil;
pub mod policy;
mod preempted;
pub mod preemption;
pub mod priority;
pub mod queues;
pub mod real_time;
pub mod table;
pub mod tokens;

pub use account::{Counters, Usage};
pub use engine::{Bad, Description, DescriptionError, Engine, Host, Outcome, Record, Refused, SubmitError};
pub use limits::{Fit, Grid, GridError, Limits, Times};
pub use policy::{Decision, Outside, Policy, Rule};
pub use preemption::Mechanism;
pub use priority::Ppq;
pub use queues::{Fcfs, Npq};
pub use real_time::RealTime;
pub use table::{Active, CONTEXTS, Context, Key, PLACES_MAX, Place, SMS_MAX, Sm, State, Table};
pub use tokens::{Dss, Shares};
