//! What the kernel knows of each object.
//!
//! Every type has an `EMPTY` value of all zero bytes; `Kernel::boot` fills objects in place.

use core::ops::Range;

use fusee_abi::call::HandleValue;
use fusee_locking::engine::EngineLock;
use fusee_locking::propagation::Node;
use fusee_sched::account::Account;
use fusee_sched::cluster::Cluster;
use fusee_sched::cpu::CpuId;
use fusee_sched::key::{Class, Key, PriorityPoint, Tie};
use fusee_sched::queue::Queue;
use fusee_sched::time::{Instant, Nanoseconds};
use heapless::Vec;

use crate::derivation::Origin;
use crate::id::{
    ClusterId, DerivationId, EndpointId, EngineId, EngineUserId, GroupId, InterruptId, LoanId, NotificationId, PoolId,
    PoolUserId, RegionId, ReservationId, ThreadId,
};
use crate::limits::{CALLERS, CPUS, GATES, HANDLES, HOLDS, REPLY_SLOTS, THREADS, USERS_PER_ENGINE, WAITING};

//--- Lists of what is to be done at the end of a trap -------------------------------------------------------

/// An object's place in a [`List`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link<T> {
    is_listed: bool,
    next: Option<T>,
}

impl<T> Link<T> {
    /// Not in the list.
    pub const NONE: Link<T> = Link { is_listed: false, next: None };
}

impl<T: Copy> Link<T> {
    /// What comes behind it in the list.
    #[inline]
    pub const fn next(self) -> Option<T> {
        self.next
    }
}

/// Objects of one kind, each once, whose last comes first. What links them lies in the objects.
#[derive(Clone, Copy, Debug)]
pub struct List<T> {
    first: Option<T>,
}

impl<T: Copy> List<T> {
    /// None.
    pub const EMPTY: List<T> = List { first: None };

    /// The first, to be [taken out](List::pop).
    #[inline]
    pub const fn first(self) -> Option<T> {
        self.first
    }

    /// Puts an object in front, whose place this is, unless it is in the list.
    #[inline]
    pub const fn push(&mut self, id: T, link: &mut Link<T>) {
        if !link.is_listed {
            *link = Link { is_listed: true, next: self.first };
            self.first = Some(id);
        }
    }

    /// Takes out the first, whose place this is.
    #[inline]
    pub const fn pop(&mut self, link: &mut Link<T>) {
        self.first = link.next;
        *link = Link { is_listed: false, next: None };
    }
}

//--- Threads -----------------------------------------------------------------------------------------------

/// What a thread is doing, and what it waits for if it is not ready.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Not started.
    Dormant,
    /// Could run, if a reservation with budget carries it.
    Ready,
    /// A server with nothing to do.
    Receiving(EndpointId),
    /// Queued at an endpoint whose server is busy.
    Calling(EndpointId),
    /// Its request was received; the reply is due from `server`, through its reply slot `slot`.
    AwaitingReply {
        /// The server that owes the reply.
        server: ThreadId,
        /// Index of the server's reply slot.
        slot: u8,
    },
    /// Waits for event bits.
    Waiting(NotificationId),
    /// Waits for an engine.
    Acquiring(EngineUserId),
    /// Waits for engines of a group.
    AwaitingGroup {
        /// Which.
        group: GroupId,
        /// The chain of threads it would have to wait for is too long: its wait ends at the timekeeper's next turn.
        refused: bool,
    },
    /// Lends its reservation, until the job that it would push from the CPUs has no request any more. It waits for nothing else.
    Donating,
    /// Asks for a token of a pool that clusters share, as soon as it may.
    AwaitingTurn {
        /// Its use of the pool.
        user: PoolUserId,
        /// It may ask now, and the timekeeper has been told.
        due: bool,
    },
    /// Waits for a token.
    AwaitingToken {
        /// Its use of the pool.
        user: PoolUserId,
        /// The chain of those it would have to wait for is too long: its wait ends at the timekeeper's next turn.
        refused: bool,
    },
    /// Its job is complete; waits for the next release.
    BetweenJobs,
    /// Waits for a time.
    Sleeping,
    /// Ended: by itself, by a fault, or by another. Never runs again. Some threads that wait for it may not know yet.
    Stopped,
}

