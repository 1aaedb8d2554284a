//! Processes that share one GPU of many SMs: by priorities ([`priority`]), at a cost in throughput ([`throughput`]), and equally
//! ([`sharing`]).
//!
//! Source: Tanasic et al., ISCA 2014, sections 4.2 to 4.4. Our choices where the paper leaves a number open are at the head of
//! [`fusee_campaigns::spatial`].
//!
//! # How it is measured
//!
//! As in the paper: workloads of 2, 4, 6 and 8 processes are replayed until each process has three complete runs, and only complete
//! runs count. The *NTT* of a process is the mean of its runs by its run alone; an *improvement* is the NTT under the baseline by the NTT under
//! another policy. Means are over workloads. In workload `i` program `i` modulo ten comes first, and has the high
//! priority where there is one: 40 workloads of each size are four of each program.
//!
//! All of it is done in each variant of the unpublished numbers, and a condition holds if it holds in all of them.
//!
//! A replay depends on nothing but its [`Replay`] and its workload. So the common replays of two experiments of one command are
//! run once: three of the six ways of [`throughput`] are ways of [`priority`], too.
//!
//! # Two ways to read the table
//!
//! The paper's table of kernels contradicts itself: its times of launches and its times of blocks differ by the number of SMs. *Kernel
//! mode* goes by the times of launches. *Block mode* (`--block-mode`) goes by the times of blocks; kernels are a 13th as long then.

mod priority;
mod sharing;
mod throughput;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use fusee_campaigns::soundness::in_parallel;
use fusee_campaigns::spatial::{
    Copies, Inputs, Member, Metrics, Outcome, RUNS, SPREAD, Setup, Trace, VARIANTS, Variant, metrics::mean, run, trace,
    workloads,
};
use fusee_spatial::parboil::{Class, PROGRAMS, Reading};
use fusee_spatial::{Fcfs, Key, Mechanism, Rule};

use super::{Findings, Quantity, Unit};

pub use self::priority::EXPERIMENT as PRIORITY;
pub use self::sharing::EXPERIMENT as SHARING;
pub use self::throughput::EXPERIMENT as THROUGHPUT;

/// The name of all of them, one after the other.
pub const ALL: &str = "spatial";
/// The question of all three.
pub const ALL_QUESTION: &str = "the three above; what two of them have in common runs once";

/// Numbers of processes.
const SIZES: [usize; 4] = [2, 4, 6, 8];
/// Workloads of each size,
const WORKLOADS: u64 = 40;
/// and in `cargo xtask test`: each program comes first once.
const FEW_WORKLOADS: u64 = 10;

/// The part of an experiment that is run.
pub struct Form {
    sizes: &'static [usize],
    variants: &'static [Variant],
    reading: Reading,
    /// Complete runs that each process has at least.
    runs: usize,
}

impl Form {
    /// All of it.
    pub const fn full(block_mode: bool) -> Form {
        let reading = if block_mode { Reading::Block } else { Inputs::KERNEL };
        Form { sizes: &SIZES, variants: &VARIANTS, reading, runs: RUNS }
    }

    /// The form that `cargo xtask test` runs: 2 and 4 processes, in one variant, until each has two complete runs.
    pub const SHORT: Form = Form { sizes: &[2, 4], variants: &[VARIANTS[2]], reading: Inputs::KERNEL, runs: 2 };

    /// The reason for which conditions about the owners of SMs need not hold.
    pub const fn reason(&self) -> Option<&'static str> {
        match self.reading {
            Reading::Block => Some(
                "in block mode kernels are a 13th as long and the rest of a run is as long as ever: the engine is idle for most of the time, \
                 and what processes wait for is the one copy engine",
            ),
            Reading::Kernel { .. } | Reading::Waves { .. } => None,
        }
    }

    /// In a sentence.
    pub fn words(&self, workloads: u64) -> String {
        let mode = match self.reading {
            Reading::Block => "block mode: a block takes what the paper's table has",
            Reading::Kernel { .. } | Reading::Waves { .. } => {
                "kernel mode: a launch alone takes the paper's average time"
            }
        };
        format!(
            "{mode}; times of blocks are within {} % of their mean; {workloads} workloads of each size",
            SPREAD / 10
        )
    }
}

