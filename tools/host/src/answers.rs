//! The output of commands with `--json`: the types, from which the schemas in `docs/schema` are made.
//!
//! Times are nanoseconds in all of them but [`Analysis`], which has microseconds, as in the task sets that it reads.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use fusee_abi::trace::{ENGINE_TIME_SHIFT, Ledger};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Resolved, admission};
use fusee_sched_analysis::Overheads;
use fusee_views::latency::Latencies;
use fusee_views::metrics::{Metrics, Summary, TaskMetrics};
use schemars::JsonSchema;
use serde::Serialize;

use crate::judge::{Problem, Watch};
use crate::observed::{Declaration, Observed};

/// One run in QEMU, or one simulation: `run --json`, `simulate --json`. All times are nanoseconds.
#[derive(Debug, JsonSchema, Serialize)]
pub struct RunAnswer {
    /// The system.
    pub name: String,
    /// The unit of all times.
    pub unit: Unit,
    /// Whether it was emulated or simulated.
    pub by: By,
    /// When it ended, since the kernel's time zero.
    pub ended_at: u64,
    /// The code it ended with; `null`: it did not end itself.
    pub exit: Option<i64>,
    /// The reason of its end.
    pub ended_by: EndedBy,
    /// Traps of the kernel; of simulations only.
    pub traps: Option<u64>,
    /// Records of the trace that were overwritten before they could be read.
    pub lost_records: u64,
    /// Whether the run was as its manifest wants it.
    pub verdict: VerdictAnswer,
    /// All tasks, in the manifest's order.
    pub tasks: Vec<TaskAnswer>,
    /// All graphs, in the manifest's order.
    pub graphs: Vec<GraphAnswer>,
    /// The declarations of tasks beside the longest that was seen.
    pub observed: Vec<Declaration>,
    /// The text that the system printed; absent in simulations in which no task printed anything.
    pub console: Option<String>,
}

/// The machine that ran the system.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// QEMU, by counted instructions.
    QemuDet,
    /// QEMU, on the host's threads.
    QemuPar,
    /// A board.
    Board,
    /// The simulator.
    Simulator,
}

/// The reason of the end of a run or a simulation.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The system.
    Itself,
    /// The limit on virtual time.
    Limit,
    /// Nothing could happen any more.
    NothingLeft,
    /// The end of a `hard` task, or of the last task that could shut the system down.
    TaskEnded,
    /// The limit on the host's time.
    HostLimit,
    /// Ctrl-C, or another signal that ends programs.
    Interrupt,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
}

/// The results of a run.
#[derive(Debug, JsonSchema, Serialize)]
pub struct VerdictAnswer {
    /// Whether the command's exit code is zero.
    pub good: bool,
    /// Why it is not.
    pub problems: Vec<Problem>,
}

/// One task.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TaskAnswer {
    /// Its name.
    pub name: String,
    /// Whether it must not miss a deadline.
    pub hard: bool,
    /// Its relative deadline; `null`: it has no jobs.
    pub deadline: Option<u64>,
    /// Its end, or its state at the end of a system that did not end itself; `null`: it ended well.
    pub state: Option<String>,
    /// Jobs that completed.
    pub jobs: u64,
    /// Jobs that began.
    pub started: u64,
    /// Jobs that completed after their deadlines.
    pub missed: u64,
    /// Releases that were dropped.
    pub skipped: u64,
    /// Times its budget ran dry.
    pub dry: u64,
    /// Times it faulted; `null`: the system left no accounts, and the trace is not complete.
    pub faults: Option<u64>,
    /// CPU time of its thread, on whichever reservation.
    pub cpu_time: Option<u64>,
    /// Time charged to its reservation, for any task that ran on it; `null`: it has none.
    pub charged: Option<u64>,
    /// Time of each engine that it used, from grants until the engine was idle.
    pub engines: BTreeMap<String, u64>,
    /// Completion less release of all jobs that the trace has; `null`: none.
    pub response: Option<SummaryAnswer>,
    /// Completion less deadline.
    pub lateness: Option<SummaryAnswer>,
    /// The same, at least zero.
    pub tardiness: Option<SummaryAnswer>,
    /// Response times in buckets of equal width, from zero to the deadline or to the longest.
    pub histogram: Option<Histogram>,
}