/// One request whose reply is due.
#[derive(Clone, Copy, Debug)]
pub struct ReplySlot {
    /// The client that waits for it; `None`: the slot is free.
    pub client: Option<ThreadId>,
    /// What it has lent the server until the reply.
    pub loan: Option<LoanId>,
    /// Counts uses, so that an old token never fits.
    pub generation: u32,
}

/// The job a thread works on, and what it did before.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Number of the job; the first is 1.
    pub number: u32,
    /// Released and not complete.
    pub active: bool,
    /// Its release.
    pub release: Instant,
    /// Its absolute deadline.
    pub deadline: Instant,
    /// The first release by the clock that came while the job was active.
    pub queued: Option<Instant>,
    /// How many releases by the clock followed that one, each a period after the other.
    pub queued_after: u8,
    /// Sporadic releases that wait for their instant, or for the end of the job.
    pub sporadic: ReleaseQueue,
    /// Times it used up a budget.
    pub overruns: u32,
    /// Its next checkpoint is answered with [`fusee_abi::Error::Overrun`].
    pub signalled: bool,
    /// Releases dropped since the last `next_job` returned.
    pub skipped: u32,
    /// Lateness of the previous job, in nanoseconds.
    pub lateness: i64,
}

/// A part of the kernel's table of release instants, as a ring: sporadic releases need not follow each other evenly.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReleaseQueue {
    /// Where the part begins.
    pub base: u16,
    /// How many places it has.
    pub places: u8,
    /// The place of the earliest release.
    pub first: u8,
    /// How many releases are in it.
    pub count: u8,
}

impl ReleaseQueue {
    /// No places.
    pub const EMPTY: ReleaseQueue = ReleaseQueue { base: 0, places: 0, first: 0, count: 0 };

    /// The index in the table of the release that is `number` places behind the earliest.
    #[must_use]
    pub fn place(&self, number: u8) -> usize {
        let place = (u16::from(self.first) + u16::from(number)) % u16::from(self.places.max(1));
        usize::from(self.base) + usize::from(place)
    }
}

/// What a thread has done so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Statistics {
    /// Jobs completed.
    pub jobs: u32,
    /// Jobs completed after their deadline.
    pub misses: u32,
    /// Releases dropped.
    pub skipped: u32,
    /// Faults.
    pub faults: u32,
    /// Largest lateness; meaningless while `jobs` is zero.
    pub max_lateness: i64,
    /// CPU time it ran.
    pub time: Nanoseconds,
}

// The way to one of many objects takes one instruction if its size is a power of two.

/// A thread.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "sharing"), repr(align(256)))]
#[cfg_attr(feature = "sharing", repr(align(512)))]
pub struct Thread {
    /// What it is doing.
    pub state: State,
    /// The CPU its registers belong to, if it is not `off`.
    pub on: Option<CpuId>,
    /// Where it ran last.
    pub last_cpu: Option<CpuId>,
    /// Whether its request is a `send`: no donation, no reply.
    pub sends: bool,
    /// Whether it is in its cluster's timeout queue.
    pub timed: bool,
    /// Cluster whose timekeeper watches its timeouts.
    pub cluster: Option<ClusterId>,
    /// Its own reservation.
    pub own: Option<ReservationId>,
    /// The thread it waits for, the threads that wait for it, and the reservation it has chosen: trusted while it is ready or waits for
    /// somebody.
    pub waits: Node<ThreadId, ReservationId, Key>,
    /// First of the endpoints it serves, of the notifications it will signal, and of its uses of engines, as far as its
    /// death has not gone through them.
    pub serves: Option<EndpointId>,
    /// See `serves`.
    pub signals: Option<NotificationId>,
    /// See `serves`.
    pub uses: Option<EngineUserId>,
    /// See `serves`; its uses of pools.
    pub tokens: Option<PoolUserId>,
    /// Whether its cluster shares pools with others, and it has jobs.
    pub jobs_are_recorded: bool,
    /// Engines and tokens it holds.
    pub holds: u8,
    /// Engines that were taken from it, of which it has not heard.
    pub losses: u8,
    /// Tokens it holds or waits for.
    pub requests: u8,
    /// Badge of the handle its queued request came through.
    pub badge: u32,
    /// What it waits to store to a doorbell, if that is what it waits for: then no register of it is a message.
    pub stores: Option<u32>,
    /// Requests it owes a reply.
    pub slots: [ReplySlot; REPLY_SLOTS],
    /// Which of these are taken, a bit each, but for the first: fast paths take and free that one.
    pub others_taken: u16,
    /// Its job.
    pub job: Job,
    /// Its record.
    pub statistics: Statistics,
    /// How often it was given another life.
    pub life: u32,
    /// Its place in the list of threads that are to be settled, if it has one.
    pub unsettled: Link<ThreadId>,
}

