//! Tokens of pools: who holds one, who waits, and whom that one lends to.
//!
//! Who is next, and who donates to whom, is `locking::pool`; a mutex is a pool with one token. Here its requests meet
//! threads: after each operation those whose donee is another than before let go of the old one, and then lend to the new.
//!
//! A job has the base key of its own reservation there, whatever is lent to it. When that key changes, so does its
//! place, at the one door [`Kernel::set_key`].
//!
//! # Why an edge can be refused late
//!
//! Who asks is refused before anything has changed. But a request may wait by priority first, for nobody in particular,
//! and be given a donee when others leave; by then the chain behind that one may have grown too long, or lead back. Such a
//! wait ends with `ChainTooLong`, at the next turn of the timekeeper: the operation that moved it has no place for another.
//!
//! Not here: engines (`engines`), which are locks of things that go on working when their holder lets go.

use fusee_abi::Error;
use fusee_abi::trace::{Event, POOL};
use fusee_locking::engine::LockError;
use fusee_locking::pool::{Change, Grant};
use fusee_locking::tokens;
use fusee_sched::cpu::CpuId;
use fusee_sched::key::Key;
use fusee_sched::time::{Instant, Nanoseconds};
use heapless::Vec;

use crate::donation::number as thread_number;
use crate::engines::as_error;
use crate::id::{PoolId, PoolUserId, ThreadId};
use crate::limits::{HANDLES, POOLS_PER_TASK, USERS_PER_POOL};
use crate::object::State;
use crate::{Kernel, Machine};

fn number(user: PoolUserId) -> u16 {
    user.index() as u16
}

