//! A trace for Perfetto: tracks of CPUs, engines and tasks, and flows from a call to its answer.
//!
//! | Track | Slices |
//! |---|---|
//! | CPU | each run, by its task and job |
//! | engine | each hold, by its task; the operation that was still at work when it was released |
//! | task | each job, from its release to its completion; deadlines that are missed and releases that are dropped are instants |
//!
//! A flow leads from the run of a client that calls to the run of the server, and one from the run that answers to the client's next.
//!
//! The format is protocol buffers, of which a trace needs some ten fields: `TracePacket`, `TrackDescriptor`, `TrackEvent` of
//! `perfetto_trace.proto`.

use std::collections::BTreeMap;

use fusee_abi::trace::Event;
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;

use fusee_views::schedule::Schedule;

//--- Protocol buffers

/// A message under way.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn fixed(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn message(self, field: u64, message: &Message) -> Self {
        self.bytes(field, &message.0)
    }
}

/// Fields of `Trace`,
const PACKET: u64 = 1;
/// of `TracePacket`,
const TIMESTAMP: u64 = 8;
const SEQUENCE: u64 = 10;
const TRACK_EVENT: u64 = 11;
const TRACK_DESCRIPTOR: u64 = 60;
/// of `TrackDescriptor`,
const UUID: u64 = 1;
const NAME: u64 = 2;
const PARENT: u64 = 5;
/// and of `TrackEvent`.
const TYPE: u64 = 9;
const TRACK: u64 = 11;
const EVENT_NAME: u64 = 23;
const FLOW: u64 = 47;
/// Values of `TrackEvent.type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;

/// Tracks with tracks below them.
const CPUS: u64 = 1;
const ENGINES: u64 = 2;
const TASKS: u64 = 3;
/// Where those of CPUs, engines and tasks begin.
const CPU: u64 = 0x100;
const ENGINE: u64 = 0x1_0000;
const TASK: u64 = 0x2_0000;

//--- Events

/// Something on a track.
struct Mark {
    time: u64,
    track: u64,
    kind: u64,
    name: String,
    flows: Vec<u64>,
}

/// Something on a track that lasts.
struct Slice {
    from: u64,
    until: u64,
    name: String,
    flows: Vec<u64>,
}

/// The slices and instants of each track.
#[derive(Default)]
struct Tracks {
    slices: BTreeMap<u64, Vec<Slice>>,
    instants: Vec<Mark>,
}

impl Tracks {
    fn slice(&mut self, track: u64, from: u64, until: u64, name: String, flows: Vec<u64>) {
        self.slices.entry(track).or_default().push(Slice { from, until, name, flows });
    }

    fn instant(&mut self, track: u64, time: u64, name: &str) {
        self.instants.push(Mark { time, track, kind: INSTANT, name: name.to_owned(), flows: Vec::new() });
    }

    /// All of it by time. On each track an end belongs to the slice that began last and has not ended, so a slice that would end after one
    /// that it begins in ends with that. A slice of no time begins before it ends.
    fn marks(self) -> Vec<Mark> {
        let mut marks = Vec::new();
        for (track, mut slices) in self.slices {
            slices.sort_by_key(|slice| (slice.from, std::cmp::Reverse(slice.until)));
            let end = |time: u64| Mark { time, track, kind: END, name: String::new(), flows: Vec::new() };
            // The ends of open slices, the innermost last.
            let mut open: Vec<u64> = Vec::new();
            for Slice { from, until, name, flows } in slices {
                while let Some(inner) = open.pop_if(|inner| *inner <= from) {
                    marks.push(end(inner));
                }
                let until = open.last().map_or(until, |outer| until.min(*outer));
                marks.push(Mark { time: from, track, kind: BEGIN, name, flows });
                open.push(until);
            }
            marks.extend(open.into_iter().rev().map(end));
        }
        marks.extend(self.instants);
        // Marks of one track stay in their order.
        marks.sort_by_key(|mark| mark.time);
        marks
    }
}

