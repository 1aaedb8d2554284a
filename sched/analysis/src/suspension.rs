//! Response times on one CPU of jobs that sleep and wait, without counting that as execution: each other task as release jitter.
//!
//! Suspension-oblivious tests take the suspension of a job as its execution, for all tasks that the job may delay. Here the job's own
//! suspension is added once, and another task delays it only by what that task executes. A task that suspends itself may execute
//! late in one period and early in the next, as jitter of its releases would have it do.
//!
//! # Words
//!
//! A *chunk* is budget with one release and one key (`fusee_sched::account`): that of a job, or what is left of it when its task
//! goes on after a suspension that was longer than allowed. *Life* of a task: no chunk executes later than that after its release.
//! By the theorem of accounts all chunks with releases in an interval of length *x*, open at one end, are no longer than
//! *ceil(x / p) e* in sum.
//!
//! # The bound
//!
//! Let a job of task *i* be released at *a*, after the end of the one before, and end at *f*. At each instant in between it executes,
//! or it waits for something that its declarations count, or a chunk that comes first executes: *e<sub>i</sub>* and *s<sub>i</sub>* are the sums of
//! the first two. So for any *t* from *a* on with *t < f*
//!
//! > *f - t <= e<sub>i</sub> + s<sub>i</sub> + (execution of others in [t, f) that comes first)*
//!
//! With the life *l<sub>j</sub>* of another task these chunks have releases in *(t - l<sub>j</sub>, f)*. So they execute for
//! *ceil((f - t + l<sub>j</sub>) / p<sub>j</sub>) e<sub>j</sub>* at most.
//!
//! - **Jobs in one chunk.** If each job of *j* keeps its declarations, it is one chunk, and jobs end in their order. Let the first of
//!   them execute for *x <= e<sub>j</sub>* in the window: it is released after *t - l<sub>j</sub> + x*. The jobs after it begin with releases *p<sub>j</sub>*
//!   apart. So it is as if the first were released after *t - (l<sub>j</sub> - e<sub>j</sub>)*: either the number of jobs is the same, or the
//!   last one is released so late that it executes for *e<sub>j</sub> - x* at most. The jitter is *l<sub>j</sub> - e<sub>j</sub>* (Chen and others 2019;
//!   jitter of *s<sub>j</sub>* is wrong).
//! - **Any chunks.** A task that nobody relies on may have part of its budget in an old chunk and the rest in a new one. Then the last
//!   argument fails, and the jitter is *l<sub>j</sub>*.
//! - **Fixed priorities, no suspension.** A chunk of higher priority that is ready executes at once, but for other ones of higher
//!   priority. Let the window begin before *a*, at the last instant before which none of these executed: then no such chunk of
//!   a task that never rests is left from before. The jitter is zero, and the job's response is no longer than that window. Tasks with
//!   equal priority may be left, as the job before this one may have executed.
//! - **Deadlines.** Chunks that come first have deadlines that are not later: they are released in
//!   *(t - l<sub>j</sub>, a + d<sub>i</sub> - d<sub>j</sub>]*. That is one more bound on their number, and it is smaller if the window begins later. So with
//!   *t = a + b* the response is at most *b* and the window, for each *b >= 0* (Günzel, von der Brüggen, Chen 2022).
//!
//! # Lives
//!
//! A job that keeps its declarations has its response time as its life, and so has a chunk of a task that cannot rest without a new
//! key. Other tasks may rest for as long as the kernel lets them: while jobs that come first execute, or are suspended by their own
//! allowance; and else for their own allowance. That is at most the response time of suspension-oblivious analysis, which enforces it.
//!
//! Bounds and lives depend on each other. They are computed in turn, from no interference on, until none grows. These hold: until the first chunk
//! that lives for longer, all others are within their lives.
//!
//! # Conditions
//!
//! Response times within the periods, as no job waits for the one before it; one CPU; nothing that comes before all tasks. The
//! number of holds before each of the job's requests is known whatever executes meanwhile.
//!
//! # Source
//!
//! Chen, Nelissen, Huang and others 2019, *Many suspensions, many problems* (doi 10.1007/s11241-018-9316-9); Chen, Nelissen, Huang
//! 2016; Günzel and others 2022 for deadlines. Chunks, lives that a kernel enforces, and their jitter are ours.

