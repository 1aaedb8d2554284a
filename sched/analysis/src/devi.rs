//! Tardiness under global EDF, after Devi and Anderson: one term for all tasks, and each task's own execution.
//!
//! ```text
//! x = ((sum of the L largest e) - the smallest e) / (m - (sum of the L - 1 largest u)),  L = U rounded up, less one
//! ```
//!
//! and task `k` is at most `x + e_k` late.
//!
//! # Why `L` tasks, and `m` CPUs
//!
//! Work beyond the fluid shares `u_i` of all tasks grows only while fewer CPUs are busy than `U`, so while at most `L` are: then at
//! most `L` tasks have pending work, and only their lag behind their shares is carried into the window before a deadline. So `L`
//! counts tasks. Within the window, and after the deadline, all `m` CPUs work on the jobs that come first whenever the job waits
//! for one: that work is done at the rate `m`, and `m` stays in the divisor. Elliott 2015 prints `m - 1` and `m - 2` tasks (2.18),
//! and suggests U rounded up for each `m`, the divisor's too; that bound is larger than it needs to be.
//!
//! # Why the divisor is never zero
//!
//! `L - 1` utilisations of at most one are less than `m - 1`, so it is above one. And more than `L` tasks exist
//! to choose from, since each has a utilisation of at most one.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use crate::plus;
use crate::task::Cluster;
use crate::utilisation::Utilisations;

/// The reason why the bound does not apply to a cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DoesNotApply {
    /// The cluster is not scheduled by EDF.
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
/// `L >= 1`, is not used.
///
/// # Errors
/// The assumption that does not hold.
///
/// # Source
/// Devi, Anderson 2008, with the `L` of their corollary 1 (Devi 2006, corollary 4.11); Elliott 2015, eq. 2.18.
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
    let carriers = shares.ceiling().saturating_sub(1);
    if carriers == 0 {
        return Ok(vec![BigRational::zero(); tasks.len()]);
    }
    let mut executions: Vec<u64> = tasks.iter().map(|task| task.execution.0).collect();
    executions.sort_unstable_by(|one, other| other.cmp(one));
    let mut parts: Vec<&BigInt> = shares.parts.iter().collect();
    parts.sort_unstable_by(|one, other| other.cmp(one));
    let carried: BigInt = executions[..carriers].iter().copied().map(BigInt::from).sum();
    let smallest = executions.last().copied().unwrap_or(0);
    let spare = &shares.whole * cluster.cpus() - parts[..carriers - 1].iter().copied().sum::<BigInt>();
    let shared = BigRational::new((carried - smallest) * &shares.whole, spare);
    Ok(tasks.iter().map(|task| plus(&shared, task.execution.0)).collect())
}
