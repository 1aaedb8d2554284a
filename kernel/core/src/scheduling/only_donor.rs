//! Fast paths of a thread and its only donor.
//!
//! A thread asks for an engine that another has, and lends its reservation to the holder. Later the holder of a mutex, or the bottom half of a
//! driver, lets its only donor go on. In all of these the runner of one reservation changes, and nothing else about it: it stays linked to its
//! CPU, and that CPU's timer stays as it is.
//!
//! As in `fast_switches`, each function has exactly the effects of the slow path, or declines and has changed nothing. Common to all: the plan
//! of the CPU is in force, there is no other donor, and a reservation of the thread that borrows waits behind the lent one, is exhausted, or is
//! missing.
//!
//! All others are declined: deadlines, boosts, real-time reservations that would rest, several waiters, devices that are to be probed.

use fusee_abi::call::{Call, DEADLINE, NEVER, rights};
use fusee_abi::trace::{Event, POOL};
use fusee_locking::engine::State as Lock;
use fusee_locking::propagation::{self, Graph};
use fusee_locking::tokens;
use fusee_sched::cpu::{CpuId, CpuSet};
use fusee_sched::key::Class;
use fusee_sched::time::Nanoseconds;

use crate::donation::keys::user_number;
use crate::id::{EngineId, EngineUserId, PoolId, PoolUserId, ReservationId, ThreadId, user_of};
use crate::machine::late_kick;
use crate::object::{Object, Payer, State};
use crate::{Kernel, Machine, Outcome};

