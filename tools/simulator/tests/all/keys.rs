//! An engine with a device that decides by the keys of jobs: the owners of SMs, instant by instant.

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::Event::{self, EngineIdle, EngineTaken};
use fusee_simulator::Overheads;

use super::common::{self, Asked, Device, MS, NEXT_JOB, Run, US, burn, call, sleep, submit};

/// To save all that is on an SM, or to restore it, in nanoseconds.
const SAVE: u64 = 19_456;
/// Longer than the system runs.
const ENDLESS: u64 = 10_000 * MS;
const ACQUIRE: Asked = call(Call::Acquire, "ee");
const RELEASE: Asked = call(Call::Release, "ee");
/// A job goes on for so long, while the operation does.
const STAY: Asked = sleep(60 * MS);

/// A job of each of these tasks, by its deadline and its phase in milliseconds and its budget in microseconds.
fn run(tasks: &[(&str, u64, u64, u64, &[Asked])]) -> Run {
    let mut text = common::system(1, "admission = \"warn\"");
    for (name, deadline, phase, budget, _) in tasks {
        text += &format!(
            "[tasks.{name}]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nsleeps_inside = true\nperiod = \"500ms\"\ndeadline = \"{deadline}ms\"\nphase = \"{phase}ms\"\n\
             budget = \"{budget}us\"\nsuspends = \"100ms\"\nhandles = {{ ee = \"engine ee: acquire\" }}\n"
        );
    }
    let engines = [("ee", "arbiter = \"device\"\nwatchdog = \"5ms\"\nreset_bound = \"2ms\"")];
    let driver = "period = \"10ms\"\nbudget = \"10ms\"";
    let device = Device { driver, engines: &engines, ..Device::GPU }.text();
    text += &device.replace("[devices.gpu]\n", "[devices.gpu]\nsms = 4\n");
    text += &common::end(
        "100ms",
        "cluster = \"all\"\nsleeps_inside = true\nperiod = \"1s\"\ndeadline = \"150ms\"\nbudget = \"1ms\"",
    );
    let asked: Vec<(&str, &[Asked])> = tasks.iter().map(|(name, .., asked)| (*name, *asked)).collect();
    common::run(&text, Overheads::NONE, &asked)
}

/// When the engine was idle after this task, in nanoseconds after the first release.
fn idle(run: &Run, task: &str) -> Vec<u64> {
    run.events(EngineIdle, task).map(|record| record.time - 10 * MS).collect()
}

/// Microseconds for which it had occupied it.
fn occupied(run: &Run, task: &str) -> u64 {
    run.events(EngineIdle, task).map(|record| u64::from(record.value)).sum()
}

/// Submits, gives the engine back at once, and stays in its job.
const fn once(span: u64) -> [Asked; 5] {
    [NEXT_JOB, ACQUIRE, submit(0, span), RELEASE, STAY]
}

#[test]
fn an_earlier_job_takes_the_sms_and_pays_for_the_save() {
    let run = run(&[("late", 300, 0, 1_000, &once(4 * MS)), ("early", 200, 1, 1_000, &once(MS))]);
    assert_eq!(idle(&run, "early"), [2 * MS + SAVE]);
    assert_eq!(idle(&run, "late"), [5 * MS + 2 * SAVE]);
    assert_eq!((occupied(&run, "early"), occupied(&run, "late")), (1_019, 4_000));
}

#[test]
fn a_later_job_waits_and_one_that_has_ended_makes_room() {
    let waits = run(&[("early", 200, 0, 1_000, &once(4 * MS)), ("late", 300, 1, 1_000, &once(MS))]);
    assert_eq!((idle(&waits, "early"), idle(&waits, "late")), (vec![4 * MS], vec![5 * MS]));
    // Its job ends; its operation goes on.
    let ends = [NEXT_JOB, ACQUIRE, submit(0, 4 * MS), RELEASE, NEXT_JOB];
    let makes_room = run(&[("early", 200, 0, 1_000, &ends), ("late", 300, 1, 1_000, &once(MS))]);
    assert_eq!(idle(&makes_room, "late"), [2 * MS + SAVE]);
    assert_eq!(idle(&makes_room, "early"), [5 * MS + 2 * SAVE]);
}

/// The budget of the earlier job ends after 2 ms, with the operation under way: there it has no key any more.
#[test]
fn a_budget_that_is_dry_takes_nothing_from_anybody() {
    let early = [NEXT_JOB, ACQUIRE, submit(0, 4 * MS), RELEASE, burn(5 * MS), STAY];
    let run = run(&[("early", 200, 0, 2_000, &early), ("late", 300, 1, 1_000, &once(MS))]);
    assert_eq!(idle(&run, "late"), [3 * MS + SAVE]);
    assert_eq!(idle(&run, "early"), [5 * MS + 2 * SAVE]);
}

