//! Which instructions are a plain store of 32 bits, as an assembler writes them, and which others look like one.
#![allow(missing_docs)]

use fusee_kernel_core::stored_register;

#[test]
fn a_plain_store_of_a_word_is_told_by_its_register() {
    for (instruction, text, register) in [
        (0xb900_0328, "str w8, [x25]", 8),
        (0xb900_0823, "str w3, [x1, #8]", 3),
        (0xb93f_ffe0, "str w0, [sp, #16380]", 0),
        (0xb81f_c045, "stur w5, [x2, #-4]", 5),
        (0xb822_6827, "str w7, [x1, x2]", 7),
        (0xb822_d83f, "str wzr, [x1, w2, sxtw #2]", 31),
        (0x889f_fc89, "stlr w9, [x4]", 9),
    ] {
        assert_eq!(stored_register(instruction), Some(register), "{text}");
    }
}

#[test]
fn what_loads_stores_another_length_or_changes_registers_is_no_plain_store() {
    for (instruction, text) in [
        (0xb940_0328, "ldr w8, [x25]"),
        (0xf900_0328, "str x8, [x25]"),
        (0x7900_0328, "strh w8, [x25]"),
        (0x3900_0328, "strb w8, [x25]"),
        (0xbd00_0328, "str s8, [x25]"),
        (0xb840_0045, "ldur w5, [x2]"),
        (0xb800_0445, "str w5, [x2], #0"),
        (0xb800_0c45, "str w5, [x2, #0]!"),
        (0xb800_0845, "sttr w5, [x2]"),
        (0xb862_6827, "ldr w7, [x1, x2]"),
        (0xf822_6827, "str x7, [x1, x2]"),
        (0xb822_0027, "ldadd w2, w7, [x1]"),
        (0x88df_fc89, "ldar w9, [x4]"),
        (0xc89f_fc89, "stlr x9, [x4]"),
        (0x089f_fc89, "stlrb w9, [x4]"),
        (0x8805_7c89, "stxr w5, w9, [x4]"),
        (0x2900_0440, "stp w0, w1, [x2]"),
        (0x88a5_7c89, "cas w5, w9, [x4]"),
        (0xd503_201f, "nop"),
        (0, "nothing"),
    ] {
        assert_eq!(stored_register(instruction), None, "{text}");
    }
}
