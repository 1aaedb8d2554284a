//! The blocking of jobs: coarse bounds on their pi-blocking by engine locks and tokens, suspension-oblivious.
//!
//! ```text
//! 1. holds of engines     -> how long a job is blocked by engines
//! 2. + its computation    -> how long it has its token
//! 3. sections of tokens   -> how long it is blocked by tokens
//!    e' = e + its own operations + 2's and 3's blocking, and then a plain test
//! ```
//!
//! Suspension counts as execution: a job is blocked only while fewer than `c` jobs of higher priority are pending (`pi_blocking`).
//! Then the job that it waits for runs whenever ready, on its reservation or an earlier one: inheritance.
//!
//! # Conditions of a bound
//!
//! 1. A job does not hold two engines at once, and a task waits in one place at a time.
//! 2. No job holds an engine for longer than its task declares, nor more often in a job.
//! 3. No budget runs dry on the way: the budget of a task covers its computation, and [`Blocked::lends`] and [`Blocked::drawn`]
//!    besides.
//! 4. A job suspends for locks, its own operations, calls, and as long as it declares otherwise; for the last two while it holds
//!    nothing.
//! 5. An engine is idle when the next job gets it: a job that releases it earlier, and may end, has a hold until then. Its request of a job
//!    is granted or withdrawn before its token goes back.
//!
//! Tokens that clusters share lend nothing: a job with a request for one is among the jobs that its cluster runs, by donation at
//! release, and so is the holder of an engine with it. So no response time of another cluster has to be known: at most as many of
//! its jobs as it has CPUs have a request, each once, by arrival.
//!
//! # Coarse parts
//!
//! A request meets the longest hold of each rival, whether or not that has a job at the time. Only where there is no
//! other bound (`Study::is_counted`) jobs are counted, by their response times; then bounds and response times are
//! computed in turn until neither changes ([`analyse`]). By arrival jobs are counted afterwards, where that is finer (`fine`). All engines of a group are one lock, with all their requests.
//!
//! Where a pool has tokens of several devices, a job works on the one that its token is for ([`Alternative`]): of the engines that may
//! be held with a token of their own device only, those of the worst device count.
//!
//! Not here: which requests of a group really overlap (4.17 to 4.33), which engines of a group a request is for.
//!
//! # Source
//! Elliott 2015, sections 2.1.6, 2.1.7 and 4.3.2. The text has nothing on engines by priority: those bounds are ours.

mod ends;
mod fine;
mod holds;
mod tokens;

use std::fmt;

use fusee_sched::key::{Policy, PriorityPoint};
use fusee_sched::time::Nanoseconds;
use num_traits::ToPrimitive;

use crate::drawn;
use crate::overheads::{Infeasible, Locking, Overheads};
use crate::report::{self, Aware, Report};
use crate::servers::{Calls, Held};
use crate::task::{Cluster, LONGEST};

use self::holds::{on_one_device, on_worst_device};

pub use fusee_locking::pool::{Measure, Rules};

pub use crate::servers::{Caller, Server};

pub use crate::locks::{
    Abroad, Alternative, Beside, Engine, Hold, Locks, Order, Pool, Protocol, Rest, Section, Shared, User,
};

//--- Results

/// The lock or server that a job waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum On {
    /// The engine with this index.
    Engine(usize),
    /// A token of the pool with this index.
    Token(usize),
    /// No object of its own: the job donates to jobs that have to do with this pool.
    Donation(usize),
    /// The server with this index.
    Server(usize),
}

/// A part of a job's blocking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    /// The lock or server of the wait.
    pub on: On,
    /// The length of the wait in all.
    pub span: Nanoseconds,
    /// The task that accounts for most of it.
    pub largest: usize,
}

