//! Copies beside kernels, in one queue or in two: E12.
//!
//! With one queue (SDQ) copies are commands of the execution engine here, so one sharer lets one client do one thing at a time. With two (MRQ) they have an
//! engine and a sharer of their own.

use anyhow::Result;

use super::super::sharing::{Runs, findings, row};
use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};
use super::{Client, On, Outcome, System, WINDOW, run_all};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gdev-queues",
    question: "what do two queues, for kernels and for copies, gain over one?",
    length: 60_000_000_000,
    short: 10_000_000_000,
    kind: Kind::Gdev(find),
    conditions,
};

const SDQ: &str = "SDQ";
const MRQ: &str = "MRQ";
const WAYS: [(&str, &str); 2] =
    [(SDQ, "one queue for kernels and copies, BAND"), (MRQ, "a queue for each, BAND on both")];
const KERNELS: [&str; 2] = ["kernels, small", "kernels, large"];
const COPIES: [&str; 2] = ["copies, small", "copies, large"];
const ALL: &str = "both together";
const STRETCHED: &str = "copies, small, by longer";

/// Copy in, kernel, copy out, microseconds: half of the time each.
fn client(size: u64, kernel: u64) -> Client {
    Client {
        round: vec![(On::Copy, 1_000 * size), (On::Compute, 2_000 * kernel), (On::Copy, 1_000 * size)],
        ..Client::of(0, 200)
    }
}

fn system(has_copy_engine: bool, kernel: u64) -> System {
    // The images of the large one have twice as many pixels.
    System { has_copy_engine, ..System::new(8, vec![client(1, 1), client(2, kernel)]) }
}

fn find(runs: &Runs) -> Result<Findings> {
    let systems: Vec<System> =
        [false, true].into_iter().flat_map(|two| [2, 8].map(|kernel| system(two, kernel))).collect();
    let all = run_all(&systems, runs.seed, runs.length)?;
    let columns: Vec<&[Outcome]> = all.chunks(2).collect();
    let part = |at: usize, client: usize, on: On| {
        columns.iter().map(|column| column[at].part(client, on, WINDOW, runs.length)).collect::<Vec<f64>>()
    };
    let mut rows = Vec::new();
    let mut sum = vec![0.0; WAYS.len()];
    for (on, names) in [(On::Compute, KERNELS), (On::Copy, COPIES)] {
        for (client, name) in names.into_iter().enumerate() {
            let parts = part(0, client, on);
            sum.iter_mut().zip(&parts).for_each(|(sum, part)| *sum += part);
            rows.push(row(name, Unit::Share, parts));
        }
    }
    rows.push(row(ALL, Unit::Share, sum));
    rows.push(row(STRETCHED, Unit::Share, part(1, 0, On::Copy)));
    Ok(findings(WAYS.to_vec(), rows))
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let value = |way, row| found.value(way, row);
    let percent = |value: f64| Unit::Share.show(value);
    let parts = |names: [&'static str; 2]| names.map(|name| value(MRQ, name));
    let list = |names| parts(names).map(percent).join(" and ");
    let [before, after] = [COPIES[0], STRETCHED].map(|row| value(MRQ, row));
    vec![
        Condition::new(
            "with one queue kernels and copies together have at most 100 % of one engine",
            value(SDQ, ALL) <= 1.0,
            percent(value(SDQ, ALL)),
        )
        .of(Paper { experiment: "E12", value: "SDQ: 100 %" }),
        Condition::new("with two queues they have at least 120 %", value(MRQ, ALL) >= 1.2, percent(value(MRQ, ALL)))
            .of(Paper { experiment: "E12", value: "MRQ: more than 100 %" }),
        Condition::new(
            "with two queues neither has more than 55 % of an engine",
            [KERNELS, COPIES].iter().all(|names| parts(*names).iter().all(|part| *part <= 0.55)),
            format!("kernels {}; copies {}", list(KERNELS), list(COPIES)),
        )
        .of(Paper { experiment: "E12", value: "50 % each at most" }),
        Condition::new(
            "beside kernels four times as long a client copies less",
            after < before,
            format!("{} in place of {}", percent(after), percent(before)),
        )
        .of(Paper { experiment: "E12", value: "large kernels stretch copies" }),
    ]
}
