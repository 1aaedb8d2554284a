//! Looks into systems that run: see the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fusee_looks::command::main()
}
