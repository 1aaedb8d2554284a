//! Where the time of a job went: each nanosecond from its release to its completion belongs to exactly one part.
//!
//! A part is a path, such as *waited for server `gpu`* → *that was ready, and `hog` had the CPU*. Its first step is the act of the task, each
//! further one the act of the holder for which the one before waited, to the end of the chain.
//!
//! | Step | Meaning by the records |
//! |---|---|
//! | [`Step::Before`] | the job was released, and an earlier job of this task was not complete; further steps are those of that one |
//! | [`Step::Unseen`] | the job was released, and the kernel had not handled that yet |
//! | [`Step::Ran`] | the thread ran, and on whose reservation |
//! | [`Step::Kernel`], [`Step::Lock`] | its CPU was in the kernel meanwhile; it waited there for the kernel's lock |
//! | [`Step::Turn`] | another emulated CPU had its turn meanwhile |
//! | [`Step::Ready`] | it was ready, and which tasks had the CPUs of its cluster |
//! | [`Step::HandOver`] | it was ready, and a CPU of its cluster had nothing to run: a kick or a switch was under way |
//! | [`Step::Exhausted`] | it was ready, and its budget was exhausted |
//! | [`Step::Waited`] | it was suspended, and for what |
//! | [`Step::Operates`] | it waited for the driver of a device, which waited for the device's interrupt, and it had engines of that device |
//! | [`Step::Held`] | it waited for one of several tokens, and which tasks had them; the next step is the holder of the one that it was granted |
//! | [`Step::Gave`] | it was suspended in favour of a job with a request for a pool that clusters share |
//!
//! # Invariant
//!
//! The parts of a job add up to its response time, or to its age if it is not complete at the end of the trace.
//!
//! # Limits
//!
//! Unless the trace keeps traps (`Level::Full`), the kernel's work between a switch and the next is part of the running job, as it is charged; waiting for
//! the kernel's lock is, too. So are turns of other emulated CPUs unless they are given. Engines that are not managed leave no records. Records that were overwritten are missing: jobs that were released before the first record are left out. In whose queue a request for one of
//! several tokens stands: the token that it is granted in the end is taken for the one it waited for. Who else must end, or ask, before a job's turn
//! to ask for a shared token comes, unless it donates.

use std::collections::{BTreeMap, BTreeSet};

use fusee_abi::Call;
use fusee_abi::trace::{BY_INTERRUPT, Event, POOL, Record, TRAP_KICK, TRAP_TIMER};
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;

use crate::tokens::{Donation, Tokens, is_shared};

mod words;

/// Longest chain of those who wait for each other that is followed.
const CHAIN: usize = 10;

/// The object that a thread waited for. Numbers are indices of the manifest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Wait {
    /// The answer of the server of this endpoint.
    Server(usize),
    /// This engine, or a group with it.
    Engine(usize),
    /// A token of this pool.
    Token(usize),
    /// Its turn to ask for a token of this pool, which clusters share. [`Event::Block`] says the same of both.
    Turn(usize),
    /// A signal of this notification.
    Notification(usize),
    /// A request at an endpoint that it serves.
    Request,
    /// An instant.
    Sleep,
    /// Something that the records do not name.
    Other,
}

/// One step of a part.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Step {
    /// An earlier job of the task was not complete.
    Before,
    /// The kernel had not handled the release yet.
    Unseen,
    /// The thread ran; on the reservation of another task, if that is said.
    Ran(Option<usize>),
    /// While it ran, the kernel did this on its CPU.
    Kernel(Path),
    /// While it ran, its CPU waited for the kernel's lock.
    Lock,
    /// While it ran, the emulator did not execute its CPU, but another.
    Turn,
    /// It was ready, and these tasks had all CPUs of its cluster.
    Ready(Vec<usize>),
    /// It was ready, and a CPU of its cluster had nothing to run.
    HandOver,
    /// It was ready, and its budget was exhausted.
    Exhausted,
    /// It waited.
    Waited(Wait),
    /// The task that the step before waited for does the next step.
    Holder(usize),
    /// It had these engines, and an operation of its was at work.
    Operates(Vec<usize>),
    /// These tasks had tokens of the pool that the step before waited for.
    Held(Vec<usize>),
    /// It was suspended, and `to` ran on its reservation, or would have.
    Gave {
        /// The donee.
        to: usize,
        /// The pool that it had a request for.
        pool: usize,
        /// Whether that was granted.
        has_token: bool,
    },
    /// The engine that the step before waited for was still at work for a task that had released it.
    Drains,
}

