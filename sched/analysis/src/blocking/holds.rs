//! Lengths of holds, and the conditions on locks under which bounds are known.

use std::collections::BTreeMap;

use fusee_sched::time::Nanoseconds;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

use super::{
    Alternative, Engine, Locks, On, Order, Pool, Protocol, Rest, Section, Total, Unbounded, User, plus, section, times,
};
use crate::overheads::Overheads;
use crate::report::Report;
use crate::task::Cluster;

impl Engine {
    /// The time for which `user` holds the engine in one hold, seen by waiting jobs (2.47).
    pub(super) fn length(&self, user: &User, overheads: &Overheads) -> Result<Nanoseconds, Unbounded> {
        plus(plus(self.operation(user)?, section(overheads, user.hold.cpu)?)?, self.shared.take_back)
    }

    /// The time of one operation of `user`, with bottom halves of others before its own (4.48, 4.50).
    pub(super) fn operation(&self, user: &User) -> Result<Nanoseconds, Unbounded> {
        match user.hold.operation {
            Nanoseconds::ZERO => Ok(Nanoseconds::ZERO),
            operation => plus(operation, self.after(user)?),
        }
    }

    /// The driver's work for the ends of all commands of one hold of `user`. Its work for others before each is no part of it: see [`Beside`](super::Beside).
    pub(super) fn ends(&self, user: &User) -> Result<Nanoseconds, Unbounded> {
        self.each_command(user, self.completion)
    }

    /// So much for each command of one hold of `user`.
    fn each_command(&self, user: &User, span: Nanoseconds) -> Result<Nanoseconds, Unbounded> {
        match user.hold.operation {
            Nanoseconds::ZERO => Ok(Nanoseconds::ZERO),
            _ => times(user.hold.commands.max(1).into(), span),
        }
    }

    /// The longest time after the operations of one hold of `user` until the engine is free: the ends of its commands, with those of others
    /// before each, and a reset.
    fn after(&self, user: &User) -> Result<Nanoseconds, Unbounded> {
        plus(self.each_command(user, plus(self.completion, self.others)?)?, self.reset)
    }

    /// CPU time that a job may pay for while it waits for one hold of `user`: the holder's, and the driver's for the ends of its commands. A
    /// job of another cluster runs on a reservation of that cluster.
    pub(super) fn lent(&self, user: &User, overheads: &Overheads, is_abroad: bool) -> Result<Nanoseconds, Unbounded> {
        let holder = if is_abroad { Nanoseconds::ZERO } else { section(overheads, user.hold.cpu)? };
        plus(holder, self.ends(user)?)
    }

    /// The time of all operations of a job of `user`.
    pub(super) fn operations(&self, user: &User) -> Result<Nanoseconds, Unbounded> {
        match user.hold.operation {
            Nanoseconds::ZERO => Ok(Nanoseconds::ZERO),
            _ => plus(user.operations, times(user.times.into(), self.after(user)?)?),
        }
    }

    /// The time that a job of `user` holds it in sum.
    pub(super) fn lengths(&self, user: &User, overheads: &Overheads) -> Result<Nanoseconds, Unbounded> {
        plus(self.operations(user)?, times(user.times.into(), section(overheads, user.hold.cpu)?)?)
    }

    /// The time of all holds of `user` in a job, seen by waiting jobs.
    pub(super) fn waits(&self, user: &User, overheads: &Overheads) -> Result<Nanoseconds, Unbounded> {
        plus(self.lengths(user, overheads)?, times(user.times.into(), self.shared.take_back)?)
    }

    /// CPU time of the driver for clients without the lock that a job pays for which waits `span` for operations and for the engine.
    pub(super) fn notices(&self, span: Nanoseconds) -> Result<Nanoseconds, Unbounded> {
        match self.shared.period {
            Nanoseconds::ZERO => Ok(Nanoseconds::ZERO),
            period => times(span.0.div_ceil(period.0) + 1, self.shared.notice),
        }
    }
}

