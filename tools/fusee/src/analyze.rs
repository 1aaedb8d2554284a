//! `cargo xtask analyze`: the proofs about a system, or about task sets, before they run.
//!
//! Analyses each cluster by itself, with the tests of `fusee_sched_analysis`; prints tables, or JSON for scripts.
//! It does not pass if a cluster is overloaded, a task cannot pay for the kernel, or a task is called hard and is
//! not proved. Floating point is used to print, and for nothing else.
//!
//! Not here: reading task sets (`task_set`), reading manifests (`tools/manifest`).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use fusee_kernel_core::limits::LONGEST_PATH;
use fusee_manifest::admission::{Missing, Origin, Recovery};
use fusee_manifest::{Manifest, Resolved, Time, Variant, admission};
use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::Blocked;
use fusee_sched_analysis::overheads::Infeasible;
use fusee_sched_analysis::report::{Bound, Hard, Term};
use fusee_sched_analysis::utilisation::Utilisations;
use fusee_sched_analysis::{Cluster, Overheads, Report, Task, analyse, approximate};
use num_rational::BigRational;

use crate::suggest::SuggestArguments;
use crate::task_set::{self, NamedTask, TaskSet};
use crate::values::{self, Sizes};
use fusee_host::answers::{self, Analysis, BusAnalysis, ClusterAnalysis, GraphAnalysis, LifeAnalysis, TaskAnalysis};
use fusee_host::project::Project;
use fusee_host::system;
use fusee_host::table::Table;
use fusee_host::words;

mod buses;
mod files;
mod graphs;

/// What to analyse, and how.
#[derive(Args)]
pub struct AnalyzeArguments {
    /// A manifest (`.toml`), or task sets as JSON, in microseconds; `-` reads JSON from standard input. [default: the demo; in a
    /// project of one's own its system.toml]
    #[arg(conflicts_with = "manifest")]
    source: Option<PathBuf>,
    /// The system's manifest.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// CPUs of task sets; before what they say themselves.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Policy of all clusters: EDF, FL, RM, DM or FP; before what is written. [default for JSON: EDF]
    #[arg(long, value_parser = values::policy)]
    policy: Option<PolicyName>,
    /// CPUs of each cluster, such as `2,1`; tasks are spread over them, worst fit by decreasing utilisation.
    #[arg(long, value_parser = values::clusters)]
    clusters: Option<Sizes>,
    /// What the kernel costs: a TOML file with nanoseconds.
    #[arg(long)]
    overheads: Option<PathBuf>,
    /// Print a list of JSON objects (docs/schema/analyze.json), one for each system or task set.
    #[arg(long)]
    json: bool,
    /// Print the manifest with all short forms written out, and analyse nothing.
    #[arg(long, conflicts_with_all = ["cpus", "policy", "clusters", "overheads", "json"])]
    expanded: bool,
    #[command(flatten)]
    files: files::FileArguments,
    #[command(flatten)]
    pub(crate) suggest: SuggestArguments,
}

impl AnalyzeArguments {
    fn sizes(&self) -> Option<Vec<u32>> {
        self.clusters.clone().map(|sizes| sizes.0)
    }
}

/// A cluster with the names of its tasks.
struct NamedCluster {
    name: String,
    cluster: Cluster,
    /// In the order of the cluster's tasks.
    tasks: Vec<NamedTask>,
    /// The objects that its tasks share, if it is of a manifest.
    study: Option<admission::Study>,
}

/// A report; for each task how it is blocked; or, in words, why there is none.
type Verdict = Result<(Report, Vec<Blocked>), String>;

impl NamedCluster {
    fn analyse(&self, overheads: &Overheads) -> Verdict {
        match &self.study {
            Some(study) => study.analyse(overheads).map_err(|why| study.unbounded(&self.name, &why).to_string()),
            None => analyse(&self.cluster, overheads, &[])
                .map(|report| (report, vec![Blocked::default(); self.tasks.len()]))
                .map_err(|why| why.to_string()),
        }
    }

