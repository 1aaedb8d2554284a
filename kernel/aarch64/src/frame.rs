//! Register frames, one per thread, and their floating-point halves.
//!
//! The vectors save into a frame and restore from it by offset; the assertions below hold both sides
//! together.

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::mem::{offset_of, size_of};

use fusee_abi::call::{FIRST_WORD, MESSAGE_WORDS, NUMBER};
use fusee_kernel_core::Registers;
use fusee_kernel_core::id::ThreadId;
use fusee_kernel_core::limits::{RESTARTS, THREADS};

/// The floating-point registers of a thread, as of the last time it lost the CPU after using them.
#[repr(C, align(16))]
pub struct Float {
    vectors: [u128; 32],
    control: u64,
    status: u64,
}

/// All of a thread that is neither in the kernel's state machine nor in its memory. A power of two apart: see `kernel/core`.
#[repr(C, align(1024))]
pub struct Frame {
    /// General registers, where the vectors put them.
    pub registers: Registers,
    /// `TTBR0_EL1` while the thread runs: its address space and address-space number.
    pub translation: u64,
    /// `TPIDR_EL0`: the task's own, so no other task may see it.
    thread_pointer: u64,
    float: Float,
}

const _: () = assert!(offset_of!(Frame, registers) == 0);
const _: () = assert!(offset_of!(Registers, stack) == 248);
const _: () = assert!(offset_of!(Registers, program_counter) == 256);
const _: () = assert!(offset_of!(Registers, state) == 264);
const _: () = assert!(offset_of!(Frame, thread_pointer) == 280);
const _: () = assert!(offset_of!(Frame, float) == 288);
const _: () = assert!(size_of::<Frame>() == 1024);

impl Frame {
    const EMPTY: Frame = Frame {
        registers: Registers::EMPTY,
        translation: 0,
        thread_pointer: 0,
        float: Float { vectors: [0; 32], control: 0, status: 0 },
    };
}

/// The frames of all threads. Rules outside of this file settle the access to each: see [`of`].
///
/// Thread ids count from one, and so does this array: its first frame has no thread, and spares each access a
/// subtraction.
struct Frames(UnsafeCell<[Frame; THREADS + 1]>);

// SAFETY: a frame is touched by one CPU at a time: the one its thread is `on`, or the holder of the kernel's
// lock while it is `off` (DESIGN section 1; `kernel/core` keeps `on` a partial injection).
unsafe impl Sync for Frames {}

static FRAMES: Frames = Frames(UnsafeCell::new([Frame::EMPTY; THREADS + 1]));

/// The frame of `thread`. Making the pointer is always safe; using it needs the right to: the caller is the
/// CPU the thread is `on`, or holds the kernel's lock while it is `off`; and `thread` is one of the kernel's,
/// which has no more than `THREADS`.
#[inline(always)]
pub fn of(thread: ThreadId) -> *mut Frame {
    debug_assert!(thread.index() < THREADS);
    FRAMES.0.get().cast::<Frame>().wrapping_add(usize::from(thread.number()))
}

/// Sets the registers of `thread` as they are at its first instruction. Values of an earlier life in the other registers are gone.
///
/// # Safety
/// The caller may use the frame: see [`of`].
#[cfg_attr(feature = "restart", inline(never))]
pub unsafe fn begin(thread: ThreadId, entry: u64, stack: u64, environment: u64) {
    // SAFETY: promised by our caller; in bounds, as in `of`.
    let frame = unsafe { &mut *of(thread) };
    frame.registers = Registers { stack, program_counter: entry, ..Registers::EMPTY };
    frame.registers.general[0] = environment;
    if RESTARTS {
        frame.float.vectors.fill(0);
        (frame.thread_pointer, frame.float.control, frame.float.status) = (0, 0, 0);
    }
}

/// The number of the call that `thread` makes; numbers that no call has are 255.
///
/// # Safety
/// The caller may use the frame: see [`of`].
pub unsafe fn call_of(thread: ThreadId) -> u32 {
    // SAFETY: promised by our caller; in bounds, as in `of`.
    let number = unsafe { (*of(thread)).registers.general[NUMBER] };
    number.min(0xff) as u32
}

/// Copies the message words of `from` to `to`.
///
/// # Safety
/// The caller may use both frames: see [`of`].
#[inline(always)]
pub unsafe fn copy_message(from: ThreadId, to: ThreadId) {
    const OFFSET: usize = offset_of!(Frame, registers) + FIRST_WORD * size_of::<u64>();
    const _: () = assert!(MESSAGE_WORDS == 6 && OFFSET == 16);
    // SAFETY: six words of either frame, aligned to eight bytes; ours: promised by our caller. In assembly,
    // because the compiler calls `memmove` for six words.
    unsafe {
        asm!(
            "ldp {0}, {1}, [{from}, #16]",
            "ldp {2}, {3}, [{from}, #32]",
            "ldp {4}, {5}, [{from}, #48]",
            "stp {0}, {1}, [{to}, #16]",
            "stp {2}, {3}, [{to}, #32]",
            "stp {4}, {5}, [{to}, #48]",
            out(reg) _,
            out(reg) _,
            out(reg) _,
            out(reg) _,
            out(reg) _,
            out(reg) _,
            from = in(reg) of(from),
            to = in(reg) of(to),
            options(nostack, preserves_flags)
        );
    }
}

unsafe extern "C" {
    /// Lets EL0 and EL1 use floating point on this CPU and loads its registers.
    ///
    /// # Safety
    /// `frame` is that of the thread now on this CPU.
    #[link_name = "fusee_float_restore"]
    pub fn restore_float(frame: *const Frame);

    /// Stores the floating-point registers and keeps EL0 and EL1 from using them.
    ///
    /// # Safety
    /// `frame` is that of the thread now on this CPU, for which [`restore_float`] was called before.
    #[link_name = "fusee_float_save"]
    pub fn save_float(frame: *mut Frame);
}

global_asm!(
    r#"
    .pushsection .text.float, "ax"
    .arch armv8-a+fp+simd
    .macro  float_pairs operation
    \operation q0, q1, [x0, #0]
    \operation q2, q3, [x0, #32]
    \operation q4, q5, [x0, #64]
    \operation q6, q7, [x0, #96]
    \operation q8, q9, [x0, #128]
    \operation q10, q11, [x0, #160]
    \operation q12, q13, [x0, #192]
    \operation q14, q15, [x0, #224]
    \operation q16, q17, [x0, #256]
    \operation q18, q19, [x0, #288]
    \operation q20, q21, [x0, #320]
    \operation q22, q23, [x0, #352]
    \operation q24, q25, [x0, #384]
    \operation q26, q27, [x0, #416]
    \operation q28, q29, [x0, #448]
    \operation q30, q31, [x0, #480]
    .endm

    .global fusee_float_restore
fusee_float_restore:
    mov     x1, #3 << 20
    msr     cpacr_el1, x1
    isb
    add     x0, x0, #288
    float_pairs ldp
    add     x0, x0, #512
    ldp     x1, x2, [x0]
    msr     fpcr, x1
    msr     fpsr, x2
    ret

    .global fusee_float_save
fusee_float_save:
    add     x0, x0, #288
    float_pairs stp
    mrs     x1, fpcr
    mrs     x2, fpsr
    add     x0, x0, #512
    stp     x1, x2, [x0]
    msr     cpacr_el1, xzr              // in effect from the next exception return on
    ret
    .popsection
"#
);
