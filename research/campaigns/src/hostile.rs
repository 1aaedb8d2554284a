//! Deadlines that are proved, among tasks that do anything.
//!
//! Random systems are written as manifests, and pass through everything that a system passes through: resolver, admission,
//! packer, kernel. Tasks of which admission accepts that they are `hard` do what they have declared; all others are
//! [attackers](attacker), but for drivers of devices, and servers that hard tasks call. No hard task may miss a deadline, whatever the others do, no
//! invariant of the kernel may break, and it may not panic.
//!
//! What admission refuses becomes an attacker, and the rest is tried again. What a system does is said by its manifest, a
//! seed and a number; so a violation is reported as these three, after all has been left out that it happens without.
//!
//! Not here: which tasks are proved (`fusee_manifest::admission`).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Once;

use fusee_abi::call::{HandleValue, rights};
use fusee_abi::image::{kind, release};
use fusee_abi::script::{Step, operation};
use fusee_abi::trace::{Event, Record};
use fusee_kernel_core::Planted;
use fusee_manifest::admission::{Missing, Origin, Study};
use fusee_manifest::{Manifest, ManifestErrors, PolicyName, Reason, Resolved};
use fusee_sched::time::Nanoseconds;
use fusee_simulator::metrics::Metrics;
use fusee_simulator::system;
use fusee_simulator::{Checks, First, Options, Overheads, Program};

use crate::blocking::calls;
use crate::draws::{Draws, Wrong};

pub mod attacker;
mod draft;

use attacker::{Attacker, Pace};
use draft::Draft;

//--- Public types

/// Which systems are drawn.
#[derive(Clone, Copy, Debug)]
pub struct HostileOptions {
    /// Their seed and numbers. A search for the first violation leaves that one as it is drawn; else each is made smaller.
    pub draws: Draws,
    /// The kernel they run on.
    pub kernel: Which,
}

/// Which kernel systems run on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Which {
    /// A rule that it forgets: whether that is found.
    pub planted: Option<Planted>,
    /// A condition of proofs that is taken for granted: whether that is found.
    pub granted: Option<Granted>,
    /// What its paths cost in simulations and in the analysis. If nothing is said, they cost nothing but in each eighth system. A
    /// task counts as proved if it is with these costs, too.
    pub costs: Option<(Overheads, fusee_sched_analysis::Overheads)>,
}

/// A condition of a proof that a search takes for granted where it does not hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Granted {
    /// Holds end without a wait.
    NoWaitsInside,
    /// Each release finds a place.
    Places,
    /// No task may end this one, or what works for it.
    NobodyEnds,
}

impl Granted {
    /// All of them.
    pub const ALL: [Granted; 3] = [Granted::NoWaitsInside, Granted::Places, Granted::NobodyEnds];

    fn covers(self, Missing { origin, why }: &Missing) -> bool {
        match self {
            Granted::NoWaitsInside => *origin == Origin::Counted && why.contains(" while it holds "),
            Granted::Places => *origin == Origin::Backlog,
            Granted::NobodyEnds => *origin == Origin::Others && why.contains(" may end "),
        }
    }

    /// Whether it is what makes admission refuse a system.
    fn refuses(self, reason: &Reason) -> bool {
        match (self, reason) {
            (Granted::Places, Reason::Drops { .. }) => true,
            (Granted::NoWaitsInside, Reason::NotCounted { why, .. }) => why.contains(" while it holds "),
            (Granted::NobodyEnds, Reason::NotEnforced { why, .. }) => why.contains(" may end "),
            _ => false,
        }
    }
}

impl Which {
    /// The manifest of `draft`.
    fn parse(&self, draft: &Draft) -> Result<Manifest, ManifestErrors> {
        Manifest::parse(Path::new("hostile.toml"), &self.text(draft))
    }

    /// The text of it, by which a system is built of which not all is proved where that is taken for granted.
    fn text(&self, draft: &Draft) -> String {
        let text = draft.text();
        match self.granted {
            Some(_) => text.replacen("[system]\n", "[system]\nadmission = \"warn\"\n", 1),
            None => text,
        }
    }