    /// The waits that the bound of the task with this index does not count.
    fn uncounted(&self, index: usize) -> &[String] {
        self.study.as_ref().map_or(&[], |study| &study.uncounted[index])
    }

    /// The reason why the deadlines of the task with this index rest on behaviour of others that no mechanism enforces.
    fn unenforced(&self, index: usize) -> Option<&str> {
        self.study.as_ref()?.unenforced[index].as_deref()
    }

    /// The conditions of its proof that do not hold.
    fn missing(&self, index: usize, report: &Report, blocked: &[Blocked]) -> Vec<Missing> {
        match (&self.study, report.tasks[index].hard) {
            (Some(study), _) => study.missing(index, report, blocked),
            (None, Hard::Proved) => Vec::new(),
            (None, Hard::NotProved(why)) => vec![Missing { origin: Origin::Response, why: why.words().to_owned() }],
        }
    }

    /// Whether the task with this index misses no deadline, for any behaviour of others.
    fn is_proved(&self, index: usize, report: &Report, blocked: &[Blocked]) -> bool {
        self.missing(index, report, blocked).is_empty()
    }

    /// The bound of a task, if it counts all that it waits for.
    fn bound<'a>(&self, index: usize, report: &'a Report, blocked: &[Blocked]) -> Option<&'a Bound> {
        match &self.study {
            Some(study) => study.bound(index, report, blocked),
            None => report.tasks[index].bound.as_ref(),
        }
    }

    /// A term of the bound of a task that is so blocked.
    fn term(&self, term: Term, blocked: &Blocked) -> String {
        match (&self.study, term) {
            (Some(study), term) => study.term(term, blocked),
            (None, Term::Interference { largest }) => format!("{}, first {}", term.words(), self.tasks[largest].name),
            (None, term) => term.words().to_owned(),
        }
    }

    /// The object that it waits for longest; `None` if it does not wait.
    fn first(&self, blocked: &Blocked) -> Option<String> {
        self.study.as_ref()?.first(blocked)
    }
}

/// One system or task set, divided into clusters.
struct Subject {
    /// Its name; empty if there is only one.
    name: String,
    clusters: Vec<NamedCluster>,
    /// The longest path of the kernel there, in instructions.
    longest_path: u64,
    /// The system, if it has a manifest.
    system: Option<Resolved>,
}

impl Subject {
    /// What the kernel costs there. Files have what an interrupt waits for the longest path of a system that is not crowded.
    fn costs(&self, overheads: Overheads) -> Overheads {
        let latency = overheads.event_latency.0 * self.longest_path / LONGEST_PATH;
        Overheads { event_latency: Nanoseconds(latency), ..overheads }
    }

    /// The times for which services are away while their tasks end and begin again.
    fn recoveries(&self, overheads: &Overheads) -> Vec<(String, Recovery)> {
        let Some(system) = &self.system else { return Vec::new() };
        let named = |recovery: Recovery| (system.tasks[recovery.task].name.clone(), recovery);
        admission::recoveries(system, overheads).into_iter().map(named).collect()
    }

    /// How late graphs are.
    fn latencies(&self, overheads: &Overheads) -> Vec<GraphAnalysis> {
        let Some(system) = &self.system else { return Vec::new() };
        let all = admission::latencies(system, overheads);
        system.graphs.iter().zip(all).map(|(graph, found)| graphs::of_graph(system, graph, found)).collect()
    }

    /// How late frames of CAN buses are.
    fn buses(&self, overheads: &Overheads) -> Vec<BusAnalysis> {
        let Some(system) = &self.system else { return Vec::new() };
        let all = admission::buses(system, overheads);
        system.buses.iter().zip(all).map(|(bus, found)| buses::of_bus(system, bus, &found)).collect()
    }
}

