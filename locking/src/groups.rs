//! The group lock as the kernel has it: with the keys of threads.
//!
//! As [`crate::tokens`]: compiled here, once, and for size.

use fusee_sched::key::Key;

use crate::engine::LockError;
use crate::group::{Change, GroupLock, LockSet, Waits};

/// Tasks that use the locks of one group, each with one request at most.
pub const USERS: usize = 20;

/// The group lock.
pub type Group = GroupLock<Key, USERS>;

/// See [`GroupLock::request`].
///
/// # Errors
/// As there.
#[inline(never)]
pub fn request(group: &mut Group, user: u16, key: Key, locks: LockSet) -> Result<Change, LockError> {
    group.request(user, key, locks)
}

/// See [`GroupLock::release`].
///
/// # Errors
/// As there.
#[inline(never)]
pub fn release(group: &mut Group, user: u16, busy: LockSet) -> Result<Change, LockError> {
    group.release(user, busy)
}

/// See [`GroupLock::drained`].
#[inline(never)]
pub fn drained(group: &mut Group, lock: u8) -> Change {
    group.drained(lock)
}

/// See [`GroupLock::drain`].
#[inline(never)]
pub fn drain(group: &mut Group, lock: u8) {
    group.drain(lock);
}

/// See [`GroupLock::is_wanted`].
#[must_use]
#[inline(never)]
pub fn is_wanted(group: &Group, lock: u8) -> bool {
    group.is_wanted(lock)
}

/// See [`GroupLock::withdraw`].
#[inline(never)]
pub fn withdraw(group: &mut Group, user: u16) -> Option<Change> {
    group.withdraw(user)
}

/// See [`GroupLock::should_yield`].
#[must_use]
#[inline(never)]
pub fn should_yield(group: &Group, user: u16) -> bool {
    group.should_yield(user)
}

/// The locks of the request of `user`, and what it waits for.
#[must_use]
#[inline(never)]
pub fn request_of(group: &Group, user: u16) -> Option<(LockSet, Waits)> {
    group.request_of(user).map(|request| (request.locks, request.waits))
}

/// A user that waits for `lock` to drain.
#[must_use]
#[inline(never)]
pub fn waits_for_drain(group: &Group, lock: u8) -> Option<u16> {
    group.requests().iter().find(|request| request.waits == Waits::ForDrain(lock)).map(|request| request.user)
}
