//! The other CPUs: how they start, and the steps of every CPU before it enters service.

use core::ptr::NonNull;

use aarch64_cpu::asm::barrier;
use aarch64_cpu::registers::{CPACR_EL1, SCTLR_EL1};
use fusee_bsp::board;
use fusee_bsp::controller::Setup;
#[cfg(not(start = "spin-table"))]
use fusee_bsp::start::Conduit;
use fusee_kernel_core::CpuId;
use tock_registers::interfaces::{ReadWriteable, Writeable};

use crate::cell::BootCell;
use crate::cpu::{self, Cpu};
use crate::translation::direct;
#[cfg(not(start = "spin-table"))]
use crate::translation::physical;
use crate::trap::State;
use crate::{clock, interrupts, speak, trap, vectors};

/// How many of the board's CPUs lie between two of the kernel's.
static STRIDE: BootCell<usize> = BootCell::new(0);

/// The place of the kernel's CPU `id` in the board's list.
pub fn on_board(id: usize) -> usize {
    id * *STRIDE.get()
}

/// Settles which of the board's CPUs are the kernel's.
///
/// # Safety
/// As [`BootCell::set`].
pub unsafe fn settle(cpus: usize, stride: usize) {
    // SAFETY: promised by our caller.
    unsafe { STRIDE.set(stride) };
    for index in 0..cpus {
        let affinity = board::affinity(on_board(index));
        // SAFETY: promised by our caller.
        unsafe { interrupts::set_affinity(index, affinity) };
    }
}

/// Takes hold of the interrupt controller.
///
/// # Safety
/// Nothing else sets it up meanwhile: the caller is the boot CPU alone, or holds the kernel's lock.
pub unsafe fn controller() -> Setup {
    let places = (NonNull::new(direct(board::DISTRIBUTOR)), NonNull::new(direct(board::CPU_INTERFACE)));
    let (Some(distributor), Some(cpu)) = places else { panic!("the upper half begins at zero") };
    // SAFETY: the board has its controller there, mapped as `board::DEVICES`; alone: promised by our caller.
    match unsafe { Setup::new(distributor, cpu, board::CPUS) } {
        Ok(setup) => setup,
        Err(_) => panic!("no interrupt controller where the board has one"),
    }
}

/// The calling CPU's part of entering service: interrupts, timer, no floating point. Under the kernel's lock.
pub fn enter(id: CpuId, _lock: &mut State) {
    // SAFETY: a `State` borrowed mutably is the kernel's lock.
    let mut controller = unsafe { controller() };
    if controller.enter(on_board(id.index()), &interrupts::PRIVATE, board::NAP_INTERRUPT).is_err() {
        panic!("the board has no CPU {}", on_board(id.index()));
    }
    clock::enter();
}

/// The settings that a CPU needs before it may run the kernel with the kernel's own tables.
pub fn harden() {
    vectors::install();
    // Floating point traps, at EL1 too: the kernel has none.
    CPACR_EL1.set(0);
    // Writable memory is not executable, with any table.
    SCTLR_EL1.modify(SCTLR_EL1::WXN::Enable);
    barrier::isb(barrier::SY);
}

/// Starts the kernel's CPU `id`, by the firmware.
///
/// # Panics
/// The firmware refuses: the board has fewer CPUs than the system was made for.
///
/// # Safety
/// Called once for each `id` but the boot CPU's; the kernel's tables are complete.
#[cfg(not(start = "spin-table"))]
pub unsafe fn start(conduit: Conduit, id: CpuId) {
    unsafe extern "C" {
        #[link_name = "fusee_secondary_start"]
        static SECONDARY_START: u8;
    }
    // SAFETY: the CPU has not started: promised by our caller.
    let cpu = unsafe { cpu::prepare(id) };
    let entry = physical(&raw const SECONDARY_START);
    let affinity = board::affinity(on_board(id.index()));
    // SAFETY: `fusee_secondary_start` is made for this, and wants the address of a prepared `Cpu`.
    let started = unsafe { conduit.start_cpu(affinity, entry, cpu.as_ptr() as u64) };
    assert!(started.is_ok(), "the firmware does not start CPU {} of the board", on_board(id.index()));
}

/// The first Rust code of another CPU: translation on, the kernel's tables, its own stack.
///
/// # Safety
/// Called once per CPU by boot code, with the argument that [`start`] gave to the firmware.
#[unsafe(export_name = "fusee_secondary_main")]
unsafe extern "C" fn secondary_main(cpu: NonNull<Cpu>) -> ! {
    // SAFETY: `cpu` is from `prepare` for this CPU: `start` made the call.
    unsafe { cpu::adopt(cpu) };
    harden();
    crate::boot::leave_identity();
    // SAFETY: this CPU's own, for good: the only reference.
    let cpu = unsafe { &mut *cpu.as_ptr() };
    let id = cpu.id;
    speak::arrive(id.index());
    trap::run(cpu, |state| enter(id, state))
}
