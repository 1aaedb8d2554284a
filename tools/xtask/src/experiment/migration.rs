//! Migration and affinity: how often tasks move to another GPU, with their state, and what the heuristics have to do with it.
//!
//! Source: Elliott 2015, section 4.4.1, table 4.9. On the model of [`super::gpusync`], because no system call takes heuristics yet.

use super::gpusync::{self, Adviser, GPUS, Outcome, Overrun, Policy, REPLICAS, Setup, T1, T2};
use super::{Condition, Experiment, Findings, Kind, Quantity, Unit};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "migration",
    question: "how often do tasks leave the GPU that has their state? A model: no system call takes heuristics yet",
    length: 180_000_000_000,
    // Long enough for the predictor: it tries each distance before it knows what that costs.
    short: 60_000_000_000,
    kind: Kind::Model(find),
    conditions,
};

const PLAIN: &str = "none overrun";
const EDF: &str = "C-EDF";
const EDF_BUDGETS: &str = "C-EDF, budgets";
const RM: &str = "C-RM";
const RM_BUDGETS: &str = "C-RM, budgets";
const UNADVISED: &str = "no advice";
const CHANCE: &str = "chance";

fn find(length: u64, seed: u64) -> Findings {
    let edf = Setup { policy: Policy::Edf, overrun: Overrun::Ignored, adviser: Adviser::Heuristics, aberrant: true };
    let rm = Setup { policy: Policy::Rm, ..edf };
    let all = [
        (PLAIN, "nobody runs longer than declared, C-EDF", Setup { aberrant: false, ..edf }),
        (EDF, "by deadline, engine locks by arrival", edf),
        (EDF_BUDGETS, "the same with early release", Setup { overrun: Overrun::EarlyRelease, ..edf }),
        (RM, "by period, engine locks by priority", rm),
        (RM_BUDGETS, "the same with early release", Setup { overrun: Overrun::EarlyRelease, ..rm }),
        (UNADVISED, "C-EDF, and the pool's own rules: the shortest queue", Setup { adviser: Adviser::Nobody, ..edf }),
        (CHANCE, "C-EDF, any queue with room", Setup { adviser: Adviser::Chance, ..edf }),
    ];
    let quantity = |name, unit, charted| Quantity { name, unit, charted };
    let values = |setup| {
        let clusters = gpusync::run(setup, seed, length);
        let mut values = Vec::new();
        for task in [&clusters[0][T1], &clusters[0][T2]] {
            values.extend(task.moves.map(|count| count as f64));
            values.push(share(task.moves, 0));
        }
        let sum = clusters.iter().flatten().fold([0; 3], |sum, task| [0, 1, 2].map(|one| sum[one] + task.moves[one]));
        values.extend([share(sum, 0), share(sum, 2)]);
        let count = |of: fn(&Outcome) -> u64| clusters.iter().flatten().map(of).sum::<u64>() as f64;
        values.push(count(|task| task.own_full) / (sum[1] + sum[2]) as f64);
        values.push(count(|task| task.all_full) / (sum[1] + sum[2]) as f64);
        values.push(count(|task| task.holding) / (2 * REPLICAS as u64 * length) as f64);
        values
    };
    Findings {
        arrangements: all.iter().map(|(name, about, _)| (*name, *about)).collect(),
        quantities: vec![
            quantity("T1 stays", Unit::Count, false),
            quantity("T1 near", Unit::Count, false),
            quantity("T1 far", Unit::Count, false),
            quantity("T1 affinity", Unit::Share, true),
            quantity("T2 stays", Unit::Count, false),
            quantity("T2 near", Unit::Count, false),
            quantity("T2 far", Unit::Count, false),
            quantity("T2 affinity", Unit::Share, true),
            quantity("all, affinity", Unit::Share, true),
            quantity("all, far", Unit::Share, true),
            quantity("moved, own full", Unit::Share, false),
            quantity("moved, all full", Unit::Share, false),
            quantity("tokens held", Unit::Share, false),
        ],
        values: all.iter().map(|(.., setup)| values(*setup)).collect(),
    }
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
    let at_random = 1.0 / GPUS as f64;
    let is_random = |arrangement| (value(arrangement, "all, affinity") - at_random).abs() < 0.05;
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
        Condition::new("by chance one in four stays", is_random(CHANCE), percent(affinity(CHANCE))),
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
            ..Condition::new("without advice one in four stays", is_random(UNADVISED), percent(affinity(UNADVISED)))
        },
    ]
}
