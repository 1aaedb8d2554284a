//! Tasks and clusters, checked once.
//!
//! # Invariants
//!
//! 1. A [`Cluster`] has a CPU; its tasks have execution times and periods above zero.
//! 2. No time in it is longer than [`LONGEST`]. With that, all integer arithmetic of this crate fits its types.

use std::fmt;

use fusee_sched::key::{Policy as _, PolicyName, PriorityPoint, TaskParameters};
use fusee_sched::time::Nanoseconds;

/// The longest time that is analysed: 2^56 ns, more than two years; the longest that the scheduler's FL can order.
pub const LONGEST: Nanoseconds = fusee_sched::key::FAIR_LATENESS_OFFSET;

/// One sporadic task. Its deadline may be shorter than, equal to or longer than its period.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Task {
    /// Worst-case execution time `e`.
    pub execution: Nanoseconds,
    /// Least time between releases `p`.
    pub period: Nanoseconds,
    /// Relative deadline `d`.
    pub deadline: Nanoseconds,
    /// Priority by decree: 1 is the most urgent. Only FP looks at it.
    pub priority: u32,
}

impl Task {
    /// The parameters that a policy may use, in a cluster of `cpus`.
    #[must_use]
    pub fn parameters(&self, cpus: u32) -> TaskParameters {
        let Task { execution, period, deadline, priority } = *self;
        TaskParameters { execution, period, deadline, priority, cpus }
    }

    /// Whether all jobs of this task come before all jobs of `other` under `policy`, which has constant points then.
    #[must_use]
    pub fn always_precedes(&self, other: &Task, policy: PolicyName) -> bool {
        let points = [self, other].map(|task| policy.priority_point(&task.parameters(1)));
        matches!(points, [PriorityPoint::Constant(own), PriorityPoint::Constant(other)] if own < other)
    }
}

/// Interference by a boosted server. It has priority over all tasks of a cluster and occupies one CPU of the cluster at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Above {
    /// The longest time in each period.
    pub span: Nanoseconds,
    /// The period, above zero.
    pub period: Nanoseconds,
    /// The time by which the instants at which it begins may depart from being a period apart.
    pub jitter: Nanoseconds,
}

/// Something that interrupts a cluster's CPUs, as the jobs of some task have it do: the top halves of one client's operations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interrupting {
    /// Interrupts of each job.
    pub times: u32,
    /// Least time between releases of those jobs.
    pub period: Nanoseconds,
    /// Jobs that can be pending at one instant.
    pub pending: u32,
}

/// Tasks that share CPUs and one queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cluster {
    cpus: u32,
    policy: PolicyName,
    tasks: Vec<Task>,
    /// The tasks as the policy sees them.
    scheduled: Vec<Task>,
    /// The work that comes before the tasks.
    above: Vec<Above>,
    /// The interrupts of its CPUs besides releases and ticks.
    interrupting: Vec<Interrupting>,
    /// The first release of each task, if the clock alone releases jobs.
    phases: Option<Vec<Nanoseconds>>,
}

impl Cluster {
    /// Checks and keeps a cluster.
    ///
    /// # Errors
    /// The first value no cluster can have.
    pub fn new(cpus: u32, policy: PolicyName, tasks: Vec<Task>) -> Result<Cluster, Nonsense> {
        if cpus == 0 {
            return Err(Nonsense::NoCpus);
        }
        for (task, one) in tasks.iter().enumerate() {
            let longest = one.execution.max(one.period).max(one.deadline);
            match () {
                () if one.execution == Nanoseconds::ZERO => return Err(Nonsense::NoExecution { task }),
                () if one.period == Nanoseconds::ZERO => return Err(Nonsense::NoPeriod { task }),
                () if longest > LONGEST => return Err(Nonsense::TooLong { task, time: longest }),
                () => {}
            }
        }
        let scheduled = tasks.clone();
        Ok(Cluster { cpus, policy, tasks, scheduled, above: Vec::new(), interrupting: Vec::new(), phases: None })
    }

    /// This cluster with these execution times for its policy: where budgets are enforced, a job may execute for its budget, but FL
    /// computes priority points from the expected execution. One for each task; tasks without one keep theirs.
    #[must_use]
    pub fn expecting(mut self, executions: &[Nanoseconds]) -> Cluster {
        for (task, execution) in self.scheduled.iter_mut().zip(executions) {
            task.execution = *execution;
        }
        self
    }

    /// This cluster, with this work before all tasks.
    #[must_use]
    pub fn below(self, above: Vec<Above>) -> Cluster {
        Cluster { above, ..self }
    }

    /// The work that comes before all tasks.
    #[must_use]
    pub fn above(&self) -> &[Above] {
        &self.above
    }

