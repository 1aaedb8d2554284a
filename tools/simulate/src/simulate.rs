//! `cargo xtask simulate`: one system, or the systems of task sets, on the host in virtual time.
//!
//! The simulated system comes from a manifest, from a file of task sets, or from a few words and a seed. Systems made of
//! task sets are written to `target/fusee/simulated.toml`, where they can be looked at and run as any other.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use fusee_abi::trace::Record;
use fusee_kernel_core::{limits, object};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, PolicyName, Resolved, Time, Variant};
use fusee_simulator::system::INSTEAD;
use fusee_simulator::workload::{CPU, Generator, Platform, SimulatedTask, Source, TaskSet, cpus, task_name};
use fusee_simulator::{
    Checks, EndedBy, First, Hosted, Options, Overheads, Pace, Report, has_substitute, simulate_observed, unsuited,
};
use fusee_views::metrics::Metrics;
use fusee_views::services::Services;
use fusee_views::state::{Awaited, Ended, State};
use indicatif::{ProgressBar, ProgressStyle};

use fusee_host::answers::{self, RunAnswer, VerdictAnswer};
use fusee_host::decisive::Decisive;
use fusee_host::folders::Folder;
use fusee_host::judge::{Cause, Problem, Verdict, Watch};
use fusee_host::observed::{Observed, What, broken};
use fusee_host::project::Project;
use fusee_host::report;
use fusee_host::system;
use fusee_host::toolchain;
use fusee_host::words;
use fusee_pictures::Pictures;
use fusee_tool::task_set as written;
use fusee_tool::values::{self, Sizes};

use crate::hosted;
use crate::seeds::{self, SeedsArguments};

/// Records that are kept for `cargo xtask trace` and for pictures; of a longer run it is the first ones.
const KEPT: usize = 4_000_000;
/// Task sets may run long, and do little that is not done again and again.
const CHECKS: Checks = Checks::Instants(16);
/// The folder for systems of task sets, among the files that are kept.
const WRITTEN: &str = "simulated.toml";

/// Arguments of `cargo xtask simulate`.
#[derive(Args)]
pub struct SimulateArguments {
    /// A manifest, a file of task sets (`.json`), or `random:` and what to draw: `random:medium,moderate,u=3` or
    /// `random:uunifast,n=10,u=2.5,periods=1:2:5:10`.
    /// [default: the demo; in a project of one's own its system.toml]
    #[arg(conflicts_with = "manifest")]
    pub(crate) system: Option<String>,
    /// The system's manifest.
    #[arg(long)]
    pub(crate) manifest: Option<PathBuf>,
    /// Policy of all clusters: EDF, FL, RM, DM or FP.
    #[arg(long, value_parser = values::policy)]
    policy: Option<PolicyName>,
    /// CPUs of each cluster, such as `2,1`; tasks are spread over them worst fit, by decreasing utilisation.
    #[arg(long, value_parser = values::clusters)]
    clusters: Option<Sizes>,
    /// So many CPUs in one cluster. Unless told otherwise a task set gets as many as it needs.
    #[arg(long, conflicts_with = "clusters", value_parser = clap::value_parser!(u32).range(1..=limits::CPUS as i64))]
    cpus: Option<u32>,
    /// Virtual time after which the simulation ends.
    #[arg(long = "for", default_value = "10s", value_parser = values::time)]
    pub(crate) limit: Time,
    /// Which of all random task sets [default: 1]; for the system of a manifest, the seed that varies its run.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) seeds: SeedsArguments,
    /// Go on when a `hard` task has ended.
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// What paths of the kernel cost: a TOML file with times, such as tests/bench/overheads.toml.
    #[arg(long)]
    overheads: Option<PathBuf>,
    #[command(flatten)]
    pictures: Pictures,
    /// Print what tasks declare beside the longest that was seen: budgets, holds, calls, services.
    #[arg(long)]
    observed: bool,
    /// Print one JSON object (docs/schema/run.json) for each system or task set, each in a line.
    #[arg(long)]
    json: bool,
    /// Leave all doorbells mapped: engine locks become advice.
    #[arg(long)]
    unmanaged: bool,
    /// Run the programs of all tasks that have one, built for this host, also of those with a `model`. Without this option, a task without script and model
    /// runs its program.
    #[arg(long, conflicts_with = "no_programs")]
    programs: bool,
    /// Run no programs: tasks without script and model do nothing.
    #[arg(long)]
    no_programs: bool,
    /// The virtual time that code of programs takes: that which they burn, or in each job the declared `wcet`.
    #[arg(long, value_enum, default_value_t = PaceArgument::Burns)]
    pace: PaceArgument,
    /// The time of the host in which a program makes its next call; one that does not loops for ever, and is ended.
    #[arg(long, default_value = "10s", value_parser = values::time)]
    patience: Time,
    /// Start the program of this task under a gdb of this host, which stops in its `main`. Virtual time stands while the program is stopped.
    #[arg(long, value_name = "TASK", conflicts_with_all = ["no_programs", "seeds"])]
    gdb: Option<String>,
}

