//! The metrics of each task in a trace: how many jobs, how late, how evenly.
//!
//! Records are looked at one by one, so that a long run need not be kept: [`Metrics::observe`] is an observer of
//! a simulation, and [`Metrics::of`] reads a whole trace, from wherever it came.
//!
//! # Knowledge of a job
//!
//! A completion tells the job's lateness; its deadline, and so its release, follow from it. A release that
//! queued is traced when its job begins, so the time of that record is not used. Lateness is traced in 32 bits:
//! a job later than 2.1 s counts as that late.

use fusee_abi::image::release;
use fusee_abi::trace::{Event, Record};
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;

/// Buckets of a histogram.
const BUCKETS: usize = 24;

/// All tasks of a system.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Metrics {
    /// In the order of the manifest.
    pub tasks: Vec<TaskMetrics>,
    /// Task of each reservation.
    homes: Vec<usize>,
}

/// One task.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TaskMetrics {
    /// Its name.
    pub name: String,
    /// Its relative deadline, nanoseconds; `None`: it has no jobs.
    pub deadline: Option<u64>,
    /// Jobs that began.
    pub started: u64,
    /// Releases that were dropped.
    pub skipped: u64,
    /// Times its budget ran dry.
    pub throttles: u64,
    /// Lateness of each completed job, nanoseconds, in the order of completion.
    pub lateness: Vec<i64>,
}

/// A few numbers that stand for many. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// The least.
    pub least: i64,
    /// The mean, rounded down.
    pub mean: i64,
    /// The least number that 99 % do not exceed.
    pub percentile_99: i64,
    /// The greatest.
    pub greatest: i64,
}

impl Metrics {
    /// The metrics of a system that has not run yet.
    #[must_use]
    pub fn new(system: &Resolved) -> Metrics {
        let tasks = system.tasks.iter().map(|task| {
            let reservation = task.reservation.map(|reservation| &system.reservations[reservation]);
            TaskMetrics {
                name: task.name.clone(),
                deadline: reservation.filter(|one| one.release != release::NONE).map(|one| one.deadline),
                ..TaskMetrics::default()
            }
        });
        let homes = system.reservations.iter().map(|reservation| reservation.task as usize).collect();
        Metrics { tasks: tasks.collect(), homes }
    }

    /// The metrics of a whole trace.
    #[must_use]
    pub fn of(trace: &Trace, system: &Resolved) -> Metrics {
        let mut metrics = Metrics::new(system);
        trace.records.iter().for_each(|record| metrics.observe(record));
        metrics
    }

    /// Looks at one record.
    pub fn observe(&mut self, record: &Record) {
        let task = match Event::from_number(record.event) {
            // A reservation is its home's, with any runner.
            Some(Event::Throttle) => {
                (record.object as usize).checked_sub(1).and_then(|index| self.homes.get(index)).copied()
            }
            Some(Event::Release | Event::Complete | Event::Skip) => usize::from(record.thread).checked_sub(1),
            _ => None,
        };
        let Some(task) = task.and_then(|task| self.tasks.get_mut(task)) else { return };
        match Event::from_number(record.event) {
            Some(Event::Release) => task.started += 1,
            Some(Event::Complete) => task.lateness.push(record.lateness()),
            Some(Event::Skip) => task.skipped += 1,
            _ => task.throttles += 1,
        }
    }

    /// Whether some job missed its deadline.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.tasks.iter().any(|task| task.misses() > 0)
    }
}

impl TaskMetrics {
    /// Jobs that completed.
    #[must_use]
    pub fn jobs(&self) -> u64 {
        self.lateness.len() as u64
    }

