//! The command line, and which module carries out a command.

use std::process::{self, ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use fusee_host::report;
use fusee_tool::command::Everywhere;

use crate::{bench, campaign, contention, coverage, experiment, fuzz, hostile, profile, study, worst};

/// Measure Fusee, and look for what breaks it.
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
    /// Measures the paths of the kernel, in instructions, beside those of other kernels.
    Bench(bench::BenchArguments),
    /// Says where the instructions of the paths that `bench` measures go, by function and by what they are for.
    Profile(profile::ProfileArguments),
    /// Searches for the longest path of each kind of trap, in systems that are made to find it.
    Worst(worst::WorstArguments),
    /// Runs one workload in several arrangements, and says whether what comes out has the shape it should.
    Experiment(experiment::ExperimentArguments),
    /// Judges random task sets under 57 arrangements of CPUs and GPUs, and says which arrangement accepts most.
    Study(study::StudyArguments),
    /// Simulates random systems in which all tasks that are not proved do anything, and counts deadlines of proved ones that are missed.
    Hostile(hostile::HostileArguments),
    /// Draws random systems in large numbers: `cargo xtask test` draws a part of them. An interrupted run goes on where it was.
    Campaign(campaign::CampaignArguments),
    /// Looks for bytes that break what reads bytes of others: calls, manifests, images, rings, traces.
    Fuzz(fuzz::FuzzArguments),
    /// Says which lines of the kernel's state machine its tests on the host do not run.
    Coverage(coverage::CoverageArguments),
    /// Simulates CPUs that all call at once: how much they do, and how long they wait for the kernel's lock
    Contention(contention::ContentionArguments),
}

/// Set: this program is `cargo xtask`, with all its commands but `test`. Then nothing has to be built for these.
pub const AS_TOOL: &str = "FUSEE_AS_TOOL";

/// This program, as `cargo xtask`: cargo need not build it again, nor wait for its own lock.
///
/// # Errors
/// The program does not know where it is.
pub fn as_tool() -> std::io::Result<process::Command> {
    let mut command = process::Command::new(std::env::current_exe()?);
    command.env(AS_TOOL, "1").env("NO_COLOR", "1");
    Ok(command)
}

/// Reads the command line and carries out its command.
pub fn main() -> ExitCode {
    // Cargo calls this program as its compiler while bytes are to be found.
    if std::env::var_os(fuzz::COMPILES).is_some() {
        return fuzz::compile();
    }
    if std::env::var_os(AS_TOOL).is_some() {
        return tool();
    }
    research()
}

/// Carries out a command of the tool, or of the programs that it builds when they are first asked for.
pub fn tool() -> ExitCode {
    match std::env::args().nth(1) {
        Some(name) if has(&name) => research(),
        Some(name) if fusee_advise::command::has(&name) => fusee_advise::command::main(),
        Some(name) if fusee_looks::command::has(&name) => fusee_looks::command::main(),
        Some(name) if fusee_simulate::command::has(&name) => fusee_simulate::command::main(),
        _ => fusee_tool::command::main(),
    }
}

fn research() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.everywhere.apply();
    report::exit_code(dispatch(&arguments))
}

/// Carries out the command; `false`: it ran, and its result is not good.
fn dispatch(arguments: &Arguments) -> Result<bool> {
    let install = arguments.everywhere.installs();
    match &arguments.command {
        Command::Bench(bench) => bench::bench(bench, install),
        Command::Profile(profile) => profile::profile(profile, install),
        Command::Worst(worst) => worst::worst(worst, install),
        Command::Experiment(arguments) => experiment::experiment(arguments, install),
        Command::Study(arguments) => study::study(arguments),
        Command::Hostile(arguments) => hostile::hostile(arguments),
        Command::Campaign(arguments) => campaign::campaign(arguments),
        Command::Fuzz(arguments) => fuzz::fuzz(arguments, install),
        Command::Coverage(arguments) => coverage::coverage(arguments, install),
        Command::Contention(arguments) => contention::contention(arguments),
    }
}

/// Whether a command is one of these.
pub fn has(name: &str) -> bool {
    use clap::CommandFactory;
    Arguments::command().get_subcommands().any(|command| command.get_name() == name)
}
