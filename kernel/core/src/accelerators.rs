//! Engines: their holders and doorbells, clients without a lock, and watchdogs.

pub(crate) mod engine;
pub(crate) mod engines;
pub(crate) mod gates;
mod spatial;
mod watchdog;
pub(crate) mod watches;
