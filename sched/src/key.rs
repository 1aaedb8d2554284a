//! What a job is ordered by.
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
    /// Drivers and servers nobody waits for.
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

    /// The key of a service or background thread that queued up as number `turn`.
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

    /// The instant of a key made by [`Key::at`].
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

/// The parameters of a job that a policy may look at.
#[derive(Clone, Copy, Debug)]
pub struct JobParameters {
    /// Release.
    pub release: Instant,
    /// Relative deadline.
    pub deadline: Nanoseconds,
    /// Worst-case execution time, as provisioned.
    pub budget: Nanoseconds,
    /// CPUs of the cluster.
    pub cpus: u32,
}

/// A job-level fixed-priority policy: when is a job's priority point?
pub trait Policy {
    /// The instant this job is ordered by.
    fn priority_point(&self, job: &JobParameters) -> Instant;
}

/// Earliest deadline first: the priority point is the deadline.
#[derive(Clone, Copy, Debug, Default)]
pub struct EarliestDeadlineFirst;

impl Policy for EarliestDeadlineFirst {
    #[inline]
    fn priority_point(&self, job: &JobParameters) -> Instant {
        job.release + job.deadline
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
    fn of_equal_points_the_task_that_was_later_goes_first() {
        let deadline = Nanoseconds(1_000_000);
        let late = Key::real_time(Instant(5), Tie::new(300_000, deadline, 9));
        let early = Key::real_time(Instant(5), Tie::new(-300_000, deadline, 1));
        assert!(late < early);
        assert!(Tie::new(i64::MIN, deadline, 1) > Tie::new(i64::MAX, deadline, 1));
        assert!(Tie::new(0, deadline, 1) < Tie::new(0, deadline, 2));
    }
}
