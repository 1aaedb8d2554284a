//! Tokens that are not given back in time.
//!
//! An engine's watchdog limits the hold of an engine (`watchdog`); the watchdog of a pool limits that of a token. A token
//! of a pool with a `watchdog` that is not given back so long after its grant is taken away. Jobs that wait for it, and
//! jobs that donate to its holder at their release, wait no longer than that, for any behaviour of the holder.
//!
//! One timer event belongs to each watched pool, a *look*. A look is planned with a grant if none is planned, and not
//! taken back. Each look takes one step and plans the next, so a trap is no longer than for another event:
//!
//! 1. No token is overdue: the next look is when the earliest grant will be.
//! 2. The holder has an engine for which it needs the token: the engine is taken away first. Its watchdog watches the
//!    commands that still run.
//! 3. The holder waits for such an engine: its wait ends with `TokenLost`.
//! 4. The token goes to the next in line. The holder learns of it at its `release`, with `TokenLost`.
//!
//! # Invariant
//!
//! T1. While a token of a watched pool is held, a look at the pool is planned, for `watchdog` after its grant at the latest.
//!
//! Source: ours. The protocols (Elliott 2015, chapter 2) take declared lengths of critical sections on trust.

use fusee_abi::Error;
use fusee_abi::trace::Event;
use fusee_locking::engine::State as Lock;
use fusee_locking::tokens;
use fusee_sched::time::Instant;

use crate::id::{EngineId, EngineUserId, PoolId, PoolUserId, ThreadId};
use crate::limits::{HANDLES, THREADS};
use crate::object::State;
use crate::{Kernel, Machine, Planted};

impl Kernel {
    /// The user that has had a token of `pool` for longest, and the instant of its grant.
    pub(crate) fn oldest_grant(&self, pool: PoolId) -> Option<(PoolUserId, Instant)> {
        let held = |user: &PoolUserId| tokens::held_by(&self.pools[pool], user.index() as u16).is_some();
        let users = self.pools[pool].requests().iter().filter_map(|one| PoolUserId::new(usize::from(one.user)));
        let granted = users.filter(held).map(|user| (user, self.pool_users[user].granted()));
        granted.min_by_key(|(_, granted)| *granted)
    }

    /// The look at the pool with this event is due.
    #[cold]
    pub(crate) fn look_at_tokens<M: Machine>(&mut self, machine: &mut M, event: u16, now: Instant) {
        let number = (THREADS - 1 - self.counts.engines).checked_sub(usize::from(event));
        let Some(pool) = number.and_then(PoolId::new) else {
            impossible!("events below those of engines are those of pools");
            return;
        };
        self.token_watches[pool].end_look();
        let Some((user, granted)) = self.oldest_grant(pool) else { return };
        if self.forgets(Planted::TokenWithoutWatchdog) {
            return;
        }
        let due = granted + self.token_watches[pool].watchdog();
        if now < due {
            self.plan_token_look(pool, due);
            return;
        }
        if let Some(thread) = self.pool_users[user].thread() {
            self.take_token(machine, pool, user, thread);
        }
        // The step may have planned a look for a grant that is newer than others.
        if let Some((_, granted)) = self.oldest_grant(pool) {
            self.plan_token_look(pool, granted + self.token_watches[pool].watchdog());
        }
    }

    /// Takes one step on the way to taking the token of `user` away from `thread`.
    fn take_token<M: Machine>(&mut self, machine: &mut M, pool: PoolId, user: PoolUserId, thread: ThreadId) {
        let needs_token = |kernel: &Kernel, engine: EngineId| kernel.engines[engine].pool() == Some(pool);
        let mut next = self.threads[thread].uses();
        for _ in 0..HANDLES {
            let Some(one) = next else { break };
            next = self.engine_users[one].next();
            let Some(engine) = self.engine_users[one].engine().filter(|engine| needs_token(self, *engine)) else {
                continue;
            };
            if self.engines[engine].lock().state() == Lock::Held(one.index() as u16) {
                self.lose_engine(machine, engine, one);
                return;
            }
        }
        let waits = match self.threads[thread].state() {
            State::Acquiring(one) => self.engine_users[one].engine().is_some_and(|engine| needs_token(self, engine)),
            State::AwaitingGroup { group, .. } => {
                let mut engines = (0..self.counts.engines).filter_map(EngineId::new);
                engines.any(|engine| self.engines[engine].group() == Some(group) && needs_token(self, engine))
            }
            _ => false,
        };
        if waits {
            self.withdraw(machine, thread);
            self.wake(machine, thread, Err(Error::TokenLost));
            return;
        }
        self.trace(machine, Event::TokenTaken, Some(thread), u32::from(pool.number()), 0);
        self.pool_users[user].lose();
        let released = self.release_token(machine, user);
        debug_assert!(released.is_ok(), "the user holds the token");
    }

    /// Takes `engine` from `user`, which has an overdue token.
    fn lose_engine<M: Machine>(&mut self, machine: &mut M, engine: EngineId, user: EngineUserId) {
        let thread = self.engine_users[user].thread();
        self.trace(machine, Event::EngineTaken, thread, u32::from(engine.number()), 0);
        self.lose(engine, user);
        let given = self.give_back(machine, engine, user);
        debug_assert!(given.is_ok(), "the user holds the engine");
    }
}