/// The purpose of a path of the kernel.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Path {
    /// A call, or a fault, of the thread itself.
    Call,
    /// The CPU's timer: releases, budgets, deadlines.
    Timer,
    /// A kick by another CPU.
    Kick,
    /// This interrupt.
    Interrupt(usize),
}

impl Path {
    /// As `job` of [`Event::Trap`] says.
    fn of(what: u32) -> Path {
        match what {
            TRAP_TIMER => Path::Timer,
            TRAP_KICK => Path::Kick,
            BY_INTERRUPT.. => Path::Interrupt((what - BY_INTERRUPT).saturating_sub(1) as usize),
            _ => Path::Call,
        }
    }
}

/// While the emulator did not execute a CPU, though it had something to run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Turn {
    /// The CPU.
    pub cpu: u8,
    /// From when, nanoseconds.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

/// A part of the time of a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// The steps of the path.
    pub path: Vec<Step>,
    /// For how long, nanoseconds.
    pub time: u64,
}

/// Where the time of one job went.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation {
    /// Task index.
    pub task: usize,
    /// The job's number.
    pub job: u32,
    /// When it was released.
    pub release: u64,
    /// Its deadline.
    pub deadline: u64,
    /// When it completed, if it did before the trace ended.
    pub completed: Option<u64>,
    /// The end of the trace.
    pub end: u64,
    /// The charge of the job before it, and the part of that for turns of other emulated CPUs: a budget pays for its overshoot, too.
    before: (u64, u64),
    /// All of it, the longest first.
    pub parts: Vec<Part>,
}

impl Explanation {
    /// From release to completion, or to the end of the trace.
    #[must_use]
    pub fn response(&self) -> u64 {
        self.completed.unwrap_or(self.end).saturating_sub(self.release)
    }

    /// Whether it missed its deadline, or will.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.completed.unwrap_or(self.end) > self.deadline
    }
}

/// Explains all jobs of a trace, in the order of their ends. `turns`: when which CPUs were not executed, as far as that is known.
#[must_use]
pub fn explain(trace: &Trace, system: &Resolved, turns: &[Turn]) -> Vec<Explanation> {
    let tokens = Tokens::of(&trace.records, system);
    let mut reader = Reader { pauses: pauses(trace, turns), tokens, ..Reader::new(system) };
    for record in &trace.records {
        reader.advance(record.time);
        reader.read(record);
    }
    reader.finish()
}

/// Work of a CPU that is not of the thread that runs on it.
struct Pause {
    from: u64,
    until: u64,
    step: Step,
}

/// All of them, by CPU and in order: none begins before the one before it ends.
fn pauses(trace: &Trace, turns: &[Turn]) -> BTreeMap<u8, Vec<Pause>> {
    let mut pauses: BTreeMap<u8, Vec<Pause>> = BTreeMap::new();
    for turn in turns {
        pauses.entry(turn.cpu).or_default().push(Pause { from: turn.from, until: turn.until, step: Step::Turn });
    }
    for record in trace.records.iter().filter(|record| record.event == Event::Trap as u8) {
        let from = record.time.saturating_sub(record.value.into());
        let locked = from + u64::from(record.object);
        let of_cpu = pauses.entry(record.cpu).or_default();
        of_cpu.push(Pause { from, until: locked, step: Step::Lock });
        of_cpu.push(Pause { from: locked, until: record.time, step: Step::Kernel(Path::of(record.job)) });
    }
    for of_cpu in pauses.values_mut() {
        *of_cpu = apart(std::mem::take(of_cpu));
    }
    pauses
}

