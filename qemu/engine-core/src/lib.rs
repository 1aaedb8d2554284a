//! The accelerators: `qemu/device-model`, once for each device, as the firmware of a CPU of its own.
//!
//! Two things wake the CPU: a client's kick (a store to the interrupt translation page, which the kernel has
//! routed here, or a software interrupt that the kernel sends for it) and the timer. It then lets each device look at the world, takes the actions
//! that the device asks for, and sleeps again; it never spins. The kernel, which starts it, gives it the address of its `firmware::Blocks`.
//!
//! A firmware is a program with [`firmware!`], which names the kernels of its devices. Their work is done on stacks of their own, a slice at a
//! time (`worker`), so that a kernel that does not end, or fills its stack, or panics, keeps no device from anything.
//!
//! # Invariants
//!
//! 1. The target has no unaligned accesses, and `memory` makes none.
//! 2. Interrupts stay masked but in kernels. They end a `wfi` all the same, and are fetched from the controller.
//! 3. Only the device keeps state of a kernel between slices: registers and stack of one device are no other's.
//!
//! Not here: the work of a device (`qemu/device-model`), the way of kicks to this CPU (`kernel/aarch64`).
#![cfg_attr(target_os = "none", no_std)]

#[cfg(target_os = "none")]
mod clock;
#[cfg(target_os = "none")]
mod firmware;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
mod translation;
#[cfg(target_os = "none")]
mod worker;

pub use fusee_compute::Entry;
pub use fusee_library::KERNELS;

/// Makes a program the firmware of an engine CPU: a table of kernels for each device, in the order of the manifest's devices. A device beyond them has
/// those of [`fusee_library`].
///
/// ```ignore
/// fusee_engine_core::firmware!([picture_kernels::KERNELS]);
/// ```
#[macro_export]
macro_rules! firmware {
    ([$($table:expr),* $(,)?]) => {
        /// The kernels of the device in this place.
        // SAFETY: the one symbol of this name, of the type that the firmware expects.
        #[unsafe(export_name = "engine_kernels")]
        fn engine_kernels(device: usize) -> &'static [$crate::Entry] {
            const TABLES: &[&[$crate::Entry]] = &[$($table),*];
            TABLES.get(device).copied().unwrap_or($crate::KERNELS)
        }

        /// On a host there is nothing to run.
        #[cfg(not(target_os = "none"))]
        fn main() {
            let _ = engine_kernels;
        }
    };
}
