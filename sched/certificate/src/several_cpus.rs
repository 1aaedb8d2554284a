//! Several CPUs: densities, lateness by compliant vectors, tardiness, and interference.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};

use crate::format::{By, Policy, Span};
use crate::model::{Effort, LONGEST, Load, Model, each, ratio};
use crate::refusal::{Condition, Failed, at_most, at_most_fraction, unlike};

/// Whether global EDF meets all deadlines: the sum of `C / d` is at most `m - (m - 1)` times the largest.
///
/// Source: Goossens, Funk, Baruah 2003; Bertogna, Cirinei, Lipari 2005, for deadlines up to the period.
pub(crate) fn density(model: &Model<'_>) -> Result<(), Failed> {
    model.is_by(&[Policy::Edf])?;
    let (mut sum, mut largest) = (ratio(0, 1), ratio(0, 1));
    for (load, cost) in model.loads.iter().zip(model.costs()?) {
        at_most(Condition::Deadlines, load.deadline, load.period)?;
        at_most(Condition::Positive, 1, load.deadline)?;
        at_most(Condition::Cost, cost, load.deadline)?;
        let density = ratio(cost, load.deadline);
        largest = largest.max(density.clone());
        sum += density;
    }
    let room = ratio(model.cpus, 1) - largest * BigInt::from(model.cpus - 1);
    at_most_fraction(Condition::Density, sum, room)
}

/// The utilisations of all tasks, which fit the CPUs, and the number of CPUs that they cannot do without.
fn utilisations(model: &Model<'_>) -> Result<(Vec<BigRational>, usize), Failed> {
    let costs = model.costs()?;
    let each: Vec<BigRational> = model.loads.iter().zip(costs).map(|(load, cost)| ratio(cost, load.period)).collect();
    let sum: BigRational = each.iter().sum();
    let needed = sum.ceil().to_integer().to_usize().unwrap_or(usize::MAX);
    at_most_fraction(Condition::Utilisation, sum, ratio(model.cpus, 1))?;
    Ok((each, needed))
}

/// Priority points `m y`, of which the earliest is zero: to move all by one span changes no order.
fn points(model: &Model<'_>) -> Vec<i128> {
    let earliest = model.loads.iter().map(|load| load.point).min().unwrap_or(0);
    let cpus = model.cpus as i128;
    model.loads.iter().map(|load| cpus * (load.point - earliest)).collect()
}

/// Whether the witness bounds the work that is left at the priority point of any job.
///
/// With `x_i = (s - C_i) / m` and `S_i = C_i max(0, 1 - y_i / p_i)`, at most one task less than the CPUs that are needed carries
/// `x_i u_i + C_i - S_i` into the window before the point, and each task adds `S_i` in it. The sum must not exceed `s`. Each `x_i` must not be
/// negative where tasks carry work in.
///
/// Source: Erickson, Anderson, Ward 2014.
pub(crate) fn compliant(model: &Model<'_>) -> Result<(), Failed> {
    model.is_by(&[Policy::Edf, Policy::Fl])?;
    let (shares, needed) = utilisations(model)?;
    let left = fixed_point(model)?;
    let (costs, carriers) = (model.costs()?, needed.saturating_sub(1));
    if carriers > 0 {
        at_most(Condition::FixedPoint, costs.iter().copied().max().unwrap_or(0), left)?;
    }
    let mut sum = ratio(0, 1);
    let mut carried = Vec::new();
    for (task, point) in points(model).into_iter().enumerate() {
        let (cost, load) = (costs[task], model.loads[task]);
        let cpus = BigInt::from(model.cpus);
        let span = BigInt::from(load.period) * &cpus;
        let early = ratio((&span - BigInt::from(point)).max(BigInt::zero()) * cost, span);
        let wait = ratio(BigInt::from(left) - BigInt::from(cost), cpus);
        carried.push(&shares[task] * wait + ratio(cost, 1) - &early);
        sum += early;
    }
    carried.sort_unstable_by(|one, other| other.cmp(one));
    sum += carried.into_iter().take(carriers).filter(|work| work.is_positive()).sum::<BigRational>();
    at_most_fraction(Condition::FixedPoint, sum, ratio(left, 1))
}

fn fixed_point(model: &Model<'_>) -> Result<u128, Failed> {
    model.cluster.witness.fixed_point.map(u128::from).ok_or(Failed::plain(Condition::Witness))
}

/// The bound `y + x + C` of a task, rounded up.
pub(crate) fn compliant_bound(model: &Model<'_>, task: usize) -> Result<u128, Failed> {
    let all = fixed_point(model)? + (model.cpus - 1) * model.cost(task)? + points(model)[task].unsigned_abs();
    Ok(all.div_ceil(model.cpus))
}

