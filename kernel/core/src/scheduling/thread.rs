//! Threads: the activity, the CPU, the holds and the job of each.
//!
//! # Invariants
//!
//! 1. A thread's state is written by `waiting` alone, a child of this module; so its consequences are marked there. Reply
//!    slots are written by `replies` alone, another child.
//! 2. The registers of a thread belong to one CPU at a time: it enters a CPU only while it is on none.
//! 3. `holds` counts the engines and tokens of a thread, `requests` its tokens and its requests for tokens, and `losses`
//!    its engines that were taken away. They change by one with each of these.
//!
//! Fields are private. Reads are free for all; a change is one of the methods here, each named after the event.
//!
//! Not here: the choice of the reservation on which a thread runs (`donation`).

use fusee_locking::propagation::Node;
use fusee_sched::cpu::CpuId;
use fusee_sched::key::Key;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{ClusterId, EndpointId, EngineUserId, GroupId, NotificationId, PoolUserId, ReservationId, ThreadId};
use crate::limits::{GATES, HOLDS, REPLY_SLOTS};
use crate::marks::{Link, List};
use crate::time::job::{Job, Statistics};

mod replies;
mod waiting;

pub use replies::ReplySlot;

/// The activity of a thread, and the object it waits for if it is not ready.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// A thread that was not started.
    Dormant,
    /// A thread that could run, if a reservation with budget carries it.
    Ready,
    /// A server with nothing to do.
    Receiving(EndpointId),
    /// A client queued at an endpoint of a busy server.
    Calling(EndpointId),
    /// A client whose request was received; the reply is due from `server`, through its reply slot `slot`.
    AwaitingReply {
        /// The server that owes the reply.
        server: ThreadId,
        /// Index of the server's reply slot.
        slot: u8,
    },
    /// A thread that waits for event bits.
    Waiting(NotificationId),
    /// A thread that waits for an engine.
    Acquiring(EngineUserId),
    /// A thread that waits for engines of a group.
    AwaitingGroup {
        /// The group.
        group: GroupId,
        /// The chain of threads it would have to wait for is too long: its wait ends at the timekeeper's next turn.
        refused: bool,
    },
    /// A thread that lends its reservation, until the job that it would push from the CPUs has no request any more. Such a
    /// thread waits for nothing else.
    Donating,
    /// A thread that asks for a token of a pool that clusters share, as soon as it may.
    AwaitingTurn {
        /// The thread's use of the pool.
        user: PoolUserId,
        /// Whether the thread may ask now, and the timekeeper has been notified.
        due: bool,
    },
    /// A thread that waits for a token.
    AwaitingToken {
        /// The thread's use of the pool.
        user: PoolUserId,
        /// The chain of threads it would have to wait for is too long: its wait ends at the timekeeper's next turn.
        refused: bool,
    },
    /// A thread that waits for the next release after its job has completed.
    BetweenJobs,
    /// A thread that waits for a time.
    Sleeping,
    /// A thread that has ended: by itself, by a fault, or by another. Such a thread never runs again. Some threads that wait for it may not know yet.
    Stopped,
}

/// The heads of four lists of a thread: the endpoints it serves, the notifications it will signal, and its uses of engines and of pools.
///
/// Boot links them. The death of the thread goes through them, and drops each entry as it passes it; another life has all of them again.
#[derive(Clone, Copy, Debug)]
pub struct Belongings {
    serves: Option<EndpointId>,
    signals: Option<NotificationId>,
    uses: Option<EngineUserId>,
    tokens: Option<PoolUserId>,
}

impl Belongings {
    /// Four empty lists.
    pub const EMPTY: Belongings = Belongings { serves: None, signals: None, uses: None, tokens: None };
}

// The way to one of many objects takes one instruction if its size is a power of two.

/// A thread.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "sharing"), repr(align(256)))]
#[cfg_attr(feature = "sharing", repr(align(512)))]
pub struct Thread {
    state: State,
    on: Option<CpuId>,
    last_cpu: Option<CpuId>,
    sends: bool,
    timed: bool,
    cluster: Option<ClusterId>,
    own: Option<ReservationId>,
    /// Links between donors and donees: trusted while the thread is ready or waits for another thread.
    waits: Node<ThreadId, ReservationId, Key>,
    belongings: Belongings,
    jobs_are_recorded: bool,
    holds: u8,
    losses: u8,
    requests: u8,
    badge: u32,
    stores: Option<u32>,
    slots: [ReplySlot; REPLY_SLOTS],
    others_taken: u16,
    job: Job,
    statistics: Statistics,
    life: u32,
    unsettled: Link<ThreadId>,
}

