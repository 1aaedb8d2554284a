//! The time that calls keep jobs waiting: servers as resources that several tasks use one by one.
//!
//! A server answers one request before it receives the next, and waits for nothing but the calls that it makes itself. Its
//! *service* is the CPU time of one request. A job's own services are executed on its own budget, so they are part of its execution;
//! only the services of others that it waits for block it.
//!
//! # Waits of one request
//!
//! Requests queue by priority, and a service that has begun is finished. Let `direct(x)` be the number of tasks and servers that call
//! server `x`. A request that a job makes of `x`, itself or through another server, waits
//!
//! 1. for the service in progress: `ahead(x)`, which is zero if `direct(x) <= 1`, as there is no other, and else `full(x)`: the
//!    service of `x`, and for each call it makes meanwhile the wait and the time of that call, `ahead(y) + full(y)`.
//! 2. for requests that are taken although they came later. The server in service inherits from the waiting job, and so does each
//!    server in turn that the service waits for: it executes as long as the job is pi-blocked.
//!    - If `direct(x) <= 2`, there are none: when a service ends, the server takes the next request at once, and its last client
//!      cannot have made another one yet.
//!    - On one CPU a request is taken earlier only if it has an earlier key, which means that a job of higher priority is pending;
//!      and as long as one is, no job is pi-blocked. It is pending until its request is answered.
//!    - Else, all requests of jobs of other tasks that may be pending meanwhile are counted, each with `full(x)`. So it is where a task
//!      that calls `x` may have the priority of a job that waits for its signal: that goes when another task signals.
//!
//! Requests of tasks without jobs come after all of jobs. So they are in progress at most, and never taken earlier.
//!
//! # Engines and tokens
//!
//! A server may hold engines in a service, one after the other, and have a token of a pool once. It is one more user of each: it
//! makes one request at a time, and no job holds an engine or a token while it waits for a service. So a service is longer by its
//! operations, and by the wait of each of its requests for the engine: as that of any user (`blocking`). Operations for a job's own
//! request suspend that job; waits for the engine block it. In the service of another's request both are part of `full`.
//!
//! - By arrival, a request of a server waits for one hold of each other user, as that of a task does.
//! - By priority, on one CPU: keys are compared when the engine is granted, and the server that the job waits for has inherited by
//!   then. So only jobs of higher priority pass it, and while one is pending no job is pi-blocked; the hold that is under way is
//!   waited for.
//! - By priority, on several CPUs: a service for a job that comes last may pass others with an inherited key. No bound is given.
//! - Tokens: where each request joins a queue at once, by arrival. Where priority decides which request does, no bound is given.
//!
//! # Several clusters
//!
//! Keys of two clusters cannot be compared, so requests of other clusters' jobs are counted, for response times that are assumed
//! ([`Caller::jobs`]) and have to be confirmed. A service for another cluster's client executes there, *boosted* above all keys of
//! that cluster as long as a job of another cluster waits. So it executes as long as no more servers are boosted there than it has
//! CPUs, for which [`Server::is_bounded`] stands. Boosts are interference for all tasks there ([`crate::task::Above`]).
//!
//! # Conditions
//!
//! 1. No service takes longer than declared. Jobs call, and are suspended, only while they hold no engine and no token; so do servers.
//! 2. No job calls more often than its task declares, and no call is given up before it is answered.
//! 3. No task with jobs sends to a server, which would be served on the budget of a waiting job.
//!
//! Tasks that do not keep to 2 and 3 are a matter of the proofs (admission).
//!
//! Not here: how long engines and tokens are waited for (`blocking`); servers that use engines or tokens of several clusters.

use fusee_sched::time::Nanoseconds;

use crate::blocking::{Unbounded, plus, times};

/// A task that calls a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Caller {
    /// The number of the task, as in [`crate::blocking::User`].
    pub task: usize,
    /// The number of its calls in a job.
    pub times: u32,
    /// The period and the longest response time of a caller in another cluster that has jobs; the response time is assumed.
    pub jobs: Option<(Nanoseconds, Nanoseconds)>,
}

/// A task that answers requests, one by one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Server {
    /// The number of the server, as in [`crate::blocking::User`], if it uses engines or tokens.
    pub task: Option<usize>,
    /// CPU time of the longest service with its holds of engines, without the calls that it makes meanwhile.
    pub service: Nanoseconds,
    /// The additional time of a service that is executed in another cluster: until that boosts it again.
    pub elsewhere: Nanoseconds,
    /// The servers that it calls in one service, and how often.
    pub calls: Vec<(usize, u32)>,
    /// One for each task that calls it.
    pub callers: Vec<Caller>,
    /// Whether clients of other clusters than that of the analysis call it.
    pub is_shared: bool,
    /// Whether it executes whenever a job of the cluster waits for its work for others.
    pub is_bounded: bool,
}

/// The suspension of a service for engines and tokens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Held {
    /// The number of its requests for one.
    pub requests: u32,
    /// The time that they work for it.
    pub operations: Nanoseconds,
    /// The longest wait for the holds of others.
    pub waits: Nanoseconds,
    /// The task with the largest part of that wait.
    pub largest: usize,
    /// CPU time in all of that which a job that waits for the service may pay for.
    pub cpu: Nanoseconds,
}

