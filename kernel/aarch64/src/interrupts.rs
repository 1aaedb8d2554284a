//! From an interrupt's number to a trap, and kicks.

use core::sync::atomic::{AtomicU32, Ordering};

use fusee_bsp::gic;
use fusee_bsp::virt as board;
use fusee_kernel_core::CpuSet;
use fusee_kernel_core::id::InterruptId;
use fusee_kernel_core::limits::CPUS;

use crate::cell::BootCell;
use crate::{machine, panic};

/// Software interrupt: look at your plan again.
pub const KICK: u32 = 0;
/// Software interrupt to oneself: the system ends.
pub const SHUTDOWN: u32 = 1;
/// The CPU's own timer.
pub const TIMER: u32 = board::TIMER_INTERRUPT;
/// What each CPU of the kernel takes, besides device lines.
pub const PRIVATE: [u32; 3] = [KICK, SHUTDOWN, TIMER];

/// The kernel's interrupt for each line.
static LINES: BootCell<[Option<InterruptId>; gic::LINES]> = BootCell::new([None; gic::LINES]);

/// The value that kicks each CPU.
static KICKS: BootCell<[u64; CPUS]> = BootCell::new([0; CPUS]);

/// Exit code of a system that ends.
static EXIT_CODE: AtomicU32 = AtomicU32::new(0);

/// Makes `interrupt` stand for `line`.
///
/// # Panics
/// There is no such line.
///
/// # Safety
/// As [`BootCell::set`].
pub unsafe fn assign(line: u32, interrupt: InterruptId) {
    // SAFETY: alone: promised by our caller. The reference ends with this function.
    let lines = unsafe { LINES.change() };
    lines[line as usize] = Some(interrupt);
}

/// Sets how the kernel's CPU `index` is kicked: by its affinity on the board.
///
/// # Safety
/// As [`BootCell::set`].
pub unsafe fn set_affinity(index: usize, affinity: u64) {
    // SAFETY: alone: promised by our caller. The reference ends with this function.
    let kicks = unsafe { KICKS.change() };
    kicks[index] = gic::software_interrupt(affinity, KICK);
}

/// The kernel's interrupt for the line `number`.
#[inline(always)]
pub fn of_line(number: u32) -> Option<InterruptId> {
    LINES.get().get(number as usize).copied().flatten()
}

/// Deals with a number that no object stands for: the end of the system, or a line to be silenced.
#[cold]
pub fn refuse(number: u32) {
    if number == SHUTDOWN {
        // Relaxed: stored by this CPU, in `shut_down`.
        panic::exit(EXIT_CODE.load(Ordering::Relaxed));
    }
    if number >= gic::SHARED {
        machine::distributor().set_enabled(number, false);
    }
}

/// Interrupts other CPUs.
#[inline]
pub fn kick(cpus: CpuSet) {
    for cpu in cpus.iter() {
        gic::send(KICKS.get()[cpu.index() % CPUS]);
    }
}

/// Ends the system with `code` as soon as this CPU leaves the kernel or idles: by a software interrupt to
/// itself, so that no trap has to ask whether the system ends.
#[cold]
pub fn shut_down(code: u32) {
    // Relaxed: read by this CPU, in `refuse`.
    EXIT_CODE.store(code, Ordering::Relaxed);
    let kick = KICKS.get()[crate::cpu::current().index() % CPUS];
    gic::send(kick | u64::from(SHUTDOWN) << 24);
}
