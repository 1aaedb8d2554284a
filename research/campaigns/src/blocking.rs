//! Bounds on blocking against observations: many random systems with tokens and engine locks, each simulated.
//!
//! A system is partitioned, clustered or global; its engines are plain mutexes, or those of the accelerator, where jobs
//! suspend for their operations; some are of a group, and acquired two at a time. Most tasks have a token of a pool once in a
//! job, under each protocol, and hold engines with it or without; tasks of no importance do, too. Or its clusters share pools,
//! and engines that are held with their tokens; or a pool has tokens of several devices. Each declares in its manifest how often and how long it
//! holds them, so the bounds that are compared are those of the manifest's analysis.
//!
//! The observations of each job are how long it is pi-blocked while it waits for engines, while it waits for a token, and before it first
//! runs, which is as a donor, by suspension-oblivious analysis; how long by anything else, which must be its own operations;
//! and how late it is. Of a task with a budget that pays for engines, how long it holds those of the accelerator.
//!
//! Not here: systems (`systems`), bounds (`sched/analysis`).

use std::path::Path;

use fusee_abi::image::class;
use fusee_abi::trace::{Event, Record};
use fusee_manifest::{Manifest, PolicyName, Resolved};
use fusee_sched::key::{Key, Policy, PriorityPoint, TaskParameters, Tie};
use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sched_analysis::pi_blocking::{Pending, State, classify};
use fusee_simulator::system;
use fusee_simulator::{Checks, First, Options};
use fusee_views::metrics::Metrics;

use crate::draws::{Draws, Wrong};

pub(crate) mod calls;
mod devices;
pub mod graphs;
mod served;
mod sleeping;
mod systems;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;

//--- Public types

/// The bounds of a task, nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Claim {
    /// How long a job is pi-blocked while it waits for engines, for its token, before it begins, and for servers, at most. `None`:
    /// there is no bound for its cluster, or some budget is too short for the time that it may lend.
    pub blocking: Option<[u64; 4]>,
    /// How long its own operations take, those in services apart, and how long it suspends itself.
    pub operations: u64,
    /// How long engines work in services of its own requests.
    pub served: u64,
    /// CPU time of its servers for it, which is not blocking.
    pub services: u64,
    /// How long servers that are boosted for other clusters may keep a job from running, which is no blocking either: in any wait,
    /// and if it does not wait.
    pub boosts: u64,
    /// Engine time that its budget pays for, at most; zero: it does not.
    pub drawn: u64,
    /// How late it is, at most.
    pub lateness: Option<i64>,
}

/// A time that is long enough for a system, in nanoseconds, if three of its longest periods fit in; 20 of them always are.
const LONG: u64 = 30_000_000_000;
/// The time beside clients without locks, which submit on and on.
const LONG_SHARED: u64 = 2_000_000_000;
/// The objects that jobs wait for, by the index of the blocking.
const WAITS: [&str; 4] = ["engines", "tokens", "donation", "servers"];

/// The tasks that share pools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// Those of one cluster.
    Within,
    /// Those of several clusters.
    Across,
    /// None: they call servers, each of one cluster.
    Calls,
    /// Tasks of several clusters share pools, and clusters share servers.
    CallsAcross,
    /// None: they call servers, each of one cluster, and both hold engines.
    Served,
    /// Those of one cluster, of a pool with tokens of several devices.
    Devices,
    /// None: those of one cluster compute little, and wait for engines by arrival for long.
    Waiting,
    /// None, or engines of one cluster of one CPU: jobs sleep for long.
    Sleeping,
    /// Those of one cluster; and clients without locks, which do anything, have the engines of the accelerator meanwhile.
    Shared,
    /// Clients without locks on an execution engine with SMs.
    Spatial,
    /// An execution engine with SMs whose device decides by keys between clients with locks, in clusters of one CPU; beside clients without locks, or
    /// not.
    Keyed,
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct BlockingReport {
    /// Systems simulated.
    pub systems: u64,
    /// Tasks with a bound on blocking above zero, by engines, by tokens, by donation and by servers.
    pub bounded: [u64; 4],
    /// Tasks with a bound on lateness.
    pub timely: u64,
    /// Tasks with budgets that pay for engines.
    pub paid: u64,
    /// Jobs completed.
    pub jobs: u64,
    /// Jobs that were pi-blocked for engines, for a token, as donors, and for servers.
    pub blocked: [u64; 4],
    /// Systems that could not be simulated, or are not as they should be.
    pub failures: Vec<Wrong>,
    /// Claims that do not hold, with their systems.
    pub violations: Vec<Wrong>,
    /// The largest observed blocking and its bound, by their ratio, for engines, for tokens, by donation and for
    /// servers; then the response time, and the engine time that a budget pays for.
    pub tightest: [(u64, u64); 6],
}