/// The results for all servers, by server.
pub(crate) struct Calls<'a> {
    servers: &'a [Server],
    held: Vec<Held>,
    /// The longest time that a request is in service.
    full: Vec<Nanoseconds>,
    /// CPU time of that.
    cpu: Vec<Nanoseconds>,
    /// Tasks and servers that call it.
    direct: Vec<usize>,
    /// Indices, servers before those that they call.
    order: Vec<usize>,
}

impl<'a> Calls<'a> {
    /// # Errors
    /// A time that is too long. Servers that call each other in a circle are [`Unbounded::Circle`].
    pub(crate) fn new(servers: &'a [Server], held: Vec<Held>) -> Result<Calls<'a>, Unbounded> {
        let order = order(servers)?;
        let calling = |index: usize| servers.iter().filter(move |one| one.calls.iter().any(|(at, _)| *at == index));
        let direct: Vec<usize> =
            servers.iter().enumerate().map(|(index, one)| one.callers.len() + calling(index).count()).collect();
        let none = vec![Nanoseconds::ZERO; servers.len()];
        let mut calls = Calls { servers, held, full: none.clone(), cpu: none, direct, order };
        for at in calls.order.clone().into_iter().rev() {
            let Held { operations, waits, cpu: lent, .. } = calls.held(at);
            let mut full = plus(plus(servers[at].service, servers[at].elsewhere)?, plus(operations, waits)?)?;
            let mut cpu = plus(servers[at].service, lent)?;
            for (other, count) in &servers[at].calls {
                let services = u64::from(*count) * if calls.waits(*other) { 2 } else { 1 };
                full = plus(full, times(services, calls.full[*other])?)?;
                cpu = plus(cpu, times(services, calls.cpu[*other])?)?;
            }
            (calls.full[at], calls.cpu[at]) = (full, cpu);
        }
        Ok(calls)
    }

    /// The number of requests that each server gets from one job of `task`, directly and through others.
    pub(crate) fn requests(&self, task: usize) -> Result<Vec<u64>, Unbounded> {
        let mut requests = vec![0u64; self.servers.len()];
        for at in &self.order {
            let own = self.servers[*at].callers.iter().filter(|caller| caller.task == task);
            let own: u64 = own.map(|caller| u64::from(caller.times)).sum();
            requests[*at] = requests[*at].checked_add(own).ok_or(Unbounded::Overflow)?;
            for (other, count) in &self.servers[*at].calls {
                let more = requests[*at].checked_mul(u64::from(*count)).ok_or(Unbounded::Overflow)?;
                requests[*other] = requests[*other].checked_add(more).ok_or(Unbounded::Overflow)?;
            }
        }
        Ok(requests)
    }

    /// CPU time of all services for one job of `task`.
    pub(crate) fn services(&self, task: usize) -> Result<Nanoseconds, Unbounded> {
        let mut sum = Nanoseconds::ZERO;
        for (at, count) in self.requests(task)?.into_iter().enumerate() {
            sum = plus(sum, times(count, self.servers[at].service)?)?;
        }
        Ok(sum)
    }

    /// The suspension of a service of the server at `index` for engines and tokens.
    pub(crate) fn held(&self, index: usize) -> Held {
        self.held.get(index).copied().unwrap_or_default()
    }

    /// Whether a request of the server at `index` may find another one in service.
    pub(crate) fn waits(&self, index: usize) -> bool {
        self.direct[index] > 1
    }

    /// The time that a request of the server at `index` keeps others waiting, and the CPU time of that.
    pub(crate) fn full(&self, index: usize) -> (Nanoseconds, Nanoseconds) {
        (self.full[index], self.cpu[index])
    }

    /// Whether requests that are taken earlier have to be counted; `inherits`: whether a task may have another's priority while it
    /// calls.
    pub(crate) fn is_counted(&self, index: usize, cpus: u32, inherits: impl Fn(usize) -> bool) -> bool {
        let mut lent = self.all_callers(index).map(|caller| inherits(caller.task));
        self.direct[index] > 2 && (self.servers[index].is_shared || cpus > 1 || lent.any(|lent| lent))
    }

    /// Whether a request of `from` leads to one of `to`.
    fn reaches(&self, from: usize, to: usize) -> bool {
        from == to || self.servers[from].calls.iter().any(|(next, _)| self.reaches(*next, to))
    }

    /// The tasks that call `index`, directly or through others; with some several times.
    pub(crate) fn all_callers(&self, index: usize) -> impl Iterator<Item = Caller> {
        let those = (0..self.servers.len()).filter(move |other| self.reaches(*other, index));
        those.flat_map(|other| self.servers[other].callers.iter().copied())
    }
}

/// Indices of servers, each before those that it calls.
fn order(servers: &[Server]) -> Result<Vec<usize>, Unbounded> {
    let mut order = Vec::new();
    while order.len() < servers.len() {
        let is_called = |index: usize, order: &[usize]| {
            let left = servers.iter().enumerate().filter(|(other, _)| !order.contains(other));
            left.clone().any(|(_, one)| one.calls.iter().any(|(at, _)| *at == index))
        };
        let next = (0..servers.len()).find(|index| !order.contains(index) && !is_called(*index, &order));
        order.push(next.ok_or(Unbounded::Circle)?);
    }
    Ok(order)
}
