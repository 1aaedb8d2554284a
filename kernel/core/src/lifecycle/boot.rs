//! From a packed system to kernel objects, filled in place.

mod records;

use fusee_abi::call::rights;
use fusee_abi::image::{self, System, Table, class, feature, kind, measure, order, overrun, release, task};
use fusee_locking::engine::Order;
use fusee_locking::pool::{Measure, Rules};
use fusee_sched::account::Account;
use fusee_sched::cpu::{CpuId, CpuSet};
use fusee_sched::key::{Class, Key, Policy, PolicyName, PriorityPoint, TaskParameters, Tie};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::accelerators::gates::{Gate, SHARED};
use crate::id::{
    AdviserId, ClusterId, DerivationId, EndpointId, EngineId, EngineUserId, GroupId, InterruptId, LoanId,
    NotificationId, PoolId, PoolUserId, RegionId, ReservationId, ThreadId,
};
use crate::limits::{
    CLUSTERS, CPUS, CREDITS, GATES, HANDLES, MEMBERS, MEMBERS_PER_ENGINE, PENDING_JOBS, POOLS_PER_TASK, RELEASES,
    RESTARTS, SPATIAL, SPEAKS, STREAMS, THREADS, USERS_PER_ENGINE, USERS_PER_POOL, WATCHDOGS,
};
use crate::object::{Object, Overrun, PoolUser, Release, TokenWatch};
use crate::scheduling::reservation::Terms;
use crate::{Counts, Kernel};
use fusee_locking::groups;

