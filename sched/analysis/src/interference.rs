//! Response times on several CPUs by interference: the tasks that can keep a job from running, and for how long together.
//!
//! A job of task `k` that is not complete after `x` has computed for less than `C_k`, so for more than `x - C_k` all `m` CPUs were
//! busy with other jobs that come first. No task takes more than all of that time, for it runs on one CPU at a time, nor more than
//! it has work. If the sum over all tasks is below `m` times that time, the job is complete. So its response time is at most the
//! least solution of
//!
//! ```text
//! x = C_k + floor((sum over other tasks i of min(I_i(x), x - C_k + 1)) / m)
//! ```
//!
//! All times are whole nanoseconds, which the rounding needs.
//!
//! # How much work a task has in a window
//!
//! Task `i` has at most `w_i(l) = floor(l / T_i) C_i + min(C_i, l mod T_i)` of work that becomes available within `l`. If no work
//! of it ever waits for longer than `d_i` (its *delay*, `R_i - C_i` of a task with a response bound `R_i`), its execution in a
//! window of length `x` became available at most `d_i` before:
//!
//! - *any policy*: `w_i(x + d_i)`;
//! - *without work from before the window*: `w_i(x)`;
//! - *points after releases* (EDF, FL), with relative points `y`: jobs of `i` that come before a job released at 0 are
//!   released at `y_k - y_i` at the latest: `w_i(y_k - y_i + d_i + C_i)`.
//!
//! A task of which no bound is known takes a CPU for itself.
//!
//! # Constant points: limited carry-in
//!
//! Under RM, DM and FP the window starts at the last instant `t0`, not after the release, before which some CPU was not
//! busy with tasks that come before `k`. Until the job is complete all CPUs are, or it runs. At `t0` those with pending
//! work were all running, on `m - 1` CPUs at most: only `m - 1` tasks bring work from before, those that gain most by it.
//!
//! *Ties* go either way in this kernel. So a task with the point of `k` counts as one that comes first. And it may have waited,
//! before `t0`, for an earlier job of `k`: it brings work from before in any case, besides those `m - 1`.
//!
//! # Points after releases
//!
//! The window starts with the release, and the time that task `i` takes is the smaller of the bounds for any policy and for its
//! points. The argument needs nothing of points but that jobs are ordered by them, so it holds for FL as for EDF.
//!
//! # Delays and bounds from each other
//!
//! Delays follow from response bounds, and these from delays. All start at zero and grow, until no bound asks for a larger
//! delay. Bounds found so hold: consider the first instant at which a job is not complete by its bound. Until then
//! no work was delayed for longer than assumed, so the job was complete by its bound.
//!
//! The first job of a task to be late must not find an earlier one pending. So a bound longer than the period is none, for any
//! deadline; then the delay is the task's bound from elsewhere, if it has one.
//!
//! # Tasks that suspend and come back
//!
//! A reservation without a runner that gets one again continues as released then, with the rest of its budget. Such pieces become
//! available at most `C_i` in any `T_i` and one at a time, so `w_i` holds for them; each computes for `C_i` at most, and is delayed
//! no longer than a whole job. For bounds from elsewhere, which may hold only for the end of whole jobs, the delay is taken to be
//! all of the bound.
//!
//! Not here: arbitrary deadlines with bounds beyond the period (Guan et al. have them), limited carry-in under EDF
//! (Baruah 2007).
//!
//! # Source
//! Bertogna, Cirinei 2007 (any policy and EDF, with slack); Guan, Stigge, Yi, Yu 2009 (limited carry-in), whose `C_i - 1` of work
//! carried in is `C_i` here. Least solutions instead of the printed iteration from deadlines downwards: it finds no
//! smaller ones, and nothing where some task fails. Ties and FL are ours. `tests/interference.rs` has the printed forms.

use fusee_sched::key::{Policy, PriorityPoint};
use fusee_sched::time::Nanoseconds;

use crate::task::{Cluster, Task};
use crate::uniprocessor::{Response, Unanswered};

/// The number of tasks that one analysis may look at: some tens of milliseconds of the host's time.
const LOOKS: u64 = 1 << 21;

/// The number of times that delays and bounds are computed from each other. Bounds that grow after that are given up, one by one:
/// those tasks have the delays that are known from elsewhere, which only makes the others' bounds longer.
const ROUNDS: usize = 40;

/// A bound on the response time of each task that has one by interference, up to its period.
///
/// `scheduled`: the tasks as the kernel knows them, which is without its own overheads. `known`: response times that are proved
/// by other means.
///
/// # Errors
/// [`Unanswered::GaveUp`] after many looks.
pub fn responses(
    cluster: &Cluster,
    scheduled: &[Task],
    known: &[Option<Nanoseconds>],
) -> Result<Vec<Option<Response>>, Unanswered> {
    let cpus = cluster.cpus();
    let point = |task: &Task| cluster.policy().priority_point(&task.parameters(cpus));
    let points: Vec<PriorityPoint> = scheduled.iter().map(point).collect();
    let tasks: Vec<Load> = cluster.tasks().iter().map(Load::of).collect();
    // A longer bound is worth no more than none.
    let known = known.iter().map(|bound| bound.map(|bound| bound.0).filter(|bound| *bound <= 1 << 60)).collect();
    let delays = tasks.iter().map(|task| (task.execution <= task.period).then_some(0)).collect();
    let mut search = Search {
        cpus: u128::from(cpus),
        waits: vec![Some(0); tasks.len()],
        interfering: (0..tasks.len()).map(|task| interfering(&points, task)).collect(),
        tasks,
        known,
        delays,
        looks: LOOKS,
    };
    let mut rounds = 0;
    while search.round(rounds >= ROUNDS)? {
        rounds += 1;
    }
    Ok((0..search.tasks.len()).map(|task| search.response(task)).collect())
}

