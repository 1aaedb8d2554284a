//! The costs of the kernel itself: tasks are inflated until a plain test may ignore them.
//!
//! *Preemption-centric:* each job pays for the preemptions it causes, so that no other has to. Releases, and ticks if there are
//! any, are interrupts that may hit any job; as virtual tasks of the highest priority they take a share of each CPU, and once more
//! at each point where a job starts or resumes.
//!
//! Top halves of devices are such virtual tasks as well ([`Interrupting`]), of all lines that lead to a CPU of the cluster, for all
//! users of the device. A client's job raises so many at most, so within `L` there are as many as jobs execute in it: those
//! released within `L`, at most `L / p + 1`, and those pending before. Elliott 2015 charges them to the tasks that they may hit by
//! their number within a response time (4.46, 4.47); here they have a share of each CPU, and all that may come at once hits each
//! point.
//!
//! In Fusee only a cluster's timekeeper serves releases. To charge them to all its CPUs is safe.
//!
//! Rounded against the task: execution times up to whole nanoseconds. Periods and deadlines stay whole.
//!
//! Not here: how long a lock's waiters block (`blocking`). It comes in as a number ([`Locking`]).
//!
//! # Source
//! Brandenburg 2011; Elliott 2015, eq. 2.41, 2.47, 2.49 to 2.52, 4.46 and 4.47.

use std::fmt;

use fusee_sched::time::Nanoseconds;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

use crate::task::{Above, Cluster, Interrupting, Task};
use crate::utilisation::Utilisations;
use crate::{plus, whole};

/// Upper bounds on the kernel's costs. All may be zero.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Overheads {
    /// Choosing the next job.
    pub schedule: Nanoseconds,
    /// The interrupt that releases a job.
    pub release: Nanoseconds,
    /// Into the kernel and out by an interrupt that releases nothing.
    pub interrupt: Nanoseconds,
    /// The periodic tick, if there is one.
    pub tick: Nanoseconds,
    /// Switching to another thread.
    pub context_switch: Nanoseconds,
    /// The loss of a job by a preemption or migration, because its cache is cold.
    pub cache_delay: Nanoseconds,
    /// The loss of a job by an interrupt.
    pub cache_interrupt: Nanoseconds,
    /// The time from an event to its handler; takes no CPU time.
    pub event_latency: Nanoseconds,
    /// The time from one CPU's request to another's interrupt; takes no CPU time.
    pub interprocessor_interrupt: Nanoseconds,
    /// Entering the kernel by a call.
    pub call_in: Nanoseconds,
    /// Leaving it.
    pub call_out: Nanoseconds,
    /// The acquisition of a lock without a holder.
    pub lock: Nanoseconds,
    /// Releasing one.
    pub unlock: Nanoseconds,
    /// Time between ticks; zero: no ticks.
    pub tick_period: Nanoseconds,
}

/// The costs of a task's locks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Locking {
    /// Requests of each job.
    pub requests: u32,
    /// The longest time that a job is suspended for its own operations of engines.
    pub operations: Nanoseconds,
    /// The longest time that a job suspends itself otherwise.
    pub suspends: Nanoseconds,
    /// The longest time that a job can be blocked in all, with critical sections as long as those of [`Overheads::section`].
    pub blocking: Nanoseconds,
}

/// The reason why a task cannot pay for the kernel. Tasks are counted from zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Infeasible {
    /// Interrupts leave no time for any task.
    OnlyInterrupts,
    /// The period or deadline of a task is not longer than the latency of its release.
    TooShort {
        /// The number of the task.
        task: usize,
    },
    /// A task needs more than a CPU.
    TooLong {
        /// The number of the task.
        task: usize,
    },
}

impl fmt::Display for Infeasible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Infeasible::OnlyInterrupts => write!(f, "interrupts leave no time for tasks"),
            Infeasible::TooShort { task } => {
                write!(f, "task {task}: its period or deadline is over before its release is handled")
            }
            Infeasible::TooLong { task } => write!(f, "task {task}: with overheads it needs more than a CPU"),
        }
    }
}

impl std::error::Error for Infeasible {}

impl Infeasible {
    /// The task that does not fit, if it is one.
    #[must_use]
    pub fn task(&self) -> Option<usize> {
        match *self {
            Infeasible::OnlyInterrupts => None,
            Infeasible::TooShort { task } | Infeasible::TooLong { task } => Some(task),
        }
    }
}

impl Locking {
    /// The time for which a job does not execute, and waits.
    pub(crate) fn waits(&self) -> Nanoseconds {
        self.operations + self.suspends + self.blocking
    }
}

