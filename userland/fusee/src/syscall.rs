//! The door to the kernel: `svc`, the counter, and the barriers of a doorbell.
//!
//! The meanings of registers are in `fusee_abi::call`. Four shapes of call exist, so that none loads
//! registers the kernel will not look at. Each exists a second time with a `nop` in place of the trap, for
//! benchmarks to subtract.
//!
//! Stubs are safe functions: a trap changes no memory of the task except shared memory (its doorbells
//! and regions come and go, and those are only reached by volatile accesses that fault while they are away).

use crate::raw::{Answer, MessageAnswer};
use core::arch::asm;
use fusee_sched::time::Nanoseconds;

macro_rules! stubs {
    ($instruction:literal) => {
        /// A call with two arguments and no deadline.
        #[inline(always)]
        pub fn plain(number: u64, first: u64, second: u64) -> Answer {
            let (code, value, third): (u64, u64, u64);
            // SAFETY: the compiler must know every register and all memory that the trap changes.
            // - Registers: the ABI names the results, all listed here as outputs; the kernel restores all others,
            //   flags and vector registers among them.
            // - Memory: without `nomem`, the compiler assumes that any reachable memory has changed; the kernel
            //   writes to none of the task's own.
            unsafe {
                asm!(
                    $instruction,
                    inlateout("x0") first => code,
                    inlateout("x1") second => value,
                    lateout("x2") third,
                    lateout("x3") _, lateout("x4") _, lateout("x5") _, lateout("x6") _, lateout("x7") _,
                    in("x8") number,
                    lateout("x10") _,
                    options(nostack, preserves_flags),
                );
            }
            Answer { code, value, second: third }
        }

        /// A call with a handle and a deadline.
        #[inline(always)]
        pub fn timed(number: u64, first: u64, deadline: u64) -> Answer {
            let (code, value): (u64, u64);
            // SAFETY: the compiler must know every register and all memory that the trap changes.
            // - Registers: the ABI names the results, all listed here as outputs; the kernel restores all others,
            //   flags and vector registers among them. `x1` goes in undefined: these calls ignore it.
            // - Memory: without `nomem`, the compiler assumes that any reachable memory has changed; the kernel
            //   writes to none of the task's own.
            unsafe {
                asm!(
                    $instruction,
                    inlateout("x0") first => code,
                    lateout("x1") value,
                    lateout("x2") _, lateout("x3") _, lateout("x4") _, lateout("x5") _, lateout("x6") _,
                    lateout("x7") _,
                    in("x8") number,
                    in("x9") deadline,
                    lateout("x10") _,
                    options(nostack, preserves_flags),
                );
            }
            Answer { code, value, second: 0 }
        }

        /// A call with message words, a deadline and a reply token. `x1` goes in as zero: a reply hands it on.
        #[inline(always)]
        pub fn message(number: u64, first: u64, words: [u64; 6], deadline: u64, token: u64) -> MessageAnswer {
            let [mut w0, mut w1, mut w2, mut w3, mut w4, mut w5] = words;
            let (code, value, reply, received): (u64, u64, u64, u64);
            // SAFETY: the compiler must know every register and all memory that the trap changes.
            // - Registers: the ABI names the results, all listed here as outputs; the kernel restores all others,
            //   flags and vector registers among them. `x11` goes in undefined: these calls give no handle.
            // - Memory: without `nomem`, the compiler assumes that any reachable memory has changed; the kernel
            //   writes to none of the task's own.
            unsafe {
                asm!(
                    $instruction,
                    inlateout("x0") first => code,
                    inlateout("x1") 0u64 => value,
                    inlateout("x2") w0,
                    inlateout("x3") w1,
                    inlateout("x4") w2,
                    inlateout("x5") w3,
                    inlateout("x6") w4,
                    inlateout("x7") w5,
                    in("x8") number,
                    in("x9") deadline,
                    inlateout("x10") token => reply,
                    lateout("x11") received,
                    options(nostack, preserves_flags),
                );
            }
            MessageAnswer { code, value, words: [w0, w1, w2, w3, w4, w5], token: reply, given: received }
        }

        /// A call as above, with a handle that the message carries and the mask of the rights its copy keeps.
        #[inline(always)]
        pub fn carrying(
            number: u64,
            first: u64,
            words: [u64; 6],
            deadline: u64,
            token: u64,
            given: u64,
            kept: u64,
        ) -> MessageAnswer {
            let [mut w0, mut w1, mut w2, mut w3, mut w4, mut w5] = words;
            let (code, value, reply, received): (u64, u64, u64, u64);
            // SAFETY: the compiler must know every register and all memory that the trap changes.
            // - Registers: the ABI names the results, all listed here as outputs; the kernel restores all others,
            //   flags and vector registers among them.
            // - Memory: without `nomem`, the compiler assumes that any reachable memory has changed; the kernel
            //   writes to none of the task's own.
            unsafe {
                asm!(
                    $instruction,
                    inlateout("x0") first => code,
                    inlateout("x1") 0u64 => value,
                    inlateout("x2") w0,
                    inlateout("x3") w1,
                    inlateout("x4") w2,
                    inlateout("x5") w3,
                    inlateout("x6") w4,
                    inlateout("x7") w5,
                    in("x8") number,
                    in("x9") deadline,
                    inlateout("x10") token => reply,
                    inlateout("x11") given => received,
                    in("x12") kept,
                    options(nostack, preserves_flags),
                );
            }
            MessageAnswer { code, value, words: [w0, w1, w2, w3, w4, w5], token: reply, given: received }
        }
    };
}

