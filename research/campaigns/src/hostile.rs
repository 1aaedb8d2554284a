//! Deadlines that are proved, among tasks that do anything.
//!
//! Random systems are written as manifests, and pass through everything that a system passes through: resolver, admission,
//! packer, kernel. Tasks of which admission accepts that they are `hard` do what they have declared; all others are
//! [attackers](attacker), but for drivers of devices, and servers that hard tasks call. No hard task may miss a deadline, for all acts of the others, no
//! invariant of the kernel may break, and it may not panic.
//!
//! A system begins as a draft (`draft`): tasks with jobs, and the objects that they share. To its tables come `themes`, which make tasks nodes of graphs, or let them have further lives,
//! and `extras`, which are any keys at all. A task that admission refuses becomes an attacker, or is taken out, and the rest is tried again; some systems are built with
//! `admission = "warn"`, and then tasks count as proved of which `analyze` says so. [Coverage] says which keys were drawn in this way.
//!
//! A manifest, a seed and a number say all that a system does; so a violation is reported as these three, after all has been left out that
//! [the same fault](Fault) shows without.
//!
//! Not here: which tasks are proved (`fusee_manifest::admission`).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic;
use std::path::Path;
use std::sync::Once;

use fusee_abi::image::{Reservation, class};
use fusee_abi::script::{Step, operation};
use fusee_kernel_core::Planted;
use fusee_manifest::admission::{Missing, Origin};
use fusee_manifest::{Manifest, ManifestErrors, PackOptions, Reason, Resolved};
use fusee_sched::time::Nanoseconds;
use fusee_simulator::workload::Source;
use fusee_simulator::{First, Overheads};
use toml::Table;

use crate::draws::{Draws, Wrong};

pub mod attacker;
mod coverage;
mod draft;
mod extras;
mod search;
mod shrink;
mod simulation;
mod themes;
mod tree;

pub use coverage::{Coverage, PAIRS};
use draft::Draft;
pub use search::search;
use simulation::{proved, run, run_or_panic};

//--- Public types

/// Which systems are drawn.
#[derive(Clone, Copy, Debug)]
pub struct HostileOptions {
    /// Their seed and numbers. A search for the first violation leaves that one as it is drawn; else each is made smaller.
    pub draws: Draws,
    /// The kernel they run on.
    pub kernel: Which,
    /// Whether keys are counted.
    pub covers: bool,
}

/// Which kernel systems run on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Which {
    /// A rule that it forgets: whether that is found.
    pub planted: Option<Planted>,
    /// A condition of proofs that is taken for granted: whether that is found.
    pub granted: Option<Granted>,
    /// Costs of its paths in simulations and in the analysis. If nothing is said, they cost nothing but in each eighth system. A
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
    /// No task may end this one, or a server or driver of it.
    NobodyEnds,
    /// Readers of an object give its frames back.
    FramesComeBack,
    /// Holders give their locks back in the time that they declare.
    HoldersKeepWord,
    /// Tasks of other clusters that use the pool keep their word.
    PoolsArePrivate,
    /// A supervisor has time for all that begins again.
    SupervisorsHaveTime,
    /// Steps are within the declarations.
    StepsFit,
    /// The lock of an engine keeps others from it.
    LocksAreManaged,
    /// Bounds are not later than deadlines.
    BoundsFit,
}

impl Granted {
    /// All of them.
    pub const ALL: [Granted; 10] = [
        Granted::NoWaitsInside,
        Granted::Places,
        Granted::NobodyEnds,
        Granted::FramesComeBack,
        Granted::HoldersKeepWord,
        Granted::PoolsArePrivate,
        Granted::SupervisorsHaveTime,
        Granted::StepsFit,
        Granted::LocksAreManaged,
        Granted::BoundsFit,
    ];

