//! Bounds on blocking against what happens: many random systems with engine locks, each simulated.
//!
//! A system is partitioned, clustered or global; its engines are plain mutexes, or those of the accelerator, where jobs
//! suspend for their operations; tasks of no importance hold them, too. Each says in its manifest how often and how long
//! it holds what, so what is compared is what the manifest's analysis says.
//!
//! Of each job is observed how long it is pi-blocked while it waits for engines, by suspension-oblivious analysis, how
//! long by anything else, which must be its own operations, and how late it is.
//!
//! # Invariants
//!
//! 1. A system depends on the seed and its number only.
//! 2. No two jobs of a cluster have the same priority point: periods are drawn to the nanosecond.
//! 3. Budgets cover what jobs compute, and what they may lend.
//!
//! Not here: bounds (`sched/analysis`).

use std::fmt::Write;
use std::path::Path;

use fusee_abi::image::class;
use fusee_abi::trace::{Event, Record};
use fusee_kernel_core::limits;
use fusee_manifest::{Manifest, PolicyName, Resolved};
use fusee_sched::key::{Policy, PriorityPoint, TaskParameters};
use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sched_analysis::pi_blocking::{Pending, State, classify};

use crate::metrics::Metrics;
use crate::run::{Checks, First};
use crate::soundness::in_parallel;
use crate::system::{self, Options};
use crate::workload::Source;

//--- Public types

/// What is said of a task, nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Claim {
    /// How long a job is pi-blocked while it waits for engines, at most.
    pub blocking: Option<u64>,
    /// How long its own operations take.
    pub operations: u64,
    /// How late it is, at most.
    pub lateness: Option<i64>,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct BlockingReport {
    /// Systems simulated.
    pub systems: u64,
    /// Tasks with a bound on blocking above zero.
    pub bounded: u64,
    /// Tasks with a bound on lateness.
    pub timely: u64,
    /// Jobs completed.
    pub jobs: u64,
    /// Jobs that were pi-blocked for engines.
    pub blocked: u64,
    /// Systems that could not be simulated, or are not what they should be.
    pub failures: Vec<String>,
    /// Claims that do not hold, with their systems.
    pub violations: Vec<String>,
    /// The largest observed blocking and its bound, by their ratio.
    pub tightest: (u64, u64),
}

/// The claims on the tasks of a system, in its order; tasks without jobs have none.
pub type Claims<'a> = &'a (dyn Fn(&Manifest) -> Vec<Claim> + Sync);

/// Draws and simulates `systems` systems on all CPUs of the host, and compares what happened with `claims`.
pub fn blocking(seed: u64, systems: u64, claims: Claims<'_>) -> BlockingReport {
    let check = |report: &mut BlockingReport, number: u64| {
        if let Err(error) = report.check(seed, number, claims) {
            report.failures.push(format!("seed {seed}, number {number}: {error}"));
        }
    };
    let mut report = in_parallel(systems, &check, BlockingReport::join);
    report.violations.sort();
    report.failures.sort();
    report
}

//--- Systems

