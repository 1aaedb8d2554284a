//! Random graphs with nodes that share engines and tokens: how late their jobs are, from their own releases and from those of their sources.
//!
//! A system is one of those with tokens and engine locks, but its tasks with jobs are the nodes of one graph or two, on any clusters: with joins,
//! with other numbers of tokens than one, with thresholds, and with edges that lead back. The observations of each node's jobs are read from the ends
//! of jobs in the trace.

use std::fmt::Write;
use std::path::Path;

use fusee_abi::trace::{Event, Record};
use fusee_graph::{Edge, Lateness, Rate, Tokens, source_job, starved};
use fusee_kernel_core::Planted;
use fusee_manifest::{Graph, Manifest, Resolved};
use fusee_simulator::system;
use fusee_simulator::workload::Source;
use fusee_simulator::{Checks, First, Options};
use fusee_views::metrics::Metrics;

use super::{LONG, systems, tighten};
use crate::draws::{Draws, Wrong};

/// The bounds of a system.
#[derive(Clone, Debug, Default)]
pub struct GraphClaims {
    /// The longest time of each task from a release to its completion, nanoseconds.
    pub responses: Vec<Option<u64>>,
    /// The lateness of the nodes of each graph; empty: there is no bound.
    pub nodes: Vec<Vec<Lateness>>,
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct GraphReport {
    /// Systems simulated.
    pub systems: u64,
    /// Those of them with a graph of which something is said,
    pub bounded: u64,
    /// and some node of which uses an engine of the accelerator.
    pub with_device: u64,
    /// Nodes of those graphs.
    pub nodes: u64,
    /// Their jobs that ended,
    pub jobs: u64,
    /// and those of them that ended before their releases.
    pub early: u64,
    /// The largest observed response time and latency, and its bound, by their ratio.
    pub tightest: [(u64, u64); 2],
    /// Systems that could not be simulated.
    pub failures: Vec<Wrong>,
    /// Claims that do not hold, with their systems.
    pub violations: Vec<Wrong>,
}

/// Draws and simulates systems on all CPUs of the host, and compares the observations with the `claims` of each.
pub fn graphs(draws: Draws, claims: &(dyn Fn(&Manifest) -> GraphClaims + Sync)) -> GraphReport {
    graphs_on(draws, claims, None)
}

/// Simulates them on a kernel that forgets this rule.
pub fn graphs_on(
    draws: Draws,
    claims: &(dyn Fn(&Manifest) -> GraphClaims + Sync),
    planted: Option<Planted>,
) -> GraphReport {
    let check = |report: &mut GraphReport, number: u64| {
        if let Err(what) = report.check((draws.seed, number), claims, planted) {
            report.failures.push(Wrong { seed: draws.seed, number, what });
        }
    };
    let mut report = draws.judge(&check, |report| !report.violations.is_empty(), GraphReport::join);
    report.violations.sort();
    report.failures.sort();
    report
}

//--- Drawing

/// The longest period of a source, nanoseconds, but for budgets that are longer: 32 bits have to hold how late a job is.
const LONGEST: u64 = 2_000_000_000;

/// Releases that may queue for a node.
const BACKLOG: u32 = 16;

/// A task of `text` with jobs, and the period that it has by itself.
struct Drawn {
    name: String,
    period: u64,
    budget: u64,
}

/// Makes the tasks with jobs in `text` nodes.
pub(super) fn connect(source: &mut Source, text: &mut String) {
    let all = drawn(text);
    let parts = if all.len() > 3 && source.draw(0, 2) == 0 { 2 } else { 1 };
    let part = all.len().div_ceil(parts);
    for (number, nodes) in all.chunks(part).enumerate() {
        let is_plain = source.draw(0, 1) == 0;
        let (rates, edges) = edges(source, nodes.len(), is_plain);
        // As short that some clusters are full.
        let share = source.pick(&[1, 1, 2]);
        let least = nodes.iter().zip(&rates).map(|(node, rate)| node.period * rate.jobs / rate.window / share);
        let fits =
            nodes.iter().zip(&rates).map(|(node, rate)| (node.budget + 1) * rate.jobs.div_ceil(rate.window)).max();
        let period = least.max().unwrap_or(0).min(LONGEST).max(fits.unwrap_or(0)).max(1_000_000);
        for (place, (node, rate)) in nodes.iter().zip(&rates).enumerate() {
            let constrained = source.draw(0, 2) == 0;
            let deadline = (rate.period(period) * source.draw(70, 100) / 100).max(node.budget);
            let deadline = if constrained { format!("deadline = \"{deadline}ns\"\n") } else { String::new() };
            let phase = source.draw(0, period);
            let times = if place == 0 {
                format!("period = \"{period}ns\"\nphase = \"{phase}ns\"\n{deadline}")
            } else {
                deadline
            };
            // Draws of this leave all else as it is.
            let waits = place > 0 && Source::new(period, place as u64).draw(0, 2) == 0;
            let times = if waits { times + "early = false\n" } else { times };
            release(text, &node.name, &times);
        }
        let _ = write!(text, "\n[graphs.g{number}]\nsource = \"{}\"\n", nodes[0].name);
        for (place, Edge { from, to, tokens }) in edges.iter().enumerate() {
            let _ = write!(
                text,
                "[graphs.g{number}.edges.e{place}]\nfrom = \"{}\"\nto = \"{}\"\nproduces = {}\nconsumes = {}\nthreshold = {}\ninitial = {}\n",
                nodes[*from].name,
                nodes[*to].name,
                tokens.produced(),
                tokens.consumed(),
                tokens.threshold(),
                tokens.initial(),
            );
        }
    }
}

/// Where the table of a task begins and ends in `text`.
fn table(text: &str, name: &str) -> std::ops::Range<usize> {
    let start = text.find(&format!("[tasks.{name}]")).unwrap_or(0);
    let end = text[start + 1..].find("\n[").map_or(text.len(), |end| start + 1 + end);
    start..end
}

fn drawn(text: &str) -> Vec<Drawn> {
    let names = text.lines().filter_map(|line| line.strip_prefix("[tasks.t")?.strip_suffix(']'));
    let one = |name: &str| {
        let name = format!("t{name}");
        let own = &text[table(text, &name)];
        let time = |key: &str| own.lines().find_map(|line| line.strip_prefix(key)?.strip_suffix("ns\""))?.parse().ok();
        Some(Drawn { period: time("period = \"")?, budget: time("budget = \"")?, name })
    };
    names.filter_map(one).collect()
}

/// Writes other times of release of a task.
fn release(text: &mut String, name: &str, times: &str) {
    let place = table(text, name);
    let is_time =
        |line: &&str| ["period = ", "deadline = ", "phase = ", "backlog = "].iter().any(|key| line.starts_with(key));
    let mut rest: String =
        text[place.clone()].lines().filter(|line| !is_time(line)).flat_map(|line| [line, "\n"]).collect();
    // Before the first key with a dot, which may be of a table of its own.
    let at = rest.find("script = ").unwrap_or(rest.len());
    rest.insert_str(at, &format!("{times}backlog = {BACKLOG}\n"));
    text.replace_range(place, &rest);
}

/// A tree over so many nodes, and further edges; `is_plain`: a token for a job everywhere.
pub(crate) fn edges(source: &mut Source, nodes: usize, is_plain: bool) -> (Vec<Rate>, Vec<Edge>) {
    let mut rates = vec![Rate::SOURCE];
    let mut edges = Vec::new();
    let most = if is_plain { 1 } else { 3 };
    while rates.len() < nodes {
        let from = source.draw(0, rates.len() as u64 - 1) as usize;
        let [put, taken] = [(); 2].map(|()| source.draw(1, most) as u32);
        let more = if is_plain { 0 } else { source.draw(0, 2) as u32 };
        let Ok(tokens) = Tokens::new(put, taken, taken + more, 0) else { continue };
        let Ok(rate) = Rate::of_consumer([(rates[from], tokens)].into_iter()) else { continue };
        edges.push(Edge { from, to: rates.len(), tokens });
        rates.push(rate);
    }
    for _ in 0..source.draw(0, nodes as u64) {
        let [from, to] = [(); 2].map(|()| source.draw(0, nodes as u64 - 1) as usize);
        let tokens = rates[from].tokens_to(rates[to]);
        let more = if is_plain { 0 } else { source.draw(0, 2) as u32 };
        let rounds = if from < to { 0 } else { source.draw(1, 4) as u32 };
        let Some([put, taken]) = tokens else { continue };
        let initial = rounds * (put + taken + more);
        let Ok(tokens) = Tokens::new(put, taken, taken + more, initial) else { continue };
        let edge = Edge { from, to, tokens };
        if from != to && to != 0 && edge.encode().is_some() {
            edges.push(edge);
            // With too few tokens to go on.
            if starved(&edges, &rates).is_some() {
                edges.pop();
            }
        }
    }
    (rates, edges)
}

// --- Observations

/// A job that ended: its release and its end.
type Job = (u64, u64);

impl GraphReport {
    fn check(
        &mut self,
        (seed, number): (u64, u64),
        claims: &(dyn Fn(&Manifest) -> GraphClaims + Sync),
        planted: Option<Planted>,
    ) -> Result<(), String> {
        let (text, longest) = systems::draw_graphs(seed, number);
        let fail = |why: String| format!("{why}\n{text}");
        let manifest = Manifest::parse(Path::new("random.toml"), &text).map_err(|error| fail(error.to_string()))?;
        let system = &manifest.system;
        let mut metrics = Metrics::new(system);
        let deadlines: Vec<u64> = metrics.tasks.iter().map(|task| task.deadline.unwrap_or(0)).collect();
        self.systems += 1;
        if deadlines.iter().any(|deadline| *deadline > i32::MAX as u64) {
            return Ok(());
        }
        let mut jobs: Vec<Vec<Job>> = vec![Vec::new(); system.tasks.len()];
        let mut observe = |record: &Record| {
            metrics.observe(record);
            if Event::from_number(record.event) == Some(Event::Complete) {
                let Some(task) = usize::from(record.thread).checked_sub(1).filter(|task| *task < deadlines.len())
                else {
                    return;
                };
                let lateness = record.lateness();
                jobs[task].push((record.time.wrapping_sub(lateness.cast_unsigned()) - deadlines[task], record.time));
            }
        };
        let run = Options { checks: Checks::Instants(64), first: First::Tasks, planted, ..Options::default() };
        let limit = system.start + (20 * longest).min(LONG.max(3 * longest));
        system::simulate_observed(&manifest, &run, limit, &mut observe).map_err(|error| fail(error.to_string()))?;
        let claims = claims(&manifest);
        let (mut said, mut works) = (false, false);
        let accelerated = |task: usize| {
            let mut users = system.engine_users.iter().filter(|user| user.task as usize == task);
            users.any(|user| system.engine_places[user.engine as usize].is_some())
        };
        for (graph, nodes) in system.graphs.iter().zip(&claims.nodes) {
            if nodes.is_empty() {
                continue;
            }
            said = true;
            let ran_dry =
                |(task, _): &&(usize, Rate)| metrics.tasks[*task].throttles + metrics.tasks[*task].skipped > 0;
            if let Some((task, _)) = graph.nodes.iter().find(ran_dry) {
                return Err(fail(format!("{} ran out of budget, or lost a release", system.tasks[*task].name)));
            }
            works |= graph.nodes.iter().any(|(task, _)| accelerated(*task));
            let wrong = self.compare(system, graph, (&claims.responses, nodes), &jobs);
            let wrong = wrong.into_iter().map(|wrong| format!("{wrong}\n{text}"));
            self.violations.extend(wrong.map(|what| Wrong { seed, number, what }));
        }
        self.bounded += u64::from(said);
        self.with_device += u64::from(works);
        Ok(())
    }

