#![allow(missing_docs)]
//! Engines that are not given back in time, instant by instant.

use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::Event;
use fusee_manifest::Manifest;
use fusee_simulator::{Options, Program, Reply, Report, Request, Until, simulate_with};

const MS: u64 = 1_000_000;
/// Longer than the system runs.
const ENDLESS: u64 = 10_000 * MS;

/// A holder, and another that asks 1 ms later; the watchdog bites after 5 ms, a reset may take 2 ms.
fn run(driver: &str, holder: &[Request], other: &[Request]) -> (Manifest, Report) {
    let manifest = Manifest::parse(Path::new("watchdog.toml"), &SYSTEM.replace("$DRIVER", driver))
        .unwrap_or_else(|error| panic!("{error}"));
    let programs = [holder, other]
        .into_iter()
        .enumerate()
        .map(|(index, requests)| {
            let engine = manifest.system.tasks[index].environment.iter().find(|entry| entry.name == "ee");
            let engine = engine.expect("a handle to the engine").handle;
            let named = requests.iter().map(|request| match *request {
                Request::Call { number, second, word, until, reply, .. }
                    if number == Call::Acquire as u64 || number == Call::Release as u64 =>
                {
                    Request::Call { number, first: engine, second, word, until, reply }
                }
                other => other,
            });
            (index, Program::Requests { requests: named.collect(), again_from: None })
        })
        .collect();
    let options = Options { programs, ..Options::default() };
    let report = simulate_with(&manifest, &options, 100 * MS).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.exit, Some(0));
    (manifest, report)
}

const SYSTEM: &str = r#"
[system]
name = "watchdog"
board = "virt"
cpus = 1
start = "1ms"
admission = "warn"

[tasks.holder]
script = ["burn 1us"]
period = "100ms"
budget = "20ms"
handles = { ee = "engine ee: acquire" }

[tasks.other]
script = ["burn 1us"]
period = "50ms"
phase = "1ms"
budget = "20ms"
handles = { ee = "engine ee: acquire" }

[tasks.gpu]
binary = "gpu-driver/gpu-driver"
class = "service"
period = "10ms"
budget = "10ms"
$DRIVER

[tasks.gpu.handles]
line = "interrupt gpu: acknowledge"
event = "notification event: wait"

[tasks.end]
script = ["sleep 60ms", "shutdown"]
period = "1s"
deadline = "1ms"
budget = "100us"
handles = { system = "system: shutdown" }

[notifications.event]

[interrupts.gpu]
line = 112
notification = "event"
edge = true

[devices.gpu]
driver = "gpu"
firmware = "engine-core"
memory = "64KiB"

[engines.ee]
device = "gpu"
index = 0
interrupt = "gpu"
watchdog = "5ms"
reset_bound = "2ms"
"#;

const fn call(call: Call) -> Request {
    Request::Call { number: call as u64, first: 0, second: 0, word: 0, until: Until::Never, reply: Reply::Nobody }
}

const fn sleep(time: u64) -> Request {
    Request::Call {
        number: Call::SleepUntil as u64,
        first: 0,
        second: 0,
        word: 0,
        until: Until::After(time),
        reply: Reply::Nobody,
    }
}

const NEXT_JOB: Request = call(Call::NextJob);
const ACQUIRE: Request = call(Call::Acquire);
const RELEASE: Request = call(Call::Release);
const LOST: u64 = Error::EngineLost as u64;

/// Microseconds after the start, event and task of what becomes of the engine.
fn engine(report: &Report) -> Vec<(u64, Event, u16)> {
    let events = [Event::EngineGrant, Event::EngineRelease, Event::EngineIdle, Event::EngineTaken, Event::EngineLost];
    let records = report.records.iter().filter_map(|record| {
        let event = Event::from_number(record.event).filter(|event| events.contains(event))?;
        Some(((record.time - MS) / 1_000, event, record.thread - 1))
    });
    records.collect()
}

