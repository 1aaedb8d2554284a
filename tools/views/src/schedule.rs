//! What happened, in intervals: runs, jobs, holds of engines, exhausted budgets.
//!
//! # Invariant
//!
//! The runs on one CPU do not overlap, nor do those of one task.

use std::collections::BTreeMap;
use std::ops::Range;

use fusee_abi::trace::{Event, Record};
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;

/// A task on a CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// CPU.
    pub cpu: u8,
    /// Task index.
    pub task: usize,
    /// Its job; zero before the first.
    pub job: u32,
    /// Task at whose expense it began to run.
    pub payer: usize,
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

/// What happened, in intervals.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Schedule {
    /// Tasks on CPUs.
    pub runs: Vec<Run>,
    /// Jobs.
    pub jobs: Vec<Job>,
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
    /// What `trace` says; what is still going on at its end ends there.
    #[must_use]
    pub fn of(trace: &Trace, system: &Resolved) -> Schedule {
        let end = trace.records.last().map_or(0, |record| record.time);
        let mut reader = Reader { system, out: Schedule { end, ..Schedule::default() }, ..Reader::new(system) };
        trace.records.iter().for_each(|record| reader.read(record));
        reader.finish()
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
    /// For each CPU what runs.
    running: BTreeMap<u8, Run>,
    /// For each engine who holds it, or held it.
    held: BTreeMap<usize, Span>,
    drained: BTreeMap<usize, Span>,
    /// For each task since when it is dry.
    dry: BTreeMap<usize, u64>,
    /// For each task the place of its last job.
    last: BTreeMap<usize, usize>,
}

impl<'a> Reader<'a> {
    fn new(system: &'a Resolved) -> Reader<'a> {
        Reader {
            system,
            out: Schedule::default(),
            running: BTreeMap::new(),
            held: BTreeMap::new(),
            drained: BTreeMap::new(),
            dry: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    fn read(&mut self, record: &Record) {
        let (time, task) = (record.time, usize::from(record.thread).checked_sub(1));
        let object = (record.object as usize).checked_sub(1);
        let owner = object.and_then(|index| self.system.reservations.get(index)).map(|one| one.task as usize);
        match (Event::from_number(record.event), task, object) {
            (Some(Event::SwitchTo), Some(task), _) => {
                self.stop(record.cpu, time);
                let payer = owner.unwrap_or(task);
                let run = Run { cpu: record.cpu, task, job: record.job, payer, from: time, until: time };
                self.running.insert(record.cpu, run);
            }
            (Some(Event::SwitchAway | Event::Idle), ..) => self.stop(record.cpu, time),
            (Some(Event::Release), Some(task), _) => self.release(task, record),
            (Some(Event::Complete), Some(task), _) => {
                if let Some(job) = self.last.get(&task).map(|place| &mut self.out.jobs[*place]) {
                    let lateness = record.value.cast_signed();
                    let length = job.deadline - job.release;
                    if lateness != i32::MIN && lateness != i32::MAX {
                        job.deadline = time.saturating_add_signed(-i64::from(lateness));
                        job.release = job.deadline.saturating_sub(length);
                    }
                    job.completed = Some(time);
                }
            }
            (Some(Event::Skip), Some(task), _) => self.out.skips.push((task, time)),
            (Some(Event::Throttle), ..) => {
                if let Some(task) = owner {
                    self.dry.entry(task).or_insert(time);
                }
            }
            (Some(Event::Replenish), ..) => {
                if let Some(task) = owner {
                    self.refill(task, time);
                }
            }
            (Some(Event::EngineGrant), Some(task), Some(engine)) => {
                self.held.insert(engine, Span { of: engine, task, from: time, until: time });
            }
            (Some(Event::EngineRelease), _, Some(engine)) => {
                if let Some(hold) = self.held.remove(&engine) {
                    self.out.holds.push(Span { until: time, ..hold });
                    self.drained.insert(engine, Span { from: time, ..hold });
                }
            }
            (Some(Event::EngineIdle), _, Some(engine)) => {
                if let Some(hold) = self.held.remove(&engine) {
                    self.out.holds.push(Span { until: time, ..hold });
                }
                if let Some(drain) = self.drained.remove(&engine).filter(|drain| drain.from < time) {
                    self.out.drains.push(Span { until: time, ..drain });
                }
            }
            _ => {}
        }
    }

    /// A job begins: the one that runs, if it is of the same task, is another from here on.
    fn release(&mut self, task: usize, record: &Record) {
        let reservation = self.system.tasks[task].reservation.map(|index| self.system.reservations[index]);
        let (period, deadline) = reservation.map_or((0, 0), |one| (one.period, one.deadline));
        // One that queued behind a late job begins as that ends.
        let before = self.last.get(&task).map(|place| self.out.jobs[*place]);
        let queued = before.filter(|before| before.completed == Some(record.time));
        let release = queued.map_or(record.time, |before| record.time.min(before.release + period));
        self.last.insert(task, self.out.jobs.len());
        let deadline = release + deadline;
        self.out.jobs.push(Job { task, number: record.job, release, deadline, completed: None });
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
        self.out.holds.extend(self.held.into_values().map(|hold| Span { until: end, ..hold }));
        self.out.drains.extend(self.drained.into_values().map(|drain| Span { until: end, ..drain }));
        self.out
    }
}
