//! The packed system: `xtask` writes it behind the kernel and the kernel boots from it.
//!
//! A [`Header`] at the start of a page, then one array per [`Table`], then the bytes of the task binaries,
//! each page aligned. Offsets count from the header. All numbers are little endian; all references between
//! records are indices; index + 1 where zero means "none" (marked `_plus_one`).

mod system;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use self::system::{ImageError, System, checksum, seal};

/// The first word of a packed system: "FUSEESYS".
pub const MAGIC: u64 = u64::from_le_bytes(*b"FUSEESYS");
/// The layout described here.
pub const VERSION: u32 = 14;
/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Engine locks are enforced; without this flag every doorbell stays mapped and the device decides.
pub const FLAG_MANAGED: u32 = 1;
/// One CPU beyond the kernel's runs the accelerator's firmware.
pub const FLAG_ENGINE_CPU: u32 = 1 << 1;
/// A kernel that has panicked stays where it is.
pub const FLAG_PANIC_HALT: u32 = 1 << 2;
/// A kernel that has panicked resets the board.
pub const FLAG_PANIC_RESET: u32 = 1 << 3;

/// The tables of a packed system, in order of [`Header::tables`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Table {
    /// [`Cluster`] records.
    Clusters,
    /// [`Task`] records; each has one thread of the same index.
    Tasks,
    /// [`Reservation`] records.
    Reservations,
    /// [`Endpoint`] records.
    Endpoints,
    /// [`Notification`] records.
    Notifications,
    /// [`Engine`] records.
    Engines,
    /// [`EngineUser`] records.
    EngineUsers,
    /// [`Interrupt`] records.
    Interrupts,
    /// [`Region`] records.
    Regions,
    /// [`Handle`] records.
    Handles,
    /// [`Mapping`] records.
    Mappings,
    /// [`Pool`] records.
    Pools,
    /// [`PoolUser`] records.
    PoolUsers,
    /// [`EngineUser`] records: uses of engines without their locks.
    SharedUsers,
    /// [`Stream`] records.
    Streams,
}

/// Number of [`Table`]s.
pub const TABLES: usize = 15;
/// Bytes of a record of each [`Table`].
pub static RECORDS: [u16; TABLES] = [
    size_of::<Cluster>() as u16,
    size_of::<Task>() as u16,
    size_of::<Reservation>() as u16,
    size_of::<Endpoint>() as u16,
    size_of::<Notification>() as u16,
    size_of::<Engine>() as u16,
    size_of::<EngineUser>() as u16,
    size_of::<Interrupt>() as u16,
    size_of::<Region>() as u16,
    size_of::<Handle>() as u16,
    size_of::<Mapping>() as u16,
    size_of::<Pool>() as u16,
    size_of::<PoolUser>() as u16,
    size_of::<EngineUser>() as u16,
    size_of::<Stream>() as u16,
];

/// Where one table lies.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Span {
    /// Offset from the header, in bytes; a multiple of eight.
    pub offset: u32,
    /// Number of records.
    pub count: u32,
}

/// The start of a packed system.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// `FLAG_` bits.
    pub flags: u32,
    /// Length of everything, in bytes.
    pub bytes: u64,
    /// The instant of the synchronous first release, nanoseconds after the kernel's time zero.
    pub start: u64,
    /// Number of CPUs the kernel runs on.
    pub cpus: u32,
    /// Distance between the CPUs the kernel uses, in the board's CPU list (2: every other one).
    pub cpu_stride: u32,
    /// The features that the kernel must have been built with: bits of [`feature`].
    pub features: u32,
    /// The notification by which devices are kicked where a call does that, index + 1: a signal to it interrupts the engine CPU, and no thread waits
    /// for it.
    pub kick_plus_one: u32,
    /// Physical address at which the engine CPU starts, if [`FLAG_ENGINE_CPU`] is set.
    pub firmware_entry: u64,
    /// Physical address given to the engine CPU in `x0`: its device description.
    pub firmware_argument: u64,
    /// Where the firmware's bytes lie in this image and how many there are.
    pub firmware_offset: u64,
    /// Length of the firmware, in bytes.
    pub firmware_bytes: u64,
    /// The kernel copies the firmware here before it starts the engine CPU.
    pub firmware_load: u64,
    /// Physical address of the page to which the SMMU writes DMA faults; zero: it has no reader.
    pub dma_faults: u64,
    /// The checksum of everything else: see [`checksum`].
    pub checksum: u64,
    /// Where each [`Table`] lies.
    pub tables: [Span; TABLES],
}

