//! The number of clients until one is refused: X14.
//!
//! Source: ASPLOS 2014, section 6.3: 48 contexts are all that the card of the paper has, and one program can take them. The quota that the text
//! proposes, and did not build, is C contexts of one client.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use fusee_accel_contract::{CONTEXTS, space::CLIENT_CONTEXTS};
use fusee_manifest::Manifest;

use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};
use super::{Runs, findings, row};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sharing-limits",
    question: "how many contexts are there, and can one client take them all?",
    length: 1_000_000_000,
    short: 1_000_000_000,
    kind: Kind::Sharing(find),
    conditions,
};

const FEW: &str = "one each";
const MANY: &str = "most each";
const EACH: &str = "contexts each";
const CLIENTS: &str = "clients";
const ALL: &str = "contexts";
/// More than any device has.
const ENOUGH: usize = 64;

/// Whether a system is accepted with clients that have so many contexts each.
fn is_accepted(contexts: &[usize]) -> bool {
    let mut text = "[system]\nname = \"limits\"\nboard = \"virt\"\ncpus = 1\n[devices.gpu]\ncontexts = 16\n[engines.ee]\nshared_longest = \"1ms\"\n".to_owned();
    for (index, count) in contexts.iter().enumerate() {
        let handles: Vec<String> = (0..*count).map(|handle| format!("ee{handle} = \"engine ee: share\"")).collect();
        let _ = write!(
            text,
            "[tasks.c{index}]\nscript = [\"burn 1ms\"]\nclass = \"background\"\nhandles = {{ {} }}\n",
            handles.join(", ")
        );
    }
    Manifest::parse(Path::new("limits"), &text).is_ok()
}

/// The largest number that is accepted.
fn largest(is_accepted: impl Fn(usize) -> bool) -> usize {
    (1..=ENOUGH).take_while(|count| is_accepted(*count)).last().unwrap_or(0)
}

fn find(_: &Runs) -> Result<Findings> {
    let few = largest(|clients| is_accepted(&vec![1; clients]));
    let each = largest(|contexts| is_accepted(&[contexts]));
    let many = largest(|clients| is_accepted(&vec![each; clients]));
    let columns = vec![
        (FEW, "clients with one context, as many as are accepted"),
        (MANY, "clients with as many contexts as one may have"),
    ];
    Ok(findings(
        columns,
        vec![
            row(EACH, Unit::Count, [1.0, each as f64]),
            row(CLIENTS, Unit::Count, [few as f64, many as f64]),
            row(ALL, Unit::Count, [few as f64, (many * each) as f64]),
        ],
    ))
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let contexts = found.value(FEW, ALL);
    let [each, clients] = [EACH, CLIENTS].map(|row| found.value(MANY, row));
    vec![
        Condition {
            why_not: Some("the number is the device's: ours has 16 contexts, and the first is no client's"),
            ..Condition::new("48 contexts can be opened before one is refused", contexts == 48.0, format!("{contexts}"))
                .of(Paper { experiment: "X14", value: "48" })
        },
        Condition::new(
            "no more contexts than the device has are accepted, nor fewer but for two",
            contexts <= CONTEXTS as f64 && contexts + 2.0 >= CONTEXTS as f64,
            format!("{contexts} of {CONTEXTS}"),
        ),
        Condition::new(
            "one client cannot take them all: there is a quota, and room for a second one that uses it up",
            each == CLIENT_CONTEXTS as f64 && clients >= 2.0,
            format!("{each} contexts each, {clients} clients"),
        )
        .of(Paper { experiment: "X14", value: "a quota (proposed)" }),
    ]
}
