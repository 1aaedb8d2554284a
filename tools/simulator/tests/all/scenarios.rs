//! Whole-kernel scenarios: a manifest, a run, and its expected events.

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Ledger, Record};
use fusee_manifest::trace::Trace;
use fusee_simulator::{Overheads, simulate};
use fusee_views::explain::{Explanation, explain};
use fusee_views::metrics::Metrics;

use super::common::{
    self, Asked, LIMIT, MS, NEXT_JOB, Run, URGENT, US, burn, call, end, parse, run_for, system, through,
};

/// Runs the system of `text` until its end.
fn run(text: &str) -> Run {
    common::run(text, Overheads::NONE, &[])
}

const TWO_TASKS: &str = r#"policy = "EDF"

[tasks.short]
script = ["burn 2ms"]
cluster = "all"
period = "10ms"
budget = "3ms"

[tasks.long]
script = ["burn 6ms"]
cluster = "all"
period = "20ms"
budget = "7ms"
"#;

fn two_tasks() -> String {
    system(1, "") + TWO_TASKS + &end("100ms", URGENT)
}

#[test]
fn edf_on_one_cpu_runs_the_earliest_deadline_and_misses_nothing() {
    let run = run(&two_tasks());
    assert_eq!(run.ledger(Ledger::Jobs, 0), 10);
    assert_eq!(run.ledger(Ledger::Jobs, 1), 5);
    assert_eq!(run.ledger(Ledger::Misses, 0) + run.ledger(Ledger::Misses, 1), 0);
    // At 10 ms both are released; `short` has the earlier deadline.
    let first: Vec<(u64, u16)> =
        run.all(Event::Complete).take(2).map(|record| (record.time / MS, record.thread)).collect();
    assert_eq!(first, [(12, 1), (18, 2)]);
    // Sum of charges = sum of time.
    let booked = run.ledger(Ledger::CpuCharged, 0) + run.ledger(Ledger::Kernel, 0) + run.ledger(Ledger::IdleTime, 0);
    assert_eq!(booked, run.ledger(Ledger::Uptime, 0));
}

#[test]
fn a_task_that_never_yields_is_throttled_at_its_budget() {
    let text = two_tasks().replace("script = [\"burn 6ms\"]", "script = [\"burn 1000ms\"]");
    let run = run(&text);
    assert_eq!(run.ledger(Ledger::Misses, 0), 0, "the neighbour misses nothing");
    assert!(run.ledger(Ledger::Throttles, 1) >= 4);
    assert_eq!(run.ledger(Ledger::Overshoot, 1), 0);
    assert_eq!(run.ledger(Ledger::Charged, 1), 7 * 5 * MS);
}

const CLIENTS: &str = r#"policy = "EDF"

[endpoints.service]
server = "server"

[tasks.server]
script = ["serve service"]
cluster = "all"
handles = { service = "endpoint service: receive" }

[tasks.low]
script = ["call service 4ms", "burn 1ms"]
cluster = "all"
period = "40ms"
budget = "6ms"
handles = { service = "endpoint service: call" }

[tasks.middle]
script = ["burn 10ms"]
cluster = "all"
period = "40ms"
deadline = "30ms"
phase = "1ms"
budget = "11ms"

[tasks.high]
script = ["burn 1ms", "call service 2ms"]
cluster = "all"
period = "40ms"
deadline = "10ms"
phase = "1ms"
budget = "9ms"
handles = { service = "endpoint service: call" }
"#;

fn clients() -> String {
    system(1, "") + CLIENTS + &end("200ms", URGENT)
}

/// `low` calls at 10 ms; `high` (deadline 21) comes at 11, burns 1, and calls the busy server. From 12 on the
/// server works on `high`'s key and budget, so that `middle` (deadline 41) cannot come between.
#[test]
fn a_low_clients_request_is_finished_at_the_high_waiters_key_and_budget() {
    let run = run(&clients());
    // 10..11 server for low, 11..12 high, 12..15 server for low on high's budget, 15..17 server for high.
    assert_eq!(run.times(Event::Complete, "high")[0], 17_000);
    assert_eq!(run.ledger(Ledger::Misses, 3), 0);
    // Of each 4 ms that `low` asked for, 3 were charged to `high`: 1 + 3 + 2 a job.
    assert_eq!(run.ledger(Ledger::Charged, 2), 6 * 5 * MS);
}

#[test]
fn a_client_calling_a_dead_server_gets_an_error_and_lives_on() {
    let text = clients().replace("script = [\"serve service\"]", "script = [\"burn 1ms\"]");
    let run = run(&text);
    assert_eq!(run.ledger(Ledger::Jobs, 1), 5);
}

#[test]
fn a_client_whose_budget_ends_inside_a_call_waits_for_its_next_one() {
    let text = clients().replace("budget = \"9ms\"", "budget = \"2ms\"");
    let run = run(&text);
    // The server had no other donor with budget when `high` ran dry, but `low` still had some.
    assert!(run.ledger(Ledger::Throttles, 2) > 0 || run.ledger(Ledger::Throttles, 3) > 0);
    assert!(run.ledger(Ledger::Charged, 2) <= 2 * 6 * MS);
}

