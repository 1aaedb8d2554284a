//! Arrangements of CPUs and GPUs, compared: fine bounds on the blocking of GPU tasks, and the test of a task set under each arrangement.
//!
//! ```text
//! draw         random task sets of 486 settings
//! arrangement  57 arrangements: clusters of CPUs and of GPUs, migration, tokens
//! place        tasks on clusters, by worst fit
//! costs        costs of kernel and GPUs, added in the order of the text
//! engines      blocking by engine locks: coarse and fine
//!   chains     requests that a request waits for, with migration from GPU to GPU
//!   program    the longest sum of chains, by a linear program
//! tokens       blocking by tokens
//! lateness     response times of a CPU cluster
//! in_time      response times up to the period, fixed priorities among them
//! judge        all of it for one task set
//! ```
//!
//! # Principles
//!
//! 1. **Integers.** Times are whole nanoseconds and all roundings are against the task. The one library that computes in floating point proposes
//!    prices, from which [`program`] makes a bound in integers.
//! 2. **A function of its input.** The same task set, arrangement and costs give the same bounds on every machine.
//! 3. **Errors of the text are corrected** where they are found: [`engines`], [`tokens`], [`costs`], [`program`] and [`chains`] each name theirs.
//!
//! Not here: the exact analysis of a system as the kernel admits it (`sched/analysis`); runs, files and tables of the study
//! (`research`).
//!
//! # Source
//! Elliott 2015, section 4.3.
#![forbid(unsafe_code)]

pub mod arrangement;
pub mod chains;
pub mod costs;
pub mod draw;
pub mod engines;
pub mod in_time;
pub mod judge;
pub mod lateness;
pub mod place;
pub mod program;
pub mod requests;
pub mod task;
pub mod tokens;
