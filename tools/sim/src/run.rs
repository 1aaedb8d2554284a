//! A run: virtual time that goes on by steps, faults, and all that is seen.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fusee_abi::trace::{Event, Record};
use fusee_accel_contract::{INJECT_LATE, INJECT_LOST};
use fusee_manifest::Manifest;
use fusee_manifest::trace::{Said, Trace, describe};
use fusee_simulator::run::Mishap;
use fusee_simulator::system::{self, Begun, begin};
use fusee_simulator::{EndedBy, Options};
use fusee_views::metrics::{Metrics, TaskMetrics};

use crate::error::Error;

/// The reason for which a run is where it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reached {
    /// The instant that was asked for has come.
    Time,
    /// The system has ended itself with this exit code.
    Ended(u32),
    /// Nothing can happen any more: all tasks have ended, or wait for each other.
    NothingLeft,
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reached::Time => write!(f, "the time is over"),
            Reached::Ended(code) => write!(f, "the system ended with code {code}"),
            Reached::NothingLeft => write!(f, "nothing can happen any more"),
        }
    }
}

/// An event of the trace, as [`Run::until_event`] shows it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The time since the start of the kernel.
    pub time: Duration,
    /// The event.
    pub event: Event,
    /// The task that the event is about.
    pub task: Option<&'a str>,
    /// The job of that task, from one; zero before its first release.
    pub job: u32,
    /// The whole record.
    pub record: &'a Record,
}

/// A job that has completed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Job {
    /// Its number, from one.
    pub number: u32,
    /// The instant of its release.
    pub release: Duration,
    /// The instant of its completion.
    pub completion: Duration,
    /// The completion minus the deadline, in nanoseconds: positive if the job was late.
    pub lateness: i64,
}

/// A run of a system.
///
/// The processes of its programs end when it is dropped, also if its test panics.
pub struct Run {
    manifest: Manifest,
    begun: Begun,
    records: Vec<Record>,
    /// The instant to which the run has gone, nanoseconds.
    now: u64,
}

impl Run {
    pub(crate) fn new(manifest: Manifest, options: &Options) -> Result<Run, Error> {
        let begun = begin(&manifest, options)?;
        Ok(Run { manifest, begun, records: Vec::new(), now: 0 })
    }

    //--- Time

    /// The present instant: time since the start of the kernel.
    #[must_use]
    pub const fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// Goes to the instant `at`, counted from the start of the kernel, with all that happens at it. An end of the system comes first.
    ///
    /// # Errors
    /// [`Error::Past`]; or [`Error::Simulation`] if a program cannot go on.
    pub fn until(&mut self, at: Duration) -> Result<Reached, Error> {
        let limit = self.limit(at)?;
        loop {
            if let Some(reached) = self.step(limit)? {
                return Ok(reached);
            }
        }
    }

