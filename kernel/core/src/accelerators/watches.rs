//! Looks at the holds of engines and tokens: an event among the timeouts of a cluster.
//!
//! Not here: the work of a look (`watchdog` for engines, `expiry` for tokens).

use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{EngineId, EngineUserId, PoolId, PoolUserId};
use crate::limits::{THREADS, WATCHDOGS};
use crate::{Kernel, Machine};

/// The number of an engine's look among the timeouts of its cluster: those of threads begin at the other end.
pub(crate) fn event_of(engine: EngineId) -> u16 {
    (THREADS - 1 - engine.index()) as u16
}

impl Kernel {
    /// The number of a pool's look among the timeouts of a cluster: below those of engines.
    pub(crate) fn token_event(&self, pool: PoolId) -> u16 {
        (THREADS - 1 - self.counts.engines - pool.index()) as u16
    }

    /// Plans a look at `pool`, after `user` was granted a token of it.
    pub(crate) fn watch_token<M: Machine>(&mut self, machine: &mut M, pool: PoolId, user: PoolUserId) {
        let watch = self.token_watches[pool];
        self.pool_users[user].end_loss();
        if !WATCHDOGS || watch.watchdog() == Nanoseconds::ZERO {
            return;
        }
        let granted = machine.now();
        self.pool_users[user].note_grant(granted);
        if !watch.is_planned() {
            self.plan_token_look(pool, granted + watch.watchdog());
        }
    }

    pub(crate) fn plan_token_look(&mut self, pool: PoolId, at: Instant) {
        let Some(cluster) = self.token_watches[pool].cluster() else {
            impossible!("a pool that is watched has a cluster");
            return;
        };
        self.token_watches[pool].plan();
        self.queue_timeout(cluster, self.token_event(pool), at);
    }

    /// Plans a look at `engine`, after `user` was granted it.
    #[cold]
    pub(crate) fn watch(&mut self, engine: EngineId, user: EngineUserId) {
        let until = self.engines[engine].begin_watch();
        self.plan_look(engine, user, until);
    }

    #[inline(never)]
    pub(crate) fn plan_look(&mut self, engine: EngineId, user: EngineUserId, at: Instant) {
        // All users are in one cluster.
        if let Some(cluster) = self.engine_users[user].thread().and_then(|thread| self.threads[thread].cluster()) {
            self.queue_timeout(cluster, event_of(engine), at);
        }
    }
}