/// A task, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Load {
    execution: u64,
    period: u64,
}

impl Load {
    fn of(task: &Task) -> Load {
        Load { execution: task.execution.0, period: task.period.0 }
    }

    /// The most work that becomes available within `window`; for tasks that need a CPU at most.
    fn work(self, window: u64) -> Piece {
        let (jobs, rest) = (window / self.period, window % self.period);
        match self.execution.checked_sub(rest).filter(|left| *left > 0) {
            Some(left) => Piece { value: jobs * self.execution + rest, grows: true, span: left },
            None => Piece { value: (jobs + 1) * self.execution, grows: false, span: self.period - rest },
        }
    }
}

/// The time that a task takes, as a function of a job's wait, from one instant on: a straight line.
#[derive(Clone, Copy, Debug)]
struct Piece {
    value: u64,
    /// The value grows by a nanosecond for each, or not at all.
    grows: bool,
    /// For so long, at least one nanosecond.
    span: u64,
}

impl Piece {
    /// One that does not end.
    fn level(value: u64) -> Piece {
        Piece { value, grows: false, span: u64::MAX }
    }

    /// All the time of a job that waits for so long.
    fn all(value: u64) -> Piece {
        Piece { value, grows: true, span: u64::MAX }
    }

    /// The smaller one. Neither falls, so the one that does not grow stays the smaller one, and the other does until
    /// it reaches it.
    fn min(self, other: Piece) -> Piece {
        let is_first = (self.value, self.grows) <= (other.value, other.grows);
        let (small, large) = if is_first { (self, other) } else { (other, self) };
        match small.grows {
            true if large.value > small.value => Piece { span: small.span.min(large.value - small.value), ..small },
            // Both grow, from the same value.
            true => Piece { span: small.span.min(large.span), ..small },
            false => small,
        }
    }
}

/// The condition under which a task comes before another.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// Always.
    Always,
    /// Perhaps: their points are equal.
    Tied,
    /// With jobs released so much later, or earlier if that is below zero, at the latest.
    Until(i64),
}

/// The tasks that may come before the one at `own`, and when.
fn interfering(points: &[PriorityPoint], own: usize) -> Vec<(usize, Before)> {
    let others = points.iter().enumerate().filter(|(other, _)| *other != own);
    let before = |(other, point): (usize, &PriorityPoint)| {
        let before = match (points[own], *point) {
            (PriorityPoint::Constant(own), PriorityPoint::Constant(point)) if point > own => return None,
            (PriorityPoint::Constant(own), PriorityPoint::Constant(point)) if point == own => Before::Tied,
            // No point of a task is above 2^58.
            (PriorityPoint::AfterRelease(own), PriorityPoint::AfterRelease(point)) => {
                Before::Until(own.0 as i64 - point.0 as i64)
            }
            _ => Before::Always,
        };
        Some((other, before))
    };
    others.filter_map(before).collect()
}

/// The time that all tasks take together, as a function of a job's wait, from one instant on. The tasks that carry work in may be
/// others before the end of it; then the sum is less than they take.
struct Sum {
    value: u128,
    slope: u128,
    span: u64,
}

impl Sum {
    fn add(&mut self, piece: Piece) {
        self.value += u128::from(piece.value);
        self.slope += u128::from(piece.grows);
        self.span = self.span.min(piece.span);
    }
}

/// Work that becomes available up to some instant, counted from where a window begins, less the delay.
#[derive(Clone, Copy, Debug)]
struct InTime {
    until: u64,
    value: u64,
}

/// The values known so far. Delays and waits only grow.
struct Search {
    cpus: u128,
    tasks: Vec<Load>,
    interfering: Vec<Vec<(usize, Before)>>,
    /// Bounds from elsewhere, by task.
    known: Vec<Option<u64>>,
    /// The wait of jobs, by task; `None` if its bound would exceed the period.
    waits: Vec<Option<u64>>,
    /// The time for which work waits, by task; `None`: it is unknown.
    delays: Vec<Option<u64>>,
    looks: u64,
}

