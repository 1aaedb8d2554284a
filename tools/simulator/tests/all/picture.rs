//! Pictures of schedules: one that is written down, and properties of all.

use std::path::Path;

use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, PolicyName};
use fusee_simulator::workload::Platform;
use fusee_simulator::{Options, Overheads, simulate_with};
use fusee_views::picture::Drawing;
use fusee_views::schedule::{Run, Schedule};
use proptest::prelude::*;

use super::common::{MS, generated, parse};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/pictures/a_task_that_overruns.svg");

/// `greedy` wants 6 ms but may have 4; the rest of its job is done in the next period, late.
const TINY: &str = r#"
[system]
name = "tiny"
board = "virt"
cpus = 2
start = "10ms"

[tasks.steady]
script = ["burn 2ms"]
period = "5ms"
budget = "3ms"

[tasks.greedy]
script = ["burn 6ms"]
period = "10ms"
budget = "4ms"

[tasks.long]
script = ["burn 9ms"]
period = "20ms"
deadline = "15ms"
budget = "10ms"
"#;

fn schedule(manifest: &Manifest, overheads: Overheads, limit: u64) -> Schedule {
    let options = Options { overheads, ..Options::default() };
    let report = simulate_with(manifest, &options, limit).unwrap_or_else(|error| panic!("{error}"));
    Schedule::of(&Trace::from_records(report.records), &manifest.system)
}

/// A new picture is put beside the old one, for a person to look at.
#[test]
fn the_picture_of_a_tiny_system_is_the_one_that_was_looked_at() {
    let manifest = parse(TINY);
    let drawing = Drawing { title: "a <tiny> system", window: 10 * MS..45 * MS, width: 838 };
    let picture = schedule(&manifest, Overheads::NONE, 60 * MS).picture(&manifest.system, &drawing);
    let golden = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    if picture != golden {
        let new = Path::new(GOLDEN).with_extension("new.svg");
        std::fs::write(&new, &picture).unwrap_or_else(|error| panic!("{error}"));
        panic!("the picture has changed: if {} is good, let it take the place of {GOLDEN}", new.display());
    }
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
