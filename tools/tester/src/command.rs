//! The command line of a project's tests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use fusee_host::system::board;
use fusee_host::{build, qemu, report, words};
use fusee_tool::command::{Everywhere, ProfileArgument};

use crate::project::{self, Choice};
use crate::queue;

/// Tests of a project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs `cargo test`, and each system of the project whose manifest has a table `[test]`: `system.toml`, and all manifests in the folder `tests`.
    Test(Options),
}

/// Options of `cargo xtask test` in a project.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    runner: libtest_mimic::Arguments,
    /// Write golden traces instead of comparing with them: NAME.trace beside NAME.toml, of each system with scripts.
    #[arg(long)]
    bless: bool,
    /// The board, in place of those that manifests name; may be given several times.
    #[arg(long, value_parser = board)]
    board: Vec<String>,
    /// Only runs of this profile.
    #[arg(long)]
    profile: Option<ProfileArgument>,
    /// Write the results as JUnit XML, too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    everywhere: Everywhere,
}

/// Reads the command line and carries out its command.
pub fn main() -> ExitCode {
    queue::heed_output();
    let Arguments { command: Command::Test(options) } = Arguments::parse();
    options.everywhere.apply();
    report::exit_code(test(&options))
}

/// Whether a command is one of these.
#[must_use]
pub fn has(name: &str) -> bool {
    Arguments::command().get_subcommands().any(|command| command.get_name() == name)
}

/// Runs the tests that the command line asks for; `false`: one failed.
fn test(options: &Options) -> Result<bool> {
    build::remember();
    qemu::listen()?;
    let choice = Choice {
        boards: options.board.clone(),
        profile: options.profile.map(Into::into),
        bless: options.bless,
        install: options.everywhere.installs(),
        filter: options.runner.filter.clone(),
    };
    let cases = project::cases(&choice)?;
    let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    let runner = &options.runner;
    if let Some(filter) = &runner.filter
        && !names.iter().any(|name| name.contains(filter.as_str()))
        && !runner.list
        && !runner.exact
    {
        eprintln!("{}", queue::no_match(filter, &names));
        return Ok(false);
    }
    let (done, conclusion) = queue::run(cases, runner, &BTreeMap::new());
    if runner.list {
        return Ok(true);
    }
    if let Some(path) = &options.junit {
        queue::write_junit(path, &project::name()?, &done)?;
    }
    let failed = done.iter().filter(|one| !one.found.problems.is_empty());
    if let Some(words) = failed.filter_map(|one| hint(&one.name)).next() {
        words::say(&words);
    }
    Ok(!conclusion.has_failed())
}

/// The command that shows more of a test of this name, if a system failed: what failed on the host has said all.
fn hint(name: &str) -> Option<String> {
    let (_, system) = name.rsplit_once("::").filter(|_| name != project::HOST)?;
    Some(format!("look into it: `cargo xtask run {system}.toml`, then `cargo xtask trace` or `dump`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_failed_is_looked_into_and_a_test_on_the_host_is_not() {
        let words = "look into it: `cargo xtask run tests/late.toml`, then `cargo xtask trace` or `dump`";
        assert_eq!(hint("det::tests/late").as_deref(), Some(words));
        assert_eq!(hint(project::HOST), None);
    }
}
