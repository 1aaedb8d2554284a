//! Boards: where things are, and the few devices the kernel itself drives.
//!
//! One module per board ([`virt`]) holds addresses and numbers, nothing else. The drivers beside them are
//! shared: interrupt controller (`gic`, `its`), panic console (`pl011`), CPU power (`psci`), and the
//! emulator's door (`semihosting`). Each is told *where* its device is, so that the kernel (translation on)
//! and the engine firmware (translation off) use the same code.
//!
//! Not here: policy of any kind, and devices that user-level drivers serve.
#![no_std]

pub mod device_tree;
#[cfg(target_os = "none")]
pub mod entry;
#[cfg(target_os = "none")]
pub mod gic;
#[cfg(target_os = "none")]
pub mod its;
#[cfg(target_os = "none")]
mod mmio;
#[cfg(target_os = "none")]
pub mod pl011;
#[cfg(target_os = "none")]
pub mod psci;
#[cfg(target_os = "none")]
pub mod semihosting;
pub mod virt;

/// What a CPU does between two looks at something that will change soon: hint that others should run.
///
/// Not `core::hint::spin_loop`, which is `isb` here and, under an emulator that runs one CPU at a time, keeps
/// the CPU waited for from running.
#[cfg(target_os = "none")]
#[inline]
pub fn relax() {
    // SAFETY: `yield` is a hint; it changes no state.
    unsafe { core::arch::asm!("yield", options(nomem, nostack, preserves_flags)) };
}
