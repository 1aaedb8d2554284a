//! Hands the linker script to the linker, for the target only.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("arm") {
        return;
    }
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let script = Path::new(&here).join("../../../linker/r5f.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rustc-link-arg-bins=-T{}", script.display());
}
