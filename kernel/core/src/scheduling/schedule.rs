//! Plans: the runner of each reservation, its link to a CPU, and the events to come.
//!
//! All changes of a plan come to [`Kernel::set_runner`] or [`Kernel::compete`]. These functions change links and ask CPUs
//! to reschedule: the current one does as its trap ends, another one is kicked. [`Kernel::reschedule`] ends every trap by
//! these plans.

use fusee_sched::cpu::CpuId;
use fusee_sched::key::{Class, Key};
use fusee_sched::time::Instant;

use crate::id::{ClusterId, ReservationId, ThreadId};
use crate::object::Cpu;
use crate::{Kernel, Planted};

/// Whether the first event of a queue moved forward: then its timekeeper must set its timer anew. An event that moved
/// back costs at most a timer that fires for nothing.
fn earlier(first: Option<Key>, before: Option<Key>) -> bool {
    first.is_some_and(|first| before.is_none_or(|before| first.instant() < before.instant()))
}

impl Kernel {
    //--- Plans -------------------------------------------------------------------------------------------

    /// This CPU's plan may have changed. The current CPU looks again by itself; others are kicked.
    pub(crate) fn request_reschedule(&mut self, cpu: CpuId) {
        let is_lost = self.forgets(Planted::KickIsLost);
        let state = &mut self.cpus[cpu];
        if !state.needs_reschedule() {
            state.request_reschedule();
            if !is_lost {
                self.kicks.insert(cpu);
            }
        }
    }

    /// Makes `runner` the one thread that runs on `reservation`, which competes exactly while it has one.
    #[inline(never)]
    pub(crate) fn set_runner(&mut self, reservation: ReservationId, runner: Option<ThreadId>) {
        let before = self.reservations[reservation].runner();
        if before == runner {
            return;
        }
        if self.reservations[reservation].is_boosted() {
            // A boost is for the one runner.
            self.set_boosted(reservation, false);
        }
        let object = &mut self.reservations[reservation];
        object.set_runner(runner);
        let (Some(cluster), key) = (object.cluster(), object.key()) else {
            impossible!("a reservation has a cluster");
            return;
        };
        self.recount |= 1 << cluster.index();
        let id = reservation.index() as u16;
        let schedule = &mut self.clusters[cluster].schedule;
        let changed = match (before, runner) {
            (None, Some(thread)) => {
                let state = &self.threads[thread];
                schedule.insert(id, key, state.on().or(state.last_cpu()))
            }
            (Some(_), None) => schedule.remove(id),
            _ => schedule.link_of(id),
        };
        if let Some(cpu) = changed {
            self.request_reschedule(cpu);
        }
        if let Some(thread) = before
            && let Some(cpu) = self.threads[thread].on()
        {
            self.request_reschedule(cpu);
        }
        if let Some(thread) = runner
            && let Some(cpu) = self.threads[thread].on()
        {
            self.request_reschedule(cpu);
        }
    }

    /// Makes `runner` the thread that runs on `reservation` in place of another. The reservation stays where it is queued or linked, so this is for
    /// fast paths that pass it between a client and its server.
    #[inline(always)]
    pub(crate) fn pass_runner(&mut self, reservation: ReservationId, runner: ThreadId) {
        debug_assert!(
            self.reservations[reservation].runner().is_some(),
            "a reservation is passed from one runner to another"
        );
        self.reservations[reservation].set_runner(Some(runner));
    }

    /// Boosts `reservation`, which competes, or ends its boost.
    #[cold]
    pub(crate) fn set_boosted(&mut self, reservation: ReservationId, boosted: bool) {
        let object = &mut self.reservations[reservation];
        object.set_boosted(boosted);
        // The CPU's timer tells when a boost ends.
        let on = object.on();
        self.compete(reservation);
        if let Some(cpu) = on {
            self.request_reschedule(cpu);
        }
    }

