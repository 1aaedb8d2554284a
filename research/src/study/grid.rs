//! The points of a study, and the results at each.
//!
//! An *item* is a setting and the number of a set. Sets of one number are nested: a larger target adds tasks. An item draws the set of each target in turn and
//! judges it with all costs and rules under all arrangements, until a set was refused at two targets in a row. Utilisation counts copies in and out by the same costs, so
//! all arrangements are compared by one set, and costs by sets of one utilisation. Its result is, for each costs and arrangement, the number
//! of targets at which the set was accepted.
//!
//! # Invariants
//!
//! 1. The result of an item depends on seed, grid, costs, rules and item only.
//! 2. Items are in one order: each pass has one set of each setting, and a part of a pass has settings from everywhere. So any part of the results from
//!    the beginning on is a coarse study.

use fusee_arrangements::arrangement::Arrangement;
use fusee_arrangements::draw::{SETTINGS, Setting, draw};
use fusee_arrangements::judge::judge;

use super::costs::Named;

/// The extent of a study.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grid {
    /// The name on the command line.
    pub name: &'static str,
    /// The distance of targets, in thousandths of a CPU; the last one is all CPUs.
    pub step: u64,
    /// Sets of each setting.
    pub sets: u64,
    /// Number of settings.
    pub settings: usize,
}

/// The grids: seconds, ten minutes of one core, half a day.
pub const GRIDS: [Grid; 3] = [
    Grid { name: "smoke", step: 1_500, sets: 1, settings: 24 },
    Grid { name: "coarse", step: 500, sets: 10, settings: SETTINGS },
    Grid { name: "full", step: 250, sets: 500, settings: SETTINGS },
];

/// The largest target: 12 CPUs.
const LARGEST: u64 = 12_000;
/// Settings of a pass are this far apart; it has no divisor in common with [`SETTINGS`].
const STRIDE: usize = 281;

/// An item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Item {
    /// The number of the setting.
    pub setting: usize,
    /// The number of the set.
    pub set: u64,
}

/// The results of an item: by costs and by arrangement the number of targets that were accepted; and the number of sets judged.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// By costs and by arrangement.
    pub accepted: Vec<Vec<u64>>,
    /// Sets judged, each with one of the costs and under one arrangement.
    pub tests: u64,
}

impl Grid {
    /// The number of items.
    pub fn items(&self) -> u64 {
        self.settings as u64 * self.sets
    }

    /// The item with this number.
    pub fn item(&self, number: u64) -> Item {
        let settings = self.settings as u64;
        Item { setting: (number % settings) as usize * STRIDE % SETTINGS, set: number / settings }
    }

    /// The targets, in thousandths of a CPU.
    pub fn targets(&self) -> impl Iterator<Item = u64> + use<> {
        (1..=LARGEST / self.step).map({
            let step = self.step;
            move |number| number * step
        })
    }
}

/// Refusals in a row after which larger targets are not tried.
const REFUSALS: u32 = 2;

/// Judges an item.
pub fn judged(grid: &Grid, item: Item, costs: &[Named], seed: u64) -> Found {
    let arrangements = Arrangement::all();
    let mut found = Found { accepted: vec![vec![0; arrangements.len()]; costs.len()], tests: 0 };
    let Some(setting) = Setting::of(item.setting) else { return found };
    let mut refused = vec![vec![0; arrangements.len()]; costs.len()];
    for target in grid.targets() {
        let mut is_over = true;
        for (set, one) in costs.iter().enumerate() {
            let tasks = draw(&setting, target, &one.nominal(), seed, item.set);
            for (number, arrangement) in arrangements.iter().enumerate() {
                let refused = &mut refused[set][number];
                if *refused >= REFUSALS {
                    continue;
                }
                found.tests += 1;
                let arrangement = Arrangement { speeds: one.speeds, ..*arrangement };
                match judge(&tasks, &arrangement, &one.costs, one.rules) {
                    Ok(_) => {
                        *refused = 0;
                        found.accepted[set][number] += 1;
                    }
                    Err(_) => *refused += 1,
                }
                is_over &= *refused >= REFUSALS;
            }
        }
        if is_over {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn one_cpu_has_no_fair_lateness_and_deadlines_are_harder_to_meet_than_bounds() {
        let policies = super::super::costs::policies(&fusee_host::system::root().unwrap()).unwrap();
        let arrangements = Arrangement::all();
        let (mut bounded, mut in_time, mut priorities) = ([0; 2], [0; 2], [0; 2]);
        for number in 0..3 {
            let found = judged(&GRIDS[0], GRIDS[0].item(number), &policies, 1).accepted;
            let [fair, earliest, fair_in_time, earliest_in_time, monotonic] = &found[..] else { panic!("{found:?}") };
            for (at, one) in arrangements.iter().enumerate() {
                let is_several = usize::from(one.cpu_cluster > 1);
                if is_several == 0 {
                    assert_eq!((fair[at], fair_in_time[at]), (earliest[at], earliest_in_time[at]), "{one}");
                    assert!(monotonic[at] <= earliest_in_time[at], "{one}");
                }
                bounded[is_several] += earliest[at];
                in_time[is_several] += earliest_in_time[at];
                priorities[is_several] += monotonic[at];
            }
        }
        // On one CPU a bound under EDF is the period; on several CPUs it is later.
        assert_eq!(bounded[0], in_time[0]);
        assert!(bounded[1] > in_time[1] && priorities.iter().all(|accepted| *accepted > 0), "{bounded:?} {in_time:?}");
    }

    #[test]
    fn a_pass_has_each_setting_once_and_its_parts_settings_from_everywhere() {
        let coarse = GRIDS[1];
        let pass: Vec<usize> = (0..SETTINGS as u64).map(|number| coarse.item(number).setting).collect();
        assert_eq!(pass.iter().collect::<BTreeSet<_>>().len(), SETTINGS);
        let part = pass[..24].iter().map(|setting| setting / 162).collect::<BTreeSet<_>>();
        assert_eq!(part.len(), 3, "{part:?}");
        assert_eq!(coarse.item(SETTINGS as u64), Item { setting: 0, set: 1 });
        assert_eq!((coarse.items(), coarse.targets().last()), (4_860, Some(12_000)));
        assert_eq!(GRIDS[0].items(), 24);
    }
}
