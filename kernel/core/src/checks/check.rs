//! The kernel's invariants, checked in full. For tests and self-checking builds: the checks walk everything.
//!
//! Each invariant has a number, by which a panic and a test name it: that of a module's head (`R1` of `resting`), of the list of links (`S1` in
//! `sched::cluster`), or of this file (`K1`).

use fusee_abi::Error;
use fusee_abi::call::rights;
use fusee_locking::engine::State as Lock;
use fusee_locking::propagation;
use fusee_sched::cpu::CpuId;
use fusee_sched::key::Class;
use fusee_sched::queue::Queue;
use fusee_sched::time::Instant;

use crate::Kernel;
use crate::id::{ClusterId, EndpointId, GroupId, LoanId, NotificationId, RegionId, ReservationId, ThreadId};
use crate::ipc::token;
use crate::limits::{COPY_DEPTH_MAX, CREDITS, DERIVATIONS, GROUPS, REGIONS, RESTARTS, THREADS};
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