    /// Jobs that completed after their deadline.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.lateness.iter().filter(|lateness| **lateness > 0).count() as u64
    }

    /// Largest lateness; `None` without a completed job.
    #[must_use]
    pub fn max_lateness(&self) -> Option<i64> {
        self.lateness.iter().copied().max()
    }

    /// Completion − deadline of all jobs.
    #[must_use]
    pub fn lateness(&self) -> Option<Summary> {
        Summary::of(self.lateness.clone())
    }

    /// Completion − release of all jobs.
    #[must_use]
    pub fn response(&self) -> Option<Summary> {
        Summary::of(self.responses())
    }

    /// Lateness of all jobs, at least zero.
    #[must_use]
    pub fn tardiness(&self) -> Option<Summary> {
        Summary::of(self.lateness.iter().map(|lateness| (*lateness).max(0)).collect())
    }

    fn responses(&self) -> Vec<i64> {
        let deadline = self.deadline.unwrap_or(0).cast_signed();
        self.lateness.iter().map(|lateness| lateness.saturating_add(deadline)).collect()
    }

    /// Response times in buckets from zero to the deadline, or to the longest if that is later; and the bucket
    /// that ends at the deadline.
    #[must_use]
    pub fn histogram(&self) -> ([u64; BUCKETS], usize) {
        let responses = self.responses();
        let deadline = self.deadline.unwrap_or(0);
        let end = responses.iter().copied().max().unwrap_or(0).max(deadline.cast_signed()).max(1).unsigned_abs();
        let bucket =
            |time: u64| (u128::from(time) * BUCKETS as u128).div_ceil(u128::from(end)).clamp(1, BUCKETS as u128);
        let mut counts = [0; BUCKETS];
        for response in responses {
            counts[bucket(response.max(0).unsigned_abs()) as usize - 1] += 1;
        }
        (counts, bucket(deadline) as usize)
    }

    /// The histogram as a bar of characters: each bucket is as high as it is full, and `|` is the deadline.
    #[must_use]
    pub fn bars(&self) -> String {
        const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let (counts, deadline) = self.histogram();
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        let mut text = String::new();
        for (index, count) in counts.iter().enumerate() {
            text.push(HEIGHTS[(count * 8).div_ceil(most) as usize]);
            if index + 1 == deadline {
                text.push('|');
            }
        }
        text
    }
}

impl Summary {
    /// The summary of `numbers`; `None` if there are none.
    #[must_use]
    pub fn of(mut numbers: Vec<i64>) -> Option<Summary> {
        numbers.sort_unstable();
        let sum: i128 = numbers.iter().map(|number| i128::from(*number)).sum();
        let count = numbers.len();
        Some(Summary {
            least: *numbers.first()?,
            mean: sum.div_euclid(count as i128) as i64,
            percentile_99: numbers[(count * 99).div_ceil(100) - 1],
            greatest: *numbers.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn task(deadline: u64, lateness: &[i64]) -> TaskMetrics {
        TaskMetrics { deadline: Some(deadline), lateness: lateness.to_vec(), ..TaskMetrics::default() }
    }

    #[test]
    fn a_summary_is_of_all_numbers() {
        let numbers: Vec<i64> = (1..=200).rev().collect();
        let expected = Summary { least: 1, mean: 100, percentile_99: 198, greatest: 200 };
        assert_eq!(Summary::of(numbers), Some(expected));
        assert_eq!(Summary::of(vec![-3]), Some(Summary { least: -3, mean: -3, percentile_99: -3, greatest: -3 }));
        assert_eq!(Summary::of(Vec::new()), None);
    }

    #[test]
    fn early_jobs_are_not_tardy_and_respond_before_the_deadline() {
        let task = task(100, &[-60, 20]);
        assert_eq!((task.jobs(), task.misses()), (2, 1));
        assert_eq!(task.response().map(|summary| (summary.least, summary.greatest)), Some((40, 120)));
        assert_eq!(task.tardiness().map(|summary| (summary.least, summary.mean)), Some((0, 10)));
    }

    #[test]
    fn the_bars_end_at_the_deadline_unless_a_job_was_later() {
        assert!(task(2_400, &[-2_350, -2_350, -150]).bars().ends_with(" ▄ |"));
        assert_eq!(task(1_200, &[1_200]).bars(), format!("{}|{}█", " ".repeat(12), " ".repeat(11)));
    }

    proptest! {
        #[test]
        fn every_job_is_in_one_bucket_and_tardy_ones_are_behind_the_deadline(
            deadline in 1u64..5_000,
            lateness in prop::collection::vec(-5_000i64..5_000, 0..50),
        ) {
            let lateness: Vec<i64> = lateness.into_iter().map(|one| one.max(-deadline.cast_signed())).collect();
            let task = task(deadline, &lateness);
            let (counts, end) = task.histogram();
            prop_assert_eq!(counts.iter().sum::<u64>(), task.jobs());
            prop_assert!(counts[end..].iter().sum::<u64>() <= task.misses());
        }
    }
}
