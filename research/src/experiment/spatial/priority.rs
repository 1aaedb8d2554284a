//! Experiment A of the paper, section 4.2 and figure 5: one process of high priority among others.

use fusee_campaigns::spatial::Copies;
use fusee_spatial::parboil::Class;
use fusee_spatial::{Mechanism, Npq, Ppq, Rule};

use super::{
    Arrangement, FCFS, FEW_WORKLOADS, Measure, Numbers, WORKLOADS, Way, What, in_all_variants, measure, of_sizes, paper,
};
use crate::experiment::{Condition, Experiment, Findings, Kind, Unit};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "spatial-priority",
    question: "how much sooner is a process of high priority done if SMs are taken away for it, and how?",
    length: WORKLOADS,
    short: FEW_WORKLOADS,
    kind: Kind::Spatial(arrangements, &MEASURES),
    conditions,
};

const BASE: &str = "FCFS";
const NPQ: &str = "NPQ";
const DRAIN: &str = "drain";
const SWITCH: &str = "switch";
const PREEMPTIVE: [&str; 2] = [DRAIN, SWITCH];
const NAMES: [[&str; 4]; 3] = [
    ["low: FCFS", "low: NPQ", "low: drain", "low: switch"],
    ["middle: FCFS", "middle: NPQ", "middle: drain", "middle: switch"],
    ["high: FCFS", "high: NPQ", "high: drain", "high: switch"],
];

fn arrangements() -> Vec<Arrangement> {
    // Copies go by priority in all of them, so only the execution engine differs.
    let way = |rule, mechanism| Way { rule, mechanism, copies: Copies::ByKey, has_high: true };
    let ppq = |mechanism| way(|_| Rule::Ppq(Ppq { shared: false }), mechanism);
    let abouts = [
        "kernels run one after the other, by arrival",
        "the kernel of the highest priority is next; none is disturbed",
        "SMs are taken away for a kernel of higher priority, and no other runs beside it; blocks run to their end",
        "the same; blocks are saved and restored",
    ];
    let ways = [
        way(FCFS, Mechanism::Switch),
        way(|_| Rule::Npq(Npq), Mechanism::Switch),
        ppq(Mechanism::Drain),
        ppq(Mechanism::Switch),
    ];
    let mut all = in_all_variants(NAMES, abouts, ways);
    all.push(paper("paper: NPQ", "what the paper says", |what, size| match what {
        What::First(None) => of_sizes([1.0, 1.1, f64::NAN, 1.6], size),
        _ => f64::NAN,
    }));
    all.push(paper("paper: drain", "the same", |what, size| match what {
        What::First(None) => of_sizes([1.6, f64::NAN, f64::NAN, 6.0], size),
        What::First(Some(Class::Short)) => of_sizes([2.84, f64::NAN, f64::NAN, 16.2], size),
        What::First(Some(Class::Medium)) => of_sizes([1.33, f64::NAN, f64::NAN, 4.5], size),
        What::First(Some(Class::Long)) => of_sizes([f64::NAN, f64::NAN, f64::NAN, 1.54], size),
        _ => f64::NAN,
    }));
    all.push(paper("paper: switch", "the same", |what, size| match what {
        What::First(None) => of_sizes([2.0, f64::NAN, f64::NAN, 15.6], size),
        What::First(Some(Class::Short)) => of_sizes([5.1, f64::NAN, f64::NAN, 63.7], size),
        What::First(Some(Class::Medium)) => of_sizes([1.06, f64::NAN, f64::NAN, 4.6], size),
        What::First(Some(Class::Long)) => of_sizes([1.26, f64::NAN, f64::NAN, 1.76], size),
        _ => f64::NAN,
    }));
    all
}

const ALL: &str = "improvement";
const CLASSES: [&str; 3] = ["SHORT", "MEDIUM", "LONG"];

const fn first(name: &'static str, charted: bool, class: Option<Class>, size: usize) -> Measure {
    measure(name, Unit::Ratio, charted, What::First(class), size)
}

