//! The longest preemption of a task, for budgets that pay for engines.
//!
//! Such a budget pays for each hold from the grant until the engine is idle, so for the holder's preemptions, too. While the
//! reservation that a job runs on could run and does not, all CPUs run reservations with earlier keys. Jobs of each other task that
//! are pending meanwhile and come first compute on its reservation, each for its budget at most, whichever thread runs on it.
//!
//! Coarse: preemptions are counted wherever they are in the job, and not only in its holds.
//!
//! Not here: how long holds are without (`blocking`).

use fusee_sched::key::{Policy, PolicyName};
use fusee_sched::time::{Instant, Nanoseconds};
use num_traits::ToPrimitive;

use crate::blocking::{Blocked, Engine, Locks, Unbounded, plus, times};
use crate::overheads::{Locking, Overheads, inflate};
use crate::report::{Bound, Report};
use crate::task::{Cluster, Task};

/// Adds the payments for preemptions to the payments of each task's budget for engines, by known response times.
///
/// # Errors
/// [`Unbounded::Preempted`].
pub(crate) fn add_preemptions(
    cluster: &Cluster,
    overheads: &Overheads,
    locks: &Locks,
    report: &Report,
    blocked: &mut [Blocked],
) -> Result<(), Unbounded> {
    let response = |bound: &Bound| bound.response.ceil().to_integer().to_u64().map(Nanoseconds);
    let responses: Vec<_> = report.tasks.iter().map(|task| task.bound.as_ref().and_then(response)).collect();
    let requests = |one: &Blocked| Locking { requests: one.requests, ..Locking::default() };
    let requests: Vec<Locking> = blocked.iter().map(requests).collect();
    let computing =
        inflate(cluster, overheads, &requests).map_err(|why| Unbounded::Infeasible(why, blocked.to_vec()))?;
    for (task, one) in blocked.iter_mut().enumerate().filter(|(_, one)| one.drawn > Nanoseconds::ZERO) {
        let preempted = preemption(cluster, &computing, &responses, task).ok_or(Unbounded::Preempted(task))?;
        // Both engines of a group are paid for.
        let holds_two = |engine: &Engine| engine.is_group && engine.users.iter().any(|user| user.task == task);
        let engines = if locks.engines.iter().any(holds_two) { 2 } else { 1 };
        one.drawn = plus(one.drawn, times(engines, preempted)?)?;
    }
    Ok(())
}

/// The longest preemption of a job of `task`; `computing`: the cluster with the costs of kernel paths. `None`: the response time of
/// some task has no bound, or it is too long.
fn preemption(
    cluster: &Cluster,
    computing: &Cluster,
    responses: &[Option<Nanoseconds>],
    task: usize,
) -> Option<Nanoseconds> {
    let cpus = cluster.cpus();
    let by_deadline = matches!(cluster.policy(), PolicyName::Edf | PolicyName::Fl);
    let point = |task: usize| {
        let parameters = cluster.scheduled()[task].parameters(cpus);
        i128::from(cluster.policy().priority_point(&parameters).of_job(Instant::ZERO).0)
    };
    let own = responses[task]?;
    let (mut tasks, mut sum) = (0, 0u128);
    for (other, Task { period, .. }) in cluster.tasks().iter().enumerate().filter(|(other, _)| *other != task) {
        let response = responses[other]?;
        // Released before the job is complete, and complete after its release,
        let pending = (u128::from(own.0) + u128::from(response.0)).div_ceil(period.0.into());
        // with a point that is not later.
        let earlier = point(task) - point(other);
        let before = match by_deadline {
            true => earlier + i128::from(response.0),
            false => earlier,
        };
        let jobs = match u128::try_from(before) {
            Err(_) => 0,
            Ok(before) if by_deadline => pending.min(before / u128::from(period.0) + 1),
            Ok(_) => pending,
        };
        tasks += u32::from(jobs > 0);
        sum += jobs.checked_mul(computing.tasks()[other].execution.0.into())?;
    }
    // Fewer leave a CPU to it.
    let preempted = if tasks < cpus { 0 } else { sum / u128::from(cpus) };
    u64::try_from(preempted).ok().map(Nanoseconds)
}
