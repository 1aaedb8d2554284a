#![allow(missing_docs)]
//! Runs whose traces have lost their first records: with what the kernel counts, the verdict is that of the whole trace.

use std::fmt::Write;
use std::path::Path;

use fusee_abi::trace::{Event, PANIC_CODE, Record};
use fusee_host::counts::{Count, Counts, Ended};
use fusee_host::judge::{Verdict, Watch};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Resolved};
use fusee_simulator::system::{self, Options};
use proptest::prelude::*;

/// A scripted task: times in tenths of a millisecond.
#[derive(Clone, Debug)]
struct Drawn {
    period: u64,
    deadline: u64,
    computes: u64,
    budget: u64,
    backlog: u32,
    hard: bool,
    serves: bool,
    /// When it faults,
    faults: Option<u64>,
    /// and whom it ends in its job.
    stops: Option<usize>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let times = (10..200u64, 1..30u64, 1..60u64, 1..60u64);
    let rare = |times: u32| prop::bool::weighted(1.0 / f64::from(times));
    (
        times,
        1..4u32,
        any::<bool>(),
        rare(4),
        prop::option::weighted(0.1, 0..400u64),
        prop::option::weighted(0.1, 0..6usize),
    )
        .prop_map(|((period, tenths, computes, budget), backlog, hard, serves, faults, stops)| Drawn {
            period,
            deadline: (period * tenths / 10).max(1),
            computes,
            budget: budget.min(period).min((period * tenths / 10).max(1)),
            backlog,
            hard,
            serves,
            faults,
            stops,
        })
}

fn text(tasks: &[Drawn]) -> String {
    let mut text =
        "[system]\nname = \"long\"\nboard = \"virt\"\ncpus = 1\nstart = \"1ms\"\nadmission = \"warn\"\n".to_owned();
    let mut rest = String::new();
    for (number, task) in tasks.iter().enumerate() {
        let stopped = task.stops.filter(|other| *other < tasks.len() && *other != number);
        let mut handles = Vec::new();
        let mut script = format!("\"burn {}us\"", 100 * task.computes);
        if let Some(other) = stopped {
            handles.push(format!("victim = \"task t{other}: stop\""));
            script += ", \"stop victim\"";
        }
        if task.serves {
            handles.push(format!("e = \"endpoint e{number}: receive\""));
            let _ = write!(rest, "[endpoints.e{number}]\nserver = \"t{number}\"\n");
        }
        let _ = write!(
            text,
            "[tasks.t{number}]\nscript = [{script}]\nperiod = \"{}us\"\ndeadline = \"{}us\"\nbudget = \"{}us\"\nbacklog = {}\nhard = {}\n\
             handles = {{ {} }}\n",
            100 * task.period,
            100 * task.deadline,
            100 * task.budget,
            task.backlog,
            task.hard,
            handles.join(", ")
        );
    }
    text + &rest
}

/// What a kernel counts in constant memory, of all that was recorded.
fn counts(records: &[Record], system: &Resolved) -> Counts {
    let mut counts = Counts::default();
    counts.tasks = vec![Count::default(); system.tasks.len()];
    counts.now = records.last().map_or(0, |record| record.time);
    for record in records {
        let Some(count) = usize::from(record.thread).checked_sub(1).and_then(|task| counts.tasks.get_mut(task)) else {
            continue;
        };
        match Event::from_number(record.event) {
            // A job that waits for the one before has its own deadline.
            Some(Event::Release) if count.open.is_none() => {
                count.open = Some((record.job, record.time + record.relative_deadline()));
            }
            Some(Event::Complete) => {
                count.jobs += 1;
                count.misses += u64::from(record.lateness() > 0);
                count.open = None;
            }
            Some(Event::Skip) => count.skipped += 1,
            Some(Event::Exit) if u64::from(record.value) == PANIC_CODE => count.end = Some(Ended::Panicked),
            Some(Event::Exit) => count.end = Some(Ended::Exited(record.value)),
            Some(Event::Fault) => count.end = Some(Ended::Faulted),
            Some(Event::Stop) => count.end = Some(Ended::Stopped(None)),
            _ => {}
        }
    }
    counts
}

/// What of a verdict may not depend on what was lost: how many jobs missed, and which tasks ended how. When, and by whom, may be lost.
fn essence(verdict: &Verdict) -> [Vec<String>; 3] {
    let first = |text: &String| text.split(" (").next().unwrap_or(text).to_owned();
    let by = |text: String| text.split(" by task").next().map(str::to_owned).unwrap_or(text);
    let ends = |list: &[String]| {
        let mut list: Vec<String> = list.iter().map(first).map(by).collect();
        list.sort_unstable();
        list
    };
    [ends(&verdict.ends), ends(&verdict.harmless), verdict.misses.clone()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn a_verdict_does_not_depend_on_what_the_trace_has_lost(
        tasks in prop::collection::vec(drawn(), 1..6),
        kept in 0..300usize,
        length in 10..100u64,
    ) {
        let text = text(&tasks);
        let manifest = match Manifest::parse(Path::new("long.toml"), &text) {
            Ok(manifest) => manifest,
            Err(errors) => return Err(TestCaseError::fail(format!("{errors}\n{text}"))),
        };
        let system = &manifest.system;
        let faults = tasks.iter().enumerate().filter_map(|(task, one)| Some((one.faults? * 100_000, task)));
        let options = Options { faults: faults.collect(), ..Options::default() };
        let mut records = Vec::new();
        let report = system::simulate_observed(&manifest, &options, length * 1_000_000, &mut |record| records.push(*record));
        prop_assert!(report.is_ok(), "{:?}\n{text}", report.err());
        let whole = Trace::from_records(records.clone());
        let all = Watch::of(&whole, system).verdict(None);
        // Some are lost in each run.
        let kept = kept.min(records.len().saturating_sub(1));
        let rest = records[records.len() - kept..].to_vec();
        let mut watch = Watch::of(&Trace::from_records(rest), system);
        watch.count(&counts(&records, system));
        let seen = watch.verdict(None);
        prop_assert_eq!(essence(&seen), essence(&all), "{}", text);
        prop_assert_eq!(seen.problems().is_empty(), all.problems().is_empty(), "{}", text);
    }
}
