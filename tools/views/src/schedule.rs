//! A trace in intervals: runs, jobs, waits, holds of engines and tokens, exhausted budgets.
//!
//! Records of tasks, engines and pools that the system does not have are passed over.
//!
//! # Invariants
//!
//! 1. The runs on one CPU do not overlap, nor do those of one task.
//! 2. No interval ends before it begins.

use std::collections::BTreeMap;
use std::ops::Range;

use fusee_abi::trace::{Event, Record, key_word};
use fusee_manifest::trace::Trace;
use fusee_manifest::{PolicyName, Resolved};

use crate::explain::Wait;

/// A task on a CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// CPU.
    pub cpu: u8,
    /// Task index.
    pub task: usize,
    /// Its job; zero before the first.
    pub job: u32,
    /// Task at whose expense it runs.
    pub payer: usize,
    /// The key it runs with, as [`key_word`].
    pub key: u32,
    /// Whether that key is not its own: it is another reservation's, or earlier than the job's own.
    pub inherits: bool,
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

/// A job, from its release to its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Job {
    /// Task index.
    pub task: usize,
    /// Its number.
    pub number: u32,
    /// When it was released.
    pub release: u64,
    /// When the kernel recorded that.
    pub seen: u64,
    /// Whether it queued behind an earlier one, and was recorded as that ended.
    pub queued: bool,
    /// Its deadline.
    pub deadline: u64,
    /// When it completed, if it did.
    pub completed: Option<u64>,
}

/// Something that lasts, of one object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    /// Engine, or task.
    pub of: usize,
    /// The task concerned.
    pub task: usize,
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

/// A task that is suspended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Suspension {
    /// Task index.
    pub task: usize,
    /// Its job; zero before the first.
    pub job: u32,
    /// The object that it waits for.
    pub wait: Wait,
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

/// A token of a pool that a task has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Token {
    /// Pool index.
    pub pool: usize,
    /// Which of its tokens.
    pub token: u32,
    /// Its holder.
    pub task: usize,
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

/// A trace in intervals.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Schedule {
    /// Tasks on CPUs.
    pub runs: Vec<Run>,
    /// Jobs.
    pub jobs: Vec<Job>,
    /// Tasks that were suspended.
    pub waits: Vec<Suspension>,
    /// Tokens held by tasks.
    pub tokens: Vec<Token>,
    /// Engines held by tasks.
    pub holds: Vec<Span>,
    /// Engines given back that still work.
    pub drains: Vec<Span>,
    /// Tasks whose budget was dry.
    pub dry: Vec<Span>,
    /// Releases that were dropped: task and time.
    pub skips: Vec<(usize, u64)>,
    /// The last instant of the trace.
    pub end: u64,
}

//--- From records to intervals

impl Schedule {
    /// The intervals of `trace`; those that are open at its end end there.
    #[must_use]
    pub fn of(trace: &Trace, system: &Resolved) -> Schedule {
        let end = trace.records.iter().map(|record| record.time).max().unwrap_or(0);
        let mut reader = Reader { out: Schedule { end, ..Schedule::default() }, ..Reader::new(system) };
        trace.records.iter().for_each(|record| reader.read(record));
        reader.finish()
    }

    /// The jobs that missed their deadlines, or will.
    pub fn missed(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(|job| job.completed.unwrap_or(self.end) > job.deadline)
    }

    /// A part that shows something: from the first release on, as long as bars can be told apart.
    #[must_use]
    pub fn window(&self, start: u64) -> Range<u64> {
        const BARS: usize = 100;
        let from = self.jobs.iter().map(|job| job.release).min().unwrap_or(0).max(start.min(self.end));
        let mut begins: Vec<u64> = self.runs.iter().map(|run| run.from).filter(|begin| *begin >= from).collect();
        begins.sort_unstable();
        from..begins.get(BARS).copied().unwrap_or(self.end).max(from + 1)
    }
}

struct Reader<'a> {
    system: &'a Resolved,
    out: Schedule,
    /// For each CPU the thread that runs.
    running: BTreeMap<u8, Run>,
    /// For each engine its holder, or its last one.
    held: BTreeMap<usize, Span>,
    drained: BTreeMap<usize, Span>,
    /// For each pool and token its holder.
    tokens: BTreeMap<(usize, u32), Token>,
    /// For each task the beginning and the object of its wait.
    waiting: BTreeMap<usize, Suspension>,
    /// For each task since when it is dry.
    dry: BTreeMap<usize, u64>,
    /// For each task the place of its last job.
    last: BTreeMap<usize, usize>,
    /// For each task the latest key that its job had of its own.
    keys: BTreeMap<usize, u32>,
}

