//! Engine locks, enforced: a doorbell is mapped exactly while its lock is held.
//!
//! The lock itself is `locking::engine`. Here it meets threads (a waiter donates to the holder, or to the driver while
//! the lock drains), doorbell pages and the idle probe. Engine time is charged from grant to idle, and drawn from the
//! holder's own budget if that covers it: at the instant of idle, whichever budget its thread ran on.
//!
//! In an unmanaged system every call on an engine of a device succeeds and does nothing: all doorbells are mapped from
//! boot, and the device's own queue decides. An engine without a device is a mutex of tasks, and stays one.

use fusee_abi::Error;
use fusee_abi::call::rights;
use fusee_abi::trace::Event;
use fusee_locking::engine::{LockError, State as Lock};
use fusee_sched::key::Key;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{AdviserId, EngineId, EngineUserId, InterruptId, PoolUserId, ThreadId, user_of};
use crate::limits::{POOLS_PER_TASK, USERS_PER_ENGINE, WATCHDOGS};
use crate::object::{Object, State};
use crate::{Kernel, Machine};

/// Argument of `acquire`, `release` and `should_yield`.
pub(crate) enum Use {
    Engine(EngineUserId, EngineId),
    Pool(PoolUserId),
}

/// Error of a call for a refusal by a lock.
pub(crate) fn as_error(error: LockError) -> Error {
    match error {
        LockError::AlreadyHeld => Error::AlreadyHeld,
        LockError::NotHeld => Error::NotHeld,
        LockError::Lost => Error::EngineLost,
        LockError::Full => Error::BadArgument,
    }
}

impl Kernel {
    /// The engine or pool that `thread`'s first argument names.
    #[inline(never)]
    pub(crate) fn lock_argument<M: Machine>(&self, machine: &mut M, thread: ThreadId) -> Result<Use, Error> {
        let handle = machine.registers(thread).general[0];
        let (object, _) = self.resolve(thread, handle, rights::ACQUIRE)?;
        match object {
            Object::Engine(user) => Ok(Use::Engine(user, self.engine_users[user].engine().ok_or(Error::BadHandle)?)),
            Object::Pool(user) => Ok(Use::Pool(user)),
            _ => Err(Error::WrongKind),
        }
    }

    /// Whether the kernel enforces the lock of `engine`; an engine of a device has an interrupt.
    pub(crate) fn is_enforced(&self, engine: EngineId) -> bool {
        self.managed || self.engines[engine].interrupt().is_none()
    }