/// A request of each job of a task: an engine, how often, CPU time before and after the operation, the operation.
struct Use {
    engine: String,
    times: u64,
    cpu: u64,
    operation: u64,
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
/// Clients of the accelerator, the driver aside.
const CLIENTS: u64 = 7;

/// The manifest of the system with this number, and the longest period in it.
fn draw(seed: u64, number: u64) -> (String, u64) {
    let mut source = Source::new(seed, number);
    let cpus = source.draw(1, 4);
    let policy = source.pick(&["EDF", "FL", "EDF", "FL", "RM"]);
    let clusters = clusters(&mut source, cpus);
    let mut text = format!(
        "[system]\nname = \"s{number}\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"1ms\"\npolicy = \"{policy}\"\nadmission = \"warn\"\n"
    );
    let mut next = 0;
    for (index, size) in clusters.iter().enumerate() {
        let members: Vec<String> = (next..next + size).map(|cpu| cpu.to_string()).collect();
        next += size;
        let _ = write!(text, "\n[clusters.c{index}]\ncpus = [{}]\n", members.join(", "));
    }
    let has_device = source.draw(0, 1) == 0;
    let mut longest = 0;
    for (index, size) in clusters.iter().enumerate() {
        let has_device = has_device && index == 0;
        let engines: Vec<String> = match has_device {
            true => ["ee", "ce_in", "ce_out"].map(str::to_owned).to_vec(),
            false => (0..source.draw(1, 2)).map(|engine| format!("e{index}{engine}")).collect(),
        };
        for (number, engine) in engines.iter().enumerate() {
            let order = source.pick(&["fifo", "priority"]);
            let device = if has_device {
                format!("device = \"gpu\"\nindex = {number}\ninterrupt = \"gpu\"\n")
            } else {
                String::new()
            };
            let _ = write!(text, "\n[engines.{engine}]\norder = \"{order}\"\n{device}");
        }
        longest = tasks(&mut source, &mut text, (index, *size), &engines, has_device).max(longest);
    }
    if has_device {
        text += DEVICE;
    }
    (text, longest)
}

/// Sizes of clusters: one, one for each CPU, or something between.
fn clusters(source: &mut Source, cpus: u64) -> Vec<u64> {
    let most = source.pick(&[1, 3, cpus]);
    let (mut sizes, mut left) = (Vec::new(), cpus);
    while left > 0 {
        let size = if most == cpus { left } else { source.draw(1, most.min(left)) };
        sizes.push(size);
        left -= size;
    }
    sizes
}

const DEVICE: &str = "
[tasks.gpu]
binary = \"gpu-driver/gpu-driver\"
cluster = \"c0\"
class = \"service\"
period = \"10ms\"
budget = \"5ms\"

[tasks.gpu.handles]
line = \"interrupt gpu: acknowledge\"
event = \"notification gpu_event: wait\"
tables = \"region tables: read write physical\"

[notifications.gpu_event]

[interrupts.gpu]
line = 112
notification = \"gpu_event\"
cluster = \"c0\"
edge = true

[devices.gpu]
driver = \"gpu\"
firmware = \"engine-core\"
memory = \"64KiB\"

[regions.tables]
bytes = \"16KiB\"
";

/// Writes the tasks of a cluster of `size` CPUs; returns the longest period.
fn tasks(
    source: &mut Source,
    text: &mut String,
    (cluster, size): (usize, u64),
    engines: &[String],
    has_device: bool,
) -> u64 {
    let count = source.draw(2, (size * 2 + 2).min(CLIENTS - 1));
    let idlers = source.draw(0, 1);
    let heavy = source.draw(1, 3);
    let uses: Vec<Vec<Use>> = (0..count + idlers).map(|_| draw_uses(source, engines, has_device, heavy)).collect();
    let mut longest = 0;
    for (index, own) in uses.iter().enumerate() {
        let is_idler = index as u64 >= count;
        let name = if is_idler { format!("idler{cluster}") } else { format!("t{cluster}_{index}") };
        let mut requests: Vec<&Use> =
            own.iter().flat_map(|one| (0..if is_idler { 1 } else { one.times }).map(move |_| one)).collect();
        for last in (1..requests.len()).rev() {
            requests.swap(last, source.draw(0, last as u64) as usize);
        }
        let mut script = Vec::new();
        let mut computed = 0;
        let mut burn = |script: &mut Vec<String>, span: u64| {
            computed += span;
            script.push(format!("\"burn {span}ns\""));
        };
        for request in requests {
            burn(&mut script, source.draw(1, 400 * MICROSECOND));
            // The CPU time of a hold lies before and after its operation; now and then it is less than was said.
            let cpu = if source.draw(0, 3) == 0 { source.draw(2, request.cpu) } else { request.cpu };
            let before = source.draw(1, cpu - 1);
            let engine = &request.engine;
            script.push(format!("\"acquire {engine}\""));
            burn(&mut script, before);
            if request.operation > 0 {
                script.push(format!("\"submit {engine} {}ns gpu_done\"", request.operation));
            }
            burn(&mut script, cpu - before);
            script.push(format!("\"release {engine}\""));
        }
        burn(&mut script, source.draw(1, 2 * MILLISECOND));
        let _ = write!(text, "\n[tasks.{name}]\ncluster = \"c{cluster}\"\n");
        if is_idler {
            let _ = write!(text, "class = \"background\"\nscript = [{}, \"repeat\"]\n", script.join(", "));
        } else {
            // For each request a hold of each other task, by whatever order.
            let others = |engine: &str| {
                let all = uses.iter().enumerate().filter(|(other, _)| *other != index).flat_map(|(_, uses)| uses);
                all.filter(|other| other.engine == engine).map(|other| other.cpu).sum::<u64>()
            };
            let lends: u64 = own.iter().map(|one| one.times * others(&one.engine)).sum();
            let budget = (computed + lends + MICROSECOND).max(limits::BUDGET_MIN);
            let operations: u64 = own.iter().map(|one| one.times * one.operation).sum();
            let period = (budget + operations) * source.draw(2, 12) + source.draw(0, MILLISECOND);
            longest = longest.max(period);
            let deadline = if source.draw(0, 1) == 0 { period } else { source.draw(budget.max(period / 2), period) };
            let phase = if source.draw(0, 1) == 0 { 0 } else { source.draw(0, period) };
            let _ = write!(
                text,
                "script = [{}]\nperiod = \"{period}ns\"\ndeadline = \"{deadline}ns\"\nbudget = \"{budget}ns\"\nwcet = \"{computed}ns\"\nphase = \"{phase}ns\"\nbacklog = 255\n",
                script.join(", ")
            );
        }
        for one in own {
            let Use { engine, times, cpu, operation } = one;
            let times = if is_idler { String::new() } else { format!("times = {times}, ") };
            let operation = if *operation > 0 { format!(", operation = \"{operation}ns\"") } else { String::new() };
            let _ = write!(
                text,
                "handles.{engine} = \"engine {engine}: acquire\"\nuses.{engine} = {{ {times}cpu = \"{cpu}ns\"{operation} }}\n"
            );
        }
    }
    longest
}

fn draw_uses(source: &mut Source, engines: &[String], has_device: bool, heavy: u64) -> Vec<Use> {
    let used: Vec<&String> = engines.iter().filter(|_| source.draw(0, 3) > 0).collect();
    let one = |engine: &&String| Use {
        engine: (*engine).clone(),
        times: source.draw(1, 2),
        cpu: source.draw(4, heavy * 500 * MICROSECOND),
        operation: if has_device { source.draw(50 * MICROSECOND, heavy * MILLISECOND) } else { 0 },
    };
    used.iter().map(one).collect()
}

//--- What happens

/// One task with jobs.
struct Watched {
    cluster: usize,
    point: PriorityPoint,
    first: u64,
    period: u64,
    /// The priority point of its pending job.
    pending: Option<u64>,
    state: State,
    waits: bool,
    /// Of this job: pi-blocked while it waits for an engine, and otherwise.
    blocked: u64,
    otherwise: u64,
    /// The largest of all jobs.
    most_blocked: u64,
    most_otherwise: u64,
    jobs_blocked: u64,
}

/// Watches how jobs are pi-blocked, record by record.
struct Watch {
    /// By thread; those without jobs are not watched.
    tasks: Vec<Option<Watched>>,
    cpus: Vec<usize>,
    now: u64,
}

impl Watch {
    fn new(system: &Resolved) -> Watch {
        let cpus: Vec<usize> = system.clusters.iter().map(|(_, record)| record.cpus.count_ones() as usize).collect();
        let watched = |task: &fusee_manifest::Task| {
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
                state: State::Ready,
                waits: false,
                blocked: 0,
                otherwise: 0,
                most_blocked: 0,
                most_otherwise: 0,
                jobs_blocked: 0,
            })
        };
        Watch { tasks: system.tasks.iter().map(watched).collect(), cpus, now: 0 }
    }

    fn observe(&mut self, record: &Record) {
        self.pass(record.time);
        let Some(event) = Event::from_number(record.event) else { return };
        let Some(index) = usize::from(record.thread).checked_sub(1) else { return };
        let Some(Some(task)) = self.tasks.get_mut(index) else { return };
        match event {
            Event::Release => {
                let release = task.first + (u64::from(record.job) - 1) * task.period;
                task.pending = Some(task.point.of_job(Instant(release)).0);
                (task.blocked, task.otherwise) = (0, 0);
            }
            Event::Complete => {
                task.pending = None;
                task.most_blocked = task.most_blocked.max(task.blocked);
                task.most_otherwise = task.most_otherwise.max(task.otherwise);
                task.jobs_blocked += u64::from(task.blocked > 0);
            }
            Event::SwitchTo => task.state = State::Scheduled,
            Event::SwitchAway if task.state == State::Scheduled => task.state = State::Ready,
            Event::Block => task.state = State::Suspended,
            Event::Resume => task.state = State::Ready,
            Event::EngineRequest => task.waits = true,
            Event::EngineGrant => task.waits = false,
            _ => {}
        }
    }

    /// Charges the time until `now` to those who are blocked in it.
    fn pass(&mut self, now: u64) {
        let span = now - self.now;
        if span == 0 {
            return;
        }
        self.now = now;
        for (cluster, cpus) in self.cpus.iter().enumerate() {
            let mut all: Vec<&mut Watched> = self.tasks.iter_mut().flatten().collect();
            all.retain(|task| task.cluster == cluster && task.pending.is_some());
            let pending: Vec<Pending<u64>> =
                all.iter().map(|task| Pending { key: task.pending.unwrap_or(0), state: task.state }).collect();
            for (task, blocking) in all.iter_mut().zip(classify(*cpus, &pending)) {
                let to = if task.waits { &mut task.blocked } else { &mut task.otherwise };
                *to += if blocking.oblivious { span } else { 0 };
            }
        }
    }
}

