//! The state that decides the kernel's actions, fed to a hasher. For tests.
//!
//! [`Kernel::hash_state`] tells states apart: two kernels that it feeds alike answer alike from then on. A new field
//! belongs there if a decision depends on it.

use core::hash::{Hash, Hasher};

use fusee_locking::engine::State as Lock;
use fusee_sched::account::Account;
use fusee_sched::cpu::CpuId;
use fusee_sched::key::{Class, PriorityPoint};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::Kernel;
use crate::accelerators::gates::SHARED;
use crate::id::{
    DerivationId, EndpointId, EngineId, EngineUserId, GroupId, LoanId, NotificationId, PoolId, PoolUserId,
    ReservationId, ThreadId,
};
use crate::limits::{CREDITS, ENGINE_USERS, GROUPS, NOTIFICATIONS, RESTARTS};
use crate::object::{Object, Payer, State};

/// An instant as seen from `now`, in nanoseconds.
fn from_now(at: Instant, now: Instant) -> u64 {
    if at == Instant::NEVER { u64::MAX } else { at.0.wrapping_sub(now.0) }
}

fn thread_number(thread: Option<ThreadId>) -> u16 {
    thread.map_or(0, ThreadId::number)
}

fn number(reservation: Option<ReservationId>) -> u16 {
    reservation.map_or(0, ReservationId::number)
}

fn cpu_number(cpu: Option<CpuId>) -> u8 {
    cpu.map_or(0, |cpu| cpu.0 + 1)
}

fn hash_account<H: Hasher>(account: &Account, now: Instant, hasher: &mut H) {
    hasher.write_u64(account.left.0);
    hasher.write_u64(account.debt.0);
    hasher.write_u64(from_now(account.release, now));
    for refill in account.refills() {
        hasher.write_u64(refill.amount.0);
        hasher.write_u64(from_now(refill.at, now));
    }
}

/// A number for each kind of state, that of the object that the thread waits for, and a number that tells two waits for it apart.
fn kind_of(state: State) -> (u8, u16, u8) {
    match state {
        State::Dormant => (0, 0, 0),
        State::Ready => (1, 0, 0),
        State::Receiving(endpoint) => (2, endpoint.number(), 0),
        State::Calling(endpoint) => (3, endpoint.number(), 0),
        State::AwaitingReply { server, slot } => (4, server.number(), slot),
        State::Waiting(notification) => (5, notification.number(), 0),
        State::Acquiring(user) => (6, user.number(), 0),
        State::AwaitingToken { user, refused } => (10, user.number(), u8::from(refused)),
        State::AwaitingGroup { group, refused } => (11, group.number(), u8::from(refused)),
        State::Donating => (12, 0, 0),
        State::AwaitingTurn { user, due } => (13, user.number(), u8::from(due)),
        State::BetweenJobs => (7, 0, 0),
        State::Sleeping => (8, 0, 0),
        State::Stopped => (9, 0, 0),
    }
}

