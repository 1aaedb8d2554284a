//! Locks of engines: acquire and release, of one engine or of several at once, and the step after an engine becomes idle.
//!
//! Not here: holds and doorbells (`engines`), sets of engines (`groups`).

pub(crate) mod advice;
mod expiry;
pub(crate) mod groups;
pub(crate) mod pool;
mod shared_pools;
mod tokens;

use fusee_abi::Error;
use fusee_abi::call::{FIRST_WORD, rights};
use fusee_abi::trace::Event;
use fusee_locking::engine::{Requested, State as Lock};
use fusee_locking::group::LockSet;

use crate::accelerators::engines::{Use, as_error};
use crate::donation::node_index;
use crate::id::{EngineId, EngineUserId, GroupId, InterruptId, ThreadId, user_of};
use crate::limits::GATES;
use crate::locks::groups::{engines, set_of};
use crate::object::{Object, State};
use crate::{Kernel, Machine};

impl Kernel {
    /// `acquire`: takes the lock of an engine, or a token of a pool.
    pub(crate) fn acquire<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let (user, engine) = match self.lock_argument(machine, thread)? {
            Use::Engine(user, engine) => (user, engine),
            Use::Pool(user) => return self.acquire_token(machine, thread, user),
        };
        if !self.is_enforced(engine) {
            machine.registers(thread).general[0] = 0;
            return Ok(());
        }
        self.must_hold_token(thread, engine)?;
        if let Some(group) = self.engines[engine].group() {
            return self.acquire_set(machine, thread, group, set_of(engine));
        }
        if self.engine_users[user].is_lost() {
            self.end_loss(machine, user);
        }
        self.take_back(machine, engine);
        self.drain_for_the_dead(machine, engine)?;
        // Refuse before anything changes, but that a gate is shut until the engine is idle.
        let lends_to = self.engine_lends(engine, thread);
        if let Some(target) = lends_to {
            self.may_wait_for(thread, target)?;
        }
        let requested = self.engines[engine].lock_mut().request(user.index() as u16).map_err(as_error)?;
        self.trace(machine, Event::EngineRequest, Some(thread), u32::from(engine.number()), 0);
        if requested == Requested::Granted {
            machine.registers(thread).general[0] = 0;
            self.hand(machine, engine, user);
            return Ok(());
        }
        self.block(thread, State::Acquiring(user), lends_to);
        self.wait_for_lock(machine, thread, u32::from(engine.number()));
        Ok(())
    }

    /// `release`: gives the lock of an engine or a token back. Never blocks.
    pub(crate) fn release_lock<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let (user, engine) = match self.lock_argument(machine, thread)? {
            Use::Engine(user, engine) => (user, engine),
            Use::Pool(user) => {
                return match self.release_token(machine, user) {
                    Err(_) if self.pool_users[user].end_loss() => Err(Error::TokenLost),
                    result => result,
                };
            }
        };
        if !self.is_enforced(engine) {
            return Ok(());
        }
        match self.give_back(machine, engine, user) {
            Err(_) if self.engine_users[user].is_lost() => {
                self.end_loss(machine, user);
                Err(Error::EngineLost)
            }
            result => result,
        }
    }

    /// Takes the lock from `user`, which holds it: by its release, or by its death.
    pub(crate) fn give_back<M: Machine>(
        &mut self,
        machine: &mut M,
        engine: EngineId,
        user: EngineUserId,
    ) -> Result<(), Error> {
        if self.engines[engine].lock().state() != Lock::Held(user.index() as u16) {
            return Err(Error::NotHeld);
        }
        if let (Some(group), Some(thread)) = (self.engines[engine].group(), self.engine_users[user].thread()) {
            self.give_back_group(machine, group, thread);
            return Ok(());
        }
        if self.let_go(machine, engine, user) {
            self.grant_next(machine, engine);
        }
        self.move_waiters(machine, engine);
        Ok(())
    }

    /// `should_yield`: does an earlier key wait for an engine or a token the caller holds?
    pub(crate) fn should_yield<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let earlier = match self.lock_argument(machine, thread)? {
            Use::Engine(user, engine) => {
                let lock = self.engines[engine].lock();
                if self.is_enforced(engine) && lock.state() != Lock::Held(user.index() as u16) {
                    return Err(Error::NotHeld);
                }
                match (self.engines[engine].group(), self.threads[thread].own()) {
                    (Some(group), _) => self.group_should_yield(group, thread),
                    (None, Some(own)) => lock.should_yield(self.reservations[own].key(), |user| self.user_key(user)),
                    (None, None) => false,
                }
            }
            Use::Pool(user) => self.keeps_earlier(thread, user)?,
        };
        let general = &mut machine.registers(thread).general;
        general[0] = 0;
        general[1] = u64::from(earlier);
        Ok(())
    }

    /// Refuses an engine that does not work. If the driver that would be notified of the end of its last operation, or would
    /// end it, is dead, the kernel looks for itself.
    ///
    /// # Errors
    /// [`Error::PeerDied`] if that operation has not ended; [`Error::EngineLost`].
    #[inline(never)]
    pub(crate) fn drain_for_the_dead<M: Machine>(&mut self, machine: &mut M, engine: EngineId) -> Result<(), Error> {
        let object = &self.engines[engine];
        let user = match object.lock().state() {
            Lock::Free | Lock::Held(_) => return Ok(()),
            Lock::Quarantined(_) => return Err(Error::EngineLost),
            Lock::Draining(user) | Lock::Resetting(user) => user,
        };
        let Some(driver) = object.driver() else { return Ok(()) };
        if self.threads[driver].state() != State::Stopped {
            return Ok(());
        }
        if !self.is_over(machine, engine, user) {
            return Err(Error::PeerDied);
        }
        self.drained(machine, engine, user);
        Ok(())
    }

    /// The last operation of `user`, which has `engine` no more, has ended: the engine goes to the next.
    #[inline(never)]
    pub(crate) fn drained<M: Machine>(&mut self, machine: &mut M, engine: EngineId, user: u16) {
        self.engines[engine].lock_mut().drained();
        match user_of(user) {
            Some(user) => self.end_hold(machine, engine, user),
            None if GATES => self.end_sharing(machine, engine),
            None => {}
        }
        if let Some(group) = self.engines[engine].group() {
            self.drained_group(machine, group, engine);
            return;
        }
        self.grant_next(machine, engine);
        self.move_waiters(machine, engine);
    }

    /// Lets every draining engine of `interrupt` that has become idle go on.
    #[inline(never)]
    pub(crate) fn probe_engines<M: Machine>(&mut self, machine: &mut M, interrupt: InterruptId) {
        if !self.interrupts[interrupt].is_of_engine() {
            return;
        }
        for engine in (0..self.counts.engines).filter_map(EngineId::new) {
            if self.engines[engine].interrupt() != Some(interrupt) {
                continue;
            }
            if let Lock::Draining(user) = self.engines[engine].lock().state()
                && self.is_over(machine, engine, user)
            {
                self.drained(machine, engine, user);
            }
        }
    }

    /// A thread that waits for an operation on `engine` to end.
    pub(crate) fn drain_waiter(&self, engine: EngineId) -> Option<ThreadId> {
        let object = &self.engines[engine];
        match object.group() {
            Some(group) => self.waits_for_drain(group, engine),
            None => object.lock().waiters().last().and_then(|user| self.engine_users[user_of(*user)?].thread()),
        }
    }

    /// `acquire_group`: takes the locks of several engines of one group together.
    #[cold]
    pub(crate) fn acquire_group<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let general = &machine.registers(thread).general;
        let (mut group, mut set) = (None, LockSet::EMPTY);
        for handle in [general[0], general[FIRST_WORD]] {
            let (object, _) = self.resolve(thread, handle, rights::ACQUIRE)?;
            let Object::Engine(user) = object else { return Err(Error::WrongKind) };
            let engine = self.engine_users[user].engine().ok_or(Error::BadHandle)?;
            self.must_hold_token(thread, engine)?;
            let of = self.engines[engine].group().ok_or(Error::BadArgument)?;
            if *group.get_or_insert(of) != of {
                return Err(Error::BadArgument);
            }
            if self.is_enforced(engine) {
                set = set.with(engine.index() as u8);
            }
        }
        self.acquire_set(machine, thread, group.ok_or(Error::BadArgument)?, set)
    }

    /// Asks for the engines of `set`, all of `group`. One that was taken back for a request that is refused is handed back.
    pub(crate) fn acquire_set<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        group: GroupId,
        set: LockSet,
    ) -> Result<(), Error> {
        let result = self.request_set(machine, thread, group, set);
        if result.is_err() {
            self.hand_back_group(machine, group);
        }
        result
    }

    #[inline(always)]
    fn request_set<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        group: GroupId,
        set: LockSet,
    ) -> Result<(), Error> {
        machine.registers(thread).general[0] = 0;
        // Locks that are not enforced (`managed = false`) are left out of the set.
        let Some(first) = engines(set).next() else { return Ok(()) };
        for engine in engines(set) {
            self.take_back_of_group(machine, group, engine);
            self.drain_for_the_dead(machine, engine)?;
        }
        if self.threads[thread].losses() != 0 {
            self.end_losses(machine, thread, set);
        }
        let key = self.waiting_key(thread);
        let change =
            fusee_locking::groups::request(&mut self.groups[group], node_index(thread), key, set).map_err(as_error)?;
        if let Some(target) = self.group_donee(group, thread)
            && let Err(error) = self.may_wait_for(thread, target)
        {
            // The request has changed nothing yet: all others are where they were.
            let withdrawn = fusee_locking::groups::withdraw(&mut self.groups[group], node_index(thread));
            debug_assert!(withdrawn.is_some(), "the request was made above");
            return Err(error);
        }
        for engine in engines(set) {
            self.trace(machine, Event::EngineRequest, Some(thread), u32::from(engine.number()), 0);
        }
        if !change.grants() {
            self.block(thread, State::AwaitingGroup { group, refused: false }, None);
        } else if !change.moves_waiters() {
            self.hold_group(machine, group, thread);
            return Ok(());
        }
        self.apply_group(machine, group, change);
        if !change.grants() {
            self.wait_for_lock(machine, thread, u32::from(first.number()));
        }
        Ok(())
    }
}