use fusee_sched::key::{Policy, PriorityPoint};
use fusee_sched::time::Nanoseconds;

use crate::locks::Rest;
use crate::task::Cluster;
use crate::uniprocessor::{HORIZON, LOOKS, Looks, Response};

/// The number of times that all are computed before giving up.
const ROUNDS: usize = 10_000;

/// The response time of each task that has one, no longer than its period. `executing` is the cluster with the execution of jobs,
/// `whole` with their suspension, too; `enforced`: response times with suspension as execution.
pub(crate) fn responses(
    executing: &Cluster,
    whole: &Cluster,
    rests: &[Rest],
    enforced: &[Option<Nanoseconds>],
) -> Vec<Option<Response>> {
    let tasks = whole.tasks().len();
    let rest = |task: usize| rests.get(task).copied().unwrap_or_default();
    let is_bounded = |task: usize| rest(task).is_counted || never_rests(executing, whole, rests, task);
    let nothing = |task: usize| Response { longest: whole.tasks()[task].execution, ..Response::default() };
    let mut found: Vec<Option<Response>> = (0..tasks).map(|task| is_bounded(task).then(|| nothing(task))).collect();
    let mut looks = Looks(LOOKS);
    for _ in 0..ROUNDS {
        let lives = lives(executing, whole, rests, enforced, &found);
        let study = Study { executing, whole, rests, lives: &lives };
        let mut next = Vec::with_capacity(tasks);
        for (task, own) in found.iter().enumerate() {
            let own = own.and_then(|_| study.response(task, &mut looks));
            next.push(own.filter(|own| own.longest <= whole.tasks()[task].period));
        }
        if next == found {
            return found;
        }
        found = next;
    }
    vec![None; tasks]
}

/// The life of each task that has a bound on it, with these response times.
pub(crate) fn lives(
    executing: &Cluster,
    whole: &Cluster,
    rests: &[Rest],
    enforced: &[Option<Nanoseconds>],
    found: &[Option<Response>],
) -> Vec<Option<Nanoseconds>> {
    let life = |task: usize| {
        let is_kept = rests.get(task).is_some_and(Rest::is_kept) || never_rests(executing, whole, rests, task);
        let own = found[task].map(|own| own.longest).filter(|_| is_kept);
        own.into_iter().chain(enforced.get(task).copied().flatten()).min()
    };
    (0..whole.tasks().len()).map(life).collect()
}

/// The windows in which jobs end, with these lives: for each task the beginning after that of the job, and the length.
pub(crate) fn windows(
    executing: &Cluster,
    whole: &Cluster,
    rests: &[Rest],
    lives: &[Option<Nanoseconds>],
) -> Vec<Option<(u64, u64)>> {
    let study = Study { executing, whole, rests, lives };
    let mut looks = Looks(LOOKS);
    let window = |task: usize| study.window(task, &study.others(task)?, &mut looks);
    (0..whole.tasks().len()).map(window).collect()
}

/// Whether a chunk of `task` that is ready executes unless others come first: it is not suspended before it is used up, and no other
/// thread ever runs on it.
fn never_rests(executing: &Cluster, whole: &Cluster, rests: &[Rest], task: usize) -> bool {
    let is_alone = rests.get(task).is_some_and(|rest| rest.is_alone);
    is_alone && executing.tasks()[task].execution == whole.tasks()[task].execution
}

/// One computation of all bounds.
struct Study<'a> {
    executing: &'a Cluster,
    whole: &'a Cluster,
    rests: &'a [Rest],
    lives: &'a [Option<Nanoseconds>],
}

/// Work of another task that may come before a job.
struct Other {
    task: usize,
    execution: u64,
    period: u64,
    /// The additional length of the interval of releases.
    jitter: u128,
    /// The length of the interval of releases of chunks with deadlines that are not later, for a window that begins with the job.
    reach: Option<i128>,
}

impl Other {
    /// The longest time that it executes in a window of `length` that begins `later` than the job.
    fn work(&self, length: u128, later: u64) -> u128 {
        let period = u128::from(self.period);
        let begun = (length + self.jitter).div_ceil(period);
        let due = self.reach.map(|reach| u128::try_from(reach - i128::from(later)).unwrap_or(0).div_ceil(period));
        due.map_or(begun, |due| due.min(begun)) * u128::from(self.execution)
    }
}

