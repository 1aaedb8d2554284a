//! Random systems, some of whose tasks want to be proved and all others of which will do anything.
//!
//! # Invariants
//!
//! 1. A system depends on the seed, its number, and on which attempt it is.
//! 2. What is left out of a draft takes all that names it along: a smaller draft is a system as well.

use std::fmt::Write;

use fusee_kernel_core::limits;
use fusee_simulator::workload::Source;

//--- Types

/// A system before it is text. Objects that are `None` have been left out.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) title: String,
    clusters: Vec<(u64, &'static str)>,
    pub(super) tasks: Vec<Option<TaskDraft>>,
    endpoints: Vec<Option<Door>>,
    notifications: Vec<Option<Option<usize>>>,
    locks: Vec<Option<Lock>>,
    pools: Vec<Option<Pool>>,
    services: Vec<Option<Service>>,
    device: bool,
    /// The device has SMs, and decides who has them.
    keyed: bool,
    /// What jobs leave of their budgets, nanoseconds.
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
    /// What a job computes, if it is as it declares.
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
    /// It shall be proved.
    pub(super) wanted: bool,
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

/// What a task says of an engine, a mutex or a pool.
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

/// An endpoint whose server does what it declares, `server` with the same number.
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

/// Who uses a lock or a pool.
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
    /// Number of the engine in the device, and its watchdog.
    device: Option<(usize, Option<u64>)>,
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
const ENGINES: [&str; 3] = ["ee", "ce_in", "ce_out"];
/// Clients of a device, at most.
const CLIENTS: usize = 6;

//--- Drawing

/// What may be in a system.
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
        device: one_in(source, 5),
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
        title: format!("seed {seed}, number {number}, attempt {attempt}"),
        clusters,
        tasks: Vec::new(),
        endpoints: Vec::new(),
        notifications: Vec::new(),
        locks: Vec::new(),
        pools: Vec::new(),
        services: Vec::new(),
        device: themes.device,
        keyed: number.is_multiple_of(3),
        spare,
        all_wait,
    };
    for cluster in 0..draft.clusters.len() {
        draft.jobs(source, cluster, themes);
        for _ in 0..source.pick(&[0, 0, 1, 1, 2]) {
            let other = TaskDraft::other(source, cluster);
            draft.tasks.push(Some(other));
        }
    }
    draft.objects(source, themes);
    draft.sleep(&mut Source::new(!seed ^ attempt << 56, number));
    draft.serve(&mut Source::new(seed ^ 1 << 62 ^ attempt << 56, number));
    let inside = &mut Source::new(seed ^ 1 << 61 ^ attempt << 56, number);
    draft.tasks.iter_mut().flatten().for_each(|task| task.may_inside = inside.draw(0, 15));
    draft
}