impl Thread {
    /// Not started.
    pub const EMPTY: Thread = Thread {
        state: State::Dormant,
        on: None,
        last_cpu: None,
        sends: false,
        timed: false,
        cluster: None,
        own: None,
        waits: Node::new(Key::at(Instant::ZERO)),
        serves: None,
        signals: None,
        uses: None,
        tokens: None,
        jobs_are_recorded: false,
        holds: 0,
        losses: 0,
        requests: 0,
        badge: 0,
        stores: None,
        slots: [ReplySlot { client: None, loan: None, generation: 0 }; REPLY_SLOTS],
        others_taken: 0,
        job: Job {
            number: 0,
            active: false,
            release: Instant::ZERO,
            deadline: Instant::ZERO,
            queued: None,
            queued_after: 0,
            sporadic: ReleaseQueue::EMPTY,
            overruns: 0,
            signalled: false,
            skipped: 0,
            lateness: 0,
        },
        statistics: Statistics { jobs: 0, misses: 0, skipped: 0, faults: 0, max_lateness: 0, time: Nanoseconds::ZERO },
        life: 0,
        unsettled: Link::NONE,
    };
}

impl Thread {
    /// Whether it holds an engine or a token.
    #[must_use]
    #[inline]
    pub fn is_holding(&self) -> bool {
        HOLDS && self.holds != 0
    }

    /// The reservation it has chosen.
    #[must_use]
    #[inline]
    pub fn chosen(&self) -> Option<ReservationId> {
        self.waits.chosen()
    }

    /// What it waits to store to a doorbell. In a kernel without sharing nobody does, and what asks is compiled to nothing.
    #[inline]
    pub(crate) fn store(&self) -> Option<u32> {
        if GATES { self.stores } else { None }
    }

    /// The first reply slot that is free.
    #[inline]
    pub(crate) fn free_slot(&self) -> Option<usize> {
        if self.slots[0].client.is_none() {
            return Some(0);
        }
        let slot = (self.others_taken | 1).trailing_ones() as usize;
        (slot < REPLY_SLOTS).then_some(slot)
    }

    /// The first reply slot that is taken.
    #[inline]
    pub(crate) fn taken_slot(&self) -> Option<usize> {
        let taken = self.others_taken | u16::from(self.slots[0].client.is_some());
        (taken != 0).then_some(taken.trailing_zeros() as usize)
    }

    /// The thread it donates to while it is suspended.
    #[must_use]
    #[inline]
    pub fn donates_to(&self) -> Option<ThreadId> {
        self.waits.waits_for()
    }
}

/// What a slot of a handle table names.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Object {
    /// Nothing.
    Empty,
    /// An endpoint.
    Endpoint(EndpointId),
    /// A notification.
    Notification(NotificationId),
    /// An engine, as used by the holder.
    Engine(EngineUserId),
    /// A pool of tokens, as used by the holder.
    Pool(PoolUserId),
    /// The doorbells of an engine's members.
    Doorbells(EngineId),
    /// An interrupt.
    Interrupt(InterruptId),
    /// A region.
    Region(RegionId),
    /// Another task.
    Task(ThreadId),
    /// The whole system.
    System,
}

