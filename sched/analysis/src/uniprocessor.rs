//! Exact tests for one CPU: which tasks can miss a deadline, and how long their jobs can take.
//!
//! All searches end: with a utilisation of at most one, a busy period is no longer than the least common multiple
//! of the periods. That can be long, so each question may look at [`LOOKS`] tasks; then it is [`GaveUp`].
//!
//! # Why ties count as interference
//!
//! Among jobs with equal priority points the kernel takes the task that was later last time. So in some run
//! either goes first, and for the worst case of each task it is the other.
//!
//! [`GaveUp`]: Unanswered::GaveUp

use fusee_sched::key::{Policy, PolicyName, PriorityPoint};
use fusee_sched::time::Nanoseconds;
use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use crate::task::Task;
use crate::utilisation::Utilisations;

/// The number of tasks that one question may look at: a fraction of a second of the host's time.
pub const LOOKS: u64 = 1 << 23;

/// Spans beyond it are not searched: 2^62 ns. Below it no product of this module overflows.
pub(crate) const HORIZON: u64 = 1 << 62;

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unanswered {
    /// There is none: the work never ends.
    Unbounded,
    /// The search grew too long.
    GaveUp,
}

/// The longest response time of a task, and its parts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Response {
    /// The time from release to completion.
    pub longest: Nanoseconds,
    /// Work of other tasks in the busy period up to then.
    pub interference: Nanoseconds,
    /// The task that brings the most of it.
    pub largest: Option<usize>,
}

//--- EDF

/// Whether EDF meets all deadlines: in no window may more work be due than the window is long.
///
/// Exact for any deadlines, by looking at few windows, the longest first.
///
/// # Errors
/// [`Unanswered::GaveUp`] after [`LOOKS`]. Overload is an answer: deadlines are missed.
///
/// # Source
/// Baruah, Mok, Rosier 1990; Zhang, Burns 2009 (QPA), for arbitrary deadlines too.
pub fn meets_demand(tasks: &[Task]) -> Result<bool, Unanswered> {
    let shares = Utilisations::of(tasks);
    if !shares.fit(1) || tasks.iter().any(|task| task.execution > task.deadline) {
        return Ok(false);
    }
    let mut looks = Looks(LOOKS);
    let busy = busy_period(tasks, &mut looks);
    let end = match (busy, demand_horizon(tasks, &shares)) {
        (Ok(busy), Some(horizon)) => busy.min(horizon),
        (Ok(end), None) | (Err(_), Some(end)) => end,
        (Err(gave_up), None) => return Err(gave_up),
    };
    let earliest = tasks.iter().map(|task| task.deadline.0).min().unwrap_or(0);
    let Some(mut window) = last_deadline_before(tasks, end) else { return Ok(true) };
    loop {
        looks.spend(tasks)?;
        let demand = others(tasks, tasks.len(), |task| jobs_due(task, window) * task.execution.0);
        window = match demand {
            demand if demand > window => return Ok(false),
            demand if demand <= earliest => return Ok(true),
            demand if demand < window => demand,
            _ => match last_deadline_before(tasks, window) {
                Some(deadline) => deadline,
                None => return Ok(true),
            },
        };
    }
}

/// Jobs released and due within `window`, the first at its start.
pub(crate) fn jobs_due(task: &Task, window: u64) -> u64 {
    if window < task.deadline.0 { 0 } else { (window - task.deadline.0) / task.period.0 + 1 }
}

/// The last absolute deadline before `end`, if all tasks are released at 0.
fn last_deadline_before(tasks: &[Task], end: u64) -> Option<u64> {
    let of_task =
        |task: &Task| Some(task.deadline.0 + (end - 1).checked_sub(task.deadline.0)? / task.period.0 * task.period.0);
    tasks.iter().filter(|_| end > 0).filter_map(of_task).max()
}

/// The window from which on no more can be due than fits: `sum of (p - d) u / (1 - U)`, or the longest `d - p`. `None` if U is 1,
/// or beyond the search.
pub(crate) fn demand_horizon(tasks: &[Task], shares: &Utilisations) -> Option<u64> {
    let spare = &shares.whole - shares.parts.iter().sum::<BigInt>();
    if spare.is_zero() {
        return None;
    }
    let slack = |task: &Task| i128::from(task.period.0) - i128::from(task.deadline.0);
    let excess: BigInt = tasks.iter().zip(&shares.parts).map(|(task, part)| part * slack(task)).sum();
    let longest = tasks.iter().map(|task| -slack(task)).max().unwrap_or(0).max(0);
    let rounded: BigInt = (excess + &spare - 1) / spare;
    let end = rounded.max(longest.into()).to_u64()?;
    (end < HORIZON).then_some(end)
}

/// The longest response time of each task under EDF, exact for any deadlines, met or not.
///
/// In the worst case all other tasks are released together, and the task's own jobs come so that some deadline
/// of another one coincides with theirs; every such offset within the longest busy period is tried.
///
/// # Errors
/// [`Unanswered::Unbounded`] if utilisations exceed 1.
///
/// # Source
/// Spuri 1996.
pub fn deadline_responses(tasks: &[Task]) -> Result<Vec<Response>, Unanswered> {
    if !Utilisations::of(tasks).fit(1) {
        return Err(Unanswered::Unbounded);
    }
    let mut looks = Looks(LOOKS);
    let busy = busy_period(tasks, &mut looks)?;
    (0..tasks.len()).map(|index| deadline_response(tasks, index, busy, &mut looks)).collect()
}

