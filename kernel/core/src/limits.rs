//! Limits of the number of objects of each kind, and the bound of every loop in the kernel.

#[cfg(not(feature = "small"))]
mod set {
    /// Whether this is the kernel of [experiments](../../../docs/experiments.md) in which more tasks share a pool and an
    /// engine than a trap of bounded length has time for. No board has it, and its systems cannot be packed for one.
    const IS_LARGE: bool = cfg!(feature = "large");
    /// CPUs the kernel runs on.
    pub const CPUS: usize = 8;
    /// Clusters.
    pub const CLUSTERS: usize = if cfg!(feature = "clusters") { 8 } else { 1 };
    /// Threads; as many tasks and reservations.
    pub const THREADS: usize = 512;
    /// Endpoints.
    pub const ENDPOINTS: usize = 128;
    /// Callers that queue at an endpoint: the server takes the earliest, and looks at each of them.
    pub const CALLERS: usize = 64;
    /// Notifications.
    pub const NOTIFICATIONS: usize = 256;
    /// Engines.
    pub const ENGINES: usize = 32;
    /// Uses of engines by tasks.
    pub const ENGINE_USERS: usize = 256;
    /// Clients without a lock, of engines with a sharer.
    pub const MEMBERS: usize = 64;
    /// Uses of one engine: its next holder inherits from all waiters.
    pub const USERS_PER_ENGINE: usize = if IS_LARGE { 128 } else { 32 };
    /// Groups of engines.
    pub const GROUPS: usize = 4;
    /// Pools of tokens.
    pub const POOLS: usize = 16;
    /// Pools with a plugin.
    pub const ADVISED_POOLS: usize = 4;
    /// Tasks with jobs in a cluster that shares a pool with others.
    pub const PENDING_JOBS: usize = 32;
    /// Uses of pools by tasks.
    pub const POOL_USERS: usize = if IS_LARGE { 160 } else { 64 };
    /// Sporadic releases that can queue, of all tasks.
    pub const RELEASES: usize = 2048;
    /// Interrupts.
    pub const INTERRUPTS: usize = 64;
    /// Regions.
    pub const REGIONS: usize = if IS_LARGE { 512 } else { 128 };
    /// Slots of a task's handle table.
    pub const HANDLES: usize = if IS_LARGE { 160 } else { 32 };
    /// Handles that are copied from: those of the manifest that may be, and copies that are copied on.
    pub const DERIVATIONS: usize = 256;
    /// Steps of a death in the trap in which it happens, each of which may notify one thread. Timer events take the other
    /// steps.
    pub const TOLD_AT_DEATH: usize = 4;
}

#[cfg(feature = "small")]
mod set {
    #![allow(missing_docs)]
    pub const CPUS: usize = 3;
    pub const CLUSTERS: usize = 2;
    pub const THREADS: usize = 5;
    pub const ENDPOINTS: usize = 2;
    pub const CALLERS: usize = 4;
    pub const NOTIFICATIONS: usize = 4;
    pub const ENGINES: usize = 2;
    pub const ENGINE_USERS: usize = 6;
    pub const MEMBERS: usize = 4;
    pub const USERS_PER_ENGINE: usize = 4;
    pub const GROUPS: usize = 1;
    pub const POOLS: usize = 1;
    pub const ADVISED_POOLS: usize = 1;
    pub const PENDING_JOBS: usize = 4;
    pub const POOL_USERS: usize = 4;
    pub const RELEASES: usize = 8;
    pub const INTERRUPTS: usize = 2;
    pub const REGIONS: usize = 1;
    pub const HANDLES: usize = 6;
    pub const DERIVATIONS: usize = 12;
    pub const TOLD_AT_DEATH: usize = 1;
}

pub use set::*;

/// Whether engines and tokens can be taken away from holders that keep them too long.
pub const WATCHDOGS: bool = cfg!(feature = "watchdogs");

