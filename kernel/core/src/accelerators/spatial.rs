//! Engines with a device that decides: the kernel stores the key of each job for it, and the device takes its units from
//! one job for another.
//!
//! Such an engine has as many locks as users, one each, so no user waits for another. A lock is granted at once, as a
//! right to the doorbell; it is watched and taken away like other locks. The device goes by a word for each user, which
//! the kernel alone writes: the priority point of the reservation that the user's thread has chosen. The word is stored
//! before the doorbell is mapped, and again at the end of each trap in which it has changed, until the last command has
//! ended.
//!
//! | The thread has chosen | The word |
//! |---|---|
//! | a real-time reservation | the point of its key |
//! | another | that of best effort |
//! | none, for all budgets are exhausted; or its own, and no job of it is active; or it is dead | the last: it takes nothing from others |
//!
//! Between equal points the device takes the older command first: a word can be stored at once, and a key cannot.
//!
//! # The payer of the time
//!
//! A user has *occupied* the engine while it had a part of it, however small; so the device counts. A hold is charged
//! with the time it has occupied from grant to idle, and its watchdog counts that time, too: a job that is kept from the
//! engine by others is no offender. The share of the engine that it had would be too little: with one SM of four it can
//! keep another from a whole round of blocks, and would pay for a quarter.
//!
//! # Invariants
//!
//! 1. Between traps the word of each user that has its engine, or has commands that have not ended, is as in the table.
//!
//! Source: ours. Tanasic et al. (ISCA 2014) leave open the origin of priorities.

use fusee_abi::image::{KEY_BEST_EFFORT, KEY_LAST};
use fusee_locking::engine::State as Lock;
use fusee_sched::key::Class;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{EngineId, EngineUserId, ThreadId, user_of};
use crate::limits::SPATIAL;
use crate::object::{Release, State};
use crate::{Kernel, Machine};

/// Longest time in which a device answers how long its users have occupied it.
const ANSWER: Nanoseconds = Nanoseconds(50_000);

impl Kernel {
    /// Whether the device of `engine` decides.
    #[inline(always)]
    pub(crate) fn is_arbitrated(&self, engine: EngineId) -> bool {
        SPATIAL && self.arbitrated >> engine.index() & 1 != 0
    }

    /// The word of a job of `thread`.
    pub(crate) fn key_word(&self, thread: ThreadId) -> u64 {
        let object = &self.threads[thread];
        let Some(chosen) = object.chosen().filter(|_| object.state() != State::Stopped) else { return KEY_LAST };
        let reservation = &self.reservations[chosen];
        if reservation.owner() == Some(thread) && reservation.release() != Release::None && !object.job().is_active() {
            return KEY_LAST;
        }
        match reservation.key().class() {
            Class::RealTime => reservation.key().instant().0,
            Class::Service | Class::Background => KEY_BEST_EFFORT,
        }
    }

    /// Stores the changed keys for the devices, of all users with a key.
    #[inline(always)]
    pub(crate) fn say_keys<M: Machine>(&mut self, machine: &mut M) {
        if SPATIAL && self.keyed != 0 {
            self.say_each_key(machine);
        }
    }

    /// Whether a device has the key of `thread`, or of one that shares its bit.
    #[inline(always)]
    pub(crate) fn is_keyed(&self, thread: ThreadId) -> bool {
        SPATIAL && self.keyed_threads >> (thread.index() % 64) & 1 != 0
    }

    /// The bits of all threads with a key at a device.
    pub(crate) fn bits_of_keyed(&self) -> u64 {
        let engines = (0..self.counts.engines).filter(|engine| self.keyed >> engine & 1 != 0).filter_map(EngineId::new);
        let users = engines.filter_map(|engine| self.user_of_lock(engine));
        let threads = users.filter_map(|user| self.engine_users[user].thread());
        threads.fold(0, |bits, thread| bits | 1 << (thread.index() % 64))
    }

    #[inline(never)]
    fn say_each_key<M: Machine>(&mut self, machine: &mut M) {
        let mut left = self.keyed;
        while left != 0 {
            let engine = EngineId::new(left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            if let Some(user) = engine.and_then(|engine| self.user_of_lock(engine)) {
                self.say_key(machine, user, true);
            }
        }
    }

    /// Stores the key of `user` for the device if it has changed; with `rouse` the device looks at once.
    fn say_key<M: Machine>(&mut self, machine: &mut M, user: EngineUserId, rouse: bool) {
        let Some(thread) = self.engine_users[user].thread() else {
            impossible!("a user of an engine has a thread");
            return;
        };
        let word = self.key_word(thread);
        if self.engine_users[user].tell_key(word) {
            machine.set_engine_key(user, word, rouse);
        }
    }

    /// The user that has `engine`, or had it last and is not through.
    pub(crate) fn user_of_lock(&self, engine: EngineId) -> Option<EngineUserId> {
        match self.engines[engine].lock().state() {
            Lock::Free => None,
            Lock::Held(user) | Lock::Draining(user) | Lock::Resetting(user) | Lock::Quarantined(user) => user_of(user),
        }
    }

    /// `user` is about to have `engine`: the device gets its key before its doorbell is mapped.
    #[cold]
    pub(crate) fn begin_key<M: Machine>(&mut self, machine: &mut M, engine: EngineId, user: EngineUserId) {
        self.keyed |= 1 << engine.index();
        self.say_key(machine, user, false);
        self.engine_users[user].note_occupied(machine.occupied(user));
        self.engines[engine].forget_answer();
        if let Some(thread) = self.engine_users[user].thread() {
            self.keyed_threads |= 1 << (thread.index() % 64);
        }
    }

    /// The engine is idle after `user`'s hold. Returns the time that the hold has occupied it.
    #[cold]
    pub(crate) fn end_key<M: Machine>(&mut self, machine: &mut M, engine: EngineId, user: EngineUserId) -> Nanoseconds {
        self.keyed &= !(1 << engine.index());
        self.keyed_threads = self.bits_of_keyed();
        self.has_occupied(machine, user)
    }

    fn has_occupied<M: Machine>(&self, machine: &mut M, user: EngineUserId) -> Nanoseconds {
        Nanoseconds(machine.occupied(user).0.saturating_sub(self.engine_users[user].occupied_at_grant().0))
    }

    /// The watchdog of `engine` looks at `user`, which has or had it. Returns the instant of the next look, if the user's
    /// time is not over yet.
    ///
    /// The report of the device may be old, because a device looks only when asked. So it is asked first, and believed a
    /// moment later.
    #[cold]
    pub(crate) fn look_again<M: Machine>(
        &mut self,
        machine: &mut M,
        engine: EngineId,
        user: EngineUserId,
        now: Instant,
    ) -> Option<Instant> {
        let left = self.engines[engine].watchdog().0.saturating_sub(self.has_occupied(machine, user).0);
        if left == 0 {
            return None;
        }
        let object = &mut self.engines[engine];
        let next = object.look_again(now, ANSWER, Nanoseconds(left));
        if object.is_asked() {
            machine.set_engine_key(user, self.engine_users[user].key(), true);
        }
        Some(next)
    }
}