impl<'a> Reader<'a> {
    fn new(system: &'a Resolved) -> Reader<'a> {
        Reader {
            system,
            out: Schedule::default(),
            running: BTreeMap::new(),
            held: BTreeMap::new(),
            drained: BTreeMap::new(),
            tokens: BTreeMap::new(),
            waiting: BTreeMap::new(),
            dry: BTreeMap::new(),
            last: BTreeMap::new(),
            keys: BTreeMap::new(),
        }
    }

    fn read(&mut self, record: &Record) {
        let system = self.system;
        let time = record.time;
        let task = usize::from(record.thread).checked_sub(1).filter(|task| *task < system.tasks.len());
        let object = (record.object as usize).checked_sub(1);
        let engine = object.filter(|engine| *engine < system.engines.len());
        let pool = object.filter(|pool| *pool < system.pools.len());
        let owner = object.and_then(|index| system.owner(index));
        match (Event::from_number(record.event), task) {
            (Some(Event::SwitchTo), Some(task)) => {
                self.stop(record.cpu, time);
                self.resume(task, time);
                // A record of its going may be missing.
                let elsewhere = self.running.values().find(|run| run.task == task).map(|run| run.cpu);
                elsewhere.into_iter().for_each(|cpu| self.stop(cpu, time));
                self.begin(task, owner.unwrap_or(task), record);
            }
            (Some(Event::RunOn), Some(task)) => {
                if let Some(run) = self.running.values().find(|run| run.task == task).copied() {
                    self.stop(run.cpu, time);
                    self.begin(task, owner.unwrap_or(task), &Record { cpu: run.cpu, ..*record });
                }
            }
            (Some(Event::SwitchAway | Event::Idle), _) => self.stop(record.cpu, time),
            (Some(Event::Block), Some(task)) => {
                self.suspend(task, Wait::of(record.value, record.object), record);
            }
            (Some(Event::Call), Some(task)) if record.value == 0 => {
                self.suspend(task, object.map_or(Wait::Other, Wait::Server), record);
            }
            (Some(Event::Resume), Some(task)) => self.resume(task, time),
            (Some(Event::Release), Some(task)) => self.release(task, record),
            (Some(Event::Complete), Some(task)) => {
                if let Some(job) = self.last.get(&task).map(|place| &mut self.out.jobs[*place]) {
                    let length = job.deadline - job.release;
                    job.deadline = time.saturating_add_signed(record.lateness().saturating_neg());
                    job.release = job.deadline.saturating_sub(length);
                    job.completed = Some(time);
                }
            }
            (Some(Event::Skip), Some(task)) => self.out.skips.push((task, time)),
            (Some(Event::Throttle), _) => {
                if let Some(task) = owner {
                    self.dry.entry(task).or_insert(time);
                }
            }
            (Some(Event::Replenish), _) => {
                if let Some(task) = owner {
                    self.refill(task, time);
                }
            }
            (Some(event), _) => {
                if let Some(engine) = engine {
                    self.engine(event, task, engine, time);
                }
                if let Some(pool) = pool {
                    self.token(event, task, pool, record);
                }
            }
            _ => {}
        }
    }

    /// A task goes on, with the reservation and key that `record` says.
    fn begin(&mut self, task: usize, payer: usize, record: &Record) {
        let own = self.keys.get(&task).copied().unwrap_or(0);
        let inherits = payer != task || record.value < own;
        if payer == task {
            self.keys.insert(task, record.value.max(own));
        }
        let (from, until) = (record.time, record.time);
        let run = Run { cpu: record.cpu, task, job: record.job, payer, key: record.value, inherits, from, until };
        self.running.insert(record.cpu, run);
    }

    fn suspend(&mut self, task: usize, wait: Wait, record: &Record) {
        let (job, from, until) = (record.job, record.time, record.time);
        self.waiting.entry(task).or_insert(Suspension { task, job, wait, from, until });
    }

    fn resume(&mut self, task: usize, time: u64) {
        if let Some(wait) = self.waiting.remove(&task).filter(|wait| wait.from < time) {
            self.out.waits.push(Suspension { until: time, ..wait });
        }
    }

    fn engine(&mut self, event: Event, task: Option<usize>, engine: usize, time: u64) {
        match (event, task) {
            (Event::EngineGrant, Some(task)) => {
                self.idle(engine, time);
                self.held.insert(engine, Span { of: engine, task, from: time, until: time });
            }
            (Event::EngineRelease | Event::EngineTaken, _) => {
                if let Some(hold) = self.held.remove(&engine) {
                    self.out.holds.push(Span { until: time.max(hold.from), ..hold });
                    self.drained.insert(engine, Span { from: time, ..hold });
                }
            }
            (Event::EngineIdle, _) => self.idle(engine, time),
            _ => {}
        }
    }

    /// Nothing is under way on an engine.
    fn idle(&mut self, engine: usize, time: u64) {
        if let Some(hold) = self.held.remove(&engine) {
            self.out.holds.push(Span { until: time.max(hold.from), ..hold });
        }
        if let Some(drain) = self.drained.remove(&engine).filter(|drain| drain.from < time) {
            self.out.drains.push(Span { until: time, ..drain });
        }
    }

    fn token(&mut self, event: Event, task: Option<usize>, pool: usize, record: &Record) {
        let (time, token) = (record.time, record.value);
        match (event, task) {
            (Event::TokenGrant, Some(task)) => {
                self.tokens.insert((pool, token), Token { pool, token, task, from: time, until: time });
            }
            (Event::TokenRelease, _) => {
                if let Some(held) = self.tokens.remove(&(pool, token)) {
                    self.out.tokens.push(Token { until: time.max(held.from), ..held });
                }
            }
            // Which one is not said.
            (Event::TokenTaken, Some(task)) => {
                let taken = self.tokens.values().find(|one| one.pool == pool && one.task == task).copied();
                if let Some(held) = taken {
                    self.tokens.remove(&(pool, held.token));
                    self.out.tokens.push(Token { until: time.max(held.from), ..held });
                }
            }
            _ => {}
        }
    }

    /// A job begins: the one that runs, if it is of the same task, is another from here on.
    fn release(&mut self, task: usize, record: &Record) {
        let own = &self.system.tasks[task];
        let reservation = own.reservation.map(|index| self.system.reservations[index]);
        let (period, deadline) = reservation.map_or((0, 0), |one| (one.period, one.deadline));
        // One that queued behind a late job begins as that ends.
        let before = self.last.get(&task).map(|place| self.out.jobs[*place]);
        let queued = before.filter(|before| before.completed == Some(record.time));
        let release = queued.map_or(record.time, |before| record.time.min(before.release.saturating_add(period)));
        self.last.insert(task, self.out.jobs.len());
        let deadline = release.saturating_add(deadline);
        let (seen, queued) = (record.time, queued.is_some());
        self.out.jobs.push(Job { task, number: record.job, release, seen, queued, deadline, completed: None });
        // Under EDF its key is known before it runs.
        let cluster = self.system.clusters.get(own.cluster as usize);
        let is_edf = cluster.is_some_and(|(_, one)| PolicyName::from_number(one.policy) == Some(PolicyName::Edf));
        self.keys.insert(task, if is_edf { key_word(deadline) } else { 0 });
        self.refill(task, record.time);
        if let Some(run) = self.running.values().find(|run| run.task == task).copied() {
            self.stop(run.cpu, record.time);
            self.running.insert(run.cpu, Run { job: record.job, from: record.time, ..run });
        }
    }

    fn stop(&mut self, cpu: u8, time: u64) {
        if let Some(run) = self.running.remove(&cpu).filter(|run| run.from < time) {
            self.out.runs.push(Run { until: time, ..run });
        }
    }

    fn refill(&mut self, task: usize, time: u64) {
        if let Some(from) = self.dry.remove(&task).filter(|from| *from < time) {
            self.out.dry.push(Span { of: task, task, from, until: time });
        }
    }

    fn finish(mut self) -> Schedule {
        let end = self.out.end;
        for cpu in self.running.keys().copied().collect::<Vec<u8>>() {
            self.stop(cpu, end);
        }
        for task in self.dry.keys().copied().collect::<Vec<usize>>() {
            self.refill(task, end);
        }
        for task in self.waiting.keys().copied().collect::<Vec<usize>>() {
            self.resume(task, end);
        }
        self.out.holds.extend(self.held.into_values().map(|hold| Span { until: end, ..hold }));
        self.out.drains.extend(self.drained.into_values().map(|drain| Span { until: end, ..drain }));
        self.out.tokens.extend(self.tokens.into_values().map(|held| Token { until: end, ..held }));
        self.out
    }
}
