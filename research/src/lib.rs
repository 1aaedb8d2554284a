//! Measurements, experiments and campaigns.
//!
//! ```text
//! command    the command line, and which module carries out a command
//! bench      `cargo xtask bench`
//! profile    `cargo xtask profile`
//! purposes   the purpose of each function of the kernel
//! clients    `bench`: clients of a server
//! crowd      `bench`: the cost of scheduling among many tasks
//! sizes      sizes of the kernel, and their limits
//! worst      `cargo xtask worst`
//! adversary  `worst`: systems that make traps as long as they can be
//! contention `cargo xtask contention`
//! coverage   `cargo xtask coverage`
//! fuzz       `cargo xtask fuzz`: bytes that break readers of foreign bytes
//! experiment `cargo xtask experiment`: arrangements of one workload, compared
//! faults     `experiment faults`: the demo while tasks of it end
//! campaign   `cargo xtask campaign`: random systems in large numbers, and the budget of them in the suite
//! runs       runs in QEMU that are beside others, or killed, as campaigns
//! by_clock   clusters that compute by the clock, as a campaign
//! decided    clusters that share a device which decides, as a campaign
//! launches   random launches of GPU kernels, as a campaign
//! hostile    `cargo xtask hostile`: whether proofs hold among tasks that do anything
//! soundness  whether observed lateness stays within its bounds
//! study      `cargo xtask study`: 57 arrangements of CPUs and GPUs, compared by random task sets
//! ```
//!
//! Not here: building and running (`tools/host`), commands of users (`tools/fusee`), checks of this repository (`tests/systems`).
#![forbid(unsafe_code)]
// `words::print` handles a closed pipe and a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout))]
// The library of a program: its documentation is for those who change it.
#![allow(rustdoc::private_intra_doc_links)]

pub mod adversary;
pub mod bench;
pub mod by_clock;
pub mod campaign;
pub mod clients;
pub mod command;
pub mod contention;
pub mod coverage;
pub mod crowd;
pub mod decided;
pub mod experiment;
pub mod faults;
pub mod fuzz;
pub mod hostile;
pub mod launches;
pub mod profile;
pub mod purposes;
pub mod runs;
pub mod sizes;
pub mod soundness;
pub mod study;
pub mod worst;
