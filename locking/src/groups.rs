//! The group lock as the kernel has it: with the keys of threads.
//!
//! The generic code of [`crate::group`] is compiled here, once, and for size.

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
/// Those of [`GroupLock::request`].
#[inline(never)]
pub fn request(group: &mut Group, user: u16, key: Key, locks: LockSet) -> Result<Change, LockError> {
    group.request(user, key, locks)
}

/// See [`GroupLock::release`].
///
/// # Errors
/// Those of [`GroupLock::release`].
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

/// Whether `user`, which holds its locks, should release them between two operations: see [`GroupLock::should_yield`].
#[must_use]
#[inline(never)]
pub fn should_yield(group: &Group, user: u16) -> bool {
    group.should_yield(user)
}

/// The locks of the request of `user`, and its obstacle.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Order;
    use fusee_sched::key::Tie;
    use fusee_sched::time::{Instant, Nanoseconds};

    fn key(point: u64) -> Key {
        Key::real_time(Instant(point), Tie::new(0, Nanoseconds(0), 0))
    }

    #[test]
    fn the_group_of_the_kernel_is_a_group() {
        let locks = |all: &[u8]| all.iter().fold(LockSet::EMPTY, |set, lock| set.with(*lock));
        let mut group = Group::EMPTY;
        group.set_order(Order::Priority);
        drain(&mut group, 4);
        assert_eq!([3, 4].map(|lock| is_wanted(&group, lock)), [false, true]);
        let change = request(&mut group, 3, key(5), locks(&[0, 1])).unwrap();
        assert!(change.grants() && !change.moves_waiters());
        assert_eq!(request(&mut group, 3, key(5), locks(&[2])), Err(LockError::AlreadyHeld));
        let change = request(&mut group, 7, key(9), locks(&[1])).unwrap();
        assert!(!change.grants() && change.moves_waiters());
        assert!(!should_yield(&group, 3), "the other has a later key");
        let _ = request(&mut group, 5, key(1), locks(&[1, 2])).unwrap();
        assert!(should_yield(&group, 3));
        let _ = request(&mut group, 9, key(2), locks(&[4])).unwrap();
        assert_eq!(request_of(&group, 5), Some((locks(&[1, 2]), Waits::For(3))));
        assert_eq!(
            (request_of(&group, 1), waits_for_drain(&group, 4), waits_for_drain(&group, 1)),
            (None, Some(9), None)
        );
        assert!(drained(&mut group, 4).grants());
        assert_eq!(release(&mut group, 5, LockSet::EMPTY), Err(LockError::NotHeld));
        assert_eq!(withdraw(&mut group, 3), None);
        let change = withdraw(&mut group, 5).unwrap();
        assert!(!change.grants() && request_of(&group, 5).is_none());
        let change = release(&mut group, 3, locks(&[1])).unwrap();
        assert!(!change.grants() && change.moves_waiters());
        assert_eq!((waits_for_drain(&group, 1), request_of(&group, 7).unwrap().1), (Some(7), Waits::ForDrain(1)));
        assert_eq!(withdraw(&mut group, 7).map(|change| change.grants()), Some(false));
    }
}
