//! Manifests that are accepted, refused and packed: one module for each theme.
//!
//! One crate, so that the library is linked once. `cargo test -p fusee-manifest --test all servers::` runs one theme.

mod common;

mod board_devices;
mod boards;
mod buses;
mod contexts;
mod devices;
mod errors;
mod graphs;
mod groups;
mod lives;
mod mistakes;
mod pack;
mod processors;
mod quantities;
mod servers;
mod short;
mod streams;
mod times;
mod told_devices;
mod trace;
mod uses;
mod verdicts;