/// The virtual time that code of programs takes.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PaceArgument {
    /// That which programs burn.
    Burns,
    /// In each job the declared `wcet`.
    Wcet,
}

impl From<PaceArgument> for Pace {
    fn from(argument: PaceArgument) -> Pace {
        match argument {
            PaceArgument::Burns => Pace::Burns,
            PaceArgument::Wcet => Pace::Wcet,
        }
    }
}

/// Simulates the system of the command line; `false`: it ran, and the results have a problem.
///
/// # Errors
/// A file that cannot be read or written, or a system that cannot be simulated.
pub fn simulate(arguments: &SimulateArguments) -> Result<bool> {
    let project = Project::here()?;
    let overheads = match &arguments.overheads {
        None => Overheads::NONE,
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            Overheads::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?
        }
    };
    let named = match (&arguments.system, &arguments.manifest) {
        (Some(system), _) => system.clone(),
        (None, Some(manifest)) => manifest.display().to_string(),
        (None, None) => project.manifest(None)?.display().to_string(),
    };
    let sets = match named.strip_prefix("random:") {
        Some(words) => {
            let seed = arguments.seed.unwrap_or(1);
            let set = Generator::parse(words)?.generate(&mut Source::new(seed, 0))?;
            vec![(TaskSet { name: format!("{named}, seed {seed}"), ..set }, written::TaskSet::default())]
        }
        None if named.ends_with(".json") || named == "-" => {
            let sets = written::read(Path::new(&named))?;
            sets.into_iter().enumerate().map(|(number, set)| (task_set(&set, &named, number), set)).collect()
        }
        None => {
            let variant = Variant { policy: arguments.policy, clusters: arguments.sizes(), ..Variant::default() };
            let manifest = system::read_variant(&project.root, Path::new(&named), &variant)?;
            for warning in &manifest.system.warnings {
                eprintln!("{} {}: {warning}", report::yellow("warning:"), manifest.file.display());
            }
            let name = &manifest.system.name;
            let title = name.strip_suffix(&format!(".{variant}")).unwrap_or(name).to_owned();
            let hosted = hosted(&project, &manifest, arguments)?;
            let (mut manifest, mut options) = (manifest, Options { overheads, hosted, ..Options::default() });
            if arguments.seeds.has_range() {
                return seeds::search(&manifest, &options, arguments);
            }
            if let Some(seed) = arguments.seed {
                (manifest, options) =
                    seeds::draws(&manifest, &options, arguments, seed)?.draw(&manifest).apply(options);
            }
            idle_note(&manifest, &options.hosted);
            return one(&project, &manifest, &title, &options, arguments);
        }
    };
    ensure!(!arguments.seeds.has_any(), "seeds vary the system of a manifest, and {named} has task sets");
    ensure!(
        sets.len() == 1 || !arguments.pictures.any(),
        "a picture shows one task set, and {named} has {}",
        sets.len()
    );
    let mut good = true;
    for (set, said) in &sets {
        // The command line comes before the set.
        let needed = vec![set.utilisation().div_ceil(CPU).max(1) as u32];
        let own = said.clusters.clone().or(said.cpus.map(|cpus| vec![cpus]));
        let platform = Platform {
            clusters: arguments.sizes().or(own).unwrap_or(needed),
            policy: arguments.policy.or(said.policy).unwrap_or_default(),
            overheads,
        };
        if !arguments.json {
            say(&heading(set, &platform));
        }
        let path = project.kept(WRITTEN)?;
        let text = set.manifest(&platform);
        system::write(&path, text.as_bytes())?;
        let variant = Variant { clusters: Some(platform.clusters), ..Variant::default() };
        let manifest = Manifest::parse_variant(path.strip_prefix(&project.root).unwrap_or(&path), &text, &variant)?;
        // As the literature has it: a job is complete when it has computed its time.
        let options = Options { overheads, first: First::Tasks, checks: CHECKS, ..Options::default() };
        good &= one(&project, &manifest, &set.name, &options, arguments)?;
    }
    Ok(good)
}

