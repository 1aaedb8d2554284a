//! Lives of tasks: how long one that is given another life is away at most, and the ends in a trace.
//!
//! Not here: the giver of lives (`supervisor`), and ends that are drawn at random (`research/campaigns/src/faults.rs`).

use std::collections::BTreeMap;

use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Record};
use fusee_manifest::Resolved;
use fusee_manifest::admission::recoveries;
use fusee_sched_analysis::Overheads;

/// How a task ends that does not end by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// Another stops it, at any instant.
    Stopped,
    /// The task makes a forbidden access.
    Faults,
}

/// One end of a task, as a trace has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ended {
    /// The task's index.
    pub victim: usize,
    /// How.
    pub how: End,
    /// When.
    pub at: u64,
    /// When its next life began.
    pub again: Option<u64>,
    /// When that first waited for work.
    pub up: Option<u64>,
}

/// How long each task of `system` that is given further lives is away at most, in nanoseconds.
///
/// # Errors
/// The analysis has no bound for one of them: why.
pub fn bounds(system: &Resolved, overheads: &Overheads) -> Result<BTreeMap<usize, u64>, String> {
    recoveries(system, overheads).into_iter().map(|one| Ok((one.task, one.bound?.0))).collect()
}

/// All ends that a trace has of tasks that did not end by themselves, in their order.
#[must_use]
pub fn ends(records: &[Record], tasks: usize) -> Vec<Ended> {
    const WORK: [u32; 4] = [Call::Wait as u32, Call::Receive as u32, Call::ReplyReceive as u32, Call::NextJob as u32];
    let mut ends: Vec<Ended> = Vec::new();
    // For each task its last end, and the task that gives it its next life.
    let mut last: Vec<Option<usize>> = vec![None; tasks];
    let mut begun_by = vec![0; tasks];
    for record in records {
        let Some(task) = usize::from(record.thread).checked_sub(1).filter(|task| *task < tasks) else { continue };
        let end = |how| Ended { victim: task, how, at: record.time, again: None, up: None };
        let is_up = |ends: &mut Vec<Ended>, task: usize, time: u64| {
            let open = last[task].map(|place| &mut ends[place]);
            if let Some(open) = open.filter(|open| open.again.is_some()) {
                open.up.get_or_insert(time);
            }
        };
        match Event::from_number(record.event) {
            Some(Event::Stop) => {
                last[task] = Some(ends.len());
                ends.push(end(End::Stopped));
            }
            Some(Event::Fault) => {
                last[task] = Some(ends.len());
                ends.push(end(End::Faults));
            }
            Some(Event::Restart) => {
                begun_by[task] = record.object;
                if let Some(place) = last[task] {
                    ends[place].again = Some(record.time);
                }
            }
            // It waits for work, has done a job, or has told its supervisor, which waits for that.
            Some(Event::Complete) => is_up(&mut ends, task, record.time),
            Some(Event::Block) if WORK.contains(&record.value) => is_up(&mut ends, task, record.time),
            Some(Event::Resume) => {
                let by = (record.object as usize).checked_sub(1).filter(|by| *by < tasks);
                if let Some(by) = by.filter(|by| begun_by[*by] == u32::from(record.thread)) {
                    is_up(&mut ends, by, record.time);
                }
            }
            _ => {}
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_up_when_it_waits_for_work_or_its_supervisor_has_heard_of_it() {
        let record = |event: Event, thread, time, object, value| Record {
            time,
            event: event as u8,
            thread,
            object,
            value,
            ..Record::default()
        };
        let wait = Call::Wait as u32;
        let begins = [
            record(Event::Stop, 1, 10, 3, 0),
            record(Event::Block, 1, 11, 0, wait),
            record(Event::Restart, 1, 20, 2, 1),
        ];
        let up = |last: &[Record]| ends(&[&begins[..], last].concat(), 3)[0];
        let none = Ended { victim: 0, how: End::Stopped, at: 10, again: Some(20), up: None };
        assert_eq!(up(&[record(Event::Block, 1, 25, 0, Call::Acquire as u32)]), none);
        assert_eq!(up(&[record(Event::Block, 1, 25, 0, wait)]), Ended { up: Some(25), ..none });
        assert_eq!(
            up(&[record(Event::Resume, 2, 24, 1, 0), record(Event::Block, 1, 25, 0, wait)]),
            Ended { up: Some(24), ..none }
        );
        assert_eq!(up(&[record(Event::Resume, 3, 24, 1, 0)]), none, "another task was woken");
    }
}
