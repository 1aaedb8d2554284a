//! Views of a trace.
//!
//! A trace is a list of records; each view of it is made here, on the host, from the same records, whether they come from QEMU or from the
//! simulator.
//!
//! - [`schedule`]: the trace in intervals.
//! - [`explain`]: where the time of a job went.
//! - [`state`]: the present state of a task, and its words.
//! - [`now`]: the present states of all tasks, from the records so far.
//! - [`stream`]: a trace that has come over a serial line.
//! - [`metrics`]: response times and lateness.
//! - [`latency`]: how late graphs are.
//! - [`services`]: how long services took.
//! - [`turns`]: when emulated CPUs were not executed, which `explain` tells apart.
//!
//! Not here: pictures (`tools/pictures`), views for other tools (`tools/exports`).
#![forbid(unsafe_code)]

pub mod explain;
pub mod latency;
pub mod metrics;
pub mod now;
#[cfg(test)]
mod random;
pub mod schedule;
pub mod services;
pub mod state;
pub mod stream;
mod tokens;
pub mod turns;

/// Microseconds of nanoseconds, say: with three digits behind the point.
pub fn thousandths(time: u64) -> String {
    format!("{}.{:03}", time / 1_000, time % 1_000)
}
