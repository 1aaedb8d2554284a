//! Tests of systems: the table `[test]` of manifests, in one queue. A user's project compiles this when it is first tested.
//!
//! ```text
//! command    the command line: `cargo xtask test` in a project
//! project    the tests of a project: `cargo test`, and each manifest with a table `[test]`
//! golden     golden traces
//! expected   a run, compared with the table `[test]`
//! queue      one queue of all checks, and their results as JUnit
//! case       one check: its name, its needs, and how it runs
//! ```
//!
//! Not here: checks of this repository (`tests/systems`), which use the queue and the comparison.
#![forbid(unsafe_code)]
// `words::print` handles a closed pipe and a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout))]
// The library of a program: its documentation is for those who change it.
#![allow(rustdoc::private_intra_doc_links)]

pub mod case;
pub mod command;
pub mod echo;
pub mod expected;
pub mod golden;
pub mod project;
pub mod queue;