/// The claims on the tasks of a system, in its order; tasks without jobs have none.
pub type Claims<'a> = &'a (dyn Fn(&Manifest) -> Vec<Claim> + Sync);

/// Draws and simulates systems of `family` on all CPUs of the host, and compares the observations with `claims`.
pub fn blocking(family: Family, draws: Draws, claims: Claims<'_>) -> BlockingReport {
    let check = |report: &mut BlockingReport, number: u64| {
        if let Err(what) = report.check(family, draws.seed, number, claims) {
            report.failures.push(Wrong { seed: draws.seed, number, what });
        }
    };
    let mut report = draws.judge(&check, |report| !report.violations.is_empty(), BlockingReport::join);
    report.violations.sort();
    report.failures.sort();
    report
}

/// A system of `family`, not simulated.
///
/// # Errors
/// It is not a system; the words name the mistakes and have its text.
pub fn drawn(family: Family, seed: u64, number: u64) -> Result<Manifest, String> {
    parse(&draw(family, seed, number).0)
}

/// The text of a system, and its longest period.
fn draw(family: Family, seed: u64, number: u64) -> (String, u64) {
    match family {
        Family::Within | Family::Across | Family::Waiting | Family::Shared | Family::Spatial | Family::Keyed => {
            systems::draw(family, seed, number)
        }
        Family::Calls | Family::CallsAcross | Family::Served => calls::draw(family, seed, number),
        Family::Devices => devices::draw(seed, number),
        Family::Sleeping => sleeping::draw(seed, number),
    }
}

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("random.toml"), text).map_err(|error| format!("{error}\n{text}"))
}

// --- Observations

/// One task with jobs.
struct Watched {
    cluster: usize,
    point: PriorityPoint,
    first: u64,
    period: u64,
    /// The key of its pending job.
    pending: Option<Key>,
    /// The deadline, relative, and the order among jobs with one priority point, which follows from the lateness of the job before.
    deadline: Nanoseconds,
    tie: Tie,
    state: State,
    /// For which of [`WAITS`].
    waits: Option<usize>,
    /// Of this job: pi-blocked while it waits, and otherwise.
    blocked: [u64; 4],
    otherwise: u64,
    /// The largest of all jobs.
    most_blocked: [u64; 4],
    most_otherwise: u64,
    jobs_blocked: [u64; 4],
    /// Engine time of this job, in all its holds, and the most of all jobs; by engine the grant of its present hold.
    held: u64,
    most_held: u64,
    granted: Vec<Option<u64>>,
}

/// Watches how jobs are pi-blocked, record by record.
struct Watch {
    /// By thread; those without jobs are not watched.
    tasks: Vec<Option<Watched>>,
    /// By engine, whether it has a device,
    works: Vec<bool>,
    /// and whether that decides by keys.
    decides: Vec<bool>,
    cpus: Vec<usize>,
    now: u64,
    /// The tasks of one cluster with pending jobs, and these jobs; kept between instants for the memory alone.
    indices: Vec<usize>,
    pending: Vec<Pending<Key>>,
}