impl Overheads {
    /// The cost called `name`, which is the name of its field.
    pub fn by_name(&mut self, name: &str) -> Option<&mut Nanoseconds> {
        Some(match name {
            "schedule" => &mut self.schedule,
            "release" => &mut self.release,
            "interrupt" => &mut self.interrupt,
            "tick" => &mut self.tick,
            "context_switch" => &mut self.context_switch,
            "cache_delay" => &mut self.cache_delay,
            "cache_interrupt" => &mut self.cache_interrupt,
            "event_latency" => &mut self.event_latency,
            "interprocessor_interrupt" => &mut self.interprocessor_interrupt,
            "call_in" => &mut self.call_in,
            "call_out" => &mut self.call_out,
            "lock" => &mut self.lock,
            "unlock" => &mut self.unlock,
            "tick_period" => &mut self.tick_period,
            _ => return None,
        })
    }

    /// The time that a critical section of `length` can keep others waiting, if its holder can be preempted.
    ///
    /// # Source
    /// Elliott 2015, eq. 2.47.
    #[must_use]
    pub fn section(&self, length: Nanoseconds) -> Nanoseconds {
        let switches = sum(&[(2, self.schedule), (2, self.context_switch)]);
        let calls = sum(&[(1, self.call_in), (1, self.call_out), (1, self.unlock), (1, self.interprocessor_interrupt)]);
        length + switches + calls
    }

    /// The cost of the top half of a device's interrupt. It wakes a thread and makes a scheduling decision, as the release of a job does.
    #[must_use]
    pub fn top_half(&self) -> Nanoseconds {
        self.interrupt + self.release.max(self.schedule + self.context_switch) + self.cache_interrupt
    }

    /// The cost of each request for the job that makes it.
    ///
    /// # Source
    /// Elliott 2015, eq. 2.49.
    pub(crate) fn request(&self) -> Nanoseconds {
        sum(&[
            (2, self.call_in),
            (2, self.call_out),
            (1, self.lock),
            (1, self.unlock),
            (3, self.schedule),
            (3, self.context_switch),
            (2, self.cache_delay),
            (1, self.interprocessor_interrupt),
        ])
    }
}

/// The sum of `count * span`; saturates, and then no period is long enough.
pub(crate) fn sum(terms: &[(u64, Nanoseconds)]) -> Nanoseconds {
    let spans = terms.iter().map(|(count, span)| Nanoseconds(span.0.saturating_mul(*count)));
    spans.fold(Nanoseconds::ZERO, |sum, span| sum + span)
}

/// The most that `all` takes at once, and its share of a CPU: in an interval of length t with n = ceil((t + jitter) / period) spans
/// at most, n * span <= t * span / period + span + jitter * span / period.
fn above(all: &[Above]) -> (BigRational, BigRational) {
    let mut sum = (BigRational::zero(), BigRational::zero());
    for one in all {
        let share = BigRational::new(one.span.0.into(), one.period.0.into());
        sum.0 += plus(&(whole(one.jitter) * &share), one.span.0);
        sum.1 += share;
    }
    sum
}

/// The cluster whose plain analysis holds for `cluster` on a kernel with these costs. Tasks without an entry in
/// `locking` use no locks.
///
/// The new releases are `event_latency` later than the old ones, so that a response time is that much longer;
/// lateness is the same.
///
/// # Errors
/// The task that does not fit any more.
///
/// # Source
/// Elliott 2015, eq. 2.41 and 2.50 to 2.52: steps 3 to 5.
pub fn inflate(cluster: &Cluster, costs: &Overheads, locking: &[Locking]) -> Result<Cluster, Infeasible> {
    let (inflated, infeasible) = inflate_each(cluster, costs, locking)?;
    infeasible.first().map_or(Ok(inflated), |why| Err(*why))
}

