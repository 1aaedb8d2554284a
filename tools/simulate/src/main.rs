//! The command of the simulator: see the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fusee_simulate::command::main()
}
