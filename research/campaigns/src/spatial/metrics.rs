//! The measures of processes that run together: each against itself alone.
//!
//! Source: Eyerman and Eeckhout, "System-level performance metrics for multiprogram workloads", IEEE Micro 2008.

/// Measures of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// Normalised turnaround time of each process: its time together by its time alone.
    pub ntt: Vec<f64>,
    /// The mean of them.
    pub antt: f64,
    /// System throughput: the sum of times alone by times together.
    pub stp: f64,
    /// The least of times alone by times together, by the most: 1 if all suffer alike.
    pub fairness: f64,
}

impl Metrics {
    /// The metrics of processes that take so long alone and together, in one unit.
    #[must_use]
    pub fn new(alone: &[f64], together: &[f64]) -> Metrics {
        let ntt: Vec<f64> = alone.iter().zip(together).map(|(alone, together)| together / alone).collect();
        let progress = || ntt.iter().map(|ntt| 1.0 / ntt);
        let (least, most) = (progress().fold(f64::INFINITY, f64::min), progress().fold(0.0, f64::max));
        Metrics { antt: mean(ntt.iter().copied()), stp: progress().sum(), fairness: least / most, ntt }
    }
}

/// The mean; not a number without any.
pub fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_those_of_an_example_by_hand() {
        let Metrics { ntt, antt, stp, fairness } = Metrics::new(&[10.0, 40.0], &[40.0, 50.0]);
        assert_eq!((ntt, antt), (vec![4.0, 1.25], 2.625));
        // A quarter and four fifths.
        assert!((stp - 1.05).abs() < 1e-12 && (fairness - 0.3125).abs() < 1e-12);
    }

    #[test]
    fn processes_that_do_not_see_each_other_have_the_throughput_of_all_and_are_treated_alike() {
        let metrics = Metrics::new(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]);
        assert_eq!((metrics.antt, metrics.stp, metrics.fairness), (1.0, 3.0, 1.0));
        assert!(mean(std::iter::empty()).is_nan());
    }
}
