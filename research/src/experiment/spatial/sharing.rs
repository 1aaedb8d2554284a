//! Experiment C of the paper, section 4.4, figures 7 and 8: equal shares of the SMs.

use fusee_campaigns::spatial::Copies;
use fusee_spatial::parboil::Class;
use fusee_spatial::{Dss, Mechanism, Rule, Shares};

use super::{
    Arrangement, FCFS, FEW_WORKLOADS, Measure, Numbers, WORKLOADS, Way, What, in_all_variants, measure, of_sizes, paper,
};
use crate::experiment::{Condition, Experiment, Findings, Kind, Unit};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "spatial-sharing",
    question: "who gains and who loses if each process has an equal share of the SMs?",
    length: WORKLOADS,
    short: FEW_WORKLOADS,
    kind: Kind::Spatial(arrangements, &MEASURES),
    conditions,
};

const BASE: &str = "FCFS";
const BOTH: [&str; 2] = ["drain", "switch"];
const NAMES: [[&str; 3]; 3] = [
    ["low: FCFS", "low: drain", "low: switch"],
    ["middle: FCFS", "middle: drain", "middle: switch"],
    ["high: FCFS", "high: drain", "high: switch"],
];

fn arrangements() -> Vec<Arrangement> {
    let way = |rule, mechanism| Way { rule, mechanism, copies: Copies::ByArrival, has_high: false };
    let dss = |mechanism| way(|processes| Rule::Dss(Dss { shares: Shares::Equal { processes } }), mechanism);
    let abouts = [
        "kernels run one after the other, by arrival",
        "dynamic spatial sharing, equal tokens; blocks run to their end",
        "the same; blocks are saved and restored",
    ];
    let ways = [way(FCFS, Mechanism::Switch), dss(Mechanism::Drain), dss(Mechanism::Switch)];
    let mut all = in_all_variants(NAMES, abouts, ways);
    all.push(paper("paper: drain", "what the paper says: for 2 and for 8", |what, size| match what {
        What::Each(None) => of_sizes([1.4, f64::NAN, f64::NAN, 1.65], size),
        What::Each(Some(Class::Short)) => of_sizes([2.2, f64::NAN, f64::NAN, 3.7], size),
        What::Each(Some(Class::Medium)) => of_sizes([1.2, f64::NAN, f64::NAN, 1.4], size),
        What::Each(Some(Class::Long)) => of_sizes([0.9, f64::NAN, f64::NAN, 0.55], size),
        What::Fairness => of_sizes([1.05, f64::NAN, f64::NAN, 2.7], size),
        What::Loss => of_sizes([1.08, f64::NAN, f64::NAN, 1.5], size),
        What::Better => of_sizes([0.2, 0.7, f64::NAN, f64::NAN], size),
        _ => f64::NAN,
    }));
    all.push(paper("paper: switch", "the same", |what, size| match what {
        What::Each(None) => of_sizes([1.5, f64::NAN, f64::NAN, 2.0], size),
        What::Each(Some(Class::Short)) => of_sizes([2.45, f64::NAN, f64::NAN, 4.0], size),
        What::Each(Some(Class::Medium)) => of_sizes([1.3, f64::NAN, f64::NAN, 1.7], size),
        What::Each(Some(Class::Long)) => of_sizes([0.9, f64::NAN, f64::NAN, 0.55], size),
        What::Fairness => of_sizes([1.1, f64::NAN, f64::NAN, 3.35], size),
        What::Loss => of_sizes([1.06, f64::NAN, f64::NAN, 1.34], size),
        What::Better => of_sizes([0.2, 0.7, f64::NAN, f64::NAN], size),
        _ => f64::NAN,
    }));
    all
}

const CLASSES: [&str; 3] = ["SHORT", "MEDIUM", "LONG"];
const FAIRNESS: &str = "fairness";
const LOSS: &str = "STP loss";
const MOVING: &str = "moving";
const IDLE: &str = "idle";

const fn each(name: &'static str, charted: bool, class: Option<Class>, size: usize) -> Measure {
    measure(name, Unit::Fine, charted, What::Each(class), size)
}