/// One graph.
#[derive(Debug, JsonSchema, Serialize)]
pub struct GraphAnswer {
    /// Its name.
    pub name: String,
    /// Jobs of nodes without further ones that ended.
    pub ended: u64,
    /// From a release of the source until the end of such a job for the tokens of that release; `null`: none has ended.
    pub latency: Option<SummaryAnswer>,
    /// The proved bound on that; `null`: none.
    pub bound: Option<u64>,
    /// The limit of the manifest; `null`: none.
    pub limit: Option<u64>,
}

/// A few numbers that stand for many.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SummaryAnswer {
    /// The least.
    pub min: i64,
    /// The mean, rounded down.
    pub mean: i64,
    /// The least number that 99 % do not exceed.
    pub p99: i64,
    /// The greatest.
    pub max: i64,
}

impl From<Summary> for SummaryAnswer {
    fn from(one: Summary) -> Self {
        Self { min: one.least, mean: one.mean, p99: one.percentile_99, max: one.greatest }
    }
}

/// How many jobs took how long.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Histogram {
    /// Jobs in each bucket.
    pub buckets: Vec<u64>,
    /// After so many buckets comes the deadline.
    pub deadline_after: usize,
}

/// All tasks of a run. `trace` has ledgers if it is complete; `metrics` are of all records.
pub fn tasks(
    system: &Resolved,
    metrics: &Metrics,
    trace: Option<&Trace>,
    watch: &Watch<'_>,
    has_ended: bool,
) -> Vec<TaskAnswer> {
    let ledgers = trace.map(Trace::ledgers);
    let amount = |ledger: Ledger, index: usize| ledgers.as_ref()?.get(&(ledger as u16, index as u16)).copied();
    let each = system.tasks.iter().zip(&metrics.tasks).zip(watch.states(has_ended)).enumerate();
    each.map(|(index, ((task, seen), state))| {
        // Rings keep the newest records only, ledgers count all.
        let most = |ledger: Ledger, seen: u64| amount(ledger, index).unwrap_or(0).max(seen);
        let reserved = |ledger: Ledger| amount(ledger, task.reservation?);
        let engines = system.engines.iter().enumerate().filter_map(|(engine, (name, _))| {
            Some((name.clone(), amount(Ledger::EngineTime, engine << ENGINE_TIME_SHIFT | index)?))
        });
        let has_jobs = system.has_jobs(task);
        TaskAnswer {
            name: task.name.clone(),
            hard: task.hard,
            deadline: seen.deadline,
            state,
            jobs: if has_jobs { most(Ledger::Jobs, seen.jobs()) } else { 0 },
            started: seen.started,
            missed: if has_jobs { most(Ledger::Misses, seen.misses()) } else { 0 },
            skipped: most(Ledger::Skipped, seen.skipped),
            // Ledgers count early releases, too.
            dry: seen.throttles,
            faults: amount(Ledger::Faults, index),
            cpu_time: amount(Ledger::ThreadTime, index),
            charged: reserved(Ledger::Charged),
            engines: engines.collect(),
            response: seen.response().map(Into::into),
            lateness: seen.lateness().map(Into::into),
            tardiness: seen.tardiness().map(Into::into),
            histogram: has_jobs.then(|| histogram(seen)),
        }
    })
    .collect()
}

