//! The serial line, for panics only: polled, no interrupts, no set-up. The console driver owns it otherwise.

use core::fmt;
use core::ptr::NonNull;

use crate::mmio::Registers;

const DATA: usize = 0x00;
const FLAGS: usize = 0x18;
const TRANSMIT_FULL: u32 = 1 << 5;
/// Looks at the flags for one byte; a line that is still full then loses it, rather than hang a panic.
const PATIENCE: u32 = 100_000;

/// A PL011 at some address.
pub struct Pl011(Registers);

impl Pl011 {
    /// The serial line whose registers are at `base`.
    ///
    /// # Safety
    /// `base` is mapped as device memory for 4 KiB and is a PL011 that the firmware has switched on.
    pub const unsafe fn new(base: NonNull<u8>) -> Self {
        // SAFETY: mapped: promised by our caller. Harmless: a PL011 writes no memory.
        Self(unsafe { Registers::new(base) })
    }
}

impl fmt::Write for Pl011 {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            for _ in 0..PATIENCE {
                if self.0.read32(FLAGS) & TRANSMIT_FULL == 0 {
                    break;
                }
            }
            self.0.write32(DATA, u32::from(byte));
        }
        Ok(())
    }
}
