//! Experiment B of the paper, section 4.3 and figure 6: the cost of priorities with preemption in throughput.

use fusee_campaigns::spatial::Copies;
use fusee_spatial::{Mechanism, Npq, Ppq, Rule};

use super::{
    Arrangement, FEW_WORKLOADS, Measure, Numbers, WORKLOADS, Way, What, in_all_variants, measure, of_sizes, paper,
};
use crate::experiment::{Condition, Experiment, Findings, Kind, Unit};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "spatial-throughput",
    question: "what does it cost in throughput that SMs are taken away for a process of high priority?",
    length: WORKLOADS,
    short: FEW_WORKLOADS,
    kind: Kind::Spatial(arrangements, &MEASURES),
    conditions,
};

const BASE: &str = "NPQ";
const EXCLUSIVE: [&str; 2] = ["drain", "switch"];
const SHARED: [&str; 2] = ["drain, sh.", "switch, sh."];
const ALIKE: &str = "alike";
const NAMES: [[&str; 6]; 3] = [
    ["low: NPQ", "low: alike", "low: drain", "low: switch", "low: drain, sh.", "low: switch, sh."],
    ["middle: NPQ", "middle: alike", "middle: drain", "middle: switch", "middle: drain, sh.", "middle: switch, sh."],
    ["high: NPQ", "high: alike", "high: drain", "high: switch", "high: drain, sh.", "high: switch, sh."],
];

fn arrangements() -> Vec<Arrangement> {
    let way = |rule, mechanism| Way { rule, mechanism, copies: Copies::ByKey, has_high: true };
    let exclusive = |mechanism| way(|_| Rule::Ppq(Ppq { shared: false }), mechanism);
    let shared = |mechanism| way(|_| Rule::Ppq(Ppq { shared: true }), mechanism);
    let abouts = [
        "the kernel of the highest priority is next; none is disturbed",
        "as switch, but no process has the high priority, so no SM is taken away: kernels run beside each other if one leaves SMs free",
        "SMs are taken away for a kernel of higher priority, and no other runs beside it; blocks run to their end",
        "the same; blocks are saved and restored",
        "drained, and SMs that the kernel leaves free go to others",
        "saved and restored, and the same",
    ];
    let ways = [
        way(|_| Rule::Npq(Npq), Mechanism::Switch),
        Way { has_high: false, ..exclusive(Mechanism::Switch) },
        exclusive(Mechanism::Drain),
        exclusive(Mechanism::Switch),
        shared(Mechanism::Drain),
        shared(Mechanism::Switch),
    ];
    let mut all = in_all_variants(NAMES, abouts, ways);
    // The text gives both ends of the range over numbers of processes, not which number they are of; figures of sharing are in a plot only.
    all.push(paper("paper: drain", "what the paper says: from, to", |what, size| match what {
        What::Loss => of_sizes([1.09, f64::NAN, f64::NAN, 1.38], size),
        _ => f64::NAN,
    }));
    all.push(paper("paper: switch", "the same", |what, size| match what {
        What::Loss => of_sizes([1.08, f64::NAN, f64::NAN, 1.12], size),
        _ => f64::NAN,
    }));
    all
}

const LOSS: &str = "loss";
const OTHERS: &str = "others' loss";
const IDLE: &str = "idle";

const MEASURES: [Measure; 14] = [
    measure("loss, 2", Unit::Fine, true, What::Loss, 2),
    measure("loss, 4", Unit::Fine, true, What::Loss, 4),
    measure("loss, 6", Unit::Fine, true, What::Loss, 6),
    measure("loss, 8", Unit::Fine, true, What::Loss, 8),
    measure("others' loss, 2", Unit::Fine, false, What::OthersLoss, 2),
    measure("others' loss, 4", Unit::Fine, false, What::OthersLoss, 4),
    measure("others' loss, 6", Unit::Fine, false, What::OthersLoss, 6),
    measure("others' loss, 8", Unit::Fine, true, What::OthersLoss, 8),
    measure("STP, 4", Unit::Fine, false, What::Throughput, 4),
    measure("STP, 8", Unit::Fine, true, What::Throughput, 8),
    measure("of it the first, 8", Unit::Fine, false, What::FirstThroughput, 8),
    measure("moving, 8", Unit::Share, false, What::Moving, 8),
    measure("draining, 8", Unit::Share, false, What::Draining, 8),
    measure("idle, 8", Unit::Share, false, What::Idle, 8),
];

fn conditions(found: &Findings) -> Vec<Condition> {
    let numbers = Numbers::new(found, BASE, LOSS);
    let lists = |policies: &[&str], quantity| {
        policies.iter().map(|policy| numbers.list(policy, quantity)).collect::<Vec<_>>().join("; ")
    };
    let value = |variant: &str, policy: &str, size| numbers.value(variant, policy, LOSS, size);
    let idle = |policies: &[&str]| {
        let of = policies.iter().map(|policy| format!("{policy} {}", numbers.shares(policy, IDLE, 8)));
        format!("idle of 8 processes {}", of.collect::<Vec<_>>().join(", "))
    };
    vec![
        Condition {
            why_not: Some(
                "PPQ gains throughput before any SM is taken away (alike): kernels of one priority run beside each other when one leaves SMs \
                 free, which NPQ does not let them; and what the high process gains counts as throughput, too; all others together lose",
            ),
            ..Condition::new(
                "without sharing, switching costs throughput against NPQ",
                numbers.all(2, |variant, size| value(variant, EXCLUSIVE[1], size) > 1.0),
                format!(
                    "{}; without the first process {}; {}",
                    lists(&[EXCLUSIVE[1], ALIKE], LOSS),
                    numbers.list(EXCLUSIVE[1], OTHERS),
                    idle(&[BASE, ALIKE])
                ),
            )
        },
        Condition {
            why_not: Some(
                "SMs that are drained go on working, if on part of their places, and the high process is delayed and leaves more of the GPU to the others; \
                 switching lets it run again sooner and so more often",
            ),
            ..Condition::new(
                "draining costs more than switching",
                numbers.all(2, |variant, size| value(variant, EXCLUSIVE[0], size) > value(variant, EXCLUSIVE[1], size)),
                format!("{}; without the first process {}", lists(&EXCLUSIVE, LOSS), lists(&EXCLUSIVE, OTHERS)),
            )
        },
        Condition {
            why_not: Some(
                "SMs that the high kernel leaves free are filled, and taking them away again costs less than that is worth",
            ),
            ..Condition::new(
                "with sharing both cost more than without",
                (0..2).all(|one| {
                    let [shared, exclusive] = [SHARED[one], EXCLUSIVE[one]];
                    numbers.all(2, |variant, size| value(variant, shared, size) > value(variant, exclusive, size))
                }),
                format!("{}; {}", lists(&[EXCLUSIVE, SHARED].concat(), LOSS), idle(&[EXCLUSIVE, SHARED].concat())),
            )
        },
    ]
}
