//! Time: the virtual counter, in nanoseconds since the kernel's time zero, and this CPU's timer.
//!
//! The counter's frequency is read, never assumed. At 1 GHz a tick is a nanosecond and nothing is computed;
//! otherwise conversion is a multiplication by `nanoseconds / tick * 2^32`, rounded down, so that time never
//! runs ahead; timers round up, so that a timer never fires before the instant it was set to.

use core::arch::asm;

use aarch64_cpu::registers::{CNTFRQ_EL0, CNTKCTL_EL1, CNTV_CTL_EL0};
use fusee_sched::time::{Instant, divide_up};
use tock_registers::interfaces::{Readable, Writeable};

use crate::cell::BootCell;

/// How the counter relates to time.
struct Rate {
    /// The counter at time zero.
    zero: u64,
    /// Nanoseconds in 2^32 ticks; zero: a tick is a nanosecond.
    scale: u64,
}

static RATE: BootCell<Rate> = BootCell::new(Rate { zero: 0, scale: 0 });

/// Makes now the kernel's time zero.
///
/// # Safety
/// As [`BootCell::set`]: only the boot CPU, alone.
pub unsafe fn start() {
    const SECOND: u64 = 1_000_000_000;
    let frequency = CNTFRQ_EL0.get();
    // Frequencies below a megahertz are left out, which keeps the scale within the range of `divide_up`.
    assert!(frequency >= 1_000_000, "CNTFRQ_EL0 says {frequency} Hz: the firmware has not set it");
    let scale = if frequency == SECOND { 0 } else { (SECOND << 32) / frequency };
    // SAFETY: we are alone: promised by our caller.
    unsafe { RATE.set(Rate { zero: counter(), scale }) };
}

/// Ticks of the counter in a second.
#[inline(always)]
pub fn frequency() -> u64 {
    CNTFRQ_EL0.get()
}

/// Makes the calling CPU's timer ready, disarmed, and lets tasks read the counter.
pub fn enter() {
    disarm();
    CNTV_CTL_EL0.write(CNTV_CTL_EL0::ENABLE::SET);
    CNTKCTL_EL1.write(CNTKCTL_EL1::EL0VCTEN::SET);
}

/// The counter. Not ordered with other instructions: reads some nanoseconds early at worst.
#[inline(always)]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: CNTVCT_EL0 is readable at EL1 and reading it changes nothing. Volatile by default, so that two
    // reads are two reads.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// The time now.
#[inline(always)]
pub fn now() -> Instant {
    let rate = RATE.get();
    let ticks = counter().wrapping_sub(rate.zero);
    if rate.scale == 0 { Instant(ticks) } else { scaled(ticks, rate.scale) }
}

/// A call, so that it is not computed where a tick is a nanosecond.
#[cold]
#[inline(never)]
fn scaled(ticks: u64, scale: u64) -> Instant {
    Instant(((u128::from(ticks) * u128::from(scale)) >> 32) as u64)
}

/// Sets this CPU's timer to fire at `at`, or at once if that has passed, or never.
#[inline(always)]
pub fn arm(at: Instant) {
    let rate = RATE.get();
    let ticks = if rate.scale == 0 { at.0 } else { ticks_until(at, rate.scale) };
    let compare = rate.zero.saturating_add(ticks);
    // SAFETY: CNTV_CVAL_EL0 is writable at EL1 and touches no memory.
    unsafe { asm!("msr cntv_cval_el0, {}", in(reg) compare, options(nomem, nostack, preserves_flags)) };
}

/// Keeps this CPU's timer from firing.
#[inline(always)]
fn disarm() {
    // SAFETY: as in `arm`.
    unsafe { asm!("msr cntv_cval_el0, {}", in(reg) u64::MAX, options(nomem, nostack, preserves_flags)) };
}

/// Sleeps for 20 microseconds, or until an interrupt, or not at all if this CPU has not entered service. By the
/// physical timer, which has no other user; its interrupt is never taken.
#[cold]
pub fn nap() {
    if !CNTV_CTL_EL0.is_set(CNTV_CTL_EL0::ENABLE) {
        return;
    }
    let ticks = CNTFRQ_EL0.get() / 50_000;
    // SAFETY: the timer is ours and off again at the end; `wfi` waits. No memory is touched.
    unsafe {
        asm!(
            "msr cntp_tval_el0, {ticks}",
            "msr cntp_ctl_el0, {on}",
            "isb",
            "wfi",
            "msr cntp_ctl_el0, xzr",
            "isb",
            ticks = in(reg) ticks,
            on = in(reg) 1_u64,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// The smallest number of ticks with a time that is not before `at`.
#[cold]
#[inline(never)]
fn ticks_until(at: Instant, scale: u64) -> u64 {
    if at == Instant::NEVER {
        return u64::MAX;
    }
    divide_up(at.0, scale)
}
