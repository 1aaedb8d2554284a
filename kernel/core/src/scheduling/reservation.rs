//! Reservations: a budget, the key it competes with, and the thread that runs on it.
//!
//! # Invariants
//!
//! 1. A reservation has a runner exactly while it is in its cluster's queue or linked. So `schedule` alone gives it one or takes it away;
//!    a fast path that leaves the links as they are [passes it on](crate::Kernel::pass_runner).
//! 2. All time that is charged to a reservation is drawn from its account, or owed by it.
//! 3. A reservation that is throttled for want of budget is refilled at the instant of its account's next refill.
//! 4. While a job is early, its reservation is of class service, and the job's release is planned.
//!
//! Fields are private. Reads are free for all; a change is one of the methods here, each named after the event.
//!
//! Not here: the account itself (`sched::account`), and the consequences of a change (`budgets`, `jobs`, `resting`).

use fusee_sched::account::Account;
use fusee_sched::cpu::CpuId;
use fusee_sched::key::{Class, Key, PriorityPoint, Tie};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{ClusterId, ReservationId, ThreadId};
use crate::marks::{Link, List};

/// The way in which jobs of a reservation are released.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Release {
    /// The reservation has no jobs.
    None,
    /// Jobs are released by the clock.
    Periodic,
    /// Jobs are released by `release_job`.
    Sporadic,
}

/// The policy for a job that uses up its budget.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Overrun {
    /// The job waits for the next replenishment.
    Throttle,
    /// The job waits for the next replenishment, and gets an error at its next checkpoint.
    Signal,
    /// The job takes budget and deadline of the next job.
    EarlyRelease,
}

/// The terms of a reservation, as the manifest states them. Boot makes a reservation of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) owner: Option<ThreadId>,
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) class: Class,
    pub(crate) release: Release,
    pub(crate) overrun: Overrun,
    pub(crate) backlog: u8,
    pub(crate) point: PriorityPoint,
    pub(crate) account: Account,
    pub(crate) deadline: Nanoseconds,
    pub(crate) tie: Tie,
    pub(crate) suspension: Nanoseconds,
    pub(crate) releases_early: bool,
    pub(crate) begins_early: bool,
    pub(crate) only_for_start: bool,
    /// The first release by the clock; `NEVER` if there is none.
    pub(crate) next_release: Instant,
    /// The instant at which the budget starts over; `NEVER` if it does not.
    pub(crate) replenish_at: Instant,
    /// The earliest instant of a sporadic release.
    pub(crate) earliest_release: Instant,
}

impl Terms {
    /// The terms of background work without budget and jobs.
    pub(crate) const NONE: Terms = Terms {
        owner: None,
        cluster: None,
        class: Class::Background,
        release: Release::None,
        overrun: Overrun::Throttle,
        backlog: 0,
        point: PriorityPoint::AfterRelease(Nanoseconds::ZERO),
        account: Account::EMPTY,
        deadline: Nanoseconds::ZERO,
        tie: Tie::ZERO,
        suspension: Nanoseconds::ZERO,
        releases_early: false,
        begins_early: false,
        only_for_start: false,
        next_release: Instant::NEVER,
        replenish_at: Instant::NEVER,
        earliest_release: Instant::ZERO,
    };
}

/// A budget, its key, and the thread that runs on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(align(256))]
pub struct Reservation {
    owner: Option<ThreadId>,
    runner: Option<ThreadId>,
    on: Option<CpuId>,
    cluster: Option<ClusterId>,
    class: Class,
    release: Release,
    throttled: bool,
    releases_early: bool,
    begins_early: bool,
    boosted: bool,
    only_for_start: bool,
    unplanned: bool,
    overrun: Overrun,
    backlog: u8,
    point: PriorityPoint,
    key: Key,
    tie: Tie,
    account: Account,
    suspension: Nanoseconds,
    suspended: Nanoseconds,
    rests: Instant,
    deadline: Nanoseconds,
    next_release: Instant,
    replenish_at: Instant,
    earliest_release: Instant,
    nominal: Instant,
    charged: Nanoseconds,
    throttles: u32,
    overshoot: Nanoseconds,
    touched: Link<ReservationId>,
}

