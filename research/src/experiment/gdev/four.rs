//! Four virtual GPUs with several clients each, which begin one after the other: E13.
//!
//! The paper has four clients in each. A sharer keeps the stores of fifteen clients, so there are three here.

use anyhow::Result;

use super::super::sharing::{Runs, findings, least, most, row};
use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};
use super::{BAND, CREDIT, Client, FIFO, On, Outcome, RULES, System, rules, run_all};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gdev-four",
    question: "have four virtual GPUs with equal clients equal parts?",
    length: 60_000_000_000,
    short: 10_000_000_000,
    kind: Kind::Gdev(find),
    conditions,
};

const CLIENTS: usize = 3;
const GPUS: [&str; 4] = ["a", "b", "c", "d"];
/// The next one begins after so many percent of the run: 30 s of 200 in the paper.
const APART: u64 = 15;
const PARTS: [[&str; 4]; 4] = [
    ["a alone", "", "", ""],
    ["a of two", "b of two", "", ""],
    ["a of three", "b of three", "c of three", ""],
    ["a of four", "b of four", "c of four", "d of four"],
];

/// The two that begin first, without the others.
const TWO: [&str; 2] = ["a, two in all", "b, two in all"];

fn system(policy: u64, gpus: usize, length: u64) -> System {
    let client = |index: usize| {
        let gpu = index / CLIENTS;
        Client { begins: length * APART / 100 * gpu as u64, gpu: Some(GPUS[gpu]), ..Client::of(1_000, 200) }
    };
    System::new(policy, (0..gpus * CLIENTS).map(client).collect())
}

fn find(runs: &Runs) -> Result<Findings> {
    let of = |gpus| RULES.map(|(.., policy)| system(policy, gpus, runs.length));
    let systems: Vec<System> = [of(GPUS.len()), of(TWO.len())].into_iter().flatten().collect();
    let mut all = run_all(&systems, runs.seed, runs.length)?;
    let two = all.split_off(RULES.len());
    let mut rows = Vec::new();
    let part = |outcome: &Outcome, gpu: usize, from: u64, to: u64| -> f64 {
        let clients = gpu * CLIENTS..(gpu + 1) * CLIENTS;
        clients.map(|client| outcome.part(client, On::Compute, from, to)).sum()
    };
    for (begun, names) in PARTS.iter().enumerate() {
        let begins = |count: usize| runs.length * APART / 100 * count as u64;
        let to = if begun + 1 < GPUS.len() { begins(begun + 1) } else { runs.length };
        // The use of the new one is measured over a window of a second.
        let from = begins(begun) + (to - begins(begun)) / 3;
        for (gpu, name) in names[..=begun].iter().enumerate() {
            let of = |outcome| part(outcome, gpu, from, to);
            rows.push(row(name, Unit::Share, all.iter().map(of).collect::<Vec<f64>>()));
        }
    }
    for (gpu, name) in TWO.into_iter().enumerate() {
        let of = |outcome| part(outcome, gpu, runs.length / 2, runs.length);
        rows.push(row(name, Unit::Share, two.iter().map(of).collect::<Vec<f64>>()));
    }
    Ok(findings(rules(), rows))
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let parts = |rule| PARTS[3].map(|row| found.value(rule, row));
    let range = |rule| format!("{} to {}", Unit::Share.show(least(parts(rule))), Unit::Share.show(most(parts(rule))));
    let is_fair = |rule| parts(rule).iter().all(|part| (part - 0.25).abs() <= 0.02);
    let two = |names: &[&'static str]| [names[0], names[1]].map(|row| found.value(BAND, row));
    let (of_four, of_two) = (two(&PARTS[1]), two(&TWO));
    let list = |parts: [f64; 2]| parts.map(|part| Unit::Share.show(part)).join(" and ");
    let is_half = |parts: [f64; 2]| parts.iter().all(|part| (part - 0.5).abs() <= 0.05);
    vec![
        Condition::new("under BAND each of four has 25 %, within two points", is_fair(BAND), range(BAND))
            .of(Paper { experiment: "E13", value: "fair parts" }),
        Condition {
            why_not: Some(
                "a silent virtual GPU keeps its part, as in the paper: two with a quarter each use more than that, so the wait of 500 us comes before \
                 changes between them; two that are all have halves",
            ),
            ..Condition::new(
                "while two of four run, each has a half of the engine, within five points",
                is_half(of_four),
                format!("{}; without the others {}", list(of_four), list(of_two)),
            )
        },
        Condition::new("two that are all have a half each, within five points", is_half(of_two), list(of_two)),
        Condition::new(
            "it does not tell the rules apart: FIFO and Credit do as well",
            is_fair(FIFO) && is_fair(CREDIT),
            format!("FIFO {}; Credit {}", range(FIFO), range(CREDIT)),
        ),
    ]
}