const _: () = assert!(size_of::<Thread>() == align_of::<Thread>());

impl Thread {
    /// A thread that was not started.
    pub const EMPTY: Thread = Thread {
        state: State::Dormant,
        on: None,
        last_cpu: None,
        sends: false,
        timed: false,
        cluster: None,
        own: None,
        waits: Node::new(Key::at(Instant::ZERO)),
        belongings: Belongings::EMPTY,
        jobs_are_recorded: false,
        holds: 0,
        losses: 0,
        requests: 0,
        badge: 0,
        stores: None,
        slots: [ReplySlot::EMPTY; REPLY_SLOTS],
        others_taken: 0,
        job: Job::EMPTY,
        statistics: Statistics::EMPTY,
        life: 0,
        unsettled: Link::NONE,
    };

    //--- Reads ---------------------------------------------------------------------------------------------

    /// The activity of the thread.
    #[must_use]
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// The CPU that the thread's registers belong to; `None`: the thread is *off*.
    #[must_use]
    #[inline]
    pub fn on(&self) -> Option<CpuId> {
        self.on
    }

    /// The CPU that the thread ran on last, as far as that was kept: a hint for its next place.
    #[must_use]
    #[inline]
    pub fn last_cpu(&self) -> Option<CpuId> {
        self.last_cpu
    }

    /// Whether the thread's request is a `send`, without donation and reply.
    #[must_use]
    #[inline]
    pub fn sends(&self) -> bool {
        self.sends
    }

    /// Whether the thread is in its cluster's queue of timeouts.
    #[must_use]
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// The cluster of the timekeeper that watches the thread's timeouts.
    #[must_use]
    #[inline]
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// The thread's own reservation.
    #[must_use]
    #[inline]
    pub fn own(&self) -> Option<ReservationId> {
        self.own
    }

    /// The links between the thread and its donors, and the reservation it has chosen.
    #[must_use]
    #[inline]
    pub fn waits(&self) -> &Node<ThreadId, ReservationId, Key> {
        &self.waits
    }

    /// The reservation that the thread has chosen.
    #[must_use]
    #[inline]
    pub fn chosen(&self) -> Option<ReservationId> {
        self.waits.chosen()
    }

    /// The thread that this one donates to while it is suspended.
    #[must_use]
    #[inline]
    pub fn donates_to(&self) -> Option<ThreadId> {
        self.waits.waits_for()
    }

    /// The heads of the thread's lists.
    #[must_use]
    #[inline]
    pub fn belongings(&self) -> Belongings {
        self.belongings
    }

    /// The first endpoint that the thread serves, as far as its death has not gone through them.
    #[must_use]
    #[inline]
    pub fn serves(&self) -> Option<EndpointId> {
        self.belongings.serves
    }

    /// The first notification that the thread will signal, as far as its death has not gone through them.
    #[must_use]
    #[inline]
    pub fn signals(&self) -> Option<NotificationId> {
        self.belongings.signals
    }

    /// The first of the thread's uses of engines, as far as its death has not gone through them.
    #[must_use]
    #[inline]
    pub fn uses(&self) -> Option<EngineUserId> {
        self.belongings.uses
    }

    /// The first of the thread's uses of pools, as far as its death has not gone through them.
    #[must_use]
    #[inline]
    pub fn tokens(&self) -> Option<PoolUserId> {
        self.belongings.tokens
    }

    /// Whether the thread has jobs and its cluster shares pools with others.
    #[must_use]
    #[inline]
    pub fn jobs_are_recorded(&self) -> bool {
        self.jobs_are_recorded
    }

    /// Whether the thread holds an engine or a token.
    #[must_use]
    #[inline]
    pub fn is_holding(&self) -> bool {
        HOLDS && self.holds != 0
    }

    /// The number of engines and tokens that the thread holds.
    #[must_use]
    #[inline]
    pub fn holds(&self) -> u8 {
        self.holds
    }

    /// The number of engines that were taken from the thread without its knowledge so far.
    #[must_use]
    #[inline]
    pub fn losses(&self) -> u8 {
        self.losses
    }

    /// The number of tokens that the thread holds or waits for.
    #[must_use]
    #[inline]
    pub fn requests(&self) -> u8 {
        self.requests
    }

