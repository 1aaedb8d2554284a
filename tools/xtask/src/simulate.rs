//! `cargo xtask simulate`: one system, or the systems of task sets, on the host in virtual time.
//!
//! What is simulated comes from a manifest, from a file of task sets, or from a few words and a seed. Systems made of
//! task sets are written to `target/fusee/simulated.toml`, where they can be looked at and run as any other.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fusee_abi::trace::Record;
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, PolicyName, Time, Variant};
use fusee_simulator::metrics::{Metrics, Summary, TaskMetrics};
use fusee_simulator::services::Services;
use fusee_simulator::workload::{CPU, Generator, Platform, SimulatedTask, Source, TaskSet, cpus, task_name};
use fusee_simulator::{Checks, First, Options, Overheads, Report, simulate_observed};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::judge::Watch;
use crate::report;
use crate::system;
use crate::task_set as written;
use crate::trace::Pictures;

/// Records that are kept for `cargo xtask trace` and for pictures; of a longer run it is the first ones.
const KEPT: usize = 4_000_000;
/// Task sets may run long, and do little that is not done again and again.
const CHECKS: Checks = Checks::Instants(16);
/// Where the systems of task sets are written.
const WRITTEN: &str = "target/fusee/simulated.toml";

#[derive(Args)]
pub struct SimulateArguments {
    /// A manifest, a file of task sets (`.json`), or `random:` and what to draw: `random:medium,moderate,u=3` or
    /// `random:uunifast,n=10,u=2.5,periods=1:2:5:10`.
    #[arg(required_unless_present = "manifest", conflicts_with = "manifest")]
    system: Option<String>,
    /// The system's manifest.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// Policy of all clusters: EDF, FL, RM, DM or FP.
    #[arg(long, value_parser = policy)]
    policy: Option<PolicyName>,
    /// CPUs of each cluster, such as `2,1`; tasks are spread over them worst fit, by decreasing utilisation.
    #[arg(long, value_parser = clusters)]
    clusters: Option<Sizes>,
    /// So many CPUs in one cluster. Unless told otherwise a task set gets as many as it needs.
    #[arg(long, conflicts_with = "clusters")]
    cpus: Option<u32>,
    /// Virtual time after which the simulation ends.
    #[arg(long = "for", default_value = "10s", value_parser = time)]
    limit: Time,
    /// Which of all random task sets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What paths of the kernel cost: a TOML file with times, such as tests/bench/overheads.toml.
    #[arg(long)]
    overheads: Option<PathBuf>,
    #[command(flatten)]
    pictures: Pictures,
    /// Print numbers as JSON, one line for each task set.
    #[arg(long)]
    json: bool,
    /// Leave all doorbells mapped: engine locks become advice.
    #[arg(long)]
    unmanaged: bool,
}

#[derive(Clone)]
struct Sizes(Vec<u32>);

fn policy(text: &str) -> Result<PolicyName, String> {
    let named = PolicyName::from_name(&text.to_ascii_uppercase());
    named.ok_or_else(|| "known are EDF, FL, RM, DM and FP".to_owned())
}

fn clusters(text: &str) -> Result<Sizes, String> {
    Variant::parse_clusters(text).map(Sizes).ok_or_else(|| "a list of sizes, such as `2,1`".to_owned())
}

/// A time on the command line.
pub fn time(text: &str) -> Result<Time, String> {
    Time::parse(text).ok_or_else(|| "a time with its unit, such as `10ms` (ns, us, ms, s)".to_owned())
}

/// Simulates what the command line says; `false`: it ran, and what came out is not good.
///
/// # Errors
/// What cannot be read, simulated or written.
pub fn simulate(arguments: &SimulateArguments) -> Result<bool> {
    let root = system::root()?;
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
        (None, None) => bail!("no system"),
    };
    let sets = match named.strip_prefix("random:") {
        Some(words) => {
            let set = Generator::parse(words)?.generate(&mut Source::new(arguments.seed, 0))?;
            vec![(TaskSet { name: format!("{named}, seed {}", arguments.seed), ..set }, written::TaskSet::default())]
        }
        None if named.ends_with(".json") || named == "-" => {
            let sets = written::read(Path::new(&named))?;
            sets.into_iter().enumerate().map(|(number, set)| (task_set(&set, &named, number), set)).collect()
        }
        None => {
            let variant = Variant { policy: arguments.policy, clusters: arguments.sizes() };
            let manifest = system::read_variant(&root, Path::new(&named), &variant)?;
            for warning in &manifest.system.warnings {
                eprintln!("{} {}: {warning}", report::yellow("warning:"), manifest.file.display());
            }
            let name = &manifest.system.name;
            let title = name.strip_suffix(&format!(".{variant}")).unwrap_or(name).to_owned();
            return one(&root, &manifest, &title, &Options { overheads, ..Options::default() }, arguments);
        }
    };
    ensure!(
        sets.len() == 1 || !arguments.pictures.any(),
        "a picture shows one task set, and {named} has {}",
        sets.len()
    );
    let mut good = true;
    for (set, said) in &sets {
        // What the command line says comes before what the set says.
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
        std::fs::create_dir_all(root.join(WRITTEN).parent().unwrap_or(&root))?;
        std::fs::write(root.join(WRITTEN), set.manifest(&platform))?;
        let variant = Variant { policy: None, clusters: Some(platform.clusters) };
        let manifest = system::read_variant(&root, &root.join(WRITTEN), &variant)?;
        // As the literature has it: a job is complete when it has computed its time.
        let options = Options { overheads, first: First::Tasks, checks: CHECKS, ..Options::default() };
        good &= one(&root, &manifest, &set.name, &options, arguments)?;
    }
    Ok(good)
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

