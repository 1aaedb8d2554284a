//! Tokens of pools: holders, waiters, and the donations of waiters.
//!
//! `locking::pool` decides the next request and the donee of each waiter. Here its requests meet threads: after each
//! operation the threads with a new donee let go of the old one, and then lend to the new one (`keys`).
//!
//! A job has the base key of its own reservation there, whether or not another is lent to it. When that key changes, so
//! does the job's place ([`Kernel::base_key_changes`]). In pools that clusters share requests are ordered by arrival
//! (`shared_pools`).
//!
//! # Why an edge can be refused late
//!
//! An impossible request is refused before anything has changed. But a request may wait by priority first, for no thread
//! in particular, and be given a donee when others leave. By then the chain behind that donee may have grown too long, or
//! lead back. Such a wait ends with `ChainTooLong`, at the next turn of the timekeeper: the operation that moved it has
//! no place for another.
//!
//! Not here: engines (`engines`), which go on working when their holder releases the lock.

use fusee_abi::Error;
use fusee_abi::call::DEADLINE;
use fusee_abi::trace::{Event, POOL};
use fusee_locking::engine::LockError;
use fusee_locking::pool::{Change, Grant};
use fusee_locking::tokens;
use fusee_sched::key::Key;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::accelerators::engines::as_error;
use crate::donation::keys::user_number;
use crate::donation::node_index;
use crate::id::{PoolId, PoolUserId, ThreadId};
use crate::limits::{HANDLES, POOLS_PER_TASK};
use crate::object::State;
use crate::{Kernel, Machine};

