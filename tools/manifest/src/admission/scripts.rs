//! Scripts and models, compared with the declarations of their tasks.
//!
//! Steps are summed up. Where a sum is larger than the number in `uses`, `wcet` or `service_max`, nothing that rests on that number
//! is proved; nor is anything for tasks that wait for a lock inside of which a job waits for something else.
//!
//! Not here: sleeps against `suspends`, and how often endpoints are called ([`super::servers`]).

use fusee_abi::call::rights;
use fusee_abi::image::{self, class, kind, release};
use fusee_abi::script::{Step, operation};
use fusee_accel_contract::timing;

use super::milliseconds;
use crate::resolve::Resolved;

/// An engine or a pool of tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Lock {
    Engine(usize),
    Pool(usize),
}

/// A lock that a job has, and the job's use of it so far.
#[derive(Clone, Copy, Debug)]
struct Hold {
    lock: Lock,
    cpu: u64,
    operations: u64,
    /// The acquisition of the lock counts elsewhere: with another engine of its group, or before it was given to an earlier key.
    is_second: bool,
}

/// Sums over the steps of one job.
#[derive(Debug, Default)]
struct Sums {
    /// All holds, in the order in which they end.
    holds: Vec<Hold>,
    /// Locks inside of which the job waits, and the wait there.
    inside: Vec<(Lock, String)>,
    /// The endpoints that it calls, and how long the services are.
    services: Vec<(usize, u64)>,
    /// CPU time, that of its servers apart.
    cpu: u64,
    /// Engines that it asks for without the token that they need.
    without_token: Vec<usize>,
    /// The job has an engine work that it does not hold.
    works_without: bool,
    /// Locks that it still has at its end.
    kept: Vec<Lock>,
    /// The job begins again and never completes.
    is_endless: bool,
}

/// An act of a script that its manifest does not declare, or that no bound counts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Excess {
    /// The act of the script, in words.
    pub why: String,
    on: On,
}

/// The tasks whose proof rests on the exceeded number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum On {
    /// The task itself.
    Own,
    /// All users of the lock.
    Lock(Lock),
    /// All other users of the lock: the task counts its own waits.
    Others(Lock),
    /// All callers of the endpoint.
    Endpoint(usize),
}

/// The excesses of the scripts of all tasks, by task.
#[derive(Clone, Debug, Default)]
pub(super) struct Excesses(Vec<(usize, Excess)>);

impl Excesses {
    /// Looks at all scripts of `system`.
    pub(super) fn new(system: &Resolved) -> Excesses {
        let of = |task: usize| {
            // A script is all that a task does; a program may do more than its model.
            let may = if system.tasks[task].script.is_empty() { allowed(system, task) } else { Vec::new() };
            let does = if written(system, task).0.is_empty() { Vec::new() } else { excesses(system, task) };
            may.into_iter().chain(does)
        };
        let all = (0..system.tasks.len()).flat_map(|task| of(task).map(move |excess| (task, excess)));
        Excesses(all.collect())
    }

    /// Whether no script exceeds its declarations.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The doubts on the bound of `task`, which calls `endpoints` directly or through servers.
    pub(super) fn concerning(&self, system: &Resolved, task: usize, endpoints: &[usize]) -> Vec<String> {
        let waits = |user: usize| {
            user == task || endpoints.iter().any(|endpoint| system.endpoints[*endpoint].1.server as usize == user)
        };
        let uses = |lock: Lock| match lock {
            Lock::Engine(engine) => users_of(system, engine).any(waits),
            Lock::Pool(pool) => {
                // Where clusters share a pool, all jobs of a cluster may wait for those that have its tokens.
                let cluster = |task: usize| system.tasks[task].cluster;
                let crosses = system.pools[pool].1.crosses != 0;
                super::users_of(system, pool).any(|user| waits(user) || crosses && cluster(user) == cluster(task))
            }
        };
        let concerns = |(by, excess): &&(usize, Excess)| match excess.on {
            On::Own => *by == task,
            On::Lock(lock) => *by == task || uses(lock),
            On::Others(lock) => *by != task && uses(lock),
            On::Endpoint(endpoint) => *by == task || endpoints.contains(&endpoint),
        };
        self.0.iter().filter(concerns).map(|(_, excess)| excess.why.clone()).collect()
    }
}

