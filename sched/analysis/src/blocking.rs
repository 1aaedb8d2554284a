//! How long a job can be pi-blocked: coarse bounds for engine locks and tokens, suspension-oblivious.
//!
//! ```text
//! 1. holds of engines     -> how long a job is blocked by engines
//! 2. + what it computes   -> how long it has its token
//! 3. sections of tokens   -> how long it is blocked by tokens
//!    e' = e + its own operations + 2's and 3's blocking, and then a plain test
//! ```
//!
//! Suspension counts as execution: a job is blocked only while fewer than `c` jobs of higher priority are pending
//! (`pi_blocking`). Then whoever it waits for runs whenever ready, on its reservation or an earlier one: inheritance.
//!
//! # What must hold for a bound to hold
//!
//! 1. A job does not hold two engines at once, and a task waits in one place at a time.
//! 2. Nobody holds an engine for longer than it declares, nor more often in a job.
//! 3. No budget runs dry on the way: that of a task covers what it computes, and [`Blocked::lends`] besides.
//! 4. A job suspends for locks and its own operations only.
//!
//! # What is coarse
//!
//! A request meets the longest hold of each rival, whether or not that has a job at the time. Only where there is no
//! other bound, for engines by priority that three tasks of several CPUs share, jobs are counted, by their response
//! times; then bounds and response times are computed in turn until neither changes ([`analyse`]).
//!
//! Not here: which requests really overlap (4.11 to 4.33), copies between accelerators, which hold two engines.
//!
//! # Source
//! Elliott 2015, sections 2.1.6, 2.1.7 and 4.3.2. Nothing is said there of engines by priority: those bounds are ours.

use std::fmt;

use fusee_locking::ck_omlp;
use fusee_locking::pool;
use fusee_sched::time::Nanoseconds;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

use crate::overheads::{Infeasible, Locking, Overheads};
use crate::report::{self, Report};
use crate::task::{Cluster, LONGEST};

pub use fusee_locking::pool::{Measure, Rules};

//--- What is declared

/// The longest that a task holds an engine at a time, from its grant until the engine is idle again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Hold {
    /// CPU time of it.
    pub cpu: Nanoseconds,
    /// How long the engine works, and the task may be suspended.
    pub operation: Nanoseconds,
}

/// One task's use of an engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct User {
    /// Below the number of the cluster's tasks: that task. Others, of other classes, have any number above.
    pub task: usize,
    /// How often a job holds it, at most.
    pub times: u32,
    /// For how long.
    pub hold: Hold,
}

/// In which order requests are granted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// By arrival.
    #[default]
    Fifo,
    /// Earliest key first; a hold is not interrupted.
    Priority,
}

/// An engine and the tasks of one cluster that share it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Engine {
    /// In which order.
    pub order: Order,
    /// One for each task.
    pub users: Vec<User>,
    /// Jobs that can want it at the same time, where tokens limit that: `rho`.
    pub rivals: Option<u32>,
    /// What the end of an operation takes: interrupt and bottom half.
    pub completion: Nanoseconds,
    /// How much longer a hold is if the engine hangs and is reset; zero: that is not expected.
    pub reset: Nanoseconds,
}

/// A task's use of a token, once in each job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Section {
    /// As in [`User`].
    pub task: usize,
    /// CPU time with the token, holds of engines apart.
    pub cpu: Nanoseconds,
}

/// How requests for tokens wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// Within the cluster: k-FMLP, R2DGLP, or by priority. Queues are joined without advice.
    Pool(Rules),
    /// Across clusters.
    CkOmlp {
        /// CPUs of all clusters that share: `m`.
        cpus: u16,
        /// Tokens: `k`.
        replicas: u8,
        /// The longest section of a task of another cluster, blocking by engines included.
        elsewhere: Nanoseconds,
    },
}

/// Tokens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pool {
    /// How requests wait.
    pub protocol: Protocol,
    /// One for each task of the cluster that uses them.
    pub sections: Vec<Section>,
    /// Engines that are held with a token only.
    pub engines: Vec<usize>,
}

/// All that tasks of one cluster share.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Locks {
    /// Its engines.
    pub engines: Vec<Engine>,
    /// Its tokens.
    pub pools: Vec<Pool>,
}

