//! Utilisations e / p, exactly, and the tests that need nothing else.
//!
//! A sum of fractions is slow if each addition searches for common divisors of ever longer numbers. So all
//! utilisations of a cluster get one denominator, and their sums are sums of integers.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, ToPrimitive};

use crate::task::{Cluster, Task};

/// The utilisations of some tasks, over a common denominator.
#[derive(Clone, Debug)]
pub struct Utilisations {
    /// The denominator: the least common multiple of all periods.
    pub whole: BigInt,
    /// The numerators, by task.
    pub parts: Vec<BigInt>,
}

impl Utilisations {
    /// The utilisations of `tasks`, whose periods must not be zero.
    #[must_use]
    pub fn of(tasks: &[Task]) -> Utilisations {
        Self::over(tasks, |task| task.period.0)
    }

    /// Execution times, each over `divisor` of its task.
    fn over(tasks: &[Task], divisor: impl Fn(&Task) -> u64) -> Utilisations {
        let whole = tasks.iter().fold(BigInt::one(), |whole, task| {
            let divisor = divisor(task);
            let rest = (&whole % divisor).to_u64().unwrap_or(0);
            whole * (divisor / greatest_common_divisor(divisor, rest))
        });
        let parts = tasks.iter().map(|task| &whole / divisor(task) * task.execution.0).collect();
        Utilisations { whole, parts }
    }

    /// The sum of all: `U`.
    #[must_use]
    pub fn total(&self) -> BigRational {
        BigRational::new(self.parts.iter().sum(), self.whole.clone())
    }

    /// `U` rounded up: how many CPUs the tasks cannot do without, `m^` of the literature.
    #[must_use]
    pub fn ceiling(&self) -> usize {
        let sum: BigInt = self.parts.iter().sum();
        ((sum + &self.whole - 1u32) / &self.whole).to_usize().unwrap_or(usize::MAX)
    }

    /// Whether `U <= cpus` and no task needs more than one CPU: a condition for every scheduler, and enough for EDF and FL for
    /// bounded tardiness, with any deadlines.
    ///
    /// # Source
    /// Devi, Anderson 2008; Elliott 2015, eq. 2.16 and 2.17.
    #[must_use]
    pub fn fit(&self, cpus: u32) -> bool {
        self.parts.iter().all(|part| *part <= self.whole) && self.parts.iter().sum::<BigInt>() <= &self.whole * cpus
    }
}

/// Euclid's.
pub(crate) fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Whether rate-monotonic scheduling on one CPU meets all deadlines, by the product of all `u + 1`: at most 2.
///
/// Sufficient, for implicit deadlines only; accepts every set that [`liu_layland`] accepts.
///
/// # Source
/// Bini, Buttazzo, Buttazzo 2003: the hyperbolic bound.
#[must_use]
pub fn hyperbolic(tasks: &[Task]) -> bool {
    let (taken, given) = tasks.iter().fold((BigInt::one(), BigInt::one()), |(taken, given), task| {
        (taken * (task.execution.0 + task.period.0), given * task.period.0)
    });
    taken <= given * 2
}

/// Whether rate-monotonic scheduling on one CPU meets all deadlines, by `U <= n (2^(1/n) - 1)`.
///
/// Sufficient, for implicit deadlines only. Decided without roots: `(U / n + 1)^n <= 2`.
///
/// # Source
/// Liu, Layland 1973; Elliott 2015, eq. 2.14.
#[must_use]
pub fn liu_layland(tasks: &[Task]) -> bool {
    let Ok(count) = u32::try_from(tasks.len()) else { return false };
    let shares = Utilisations::of(tasks);
    let given = &shares.whole * count;
    let taken = shares.parts.iter().sum::<BigInt>() + &given;
    taken.pow(count) <= given.pow(count) * 2
}

/// Whether global EDF meets all deadlines because densities `e / d` are small: their sum is at most `m - (m - 1) * (the largest)`.
/// `None` if a deadline is zero or longer than its period, where the test does not apply.
///
/// # Source
/// Goossens, Funk, Baruah 2003, for implicit deadlines; Bertogna, Cirinei, Lipari 2005, for constrained ones.
#[must_use]
pub fn density(cluster: &Cluster) -> Option<bool> {
    let tasks = cluster.tasks();
    if tasks.iter().any(|task| task.deadline > task.period || task.deadline.0 == 0) {
        return None;
    }
    let densities = Utilisations::over(tasks, |task| task.deadline.0);
    let Some(largest) = densities.parts.iter().max() else { return Some(true) };
    let sum: BigInt = densities.parts.iter().sum();
    Some(*largest <= densities.whole && sum <= &densities.whole * cluster.cpus() - largest * (cluster.cpus() - 1))
}

#[cfg(test)]
mod tests {
    use fusee_sched::key::PolicyName;
    use fusee_sched::time::Nanoseconds;
    use proptest::prelude::*;

    use super::*;

    fn implicit(pairs: &[(u64, u64)]) -> Vec<Task> {
        let task = |&(e, p): &(u64, u64)| Task {
            execution: Nanoseconds(e),
            period: Nanoseconds(p),
            deadline: Nanoseconds(p),
            priority: 0,
        };
        pairs.iter().map(task).collect()
    }

    #[test]
    fn three_thirds_are_exactly_one() {
        let shares = Utilisations::of(&implicit(&[(1, 3), (2, 6), (5, 15)]));
        assert_eq!(shares.total(), BigRational::one());
        assert_eq!(shares.ceiling(), 1);
        assert!(shares.fit(1));
    }

    #[test]
    fn one_nanosecond_too_much_in_two_years_is_too_much() {
        let year = 1 << 55;
        let shares = Utilisations::of(&implicit(&[(year / 2, year), (year / 2 + 1, year)]));
        assert!(!shares.fit(1));
        assert_eq!(shares.ceiling(), 2);
        assert!(!Utilisations::of(&implicit(&[(year + 1, year)])).fit(2));
    }

    #[test]
    fn the_hyperbolic_bound_takes_a_set_that_liu_and_layland_refuse() {
        // 1.5 * 4/3 = 2, and U = 5/6 > 2 (sqrt 2 - 1) = 0.828...
        let tasks = implicit(&[(1, 2), (1, 3)]);
        assert!(hyperbolic(&tasks));
        assert!(!liu_layland(&tasks));
        assert!(liu_layland(&implicit(&[(41, 100), (41, 100)])));
    }

    #[test]
    fn small_tasks_meet_deadlines_on_two_cpus_and_a_large_one_spoils_it() {
        let proved = |pairs| density(&Cluster::new(2, PolicyName::Edf, implicit(pairs)).unwrap());
        assert_eq!(proved(&[(1, 2), (1, 2), (1, 2)]), Some(true));
        assert_eq!(proved(&[(1, 2), (1, 2), (3, 4)]), Some(false));
    }

    proptest! {
        #[test]
        fn what_liu_and_layland_accept_the_hyperbolic_bound_accepts(
            pairs in prop::collection::vec((1u64..20, 1u64..100), 1..6)
        ) {
            let tasks = implicit(&pairs);
            prop_assert!(!liu_layland(&tasks) || hyperbolic(&tasks));
        }
    }
}