/// Analyses the systems that the arguments name, and prints the results; `false`: a condition does not hold.
pub fn analyze(arguments: &AnalyzeArguments) -> Result<bool> {
    if let Some(path) = &arguments.files.check {
        return files::verify(path);
    }
    let project = Project::here()?;
    let source = project.manifest(arguments.manifest.as_deref().or(arguments.source.as_deref()))?;
    if arguments.expanded {
        let text = std::fs::read_to_string(&source).with_context(|| source.display().to_string())?;
        words::print(&Manifest::expanded(&source, &text)?);
        return Ok(true);
    }
    let overheads = match &arguments.overheads {
        Some(path) => read_overheads(path)?,
        None => Overheads::default(),
    };
    let mut out = std::io::BufWriter::new(words::Out);
    let mut good = true;
    let mut first = true;
    let mut written = files::Files::new(&arguments.files);
    let mut each = |subject: Subject| -> Result<()> {
        let overheads = subject.costs(overheads);
        let reports: Vec<_> = subject.clusters.iter().map(|one| one.analyse(&overheads)).collect();
        good &= subject.clusters.iter().zip(&reports).all(|(cluster, report)| holds(cluster, report));
        written.add(&subject, &overheads, &reports);
        let reports = subject.clusters.iter().zip(&reports);
        let recoveries = subject.recoveries(&overheads);
        let graphs = subject.latencies(&overheads);
        let on_buses = subject.buses(&overheads);
        good &= graphs.iter().all(graphs::keeps_latency) && on_buses.iter().all(buses::holds);
        if arguments.json {
            let answer = answer(reports, &recoveries, graphs, on_buses);
            write!(out, "{}{}", if first { "[\n" } else { ",\n" }, answers::line(&answer)?)?;
        } else {
            if !subject.name.is_empty() {
                writeln!(out, "{}\n", subject.name)?;
            }
            for (cluster, report) in reports {
                match report {
                    Ok((report, blocked)) => writeln!(out, "{}", text(cluster, report, blocked))?,
                    Err(why) => writeln!(out, "{}: {why}\n", cluster.name)?,
                }
            }
            let lives = (!recoveries.is_empty()).then(|| lives(&recoveries));
            let latencies = (!graphs.is_empty()).then(|| graphs::text(&graphs));
            let buses = on_buses.iter().map(|bus| buses::text(bus).to_string());
            let tables = lives.into_iter().chain(latencies).map(|table| table.to_string());
            tables.chain(buses).try_for_each(|table| writeln!(out, "{table}"))?;
        }
        first = false;
        Ok(())
    };
    if arguments.manifest.is_some() || source.extension().is_some_and(|extension| extension == "toml") {
        each(of_manifest(arguments, &project.root, &source, overheads != Overheads::default())?)?;
    } else {
        let sets = task_set::read(&source)?;
        let several = sets.len() > 1;
        for (index, set) in sets.into_iter().enumerate() {
            each(of_set(arguments, several, index, set).with_context(|| format!("set {index}"))?)?;
        }
    }
    if arguments.json {
        writeln!(out, "{}", if first { "[]" } else { "\n]" })?;
    }
    for line in written.write()? {
        if arguments.json { eprintln!("{line}") } else { writeln!(out, "{line}")? }
    }
    out.flush()?;
    if !good {
        eprintln!("{} this is not proved, and admission would refuse it", fusee_host::report::red("error:"));
    }
    Ok(good)
}

/// Whether admission lets the cluster in: it is not overloaded, no budget may run dry, and all its hard tasks are proved.
fn holds(cluster: &NamedCluster, verdict: &Verdict) -> bool {
    verdict.as_ref().is_ok_and(|(report, blocked)| {
        let is_good = |(index, task): (usize, &NamedTask)| {
            let refused = |missing: &Missing| task.hard || missing.origin == Origin::Budget;
            !cluster.missing(index, report, blocked).iter().any(refused)
        };
        let is_possible = too_long(cluster, report, blocked).next().is_none();
        report.bounded != Some(false) && is_possible && cluster.tasks.iter().enumerate().all(is_good)
    })
}