/// Cuts pauses so that they do not overlap. A turn goes on during a path of the kernel, so it has the first claim.
fn apart(pauses: Vec<Pause>) -> Vec<Pause> {
    let longer = pauses.into_iter().filter(|pause| pause.from < pause.until);
    let (mut turns, paths): (Vec<Pause>, Vec<Pause>) = longer.partition(|pause| pause.step == Step::Turn);
    turns.sort_by_key(|turn| turn.from);
    let mut cut = Vec::new();
    for path in paths {
        let mut from = path.from;
        let first = turns.partition_point(|turn| turn.until <= from);
        for turn in turns[first..].iter().take_while(|turn| turn.from < path.until) {
            cut.push(Pause { from, until: turn.from, step: path.step.clone() });
            from = turn.until;
        }
        cut.push(Pause { from, ..path });
    }
    cut.extend(turns);
    cut.retain(|pause| pause.from < pause.until);
    cut.sort_by_key(|pause| pause.from);
    cut
}

impl Wait {
    /// The object for which a thread that is suspended in this call waits: `value` and `object` of [`Event::Block`].
    #[must_use]
    pub fn of(call: u32, object: u32) -> Wait {
        let index = (object as usize).checked_sub(1);
        match Call::from_number(u64::from(call)) {
            Some(Call::Call | Call::CallWith | Call::Send) => index.map_or(Wait::Other, Wait::Server),
            Some(Call::Receive | Call::ReplyReceive) => Wait::Request,
            Some(Call::Wait) => index.map_or(Wait::Other, Wait::Notification),
            Some(Call::Acquire | Call::AcquireGroup) if object > POOL => Wait::Token((object - POOL) as usize - 1),
            Some(Call::Acquire | Call::AcquireGroup) => index.map_or(Wait::Other, Wait::Engine),
            Some(Call::SleepUntil) => Wait::Sleep,
            _ => Wait::Other,
        }
    }
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Doing {
    Ready,
    Runs { cpu: u8, reservation: usize },
    Waits(Wait),
}

/// A job that is not complete.
struct Open {
    job: u32,
    /// When it was released, as the record of its completion will say more exactly.
    released: u64,
    parts: BTreeMap<Vec<Step>, u64>,
}

struct Reader<'a> {
    system: &'a Resolved,
    now: u64,
    doing: Vec<Doing>,
    /// Work of CPUs that is not their threads' own, and the part of it that is over.
    pauses: BTreeMap<u8, Vec<Pause>>,
    over: BTreeMap<u8, usize>,
    /// The thread that runs on each CPU.
    running: BTreeMap<u8, usize>,
    /// Reservations whose budget is exhausted.
    exhausted: BTreeSet<usize>,
    /// The holder of each engine; and the last holder of those that are still at work.
    holders: BTreeMap<usize, usize>,
    draining: BTreeMap<usize, usize>,
    /// The holder of each token of each pool, and the tasks that have asked for one and have none.
    tokens_held: BTreeMap<(usize, u32), usize>,
    asked: BTreeSet<(usize, usize)>,
    /// Facts about tokens from later records.
    tokens: Tokens,
    /// The server that has the request of a task.
    servers: BTreeMap<usize, usize>,
    open: BTreeMap<usize, Open>,
    /// By task the acts of its jobs, one after the other: for those that queue behind them.
    lines: Vec<Vec<Piece>>,
    /// By task when its last job was complete; zero: none was.
    ended: Vec<u64>,
    /// By task the charge for them, and for turns.
    charged: Vec<(u64, u64)>,
    done: Vec<Explanation>,
}

/// An act of a job, for a while.
struct Piece {
    from: u64,
    until: u64,
    path: Vec<Step>,
}