//--- What follows

/// What a job waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum On {
    /// The engine with this index.
    Engine(usize),
    /// A token of the pool with this index.
    Token(usize),
    /// Nothing of its own: it donates to jobs that have to do with this pool.
    Donation(usize),
}

/// A part of a job's blocking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    /// What it waits for.
    pub on: On,
    /// How long in all.
    pub span: Nanoseconds,
    /// Who accounts for most of it; for [`Protocol::CkOmlp`], `usize::MAX` is a task of another cluster.
    pub largest: usize,
}

/// How long a job is blocked, and for what.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Blocked {
    /// Its requests.
    pub requests: u32,
    /// How long its own operations keep it suspended, at most: part of its execution (4.1).
    pub operations: Nanoseconds,
    /// How long it is pi-blocked, at most.
    pub blocking: Nanoseconds,
    /// CPU time that others may take from its budget while it waits for them.
    pub lends: Nanoseconds,
    /// What [`Blocked::blocking`] consists of, the largest first.
    pub parts: Vec<Part>,
}

/// Why there are no bounds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unbounded {
    /// All holds of an engine take longer than there is time.
    Overcommitted {
        /// Which.
        engine: usize,
        /// How much of its time they take, more than all: in thousandths, rounded up.
        per_mille: u64,
        /// The task that takes most, and how much that is.
        largest: (usize, u64),
    },
    /// No bound is known for locks of this kind.
    NoBound(On),
    /// Some response times that a bound needs have no bound themselves.
    NoResponse(On),
    /// Blocking and response times did not settle.
    GaveUp,
    /// A sum is too long to be a time.
    Overflow,
    /// A task cannot wait for so long.
    Infeasible(Infeasible, Vec<Blocked>),
}

impl fmt::Display for Unbounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unbounded::Overcommitted { engine, .. } => write!(f, "engine {engine}: its holds take all of its time"),
            Unbounded::NoBound(on) => write!(f, "{on:?}: no bound is known"),
            Unbounded::NoResponse(on) => write!(f, "{on:?}: no bound without response times"),
            Unbounded::GaveUp => write!(f, "blocking and response times do not settle"),
            Unbounded::Overflow => write!(f, "a time is too long"),
            Unbounded::Infeasible(why, _) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Unbounded {}

//--- The bounds

/// How often blocking and response times are computed before giving up.
const ROUNDS: usize = 1_000;

/// Analyses `cluster` with these locks: its report, and how each task is blocked.
///
/// Where a bound on blocking needs response times, both are computed in turn, from no waiting at all, until neither
/// grows. What is found so holds: until the first job that is later than its bound, all others were within theirs, so
/// it was blocked no longer than computed, and is not later.
///
/// # Errors
/// [`Unbounded`].
pub fn analyse(cluster: &Cluster, overheads: &Overheads, locks: &Locks) -> Result<(Report, Vec<Blocked>), Unbounded> {
    locks.within_their_time(cluster, overheads)?;
    let mut responses = vec![Nanoseconds::ZERO; cluster.tasks().len()];
    let mut before: Option<Vec<Blocked>> = None;
    for _ in 0..ROUNDS {
        let study = Study { cluster, overheads, locks, responses: &responses };
        let blocked = study.blocked()?;
        let locking: Vec<Locking> = blocked.iter().map(Blocked::locking).collect();
        let locking = if locking.iter().all(|one| *one == Locking::default()) { &[] } else { &locking[..] };
        let report = match report::analyse(cluster, overheads, locking) {
            Ok(report) => report,
            Err(why) => return Err(Unbounded::Infeasible(why, blocked)),
        };
        let counted = study.counts_jobs();
        if counted.is_none() || before.as_ref() == Some(&blocked) {
            return Ok((report, blocked));
        }
        for (response, task) in responses.iter_mut().zip(&report.tasks) {
            let bound = task.bound.as_ref().and_then(|bound| bound.response.ceil().to_integer().to_u64());
            match (bound, counted) {
                (Some(bound), _) => *response = Nanoseconds(bound).max(*response),
                // Overload is for the report to say.
                (None, _) if report.bounded == Some(false) => return Ok((report, blocked)),
                (None, Some(on)) => return Err(Unbounded::NoResponse(on)),
                (None, None) => {}
            }
        }
        before = Some(blocked);
    }
    Err(Unbounded::GaveUp)
}

