//! Budgets of CPU and engine time: the time that tasks which run ten times their time take from others, and from themselves.
//!
//! Source: Elliott 2015, section 4.4.1, figure 4.14. On the workload of [`super::gpusync`].

use super::gpusync::{Adviser, Arrangement, Measure, Outcome, Overrun, Policy, Setup, T1, T2, measure};
use super::{Condition, Experiment, Findings, Kind, Unit};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "budgets",
    question: "who pays when tasks run longer on a GPU than they declared?",
    length: 180_000_000_000,
    short: 12_000_000_000,
    kind: Kind::Clusters(arrangements, &MEASURES),
    conditions,
};

const PLAIN: &str = "none overrun";
const PLAIN_EARLY: &str = "none, early r.";
const IGNORED: &str = "no budgets";
const SIGNAL: &str = "signal";
const EARLY: &str = "early release";
const INHERITANCE: &str = "inheritance";

/// How far a share may be from the ideal: the text's condition.
const TOLERANCE: f64 = 0.05;

/// The arrangement with everything: overruns, budgets and advice.
pub fn early() -> Arrangement {
    let setup = Setup {
        policy: Policy::Edf,
        overrun: Overrun::EarlyRelease,
        adviser: Adviser::Heuristics,
        few_queued: false,
        aberrant: true,
    };
    (EARLY, "it takes budget and deadline of its next job", setup)
}

fn arrangements() -> Vec<Arrangement> {
    let (.., early) = early();
    let base = Setup { overrun: Overrun::Ignored, ..early };
    vec![
        (PLAIN, "nobody runs longer than declared, C-EDF", Setup { aberrant: false, ..base }),
        (
            PLAIN_EARLY,
            "the same with budgets: who has used up its own takes budget and deadline of its next job",
            Setup { aberrant: false, ..early },
        ),
        (IGNORED, "half of the GPU tasks run ten times their time now and then; nothing stops them", base),
        (
            SIGNAL,
            "who has used up its budget waits for the next; told once it holds no engine, it gives its token back and ends",
            Setup { overrun: Overrun::Signal, ..base },
        ),
        self::early(),
        (
            INHERITANCE,
            "the same; budgets have room for what is lent while waiting",
            Setup { overrun: Overrun::Inheritance, ..base },
        ),
    ]
}

/// Shares of execution engines are divided by those of jobs that each take their declared time.
const MEASURES: [Measure; 14] = [
    measure("T1 of ideal", Unit::Share, true, |seen| seen.share(seen.task(T1))),
    measure("overrunning, least", Unit::Share, false, |seen| least(seen.shares(true))),
    measure("overrunning, mean", Unit::Share, true, |seen| mean(&seen.shares(true))),
    measure("T2 of ideal", Unit::Share, true, |seen| seen.share(seen.task(T2))),
    measure("others, least", Unit::Share, true, |seen| least(seen.shares(false))),
    measure("others, most", Unit::Share, false, |seen| most(seen.shares(false))),
    measure("T1 jobs", Unit::Count, false, |seen| seen.task(T1).jobs as f64),
    measure("T1 told", Unit::Count, false, |seen| seen.task(T1).aborted as f64),
    measure("T1 dropped", Unit::Count, true, |seen| seen.task(T1).dropped as f64),
    measure("T1 overruns", Unit::Count, false, |seen| seen.task(T1).overruns as f64),
    measure("T1 budgets taken", Unit::Count, false, |seen| seen.task(T1).taken()),
    measure("T1 9 e / budget", Unit::Ratio, false, |seen| seen.task(T1).expected()),
    measure("T1 late", Unit::Count, false, |seen| seen.task(T1).late as f64),
    measure("others late", Unit::Share, true, |seen| {
        let others = |of: fn(&Outcome) -> u64| seen.all().filter(|task| !task.may_overrun).map(of).sum::<u64>() as f64;
        others(|task| task.late) / others(|task| task.jobs)
    }),
];

fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, f64::max)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let value = |arrangement, quantity| found.value(arrangement, quantity);
    let percent = |value| Unit::Share.show(value);
    let all: Vec<&str> = found.arrangements.iter().map(|one| one.0).collect();
    let least = least(all.iter().map(|one| value(one, "others, least")));
    let most = most(all.iter().map(|one| value(one, "others, most")));
    // The time that one overrun takes, besides the time that is taken where no task overruns.
    let each = |one| {
        let taken = value(one, "T1 budgets taken") - value(PLAIN_EARLY, "T1 budgets taken");
        (taken / value(one, "T1 overruns"), value(one, "T1 9 e / budget"))
    };
    let (taken, expected) = each(EARLY);
    let mean_of = |one| value(one, "overrunning, mean");
    vec![
        Condition::new(
            "who runs as declared has its share of execution engines within 5 %, whatever others do",
            least >= 1.0 - TOLERANCE && most <= 1.0 + TOLERANCE,
            format!("{} to {}", percent(least), percent(most)),
        ),
        Condition::new(
            "without budgets T1 takes its share or more",
            value(IGNORED, "T1 of ideal") >= 1.0,
            percent(value(IGNORED, "T1 of ideal")),
        ),
        Condition::new(
            "tasks that overrun take less with early release than without budgets, and less again if they are told to end",
            mean_of(SIGNAL) < mean_of(EARLY) && mean_of(EARLY) < mean_of(IGNORED),
            format!("{}, {}, {}", percent(mean_of(EARLY)), percent(mean_of(IGNORED)), percent(mean_of(SIGNAL))),
        ),
        Condition::new(
            "with early release each overrun takes the budgets of 9 e / budget later jobs of T1, within one",
            (taken - expected).abs() <= 1.0,
            format!("{taken:.1} of {expected:.1}"),
        ),
    ]
}
