//! Engines, and the use that each task makes of one.
//!
//! # Invariants
//!
//! 1. An engine's lock is `locking::engine`, which keeps its own queue and states; group, pool and driver are those of the manifest.
//! 2. A watched engine that is not free has a look planned, or is *unwatched*: then the next grant plans one.
//! 3. A use that is *plain* is of an engine without group, pool, gate and deciding device, and is not lost: fast paths look at nothing else.
//!
//! Fields are private. Reads are free for all; a change is one of the methods here, each named after the event.
//!
//! Not here: doorbells and charges (`engines`), sets of engines (`groups`).

use core::ops::Range;

use fusee_locking::engine::EngineLock;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{EngineId, EngineUserId, GroupId, InterruptId, PoolId, ReservationId, ThreadId};
use crate::limits::{USERS_PER_ENGINE, WATCHDOGS};

/// An execution engine, copy engine or DSP.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The lock; its users are indices of [`EngineUserId`].
    lock: EngineLock<USERS_PER_ENGINE>,
    interrupt: Option<InterruptId>,
    driver: Option<ThreadId>,
    group: Option<GroupId>,
    pool: Option<PoolId>,
    tokens: Range<u8>,
    granted: Instant,
    watchdog: Nanoseconds,
    reset_bound: Nanoseconds,
    reset_bits: u64,
    unwatched: bool,
    is_asked: bool,
}

impl Engine {
    /// An engine with a free lock.
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

    //--- Reads ---------------------------------------------------------------------------------------------

    /// The engine's lock; its users are indices of [`EngineUserId`].
    #[must_use]
    #[inline]
    pub fn lock(&self) -> &EngineLock<USERS_PER_ENGINE> {
        &self.lock
    }

    /// The interrupt with the top half that probes the engine.
    #[must_use]
    #[inline]
    pub fn interrupt(&self) -> Option<InterruptId> {
        self.interrupt
    }

    /// The thread that answers that interrupt; waiters donate to it while the lock drains.
    #[must_use]
    #[inline]
    pub fn driver(&self) -> Option<ThreadId> {
        self.driver
    }

    /// The group that decides which request is next, in place of the lock.
    #[must_use]
    #[inline]
    pub fn group(&self) -> Option<GroupId> {
        self.group
    }

    /// The pool of which a task must hold a token to acquire the engine.
    #[must_use]
    #[inline]
    pub fn pool(&self) -> Option<PoolId> {
        self.pool
    }

    /// The tokens of that pool that serve for this engine: those of its own device, or all.
    #[must_use]
    #[inline]
    pub fn tokens(&self) -> &Range<u8> {
        &self.tokens
    }

    /// The instant of the lock's last grant.
    #[must_use]
    #[inline]
    pub fn granted(&self) -> Instant {
        self.granted
    }

    /// The time from a grant until the engine is taken away unless it is idle and free; zero: it is not watched.
    #[must_use]
    #[inline]
    pub fn watchdog(&self) -> Nanoseconds {
        self.watchdog
    }

    /// The time that the driver may take to reset the engine.
    #[must_use]
    #[inline]
    pub fn reset_bound(&self) -> Nanoseconds {
        self.reset_bound
    }

    /// The bits that ask the driver for a reset.
    #[must_use]
    #[inline]
    pub fn reset_bits(&self) -> u64 {
        self.reset_bits
    }

    /// Whether the next grant must plan a look: the engine has a watchdog, and no look is planned.
    #[must_use]
    #[inline]
    pub fn is_unwatched(&self) -> bool {
        self.unwatched
    }

    /// Whether the deciding device has been asked how long the engine has been occupied, and the planned look will believe
    /// its answer.
    #[must_use]
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    //--- Changes -------------------------------------------------------------------------------------------

    /// The engine's lock, which keeps its own invariants.
    #[inline(always)]
    pub(crate) fn lock_mut(&mut self) -> &mut EngineLock<USERS_PER_ENGINE> {
        &mut self.lock
    }

    /// `group` decides which request is next, in place of the lock. For boot.
    #[inline]
    pub(crate) fn set_group(&mut self, group: GroupId) {
        self.group = Some(group);
    }

    /// A task must hold one of these tokens of `pool` to acquire the engine. For boot.
    #[inline]
    pub(crate) fn set_pool(&mut self, pool: PoolId, tokens: Range<u8>) {
        self.pool = Some(pool);
        self.tokens = tokens;
    }

    /// The engine belongs to a device; `interrupt` reports its completions to `driver`. For boot.
    #[inline]
    pub(crate) fn set_device(&mut self, interrupt: InterruptId, driver: Option<ThreadId>) {
        self.interrupt = Some(interrupt);
        self.driver = driver;
    }

    /// The engine is taken away `watchdog` after a grant, and the driver is asked for a reset by these bits, which may take as long as its bound.
    /// For boot.
    #[inline]
    pub(crate) fn set_watchdog(&mut self, watchdog: Nanoseconds, reset_bound: Nanoseconds, reset_bits: u64) {
        self.watchdog = watchdog;
        self.reset_bound = reset_bound;
        self.reset_bits = reset_bits;
        self.unwatched = WATCHDOGS && watchdog != Nanoseconds::ZERO;
    }

    /// A hold begins at `now`.
    #[inline(always)]
    pub(crate) fn begin_hold(&mut self, now: Instant) {
        self.granted = now;
    }

    /// The last command of clients without a lock is given until its bound from `now` on. The look is for that command; a task that is granted
    /// the engine next plans its own.
    #[inline]
    pub(crate) fn begin_drain(&mut self, now: Instant) {
        self.granted = now;
        self.unwatched = true;
    }