/// The programs that the simulator runs, built for this host. Tasks with a program that cannot run are named.
///
/// # Errors
/// A program cannot be built, or cannot run.
pub(crate) fn hosted(project: &Project, manifest: &Manifest, arguments: &SimulateArguments) -> Result<Hosted> {
    let tasks = &manifest.system.tasks;
    let (pace, patience) = (arguments.pace.into(), Duration::from_nanos(arguments.patience.0));
    let nothing = fusee_simulator::unmodelled(manifest);
    let is_wanted = |index: &usize| {
        let task = &tasks[*index];
        let is_free = task.model.is_empty() && !has_substitute(manifest, *index);
        task.script.is_empty() && !arguments.no_programs && (arguments.programs || is_free)
    };
    let mut chosen = Vec::new();
    for index in (0..tasks.len()).filter(is_wanted) {
        let name = &tasks[index].name;
        match unsuited(manifest, index) {
            None => chosen.push(index),
            Some(why) if arguments.programs && nothing.contains(&index) => {
                bail!("the program of `{name}` cannot run in the simulator: {why}; {INSTEAD}");
            }
            Some(why) => {
                let instead = match (nothing.contains(&index), tasks[index].model.is_empty()) {
                    (true, _) => "it does nothing",
                    (false, true) => "the simulator's substitute takes its place",
                    (false, false) => "its `model` takes its place",
                };
                eprintln!("{} `{name}`: {instead}, because {why}", report::yellow("note:"));
            }
        }
    }
    if chosen.is_empty() && arguments.gdb.is_none() {
        return Ok(Hosted { pace, patience, ..Hosted::default() });
    }
    let fusee = Project::fusee()?;
    let projects = if project.is(&fusee) { vec![&fusee] } else { vec![project, &fusee] };
    let wanted = chosen.iter().map(|index| tasks[*index].binary.as_str()).collect();
    let built = hosted::plan(&wanted, &projects).map_err(|reason| manifest.at_binary(reason))?;
    let built = built.build(project, arguments.gdb.is_some())?;
    let place = |index: &usize| Some((*index, built.get(&tasks[*index].binary)?.clone()));
    let debugged = arguments.gdb.as_deref().map(|name| debugged(manifest, &chosen, name)).transpose()?;
    let programs = chosen.iter().filter_map(place).collect();
    Ok(Hosted { programs, pace, patience, debugged, ..Hosted::default() })
}

/// The task `name`, one of those that are `chosen`, and the gdb that starts its program. From then on gdb alone has the interrupts of the keyboard.
fn debugged(manifest: &Manifest, chosen: &[usize], name: &str) -> Result<(usize, PathBuf)> {
    let tasks = &manifest.system.tasks;
    let Some(index) = chosen.iter().find(|index| tasks[**index].name == name) else {
        let names: Vec<String> = chosen.iter().map(|index| format!("`{}`", tasks[*index].name)).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        bail!("--gdb: `{name}` is no task that runs a program in the simulator; these do: {names}");
    };
    let gdb = toolchain::find_gdb(false)?;
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default())?;
    Ok((*index, gdb))
}

/// A set of a file in the simulator's terms.
fn task_set(set: &written::TaskSet, file: &str, number: usize) -> TaskSet {
    let tasks = set.tasks.iter().map(|named| SimulatedTask {
        name: task_name(&named.name),
        execution: named.task.execution.0,
        period: named.task.period.0,
        deadline: named.task.deadline.0,
        priority: Some(named.task.priority).filter(|priority| *priority > 0),
    });
    TaskSet { name: format!("{file}, set {number}"), tasks: tasks.collect() }
}

