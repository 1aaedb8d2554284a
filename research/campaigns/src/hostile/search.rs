//! The search for several planted faults at once.
//!
//! Most of a system's time goes into its admission, and a rule that the kernel forgets changes nothing of that. So one admitted system serves
//! all those faults. A condition that is taken for granted changes the admission of a system only if the lack of this condition alone was a
//! reason to refuse it: all other systems are passed over.
//!
//! # Invariants
//!
//! A fault is found in a system exactly if [`hostile`](super::hostile()) finds it there with this fault alone.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{BEHAVIOURS, Granted, HostileReport, Which, run_or_panic};
use crate::draws::Draws;

/// The number of a system that shows the fault, for each of `faults`; `None`: no system of `draws` does. The search of a fault ends at the
/// first system that shows it, so with several CPUs the number is not always the least.
#[must_use]
pub fn search(draws: Draws, faults: &[Which]) -> Vec<Option<u64>> {
    const NONE: u64 = u64::MAX;
    super::say_which_system_panics();
    let found: Vec<AtomicU64> = faults.iter().map(|_| AtomicU64::new(NONE)).collect();
    // Relaxed: each number is all that is shared. A thread that sees it late searches one system more.
    let is_open = |at: usize| found[at].load(Ordering::Relaxed) == NONE;
    let look = |_: &mut u64, group: u64| {
        let open: Vec<usize> = (0..faults.len()).filter(|at| is_open(*at)).collect();
        if open.is_empty() {
            return;
        }
        let first = group * BEHAVIOURS;
        let numbers = first..first + BEHAVIOURS;
        let mut honest = HostileReport::default();
        let admitted = honest.find((draws.seed, group), Which::default());
        for at in open {
            let fault = faults[at];
            let shows = match (fault.granted, &admitted) {
                (Some(granted), _) if granted.is_drawn_apart() || honest.is_lacking(granted) => {
                    let mut report = HostileReport::default();
                    report.check(draws.seed, numbers.clone(), fault, false);
                    report.violations.first().map(|violation| violation.origin.1)
                }
                (None, Ok(admitted)) => numbers.clone().find(|number| {
                    let outcome = run_or_panic(&admitted.manifest, (draws.seed, *number), fault);
                    outcome.is_ok_and(|outcome| outcome.wrong.is_some())
                }),
                _ => None,
            };
            if let Some(number) = shows {
                found[at].fetch_min(number, Ordering::Relaxed);
            }
        }
    };
    let groups = Draws { first: 0, count: draws.count / BEHAVIOURS, ..draws };
    groups.judge(&look, |_| false, |_, _| ());
    found.iter().map(|number| Some(number.load(Ordering::Relaxed)).filter(|number| *number != NONE)).collect()
}

impl Granted {
    /// Whether a search for this condition draws systems of its own.
    pub(super) const fn is_drawn_apart(self) -> bool {
        matches!(self, Granted::NoWaitsInside | Granted::SupervisorsHaveTime)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HostileOptions, hostile};
    use super::*;

    #[test]
    fn faults_are_found_together_in_systems_that_show_them_alone() {
        let granted = |granted| Which { granted: Some(granted), ..Which::default() };
        let planted = |planted| Which { planted: Some(planted), ..Which::default() };
        let kernel = fusee_kernel_core::Planted::ALL.into_iter().map(planted);
        let faults: Vec<Which> = kernel.chain(Granted::ALL.into_iter().map(granted)).collect();
        let draws = Draws::new(3, 100);
        for (fault, number) in faults.iter().zip(search(draws, &faults)) {
            let alone = HostileOptions { draws: draws.until_wrong(), kernel: *fault, covers: false };
            let is_found = !hostile(&alone).violations.is_empty();
            assert_eq!(number.is_some(), is_found, "{fault:?}");
        }
    }
}