/// Parts of the kernel that a system may do without.
pub mod feature {
    /// Locks of engines, and mutexes.
    pub const ENGINES: u32 = 1;
    /// Engines that are acquired together.
    pub const GROUPS: u32 = 1 << 1;
    /// Pools of tokens.
    pub const POOLS: u32 = 1 << 2;
    /// Plugins that advise pools.
    pub const ADVICE: u32 = 1 << 3;
    /// Engines and tokens that are taken away from a holder that keeps them too long.
    pub const WATCHDOGS: u32 = 1 << 4;
    /// Regions lent with calls.
    pub const LOANS: u32 = 1 << 5;
    /// Handles in messages.
    pub const GRANTS: u32 = 1 << 6;
    /// More than one cluster.
    pub const CLUSTERS: u32 = 1 << 7;
    /// Engines that clients without a lock have while no task holds it.
    pub const SHARING: u32 = 1 << 8;
    /// Tasks with ends that are told, and with further lives.
    pub const RESTART: u32 = 1 << 9;
    /// Devices that reach the memory they are given, and no other.
    pub const STREAMS: u32 = 1 << 10;
    /// Jobs that are released up to a number.
    pub const CREDITS: u32 = 1 << 11;
    /// Engines with a device that decides by the keys of jobs.
    pub const SPATIAL: u32 = 1 << 12;
    /// Lines on the serial line for each step of the start, and the trace there after the end.
    pub const SPEAKS: u32 = 1 << 13;
    /// The name of each, which is that of a Cargo feature of the kernel, in the order of their bits.
    pub const NAMES: [&str; 14] = [
        "engines",
        "groups",
        "pools",
        "advice",
        "watchdogs",
        "loans",
        "grants",
        "clusters",
        "sharing",
        "restart",
        "streams",
        "credits",
        "spatial",
        "speaks",
    ];
    /// All of them.
    pub const ALL: u32 = (1 << NAMES.len()) - 1;

    /// The names of those in `features`.
    pub fn names(features: u32) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter(move |(bit, _)| features >> bit & 1 != 0).map(|(_, name)| name)
    }
}

/// A set of CPUs that share one ready queue.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Cluster {
    /// Bit `i`: the kernel's CPU `i`.
    pub cpus: u32,
    /// Number of a `sched::key::PolicyName`: 0 EDF, 1 FL, 2 RM, 3 DM, 4 FP.
    pub policy: u32,
}

/// How jobs of a reservation come about.
pub mod release {
    /// No jobs: a server or a background task; the budget is replenished one period after it ran dry.
    pub const NONE: u32 = 0;
    /// By the clock, each period.
    pub const PERIODIC: u32 = 1;
    /// By `release_job`, at least a period apart.
    pub const SPORADIC: u32 = 2;
}

/// Scheduling class, most urgent first.
pub mod class {
    /// Ordered by the policy's key.
    pub const REAL_TIME: u32 = 0;
    /// Drivers and servers without waiting clients.
    pub const SERVICE: u32 = 1;
    /// Everything else, round robin.
    pub const BACKGROUND: u32 = 2;
}

/// The consequence for a job that uses up its budget.
pub mod overrun {
    /// The job waits for the next replenishment.
    pub const THROTTLE: u32 = 0;
    /// The job waits as above, and its next checkpoint is answered with `Error::Overrun`.
    pub const SIGNAL: u32 = 1;
    /// The job takes budget and deadline of the next job, which is dropped.
    pub const EARLY_RELEASE: u32 = 2;
}

/// One budget.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Reservation {
    /// Home task.
    pub task: u32,
    /// Cluster index.
    pub cluster: u32,
    /// One of [`class`].
    pub class: u32,
    /// One of [`release`].
    pub release: u32,
    /// Nanoseconds a period.
    pub budget: u64,
    /// Nanoseconds between replenishments.
    pub period: u64,
    /// Nanoseconds from release to deadline.
    pub deadline: u64,
    /// First release, nanoseconds after [`Header::start`].
    pub phase: u64,
    /// Worst-case execution time of a job, nanoseconds.
    pub execution: u64,
    /// Priority under fixed priorities; 1 is the most urgent.
    pub priority: u32,
    /// One of [`overrun`].
    pub overrun: u32,
    /// Releases that may queue while a job is late; at least one.
    pub backlog: u32,
    /// 1: the budget pays for the time of engines of devices, too, from each grant until the engine is idle.
    pub covers_engines: u32,
    /// How long a job may be suspended and keep its key, in nanoseconds: the analysis adds this to its execution.
    pub suspension: u64,
    /// 1: its jobs may take the budget of the next job before its release.
    pub early_release: u32,
    /// 1: its jobs, which are sporadic, may begin before their releases, behind all real-time jobs.
    pub begins_early: u32,
}