/// Whether the witness bounds the part of tardiness that all tasks have: the longest costs of `L` tasks, less the shortest of all, are done
/// in it at the rate of the CPUs that the `L - 1` largest utilisations leave. `L` is one less than the CPUs that are needed.
///
/// Source: Devi, Anderson 2008.
pub(crate) fn tardiness(model: &Model<'_>) -> Result<(), Failed> {
    let policies: &[Policy] = if model.cpus == 1 { &[Policy::Edf, Policy::Fl] } else { &[Policy::Edf] };
    model.is_by(policies)?;
    for load in &model.loads {
        at_most(Condition::Deadlines, load.deadline, load.period)?;
        at_most(Condition::Deadlines, load.period, load.deadline)?;
    }
    let (mut shares, needed) = utilisations(model)?;
    let common = model.cluster.witness.tardiness.ok_or(Failed::plain(Condition::Witness))?;
    model.needed.get_or_init(|| needed);
    let carriers = needed.saturating_sub(1);
    if carriers == 0 {
        return Ok(());
    }
    let mut costs = model.costs()?;
    costs.sort_unstable_by(|one, other| other.cmp(one));
    shares.sort_unstable_by(|one, other| other.cmp(one));
    let carried = costs.iter().take(carriers).sum::<u128>() - costs.last().copied().unwrap_or(0);
    let rate = ratio(model.cpus, 1) - shares.iter().take(carriers - 1).sum::<BigRational>();
    at_most_fraction(Condition::Tardiness, ratio(carried, 1), rate * BigInt::from(common))
}

/// The bound of a task by its tardiness: none, if one CPU is enough for all.
pub(crate) fn tardiness_bound(model: &Model<'_>, task: usize) -> Result<u128, Failed> {
    let common = model.cluster.witness.tardiness.map_or(0, u128::from);
    let late = if model.needed.get().is_some_and(|needed| *needed <= 1) { 0 } else { common + model.cost(task)? };
    Ok(model.loads[task].deadline + late)
}

/// Whether the witness bounds the waits of all tasks: for each the time that others take leaves a CPU.
///
/// A job that is not complete `C + w` after the beginning of a window has waited for more than `w` in it, and all CPUs executed others that
/// come first meanwhile. So if these take less than `m (w + 1)` of that, the job is complete. All waits hold together: until the first
/// job that waits for longer than its own, all others are within theirs.
///
/// Source: Bertogna, Cirinei 2007; Guan and others 2009, for fixed priorities.
pub(crate) fn interference(model: &Model<'_>, effort: &mut Effort) -> Result<(), (usize, Failed)> {
    let delays = each(model, &model.cluster.witness.delays).map_err(|failed| (usize::MAX, failed))?;
    for (task, delay) in delays.iter().enumerate() {
        let Some(delay) = delay else { continue };
        is_kept(model, task, *delay, delays, effort).map_err(|failed| (task, failed))?;
    }
    Ok(())
}

fn is_kept(
    model: &Model<'_>,
    task: usize,
    delay: Span,
    delays: &[Option<Span>],
    effort: &mut Effort,
) -> Result<(), Failed> {
    at_most(Condition::Longest, delay.span.into(), LONGEST.into())?;
    let (wait, cost) = (u128::from(delay.span), model.cost(task)?);
    if delay.elsewhere {
        let by_others = |by: &By| !matches!(by, By::Interference | By::Windows | By::Suspension);
        let claimed = model.claimed(task, by_others).ok_or(unlike(Condition::Elsewhere, wait + 1, wait))?;
        return at_most(Condition::Elsewhere, claimed, wait);
    }
    at_most(Condition::Period, cost + wait, model.loads[task].period)?;
    effort.take(delays.len())?;
    at_most(Condition::Interference, taken(model, task, cost + wait, wait + 1, delays), model.cpus * (wait + 1) - 1)
}

/// The time that others take from a job of `task` in a window of `length`, of which they have no more than `most` each.
fn taken(model: &Model<'_>, task: usize, length: u128, most: u128, delays: &[Option<Span>]) -> u128 {
    let own = model.loads[task].point;
    let (mut sum, mut gains) = (0, Vec::new());
    for (other, load) in model.others(task) {
        let delay = delays[other].map(|delay| u128::from(delay.span));
        // With work from before the window; and all of it.
        let carrying = match (load.cost, delay) {
            (Some(cost), Some(delay)) => work(load, cost, length + delay).min(most),
            _ => most,
        };
        if model.is_by_deadline() {
            // Jobs that come first are released early enough for their points.
            let early = |cost: u128, delay: u128| own - load.point + (delay + cost) as i128;
            let in_time = load.cost.zip(delay).map(|(cost, delay)| {
                let until = u128::try_from(early(cost, delay)).unwrap_or(0);
                work(load, cost, until)
            });
            sum += in_time.map_or(carrying, |in_time| carrying.min(in_time));
        } else if load.point == own {
            sum += carrying;
        } else if load.point < own {
            let without = load.cost.map_or(most, |cost| work(load, cost, length).min(most));
            sum += without;
            gains.push(carrying - without);
        }
    }
    // The window begins when not all CPUs are busy with tasks that come first.
    gains.sort_unstable_by(|one, other| other.cmp(one));
    let carriers = usize::try_from(model.cpus - 1).unwrap_or(usize::MAX);
    sum + gains.into_iter().take(carriers).sum::<u128>()
}

/// The most work of a task that becomes available within `length`.
fn work(load: &Load, cost: u128, length: u128) -> u128 {
    length / load.period * cost + cost.min(length % load.period)
}

/// The bound of a task by its wait.
pub(crate) fn interference_bound(model: &Model<'_>, task: usize) -> Result<u128, Failed> {
    let delays = each(model, &model.cluster.witness.delays)?;
    let own = delays[task].filter(|delay| !delay.elsewhere).ok_or(Failed::plain(Condition::Witness))?;
    Ok(model.cost(task)? + u128::from(own.span))
}
