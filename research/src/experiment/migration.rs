//! Migration and affinity: how often tasks move to another GPU, with their state, and the part of the heuristics in it.
//!
//! Source: Elliott 2015, section 4.4.1, table 4.9. On the workload of [`super::gpusync`].

use super::gpusync::{Adviser, Arrangement, Measure, Outcome, Overrun, Policy, Seen, Setup, T1, T2, measure};
use super::{Condition, Experiment, Findings, Kind, Unit};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "migration",
    question: "how often do tasks leave the GPU that has their state, and what have heuristics to do with it?",
    length: 180_000_000_000,
    short: 12_000_000_000,
    kind: Kind::Clusters(arrangements, &MEASURES),
    conditions,
};

const PLAIN: &str = "none overrun";
const EDF: &str = "C-EDF";
const EDF_BUDGETS: &str = "C-EDF, budgets";
const RM: &str = "C-RM";
const RM_BUDGETS: &str = "C-RM, budgets";
const EDF_FEW: &str = "C-EDF, six";
const RM_FEW: &str = "C-RM, six";
const UNADVISED: &str = "no advice";
const CHANCE: &str = "chance";

fn arrangements() -> Vec<Arrangement> {
    let edf = Setup {
        policy: Policy::Edf,
        overrun: Overrun::Ignored,
        adviser: Adviser::Heuristics,
        few_queued: false,
        aberrant: true,
    };
    let rm = Setup { policy: Policy::Rm, ..edf };
    vec![
        (PLAIN, "nobody runs longer than declared, C-EDF", Setup { aberrant: false, ..edf }),
        (EDF, "by deadline, engine locks by arrival", edf),
        (EDF_BUDGETS, "the same with early release", Setup { overrun: Overrun::EarlyRelease, ..edf }),
        (EDF_FEW, "C-EDF, all queues together hold six requests, as many as CPUs", Setup { few_queued: true, ..edf }),
        (RM, "by period, engine locks by priority", rm),
        // Early release needs keys that are deadlines.
        (
            RM_BUDGETS,
            "the same with budgets: jobs that used theirs up are told",
            Setup { overrun: Overrun::Signal, ..rm },
        ),
        (RM_FEW, "C-RM, all queues together hold six requests", Setup { few_queued: true, ..rm }),
        (UNADVISED, "C-EDF, and the pool's own rules: the shortest queue", Setup { adviser: Adviser::Nobody, ..edf }),
        (
            CHANCE,
            "C-EDF, any queue; if that has no room, the pool's own rules",
            Setup { adviser: Adviser::Chance, ..edf },
        ),
    ]
}

const MEASURES: [Measure; 17] = [
    measure("T1 stays", Unit::Count, false, |seen| seen.task(T1).moves[0] as f64),
    measure("T1 near", Unit::Count, false, |seen| seen.task(T1).moves[1] as f64),
    measure("T1 far", Unit::Count, false, |seen| seen.task(T1).moves[2] as f64),
    measure("T1 affinity", Unit::Share, true, |seen| share(seen.task(T1).moves, 0)),
    measure("T2 stays", Unit::Count, false, |seen| seen.task(T2).moves[0] as f64),
    measure("T2 near", Unit::Count, false, |seen| seen.task(T2).moves[1] as f64),
    measure("T2 far", Unit::Count, false, |seen| seen.task(T2).moves[2] as f64),
    measure("T2 affinity", Unit::Share, true, |seen| share(seen.task(T2).moves, 0)),
    measure("all, affinity", Unit::Share, true, |seen| share(moves(seen), 0)),
    measure("all, far", Unit::Share, true, |seen| share(moves(seen), 2)),
    measure("moved, own full", Unit::Share, false, |seen| seen.sum(|task| task.own_full) / moved(seen)),
    measure("moved, all full", Unit::Share, false, |seen| seen.sum(|task| task.all_full) / moved(seen)),
    measure("tokens held", Unit::Share, false, |seen| seen.sum(|task| task.holding.iter().sum()) / seen.tokens()),
    measure("T1 finds held", Unit::Share, false, |seen| found_held(seen.task(T1))),
    measure("T2 finds held", Unit::Share, false, |seen| found_held(seen.task(T2))),
    measure("held, T1's pair", Unit::Share, false, |seen| seen.held_in_pair(true)),
    measure("held, other pair", Unit::Share, false, |seen| seen.held_in_pair(false)),
];

