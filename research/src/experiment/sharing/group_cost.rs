//! The price of accounting and of groups: Y2 to Y4.
//!
//! Source: Fleig 2016, tables 5.1 to 5.4: accounting alone, denial switched off. Of the eight benchmarks the text has the mean kernels of two; the others
//! here are the programs of the other paper's table, whose requests are shorter.

use anyhow::Result;

use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};
use super::{Client, Load, Outcome, Row, Runs, Setup, findings, mean, most, row};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "groups-cost",
    question: "what does a client alone pay for accounting, and for standing in a group?",
    length: 10_000_000_000,
    short: 1_000_000_000,
    kind: Kind::Sharing(find),
    conditions,
};

const DIRECT: &str = "direct";
const ACCOUNTING: &str = "accounting";
const FLAT: &str = "counted";
const GROUPED: &str = "counted, group";
/// Name, sentence, policy, whether the client stands in a group.
const WAYS: [(&str, &str, Option<u64>, bool); 4] = [
    (DIRECT, "nobody decides", None, false),
    (ACCOUNTING, "each store asked about, nobody denied (policy 0)", Some(0), false),
    (FLAT, "fair queueing by the device's counters (policy 5)", Some(5), false),
    (GROUPED, "the same, in a group", Some(5), true),
];
/// The benchmarks of the thesis, and their rows.
const OWN: [&str; 2] = ["NN", "SRAD_V2"];
const MEAN: &str = "all, mean";
const MOST: &str = "all, most";

fn find(runs: &Runs) -> Result<Findings> {
    let programs = Load::names();
    let client = |name: &String, grouped: bool| Client { group: grouped.then_some("vm"), ..Load::program(name).into() };
    let of_way = |policy, grouped| programs.iter().map(move |name| Setup::alone(policy, client(name, grouped)));
    let setups: Vec<Setup> = WAYS.iter().flat_map(|(.., policy, grouped)| of_way(*policy, *grouped)).collect();
    let all = runs.all(&setups)?;
    let columns: Vec<&[Outcome]> = all.chunks(programs.len()).collect();
    let each = |of: &dyn Fn(&[Outcome]) -> f64| columns.iter().map(|column| of(column)).collect::<Vec<_>>();
    let one = |name: &'static str| {
        let place = programs.iter().position(|one| one == name);
        row(name, Unit::Fine, each(&|column| place.map_or(f64::NAN, |place| column[place].slowdowns[0])))
    };
    let mut rows: Vec<Row> = OWN.map(one).into();
    let slowdowns = |column: &[Outcome]| column.iter().map(|outcome| outcome.slowdowns[0]).collect::<Vec<_>>();
    rows.push(row(MEAN, Unit::Fine, each(&|column| mean(slowdowns(column)))));
    rows.push(row(MOST, Unit::Fine, each(&|column| most(slowdowns(column)))));
    Ok(findings(WAYS.iter().map(|(name, about, ..)| (*name, *about)).collect(), rows))
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let percent = |value: f64| Unit::Share.show(value - 1.0);
    let [accounting, flat, grouped] = [ACCOUNTING, FLAT, GROUPED].map(|way| found.value(way, MEAN));
    vec![
        Condition::new(
            "accounting for each request of a client costs 2.17 % at most, in the mean",
            accounting <= 1.0217,
            percent(accounting),
        )
        .of(Paper { experiment: "Y2", value: "2.17 %" }),
        Condition::new(
            "to stand in a group costs no more than to stand beside others (1.73 % at most)",
            grouped - flat <= 0.0173,
            format!("{}; {} without", percent(grouped), percent(flat)),
        )
        .of(Paper { experiment: "Y3", value: "1.73 %" }),
        Condition::new("both cost 3.94 % at most", grouped.max(accounting) <= 1.0394, percent(grouped.max(accounting)))
            .of(Paper { experiment: "Y4", value: "3.94 %" }),
    ]
}
