//! The driver's work for ends of commands that no hold accounts for, on the budget of a job that waits for the driver.
//!
//! A driver runs on the reservation of the job with the earliest key among those that wait for it, and works for the ends of all commands
//! of its device. So a job that waits for the end of its own command, or for the holder of an engine that does, also pays for ends of
//! commands on the device's other engines ([`Beside`]). It pays in its waits only: never more than their sum. And the driver works for
//! no more ends than there are: one of each user from before, as the driver tells a task of all its ends at once, and those of all jobs
//! that are pending within the job: `ceil((r_i + r_j) / p_j)` of task *j*.
//!
//! Nothing of that delays the job otherwise: the end that it waits for has the driver's work before it in [`Engine::others`].
//!
//! Response times do not depend on lent time, so this comes after them.

use super::{Beside, Blocked, Engine, Locks, Nanoseconds, Protocol, Unbounded, plus, response_of, times};
use crate::report::Report;

impl Locks {
    /// Adds the driver's work for ends of commands beside those of `blocked` to what each task lends, with response times of `report`.
    pub(super) fn add_ends(&self, report: &Report, blocked: &mut [Blocked]) -> Result<(), Unbounded> {
        let responses: Vec<Option<Nanoseconds>> = report.tasks.iter().map(response_of).collect();
        for (task, one) in blocked.iter_mut().enumerate() {
            let waits = plus(one.operations, one.blocking)?;
            let mut counted: Vec<&Beside> = Vec::new();
            for beside in self.engines.iter().filter(|engine| self.waits_for(task, engine)).flat_map(|one| &one.beside)
            {
                if beside.task != task && !counted.contains(&beside) {
                    counted.push(beside);
                }
            }
            let mut ends = Nanoseconds::ZERO;
            for beside in counted {
                ends = match beside.work(task, &responses) {
                    Some(work) => plus(ends, work)?.min(waits),
                    None => waits,
                };
            }
            one.lends = plus(one.lends, ends)?;
        }
        Ok(())
    }

    /// Whether a job of `task` may wait for the end of a command on `engine`: its own, that of a holder, or that of a server.
    #[must_use]
    pub fn waits_for(&self, task: usize, engine: &Engine) -> bool {
        let uses = |task: usize| engine.users.iter().any(|user| user.task == task);
        let is_within = |pool: &super::Pool| {
            let has = pool.sections.iter().any(|one| one.task == task);
            // Where clusters share tokens, each job may donate.
            let donates = matches!(pool.protocol, Protocol::CkOmlp { .. });
            (has || donates) && pool.engines.iter().any(|index| std::ptr::eq(&raw const self.engines[*index], engine))
        };
        let calls = || self.servers.iter().any(|server| server.callers.iter().any(|caller| caller.task == task));
        let serves = || self.servers.iter().filter_map(|server| server.task).any(uses);
        uses(task) || self.pools.iter().any(is_within) || calls() && serves()
    }
}

impl Beside {
    /// The driver's work for its ends within a job of `task`; `None`: it is not known.
    fn work(&self, task: usize, responses: &[Option<Nanoseconds>]) -> Option<Nanoseconds> {
        let (period, commands) = self.jobs?;
        let [own, other] = [task, self.task].map(|one| responses.get(one).copied().flatten());
        let jobs = plus(own?, other?).ok()?.0.div_ceil(period.0.max(1));
        times(jobs.checked_mul(commands)?.checked_add(1)?, self.completion).ok()
    }
}
