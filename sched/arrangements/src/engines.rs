//! The blocking of one job by engine locks that are granted by arrival: coarse and fine bounds.
//!
//! All tasks here share the GPUs of one GPU cluster. A job has a token while it requests engines, so at most the holders of the other
//! tokens are before it: `tokens - 1` at an engine of its own GPU, or `tokens * gpus - 1` where migrations connect the GPUs.
//!
//! The *coarse* bound takes each request that is ahead to be the longest one of any job. The *fine* bound takes distinct requests: so many
//! jobs of each other task can be there during one job, each with so many requests.
//!
//! # Corrections of the text
//!
//! - 4.17 to 4.19 count the requests that migrations can delay by removing the longest requests, round by round, until no migration is left.
//!   Where migrations are longer than copies that is too few: a single migration is enough to make one request wait for all other holders. Here
//!   so many requests wait for all other holders as there are migrations of other jobs.
//! - Without a migration of another job, 4.19 has each request of a job wait for `tokens - 1` others. A migration of the job itself waits
//!   for holders at both of its GPUs: `2 tokens - 1`.
//! - The number of rounds is never above the number of requests; 4.18 is printed without that minimum.
//!
//! # Source
//! Elliott 2015, eq. 4.7 to 4.10 (coarse), 4.13 to 4.33 (fine).

use std::rc::Rc;

use crate::program::{Demand, Prices};
use crate::requests::{Requests, Sorted};

/// The way by which the state of a task gets to another GPU.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Migration {
    /// None: one GPU.
    Never,
    /// Out to memory after each job, and in before the next one.
    System,
    /// From GPU to GPU, with a copy engine of each at once.
    Peer,
}

/// Copies of one kind in a job: whole chunks, and a shorter rest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Copies {
    /// Number of whole chunks.
    pub whole: u64,
    /// The length of each, nanoseconds.
    pub length: u64,
    /// The length of the rest, nanoseconds; zero: there is none.
    pub rest: u64,
}

impl Copies {
    /// The number of requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.whole + u64::from(self.rest > 0)
    }

    /// The length of all together, nanoseconds.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.whole.saturating_mul(self.length).saturating_add(self.rest)
    }

    /// Both parts, as requests of `task`.
    fn requests(&self, task: usize) -> [Requests; 2] {
        let one = |length, count| Requests { task, length, count };
        [one(self.length, self.whole), one(self.rest, u64::from(self.rest > 0))]
    }
}

/// The requests of engines in one job, with lengths as other jobs see them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Use {
    /// Number of kernels.
    pub kernels: u64,
    /// The length of each, nanoseconds.
    pub kernel: u64,
    /// Copies in; with [`Migration::System`] its state is not among them.
    pub input: Copies,
    /// Copies out, likewise.
    pub output: Copies,
    /// Its state: migrations, or with [`Migration::System`] copies in.
    pub state: Copies,
    /// With [`Migration::System`] its state, copied out.
    pub state_out: Copies,
}

/// A GPU cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GpuCluster {
    /// The GPUs of the cluster.
    pub gpus: u64,
    /// Tokens of each GPU that can be held at once.
    pub tokens: u64,
    /// Tokens of all GPUs that can be held at once: no more than tasks, and with donation at release no more than CPUs.
    pub holders: u64,
    /// How state migrates.
    pub migration: Migration,
}

/// The longest time that a job is blocked by engine locks, nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Blocked {
    /// By execution engines.
    pub kernels: u64,
    /// By copy engines.
    pub copies: u64,
}

impl Blocked {
    /// The sum.
    #[must_use]
    pub fn sum(self) -> u64 {
        self.kernels.saturating_add(self.copies)
    }
}

/// The requests of all tasks of a GPU cluster, sorted once.
#[derive(Clone, Debug)]
pub struct Engines<'a> {
    cluster: GpuCluster,
    uses: &'a [Use],
    kernels: Sorted,
    inbound: Sorted,
    outbound: Sorted,
    migrations: Sorted,
    /// All of the last three.
    copies: Sorted,
    /// Prices for chains of them.
    prices: Option<Rc<Prices>>,
}

