//! Bounds against schedules: random task sets run in the simulator, and no job is later than the analysis says; random
//! systems with tokens and engine locks do, and no job is blocked for longer than it says.

use fusee_abi::image;
use fusee_manifest::{Manifest, PolicyName, admission};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::{Blocked, Locks, On};
use fusee_sched_analysis::{Cluster, Overheads, Task, analyse};
use fusee_simulator::blocking::{self, Claim};
use fusee_simulator::soundness::{GeneratedSet, SoundnessOptions, soundness};
use num_traits::ToPrimitive;

/// Random task sets under EDF and FL, each for 20 of its longest periods,
const DEADLINE_SETS: u64 = 10_000;
/// and under fixed priorities, which have bounds on single CPUs only.
const PRIORITY_SETS: u64 = 1_000;

/// Random systems with tokens and engine locks.
const SYSTEMS: u64 = 1_200;

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

/// Runs all systems with tokens and engine locks: the same.
pub fn check_blocking() -> (String, Vec<String>) {
    let report = blocking::blocking(1, SYSTEMS, &claims);
    let is_good = report.systems == SYSTEMS && report.failures.is_empty() && report.violations.is_empty();
    let [engines, tokens, response] = report.ratios();
    let words = format!(
        "bounds on blocking hold: {} random systems, of their jobs {} blocked for engines (tightest {engines:.3}), {} for \
         tokens ({tokens:.3}), response {response:.3}",
        report.systems, report.blocked[0], report.blocked[1]
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
        // Nor has anything where there is too much to do, or a budget may run dry.
        let covers = |(one, blocked): (&image::Reservation, &Blocked)| one.execution + blocked.lends.0 <= one.budget;
        if report.bounded == Some(false) || !study.reservations.iter().zip(&blocked).all(covers) {
            continue;
        }
        for ((member, verdict), blocked) in study.members.iter().zip(report.tasks).zip(blocked) {
            let sum = |parts: fn(On) -> bool| -> u64 {
                blocked.parts.iter().filter(|part| parts(part.on)).map(|part| part.span.0).sum()
            };
            let engines = sum(|on| matches!(on, On::Engine(_)));
            claims[*member] = Claim {
                blocking: Some([engines, blocked.blocking.0 - engines]),
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
    use fusee_sched_analysis::blocking::{Order, Protocol, Rules};

    use super::*;

    #[test]
    fn bounds_on_blocking_that_are_too_good_are_found_out() {
        let report = blocking::blocking(7, 60, &claims);
        assert!(
            report.violations.is_empty()
                && report.failures.is_empty()
                && report.blocked.iter().all(|blocked| *blocked > 300),
            "{report}"
        );
        // As if holds took no time; as if operations took none; as if each request met one other at most, by arrival, and
        // none by priority; as if there were a token for everybody; as if nobody held an engine with one.
        let no_holds = |manifest: &Manifest| {
            let none = |claim: Claim| Claim { blocking: claim.blocking.map(|_| [0; 2]), ..claim };
            claims(manifest).into_iter().map(none).collect()
        };
        let no_operations =
            |manifest: &Manifest| claims(manifest).into_iter().map(|claim| Claim { operations: 0, ..claim }).collect();
        fn rivals(locks: &mut Locks, order: Order, rivals: u32) {
            locks.engines.iter_mut().filter(|one| one.order == order).for_each(|one| one.rivals = Some(rivals));
        }
        let by_arrival = |manifest: &Manifest| claims_of(manifest, |locks| rivals(locks, Order::Fifo, 2));
        let by_priority = |manifest: &Manifest| claims_of(manifest, |locks| rivals(locks, Order::Priority, 1));
        let many_tokens = |manifest: &Manifest| {
            claims_of(manifest, |locks| {
                for pool in &mut locks.pools {
                    pool.protocol = Protocol::Pool(Rules::r2dglp(u8::MAX, 1));
                }
            })
        };
        let no_engines = |manifest: &Manifest| {
            claims_of(manifest, |locks| locks.pools.iter_mut().for_each(|one| one.engines.clear()))
        };
        let all: [blocking::Claims<'_>; 6] =
            [&no_holds, &no_operations, &by_arrival, &by_priority, &many_tokens, &no_engines];
        let found = all.map(|too_good| blocking::blocking(7, 100, too_good).violations.len());
        assert!(found.iter().all(|found| *found > 0), "{found:?}");
    }
}
