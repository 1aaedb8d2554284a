//! Jobs that wait for long: bounds for which waiting is no execution.
//!
//! The cost of a task has parts in which its jobs wait. They count for its own response, and not for those of others.

use crate::format::{By, Span, Suspended, Window};
use crate::model::{Effort, LONGEST, Model, each};
use crate::refusal::{Condition, Failed, at_most, unlike};

/// Whether the witness bounds all response times: `C` and the execution of all jobs of others that may be pending meanwhile, over the CPUs.
/// A job of another task is pending within a job's response time only if it is released in that, or within its own before.
pub(crate) fn windows(model: &Model<'_>, effort: &mut Effort) -> Result<(), (usize, Failed)> {
    let whole = |failed: Failed| (usize::MAX, failed);
    let spans = each(model, &model.cluster.witness.windows).map_err(whole)?;
    let costs = model.costs().map_err(whole)?;
    for (task, span) in spans.iter().enumerate() {
        let of = |failed: Failed| (task, failed);
        let own = u128::from(*span);
        at_most(Condition::Longest, own, LONGEST.into()).map_err(of)?;
        at_most(Condition::Period, own, model.loads[task].period).map_err(of)?;
        effort.take(spans.len()).map_err(of)?;
        let others = model.others(task).map(|(other, load)| {
            let window = own + u128::from(spans[other]);
            window.div_ceil(load.period) * load.executing
        });
        let work = others.sum::<u128>() / model.cpus;
        at_most(Condition::Window, costs[task] + work, own).map_err(of)?;
    }
    Ok(())
}

/// The bound of a task by [`windows`].
pub(crate) fn windows_bound(model: &Model<'_>, task: usize) -> Result<u128, Failed> {
    Ok(each(model, &model.cluster.witness.windows)?[task].into())
}

/// Whether the witness bounds the response times of all tasks with a window, on one CPU.
///
/// Another task delays a job by its execution only, of pieces of jobs that are released within the window or its *life* before: no piece
/// executes later than that after its release. The lives and the bounds hold together: until the first piece that lives for
/// longer, all others are within theirs.
///
/// - If each job is one piece, the first one in the window is released so much later as it executes before it ends: the life counts less the
///   execution.
/// - Under fixed priorities a more urgent task that never rests has nothing left from before a window that begins when none of these
///   executes.
/// - Under EDF pieces with later deadlines do not come first.
///
/// Source: Chen and others 2019; Günzel and others 2022, for EDF.
pub(crate) fn suspension(model: &Model<'_>, effort: &mut Effort) -> Result<(), (usize, Failed)> {
    let whole = |failed: Failed| (usize::MAX, failed);
    model.has_one_cpu().map_err(whole)?;
    let all = each(model, &model.cluster.witness.suspension).map_err(whole)?;
    for task in 0..all.len() {
        let of = |failed: Failed| (task, failed);
        effort.take(all.len()).map_err(of)?;
        life(model, task, &all[task]).map_err(of)?;
        let Some(window) = all[task].window else { continue };
        if !all[task].counted && !never_rests(model, task, &all[task]) {
            return Err(of(Failed::plain(Condition::Counted)));
        }
        is_enough(model, task, window, all).map_err(of)?;
    }
    Ok(())
}

/// Whether a piece of `task` that is ready is neither suspended before its end nor left to others.
fn never_rests(model: &Model<'_>, task: usize, one: &Suspended) -> bool {
    one.alone && model.loads[task].cost == Some(model.loads[task].executing)
}

/// Whether the life of `task` rests on its window, or on a claim by a test that takes its waits for execution.
fn life(model: &Model<'_>, task: usize, one: &Suspended) -> Result<(), Failed> {
    let Some(Span { span, elsewhere }) = one.life else { return Ok(()) };
    at_most(Condition::Longest, span.into(), LONGEST.into())?;
    let found = if elsewhere {
        model.claimed(task, |by| !matches!(by, By::Windows | By::Suspension))
    } else if one.counted && one.kept || never_rests(model, task, one) {
        one.window.map(|window| u128::from(window.later) + u128::from(window.length))
    } else {
        return Err(Failed::plain(Condition::Counted));
    };
    let span = u128::from(span);
    at_most(Condition::Elsewhere, found.ok_or(unlike(Condition::Elsewhere, span + 1, span))?, span)
}

/// Whether the cost of `task` and the execution of others are no more than the window is long.
fn is_enough(model: &Model<'_>, task: usize, window: Window, all: &[Suspended]) -> Result<(), Failed> {
    for span in [window.later, window.length] {
        at_most(Condition::Longest, span.into(), LONGEST.into())?;
    }
    let (later, length) = (u128::from(window.later), u128::from(window.length));
    let own = model.loads[task];
    at_most(Condition::Period, later + length, own.period)?;
    if !model.is_by_deadline() {
        at_most(Condition::Window, later, 0)?;
    }
    let mut work = model.cost(task)?;
    for (other, load) in model.others(task) {
        let one = &all[other];
        if !model.is_by_deadline() && load.point > own.point {
            continue;
        }
        model.cost(other)?;
        let is_gone = !model.is_by_deadline() && load.point < own.point && never_rests(model, other, one);
        let life = one.life.map(|life| u128::from(life.span));
        let needed = || life.ok_or(Failed::plain(Condition::Witness));
        let jitter = match () {
            () if is_gone => 0,
            () if one.counted && one.kept => needed()?.saturating_sub(load.executing),
            () => needed()?,
        };
        let mut jobs = (length + jitter).div_ceil(load.period);
        if model.is_by_deadline() {
            let reach = (own.deadline + needed()?).saturating_sub(load.deadline + later);
            jobs = jobs.min(reach.div_ceil(load.period));
        }
        work += jobs * load.executing;
    }
    at_most(Condition::Window, work, length)
}

/// The bound of a task by its window.
pub(crate) fn suspension_bound(model: &Model<'_>, task: usize) -> Result<u128, Failed> {
    let window = each(model, &model.cluster.witness.suspension)?[task].window;
    let window = window.ok_or(Failed::plain(Condition::Witness))?;
    Ok(u128::from(window.later) + u128::from(window.length))
}