    /// Parts of the words in which the condition is missing. A condition of an origin has all the words that there are.
    const fn words(self) -> &'static [&'static str] {
        match self {
            Granted::NoWaitsInside => &[" while it holds "],
            Granted::Places => &["releases may queue"],
            Granted::NobodyEnds => &[" may end "],
            Granted::FramesComeBack => &[" may keep "],
            Granted::HoldersKeepWord => &[" for longer than it says"],
            Granted::PoolsArePrivate => &["clusters share pool "],
            Granted::SupervisorsHaveTime => &["`start_within`"],
            Granted::StepsFit => &[" says ", ", and its "],
            Granted::LocksAreManaged => &[" keeps nobody from it"],
            Granted::BoundsFit => &["its bound is later", "some run misses its deadline"],
        }
    }

    fn is_in(self, why: &str) -> bool {
        self.words().iter().any(|words| why.contains(words))
    }

    fn covers(self, Missing { origin, why }: &Missing) -> bool {
        match self {
            Granted::Places => *origin == Origin::Backlog,
            _ => self.is_in(why),
        }
    }

    /// Whether admission refuses a system for the lack of it.
    fn refuses(self, reason: &Reason) -> bool {
        match reason {
            Reason::Drops { .. } => self == Granted::Places,
            Reason::NotProved { .. } | Reason::NotCounted { .. } | Reason::NotEnforced { .. } => {
                self.is_in(&reason.to_string())
            }
            _ => false,
        }
    }
}

impl Which {
    /// Their costs as the analysis has them.
    fn analysed(&self, number: u64) -> Option<fusee_sched_analysis::Overheads> {
        self.costs_of(number).map(|costs| costs.1)
    }

    /// The costs of paths in systems of the manifest with this number.
    fn costs_of(&self, number: u64) -> Option<(Overheads, fusee_sched_analysis::Overheads)> {
        self.costs.or((number % 8 == 5).then_some((COSTS, ANALYSED)))
    }
}

/// Costs of the kernel's paths in some systems, nanoseconds: about those on a board,
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

/// The results.
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
    /// Systems with `admission = "warn"`, of which not all is proved.
    pub warned: u64,
    /// Systems in which no time passes from some instant on, of which nothing is judged.
    pub stuck: u64,
    /// Attackers.
    pub attackers: u64,
    /// Jobs that proved tasks completed.
    pub jobs: u64,
    /// Traps.
    pub traps: u64,
    /// The longest response time of a proved task and its deadline, by their ratio, in nanoseconds.
    pub tightest: (u64, u64),
    /// Conditions for whose lack alone admission refused a system.
    lacking: Vec<Granted>,
    /// Systems that could not be simulated.
    pub failures: Vec<Wrong>,
    /// Violations of a rule.
    pub violations: Vec<Violation>,
    /// Keys, if they are counted.
    pub coverage: Option<Coverage>,
}

/// The kind of a proved task.
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

/// A rule that was violated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// The seed and the number of the system.
    pub origin: (u64, u64),
    /// The fault, with its task.
    pub fault: Fault,
    /// The fault in words.
    pub what: String,
    /// The system, with all left out that is not needed for it.
    pub manifest: String,
}

/// A fault, as far as it is the same in a smaller system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// A job of this task is late,
    Late(String),
    /// or jobs of it are missing,
    Missing(String),
    /// or one does not end,
    Endless(String),
    /// or it is dead.
    Dead(String),
    /// The kernel refuses the system, or one of its invariants does not hold: in words without numbers.
    Kernel(String),
    /// The kernel, or a tool, panics.
    Panics,
}

/// The results of one system.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// The first thing that must not happen.
    wrong: Option<(Fault, String)>,
    jobs: u64,
    traps: u64,
    attackers: u64,
    is_warned: bool,
    /// Nothing is judged: no time passes.
    is_stuck: bool,
    proved: BTreeMap<(&'static str, Kind), u64>,
    tightest: (u64, u64),
}

/// Systems of one manifest, in each of which the tasks that are not proved do something else.
const BEHAVIOURS: u64 = 4;
/// Attempts to draw a system in which something is proved.
const ATTEMPTS: u64 = 60;
/// Changes of a system, until it is admitted.
const ROUNDS: usize = 40;
/// How often one after the other the same is asked for, before it is given up.
const IN_VAIN: usize = 12;
/// One system of so many is built though not all of it is proved.
const WARNED: u64 = 6;
/// When a simulation begins at the latest, and the longest period in one, nanoseconds: a longer one takes a host too long.
const LATEST: u64 = 50_000_000;
const LONGEST_PERIOD: u64 = 500_000_000;
/// CPU time that a script which begins again computes at least in between, nanoseconds.
const ROUND: u64 = 10_000;
/// Parts of their budgets that jobs leave where interrupts come first, nanoseconds.
const SPARE: u64 = 1_000;
/// Parts that they leave for calls, where those cost something.
const CALLS: u64 = 16;

//--- Public functions

