//! Bounds against schedules: random task sets run in the simulator, and no job is later than the analysis says.

use fusee_manifest::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::{Cluster, Overheads, Task, analyse};
use fusee_simulator::soundness::{GeneratedSet, SoundnessOptions, soundness};
use num_traits::ToPrimitive;

/// Random task sets under EDF and FL, each for 20 of its longest periods,
const DEADLINE_SETS: u64 = 10_000;
/// and under fixed priorities, which have bounds on single CPUs only.
const PRIORITY_SETS: u64 = 1_000;

/// Runs them all: what was compared, in words, and what is wrong.
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