/// The tasks that use `engine`, another of its group, or another user's part of the same.
fn users_of(system: &Resolved, engine: usize) -> impl Iterator<Item = usize> {
    let users = system.engine_users.iter().filter(move |user| system.are_one_lock(user.engine as usize, engine));
    users.map(|user| user.task as usize)
}

fn words(system: &Resolved, lock: Lock) -> String {
    match lock {
        Lock::Engine(engine) => {
            let name = system.arbitrated[engine].as_deref().unwrap_or(&system.engines[engine].0);
            format!("engine `{name}`")
        }
        Lock::Pool(pool) => format!("pool `{}`", system.pools[pool].0),
    }
}

/// The steps of `task` in the manifest, and their key.
pub(super) fn written(system: &Resolved, task: usize) -> (&[Step], &'static str) {
    let task = &system.tasks[task];
    if task.script.is_empty() { (&task.model, "model") } else { (&task.script, "script") }
}

/// Whether `task` starts a command and does not wait for its end. The step does not name the engine.
pub(crate) fn starts(system: &Resolved, task: usize) -> bool {
    written(system, task).0.iter().any(|step| step.operation == operation::START)
}

/// The kind and the number of the object that a handle of `task` names.
fn object(system: &Resolved, task: usize, handle: u64) -> Option<(u32, usize)> {
    let found = system.handle(task, handle)?;
    Some((found.kind, found.object as usize))
}

fn lock(system: &Resolved, task: usize, handle: u64) -> Option<Lock> {
    match object(system, task, handle)? {
        (kind::ENGINE, engine) => Some(Lock::Engine(engine)),
        (kind::POOL, pool) => Some(Lock::Pool(pool)),
        _ => None,
    }
}

/// Whether the bounds count that `task` waits for `inner` while it has `outer`: its engine, held with a token of that pool.
fn is_within(system: &Resolved, task: usize, outer: Lock, inner: Lock) -> bool {
    let (Lock::Pool(pool), Lock::Engine(engine)) = (outer, inner) else { return false };
    let users = system.engine_users.iter().zip(&system.engine_holds);
    let mut own =
        users.filter(|(user, _)| user.task as usize == task && system.are_one_lock(user.engine as usize, engine));
    own.any(|(_, hold)| hold.is_some_and(|hold| hold.tokens >> pool & 1 != 0))
}

/// Whether `endpoint` is served by the driver of the engine `held`, which does nothing for tasks that hold no engine.
fn is_driver_of(system: &Resolved, endpoint: usize, held: Lock) -> bool {
    let Lock::Engine(engine) = held else { return false };
    let device = system.engine_places[engine].map(|(device, _)| &system.devices[device]);
    device.is_some_and(|device| device.driver == system.endpoints[endpoint].1.server as usize)
}

fn sums(system: &Resolved, task: usize) -> Sums {
    let mut sums = Sums::default();
    let mut open: Vec<Hold> = Vec::new();
    for step in written(system, task).0 {
        if let Some((what, counts)) = wait(system, task, step) {
            let inside = open.iter().filter(|hold| !counts(hold.lock)).map(|hold| (hold.lock, what.clone()));
            sums.inside.extend(inside);
        }
        match step.operation {
            operation::BURN => {
                sums.cpu = sums.cpu.saturating_add(step.value);
                open.iter_mut().for_each(|hold| hold.cpu = hold.cpu.saturating_add(step.value));
            }
            operation::CALL => {
                let endpoint = object(system, task, step.handle).map(|(_, endpoint)| endpoint);
                sums.services.extend(endpoint.map(|endpoint| (endpoint, step.value)));
            }
            operation::ACQUIRE | operation::ACQUIRE_BOTH => {
                let second = (step.operation == operation::ACQUIRE_BOTH).then_some(step.value);
                let first = lock(system, task, step.handle).map(|lock| (lock, false));
                let second = second.and_then(|handle| lock(system, task, handle)).map(|lock| (lock, true));
                let has_token = |pool: u32| open.iter().any(|hold| hold.lock == Lock::Pool(pool as usize));
                for (lock, _) in first.iter().chain(&second) {
                    let Lock::Engine(engine) = *lock else { continue };
                    let pool = system.engines[engine].1.pool_plus_one.checked_sub(1);
                    sums.without_token.extend(pool.filter(|pool| !has_token(*pool)).map(|_| engine));
                }
                let held = |(lock, is_second)| Hold { lock, cpu: 0, operations: 0, is_second };
                open.extend(first.into_iter().chain(second).map(held));
            }
            operation::RELEASE => {
                let given = lock(system, task, step.handle);
                if let Some(at) = open.iter().rposition(|hold| Some(hold.lock) == given) {
                    // Engines that were acquired together are given back together.
                    let first = at - usize::from(open[at].is_second);
                    let count = 1 + usize::from(open.get(first + 1).is_some_and(|hold| hold.is_second));
                    sums.holds.extend(open.drain(first..first + count));
                }
            }
            operation::SUBMIT | operation::START => {
                let works = |hold: &&mut Hold| match hold.lock {
                    Lock::Engine(engine) => {
                        system.engine_places[engine].is_some_and(|(_, index)| index as u32 == step.selector)
                    }
                    Lock::Pool(_) => false,
                };
                match open.iter_mut().rev().find(works) {
                    // No command takes less time, however little the script asks for.
                    Some(hold) => hold.operations = hold.operations.saturating_add(step.value.max(timing::SETUP)),
                    None => sums.works_without = true,
                }
            }
            // Earlier keys come between, and a task with jobs has an earlier key than the background.
            operation::YIELD_ENGINE if is_background(system, task) => {
                let own = lock(system, task, step.handle);
                if let Some(hold) = open.iter_mut().find(|hold| Some(hold.lock) == own) {
                    let part = Hold { is_second: true, ..*hold };
                    (hold.cpu, hold.operations) = (0, 0);
                    sums.holds.push(part);
                }
            }
            // Nothing comes after it.
            operation::REPEAT => {
                sums.is_endless = true;
                break;
            }
            _ => {}
        }
    }
    sums.kept = open.iter().map(|hold| hold.lock).collect();
    sums.holds.append(&mut open);
    sums
}

