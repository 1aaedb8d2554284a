//! Releases that wait for the end of the job before, and those that found no place.

use fusee_abi::trace::Event;
use fusee_sched::time::Instant;

use crate::id::{ReservationId, ThreadId};
use crate::limits::CREDITS;
use crate::object::Release;
use crate::{Kernel, Machine};

impl Kernel {
    /// The first of the releases that queue for `thread`'s next job, if it is due at `until`.
    pub(crate) fn take_queued(
        &mut self,
        thread: ThreadId,
        reservation: ReservationId,
        until: Instant,
    ) -> Option<Instant> {
        if self.reservations[reservation].release == Release::Sporadic {
            let queue = self.threads[thread].job.sporadic;
            let first = self.first_sporadic(thread, reservation).filter(|first| *first <= until)?;
            if CREDITS && self.reservations[reservation].begins_early {
                let object = &mut self.reservations[reservation];
                object.earliest_release = first + object.account.period;
            }
            let job = &mut self.threads[thread].job;
            job.sporadic.first = if queue.first + 1 == queue.places { 0 } else { queue.first + 1 };
            job.sporadic.count -= 1;
            return Some(first);
        }
        let period = self.reservations[reservation].account.period;
        let job = &mut self.threads[thread].job;
        let first = job.queued.take()?;
        if job.queued_after > 0 {
            job.queued_after -= 1;
            job.queued = Some(first + period);
        }
        Some(first)
    }

    /// The earliest sporadic release of `thread` whose job has not begun. The instants that queue are those of releases; where jobs begin early they
    /// are those at which the jobs were asked for, as the earliest release depends on how the job before ends.
    pub(crate) fn first_sporadic(&self, thread: ThreadId, reservation: ReservationId) -> Option<Instant> {
        let queue = self.threads[thread].job.sporadic;
        let first = if queue.count == 0 { None } else { self.releases.get(queue.place(0)).copied() };
        let object = &self.reservations[reservation];
        if CREDITS && object.begins_early { first.map(|asked| asked.max(object.earliest_release)) } else { first }
    }

    /// A release is dropped.
    pub(crate) fn skip<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        let state = &mut self.threads[thread];
        state.job.skipped += 1;
        state.statistics.skipped += 1;
        self.trace(machine, Event::Skip, Some(thread), 0, 0);
    }
}