impl SimulateArguments {
    fn sizes(&self) -> Option<Vec<u32>> {
        self.clusters.clone().map(|sizes| sizes.0).or(self.cpus.map(|cpus| vec![cpus]))
    }
}

/// A simulation, done.
pub(crate) struct Simulated<'a> {
    pub(crate) report: Report,
    pub(crate) metrics: Metrics,
    services: Services,
    watch: Watch<'a>,
    observed: Observed<'a>,
    /// The first [`KEPT`] records.
    pub(crate) trace: Trace,
    /// How many there were.
    seen: usize,
    /// Why the command fails.
    pub(crate) problems: Vec<Problem>,
    /// Seconds of the host.
    took: f64,
}

/// Tasks with a program that do nothing: neither their programs are run nor anything else.
fn idle(manifest: &Manifest, hosted: &Hosted) -> Vec<usize> {
    let runs = |task: &usize| hosted.programs.iter().any(|(index, _)| index == task);
    fusee_simulator::unmodelled(manifest).into_iter().filter(|task| !runs(task)).collect()
}

/// Tasks without an effect of their ends: those that do nothing, and those that a seed or the command line crashes.
pub(crate) fn excused(manifest: &Manifest, options: &Options) -> Vec<usize> {
    let mut excused = idle(manifest, &options.hosted);
    excused.extend(options.faults.iter().map(|(_, task)| *task));
    excused
}

/// Tasks that end a simulation by their ends. Those that do nothing end at once, so their ends do not count.
fn decisive(manifest: &Manifest, hosted: &Hosted, keep_going: bool) -> Vec<Decisive> {
    let unmodelled = idle(manifest, hosted);
    let mut decisive = Decisive::of(&manifest.system, manifest.expectations.as_ref(), true);
    decisive.retain(|decisive| !keep_going && !decisive.tasks.iter().any(|task| unmodelled.contains(task)));
    decisive
}

/// Simulates one system, and watches it.
///
/// # Errors
/// The simulation ends with an error.
pub(crate) fn run<'a>(
    manifest: &'a Manifest,
    options: &Options,
    arguments: &SimulateArguments,
) -> Result<Simulated<'a>> {
    let decisive = decisive(manifest, &options.hosted, arguments.keep_going);
    let options = Options {
        managed: arguments.unmanaged.then_some(false),
        decisive: decisive.iter().map(|decisive| decisive.tasks.clone()).collect(),
        ..options.clone()
    };
    let (mut metrics, mut services) = (Metrics::new(&manifest.system), Services::new(&manifest.system));
    let mut watch = Watch::new(&manifest.system);
    let mut observed = Observed::new(&manifest.system);
    let (mut records, mut seen) = (Vec::new(), 0usize);
    let progress = if arguments.seeds.has_range() { ProgressBar::hidden() } else { progress(arguments.limit.0) };
    let began = std::time::Instant::now();
    let report = simulate_observed(manifest, &options, arguments.limit.0, &mut |record: &Record| {
        metrics.observe(record);
        services.observe(record);
        watch.observe(record);
        observed.observe(record);
        if seen < KEPT {
            records.push(*record);
        }
        seen += 1;
        if seen.is_multiple_of(1 << 14) {
            progress.set_position(record.time / 1_000_000);
        }
    })?;
    let took = began.elapsed().as_secs_f64();
    progress.finish_and_clear();
    let trace = Trace::from_records(records);
    watch.set_states(report.states.iter().enumerate().map(|(task, state)| state_of(*state, task, &manifest.system)));
    let mut problems =
        problems(&excused(manifest, &options), &report, &watch, &trace, seen, (manifest, arguments.unmanaged));
    if problems.iter().any(|problem| problem.cause == Cause::MissedDeadlines) {
        let broken = broken(&observed.declarations()).into_iter();
        let broken = broken.map(|text| Problem { cause: Cause::Declaration, text });
        problems.splice(0..0, broken);
    }
    Ok(Simulated { report, metrics, services, watch, observed, trace, seen, problems, took })
}