impl Watch {
    fn new(system: &Resolved) -> Watch {
        let cpus: Vec<usize> = system.clusters.iter().map(|(_, record)| record.cpus.count_ones() as usize).collect();
        let watched = |(index, task): (usize, &fusee_manifest::Task)| {
            let one = &system.reservations[task.reservation?];
            if one.class != class::REAL_TIME {
                return None;
            }
            let cluster = one.cluster as usize;
            let parameters = TaskParameters {
                execution: Nanoseconds(one.execution),
                period: Nanoseconds(one.period),
                deadline: Nanoseconds(one.deadline),
                priority: one.priority,
                cpus: cpus[cluster] as u32,
            };
            let policy = PolicyName::from_number(system.clusters[cluster].1.policy).unwrap_or_default();
            Some(Watched {
                cluster,
                point: policy.priority_point(&parameters),
                first: system.start + one.phase,
                period: one.period,
                pending: None,
                deadline: parameters.deadline,
                tie: Tie::new(0, parameters.deadline, index as u16),
                state: State::Ready,
                waits: None,
                blocked: [0; 4],
                otherwise: 0,
                most_blocked: [0; 4],
                most_otherwise: 0,
                jobs_blocked: [0; 4],
                held: 0,
                most_held: 0,
                granted: vec![None; system.engines.len()],
            })
        };
        let works = system.engine_places.iter().map(Option::is_some).collect();
        let decides = system.arbitrated.iter().map(Option::is_some).collect();
        let tasks = system.tasks.iter().enumerate().map(watched).collect();
        Watch { tasks, works, decides, cpus, now: 0, indices: Vec::new(), pending: Vec::new() }
    }

    fn observe(&mut self, record: &Record) {
        self.pass(record.time);
        let Some(event) = Event::from_number(record.event) else { return };
        let Some(index) = usize::from(record.thread).checked_sub(1) else { return };
        let decides = |record: &Record| self.decides.get(record.object as usize - 1) == Some(&true);
        let is_keyed = event == Event::EngineIdle && decides(record);
        let Some(Some(task)) = self.tasks.get_mut(index) else { return };
        match event {
            Event::Release => {
                let release = task.first + (u64::from(record.job) - 1) * task.period;
                task.pending = Some(Key::real_time(task.point.of_job(Instant(release)), task.tie));
                (task.blocked, task.otherwise, task.held) = ([0; 4], 0, 0);
                // It begins where the job before ended, if that was late; else it has to be switched to.
                task.waits = (task.state != State::Scheduled).then_some(2);
            }
            Event::Complete => {
                task.pending = None;
                task.tie = Tie::new(record.lateness(), task.deadline, index as u16);
                task.most_otherwise = task.most_otherwise.max(task.otherwise);
                task.most_held = task.most_held.max(task.held);
                for (on, blocked) in task.blocked.into_iter().enumerate() {
                    task.most_blocked[on] = task.most_blocked[on].max(blocked);
                    task.jobs_blocked[on] += u64::from(blocked > 0);
                }
            }
            Event::SwitchTo => {
                task.state = State::Scheduled;
                task.waits = task.waits.filter(|on| *on != 2);
            }
            Event::SwitchAway if task.state == State::Scheduled => task.state = State::Ready,
            Event::Block => task.state = State::Suspended,
            Event::Resume => task.state = State::Ready,
            Event::EngineRequest => task.waits = Some(0),
            Event::TokenRequest => task.waits = Some(1),
            Event::Call => task.waits = Some(3),
            Event::Reply => task.waits = None,
            Event::EngineGrant => {
                task.waits = None;
                // No budget pays for a mutex.
                if self.works.get(record.object as usize - 1) == Some(&true) {
                    task.granted[record.object as usize - 1] = Some(record.time);
                }
            }
            Event::EngineIdle => {
                let granted = task.granted.get_mut(record.object as usize - 1).and_then(Option::take);
                task.held += match granted {
                    Some(_) if is_keyed => 1_000 * u64::from(record.value),
                    Some(granted) => record.time - granted,
                    None => 0,
                };
            }
            Event::TokenGrant => task.waits = None,
            _ => {}
        }
    }

