//! Golden traces: the canonical trace of a system's scripted tasks, and of what sharers log, from the synchronous release up to the shutdown.

use std::fmt;

use fusee_abi::trace::{Event, Record};
use fusee_manifest::Manifest;
use fusee_manifest::trace::{self, Places, Trace};

/// Half a cell: events up to here before the first release belong to its cell.
const HALF_CELL: u64 = 500_000;

/// An event that belongs to no cell of the grid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Off {
    /// Its distance from the grid, nanoseconds.
    pub by: u64,
    /// Its instant, nanoseconds.
    pub at: u64,
    /// The event in words.
    pub event: String,
}

impl fmt::Display for Off {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "off the grid by {} ns at {} ns: {}", self.by, self.at, self.event)
    }
}

impl std::error::Error for Off {}

/// Whether a system has tasks whose events a golden trace has.
#[must_use]
pub fn has_one(manifest: &Manifest) -> bool {
    manifest.system.tasks.iter().any(|task| !task.script.is_empty())
}

/// The golden trace of a run.
///
/// # Errors
/// An event is too far from each grid point.
pub fn canonical(manifest: &Manifest, trace: &Trace) -> Result<String, Off> {
    let system = &manifest.system;
    let places = manifest.expectations.as_ref().map_or(Places::Left, |expected| expected.places);
    let scripted = |thread: u16| {
        let task = usize::from(thread).checked_sub(1).and_then(|index| system.tasks.get(index));
        task.is_some_and(|task| !task.script.is_empty())
    };
    let start = system.start.saturating_sub(HALF_CELL);
    // What else happens at the instant of the shutdown may come before or after it.
    let ended = trace.records.iter().find(|record| record.event == Event::Shutdown as u8);
    let end = ended.map_or(u64::MAX, |record| (record.time / trace::GRID * trace::GRID).saturating_sub(HALF_CELL));
    let is_log = |record: &Record| record.event == Event::Log as u8;
    let compared =
        |record: &&Record| (start..end).contains(&record.time) && (is_log(record) || scripted(record.thread));
    let kept = trace.records.iter().filter(compared);
    trace::canonical(&Trace::from_records(kept.copied().collect()), system, places).map_err(|off| Off {
        by: off.by,
        at: off.record.time,
        event: trace::describe(&off.record, system),
    })
}