/// One answer for each graph of `system`, in its order: the `latencies` seen in a run, the proved bound and the manifest's limit.
pub fn graphs(system: &Resolved, latencies: &Latencies) -> Vec<GraphAnswer> {
    let bounds = admission::latencies(system, &Overheads::default());
    let each = system.graphs.iter().zip(bounds).zip(latencies.of_graphs());
    each.map(|((graph, found), seen)| {
        let seen: Vec<i64> = seen.iter().map(|latency| latency.cast_signed()).collect();
        GraphAnswer {
            name: graph.name.clone(),
            ended: seen.len() as u64,
            latency: Summary::of(seen).map(Into::into),
            bound: found.longest.map(|longest| longest.latency),
            limit: graph.latency.map(|latency| latency.0),
        }
    })
    .collect()
}

fn histogram(task: &TaskMetrics) -> Histogram {
    let (buckets, deadline_after) = task.histogram();
    Histogram { buckets: buckets.to_vec(), deadline_after }
}

/// Declarations of tasks beside their longest observed values, of a whole trace.
pub fn observed(trace: &Trace, system: &Resolved) -> Vec<Declaration> {
    Observed::of(trace, system).declarations()
}

/// One system or one task set: `analyze --json` prints a list of them. All times are microseconds.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Analysis {
    /// CPUs.
    pub m: u32,
    /// The policy of all clusters; `null`: they differ.
    pub policy: Option<&'static str>,
    /// The sum of all tasks.
    pub utilisation: f64,
    /// Whether tardiness is bounded; `null`: no test says.
    pub bounded_tardiness: Option<bool>,
    /// Whether no task misses a deadline, for any behaviour of others.
    pub hard: bool,
    /// Whether no cluster is overloaded, and all tasks that are called hard are proved: the command's exit code is zero then.
    pub holds: bool,
    /// Why something cannot be analysed.
    pub errors: Vec<String>,
    /// Its clusters.
    pub clusters: Vec<ClusterAnalysis>,
    /// Its tasks.
    pub tasks: Vec<TaskAnalysis>,
    /// When those of its tasks that have further lives are up again.
    pub lives: Vec<LifeAnalysis>,
    /// How late its graphs are.
    pub graphs: Vec<GraphAnalysis>,
    /// How late the frames of its CAN buses are.
    pub buses: Vec<BusAnalysis>,
}

/// A CAN bus.
#[derive(Debug, JsonSchema, Serialize)]
pub struct BusAnalysis {
    /// Its name.
    pub name: String,
    /// Bits per second.
    pub bit_rate: u32,
    /// The part of its time that its frames take, faults apart.
    pub utilisation: f64,
    /// Whether they take more than its time.
    pub overloaded: bool,
    /// Its frames, the most urgent first.
    pub frames: Vec<FrameAnalysis>,
}

/// A frame of a CAN bus. Its times count from its event: the release of its sender's job, or a decision of another node.
#[derive(Debug, JsonSchema, Serialize)]
pub struct FrameAnalysis {
    /// Its name.
    pub name: String,
    /// Its identifier.
    pub identifier: u32,
    /// Whether that has 29 bits.
    pub extended: bool,
    /// The longest time that the frame takes on the bus.
    pub c: f64,
    /// The least time between two events.
    pub p: f64,
    /// Its deadline.
    pub d: f64,
    /// The longest time until it is in a transmit buffer; `null`: not bounded.
    pub jitter: Option<f64>,
    /// Bound on the time until it has been sent; `null`: none is known.
    pub response: Option<f64>,
    /// Whether it is never late, for any behaviour of tasks that are neither hard nor trusted.
    pub proved: bool,
    /// Why it may be late.
    pub why_not: Option<String>,
    /// Why that rests on the behaviour of tasks, and nothing enforces it.
    pub not_enforced: Option<String>,
    /// The task that sends it; `null`: another node.
    pub sender: Option<String>,
    /// The task that reads it.
    pub to: Option<String>,
    /// Bound on the time until a job of that task has ended which read it; `null`: none is known, or no task reads it.
    pub latency: Option<f64>,
    /// Why no bound on that is known.
    pub why_no_latency: Option<String>,
}

