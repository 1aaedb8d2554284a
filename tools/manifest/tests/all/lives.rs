//! How long a service is away that ends and begins again.

use std::path::Path;

use fusee_abi::image::feature;
use fusee_manifest::Manifest;
use fusee_manifest::admission::{Recovery, recoveries};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::Overheads;

const SYSTEM: &str = r#"
[system]
name = "lives"
board = "virt"
cpus = 1

[supervisor]
task = "watcher"

[tasks.watcher]
binary = "supervisor/supervisor"
period = "10ms"
deadline = "9ms"
budget = "2500us"
wcet = "400us"
suspends = "2ms"
hard = true

[tasks.control]
script = ["burn 900us"]
period = "5ms"
budget = "1ms"
hard = true

[tasks.one]
script = ["serve requests"]
restart = { delay = "1ms", longest_delay = "4ms", start_within = "1500us" }
handles = { requests = "endpoint requests: receive" }

[tasks.two]
script = ["burn 1us"]
class = "background"
restart = { at_most = 2, within = "1s", start_within = "500us" }

[tasks.three]
script = ["burn 1us"]
class = "background"
restart = "never"

[endpoints.requests]
server = "one"
"#;

fn recovered(text: &str) -> Vec<Recovery> {
    let manifest = Manifest::parse(Path::new("lives.toml"), text).unwrap_or_else(|errors| panic!("{errors}"));
    recoveries(&manifest.system, &Overheads::default())
}

fn reason(changes: &[(&str, &str)]) -> String {
    let text = changes.iter().fold(SYSTEM.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    recovered(&text)[0].bound.clone().expect_err("it is not bounded")
}

/// By hand: a period, and the watcher's response time: its own work, that of the tasks that begin, its wait, 4.5 ms, and one job of `control`, which comes first.
#[test]
fn a_service_is_up_after_its_longest_delay_a_period_and_the_supervisors_response_time() {
    let found = recovered(SYSTEM);
    let milliseconds = |number: u64| Nanoseconds(number * 1_000_000);
    let delays: Vec<_> = found.iter().map(|one| (one.task, one.delay)).collect();
    assert_eq!(delays, [(2, milliseconds(4)), (3, milliseconds(1_000))], "`three` has no further life");
    let response = Nanoseconds(found[0].bound.clone().unwrap().0 - 14_000_000);
    assert_eq!(response.0, 5_500_000);
    assert_eq!(found[1].bound, Ok(milliseconds(1_010) + response));
}

#[test]
fn without_jobs_or_with_too_little_time_for_all_that_begin_or_without_a_proof_there_is_no_bound() {
    assert_eq!(
        reason(&[(
            "period = \"10ms\"\ndeadline = \"9ms\"\nbudget = \"2500us\"\nwcet = \"400us\"\nsuspends = \"2ms\"\nhard = true",
            "class = \"service\"\nperiod = \"10ms\"\nbudget = \"2500us\""
        )]),
        "`watcher` has no jobs, so nothing says when it sees an end"
    );
    assert_eq!(
        reason(&[("suspends = \"2ms\"\nhard = true", "suspends = \"1999us\"")]),
        "all that `watcher` watches may end at once, and `suspends` of `watcher` is shorter than their `start_within` in sum, 2.000 ms"
    );
    assert_eq!(
        reason(&[
            ("deadline = \"9ms\"", "deadline = \"3ms\""),
            ("budget = \"1ms\"\nhard = true", "budget = \"1ms\""),
            ("suspends = \"2ms\"\nhard = true", "suspends = \"2ms\"")
        ]),
        "that `watcher` meets its deadlines is not proved"
    );
    assert_eq!(
        reason(&[("wcet = \"400us\"", "wcet = \"501us\""), ("suspends = \"2ms\"\nhard = true", "suspends = \"2ms\"")]),
        "what `watcher` watches begins again on its budget, and that, 2.500 ms, is shorter than its `wcet`, 0.501 ms, and their \
         `start_within` in sum, 2.000 ms"
    );
}

/// A bound that needs the good behaviour of another task is no bound: that one may hold the engine for longer.
#[test]
fn a_proof_that_rests_on_what_nothing_enforces_bounds_nothing() {
    let user = "handles = { lock = \"engine lock: acquire\" }\nuses.lock = { cpu = \"10us\" }";
    let shared = format!("class = \"background\"\n{user}\nrestart = {{ at_most");
    let watcher = format!("suspends = \"2ms\"\n{user}");
    let changes = [
        ("suspends = \"2ms\"\nhard = true", watcher.as_str()),
        ("class = \"background\"\nrestart = { at_most", shared.as_str()),
        ("[endpoints.requests]", "[engines.lock]\n\n[endpoints.requests]"),
    ];
    assert_eq!(reason(&changes), "that `watcher` meets its deadlines is not proved");
    let kept = shared.replace("class", "trusted = true\nclass");
    let text = [changes[0], ("class = \"background\"\nrestart = { at_most", kept.as_str()), changes[2]];
    let text = text.iter().fold(SYSTEM.to_owned(), |text, (from, to)| text.replace(from, to));
    assert!(recovered(&text)[0].bound.is_ok(), "{:?}", recovered(&text));
}

#[test]
fn who_has_no_supervisor_has_no_further_lives() {
    let text = "[system]\nname = \"one\"\nboard = \"virt\"\ncpus = 1\n[tasks.one]\nscript = [\"burn 1us\"]\nclass = \"background\"\n";
    assert_eq!(recovered(text), []);
}

const DORMANT: &str = r#"
[system]
name = "dormant"
board = "virt"
cpus = 1

[tasks.director]
script = ["start worker", "stop worker"]
class = "background"
handles = { worker = "task worker: start stop" }

[tasks.worker]
script = ["burn 1us"]
class = "background"
dormant = true
"#;

#[test]
fn a_dormant_task_is_started_by_somebody() {
    let read = |from: &str, to: &str| {
        assert!(DORMANT.contains(from), "{from}");
        Manifest::parse(Path::new("dormant.toml"), &DORMANT.replace(from, to))
    };
    let system = read("dormant = true", "dormant = true").unwrap_or_else(|errors| panic!("{errors}")).system;
    assert_eq!(system.tasks.iter().map(|task| task.supervision.is_dormant).collect::<Vec<_>>(), [false, true]);
    assert_ne!(system.features() & feature::RESTART, 0);
    let cases = [
        ("start stop\"", "stop\"", "dormant of `worker` needs a task that starts it: with the right `start`"),
        ("dormant = true", "", "right `start` of `worker` needs `dormant = true`: others begin by themselves"),
        (
            "dormant = true",
            "dormant = false",
            "right `start` of `worker` needs `dormant = true`: others begin by themselves",
        ),
    ];
    for (from, to, expected) in cases {
        let errors = read(from, to).unwrap_err();
        assert!(errors.0.iter().any(|error| error.reason.to_string() == expected), "{to}: {errors}");
    }
}

#[test]
fn the_driver_of_a_device_is_no_supervisor() {
    let device = "[devices.gpu]\ndriver = \"watcher\"\nfirmware = \"engine-core\"\nmemory = \"64KiB\"\n";
    let errors = Manifest::parse(Path::new("lives.toml"), &(SYSTEM.to_owned() + device)).unwrap_err().to_string();
    let expected = "lives.toml:8: supervisor of `watcher` means nothing together with being the driver of a device";
    assert!(errors.contains(expected), "{errors}");
}
