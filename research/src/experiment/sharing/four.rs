//! Four clients: X12.
//!
//! Source: ASPLOS 2014, section 5.3, figure 8: Throttle with large requests, BinarySearch, DCT and FFT. The size is not in the text: the largest of
//! figure 6.

use anyhow::Result;

use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};
use super::{ENGAGED, Load, Outcome, Row, Runs, SAMPLED, SLICES, Setup, WAYS, findings, least, mean, most, row, ways};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sharing-four",
    question: "four clients, one of them with large requests: what has each, and what is lost?",
    length: 60_000_000_000,
    short: 30_000_000_000,
    kind: Kind::Sharing(find),
    conditions,
};

const SLOWDOWNS: [&str; 4] = ["Throttle", "BinarySearch", "DCT", "FFT"];
const MEAN: &str = "mean slowdown";
const EFFICIENCY: &str = "efficiency";
const LOSS: &str = "loss";
const LOSS_WITH_GAPS: &str = "loss, gaps";

fn find(runs: &Runs) -> Result<Findings> {
    let clients = |program: fn(&str) -> Load| {
        let programs = SLOWDOWNS[1..].iter().map(|name| program(name));
        std::iter::once(Load::throttle(1_700, 0)).chain(programs).collect::<Vec<_>>()
    };
    let of = |program| WAYS.map(|(.., policy)| Setup::new(policy, clients(program)));
    let all = runs.all(&of(Load::program))?;
    let gaps = Runs { length: runs.length / 2, ..*runs }.all(&of(Load::with_gaps))?;
    let each = |of: &dyn Fn(&Outcome) -> f64| all.iter().map(of).collect::<Vec<_>>();
    let slowdown = |(client, name): (usize, &&'static str)| {
        row(name, Unit::Hundredths, each(&|outcome| outcome.slowdowns[client]))
    };
    let mut rows: Vec<Row> = SLOWDOWNS.iter().enumerate().map(slowdown).collect();
    rows.push(row(MEAN, Unit::Hundredths, each(&|outcome| mean(outcome.slowdowns.clone()))));
    rows.push(row(EFFICIENCY, Unit::Hundredths, each(&Outcome::efficiency)));
    rows.push(row(LOSS, Unit::Share, each(&|outcome| 1.0 - outcome.efficiency() / all[0].efficiency())));
    let with_gaps = gaps.iter().map(|outcome| 1.0 - outcome.efficiency() / gaps[0].efficiency());
    rows.push(row(LOSS_WITH_GAPS, Unit::Share, with_gaps));
    Ok(findings(ways(), rows))
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let percent = |value: f64| Unit::Share.show(value);
    let policies = || WAYS.iter().skip(1).map(|(name, ..)| *name);
    let means: Vec<f64> = policies().map(|way| found.value(way, MEAN)).collect();
    let all: Vec<f64> = policies().flat_map(|way| SLOWDOWNS.map(|client| found.value(way, client))).collect();
    let losses = [ENGAGED, SLICES, SAMPLED].map(|way| found.value(way, LOSS));
    let gaps = [ENGAGED, SLICES, SAMPLED].map(|way| found.value(way, LOSS_WITH_GAPS));
    let (fewest, slowest) = (least(all.clone()), most(all));
    vec![
        Condition::new(
            "under each policy a client takes 4 to 5 times as long in the mean (3.9 to 5)",
            means.iter().all(|mean| (3.9..=5.0).contains(mean)),
            means.iter().map(|mean| format!("{mean:.2}")).collect::<Vec<_>>().join(", "),
        )
        .of(Paper { experiment: "X12", value: "4 to 5" }),
        Condition::new(
            "no client takes less than 3.4 or more than 4.6 times as long",
            fewest >= 3.4 && slowest <= 4.6,
            format!("{fewest:.2} to {slowest:.2}"),
        ),
        Condition {
            why_not: Some(
                "the programs are never away here, as whole requests fill their rounds, and slices lose time only where a holder is away; with gaps the \
                 loss falls so",
            ),
            ..Condition::new(
                "the loss falls from engaged slices over slices to fair queueing, by a tenth of a percent each",
                losses[0] > losses[1] + 0.001 && losses[1] > losses[2] + 0.001,
                format!("{}; with gaps {}", losses.map(percent).join(", "), gaps.map(percent).join(", ")),
            )
            .of(Paper { experiment: "X12", value: "falls (13, 8, 7 %)" })
        },
        Condition::new(
            "so it does where programs are away for the part of a round that no whole request fills",
            gaps[0] > gaps[1] + 0.001 && gaps[1] > gaps[2] + 0.001,
            gaps.map(percent).join(", "),
        )
        .of(Paper { experiment: "X12", value: "falls (13, 8, 7 %)" }),
    ]
}
