//! The verdict on each task of a cluster: the conditions of its proof that do not hold, each with where it comes from.
//!
//! All code that calls a task proved asks here. `admission` of the manifest has no part in it: it decides whether a system with
//! unproved tasks is built.

use fusee_abi::image::release;
use fusee_sched_analysis::Report;
use fusee_sched_analysis::blocking::Blocked;
use fusee_sched_analysis::report::{Bound, Hard, Test};
use num_bigint::BigInt;

use super::{Analysis, Study};
use crate::error::Reason;
use crate::quantity::Time;

/// The origin of a condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// The bound of the task does not count all its waits.
    Counted,
    /// A budget may run dry: its own, or that of a task with which it shares something.
    Budget,
    /// The bound on its response time: there is none, or it is later than the deadline.
    Response,
    /// Releases may find no place in its queue.
    Backlog,
    /// Others may do more than they declare, and nothing enforces the declarations.
    Others,
}

/// A condition that does not hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Missing {
    /// The origin of the condition.
    pub origin: Origin,
    /// The reason why it does not hold, in words.
    pub why: String,
}

impl Study {
    /// The conditions that do not hold, of the proof that the task with this index among the cluster's misses no deadline for any
    /// behaviour of others. `report` and `blocked` are the results of [`Study::analyse`].
    #[must_use]
    pub fn missing(&self, index: usize, report: &Report, blocked: &[Blocked]) -> Vec<Missing> {
        let missing = |origin: Origin, why: &str| Missing { origin, why: why.to_owned() };
        let mut found: Vec<Missing> = self.uncounted[index].iter().map(|why| missing(Origin::Counted, why)).collect();
        found.extend(self.runs_dry(index, blocked).map(|why| Missing { origin: Origin::Budget, why }));
        if let Hard::NotProved(why) = report.tasks[index].hard {
            found.push(missing(Origin::Response, why.words()));
        }
        if let Some((queued, backlog)) = self.dropped(index, report) {
            let why = format!(
                "up to {queued} of its releases may queue, and with `backlog` = {backlog} the others are dropped"
            );
            found.push(Missing { origin: Origin::Backlog, why });
        }
        found.extend(self.not_enforced(index, report).map(|why| Missing { origin: Origin::Others, why }));
        found
    }

