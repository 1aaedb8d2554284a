//! The engines, tokens and servers that tasks of one cluster share, among themselves and with those of others: the declared times.
//!
//! Not here: the conclusions (`blocking`).

use crate::servers::Server;
use fusee_locking::pool::Rules;
use fusee_sched::time::Nanoseconds;

/// The longest that a task holds an engine at a time, from its grant until the engine is idle again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Hold {
    /// CPU time of it.
    pub cpu: Nanoseconds,
    /// The time that the engine works, and the task may be suspended.
    pub operation: Nanoseconds,
    /// Its commands, if the engine works: each ends with work of the driver. Zero counts as one.
    pub commands: u32,
}

/// One task's use of an engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct User {
    /// Below the number of the cluster's tasks: that task. Others, of other classes or [`Abroad`], have any number above.
    pub task: usize,
    /// The largest number of holds in a job.
    pub times: u32,
    /// For how long.
    pub hold: Hold,
    /// The time that the engine works in all holds of a job together: at most `times` the longest operation.
    pub operations: Nanoseconds,
}

/// In which order requests are granted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// The order of arrival.
    #[default]
    Fifo,
    /// Earliest key first; a hold is not interrupted.
    Priority,
    /// The device works for the earliest key, and no job waits for another's hold. The time to make room is part of each operation.
    Preemptive,
}

/// One of several devices, of which a job works on one: the one that its token is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Alternative {
    /// The pool that has tokens of all of them: any number.
    pub pool: usize,
    /// The number of the device: any number.
    pub device: usize,
}

/// An engine, or the engines of a group, and the tasks that share it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Engine {
    /// In which order.
    pub order: Order,
    /// Several, of which requests may name two.
    pub is_group: bool,
    /// The engine has no device, so no budget pays for it.
    pub is_mutex: bool,
    /// One for each task.
    pub users: Vec<User>,
    /// The engine is held with a token of its own device only.
    pub alternative: Option<Alternative>,
    /// Jobs that can want it at the same time, if some hold it with a token only: for each pool as many as it has tokens
    /// (`rho`), or as can have one if clusters share it; and all users without.
    pub rivals: Option<u32>,
    /// The time of the end of a command: interrupt and bottom half. The driver works that long on the budget of a job that waits for it.
    pub completion: Nanoseconds,
    /// The time of the ends of other commands that its driver may serve first: of as many other engines of the driver as can work
    /// at the same time, and of users that may have left theirs.
    pub others: Nanoseconds,
    /// Users of other engines of its driver, and its own that may leave ends, or all if its device decides: the driver works for the ends
    /// of their commands, too.
    pub beside: Vec<Beside>,
    /// The additional time of a hold if the engine hangs and is reset; zero: that is not expected.
    pub reset: Nanoseconds,
    /// Clients without its lock, if there are some.
    pub shared: Shared,
    /// If its device decides: for users the longest pending time of a job for which the restores of its work are part of its
    /// operations.
    pub windows: Vec<(usize, Nanoseconds)>,
}

/// Commands of another engine: the driver works for their ends, too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Beside {
    /// The number of their engine: any number.
    pub engine: usize,
    /// The number of their task, as in [`User`].
    pub task: usize,
    /// The driver's work for an end.
    pub completion: Nanoseconds,
    /// The period of the task, and the number of its commands in a job; `None`: it does not declare that.
    pub jobs: Option<(Nanoseconds, u64)>,
}

/// The delay that clients without the lock of an engine, all together, cause for its holders.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Shared {
    /// The time from a request for the engine, if no other job holds or wants it, until no command of these clients runs: each hold
    /// is longer by that. The budget of its job does not pay for it.
    pub take_back: Nanoseconds,
    /// The shortest time between two services of their completions by the driver of the device; zero: there are none.
    pub period: Nanoseconds,
    /// The driver's time for each service of their completions. A job that waits for the driver pays for it.
    pub notice: Nanoseconds,
}

impl Shared {
    /// The number for waits of jobs for these clients, in place of the number of a task.
    pub const CLASS: usize = usize::MAX;
}

/// A task's use of a token, once in each job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Section {
    /// The number of the task, as in [`User`].
    pub task: usize,
    /// CPU time with the token, holds of engines apart.
    pub cpu: Nanoseconds,
}

/// The rule by which requests for tokens wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// Within the cluster: k-FMLP, R2DGLP, or by priority. Queues are joined without advice.
    Pool(Rules),
    /// Across clusters.
    CkOmlp {
        /// Tokens: `k`.
        replicas: u8,
    },
}

/// Tokens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pool {
    /// The rule by which requests wait.
    pub protocol: Protocol,
    /// Whether advice may choose the queue in which one waits, and leave a token free.
    pub advised: bool,
    /// One for each task that uses them.
    pub sections: Vec<Section>,
    /// Engines that are held with a token only.
    pub engines: Vec<usize>,
}

/// A task of another cluster with which this one shares a pool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Abroad {
    /// The number of the task, as a [`User`].
    pub task: usize,
    /// The number of the cluster: any number.
    pub cluster: usize,
    /// CPUs of that.
    pub cpus: u32,
}

/// Properties of the suspensions of a task's jobs, besides their lengths.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rest {
    /// All that a job waits for is declared.
    pub is_counted: bool,
    /// Others may rely on its declarations: no job is suspended for longer, or computes for longer than its budget, and the task has
    /// one life.
    pub keeps_word: bool,
    /// No job waits for another thread, and no thread waits for the task: nobody else ever runs on its budget, nor it on another's.
    pub is_alone: bool,
}

impl Rest {
    /// Whether each job of each task is suspended no longer than declared.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_counted && self.keeps_word
    }
}

/// All that tasks of one cluster share.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Locks {
    /// The engines of the cluster.
    pub engines: Vec<Engine>,
    /// The tokens of the cluster.
    pub pools: Vec<Pool>,
    /// The users that are of another cluster.
    pub abroad: Vec<Abroad>,
    /// Tasks whose budgets pay for the engines that they hold, too.
    pub covering: Vec<usize>,
    /// The servers that its tasks call, and those that these call.
    pub servers: Vec<Server>,
    /// The longest time that a job of each of the cluster's tasks suspends itself, operations apart; tasks without an entry do not.
    pub suspends: Vec<Nanoseconds>,
    /// The knowledge of the suspensions of each of the cluster's tasks; of tasks without an entry there is none.
    pub rests: Vec<Rest>,
    /// Tasks that may have the priority of others while they call a server: tasks whose signals others wait for.
    pub signallers: Vec<usize>,
}
