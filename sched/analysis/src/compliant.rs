//! Lateness under global EDF and FL, for any deadlines: compliant-vector analysis.
//!
//! Each task has a relative priority point `y`: its deadline under EDF, `d - ((m - 1) / m) e` under FL. With
//! `m^` = U rounded up, the smallest `s` is wanted that satisfies `s >= f(s)`, where
//!
//! ```text
//! S_i  = e_i max(0, 1 - y_i / p_i)              work of task i that a window holds beyond its share
//! x_i  = (s - e_i) / m                          how long after the priority point a job may have to wait
//! G(s) = sum of the m^ - 1 largest (x_i u_i + e_i - S_i)       work carried into the window
//! f(s) = G(s) + sum of all S_i
//! ```
//!
//! A job then ends no later than `y_i + x_i + e_i` after its release.
//!
//! # Why the fixed point is exact
//!
//! `f` is the largest of finitely many lines, one for each set of `m^ - 1` tasks, all less steep than 1. So the
//! fixed point of `f` is the largest of theirs, and each is one division. The search goes from set to set as
//! Newton does: from below, and each next set is steeper, until the best set at `s` is the one `s` came from.
//! Two lines cross once, so the best set changes fewer than n^2 times.
//!
//! # Why it is sound
//!
//! The text mixes `m` and `m^` without a reason. Here is one. Let job J of task k have its priority point at `t`; forget all jobs
//! after J in priority; let all others keep their bounds. Let `t0` be the last instant up to `t` before which fewer than `m^` CPUs
//! were busy. From `t0` to `t` at least `m^ >= U` CPUs work, so the remaining work at `t` is at most the excess over the fluid
//! shares `u_i (t - t0)`:
//!
//! - a task with nothing pending at `t0` adds at most `S_i`: its jobs with points in the window;
//! - one with a pending job, and there are at most `m^ - 1`, adds at most `x_i u_i + e_i`, because that job ends
//!   by its bound and its successors keep a distance of `p_i`.
//!
//! The sum is at most `f(s) <= s = m x_k + e_k`. After `t` all `m` CPUs are busy whenever J waits for one, which
//! gives J's bound, as in the proof of Devi and Anderson. Details that matter:
//!
//! - *J itself pending at `t0`* has no bound yet, but needs none if `x_k >= 0`. With `m^ = 1` nothing is pending.
//!   With `m^ >= 2`, any set A of `m^ - 1` tasks has its fixed point at or above the sum of
//!   `e_i (m - u_i) / (m - U_A)`, so above each `e_i` in it: `s >= e_k` for all k.
//! - *Negative terms of G* could only matter if fewer pending tasks were worse than `m^ - 1`. At the fixed point
//!   none is negative, since `s >= e_i` and a term is `u_i (s - e_i + min(m p_i, m y_i)) / m`.
//! - *Negative points* (FL with short deadlines) would let jobs be released after `t` and still come before J.
//!   So all points must be at or after their releases.
//!
//! # Why points may be shifted
//!
//! Priority points are only compared, so moving those of all tasks by one span changes no schedule, and each
//! shift that leaves `y >= 0` gives a bound. The bound never gets worse by moving points earlier: with set A, `s`
//! grows by at most `(U - U_A) / (1 - U_A / m) <= m` for each unit, so `y + x` does not grow. Hence
//! [`tightest`]: the earliest point is moved to zero. Without that, this analysis proves no deadline, for both
//! policies give lateness of at least `s / m >= 0`.
//!
//! # Source
//! Erickson, Guan, Baruah 2010; Erickson, Anderson, Ward 2014; Elliott 2015, eq. 2.22 and 2.23. The proof that
//! `m` and `m^` go together, and the shift to zero, are ours; `tests/schedules.rs` looks for counterexamples.

use fusee_sched::key::{Policy, PolicyName, PriorityPoint};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

use crate::plus;
use crate::task::{Cluster, Task};
use crate::utilisation::{Utilisations, greatest_common_divisor};

/// Bounds for one cluster. All times in nanoseconds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Compliant {
    /// The fixed point `s`.
    pub fixed_point: BigRational,
    /// The part of it that is the work carried in: `G(s)`.
    pub carried_in: BigRational,
    /// The relative priority points used, `m y_i`, none below zero.
    pub points: Vec<i128>,
    /// The work of each task that a window holds beyond its share: `m S_i`, over the denominator of the
    /// utilisations.
    pub early: Vec<BigInt>,
    /// Bounds on response times.
    pub responses: Vec<BigRational>,
}

impl Compliant {
    /// Bounds on lateness; may be negative.
    #[must_use]
    pub fn lateness(&self, tasks: &[Task]) -> Vec<BigRational> {
        let late = |(response, task): (&BigRational, &Task)| plus(response, -BigInt::from(task.deadline.0));
        self.responses.iter().zip(tasks).map(late).collect()
    }
}

