//! The invariants of locks: pools of tokens, groups, engines, gates.
//!
//! Their numbers are those of `check`.

use fusee_locking::engine::State as Lock;
use fusee_locking::group::Waits;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::Kernel;
use crate::accelerators::gates::SHARED;
use crate::accelerators::watches;
use crate::donation::node_index;
use crate::id::{EngineId, EngineUserId, GroupId, PoolId, PoolUserId, ThreadId};
use crate::limits::THREADS;
use crate::locks::groups::set_of;
use crate::object::State;

impl Kernel {
    /// A thread that holds a token is ready or waits for something else; a thread that waits for one is suspended. Requests have the base keys of their jobs.
    pub(super) fn check_pools(&self) -> Result<(), &'static str> {
        let mut counts = [(0, 0); THREADS];
        for pool in (0..self.counts.pools).filter_map(PoolId::new) {
            for request in self.pools[pool].requests() {
                let user = PoolUserId::new(usize::from(request.user));
                let of = user.and_then(|user| Some((user, self.pool_users[user].thread()?)));
                let Some((user, thread)) = of.filter(|(user, _)| self.pool_users[*user].pool() == Some(pool)) else {
                    return Err("K21: a request of nobody who uses the pool");
                };
                let state = self.threads[thread].state();
                let waits = matches!(state, State::AwaitingToken { user: one, .. } if one == user);
                let holds = self.pools[pool].held_by(request.user).is_some();
                if waits == holds {
                    return Err("K22: a thread holds a token and waits for it, or neither");
                }
                // The keys of the dead do not change any more.
                if state != State::Stopped && !self.is_shared(pool) && request.key != self.base_key(thread) {
                    return Err("K23: a request whose key is not that of its job");
                }
                let (held, requested) = &mut counts[thread.index()];
                *held += u8::from(holds);
                *requested += 1;
            }
        }
        for engine in (0..self.counts.engines).filter_map(EngineId::new) {
            if let Lock::Held(user) = self.engines[engine].lock().state()
                && let Some(user) = EngineUserId::new(usize::from(user))
                && let Some(thread) = self.engine_users[user].thread()
            {
                counts[thread.index()].0 += 1;
            }
        }
        for thread in (0..self.counts.threads).filter_map(ThreadId::new) {
            let state = &self.threads[thread];
            if counts[thread.index()] != (state.holds(), state.requests()) {
                return Err("K24: a thread holds another number of engines and tokens than it is known to");
            }
            if let State::AwaitingToken { user, refused } = state.state()
                && (self.pool_users[user].thread() != Some(thread)
                    || state.requests() == 0
                    || refused && !state.is_timed())
            {
                return Err("K25: a thread waits for a token that it has not asked for, or in vain");
            }
            if let State::AwaitingGroup { group, refused } = state.state()
                && (self.groups[group].request_of(node_index(thread)).is_none() || refused && !state.is_timed())
            {
                return Err("K26: a thread waits for engines that it has not asked for, or in vain");
            }
        }
        Ok(())
    }

    /// Tokens that are held are looked at in time.
    pub(super) fn check_tokens(&self) -> Result<(), &'static str> {
        for pool in (0..self.counts.pools).filter_map(PoolId::new) {
            let watch = self.token_watches[pool];
            let Some(cluster) = watch.cluster() else { continue };
            let look = self.clusters[cluster].timeouts().key_of(self.token_event(pool));
            if look.is_some() != watch.is_planned() {
                return Err("K27: a pool does not know whether a look at it is planned");
            }
            let Some((_, granted)) = self.oldest_grant(pool) else { continue };
            if look.is_none_or(|look| look.instant() > granted + watch.watchdog()) {
                return Err("T1: a token is not looked at in time");
            }
        }
        Ok(())
    }

    /// Checks that donors at release donate to a job with a request, and that each pending job is in a record.
    pub(super) fn check_shared_pools(&self) -> Result<(), &'static str> {
        for thread in (0..self.counts.threads).filter_map(ThreadId::new) {
            let state = &self.threads[thread];
            let record = state
                .cluster()
                .filter(|_| state.jobs_are_recorded())
                .map(|cluster| self.pending_jobs[cluster].pending());
            let job = record.and_then(|record| record.iter().find(|job| job.user == node_index(thread)));
            if state.state() == State::Donating
                && (job.is_none_or(|job| job.donee.is_none()) || state.waits().waits_for().is_none())
            {
                return Err("K28: a thread donates to nobody");
            }
            if let State::AwaitingTurn { due: true, .. } = state.state()
                && !state.is_timed()
            {
                return Err("K29: a turn of which nobody is told");
            }
            let users = (0..self.counts.pool_users).filter_map(PoolUserId::new);
            let asks = |user: &PoolUserId| {
                let Some((pool, of)) = self.pool_user(*user) else { return false };
                let mut requests = self.pools[pool].requests().iter();
                of == thread
                    && self.is_shared(pool)
                    && requests.any(|request| usize::from(request.user) == user.index())
            };
            let requests = users.filter(asks).count();
            let has_budget = state.own().is_some_and(|own| !self.reservations[own].is_throttled());
            let is_pending = state.jobs_are_recorded() && state.job().is_active() && (has_budget || requests != 0);
            if is_pending != job.is_some() {
                return Err("K30: a job is pending and not in the record, or the other way round");
            }
            if let Some(job) = job
                && usize::from(job.requests) != requests
            {
                return Err("K31: a record has another number of requests than its thread");
            }
        }
        Ok(())
    }

    /// A thread whose request in `group` is granted holds all its engines; a thread that waits holds none.
    pub(super) fn check_group(&self, group: GroupId) -> Result<(), &'static str> {
        for request in self.groups[group].requests() {
            let Some(thread) = ThreadId::new(usize::from(request.user)) else {
                return Err("K32: a request for engines of nobody");
            };
            let state = self.threads[thread].state();
            let waits = matches!(state, State::AwaitingGroup { group: of, .. } if of == group);
            if waits == (request.waits == Waits::Not) {
                return Err("K33: a thread holds engines and waits for them, or neither");
            }
        }
        let members = (0..self.counts.engines).filter_map(EngineId::new);
        for engine in members.filter(|engine| self.engines[*engine].group() == Some(group)) {
            let lock = self.engines[engine].lock();
            let holder = match lock.state() {
                Lock::Held(user) => {
                    EngineUserId::new(usize::from(user)).and_then(|user| self.engine_users[user].thread())
                }
                _ => None,
            };
            let granted = self.groups[group]
                .requests()
                .iter()
                .find(|request| request.waits == Waits::Not && request.locks.overlaps(set_of(engine)));
            if granted.map(|request| usize::from(request.user)) != holder.map(ThreadId::index)
                || !lock.waiters().is_empty()
            {
                return Err("K34: an engine and its group differ");
            }
        }
        Ok(())
    }

    /// No task holds an engine that is lost, and a watched engine that is not free is looked at in time.
    pub(super) fn check_engines(&self) -> Result<(), &'static str> {
        if self.keyed_threads != self.bits_of_keyed() {
            return Err("K67: it is not known whose keys devices are told");
        }
        for engine in (0..self.counts.engines).filter_map(EngineId::new) {
            let object = &self.engines[engine];
            let event = watches::event_of(engine);
            let look = self.cluster_ids().find_map(|cluster| self.clusters[cluster].timeouts().key_of(event));
            let is_watched = object.watchdog() != Nanoseconds::ZERO;
            if is_watched && !object.is_unwatched() && look.is_none() {
                return Err("K51: an engine does not know whether a look at it is planned");
            }
            let latest = match object.lock().state() {
                Lock::Free => Instant::NEVER,
                _ if !is_watched => Instant::NEVER,
                Lock::Held(SHARED) => Instant::NEVER,
                Lock::Draining(SHARED) => object.granted() + self.gates[engine].longest(),
                Lock::Held(_) | Lock::Draining(_) => object.granted() + object.watchdog(),
                Lock::Quarantined(_) if self.drain_waiter(engine).is_none() => Instant::NEVER,
                // The bound counts from the instant of the watchdog, which comes late at times.
                Lock::Resetting(_) | Lock::Quarantined(_) => Instant(Instant::NEVER.0 - 1),
            };
            if latest != Instant::NEVER && look.is_none_or(|look| look.instant() > latest) {
                return Err("K52: a watched engine is not looked at in time");
            }
            let of_class = object.lock().state() == Lock::Held(SHARED);
            if of_class && (!self.has_gate(engine) || !object.lock().waiters().is_empty()) {
                return Err(
                    "K53: clients without a lock have an engine that is not theirs, or that somebody waits for",
                );
            }
            if self.has_gate(engine) && object.lock().state() == Lock::Free && !self.may_stay_shut(engine) {
                return Err("K54: an engine that nobody wants is nobody's");
            }
            if !is_watched && matches!(object.lock().state(), Lock::Resetting(_) | Lock::Quarantined(_)) {
                return Err("K55: an engine without a watchdog is reset");
            }
            self.check_key(engine)?;
        }
        Ok(())
    }

    /// Checks that a deciding device has the key of each user that has its engine, or is not through with it.
    fn check_key(&self, engine: EngineId) -> Result<(), &'static str> {
        let user = self.user_of_lock(engine).filter(|_| self.is_arbitrated(engine));
        if user.is_some() != (self.keyed >> engine.index() & 1 != 0) {
            return Err("K65: a device is told the keys of others than those that have its engine");
        }
        let Some((user, thread)) = user.and_then(|user| Some((user, self.engine_users[user].thread()?))) else {
            return Ok(());
        };
        if self.engine_users[user].key() != self.key_word(thread) {
            return Err("K66: a device that decides does not know the key of a job");
        }
        Ok(())
    }

    /// Whether a gate may be shut although the engine is free: its driver or its sharer is dead, or a request of its group waits for another engine, too.
    fn may_stay_shut(&self, engine: EngineId) -> bool {
        let object = &self.engines[engine];
        let is_dead = object.driver().is_none_or(|driver| self.threads[driver].state() == State::Stopped);
        is_dead
            || self.has_lost_sharer(engine)
            || object.group().is_some_and(|group| self.groups[group].is_wanted(engine.index() as u8))
    }
}
