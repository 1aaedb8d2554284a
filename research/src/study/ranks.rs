//! Ranks of arrangements, and the observations of the text about them.
//!
//! In each setting an arrangement is the better, the larger the area under its curve of accepted sets over utilisation. Its *sub-rank* there is one more than
//! the number of arrangements with a larger area. Its rank is by the median of its sub-ranks, and by their mean where medians are equal.
//!
//! # Source
//! Elliott 2015, section 4.3.3.2: tables 4.5 to 4.8, observations 13 to 20, 22, 23 and 25.

use fusee_arrangements::arrangement::Arrangement;
use fusee_arrangements::draw::Setting;
use fusee_arrangements::engines::Migration;

use super::grid::{Found, Grid};

/// The standing of one arrangement.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The arrangement.
    pub arrangement: Arrangement,
    /// 1 is the best.
    pub rank: usize,
    /// The median of its sub-ranks.
    pub median: f64,
    /// Their mean.
    pub mean: f64,
    /// Settings in which it is the best, alone or with others.
    pub best: usize,
    /// The mean utilisation up to which sets are accepted, in thousandths of a CPU.
    pub accepted: u64,
}

/// The standings under the costs with number `set`, in the order of [`Arrangement::all`]; and the number of settings.
pub fn standings(grid: &Grid, found: &[Found], set: usize) -> (Vec<Standing>, usize) {
    let arrangements = Arrangement::all();
    let mut areas = std::collections::BTreeMap::<usize, Vec<u64>>::new();
    for (number, one) in found.iter().enumerate() {
        let area = areas.entry(grid.item(number as u64).setting).or_insert_with(|| vec![0; arrangements.len()]);
        area.iter_mut().zip(&one.accepted[set]).for_each(|(sum, accepted)| *sum += accepted);
    }
    let mut ranks = vec![Vec::new(); arrangements.len()];
    for area in areas.values() {
        for (ranks, own) in ranks.iter_mut().zip(area) {
            ranks.push(1 + area.iter().filter(|other| *other > own).count());
        }
    }
    let settings = areas.len();
    let sums = (0..arrangements.len()).map(|number| found.iter().map(|one| one.accepted[set][number]).sum::<u64>());
    let mut all: Vec<Standing> = arrangements
        .iter()
        .zip(ranks)
        .zip(sums)
        .map(|((arrangement, mut ranks), sum)| {
            ranks.sort_unstable();
            let middle = |number: usize| ranks.get(number).copied().unwrap_or(0) as f64;
            Standing {
                arrangement: *arrangement,
                rank: 0,
                median: (middle(ranks.len() / 2) + middle(ranks.len().saturating_sub(1) / 2)) / 2.0,
                mean: ranks.iter().sum::<usize>() as f64 / ranks.len().max(1) as f64,
                best: ranks.iter().filter(|rank| **rank == 1).count(),
                accepted: sum * grid.step / (found.len() as u64).max(1),
            }
        })
        .collect();
    let key = |one: &Standing| ((one.median * 2.0) as u64, (one.mean * 1e6) as u64);
    let keys: Vec<_> = all.iter().map(key).collect();
    for (one, own) in all.iter_mut().zip(&keys) {
        one.rank = 1 + keys.iter().filter(|other| *other < own).count();
    }
    (all, settings)
}

/// A class of workloads, by the utilisation of tasks and the bytes that they copy: the mean utilisation up to which sets are accepted under each arrangement,
/// in CPUs, in the order of [`Arrangement::all`].
#[derive(Clone, Debug)]
pub struct Workload {
    /// The utilisation of each task, in percent.
    pub utilisation: (u64, u64),
    /// Bytes copied.
    pub data: u64,
    /// Bytes of state, in percent of the data.
    pub state: u64,
    /// By arrangement.
    pub accepted: Vec<f64>,
}

/// The classes of workloads under the costs with number `set`.
pub fn workloads(grid: &Grid, found: &[Found], set: usize) -> Vec<Workload> {
    let mut sums = std::collections::BTreeMap::<(u64, u64, u64, u64), (u64, Vec<u64>)>::new();
    for (number, one) in found.iter().enumerate() {
        let Some(setting) = Setting::of(grid.item(number as u64).setting) else { continue };
        let key = (setting.utilisation.0, setting.utilisation.1, setting.data, setting.state);
        let (count, sum) = sums.entry(key).or_insert_with(|| (0, vec![0; one.accepted[set].len()]));
        *count += 1;
        sum.iter_mut().zip(&one.accepted[set]).for_each(|(sum, accepted)| *sum += accepted);
    }
    let all = sums.into_iter().map(|((least, most, data, state), (count, sum))| Workload {
        utilisation: (least / 10, most / 10),
        data,
        state,
        accepted: sum.iter().map(|sum| (sum * grid.step) as f64 / count as f64 / 1e3).collect(),
    });
    all.collect()
}

/// An observation of the text, and whether it holds here.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Its number in the text.
    pub number: &'static str,
    /// The claim.
    pub claim: &'static str,
    /// The figures.
    pub figures: String,
    /// Whether it holds.
    pub holds: bool,
}

/// Ranks under several costs, by name.
pub struct Ranks<'a> {
    /// The names of the costs, and the standings.
    pub all: Vec<(&'a str, Vec<Standing>)>,
    /// Number of settings.
    pub settings: usize,
}