impl<'a> Reader<'a> {
    fn new(system: &'a Resolved) -> Self {
        Self {
            system,
            now: 0,
            doing: vec![Doing::Ready; system.tasks.len()],
            pauses: BTreeMap::new(),
            over: BTreeMap::new(),
            running: BTreeMap::new(),
            exhausted: BTreeSet::new(),
            holders: BTreeMap::new(),
            draining: BTreeMap::new(),
            tokens_held: BTreeMap::new(),
            asked: BTreeSet::new(),
            tokens: Tokens::of(&[], system),
            servers: BTreeMap::new(),
            open: BTreeMap::new(),
            lines: system.tasks.iter().map(|_| Vec::new()).collect(),
            ended: vec![0; system.tasks.len()],
            charged: vec![(0, 0); system.tasks.len()],
            done: Vec::new(),
        }
    }

    /// Books the time up to `now`.
    fn advance(&mut self, now: u64) {
        if now > self.now {
            for (cpu, pauses) in &self.pauses {
                let over = self.over.entry(*cpu).or_default();
                *over += pauses[*over..].iter().take_while(|pause| pause.until <= self.now).count();
            }
            let tasks: Vec<usize> = self.open.keys().copied().collect();
            for task in tasks {
                let (path, cpu) = self.path(task);
                for (from, until, step) in self.cut(cpu, now) {
                    let mut path = path.clone();
                    path.extend(step);
                    self.book(task, from, until, path);
                }
            }
            self.now = now;
        }
    }

    /// The time up to `now` in the pieces that `cpu` makes of it.
    fn cut(&self, cpu: Option<u8>, now: u64) -> Vec<(u64, u64, Option<Step>)> {
        let mut pieces = Vec::new();
        let mut at = self.now;
        let pauses = cpu.and_then(|cpu| Some(&self.pauses.get(&cpu)?[*self.over.get(&cpu)?..]));
        for pause in pauses.unwrap_or_default().iter().take_while(|pause| pause.from < now) {
            let (from, until) = (pause.from.max(at), pause.until.min(now));
            if at < from {
                pieces.push((at, from, None));
            }
            if from < until {
                pieces.push((from, until, Some(pause.step.clone())));
                at = until;
            }
        }
        if at < now {
            pieces.push((at, now, None));
        }
        pieces
    }

    fn book(&mut self, task: usize, from: u64, until: u64, path: Vec<Step>) {
        match self.lines[task].last_mut().filter(|last| last.until == from && last.path == path) {
            Some(last) => last.until = until,
            None => self.lines[task].push(Piece { from, until, path: path.clone() }),
        }
        if let Some(open) = self.open.get_mut(&task) {
            *open.parts.entry(path).or_default() += until - from;
        }
    }

    /// The act of `task` now, and the tasks for which it waits; and the CPU on which the last of these runs.
    fn path(&self, task: usize) -> (Vec<Step>, Option<u8>) {
        let mut path = Vec::new();
        let mut task = task;
        // Whether a task in the chain so far has a budget to run on.
        let mut has_budget = false;
        for _ in 0..CHAIN {
            let mut lenders = std::iter::once(task).chain(self.tokens.donors(task, self.now));
            has_budget |= lenders.any(|task| self.has_budget(task));
            let step = match self.step(task) {
                Step::Ready(_) | Step::HandOver if !has_budget => Step::Exhausted,
                step => step,
            };
            path.push(step.clone());
            let (more, next) = self.beyond(task, &step);
            path.extend(more);
            let Some(next) = next.filter(|next| *next != task) else { break };
            // No task that waits for a token of a shared pool lends.
            has_budget &= !matches!(step, Step::Waited(Wait::Token(pool)) if is_shared(self.system, pool));
            path.push(Step::Holder(next));
            task = next;
        }
        let cpu = match (path.last(), self.doing[task]) {
            (Some(Step::Ran(_)), Doing::Runs { cpu, .. }) => Some(cpu),
            _ => None,
        };
        (path, cpu)
    }

