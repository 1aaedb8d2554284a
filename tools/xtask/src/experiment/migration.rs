//! Migration and affinity: how often tasks move to another GPU, with their state, and what the heuristics have to do with it.
//!
//! Source: Elliott 2015, section 4.4.1, table 4.9. On the workload of [`super::gpusync`].

use super::gpusync::{Adviser, Arrangement, FULL, Measure, Overrun, Policy, Seen, Setup, T1, T2, measure};
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
const UNADVISED: &str = "no advice";
const CHANCE: &str = "chance";

fn arrangements() -> Vec<Arrangement> {
    let edf = Setup { policy: Policy::Edf, overrun: Overrun::Ignored, adviser: Adviser::Heuristics, aberrant: true };
    let rm = Setup { policy: Policy::Rm, ..edf };
    vec![
        (PLAIN, "nobody runs longer than declared, C-EDF", Setup { aberrant: false, ..edf }),
        (EDF, "by deadline, engine locks by arrival", edf),
        (EDF_BUDGETS, "the same with early release", Setup { overrun: Overrun::EarlyRelease, ..edf }),
        (RM, "by period, engine locks by priority", rm),
        (RM_BUDGETS, "the same with early release", Setup { overrun: Overrun::EarlyRelease, ..rm }),
        (UNADVISED, "C-EDF, and the pool's own rules: the shortest queue", Setup { adviser: Adviser::Nobody, ..edf }),
        (
            CHANCE,
            "C-EDF, any queue; if that has no room, the pool's own rules",
            Setup { adviser: Adviser::Chance, ..edf },
        ),
    ]
}

const MEASURES: [Measure; 13] = [
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
    measure("tokens held", Unit::Share, false, |seen| seen.sum(|task| task.holding) / seen.tokens()),
];

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
    let both = [EDF, EDF_BUDGETS];
    let stays = both.map(|one| value(one, "T1 affinity").min(value(one, "T2 affinity")));
    let far = both.map(|one| value(one, "all, far"));
    let affinity = |arrangement| value(arrangement, "all, affinity");
    let full = [EDF, EDF_BUDGETS, RM, RM_BUDGETS].map(|one| value(one, "moved, own full"));
    let full = full.into_iter().fold(1.0, f64::min);
    vec![
        Condition::new(
            "with heuristics more jobs stay than by the pool's own rules, and of these more than by chance",
            affinity(EDF) > affinity(UNADVISED) && affinity(UNADVISED) > affinity(CHANCE),
            format!("{}, {}, {}", percent(affinity(EDF)), percent(affinity(UNADVISED)), percent(affinity(CHANCE))),
        ),
        Condition::new(
            "with heuristics nine in ten of those who move found no token of their GPU free",
            full >= 0.9,
            format!("{} at least", percent(full)),
        ),
        Condition::new(
            "without heuristics less than half as many stay, whether nobody advises or chance",
            affinity(UNADVISED).max(affinity(CHANCE)) < affinity(EDF) / 2.0,
            format!("{}, {}", percent(affinity(UNADVISED)), percent(affinity(CHANCE))),
        ),
        Condition {
            why_not: Some(
                "nearly all who moved found all tokens of their GPU held, and one elsewhere free; with one request in each queue \
                 nobody may wait for a GPU of its choice",
            ),
            ..Condition::new(
                "under C-EDF 98 % of the jobs of T1 and of T2 stay where they were",
                stays.iter().all(|share| *share >= 0.98),
                format!("{}, {} with budgets", percent(stays[0]), percent(stays[1])),
            )
        },
        Condition {
            why_not: Some("the same; of those who must move, some find a free token far away only"),
            ..Condition::new(
                "under C-EDF hardly any job moves far: 1 % at most",
                far.iter().all(|share| *share <= 0.01),
                format!("{}, {} with budgets", percent(far[0]), percent(far[1])),
            )
        },
        Condition {
            why_not: Some("the pool takes the first of the shortest queues, and so fills the first GPUs"),
            ..Condition::new(
                "without advice one in four stays, within 5 %",
                (affinity(UNADVISED) - 1.0 / FULL.gpus as f64).abs() < 0.05,
                percent(affinity(UNADVISED)),
            )
        },
    ]
}