impl Locks {
    /// Whether jobs of the cluster wait for engines only, and the number of holds that they wait for was counted for any jobs that
    /// execute meanwhile.
    pub(super) fn are_for_windows(&self, cluster: &Cluster) -> bool {
        let is_counted = |engine: &Engine| match engine.order {
            Order::Fifo => true,
            // With more users on one CPU, the bound rests on the rule that no job is blocked while jobs of higher priority are
            // pending.
            Order::Priority => engine.users.len() <= 2 || cluster.cpus() > 1,
            // The time that others have the engine counts as their execution, and as nothing else.
            Order::Preemptive => false,
        };
        let is_ours = |user: &User| !self.abroad.iter().any(|abroad| abroad.task == user.task);
        let is_alone =
            |engine: &Engine| !engine.is_group && engine.rivals.is_none() && engine.users.iter().all(is_ours);
        let is_nothing_else = self.pools.is_empty() && self.servers.is_empty() && self.covering.is_empty();
        let engines = || self.engines.iter().filter(|engine| !engine.users.is_empty());
        is_nothing_else
            && cluster.above().is_empty()
            && engines().next().is_some()
            && engines().all(|engine| is_counted(engine) && is_alone(engine))
    }

    /// Knowledge of the suspensions of a task's jobs, if the longest waits for what it shares do not rest on the rule that no job
    /// is blocked while jobs of higher priority are pending, suspended or not.
    pub(crate) fn rest(&self, cluster: &Cluster, task: usize) -> Rest {
        let rest = self.rests.get(task).copied().unwrap_or_default();
        let uses_engine = |engine: &&Engine| engine.users.iter().any(|user| user.task == task);
        let serves = |user: &User| self.servers.iter().any(|server| server.task == Some(user.task));
        let is_ours =
            |user: &User| user.task < cluster.tasks().len() || !self.abroad.iter().any(|one| one.task == user.task);
        let is_plain = |engine: &Engine| {
            let is_counted = engine.order == Order::Fifo || engine.order == Order::Priority && engine.users.len() <= 2;
            let is_one = !engine.is_group && engine.rivals.is_none() && engine.alternative.is_none();
            is_counted && is_one && engine.users.iter().all(|user| is_ours(user) && !serves(user))
        };
        let mut engines = self.engines.iter().filter(uses_engine);
        let has_token = self.pools.iter().any(|pool| pool.sections.iter().any(|one| one.task == task));
        // Where clusters share tokens, each job may donate.
        let donates = self.pools.iter().any(|pool| matches!(pool.protocol, Protocol::CkOmlp { .. }));
        let calls = self.servers.iter().any(|server| server.callers.iter().any(|caller| caller.task == task));
        let is_plain = !donates && !has_token && !calls && engines.all(is_plain) && !self.covering.contains(&task);
        if is_plain { rest } else { Rest::default() }
    }

    /// Whether jobs of users of engines whose device decides are pending for no longer than the windows that were counted.
    pub(super) fn within_windows(&self, report: &Report) -> Result<(), Unbounded> {
        for (index, engine) in self.engines.iter().enumerate() {
            for (task, window) in &engine.windows {
                let Some(own) = report.tasks.get(*task) else { continue };
                let response = own.bound.as_ref().and_then(|bound| bound.response.ceil().to_integer().to_u64());
                if response.is_none_or(|response| response > window.0) {
                    return Err(Unbounded::NoResponse(On::Engine(index)));
                }
            }
        }
        Ok(())
    }

    /// Whether no engine and no tokens are wanted for more than all of their time by the cluster's tasks; then no bound would
    /// exist. Engines of a group are not looked at: some requests are for several of them.
    pub(super) fn within_their_time(&self, cluster: &Cluster, overheads: &Overheads) -> Result<(), Unbounded> {
        // The engine that a task holds, among those of several devices, is not known before.
        let is_known = |engine: &Engine| !engine.is_group && engine.alternative.is_none();
        for (index, engine) in self.engines.iter().enumerate().filter(|(_, engine)| is_known(engine)) {
            let holds = engine.users.iter().map(|user| Ok((user.task, engine.waits(user, overheads)?)));
            fits(On::Engine(index), 1, holds, cluster)?;
        }
        for (index, pool) in self.pools.iter().enumerate() {
            let replicas = match pool.protocol {
                Protocol::Pool(rules) => rules.replicas,
                Protocol::CkOmlp { replicas } => replicas,
            };
            let holds = pool.sections.iter().map(|one| Ok((one.task, self.alone(pool, one, overheads)?)));
            fits(On::Token(index), replicas, holds, cluster)?;
        }
        Ok(())
    }

