//! The fast paths: an uncontended call, its reply, an uncontended lock, and a trap that does nothing.
//!
//! A call moves six words and a runner: the client's reservation stays where it is linked, and the server
//! runs on it. No queue, no clock. A fast path either has exactly the effects of the slow path ([`Kernel::trap`]), or
//! declines and has changed nothing.
//!
//! Both paths leave the same trace. (The CPU on which a thread ran last, which is only a hint for its next place, is not
//! kept here.)
//!
//! All calls that concern a third thread or the timer are declined: other donors, other callers, a server whose own
//! reservation comes first, a server that waits no longer than until some time, a deadline for which the timer must be
//! set, a plan that must be looked at again.

use fusee_abi::call::{Call, DEADLINE, HandleValue, NEVER, NUMBER, TOKEN, rights};
use fusee_abi::trace::Event;
use fusee_locking::engine::State as Lock;
use fusee_locking::propagation;
use fusee_sched::cpu::{CpuId, CpuSet};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::donation::keys::user_number;
use crate::id::{PoolUserId, ThreadId};
use crate::ipc::token;
use crate::limits::{CHAIN_MAX, HANDLES, RESTARTS};
use crate::object::{Cpu, Object, State};
use crate::{Kernel, Machine, Outcome, Trap};

impl Kernel {
    /// The thread on `cpu`, if its plan need not be looked at again.
    #[inline(always)]
    fn caller<M: Machine>(&mut self, cpu: CpuId) -> Option<ThreadId> {
        let state = &self.cpus[cpu];
        let thread = state.current()?;
        if state.needs_reschedule() {
            return None;
        }
        if M::TRACE.keeps_schedule() {
            self.note(cpu, Trap::Syscall);
        }
        Some(thread)
    }

    /// Handles the system call of the thread on `cpu` if it has a fast path, and returns the thread to
    /// run: timer and other CPUs stay as they are. `None`: nothing has happened; use [`Kernel::trap`].
    #[inline(always)]
    pub fn fast_call<M: Machine>(&mut self, machine: &mut M, cpu: CpuId) -> Option<ThreadId> {
        let thread = self.caller::<M>(cpu)?;
        let general = &mut machine.registers(thread).general;
        let number = general[NUMBER];
        if number == Call::ReplyReceive as u64 {
            self.fast_reply::<M, false>(machine, cpu, thread)
        } else if number == Call::Call as u64 && general[DEADLINE] == NEVER {
            self.fast_request(machine, cpu, thread)
        } else if number == Call::Null as u64 {
            general[0] = 0;
            Some(thread)
        } else if M::KICKS && number == Call::Signal as u64 {
            self.fast_kick(machine, thread)
        } else {
            None
        }
    }

    /// `signal` of a notification that kicks devices: the call concerns no thread.
    #[inline(always)]
    fn fast_kick<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Option<ThreadId> {
        let general = &machine.registers(thread).general;
        let value = HandleValue(general[0]);
        let handle = &self.handles[thread][usize::from(value.slot()) % HANDLES];
        let Object::Notification(notification) = *handle.object() else { return None };
        if value != handle.value() || u32::from(handle.rights()) & rights::SIGNAL == 0 || !machine.kick(notification) {
            return None;
        }
        machine.registers(thread).general[0] = 0;
        Some(thread)
    }

    /// Handles calls, replies and locks that [`Kernel::fast_call`] leaves: a call under a deadline for which the timer need
    /// not be set anew, its reply, and locks. Apart, because these paths need a stack.
    #[inline(always)]
    pub fn fast_call_until<M: Machine>(&mut self, machine: &mut M, cpu: CpuId) -> Option<ThreadId> {
        let thread = self.caller::<M>(cpu)?;
        let number = machine.registers(thread).general[NUMBER];
        if number == Call::ReplyReceive as u64 {
            let first = self.threads[thread].first_slot().client();
            if first.is_some_and(|client| self.threads[client].is_timed()) {
                return self.fast_reply_until(machine, cpu, thread);
            }
            // The first fast path has declined it.
            self.fast_answer_call(machine, cpu, thread)
        } else if number == Call::Call as u64 {
            if machine.registers(thread).general[DEADLINE] != NEVER {
                return self.fast_request_until(machine, cpu, thread);
            }
            // The first fast path has declined it.
            self.fast_queue(machine, thread)
        } else if number == Call::Acquire as u64 || number == Call::Release as u64 {
            self.fast_lock(machine, thread, number)
        } else {
            None
        }
    }

