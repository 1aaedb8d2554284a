//! Two task sets: the kernel's schedules of them, beside their proofs.
//!
//! Many random sets are in `cargo xtask test` (`research/src/soundness.rs`).

use fusee_manifest::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::{Cluster, Overheads, Report, Task, analyse};
use fusee_simulator::workload::{Platform, SimulatedTask, TaskSet};
use fusee_simulator::{First, Options, simulate_observed};
use fusee_views::metrics::{Metrics, TaskMetrics};

use super::common::MS;

/// Whole hyperperiods of both sets.
const SPAN: u64 = 600 * MS;
const CPUS: u32 = 2;

/// Execution times and periods in milliseconds; deadlines are the periods.
type Set<'a> = &'a [(u64, u64)];

/// The kernel's results, all tasks released together.
fn observed(set: Set<'_>, policy: PolicyName) -> Vec<TaskMetrics> {
    let tasks = set.iter().enumerate().map(|(index, (execution, period))| SimulatedTask {
        name: format!("T{}", index + 1),
        execution: execution * MS,
        period: period * MS,
        deadline: period * MS,
        priority: None,
    });
    let set = TaskSet { name: "bounds".into(), tasks: tasks.collect() };
    let manifest = set.system(&Platform { clusters: vec![CPUS], policy, ..Platform::default() }).expect("a good set");
    let mut metrics = Metrics::new(&manifest.system);
    let options = Options { first: First::Tasks, ..Options::default() };
    let limit = manifest.system.start + SPAN;
    simulate_observed(&manifest, &options, limit, &mut |record| metrics.observe(record))
        .expect("every invariant holds");
    metrics.tasks
}

/// The proved bounds.
fn proved(set: Set<'_>, policy: PolicyName) -> Report {
    let task = |(execution, period): &(u64, u64)| Task {
        execution: Nanoseconds(execution * MS),
        period: Nanoseconds(period * MS),
        deadline: Nanoseconds(period * MS),
        priority: 0,
    };
    let cluster = Cluster::new(CPUS, policy, set.iter().map(task).collect()).expect("a good set");
    analyse(&cluster, &Overheads::default(), &[]).expect("nothing but tasks takes time")
}

/// A bound in whole nanoseconds; a fraction would be another bound.
macro_rules! exactly {
    ($bound:expr) => {{
        let bound = $bound.as_ref().expect("there is a bound");
        assert!(bound.is_integer(), "{bound} ns");
        i64::try_from(bound.to_integer()).expect("a short time")
    }};
}

#[test]
fn the_third_of_three_tasks_on_two_cpus_is_four_milliseconds_tardy_where_eight_are_proved() {
    let set = [(8, 12); 3];
    let third = &observed(&set, PolicyName::Edf)[2];
    let tardiness = third.tardiness().expect("it has jobs");
    assert_eq!((third.skipped, tardiness.greatest), (0, 4 * MS.cast_signed()));
    for task in &proved(&set, PolicyName::Edf).tasks {
        let bounds = (exactly!(task.devi_tardiness), exactly!(task.printed_lateness));
        assert_eq!(bounds, (8 * MS.cast_signed(), 8 * MS.cast_signed()));
    }
}

#[test]
fn four_tasks_under_fair_lateness_are_less_late_than_the_one_bound_they_share() {
    let set = [(2, 10), (8, 12), (3, 6), (5, 20)];
    let report = proved(&set, PolicyName::Fl);
    for (seen, task) in observed(&set, PolicyName::Fl).iter().zip(&report.tasks) {
        let latest = seen.max_lateness().expect("it has jobs");
        assert_eq!(exactly!(task.printed_lateness), 5_181_250);
        let ours = task.bound.as_ref().expect("there is a bound").lateness.floor().to_integer();
        assert!(latest <= i64::try_from(ours).expect("a short time"), "{} is {latest} ns late", seen.name);
        assert!(latest < 5_181_250, "{} is {latest} ns late", seen.name);
        assert_eq!(seen.skipped, 0);
    }
}