// The way to one of many objects takes one instruction if its size is a power of two.
const _: () = assert!(size_of::<Reservation>() == 256);

impl Reservation {
    /// A reservation without budget and owner.
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

    /// Becomes a reservation with these terms, in place. For boot, which finds it empty.
    #[inline]
    pub(crate) fn set_terms(&mut self, terms: Terms) {
        self.owner = terms.owner;
        self.cluster = terms.cluster;
        self.class = terms.class;
        self.release = terms.release;
        self.overrun = terms.overrun;
        self.backlog = terms.backlog;
        self.point = terms.point;
        self.account = terms.account;
        self.deadline = terms.deadline;
        self.tie = terms.tie;
        self.next_release = terms.next_release;
        self.replenish_at = terms.replenish_at;
        self.earliest_release = terms.earliest_release;
        self.rests = Instant::NEVER;
        self.suspension = terms.suspension;
        self.releases_early = terms.releases_early;
        self.begins_early = terms.begins_early;
        self.only_for_start = terms.only_for_start;
        self.nominal = Instant::NEVER;
    }

    //--- Reads ---------------------------------------------------------------------------------------------

    /// The thread that the reservation belongs to.
    #[must_use]
    #[inline]
    pub fn owner(&self) -> Option<ThreadId> {
        self.owner
    }

    /// The one thread that runs on the reservation; set exactly while it is in its cluster's queue or linked.
    #[must_use]
    #[inline]
    pub fn runner(&self) -> Option<ThreadId> {
        self.runner
    }

    /// The CPU whose time the reservation pays, until that CPU has booked it and chosen anew: it runs nowhere else meanwhile.
    #[must_use]
    #[inline]
    pub fn on(&self) -> Option<CpuId> {
        self.on
    }

    /// The cluster in which the reservation competes.
    #[must_use]
    #[inline]
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// The class of the reservation.
    #[must_use]
    #[inline]
    pub fn class(&self) -> Class {
        self.class
    }

    /// The way in which jobs of the reservation are released.
    #[must_use]
    #[inline]
    pub fn release(&self) -> Release {
        self.release
    }

    /// Whether the budget was used up and not refilled yet.
    #[must_use]
    #[inline]
    pub fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// Whether the task may call `early_release`.
    #[must_use]
    #[inline]
    pub fn releases_early(&self) -> bool {
        self.releases_early
    }

    /// Whether jobs may begin before their releases (see `early`).
    #[must_use]
    #[inline]
    pub fn begins_early(&self) -> bool {
        self.begins_early
    }

    /// Whether the reservation competes above all keys of its cluster, because its runner keeps clients of other clusters waiting.
    #[must_use]
    #[inline]
    pub fn is_boosted(&self) -> bool {
        self.boosted
    }

    /// Whether the reservation is lent to a passive server until its first receive.
    #[must_use]
    #[inline]
    pub fn is_only_for_start(&self) -> bool {
        self.only_for_start
    }

    /// Whether the next event of the reservation is not where it is queued.
    #[must_use]
    #[inline]
    pub fn is_unplanned(&self) -> bool {
        self.unplanned
    }

    /// The policy for a job that uses up its budget.
    #[must_use]
    #[inline]
    pub fn overrun(&self) -> Overrun {
        self.overrun
    }

    /// The number of releases that may queue while a job is late.
    #[must_use]
    #[inline]
    pub fn backlog(&self) -> u8 {
        self.backlog
    }

    /// The place of the priority points of the reservation's jobs.
    #[must_use]
    #[inline]
    pub fn point(&self) -> PriorityPoint {
        self.point
    }

