//! Budgets of CPU and engine time: what tasks that run ten times their time take from others, and from themselves.
//!
//! Source: Elliott 2015, section 4.4.1, figure 4.14. On the model of [`super::gpusync`], because the kernel does not draw
//! engine time from budgets yet.

use super::gpusync::{self, Adviser, Outcome, Overrun, Policy, Setup, T1, T2};
use super::{Condition, Experiment, Findings, Kind, Quantity, Unit};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "budgets",
    question: "who pays when tasks run longer on a GPU than they declared? A model: the kernel does not draw engine time from budgets yet",
    length: 180_000_000_000,
    short: 20_000_000_000,
    kind: Kind::Model(find),
    conditions,
};

const PLAIN: &str = "none overrun";
const IGNORED: &str = "no budgets";
const SIGNAL: &str = "signal";
const EARLY: &str = "early release";
const INHERITANCE: &str = "inheritance";
const RATE_MONOTONIC: &str = "C-RM, early r.";

/// How far a share may be from the ideal: the text's condition.
const TOLERANCE: f64 = 0.05;

fn find(length: u64, seed: u64) -> Findings {
    let base = Setup { policy: Policy::Edf, overrun: Overrun::Ignored, adviser: Adviser::Heuristics, aberrant: true };
    let all = [
        (PLAIN, "nobody runs longer than declared, C-EDF", Setup { aberrant: false, ..base }),
        (IGNORED, "16 of 34 GPU tasks run ten times their time, every 5 s each; nothing stops them", base),
        (
            SIGNAL,
            "who has used up its budget gives the token back and ends",
            Setup { overrun: Overrun::Signal, ..base },
        ),
        (EARLY, "it takes budget and deadline of its next job", Setup { overrun: Overrun::EarlyRelease, ..base }),
        (
            INHERITANCE,
            "the same; at a donor's priority it runs on the donor's budget",
            Setup { overrun: Overrun::Inheritance, ..base },
        ),
        (
            RATE_MONOTONIC,
            "early release under C-RM, engine locks by priority",
            Setup { overrun: Overrun::EarlyRelease, policy: Policy::Rm, ..base },
        ),
    ];
    let values = |setup| measure(&gpusync::run(setup, seed, length), length);
    let quantity = |name, unit, charted| Quantity { name, unit, charted };
    Findings {
        arrangements: all.iter().map(|(name, about, _)| (*name, *about)).collect(),
        quantities: vec![
            quantity("T1 of ideal", Unit::Share, true),
            quantity("overrunning, least", Unit::Share, false),
            quantity("overrunning, mean", Unit::Share, true),
            quantity("T2 of ideal", Unit::Share, true),
            quantity("others, least", Unit::Share, true),
            quantity("others, most", Unit::Share, false),
            quantity("T1 jobs", Unit::Count, false),
            quantity("T1 ended", Unit::Count, false),
            quantity("T1 dropped", Unit::Count, true),
            quantity("T1 late", Unit::Count, false),
            quantity("others late", Unit::Share, true),
        ],
        values: all.iter().map(|(.., setup)| values(*setup)).collect(),
    }
}

/// Shares of execution engines are divided by what they are if each job takes what was declared.
fn measure(clusters: &[Vec<Outcome>; 2], length: u64) -> Vec<f64> {
    let share = |task: &Outcome| task.share(length);
    let all = || clusters.iter().flatten();
    let (overrunning, others): (Vec<&Outcome>, Vec<&Outcome>) = all().partition(|task| task.may_overrun);
    let least = |tasks: &[&Outcome]| tasks.iter().map(|task| share(task)).fold(f64::INFINITY, f64::min);
    let most = others.iter().map(|task| share(task)).fold(0.0, f64::max);
    let mean = overrunning.iter().map(|task| share(task)).sum::<f64>() / overrunning.len() as f64;
    let sum = |of: fn(&Outcome) -> u64| others.iter().map(|task| of(task)).sum::<u64>() as f64;
    let (first, second) = (&clusters[0][T1], &clusters[0][T2]);
    vec![
        share(first),
        least(&overrunning),
        mean,
        share(second),
        least(&others),
        most,
        first.jobs as f64,
        first.aborted as f64,
        first.dropped as f64,
        first.late as f64,
        sum(|task| task.late) / sum(|task| task.jobs),
    ]
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let value = |arrangement, quantity| found.value(arrangement, quantity);
    let percent = |value| Unit::Share.show(value);
    let all: Vec<&str> = found.arrangements.iter().map(|one| one.0).collect();
    let least = all.iter().map(|one| value(one, "others, least")).fold(f64::INFINITY, f64::min);
    let most = all.iter().map(|one| value(one, "others, most")).fold(0.0, f64::max);
    let [early, rate] = [EARLY, RATE_MONOTONIC].map(|one| value(one, "T1 of ideal"));
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
            "who is told to end has less than its share",
            value(SIGNAL, "overrunning, mean") < 1.0,
            percent(value(SIGNAL, "overrunning, mean")),
        ),
        Condition::new(
            "early release takes less than no budgets do",
            value(EARLY, "overrunning, mean") < value(IGNORED, "overrunning, mean"),
            format!("{}, {}", percent(value(EARLY, "overrunning, mean")), percent(value(IGNORED, "overrunning, mean"))),
        ),
        Condition {
            why_not: Some(
                "its job of ten times the time takes the budgets of the eight that follow, and these are dropped; so in sum it has \
                 what was declared, and a job more, because budgets have room for a migration",
            ),
            ..Condition::new(
                "with early release T1 has clearly less than its share",
                early.max(rate) < 1.0 - TOLERANCE,
                format!("{}, {} under C-RM", percent(early), percent(rate)),
            )
        },
    ]
}
