//! Hands the linker script to the linker, with the address that the board has for firmware, for the target only.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let variable =
        |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is set by cargo, or by the crate `fusee-bsp`"));
    let script = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../linker/firmware.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rustc-link-arg-bins=-T{}", variable("DEP_FUSEE_BOARD_PLACES"));
    println!("cargo::rustc-link-arg-bins=-T{}", script.display());
}
