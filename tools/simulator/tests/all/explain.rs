//! Where the time of jobs went: parts against sums over records that are made in another way, and causes that were planted.

use fusee_abi::trace::Record;
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_simulator::simulate;
use fusee_views::audit::audit;
use fusee_views::explain::{Explanation, Step, Wait, explain};

use crate::common::{self, MS};

/// Whether the parts of each job of a simulation are right.
pub fn parts_add_up(manifest: &Manifest, records: &[Record]) -> Result<(), String> {
    audit(&Trace::from_records(records.to_vec()), &manifest.system, &[])
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
    assert!(
        cause.contains("it waited for endpoint `s`; for 96.000 ms of that `server` had exhausted its budget"),
        "{cause}"
    );
}

#[test]
fn a_job_that_waits_for_a_long_operation_is_told_whose_it_is() {
    let demo = include_str!("../../../../userland/demo/demo.toml");
    // Hogs that operate for longer than they say.
    assert!(demo.contains("submit ee 3ms gpu_done"));
    let manifest = common::parse(&demo.replace("submit ee 3ms gpu_done", "submit ee 15ms gpu_done"));
    let report = simulate(&manifest, None, 300 * MS).unwrap_or_else(|error| panic!("{error}"));
    parts_add_up(&manifest, &report.records).unwrap_or_else(|error| panic!("{error}"));
    let stabiliser = common::index(&manifest, "stabiliser");
    let all = explain(&Trace::from_records(report.records), &manifest.system, &[]);
    let late: Vec<_> = all.iter().filter(|one| one.task == stabiliser && one.is_late()).collect();
    assert!(!late.is_empty());
    for job in late {
        let cause = job.cause(&manifest.system);
        assert!(cause.contains("waited for engine `ee`") && cause.contains("`hog"), "{cause}");
    }
}