    /// What paths cost in the system with this number.
    fn costs_of(&self, number: u64) -> Option<(Overheads, fusee_sched_analysis::Overheads)> {
        self.costs.or((number % 8 == 5).then_some((COSTS, ANALYSED)))
    }
}

/// What paths of the kernel cost in some systems, nanoseconds: about what they do on a board,
pub const COSTS: Overheads = Overheads {
    release: 1_200,
    schedule: 1_000,
    context_switch: 400,
    call_in: 60,
    call_out: 40,
    interrupt: 300,
    interprocessor_interrupt: 500,
};
/// and the same for the analysis, which has interrupts in releases. One waits for a path on each other CPU of four at most.
pub const ANALYSED: fusee_sched_analysis::Overheads = fusee_sched_analysis::Overheads {
    schedule: Nanoseconds(1_000),
    release: Nanoseconds(1_500),
    interrupt: Nanoseconds(300),
    tick: Nanoseconds::ZERO,
    context_switch: Nanoseconds(400),
    cache_delay: Nanoseconds::ZERO,
    cache_interrupt: Nanoseconds::ZERO,
    event_latency: Nanoseconds(12_000),
    interprocessor_interrupt: Nanoseconds(500),
    call_in: Nanoseconds(60),
    call_out: Nanoseconds(40),
    lock: Nanoseconds::ZERO,
    unlock: Nanoseconds::ZERO,
    tick_period: Nanoseconds::ZERO,
};

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct HostileReport {
    /// Systems simulated.
    pub systems: u64,
    /// Systems that admission refused as a whole, and others were drawn instead of.
    pub refused: u64,
    /// Tasks that were to be proved and are not: they attack instead.
    pub rejected: u64,
    /// Proved tasks, by the policy of their cluster and their kind.
    pub proved: BTreeMap<(&'static str, Kind), u64>,
    /// Attackers.
    pub attackers: u64,
    /// Jobs that proved tasks completed.
    pub jobs: u64,
    /// Traps.
    pub traps: u64,
    /// The longest response time of a proved task and its deadline, by their ratio, in nanoseconds.
    pub tightest: (u64, u64),
    /// Systems that could not be simulated.
    pub failures: Vec<Wrong>,
    /// What must not happen.
    pub violations: Vec<Violation>,
}

/// What a proved task is like.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// Released by the clock, shares nothing.
    Periodic,
    /// Released by others, shares nothing.
    Sporadic,
    /// Uses engines, mutexes or tokens.
    Locks,
    /// Sleeps in the middle of its jobs.
    Sleeps,
    /// Calls servers, which others call, too.
    Calls,
}

/// What must not happen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// The seed and the number of the system.
    pub origin: (u64, u64),
    /// What happened.
    pub what: String,
    /// The system, with all left out that is not needed for it.
    pub manifest: String,
}

/// What happened in one system.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// The first thing that must not happen.
    wrong: Option<String>,
    jobs: u64,
    traps: u64,
    attackers: u64,
    proved: BTreeMap<(&'static str, Kind), u64>,
    tightest: (u64, u64),
}

/// Attempts to draw a system in which something is proved.
const ATTEMPTS: u64 = 40;
/// Changes of a draft, until it is admitted.
const ROUNDS: usize = 40;
/// How long a simulation is: so many of the longest period of its system,
const LONGEST: [u64; 2] = [2, 5];
/// or between them, so many of the shortest.
const SHORTEST: u64 = 40;
/// What jobs leave of their budgets where interrupts come first, nanoseconds.
const SPARE: u64 = 1_000;
/// What they leave of them for calls, where those cost something.
const CALLS: u64 = 16;

//--- Public functions

/// Draws and simulates systems on all CPUs of the host.
#[must_use]
pub fn hostile(options: &HostileOptions) -> HostileReport {
    say_which_system_panics();
    let draws = options.draws;
    let check = |report: &mut HostileReport, number: u64| {
        report.check((draws.seed, number), options.kernel, !draws.stop);
    };
    let mut report = draws.judge(&check, |report| !report.violations.is_empty(), HostileReport::join);
    report.violations.sort_by_key(|violation| violation.origin);
    report.failures.sort();
    report
}

