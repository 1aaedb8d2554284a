//! The pool as the kernel has it: with the keys of jobs.
//!
//! The generic code of [`crate::pool`] is compiled here, once: it is long, and no fast path leads through it.

use fusee_sched::key::Key;
use fusee_sched::time::Nanoseconds;

use crate::engine::LockError;
use crate::pool::{Change, Pool};

/// Replicas of one pool.
pub const REPLICAS: usize = 12;
pub use crate::bits::USERS;

/// Adviser of a pool of this size.
pub type Advice = dyn crate::pool::Advice<Key, REPLICAS, USERS>;

/// The pool.
pub type Tokens = Pool<Key, REPLICAS, USERS>;

/// See [`Pool::request`].
///
/// # Errors
/// Those of [`Pool::request`].
#[inline(never)]
pub fn request(
    tokens: &mut Tokens,
    advice: &Advice,
    user: u16,
    key: Key,
    length: Nanoseconds,
) -> Result<Change, LockError> {
    tokens.request(user, key, length, advice)
}

/// See [`Pool::withdraw`]; for a holder, that is a release.
#[inline(never)]
pub fn withdraw(tokens: &mut Tokens, advice: &Advice, user: u16) -> Option<Change> {
    tokens.withdraw(user, advice)
}

/// See [`Pool::change_key`].
#[inline(never)]
pub fn change_key(tokens: &mut Tokens, advice: &Advice, user: u16, key: Key) -> Option<Change> {
    tokens.change_key(user, key, advice)
}

/// See [`Pool::held_by`].
#[must_use]
#[inline(never)]
pub fn held_by(tokens: &Tokens, user: u16) -> Option<u8> {
    tokens.held_by(user)
}

/// See [`Pool::waits_on`].
#[must_use]
#[inline(never)]
pub fn waits_on(tokens: &Tokens, user: u16) -> Option<u16> {
    tokens.waits_on(user)
}

/// Whether a request that waits has a key before `own`.
#[must_use]
#[inline(never)]
pub fn keeps_earlier(tokens: &Tokens, own: Key) -> bool {
    tokens.requests().iter().any(|request| request.key < own && tokens.held_by(request.user).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Rules, Unadvised};
    use fusee_sched::key::Tie;
    use fusee_sched::time::Instant;

    fn key(point: u64) -> Key {
        Key::real_time(Instant(point), Tie::new(0, Nanoseconds(0), 0))
    }

    #[test]
    fn the_pool_of_the_kernel_is_a_pool() {
        let mut tokens = Tokens::EMPTY;
        tokens.set_rules(Rules::r2dglp(2, 4));
        let length = Nanoseconds(5);
        for (user, replica) in [(3, 0), (5, 1)] {
            let _ = request(&mut tokens, &Unadvised, user, key(10 + u64::from(user)), length).unwrap();
            assert_eq!(held_by(&tokens, user), Some(replica));
        }
        assert!(!keeps_earlier(&tokens, key(100)), "holders do not wait");
        assert_eq!(request(&mut tokens, &Unadvised, 3, key(1), length).err(), Some(LockError::AlreadyHeld));
        let _ = request(&mut tokens, &Unadvised, 7, key(20), length).unwrap();
        assert_eq!((held_by(&tokens, 7), waits_on(&tokens, 7)), (None, Some(3)));
        assert_eq!((waits_on(&tokens, 3), held_by(&tokens, 9)), (None, None));
        assert_eq!([20, 21].map(|point| keeps_earlier(&tokens, key(point))), [false, true]);
        assert!(change_key(&mut tokens, &Unadvised, 7, key(2)).is_some());
        assert!(change_key(&mut tokens, &Unadvised, 9, key(2)).is_none());
        assert!(keeps_earlier(&tokens, key(3)));
        assert!(withdraw(&mut tokens, &Unadvised, 3).is_some());
        assert!(withdraw(&mut tokens, &Unadvised, 3).is_none());
        assert_eq!(held_by(&tokens, 7), Some(0));
    }
}