    /// The time for which a token of `pool` is held in the section `one`, if no other job wants its engines.
    pub(super) fn alone(&self, pool: &Pool, one: &Section, overheads: &Overheads) -> Result<Nanoseconds, Unbounded> {
        let mut spans = vec![(None, section(overheads, one.cpu)?)];
        for engine in pool.engines.iter().map(|index| &self.engines[*index]) {
            let Some(user) = engine.users.iter().find(|user| user.task == one.task) else { continue };
            spans.push((engine.alternative, engine.lengths(user, overheads)?));
        }
        on_one_device(&spans)
    }
}

/// The sum of `spans`, but of the devices of each pool only those of one: the one with most.
pub(super) fn on_one_device(spans: &[(Option<Alternative>, Nanoseconds)]) -> Result<Nanoseconds, Unbounded> {
    let mut sum = Nanoseconds::ZERO;
    // By pool and device.
    let mut devices: BTreeMap<usize, BTreeMap<usize, Nanoseconds>> = BTreeMap::new();
    for (alternative, span) in spans {
        let place = match alternative {
            None => &mut sum,
            Some(Alternative { pool, device }) => devices.entry(*pool).or_default().entry(*device).or_default(),
        };
        *place = plus(*place, *span)?;
    }
    let most = devices.values().filter_map(|devices| devices.values().max());
    most.copied().try_fold(sum, plus)
}

/// The waits of one device of each pool, among all waits for engines (alternative, engine, time): those of the device with the
/// longest.
pub(super) fn on_worst_device(
    waits: Vec<(Option<Alternative>, usize, Total)>,
) -> Result<impl Iterator<Item = (usize, Total)>, Unbounded> {
    let mut sums: BTreeMap<(usize, usize), Nanoseconds> = BTreeMap::new();
    for (on, _, total) in &waits {
        let Some(Alternative { pool, device }) = on else { continue };
        let sum = sums.entry((*pool, *device)).or_default();
        *sum = plus(*sum, total.span)?;
    }
    let is_worst = move |on: &Alternative| {
        let own = (sums.get(&(on.pool, on.device)), std::cmp::Reverse(on.device));
        let others = sums.iter().filter(|((pool, _), _)| *pool == on.pool);
        others.map(|((_, device), sum)| (Some(sum), std::cmp::Reverse(*device))).all(|other| other <= own)
    };
    let worst = waits.into_iter().filter(move |(on, ..)| on.as_ref().is_none_or(&is_worst));
    Ok(worst.map(|(_, index, total)| (index, total)))
}

/// Whether `holds` (task, number in a job, length) of `count` engines or tokens need no more than all of their time.
fn fits(
    on: On,
    count: u8,
    holds: impl Iterator<Item = Result<(usize, Nanoseconds), Unbounded>>,
    cluster: &Cluster,
) -> Result<(), Unbounded> {
    let mut load = BigRational::zero();
    let mut largest = (0, BigRational::zero());
    for hold in holds {
        let (task, length) = hold?;
        let Some(period) = cluster.tasks().get(task).map(|task| task.period) else { continue };
        let part = BigRational::new(length.0.into(), period.0.into());
        load += &part;
        if part > largest.1 {
            largest = (task, part);
        }
    }
    if load <= BigRational::from_integer(count.into()) {
        return Ok(());
    }
    let per_mille = |load: BigRational| (load * BigInt::from(1_000)).ceil().to_integer().to_u64();
    let (per_mille, part) = per_mille(load).zip(per_mille(largest.1)).ok_or(Unbounded::Overflow)?;
    Err(Unbounded::Overcommitted { on, per_mille, largest: (largest.0, part) })
}