/// The time for which a job is blocked, with its causes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Blocked {
    /// The requests of the job.
    pub requests: u32,
    /// The longest time that its own operations keep it suspended: part of its execution (4.1).
    pub operations: Nanoseconds,
    /// The time that engines work for it in services of its own requests: part of its operations.
    pub served: Nanoseconds,
    /// The time that it suspends itself otherwise: part of its execution, too.
    pub suspends: Nanoseconds,
    /// CPU time that servers take from its budget for its own requests.
    pub services: Nanoseconds,
    /// The longest time that it is pi-blocked.
    pub blocking: Nanoseconds,
    /// CPU time that others may take from its budget while it waits for them.
    pub lends: Nanoseconds,
    /// Engine time that is drawn from its budget, if that covers it: all its holds, and its preemptions.
    pub drawn: Nanoseconds,
    /// The parts of [`Blocked::blocking`], the largest first.
    pub parts: Vec<Part>,
    /// The longest time for which a job has a token of the pool with this index: its computation, its operations, and its waits for
    /// engines (4.5). Preemption is not in it.
    pub sections: Vec<(usize, Nanoseconds)>,
}

/// The reason why there are no bounds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unbounded {
    /// All holds of an engine, or of the tokens of a pool, take longer than there is time.
    Overcommitted {
        /// The engine or the pool.
        on: On,
        /// The part of the time of one that they take, more than all there are have: in thousandths, rounded up.
        per_mille: u64,
        /// The task that takes most, and how much that is.
        largest: (usize, u64),
    },
    /// No bound is known for locks of this kind.
    NoBound(On),
    /// Some response times that a bound needs have no bound themselves.
    NoResponse(On),
    /// The budget of this task pays for engines, and how long it is preempted while it holds one has no bound.
    Preempted(usize),
    /// Servers call each other in a circle.
    Circle,
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
            Unbounded::Overcommitted { on, .. } => write!(f, "{on:?}: held for longer than there is time"),
            Unbounded::NoBound(on) => write!(f, "{on:?}: no bound is known"),
            Unbounded::NoResponse(on) => write!(f, "{on:?}: no bound without response times"),
            Unbounded::Preempted(task) => write!(f, "task {task}: no bound on how long it holds engines"),
            Unbounded::Circle => write!(f, "servers call each other in a circle"),
            Unbounded::GaveUp => write!(f, "blocking and response times do not settle"),
            Unbounded::Overflow => write!(f, "a time is too long"),
            Unbounded::Infeasible(why, _) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Unbounded {}

//--- The bounds

/// The number of times that blocking and response times are computed before giving up.
const ROUNDS: usize = 1_000;

/// Analyses `cluster` with these locks: its report, and how each task is blocked.
///
/// Where a bound on blocking needs response times, both are computed in turn, from no waiting at all, until neither grows. The
/// resulting bounds hold: until the first job that is later than its bound, all others were within theirs, so it was blocked no
/// longer than computed, and is not later.
///
/// A budget that covers engines is execution time, and so are a job's own operations: they are in it, and not added again.
///
/// # Errors
/// [`Unbounded`].
pub fn analyse(cluster: &Cluster, overheads: &Overheads, locks: &Locks) -> Result<(Report, Vec<Blocked>), Unbounded> {
    let coarse = settle(cluster, overheads, locks)?;
    let (report, mut blocked) = fine::refined(cluster, overheads, locks, coarse)?;
    locks.within_windows(&report)?;
    locks.add_ends(&report, &mut blocked)?;
    if blocked.iter().all(|one| one.drawn == Nanoseconds::ZERO) {
        return Ok((report, blocked));
    }
    if report.bounded == Some(false) {
        // The preemptions of holds are not known, nor whether budgets last.
        return Ok((report.without_bounds(), blocked));
    }
    drawn::add_preemptions(cluster, overheads, locks, &report, &mut blocked)?;
    Ok((report, blocked))
}

/// Blocking and response times that do not change any more.
fn settle(cluster: &Cluster, overheads: &Overheads, locks: &Locks) -> Result<(Report, Vec<Blocked>), Unbounded> {
    locks.within_their_time(cluster, overheads)?;
    let calls = Calls::new(&locks.servers, Study::held(cluster, overheads, locks)?)?;
    let mut responses = vec![Nanoseconds::ZERO; cluster.tasks().len()];
    let mut before: Option<Vec<Blocked>> = None;
    for _ in 0..ROUNDS {
        let study = Study { cluster, overheads, locks, responses: &responses, calls: &calls, known: None };
        let blocked = study.blocked()?;
        let report = match report_of(cluster, overheads, locks, &blocked) {
            Ok(report) => report,
            Err(why) => return Err(Unbounded::Infeasible(why, blocked)),
        };
        let counted = study.counts_jobs();
        if counted.is_none() || before.as_ref() == Some(&blocked) {
            return Ok((report, blocked));
        }
        for (response, task) in responses.iter_mut().zip(&report.tasks) {
            match (response_of(task), counted) {
                (Some(bound), _) => *response = bound.max(*response),
                // Overload is left to the report; no bound on blocking is one without this task's response.
                (None, Some(_)) if report.bounded == Some(false) => return Ok((report.without_bounds(), blocked)),
                (None, Some(on)) => return Err(Unbounded::NoResponse(on)),
                (None, None) => {}
            }
        }
        before = Some(blocked);
    }
    Err(Unbounded::GaveUp)
}

