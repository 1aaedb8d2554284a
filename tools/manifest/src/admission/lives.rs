//! The time that a service is away: from the end of a task until its next life is up.
//!
//! A supervisor with jobs looks in each of them. A task that ends is seen in the first job that is released once its delay is over,
//! which is a period after that at the latest; it begins in that job, and is up when the job completes. So a task that ended is
//! back after
//!
//! > delay + the supervisor's period + its response time
//!
//! where the last is proved as that of any other task: the beginning of a task is done on the supervisor's budget, and the
//! supervisor's waits for it are part of its `suspends`. The delay is the longest that the policy has.
//!
//! The bound rests on a condition that nothing here can see: that a task needs no more to begin than its supervisor has for it. A
//! supervisor reports a task that needs more (`userland/supervisor`).

use fusee_abi::image::release;
use fusee_abi::lives::Policy;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::Overheads;

use super::{Study, milliseconds};
use crate::resolve::Resolved;

/// The recovery of one task that has further lives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recovery {
    /// The index of the task among the system's tasks.
    pub task: usize,
    /// The longest delay from its end to its next life.
    pub delay: Nanoseconds,
    /// The longest time from its end until its next life is up; or the reason why that is not known.
    pub bound: Result<Nanoseconds, String>,
}

/// The recoveries of each task that has further lives, in their order, if paths of the kernel have these costs.
#[must_use]
pub fn recoveries(system: &Resolved, overheads: &Overheads) -> Vec<Recovery> {
    let Some(supervisor) = system.supervisor else { return Vec::new() };
    let sight = sight(system, supervisor, overheads);
    let has_lives = |policy: &&Policy| policy.at_most != 0;
    let recovery = |policy: &Policy| {
        let delay = Nanoseconds(u64::from(policy.longest_delay) * 1_000);
        Recovery { task: policy.task.into(), delay, bound: sight.clone().map(|sight| delay + sight) }
    };
    system.policies.iter().filter(has_lives).map(recovery).collect()
}

/// A wait that the bound of `task` does not count, if it is the supervisor: that all it watches begins again in one job, and
/// computes on its budget meanwhile.
pub(super) fn uncounted(system: &Resolved, task: usize) -> Option<String> {
    system.supervisor.filter(|supervisor| *supervisor == task)?;
    let begins = |policy: &Policy| u64::from(policy.start_within) * 1_000;
    let beginning: u64 = system.policies.iter().filter(|policy| policy.at_most != 0).map(begins).sum();
    let name = &system.tasks[task].name;
    let sum = milliseconds(beginning);
    if beginning > system.suspends[task].0 {
        return Some(format!(
            "all that `{name}` watches may end at once, and `suspends` of `{name}` is shorter than their `start_within` in sum, {sum}"
        ));
    }
    let own = system.tasks[task].reservation.map(|own| &system.reservations[own])?;
    (beginning > 0 && own.execution.saturating_add(beginning) > own.budget).then(|| {
        let (wcet, budget) = (milliseconds(own.execution), milliseconds(own.budget));
        format!("what `{name}` watches begins again on its budget, and that, {budget}, is shorter than its `wcet`, {wcet}, and their `start_within` in sum, {sum}")
    })
}

/// The longest time from the end of a delay until the task is up.
fn sight(system: &Resolved, supervisor: usize, overheads: &Overheads) -> Result<Nanoseconds, String> {
    let name = &system.tasks[supervisor].name;
    let reservation = system.tasks[supervisor].reservation.map(|at| system.reservations[at]);
    let Some(reservation) = reservation.filter(|one| one.release == release::PERIODIC) else {
        return Err(format!("`{name}` has no jobs, so nothing says when it sees an end"));
    };
    if let Some(why) = uncounted(system, supervisor) {
        return Err(why);
    }
    let study = Study::new(system, system.tasks[supervisor].cluster as usize).map_err(|why| why.to_string())?;
    let at = study.members.iter().position(|member| *member == supervisor);
    let found = at.zip(study.analyse(overheads).ok());
    let proved = found.filter(|(at, (report, blocked))| study.is_proved(*at, report, blocked));
    let bound = proved.and_then(|(at, (report, _))| report.tasks[at].bound.clone());
    let response = bound.map(|bound| bound.response.ceil().to_integer());
    let Some(response) = response.and_then(|response| u64::try_from(response).ok()) else {
        return Err(format!("that `{name}` meets its deadlines is not proved"));
    };
    Ok(Nanoseconds(reservation.period) + Nanoseconds(response))
}
