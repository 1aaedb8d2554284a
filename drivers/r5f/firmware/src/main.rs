//! Firmware of a Cortex-R5F that runs the kernels of `accel/library`: one request from reset to sleep.
//!
//! The processor begins at address 0 when it is released from reset, which is how the driver tells it that there is a request. It reads the mailbox
//! (`drivers/r5f/commands/src/mailbox.rs`), computes, answers, makes a channel of the DMA controller raise an
//! interrupt, since it cannot itself, and sleeps until it is reset. So it gets no request while it is at work, and from any state
//! the next request begins at address 0 again.
//!
//! # Invariants
//!
//! 1. It touches its own memory, the memory that the request names, and the word that the request says it shall kick. Nothing holds it to that: no
//!    unit between it and memory translates or forbids. It is trusted with all memory, as a kernel is.
//! 2. It never polls. Emulated CPUs share one timeline, and this one would take a share of each instant.
//! 3. Nothing it needs is left over from an earlier request: its memory is as that one left it.
#![cfg_attr(target_arch = "arm", no_std, no_main)]

#[cfg(target_arch = "arm")]
mod memory;
#[cfg(target_arch = "arm")]
mod start;
#[cfg(target_arch = "arm")]
mod work;

/// On another processor there is nothing to run.
#[cfg(not(target_arch = "arm"))]
fn main() {}
