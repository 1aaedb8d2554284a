//! The demo's trace, as Perfetto's published schema reads it, against the schedule it was made of.

use std::collections::BTreeMap;
use std::path::Path;

use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_exports::perfetto::perfetto;
use fusee_views::schedule::Schedule;
use perfetto_protos::track_event::track_event::Type;
use protobuf::Message;

const MILLISECOND: u64 = 1_000_000;

#[test]
fn the_published_schema_reads_as_many_slices_and_instants_as_the_schedule_has_at_the_same_times() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("three folders down");
    let calls = "tests/conformance/a_call_to_a_server_of_higher_priority_adds_nothing_to_the_callers_budget.toml";
    for (file, limit, has_flows) in [("userland/demo/demo.toml", 300, false), (calls, 1_000, true)] {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
        let manifest = Manifest::parse(&path, &text).unwrap_or_else(|error| panic!("{error}"));
        let report =
            fusee_simulator::simulate(&manifest, None, limit * MILLISECOND).unwrap_or_else(|error| panic!("{error}"));
        let trace = Trace::from_records(report.records);
        let schedule = Schedule::of(&trace, &manifest.system);
        let bytes = perfetto(&trace, &manifest.system);
        let read = perfetto_protos::trace::Trace::parse_from_bytes(&bytes).expect("it is a trace");
        assert_eq!(read.special_fields.unknown_fields().iter().count(), 0);
        let (mut begins, mut ends, mut instants, mut tracks, mut flows) = (Vec::new(), 0, 0, 0, Vec::new());
        // On each track what is open, and since when.
        let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut lasted: Vec<(u64, u64)> = Vec::new();
        for packet in &read.packet {
            assert_eq!(packet.special_fields.unknown_fields().iter().count(), 0);
            if packet.has_track_descriptor() {
                tracks += 1;
            }
            if packet.has_track_event() {
                let event = packet.track_event();
                assert_eq!(event.special_fields.unknown_fields().iter().count(), 0);
                flows.extend(event.flow_ids.iter().copied());
                match event.type_() {
                    Type::TYPE_SLICE_BEGIN => {
                        begins.push(packet.timestamp());
                        open.entry(event.track_uuid()).or_default().push(packet.timestamp());
                    }
                    Type::TYPE_SLICE_END => {
                        let from = open.get_mut(&event.track_uuid()).and_then(Vec::pop);
                        lasted.push((from.expect("it has begun"), packet.timestamp()));
                        ends += 1;
                    }
                    Type::TYPE_INSTANT => instants += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        let system = &manifest.system;
        let slices = schedule.runs.len() + schedule.holds.len() + schedule.drains.len() + schedule.jobs.len();
        assert_eq!((begins.len(), ends), (slices, slices));
        assert!(open.values().all(Vec::is_empty), "something stays open");
        let of_cpus = schedule.runs.iter().map(|run| (run.from, run.until));
        let of_engines = schedule.holds.iter().chain(&schedule.drains).map(|span| (span.from, span.until));
        assert!(of_cpus.chain(of_engines).all(|span| lasted.contains(&span)), "a run or a hold lasts otherwise");
        let late = |job: &&fusee_views::schedule::Job| job.completed.unwrap_or(schedule.end) > job.deadline;
        assert_eq!(instants, schedule.jobs.iter().filter(late).count() + schedule.skips.len());
        let groups = if system.engines.is_empty() { 2 } else { 3 };
        assert_eq!(tracks, groups + system.cpus as usize + system.engines.len() + system.tasks.len());
        // Each flow has two ends, but those that are under way as the trace ends.
        assert_eq!(!flows.is_empty(), has_flows);
        let ends_of = |flow: &u64| flows.iter().filter(|other| *other == flow).count();
        assert!(flows.iter().all(|flow| ends_of(flow) <= 2));
    }
}
