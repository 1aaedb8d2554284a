//! Fine bounds on blocking by arrival: a job waits for holds and sections that others can have at all while it is pending.
//!
//! The coarse bound lets each request of a job meet a hold of each rival. A rival has no more holds than its jobs have that end within the job or later: as many
//! jobs as are released within both response times and a hold, `ceil((r_i + r_j + h_j) / p_j)`. This is eq. 4.12 without its maximum, since `r` is counted from
//! the release here, and with the hold *h*, since a job may release an engine and end while its operation still runs: its hold lasts until the engine is idle. All waits of one job are for different
//! holds: each is over when the request that waited for it is granted.
//!
//! Response times come from the coarse bounds, which need none; with the finer ones they become shorter, and fewer jobs fit. Each round starts from response times
//! that hold, so its results hold, too, and the last need not be a fixed point. No round gives a longer wait.
//!
//! # Conditions
//!
//! Holds are counted if the declarations of all tasks of the cluster are kept ([`Rest::is_kept`]), since a response time rests on those of others, and if no
//! task of another cluster and no server takes part. A rival is counted if its response time has a bound. So its holds in a job are as many as it declares, no
//! job takes budgets of later ones, and none has more than one life. Of all others, servers and tasks of other clusters among them, the coarse number is taken,
//! and so it is for groups of engines.
//!
//! Not here: chains of operations over several GPUs (4.20 to 4.33). A request for copy engines of two GPUs is one request of a group in the kernel, and waits for
//! no engine while it has another; the coarse bound of a group takes all holds of it for one lock.
//!
//! # Source
//! Elliott 2015, eq. 4.11 to 4.16 and 4.37. Where tokens connect engines the text counts requests by kind; here each engine has its own count.

use super::{Blocked, Engine, Locks, Nanoseconds, Study, Total, Unbounded, Wait, plus, report_of, response_of};
use crate::locks::Rest;
use crate::overheads::Overheads;
use crate::report::Report;
use crate::servers::Calls;
use crate::task::Cluster;

/// Rounds at most; each needs all tests of the cluster again.
const ROUNDS: usize = 4;

/// The report and the waits with fine bounds, from those with coarse ones.
///
/// # Errors
/// [`Unbounded`] of a sum that is too long.
pub(super) fn refined(
    cluster: &Cluster,
    overheads: &Overheads,
    locks: &Locks,
    coarse: (Report, Vec<Blocked>),
) -> Result<(Report, Vec<Blocked>), Unbounded> {
    // A response time rests on the declarations of all tasks with which its task shares locks, and of those with which these do.
    let are_all_kept = (0..cluster.tasks().len()).all(|task| locks.rests.get(task).is_some_and(Rest::is_kept));
    if !are_all_kept || !locks.abroad.is_empty() || !locks.servers.is_empty() {
        return Ok(coarse);
    }
    let calls = Calls::new(&[], Vec::new())?;
    let mut best = coarse;
    for _ in 0..ROUNDS {
        let (report, blocked) = &best;
        if report.bounded == Some(false) {
            break;
        }
        let known: Vec<Option<Nanoseconds>> = report.tasks.iter().map(response_of).collect();
        // Without one a bound that needs it is not there: the coarse analysis has said so.
        let responses: Vec<Nanoseconds> = known.iter().map(|one| one.unwrap_or_default()).collect();
        let study = Study { cluster, overheads, locks, responses: &responses, calls: &calls, known: Some(&known) };
        let finer = study.blocked()?;
        let is_longer = |(one, before): (&Blocked, &Blocked)| {
            one.blocking > before.blocking || one.lends > before.lends || one.requests != before.requests
        };
        if finer == *blocked || finer.iter().zip(blocked).any(is_longer) {
            break;
        }
        match report_of(cluster, overheads, locks, &finer) {
            Ok(next) if is_no_worse(&next, report) => best = (next, finer),
            _ => break,
        }
    }
    Ok(best)
}

/// Whether each task that has a bound in the one before has one that is no later.
fn is_no_worse(report: &Report, before: &Report) -> bool {
    report.tasks.iter().zip(&before.tasks).all(|(one, before)| match (&one.bound, &before.bound) {
        (Some(one), Some(before)) => one.response <= before.response,
        (None, Some(_)) => false,
        (_, None) => true,
    })
}

impl Study<'_> {
    /// The number of jobs of `other` that have a hold as long as `span` within one job of `task`, at most; `None`: it is not known.
    pub(super) fn jobs(&self, task: usize, other: usize, span: Nanoseconds) -> Option<u64> {
        let known = self.known?;
        let [own, others] = [task, other].map(|one| known.get(one).copied().flatten());
        let window = plus(plus(own?, others?).ok()?, span).ok()?;
        Some(window.0.div_ceil(self.cluster.tasks()[other].period.0))
    }

    /// The number of holds of `engine` that jobs of `other` have within one job of `task`, at most; `None`: it is not known.
    pub(super) fn holds(&self, engine: &Engine, task: usize, other: usize) -> Option<u64> {
        if engine.is_group || self.serves([task, other].into_iter()) {
            return None;
        }
        // The only one of that task: several uses of it are one user with the sum of their numbers ([`Engine::users`]).
        let user = engine.users.iter().find(|user| user.task == other)?;
        let span = engine.length(user, self.overheads).ok()?;
        self.jobs(task, other, span)?.checked_mul(user.times.into())
    }
}

impl Total {
    /// Adds the longest holds: each of `count` requests waits for `most` of `waits`, which are of different tasks, and of a task there are no more than `limit` in all,
    /// where that is known. The largest CPU times are other ones, perhaps.
    pub(super) fn add_distinct(
        &mut self,
        waits: &[Wait],
        most: usize,
        count: u64,
        limit: impl Fn(usize) -> Option<u64>,
    ) -> Result<(), Unbounded> {
        let mut spans: Vec<Wait> = waits.iter().map(|wait| Wait { cpu: Nanoseconds::ZERO, ..*wait }).collect();
        spans.sort_by_key(|wait| std::cmp::Reverse(wait.span));
        let mut cpus: Vec<Wait> = waits.iter().map(|wait| Wait { span: Nanoseconds::ZERO, ..*wait }).collect();
        cpus.sort_by_key(|wait| std::cmp::Reverse(wait.cpu));
        for waits in [spans, cpus] {
            let mut left = u64::try_from(most).unwrap_or(u64::MAX).saturating_mul(count);
            for wait in waits {
                let taken = limit(wait.task).map_or(count, |limit| limit.min(count)).min(left);
                left -= taken;
                self.add(wait, taken)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "fine_tests.rs"]
mod tests;
