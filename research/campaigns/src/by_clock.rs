//! Clusters that compute by the clock: the response times in their reachable states, against the whole kernel.
//!
//! Each system has a cluster of two or three CPUs with hard tasks that burn, and all that comes with it: phases, deadlines, any policy.
//! It is run twice: with jobs that take their worst times, for some hyperperiods; and with jobs that take any times. No job may be
//! later than its bound. A system that is proved meets its deadlines in both runs; and most that do are proved.
//!
//! [`beside`] draws the same with tasks that do anything, in a cluster of their own or in the background, for
//! [`hostile::replay`](crate::hostile::replay).
//!
//! Not here: the bounds (`fusee_sched_analysis::reachability`).

use std::fmt::{self, Write};
use std::path::Path;

use fusee_abi::call::Call;
use fusee_kernel_core::limits::BUDGET_MIN;
use fusee_manifest::admission::Study;
use fusee_manifest::{Manifest, PolicyName};
use fusee_sched_analysis::report::{Bound, Test};
use fusee_sched_analysis::{Cluster, Overheads};
use fusee_simulator::workload::{CPU, Deadlines, Generator, Periods, Source, TaskSet, Utilisations};
use fusee_simulator::{Checks, First, Options, Program, Reply, Request, Until, system};
use fusee_views::metrics::Metrics;

use crate::draws::{Draws, Wrong};

const MILLISECOND: u64 = 1_000_000;
/// Hyperperiods are short: 60 or 120 ms at most.
const PERIODS: [u64; 8] = [2, 3, 4, 5, 6, 8, 10, 12];
/// Hyperperiods of a run.
const CYCLES: u64 = 3;
/// Different jobs of a task in a run.
const JOBS: usize = 13;

/// A function from a system to the claims about it; or why there are none.
pub type Claiming<'a> = dyn Fn(&Manifest) -> Result<Claims, String> + Sync + 'a;

/// The claims about a system.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// For each task the longest response time, in nanoseconds, if it has a bound.
    pub responses: Vec<Option<u64>>,
    /// Whether each task is proved to meet its deadlines.
    pub is_proved: bool,
    /// Whether the tests that do not look at phases prove that, too.
    pub was_proved: bool,
    /// Whether the reachable states decide.
    pub by_states: bool,
}

impl Claims {
    /// The claims of the analysis about the first cluster of a system, as `change` has it.
    ///
    /// # Errors
    /// Why there are no claims: text, for people.
    pub fn of_changed(manifest: &Manifest, change: &dyn Fn(Cluster) -> Cluster) -> Result<Claims, String> {
        let study = |change: &dyn Fn(Cluster) -> Cluster| {
            let mut study = Study::new(&manifest.system, 0).map_err(|why| why.to_string())?;
            study.cluster = change(study.cluster);
            let (report, blocked) = study.analyse(&Overheads::default()).map_err(|why| why.to_string())?;
            let is_proved = (0..study.members.len()).all(|task| study.is_proved(task, &report, &blocked));
            Ok::<_, String>((report, is_proved))
        };
        let (report, is_proved) = study(change)?;
        let (_, was_proved) = study(&|cluster| cluster.released_by_clock(Vec::new()))?;
        let bounds = report.tasks.iter().map(|task| task.bound.as_ref());
        let by_states = bounds.clone().flatten().any(|bound| bound.test == Test::Reachability);
        let whole = |bound: &Bound| u64::try_from(bound.response.ceil().to_integer()).ok();
        let responses = bounds.map(|bound| bound.and_then(whole)).collect();
        Ok(Claims { responses, is_proved, was_proved, by_states })
    }

