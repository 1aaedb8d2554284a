//! Settling: each thread chooses a reservation and each reservation gets its runner, once a trap, for all changes
//! together.
//!
//! A trap marks threads that may have to choose another reservation ([`Kernel::unsettle`]), and reservations whose runner
//! may be another ([`Graph::touch`]), or whose next event is at another instant. At the end the threads choose; then the
//! reservations get their runners, and their events are queued. No thread chooses in between, so a reservation that goes
//! from a server to its next client and back stays where it is linked.
//!
//! A reservation that has rested is renewed here, before it has a runner again (`resting`). Renewal changes its key, so
//! the threads that chose it choose again.
//!
//! # Invariants
//!
//! 1. A ready or donating thread has chosen the reservation that the rule names.
//! 2. A reservation's runner is the ready thread at the end of the chain that chose it, if there is one.
//! 3. Between traps nothing is marked.

use fusee_locking::propagation::{self, Graph};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{ReservationId, ThreadId};
use crate::object::State;
use crate::scheduling::resting::TRIFLE;
use crate::{Kernel, Planted};

/// Largest number of reservations that one trap renews though others could be chosen in their place; any further one goes on with a
/// key that changes a nanosecond later.
const RENEWALS: usize = 1;

impl Kernel {
    /// Whether nothing is marked.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.unsettled.first().is_none() && self.touched.first().is_none()
    }

    /// Lets `thread`, which is new, choose, as at the end of a trap. For boot.
    pub(crate) fn settle_at_boot(&mut self, thread: ThreadId) {
        self.unsettle(thread);
        self.settle();
    }

    /// Lets all that are marked choose, and gives reservations their runners.
    #[inline(never)]
    pub(super) fn settle(&mut self) {
        let mut renewals = RENEWALS;
        self.choose_all();
        self.end_links();
        loop {
            self.choose_all();
            let Some(first) = self.touched.first() else { return };
            self.reservations[first].unmark(&mut self.touched);
            self.find_runner(first, &mut renewals);
        }
    }

    /// All threads that are marked choose.
    #[inline(always)]
    fn choose_all(&mut self) {
        while let Some(first) = self.unsettled.first() {
            if self.threads[first].unmark(&mut self.unsettled) {
                self.choose_anew(first);
            }
        }
    }

    /// Ends links before others begin, if several reservations have changed. Reservations without a runner go first:
    /// otherwise a reservation that comes would push another from its CPU, for which there is room in a moment elsewhere.
    /// Reservations whose runner goes on with another reservation go first, too: it can do so where it is.
    #[inline]
    fn end_links(&mut self) {
        let mut at = self.touched.first();
        if at.is_none_or(|first| self.reservations[first].next_touched().is_none()) {
            return;
        }
        while let Some(reservation) = at {
            let object = &self.reservations[reservation];
            at = object.next_touched();
            let (Some(runner), Some(cluster)) = (object.runner(), object.cluster()) else { continue };
            if self.clusters[cluster].schedule.has_one_cpu() {
                // There is no other place to be.
                continue;
            }
            let next = self.runner_of(reservation);
            if next.is_none() || next != Some(runner) && self.threads[runner].state() == State::Ready {
                self.set_runner(reservation, None);
            }
        }
    }

    /// The thread that should run on `reservation`: the one at the end of the chain that has chosen it, if that is ready.
    #[inline]
    fn runner_of(&self, reservation: ReservationId) -> Option<ThreadId> {
        let owner = self.reservations[reservation].owner()?;
        let end = propagation::carrier(self, owner, reservation)?;
        (self.threads[end].state() == State::Ready).then_some(end)
    }

    /// `thread` chooses, and so does each thread up the chain of its donees.
    #[inline(always)]
    fn choose_anew(&mut self, thread: ThreadId) {
        let object = &self.threads[thread];
        if !object.waits().is_alone() || object.waits().waits_for().is_some() {
            propagation::settle(self, thread);
            return;
        }
        // There is no choice: the thread runs on its own reservation, if that has budget.
        let before = object.chosen();
        let own = object.own().filter(|reservation| !self.reservations[*reservation].is_throttled());
        self.threads[thread].waits_mut().choose_own(own);
        if let Some(own) = own {
            self.touch(own);
        }
        if let Some(before) = before
            && Some(before) != own
        {
            self.touch(before);
        }
    }

    /// Gives `reservation` the runner it should have. A reservation that is renewed, and may not be chosen after that, is
    /// touched again instead.
    fn find_runner(&mut self, reservation: ReservationId, renewals: &mut usize) {
        if self.reservations[reservation].is_unplanned() {
            self.plan_event(reservation);
        }
        let rests = self.reservations[reservation].rests() != Instant::NEVER;
        let Some(runner) = self.runner_of(reservation) else {
            self.set_runner(reservation, None);
            if !rests {
                self.begin_rest(reservation);
            }
            return;
        };
        if rests && self.end_rest(reservation, runner, renewals) {
            return;
        }
        self.set_runner(reservation, Some(runner));
        // Keys are compared within a cluster. A thread therefore serves a waiting thread of another cluster above all keys of its
        // own, for as long as a service may take.
        let is_boosted = self.reservations[reservation].is_boosted();
        if (is_boosted || self.threads[runner].waits().is_urgent())
            && is_boosted != self.may_be_boosted(runner, is_boosted)
        {
            self.set_boosted(reservation, !is_boosted);
        }
    }

    /// Whether `thread`, whose reservation is boosted if `is_boosted`, is to run boosted from here on. Its boosts draw from
    /// an account, of `service_max` in each `service_period`. A chunk of this account begins when a boost does.
    #[cold]
    fn may_be_boosted(&mut self, thread: ThreadId, is_boosted: bool) -> bool {
        if !self.threads[thread].waits().is_urgent() {
            return false;
        }
        let boost = &mut self.boosts[thread];
        if !is_boosted {
            boost.resume(self.now);
        }
        !boost.is_dry()
    }

    /// `reservation` rests no longer: `runner` shall run on it. A reservation that owes time is renewed, as if it were
    /// released now, with the budget left; but a lent reservation pays for a trifle from its budget. Returns whether
    /// the reservation is to be chosen again first, for its key has changed.
    #[inline(never)]
    fn end_rest(&mut self, reservation: ReservationId, runner: ThreadId, renewals: &mut usize) -> bool {
        let owed = self.leave_rest(reservation);
        let (now, object) = (self.now, &mut self.reservations[reservation]);
        if owed == Nanoseconds::ZERO {
            return false;
        }
        let Some(owner) = object.owner() else {
            impossible!("a reservation has an owner");
            return false;
        };
        if owed <= TRIFLE && owner != runner {
            object.draw_all_but_one(owed);
            return false;
        }
        let waits = self.threads[owner].waits();
        let is_only_choice = waits.is_alone() && waits.waits_for().is_none();
        if !is_only_choice {
            let Some(left) = renewals.checked_sub(1) else {
                // The old key is good for a nanosecond.
                object.resume_budget_behind(now);
                return false;
            };
            *renewals = left;
        }
        object.resume_budget(now);
        if !self.forgets(Planted::AnySuspensionKeepsTheKey) {
            self.renew_key(reservation);
        }
        if !is_only_choice {
            self.unsettle(owner);
            self.touch(reservation);
        }
        !is_only_choice
    }
}
