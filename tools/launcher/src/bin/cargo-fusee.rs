//! `cargo fusee`, and `cargo xtask` in a project: see the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // The first word is the name of the command, which cargo hands on.
    fusee_launcher::main(std::env::args_os().skip(2).collect())
}
