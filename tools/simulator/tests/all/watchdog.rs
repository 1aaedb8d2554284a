//! Engines that are not given back in time, instant by instant.

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::Event::{self, EngineGrant, EngineIdle, EngineLost, EngineRelease, EngineTaken};
use fusee_simulator::{Overheads, Request};

use super::common::{self, Asked, Device, MS, NEXT_JOB, Run, US, burn, call, plain, sleep, submit};

/// Longer than the system runs.
const ENDLESS: u64 = 10_000 * MS;

/// A holder, and another that asks 1 ms later; the watchdog bites after 5 ms, a reset may take 2 ms.
fn run(driver: &str, holder: &[Asked], other: &[Asked]) -> Run {
    let driver = format!("period = \"10ms\"\nbudget = \"10ms\"\n{driver}");
    let engines = [("ee", "watchdog = \"5ms\"\nreset_bound = \"2ms\"")];
    let device = Device { cluster: None, driver: &driver, engines: &engines, ..Device::GPU }.text();
    let end = common::end("60ms", "period = \"1s\"\ndeadline = \"1ms\"\nbudget = \"100us\"");
    common::run(&format!("{SYSTEM}{device}{end}"), Overheads::NONE, &[("holder", holder), ("other", other)])
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
sleeps_inside = true
handles = { ee = "engine ee: acquire" }

[tasks.other]
script = ["burn 1us"]
period = "50ms"
phase = "1ms"
budget = "20ms"
sleeps_inside = true
handles = { ee = "engine ee: acquire" }
"#;

const ACQUIRE: Asked = call(Call::Acquire, "ee");
const RELEASE: Asked = call(Call::Release, "ee");
const LOST: u64 = Error::EngineLost as u64;

const fn ring(change: i32, kicks: bool) -> Asked {
    plain(Request::Ring(0, change, kicks))
}

/// Microseconds after the start, event and task of each change of the engine.
fn engine(run: &Run) -> Vec<(u64, Event, u16)> {
    let events = [EngineGrant, EngineRelease, EngineIdle, EngineTaken, EngineLost];
    let records = run.report.records.iter().filter_map(|record| {
        let event = Event::from_number(record.event).filter(|event| events.contains(event))?;
        Some(((record.time - MS) / US, event, record.thread - 1))
    });
    records.collect()
}

/// Microseconds for which the engine is charged to this task.
fn charged(run: &Run, task: &str) -> u64 {
    run.events(EngineIdle, task).map(|record| u64::from(record.value)).sum()
}

#[test]
fn an_endless_operation_is_ended_by_a_reset_and_the_next_in_line_has_the_engine() {
    let holder = [NEXT_JOB, ACQUIRE, submit(0, ENDLESS), sleep(10 * MS), RELEASE, RELEASE];
    let run = run("", &holder, &[NEXT_JOB, ACQUIRE, submit(0, MS), sleep(3 * MS), RELEASE]);
    let seen = engine(&run);
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
    assert_eq!(run.report.results[0], [0, 0, 0, LOST, Error::NotHeld as u64]);
    assert_eq!(run.report.results[1], [0; 4]);
}

#[test]
fn an_engine_that_drains_for_too_long_is_reset_and_its_last_holder_has_lost_nothing_but_the_operation() {
    let holder = [NEXT_JOB, ACQUIRE, submit(0, ENDLESS), RELEASE];
    let run = run("", &holder, &[NEXT_JOB, ACQUIRE, RELEASE]);
    let seen: Vec<_> = engine(&run).into_iter().map(|(time, event, _)| (time, event)).collect();
    let taken = [(0, EngineGrant), (0, EngineRelease), (5_000, EngineTaken), (5_000, EngineIdle)];
    assert_eq!(seen, [&taken[..], &[(5_000, EngineGrant), (5_000, EngineRelease), (5_000, EngineIdle)]].concat());
    assert_eq!(run.report.results[0], [0; 3]);
}

/// An engine that is idle needs no reset: it goes to the next in line, and the time of another hold begins.
#[test]
fn a_holder_that_does_nothing_loses_the_engine_without_a_reset() {
    let run = run("", &[NEXT_JOB, ACQUIRE, sleep(20 * MS), RELEASE], &[NEXT_JOB, ACQUIRE, sleep(20 * MS), RELEASE]);
    let taken = |time, task| [(time, EngineTaken, task), (time, EngineRelease, task), (time, EngineIdle, task)];
    let granted = [(0, EngineGrant, 0)];
    let next = [(5_000, EngineGrant, 1)];
    assert_eq!(engine(&run), [&granted[..], &taken(5_000, 0), &next, &taken(10_000, 1)].concat());
    assert_eq!((run.report.results[0].last(), run.report.results[1].last()), (Some(&LOST), Some(&LOST)));
}

/// The driver takes 4 ms where it has 2: waiting tasks are told when they are over, and so are new requests meanwhile; afterwards all is well.
#[test]
fn an_engine_that_is_reset_too_late_is_closed_until_then() {
    let holder = [NEXT_JOB, ACQUIRE, submit(0, ENDLESS), sleep(20 * MS), RELEASE];
    let other = [NEXT_JOB, ACQUIRE, ACQUIRE, sleep(5 * MS), ACQUIRE, RELEASE];
    let run = run("parameters = { bottom_half_us = 4000 }", &holder, &other);
    let seen = engine(&run);
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
    assert_eq!(run.report.results[0].last(), Some(&LOST));
    assert_eq!(run.report.results[1], [0, LOST, LOST, 0, 0, 0]);
}

/// A job with an earlier key has the CPU from 100 us before the watchdog until 3.9 ms after it, and the driver needs 1 ms where it has 2. The look after
/// 2 ms finds it ready, the one after 4 ms at work.
#[test]
fn a_driver_that_others_keep_from_its_cpu_costs_no_task_the_engine() {
    let hog = "[tasks.hog]\nscript = [\"burn 4ms\"]\nperiod = \"50ms\"\ndeadline = \"5ms\"\nbudget = \"5ms\"\nphase = \"4900us\"\n";
    let driver = "period = \"10ms\"\nbudget = \"10ms\"\nparameters = { bottom_half_us = 1000 }";
    let engines = [("ee", "watchdog = \"5ms\"\nreset_bound = \"2ms\"")];
    let device = Device { cluster: None, driver, engines: &engines, ..Device::GPU }.text();
    let end = common::end("60ms", "period = \"1s\"\ndeadline = \"1ms\"\nbudget = \"100us\"");
    let holder = [NEXT_JOB, ACQUIRE, submit(0, ENDLESS), sleep(20 * MS), RELEASE];
    let other = [NEXT_JOB, ACQUIRE, RELEASE];
    let tasks = [("holder", &holder[..]), ("other", &other[..])];
    let run = common::run(&format!("{SYSTEM}{hog}{device}{end}"), Overheads::NONE, &tasks);
    let expected = [
        (0, EngineGrant, 0),
        (5_000, EngineTaken, 0),
        (5_000, EngineRelease, 0),
        (9_900, EngineIdle, 0),
        (9_900, EngineGrant, 1),
        (9_900, EngineRelease, 1),
        (9_900, EngineIdle, 1),
    ];
    assert_eq!(engine(&run), expected);
    assert_eq!(run.report.results[1], [0; 3]);
}

/// A client's tricks with the count in its doorbell: an operation that never ends is begun, and the count goes back without a kick
/// or with one; it counts on without a kick, or to where nothing is. None of it lets the next in line in before the engine is idle, the
/// next loses nothing, and until then the time is the trickster's.
#[test]
fn a_count_that_is_no_honest_one_costs_the_next_in_line_no_more_than_an_endless_operation() {
    let endless = submit(0, ENDLESS);
    let look = burn(1_000);
    let tricks: [(&[Asked], u64); 7] = [
        (&[endless, look, ring(-1, false)], 5_000),
        (&[endless, look, ring(-1, true)], 5_000),
        (&[endless, look, ring(-3, false)], 5_000),
        (&[endless, look, ring(-1, false), ring(1, false)], 5_000),
        (&[ring(1_000_000, true)], 5_000),
        // Its ring holds no command: the device sees the count as the driver asks for resets, at the latest.
        (&[ring(1, false)], 5_000),
        // A word that has been everywhere and is back where it was has never been anywhere.
        (&[ring(i32::MAX, false), ring(i32::MAX, false), ring(2, false)], 1_000),
    ];
    for (trick, free) in tricks {
        let holder = [&[NEXT_JOB, ACQUIRE][..], trick, &[burn(500_000), RELEASE]].concat();
        let run = run("", &holder, &[NEXT_JOB, ACQUIRE, submit(0, MS), sleep(3 * MS), burn(1), RELEASE]);
        let seen = engine(&run);
        let granted = seen.iter().find(|(_, event, task)| (*event, *task) == (EngineGrant, 1)).map(|(time, ..)| *time);
        assert_eq!(granted, Some(free), "{trick:?}: {seen:?}");
        let taken = seen.iter().filter(|(_, event, _)| *event == EngineTaken).map(|(.., task)| *task);
        assert_eq!(taken.collect::<Vec<_>>(), vec![0; usize::from(free > 1_000)], "{trick:?}: {seen:?}");
        assert_eq!(run.report.results[1], [0; 4], "{trick:?}");
        // From grant to idle it is the one's, then the other's: 1 ms of work, given back 3 ms after it was submitted.
        let times = ["holder", "other"].map(|task| charged(&run, task));
        assert_eq!(times, [if free > 1_000 { free } else { 500 }, 3_000], "{trick:?}");
    }
}

/// Taken away before anything was submitted: it goes on, its next operation reaches no device, and it hears of it as it gives the
/// engine back. Its next hold is like any other; and after a release by its own will, a store faults as ever.
#[test]
fn a_holder_that_is_late_lives_on_and_hears_that_the_engine_is_lost() {
    let late = [NEXT_JOB, ACQUIRE, sleep(8 * MS), submit(0, MS), ring(5, true), RELEASE, RELEASE];
    let again = [ACQUIRE, submit(0, MS), sleep(2 * MS), RELEASE];
    let seen = run("", &[&late[..], &again].concat(), &[NEXT_JOB, ACQUIRE, sleep(MS), RELEASE]);
    assert_eq!(seen.report.results[0], [0, 0, 0, LOST, Error::NotHeld as u64, 0, 0, 0]);
    assert_eq!(seen.faults(), []);

    // It asks for it again without giving it back: that is as good.
    let seen = run("", &[&late[..5], &again].concat(), &[NEXT_JOB, ACQUIRE, sleep(MS), RELEASE]);
    assert_eq!(seen.report.results[0], [0; 6]);

    let seen = run("", &[&late[..6], &[submit(0, MS)]].concat(), &[NEXT_JOB, ACQUIRE, RELEASE]);
    assert_eq!(seen.faults(), [0]);
}

/// A token that is overdue costs its holder first the engine that it was for, then the token; a task that waits for the engine with a token that is
/// overdue, too, waits no longer.
#[test]
fn a_token_that_is_overdue_is_taken_with_the_engine_that_it_was_for() {
    let pool = "\n[pools.gpu]\nreplicas = 2\nwatchdog = \"5ms\"\n";
    let text = SYSTEM.replace("acquire\" }", "acquire\", gpu = \"pool gpu: acquire\" }");
    let device = Device {
        cluster: None,
        driver: "period = \"10ms\"\nbudget = \"10ms\"\n",
        engines: &[("ee", "pool = \"gpu\"")],
        ..Device::GPU
    }
    .text();
    let end = common::end("60ms", "period = \"1s\"\ndeadline = \"1ms\"\nbudget = \"100us\"");
    let token = call(Call::Acquire, "gpu");
    let back = call(Call::Release, "gpu");
    let holder = [NEXT_JOB, token, ACQUIRE, submit(0, 9 * MS), sleep(20 * MS), RELEASE, back];
    let other = [NEXT_JOB, token, ACQUIRE, back];
    let run =
        common::run(&format!("{text}{pool}{device}{end}"), Overheads::NONE, &[("holder", &holder), ("other", &other)]);
    let taken =
        |event: Event, task: &str| run.events(event, task).map(|record| (record.time - MS) / US).collect::<Vec<_>>();
    assert_eq!(taken(EngineTaken, "holder"), [5_000]);
    assert_eq!(taken(Event::TokenTaken, "holder"), [5_000]);
    assert_eq!(run.results("holder")[4..], [LOST, Error::TokenLost as u64]);
    assert_eq!(run.results("other")[2], Error::TokenLost as u64);
}
