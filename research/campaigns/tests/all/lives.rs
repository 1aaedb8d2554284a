//! Further lives beside tasks that are proved.

use std::path::Path;

use fusee_abi::trace::{Event, Record};
use fusee_campaigns::hostile::COSTS;
use fusee_manifest::Manifest;
use fusee_simulator::{Options, Report, simulate_with};
use fusee_views::metrics::Metrics;

/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;
/// Ten seconds.
const LONG: u64 = 10_000 * MS;

/// The demo with a supervisor that has jobs each 20 ms, without its saboteur, and `tasks`.
fn demo(tasks: &str) -> Manifest {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../userland/demo/faults.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut table: toml::Table = format!("{text}\n{tasks}").parse().unwrap();
    let tasks = table["tasks"].as_table_mut().unwrap();
    tasks["saboteur"]["script"] = vec!["sleep 1ms".to_owned()].into();
    tasks["director"]["model"] = vec!["sleep 20s".to_owned()].into();
    Manifest::parse(&file, &toml::to_string(&table).unwrap()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn run(manifest: &Manifest) -> Report {
    simulate_with(manifest, &Options { overheads: COSTS, ..Options::default() }, LONG).unwrap()
}

/// The instants of all records of `event` about the task `name`.
fn times(manifest: &Manifest, report: &Report, event: Event, name: &str) -> Vec<u64> {
    let task = manifest.system.tasks.iter().position(|task| task.name == name).unwrap();
    let is_it = |record: &&Record| record.event == event as u8 && usize::from(record.thread) == task + 1;
    report.records.iter().filter(is_it).map(|record| record.time).collect()
}

/// A task that ends at its first instruction, in each life.
fn crashes(name: &str, restart: &str) -> String {
    format!(
        "[tasks.{name}]\nbinary = \"apps/hello\"\ncluster = \"vision\"\nclass = \"background\"\nrestart = {{ {restart} }}\n"
    )
}

/// Of two tasks that crash at once, always, one is given another life again and again, with delays that double up to 64 ms; the other three times.
/// The supervisor looks each 20 ms: a life begins in the first of its jobs that is released once the delay is over. No hard task notices.
#[test]
fn a_crash_loop_of_ten_seconds_costs_no_deadline_and_lives_begin_as_the_policy_says() {
    let always = crashes("crasher", "delay = \"1ms\", longest_delay = \"64ms\", start_within = \"10us\"");
    let thrice = crashes("doomed", "at_most = 3, within = \"20s\", delay = \"1ms\", start_within = \"10us\"");
    let manifest = demo(&(always + &thrice));
    let report = run(&manifest);
    let mut metrics = Metrics::new(&manifest.system);
    report.records.iter().for_each(|record| metrics.observe(record));
    for (task, seen) in manifest.system.tasks.iter().zip(&metrics.tasks).filter(|(task, _)| task.hard) {
        assert!(seen.jobs() > 200 && seen.misses() + seen.skipped == 0, "{}: {seen:?}", task.name);
    }
    // Six lives in the first 150 ms, then one each 80 ms.
    for (name, lives) in [("crasher", 129), ("doomed", 3)] {
        let ends = times(&manifest, &report, Event::Exit, name);
        let begun = times(&manifest, &report, Event::Restart, name);
        assert_eq!((begun.len(), ends.len()), (lives, lives + 1), "{name}");
        for (number, (end, begun)) in ends.iter().zip(&begun).enumerate() {
            let delay = (MS << number.min(10)).min(if name == "doomed" { 1_000 * MS } else { 64 * MS });
            let look = (end + delay).saturating_sub(10 * MS).next_multiple_of(20 * MS) + 10 * MS;
            assert!((look..look + MS).contains(begun), "{name}, life {number}: {begun} ns, not {look}");
        }
    }
}
