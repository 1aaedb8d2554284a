//! CPU power through the firmware: PSCI by `smc` or `hvc`, as the device tree says.

use smccc::{Hvc, Smc, psci};

use crate::device_tree;

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

impl Conduit {
    /// What `/psci/method` says; `None` if there is no such node or it says something else.
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
    /// CPUs at, and `argument` is what that code expects.
    pub unsafe fn start_cpu(self, affinity: u64, entry: u64, argument: u64) -> Result<(), Refused> {
        let result = match self {
            Self::Smc => psci::cpu_on::<Smc>(affinity, entry, argument),
            Self::Hvc => psci::cpu_on::<Hvc>(affinity, entry, argument),
        };
        result.map_err(|_| Refused)
    }

    /// Switches the board off. Returns only if the firmware does not know how.
    pub fn switch_off(self) {
        // An error leaves us running, which is what returning says.
        let _ = match self {
            Self::Smc => psci::system_off::<Smc>(),
            Self::Hvc => psci::system_off::<Hvc>(),
        };
    }
}
