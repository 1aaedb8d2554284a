//! Where the time of jobs went: parts against sums over records that are made in another way, and causes that were planted.

use fusee_abi::trace::Record;
use fusee_exports::audit::audit;
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_simulator::simulate;
use fusee_views::explain::{Explanation, Part, Step, Wait, explain};

use crate::common::{self, MS};

/// Whether the parts of each job of a simulation are right. A kick takes `kick_delay` nanoseconds.
pub fn parts_add_up(manifest: &Manifest, records: &[Record], kick_delay: u64) -> Result<(), String> {
    audit(&Trace::from_records(records.to_vec()), &manifest.system, &[], kick_delay)
}

//--- Planted causes

fn explained(text: &str, task: &str, job: u32) -> (Manifest, Explanation) {
    let manifest = common::parse(text);
    let report = simulate(&manifest, None, common::LIMIT).unwrap_or_else(|error| panic!("{error}"));
    parts_add_up(&manifest, &report.records, 0).unwrap_or_else(|error| panic!("{error}"));
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
    let longer = demo.replace("submit ee 3ms gpu_done", "submit ee 15ms gpu_done");
    let warned = longer.replace("[system]\n", "[system]\nadmission = \"warn\"\n");
    let manifest = common::parse(&warned);
    let report = simulate(&manifest, None, 300 * MS).unwrap_or_else(|error| panic!("{error}"));
    parts_add_up(&manifest, &report.records, 0).unwrap_or_else(|error| panic!("{error}"));
    let stabiliser = common::index(&manifest, "stabiliser");
    let all = explain(&Trace::from_records(report.records), &manifest.system, &[]);
    let late: Vec<_> = all.iter().filter(|one| one.task == stabiliser && one.is_late()).collect();
    assert!(!late.is_empty());
    for job in late {
        let cause = job.cause(&manifest.system);
        assert!(cause.contains("waited for engine `ee`") && cause.contains("`hog"), "{cause}");
        // Which the engine executes while the hog waits for the driver, and that for the device.
        assert!(
            cause.contains("waited for notification `done.hog") && cause.ends_with("its operation ran on `ee`"),
            "{cause}"
        );
    }
}

#[test]
fn a_job_whose_operation_is_at_work_is_told_on_which_engine_and_small_parts_are_one_line() {
    let manifest = common::parse(include_str!("../../../../userland/demo/demo.toml"));
    let report = simulate(&manifest, None, 300 * MS).unwrap_or_else(|error| panic!("{error}"));
    let task = common::index(&manifest, "stabiliser");
    let all = explain(&Trace::from_records(report.records), &manifest.system, &[]);
    let job = all.into_iter().filter(|one| one.task == task).max_by_key(Explanation::response).expect("a job");
    let engine = manifest.system.engines.iter().position(|(name, _)| name == "ee").expect("an engine");
    let of_it = job.parts.iter().filter(|part| part.path[1..] == [Step::Operates(vec![engine])]);
    // 12 ms, of which the driver handles the end.
    assert!((11_900_000..=12_000_000).contains(&of_it.map(|part| part.time).sum::<u64>()));

    let mut job = job;
    let small = |wait| Part { path: vec![Step::Waited(wait)], time: job.response() / 300 };
    let more = [small(Wait::Sleep), small(Wait::Request)];
    let whole = job.text(&manifest.system);
    job.parts.extend(more);
    let text = job.text(&manifest.system);
    let last = text.lines().last().expect("a line");
    assert!(last.ends_with("2 shorter parts"), "{text}");
    assert_eq!(text.lines().count(), whole.lines().count() + 1);
}

#[test]
fn a_job_that_waits_for_a_token_is_told_who_had_it_and_what_that_did() {
    // `low` has the token and waits for `server` to compute for it.
    let text = common::system(1, "admission = \"warn\"")
        + "[tasks.low]\nscript = [\"acquire p\", \"burn 2ms\", \"call s 3ms\", \"release p\"]\nperiod = \"100ms\"\nbudget = \"10ms\"\n\
           handles = { p = \"pool p: acquire\", s = \"endpoint s: call\" }\n\
           [tasks.high]\nscript = [\"acquire p\", \"burn 1ms\", \"release p\"]\nperiod = \"50ms\"\nphase = \"1ms\"\ndeadline = \"20ms\"\n\
           budget = \"9ms\"\nhandles = { p = \"pool p: acquire\" }\n[pools.p]\nreplicas = 1\nlimit = \"r2dglp\"\n\
           [tasks.server]\nscript = [\"serve s\"]\nhandles = { s = \"endpoint s: receive\" }\n[endpoints.s]\nserver = \"server\"\n"
        + &common::end("200ms", common::URGENT);
    let (manifest, job) = explained(&text, "high", 1);
    assert_eq!(
        job.cause(&manifest.system),
        "for 4.000 ms of 5.000 ms it waited for a token of `p`; for 3.000 ms of that `low` waited for endpoint `s`, \
         `server` ran on the budget of `high`"
    );
}

