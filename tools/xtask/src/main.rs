//! `cargo xtask`: builds, runs, tests and measures Fusee.
//!
//! ```text
//! toolchain  finds a compiler that has the targets, and QEMU
//! build      kernel, firmware, tasks and manifest -> one bootable image
//! qemu       runs an image under a time limit
//! decode     guest memory -> trace, addresses -> source lines, stacks -> calls
//! typed      memory -> values, by the names of the source
//! look       guest memory -> tasks, what they wait for and hold
//! dump       `cargo xtask dump`
//! dump_check whether it names the right lines
//! gdb        `cargo xtask gdb`
//! report     trace -> fault reports and the table of tasks
//! simulate   `cargo xtask simulate`
//! soundness  whether observed lateness stays within its bounds
//! hostile    `cargo xtask hostile`: whether what is proved holds among tasks that do anything
//! system     build, run, decode and report, for one manifest
//! analyze    `cargo xtask analyze`
//! task_set   task sets written as JSON
//! agreement  whether a run and its simulation used the engines in the same order
//! crowd      `bench`: what scheduling costs among many tasks
//! experiment `cargo xtask experiment`: arrangements of one workload, compared
//! judge      whether a run kept what its manifest promises
//! turns      how long the turns of emulated CPUs may be
//! conformance  whether QEMU, the simulator and golden traces agree
//! docs       whether pages, manifests and commands agree
//! structure  what must stay true of the tree and of the kernel's size
//! demo       what only the demo does after its run
//! tests      `cargo xtask test`
//! readme     commands that pages show, and what they print
//! bench      `cargo xtask bench`
//! profile    `cargo xtask profile`
//! purposes   what a function of the kernel is for
//! worst      `cargo xtask worst`
//! adversary  `worst`: systems that make traps as long as they can be
//! ```
//!
//! Not here: what a manifest means and how traces are read (`tools/manifest`).
#![forbid(unsafe_code)]

mod adversary;
mod agreement;
mod analyze;
mod bench;
mod build;
mod combinations;
mod configurations;
mod conformance;
mod contention;
mod crowd;
mod decode;
mod demo;
mod docs;
mod dump;
mod dump_check;
mod experiment;
mod explain;
mod gdb;
mod hostile;
mod judge;
mod look;
mod profile;
mod purposes;
mod qemu;
mod readme;
mod report;
mod simulate;
mod soundness;
mod structure;
mod system;
mod task_set;
mod tests;
mod toolchain;
mod turns;
mod typed;
mod worst;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Profile, Time};
use fusee_simulator::metrics::Metrics;
use fusee_views::litmus;
use fusee_views::schedule::Schedule;

use crate::build::Features;
use crate::system::Workspace;
use crate::turns::Turns;

/// Build, run, test and measure Fusee.
///
/// The first use looks for a compiler that can build for AArch64, and for QEMU: first the active toolchain,
/// then `rustup target add`, then Debian's packages. Whatever is missing is named, and installed if we are root.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Install nothing; say what is missing instead.
    #[arg(long, global = true)]
    no_install: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a system in QEMU (the demo, unless told otherwise), then prints what each task got.
    Run(RunArguments),
    /// Builds the image of a system (the demo, unless told otherwise) and says where it is.
    Build(SystemArguments),
    /// Runs all checks: format, lints, host tests, and the systems of `tests/target` in QEMU.
    Test(tests::TestArguments),
    /// Simulates a system or task sets on the host: the same kernel, scripted tasks, virtual time.
    Simulate(simulate::SimulateArguments),
    /// Says what can be proved of a system, or of task sets, before they run.
    Analyze(analyze::AnalyzeArguments),
    /// Measures the paths of the kernel, in instructions, beside those of other kernels.
    Bench(bench::BenchArguments),
    /// Says where the instructions of the paths that `bench` measures go, by function and by what they are for.
    Profile(profile::ProfileArguments),
    /// Searches for the longest path of each kind of trap, in systems that are made to find it.
    Worst(worst::WorstArguments),
    /// Runs one workload in several arrangements, and says whether what comes out has the shape it should.
    Experiment(experiment::ExperimentArguments),
    /// Simulates random systems in which all tasks that are not proved do anything, and counts deadlines of proved ones that are missed.
    Hostile(hostile::HostileArguments),
    /// Simulates CPUs that all call at once: how much they do, and how long they wait for the kernel's lock
    Contention(contention::ContentionArguments),
    /// Prints the records of the last run as text.
    Trace(TraceArguments),
    /// Says what each task was doing when the last run ended, where it was in its source, what it held and who waited for it.
    Dump(dump::DumpArguments),
    /// Runs a system under gdb, paused at first, with the symbols of the kernel and of each task.
    Gdb(gdb::GdbArguments),
}

/// Which system, and how.
#[derive(Args, Clone)]
struct SystemArguments {
    /// The system's manifest.
    #[arg(long, default_value = demo::MANIFEST)]
    manifest: PathBuf,
    /// How QEMU keeps time: `det` counts instructions and repeats exactly, `par` runs on host threads.
    #[arg(long, default_value = "det")]
    profile: ProfileArgument,
    /// Leave all doorbells mapped: engine locks become advice.
    #[arg(long)]
    unmanaged: bool,
}

