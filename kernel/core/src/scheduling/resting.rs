//! Suspension is paid for: a job that was suspended gets no more of any interval than its reservation's demand bound.
//!
//! A real-time reservation that has budget and no runner *rests*: its thread is suspended, and no thread that it waits
//! for can run on its behalf. Budget saved in this way must not be spent behind a key that became old meanwhile.
//! Otherwise a job could sleep until just before its deadline, and then run for its whole budget before all others.
//!
//! # The rule
//!
//! 1. A reservation that rested and has a runner again goes on with the budget left, as a chunk of its account that is
//!    released at that instant (`sched::account`): with the key of a job released then. The reservation is *renewed*.
//! 2. A job may be suspended for as long as the *allowance* of its reservation, and keeps its key. The analysis counts
//!    this suspension as execution (suspension-oblivious analysis). Time counts while the reservation would be linked if
//!    it had a runner: while others with earlier keys have all CPUs, a job loses nothing by waiting. To the analysis, a
//!    job that is suspended by allowance has a CPU, too.
//! 3. A job that waits for others (a lock, a token, a server, a bound notification) loses its key only by time that
//!    counts, even without an allowance. A job without an allowance that sleeps or waits for an unbound notification is
//!    renewed in any case.
//! 4. A job whose thread runs on a loan from a donor pays for that time, as far as it counts, from its own budget, too.
//!    Otherwise the job would have all of that budget left behind its old key.
//!
//! 5. A reservation that is lent again after less than [`TRIFLE`] keeps its key, and pays for that time from its budget.
//!    Otherwise a thread with two donors would go from one to the other each nanosecond: while it runs on one, the other
//!    rests.
//!
//! Renewal changes a key, so threads that chose the reservation choose again (`settling`). A trap renews only a few
//! reservations. For any further one the old key is good for a nanosecond: then the budget is used up, as far as that key
//! is concerned, and the rest comes back with the key of a job released when it resumed.
//!
//! # Invariants
//!
//! R1. `rests` is set exactly while a real-time reservation has budget, and no runner.
//! R2. A reservation is in the list `waiting` of its cluster at most once, and only while it rests.
//! R3. The list `waiting` is in order of keys.
//!
//! The list has room for [`WAITING`](crate::limits::WAITING) reservations of a cluster. A reservation that finds no room
//! is renewed as if its thread slept.
//!
//! # Source
//!
//! Ours. The rule at wake-up is that of sporadic servers, which suits all policies; a constant-bandwidth server (Abeni,
//! Buttazzo 1998) compares the budget left with the deadline and needs EDF.

use fusee_sched::key::Class;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{ClusterId, ReservationId, ThreadId};
use crate::limits::CPUS;
use crate::object::{State, Waiter};
use crate::{Kernel, Planted};

/// The most that a reservation that is lent again may owe, and pays with its budget instead of its key. A trap that changes
/// keys takes a few microseconds; with this no reservation is renewed in two of them that follow each other.
pub(crate) const TRIFLE: Nanoseconds = Nanoseconds(50_000);

impl Kernel {
    /// `reservation` has budget and no runner from here on.
    #[inline(never)]
    pub(crate) fn begin_rest(&mut self, reservation: ReservationId) {
        let object = &self.reservations[reservation];
        // The reserve of a server has no owner, and does not rest.
        let (Some(cluster), Some(owner)) = (object.cluster(), object.owner()) else { return };
        if object.class() != Class::RealTime || object.is_throttled() || object.rests() != Instant::NEVER {
            return;
        }
        let state = &self.threads[owner];
        if state.state() == State::Stopped {
            return;
        }
        let allows = object.suspension() != Nanoseconds::ZERO;
        self.reservations[reservation].begin_rest(self.now);
        let is_alone = match state.state() {
            State::BetweenJobs | State::Receiving(_) => true,
            State::Sleeping => !allows,
            State::Waiting(_) => !allows && state.waits().waits_for().is_none(),
            _ => false,
        };
        if is_alone {
            return;
        }
        self.book_rests(cluster);
        let covered = Nanoseconds(u64::MAX);
        let waiter = Waiter { reservation: reservation.index() as u16, runs_on_loan: false, covered };
        if self.clusters[cluster].waiting.push(waiter).is_ok() {
            self.resting |= 1 << cluster.index();
            self.place_last(cluster);
        }
    }