/// Simulates the system of `manifest`, whose tasks that are not hard attack as in the system with this seed and number.
///
/// # Errors
/// It could not be simulated.
pub fn replay(manifest: &Manifest, (seed, number): (u64, u64), kernel: Which) -> Result<HostileReport, String> {
    let outcome = run(manifest, (seed, number), kernel)?;
    let mut report = HostileReport::default();
    let text = std::fs::read_to_string(&manifest.file).unwrap_or_default();
    report.add(outcome, (seed, number), || text);
    Ok(report)
}

/// The manifest of the system with this number.
///
/// # Errors
/// Nothing is proved in it.
pub fn manifest(seed: u64, number: u64) -> Result<String, String> {
    let mut ignored = HostileReport::default();
    let drawn = ignored.draw(seed, number, Which::default());
    drawn.map(|admitted| admitted.draft.text()).map_err(|why| format!("seed {seed}, number {number}: {why}"))
}

thread_local! {
    /// The seed and the number of the system that this thread is about.
    static PRESENT: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// A panic of the kernel is a violation, too: lets its message name the system.
fn say_which_system_panics() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if let Some((seed, number)) = PRESENT.get() {
                eprintln!("violated, seed {seed}, number {number}: a panic");
            }
            before(panic);
        }));
    });
}

//--- One system

impl HostileReport {
    fn check(&mut self, (seed, number): (u64, u64), kernel: Which, shrinks: bool) {
        PRESENT.set(Some((seed, number)));
        let Admitted { draft, manifest, by_grant } = match self.draw(seed, number, kernel) {
            Ok(drawn) => drawn,
            Err(what) => {
                self.failures.push(Wrong { seed, number, what });
                return;
            }
        };
        if kernel.granted.is_some() && !by_grant {
            return;
        }
        match run(&manifest, (seed, number), kernel) {
            Ok(Outcome { wrong: Some(_), .. }) if shrinks => {
                let (draft, outcome) = shrink(&draft, (seed, number), kernel);
                self.add(outcome, (seed, number), || kernel.text(&draft));
            }
            Ok(outcome) => self.add(outcome, (seed, number), || kernel.text(&draft)),
            Err(why) => self.failures.push(Wrong { seed, number, what: format!("{why}\n{}", draft.text()) }),
        }
    }

    /// The system with this number: the first attempt in which admission proves something.
    fn draw(&mut self, seed: u64, number: u64, kernel: Which) -> Result<Admitted, String> {
        let spare = match (kernel.costs_of(number), first(number, kernel)) {
            (Some((costs, _)), _) => SPARE + CALLS * costs.sum(),
            (None, First::Interrupts) => SPARE,
            // A CPU that is kicked at the end of a job looks at its budget first.
            (None, First::Tasks) => 1,
        };
        let mut last = String::new();
        for attempt in 0..ATTEMPTS {
            let all_wait = kernel.granted == Some(Granted::NoWaitsInside);
            let draft = draft::draw(seed, number, attempt, (spare, all_wait));
            match admit(draft, kernel, &mut self.rejected) {
                Ok(found) => return Ok(found),
                Err(why) => {
                    self.refused += 1;
                    last = why;
                }
            }
        }
        Err(format!("nothing is proved in {ATTEMPTS} attempts, at last because {last}"))
    }

    fn add(&mut self, outcome: Outcome, origin: (u64, u64), text: impl FnOnce() -> String) {
        self.systems += 1;
        self.jobs += outcome.jobs;
        self.traps += outcome.traps;
        self.attackers += outcome.attackers;
        outcome.proved.into_iter().for_each(|(key, count)| *self.proved.entry(key).or_default() += count);
        self.tighten(outcome.tightest);
        if let Some(what) = outcome.wrong {
            self.violations.push(Violation { origin, what, manifest: text() });
        }
    }

    fn tighten(&mut self, (response, deadline): (u64, u64)) {
        let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
        let (most, its) = self.tightest;
        if deadline > 0 && (its == 0 || product(response, its) > product(most, deadline)) {
            self.tightest = (response, deadline);
        }
    }

