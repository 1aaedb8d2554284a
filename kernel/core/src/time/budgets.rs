//! Budgets: charging of time that has passed, exhaustion, and replenishment.
//!
//! Not here: the account itself (`sched::account`); the rules of resting reservations (`resting`).

use fusee_abi::trace::Event;
use fusee_locking::propagation::Graph;
use fusee_sched::cpu::CpuId;
use fusee_sched::key::Class;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{ReservationId, ThreadId};
use crate::limits::CREDITS;
use crate::object::{Overrun, Payer, Release, State};
use crate::{Kernel, Machine, Planted};

impl Kernel {
    /// The active job of `thread` takes the budget and the deadline of the next, which is dropped. Returns whether there is
    /// budget now: all of it may have gone into debt.
    ///
    /// Budget that the job leaves is discarded: the release after brings its own. Source: Elliott 2015, section 3.2.4 (early
    /// releasing).
    pub(crate) fn release_early<M: Machine>(
        &mut self,
        machine: &mut M,
        reservation: ReservationId,
        thread: ThreadId,
    ) -> bool {
        let queued = self.take_queued(thread, reservation, Instant::NEVER);
        let object = &mut self.reservations[reservation];
        let period = object.account().period;
        let is_periodic = object.release() == Release::Periodic;
        let next = match queued {
            Some(release) => release,
            None if is_periodic => object.next_release(),
            None => object.earliest_release(),
        };
        let dropped = queued.is_some() || is_periodic;
        if queued.is_none() {
            object.plan_release(if is_periodic { next + period } else { Instant::NEVER });
            object.space_releases(next);
        }
        // A release that queued may be older than the present chunk, which has its time already.
        object.resume_budget(next);
        let has_budget = !object.account().is_dry();
        // The thread's own budget may be exhausted: then it runs here on another's.
        let wakes = object.is_throttled() && has_budget;
        if wakes {
            object.unthrottle();
        }
        self.budget_changes(thread, reservation);
        if !self.forgets(Planted::EarlyReleaseKeepsTheKey) {
            self.renew_key(reservation);
        }
        self.event_moves(reservation);
        if wakes && self.threads[thread].jobs_are_recorded() {
            self.job_begins(thread);
        }
        if dropped {
            self.skip(machine, thread);
        }
        self.trace(machine, Event::EarlyRelease, Some(thread), u32::from(reservation.number()), 0);
        has_budget
    }