    /// Charges the time until `now` to the jobs that are blocked in it.
    fn pass(&mut self, now: u64) {
        let span = now - self.now;
        if span == 0 {
            return;
        }
        self.now = now;
        for (cluster, cpus) in self.cpus.iter().enumerate() {
            self.indices.clear();
            self.pending.clear();
            for (index, task) in self.tasks.iter().enumerate() {
                let Some(task) = task.as_ref().filter(|task| task.cluster == cluster) else { continue };
                if let Some(key) = task.pending {
                    self.indices.push(index);
                    self.pending.push(Pending { key, state: task.state });
                }
            }
            for (index, blocking) in self.indices.iter().zip(classify(*cpus, &self.pending)) {
                let Some(task) = &mut self.tasks[*index] else { continue };
                let to = match task.waits {
                    Some(on) => &mut task.blocked[on],
                    None => &mut task.otherwise,
                };
                *to += if blocking.oblivious { span } else { 0 };
            }
        }
    }
}

/// Keeps that of two observations, each with its bound, that comes nearest to it. One with a bound of zero is none.
pub(crate) fn tighten(most: &mut (u64, u64), (seen, bound): (u64, u64)) {
    let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
    if bound > 0 && (most.1 == 0 || product(seen, most.1) > product(most.0, bound)) {
        *most = (seen, bound);
    }
}

/// The observations of one task with jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed {
    /// Jobs completed.
    pub(crate) jobs: u64,
    /// The longest time that a job was pi-blocked by engines, by tokens, and as a donor, nanoseconds.
    pub(crate) blocked: [u64; 3],
    /// The longest response time, nanoseconds.
    pub(crate) response: u64,
}

/// Simulates a system until `limit`, and returns the observations of its tasks; of those without jobs there are none.
///
/// # Errors
/// The system cannot be simulated, or a budget ran dry.
pub(crate) fn observe(manifest: &Manifest, options: &Options, limit: u64) -> Result<Vec<Option<Observed>>, String> {
    let mut metrics = Metrics::new(&manifest.system);
    let mut watch = Watch::new(&manifest.system);
    let mut see = |record: &Record| {
        metrics.observe(record);
        watch.observe(record);
    };
    system::simulate_observed(manifest, options, limit, &mut see).map_err(|error| error.to_string())?;
    let observed = |(task, watched): (&fusee_views::metrics::TaskMetrics, &Option<Watched>)| {
        let Some(watched) = watched else { return Ok(None) };
        if task.throttles > 0 || task.skipped > 0 {
            return Err(format!("{}: {} throttled, {} skipped", task.name, task.throttles, task.skipped));
        }
        let [engines, tokens, donation, _] = watched.most_blocked;
        let response =
            task.max_lateness().map_or(0, |lateness| task.deadline.unwrap_or(0).saturating_add_signed(lateness));
        Ok(Some(Observed { jobs: task.jobs(), blocked: [engines, tokens, donation], response }))
    };
    metrics.tasks.iter().zip(&watch.tasks).map(observed).collect()
}

