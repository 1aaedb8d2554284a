//! Clusters of one CPU each that share an engine that its device arbitrates: their bounds against the kernel, alone and beside tasks that do
//! anything.

use fusee_campaigns::decided::{Change, beside, bounds, decided, under_lock};
use fusee_campaigns::draws::Draws;
use fusee_campaigns::hostile::{self, HostileReport, Which};
use fusee_campaigns::soundness::in_parallel;
use fusee_manifest::Manifest;
use fusee_manifest::admission::Study;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::Locks;
use fusee_sched_analysis::decided::System;

#[test]
fn bounds_of_clusters_that_share_a_device_hold() {
    let report = decided(Draws::new(1, 6_000), &bounds);
    println!("{report}");
    assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
    assert!(report.bounded > 1_500 && report.proved * 100 >= report.systems * 25, "{report}");
}

/// The declarations mean the same under locks: the driver's work for ends is counted by `completion`, and never by the `cpu` of a hold. Where tasks do not
/// wait for ends, no task has a bound.
#[test]
fn bounds_of_the_same_tasks_under_locks_hold() {
    let report = under_lock(Draws::new(1, 6_000), |_| {});
    println!("{report}");
    assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
    assert!(report.bounded > 1_300 && report.proved * 100 >= report.systems * 10, "{report}");
}

/// As if the driver took no time; as if a job that waits paid for no ends on the other engine.
#[test]
fn bounds_under_locks_that_are_too_good_are_found_out() {
    let no_driver = |locks: &mut Locks| locks.engines.iter_mut().for_each(|one| one.completion = Nanoseconds::ZERO);
    let no_others = |locks: &mut Locks| locks.engines.iter_mut().for_each(|one| one.beside.clear());
    let changes: [Change; 2] = [no_driver, no_others];
    for change in changes {
        let report = under_lock(Draws::new(3, 4_000).until_wrong(), change);
        println!("{report}");
        assert!(!report.violations.is_empty(), "{report}");
    }
}

/// The bounds of the analysis of a changed system, where all tasks have some.
fn changed(manifest: &Manifest, change: fn(&mut System)) -> Vec<Option<u64>> {
    let mut found = vec![None; manifest.system.tasks.len()];
    let right = bounds(manifest);
    for index in 0..manifest.system.clusters.len() {
        let Ok(study) = Study::new(&manifest.system, index) else { continue };
        let Some((system, tasks)) = study.decided() else { continue };
        let mut system = system.clone();
        change(&mut system);
        for (task, response) in tasks.iter().zip(system.responses()) {
            found[*task] = response.map(|response| response.longest.0).filter(|_| right[*task].is_some());
        }
    }
    found
}

/// As if the driver took no time; as if clusters had a device each; as if room took no time.
#[test]
fn bounds_that_are_too_good_are_found_out() {
    let no_driver = |system: &mut System| system.completion = Nanoseconds::ZERO;
    let apart = |system: &mut System| {
        // A task of another CPU comes last on the device.
        let first = system.tasks.first().map_or(0, |task| task.cpu);
        let others = system.tasks.iter_mut().filter(|task| task.cpu != first).filter_map(|task| task.work.as_mut());
        others.for_each(|work| work.rank = u64::MAX);
    };
    let no_room = |system: &mut System| {
        for work in system.tasks.iter_mut().filter_map(|task| task.work.as_mut()) {
            let room = 2 * 19_456 * work.commands;
            (work.operations, work.switching) =
                (Nanoseconds(work.operations.0.saturating_sub(room)), Nanoseconds::ZERO);
        }
    };
    // As if no restore were under way when a command arrives.
    let one_save = |system: &mut System| {
        for work in system.tasks.iter_mut().filter_map(|task| task.work.as_mut()) {
            work.operations = Nanoseconds(work.operations.0.saturating_sub(19_456 * work.commands));
        }
    };
    let changes: [fn(&mut System); 4] = [no_driver, apart, no_room, one_save];
    for change in changes {
        let claims = move |manifest: &Manifest| changed(manifest, change);
        let report = decided(Draws::new(3, 4_000).until_wrong(), &claims);
        println!("{report}");
        assert!(!report.violations.is_empty(), "{report}");
    }
}

#[test]
fn no_proved_task_is_late_beside_tasks_that_do_anything() {
    let count = 4_000;
    let check = |report: &mut (HostileReport, u64), number: u64| {
        let Ok(manifest) = beside(9, number) else { return };
        match hostile::replay(&manifest, (9, number * 64), Which::default()) {
            Ok(one) => {
                report.0.join(one);
                report.1 += 1;
            }
            Err(why) => panic!("number {number}: {why}"),
        }
    };
    let join = |one: &mut (HostileReport, u64), other: (HostileReport, u64)| {
        one.0.join(other.0);
        one.1 += other.1;
    };
    let (report, proved) = in_parallel(count, &check, join);
    println!("{report}{proved} systems proved");
    assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
    assert!(proved > 250 && report.attackers > proved, "{report}{proved}");
}

/// Numbers of systems are those of behaviours, four of each system.
#[test]
fn hostile_systems_have_ends_that_take_time() {
    let texts = (0..120).filter_map(|group| hostile::manifest(1, (3 * group + 1) * 4).ok());
    let ends = texts.filter(|text| text.contains("completion = ") && text.contains("bottom_half_us")).count();
    assert!(ends > 25, "{ends}");
}