impl Simulated<'_> {
    /// All that is known of it, for scripts.
    fn answer(&self, manifest: &Manifest) -> RunAnswer {
        let Self { report, trace, .. } = self;
        let has_ended = report.exit.is_some();
        let counted =
            if has_ended { trace.clone() } else { trace.with_ledgers(&trace.counted_ledgers(&manifest.system)) };
        let counted = (self.seen <= KEPT).then_some(&counted);
        RunAnswer {
            name: manifest.system.name.clone(),
            unit: answers::Unit::Ns,
            by: answers::By::Simulator,
            ended_at: report.ended_at,
            exit: report.exit.map(i64::from),
            ended_by: match report.ended_by {
                EndedBy::Itself => answers::EndedBy::Itself,
                EndedBy::Limit => answers::EndedBy::Limit,
                EndedBy::NothingLeft => answers::EndedBy::NothingLeft,
                EndedBy::Decisive(_) => answers::EndedBy::TaskEnded,
            },
            traps: Some(report.traps),
            lost_records: 0,
            verdict: VerdictAnswer { good: self.problems.is_empty(), problems: self.problems.clone() },
            tasks: answers::tasks(&manifest.system, &self.metrics, counted, &self.watch, has_ended),
            graphs: answers::graphs(&manifest.system, self.watch.latencies()),
            observed: self.observed.declarations(),
            console: Some(report.console.clone()).filter(|text| !text.is_empty()),
        }
    }
}

/// Simulates one system, prints its tables, draws it and keeps its trace.
fn one(
    project: &Project,
    manifest: &Manifest,
    title: &str,
    options: &Options,
    arguments: &SimulateArguments,
) -> Result<bool> {
    let simulated = run(manifest, options, arguments)?;
    let Simulated { report, services, observed, trace, seen, problems, took, .. } = &simulated;
    let seen = *seen;
    let kept = keep(project, manifest, trace);
    let good = problems.is_empty();
    if arguments.json {
        say(&answers::line(&simulated.answer(manifest))?);
    } else {
        if !report.console.is_empty() {
            say(report.console.trim_end());
        }
        print_tables(manifest, &simulated, &options.hosted, arguments.keep_going);
        report::graph_table(&manifest.system, simulated.watch.latencies()).into_iter().for_each(|table| say(&table));
        if arguments.observed {
            say(&fusee_host::observed::table(&observed.declarations()).to_string());
        }
    }
    faults(manifest, &options.hosted, trace).iter().for_each(|fault| eprintln!("{}", report::red(fault)));
    for problem in problems {
        eprintln!("{} {}", report::red("error:"), problem.text);
    }
    if !good {
        report::say_why_missed(trace, &manifest.system, &[]);
    }
    for service in services.too_long() {
        let (name, [longest, declared]) = (&service.endpoint, [service.longest, service.service_max]);
        let why = "bounds of its clients rest on that";
        eprintln!(
            "{} a service of `{name}` took {longest} ns, longer than its service_max ({declared} ns): {why}",
            report::yellow("warning:")
        );
    }
    if !problems.iter().any(|problem| problem.cause == Cause::MissedDeadlines) {
        // Services that are too long have been named.
        let others: Vec<_> = observed.declarations().into_iter().filter(|one| one.what != What::Service).collect();
        broken(&others).iter().for_each(|words| eprintln!("{} {words}", report::yellow("note:")));
    }
    arguments.pictures.draw(trace, manifest, title)?;
    if let Err(error) = kept {
        eprintln!("{} `trace` will not show this: {error:#}", report::yellow("warning:"));
    }
    if seen > KEPT {
        eprintln!("{} of {seen} records the first {KEPT} were kept", report::yellow("note:"));
    }
    let speed = report.traps as f64 / took.max(1e-9) / 1e6;
    eprintln!("{} traps in {took:.3} s ({speed:.2} M/s)", report.traps);
    Ok(good)
}

/// The faults of programs, with the lines of their sources.
fn faults(manifest: &Manifest, hosted: &Hosted, trace: &Trace) -> Vec<String> {
    let system = &manifest.system;
    let binary = |(task, path): &(usize, PathBuf)| (system.tasks[*task].binary.clone(), path.clone());
    let programs = hosted.programs.iter().map(binary).collect();
    let is_hosted = |record: &&Record| hosted.programs.iter().any(|(task, _)| task + 1 == usize::from(record.thread));
    let records = trace.records.iter().filter(is_hosted).copied().collect();
    report::faults(&Trace::from_records(records), system, &programs)
}

