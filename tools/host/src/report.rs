//! From a trace to what people read: fault reports, the table of tasks, and whether all time is accounted for.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use fusee_abi::trace::{ENGINE_TIME_SHIFT, Event, Ledger, Record};
use fusee_manifest::Resolved;
use fusee_manifest::trace::{Trace, wide};
use fusee_views::explain::{self, Explanation, Turn};
use fusee_views::latency::Latencies;
use fusee_views::metrics::Metrics;

use crate::answers;

use crate::build::KERNEL_OFFSET;
use crate::decode::Symbols;
use crate::judge::Watch;
use crate::table::Table;
pub use crate::words::*;

//--- Colours

/// One report for each fault in the trace of `system`, with lines of the sources of these programs, by the names that the manifest uses.
pub fn faults(trace: &Trace, system: &Resolved, programs: &BTreeMap<String, PathBuf>) -> Vec<String> {
    let mut symbols: BTreeMap<PathBuf, Option<Symbols>> = BTreeMap::new();
    fault_records(trace)
        .into_iter()
        .map(|(fault, registers)| fault_report(fault, &registers, system, programs, &mut symbols))
        .collect()
}

/// Tasks that faulted, in order.
pub fn faulted_tasks(trace: &Trace) -> Vec<usize> {
    let faults = trace.records.iter().filter(|record| record.event == Event::Fault as u8);
    faults.filter_map(|record| usize::from(record.thread).checked_sub(1)).collect()
}

/// Each fault with the registers that follow it.
fn fault_records(trace: &Trace) -> Vec<(Record, BTreeMap<u32, u64>)> {
    let mut found: Vec<(Record, BTreeMap<u32, u64>)> = Vec::new();
    for record in &trace.records {
        if record.event == Event::Fault as u8 {
            found.push((*record, BTreeMap::new()));
        } else if record.event == Event::FaultRegister as u8
            && let Some((_, registers)) = found.iter_mut().rev().find(|(fault, _)| fault.thread == record.thread)
        {
            registers.entry(record.object).or_insert_with(|| wide(record));
        }
    }
    found
}

fn fault_report(
    fault: Record,
    registers: &BTreeMap<u32, u64>,
    system: &Resolved,
    programs: &BTreeMap<String, PathBuf>,
    symbols: &mut BTreeMap<PathBuf, Option<Symbols>>,
) -> String {
    let task = usize::from(fault.thread).checked_sub(1).and_then(|index| system.tasks.get(index));
    let name = task.map_or("?", |task| task.name.as_str());
    let register = |number: u32| registers.get(&number).copied();
    let what = match fault.value {
        1 => "read from",
        2 => "wrote to",
        3 => "jumped to",
        4 => "executed an instruction it may not",
        5 => "made a misaligned access",
        6 => "hit a breakpoint",
        _ => "made an error of an unknown kind",
    };
    let mut text = format!("fault: task `{name}`, job {}, {what}", fault.job);
    let address = register(34);
    if let (1..=3, Some(address)) = (fault.value, address) {
        let _ = write!(text, " {address:#x}, which it may not{}", beside_stack(address, task.map(|task| task.stack)));
    }
    let _ = write!(text, "\n  at {} us on CPU {}, syndrome {:#x}", fault.time / 1_000, fault.cpu, fault.object);
    let program = task.and_then(|task| programs.get(&task.binary));
    let symbols =
        program.and_then(|path| symbols.entry(path.clone()).or_insert_with(|| Symbols::read(path).ok()).as_ref());
    // A program on the host has other registers.
    let has_registers = (0..31).any(|number| register(number).is_some_and(|value| value != 0));
    for (label, number) in [("pc", 32), ("lr", 30)] {
        let Some(address) = register(number).filter(|_| has_registers || number == 32) else { continue };
        // A link register names the instruction after the call.
        let inside = if number == 30 { address.saturating_sub(4) } else { address };
        let frames = symbols.map(|symbols| symbols.locate(inside)).unwrap_or_default();
        let _ = write!(text, "\n  {label} {address:#x}");
        for (depth, frame) in frames.iter().enumerate() {
            let _ = write!(text, "{} {frame}", if depth == 0 { "" } else { "\n      inlined into" });
        }
    }
    if !has_registers {
        return text;
    }
    for row in (0..31).collect::<Vec<u32>>().chunks(4) {
        text.push_str("\n ");
        for number in row {
            if let Some(value) = register(*number) {
                let _ = write!(text, " {:>4} {value:016x}", format!("x{number}"));
            }
        }
    }
    if let (Some(stack), Some(state)) = (register(31), register(33)) {
        let _ = write!(text, "\n    sp {stack:016x}  pstate {state:x}");
    }
    text.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n")
}

