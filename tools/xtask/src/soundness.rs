//! Bounds against schedules: random task sets run in the simulator, and no job is later than the analysis says; random
//! systems with engine locks do, and no job is blocked for longer than it says.

use fusee_manifest::{Manifest, PolicyName, admission};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::Locks;
use fusee_sched_analysis::{Cluster, Overheads, Task, analyse};
use fusee_simulator::blocking::{self, Claim};
use fusee_simulator::soundness::{GeneratedSet, SoundnessOptions, soundness};
use num_traits::ToPrimitive;

/// Random task sets under EDF and FL, each for 20 of its longest periods,
const DEADLINE_SETS: u64 = 10_000;
/// and under fixed priorities, which have bounds on single CPUs only.
const PRIORITY_SETS: u64 = 1_000;

/// Random systems with engine locks.
const SYSTEMS: u64 = 2_000;

/// Runs all task sets: what was compared, in words, and what is wrong.
pub fn check() -> (String, Vec<String>) {
    let deadlines = SoundnessOptions { sets: DEADLINE_SETS, ..SoundnessOptions::default() };
    let priorities = SoundnessOptions {
        sets: PRIORITY_SETS,
        policies: vec![PolicyName::Rm, PolicyName::Dm, PolicyName::Fp],
        ..SoundnessOptions::default()
    };
    let mut problems = Vec::new();
    let (mut sets, mut tasks, mut tardy, mut tightest) = (0, 0, 0, 0.0f64);
    for options in [deadlines, priorities] {
        let report = soundness(&options, &bounds);
        sets += report.sets;
        tasks += report.bounded;
        tardy += report.tardy;
        tightest = tightest.max(report.tightest.as_ref().map_or(0.0, |one| one.ratio()));
        if report.sets < options.sets || !report.failures.is_empty() || !report.violations.is_empty() {
            problems.push(report.to_string());
        }
    }
    let words = format!(
        "bounds on lateness hold: {sets} random sets, {tasks} tasks with a bound, {tardy} tardy, tightest {tightest:.3}"
    );
    (words, problems)
}

/// Runs all systems with engine locks: the same.
pub fn check_blocking() -> (String, Vec<String>) {
    let report = blocking::blocking(1, SYSTEMS, &claims);
    let is_good = report.systems == SYSTEMS && report.failures.is_empty() && report.violations.is_empty();
    let words = format!(
        "bounds on blocking hold: {} random systems with engine locks, {} tasks that may be blocked, {} jobs were, tightest \
         {:.3}",
        report.systems,
        report.bounded,
        report.blocked,
        report.ratio()
    );
    (words, if is_good { Vec::new() } else { vec![report.to_string()] })
}

/// What the analysis of its manifest says of each task.
fn claims(manifest: &Manifest) -> Vec<Claim> {
    claims_of(manifest, |_| {})
}

/// What it would say if its locks were others.
fn claims_of(manifest: &Manifest, change: fn(&mut Locks)) -> Vec<Claim> {
    let system = &manifest.system;
    let mut claims = vec![Claim::default(); system.tasks.len()];
    for index in 0..system.clusters.len() {
        let Ok(mut study) = admission::Study::new(system, index) else { continue };
        change(&mut study.locks);
        // What is overcommitted has no bounds.
        let Ok((report, blocked)) = study.analyse(&Overheads::default()) else { continue };
        for ((member, verdict), blocked) in study.members.iter().zip(report.tasks).zip(blocked) {
            claims[*member] = Claim {
                blocking: Some(blocked.blocking.0),
                operations: blocked.operations.0,
                lateness: verdict.bound.and_then(|bound| bound.lateness.ceil().to_integer().to_i64()),
            };
        }
    }
    claims
}

/// For each task of the set how late it can be by the analysis.
fn bounds(drawn: &GeneratedSet) -> Vec<Option<i64>> {
    let tasks = &drawn.set.tasks;
    let mut bounds = vec![None; tasks.len()];
    for (home, cpus) in drawn.platform.clusters.iter().enumerate() {
        let members: Vec<usize> = (0..tasks.len()).filter(|task| drawn.homes[*task] == home).collect();
        let priorities = drawn.set.priorities();
        let task = |index: &usize| Task {
            execution: Nanoseconds(tasks[*index].execution),
            period: Nanoseconds(tasks[*index].period),
            deadline: Nanoseconds(tasks[*index].deadline),
            priority: priorities[*index],
        };
        // A set that makes no sense, or is overloaded, has no bounds.
        let report = Cluster::new(*cpus, drawn.platform.policy, members.iter().map(task).collect())
            .ok()
            .and_then(|cluster| analyse(&cluster, &Overheads::default(), &[]).ok());
        for (member, verdict) in members.iter().zip(report.into_iter().flat_map(|report| report.tasks)) {
            bounds[*member] = verdict.bound.and_then(|bound| bound.lateness.ceil().to_integer().to_i64());
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use fusee_sched_analysis::blocking::Order;

    use super::*;

    #[test]
    fn bounds_on_blocking_that_are_too_good_are_found_out() {
        let report = blocking::blocking(7, 60, &claims);
        assert!(report.violations.is_empty() && report.failures.is_empty() && report.blocked > 1_000, "{report}");
        // As if holds took no time; as if operations took none; as if each request met one other at most, by arrival, and
        // by priority.
        let no_holds = |manifest: &Manifest| {
            let none = |claim: Claim| Claim { blocking: claim.blocking.map(|_| 0), ..claim };
            claims(manifest).into_iter().map(none).collect()
        };
        let no_operations =
            |manifest: &Manifest| claims(manifest).into_iter().map(|claim| Claim { operations: 0, ..claim }).collect();
        fn one_rival(locks: &mut Locks, order: Order) {
            locks.engines.iter_mut().filter(|one| one.order == order).for_each(|one| one.rivals = Some(2));
        }
        let by_arrival = |manifest: &Manifest| claims_of(manifest, |locks| one_rival(locks, Order::Fifo));
        let by_priority = |manifest: &Manifest| claims_of(manifest, |locks| one_rival(locks, Order::Priority));
        let all: [blocking::Claims<'_>; 4] = [&no_holds, &no_operations, &by_arrival, &by_priority];
        for (index, too_good) in all.into_iter().enumerate() {
            let found = blocking::blocking(7, 200, too_good).violations.len();
            assert!(found > 0, "number {index} is not found out");
        }
    }
}
