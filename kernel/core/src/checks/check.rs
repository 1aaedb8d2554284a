//! The kernel's invariants, checked in full. For tests and self-checking builds: the checks walk everything.
//!
//! Each invariant has a number, by which a panic and a test name it: that of a module's head (`R1` of `resting`), of the list of links (`S1` in
//! `sched::cluster`), or of this file (`K1`).

use fusee_abi::Error;
use fusee_abi::call::rights;
use fusee_locking::engine::State as Lock;
use fusee_locking::group::Waits;
use fusee_locking::propagation;
use fusee_sched::cpu::CpuId;
use fusee_sched::key::Class;
use fusee_sched::queue::Queue;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::Kernel;
use crate::accelerators::gates::SHARED;
use crate::accelerators::watches;
use crate::donation::node_index;
use crate::id::{
    ClusterId, EndpointId, EngineId, EngineUserId, GroupId, LoanId, NotificationId, PoolId, PoolUserId, RegionId,
    ReservationId, ThreadId,
};
use crate::ipc::fast_calls::token;
use crate::limits::{COPY_DEPTH_MAX, CREDITS, DERIVATIONS, GROUPS, REGIONS, RESTARTS, THREADS};
use crate::locks::groups::set_of;
use crate::object::{Cpu, Handle, Object, Payer, Reservation, State, Thread};

