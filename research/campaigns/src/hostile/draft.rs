//! Random systems, some of whose tasks want to be proved and all others of which will do anything.
//!
//! # Invariants
//!
//! 1. A system depends on the seed, its number, and on which attempt it is.

use fusee_kernel_core::limits;
use fusee_simulator::workload::Source;

mod write;

//--- Types

/// A system before it is text.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) title: String,
    clusters: Vec<(u64, &'static str)>,
    pub(super) tasks: Vec<TaskDraft>,
    endpoints: Vec<Door>,
    notifications: Vec<Option<usize>>,
    locks: Vec<Lock>,
    pools: Vec<Pool>,
    services: Vec<Service>,
    /// Number of devices.
    devices: usize,
    /// The first device has SMs, and gives them to clients by itself.
    keyed: bool,
    /// Parts of their budgets that jobs leave, nanoseconds.
    spare: u64,
    /// All that wait do so inside a hold, if they have one.
    all_wait: bool,
}

#[derive(Clone, Debug)]
pub(super) struct TaskDraft {
    cluster: usize,
    class: Class,
    /// Nanoseconds, all of them.
    period: u64,
    budget: u64,
    deadline: u64,
    phase: u64,
    /// The time that a job computes, if it keeps its declarations.
    computes: u64,
    expects: u64,
    /// How long it sleeps, as it declares, if it shall be proved.
    sleeps: u64,
    priority: u64,
    sporadic: bool,
    backlog: u64,
    /// Number of its overrun policy.
    overrun: usize,
    covers: bool,
    early: bool,
    /// It calls and sleeps inside its first hold.
    inside: bool,
    /// Kinds of things that it may wait for inside holds if it does anything: endpoints, notifications, locks, sleep; a bit each.
    may_inside: u64,
    /// It does as it declares, and shall be proved
    pub(super) wanted: bool,
    /// unless others are told to trust it instead.
    trusted: bool,
    handles: Vec<Has>,
    uses: Vec<Use>,
    /// Which services a job asks for, and how often, if it shall be proved. All others may ask for them at any time.
    calls: Vec<(usize, u64)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Class {
    RealTime,
    Service,
    /// With a budget or without.
    Background(bool),
    Passive,
}

/// A handle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Has {
    Endpoint(usize),
    Notification(usize),
    Task(usize, &'static str),
}

/// The declarations of a task about an engine, a mutex or a pool.
#[derive(Clone, Copy, Debug)]
struct Use {
    of: Of,
    times: u64,
    cpu: u64,
    operation: u64,
    /// It says nothing of it.
    silent: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Of {
    Lock(usize),
    Pool(usize),
}

/// An endpoint with a server that keeps its declarations, `server` with this number.
#[derive(Clone, Debug)]
struct Service {
    /// Where the server is,
    cluster: usize,
    /// and the only cluster of its clients, if it has one.
    clients: Option<usize>,
    most: u64,
    period: Option<u64>,
    /// Which others a service asks for, and how often.
    calls: Vec<(usize, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Door {
    server: usize,
    service: Option<(u64, Option<u64>)>,
}

/// The users of a lock or a pool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Who {
    /// Tasks that shall be proved.
    Wanted,
    /// All others.
    Others,
    All,
}

/// An engine, or a mutex.
#[derive(Clone, Copy, Debug)]
struct Lock {
    who: Who,
    cluster: usize,
    fifo: bool,
    grouped: bool,
    /// The device, of an engine.
    device: Option<Place>,
}

/// Where an engine is.
#[derive(Clone, Copy, Debug)]
struct Place {
    device: usize,
    /// Its number there.
    number: usize,
    watchdog: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Pool {
    who: Who,
    /// Nothing: clusters share it.
    cluster: Option<usize>,
    replicas: u64,
    limit: u64,
    advice: &'static str,
    watchdog: Option<u64>,
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
/// When periodic jobs begin.
const START: u64 = MILLISECOND;
/// Periods, in milliseconds.
const PERIODS: [u64; 15] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50];
const SIZES: [&[u64]; 14] =
    [&[1], &[1], &[1], &[1], &[2], &[1, 1], &[1, 1], &[2, 1], &[1, 2], &[2, 2], &[1, 1, 1], &[3], &[3, 1], &[4]];
const POLICIES: [&str; 5] = ["EDF", "FL", "RM", "DM", "FP"];
/// Clients of a device, at most.
const CLIENTS: usize = 6;

//--- Drawing

/// The parts that a system may have.
#[derive(Clone, Copy, Debug)]
struct Themes {
    servers: bool,
    notifications: bool,
    mutexes: bool,
    pools: bool,
    crossing: bool,
    device: bool,
    /// Tasks that shall be proved share locks with others.
    shared: bool,
    advised: bool,
}

/// The system with this number.
pub(super) fn draw(seed: u64, number: u64, attempt: u64, (spare, all_wait): (u64, bool)) -> Draft {
    let mut source = Source::new(seed ^ attempt << 56, number);
    let source = &mut source;
    let sizes = source.pick(&SIZES);
    let one_in = |source: &mut Source, count: u64| source.draw(1, count) == 1;
    let themes = Themes {
        servers: one_in(source, 2),
        notifications: one_in(source, 3),
        mutexes: one_in(source, 3),
        pools: one_in(source, 4),
        crossing: one_in(source, if sizes.len() > 1 { 3 } else { 8 }),
        device: one_in(source, 3),
        shared: one_in(source, 2),
        advised: one_in(source, 6),
    };
    let policy = source.pick(&POLICIES);
    let mut cluster = |size: u64| {
        let other = source.pick(&POLICIES);
        (size, if size > 1 { source.pick(&["EDF", "EDF", "FL", policy]) } else { source.pick(&[policy, other]) })
    };
    let clusters: Vec<(u64, &str)> = sizes.iter().map(|size| cluster(*size)).collect();
    let mut draft = Draft {
        title: format!("seed {seed}, manifest {number}, attempt {attempt}"),
        clusters,
        tasks: Vec::new(),
        endpoints: Vec::new(),
        notifications: Vec::new(),
        locks: Vec::new(),
        pools: Vec::new(),
        services: Vec::new(),
        devices: if themes.device { source.pick(&[1, 1, 1, 2, 3]) } else { 0 },
        keyed: number.is_multiple_of(3),
        spare,
        all_wait,
    };
    for cluster in 0..draft.clusters.len() {
        draft.jobs(source, cluster, themes);
        for _ in 0..source.pick(&[0, 0, 1, 1, 2]) {
            let other = TaskDraft::other(source, cluster);
            draft.tasks.push(other);
        }
    }
    draft.objects(source, themes);
    draft.sleep(&mut Source::new(!seed ^ attempt << 56, number));
    draft.serve(&mut Source::new(seed ^ 1 << 62 ^ attempt << 56, number));
    let inside = &mut Source::new(seed ^ 1 << 61 ^ attempt << 56, number);
    draft.tasks.iter_mut().for_each(|task| task.may_inside = inside.draw(0, 15));
    draft
}

impl Themes {
    /// The users of another lock.
    fn who(self, source: &mut Source) -> Who {
        match self.shared {
            true => source.pick(&[Who::Wanted, Who::Wanted, Who::Others, Who::All]),
            false => Who::Others,
        }
    }
}

impl Who {
    fn may(self, is_wanted: bool) -> bool {
        match self {
            Who::Wanted => is_wanted,
            Who::Others => !is_wanted,
            Who::All => true,
        }
    }
}

impl Draft {
    /// Adds the tasks with jobs of a cluster.
    fn jobs(&mut self, source: &mut Source, cluster: usize, themes: Themes) {
        let (size, policy) = self.clusters[cluster];
        let count = source.draw(2, 3 + 2 * size);
        let full = size * 1_000;
        // On one CPU deadlines can hold up to the last nanosecond.
        let utilisation = match size {
            1 => {
                let some = source.draw(300, 1_000);
                let shares = themes.crossing || themes.pools || themes.mutexes || themes.device;
                source.pick(&[if shares { some * 2 / 3 } else { full }, full, some])
            }
            _ => source.draw(full * 3 / 10, full * 8 / 10),
        };
        let weights: Vec<u64> = (0..count).map(|_| source.draw(1, 100)).collect();
        let sum: u64 = weights.iter().sum();
        // Not all.
        let wanted = source.draw(0, count - 2) as usize;
        let trusts = wanted + 3 < count as usize && source.draw(0, 2) == 0;
        for (index, weight) in weights.into_iter().enumerate() {
            let part = (utilisation * weight / sum).min(950);
            let jitter = if source.draw(0, 2) == 0 { source.draw(0, 900) * MICROSECOND } else { 0 };
            let period = source.pick(&PERIODS) * MILLISECOND + jitter;
            let least = limits::least_budget(limits::LONGEST_PATH_CROWDED);
            let budget = (period / 1_000 * part).clamp(least, period);
            let deadline = match source.draw(0, 5) {
                0 => source.draw(budget.max(period / 2), period),
                1 if policy != "RM" => source.draw(period, 2 * period),
                2 => source.draw(period, 10 * period),
                _ => period,
            };
            let shares = themes.crossing || themes.pools || themes.mutexes || themes.device;
            // Where interrupts come first, a budget that ends when the job does has ended before.
            let computes = if shares && source.draw(0, 2) > 0 { budget / 3 } else { budget - self.spare };
            let random = source.draw(0, period);
            let overrun = source.pick(&[0, 0, 1, 2]);
            self.tasks.push(TaskDraft {
                cluster,
                class: Class::RealTime,
                period,
                budget,
                deadline,
                phase: source.pick(&[0, 0, random]),
                computes,
                expects: computes,
                sleeps: 0,
                priority: if source.draw(0, 2) > 0 { deadline / MICROSECOND } else { source.draw(1, 9) },
                sporadic: source.draw(0, 6) == 0,
                backlog: source.pick(&[1, 1, 2, 4, 10, 255]),
                overrun: if policy == "EDF" || policy == "FL" { overrun } else { overrun % 2 },
                covers: themes.device && source.draw(0, 5) == 0,
                early: policy == "EDF" || policy == "FL",
                inside: source.draw(0, 3) == 0 || self.all_wait,
                may_inside: 0,
                wanted: index <= wanted || index == count as usize - 1 && trusts,
                trusted: index > wanted,
                handles: Vec::new(),
                uses: Vec::new(),
                calls: Vec::new(),
            });
        }
    }