impl Kernel {
    /// Feeds all state that decides the kernel's actions: instants as seen from `now`, turns as an order.
    ///
    /// Left out are mere counts (statistics, charges, numbers of jobs), constants set at boot, and generations of reply
    /// slots: compare tokens by [`Kernel::client_of`]. There is no state of a handle on its way: it is in the registers of
    /// its giver.
    pub fn hash_state<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        self.hash_cpus(now, hasher);
        for thread in (0..self.counts.threads).filter_map(ThreadId::new) {
            self.hash_thread(thread, now, hasher);
            self.hash_handles(thread, hasher);
            self.hash_job(thread, now, hasher);
        }
        for reservation in (0..self.counts.reservations).filter_map(ReservationId::new) {
            self.hash_reservation(reservation, now, hasher);
        }
        self.hash_clusters(now, hasher);
        self.hash_endpoints_and_notifications(hasher);
        for engine in (0..self.counts.engines).filter_map(EngineId::new) {
            self.hash_engine(engine, now, hasher);
        }
        self.hash_engine_users(hasher);
        self.hash_requests_of_groups(hasher);
        self.hash_pools(now, hasher);
    }

    fn hash_cpus<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        for cpu in self.cpus() {
            let state = &self.cpus[cpu];
            hasher.write_u8(u8::from(state.has_entered()) | u8::from(state.needs_reschedule()) << 1);
            if state.has_entered() {
                hasher.write_u16(thread_number(state.current()));
                hasher.write_u16(number(state.running()));
                hasher.write_u16(match state.payer() {
                    Payer::Idle => 0,
                    Payer::Kernel => u16::MAX,
                    Payer::Reservation(reservation) => reservation.number(),
                });
                hasher.write_u64(from_now(state.mark(), now));
                hasher.write_u64(from_now(state.armed(), now));
            }
        }
    }

    fn hash_thread<H: Hasher>(&self, thread: ThreadId, now: Instant, hasher: &mut H) {
        let state = &self.threads[thread];
        let (kind, what, slot) = kind_of(state.state());
        hasher.write_u8(kind);
        hasher.write_u8(slot);
        hasher.write_u16(what);
        hasher.write_u8(cpu_number(state.on()));
        hasher.write_u8(cpu_number(state.last_cpu()));
        hasher.write_u8(u8::from(state.is_timed()) | state.holds() << 1);
        hasher.write_u8(u8::from(state.waits().is_urgent()));
        let boost = &self.boosts[thread];
        if boost.budget != Nanoseconds::ZERO {
            hash_account(boost, now, hasher);
        }
        if state.state() == State::Stopped {
            // Progress of the death of the thread.
            hasher.write_u16(state.serves().map_or(0, EndpointId::number));
            hasher.write_u16(state.signals().map_or(0, NotificationId::number));
            hasher.write_u16(state.uses().map_or(0, EngineUserId::number));
            hasher.write_u16(state.tokens().map_or(0, PoolUserId::number));
        }
        if matches!(state.state(), State::Calling(_)) {
            hasher.write_u8(u8::from(state.sends()));
            hasher.write_u32(state.badge());
        }
        hasher.write_u64(state.store().map_or(u64::MAX, u64::from));
        hasher.write_u16(number(state.own()));
        let queues = matches!(state.state(), State::Calling(_) | State::Acquiring(_));
        let counts = queues || state.state() == State::Ready || state.donates_to().is_some();
        hasher.write_u16(if counts { number(state.chosen()) } else { 0 });
        hasher.write_u16(thread_number(state.donates_to()));
        hasher.write_u16(thread_number(state.waits().serving()));
        for slot in state.slots() {
            hasher.write_u16(thread_number(slot.client()));
            hasher.write_u16(slot.loan().map_or(0, LoanId::number));
        }
    }

    fn hash_handles<H: Hasher>(&self, thread: ThreadId, hasher: &mut H) {
        for (slot, handle) in self.handles[thread].iter().enumerate() {
            // Handles of the manifest stay as they are until they are given up or copied from.
            if *handle.object() == Object::Empty {
                hasher.write_u8(slot as u8);
            } else if usize::from(handle.value().slot()) != slot {
                hasher.write_u16(slot as u16 | 0xff00);
            } else if handle.source().is_some() || handle.node().is_some() {
                hasher.write_u16(handle.node().map_or(0, DerivationId::number));
                hasher.write_u16(handle.source().map_or(0, DerivationId::number));
                handle.object().hash(hasher);
                hasher.write_u16(handle.kept());
                hasher.write_u8(u8::from(self.derivations.holds(handle.origin())));
            }
        }
        if RESTARTS {
            let life = &self.lives[thread];
            hasher.write_u8(u8::from(life.is_told) | u8::from(life.is_starting) << 1 | (life.end.how as u8) << 2);
            for handle in &self.handles[thread] {
                if let Object::Endpoint(endpoint) = *handle.object() {
                    hasher.write_u8(u8::from(self.knows(thread, handle.value().0, endpoint)));
                }
            }
        }
    }

    fn hash_job<H: Hasher>(&self, thread: ThreadId, now: Instant, hasher: &mut H) {
        let job = self.threads[thread].job();
        hasher.write_u8(u8::from(job.is_active()) | u8::from(job.is_signalled()) << 1);
        hasher.write_u64(if job.is_active() { from_now(job.deadline(), now) } else { 0 });
        hasher.write_u64(job.queued().map_or(u64::MAX, |at| from_now(at, now)));
        hasher.write_u8(job.queued_after());
        for number in 0..job.sporadic().count() {
            hasher.write_u64(
                self.releases.get(job.sporadic().place(number)).map_or(0, |release| from_now(*release, now)),
            );
        }
        // The tie-break of the next key follows from it.
        hasher.write_i64(job.lateness());
    }

    fn hash_reservation<H: Hasher>(&self, reservation: ReservationId, now: Instant, hasher: &mut H) {
        let object = &self.reservations[reservation];
        hasher.write_u16(thread_number(object.owner()));
        hasher.write_u16(thread_number(object.runner()));
        if RESTARTS {
            hasher.write_u64(object.account().budget.0);
            hasher.write_u64(object.account().period.0);
        }
        hasher.write_u8(cpu_number(object.on()));
        hasher.write_u8(
            u8::from(object.is_throttled()) | (object.release() as u8) << 1 | u8::from(object.is_boosted()) << 4,
        );
        hasher.write_u64(match (object.class(), object.point()) {
            (Class::RealTime, PriorityPoint::AfterRelease(_)) => from_now(object.key().instant(), now),
            (Class::RealTime, PriorityPoint::Constant(_)) => object.key().instant().0,
            _ => {
                let all = (0..self.counts.reservations).filter_map(ReservationId::new);
                all.filter(|other| self.reservations[*other].key() < object.key()).count() as u64
            }
        });
        hash_account(object.account(), now, hasher);
        for at in [object.next_release(), object.replenish_at(), object.earliest_release(), object.rests()] {
            hasher.write_u64(from_now(at, now));
        }
        hasher.write_u64(object.suspended().0);
        if CREDITS && object.nominal() != Instant::NEVER {
            hasher.write_u64(from_now(object.nominal(), now));
            hash_account(&self.set_aside[reservation], now, hasher);
        }
        let place = object.cluster().map(|cluster| {
            let schedule = self.clusters[cluster].schedule();
            let id = reservation.index() as u16;
            (schedule.contains(id), schedule.link_of(id))
        });
        hasher.write_u8(place.map_or(0, |(contained, link)| u8::from(contained) | cpu_number(link) << 1));
    }

    fn hash_clusters<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        for cluster in self.cluster_ids() {
            for waiter in self.clusters[cluster].waiting() {
                waiter.reservation.hash(hasher);
                (waiter.runs_on_loan, waiter.covered.0).hash(hasher);
                hasher.write_u64(from_now(self.clusters[cluster].counted(), now));
            }
            // Events are fed as they lie in the heap, so that events of one instant are taken in the same order.
            for queue in [self.clusters[cluster].events(), self.clusters[cluster].timeouts()] {
                for (key, id) in queue.iter() {
                    hasher.write_u16(id + 1);
                    hasher.write_u64(from_now(key.instant(), now));
                }
                hasher.write_u16(0);
            }
        }
    }

    fn hash_endpoints_and_notifications<H: Hasher>(&self, hasher: &mut H) {
        for endpoint in (0..self.counts.endpoints).filter_map(EndpointId::new) {
            for caller in self.endpoints[endpoint].callers() {
                hasher.write_u16(caller.number());
            }
            hasher.write_u16(0);
        }
        for notification in (0..NOTIFICATIONS).filter_map(NotificationId::new) {
            hasher.write_u64(self.notifications[notification].bits());
            hasher.write_u16(thread_number(self.notifications[notification].waiter()));
        }
    }

    fn hash_engine<H: Hasher>(&self, engine: EngineId, now: Instant, hasher: &mut H) {
        let object = &self.engines[engine];
        let (kind, user) = match object.lock().state() {
            Lock::Free => (0, 0),
            Lock::Held(user) => (1, user),
            Lock::Draining(user) => (2, user),
            Lock::Resetting(user) => (3, user),
            Lock::Quarantined(user) => (4, user),
        };
        hasher.write_u8(kind | u8::from(object.is_unwatched()) << 4 | u8::from(object.is_asked()) << 5);
        hasher.write_u16(user);
        // The class holds the engine as long as no user wants it, so the instant of its grant does not matter.
        let counts = object.watchdog() != Nanoseconds::ZERO && object.lock().state() != Lock::Held(SHARED);
        hasher.write_u64(if counts { from_now(object.granted(), now) } else { 0 });
        hasher.write_u16(thread_number(object.driver()));
        if let (Lock::Resetting(_), Some(driver)) = (object.lock().state(), object.driver()) {
            let ran = self.threads[driver].statistics().time.saturating_sub(self.resets[engine]);
            hasher.write_u64(ran.0.min(object.reset_bound().0));
        }
        for waiter in object.lock().waiters() {
            hasher.write_u16(waiter + 1);
        }
        hasher.write_u16(0);
    }

    fn hash_engine_users<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u32(self.keyed);
        for user in (0..ENGINE_USERS).filter_map(EngineUserId::new) {
            hasher.write_u8(self.engine_users[user].is_lost().into());
        }
    }

    fn hash_requests_of_groups<H: Hasher>(&self, hasher: &mut H) {
        for group in (0..GROUPS).filter_map(GroupId::new) {
            for request in self.groups[group].requests() {
                hasher.write_u16(request.user + 1);
                request.locks.hash(hasher);
                request.waits.hash(hasher);
                let later = self.groups[group].requests().iter().filter(|other| other.key > request.key);
                hasher.write_u8(later.count() as u8);
            }
            hasher.write_u16(0);
        }
        for cluster in self.cluster_ids() {
            // Jobs are fed by order, requests and donee; their keys are those of reservations.
            for job in self.pending_jobs[cluster].pending() {
                (job.user, job.requests, job.donee).hash(hasher);
            }
            hasher.write_u16(0);
        }
    }

    fn hash_pools<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        for pool in (0..self.counts.pools).filter_map(PoolId::new) {
            // Keys of requests are left out: they are those of reservations, or arrivals.
            for request in self.pools[pool].requests() {
                hasher.write_u16(request.user + 1);
                request.place.hash(hasher);
                if self.token_watches[pool].watchdog() != Nanoseconds::ZERO
                    && let Some(user) = PoolUserId::new(usize::from(request.user))
                {
                    hasher.write_u64(from_now(self.pool_users[user].granted(), now));
                }
            }
            hasher.write_u8(u8::from(self.token_watches[pool].is_planned()));
            hasher.write_u16(0);
        }
    }
}