/// Bounds by the formulas as they are printed, with points as exact as they are there; `None` unless the
/// policy is EDF or FL and the utilisation fits the CPUs.
///
/// Only if a point lies before its release are all of them moved, which the text leaves open.
#[must_use]
pub fn textbook(cluster: &Cluster, shares: &Utilisations) -> Option<Compliant> {
    let cpus = i128::from(cluster.cpus());
    let point = |task: &Task| {
        let (execution, deadline) = (i128::from(task.execution.0), i128::from(task.deadline.0));
        match cluster.policy() {
            PolicyName::Edf => Some(cpus * deadline),
            PolicyName::Fl => Some(cpus * deadline - (cpus - 1) * execution),
            _ => None,
        }
    };
    let points: Vec<i128> = cluster.tasks().iter().map(point).collect::<Option<_>>()?;
    let earliest = points.iter().copied().min().unwrap_or(0);
    bounds(cluster, shares, points, earliest.min(0))
}

/// The smallest bounds the analysis can give, with the points that the kernel uses: whole nanoseconds, and the
/// earliest of them moved to zero. `None` as for [`textbook`].
///
/// `scheduled`: the tasks as the kernel knows them, which is without its own overheads.
#[must_use]
pub fn tightest(cluster: &Cluster, shares: &Utilisations, scheduled: &[Task]) -> Option<Compliant> {
    let cpus = cluster.cpus();
    let point = |task: &Task| match cluster.policy().priority_point(&task.parameters(cpus)) {
        PriorityPoint::AfterRelease(offset) => Some(i128::from(cpus) * i128::from(offset.0)),
        PriorityPoint::Constant(_) => None,
    };
    let points: Vec<i128> = scheduled.iter().map(point).collect::<Option<_>>()?;
    let earliest = points.iter().copied().min().unwrap_or(0);
    bounds(cluster, shares, points, earliest)
}

/// The bounds with points `m y_i - origin`, none of which may be below zero.
fn bounds(cluster: &Cluster, shares: &Utilisations, mut points: Vec<i128>, origin: i128) -> Option<Compliant> {
    let (cpus, tasks) = (cluster.cpus(), cluster.tasks());
    if !shares.fit(cpus) {
        return None;
    }
    points.iter_mut().for_each(|point| *point -= origin);
    let periods = tasks.iter().map(|task| i128::from(cpus) * i128::from(task.period.0));
    // m S_i = u_i * early_i, and the term of G is u_i (s + carried_i) / m.
    let (early, carried): (Vec<i128>, Vec<i128>) = periods
        .zip(tasks)
        .zip(&points)
        .map(|((period, task), point)| ((period - point).max(0), period.min(*point) - i128::from(task.execution.0)))
        .unzip();
    let early: Vec<BigInt> = shares.parts.iter().zip(early).map(|(part, early)| part * early).collect();
    let all_early: BigInt = early.iter().sum();
    let carriers = shares.ceiling().saturating_sub(1);

    // Fractions are kept as numerator and denominator: the next set needs no reduced ones.
    let (mut numerator, mut denominator) = (BigInt::zero(), BigInt::from(1));
    loop {
        let mut terms: Vec<(BigInt, usize)> = (0..tasks.len())
            .map(|task| (&shares.parts[task] * (&numerator + &denominator * carried[task]), task))
            .collect();
        if carriers > 0 {
            terms.select_nth_unstable_by(carriers - 1, |one, other| other.0.cmp(&one.0));
        }
        let set = terms[..carriers].iter().map(|(_, task)| *task);
        let (mut above, mut below) = (all_early.clone(), &shares.whole * cpus);
        for task in set {
            above += &shares.parts[task] * carried[task];
            below -= &shares.parts[task];
        }
        let is_fixed = &above * &denominator == &numerator * &below;
        (numerator, denominator) = (above, below);
        if is_fixed {
            break;
        }
    }

    let fixed_point = BigRational::new(numerator, denominator);
    let carried_in = &fixed_point - BigRational::new(all_early, &shares.whole * cpus);
    let responses = tasks.iter().zip(&points).map(|(task, point)| {
        divide(&plus(&fixed_point, point + i128::from(cpus - 1) * i128::from(task.execution.0)), cpus)
    });
    let responses = responses.collect();
    Some(Compliant { fixed_point, carried_in, points, early, responses })
}

/// `value / divisor`, for a value of at least zero. Only a divisor of `divisor` can be common to both parts.
fn divide(value: &BigRational, divisor: u32) -> BigRational {
    let rest = (value.numer() % divisor).to_u64().unwrap_or(0);
    let common = greatest_common_divisor(divisor.into(), rest);
    BigRational::new_raw(value.numer() / common, value.denom() * (u64::from(divisor) / common))
}