    /// The key of the reservation, before any boost.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Key {
        self.key
    }

    /// The tie-break of the reservation.
    #[must_use]
    #[inline]
    pub fn tie(&self) -> Tie {
        self.tie
    }

    /// Budget and debt.
    #[must_use]
    #[inline]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The time that a job may be suspended and keep its key.
    #[must_use]
    #[inline]
    pub fn suspension(&self) -> Nanoseconds {
        self.suspension
    }

    /// The time that the present job has been suspended, as far as that counts.
    #[must_use]
    #[inline]
    pub fn suspended(&self) -> Nanoseconds {
        self.suspended
    }

    /// The instant since which the reservation rests (see `resting`); `NEVER`: it does not.
    #[must_use]
    #[inline]
    pub fn rests(&self) -> Instant {
        self.rests
    }

    /// The relative deadline of jobs.
    #[must_use]
    #[inline]
    pub fn deadline(&self) -> Nanoseconds {
        self.deadline
    }

    /// The next release by the clock; `NEVER` if none is planned.
    #[must_use]
    #[inline]
    pub fn next_release(&self) -> Instant {
        self.next_release
    }

    /// The next replenishment by the clock; `NEVER` if none is planned.
    #[must_use]
    #[inline]
    pub fn replenish_at(&self) -> Instant {
        self.replenish_at
    }

    /// The earliest instant at which a sporadic job may be released.
    #[must_use]
    #[inline]
    pub fn earliest_release(&self) -> Instant {
        self.earliest_release
    }

    /// The release of the job, if that has begun before it and is not released yet; `NEVER`: no job is early.
    #[must_use]
    #[inline]
    pub fn nominal(&self) -> Instant {
        self.nominal
    }

    /// The CPU time charged to the reservation.
    #[must_use]
    #[inline]
    pub fn charged(&self) -> Nanoseconds {
        self.charged
    }

    /// The number of times the budget was used up.
    #[must_use]
    #[inline]
    pub fn throttles(&self) -> u32 {
        self.throttles
    }

    /// The largest single time that was drawn beyond the budget.
    #[must_use]
    #[inline]
    pub fn overshoot(&self) -> Nanoseconds {
        self.overshoot
    }

    /// The key that the reservation competes with: above all others of its cluster while it is boosted.
    #[must_use]
    #[inline]
    pub fn competing_key(&self) -> Key {
        if self.boosted { Key::real_time(Instant::ZERO, self.tie) } else { self.key }
    }

    /// The reservation behind this one in the list of reservations that may have got another runner.
    #[inline]
    pub(crate) fn next_touched(&self) -> Option<ReservationId> {
        self.touched.next()
    }

    //--- Runners -------------------------------------------------------------------------------------------

    /// The reservation's runner is `runner` from here on. For `schedule`, and fast switches, which change the links with it.
    #[inline(always)]
    pub(super) fn set_runner(&mut self, runner: Option<ThreadId>) {
        self.runner = runner;
    }

    /// The reservation competes above all keys of its cluster, or no longer does.
    #[inline]
    pub(super) fn set_boosted(&mut self, boosted: bool) {
        self.boosted = boosted;
    }

    /// A CPU runs on the reservation from here on.
    #[inline(always)]
    pub(super) fn enter(&mut self, cpu: CpuId) {
        self.on = Some(cpu);
    }

    /// The CPU that ran on the reservation has booked it, and runs on something else.
    #[inline(always)]
    pub(super) fn leave(&mut self) {
        self.on = None;
    }

    /// Marks the reservation `id`, which this one is, in `list`: its runner may be another.
    #[inline(always)]
    pub(crate) fn mark(&mut self, id: ReservationId, list: &mut List<ReservationId>) {
        list.push(id, &mut self.touched);
    }

    /// Takes the reservation, the first in `list`, out of the list.
    #[inline(always)]
    pub(super) fn unmark(&mut self, list: &mut List<ReservationId>) {
        list.pop(&mut self.touched);
    }

    /// The reservation's next event is not where it is queued.
    #[inline(always)]
    pub(super) fn unplan(&mut self) {
        self.unplanned = true;
    }

    /// The reservation's next event, which is queued from here on. Returns its instant.
    #[inline(always)]
    pub(super) fn plan(&mut self) -> Instant {
        self.unplanned = false;
        self.next_release.min(self.replenish_at)
    }

    /// The reservation has this key from here on. The caller changes the key that competes for it in the cluster.
    #[inline(always)]
    pub(crate) fn set_key(&mut self, key: Key) {
        self.key = key;
    }

    /// A job of the thread `owner` was complete with this lateness: that breaks ties of the next one.
    #[inline]
    pub(crate) fn set_tie(&mut self, lateness: i64, owner: ThreadId) {
        self.tie = Tie::new(lateness, self.deadline, owner.index() as u16);
    }

    /// The reservation belongs to no thread any more.
    #[inline]
    pub(crate) fn give_up(&mut self) {
        debug_assert!(self.owner.is_some() && self.is_only_for_start(), "a passive server has begun on it");
        self.owner = None;
    }

    //--- Budget --------------------------------------------------------------------------------------------

    /// Charges CPU time. Returns whether that has used up the budget.
    #[inline(always)]
    pub(crate) fn charge(&mut self, span: Nanoseconds) -> bool {
        self.charged += span;
        self.draw_time(span)
    }

    /// Charges CPU time that is less than the budget left.
    #[inline(always)]
    pub(crate) fn charge_affordable(&mut self, span: Nanoseconds) {
        self.charged += span;
        self.account.charge(span);
    }

    /// Charges CPU time, but leaves a nanosecond, so that the budget ends by the timer, as always. The rest is debt.
    #[inline(always)]
    pub(crate) fn charge_all_but_one(&mut self, span: Nanoseconds) {
        self.charged += span;
        let drawn = self.draw_all_but_one(span);
        self.account.debt += span.saturating_sub(drawn);
    }

    /// Counts CPU time that is drawn from the account by [`draw_time`](Self::draw_time).
    #[inline]
    pub(crate) fn book(&mut self, span: Nanoseconds) {
        self.charged += span;
    }

    /// Draws time from the account; the excess is debt. Returns whether that has used up the budget.
    #[inline(always)]
    pub(crate) fn draw_time(&mut self, time: Nanoseconds) -> bool {
        let excess = self.account.charge(time);
        self.overshoot = self.overshoot.max(excess);
        self.account.is_dry() && !self.throttled
    }

    /// Draws time from the account, but leaves a nanosecond. Returns how much that was.
    #[inline(always)]
    pub(crate) fn draw_all_but_one(&mut self, time: Nanoseconds) -> Nanoseconds {
        let drawn = time.min(self.account.left.saturating_sub(Nanoseconds(1)));
        self.account.charge(drawn);
        drawn
    }

    /// Counts that the budget was used up.
    #[inline]
    pub(crate) fn count_throttle(&mut self) {
        self.throttles += 1;
    }

    /// The reservation is throttled, and no refill is planned for it.
    #[inline]
    pub(crate) fn throttle(&mut self) {
        self.throttled = true;
    }

    /// The reservation is throttled until its account is refilled, seen from `now`.
    #[inline]
    pub(crate) fn throttle_until_refill(&mut self, now: Instant) {
        self.throttled = true;
        self.replenish_at = self.account.next_refill(now);
    }

    /// The reservation has budget, and no refill is planned for it.
    #[inline]
    pub(crate) fn unthrottle(&mut self) {
        (self.throttled, self.replenish_at) = (false, Instant::NEVER);
    }

    /// The reservation is throttled exactly if its account is exhausted, and then until the next refill after `at`.
    #[inline(always)]
    pub(crate) fn throttle_if_dry(&mut self, at: Instant) {
        self.throttled = self.account.is_dry();
        self.replenish_at = if self.throttled { self.account.next_refill(at) } else { Instant::NEVER };
    }

    /// The reservation has budget; a planned refill stays planned.
    #[inline]
    pub(crate) fn end_throttle(&mut self) {
        self.throttled = false;
    }

    /// The budget starts over at `at`, however much of it was used.
    #[inline]
    pub(crate) fn restart_budget(&mut self, at: Instant) {
        self.account.restart(at);
    }

    /// The instant at which the account is refilled next, as [`Account::next_refill`] has it.
    #[inline]
    pub(crate) fn next_refill(&mut self, now: Instant) -> Instant {
        self.account.next_refill(now)
    }

    /// The budget that is left is a chunk released at `at`.
    #[inline]
    pub(crate) fn resume_budget(&mut self, at: Instant) {
        self.account.resume(at);
    }

    /// The budget that is left is a chunk released at `at`, behind the key of the present one.
    #[inline]
    pub(crate) fn resume_budget_behind(&mut self, at: Instant) {
        self.account.resume_behind(at);
    }

    /// Budget and period are others from here on.
    #[inline]
    pub(crate) fn change_budget(&mut self, budget: Nanoseconds, period: Nanoseconds, now: Instant) {
        self.account.change(budget, period, now);
    }

    /// The budget starts over at `start` at the latest.
    #[inline]
    pub(crate) fn start_over_by(&mut self, start: Instant) {
        self.replenish_at = self.replenish_at.min(start);
    }

    //--- Suspension ----------------------------------------------------------------------------------------

    /// The reservation rests since `now`.
    #[inline(always)]
    pub(super) fn begin_rest(&mut self, now: Instant) {
        self.rests = now;
    }

    /// The reservation rests no longer. Returns since when it has; `NEVER`: it did not.
    #[inline(always)]
    pub(super) fn end_rest(&mut self) -> Instant {
        core::mem::replace(&mut self.rests, Instant::NEVER)
    }

    /// Counts suspension of the present job.
    #[inline]
    pub(super) fn count_suspension(&mut self, time: Nanoseconds) {
        self.suspended += time;
    }

    /// Counts suspension beyond the allowance, which the job has used up.
    #[inline]
    pub(super) fn count_excess(&mut self, more: Nanoseconds) {
        self.suspended = Nanoseconds(self.suspended.0.max(self.suspension.0).saturating_add(more.0));
    }

    /// Forgives suspension beyond the allowance, which has been paid.
    #[inline]
    pub(super) fn forgive_excess(&mut self) {
        self.suspended = self.suspended.min(self.suspension);
    }

    /// The suspension of a new job is zero.
    #[inline]
    pub(crate) fn clear_suspension(&mut self) {
        self.suspended = Nanoseconds::ZERO;
    }

    //--- Releases ------------------------------------------------------------------------------------------

    /// The next release by the clock is at `at`; `NEVER`: none is planned.
    #[inline(always)]
    pub(crate) fn plan_release(&mut self, at: Instant) {
        self.next_release = at;
    }

    /// No release and no refill is planned.
    #[inline]
    pub(crate) fn plan_nothing(&mut self) {
        (self.next_release, self.replenish_at) = (Instant::NEVER, Instant::NEVER);
    }

    /// Jobs are released in this way from here on: in none after the death of the task, in that of the manifest in another life.
    #[inline]
    pub(crate) fn set_release(&mut self, release: Release) {
        self.release = release;
    }

    /// A sporadic job is released at `release`: the next one a period later, at the earliest.
    #[inline(always)]
    pub(crate) fn space_releases(&mut self, release: Instant) {
        self.earliest_release = release + self.account.period;
    }

    /// A sporadic job may be released at `at`.
    #[inline]
    pub(crate) fn allow_release(&mut self, at: Instant) {
        self.earliest_release = at;
    }

    //--- Early jobs ----------------------------------------------------------------------------------------

    /// A job begins at `now` that is released at `release`: it has a full budget, is of class service, and its release is planned.
    #[inline]
    pub(crate) fn begin_early(&mut self, now: Instant, release: Instant) {
        self.account.restart(now);
        self.class = Class::Service;
        (self.nominal, self.next_release) = (release, release);
        self.unthrottle();
    }

    /// The job is early no longer: it has the account that was set aside.
    #[inline]
    pub(crate) fn end_early(&mut self, account: Account) {
        self.account = account;
        self.class = Class::RealTime;
        (self.nominal, self.next_release) = (Instant::NEVER, Instant::NEVER);
    }
}