    /// Goes to the first event that `is_wanted`, at the latest to the instant `limit`, and returns its record. All that happens at the instant of the event has
    /// happened.
    ///
    /// # Errors
    /// [`Error::NotSeen`], [`Error::Past`], or [`Error::Simulation`].
    pub fn until_event(
        &mut self,
        limit: Duration,
        mut is_wanted: impl FnMut(&Seen<'_>) -> bool,
    ) -> Result<Record, Error> {
        let until = self.limit(limit)?;
        loop {
            let before = self.records.len();
            let reached = self.step(until)?;
            let found =
                self.records[before..].iter().find(|record| self.seen(record).is_some_and(|one| is_wanted(&one)));
            match (found, reached) {
                (Some(record), _) => return Ok(*record),
                (None, Some(reached)) => return Err(Error::NotSeen { limit, reached }),
                (None, None) => {}
            }
        }
    }

    /// Goes to the end of the system, and returns its exit code.
    ///
    /// # Errors
    /// [`Error::NotSeen`]: the system has not ended itself at the instant `limit`. [`Error::Past`] or [`Error::Simulation`].
    pub fn until_end(&mut self, limit: Duration) -> Result<u32, Error> {
        match self.until(limit)? {
            Reached::Ended(code) => Ok(code),
            reached => Err(Error::NotSeen { limit, reached }),
        }
    }

    fn limit(&self, at: Duration) -> Result<u64, Error> {
        let limit = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        if limit < self.now { Err(Error::Past { now: self.now(), asked: at }) } else { Ok(limit) }
    }

    /// Lets the next instant happen, if it is not after `limit`.
    fn step(&mut self, limit: u64) -> Result<Option<Reached>, Error> {
        let simulation = &mut self.begun.simulation;
        let ended = simulation.step(limit).map_err(|error| system::Error::of(error, &self.manifest))?;
        self.records.extend(simulation.take_records());
        self.now = self.now.max(simulation.now());
        Ok(ended.map(|ended| match (ended, simulation.exit()) {
            (_, Some(code)) => Reached::Ended(code),
            (EndedBy::NothingLeft, None) => Reached::NothingLeft,
            (_, None) => {
                self.now = limit;
                Reached::Time
            }
        }))
    }

    //--- Faults

    /// Lets a task make a forbidden access at the first instant, from now on, at which it runs. The kernel then ends it, as on a board, and its supervisor may
    /// give it another life.
    ///
    /// # Errors
    /// [`Error::NoTask`].
    pub fn crash(&mut self, task: &str) -> Result<(), Error> {
        let index = self.task(task)?;
        self.begun.simulation.add_fault(self.now, index);
        Ok(())
    }

    /// Lets the device of a task raise no interrupt for the task's commands from now on. The task has a script or a model: programs cannot reach devices here.
    ///
    /// # Errors
    /// [`Error::NoTask`] or [`Error::NoDevice`].
    pub fn lose_interrupts(&mut self, task: &str) -> Result<(), Error> {
        self.inject(task, INJECT_LOST)
    }

    /// Lets interrupts for a task's commands come late from now on, by 3 ms ([`fusee_accel_contract::timing::INJECT_DELAY`]).
    ///
    /// # Errors
    /// [`Error::NoTask`] or [`Error::NoDevice`].
    pub fn delay_interrupts(&mut self, task: &str) -> Result<(), Error> {
        self.inject(task, INJECT_LATE)
    }

    /// Lets the device of a task be right again from now on.
    ///
    /// # Errors
    /// [`Error::NoTask`] or [`Error::NoDevice`].
    pub fn heal(&mut self, task: &str) -> Result<(), Error> {
        self.inject(task, 0)
    }

    fn inject(&mut self, task: &str, wrong: u32) -> Result<(), Error> {
        let index = self.task(task)?;
        let simulation = &self.begun.simulation;
        let Some((device, context)) = simulation.context_of(index) else {
            let tasks = self.manifest.system.tasks.iter().enumerate();
            let users = tasks.filter(|(index, _)| simulation.context_of(*index).is_some());
            let choices = users.map(|(_, task)| task.name.clone()).collect();
            return Err(Error::NoDevice { task: task.to_owned(), choices });
        };
        self.begun.simulation.add_mishap(Mishap { at: self.now, device, context, wrong });
        Ok(())
    }

    //--- Observations

    /// The manifest of the run, with all changes.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// All records of the trace by now, in order. Two runs with equal choices have equal records.
    #[must_use]
    pub fn trace(&self) -> &[Record] {
        &self.records
    }

    /// A record in words.
    #[must_use]
    pub fn describe(&self, record: &Record) -> String {
        describe(record, &self.manifest.system)
    }

    /// All events of the trace by now.
    pub fn events(&self) -> impl Iterator<Item = Seen<'_>> {
        self.records.iter().filter_map(|record| self.seen(record))
    }

    fn seen<'a>(&'a self, record: &'a Record) -> Option<Seen<'a>> {
        let task = usize::from(record.thread).checked_sub(1).and_then(|index| self.manifest.system.tasks.get(index));
        Some(Seen {
            time: Duration::from_nanos(record.time),
            event: Event::from_number(record.event)?,
            task: task.map(|task| task.name.as_str()),
            job: record.job,
            record,
        })
    }

    /// The present bytes of a region of the manifest, as programs have left them. Scripts have no bytes.
    ///
    /// # Errors
    /// [`Error::NoRegion`].
    pub fn memory(&self, region: &str) -> Result<Vec<u8>, Error> {
        let system = &self.manifest.system;
        let is_device = |index: usize| system.board_regions.iter().any(|(one, _)| *one == index);
        let refused = |why| {
            let regions = system.regions.iter().enumerate().filter(|(index, _)| !is_device(*index));
            let choices = regions.map(|(_, (name, _))| name.clone()).collect();
            Error::NoRegion { name: region.to_owned(), why, choices }
        };
        let index = system.regions.iter().position(|(name, _)| name == region);
        let index = index.ok_or_else(|| refused("there is no such region"))?;
        let memory = self.begun.memory.as_ref().ok_or_else(|| refused("no task of this run is a program"))?;
        if is_device(index) {
            return Err(refused("it is registers of a device"));
        }
        let (physical, length) = self.begun.regions[index];
        let mut bytes = vec![0; length as usize];
        let read = memory.read(physical, &mut bytes);
        read.map_err(|_| refused("it is not in the memory of programs"))?;
        Ok(bytes)
    }