impl BlockingReport {
    fn check(&mut self, seed: u64, number: u64, claims: Claims<'_>) -> Result<(), String> {
        let (text, longest) = draw(seed, number);
        let fail = |why: String| format!("{why}\n{text}");
        let manifest = Manifest::parse(Path::new("random.toml"), &text).map_err(|error| fail(error.to_string()))?;
        let mut metrics = Metrics::new(&manifest.system);
        let mut watch = Watch::new(&manifest.system);
        let run = Options { checks: Checks::Instants(64), first: First::Tasks, ..Options::default() };
        let limit = manifest.system.start + 20 * longest;
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
            if task.throttles > 0 || task.skipped > 0 {
                return Err(fail(format!("{}: {} throttled, {} skipped", task.name, task.throttles, task.skipped)));
            }
            self.jobs += task.jobs();
            self.blocked += watched.jobs_blocked;
            let mut violated = |what: &str, seen: i64, bound: i64| {
                let name = &task.name;
                self.violations.push(format!(
                    "seed {seed}, number {number}: {what} of {name} {seen} ns, bound {bound} ns\n{text}"
                ));
            };
            if let Some(bound) = claim.blocking {
                if watched.most_blocked > bound {
                    violated("blocking", watched.most_blocked.cast_signed(), bound.cast_signed());
                }
                if watched.most_otherwise > claim.operations {
                    violated("suspension", watched.most_otherwise.cast_signed(), claim.operations.cast_signed());
                }
            }
            let latest = task.max_lateness().unwrap_or(i64::MIN);
            if let Some(bound) = claim.lateness.filter(|bound| latest > *bound) {
                violated("lateness", latest, bound);
            }
            if let Some(bound) = claim.blocking.filter(|bound| *bound > 0) {
                self.bounded += 1;
                self.tighten((watched.most_blocked, bound));
            }
            self.timely += u64::from(claim.lateness.is_some());
        }
        Ok(())
    }

    fn tighten(&mut self, (seen, bound): (u64, u64)) {
        let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
        let (most, its) = self.tightest;
        if its == 0 || product(seen, its) > product(most, bound) {
            self.tightest = (seen, bound);
        }
    }

    fn join(&mut self, other: BlockingReport) {
        self.systems += other.systems;
        self.bounded += other.bounded;
        self.timely += other.timely;
        self.jobs += other.jobs;
        self.blocked += other.blocked;
        self.failures.extend(other.failures);
        self.violations.extend(other.violations);
        if other.tightest.1 > 0 {
            self.tighten(other.tightest);
        }
    }

    /// The tightest observation, as a part of its bound.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.tightest.0 as f64 / self.tightest.1.max(1) as f64
    }
}

impl std::fmt::Display for BlockingReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BlockingReport { systems, bounded, timely, jobs, blocked, .. } = self;
        writeln!(
            f,
            "{systems} systems, {bounded} tasks that may be blocked, {timely} with a bound on lateness, {jobs} jobs, \
             {blocked} of them blocked, at most {:.3} of the bound",
            self.ratio()
        )?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "failed: {failure}"))?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "violated: {violation}"))
    }
}
