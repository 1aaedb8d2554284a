//! The report on one cluster: the result of each test, and for each task the best bound with its cause.
//!
//! A task is *hard* if one of these proves that it misses no deadline:
//!
//! | Cluster | Proof |
//! |---|---|
//! | one CPU | its exact response time |
//! | no more tasks than CPUs | its execution time |
//! | global EDF | densities |
//! | global EDF and FL | compliant-vector analysis with lateness of at most zero; response times by interference |
//! | global fixed priorities | response times by interference, with limited carry-in |
//! | engines alone | the execution of others in a window |
//! | one CPU, with suspension | response times, with the suspension of others as jitter of their releases |
//! | a CPU for each cluster, and an engine that its device arbitrates | response times of all clusters together ([`decided`](crate::decided)) |
//! | released by the clock | the reachable states of the schedule, asked for where all others are silent |
//!
//! With engines and blocking all of these are sufficient only.

mod special;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};

use crate::compliant::{self, Compliant};
use crate::devi::{self, DoesNotApply};
use crate::interference;
use crate::locks::Rest;
use crate::overheads::{Infeasible, Locking, Overheads, inflate_each};
use crate::task::{Cluster, Task};
use crate::uniprocessor::{self, Response, Unanswered};
use crate::utilisation::{self, Utilisations};
use crate::{compare, plus, whole};
use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;

/// The source of a bound or verdict.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Test {
    /// `U <= m` and each `u <= 1`.
    Utilisation,
    /// No more tasks than CPUs.
    OwnCpu,
    /// The processor-demand criterion, exact.
    Demand,
    /// Response times under EDF, exact.
    DeadlineResponse,
    /// Response times under fixed priorities, exact.
    FixedPriorityResponse,
    /// The hyperbolic bound.
    Hyperbolic,
    /// Liu and Layland's bound.
    LiuLayland,
    /// Densities under global EDF.
    Density,
    /// Response times by interference, under EDF and FL.
    Interference,
    /// Response times by interference under fixed priorities, where few tasks carry work in.
    LimitedCarryIn,
    /// Devi and Anderson's tardiness.
    Devi,
    /// All that others execute in a window.
    Windows,
    /// The execution of others, with their suspension as jitter.
    Jitter,
    /// The reachable states of the schedule, where the clock alone releases jobs.
    Reachability,
    /// Response times on several CPUs that share an engine that its device arbitrates.
    Decided,
    /// Compliant-vector analysis as printed.
    Printed,
    /// Compliant-vector analysis, with the earliest priority point moved to zero.
    Tightest,
}

impl Test {
    /// The name of the test in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Test::Utilisation => "utilisation",
            Test::OwnCpu => "a CPU each",
            Test::Demand => "processor demand",
            Test::DeadlineResponse => "response times",
            Test::FixedPriorityResponse => "response times",
            Test::Hyperbolic => "hyperbolic",
            Test::LiuLayland => "Liu-Layland",
            Test::Density => "density",
            Test::Interference => "Bertogna-Cirinei",
            Test::LimitedCarryIn => "Guan et al.",
            Test::Devi => "Devi-Anderson",
            Test::Windows => "windows",
            Test::Jitter => "suspension as jitter",
            Test::Reachability => "reachable states",
            Test::Decided => "Wang et al.",
            Test::Printed => "CVA",
            Test::Tightest => "CVA, shifted",
        }
    }
}

/// The result of a test for all tasks together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// No deadline is ever missed.
    Proved,
    /// Tardiness is bounded.
    Bounded,
    /// Some run misses a deadline.
    Misses,
    /// The work is no more than the CPUs can do: no promise yet.
    Fits,
    /// Work piles up without limit.
    Overload,
    /// No result: the test is only sufficient.
    Silent,
    /// No result: the search grew too long.
    GaveUp,
    /// No result: the tasks or the policy are not of its kind.
    DoesNotApply,
}

impl Verdict {
    /// The words of the verdict in tables.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Proved => "no deadline is missed",
            Verdict::Bounded => "tardiness is bounded",
            Verdict::Misses => "deadlines can be missed",
            Verdict::Fits => "fits",
            Verdict::Overload => "overload",
            Verdict::Silent => "proves nothing",
            Verdict::GaveUp => "gave up",
            Verdict::DoesNotApply => "does not apply",
        }
    }

    fn proved_if(proved: bool, otherwise: Verdict) -> Verdict {
        if proved { Verdict::Proved } else { otherwise }
    }
}