impl Kernel {
    /// Ends the tokens of the job of `thread`, which is complete: they are not for the next one.
    #[cold]
    pub(crate) fn give_back_shared<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        let mut next = self.threads[thread].tokens();
        for _ in 0..POOLS_PER_TASK {
            let Some(user) = next else { return };
            next = self.pool_users[user].next();
            if self.pool_users[user].pool().is_some_and(|pool| self.is_shared(pool)) {
                // The call fails if the user holds no token.
                let _ = self.release_token(machine, user);
            }
        }
    }

    /// `acquire` of a token of `pool`: at once, if it is the caller's turn.
    #[cold]
    pub(crate) fn acquire_shared<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        user: PoolUserId,
        pool: PoolId,
    ) -> Result<(), Error> {
        if !self.may_request(thread) {
            if !self.threads[thread].job().is_active() {
                return Err(Error::NoJobs);
            }
            let donee = self.release_donee(thread).filter(|target| self.may_wait_for(thread, *target).is_ok());
            self.block(thread, State::AwaitingTurn { user, due: false }, donee);
        } else if self.request_shared(machine, thread, user, pool)? {
            return Ok(());
        }
        self.wait_for_lock(machine, thread, POOL + u32::from(pool.number()));
        Ok(())
    }

    /// The turn of `thread` may have come.
    #[cold]
    pub(crate) fn take_turn<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, user: PoolUserId) {
        let Some(pool) = self.pool_users[user].pool() else {
            impossible!("a user of a pool has a pool");
            return;
        };
        let result =
            if self.may_request(thread) { self.request_shared(machine, thread, user, pool) } else { Ok(false) };
        match result {
            Ok(true) => {}
            Ok(false) => {
                if let State::AwaitingTurn { user, .. } = self.threads[thread].state() {
                    self.block(thread, State::AwaitingTurn { user, due: false }, None);
                }
                let deadline = machine.registers(thread).general[DEADLINE];
                self.plan_timeout(thread, Instant(deadline));
            }
            Err(error) => self.wake(machine, thread, Err(error)),
        }
    }

    /// Issues the request of `thread`. Returns whether it has a token.
    fn request_shared<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        user: PoolUserId,
        pool: PoolId,
    ) -> Result<bool, Error> {
        // Keys are arrivals: each request is later than all before.
        self.sequence += 1;
        let key = Key::at(Instant(self.sequence));
        let change = self.token_request(pool, user, key).map_err(crate::accelerators::engines::as_error)?;
        self.threads[thread].begin_request();
        if let Some(cluster) = self.record(thread) {
            let requested = self.pending_jobs[cluster].request(node_index(thread));
            debug_assert!(requested.is_ok(), "whether the job may request was checked before");
        }
        self.trace(machine, Event::TokenRequest, Some(thread), u32::from(pool.number()), 0);
        let Some(grant) = change.granted else {
            self.block(thread, State::AwaitingToken { user, refused: false }, None);
            return Ok(false);
        };
        self.token_granted(machine, pool, grant);
        Ok(true)
    }

    /// `acquire` of a token.
    pub(crate) fn acquire_token<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        user: PoolUserId,
    ) -> Result<(), Error> {
        let pool = self.pool_users[user].pool().ok_or(Error::BadHandle)?;
        if self.is_shared(pool) {
            return self.acquire_shared(machine, thread, user, pool);
        }
        let key = self.base_key(thread);
        let change = self.token_request(pool, user, key).map_err(as_error)?;
        self.threads[thread].begin_request();
        if let Some(target) = self.token_donee(user)
            && let Err(error) = self.may_wait_for(thread, target)
        {
            // The request has changed nothing yet: the one it displaced is where it was.
            self.withdraw_request(user);
            self.follow_tokens(pool, change);
            return Err(error);
        }
        self.trace(machine, Event::TokenRequest, Some(thread), u32::from(pool.number()), 0);
        if let Some(grant) = change.granted {
            self.token_granted(machine, pool, grant);
            return Ok(());
        }
        self.block(thread, State::AwaitingToken { user, refused: false }, None);
        self.follow_tokens(pool, change);
        self.wait_for_lock(machine, thread, POOL + u32::from(pool.number()));
        Ok(())
    }

    /// Makes the request of `user`, whose job has the base key `key`, in `pool`.
    pub(crate) fn token_request(&mut self, pool: PoolId, user: PoolUserId, key: Key) -> Result<Change, LockError> {
        let length = self.pool_users[user].length();
        self.advisers.request(pool, &mut self.pools[pool], user_number(user), key, length)
    }

    /// `release` of a token, by its holder's call or death. Never blocks.
    pub(crate) fn release_token<M: Machine>(&mut self, machine: &mut M, user: PoolUserId) -> Result<(), Error> {
        let (pool, thread) = self.pool_user(user).ok_or(Error::BadHandle)?;
        let replica = tokens::held_by(&self.pools[pool], user_number(user)).ok_or(Error::NotHeld)?;
        self.threads[thread].let_go_token();
        self.trace(machine, Event::TokenRelease, Some(thread), u32::from(pool.number()), u32::from(replica));
        self.measure_token(pool, user, thread);
        if let Some(change) = self.advisers.withdraw(pool, &mut self.pools[pool], user_number(user)) {
            if let Some(grant) = change.granted {
                self.token_granted(machine, pool, grant);
            }
            self.follow_tokens(pool, change);
        }
        if self.is_shared(pool) {
            self.request_ends(thread);
        }
        Ok(())
    }

    /// A token is granted: to the caller, or to a waiter.
    #[inline(never)]
    pub(crate) fn token_granted<M: Machine>(&mut self, machine: &mut M, pool: PoolId, grant: Grant) {
        let Some(user) = PoolUserId::new(usize::from(grant.user)) else {
            impossible!("a pool grants tokens to its users");
            return;
        };
        let Some(thread) = self.pool_users[user].thread() else {
            impossible!("a user of a pool has a thread");
            return;
        };
        self.threads[thread].hold_token();
        self.advisers.acquired(pool, grant.user, grant.replica);
        if self.advisers.measures(pool) {
            let used = self.used_so_far(thread);
            self.pool_users[user].note_usage(used);
        }
        let general = &mut machine.registers(thread).general;
        general[0] = 0;
        general[1] = u64::from(grant.replica);
        self.watch_token(machine, pool, user);
        self.trace(machine, Event::TokenGrant, Some(thread), u32::from(pool.number()), u32::from(grant.replica));
        if self.threads[thread].state() != State::Ready {
            self.wake(machine, thread, Ok(()));
        }
    }

    /// The time for which `thread` has used CPUs and engines.
    pub(crate) fn used_so_far(&self, thread: ThreadId) -> Nanoseconds {
        let mut used = self.threads[thread].statistics().time;
        let mut next = self.threads[thread].uses();
        // A task has each engine by a handle of its own.
        for _ in 0..HANDLES {
            let Some(user) = next else { break };
            used += self.engine_users[user].suspended_time();
            next = self.engine_users[user].next();
        }
        used
    }

    /// Tells the plugin of `pool` how long the token of `user` was used, which `thread` gives back.
    pub(crate) fn measure_token(&mut self, pool: PoolId, user: PoolUserId, thread: ThreadId) {
        if self.advisers.measures(pool) {
            let used = self.used_so_far(thread).saturating_sub(self.pool_users[user].usage_at_grant());
            self.advisers.freed(pool, user_number(user), used);
        }
    }

    /// Ends the request of `user`, which waits, without a token. So no token is granted.
    pub(crate) fn withdraw_request(&mut self, user: PoolUserId) {
        let Some((pool, thread)) = self.pool_user(user) else {
            impossible!("a user of a pool has a pool and a thread");
            return;
        };
        if let Some(change) = self.advisers.withdraw(pool, &mut self.pools[pool], user_number(user)) {
            self.threads[thread].end_request();
            self.follow_tokens(pool, change);
        }
        if self.is_shared(pool) {
            self.request_ends(thread);
        }
    }

    /// Whether a thread with an earlier key waits for a token of the pool of which `thread` holds one.
    pub(crate) fn keeps_earlier(&self, thread: ThreadId, user: PoolUserId) -> Result<bool, Error> {
        let pool = self.pool_users[user].pool().ok_or(Error::BadHandle)?;
        let tokens = &self.pools[pool];
        tokens::held_by(tokens, user_number(user)).ok_or(Error::NotHeld)?;
        // All requests that came later should have their turn.
        let own = if self.is_shared(pool) { Key::at(Instant::NEVER) } else { self.base_key(thread) };
        Ok(tokens::keeps_earlier(tokens, own))
    }
}
