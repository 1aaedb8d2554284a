//! Whole-kernel scenarios: a manifest, a run, what must have happened.

use std::path::Path;

use fusee_abi::trace::{Event, Ledger, Record};
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_simulator::{Report, simulate};

const MS: u64 = 1_000_000;

fn run(text: &str, limit: u64) -> (Manifest, Report) {
    let manifest = Manifest::parse(Path::new("scenario.toml"), text).unwrap_or_else(|error| panic!("{error}"));
    let report = simulate(&manifest, None, limit).unwrap_or_else(|error| panic!("{error}"));
    (manifest, report)
}

fn events(report: &Report, event: Event) -> impl Iterator<Item = &Record> {
    report.records.iter().filter(move |record| record.event == event as u8)
}

fn ledger(report: &Report, ledger: Ledger, index: u16) -> u64 {
    Trace::from_records(report.records.clone()).ledgers().get(&(ledger as u16, index)).copied().unwrap_or(0)
}

const TWO_TASKS: &str = r#"
[system]
name = "two"
board = "virt"
cpus = 1
start = "10ms"

[clusters.all]
cpus = [0]
policy = "EDF"

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

[tasks.end]
script = ["sleep 100ms", "shutdown"]
cluster = "all"
period = "1s"
deadline = "1ms"
budget = "1ms"
handles = { system = "system: shutdown" }
"#;

#[test]
fn edf_on_one_cpu_runs_the_earliest_deadline_and_misses_nothing() {
    let (_, report) = run(TWO_TASKS, 1000 * MS);
    assert_eq!(report.exit, Some(0));
    assert_eq!(ledger(&report, Ledger::Jobs, 0), 10);
    assert_eq!(ledger(&report, Ledger::Jobs, 1), 5);
    assert_eq!(ledger(&report, Ledger::Misses, 0) + ledger(&report, Ledger::Misses, 1), 0);
    // At 10 ms both are released; `short` has the earlier deadline.
    let first: Vec<(u64, u16)> =
        events(&report, Event::Complete).take(2).map(|record| (record.time / MS, record.thread)).collect();
    assert_eq!(first, [(12, 1), (18, 2)]);
    // Sum of charges = sum of time.
    let booked = ledger(&report, Ledger::CpuCharged, 0)
        + ledger(&report, Ledger::Kernel, 0)
        + ledger(&report, Ledger::IdleTime, 0);
    assert_eq!(booked, ledger(&report, Ledger::Uptime, 0));
}

#[test]
fn a_task_that_never_yields_is_throttled_at_its_budget() {
    let text = TWO_TASKS.replace("script = [\"burn 6ms\"]", "script = [\"burn 1000ms\"]");
    let (_, report) = run(&text, 1000 * MS);
    assert_eq!(ledger(&report, Ledger::Misses, 0), 0, "the neighbour misses nothing");
    assert!(ledger(&report, Ledger::Throttles, 1) >= 4);
    assert_eq!(ledger(&report, Ledger::Overshoot, 1), 0);
    assert_eq!(ledger(&report, Ledger::Charged, 1), 7 * 5 * MS);
}

const CLIENTS: &str = r#"
[system]
name = "clients"
board = "virt"
cpus = 1
start = "10ms"

[clusters.all]
cpus = [0]
policy = "EDF"

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

[tasks.end]
script = ["sleep 200ms", "shutdown"]
cluster = "all"
period = "1s"
deadline = "1ms"
budget = "1ms"
handles = { system = "system: shutdown" }
"#;

/// `low` calls at 10 ms; `high` (deadline 21) comes at 11, burns 1, and calls the busy server. From 12 on the
/// server works on `high`'s key and budget, so that `middle` (deadline 41) cannot come between.
#[test]
fn a_low_clients_request_is_finished_at_the_high_waiters_key_and_budget() {
    let (_, report) = run(CLIENTS, 1000 * MS);
    let done =
        |thread: u16| events(&report, Event::Complete).find(|record| record.thread == thread).map(|r| r.time / MS);
    // 10..11 server for low, 11..12 high, 12..15 server for low on high's budget, 15..17 server for high.
    assert_eq!(done(4), Some(17));
    assert_eq!(ledger(&report, Ledger::Misses, 3), 0);
    // Of each 4 ms that `low` asked for, 3 were charged to `high`: 1 + 3 + 2 a job.
    assert_eq!(ledger(&report, Ledger::Charged, 2), 6 * 5 * MS);
}

#[test]
fn a_client_calling_a_dead_server_gets_an_error_and_lives_on() {
    let text = CLIENTS.replace("script = [\"serve service\"]", "script = [\"burn 1ms\"]");
    let (_, report) = run(&text, 1000 * MS);
    assert_eq!(report.exit, Some(0));
    assert_eq!(ledger(&report, Ledger::Jobs, 1), 5);
}

#[test]
fn a_client_whose_budget_ends_inside_a_call_waits_for_its_next_one() {
    let text = CLIENTS.replace("budget = \"9ms\"", "budget = \"2ms\"");
    let (_, report) = run(&text, 1000 * MS);
    // The server had no other donor with budget when `high` ran dry, but `low` still had some.
    assert!(ledger(&report, Ledger::Throttles, 2) > 0 || ledger(&report, Ledger::Throttles, 3) > 0);
    assert!(ledger(&report, Ledger::Charged, 2) <= 2 * 6 * MS);
}
