//! Engines that are acquired together: a copy between two accelerators needs a copy engine of both.
//!
//! `locking::group` decides the next request and the donee of each waiter, for all engines that the manifest puts into
//! one group. A request is for some of them, is granted at once for all, and is given back at once. Requests are ordered
//! by the key with which their thread asked.
//!
//! # Invariants
//!
//! 1. A thread with a granted request holds the lock of each of its engines; those locks have no waiters of their own.
//! 2. A thread has one request for each group at most. So no holder of an engine of a group waits for another.
//!
//! Not here: the state of an engine after its holder lets go (`engines`).

use fusee_locking::engine::State as Lock;
use fusee_locking::group::{Change, LockSet, Waits};
use fusee_locking::groups;
use heapless::Vec;

use crate::accelerators::gates::SHARED;
use crate::donation::node_index;
use crate::id::{EngineId, EngineUserId, GroupId, ThreadId, user_of};
use crate::limits::{ENGINES, GATES, USERS_PER_GROUP};
use crate::object::State;
use crate::{Kernel, Machine};

const _: () = assert!(ENGINES <= 32, "an engine is a bit of a set");

pub(crate) fn engines(set: LockSet) -> impl Iterator<Item = EngineId> {
    set.iter().filter_map(|lock| EngineId::new(usize::from(lock)))
}

pub(crate) fn set_of(engine: EngineId) -> LockSet {
    LockSet::EMPTY.with(engine.index() as u8)
}

pub(crate) fn listed(users: impl Iterator<Item = u16>) -> Vec<u16, USERS_PER_GROUP> {
    let mut list = Vec::new();
    for user in users {
        let pushed = list.push(user);
        debug_assert!(pushed.is_ok(), "the list has as many places as users");
    }
    list
}

impl Kernel {
    /// Gives back all engines that the holder of `engine` requested with it.
    #[cold]
    pub(crate) fn give_back_group<M: Machine>(&mut self, machine: &mut M, group: GroupId, thread: ThreadId) {
        let Some((set, Waits::Not)) = groups::request_of(&self.groups[group], node_index(thread)) else { return };
        let mut busy = LockSet::EMPTY;
        for engine in engines(set) {
            let Some(user) = self.holder(engine) else { continue };
            if !self.let_go(machine, engine, user) {
                busy = busy.with(engine.index() as u8);
            }
        }
        if let Ok(change) = groups::release(&mut self.groups[group], node_index(thread), busy) {
            self.apply_group(machine, group, change);
        }
        self.hand_back_group(machine, group);
    }

    /// `engine` of `group` is idle after an operation that outlasted its hold.
    pub(crate) fn drained_group<M: Machine>(&mut self, machine: &mut M, group: GroupId, engine: EngineId) {
        let change = groups::drained(&mut self.groups[group], engine.index() as u8);
        self.apply_group(machine, group, change);
        self.hand_back_group(machine, group);
    }

    /// Ends the request of `thread`, which waits, without its engines. The end may let others have them.
    pub(crate) fn withdraw_group<M: Machine>(&mut self, machine: &mut M, group: GroupId, thread: ThreadId) {
        if let Some(change) = groups::withdraw(&mut self.groups[group], node_index(thread)) {
            self.apply_group(machine, group, change);
            self.hand_back_group(machine, group);
        }
    }

    /// Takes `engine` of `group`, which is wanted, back from clients without a lock, if they have it. The engine drains if
    /// one of their commands runs.
    #[inline(always)]
    pub(crate) fn take_back_of_group<M: Machine>(&mut self, machine: &mut M, group: GroupId, engine: EngineId) {
        if self.has_gate(engine) && self.engines[engine].lock().state() == Lock::Held(SHARED) {
            self.take_back(machine, engine);
            if self.engines[engine].lock().state() != Lock::Free {
                groups::drain(&mut self.groups[group], engine.index() as u8);
            }
        }
    }

    /// Gives those engines of `group` that no request names to clients without a lock. An engine that a request waits for
    /// together with another stays shut, so that it is granted the instant it can be.
    #[inline(always)]
    pub(crate) fn hand_back_group<M: Machine>(&mut self, machine: &mut M, group: GroupId) {
        if GATES {
            self.open_group(machine, group);
        }
    }

    #[inline(never)]
    fn open_group<M: Machine>(&mut self, machine: &mut M, group: GroupId) {
        let mut gated = self.gated;
        while gated != 0 {
            let index = gated.trailing_zeros();
            gated &= gated - 1;
            let Some(engine) = EngineId::new(index as usize) else {
                impossible!("each bit of a set names an engine");
                return;
            };
            if self.engines[engine].group() == Some(group)
                && self.engines[engine].lock().state() == Lock::Free
                && !groups::is_wanted(&self.groups[group], index as u8)
            {
                self.open(machine, engine);
            }
        }
    }

