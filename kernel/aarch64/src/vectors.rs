//! Exception vectors.
//!
//! From EL0: `SP_EL1` is the frame, so each register is stored once, where it belongs, with no scratch
//! register and no stack in between: 25 instructions until the kernel stack is in place, 25 to go to another
//! thread, 17 to go back to the same one, with its x20 to x29, which the handler, like any function, has preserved.
//! From EL1 nothing is expected: print and stop, on a stack of its own, for the kernel's may be the reason.

use core::arch::{asm, global_asm};

/// Makes these vectors the calling CPU's.
pub fn install() {
    // SAFETY: VBAR_EL1 must name a 2 KiB aligned vector table that stays: `fusee_vectors` is aligned by its
    // section and is text. Exceptions from EL0 need invariant 1 of the crate, which `trap::run` sets up.
    unsafe {
        asm!(
            "adrp {0}, fusee_vectors",
            "add {0}, {0}, :lo12:fusee_vectors",
            "msr vbar_el1, {0}",
            "isb",
            out(reg) _,
            options(nostack, preserves_flags)
        );
    }
}

global_asm!(
    r#"
    .pushsection .text.vectors, "ax"

    // Stores all registers of the thread in its frame; then x19 is the frame, x0 the CPU, and sp the stack.
    .macro  save
    stp     x0, x1, [sp, #0]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
    mrs     x1, sp_el0
    mrs     x2, elr_el1
    mrs     x3, spsr_el1
    mrs     x4, tpidr_el0
    stp     x30, x1, [sp, #240]
    stp     x2, x3, [sp, #256]
    str     x4, [sp, #280]
    mov     x19, sp
    mrs     x0, tpidr_el1
    mov     sp, x0
    .endm

    // An unexpected exception, number `vector` of the table.
    .macro  unexpected vector
    .balign 128
    msr     tpidrro_el0, x0
    mov     x0, #\vector
    b       fusee_unexpected
    .endm

    .balign 2048
    .global fusee_vectors
fusee_vectors:
    unexpected 0                        // EL1 with SP_EL0
    unexpected 1
    unexpected 2
    unexpected 3
    unexpected 4                        // EL1 with SP_EL1
    unexpected 5
    unexpected 6
    unexpected 7

    .balign 128                         // EL0, synchronous
    save
    mrs     x1, esr_el1
    lsr     x2, x1, #26
    cmp     x2, #0x15                   // svc from AArch64
    b.ne    fusee_fault_entry
    bl      fusee_syscall
    cbnz    x0, fusee_resume
    b       fusee_same

    .balign 128                         // EL0, interrupt
    save
    bl      fusee_interrupt
    b       fusee_return

    unexpected 10                       // EL0, fast interrupt: nothing is in group 0

    .balign 128                         // EL0, system error: charged to the thread it arrived at
    save
    mrs     x1, esr_el1
    bl      fusee_fault
    b       fusee_return

    unexpected 12                       // EL0 in AArch32: never entered
    unexpected 13
    unexpected 14
    unexpected 15

    .balign 128
fusee_fault_entry:
    cmp     x2, #0x07                   // floating point
    b.eq    1f
    bl      fusee_fault
    b       fusee_return
1:  bl      fusee_float
    mov     x0, #0
    // fall through

    // Returns to EL0: by the frame in x0, or, if that is null, to where we came from.
fusee_return:
    cbnz    x0, fusee_resume
fusee_same:
    mov     sp, x19
    ldr     x2, [sp, #256]
    ldr     x30, [sp, #240]
    msr     elr_el1, x2
    ldp     x0, x1, [sp, #0]
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x9, [sp, #64]
    ldp     x10, x11, [sp, #80]
    ldp     x12, x13, [sp, #96]
    ldp     x14, x15, [sp, #112]
    ldp     x16, x17, [sp, #128]
    ldp     x18, x19, [sp, #144]
    eret

    // Goes to EL0 by the frame in x0.
    .global fusee_resume
fusee_resume:
    mov     sp, x0
    ldp     x22, x23, [sp, #256]
    ldp     x30, x21, [sp, #240]
    ldr     x20, [sp, #280]
    msr     tpidr_el0, x20
    msr     elr_el1, x22
    msr     spsr_el1, x23
    msr     sp_el0, x21
    ldp     x0, x1, [sp, #0]
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x9, [sp, #64]
    ldp     x10, x11, [sp, #80]
    ldp     x12, x13, [sp, #96]
    ldp     x14, x15, [sp, #112]
    ldp     x16, x17, [sp, #128]
    ldp     x18, x19, [sp, #144]
    ldp     x20, x21, [sp, #160]
    ldp     x22, x23, [sp, #176]
    ldp     x24, x25, [sp, #192]
    ldp     x26, x27, [sp, #208]
    ldp     x28, x29, [sp, #224]
    eret

    // Saves the registers and reports them. x0 is the vector's number, TPIDRRO_EL0 was x0.
fusee_unexpected:
    msr     tpidr_el0, x1
    adrp    x1, fusee_last_registers
    add     x1, x1, :lo12:fusee_last_registers
    stp     x2, x3, [x1, #16]
    stp     x4, x5, [x1, #32]
    stp     x6, x7, [x1, #48]
    stp     x8, x9, [x1, #64]
    stp     x10, x11, [x1, #80]
    stp     x12, x13, [x1, #96]
    stp     x14, x15, [x1, #112]
    stp     x16, x17, [x1, #128]
    stp     x18, x19, [x1, #144]
    stp     x20, x21, [x1, #160]
    stp     x22, x23, [x1, #176]
    stp     x24, x25, [x1, #192]
    stp     x26, x27, [x1, #208]
    stp     x28, x29, [x1, #224]
    mrs     x2, tpidrro_el0
    mrs     x3, tpidr_el0
    stp     x2, x3, [x1, #0]
    mov     x2, sp
    stp     x30, x2, [x1, #240]
    mrs     x2, elr_el1
    mrs     x3, spsr_el1
    stp     x2, x3, [x1, #256]
    adrp    x2, fusee_last_stack
    add     x2, x2, :lo12:fusee_last_stack
    add     x2, x2, #8192
    mov     sp, x2
    b       fusee_stop
    .popsection
"#
);