    /// `reservation` rests no longer, if it did: it has a runner, or no budget, or its job is over. Returns the time it owes,
    /// by which its suspension exceeded its allowance. A renewal settles this debt, too.
    #[inline(never)]
    pub(crate) fn leave_rest(&mut self, reservation: ReservationId) -> Nanoseconds {
        let since = self.reservations[reservation].end_rest();
        let Some(cluster) = self.reservations[reservation].cluster().filter(|_| since != Instant::NEVER) else {
            return Nanoseconds::ZERO;
        };
        let mut is_listed = false;
        if self.resting & 1 << cluster.index() != 0 {
            self.book_rests(cluster);
            is_listed = self.unlist(cluster, reservation).is_some();
            if self.clusters[cluster].waiting.is_empty() {
                self.resting &= !(1 << cluster.index());
            }
        }
        let owed = self.owed_since(reservation, since, is_listed);
        self.reservations[reservation].forgive_excess();
        owed
    }

    fn owed_since(&self, reservation: ReservationId, since: Instant, is_listed: bool) -> Nanoseconds {
        let object = &self.reservations[reservation];
        // A CPU that has not taken its kick yet, though the reservation has no runner, has paid from it meanwhile.
        if object.on().is_some() || self.forgets(Planted::NoRuleAtWakeUp) {
            return Nanoseconds::ZERO;
        }
        match is_listed {
            true => object.suspended().saturating_sub(object.suspension()),
            false => self.now.since(since),
        }
    }

    /// `reservation`, whose next job was released while its thread was at the one before, has rested, because that thread ran
    /// on loans. Its budget is released now, however old the release of the job is.
    pub(crate) fn end_rest_late(&mut self, reservation: ReservationId) {
        let since = self.reservations[reservation].rests();
        if since < self.now && !self.forgets(Planted::NoRuleAtWakeUp) {
            self.leave_rest(reservation);
            self.reservations[reservation].resume_budget(self.now);
        }
    }

    /// Takes `time` from the budget of `reservation`, and leaves a nanosecond. The excess is suspension that is not allowed.
    fn draw(&mut self, reservation: ReservationId, time: Nanoseconds) {
        let object = &mut self.reservations[reservation];
        let drawn = object.draw_all_but_one(time);
        let more = time.saturating_sub(drawn);
        if more != Nanoseconds::ZERO {
            object.count_excess(more);
        }
    }

    /// Books the time that has counted since the last time in `cluster`. Waiters are counted anew at the end of the trap.
    #[inline(never)]
    fn book_rests(&mut self, cluster: ClusterId) {
        self.recount |= 1 << cluster.index();
        let object = &mut self.clusters[cluster];
        let span = self.now.since(object.counted);
        if span == Nanoseconds::ZERO {
            return;
        }
        object.counted = self.now;
        for place in 0..object.waiting.len() {
            let Some((waiter, reservation)) = self.waiter(cluster, place) else {
                impossible!("places below the length hold waiters");
                break;
            };
            let counts = span.saturating_sub(waiter.covered);
            if waiter.runs_on_loan {
                self.draw(reservation, counts);
            } else {
                self.reservations[reservation].count_suspension(counts);
            }
        }
    }

