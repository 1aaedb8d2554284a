//! Changes of keys: the consequences of another key of a reservation or a thread.
//!
//! Requests that wait in order of keys move in their queues, and holders inherit from another waiter than before.
//!
//! Not here: the key that a reservation gets (`budgets`, `jobs`).

use fusee_locking::group::Waits;
use fusee_locking::pool::Change;
use fusee_locking::{groups, tokens};
use fusee_sched::key::Key;
use fusee_sched::time::Instant;
use heapless::Vec;

use crate::Kernel;
use crate::donation::node_index;
use crate::id::{EngineId, GroupId, PoolId, PoolUserId, ReservationId, ThreadId};
use crate::limits::{POOLS_PER_TASK, USERS_PER_POOL};
use crate::object::State;

pub(crate) fn user_number(user: PoolUserId) -> u16 {
    user.index() as u16
}

impl Kernel {
    /// The thread that the request of `thread` donates to: as with one engine, not a holder of another cluster.
    pub(crate) fn group_donee(&self, group: GroupId, thread: ThreadId) -> Option<ThreadId> {
        match groups::request_of(&self.groups[group], node_index(thread))?.1 {
            Waits::Not => None,
            Waits::For(holder) => {
                let is_here = |holder: &ThreadId| self.threads[*holder].cluster() == self.threads[thread].cluster();
                ThreadId::new(usize::from(holder)).filter(is_here)
            }
            Waits::ForDrain(lock) => self.engines[EngineId::new(usize::from(lock))?].driver(),
        }
    }

    /// The key of the reservation of `thread`, which has requests, has changed.
    #[cold]
    pub(crate) fn change_base_key(&mut self, thread: ThreadId) {
        let key = self.base_key(thread);
        let mut next = self.threads[thread].tokens();
        for _ in 0..POOLS_PER_TASK {
            let Some(user) = next else { return };
            next = self.pool_users[user].next();
            if let Some(pool) = self.pool_users[user].pool()
                && !self.is_shared(pool)
                && let Some(change) = self.advisers.change_key(pool, &mut self.pools[pool], user_number(user), key)
            {
                self.follow_tokens(pool, change);
            }
        }
    }

    /// The thread that the request of `user` donates to.
    #[inline(never)]
    pub(crate) fn token_donee(&self, user: PoolUserId) -> Option<ThreadId> {
        let pool = self.pool_users[user].pool().filter(|pool| !self.is_shared(*pool))?;
        let donee = tokens::waits_on(&self.pools[pool], user_number(user))?;
        self.pool_users[PoolUserId::new(usize::from(donee))?].thread()
    }

    pub(crate) fn pool_user(&self, user: PoolUserId) -> Option<(PoolId, ThreadId)> {
        let user = &self.pool_users[user];
        Some((user.pool()?, user.thread()?))
    }

    /// Updates donations after `change` of `pool`: waiters lend to the user for which they wait now.
    pub(crate) fn follow_tokens(&mut self, pool: PoolId, change: Change) {
        if change.moves_nobody() {
            return;
        }
        let mut threads: Vec<u16, USERS_PER_POOL> = Vec::new();
        for user in self.pools[pool].moved(change).filter_map(|user| PoolUserId::new(usize::from(user))) {
            if let Some(thread) = self.pool_users[user].thread() {
                let pushed = threads.push(node_index(thread));
                debug_assert!(pushed.is_ok(), "the list has as many places as users");
            }
        }
        self.follow(&threads);
    }

    /// The thread that `thread`, which waits for a token or for engines of a group, donates to.
    pub(crate) fn lock_donee(&self, thread: ThreadId) -> Option<ThreadId> {
        match self.threads[thread].state() {
            State::AwaitingToken { user, refused: false } => self.token_donee(user),
            State::AwaitingGroup { group, refused: false } => self.group_donee(group, thread),
            _ => None,
        }
    }

    /// The threads of `moved` that wait stop donating to the thread they donated to, and then donate to the one that the lock names.
    #[inline(never)]
    pub(crate) fn follow(&mut self, moved: &[u16]) {
        let waiting = |kernel: &Kernel, number: u16| {
            let thread = ThreadId::new(usize::from(number))?;
            let state = kernel.threads[thread].state();
            let waits = matches!(
                state,
                State::AwaitingToken { refused: false, .. } | State::AwaitingGroup { refused: false, .. }
            );
            waits.then_some(thread)
        };
        for number in moved {
            if let Some(thread) = waiting(self, *number) {
                self.remove_donor(thread);
            }
        }
        for number in moved {
            let Some(thread) = waiting(self, *number) else { continue };
            let Some(target) = self.lock_donee(thread) else { continue };
            if self.may_wait_for(thread, target).is_ok() {
                self.add_donor(target, thread);
                continue;
            }
            match self.threads[thread].state() {
                State::AwaitingToken { user, .. } => {
                    self.block(thread, State::AwaitingToken { user, refused: true }, None);
                }
                State::AwaitingGroup { group, .. } => {
                    self.block(thread, State::AwaitingGroup { group, refused: true }, None);
                }
                _ => {}
            }
            self.plan_timeout(thread, Instant::ZERO);
        }
    }

    /// Gives `reservation` a new key.
    #[inline(never)]
    pub(crate) fn set_key(&mut self, reservation: ReservationId, key: Key) {
        self.reservations[reservation].set_key(key);
        if self.reservations[reservation].rests() != Instant::NEVER {
            self.rest_moves(reservation);
        }
        self.compete(reservation);
        self.base_key_changes(reservation);
    }

    /// Gives `reservation` the key of the budget left: that of a job released with it, or the last turn of its class.
    #[inline(never)]
    pub(crate) fn renew_key(&mut self, reservation: ReservationId) {
        let key = self.fresh_key(reservation);
        self.set_key(reservation, key);
    }

    /// The base key of a job of `reservation` has changed: its requests for tokens, and its place among the jobs of a cluster
    /// that shares a pool, are ordered by the new one.
    pub(crate) fn base_key_changes(&mut self, reservation: ReservationId) {
        // The reservation on which a passive server started has no owner once that has received, and may yet run dry in the same trap.
        let Some(owner) = self.reservations[reservation].owner() else { return };
        let thread = &self.threads[owner];
        let (is_recorded, requests) = (thread.jobs_are_recorded(), thread.requests());
        if !thread.waits().is_alone() || thread.waits().waits_for().is_some() {
            // Another may come first now, there or up the chain.
            self.unsettle(owner);
        }
        if is_recorded {
            self.job_key_changes(owner);
        }
        if requests != 0 {
            self.change_base_key(owner);
        }
    }
}
