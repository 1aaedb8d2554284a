//! Boards: where things are, and the few devices the kernel itself drives.
//!
//! [`board`] holds the addresses and numbers of the board that this is built for, from its file in `boards`, nothing else. The drivers beside it are
//! shared: interrupt controllers (`gicv3` with `its`, `gicv2`, `bcm2836`: one of them is [`controller`], and [`interrupt`] is their common part),
//! panic console (`console`), the SMMU (`smmuv3`), CPUs and power ([`start`]), and the emulator's door (`semihosting`). Each is told *where* its
//! device is, so that the kernel (translation on) and the engine firmware (translation off) use the same code.
//!
//! Not here: policy of any kind, and devices that user-level drivers serve.
#![no_std]

pub mod board;
#[cfg(target_os = "none")]
pub mod console;
#[cfg(target_os = "none")]
#[cfg_attr(controller = "gicv3", path = "gicv3.rs")]
#[cfg_attr(controller = "gicv2", path = "gicv2.rs")]
#[cfg_attr(controller = "bcm2836", path = "bcm2836.rs")]
pub mod controller;
pub mod device_tree;
#[cfg(target_os = "none")]
pub mod entry;
pub mod interrupt;
#[cfg(target_os = "none")]
pub mod its;
#[cfg(target_os = "none")]
mod mmio;
#[cfg(target_os = "none")]
pub mod semihosting;
#[cfg(target_os = "none")]
pub mod smmuv3;
pub mod start;

/// The step of a CPU between two looks at something that will change soon: hint that others should run.
///
/// Not `core::hint::spin_loop`, which is `isb` here and, under an emulator that runs one CPU at a time, keeps
/// the CPU waited for from running.
#[cfg(target_os = "none")]
#[inline]
pub fn relax() {
    // SAFETY: `yield` is a hint; it changes no state.
    unsafe { core::arch::asm!("yield", options(nomem, nostack, preserves_flags)) };
}