    /// Books the time since the last mark to the payer on `cpu`, and throttles a reservation with an exhausted budget.
    pub(crate) fn charge<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, now: Instant) {
        let state = &mut self.cpus[cpu];
        let span = now.since(state.mark());
        match state.payer() {
            Payer::Idle => state.book_idle(span),
            Payer::Kernel => state.book_kernel(span),
            Payer::Reservation(reservation) => {
                state.book_charged(span);
                if let Some(thread) = state.current() {
                    self.threads[thread].book(span);
                }
                if state.is_boosted() {
                    self.charge_boost(cpu, reservation, span);
                }
                if self.reservations[reservation].charge(span) {
                    self.exhaust(machine, reservation, now);
                }
            }
        }
    }

    /// `payer` pays for the trap in progress, which has been booked to the kernel: a timer interrupt that its thread has
    /// asked for. Otherwise a task could have others wait for as many interrupts as it likes.
    #[inline(never)]
    pub(crate) fn bill<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, payer: ReservationId, now: Instant) {
        let span = now.since(self.now);
        let state = &mut self.cpus[cpu];
        state.rebook(span);
        self.reservations[payer].book(span);
        self.draw_from(machine, payer, span);
    }

    /// Draws engine time from the budget of `reservation`. The excess is debt, as it is for CPU time.
    #[cold]
    pub(crate) fn charge_engine<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, held: Nanoseconds) {
        self.draw_from(machine, reservation, held);
    }

    /// Takes `time` that did not pass on a CPU as that of its runner from the budget of `reservation`.
    fn draw_from<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, time: Nanoseconds) {
        if let Some(cluster) = self.reservations[reservation].cluster() {
            self.recount |= 1 << cluster.index();
        }
        let object = &mut self.reservations[reservation];
        let exhausted = object.draw_time(time);
        if let Some(cpu) = object.on() {
            // The CPU's timer tells when the budget ends.
            self.request_reschedule(cpu);
        }
        if exhausted {
            let now = machine.now();
            self.exhaust(machine, reservation, now);
        }
    }

    /// Takes `span` from the boost of the thread that runs on `cpu`.
    #[cold]
    fn charge_boost(&mut self, cpu: CpuId, reservation: ReservationId, span: Nanoseconds) {
        let Some(thread) = self.cpus[cpu].current() else {
            impossible!("time is charged to a reservation for a thread");
            return;
        };
        if self.forgets(Planted::BoostHasNoEnd) {
            return;
        }
        let boost = &mut self.boosts[thread];
        // A boost ends by the timer, as a budget does: the excess is debt here, too.
        boost.charge(span);
        if boost.is_dry() && self.reservations[reservation].is_boosted() {
            self.set_boosted(reservation, false);
        }
    }

    /// `reservation` has no budget left.
    #[inline(never)]
    fn exhaust<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, now: Instant) {
        let object = &mut self.reservations[reservation];
        if let Some(owner) = object.owner()
            && self.threads[owner].state() == State::Stopped
        {
            // The CPU of the reservation has not taken its kick yet. The dead have no next period.
            object.throttle();
            return;
        }
        let (class, owner) = (object.class(), object.owner());
        if class == Class::RealTime && self.goes_on(reservation, now) {
            return;
        }
        let object = &mut self.reservations[reservation];
        object.count_throttle();
        if self.forgets(Planted::ExhaustionRefills) && class == Class::RealTime {
            self.reservations[reservation].restart_budget(now);
            return;
        }
        let object = &mut self.reservations[reservation];
        let excess = object.account().debt;
        if class == Class::Background {
            // Background work has no guarantee: its budget is only its time slice.
            object.restart_budget(now);
            self.renew_key(reservation);
            return;
        }
        if CREDITS && object.nominal() != Instant::NEVER {
            // The release of the job brings its budget, which the job has not used yet.
            object.throttle();
            if let Some(thread) = owner {
                self.budget_changes(thread, reservation);
            }
            self.base_key_changes(reservation);
            return;
        }
        let overrun = object.overrun();
        if let Some(thread) = owner
            && self.threads[thread].job().is_active()
        {
            self.threads[thread].job_mut().overrun(overrun == Overrun::Signal);
            if overrun == Overrun::EarlyRelease && self.release_early(machine, reservation, thread) {
                return;
            }
        }
        let object = &mut self.reservations[reservation];
        object.throttle_until_refill(now);
        if now < self.start {
            object.start_over_by(self.start);
        }
        self.leave_rest(reservation);
        self.event_moves(reservation);
        self.trace(machine, Event::Throttle, owner, u32::from(reservation.number()), excess.0 as u32);
        if let Some(thread) = owner {
            self.budget_changes(thread, reservation);
        }
        self.base_key_changes(reservation);
    }

    /// Whether a refill for a real-time `reservation` has come by the time that it has nothing left. Then it goes on, with
    /// the key of a job released when the refill came; but a reservation that lags behind by more than a period goes on with
    /// the key of a job released now.
    fn goes_on(&mut self, reservation: ReservationId, now: Instant) -> bool {
        let object = &mut self.reservations[reservation];
        let at = object.next_refill(Instant::ZERO);
        if at > now {
            return false;
        }
        object.resume_budget(if now.since(at) > object.account().period { now } else { at });
        if object.account().is_dry() {
            return false;
        }
        self.renew_key(reservation);
        true
    }

    /// Refills `reservation` at `at`; a new deadline follows, as for a sporadic server. At the start of the system the budget
    /// starts over.
    pub(crate) fn replenish<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, at: Instant) {
        let object = &mut self.reservations[reservation];
        let was_throttled = object.is_throttled();
        if at == self.start && object.account().release < at {
            object.restart_budget(at);
        }
        object.resume_budget(at);
        object.throttle_if_dry(at);
        let owner = object.owner();
        if object.is_throttled() {
            // All of the refill went into debt: the next one, then.
            self.event_moves(reservation);
            return;
        }
        if !self.forgets(Planted::ReplenishmentKeepsTheKey) {
            self.renew_key(reservation);
        }
        self.event_moves(reservation);
        if was_throttled {
            self.trace(machine, Event::Replenish, owner, u32::from(reservation.number()), 0);
        }
        if let Some(thread) = owner {
            if was_throttled && self.threads[thread].jobs_are_recorded() && self.threads[thread].job().is_active() {
                self.job_begins(thread);
            }
            self.budget_changes(thread, reservation);
        }
    }

    /// `reservation` of `thread` has used up its budget, or has budget again, or is that of a new job.
    pub(crate) fn budget_changes(&mut self, thread: ThreadId, reservation: ReservationId) {
        self.unsettle(thread);
        self.touch(reservation);
    }
}