/// One task.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Task {
    /// Name, zero padded.
    pub name: [u8; 16],
    /// Virtual address of the first instruction.
    pub entry: u64,
    /// Initial stack pointer; the page below the stack is never mapped.
    pub stack_top: u64,
    /// Virtual address of the environment page, given in `x0`.
    pub environment: u64,
    /// Cluster the task starts in (that of its reservation, or where its clients are).
    pub cluster: u32,
    /// The consequence of its end: see [`Supervision`]; zero: nothing.
    pub supervision: u32,
    /// Bits of [`task`].
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// Bits of [`Task::flags`].
pub mod task {
    /// The task may sleep, and end its job, while it holds an engine or a token.
    pub const SLEEPS_INSIDE: u32 = 1;
}

/// The consequence of the end of a task, as it stands in [`Task::supervision`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Supervision {
    /// The notification that tells of its ends, once all have heard of them; bit [`Supervision::bit`] is the task's.
    pub ends: Option<u16>,
    /// The notification that each life of it but the first signals at its first `receive`, `wait` or `next_job`, and that is bound to it. Without
    /// one, the task has one life.
    pub starts: Option<u16>,
    /// The kernel panics when it ends: it is the one that gives others further lives.
    pub is_vital: bool,
    /// The task begins when another task starts it, and may be started again when it has ended.
    pub is_dormant: bool,
}

/// Above the lower half's number.
const VITAL: u32 = 1 << 15;
/// Above the upper half's.
const DORMANT: u32 = 1 << 31;

impl Supervision {
    /// The supervision in `word`.
    #[must_use]
    pub const fn of(word: u32) -> Self {
        const fn half(half: u32) -> Option<u16> {
            (half as u16).checked_sub(1)
        }
        let (ends, starts) = (half(word >> 16 & 0x7fff), half(word & 0x7fff));
        Self { ends, starts, is_vital: word & VITAL != 0, is_dormant: word & DORMANT != 0 }
    }

    /// The word that says it.
    #[must_use]
    pub fn word(self) -> u32 {
        let half = |half: Option<u16>| half.map_or(0, |index| u32::from(index) + 1);
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        half(self.ends) << 16 | half(self.starts) | flag(self.is_vital, VITAL) | flag(self.is_dormant, DORMANT)
    }

    /// The bit that tells of the end of the task with this index. Tasks can have it in common.
    #[must_use]
    pub const fn bit(task: usize) -> u64 {
        1 << (task % 64)
    }
}

/// One synchronous endpoint.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Endpoint {
    /// The task that serves it.
    pub server: u32,
    /// Reserved.
    pub flags: u32,
    /// Longest service, in nanoseconds, as declared.
    pub service_max: u64,
    /// In how many nanoseconds the server is boosted for `service_max` at most; zero: no such period is declared.
    pub service_period: u64,
}

impl Endpoint {
    /// In how many nanoseconds the server is boosted for `service_max` at most: a tenth of the time, where nothing is declared.
    #[must_use]
    pub const fn boost_period(&self) -> u64 {
        if self.service_period == 0 { self.service_max.saturating_mul(10) } else { self.service_period }
    }
}

/// One notification.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Notification {
    /// The task that will signal it, to which waiters donate; zero: none.
    pub bound_plus_one: u32,
    /// Reserved.
    pub flags: u32,
}

/// Order in which an engine lock is granted.
pub mod order {
    /// By arrival.
    pub const FIFO: u32 = 0;
    /// By key, earliest first.
    pub const PRIORITY: u32 = 1;
}

