//! Response times on several CPUs, one in each cluster, of tasks that share an engine that its device arbitrates by their priorities.
//!
//! Each CPU runs its own tasks by fixed priorities. A job submits commands to the device, and is suspended while they work. The
//! device works for the job of the highest priority of all CPUs, and takes its units from any other. A driver, a thread that may
//! run on any of these CPUs, tells a job that a command has ended.
//!
//! # Words
//!
//! *e<sub>i</sub>* is the execution of a job, which is enforced, *s<sub>i</sub>* the time that it sleeps, *g<sub>i</sub>* the time that the device works for
//! it, room for its commands included, *q<sub>i</sub>* the time that these commands take from the others besides: saved state is
//! restored. *n<sub>i</sub>* is the number of its commands, *c* the driver's work for one, *p<sub>i</sub>* the period, *r<sub>i</sub>* the bound.
//!
//! # The bound
//!
//! Let a job of task *i* be released at *a*, after the end of the one before, and end at *f*. At each instant in between
//!
//! 1. it executes, or sleeps, or the device works for it;
//! 2. a task of its own CPU with no lower priority executes;
//! 3. the device works for a task of any CPU with no lower priority, or restores its saved state: this keeps the job
//!    waiting only if it has commands of its own;
//! 4. or the driver executes. It executes for a command that has ended, at most once for each, and in the job's place or before it.
//!
//! The first is *e<sub>i</sub> + s<sub>i</sub> + g<sub>i</sub> + n<sub>i</sub> c*. For the second and the third let *t <= a* begin the window [*t*, *f*). A job of *j* that
//! executes in it for *x <= e<sub>j</sub>* ends at *t + x* or later, so it is released after *t + x - r<sub>j</sub>*; the next ones are released *p<sub>j</sub>*
//! apart. This is as if the first were released after *t - (r<sub>j</sub> - e<sub>j</sub>)* and executed for *e<sub>j</sub>*: hence jitter of
//! *r<sub>j</sub> - e<sub>j</sub>* (Chen and others 2019; jitter of *s<sub>j</sub>* is wrong, and so is none). The same argument holds for the device: its work
//! for a job of *h* takes *g<sub>h</sub> + q<sub>h</sub>*, and lies before the job's end but for *q<sub>h</sub>* at most. So the first job with a part *x* in
//! the window is released after *t + x - q<sub>h</sub> - r<sub>h</sub>*, as if it had jitter of *r<sub>h</sub> - g<sub>h</sub>*. Each command of another task *u* that
//! has ended in the window is of a job that is released in (*t - r<sub>u</sub>*, *f*); and one of each task may have ended before, for which the
//! driver has not executed yet: it tells of all ends of a task at once. With *w = f - t*:
//!
//! > *w = e<sub>i</sub> + s<sub>i</sub> + g<sub>i</sub> + n<sub>i</sub> c*
//! > *+ sum over j of ceil((w + r<sub>j</sub> - e<sub>j</sub>) / p<sub>j</sub>) e<sub>j</sub>*, of the same CPU
//! > *+ sum over h of ceil((w + r<sub>h</sub> - g<sub>h</sub>) / p<sub>h</sub>) (g<sub>h</sub> + q<sub>h</sub>)*, of all CPUs, if the job has commands
//! > *+ c (1 + sum over u of (1 + n<sub>u</sub> ceil((w + r<sub>u</sub>) / p<sub>u</sub>)))*, if the job's CPU has any tasks with commands.
//!
//! A task of higher priority on the same CPU that is never suspended has no jitter: let *t* be the last instant up to *a* before
//! which no such job was left. From then until *a* the CPU executes such jobs, or work that comes before them.
//!
//! Bounds depend on each other, on those of lower priority by the last line. They are computed in turn, from no interference on,
//! until none grows. These hold: until the first job that is later than its bound, all others were within theirs.
//!
//! # Conditions
//!
//! 1. Response times are within the periods, as no job waits for the one before it. Nobody relies on another bound.
//! 2. A task with commands is suspended for them and for its sleep, no longer than it declares, and for nothing else.
//! 3. The driver executes at once whenever jobs of two CPUs wait for it, and else with the priority of those that wait.
//! 4. Between equal priorities any may come first. On the device priorities of different CPUs are comparable.
//!
//! The priority of a task on the device need not be that on its CPU ([`Work::rank`]): no step above compares them.
//!
//! # Source
//!
//! Wang, Liu, Wong, Kim, *GCAPS: GPU Context-Aware Preemptive Priority-Based Scheduling for Real-Time Tasks*, ECRTS 2024
//! (doi 10.4230/LIPIcs.ECRTS.2024.14), for tasks that suspend themselves. Their updates of the list of runnable contexts are CPU
//! time of the job, in which the device is at rest: [`Work::updates`]. The driver, and costs that end after the job, are ours.