/// Whether clients without a lock can have engines while the lock has no holder.
pub const GATES: bool = cfg!(feature = "sharing");

/// Whether tasks can have several lives.
pub const RESTARTS: bool = cfg!(feature = "restart");

/// Whether there is anything to hold: an engine, a mutex or a token.
pub const HOLDS: bool = cfg!(any(feature = "engines", feature = "pools"));
/// Records of tasks that can.
pub const LIVES: usize = if RESTARTS { THREADS } else { 1 };

/// Whether jobs can be released up to a number, and begin before their releases.
pub const CREDITS: bool = cfg!(feature = "credits");
/// Accounts that are set aside while jobs are early.
pub const SET_ASIDE: usize = if CREDITS { THREADS } else { 1 };

/// Whether devices can decide by the keys of jobs.
pub const SPATIAL: bool = cfg!(feature = "spatial");

/// Whether the machine may have to print the steps of its start.
pub const SPEAKS: bool = cfg!(feature = "speaks");

/// Whether devices can be kept from memory that is not theirs.
pub const STREAMS: bool = cfg!(feature = "streams");
/// Devices that can be, in a kernel that has that.
pub const STREAMS_MAX: usize = 8;
/// The numbers by which an SMMU may know devices are below this.
pub const STREAM_NUMBERS: u32 = 64;

/// The longest path through the kernel, in instructions. No trap that `cargo xtask worst` finds is longer, in systems in which
/// each queue and each chain is as long as it may be. Queues of pools and groups may be longer in a crowded system.
pub const LONGEST_PATH: u64 = 10_000;
/// The longest path in a crowded system: more tasks than [`FEW_POOL_USERS`] share a pool, or more than
/// [`FEW_GROUP_USERS`] the engines of a group, or a pool is advised.
pub const LONGEST_PATH_CROWDED: u64 = 30_000;
/// Largest number of tasks that share a pool in a system that is not crowded.
pub const FEW_POOL_USERS: usize = 12;
/// Largest number of tasks that use the engines of a group in a system that is not crowded.
pub const FEW_GROUP_USERS: usize = 8;
/// The least budget of a reservation, in nanoseconds, in a system with this longest path: a job that overshoots it by a whole path has
/// had most of its time for itself. The factor is the design's, and an instruction is taken for a nanosecond.
#[must_use]
pub const fn least_budget(longest_path: u64) -> u64 {
    4 * longest_path
}
/// The least budget of a reservation, in nanoseconds, in a system that is not crowded.
pub const BUDGET_MIN: u64 = least_budget(LONGEST_PATH);
/// Tasks that use the engines of one group.
pub const USERS_PER_GROUP: usize = fusee_locking::groups::USERS;
/// Tokens of one pool.
pub const POOL_REPLICAS: usize = fusee_locking::tokens::REPLICAS;
/// Tasks that share one pool.
pub const USERS_PER_POOL: usize = fusee_locking::tokens::USERS;
/// Pools that one task uses: when its key changes, so may its place in each of them.
pub const POOLS_PER_TASK: usize = 2;
/// Longest chain of threads that wait for each other.
pub const CHAIN_MAX: usize = fusee_locking::propagation::CHAIN_MAX;
const _: () = assert!(CLUSTERS <= fusee_locking::propagation::CLUSTERS);
/// Largest number of reservations of a cluster that wait for others and are counted at a time.
pub const WAITING: usize = 32;
/// Longest chain of copies of copies of a handle.
pub const COPY_DEPTH_MAX: usize = 4;
/// Deferred replies a server may hold.
pub const REPLY_SLOTS: usize = if GATES { 16 } else { 4 };
/// Members of one engine: as many as a sharer can keep waiting, but for one.
pub const MEMBERS_PER_ENGINE: usize = 15;
/// Pages mapped or unmapped in one trap.
pub const PAGES_PER_TRAP: u64 = 16;
