//! The job of a thread: its number and instants, the releases that queue behind it, and the record of earlier jobs.
//!
//! # Invariants
//!
//! 1. A release queues once: by the clock in `queued` and `queued_after`, or as a place in the ring of sporadic releases.
//! 2. The ring never has more releases than places.
//! 3. Counts of skipped releases and overruns start at zero with each job.
//!
//! Fields are private, so only the methods here change a job.
//!
//! Not here: the choice of the next release (`releases`), and the effect of a job on its budget (`jobs`, `budgets`).

use fusee_sched::time::{Instant, Nanoseconds};

/// The job a thread works on, with the releases that follow it.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    number: u32,
    active: bool,
    release: Instant,
    deadline: Instant,
    queued: Option<Instant>,
    queued_after: u8,
    sporadic: ReleaseQueue,
    overruns: u32,
    signalled: bool,
    skipped: u32,
    lateness: i64,
}

impl Job {
    /// A job before the first.
    pub const EMPTY: Job = Job {
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
    };

    /// The number of the job; the first job has number 1.
    #[must_use]
    #[inline]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether the job is released and not complete.
    #[must_use]
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// The instant of the job's release.
    #[must_use]
    #[inline]
    pub fn release(&self) -> Instant {
        self.release
    }

    /// The job's absolute deadline.
    #[must_use]
    #[inline]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The first release by the clock that came while the job was active.
    #[must_use]
    #[inline]
    pub fn queued(&self) -> Option<Instant> {
        self.queued
    }

    /// The number of releases by the clock behind the first queued one, each a period after the other.
    #[must_use]
    #[inline]
    pub fn queued_after(&self) -> u8 {
        self.queued_after
    }

    /// The sporadic releases that wait for their instant, or for the end of the job.
    #[must_use]
    #[inline]
    pub fn sporadic(&self) -> ReleaseQueue {
        self.sporadic
    }

    /// Whether the job's next checkpoint is answered with [`fusee_abi::Error::Overrun`].
    #[must_use]
    #[inline]
    pub fn is_signalled(&self) -> bool {
        self.signalled
    }

    /// The job with the next number begins. Returns the numbers of releases skipped and of budgets used up since the last one began.
    #[inline]
    pub(crate) fn begin(&mut self, release: Instant, deadline: Instant) -> (u32, u32) {
        self.number = self.number.wrapping_add(1);
        self.active = true;
        self.release = release;
        self.deadline = deadline;
        let skipped = core::mem::take(&mut self.skipped);
        let overruns = core::mem::take(&mut self.overruns);
        self.signalled = false;
        (skipped, overruns)
    }

    /// The job is complete at `now`. Returns its lateness in nanoseconds, which is negative if the deadline is still to come.
    #[inline]
    pub(crate) fn complete(&mut self, now: Instant) -> i64 {
        let lateness = now.signed_since(self.deadline);
        self.active = false;
        self.lateness = lateness;
        lateness
    }

    /// The lateness of the previous job, in nanoseconds.
    #[must_use]
    #[inline]
    pub fn lateness(&self) -> i64 {
        self.lateness
    }

    /// The job ends with its task.
    #[inline]
    pub(crate) fn abandon(&mut self) {
        self.active = false;
    }

    /// The job has used up a budget. If `signals`, its next checkpoint is answered with an error.
    #[inline]
    pub(crate) fn overrun(&mut self, signals: bool) {
        self.overruns = self.overruns.saturating_add(1);
        self.signalled |= signals;
    }

    /// The checkpoint has been answered, or the task has come up.
    #[inline]
    pub(crate) fn end_signal(&mut self) {
        self.signalled = false;
    }

    /// Queues a release by the clock behind the job of a reservation with this `period`, if fewer than `room` queue and it follows them without a gap.
    /// Returns whether it queues.
    #[inline]
    pub(crate) fn queue(&mut self, release: Instant, room: u8, period: Nanoseconds) -> bool {
        match self.queued {
            None => self.queued = Some(release),
            Some(first)
                if self.queued_after + 1 < room
                    && release == first + Nanoseconds(period.0.saturating_mul(u64::from(self.queued_after) + 1)) =>
            {
                self.queued_after += 1;
            }
            Some(_) => return false,
        }
        true
    }

    /// Takes the first release by the clock out of the queue; those behind it are `period` apart.
    #[inline]
    pub(crate) fn take_queued(&mut self, period: Nanoseconds) -> Option<Instant> {
        let first = self.queued.take()?;
        if self.queued_after > 0 {
            self.queued_after -= 1;
            self.queued = Some(first + period);
        }
        Some(first)
    }

    /// Takes the earliest release out of the ring, which has one.
    #[inline]
    pub(crate) fn take_sporadic(&mut self) {
        debug_assert!(self.sporadic.count != 0, "a release is taken from a ring with one");
        let next = self.sporadic.first + 1;
        self.sporadic.first = if next == self.sporadic.places { 0 } else { next };
        self.sporadic.count -= 1;
    }

    /// Counts a release that has been stored at the end of the ring, which had a free place.
    #[inline]
    pub(crate) fn put_sporadic(&mut self) {
        debug_assert!(self.sporadic.count < self.sporadic.places, "a release queues in a free place");
        self.sporadic.count += 1;
    }

    /// Gives the ring its part of the kernel's table of releases. For boot.
    pub(crate) fn set_places(&mut self, base: u16, places: u8) {
        self.sporadic = ReleaseQueue { base, places, ..ReleaseQueue::EMPTY };
    }

    /// Starts over for another life of the task: the number goes on, nothing queues, and the first checkpoint is signalled, so that it takes no fast path.
    #[inline]
    pub(crate) fn begin_life(&mut self) {
        let (number, sporadic) = (self.number, self.sporadic);
        *self = Job { number, signalled: true, ..Job::EMPTY };
        self.sporadic.base = sporadic.base;
        self.sporadic.places = sporadic.places;
    }

    /// Counts a dropped release.
    #[inline]
    pub(crate) fn skip(&mut self) {
        self.skipped += 1;
    }
}

/// A part of the kernel's table of release instants, as a ring: sporadic releases need not follow each other evenly.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReleaseQueue {
    base: u16,
    places: u8,
    first: u8,
    count: u8,
}

impl ReleaseQueue {
    /// A ring without places.
    pub const EMPTY: ReleaseQueue = ReleaseQueue { base: 0, places: 0, first: 0, count: 0 };

    /// The number of releases in the ring.
    #[must_use]
    #[inline]
    pub fn count(self) -> u8 {
        self.count
    }

    /// The number of places in the ring.
    #[must_use]
    #[inline]
    pub fn places(self) -> u8 {
        self.places
    }

    /// The index in the table of the release that is `number` places behind the earliest.
    #[must_use]
    pub fn place(&self, number: u8) -> usize {
        let place = (u16::from(self.first) + u16::from(number)) % u16::from(self.places.max(1));
        usize::from(self.base) + usize::from(place)
    }
}

/// The record of a thread: jobs, misses, faults and CPU time so far.
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
    /// CPU time the thread ran.
    pub time: Nanoseconds,
}

impl Statistics {
    /// A record of nothing.
    pub const EMPTY: Statistics =
        Statistics { jobs: 0, misses: 0, skipped: 0, faults: 0, max_lateness: 0, time: Nanoseconds::ZERO };

    /// Counts a job that was complete with this lateness.
    #[inline]
    pub(crate) fn complete(&mut self, lateness: i64) {
        self.max_lateness = if self.jobs == 0 { lateness } else { self.max_lateness.max(lateness) };
        self.jobs += 1;
        self.misses += u32::from(lateness > 0);
    }
}
