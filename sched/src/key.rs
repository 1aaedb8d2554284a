//! The order of jobs.
//!
//! A key packs the scheduling class and the priority point of a job into one word, so that one comparison
//! decides. Points saturate at 2^62 ns, 146 years after boot. Keys are comparable only within one cluster.

use crate::time::{Instant, Nanoseconds};

/// Bits of [`Key::point`] that hold the class.
const CLASS_SHIFT: u32 = 62;
const POINT_MASK: u64 = (1 << CLASS_SHIFT) - 1;

/// Scheduling class, most urgent first.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Class {
    /// Ordered by the cluster's policy.
    #[default]
    RealTime = 0,
    /// Drivers and servers that no job waits for.
    Service = 1,
    /// Everything else, round robin.
    Background = 2,
}

/// The order of jobs in a cluster: class, then priority point, then the tie-break. Smaller runs first.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    point: u64,
    tie: u32,
}

impl Key {
    /// The key of a real-time job with this priority point.
    #[must_use]
    #[inline]
    pub const fn real_time(point: Instant, tie: Tie) -> Key {
        Key { point: if point.0 > POINT_MASK { POINT_MASK } else { point.0 }, tie: tie.0 }
    }

    /// The key of a service or background thread. `turn` is its number in the order of queueing: in a class, the smallest runs first.
    #[must_use]
    #[inline]
    pub const fn in_turn(class: Class, turn: u64, tie: Tie) -> Key {
        let point = if turn > POINT_MASK { POINT_MASK } else { turn };
        Key { point: point | (class as u64) << CLASS_SHIFT, tie: tie.0 }
    }

    /// The key of an event at `at`, for queues ordered by time.
    #[must_use]
    #[inline]
    pub const fn at(at: Instant) -> Key {
        Key { point: at.0, tie: 0 }
    }

    /// A key for an event at `at`; among events at one instant that of the lowest `id` comes first.
    #[must_use]
    #[inline]
    pub const fn event(at: Instant, id: u16) -> Key {
        Key { point: at.0, tie: id as u32 }
    }

    /// The instant of a key made by [`Key::at`] or [`Key::event`].
    #[must_use]
    #[inline]
    pub const fn instant(self) -> Instant {
        Instant(self.point)
    }

    /// The class.
    #[must_use]
    pub const fn class(self) -> Class {
        match self.point >> CLASS_SHIFT {
            0 => Class::RealTime,
            1 => Class::Service,
            _ => Class::Background,
        }
    }
}

/// Decides between equal priority points: the larger normalised lateness of the previous job, then the
/// lower task index.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Tie(u32);

impl Tie {
    /// All zero.
    pub const ZERO: Tie = Tie(0);
}

impl Tie {
    /// The tie-break of the task at `index` whose previous job ended `lateness` ns after a deadline of
    /// `deadline` ns. Lateness is normalised to 1/256 of the deadline and saturates at 128 deadlines.
    #[must_use]
    pub fn new(lateness: i64, deadline: Nanoseconds, index: u16) -> Tie {
        let unit = i64::try_from(deadline.0 / 256).unwrap_or(i64::MAX).max(1);
        let normalised = (lateness / unit).clamp(-0x8000, 0x7fff);
        let rank = (0x7fff - normalised) as u32;
        Tie(rank << 16 | u32::from(index))
    }
}

/// The parameters of a task that a policy may look at.
#[derive(Clone, Copy, Debug)]
pub struct TaskParameters {
    /// Worst-case execution time `e`, as provisioned.
    pub execution: Nanoseconds,
    /// Least time between releases `p`.
    pub period: Nanoseconds,
    /// Relative deadline `d`.
    pub deadline: Nanoseconds,
    /// Priority by decree: 1 is the most urgent.
    pub priority: u32,
    /// CPUs of the cluster `m`.
    pub cpus: u32,
}

/// The priority points of a task's jobs. Only points of one cluster may be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PriorityPoint {
    /// A point this long after the job's release, give or take an offset that is the same for all tasks of the cluster.
    AfterRelease(Nanoseconds),
    /// One constant for all jobs: fixed priorities.
    Constant(u64),
}

