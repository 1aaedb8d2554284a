//! The simulator's tests of the kernel: scenarios, attacks and random systems, one module for each theme.
//!
//! One crate, so that the kernel and the device model are linked once. `cargo test -p fusee-simulator --test all deaths::` runs one theme.

mod common;

mod bounds;
mod buses;
mod credits;
mod deaths;
mod explain;
mod fast_paths;
mod gpu_job;
mod grants;
mod graphs;
mod images;
mod instants;
mod interrupts;
mod isolation;
mod keys;
mod ledgers;
mod lives;
mod loans;
mod overheads;
mod picture;
mod random;
mod refusals;
mod requests;
mod scenarios;
mod services;
mod sharers;
mod waiting;
mod watchdog;