use Event::{EngineGrant, EngineIdle, EngineLost, EngineRelease, EngineTaken};

#[test]
fn an_endless_operation_is_ended_by_a_reset_and_the_next_in_line_has_the_engine() {
    let holder = [NEXT_JOB, ACQUIRE, Request::Submit(0, ENDLESS), sleep(10 * MS), RELEASE, RELEASE];
    let (_, report) = run("", &holder, &[NEXT_JOB, ACQUIRE, Request::Submit(0, MS), sleep(3 * MS), RELEASE]);
    let seen = engine(&report);
    let expected = [
        (0, EngineGrant, 0),
        (5_000, EngineTaken, 0),
        (5_000, EngineRelease, 0),
        (5_000, EngineIdle, 0),
        (5_000, EngineGrant, 1),
        (8_000, EngineRelease, 1),
        (8_000, EngineIdle, 1),
    ];
    assert_eq!(seen, expected);
    // The loss is told once.
    assert_eq!(report.results[0], [0, 0, 0, LOST, Error::NotHeld as u64]);
    assert_eq!(report.results[1], [0; 4]);
}

#[test]
fn an_engine_that_drains_for_too_long_is_reset_and_its_last_holder_has_lost_nothing_but_the_operation() {
    let holder = [NEXT_JOB, ACQUIRE, Request::Submit(0, ENDLESS), RELEASE];
    let (_, report) = run("", &holder, &[NEXT_JOB, ACQUIRE, RELEASE]);
    let seen: Vec<_> = engine(&report).into_iter().map(|(time, event, _)| (time, event)).collect();
    let taken = [(0, EngineGrant), (0, EngineRelease), (5_000, EngineTaken), (5_000, EngineIdle)];
    assert_eq!(seen, [&taken[..], &[(5_000, EngineGrant), (5_000, EngineRelease), (5_000, EngineIdle)]].concat());
    assert_eq!(report.results[0], [0; 3]);
}

/// An engine that is idle needs no reset: it goes to the next in line, and the time of another hold begins.
#[test]
fn a_holder_that_does_nothing_loses_the_engine_without_a_reset() {
    let (_, report) =
        run("", &[NEXT_JOB, ACQUIRE, sleep(20 * MS), RELEASE], &[NEXT_JOB, ACQUIRE, sleep(20 * MS), RELEASE]);
    let taken = |time, task| [(time, EngineTaken, task), (time, EngineRelease, task), (time, EngineIdle, task)];
    let granted = [(0, EngineGrant, 0)];
    let next = [(5_000, EngineGrant, 1)];
    assert_eq!(engine(&report), [&granted[..], &taken(5_000, 0), &next, &taken(10_000, 1)].concat());
    assert_eq!((report.results[0].last(), report.results[1].last()), (Some(&LOST), Some(&LOST)));
}

/// The driver takes 4 ms where it has 2: who waits is told when they are over, and who asks meanwhile; afterwards all is well.
#[test]
fn an_engine_that_is_reset_too_late_is_closed_until_then() {
    let holder = [NEXT_JOB, ACQUIRE, Request::Submit(0, ENDLESS), sleep(20 * MS), RELEASE];
    let other = [NEXT_JOB, ACQUIRE, ACQUIRE, sleep(5 * MS), ACQUIRE, RELEASE];
    let (_, report) = run("parameters = { bottom_half_us = 4000 }", &holder, &other);
    let seen = engine(&report);
    let expected = [
        (0, EngineGrant, 0),
        (5_000, EngineTaken, 0),
        (5_000, EngineRelease, 0),
        (7_000, EngineLost, 0),
        (9_000, EngineIdle, 0),
        (12_000, EngineGrant, 1),
        (12_000, EngineRelease, 1),
        (12_000, EngineIdle, 1),
    ];
    assert_eq!(seen, expected);
    assert_eq!(report.results[0].last(), Some(&LOST));
    assert_eq!(report.results[1], [0, LOST, LOST, 0, 0, 0]);
}
