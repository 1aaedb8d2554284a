//! Where the time of jobs went: parts against sums over records that are made in another way, and causes that were planted.

use fusee_abi::trace::{Event, Record};
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_simulator::simulate;
use fusee_views::explain::{Explanation, Step, Wait, explain};

use crate::common::{self, MS};

/// The parts of each job add up to its response, what it ran to what switches say, and what of that was the kernel's to what traps say.
pub fn parts_add_up(manifest: &Manifest, records: &[Record]) -> Result<(), String> {
    let trace = Trace::from_records(records.to_vec());
    let all = explain(&trace, &manifest.system, &[]);
    for one in &all {
        let sum: u64 = one.parts.iter().map(|part| part.time).sum();
        if sum != one.response() {
            return Err(format!("parts of {sum} ns, response {} ns: {}", one.response(), one.text(&manifest.system)));
        }
        let of_kernel = |path: &[Step]| matches!(path, [Step::Ran(_), Step::Kernel(_) | Step::Lock]);
        let sum = |is_meant: &dyn Fn(&[Step]) -> bool| -> u64 {
            one.parts.iter().filter(|part| is_meant(&part.path)).map(|part| part.time).sum()
        };
        let ran = (sum(&|path| matches!(path, [Step::Ran(_), ..])), sum(&of_kernel));
        let until = one.completed.unwrap_or(one.end);
        let started = records.iter().find(|record| is(record, Event::Release, one.task) && record.job == one.job);
        let from = started.map_or(one.release, |record| record.time);
        let by_switches = run_within(records, one.task, from, until);
        if ran != by_switches {
            return Err(format!("ran, and of that in the kernel: {ran:?} ns, by switches and traps {by_switches:?}"));
        }
        let mut paths: Vec<_> = one.parts.iter().map(|part| &part.path).collect();
        paths.dedup();
        if paths.len() != one.parts.len() {
            return Err(format!("a part is there twice: {}", one.text(&manifest.system)));
        }
    }
    let complete = records.iter().filter(|record| record.event == Event::Complete as u8).count();
    let explained = all.iter().filter(|one| one.completed.is_some()).count();
    if complete == explained { Ok(()) } else { Err(format!("{complete} jobs are complete, {explained} explained")) }
}

fn is(record: &Record, event: Event, task: usize) -> bool {
    record.event == event as u8 && usize::from(record.thread) == task + 1
}

/// How long `task` was on CPUs between these instants: from each switch to it to the next record that says what that CPU runs. And for
/// how long of that these CPUs were in the kernel.
fn run_within(records: &[Record], task: usize, from: u64, until: u64) -> (u64, u64) {
    let (mut sum, mut of_kernel) = (0, 0);
    for (index, switch) in records.iter().enumerate() {
        if !is(switch, Event::SwitchTo, task) {
            continue;
        }
        let ends = |record: &&Record| {
            record.cpu == switch.cpu
                && (is(record, Event::SwitchAway, task)
                    || record.event == Event::Idle as u8
                    || record.event == Event::SwitchTo as u8)
        };
        // Who waits does not run, though the switch comes a moment later in the same trap.
        let end = records[index + 1..].iter().find(ends).map_or(records[records.len() - 1].time, |record| record.time);
        let (begin, end) = (switch.time.max(from), end.min(until));
        sum += end.saturating_sub(begin);
        let traps = records.iter().filter(|record| record.event == Event::Trap as u8 && record.cpu == switch.cpu);
        of_kernel += traps
            .map(|trap| end.min(trap.time).saturating_sub(begin.max(trap.time - u64::from(trap.value))))
            .sum::<u64>();
    }
    (sum, of_kernel)
}

//--- Planted causes

fn explained(text: &str, task: &str, job: u32) -> (Manifest, Explanation) {
    let manifest = common::parse(text);
    let report = simulate(&manifest, None, common::LIMIT).unwrap_or_else(|error| panic!("{error}"));
    parts_add_up(&manifest, &report.records).unwrap_or_else(|error| panic!("{error}"));
    let index = common::index(&manifest, task);
    let all = explain(&Trace::from_records(report.records), &manifest.system, &[]);
    let found = all.into_iter().find(|one| one.task == index && one.job == job);
    (manifest, found.expect("a job of the run"))
}

#[test]
fn a_job_whose_budget_is_too_small_is_told_so() {
    let text = common::system(1, "admission = \"warn\"")
        + "[tasks.camera]\nscript = [\"burn 5ms\"]\nperiod = \"10ms\"\nbudget = \"2ms\"\n"
        + &common::end("200ms", common::URGENT);
    let (manifest, job) = explained(&text, "camera", 1);
    assert!(job.is_late());
    assert_eq!(job.cause(&manifest.system), "for 16.000 ms of 21.000 ms it had exhausted its budget");
}

#[test]
fn a_job_that_waits_for_a_holder_of_low_priority_is_told_whom_and_what_that_did() {
    let text = common::system(1, "admission = \"warn\"")
        + "[tasks.low]\nscript = [\"acquire m\", \"burn 6ms\", \"release m\"]\nperiod = \"100ms\"\nbudget = \"10ms\"\n\
           handles = { m = \"engine m: acquire\" }\n\
           [tasks.high]\nscript = [\"acquire m\", \"burn 1ms\", \"release m\"]\nperiod = \"50ms\"\nphase = \"2ms\"\ndeadline = \"6ms\"\n\
           budget = \"6ms\"\nhandles = { m = \"engine m: acquire\" }\n[engines.m]\n"
        + &common::end("200ms", common::URGENT);
    let (manifest, job) = explained(&text, "high", 1);
    let cause = job.cause(&manifest.system);
    assert!(cause.contains("it waited for engine `m`, `low` ran on"), "{cause}");
    assert!(job.parts.iter().any(|part| part.path[0] == Step::Waited(Wait::Engine(0)) && part.time >= 2 * MS));
}

#[test]
fn a_job_that_others_keep_from_the_cpu_is_told_who_they_are() {
    let text = common::system(1, "admission = \"warn\"")
        + "[tasks.short]\nscript = [\"burn 6ms\"]\nperiod = \"20ms\"\ndeadline = \"8ms\"\nbudget = \"7ms\"\n\
           [tasks.long]\nscript = [\"burn 5ms\"]\nperiod = \"20ms\"\ndeadline = \"10ms\"\nbudget = \"6ms\"\n"
        + &common::end("200ms", common::URGENT);
    let (manifest, job) = explained(&text, "long", 1);
    assert!(job.is_late());
    let cause = job.cause(&manifest.system);
    assert_eq!(cause, "for 6.000 ms of 11.000 ms it was ready while `short` had the CPU");
}

#[test]
fn a_job_that_waits_for_a_server_is_told_what_the_server_did() {
    let text = common::system(1, "admission = \"warn\"")
        + "[tasks.client]\nscript = [\"call s 4ms\"]\nperiod = \"50ms\"\nbudget = \"2ms\"\nhandles = { s = \"endpoint s: call\" }\n\
           [tasks.server]\nscript = [\"serve s\"]\nhandles = { s = \"endpoint s: receive\" }\n[endpoints.s]\nserver = \"server\"\n"
        + &common::end("200ms", common::URGENT);
    let (manifest, job) = explained(&text, "client", 1);
    let cause = job.cause(&manifest.system);
    assert!(cause.contains("it waited for endpoint `s`, `server` had exhausted its budget"), "{cause}");
}
