//! Draws: which random systems a campaign simulates, and which of them went wrong.
//!
//! # Invariants
//!
//! 1. A system depends on its seed and its number only, so a draw can be repeated alone.
//! 2. A report depends on the draws only, not on the number of host threads; unless the search stops at the first wrong system.
//!
//! Not here: systems, and their faults (`soundness`, `blocking`, `hostile`, `faults`); budgets (`xtask`).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::soundness::in_parallel;

/// The systems of one seed with the numbers `first` to `first + count - 1`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Draws {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of the first system.
    pub first: u64,
    /// Number of systems.
    pub count: u64,
    /// The search ends at the first wrong system: later ones are not drawn. Planted faults are searched for in this way.
    pub stop: bool,
}

impl Draws {
    /// The first `count` systems of `seed`.
    #[must_use]
    pub const fn new(seed: u64, count: u64) -> Draws {
        Draws { seed, first: 0, count, stop: false }
    }

    /// One system.
    #[must_use]
    pub const fn one(seed: u64, number: u64) -> Draws {
        Draws { seed, first: number, count: 1, stop: false }
    }

    /// These systems up to the first wrong one.
    #[must_use]
    pub const fn until_wrong(self) -> Draws {
        Draws { stop: true, ..self }
    }

    /// Draws and judges each system on all CPUs of the host: `judge` gets a report and a number, and `is_wrong` says whether a
    /// report holds something wrong.
    pub fn judge<R: Default + Send>(
        self,
        judge: &(dyn Fn(&mut R, u64) + Sync),
        is_wrong: fn(&R) -> bool,
        join: fn(&mut R, R),
    ) -> R {
        let stopped = AtomicBool::new(false);
        let one = |report: &mut R, index: u64| {
            // Relaxed: the flag is all that is shared. A thread that sees it late draws one system more.
            if self.stop && stopped.load(Ordering::Relaxed) {
                return;
            }
            judge(report, self.first + index);
            if self.stop && is_wrong(report) {
                stopped.store(true, Ordering::Relaxed);
            }
        };
        in_parallel(self.count, &one, join)
    }
}

/// A system in which something is wrong.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Wrong {
    /// The seed of the system.
    pub seed: u64,
    /// The number of the system.
    pub number: u64,
    /// The fault, and the system.
    pub what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, number {}: {}", self.seed, self.number, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(draws: Draws) -> Vec<u64> {
        let judge = |seen: &mut Vec<u64>, number: u64| seen.push(number);
        let mut seen = draws.judge(&judge, |seen| seen.contains(&10), |all, other| all.extend(other));
        seen.sort_unstable();
        seen
    }

    #[test]
    fn each_number_is_drawn_once_and_a_search_ends_soon_after_the_first_wrong_one() {
        let draws = Draws { first: 5, ..Draws::new(1, 1_000_000) };
        assert_eq!(numbers(Draws { count: 100, ..draws }), (5..105).collect::<Vec<_>>());
        let seen = numbers(draws.until_wrong());
        assert!(seen.contains(&10) && seen.len() < 1_000_000, "{}", seen.len());
    }
}
