//! The accelerators: `qemu/device-model`, once for each device, as the firmware of a CPU of its own.
//!
//! Two things wake the CPU: a client's kick (a store to the interrupt translation page, which the kernel has
//! routed here) and the timer. It then lets each device look at the world, does what the device asks for, and
//! sleeps again; it never spins. The kernel, which starts it, gives it the address of its [`firmware::Blocks`].
//!
//! # Invariants
//!
//! 1. Translation is off, so every access is aligned: the target has no unaligned accesses, and [`memory`]
//!    makes none.
//! 2. Interrupts stay masked. They end a `wfi` all the same, and are fetched from the controller.
//!
//! Not here: what the device does (`qemu/device-model`), how kicks find us (`kernel/aarch64`).
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod clock;
#[cfg(target_os = "none")]
mod firmware;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod start;

/// On a host there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {}