/// Reads costs; each key is one of [`Overheads`], in nanoseconds or with a unit.
pub fn read_overheads(path: &Path) -> Result<Overheads> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| shown.to_string())?;
    let table: toml::Table = text.parse().with_context(|| shown.to_string())?;
    let mut overheads = Overheads::default();
    for (key, value) in table {
        let cost = overheads.by_name(&key).with_context(|| format!("{shown}: no cost is called `{key}`"))?;
        let number = value.as_integer().and_then(|span| u64::try_from(span).ok());
        let span = number.or_else(|| Some(Time::parse(value.as_str()?)?.0));
        *cost = Nanoseconds(span.with_context(|| format!("{shown}: `{key}` should be a time, such as \"2us\""))?);
    }
    Ok(overheads)
}

//--- Where clusters come from

fn of_manifest(arguments: &AnalyzeArguments, root: &Path, source: &Path, with_overheads: bool) -> Result<Subject> {
    if arguments.cpus.is_some() {
        bail!("a manifest says itself how many CPUs there are; --cpus is for task sets");
    }
    let variant = Variant { policy: arguments.policy, clusters: arguments.sizes(), ..Variant::default() };
    let manifest = system::read_variant(root, source, &variant)?;
    let (name, longest_path) = (manifest.system.name.clone(), manifest.system.longest_path());
    let clusters = clusters_of(&manifest.system, with_overheads)?;
    Ok(Subject { name, clusters, longest_path, system: Some(manifest.system) })
}

/// The clusters of a system with their real-time tasks, and with interrupts of devices if paths of the kernel take time.
fn clusters_of(system: &Resolved, with_overheads: bool) -> Result<Vec<NamedCluster>> {
    let each = system.clusters.iter().enumerate().map(|(index, (name, _))| {
        let mut study = admission::Study::new(system, index).with_context(|| format!("cluster `{name}`"))?;
        if with_overheads {
            study.count_interrupts(system, index);
        }
        let named = |(member, task): (&usize, &Task)| {
            let member = &system.tasks[*member];
            NamedTask { name: member.name.clone(), task: *task, hard: member.hard }
        };
        let tasks = study.members.iter().zip(study.cluster.tasks()).map(named).collect();
        Ok(NamedCluster { name: name.clone(), cluster: study.cluster.clone(), tasks, study: Some(study) })
    });
    each.collect()
}

fn of_set(arguments: &AnalyzeArguments, several: bool, index: usize, set: TaskSet) -> Result<Subject> {
    let policy = arguments.policy.or(set.policy).unwrap_or_default();
    let cpus = arguments.cpus.or(set.cpus);
    let sizes = match (arguments.sizes().or(set.clusters), cpus) {
        (Some(sizes), _) => sizes,
        (None, Some(cpus)) => vec![cpus],
        (None, None) => bail!("`m` is missing, and there is no --cpus"),
    };
    let sum: u64 = sizes.iter().copied().map(u64::from).sum();
    if let Some(cpus) = arguments.cpus.filter(|cpus| u64::from(*cpus) != sum) {
        bail!("--cpus is {cpus}, but clusters have {sum} CPUs");
    }
    let clusters = spread(&sizes, set.tasks).into_iter().zip(&sizes).enumerate();
    let clusters = clusters.map(|(index, (tasks, cpus))| named(format!("c{index}"), *cpus, policy, tasks));
    let name = if several { format!("set {index}") } else { String::new() };
    Ok(Subject { name, clusters: clusters.collect::<Result<_>>()?, longest_path: LONGEST_PATH, system: None })
}

fn named(name: String, cpus: u32, policy: PolicyName, tasks: Vec<NamedTask>) -> Result<NamedCluster> {
    let cluster = Cluster::new(cpus, policy, tasks.iter().map(|one| one.task).collect())
        .with_context(|| format!("cluster `{name}`"))?;
    Ok(NamedCluster { name, cluster, tasks, study: None })
}

