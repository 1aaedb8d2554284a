//! Runs: time, events, faults and observations.

use std::time::Duration;

use fusee_sim::{Event, Reached, Run, System};

/// A system with a program that prints a line in each of five jobs, and ends the system.
pub const FIRST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/first.toml");

fn first() -> System {
    System::load(FIRST).unwrap()
}

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

#[test]
fn a_run_goes_to_instants_and_to_its_end() {
    let mut run = first().start().unwrap();
    assert_eq!(run.until(ms(5)).unwrap(), Reached::Time);
    assert_eq!((run.now(), run.jobs("hello").unwrap().len()), (ms(5), 0));
    assert_eq!(run.console(), "");
    run.until(ms(35)).unwrap();
    assert_eq!(run.console().lines().count(), 3, "jobs begin at 10, 20 and 30 ms: {}", run.console());
    assert_eq!(run.until_end(ms(1_000)).unwrap(), 0);
    assert!(run.now() >= ms(50) && run.now() < ms(51), "{run:?}");
    assert!(run.console().ends_with("0 jobs were late\n"), "{}", run.console());
    assert_eq!(run.misses(), []);
    let releases: Vec<Duration> = run.jobs("hello").unwrap().iter().map(|job| job.release).collect();
    assert_eq!(releases, [ms(10), ms(20), ms(30), ms(40)]);
    assert!(run.until(ms(1)).unwrap_err().to_string().contains("already"));
}

#[test]
fn an_event_ends_a_step_at_its_instant() {
    let mut run = first().start().unwrap();
    let is_second =
        |seen: &fusee_sim::Seen<'_>| seen.event == Event::Release && (seen.task, seen.job) == (Some("hello"), 2);
    let record = run.until_event(ms(100), is_second).unwrap();
    assert_eq!((record.time, run.now()), (20_000_000, ms(20)));
    let error = run.until_event(ms(30), |seen| seen.event == Event::Fault).unwrap_err();
    assert_eq!(error.to_string(), "nothing of that kind happened until 30ms: the time is over");
}

/// The trace of a whole run, after the change `change` and steps of these lengths.
fn trace(change: impl Fn(&mut System), step: u64) -> Vec<fusee_sim::Record> {
    let mut system = first();
    change(&mut system);
    let mut run = system.start().unwrap();
    while run.until(run.now() + ms(step)).unwrap() == Reached::Time {}
    run.trace().to_vec()
}

#[test]
fn two_runs_are_equal_and_steps_change_nothing_but_a_period_does() {
    let one = trace(|_| {}, 1_000);
    assert_eq!(one, trace(|_| {}, 1_000));
    assert_eq!(one, trace(|_| {}, 1));
    let other = trace(|system| assert!(system.set("tasks.hello.period", "20ms").is_ok()), 1_000);
    assert_ne!(one, other);
    assert_eq!(other.last().unwrap().time / 1_000_000, 90, "the fifth job begins 80 ms after the first");
}

#[test]
fn runs_of_several_threads_have_their_own_processes() {
    let alone = trace(|_| {}, 7);
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| trace(|_| {}, 7))).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), alone);
    }
}

#[test]
fn a_crash_ends_a_task_at_its_instant() {
    let mut run = first().start().unwrap();
    run.until(ms(25)).unwrap();
    run.crash("hello").unwrap();
    // It sleeps until its next job, and runs then.
    let record = run.until_event(ms(100), |seen| seen.event == Event::Fault).unwrap();
    assert_eq!(record.time, 30_000_000);
    assert_eq!(run.until(ms(100)).unwrap(), Reached::NothingLeft, "the server waits for ever");
    assert_eq!(run.console().lines().count(), 2);
}

#[test]
fn a_drawn_pace_keeps_each_job_within_its_wcet() {
    let mut system = first();
    system.set("tasks.hello.parameters.jobs", 50).unwrap();
    system.pace(fusee_sim::Pace::Random(3));
    let mut run = system.start().unwrap();
    run.until_end(ms(1_000)).unwrap();
    let times: Vec<Duration> = run.jobs("hello").unwrap().iter().map(|job| job.completion - job.release).collect();
    let most = Duration::from_micros(600);
    assert!(times.iter().all(|time| *time <= most), "{times:?}");
    assert!(times.iter().any(|time| *time > most / 2) && times.iter().any(|time| *time < most / 2), "{times:?}");
    system.pace(fusee_sim::Pace::Wcet);
    let mut run = system.start().unwrap();
    run.until_end(ms(1_000)).unwrap();
    assert!(
        run.jobs("hello").unwrap().iter().all(|job| job.completion - job.release == most),
        "each job takes its wcet"
    );
}

/// A system of scripts, on a GPU.
const GPU: &str = "
    [system]
    name = \"lost\"
    board = \"virt\"
    cpus = 1
    [devices.gpu]
    [tasks.client]
    script = [\"acquire ee\", \"submit ee 1ms gpu_done\", \"release ee\"]
    period = \"10ms\"
    budget = \"2ms\"
    handles = { ee = \"engine ee: acquire\" }
";

fn on_gpu(change: impl Fn(&mut Run)) -> usize {
    let mut run = System::parse("lost.toml", GPU).unwrap().start().unwrap();
    run.until(ms(25)).unwrap();
    change(&mut run);
    run.until(ms(55)).unwrap();
    run.jobs("client").unwrap().len()
}

#[test]
fn interrupts_of_a_device_are_lost_until_it_heals() {
    assert_eq!(on_gpu(|_| {}), 6);
    assert_eq!(on_gpu(|run| run.lose_interrupts("client").unwrap()), 3);
    assert_eq!(on_gpu(|run| run.lose_interrupts("client").and_then(|()| run.heal("client")).unwrap()), 6);
    assert_eq!(on_gpu(|run| run.delay_interrupts("client").unwrap()), 6);
}