    /// The claims of the analysis about the first cluster of a system.
    ///
    /// # Errors
    /// Why there are no claims: text, for people.
    pub fn of(manifest: &Manifest) -> Result<Claims, String> {
        Claims::of_changed(manifest, &|cluster| cluster)
    }
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct ByClockReport {
    /// Systems simulated.
    pub systems: u64,
    /// Those without a miss in the run with worst times,
    pub schedulable: u64,
    /// those of them that are proved,
    pub proved: u64,
    /// and those that are proved without regard to phases.
    pub before: u64,
    /// Systems that the reachable states decide.
    pub by_states: u64,
    /// Jobs completed.
    pub jobs: u64,
    /// Bounds that some job reached, to a thousandth of it,
    pub reached: u64,
    /// and to the nanosecond.
    pub equal: u64,
    /// All bounds.
    pub bounds: u64,
    /// Bounds that do not hold, and proved systems that miss deadlines.
    pub violations: Vec<Wrong>,
    /// Systems that could not be simulated.
    pub failures: Vec<Wrong>,
}

/// A random system, and its text.
#[derive(Clone, Debug)]
struct Drawn {
    cpus: u64,
    set: TaskSet,
    phases: Vec<u64>,
    text: String,
}

/// Draws systems, and compares two runs of each with the claims about it.
pub fn by_clock(draws: Draws, claims: &Claiming<'_>) -> ByClockReport {
    let check = |report: &mut ByClockReport, number: u64| {
        if let Err(what) = report.check((draws.seed, number), claims) {
            report.failures.push(Wrong { seed: draws.seed, number, what });
        }
    };
    let is_wrong = |report: &ByClockReport| !report.violations.is_empty();
    let mut report = draws.judge(&check, is_wrong, ByClockReport::join);
    report.violations.sort();
    report.failures.sort();
    report
}

/// A system with a cluster by the clock, beside tasks that do anything. Jobs leave `spare` nanoseconds of their budgets.
///
/// # Errors
/// Why there is no such system: text, for people.
pub fn beside(seed: u64, number: u64, spare: u64) -> Result<Manifest, String> {
    let mut source = Source::new(seed, number);
    let mut drawn = draw(&mut source, spare)?;
    let apart = source.draw(0, 1) == 0;
    let others = source.draw(1, 3);
    for other in 0..others {
        let period = source.pick(&PERIODS);
        let _ = write!(drawn.text, "\n[tasks.x{other}]\nbinary = \"apps/anything\"\n");
        let _ = match (apart, source.draw(0, 2)) {
            (true, 0 | 1) => writeln!(drawn.text, "cluster = \"d\"\nperiod = \"{period}ms\"\nbudget = \"500us\""),
            (true, _) => writeln!(drawn.text, "cluster = \"c\"\nclass = \"background\""),
            (false, 0) => writeln!(
                drawn.text,
                "cluster = \"c\"\nclass = \"service\"\nperiod = \"{period}ms\"\nbudget = \"500us\""
            ),
            (false, _) => writeln!(drawn.text, "cluster = \"c\"\nclass = \"background\""),
        };
        if !apart {
            let receives = if other == 0 { " receive" } else { "" };
            let _ = writeln!(drawn.text, "handles.e = \"endpoint e: call send{receives}\"");
            let _ = writeln!(drawn.text, "handles.n = \"notification n: signal wait\"");
        }
    }
    if !apart {
        drawn.text.push_str("\n[endpoints.e]\nserver = \"x0\"\n\n[notifications.n]\n");
        return parse(&drawn.text);
    }
    let cpus = drawn.cpus;
    let _ = write!(drawn.text, "\n[clusters.d]\ncpus = [{cpus}]\n");
    let text = drawn.text.replace(&format!("cpus = {cpus}\n"), &format!("cpus = {}\n", cpus + 1));
    parse(&text)
}

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("by-clock.toml"), text).map_err(|errors| format!("{errors}\n{text}"))
}

/// A set of three to six tasks on two or three CPUs.
fn draw(source: &mut Source, spare: u64) -> Result<Drawn, String> {
    let cpus = source.draw(2, 3);
    let tasks = source.draw(cpus + 1, 6);
    let generator = Generator {
        utilisations: Utilisations::Unifast,
        periods: Periods::Of(PERIODS.map(|period| period * MILLISECOND).to_vec()),
        deadlines: source.pick(&[Deadlines::Implicit, Deadlines::Implicit, Deadlines::Constrained]),
        tasks: Some(tasks as usize),
        utilisation: Some(source.draw(cpus * CPU * 4 / 10, cpus * CPU * 95 / 100)),
    };
    let set = generator.generate(source).map_err(|error| error.to_string())?;
    let policy = source.pick(&PolicyName::ALL);
    let together = source.draw(0, 2) == 0;
    let ids: Vec<String> = (0..cpus).map(|cpu| cpu.to_string()).collect();
    let (ids, policy) = (ids.join(", "), policy.name());
    let mut text = format!(
        "[system]\nname = \"by-clock\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"1ms\"\nadmission = \"warn\"\n\n\
         [clusters.c]\ncpus = [{ids}]\npolicy = \"{policy}\"\n"
    );
    let mut phases = Vec::new();
    for task in &set.tasks {
        let most = task.period.min(task.deadline);
        let budget = (task.execution + spare).max(BUDGET_MIN).min(most.max(task.execution));
        // A budget that ends with the job would run dry just before the job says so.
        let burn = task.execution.min(budget.saturating_sub(spare).max(1));
        // In some sets jobs are released together.
        let phase = if together { 0 } else { source.draw(0, 2 * task.period / 100_000) * 100_000 };
        let _ = write!(
            text,
            "\n[tasks.{}]\ncluster = \"c\"\nscript = [\"burn {burn}ns\"]\nperiod = \"{}ns\"\ndeadline = \"{}ns\"\n\
             budget = \"{budget}ns\"\nwcet = \"{burn}ns\"\nphase = \"{phase}ns\"\npriority = {}\nhard = true\n",
            task.name,
            task.period,
            task.deadline,
            source.draw(1, 6)
        );
        phases.push(phase);
    }
    Ok(Drawn { cpus, set, phases, text })
}

