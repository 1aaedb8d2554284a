//! The first instructions of a CPU: from the exception level the firmware left it at down to EL1.
//!
//! `fusee_drop_to_el1` is called with translation off and returns at EL1h with all interrupts masked,
//! translation off, and nothing of EL2 in the way: no traps, no stage 2, counters as the firmware set them.
//! It uses x9 only. Started at EL1 it does next to nothing.
//!
//! Not here: EL3 (the firmware's), and anything that needs a stack.

use core::arch::global_asm;

global_asm!(
    r#"
    .pushsection .text.boot, "ax"
    .global fusee_drop_to_el1
fusee_drop_to_el1:
    // SCTLR_EL1: the bits that are one on any CPU, translation and caches off.
    mov     x9, #0x0800
    movk    x9, #0x30d0, lsl #16
    msr     sctlr_el1, x9
    isb
    mrs     x9, CurrentEL
    cmp     x9, #8
    b.eq    1f
    ret
1:  mov     x9, #1 << 31                // HCR_EL2.RW: EL1 is AArch64; no traps, no stage 2
    msr     hcr_el2, x9
    mov     x9, #3                      // EL1 may use the counters
    msr     cnthctl_el2, x9
    msr     cntvoff_el2, xzr
    mov     x9, #0x33ff                 // no trap of floating point
    msr     cptr_el2, x9
    msr     hstr_el2, xzr
    msr     vttbr_el2, xzr
    mrs     x9, midr_el1
    msr     vpidr_el2, x9
    mrs     x9, mpidr_el1
    msr     vmpidr_el2, x9
    mrs     x9, pmcr_el0                // all event counters belong to EL1
    ubfx    x9, x9, #11, #5
    msr     mdcr_el2, x9
    mrs     x9, id_aa64pfr0_el1         // is there a GIC with system registers?
    ubfx    x9, x9, #24, #4
    cbz     x9, 2f
    mov     x9, #0xf                    // ICC_SRE_EL2: let EL1 use it
    msr     s3_4_c12_c9_5, x9
    isb
    msr     s3_4_c12_c11_0, xzr         // ICH_HCR_EL2: no virtual interrupts
2:  mov     x9, #0x3c5                  // EL1h, all masked
    msr     spsr_el2, x9
    msr     elr_el2, x30
    eret
    .popsection
"#
);
