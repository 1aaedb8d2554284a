//! First instructions, and last words.

use core::arch::{asm, global_asm};
use core::fmt::Write;
use core::ops::Range;
use core::panic::PanicInfo;
use core::ptr::NonNull;

use fusee_bsp::console::Console;
use fusee_bsp::start::Start;
use fusee_bsp::{board, semihosting};

use fusee_accel_contract::DEVICES;

use crate::firmware::{self, Blocks};
use crate::{translation, worker};

global_asm!(
    r#"
    .pushsection .text.start, "ax"
    .global _start
_start:
    mov     x20, x0
    bl      fusee_drop_to_el1
    // Caches of a boot loader or of the kernel's CPUs may hold memory that is written here with caches off. It is dropped from them before and after.
    bl      fusee_engine_forget
    adrp    x0, __bss_start
    add     x0, x0, :lo12:__bss_start
    adrp    x1, __bss_end
    add     x1, x1, :lo12:__bss_end
1:  cmp     x0, x1
    b.hs    2f
    stp     xzr, xzr, [x0], #16
    b       1b
2:  adrp    x0, __stack_top
    add     x0, x0, :lo12:__stack_top
    mov     sp, x0
    adrp    x0, engine_vectors
    add     x0, x0, :lo12:engine_vectors
    msr     vbar_el1, x0
    isb
    mov     x29, #0
    mov     x30, #0
    mov     x0, x20
    b       engine_main

    // Drops .bss, and the part of the stack above it that is in use before translation, from all caches. Uses x9 to x12.
    .global fusee_engine_forget
fusee_engine_forget:
    mrs     x9, ctr_el0
    ubfx    x9, x9, #16, #4
    mov     x10, #4
    lsl     x9, x10, x9                 // bytes of the shortest line
    adrp    x11, __bss_start
    adrp    x12, __bss_end
1:  dc      ivac, x11
    add     x11, x11, x9
    cmp     x11, x12
    b.lo    1b
    adrp    x12, __stack_top
    sub     x11, x12, #4096
2:  dc      ivac, x11
    add     x11, x11, x9
    cmp     x11, x12
    b.lo    2b
    dsb     sy
    ret
    .popsection

    // The first four are taken in a job, the others from the loop, where none is expected: interrupts are masked.
    .pushsection .text.vectors, "ax"
    .balign 2048
engine_vectors:
    b       fusee_engine_ended
    .balign 128
    b       fusee_engine_interrupted
    .balign 128
    b       fusee_engine_ended
    .balign 128
    b       fusee_engine_ended
    .rept   12
    .balign 128
    mrs     x0, esr_el1
    mrs     x1, elr_el1
    mrs     x2, far_el1
    b       engine_exception
    .endr
    .popsection
"#
);

/// The firmware's own memory.
pub fn own() -> Range<u64> {
    unsafe extern "C" {
        #[link_name = "_start"]
        static START: u8;
        #[link_name = "__stack_top"]
        static END: u8;
    }
    &raw const START as u64..&raw const END as u64
}

/// The firmware's text.
pub fn text() -> Range<u64> {
    unsafe extern "C" {
        #[link_name = "_start"]
        static START: u8;
        #[link_name = "__text_end"]
        static END: u8;
    }
    &raw const START as u64..&raw const END as u64
}

/// Bytes of a stack, with the page below it that is not there.
const STACK: u64 = 64 << 10;

/// The first byte above the stack of a device's jobs. The loop's is the last of all.
pub fn stack(device: usize) -> u64 {
    own().end - (DEVICES - device) as u64 * STACK
}

/// The pages that are not there: below each stack.
pub fn guards() -> impl Iterator<Item = u64> {
    (0..=DEVICES as u64).map(|place| own().end - (place + 1) * STACK)
}

/// The place of this CPU in the board's list.
pub fn cpu() -> usize {
    let affinity: u64;
    // SAFETY: reading MPIDR_EL1 changes nothing.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) affinity, options(nomem, nostack, preserves_flags)) };
    board::index(affinity)
}

/// # Safety
/// `blocks` is a `Blocks` that is never written, or the CPU waited at a spin table, where it is told nothing.
#[unsafe(export_name = "engine_main")]
unsafe extern "C" fn main(told: *const Blocks) -> ! {
    translation::start();
    // It is loaded with the firmware, into the page below it.
    let below = (own().start - translation::PAGE) as *const Blocks;
    let blocks = if matches!(board::START, Start::SpinTable(_)) { below } else { told };
    assert!(!blocks.is_null() && blocks.is_aligned(), "no device description");
    // SAFETY: promised by our caller, which has it from the kernel.
    firmware::run(unsafe { &*blocks })
}

fn console() -> Console {
    let base = NonNull::new(board::CONSOLE as *mut u8).unwrap_or(NonNull::dangling());
    // SAFETY: the board has its serial line there; it is accessible, with translation and without.
    unsafe { Console::new(base) }
}

#[unsafe(export_name = "engine_exception")]
extern "C" fn exception(syndrome: u64, at: u64, address: u64) -> ! {
    // A failure of the console cannot be reported.
    let _ = writeln!(console(), "\nengine core: exception {syndrome:#x} at {at:#x}, address {address:#x}");
    stop()
}

#[panic_handler]
fn panic(information: &PanicInfo<'_>) -> ! {
    if worker::is_job() {
        worker::give_up(information.location().map_or(0, core::panic::Location::line));
    }
    let _ = writeln!(console(), "\nengine core: {information}");
    stop()
}

/// Ends the whole run: a broken device would only make its users wait.
fn stop() -> ! {
    const PANIC: u32 = 101;
    semihosting::exit(PANIC);
    loop {
        // SAFETY: `wfi` waits; it changes no state.
        unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
    }
}
