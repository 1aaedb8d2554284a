//! What every driver server shares: a typed window on its device, and the loop of a bottom half.
//!
//! A driver is a task like any other. It reaches its device through a region the manifest gives it, hears of
//! interrupts through a notification, and serves clients through an endpoint. It runs with the key and budget of
//! whoever waits for it; nothing here knows about that.
//!
//! Lives here: [`registers`] (the one place where a region becomes registers) and [`Driver`]. Does not: devices.
#![no_std]

mod registers;
mod server;

pub use registers::{ClaimError, claim};
pub use safe_mmio;
pub use server::{Driver, REQUEST};
