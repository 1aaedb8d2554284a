//! Judges the kept run of a demo: see the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fusee_host::evidence::main(demo_judge::judge)
}