    /// Handles a system call by [`Kernel::fast_call`] or [`Kernel::fast_call_until`], for callers with any stack. `None`:
    /// nothing has happened; use [`Kernel::trap`].
    pub fn fast_calls<M: Machine>(&mut self, machine: &mut M, cpu: CpuId) -> Option<Outcome> {
        let run = self.fast_call(machine, cpu).or_else(|| self.fast_call_until(machine, cpu))?;
        Some(Outcome { run: Some(run), timer: None, kick: CpuSet::EMPTY })
    }

    /// `acquire` of an engine that is free and needs no watchdog to be set; `release` of an engine that is idle and has no
    /// waiters. Others with exactly one waiter are tried by `only_donor`.
    #[inline(never)]
    fn fast_lock<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, number: u64) -> Option<ThreadId> {
        let handle = machine.registers(thread).general[0];
        let user = match self.resolve(thread, handle, rights::ACQUIRE).ok()?.0 {
            Object::Engine(user) => user,
            Object::Pool(user) => return self.fast_token(machine, thread, user, number),
            _ => return None,
        };
        let engine = self.engine_users[user].engine()?;
        if !self.engine_users[user].is_plain() || !self.managed || self.threads[thread].job().is_signalled() {
            return None;
        }
        if number == Call::Acquire as u64 && !self.may_wait(machine, thread) {
            return None;
        }
        let object = &mut self.engines[engine];
        let holder = user.index() as u16;
        if number == Call::Acquire as u64 {
            if object.lock().state() != Lock::Free {
                return self.fast_lend(machine, thread, user, engine);
            }
            if object.is_unwatched() {
                return None;
            }
            let requested = object.lock_mut().request(holder);
            debug_assert!(requested.is_ok(), "a free lock is refused to no task");
            self.trace(machine, Event::EngineRequest, Some(thread), u32::from(engine.number()), 0);
            self.granted(machine, engine, user);
        } else {
            let lock = object.lock_mut();
            if !lock.waiters().is_empty() {
                return self.fast_release(machine, thread, user, engine);
            }
            if lock.state() != Lock::Held(holder)
                || self.engine_users[user].payer().is_some()
                || !machine.engine_is_idle(user)
            {
                return None;
            }
            let released = lock.release(holder, true);
            debug_assert!(released.is_ok(), "the user holds the lock");
            machine.unmap_doorbell(user);
            self.threads[thread].let_go();
            self.trace(machine, Event::EngineRelease, Some(thread), u32::from(engine.number()), 0);
            self.charge_hold(machine, engine, user);
        }
        machine.registers(thread).general[0] = 0;
        Some(thread)
    }

    /// `acquire` of a token of a pool without requests; `release` of a token of a pool without other requests: as the slow
    /// path does it, but there is nothing to settle. With one other request of a pool of one token the reservation passes to the holder, and back.
    #[inline(never)]
    fn fast_token<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        user: PoolUserId,
        number: u64,
    ) -> Option<ThreadId> {
        let pool = self.pool_users[user].pool().filter(|pool| !self.is_shared(*pool))?;
        let watch = &self.token_watches[pool];
        let has_look = || watch.is_planned() || watch.watchdog() == Nanoseconds::ZERO;
        match self.pools[pool].requests() {
            [] if number == Call::Acquire as u64
                && has_look()
                && !self.threads[thread].job().is_signalled()
                && !self.threads[thread].is_holding() =>
            {
                self.acquire_token(machine, thread, user).ok()?;
            }
            [own] if number == Call::Release as u64 && own.user == user_number(user) => {
                self.release_token(machine, user).ok()?;
                machine.registers(thread).general[0] = 0;
            }
            [holder] if number == Call::Acquire as u64 => {
                let holder = self.user_of_token(pool, holder.user)?;
                return self.fast_lend_token(machine, thread, user, holder);
            }
            [own, next] if number == Call::Release as u64 && own.user == user_number(user) && has_look() => {
                let next = self.user_of_token(pool, next.user)?;
                return self.fast_release_token(machine, thread, user, next);
            }
            _ => return None,
        }
        Some(thread)
    }

    /// `reply_receive` with the reply to a call under a deadline.
    #[inline(never)]
    fn fast_reply_until<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId) -> Option<ThreadId> {
        self.fast_reply::<M, true>(machine, cpu, thread)
    }

    /// `call` under a deadline.
    #[inline(never)]
    fn fast_request_until<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId) -> Option<ThreadId> {
        let state = &self.cpus[cpu];
        let deadline = Instant(machine.registers(thread).general[DEADLINE]);
        let cluster = self.threads[thread].cluster()?;
        if self.clusters[cluster].timekeeper() != cpu || deadline < state.armed() || deadline >= Cpu::FIRED {
            return None;
        }
        let server = self.fast_request(machine, cpu, thread)?;
        self.threads[thread].begin_timeout();
        self.clusters[cluster].push_timeout(thread.index() as u16, deadline);
        Some(server)
    }

    #[inline(always)]
    fn fast_request<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId) -> Option<ThreadId> {
        let general = &machine.registers(thread).general;
        let (endpoint, badge, known) = self.endpoint_of(thread, general[0], rights::CALL)?;
        let server = self.endpoints[endpoint].server()?;
        let client = &self.threads[thread];
        let reservation = client.chosen()?;
        let other = &self.threads[server];
        let slot = other.first_slot();
        // Not `==`: comparing whole states is a call.
        let State::Receiving(open) = other.state() else { return None };
        if open != endpoint
            || other.is_timed()
            || !other.waits().is_alone()
            || slot.client().is_some()
            || RESTARTS && other.life() != known
            || self.is_keyed(server)
        {
            return None;
        }
        // A boost is for the one that has it, and reaches others by the slow path.
        if client.waits().depth() + 1 >= CHAIN_MAX || client.waits().is_urgent() || client.is_holding() {
            return None;
        }
        if let Some(own) = other.own() {
            let (own, lent) = (&self.reservations[own], &self.reservations[reservation]);
            if own.cluster() != lent.cluster() || own.key() < lent.key() {
                return None;
            }
        }
        let reply = token(0, slot.generation());
        self.trace(machine, Event::Call, Some(thread), u32::from(endpoint.number()), 0);

        self.suspend(thread, State::AwaitingReply { server, slot: 0 });
        self.threads[thread].step_off();
        self.make_ready(server);
        let other = &mut self.threads[server];
        other.take_first_slot(thread);
        other.enter(cpu);
        propagation::lend(self, thread, server);
        self.pass_runner(reservation, server);
        self.cpus[cpu].set_current(Some(server));
        self.trace(machine, Event::SwitchAway, Some(thread), 0, 0);
        self.trace_run(machine, Event::SwitchTo, server, reservation);
        machine.copy_message(thread, server);
        let general = &mut machine.registers(server).general;
        general[0] = 0;
        general[1] = u64::from(badge);
        general[TOKEN] = reply;
        Some(server)
    }

    #[inline(always)]
    fn fast_reply<M: Machine, const TIMED: bool>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
    ) -> Option<ThreadId> {
        let general = &machine.registers(thread).general;
        let (reply, value) = (general[TOKEN], general[1]);
        if general[DEADLINE] != NEVER {
            return None;
        }
        let (endpoint, ..) = self.endpoint_of(thread, general[0], rights::RECEIVE)?;
        let object = &self.endpoints[endpoint];
        let server = &self.threads[thread];
        let slot = server.first_slot();
        let (client, reservation) = (slot.client()?, server.chosen()?);
        let other = &self.threads[client];
        if reply != token(0, slot.generation())
            || object.server() != Some(thread)
            || !object.callers().is_empty()
            || server.is_holding()
            || !TIMED && other.is_timed()
            || other.waits().is_urgent()
            || !propagation::has_lent(self, client, thread)
            || self.is_keyed(thread)
        {
            return None;
        }
        if TIMED {
            self.cancel_timeout(client);
        }
        // The server has a client, so it has received before, and the reservation on which it started is taken back already.
        self.suspend(thread, State::Receiving(endpoint));
        let server = &mut self.threads[thread];
        server.step_off();
        server.empty_first_slot();
        self.make_ready(client);
        self.threads[client].enter(cpu);
        propagation::take_back(self, client, thread);
        self.pass_runner(reservation, client);
        self.cpus[cpu].set_current(Some(client));
        machine.copy_message(thread, client);
        let general = &mut machine.registers(client).general;
        general[0] = 0;
        general[1] = value;
        self.trace(machine, Event::Reply, Some(client), u32::from(thread.number()), 0);
        self.trace(machine, Event::Resume, Some(client), self.cause, 0);
        self.trace(machine, Event::SwitchAway, Some(thread), 0, 0);
        self.trace_run(machine, Event::SwitchTo, client, reservation);
        Some(client)
    }
}
