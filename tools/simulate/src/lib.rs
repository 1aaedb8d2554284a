//! `cargo xtask simulate`: systems and task sets on the host, in virtual time.
//!
//! ```text
//! command    the command line
//! hosted     programs of tasks, built for the host
//! seeds      runs that seeds vary, the first that fails, and the command that repeats it
//! simulate   the simulation of one system, or of the systems of task sets, and its verdict
//! ```
//!
//! A program of its own, built when it is first asked for: a project that only runs its systems in QEMU does not compile the simulator.
//!
//! Not here: the simulator (`tools/simulator`), the judge (`tools/host`).
#![forbid(unsafe_code)]
// `words::print` handles a closed pipe and a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout))]
// The library of a program: its documentation is for those who change it.
#![allow(rustdoc::private_intra_doc_links)]

pub mod command;
pub mod hosted;
#[cfg(test)]
#[path = "../../fusee/src/published.rs"]
mod published;
pub mod seeds;
pub mod simulate;
