//! Real time beside clients without a deadline: the share that each kind of arbitration leaves to both.
//!
//! `rt` has eight operations on the engine in each period of 100 ms, which are 0 to 80 % of it together, and its period as deadline. Four clients without a
//! deadline have requests of 2 ms done, each one after the other. All numbers are round: a device's queue makes each of the eight operations wait for up to four
//! requests, 64 ms of 100 in all, and a lock all eight for one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use fusee_abi::trace::{Event, Ledger, Record};
use fusee_campaigns::soundness::in_parallel;
use fusee_host::system::Workspace;
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_simulator::workload::Source;
use fusee_simulator::{Checks, Options, simulate_observed};

use super::super::systems::OVERHEADS;
use super::super::{Condition, Experiment, Findings, Kind, Unit};
use super::{Row, Runs, START, emulated, findings, least, row};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "two-classes",
    question: "does real time keep its deadlines beside clients without one, and have these what it leaves?",
    length: 20_000_000_000,
    short: 4_000_000_000,
    kind: Kind::Sharing(find),
    conditions,
};

const FIFO: &str = "device FIFO";
const LOCKS: &str = "engine locks";
const GATE: &str = "gate";
const SMS: &str = "SMs";
const WAYS: [(&str, &str); 4] = [
    (FIFO, "all ring as they like, the device's queues decide"),
    (LOCKS, "all take the engine's lock, by priority"),
    (GATE, "the four clients have no lock, and a gate is shut while `rt` wants the engine"),
    (SMS, "the same, on an engine of four SMs that make room for `rt`"),
];

/// Microseconds.
const PERIOD: u64 = 100_000;
const REQUEST: u64 = 2_000;
const OPERATIONS: u64 = 8;
const CLIENTS: usize = 4;
/// Percent of the period, with the rows of each: late jobs, and the work of the others by the rest that `rt` leaves.
const LOADS: [(u64, [&str; 2]); 5] = [
    (0, ["missed, 0 %", "work, 0 %"]),
    (20, ["missed, 20 %", "work, 20 %"]),
    (40, ["missed, 40 %", "work, 40 %"]),
    (60, ["missed, 60 %", "work, 60 %"]),
    (80, ["missed, 80 %", "work, 80 %"]),
];

/// The load of the form for QEMU: the place in [`LOADS`].
const EMULATED: usize = 3;

/// The system with this load, which ends itself after `length` nanoseconds; or its clients end then, and it later.
fn manifest(way: &str, load: u64, seed: u64, length: u64, clients_end: bool) -> String {
    let mut source = Source::new(seed, load);
    let mut text = format!(
        "[system]\nname = \"classes\"\nboard = \"virt\"\ncpus = {}\nstart = \"{START}us\"\nadmission = \"warn\"\nmanaged = {}\n",
        CLIENTS + 2,
        way != FIFO
    );
    let has_lock = way == FIFO || way == LOCKS;
    for index in 0..CLIENTS {
        let begin = format!("sleep {}us", START + source.draw(0, REQUEST));
        let submit = format!("submit ee {REQUEST}us gpu_done");
        let steps = match has_lock {
            true => vec![begin, "acquire ee".into(), submit, "release ee".into(), "repeat".into()],
            false => vec![begin, submit, "repeat".into()],
        };
        let right = if has_lock { "acquire" } else { "share" };
        let _ = write!(
            text,
            "[tasks.c{index}]\nscript = {steps:?}\nclass = \"background\"\nhandles = {{ ee = \"engine ee: {right}\" }}\n"
        );
        if clients_end {
            text += &emulated::parameters(length);
        }
        if has_lock {
            let _ = writeln!(text, "trusted = true\nuses.ee = {{ cpu = \"20us\", operation = \"{REQUEST}us\" }}");
        }
    }
    if load > 0 {
        let operation = PERIOD * load / 100 / OPERATIONS;
        let mut steps = vec!["acquire ee".to_owned()];
        steps.extend((0..OPERATIONS).map(|_| format!("submit ee {operation}us gpu_done")));
        steps.push("release ee".to_owned());
        let _ = write!(
            text,
            "[tasks.rt]\nscript = {steps:?}\nperiod = \"{PERIOD}us\"\nbudget = \"2ms\"\n\
             uses.ee = {{ cpu = \"200us\", operation = \"{}us\", commands = {OPERATIONS} }}\nhandles = {{ ee = \"engine ee: acquire\" }}\n",
            operation * OPERATIONS
        );
    }
    text += &emulated::end(length, if clients_end { PERIOD } else { 0 });
    text += "[devices.gpu]\n";
    match way {
        SMS => text += "sms = 4\n[engines.ee]\n",
        GATE => text += &format!("[engines.ee]\nshared_longest = \"{REQUEST}us\"\n"),
        _ => text += "[engines.ee]\n",
    }
    text
}