    /// Lets some tasks that shall be proved sleep in the middle of their jobs.
    fn sleep(&mut self, source: &mut Source) {
        for task in self.tasks.iter_mut().filter(|task| task.wanted) {
            let longest = task.deadline.saturating_sub(task.budget) / 2;
            if (source.draw(0, 4) == 0 || self.all_wait) && longest > 0 {
                task.sleeps = source.draw(1, longest);
            }
        }
    }

    /// In some systems tasks that shall be proved call servers that keep their declarations.
    fn serve(&mut self, source: &mut Source) {
        if source.draw(0, 2) > 0 {
            return;
        }
        let clusters = self.clusters.len();
        let count = source.draw(1, 3) as usize;
        let any_cluster = |source: &mut Source| source.draw(0, clusters as u64 - 1) as usize;
        for _ in 0..count {
            let home = any_cluster(source);
            let clients = (clusters == 1 || source.draw(0, 2) > 0).then_some(home);
            let most = source.draw(100, 400) * MICROSECOND;
            let period = source.pick(&PERIODS) * MILLISECOND;
            let period = (clients.is_none() && source.draw(0, 3) > 0).then_some(period.max(most));
            let cluster = if clients.is_some() { home } else { any_cluster(source) };
            self.services.push(Service { cluster, clients, most, period, calls: Vec::new() });
        }
        for index in 0..count {
            for other in index + 1..count {
                let times = source.draw(1, 2);
                let nests = source.draw(0, 2) == 0 && self.suits(other, Some(self.services[index].cluster));
                if nests {
                    let one = &mut self.services[index];
                    one.calls.push((other, times));
                }
            }
        }
        for task in 0..self.tasks.len() {
            let one = &self.tasks[task];
            let (cluster, wanted, budget) = (one.cluster, one.wanted, one.budget);
            // A task that may have another's priority comes before all; admission knows that, too.
            let serves = |has: &Has| matches!(has, Has::Endpoint(door) if self.endpoints[*door].server == task);
            let signals = self.notifications.contains(&Some(task));
            let inherits = signals || !one.uses.is_empty() || one.handles.iter().any(serves);
            let is_quiet = !inherits && one.class != Class::RealTime;
            let mut calls = Vec::new();
            let mut needs = 0;
            for service in (0..count).filter(|service| self.suits(*service, Some(cluster))) {
                let times = source.draw(1, 2);
                let asks = match wanted {
                    true => source.draw(0, 1) == 0 && needs + times * self.whole(service) < budget / 2,
                    false if is_quiet => source.draw(0, 3) > 0,
                    false => source.draw(0, 15) == 0,
                };
                if asks {
                    needs += times * self.whole(service);
                    calls.push((service, times));
                }
            }
            let one = &mut self.tasks[task];
            if wanted && needs > 0 {
                one.computes = one.computes.min(one.budget - needs).min(one.budget / 2);
                one.expects = one.computes;
            }
            one.calls = calls;
        }
    }

