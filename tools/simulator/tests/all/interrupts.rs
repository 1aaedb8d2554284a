//! Interrupts of devices that hit a hard task of another cluster, with kernel paths that take time: the bounds of the analysis, and
//! the observations.

use fusee_manifest::Manifest;
use fusee_manifest::admission::Study;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::report::Hard;
use fusee_simulator::overheads::Overheads;
use fusee_simulator::{Options, simulate_observed};
use fusee_views::metrics::Metrics;

use super::common::{self, Device, MS};

/// The costs that `cargo xtask bench` measured.
const COSTS: &str = include_str!("../../../../tests/bench/overheads.toml");

/// A hard task alone on CPU 0; client and driver of a device on CPU 1; the device's line leads to CPU 0.
const SYSTEM: &str = r#"
[system]
name = "interrupts"
board = "virt"
cpus = 2
start = "10ms"
admission = "warn"

[clusters.a]
cpus = [0]
[clusters.b]
cpus = [1]

[tasks.high]
script = ["burn 5_090us"]
period = "20ms"
budget = "5100us"
wcet = "5_090us"
cluster = "a"
hard = true
deadline = "5150us"

[tasks.hog]
script = ["acquire ee", "start ee 25us", "submit ee 25us gpu_done", "release ee"]
period = "100us"
budget = "100us"
backlog = 255
cluster = "b"
handles = { ee = "engine ee: acquire", gpu_done = "notification done: wait", ring = "region ring: read write" }

[notifications.done]
bound = "gpu"
[regions.tables]
bytes = "16KiB"
[regions.ring]
bytes = "4KiB"
"#;

const DEVICE: Device<'static> = Device {
    cluster: None,
    driver: "period = \"10ms\"\nbudget = \"5100us\"\ncluster = \"b\"",
    handles: "tables = \"region tables: read write physical\"\n\"ring.hog\" = \"region ring: physical\"\n\
              \"done.hog\" = \"notification done: signal\"",
    interrupt: "cpu = 0",
    engines: &[("ee", "")],
    ..Device::GPU
};

/// One operation in each job, and the client's declaration of it.
const DECLARED: [(&str, &str); 2] = [
    ("\"start ee 25us\", ", ""),
    ("backlog = 255\n", "backlog = 1\nwcet = \"20us\"\nuses.ee = { operation = \"50us\", cpu = \"10us\" }\n"),
];

/// The verdict on a task: its bound in nanoseconds, whether it is proved, and the events that are not counted.
struct Said {
    bound: Option<u64>,
    hard: bool,
    uncounted: Vec<String>,
}

fn changed(changes: &[(&str, &str)]) -> Manifest {
    let change = |text: String, (from, to): &(&str, &str)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    };
    common::parse(&changes.iter().fold(SYSTEM.to_owned() + &DEVICE.text(), change))
}

/// The verdict of the analysis on `high`.
fn said(manifest: &Manifest) -> Said {
    let mut costs = fusee_sched_analysis::Overheads::default();
    for (key, value) in COSTS.parse::<toml::Table>().expect("a table") {
        let cost = value.as_integer().expect("nanoseconds");
        *costs.by_name(&key).expect("a cost") = Nanoseconds(u64::try_from(cost).expect("nanoseconds"));
    }
    let mut study = Study::new(&manifest.system, 0).expect("a good cluster");
    study.count_interrupts(&manifest.system, 0);
    let (report, _) = study.analyse(&costs).expect("bounds");
    let task = &report.tasks[0];
    let bound =
        task.bound.as_ref().map(|bound| u64::try_from(bound.response.ceil().to_integer()).expect("a short time"));
    let uncounted: Vec<String> = study.undeclared.iter().map(|one| format!("{} {}", one.lock, one.why)).collect();
    Said { bound, hard: task.hard == Hard::Proved && study.uncounted[0].is_empty(), uncounted }
}