/// Keeps the trace for `cargo xtask trace`.
fn keep(project: &Project, manifest: &Manifest, trace: &Trace) -> Result<()> {
    let (project, folder) = Folder::begin(project)?;
    system::keep_trace(&project, manifest, trace)?;
    folder.keep(trace.records.len())
}

/// The state of a task, by the kernel's own.
fn state_of(state: object::State, task: usize, system: &Resolved) -> State {
    use object::State as Of;
    let waits = |cause, whom: Option<usize>| State::Waits(cause, whom.into_iter().collect());
    let engine = |user: usize| system.engine_users.get(user).map_or(usize::MAX, |user| user.engine as usize);
    let pool = |user: usize| system.pool_users.get(user).map_or(usize::MAX, |user| user.pool as usize);
    match state {
        Of::Dormant => State::NotStarted,
        Of::Ready => State::Ready,
        Of::Receiving(endpoint) => waits(Awaited::Requests(Some(endpoint.index())), None),
        Of::Calling(endpoint) => {
            let server = system.endpoints.get(endpoint.index()).map(|(_, one)| one.server as usize);
            waits(Awaited::Reply(server), server)
        }
        Of::AwaitingReply { server, .. } => waits(Awaited::Reply(Some(server.index())), None),
        Of::Waiting(notification) => {
            let bound = system.notifications.get(notification.index()).map(|(_, one)| one.bound_plus_one as usize);
            waits(Awaited::Notification(notification.index()), bound.and_then(|bound| bound.checked_sub(1)))
        }
        Of::Acquiring(user) => waits(Awaited::Engine(engine(user.index())), None),
        Of::AwaitingGroup { .. } => waits(Awaited::Group, None),
        Of::Donating => waits(Awaited::Lends, None),
        Of::AwaitingTurn { user, .. } => waits(Awaited::Turn(pool(user.index())), None),
        Of::AwaitingToken { user, .. } => waits(Awaited::Token(pool(user.index())), None),
        Of::BetweenJobs => State::BetweenJobs,
        Of::Sleeping => waits(Awaited::Time, None),
        // The records have how it ended.
        Of::Stopped => State::Ended(Ended::Stopped(Some(task))),
    }
}