/// One slot of a handle table.
///
/// A handle from the manifest has `rights`, a copy of another has `kept` instead. So the fast paths, which look at
/// `rights` alone, leave copies to the slow path, and do not pay for them.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    /// What it names.
    pub object: Object,
    /// What its holder may do with it, if it comes from the manifest.
    pub rights: u16,
    /// What its holder may do with it, if it is a copy and its origin holds.
    pub kept: u16,
    /// Told to the receiver of what is sent through it. A copy has that of its source, on whose behalf it is used.
    pub badge: u32,
    /// What it was copied from,
    pub origin: Option<DerivationId>,
    /// What stands for it as the origin of copies, if there are any.
    pub node: Option<DerivationId>,
    /// and the epoch of that when it was. Of a handle from the manifest to an endpoint: the life of the server that its holder knows of.
    pub epoch: u64,
    /// The value that names it: its slot, and how often that was filled. A count has 48 bits, so it is years before an old
    /// value fits again, and then it gives its holder what it holds anyway.
    pub value: HandleValue,
}

// A power of two, so that the way to a slot needs no multiplication.
const _: () = assert!(size_of::<Handle>() == 32);

impl Handle {
    /// Names nothing.
    pub const EMPTY: Handle = Handle {
        object: Object::Empty,
        rights: 0,
        kept: 0,
        badge: 0,
        origin: None,
        node: None,
        epoch: 0,
        value: HandleValue(0),
    };

    /// What it was copied from; `None`: it comes from the manifest.
    #[must_use]
    pub fn origin(&self) -> Option<Origin> {
        self.origin.map(|node| Origin { node, epoch: self.epoch })
    }
}

/// A task's handles.
pub type HandleTable = [Handle; HANDLES];

const _: () = assert!(size_of::<Thread>() == align_of::<Thread>() && size_of::<Reservation>() == 256);

//--- Reservations ------------------------------------------------------------------------------------------

/// How jobs of a reservation come about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Release {
    /// It has none.
    None,
    /// By the clock.
    Periodic,
    /// By `release_job`.
    Sporadic,
}

/// What happens to a job that uses up its budget.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Overrun {
    /// It waits for the next replenishment.
    Throttle,
    /// The same, and its next checkpoint says so.
    Signal,
    /// It takes budget and deadline of the next job.
    EarlyRelease,
}

/// A budget, its key, and who runs on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(align(256))]
pub struct Reservation {
    /// The thread it belongs to.
    pub owner: Option<ThreadId>,
    /// The one thread that runs on it; set exactly while it is in its cluster's queue or linked.
    pub runner: Option<ThreadId>,
    /// The CPU whose time it pays, until that CPU has booked it and chosen anew: it runs nowhere else meanwhile.
    pub on: Option<CpuId>,
    /// Where it competes.
    pub cluster: Option<ClusterId>,
    /// Class.
    pub class: Class,
    /// How jobs come about.
    pub release: Release,
    /// Ran dry and was not refilled yet.
    pub throttled: bool,
    /// Its task may call `early_release`.
    pub releases_early: bool,
    /// Its jobs may begin before their releases (see `early`).
    pub begins_early: bool,
    /// It competes above all keys of its cluster, because its runner keeps clients of other clusters waiting.
    pub boosted: bool,
    /// Lent to a passive server until its first receive.
    pub only_for_start: bool,
    /// Its next event is not where it is queued.
    pub unplanned: bool,
    /// What becomes of a job that uses up its budget.
    pub overrun: Overrun,
    /// Releases that may queue while a job is late.
    pub backlog: u8,
    /// Where the priority points of its jobs lie.
    pub point: PriorityPoint,
    /// Its key.
    pub key: Key,
    /// Its tie-break.
    pub tie: Tie,
    /// Budget and debt.
    pub account: Account,
    /// How long a job may be suspended and keep its key.
    pub suspension: Nanoseconds,
    /// How long this one has been, as far as that counts.
    pub suspended: Nanoseconds,
    /// Since when it rests (see `resting`); `NEVER`: it does not.
    pub rests: Instant,
    /// Relative deadline.
    pub deadline: Nanoseconds,
    /// The next release by the clock; `NEVER` if none is planned.
    pub next_release: Instant,
    /// The next replenishment by the clock; `NEVER` if none is planned.
    pub replenish_at: Instant,
    /// The earliest instant a sporadic job may be released.
    pub earliest_release: Instant,
    /// The release of its job, if that has begun before it and is not released yet; `NEVER`: no job is early.
    pub nominal: Instant,
    /// CPU time charged to it.
    pub charged: Nanoseconds,
    /// Times it ran dry.
    pub throttles: u32,
    /// Largest single overshoot.
    pub overshoot: Nanoseconds,
    /// Its place in the list of reservations whose runner may have changed, if it has one.
    pub touched: Link<ReservationId>,
}

