//! What every driver server shares: a typed window on its device.
//!
//! A driver is a task like any other. It reaches its device through a region the manifest gives it, hears of
//! interrupts through a notification, and serves clients through an endpoint. It runs with the key and budget of
//! whoever waits for it; nothing here knows about that.
//!
//! Lives here: `registers`, the one place where a region becomes registers. Does not: devices.
#![no_std]

mod registers;

pub use registers::{ClaimError, claim};
pub use safe_mmio;
