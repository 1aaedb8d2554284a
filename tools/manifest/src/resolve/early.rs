//! Nodes of graphs that begin early: before the releases of their jobs, behind all real-time jobs.
//!
//! A node begins early by default wherever no bound depends on it. An early job is to others as a thread of class service that has
//! the early job's holds, once at a time. The analysis counts holds by arrival, holds of tokens, and operations under way like
//! this. Elsewhere it counts jobs of a task by its period, and takes each for one that has been released; a task that takes part in
//! such a thing does not begin early.
//!
//! Not here: how jobs begin early (`kernel/core/src/time/early.rs`).

use fusee_abi::call::rights;
use fusee_abi::image::{kind, order, overrun};
use fusee_sched::key::PolicyName;
use toml::Spanned;

use super::{
    Fail::{self, At},
    Of, Resolver,
};
use crate::error::Reason;

impl Resolver<'_> {
    /// Says of each task whether it begins early. To be called when all else is known of tasks and locks.
    pub(super) fn early(&mut self) {
        for task in 0..self.file.tasks.0.len() {
            let found = self.begins_early(task);
            let begins_early = self.keep(Of::Task(task), found).unwrap_or_default();
            if let Some(own) = self.out.tasks.get(task).and_then(|one| one.reservation) {
                self.out.reservations[own].begins_early = u32::from(begins_early);
            }
        }
    }

    fn begins_early(&self, task: usize) -> Result<bool, Fail> {
        let (name, keys) = &self.file.tasks.0[task];
        let Some(own) = self.out.tasks.get(task).and_then(|one| one.reservation) else { return Ok(false) };
        let of = || name.get_ref().clone();
        if !keys.is_released_by_tokens {
            let needs = "a place in a graph, behind its source";
            let wrong = |key: &Spanned<bool>| Err(At(key.span(), Reason::Needs { what: "early", of: of(), needs }));
            return keys.early.as_ref().map_or(Ok(false), wrong);
        }
        let said = keys.early.as_ref().filter(|key| *key.get_ref());
        if keys.early.is_some() && said.is_none() {
            return Ok(false);
        }
        let (cluster, record) = &self.out.clusters[self.out.reservations[own].cluster as usize];
        let policy = PolicyName::from_number(record.policy).unwrap_or_default();
        let why_not = match policy {
            PolicyName::Edf | PolicyName::Fl => self.counted(task).map(|why| Reason::EarlyJobs { task: of(), why }),
            PolicyName::Rm | PolicyName::Dm | PolicyName::Fp => {
                Some(Reason::EarlyKeys { task: of(), cluster: cluster.clone(), policy: policy.name() })
            }
        };
        match (why_not, said) {
            (None, _) => Ok(true),
            (Some(_), None) => Ok(false),
            (Some(why), Some(key)) => Err(At(key.span(), why)),
        }
    }

    /// A bound that counts jobs of `task` by its period, if there is one.
    fn counted(&self, task: usize) -> Option<String> {
        let system = &self.out;
        let cluster = system.tasks[task].cluster as usize;
        let cpus = system.clusters[cluster].1.cpus.count_ones();
        let own = system.tasks[task].reservation.map(|own| &system.reservations[own])?;
        if own.early_release != 0 || own.overrun == overrun::EARLY_RELEASE {
            return Some("it may take the budget of its next job".to_owned());
        }
        if own.covers_engines != 0 {
            return Some("its budget covers engines".to_owned());
        }
        for user in system.engine_users.iter().filter(|user| user.task as usize == task) {
            let engine = user.engine as usize;
            let (name, record) = &system.engines[engine];
            if let Some(name) = &system.arbitrated[engine] {
                return Some(format!("the device of engine `{name}` decides by keys"));
            }
            if record.group_plus_one != 0 {
                return Some(format!("engine `{name}` is of a group"));
            }
            if record.order == order::PRIORITY && (cpus > 1 || record.pool_plus_one != 0) {
                let how = if cpus > 1 { "on several CPUs" } else { "to those who have a token" };
                return Some(format!("engine `{name}` is granted by priority {how}"));
            }
        }
        let crosses = |user: &&fusee_abi::image::PoolUser| {
            system.tasks[user.task as usize].cluster as usize == cluster
                && system.pools[user.pool as usize].1.crosses != 0
        };
        if let Some(user) = system.pool_users.iter().find(crosses) {
            let (pool, cluster) = (&system.pools[user.pool as usize].0, &system.clusters[cluster].0);
            return Some(format!("cluster `{cluster}` shares pool `{pool}` with another"));
        }
        let calls = system.handles.iter().find(|handle| {
            handle.task as usize == task && handle.kind == kind::ENDPOINT && handle.rights & rights::CALL != 0
        });
        if let Some(handle) = calls {
            return Some(format!("it calls endpoint `{}`", system.endpoints[handle.object as usize].0));
        }
        if let Some((name, _)) = system.endpoints.iter().find(|(_, one)| one.server as usize == task) {
            return Some(format!("it is the server of endpoint `{name}`"));
        }
        let bound = system.notifications.iter().find(|(_, one)| one.bound_plus_one as usize == task + 1);
        bound.map(|(name, _)| format!("notification `{name}` is bound to it"))
    }
}