impl Reservation {
    /// The key it competes with.
    #[must_use]
    #[inline]
    pub fn competing_key(&self) -> Key {
        if self.boosted { Key::real_time(Instant::ZERO, self.tie) } else { self.key }
    }

    /// No budget, no owner.
    pub const EMPTY: Reservation = Reservation {
        owner: None,
        runner: None,
        on: None,
        cluster: None,
        class: Class::RealTime,
        release: Release::None,
        throttled: false,
        releases_early: false,
        begins_early: false,
        boosted: false,
        only_for_start: false,
        unplanned: false,
        overrun: Overrun::Throttle,
        backlog: 0,
        point: PriorityPoint::AfterRelease(Nanoseconds::ZERO),
        key: Key::at(Instant::ZERO),
        tie: Tie::ZERO,
        account: Account::EMPTY,
        suspension: Nanoseconds::ZERO,
        suspended: Nanoseconds::ZERO,
        rests: Instant::ZERO,
        deadline: Nanoseconds::ZERO,
        next_release: Instant::ZERO,
        replenish_at: Instant::ZERO,
        earliest_release: Instant::ZERO,
        nominal: Instant::ZERO,
        charged: Nanoseconds::ZERO,
        throttles: 0,
        overshoot: Nanoseconds::ZERO,
        touched: Link::NONE,
    };
}

//--- Communication -----------------------------------------------------------------------------------------

/// A place to call a server.
#[derive(Clone, Debug)]
#[repr(align(256))]
pub struct Endpoint {
    /// The thread that serves it.
    pub server: Option<ThreadId>,
    /// Callers whose request was not received yet, by arrival.
    pub callers: Vec<ThreadId, CALLERS>,
    /// The next endpoint of the same server.
    pub next: Option<EndpointId>,
}

impl Endpoint {
    /// No server, no callers.
    pub const EMPTY: Endpoint = Endpoint { server: None, callers: Vec::new(), next: None };
}

/// Event bits and who waits for them.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// Bits set and not taken.
    pub bits: u64,
    /// The thread that waits.
    pub waiter: Option<ThreadId>,
    /// The thread that will signal; waiters donate to it.
    pub bound: Option<ThreadId>,
    /// The next notification bound to the same thread.
    pub next: Option<NotificationId>,
}

impl Notification {
    /// No bits, no waiter.
    pub const EMPTY: Notification = Notification { bits: 0, waiter: None, bound: None, next: None };
}

/// An interrupt line.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    /// What its top half signals.
    pub notification: Option<NotificationId>,
    /// With which bits.
    pub bits: u64,
    /// Whether an engine announces completions by it.
    pub of_engine: bool,
}

impl Interrupt {
    /// Bound to nothing.
    pub const EMPTY: Interrupt = Interrupt { notification: None, bits: 0, of_engine: false };
}

/// A region, as far as the kernel's core cares.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Number of pages.
    pub pages: u64,
    /// The thread it is lent to.
    pub lent_to: Option<ThreadId>,
}

impl Region {
    /// No pages.
    pub const EMPTY: Region = Region { pages: 0, lent_to: None };
}

//--- Engines -----------------------------------------------------------------------------------------------

