//! Response times of tasks that the clock releases: the reachable states of the schedule in which each job takes its worst time.
//!
//! The jobs of such a cluster are known before it runs: their releases, and for each the priority point. Unknown are only the times
//! that they execute, and the order of jobs with equal points. So one schedule for each such order stands for all runs, and they are
//! played until nothing new can follow.
//!
//! # Why the worst times give the worst schedule
//!
//! Jobs are ordered, `J_1` first: by points, and in any way among equal ones. Let `free_k(t)` be the number of CPUs at `t` without
//! `J_1` to `J_k`. In a run jobs execute for `c_k <= C_k`; besides, a job may stand still, for `X_k` in all, while a CPU is free for it.
//! In the worst schedule each job executes for `C_k + X_k` as soon as a CPU is free for it. Then at any instant
//! `free_k >= worst free_k`, and the rest of `J_k` plus what it may still stand still is at most its rest in the worst schedule.
//! This holds for `k = 0`. Where it holds for `k - 1`, look at `J_k`. A CPU that is free for it in the worst schedule is free for it in
//! the run, so its rest never becomes the larger one. If it executes at `t` in the run, it is not complete in the worst schedule, so
//! there it takes a CPU, too, unless none is free, and then none is free behind it. So each job is complete in the run when it is
//! complete in the worst schedule.
//!
//! The proof needs jobs with fixed places in the order, and fixed releases. A release that is handled late by `L` is a job that stands
//! still for `L` after its release: the delay is part of `X_k`, and releases stay where they are. Charging it to the period, as for
//! sporadic tasks, would be wrong: on several CPUs a job that comes later can make another one later.
//!
//! # Ties
//!
//! The kernel orders jobs with equal points by the lateness of the jobs before, which differs from run to run. A run decides once,
//! when a job is released, so each run has some order. Here jobs with equal points take the free CPUs in all ways, chosen anew
//! whenever a job is released: more schedules than there are orders. Tasks that are equal in all their numbers may be exchanged, so one
//! choice of several such tasks stands for the others, and the longest response time of one is that of all.
//!
//! # States
//!
//! A job that is not complete at the next release of its task ends the search: no bound. So at each release the state of the
//! cluster is the rest of one job for each task. A state in which no job has less left than in another one stands for that one, by
//! the proof above, as the same releases follow. Where many states stand for none of the others, the largest rest of each task
//! replaces them. That state need not be reachable, and its schedules are only later ones.
//!
//! Let `O` be the latest phase and `H` the least common multiple of the periods. Releases after `O + H` are those after `O`, so the
//! search is over when each state at `O + k H` is one that an earlier multiple stands for. No theorem on the length of a transient is
//! needed, and there is none for EDF.
//!
//! # Source
//! Ha, Liu 1994 (predictability); Cucu-Grosjean, Goossens 2011 (exact tests of periodic tasks on several CPUs). The proof, the delays and
//! the ties are ours. `tests/reachability.rs` has the schedules step by step.

use fusee_sched::key::{Policy, PriorityPoint};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::overheads::{Overheads, sum};
use crate::task::{Cluster, Task};

/// The number of tasks that one search may look at: all of them at each instant at which a job is released or complete, in each
/// schedule. It takes some tenths of a second of the host's time.
pub const LOOKS: u64 = 2_000_000;

/// States at one instant that are kept apart.
const WIDTH: usize = 64;

/// Instants beyond this are not looked at: 2^60 ns, 36 years.
const LATEST: u64 = 1 << 60;

/// The response times of all tasks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reached {
    /// The longest of each task.
    pub responses: Vec<Nanoseconds>,
    /// Whether jobs with equal points competed: then the times hold for any order of these, and need not be reached.
    pub has_ties: bool,
    /// The number of tasks that were looked at.
    pub looks: u64,
}

