//! Systems of this repository under random calls and under ends of tasks, and the keys of manifests: one module for each theme.
//!
//! One crate, so that the kernel and the device model are linked once. Campaigns are drawn by `research`.

mod advise;
mod arranged;
mod by_clock;
mod decided;
mod keys;
mod lives;
mod obligations;
mod stress;
