//! `cargo xtask run`: one system in QEMU, from manifest to verdict.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use fusee_abi::trace::Level;
use fusee_host::answers::By;
use fusee_host::build::Kernel;
use fusee_host::decisive::Decisive;
use fusee_host::evidence::Called;
use fusee_host::folders::Folder;
use fusee_host::judge::{Cause, Problem};
use fusee_host::kernels::{self};
use fusee_host::look::Look;
use fusee_host::on::{self, OnOptions};
use fusee_host::port;
use fusee_host::system::{self, Image, Run, Workspace};
use fusee_host::turns::{self, Turns};
use fusee_host::words;
use fusee_host::{answers, kept, observed, qemu, report, screen};
use fusee_manifest::{Expectations, Manifest, Profile, Time};
use fusee_views::latency::Latencies;
use fusee_views::metrics::Metrics;

use crate::command::SystemArguments;
use crate::values;

/// How to read the table of tasks. `docs/trace.md` says the same.
const COLUMNS: &str = "\
The table of tasks:
  jobs        jobs that completed
  missed      of these, completed after their deadlines
  skipped     releases that were dropped, because earlier jobs were late
  latest ms   completion less deadline of the latest job: negative if it was in time
  state       how the task ended; what it does at the end if the system did not end itself
  CPU ms      CPU time of the task's thread, on whichever budget it ran
  charged ms  time taken from the task's budget, by itself and by tasks that ran for it
  dry         how often its budget was exhausted
  NAME ms     time of engine NAME, from each grant until the engine was idle
Columns that say nothing are left out; a table that is too wide is printed in parts. --wide prints all in one.";

/// Arguments of `cargo xtask run`.
#[derive(Args)]
#[command(after_long_help = COLUMNS)]
pub struct RunArguments {
    #[command(flatten)]
    system: SystemArguments,
    /// Host seconds after which the run is ended, which is an error.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Virtual time after which the run is ended, which is none: for systems that do not end themselves.
    #[arg(long = "for", value_parser = values::time)]
    limit: Option<Time>,
    /// Go on when a `hard` task has ended, or the last task that may shut the system down.
    #[arg(long)]
    keep_going: bool,
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
    /// Print what tasks declare beside the longest that was seen: budgets, holds, calls, services; and how much of each stack was used.
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
    /// Listen at this serial port to a board that was started with this system (`cargo xtask flash`), in place of a run in QEMU. The manifest needs `speaks = true`.
    #[arg(long, value_name = "PORT", conflicts_with_all = ["limit", "quantum", "turns", "measure", "screenshot", "unmanaged", "qemu"])]
    on: Option<PathBuf>,
    /// Bits a second at that port.
    #[arg(long, value_name = "RATE", requires = "on", default_value_t = port::RATE)]
    baud: u32,
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

/// Whether a table `[test]` expects more of a run than ends of tasks and the opinion of a judge.
fn expects_more(expected: &Expectations) -> bool {
    let lists = [expected.console.is_empty(), expected.marks.is_empty(), expected.no_misses.is_empty()];
    expected.exit != 0
        || lists.contains(&false)
        || !expected.responses.is_empty()
        || expected.verdict.is_some()
        || expected.taken.is_some()
        || expected.eighth
        || expected.repeatable
}

/// Prints the tables that options ask for; returns the problems in them.
fn say_what_was_asked_for(
    run: &RunArguments,
    image: &Image,
    outcome: &Run,
    say: &dyn Fn(&str),
) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
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
    if run.observed && run.on.is_none() {
        let system = &image.manifest.system;
        let look = Look::new(system, &image.programs)?;
        let (memory, seen) = (&outcome.outcome.memory, look.see(&outcome.outcome.memory, &outcome.outcome.cpus)?);
        say(&observed::stack_table(system, |task| look.stack_used(memory, &seen, task)).to_string());
    }
    if run.observed && outcome.by == By::QemuDet {
        let kernels = kernels::of(&image.manifest.system, &outcome.outcome)?;
        if !kernels.is_empty() {
            say(&kernels::table(&kernels).to_string());
        }
        for text in kernels.iter().filter_map(kernels::KernelRan::problem) {
            eprintln!("{} {text}", report::red("error:"));
            problems.push(Problem { cause: Cause::Result, text });
        }
    }
    Ok(problems)
}

