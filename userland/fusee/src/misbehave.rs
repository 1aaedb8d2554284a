//! Faults on request, for tasks that test whether the kernel survives them.
//!
//! A system that keeps its promises ends the task at the first of these accesses. Should one of them come through, the
//! task ends itself with [`SURVIVED`] before it can act on the memory it broke.

use crate::{Engine, EngineGuard, Place, exit};
use core::arch::asm;

/// Exit code of a task with a fault that the kernel did not notice.
pub const SURVIVED: u64 = 99;

/// A fault to provoke.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Reads address zero.
    ReadNothing,
    /// Runs the bytes on the stack.
    RunData,
    /// Writes to the program's own instructions.
    WriteText,
    /// Runs an instruction that is none.
    UndefinedInstruction,
    /// Reads an address of the kernel.
    ReadKernel,
    /// Rings an engine without holding its lock.
    RingUnheld(Engine),
    /// Reads a region that is lent no more.
    ReadUnlent(Place),
}

/// The first instruction of the kernel on the board `virt`: mapped, but not for us (`linker/kernel.ld`). On the host it is an address of the host's kernel.
const KERNEL: u64 = 0xffff_ff80_4008_0000;

/// Instructions of the target.
#[cfg(not(door))]
macro_rules! either {
    ($target:literal, $host:literal) => {
        $target
    };
}

/// Instructions of the host, where the simulator runs the program.
#[cfg(door)]
macro_rules! either {
    ($target:literal, $host:literal) => {
        $host
    };
}

/// Provokes `fault`, and ends the task if that changed nothing.
pub fn provoke(fault: Fault) -> ! {
    match fault {
        Fault::ReadNothing => read(0),
        Fault::ReadKernel => read(KERNEL),
        Fault::RunData => {
            // `ret`, so that a machine that runs it comes back.
            let instructions = [either!(0xd65f_03c0_u32, 0xc3c3_c3c3_u32); 4];
            run(&raw const instructions as u64);
        }
        Fault::WriteText => write(provoke as *const () as u64 & !7),
        Fault::UndefinedInstruction => undefined(),
        Fault::ReadUnlent(place) => {
            let _ = place.shared().read_u64(0);
        }
        Fault::RingUnheld(engine) => engine.doorbell().write_u32(0, u32::MAX), // <- how 9 13
    }
    exit(SURVIVED)
}

/// Changes the count in the doorbell of an engine that is held, without a kick: [`EngineGuard`] lets no program do that.
pub fn miscount(guard: &EngineGuard<'_>, change: u32) {
    let doorbell = guard.engine().doorbell();
    doorbell.publish_u32(0, doorbell.read_u32(0).wrapping_add(change));
}

/// Stores `count` to the doorbell of an engine that is held, without a kick. Nothing is read there.
pub fn count_as(guard: &EngineGuard<'_>, count: u32) {
    guard.engine().doorbell().publish_u32(0, count);
}

/// Reads the word at `address`, if the kernel lets us.
pub fn peek(address: u64) {
    read(address);
}

/// Reads the word at `address` and writes it back, if the kernel lets us. The word must be ours alone to write.
pub fn poke(address: u64) {
    // SAFETY: the accesses must fault, or leave memory as it is: the word that is stored is the one that was read, and this task has one thread.
    unsafe {
        asm!(
            either!("ldr {1}, [{0}]", "mov {1}, [{0}]"),
            either!("str {1}, [{0}]", "mov [{0}], {1}"),
            in(reg) address,
            out(reg) _,
            options(nostack)
        );
    };
}

fn read(address: u64) {
    // SAFETY: the read must fault or be harmless: of memory it changes nothing, no caller reads a device, and the value is thrown away.
    unsafe { asm!(either!("ldr {0}, [{0}]", "mov {0}, [{0}]"), inout(reg) address => _, options(nostack)) }; // <- how 1 8 11
}

fn write(address: u64) {
    // SAFETY: the write must fault or be harmless. The kernel maps no text writable; should it come through, the
    // only caller leaves by `exit`, and the first two instructions of a function it never calls again are lost.
    unsafe { asm!(either!("str xzr, [{0}]", "mov qword ptr [{0}], 0"), in(reg) address, options(nostack)) }; // <- how 6
}

fn run(address: u64) {
    // SAFETY: the jump must fault or come back. The only caller passes the address of `ret` instructions.
    unsafe { asm!(either!("blr {0}", "call {0}"), in(reg) address, clobber_abi("C")) }; // <- how 2
}

fn undefined() {
    // SAFETY: the instruction is permanently undefined (Arm ARM, C6.2 UDF; Intel SDM, UD2): it faults, or changes nothing.
    unsafe { asm!(either!("udf #0", "ud2"), options(nostack)) }; // <- how 7
}
