//! What a trace shows.
//!
//! A trace is a list of records; each view of it is made here, on the host, from the same records, whether they come from QEMU or from the
//! simulator.
//!
//! - [`schedule`]: what happened, in intervals.
//! - [`picture`]: these as SVG.
//! - [`explain`]: where the time of a job went.
//! - [`audit`]: whether that is right.
//! - [`turns`]: when emulated CPUs were not executed, which `explain` tells apart.
//! - [`litmus`]: what LITMUS^RT has records for, in its format.
//! - [`perfetto`]: all of it for Perfetto.
#![forbid(unsafe_code)]

pub mod audit;
pub mod explain;
pub mod litmus;
pub mod perfetto;
pub mod picture;
pub mod schedule;
pub mod turns;
