//! The use that each task makes of a pool of tokens, and the watch over a pool.
//!
//! Fields are private. Reads are free for all; a change is one of the methods here, each named after the event.
//!
//! Not here: the pool itself (`locking::tokens`).

use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{ClusterId, PoolId, PoolUserId, ThreadId};

/// The use of one pool by one task: its number is that of a user there.
#[derive(Clone, Copy, Debug)]
pub struct PoolUser {
    pool: Option<PoolId>,
    thread: Option<ThreadId>,
    length: Nanoseconds,
    usage_at_grant: Nanoseconds,
    granted: Instant,
    lost: bool,
    next: Option<PoolUserId>,
}

impl PoolUser {
    /// A use of no pool.
    pub const EMPTY: PoolUser = PoolUser {
        pool: None,
        thread: None,
        length: Nanoseconds::ZERO,
        usage_at_grant: Nanoseconds::ZERO,
        granted: Instant::ZERO,
        lost: false,
        next: None,
    };

    /// The use of `pool` by `thread`, for `length` at a time. `next` is the task's next use of a pool. For boot.
    pub(crate) fn new(pool: PoolId, thread: ThreadId, length: Nanoseconds, next: Option<PoolUserId>) -> Self {
        Self { pool: Some(pool), thread: Some(thread), length, next, ..Self::EMPTY }
    }

    /// The pool.
    #[must_use]
    #[inline]
    pub fn pool(&self) -> Option<PoolId> {
        self.pool
    }

    /// The task.
    #[must_use]
    #[inline]
    pub fn thread(&self) -> Option<ThreadId> {
        self.thread
    }

    /// The longest time that the task uses a token, as it declares.
    #[must_use]
    #[inline]
    pub fn length(&self) -> Nanoseconds {
        self.length
    }

    /// The CPU and engine time of the task when it was granted its token, if that is measured.
    #[must_use]
    #[inline]
    pub fn usage_at_grant(&self) -> Nanoseconds {
        self.usage_at_grant
    }

    /// The instant at which the task was granted its token, if the pool is watched.
    #[must_use]
    #[inline]
    pub fn granted(&self) -> Instant {
        self.granted
    }

    /// Whether the token was taken away, and the task has not been notified.
    #[must_use]
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// The next use by the same task.
    #[must_use]
    #[inline]
    pub fn next(&self) -> Option<PoolUserId> {
        self.next
    }

    /// A token is granted after the task has used CPUs and engines for this time.
    #[inline]
    pub(crate) fn note_usage(&mut self, used: Nanoseconds) {
        self.usage_at_grant = used;
    }

    /// A token of a watched pool is granted at `now`.
    #[inline]
    pub(crate) fn note_grant(&mut self, now: Instant) {
        self.granted = now;
    }

    /// The token was taken away.
    #[inline]
    pub(crate) fn lose(&mut self) {
        self.lost = true;
    }

    /// The task has been notified of the loss, or needs no notice any more. Returns whether there was a loss.
    #[inline]
    pub(crate) fn end_loss(&mut self) -> bool {
        core::mem::take(&mut self.lost)
    }
}

/// The watch over the time for which tokens of a pool are kept.
#[derive(Clone, Copy, Debug)]
pub struct TokenWatch {
    watchdog: Nanoseconds,
    cluster: Option<ClusterId>,
    planned: bool,
}

impl TokenWatch {
    /// A watch over a pool without a limit on the time for which tokens are kept.
    pub const EMPTY: TokenWatch = TokenWatch { watchdog: Nanoseconds::ZERO, cluster: None, planned: false };

    /// A watch by the timekeeper of `cluster` that takes tokens away after `watchdog`.
    pub(crate) fn new(watchdog: Nanoseconds, cluster: ClusterId) -> Self {
        Self { watchdog, cluster: Some(cluster), planned: false }
    }

    /// The time from a grant until the token is taken away; zero: never.
    #[must_use]
    #[inline]
    pub fn watchdog(&self) -> Nanoseconds {
        self.watchdog
    }

    /// The cluster of the timekeeper that looks after the pool.
    #[must_use]
    #[inline]
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// Whether a look is planned.
    #[must_use]
    #[inline]
    pub fn is_planned(&self) -> bool {
        self.planned
    }

    /// A look is planned.
    #[inline]
    pub(crate) fn plan(&mut self) {
        self.planned = true;
    }

    /// The look that was planned takes place.
    #[inline]
    pub(crate) fn end_look(&mut self) {
        self.planned = false;
    }
}