    fn has_budget(&self, task: usize) -> bool {
        self.system.tasks[task].reservation.is_some_and(|own| !self.exhausted.contains(&own))
    }

    fn step(&self, task: usize) -> Step {
        match self.doing[task] {
            Doing::Runs { reservation, .. } => {
                let owner = self.system.owner(reservation);
                Step::Ran(owner.filter(|owner| *owner != task))
            }
            Doing::Waits(wait) => Step::Waited(wait),
            Doing::Ready => {
                let cluster = self.system.tasks[task].cluster as usize;
                let cpus = self.system.clusters.get(cluster).map_or(0, |(_, cluster)| cluster.cpus);
                let of_cluster = (0..self.system.cpus as u8).filter(|cpu| cpus & 1 << cpu != 0);
                let others: Option<Vec<usize>> = of_cluster.map(|cpu| self.running.get(&cpu).copied()).collect();
                match (self.tokens.donation(task, self.now), others) {
                    (Some(donation), _) => self.gave(donation),
                    (None, Some(mut others)) => {
                        others.sort_unstable();
                        Step::Ready(others)
                    }
                    (None, None) => Step::HandOver,
                }
            }
        }
    }

    fn gave(&self, Donation { to, pool, .. }: Donation) -> Step {
        Step::Gave { to, pool, has_token: self.holders_of(pool).any(|(_, holder)| holder == to) }
    }

    /// The details of `step` of `task`, and the task that it waits for.
    fn beyond(&self, task: usize, step: &Step) -> (Option<Step>, Option<usize>) {
        match step {
            Step::Gave { to, .. } => (None, Some(*to)),
            Step::Waited(Wait::Turn(_)) => {
                let step = self.tokens.donation(task, self.now).map(|donation| self.gave(donation));
                let to = if let Some(Step::Gave { to, .. }) = step { Some(to) } else { None };
                (step, to)
            }
            Step::Waited(Wait::Engine(engine))
                if !self.holders.contains_key(engine) && self.draining.contains_key(engine) =>
            {
                (Some(Step::Drains), None)
            }
            Step::Waited(Wait::Token(pool)) => {
                let holders: BTreeSet<usize> = self.holders_of(*pool).map(|(_, holder)| holder).collect();
                let granted = self.tokens.granted(task, *pool, self.now);
                let holder = granted.and_then(|token| self.tokens_held.get(&(*pool, token))).copied();
                let are_several = self.system.pools.get(*pool).is_some_and(|(_, pool)| pool.replicas > 1);
                match (are_several && !holders.is_empty(), holders.len()) {
                    (true, _) => (Some(Step::Held(holders.into_iter().collect())), holder),
                    (false, _) => (None, holders.first().copied()),
                }
            }
            Step::Waited(wait) => {
                let holder = self.holder(task, *wait);
                let operates = holder.and_then(|driver| self.operates(task, driver));
                let next = holder.filter(|_| operates.is_none());
                (operates, next)
            }
            _ => (None, None),
        }
    }

    fn holders_of(&self, pool: usize) -> impl Iterator<Item = (u32, usize)> {
        self.tokens_held.range((pool, 0)..=(pool, u32::MAX)).map(|((_, token), holder)| (*token, *holder))
    }

    /// The engines that `task`, which waits for `driver`, has of a device of that, if the driver waits for the device.
    fn operates(&self, task: usize, driver: usize) -> Option<Step> {
        let (Doing::Waits(Wait::Notification(_)), Doing::Waits(Wait::Notification(signal))) =
            (self.doing[task], self.doing[driver])
        else {
            return None;
        };
        line_of(self.system, signal)?;
        let is_of_driver = |engine: &usize| {
            let place = self.system.engine_places.get(*engine).copied().flatten();
            place.is_some_and(|(device, _)| self.system.devices[device].driver == driver)
        };
        let used = self.holders.iter().chain(&self.draining).filter(|(_, user)| **user == task);
        let engines: BTreeSet<usize> = used.map(|(engine, _)| *engine).filter(is_of_driver).collect();
        (!engines.is_empty()).then(|| Step::Operates(engines.into_iter().collect()))
    }

