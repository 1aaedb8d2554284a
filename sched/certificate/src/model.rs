//! The cluster of a certificate as the tests see it: sums checked, latency subtracted.
//!
//! # Invariants
//!
//! 1. No time is longer than [`LONGEST`], and there are at most [`MOST_TASKS`] tasks: with that, sums over all tasks of a number of
//!    jobs times a cost fit 128 bits.
//! 2. Periods are above zero, and so are costs.

use std::cell::OnceCell;

use num_bigint::BigInt;
use num_rational::BigRational;

use crate::format::{By, Cluster, Policy, Task};
use crate::refusal::{Condition, Failed, Refusal, at_most, unlike};

/// The longest time that is checked: 2^57 ns, more than four years.
pub(crate) const LONGEST: u64 = 1 << 57;

/// The largest number of tasks in a cluster.
pub(crate) const MOST_TASKS: usize = 1 << 10;

/// The largest number of tasks that the check of a cluster looks at, again and again: seconds of the host's time.
const MOST_STEPS: u64 = 1 << 26;

/// A task as the tests see it. All times are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// The cost; `None`: it is more than the period.
    pub(crate) cost: Option<u128>,
    /// The part of the cost in which the job executes.
    pub(crate) executing: u128,
    pub(crate) period: u128,
    pub(crate) deadline: u128,
    /// The relative priority point under EDF and FL, the priority otherwise: the smaller is first.
    pub(crate) point: i128,
}

/// A cluster as the tests see it.
pub(crate) struct Model<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) cpus: u128,
    pub(crate) loads: Vec<Load>,
    /// The number of CPUs that the tasks cannot do without, once it is known.
    pub(crate) needed: OnceCell<usize>,
}

/// The number of steps that are left.
pub(crate) struct Effort(u64);

impl Effort {
    pub(crate) fn new() -> Effort {
        Effort(MOST_STEPS)
    }

    /// Takes `steps`.
    pub(crate) fn take(&mut self, steps: usize) -> Result<(), Failed> {
        let left = u64::try_from(steps).ok().and_then(|steps| self.0.checked_sub(steps));
        self.0 = left.ok_or_else(|| unlike(Condition::Effort, u128::from(MOST_STEPS) + 1, MOST_STEPS.into()))?;
        Ok(())
    }
}

impl Model<'_> {
    /// The model of `cluster`.
    pub(crate) fn new(cluster: &Cluster) -> Result<Model<'_>, Refusal> {
        let whole = |failed: Failed| failed.of(&cluster.name, None);
        at_most(Condition::Count, cluster.tasks.len() as u128, MOST_TASKS as u128).map_err(whole)?;
        at_most(Condition::Positive, 1, cluster.cpus.into()).map_err(whole)?;
        at_most(Condition::Longest, cluster.latency.into(), LONGEST.into()).map_err(whole)?;
        let load = |task: &Task| load(cluster, task).map_err(|failed| failed.of(&cluster.name, Some(&task.name)));
        let loads = cluster.tasks.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Model { cluster, cpus: cluster.cpus.into(), loads, needed: OnceCell::new() })
    }

    /// Whether jobs are ordered by points after their releases.
    pub(crate) fn is_by_deadline(&self) -> bool {
        matches!(self.cluster.policy, Policy::Edf | Policy::Fl)
    }

    /// All tasks but `own`, with their numbers.
    pub(crate) fn others(&self, own: usize) -> impl Iterator<Item = (usize, &Load)> {
        self.loads.iter().enumerate().filter(move |(other, _)| *other != own)
    }

    /// An error unless the cluster has one CPU.
    pub(crate) fn has_one_cpu(&self) -> Result<(), Failed> {
        at_most(Condition::Cpus, self.cpus, 1)
    }

    /// An error unless the policy is one of these.
    pub(crate) fn is_by(&self, policies: &[Policy]) -> Result<(), Failed> {
        if policies.contains(&self.cluster.policy) { Ok(()) } else { Err(Failed::plain(Condition::Policy)) }
    }

    /// The cost of a task that needs no more than its period.
    pub(crate) fn cost(&self, task: usize) -> Result<u128, Failed> {
        let Load { cost, period, .. } = self.loads[task];
        cost.ok_or_else(|| {
            unlike(Condition::Rests, self.cluster.tasks[task].cost.map_or(period + 1, u128::from), period)
        })
    }

    /// The costs of all tasks, each of which needs no more than its period.
    pub(crate) fn costs(&self) -> Result<Vec<u128>, Failed> {
        (0..self.loads.len()).map(|task| self.cost(task)).collect()
    }

    /// The smallest bound of `task`, counted from its release, among claims that rest on tests for which `is_below`.
    pub(crate) fn claimed(&self, task: usize, is_below: impl Fn(&By) -> bool) -> Option<u128> {
        let claims = self.cluster.tasks[task].claims.iter().filter(|claim| is_below(&claim.by));
        claims.map(|claim| u128::from(claim.response.saturating_sub(self.cluster.latency))).min()
    }
}

/// A list of a witness, which has one entry for each task.
pub(crate) fn each<'a, T>(model: &Model<'_>, list: &'a Option<Vec<T>>) -> Result<&'a [T], Failed> {
    let list = list.as_deref().filter(|list| list.len() == model.loads.len());
    list.ok_or(Failed::plain(Condition::Witness))
}

/// A fraction.
pub(crate) fn ratio(numerator: impl Into<BigInt>, denominator: impl Into<BigInt>) -> BigRational {
    BigRational::new(numerator.into(), denominator.into())
}

fn load(cluster: &Cluster, task: &Task) -> Result<Load, Failed> {
    let spans = [task.period, task.deadline, task.expected, task.cost.unwrap_or(1)];
    let claims = task.claims.iter().map(|claim| claim.response);
    for span in spans.into_iter().chain(claims) {
        at_most(Condition::Longest, span.into(), LONGEST.into())?;
    }
    at_most(Condition::Positive, 1, task.period.into())?;
    let sum = |waits: bool| {
        let parts = task.parts.iter().filter(|part| waits || !part.waits);
        parts.map(|part| u128::from(part.span)).sum::<u128>()
    };
    if let Some(cost) = task.cost {
        at_most(Condition::Positive, 1, cost.into())?;
        at_most(Condition::Latency, u128::from(cluster.latency) + 1, task.period.into())?;
        at_most(Condition::Latency, cluster.latency.into(), task.deadline.into())?;
        if sum(true) != u128::from(cost) {
            return Err(unlike(Condition::Parts, sum(true), cost.into()));
        }
    }
    let before = |span: u64| u128::from(span.saturating_sub(cluster.latency));
    let period = before(task.period).max(1);
    let share = task.expected - task.expected.div_ceil(u64::from(cluster.cpus));
    let point = match cluster.policy {
        Policy::Edf => i128::from(task.deadline),
        Policy::Fl => i128::from(task.deadline) - i128::from(share),
        Policy::Rm => task.period.into(),
        Policy::Dm => task.deadline.into(),
        Policy::Fp => task.priority.into(),
    };
    Ok(Load {
        cost: task.cost.map(u128::from).filter(|cost| *cost <= period),
        executing: sum(false),
        period,
        deadline: before(task.deadline),
        point,
    })
}