impl Kernel {
    /// `acquire` of `engine`, which another thread has: `thread`, whose use of it is `user`, waits and lends to the holder.
    #[inline(never)]
    pub(crate) fn fast_lend<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        user: EngineUserId,
        engine: EngineId,
    ) -> Option<ThreadId> {
        let lock = self.engines[engine].lock();
        let Lock::Held(holder) = lock.state() else { return None };
        if machine.registers(thread).general[DEADLINE] != NEVER || !lock.waiters().is_empty() {
            return None;
        }
        let holder = self.engine_users[user_of(holder)?].thread()?;
        let span = self.offer(machine, thread, holder)?;
        let requested = self.engines[engine].lock_mut().request(user.index() as u16);
        debug_assert!(requested.is_ok(), "the lock has a place for each of its users");
        self.trace(machine, Event::EngineRequest, Some(thread), u32::from(engine.number()), 0);
        self.trace(machine, Event::Block, Some(thread), u32::from(engine.number()), Call::Acquire as u32);
        self.suspend(thread, State::Acquiring(user));
        Some(self.lend_on(machine, thread, holder, span))
    }

    /// `release` of `engine`, a mutex: `thread`, whose use of it is `user`, has borrowed from the only waiter, which has the mutex next and goes on.
    #[inline(never)]
    pub(crate) fn fast_release<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        user: EngineUserId,
        engine: EngineId,
    ) -> Option<ThreadId> {
        let object = &self.engines[engine];
        let [next] = *object.lock().waiters() else { return None };
        let next = user_of(next)?;
        let donor = self.engine_users[next].thread()?;
        if object.lock().state() != Lock::Held(user.index() as u16)
            || object.interrupt().is_some()
            || object.is_unwatched()
        {
            return None;
        }
        let cpu = self.threads[thread].on()?;
        let span = self.borrowed(machine, cpu, thread, donor)?;
        let is_free = self.let_go(machine, engine, user);
        debug_assert!(is_free, "a mutex has no operations");
        self.engines[engine].lock_mut().grant(next.index() as u16);
        self.hand(machine, engine, next);
        machine.registers(thread).general[0] = 0;
        self.return_lent(machine, cpu, thread, donor, span);
        Some(donor)
    }

    /// The user with this number in `pool`, if that has one token and measures nothing.
    pub(crate) fn user_of_token(&self, pool: PoolId, user: u16) -> Option<PoolUserId> {
        let is_plain = self.pools[pool].rules().replicas == 1 && !self.advisers.measures(pool);
        PoolUserId::new(usize::from(user)).filter(|_| is_plain)
    }

    /// `acquire` of the only token of a pool, which `holder` has: `thread`, by its use `user`, waits and lends to the holder.
    #[inline(never)]
    pub(crate) fn fast_lend_token<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        user: PoolUserId,
        holder: PoolUserId,
    ) -> Option<ThreadId> {
        let (pool, other) = self.pool_user(holder)?;
        if machine.registers(thread).general[DEADLINE] != NEVER
            || self.threads[thread].job().is_signalled()
            || self.threads[thread].is_holding()
        {
            return None;
        }
        let span = self.offer(machine, thread, other)?;
        let change = self.token_request(pool, user, self.base_key(thread)).ok()?;
        if change.granted.is_some() || self.token_donee(user) != Some(other) {
            // A request that was made last, and is withdrawn, has moved no other.
            let _ = self.advisers.withdraw(pool, &mut self.pools[pool], user_number(user));
            return None;
        }
        self.threads[thread].begin_request();
        self.trace(machine, Event::TokenRequest, Some(thread), u32::from(pool.number()), 0);
        let object = POOL + u32::from(pool.number());
        self.trace(machine, Event::Block, Some(thread), object, Call::Acquire as u32);
        self.suspend(thread, State::AwaitingToken { user, refused: false });
        Some(self.lend_on(machine, thread, other, span))
    }

    /// `release` of the only token of a pool: `thread`, by its use `user`, has borrowed from the only waiter, with the use `next`. The waiter has the
    /// token next and goes on.
    #[inline(never)]
    pub(crate) fn fast_release_token<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        user: PoolUserId,
        next: PoolUserId,
    ) -> Option<ThreadId> {
        let donor = self.pool_users[next].thread()?;
        if self.threads[donor].state() != (State::AwaitingToken { user: next, refused: false }) {
            return None;
        }
        let cpu = self.threads[thread].on()?;
        let span = self.borrowed(machine, cpu, thread, donor)?;
        tokens::held_by(&self.pools[self.pool_users[user].pool()?], user_number(user))?;
        // A thread that is ready is not woken.
        self.make_ready(donor);
        let released = self.release_token(machine, user);
        debug_assert!(released.is_ok(), "the user holds the token");
        machine.registers(thread).general[0] = 0;
        self.return_lent(machine, cpu, thread, donor, span);
        Some(donor)
    }

    /// `signal` of a notification for which the thread waits on whose reservation the caller runs: that thread goes on.
    #[inline(never)]
    pub(crate) fn fast_answer<M: Machine>(&mut self, machine: &mut M, cpu: CpuId) -> Option<Outcome> {
        let thread = self.cpus[cpu].current()?;
        let general = &machine.registers(thread).general;
        let (handle, bits) = (general[0], general[1]);
        if bits == 0 || self.cpus[cpu].needs_reschedule() {
            return None;
        }
        let Object::Notification(notification) = self.resolve(thread, handle, rights::SIGNAL).ok()?.0 else {
            return None;
        };
        let donor = self.notifications[notification].waiter()?;
        let span = self.borrowed(machine, cpu, thread, donor)?;
        machine.registers(thread).general[0] = 0;
        if M::KICKS && late_kick(machine, notification) {
            // A kick wakes nobody.
            return Some(Outcome { run: Some(thread), timer: None, kick: CpuSet::EMPTY });
        }
        let bits = self.notifications[notification].hand_over(bits);
        machine.registers(donor).general[1] = bits;
        self.return_lent(machine, cpu, thread, donor, span);
        Some(Outcome { run: Some(donor), timer: None, kick: CpuSet::EMPTY })
    }

    //--- Conditions ----------------------------------------------------------------------------------------

    /// The time since time was booked last, if `other` may run at once on the reservation of `thread`, the one that runs. `other` is ready, may have
    /// donors, and runs on no CPU; its present reservation, if any, has a later key.
    #[inline(never)]
    pub(crate) fn offer<M: Machine>(&self, machine: &mut M, thread: ThreadId, other: ThreadId) -> Option<Nanoseconds> {
        let (waiter, target) = (&self.threads[thread], &self.threads[other]);
        let own = target.chosen();
        if !matches!(target.state(), State::Ready)
            || target.on().is_some()
            || target.waits().is_urgent()
            || !waiter.waits().is_alone()
            || target.cluster() != waiter.cluster()
            || own.is_some_and(|own| self.reservations[own].runner() != Some(other))
        {
            return None;
        }
        self.lent(machine, waiter.on()?, thread, other, own)
    }

    /// The time since time was booked last, if `cpu` runs by a plan in force on the reservation of `lender`, which may pass between that and `borrower`.
    /// `own` is the reservation that competes while nothing is lent, and waits behind the lent one.
    #[inline(never)]
    pub(crate) fn lent<M: Machine>(
        &self,
        machine: &mut M,
        cpu: CpuId,
        lender: ThreadId,
        borrower: ThreadId,
        own: Option<ReservationId>,
    ) -> Option<Nanoseconds> {
        debug_assert!(lender != borrower, "a thread lends to another one");
        let now = machine.now();
        let state = &self.cpus[cpu];
        let cluster = state.cluster()?;
        let Payer::Reservation(reservation) = state.payer() else { return None };
        let object = &self.reservations[reservation];
        let (schedule, end) = (&self.clusters[cluster].schedule, state.mark() + object.account().left);
        let span = now.since(state.mark());
        if object.owner() != Some(lender)
            || schedule.linked(cpu) != Some(reservation.index() as u16)
            || span >= object.account().left
            || self.clusters[cluster].next_event(cpu).min(end) != state.armed()
            || state.is_boosted()
            || self.resting != 0
            || self.is_keyed(lender)
            || self.is_keyed(borrower)
        {
            return None;
        }
        if let Some(own) = own {
            // It has no boost: one is for an urgent runner (K10), and it has none, or one that is not urgent.
            let waiting = &self.reservations[own];
            if waiting.class() == Class::RealTime
                || waiting.on().is_some()
                || waiting.cluster() != Some(cluster)
                || waiting.key() <= object.key()
                || !schedule.has_one_cpu()
            {
                return None;
            }
        }
        Some(span)
    }

    /// As [`Kernel::lent`], of the reservation on which `thread`, the one on `cpu`, runs, if `donor` lends it and may go on in its place.
    #[inline(never)]
    fn borrowed<M: Machine>(
        &self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
        donor: ThreadId,
    ) -> Option<Nanoseconds> {
        let is_only = self.threads[thread].waits().only_donor() == Some(donor);
        if !is_only || !self.may_go_on(donor) {
            return None;
        }
        self.lent(machine, cpu, donor, thread, Graph::own(self, thread))
    }

    /// Whether `donor` may go on with its own reservation, which it lends, as soon as it waits no longer.
    #[inline(always)]
    pub(crate) fn may_go_on(&self, donor: ThreadId) -> bool {
        let donor = &self.threads[donor];
        donor.waits().is_alone() && donor.on().is_none() && !donor.is_timed()
    }

    //--- Actions -------------------------------------------------------------------------------------------

    /// `holder` goes on in place of `thread`, which waits for it and lends to it.
    #[inline(never)]
    pub(crate) fn lend_on<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        holder: ThreadId,
        span: Nanoseconds,
    ) -> ThreadId {
        if let Some(own) = self.threads[holder].chosen() {
            self.reservations[own].set_runner(None);
            if let Some(cluster) = self.reservations[own].cluster() {
                self.clusters[cluster].schedule.remove(own.index() as u16);
            }
        }
        propagation::lend_first(self, thread, holder);
        let Some(cpu) = self.threads[thread].on() else {
            impossible!("a thread that calls is on a CPU");
            return holder;
        };
        self.pass(machine, cpu, thread, holder, span)
    }

    /// `donor` goes on in place of `thread`, which has borrowed from it.
    #[inline(never)]
    fn return_lent<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
        donor: ThreadId,
        span: Nanoseconds,
    ) {
        self.go_on_with(machine, donor);
        let own = Graph::own(self, thread);
        propagation::return_alone(self, donor, thread, own);
        if let Some(own) = own {
            self.compete_behind(thread, own);
        }
        self.pass(machine, cpu, thread, donor, span);
    }

    /// `thread`, whose wait has ended well, is ready.
    #[inline(always)]
    pub(crate) fn go_on_with<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        machine.registers(thread).general[0] = 0;
        self.make_ready(thread);
        self.trace(machine, Event::Resume, Some(thread), self.cause, 0);
    }

    /// `reservation` competes again, behind all that are linked, with `thread` to run on it.
    #[inline(always)]
    pub(crate) fn compete_behind(&mut self, thread: ThreadId, reservation: ReservationId) {
        let object = &mut self.reservations[reservation];
        debug_assert!(
            object.runner().is_none() && !object.is_throttled(),
            "a reservation that competes again has a budget"
        );
        object.set_runner(Some(thread));
        let key = object.key();
        if let Some(cluster) = object.cluster() {
            self.clusters[cluster].schedule.queue(reservation.index() as u16, key);
        }
    }

    /// The CPU goes from one thread to another on the same reservation. Returns the other.
    #[inline(never)]
    pub(crate) fn pass<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        from: ThreadId,
        to: ThreadId,
        span: Nanoseconds,
    ) -> ThreadId {
        debug_assert!(from != to && self.threads[from].on() == Some(cpu), "a CPU goes on to another thread");
        debug_assert!(
            self.threads[to].state() == State::Ready && self.threads[to].on().is_none(),
            "the next thread may run"
        );
        self.cpus[cpu].set_current(Some(to));
        self.threads[from].leave(cpu);
        self.trace(machine, Event::SwitchAway, Some(from), 0, 0);
        self.threads[to].enter(cpu);
        if let Some(reservation) = self.book_loan(cpu, from, span) {
            self.pass_runner(reservation, to);
            self.trace_run(machine, Event::SwitchTo, to, reservation);
        }
        to
    }

    /// Books `span` to `thread` and to the reservation on which `cpu` runs. Returns this reservation.
    #[inline(always)]
    pub(crate) fn book_loan(&mut self, cpu: CpuId, thread: ThreadId, span: Nanoseconds) -> Option<ReservationId> {
        self.cpus[cpu].book_charged(span);
        self.threads[thread].book(span);
        let Payer::Reservation(reservation) = self.cpus[cpu].payer() else { return None };
        self.reservations[reservation].charge_affordable(span);
        Some(reservation)
    }
}
