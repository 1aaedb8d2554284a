//! Response times of the tasks of one CPU cluster under EDF and fair lateness, in integers.
//!
//! Compliant-vector analysis: with relative priority points `y`, `m` CPUs and `n` the utilisation rounded up, a job ends no later than
//! `y + (s - e) / m + e` after its release, where `s` is a solution of
//!
//! ```text
//! s >= sum of S_i + sum of the n - 1 largest ((s - e_i) u_i / m + e_i - S_i),      S_i = e_i max(0, 1 - y_i / p_i)
//! ```
//!
//! Any solution is a bound, not only the least, so all divisions are rounded up. `fusee_sched_analysis::compliant` has the exact least
//! solution and the proof; this form is for billions of task sets.
//!
//! # Source
//! Elliott 2015, eq. 2.22 and 2.23.

/// A task as a CPU cluster sees it. Times in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Load {
    /// Its execution with all suspension and costs.
    pub execution: u64,
    /// Its period.
    pub period: u64,
    /// Its relative priority point.
    pub point: u64,
}

/// Utilisations are counted in so many parts of one CPU.
const ONE: i128 = 1 << 32;

impl Load {
    /// Under fair lateness, with a deadline of a period: `p - e (m - 1) / m`.
    #[must_use]
    pub fn fair(execution: u64, period: u64, cpus: u64) -> Load {
        Load { execution, period, point: period.saturating_sub(execution - execution / cpus) }
    }

    fn share(&self) -> i128 {
        up(i128::from(self.execution) * ONE, self.period.into())
    }
}

fn up(value: i128, by: i128) -> i128 {
    value.div_euclid(by) + i128::from(value.rem_euclid(by) > 0)
}

/// The response time of each task in a cluster of `cpus` CPUs, nanoseconds; `None`: work piles up.
#[must_use]
pub fn responses(loads: &[Load], cpus: u64) -> Option<Vec<u64>> {
    let m = i128::from(cpus);
    let shares: Vec<i128> = loads.iter().map(Load::share).collect();
    let total: i128 = shares.iter().sum();
    if total > m * ONE || loads.iter().any(|one| one.execution > one.period) {
        return None;
    }
    let carriers = usize::try_from(up(total, ONE) - 1).unwrap_or(0).min(loads.len());
    let early = |one: &Load| {
        up(i128::from(one.execution) * i128::from(one.period.saturating_sub(one.point)), one.period.into())
    };
    let early: Vec<i128> = loads.iter().map(early).collect();
    let early_sum: i128 = early.iter().sum();
    let mut solution = early_sum;
    // Each step takes the line of the best tasks at `s`, which is the steeper the further `s` is.
    for _ in 0..1_000 {
        let value = |task: usize| {
            let execution = i128::from(loads[task].execution);
            (solution - execution) * shares[task] + m * ONE * (execution - early[task])
        };
        let mut best: Vec<usize> = (0..loads.len()).collect();
        best.sort_by_key(|task| (std::cmp::Reverse(value(*task)), *task));
        best.truncate(carriers);
        let slope: i128 = best.iter().map(|task| shares[*task]).sum();
        let constant: i128 = best
            .iter()
            .map(|task| {
                let execution = i128::from(loads[*task].execution);
                m * ONE * (execution - early[*task]) - execution * shares[*task]
            })
            .sum();
        let left = m * ONE - slope;
        if left <= 0 {
            return None;
        }
        let next = up(constant + m * ONE * early_sum, left);
        if next <= solution {
            let response = |one: &Load| {
                let execution = i128::from(one.execution);
                let wait = up(solution - execution, m);
                u64::try_from(i128::from(one.point) + wait + execution).ok()
            };
            return loads.iter().map(response).collect();
        }
        solution = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASKS: [(u64, u64); 4] = [(2, 10), (8, 12), (3, 6), (5, 20)];

    /// Nanoseconds are too coarse for these numbers, so each is a million times as large.
    fn loads(point: impl Fn(u64, u64) -> u64) -> Vec<Load> {
        let million = |value: u64| value * 1_000_000;
        let load = |(execution, period): (u64, u64)| {
            let (execution, period) = (million(execution), million(period));
            Load { execution, period, point: point(execution, period) }
        };
        TASKS.map(load).to_vec()
    }

    fn is_near(found: Vec<u64>, lateness: [f64; 4]) {
        for ((found, expected), (_, period)) in found.iter().zip(lateness).zip(TASKS) {
            let found = *found as f64 / 1e6 - period as f64;
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }

    #[test]
    fn two_cpus_have_the_lateness_of_the_literature() {
        is_near(responses(&loads(|_, period| period), 2).unwrap(), [5.0, 8.0, 5.5, 6.5]);
        is_near(responses(&loads(|execution, period| period - execution / 2), 2).unwrap(), [5.18125; 4]);
    }

    #[test]
    fn one_cpu_meets_deadlines_until_it_is_full() {
        let full = [(50, 100), (50, 100)].map(|(execution, period)| Load::fair(execution, period, 1));
        assert_eq!(responses(&full, 1), Some(vec![100, 100]));
        let more = [(50, 100), (51, 100)].map(|(execution, period)| Load::fair(execution, period, 1));
        assert_eq!(responses(&more, 1), None);
        assert_eq!(responses(&[Load { execution: 11, period: 10, point: 10 }], 3), None);
        assert_eq!(responses(&[], 3), Some(Vec::new()));
    }
}