/// The trace in Perfetto's format.
#[must_use]
pub fn perfetto(trace: &Trace, system: &Resolved) -> Vec<u8> {
    let mut out = Message::default();
    let mut describe = |uuid: u64, name: &str, parent: Option<u64>| {
        let mut track = Message::default().number(UUID, uuid).bytes(NAME, name.as_bytes());
        if let Some(parent) = parent {
            track = track.number(PARENT, parent);
        }
        let packet = Message::default().number(SEQUENCE, 1).message(TRACK_DESCRIPTOR, &track);
        out = std::mem::take(&mut out).message(PACKET, &packet);
    };
    describe(CPUS, "CPUs", None);
    describe(TASKS, "tasks", None);
    if !system.engines.is_empty() {
        describe(ENGINES, "engines", None);
    }
    for cpu in 0..u64::from(system.cpus) {
        describe(CPU + cpu, &format!("CPU {cpu}"), Some(CPUS));
    }
    for (index, (name, _)) in system.engines.iter().enumerate() {
        describe(ENGINE + index as u64, name, Some(ENGINES));
    }
    for (index, task) in system.tasks.iter().enumerate() {
        describe(TASK + index as u64, &task.name, Some(TASKS));
    }
    for mark in tracks(trace, system).marks() {
        let mut event = Message::default().number(TYPE, mark.kind).number(TRACK, mark.track);
        if mark.kind != END {
            event = event.bytes(EVENT_NAME, mark.name.as_bytes());
        }
        for flow in mark.flows {
            event = event.fixed(FLOW, flow);
        }
        let packet = Message::default().number(TIMESTAMP, mark.time).number(SEQUENCE, 1).message(TRACK_EVENT, &event);
        out = out.message(PACKET, &packet);
    }
    out.0
}

fn tracks(trace: &Trace, system: &Resolved) -> Tracks {
    let schedule = Schedule::of(trace, system);
    let mut tracks = Tracks::default();
    let name = |task: usize| system.tasks.get(task).map_or("?", |task| task.name.as_str());
    let flows = Flows::of(trace, system);
    for run in &schedule.runs {
        let mut label =
            if run.job == 0 { name(run.task).to_owned() } else { format!("{}#{}", name(run.task), run.job) };
        if run.payer != run.task {
            label += &format!(" on {}", name(run.payer));
        }
        let own = flows.of_run(run.task, run.from);
        tracks.slice(CPU + u64::from(run.cpu), run.from, run.until, label, own);
    }
    for hold in &schedule.holds {
        tracks.slice(ENGINE + hold.of as u64, hold.from, hold.until, name(hold.task).to_owned(), Vec::new());
    }
    for drain in &schedule.drains {
        tracks.slice(
            ENGINE + drain.of as u64,
            drain.from,
            drain.until,
            format!("{} (drains)", name(drain.task)),
            Vec::new(),
        );
    }
    // Jobs of one task follow each other: one that queues begins as the one before ends.
    let mut ended: BTreeMap<usize, u64> = BTreeMap::new();
    for job in &schedule.jobs {
        let from = job.release.max(ended.get(&job.task).copied().unwrap_or(0));
        let until = job.completed.unwrap_or(schedule.end).max(from);
        ended.insert(job.task, until);
        let track = TASK + job.task as u64;
        tracks.slice(track, from, until, format!("{}#{}", name(job.task), job.number), Vec::new());
        if until > job.deadline {
            tracks.instant(track, job.deadline, "deadline missed");
        }
    }
    for (task, time) in &schedule.skips {
        tracks.instant(TASK + *task as u64, *time, "release dropped");
    }
    tracks
}

/// Calls and answers: which run a flow begins or ends at.
#[derive(Default)]
struct Flows {
    /// By task and instant at which it begins to run.
    runs: BTreeMap<(usize, u64), Vec<u64>>,
}

