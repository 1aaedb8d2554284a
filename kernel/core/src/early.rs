//! Jobs that begin before their releases: a graph that was late catches up.
//!
//! The release of a sporadic job is the instant at which it was asked for, or a period after the release before it, whichever is later. One that comes a period after the
//! release before it stays behind for ever, if that was late. Where a reservation *begins early*, its next job begins at once, and is *early* until its release.
//!
//! # The rule
//!
//! 1. An early job is of class service: it comes after all real-time jobs, and before all that is of class background. It takes turns with others of its class.
//! 2. It runs on a full budget of its own. The account of its reservation is set aside, and is as it was when the job ends or is released.
//! 3. At its release the job goes on with the reservation's account and the key of a job released then: from that instant on all is as if it began then, but for what is done already.
//! 4. A job that ends while it is early has not been released. So the next release may come where this one would have been, and not a period later. By this a graph is back where it was.
//!
//! # Why it costs others nothing
//!
//! To real-time jobs an early job is a thread of class service. It delays them by what it holds, as any such thread does, and by nothing else: the analysis counts a hold that is under way, whoever
//! has it, and by arrival one of each other user. What it takes from accounts, and so the demand of its reservation in any interval, is that of its released jobs alone. These are a period apart,
//! as the release that is given back to the next job has had no job of its own (4). No response time that is proved counts from an earlier instant than the release, and no job begins later by the rule.
//!
//! To begin with the key of the release at once would be sound for deadlines, but not for response times: jobs of a short deadline that are released beyond the end of a busy period would delay a job of a long one that is complete
//! before they are released.
//!
//! What counts a task's jobs by its period though they are not released (engines of groups, those that a priority with a token reaches, boosts, pools of clusters) must not know early jobs: the manifest decides who begins early, and boot
//! refuses what the kernel can see.
//!
//! # Invariants
//!
//! E1. A job that is early is active, its reservation is of class service, and its release is planned.
//! E2. A reservation that begins early is of class real-time whenever its job is not early.
//!
//! # Source
//!
//! Elliott 2015, section 5.2 (early releasing of the nodes of a graph), where the job's deadline is moved to begin at its token. Service until the release, and the release that is given back, are ours.

use fusee_sched::key::{Class, Key};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{ReservationId, ThreadId};
use crate::limits::CREDITS;
use crate::{Kernel, Machine, Planted};

impl Kernel {
    /// Whether a job of `reservation` that has been asked for begins now, whenever its release is. Before the start of the system none does.
    #[inline(always)]
    pub(crate) fn may_be_early(&self, reservation: ReservationId) -> bool {
        CREDITS && self.reservations[reservation].begins_early && self.now >= self.start
    }

    /// Whether the job of `reservation` has begun before its release, which is to come.
    #[inline(always)]
    pub(crate) fn is_early(&self, reservation: ReservationId) -> bool {
        CREDITS && self.reservations[reservation].nominal != Instant::NEVER
    }

    /// Whether a job of `thread` that is to be released at `release` begins before that, now.
    #[inline(always)]
    pub(crate) fn begins_early<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        reservation: ReservationId,
        release: Instant,
    ) -> bool {
        if !self.may_be_early(reservation) || release <= machine.now() {
            return false;
        }
        if self.forgets(Planted::EarlyJobsHaveTheirKey) {
            return false;
        }
        if self.forgets(Planted::EarlyJobsAreReleased) {
            let now = machine.now();
            self.reservations[reservation].account.restart(now);
            self.open_budget(thread, reservation, now);
            return true;
        }
        self.begin_early(machine, thread, reservation, release);
        true
    }

    #[cold]
    #[inline(never)]
    fn begin_early<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        reservation: ReservationId,
        release: Instant,
    ) {
        self.book_used(machine, reservation);
        self.leave_rest(reservation);
        self.set_aside[reservation] = self.reservations[reservation].account;
        let object = &mut self.reservations[reservation];
        object.account.restart(self.now);
        object.class = Class::Service;
        object.nominal = release;
        object.next_release = release;
        (object.throttled, object.replenish_at) = (false, Instant::NEVER);
        self.sequence += 1;
        let key = Key::in_turn(Class::Service, self.sequence, object.tie);
        self.change_budget(thread, reservation, key);
    }

    /// The job of `thread`, which is early, is released now.
    #[cold]
    #[inline(never)]
    pub(crate) fn release_now<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, reservation: ReservationId) {
        let release = self.reservations[reservation].nominal;
        self.restore(machine, reservation);
        let on = self.reservations[reservation].on;
        self.open_budget(thread, reservation, release);
        if let Some(cpu) = on {
            // Its timer tells when the budget ends.
            self.request_reschedule(cpu);
        }
    }

    /// The job of `reservation` ends; if it is early, it has not been released.
    #[inline(always)]
    pub(crate) fn end_early<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId) {
        if self.is_early(reservation) {
            self.end_unreleased(machine, reservation);
        }
    }

    #[cold]
    #[inline(never)]
    fn end_unreleased<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId) {
        let release = self.reservations[reservation].nominal;
        self.restore(machine, reservation);
        let now = self.now;
        let object = &mut self.reservations[reservation];
        object.earliest_release = release;
        object.throttled = object.account.is_dry();
        object.replenish_at = if object.throttled { object.account.next_refill(now) } else { Instant::NEVER };
        let Some(thread) = object.owner else { return };
        let key = self.fresh_key(reservation);
        self.change_budget(thread, reservation, key);
    }

    /// The account of `reservation` is as it was when its early job began.
    fn restore<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId) {
        self.book_used(machine, reservation);
        let object = &mut self.reservations[reservation];
        object.account = self.set_aside[reservation];
        object.class = Class::RealTime;
        (object.nominal, object.next_release) = (Instant::NEVER, Instant::NEVER);
    }

    /// What has been used of the budget of `reservation` is paid from it.
    fn book_used<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId) {
        if let Some(cpu) = self.reservations[reservation].on {
            let now = machine.now();
            self.charge(machine, cpu, now);
        }
    }

    fn change_budget(&mut self, thread: ThreadId, reservation: ReservationId, key: Key) {
        self.event_moves(reservation);
        self.budget_changes(thread, reservation);
        self.set_key(reservation, key);
        if let Some(cpu) = self.reservations[reservation].on {
            // Its timer tells when the budget ends.
            self.request_reschedule(cpu);
        }
    }

    /// The budget of a job of `thread` that is released at `release`, and its key.
    #[inline(always)]
    pub(crate) fn open_budget(&mut self, thread: ThreadId, reservation: ReservationId, release: Instant) {
        let object = &mut self.reservations[reservation];
        let chunk = object.account.release;
        if chunk < release {
            if chunk < self.start && self.threads[thread].job.number == 0 && object.rests <= self.start {
                // What a task used before the start of the system, and nothing since, is not its first job's to pay.
                object.account.restart(release);
            } else {
                object.account.resume(release);
            }
            object.suspended = Nanoseconds::ZERO;
            object.throttled = object.account.is_dry();
            object.replenish_at = if object.throttled { object.account.next_refill(release) } else { Instant::NEVER };
            self.event_moves(reservation);
        }
        self.leave_rest(reservation);
        self.budget_changes(thread, reservation);
        // A release that is older than the budget that is left has no older key than that: the job was late by its own fault.
        let key = self.job_key(reservation, release.max(chunk));
        self.set_key(reservation, key);
    }
}