fn is_background(system: &Resolved, task: usize) -> bool {
    system.tasks[task].reservation.is_none_or(|one| system.reservations[one].class == class::BACKGROUND)
}

/// Whether bounds count a wait of a task that has this lock.
type Counts<'a> = Box<dyn Fn(Lock) -> bool + 'a>;

/// The wait of `step`, in words, if it waits.
fn wait<'a>(system: &'a Resolved, task: usize, step: &Step) -> Option<(String, Counts<'a>)> {
    let (_, at) = object(system, task, step.handle).unzip();
    match step.operation {
        operation::SLEEP | operation::PAUSE => Some(("sleeps".to_owned(), Box::new(|_| false))),
        operation::CALL => {
            let endpoint = at?;
            let what = format!("calls `{}`", system.endpoints[endpoint].0);
            Some((what, Box::new(move |held| is_driver_of(system, endpoint, held))))
        }
        operation::SEND => Some((format!("sends to `{}`", system.endpoints[at?].0), Box::new(|_| false))),
        operation::WAIT => Some((format!("waits for `{}`", system.notifications[at?].0), Box::new(|_| false))),
        operation::SERVE | operation::RECEIVE | operation::REPLY => {
            Some((format!("waits for requests at `{}`", system.endpoints[at?].0), Box::new(|_| false)))
        }
        operation::ACQUIRE | operation::ACQUIRE_BOTH => {
            let inner = lock(system, task, step.handle)?;
            let what = format!("waits for {}", words(system, inner));
            Some((what, Box::new(move |outer| is_within(system, task, outer, inner))))
        }
        _ => None,
    }
}

/// The waits that the program of `task` may do while it holds locks, beside those that bounds on the holds count: the kernel
/// refuses all else.
fn allowed(system: &Resolved, task: usize) -> Vec<Excess> {
    let own = || system.handles.iter().filter(|handle| handle.task as usize == task);
    let locks = || own().filter(|handle| handle.rights & rights::ACQUIRE != 0);
    let locks = || locks().filter_map(|handle| lock_of(handle).map(|lock| (handle.slot, lock)));
    if locks().next().is_none() {
        return Vec::new();
    }
    let name = &system.tasks[task].name;
    let is_extra = |handle: &&image::Handle| {
        let waits = [kind::ENDPOINT, kind::NOTIFICATION, kind::ENGINE, kind::POOL].contains(&handle.kind);
        waits && handle.rights & rights::INSIDE != 0 && !system.is_counted_inside(handle)
    };
    let waits = own().filter(is_extra).map(|handle| {
        let object = handle.object as usize;
        let what = match handle.kind {
            kind::ENDPOINT => format!("wait for endpoint `{}`", system.endpoints[object].0),
            kind::NOTIFICATION => format!("wait for notification `{}`", system.notifications[object].0),
            kind::ENGINE => format!("wait for {}", words(system, Lock::Engine(object))),
            _ => format!("wait for {}", words(system, Lock::Pool(object))),
        };
        (Some(handle.slot), what)
    });
    let sleeps = system.tasks[task].sleeps_inside.then(|| (None, "sleep".to_owned()));
    let mut found = Vec::new();
    for (slot, what) in waits.chain(sleeps) {
        for (_, lock) in locks().filter(|(of, _)| Some(*of) != slot) {
            let held = words(system, lock);
            let why = format!("`{name}` may {what} while it holds {held}, and that is in no bound on the hold");
            found.push(Excess { why, on: On::Others(lock) });
        }
    }
    found
}