impl Blocked {
    /// As the tests want it.
    #[must_use]
    pub fn locking(&self) -> Locking {
        Locking { requests: self.requests, operations: self.operations, blocking: self.blocking }
    }
}

impl Engine {
    /// How long `user` holds it at a time, seen by those who wait (2.47).
    fn length(&self, user: &User, overheads: &Overheads) -> Result<Nanoseconds, Unbounded> {
        plus(self.operation(user)?, section(overheads, user.hold.cpu)?)
    }

    /// How long one operation of `user` takes.
    fn operation(&self, user: &User) -> Result<Nanoseconds, Unbounded> {
        match user.hold.operation {
            Nanoseconds::ZERO => Ok(Nanoseconds::ZERO),
            operation => plus(operation, plus(self.completion, self.reset)?),
        }
    }
}

impl Locks {
    /// Whether no engine is wanted for more than all of its time; then no bound would exist.
    fn within_their_time(&self, cluster: &Cluster, overheads: &Overheads) -> Result<(), Unbounded> {
        for (index, engine) in self.engines.iter().enumerate() {
            let mut load = BigRational::zero();
            let mut largest = (0, BigRational::zero());
            for user in &engine.users {
                let Some(task) = cluster.tasks().get(user.task) else { continue };
                let time = BigInt::from(engine.length(user, overheads)?.0) * user.times;
                let part = BigRational::new(time, task.period.0.into());
                load += &part;
                if part > largest.1 {
                    largest = (user.task, part);
                }
            }
            if load > BigRational::from_integer(1.into()) {
                let per_mille = |load: BigRational| (load * BigInt::from(1_000)).ceil().to_integer().to_u64();
                let (per_mille, part) = per_mille(load).zip(per_mille(largest.1)).ok_or(Unbounded::Overflow)?;
                return Err(Unbounded::Overcommitted { engine: index, per_mille, largest: (largest.0, part) });
            }
        }
        Ok(())
    }
}

/// One computation of all bounds.
struct Study<'a> {
    cluster: &'a Cluster,
    overheads: &'a Overheads,
    locks: &'a Locks,
    /// Upper bounds on response times, or what is known so far.
    responses: &'a [Nanoseconds],
}

/// How one request, or all of a job, may be kept waiting: by whom for how long, and their CPU time in that.
#[derive(Clone, Copy, Debug)]
struct Wait {
    task: usize,
    span: Nanoseconds,
    cpu: Nanoseconds,
}

/// Waits in sum, and who has most of it.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    span: Nanoseconds,
    cpu: Nanoseconds,
    largest: (Nanoseconds, usize),
}