/// The report of a cluster with these waits.
fn report_of(
    cluster: &Cluster,
    overheads: &Overheads,
    locks: &Locks,
    blocked: &[Blocked],
) -> Result<Report, Infeasible> {
    let locking: Vec<Locking> = blocked.iter().map(Blocked::locking).collect();
    let locking = if locking.iter().all(|one| *one == Locking::default()) { &[] } else { &locking[..] };
    let rests: Vec<Rest> = (0..cluster.tasks().len()).map(|task| locks.rest(cluster, task)).collect();
    let aware = Aware { are_for_windows: locks.are_for_windows(cluster), rests: &rests };
    report::analyse_waiting(cluster, overheads, locking, aware)
}

/// The bound on the response time of a task in whole nanoseconds; `None`: it has none.
fn response_of(task: &report::TaskReport) -> Option<Nanoseconds> {
    task.bound.as_ref().and_then(|bound| bound.response.ceil().to_integer().to_u64()).map(Nanoseconds)
}

impl Blocked {
    /// The costs of its locks, as the tests want them.
    #[must_use]
    pub fn locking(&self) -> Locking {
        let operations = if self.drawn > Nanoseconds::ZERO { Nanoseconds::ZERO } else { self.operations };
        Locking { requests: self.requests, operations, suspends: self.suspends, blocking: self.blocking }
    }

    /// The longest time that a job may be suspended or kept waiting, by the declarations: the sum of all additions to its
    /// execution.
    #[must_use]
    pub fn suspension(&self) -> Nanoseconds {
        let parts = [self.operations, self.suspends, self.blocking];
        Nanoseconds(parts.into_iter().map(|part| part.0).fold(0, u64::saturating_add))
    }
}

/// One computation of all bounds.
struct Study<'a> {
    cluster: &'a Cluster,
    overheads: &'a Overheads,
    locks: &'a Locks,
    /// Upper bounds on response times, or the values known so far.
    responses: &'a [Nanoseconds],
    calls: &'a Calls<'a>,
    /// Response times that hold, for fine bounds.
    known: Option<&'a [Option<Nanoseconds>]>,
}

/// The wait of one request, or of a whole job: the task that causes it, its length, and the CPU time of that task in it.
#[derive(Clone, Copy, Debug)]
struct Wait {
    task: usize,
    span: Nanoseconds,
    cpu: Nanoseconds,
}

/// Waits in sum, and the task with the largest part.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    span: Nanoseconds,
    cpu: Nanoseconds,
    largest: (Nanoseconds, usize),
}