/// The reason why there are no response times.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unreached {
    /// A job of this task may not be complete a period after its release.
    TooLate {
        /// The number of the task, from zero.
        task: usize,
        /// Whether jobs with equal points competed before.
        has_ties: bool,
    },
    /// The search grew too long.
    GaveUp,
    /// The releases of the cluster are not those of the clock alone.
    NotByClock,
}

/// The longest response time of each task of `cluster`, from the releases of the clock. `scheduled`: the tasks as the kernel orders
/// them. `limit`: the looks of the search.
///
/// # Errors
/// [`Unreached`].
pub fn responses(cluster: &Cluster, scheduled: &[Task], limit: u64) -> Result<Reached, Unreached> {
    let phases = cluster.phases().ok_or(Unreached::NotByClock)?;
    let point = |task: &Task| cluster.policy().priority_point(&task.parameters(cluster.cpus()));
    let tasks: Vec<Clocked> = (cluster.tasks().iter().zip(scheduled).zip(phases))
        .map(|((task, scheduled), phase)| Clocked {
            execution: task.execution.0,
            period: task.period.0,
            phase: phase.0,
            point: point(scheduled),
        })
        .collect();
    if let Some(task) = tasks.iter().position(|task| task.execution > task.period) {
        return Err(Unreached::TooLate { task, has_ties: false });
    }
    let last = tasks.iter().map(|task| task.phase).max().unwrap_or(0);
    let cycle = tasks.iter().try_fold(1, |all, task| multiple(all, task.period)).ok_or(Unreached::GaveUp)?;
    let jobs = tasks.iter().map(|task| cycle / task.period).fold(0, u64::saturating_add);
    if jobs.saturating_mul(tasks.len() as u64) > limit {
        return Err(Unreached::GaveUp);
    }
    let next = tasks.iter().map(|task| task.phase).collect();
    let worst = vec![0; tasks.len()];
    let cpus = cluster.cpus() as usize;
    let alike = tasks.iter().map(|task| tasks.iter().position(|other| other == task).unwrap_or(0)).collect();
    let mut search = Search { cpus, tasks, alike, next, worst, has_ties: false, looks: 0, limit };
    search.run(last, cycle)?;
    let longest = |task: &usize| {
        let equals = search.alike.iter().zip(&search.worst).filter(|(other, _)| *other == task);
        Nanoseconds(equals.map(|(_, worst)| *worst).max().unwrap_or(0))
    };
    let responses = search.alike.iter().map(longest).collect();
    Ok(Reached { responses, has_ties: search.has_ties, looks: search.looks })
}

/// The tasks of `cluster` with executions that are longer by all that the kernel can keep a job from, for as long as a job is
/// complete a period after its release. Periods and deadlines stay. `None`: nothing bounds that.
///
/// A job loses time at its own release, at its end, and at each release of another task while it is pending: for the interrupt, for its
/// own preemption, and until it runs again, perhaps on another CPU. No job is preempted twice by one release. Ticks come besides.
#[must_use]
pub fn inflate(cluster: &Cluster, costs: &Overheads) -> Option<Vec<Task>> {
    if !cluster.above().is_empty() || !cluster.interrupting().is_empty() {
        return None;
    }
    let handled = costs.release + costs.cache_interrupt;
    let switches = sum(&[(2, costs.schedule), (2, costs.context_switch), (1, costs.cache_delay)]);
    let each = handled + switches + costs.interprocessor_interrupt + costs.event_latency;
    let tick = costs.tick + costs.cache_interrupt;
    // In a closed window, whichever way it lies.
    let within = |window: Nanoseconds, period: Nanoseconds| window.0.checked_div(period.0).map_or(0, |whole| whole + 1);
    let tasks = cluster.tasks().iter().enumerate().map(|(index, task)| {
        let others = cluster.tasks().iter().enumerate().filter(|(other, _)| *other != index);
        let window = task.period + costs.event_latency;
        let releases = others.map(|(_, other)| within(window, other.period)).fold(1, u64::saturating_add);
        let lost = sum(&[(releases, each), (within(window, costs.tick_period), tick)]);
        Task { execution: Nanoseconds(task.execution.0.saturating_add(lost.0)), ..*task }
    });
    Some(tasks.collect())
}

