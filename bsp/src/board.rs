//! The board that this is built for: its numbers, made of `boards/NAME.toml` by the build script.
//!
//! ```text
//! memory.kernel      kernel image, then the packed system          linker/kernel.ld
//! memory.kernel_end  kernel memory: zeroed, then not zeroed         linker/kernel.ld
//!                    the device tree, on the next 2 MiB boundary    the loader, by the image header's size
//! memory.firmware    engine firmware                                linker/firmware.ld
//! memory.pool        memory of tasks, addresses given out by xtask
//! MEMORY.end         end of the memory that the kernel maps
//! ```

use core::ops::Range;

use crate::start::Start;

include!(concat!(env!("OUT_DIR"), "/board.rs"));

/// The device of the kernel's in `range`, if there is one.
#[must_use]
pub fn owned_in(range: &Range<u64>) -> Option<&'static str> {
    let touches = |own: &Range<u64>| range.start < own.end && own.start < range.end;
    OWNED.iter().find(|(_, own)| touches(own)).map(|(name, _)| *name)
}

/// `MPIDR_EL1` of the board's CPU `index`, affinity fields only.
#[must_use]
pub const fn affinity(index: usize) -> u64 {
    (index % CLUSTER) as u64 | ((index / CLUSTER) as u64) << 8
}

/// The inverse of [`affinity`].
#[must_use]
pub const fn index(affinity: u64) -> usize {
    (affinity & 0xff) as usize + (affinity >> 8 & 0xff) as usize * CLUSTER
}
