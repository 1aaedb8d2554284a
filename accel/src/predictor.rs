//! Prediction of the time that a task will hold a token: the mean of its holds, by how far it had moved with its data; a farther
//! move is never predicted to be shorter.
//!
//! A task that comes to another GPU first fetches its state, so its holds are kept apart by [`Distance`]. For each distance the
//! last [`WINDOW`] are kept. A hold that is more than two standard deviations from their mean is not taken up, once there are
//! [`ENOUGH`].
//!
//! # Invariants
//!
//! 1. A prediction is the mean of the holds in one window, rounded down, or the provisioned length, and never more
//!    than that.
//! 2. The prediction for a distance is at least that for each shorter one.
//! 3. A window has [`ENOUGH`] holds before it refuses any.
//!
//! # Moves without a measurement
//!
//! The prediction for a distance is the largest of the means of that distance and of all shorter ones, as far as they have holds.
//! If none has, it is the mean of the nearest longer distance, else the provisioned length. So a move of unknown cost is taken for
//! a cheap one; it is tried once no token without a move is free, and its cost is known from then on. A prediction that is too
//! short harms no bound: it only chooses among moves that the rules allow.
//!
//! # Why the largest
//!
//! Windows are filled at different times. A task stays where it is most of the time, so its window for that distance has recent
//! holds, in busy times longer ones, and those for moves have old ones. Compared as they are, a move can look shorter than
//! staying, and a task leaves a GPU that has a free token for it. But a hold after a move is a hold, and a copy of the state besides.
//!
//! # Where we differ from the text
//!
//! By the text a window that has settled refuses a task's new length for ever, if that changes for good; and one of equal holds
//! refuses everything else. Here a length refused [`ENOUGH`] times in a row is no outlier: the window is forgotten, and begins with
//! the last of them. The deviation is that of the window as a whole (divided by the number of holds, not by one less), on which the
//! text is silent. The text compares the windows of all distances as they are.
//!
//! # Numbers
//!
//! A window is 96 bytes, a task's [`History`] 384. A hold is kept as 32 bits of nanoseconds; longer ones count as 4.29 s.
//! To take one up costs some 20 multiplications of 64 bits; to predict, one division of 64 bits. There are no roots and no
//! fractions: `|x - S/n| > 2 sigma` is `(n x - S)^2 > 4 (n Q - S^2)`, where S is the sum of the holds, and Q that of their squares.
//!
//! Not here: the measurement. The caller counts the task's execution, and the suspension by its operations, from grant to release,
//! without preemption and without waiting for engine locks.
//!
//! Source: Elliott 2015, section 3.2.3.3.

use fusee_sched::time::Nanoseconds;

use crate::topology::Distance;

/// Holds that are kept of each distance.
pub const WINDOW: usize = 20;
/// Holds that must be known before one can be an outlier; and outliers in a row that are none.
pub const ENOUGH: u8 = 10;

/// The holds of a task after moving one distance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Window {
    sum: u64,
    /// In nanoseconds; the first `count` are valid.
    holds: [u32; WINDOW],
    count: u8,
    oldest: u8,
    refused: u8,
}

impl Window {
    const EMPTY: Self = Self { sum: 0, holds: [0; WINDOW], count: 0, oldest: 0, refused: 0 };

    fn mean(&self) -> Option<Nanoseconds> {
        (self.count > 0).then(|| Nanoseconds(self.sum / u64::from(self.count)))
    }

    fn is_outlier(&self, hold: u32) -> bool {
        if self.count < ENOUGH {
            return false;
        }
        let n = u64::from(self.count);
        let square = |x: u64| u128::from(x) * u128::from(x);
        let holds = &self.holds[..usize::from(self.count)];
        let squares: u128 = holds.iter().map(|hold| square(u64::from(*hold))).sum();
        let distance = (n * u64::from(hold)).abs_diff(self.sum);
        square(distance) > 4 * (u128::from(n) * squares - square(self.sum))
    }