    /// The task that `task` waits for.
    fn holder(&self, task: usize, wait: Wait) -> Option<usize> {
        match wait {
            Wait::Server(endpoint) => self
                .servers
                .get(&task)
                .copied()
                .or_else(|| self.system.endpoints.get(endpoint).map(|(_, endpoint)| endpoint.server as usize)),
            Wait::Engine(engine) => self.holders.get(&engine).copied(),
            Wait::Notification(notification) => {
                let bound = self.system.notifications.get(notification).map(|(_, one)| one.bound_plus_one)?;
                (bound as usize).checked_sub(1)
            }
            _ => None,
        }
    }

    fn read(&mut self, record: &Record) {
        let task = usize::from(record.thread).checked_sub(1).filter(|task| *task < self.doing.len());
        let object = (record.object as usize).checked_sub(1);
        match (Event::from_number(record.event), task, object) {
            (Some(Event::SwitchTo | Event::RunOn), Some(task), Some(reservation)) => {
                self.stop(record.cpu);
                self.running.insert(record.cpu, task);
                self.doing[task] = Doing::Runs { cpu: record.cpu, reservation };
            }
            // The next may be switched to before the one before is switched away.
            (Some(Event::SwitchAway), Some(task), _) if self.running.get(&record.cpu) != Some(&task) => {}
            (Some(Event::SwitchAway), Some(_), _) => self.stop(record.cpu),
            (Some(Event::Idle), ..) => self.stop(record.cpu),
            (Some(Event::Block), Some(task), _) => {
                let wait = match Wait::of(record.value, record.object) {
                    Wait::Token(pool) if is_shared(self.system, pool) && !self.asked.contains(&(task, pool)) => {
                        Wait::Turn(pool)
                    }
                    wait => wait,
                };
                self.doing[task] = Doing::Waits(wait);
            }
            (Some(Event::Resume), Some(task), _) => {
                self.servers.remove(&task);
                self.asked.retain(|(asker, _)| *asker != task);
                if matches!(self.doing[task], Doing::Waits(_)) {
                    self.doing[task] = Doing::Ready;
                }
            }
            (Some(Event::Call), Some(task), Some(endpoint)) if record.value == 0 => {
                self.doing[task] = Doing::Waits(Wait::Server(endpoint));
                if let Some((_, endpoint)) = self.system.endpoints.get(endpoint) {
                    self.servers.insert(task, endpoint.server as usize);
                }
            }
            (Some(Event::TokenRequest), Some(task), Some(pool)) => {
                self.asked.insert((task, pool));
                if self.doing[task] == Doing::Waits(Wait::Turn(pool)) {
                    self.doing[task] = Doing::Waits(Wait::Token(pool));
                }
            }
            (Some(Event::TokenGrant), Some(task), Some(pool)) => {
                self.asked.remove(&(task, pool));
                self.tokens_held.insert((pool, record.value), task);
            }
            (Some(Event::TokenRelease), _, Some(pool)) => _ = self.tokens_held.remove(&(pool, record.value)),
            (Some(Event::Throttle), _, Some(reservation)) => _ = self.exhausted.insert(reservation),
            (Some(Event::Replenish), _, Some(reservation)) => _ = self.exhausted.remove(&reservation),
            (Some(Event::EngineGrant), Some(task), Some(engine)) => {
                self.draining.remove(&engine);
                self.holders.insert(engine, task);
            }
            (Some(Event::EngineRelease), _, Some(engine)) => {
                if let Some(task) = self.holders.remove(&engine) {
                    self.draining.insert(engine, task);
                }
            }
            (Some(Event::EngineIdle), _, Some(engine)) => _ = self.draining.remove(&engine),
            (Some(Event::Release), Some(task), _) => self.release(task, record),
            (Some(Event::Complete), Some(task), _) => self.complete(task, record),
            (Some(Event::Exit | Event::Stop), Some(task), _) => _ = self.open.remove(&task),
            _ => {}
        }
    }