#[test]
fn a_job_that_waits_for_one_of_two_tokens_is_told_who_had_both_and_what_the_one_did_whose_it_got() {
    let holder = |name: &str, burn: &str| {
        format!(
            "[tasks.{name}]\nscript = [\"acquire p\", \"burn {burn}\", \"release p\"]\nperiod = \"100ms\"\nbudget = \"10ms\"\n\
             handles = {{ p = \"pool p: acquire\" }}\n"
        )
    };
    let text = common::system(2, "admission = \"warn\"")
        + &holder("short", "4ms")
        + &holder("long", "6ms")
        + "[tasks.high]\nscript = [\"acquire p\", \"burn 1ms\", \"release p\"]\nperiod = \"50ms\"\nphase = \"1ms\"\ndeadline = \"5ms\"\n\
           budget = \"5ms\"\nhandles = { p = \"pool p: acquire\" }\n[pools.p]\nreplicas = 2\nlimit = \"r2dglp\"\n"
        + &common::end("200ms", common::URGENT);
    let (manifest, job) = explained(&text, "high", 1);
    assert_eq!(
        job.cause(&manifest.system),
        "for 3.000 ms of 4.000 ms it waited for a token of `p`, `short` and `long` had them, `short` ran on its own budget"
    );
}

/// The conformance system in which jobs donate; its tasks are described there.
const DONATION: &str =
    include_str!("../../../../tests/conformance/a_job_that_is_released_donates_to_the_holder_it_would_preempt.toml");

#[test]
fn a_job_that_donates_is_told_to_whom_and_for_which_pool() {
    let (manifest, job) = explained(DONATION, "high", 1);
    assert_eq!(
        job.cause(&manifest.system),
        "for 5.000 ms of 7.000 ms it gave its budget to `low`, which held a token of `token`, `low` ran on the budget of `high`"
    );
    // The other cluster is told the rest of the chain.
    let (manifest, job) = explained(DONATION, "remote", 1);
    assert_eq!(
        job.cause(&manifest.system),
        "for 6.000 ms of 9.000 ms it waited for a token of `token`; for 5.000 ms of that `low` ran on the budget of `high`"
    );
    let (manifest, job) = explained(DONATION, "late", 1);
    let cause = job.cause(&manifest.system);
    assert!(cause.ends_with("it waited for its turn to ask for a token of `token`"), "{cause}");
}

#[test]
fn a_job_that_donates_to_one_that_waits_for_another_cluster_is_told_so_from_its_release() {
    // `remote` has the token from 5 ms to 15 ms; `low` asks at 7 ms, and `high`, released at 8 ms, would preempt it.
    let changed = [
        ("burn 5ms", "burn 7ms"),
        ("phase = \"7ms\"", "phase = \"5ms\""),
        (
            "deadline = \"12ms\"\nphase = \"8ms\"\nbudget = \"10ms\"",
            "deadline = \"12ms\"\nphase = \"8ms\"\nbudget = \"11ms\"",
        ),
        (
            "script = [\"acquire token\", \"burn 2ms\", \"release token\", \"burn 1ms\"]\ncluster = \"right\"",
            "script = [\"acquire token\", \"burn 9999us\", \"release token\"]\ncluster = \"right\"",
        ),
    ];
    let text = changed.iter().fold(DONATION.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old}");
        text.replace(old, new)
    });
    let (manifest, job) = explained(&text, "high", 1);
    let text = job.text(&manifest.system);
    let parts: Vec<&str> = text.lines().skip(2).map(str::trim_start).collect();
    assert_eq!(
        parts,
        [
            "8.000 ms  47 %  gave its budget to `low`, which held a token of `token`, `low` ran on the budget of `high`",
            "6.999 ms  41 %  gave its budget to `low`, which had asked for a token of `token`, `low` waited for a token of `token`, \
             `remote` ran on its own budget",
            "2.000 ms  11 %  ran on its own budget",
        ]
    );
}