use fusee_sched::time::Nanoseconds;
use num_traits::Zero;

use crate::overheads::Infeasible;
use crate::report::{self, Bound, Hard, Reason, Report, TaskReport, Term, Test, Verdict};
use crate::{Cluster, Overheads, whole};

/// The number of times that all are computed, and of steps in all, before giving up.
const STEPS: u64 = 4_000_000;

/// The use of the device by the jobs of a task. All times are sums over a job.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Work {
    /// The longest time that the device works for the job while no other job comes first, making room included.
    pub operations: Nanoseconds,
    /// The additional time by which its commands delay those of others: saving and restoring.
    pub switching: Nanoseconds,
    /// The part of the job's execution in which the device works for nobody.
    pub updates: Nanoseconds,
    /// Other waits of the job for the device.
    pub waits: Nanoseconds,
    /// Its commands, each of which ends with work of the driver.
    pub commands: u64,
    /// The priority of its commands; smaller comes first.
    pub rank: u64,
}

/// A task of one CPU.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Task {
    /// The number of its CPU.
    pub cpu: usize,
    /// The longest execution of a job, enforced.
    pub execution: Nanoseconds,
    /// The longest time that a job sleeps.
    pub suspends: Nanoseconds,
    /// Least time between releases.
    pub period: Nanoseconds,
    /// The priority on its CPU; smaller comes first.
    pub priority: u64,
    /// Whether each job is one chunk of budget, because others may rely on the task's declarations.
    pub keeps_word: bool,
    /// The use of the device, if it uses it.
    pub work: Option<Work>,
}

/// The tasks of all CPUs of which some share the device.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct System {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The driver's time for each command that has ended.
    pub completion: Nanoseconds,
}

/// A bound on the response time of a task, with its parts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Response {
    /// The longest time from release to end.
    pub longest: Nanoseconds,
    /// The part in which other tasks of the CPU execute.
    pub interference: Nanoseconds,
    /// The part in which the device works for others.
    pub device: Nanoseconds,
    /// The part in which the driver executes for others.
    pub driver: Nanoseconds,
    /// The task that executes most of it.
    pub largest: Option<usize>,
    /// The task that the device works for most of it.
    pub rival: Option<usize>,
}

impl Task {
    /// Whether its jobs are never suspended before they end.
    fn never_rests(&self) -> bool {
        self.work.is_none() && self.suspends == Nanoseconds::ZERO
    }
}

impl System {
    /// The bound of each task; `None`: none is known up to its period.
    #[must_use]
    pub fn responses(&self) -> Vec<Option<Response>> {
        let start = |task: usize| Some(Response { longest: Nanoseconds(self.own(task)), ..Response::default() });
        let mut found: Vec<Option<Response>> = (0..self.tasks.len()).map(start).collect();
        let mut steps = STEPS;
        loop {
            let mut next = Vec::with_capacity(found.len());
            for (task, own) in found.iter().enumerate() {
                let response = own.and_then(|own| self.response(task, own.longest.0, &found, &mut steps));
                next.push(response.filter(|response| response.longest <= self.tasks[task].period));
            }
            if steps == 0 {
                return vec![None; self.tasks.len()];
            }
            if next == found {
                return found;
            }
            found = next;
        }
    }