/// The least common multiple, if it is not too late to be looked at.
fn multiple(one: u64, other: u64) -> Option<u64> {
    let (mut divisor, mut rest) = (one, other);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (one / divisor).checked_mul(other).filter(|multiple| *multiple <= LATEST)
}

/// A task, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Clocked {
    execution: u64,
    period: u64,
    phase: u64,
    point: PriorityPoint,
}

/// The rest of the job of each task; zero: the job is complete, or none has been released.
type State = Vec<u64>;

/// A schedule on its way from one release to the next.
struct Way {
    now: u64,
    state: State,
    /// The tasks that have CPUs. None of them loses it before the next release.
    running: Vec<usize>,
}

/// The schedules played so far.
struct Search {
    cpus: usize,
    tasks: Vec<Clocked>,
    /// For each task the first one that is equal to it.
    alike: Vec<usize>,
    /// The next release of each task.
    next: Vec<u64>,
    /// The longest response time of each task.
    worst: Vec<u64>,
    has_ties: bool,
    looks: u64,
    limit: u64,
}

impl Search {
    /// Plays all schedules until nothing new can follow. `last`: the latest phase. `cycle`: the time after which releases repeat.
    fn run(&mut self, last: u64, cycle: u64) -> Result<(), Unreached> {
        let mut states = vec![vec![0; self.tasks.len()]];
        let mut seen: Vec<State> = Vec::new();
        let mut boundary = last;
        while let Some(now) = self.next.iter().copied().min().filter(|_| !states.is_empty()) {
            let released: Vec<usize> = (0..self.tasks.len()).filter(|task| self.next[*task] == now).collect();
            let is_late = |task: &&usize| states.iter().any(|state| state[**task] > 0);
            if let Some(task) = released.iter().find(is_late) {
                return Err(Unreached::TooLate { task: *task, has_ties: self.has_ties });
            }
            if now == boundary {
                states.retain(|state| !seen.iter().any(|other| stands_for(other, state)));
                seen.extend(states.iter().cloned());
                boundary += cycle;
            }
            for task in released {
                states.iter_mut().for_each(|state| state[task] = self.tasks[task].execution);
                self.next[task] += self.tasks[task].period;
            }
            let until = self.next.iter().copied().min().unwrap_or(now);
            if until > LATEST {
                return Err(Unreached::GaveUp);
            }
            let mut reached = Vec::new();
            for state in states {
                self.advance(state, now, until, &mut reached)?;
            }
            states = reached;
        }
        Ok(())
    }

    /// Plays all schedules from `state` at `now` to `until`, between which no job is released, and adds their last states.
    fn advance(&mut self, state: State, now: u64, until: u64, reached: &mut Vec<State>) -> Result<(), Unreached> {
        let point = |task: usize| {
            let release = self.next[task] - self.tasks[task].period;
            self.tasks[task].point.of_job(Instant(release))
        };
        let mut order: Vec<(Instant, usize)> =
            (0..state.len()).filter(|task| state[*task] > 0).map(|task| (point(task), task)).collect();
        order.sort_unstable();
        let mut ways = vec![Way { now, state, running: Vec::new() }];
        while let Some(way) = ways.pop() {
            for running in self.choices(&way, &order)? {
                match self.step(Way { now: way.now, state: way.state.clone(), running }, until) {
                    way if way.now == until => self.keep(reached, way.state),
                    way => ways.push(way),
                }
            }
        }
        Ok(())
    }