/// The largest contribution to a bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Term {
    /// The task's own execution.
    Execution,
    /// Work of others that comes first.
    Interference {
        /// The task with the largest part of it.
        largest: usize,
    },
    /// Global: work pending when all CPUs become busy.
    CarriedIn,
    /// Global: how much earlier the priority points of other tasks can be.
    PriorityPoint,
    /// The kernel's own costs.
    Overheads,
    /// Servers that come before all tasks, and the kernel's own costs.
    Boosts,
    /// The job's own operations of engines.
    Operations,
    /// The job's own sleeps, and its waits for notifications.
    Suspension,
    /// Waiting for locks.
    Blocking,
}

impl Term {
    /// The words of the term in tables.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Term::Execution => "execution",
            Term::Interference { .. } => "others",
            Term::CarriedIn => "carried-in work",
            Term::PriorityPoint => "late priority point",
            Term::Overheads => "overheads",
            Term::Boosts => "boosted servers",
            Term::Operations => "engine operations",
            Term::Suspension => "own suspension",
            Term::Blocking => "blocking",
        }
    }
}

/// A bound, in nanoseconds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bound {
    /// The time from release to completion.
    pub response: BigRational,
    /// The time from deadline to completion; negative: how much sooner.
    pub lateness: BigRational,
    /// The test that gave it.
    pub test: Test,
    /// The largest part of it.
    pub dominating: Term,
}

impl Bound {
    /// Lateness, but at least zero.
    #[must_use]
    pub fn tardiness(&self) -> BigRational {
        if self.lateness.is_positive() { self.lateness.clone() } else { BigRational::zero() }
    }

    /// Puts a bound that is before the deadline off until then.
    pub fn put_off(&mut self) {
        if self.lateness.is_negative() {
            self.response -= std::mem::take(&mut self.lateness);
        }
    }

    /// The time from the bound to the deadline; negative if the bound is later.
    #[must_use]
    pub fn slack(&self) -> BigRational {
        -&self.lateness
    }
}

/// Whether a task may be called hard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hard {
    /// The task misses no deadline.
    Proved,
    /// The task may miss one, as far as we know.
    NotProved(Reason),
}

/// The reason why a task may not be called hard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// Some run misses its deadline: the test is exact.
    Misses,
    /// The bound is later than its deadline; the truth may be earlier.
    BoundTooLate,
    /// Work piles up without limit.
    Overload,
    /// With its waits and the costs of the kernel the task needs more than its period.
    TooLong,
    /// The search grew too long.
    GaveUp,
    /// No test gives it a bound, though there is no more work than the CPUs can do.
    NoBound,
}

impl Reason {
    /// The words of the reason in tables.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Reason::Misses => "some run misses its deadline",
            Reason::BoundTooLate => "its bound is later than its deadline",
            Reason::Overload => "overload",
            Reason::TooLong => "it needs more than its period",
            Reason::GaveUp => "the search grew too long",
            Reason::NoBound => "no test gives it a bound",
        }
    }
}

/// The results for one task.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TaskReport {
    /// The best bound, if there is one.
    pub bound: Option<Bound>,
    /// Whether it may be called hard.
    pub hard: Hard,
    /// Devi and Anderson's bound on tardiness, where it applies.
    pub devi_tardiness: Option<BigRational>,
    /// The bound on lateness by compliant-vector analysis as printed, under EDF and FL.
    pub printed_lateness: Option<BigRational>,
}

/// The results for one cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// The sum of e / p, overheads and blocking included.
    pub utilisation: BigRational,
    /// Whether tardiness is bounded; `None`: no test decides it.
    pub bounded: Option<bool>,
    /// All tests that were made.
    pub tests: Vec<(Test, Verdict)>,
    /// The reports by task.
    pub tasks: Vec<TaskReport>,
    /// Tasks that need more than their periods. They have no bounds, and those of the others count them as
    /// tasks that never rest.
    pub infeasible: Vec<Infeasible>,
}

