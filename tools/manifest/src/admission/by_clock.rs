//! Clusters with jobs that the clock alone releases, and that compute and do nothing else.
//!
//! For these the analysis plays schedules. A promise for all runs follows from few schedules only if each job begins when the clock
//! says so, is ready until it is complete, and keeps its key:
//!
//! | Condition | Without it |
//! |---|---|
//! | each real-time task is released by the clock | its jobs come at any instant |
//! | it neither sleeps nor waits, and is `hard` or trusted, or a script | it goes on as if released later |
//! | it has no lock, server, notification or device, nor has any thread of the cluster if there are further clusters | its key is lent or boosted |
//! | it takes no budget in advance, and its budget pays for no engine | its key changes while a job executes |
//! | it has one life, and no other task has it begin | its jobs begin in the middle of others |
//! | it has asked for its first job when the clock releases that | its beginning executes at other instants |
//!
//! A task that is `hard` or trusted is taken to keep the last condition as long as it has some time for that: a `start`. Where the
//! system starts at once, phases are zero: then the beginning of a task is a part of its first job.
//!
//! A budget that is larger than the time that jobs need changes nothing: the analysis lets jobs execute for all of it.
//!
//! Not here: the schedules (`fusee_sched_analysis::reachability`).

use fusee_abi::image::{self, release};
use fusee_abi::script::operation;
use fusee_sched::time::Nanoseconds;

use super::servers::Waiting;
use super::{Study, comes_early, scripts};
use crate::resolve::Resolved;

impl Study {
    /// The phases of the cluster's real-time tasks, if all the conditions hold. `index`: of the cluster.
    pub(super) fn phases(&self, system: &Resolved, index: usize, waiting: &Waiting<'_>) -> Option<Vec<Nanoseconds>> {
        let is_ours = |task: &usize| system.tasks[*task].cluster as usize == index;
        let are_detached =
            system.clusters.len() == 1 || (0..system.tasks.len()).filter(is_ours).all(|task| waiting.is_alone(task));
        let begins_in_time = system.start > 0 || self.reservations.iter().all(|one| one.phase == 0);
        let member = |at: usize| {
            let task = self.members[at];
            self.uncounted[at].is_empty() && is_by_clock(&self.reservations[at]) && only_computes(system, task, waiting)
        };
        let holds = are_detached && begins_in_time && (0..self.members.len()).all(member);
        holds.then(|| self.reservations.iter().map(|one| Nanoseconds(one.phase)).collect())
    }
}

/// Whether the clock alone releases jobs, each with a budget of its own for the CPU.
fn is_by_clock(one: &image::Reservation) -> bool {
    one.release == release::PERIODIC
        && !comes_early(one)
        && one.begins_early == 0
        && one.covers_engines == 0
        && one.suspension == 0
}

/// Whether `task` has one life, in which it does nothing but compute.
fn only_computes(system: &Resolved, task: usize, waiting: &Waiting<'_>) -> bool {
    let supervision = system.tasks[task].supervision;
    let is_alone = waiting.is_alone(task);
    let (steps, _) = scripts::written(system, task);
    let sleeps = steps.iter().any(|step| matches!(step.operation, operation::SLEEP | operation::PAUSE));
    is_alone
        && waiting.keeps_word(task, is_alone)
        && !waiting.is_special(task)
        && !supervision.is_dormant
        && supervision.starts.is_none()
        && system.suspends[task] == Nanoseconds::ZERO
        && !sleeps
}
