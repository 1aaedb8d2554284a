//! Bounds against schedules: random task sets run in the simulator, and no job is later than the analysis says; random
//! systems with tokens and engine locks do, and no job is blocked for longer than it says.

use fusee_manifest::{Manifest, PolicyName, admission};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::{Locks, On};
use fusee_sched_analysis::{Cluster, Overheads, Task, analyse};
use fusee_simulator::blocking::{self, Claim, Family};
use fusee_simulator::soundness::{GeneratedSet, SoundnessOptions, soundness};
use num_traits::ToPrimitive;

/// Random task sets under EDF and FL, each for 20 of its longest periods,
const DEADLINE_SETS: u64 = 10_000;
/// and under fixed priorities, which have bounds on single CPUs only.
const PRIORITY_SETS: u64 = 1_000;

/// Random systems with tokens and engine locks; and such that share them across clusters.
const SYSTEMS: [(Family, u64); 2] = [(Family::Within, 1_200), (Family::Across, 600)];

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
    let mut words = Vec::new();
    let mut problems = Vec::new();
    for (family, systems) in SYSTEMS {
        let report = blocking::blocking(family, 1, systems, &claims);
        let [engines, tokens, donation, response, paid] = report.ratios();
        let donors = match family {
            Family::Within => String::new(),
            Family::Across => format!(", {} as donors ({donation:.3})", report.blocked[2]),
        };
        words.push(format!(
            "{} random systems {}, of their jobs {} blocked for engines (tightest {engines:.3}), {} for tokens \
             ({tokens:.3}){donors}, response {response:.3}, of {} budgets that pay for engines {paid:.3}",
            report.systems,
            if family == Family::Within { "within clusters" } else { "across clusters" },
            report.blocked[0],
            report.blocked[1],
            report.paid
        ));
        if report.systems < systems || !report.failures.is_empty() || !report.violations.is_empty() {
            problems.push(report.to_string());
        }
    }
    (format!("bounds on blocking hold: {}", words.join("; ")), problems)
}

/// What the analysis of its manifest says of each task.
fn claims(manifest: &Manifest) -> Vec<Claim> {
    claims_of(manifest, |_| {})
}

/// What it would say if its locks were others.
fn claims_of(manifest: &Manifest, change: fn(&mut Locks)) -> Vec<Claim> {
    let system = &manifest.system;
    let mut claims = vec![Claim::default(); system.tasks.len()];
    let studied = |index: usize| {
        let mut study = admission::Study::new(system, index).ok()?;
        change(&mut study.locks);
        // What is overcommitted has no bounds.
        let (report, blocked) = study.analyse(&Overheads::default()).ok()?;
        // Nor has anything where there is too much to do, or a budget may run dry.
        let covered = blocked.iter().enumerate().all(|(task, blocked)| study.is_covered(task, blocked));
        (report.bounded != Some(false) && covered).then_some((study, report, blocked))
    };
    let all: Vec<_> = (0..system.clusters.len()).map(studied).collect();
    // Nor where that is so in a cluster that shares a pool.
    if all.iter().any(Option::is_none) && system.pools.iter().any(|(_, pool)| pool.crosses != 0) {
        return claims;
    }
    for (study, report, blocked) in all.into_iter().flatten() {
        for ((member, verdict), blocked) in study.members.iter().zip(report.tasks).zip(blocked) {
            let sum = |parts: fn(On) -> bool| -> u64 {
                blocked.parts.iter().filter(|part| parts(part.on)).map(|part| part.span.0).sum()
            };
            let [engines, tokens, donation] = [
                sum(|on| matches!(on, On::Engine(_))),
                sum(|on| matches!(on, On::Token(_))),
                sum(|on| matches!(on, On::Donation(_))),
            ];
            claims[*member] = Claim {
                blocking: Some([engines, tokens, donation]),
                operations: blocked.operations.0,
                drawn: blocked.drawn.0,
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
        let report = blocking::blocking(Family::Within, 7, 60, &claims);
        assert!(
            report.violations.is_empty()
                && report.failures.is_empty()
                && report.blocked[..2].iter().all(|blocked| *blocked > 300),
            "{report}"
        );
        // As if holds took no time; as if operations took none; as if each request met one other at most, by arrival, and
        // none by priority; as if there were a token for everybody; as if nobody held an engine with one.
        let no_holds = |manifest: &Manifest| {
            let none = |claim: Claim| Claim { blocking: claim.blocking.map(|_| [0; 3]), ..claim };
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
        // As if budgets paid for half of what engines take.
        let half = |manifest: &Manifest| {
            claims(manifest).into_iter().map(|claim| Claim { drawn: claim.drawn.div_ceil(2), ..claim }).collect()
        };
        let all: [blocking::Claims<'_>; 7] =
            [&no_holds, &no_operations, &by_arrival, &by_priority, &many_tokens, &no_engines, &half];
        let found = all.map(|too_good| blocking::blocking(Family::Within, 7, 100, too_good).violations.len());
        assert!(found.iter().all(|found| *found > 0), "{found:?}");
    }

    #[test]
    fn bounds_across_clusters_that_are_too_good_are_found_out() {
        let report = blocking::blocking(Family::Across, 7, 100, &claims);
        assert!(
            report.violations.is_empty()
                && report.failures.is_empty()
                && report.blocked.iter().all(|blocked| *blocked > 150),
            "{report}"
        );
        // As if nobody donated; as if other clusters had no CPUs; as if nobody held an engine with a token; as if the other
        // clusters' tasks did not use engines.
        let no_donation = |manifest: &Manifest| {
            let none = |claim: Claim| Claim { blocking: claim.blocking.map(|[one, two, _]| [one, two, 0]), ..claim };
            claims(manifest).into_iter().map(none).collect()
        };
        let nobody_abroad = |manifest: &Manifest| {
            claims_of(manifest, |locks| locks.abroad.iter_mut().for_each(|abroad| abroad.cpus = 0))
        };
        let no_engines = |manifest: &Manifest| {
            claims_of(manifest, |locks| locks.pools.iter_mut().for_each(|one| one.engines.clear()))
        };
        let own_engines = |manifest: &Manifest| {
            claims_of(manifest, |locks| {
                let is_abroad = |task: usize| locks.abroad.iter().any(|abroad| abroad.task == task);
                locks.engines.iter_mut().for_each(|one| one.users.retain(|user| !is_abroad(user.task)));
            })
        };
        let all: [blocking::Claims<'_>; 4] = [&no_donation, &nobody_abroad, &no_engines, &own_engines];
        let found = all.map(|too_good| blocking::blocking(Family::Across, 7, 150, too_good).violations.len());
        assert!(found.iter().all(|found| *found > 0), "{found:?}");
    }
}
