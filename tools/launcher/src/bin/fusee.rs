//! `fusee`: see the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fusee_launcher::main(std::env::args_os().skip(1).collect())
}