/// Draws and simulates systems on all CPUs of the host.
#[must_use]
pub fn hostile(options: &HostileOptions) -> HostileReport {
    say_which_system_panics();
    let draws = options.draws;
    let numbers = draws.first..draws.first + draws.count;
    let groups = draws.first / BEHAVIOURS..numbers.end.div_ceil(BEHAVIOURS);
    let check = |report: &mut HostileReport, group: u64| {
        if options.covers && report.coverage.is_none() {
            report.coverage = Some(Coverage::default());
        }
        let first = group * BEHAVIOURS;
        let numbers = first.max(numbers.start)..(first + BEHAVIOURS).min(numbers.end);
        report.check(draws.seed, numbers, options.kernel, !draws.stop);
    };
    let groups = Draws { first: groups.start, count: groups.end - groups.start, ..draws };
    let mut report = groups.judge(&check, |report| !report.violations.is_empty(), HostileReport::join);
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
    let found = ignored.find((seed, number / BEHAVIOURS), Which::default());
    found.map(|admitted| admitted.manifest.text).map_err(|why| format!("seed {seed}, number {number}: {why}"))
}

thread_local! {
    /// The seed and the number of the system that this thread is about.
    static PRESENT: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// A panic of the kernel is a violation, too: lets its message name the system.
fn say_which_system_panics() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if let Some((seed, number)) = PRESENT.get() {
                eprintln!("violated, seed {seed}, number {number}: a panic");
            }
            before(panic);
        }));
    });
}

//--- One system

impl HostileReport {
    /// Simulates the systems with these numbers, which have one manifest, until one shows a fault.
    fn check(&mut self, seed: u64, numbers: Range<u64>, kernel: Which, shrinks: bool) {
        PRESENT.set(Some((seed, numbers.start)));
        let failed = |number: u64, what: String| Wrong { seed, number, what };
        let found = match self.find((seed, numbers.start / BEHAVIOURS), kernel) {
            Ok(found) if kernel.granted.is_some() && !found.by_grant => return,
            Ok(found) => found,
            Err(what) => return self.failures.push(failed(numbers.start, what)),
        };
        let mut is_covered = false;
        for number in numbers {
            PRESENT.set(Some((seed, number)));
            let outcome = match run_or_panic(&found.manifest, (seed, number), kernel) {
                Ok(outcome) => outcome,
                Err(what) => return self.failures.push(failed(number, what)),
            };
            if let Some(coverage) = self.coverage.as_mut().filter(|_| !is_covered && !outcome.proved.is_empty()) {
                coverage.prove(&tree::parse(&found.manifest.text));
                is_covered = true;
            }
            match &outcome.wrong {
                Some((fault, _)) if shrinks => {
                    let (text, outcome) = shrunk(&found.tree, fault, (seed, number), kernel);
                    return self.add(outcome, (seed, number), || text);
                }
                Some(_) => return self.add(outcome, (seed, number), || found.manifest.text),
                None => self.add(outcome, (seed, number), String::new),
            }
        }
    }