impl Report {
    /// Takes all bounds back: their basis is not known.
    pub(crate) fn without_bounds(mut self) -> Report {
        for task in &mut self.tasks {
            let why = if let Hard::NotProved(Reason::TooLong) = task.hard { Reason::TooLong } else { Reason::Overload };
            (task.bound, task.hard) = (None, Hard::NotProved(why));
        }
        self
    }

    /// Whether no task misses a deadline.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.tasks.iter().all(|task| task.hard == Hard::Proved)
    }
}

/// Analyses `cluster` on a kernel with these costs. Tasks without an entry in `locking` use no locks.
///
/// # Errors
/// [`Infeasible::OnlyInterrupts`].
pub fn analyse(cluster: &Cluster, overheads: &Overheads, locking: &[Locking]) -> Result<Report, Infeasible> {
    analyse_waiting(cluster, overheads, locking, Aware::default())
}

/// Input of tests that do not count suspension as execution.
#[derive(Clone, Copy, Default)]
pub(crate) struct Aware<'a> {
    /// The number of holds that each request waits for was counted for any jobs that execute meanwhile.
    pub are_for_windows: bool,
    /// Properties of the suspensions of each task; a task without an entry has none that are known.
    pub rests: &'a [Rest],
}

/// The report, also by tests that do not count suspension as execution.
///
/// # Errors
/// [`Infeasible::OnlyInterrupts`].
pub(crate) fn analyse_waiting(
    cluster: &Cluster,
    overheads: &Overheads,
    locking: &[Locking],
    aware: Aware<'_>,
) -> Result<Report, Infeasible> {
    let (inflated, infeasible) = match (*overheads == Overheads::default(), locking) {
        (true, []) if cluster.above().is_empty() => (cluster.clone(), Vec::new()),
        _ => inflate_each(cluster, overheads, locking)?,
    };
    let shares = Utilisations::of(inflated.tasks());
    let mut study = Study { original: cluster, cluster: &inflated, shares: &shares, locking, tests: Vec::new() };
    let fits = shares.fit(inflated.cpus());
    study.tests.push((Test::Utilisation, if fits { Verdict::Fits } else { Verdict::Overload }));
    let own_cpus = inflated.tasks().len() <= inflated.cpus() as usize;
    let mut tasks = match (own_cpus, inflated.cpus(), inflated.policy()) {
        (true, ..) => study.own_cpus(),
        (_, 1, PolicyName::Edf | PolicyName::Fl) => study.deadlines_on_one_cpu(),
        (_, 1, _) => study.priorities_on_one_cpu(),
        (.., PolicyName::Edf | PolicyName::Fl) => study.deadlines_on_several_cpus(),
        _ => study.priorities_on_several_cpus(),
    };
    let is_suspended = locking.iter().any(|one| one.waits() > Nanoseconds::ZERO);
    if is_suspended || !cluster.above().is_empty() {
        study.doubt(&mut tasks);
    }
    if infeasible.is_empty() && locking.iter().all(|one| *one == Locking::default()) {
        study.reachability(overheads, &mut tasks);
    }
    study.literature(&mut tasks);
    let has_jitter = is_suspended && cluster.cpus() == 1 && cluster.above().is_empty() && !own_cpus;
    if has_jitter && aware.rests.iter().any(|rest| rest.is_counted) || aware.are_for_windows {
        let nothing = |one: &Locking| Locking { requests: one.requests, ..Locking::default() };
        let locking: Vec<Locking> = locking.iter().map(nothing).collect();
        let (executing, too_long) = inflate_each(cluster, overheads, &locking)?;
        if has_jitter && too_long.is_empty() {
            study.jitter(&executing, aware.rests, &mut tasks);
        }
        if aware.are_for_windows && infeasible.is_empty() {
            study.windows(&executing, &mut tasks);
        }
    }
    for task in infeasible.iter().filter_map(Infeasible::task) {
        tasks[task].hard = Hard::NotProved(Reason::TooLong);
    }
    let bounded = match tasks.iter().all(|task| task.bound.is_some()) {
        true => Some(true),
        false if !fits => Some(false),
        // The only results are searches that gave up, or tests that decide nothing.
        false => (inflated.cpus() == 1).then_some(true),
    };
    // Releases moved by the latency of events: responses count from the real ones.
    for bound in tasks.iter_mut().filter_map(|task| task.bound.as_mut()) {
        bound.response = plus(&bound.response, overheads.event_latency.0);
    }
    Ok(Report { utilisation: shares.total(), bounded, tests: study.tests, tasks, infeasible })
}