    /// Adds what came out of other systems.
    pub fn join(&mut self, other: HostileReport) {
        self.systems += other.systems;
        self.refused += other.refused;
        self.rejected += other.rejected;
        self.attackers += other.attackers;
        self.jobs += other.jobs;
        self.traps += other.traps;
        other.proved.into_iter().for_each(|(key, count)| *self.proved.entry(key).or_default() += count);
        self.tighten(other.tightest);
        self.failures.extend(other.failures);
        self.violations.extend(other.violations);
    }

    /// All proved tasks.
    #[must_use]
    pub fn proved_tasks(&self) -> u64 {
        self.proved.values().sum()
    }
}

/// A system that is simulated.
struct Admitted {
    draft: Draft,
    manifest: Manifest,
    /// Whether admission refuses it, for nothing but what a search takes for granted.
    by_grant: bool,
}

/// The draft as it is admitted, with fewer hard tasks if need be; or why the system is refused.
fn admit(mut draft: Draft, kernel: Which, rejected: &mut u64) -> Result<Admitted, String> {
    for _ in 0..ROUNDS {
        if !draft.wants_any() {
            return Err("no task is proved".to_owned());
        }
        let errors = match Manifest::parse(Path::new("hostile.toml"), &draft.text()) {
            Ok(manifest) => return Ok(Admitted { draft, manifest, by_grant: false }),
            Err(errors) => errors,
        };
        let is_granted = |granted: Granted| errors.0.iter().all(|error| granted.refuses(&error.reason));
        if kernel.granted.is_some_and(is_granted) {
            let manifest = kernel.parse(&draft).map_err(|errors| errors.to_string())?;
            return Ok(Admitted { draft, manifest, by_grant: true });
        }
        let changed = match &errors.0[0].reason {
            Reason::NotProved { task, .. }
            | Reason::NotCounted { task, .. }
            | Reason::NotEnforced { task, .. }
            | Reason::Drops { task, .. } => {
                *rejected += 1;
                draft.give_up(task)
            }
            Reason::LendsTooMuch { task, .. }
            | Reason::DrawsTooMuch { task, .. }
            | Reason::WaitsTooLong { task, .. } => draft.ease(task),
            Reason::Overload { cluster, .. } | Reason::Unbounded { cluster, .. } => draft.relieve(cluster),
            Reason::Overcommitted { task, .. } | Reason::TooFewTokens { task, .. } => draft.isolate(task),
            _ => false,
        };
        if !changed {
            return Err(errors.to_string());
        }
    }
    Err("it is refused again and again".to_owned())
}

/// What comes first at one instant, in the system with this number. Where calls take time it must be interrupts, as on a board:
/// else one call after the other would keep timers from firing.
fn first(number: u64, kernel: Which) -> First {
    let has_costs = kernel.costs_of(number).is_some();
    if has_costs || number.is_multiple_of(4) { First::Interrupts } else { First::Tasks }
}

/// Leaves out of `draft` what it goes wrong without; and what happens then.
fn shrink(draft: &Draft, origin: (u64, u64), kernel: Which) -> (Draft, Outcome) {
    let try_it = |draft: Draft| {
        let manifest = kernel.parse(&draft).ok()?;
        let outcome = run(&manifest, origin, kernel).ok()?;
        outcome.wrong.is_some().then_some((draft, outcome))
    };
    let mut smallest = (draft.clone(), Outcome::default());
    loop {
        let parts = smallest.0.parts();
        let smaller = parts.into_iter().find_map(|part| try_it(smallest.0.without(part)));
        match smaller.or_else(|| smallest.1.wrong.is_none().then(|| try_it(draft.clone())).flatten()) {
            Some(found) => smallest = found,
            None => return smallest,
        }
    }
}

//--- Simulation

