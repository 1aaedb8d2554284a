//! CPUs and power: the firmware's PSCI by `smc` or `hvc`, as the device tree or the board's file says, or a table of addresses at which CPUs look.

#[cfg(target_os = "none")]
use core::ptr::NonNull;

#[cfg(target_os = "none")]
use smccc::{Hvc, Smc, psci};

#[cfg(target_os = "none")]
use crate::device_tree;
#[cfg(target_os = "none")]
use crate::mmio::Registers;

/// How other CPUs are started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    /// By the firmware, which is called as the device tree says.
    AsTheTreeSays,
    /// By the firmware.
    Firmware(Conduit),
    /// By a store to a word of eight bytes for each CPU, of which the first is at this physical address: they wait until they find an address there.
    SpinTable(u64),
}

/// How the firmware is called.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Conduit {
    /// `smc`: we were started at EL2, or the firmware is at EL3.
    Smc,
    /// `hvc`: the firmware is above us at EL2.
    Hvc,
}

/// The firmware refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused;

#[cfg(target_os = "none")]
impl Conduit {
    /// The method by `/psci/method`; `None` if there is no such node or it says something else.
    #[must_use]
    pub fn from_device_tree(tree: &[u8]) -> Option<Self> {
        match device_tree::property(tree, b"psci", b"method")? {
            b"smc\0" => Some(Self::Smc),
            b"hvc\0" => Some(Self::Hvc),
            _ => None,
        }
    }

    /// Starts the CPU `affinity` at physical address `entry` with `argument` in its `x0`.
    ///
    /// # Errors
    /// [`Refused`]: there is no such CPU, or it is on already.
    ///
    /// # Safety
    /// `entry` is code made to be entered with translation off at the exception level the firmware starts
    /// CPUs at, and `argument` is the argument of that code.
    pub unsafe fn start_cpu(self, affinity: u64, entry: u64, argument: u64) -> Result<(), Refused> {
        let result = match self {
            Self::Smc => psci::cpu_on::<Smc>(affinity, entry, argument),
            Self::Hvc => psci::cpu_on::<Hvc>(affinity, entry, argument),
        };
        result.map_err(|_| Refused)
    }

    /// Resets the board. Returns only if the firmware does not know how.
    pub fn reset(self) {
        // As below.
        let _ = match self {
            Self::Smc => psci::system_reset::<Smc>(),
            Self::Hvc => psci::system_reset::<Hvc>(),
        };
    }

    /// Switches the board off. Returns only if the firmware does not know how.
    pub fn switch_off(self) {
        // An error leaves us running, which is the meaning of returning.
        let _ = match self {
            Self::Smc => psci::system_off::<Smc>(),
            Self::Hvc => psci::system_off::<Hvc>(),
        };
    }
}

/// Resets a BCM2835 by its watchdog, of which the registers of power management begin at `base` (its manual leaves them out: Linux,
/// `drivers/watchdog/bcm2835_wdt.c`). The board is reset some 150 microseconds later.
///
/// # Safety
/// `base` is mapped as device memory for 4 KiB, and there is such a device.
#[cfg(target_os = "none")]
pub unsafe fn reset_by_watchdog(base: NonNull<u8>) {
    const CONTROL: usize = 0x1c;
    const TICKS: usize = 0x24;
    /// In the upper byte of a stored word, or the store is ignored.
    const PASSWORD: u32 = 0x5a00_0000;
    const FULL_RESET: u32 = 1 << 5;
    // SAFETY: mapped: promised by our caller. Harmless: it writes no memory.
    let registers = unsafe { Registers::new(base) };
    registers.write32(TICKS, PASSWORD | 10);
    registers.write32(CONTROL, PASSWORD | FULL_RESET);
}