    /// A look at the engine is planned for the instant that is returned.
    #[inline]
    pub(crate) fn begin_watch(&mut self) -> Instant {
        self.unwatched = false;
        self.granted + self.watchdog
    }

    /// The look that was planned takes place. Returns the instant until which the holder may keep the engine.
    #[inline]
    pub(crate) fn end_watch(&mut self) -> Instant {
        self.unwatched = true;
        self.granted + self.watchdog
    }

    /// The look that takes place plans the next one.
    #[inline]
    pub(crate) fn keep_watch(&mut self) {
        self.unwatched = false;
    }

    /// The device will be asked how long the engine is occupied by the hold that begins.
    #[inline]
    pub(crate) fn forget_answer(&mut self) {
        self.is_asked = false;
    }

    /// The next look is `answer` after `now`, when the device has been asked, or else `left` after `now`, which it has answered. Returns its instant.
    #[inline]
    pub(crate) fn look_again(&mut self, now: Instant, answer: Nanoseconds, left: Nanoseconds) -> Instant {
        self.is_asked = !self.is_asked;
        let next = if self.is_asked { now + answer } else { now + left };
        // The hold counts as if its holder had occupied the engine all the time since then.
        self.granted = Instant(next.0.saturating_sub(self.watchdog.0));
        next
    }
}

/// The use of one engine by one task.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct EngineUser {
    engine: Option<EngineId>,
    thread: Option<ThreadId>,
    time: Nanoseconds,
    suspended_time: Nanoseconds,
    cpu_time_at_grant: Nanoseconds,
    payer: Option<ReservationId>,
    next: Option<EngineUserId>,
    lost: bool,
    is_plain: bool,
    key: u64,
    occupied_at_grant: Nanoseconds,
}

impl EngineUser {
    /// A use of no engine.
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

    //--- Reads ---------------------------------------------------------------------------------------------

    /// The engine.
    #[must_use]
    #[inline]
    pub fn engine(&self) -> Option<EngineId> {
        self.engine
    }

    /// The task.
    #[must_use]
    #[inline]
    pub fn thread(&self) -> Option<ThreadId> {
        self.thread
    }

    /// The engine time charged: from each grant until the engine was idle.
    #[must_use]
    #[inline]
    pub fn time(&self) -> Nanoseconds {
        self.time
    }

    /// The part of the charged engine time in which the task did not run. Measured for tasks with advised tokens.
    #[must_use]
    #[inline]
    pub fn suspended_time(&self) -> Nanoseconds {
        self.suspended_time
    }

    /// The reservation that pays the charged engine time from its budget.
    #[must_use]
    #[inline]
    pub fn payer(&self) -> Option<ReservationId> {
        self.payer
    }

    /// The next use by the same task.
    #[must_use]
    #[inline]
    pub fn next(&self) -> Option<EngineUserId> {
        self.next
    }

    /// Whether the lock was taken from the task, which has not been notified of it.
    #[must_use]
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Whether the lock may take the fast paths: the engine has no group and no pool, and is not lost.
    #[must_use]
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The last key of the user that the device got, if the device decides.
    #[must_use]
    #[inline]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The time that the user had occupied the engine at the last grant, if the device decides.
    #[must_use]
    #[inline]
    pub fn occupied_at_grant(&self) -> Nanoseconds {
        self.occupied_at_grant
    }

    //--- Changes -------------------------------------------------------------------------------------------

    /// `thread` uses `engine`. For boot.
    pub(crate) fn set_parties(&mut self, engine: EngineId, thread: ThreadId) {
        (self.engine, self.thread) = (Some(engine), Some(thread));
    }

    /// `next` is the next use by the same task. For boot.
    pub(crate) fn link(&mut self, next: Option<EngineUserId>) {
        self.next = next;
    }

    /// Engine time of the user is drawn from the budget of `payer`. For boot.
    pub(crate) fn set_payer(&mut self, payer: ReservationId) {
        self.payer = Some(payer);
    }

    /// A hold begins when the task has run for `cpu_time`.
    #[inline(always)]
    pub(crate) fn note_cpu_time(&mut self, cpu_time: Nanoseconds) {
        self.cpu_time_at_grant = cpu_time;
    }

    /// A hold begins at this time of occupation of the engine by the user, as its device reports it.
    #[inline]
    pub(crate) fn note_occupied(&mut self, occupied: Nanoseconds) {
        self.occupied_at_grant = occupied;
    }

    /// Charges the hold that has ended.
    #[inline(always)]
    pub(crate) fn charge(&mut self, held: Nanoseconds) {
        self.time += held;
    }

    /// Counts the part of a hold in which the task, which has run for `cpu_time` by now, did not run.
    #[inline(always)]
    pub(crate) fn count_suspension(&mut self, held: Nanoseconds, cpu_time: Nanoseconds) {
        let ran = cpu_time.saturating_sub(self.cpu_time_at_grant);
        self.suspended_time += held.saturating_sub(ran);
    }

    /// The lock was taken from the task. Returns whether that is news.
    #[inline]
    pub(crate) fn lose(&mut self) -> bool {
        self.is_plain = false;
        !core::mem::replace(&mut self.lost, true)
    }

    /// The task has been notified of the loss. Returns whether there was one.
    #[inline]
    pub(crate) fn end_loss(&mut self) -> bool {
        core::mem::take(&mut self.lost)
    }

    /// The lock may take the fast paths if the engine `is_alone` and not lost.
    #[inline]
    pub(crate) fn set_plain(&mut self, is_alone: bool) {
        self.is_plain = !self.lost && is_alone;
    }

    /// The device gets this key. Returns whether it is another than before.
    #[inline]
    pub(crate) fn tell_key(&mut self, key: u64) -> bool {
        core::mem::replace(&mut self.key, key) != key
    }
}