/// An execution engine, copy engine or DSP.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Its lock; users are indices of [`EngineUserId`].
    pub lock: EngineLock<USERS_PER_ENGINE>,
    /// The interrupt whose top half probes it.
    pub interrupt: Option<InterruptId>,
    /// The driver: who answers that interrupt; waiters donate to it while the lock drains.
    pub driver: Option<ThreadId>,
    /// The group that decides who is next, in place of the lock.
    pub group: Option<GroupId>,
    /// The pool that whoever acquires it must hold a token of.
    pub pool: Option<PoolId>,
    /// The tokens of that pool that do: those of its own device, or all.
    pub tokens: Range<u8>,
    /// When the lock was granted last.
    pub granted: Instant,
    /// How long after a grant it is taken away unless it is idle and free by then; zero: it is not watched.
    pub watchdog: Nanoseconds,
    /// How long its driver may take to reset it.
    pub reset_bound: Nanoseconds,
    /// How the driver is asked to.
    pub reset_bits: u64,
    /// The next grant must plan a look at it: it has a watchdog, and no look is planned.
    pub unwatched: bool,
    /// Its device, which decides, has been asked for how long it has been occupied, and the look that is planned will believe it.
    pub is_asked: bool,
}

impl Engine {
    /// A free lock.
    pub const EMPTY: Engine = Engine {
        lock: EngineLock::EMPTY,
        interrupt: None,
        driver: None,
        group: None,
        pool: None,
        tokens: 0..0,
        granted: Instant::ZERO,
        watchdog: Nanoseconds::ZERO,
        reset_bound: Nanoseconds::ZERO,
        reset_bits: 0,
        unwatched: false,
        is_asked: false,
    };
}

/// One task's use of one engine.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct EngineUser {
    /// The engine.
    pub engine: Option<crate::id::EngineId>,
    /// The task.
    pub thread: Option<ThreadId>,
    /// Engine time charged: from each grant until the engine was idle.
    pub time: Nanoseconds,
    /// The part of that time in which the task did not run. Measured for tasks whose tokens are advised.
    pub suspended_time: Nanoseconds,
    /// The CPU time of the task at the last grant. Measured for the same tasks.
    pub cpu_time_at_grant: Nanoseconds,
    /// Whose budget that time is drawn from.
    pub payer: Option<ReservationId>,
    /// The next use by the same task.
    pub next: Option<EngineUserId>,
    /// The lock was taken from the task, which has not heard of it.
    pub lost: bool,
    /// Its lock may take the fast paths: the engine has no group and no pool, and is not lost.
    pub is_plain: bool,
    /// What its device was told of its key last, if the device decides,
    pub key: u64,
    /// and what it had occupied at the last grant.
    pub occupied_at_grant: Nanoseconds,
}

impl EngineUser {
    /// No use of anything.
    pub const EMPTY: EngineUser = EngineUser {
        engine: None,
        thread: None,
        time: Nanoseconds::ZERO,
        suspended_time: Nanoseconds::ZERO,
        cpu_time_at_grant: Nanoseconds::ZERO,
        payer: None,
        next: None,
        lost: false,
        is_plain: false,
        key: 0,
        occupied_at_grant: Nanoseconds::ZERO,
    };
}

//--- Pools -------------------------------------------------------------------------------------------------

/// One task's use of one pool: its number is that of a user there.
#[derive(Clone, Copy, Debug)]
pub struct PoolUser {
    /// The pool.
    pub pool: Option<PoolId>,
    /// The task.
    pub thread: Option<ThreadId>,
    /// How long it uses a token, at most, as it says.
    pub length: Nanoseconds,
    /// The CPU and engine time of the task when it was granted its token, if that is measured.
    pub usage_at_grant: Nanoseconds,
    /// When it was granted its token.
    pub granted: Instant,
    /// Its token was taken away, and it has not heard of it.
    pub lost: bool,
    /// The next use by the same task.
    pub next: Option<PoolUserId>,
}

impl PoolUser {
    /// No use of anything.
    pub const EMPTY: PoolUser = PoolUser {
        pool: None,
        thread: None,
        length: Nanoseconds::ZERO,
        usage_at_grant: Nanoseconds::ZERO,
        granted: Instant::ZERO,
        lost: false,
        next: None,
    };
}

/// How long tokens of a pool may be kept.
#[derive(Clone, Copy, Debug)]
pub struct TokenWatch {
    /// How long after its grant a token is taken away; zero: never.
    pub watchdog: Nanoseconds,
    /// The cluster whose timekeeper looks after it.
    pub cluster: Option<ClusterId>,
    /// A look is planned.
    pub planned: bool,
}