    /// The badge of the handle that the thread's queued request came through.
    #[must_use]
    #[inline]
    pub fn badge(&self) -> u32 {
        self.badge
    }

    /// The word that the thread waits to store to a doorbell, if it waits for that: then no register of it is a message. In a kernel
    /// without sharing no thread does, and the question is compiled to nothing.
    #[must_use]
    #[inline]
    pub fn store(&self) -> Option<u32> {
        if GATES { self.stores } else { None }
    }

    /// The thread's job.
    #[must_use]
    #[inline]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The thread's record.
    #[must_use]
    #[inline]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The number of times the thread was given another life.
    #[must_use]
    #[inline]
    pub fn life(&self) -> u32 {
        self.life
    }

    //--- CPUs and time -------------------------------------------------------------------------------------

    /// The thread, which is on no CPU, runs on `cpu` from here on.
    #[inline(always)]
    pub(crate) fn enter(&mut self, cpu: CpuId) {
        debug_assert!(self.on.is_none(), "a thread enters a CPU while it is on none");
        self.on = Some(cpu);
    }

    /// The thread leaves `cpu`, which has all its registers.
    #[inline(always)]
    pub(super) fn leave(&mut self, cpu: CpuId) {
        self.on = None;
        self.last_cpu = Some(cpu);
    }

    /// The thread leaves its CPU on a fast path, which does not keep where it ran.
    #[inline(always)]
    pub(crate) fn step_off(&mut self) {
        self.on = None;
    }

    /// The thread is in its cluster's queue of timeouts from here on.
    #[inline(always)]
    pub(crate) fn begin_timeout(&mut self) {
        self.timed = true;
    }

    /// The thread is not in its cluster's queue of timeouts any more.
    #[inline(always)]
    pub(crate) fn end_timeout(&mut self) {
        self.timed = false;
    }

    /// Counts `span` as CPU time of the thread.
    #[inline(always)]
    pub(crate) fn book(&mut self, span: Nanoseconds) {
        self.statistics.time += span;
    }

    //--- Donation ------------------------------------------------------------------------------------------

    /// The thread's links, for `locking::propagation`, which keeps them.
    #[inline(always)]
    pub(crate) fn waits_mut(&mut self) -> &mut Node<ThreadId, ReservationId, Key> {
        &mut self.waits
    }

    /// Marks the thread `id`, which this one is, in `list`: it may have to choose another reservation.
    #[inline(always)]
    pub(crate) fn mark(&mut self, id: ThreadId, list: &mut List<ThreadId>) {
        self.waits.mark();
        list.push(id, &mut self.unsettled);
    }

    /// Takes the thread, the first in `list`, out of the list. Returns whether it is to choose.
    #[inline(always)]
    pub(super) fn unmark(&mut self, list: &mut List<ThreadId>) -> bool {
        list.pop(&mut self.unsettled);
        self.waits.is_marked()
    }

    /// The thread gives up its own reservation, which a server has for its start only.
    #[inline]
    pub(crate) fn give_up_own(&mut self) {
        self.own = None;
    }

    //--- Messages ------------------------------------------------------------------------------------------

    /// The thread makes a request through a handle with this badge.
    #[inline(always)]
    pub(crate) fn ask(&mut self, badge: u32, sends: bool) {
        self.badge = badge;
        self.sends = sends;
    }

    /// The thread waits to store `value` to a doorbell, and will make that store again.
    #[inline]
    pub(crate) fn begin_store(&mut self, value: u32) {
        self.stores = Some(value);
    }

    /// The thread waits for a store no longer.
    #[inline]
    pub(crate) fn end_store(&mut self) {
        self.stores = None;
    }

    //--- Engines and tokens --------------------------------------------------------------------------------

    /// The thread holds one engine more.
    #[inline(always)]
    pub(crate) fn hold(&mut self) {
        self.holds += 1;
    }

    /// The thread holds one engine less.
    #[inline(always)]
    pub(crate) fn let_go(&mut self) {
        self.holds -= 1;
    }

    /// The thread has one request for a token more.
    #[inline(always)]
    pub(crate) fn begin_request(&mut self) {
        self.requests += 1;
    }

    /// A request of the thread ends without a token.
    #[inline(always)]
    pub(crate) fn end_request(&mut self) {
        self.requests -= 1;
    }

    /// A request of the thread has got a token.
    #[inline(always)]
    pub(crate) fn hold_token(&mut self) {
        self.holds += 1;
        debug_assert!(self.holds >= 1 && self.requests >= 1, "a token is granted to a request");
    }

