//! `cargo xtask flash`: see the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use fusee_flash::FlashArguments;
use fusee_host::report;
use fusee_tool::command::Everywhere;

/// Makes the image of a card that a board starts from, or writes such a card.
#[derive(Parser)]
#[command(name = "cargo xtask flash", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    everywhere: Everywhere,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Makes the image of a card that a board starts from, or writes such a card.
    Flash(FlashArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.everywhere.apply();
    let Command::Flash(flash) = &arguments.command;
    report::exit_code(fusee_flash::flash(flash, arguments.everywhere.installs()))
}
