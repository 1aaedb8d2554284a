//! Tests of the systems of a project: see the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fusee_tester::command::main()
}
