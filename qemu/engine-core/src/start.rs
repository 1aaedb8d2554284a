//! First instructions, and last words.

use core::arch::{asm, global_asm};
use core::fmt::Write;
use core::ops::Range;
use core::panic::PanicInfo;
use core::ptr::NonNull;

use fusee_bsp::pl011::Pl011;
use fusee_bsp::{semihosting, virt as board};

use crate::firmware::{self, Blocks};

global_asm!(
    r#"
    .pushsection .text.start, "ax"
    .global _start
_start:
    mov     x20, x0
    bl      fusee_drop_to_el1
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
    .popsection

    // No exception is expected: interrupts are masked.
    .pushsection .text.vectors, "ax"
    .balign 2048
engine_vectors:
    .rept   16
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

/// The place of this CPU in the board's list.
pub fn cpu() -> u64 {
    let affinity: u64;
    // SAFETY: reading MPIDR_EL1 changes nothing.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) affinity, options(nomem, nostack, preserves_flags)) };
    // The inverse of `board::affinity`.
    (affinity & 0xf) | (affinity >> 8 & 0xff) << 4
}

/// # Safety
/// `blocks` is a `Blocks` that nobody writes to.
#[unsafe(export_name = "engine_main")]
unsafe extern "C" fn main(blocks: *const Blocks) -> ! {
    assert!(!blocks.is_null() && blocks.is_aligned(), "no device description");
    // SAFETY: promised by our caller, who has it from the kernel.
    firmware::run(unsafe { &*blocks })
}

fn console() -> Pl011 {
    let base = NonNull::new(board::UART as *mut u8).unwrap_or(NonNull::dangling());
    // SAFETY: the board has a PL011 there; without translation it is accessible.
    unsafe { Pl011::new(base) }
}

#[unsafe(export_name = "engine_exception")]
extern "C" fn exception(syndrome: u64, at: u64, address: u64) -> ! {
    // A console that fails leaves nobody to tell.
    let _ = writeln!(console(), "\nengine core: exception {syndrome:#x} at {at:#x}, address {address:#x}");
    stop()
}

#[panic_handler]
fn panic(information: &PanicInfo<'_>) -> ! {
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