impl Study<'_> {
    /// The suspensions of services for engines, by server: they do not depend on response times.
    fn held(cluster: &Cluster, overheads: &Overheads, locks: &Locks) -> Result<Vec<Held>, Unbounded> {
        let none = Calls::new(&[], Vec::new())?;
        let study = Study { cluster, overheads, locks, responses: &[], calls: &none, known: None };
        locks.servers.iter().map(|server| server.task.map_or(Ok(Held::default()), |task| study.held_by(task))).collect()
    }

    /// Suspension of a service of the server that is `task` among users.
    fn held_by(&self, task: usize) -> Result<Held, Unbounded> {
        let mut held = Held::default();
        let mut longest = Nanoseconds::ZERO;
        let mut add = |requests: u32, waits: Total, notices: Nanoseconds| -> Result<(), Unbounded> {
            held.requests = held.requests.checked_add(requests).ok_or(Unbounded::Overflow)?;
            held.waits = plus(held.waits, waits.span)?;
            held.cpu = plus(held.cpu, plus(waits.cpu, notices)?)?;
            if waits.span > longest {
                (longest, held.largest) = (waits.span, waits.largest.1);
            }
            Ok(())
        };
        let mut operations = Nanoseconds::ZERO;
        for (index, engine) in self.locks.engines.iter().enumerate() {
            let Some(user) = engine.users.iter().find(|user| user.task == task) else { continue };
            let (own, waits) = (engine.operations(user)?, self.engine(index, user)?);
            operations = plus(operations, own)?;
            // The end of a server's own command is no part of its service: the driver works for that.
            let ends = times(user.times.into(), engine.ends(user)?)?;
            add(user.times, waits, plus(ends, engine.notices(plus(own, waits.span)?)?)?)?;
        }
        for (index, pool) in self.locks.pools.iter().enumerate() {
            if !pool.sections.iter().any(|section| section.task == task) {
                continue;
            }
            // A holder of a token may wait for an engine for as long as response times allow, which are not known here.
            if pool.engines.iter().any(|engine| self.is_by_counting(&self.locks.engines[*engine])) {
                return Err(Unbounded::NoBound(On::Token(index)));
            }
            add(1, self.token(index, task, &self.sections(pool)?)?, Nanoseconds::ZERO)?;
        }
        Ok(Held { operations, ..held })
    }

    /// Whether one of these is a server.
    fn serves(&self, mut users: impl Iterator<Item = usize>) -> bool {
        users.any(|user| self.locks.servers.iter().any(|server| server.task == Some(user)))
    }

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
        let (mut requests, mut notices, mut served) = (0u32, Nanoseconds::ZERO, Nanoseconds::ZERO);
        let (mut operations, mut drawn, mut waits) = (Vec::new(), Vec::new(), Vec::new());
        for (index, engine) in self.locks.engines.iter().enumerate() {
            let Some(user) = engine.users.iter().find(|user| user.task == task) else { continue };
            requests = requests.checked_add(user.times).ok_or(Unbounded::Overflow)?;
            let on = engine.alternative;
            operations.push((on, engine.operations(user)?));
            if self.locks.covering.contains(&task) && !engine.is_mutex {
                let engines = if engine.is_group { 2 } else { 1 };
                drawn.push((on, times(engines, engine.lengths(user, self.overheads)?)?));
            }
            let waits_for = self.engine(index, user)?;
            notices = plus(notices, engine.notices(plus(engine.operations(user)?, waits_for.span)?)?)?;
            waits.push((on, index, waits_for));
        }
        let (operations, drawn) = (on_one_device(&operations)?, on_one_device(&drawn)?);
        let lends: Vec<_> = waits.iter().map(|(on, _, total)| (*on, total.cpu)).collect();
        let lends = on_one_device(&lends)?;
        for (index, total) in on_worst_device(waits)? {
            add(On::Engine(index), Total { cpu: Nanoseconds::ZERO, ..total })?;
        }
        for (index, _) in self.locks.servers.iter().enumerate() {
            let (calls, total) = self.server(index, task)?;
            let held = self.calls.held(index);
            let holds = calls.checked_mul(held.requests).and_then(|holds| holds.checked_add(calls));
            requests = holds.and_then(|holds| requests.checked_add(holds)).ok_or(Unbounded::Overflow)?;
            served = plus(served, times(calls.into(), held.operations)?)?;
            add(On::Server(index), total)?;
        }
        let (mut donation, mut held) = ((None, Total::default()), Vec::new());
        for (index, pool) in self.locks.pools.iter().enumerate() {
            if pool.sections.iter().any(|section| section.task == task) {
                requests = requests.checked_add(1).ok_or(Unbounded::Overflow)?;
                let sections = self.sections(pool)?;
                held.extend(sections.iter().filter(|one| one.task == task).map(|one| (index, one.span)));
                add(On::Token(index), self.token(index, task, &sections)?)?;
            }
            // A job is a donor once (2.38), whether it uses anything or not (2.39).
            let total = self.donation(pool, task)?;
            let cpu = donation.1.cpu.max(total.cpu);
            if donation.1.span < total.span {
                donation = (Some(On::Donation(index)), total);
            }
            donation.1.cpu = cpu;
        }
        if let (Some(on), total) = donation {
            add(on, total)?;
        }
        blocked.requests = requests;
        blocked.lends = plus(plus(blocked.lends, lends)?, notices)?;
        (blocked.operations, blocked.served, blocked.drawn) = (plus(operations, served)?, served, drawn);
        blocked.sections = held;
        blocked.services = self.calls.services(task)?;
        blocked.suspends = self.locks.suspends.get(task).copied().unwrap_or_default();
        blocked.parts.sort_by_key(|part| std::cmp::Reverse(part.span));
        Ok(blocked)
    }

    /// A lock whose bound counts jobs, if there is one.
    fn counts_jobs(&self) -> Option<On> {
        let counted = |engine: &Engine| engine.order == Order::Priority && self.is_counted(engine);
        let engines = self.locks.engines.iter().position(counted).map(On::Engine);
        let is_mutex = |pool: &Pool| match pool.protocol {
            Protocol::Pool(rules) => rules.admits_by_priority() && pool.sections.len() > 2,
            Protocol::CkOmlp { .. } => false,
        };
        let is_queue = |index: &usize| self.calls.is_counted(*index, self.cluster.cpus(), |task| self.inherits(task));
        let servers = || (0..self.locks.servers.len()).find(is_queue).map(On::Server);
        engines.or_else(|| self.locks.pools.iter().position(is_mutex).map(On::Token)).or_else(servers)
    }

    /// Whether a task may have the priority of another while it calls a server.
    fn inherits(&self, task: usize) -> bool {
        self.locks.signallers.contains(&task)
    }

    /// The number of requests that a job of `task` makes of the server at `index`, directly or through others, and how long these
    /// wait for the server's work for others: see `servers`. All of that may be done on the job's budget.
    fn server(&self, index: usize, task: usize) -> Result<(u32, Total), Unbounded> {
        let (calls, on) = (&self.calls, On::Server(index));
        let requests = calls.requests(task)?[index];
        let mut total = Total::default();
        if requests == 0 {
            return Ok((0, total));
        }
        let others = || calls.all_callers(index).filter(|other| other.task != task);
        if !self.locks.servers[index].is_bounded && others().next().is_some() {
            return Err(Unbounded::NoBound(on));
        }
        let own = calls.held(index);
        total.add(Wait { task: own.largest, span: own.waits, cpu: own.cpu }, requests)?;
        let (span, cpu) = calls.full(index);
        if let Some(other) = others().next().filter(|_| calls.waits(index)) {
            total.add(Wait { task: other.task, span, cpu }, requests)?;
        }
        if calls.is_counted(index, self.cluster.cpus(), |task| self.inherits(task)) {
            let mut counted = vec![task];
            for other in others() {
                if counted.contains(&other.task) {
                    continue;
                }
                counted.push(other.task);
                let own = self.cluster.tasks().get(other.task).map(|task| (task.period, self.responses[other.task]));
                let Some((period, response)) = own.or(other.jobs) else {
                    // Its requests come last, unless it inherits.
                    if self.inherits(other.task) {
                        return Err(Unbounded::NoBound(on));
                    }
                    continue;
                };
                let window = plus(self.responses[task], response)?;
                let theirs = calls.requests(other.task)?[index];
                let many = window.0.div_ceil(period.0).checked_mul(theirs).ok_or(Unbounded::Overflow)?;
                // It is done on the other's budget, unless that has come and gone.
                let is_lent = self.locks.servers[index].is_shared || self.inherits(other.task);
                total.add(Wait { task: other.task, span, cpu: if is_lent { cpu } else { Nanoseconds::ZERO } }, many)?;
            }
        }
        Ok((u32::try_from(requests).map_err(|_| Unbounded::Overflow)?, total))
    }

    /// Whether requests for an engine by priority can be passed again and again.
    ///
    /// - If there are two users, or two that can want it, the other has it once.
    /// - On one CPU a job is not pi-blocked while others of higher priority are pending, which is enough for all requests
    ///   of its own. With its token comes the priority of others, and goes: then requests are passed as on several CPUs.
    /// - Requests of a group are ordered by the priority that they were made with, also if a later loan changes the job's priority.
    fn is_counted(&self, engine: &Engine) -> bool {
        let passes = engine.rivals.map_or(self.cluster.cpus() > 1 && engine.users.len() > 2, |rivals| rivals > 2);
        passes || engine.is_group
    }

    /// Whether waits for `engine` are bounded only by a count of the jobs that come first, which is not known for services.
    fn is_by_counting(&self, engine: &Engine) -> bool {
        match engine.order {
            Order::Fifo => false,
            Order::Preemptive => true,
            Order::Priority => self.is_counted(engine),
        }
    }

    /// The time that all requests of a job of `user` are blocked by holds of the engine at `index`.
    ///
    /// - FIFO: each request waits for one hold of each other user; of `rho - 1` of them, if no more than `rho` jobs can
    ///   want the engine at the same time. Eq. 4.7 and 4.10, which print the longest hold `rho - 1` times; those of
    ///   different rivals are of different tasks, since a task waits in one place.
    /// - Priority, one CPU: while a job of higher priority is pending, no job is blocked. Among jobs of lower priority, only the
    ///   holder of the engine at the time of the request comes before it.
    /// - Preemptive, one CPU: no job of lower priority has a part of the engine that it could have, but while it makes room. That
    ///   is part of operations, and so is the cost of preemptions by jobs of higher priority: these are pending, and their pending
    ///   time counts as their execution.
    /// - Clients without the lock have the engine whenever no holder has it: each request may be the first after that, and each
    ///   hold of others, too.
    /// - Priority, several CPUs, and where else jobs are counted ([`Study::is_counted`]): as on one CPU; and while it is among the
    ///   c highest, jobs of higher priority can pass it with each of their requests. As many jobs of task j are pending within a
    ///   job of i as are released within its response time and theirs: `ceil((r_i + r_j) / p_j)`, eq. 4.12 without its maximum,
    ///   since `r` is counted from the release here. Only those of them with no later priority point can pass ([`Study::earlier`]),
    ///   unless such a point may be lent to them: then jobs of lower priority are counted, too. If a task's job that is not counted
    ///   in this way holds the engine at the first request, the task's jobs before that one have ended, so they are not waited for:
    ///   only the excess of its hold over a counted one is added.
    fn engine(&self, index: usize, user: &User) -> Result<Total, Unbounded> {
        let engine = &self.locks.engines[index];
        let others = self.others(engine, user)?;
        if self.is_by_counting(engine) && self.serves(engine.users.iter().map(|user| user.task)) {
            return Err(Unbounded::NoBound(On::Engine(index)));
        }
        let mut total = Total::default();
        let ahead = engine.rivals.map_or(usize::MAX, |rivals| rivals.saturating_sub(1) as usize);
        match engine.order {
            Order::Fifo => {
                total.add_distinct(&others, ahead, user.times.into(), |other| self.holds(engine, user.task, other))?;
            }
            // The number of times that it is kept from the engine on several CPUs is not counted.
            Order::Preemptive if self.cluster.cpus() > 1 && !others.is_empty() => {
                return Err(Unbounded::NoBound(On::Engine(index)));
            }
            Order::Preemptive => {}
            Order::Priority => {
                let mut under_way = others.clone();
                if self.is_counted(engine) {
                    // No job of another class passes, unless it has a priority with a token, or stands in another queue.
                    let may_inherit = engine.rivals.is_some() || engine.is_group;
                    let all = engine.users.iter().map(|other| {
                        let span = engine.waits(other, self.overheads)?;
                        let cpu = times(other.times.into(), engine.lent(other, self.overheads, false)?)?;
                        // It runs on its own reservation, if that is the higher one.
                        Ok(Wait { task: other.task, span, cpu: if may_inherit { cpu } else { Nanoseconds::ZERO } })
                    });
                    let all = all.collect::<Result<Vec<_>, Unbounded>>()?;
                    for (passing, jobs) in self.passing(On::Engine(index), user.task, may_inherit, &all)? {
                        total.add(passing, jobs)?;
                        let passed = times(jobs, passing.span)?;
                        for first in under_way.iter_mut().filter(|one| one.task == passing.task) {
                            first.span = Nanoseconds(first.span.0.saturating_sub(passed.0));
                        }
                    }
                }
                let (most, requests) = (ahead.min(1), u64::from(user.times));
                total.add_longest(&under_way, most, requests.min(1))?;
                total.add_longest(&others, most, requests.saturating_sub(1))?;
            }
        }
        // A job that asks for an engine without a holder takes it back.
        let own = Wait { task: Shared::CLASS, span: engine.shared.take_back, cpu: Nanoseconds::ZERO };
        total.add(own, user.times.into())?;
        Ok(total)
    }

    /// The longest hold of each other user of `engine`.
    fn others(&self, engine: &Engine, user: &User) -> Result<Vec<Wait>, Unbounded> {
        let others = engine.users.iter().filter(|other| other.task != user.task);
        let wait = |other: &User| {
            let cpu = engine.lent(other, self.overheads, self.abroad(other.task).is_some())?;
            Ok(Wait { task: other.task, span: engine.length(other, self.overheads)?, cpu })
        };
        others.map(wait).collect()
    }

    /// Jobs that pass those of `task`, and the number of each: `all` has their holds in one job each.
    fn passing(&self, on: On, task: usize, may_inherit: bool, all: &[Wait]) -> Result<Vec<(Wait, u64)>, Unbounded> {
        let tasks = self.cluster.tasks();
        let is_foreign = |task: usize| task >= tasks.len();
        // Jobs of other classes and clusters cannot be counted.
        if is_foreign(task) || (may_inherit && all.iter().any(|other| is_foreign(other.task))) {
            return Err(Unbounded::NoBound(on));
        }
        let others = all.iter().filter(|other| other.task != task && !is_foreign(other.task));
        let counted = others.map(|other| {
            let mut window = plus(self.responses[task], self.responses[other.task])?;
            if !may_inherit && !self.inherits(other.task) {
                window = self.earlier(task, other.task).map_or(window, |earlier| earlier.min(window));
            }
            Ok((*other, window.0.div_ceil(tasks[other.task].period.0)))
        });
        counted.collect()
    }

    /// The length of the interval of releases of jobs of `other` that are pending at some instant within a job of `task`, and do
    /// not have a later priority point. `None`: all jobs of `other` come first. The earliest of them is released its response time
    /// before that job, the latest one after it by as much as its own point comes sooner after its release.
    fn earlier(&self, task: usize, other: usize) -> Option<Nanoseconds> {
        let (cluster, scheduled) = (self.cluster, self.cluster.scheduled());
        let point = |task: usize| cluster.policy().priority_point(&scheduled[task].parameters(cluster.cpus()));
        match (point(task), point(other)) {
            (PriorityPoint::AfterRelease(own), PriorityPoint::AfterRelease(point)) => {
                let latest = self.responses[other].0.saturating_add(own.0).saturating_sub(point.0);
                Some(Nanoseconds(latest))
            }
            (PriorityPoint::Constant(own), PriorityPoint::Constant(point)) if point > own => Some(Nanoseconds::ZERO),
            _ => None,
        }
    }

    /// The known facts of `task`, if it is of another cluster.
    fn abroad(&self, task: usize) -> Option<&Abroad> {
        self.locks.abroad.iter().find(|abroad| abroad.task == task)
    }
}