/// Simulates one system, prints its tables, draws it and keeps its trace.
fn one(
    root: &Path,
    manifest: &Manifest,
    title: &str,
    options: &Options,
    arguments: &SimulateArguments,
) -> Result<bool> {
    let options = Options { managed: arguments.unmanaged.then_some(false), ..options.clone() };
    let (mut metrics, mut services) = (Metrics::new(&manifest.system), Services::new(&manifest.system));
    let mut watch = Watch::new(&manifest.system);
    let (mut records, mut seen) = (Vec::new(), 0usize);
    let progress = progress(arguments.limit.0);
    let began = std::time::Instant::now();
    let report = simulate_observed(manifest, &options, arguments.limit.0, &mut |record: &Record| {
        metrics.observe(record);
        services.observe(record);
        watch.observe(record);
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
    system::keep_trace(root, manifest, &trace)?;
    let verdict = verdict(manifest, &watch, arguments.unmanaged);
    let good = if arguments.json {
        say(&numbers(manifest, &report, &metrics).to_string());
        verdict.iter().for_each(|problem| eprintln!("{} {problem}", report::red("error:")));
        report.exit.unwrap_or(0) == 0 && report.late_completions == 0 && verdict.is_empty()
    } else {
        print(manifest, &report, &metrics, &trace, seen, verdict)
    };
    for service in services.too_long() {
        let (name, [longest, declared]) = (&service.endpoint, [service.longest, service.service_max]);
        let why = "bounds of its clients rest on that";
        eprintln!(
            "{} a service of `{name}` took {longest} ns, longer than its service_max ({declared} ns): {why}",
            report::yellow("warning:")
        );
    }
    arguments.pictures.draw(&trace, manifest, title)?;
    if seen > KEPT {
        eprintln!("{} of {seen} records the first {KEPT} were kept", report::yellow("note:"));
    }
    let speed = report.traps as f64 / took.max(1e-9) / 1e6;
    eprintln!("{} traps in {took:.3} s ({speed:.2} M/s)", report.traps);
    Ok(good)
}

/// A bar of virtual milliseconds, if somebody looks.
fn progress(limit: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} ms, {eta} left");
    ProgressBar::new(limit / 1_000_000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

//--- What is printed

/// What a task set is, and where it runs.
fn heading(set: &TaskSet, platform: &Platform) -> String {
    let clusters: Vec<String> = platform.clusters.iter().map(u32::to_string).collect();
    let (tasks, used, policy) = (set.tasks.len(), cpus(set.utilisation()), platform.policy.name());
    format!("{}: {tasks} tasks use {used} CPUs of {}, {policy}", set.name, clusters.join(" + "))
}

/// What the manifest promises and the simulation did not keep. Programs without a model end at once, which says nothing of them.
fn verdict(manifest: &Manifest, watch: &Watch<'_>, unmanaged: bool) -> Vec<String> {
    let unmodelled = fusee_simulator::unmodelled(manifest);
    if !unmodelled.is_empty() {
        let names: Vec<&str> = unmodelled.iter().map(|task| manifest.system.tasks[*task].name.as_str()).collect();
        let do_nothing = "have a program but no `model`, so here they do nothing";
        eprintln!("{} {do_nothing}: {}", report::yellow("note:"), names.join(", "));
    }
    let verdict = watch.verdict_without(manifest.expectations.as_ref(), &unmodelled);
    let misses = verdict.misses.into_iter().filter(|_| !unmanaged);
    verdict.ends.into_iter().chain(misses).collect()
}

/// Prints tables; `false`: something is wrong.
fn print(
    manifest: &Manifest,
    report: &Report,
    metrics: &Metrics,
    trace: &Trace,
    seen: usize,
    mut problems: Vec<String>,
) -> bool {
    say(&format!("{} traps, {seen} records, until {} us", report.traps, report.ended_at / 1_000));
    // Ledgers are the last records of a system.
    if report.exit.is_some() && seen <= KEPT {
        say(&report::task_table(trace, &manifest.system));
        problems.extend(report::unbalanced(trace));
    } else if report.exit.is_none() {
        say("the system did not end itself");
    }
    if report.late_completions > 0 {
        problems.push(format!("{} completions of the device came late", report.late_completions));
    }
    say(&report::response_table(metrics));
    for problem in &problems {
        eprintln!("{} {problem}", report::red("error:"));
    }
    if !problems.is_empty() {
        crate::explain::say_why_missed(trace, &manifest.system);
    }
    report.exit.unwrap_or(0) == 0 && problems.is_empty()
}

/// Prints a line. A closed pipe (`| head`) is no error.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn numbers(manifest: &Manifest, report: &Report, metrics: &Metrics) -> Value {
    let summary = |summary: Option<Summary>| {
        summary.map(|one| json!({ "min": one.least, "mean": one.mean, "p99": one.percentile_99, "max": one.greatest }))
    };
    let task = |task: &TaskMetrics| {
        let (buckets, deadline) = task.histogram();
        json!({
            "name": task.name, "deadline": task.deadline, "jobs": task.jobs(), "started": task.started,
            "missed": task.misses(), "skipped": task.skipped, "dry": task.throttles,
            "response": summary(task.response()), "lateness": summary(task.lateness()),
            "tardiness": summary(task.tardiness()),
            "histogram": { "buckets": buckets.to_vec(), "deadline_after": deadline },
        })
    };
    let tasks: Vec<Value> = metrics.tasks.iter().filter(|task| task.deadline.is_some()).map(task).collect();
    json!({
        "name": manifest.system.name, "unit": "ns", "ended_at": report.ended_at, "exit": report.exit,
        "traps": report.traps, "tasks": tasks,
    })
}