impl Flows {
    fn of(trace: &Trace, system: &Resolved) -> Self {
        let mut flows = Flows::default();
        // For each server the flow of the request it takes next, for each client that of its answer.
        let mut to_server: BTreeMap<usize, u64> = BTreeMap::new();
        let mut to_client: BTreeMap<usize, u64> = BTreeMap::new();
        let mut last_run: BTreeMap<usize, u64> = BTreeMap::new();
        let mut next = 1;
        for record in &trace.records {
            let Some(task) = usize::from(record.thread).checked_sub(1) else { continue };
            let mut begin = |task: usize, flow: u64| {
                if let Some(from) = last_run.get(&task) {
                    flows.runs.entry((task, *from)).or_default().push(flow);
                }
            };
            match Event::from_number(record.event) {
                Some(Event::Call) if record.value == 0 => {
                    let server = (record.object as usize).checked_sub(1).and_then(|one| system.endpoints.get(one));
                    if let Some((_, endpoint)) = server {
                        begin(task, next);
                        to_server.insert(endpoint.server as usize, next);
                        next += 1;
                    }
                }
                Some(Event::Reply) => {
                    if let Some(server) = (record.object as usize).checked_sub(1) {
                        begin(server, next);
                        to_client.insert(task, next);
                        next += 1;
                    }
                }
                Some(Event::SwitchTo) => {
                    last_run.insert(task, record.time);
                    let ends = [to_server.remove(&task), to_client.remove(&task)];
                    flows.runs.entry((task, record.time)).or_default().extend(ends.into_iter().flatten());
                }
                _ => {}
            }
        }
        flows
    }

    fn of_run(&self, task: usize, from: u64) -> Vec<u64> {
        self.runs.get(&(task, from)).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random;

    /// The slices of each track, and their ends.
    fn read(marks: &[Mark]) -> BTreeMap<u64, Vec<(u64, u64, String)>> {
        let mut closed: BTreeMap<u64, Vec<(u64, u64, String)>> = BTreeMap::new();
        let mut open: BTreeMap<u64, Vec<(u64, String)>> = BTreeMap::new();
        assert!(marks.is_sorted_by_key(|mark| mark.time));
        for mark in marks {
            match mark.kind {
                BEGIN => open.entry(mark.track).or_default().push((mark.time, mark.name.clone())),
                END => {
                    let (from, name) = open.get_mut(&mark.track).and_then(Vec::pop).expect("nothing is open");
                    closed.entry(mark.track).or_default().push((from, mark.time, name));
                }
                _ => {}
            }
        }
        assert!(open.values().all(Vec::is_empty), "something stays open");
        closed
    }

    fn marks(slices: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut tracks = Tracks::default();
        slices.iter().for_each(|(from, until)| tracks.slice(1, *from, *until, String::new(), Vec::new()));
        let read = read(&tracks.marks());
        read.into_values().flatten().map(|(from, until, _)| (from, until)).collect()
    }

    #[test]
    fn a_slice_without_length_begins_before_it_ends_whatever_is_beside_it() {
        assert_eq!(marks(&[(5, 5)]), [(5, 5)]);
        assert_eq!(marks(&[(0, 5), (5, 5), (5, 8)]), [(0, 5), (5, 5), (5, 8)]);
        assert_eq!(marks(&[(5, 5), (5, 5)]), [(5, 5), (5, 5)]);
    }

    #[test]
    fn what_would_end_after_what_it_begins_in_ends_with_it() {
        assert_eq!(marks(&[(0, 5), (3, 8)]), [(3, 5), (0, 5)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn on_every_track_what_begins_ends_and_nothing_else_does(trace in random::traces()) {
            let system = random::system();
            let tracks = tracks(&trace, &system);
            let given: BTreeMap<u64, Vec<(u64, u64, String)>> = tracks
                .slices
                .iter()
                .map(|(track, slices)| {
                    (*track, slices.iter().map(|one| (one.from, one.until, one.name.clone())).collect())
                })
                .collect();
            let read = read(&tracks.marks());
            for (track, mut given) in given {
                let mut read = read.get(&track).cloned().unwrap_or_default();
                given.sort();
                read.sort();
                let apart = given.windows(2).all(|pair| pair[0].1 <= pair[1].0);
                prop_assert_eq!(given.len(), read.len());
                prop_assert!(!apart || given == read, "{:?} {:?}", given, read);
            }
        }
    }
}