const MEASURES: [Measure; 35] = [
    each("improvement, 2", true, None, 2),
    each("improvement, 4", false, None, 4),
    each("improvement, 6", false, None, 6),
    each("improvement, 8", true, None, 8),
    each("SHORT, 2", false, Some(Class::Short), 2),
    each("SHORT, 4", false, Some(Class::Short), 4),
    each("SHORT, 6", false, Some(Class::Short), 6),
    each("SHORT, 8", true, Some(Class::Short), 8),
    each("MEDIUM, 2", false, Some(Class::Medium), 2),
    each("MEDIUM, 4", false, Some(Class::Medium), 4),
    each("MEDIUM, 6", false, Some(Class::Medium), 6),
    each("MEDIUM, 8", true, Some(Class::Medium), 8),
    each("LONG, 2", false, Some(Class::Long), 2),
    each("LONG, 4", false, Some(Class::Long), 4),
    each("LONG, 6", false, Some(Class::Long), 6),
    each("LONG, 8", true, Some(Class::Long), 8),
    measure("fairness, 2", Unit::Fine, true, What::Fairness, 2),
    measure("fairness, 4", Unit::Fine, false, What::Fairness, 4),
    measure("fairness, 6", Unit::Fine, false, What::Fairness, 6),
    measure("fairness, 8", Unit::Fine, true, What::Fairness, 8),
    measure("STP loss, 2", Unit::Fine, true, What::Loss, 2),
    measure("STP loss, 4", Unit::Fine, false, What::Loss, 4),
    measure("STP loss, 6", Unit::Fine, false, What::Loss, 6),
    measure("STP loss, 8", Unit::Fine, true, What::Loss, 8),
    measure("STP, 8", Unit::Fine, false, What::Throughput, 8),
    measure("STP of SHORT, 8", Unit::Fine, false, What::ThroughputOf(Class::Short), 8),
    measure("STP of MEDIUM, 8", Unit::Fine, false, What::ThroughputOf(Class::Medium), 8),
    measure("STP of LONG, 8", Unit::Fine, false, What::ThroughputOf(Class::Long), 8),
    measure("better ANTT, 2", Unit::Share, false, What::Better, 2),
    measure("better ANTT, 4", Unit::Share, false, What::Better, 4),
    measure("better ANTT, 6", Unit::Share, false, What::Better, 6),
    measure("better ANTT, 8", Unit::Share, false, What::Better, 8),
    measure("moving, 8", Unit::Share, false, What::Moving, 8),
    measure("draining, 8", Unit::Share, false, What::Draining, 8),
    measure("idle, 8", Unit::Share, false, What::Idle, 8),
];

fn conditions(found: &Findings) -> Vec<Condition> {
    let numbers = Numbers::new(found, BASE, FAIRNESS);
    let lists = |quantity| BOTH.map(|policy| numbers.list(policy, quantity)).join("; ");
    let all = |quantity: &str, holds: fn(f64) -> bool| {
        BOTH.iter().all(|policy| numbers.all(2, |variant, size| holds(numbers.value(variant, policy, quantity, size))))
    };
    let percent = |policy: &str, quantity: &str| numbers.shares(policy, quantity, 8);
    let by_class = [BASE, BOTH[1]].map(|policy| {
        let of = CLASSES.map(|class| numbers.at(policy, &format!("STP of {class}"), 8));
        format!("of 8 processes under {policy} SHORT {}, MEDIUM {}, LONG {}", of[0], of[1], of[2])
    });
    vec![
        Condition::new("processes with SHORT kernels gain", all(CLASSES[0], |gain| gain > 1.0), lists(CLASSES[0])),
        Condition {
            some_draws: Some(
                "stencil and cutcp gain, lbm and mri-q are as before within 2 %, sgemm loses: its one launch is 3.7 ms of a run of 5, so under FCFS it waits for one turn, and \
                 then has all SMs; on an eighth of them it takes eight times as long (0.76 with eight processes, switching, in the variant high)",
            ),
            ..Condition::new("those with MEDIUM kernels gain", all(CLASSES[1], |gain| gain > 1.0), lists(CLASSES[1]))
        },
        Condition::new("those with LONG kernels lose", all(CLASSES[2], |gain| gain < 1.0), lists(CLASSES[2])),
        Condition::new(
            "fairness improves, and the more, the more processes there are",
            all(FAIRNESS, |gain| gain > 1.0) && BOTH.iter().all(|policy| numbers.grows(policy, FAIRNESS)),
            lists(FAIRNESS),
        ),
        Condition {
            why_not: Some(
                "it rises, by a few per cent: throughput counts each process alike, and processes of SHORT and MEDIUM kernels gain more than those of LONG ones lose; \
                 what sharing costs is less: SMs save and restore for a hundredth of the time, and are idle for less of it",
            ),
            ..Condition::new(
                "throughput falls",
                all(LOSS, |loss| loss > 1.0),
                format!(
                    "{}; {}; moving {}; idle {}, under {BASE} {}",
                    lists(LOSS),
                    by_class.join("; "),
                    percent(BOTH[1], MOVING),
                    percent(BOTH[1], IDLE),
                    percent(BASE, IDLE)
                ),
            )
        },
    ]
}
