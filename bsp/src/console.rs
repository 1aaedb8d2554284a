//! The serial line, for panics only: polled, no interrupts, no set-up. The console driver owns it otherwise.

use core::fmt;
use core::ptr::NonNull;

use crate::mmio::Registers;

/// The register that a byte is stored to, that which tells whether there is room, and its bit that says no. PL011: Arm DDI 0183, table 3-1.
#[cfg(console = "pl011")]
pub const PORT: (usize, usize, u32) = (0x00, 0x18, 1 << 5);
/// Cadence UART: UG1085, chapter 21.
#[cfg(console = "cadence")]
pub const PORT: (usize, usize, u32) = (0x30, 0x2c, 1 << 4);
/// The register and the bits that let it send and receive: it does neither after a reset, and no boot loader need have been there.
#[cfg(console = "cadence")]
pub const ENABLE: Option<(usize, u32)> = Some((0x00, 1 << 4 | 1 << 2));
/// The port does both after a reset, in an emulator; on a board a boot loader has set its rate and switched it on.
#[cfg(console = "pl011")]
pub const ENABLE: Option<(usize, u32)> = None;
/// Looks at the flags for one byte; a line that is still full then loses it, rather than hang a panic.
const PATIENCE: u32 = 100_000;

/// The serial line at some address.
pub struct Console(Registers);

impl Console {
    /// The serial line with registers at `base`.
    ///
    /// # Safety
    /// `base` is mapped as device memory for 4 KiB and is a serial line of the board's kind that the firmware has switched on.
    pub const unsafe fn new(base: NonNull<u8>) -> Self {
        // SAFETY: mapped: promised by our caller. Harmless: a serial line writes no memory.
        Self(unsafe { Registers::new(base) })
    }

    /// Sends a byte as it is, once there is room for it. The line was switched on by text that was written before.
    pub fn write_byte(&mut self, byte: u8) {
        let (data, flags, full) = PORT;
        for _ in 0..PATIENCE {
            if self.0.read32(flags) & full == 0 {
                break;
            }
        }
        self.0.write32(data, u32::from(byte));
    }
}

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some((register, bits)) = ENABLE {
            self.0.write32(register, bits);
        }
        text.bytes().for_each(|byte| self.write_byte(byte));
        Ok(())
    }

    /// Sends one character. Messages of the kernel are ASCII, for which this is shorter than the way of `core`.
    fn write_char(&mut self, one: char) -> fmt::Result {
        self.write_byte(u8::try_from(one).unwrap_or(b'?'));
        Ok(())
    }
}