impl TokenWatch {
    /// None.
    pub const EMPTY: TokenWatch = TokenWatch { watchdog: Nanoseconds::ZERO, cluster: None, planned: false };
}

//--- Clusters and CPUs -------------------------------------------------------------------------------------

/// A reservation that waits for others.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// Its index.
    pub reservation: u16,
    /// Whether its thread runs on what is lent to it: then it pays for what counts.
    pub runs_on_loan: bool,
    /// So much of the time since the cluster was counted last does not count: for so long others with earlier keys have all CPUs.
    pub covered: Nanoseconds,
}

/// A cluster with the events its timekeeper watches.
#[derive(Clone, Debug)]
pub struct ClusterObject {
    /// Which reservation is linked to which CPU.
    pub schedule: Cluster<THREADS, CPUS>,
    /// Releases and replenishments, by reservation index.
    pub events: Queue<THREADS>,
    /// Timeouts, by thread index; and looks at watched engines, by index from the end.
    pub timeouts: Queue<THREADS>,
    /// Reservations that rest because their jobs wait for others.
    pub waiting: Vec<Waiter, WAITING>,
    /// Until when their waiting is counted.
    pub counted: Instant,
    /// The CPU whose timer serves both queues: the cluster's lowest.
    pub timekeeper: CpuId,
}

impl ClusterObject {
    /// When the next of the events comes that `cpu` must watch; `NEVER` if it watches none.
    #[must_use]
    #[inline(always)]
    pub fn next_event(&self, cpu: CpuId) -> Instant {
        let at = |queue: &Queue<THREADS>| queue.first().map_or(Instant::NEVER, |(key, _)| key.instant());
        if self.timekeeper == cpu { at(&self.events).min(at(&self.timeouts)) } else { Instant::NEVER }
    }

    /// No CPUs.
    pub const EMPTY: ClusterObject = ClusterObject {
        schedule: Cluster::EMPTY,
        events: Queue::EMPTY,
        timeouts: Queue::EMPTY,
        waiting: Vec::new(),
        counted: Instant::ZERO,
        timekeeper: CpuId(0),
    };
}

/// What pays for the time that passes on a CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Payer {
    /// Nobody: there is nothing to run.
    Idle,
    /// The kernel: interrupts, and waiting for its lock.
    Kernel,
    /// This reservation.
    Reservation(ReservationId),
}

/// One CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cpu {
    /// In service.
    pub entered: bool,
    /// Its plan may have changed: look again before returning to a thread.
    pub needs_reschedule: bool,
    /// The cluster it belongs to.
    pub cluster: Option<ClusterId>,
    /// The thread whose registers belong to it.
    pub current: Option<ThreadId>,
    /// The reservation it ran on when it last left the kernel.
    pub running: Option<ReservationId>,
    /// What pays since `mark`.
    pub payer: Payer,
    /// What ran since `mark` was boosted, and knew it.
    pub boosted: bool,
    /// Until when time is booked.
    pub mark: Instant,
    /// What its timer is set to.
    pub armed: Instant,
    /// When it entered service.
    pub since: Instant,
    /// Time booked to the kernel.
    pub kernel: Nanoseconds,
    /// Time booked to nobody.
    pub idle: Nanoseconds,
    /// Time booked to reservations.
    pub charged: Nanoseconds,
}

impl Cpu {
    /// What a timer that has fired is set to: an instant for which nothing is ever planned.
    pub const FIRED: Instant = Instant(Instant::NEVER.0 - 1);
    /// Not in service.
    pub const EMPTY: Cpu = Cpu {
        entered: false,
        needs_reschedule: false,
        cluster: None,
        current: None,
        running: None,
        payer: Payer::Idle,
        boosted: false,
        mark: Instant::ZERO,
        armed: Instant::ZERO,
        since: Instant::ZERO,
        kernel: Nanoseconds::ZERO,
        idle: Nanoseconds::ZERO,
        charged: Nanoseconds::ZERO,
    };
}