    fn observe(&mut self, hold: u32) {
        if self.is_outlier(hold) {
            self.refused += 1;
            if self.refused < ENOUGH {
                return;
            }
            *self = Self::EMPTY;
        }
        self.refused = 0;
        let place = &mut self.holds[usize::from(self.oldest)];
        self.sum = self.sum - u64::from(*place) + u64::from(hold);
        *place = hold;
        self.count = (self.count + 1).min(WINDOW as u8);
        self.oldest = (self.oldest + 1) % WINDOW as u8;
    }
}

/// The records of one task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct History {
    by_distance: [Window; Distance::COUNT],
}

impl History {
    /// The history of a task that never held a token.
    pub const EMPTY: Self = Self { by_distance: [Window::EMPTY; Distance::COUNT] };

    /// The task has held a token for `hold`, and had moved `distance` to it.
    pub fn observe(&mut self, distance: Distance, hold: Nanoseconds) {
        self.by_distance[distance.number()].observe(u32::try_from(hold.0).unwrap_or(u32::MAX));
    }

    /// The time that the task will hold a token if it moves `distance` to it; `provisioned` at most. The longer one of two
    /// distances has no shorter prediction.
    #[must_use]
    pub fn predict(&self, distance: Distance, provisioned: Nanoseconds) -> Nanoseconds {
        let (shorter, longer) = self.by_distance.split_at(distance.number() + 1);
        let known = shorter.iter().filter_map(Window::mean).max();
        known.or_else(|| longer.iter().find_map(Window::mean)).map_or(provisioned, |mean| mean.min(provisioned))
    }
}