/// One cluster under analysis.
struct Study<'a> {
    original: &'a Cluster,
    cluster: &'a Cluster,
    shares: &'a Utilisations,
    locking: &'a [Locking],
    tests: Vec<(Test, Verdict)>,
}

/// A bound before it is compared with others: response, test, and its largest part.
type Candidate = (BigRational, Test, Term);

//--- The cases

impl Study<'_> {
    fn own_cpus(&mut self) -> Vec<TaskReport> {
        let tasks = self.cluster.tasks();
        let reports: Vec<TaskReport> = (0..tasks.len())
            .map(|index| match tasks[index].execution <= tasks[index].period {
                true => {
                    let term = self.dominating(index, &[]);
                    self.task(index, Some((whole(tasks[index].execution), Test::OwnCpu, term)), Reason::Misses)
                }
                false => self.task(index, None, Reason::Overload),
            })
            .collect();
        self.conclude(Test::OwnCpu, &reports);
        reports
    }

    fn deadlines_on_one_cpu(&mut self) -> Vec<TaskReport> {
        let tasks = self.cluster.tasks();
        let demand = uniprocessor::meets_demand(tasks);
        self.tests.push((
            Test::Demand,
            match demand {
                Ok(proved) => Verdict::proved_if(proved, Verdict::Misses),
                Err(_) => Verdict::GaveUp,
            },
        ));
        match uniprocessor::deadline_responses(tasks) {
            Ok(responses) => {
                let reports: Vec<TaskReport> = (0..tasks.len())
                    .map(|index| {
                        let candidate = self.exact(index, &responses[index], Test::DeadlineResponse);
                        self.task(index, Some(candidate), Reason::Misses)
                    })
                    .collect();
                self.conclude(Test::DeadlineResponse, &reports);
                reports
            }
            Err(Unanswered::Unbounded) => self.without_bounds(Reason::Overload),
            Err(Unanswered::GaveUp) => {
                self.tests.push((Test::DeadlineResponse, Verdict::GaveUp));
                self.best_of_bounds(demand == Ok(true), Test::Demand)
            }
        }
    }

    fn priorities_on_one_cpu(&mut self) -> Vec<TaskReport> {
        let (tasks, policy) = (self.cluster.tasks(), self.cluster.policy());
        let reports: Vec<TaskReport> = (0..tasks.len())
            .map(|index| match uniprocessor::fixed_priority_response(tasks, policy, index) {
                Ok(response) => {
                    let candidate = self.exact(index, &response, Test::FixedPriorityResponse);
                    self.task(index, Some(candidate), Reason::Misses)
                }
                Err(Unanswered::Unbounded) => self.task(index, None, Reason::Overload),
                Err(Unanswered::GaveUp) => self.task(index, None, Reason::GaveUp),
            })
            .collect();
        self.conclude(Test::FixedPriorityResponse, &reports);
        reports
    }

    fn deadlines_on_several_cpus(&mut self) -> Vec<TaskReport> {
        let is_dense = match self.cluster.policy() {
            PolicyName::Edf => utilisation::density(self.cluster),
            _ => None,
        };
        self.tests.push((
            Test::Density,
            is_dense.map_or(Verdict::DoesNotApply, |proved| Verdict::proved_if(proved, Verdict::Silent)),
        ));
        self.best_of_bounds(is_dense == Some(true), Test::Density)
    }

    fn priorities_on_several_cpus(&mut self) -> Vec<TaskReport> {
        self.best_by_interference(Test::LimitedCarryIn, vec![None; self.cluster.tasks().len()])
    }

    /// For each task the smaller of a bound from elsewhere, if there is one, and the bound of `test`: response times by
    /// interference.
    fn best_by_interference(&mut self, test: Test, bounds: Vec<Option<Candidate>>) -> Vec<TaskReport> {
        let known = |bound: &Option<Candidate>| Some(Nanoseconds(bound.as_ref()?.0.ceil().to_integer().to_u64()?));
        let known: Vec<Option<Nanoseconds>> = bounds.iter().map(known).collect();
        let found = interference::responses(self.cluster, self.original.scheduled(), &known);
        let is_met =
            |(response, task): (&Option<Response>, &Task)| response.is_some_and(|one| one.longest <= task.deadline);
        self.tests.push((
            test,
            match &found {
                Err(_) => Verdict::GaveUp,
                Ok(all) if all.iter().zip(self.cluster.tasks()).all(is_met) => Verdict::Proved,
                Ok(all) if all.iter().all(Option::is_some) => Verdict::Bounded,
                Ok(_) => Verdict::Silent,
            },
        ));
        let reason = match (self.shares.fit(self.cluster.cpus()), &found) {
            (false, _) => Reason::Overload,
            (true, Err(_)) => Reason::GaveUp,
            (true, Ok(_)) => Reason::NoBound,
        };
        let found = found.unwrap_or_else(|_| vec![None; bounds.len()]);
        let each = bounds.into_iter().zip(found).enumerate();
        let best = |(index, (bound, response)): (usize, (Option<Candidate>, Option<Response>))| {
            let response = response.map(|response| self.exact(index, &response, test));
            let best = [bound, response].into_iter().flatten().min_by(|one, other| compare(&one.0, &other.0));
            let reason = if best.is_some() { Reason::BoundTooLate } else { reason };
            self.task(index, best, reason)
        };
        each.map(best).collect()
    }

    /// Global bounds, which also hold on one CPU; and the deadlines themselves, if `by` proved them all.
    fn best_of_bounds(&mut self, all_meet: bool, by: Test) -> Vec<TaskReport> {
        let Some(bounds) = compliant::tightest(self.cluster, self.shares, self.original.scheduled()) else {
            return self.best_by_interference(Test::Interference, vec![None; self.cluster.tasks().len()]);
        };
        let proved = !bounds.lateness(self.cluster.tasks()).iter().any(Signed::is_positive);
        self.tests.push((Test::Tightest, Verdict::proved_if(proved, Verdict::Bounded)));
        let tardiness = devi::tardiness(self.cluster, self.shares).ok();
        let cpus = BigInt::from(self.cluster.cpus());
        let (early, carried) = (&bounds.fixed_point - &bounds.carried_in, &bounds.carried_in / &cpus);
        let shared = (early / cpus, carried);
        let best = (0..self.cluster.tasks().len())
            .map(|index| {
                let deadline = self.cluster.tasks()[index].deadline;
                let term = self.compliant_term(index, &bounds, &shared);
                let devi = tardiness.as_ref().map(|all| (plus(&all[index], deadline.0), Test::Devi, Term::CarriedIn));
                let met = all_meet.then_some((whole(deadline), by, Term::PriorityPoint));
                let candidates = [Some((bounds.responses[index].clone(), Test::Tightest, term)), met, devi];
                candidates.into_iter().flatten().min_by(|one, other| compare(&one.0, &other.0))
            })
            .collect();
        self.best_by_interference(Test::Interference, best)
    }

    /// A waiting job is taken to execute, as long as it may: no test is exact any more.
    fn doubt(&mut self, reports: &mut [TaskReport]) {
        for (test, verdict) in &mut self.tests {
            *verdict = match *verdict {
                Verdict::Misses if *test == Test::Demand => Verdict::Silent,
                Verdict::Misses => Verdict::Bounded,
                verdict => verdict,
            };
        }
        for report in reports {
            if report.hard == Hard::NotProved(Reason::Misses) {
                report.hard = Hard::NotProved(Reason::BoundTooLate);
            }
        }
    }

    fn without_bounds(&self, reason: Reason) -> Vec<TaskReport> {
        (0..self.cluster.tasks().len()).map(|index| self.task(index, None, reason)).collect()
    }

    /// The bounds people compare with, and tests that prove less than those above.
    fn literature(&mut self, reports: &mut [TaskReport]) {
        let tasks = self.cluster.tasks();
        let is_implicit = tasks.iter().all(|task| task.deadline == task.period);
        match self.cluster.policy() {
            PolicyName::Rm if is_implicit && self.cluster.cpus() == 1 => {
                for (test, proved) in [
                    (Test::Hyperbolic, utilisation::hyperbolic(tasks)),
                    (Test::LiuLayland, utilisation::liu_layland(tasks)),
                ] {
                    self.tests.push((test, Verdict::proved_if(proved, Verdict::Silent)));
                }
            }
            PolicyName::Edf | PolicyName::Fl => {
                let devi = devi::tardiness(self.cluster, self.shares);
                self.tests.push((
                    Test::Devi,
                    match &devi {
                        Ok(all) => Verdict::proved_if(all.iter().all(Zero::is_zero), Verdict::Bounded),
                        Err(DoesNotApply::Overutilised) => Verdict::Overload,
                        Err(_) => Verdict::DoesNotApply,
                    },
                ));
                for (report, tardiness) in reports.iter_mut().zip(devi.into_iter().flatten()) {
                    report.devi_tardiness = Some(tardiness);
                }
                let Some(printed) = compliant::textbook(self.cluster, self.shares) else { return };
                let lateness = printed.lateness(tasks);
                let proved = !lateness.iter().any(Signed::is_positive);
                self.tests.push((Test::Printed, Verdict::proved_if(proved, Verdict::Bounded)));
                for (report, lateness) in reports.iter_mut().zip(lateness) {
                    report.printed_lateness = Some(lateness);
                }
            }
            _ => {}
        }
    }
}