impl<'a> Engines<'a> {
    /// Sorts the requests of `uses`.
    #[must_use]
    pub fn new(cluster: GpuCluster, uses: &'a [Use]) -> Engines<'a> {
        let all = |parts: fn(&Use) -> [Copies; 2]| {
            let of = |(task, one): (usize, &Use)| parts(one).map(|copies| copies.requests(task)).concat();
            uses.iter().enumerate().flat_map(of).collect::<Vec<_>>()
        };
        let is_peer = cluster.migration == Migration::Peer;
        let inbound = match is_peer {
            true => all(|one| [one.input, Copies::default()]),
            false => all(|one| [one.input, one.state]),
        };
        let outbound = all(|one| [one.output, one.state_out]);
        let migrations = if is_peer { all(|one| [one.state, Copies::default()]) } else { Vec::new() };
        let prices = if is_peer { prices(cluster, [&inbound, &outbound, &migrations]) } else { None };
        let kernel = |(task, one): (usize, &Use)| Requests { task, length: one.kernel, count: one.kernels };
        Engines {
            cluster,
            uses,
            kernels: Sorted::new(uses.iter().enumerate().map(kernel).collect()),
            copies: Sorted::new([inbound.clone(), outbound.clone(), migrations.clone()].concat()),
            inbound: Sorted::new(inbound),
            outbound: Sorted::new(outbound),
            migrations: Sorted::new(migrations),
            prices,
        }
    }

    /// The coarse bound for `task`: each request is preceded by as many of the longest requests as there are other tokens.
    #[must_use]
    pub fn coarse(&self, task: usize) -> Blocked {
        let (own, GpuCluster { gpus, tokens, .. }) = (&self.uses[task], self.cluster);
        let kernels = self.kernels.longest_one(task);
        let copy = self.copies.longest_one(task);
        let others = if self.cluster.migration == Migration::Peer { tokens * gpus } else { tokens };
        let requests = own.input.count() + own.output.count() + own.state.count() + own.state_out.count();
        Blocked {
            kernels: kernels.saturating_mul((tokens.saturating_sub(1)).saturating_mul(own.kernels)),
            copies: copy.saturating_mul(others.saturating_sub(1).saturating_mul(requests)),
        }
    }

    /// The fine bound for `task`, where `jobs` is the largest number of jobs of each other task during one of its jobs.
    #[must_use]
    pub fn fine(&self, task: usize, jobs: impl Fn(usize) -> u64 + Copy) -> Blocked {
        let own = &self.uses[task];
        let others = self.cluster.tokens.min(self.cluster.holders).saturating_sub(1);
        let kernels = self.kernels.longest(task, others * own.kernels, jobs);
        let copies = match self.cluster.migration {
            Migration::Peer => self.peer(task, jobs),
            Migration::System | Migration::Never => {
                let inbound = self.inbound.longest(task, others * (own.input.count() + own.state.count()), jobs);
                inbound + self.outbound.longest(task, others * (own.output.count() + own.state_out.count()), jobs)
            }
        };
        Blocked { kernels, copies }
    }

    /// The smallest of the bounds with migrations from GPU to GPU.
    fn peer(&self, task: usize, jobs: impl Fn(usize) -> u64 + Copy) -> u64 {
        let (own, GpuCluster { gpus, tokens, holders, .. }) = (&self.uses[task], self.cluster);
        let tokens = tokens.min(holders);
        let all = (tokens * gpus).min(holders).saturating_sub(1);
        let (inbound, outbound, migrations) =
            (self.inbound.count(task, jobs), self.outbound.count(task, jobs), self.migrations.count(task, jobs));
        let plain = own.input.count() + own.output.count();
        let moved = own.state.count();
        // Requests that wait for all other holders, since a migration connects GPUs: copies first, which gain more.
        let plain_delayed = migrations.min(plain);
        let moved_delayed = (migrations - plain_delayed).min(moved);
        let here = tokens.saturating_sub(1).min(all);
        let both = (2 * tokens).saturating_sub(1).min(all);
        let requests =
            (plain_delayed + moved_delayed) * all + (plain - plain_delayed) * here + (moved - moved_delayed) * both;
        let generic = self.copies.longest(task, requests, jobs);
        let demand = Demand { outbound: own.output.count(), inbound: own.input.count(), migrations: moved };
        let chains = self.prices.as_ref().map(|prices| prices.longest(&demand, [inbound, outbound, migrations]));
        generic.min(chains.unwrap_or(u64::MAX))
    }
}

/// The prices of inbound copies, outbound copies and migrations in a cluster, each as long as the longest of its kind.
fn prices(cluster: GpuCluster, requests: [&Vec<Requests>; 3]) -> Option<Rc<Prices>> {
    let GpuCluster { gpus, tokens, holders, .. } = cluster;
    let tokens = tokens.min(holders);
    let most = (tokens * gpus).min(holders).saturating_sub(1);
    let used = |kind: usize| requests[kind].iter().filter(|one| one.count > 0);
    let length = |kind: usize| used(kind).map(|one| one.length).max().unwrap_or(0);
    Prices::kept(u8::try_from(gpus).ok()?, u8::try_from(tokens).ok()?, most, [length(0), length(1), length(2)])
}
