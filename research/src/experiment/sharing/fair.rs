//! Groups of clients: Y5 to Y8.
//!
//! Source: Fleig 2016, section 5.3.2, figures 5.2 to 5.10. A benchmark stands beside clients with endless kernels of a set length. Of the ten
//! lengths the text has the first, 100 us; the others follow in equal steps beyond the longest benchmark. Of the eight benchmarks it has the mean
//! kernels of two. A virtual machine is a group. Where the throttles are many, their kernels are as long as the benchmark's: the text has no length.

use anyhow::Result;

use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};
use super::emulated::Form;
use super::{Client, Load, Outcome, Row, Runs, Setup, findings, least, most, row};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "groups-fair",
    question: "has a client its share however long the kernels of others are, and however many others stand in one group?",
    length: 480_000_000_000,
    short: 120_000_000_000,
    kind: Kind::Sharing(find),
    conditions,
};

const DIRECT: &str = "direct";
const FLAT: &str = "no groups";
const SAMPLED: &str = "sampled";
const BACKLOG: &str = "backlog";
const COUNTED: &str = "counted";
const STATIC: &str = "static weights";

/// Name, sentence, policy, whether there are groups, further parameters.
type Way = (&'static str, &'static str, Option<u64>, bool, &'static [(&'static str, u64)]);

const WAYS: [Way; 6] = [
    (DIRECT, "the device serves all in turn, nobody decides", None, false, &[]),
    (
        FLAT,
        "fair queueing by sampled sizes, all clients beside each other: the scheduler of the host",
        Some(3),
        false,
        &[],
    ),
    (SAMPLED, "the same, a virtual machine is a group", Some(3), true, &[]),
    (BACKLOG, "groups, aware of backlogs (policy 4)", Some(4), true, &[]),
    (COUNTED, "groups, by the device's counters (policy 5)", Some(5), true, &[]),
    (
        STATIC,
        "groups with fixed parts for their members, by sampled sizes: the thesis' weights",
        Some(3),
        true,
        &[("static_weights", 1)],
    ),
];

/// The group.
const MACHINE: &str = "vm";
/// Kernels of the client beside the benchmark, microseconds of the text.
const LENGTHS: [u64; 10] = [100, 600, 1_100, 1_600, 2_100, 2_600, 3_100, 3_600, 4_100, 4_600];
/// Benchmarks, with their rows: slowdown beside the shortest and the longest kernels, the most of all by the least.
const BENCHMARKS: [(&str, [&str; 3]); 2] = [
    ("NN", ["NN, 100 us", "NN, 4.6 ms", "NN, most by least"]),
    ("SRAD_V2", ["SRAD_V2, 100 us", "SRAD_V2, 4.6 ms", "SRAD_V2, m. by l."]),
];
/// The part of the benchmark beside so many clients of the group, from one on.
const SHARES: [&str; 8] =
    ["share beside 1", "beside 2", "beside 3", "beside 4", "beside 5", "beside 6", "beside 7", "beside 8"];
const SILENT: &str = "1, and a silent one";
const SHARES_OF: &str = "SRAD_V2";
const NN_SHARE: &str = "NN's part, 100 us";
const LINE: &str = "off the line";

fn setup(way: &Way, inside: &[Load], outside: &[Load]) -> Setup {
    let (.., policy, grouped, parameters) = way;
    let member = |load: &Load| Client { group: grouped.then_some(MACHINE), ..Client::from(load.clone()) };
    let clients = outside.iter().cloned().map(Client::from).chain(inside.iter().map(member));
    Setup { parameters: parameters.to_vec(), ..Setup::new(*policy, clients) }
}

fn find(runs: &Runs) -> Result<Findings> {
    let (mut setups, mut crowds) = (Vec::new(), Vec::new());
    for way in &WAYS {
        for (benchmark, _) in BENCHMARKS.into_iter().filter(|_| way.0 != STATIC) {
            let pair = |length| setup(way, &[Load::program(benchmark), Load::throttle(length, 0)], &[]);
            setups.extend(LENGTHS.map(pair));
        }
        let kernel = Load::program(SHARES_OF).requests[0] / super::MICROSECOND;
        let many = |count| setup(way, &vec![Load::throttle(kernel, 0); count], &[Load::program(SHARES_OF)]);
        crowds.extend((1..=SHARES.len()).map(many));
        crowds.push(setup(way, &[Load::throttle(kernel, 0), Load::silent()], &[Load::program(SHARES_OF)]));
    }
    // An interval is as long as there are clients: half of the time has more of them for two than all of it for eight.
    let pairs = Runs { length: runs.length / 2, ..*runs }.all(&setups)?;
    let crowds = runs.all(&crowds)?;
    let (each_pair, each_crowd) = (BENCHMARKS.len() * LENGTHS.len(), SHARES.len() + 1);
    // Fixed parts change nothing for two members of one group that always want the engine: the last column has no pairs.
    let each = |(all, count): (&[Outcome], usize), of: &dyn Fn(&[Outcome]) -> f64| {
        let mut values: Vec<f64> = all.chunks(count).map(of).collect();
        values.resize(WAYS.len(), f64::NAN);
        values
    };
    let mut rows: Vec<Row> = vec![row(NN_SHARE, Unit::Share, each((&pairs, each_pair), &|column| column[0].share(0)))];
    // Beside a client with kernels of T the benchmark with kernels of s takes (s + T) / s as long if they are served in turn.
    let off = |column: &[Outcome]| {
        most(BENCHMARKS.iter().enumerate().flat_map(|(number, (name, _))| {
            let own = Load::program(name).requests[0] as f64;
            LENGTHS.iter().enumerate().map(move |(at, length)| {
                let line = 1.0 + (length * super::MICROSECOND) as f64 / own;
                (column[number * LENGTHS.len() + at].slowdowns[0] / line - 1.0).abs()
            })
        }))
    };
    for (number, (_, [first, last, spread])) in BENCHMARKS.iter().enumerate() {
        let range = number * LENGTHS.len()..(number + 1) * LENGTHS.len();
        rows.push(row(first, Unit::Hundredths, each((&pairs, each_pair), &|column| column[range.start].slowdowns[0])));
        rows.push(row(last, Unit::Hundredths, each((&pairs, each_pair), &|column| column[range.end - 1].slowdowns[0])));
        let of = |column: &[Outcome]| {
            let slowdowns = || column[range.clone()].iter().map(|outcome| outcome.slowdowns[0]);
            most(slowdowns()) / least(slowdowns())
        };
        rows.push(row(spread, Unit::Hundredths, each((&pairs, each_pair), &of)));
    }
    rows.push(row(LINE, Unit::Share, each((&pairs, each_pair), &off)));
    for (at, name) in SHARES.iter().chain([&SILENT]).enumerate() {
        rows.push(row(name, Unit::Share, each((&crowds, each_crowd), &|column| column[at].share(0))));
    }
    Ok(findings(WAYS.iter().map(|(name, about, ..)| (*name, *about)).collect(), rows))
}