#[derive(Args)]
struct RunArguments {
    #[command(flatten)]
    system: SystemArguments,
    /// Host seconds after which the run is ended, which is an error.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Virtual time after which the run is ended, which is none: for systems that do not end themselves.
    #[arg(long = "for", value_parser = simulate::time)]
    limit: Option<Time>,
    /// Longest turn of an emulated CPU in virtual microseconds (det only), 1 to 1000. Unless told otherwise as long as the system's
    /// budgets can spare, at most 50.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    quantum: Option<u32>,
    /// Print response times and lateness of each task, too, as `simulate` does.
    #[arg(long)]
    responses: bool,
    /// Arguments for QEMU, such as `-- -S -gdb tcp::1234`.
    #[arg(last = true)]
    qemu: Vec<String>,
}

#[derive(Args)]
struct TraceArguments {
    /// What to show in place of the records.
    #[command(subcommand)]
    view: Option<View>,
    /// Print the canonical form, in which a run in QEMU and one in the simulator can be compared.
    #[arg(long)]
    canonical: bool,
    /// Draw the schedule, from the first release on.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the trace for Perfetto.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write what LITMUS^RT has records for in the format of its `sched_trace`.
    #[arg(long, value_name = "FILE")]
    litmus: Option<PathBuf>,
}

#[derive(Subcommand)]
enum View {
    /// Says where the time of a job went, to the nanosecond
    Explain(explain::ExplainArguments),
}

#[derive(Clone, Copy, ValueEnum)]
enum ProfileArgument {
    Det,
    Par,
}

impl From<ProfileArgument> for Profile {
    fn from(argument: ProfileArgument) -> Self {
        match argument {
            ProfileArgument::Det => Profile::Det,
            ProfileArgument::Par => Profile::Par,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match dispatch(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{} {error:#}", report::red("error:"));
            ExitCode::FAILURE
        }
    }
}

/// Carries out the command; `false`: it ran, and what it found is not good.
fn dispatch(arguments: &Arguments) -> Result<bool> {
    let install = !arguments.no_install;
    match &arguments.command {
        Command::Run(run) => {
            let workspace = Workspace { features: Features::Asked, ..Workspace::open(install)? };
            let image = workspace.image(&run.system.manifest, run.system.profile.into(), run.system.unmanaged)?;
            let outcome = system::run(
                &workspace,
                &image,
                &system::RunOptions {
                    echo: true,
                    seconds: run.seconds,
                    quantum: Turns::of(&image.manifest.system, run.quantum).quantum,
                    arguments: run.qemu.clone(),
                    until: run.limit.map(|limit| limit.0),
                },
            )?;
            if let Ok(trace) = &outcome.trace {
                system::keep_trace(&workspace.root, &image.manifest, trace)?;
            }
            dump::keep(&workspace.root, &image, &outcome.outcome)?;
            let good = system::print_outcome(&image, &outcome);
            if let (true, Ok(trace)) = (run.responses, &outcome.trace) {
                println!("{}", report::response_table(&Metrics::of(trace, &image.manifest.system)));
            }
            let demo_good = demo::after_run(&workspace, &image, &outcome)?;
            Ok(good && demo_good)
        }
        Command::Build(build) => {
            let workspace = Workspace { features: Features::Asked, ..Workspace::open(install)? };
            let image = workspace.image(&build.manifest, build.profile.into(), build.unmanaged)?;
            println!("{}", image.path.display());
            Ok(true)
        }
        Command::Simulate(arguments) => simulate::simulate(arguments),
        Command::Test(test) => tests::test(test, install),
        Command::Analyze(arguments) => analyze::analyze(arguments),
        Command::Bench(bench) => bench::bench(bench, install),
        Command::Profile(profile) => profile::profile(profile, install),
        Command::Worst(worst) => worst::worst(worst, install),
        Command::Experiment(arguments) => experiment::experiment(arguments, install),
        Command::Hostile(arguments) => hostile::hostile(arguments),
        Command::Contention(arguments) => contention::contention(arguments),
        Command::Dump(arguments) => dump::dump(arguments),
        Command::Gdb(arguments) => gdb::gdb(arguments, install),
        Command::Trace(trace) => {
            let root = system::root()?;
            let (trace_read, manifest) = system::last_trace(&root).context("no run to show; try `cargo xtask run`")?;
            eprintln!("the last run: system `{}`", manifest.system.name);
            match &trace.view {
                Some(View::Explain(arguments)) => explain::explain(arguments, &trace_read, &manifest),
                None if trace.svg.is_some() || trace.perfetto.is_some() || trace.litmus.is_some() => {
                    write_views(trace, &trace_read, &manifest)
                }
                None => system::print_trace(&trace_read, &manifest, trace.canonical),
            }
        }
    }
}

/// Writes the views of a trace that are asked for as files.
fn write_views(arguments: &TraceArguments, trace: &Trace, manifest: &Manifest) -> Result<bool> {
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::write(path, bytes).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
        anyhow::Ok(())
    };
    if let Some(path) = &arguments.svg {
        let schedule = Schedule::of(trace, &manifest.system);
        let window = schedule.window(manifest.system.start);
        write(path, schedule.picture(&manifest.system, window).as_bytes())?;
    }
    if let Some(path) = &arguments.perfetto {
        write(path, &fusee_views::perfetto::perfetto(trace, &manifest.system))?;
    }
    if let Some(path) = &arguments.litmus {
        write(path, &litmus::write(&litmus::records(trace, &manifest.system)))?;
    }
    Ok(true)
}