    /// The text that tasks have printed by now through Fusee's server of a console. A line stands where it was complete.
    #[must_use]
    pub fn console(&self) -> String {
        self.begun.simulation.console()
    }

    /// The messages that a task has logged by the crate `log`, each with its level and place. Frames of `defmt` are not decoded here.
    ///
    /// # Errors
    /// [`Error::NoTask`].
    pub fn log(&self, task: &str) -> Result<Vec<String>, Error> {
        let thread = self.task(task)? + 1;
        let messages = Trace::from_records(self.records.clone()).messages().all.into_iter();
        let texts = messages.filter(|message| usize::from(message.thread) == thread);
        Ok(texts
            .filter_map(|message| match message.said {
                Said::Text(text) => Some(text),
                Said::Frame(_) => None,
            })
            .collect())
    }

    /// The jobs of a task that have completed, in order.
    ///
    /// # Errors
    /// [`Error::NoTask`].
    pub fn jobs(&self, task: &str) -> Result<Vec<Job>, Error> {
        let index = self.task(task)?;
        let mut releases: BTreeMap<u32, u64> = BTreeMap::new();
        let mut jobs = Vec::new();
        for record in self.records.iter().filter(|record| usize::from(record.thread) == index + 1) {
            match Event::from_number(record.event) {
                Some(Event::Release) => drop(releases.insert(record.job, record.time)),
                Some(Event::Complete) => jobs.extend(releases.remove(&record.job).map(|release| Job {
                    number: record.job,
                    release: Duration::from_nanos(release),
                    completion: Duration::from_nanos(record.time),
                    lateness: record.lateness(),
                })),
                _ => {}
            }
        }
        Ok(jobs)
    }

    /// The longest time from the release of a job of a task to its completion; `None`: no job has completed.
    ///
    /// # Errors
    /// [`Error::NoTask`].
    pub fn latest_completion(&self, task: &str) -> Result<Option<Duration>, Error> {
        Ok(self.jobs(task)?.iter().map(|job| job.completion - job.release).max())
    }

    /// For each task with jobs that were late or left out: how many there were by now. Jobs that are not complete, and late already, count.
    #[must_use]
    pub fn misses(&self) -> Vec<(String, u64)> {
        let metrics = Metrics::of(&Trace::from_records(self.records.clone()), &self.manifest.system);
        let of = |(index, task): (usize, &TaskMetrics)| {
            let misses = task.misses() + task.skipped + overdue(&self.records, index, self.now);
            (misses > 0).then(|| (task.name.clone(), misses))
        };
        metrics.tasks.iter().enumerate().filter_map(of).collect()
    }

    /// For each completed job of `last` the time since the latest release of a job of `first` that was complete when the job of `last` was released: the age
    /// of data that `first` leaves for `last` in memory. Jobs without such a job of `first` are left out.
    ///
    /// # Errors
    /// [`Error::NoTask`].
    pub fn latencies(&self, first: &str, last: &str) -> Result<Vec<Duration>, Error> {
        let (sources, sinks) = (self.jobs(first)?, self.jobs(last)?);
        let latency = |sink: &Job| {
            let before = sources.partition_point(|source| source.completion <= sink.release);
            Some(sink.completion - sources.get(before.checked_sub(1)?)?.release)
        };
        Ok(sinks.iter().filter_map(latency).collect())
    }

    /// The index of a task.
    fn task(&self, name: &str) -> Result<usize, Error> {
        let tasks = &self.manifest.system.tasks;
        let choices = || tasks.iter().map(|task| task.name.clone()).collect();
        let found = tasks.iter().position(|task| task.name == name);
        found.ok_or_else(|| Error::NoTask { name: name.to_owned(), choices: choices() })
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run of `{}`, at {:?}, {} records", self.manifest.system.name, self.now(), self.records.len())
    }
}

/// Returns how many jobs of the task with this index are not complete after their deadlines at the instant `now`, nanoseconds. A task that has ended completes
/// none.
#[must_use]
pub fn overdue(records: &[Record], task: usize, now: u64) -> u64 {
    let mut open: BTreeMap<u32, u64> = BTreeMap::new();
    for record in records.iter().filter(|record| usize::from(record.thread) == task + 1) {
        match Event::from_number(record.event) {
            Some(Event::Release) => {
                open.insert(record.job, record.time.saturating_add(record.relative_deadline()));
            }
            Some(Event::Complete) => open = open.split_off(&record.job.saturating_add(1)),
            Some(Event::Exit | Event::Fault | Event::Stop) => open.clear(),
            _ => {}
        }
    }
    open.values().filter(|deadline| **deadline < now).count() as u64
}
