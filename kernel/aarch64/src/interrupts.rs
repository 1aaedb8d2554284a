//! From an interrupt's number to a trap, and kicks.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use fusee_bsp::board;
use fusee_bsp::controller::{Controller, Target};
use fusee_bsp::interrupt::{LINES as NUMBERS, SHARED};
use fusee_kernel_core::CpuSet;
use fusee_kernel_core::id::InterruptId;
use fusee_kernel_core::limits::CPUS;

use crate::cell::BootCell;
use crate::translation::direct;
use crate::{panic, speak};

/// Software interrupt: look at your plan again.
pub const KICK: u32 = 0;
/// Software interrupt to oneself: the system ends.
pub const SHUTDOWN: u32 = 1;
/// The CPU's own timer.
pub const TIMER: u32 = board::TIMER_INTERRUPT;
/// The interrupts that each CPU of the kernel takes, besides device lines.
pub const PRIVATE: [u32; 3] = [KICK, SHUTDOWN, TIMER];

/// The kernel's interrupt for each line.
static LINES: BootCell<[Option<InterruptId>; NUMBERS]> = BootCell::new([None; NUMBERS]);

/// How each CPU is reached.
static TARGETS: BootCell<[Target; CPUS]> = BootCell::new([Target::NONE; CPUS]);

/// Exit code of a system that ends.
static EXIT_CODE: AtomicU32 = AtomicU32::new(0);

/// The interrupt controller.
#[inline(always)]
pub fn controller() -> Controller {
    let (distributor, cpu) = (NonNull::new(direct(board::DISTRIBUTOR)), NonNull::new(direct(board::CPU_INTERFACE)));
    let (distributor, cpu) = (distributor.unwrap_or(NonNull::dangling()), cpu.unwrap_or(NonNull::dangling()));
    // SAFETY: the board has its controller there, and the kernel's tables map all of `board::DEVICES`. CPUs take interrupts once they have
    // entered service (`smp::enter`).
    unsafe { Controller::new(distributor, cpu) }
}

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
    let targets = unsafe { TARGETS.change() };
    targets[index] = Target::of(affinity);
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
        speak::stop_others();
        // Relaxed: stored by this CPU, in `shut_down`.
        panic::exit(EXIT_CODE.load(Ordering::Relaxed));
    }
    if number >= SHARED {
        controller().set_enabled(number, false);
    }
}

/// Interrupts other CPUs.
#[inline(never)]
pub fn kick(cpus: CpuSet) {
    for cpu in cpus.iter() {
        controller().send(TARGETS.get()[cpu.index() % CPUS], KICK);
    }
}

/// Ends the system with `code` as soon as this CPU leaves the kernel or idles: by a software interrupt to
/// itself, so that no trap has to ask whether the system ends.
#[cold]
pub fn shut_down(code: u32) {
    // Relaxed: read by this CPU, in `refuse`.
    EXIT_CODE.store(code, Ordering::Relaxed);
    controller().send(TARGETS.get()[crate::cpu::current().index() % CPUS], SHUTDOWN);
}