impl Study<'_> {
    /// The bounds of each of the cluster's tasks.
    fn blocked(&self) -> Result<Vec<Blocked>, Unbounded> {
        (0..self.cluster.tasks().len()).map(|task| self.task(task)).collect()
    }

    fn task(&self, task: usize) -> Result<Blocked, Unbounded> {
        let mut blocked = Blocked::default();
        let mut add = |on: On, total: Total| -> Result<(), Unbounded> {
            blocked.blocking = plus(blocked.blocking, total.span)?;
            blocked.lends = plus(blocked.lends, total.cpu)?;
            if total.span > Nanoseconds::ZERO {
                blocked.parts.push(Part { on, span: total.span, largest: total.largest.1 });
            }
            Ok(())
        };
        let (mut requests, mut operations) = (0u32, Nanoseconds::ZERO);
        for (index, engine) in self.locks.engines.iter().enumerate() {
            let Some(user) = engine.users.iter().find(|user| user.task == task) else { continue };
            requests = requests.checked_add(user.times).ok_or(Unbounded::Overflow)?;
            operations = plus(operations, times(user.times.into(), engine.operation(user)?)?)?;
            add(On::Engine(index), self.engine(index, user)?)?;
        }
        let mut donation: Option<(On, Total)> = None;
        for (index, pool) in self.locks.pools.iter().enumerate() {
            if pool.sections.iter().any(|section| section.task == task) {
                requests = requests.checked_add(1).ok_or(Unbounded::Overflow)?;
                add(On::Token(index), self.token(index, task)?)?;
            }
            // A job is a donor once (2.38), whether it uses anything or not (2.39).
            let total = self.donation(pool)?;
            if donation.as_ref().is_none_or(|(_, other)| other.span < total.span) {
                donation = Some((On::Donation(index), total));
            }
        }
        if let Some((on, total)) = donation {
            add(on, total)?;
        }
        blocked.requests = requests;
        blocked.operations = operations;
        blocked.parts.sort_by_key(|part| std::cmp::Reverse(part.span));
        Ok(blocked)
    }

    /// A lock whose bound counts jobs, if there is one.
    fn counts_jobs(&self) -> Option<On> {
        let counted =
            |engine: &&Engine| engine.order == Order::Priority && self.is_counted(engine.users.len(), engine.rivals);
        let engines = self.locks.engines.iter().position(|engine| counted(&engine)).map(On::Engine);
        let is_mutex = |pool: &Pool| match pool.protocol {
            Protocol::Pool(rules) => rules.admits_by_priority() && self.is_counted(pool.sections.len(), None),
            Protocol::CkOmlp { .. } => false,
        };
        engines.or_else(|| self.locks.pools.iter().position(is_mutex).map(On::Token))
    }

    /// Whether requests for a lock by priority can be passed again and again: on one CPU a job is not pi-blocked while
    /// others of higher priority are pending, and of two users, or two who can want it, the other has it once.
    fn is_counted(&self, users: usize, rivals: Option<u32>) -> bool {
        self.cluster.cpus() > 1 && users > 2 && rivals.is_none_or(|rivals| rivals > 2)
    }

    /// How long all requests of a job of `user` are blocked by holds of the engine at `index`.
    ///
    /// - FIFO: each request waits for one hold of each other user; of `rho - 1` of them, if no more than `rho` jobs can
    ///   want the engine at the same time. Eq. 4.7 and 4.10, which print the longest hold `rho - 1` times; those of
    ///   different rivals are of different tasks, since a task waits in one place.
    /// - Priority, one CPU: while a job of higher priority is pending, nobody is blocked. Of lower ones, only who holds
    ///   the engine when the request is made comes before it.
    /// - Priority, several CPUs: the same; and while it is among the c highest, jobs of higher priority can pass it with
    ///   each of their requests. As many jobs of task j are pending within a job of i as are released within its
    ///   response time and theirs: `ceil((r_i + r_j) / p_j)`, eq. 4.12 without its maximum, since `r` is counted from the
    ///   release here. Jobs of lower priority are counted, too.
    fn engine(&self, index: usize, user: &User) -> Result<Total, Unbounded> {
        let engine = &self.locks.engines[index];
        let others = self.others(engine, user)?;
        let mut total = Total::default();
        match engine.order {
            Order::Fifo => {
                let ahead = engine.rivals.map_or(usize::MAX, |rivals| rivals.saturating_sub(1) as usize);
                total.add_longest(&others, ahead, user.times.into())?;
            }
            Order::Priority => {
                total.add_longest(&others, 1, user.times.into())?;
                if self.is_counted(engine.users.len(), engine.rivals) {
                    let holds =
                        engine.users.iter().zip(engine.users.iter().map(|other| engine.length(other, self.overheads)));
                    let holds = holds.map(|(other, span)| Ok((other.task, times(other.times.into(), span?)?)));
                    let holds = holds.collect::<Result<Vec<_>, Unbounded>>()?;
                    self.pass(On::Engine(index), user.task, engine.rivals.is_some(), &holds, &mut total)?;
                }
            }
        }
        Ok(total)
    }

    /// The longest hold of each other user of `engine`.
    fn others(&self, engine: &Engine, user: &User) -> Result<Vec<Wait>, Unbounded> {
        let others = engine.users.iter().filter(|other| other.task != user.task);
        let wait = |other: &User| {
            let cpu = section(self.overheads, other.hold.cpu)?;
            Ok(Wait { task: other.task, span: engine.length(other, self.overheads)?, cpu })
        };
        others.map(wait).collect()
    }

    /// Adds what jobs that pass those of `task` take: `all` they hold in one job each.
    fn pass(
        &self,
        on: On,
        task: usize,
        is_nested: bool,
        all: &[(usize, Nanoseconds)],
        total: &mut Total,
    ) -> Result<(), Unbounded> {
        let tasks = self.cluster.tasks();
        let is_foreign = |task: usize| task >= tasks.len();
        // Who is of another class passes nobody, unless it inherits with its token; and its jobs cannot be counted.
        if is_foreign(task) || (is_nested && all.iter().any(|(other, _)| is_foreign(*other))) {
            return Err(Unbounded::NoBound(on));
        }
        for (other, held) in all.iter().filter(|(other, _)| *other != task && !is_foreign(*other)) {
            let window = plus(self.responses[task], self.responses[*other])?;
            let jobs = window.0.div_ceil(tasks[*other].period.0);
            // It runs on its own reservation, which is the higher one.
            total.add(Wait { task: *other, span: *held, cpu: Nanoseconds::ZERO }, jobs)?;
        }
        Ok(())
    }

    /// How long each user of `pool` has its token, and how long it computes in that: phases 1 and 2, eq. 4.5.
    fn sections(&self, pool: &Pool) -> Result<Vec<Wait>, Unbounded> {
        let one = |one: &Section| {
            let mut cpu = section(self.overheads, one.cpu)?;
            let mut span = cpu;
            for index in &pool.engines {
                let engine = &self.locks.engines[*index];
                let Some(user) = engine.users.iter().find(|user| user.task == one.task) else { continue };
                let blocked = self.engine(*index, user)?;
                span = plus(span, times(user.times.into(), engine.length(user, self.overheads)?)?)?;
                span = plus(span, blocked.span)?;
                let held = times(user.times.into(), section(self.overheads, user.hold.cpu)?)?;
                cpu = plus(cpu, plus(held, blocked.cpu)?)?;
            }
            Ok(Wait { task: one.task, span, cpu })
        };
        pool.sections.iter().map(one).collect()
    }

    /// How long the request of a job of `task` for a token of the pool at `index` is blocked: phase 3.
    ///
    /// - k-FMLP: eq. 2.31, with the longest sections of as many tasks (4.35, 4.38) in place of the longest so many times;
    ///   2.32 where the shortest queue is one of lengths.
    /// - R2DGLP: eq. 2.35 and 4.37 with the c of the cluster and the bound f on queues, which may be above `ceil(c / k)`;
    ///   4.35 as long as all tasks fit into the queues (the text: while there are no more than CPUs).
    /// - By priority: as an engine, if there is one token; no bound is known for several.
    /// - CK-OMLP: eq. 2.36.
    fn token(&self, index: usize, task: usize) -> Result<Total, Unbounded> {
        let pool = &self.locks.pools[index];
        let sections = self.sections(pool)?;
        let others: Vec<Wait> = sections.iter().filter(|one| one.task != task).copied().collect();
        let mut total = Total::default();
        match pool.protocol {
            Protocol::Pool(rules) => {
                let (users, replicas) = (sections.len() as u64, rules.replicas);
                let room = rules.limit.map_or(u64::MAX, |limit| u64::from(limit) * u64::from(replicas));
                match (rules.limit, rules.measure) {
                    _ if users <= u64::from(replicas) => {}
                    (None, Measure::CriticalSections) => {
                        let spans: Vec<Nanoseconds> = others.iter().map(|other| other.span).collect();
                        total.add_longest(&others, usize::MAX, 1)?;
                        total.span = pool::k_fmlp_blocking_by_length(&spans, replicas);
                    }
                    (None, Measure::Requests) => {
                        total.add_longest(&others, pool::k_fmlp_requests(users, replicas) as usize, 1)?;
                    }
                    (Some(_), _) if rules.admits_by_priority() => {
                        if replicas != 1 {
                            return Err(Unbounded::NoBound(On::Token(index)));
                        }
                        total.add_longest(&others, 1, 1)?;
                        if self.is_counted(sections.len(), None) {
                            let all: Vec<_> = sections.iter().map(|one| (one.task, one.span)).collect();
                            self.pass(On::Token(index), task, false, &all, &mut total)?;
                        }
                    }
                    (Some(_), _) if users <= room => {
                        total.add_longest(&others, pool::k_fmlp_requests(users, replicas) as usize, 1)?;
                    }
                    (Some(limit), _) => {
                        // The requests ahead may be of one task, again and again.
                        let requests = pool::r2dglp_requests(limit.saturating_mul(replicas.into()), replicas);
                        total.add_longest(&others, 1, requests)?;
                    }
                }
            }
            Protocol::CkOmlp { cpus, replicas, elsewhere } => {
                let rounds = ck_omlp::rounds(cpus, replicas).saturating_sub(1);
                total.add_longest(&with_elsewhere(&others, elsewhere), 1, rounds)?;
            }
        }
        Ok(total)
    }

    /// How long a job is blocked as a donor because of `pool`: eq. 2.37.
    fn donation(&self, pool: &Pool) -> Result<Total, Unbounded> {
        let mut total = Total::default();
        if let Protocol::CkOmlp { cpus, replicas, elsewhere } = pool.protocol {
            let all = with_elsewhere(&self.sections(pool)?, elsewhere);
            // Without a user in its cluster nobody donates.
            if !pool.sections.is_empty() {
                total.add_longest(&all, 1, ck_omlp::rounds(cpus, replicas))?;
            }
        }
        Ok(total)
    }
}