/// Simulates one system, and judges what its hard tasks did.
fn run(manifest: &Manifest, (seed, number): (u64, u64), kernel: Which) -> Result<Outcome, String> {
    let system = &manifest.system;
    let costs = kernel.costs_of(number);
    let attackers = attackers(system, seed, number);
    let habit = |(task, attacker): &(usize, Attacker)| format!("{}: {}", system.tasks[*task].name, attacker.habits());
    let habits: Vec<String> = attackers.iter().map(habit).collect();
    let habits = habits.join(", ");
    let mut programs: Vec<(usize, Program)> =
        attackers.into_iter().map(|(task, attacker)| (task, attacker.program())).collect();
    let attackers = programs.len() as u64;
    if costs.is_none() {
        programs.extend(tempted(system, number));
    }
    // What a service makes the kernel do is part of it.
    programs.extend(calls::programs(manifest, costs.map_or(0, |(costs, _)| SPARE + CALLS * costs.sum())));
    let periods = || system.reservations.iter().map(|one| one.period).filter(|period| *period > 0);
    let (shortest, longest) = (periods().min().unwrap_or(0), periods().max().unwrap_or(0));
    let limit = system.start + (SHORTEST * shortest).clamp(LONGEST[0] * longest, LONGEST[1] * longest);
    let checks = if number.is_multiple_of(16) { Checks::Traps } else { Checks::Instants(16) };
    let overheads = costs.map_or(Overheads::NONE, |costs| costs.0);
    let options = Options {
        overheads,
        checks,
        first: first(number, kernel),
        planted: kernel.planted,
        programs,
        ..Options::default()
    };
    let mut metrics = Metrics::new(system);
    let mut watch = Watch::new(system);
    let mut observe = |record: &Record| {
        metrics.observe(record);
        watch.observe(record);
    };
    let report = match system::simulate_observed(manifest, &options, limit, &mut observe) {
        Ok(report) => report,
        Err(error @ (system::Error::Simulation(_) | system::Error::Stuck { .. })) => {
            let wrong = Some(format!("{error} ({habits})"));
            return Ok(Outcome { wrong, attackers, ..Outcome::default() });
        }
        Err(error) => return Err(error.to_string()),
    };
    let mut outcome = Outcome { traps: report.traps, attackers, ..Outcome::default() };
    let proved = proved_with(system, costs.map(|costs| costs.1), kernel.granted);
    for (index, task) in metrics.tasks.iter().enumerate() {
        let Some(reservation) = system.tasks[index].reservation.filter(|_| proved[index]) else { continue };
        let one = &system.reservations[reservation];
        let is_sporadic = one.release == release::SPORADIC;
        let uses =
            |kinds: u32| system.handles.iter().any(|handle| handle.task as usize == index && handle.kind == kinds);
        let what = match () {
            () if uses(kind::ENGINE) || uses(kind::POOL) => Kind::Locks,
            () if uses(kind::ENDPOINT) => Kind::Calls,
            () if system.suspends[index].0 > 0 => Kind::Sleeps,
            () if is_sporadic => Kind::Sporadic,
            () => Kind::Periodic,
        };
        let policy = PolicyName::from_number(system.clusters[one.cluster as usize].1.policy).unwrap_or_default();
        *outcome.proved.entry((policy.name(), what)).or_default() += 1;
        outcome.jobs += task.jobs();
        // Jobs whose deadlines have passed are over.
        let since = report.ended_at.checked_sub(system.start + one.phase + one.deadline);
        let due = since.map_or(0, |since| since.div_ceil(one.period));
        let latest = task.max_lateness().unwrap_or(i64::MIN);
        let wrong = if latest > 0 {
            Some(format!("a job is {latest} ns late"))
        } else if !is_sporadic && task.jobs() < due {
            Some(format!("{} of {due} jobs are complete, and {} were skipped", task.jobs(), task.skipped))
        } else if let Some(begun) = watch.overdue(index, report.ended_at, one.deadline) {
            Some(format!("the job that began at {begun} ns is not complete at {} ns", report.ended_at))
        } else if watch.dead[index] {
            Some("it is dead".to_owned())
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let text = format!(
                "hard task {}, {} {what:?}, deadline {} ns: {wrong} ({habits})",
                task.name,
                policy.name(),
                one.deadline
            );
            outcome.wrong = outcome.wrong.or(Some(text));
        } else if latest > i64::MIN {
            let response = one.deadline.saturating_add_signed(latest);
            let mut report = HostileReport { tightest: outcome.tightest, ..HostileReport::default() };
            report.tighten((response, one.deadline));
            outcome.tightest = report.tightest;
        }
    }
    Ok(outcome)
}

