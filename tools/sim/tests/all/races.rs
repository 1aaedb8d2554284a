//! Planted races: no run of the plain manifest shows them, seeds find them, and a found seed repeats.

use std::time::Duration;

use fusee_sim::seeds::Checked;
use fusee_sim::{Failure, Reached, Run, System, Varied};

const ALL: std::ops::RangeInclusive<u64> = 1..=300;

fn system(name: &str) -> System {
    System::load(format!("{}/tests/all/{name}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn word(run: &Run, region: &str, at: usize) -> u64 {
    let bytes = run.memory(region).unwrap();
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// All increments are in the count.
fn counts_all(run: &mut Run) -> Checked {
    run.until(Duration::from_millis(209))?;
    let [count, slow, fast] = [0, 8, 16].map(|at| word(run, "counts", at));
    assert!(slow >= 19 && fast >= 19, "{slow} and {fast}");
    if count == slow + fast { Ok(()) } else { Err(format!("{count} is not {slow} + {fast}").into()) }
}

/// The consumer goes on for ever.
fn takes_all(run: &mut Run) -> Checked {
    assert_eq!(run.until(Duration::from_millis(300))?, Reached::Time);
    let taken = word(run, "words", 16);
    assert!(taken >= 25, "{taken} items were taken");
    Ok(())
}

/// Finds a race; the failure repeats, and does not without the last of what it varies.
fn found(system: &System, check: fn(&mut Run) -> Checked) -> Box<Failure> {
    check(&mut system.start().unwrap()).unwrap();
    let failure = system.seeds(ALL, check).unwrap_err();
    let fails = |draws: Option<fusee_sim::Draws>| {
        let mut run = system.clone().vary(draws).start().unwrap();
        let fails = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&mut run).is_err())).unwrap_or(true);
        (fails, run.trace().to_vec())
    };
    let (first, second) = (fails(Some(failure.draws.clone())), fails(Some(failure.draws.clone())));
    assert!(first.0 && first == second, "{failure}");
    for one in &failure.draws.varied {
        let mut fewer = failure.draws.clone();
        fewer.varied.remove(one);
        assert!(!fails(Some(fewer)).0, "{one} is not needed: {failure}");
    }
    failure
}

#[test]
fn a_lost_update_is_found_and_needs_one_phase_or_one_time() {
    let failure = found(&system("lost_update"), counts_all);
    assert!(!failure.draws.varied.is_empty() && failure.draws.varied.len() <= 2, "{failure}");
    let of = |task: &str| [Varied::Phase(task.to_owned()), Varied::Time(task.to_owned())];
    assert!(!of("beside").iter().any(|one| failure.draws.varied.contains(one)), "{failure}");
    assert!(failure.to_string().contains(&format!("seed {}, which varies ", failure.draws.seed)), "{failure}");
}

#[test]
fn a_lost_wake_up_is_found() {
    let failure = found(&system("lost_wakeup"), takes_all);
    assert!(failure.why.contains("items were taken"), "{failure}");
    assert!(failure.draws.varied.len() <= 2, "{failure}");
}

#[test]
fn a_system_without_the_race_passes_all_seeds() {
    let mut system = system("lost_update");
    system.set("tasks.slow.parameters.work_us", 0).unwrap().set("tasks.fast.parameters.work_us", 0).unwrap();
    // Without a burn or a call between load and store nothing comes between them.
    assert_eq!(system.seeds(1..=20, counts_all).unwrap(), 20);
}

#[test]
fn crashes_fall_on_tasks_that_are_not_hard() {
    let system = system("lost_wakeup");
    let varied = system.varied(true).unwrap();
    let is_crash = |one: &&Varied| matches!(one, Varied::Crash(_));
    assert_eq!(varied.iter().filter(is_crash).count(), 2);
    let failure = system.seeds_with_crashes(ALL, |run| {
        run.until(Duration::from_millis(150))?;
        let faults = run.events().filter(|seen| seen.event == fusee_sim::Event::Fault).count();
        if faults == 0 { Ok(()) } else { Err("a task has crashed".into()) }
    });
    let failure = failure.unwrap_err();
    assert_eq!(failure.draws.varied.len(), 1, "{failure}");
    assert!(failure.draws.varied.iter().all(|one| matches!(one, Varied::Crash(_))), "{failure}");
}
