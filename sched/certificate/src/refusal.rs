//! The place and the numbers of a claim that does not hold.

use std::fmt;

use num_rational::BigRational;

/// The first claim of a certificate that does not follow from it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The cluster; empty if the certificate as a whole is refused.
    pub cluster: String,
    /// The task, if one is refused.
    pub task: Option<String>,
    /// The condition that does not hold.
    pub failed: Failed,
}

/// A condition that does not hold, with its numbers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failed {
    /// The condition.
    pub condition: Condition,
    /// The two numbers that the condition compares, as found in the certificate: nanoseconds, numbers, or parts of a CPU.
    pub numbers: Option<Box<(BigRational, BigRational)>>,
}

/// A condition of a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Condition {
    /// The format is one that the checker reads.
    Format,
    /// The number of tasks is one that the checker can add up.
    Count,
    /// A time is one that the checker can add up.
    Longest,
    /// A period or a cost is above zero.
    Positive,
    /// The parts of a cost add up to it.
    Parts,
    /// The latency of events leaves some of the period and the deadline.
    Latency,
    /// The bound is not later than the deadline.
    Deadline,
    /// The test is for this number of CPUs.
    Cpus,
    /// The test is for this policy.
    Policy,
    /// The test is for such deadlines.
    Deadlines,
    /// The witness is there, with one entry for each task.
    Witness,
    /// All tasks that the test counts need no more than their periods.
    Rests,
    /// The bound is not shorter than the cost.
    Cost,
    /// The work that begins in the busy window is done in it.
    Busy,
    /// The work up to some instant is done by then, and the instant is within the bound of the job.
    Job,
    /// The instants ascend.
    Ascending,
    /// The work that is due in a window is done in it.
    Demand,
    /// No more work can be due from the last window on.
    Horizon,
    /// The sum of the densities leaves room for the largest.
    Density,
    /// The sum of the utilisations is no more than the CPUs.
    Utilisation,
    /// The work left at a priority point is no more than its bound.
    FixedPoint,
    /// The work carried in is done within the bound on tardiness.
    Tardiness,
    /// The bound is not shorter than the witness allows.
    Bound,
    /// A bound that must not exceed the period does not.
    Period,
    /// The work of others leaves a CPU to the job in time.
    Interference,
    /// The length of time rests on a claim of the same task by another test.
    Elsewhere,
    /// The execution of others in the window leaves time for the job.
    Window,
    /// All that the task waits for is counted.
    Counted,
    /// The check takes no longer than is allowed.
    Effort,
}

impl Condition {
    /// The words of the condition, for which the first number should be no more than the second, or equal to it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Condition::Format => "the version of the format",
            Condition::Count => "the number of tasks",
            Condition::Longest => "a time",
            Condition::Positive => "one nanosecond, and a period or cost",
            Condition::Parts => "the sum of the parts, and the cost",
            Condition::Latency => "the latency of events, and the period or deadline",
            Condition::Deadline => "the bound, and the deadline",
            Condition::Cpus => "the number that the test is for, and the number there is: CPUs and tasks",
            Condition::Policy => "the test is not for this policy",
            Condition::Deadlines => "the test is not for such deadlines: deadline, and period",
            Condition::Witness => "the witness of the test is missing, or not one for each task",
            Condition::Rests => "the cost of a task that is counted, and its period",
            Condition::Cost => "the cost, and the bound",
            Condition::Busy => "the work of the busy window, and its length",
            Condition::Job => "the instant at which the job is complete, and the end of its bound",
            Condition::Ascending => "an instant, and the one after it",
            Condition::Demand => "the work due in the window, and the window before it",
            Condition::Horizon => "the work due from the last window on, and its length",
            Condition::Density => "the sum of the densities, and the room for it",
            Condition::Utilisation => "the sum of the utilisations, and the CPUs",
            Condition::FixedPoint => "the work left at a priority point, and its bound",
            Condition::Tardiness => "the work carried in, and the work done within the tardiness",
            Condition::Bound => "the bound by the witness, and the claimed one",
            Condition::Period => "a bound by the witness, and the period",
            Condition::Interference => "the time taken by others, and the time that leaves no CPU, less one",
            Condition::Elsewhere => "a claim by another test, and the time that rests on it",
            Condition::Window => "the cost and the execution of others in the window, and its length",
            Condition::Counted => "the waits of the task are not all counted",
            Condition::Effort => "the steps of the check, and the limit",
        }
    }

    /// Whether the two numbers should be equal.
    fn is_equality(self) -> bool {
        matches!(self, Condition::Parts | Condition::Format)
    }
}

impl Failed {
    /// A condition without numbers.
    pub(crate) fn plain(condition: Condition) -> Failed {
        Failed { condition, numbers: None }
    }

    /// This failure, in its place.
    pub(crate) fn of(self, cluster: &str, task: Option<&str>) -> Refusal {
        Refusal { cluster: cluster.to_owned(), task: task.map(str::to_owned), failed: self }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.cluster.is_empty() {
            write!(f, "cluster `{}`", self.cluster)?;
            self.task.iter().try_for_each(|task| write!(f, ", task `{task}`"))?;
            f.write_str(": ")?;
        }
        f.write_str(self.failed.condition.words())?;
        let Some((left, right)) = self.failed.numbers.as_deref() else { return Ok(()) };
        let relation = if self.failed.condition.is_equality() { "is not" } else { "is more than" };
        write!(f, ": {left} {relation} {right}")
    }
}

impl std::error::Error for Refusal {}

/// An error unless `left` is at most `right`, which are whole numbers.
pub(crate) fn at_most(condition: Condition, left: u128, right: u128) -> Result<(), Failed> {
    if left <= right { Ok(()) } else { Err(unlike(condition, left, right)) }
}

/// An error unless `left` is at most `right`.
pub(crate) fn at_most_fraction(condition: Condition, left: BigRational, right: BigRational) -> Result<(), Failed> {
    if left <= right { Ok(()) } else { Err(Failed { condition, numbers: Some(Box::new((left, right))) }) }
}

/// A condition that these whole numbers do not satisfy.
pub(crate) fn unlike(condition: Condition, left: u128, right: u128) -> Failed {
    let [left, right] = [left, right].map(|number| BigRational::from_integer(number.into()));
    Failed { condition, numbers: Some(Box::new((left, right))) }
}
