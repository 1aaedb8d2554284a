//! What a trace shows.
//!
//! A trace is a list of records; each view of it is made here, on the host, from the same records, whether they come from QEMU or from the
//! simulator.
//!
//! - [`schedule`]: what happened, in intervals.
//! - [`picture`]: these as SVG (`tools/raster` makes PNG of it).
//! - [`page`]: these as a page to look around in.
//! - [`explain`]: where the time of a job went.
//! - [`audit`]: whether that is right.
//! - [`stream`]: a trace that has come over a serial line.
//! - [`turns`]: when emulated CPUs were not executed, which `explain` tells apart.
//! - [`litmus`]: what LITMUS^RT has records for, in its format.
//! - [`perfetto`]: all of it for Perfetto.
//! - [`now`]: what a system does at the moment.
//! - [`overheads`]: what the kernel's paths took, for SchedCAT.
#![forbid(unsafe_code)]

pub mod audit;
pub mod explain;
pub mod litmus;
pub mod now;
pub mod overheads;
pub mod page;
pub mod perfetto;
pub mod picture;
#[cfg(test)]
mod random;
pub mod schedule;
pub mod stream;
mod tokens;
pub mod turns;
