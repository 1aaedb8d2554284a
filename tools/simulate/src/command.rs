//! The command line.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use fusee_host::report;
use fusee_tool::command::Everywhere;

use crate::simulate::{self, SimulateArguments};

/// Simulate systems and task sets.
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
    /// Simulates a system or task sets on the host: the same kernel, programs or scripts, virtual time.
    Simulate(SimulateArguments),
}

/// Reads the command line and carries out its command.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.everywhere.apply();
    let Command::Simulate(simulated) = &arguments.command;
    report::exit_code(simulate::simulate(simulated))
}

/// Whether a command is one of these.
#[must_use]
pub fn has(name: &str) -> bool {
    Arguments::command().get_subcommands().any(|command| command.get_name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_option_is_blamed_and_not_the_manifest() {
        for (line, option, words) in [
            ("simulate --cpus 0", "--cpus", "0 is not in 1..="),
            ("simulate --cpus 99", "--cpus", "99 is not in 1..="),
            ("simulate --clusters 0", "--clusters", "a list of sizes"),
        ] {
            let words_of = ["cargo xtask"].into_iter().chain(line.split(' '));
            let error = Arguments::try_parse_from(words_of).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(&format!("for '{option}")) && error.contains(words), "{line}: {error}");
        }
    }
}
