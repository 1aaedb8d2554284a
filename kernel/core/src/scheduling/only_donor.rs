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
use fusee_abi::trace::Event;
use fusee_locking::engine::State as Lock;
use fusee_locking::propagation;
use fusee_sched::cpu::{CpuId, CpuSet};
use fusee_sched::key::Class;
use fusee_sched::time::Nanoseconds;

use crate::id::{ClusterId, EngineId, EngineUserId, ReservationId, ThreadId, user_of};
use crate::object::{Object, Payer, State};
use crate::{Kernel, Machine, Outcome};

/// A reservation that passes from a thread to another.
#[derive(Clone, Copy, Debug)]
struct Loan {
    cluster: ClusterId,
    reservation: ReservationId,
    /// The time since time was booked last.
    span: Nanoseconds,
    /// The reservation of the thread that borrows, which competes while nothing is lent; `None`: it is exhausted, or there is none.
    own: Option<ReservationId>,
}

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
        let (waiter, other) = (&self.threads[thread], &self.threads[holder]);
        if !matches!(other.state(), State::Ready)
            || other.on().is_some()
            || !other.waits().is_alone()
            || !waiter.waits().is_alone()
            || other.cluster() != waiter.cluster()
        {
            return None;
        }
        let cpu = waiter.on()?;
        let loan = self.lent(machine, cpu, thread, holder)?;
        if loan.own.is_some_and(|own| self.reservations[own].runner() != Some(holder)) {
            return None;
        }
        let requested = self.engines[engine].lock_mut().request(user.index() as u16);
        debug_assert!(requested.is_ok(), "the lock has a place for each of its users");
        self.trace(machine, Event::EngineRequest, Some(thread), u32::from(engine.number()), 0);
        self.trace(machine, Event::Block, Some(thread), u32::from(engine.number()), Call::Acquire as u32);
        self.suspend(thread, State::Acquiring(user));
        propagation::lend_alone(self, thread, holder);
        if let Some(own) = loan.own {
            self.reservations[own].set_runner(None);
            self.clusters[loan.cluster].schedule.remove(own.index() as u16);
        }
        self.pass(machine, cpu, thread, holder, loan);
        Some(holder)
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
        let loan = self.borrowed(machine, cpu, thread, donor)?;
        let is_free = self.let_go(machine, engine, user);
        debug_assert!(is_free, "a mutex has no operations");
        self.engines[engine].lock_mut().grant(next.index() as u16);
        self.hand(machine, engine, next);
        machine.registers(thread).general[0] = 0;
        self.return_lent(machine, cpu, thread, donor, loan);
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
        let loan = self.borrowed(machine, cpu, thread, donor)?;
        machine.registers(thread).general[0] = 0;
        let bits = self.notifications[notification].hand_over(bits);
        machine.registers(donor).general[1] = bits;
        self.return_lent(machine, cpu, thread, donor, loan);
        Some(Outcome { run: Some(donor), timer: None, kick: CpuSet::EMPTY })
    }

    //--- Conditions ----------------------------------------------------------------------------------------

    /// The reservation of `lender`, on which `cpu` runs by a plan in force, as one that passes between it and `borrower`.
    #[inline(never)]
    fn lent<M: Machine>(&self, machine: &mut M, cpu: CpuId, lender: ThreadId, borrower: ThreadId) -> Option<Loan> {
        let state = &self.cpus[cpu];
        let cluster = state.cluster()?;
        let Payer::Reservation(reservation) = state.payer() else { return None };
        let object = &self.reservations[reservation];
        let (schedule, end) = (&self.clusters[cluster].schedule, state.mark() + object.account().left);
        let span = machine.now().since(state.mark());
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
        debug_assert!(lender != borrower, "a thread lends to another one");
        let mut loan = Loan { cluster, reservation, span, own: None };
        if let Some(own) = self.threads[borrower].own()
            && !self.reservations[own].is_throttled()
        {
            let waiting = &self.reservations[own];
            if waiting.class() == Class::RealTime
                || waiting.on().is_some()
                || waiting.cluster() != Some(cluster)
                || waiting.key() <= object.key()
                || !schedule.has_one_cpu()
            {
                return None;
            }
            loan.own = Some(own);
        }
        Some(loan)
    }

    /// The reservation on which `thread`, the one on `cpu`, runs, if `donor` lends it and may go on in its place.
    #[inline]
    fn borrowed<M: Machine>(&self, machine: &mut M, cpu: CpuId, thread: ThreadId, donor: ThreadId) -> Option<Loan> {
        let other = &self.threads[donor];
        let is_only = self.threads[thread].waits().only_donor() == Some(donor) && other.waits().is_alone();
        if !is_only || other.on().is_some() || other.is_timed() {
            return None;
        }
        self.lent(machine, cpu, donor, thread)
    }

    //--- Actions -------------------------------------------------------------------------------------------

    /// `donor` goes on in place of `thread`, which has borrowed from it.
    #[inline(never)]
    fn return_lent<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId, donor: ThreadId, loan: Loan) {
        machine.registers(donor).general[0] = 0;
        self.make_ready(donor);
        self.trace(machine, Event::Resume, Some(donor), self.cause, 0);
        propagation::return_alone(self, donor, thread, loan.own);
        if let Some(own) = loan.own {
            let object = &mut self.reservations[own];
            debug_assert!(
                object.runner().is_none() && !object.is_throttled(),
                "a reservation that competes again has a budget"
            );
            object.set_runner(Some(thread));
            let key = object.key();
            self.clusters[loan.cluster].schedule.queue(own.index() as u16, key);
        }
        self.pass(machine, cpu, thread, donor, loan);
    }

    /// The CPU goes from one thread to another on the same reservation.
    #[inline]
    fn pass<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, from: ThreadId, to: ThreadId, loan: Loan) {
        debug_assert!(
            from != to && self.threads[from].on() == Some(cpu),
            "a CPU goes on from the thread that is on it"
        );
        debug_assert!(
            self.threads[to].state() == State::Ready && self.threads[to].on().is_none(),
            "the next thread may run"
        );
        let state = &mut self.cpus[cpu];
        state.book_charged(loan.span);
        state.set_current(Some(to));
        self.threads[from].book(loan.span);
        self.reservations[loan.reservation].charge_affordable(loan.span);
        self.pass_runner(loan.reservation, to);
        self.threads[from].leave(cpu);
        self.trace(machine, Event::SwitchAway, Some(from), 0, 0);
        self.threads[to].enter(cpu);
        self.trace_run(machine, Event::SwitchTo, to, loan.reservation);
    }
}