/// Whether a script serves requests one by one, and does nothing else.
pub(super) fn serves(script: &[Step]) -> bool {
    let in_service = [operation::BURN, operation::CALL, operation::ACQUIRE, operation::SUBMIT, operation::RELEASE];
    match script {
        [first, service @ .., last] if first.operation == operation::RECEIVE => {
            let is_plain = service.iter().all(|step| in_service.contains(&step.operation));
            is_plain && last.operation == operation::REPLY && last.handle == first.handle
        }
        script => script.iter().all(|step| step.operation == operation::SERVE),
    }
}

fn lock_of(handle: &image::Handle) -> Option<Lock> {
    match handle.kind {
        kind::ENGINE => Some(Lock::Engine(handle.object as usize)),
        kind::POOL => Some(Lock::Pool(handle.object as usize)),
        _ => None,
    }
}

fn excesses(system: &Resolved, task: usize) -> Vec<Excess> {
    let (sums, (steps, key)) = (sums(system, task), written(system, task));
    let name = system.tasks[task].name.as_str();
    let mut compared = Comparison { system, task, name, key, steps, sums: &sums, found: Vec::new() };
    compared.holds();
    compared.engines();
    compared.tokens();
    compared.services();
    compared.jobs();
    compared.found
}

/// A script that is compared with the numbers that its task declares.
struct Comparison<'a> {
    system: &'a Resolved,
    task: usize,
    name: &'a str,
    /// The key that the script stands in.
    key: &'static str,
    steps: &'a [Step],
    sums: &'a Sums,
    found: Vec<Excess>,
}