/// One execution engine, copy engine or DSP.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Engine {
    /// One of [`order`].
    pub order: u32,
    /// The interrupt with the top half that probes this engine.
    pub interrupt_plus_one: u32,
    /// The group of engines that it may be acquired with.
    pub group_plus_one: u32,
    /// The pool of which each holder of the engine must have a token.
    pub pool_plus_one: u32,
    /// The first of that pool's tokens that do,
    pub first_token: u32,
    /// and how many there are from that one on; zero: all of them do.
    pub tokens: u32,
    /// How long after a grant the engine must be idle again, or the lock is taken away; zero: it is not watched.
    pub watchdog: u64,
    /// How long its driver may take to reset it.
    pub reset_bound: u64,
    /// Event bits by which the driver is asked to.
    pub reset_bits: u64,
    /// How long a command of a client without a lock takes at most, once the gate is shut; zero: the engine has no gate, and no such clients.
    pub shared_longest: u64,
    /// Physical address of its gate, 32 bits: the contract's `GATE_SHUT` or zero.
    pub gate: u64,
    /// Physical address of two words of the device: how many shared commands have ended, then how many have begun. They are read as one of 64
    /// bits.
    pub shared_progress: u64,
    /// The endpoint where stores to the doorbells of those clients are asked about, index + 1; zero: they are as they are.
    pub sharer_plus_one: u32,
    /// The first of those clients, the engine's *members*, among all [`System::shared_users`],
    pub first_member: u16,
    /// and how many there are from that one on.
    pub members: u16,
}

/// The value of [`Engine::gate`] while no command of a client without a lock begins; the same word as the contract's of devices.
pub const GATE_SHUT: u32 = 1;

/// The value of [`EngineUser::key`] for a job without a real-time key; all real-time keys are below. The same word as the contract's of devices.
pub const KEY_BEST_EFFORT: u64 = u64::MAX - 1;
/// The value for a job without budget, and where there is no job.
pub const KEY_LAST: u64 = u64::MAX;

/// The use that a task may make of one engine: its doorbell page and idle probe. An engine without a device has neither: all its
/// addresses are zero.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct EngineUser {
    /// Engine index.
    pub engine: u32,
    /// Task index.
    pub task: u32,
    /// Physical address of the doorbell page; its first word counts submitted commands.
    pub doorbell: u64,
    /// Virtual address of the doorbell page in the task, mapped while the lock is held.
    pub address: u64,
    /// Physical address of two words of the device, of which a task can write none: the count of retired commands, then the count
    /// that it has seen in the doorbell page. They are read as one of 64 bits.
    pub progress: u64,
    /// Physical address of a word of 64 bits by which the device learns the key of the job that has the engine; zero: the device does not decide by keys.
    /// Then the engine has no other user.
    pub key: u64,
    /// Physical address of a word of 64 bits of such a device: for how many nanoseconds the user has occupied the engine, in all.
    pub occupied: u64,
}

/// Tokens shared by tasks of one cluster.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Pool {
    /// How many there are: `k`.
    pub replicas: u32,
    /// Requests that the queue of one holds at most: `f`; zero: no bound.
    pub limit: u32,
    /// The cluster with the jobs that share them, unless clusters do.
    pub cluster: u32,
    /// One: clusters share it. Tokens are granted by arrival, with any `limit`.
    pub crosses: u32,
    /// The measure of the shortest queue: one of [`measure`].
    pub measure: u32,
    /// The adviser: one of [`advice`].
    pub advice: u32,
    /// The number of devices that they are tokens of, as many of each; zero: all are alike.
    pub devices: u32,
    /// How far those are from each other, numbers of `accel::topology::Distance`: from, to.
    pub distances: [[u8; POOL_DEVICES]; POOL_DEVICES],
    /// Requests that all queues together hold at most; zero: as many as each of them has room for.
    pub total_limit: u32,
    /// How long after its grant a token must be given back, or it is taken away, in nanoseconds; zero: it is not watched.
    pub watchdog: u64,
}

/// Devices of one pool, at most.
pub const POOL_DEVICES: usize = 8;

/// The measure by which a queue of a pool is short.
pub mod measure {
    /// Few requests.
    pub const REQUESTS: u32 = 0;
    /// A small sum of declared lengths.
    pub const LENGTHS: u32 = 1;
}

/// The adviser of a pool.
pub mod advice {
    /// None.
    pub const NOBODY: u32 = 0;
    /// The heuristics of `accel`: near its data, and soon done.
    pub const AFFINITY: u32 = 1;
    /// Chance, whether the rules allow it or not.
    pub const RANDOM: u32 = 2;
}

/// The use that a task may make of one pool.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct PoolUser {
    /// Pool index.
    pub pool: u32,
    /// Task index.
    pub task: u32,
    /// How long it uses a token, at most, in nanoseconds: its computing and its operations; zero: it does not say.
    pub length: u64,
}