/// Spreads tasks over clusters of these sizes: the one with the largest utilisation first, each to where most is
/// left. Of equals the first.
fn spread(sizes: &[u32], tasks: Vec<NamedTask>) -> Vec<Vec<NamedTask>> {
    if let [_] = sizes {
        return vec![tasks];
    }
    let parameters: Vec<Task> = tasks.iter().map(|one| one.task).collect();
    let shares = Utilisations::of(&parameters);
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by(|one, other| shares.parts[*other].cmp(&shares.parts[*one]));
    let mut left: Vec<_> = sizes.iter().map(|cpus| &shares.whole * *cpus).collect();
    let mut home = vec![0; tasks.len()];
    for task in order {
        let emptiest = (0..left.len()).rev().max_by(|one, other| left[*one].cmp(&left[*other])).unwrap_or(0);
        left[emptiest] -= &shares.parts[task];
        home[task] = emptiest;
    }
    let mut clusters = vec![Vec::new(); sizes.len()];
    tasks.into_iter().zip(home).for_each(|(task, home)| clusters[home].push(task));
    clusters
}

//--- Output for people and scripts

fn text(cluster: &NamedCluster, report: &Report, blocked: &[Blocked]) -> String {
    // Columns on waiting only where tasks wait.
    let waits = blocked.iter().any(|one| *one != Blocked::default());
    let has_tokens = blocked.iter().any(|one| !one.sections.is_empty());
    let mut header = vec!["task", "e", "p", "d", "u", "response", "lateness", "hard"];
    header.extend(if waits { &["operations", "blocking", "first"][..] } else { &[] });
    header.extend(has_tokens.then_some("token"));
    header.extend(["mostly", "test", "CVA", "Devi"]);
    let mut table = Table::new(header)
        .amounts(&["operations", "blocking", "token", "CVA", "Devi"])
        .left(&["hard", "first", "mostly", "test"])
        .parts(&["operations", "mostly"]);
    let all = cluster.tasks.iter().zip(blocked).enumerate();
    for (index, (named, own)) in all {
        let missing = cluster.missing(index, report, blocked);
        // A bound that does not count all that its task waits for is none.
        let bound = cluster.bound(index, report, blocked);
        let (report, blocked) = (&report.tasks[index], own);
        let Task { execution, period, deadline, .. } = named.task;
        let bounds = match bound {
            Some(bound) => [&bound.response, &bound.lateness].map(shown),
            None => ["-"; 2].map(str::to_owned),
        };
        let time = |span: Nanoseconds| trimmed(span.0 as f64 / 1e3);
        let mut row = vec![named.name.clone(), time(execution), time(period), time(deadline)];
        row.push(format!("{:.3}", execution.0 as f64 / period.0 as f64));
        row.extend(bounds);
        row.push(match (missing.first().map(|missing| missing.origin), named.hard) {
            (None, _) => "proved".to_owned(),
            (_, true) => "NOT PROVED".to_owned(),
            (Some(Origin::Counted), _) => "not counted".to_owned(),
            _ => "no".to_owned(),
        });
        if waits {
            row.extend([time(blocked.operations), time(blocked.blocking)]);
            row.push(cluster.first(blocked).unwrap_or_else(|| "-".into()));
        }
        if has_tokens {
            row.push(time(token(blocked)));
        }
        row.push(bound.map_or_else(|| "-".into(), |bound| cluster.term(bound.dominating, blocked)));
        row.push(bound.map_or("-", |bound| bound.test.name()).to_owned());
        let literature =
            [&report.printed_lateness, &report.devi_tardiness].map(|one| one.as_ref().filter(|_| bound.is_some()));
        row.extend(literature.map(|one| one.map_or("-".into(), shown)));
        table.add_row(row);
    }
    let all_miss = |at_most: &dyn Fn(Origin) -> bool| {
        let mut missing = (0..cluster.tasks.len()).flat_map(|index| cluster.missing(index, report, blocked));
        missing.all(|missing| at_most(missing.origin))
    };
    let bounded = match report.bounded {
        _ if is_proved(cluster, report, blocked) => "no deadline is missed",
        _ if all_miss(&|origin| origin == Origin::Others) => "no deadline is missed if all tasks do what they declare",
        _ if all_miss(&|origin| matches!(origin, Origin::Others | Origin::Counted)) => {
            "no deadline is missed if nobody waits for what is not counted"
        }
        Some(true) => "tardiness is bounded",
        Some(false) => "OVERLOAD: tardiness is not bounded",
        None => "no test says whether tardiness is bounded",
    };
    let mut remarks: Vec<String> =
        report.tests.iter().map(|(test, verdict)| format!("{}: {}", test.name(), verdict.words())).collect();
    let mut causes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (named, report) in cluster.tasks.iter().zip(&report.tasks) {
        if let Hard::NotProved(why) = report.hard {
            causes.entry(why.words()).or_default().push(&named.name);
        }
    }
    remarks.extend(causes.iter().map(|(why, tasks)| format!("not hard, because {why}: {}", tasks.join(", "))));
    remarks.extend(too_long(cluster, report, blocked));
    remarks.extend(undeclared(cluster).map(|admission::Undeclared { lock, why, .. }| {
        format!("waiting for {lock} is not bounded, and not counted: {why}")
    }));
    for (index, named) in cluster.tasks.iter().enumerate() {
        let missing = cluster.missing(index, report, blocked);
        let is_counted = missing.iter().all(|missing| missing.origin != Origin::Counted);
        for Missing { origin, why } in missing {
            let name = &named.name;
            remarks.extend(match origin {
                // The tables above have locks and responses.
                Origin::Counted if why.starts_with("waiting for ") => None,
                Origin::Response => None,
                Origin::Counted => Some(format!("not counted, for {name}: {why}")),
                Origin::Budget | Origin::Backlog => Some(format!("not proved, for {name}: {why}")),
                Origin::Others => is_counted.then(|| format!("not proved whatever others do, for {name}: {why}")),
            });
        }
    }
    format!(
        "{table}\n{}: {} CPU{}, {}, U = {:.4}: {bounded}  (times in us)\n  {}\n",
        cluster.name,
        cluster.cluster.cpus(),
        if cluster.cluster.cpus() == 1 { "" } else { "s" },
        cluster.cluster.policy().name(),
        approximate(&report.utilisation),
        remarks.join("\n  "),
    )
}

