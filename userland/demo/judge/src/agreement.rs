//! Whether a run and its simulation used the engines in the same order.
//!
//! Free-running systems drift: a best-effort client's operation may end a microsecond before or after a
//! request, and then the next grant goes to another. The two sides must agree, for each engine, on the grants and completions of each task with
//! jobs, job by job; and on the order in which tasks without jobs took turns.

use std::collections::BTreeMap;

use fusee_abi::trace::Event;
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;

/// The compared events.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Agreement {
    /// Grants and completions in the run.
    pub compared: usize,
    /// The number of those that the simulation has in the same place.
    pub equal: usize,
}

/// One event: grant or idle, and its job.
type Step = (u8, u16, u32);
/// Events of one engine, of one task; of all jobless tasks together as task 0.
type Sequences = BTreeMap<(u32, u16), Vec<Step>>;

/// Compares the engine events of a run with those of its simulation.
///
/// Jobless tasks fill the remaining time, and a delay of one of their events by `late` nanoseconds, a round of the emulated CPUs' turns, leaves
/// that much less of it. So one side may have as many more of them as fit into one such delay for each of them.
pub fn compare(system: &Resolved, run: &Trace, simulation: &Trace, late: u64) -> Agreement {
    let times = run.records.iter().map(|record| record.time);
    let length = times.clone().max().unwrap_or(0) - times.min().unwrap_or(0);
    let (ours, theirs) = (sequences(system, run), sequences(system, simulation));
    let mut agreement = Agreement::default();
    for key in ours.keys().chain(theirs.keys().filter(|key| !ours.contains_key(*key))) {
        let empty = Vec::new();
        let (one, other) = (ours.get(key).unwrap_or(&empty), theirs.get(key).unwrap_or(&empty));
        let longer = one.len().max(other.len());
        let surplus = longer - one.len().min(other.len());
        let equal = one.iter().zip(other).take_while(|(one, other)| one == other).count();
        let is_for_turns = surplus as u64 * length <= (longer as u64).pow(2) * late;
        let forgiven = if key.1 == 0 && is_for_turns { surplus } else { 0 };
        agreement.compared += longer - forgiven;
        agreement.equal += equal;
    }
    agreement
}

fn sequences(system: &Resolved, trace: &Trace) -> Sequences {
    let mut sequences = Sequences::new();
    for record in &trace.records {
        if ![Event::EngineGrant as u8, Event::EngineIdle as u8].contains(&record.event) {
            continue;
        }
        let task = usize::from(record.thread).checked_sub(1).and_then(|index| system.tasks.get(index));
        let reservation = task.and_then(|task| task.reservation).map(|index| &system.reservations[index]);
        let has_jobs = reservation.is_some_and(|one| one.release != fusee_abi::image::release::NONE);
        let owner = if has_jobs { record.thread } else { 0 };
        sequences.entry((record.object, owner)).or_default().push((record.event, record.thread, record.job));
    }
    sequences
}