/// One interrupt line.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Interrupt {
    /// The interrupt controller's number of the line (GIC INTID).
    pub line: u32,
    /// Notification that is signalled.
    pub notification: u32,
    /// Event bits that are signalled.
    pub bits: u64,
    /// CPU of the kernel the line is routed to.
    pub cpu: u32,
    /// One if the line is edge triggered.
    pub edge: u32,
}

/// Physical memory or a device window.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Region {
    /// Physical address.
    pub physical: u64,
    /// Length in bytes, whole pages.
    pub bytes: u64,
    /// Virtual address in every task that maps it.
    pub address: u64,
}

/// One filled slot of a task's handle table.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Handle {
    /// Task that holds it.
    pub task: u32,
    /// Slot of its table.
    pub slot: u32,
    /// One of [`kind`].
    pub kind: u32,
    /// Index of the object in its table.
    pub object: u32,
    /// `call::rights` bits.
    pub rights: u32,
    /// The number that comes to the receiver with messages sent through this handle.
    pub badge: u32,
}

/// The kind of a handle's object.
pub mod kind {
    /// Nothing.
    pub const EMPTY: u32 = 0;
    /// [`super::Endpoint`].
    pub const ENDPOINT: u32 = 1;
    /// [`super::Notification`].
    pub const NOTIFICATION: u32 = 2;
    /// [`super::Engine`].
    pub const ENGINE: u32 = 3;
    /// [`super::Interrupt`].
    pub const INTERRUPT: u32 = 4;
    /// [`super::Region`].
    pub const REGION: u32 = 5;
    /// [`super::Task`].
    pub const TASK: u32 = 6;
    /// The whole system.
    pub const SYSTEM: u32 = 7;
    /// [`super::Pool`].
    pub const POOL: u32 = 8;
    /// [`super::Engine`]: the doorbells of its clients without its lock.
    pub const DOORBELLS: u32 = 9;
}

/// Flags of a [`Mapping`].
pub mod mapping {
    /// The task may read.
    pub const READ: u32 = 1;
    /// The task may write.
    pub const WRITE: u32 = 2;
    /// The task may execute. Never together with [`WRITE`].
    pub const EXECUTE: u32 = 4;
    /// Device memory (nGnRnE).
    pub const DEVICE: u32 = 8;
    /// The kernel fills the pages from the image (then zeroes) before the task starts; without it the
    /// pages lie in the image itself or belong to a device and are left alone.
    pub const FILL: u32 = 16;
    /// Table slots are provided, but the pages are not mapped until the kernel says so (doorbells).
    pub const HELD_BACK: u32 = 32;
    /// The pages lie in the image: `physical` is an offset from the header.
    pub const IN_IMAGE: u32 = 64;
    /// A place for a region that others lend: tables of its own, which are put in place as long as it is lent. A second
    /// mapping with [`SCRATCH`] has the same addresses.
    pub const LENT: u32 = 128;
    /// The memory of the task in a place with a region that was taken back before it had answered: all pages are the one at
    /// `physical`.
    pub const SCRATCH: u32 = 256;
    /// The kernel's trace, to be read only: `physical` is an offset from the ring of the first CPU.
    pub const TRACE: u32 = 512;
    /// Memory that no cache keeps: for words that a device shares with the task and does not look for in caches.
    pub const UNCACHED: u32 = 1024;
    /// Memory that a device reaches, at its physical address: in the place of a task there is a [`super::Stream`].
    pub const STREAM: u32 = 2048;
}

/// A device with addresses that an SMMU translates.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Stream {
    /// The number by which the SMMU knows the device (StreamID).
    pub number: u32,
    /// The task that drives it: when it ends, the device reaches nothing any more.
    pub task: u32,
    /// The region of its registers, by which that task lets it reach memory.
    pub region: u32,
    /// Reserved.
    pub reserved: u32,
}

/// Pages of one task.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Mapping {
    /// Task index; with [`mapping::STREAM`] that of a [`Stream`].
    pub task: u32,
    /// Flags of [`mapping`].
    pub flags: u32,
    /// First virtual address, page aligned.
    pub address: u64,
    /// First physical address, or an offset (see [`mapping::IN_IMAGE`]).
    pub physical: u64,
    /// Number of pages.
    pub pages: u64,
    /// With [`mapping::FILL`]: where the initial bytes lie in the image.
    pub source_offset: u64,
    /// With [`mapping::FILL`]: how many there are; the rest of the pages is zeroed.
    pub source_bytes: u64,
}
