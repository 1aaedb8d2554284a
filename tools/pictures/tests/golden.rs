//! The picture of a schedule that is written down.

use std::path::Path;

use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_pictures::picture::{Drawing, picture};
use fusee_simulator::simulate;
use fusee_views::schedule::Schedule;

const MS: u64 = 1_000_000;
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/a_task_that_overruns.svg");

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

/// A new picture is put beside the old one, for a person to look at.
#[test]
fn the_picture_of_a_tiny_system_is_the_one_that_was_looked_at() {
    let manifest = Manifest::parse(Path::new("tiny.toml"), TINY).unwrap_or_else(|error| panic!("{error}"));
    let drawing = Drawing { title: "a <tiny> system", window: 10 * MS..45 * MS, width: 838 };
    let report = simulate(&manifest, None, 60 * MS).unwrap_or_else(|error| panic!("{error}"));
    let schedule = Schedule::of(&Trace::from_records(report.records), &manifest.system);
    let picture = picture(&schedule, &manifest.system, &drawing);
    let golden = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    if picture != golden {
        let new = Path::new(GOLDEN).with_extension("new.svg");
        std::fs::write(&new, &picture).unwrap_or_else(|error| panic!("{error}"));
        panic!("the picture has changed: if {} is good, let it take the place of {GOLDEN}", new.display());
    }
}
