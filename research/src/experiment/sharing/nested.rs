//! A scheduler inside of a virtual machine, and none outside: Y9.
//!
//! Source: Fleig 2016, section 5.4, figure 5.11. The inner scheduler samples for 1 ms and lets go for 1 ms. Its free run is a multiple of all samples here, at
//! least as long: 2 ms for two clients. The figure is of three programs without printed kernels; in their place stand DCT of the other paper, which has small
//! ones, and SRAD_V2. Managers of groups, which decide beside a scheduler outside, are programs that the simulator does not run: QEMU does, in the systems that
//! [docs/accelerator.md](../../../../docs/accelerator.md#groups-of-clients) lists.

use anyhow::Result;

use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};
use super::{Load, MICROSECOND, Outcome, Row, Runs, SCALE, Setup, findings, least, most, row};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "groups-nested",
    question: "is a scheduler inside of a virtual machine as fair with intervals of 1 ms, and none outside?",
    length: 60_000_000_000,
    short: 8_000_000_000,
    kind: Kind::Sharing(find),
    conditions,
};

const DIRECT: &str = "direct";
const INNER: &str = "inner, 1 ms";
const WHOLE: &str = "inner, 8 requests";
const OUTER: &str = "host's";

const INNER_SAMPLE: u64 = 1_000 * SCALE;
/// Samples as long as in the text, and no longer for long requests.
const CUT: &[(&str, u64)] = &[("sample_us", INNER_SAMPLE), ("sample_most_us", INNER_SAMPLE), ("free_run", 1)];
/// Samples of eight requests at least.
const FULL: &[(&str, u64)] = &[("sample_us", INNER_SAMPLE), ("free_run", 1)];

/// Name, sentence, policy, parameters.
type Way = (&'static str, &'static str, Option<u64>, &'static [(&'static str, u64)]);

const WAYS: [Way; 4] = [
    (DIRECT, "the device serves both in turn, nobody decides", None, &[]),
    (INNER, "fair queueing by sampled sizes, samples of 1 ms and free runs of 2 ms: the inner scheduler", Some(3), CUT),
    (WHOLE, "the same, but a sample has eight requests at least", Some(3), FULL),
    (OUTER, "the same with the host's samples of 5 ms and free runs of five times as long", Some(3), &[]),
];
/// Kernels of the other client, microseconds of the text.
const LENGTHS: [u64; 5] = [100, 1_225, 2_350, 3_475, 4_600];
/// Programs, with their rows: slowdown beside the longest kernels, the most of all by the least.
const PROGRAMS: [(&str, [&str; 2]); 2] =
    [("DCT", ["DCT, 4.6 ms", "DCT, most by least"]), ("SRAD_V2", ["SRAD_V2, 4.6 ms", "SRAD_V2, m. by l."])];

fn find(runs: &Runs) -> Result<Findings> {
    let pair = |(.., policy, parameters): &Way, program: &str, length: u64| Setup {
        parameters: parameters.to_vec(),
        ..Setup::new(*policy, [Load::program(program), Load::throttle(length, 0)])
    };
    let mut setups = Vec::new();
    for way in &WAYS {
        PROGRAMS.iter().for_each(|(program, _)| setups.extend(LENGTHS.map(|length| pair(way, program, length))));
    }
    let all = runs.all(&setups)?;
    let columns: Vec<&[Outcome]> = all.chunks(all.len() / WAYS.len()).collect();
    let each = |of: &dyn Fn(&[Outcome]) -> f64| columns.iter().map(|column| of(column)).collect::<Vec<_>>();
    let mut rows: Vec<Row> = Vec::new();
    for (number, (_, [last, spread])) in PROGRAMS.iter().enumerate() {
        let range = number * LENGTHS.len()..(number + 1) * LENGTHS.len();
        rows.push(row(last, Unit::Hundredths, each(&|column| column[range.end - 1].slowdowns[0])));
        let of = |column: &[Outcome]| {
            let slowdowns = || column[range.clone()].iter().map(|outcome| outcome.slowdowns[0]);
            most(slowdowns()) / least(slowdowns())
        };
        rows.push(row(spread, Unit::Hundredths, each(&of)));
    }
    // Served in turn, a program with requests of s takes (s + T) / s as long beside one of T.
    let off = |column: &[Outcome]| {
        most(PROGRAMS.iter().enumerate().flat_map(|(number, (name, _))| {
            let own = Load::program(name).requests[0] as f64;
            LENGTHS.iter().enumerate().map(move |(at, length)| {
                let line = 1.0 + (length * MICROSECOND) as f64 / own;
                (column[number * LENGTHS.len() + at].slowdowns[0] / line - 1.0).abs()
            })
        }))
    };
    rows.push(row(LINE, Unit::Share, each(&off)));
    Ok(findings(WAYS.iter().map(|(name, about, ..)| (*name, *about)).collect(), rows))
}

const LINE: &str = "off the line";

fn conditions(found: &Findings) -> Vec<Condition> {
    let spreads = |way| PROGRAMS.map(|(_, rows)| found.value(way, rows[1]));
    let ratios = |way| spreads(way).map(|one| format!("{one:.2}")).join(", ");
    let flat = |way| spreads(way).iter().all(|spread| *spread <= 1.2);
    let line = found.value(DIRECT, LINE);
    vec![
        Condition::new(
            "without a scheduler the time grows in a line (5 % off at most)",
            line <= 0.05,
            Unit::Share.show(line),
        )
        .of(Paper { experiment: "Y9", value: "linear" }),
        Condition {
            some_draws: Some(
                "a sample of 1 ms has one or two of the kernels of 2.7 ms and more, whose lengths differ, so the estimate goes by chance; with samples of eight \
                 requests the ratio is below 1.1 in all draws",
            ),
            ..Condition::new(
                "with the inner one it is nearly flat: its most is 1.2 times its least, at most",
                flat(INNER),
                format!("{}; direct {}; samples of eight requests {}", ratios(INNER), ratios(DIRECT), ratios(WHOLE)),
            )
            .of(Paper { experiment: "Y9", value: "corrected" })
        },
        Condition::new(
            "it is flat with samples of eight requests, too",
            flat(WHOLE),
            format!("{}; with the host's intervals {}", ratios(WHOLE), ratios(OUTER)),
        ),
    ]
}
