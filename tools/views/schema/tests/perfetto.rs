//! The demo's trace, as Perfetto's published schema reads it, against the schedule it was made of.

use std::path::Path;

use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_views::perfetto::perfetto;
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
                    Type::TYPE_SLICE_BEGIN => begins.push(packet.timestamp()),
                    Type::TYPE_SLICE_END => ends += 1,
                    Type::TYPE_INSTANT => instants += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        let system = &manifest.system;
        let slices = schedule.runs.len() + schedule.holds.len() + schedule.drains.len() + schedule.jobs.len();
        assert_eq!((begins.len(), ends), (slices, slices));
        let late = |job: &&fusee_views::schedule::Job| job.completed.unwrap_or(schedule.end) > job.deadline;
        assert_eq!(instants, schedule.jobs.iter().filter(late).count() + schedule.skips.len());
        let of_cpus = schedule.runs.iter().map(|run| run.from);
        assert!(of_cpus.into_iter().all(|from| begins.contains(&from)), "a run begins at another time");
        let groups = if system.engines.is_empty() { 2 } else { 3 };
        assert_eq!(tracks, groups + system.cpus as usize + system.engines.len() + system.tasks.len());
        // Each flow has two ends, but those that are under way as the trace ends.
        assert_eq!(!flows.is_empty(), has_flows);
        let ends_of = |flow: &u64| flows.iter().filter(|other| *other == flow).count();
        assert!(flows.iter().all(|flow| ends_of(flow) <= 2));
    }
}
