//! Time does not wrap: a system that starts at 2^32 ns, at 2^53 ns or years after boot has, to the nanosecond, the
//! schedule of one that starts at once.

use std::path::Path;

use fusee_abi::trace::{Event, Record};
use fusee_manifest::{Manifest, PolicyName, Variant};
use fusee_simulator::simulate;

use super::common::MS;

const SECOND: u64 = 1_000 * MS;
const YEAR: u64 = 365 * 24 * 3600 * SECOND;

/// Jobs of all overrun policies, sleeps, calls and sporadic releases on two CPUs, for 100 ms.
const SYSTEM: &str = r#"
[system]
name = "instants"
board = "virt"
cpus = 2
admission = "warn"

[tasks.camera]
script = ["burn 3ms", "call store 1ms", "release_job plan"]
period = "10ms"
budget = "5ms"
priority = 3
handles = { store = "endpoint store: call", plan = "task plan: release_job" }

[tasks.plan]
script = ["burn 6ms", "sleep 9ms", "burn 1ms"]
release = "sporadic"
period = "20ms"
deadline = "17ms"
budget = "8ms"
priority = 4

[tasks.late]
script = ["burn 5ms", "yield", "burn 1ms"]
period = "8ms"
budget = "3ms"
overrun = "signal"
priority = 1

[tasks.greedy]
script = ["burn 7ms"]
period = "25ms"
deadline = "70ms"
wcet = "2ms"
budget = "4ms"
overrun = "early-release"
backlog = 3
priority = 2

[tasks.store]
script = ["serve store"]
handles = { store = "endpoint store: receive" }

[tasks.end]
script = ["shutdown"]
period = "1ms"
deadline = "100us"
phase = "100ms"
budget = "100us"
priority = 5
handles = { system = "system: shutdown" }

[endpoints.store]
server = "store"
"#;

/// The events from the start on, with instants counted from there.
fn from_start(policy: PolicyName, start: u64) -> Vec<Record> {
    let mut text = SYSTEM.to_owned();
    if !matches!(policy, PolicyName::Edf | PolicyName::Fl) {
        // Where keys are no deadlines, no task may release early.
        text = text.replace("early-release", "throttle");
    }
    let variant = Variant { policy: Some(policy), ..Variant::default() };
    let mut manifest =
        Manifest::parse_variant(Path::new("instants.toml"), &text, &variant).expect("the manifest is good");
    // Later than a manifest may say.
    manifest.system.start = start;
    let report = simulate(&manifest, None, start + SECOND).expect("every invariant holds");
    assert_eq!(report.exit, Some(0));
    let records = report.records.into_iter().filter(|record| record.time >= start);
    // Ledgers count from boot.
    let records = records.filter(|record| record.event != Event::Ledger as u8);
    // A key is an instant, too, or a constant, by the policy.
    let is_run = |record: &Record| [Event::SwitchTo as u8, Event::RunOn as u8].contains(&record.event);
    let value = |record: &Record| if is_run(record) { 0 } else { record.value };
    records.map(|record| Record { time: record.time - start, value: value(&record), ..record }).collect()
}

#[test]
fn a_system_that_starts_late_does_the_same_later() {
    for policy in PolicyName::ALL {
        let at_once = from_start(policy, SECOND);
        assert!(at_once.len() > 200, "{} records", at_once.len());
        let starts = [(1 << 32) - 50 * MS, 1 << 32, (1 << 53) - 50 * MS, 1 << 53, 3 * YEAR, 100 * YEAR];
        for start in starts {
            let later = from_start(policy, start);
            let differs = later.iter().zip(&at_once).find(|(later, at_once)| later != at_once);
            assert_eq!(differs, None, "{} from {start} ns on", policy.name());
            assert_eq!(later.len(), at_once.len(), "{} from {start} ns on", policy.name());
        }
    }
}

/// Priority points saturate 146 years after boot, instants 584 years after: from there on order is lost, but nothing
/// wraps, and budgets are still kept.
#[test]
fn beyond_the_last_instant_nothing_wraps() {
    let records = from_start(PolicyName::Edf, 150 * YEAR);
    let completed = records.iter().filter(|record| record.event == Event::Complete as u8).count();
    assert!(completed > 10, "{completed} jobs");
    for record in records.iter().filter(|record| record.event == Event::Complete as u8) {
        assert!(record.value.cast_signed().abs() < 200_000_000, "lateness {}", record.value.cast_signed());
    }
}
