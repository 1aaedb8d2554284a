//! Looks into systems that run, which few ask for: a user's project compiles them when one is first asked for.
//!
//! ```text
//! command    the command line, and which module carries out a command
//! trace      `cargo xtask trace`: views of the last run
//! explain    `trace explain`: why a job was late
//! stream     the trace that a task sends over a serial line
//! export     files of `trace` for other tools
//! top        `cargo xtask top`: the present state of each task
//! dump       `cargo xtask dump`
//! gdb        `cargo xtask gdb`
//! longest_path   `cargo xtask longest-path`: a board's longest path, into its file
//! suggest    `analyze --suggest`: lines that a manifest lacks, by the last run
//! ```
//!
//! Not here: the views themselves (`tools/exports`), and the output of each run (`tools/fusee`).
#![forbid(unsafe_code)]
// `words::print` handles a closed pipe and a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout))]
// The library of a program: its documentation is for those who change it.
#![allow(rustdoc::private_intra_doc_links)]

pub mod command;
pub mod dump;
pub mod explain;
pub mod export;
pub mod gdb;
pub mod longest_path;
pub mod stream;
pub mod suggest;
pub mod top;
pub mod trace;