    /// A thread that waits for `engine` of `group` to drain.
    pub(crate) fn waits_for_drain(&self, group: GroupId, engine: EngineId) -> Option<ThreadId> {
        let waiter = groups::waits_for_drain(&self.groups[group], engine.index() as u8)?;
        ThreadId::new(usize::from(waiter))
    }

    /// Whether another thread should have an engine of `group` that `thread` holds.
    pub(crate) fn group_should_yield(&self, group: GroupId, thread: ThreadId) -> bool {
        groups::should_yield(&self.groups[group], node_index(thread))
    }

    /// Plans a look at once if `user` has begun to wait for an engine that is quarantined: the look ends that wait.
    #[cold]
    #[inline(never)]
    fn look_if_closed<M: Machine>(&mut self, machine: &mut M, group: GroupId, user: u16) {
        if let Some((_, Waits::ForDrain(lock))) = groups::request_of(&self.groups[group], user)
            && let Some(engine) = EngineId::new(usize::from(lock))
            && let Lock::Quarantined(user) = self.engines[engine].lock().state()
            && let Some(user) = user_of(user).or(self.gates[engine].user())
        {
            self.plan_look(engine, user, machine.now());
        }
    }

    /// Marks `engine`, and the engines requested with it, as taken away from `user`, which gets the error at its release.
    #[cold]
    #[inline(never)]
    pub(crate) fn lose(&mut self, engine: EngineId, user: EngineUserId) {
        self.mark_lost(user);
        if let (Some(group), Some(thread)) = (self.engines[engine].group(), self.engine_users[user].thread())
            && let Some((set, Waits::Not)) = groups::request_of(&self.groups[group], node_index(thread))
        {
            for engine in engines(set) {
                if let Some(user) = self.holder(engine) {
                    self.mark_lost(user);
                }
            }
        }
    }

    fn mark_lost(&mut self, user: EngineUserId) {
        if self.engine_users[user].lose()
            && let Some(thread) = self.engine_users[user].thread()
        {
            self.threads[thread].lose();
        }
        self.find_if_plain(user);
    }

    /// `thread` requests engines of which it may have lost some without being notified.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_losses<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, set: LockSet) {
        let mut next = self.threads[thread].uses();
        for _ in 0..ENGINES {
            let Some(user) = next else { return };
            let object = &self.engine_users[user];
            next = object.next();
            if object.is_lost() && object.engine().is_some_and(|engine| set.overlaps(set_of(engine))) {
                self.end_loss(machine, user);
            }
        }
    }

    /// The user that holds `engine`.
    fn holder(&self, engine: EngineId) -> Option<EngineUserId> {
        match self.engines[engine].lock().state() {
            Lock::Held(user) => user_of(user),
            _ => None,
        }
    }

    /// Lets threads with newly granted requests hold their engines and go on; a thread with another donee than before donates
    /// to the new one.
    #[inline(never)]
    pub(crate) fn apply_group<M: Machine>(&mut self, machine: &mut M, group: GroupId, change: Change) {
        if !change.grants() && !change.moves_waiters() {
            return;
        }
        for user in listed(self.groups[group].granted(change)) {
            let Some(thread) = ThreadId::new(usize::from(user)) else {
                impossible!("users of a group are threads");
                continue;
            };
            self.hold_group(machine, group, thread);
            if self.threads[thread].state() != State::Ready {
                self.wake(machine, thread, Ok(()));
            }
        }
        if !change.moves_waiters() {
            return;
        }
        let moved = listed(self.groups[group].moved(change));
        self.follow(&moved);
        for user in &moved {
            let Some(thread) = ThreadId::new(usize::from(*user)) else {
                impossible!("users of a group are threads");
                continue;
            };
            if let Some(driver) = self.lock_donee(thread)
                && self.threads[driver].state() == State::Stopped
            {
                // The driver is dead, and will not notify the thread that waits.
                self.plan_death(machine, driver);
            }
            self.look_if_closed(machine, group, *user);
        }
    }

    /// `thread` holds the engines of its request from here on.
    #[inline(never)]
    pub(crate) fn hold_group<M: Machine>(&mut self, machine: &mut M, group: GroupId, thread: ThreadId) {
        let Some((set, _)) = groups::request_of(&self.groups[group], node_index(thread)) else {
            impossible!("a thread that is granted engines has requested them");
            return;
        };
        let mut next = self.threads[thread].uses();
        for _ in 0..ENGINES {
            let Some(user) = next else { return };
            next = self.engine_users[user].next();
            if let Some(engine) = self.engine_users[user].engine()
                && set.overlaps(set_of(engine))
            {
                let requested = self.engines[engine].lock_mut().request(user.index() as u16);
                debug_assert!(requested.is_ok(), "a lock that the group grants is free");
                self.hand(machine, engine, user);
            }
        }
    }
}
