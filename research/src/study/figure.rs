//! The curves of one setting: the share of accepted sets over utilisation, and the effective utilisation of these sets.
//!
//! *Effective* utilisation counts the time of kernels as the time that CPUs would need for them, 32 times as long, and nothing else but CPU time.
//!
//! # Source
//! Elliott 2015, figures 4.16 and 4.17: observations 21, 24 and 26.

use std::sync::atomic::{AtomicU64, Ordering};

use fusee_arrangements::arrangement::Arrangement;
use fusee_arrangements::draw::{SETTINGS, Setting, draw};
use fusee_arrangements::judge::judge;

use super::costs::Named;
use super::ranks::Observation;

/// A CPU takes so many times as long as a GPU.
const SPEED: f64 = 32.0;
/// Targets of the curves, in thousandths of a CPU.
const STEP: u64 = 500;
const TARGETS: u64 = 18;

/// The number of the setting of figure 4.16: medium utilisations, moderate periods, 8 MiB of data, a quarter of it state, kernels of 25 to 75 %, two thirds of
/// the tasks with GPUs.
fn setting() -> Option<Setting> {
    (0..SETTINGS).filter_map(Setting::of).find(|one| {
        let Setting { utilisation, period, gpu_tasks, kernel, data, state, .. } = *one;
        (utilisation, period, gpu_tasks, kernel) == ((100, 400), (33, 100), 66, (25, 75))
            && data == 8 << 20
            && state == 25
    })
}

/// The curves.
pub struct Figure {
    /// The setting in words.
    pub setting: String,
    /// By arrangement, the shares accepted at each target.
    pub shares: Vec<(Arrangement, Vec<f64>)>,
    /// By arrangement, the effective utilisations of accepted sets, the largest first.
    effective: Vec<Vec<f64>>,
}

/// The utilisations of the curves.
pub fn targets() -> impl Iterator<Item = f64> {
    (1..=TARGETS).map(|number| (number * STEP) as f64 / 1e3)
}

impl Figure {
    /// Judges `sets` sets at each target with these costs, on `workers` threads.
    pub fn run(sets: u64, costs: &Named, seed: u64, workers: usize) -> Option<Figure> {
        let setting = setting()?;
        let all = Arrangement::all();
        let next = AtomicU64::new(0);
        let worker = || {
            let mut found = Vec::new();
            loop {
                // Relaxed: a number for each, and nothing else is shared.
                let set = next.fetch_add(1, Ordering::Relaxed);
                if set >= sets {
                    return found;
                }
                for target in 1..=TARGETS {
                    let tasks = draw(&setting, target * STEP, &costs.nominal(), seed, set);
                    let time = |kernel: f64, cpu: f64, period: u64| (cpu + SPEED * kernel) / period as f64;
                    let effective: f64 = tasks
                        .iter()
                        .map(|task| {
                            time(task.gpu.map_or(0.0, |gpu| gpu.kernel_time() as f64), task.cpu as f64, task.period)
                        })
                        .sum();
                    let is_accepted = |one: &Arrangement| judge(&tasks, one, &costs.costs, costs.rules).is_ok();
                    found.push((set, target, effective, all.iter().map(is_accepted).collect::<Vec<_>>()));
                }
            }
        };
        let mut found: Vec<(u64, u64, f64, Vec<bool>)> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
        });
        found.sort_by_key(|one| (one.0, one.1));
        let share = |number: usize, target: u64| {
            let accepted = found.iter().filter(|one| one.1 == target && one.3[number]).count();
            accepted as f64 / sets as f64
        };
        let shares = all.iter().enumerate();
        let shares = shares.map(|(number, one)| (*one, (1..=TARGETS).map(|target| share(number, target)).collect()));
        let effective = (0..all.len()).map(|number| {
            let mut accepted: Vec<f64> = found.iter().filter(|one| one.3[number]).map(|one| one.2).collect();
            accepted.sort_by(|one, other| other.total_cmp(one));
            accepted
        });
        Some(Figure { setting: setting.words(), shares: shares.collect(), effective: effective.collect() })
    }

    /// The share of accepted sets of an arrangement at a utilisation.
    fn share(&self, name: &str, utilisation: f64) -> f64 {
        let place = targets().position(|target| (target - utilisation).abs() < 1e-9);
        let curve = self.shares.iter().find(|(one, _)| one.to_string() == name);
        curve.zip(place).map_or(f64::NAN, |((_, shares), place)| shares[place])
    }

    fn largest(&self, name: &str) -> f64 {
        let place = self.shares.iter().position(|(one, _)| one.to_string() == name);
        place.and_then(|place| self.effective[place].first().copied()).unwrap_or(0.0)
    }

    /// The observations about the figure.
    pub fn observations(&self) -> Vec<Observation> {
        let percent = |name: &str| format!("{name} {:.0} %", self.share(name, 5.0) * 100.0);
        let order =
            ["(C,P,inf)", "(G,P,inf)", "(C,C2p2p,2)", "(G,C2p2p,2)", "(C,C4,2)", "(G,C4,2)", "(P,P,inf)", "(G,G,2)"];
        let at_five = |name: &str| self.share(name, 5.0);
        let shared = |at: f64| {
            let all =
                self.shares.iter().filter(|(one, _)| one.shares()).map(|(one, _)| self.share(&one.to_string(), at));
            all.fold(0.0, f64::max)
        };
        let late = self.shares.iter().map(|(one, _)| self.share(&one.to_string(), 8.0)).fold(0.0, f64::max);
        let best = at_five("(C,P,inf)").min(at_five("(G,P,inf)"));
        let pairs = at_five("(C,C2p2p,2)").min(at_five("(G,C2p2p,2)"));
        let fours = at_five("(C,C4,2)").max(at_five("(G,C4,2)"));
        let others = at_five("(P,P,inf)").max(at_five("(G,G,2)"));
        let twins = [("(C,C4,2)", "(C,C4p2p,2)"), ("(G,C4,2)", "(G,C4p2p,2)")];
        let twin = |(one, other): &(&str, &str)| {
            format!("{one} {:.0} %, {other} {:.0} %", at_five(one) * 100.0, at_five(other) * 100.0)
        };
        let effective = ["(C,P,inf)", "(G,P,inf)"].map(|name| self.largest(name));
        let least = self.shares.iter().map(|(one, _)| self.largest(&one.to_string())).fold(f64::INFINITY, f64::min);
        vec![
            Observation {
                number: "21",
                claim: "at 5.0: without a limit of tokens, then two GPUs with peers, four GPUs, and the rest; shared GPUs accept nothing; nothing at 8.0",
                figures: format!(
                    "{}; shared {:.0} %; at 8.0 at most {:.0} %",
                    order.map(percent).join(", "),
                    shared(5.0) * 100.0,
                    late * 100.0
                ),
                holds: best >= pairs && pairs >= fours && fours >= others && shared(5.0) == 0.0 && late == 0.0,
            },
            Observation {
                number: "24",
                claim: "in this figure four GPUs are better through memory than from GPU to GPU",
                figures: twins.iter().map(twin).collect::<Vec<_>>().join("; "),
                holds: twins.iter().all(|(one, other)| at_five(one) > at_five(other)),
            },
            Observation {
                number: "26",
                claim: "the best two accept sets of 60 CPUs and more, if CPUs are 32 times as slow; each arrangement accepts more than 12",
                figures: format!("up to {:.1} and {:.1}; the least {least:.1}", effective[0], effective[1]),
                holds: effective.iter().all(|one| *one > 60.0) && least > 12.0,
            },
        ]
    }
}