/// The times until services of ended tasks are there again, or the reasons why these are not known.
fn lives(recoveries: &[(String, Recovery)]) -> String {
    let mut table = Table::new(vec!["further lives", "delay", "up within"]);
    let mut reasons: Vec<&str> = Vec::new();
    for (name, recovery) in recoveries {
        let within = recovery.bound.as_ref().map_or_else(|_| "-".to_owned(), |bound| trimmed(bound.0 as f64 / 1e3));
        table.add_row(vec![name.clone(), trimmed(recovery.delay.0 as f64 / 1e3), within]);
        reasons.extend(recovery.bound.as_ref().err().map(String::as_str));
    }
    reasons.dedup();
    let reasons: String = reasons.iter().map(|why| format!("  not bounded: {why}\n")).collect();
    format!("{table}\n{reasons}")
}

/// A sentence for each task that needs more than its period.
fn too_long(cluster: &NamedCluster, report: &Report, blocked: &[Blocked]) -> impl Iterator<Item = String> {
    let words: Vec<String> = match &cluster.study {
        Some(study) => study.too_long(report, blocked).map(|reason| reason.to_string()).collect(),
        None => {
            let tasks = report.infeasible.iter().filter_map(Infeasible::task);
            let name = |task: usize| format!("task `{}` needs more than its period", cluster.tasks[task].name);
            tasks.map(name).collect()
        }
    };
    words.into_iter()
}

/// Engines and pools with users that do not declare how long they use them.
fn undeclared(cluster: &NamedCluster) -> impl Iterator<Item = &admission::Undeclared> {
    cluster.study.iter().flat_map(|study| &study.undeclared)
}

/// Whether no task of the cluster misses a deadline, for any behaviour of others.
fn is_proved(cluster: &NamedCluster, report: &Report, blocked: &[Blocked]) -> bool {
    (0..cluster.tasks.len()).all(|index| cluster.is_proved(index, report, blocked))
}