    /// Lets `reservation` compete with the key it has now, if it competes.
    pub(crate) fn compete(&mut self, reservation: ReservationId) {
        let object = &self.reservations[reservation];
        let (Some(cluster), key) = (object.cluster(), object.competing_key()) else {
            impossible!("a reservation has a cluster");
            return;
        };
        self.recount |= 1 << cluster.index();
        let id = reservation.index() as u16;
        let schedule = &mut self.clusters[cluster].schedule;
        if schedule.contains(id)
            && let Some(cpu) = schedule.change_key(id, key)
        {
            self.request_reschedule(cpu);
        }
    }

    /// The key of a job of `reservation` released at `release`, by its cluster's policy.
    pub(crate) fn job_key(&self, reservation: ReservationId, release: Instant) -> Key {
        let object = &self.reservations[reservation];
        Key::real_time(object.point().of_job(release), object.tie())
    }

    /// The key of the budget left of `reservation`: that of a job released with it, or the last place in the queue of its
    /// class.
    #[inline(never)]
    pub(crate) fn fresh_key(&mut self, reservation: ReservationId) -> Key {
        let object = &self.reservations[reservation];
        let (class, tie) = (object.class(), object.tie());
        if class == Class::RealTime {
            return self.job_key(reservation, object.account().release);
        }
        self.sequence += 1;
        Key::in_turn(class, self.sequence, tie)
    }

    /// The next release of `reservation`, or its next replenishment, is at another instant than before.
    #[inline]
    pub(crate) fn event_moves(&mut self, reservation: ReservationId) {
        let object = &mut self.reservations[reservation];
        object.unplan();
        object.mark(reservation, &mut self.touched);
    }

    /// Queues the next release or replenishment of `reservation`, whichever is earlier.
    #[inline(never)]
    pub(crate) fn plan_event(&mut self, reservation: ReservationId) {
        let object = &mut self.reservations[reservation];
        let at = object.plan();
        let Some(cluster) = object.cluster() else {
            impossible!("a reservation has a cluster");
            return;
        };
        let queue = &mut self.clusters[cluster].events;
        let before = queue.first().map(|event| event.0);
        let id = reservation.index() as u16;
        if at == Instant::NEVER {
            queue.remove(id);
        } else {
            queue.insert(id, Key::event(at, id));
        }
        if earlier(queue.first().map(|event| event.0), before) {
            self.request_reschedule(self.clusters[cluster].timekeeper());
        }
    }

    /// Wakes `thread` at `deadline` unless something else does.
    #[inline(never)]
    pub(crate) fn plan_timeout(&mut self, thread: ThreadId, deadline: Instant) {
        let Some(cluster) = self.threads[thread].cluster() else {
            impossible!("a thread has a cluster");
            return;
        };
        if deadline >= Cpu::FIRED {
            // An instant beyond all others is never reached, nor is the one that marks a timer as fired.
            return;
        }
        self.threads[thread].begin_timeout();
        self.queue_timeout(cluster, thread.index() as u16, deadline);
    }

    /// Queues an event with the timeouts of `cluster`.
    #[inline(never)]
    pub(crate) fn queue_timeout(&mut self, cluster: ClusterId, event: u16, at: Instant) {
        let queue = &mut self.clusters[cluster].timeouts;
        let before = queue.first().map(|event| event.0);
        queue.insert(event, Key::at(at));
        if earlier(queue.first().map(|event| event.0), before) {
            self.request_reschedule(self.clusters[cluster].timekeeper());
        }
    }

    /// Cancels a timeout planned by [`Kernel::plan_timeout`]. The timekeeper's timer may fire for nothing.
    pub(crate) fn cancel_timeout(&mut self, thread: ThreadId) {
        if !self.threads[thread].is_timed() {
            return;
        }
        self.threads[thread].end_timeout();
        if let Some(cluster) = self.threads[thread].cluster() {
            self.clusters[cluster].timeouts.remove(thread.index() as u16);
        }
    }
}
