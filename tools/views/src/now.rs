//! The state of a system at the moment, from the records that have come so far: running tasks, the objects and tasks that others wait for, how late
//! jobs are, and used budgets.
//!
//! Records may come in pieces, and for ever: nothing is kept of them but this. Where some are missing, the change is not
//! known until the next record that says it.

use std::collections::BTreeMap;

use fusee_abi::trace::{Event, PANIC_CODE, Record};
use fusee_manifest::Resolved;

use crate::explain::Wait;
use crate::state::{Awaited, Ended, State};

/// A system at the moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Now {
    /// The instant of the newest record, nanoseconds.
    pub time: u64,
    /// Records that were seen.
    pub records: u64,
    /// The number of the newest.
    newest: u64,
    /// Tasks, in the order of the manifest.
    pub tasks: Vec<TaskNow>,
    /// Engines, in the order of the manifest.
    pub engines: Vec<EngineNow>,
    /// The holders of each pool's tokens.
    pub pools: Vec<BTreeMap<u32, usize>>,
    /// The occupant of each CPU: since when, which task, on which reservation.
    running: BTreeMap<u8, (u64, usize, usize)>,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskNow {
    /// Its activity, as far as one record has it.
    doing: Doing,
    /// Its newest job; zero: there was none yet.
    pub job: u32,
    /// Whether that is complete.
    pub is_complete: bool,
    /// Jobs that were seen to end.
    pub jobs: u64,
    /// The number of late ones among these.
    pub misses: u64,
    /// Completion less deadline of the latest, nanoseconds.
    pub latest: Option<i64>,
    /// CPU time of its thread, nanoseconds.
    pub ran: u64,
    /// CPU time that its budget has paid, nanoseconds.
    pub charged: u64,
    /// Its budget is used up.
    pub is_dry: bool,
}

/// The activity of a task, as far as one record has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Doing {
    /// Nothing was heard of it.
    #[default]
    Unknown,
    /// The task runs on a CPU, on the budget of a task.
    Runs(u8, usize),
    /// The task could run.
    Ready,
    /// The task is suspended by a call.
    Waits(Wait),
    /// It has ended.
    Ended(Ended),
}

/// One engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineNow {
    /// The task that holds it, or has used it last and left it busy.
    pub user: Option<usize>,
    /// The engine was given back, and is not idle yet.
    pub is_draining: bool,
    /// Tasks that have asked for it, by arrival.
    pub waiters: Vec<usize>,
}

impl Now {
    /// Before the first record of `system`.
    #[must_use]
    pub fn new(system: &Resolved) -> Now {
        Now {
            time: 0,
            records: 0,
            newest: 0,
            tasks: vec![TaskNow::default(); system.tasks.len()],
            engines: vec![EngineNow::default(); system.engines.len()],
            pools: vec![BTreeMap::new(); system.pools.len()],
            running: BTreeMap::new(),
        }
    }

    /// Takes the next records. Records that are older than those before are left out.
    pub fn add(&mut self, records: &[Record], system: &Resolved) {
        for record in records {
            if record.number != 0 && record.number <= self.newest {
                continue;
            }
            self.newest = self.newest.max(record.number);
            self.time = self.time.max(record.time);
            self.records += 1;
            if let Some(event) = Event::from_number(record.event) {
                self.one(event, record, system);
            }
        }
    }

