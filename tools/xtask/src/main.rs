//! `cargo xtask`: builds, runs, tests and measures Fusee.
//!
//! ```text
//! toolchain  finds a compiler that has the targets, and QEMU
//! build      kernel, firmware, tasks and manifest -> one bootable image
//! qemu       runs an image under a time limit
//! decode     guest memory -> trace, addresses -> source lines, stacks -> calls
//! defmt      what tasks say by the crate `defmt`
//! typed      memory -> values, by the names of the source
//! look       guest memory -> tasks, what they wait for and hold
//! dump       `cargo xtask dump`
//! dump_check whether it names the right lines
//! gdb        `cargo xtask gdb`
//! boards     what was run on each board
//! boot       whether boards start, and say why they do not
//! errata     what compiler and linker keep away from, and whether they did
//! flash      `cargo xtask flash`: cards that boards start from
//! faults     `experiment faults`: the demo while tasks of it end
//! fuzz       `cargo xtask fuzz`: bytes that break what reads bytes of others
//! screen     pictures of a screen, and what tests want to see there
//! report     trace -> fault reports and the table of tasks
//! table      tables that fit a terminal
//! simulate   `cargo xtask simulate`
//! soundness  whether observed lateness stays within its bounds
//! campaign   `cargo xtask campaign`: random systems in large numbers, and the suite's budget of them
//! launches   random launches of GPU kernels, as a campaign
//! hostile    `cargo xtask hostile`: whether what is proved holds among tasks that do anything
//! project    the workspace that a command is about, ours or one outside
//! new        `cargo xtask new`
//! stream     the trace that a task sends over a serial line
//! top        `cargo xtask top`: what a system does at the moment
//! trace      `cargo xtask trace`: views of the last run
//! system     build, run, decode and report, for one manifest
//! analyze    `cargo xtask analyze`
//! task_set   task sets written as JSON
//! agreement  whether a run and its simulation used the engines in the same order
//! crowd      `bench`: what scheduling costs among many tasks
//! experiment `cargo xtask experiment`: arrangements of one workload, compared
//! observed   what tasks declare, beside what was seen
//! answers    what `--json` prints, and its schemas
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
mod answers;
mod bench;
mod boards;
mod boot;
mod browser;
mod build;
mod campaign;
mod clients;
mod combinations;
mod configurations;
mod conformance;
mod contention;
mod coverage;
mod crowd;
mod decode;
mod defmt;
mod demo;
mod docs;
mod dump;
mod dump_check;
mod errata;
mod experiment;
mod explain;
mod faults;
mod flash;
mod fuzz;
mod gdb;
mod hostile;
mod isolation;
mod judge;
mod kernels;
mod launches;
mod look;
mod markdown;
mod new;
mod observed;
mod own_kernels;
mod profile;
mod project;
mod purposes;
mod qemu;
mod readme;
mod report;
mod screen;
mod simulate;
mod soundness;
mod stream;
mod structure;
mod system;
mod table;
mod task_set;
mod tests;
mod toolchain;
mod top;
mod trace;
mod turns;
mod typed;
mod vision;
mod worst;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use fusee_abi::trace::Level;
use fusee_manifest::{Profile, Time};
use fusee_simulator::latency::Latencies;
use fusee_simulator::metrics::Metrics;

use crate::build::Kernel;
use crate::judge::{Cause, Problem};
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
    /// Print each table as one, with all its columns, however wide.
    #[arg(long, global = true)]
    wide: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Makes a project of one's own: a task, its manifest, and all that `cargo xtask` needs to build and run them.
    New(new::NewArguments),
    /// Runs a system in QEMU (the demo, unless told otherwise), then prints what each task got.
    Run(RunArguments),
    /// Builds the image of a system (the demo, unless told otherwise) and says where it is.
    Build(SystemArguments),
    /// Makes the image of a card that a board starts from, or writes such a card.
    Flash(flash::FlashArguments),
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
    /// Draws random systems in large numbers: `cargo xtask test` draws a part of them. An interrupted run goes on where it was.
    Campaign(campaign::CampaignArguments),
    /// Looks for bytes that break what reads bytes of others: calls, manifests, images, rings, traces.
    Fuzz(fuzz::FuzzArguments),
    /// Says which lines of the kernel's state machine its tests on the host do not run.
    Coverage(coverage::CoverageArguments),
    /// Simulates CPUs that all call at once: how much they do, and how long they wait for the kernel's lock
    Contention(contention::ContentionArguments),
    /// Prints the records of the last run as text, or writes other views of it.
    Trace(trace::TraceArguments),
    /// Runs a system in QEMU, or listens to one, and shows what each task does at the moment: who waits for whom, how late jobs are.
    Top(top::TopArguments),
    /// Says what each task was doing when the last run ended, where it was in its source, what it held and who waited for it.
    Dump(dump::DumpArguments),
    /// Runs a system under gdb, paused at first, with the symbols of the kernel and of each task.
    Gdb(gdb::GdbArguments),
    /// Decodes frames of `defmt`: for `trace --messages`.
    #[command(name = defmt::DECODE, hide = true)]
    DecodeDefmt(defmt::DecodeArguments),
}