stubs!("svc #0");

/// The stubs, with a `nop` in place of the trap.
pub mod untrapped {
    use super::{Answer, MessageAnswer, asm};

    stubs!("nop");
}

/// The board's counter, as EL0 reads it. Not ordered with surrounding instructions: in the instruction-counting
/// profile there is nothing to order, and elsewhere the error is tens of cycles.
#[inline(always)]
#[must_use]
pub fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: the register must be readable at EL0: the kernel sets `CNTKCTL_EL1.EL0VCTEN` on every CPU. Not
    // `nomem`: the compiler must not carry a measured memory access across the reading.
    unsafe { asm!("mrs {0}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// Says `number` to watchers of the instructions of this CPU, such as the profiler; all others notice nothing.
///
/// Each bit is a hint, the highest first: number 64 says 0, number 65 says 1 (`tools/profiler/src/instruction.rs`).
pub fn mark(number: u8) {
    for bit in (0..u8::BITS).rev() {
        if number >> bit & 1 == 0 {
            // SAFETY: a hint demands nothing; this one is not allocated and does nothing.
            unsafe { asm!("hint #64", options(nomem, nostack, preserves_flags)) };
        } else {
            // SAFETY: the same of this one.
            unsafe { asm!("hint #65", options(nomem, nostack, preserves_flags)) };
        }
    }
}

/// Executes `rounds` times four instructions. Not `core::hint::spin_loop`: that is `isb` on this architecture.
#[inline(always)]
pub fn spin(rounds: u64) {
    // SAFETY: the block changes one register and the flags, both declared, and touches no memory.
    unsafe {
        asm!(
            "2:",
            "nop",
            "nop",
            "subs {0}, {0}, #1",
            "b.hi 2b",
            inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

/// Returns false: time is the board's, and passes while instructions are executed.
#[inline(always)]
pub fn burn(_time: Nanoseconds) -> bool {
    false
}

/// Waits until all earlier stores of this task have reached memory, where a device will look for them.
#[inline(always)]
pub fn complete_stores() {
    // SAFETY: a barrier demands nothing. Not `nomem`: the compiler must keep the stores before it.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
}

/// Lets another CPU of an emulator run; a hint without effect on hardware without threads.
#[inline(always)]
pub fn relax() {
    // SAFETY: a hint demands nothing.
    unsafe { asm!("yield", options(nomem, nostack, preserves_flags)) };
}