impl Search {
    /// Computes the waits of all tasks from the delays so far; whether a delay has grown. `is_last`: a wait that grows is given up.
    fn round(&mut self, is_last: bool) -> Result<bool, Unanswered> {
        let mut has_grown = false;
        for task in 0..self.tasks.len() {
            let Some(start) = self.waits[task] else { continue };
            self.waits[task] = self.wait(task, start)?.filter(|wait| !is_last || *wait == start);
            let fits = self.tasks[task].execution <= self.tasks[task].period;
            let delay = match (self.waits[task], self.known[task].filter(|_| fits)) {
                (Some(wait), Some(known)) => Some(wait.min(known)),
                (wait, known) => wait.or(known),
            };
            has_grown |= delay != self.delays[task];
            self.delays[task] = delay;
        }
        Ok(has_grown)
    }

    /// The least wait of `task`, not below `start`, for which its interference is enough.
    fn wait(&mut self, task: usize, start: u64) -> Result<Option<u64>, Unanswered> {
        let Load { execution, period } = self.tasks[task];
        let mut wait = start;
        let in_time = self.in_time(task);
        loop {
            if execution + wait > period {
                return Ok(None);
            }
            let spent = self.interfering[task].len() as u64 + 1;
            self.looks = self.looks.checked_sub(spent).ok_or(Unanswered::GaveUp)?;
            let Sum { value, slope, span } = self.interference(task, wait, &in_time);
            let Some(excess) = value.checked_sub(self.cpus * (u128::from(wait) + 1)) else { return Ok(Some(wait)) };
            // The least solution on this straight line, or its end.
            let steps = match self.cpus.checked_sub(slope).filter(|left| *left > 0) {
                Some(left) => u64::try_from(excess / left + 1).unwrap_or(u64::MAX).min(span),
                None => span,
            };
            // A wait shorter than the time taken already cannot be enough either, as less is never taken in a longer one.
            let taken = u64::try_from(value / self.cpus).unwrap_or(u64::MAX);
            wait = wait.saturating_add(steps).max(taken).min(period);
        }
    }

    /// The most time of all CPUs that others take from a job of `task` in which it waits for one nanosecond longer than `wait`.
    fn interference(&self, task: usize, wait: u64, in_time: &[InTime]) -> Sum {
        let mut sum = Sum { value: 0, slope: 0, span: u64::MAX };
        // The times that tasks take with work from before the window, and without.
        let mut carried: Vec<(Piece, Piece)> = Vec::new();
        for ((other, before), in_time) in self.interfering[task].iter().zip(in_time) {
            let with = self.taken(task, wait, *other, *in_time);
            match before {
                Before::Always => carried.push((with, self.taken_without_carry_in(task, wait, *other))),
                Before::Tied | Before::Until(_) => sum.add(with),
            }
        }
        let carriers = usize::try_from(self.cpus - 1).unwrap_or(usize::MAX).min(carried.len());
        if carriers > 0 && carriers < carried.len() {
            let gain = |(with, without): &(Piece, Piece)| std::cmp::Reverse(with.value - without.value);
            carried.select_nth_unstable_by_key(carriers - 1, gain);
        }
        carried[..carriers].iter().for_each(|(with, _)| sum.add(*with));
        carried[carriers..].iter().for_each(|(_, without)| sum.add(*without));
        sum
    }

    /// The work that may come before a job of `task` by points alone, for any wait of the job: of each task that may.
    fn in_time(&self, task: usize) -> Vec<InTime> {
        let of = |(other, before): &(usize, Before)| match (*before, self.delays[*other]) {
            (Before::Until(last), Some(delay)) => {
                let load = self.tasks[*other];
                let until = i128::from(last) + i128::from(delay) + i128::from(load.execution);
                let until = u64::try_from(until).unwrap_or(0);
                InTime { until, value: load.work(until).value }
            }
            _ => InTime { until: u64::MAX, value: u64::MAX },
        };
        self.interfering[task].iter().map(of).collect()
    }

    /// The most that `other` takes of it, with work from before the window.
    fn taken(&self, task: usize, wait: u64, other: usize, in_time: InTime) -> Piece {
        let (load, all) = (self.tasks[other], Piece::all(wait + 1));
        let Some(delay) = self.delays[other] else { return all };
        let window = self.tasks[task].execution + wait + delay;
        let in_time_at_most = Piece::level(in_time.value).min(all);
        // No less work becomes available in a longer window.
        if window >= in_time.until { in_time_at_most } else { load.work(window).min(in_time_at_most) }
    }

    /// The time that `other` takes with work that becomes available in the window.
    fn taken_without_carry_in(&self, task: usize, wait: u64, other: usize) -> Piece {
        let (load, all) = (self.tasks[other], Piece::all(wait + 1));
        if load.execution > load.period {
            return all;
        }
        load.work(self.tasks[task].execution + wait).min(all)
    }

    /// The bound of `task`, and the task that contributes most.
    fn response(&self, task: usize) -> Option<Response> {
        let wait = self.waits[task]?;
        let in_time = self.in_time(task);
        let taken = self.interfering[task].iter().zip(&in_time);
        let taken = taken.map(|((other, _), in_time)| (self.taken(task, wait, *other, *in_time).value, *other));
        let largest = taken.filter(|(taken, _)| *taken > 0 && wait > 0).max().map(|(_, other)| other);
        let longest = Nanoseconds(self.tasks[task].execution + wait);
        Some(Response { longest, interference: Nanoseconds(wait), largest })
    }
}
