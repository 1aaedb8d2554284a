//! `cargo xtask flash`: see the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use fusee_flash::FlashArguments;
use fusee_host::report;

/// Makes the image of a card that a board starts from, or writes such a card.
#[derive(Parser)]
#[command(name = "cargo xtask flash", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Install nothing; say what is missing instead.
    #[arg(long, global = true)]
    no_install: bool,
    /// Print each table as one, with all its columns, however wide.
    #[arg(long, global = true)]
    wide: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Makes the image of a card that a board starts from, or writes such a card.
    Flash(FlashArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.wide {
        fusee_host::table::print_wide();
    }
    let Command::Flash(flash) = &arguments.command;
    report::exit_code(fusee_flash::flash(flash, !arguments.no_install))
}