/// Which tasks are proved, with what paths of the kernel cost, and with a condition taken for granted.
fn proved_with(
    system: &Resolved,
    costs: Option<fusee_sched_analysis::Overheads>,
    granted: Option<Granted>,
) -> Vec<bool> {
    let mut proved: Vec<bool> = system.tasks.iter().map(|task| task.hard).collect();
    // Admission has proved them all.
    if costs.is_none() && granted.is_none() {
        return proved;
    }
    for cluster in 0..system.clusters.len() {
        let Ok(mut study) = Study::new(system, cluster) else { continue };
        if costs.is_some() {
            study.doubt_interrupts(system, cluster);
        }
        let found = study.analyse(&costs.unwrap_or_default());
        let is_granted = |missing: &Missing| granted.is_some_and(|granted| granted.covers(missing));
        for (at, member) in study.members.iter().enumerate() {
            proved[*member] &=
                found.as_ref().is_ok_and(|(report, blocked)| study.missing(at, report, blocked).iter().all(is_granted));
        }
    }
    proved
}

/// Hard tasks that try to wait inside their holds for whatever they can, and do what they declare. All that they try is refused.
fn tempted(system: &Resolved, number: u64) -> Vec<(usize, Program)> {
    let program = |(index, task): (usize, &fusee_manifest::Task)| {
        if !task.hard || task.sleeps_inside || (index as u64 + number).is_multiple_of(2) {
            return None;
        }
        let reservation = &system.reservations[task.reservation?];
        let own: Vec<_> = system.handles.iter().filter(|handle| handle.task as usize == index).collect();
        let value =
            |slot: u32| task.environment.iter().find(|entry| u32::from(HandleValue(entry.handle).slot()) == slot);
        let tries = own.iter().filter_map(|handle| {
            let operation = match handle.kind {
                kind::ENDPOINT if handle.rights & rights::CALL != 0 => operation::CALL,
                kind::NOTIFICATION if handle.rights & rights::WAIT != 0 => operation::WAIT,
                kind::ENGINE | kind::POOL => operation::ACQUIRE,
                _ => return None,
            };
            let handle = value(handle.slot).filter(|_| handle.rights & rights::INSIDE == 0)?.handle;
            Some(Step { operation, selector: 0, handle, value: 0 })
        });
        let sleep = Step { operation: operation::SLEEP, selector: 0, handle: 0, value: 2 * reservation.period };
        let tries: Vec<Step> = tries.chain([sleep]).collect();
        let mut steps = Vec::new();
        for step in &task.script {
            steps.push(*step);
            if step.operation == operation::ACQUIRE {
                steps.extend_from_slice(&tries);
            }
        }
        let has_tried = steps.len() > task.script.len();
        has_tried.then(|| (index, Program::Script { steps, has_jobs: true, node: None }))
    };
    system.tasks.iter().enumerate().filter_map(program).collect()
}

/// What each attacker is.
fn attackers(system: &Resolved, seed: u64, number: u64) -> Vec<(usize, Attacker)> {
    let pace = |task: usize| {
        let one = &system.reservations[system.tasks[task].reservation?];
        let pace =
            Pace { first: system.start + one.phase, period: one.period, budget: one.budget, deadline: one.deadline };
        (one.release != release::NONE).then_some(pace)
    };
    let mut all = Vec::new();
    for (index, task) in system.tasks.iter().enumerate() {
        let is_server = task.name.starts_with("server");
        if task.hard || is_server || system.devices.iter().any(|device| device.driver == index) {
            continue;
        }
        let handles = task.environment.iter().filter(|entry| entry.handle != 0 && entry.kind <= kind::POOL);
        let handles = handles.map(|entry| (entry.kind, entry.handle, entry.flags)).collect();
        let others = (0..system.tasks.len()).filter(|other| *other != index).filter_map(pace).collect();
        // The same in a smaller system.
        let name = task.name.bytes().fold(0, |sum: u64, byte| sum * 31 + u64::from(byte));
        let stream = number << 16 | name & 0xffff;
        let attacker = Attacker { seed: seed ^ 1 << 63, stream, handles, own: pace(index), others };
        all.push((index, attacker));
    }
    all
}

