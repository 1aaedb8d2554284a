//! The kernel's counts of each task: in constant memory, so they are complete also if the trace has lost records, and at each of its levels.
//!
//! A kernel that ends by itself writes ledgers as the last records of its trace. Of one that is ended its memory is read, and of one whose first records
//! were overwritten, as these may have said how tasks ended.

use std::collections::BTreeMap;

use fusee_abi::trace::{ENGINE_TIME_SHIFT, Event, Ledger, Record};
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;
pub use fusee_views::state::Ended;
use fusee_views::state::State;

use crate::look::{Seen, Task};

/// The counts at the end of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// By task.
    pub tasks: Vec<Count>,
    /// The instant until which was counted, nanoseconds.
    pub now: u64,
    /// Times, nanoseconds, and the other amounts of ledgers, by kind and index.
    ledgers: BTreeMap<(u16, u16), u64>,
}

/// The counts of one task.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Count {
    /// Jobs that completed.
    pub jobs: u64,
    /// Those that were late.
    pub misses: u64,
    /// Releases that were dropped.
    pub skipped: u64,
    /// Largest lateness, nanoseconds, if it is known.
    pub lateness: Option<i64>,
    /// Number and deadline, nanoseconds, of the job that is not complete.
    pub open: Option<(u32, u64)>,
    /// How it ended, if it did.
    pub end: Option<Ended>,
    /// Its state; `None`: it had another one when the run was to end.
    pub state: Option<State>,
}

impl Counts {
    /// Those in the memory of a run that is over.
    #[must_use]
    pub fn of(seen: &Seen, system: &Resolved) -> Counts {
        let mut counts = Counts::default();
        let mut add = |ledger: Ledger, index: usize, amount: u64| {
            counts.ledgers.insert((ledger as u16, index as u16), amount);
        };
        for (index, task) in seen.tasks.iter().enumerate() {
            let done = &task.statistics;
            add(Ledger::ThreadTime, index, done.time);
            add(Ledger::Faults, index, done.faults);
            if let Some((reservation, budget)) = system.tasks[index].reservation.zip(task.budget) {
                add(Ledger::Charged, reservation, budget.charged);
                add(Ledger::Throttles, reservation, budget.throttles);
            }
        }
        for (user, time) in system.engine_users.iter().zip(&seen.engine_times) {
            add(Ledger::EngineTime, (user.engine as usize) << ENGINE_TIME_SHIFT | user.task as usize, *time);
        }
        counts.now = seen.now;
        counts.tasks = seen.tasks.iter().map(Count::of).collect();
        counts
    }

    /// The counts as they were at `until`, from the records after it.
    #[must_use]
    pub fn at(mut self, until: u64, after: &[Record]) -> Counts {
        self.now = self.now.min(until);
        for record in after {
            let Some(count) = usize::from(record.thread).checked_sub(1).and_then(|task| self.tasks.get_mut(task))
            else {
                continue;
            };
            count.state = None;
            match Event::from_number(record.event) {
                Some(Event::Complete) => {
                    count.jobs = count.jobs.saturating_sub(1);
                    let lateness = record.lateness();
                    count.misses = count.misses.saturating_sub(u64::from(lateness > 0));
                    // It may be that of this job.
                    count.lateness = count.lateness.filter(|most| *most > lateness);
                    let deadline = record.time.saturating_add_signed(lateness.saturating_neg());
                    if deadline < until && count.open.is_none_or(|(job, _)| job >= record.job) {
                        count.open = Some((record.job, deadline));
                    }
                }
                Some(Event::Skip) => count.skipped = count.skipped.saturating_sub(1),
                Some(Event::Exit | Event::Fault | Event::Stop) => count.end = None,
                _ => {}
            }
        }
        self
    }

    /// Whether each task has ended as it wanted, or serves others that have.
    #[must_use]
    pub fn are_done(&self) -> bool {
        self.tasks
            .iter()
            .all(|task| task.end == Some(Ended::Exited(0)) || task.state.as_ref().is_some_and(State::rests))
    }

    /// `trace` with ledgers: of the kernel where the records are not all, else counted from these.
    #[must_use]
    pub fn added_to(&self, trace: &Trace, system: &Resolved) -> Trace {
        let mut amounts = trace.counted_ledgers(system);
        // All is there, and it ends when it was to end.
        if trace.lost == 0 && trace.has_schedule() {
            return trace.with_ledgers(&amounts);
        }
        let mut counted = self.ledgers.clone();
        for (index, task) in self.tasks.iter().enumerate() {
            let key = |ledger: Ledger| (ledger as u16, index as u16);
            counted.extend([
                (key(Ledger::Jobs), task.jobs),
                (key(Ledger::Misses), task.misses),
                (key(Ledger::Skipped), task.skipped),
            ]);
            if let Some(lateness) = task.lateness {
                amounts.insert(key(Ledger::MaxLateness), lateness.cast_unsigned());
            }
        }
        for (key, amount) in counted {
            let known = amounts.entry(key).or_default();
            *known = amount.max(*known);
        }
        trace.with_ledgers(&amounts)
    }
}

impl Count {
    fn of(task: &Task) -> Count {
        let done = &task.statistics;
        let open = task.job.active.then_some((task.job.number as u32, task.job.deadline));
        Count {
            jobs: done.jobs,
            misses: done.misses,
            skipped: done.skipped,
            lateness: (done.jobs > 0).then_some(done.lateness),
            open,
            end: match task.state {
                State::Ended(how) => Some(how),
                _ => None,
            },
            state: Some(task.state.clone()),
        }
    }
}