    /// Whether tasks of this cluster may ask for a service.
    fn suits(&self, service: usize, cluster: Option<usize>) -> bool {
        let one = &self.services[service];
        one.clients.is_none() || one.clients == cluster
    }

    /// CPU time of a service with all that it asks for.
    fn whole(&self, service: usize) -> u64 {
        let one = &self.services[service];
        one.most + one.calls.iter().map(|(other, times)| times * self.whole(*other)).sum::<u64>()
    }

    /// Adds the objects that tasks share, and their handles.
    fn objects(&mut self, source: &mut Source, themes: Themes) {
        let tasks = self.tasks.len();
        let hostile: Vec<usize> = (0..tasks).filter(|task| !self.tasks[*task].wanted).collect();
        if themes.servers {
            for _ in 0..source.draw(1, 3) {
                let server = source.pick(&hostile);
                let service_max = source.pick(&[20, 100, 500, 2_000]) * MICROSECOND;
                let service_period = source.pick(&PERIODS) * MILLISECOND;
                let service_period = (source.draw(0, 3) > 0).then_some(service_period.max(service_max));
                self.endpoints
                    .push(Door { server, service: (source.draw(0, 2) > 0).then_some((service_max, service_period)) });
            }
        }
        if themes.notifications {
            for _ in 0..source.draw(1, 3) {
                let bound = source.pick(&hostile);
                self.notifications.push((source.draw(0, 1) == 0).then_some(bound));
            }
        }
        for task in &hostile {
            let mut handles: Vec<Has> = Vec::new();
            handles.extend((0..self.endpoints.len()).map(Has::Endpoint));
            handles.extend((0..self.notifications.len()).map(Has::Notification));
            handles.retain(|has| {
                matches!(has, Has::Endpoint(door) if self.endpoints[*door].server == *task) || source.draw(0, 3) > 0
            });
            for other in 0..tasks {
                let of = &self.tasks[other];
                if of.sporadic && source.draw(0, 1) == 0 {
                    handles.push(Has::Task(other, "release_job credit"));
                } else if source.draw(0, if of.wanted { 99 } else { 9 }) == 0 {
                    handles.push(Has::Task(other, "stop grant"));
                }
            }
            self.tasks[*task].handles = handles;
        }
        // Someone has to release sporadic jobs.
        for task in 0..tasks {
            let has = |one: &TaskDraft| one.handles.contains(&Has::Task(task, "release_job credit"));
            if self.tasks[task].sporadic && !self.tasks.iter().any(has) {
                let releaser = source.pick(&hostile);
                let one = &mut self.tasks[releaser];
                one.handles.retain(|has| !matches!(has, Has::Task(other, _) if *other == task));
                one.handles.push(Has::Task(task, "release_job credit"));
            }
        }
        for cluster in 0..self.clusters.len() {
            if themes.mutexes {
                let grouped = source.draw(0, 3) == 0;
                let together = source.draw(0, 1) == 0;
                for _ in 0..source.draw(1, 3) {
                    let fifo = if grouped { together } else { source.draw(0, 1) == 0 };
                    self.locks.push(Lock { who: themes.who(source), cluster, fifo, grouped, device: None });
                }
            }
            if themes.pools {
                self.pool(source, Some(cluster), themes);
            }
        }
        if themes.crossing {
            for _ in 0..source.draw(1, 2) {
                self.pool(source, None, themes);
            }
        }
        for device in 0..self.devices {
            let grouped = source.draw(0, 3) == 0;
            let who = themes.who(source);
            let cluster = if device == 0 { 0 } else { source.draw(0, self.clusters.len() as u64 - 1) as usize };
            for number in 0..3 {
                let watchdog = (source.draw(0, 1) == 0).then(|| source.draw(500, 20_000) * MICROSECOND);
                let place = Place { device, number, watchdog };
                self.locks.push(Lock { who, cluster, fifo: grouped, grouped, device: Some(place) });
            }
        }
        self.users(source);
    }