    /// Compares a graph's jobs with their bounds.
    fn compare(
        &mut self,
        system: &Resolved,
        graph: &Graph,
        (responses, nodes): (&[Option<u64>], &[Lateness]),
        jobs: &[Vec<Job>],
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let Some(source) = system.source(graph) else { return wrong };
        let start = system.start + source.phase;
        for (place, ((task, rate), claim)) in graph.nodes.iter().zip(nodes).enumerate() {
            let name = &system.tasks[*task].name;
            self.nodes += 1;
            self.jobs += jobs[*task].len() as u64;
            let [mut response, mut latency] = [0_u64; 2];
            for (job, &(release, end)) in (1..).zip(&jobs[*task]) {
                let frame = source_job(&graph.edges, place, job);
                // A job that has ended before its release has taken no time.
                response = response.max(end.saturating_sub(release));
                self.early += u64::from(end < release);
                latency = latency.max(end - (start + (frame - 1) * source.period));
                // In parts of a nanosecond.
                let due = i128::from(start) * i128::from(rate.jobs)
                    + i128::from(job - 1) * i128::from(rate.window * source.period);
                let late = i128::from(release) * i128::from(rate.jobs) - due;
                if late > i128::from(claim.late) * i128::from(rate.jobs) {
                    wrong.push(format!("job {job} of {name} is released {late} ns late, bound {}", claim.late));
                }
            }
            let bounds = [responses[*task].unwrap_or(u64::MAX), claim.latency];
            for (of, (what, (seen, bound))) in
                ["response", "latency"].iter().zip([response, latency].into_iter().zip(bounds)).enumerate()
            {
                if seen > bound {
                    wrong.push(format!("{what} of {name} {seen} ns, bound {bound} ns"));
                }
                tighten(&mut self.tightest[of], (seen, bound));
            }
        }
        wrong
    }