impl Protocol {
    /// Whether each request of so many users joins a queue at once, and none passes another there: nothing depends on the priority
    /// that it is made with.
    #[must_use]
    pub fn is_by_arrival(&self, users: usize) -> bool {
        match self {
            Protocol::Pool(Rules { limit: None, total, .. }) => total.is_none(),
            Protocol::Pool(rules) => rules.capacity().is_none_or(|room| users <= room as usize),
            Protocol::CkOmlp { .. } => false,
        }
    }
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
pub(crate) fn plus(one: Nanoseconds, other: Nanoseconds) -> Result<Nanoseconds, Unbounded> {
    one.0.checked_add(other.0).map(Nanoseconds).filter(|sum| *sum <= LONGEST).ok_or(Unbounded::Overflow)
}

pub(crate) fn times(count: u64, span: Nanoseconds) -> Result<Nanoseconds, Unbounded> {
    count.checked_mul(span.0).map(Nanoseconds).filter(|product| *product <= LONGEST).ok_or(Unbounded::Overflow)
}

/// [`Overheads::section`], which saturates, within its range.
fn section(overheads: &Overheads, cpu: Nanoseconds) -> Result<Nanoseconds, Unbounded> {
    plus(overheads.section(cpu), Nanoseconds::ZERO)
}

#[cfg(test)]
#[path = "blocking_tests.rs"]
mod tests;