impl Comparison<'_> {
    fn add(&mut self, on: On, why: String) {
        let excess = Excess { why, on };
        if !self.found.contains(&excess) {
            self.found.push(excess);
        }
    }

    /// Waits inside holds, engines without their tokens, and locks that are not given back.
    fn holds(&mut self) {
        let (system, sums, name, key) = (self.system, self.sums, self.name, self.key);
        for (lock, what) in &sums.inside {
            let held = words(system, *lock);
            self.add(
                On::Others(*lock),
                format!("`{name}` {what} while it holds {held}, and that is in no bound on the hold"),
            );
        }
        for engine in &sums.without_token {
            let engine = &system.engines[*engine].0;
            self.add(
                On::Own,
                format!("its {key} acquires engine `{engine}` without the token that this needs, and is refused"),
            );
        }
        for lock in &sums.kept {
            let held = words(system, *lock);
            self.add(
                On::Lock(*lock),
                format!("`{name}` does not give back {held}, and that is in no bound on the hold"),
            );
        }
    }

    /// Holds of engines: how many in a job, and how long.
    fn engines(&mut self) {
        let (system, task, sums, name) = (self.system, self.task, self.sums, self.name);
        let users = system.engine_users.iter().zip(&system.engine_holds);
        for (user, said) in users.filter(|(user, _)| user.task as usize == task) {
            let Some(said) = said else { continue };
            let own = Lock::Engine(user.engine as usize);
            let on = On::Lock(own);
            let engine = words(system, own);
            let holds = || sums.holds.iter().filter(|hold| hold.lock == own);
            let times = holds().filter(|hold| !hold.is_second).count();
            if times > said.times as usize {
                let job = if super::unknown::is_for_others(system, task) { "service" } else { "job" };
                self.add(
                    on,
                    format!("`{name}` holds {engine} {times} times in a {job}, and `uses` says {}", said.times),
                );
            }
            let [cpu, operations] = [holds().map(|hold| hold.cpu).max(), holds().map(|hold| hold.operations).max()];
            let both = [("computes", cpu, said.hold.cpu.0), ("has it work", operations, said.hold.operation.0)];
            for (what, does, said) in both {
                if let Some(does) = does.filter(|does| *does > said) {
                    let [does, said] = [does, said].map(milliseconds);
                    self.add(on, format!("`{name}` {what} for {does} while it holds {engine}, and `uses` says {said}"));
                }
            }
        }
    }

    /// Computing with tokens, that of the engines held within apart.
    fn tokens(&mut self) {
        let (system, task, sums, name) = (self.system, self.task, self.sums, self.name);
        for (_, pool, said) in system.sections.iter().filter(|(by, ..)| *by == task) {
            let own = Lock::Pool(*pool);
            let engines = sums.holds.iter().filter(|hold| matches!(hold.lock, Lock::Engine(_)));
            let counted: u64 =
                engines.filter(|hold| is_within(system, task, own, hold.lock)).map(|hold| hold.cpu).sum();
            let longest = sums.holds.iter().filter(|hold| hold.lock == own).map(|hold| hold.cpu).max().unwrap_or(0);
            if longest.saturating_sub(counted) > said.0 {
                let [does, said] = [longest - counted, said.0].map(milliseconds);
                let pool = words(system, own);
                self.add(
                    On::Lock(own),
                    format!(
                        "`{name}` computes for {does} with a token of {pool}, its engines apart, and `uses` says {said}"
                    ),
                );
            }
        }
    }

    /// Services that are asked for, and those that are given.
    fn services(&mut self) {
        let (system, task, sums, name) = (self.system, self.task, self.sums, self.name);
        for (endpoint, does) in &sums.services {
            let (called, record) = &system.endpoints[*endpoint];
            if record.service_max > 0 && *does > record.service_max {
                let [does, said] = [*does, record.service_max].map(milliseconds);
                let why = format!("`{name}` calls `{called}` for {does}, and its `service_max` is {said}");
                self.add(On::Endpoint(*endpoint), why);
            }
        }
        let received = self.steps.iter().find(|step| step.operation == operation::RECEIVE);
        if let Some((_, endpoint)) = received.and_then(|step| object(system, task, step.handle)) {
            let (served, record) = &system.endpoints[endpoint];
            if record.service_max > 0 && sums.cpu > record.service_max {
                let [does, said] = [sums.cpu, record.service_max].map(milliseconds);
                let why = format!("`{name}` serves `{served}` for {does}, and its `service_max` is {said}");
                self.add(On::Endpoint(endpoint), why);
            }
        }
    }

    /// The computing of a job, and its end.
    fn jobs(&mut self) {
        let (system, task, sums, name, key) = (self.system, self.task, self.sums, self.name, self.key);
        let reservation = system.tasks[task].reservation.map(|one| &system.reservations[one]);
        if let Some(one) = reservation.filter(|one| one.class == class::REAL_TIME && one.release != release::NONE) {
            if sums.is_endless {
                self.add(On::Own, format!("its {key} begins again and never completes a job"));
            } else if sums.cpu >= one.budget {
                // The end of a job is in its budget, too.
                let [does, budget] = [sums.cpu, one.budget].map(milliseconds);
                self.add(On::Own, format!("its {key} computes for {does}, and its budget is {budget}"));
            } else if sums.cpu > one.execution {
                // The check that its budget also covers the time that others take of it rests on this number.
                let [does, wcet] = [sums.cpu, one.execution].map(milliseconds);
                let locks = sums.holds.iter().map(|hold| On::Lock(hold.lock));
                let endpoints = sums.services.iter().map(|(endpoint, _)| On::Endpoint(*endpoint));
                for on in locks.chain(endpoints) {
                    self.add(on, format!("the {key} of `{name}` computes for {does}, and its `wcet` is {wcet}"));
                }
            }
            let shares = system.shared_users.iter().any(|user| user.task as usize == task);
            // Without management the doorbells of a device are mapped at any time, and a mutex has none.
            let has_device = |one: &image::Handle| system.engine_places[one.object as usize].is_some();
            let mut engines = system.handles.iter().filter(|one| one.task as usize == task && one.kind == kind::ENGINE);
            if sums.works_without && !shares && (system.managed || !engines.any(has_device)) {
                self.add(On::Own, format!("its {key} has an engine work that it does not hold, and faults there"));
            }
        }
    }
}
