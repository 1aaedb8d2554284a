//! The fast path from one thread to another: an event lets a thread preempt the one that runs, or that one steps back
//! for the next.
//!
//! Each function here either has exactly the effects of the slow path ([`Kernel::slow_trap`]), record for record and
//! nanosecond for nanosecond, or declines and has changed nothing. Common to all: one CPU and two threads are concerned,
//! or one thread and an idle CPU; each thread runs on its own reservation, neither has a donor, and no link of another
//! CPU changes.
//!
//! All other traps are declined: exhausted budgets, deadlines on waiting, boosts, a thread or a reservation that another
//! CPU still has.

use fusee_abi::call::{Call, DEADLINE, GIVEN, NEVER, NUMBER, TOKEN, rights};
use fusee_abi::trace::Event;
use fusee_sched::cpu::{CpuId, CpuSet};
use fusee_sched::key::{Class, Key};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{ClusterId, InterruptId, NotificationId, ReservationId, ThreadId};
use crate::limits::{LONGEST_PATH, RESTARTS};
use crate::machine::late_kick;
use crate::object::{Object, Payer, State};
use crate::{Kernel, Machine, Outcome, Trap};

/// The thread and reservation of a CPU whose plan is in force.
#[derive(Clone, Copy, Debug)]
struct Running {
    thread: ThreadId,
    reservation: ReservationId,
    cluster: ClusterId,
}

/// The plan of a CPU, if it is in force.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Busy(Running),
    Idle(ClusterId),
}