    /// Records that were written up to the newest, and were not seen.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.newest.saturating_sub(self.records)
    }

    fn one(&mut self, event: Event, record: &Record, system: &Resolved) {
        let object = (record.object as usize).wrapping_sub(1);
        if matches!(event, Event::Throttle | Event::Replenish)
            && let Some(task) = system.owner(object).and_then(|task| self.tasks.get_mut(task))
        {
            task.is_dry = event == Event::Throttle;
        }
        if event == Event::Idle {
            self.stop(record.cpu, record.time, system);
        }
        let Some(index) = usize::from(record.thread).checked_sub(1).filter(|index| *index < self.tasks.len()) else {
            return;
        };
        if matches!(event, Event::SwitchTo | Event::RunOn) {
            self.stop(record.cpu, record.time, system);
            self.running.insert(record.cpu, (record.time, index, object));
        } else if event == Event::SwitchAway && self.running.get(&record.cpu).is_some_and(|run| run.1 == index) {
            self.stop(record.cpu, record.time, system);
        }
        let task = &mut self.tasks[index];
        match event {
            Event::Release => (task.job, task.is_complete) = (record.job, false),
            Event::Complete => {
                let lateness = record.lateness();
                task.is_complete = true;
                task.jobs += 1;
                task.misses += u64::from(lateness > 0);
                task.latest = task.latest.max(Some(lateness));
            }
            Event::SwitchTo | Event::RunOn => {
                task.doing = Doing::Runs(record.cpu, system.owner(object).unwrap_or(index))
            }
            Event::SwitchAway if matches!(task.doing, Doing::Runs(..)) => task.doing = Doing::Ready,
            Event::Block => task.doing = Doing::Waits(Wait::of(record.value, record.object)),
            Event::Call if record.value == 0 => task.doing = Doing::Waits(Wait::Server(object)),
            Event::Exit if u64::from(record.value) == PANIC_CODE => task.doing = Doing::Ended(Ended::Panicked),
            Event::Exit => task.doing = Doing::Ended(Ended::Exited(record.value)),
            Event::Fault => task.doing = Doing::Ended(Ended::Faulted),
            Event::Stop => task.doing = Doing::Ended(Ended::Stopped((record.object as usize).checked_sub(1))),
            Event::Resume | Event::Restart => task.doing = Doing::Ready,
            _ => {}
        }
        if let Doing::Ended(_) = task.doing {
            self.engines.iter_mut().for_each(|engine| engine.waiters.retain(|waiter| *waiter != index));
            self.pools.iter_mut().for_each(|pool| pool.retain(|_, holder| *holder != index));
        }
        if let Some(engine) = self.engines.get_mut(object) {
            let drains = system.engines[object].1.interrupt_plus_one != 0;
            engine.one(event, index, drains);
        }
        match (event, self.pools.get_mut(object)) {
            (Event::TokenGrant, Some(pool)) => {
                pool.insert(record.value, index);
            }
            (Event::TokenRelease | Event::TokenTaken, Some(pool)) => pool.retain(|_, holder| *holder != index),
            _ => {}
        }
    }

    /// The task that ran on a CPU does so no more.
    fn stop(&mut self, cpu: u8, now: u64, system: &Resolved) {
        let Some((since, task, reservation)) = self.running.remove(&cpu) else { return };
        let ran = now.saturating_sub(since);
        self.tasks[task].ran += ran;
        if let Some(owner) = system.owner(reservation).and_then(|owner| self.tasks.get_mut(owner)) {
            owner.charged += ran;
        }
    }

    /// CPU time of a task's thread and of its budget so far, the present run included, nanoseconds.
    #[must_use]
    pub fn times(&self, task: usize, system: &Resolved) -> (u64, u64) {
        let (mut ran, mut charged) = (self.tasks[task].ran, self.tasks[task].charged);
        for (since, thread, reservation) in self.running.values() {
            let more = self.time.saturating_sub(*since);
            ran += if *thread == task { more } else { 0 };
            charged += if system.owner(*reservation) == Some(task) { more } else { 0 };
        }
        (ran, charged)
    }

    /// The present state of a task.
    #[must_use]
    pub fn state(&self, task: usize, system: &Resolved) -> State {
        let now = &self.tasks[task];
        match now.doing {
            Doing::Unknown => State::Unknown,
            Doing::Ended(how) => State::Ended(how),
            Doing::Runs(cpu, owner) => State::Runs(cpu, owner),
            Doing::Ready if now.job > 0 && now.is_complete => State::BetweenJobs,
            Doing::Ready if now.is_dry => State::Dry,
            // A server that waits for requests leaves no record of that.
            Doing::Ready => match self.idle_endpoint(task, system) {
                Some(endpoint) => State::Waits(Awaited::Requests(Some(endpoint)), Vec::new()),
                None => State::Ready,
            },
            Doing::Waits(wait) => self.waits(task, wait, system),
        }
    }

    /// An endpoint of this task, if no task waits for an answer of its.
    fn idle_endpoint(&self, task: usize, system: &Resolved) -> Option<usize> {
        let is_own = |index: usize| system.endpoints.get(index).is_some_and(|(_, one)| one.server as usize == task);
        let waits = |other: &TaskNow| matches!(other.doing, Doing::Waits(Wait::Server(endpoint)) if is_own(endpoint));
        let own = (0..system.endpoints.len()).find(|index| is_own(*index));
        own.filter(|_| !self.tasks.iter().any(waits))
    }

    /// Its wait, with the tasks that are to end it.
    fn waits(&self, task: usize, wait: Wait, system: &Resolved) -> State {
        let whom: Vec<usize> = match wait {
            Wait::Token(pool) => self.pools.get(pool).into_iter().flat_map(BTreeMap::values).copied().collect(),
            Wait::Engine(engine) => self.engines.get(engine).and_then(|engine| engine.user).into_iter().collect(),
            Wait::Notification(notification) => {
                let bound = system.notifications.get(notification).map(|(_, one)| one.bound_plus_one as usize);
                bound.and_then(|bound| bound.checked_sub(1)).into_iter().collect()
            }
            _ => Vec::new(),
        };
        match (wait, self.idle_endpoint(task, system)) {
            (Wait::Request, endpoint) => State::Waits(Awaited::Requests(endpoint), Vec::new()),
            _ => State::Waits(Awaited::of(wait, system), whom),
        }
    }
}

