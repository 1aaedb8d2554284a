//! Releases that wait for the end of the job before, and releases that found no place.

use fusee_abi::trace::Event;
use fusee_sched::time::Instant;

use crate::id::{ReservationId, ThreadId};
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
        if self.reservations[reservation].release() == Release::Sporadic {
            let first = self.first_sporadic(thread).filter(|first| *first <= until)?;
            self.threads[thread].job_mut().take_sporadic();
            return Some(first);
        }
        let period = self.reservations[reservation].account().period;
        self.threads[thread].job_mut().take_queued(period)
    }

    /// The earliest sporadic release of `thread` with a job that has not begun.
    pub(crate) fn first_sporadic(&self, thread: ThreadId) -> Option<Instant> {
        let queue = self.threads[thread].job().sporadic();
        if queue.count() == 0 { None } else { self.releases.get(queue.place(0)).copied() }
    }

    /// The first of the jobs of `thread` that were asked for and have not begun, if its release is due at `until`. Where jobs
    /// begin early the instants that queue are those at which jobs were asked for: the next release follows from the end of
    /// the job before.
    pub(crate) fn take_asked(
        &mut self,
        thread: ThreadId,
        reservation: ReservationId,
        until: Instant,
    ) -> Option<Instant> {
        let release = self.first_asked(thread, reservation).filter(|release| *release <= until)?;
        self.reservations[reservation].space_releases(release);
        self.threads[thread].job_mut().take_sporadic();
        Some(release)
    }

    #[inline(always)]
    /// The release of the first job of `thread` that was asked for and has not begun.
    pub(crate) fn first_asked(&self, thread: ThreadId, reservation: ReservationId) -> Option<Instant> {
        self.first_sporadic(thread).map(|asked| asked.max(self.reservations[reservation].earliest_release()))
    }

    #[inline(always)]
    /// Queues the instant `now`, at which a job of `thread` is asked for. Returns whether there was a place for it.
    pub(crate) fn queue_asked(&mut self, thread: ThreadId, now: Instant) -> bool {
        let queue = self.threads[thread].job().sporadic();
        if queue.count() == queue.places() {
            return false;
        }
        if let Some(place) = self.releases.get_mut(queue.place(queue.count())) {
            *place = now;
        }
        self.threads[thread].job_mut().put_sporadic();
        true
    }

    /// A release is dropped.
    pub(crate) fn skip<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        self.threads[thread].skip_release();
        self.trace(machine, Event::Skip, Some(thread), 0, 0);
    }
}
