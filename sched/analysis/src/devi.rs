//! Tardiness under global EDF, after Devi and Anderson: one term for all tasks, and each task's own execution.
//!
//! # Why the divisor is never zero
//!
//! With `m^` = U rounded up, at least two, the divisor is `m^` less `m^ - 2` utilisations of at most one: at
//! least two. And no fewer than `m^` tasks exist to choose from, since each has a utilisation of at most one.
//!
//! # Why `m^` may stand for `m`
//!
//! The theorem takes the `m^ - 1` largest execution times and the `m^ - 2` largest utilisations, and divides by
//! `m` less the latter. A smaller `m^` there only makes the bound larger. We print it in this form because the
//! text does; [`crate::compliant`] has no such loss.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use crate::plus;
use crate::task::Cluster;
use crate::utilisation::Utilisations;

/// Why the bound says nothing of a cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DoesNotApply {
    /// It is not scheduled by EDF.
    OtherPolicy,
    /// A task's deadline is not its period.
    Deadline {
        /// The first such task.
        task: usize,
    },
    /// More than its CPUs can do, or a task with more than one CPU can do.
    Overutilised,
}

/// Bounds on the tardiness of each task, in nanoseconds.
///
/// With `U <= 1` no job is tardy on any number of CPUs ([`crate::utilisation::density`]); the formula, made for
/// `m^ >= 2`, is not used.
///
/// # Errors
/// Which assumption does not hold.
///
/// # Source
/// Devi, Anderson 2008; Elliott 2015, eq. 2.18.
pub fn tardiness(cluster: &Cluster, shares: &Utilisations) -> Result<Vec<BigRational>, DoesNotApply> {
    let tasks = cluster.tasks();
    if !cluster.is_earliest_deadline_first() {
        return Err(DoesNotApply::OtherPolicy);
    }
    if let Some(task) = tasks.iter().position(|task| task.deadline != task.period) {
        return Err(DoesNotApply::Deadline { task });
    }
    if !shares.fit(cluster.cpus()) {
        return Err(DoesNotApply::Overutilised);
    }
    let needed = shares.ceiling();
    if needed <= 1 {
        return Ok(vec![BigRational::zero(); tasks.len()]);
    }
    let mut executions: Vec<u64> = tasks.iter().map(|task| task.execution.0).collect();
    executions.sort_unstable_by(|one, other| other.cmp(one));
    let mut parts: Vec<&BigInt> = shares.parts.iter().collect();
    parts.sort_unstable_by(|one, other| other.cmp(one));
    let carried: BigInt = executions[..needed - 1].iter().copied().map(BigInt::from).sum();
    let smallest = executions.last().copied().unwrap_or(0);
    let spare = &shares.whole * needed - parts[..needed - 2].iter().copied().sum::<BigInt>();
    let shared = BigRational::new((carried - smallest) * &shares.whole, spare);
    Ok(tasks.iter().map(|task| plus(&shared, task.execution.0)).collect())
}
