//! The command line, and which module carries out a command.

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use fusee_host::report;
use fusee_tool::command::Everywhere;

use crate::{dump, gdb, longest_path, suggest, top, trace};

/// Look into systems that run.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    everywhere: Everywhere,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the records of the last run as text, or writes other views of it.
    Trace(trace::TraceArguments),
    /// Runs a system in QEMU, or listens to one, and shows what each task does at the moment: who waits for whom, how late jobs are.
    Top(top::TopArguments),
    /// Says what each task was doing when the last run ended, where it was in its source, what it held and who waited for it.
    Dump(dump::DumpArguments),
    /// Runs a system under gdb, paused at first, with the symbols of the kernel and of each task.
    Gdb(gdb::GdbArguments),
    /// Writes the longest path of the kernel that the last run's trace has to the file of its board.
    LongestPath(longest_path::LongestPathArguments),
    /// Prints lines for the manifest of the last run, as `analyze --suggest` was asked to.
    #[command(hide = true)]
    Suggest(suggest::SuggestArguments),
}

/// Reads the command line and carries out its command.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.everywhere.apply();
    report::exit_code(dispatch(&arguments))
}

/// Carries out the command; `false`: it ran, and its result is not good.
fn dispatch(arguments: &Arguments) -> Result<bool> {
    let install = arguments.everywhere.installs();
    match &arguments.command {
        Command::Trace(arguments) => trace::trace(arguments),
        Command::Top(arguments) => top::top(arguments, install),
        Command::Dump(arguments) => dump::dump(arguments),
        Command::Gdb(arguments) => gdb::gdb(arguments, install),
        Command::LongestPath(arguments) => longest_path::longest_path(arguments),
        Command::Suggest(arguments) => suggest::suggest(arguments),
    }
}

/// Whether a command is one of these.
#[must_use]
pub fn has(name: &str) -> bool {
    Arguments::command().get_subcommands().any(|command| command.get_name() == name)
}