impl PriorityPoint {
    /// The point of the job released at `release`, on the cluster's own scale.
    #[must_use]
    #[inline]
    pub const fn of_job(self, release: Instant) -> Instant {
        match self {
            PriorityPoint::AfterRelease(offset) => Instant(release.0.saturating_add(offset.0)),
            PriorityPoint::Constant(point) => Instant(point),
        }
    }
}

/// A job-level fixed-priority policy: where are the priority points of a task's jobs?
pub trait Policy {
    /// The priority point of the jobs of `task`.
    fn priority_point(&self, task: &TaskParameters) -> PriorityPoint;
}

/// Earliest deadline first: `D`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EarliestDeadlineFirst;

/// Fair lateness: `Y = D - ((m - 1) / m) * e`, so that all tasks have the same bound on lateness.
///
/// With one CPU it is EDF. Points are kept [`FAIR_LATENESS_OFFSET`] later than in the formula, because with `d < e` they may
/// precede the release, and time zero with it.
///
/// # Source
/// Erickson, Anderson, Ward 2014; Elliott 2015, eq. 2.12 and 2.13, with `m` the CPUs of the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct FairLateness;

/// The offset by which all points of [`FairLateness`] are later than `Y`: 2^56 ns, more than two years. No execution time may be
/// longer.
pub const FAIR_LATENESS_OFFSET: Nanoseconds = Nanoseconds(1 << 56);

/// Rate monotonic: the shorter period first.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateMonotonic;

/// Deadline monotonic: the shorter relative deadline first.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeadlineMonotonic;

/// Fixed priorities by decree: the smaller number first.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedPriority;

impl Policy for EarliestDeadlineFirst {
    fn priority_point(&self, task: &TaskParameters) -> PriorityPoint {
        PriorityPoint::AfterRelease(task.deadline)
    }
}

impl Policy for FairLateness {
    fn priority_point(&self, task: &TaskParameters) -> PriorityPoint {
        // e - ceil(e / m) is ((m - 1) / m) * e, rounded down.
        let share = task.execution.0 - task.execution.0.div_ceil(u64::from(task.cpus.max(1)));
        PriorityPoint::AfterRelease((task.deadline + FAIR_LATENESS_OFFSET).saturating_sub(Nanoseconds(share)))
    }
}

impl Policy for RateMonotonic {
    fn priority_point(&self, task: &TaskParameters) -> PriorityPoint {
        PriorityPoint::Constant(task.period.0)
    }
}

impl Policy for DeadlineMonotonic {
    fn priority_point(&self, task: &TaskParameters) -> PriorityPoint {
        PriorityPoint::Constant(task.deadline.0)
    }
}

impl Policy for FixedPriority {
    fn priority_point(&self, task: &TaskParameters) -> PriorityPoint {
        PriorityPoint::Constant(u64::from(task.priority))
    }
}

/// The policies a manifest can name, with the numbers that a packed system gives them.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u32)]
pub enum PolicyName {
    /// [`EarliestDeadlineFirst`].
    #[default]
    Edf = 0,
    /// [`FairLateness`].
    Fl = 1,
    /// [`RateMonotonic`].
    Rm = 2,
    /// [`DeadlineMonotonic`].
    Dm = 3,
    /// [`FixedPriority`].
    Fp = 4,
}

impl PolicyName {
    /// All of them, by number.
    pub const ALL: [PolicyName; 5] = [PolicyName::Edf, PolicyName::Fl, PolicyName::Rm, PolicyName::Dm, PolicyName::Fp];

    /// The policy with number `number`.
    #[must_use]
    pub fn from_number(number: u32) -> Option<PolicyName> {
        Self::ALL.get(number as usize).copied()
    }

    /// The policy called `name` in manifests: `EDF`, `FL`, `RM`, `DM` or `FP`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<PolicyName> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// The name of the policy in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PolicyName::Edf => "EDF",
            PolicyName::Fl => "FL",
            PolicyName::Rm => "RM",
            PolicyName::Dm => "DM",
            PolicyName::Fp => "FP",
        }
    }
}