impl Study<'_> {
    /// The response time of `task`, if it is not beyond the search; `None`: some life that it depends on is not known.
    fn response(&self, task: usize, looks: &mut Looks) -> Option<Response> {
        let others = self.others(task)?;
        let (later, length) = self.window(task, &others, looks)?;
        let end = later + length;
        let parts = others.iter().map(|other| (other.work(length.into(), later), other.task));
        Some(Response {
            longest: Nanoseconds(end),
            interference: Nanoseconds(end.saturating_sub(self.whole.tasks()[task].execution.0)),
            largest: parts.filter(|(work, _)| *work > 0).max().map(|(_, other)| other),
        })
    }

    /// The window in which a job of `task` ends earliest: its beginning after that of the job, and its length.
    fn window(&self, task: usize, others: &[Other], looks: &mut Looks) -> Option<(u64, u64)> {
        let own = u128::from(self.whole.tasks()[task].execution.0);
        let period = self.whole.tasks()[task].period.0;
        let longest = u128::from(period);
        let mut best = window(own, longest, others, 0, looks).map(|end| (end, 0));
        for later in laters(others, best.map_or(period, |(end, _)| end), looks) {
            if best.is_some_and(|(end, _)| end <= later) {
                break;
            }
            let length = window(own, longest.saturating_sub(later.into()), others, later, looks);
            best = length.map(|length| (later + length, later)).into_iter().chain(best).min();
        }
        best.map(|(end, later)| (later, end - later))
    }

    /// The tasks with chunks that may come before a job of `task`.
    fn others(&self, task: usize) -> Option<Vec<Other>> {
        let scheduled = self.whole.scheduled();
        let point = |task: usize| self.whole.policy().priority_point(&scheduled[task].parameters(1));
        let deadline = |task: usize| i128::from(self.whole.tasks()[task].deadline.0);
        let mut others = Vec::new();
        for other in (0..self.whole.tasks().len()).filter(|other| *other != task) {
            let has_fixed = match (point(task), point(other)) {
                (PriorityPoint::Constant(own), PriorityPoint::Constant(point)) if point > own => continue,
                (PriorityPoint::Constant(own), PriorityPoint::Constant(point)) => Some(point < own),
                _ => None,
            };
            let one = self.executing.tasks()[other];
            let is_gone = has_fixed == Some(true) && never_rests(self.executing, self.whole, self.rests, other);
            let life = self.lives[other];
            let rest = self.rests.get(other).copied().unwrap_or_default();
            let jitter = match () {
                () if is_gone => 0,
                () if rest.is_kept() => u128::from(life?.0.saturating_sub(one.execution.0)),
                () => u128::from(life?.0),
            };
            let reach = match has_fixed {
                Some(_) => None,
                None => Some(deadline(task) - deadline(other) + i128::from(life?.0)),
            };
            others.push(Other { task: other, execution: one.execution.0, period: one.period.0, jitter, reach });
        }
        Some(others)
    }
}

/// The beginnings of windows, after that of the job and before `end`, with which fewer chunks come first.
fn laters(others: &[Other], end: u64, looks: &mut Looks) -> Vec<u64> {
    let mut laters = Vec::new();
    for other in others {
        let Some(reach) = other.reach.and_then(|reach| u64::try_from(reach).ok()) else { continue };
        let mut later = reach % other.period;
        while later <= reach && later < end && looks.spend_number(others.len() as u64).is_ok() {
            laters.extend((later > 0).then_some(later));
            later += other.period;
        }
    }
    laters.sort_unstable();
    laters.dedup();
    laters
}

/// The least length of a window in which `own` and the work of others are done, if it is not above `longest`.
fn window(own: u128, longest: u128, others: &[Other], later: u64, looks: &mut Looks) -> Option<u64> {
    let mut length = own;
    loop {
        looks.spend_number(others.len() as u64 + 1).ok()?;
        if length > longest || length > HORIZON.into() {
            return None;
        }
        let next = own + others.iter().map(|other| other.work(length, later)).sum::<u128>();
        if next == length {
            return u64::try_from(length).ok();
        }
        length = next;
    }
}