impl Themes {
    /// Who uses another lock.
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
        for (index, weight) in weights.into_iter().enumerate() {
            let part = (utilisation * weight / sum).min(950);
            let jitter = if source.draw(0, 2) == 0 { source.draw(0, 900) * MICROSECOND } else { 0 };
            let period = source.pick(&PERIODS) * MILLISECOND + jitter;
            let least = limits::least_budget(limits::LONGEST_PATH_CROWDED);
            let budget = (period / 1_000 * part).clamp(least, period);
            let deadline = match source.draw(0, 5) {
                0 => source.draw(budget.max(period / 2), period),
                1 if policy != "RM" => source.draw(period, 2 * period),
                2 if policy != "RM" && size == 1 => source.draw(period, 10 * period),
                _ => period,
            };
            let shares = themes.crossing || themes.pools || themes.mutexes || themes.device;
            // Where interrupts come first, a budget that ends when the job does has ended before.
            let computes = if shares && source.draw(0, 2) > 0 { budget / 3 } else { budget - self.spare };
            let random = source.draw(0, period);
            let overrun = source.pick(&[0, 0, 1, 2]);
            self.tasks.push(Some(TaskDraft {
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
                backlog: source.pick(&[1, 1, 2, 4, 10]),
                overrun: if policy == "EDF" || policy == "FL" { overrun } else { overrun % 2 },
                covers: themes.device && source.draw(0, 5) == 0,
                early: policy == "EDF" || policy == "FL",
                inside: source.draw(0, 3) == 0 || self.all_wait,
                may_inside: 0,
                wanted: index <= wanted,
                handles: Vec::new(),
                uses: Vec::new(),
                calls: Vec::new(),
            }));
        }
    }

    /// Lets some tasks that shall be proved sleep in the middle of their jobs.
    fn sleep(&mut self, source: &mut Source) {
        for task in self.tasks.iter_mut().flatten().filter(|task| task.wanted) {
            let longest = task.deadline.saturating_sub(task.budget) / 2;
            if (source.draw(0, 4) == 0 || self.all_wait) && longest > 0 {
                task.sleeps = source.draw(1, longest);
            }
        }
    }

    /// In some systems tasks that shall be proved call servers that do what they declare.
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
            self.services.push(Some(Service { cluster, clients, most, period, calls: Vec::new() }));
        }
        for index in 0..count {
            for other in index + 1..count {
                let times = source.draw(1, 2);
                let nests =
                    source.draw(0, 2) == 0 && self.suits(other, self.services[index].as_ref().map(|one| one.cluster));
                if let Some(one) = self.services[index].as_mut().filter(|_| nests) {
                    one.calls.push((other, times));
                }
            }
        }
        for task in 0..self.tasks.len() {
            let Some(one) = &self.tasks[task] else { continue };
            let (cluster, wanted, budget) = (one.cluster, one.wanted, one.budget);
            // Who may have the priority of another comes before anybody; admission knows that, too.
            let serves = |has: &Has| matches!(has, Has::Endpoint(door) if self.endpoints[*door].is_some_and(|door| door.server == task));
            let signals = self.notifications.iter().flatten().any(|bound| *bound == Some(task));
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
            let Some(one) = &mut self.tasks[task] else { continue };
            if wanted && needs > 0 {
                one.computes = one.computes.min(one.budget - needs).min(one.budget / 2);
                one.expects = one.computes;
            }
            one.calls = calls;
        }
    }

    /// Whether tasks of this cluster may ask for a service.
    fn suits(&self, service: usize, cluster: Option<usize>) -> bool {
        self.services[service].as_ref().is_some_and(|one| one.clients.is_none() || one.clients == cluster)
    }

    /// CPU time of a service with all that it asks for.
    fn whole(&self, service: usize) -> u64 {
        let Some(one) = &self.services[service] else { return 0 };
        one.most + one.calls.iter().map(|(other, times)| times * self.whole(*other)).sum::<u64>()
    }

    /// Adds what tasks share, and their handles.
    fn objects(&mut self, source: &mut Source, themes: Themes) {
        let tasks = self.tasks.len();
        let hostile: Vec<usize> =
            (0..tasks).filter(|task| self.tasks[*task].as_ref().is_some_and(|one| !one.wanted)).collect();
        if themes.servers {
            for _ in 0..source.draw(1, 3) {
                let server = source.pick(&hostile);
                let service_max = source.pick(&[20, 100, 500, 2_000]) * MICROSECOND;
                let service_period = source.pick(&PERIODS) * MILLISECOND;
                let service_period = (source.draw(0, 3) > 0).then_some(service_period.max(service_max));
                self.endpoints.push(Some(Door {
                    server,
                    service: (source.draw(0, 2) > 0).then_some((service_max, service_period)),
                }));
            }
        }
        if themes.notifications {
            for _ in 0..source.draw(1, 3) {
                let bound = source.pick(&hostile);
                self.notifications.push(Some((source.draw(0, 1) == 0).then_some(bound)));
            }
        }
        for task in &hostile {
            let mut handles: Vec<Has> = Vec::new();
            handles.extend((0..self.endpoints.len()).map(Has::Endpoint));
            handles.extend((0..self.notifications.len()).map(Has::Notification));
            handles.retain(|has| {
                matches!(has, Has::Endpoint(door) if self.endpoints[*door].is_some_and(|door| door.server == *task))
                    || source.draw(0, 3) > 0
            });
            for other in 0..tasks {
                let Some(of) = &self.tasks[other] else { continue };
                if of.sporadic && source.draw(0, 1) == 0 {
                    handles.push(Has::Task(other, "release_job credit"));
                } else if source.draw(0, if of.wanted { 99 } else { 9 }) == 0 {
                    handles.push(Has::Task(other, "stop grant"));
                }
            }
            if let Some(one) = &mut self.tasks[*task] {
                one.handles = handles;
            }
        }
        // Someone has to release sporadic jobs.
        for task in 0..tasks {
            let has = |one: &Option<TaskDraft>| {
                one.as_ref().is_some_and(|one| one.handles.contains(&Has::Task(task, "release_job credit")))
            };
            if self.tasks[task].as_ref().is_some_and(|one| one.sporadic) && !self.tasks.iter().any(has) {
                let releaser = source.pick(&hostile);
                if let Some(one) = &mut self.tasks[releaser] {
                    one.handles.retain(|has| !matches!(has, Has::Task(other, _) if *other == task));
                    one.handles.push(Has::Task(task, "release_job credit"));
                }
            }
        }
        for cluster in 0..self.clusters.len() {
            if themes.mutexes {
                let grouped = source.draw(0, 3) == 0;
                let together = source.draw(0, 1) == 0;
                for _ in 0..source.draw(1, 3) {
                    let fifo = if grouped { together } else { source.draw(0, 1) == 0 };
                    self.locks.push(Some(Lock { who: themes.who(source), cluster, fifo, grouped, device: None }));
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
        if themes.device {
            let grouped = source.draw(0, 3) == 0;
            let who = themes.who(source);
            for number in 0..3 {
                let watchdog = (source.draw(0, 1) == 0).then(|| source.draw(500, 20_000) * MICROSECOND);
                self.locks.push(Some(Lock {
                    who,
                    cluster: 0,
                    fifo: grouped,
                    grouped,
                    device: Some((number, watchdog)),
                }));
            }
        }
        self.users(source);
    }

    fn pool(&mut self, source: &mut Source, cluster: Option<usize>, themes: Themes) {
        let replicas = source.draw(1, 3);
        let size = cluster.map_or(1, |cluster| self.clusters[cluster].0);
        self.pools.push(Some(Pool {
            who: themes.who(source),
            cluster,
            replicas,
            limit: source.pick(&[0, size.div_ceil(replicas)]),
            advice: if themes.advised { source.pick(&["none", "random"]) } else { "none" },
            watchdog: (source.draw(0, 1) == 0).then(|| source.draw(300, 20_000) * MICROSECOND),
        }));
    }

    /// Says who uses which lock and pool.
    fn users(&mut self, source: &mut Source) {
        let mut clients = 0;
        for index in 0..self.tasks.len() {
            let Some(task) = &self.tasks[index] else { continue };
            let (cluster, class, wanted) = (task.cluster, task.class, task.wanted);
            let mut uses: Vec<Use> = Vec::new();
            let mut is_client = false;
            for (number, lock) in self.locks.iter().enumerate() {
                let Some(lock) = lock.filter(|lock| lock.cluster == cluster && lock.who.may(wanted)) else { continue };
                let is_engine = lock.device.is_some();
                // Who works in the background would leave engines without a watchdog.
                let may = !is_engine || class == Class::RealTime && (clients < CLIENTS || is_client);
                if !may || source.draw(0, 1) == 0 {
                    continue;
                }
                if is_engine && !is_client {
                    (is_client, clients) = (true, clients + 1);
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
                let Some(pool) = pool.filter(|pool| pool.who.may(wanted)) else { continue };
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
            let Some(task) = &mut self.tasks[index] else { continue };
            task.uses = uses;
            if !task.uses.is_empty() {
                // What others may borrow while it waits is not its own.
                task.computes = task.computes.min(task.budget / 2);
                task.expects = task.computes;
            }
        }
    }

    //--- Leaving out

    /// What can be left out: tasks first, then what they share.
    pub(super) fn parts(&self) -> Vec<Part> {
        let tasks = (0..self.tasks.len()).filter(|task| self.tasks[*task].is_some()).map(Part::Task);
        let doors = (0..self.endpoints.len()).filter(|door| self.endpoints[*door].is_some()).map(Part::Endpoint);
        let events = (0..self.notifications.len()).filter(|one| self.notifications[*one].is_some());
        let locks = (0..self.locks.len()).filter(|lock| self.locks[*lock].is_some()).map(Part::Lock);
        let pools = (0..self.pools.len()).filter(|pool| self.pools[*pool].is_some()).map(Part::Pool);
        let services = (0..self.services.len()).filter(|one| self.services[*one].is_some()).map(Part::Service);
        tasks.chain(doors).chain(events.map(Part::Notification)).chain(locks).chain(pools).chain(services).collect()
    }

    /// The system without one part.
    pub(super) fn without(&self, part: Part) -> Draft {
        let mut rest = self.clone();
        match part {
            Part::Task(task) => {
                rest.tasks[task] = None;
                for door in &mut rest.endpoints {
                    *door = door.filter(|door| door.server != task);
                }
                for event in rest.notifications.iter_mut().flatten() {
                    *event = event.filter(|bound| *bound != task);
                }
            }
            Part::Endpoint(door) => rest.endpoints[door] = None,
            Part::Notification(event) => rest.notifications[event] = None,
            Part::Lock(lock) => rest.locks[lock] = None,
            Part::Pool(pool) => rest.pools[pool] = None,
            Part::Service(service) => rest.services[service] = None,
        }
        rest.device &= rest.locks.iter().flatten().any(|lock| lock.device.is_some());
        rest
    }

    /// Takes away from one task what it shares by locks and pools; says whether there was anything.
    pub(super) fn isolate(&mut self, name: &str) -> bool {
        let Some(Some(task)) = number_of(name).and_then(|task| self.tasks.get_mut(task)) else { return false };
        let (sleeps, calls) = (std::mem::take(&mut task.sleeps), std::mem::take(&mut task.calls));
        !std::mem::take(&mut task.uses).is_empty() || !calls.is_empty() || sleeps > 0
    }

    /// Lets one task compute less of its budget, or in the end share nothing; says whether there was anything to change.
    pub(super) fn ease(&mut self, name: &str) -> bool {
        let Some(Some(task)) = number_of(name).and_then(|task| self.tasks.get_mut(task)) else { return false };
        if task.computes < 4 * MICROSECOND {
            return self.isolate(name);
        }
        task.computes /= 2;
        task.expects = task.computes;
        true
    }

    /// Takes load from a cluster: what one of its tasks shares, if there is one, or else a part of each budget.
    pub(super) fn relieve(&mut self, cluster: &str) -> bool {
        let Some(of) = cluster.strip_prefix('c').and_then(|number| number.parse::<usize>().ok()) else { return false };
        let mut members = self.tasks.iter_mut().flatten().filter(|task| task.cluster == of);
        if let Some(task) = members.find(|task| !task.uses.is_empty() || !task.calls.is_empty() || task.sleeps > 0) {
            task.sleeps = 0;
            task.uses.pop();
            task.calls.pop();
            return true;
        }
        let least = limits::least_budget(limits::LONGEST_PATH_CROWDED);
        for task in self.tasks.iter_mut().flatten().filter(|task| task.cluster == of) {
            task.budget = (task.budget - task.budget / 16).max(least);
            task.computes = task.computes.min(task.budget - self.spare);
            task.expects = task.computes;
        }
        true
    }

    /// Gives up on having one task proved; says whether that was wanted.
    pub(super) fn give_up(&mut self, name: &str) -> bool {
        let Some(Some(task)) = number_of(name).and_then(|task| self.tasks.get_mut(task)) else { return false };
        task.calls.clear();
        std::mem::take(&mut task.wanted)
    }

    /// Whether some task is still to be proved.
    pub(super) fn wants_any(&self) -> bool {
        self.tasks.iter().flatten().any(|task| task.wanted)
    }

    //--- Writing

    /// The system as a manifest.
    pub(super) fn text(&self) -> String {
        let mut out = String::with_capacity(4_096);
        let cpus: u64 = self.clusters.iter().map(|(size, _)| size).sum();
        let _ = write!(
            out,
            "# {}\n[system]\nname = \"hostile\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"{}us\"\n",
            self.title,
            START / MICROSECOND
        );
        let mut next = 0;
        for (index, (size, policy)) in self.clusters.iter().enumerate() {
            let members: Vec<String> = (next..next + size).map(|cpu| cpu.to_string()).collect();
            next += size;
            let _ = write!(out, "\n[clusters.c{index}]\ncpus = [{}]\npolicy = \"{policy}\"\n", members.join(", "));
        }
        for (index, task) in self.tasks.iter().enumerate() {
            if let Some(task) = task {
                self.write_task(&mut out, index, task);
            }
        }
        for (index, door) in self.endpoints.iter().enumerate() {
            let Some(door) = door else { continue };
            let _ = write!(out, "\n[endpoints.e{index}]\nserver = \"t{}\"\n", door.server);
            if let Some((most, period)) = door.service {
                let _ = writeln!(out, "service_max = \"{most}ns\"");
                let _ = period.map(|period| writeln!(out, "service_period = \"{period}ns\""));
            }
        }
        for (index, service) in self.services.iter().enumerate() {
            let Some(service) = service else { continue };
            let _ = write!(
                out,
                "\n[tasks.server{index}]\nbinary = \"apps/server\"\ncluster = \"c{}\"\nhandles.s{index} = \"endpoint s{index}: \
                 receive\"\n",
                service.cluster
            );
            self.write_calls(&mut out, &service.calls, true);
            let _ = write!(
                out,
                "\n[endpoints.s{index}]\nserver = \"server{index}\"\nservice_max = \"{}ns\"\n",
                service.most
            );
            let _ = service.period.map(|period| writeln!(out, "service_period = \"{period}ns\""));
        }
        for (index, event) in self.notifications.iter().enumerate() {
            let Some(bound) = event else { continue };
            let _ = write!(out, "\n[notifications.n{index}]\n");
            let _ = bound.map(|task| writeln!(out, "bound = \"t{task}\""));
        }
        for (index, lock) in self.locks.iter().enumerate() {
            let Some(lock) = lock.filter(|_| self.is_used(Of::Lock(index))) else { continue };
            let _ = write!(
                out,
                "\n[engines.{}]\norder = \"{}\"\n",
                self.lock_name(index),
                if lock.fifo { "fifo" } else { "priority" }
            );
            if lock.grouped {
                let _ = writeln!(out, "group = \"g{}{}\"", lock.cluster, if lock.device.is_some() { "d" } else { "" });
            }
            if let Some((number, watchdog)) = lock.device {
                let _ = write!(out, "device = \"gpu\"\nindex = {number}\ninterrupt = \"gpu\"\n");
                let _ = watchdog.map(|span| writeln!(out, "watchdog = \"{span}ns\""));
                if self.keyed && number == 0 && !lock.grouped {
                    out.push_str("arbiter = \"device\"\n");
                }
            }
        }
        for (index, pool) in self.pools.iter().enumerate() {
            let Some(pool) = pool.filter(|_| self.is_used(Of::Pool(index))) else { continue };
            let _ = write!(out, "\n[pools.p{index}]\nreplicas = {}\nadvice = \"{}\"\n", pool.replicas, pool.advice);
            let _ = match pool.cluster {
                None => writeln!(out, "limit = \"ck-omlp\""),
                Some(of) if pool.limit == 0 => writeln!(out, "cluster = \"c{of}\"\nlimit = \"unlimited\""),
                Some(of) => writeln!(out, "cluster = \"c{of}\"\nlimit = {}", pool.limit),
            };
            let _ = pool.watchdog.map(|span| writeln!(out, "watchdog = \"{span}ns\""));
        }
        if self.device
            && self
                .locks
                .iter()
                .enumerate()
                .any(|(index, lock)| lock.is_some_and(|lock| lock.device.is_some()) && self.is_used(Of::Lock(index)))
        {
            let device =
                if self.keyed { DEVICE.replace("[devices.gpu]\n", "[devices.gpu]\nsms = 4\n") } else { DEVICE.into() };
            out.push_str(&device);
        }
        out
    }

    fn write_calls(&self, out: &mut String, calls: &[(usize, u64)], are_said: bool) {
        for (service, times) in calls.iter().filter(|(service, _)| self.services[*service].is_some()) {
            let _ = writeln!(out, "handles.s{service} = \"endpoint s{service}: call\"");
            if are_said {
                let _ = writeln!(out, "uses.s{service} = {{ times = {times} }}");
            }
        }
    }

    fn is_used(&self, of: Of) -> bool {
        self.tasks.iter().flatten().any(|task| task.uses.iter().any(|one| one.of == of))
    }

    fn lock_name(&self, index: usize) -> String {
        match self.locks[index].and_then(|lock| lock.device) {
            Some((number, _)) => ENGINES[number].to_owned(),
            None => format!("m{index}"),
        }
    }

    fn name(&self, of: Of) -> String {
        match of {
            Of::Lock(index) => self.lock_name(index),
            Of::Pool(index) => format!("p{index}"),
        }
    }

    fn is_there(&self, of: Of) -> bool {
        match of {
            Of::Lock(index) => self.locks[index].is_some(),
            Of::Pool(index) => self.pools[index].is_some(),
        }
    }

    fn write_task(&self, out: &mut String, index: usize, task: &TaskDraft) {
        let _ = write!(out, "\n[tasks.t{index}]\ncluster = \"c{}\"\n", task.cluster);
        match task.class {
            Class::RealTime => {
                let _ = write!(
                    out,
                    "period = \"{}ns\"\nbudget = \"{}ns\"\ndeadline = \"{}ns\"\nwcet = \"{}ns\"\nphase = \"{}ns\"\nbacklog = {}\n",
                    task.period, task.budget, task.deadline, task.expects, task.phase, task.backlog
                );
                if self.clusters[task.cluster].1 == "FP" {
                    let _ = writeln!(out, "priority = {}", task.priority);
                }
                if task.sporadic {
                    out.push_str("release = \"sporadic\"\n");
                }
                if task.wanted {
                    out.push_str("hard = true\n");
                    if task.sleeps > 0 {
                        let _ = writeln!(out, "suspends = \"{}ns\"", task.sleeps);
                    }
                } else {
                    let overrun = ["throttle", "signal", "early-release"][task.overrun];
                    let _ = writeln!(out, "overrun = \"{overrun}\"");
                    if task.early {
                        out.push_str("early_release = true\n");
                    }
                    if task.covers {
                        out.push_str("budget_covers = \"cpu+engines\"\n");
                    }
                }
            }
            Class::Service => {
                let _ = writeln!(
                    out,
                    "class = \"service\"\nperiod = \"{}ns\"\nbudget = \"{}ns\"",
                    task.period, task.budget
                );
            }
            Class::Background(true) => {
                let _ = writeln!(
                    out,
                    "class = \"background\"\nperiod = \"{}ns\"\nbudget = \"{}ns\"",
                    task.period, task.budget
                );
            }
            Class::Background(false) => out.push_str("class = \"background\"\n"),
            Class::Passive => {}
        }
        let uses: Vec<&Use> = task.uses.iter().filter(|one| self.is_there(one.of)).collect();
        let inside = |bit: u32| if !task.wanted && task.may_inside >> bit & 1 != 0 { " inside" } else { "" };
        let [doors, events, locks] = [0, 1, 2].map(inside);
        let _ = match task.wanted {
            true => writeln!(out, "script = [{}]", self.script(task, &uses)),
            false => writeln!(out, "binary = \"apps/anything\"\nsleeps_inside = {}", !inside(3).is_empty()),
        };
        for has in &task.handles {
            let _ = match *has {
                Has::Endpoint(door) => match self.endpoints[door] {
                    Some(one) if one.server == index => {
                        writeln!(out, "handles.e{door} = \"endpoint e{door}: call send receive grant{doors}\"")
                    }
                    Some(_) => writeln!(out, "handles.e{door} = \"endpoint e{door}: call send grant{doors}\""),
                    None => Ok(()),
                },
                Has::Notification(event) if self.notifications[event].is_some() => {
                    writeln!(out, "handles.n{event} = \"notification n{event}: signal wait grant{events}\"")
                }
                Has::Task(other, rights) if self.tasks[other].is_some() => {
                    writeln!(out, "handles.t{other} = \"task t{other}: {rights}\"")
                }
                _ => Ok(()),
            };
        }
        self.write_calls(out, &task.calls, task.class == Class::RealTime);
        for one in uses {
            let name = self.name(one.of);
            let kind = if matches!(one.of, Of::Pool(_)) { "pool" } else { "engine" };
            let _ = writeln!(out, "handles.{name} = \"{kind} {name}: acquire{locks}\"");
            if one.silent {
                continue;
            }
            let mut keys = format!("cpu = \"{}ns\"", one.cpu);
            if kind == "engine" && one.times > 1 {
                let _ = write!(keys, ", times = {}", one.times);
            }
            if one.operation > 0 {
                let _ = write!(keys, ", operation = \"{}ns\"", one.operation);
            }
            let _ = writeln!(out, "uses.{name} = {{ {keys} }}");
        }
    }

    /// What it does if it is as it declares: computes all it may, in parts, and holds what it uses for as long as it says.
    fn script(&self, task: &TaskDraft, uses: &[&Use]) -> String {
        let mut steps = Vec::new();
        let mut left = task.computes;
        let parts = uses.iter().map(|one| one.times).sum::<u64>() + 1;
        let between = left.saturating_sub(uses.iter().map(|one| one.times * one.cpu).sum::<u64>()) / parts;
        let calls = task.calls.iter().filter(|(service, _)| self.services[*service].is_some());
        let calls = calls.flat_map(|(service, times)| (0..*times).map(move |_| format!("call s{service} 0ns")));
        let mut inside: Vec<String> = if task.inside { calls.collect() } else { Vec::new() };
        inside.extend((task.inside && task.sleeps > 0).then(|| format!("sleep {}ns", task.sleeps)));
        let waits_inside = !inside.is_empty() && uses.iter().any(|one| one.times > 0);
        for one in uses {
            let name = self.name(one.of);
            for _ in 0..one.times {
                let hold = one.cpu.min(left.saturating_sub(between)) / 2;
                if hold == 0 {
                    break;
                }
                left -= between + 2 * hold;
                let _ = [format!("burn {between}ns"), format!("acquire {name}"), format!("burn {hold}ns")]
                    .map(|step| steps.push(step));
                if one.operation > 0 {
                    steps.push(format!("submit {name} {}ns gpu_done", one.operation));
                }
                steps.append(&mut inside);
                steps.push(format!("burn {hold}ns"));
                steps.push(format!("release {name}"));
            }
        }
        // None of these, if they are among the steps already.
        let waits_inside = waits_inside && inside.is_empty();
        let calls = task.calls.iter().filter(|(service, _)| self.services[*service].is_some() && !waits_inside);
        for (service, times) in calls {
            for _ in 0..*times {
                let part = left / 4;
                left -= part;
                steps.extend([format!("burn {part}ns"), format!("call s{service} 0ns")]);
            }
        }
        if task.sleeps > 0 && !waits_inside {
            steps.push(format!("burn {}ns", left / 2));
            steps.push(format!("sleep {}ns", task.sleeps));
            left -= left / 2;
        }
        steps.push(format!("burn {left}ns"));
        let quoted: Vec<String> = steps.into_iter().map(|step| format!("\"{step}\"")).collect();
        quoted.join(", ")
    }
}

/// Something that can be left out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Task(usize),
    Endpoint(usize),
    Notification(usize),
    Lock(usize),
    Pool(usize),
    Service(usize),
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
            handles: Vec::new(),
            uses: Vec::new(),
            calls: Vec::new(),
        }
    }
}

/// The number in the name of a task.
fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix('t')?.parse().ok()
}

const DEVICE: &str = "
[tasks.gpu]
binary = \"gpu-driver/gpu-driver\"
cluster = \"c0\"
class = \"service\"
period = \"10ms\"
budget = \"5ms\"

[tasks.gpu.handles]
line = \"interrupt gpu: acknowledge\"
event = \"notification gpu_event: wait\"
tables = \"region tables: read write physical\"

[notifications.gpu_event]

[interrupts.gpu]
line = 112
notification = \"gpu_event\"
cluster = \"c0\"
edge = true

[devices.gpu]
driver = \"gpu\"
firmware = \"engine-core\"
memory = \"64KiB\"

[regions.tables]
bytes = \"16KiB\"
";