impl Kernel {
    /// Checks every invariant.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        if !self.is_settled() {
            return Err("K1: something is marked between traps");
        }
        self.check_cpus()?;
        for thread in (0..self.counts.threads).filter_map(ThreadId::new) {
            self.check_thread(thread)?;
            self.check_store(thread)?;
            self.check_slots(thread)?;
            if RESTARTS {
                self.check_life(thread)?;
            }
            let is_urgent = propagation::is_urgent(self, thread);
            if self.threads[thread].state() != State::Stopped && self.threads[thread].waits().is_urgent() != is_urgent {
                return Err("K5: a thread is not known to be as urgent as those who wait for it");
            }
        }
        for cluster in self.cluster_ids() {
            self.clusters[cluster].schedule().check(self.counts.reservations)?;
        }
        self.check_queues()?;
        self.check_pools()?;
        self.check_tokens()?;
        self.check_rests()?;
        for group in (0..GROUPS).filter_map(GroupId::new) {
            self.check_group(group)?;
        }
        self.check_shared_pools()?;
        for thread in (0..self.counts.threads).filter_map(ThreadId::new) {
            if self.threads[thread].state() == State::Stopped {
                self.check_dead(thread)?;
            }
        }
        self.check_handles()?;
        self.check_loans()?;
        self.check_engines()?;
        for reservation in (0..self.counts.reservations).filter_map(ReservationId::new) {
            self.check_reservation(reservation)?;
        }
        self.check_charges()
    }

    /// Checks that each CPU runs one thread and one reservation, and that these may run.
    fn check_cpus(&self) -> Result<(), &'static str> {
        // `on` is a partial injection between threads and CPUs.
        for cpu in self.cpus() {
            if let Some(thread) = self.cpus[cpu].current()
                && self.threads[thread].on() != Some(cpu)
            {
                return Err("K2: a CPU's current thread is not on it");
            }
            if let Some(thread) = self.cpus[cpu].current()
                && self.threads[thread].state() != State::Ready
                && !self.cpus[cpu].needs_reschedule()
            {
                return Err("K3: a CPU goes on with a thread that may not run");
            }
            if let Some(reservation) = self.cpus[cpu].running()
                && self.reservations[reservation].on() != Some(cpu)
            {
                return Err("K4: a reservation runs on two CPUs");
            }
        }
        Ok(())
    }

    /// Checks that all time since a CPU has entered the kernel was charged.
    fn check_charges(&self) -> Result<(), &'static str> {
        for cpu in self.cpus() {
            let state = &self.cpus[cpu];
            if state.has_entered()
                && state.charged().0 + state.kernel().0 + state.idle().0 != state.mark().since(state.since()).0
            {
                return Err("K13: the sum of charges is not the sum of time");
            }
        }
        Ok(())
    }

    /// Checks the runner, the rest, the early job and the boost of a reservation, and its place in its cluster.
    fn check_reservation(&self, reservation: ReservationId) -> Result<(), &'static str> {
        let object = &self.reservations[reservation];
        if let Some(runner) = object.runner() {
            let state = &self.threads[runner];
            if state.state() != State::Ready || state.donates_to().is_some() {
                return Err("K6: a runner that may not run");
            }
            if state.chosen() != Some(reservation) {
                return Err("K7: a runner that chose another reservation");
            }
            if object.is_throttled() {
                return Err("K8: a runner on a dry reservation");
            }
        }
        if object.account().is_dry() && !object.is_throttled() {
            return Err("K9: a budget ran dry, and nothing was done about it");
        }
        let is_dead = object.owner().is_none_or(|owner| self.threads[owner].state() == State::Stopped);
        let rests = object.class() == Class::RealTime && !object.is_throttled() && object.runner().is_none();
        if !is_dead && rests != (object.rests() != Instant::NEVER) {
            return Err("R1: a reservation rests without budget or with a runner, or the other way round");
        }
        if CREDITS {
            let is_early = object.nominal() != Instant::NEVER;
            let job = object.owner().map(|owner| self.threads[owner].job());
            let is_active = job.is_some_and(|job| job.is_active() && job.release() == object.nominal());
            let is_planned = object.next_release() == object.nominal();
            if is_early && !(object.begins_early() && object.class() == Class::Service && is_active && is_planned) {
                return Err("E1: an early job that has ended, is real-time, or is never released");
            }
            if object.begins_early() && !is_early && object.class() != Class::RealTime {
                return Err("E2: a job that is not early is of class service");
            }
        }
        if object.is_boosted() && !object.runner().is_some_and(|runner| propagation::is_urgent(self, runner)) {
            return Err("K10: a boost for nobody");
        }
        let Some(cluster) = object.cluster() else { return Ok(()) };
        let schedule = self.clusters[cluster].schedule();
        if schedule.contains(reservation.index() as u16) != object.runner().is_some() {
            return Err("K11: competing and having a runner differ");
        }
        // The cluster keeps copies of keys; these are the originals.
        let first = schedule.first_ready().and_then(|id| ReservationId::new(id.into()));
        if let Some(first) = first
            && object.runner().is_some()
            && (object.competing_key() < self.reservations[first].competing_key())
                != schedule.link_of(reservation.index() as u16).is_some()
        {
            return Err("K12: the links do not follow the keys");
        }
        Ok(())
    }

    /// Checks the invariants that hold once no kick is on its way: every CPU runs the reservation that is linked to it, at
    /// its expense.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check_settled(&self) -> Result<(), &'static str> {
        for cpu in self.cpus() {
            let state = &self.cpus[cpu];
            let Some(cluster) = state.cluster().filter(|_| state.has_entered()) else { continue };
            let linked = self.clusters[cluster].schedule().linked(cpu).and_then(|id| ReservationId::new(id.into()));
            if linked.and_then(|linked| self.reservations[linked].runner()) != state.current() {
                return Err("K14: a CPU does not run what it is linked to");
            }
            if state.payer() != linked.map_or(Payer::Idle, Payer::Reservation) {
                return Err("K15: what runs is paid by another");
            }
            if linked.is_some_and(|linked| state.mark() + self.reservations[linked].account().left < state.armed()) {
                return Err("K16: a timer that fires after the budget ran dry");
            }
            let object = &self.clusters[cluster];
            let first = |queue: &Queue<THREADS>| queue.first().map_or(Instant::NEVER, |(key, _)| key.instant());
            if object.timekeeper() == cpu && first(object.events()).min(first(object.timeouts())) < state.armed() {
                return Err("K17: a timer that fires after an event was due");
            }
        }
        Ok(())
    }

    /// Checks that a thread that waits is queued once, in the right queue, and that the event it waits for has not come.
    fn check_queues(&self) -> Result<(), &'static str> {
        for endpoint in (0..self.counts.endpoints).filter_map(EndpointId::new) {
            let object = &self.endpoints[endpoint];
            for (place, caller) in object.callers().iter().enumerate() {
                if self.threads[*caller].state() != State::Calling(endpoint)
                    || object.callers()[..place].contains(caller)
                {
                    return Err("K18: a queued caller that does not call");
                }
                let own = object.server().and_then(|server| self.threads[server].own());
                if self.threads[*caller].sends() && own.is_none_or(|own| self.reservations[own].is_only_for_start()) {
                    return Err("K68: a queued request that nobody pays for");
                }
            }
            if let Some(server) = object.server()
                && self.threads[server].state() == State::Receiving(endpoint)
                && !object.callers().is_empty()
            {
                return Err("K19: a server receives while a caller queues");
            }
        }
        for notification in (0..self.counts.notifications).filter_map(NotificationId::new) {
            let object = &self.notifications[notification];
            let Some(waiter) = object.waiter() else { continue };
            if self.threads[waiter].state() != State::Waiting(notification) || object.bits() != 0 {
                return Err("K20: a waiter of bits that are set, or that does not wait");
            }
        }
        Ok(())
    }

    /// A thread that holds a token is ready or waits for something else; a thread that waits for one is suspended. Requests have the base keys of their jobs.
    fn check_pools(&self) -> Result<(), &'static str> {
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

    /// Checks that a reservation that waits for others rests, is listed once, and in order of keys.
    fn check_rests(&self) -> Result<(), &'static str> {
        for cluster in self.cluster_ids() {
            let mut before = None;
            for waiter in self.clusters[cluster].waiting() {
                let listed = ReservationId::new(usize::from(waiter.reservation)).map(|id| &self.reservations[id]);
                let Some(listed) = listed.filter(|one| one.rests() != Instant::NEVER) else {
                    return Err("R2: a reservation that does not rest waits");
                };
                if before > Some(listed.key()) {
                    return Err("R3: those that wait are not in order");
                }
                before = Some(listed.key());
            }
        }
        Ok(())
    }

    /// Tokens that are held are looked at in time.
    fn check_tokens(&self) -> Result<(), &'static str> {
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
    fn check_shared_pools(&self) -> Result<(), &'static str> {
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
    fn check_group(&self, group: GroupId) -> Result<(), &'static str> {
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

    /// Checks that a dead thread neither lends nor runs and has no release to come, and that its death goes on while a thread
    /// waits for it or it holds an engine or a token.
    fn check_dead(&self, thread: ThreadId) -> Result<(), &'static str> {
        let state = &self.threads[thread];
        let mut reservations = (0..self.counts.reservations).filter_map(ReservationId::new);
        if state.donates_to().is_some() || reservations.any(|one| self.reservations[one].runner() == Some(thread)) {
            return Err("K35: a dead thread lends, or runs");
        }
        if let Some(own) = state.own()
            && self.reservations[own].next_release().min(self.reservations[own].replenish_at()) != Instant::NEVER
        {
            return Err("K36: a dead thread has a release or a replenishment before it");
        }
        let queued =
            state.cluster().is_some_and(|cluster| self.clusters[cluster].timeouts().contains(thread.index() as u16));
        if queued != state.is_timed() {
            return Err("K37: a death that goes on without being planned");
        }
        let calls = |endpoint: &EndpointId| {
            let object = &self.endpoints[*endpoint];
            object.server() == Some(thread) && !object.callers().is_empty()
        };
        // A thread that calls or waits donates, unless it sends.
        let is_waited_for = !state.waits().is_alone()
            || state.slots().iter().any(|slot| slot.client().is_some())
            || (0..self.counts.endpoints).filter_map(EndpointId::new).any(|endpoint| calls(&endpoint));
        if !queued && (is_waited_for || state.holds() != 0) {
            return Err("K38: somebody waits for the dead, and nobody will tell");
        }
        let is_told = RESTARTS && self.lives[thread].is_told;
        if RESTARTS && !queued && !is_told || is_told && state.on().is_some() {
            return Err("L2: the end of a thread is not told, or was before it had left its CPU");
        }
        Ok(())
    }

    /// Checks that a thread that has begun again, without a signal of its start yet, is in a state before that signal.
    fn check_life(&self, thread: ThreadId) -> Result<(), &'static str> {
        let (life, state) = (&self.lives[thread], &self.threads[thread]);
        if life.is_told && state.state() != State::Stopped {
            return Err("L2: the end of a thread that lives is told");
        }
        let waits_for_work = matches!(state.state(), State::Receiving(_) | State::Waiting(_) | State::BetweenJobs);
        if life.is_starting && (waits_for_work || !state.job().is_signalled() || state.state() == State::Stopped) {
            return Err("L1: a thread waits for work before it has said that it is up");
        }
        if let Some(own) = state.own() {
            let (account, declared) = (self.reservations[own].account(), (life.budget, life.period));
            let is_declared = (account.budget, account.period) == declared;
            if !is_declared && (!life.is_dormant || account.budget > declared.0 || account.period < declared.1) {
                return Err("L4: a budget that the manifest does not declare");
            }
        }
        for (slot, handle) in self.handles[thread].iter().enumerate() {
            let is_kept = *handle.object() != Object::Empty && handle.value().slot() as usize != slot;
            if is_kept
                && (life.starts.is_none() && !life.is_dormant || handle.source().is_some() || handle.node().is_some())
            {
                return Err("L3: a slot that no value names, of a thread with one life, or of a copy");
            }
        }
        Ok(())
    }

    /// Every copy that holds has rights of its source, and every node in use is of one handle.
    fn check_handles(&self) -> Result<(), &'static str> {
        if self.derivations.used() == 0 {
            return Ok(());
        }
        let handles = || (0..self.counts.threads).filter_map(ThreadId::new).flat_map(|thread| &self.handles[thread]);
        let mut sources: [Option<&Handle>; DERIVATIONS] = [None; DERIVATIONS];
        for handle in handles() {
            let Some(node) = handle.node() else { continue };
            if *handle.object() == Object::Empty || sources[node.index()].replace(handle).is_some() {
                return Err("K39: a node of no handle, or of two");
            }
            if self.derivations.parent(node) != handle.origin() {
                return Err("K40: a node that comes from elsewhere than its handle");
            }
        }
        let (copies, most) = self.derivations.copies();
        let of_copies = || sources.iter().flatten().filter(|handle| handle.source().is_some()).count();
        if sources.iter().flatten().count() != self.derivations.used() || of_copies() != copies || copies > most {
            return Err("K41: a node in use that no handle has, or of a copy that is not left for copies");
        }
        for handle in handles().filter(|handle| *handle.object() != Object::Empty) {
            let Some(origin) = handle.source() else { continue };
            if handle.rights() != 0 || handle.kept() == 0 || u32::from(handle.kept()) & rights::RECEIVE != 0 {
                return Err("K42: a copy with other rights than a copy has");
            }
            if !self.derivations.holds(handle.origin()) {
                continue;
            }
            let Some(source) = sources[origin.index()] else { return Err("K43: a copy that outlives its source") };
            if handle.kept() & !(source.rights() | source.kept()) != 0 || *handle.object() != *source.object() {
                return Err("K44: a copy with more rights than its source, or of something else");
            }
            if self.derivations.depth(handle.origin()) > COPY_DEPTH_MAX {
                return Err("K45: a chain of copies that is too long");
            }
        }
        Ok(())
    }

    /// Checks that a region is lent exactly while a reply slot records the loan, and that the client of that slot waits and
    /// took the slow path.
    fn check_loans(&self) -> Result<(), &'static str> {
        let mut loans = 0;
        for server in (0..self.counts.threads).filter_map(ThreadId::new) {
            for (index, slot) in self.threads[server].slots().iter().enumerate() {
                let Some(region) = slot.loan().map(LoanId::region) else { continue };
                loans += 1;
                if self.regions[region].lent_to() != Some(server) {
                    return Err("K46: a reply slot with a loan that was made to another");
                }
                let Some(client) = slot.client() else { return Err("K47: a loan that outlived its call") };
                if self.threads[client].state() != (State::AwaitingReply { server, slot: index as u8 }) {
                    return Err("K48: a region is lent by a client that does not wait");
                }
                if propagation::has_lent(self, client, server) {
                    return Err("K49: a loan that a fast reply would not end");
                }
            }
        }
        let regions = (0..REGIONS).filter_map(RegionId::new);
        let lent = regions.filter(|region| self.regions[*region].lent_to().is_some()).count();
        if lent == loans { Ok(()) } else { Err("K50: a region is lent with no request") }
    }

    /// No task holds an engine that is lost, and a watched engine that is not free is looked at in time.
    fn check_engines(&self) -> Result<(), &'static str> {
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

    /// Checks that the record of taken reply slots is right.
    fn check_slots(&self, thread: ThreadId) -> Result<(), &'static str> {
        let state = &self.threads[thread];
        let taken = state.slots().iter().enumerate().skip(1).filter(|(_, slot)| slot.client().is_some());
        let taken = taken.fold(0, |taken, (slot, _)| taken | 1 << slot);
        if taken == state.others_taken() {
            Ok(())
        } else {
            Err("K57: a reply slot is taken that is not known to be, or the other way round")
        }
    }

    /// Checks that a thread that waits with a store has asked a server about it.
    fn check_store(&self, thread: ThreadId) -> Result<(), &'static str> {
        let state = &self.threads[thread];
        let asks = matches!(state.state(), State::Calling(_) | State::AwaitingReply { .. } | State::Stopped);
        if state.store().is_some() && (!asks || state.sends() || state.is_timed() && state.state() != State::Stopped) {
            return Err("K56: a store to a doorbell waits for nobody, or not for long");
        }
        Ok(())
    }

    /// A thread knows how many engines it has lost, and neither holds one of them nor waits for it.
    fn check_losses(&self, thread: ThreadId) -> Result<(), &'static str> {
        let (mut next, mut losses) = (self.threads[thread].uses(), 0);
        while let Some(user) = next {
            let object = &self.engine_users[user];
            next = object.next();
            if !object.is_lost() {
                continue;
            }
            if object.is_plain() {
                return Err("K56: a lost engine can be acquired by the fast path");
            }
            losses += 1;
            let lock = object.engine().map(|engine| self.engines[engine].lock());
            let number = user.index() as u16;
            if lock.is_some_and(|lock| lock.state() == Lock::Held(number) || lock.waiters().contains(&number)) {
                return Err("K57: a thread has lost an engine, and holds it or waits for it");
            }
        }
        let known = usize::from(self.threads[thread].losses());
        // The death of a thread goes through its uses of engines, and takes those it has seen from the list.
        if losses == known || losses < known && self.threads[thread].state() == State::Stopped {
            Ok(())
        } else {
            Err("K58: a thread does not know how many engines it has lost")
        }
    }

    fn check_thread(&self, thread: ThreadId) -> Result<(), &'static str> {
        let state = &self.threads[thread];
        self.check_losses(thread)?;
        if let Some(cpu) = state.on()
            && self.cpus[cpu].current() != Some(thread)
        {
            return Err("K59: a thread is on a CPU that runs another");
        }
        if state.state() == State::Ready && state.donates_to().is_some() {
            return Err("K60: a thread that runs donates");
        }
        if (state.state() == State::Ready || state.donates_to().is_some()) && state.chosen() != self.rule(thread) {
            return Err("K61: the chosen reservation is not the best");
        }
        if state.state() == State::Ready
            && let Some(chosen) = state.chosen()
            && self.reservations[chosen].runner() != Some(thread)
        {
            return Err("K62: a ready thread does not run on what it chose");
        }
        let queued = match state.state() {
            State::Calling(endpoint) => self.endpoints[endpoint].callers().contains(&thread),
            State::AwaitingReply { server, slot } => {
                let slots = self.threads[server].slots();
                slots.get(usize::from(slot)).is_some_and(|slot| slot.client() == Some(thread))
            }
            State::Waiting(notification) => self.notifications[notification].waiter() == Some(thread),
            _ => true,
        };
        if !queued {
            return Err("K63: a thread waits where nobody will find it");
        }
        if state.donates_to() != self.donee(thread) {
            return Err("K64: a thread donates to another than the one it waits for");
        }
        Ok(())
    }

    /// The reservation that `thread` must have chosen: the rule of `locking::propagation` as it reads, with all threads
    /// looked at.
    fn rule(&self, thread: ThreadId) -> Option<ReservationId> {
        let donors = (0..self.counts.threads).filter_map(ThreadId::new);
        let donors = donors.filter(|donor| self.threads[*donor].donates_to() == Some(thread));
        let offers = || donors.clone().filter_map(|donor| self.threads[donor].chosen());
        let cluster_of = |reservation: ReservationId| self.reservations[reservation].cluster();
        let makes = |cluster: &Option<ClusterId>| offers().any(|offer| cluster_of(offer) == *cluster);
        let own = self.threads[thread].own().filter(|one| !self.reservations[*one].is_throttled());
        let served = self.threads[thread].waits().serving().and_then(|client| self.threads[client].chosen());
        let cluster = served
            .map(cluster_of)
            .or_else(|| own.map(cluster_of).filter(makes))
            .or_else(|| offers().map(cluster_of).min());
        let Some(cluster) = cluster else { return own };
        let all = offers().chain(own).filter(|offer| cluster_of(*offer) == cluster);
        all.min_by_key(|offer| self.reservations[*offer].key())
    }

    /// The thread to which `thread` must donate in its state.
    fn donee(&self, thread: ThreadId) -> Option<ThreadId> {
        let state = &self.threads[thread];
        let donee = match state.state() {
            State::Calling(endpoint) if !state.sends() => self.endpoints[endpoint].server(),
            State::AwaitingReply { server, .. } => Some(server),
            State::Waiting(notification) => self.notifications[notification].bound(),
            State::Acquiring(user) => {
                self.engine_users[user].engine().and_then(|engine| self.engine_lends(engine, thread))
            }
            // The thread lends from the start, if ever.
            State::Donating | State::AwaitingTurn { .. } => {
                self.release_donee(thread).filter(|_| state.waits().waits_for().is_some())
            }
            _ => self.lock_donee(thread),
        };
        donee.filter(|donee| *donee != thread)
    }

    //--- Views for tests ---------------------------------------------------------------------------------

    /// A thread.
    #[must_use]
    pub fn thread(&self, thread: ThreadId) -> &Thread {
        &self.threads[thread]
    }

    /// A reservation.
    #[must_use]
    pub fn reservation(&self, reservation: ReservationId) -> &Reservation {
        &self.reservations[reservation]
    }

    /// A CPU.
    ///
    /// # Panics
    /// If there is no such CPU.
    #[must_use]
    pub fn cpu(&self, cpu: CpuId) -> &Cpu {
        &self.cpus[cpu]
    }

    /// The object that a handle value of `thread` names, and the rights to it.
    ///
    /// # Errors
    /// [`Error::BadHandle`] if it names nothing, or nothing any more.
    pub fn handle(&self, thread: ThreadId, value: u64) -> Result<(Object, u32), Error> {
        let (object, _) = self.resolve(thread, value, 0)?;
        let handle = &self.handles[thread][self.slot_of(thread, value)?];
        self.check_copy(handle, 0)?;
        Ok((object, u32::from(handle.rights() | handle.kept())))
    }

    /// Number of handles of `thread`.
    #[must_use]
    pub fn handles_of(&self, thread: ThreadId) -> usize {
        self.handles[thread].iter().filter(|handle| *handle.object() != Object::Empty).count()
    }

    /// Number of handles that were copied from.
    #[must_use]
    pub fn handles_copied_from(&self) -> usize {
        self.derivations.used()
    }

    /// The thread that a region is lent to.
    #[must_use]
    pub fn lent_to(&self, region: RegionId) -> Option<ThreadId> {
        self.regions[region].lent_to()
    }

    /// The client that a reply of `server` through `reply` would answer.
    #[must_use]
    pub fn client_of(&self, server: ThreadId, reply: u64) -> Option<ThreadId> {
        let mut slots = self.threads[server].slots().iter().enumerate();
        slots.find(|(index, slot)| token(*index, slot.generation()) == reply).and_then(|(_, slot)| slot.client())
    }
}
