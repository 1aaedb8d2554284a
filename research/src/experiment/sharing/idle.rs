//! DCT beside a client that is away for part of the time: X13.
//!
//! Source: ASPLOS 2014, section 5.4, figures 9 and 10. The text has the losses at 80 % away, and no size of Throttle's requests: here they are those of
//! DCT, or long ones of 430 us.

use anyhow::Result;

use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};
use super::emulated::Form;
use super::{
    BACKLOG, COUNTED, DIRECT, ENGAGED, Load, Outcome, Row, Runs, SAMPLED, SLICES, Setup, WAYS, findings, most, row,
    ways,
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sharing-idle",
    question: "what is lost where one of two clients is away most of the time?",
    length: 20_000_000_000,
    short: 5_000_000_000,
    kind: Kind::Sharing(find),
    conditions,
};

/// Percent of the time.
const AWAY: [u64; 4] = [0, 40, 60, 80];
/// The sizes of requests in microseconds of the paper, and the rows of each: losses, and the slowdowns of both at the last.
const SIZES: [(u64, [&str; 4], [&str; 2]); 2] = [
    (66, ["loss, 0 % away", "loss, 40 % away", "loss, 60 % away", SHORT_LOSS], ["DCT, 80 % away", "beside DCT"]),
    (
        430,
        ["long, 0 % away", "long, 40 % away", "long, 60 % away", LONG_LOSS],
        ["DCT, long, 80 % away", "long beside DCT"],
    ),
];
const SHORT_LOSS: &str = "loss, 80 % away";
const LONG_LOSS: &str = "long, 80 % away";
const MOST: &str = "most slowdown";

fn find(runs: &Runs) -> Result<Findings> {
    let sizes = || SIZES.iter().map(|(size, ..)| *size);
    let pair = |policy, size, away| Setup::new(policy, [Load::program("DCT"), Load::throttle(size, away)]);
    let of_way = |policy| sizes().flat_map(move |size| AWAY.map(|away| pair(policy, size, away)));
    let setups: Vec<Setup> = WAYS.iter().flat_map(|(.., policy)| of_way(*policy)).collect();
    let all = runs.all(&setups)?;
    let columns: Vec<&[Outcome]> = all.chunks(all.len() / WAYS.len()).collect();
    let each = |of: &dyn Fn(&[Outcome]) -> f64| columns.iter().map(|column| of(column)).collect::<Vec<_>>();
    let mut rows: Vec<Row> = Vec::new();
    for (number, (_, losses, slowdowns)) in SIZES.iter().enumerate() {
        for (at, name) in losses.iter().enumerate() {
            let index = number * AWAY.len() + at;
            let loss = |column: &[Outcome]| 1.0 - column[index].efficiency() / columns[0][index].efficiency();
            rows.push(row(name, Unit::Share, each(&loss)));
        }
        let last = (number + 1) * AWAY.len() - 1;
        for (client, name) in slowdowns.iter().enumerate() {
            rows.push(row(name, Unit::Hundredths, each(&|column| column[last].slowdowns[client])));
        }
    }
    let slowest = |column: &[Outcome]| most(column.iter().flat_map(|outcome| outcome.slowdowns.clone()));
    rows.push(row(MOST, Unit::Hundredths, each(&slowest)));
    Ok(findings(ways(), rows))
}

/// DCT beside a client with requests of 430 us that is away for 80 %.
pub(super) fn form() -> Form {
    let ways = || WAYS.iter().filter(|(name, ..)| [DIRECT, SLICES, COUNTED].contains(name));
    Form {
        columns: ways().map(|(name, about, _)| (*name, *about)).collect(),
        setups: ways()
            .map(|(.., policy)| Setup::new(*policy, [Load::program("DCT"), Load::throttle(SIZES[1].0, AWAY[3])]))
            .collect(),
        rows: |outcomes| {
            let slowdowns = SIZES[1].2.into_iter().zip(&outcomes[0].slowdowns);
            let slowdowns = slowdowns.map(|(name, value)| row(name, Unit::Hundredths, [*value]));
            slowdowns.chain([row("efficiency", Unit::Hundredths, [outcomes[0].efficiency()])]).collect()
        },
    }
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let percent = |value: f64| Unit::Share.show(value);
    let losses = |way| [SHORT_LOSS, LONG_LOSS].map(|row| found.value(way, row));
    let both = |way| losses(way).map(percent).join(" and ");
    let third = |way, claim, value| {
        Condition::new(claim, losses(way).iter().all(|loss| *loss >= 1.0 / 3.0), both(way))
            .of(Paper { experiment: "X13", value })
    };
    let little = |way| losses(way).iter().all(|loss| *loss <= 0.07);
    let slowest = most([ENGAGED, SLICES, SAMPLED, BACKLOG, COUNTED].map(|way| found.value(way, MOST)));
    vec![
        third(ENGAGED, "with the other away for 80 % engaged slices lose more than a third", "a third (36 %)"),
        third(SLICES, "slices lose more than a third, too", "a third (34 %)"),
        Condition {
            why_not: Some(
                "the client that is mostly away is the slowest for ever, so DCT waits for it in vain; where only backlogged clients set the system time \
                 (`backlog`, `counted`) the loss is at most 7 %",
            ),
            ..Condition::new(
                "fair queueing as in the paper loses 7 % at most",
                little(SAMPLED),
                format!("{}; backlog {}, counted {}", both(SAMPLED), both(BACKLOG), both(COUNTED)),
            )
            .of(Paper { experiment: "X13", value: "about 0 %" })
        },
        Condition::new(
            "with backlogs counted it loses 7 % at most, with counters nothing (1 %)",
            little(BACKLOG) && losses(COUNTED).iter().all(|loss| *loss <= 0.01),
            format!("{}; {}", both(BACKLOG), both(COUNTED)),
        ),
        Condition::new(
            "under no policy a client takes more than 2.3 times as long",
            slowest <= 2.3,
            format!("{slowest:.2}"),
        )
        .of(Paper { experiment: "X13", value: "about 2 at most" }),
    ]
}