    /// The manifest with this number: the first attempt in which something is proved.
    fn find(&mut self, (seed, number): (u64, u64), kernel: Which) -> Result<Admitted, String> {
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
            let mut tree = tree::parse(&draft.text());
            let source = &mut Source::new(!seed ^ attempt << 48, number);
            themes::add(&mut tree, source);
            // Searches for planted faults have no such systems: they would come later to those that show these faults.
            if kernel.planted.is_none() && kernel.granted.is_none() {
                themes::add_ends(&mut tree, (seed, number, attempt), spare);
            }
            if kernel.granted == Some(Granted::SupervisorsHaveTime) {
                themes::lives::add(&mut tree, source);
            }
            extras::add(&mut tree, &coverage::KEYS, source);
            if let Some(coverage) = &mut self.coverage {
                coverage.draw(&tree);
            }
            let patience = source.draw(0, 12) as usize;
            let warns_from = (source.draw(1, WARNED) == 1).then_some(patience);
            match self.admit(&draft, tree, (number, kernel), (warns_from, spare)) {
                Ok(found) => return Ok(found),
                Err(why) => {
                    self.refused += 1;
                    last = why;
                }
            }
        }
        Err(format!("nothing is proved in {ATTEMPTS} attempts, at last because {last}"))
    }

    /// The system as it is admitted, with fewer hard tasks and without senseless keys, if need be; or why it is refused as a whole.
    fn admit(
        &mut self,
        draft: &Draft,
        mut tree: Table,
        (number, kernel): (u64, Which),
        (mut warns_from, spare): (Option<usize>, u64),
    ) -> Result<Admitted, String> {
        let (mut last, mut vain) = (String::new(), 0);
        for round in 0..ROUNDS {
            if warns_from.is_some_and(|from| round >= from) {
                warn(&mut tree);
            }
            let whole = tree::keeping_word(&tree);
            let text = tree::text(&whole);
            let errors = match parse(&text) {
                Ok(manifest) => match runs(&manifest) {
                    Ok(()) if proved(&manifest.system, kernel.analysed(number), None).contains(&true) => {
                        return Ok(Admitted { tree, manifest, by_grant: false });
                    }
                    Ok(()) if !manifest.system.warnings.is_empty() => {
                        warns_from = None;
                        _ = tree::remove(&mut tree, &ADMISSION.map(str::to_owned));
                        continue;
                    }
                    Ok(()) => return Err("no task is proved".to_owned()),
                    Err(why) => return Err(why),
                },
                Err(errors) => errors,
            };
            let is_granted = |granted: &Granted| errors.0.iter().all(|error| granted.refuses(&error.reason));
            self.lacking.extend(Granted::ALL.iter().filter(|granted| is_granted(granted)));
            if kernel.granted.as_ref().is_some_and(is_granted) {
                warn(&mut tree);
                let manifest = parse(&tree::text(&tree::keeping_word(&tree))).map_err(|errors| errors.to_string())?;
                runs(&manifest)?;
                return Ok(Admitted { tree, manifest, by_grant: true });
            }
            // Lines that are heeded in vain are taken out.
            let words: String =
                errors.0[0].reason.to_string().chars().filter(|letter| !letter.is_ascii_digit()).collect();
            vain = if words == last { vain + 1 } else { 0 };
            let is_doubt = |reason: &Reason| {
                matches!(
                    reason,
                    Reason::NotProved { .. }
                        | Reason::NotCounted { .. }
                        | Reason::NotEnforced { .. }
                        | Reason::Drops { .. }
                )
            };
            let first = &errors.0[0];
            self.rejected += u64::from(is_doubt(&first.reason));
            let lines = errors.0.iter().map(|error| error.line);
            let heeds = vain < IN_VAIN && tree::heed(&mut tree, draft, &first.reason, spare);
            if !heeds && !tree::remove_lines(&mut tree, &text, lines) {
                return Err(errors.to_string());
            }
            // A task of whose numbers others do not depend is changed with the first.
            let is_alone = |reason: &&Reason| {
                matches!(
                    reason,
                    Reason::NotCounted { .. }
                        | Reason::NotEnforced { .. }
                        | Reason::Drops { .. }
                        | Reason::LendsTooMuch { .. }
                        | Reason::DrawsTooMuch { .. }
                )
            };
            if heeds {
                let others = errors.0[1..].iter().map(|error| &error.reason).filter(is_alone);
                others.for_each(|reason| _ = tree::heed(&mut tree, draft, reason, spare));
            }
            last = words;
        }
        Err(format!("it is refused again and again, at last because {last}"))
    }

    fn add(&mut self, outcome: Outcome, origin: (u64, u64), text: impl FnOnce() -> String) {
        self.systems += 1;
        self.jobs += outcome.jobs;
        self.traps += outcome.traps;
        self.attackers += outcome.attackers;
        outcome.proved.into_iter().for_each(|(key, count)| *self.proved.entry(key).or_default() += count);
        self.tighten(outcome.tightest);
        self.warned += u64::from(outcome.is_warned);
        self.stuck += u64::from(outcome.is_stuck);
        if let Some((fault, what)) = outcome.wrong {
            self.violations.push(Violation { origin, fault, what, manifest: text() });
        }
    }

    fn tighten(&mut self, (response, deadline): (u64, u64)) {
        let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
        let (most, its) = self.tightest;
        if deadline > 0 && (its == 0 || product(response, its) > product(most, deadline)) {
            self.tightest = (response, deadline);
        }
    }

    /// Adds the results of other systems.
    pub fn join(&mut self, other: HostileReport) {
        self.systems += other.systems;
        self.refused += other.refused;
        self.rejected += other.rejected;
        self.warned += other.warned;
        self.stuck += other.stuck;
        self.attackers += other.attackers;
        self.jobs += other.jobs;
        self.traps += other.traps;
        other.proved.into_iter().for_each(|(key, count)| *self.proved.entry(key).or_default() += count);
        self.tighten(other.tightest);
        self.failures.extend(other.failures);
        self.violations.extend(other.violations);
        match (&mut self.coverage, other.coverage) {
            (Some(coverage), Some(other)) => coverage.join(&other),
            (coverage @ None, other) => *coverage = other,
            (Some(_), None) => {}
        }
    }

    /// Whether admission refused a system for the lack of this condition alone.
    fn is_lacking(&self, granted: Granted) -> bool {
        self.lacking.contains(&granted)
    }

    /// All proved tasks.
    #[must_use]
    pub fn proved_tasks(&self) -> u64 {
        self.proved.values().sum()
    }
}

