//! Checks of this repository: each is a case of the runner `libtest-mimic`, and one queue keeps all cores busy with them.
//!
//! ```text
//! list           the list of all checks
//! context        compilers, emulators, boards, and programs that are built once
//! known          results by content
//! times          where the time goes
//! hosts          format, lints, documentation, tests on the host, models
//! target         systems of `tests/target`
//! conformance    systems with golden traces, which QEMU and the simulator must match
//! boards         the systems that each board runs
//! combinations   kernels with some features
//! configurations CPUs and GPUs in each arrangement
//! boot           starts of boards, and of images that are wrong
//! cards          boards that start from cards
//! demo, vision, car   the demo, the stabilised video, the car
//! advised        systems as `advise` proposes them
//! dump, gdb      whether the right lines are named
//! endings        runs whose systems do not end themselves
//! errata         instructions that some CPUs get wrong
//! isolation      translation tables, and the accesses of a task
//! kernels        times of GPU kernels
//! messages       messages of tasks, and pictures of traces
//! outputs        standard outputs that take nothing
//! own_project, own_kernels, own_skeletons, own_device   projects outside the repository
//! refusal        images that no tool of ours would make
//! screens        pictures of a screen
//! files          files of a disk
//! spoken         boards at a serial port
//! stream         the trace that a task sends
//! turns          turns of emulated CPUs
//! docs, readme   pages: links, commands, and their output
//! proofs         commands that are evidence of features
//! browser        pages in a browser
//! markdown       pages, parsed
//! resolution     features of all crates
//! packages       crates that are published
//! places         images of one system from sources at two places
//! runs           long ones, two at once, ended from outside
//! schemas        schemas of `--json` and of manifests
//! manifest_schema   the schema of manifests, from the types of its reader
//! structure      conditions that must stay true of the tree
//! ```
//!
//! Not here: the queue of checks, and the comparison of a run with the table `[test]`, which projects have, too (`tools/tester`); random systems and measurements
//! (`research`). Both are called from here.
#![forbid(unsafe_code)]
// `words::print` handles a closed pipe and a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout))]
// The library of a program: its documentation is for those who change it.
#![allow(rustdoc::private_intra_doc_links)]

pub mod advised;
pub mod arrows;
pub mod boards;
pub mod boot;
pub mod browser;
pub mod car;
pub mod cards;
pub mod combinations;
pub mod command;
pub mod configurations;
pub mod conformance;
pub mod context;
pub mod demo;
pub mod docs;
pub mod dump;
pub mod endings;
pub mod errata;
pub mod files;
pub mod gdb;
pub mod hosted;
pub mod hosts;
pub mod house;
pub mod isolation;
pub mod kernels;
pub mod known;
pub mod list;
pub mod manifest_schema;
pub mod markdown;
pub mod messages;
pub mod outputs;
pub mod own_device;
pub mod own_kernels;
pub mod own_programs;
pub mod own_project;
pub mod own_skeletons;
pub mod packages;
pub mod places;
pub mod proofs;
pub mod readme;
pub mod refusal;
pub mod resolution;
pub mod runs;
pub mod schemas;
pub mod screens;
pub mod spoken;
pub mod stream;
pub mod structure;
pub mod target;
pub mod times;
pub mod turns;
pub mod vision;

pub use command::{AS_TOOL, main};
pub use fusee_tester::{case, queue};