    /// Ends the loss of `user`'s engine, because the task has been notified of it, or asks for it again: the page in place of
    /// the doorbell goes away.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_loss<M: Machine>(&mut self, machine: &mut M, user: EngineUserId) {
        if self.engine_users[user].end_loss()
            && let Some(thread) = self.engine_users[user].thread()
        {
            self.threads[thread].end_loss();
        }
        self.find_if_plain(user);
        machine.unmap_doorbell(user);
    }

    /// Remembers whether the lock of `user` may take the fast paths.
    pub(crate) fn find_if_plain(&mut self, user: EngineUserId) {
        let object = &self.engine_users[user];
        let is_alone = |engine: EngineId| {
            let object = &self.engines[engine];
            object.group().is_none() && object.pool().is_none() && !self.has_gate(engine) && !self.is_arbitrated(engine)
        };
        let is_plain = object.engine().is_some_and(is_alone);
        self.engine_users[user].set_plain(is_plain);
    }

    /// Ends the hold of `engine` by `user`: its doorbell is unmapped, or replaced if the engine was taken away. The lock is
    /// free if no command runs or can begin. Returns whether it is.
    #[inline(never)]
    pub(crate) fn let_go<M: Machine>(&mut self, machine: &mut M, engine: EngineId, user: EngineUserId) -> bool {
        if self.engine_users[user].is_lost() {
            machine.replace_doorbell(user);
        } else {
            machine.unmap_doorbell(user);
        }
        let idle = machine.engine_is_idle(user);
        let thread = self.engine_users[user].thread();
        if let Some(thread) = thread {
            self.threads[thread].let_go();
        }
        self.trace(machine, Event::EngineRelease, thread, u32::from(engine.number()), 0);
        let released = self.engines[engine].lock_mut().release(user.index() as u16, idle);
        debug_assert!(released.is_ok(), "the user holds the lock");
        if idle {
            self.end_hold(machine, engine, user);
        }
        idle
    }

    /// The lock is `user`'s: map its doorbell, start its clock.
    #[inline(always)]
    pub(crate) fn granted<M: Machine>(&mut self, machine: &mut M, engine: EngineId, user: EngineUserId) {
        debug_assert!(self.engines[engine].lock().state() == Lock::Held(user.index() as u16), "a holder has the lock");
        machine.map_doorbell(user);
        self.engines[engine].begin_hold(machine.now());
        let thread = self.engine_users[user].thread();
        if let Some(thread) = thread {
            self.threads[thread].hold();
            if AdviserId::EXISTS {
                self.engine_users[user].note_cpu_time(self.threads[thread].statistics().time);
            }
        }
        self.trace(machine, Event::EngineGrant, thread, u32::from(engine.number()), 0);
    }

    /// Gives the lock to `user` on the slow paths, and has its hold watched.
    #[inline(never)]
    pub(crate) fn hand<M: Machine>(&mut self, machine: &mut M, engine: EngineId, user: EngineUserId) {
        if self.is_arbitrated(engine) {
            self.begin_key(machine, engine, user);
        }
        self.granted(machine, engine, user);
        if WATCHDOGS && self.engines[engine].is_unwatched() {
            self.watch(engine, user);
        }
    }

    /// The engine is idle after `user`'s hold: charge it, and draw it from a budget that covers it.
    #[inline(always)]
    pub(crate) fn end_hold<M: Machine>(&mut self, machine: &mut M, engine: EngineId, user: EngineUserId) {
        let held = self.charge_hold(machine, engine, user);
        if let Some(payer) = self.engine_users[user].payer() {
            self.charge_engine(machine, payer, held);
        }
    }

    /// The engine is idle after `user`'s hold: charge it. Returns how long that was.
    #[inline(always)]
    pub(crate) fn charge_hold<M: Machine>(
        &mut self,
        machine: &mut M,
        engine: EngineId,
        user: EngineUserId,
    ) -> Nanoseconds {
        let held = match self.is_arbitrated(engine) {
            true => self.end_key(machine, engine, user),
            false => machine.now().since(self.engines[engine].granted()),
        };
        let object = &mut self.engine_users[user];
        object.charge(held);
        let thread = object.thread();
        if AdviserId::EXISTS
            && let Some(thread) = thread
        {
            object.count_suspension(held, self.threads[thread].statistics().time);
        }
        self.trace(machine, Event::EngineIdle, thread, u32::from(engine.number()), (held.0 / 1000) as u32);
        held
    }

    /// Grants the free lock of `engine` to the next waiter; without a waiter, clients without a lock have the engine.
    pub(crate) fn grant_next<M: Machine>(&mut self, machine: &mut M, engine: EngineId) {
        let Some(next) = self.engines[engine].lock().next(|waiter| self.user_key(waiter)) else {
            return self.hand_back(machine, engine);
        };
        self.engines[engine].lock_mut().grant(next);
        if let Some(next) = user_of(next)
            && let Some(thread) = self.engine_users[next].thread()
        {
            self.hand(machine, engine, next);
            self.wake(machine, thread, Ok(()));
        }
    }

    /// The key with which the thread of `user` waits.
    pub(crate) fn user_key(&self, user: u16) -> Key {
        user_of(user)
            .and_then(|user| self.engine_users[user].thread())
            .map_or(Key::at(Instant::NEVER), |thread| self.waiting_key(thread))
    }

    /// The thread that waiters of `engine` donate to: its holder; while it drains or is reset, the driver that will be
    /// notified.
    pub(crate) fn engine_donee(&self, engine: EngineId) -> Option<ThreadId> {
        match self.engines[engine].lock().state() {
            Lock::Held(holder) => user_of(holder).and_then(|user| self.engine_users[user].thread()),
            Lock::Draining(_) | Lock::Resetting(_) | Lock::Quarantined(_) => self.engines[engine].driver(),
            Lock::Free => None,
        }
    }

    /// The thread that `waiter` lends to. A holder of another cluster runs as it is: it has a token of a pool that the clusters share.
    pub(crate) fn engine_lends(&self, engine: EngineId, waiter: ThreadId) -> Option<ThreadId> {
        let target = self.engine_donee(engine).filter(|target| *target != waiter)?;
        let is_of_another = self.threads[target].cluster() != self.threads[waiter].cluster();
        let holds = matches!(self.engines[engine].lock().state(), Lock::Held(_));
        (!(holds && is_of_another)).then_some(target)
    }

    /// Whether `thread` has a token that `engine` asks for.
    ///
    /// # Errors
    /// [`Error::NotHeld`].
    pub(crate) fn must_hold_token(&self, thread: ThreadId, engine: EngineId) -> Result<(), Error> {
        let Some(pool) = self.engines[engine].pool() else { return Ok(()) };
        let mut next = self.threads[thread].tokens();
        for _ in 0..POOLS_PER_TASK {
            let Some(user) = next else { break };
            if self.pool_users[user].pool() == Some(pool)
                && fusee_locking::tokens::held_by(&self.pools[pool], user.index() as u16)
                    .is_some_and(|token| self.engines[engine].tokens().contains(&token))
            {
                return Ok(());
            }
            next = self.pool_users[user].next();
        }
        Err(Error::NotHeld)
    }

    /// After a change of holder, all waiters donate to the new one.
    pub(crate) fn move_waiters<M: Machine>(&mut self, machine: &mut M, engine: EngineId) {
        let target = self.engine_donee(engine);
        for index in 0..USERS_PER_ENGINE {
            let Some(waiter) = self.engines[engine].lock().waiters().get(index).copied() else { break };
            let Some(thread) = user_of(waiter).and_then(|user| self.engine_users[user].thread()) else { continue };
            self.remove_donor(thread);
            if let Some(target) = self.engine_lends(engine, thread) {
                self.add_donor(target, thread);
            }
        }
        if let Some(target) = target
            && self.threads[target].state() == State::Stopped
            && !self.engines[engine].lock().waiters().is_empty()
        {
            // The driver is dead, and will not notify the waiters.
            self.plan_death(machine, target);
        }
    }

    /// Whether `interrupt` reports the completion of an engine that drains.
    #[inline(always)]
    pub(crate) fn drains_one(&self, interrupt: InterruptId) -> bool {
        self.interrupts[interrupt].is_of_engine() && self.is_drained_by(interrupt)
    }

    #[inline(never)]
    fn is_drained_by(&self, interrupt: InterruptId) -> bool {
        { 0..self.counts.engines }.filter_map(EngineId::new).any(|engine| {
            let object = &self.engines[engine];
            object.interrupt() == Some(interrupt) && matches!(object.lock().state(), Lock::Draining(_))
        })
    }
}