/// What the trace says of jobs besides [`Metrics`].
struct Watch {
    /// By task, when its job began that is not complete.
    begun: Vec<Option<u64>>,
    /// By task, whether it has ended.
    dead: Vec<bool>,
}

impl Watch {
    fn new(system: &Resolved) -> Watch {
        Watch { begun: vec![None; system.tasks.len()], dead: vec![false; system.tasks.len()] }
    }

    fn observe(&mut self, record: &Record) {
        let Some(task) = usize::from(record.thread).checked_sub(1).filter(|task| *task < self.begun.len()) else {
            return;
        };
        match Event::from_number(record.event) {
            Some(Event::Release) => self.begun[task] = Some(record.time),
            Some(Event::Complete) => self.begun[task] = None,
            Some(Event::Exit | Event::Fault) => self.dead[task] = true,
            _ => {}
        }
    }

    /// When the job of a task began that should be complete at `now`, and is not.
    fn overdue(&self, task: usize, now: u64, deadline: u64) -> Option<u64> {
        self.begun[task].filter(|begun| begun + deadline < now)
    }
}

impl std::fmt::Display for HostileReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HostileReport { systems, refused, rejected, attackers, jobs, traps, tightest, .. } = self;
        writeln!(
            f,
            "{systems} systems, {refused} were refused and drawn anew; {} proved tasks, {rejected} that were not proved; \
             {attackers} attackers, {traps} traps",
            self.proved_tasks()
        )?;
        let kinds: Vec<String> =
            self.proved.iter().map(|((policy, kind), count)| format!("{policy} {kind:?} {count}")).collect();
        writeln!(f, "proved: {}", kinds.join(", "))?;
        writeln!(
            f,
            "{jobs} jobs of proved tasks, tightest {:.4} of its deadline ({} of {} ns); {} violations",
            tightest.0 as f64 / tightest.1.max(1) as f64,
            tightest.0,
            tightest.1,
            self.violations.len()
        )?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "failed: {failure}"))?;
        for Violation { origin: (seed, number), what, manifest } in &self.violations {
            writeln!(f, "violated, seed {seed}, number {number}: {what}\n{manifest}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORGETFUL: Which = Which { planted: Some(Planted::ExhaustionRefills), granted: None, costs: None };

    fn some(systems: u64, kernel: Which) -> HostileReport {
        hostile(&HostileOptions { draws: Draws::new(7, systems), kernel })
    }

    #[test]
    fn the_same_seed_gives_the_same_report() {
        let report = some(40, FORGETFUL);
        assert_eq!(report.to_string(), some(40, FORGETFUL).to_string());
        assert_eq!((report.systems, report.failures.len()), (40, 0));
        assert!(report.proved_tasks() > 40, "{report}");
    }

    #[test]
    fn a_budget_that_never_ends_is_found_with_a_system_that_shows_it_again() {
        let report = some(40, FORGETFUL);
        assert!(report.violations.len() > 5, "{report}");
        for Violation { origin, what, manifest } in report.violations {
            let again = Manifest::parse(Path::new("again.toml"), &manifest).expect("it was admitted before");
            let report = replay(&again, origin, FORGETFUL).expect("it was simulated before");
            assert_eq!(report.violations.first().map(|violation| &violation.what), Some(&what));
        }
    }

    #[test]
    fn a_violation_needs_all_that_its_system_has() {
        let report = some(40, FORGETFUL);
        let tasks = |violation: &Violation| violation.manifest.matches("[tasks.").count();
        // A victim and an attacker, mostly.
        let few = report.violations.iter().filter(|violation| tasks(violation) == 2).count();
        assert!(2 * few >= report.violations.len(), "{report}");
    }
}