const MEASURES: [Measure; 21] = [
    measure("improvement, 2", Unit::Fine, true, What::First(None), 2),
    measure("improvement, 4", Unit::Fine, true, What::First(None), 4),
    measure("improvement, 6", Unit::Fine, true, What::First(None), 6),
    measure("improvement, 8", Unit::Fine, true, What::First(None), 8),
    first("SHORT, 2", false, Some(Class::Short), 2),
    first("SHORT, 4", false, Some(Class::Short), 4),
    first("SHORT, 6", false, Some(Class::Short), 6),
    first("SHORT, 8", true, Some(Class::Short), 8),
    first("MEDIUM, 2", false, Some(Class::Medium), 2),
    first("MEDIUM, 4", false, Some(Class::Medium), 4),
    first("MEDIUM, 6", false, Some(Class::Medium), 6),
    first("MEDIUM, 8", true, Some(Class::Medium), 8),
    first("LONG, 2", false, Some(Class::Long), 2),
    first("LONG, 4", false, Some(Class::Long), 4),
    first("LONG, 6", false, Some(Class::Long), 6),
    first("LONG, 8", true, Some(Class::Long), 8),
    measure("NTT, 2", Unit::Ratio, false, What::Ntt, 2),
    measure("NTT, 8", Unit::Ratio, false, What::Ntt, 8),
    measure("moving, 8", Unit::Share, false, What::Moving, 8),
    measure("draining, 8", Unit::Share, false, What::Draining, 8),
    measure("idle, 8", Unit::Share, false, What::Idle, 8),
];

fn conditions(found: &Findings) -> Vec<Condition> {
    let numbers = Numbers::new(found, BASE, ALL);
    let value = |variant: &str, policy: &str, quantity: &str, size| numbers.value(variant, policy, quantity, size);
    let lists = |policies: &[&str], quantity| {
        policies.iter().map(|policy| numbers.list(policy, quantity)).collect::<Vec<_>>().join("; ")
    };
    let by_class = |policy: &str| {
        let of = CLASSES.map(|class| format!("{class} {}", numbers.at(policy, class, numbers.largest())));
        format!("{policy} {}", of.join(", "))
    };
    vec![
        Condition::new(
            "of two processes NPQ improves nothing: 1.00 within 0.02",
            numbers.variants.iter().all(|variant| (value(variant, NPQ, ALL, 2) - 1.0).abs() <= 0.02),
            numbers
                .variants
                .iter()
                .map(|variant| format!("{:.3}", value(variant, NPQ, ALL, 2)))
                .collect::<Vec<_>>()
                .join(" / "),
        ),
        Condition::new(
            "from four on draining improves at least as much as NPQ, and switching at least as much as draining",
            numbers.all(4, |variant, size| {
                let [npq, drain, switch] = [NPQ, DRAIN, SWITCH].map(|policy| value(variant, policy, ALL, size));
                npq <= drain && drain <= switch
            }),
            lists(&[NPQ, DRAIN, SWITCH], ALL),
        ),
        Condition {
            some_draws: Some(
                "with switching the mean is carried by the four workloads of 40 in which spmv comes first, and what spmv gains there is \
                 anything from 1 to 90 times, by which programs are drawn beside it",
            ),
            ..Condition::new(
                "all three improve more, the more processes there are",
                [NPQ, DRAIN, SWITCH].iter().all(|policy| numbers.grows(policy, ALL)),
                format!("{}; of SHORT kernels {}", lists(&[NPQ, DRAIN, SWITCH], ALL), numbers.list(SWITCH, CLASSES[0])),
            )
        },
        Condition::new(
            "with preemption SHORT kernels gain more than MEDIUM ones, and these more than LONG ones, for the most processes",
            PREEMPTIVE.iter().all(|policy| {
                numbers.variants.iter().all(|variant| {
                    let [short, medium, long] = CLASSES.map(|class| value(variant, policy, class, numbers.largest()));
                    short > medium && medium > long
                })
            }),
            format!("{}; {}", by_class(DRAIN), by_class(SWITCH)),
        ),
    ]
}