    /// The priorities of the device that let each task meet its deadline, by Audsley's algorithm (1991): the lowest goes to any task
    /// that keeps its deadline with it, and so on upwards. One for each task, smaller first; `None`: none were found.
    ///
    /// A bound depends on the bounds of tasks with higher priority, which are not known yet. As in the source, their deadlines take
    /// the place of these; a result is confirmed by [`System::responses`]. `deadlines`: one for each task, up to its period.
    #[must_use]
    pub fn assign(&self, deadlines: &[Nanoseconds]) -> Option<Vec<u64>> {
        let mut left: Vec<usize> = (0..self.tasks.len()).filter(|task| self.tasks[*task].work.is_some()).collect();
        // The longest deadline is tried first.
        left.sort_by_key(|task| deadlines.get(*task).copied());
        let assumed = |task: &usize| Some(Response { longest: *deadlines.get(*task)?, ..Response::default() });
        let assumed: Vec<Option<Response>> = (0..self.tasks.len()).map(|task| assumed(&task)).collect();
        let mut ranked = self.clone();
        while !left.is_empty() {
            let lowest = left.len() as u64;
            let takes = |task: usize| {
                let mut tried = ranked.clone();
                left.iter().for_each(|other| tried.rank(*other, 0));
                tried.rank(task, lowest);
                let mut steps = STEPS;
                let response = tried.response(task, tried.own(task), &assumed, &mut steps);
                response.is_some_and(|response| deadlines.get(task).is_some_and(|due| response.longest <= *due))
            };
            let place = (0..left.len()).rev().find(|at| takes(left[*at]))?;
            let task = left.remove(place);
            ranked.rank(task, lowest);
        }
        let responses = ranked.responses();
        let keeps =
            |(response, due): (&Option<Response>, &Nanoseconds)| response.is_some_and(|own| own.longest <= *due);
        let ranks = ranked.tasks.iter().map(|task| task.work.map_or(0, |work| work.rank)).collect();
        responses.iter().zip(deadlines).all(keeps).then_some(ranks)
    }

    fn rank(&mut self, task: usize, rank: u64) {
        if let Some(work) = &mut self.tasks[task].work {
            work.rank = rank;
        }
    }

    /// The longest time that the driver executes for others in a window of `length` with a job of `task`; `None`: that is not known.
    fn driver(&self, task: usize, length: u128, found: &[Option<Response>]) -> Option<u128> {
        let is_here = |other: &Task| other.cpu == self.tasks[task].cpu && other.work.is_some();
        if self.completion == Nanoseconds::ZERO || !self.tasks.iter().any(is_here) {
            return Some(0);
        }
        let mut commands = 0u128;
        for (index, other) in self.tasks.iter().enumerate() {
            let Some(work) = other.work else { continue };
            commands += 1;
            if index != task {
                let window = length + u128::from(found[index]?.longest.0);
                commands += window.div_ceil(other.period.0.max(1).into()) * u128::from(work.commands);
            }
        }
        Some(commands * u128::from(self.completion.0))
    }

    /// The time of a job without others.
    fn own(&self, task: usize) -> u64 {
        let one = &self.tasks[task];
        let work = one.work.unwrap_or_default();
        let ends = self.completion.0.saturating_mul(work.commands);
        let parts = [one.execution, one.suspends, work.operations, work.waits, Nanoseconds(ends)];
        parts.into_iter().map(|part| part.0).fold(0, u64::saturating_add)
    }

    /// The bound of `task` with these of the others: the least window not below `from`, if it is not above the period.
    fn response(&self, task: usize, from: u64, found: &[Option<Response>], steps: &mut u64) -> Option<Response> {
        let mut length = u128::from(from);
        let period = u128::from(self.tasks[task].period.0);
        loop {
            *steps = steps.saturating_sub(self.tasks.len() as u64);
            if length > period || *steps == 0 {
                return None;
            }
            let (mut interference, mut device, mut largest, mut rival) = (0, 0, (0, None), (0, None));
            for other in (0..self.tasks.len()).filter(|other| *other != task) {
                let executed = self.executed(task, other, length, found)?;
                let worked = self.worked(task, other, length, found)?;
                (interference, device) = (interference + executed, device + worked);
                largest = largest.max((executed, (executed > 0).then_some(other)));
                rival = rival.max((worked, (worked > 0).then_some(other)));
            }
            let driver = self.driver(task, length, found)?;
            let next = u128::from(self.own(task)) + interference + device + driver;
            if next <= length {
                let time = |part: u128| u64::try_from(part).ok().map(Nanoseconds);
                let [longest, interference, device, driver] = [length, interference, device, driver].map(time);
                return Some(Response {
                    longest: longest?,
                    interference: interference?,
                    device: device?,
                    driver: driver?,
                    largest: largest.1,
                    rival: rival.1,
                });
            }
            length = next;
        }
    }