/// A graph of tasks.
#[derive(Debug, JsonSchema, Serialize)]
pub struct GraphAnalysis {
    /// Its name.
    pub name: String,
    /// The limit of the manifest; `null`: none.
    pub latency: Option<f64>,
    /// The bound on the time from a release of its source until the end of the last job for the tokens of that release; `null`: no bound.
    pub bound: Option<f64>,
    /// Its longest paths, the longest first.
    pub paths: Vec<PathAnalysis>,
    /// Why there is no bound.
    pub why_not: Option<String>,
    /// The reason why it rests on behaviour of tasks that are no nodes of it, which no mechanism enforces.
    pub not_enforced: Option<String>,
}

/// A path through a graph.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PathAnalysis {
    /// Its tasks, from the source on.
    pub tasks: Vec<String>,
    /// The same bound, as far as this path delays the last of them.
    pub latency: f64,
}

/// A task that is given another life when it has ended.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LifeAnalysis {
    /// Its name.
    pub task: String,
    /// The longest delay from its end to its next life.
    pub delay: f64,
    /// From its end until its next life is up, at most; `null`: not bounded.
    pub up_within: Option<f64>,
    /// Why that is not bounded.
    pub why_not: Option<String>,
}

/// One cluster.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ClusterAnalysis {
    /// Its name.
    pub name: String,
    /// CPUs.
    pub m: u32,
    /// Its policy.
    pub policy: &'static str,
    /// The sum of its tasks.
    pub utilisation: f64,
    /// Whether tardiness is bounded; `null`: no test says.
    pub bounded_tardiness: Option<bool>,
    /// Whether none of its tasks misses a deadline, for any behaviour of others.
    pub hard: bool,
    /// The result of each test, by its name.
    pub tests: BTreeMap<String, String>,
    /// Engines and pools of which some user does not say how long it uses them.
    pub undeclared: Vec<String>,
}

/// One task.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TaskAnalysis {
    /// Its name.
    pub name: String,
    /// Its cluster.
    pub cluster: String,
    /// Execution time.
    pub e: f64,
    /// Period.
    pub p: f64,
    /// Relative deadline.
    pub d: f64,
    /// Its own operations of engines.
    pub operations: f64,
    /// How long it is blocked at most.
    pub blocking: f64,
    /// The cause of most of it.
    pub blocking_first: Option<String>,
    /// How long a job has its tokens, at most, preemption aside.
    pub token: f64,
    /// Bound on tardiness of Devi and Anderson.
    pub devi_tardiness: Option<f64>,
    /// Bound on lateness by compliant-vector analysis.
    pub cva_lateness: Option<f64>,
    /// Bound on the response time; `null`: none is known.
    pub response: Option<f64>,
    /// Bound on lateness.
    pub lateness: Option<f64>,
    /// The same, at least zero.
    pub tardiness: Option<f64>,
    /// The time left until the deadline.
    pub slack: Option<f64>,
    /// The test that gives the bound.
    pub test: Option<&'static str>,
    /// The largest term of the bound.
    pub dominating: Option<String>,
    /// Whether it misses no deadline, for any behaviour of others.
    pub hard: bool,
    /// Waiting that is not counted.
    pub not_counted: Vec<String>,
    /// The reason why its deadlines rest on behaviour of others that no mechanism enforces.
    pub not_enforced: Option<String>,
    /// Why it is not proved.
    pub why_not: Option<String>,
}

/// The kernel's paths: `bench --json`. Instructions.
#[derive(Debug, JsonSchema, Serialize)]
pub struct BenchAnswer {
    /// Compiler and emulator.
    pub column: String,
    /// The paths.
    pub paths: Vec<PathAnswer>,
    /// Bytes of the kernel's code and constants with all features.
    pub text_bytes: u64,
    /// The same without any.
    pub bare_text_bytes: u64,
    /// The problem; empty if there is none.
    pub problems: Vec<String>,
}

/// One path of the kernel.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PathAnswer {
    /// Its description.
    pub name: String,
    /// The median of its samples.
    pub median: u64,
}

/// A value in one line of output.
pub fn line<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).context("JSON")
}
