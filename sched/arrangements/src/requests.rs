//! Requests of other jobs, longest first, and the sum of the longest of them.

/// Requests of one length that each job of a task makes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Requests {
    /// The task.
    pub task: usize,
    /// Nanoseconds.
    pub length: u64,
    /// In each job.
    pub count: u64,
}

/// Requests of several tasks, longest first.
#[derive(Clone, Debug, Default)]
pub struct Sorted {
    all: Vec<Requests>,
}

impl Sorted {
    /// Sorts these requests.
    #[must_use]
    pub fn new(mut all: Vec<Requests>) -> Sorted {
        all.retain(|one| one.count > 0 && one.length > 0);
        all.sort_by_key(|one| (std::cmp::Reverse(one.length), one.task));
        Sorted { all }
    }

    /// The sum of the `most` longest requests of tasks other than `task`, with `jobs` jobs of each of them, nanoseconds.
    ///
    /// # Source
    /// Elliott 2015, eq. 4.13 and 4.14.
    #[must_use]
    pub fn longest(&self, task: usize, most: u64, jobs: impl Fn(usize) -> u64) -> u64 {
        let (mut left, mut sum) = (most, 0u64);
        for one in self.all.iter().filter(|one| one.task != task) {
            if left == 0 {
                break;
            }
            let taken = one.count.saturating_mul(jobs(one.task)).min(left);
            sum = sum.saturating_add(one.length.saturating_mul(taken));
            left -= taken;
        }
        sum
    }

    /// The number of these requests of tasks other than `task`.
    #[must_use]
    pub fn count(&self, task: usize, jobs: impl Fn(usize) -> u64) -> u64 {
        let others = self.all.iter().filter(|one| one.task != task);
        others.map(|one| one.count.saturating_mul(jobs(one.task))).fold(0, u64::saturating_add)
    }

    /// The length of the longest request of a task other than `task`, nanoseconds.
    #[must_use]
    pub fn longest_one(&self, task: usize) -> u64 {
        self.all.iter().find(|one| one.task != task).map_or(0, |one| one.length)
    }
}