/// Microseconds, from nanoseconds.
fn number(value: &BigRational) -> f64 {
    approximate(&BigRational::new_raw(value.numer().clone(), value.denom() * 1_000u32))
}

fn shown(value: &BigRational) -> String {
    trimmed(number(value))
}

/// Up to three digits after the point.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One object for each task set. Times are microseconds.
fn answer<'a>(
    clusters: impl Iterator<Item = (&'a NamedCluster, &'a Verdict)>,
    recoveries: &[(String, Recovery)],
    graphs: Vec<GraphAnalysis>,
    on_buses: Vec<BusAnalysis>,
) -> Analysis {
    let mut tasks = Vec::new();
    let mut parts = Vec::new();
    let mut errors = Vec::new();
    let (mut cpus, mut utilisation) = (0, BigRational::from_integer(0.into()));
    let (mut bounded, mut hard, mut holding) = (Some(true), true, true);
    let mut policies = Vec::new();
    for (cluster, report) in clusters {
        cpus += cluster.cluster.cpus();
        policies.push(cluster.cluster.policy().name());
        holding &= holds(cluster, report);
        let (report, blocked) = match report {
            Ok(report) => report,
            Err(why) => {
                (bounded, hard) = (Some(false), false);
                errors.push(format!("cluster {}: {why}", cluster.name));
                continue;
            }
        };
        errors.extend(too_long(cluster, report, blocked).map(|why| format!("cluster {}: {why}", cluster.name)));
        utilisation += &report.utilisation;
        let is_hard = is_proved(cluster, report, blocked);
        hard &= is_hard;
        bounded = match (bounded, report.bounded) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
        let tests = report.tests.iter().map(|(test, verdict)| (test.name().to_owned(), verdict.words().to_owned()));
        parts.push(ClusterAnalysis {
            name: cluster.name.clone(),
            m: cluster.cluster.cpus(),
            policy: cluster.cluster.policy().name(),
            utilisation: approximate(&report.utilisation),
            bounded_tardiness: report.bounded,
            hard: is_hard,
            tests: tests.collect(),
            undeclared: undeclared(cluster).map(|one| one.lock.clone()).collect(),
        });
        let each = cluster.tasks.iter().enumerate();
        tasks.extend(each.map(|named| task(cluster, named, report, blocked)));
    }
    policies.dedup();
    Analysis {
        m: cpus,
        policy: if let [policy] = policies[..] { Some(policy) } else { None },
        utilisation: approximate(&utilisation),
        bounded_tardiness: bounded,
        hard,
        holds: holding && graphs.iter().all(graphs::keeps_latency) && on_buses.iter().all(buses::holds),
        errors,
        clusters: parts,
        tasks,
        lives: recoveries.iter().map(life).collect(),
        graphs,
        buses: on_buses,
    }
}

/// How long a job has tokens.
fn token(blocked: &Blocked) -> Nanoseconds {
    Nanoseconds(blocked.sections.iter().map(|(_, span)| span.0).sum())
}

fn life((name, recovery): &(String, Recovery)) -> LifeAnalysis {
    let time = |span: Nanoseconds| span.0 as f64 / 1e3;
    LifeAnalysis {
        task: name.clone(),
        delay: time(recovery.delay),
        up_within: recovery.bound.as_ref().ok().copied().map(time),
        why_not: recovery.bound.as_ref().err().cloned(),
    }
}