impl EngineNow {
    /// Takes a record about it. `drains`: it has a device, which may be busy when it is given back.
    fn one(&mut self, event: Event, task: usize, drains: bool) {
        match event {
            Event::EngineRequest => self.waiters.push(task),
            Event::EngineGrant => {
                self.waiters.retain(|waiter| *waiter != task);
                (self.user, self.is_draining) = (Some(task), false);
            }
            Event::EngineRelease if drains => self.is_draining |= self.user == Some(task),
            Event::EngineRelease | Event::EngineTaken | Event::EngineLost => {
                (self.user, self.is_draining) = (None, false)
            }
            Event::EngineIdle if self.is_draining => (self.user, self.is_draining) = (None, false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use fusee_abi::trace::Ledger;
    use fusee_manifest::trace::Trace;
    use proptest::prelude::*;

    use super::*;
    use crate::random::{system, traces};

    proptest! {
        #[test]
        fn pieces_say_what_all_of_it_does_and_nothing_is_counted_twice(
            trace in traces(),
            piece in 1usize..20,
            again in 0usize..5,
        ) {
            let system = system();
            let mut whole = Now::new(&system);
            whole.add(&trace.records, &system);
            let mut pieces = Now::new(&system);
            for start in (0..trace.records.len()).step_by(piece) {
                let end = (start + piece).min(trace.records.len());
                pieces.add(&trace.records[start.saturating_sub(again)..end], &system);
            }
            prop_assert_eq!(&pieces, &whole);
            let decisions = trace.records.iter().filter(|record| record.event != Event::Ledger as u8).copied();
            let trace = Trace::from_records(decisions.collect());
            let ledgers = trace.with_ledgers(&trace.counted_ledgers(&system)).ledgers();
            for (index, task) in whole.tasks.iter().enumerate() {
                let count = |ledger| ledgers.get(&(ledger as u16, index as u16)).copied().unwrap_or(0);
                prop_assert_eq!((task.jobs, task.misses), (count(Ledger::Jobs), count(Ledger::Misses)));
                prop_assert!(!whole.state(index, &system).words(index, &system).is_empty());
            }
        }
    }
}
