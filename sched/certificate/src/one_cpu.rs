//! One CPU: busy windows, and the work that is due.
//!
//! # Why an instant is a witness
//!
//! Let `W(t)` be the work that comes before the end of some job, and becomes available within `t` of the beginning of its busy window,
//! with all of the job's own. If `W(t) <= t` for some `t`, the job is complete by then: otherwise the CPU was busy with that work all
//! the time, did `t` of it, and had some of it left. `W` grows with later jobs of a task. So instants that serve for the jobs of a
//! window ascend with these jobs, and one may serve for many.
//!
//! Equal priorities and equal deadlines count against the job, as either may come first.

use crate::format::Policy;
use crate::model::{Effort, LONGEST, Model, ratio};
use crate::refusal::{Condition, Failed, at_most, at_most_fraction, unlike};

/// Instants that ascend, and the one in use.
struct Instants<'a> {
    rest: &'a [u64],
}

impl Instants<'_> {
    fn new(all: &[u64]) -> Result<Instants<'_>, Failed> {
        for pair in all.windows(2) {
            at_most(Condition::Ascending, u128::from(pair[0]) + 1, pair[1].into())?;
        }
        at_most(Condition::Longest, all.last().copied().unwrap_or(0).into(), LONGEST.into())?;
        Ok(Instants { rest: all })
    }

    /// An error unless `work` is done at an instant that is not after `end`. Work of later calls must not be less.
    fn serve(
        &mut self,
        end: u128,
        effort: &mut Effort,
        steps: usize,
        work: impl Fn(u128) -> u128,
    ) -> Result<(), Failed> {
        while let Some(first) = self.rest.first() {
            let instant = u128::from(*first);
            effort.take(steps)?;
            if work(instant) <= instant {
                return at_most(Condition::Job, instant, end);
            }
            self.rest = &self.rest[1..];
        }
        Err(unlike(Condition::Job, end + 1, end))
    }
}

/// A bound under fixed priorities.
///
/// Source: Lehoczky 1990; Tindell, Burns, Wellings 1994.
pub(crate) fn fixed_priorities(
    model: &Model<'_>,
    own: usize,
    response: u128,
    busy: u64,
    instants: &[u64],
    effort: &mut Effort,
) -> Result<(), Failed> {
    model.has_one_cpu()?;
    model.is_by(&[Policy::Rm, Policy::Dm, Policy::Fp])?;
    let (cost, load) = (model.cost(own)?, model.loads[own]);
    let mut before = Vec::new();
    for (other, one) in model.others(own).filter(|(_, one)| one.point <= load.point) {
        before.push((model.cost(other)?, one.period));
    }
    let others = |length: u128| before.iter().map(|(cost, period)| length.div_ceil(*period) * cost).sum::<u128>();
    at_most(Condition::Longest, busy.into(), LONGEST.into())?;
    at_most(Condition::Positive, 1, busy.into())?;
    let busy = u128::from(busy);
    at_most(Condition::Busy, busy.div_ceil(load.period) * cost + others(busy), busy)?;
    let mut instants = Instants::new(instants)?;
    let (mut release, mut all) = (0, cost);
    while release < busy {
        instants.serve(release + response, effort, before.len() + 1, |until| all + others(until))?;
        release += load.period;
        all += cost;
    }
    Ok(())
}

/// The busy window of all tasks: they are done with all their work in it.
pub(crate) fn busy(model: &Model<'_>) -> Result<u128, Failed> {
    let busy = model.cluster.witness.busy.ok_or(Failed::plain(Condition::Witness))?;
    at_most(Condition::Longest, busy.into(), LONGEST.into())?;
    at_most(Condition::Positive, 1, busy.into())?;
    let busy = u128::from(busy);
    let costs = model.costs()?;
    let work = model.loads.iter().zip(&costs).map(|(load, cost)| busy.div_ceil(load.period) * cost);
    at_most(Condition::Busy, work.sum(), busy)?;
    Ok(busy)
}