//--- From candidates to reports

impl Study<'_> {
    fn exact(&self, index: usize, response: &Response, test: Test) -> Candidate {
        let others = response.largest.map(|largest| (Term::Interference { largest }, whole(response.interference)));
        (whole(response.longest), test, self.dominating(index, others.as_slice()))
    }

    fn task(&self, index: usize, best: Option<Candidate>, reason: Reason) -> TaskReport {
        let deadline = BigInt::from(self.cluster.tasks()[index].deadline.0);
        let bound = best.map(|(response, test, dominating)| {
            let lateness = plus(&response, -deadline);
            Bound { response, lateness, test, dominating }
        });
        let is_met = bound.as_ref().is_some_and(|bound| !bound.lateness.is_positive());
        let hard = if is_met { Hard::Proved } else { Hard::NotProved(reason) };
        TaskReport { bound, hard, devi_tardiness: None, printed_lateness: None }
    }

    /// Files the verdict that follows from the reports that `test`, which is exact, gave.
    fn conclude(&mut self, test: Test, reports: &[TaskReport]) {
        let reason = |reason| reports.iter().any(|report| report.hard == Hard::NotProved(reason));
        let verdict = match () {
            () if reason(Reason::Overload) => Verdict::Overload,
            () if reason(Reason::GaveUp) => Verdict::GaveUp,
            () if reports.iter().all(|report| report.hard == Hard::Proved) => Verdict::Proved,
            () => Verdict::Misses,
        };
        self.tests.push((test, verdict));
    }

    /// The largest of `others` and of the parts of the task's own execution.
    fn dominating(&self, index: usize, others: &[(Term, BigRational)]) -> Term {
        let (before, after): (Task, Task) = (self.original.tasks()[index], self.cluster.tasks()[index]);
        let waiting = self.locking.get(index).copied().unwrap_or_default();
        let costs = after.execution.saturating_sub(before.execution).saturating_sub(waiting.waits());
        let own = [
            (if self.original.above().is_empty() { Term::Overheads } else { Term::Boosts }, costs),
            (Term::Operations, waiting.operations),
            (Term::Suspension, waiting.suspends),
            (Term::Blocking, waiting.blocking),
            (Term::Execution, before.execution),
        ];
        let own = own.map(|(term, span)| (term, whole(span)));
        let all = own.iter().chain(others);
        all.max_by(|one, other| compare(&one.1, &other.1)).map_or(Term::Execution, |(term, _)| *term)
    }

    /// The largest part of a bound by compliant vectors. `shared`: the additions of early work and carried-in work to the bounds of
    /// all tasks.
    fn compliant_term(&self, index: usize, bounds: &Compliant, shared: &(BigRational, BigRational)) -> Term {
        let point = BigRational::new(bounds.points[index].into(), self.cluster.cpus().into());
        let mut others = vec![(Term::CarriedIn, shared.1.clone()), (Term::PriorityPoint, point)];
        let each = bounds.early.iter().enumerate().filter(|(other, work)| *other != index && work.is_positive());
        if let Some((largest, _)) = each.max_by(|one, other| one.1.cmp(other.1)) {
            others.push((Term::Interference { largest }, shared.0.clone()));
        }
        self.dominating(index, &others)
    }
}