/// A system that is simulated.
struct Admitted {
    tree: Table,
    manifest: Manifest,
    /// Whether admission refuses it, for nothing but the condition that a search takes for granted.
    by_grant: bool,
}

/// The key by which a manifest is built though not all of it is proved.
const ADMISSION: [&str; 2] = ["system", "admission"];

/// Lets a system be built though not all of it is proved.
fn warn(tree: &mut Table) {
    let [system, admission] = ADMISSION;
    if let Some(system) = tree::table(tree, &[system.to_owned()]) {
        system.insert(admission.to_owned(), "warn".into());
    }
}

fn parse(text: &str) -> Result<Manifest, ManifestErrors> {
    Manifest::parse(Path::new("hostile.toml"), text)
}

/// The reservations of tasks with jobs.
fn jobs(system: &Resolved) -> impl Iterator<Item = &Reservation> {
    system.reservations.iter().filter(|one| one.class == class::REAL_TIME)
}

/// Whether a system fits into the memory of its board, and is short enough to be simulated.
fn runs(manifest: &Manifest) -> Result<(), String> {
    let system = &manifest.system;
    let longest = jobs(system).map(|one| one.period.max(one.phase)).max().unwrap_or(0);
    let burns = |step: &Step| if step.operation == operation::BURN { step.value } else { 0 };
    let rounds = |steps: &[Step]| {
        let end = steps.iter().position(|step| step.operation == operation::REPEAT)?;
        Some(steps[..end].iter().map(burns).fold(0, u64::saturating_add))
    };
    let turns = system.tasks.iter().flat_map(|task| [rounds(&task.script), rounds(&task.model)]).flatten();
    if system.start > LATEST || longest > LONGEST_PERIOD || turns.min().is_some_and(|round| round < ROUND) {
        return Err("it takes too long".to_owned());
    }
    let packed = manifest.pack_tables(PackOptions { cpu_stride: 1, managed: None });
    packed.map(drop).map_err(|error| error.to_string())
}

/// The first actors of an instant, tasks or interrupts, in the system with this number. Where calls take time it must be interrupts, as on a board:
/// else one call after the other would keep timers from firing.
fn first(number: u64, kernel: Which) -> First {
    let has_costs = kernel.costs_of(number).is_some();
    if has_costs || number.is_multiple_of(4) { First::Interrupts } else { First::Tasks }
}

/// Leaves out of `tree` all parts without which the fault stays; and the results of the rest.
fn shrunk(tree: &Table, fault: &Fault, origin: (u64, u64), kernel: Which) -> (String, Outcome) {
    let mut last = Outcome::default();
    let mut shows = |mut tree: Table| {
        for _ in 0..ROUNDS {
            let whole = tree::keeping_word(&tree);
            let text = tree::text(&whole);
            match parse(&text) {
                Ok(manifest) => {
                    runs(&manifest).ok()?;
                    let outcome = run_or_panic(&manifest, origin, kernel).ok()?;
                    let is_same = outcome.wrong.as_ref().is_some_and(|(other, _)| other == fault);
                    return is_same.then(|| {
                        last = outcome;
                        tree
                    });
                }
                Err(errors) => {
                    let lines = errors.0.iter().map(|error| error.line);
                    if !tree::remove_lines(&mut tree, &text, lines) {
                        return None;
                    }
                }
            }
        }
        None
    };
    let least = shrink::shrink(tree, &mut shows);
    // Once more, for its results.
    _ = shows(least.clone());
    (tree::text(&tree::keeping_word(&least)), last)
}

impl std::fmt::Display for HostileReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HostileReport { systems, refused, rejected, warned, stuck, attackers, jobs, traps, tightest, .. } = self;
        writeln!(
            f,
            "{systems} systems, {refused} were refused and drawn anew; {} proved tasks, {rejected} that were not proved, \
             {warned} systems with warnings, {stuck} in which no time passes; {attackers} attackers, {traps} traps",
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
        for Violation { origin: (seed, number), what, manifest, .. } in &self.violations {
            writeln!(f, "violated, seed {seed}, number {number}: {what}\n{manifest}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
