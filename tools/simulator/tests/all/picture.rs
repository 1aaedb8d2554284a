//! Schedules of traces: properties of all.

use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, PolicyName};
use fusee_simulator::workload::Platform;
use fusee_simulator::{Options, Overheads, simulate_with};
use fusee_views::schedule::{Run, Schedule};
use proptest::prelude::*;

use super::common::{MS, generated};

fn schedule(manifest: &Manifest, overheads: Overheads, limit: u64) -> Schedule {
    let options = Options { overheads, ..Options::default() };
    let report = simulate_with(manifest, &options, limit).unwrap_or_else(|error| panic!("{error}"));
    Schedule::of(&Trace::from_records(report.records), &manifest.system)
}

fn overlap(runs: &[Run], same: impl Fn(&Run, &Run) -> bool) -> Option<(Run, Run)> {
    runs.iter().enumerate().find_map(|(index, one)| {
        let other =
            runs[index + 1..].iter().find(|other| same(one, other) && one.from < other.until && other.from < one.until);
        other.map(|other| (*one, *other))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_two_bars_overlap_on_a_cpu_or_in_a_task_and_no_job_begins_before_its_release(
        seed: u64,
        tasks in 2usize..9,
        cpus in 1u32..4,
        policy in prop::sample::select(PolicyName::ALL.to_vec()),
        cost in prop::sample::select(vec![0u64, 500, 20_000]),
    ) {
        let words = format!("uunifast,n={tasks},u={}.5,deadlines=arbitrary", (cpus - 1).min(tasks as u32 - 1));
        let overheads = Overheads {
            release: cost,
            schedule: cost,
            context_switch: cost,
            call_in: cost,
            call_out: cost,
            interrupt: cost,
            interprocessor_interrupt: cost,
        };
        let platform = Platform { clusters: vec![cpus], policy, overheads };
        let manifest = generated(&words, seed, &platform);
        let schedule = schedule(&manifest, overheads, 200 * MS);
        prop_assert_eq!(overlap(&schedule.runs, |one, other| one.cpu == other.cpu), None);
        prop_assert_eq!(overlap(&schedule.runs, |one, other| one.task == other.task), None);
        for job in &schedule.jobs {
            let first = schedule.runs.iter().find(|run| run.task == job.task && run.job == job.number);
            prop_assert!(first.is_none_or(|run| run.from >= job.release), "{job:?} {first:?}");
        }
    }
}
