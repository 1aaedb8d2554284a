//! Bounds against observations: many random task sets, each simulated, each observed lateness compared.
//!
//! The bounds are the caller's: a function from a set to one bound per task. A bound is violated by a completed job
//! that was later, and by a job that should have completed by then and has not.
//!
//! # Invariants
//!
//! 1. A set depends on the seed and its number only, and a report on nothing else: not on how many threads work.
//! 2. Of events at one instant those of tasks come first, as in the proofs of bounds: at full utilisation jobs end
//!    exactly when the next are released.
//! 3. Sets that lost releases are counted, and no job that is missing counts against a bound of theirs.
//!
//! Not here: bounds (`sched/analysis`).

use std::cmp::Ordering;
use std::sync::atomic::{self, AtomicU64, AtomicUsize};

use fusee_manifest::PolicyName;
use fusee_simulator::system;
use fusee_simulator::workload::{CPU, Deadlines, Generator, PERIODS, Periods, Platform, Source, TaskSet, Utilisations};
use fusee_simulator::{Checks, First, Options, Overheads};
use fusee_views::metrics::{Metrics, TaskMetrics};

use crate::draws::{Draws, Wrong};

/// The distribution of drawn sets, and the way in which they are run.
#[derive(Clone, Debug)]
pub struct SoundnessOptions {
    /// The draws among all possible sets.
    pub draws: Draws,
    /// Policies to draw from.
    pub policies: Vec<PolicyName>,
    /// Each set runs for so many of its longest period.
    pub periods: u64,
    /// When the kernel's invariants are checked.
    pub checks: Checks,
}

impl Default for SoundnessOptions {
    fn default() -> Self {
        let policies = vec![PolicyName::Edf, PolicyName::Fl];
        SoundnessOptions { draws: Draws::new(1, 1_000), policies, periods: 20, checks: Checks::Instants(64) }
    }
}

/// A random set and where it runs.
#[derive(Clone, Debug)]
pub struct GeneratedSet {
    /// The seed it comes from, and its number there.
    pub origin: (u64, u64),
    /// The tasks.
    pub set: TaskSet,
    /// How their deadlines were drawn.
    pub deadlines: Deadlines,
    /// Clusters and policy.
    pub platform: Platform,
    /// Cluster of each task.
    pub homes: Vec<usize>,
}

/// A bound that does not hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// Seed and number of the set.
    pub origin: (u64, u64),
    /// The task.
    pub task: String,
    /// Its bound, nanoseconds.
    pub bound: i64,
    /// The observations.
    pub seen: Seen,
    /// The set as a manifest, with its clusters in a comment.
    pub text: String,
}

/// A contradiction of a bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seen {
    /// A job was so late, nanoseconds.
    Lateness(i64),
    /// So many jobs completed, of so many that should have.
    Jobs(u64, u64),
}

/// A task that came close to its bound.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tightest {
    /// Seed and number of the set.
    pub origin: (u64, u64),
    /// The task.
    pub task: String,
    /// Its largest tardiness, nanoseconds.
    pub tardiness: u64,
    /// Its bound, nanoseconds.
    pub bound: u64,
}

impl Tightest {
    /// Observed / bound.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.tardiness as f64 / self.bound as f64
    }

    fn compare(&self, other: &Tightest) -> Ordering {
        let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
        let order = product(self.tardiness, other.bound).cmp(&product(other.tardiness, self.bound));
        order.then(other.origin.cmp(&self.origin))
    }
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct SoundnessReport {
    /// Sets simulated.
    pub sets: u64,
    /// Their tasks.
    pub tasks: u64,
    /// Tasks that had a bound.
    pub bounded: u64,
    /// Jobs completed.
    pub jobs: u64,
    /// Tasks that were tardy at least once.
    pub tardy: u64,
    /// Sets that lost releases.
    pub with_skips: u64,
    /// Sets that could not be simulated to the end: a defect of the kernel, or of ours.
    pub failures: Vec<Wrong>,
    /// Bounds that do not hold.
    pub violations: Vec<Violation>,
    /// The tardiness nearest to its bound.
    pub tightest: Option<Tightest>,
    /// Traps of all simulations.
    pub traps: u64,
}

/// Draws and simulates sets on all CPUs of the host, and compares the observations with `bounds`: for each task how
/// late a job can be, in nanoseconds rounded up; `None`: nothing is claimed.
pub fn soundness(
    options: &SoundnessOptions,
    bounds: &(dyn Fn(&GeneratedSet) -> Vec<Option<i64>> + Sync),
) -> SoundnessReport {
    let check = |report: &mut SoundnessReport, number| report.check(options, number, bounds);
    let is_wrong = |report: &SoundnessReport| !report.violations.is_empty();
    let mut report = options.draws.judge(&check, is_wrong, SoundnessReport::join);
    report.violations.sort_by(|one, other| (one.origin, &one.task).cmp(&(other.origin, &other.task)));
    report.failures.sort();
    report
}