fn found_held(task: &Outcome) -> f64 {
    task.found_held as f64 / task.found as f64
}

fn moves(seen: &Seen<'_>) -> [u64; 3] {
    seen.all().fold([0; 3], |sum, task| [0, 1, 2].map(|one| sum[one] + task.moves[one]))
}

fn moved(seen: &Seen<'_>) -> f64 {
    let [_, near, far] = moves(seen);
    (near + far) as f64
}

fn share(moves: [u64; 3], of: usize) -> f64 {
    moves[of] as f64 / moves.iter().sum::<u64>() as f64
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let value = |arrangement, quantity| found.value(arrangement, quantity);
    let percent = |value| Unit::Share.show(value);
    let affinity = |arrangement| value(arrangement, "all, affinity");
    let of_both = |arrangement| ["T1 affinity", "T2 affinity"].map(|one| value(arrangement, one));
    let lists = |values: &[f64]| values.iter().map(|one| percent(*one)).collect::<Vec<_>>().join(", ");
    let full = [EDF, EDF_BUDGETS, RM, RM_BUDGETS].map(|one| value(one, "moved, own full"));
    let unadvised = [of_both(UNADVISED), of_both(CHANCE)].concat();
    let [t1, t2] = of_both(EDF);
    let far = [EDF, EDF_BUDGETS, EDF_FEW].map(|one| value(one, "all, far"));
    let few = [EDF_FEW, RM_FEW].map(|one| value(one, "all, far"));
    vec![
        Condition::new(
            "with heuristics more jobs stay than by the pool's own rules, and of these more than by chance",
            affinity(EDF) > affinity(UNADVISED) && affinity(UNADVISED) > affinity(CHANCE),
            lists(&[EDF, UNADVISED, CHANCE].map(affinity)),
        ),
        Condition::new(
            "with heuristics no job moves that found a token of its GPU free",
            // Of none that moved there is no share.
            !full.iter().any(|share| *share < 1.0),
            lists(&full),
        ),
        Condition::new(
            "without heuristics T1 and T2 stay less than half as often, whether nobody advises or chance",
            unadvised.iter().all(|share| *share < t1.min(t2) / 2.0),
            lists(&unadvised),
        ),
        Condition::new(
            "under C-EDF hardly any job moves far: 1 % at most, with budgets and with six requests, too",
            far.iter().all(|share| *share <= 0.01),
            lists(&far),
        ),
        Condition::new(
            "with six requests in all queues no job moves far, under C-EDF and under C-RM",
            few.iter().all(|share| *share == 0.0),
            lists(&few),
        ),
        Condition {
            some_draws: Some(
                "no job moves far, so tasks stay in the pair of GPUs where they began; with some seeds more of the heavy ones began in \
                 T1's pair, whose tokens are then held more than those of the other",
            ),
            ..Condition::new(
                "with six requests in all queues, 98 % of the jobs of T1 stay under C-EDF",
                value(EDF_FEW, "T1 affinity") >= 0.98,
                format!(
                    "{}; of T1's pair {} are held, of the other {}",
                    percent(value(EDF_FEW, "T1 affinity")),
                    percent(value(EDF_FEW, "held, T1's pair")),
                    percent(value(EDF_FEW, "held, other pair"))
                ),
            )
        },
        Condition {
            why_not: Some(
                "no job moves that finds a token of its GPU free, but now and then others hold all three; T1 itself is a good part of \
                 what its GPU does, T2 is not, so T2 finds more of them held",
            ),
            ..Condition::new(
                "without that limit 98 % of the jobs of T1 and of T2 stay under C-EDF",
                t1.min(t2) >= 0.98,
                format!(
                    "{}; T1 finds {} of its GPU's tokens held, T2 {}",
                    lists(&[t1, t2]),
                    percent(value(EDF, "T1 finds held")),
                    percent(value(EDF, "T2 finds held"))
                ),
            )
        },
    ]
}