    /// This cluster, with CPUs that serve these interrupts, too. Periods must not be zero.
    #[must_use]
    pub fn interrupted_by(mut self, interrupting: Vec<Interrupting>) -> Cluster {
        self.interrupting = interrupting;
        self
    }

    /// The interrupts of its CPUs besides releases and ticks.
    #[must_use]
    pub fn interrupting(&self) -> &[Interrupting] {
        &self.interrupting
    }

    /// This cluster with jobs that the clock alone releases: of each task the first at its phase, and each a period after the one before.
    ///
    /// A caller vouches for more than the releases. Until it is complete each job is ready: it waits for nothing, and no thread waits
    /// for it. It is done after `execution` on a CPU, or earlier. It keeps the priority point of its release, and no other real-time
    /// work competes in the cluster. `fusee_sched_analysis::reachability` has the reasons. Phases without a task, or tasks without a
    /// phase, are as good as no phases.
    #[must_use]
    pub fn released_by_clock(mut self, phases: Vec<Nanoseconds>) -> Cluster {
        self.phases = (phases.len() == self.tasks.len()).then_some(phases);
        self
    }

    /// The first release of each task after a common instant, if the clock alone releases jobs.
    #[must_use]
    pub fn phases(&self) -> Option<&[Nanoseconds]> {
        self.phases.as_deref()
    }

    /// This cluster with other tasks, which must keep the invariants.
    pub(crate) fn with_tasks(&self, tasks: Vec<Task>) -> Cluster {
        Cluster { tasks, ..self.clone() }
    }

    /// The CPUs `m` of the cluster, at least one.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// The policy that orders its jobs.
    #[must_use]
    pub fn policy(&self) -> PolicyName {
        self.policy
    }

    /// The tasks of the cluster.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The tasks of the cluster as the policy sees them.
    pub(crate) fn scheduled(&self) -> &[Task] {
        &self.scheduled
    }

    /// Whether jobs are ordered by their deadlines. FL on one CPU is EDF.
    #[must_use]
    pub fn is_earliest_deadline_first(&self) -> bool {
        self.policy == PolicyName::Edf || (self.policy == PolicyName::Fl && self.cpus == 1)
    }
}

/// The reason why something is no cluster. Tasks are counted from zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Nonsense {
    /// No CPUs.
    NoCpus,
    /// A task that never computes.
    NoExecution {
        /// The number of the task.
        task: usize,
    },
    /// A task released infinitely often.
    NoPeriod {
        /// The number of the task.
        task: usize,
    },
    /// A time beyond [`LONGEST`].
    TooLong {
        /// The number of the task.
        task: usize,
        /// The time.
        time: Nanoseconds,
    },
}

impl fmt::Display for Nonsense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Nonsense::NoCpus => write!(f, "a cluster needs a CPU"),
            Nonsense::NoExecution { task } => write!(f, "task {task}: its execution time is zero"),
            Nonsense::NoPeriod { task } => write!(f, "task {task}: its period is zero"),
            Nonsense::TooLong { task, time } => {
                write!(f, "task {task}: {} ns is longer than {} ns", time.0, LONGEST.0)
            }
        }
    }
}

impl std::error::Error for Nonsense {}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(execution: u64, period: u64) -> Result<Cluster, Nonsense> {
        let (execution, period) = (Nanoseconds(execution), Nanoseconds(period));
        Cluster::new(1, PolicyName::Edf, vec![Task { execution, period, deadline: period, priority: 1 }])
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert_eq!(Cluster::new(0, PolicyName::Edf, Vec::new()), Err(Nonsense::NoCpus));
        assert_eq!(one(0, 5), Err(Nonsense::NoExecution { task: 0 }));
        assert_eq!(one(5, 0), Err(Nonsense::NoPeriod { task: 0 }));
        let time = Nanoseconds(LONGEST.0 + 1);
        assert_eq!(one(5, time.0), Err(Nonsense::TooLong { task: 0, time }));
        assert!(one(LONGEST.0, LONGEST.0).is_ok());
    }

    #[test]
    fn a_task_precedes_another_where_its_constant_point_is_earlier() {
        let task = |period, deadline, priority| {
            let [execution, period, deadline] = [1, period, deadline].map(Nanoseconds);
            Task { execution, period, deadline, priority }
        };
        let (one, other) = (task(5, 9, 2), task(7, 8, 2));
        let precedes = |one: Task, other| PolicyName::ALL.map(|policy| one.always_precedes(&other, policy));
        // EDF, FL, RM, DM, FP.
        assert_eq!(precedes(one, other), [false, false, true, false, false]);
        assert_eq!(precedes(other, one), [false, false, false, true, false]);
        assert_eq!(precedes(task(5, 9, 1), other), [false, false, true, false, true]);
    }
}