impl Ranks<'_> {
    fn rank(&self, costs: usize, name: &str) -> usize {
        self.standing(costs, name).map_or(0, |one| one.rank)
    }

    fn standing(&self, costs: usize, name: &str) -> Option<&Standing> {
        self.all[costs].1.iter().find(|one| one.arrangement.to_string() == name)
    }

    /// The pairs of arrangements of which the first should be the better one, and is not: with the costs, and both ranks.
    fn exceptions(&self, pairs: &[(Arrangement, Arrangement)]) -> (usize, Vec<String>) {
        let mut wrong = Vec::new();
        for (name, standings) in &self.all {
            let rank = |of: &Arrangement| standings.iter().find(|one| one.arrangement == *of).map_or(0, |one| one.rank);
            for (better, worse) in pairs {
                if rank(better) > rank(worse) {
                    wrong.push(format!("{name}: {better} {} and {worse} {}", rank(better), rank(worse)));
                }
            }
        }
        (pairs.len() * self.all.len(), wrong)
    }

    fn pairs(&self, number: &'static str, claim: &'static str, pairs: &[(Arrangement, Arrangement)]) -> Observation {
        let (count, wrong) = self.exceptions(pairs);
        let shown = wrong.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
        let figures = match wrong.len() {
            0 => format!("in all {count} pairs"),
            some => format!("not in {some} of {count} pairs: {shown}"),
        };
        Observation { number, claim, figures, holds: wrong.is_empty() }
    }

    /// The observations about ranks.
    pub fn observations(&self) -> Vec<Observation> {
        let all = Arrangement::all();
        let with = |change: &dyn Fn(&Arrangement) -> Option<Arrangement>| -> Vec<(Arrangement, Arrangement)> {
            all.iter().filter_map(|one| Some((change(one).filter(|other| all.contains(other))?, *one))).collect()
        };
        let more_tokens = with(&|one| {
            let tokens = match one.tokens? {
                3 => None,
                tokens => Some(tokens + 1),
            };
            (one.gpu_cluster == 1).then_some(Arrangement { tokens, ..*one })
        });
        let two_tokens = with(&|one| {
            let is_it = one.gpu_cluster > 1 && !one.shares() && one.tokens != Some(2);
            is_it.then_some(Arrangement { tokens: Some(2), ..*one })
        });
        let peers = with(&|one| {
            let is_it = one.migration == Migration::System && !one.shares();
            is_it.then_some(Arrangement { migration: Migration::Peer, ..*one })
        });
        let smaller = with(&|one| (one.gpu_cluster == 4).then_some(Arrangement { gpu_cluster: 2, ..*one }));
        vec![
            self.first(),
            self.never_always(),
            self.pairs("15", "with partitioned GPUs, more tokens are better", &more_tokens),
            self.pairs("16", "with clustered GPUs and shared CPUs, two tokens are best", &two_tokens),
            self.pairs("17", "migration from GPU to GPU is better than through memory", &peers),
            self.pairs("18, 23", "clusters of two GPUs are better than clusters of four", &smaller),
            self.competitive(),
            self.worst(),
        ]
    }

    /// Observation 13.
    fn first(&self) -> Observation {
        let firsts: Vec<String> = (0..self.all.len())
            .map(|costs| {
                let first = self.all[costs].1.iter().find(|one| one.rank == 1);
                format!("{}: {}", self.all[costs].0, first.map_or_else(String::new, |one| one.arrangement.to_string()))
            })
            .collect();
        let is_first = |costs: usize| {
            let ranks = ["(C,P,inf)", "(G,P,inf)"].map(|name| self.rank(costs, name));
            ranks.contains(&1)
        };
        Observation {
            number: "13",
            claim: "partitioned GPUs without a limit of tokens come first, with clustered or global CPUs",
            figures: firsts.join(", "),
            holds: (0..self.all.len()).all(is_first),
        }
    }

    /// Observation 14.
    fn never_always(&self) -> Observation {
        let best = |costs: usize| self.all[costs].1.iter().map(|one| one.best).max().unwrap_or(0);
        let most = (0..self.all.len()).map(best).max().unwrap_or(0);
        Observation {
            number: "14",
            claim: "no arrangement is the best for every task set",
            figures: format!("the best in {most} of {} settings at most", self.settings),
            holds: most < self.settings,
        }
    }

    /// Observations 19 and 22: in the text the ranks differ by 3 at most.
    fn competitive(&self) -> Observation {
        let ranks = |costs: usize| (self.rank(costs, "(C,C2p2p,2)"), self.rank(costs, "(P,P,inf)"));
        let all: Vec<String> = (0..self.all.len())
            .map(|costs| format!("{}: {} and {}", self.all[costs].0, ranks(costs).0, ranks(costs).1))
            .collect();
        Observation {
            number: "19, 22",
            claim: "(C,C2p2p,2) is no more than 3 ranks below (P,P,inf)",
            figures: all.join(", "),
            holds: (0..self.all.len()).all(|costs| ranks(costs).0 <= ranks(costs).1 + 3),
        }
    }

    /// Observations 20 and 25.
    fn worst(&self) -> Observation {
        let among = |costs: usize| {
            let shared = self.all[costs].1.iter().filter(|one| one.arrangement.shares());
            shared.filter(|one| one.rank > Arrangement::all().len() - 21).count()
        };
        let all: Vec<usize> = (0..self.all.len()).map(among).collect();
        Observation {
            number: "20, 25",
            claim: "GPUs that CPU clusters share fill 18 of the 21 worst places",
            figures: format!("{} to {}", all.iter().min().unwrap_or(&0), all.iter().max().unwrap_or(&0)),
            holds: all.iter().all(|count| *count == 18),
        }
    }
}