/// CPUs of the host that [`in_parallel`] uses; zero: all.
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// Lets [`in_parallel`] use so many CPUs of the host from here on: one, if the caller keeps the others busy itself.
pub fn use_workers(count: usize) {
    // Relaxed: the number is all that is shared.
    WORKERS.store(count, atomic::Ordering::Relaxed);
}

/// Does `work` for each number below `count`, on all CPUs of the host unless [`use_workers`] has said otherwise, and joins the results.
pub fn in_parallel<R: Default + Send>(count: u64, work: &(dyn Fn(&mut R, u64) + Sync), join: fn(&mut R, R)) -> R {
    let next = AtomicU64::new(0);
    let some = || {
        let mut report = R::default();
        loop {
            // Relaxed: the number is all that is shared.
            let number = next.fetch_add(1, atomic::Ordering::Relaxed);
            if number >= count {
                return report;
            }
            work(&mut report, number);
        }
    };
    let threads = match WORKERS.load(atomic::Ordering::Relaxed) {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        1 => return some(),
        threads => threads,
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        let mut all = R::default();
        for worker in workers {
            match worker.join() {
                Ok(report) => join(&mut all, report),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

impl GeneratedSet {
    /// The set with this number.
    ///
    /// # Errors
    /// Why there is no such set: text, for people.
    pub fn draw(options: &SoundnessOptions, number: u64) -> Result<GeneratedSet, String> {
        let mut source = Source::new(options.draws.seed, number);
        let cpus = source.draw(1, 4);
        let tasks = source.draw((cpus + 1).max(2), 12) as usize;
        // Now and then not a nanosecond is left.
        let full = source.draw(0, 7) == 0;
        let utilisation = if full { cpus * CPU } else { source.draw(cpus * CPU * 3 / 10, cpus * CPU) };
        let deadlines = source.pick(&[Deadlines::Implicit, Deadlines::Constrained, Deadlines::Arbitrary]);
        let policy = source.pick(&options.policies);
        let mut clusters = Vec::new();
        let mut left = cpus;
        let together = source.draw(0, 1) == 0;
        while left > 0 {
            let size = if together { left } else { source.draw(1, left) };
            clusters.push(size as u32);
            left -= size;
        }
        let generator = Generator {
            utilisations: Utilisations::Unifast,
            periods: Periods::Of(PERIODS.map(|period| period * 1_000_000).to_vec()),
            deadlines,
            tasks: Some(tasks),
            utilisation: Some(utilisation),
        };
        let set = generator.generate(&mut source).map_err(|error| error.to_string())?;
        let platform = Platform { clusters, policy, overheads: Overheads::NONE };
        let origin = (options.draws.seed, number);
        Ok(GeneratedSet { origin, set, deadlines, platform, homes: Vec::new() })
    }

    /// The set as a manifest, with its clusters in a comment.
    #[must_use]
    pub fn text(&self) -> String {
        let (seed, number) = self.origin;
        let clusters: Vec<String> = self.platform.clusters.iter().map(u32::to_string).collect();
        let clusters = clusters.join(",");
        format!("# seed {seed}, number {number}; --clusters {clusters}\n{}", self.set.manifest(&self.platform))
    }
}

impl SoundnessReport {
    /// Draws, simulates and judges one set.
    fn check(&mut self, options: &SoundnessOptions, number: u64, bounds: &dyn Fn(&GeneratedSet) -> Vec<Option<i64>>) {
        if let Err(what) = self.try_check(options, number, bounds) {
            self.failures.push(Wrong { seed: options.draws.seed, number, what });
        }
    }

    fn try_check(
        &mut self,
        options: &SoundnessOptions,
        number: u64,
        bounds: &dyn Fn(&GeneratedSet) -> Vec<Option<i64>>,
    ) -> Result<(), String> {
        let mut drawn = GeneratedSet::draw(options, number)?;
        let manifest = drawn.set.system(&drawn.platform).map_err(|error| error.to_string())?;
        drawn.homes = manifest.system.tasks.iter().map(|task| task.cluster as usize).collect();
        let span = drawn.set.longest_period() * options.periods;
        let mut metrics = Metrics::new(&manifest.system);
        let run = Options { checks: options.checks, first: First::Tasks, ..Options::default() };
        let limit = manifest.system.start + span;
        let report = system::simulate_observed(&manifest, &run, limit, &mut |record| metrics.observe(record));
        let report = report.map_err(|error| format!("{error}\n{}", drawn.text()))?;
        self.sets += 1;
        self.traps += report.traps;
        self.with_skips += u64::from(metrics.tasks.iter().any(|task| task.skipped > 0));
        let bounds = bounds(&drawn);
        for (index, task) in metrics.tasks.iter().enumerate() {
            self.judge(&drawn, index, task, bounds.get(index).copied().flatten(), span);
        }
        Ok(())
    }

    /// Compares the jobs of one task within `span` nanoseconds of its first release with its bound.
    fn judge(&mut self, drawn: &GeneratedSet, index: usize, task: &TaskMetrics, bound: Option<i64>, span: u64) {
        let latest = task.max_lateness().unwrap_or(i64::MIN);
        self.tasks += 1;
        self.jobs += task.jobs();
        self.tardy += u64::from(latest > 0);
        let Some(bound) = bound else { return };
        self.bounded += 1;
        // Jobs with a bound that has passed are over.
        let parameters = &drawn.set.tasks[index];
        let over = parameters.deadline.saturating_add_signed(bound);
        let due = span.checked_sub(over).map_or(0, |rest| rest / parameters.period + 1);
        let seen = if latest > bound {
            Some(Seen::Lateness(latest))
        } else if task.skipped == 0 && task.jobs() < due {
            Some(Seen::Jobs(task.jobs(), due))
        } else {
            None
        };
        let (origin, name) = (drawn.origin, task.name.clone());
        if let Some(seen) = seen {
            self.violations.push(Violation { origin, task: name, bound, seen, text: drawn.text() });
        } else if bound > 0 {
            let tardiness = latest.max(0).unsigned_abs();
            self.tighten(Tightest { origin, task: name, tardiness, bound: bound.unsigned_abs() });
        }
    }

    fn tighten(&mut self, other: Tightest) {
        if self.tightest.as_ref().is_none_or(|tightest| tightest.compare(&other).is_lt()) {
            self.tightest = Some(other);
        }
    }

    /// Adds the results of other sets.
    pub fn join(&mut self, other: SoundnessReport) {
        self.sets += other.sets;
        self.tasks += other.tasks;
        self.bounded += other.bounded;
        self.jobs += other.jobs;
        self.tardy += other.tardy;
        self.with_skips += other.with_skips;
        self.traps += other.traps;
        self.failures.extend(other.failures);
        self.violations.extend(other.violations);
        if let Some(tightest) = other.tightest {
            self.tighten(tightest);
        }
    }
}

impl std::fmt::Display for SoundnessReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SoundnessReport { sets, tasks, bounded, jobs, tardy, with_skips, .. } = self;
        writeln!(
            f,
            "{sets} sets, {tasks} tasks, {bounded} with a bound, {tardy} tardy, {jobs} jobs, {with_skips} sets lost releases"
        )?;
        if let Some(tightest) = &self.tightest {
            let (seed, number) = tightest.origin;
            writeln!(
                f,
                "tightest: {:.3} of its bound, {} of {} ns, task {} of seed {seed}, number {number}",
                tightest.ratio(),
                tightest.tardiness,
                tightest.bound,
                tightest.task
            )?;
        }
        for failure in &self.failures {
            writeln!(f, "failed: {failure}")?;
        }
        for violation in &self.violations {
            let Violation { task, bound, seen, text, .. } = violation;
            writeln!(f, "violated: task {task}, bound {bound} ns, seen {seen:?}, in\n{text}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On CPUs of their own, deadlines at the end of the period hold under EDF up to full utilisation.
    fn uniprocessor(drawn: &GeneratedSet) -> Vec<Option<i64>> {
        let full = |home: usize| {
            let tasks = drawn.set.tasks.iter().zip(&drawn.homes).filter(|(_, other)| **other == home);
            TaskSet { tasks: tasks.map(|(task, _)| task.clone()).collect(), ..drawn.set.clone() }.utilisation() > CPU
        };
        let claimed = |home: &usize| {
            let edf = drawn.platform.policy == PolicyName::Edf && drawn.deadlines == Deadlines::Implicit;
            (edf && drawn.platform.clusters[*home] == 1 && !full(*home)).then_some(0)
        };
        drawn.homes.iter().map(claimed).collect()
    }

    #[test]
    fn one_cpu_under_edf_meets_every_implicit_deadline_at_any_utilisation_up_to_one() {
        let options =
            SoundnessOptions { draws: Draws::new(1, 400), checks: Checks::Instants(16), ..SoundnessOptions::default() };
        let report = soundness(&options, &uniprocessor);
        assert!(report.failures.is_empty() && report.violations.is_empty(), "{report}");
        assert!(report.sets == 400 && report.bounded > 100 && report.tardy > 100, "{report}");
    }

    #[test]
    fn bounds_that_are_too_good_are_found_out_with_the_set_that_refutes_them() {
        let options = SoundnessOptions { draws: Draws::new(1, 20), ..SoundnessOptions::default() };
        let early = |drawn: &GeneratedSet| vec![Some(-1_000_000_000); drawn.set.tasks.len()];
        let report = soundness(&options, &early);
        assert_eq!(report.violations.len() as u64, report.tasks);
        assert!(report.violations[0].text.contains("[tasks.\"t1\"]"));
        let punctual = |drawn: &GeneratedSet| vec![Some(0); drawn.set.tasks.len()];
        assert_eq!(soundness(&options, &punctual).violations.len() as u64, report.tardy);
    }

    #[test]
    fn the_same_seed_gives_the_same_report() {
        let options = SoundnessOptions { draws: Draws::new(1, 30), ..SoundnessOptions::default() };
        let lax = |drawn: &GeneratedSet| vec![Some(1_000_000_000); drawn.set.tasks.len()];
        assert_eq!(soundness(&options, &lax).to_string(), soundness(&options, &lax).to_string());
    }
}
