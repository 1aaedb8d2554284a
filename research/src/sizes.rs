//! Sizes of the kernel, and their limits.

use std::path::Path;

use anyhow::{Context, Result};
use fusee_abi::image::feature;
use object::{Object, ObjectSection};

/// Bytes of .data the kernel may have: everything else is zero at boot.
const DATA: u64 = 4 << 10;
/// Bytes of a stack frame, at most.
const FRAME: u64 = 1 << 10;
/// Bytes of a thread object, at most.
const THREAD: u64 = 1 << 10;
/// Bytes of text and read-only data the kernel may have. The design says 96 KiB, and that is not reached since budgets are sporadic
/// servers, boosts budgets, and tokens watched: 124.1 KiB, of which jobs that begin early are 2.8, waits inside holds 0.6, fast paths for one waiter 2.6, sharing is 3.8 and further lives 3.5. The last 0.75 KiB are for
/// drivers that wait for a CPU while they reset an engine, without which a proof did not hold (0.25), and for fast paths of deferred replies, busy servers and
/// tokens with one waiter (0.5 beyond what one body of the ways out of idle, and one of slow interrupts, gave back). That is the kernel with all features but `streams` and `spatial`.
const TEXT: u64 = (124 << 10) + 768;
/// How many some features may add to a kernel with all others: clients without a lock; devices behind an SMMU, which few boards have; devices that decide by keys.
const FEATURES: [(u32, u64); 3] =
    [(feature::SHARING, 4 << 10), (feature::STREAMS, 3 << 10), (feature::SPATIAL, 5 << 9)];

/// Sizes of the kernel, in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sizes {
    /// Instructions and read-only data.
    pub text: u64,
    /// Initialised data.
    pub data: u64,
    /// The largest stack frame of a function.
    pub frame: u64,
    /// The kernel's state of a thread, registers aside.
    pub thread: u64,
}

/// Reads the sizes of the kernel's ELF file.
pub fn sizes(kernel: &Path) -> Result<Sizes> {
    let bytes = std::fs::read(kernel).with_context(|| kernel.display().to_string())?;
    let file = object::File::parse(&*bytes)?;
    let size = |name: &str| file.section_by_name(name).map_or(0, |section| section.size());
    let code = file.section_by_name(".text").context("a kernel without code")?.data()?.to_vec();
    let instructions = code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    Ok(Sizes {
        text: size(".text") + size(".rodata"),
        data: size(".data"),
        frame: instructions.filter_map(frame).max().unwrap_or(0),
        thread: size_of::<fusee_kernel_core::object::Thread>() as u64,
    })
}

/// The bytes that this instruction takes from the stack: `sub sp, sp, #n` or `stp a, b, [sp, #-n]!`.
fn frame(instruction: u32) -> Option<u64> {
    if instruction & 0xff80_03ff == 0xd100_03ff {
        let shift = if instruction & 1 << 22 == 0 { 0 } else { 12 };
        return Some(u64::from(instruction >> 10 & 0xfff) << shift);
    }
    // Seven bits, negative, in units of eight bytes.
    let taken = instruction & 0xffc0_03e0 == 0xa980_03e0 && instruction & 1 << 21 != 0;
    taken.then(|| u64::from(0x80 - (instruction >> 15 & 0x7f)) * 8)
}

/// The kernel's sizes that are too large.
pub fn too_large(sizes: Sizes) -> Vec<String> {
    let mut problems = Vec::new();
    let limits = [
        ("text and read-only data", sizes.text, TEXT),
        (".data", sizes.data, DATA),
        ("largest stack frame", sizes.frame, FRAME),
        ("thread", sizes.thread, THREAD),
    ];
    for (what, size, limit) in limits {
        if size > limit {
            problems.push(format!("the kernel's {what}: {size} bytes, more than {limit}"));
        }
    }
    problems
}

/// A message if feature `bit` adds more bytes to the kernel's text and read-only data than its limit. `None`: it is within the limit, or has none.
/// `text` is the size in bytes with the feature, `without` the size without it.
pub fn too_large_feature(bit: u32, text: u64, without: u64) -> Option<String> {
    let (_, limit) = *FEATURES.iter().find(|(known, _)| *known == bit)?;
    let (size, name) = (text.saturating_sub(without), feature::names(bit).next().unwrap_or_default());
    (size > limit).then(|| format!("`{name}` in the kernel: {size} bytes, more than {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_grew_too_large_is_named() {
        assert!(too_large(Sizes { text: TEXT, data: DATA, frame: FRAME, thread: THREAD }).is_empty());
        assert_eq!(too_large(Sizes { text: TEXT + 1, ..Sizes::default() }).len(), 1);
        for (bit, limit) in FEATURES {
            assert_eq!(too_large_feature(bit, TEXT, TEXT - limit), None);
            assert!(too_large_feature(bit, TEXT, TEXT - limit - 1).is_some());
        }
    }

    #[test]
    fn frames_are_what_instructions_take_from_the_stack() {
        // sub sp, sp, #432; stp x29, x30, [sp, #-96]!; add sp, sp, #432; stp x29, x30, [sp, #96]
        let taken = [0xd106_c3ff, 0xa9ba_7bfd, 0x9106_c3ff, 0xa906_7bfd].map(frame);
        assert_eq!(taken, [Some(432), Some(96), None, None]);
    }
}