    /// Adds the results of other systems.
    pub fn join(&mut self, other: GraphReport) {
        self.systems += other.systems;
        self.bounded += other.bounded;
        self.nodes += other.nodes;
        self.jobs += other.jobs;
        self.early += other.early;
        self.with_device += other.with_device;
        self.failures.extend(other.failures);
        self.violations.extend(other.violations);
        self.tightest.iter_mut().zip(other.tightest).for_each(|(most, other)| tighten(most, other));
    }

    /// The tightest observations of a response time and of a latency, as parts of their bounds.
    #[must_use]
    pub fn ratios(&self) -> [f64; 2] {
        self.tightest.map(|(seen, bound)| seen as f64 / bound.max(1) as f64)
    }
}

impl std::fmt::Display for GraphReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let GraphReport { systems, bounded, nodes, jobs, early, with_device, .. } = self;
        let [response, latency] = self.ratios();
        write!(
            f,
            "{systems} random systems of graphs, {bounded} with a bound, {with_device} of these with an accelerator, {nodes} nodes, {jobs} jobs, {early} of them early, \
             response {response:.3}, latency {latency:.3}"
        )?;
        self.failures.iter().try_for_each(|failure| write!(f, "\nfailed: {failure}"))?;
        self.violations.iter().try_for_each(|violation| write!(f, "\nviolated: {violation}"))
    }
}