    fn pool(&mut self, source: &mut Source, cluster: Option<usize>, themes: Themes) {
        let replicas = source.draw(1, 3);
        let size = cluster.map_or(1, |cluster| self.clusters[cluster].0);
        self.pools.push(Pool {
            who: themes.who(source),
            cluster,
            replicas,
            limit: source.pick(&[0, size.div_ceil(replicas)]),
            advice: if themes.advised { source.pick(&["none", "random"]) } else { "none" },
            watchdog: (source.draw(0, 1) == 0).then(|| source.draw(300, 20_000) * MICROSECOND),
        });
    }

    /// Draws the users of each lock and pool.
    fn users(&mut self, source: &mut Source) {
        let mut clients = vec![0; self.devices];
        for index in 0..self.tasks.len() {
            let task = &self.tasks[index];
            let (cluster, class, wanted) = (task.cluster, task.class, task.wanted);
            let mut uses: Vec<Use> = Vec::new();
            let mut is_client = vec![false; self.devices];
            for (number, lock) in self.locks.iter().enumerate() {
                if lock.cluster != cluster || !lock.who.may(wanted) {
                    continue;
                }
                let is_engine = lock.device.is_some();
                // A task in the background would leave engines without a watchdog.
                // A step of a script names an engine by its number, so it works with one device.
                let is_elsewhere =
                    |place: Place| wanted && (0..self.devices).any(|other| other != place.device && is_client[other]);
                let has_place =
                    |place: Place| (clients[place.device] < CLIENTS || is_client[place.device]) && !is_elsewhere(place);
                let may = lock.device.is_none_or(|place| class == Class::RealTime && has_place(place));
                if !may || source.draw(0, 1) == 0 {
                    continue;
                }
                if let Some(Place { device, .. }) = lock.device.filter(|place| !is_client[place.device]) {
                    is_client[device] = true;
                    clients[device] += 1;
                }
                uses.push(Use {
                    of: Of::Lock(number),
                    times: source.draw(1, 2),
                    cpu: source.draw(1, 60) * MICROSECOND,
                    operation: if is_engine { source.draw(10, 400) * MICROSECOND } else { 0 },
                    silent: class != Class::RealTime || source.draw(0, 30) == 0,
                });
            }
            let mut pools = 0;
            for (number, pool) in self.pools.iter().enumerate() {
                if !pool.who.may(wanted) {
                    continue;
                }
                let may = match pool.cluster {
                    Some(of) => of == cluster && class != Class::Passive && class != Class::Background(false),
                    None => class == Class::RealTime,
                };
                if may && pools < 2 && source.draw(0, 1) == 0 {
                    pools += 1;
                    let cpu = source.draw(1, 150) * MICROSECOND;
                    uses.push(Use { of: Of::Pool(number), times: 1, cpu, operation: 0, silent: false });
                }
            }
            let task = &mut self.tasks[index];
            task.uses = uses;
            if !task.uses.is_empty() {
                // The time that others may borrow while it waits is not its own.
                task.computes = task.computes.min(task.budget / 2);
                task.expects = task.computes;
            }
        }
    }
}

impl TaskDraft {
    /// A task that has no jobs.
    fn other(source: &mut Source, cluster: usize) -> TaskDraft {
        let class = source.pick(&[Class::Service, Class::Background(true), Class::Background(false), Class::Passive]);
        let period = source.pick(&PERIODS) * MILLISECOND;
        let least = limits::least_budget(limits::LONGEST_PATH_CROWDED);
        let budget = source.draw(least, period);
        TaskDraft {
            cluster,
            class,
            period,
            budget,
            deadline: period,
            phase: 0,
            computes: budget,
            expects: budget,
            sleeps: 0,
            priority: 1,
            sporadic: false,
            backlog: 1,
            overrun: 0,
            covers: false,
            early: false,
            inside: false,
            may_inside: 0,
            wanted: false,
            trusted: false,
            handles: Vec::new(),
            uses: Vec::new(),
            calls: Vec::new(),
        }
    }
}