impl BlockingReport {
    fn check(&mut self, family: Family, seed: u64, number: u64, claims: Claims<'_>) -> Result<(), String> {
        let (text, longest) = draw(family, seed, number);
        let fail = |why: String| format!("{why}\n{text}");
        let manifest = parse(&text)?;
        let mut metrics = Metrics::new(&manifest.system);
        let mut watch = Watch::new(&manifest.system);
        let programs = match family {
            Family::Calls | Family::CallsAcross => calls::programs(&manifest, 0),
            _ => Vec::new(),
        };
        let run = Options { checks: Checks::Instants(64), first: First::Tasks, programs, ..Options::default() };
        // As guesses of budgets go, some periods are very long, beside others that are very short.
        let long = if matches!(family, Family::Shared | Family::Spatial | Family::Keyed) { LONG_SHARED } else { LONG };
        let limit = manifest.system.start + (20 * longest).min(long.max(3 * longest));
        let mut observe = |record: &Record| {
            metrics.observe(record);
            watch.observe(record);
        };
        system::simulate_observed(&manifest, &run, limit, &mut observe).map_err(|error| fail(error.to_string()))?;
        self.systems += 1;
        let claims = claims(&manifest);
        for (index, task) in metrics.tasks.iter().enumerate() {
            let Some(watched) = &watch.tasks[index] else { continue };
            let claim = claims[index];
            let Some(bounds) = claim.blocking else { continue };
            if task.throttles > 0 || task.skipped > 0 {
                return Err(fail(format!("{}: {} throttled, {} skipped", task.name, task.throttles, task.skipped)));
            }
            self.jobs += task.jobs();
            let violations = &mut self.violations;
            let mut violated = |what: &str, seen: i64, bound: i64| {
                let name = &task.name;
                let what = format!("{what} of {name} {seen} ns, bound {bound} ns\n{text}");
                violations.push(Wrong { seed, number, what });
            };
            // The part of that time in its own services is no blocking.
            let most_blocked = watched.most_blocked;
            let most_blocked =
                [[0; 3].as_slice(), &[claim.services + claim.served]].concat().into_iter().zip(most_blocked);
            let most_blocked: Vec<u64> = most_blocked.map(|(own, seen)| seen.saturating_sub(own)).collect();
            let bounds = bounds.map(|bound| bound + claim.boosts);
            for (on, (seen, bound)) in most_blocked.iter().copied().zip(bounds).enumerate() {
                if seen > bound {
                    violated(WAITS[on], seen.cast_signed(), bound.cast_signed());
                }
            }
            let operations = claim.operations + claim.boosts;
            if watched.most_otherwise > operations {
                violated("suspension", watched.most_otherwise.cast_signed(), operations.cast_signed());
            }
            if claim.drawn > 0 && watched.most_held > claim.drawn {
                violated("engine time", watched.most_held.cast_signed(), claim.drawn.cast_signed());
            }
            let latest = task.max_lateness().unwrap_or(i64::MIN);
            let lateness = claim.lateness;
            if let Some(bound) = lateness.filter(|bound| latest > *bound) {
                violated("lateness", latest, bound);
            }
            for (on, (seen, bound)) in most_blocked.into_iter().zip(bounds).enumerate() {
                self.blocked[on] += watched.jobs_blocked[on];
                if bound > 0 {
                    self.bounded[on] += 1;
                    tighten(&mut self.tightest[on], (seen, bound));
                }
            }
            if claim.drawn > 0 {
                self.paid += 1;
                tighten(&mut self.tightest[WAITS.len() + 1], (watched.most_held, claim.drawn));
            }
            if let Some(bound) = lateness {
                self.timely += 1;
                let response = |lateness: i64| task.deadline.unwrap_or(0).saturating_add_signed(lateness);
                tighten(&mut self.tightest[WAITS.len()], (response(latest), response(bound)));
            }
        }
        Ok(())
    }

    /// Adds the results of other systems.
    pub fn join(&mut self, other: BlockingReport) {
        self.systems += other.systems;
        self.timely += other.timely;
        self.paid += other.paid;
        self.jobs += other.jobs;
        for on in 0..WAITS.len() {
            self.bounded[on] += other.bounded[on];
            self.blocked[on] += other.blocked[on];
        }
        self.failures.extend(other.failures);
        self.violations.extend(other.violations);
        self.tightest.iter_mut().zip(other.tightest).for_each(|(most, other)| tighten(most, other));
    }

    /// The tightest observations of blocking by engines, tokens, donation and servers, of a response time, and of engine time that a
    /// budget pays for, as parts of their bounds.
    #[must_use]
    pub fn ratios(&self) -> [f64; 6] {
        self.tightest.map(|(seen, bound)| seen as f64 / bound.max(1) as f64)
    }
}

impl std::fmt::Display for BlockingReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BlockingReport { systems, bounded, timely, jobs, blocked, .. } = self;
        let ratios = self.ratios();
        writeln!(
            f,
            "{systems} systems, {jobs} jobs; {timely} tasks with a bound on lateness, tightest {:.3}",
            ratios[WAITS.len()]
        )?;
        for (on, what) in WAITS.iter().enumerate() {
            writeln!(
                f,
                "{} tasks that may be blocked by {what}, {} jobs were, at most {:.3} of the bound",
                bounded[on], blocked[on], ratios[on]
            )?;
        }
        self.failures.iter().try_for_each(|failure| writeln!(f, "failed: {failure}"))?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "violated: {violation}"))
    }
}