/// Builds a system, runs it in QEMU, and prints what each task got; `false` if something is wrong.
pub fn run(run: &RunArguments, install: bool) -> Result<bool> {
    let workspace = Workspace { kernel: Kernel::Asked, ..Workspace::here(install)? };
    let workspace = workspace.on(run.system.board.as_deref(), install);
    let path = workspace.project.manifest(run.system.path())?;
    let mut manifest = match run.measure {
        true => kernels::manifest(&workspace, &path, run.system.profile.into())?,
        false => workspace.manifest(&path)?,
    };
    manifest.system.trace = run.trace.unwrap_or(manifest.system.trace);
    let (workspace, folder) = workspace.in_folder()?;
    let judge = Called::of(&workspace.project, &manifest)?;
    let (image, mut outcome) = match &run.on {
        Some(port) => on_a_board(run, &workspace, &folder, manifest, port)?,
        None => in_qemu(run, &workspace, &folder, manifest)?,
    };
    if let Ok(trace) = &outcome.trace {
        system::keep_trace(&workspace.project, &image.manifest, trace)?;
        system::keep_tables(&workspace.project, &image.programs)?;
    }
    let left = kept::keep_run(&workspace.project, &image, &outcome)?;
    if let (true, Ok(trace)) = (run.turns, &outcome.trace) {
        outcome.away = system::turns_seen(&workspace, &image, trace)?;
        system::keep_turns(&workspace.project, &outcome.away)?;
    }
    folder.keep(outcome.trace.as_ref().map_or(0, |trace| trace.records.len()))?;
    let say = |text: &str| if run.json { eprintln!("{text}") } else { words::say(text) };
    let mut problems = system::print_outcome(&image, &outcome, &say);
    problems.extend(say_what_was_asked_for(run, &image, &outcome, &say)?);
    if run.measure {
        let kernels = kernels::of(&image.manifest.system, &outcome.outcome)?;
        kernels::keep(&image.manifest, &workspace.project.root, &kernels)?.iter().for_each(|line| say(line));
    }
    if let Some(judge) = judge
        && !judge.judge(&left, run.json)?
    {
        problems
            .push(Problem { cause: Cause::Result, text: "the judge of this system finds its results wrong".into() });
    }
    if let Some(path) = &run.screenshot {
        match screen::keep(path, outcome.outcome.screen.as_ref(), &run.when) {
            Ok(()) => say(&format!("the screen: {}", path.display())),
            Err(error) => problems.push(Problem { cause: Cause::Result, text: format!("{error:#}") }),
        }
    }
    if image.manifest.expectations.as_ref().is_some_and(expects_more) {
        let name = image.manifest.file.display();
        let note = report::yellow("note:");
        eprintln!(
            "{note} not compared with the table `[test]` of {name}, but for expected ends: `cargo xtask test` does that"
        );
    }
    let is_good = problems.is_empty();
    if run.json {
        words::say(&answers::line(&system::answer(&image, &outcome, problems))?);
    }
    Ok(is_good)
}

/// Builds a system, and runs it in QEMU.
fn in_qemu(run: &RunArguments, workspace: &Workspace, folder: &Folder, manifest: Manifest) -> Result<(Image, Run)> {
    let image = workspace.image_of_manifest(manifest, run.system.profile.into(), run.system.unmanaged)?;
    system::say_what_is_reached(&image.manifest.system);
    let mut arguments = run.qemu.clone();
    if run.turns {
        ensure!(image.profile == Profile::Det, "`--turns`: with `par` emulated CPUs do not take turns");
        arguments.extend(system::watching(workspace, &image)?);
    }
    let stimuli = screen::stimuli(&image.manifest.system, run.screenshot.as_deref(), &run.when)?;
    qemu::listen()?;
    folder.announce()?;
    let outcome = system::run(
        workspace,
        &image,
        &system::RunOptions {
            echo: !run.json,
            quantum: Turns::of(&image.manifest.system, run.quantum).quantum,
            is_patient: false,
            enters: true,
            arguments,
            until: run.limit.map(|limit| limit.0),
            stimuli,
            is_visited: !run.qemu.is_empty(),
            decisive: match run.keep_going {
                true => Vec::new(),
                false => {
                    Decisive::of(&image.manifest.system, image.manifest.expectations.as_ref(), run.limit.is_some())
                }
            },
            ..system::RunOptions::quiet(run.seconds)
        },
    )?;
    Ok((image, outcome))
}

/// Builds a system, and listens to a board that runs it. The board may use each of its CPUs, or, if an emulator plays it, every other one.
fn on_a_board(
    run: &RunArguments,
    workspace: &Workspace,
    folder: &Folder,
    manifest: Manifest,
    port: &Path,
) -> Result<(Image, Run)> {
    on::ensure_speaks(&manifest)?;
    let first = workspace.image_of_manifest(manifest.clone(), Profile::Par, false)?;
    let second = workspace.image_of(manifest, first.programs.clone(), Profile::Det, false);
    let mut images: Vec<Image> = [first].into_iter().chain(second.ok()).collect();
    qemu::listen()?;
    folder.announce()?;
    let limit = Duration::from_secs(run.seconds);
    let options = OnOptions { port, rate: run.baud, echo: !run.json, limit, silence: on::SILENCE };
    let (which, outcome) = on::run(&images, &options)?;
    Ok((images.swap_remove(which), outcome))
}