    /// Books the time that has counted since the last time in `cluster`, and determines for each waiter the time that will
    /// count.
    #[inline(never)]
    fn count(&mut self, cluster: ClusterId) {
        self.book_rests(cluster);
        // Instants until which the waiters before are executed or suspended by allowance, the latest first. There are no more
        // CPUs to wait for.
        let mut ends = [Nanoseconds::ZERO; CPUS];
        let mut free = self.clusters[cluster].schedule.cpu_count();
        let cpus = free;
        for place in 0..self.clusters[cluster].waiting.len() {
            let Some((_, reservation)) = self.waiter(cluster, place) else {
                impossible!("places below the length hold waiters");
                break;
            };
            let object = &self.reservations[reservation];
            if free > 0 {
                free = self.clusters[cluster].schedule.free_behind(object.key());
            }
            // If all CPUs are taken from one waiter, they are taken from all behind it.
            let Some(last) = free.checked_sub(1) else {
                if let Some(waiter) = self.clusters[cluster].waiting.get_mut(place) {
                    waiter.covered = Nanoseconds(u64::MAX);
                }
                continue;
            };
            let covered = ends.get(last).copied().unwrap_or_default();
            let runs_on_loan = object.owner().is_some_and(|owner| self.runs_on_loan(owner));
            let left = match runs_on_loan {
                true => object.account().left,
                false => object.suspension().saturating_sub(object.suspended()),
            };
            let mut end = Nanoseconds(covered.0.saturating_add(left.0));
            for other in ends.iter_mut().take(cpus) {
                if *other < end {
                    core::mem::swap(other, &mut end);
                }
            }
            if let Some(waiter) = self.clusters[cluster].waiting.get_mut(place) {
                (waiter.runs_on_loan, waiter.covered) = (runs_on_loan, covered);
            }
        }
    }

    /// The waiting reservation at `place`.
    fn waiter(&self, cluster: ClusterId, place: usize) -> Option<(Waiter, ReservationId)> {
        let waiter = *self.clusters[cluster].waiting.get(place)?;
        Some((waiter, ReservationId::new(usize::from(waiter.reservation))?))
    }

    /// Takes `reservation` off the list `waiting` of `cluster`, if it is in it.
    fn unlist(&mut self, cluster: ClusterId, reservation: ReservationId) -> Option<Waiter> {
        let waiting = &mut self.clusters[cluster].waiting;
        let place = waiting.iter().position(|one| usize::from(one.reservation) == reservation.index())?;
        Some(waiting.remove(place))
    }

    /// `reservation`, which rests, has another key.
    #[cold]
    pub(crate) fn rest_moves(&mut self, reservation: ReservationId) {
        if let Some(cluster) = self.reservations[reservation].cluster()
            && let Some(waiter) = self.unlist(cluster, reservation)
        {
            let pushed = self.clusters[cluster].waiting.push(waiter);
            debug_assert!(pushed.is_ok(), "the waiter's own place is free");
            self.place_last(cluster);
        }
    }

    /// Moves the last entry of the list `waiting` of `cluster` to the place of its key; the others are in order.
    fn place_last(&mut self, cluster: ClusterId) {
        let reservations = &self.reservations;
        let key =
            |waiter: &Waiter| ReservationId::new(usize::from(waiter.reservation)).map(|id| reservations[id].key());
        let waiting = &mut self.clusters[cluster].waiting;
        for place in (1..waiting.len()).rev() {
            if key(&waiting[place - 1]) <= key(&waiting[place]) {
                return;
            }
            waiting.swap(place - 1, place);
        }
    }

    /// Counts anew in all clusters in which a reservation waits for others and its inputs have changed: runners, keys,
    /// budgets. Called at the end of each trap on the slow path.
    #[inline(always)]
    pub(crate) fn count_all(&mut self) {
        if self.resting & self.recount != 0 {
            self.count_each();
        }
        self.recount = 0;
    }

    #[cold]
    fn count_each(&mut self) {
        let changed = self.resting & self.recount;
        for cluster in self.cluster_ids() {
            if changed & 1 << cluster.index() != 0 {
                self.count(cluster);
            }
        }
    }

    /// Whether `thread` is ready, and runs on something that competes.
    fn runs_on_loan(&self, thread: ThreadId) -> bool {
        let state = &self.threads[thread];
        let runs_on = |reservation: ReservationId| self.reservations[reservation].runner() == Some(thread);
        state.state() == State::Ready && state.chosen().is_some_and(runs_on)
    }
}
