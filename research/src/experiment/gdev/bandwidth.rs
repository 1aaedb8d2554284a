//! Short kernels beside long ones in two virtual GPUs with equal parts: E11, the think time at which the wait is too short, and real time beside both.

use anyhow::Result;

use super::super::sharing::{Runs, findings, row};
use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};
use super::{BAND, CREDIT, Client, FIFO, On, Outcome, RULES, RealTime, System, WINDOW, rules, run_all};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gdev-bandwidth",
    question: "has a virtual GPU with short kernels its part beside one with long ones?",
    length: 200_000_000_000,
    short: 20_000_000_000,
    kind: Kind::Gdev(find),
    conditions,
};

/// Kernels of both, microseconds, and their think time; rows of the parts and of the error.
const PAIRS: [(u64, u64, u64, [&str; 3]); 2] = [
    (1_000, 20_000, 200, ["1 ms beside 20 ms", "20 ms", "error, 1 and 20 ms"]),
    (2_000, 50_000, 300, ["2 ms beside 50 ms", "50 ms", "error, 2 and 50 ms"]),
];
/// Think times of the short one, with rows.
const THINKS: [(u64, &str); 5] =
    [(50, "think 50 us"), (200, "think 200 us"), (400, "think 400 us"), (499, "think 499 us"), (501, "think 501 us")];
const REAL_TIME: RealTime = RealTime { period: 100_000, operation: 5_000 };
const MISSED: &str = "missed deadlines";
const LATE: &str = "late completions";
const BESIDE: &str = "1 ms, real time too";

/// The long one begins after so many percent of the run, and measuring after so many: 30 s and 60 s of 200 in the paper.
const BEGINS: u64 = 15;
const MEASURED: u64 = 30;

fn pair(policy: u64, short: u64, long: u64, think: u64, length: u64) -> System {
    let other = Client { begins: length * BEGINS / 100, ..Client::of(long, 200) };
    System::new(policy, vec![Client::of(short, think), other])
}

fn find(runs: &Runs) -> Result<Findings> {
    let length = runs.length;
    let mut systems = Vec::new();
    for (.., policy) in RULES {
        systems.extend(PAIRS.map(|(short, long, think, _)| {
            let mut system = pair(policy, short, long, think, length);
            system.clients[1].think = think;
            system
        }));
        systems.extend(THINKS.map(|(think, _)| pair(policy, 1_000, 20_000, think, length)));
        systems.push(System { real_time: Some(REAL_TIME), ..pair(policy, 1_000, 20_000, 200, length) });
    }
    let all = run_all(&systems, runs.seed, length)?;
    let columns: Vec<&[Outcome]> = all.chunks(all.len() / RULES.len()).collect();
    let (from, to) = (length * MEASURED / 100 / WINDOW * WINDOW, length / WINDOW * WINDOW);
    let each = |of: &dyn Fn(&[Outcome]) -> f64| columns.iter().map(|column| of(column)).collect::<Vec<_>>();
    let part = |at: usize, client: usize| each(&|column| column[at].part(client, On::Compute, from, to));
    let mut rows = Vec::new();
    for (at, (.., names)) in PAIRS.iter().enumerate() {
        rows.push(row(names[0], Unit::Share, part(at, 0)));
        rows.push(row(names[1], Unit::Share, part(at, 1)));
        rows.push(row(names[2], Unit::Share, each(&|column| column[at].error(0.5, from, to))));
    }
    for (at, (_, name)) in THINKS.iter().enumerate() {
        rows.push(row(name, Unit::Share, part(PAIRS.len() + at, 0)));
    }
    let last = PAIRS.len() + THINKS.len();
    rows.push(row(BESIDE, Unit::Share, part(last, 0)));
    rows.push(row(MISSED, Unit::Count, each(&|column| column[last].missed as f64)));
    rows.push(row(LATE, Unit::Count, each(&|column| f64::from(column[last].late_completions))));
    Ok(findings(rules(), rows))
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let value = |rule, row| found.value(rule, row);
    let percent = |value: f64| Unit::Share.show(value);
    let points = |value: f64| format!("{:.1} points", value * 100.0);
    let parts = |rule| PAIRS.map(|(.., names)| [value(rule, names[0]), value(rule, names[1])]);
    let errors = |rule| PAIRS.map(|(.., names)| value(rule, names[2]));
    let shown = |rule| parts(rule).map(|[short, long]| format!("{} and {}", percent(short), percent(long))).join(", ");
    let is_starved = |rule| parts(rule).iter().all(|[short, _]| *short < 0.1);
    let think = |at: usize| value(BAND, THINKS[at].1);
    vec![
        Condition::new("FIFO leaves short kernels less than a tenth", is_starved(FIFO), shown(FIFO))
            .of(Paper { experiment: "E11", value: "FIFO: no fairness" }),
        Condition::new("Credit does, too", is_starved(CREDIT), shown(CREDIT))
            .of(Paper { experiment: "E11", value: "Credit fails" }),
        Condition::new(
            "BAND gives both of 1 ms and 20 ms a part within ten points of a half",
            parts(BAND)[0].iter().all(|part| (part - 0.5).abs() <= 0.1),
            shown(BAND),
        ),
        Condition::new(
            "under BAND the mean error of windows of a second is at most 7 points",
            errors(BAND).iter().all(|error| *error <= 0.07),
            format!(
                "{}; FIFO {}, Credit {}",
                errors(BAND).map(points).join(", "),
                errors(FIFO).map(points).join(", "),
                errors(CREDIT).map(points).join(", ")
            ),
        )
        .of(Paper { experiment: "E11", value: "7 % on average" }),
        Condition::new(
            "with a think time of 499 us short kernels have at least 30 %, with one of 501 us at most 10 %",
            think(3) >= 0.3 && think(4) <= 0.1,
            format!(
                "{} and {}; {}",
                percent(think(3)),
                percent(think(4)),
                (0..3).map(|at| format!("{} {}", THINKS[at].1, percent(think(at)))).collect::<Vec<_>>().join(", ")
            ),
        )
        .of(Paper { experiment: "BAND", value: "a wait of 500 us" }),
        Condition::new(
            "real time on the same engine misses nothing under any rule",
            RULES.iter().all(|(rule, ..)| value(rule, MISSED) == 0.0 && value(rule, LATE) == 0.0),
            RULES.map(|(rule, ..)| format!("{rule} {}", value(rule, MISSED))).join(", "),
        ),
    ]
}