/// Pages are mapped and unmapped 16 a trap, until all are; the end of the system says with which code.
#[test]
fn a_region_of_any_number_of_pages_is_mapped_whole_and_a_code_ends_the_system() {
    for (pages, traps) in [(1, 1), (15, 1), (16, 1), (17, 2), (33, 3)] {
        let text = system(1, "admission = \"warn\"")
            + "[tasks.mapper]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nclass = \"background\"\n\
               handles = { region = \"region region: read map\", system = \"system: shutdown\" }\n"
            + &format!("[regions.region]\nbytes = \"{}KiB\"\n", 4 * pages);
        let plain = |number| call(number, "region").with(0);
        let asked = [plain(Call::Unmap), plain(Call::Map), plain(Call::Unmap), call(Call::Exit, "system").with(7)];
        let done = run_for(&text, Overheads::NONE, LIMIT, &[("mapper", &asked, None)]);
        assert_eq!(done.results("mapper"), [0, 0, 0], "{pages} pages");
        assert_eq!(done.report.traps, 3 * traps + 1, "{pages} pages");
        let values: Vec<u64> = done.all(Event::Shutdown).map(|record| u64::from(record.value)).collect();
        assert_eq!((done.report.exit, values), (Some(7), vec![7]));
    }
}

/// The error of a job at the next call that may say so, once its budget is used up; and the consequences for its next job.
#[test]
fn each_overrun_policy_does_what_its_name_says_and_no_other() {
    let jobs = |keys: &str| {
        let text = system(1, "admission = \"warn\"")
            + "[tasks.job]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n"
            + keys
            + "\nhandles = { lock = \"engine lock: acquire\" }\n[engines.lock]\n";
        let asked = [NEXT_JOB, burn(1_500 * US), call(Call::Acquire, "lock"), call(Call::Release, "lock"), NEXT_JOB];
        let run = run_for(&text, Overheads::NONE, 60 * MS, &[("job", &asked, None)]);
        (run.results("job").to_vec(), run.times(Event::Complete, "job"), run.all(Event::EarlyRelease).count())
    };
    let (told, ends, early) = jobs("overrun = \"throttle\"");
    assert_eq!((told, ends, early), (vec![0, 0, 0, 0], vec![20_500], 0));
    let (told, ends, early) = jobs("overrun = \"signal\"");
    assert_eq!((told, ends, early), (vec![0, Error::Overrun as u64, Error::NotHeld as u64, 0], vec![20_500], 0));
    let (told, ends, early) = jobs("overrun = \"early-release\"");
    assert_eq!((told, ends, early), (vec![0, 0, 0, 0], vec![11_500], 1));
}

/// Only a task that may take the budget of its next job is given it, and only in a job.
#[test]
fn budget_in_advance_is_for_those_that_may_have_it() {
    let told = |keys: &str, asked: &[Asked]| {
        let text = system(1, "admission = \"warn\"")
            + "[tasks.job]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n"
            + keys;
        run_for(&text, Overheads::NONE, 60 * MS, &[("job", asked, None)]).results("job").to_vec()
    };
    let early = through(Call::EarlyRelease, 0);
    let in_a_job = [NEXT_JOB, early];
    assert_eq!(told("early_release = true\n", &in_a_job), [0, 0]);
    assert_eq!(told("", &in_a_job), [0, Error::MissingRight as u64]);
    assert_eq!(told("early_release = true\n", &[early]), [Error::NoJobs as u64], "before its first");
}

//--- Times that do not fit, or do not pass

/// Its response is its own, beyond the range of 32 bits.
#[test]
fn a_job_that_is_seconds_early_has_the_response_that_it_has() {
    let text = system(1, "") + "[tasks.slow]\nscript = [\"burn 2ms\"]\nperiod = \"5s\"\nbudget = \"3ms\"\n";
    let run = run_for(&text, Overheads::NONE, 12_000 * MS, &[]);
    let late = run.events(Event::Complete, "slow").map(Record::lateness).collect::<Vec<_>>();
    assert_eq!(late, [-4_998_000_000; 3]);
    let trace = Trace::from_records(run.report.records.clone());
    let metrics = Metrics::of(&trace, &run.manifest.system);
    assert_eq!(metrics.tasks[0].response().map(|response| response.greatest), Some(2_000_000));
    let explained = explain(&trace, &run.manifest.system, &[]);
    assert_eq!(explained.iter().map(Explanation::response).collect::<Vec<_>>(), [2_000_000; 3]);
}

#[test]
fn a_script_that_takes_no_time_ends_with_its_name() {
    let text = |script: &str| {
        system(1, "") + &format!("[tasks.still]\nscript = [{script}]\nperiod = \"10ms\"\nbudget = \"3ms\"\n")
    };
    let stuck = simulate(&parse(&text("\"yield\", \"repeat\"")), None, 20 * MS).expect_err("no time passes");
    assert!(stuck.to_string().contains("`still` asks the kernel again and again and no time passes"), "{stuck}");
    for script in ["\"repeat\"", "\"burn 0ns\", \"repeat\""] {
        let run = run_for(&text(script), Overheads::NONE, 20 * MS, &[]);
        assert_eq!(run.events(Event::Fault, "still").count(), 1, "{script}");
    }
    // Each round takes time.
    let run = run_for(&text("\"burn 1us\", \"repeat\""), Overheads::NONE, 20 * MS, &[]);
    assert_eq!(run.events(Event::Fault, "still").count(), 0);
}