/// A bar of virtual milliseconds, on a terminal.
fn progress(limit: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} ms, {eta} left");
    ProgressBar::new(limit / 1_000_000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

//--- Output

/// The description of a task set, and its CPUs.
fn heading(set: &TaskSet, platform: &Platform) -> String {
    let clusters: Vec<String> = platform.clusters.iter().map(u32::to_string).collect();
    let (tasks, used, policy) = (set.tasks.len(), cpus(set.utilisation()), platform.policy.name());
    format!("{}: {tasks} tasks use {used} CPUs of {}, {policy}", set.name, clusters.join(" + "))
}

/// Names the tasks that do nothing.
fn idle_note(manifest: &Manifest, hosted: &Hosted) {
    let unmodelled = idle(manifest, hosted);
    if !unmodelled.is_empty() {
        let names: Vec<&str> = unmodelled.iter().map(|task| manifest.system.tasks[*task].name.as_str()).collect();
        let do_nothing = "have a program but no `model`, so here they do nothing";
        eprintln!("{} {do_nothing}: {}", report::yellow("note:"), names.join(", "));
    }
}

/// The promises of the manifest that the simulation did not keep. The ends of tasks that are `excused` count for nothing.
fn verdict(manifest: &Manifest, excused: &[usize], watch: &Watch<'_>, unmanaged: bool) -> Vec<Problem> {
    let verdict = watch.verdict_without(manifest.expectations.as_ref(), excused);
    let misses = verdict.misses.into_iter().filter(|_| !unmanaged);
    Verdict { misses: misses.collect(), ..verdict }.problems()
}

/// The problems of a simulation.
fn problems(
    excused: &[usize],
    report: &Report,
    watch: &Watch<'_>,
    trace: &Trace,
    seen: usize,
    (manifest, unmanaged): (&Manifest, bool),
) -> Vec<Problem> {
    let mut problems = verdict(manifest, excused, watch, unmanaged);
    let mut bad = |cause, text| problems.push(Problem { cause, text });
    if let Some(code) = report.exit.filter(|code| *code != 0) {
        bad(Cause::ExitCode, format!("the system ended with code {code}"));
    }
    // Ledgers are the last records of a system.
    if report.exit.is_some() && seen <= KEPT {
        report::unbalanced(trace).into_iter().for_each(|text| bad(Cause::Accounts, text));
    }
    if report.late_completions > 0 {
        bad(Cause::LateCompletions, format!("{} completions of the device came late", report.late_completions));
    }
    problems
}

fn print_tables(manifest: &Manifest, simulated: &Simulated<'_>, hosted: &Hosted, keep_going: bool) {
    let Simulated { report, metrics, watch, trace, seen, .. } = simulated;
    say(&format!("{} traps, {seen} records, until {} us", report.traps, report.ended_at / 1_000));
    match report.ended_by {
        EndedBy::Itself if *seen <= KEPT => {
            say(&report::task_table(trace, &manifest.system, &Watch::of(trace, &manifest.system)));
        }
        EndedBy::Itself => {}
        EndedBy::Limit => say("the system did not end itself"),
        EndedBy::NothingLeft => say(&report::nothing_left(&manifest.system, watch)),
        EndedBy::Decisive(place) => {
            decisive(manifest, hosted, keep_going)
                .get(place)
                .into_iter()
                .for_each(|decisive| say(&decisive.words(&manifest.system)));
        }
    }
    say(&report::response_table(metrics));
}

/// Prints a line. A closed pipe (`| head`) is no error.
fn say(line: &str) {
    words::say(line);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: SimulateArguments,
    }

    const SYSTEM: &str = "
        [system]
        name = \"causes\"
        board = \"virt\"
        cpus = 1
        admission = \"warn\"
        [tasks.worker]
        script = [\"burn LENGTH\"]
        period = \"10ms\"
        deadline = \"3ms\"
        budget = \"3ms\"
        HARD
        [tasks.desk]
        script = [\"serve desk\"]
        handles = { desk = \"endpoint desk: receive\" }
        [tasks.killer]
        script = [\"sleep 25ms\", LAST]
        handles = { victim = \"task desk: stop\", system = \"system: shutdown\" }
        [endpoints.desk]
        server = \"desk\"
    ";

    /// The causes for which a simulation fails, and what is printed of it as JSON.
    fn simulated(length: &str, hard: &str, last: &str) -> (Vec<Cause>, serde_json::Value) {
        let text = SYSTEM.replace("LENGTH", length).replace("HARD", hard).replace("LAST", last);
        let manifest = Manifest::parse(Path::new("causes.toml"), &text).unwrap();
        let line = Line::parse_from(["simulate", "causes.toml", "--for", "100ms"]);
        let outcome = run(&manifest, &Options::default(), &line.arguments).unwrap();
        let causes = outcome.problems.iter().map(|problem| problem.cause).collect();
        (causes, serde_json::to_value(outcome.answer(&manifest)).unwrap())
    }

    #[test]
    fn each_cause_fails_a_simulation_and_no_other() {
        let causes = |length, hard, last| simulated(length, hard, last).0;
        assert_eq!(causes("2ms", "hard = true", "\"shutdown\""), []);
        let late = causes("4ms", "hard = true", "\"shutdown\"");
        assert_eq!(late, [Cause::Declaration, Cause::MissedDeadlines]);
        assert_eq!(causes("4ms", "", "\"shutdown\""), []);
        assert_eq!(causes("2ms", "hard = true", "\"stop victim\""), [Cause::TaskEnded]);
    }

    #[test]
    fn what_is_printed_as_json_is_what_the_schema_says() {
        for (length, last) in [("2ms", "\"shutdown\""), ("2ms", "\"stop victim\"")] {
            let (causes, answer) = simulated(length, "hard = true", last);
            assert_eq!(crate::published::problems("run.json", &answer), Vec::<String>::new());
            assert_eq!(answer["verdict"]["good"], causes.is_empty());
            assert_eq!(answer["tasks"][0]["response"]["max"], 2_000_000);
            assert_eq!(answer["verdict"]["problems"].as_array().unwrap().len(), causes.len());
        }
    }
}