fn task(cluster: &NamedCluster, (index, named): (usize, &NamedTask), all: &Report, each: &[Blocked]) -> TaskAnalysis {
    let (report, blocked) = (&all.tasks[index], &each[index]);
    let Task { execution, period, deadline, .. } = named.task;
    let time = |span: Nanoseconds| span.0 as f64 / 1e3;
    let bound = cluster.bound(index, all, each);
    let missing = cluster.missing(index, all, each);
    TaskAnalysis {
        name: named.name.clone(),
        cluster: cluster.name.clone(),
        e: time(execution),
        p: time(period),
        d: time(deadline),
        operations: time(blocked.operations),
        blocking: time(blocked.blocking),
        blocking_first: cluster.first(blocked),
        token: time(token(blocked)),
        devi_tardiness: report.devi_tardiness.as_ref().map(number),
        cva_lateness: report.printed_lateness.as_ref().map(number),
        response: bound.map(|bound| number(&bound.response)),
        lateness: bound.map(|bound| number(&bound.lateness)),
        tardiness: bound.map(|bound| number(&bound.tardiness())),
        slack: bound.map(|bound| number(&bound.slack())),
        test: bound.map(|bound| bound.test.name()),
        dominating: bound.map(|bound| cluster.term(bound.dominating, blocked)),
        hard: missing.is_empty(),
        not_counted: cluster.uncounted(index).to_vec(),
        not_enforced: cluster.unenforced(index).map(str::to_owned),
        why_not: missing.first().map(|missing| missing.why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use fusee_kernel_core::limits::LONGEST_PATH_CROWDED;

    use super::*;

    #[test]
    fn what_is_printed_as_json_is_what_the_schema_says() {
        let root = system::root().unwrap();
        for example in [
            "docs/examples/global.toml",
            "docs/examples/bus.toml",
            "userland/demo/demo.toml",
            "userland/demo/faults.toml",
        ] {
            let manifest = system::read_variant(&root, Path::new(example), &Variant::default()).unwrap();
            let clusters = clusters_of(&manifest.system, false).unwrap();
            let subject = Subject { name: String::new(), clusters, longest_path: 0, system: Some(manifest.system) };
            let overheads = Overheads::default();
            let verdicts: Vec<Verdict> = subject.clusters.iter().map(|one| one.analyse(&overheads)).collect();
            let answer = answer(
                subject.clusters.iter().zip(&verdicts),
                &subject.recoveries(&overheads),
                subject.latencies(&overheads),
                subject.buses(&overheads),
            );
            let answer = serde_json::to_value([answer]).unwrap();
            assert_eq!(crate::published::problems("analyze.json", &answer), Vec::<String>::new(), "{example}");
        }
    }

    #[test]
    fn a_frame_that_may_be_late_does_not_hold() {
        let example = include_str!("../../../docs/examples/bus.toml");
        let found = |from: &str, to: &str| {
            assert!(example.contains(from), "{from}");
            let text = example.replacen(from, to, 1).replacen("cpus = 2", "cpus = 2\nadmission = \"warn\"", 1);
            let manifest = fusee_manifest::Manifest::parse(Path::new("bus.toml"), &text).unwrap();
            let subject =
                Subject { name: String::new(), clusters: Vec::new(), longest_path: 0, system: Some(manifest.system) };
            let bus = subject.buses(&Overheads::default()).remove(0);
            (buses::holds(&bus), buses::text(&bus))
        };
        let (holds, text) = found("\"3ms\"", "\"3ms\"");
        assert!(holds && !text.contains("NOT PROVED"), "{text}");
        let (holds, text) = found("\"3ms\"", "\"1863us\"");
        assert!(!holds && text.contains("not proved, for pedal: its bound is later than its deadline"), "{text}");
        let (holds, text) = found("250_000", "40_000");
        assert!(!holds && text.contains("OVERLOAD"), "{text}");
        let (holds, text) = found("hard = true", "hard = false");
        assert!(!holds && text.contains("`wheels`, which sends `speed`, may send more often"), "{text}");
    }

    #[test]
    fn an_interrupt_waits_longer_in_a_crowded_system() {
        let overheads = Overheads { event_latency: Nanoseconds(10), schedule: Nanoseconds(7), ..Overheads::default() };
        let costs = |longest_path| {
            Subject { name: String::new(), clusters: Vec::new(), longest_path, system: None }.costs(overheads)
        };
        assert_eq!(costs(LONGEST_PATH), overheads);
        assert_eq!(costs(LONGEST_PATH_CROWDED), Overheads { event_latency: Nanoseconds(30), ..overheads });
    }
}