/// The inflated cluster, and the tasks that do not fit: each is taken to want a CPU for longer than its period, so that it has no
/// bound, and takes all that one task can from the others.
///
/// # Errors
/// [`Infeasible::OnlyInterrupts`].
pub fn inflate_each(
    cluster: &Cluster,
    costs: &Overheads,
    locking: &[Locking],
) -> Result<(Cluster, Vec<Infeasible>), Infeasible> {
    let interrupt = costs.release + costs.cache_interrupt;
    let releases: Vec<Task> = cluster.tasks().iter().map(|task| Task { execution: interrupt, ..*task }).collect();
    let releases_share = Utilisations::of(&releases).total();
    let (tick, tick_share) = match costs.tick_period.0 {
        0 => (Nanoseconds::ZERO, BigRational::zero()),
        period => {
            let tick = costs.tick + costs.cache_interrupt;
            (tick, BigRational::new(tick.0.into(), period.into()))
        }
    };
    // Work above all tasks takes from an interval of length t at most t * span / period, and once a span and its jitter.
    let (above, above_share) = above(cluster.above());
    let top_half = costs.top_half();
    let top_halves = |one: &Interrupting| BigRational::new(BigInt::from(top_half.0) * one.times, one.period.0.into());
    let top_halves: BigRational = cluster.interrupting().iter().map(top_halves).sum();
    let at_once = |one: &Interrupting| BigInt::from(top_half.0) * one.times * (u64::from(one.pending) + 1);
    let top_halves_at_once: BigInt = cluster.interrupting().iter().map(at_once).sum();
    let interrupts = tick_share + releases_share + top_halves + above_share;
    let left = plus(&-&interrupts, 1);
    if left <= BigRational::zero() {
        return Err(Infeasible::OnlyInterrupts);
    }
    let at_once = BigInt::from(tick.0) + BigInt::from(interrupt.0) * releases.len() + top_halves_at_once;
    let at_each_point = plus(&(whole(costs.event_latency) * interrupts + above), at_once) / &left;

    let inflate = |(index, task): (usize, &Task)| {
        let own = locking.get(index).copied().unwrap_or_default();
        let (requests, waits) = (own.requests, own.waits());
        let switches = sum(&[(2, costs.schedule), (2, costs.context_switch), (1, costs.cache_delay)]);
        let locks = sum(&[(u64::from(requests), costs.request())]);
        let work = whole(task.execution + waits + locks + switches) / &left;
        let points = BigRational::from_integer((u64::from(requests) + 2).into()) * &at_each_point;
        let execution = (work + points + whole(costs.interprocessor_interrupt)).ceil();
        let latency = costs.event_latency;
        if latency >= task.period || latency > task.deadline {
            return Err(Infeasible::TooShort { task: index });
        }
        let period = task.period.saturating_sub(latency);
        let execution = execution.to_integer().to_u64().filter(|execution| *execution <= period.0);
        let execution = Nanoseconds(execution.ok_or(Infeasible::TooLong { task: index })?);
        Ok(Task { execution, period, deadline: task.deadline.saturating_sub(latency), priority: task.priority })
    };
    let mut infeasible = Vec::new();
    let or_too_long = |(index, task): (usize, &Task)| {
        inflate((index, task)).unwrap_or_else(|why| {
            infeasible.push(why);
            // Shorter by the latency as those of the others, so that the order of periods and deadlines stays.
            let period = task.period.saturating_sub(costs.event_latency).max(Nanoseconds(1));
            let deadline = task.deadline.saturating_sub(costs.event_latency);
            Task { execution: period + Nanoseconds(1), period, deadline, priority: task.priority }
        })
    };
    let tasks = cluster.tasks().iter().enumerate().map(or_too_long).collect();
    Ok((cluster.with_tasks(tasks), infeasible))
}

#[cfg(test)]
mod tests {
    use fusee_sched::key::PolicyName;

    use super::*;

    fn cluster(triples: &[(u64, u64, u64)]) -> Cluster {
        let task = |&(e, p, d): &(u64, u64, u64)| Task {
            execution: Nanoseconds(e),
            period: Nanoseconds(p),
            deadline: Nanoseconds(d),
            priority: 7,
        };
        Cluster::new(2, PolicyName::Edf, triples.iter().map(task).collect()).unwrap()
    }

    fn costs(list: &[(&str, u64)]) -> Overheads {
        let mut costs = Overheads::default();
        list.iter().for_each(|(name, cost)| *costs.by_name(name).unwrap() = Nanoseconds(*cost));
        costs
    }

    fn triples(cluster: &Cluster) -> Vec<(u64, u64, u64)> {
        cluster.tasks().iter().map(|task| (task.execution.0, task.period.0, task.deadline.0)).collect()
    }

    #[test]
    fn a_kernel_that_costs_nothing_changes_nothing() {
        let before = cluster(&[(3, 10, 8), (1 << 55, 1 << 56, 1 << 56)]);
        assert_eq!(inflate(&before, &Overheads::default(), &[]), Ok(before));
    }