/// How to read the table of tasks. `docs/trace.md` says the same.
const COLUMNS: &str = "\
The table of tasks:
  jobs        jobs that completed
  missed      of these, completed after their deadlines
  skipped     releases that were dropped, because earlier jobs were late
  latest ms   completion less deadline of the latest job: negative if it was in time
  state       how the task ended; what it does at the end if the system was ended from outside
  CPU ms      CPU time of the task's thread, on whichever budget it ran
  charged ms  time taken from the task's budget, by itself and by tasks that ran for it
  dry         how often its budget was exhausted
  NAME ms     time of engine NAME, from each grant until the engine was idle
Columns that say nothing are left out; a table that is too wide is printed in parts. --wide prints all in one.";

/// Which system, and how.
#[derive(Args, Clone)]
struct SystemArguments {
    /// The system's manifest. [default: the demo; in a project of one's own its system.toml]
    #[arg(conflicts_with = "manifest")]
    system: Option<PathBuf>,
    /// The same.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// How QEMU keeps time: `det` counts instructions and repeats exactly, `par` runs on host threads.
    #[arg(long, default_value = "det")]
    profile: ProfileArgument,
    /// Leave all doorbells mapped: engine locks become advice.
    #[arg(long)]
    unmanaged: bool,
    /// The board, in place of the one that the manifest names: virt, virt-gicv2, zcu102, raspi3b, raspi4b or versal.
    #[arg(long)]
    board: Option<String>,
}

#[derive(Args)]
#[command(after_long_help = COLUMNS)]
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
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(turns::LONGEST)))]
    quantum: Option<u32>,
    /// What the kernel keeps in its trace, whatever the manifest says: off, marks, schedule or full.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    trace: Option<Level>,
    /// Watch whose turn it is, so that `trace explain` tells the turns of other emulated CPUs from a job's own execution: takes the host
    /// some three times as long (det only).
    #[arg(long)]
    turns: bool,
    /// Print response times and lateness of each task, too, as `simulate` does.
    #[arg(long)]
    responses: bool,
    /// Print what tasks declare beside the longest that was seen: budgets, holds, calls, services.
    #[arg(long)]
    observed: bool,
    /// Measure how long blocks of GPU kernels take whose authors do not know, and write that to the files that `times` of the devices name (det only).
    #[arg(long)]
    measure: bool,
    /// Write a picture of the system's screen to this file, PNG, made when its console shows a line with the text of `--when`. With a screen, Enter is typed
    /// after that, for systems that wait.
    #[arg(long, value_name = "FILE")]
    screenshot: Option<PathBuf>,
    /// The text.
    #[arg(long, value_name = "TEXT", requires = "screenshot", default_value = screen::STANDS)]
    when: String,
    /// Print one JSON object (docs/schema/run.json), and all else to the standard error output.
    #[arg(long)]
    json: bool,
    /// Arguments for QEMU, such as `-- -S -gdb tcp::1234`.
    #[arg(last = true)]
    qemu: Vec<String>,
}

/// A level of the trace, by its name.
fn level(text: &str) -> Result<Level, String> {
    let choices = || Level::ALL.map(Level::name).join(", ");
    Level::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| format!("the levels are {}", choices()))
}

#[derive(Clone, Copy, Eq, PartialEq, ValueEnum)]
enum ProfileArgument {
    Det,
    Par,
}