/// Late jobs of `rt`, and the part of the time for which the engine worked for the others.
fn run(way: &str, load: u64, seed: u64, length: u64) -> Result<(f64, f64)> {
    let manifest = Manifest::parse(Path::new("classes"), &manifest(way, load, seed, length, false))?;
    let options = Options { overheads: OVERHEADS, checks: Checks::Instants(1_000), ..Options::default() };
    let mut kept: Vec<Record> = Vec::new();
    let report = simulate_observed(&manifest, &options, manifest.system.start + 2 * length, &mut |record| {
        if record.event == Event::Ledger as u8 {
            kept.push(*record);
        }
    })?;
    anyhow::ensure!(report.exit == Some(0), "it ended with {:?}", report.exit);
    let missed = missed(&manifest, &Trace::from_records(kept));
    let tasks = &manifest.system.tasks;
    let others = report.commands.iter().filter(|one| tasks[one.task].name.starts_with('c'));
    let done: u64 = others.map(|one| u64::from(one.retired)).sum();
    Ok((missed as f64, (done * REQUEST * 1_000) as f64 / length as f64))
}

/// Late jobs of `rt`, by the ledgers of the system that has ended.
fn missed(manifest: &Manifest, trace: &Trace) -> u64 {
    let ledgers: BTreeMap<(u16, u16), u64> = trace.ledgers();
    manifest.system.tasks.iter().position(|task| task.name == "rt").map_or(0, |index| {
        let of = |ledger: Ledger| ledgers.get(&(ledger as u16, index as u16)).copied().unwrap_or(0);
        of(Ledger::Misses) + of(Ledger::Skipped)
    })
}

/// The systems with one of the loads, in QEMU and in the simulator.
pub(super) fn emulate(workspace: &Workspace, runs: &Runs) -> Result<[Findings; 2]> {
    let (load, [missed_row, work_row]) = LOADS[EMULATED];
    let (mut emulated, mut simulated) = (Vec::new(), Vec::new());
    for (way, _) in WAYS {
        let text = manifest(way, load, runs.seed, runs.length, true);
        let parsed = Manifest::parse(Path::new("classes"), &text)?;
        let trace = emulated::trace(workspace, Manifest::parse(Path::new("classes"), &text)?).context(way)?;
        let counts = (0..CLIENTS).map(|index| emulated::done(&parsed, &trace, &format!("c{index}")));
        let done: u64 = counts.map(|count| count.map(u64::from)).sum::<Result<u64>>().context(way)?;
        emulated.push((missed(&parsed, &trace) as f64, (done * REQUEST * 1_000) as f64 / runs.length as f64));
        simulated.push(run(way, load, runs.seed, runs.length).context(way)?);
    }
    let left = 1.0 - load as f64 / 100.0;
    Ok([emulated, simulated].map(|found| {
        let rows = vec![
            row(missed_row, Unit::Count, found.iter().map(|(missed, _)| *missed)),
            row(work_row, Unit::Share, found.iter().map(|(_, work)| work / left)),
        ];
        findings(WAYS.to_vec(), rows)
    }))
}

fn find(runs: &Runs) -> Result<Findings> {
    let items: Vec<(&str, u64)> = WAYS.iter().flat_map(|(way, _)| LOADS.map(|(load, _)| (*way, load))).collect();
    let one = |done: &mut Vec<(usize, Result<(f64, f64)>)>, number: u64| {
        let (way, load) = items[number as usize];
        done.push((number as usize, run(way, load, runs.seed, runs.length)));
    };
    let mut done = in_parallel(items.len() as u64, &one, |all, some| all.extend(some));
    done.sort_by_key(|(number, _)| *number);
    let done = done.into_iter().map(|(number, found)| found.with_context(|| format!("{:?}", items[number])));
    let done: Vec<(f64, f64)> = done.collect::<Result<_>>()?;
    let mut rows: Vec<Row> = Vec::new();
    for (at, (load, [missed, work])) in LOADS.iter().enumerate() {
        let of_way = || (0..WAYS.len()).map(|way| done[way * LOADS.len() + at]);
        rows.push(row(missed, Unit::Count, of_way().map(|(missed, _)| missed)));
        let left = 1.0 - *load as f64 / 100.0;
        rows.push(row(work, Unit::Share, of_way().map(|(_, work)| work / left)));
    }
    Ok(findings(WAYS.to_vec(), rows))
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let missed = |way| LOADS.map(|(_, rows)| found.value(way, rows[0]));
    let works = |way| LOADS.map(|(_, rows)| found.value(way, rows[1]));
    let list = |values: [f64; 5]| values.map(|one| format!("{one}")).join(", ");
    let fewest = |way| Unit::Share.show(least(works(way)));
    vec![
        Condition::new(
            "by the device's queues alone deadlines are missed",
            missed(FIFO).iter().sum::<f64>() > 0.0,
            list(missed(FIFO)),
        ),
        Condition::new("with engine locks none is missed", missed(LOCKS) == [0.0; 5], list(missed(LOCKS))),
        Condition::new("with the gate none is missed", missed(GATE) == [0.0; 5], list(missed(GATE))),
        Condition::new("with SMs none is missed", missed(SMS) == [0.0; 5], list(missed(SMS))),
        Condition::new(
            "with the gate the others have 90 % of what real time leaves, at least",
            least(works(GATE)) >= 0.9,
            format!("{}; locks {}, SMs {}", fewest(GATE), fewest(LOCKS), fewest(SMS)),
        ),
    ]
}
