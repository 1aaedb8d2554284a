//! The command of users: builds, runs, tests and explains systems.
//!
//! ```text
//! command    the command line, and which module carries out a command
//! passed     commands that other programs of this repository carry out
//! run        `cargo xtask run`
//! new        `cargo xtask new`
//! doc        `cargo xtask doc`
//! completions   scripts by which shells complete commands
//! skeleton   the additions of `new --with` to the template
//! analyze    `cargo xtask analyze`
//! suggest    `analyze --suggest`
//! task_set   task sets written as JSON
//! values     values of options
//! ```
//!
//! Not here: building and running (`tools/host`), checks of this repository (`tests/systems`), measurements (`research`), looks into systems that run (`tools/looks`),
//! simulations (`tools/simulate`).
#![forbid(unsafe_code)]
// `words::print` handles a closed pipe and a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout))]
// The library of a program: its documentation is for those who change it.
#![allow(rustdoc::private_intra_doc_links)]

pub mod analyze;
pub mod command;
pub mod completions;
pub mod doc;
pub mod new;
pub mod passed;
#[cfg(test)]
mod published;
pub mod run;
pub mod skeleton;
pub mod suggest;
pub mod task_set;
pub mod values;