/// A bound under EDF. [`busy`] must hold.
///
/// A window begins with releases of all other tasks, and the job whose response counts is released `offset` after that. Work with later
/// deadlines does not count. It changes with offsets at which the job's deadline is one of another task, or its own task has one more
/// job. A later offset without such a change has the same work and a later end of its bound.
///
/// Source: Spuri 1996; George, Rivierre, Spuri 1996.
pub(crate) fn deadlines(
    model: &Model<'_>,
    own: usize,
    response: u128,
    instants: &[u64],
    effort: &mut Effort,
) -> Result<(), Failed> {
    model.has_one_cpu()?;
    model.is_by(&[Policy::Edf, Policy::Fl])?;
    let busy = model.cluster.witness.busy.map_or(0, u128::from);
    let (costs, load) = (model.costs()?, model.loads[own]);
    let mut instants = Instants::new(instants)?;
    let mut offset = 0;
    while offset < busy {
        let all = (offset / load.period + 1) * costs[own];
        let due: Vec<u128> =
            model.loads.iter().map(|one| jobs_due(offset + load.deadline, one.deadline, one.period)).collect();
        let work = |until: u128| {
            let jobs = |other: usize| until.div_ceil(model.loads[other].period).min(due[other]);
            all + model.others(own).map(|(other, _)| jobs(other) * costs[other]).sum::<u128>()
        };
        instants.serve(offset + response, effort, costs.len(), work)?;
        effort.take(costs.len())?;
        offset = next_offset(model, own, offset);
    }
    Ok(())
}

/// The jobs of a task that are released and due within `window`, which begins with a release.
fn jobs_due(window: u128, deadline: u128, period: u128) -> u128 {
    window.checked_sub(deadline).map_or(0, |rest| rest / period + 1)
}

/// The first offset after this one with more work.
fn next_offset(model: &Model<'_>, own: usize, offset: u128) -> u128 {
    let load = model.loads[own];
    let own_next = (offset / load.period + 1) * load.period;
    let others = model.others(own).map(|(_, one)| {
        let due = jobs_due(offset + load.deadline, one.deadline, one.period);
        one.deadline + due * one.period - load.deadline
    });
    others.fold(own_next, u128::min)
}

/// Whether EDF meets all deadlines.
///
/// The windows ascend from one in which nothing is due to the horizon. In any window from one of them on and shorter than the next, no
/// more is due than in the longest of these, and that is no more than the first.
///
/// Source: Baruah, Mok, Rosier 1990.
pub(crate) fn demand(model: &Model<'_>, effort: &mut Effort) -> Result<(), Failed> {
    model.has_one_cpu()?;
    model.is_by(&[Policy::Edf, Policy::Fl])?;
    let costs = model.costs()?;
    let windows = model.cluster.witness.demand.as_ref().ok_or(Failed::plain(Condition::Witness))?;
    Instants::new(windows)?;
    let due = |window: u128| {
        let all = model.loads.iter().zip(&costs);
        all.map(|(load, cost)| jobs_due(window, load.deadline, load.period) * cost).sum::<u128>()
    };
    let mut before = 0;
    for window in windows.iter().map(|window| u128::from(*window)) {
        effort.take(costs.len())?;
        // An empty window has no work, so the first is compared with zero.
        at_most(Condition::Demand, due(window.saturating_sub(1)), before)?;
        before = window;
    }
    let work = model.loads.iter().zip(&costs).map(|(load, cost)| before.div_ceil(load.period) * cost);
    if before > 0 && work.sum::<u128>() <= before {
        // A window of work that is due late can be cut into busy ones, and none of these is longer.
        return Ok(());
    }
    // From here on at most `sum of u (t + p - d)` is due within `t`, which grows no faster than `t`.
    let mut all = ratio(0, 1);
    let mut used = ratio(0, 1);
    for (load, cost) in model.loads.iter().zip(&costs) {
        at_most(Condition::Horizon, load.deadline, before + load.period)?;
        all += ratio(cost * (before + load.period - load.deadline), load.period);
        used += ratio(*cost, load.period);
    }
    at_most_fraction(Condition::Utilisation, used, ratio(1, 1))?;
    at_most_fraction(Condition::Horizon, all, ratio(before, 1))
}