fn beside_stack(address: u64, stack: Option<u64>) -> &'static str {
    let bottom = fusee_manifest::layout::STACK_TOP - stack.unwrap_or_default();
    if stack.is_some() && address < bottom && bottom - address <= 64 * 1024 { " (just below its stack)" } else { "" }
}

/// The kernel addresses in the output of a failed system, with their source lines.
pub fn kernel_addresses(console: &str, kernel: &Path) -> Vec<String> {
    let words = console.split(|c: char| !c.is_ascii_alphanumeric());
    let addresses: Vec<u64> = words
        .filter_map(|word| u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok())
        .filter(|address| *address >= KERNEL_OFFSET)
        .collect();
    if addresses.is_empty() {
        return Vec::new();
    }
    let Ok(symbols) = Symbols::read(kernel) else { return Vec::new() };
    let mut lines = Vec::new();
    for address in addresses {
        let frames = symbols.locate(address).join(", in ");
        let line = format!("  {address:#x} {frames}");
        if !frames.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// That nothing can happen any more in a system, with the states of its tasks: those that do alike stand together.
pub fn nothing_left(system: &Resolved, watch: &Watch<'_>) -> String {
    let mut alike: Vec<(String, Vec<&str>)> = Vec::new();
    for (task, state) in system.tasks.iter().zip(watch.states(false)) {
        let state = state.unwrap_or_default();
        match alike.iter_mut().find(|(known, _)| *known == state) {
            Some((_, names)) => names.push(&task.name),
            None => alike.push((state, vec![&task.name])),
        }
    }
    let name = |name: &&str| format!("`{name}`");
    let each = alike.iter().map(|(state, names)| {
        let names = names.iter().map(name).collect::<Vec<_>>().join(", ");
        format!("{names}: {state}")
    });
    format!("nothing can happen any more ({})", each.collect::<Vec<_>>().join("; "))
}

//--- Tables

/// The last word on each task: jobs, deadlines, time, and how it ended.
pub fn task_table(trace: &Trace, system: &Resolved, watch: &Watch<'_>) -> String {
    let ledgers = trace.ledgers();
    let amount = |ledger: Ledger, index: usize| ledgers.get(&(ledger as u16, index as u16)).copied();
    let mut header: Vec<String> =
        ["task", "jobs", "missed", "skipped", "latest ms", "state", "CPU ms", "charged ms", "dry"]
            .map(Into::into)
            .into();
    let columns = system.whole_engines();
    let engines: Vec<String> = columns.iter().map(|(name, _)| format!("{name} ms")).collect();
    let of_tasks = header.len();
    header.extend(engines.clone());
    let mut table = Table::new(header)
        .amounts(&engines.iter().map(String::as_str).collect::<Vec<_>>())
        .amounts(&["skipped", "dry"])
        .left(&["state"])
        .bad(&["missed", "skipped"])
        .parts(&["CPU ms"]);
    let states = watch.states(trace.exit_code().is_some());
    for (index, (task, state)) in system.tasks.iter().zip(states).enumerate() {
        let jobs = amount(Ledger::Jobs, index).filter(|_| system.has_jobs(task));
        let count = |ledger| match (jobs, amount(ledger, index)) {
            (Some(_), Some(count)) => count.to_string(),
            _ => NOTHING.to_owned(),
        };
        let lateness = amount(Ledger::MaxLateness, index).filter(|_| jobs.is_some_and(|jobs| jobs > 0));
        let reserved = |ledger| task.reservation.and_then(|reservation| amount(ledger, reservation));
        let time = |time: Option<u64>| time.map_or_else(|| NOTHING.to_owned(), |time| milliseconds(time.cast_signed()));
        let mut row = vec![
            task.name.clone(),
            count(Ledger::Jobs),
            count(Ledger::Misses),
            count(Ledger::Skipped),
            lateness.map_or_else(|| NOTHING.into(), |lateness| milliseconds(lateness.cast_signed())),
            state.unwrap_or_else(|| NOTHING.into()),
            time(amount(Ledger::ThreadTime, index)),
            time(reserved(Ledger::Charged)),
            reserved(Ledger::Throttles).map_or_else(|| NOTHING.into(), |count| count.to_string()),
        ];
        let used = |engine: &usize| amount(Ledger::EngineTime, engine << ENGINE_TIME_SHIFT | index);
        row.extend(columns.iter().map(|(_, parts)| time(parts.iter().filter_map(used).reduce(|sum, part| sum + part))));
        table.add_row(row);
    }
    let shared = |engine: usize| amount(Ledger::SharedTime, engine);
    if (0..system.engines.len()).any(|engine| shared(engine).is_some()) {
        let mut row = vec![WITHOUT_LOCK.to_owned()];
        row.resize(of_tasks, NOTHING.to_owned());
        let time = |time: u64| milliseconds(time.cast_signed());
        row.extend(columns.iter().map(|(_, parts)| shared(parts[0]).map_or_else(|| NOTHING.into(), time)));
        table.add_row(row);
    }
    table.to_string()
}

/// Who has engines while nobody holds their locks: all such clients together, from the opening of a gate until the engine is idle behind the shut one.
const WITHOUT_LOCK: &str = "(no lock)";

/// The text of an empty cell.
const NOTHING: &str = "-";

/// Each task with jobs, in milliseconds; its response times from zero to the deadline, or to the longest. Of
/// lateness there is the greatest only: the rest is that of the response times less the deadline.
pub fn response_table(metrics: &Metrics) -> String {
    const TARDINESS: [&str; 3] = ["mean tardiness", "99 % tardiness", "max tardiness"];
    const BARS: &str = "responses until deadline";
    let mut header = vec!["response ms", "jobs", "missed", "skipped", "dry", "min", "mean", "99 %", "max", "latest"];
    header.extend(TARDINESS);
    header.push(BARS);
    let mut table = Table::new(header)
        .amounts(&["skipped", "dry"])
        .amounts(&TARDINESS)
        .left(&[BARS])
        .bad(&["missed", "skipped"])
        .parts(&[TARDINESS[0], BARS]);
    for task in metrics.tasks.iter().filter(|task| task.deadline.is_some()) {
        let (response, tardiness) = (task.response(), task.tardiness());
        let mut row = vec![task.name.clone()];
        row.extend([task.jobs(), task.misses(), task.skipped, task.throttles].map(|count| count.to_string()));
        let times = [
            response.map(|one| one.least),
            response.map(|one| one.mean),
            response.map(|one| one.percentile_99),
            response.map(|one| one.greatest),
            task.max_lateness(),
            tardiness.map(|one| one.mean),
            tardiness.map(|one| one.percentile_99),
            tardiness.map(|one| one.greatest),
        ];
        row.extend(times.into_iter().map(|time| time.map_or_else(|| NOTHING.to_owned(), milliseconds)));
        row.push(task.bars());
        table.add_row(row);
    }
    table.to_string()
}

/// How late graphs were, in milliseconds, and by what is proved how late they may be; `None`: there are none.
pub fn graph_table(system: &Resolved, latencies: &Latencies) -> Option<String> {
    let mut table = Table::new(vec!["graph ms", "ended", "min", "mean", "99 %", "max", "bound", "of bound", "latency"]);
    for (graph, answer) in system.graphs.iter().zip(answers::graphs(system, latencies)) {
        let seen = answer.latency.as_ref();
        let mut row = vec![graph.name.clone(), answer.ended.to_string()];
        let times =
            [seen.map(|one| one.min), seen.map(|one| one.mean), seen.map(|one| one.p99), seen.map(|one| one.max)];
        let limits = [answer.bound, answer.limit].map(|limit| limit.map(u64::cast_signed));
        let cell = |time: Option<i64>| time.map_or_else(|| NOTHING.to_owned(), milliseconds);
        row.extend(times.into_iter().map(cell));
        row.push(cell(limits[0]));
        let part =
            seen.zip(answer.bound).map(|(seen, bound)| format!("{:.1} %", 100.0 * seen.max as f64 / bound as f64));
        row.push(part.unwrap_or_else(|| NOTHING.to_owned()));
        row.push(cell(limits[1]));
        table.add_row(row);
    }
    (!system.graphs.is_empty()).then(|| table.to_string())
}

/// CPUs whose time is not all accounted for; a CPU that left no ledger is one, too.
pub fn unbalanced(trace: &Trace) -> Vec<String> {
    let ledgers = trace.ledgers();
    let amount = |ledger: Ledger, cpu: u16| ledgers.get(&(ledger as u16, cpu)).copied();
    let cpus: Vec<u16> =
        ledgers.keys().filter(|(kind, _)| *kind == Ledger::Uptime as u16).map(|(_, cpu)| *cpu).collect();
    if cpus.is_empty() {
        return vec!["the system left no ledgers".into()];
    }
    let mut errors = Vec::new();
    for cpu in cpus {
        let parts = [Ledger::CpuCharged, Ledger::Kernel, Ledger::IdleTime];
        let parts: Vec<u64> = parts.into_iter().map(|part| amount(part, cpu).unwrap_or(0)).collect();
        let uptime = amount(Ledger::Uptime, cpu).unwrap_or(0);
        let sum: u64 = parts.iter().sum();
        if sum != uptime {
            errors.push(format!(
                "time of CPU {cpu} is not accounted for: charged {} + kernel {} + idle {} = {sum} ns of {uptime} ns",
                parts[0], parts[1], parts[2]
            ));
        }
    }
    errors
}

/// Records that are missing between the release of a job and its completion.
pub fn missing(trace: &Trace, job: &Explanation) -> u64 {
    trace.missing_between(job.release, job.completed.unwrap_or(job.end))
}

/// Says of each `hard` task that missed deadlines why the latest of its jobs did, in a sentence.
pub fn say_why_missed(trace: &Trace, system: &Resolved, turns: &[Turn]) {
    let all = explain::explain(trace, system, turns);
    let hard = system.tasks.iter().enumerate().filter(|(_, task)| task.hard);
    let late = |one: &&Explanation| one.completed.unwrap_or(one.end).saturating_sub(one.deadline);
    let latest = hard.filter_map(|(index, _)| {
        let known = |one: &&Explanation| one.completed.is_some() && missing(trace, one) == 0;
        all.iter().filter(|one| one.task == index && one.is_late()).filter(known).max_by_key(late)
    });
    latest.for_each(|one| eprintln!("       {}", one.sentence(system)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(kind: Ledger, index: u32, amount: u64) -> Record {
        Record {
            event: Event::Ledger as u8,
            object: (kind as u32) << 16 | index,
            job: (amount >> 32) as u32,
            value: amount as u32,
            ..Record::default()
        }
    }

    #[test]
    fn time_that_nobody_was_charged_for_is_an_error() {
        let mut records = vec![
            ledger(Ledger::Uptime, 0, 10_000_000_000),
            ledger(Ledger::CpuCharged, 0, 9_000_000_000),
            ledger(Ledger::Kernel, 0, 300),
            ledger(Ledger::IdleTime, 0, 999_999_700),
        ];
        assert_eq!(unbalanced(&Trace::from_records(records.clone())), Vec::<String>::new());
        records[2] = ledger(Ledger::Kernel, 0, 299);
        let errors = unbalanced(&Trace::from_records(records));
        assert_eq!(errors.len(), 1);
        assert!(errors[0].contains("9999999999 ns of 10000000000 ns"), "{errors:?}");
        assert_eq!(unbalanced(&Trace::default()).len(), 1);
    }

    #[test]
    fn spans_are_written_in_a_unit_that_suits_them() {
        assert_eq!(span(-999), "-999 ns");
        assert_eq!(span(-1_500), "-1.500 us");
        assert_eq!(span(33_333_333), "33.333 ms");
        assert_eq!(span(12_345_678_901), "12.345 s");
    }

    #[test]
    fn times_are_milliseconds_with_three_digits() {
        assert_eq!([0, 1_234_567, -20_000_999, -999].map(milliseconds), ["0.000", "1.234", "-20.000", "-0.000"]);
    }
}