/// A series of results to compare: the workloads under one policy, in one variant of the unpublished numbers; or the paper's own results.
pub struct Arrangement {
    /// The variant and the policy, in tables.
    pub name: &'static str,
    /// In a sentence.
    pub about: &'static str,
    /// The name of the variant.
    variant: &'static str,
    /// How it decides, and which number it has among the ways of its variant; the first is the baseline. Without: the paper.
    way: Option<(usize, Way)>,
    /// The paper's numbers of it.
    paper: fn(What, usize) -> f64,
}

/// How engines decide.
#[derive(Clone, Copy)]
pub struct Way {
    /// The policy, for so many processes.
    rule: fn(u8) -> Rule,
    mechanism: Mechanism,
    copies: Copies,
    /// Whether the first process has the high priority. Otherwise all have the same.
    has_high: bool,
}

const FCFS: fn(u8) -> Rule = |_| Rule::Fcfs(Fcfs);
const UNKNOWN: fn(What, usize) -> f64 = |_, _| f64::NAN;

/// These ways in all variants, by names that begin with the variant's.
fn in_all_variants<const N: usize>(
    names: [[&'static str; N]; 3],
    abouts: [&'static str; N],
    ways: [Way; N],
) -> Vec<Arrangement> {
    let of = |(variant, names): (Variant, [&'static str; N])| {
        (0..N).map(move |number| Arrangement {
            name: names[number],
            about: abouts[number],
            variant: variant.name,
            way: Some((number, ways[number])),
            paper: UNKNOWN,
        })
    };
    VARIANTS.into_iter().zip(names).flat_map(of).collect()
}

/// The paper's numbers of a policy.
const fn paper(name: &'static str, about: &'static str, says: fn(What, usize) -> f64) -> Arrangement {
    Arrangement { name, about, variant: "", way: None, paper: says }
}

/// The figure for that number of processes, of four.
fn of_sizes(figures: [f64; 4], size: usize) -> f64 {
    SIZES.iter().position(|one| *one == size).map_or(f64::NAN, |place| figures[place])
}

// --- Measures

/// A quantity of workloads of one size.
pub struct Measure {
    /// The quantity.
    pub quantity: Quantity,
    what: What,
    size: usize,
}

const fn measure(name: &'static str, unit: Unit, charted: bool, what: What, size: usize) -> Measure {
    Measure { quantity: Quantity { name, unit, charted }, what, size }
}

/// Something to measure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum What {
    /// The improvement of the NTT of the first process, of a class by its kernels if one is named.
    First(Option<Class>),
    /// The mean of all processes.
    Each(Option<Class>),
    /// NTT of the first process.
    Ntt,
    /// System throughput.
    Throughput,
    /// The part of it that processes of a class have.
    ThroughputOf(Class),
    /// The part of it that is the first process's.
    FirstThroughput,
    /// That of the baseline by this one.
    Loss,
    /// The loss of all processes but the first.
    OthersLoss,
    /// Fairness by that of the baseline.
    Fairness,
    /// The share of workloads with a mean NTT that is better than in the baseline.
    Better,
    /// Shares of the time of SMs: blocks were saved or restored,
    Moving,
    /// the SM was drained,
    Draining,
    /// idle.
    Idle,
}

/// A workload under one policy.
#[derive(Clone)]
struct Seen {
    metrics: Metrics,
    moving: f64,
    draining: f64,
    idle: f64,
}

impl Seen {
    fn new(outcome: &Outcome, alone: &[f64]) -> Seen {
        let metrics = Metrics::new(alone, &outcome.means());
        let idle = outcome.counters.idle() as f64 / outcome.counters.sm_time() as f64;
        Seen { metrics, moving: outcome.moving(), draining: outcome.draining(), idle }
    }

    fn first_throughput(&self) -> f64 {
        1.0 / self.metrics.ntt[0]
    }

    fn others_throughput(&self) -> f64 {
        self.metrics.stp - self.first_throughput()
    }
}

/// A workload under all policies, in one variant.
struct Ran {
    variant: &'static str,
    programs: Vec<usize>,
    ways: Vec<Seen>,
}

impl What {
    /// Its value for one policy, over all workloads of one size and variant.
    fn of(self, all: &[&Ran], way: usize) -> f64 {
        let each = |of: fn(&Seen, &Seen) -> f64| mean(all.iter().map(|ran| of(&ran.ways[0], &ran.ways[way])));
        let is_of = |class: Option<Class>, program: usize| class.is_none_or(|class| PROGRAMS[program].kernels == class);
        let gain = |ran: &Ran, number: usize| ran.ways[0].metrics.ntt[number] / ran.ways[way].metrics.ntt[number];
        match self {
            What::First(class) => mean(all.iter().filter(|ran| is_of(class, ran.programs[0])).map(|ran| gain(ran, 0))),
            What::Each(class) => mean(all.iter().flat_map(|ran| {
                let of_class = (0..ran.programs.len()).filter(|number| is_of(class, ran.programs[*number]));
                of_class.map(|number| gain(ran, number)).collect::<Vec<_>>()
            })),
            What::Ntt => each(|_, seen| seen.metrics.ntt[0]),
            What::Throughput => each(|_, seen| seen.metrics.stp),
            What::ThroughputOf(class) => mean(all.iter().map(|ran| {
                let of_class = ran.programs.iter().zip(&ran.ways[way].metrics.ntt);
                let of_class = of_class.filter(|(program, _)| PROGRAMS[**program].kernels == class);
                of_class.map(|(_, ntt)| 1.0 / ntt).sum()
            })),
            What::FirstThroughput => each(|_, seen| seen.first_throughput()),
            What::Loss => each(|base, seen| base.metrics.stp / seen.metrics.stp),
            What::OthersLoss => each(|base, seen| base.others_throughput() / seen.others_throughput()),
            What::Fairness => each(|base, seen| seen.metrics.fairness / base.metrics.fairness),
            What::Better => each(|base, seen| f64::from(u8::from(seen.metrics.antt < base.metrics.antt))),
            What::Moving => each(|_, seen| seen.moving),
            What::Draining => each(|_, seen| seen.draining),
            What::Idle => each(|_, seen| seen.idle),
        }
    }
}

//--- Running it

/// The finished replays, for all experiments of one command: some have ways in common, and of two processes some workloads are drawn twice.
#[derive(Default)]
pub struct Replays(Mutex<HashMap<Vec<usize>, OfWorkload>>);

/// All replays of one workload.
type OfWorkload = Vec<(Replay, Seen)>;

/// All that a replay depends on but its workload.
#[derive(Clone, Copy, PartialEq)]
struct Replay {
    inputs: Inputs,
    setup: Setup,
    /// Whether the first process has the high priority.
    has_high: bool,
    runs: usize,
}

impl Replays {
    /// The result of a replay of a workload: known, or found now.
    fn of(&self, workload: &[usize], replay: Replay, find: impl Fn() -> Seen) -> Seen {
        // A thread that panicked has put nothing in by halves.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            lock().get(workload).and_then(|all| all.iter().find(|one| one.0 == replay)).map(|one| one.1.clone());
        known.unwrap_or_else(|| {
            let seen = find();
            lock().entry(workload.to_vec()).or_default().push((replay, seen.clone()));
            seen
        })
    }
}

/// Runs all workloads under all policies, as many at a time as there are CPUs.
pub fn simulate(
    arrangements: Vec<Arrangement>,
    measures: &[Measure],
    form: &Form,
    seed: u64,
    count: u64,
    replays: &Replays,
) -> Findings {
    let is_run =
        |one: &Arrangement| one.way.is_none() || form.variants.iter().any(|variant| variant.name == one.variant);
    let arrangements: Vec<Arrangement> = arrangements.into_iter().filter(is_run).collect();
    // The ways are the same in all variants.
    let mut ways: Vec<Way> = Vec::new();
    for (number, way) in arrangements.iter().filter_map(|one| one.way) {
        if number == ways.len() {
            ways.push(way);
        }
    }
    let variants: Vec<Alone> = form.variants.iter().map(|one| Alone::new(form.reading, *one, seed)).collect();
    // Those that take longest come first.
    let workloads = form.sizes.iter().rev().flat_map(|size| workloads(seed, *size, count as usize));
    let items: Vec<(&Alone, Vec<usize>)> =
        workloads.flat_map(|workload| variants.iter().map(move |alone| (alone, workload.clone()))).collect();
    let one = |done: &mut Vec<(u64, Ran)>, number: u64| {
        let (alone, workload) = &items[number as usize];
        let ways = ways.iter().map(|way| alone.replay(workload, way, form.runs, replays)).collect();
        done.push((number, Ran { variant: alone.inputs.variant.name, programs: workload.clone(), ways }));
    };
    let mut done = in_parallel(items.len() as u64, &one, |all, some| all.extend(some));
    done.sort_by_key(|(number, _)| *number);
    let value = |arrangement: &Arrangement, measure: &Measure| match arrangement.way {
        None => (arrangement.paper)(measure.what, measure.size),
        Some((way, _)) => {
            let is_meant = |ran: &&Ran| ran.variant == arrangement.variant && ran.programs.len() == measure.size;
            let all: Vec<&Ran> = done.iter().map(|(_, ran)| ran).filter(is_meant).collect();
            measure.what.of(&all, way)
        }
    };
    let values = |arrangement| measures.iter().map(|measure| value(arrangement, measure)).collect();
    Findings {
        values: arrangements.iter().map(values).collect(),
        arrangements: arrangements.iter().map(|one| (one.name, one.about)).collect(),
        quantities: measures.iter().map(|measure| measure.quantity).collect(),
        further: Vec::new(),
    }
}

const HIGH: Key = Key(1);
const LOW: Key = Key(2);

/// The programs in one variant: the trace of each, and how long a run of it takes alone, in nanoseconds.
struct Alone {
    inputs: Inputs,
    traces: Vec<Trace>,
    lengths: Vec<f64>,
}

impl Alone {
    fn new(reading: Reading, variant: Variant, seed: u64) -> Alone {
        let inputs = Inputs { reading, spread: SPREAD, variant, seed };
        let setup = Setup { rule: Rule::Fcfs(Fcfs), mechanism: Mechanism::Switch, copies: Copies::ByArrival };
        let traces: Vec<Trace> = (0..PROGRAMS.len()).map(|program| trace(program, &inputs)).collect();
        let length = |trace| run(&[Member { trace, key: LOW }], &setup, 1).means()[0];
        Alone { inputs, lengths: traces.iter().map(length).collect(), traces }
    }

    /// Runs one workload under one policy.
    fn replay(&self, workload: &[usize], way: &Way, runs: usize, replays: &Replays) -> Seen {
        let has_high = way.has_high;
        let setup = Setup { rule: (way.rule)(workload.len() as u8), mechanism: way.mechanism, copies: way.copies };
        replays.of(workload, Replay { inputs: self.inputs, setup, has_high, runs }, || {
            let key = |number| if number == 0 && has_high { HIGH } else { LOW };
            let members = workload.iter().enumerate();
            let members: Vec<Member<'_>> =
                members.map(|(number, program)| Member { trace: &self.traces[*program], key: key(number) }).collect();
            let alone: Vec<f64> = workload.iter().map(|program| self.lengths[*program]).collect();
            Seen::new(&run(&members, &setup, runs), &alone)
        })
    }
}

// --- Conditions

/// The findings, by variant, policy and number of processes.
struct Numbers<'a> {
    found: &'a Findings,
    variants: Vec<&'static str>,
    sizes: Vec<usize>,
}

impl Numbers<'_> {
    /// The numbers of these findings: `policy` is one of the policies.
    fn new<'a>(found: &'a Findings, policy: &str, quantity: &str) -> Numbers<'a> {
        let has = |variant: &&str| found.arrangements.iter().any(|one| one.0 == format!("{variant}: {policy}"));
        let variants: Vec<&'static str> = VARIANTS.iter().map(|one| one.name).filter(has).collect();
        let is_known = |size: &usize| {
            variants
                .iter()
                .all(|variant| !found.value(&format!("{variant}: {policy}"), &format!("{quantity}, {size}")).is_nan())
        };
        let sizes = SIZES.into_iter().filter(is_known).collect();
        Numbers { found, variants, sizes }
    }

    fn value(&self, variant: &str, policy: &str, quantity: &str, size: usize) -> f64 {
        self.found.value(&format!("{variant}: {policy}"), &format!("{quantity}, {size}"))
    }

    /// Whether something holds in all variants for all numbers of processes from `least` on.
    fn all(&self, least: usize, holds: impl Fn(&str, usize) -> bool) -> bool {
        let sizes = || self.sizes.iter().copied().filter(|size| *size >= least);
        self.variants.iter().all(|variant| sizes().all(|size| holds(variant, size)))
    }

    /// Whether a quantity grows with the number of processes in all variants.
    fn grows(&self, policy: &str, quantity: &str) -> bool {
        let of = |variant: &str, size| self.value(variant, policy, quantity, size);
        let grows = |variant: &&str| self.sizes.windows(2).all(|pair| of(variant, pair[0]) < of(variant, pair[1]));
        self.variants.iter().all(grows)
    }

    /// A quantity with its values, variant by variant, process number by process number.
    fn list(&self, policy: &str, quantity: &str) -> String {
        let of = |variant: &&str| {
            let values = self.sizes.iter().map(|size| format!("{:.2}", self.value(variant, policy, quantity, *size)));
            values.collect::<Vec<_>>().join(" ")
        };
        format!("{policy} {}", self.variants.iter().map(of).collect::<Vec<_>>().join(" / "))
    }

    /// A quantity for one number of processes, variant by variant; without the name of the policy.
    fn at(&self, policy: &str, quantity: &str, size: usize) -> String {
        let values = self.variants.iter().map(|variant| format!("{:.2}", self.value(variant, policy, quantity, size)));
        values.collect::<Vec<_>>().join(" / ")
    }

    /// A share as text, in per cent.
    fn shares(&self, policy: &str, quantity: &str, size: usize) -> String {
        let values = self.variants.iter().map(|variant| Unit::Share.show(self.value(variant, policy, quantity, size)));
        values.collect::<Vec<_>>().join(" / ")
    }

    fn largest(&self) -> usize {
        self.sizes.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workload of two processes of which these are the programs, with NTT of the baseline and of another policy.
    fn ran(programs: [usize; 2], ntt: [[f64; 2]; 2]) -> Ran {
        let seen =
            |ntt: [f64; 2]| Seen { metrics: Metrics::new(&[1.0; 2], &ntt), moving: 0.0, draining: 0.0, idle: 0.25 };
        Ran { variant: "low", programs: programs.to_vec(), ways: ntt.map(seen).into() }
    }

    #[test]
    fn quantities_are_those_of_an_example_by_hand() {
        // spmv has SHORT kernels, lbm MEDIUM ones.
        let both = [ran([3, 0], [[8.0, 2.0], [2.0, 4.0]]), ran([0, 3], [[2.0, 4.0], [1.0, 2.0]])];
        let all: Vec<&Ran> = both.iter().collect();
        let of = |what: What| what.of(&all, 1);
        let of_all = [
            (What::First(None), 3.0),
            (What::First(Some(Class::Short)), 4.0),
            (What::First(Some(Class::Medium)), 2.0),
            (What::Each(None), 2.125),
            (What::Each(Some(Class::Short)), 3.0),
            (What::Each(Some(Class::Medium)), 1.25),
            (What::Ntt, 1.5),
            (What::Throughput, 1.125),
            (What::ThroughputOf(Class::Short), 0.5),
            (What::FirstThroughput, 0.75),
            // 0.625 / 0.75 and 0.75 / 1.5; without the first 0.5 / 0.25 and 0.25 / 0.5.
            (What::Loss, (5.0 / 6.0 + 0.5) / 2.0),
            (What::OthersLoss, 1.25),
            // 0.25 and 0.5 before, 0.5 and 0.5 now.
            (What::Fairness, 1.5),
            (What::Better, 1.0),
            (What::Idle, 0.25),
        ];
        for (what, value) in of_all {
            assert!((of(what) - value).abs() < 1e-12, "{what:?}: {}", of(what));
        }
        assert!(of(What::First(Some(Class::Long))).is_nan());
    }

    #[test]
    fn a_short_form_runs_one_variant_and_what_the_paper_says_stays() {
        let ntt = |name, size| measure(name, Unit::Ratio, false, What::Ntt, size);
        let measures = [ntt("NTT, 2", 2), ntt("NTT, 4", 4), ntt("NTT, 6", 6), ntt("NTT, 8", 8)];
        let found = |form| simulate(test_arrangements(), &measures, form, 1, 1, &Replays::default());
        let short = Form { sizes: &[2], ..Form::SHORT };
        let one = found(&short);
        assert_eq!(one.arrangements.iter().map(|one| one.0).collect::<Vec<_>>(), ["high: a", "paper"]);
        assert!(one.values[0][0] >= 1.0 && one.values[1][0] == 7.0);
        assert_eq!(one.values[0][0], found(&short).values[0][0]);
        let numbers = Numbers::new(&one, "a", "NTT");
        assert_eq!((numbers.variants, numbers.sizes), (vec!["high"], vec![2]));
    }

    #[test]
    fn what_was_replayed_is_known_by_its_workload_its_variant_and_its_way() {
        let replays = Replays::default();
        let alone = |variant| Alone::new(Inputs::KERNEL, variant, 1);
        let way = |has_high, mechanism| Way { rule: FCFS, mechanism, copies: Copies::ByKey, has_high };
        let ntt = |alone: &Alone, workload: &[usize], way| alone.replay(workload, &way, 1, &replays).metrics.ntt;
        let count = || replays.0.lock().unwrap().values().map(Vec::len).sum::<usize>();
        let low = alone(VARIANTS[0]);
        let first = ntt(&low, &[3, 6], way(true, Mechanism::Switch));
        assert_eq!((ntt(&low, &[3, 6], way(true, Mechanism::Switch)), count()), (first, 1));
        let _ = ntt(&low, &[6, 3], way(true, Mechanism::Switch));
        let _ = ntt(&low, &[3, 6], way(false, Mechanism::Switch));
        let _ = ntt(&low, &[3, 6], way(true, Mechanism::Drain));
        let _ = ntt(&alone(VARIANTS[1]), &[3, 6], way(true, Mechanism::Switch));
        assert_eq!(count(), 5);
    }

    fn test_arrangements() -> Vec<Arrangement> {
        let way = Way { rule: FCFS, mechanism: Mechanism::Switch, copies: Copies::ByKey, has_high: true };
        let mut all = in_all_variants([["low: a"], ["middle: a"], ["high: a"]], [""], [way]);
        all.push(paper("paper", "", |_, _| 7.0));
        all
    }
}