    /// Nothing runs on `cpu` from here on: the thread that ran is ready, unless it has said that it waits.
    fn stop(&mut self, cpu: u8) {
        if let Some(task) = self.running.remove(&cpu)
            && matches!(self.doing[task], Doing::Runs { cpu: on, .. } if on == cpu)
        {
            self.doing[task] = Doing::Ready;
        }
    }

    /// A job begins. If it queued behind another, it was released before.
    fn release(&mut self, task: usize, record: &Record) {
        if let Some(own) = self.system.tasks[task].reservation {
            self.exhausted.remove(&own);
        }
        if matches!(self.doing[task], Doing::Waits(Wait::Other)) {
            self.doing[task] = Doing::Ready;
        }
        self.open.insert(task, Open { job: record.job, released: record.time, parts: BTreeMap::new() });
    }

    fn complete(&mut self, task: usize, record: &Record) {
        let Some(open) = self.open.remove(&task) else { return };
        let deadline = record.time.saturating_add_signed(record.lateness().saturating_neg());
        self.close(task, open, deadline, Some(record.time));
    }

    fn relative_deadline(&self, task: usize) -> u64 {
        self.system.tasks[task].reservation.map_or(0, |own| self.system.reservations[own].deadline)
    }

    /// The job ends, and its deadline is known: so is its release, and the time between that and its record.
    fn close(&mut self, task: usize, open: Open, deadline: u64, completed: Option<u64>) {
        let release = deadline.saturating_sub(self.relative_deadline(task)).min(open.released);
        let mut parts = open.parts;
        let before = std::mem::replace(&mut self.ended[task], completed.unwrap_or(0));
        let until = before.clamp(release, open.released);
        let mut rest = until - release;
        for piece in self.lines[task].iter().rev().take_while(|piece| piece.until > release) {
            let span = piece.until.min(until).saturating_sub(piece.from.max(release));
            if span > 0 {
                let path = [&[Step::Before], &piece.path[..]].concat();
                *parts.entry(path).or_default() += span;
                rest -= span;
            }
        }
        for (step, span) in [(Step::Before, rest), (Step::Unseen, open.released - until)] {
            if span > 0 {
                *parts.entry(vec![step]).or_default() += span;
            }
        }
        let mut parts: Vec<Part> = parts.into_iter().map(|(path, time)| Part { path, time }).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.time));
        let before = std::mem::replace(&mut self.charged[task], charged(&parts));
        self.done.push(Explanation { task, job: open.job, release, deadline, completed, end: self.now, before, parts });
    }

    fn finish(mut self) -> Vec<Explanation> {
        for (task, open) in std::mem::take(&mut self.open) {
            let deadline = open.released.saturating_add(self.relative_deadline(task));
            self.close(task, open, deadline, None);
        }
        let end = self.now;
        self.done.iter_mut().for_each(|one| one.end = end);
        self.done
    }
}

/// The time for which a job, and the tasks that it waited for, ran; and the part of that for turns of other emulated CPUs.
fn charged(parts: &[Part]) -> (u64, u64) {
    let sum = |is_meant: &dyn Fn(&Step) -> bool| -> u64 {
        parts.iter().filter(|part| part.path.iter().any(is_meant)).map(|part| part.time).sum()
    };
    (sum(&|step| matches!(step, Step::Ran(_))), sum(&|step| *step == Step::Turn))
}

/// The interrupt that signals this notification.
fn line_of(system: &Resolved, notification: usize) -> Option<&String> {
    let signals =
        |interrupt: &&(String, fusee_abi::image::Interrupt)| interrupt.1.notification as usize == notification;
    system.interrupts.iter().find(signals).map(|(name, _)| name)
}