/// Reason why a packed system cannot be booted. `xtask` refuses such systems; this is the kernel's own check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BootError {
    /// More objects of this kind than the kernel's limits.
    TooMany(&'static str),
    /// A record of this kind refers to an object that does not exist, or holds a number that means nothing.
    Dangling(&'static str),
    /// A CPU is in no cluster or in two.
    BadClusters,
    /// The system needs features that this kernel was built without: bits of [`image::feature`].
    Without(u32),
    /// A task may take budget in advance, or begin jobs early, in a cluster whose keys do not depend on deadlines: nothing would limit it.
    EarlyRelease,
    /// Jobs begin early in a task that is not real-time or not sporadic, takes budgets in advance, or belongs to a cluster
    /// that shares a pool; or the kernel lacks the feature `credits`.
    BeginsEarly,
}

/// Features of this kernel.
const PRESENT: u32 = when(EngineId::EXISTS, feature::ENGINES)
    | when(GroupId::EXISTS, feature::GROUPS)
    | when(PoolId::EXISTS, feature::POOLS)
    | when(AdviserId::EXISTS, feature::ADVICE)
    | when(WATCHDOGS, feature::WATCHDOGS)
    | when(LoanId::EXISTS, feature::LOANS)
    | when(DerivationId::EXISTS, feature::GRANTS)
    | when(CLUSTERS > 1, feature::CLUSTERS)
    | when(GATES, feature::SHARING)
    | when(RESTARTS, feature::RESTART)
    | when(CREDITS, feature::CREDITS)
    | when(SPATIAL, feature::SPATIAL)
    | when(SPEAKS, feature::SPEAKS)
    | when(STREAMS, feature::STREAMS);

const fn when(exists: bool, bits: u32) -> u32 {
    if exists { bits } else { 0 }
}

fn within(count: usize, limit: usize, what: &'static str) -> Result<(), BootError> {
    if count > limit { Err(BootError::TooMany(what)) } else { Ok(()) }
}

/// The id with this index, which `records` has compared with the number of objects, or which counts records of a table; without one, the loop or the
/// function around it goes on.
macro_rules! known {
    ($id:ident, $index:expr, $otherwise:expr) => {
        match $id::new($index as u16 as usize) {
            Some(id) => id,
            None => $otherwise,
        }
    };
}

impl Kernel {
    /// Fills an empty kernel from a packed system: called once, on the boot CPU, before any trap.
    ///
    /// # Errors
    /// An object that does not fit the limits, or a reference to an object that does not exist.
    pub fn boot(&mut self, system: &System<'_>) -> Result<(), BootError> {
        let header = system.header();
        if header.features & !PRESENT != 0 {
            return Err(BootError::Without(header.features & !PRESENT));
        }
        within(header.cpus as usize, CPUS, "CPUs")?;
        records::check(system)?;
        self.managed = header.flags & image::FLAG_MANAGED != 0;
        let count = |table: Table| header.tables[table as usize].count as usize;
        self.counts = Counts {
            cpus: header.cpus as usize,
            clusters: count(Table::Clusters),
            threads: count(Table::Tasks),
            reservations: count(Table::Reservations),
            endpoints: count(Table::Endpoints),
            notifications: count(Table::Notifications),
            engines: count(Table::Engines),
            engine_users: count(Table::EngineUsers),
            pools: count(Table::Pools),
            pool_users: count(Table::PoolUsers),
            interrupts: count(Table::Interrupts),
        };
        self.boot_clusters(system)?;
        self.boot_communication(system);
        if EngineId::EXISTS {
            self.boot_engines(system)?;
            self.boot_engine_users(system)?;
        }
        if PoolId::EXISTS {
            self.boot_pools(system)?;
        }
        self.boot_handles(system)?;
        self.boot_lists();
        self.boot_threads(system)
    }

    /// Links the endpoints, notifications and uses of each task, in the order of the system: its death goes through these
    /// lists.
    fn boot_lists(&mut self) {
        for id in (0..self.counts.endpoints).rev().filter_map(EndpointId::new) {
            if let Some(server) = self.endpoints[id].server() {
                self.endpoints[id].link(self.threads[server].add_endpoint(id));
            }
        }
        for id in (0..self.counts.notifications).rev().filter_map(NotificationId::new) {
            if let Some(bound) = self.notifications[id].bound() {
                self.notifications[id].link(self.threads[bound].add_notification(id));
            }
        }
        for id in (0..self.counts.engine_users).rev().filter_map(EngineUserId::new) {
            if let Some(thread) = self.engine_users[id].thread() {
                self.engine_users[id].link(self.threads[thread].add_engine(id));
            }
        }
    }

    fn boot_clusters(&mut self, system: &System<'_>) -> Result<(), BootError> {
        let mut covered = CpuSet::EMPTY;
        for (index, record) in system.clusters().iter().enumerate() {
            let id = known!(ClusterId, index, break);
            let cpus = CpuSet(record.cpus);
            if !self.clusters[id].set_cpus(cpus) || covered.0 & cpus.0 != 0 {
                return Err(BootError::BadClusters);
            }
            covered.0 |= cpus.0;
        }
        // All CPUs of the system, and no other.
        if u64::from(covered.0) != (1 << self.counts.cpus) - 1 {
            return Err(BootError::BadClusters);
        }
        for id in (0..self.counts.clusters).filter_map(ClusterId::new) {
            for cpu in self.clusters[id].schedule().cpus().iter() {
                self.cpus[cpu].join(id);
            }
        }
        Ok(())
    }

    fn boot_communication(&mut self, system: &System<'_>) {
        for (index, record) in system.endpoints().iter().enumerate() {
            let server = known!(ThreadId, record.server, continue);
            self.endpoints[known!(EndpointId, index, break)].set_server(server);
            let boost = &mut self.boosts[server];
            // The longest service of all its endpoints, in the shortest of their periods: each of them is counted for the server.
            let budget = Nanoseconds(record.service_max.max(boost.budget.0));
            let others = if boost.budget == Nanoseconds::ZERO { u64::MAX } else { boost.period.0 };
            if record.service_max != 0 {
                *boost = Account::new(budget, Nanoseconds(record.boost_period().min(others).max(budget.0)));
            }
        }
        if self.managed {
            for (index, record) in system.notifications().iter().enumerate() {
                if let Some(bound) = ThreadId::from_number(record.bound_plus_one) {
                    self.notifications[known!(NotificationId, index, break)].bind(bound);
                }
            }
        }
        for (index, record) in system.interrupts().iter().enumerate() {
            let notification = known!(NotificationId, record.notification, continue);
            self.interrupts[known!(InterruptId, index, break)].bind(notification, record.bits);
        }
        for (index, record) in system.regions().iter().enumerate() {
            self.regions[known!(RegionId, index, break)].set_pages(record.bytes / image::PAGE);
        }
    }

    fn boot_engines(&mut self, system: &System<'_>) -> Result<(), BootError> {
        for (index, record) in system.engines().iter().enumerate() {
            let id = known!(EngineId, index, break);
            let order = if record.order == order::FIFO { Order::Fifo } else { Order::Priority };
            let engine = &mut self.engines[id];
            engine.lock_mut().set_order(order);
            if let Some(group) = GroupId::from_number(record.group_plus_one) {
                self.groups[group].set_order(order);
                engine.set_group(group);
            }
            if let Some(pool) = PoolId::from_number(record.pool_plus_one) {
                // Without a number of tokens, all of them.
                let (first, end) = match record.tokens {
                    0 => (0, u32::from(u8::MAX)),
                    tokens => (record.first_token, record.first_token + tokens),
                };
                if end > u32::from(u8::MAX) {
                    return Err(BootError::Dangling("engine"));
                }
                engine.set_pool(pool, first as u8..end as u8);
            }
            if let Some(interrupt) = InterruptId::from_number(record.interrupt_plus_one) {
                self.interrupts[interrupt].announce_completions();
                // The driver is the task that may acknowledge that interrupt.
                let is_driver = |handle: &&image::Handle| {
                    handle.kind == kind::INTERRUPT && handle.object == record.interrupt_plus_one - 1
                };
                let driver = system.handles().iter().find(is_driver);
                engine.set_device(interrupt, driver.and_then(|handle| ThreadId::new(handle.task as usize)));
            }
            engine.set_watchdog(Nanoseconds(record.watchdog), Nanoseconds(record.reset_bound), record.reset_bits);
            if engine.is_unwatched() {
                // Looks at the engine are numbered from the other end.
                within(self.counts.threads + index + 1, THREADS, "tasks and watchdogs")?;
            }
            if GATES {
                let (first_member, members) = (record.first_member, record.members);
                let all = MEMBERS.min(system.header().tables[Table::SharedUsers as usize].count as usize);
                within(usize::from(first_member) + usize::from(members), all, "clients without locks")?;
                within(usize::from(members), MEMBERS_PER_ENGINE, "members of an engine")?;
                let sharer = EndpointId::from_number(record.sharer_plus_one);
                let longest = Nanoseconds(record.shared_longest);
                self.gates[id] = Gate::new(longest, sharer, first_member, members);
            }
        }
        Ok(())
    }

    fn boot_engine_users(&mut self, system: &System<'_>) -> Result<(), BootError> {
        let users = system.engine_users();
        for (index, record) in users.iter().enumerate() {
            let id = known!(EngineUserId, index, break);
            let engine = known!(EngineId, record.engine, continue);
            let of_engine = users.iter().filter(|other| other.engine == record.engine).count();
            within(of_engine, USERS_PER_ENGINE, "users of an engine")?;
            let group = self.engines[engine].group();
            if GroupId::EXISTS && group.is_some() {
                let is_of_group = |user: &&image::EngineUser| {
                    EngineId::new(user.engine as usize).is_some_and(|engine| self.engines[engine].group() == group)
                };
                // Each task is counted at the first of its users.
                let tasks = users.iter().filter(is_of_group).filter(|user| {
                    let of_task = users.iter().filter(is_of_group).find(|other| other.task == user.task);
                    of_task.is_some_and(|first| core::ptr::eq(first, *user))
                });
                within(tasks.count(), groups::USERS, "tasks of a group")?;
            }
            self.engine_users[id].set_parties(engine, known!(ThreadId, record.task, continue));
            if SPATIAL && self.managed && record.key != 0 {
                if of_engine != 1 || group.is_some() || self.gates[engine].longest() != Nanoseconds::ZERO {
                    return Err(BootError::Dangling("engine user"));
                }
                self.arbitrated |= 1 << engine.index();
            }
            if GATES && self.managed && self.gates[engine].longest() != Nanoseconds::ZERO {
                self.gated |= 1 << engine.index();
                self.gates[engine].set_user(id);
                // The engine is free, and its gate is open.
                self.engines[engine].lock_mut().grant(SHARED);
            }
            self.find_if_plain(id);
        }
        Ok(())
    }

    fn boot_pools(&mut self, system: &System<'_>) -> Result<(), BootError> {
        for (index, record) in system.pools().iter().enumerate() {
            let id = known!(PoolId, index, break);
            let cluster = known!(ClusterId, record.cluster, continue);
            let limit = (record.limit != 0).then_some(record.limit as u16);
            let total = (record.total_limit != 0).then_some(record.total_limit as u16);
            // Without a limit for each queue there is none for all.
            if record.replicas == 0 || record.total_limit > record.limit * record.replicas {
                return Err(BootError::Dangling("limit on all queues"));
            }
            let measure =
                if record.measure == measure::REQUESTS { Measure::Requests } else { Measure::CriticalSections };
            let (replicas, cpus) = (record.replicas as u8, self.clusters[cluster].schedule().cpus().count() as u16);
            let mut rules = Rules { replicas, cpus, limit, total, measure };
            if record.crosses != 0 {
                self.shared |= 1 << index;
                rules = Rules::ck_omlp(replicas);
            }
            self.pools[id].set_rules(rules);
            if WATCHDOGS && record.watchdog != 0 {
                within(self.counts.threads + self.counts.engines + index + 1, THREADS, "tasks and watchdogs")?;
                self.token_watches[id] = TokenWatch::new(Nanoseconds(record.watchdog), cluster);
            }
            self.advisers.set(id, record)?;
        }
        for (index, record) in system.pool_users().iter().enumerate() {
            self.boot_pool_user(system, index, record)?;
        }
        Ok(())
    }

    fn boot_pool_user(&mut self, system: &System<'_>, index: usize, record: &image::PoolUser) -> Result<(), BootError> {
        let pool = known!(PoolId, record.pool, return Ok(()));
        let thread = known!(ThreadId, record.task, return Ok(()));
        let user = known!(PoolUserId, index, return Ok(()));
        // Tokens are for jobs: a thread without a reservation has no base key.
        if !system.reservations().iter().any(|one| one.task == record.task) {
            return Err(BootError::Dangling("pool user"));
        }
        let uses = system.pool_users().get(..=index).unwrap_or_default().iter();
        within(uses.clone().filter(|one| one.task == record.task).count(), POOLS_PER_TASK, "pools of a task")?;
        within(uses.filter(|one| one.pool == record.pool).count(), USERS_PER_POOL, "users of a pool")?;
        let next = self.threads[thread].add_pool(user);
        self.pool_users[user] = PoolUser::new(pool, thread, Nanoseconds(record.length), next);
        Ok(())
    }

    fn boot_handles(&mut self, system: &System<'_>) -> Result<(), BootError> {
        for record in system.handles() {
            let index = record.object as usize;
            let count = match record.kind {
                kind::ENDPOINT => self.counts.endpoints,
                kind::NOTIFICATION => self.counts.notifications,
                kind::INTERRUPT => self.counts.interrupts,
                kind::REGION => system.header().tables[Table::Regions as usize].count as usize,
                kind::TASK => self.counts.threads,
                kind::DOORBELLS => self.counts.engines,
                kind::ENGINE | kind::POOL | kind::SYSTEM => usize::MAX,
                _ => 0,
            };
            let object = match record.kind {
                _ if index >= count => None,
                kind::ENDPOINT => EndpointId::new(index).map(Object::Endpoint),
                kind::NOTIFICATION => NotificationId::new(index).map(Object::Notification),
                kind::ENGINE => {
                    let is_it = |user: &image::EngineUser| user.engine == record.object && user.task == record.task;
                    let user = system.engine_users().iter().position(is_it);
                    user.and_then(EngineUserId::new).map(Object::Engine)
                }
                kind::POOL => {
                    let is_it = |user: &image::PoolUser| user.pool == record.object && user.task == record.task;
                    system.pool_users().iter().position(is_it).and_then(PoolUserId::new).map(Object::Pool)
                }
                kind::INTERRUPT => InterruptId::new(index).map(Object::Interrupt),
                kind::REGION => RegionId::new(index).map(Object::Region),
                kind::TASK => ThreadId::new(index).map(Object::Task),
                kind::DOORBELLS => EngineId::new(index).map(Object::Doorbells),
                _ => Some(Object::System),
            };
            let object = object.ok_or(BootError::Dangling("handle"))?;
            // Copies of others leave a node for it.
            let is_given = DerivationId::EXISTS && record.rights & rights::GRANT != 0;
            if is_given && !self.derivations.reserve() {
                return Err(BootError::TooMany("handles with the right `grant`"));
            }
            let (thread, slot) = (known!(ThreadId, record.task, continue), record.slot as u16);
            let place = &mut self.handles[thread][usize::from(slot) % HANDLES];
            place.declare(slot, object, record.rights as u16, record.badge);
        }
        Ok(())
    }

    fn boot_threads(&mut self, system: &System<'_>) -> Result<(), BootError> {
        self.start = Instant(system.header().start);
        let mut releases = 0u16;
        for (index, record) in system.reservations().iter().enumerate() {
            let id = known!(ReservationId, index, break);
            let owner = known!(ThreadId, record.task, continue);
            self.boot_reservation(system, record, id, owner)?;
            if record.release == release::SPORADIC {
                let places = (record.backlog as u8).max(1);
                self.threads[owner].job_mut().set_places(releases, places);
                releases += u16::from(places);
                within(usize::from(releases), RELEASES, "queued releases")?;
            }
            if EngineId::EXISTS && record.covers_engines != 0 {
                for user in self.engine_users.all_mut() {
                    // A mutex is no engine.
                    let is_of_device = user.engine().is_some_and(|engine| self.engines[engine].interrupt().is_some());
                    if user.thread() == Some(owner) && is_of_device {
                        user.set_payer(id);
                    }
                }
            }
        }
        let tasks = system.tasks();
        for (index, record) in tasks.iter().enumerate() {
            let id = known!(ThreadId, index, break);
            self.threads[id].join(known!(ClusterId, record.cluster, continue));
            self.make_ready(id);
        }
        self.boot_shared_pools()?;
        for (index, record) in tasks.iter().enumerate() {
            let id = known!(ThreadId, index, break);
            // A server without a budget of its own starts on a reserve without an owner: it is ready, and runs up to its first
            // receive on background time of its cluster.
            if self.threads[id].own().is_none() {
                self.boot_passive(id)?;
            }
            if record.flags & task::SLEEPS_INSIDE != 0
                && let Some(word) = self.sleepers.get_mut(index / 32)
            {
                *word |= 1 << (index % 32);
            }
            if RESTARTS && !self.boot_life(id, record.supervision) {
                return Err(BootError::Dangling("task"));
            }
            self.settle_at_boot(id);
        }
        self.kicks = CpuSet::EMPTY;
        for cpu in self.cpus.all_mut() {
            cpu.end_reschedule();
        }
        Ok(())
    }

    fn boot_reservation(
        &mut self,
        system: &System<'_>,
        record: &image::Reservation,
        id: ReservationId,
        owner: ThreadId,
    ) -> Result<(), BootError> {
        let start = self.start;
        let cluster = known!(ClusterId, record.cluster, return Ok(()));
        let class = match record.class {
            class::REAL_TIME => Class::RealTime,
            class::SERVICE => Class::Service,
            _ => Class::Background,
        };
        let release = match record.release {
            release::NONE => Release::None,
            release::PERIODIC => Release::Periodic,
            _ => Release::Sporadic,
        };
        let overrun = match record.overrun {
            overrun::THROTTLE => Overrun::Throttle,
            overrun::SIGNAL => Overrun::Signal,
            _ => Overrun::EarlyRelease,
        };
        let policy = system.clusters().get(record.cluster as usize);
        let policy = policy.and_then(|record| PolicyName::from_number(record.policy)).unwrap_or_default();
        let point = policy.priority_point(&TaskParameters {
            execution: Nanoseconds(record.execution),
            period: Nanoseconds(record.period),
            deadline: Nanoseconds(record.deadline),
            priority: record.priority,
            cpus: self.clusters[cluster].schedule().cpus().count(),
        });
        let is_real_time = class == Class::RealTime;
        let (releases_early, begins_early) = (record.early_release != 0, record.begins_early != 0);
        let takes_early = releases_early || overrun == Overrun::EarlyRelease;
        if !matches!(point, PriorityPoint::AfterRelease(_)) && (takes_early || begins_early) {
            return Err(BootError::EarlyRelease);
        }
        let may_begin_early = CREDITS && is_real_time && release == Release::Sporadic && !takes_early;
        if begins_early && !may_begin_early {
            return Err(BootError::BeginsEarly);
        }
        let by_clock = release == Release::Periodic;
        // Time used before the start is void, for all at that instant: no job finds others before it that had more.
        let starts_over = start != Instant::ZERO && is_real_time;
        self.reservations[id].set_terms(Terms {
            owner: Some(owner),
            cluster: Some(cluster),
            class,
            release,
            overrun,
            backlog: record.backlog as u8,
            point,
            account: Account::new(Nanoseconds(record.budget), Nanoseconds(record.period)),
            deadline: Nanoseconds(record.deadline),
            tie: Tie::new(0, Nanoseconds(record.deadline), owner.index() as u16),
            suspension: Nanoseconds(record.suspension),
            releases_early,
            begins_early,
            only_for_start: false,
            next_release: if by_clock { start + Nanoseconds(record.phase) } else { Instant::NEVER },
            replenish_at: if starts_over { start } else { Instant::NEVER },
            // No job begins before the start, whichever way it is released.
            earliest_release: start,
        });
        let key = self.fresh_key(id);
        self.reservations[id].set_key(key);
        self.event_moves(id);
        if self.threads[owner].set_own(id) { Ok(()) } else { Err(BootError::Dangling("reservation")) }
    }

    /// Records jobs as donors at release in each cluster with a task that shares a pool with other clusters.
    fn boot_shared_pools(&mut self) -> Result<(), BootError> {
        for user in (0..self.counts.pool_users).filter_map(PoolUserId::new) {
            let Some((pool, thread)) = self.pool_user(user) else { continue };
            let Some(cluster) = self.threads[thread].cluster().filter(|_| self.is_shared(pool)) else { continue };
            self.pending_jobs[cluster].set_cpus(self.clusters[cluster].schedule().cpus().count() as u16);
            let mut jobs = 0;
            for reservation in (0..self.counts.reservations).filter_map(ReservationId::new) {
                let object = &self.reservations[reservation];
                if object.cluster() == Some(cluster)
                    && object.release() != Release::None
                    && let Some(owner) = object.owner()
                {
                    if object.begins_early() {
                        return Err(BootError::BeginsEarly);
                    }
                    self.threads[owner].record_jobs();
                    jobs += 1;
                }
            }
            within(jobs, PENDING_JOBS, "jobs of a cluster that shares a pool")?;
            if !self.threads[thread].jobs_are_recorded() {
                return Err(BootError::Dangling("pool user"));
            }
        }
        Ok(())
    }

    /// Lends a passive server a background reservation, so that it can reach its first receive.
    fn boot_passive(&mut self, thread: ThreadId) -> Result<(), BootError> {
        let index = self.counts.reservations;
        within(index + 1, THREADS, "reservations")?;
        let id = known!(ReservationId, index, return Ok(()));
        self.counts.reservations += 1;
        let cluster = self.threads[thread].cluster();
        self.sequence += 1;
        let tie = Tie::new(0, Nanoseconds(1), thread.index() as u16);
        let object = &mut self.reservations[id];
        object.set_terms(Terms {
            owner: Some(thread),
            cluster,
            class: Class::Background,
            tie,
            account: Account::new(Nanoseconds(10_000_000), Nanoseconds(10_000_000)),
            only_for_start: true,
            ..Terms::NONE
        });
        object.set_key(Key::in_turn(Class::Background, self.sequence, tie));
        self.threads[thread].set_own(id);
        Ok(())
    }

    /// The CPUs of the system.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.counts.cpus as u8).map(CpuId)
    }
}
