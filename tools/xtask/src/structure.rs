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
/// Bytes of text and read-only data the kernel may have.
const TEXT: u64 = 96 << 10;

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
}

/// Reads the sizes of the kernel's ELF file.
pub fn sizes(kernel: &Path) -> Result<Sizes> {
    let bytes = std::fs::read(kernel).with_context(|| kernel.display().to_string())?;
    let file = object::File::parse(&*bytes)?;
    let size = |name: &str| file.section_by_name(name).map_or(0, |section| section.size());
    Ok(Sizes { text: size(".text") + size(".rodata"), data: size(".data") })
}

/// Which of the kernel's sizes are too large.
pub fn too_large(sizes: Sizes) -> Vec<String> {
    let mut problems = Vec::new();
    for (what, size, limit) in [("text and read-only data", sizes.text, TEXT), (".data", sizes.data, DATA)] {
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
        assert!(too_large(Sizes { text: TEXT, data: DATA }).is_empty());
        assert_eq!(too_large(Sizes { text: TEXT + 1, data: 0 }).len(), 1);
    }
}