/// The longest response time of `high` in half a second, and how often it is late.
fn seen(manifest: &Manifest) -> (u64, u64) {
    let overheads = Overheads::parse(COSTS).expect("costs");
    let mut metrics = Metrics::new(&manifest.system);
    let options = Options { overheads, ..Options::default() };
    let limit = manifest.system.start + 500 * MS;
    simulate_observed(manifest, &options, limit, &mut |record| metrics.observe(record)).expect("every invariant holds");
    let high = &metrics.tasks[0];
    assert!(high.jobs() >= 24);
    let lateness = high.max_lateness().expect("it has jobs");
    let deadline = manifest.system.reservations[0].deadline;
    (deadline.saturating_add_signed(lateness), high.misses())
}

#[test]
fn a_deadline_that_undeclared_interrupts_break_is_not_proved() {
    let manifest = changed(&[]);
    let said = said(&manifest);
    assert!(!said.hard);
    assert_eq!(
        said.uncounted,
        ["top halves of interrupt `gpu`, which leads to CPU 0, `hog` does not say how often it uses the device"]
    );
    assert!(seen(&manifest).1 > 0, "it is late");
}

#[test]
fn declared_interrupts_are_in_the_bound() {
    let manifest = changed(&DECLARED);
    let said = said(&manifest);
    let (response, _) = seen(&manifest);
    assert_eq!((said.hard, said.uncounted.len()), (false, 0));
    let bound = said.bound.expect("a bound");
    assert!(bound > 5_150_000 && response <= bound, "{response} of {bound} ns");
    // Without them it would be said to be in time.
    let elsewhere = changed(&[DECLARED[0], DECLARED[1], ("cpu = 0\n", "cpu = 1\n")]);
    assert!(self::said(&elsewhere).bound.is_some_and(|bound| bound <= 5_150_000));
}

#[test]
fn interrupts_that_are_rare_leave_a_hard_task_proved_and_in_time() {
    let rare = [DECLARED[0], DECLARED[1], ("period = \"100us\"", "period = \"5ms\""), ("\"5150us\"", "\"5200us\"")];
    let manifest = changed(&rare);
    let said = said(&manifest);
    let (response, missed) = seen(&manifest);
    assert!(said.hard && missed == 0, "{:?} {missed}", said.bound);
    assert!(said.bound.is_some_and(|bound| response <= bound));
}

#[test]
fn a_line_that_leads_to_another_cluster_and_a_client_without_jobs_are_told_apart() {
    let elsewhere = changed(&[("cpu = 0\n", "cpu = 1\n")]);
    assert!(said(&elsewhere).hard);
    assert_eq!(seen(&elsewhere).1, 0);
    let background =
        changed(&[("period = \"100us\"\nbudget = \"100us\"\nbacklog = 255\n", "class = \"background\"\n")]);
    assert!(!said(&background).hard);
}

#[test]
fn that_a_client_submits_no_more_than_it_says_is_relied_on_only_if_it_is_trusted() {
    let rare = [DECLARED[0], DECLARED[1], ("period = \"100us\"", "period = \"5ms\""), ("\"5150us\"", "\"5200us\"")];
    let doubts = |manifest: &Manifest| {
        let mut study = Study::new(&manifest.system, 0).expect("a good cluster");
        study.count_interrupts(&manifest.system, 0);
        study.unenforced[0].clone()
    };
    let expected = "`hog` may have interrupt `gpu` fire more often than it says; is it `hard`, or to be `trusted`?";
    assert_eq!(doubts(&changed(&rare)).as_deref(), Some(expected));
    let trusted = [&rare[..], &[("backlog = 1\n", "backlog = 1\ntrusted = true\n")]].concat();
    assert_eq!(doubts(&changed(&trusted)), None);
    // The operations of a client that is not trusted.
    let many = format!("\"acquire ee\", {}", "\"submit ee 1us gpu_done\", ".repeat(100));
    let lies = [&rare[..], &[("\"acquire ee\", ", many.as_str()), ("budget = \"100us\"", "budget = \"4ms\"")]].concat();
    assert!(seen(&changed(&lies)).1 > 0, "it is late");
}
