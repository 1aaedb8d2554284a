//! From a packed system to kernel objects, filled in place.

use fusee_abi::call::rights;
use fusee_abi::image::{self, System, class, feature, kind, measure, order, overrun, release, task};
use fusee_locking::engine::Order;
use fusee_locking::pool::{Measure, Rules};
use fusee_sched::account::Account;
use fusee_sched::cpu::{CpuId, CpuSet};
use fusee_sched::key::{Class, Key, Policy, PolicyName, PriorityPoint, TaskParameters, Tie};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::Kernel;
use crate::accelerators::gates::{Gate, SHARED};
use crate::id::{
    AdviserId, ClusterId, DerivationId, EndpointId, EngineId, EngineUserId, GroupId, InterruptId, LoanId,
    NotificationId, PoolId, PoolUserId, RegionId, ReservationId, ThreadId,
};
use crate::limits::{
    CLUSTERS, CPUS, CREDITS, ENDPOINTS, ENGINE_USERS, ENGINES, GATES, GROUPS, HANDLES, INTERRUPTS, MEMBERS,
    MEMBERS_PER_ENGINE, NOTIFICATIONS, PENDING_JOBS, POOL_REPLICAS, POOL_USERS, POOLS, POOLS_PER_TASK, REGIONS,
    RELEASES, RESTARTS, SPATIAL, STREAMS, THREADS, USERS_PER_ENGINE, USERS_PER_POOL, WATCHDOGS,
};
use crate::object::{Object, Overrun, PoolUser, Release, TokenWatch};
use crate::scheduling::reservation::Terms;
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
    | when(STREAMS, feature::STREAMS);

const fn when(exists: bool, bits: u32) -> u32 {
    if exists { bits } else { 0 }
}

fn within(count: usize, limit: usize, what: &'static str) -> Result<(), BootError> {
    if count > limit { Err(BootError::TooMany(what)) } else { Ok(()) }
}

fn policy_of(system: &System<'_>, cluster: u32) -> Result<PolicyName, BootError> {
    let record = system.clusters().get(cluster as usize);
    record.and_then(|record| PolicyName::from_number(record.policy)).ok_or(BootError::Dangling("cluster"))
}