    /// The sets of tasks that may have the CPUs now: those that have them, and the first of the others, in all ways among equals.
    fn choices(&mut self, way: &Way, order: &[(Instant, usize)]) -> Result<Vec<Vec<usize>>, Unreached> {
        let waits = |(_, task): &&(Instant, usize)| way.state[*task] > 0 && !way.running.contains(task);
        let waiting: Vec<(Instant, usize)> = order.iter().filter(waits).copied().collect();
        let free = self.cpus.saturating_sub(way.running.len());
        let mut running = way.running.clone();
        if waiting.len() <= free || free == 0 {
            running.extend(waiting.iter().take(free).map(|(_, task)| *task));
            self.look()?;
            return Ok(vec![running]);
        }
        // The point at which CPUs run out.
        let last = waiting[free - 1].0;
        let sure = waiting.iter().take_while(|(point, _)| *point < last).count();
        running.extend(waiting[..sure].iter().map(|(_, task)| *task));
        let tied: Vec<usize> =
            waiting[sure..].iter().take_while(|(point, _)| *point == last).map(|(_, task)| *task).collect();
        self.has_ties |= tied.len() > free - sure;
        // Any of equal tasks with equal rests will do.
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for task in tied {
            let kind = |task: usize| (self.alike[task], way.state[task]);
            match groups.iter_mut().find(|group| kind(group[0]) == kind(task)) {
                Some(group) => group.push(task),
                None => groups.push(vec![task]),
            }
        }
        let mut all = Vec::new();
        self.subsets(&groups, free - sure, running, &mut all)?;
        Ok(all)
    }

    /// Adds `chosen` with each choice of `count` tasks of these groups to `all`. Of a group the first ones are chosen.
    fn subsets(
        &mut self,
        groups: &[Vec<usize>],
        count: usize,
        chosen: Vec<usize>,
        all: &mut Vec<Vec<usize>>,
    ) -> Result<(), Unreached> {
        let Some((first, others)) = groups.split_first() else {
            all.push(chosen);
            return self.look();
        };
        let rest: usize = others.iter().map(Vec::len).sum();
        for number in count.saturating_sub(rest)..=count.min(first.len()) {
            self.subsets(others, count - number, [&chosen[..], &first[..number]].concat(), all)?;
        }
        Ok(())
    }

    /// Counts a look at all tasks.
    fn look(&mut self) -> Result<(), Unreached> {
        self.looks += self.tasks.len() as u64;
        if self.looks > self.limit { Err(Unreached::GaveUp) } else { Ok(()) }
    }

    /// Plays a schedule until a job is complete, but no farther than `until`.
    fn step(&mut self, mut way: Way, until: u64) -> Way {
        let shortest = way.running.iter().map(|task| way.state[*task]).min().unwrap_or(u64::MAX);
        let span = shortest.min(until - way.now);
        way.now += span;
        for task in &way.running {
            way.state[*task] -= span;
            if way.state[*task] == 0 {
                let release = self.next[*task] - self.tasks[*task].period;
                self.worst[*task] = self.worst[*task].max(way.now - release);
            }
        }
        way.running.retain(|task| way.state[*task] > 0);
        way
    }

    /// Adds a state to those at one instant, of which none stands for another.
    fn keep(&self, states: &mut Vec<State>, mut state: State) {
        self.put_in_order(&mut state);
        if states.iter().any(|other| stands_for(other, &state)) {
            return;
        }
        states.retain(|other| !stands_for(&state, other));
        states.push(state);
        if states.len() > WIDTH {
            let larger =
                |one: State, other: State| one.into_iter().zip(other).map(|(one, other)| one.max(other)).collect();
            *states = std::mem::take(states).into_iter().reduce(larger).into_iter().collect();
        }
    }

    /// Exchanges the rests of equal tasks, so that the first one has most left: the same schedules follow, with other names.
    fn put_in_order(&self, state: &mut State) {
        for task in 0..state.len() {
            let equal = |other: &usize| self.alike[*other] == self.alike[task];
            let most = (task..state.len()).filter(equal).max_by_key(|other| state[*other]);
            state.swap(task, most.unwrap_or(task));
        }
    }
}

/// Whether no job has less left in `one` than in `other`.
fn stands_for(one: &State, other: &State) -> bool {
    one.iter().zip(other).all(|(one, other)| one >= other)
}