/// A client beside three of one group, all with requests as long as the shortest kernels.
pub(super) fn form() -> Form {
    let ways = || WAYS.iter().filter(|(name, ..)| [DIRECT, FLAT, SAMPLED, COUNTED].contains(name));
    let client = Load::throttle(LENGTHS[0], 0);
    Form {
        columns: ways().map(|(name, about, ..)| (*name, *about)).collect(),
        setups: ways().map(|way| setup(way, &vec![client.clone(); 3], std::slice::from_ref(&client))).collect(),
        rows: |outcomes| vec![row("share beside 3", Unit::Share, [outcomes[0].share(0)])],
    }
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let value = |way, row| found.value(way, row);
    let percent = |value: f64| Unit::Share.show(value);
    let spreads = |way| BENCHMARKS.map(|(_, rows)| value(way, rows[2]));
    let shares = |way| SHARES.map(|row| value(way, row));
    let list = |values: &[f64]| values.iter().map(|one| percent(*one)).collect::<Vec<_>>().join(", ");
    let ratios = |values: &[f64]| values.iter().map(|one| format!("{one:.2}")).collect::<Vec<_>>().join(", ");
    let unscheduled = shares(DIRECT).into_iter().enumerate().map(|(at, share)| (share - 1.0 / (at as f64 + 2.0)).abs());
    let unscheduled = most(unscheduled);
    let grouped = [SAMPLED, BACKLOG, COUNTED];
    let fewest = grouped.map(|way| least(shares(way)));
    vec![
        Condition::new(
            "direct, the time of a benchmark grows in a line with the kernels beside it (5 % off at most)",
            value(DIRECT, LINE) <= 0.05,
            percent(value(DIRECT, LINE)),
        )
        .of(Paper { experiment: "Y5", value: "linear" }),
        Condition::new(
            "direct, NN has 97.6 % beside kernels of 100 us (1 % more or less)",
            (value(DIRECT, NN_SHARE) - 0.976).abs() <= 0.01,
            percent(value(DIRECT, NN_SHARE)),
        )
        .of(Paper { experiment: "Y5", value: "97.6 %" }),
        Condition::new(
            "by the scheduler NN has half beside kernels of 100 us (3 % more or less)",
            (value(FLAT, NN_SHARE) - 0.5).abs() <= 0.03,
            percent(value(FLAT, NN_SHARE)),
        )
        .of(Paper { experiment: "Y6", value: "50 %" }),
        Condition::new(
            "by the scheduler the time of a benchmark is nearly flat: its most is 1.2 times its least, at most",
            spreads(FLAT).iter().all(|spread| *spread <= 1.2),
            format!("{}; direct {}", ratios(&spreads(FLAT)), ratios(&spreads(DIRECT))),
        )
        .of(Paper { experiment: "Y6", value: "nearly flat" }),
        Condition::new(
            "within one group it is as flat",
            grouped.iter().all(|way| spreads(way).iter().all(|spread| *spread <= 1.2)),
            grouped.map(|way| ratios(&spreads(way))).join("; "),
        )
        .of(Paper { experiment: "Y7", value: "as Y6" }),
        Condition::new(
            "direct, a benchmark beside k others has 1 / (k + 1) (3 points more or less)",
            unscheduled <= 0.03,
            format!("off by {} at most: {}", percent(unscheduled), list(&shares(DIRECT))),
        )
        .of(Paper { experiment: "Y8", value: "1 / (k + 1)" }),
        Condition::new(
            "beside one to eight clients of a group a benchmark has 45 % at least",
            fewest.iter().all(|share| *share >= 0.45),
            format!("{}; no groups {}", list(&fewest), percent(least(shares(FLAT)))),
        )
        .of(Paper { experiment: "Y8", value: "flat" }),
        Condition {
            why_not: Some(
                "the thesis counts the members of a machine that have touched the GPU, and a silent one takes its part with it: of weights 1 to 2 one machine \
                 has two thirds and the other a third; where the members that want the engine divide all, both have half",
            ),
            ..Condition::new(
                "with the thesis' weights a machine with a silent client has half, too (45 to 55 %)",
                (value(STATIC, SILENT) - 0.5).abs() <= 0.05,
                format!(
                    "the benchmark has {}; as groups {}",
                    percent(value(STATIC, SILENT)),
                    percent(value(SAMPLED, SILENT))
                ),
            )
            .of(Paper { experiment: "Y8", value: "fair for each node" })
        },
    ]
}