    /// The thread gives back a token, and the request that got it ends.
    #[inline(always)]
    pub(crate) fn let_go_token(&mut self) {
        self.holds -= 1;
        self.requests -= 1;
    }

    /// An engine was taken from the thread.
    #[inline]
    pub(crate) fn lose(&mut self) {
        self.losses += 1;
    }

    /// The thread has been notified of a loss.
    #[inline]
    pub(crate) fn end_loss(&mut self) {
        self.losses -= 1;
    }

    //--- Jobs ----------------------------------------------------------------------------------------------

    /// The thread's job, which keeps its own invariants.
    #[inline(always)]
    pub(crate) fn job_mut(&mut self) -> &mut Job {
        &mut self.job
    }

    /// The thread's job is complete at `now`. Returns its lateness in nanoseconds.
    #[inline(always)]
    pub(crate) fn complete_job(&mut self, now: Instant) -> i64 {
        let lateness = self.job.complete(now);
        self.statistics.complete(lateness);
        lateness
    }

    /// A release of the thread is dropped.
    #[inline]
    pub(crate) fn skip_release(&mut self) {
        self.job.skip();
        self.statistics.skipped += 1;
    }

    //--- Lives ---------------------------------------------------------------------------------------------

    /// Counts a fault of the thread.
    #[inline]
    pub(crate) fn count_fault(&mut self) {
        self.statistics.faults += 1;
    }

    /// The death of the thread has passed the endpoint in front of `next`.
    #[inline]
    pub(crate) fn pass_endpoint(&mut self, next: Option<EndpointId>) {
        self.belongings.serves = next;
    }

    /// The death of the thread has passed the notification in front of `next`.
    #[inline]
    pub(crate) fn pass_notification(&mut self, next: Option<NotificationId>) {
        self.belongings.signals = next;
    }

    /// The death of the thread has passed the use of an engine in front of `next`.
    #[inline]
    pub(crate) fn pass_engine(&mut self, next: Option<EngineUserId>) {
        self.belongings.uses = next;
    }

    /// The death of the thread has passed the use of a pool in front of `next`.
    #[inline]
    pub(crate) fn pass_pool(&mut self, next: Option<PoolUserId>) {
        self.belongings.tokens = next;
    }

    /// The thread, which is dead, has another life with all that it had at boot.
    #[inline]
    pub(crate) fn begin_life(&mut self, belongings: Belongings) {
        debug_assert!(self.state == State::Stopped && self.on.is_none(), "a life begins when the one before has ended");
        self.life = self.life.wrapping_add(1);
        self.belongings = belongings;
        (self.sends, self.stores) = (false, None);
        self.job.begin_life();
    }

    /// The thread begins dormant: its first life is to come, and has number zero.
    pub(crate) fn await_first_life(&mut self) {
        self.life = u32::MAX;
    }

    //--- Boot ----------------------------------------------------------------------------------------------

    /// The timekeeper of `cluster` watches the thread's timeouts.
    pub(crate) fn join(&mut self, cluster: ClusterId) {
        self.cluster = Some(cluster);
    }

    /// The thread's own reservation is `own`. Returns whether it had none.
    pub(crate) fn set_own(&mut self, own: ReservationId) -> bool {
        self.own.replace(own).is_none()
    }

    /// The thread's jobs are recorded, for pools that its cluster shares.
    pub(crate) fn record_jobs(&mut self) {
        self.jobs_are_recorded = true;
    }

    /// The thread serves `endpoint`. Returns the next one in its list.
    pub(crate) fn add_endpoint(&mut self, endpoint: EndpointId) -> Option<EndpointId> {
        self.belongings.serves.replace(endpoint)
    }

    /// The thread will signal `notification`. Returns the next one in its list.
    pub(crate) fn add_notification(&mut self, notification: NotificationId) -> Option<NotificationId> {
        self.belongings.signals.replace(notification)
    }

    /// The thread uses an engine as `user`. Returns the next use in its list.
    pub(crate) fn add_engine(&mut self, user: EngineUserId) -> Option<EngineUserId> {
        self.belongings.uses.replace(user)
    }

    /// The thread uses a pool as `user`. Returns the next use in its list.
    pub(crate) fn add_pool(&mut self, user: PoolUserId) -> Option<PoolUserId> {
        self.belongings.tokens.replace(user)
    }
}
