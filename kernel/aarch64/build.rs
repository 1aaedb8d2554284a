//! Hands the linker script to the linker, with the addresses of the board, for the target only.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(start, values(\"psci\", \"spin-table\"))");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let variable =
        |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is set by cargo, or by the crate `fusee-bsp`"));
    println!("cargo::rustc-cfg=start=\"{}\"", variable("DEP_FUSEE_BOARD_START"));
    // This target's linker does not do it by itself.
    if variable("DEP_FUSEE_BOARD_ERRATA").split(' ').any(|number| number == "843419") {
        println!("cargo::rustc-link-arg-bins=--fix-cortex-a53-843419");
    }
    let script = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../linker/kernel.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rustc-link-arg-bins=-T{}", variable("DEP_FUSEE_BOARD_PLACES"));
    println!("cargo::rustc-link-arg-bins=-T{}", script.display());
}
