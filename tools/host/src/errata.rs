//! Errata of the Cortex-A53 that programs have to keep away from.
//!
//! Arm, *Cortex-A53 MPCore Product Errata Notice*: 835769, a 64-bit multiply-accumulate right behind an access to memory may be wrong.

use fusee_manifest::Board;

/// The compiler's flags for a board. That the linker keeps away from 843419 is in the build scripts, and the tasks' target does so anyway.
pub fn flags(board: &str) -> Vec<String> {
    let has = Board::named(board).is_some_and(|board| board.cpus.errata.contains(&835_769));
    // The compiler warns of features that are LLVM's alone, once for each crate.
    let flags = ["-Ctarget-feature=+fix-cortex-a53-835769", "-Awarnings"];
    flags.into_iter().filter(|_| has).map(str::to_owned).collect()
}