const _: () = assert!(size_of::<Window>() == 96 && size_of::<History>() == 384);

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use Distance::{Far, Near, Same, System};
    use num_rational::Ratio;
    use proptest::prelude::*;
    use std::vec::Vec;

    const DISTANCES: [Distance; 4] = [Same, Near, Far, System];

    /// Everything that was taken up, and exact fractions.
    #[derive(Default)]
    struct Oracle {
        taken: Vec<i128>,
        refused_in_a_row: u32,
    }

    impl Oracle {
        fn window(&self) -> &[i128] {
            &self.taken[self.taken.len().saturating_sub(20)..]
        }

        fn mean(&self) -> Option<Ratio<i128>> {
            let window = self.window();
            (!window.is_empty()).then(|| Ratio::new(window.iter().sum(), window.len() as i128))
        }

        fn observe(&mut self, hold: i128) {
            if let Some(mean) = self.mean()
                && self.taken.len() >= 10
            {
                let square = |x: i128| (Ratio::from(x) - mean) * (Ratio::from(x) - mean);
                let window = self.window();
                let variance = window.iter().map(|x| square(*x)).sum::<Ratio<i128>>() / window.len() as i128;
                if square(hold) > variance * 4 {
                    self.refused_in_a_row += 1;
                    if self.refused_in_a_row < 10 {
                        return;
                    }
                    self.taken.clear();
                }
            }
            self.refused_in_a_row = 0;
            self.taken.push(hold);
        }
    }

    /// Holds as tasks have them: close together, with outliers, and with levels that change.
    fn holds() -> impl Strategy<Value = Vec<u64>> {
        let level = (0u64..6, 1u64..40).prop_flat_map(|(level, spread)| {
            let near = move |x: u64| level * 1_000 + x % spread;
            let hold = prop_oneof![
                20 => any::<u64>().prop_map(near),
                1 => 0u64..20_000,
                1 => prop::sample::select(std::vec![0, u64::from(u32::MAX), u64::MAX]),
            ];
            prop::collection::vec(hold, 0..45)
        });
        prop::collection::vec(level, 1..4).prop_map(|levels| levels.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_prediction_is_the_exact_mean_of_what_a_slow_filter_lets_pass(
            holds in holds(),
            distance in prop::sample::select(&DISTANCES[..]),
            provisioned in prop_oneof![0u64..7_000, any::<u64>()],
        ) {
            let mut history = History::EMPTY;
            let mut oracle = Oracle::default();
            let provisioned = Nanoseconds(provisioned);
            for hold in holds {
                history.observe(distance, Nanoseconds(hold));
                oracle.observe(i128::from(hold.min(u64::from(u32::MAX))));
                let mean = oracle.mean().expect("the first is taken up").to_integer() as u64;
                prop_assert_eq!(history.predict(distance, Nanoseconds(u64::MAX)), Nanoseconds(mean));
                prop_assert_eq!(history.predict(distance, provisioned), provisioned.min(Nanoseconds(mean)));
            }
        }

        #[test]
        fn a_prediction_is_the_longest_of_no_longer_moves_and_else_of_the_nearest(
            seen in prop::collection::vec((prop::sample::select(&DISTANCES[..]), 1u64..1_000), 0..12),
            asked in prop::sample::select(&DISTANCES[..]),
        ) {
            let mut history = History::EMPTY;
            // Each distance has one length, so that no hold is an outlier.
            let mut lengths: [Option<u64>; 4] = [None; 4];
            for (distance, length) in seen {
                let length = *lengths[distance.number()].get_or_insert(length);
                history.observe(distance, Nanoseconds(length));
            }
            let provisioned = 5_000;
            let (shorter, longer) = lengths.split_at(asked.number() + 1);
            let nearest = longer.iter().flatten().next().copied().unwrap_or(provisioned);
            let expected = shorter.iter().flatten().max().copied().unwrap_or(nearest);
            prop_assert_eq!(history.predict(asked, Nanoseconds(provisioned)), Nanoseconds(expected));
        }

        #[test]
        fn no_move_is_predicted_to_be_shorter_than_a_nearer_one(
            seen in prop::collection::vec((prop::sample::select(&DISTANCES[..]), 1u64..100_000), 0..120),
            provisioned in 1u64..100_000,
        ) {
            let mut history = History::EMPTY;
            for (distance, length) in seen {
                history.observe(distance, Nanoseconds(length));
                let predicted = DISTANCES.map(|distance| history.predict(distance, Nanoseconds(provisioned)));
                prop_assert!(predicted.is_sorted() && predicted[3].0 <= provisioned, "{predicted:?}");
            }
        }
    }

    fn history(holds: impl IntoIterator<Item = u64>) -> History {
        let mut history = History::EMPTY;
        holds.into_iter().for_each(|hold| history.observe(Same, Nanoseconds(hold)));
        history
    }

    fn predicted(history: &History) -> u64 {
        history.predict(Same, Nanoseconds(u64::MAX)).0
    }

    /// Mean 100, deviation exactly 10: 120 is at two deviations, 121 beyond.
    #[test]
    fn what_is_two_deviations_away_is_taken_and_one_more_is_not() {
        let settled = [90, 110, 90, 110, 90, 110, 90, 110, 90, 110];
        assert_eq!(predicted(&history(settled)), 100);
        assert_eq!(predicted(&history(settled.into_iter().chain([120]))), 1120 / 11);
        assert_eq!(predicted(&history(settled.into_iter().chain([121]))), 100);
        // In nine holds nothing is an outlier.
        assert_eq!(predicted(&history(settled[..9].iter().copied().chain([10_000]))), (890 + 10_000) / 10);
    }

    #[test]
    fn a_length_that_changes_for_good_is_believed_the_tenth_time() {
        let before = [100; 30];
        assert_eq!(predicted(&history(before.into_iter().chain([300; 9]))), 100);
        assert_eq!(predicted(&history(before.into_iter().chain([300; 9]).chain([100]).chain([300; 9]))), 100);
        assert_eq!(predicted(&history(before.into_iter().chain([300; 10]))), 300);
        assert_eq!(predicted(&history(before.into_iter().chain([300; 9]).chain([310, 330]))), 320);
    }

    #[test]
    fn only_the_last_twenty_count() {
        let rising = (0..50).map(|hold| 1_000 + hold % 5);
        assert_eq!(predicted(&history(rising.chain([1_002; 20]))), 1_002);
    }
}