/// `sections`, and the longest of other clusters; those run on their own CPUs.
fn with_elsewhere(sections: &[Wait], elsewhere: Nanoseconds) -> Vec<Wait> {
    let foreign = Wait { task: usize::MAX, span: elsewhere, cpu: Nanoseconds::ZERO };
    sections.iter().copied().chain([foreign]).collect()
}

impl Total {
    fn add(&mut self, wait: Wait, count: u64) -> Result<(), Unbounded> {
        let span = times(count, wait.span)?;
        self.span = plus(self.span, span)?;
        self.cpu = plus(self.cpu, times(count, wait.cpu)?)?;
        if span > self.largest.0 {
            self.largest = (span, wait.task);
        }
        Ok(())
    }

    /// Adds the `most` longest, each `count` times. The largest CPU times are other ones, perhaps.
    fn add_longest(&mut self, waits: &[Wait], most: usize, count: u64) -> Result<(), Unbounded> {
        let mut spans: Vec<Wait> = waits.iter().map(|wait| Wait { cpu: Nanoseconds::ZERO, ..*wait }).collect();
        spans.sort_by_key(|wait| std::cmp::Reverse(wait.span));
        let mut cpus: Vec<Nanoseconds> = waits.iter().map(|wait| wait.cpu).collect();
        cpus.sort_by_key(|cpu| std::cmp::Reverse(*cpu));
        spans.into_iter().take(most).try_for_each(|wait| self.add(wait, count))?;
        for cpu in cpus.into_iter().take(most) {
            self.cpu = plus(self.cpu, times(count, cpu)?)?;
        }
        Ok(())
    }
}

//--- Times

/// No time here is longer than [`LONGEST`], so sums and products of two cannot be wrong silently.
fn plus(one: Nanoseconds, other: Nanoseconds) -> Result<Nanoseconds, Unbounded> {
    one.0.checked_add(other.0).map(Nanoseconds).filter(|sum| *sum <= LONGEST).ok_or(Unbounded::Overflow)
}

fn times(count: u64, span: Nanoseconds) -> Result<Nanoseconds, Unbounded> {
    count.checked_mul(span.0).map(Nanoseconds).filter(|product| *product <= LONGEST).ok_or(Unbounded::Overflow)
}

/// [`Overheads::section`], which saturates, within its range.
fn section(overheads: &Overheads, cpu: Nanoseconds) -> Result<Nanoseconds, Unbounded> {
    plus(overheads.section(cpu), Nanoseconds::ZERO)
}

#[cfg(test)]
#[path = "blocking_tests.rs"]
mod tests;
