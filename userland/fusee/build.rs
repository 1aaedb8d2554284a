//! Links every program that depends on this crate with the linker script of tasks, for the target only.
//!
//! The script is `task.ld` beside this file, in the repository a link to `linker/task.ld`.
//!
//! The script is handed on as a library of that name: the linker reads a file that is no object file as a script. Unlike arguments
//! for the linker, libraries of a crate are those of all programs that use it, so a program needs neither a build script nor flags.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Where programs can be run by the simulator.
    println!("cargo::rustc-check-cfg=cfg(door)");
    let [system, processor] =
        ["CARGO_CFG_TARGET_OS", "CARGO_CFG_TARGET_ARCH"].map(|name| env::var(name).unwrap_or_default());
    if system == "linux" && processor == "x86_64" {
        println!("cargo::rustc-cfg=door");
    }
    if system != "none" {
        return;
    }
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let folder = Path::new(&here);
    println!("cargo::rerun-if-changed={}", folder.join("task.ld").display());
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=dylib:+verbatim=task.ld");
}
