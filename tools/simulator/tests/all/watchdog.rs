//! Engines that are not given back in time, instant by instant.

use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Record};
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

/// Microseconds for which the engine is charged to this task.
fn charged(report: &Report, task: u16) -> u64 {
    let of_task = |record: &&Record| record.event == EngineIdle as u8 && record.thread == task + 1;
    report.records.iter().filter(of_task).map(|record| u64::from(record.value)).sum()
}

fn faults(report: &Report) -> usize {
    report.records.iter().filter(|record| record.event == Event::Fault as u8).count()
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

/// A client's tricks with the count in its doorbell: an operation that never ends is begun, and the count goes back without a kick
/// or with one; it counts on without a kick, or to where nothing is. None of it lets the next in line in before the engine is idle, the
/// next loses nothing, and until then the time is the trickster's.
#[test]
fn a_count_that_is_no_honest_one_costs_the_next_in_line_no_more_than_an_endless_operation() {
    let endless = Request::Submit(0, ENDLESS);
    let look = Request::Burn(1_000);
    let tricks: [(&[Request], u64); 7] = [
        (&[endless, look, Request::Ring(0, -1, false)], 5_000),
        (&[endless, look, Request::Ring(0, -1, true)], 5_000),
        (&[endless, look, Request::Ring(0, -3, false)], 5_000),
        (&[endless, look, Request::Ring(0, -1, false), Request::Ring(0, 1, false)], 5_000),
        (&[Request::Ring(0, 1_000_000, true)], 5_000),
        // What its ring holds is no command: the device sees the count as the driver asks for resets, at the latest.
        (&[Request::Ring(0, 1, false)], 5_000),
        // A word that has been everywhere and is back where it was has never been anywhere.
        (&[Request::Ring(0, i32::MAX, false), Request::Ring(0, i32::MAX, false), Request::Ring(0, 2, false)], 1_000),
    ];
    for (trick, free) in tricks {
        let holder = [&[NEXT_JOB, ACQUIRE][..], trick, &[Request::Burn(500_000), RELEASE]].concat();
        let (_, report) =
            run("", &holder, &[NEXT_JOB, ACQUIRE, Request::Submit(0, MS), sleep(3 * MS), Request::Burn(1), RELEASE]);
        let seen = engine(&report);
        let granted = seen.iter().find(|(_, event, task)| (*event, *task) == (EngineGrant, 1)).map(|(time, ..)| *time);
        assert_eq!(granted, Some(free), "{trick:?}: {seen:?}");
        let taken = seen.iter().filter(|(_, event, _)| *event == EngineTaken).map(|(.., task)| *task);
        assert_eq!(taken.collect::<Vec<_>>(), vec![0; usize::from(free > 1_000)], "{trick:?}: {seen:?}");
        assert_eq!(report.results[1], [0; 4], "{trick:?}");
        // From grant to idle it is the one's, then the other's: 1 ms of work, given back 3 ms after it was submitted.
        let times = [0, 1].map(|task| charged(&report, task));
        assert_eq!(times, [if free > 1_000 { free } else { 500 }, 3_000], "{trick:?}");
    }
}

/// Taken away before anything was submitted: it goes on, its next operation reaches no device, and it hears of it as it gives the
/// engine back. Its next hold is like any other; and after a release by its own will, a store faults as ever.
#[test]
fn a_holder_that_is_late_lives_on_and_hears_that_the_engine_is_lost() {
    let late = [NEXT_JOB, ACQUIRE, sleep(8 * MS), Request::Submit(0, MS), Request::Ring(0, 5, true), RELEASE, RELEASE];
    let again = [ACQUIRE, Request::Submit(0, MS), sleep(2 * MS), RELEASE];
    let (_, report) = run("", &[&late[..], &again].concat(), &[NEXT_JOB, ACQUIRE, sleep(MS), RELEASE]);
    assert_eq!(report.results[0], [0, 0, 0, LOST, Error::NotHeld as u64, 0, 0, 0]);
    assert_eq!(faults(&report), 0);

    // It asks for it again without giving it back: that is as good.
    let (_, report) = run("", &[&late[..5], &again].concat(), &[NEXT_JOB, ACQUIRE, sleep(MS), RELEASE]);
    assert_eq!(report.results[0], [0; 6]);

    let (_, report) = run("", &[&late[..6], &[Request::Submit(0, MS)]].concat(), &[NEXT_JOB, ACQUIRE, RELEASE]);
    assert_eq!(faults(&report), 1);
}