    /// The reasons why the deadlines of the task with this index rest on the behaviour of others, which nothing enforces.
    pub fn not_enforced(&self, index: usize, report: &Report) -> impl Iterator<Item = String> + '_ {
        let others = self.unenforced[index].iter().chain(&self.kept_waiting[index]).cloned();
        others.chain(self.outslept(index, report))
    }

    /// The task that may be suspended for longer than it declares, while jobs with earlier keys use their allowances, if the bound
    /// of the task with this index counts on its declaration: a bound by windows does for all others.
    pub(super) fn outslept(&self, index: usize, report: &Report) -> Option<String> {
        report.tasks[index].bound.as_ref().filter(|bound| bound.test == Test::Windows)?;
        let other = (0..self.members.len()).find(|other| *other != index && !self.sleeps_as_said[*other])?;
        let who = &self.tasks[other];
        Some(format!(
            "`{who}` may be suspended for longer than it says while others are, too; is it `hard`, or to be `trusted`?"
        ))
    }

    /// Whether the task with this index among the cluster's misses no deadline for any behaviour of others.
    #[must_use]
    pub fn is_proved(&self, index: usize, report: &Report, blocked: &[Blocked]) -> bool {
        self.missing(index, report, blocked).is_empty()
    }

    /// The bound of a task, if it counts all that it waits for.
    #[must_use]
    pub fn bound<'a>(&self, index: usize, report: &'a Report, blocked: &[Blocked]) -> Option<&'a Bound> {
        let is_whole = self.uncounted[index].is_empty() && self.runs_dry(index, blocked).is_none();
        report.tasks[index].bound.as_ref().filter(|_| is_whole)
    }

    /// The number of releases of a task that may queue, and the number of places, if these are fewer.
    #[must_use]
    pub fn dropped(&self, index: usize, report: &Report) -> Option<(u64, u64)> {
        let one = self.reservations.get(index).filter(|one| one.release != release::NONE && one.period > 0)?;
        let response = report.tasks[index].bound.as_ref()?.response.floor().to_integer();
        let queued = u64::try_from(response / BigInt::from(one.period)).unwrap_or(u64::MAX);
        let backlog = u64::from(one.backlog);
        (queued > backlog).then_some((queued, backlog))
    }

    /// The reason why the budget of the task with this index may run dry while others wait for an object that it holds, if it may.
    #[must_use]
    pub fn too_small(&self, index: usize, blocked: &[Blocked]) -> Option<Reason> {
        let own = &blocked[index];
        if self.is_covered(index, own) {
            return None;
        }
        let (task, reservation) = (self.tasks[index].clone(), &self.reservations[index]);
        let [execution, budget] = [reservation.execution, reservation.budget].map(Time);
        let [services, lends, drawn] = [own.services, own.lends, own.drawn].map(|span| Time(span.0));
        Some(match drawn.0 {
            0 => Reason::LendsTooMuch { task, execution, services, lends, budget },
            _ => Reason::DrawsTooMuch { task, execution, services, lends, drawn, budget },
        })
    }

    /// The tasks whose budgets may run dry while the task with this index waits for them, in words.
    fn runs_dry(&self, index: usize, blocked: &[Blocked]) -> Option<String> {
        let is_dry = (0..blocked.len()).any(|task| !self.is_covered(task, &blocked[task]));
        if !is_dry && self.elsewhere.is_none() {
            return None;
        }
        let near = self.near(index);
        let own = [index].into_iter().chain((0..blocked.len()).filter(|task| near[*task]));
        let own = own.filter_map(|task| self.too_small(task, blocked)).map(|reason| reason.to_string()).next();
        let shares = near.iter().skip(self.members.len()).any(|near| *near) || !self.cluster.above().is_empty();
        own.or_else(|| self.elsewhere.clone().filter(|_| shares))
    }

    /// For each task, in the order of the analysis, whether it shares something with the one with this index, directly or through others.
    fn near(&self, index: usize) -> Vec<bool> {
        let mut near = vec![false; self.tasks.len()];
        near[index] = true;
        let locks = &self.locks;
        let engines = locks.engines.iter().map(|one| one.users.iter().map(|user| user.task).collect());
        let pools = locks.pools.iter().map(|one| one.sections.iter().map(|section| section.task).collect());
        // A server shares its locks for its callers.
        let servers = locks.servers.iter().map(|one| one.callers.iter().map(|caller| caller.task).chain(one.task));
        let mut groups: Vec<Vec<usize>> = engines.chain(pools).collect();
        // Servers may call each other: one group.
        groups.push(servers.flatten().collect());
        // Where clusters share an engine that its device arbitrates, all their tasks rely on the bounds of its users.
        if let Some(users) = self.users_of_decided() {
            groups.push((0..self.members.len()).chain(users).collect());
        }
        let mut changes = true;
        while changes {
            changes = false;
            for group in &groups {
                if group.iter().any(|task| near[*task]) {
                    group.iter().for_each(|task| changes |= !std::mem::replace(&mut near[*task], true));
                }
            }
        }
        near
    }
}

impl Study {
    /// The reason why nothing is known of tasks that share something with this cluster, `name`, if that is so.
    pub(crate) fn doubt(&self, name: &str, found: &Analysis) -> Option<String> {
        let (report, blocked) = match found {
            Ok(found) => found,
            Err(why) => return Some(self.unbounded(name, why).to_string()),
        };
        if report.bounded == Some(false) {
            return Some(format!("cluster `{name}` is overloaded"));
        }
        (0..blocked.len()).find_map(|task| self.too_small(task, blocked)).map(|reason| reason.to_string())
    }
}