impl Kernel {
    /// Handles the trap if it has a fast path. `None`: nothing has happened.
    #[inline(always)]
    pub(crate) fn fast_switch<M: Machine, const IDLE: bool>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        trap: Trap,
        at: Option<Instant>,
    ) -> Option<Outcome> {
        if M::TRACE.keeps_schedule() {
            self.note(cpu, trap);
        }
        match (trap, at) {
            (Trap::Syscall, None) if !IDLE => self.fast_switch_call(machine, cpu),
            (Trap::Interrupt(_) | Trap::Timer, Some(at)) => self.fast_event::<M, IDLE>(machine, cpu, trap, at),
            _ => None,
        }
    }

    /// Handles traps that are rarer: apart from [`Kernel::fast_switch`], so that the others need fewer registers.
    #[inline(always)]
    pub(crate) fn fast_rare<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, trap: Trap) -> Option<Outcome> {
        let Trap::Syscall = trap else { return None };
        let thread = self.cpus[cpu].current()?;
        let number = machine.registers(thread).general[NUMBER];
        if number == Call::Send as u64 {
            self.fast_send(machine, cpu)
        } else if number == Call::Signal as u64 {
            self.fast_answer(machine, cpu)
        } else {
            None
        }
    }

    #[inline(always)]
    fn fast_switch_call<M: Machine>(&mut self, machine: &mut M, cpu: CpuId) -> Option<Outcome> {
        let thread = self.cpus[cpu].current()?;
        let number = machine.registers(thread).general[NUMBER];
        if number != Call::Signal as u64 && number != Call::Wait as u64 && number != Call::Yield as u64 {
            return None;
        }
        let Plan::Busy(running) = self.plan::<false>(cpu)? else { return None };
        if number == Call::Signal as u64 {
            self.fast_signal(machine, cpu, running)
        } else if number == Call::Wait as u64 {
            self.fast_wait(machine, cpu, running)
        } else {
            self.fast_yield(machine, cpu, running)
        }
    }

    //--- Events --------------------------------------------------------------------------------------------

    /// `signal` without a waiter, or with a waiter that preempts the caller.
    #[inline(always)]
    fn fast_signal<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, running: Running) -> Option<Outcome> {
        let general = &machine.registers(running.thread).general;
        let (handle, bits) = (general[0], general[1]);
        let (Object::Notification(notification), _) = self.resolve(running.thread, handle, rights::SIGNAL).ok()? else {
            return None;
        };
        if bits == 0 {
            return None;
        }
        let waiter = self.notifications[notification].waiter();
        // A kick wakes nobody.
        let is_kick = M::KICKS && late_kick(machine, notification);
        let Some(waiter) = waiter.filter(|_| !is_kick) else {
            if !is_kick {
                self.notifications[notification].keep(bits);
            }
            machine.registers(running.thread).general[0] = 0;
            return Some(Outcome { run: Some(running.thread), timer: None, kick: CpuSet::EMPTY });
        };
        if self.threads[waiter].is_timed() {
            return None;
        }
        let now = machine.now();
        let plan = Plan::Busy(running);
        let (new, span) = (self.may_preempt(cpu, plan, waiter, now)?, self.affordable(cpu, plan, now)?);
        machine.registers(running.thread).general[0] = 0;
        self.book(cpu, plan, span);
        self.notify(machine, notification, waiter, bits);
        self.displace(cpu, plan, waiter, new);
        Some(self.hand_over(machine, cpu, plan, waiter, new, now))
    }

    /// `send`, without a handle, to a server that has nothing to do and preempts the caller.
    #[inline(never)]
    fn fast_send<M: Machine>(&mut self, machine: &mut M, cpu: CpuId) -> Option<Outcome> {
        let Plan::Busy(running) = self.plan::<false>(cpu)? else { return None };
        let general = &machine.registers(running.thread).general;
        let (handle, gift) = (general[0], general[GIVEN]);
        if gift != 0 {
            return None;
        }
        let (endpoint, badge, known) = self.endpoint_of(running.thread, handle, rights::SEND)?;
        let server = self.endpoints[endpoint].server()?;
        let State::Receiving(open) = self.threads[server].state() else { return None };
        if open != endpoint
            || self.threads[server].is_timed()
            || RESTARTS && self.threads[server].life() != known
            || self.threads[running.thread].is_holding()
        {
            return None;
        }
        let now = machine.now();
        let plan = Plan::Busy(running);
        let (new, span) = (self.may_preempt(cpu, plan, server, now)?, self.affordable(cpu, plan, now)?);
        let general = &mut machine.registers(running.thread).general;
        (general[0], general[1]) = (0, 0);
        self.threads[running.thread].ask(badge, true);
        self.trace(machine, Event::Call, Some(running.thread), u32::from(endpoint.number()), 1);
        self.book(cpu, plan, span);
        self.make_ready(server);
        machine.copy_message(running.thread, server);
        let general = &mut machine.registers(server).general;
        (general[0], general[1], general[TOKEN]) = (0, u64::from(badge), 0);
        self.displace(cpu, plan, server, new);
        Some(self.hand_over(machine, cpu, plan, server, new, now))
    }

    /// An interrupt line fired, or the timer did because the sleep of a thread is over: that thread preempts the running one. Where the kind is known
    /// as this is compiled, it is the path for this kind alone.
    #[inline(always)]
    fn fast_event<M: Machine, const IDLE: bool>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        trap: Trap,
        at: Instant,
    ) -> Option<Outcome> {
        let waiter = match trap {
            Trap::Interrupt(interrupt) => Some(self.woken_by(interrupt)?),
            _ => None,
        };
        let plan = self.plan::<IDLE>(cpu)?;
        let thread = match waiter {
            Some(waiter) => waiter,
            None => self.first_sleeper(cpu, plan, at)?,
        };
        let (new, span) = (self.may_preempt(cpu, plan, thread, at)?, self.affordable(cpu, plan, at)?);
        if let Trap::Timer = trap
            && self.reservations[new].account().left < Nanoseconds(LONGEST_PATH)
        {
            // The reservation pays for this interrupt, and may not be able to.
            return None;
        }
        self.book(cpu, plan, span);
        let now = if let Trap::Interrupt(interrupt) = trap {
            machine.set_interrupt_enabled(interrupt, false);
            self.trace(machine, Event::Interrupt, None, u32::from(interrupt.number()), 0);
            let object = &self.interrupts[interrupt];
            let (notification, bits) = (object.notification()?, object.bits());
            machine.registers(thread).general[1] = self.notifications[notification].hand_over(bits);
            self.book_kernel(machine, cpu)
        } else {
            self.cpus[cpu].note_fired();
            self.clusters[plan.cluster()].timeouts.pop();
            self.threads[thread].end_timeout();
            self.book_timeout(machine, cpu, new)
        };
        self.fast_resume(machine, thread);
        self.displace(cpu, plan, thread, new);
        Some(self.hand_over(machine, cpu, plan, thread, new, now))
    }

    /// The thread that waits for `interrupt` without a deadline.
    #[inline(always)]
    fn woken_by(&self, interrupt: InterruptId) -> Option<ThreadId> {
        let waiter = self.notifications[self.interrupts[interrupt].notification()?].waiter()?;
        (!self.threads[waiter].is_timed() && !self.drains_one(interrupt)).then_some(waiter)
    }

    /// The thread that has slept to the end, if nothing else is due on the timer of `cpu`.
    #[inline(always)]
    fn first_sleeper(&self, cpu: CpuId, plan: Plan, at: Instant) -> Option<ThreadId> {
        let object = &self.clusters[plan.cluster()];
        if object.timekeeper() != cpu || object.events.first().is_some_and(|(key, _)| key.instant() <= at) {
            return None;
        }
        let (key, sleeper) = object.timeouts.first()?;
        if key.instant() > at || object.timeouts.second_is_until(Key::at(at)) {
            return None;
        }
        let sleeper = ThreadId::new(usize::from(sleeper))?;
        let State::Sleeping = self.threads[sleeper].state() else { return None };
        Some(sleeper)
    }

    /// `wait` for ever on a notification that no thread is bound to, while another thread is ready.
    #[inline(always)]
    fn fast_wait<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, running: Running) -> Option<Outcome> {
        let general = &machine.registers(running.thread).general;
        let (handle, deadline) = (general[0], general[DEADLINE]);
        let (Object::Notification(id), _) = self.resolve(running.thread, handle, rights::WAIT).ok()? else {
            return None;
        };
        let notification = &self.notifications[id];
        if deadline != NEVER
            || notification.bits() != 0
            || notification.waiter().is_some()
            || notification.bound().is_some()
            || self.threads[running.thread].job().is_signalled()
            || !self.may_wait(machine, running.thread)
        {
            return None;
        }
        let (thread, new) = self.next_ready(running)?;
        let own = &self.reservations[running.reservation];
        let rests = own.class() == Class::RealTime;
        if rests && own.suspension() != Nanoseconds::ZERO {
            return None;
        }
        let now = machine.now();
        let plan = Plan::Busy(running);
        let span = self.affordable(cpu, plan, now)?;
        if rests {
            self.reservations[running.reservation].begin_rest(now);
        }
        self.trace(machine, Event::Block, Some(running.thread), u32::from(id.number()), Call::Wait as u32);
        self.book(cpu, plan, span);
        self.notifications[id].await_bits(running.thread);
        self.suspend(running.thread, State::Waiting(id));
        self.reservations[running.reservation].set_runner(None);
        self.clusters[running.cluster].schedule.remove(running.reservation.index() as u16);
        Some(self.hand_over(machine, cpu, plan, thread, new, now))
    }

    /// `yield` of a service or background thread to another of its class.
    #[inline(always)]
    fn fast_yield<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, running: Running) -> Option<Outcome> {
        if self.threads[running.thread].job().is_signalled() {
            return None;
        }
        let object = &self.reservations[running.reservation];
        if object.class() == Class::RealTime {
            return None;
        }
        let key = Key::in_turn(object.class(), self.sequence + 1, object.tie());
        let schedule = &self.clusters[running.cluster].schedule;
        if schedule.first_ready_key().is_none_or(|first| key <= first) {
            return None;
        }
        let (thread, new) = self.next_ready(running)?;
        let now = machine.now();
        let plan = Plan::Busy(running);
        let span = self.affordable(cpu, plan, now)?;
        machine.registers(running.thread).general[0] = 0;
        self.book(cpu, plan, span);
        self.sequence += 1;
        self.reservations[running.reservation].set_key(key);
        self.clusters[running.cluster].schedule.change_key(running.reservation.index() as u16, key);
        Some(self.hand_over(machine, cpu, plan, thread, new, now))
    }

    //--- Conditions ----------------------------------------------------------------------------------------

    /// The plan of `cpu`, if it is in force: to idle if `IDLE`; otherwise to run a thread without donors on its own
    /// reservation, which is linked there.
    #[inline(always)]
    fn plan<const IDLE: bool>(&self, cpu: CpuId) -> Option<Plan> {
        let state = &self.cpus[cpu];
        let cluster = state.cluster()?;
        if state.needs_reschedule() || state.is_boosted() || self.resting != 0 {
            return None;
        }
        let linked = self.clusters[cluster].schedule.linked(cpu);
        if IDLE {
            let idles = state.current().is_none() && matches!(state.payer(), Payer::Idle) && linked.is_none();
            return idles.then_some(Plan::Idle(cluster));
        }
        let (thread, reservation) = match (state.current(), state.payer()) {
            (Some(thread), Payer::Reservation(reservation)) if linked == Some(reservation.index() as u16) => {
                (thread, reservation)
            }
            _ => return None,
        };
        let (object, own) = (&self.threads[thread], &self.reservations[reservation]);
        // Any event that ends one of these conditions asks the CPU to reschedule.
        debug_assert!(matches!(object.state(), State::Ready) && own.runner() == Some(thread) && !own.is_boosted());
        let runs = own.owner() == Some(thread) && object.waits().is_alone();
        runs.then_some(Plan::Busy(Running { thread, reservation, cluster }))
    }

    /// The reservation that `waiter` runs on when it is woken, if that then takes the CPU.
    #[inline(always)]
    fn may_preempt(&mut self, cpu: CpuId, plan: Plan, waiter: ThreadId, now: Instant) -> Option<ReservationId> {
        let state = &self.threads[waiter];
        let reservation = state.own()?;
        if state.on().is_some() || !state.waits().is_alone() || state.waits().waits_for().is_some() {
            return None;
        }
        let own = &self.reservations[reservation];
        if own.is_throttled() || own.on().is_some() || own.cluster() != Some(plan.cluster()) {
            return None;
        }
        debug_assert!(own.runner().is_none() && !own.is_boosted());
        if own.class() == Class::RealTime && !self.fast_renew(waiter, reservation, now) {
            return None;
        }
        let (key, last) = (self.reservations[reservation].key(), self.threads[waiter].last_cpu());
        self.clusters[plan.cluster()].schedule.would_take(cpu, key, last).then_some(reservation)
    }

    /// Renews the real-time reservation `reservation` of `waiter`, which has rested and will be woken in this trap, be it on
    /// the slow path: so this may be done before the path is known. Declines if requests for tokens are ordered by its key.
    /// Returns `false` if it declines.
    #[inline(never)]
    fn fast_renew(&mut self, waiter: ThreadId, reservation: ReservationId, now: Instant) -> bool {
        let state = &self.threads[waiter];
        if state.requests() != 0 || state.jobs_are_recorded() {
            return false;
        }
        if self.reservations[reservation].rests() < now {
            self.reservations[reservation].resume_budget(now);
            let key = self.job_key(reservation, self.reservations[reservation].account().release);
            self.reservations[reservation].set_key(key);
            self.reservations[reservation].begin_rest(now);
        }
        true
    }

    /// The earliest reservation that is ready in the cluster, and its runner, if no other CPU has either.
    #[inline(always)]
    fn next_ready(&self, running: Running) -> Option<(ThreadId, ReservationId)> {
        let first = self.clusters[running.cluster].schedule.first_ready()?;
        let reservation = ReservationId::new(usize::from(first))?;
        let object = &self.reservations[reservation];
        let thread = object.runner()?;
        (object.on().is_none() && self.threads[thread].on().is_none() && !object.is_boosted())
            .then_some((thread, reservation))
    }

    /// The time since time was booked last, if that leaves something of the budget.
    #[inline(always)]
    fn affordable(&self, cpu: CpuId, plan: Plan, now: Instant) -> Option<Nanoseconds> {
        let span = now.since(self.cpus[cpu].mark());
        let left = match plan {
            Plan::Busy(running) => self.reservations[running.reservation].account().left,
            Plan::Idle(_) => Nanoseconds(u64::MAX),
        };
        (span < left).then_some(span)
    }

    //--- Actions -------------------------------------------------------------------------------------------

    /// Books `span`, which is [`Kernel::affordable`].
    #[inline(always)]
    fn book(&mut self, cpu: CpuId, plan: Plan, span: Nanoseconds) {
        let state = &mut self.cpus[cpu];
        match plan {
            Plan::Busy(running) => {
                state.book_charged(span);
                self.threads[running.thread].book(span);
                self.reservations[running.reservation].charge_affordable(span);
            }
            Plan::Idle(_) => state.book_idle(span),
        }
    }

    /// Books the rest of an interrupt to the kernel. Returns the time.
    #[inline(always)]
    fn book_kernel<M: Machine>(&mut self, machine: &mut M, cpu: CpuId) -> Instant {
        let now = machine.now();
        let state = &mut self.cpus[cpu];
        let span = now.since(state.mark());
        state.book_kernel(span);
        now
    }

    /// Books the rest of a timer interrupt to `payer`, whose thread has asked for it, and which has enough budget left.
    /// Returns the time.
    #[inline(always)]
    fn book_timeout<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, payer: ReservationId) -> Instant {
        let now = machine.now();
        let state = &mut self.cpus[cpu];
        let span = now.since(state.mark());
        state.book_charged(span);
        // A wait for the kernel's lock may be long.
        self.reservations[payer].charge_all_but_one(span);
        now
    }

    /// Gives `waiter` its bits.
    #[inline(always)]
    fn notify<M: Machine>(&mut self, machine: &mut M, notification: NotificationId, waiter: ThreadId, bits: u64) {
        let bits = self.notifications[notification].hand_over(bits);
        machine.registers(waiter).general[1] = bits;
        self.fast_resume(machine, waiter);
    }

    #[inline(always)]
    fn fast_resume<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        machine.registers(thread).general[0] = 0;
        self.make_ready(thread);
        self.trace(machine, Event::Resume, Some(thread), self.cause, 0);
    }

    /// `waiter` runs on `new` from here on, and `new` is linked in place of the one that was linked to `cpu`.
    #[inline(always)]
    fn displace(&mut self, cpu: CpuId, plan: Plan, waiter: ThreadId, new: ReservationId) {
        self.threads[waiter].waits_mut().choose_own(Some(new));
        let object = &mut self.reservations[new];
        object.set_runner(Some(waiter));
        object.end_rest();
        let (id, key) = (new.index() as u16, object.key());
        match plan {
            Plan::Busy(running) => self.clusters[running.cluster].schedule.displace(cpu, id, key),
            Plan::Idle(cluster) => self.clusters[cluster].schedule.occupy(cpu, id, key),
        }
    }

    /// The CPU goes to `thread` on `new`, for as long as its budget and the next event allow.
    #[inline(always)]
    fn hand_over<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        plan: Plan,
        thread: ThreadId,
        new: ReservationId,
        now: Instant,
    ) -> Outcome {
        if let Plan::Busy(running) = plan {
            self.threads[running.thread].leave(cpu);
            self.reservations[running.reservation].leave();
            self.trace(machine, Event::SwitchAway, Some(running.thread), 0, 0);
        }
        self.threads[thread].enter(cpu);
        self.trace_run(machine, Event::SwitchTo, thread, new);
        let object = &mut self.reservations[new];
        object.enter(cpu);
        let next = self.clusters[plan.cluster()].next_event(cpu).min(now + object.account().left);
        let timer = self.cpus[cpu].switch_to(thread, new, next);
        Outcome { run: Some(thread), timer, kick: CpuSet::EMPTY }
    }
}

impl Plan {
    #[inline(always)]
    fn cluster(self) -> ClusterId {
        match self {
            Plan::Busy(running) => running.cluster,
            Plan::Idle(cluster) => cluster,
        }
    }
}
