#![allow(missing_docs)]
//! Waiting: deadlines of calls, engines that drain, chains, and threads that move between CPUs.

use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Ledger, Record};
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_simulator::{Options, Program, Reply, Report, Request, Until, simulate_with};

const MS: u64 = 1_000_000;

/// Runs the system of `text`; the tasks named in `programs` make requests in place of what the text says.
fn run(text: &str, kick_delay: u64, programs: &[(&str, Vec<Asked>)]) -> (Manifest, Report) {
    let text = format!("{text}{END}");
    let manifest = Manifest::parse(Path::new("waiting.toml"), &text).unwrap_or_else(|error| panic!("{error}"));
    let programs = programs
        .iter()
        .map(|(name, asked)| {
            let index = manifest.system.tasks.iter().position(|task| task.name == *name).expect("a task of the text");
            let requests = asked.iter().map(|asked| asked.request(&manifest, index)).collect();
            (index, Program::Requests { requests, again_from: None })
        })
        .collect();
    let options = Options { managed: None, kick_delay, programs };
    let report = simulate_with(&manifest, &options, 1_000 * MS).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.exit, Some(0));
    (manifest, report)
}

/// A request with the name of the handle it goes through.
enum Asked {
    Burn(u64),
    Submit(u32, u64),
    Call(Call, &'static str, u64, Until),
}

impl Asked {
    fn request(&self, manifest: &Manifest, task: usize) -> Request {
        match *self {
            Asked::Burn(span) => Request::Burn(span),
            Asked::Submit(engine, span) => Request::Submit(engine, span),
            Asked::Call(call, name, word, until) => {
                let entries = &manifest.system.tasks[task].environment;
                let first = entries.iter().find(|entry| entry.name == name).map_or(0, |entry| entry.handle);
                Request::Call { number: call as u64, first, second: word, word, until, reply: Reply::Nobody }
            }
        }
    }
}

const NEXT_JOB: Asked = Asked::Call(Call::NextJob, "", 0, Until::Never);

fn task(manifest: &Manifest, name: &str) -> u16 {
    manifest.system.tasks.iter().position(|task| task.name == name).expect("a task of the text") as u16
}

/// Instants, in microseconds, of the events of one kind of one task.
fn times(manifest: &Manifest, report: &Report, event: Event, name: &str) -> Vec<u64> {
    let number = task(manifest, name) + 1;
    let is = |record: &&Record| record.event == event as u8 && record.thread == number;
    report.records.iter().filter(is).map(|record| record.time / 1_000).collect()
}

fn ledger(report: &Report, ledger: Ledger, index: u16) -> u64 {
    Trace::from_records(report.records.clone()).ledgers().get(&(ledger as u16, index)).copied().unwrap_or(0)
}

const END: &str = r#"
[tasks.end]
script = ["sleep 80ms", "shutdown"]
cluster = "all"
period = "1s"
deadline = "1ms"
budget = "1ms"
handles = { system = "system: shutdown" }
"#;

//--- Budgets across CPUs

const TIMED_CALL: &str = r#"
[system]
name = "timed_call"
board = "virt"
cpus = 2
start = "10ms"

[clusters.all]
cpus = [0, 1]

[endpoints.service]
server = "server"

[tasks.server]
script = ["serve service"]
cluster = "all"
handles = { service = "endpoint service: receive" }

[tasks.client]
script = ["burn 1ms"]
cluster = "all"
period = "50ms"
budget = "10ms"
handles = { service = "endpoint service: call" }

[tasks.short]
script = ["burn 1ms"]
cluster = "all"
period = "100ms"
deadline = "5ms"
budget = "2ms"
phase = "1ms"

[tasks.long]
script = ["burn 2ms"]
cluster = "all"
period = "100ms"
deadline = "5ms"
budget = "3ms"
phase = "1ms"
"#;

/// The client calls at 10 ms on CPU 0. At 11 `long` takes CPU 0; the server goes on at 12 on CPU 1, after `short`.
/// At 16 the call is given up and the client is back on CPU 0, of 10 ms five used: at 21 it is dry.
#[test]
fn a_client_that_gives_up_a_call_has_only_the_budget_that_its_server_left() {
    for kick_delay in [0, 1_000, 50_000] {
        let client = vec![
            NEXT_JOB,
            Asked::Call(Call::Call, "service", 30 * MS, Until::After(6 * MS)),
            Asked::Burn(20 * MS),
        ];
        let (manifest, report) = run(TIMED_CALL, kick_delay, &[("client", client)]);
        let client = task(&manifest, "client");
        assert_eq!(report.results[usize::from(client)][1], Error::TimedOut as u64);
        assert!(ledger(&report, Ledger::Overshoot, 0) <= kick_delay, "{}", ledger(&report, Ledger::Overshoot, 0));
        let throttled = times(&manifest, &report, Event::Throttle, "client");
        assert!(throttled[0].abs_diff(21_000) <= 3 * kick_delay / 1_000, "{throttled:?}");
    }
}
