//! The virtual counter in nanoseconds, and the timer of this CPU.

use core::arch::asm;

/// Converts between the counter and nanoseconds.
#[derive(Clone, Copy)]
pub struct Clock {
    /// Ticks in a second.
    frequency: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Clock {
    /// Reads the counter's frequency and switches the timer on, disarmed.
    pub fn start() -> Self {
        let frequency: u64;
        // SAFETY: reading CNTFRQ_EL0 changes nothing.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
        let clock = Self { frequency: frequency.max(1) };
        clock.arm(None);
        // SAFETY: the timer is ours; all it does is raise an interrupt.
        unsafe { asm!("msr cntv_ctl_el0, {}", "isb", in(reg) 1_u64, options(nomem, nostack)) };
        clock
    }

    /// Whether time consists of executed instructions. QEMU counts executed instructions as an event if, and only if, its time is made of them.
    pub fn is_exact() -> bool {
        const INSTRUCTIONS: u64 = 8;
        let events: u64;
        // SAFETY: reading PMCEID0_EL0 changes nothing.
        unsafe { asm!("mrs {}, pmceid0_el0", out(reg) events, options(nomem, nostack)) };
        events >> INSTRUCTIONS & 1 == 1
    }

    /// Nanoseconds since the counter started.
    pub fn now(&self) -> u64 {
        let ticks: u64;
        // SAFETY: reading CNTVCT_EL0 changes nothing.
        unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        if self.frequency == SECOND {
            return ticks;
        }
        (u128::from(ticks) * u128::from(SECOND) / u128::from(self.frequency)) as u64
    }

    /// Lets the timer fire at `at`, not before; or never.
    pub fn arm(&self, at: Option<u64>) {
        let ticks = match at {
            Some(at) if self.frequency == SECOND => at,
            Some(at) => {
                let ticks = (u128::from(at) * u128::from(self.frequency)).div_ceil(u128::from(SECOND));
                u64::try_from(ticks).unwrap_or(u64::MAX)
            }
            None => u64::MAX,
        };
        // SAFETY: as in `start`.
        unsafe { asm!("msr cntv_cval_el0, {}", "isb", in(reg) ticks, options(nomem, nostack)) };
    }
}
