//! The form of a certificate, in which all times are whole nanoseconds. Its text is JSON, by any crate for `serde`.
//!
//! Not here: such a crate. With one, comparisons of numbers in crates that use this one would have several meanings.

use serde::{Deserialize, Serialize};

/// The version of the format that this crate reads and writes.
pub const FORMAT: u32 = 1;

/// The claims on one system.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The version of the format, [`FORMAT`].
    pub format: u32,
    /// The name of the system.
    pub system: String,
    /// The clusters of the system. Each is looked at by itself.
    pub clusters: Vec<Cluster>,
}

/// Tasks that share CPUs and one queue.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The name of the cluster.
    pub name: String,
    /// CPUs `m`, at least one.
    pub cpus: u32,
    /// The order of jobs.
    pub policy: Policy,
    /// The longest time from an event to the release of its job. Periods and deadlines are shorter by it for the tests, and response
    /// times are longer.
    pub latency: u64,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The witnesses of claims that rest on the whole cluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub witness: Witness,
}

/// The order of jobs in a cluster.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Policy {
    /// Earliest deadline first.
    Edf,
    /// Fair lateness: deadlines, less `e - ceil(e / m)`.
    Fl,
    /// The shorter period first.
    Rm,
    /// The shorter relative deadline first.
    Dm,
    /// The smaller number first.
    Fp,
}

/// One sporadic task.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The name of the task.
    pub name: String,
    /// The least time between events.
    pub period: u64,
    /// The time from an event to the deadline.
    pub deadline: u64,
    /// The priority: 1 is the most urgent. Only FP looks at it.
    pub priority: u32,
    /// The execution that FL takes priority points from.
    pub expected: u64,
    /// The longest execution of a job for the tests, with its waits and the costs of the kernel. Without one the task needs more
    /// than its period, and takes a CPU from the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// The parts of the cost. Their sum is the cost.
    pub parts: Vec<Part>,
    /// Bounds with a witness.
    pub claims: Vec<Claim>,
    /// Bounds without a form of witness.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uncertified: Vec<Uncertified>,
    /// The conditions of the bounds that stand outside the model, in words.
    #[serde(default, skip_serializing_if = "is_default")]
    pub assumes: Vec<String>,
}

/// A named part of a cost.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The cause.
    pub name: String,
    /// The time.
    pub span: u64,
    /// Whether the job waits meanwhile, and leaves its CPU to others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waits: bool,
}

/// A bound with a witness.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The longest time from an event to the end of its job.
    pub response: u64,
    /// Whether no job ends after its deadline.
    pub meets: bool,
    /// The test, with the witness of this task.
    pub by: By,
}

/// A bound without a witness.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Uncertified {
    /// The longest time from an event to the end of its job.
    pub response: u64,
    /// The name of the test.
    pub test: String,
    /// The reason why there is no witness.
    pub why: String,
}

/// The test that a claim rests on.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "test")]
pub enum By {
    /// The cluster has no more tasks than CPUs.
    OwnCpu,
    /// Fixed priorities on one CPU: a busy window, and instants at which its jobs are complete.
    FixedPriorities {
        /// A length of time in which this task and those that may come before it are done with all their work.
        busy: u64,
        /// Instants, in ascending order, counted from the beginning of the window.
        instants: Vec<u64>,
    },
    /// EDF on one CPU: [`Witness::busy`], and instants at which jobs of each offset are complete.
    Deadlines {
        /// Instants, in ascending order, counted from the beginning of the window.
        instants: Vec<u64>,
    },
    /// EDF on one CPU: no more work is due than there is time ([`Witness::demand`]).
    Demand,
    /// Global EDF: small densities.
    Density,
    /// Global EDF and FL: [`Witness::fixed_point`].
    Compliant,
    /// Global EDF with deadlines as long as periods: [`Witness::tardiness`].
    Tardiness,
    /// The work of others while a job waits: [`Witness::delays`].
    Interference,
    /// The execution of others in a window: [`Witness::windows`].
    Windows,
    /// One CPU, with the suspension of others as jitter: [`Witness::suspension`].
    Suspension,
}

/// The witnesses for a cluster. All lists have one entry for each task, but for `demand`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Witness {
    /// A length of time in which all tasks of a CPU are done with all their work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<u64>,
    /// Lengths of windows, in ascending order: the work due in any window shorter than one of them is no more than the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand: Option<Vec<u64>>,
    /// A bound `s` on the work that is left at a priority point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_point: Option<u64>,
    /// The part of tardiness that all tasks have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tardiness: Option<u64>,
    /// The longest time for which work of each task waits. Nothing is known of a task without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delays: Option<Vec<Option<Span>>>,
    /// Response times, counted from releases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<Vec<u64>>,
    /// The suspensions of each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Vec<Suspended>>,
}

/// A length of time with its source.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The time.
    pub span: u64,
    /// Whether it rests on a claim by another test; otherwise it is part of this witness.
    #[serde(default, skip_serializing_if = "is_default")]
    pub elsewhere: bool,
}

/// The suspensions of a task, and its bound with those of others as jitter.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Suspended {
    /// All that its jobs wait for is among the parts of the cost.
    #[serde(skip_serializing_if = "is_default")]
    pub counted: bool,
    /// Others may rely on that: each job is one piece, from its release to its end.
    #[serde(skip_serializing_if = "is_default")]
    pub kept: bool,
    /// No other thread runs on its budget.
    #[serde(skip_serializing_if = "is_default")]
    pub alone: bool,
    /// The longest time from the release of a piece of a job to the last instant at which it executes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub life: Option<Span>,
    /// The window in which a job ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

/// A window of time, counted from the release of a job.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The time from the release to the beginning of the window.
    pub later: u64,
    /// The length of the window.
    pub length: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