impl Policy for PolicyName {
    fn priority_point(&self, task: &TaskParameters) -> PriorityPoint {
        match self {
            PolicyName::Edf => EarliestDeadlineFirst.priority_point(task),
            PolicyName::Fl => FairLateness.priority_point(task),
            PolicyName::Rm => RateMonotonic.priority_point(task),
            PolicyName::Dm => DeadlineMonotonic.priority_point(task),
            PolicyName::Fp => FixedPriority.priority_point(task),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_outranks_every_point() {
        let tie = Tie::default();
        let late = Key::real_time(Instant::NEVER, tie);
        assert!(late < Key::in_turn(Class::Service, 0, tie));
        assert!(Key::in_turn(Class::Service, u64::MAX, tie) < Key::in_turn(Class::Background, 0, tie));
    }

    #[test]
    fn a_key_has_its_class_and_the_greatest_points_are_one() {
        let tie = Tie::default();
        for point in [0, 1, POINT_MASK, POINT_MASK + 1, u64::MAX] {
            assert_eq!(Key::real_time(Instant(point), tie).class(), Class::RealTime, "{point}");
            for class in [Class::Service, Class::Background] {
                assert_eq!(Key::in_turn(class, point, tie).class(), class, "{point}");
            }
        }
        assert!(Key::real_time(Instant(POINT_MASK - 1), tie) < Key::real_time(Instant(POINT_MASK), tie));
        assert_eq!(Key::real_time(Instant(POINT_MASK), tie), Key::real_time(Instant::NEVER, tie));
        assert!(Key::in_turn(Class::Service, 7, tie) < Key::in_turn(Class::Service, 8, tie));
        assert_eq!(Key::in_turn(Class::Service, POINT_MASK, tie), Key::in_turn(Class::Service, u64::MAX, tie));
    }

    #[test]
    fn of_equal_points_the_task_that_was_later_goes_first() {
        let deadline = Nanoseconds(1_000_000);
        let late = Key::real_time(Instant(5), Tie::new(300_000, deadline, 9));
        let early = Key::real_time(Instant(5), Tie::new(-300_000, deadline, 1));
        assert!(late < early);
        assert!(Tie::new(i64::MIN, deadline, 1) > Tie::new(i64::MAX, deadline, 1));
        assert!(Tie::new(0, deadline, 1) < Tie::new(0, deadline, 2));
    }

    const TASK: TaskParameters = TaskParameters {
        execution: Nanoseconds(9),
        period: Nanoseconds(20),
        deadline: Nanoseconds(12),
        priority: 3,
        cpus: 3,
    };

    fn point(policy: PolicyName, task: TaskParameters) -> u64 {
        policy.priority_point(&task).of_job(Instant(100)).0
    }

    #[test]
    fn each_policy_orders_by_its_own_parameter() {
        assert_eq!(point(PolicyName::Edf, TASK), 112);
        assert_eq!(point(PolicyName::Fl, TASK), 106 + FAIR_LATENESS_OFFSET.0);
        assert_eq!(point(PolicyName::Rm, TASK), 20);
        assert_eq!(point(PolicyName::Dm, TASK), 12);
        assert_eq!(point(PolicyName::Fp, TASK), 3);
        for policy in PolicyName::ALL {
            assert_eq!(PolicyName::from_name(policy.name()), Some(policy));
            assert_eq!(PolicyName::from_number(policy as u32), Some(policy));
        }
    }

    #[test]
    fn fair_lateness_on_one_cpu_is_edf() {
        let alone = TaskParameters { cpus: 1, ..TASK };
        assert_eq!(point(PolicyName::Fl, alone) - FAIR_LATENESS_OFFSET.0, point(PolicyName::Edf, alone));
    }

    #[test]
    fn fair_lateness_orders_points_before_time_zero() {
        let early = TaskParameters { execution: Nanoseconds(90), deadline: Nanoseconds(1), ..TASK };
        let later = TaskParameters { deadline: Nanoseconds(2), ..early };
        let at_zero = |task: TaskParameters| FairLateness.priority_point(&task).of_job(Instant::ZERO);
        assert!(at_zero(early) < at_zero(later));
    }
}