/// A task whose jobs take any times up to `most`.
fn any_times(most: u64, source: &mut Source) -> Program {
    let next = Request::Call {
        number: Call::NextJob as u64,
        first: 0,
        second: 0,
        words: [0; 2],
        until: Until::Never,
        reply: Reply::Nobody,
    };
    let mut job = |_| [next, Request::Burn(source.draw(1, most))];
    Program::Requests { requests: (0..JOBS).flat_map(&mut job).collect(), again_from: Some(0) }
}

fn hyperperiod(set: &TaskSet) -> u64 {
    let multiple = |one: u64, other: u64| (1..).map(|times| one * times).find(|all| all % other == 0).unwrap_or(0);
    set.tasks.iter().map(|task| task.period / MILLISECOND).fold(1, multiple) * MILLISECOND
}

impl ByClockReport {
    fn check(&mut self, (seed, number): (u64, u64), claims: &Claiming<'_>) -> Result<(), String> {
        let mut source = Source::new(seed, number);
        let drawn = draw(&mut source, 1)?;
        let manifest = parse(&drawn.text)?;
        let claims = claims(&manifest)?;
        let last = drawn.phases.iter().copied().max().unwrap_or(0);
        let limit = manifest.system.start + last + CYCLES * hyperperiod(&drawn.set);
        let shorter = (0..drawn.set.tasks.len())
            .map(|task| (task, any_times(manifest.system.reservations[task].execution, &mut source)))
            .collect();
        let mut misses = false;
        for programs in [Vec::new(), shorter] {
            let is_worst = programs.is_empty();
            let first = if number.is_multiple_of(2) { First::Tasks } else { First::Interrupts };
            let options = Options { checks: Checks::Instants(64), first, programs, ..Options::default() };
            let mut metrics = Metrics::new(&manifest.system);
            let run = system::simulate_observed(&manifest, &options, limit, &mut |record| metrics.observe(record));
            run.map_err(|error| format!("{error}\n{}", drawn.text))?;
            let is_late = metrics.missed() || metrics.tasks.iter().any(|task| task.skipped > 0);
            misses |= is_late && is_worst;
            self.judge(&drawn, &metrics, &claims, (seed, number), is_worst);
        }
        self.systems += 1;
        self.schedulable += u64::from(!misses);
        self.proved += u64::from(!misses && claims.is_proved);
        self.before += u64::from(claims.was_proved);
        self.by_states += u64::from(claims.by_states);
        if claims.was_proved && !claims.is_proved {
            let what = format!("it was proved before\n{}", drawn.text);
            self.violations.push(Wrong { seed, number, what });
        }
        Ok(())
    }

    fn judge(&mut self, drawn: &Drawn, metrics: &Metrics, claims: &Claims, (seed, number): (u64, u64), is_worst: bool) {
        for ((seen, task), bound) in metrics.tasks.iter().zip(&drawn.set.tasks).zip(&claims.responses) {
            self.jobs += seen.jobs();
            let Some(latest) = seen.max_lateness() else { continue };
            let response = task.deadline.saturating_add_signed(latest);
            let is_missed = claims.is_proved && (latest > 0 || seen.skipped > 0);
            if is_missed || bound.is_some_and(|bound| response > bound) {
                let what = format!("{}: a job takes {response} ns, bound {bound:?}\n{}", task.name, drawn.text);
                self.violations.push(Wrong { seed, number, what });
            }
            if let Some(bound) = bound.filter(|_| is_worst && claims.by_states) {
                self.bounds += 1;
                self.reached += u64::from(response + bound / 1_000 >= bound);
                self.equal += u64::from(response == bound);
            }
        }
    }

    /// Merges `other`, a report on other systems: counts add up, failures and violations are appended.
    pub fn join(&mut self, other: ByClockReport) {
        self.systems += other.systems;
        self.schedulable += other.schedulable;
        self.proved += other.proved;
        self.before += other.before;
        self.by_states += other.by_states;
        self.jobs += other.jobs;
        self.reached += other.reached;
        self.equal += other.equal;
        self.bounds += other.bounds;
        self.violations.extend(other.violations);
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for ByClockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ByClockReport { systems, schedulable, proved, before, by_states, jobs, reached, bounds, .. } = self;
        writeln!(
            f,
            "{systems} systems, {by_states} decided by states; {schedulable} without a miss, {proved} of them proved, \
             {before} without regard to phases; {jobs} jobs, {reached} of {bounds} bounds reached"
        )?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "failed: {failure}"))?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "violated: {violation}"))
    }
}
