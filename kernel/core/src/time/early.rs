//! Jobs that begin before their releases: a graph that was late catches up.
//!
//! The release of a sporadic job is the instant at which it was asked for, or a period after the release before it,
//! whichever is later. A release that comes a period after a late one therefore stays behind for ever. Where a
//! reservation *begins early*, its next job begins at once, and is *early* until its release.
//!
//! # The rule
//!
//! 1. An early job is of class service: it comes after all real-time jobs, and before all jobs of class background. It
//!    takes turns with others of its class.
//! 2. An early job runs on a full budget of its own. The account of its reservation is set aside, and is as it was when
//!    the job ends or is released.
//! 3. At its release the job goes on with the reservation's account and the key of a job released then: from that instant
//!    on it is like a job that began then, but for the work already done.
//! 4. A job that ends while it is early has not been released. So the next release may come where this one would have
//!    been, and not a period later. By this a graph is back where it was.
//!
//! # Why early jobs cost others nothing
//!
//! To real-time jobs an early job is a thread of class service. It delays them by its holds, as any such thread does, and
//! by nothing else: the analysis counts a hold that is under way, of any holder, and by arrival one of each other user.
//! Its accounts, and so the demand of its reservation in any interval, are those of its released jobs alone. These are a
//! period apart, as the release that is given back to the next job has had no job of its own (4). No response time that
//! is proved counts from an earlier instant than the release, and no job begins later by the rule.
//!
//! To begin with the key of the release at once would be sound for deadlines, but not for response times: jobs of a short
//! deadline that are released beyond the end of a busy period would delay a job of a long one that is complete before
//! they are released.
//!
//! Bounds that count a task's jobs by its period though they are not released (engines of groups, those that a priority
//! with a token reaches, boosts, pools of clusters) must not know early jobs. The manifest decides which reservations
//! begin early, and boot refuses the cases that the kernel can see.
//!
//! # Invariants
//!
//! E1. A job that is early is active, its reservation is of class service, and its release is planned.
//! E2. A reservation that begins early is of class real-time whenever its job is not early.
//!
//! # Source
//!
//! Elliott 2015, section 5.2 (early releasing of the nodes of a graph), where the job's deadline is moved to begin at its
//! token. Class service until the release, and the release that is given back, are ours.

use fusee_sched::key::{Class, Key};
use fusee_sched::time::Instant;

use crate::id::{ReservationId, ThreadId};
use crate::limits::CREDITS;
use crate::{Kernel, Machine};

impl Kernel {
    /// Whether the job of `reservation` has begun before its release, which is to come.
    #[inline(always)]
    pub(crate) fn is_early(&self, reservation: ReservationId) -> bool {
        CREDITS && self.reservations[reservation].nominal() != Instant::NEVER
    }

    /// Sets the account of `reservation` aside: a job that begins now is early.
    pub(crate) fn put_aside<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId) {
        self.pay(machine, reservation);
        self.set_aside[reservation] = *self.reservations[reservation].account();
    }

    /// The job of `thread` that has begun now is released at `release`; its account is set aside.
    pub(crate) fn begin_early(&mut self, thread: ThreadId, reservation: ReservationId, release: Instant) {
        self.sequence += 1;
        let object = &mut self.reservations[reservation];
        object.begin_early(self.now, release);
        let key = Key::in_turn(Class::Service, self.sequence, object.tie());
        self.event_moves(reservation);
        self.budget_changes(thread, reservation);
        self.set_key(reservation, key);
    }

    /// The job of `reservation` is released now. The caller gives it the budget and the key of its release.
    pub(crate) fn end_early_at_release<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId) {
        self.take_up(machine, reservation);
        if let Some(cpu) = self.reservations[reservation].on() {
            // The CPU's timer tells when the budget ends.
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
        let release = self.reservations[reservation].nominal();
        self.take_up(machine, reservation);
        let object = &mut self.reservations[reservation];
        object.allow_release(release);
        object.throttle_if_dry(self.now);
        let Some(thread) = object.owner() else {
            impossible!("a reservation has an owner");
            return;
        };
        self.event_moves(reservation);
        self.budget_changes(thread, reservation);
        self.renew_key(reservation);
    }

    /// The account of `reservation` is as it was when its early job began.
    fn take_up<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId) {
        self.pay(machine, reservation);
        self.reservations[reservation].end_early(self.set_aside[reservation]);
    }

    /// Charges the CPU time used so far on `reservation` to its present account.
    fn pay<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId) {
        if let Some(cpu) = self.reservations[reservation].on() {
            let now = machine.now();
            self.charge(machine, cpu, now);
        }
    }
}