/// A client that is kept from the SMs by others for longer than its watchdog is no offender.
#[test]
fn a_watchdog_counts_what_its_user_has_occupied() {
    let first = run(&[
        ("late", 400, 0, 1_000, &once(4 * MS)),
        ("early", 200, 1, 1_000, &once(4 * MS)),
        ("next", 300, 1, 1_000, &once(4 * MS)),
    ]);
    assert_eq!(first.all(EngineTaken).count(), 0);
    assert_eq!(idle(&first, "late"), [12 * MS + 2 * SAVE]);
    assert_eq!(occupied(&first, "late"), 4_000);
}

/// A command that never ends is reset, alone: the other goes on, and loses nothing.
#[test]
fn who_occupies_it_for_too_long_loses_it_and_nobody_else_does() {
    let hangs = [NEXT_JOB, ACQUIRE, submit(0, ENDLESS), sleep(30 * MS), RELEASE, ACQUIRE, RELEASE];
    let run = run(&[("late", 300, 0, 1_000, &hangs), ("early", 200, 4, 1_000, &once(3 * MS))]);
    let taken: Vec<u64> = run.events(EngineTaken, "late").map(|record| (record.time - 10 * MS) / US).collect();
    // It had them for 4 ms, and then for one more after the other, and the save and the restore between. The watchdog asks the device first.
    let (from, to) = (8_000 + 2 * SAVE / US, 8_000 + 2 * SAVE / US + 120);
    assert!(taken.len() == 1 && (from..to).contains(&taken[0]), "{taken:?}");
    assert_eq!(idle(&run, "early"), [7 * MS + SAVE]);
    assert_eq!(run.events(EngineTaken, "early").count(), 0);
    assert_eq!(run.results("late"), [0, 0, 0, Error::EngineLost as u64, 0, 0]);
    assert!(occupied(&run, "late") >= 5_000 && occupied(&run, "late") < 5_200, "{}", occupied(&run, "late"));
}

/// A task that dies leaves an operation, which others need not wait for.
#[test]
fn the_operation_of_the_dead_makes_room() {
    let dies = [NEXT_JOB, ACQUIRE, submit(0, 4 * MS), common::through(Call::Exit, 1)];
    let run = run(&[("early", 200, 0, 1_000, &dies), ("late", 300, 1, 1_000, &once(MS))]);
    assert_eq!(idle(&run, "late"), [2 * MS + SAVE]);
    assert_eq!(idle(&run, "early"), [5 * MS + 2 * SAVE]);
    assert_eq!(run.all(Event::EngineTaken).count(), 0);
}

/// Restores after each of the others are suspension of the job that was preempted, and are declared for it: it keeps its key, and goes on before
/// a job of a later deadline.
#[test]
fn who_was_preempted_often_keeps_its_key() {
    let mut text = common::system(1, "admission = \"warn\"");
    let mut task = |name: &str, deadline: u64, phase: u64, operation: &str| {
        let uses = if operation.is_empty() {
            String::new()
        } else {
            format!(
                "handles.ee = \"engine ee: acquire\"\nuses.ee = {{ cpu = \"10us\", operation = \"{operation}\" }}\n"
            )
        };
        text += &format!(
            "[tasks.{name}]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nsleeps_inside = true\nperiod = \"500ms\"\ndeadline = \"{deadline}ms\"\nphase = \"{phase}ms\"\n\
             budget = \"12ms\"\n{uses}"
        );
    };
    task("late", 100, 0, "20ms");
    task("busy", 90, 22, "");
    let early = ["first", "second", "third", "fourth", "fifth"];
    early.iter().zip(1..).for_each(|(name, number)| task(name, 20, 3 * number, "1ms"));
    let engines = [("ee", "arbiter = \"device\"")];
    let device = Device { driver: "period = \"10ms\"\nbudget = \"10ms\"", engines: &engines, ..Device::GPU }.text();
    text += &device.replace("[devices.gpu]\n", "[devices.gpu]\nsms = 4\n");
    text += &common::end(
        "100ms",
        "cluster = \"all\"\nsleeps_inside = true\nperiod = \"1s\"\ndeadline = \"150ms\"\nbudget = \"1ms\"",
    );
    // Their jobs end with their operations.
    let brief = [NEXT_JOB, ACQUIRE, submit(0, MS), RELEASE, ACQUIRE, RELEASE, NEXT_JOB];
    let busy = [NEXT_JOB, burn(10 * MS), STAY];
    let late = [NEXT_JOB, ACQUIRE, submit(0, 20 * MS), RELEASE, ACQUIRE, burn(MS), STAY];
    let mut asked: Vec<(&str, &[Asked])> = vec![("late", &late), ("busy", &busy)];
    early.iter().for_each(|name| asked.push((name, &brief)));
    let run = common::run(&text, Overheads::NONE, &asked);
    // It has waited for its own operation to end, and goes on at once.
    let end = idle(&run, "late")[0];
    assert_eq!(end, 25 * MS + 10 * SAVE);
    let ran = run.of("late").find(|record| record.event == Event::SwitchTo as u8 && record.time >= 10 * MS + end);
    assert_eq!(ran.map(|record| record.time - 10 * MS), Some(end));
}