    /// The longest time that `other` executes before a job of `task` in a window of `length`.
    fn executed(&self, task: usize, other: usize, length: u128, found: &[Option<Response>]) -> Option<u128> {
        let (own, one) = (&self.tasks[task], &self.tasks[other]);
        if own.cpu != one.cpu || own.priority < one.priority {
            return Some(0);
        }
        let jitter = match () {
            () if one.never_rests() && one.priority < own.priority => 0,
            () if one.keeps_word => found[other]?.longest.0.saturating_sub(one.execution.0),
            () => found[other]?.longest.0,
        };
        Some((length + u128::from(jitter)).div_ceil(one.period.0.max(1).into()) * u128::from(one.execution.0))
    }

    /// The longest time that the device works for `other` before a job of `task` in a window of `length`.
    fn worked(&self, task: usize, other: usize, length: u128, found: &[Option<Response>]) -> Option<u128> {
        let (own, one) = (&self.tasks[task], &self.tasks[other]);
        let (Some(own_work), Some(work)) = (own.work, one.work) else { return Some(0) };
        if own_work.rank < work.rank {
            return Some(0);
        }
        let jitter = found[other]?.longest.0.saturating_sub(work.operations.0);
        // On the same CPU updates are execution that is counted.
        let updates = if own.cpu == one.cpu { 0 } else { work.updates.0 };
        let each = u128::from(work.operations.0) + u128::from(work.switching.0) + u128::from(updates);
        Some((length + u128::from(jitter)).div_ceil(one.period.0.max(1).into()) * each)
    }
}

/// The report on `cluster` with these bounds: of each of its tasks, with its number in `system`.
///
/// # Errors
/// [`Infeasible::OnlyInterrupts`].
pub fn report(cluster: &Cluster, system: &System, members: &[usize]) -> Result<Report, Infeasible> {
    let found = system.responses();
    let mut report = report::analyse(cluster, &Overheads::default(), &[])?;
    let mut tasks = Vec::with_capacity(members.len());
    for (declared, member) in cluster.tasks().iter().zip(members) {
        let bound = found[*member].map(|response| {
            let longest = whole(response.longest);
            let lateness = &longest - whole(declared.deadline);
            let dominating = dominating(&system.tasks[*member], &response, members);
            Bound { response: longest, lateness, test: Test::Decided, dominating }
        });
        let hard = match &bound {
            Some(bound) if bound.lateness <= Zero::zero() => Hard::Proved,
            Some(_) => Hard::NotProved(Reason::BoundTooLate),
            None => Hard::NotProved(Reason::NoBound),
        };
        tasks.push(TaskReport { bound, hard, devi_tardiness: None, printed_lateness: None });
    }
    let verdict = match () {
        () if tasks.iter().all(|task| task.hard == Hard::Proved) => Verdict::Proved,
        () if tasks.iter().all(|task| task.bound.is_some()) => Verdict::Bounded,
        () => Verdict::Silent,
    };
    report.tests.retain(|(test, _)| *test == Test::Utilisation);
    let is_overload = report.tests.iter().any(|(_, verdict)| *verdict == Verdict::Overload);
    report.tests.push((Test::Decided, verdict));
    report.bounded = if is_overload { Some(false) } else { (verdict != Verdict::Silent).then_some(true) };
    report.tasks = tasks;
    Ok(report)
}

/// The largest part of a bound. `members`: the tasks of the cluster, by their numbers in the system.
fn dominating(task: &Task, response: &Response, members: &[usize]) -> Term {
    let operations = task.work.map_or(Nanoseconds::ZERO, |work| work.operations);
    let waits = Nanoseconds(response.device.0.saturating_add(response.driver.0));
    let largest = response.largest.and_then(|largest| members.iter().position(|member| *member == largest));
    let interference = largest.map(|largest| (response.interference, Term::Interference { largest }));
    let parts = [
        (task.execution, Term::Execution),
        (task.suspends, Term::Suspension),
        (operations, Term::Operations),
        (waits, Term::Blocking),
    ];
    let parts = parts.into_iter().chain(interference);
    parts.max_by_key(|(span, _)| *span).map_or(Term::Execution, |(_, term)| term)
}
