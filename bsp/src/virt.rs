//! QEMU's `virt` machine with GICv3 and at least 256 MiB of memory.
//!
//! ```text
//! 0x0000_0000  devices (1 GiB)
//! 0x4008_0000  kernel image, then the packed system          linker/kernel.ld
//! 0x4800_0000  kernel memory: zeroed, then not zeroed         linker/kernel.ld
//!              the device tree, on the next 2 MiB boundary    QEMU, by the image header's size
//! 0x4b00_0000  engine firmware                                linker/firmware.ld
//! 0x4c00_0000  memory of tasks, addresses given out by xtask
//! 0x5000_0000  end of what the kernel maps
//! ```
//!
//! Source of the device addresses: QEMU 7.2 `hw/arm/virt.c`, the same in 10.0.

use core::ops::Range;

/// Windows that hold devices.
pub const DEVICES: Range<u64> = 0..0x4000_0000;
/// Memory the kernel maps for itself.
pub const MEMORY: Range<u64> = 0x4000_0000..0x5000_0000;

/// The interrupt controller's distributor.
pub const GIC_DISTRIBUTOR: u64 = 0x0800_0000;
/// The first CPU's redistributor; the others follow.
pub const GIC_REDISTRIBUTORS: u64 = 0x080a_0000;
/// The interrupt translation service.
pub const ITS: u64 = 0x0808_0000;
/// Devices that are the kernel's alone, by name: a task that could write there would be the kernel. The page through which an interrupt can
/// be sent to the translation service is not among them: engines are kicked through it.
pub const OWNED: [(&str, Range<u64>); 3] = [
    ("the interrupt distributor", GIC_DISTRIBUTOR..ITS),
    ("the interrupt translation service", ITS..ITS_TRANSLATER),
    ("the interrupt redistributors", ITS_TRANSLATER_END..UART),
];
/// The translation service's page for messages.
const ITS_TRANSLATER: u64 = ITS + 0x1_0000;
const ITS_TRANSLATER_END: u64 = ITS_TRANSLATER + 0x1000;

/// The device of the kernel's in `range`, if there is one.
#[must_use]
pub fn owned_in(range: &Range<u64>) -> Option<&'static str> {
    let touches = |own: &Range<u64>| range.start < own.end && own.start < range.end;
    OWNED.iter().find(|(_, own)| touches(own)).map(|(name, _)| *name)
}

/// The first serial line.
pub const UART: u64 = 0x0900_0000;
/// The interrupt number of each CPU's virtual timer.
pub const TIMER_INTERRUPT: u32 = 27;
/// The interrupt number of each CPU's physical timer, which the kernel uses to nap.
pub const NAP_INTERRUPT: u32 = 30;
/// Most CPUs of the board.
pub const CPUS: usize = 16;

/// `MPIDR_EL1` of the board's CPU `index`, affinity fields only: sixteen CPUs share an affinity 1.
#[must_use]
pub const fn affinity(index: usize) -> u64 {
    (index as u64 & 0xf) | (index as u64 >> 4) << 8
}