impl SystemArguments {
    /// The one that is named.
    fn path(&self) -> Option<&Path> {
        self.manifest.as_deref().or(self.system.as_deref())
    }
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
    if std::env::var_os(fuzz::COMPILES).is_some() {
        return fuzz::compile();
    }
    let arguments = Arguments::parse();
    if arguments.wide {
        table::print_wide();
    }
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
        Command::New(arguments) => new::new(arguments),
        Command::Run(run) => {
            let workspace = Workspace { kernel: Kernel::Asked, ..Workspace::here(install)? };
            let workspace = workspace.on(run.system.board.as_deref(), install);
            let path = workspace.project.manifest(run.system.path())?;
            let mut manifest = match run.measure {
                true => kernels::manifest(&workspace, &path, run.system.profile.into())?,
                false => workspace.manifest(&path)?,
            };
            manifest.system.trace = run.trace.unwrap_or(manifest.system.trace);
            let image = workspace.image_of_manifest(manifest, run.system.profile.into(), run.system.unmanaged)?;
            system::say_what_is_reached(&image.manifest.system);
            let mut arguments = run.qemu.clone();
            if run.turns {
                ensure!(image.profile == Profile::Det, "`--turns`: with `par` emulated CPUs do not take turns");
                arguments.extend(system::watching(&workspace, &image)?);
            }
            let stimuli = screen::stimuli(&image.manifest.system, run.screenshot.as_deref(), &run.when)?;
            let mut outcome = system::run(
                &workspace,
                &image,
                &system::RunOptions {
                    echo: !run.json,
                    quantum: Turns::of(&image.manifest.system, run.quantum).quantum,
                    enters: true,
                    arguments,
                    until: run.limit.map(|limit| limit.0),
                    stimuli,
                    ..system::RunOptions::quiet(run.seconds)
                },
            )?;
            match &outcome.trace {
                Ok(trace) => {
                    system::keep_trace(&workspace.project, &image.manifest, trace)?;
                    system::keep_tables(&workspace.project, &image.programs)?;
                }
                Err(_) => system::forget_trace(&workspace.project)?,
            }
            dump::keep(&workspace.project, &image, &outcome.outcome)?;
            if let (true, Ok(trace)) = (run.turns, &outcome.trace) {
                outcome.away = system::turns_seen(&workspace, &image, trace)?;
                system::keep_turns(&workspace.project, &outcome.away)?;
            }
            let say = |text: &str| if run.json { eprintln!("{text}") } else { println!("{text}") };
            let mut problems = system::print_outcome(&image, &outcome, &say);
            if let (true, Ok(trace)) = (run.responses, &outcome.trace) {
                say(&report::response_table(&Metrics::of(trace, &image.manifest.system)));
            }
            if let Ok(trace) = &outcome.trace {
                let latencies = Latencies::of(trace, &image.manifest.system);
                report::graph_table(&image.manifest.system, &latencies).into_iter().for_each(|table| say(&table));
            }
            if let (true, Ok(trace)) = (run.observed, &outcome.trace) {
                say(&observed::table(&answers::observed(trace, &image.manifest.system)).to_string());
            }
            if run.observed && image.profile == Profile::Det {
                let kernels = kernels::of(&image.manifest.system, &outcome.outcome)?;
                if !kernels.is_empty() {
                    say(&kernels::table(&kernels).to_string());
                }
                for text in kernels.iter().filter_map(kernels::KernelRan::problem) {
                    eprintln!("{} {text}", report::red("error:"));
                    problems.push(Problem { cause: Cause::Result, text });
                }
            }
            if run.measure {
                let kernels = kernels::of(&image.manifest.system, &outcome.outcome)?;
                kernels::keep(&image.manifest, &workspace.project.root, &kernels)?.iter().for_each(|line| say(line));
            }
            if !demo::after_run(&workspace, &image, &outcome, &say)? {
                problems.push(Problem { cause: Cause::Result, text: "the demo is not right".into() });
            }
            if !vision::after_run(&workspace, &image, &outcome, &say)? {
                problems.push(Problem { cause: Cause::Result, text: "the video is not right".into() });
            }
            if let Some(path) = &run.screenshot {
                match screen::keep(path, outcome.outcome.screen.as_ref(), &run.when) {
                    Ok(()) => say(&format!("the screen: {}", path.display())),
                    Err(error) => problems.push(Problem { cause: Cause::Result, text: format!("{error:#}") }),
                }
            }
            let is_good = problems.is_empty();
            if run.json {
                println!("{}", answers::line(&system::answer(&image, &outcome, problems))?);
            }
            Ok(is_good)
        }
        Command::Build(build) => {
            let workspace =
                Workspace { kernel: Kernel::Asked, board: build.board.clone(), ..Workspace::here(install)? };
            let manifest = workspace.project.manifest(build.path())?;
            let image = workspace.image(&manifest, build.profile.into(), build.unmanaged)?;
            println!("{}", image.path.display());
            Ok(true)
        }
        Command::Flash(arguments) => flash::flash(arguments, install),
        Command::Simulate(arguments) => simulate::simulate(arguments),
        Command::Test(test) => tests::test(test, install),
        Command::Analyze(arguments) => analyze::analyze(arguments),
        Command::Bench(bench) => bench::bench(bench, install),
        Command::Profile(profile) => profile::profile(profile, install),
        Command::Worst(worst) => worst::worst(worst, install),
        Command::Experiment(arguments) => experiment::experiment(arguments, install),
        Command::Hostile(arguments) => hostile::hostile(arguments),
        Command::Campaign(arguments) => campaign::campaign(arguments),
        Command::Fuzz(arguments) => fuzz::fuzz(arguments, install),
        Command::Coverage(arguments) => coverage::coverage(arguments, install),
        Command::Contention(arguments) => contention::contention(arguments),
        Command::Trace(arguments) => trace::trace(arguments),
        Command::Top(arguments) => top::top(arguments, install),
        Command::Dump(arguments) => dump::dump(arguments),
        Command::Gdb(arguments) => gdb::gdb(arguments, install),
        Command::DecodeDefmt(arguments) => defmt::decode(arguments),
    }
}