impl Kernel {
    /// `acquire` of a token.
    pub(crate) fn acquire_token<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
        user: PoolUserId,
    ) -> Result<(), Error> {
        let pool = self.pool_users[user].pool.ok_or(Error::BadHandle)?;
        if self.crosses(pool) {
            return self.acquire_across(machine, cpu, thread, user, pool);
        }
        let key = self.base_key(thread);
        let change = self.token_request(pool, user, key).map_err(as_error)?;
        self.threads[thread].requests += 1;
        if let Some(target) = self.token_donee(user)
            && let Err(error) = self.may_wait_for(thread, target)
        {
            // Nobody has heard of it yet, and whom it displaced is where it was.
            self.withdraw_request(user);
            self.follow_tokens(pool, change);
            return Err(error);
        }
        self.trace(machine, Event::TokenRequest, Some(thread), u32::from(pool.number()), 0);
        if let Some(grant) = change.granted {
            self.token_granted(machine, pool, grant);
            return Ok(());
        }
        self.threads[thread].state = State::AwaitingToken { user, refused: false };
        self.follow_tokens(pool, change);
        self.suspend_for_lock(machine, cpu, thread, POOL + u32::from(pool.number()));
        Ok(())
    }

    /// The request of `user`, whose job has the base key `key`, in `pool`.
    pub(crate) fn token_request(&mut self, pool: PoolId, user: PoolUserId, key: Key) -> Result<Change, LockError> {
        let length = self.pool_users[user].length;
        self.advisers.request(pool, &mut self.pools[pool], number(user), key, length)
    }

    /// What `thread` has used CPUs and engines for.
    fn used_so_far(&self, thread: ThreadId) -> Nanoseconds {
        let mut used = self.threads[thread].statistics.time;
        let mut next = self.threads[thread].uses;
        // Each engine by a handle of its own.
        for _ in 0..HANDLES {
            let Some(user) = next else { break };
            used += self.engine_users[user].aside;
            next = self.engine_users[user].next;
        }
        used
    }

    /// Tells the plugin of `pool` how long the token of `user` was used, which `thread` gives back.
    fn measure_token(&mut self, pool: PoolId, user: PoolUserId, thread: ThreadId) {
        if self.advisers.measures(pool) {
            let used = self.used_so_far(thread).saturating_sub(self.pool_users[user].before);
            self.advisers.freed(pool, number(user), used);
        }
    }

    /// `release` of a token, by its holder's call or death. Never blocks.
    pub(crate) fn release_token<M: Machine>(&mut self, machine: &mut M, user: PoolUserId) -> Result<(), Error> {
        let (pool, thread) = self.pool_user(user).ok_or(Error::BadHandle)?;
        let replica = tokens::held_by(&self.pools[pool], number(user)).ok_or(Error::NotHeld)?;
        let state = &mut self.threads[thread];
        state.holds -= 1;
        state.requests -= 1;
        self.trace(machine, Event::TokenRelease, Some(thread), u32::from(pool.number()), u32::from(replica));
        self.measure_token(pool, user, thread);
        if let Some(change) = self.advisers.withdraw(pool, &mut self.pools[pool], number(user)) {
            if let Some(grant) = change.granted {
                self.token_granted(machine, pool, grant);
            }
            self.follow_tokens(pool, change);
        }
        if self.crosses(pool) {
            self.request_ends(thread);
        }
        Ok(())
    }

    /// The request of `user`, who waits, ends without a token. So nobody is granted one.
    pub(crate) fn withdraw_request(&mut self, user: PoolUserId) {
        let Some((pool, thread)) = self.pool_user(user) else { return };
        if let Some(change) = self.advisers.withdraw(pool, &mut self.pools[pool], number(user)) {
            self.threads[thread].requests -= 1;
            self.follow_tokens(pool, change);
        }
        if self.crosses(pool) {
            self.request_ends(thread);
        }
    }

    /// The key of the reservation of `thread`, which has requests, has changed.
    #[cold]
    pub(crate) fn change_base_key(&mut self, thread: ThreadId) {
        let key = self.base_key(thread);
        let mut next = self.threads[thread].tokens;
        for _ in 0..POOLS_PER_TASK {
            let Some(user) = next else { return };
            next = self.pool_users[user].next;
            if let Some(pool) = self.pool_users[user].pool
                && !self.crosses(pool)
                && let Some(change) = self.advisers.change_key(pool, &mut self.pools[pool], number(user), key)
            {
                self.follow_tokens(pool, change);
            }
        }
    }

    /// Whether an earlier key waits for a token of which `thread` holds one.
    pub(crate) fn keeps_earlier(&self, thread: ThreadId, user: PoolUserId) -> Result<bool, Error> {
        let pool = self.pool_users[user].pool.ok_or(Error::BadHandle)?;
        let tokens = &self.pools[pool];
        tokens::held_by(tokens, number(user)).ok_or(Error::NotHeld)?;
        // Of those who came later all should have their turn.
        let own = if self.crosses(pool) { Key::at(Instant::NEVER) } else { self.base_key(thread) };
        Ok(tokens::keeps_earlier(tokens, own))
    }

    /// Whom the request of `user` donates to.
    #[inline(never)]
    pub(crate) fn token_donee(&self, user: PoolUserId) -> Option<ThreadId> {
        let pool = self.pool_users[user].pool.filter(|pool| !self.crosses(*pool))?;
        let donee = tokens::waits_on(&self.pools[pool], number(user))?;
        self.pool_users[PoolUserId::new(usize::from(donee))?].thread
    }

    fn pool_user(&self, user: PoolUserId) -> Option<(PoolId, ThreadId)> {
        let user = &self.pool_users[user];
        Some((user.pool?, user.thread?))
    }

    /// A token is granted: to the caller, or to one who waited.
    #[inline(never)]
    pub(crate) fn token_granted<M: Machine>(&mut self, machine: &mut M, pool: PoolId, grant: Grant) {
        let Some(user) = PoolUserId::new(usize::from(grant.user)) else { return };
        let Some(thread) = self.pool_users[user].thread else { return };
        self.threads[thread].holds += 1;
        self.advisers.acquired(pool, grant.user, grant.replica);
        if self.advisers.measures(pool) {
            self.pool_users[user].before = self.used_so_far(thread);
        }
        let general = &mut machine.registers(thread).general;
        general[0] = 0;
        general[1] = u64::from(grant.replica);
        self.watch_token(machine, pool, user);
        self.trace(machine, Event::TokenGrant, Some(thread), u32::from(pool.number()), u32::from(grant.replica));
        if self.threads[thread].state != State::Ready {
            self.wake(machine, thread, Ok(()));
        }
    }

    /// After `change` of `pool`: those who wait for another than before lend to that one.
    fn follow_tokens(&mut self, pool: PoolId, change: Change) {
        if change.moves_nobody() {
            return;
        }
        let mut threads: Vec<u16, USERS_PER_POOL> = Vec::new();
        for user in self.pools[pool].moved(change).filter_map(|user| PoolUserId::new(usize::from(user))) {
            if let Some(thread) = self.pool_users[user].thread {
                // As many places as users.
                let _ = threads.push(thread_number(thread));
            }
        }
        self.follow(&threads);
    }

    /// Whom `thread`, which waits for a token or for engines of a group, donates to.
    pub(crate) fn lock_donee(&self, thread: ThreadId) -> Option<ThreadId> {
        match self.threads[thread].state {
            State::AwaitingToken { user, refused: false } => self.token_donee(user),
            State::AwaitingGroup { group, refused: false } => self.group_donee(group, thread),
            _ => None,
        }
    }

    /// Those threads of `moved` who wait let go of whom they donated to, and then donate to whom the lock says.
    #[inline(never)]
    pub(crate) fn follow(&mut self, moved: &[u16]) {
        let waiting = |kernel: &Kernel, number: u16| {
            let thread = ThreadId::new(usize::from(number))?;
            let state = kernel.threads[thread].state;
            let waits = matches!(
                state,
                State::AwaitingToken { refused: false, .. } | State::AwaitingGroup { refused: false, .. }
            );
            waits.then_some(thread)
        };
        // Whose donors are others than before: as many places as can move, from and to.
        let mut changed: Vec<ThreadId, { 2 * USERS_PER_POOL }> = Vec::new();
        let mut note = |thread: ThreadId| {
            if !changed.contains(&thread) {
                let _ = changed.push(thread);
            }
        };
        for number in moved {
            if let Some(thread) = waiting(self, *number)
                && let Some(target) = self.remove_donor(thread)
            {
                note(target);
            }
        }
        for number in moved {
            let Some(thread) = waiting(self, *number) else { continue };
            match self.lock_donee(thread) {
                Some(target) if self.may_wait_for(thread, target).is_ok() => {
                    self.add_donor(target, thread);
                    note(target);
                    continue;
                }
                Some(_) => {
                    match &mut self.threads[thread].state {
                        State::AwaitingToken { refused, .. } | State::AwaitingGroup { refused, .. } => *refused = true,
                        _ => {}
                    }
                    self.plan_timeout(thread, Instant::ZERO);
                }
                None => {}
            }
            self.settle(thread);
        }
        for thread in changed {
            self.settle_living(thread);
        }
    }
}