macro_rules! refer {
    ($id:ident, $number:expr, $count:expr, $what:literal) => {
        $id::new($number as usize).filter(|id| id.index() < $count).ok_or(BootError::Dangling($what))?
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
        within(system.clusters().len(), CLUSTERS, "clusters")?;
        within(system.tasks().len(), THREADS, "tasks")?;
        within(system.reservations().len(), THREADS, "reservations")?;
        within(system.endpoints().len(), ENDPOINTS, "endpoints")?;
        within(system.notifications().len(), NOTIFICATIONS, "notifications")?;
        within(system.engines().len(), ENGINES, "engines")?;
        within(system.engine_users().len(), ENGINE_USERS, "engine users")?;
        within(system.pools().len(), POOLS, "pools")?;
        within(system.pool_users().len(), POOL_USERS, "pool users")?;
        within(system.interrupts().len(), INTERRUPTS, "interrupts")?;
        within(system.regions().len(), REGIONS, "regions")?;
        self.managed = header.flags & image::FLAG_MANAGED != 0;
        self.counts.cpus = header.cpus as usize;
        self.counts.clusters = system.clusters().len();
        self.counts.threads = system.tasks().len();
        self.counts.reservations = system.reservations().len();
        self.counts.endpoints = system.endpoints().len();
        self.counts.notifications = system.notifications().len();
        self.counts.engines = system.engines().len();
        self.counts.engine_users = system.engine_users().len();
        self.counts.pools = system.pools().len();
        self.counts.pool_users = system.pool_users().len();
        self.counts.interrupts = system.interrupts().len();
        self.boot_clusters(system)?;
        self.boot_communication(system)?;
        if EngineId::EXISTS {
            self.boot_engines(system)?;
        }
        if PoolId::EXISTS {
            self.boot_pools(system)?;
        }
        self.boot_handles(system)?;
        self.boot_lists(system);
        self.boot_threads(system)
    }

    /// Links the endpoints, notifications and uses of each task, in the order of the system: its death goes through these
    /// lists.
    fn boot_lists(&mut self, system: &System<'_>) {
        for id in (0..system.endpoints().len()).rev().filter_map(EndpointId::new) {
            if let Some(server) = self.endpoints[id].server() {
                self.endpoints[id].link(self.threads[server].add_endpoint(id));
            }
        }
        for id in (0..system.notifications().len()).rev().filter_map(NotificationId::new) {
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
        for (index, record) in system.clusters().iter().enumerate() {
            let id = refer!(ClusterId, index, CLUSTERS, "cluster");
            let cpus = CpuSet(record.cpus);
            let cluster = &mut self.clusters[id];
            if !cluster.set_cpus(cpus) {
                return Err(BootError::BadClusters);
            }
            for cpu in cpus.iter() {
                if cpu.index() >= CPUS {
                    return Err(BootError::BadClusters);
                }
                if !self.cpus[cpu].join(id) {
                    return Err(BootError::BadClusters);
                }
            }
        }
        let has_cluster = |cpu: usize| self.cpus[CpuId(cpu as u8)].cluster().is_some();
        let covered = (0..self.counts.cpus).all(has_cluster);
        let outside = (self.counts.cpus..CPUS).any(has_cluster);
        if covered && !outside { Ok(()) } else { Err(BootError::BadClusters) }
    }

    fn boot_communication(&mut self, system: &System<'_>) -> Result<(), BootError> {
        let threads = self.counts.threads;
        for (index, record) in system.endpoints().iter().enumerate() {
            let id = refer!(EndpointId, index, ENDPOINTS, "endpoint");
            let server = refer!(ThreadId, record.server, threads, "endpoint");
            self.endpoints[id].set_server(server);
            let boost = &mut self.boosts[server];
            // The longest service of all its endpoints, in the shortest of their periods: each of them is counted for the server.
            let budget = Nanoseconds(record.service_max.max(boost.budget.0));
            let others = if boost.budget == Nanoseconds::ZERO { u64::MAX } else { boost.period.0 };
            if record.service_max != 0 {
                *boost = Account::new(budget, Nanoseconds(record.boost_period().min(others).max(budget.0)));
            }
        }
        for (index, record) in system.notifications().iter().enumerate() {
            let id = refer!(NotificationId, index, NOTIFICATIONS, "notification");
            if record.bound_plus_one != 0 && self.managed {
                let bound = refer!(ThreadId, record.bound_plus_one - 1, threads, "notification");
                self.notifications[id].bind(bound);
            }
        }
        for (index, record) in system.interrupts().iter().enumerate() {
            let id = refer!(InterruptId, index, INTERRUPTS, "interrupt");
            let notification = refer!(NotificationId, record.notification, system.notifications().len(), "interrupt");
            if record.cpu as usize >= self.counts.cpus {
                return Err(BootError::Dangling("interrupt"));
            }
            self.interrupts[id].bind(notification, record.bits);
        }
        for (index, record) in system.regions().iter().enumerate() {
            let id = refer!(RegionId, index, REGIONS, "region");
            self.regions[id].set_pages(record.bytes / image::PAGE);
        }
        Ok(())
    }

    fn boot_engines(&mut self, system: &System<'_>) -> Result<(), BootError> {
        for (index, record) in system.engines().iter().enumerate() {
            let id = refer!(EngineId, index, ENGINES, "engine");
            let order = match record.order {
                order::FIFO => Order::Fifo,
                order::PRIORITY => Order::Priority,
                _ => return Err(BootError::Dangling("engine")),
            };
            let engine = &mut self.engines[id];
            engine.lock_mut().set_order(order);
            if record.group_plus_one != 0 {
                let group = refer!(GroupId, record.group_plus_one - 1, GROUPS, "engine");
                self.groups[group].set_order(order);
                engine.set_group(group);
            }
            if record.pool_plus_one != 0 {
                let pool = refer!(PoolId, record.pool_plus_one - 1, self.counts.pools, "engine");
                let mut tokens = 0..u8::MAX;
                if record.tokens != 0 {
                    let range = |from: u32| {
                        Some(u8::try_from(from).ok()?..u8::try_from(from.checked_add(record.tokens)?).ok()?)
                    };
                    tokens = range(record.first_token).ok_or(BootError::Dangling("engine"))?;
                }
                engine.set_pool(pool, tokens);
            }
            if record.interrupt_plus_one != 0 {
                let interrupt = refer!(InterruptId, record.interrupt_plus_one - 1, self.counts.interrupts, "engine");
                self.interrupts[interrupt].announce_completions();
                // The driver is the task that may acknowledge that interrupt.
                let driver = system
                    .handles()
                    .iter()
                    .find(|handle| handle.kind == kind::INTERRUPT && handle.object == record.interrupt_plus_one - 1)
                    .and_then(|handle| ThreadId::new(handle.task as usize));
                engine.set_device(interrupt, driver);
            }
            engine.set_watchdog(Nanoseconds(record.watchdog), Nanoseconds(record.reset_bound), record.reset_bits);
            if engine.is_unwatched() {
                // Looks at the engine are numbered from the other end.
                within(self.counts.threads + index + 1, THREADS, "tasks and watchdogs")?;
            }
            if GATES {
                let (first_member, members) = (record.first_member, record.members);
                let all = MEMBERS.min(system.shared_users().len());
                within(usize::from(first_member) + usize::from(members), all, "clients without locks")?;
                within(usize::from(members), MEMBERS_PER_ENGINE, "members of an engine")?;
                let sharer = match record.sharer_plus_one.checked_sub(1) {
                    Some(endpoint) => Some(refer!(EndpointId, endpoint, self.counts.endpoints, "engine")),
                    None => None,
                };
                let longest = Nanoseconds(record.shared_longest);
                self.gates[id] = Gate::new(longest, sharer, first_member, members);
            }
        }
        for (index, record) in system.engine_users().iter().enumerate() {
            let id = refer!(EngineUserId, index, ENGINE_USERS, "engine user");
            let others = system.engine_users().iter().filter(|other| other.engine == record.engine);
            within(others.count(), USERS_PER_ENGINE, "users of an engine")?;
            let engine = refer!(EngineId, record.engine, self.counts.engines, "engine user");
            if let Some(group) = self.engines[engine].group() {
                let is_in_group = |task: &usize| {
                    let of = |user: &&image::EngineUser| user.task as usize == *task;
                    system.engine_users().iter().filter(of).any(|user| {
                        EngineId::new(user.engine as usize)
                            .filter(|engine| engine.index() < self.counts.engines)
                            .is_some_and(|engine| self.engines[engine].group() == Some(group))
                    })
                };
                within((0..self.counts.threads).filter(is_in_group).count(), groups::USERS, "tasks of a group")?;
            }
            let thread = refer!(ThreadId, record.task, self.counts.threads, "engine user");
            self.engine_users[id].set_parties(engine, thread);
            if SPATIAL && self.managed && record.key != 0 {
                let users = system.engine_users().iter().filter(|other| other.engine == record.engine).count();
                if users != 1
                    || self.engines[engine].group().is_some()
                    || self.gates[engine].longest() != Nanoseconds::ZERO
                {
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
            let id = refer!(PoolId, index, POOLS, "pool");
            let cluster = refer!(ClusterId, record.cluster, self.counts.clusters, "pool");
            within(record.replicas as usize, POOL_REPLICAS, "tokens of a pool")?;
            let limit = u16::try_from(record.limit).map_err(|_| BootError::TooMany("requests in a queue"))?;
            let total = u16::try_from(record.total_limit).map_err(|_| BootError::TooMany("requests in all queues"))?;
            let [limit, total] = [limit, total].map(|limit| (limit != 0).then_some(limit));
            let cpus = self.clusters[cluster].schedule().cpus().count() as u16;
            let replicas = record.replicas as u8;
            if limit
                .is_some_and(|limit| total.is_some_and(|total| u32::from(total) > u32::from(limit) * record.replicas))
                || (limit.is_none() && total.is_some())
                || replicas == 0
            {
                return Err(BootError::Dangling("limit on all queues"));
            }
            let measure = match record.measure {
                measure::REQUESTS => Measure::Requests,
                measure::LENGTHS => Measure::CriticalSections,
                _ => return Err(BootError::Dangling("measure")),
            };
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
        let pool = refer!(PoolId, record.pool, self.counts.pools, "pool user");
        let thread = refer!(ThreadId, record.task, self.counts.threads, "pool user");
        // Tokens are for jobs: a thread without a reservation has no base key.
        if !system.reservations().iter().any(|one| one.task as usize == thread.index()) {
            return Err(BootError::Dangling("pool user"));
        }
        let uses = |of: &dyn Fn(&PoolUser) -> bool| self.pool_users.all().iter().filter(|user| of(user)).count();
        within(uses(&|user| user.thread() == Some(thread)) + 1, POOLS_PER_TASK, "pools of a task")?;
        within(uses(&|user| user.pool() == Some(pool)) + 1, USERS_PER_POOL, "users of a pool")?;
        let user = refer!(PoolUserId, index, POOL_USERS, "pool user");
        let next = self.threads[thread].add_pool(user);
        self.pool_users[user] = PoolUser::new(pool, thread, Nanoseconds(record.length), next);
        Ok(())
    }

    fn boot_handles(&mut self, system: &System<'_>) -> Result<(), BootError> {
        for record in system.handles() {
            let thread = refer!(ThreadId, record.task, self.counts.threads, "handle");
            within(record.slot as usize + 1, HANDLES, "handles of a task")?;
            let object = match record.kind {
                kind::ENDPOINT => {
                    Object::Endpoint(refer!(EndpointId, record.object, system.endpoints().len(), "handle"))
                }
                kind::NOTIFICATION => {
                    Object::Notification(refer!(NotificationId, record.object, system.notifications().len(), "handle"))
                }
                kind::ENGINE => {
                    let user = system
                        .engine_users()
                        .iter()
                        .position(|user| user.engine == record.object && user.task == record.task)
                        .and_then(EngineUserId::new)
                        .ok_or(BootError::Dangling("handle"))?;
                    Object::Engine(user)
                }
                kind::POOL => {
                    let user = system
                        .pool_users()
                        .iter()
                        .position(|user| user.pool == record.object && user.task == record.task)
                        .and_then(PoolUserId::new)
                        .ok_or(BootError::Dangling("handle"))?;
                    Object::Pool(user)
                }
                kind::INTERRUPT => {
                    Object::Interrupt(refer!(InterruptId, record.object, self.counts.interrupts, "handle"))
                }
                kind::REGION => Object::Region(refer!(RegionId, record.object, system.regions().len(), "handle")),
                kind::TASK => Object::Task(refer!(ThreadId, record.object, self.counts.threads, "handle")),
                kind::DOORBELLS => Object::Doorbells(refer!(EngineId, record.object, self.counts.engines, "handle")),
                kind::SYSTEM => Object::System,
                _ => return Err(BootError::Dangling("handle")),
            };
            // Copies of others leave a node for it.
            let is_given = DerivationId::EXISTS && record.rights & rights::GRANT != 0;
            if is_given && !self.derivations.reserve() {
                return Err(BootError::TooMany("handles with the right `grant`"));
            }
            let rights = u16::try_from(record.rights).map_err(|_| BootError::Dangling("handle"))?;
            self.handles[thread][record.slot as usize].declare(record.slot as u16, object, rights, record.badge);
        }
        Ok(())
    }

    fn boot_threads(&mut self, system: &System<'_>) -> Result<(), BootError> {
        let start = Instant(system.header().start);
        self.start = start;
        let mut releases = 0u16;
        for (index, record) in system.reservations().iter().enumerate() {
            let id = refer!(ReservationId, index, THREADS, "reservation");
            let owner = refer!(ThreadId, record.task, self.counts.threads, "reservation");
            let cluster = refer!(ClusterId, record.cluster, self.counts.clusters, "reservation");
            let class = match record.class {
                class::REAL_TIME => Class::RealTime,
                class::SERVICE => Class::Service,
                class::BACKGROUND => Class::Background,
                _ => return Err(BootError::Dangling("reservation")),
            };
            let release = match record.release {
                release::NONE => Release::None,
                release::PERIODIC => Release::Periodic,
                release::SPORADIC => Release::Sporadic,
                _ => return Err(BootError::Dangling("reservation")),
            };
            let overrun = match record.overrun {
                overrun::THROTTLE => Overrun::Throttle,
                overrun::SIGNAL => Overrun::Signal,
                overrun::EARLY_RELEASE => Overrun::EarlyRelease,
                _ => return Err(BootError::Dangling("reservation")),
            };
            let backlog = u8::try_from(record.backlog).map_err(|_| BootError::TooMany("queued releases"))?;
            if release == Release::Sporadic {
                let places = backlog.max(1);
                self.threads[owner].job_mut().set_places(releases, places);
                releases += u16::from(places);
                within(usize::from(releases), RELEASES, "queued releases")?;
            }
            let point = policy_of(system, record.cluster)?.priority_point(&TaskParameters {
                execution: Nanoseconds(record.execution),
                period: Nanoseconds(record.period),
                deadline: Nanoseconds(record.deadline),
                priority: record.priority,
                cpus: self.clusters[cluster].schedule().cpus().count(),
            });
            // Time used before the start is void, for all at that instant: no job finds others before it that had more.
            let is_real_time = class == Class::RealTime;
            let starts_over = start != Instant::ZERO && is_real_time;
            let (releases_early, begins_early) = (record.early_release != 0, record.begins_early != 0);
            let takes_early = releases_early || overrun == Overrun::EarlyRelease;
            if !matches!(point, PriorityPoint::AfterRelease(_)) && (takes_early || begins_early) {
                return Err(BootError::EarlyRelease);
            }
            let may_begin_early = CREDITS && is_real_time && release == Release::Sporadic && !takes_early;
            if begins_early && !may_begin_early {
                return Err(BootError::BeginsEarly);
            }
            self.reservations[id].set_terms(Terms {
                owner: Some(owner),
                cluster: Some(cluster),
                class,
                release,
                overrun,
                backlog,
                point,
                account: Account::new(Nanoseconds(record.budget), Nanoseconds(record.period)),
                deadline: Nanoseconds(record.deadline),
                tie: Tie::new(0, Nanoseconds(record.deadline), owner.index() as u16),
                suspension: Nanoseconds(record.suspension),
                releases_early,
                begins_early,
                only_for_start: false,
                next_release: if release == Release::Periodic {
                    start + Nanoseconds(record.phase)
                } else {
                    Instant::NEVER
                },
                replenish_at: if starts_over { start } else { Instant::NEVER },
                // No job begins before the start, whichever way it is released.
                earliest_release: start,
            });
            let key = self.fresh_key(id);
            self.reservations[id].set_key(key);
            self.event_moves(id);
            if !self.threads[owner].set_own(id) {
                return Err(BootError::Dangling("reservation"));
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
        for (index, record) in system.tasks().iter().enumerate() {
            let id = refer!(ThreadId, index, THREADS, "task");
            let cluster = refer!(ClusterId, record.cluster, self.counts.clusters, "task");
            self.threads[id].join(cluster);
            self.make_ready(id);
        }
        self.boot_shared_pools()?;
        // A server without a budget of its own starts on a reserve without an owner: it is ready, and runs up to its first
        // receive on background time of its cluster.
        for index in 0..self.counts.threads {
            let id = refer!(ThreadId, index, THREADS, "task");
            if self.threads[id].own().is_none() {
                self.boot_passive(id)?;
            }
            if system.tasks()[index].flags & task::SLEEPS_INSIDE != 0 {
                self.sleepers[index / 32] |= 1 << (index % 32);
            }
            if RESTARTS && !self.boot_life(id, system.tasks()[index].supervision) {
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
        let id = refer!(ReservationId, index, THREADS, "reservation");
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