    /// Releases take 30 of 1000 and 30 of 2000: 0.045, so 0.955 is left. Each point where a job starts or resumes
    /// costs (0.045 * 10 + 60) / 0.955 = 63.298... The first job then needs
    /// (200 + 2 (5 + 7) + 11) / 0.955 + 2 * 63.298... + 4 = 376.67.
    #[test]
    fn a_tickless_kernel_is_paid_for_by_shares_points_and_switches() {
        let costs = costs(&[
            ("release", 20),
            ("cache_interrupt", 10),
            ("event_latency", 10),
            ("schedule", 5),
            ("context_switch", 7),
            ("cache_delay", 11),
            ("interprocessor_interrupt", 4),
            ("tick", 1_000),
        ]);
        let inflated = inflate(&cluster(&[(200, 1_000, 900), (400, 2_000, 2_000)]), &costs, &[]).unwrap();
        assert_eq!(triples(&inflated), [(377, 990, 890), (587, 1_990, 1_990)]);
    }

    /// A tick of 40 + 10 each 500 takes a tenth; releases cost 10 of 1000: 0.89 is left, and a point costs
    /// (50 + 10) / 0.89. A job with two requests of 2 * 3 + 2 * 2 + 8 + 6 = 24, operations of 12, sleeps of 7 and blocking of 100 needs
    /// (100 + 119 + 48) / 0.89 + 4 * 60 / 0.89 = 300 + 269.66.
    #[test]
    fn ticks_requests_and_blocking_are_paid_for_too() {
        let costs = costs(&[
            ("tick", 40),
            ("tick_period", 500),
            ("cache_interrupt", 10),
            ("call_in", 3),
            ("call_out", 2),
            ("lock", 8),
            ("unlock", 6),
        ]);
        let (operations, suspends) = (Nanoseconds(12), Nanoseconds(7));
        let locking = [Locking { requests: 2, operations, suspends, blocking: Nanoseconds(100) }];
        let inflated = inflate(&cluster(&[(100, 1_000, 1_000)]), &costs, &locking).unwrap();
        assert_eq!(triples(&inflated), [(570, 1_000, 1_000)]);
        assert_eq!(costs.section(Nanoseconds(50)), Nanoseconds(50 + 3 + 2 + 6));
    }

    /// Jobs of another cluster, each 2,000 and two of them pending, raise two interrupts of 4 + 6 + 10 each: 0.02 and 120 at once.
    /// Releases cost 16 of 1,000: 0.964 is left, and a point is (16 + 120) / 0.964. The job needs 500 / 0.964 + 2 * 136 / 0.964.
    #[test]
    fn top_halves_of_devices_are_paid_for_by_those_they_hit() {
        let costs = costs(&[("interrupt", 4), ("release", 6), ("cache_interrupt", 10)]);
        let hit = |times| {
            let interrupting = Interrupting { times, period: Nanoseconds(2_000), pending: 2 };
            let cluster = cluster(&[(500, 1_000, 1_000)]).interrupted_by(vec![interrupting]);
            inflate(&cluster, &costs, &[]).map(|inflated| inflated.tasks()[0].execution.0)
        };
        assert_eq!(costs.top_half(), Nanoseconds(20));
        assert_eq!(hit(2), Ok(801));
        assert_eq!(hit(100), Err(Infeasible::OnlyInterrupts));
    }

    /// Two tasks of one period tie, also if one of them cannot pay: neither has a bound then under fixed priorities.
    #[test]
    fn a_task_that_cannot_pay_keeps_its_place_in_the_order() {
        let before = cluster(&[(5, 100, 100), (200, 100, 100), (1, 5, 5)]);
        let (inflated, infeasible) = inflate_each(&before, &costs(&[("event_latency", 7)]), &[]).unwrap();
        assert_eq!(infeasible, [Infeasible::TooLong { task: 1 }, Infeasible::TooShort { task: 2 }]);
        assert_eq!(triples(&inflated), [(5, 93, 93), (94, 93, 93), (2, 1, 0)]);
        let cluster = Cluster::new(1, PolicyName::Rm, before.tasks()[..2].to_vec()).unwrap();
        let report = crate::report::analyse(&cluster, &costs(&[("event_latency", 7)]), &[]).unwrap();
        assert_eq!(report.tasks[0].bound, None);
    }

    #[test]
    fn what_cannot_pay_is_named() {
        let tasks = cluster(&[(5, 100, 100), (50, 80, 20)]);
        let refused = |list: &[(&str, u64)]| inflate(&tasks, &costs(list), &[]);
        assert_eq!(refused(&[("release", 60)]), Err(Infeasible::OnlyInterrupts));
        assert_eq!(refused(&[("event_latency", 21)]), Err(Infeasible::TooShort { task: 1 }));
        assert_eq!(refused(&[("schedule", 16)]), Err(Infeasible::TooLong { task: 1 }));
        assert_eq!(refused(&[("schedule", u64::MAX)]), Err(Infeasible::TooLong { task: 0 }));
    }
}
