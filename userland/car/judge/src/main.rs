//! Judges the kept run of the car: see the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fusee_host::evidence::main(lane_judge::judge)
}