fn deadline_response(tasks: &[Task], index: usize, busy: u64, looks: &mut Looks) -> Result<Response, Unanswered> {
    let own = &tasks[index];
    let mut releases = Vec::new();
    for other in tasks {
        looks.spend_number(busy / other.period.0 + 1)?;
        let (early, late) = (own.deadline.0, other.deadline.0);
        let first = late + early.saturating_sub(late).div_ceil(other.period.0) * other.period.0 - early;
        releases.extend((first..busy).step_by(other.period.0 as usize));
    }
    releases.sort_unstable();
    releases.dedup();

    let mut worst = Response { longest: own.execution, interference: Nanoseconds::ZERO, largest: None };
    // A later release has a later completion, so that each search starts where the last one ended.
    let mut completion = 0;
    for release in releases {
        let own_work = (release / own.period.0 + 1) * own.execution.0;
        let deadline = release + own.deadline.0;
        let work = |other: &Task, until: u64| {
            until.div_ceil(other.period.0).min(jobs_due(other, deadline)) * other.execution.0
        };
        let others = |until| others(tasks, index, |other| work(other, until));
        completion = looks.fixed_point(tasks, completion.max(own_work), |until| own_work + others(until))?;
        if completion.saturating_sub(release) > worst.longest.0 {
            worst = Response {
                longest: Nanoseconds(completion - release),
                interference: Nanoseconds(completion - own_work),
                largest: largest(tasks, index, |other| work(other, completion)),
            };
        }
    }
    Ok(worst)
}

//--- Fixed priorities

/// The longest response time of task `index` under a policy with fixed priorities, exact for any deadlines.
///
/// All jobs of a busy period count, since with deadlines beyond periods the first need not be the slowest.
///
/// # Errors
/// [`Unanswered::Unbounded`] if the task and those before it have more work than the CPU can do.
///
/// # Source
/// Joseph, Pandya 1986; Lehoczky 1990.
pub fn fixed_priority_response(tasks: &[Task], policy: PolicyName, index: usize) -> Result<Response, Unanswered> {
    let point = |task: &Task| match policy.priority_point(&task.parameters(1)) {
        PriorityPoint::Constant(point) => point,
        PriorityPoint::AfterRelease(offset) => offset.0,
    };
    let own = &tasks[index];
    let comes_first = |task: &Task| point(task) <= point(own);
    let level: Vec<Task> = tasks.iter().filter(|task| comes_first(task)).copied().collect();
    if !Utilisations::of(&level).fit(1) {
        return Err(Unanswered::Unbounded);
    }
    let work = |other: &Task, until: u64| match comes_first(other) {
        true => until.div_ceil(other.period.0) * other.execution.0,
        false => 0,
    };
    let mut looks = Looks(LOOKS);
    let mut worst = Response { longest: Nanoseconds::ZERO, interference: Nanoseconds::ZERO, largest: None };
    let (mut release, mut own_work, mut completion) = (0, 0, 0);
    loop {
        own_work += own.execution.0;
        completion = looks.fixed_point(tasks, completion + own.execution.0, |until| {
            own_work + others(tasks, index, |other| work(other, until))
        })?;
        if completion - release > worst.longest.0 {
            worst = Response {
                longest: Nanoseconds(completion - release),
                interference: Nanoseconds(completion - own_work),
                largest: largest(tasks, index, |other| work(other, completion)),
            };
        }
        release += own.period.0;
        if completion <= release {
            return Ok(worst);
        }
    }
}

//--- Shared parts

/// The sum of `work` over all tasks but `index`; saturates, for [`Looks::fixed_point`] to give up.
fn others(tasks: &[Task], index: usize, work: impl Fn(&Task) -> u64) -> u64 {
    let each = tasks.iter().enumerate().filter(|(other, _)| *other != index);
    each.map(|(_, task)| work(task)).fold(0, u64::saturating_add)
}

/// The task but `index` with the most `work`, if any has some.
fn largest(tasks: &[Task], index: usize, work: impl Fn(&Task) -> u64) -> Option<usize> {
    let each = tasks.iter().enumerate().filter(|(other, _)| *other != index);
    each.map(|(other, task)| (work(task), other)).filter(|(work, _)| *work > 0).max().map(|(_, other)| other)
}

/// The longest span without idle time: from a common release to the first instant with no work left.
pub(crate) fn busy_period(tasks: &[Task], looks: &mut Looks) -> Result<u64, Unanswered> {
    let all = |until: u64| others(tasks, tasks.len(), |task| until.div_ceil(task.period.0) * task.execution.0);
    looks.fixed_point(tasks, all(1), all)
}

/// The number of further tasks that may be looked at.
pub(crate) struct Looks(pub(crate) u64);

impl Looks {
    fn spend(&mut self, tasks: &[Task]) -> Result<(), Unanswered> {
        self.spend_number(tasks.len() as u64)
    }

    pub(crate) fn spend_number(&mut self, number: u64) -> Result<(), Unanswered> {
        self.0 = self.0.checked_sub(number).ok_or(Unanswered::GaveUp)?;
        Ok(())
    }

    /// The least `t >= start` with `t = demand(t)`, for a growing `demand` with `demand(start) >= start`.
    fn fixed_point(&mut self, tasks: &[Task], start: u64, demand: impl Fn(u64) -> u64) -> Result<u64, Unanswered> {
        let mut time = start;
        loop {
            self.spend(tasks)?;
            if time > HORIZON {
                return Err(Unanswered::GaveUp);
            }
            let next = demand(time);
            if next == time {
                return Ok(time);
            }
            time = next;
        }
    }
}
