//! The mutex of one engine, and why releasing it never blocks.
//!
//! ```text
//! Free -> Held -> Draining -> Free
//!                    \          ^
//!                     `-> Resetting
//!                          \    ^
//!                           `-> Quarantined
//! ```
//!
//! A holder may release while its last operation still runs. The lock is then *Draining*: the lock has no holder and is
//! granted to no user, until the device reports that it is idle.
//!
//! If draining takes too long, the lock is *Resetting* until the driver reports that the engine is idle. A driver that
//! does not report in time leaves the lock *Quarantined*: until the driver completes a reset after all, the lock is
//! granted to no user, and no user waits for it for long. A user that holds the lock for too long is made to release it
//! by force, with the same states after that.
//!
//! # Invariants
//!
//! 1. At most one user holds the lock, and the holder does not wait for it.
//! 2. A free lock has no waiters.
//! 3. A request is granted or withdrawn exactly once.
//! 4. No user begins to wait while the lock is quarantined.
//!
//! Not here: inheritance among holder and waiters, time, and the notification of waiters when the lock is quarantined
//! (`kernel/core`).
//! Source: Elliott 2015, section 3.2.3.4 (engine locks); the Draining state is ours, because here a release
//! is enforced by the kernel and cannot wait for its caller's good will.

use heapless::Vec;

/// Order in which waiters are granted.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Order {
    /// Order of arrival.
    #[default]
    Fifo,
    /// Earliest key first; of equal keys, by arrival.
    Priority,
}

/// State of an engine lock. Users are numbers of the caller's choice.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum State {
    /// The lock has no holder, and the engine is idle.
    #[default]
    Free,
    /// This user holds the lock, and may submit.
    Held(u16),
    /// This user released the lock, but its last operation has not ended.
    Draining(u16),
    /// This user's last operation has not ended in time: the driver resets the engine.
    Resetting(u16),
    /// This user's last operation has not ended in time, and the driver has not reset the engine in time.
    Quarantined(u16),
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Requested {
    /// The caller holds the lock now.
    Granted,
    /// The caller waits; the holder, if there is one, should inherit from it.
    Queued {
        /// The user that holds the lock.
        holder: Option<u16>,
    },
}

/// Reason why a request or release was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockError {
    /// The caller holds the lock already, or waits for it.
    AlreadyHeld,
    /// The caller does not hold the lock.
    NotHeld,
    /// The engine works no more: the lock is quarantined.
    Lost,
    /// More users than the lock has places; cannot happen if `N` bounds the users.
    Full,
}

/// The lock. `N` bounds its users.
#[derive(Clone, Debug)]
pub struct EngineLock<const N: usize> {
    state: State,
    order: Order,
    /// Waiting users by arrival.
    waiters: Vec<u16, N>,
}

impl<const N: usize> EngineLock<N> {
    /// A free FIFO lock.
    pub const EMPTY: Self = Self { state: State::Free, order: Order::Fifo, waiters: Vec::new() };

    /// Sets the order of the queue. Allowed only while the lock has no waiters.
    pub fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    /// The state of the lock.
    #[must_use]
    #[inline]
    pub const fn state(&self) -> State {
        self.state
    }

    /// The users that wait, by arrival.
    #[must_use]
    #[inline]
    pub fn waiters(&self) -> &[u16] {
        &self.waiters
    }

    /// `user` asks for the lock.
    ///
    /// # Errors
    /// [`LockError::AlreadyHeld`] if it holds it or waits already; [`LockError::Lost`]; [`LockError::Full`].
    pub fn request(&mut self, user: u16) -> Result<Requested, LockError> {
        match self.state {
            State::Free => {
                self.state = State::Held(user);
                Ok(Requested::Granted)
            }
            State::Held(holder) if holder == user => Err(LockError::AlreadyHeld),
            _ if self.waiters.contains(&user) => Err(LockError::AlreadyHeld),
            State::Held(holder) => {
                self.waiters.push(user).map_err(|_| LockError::Full)?;
                Ok(Requested::Queued { holder: Some(holder) })
            }
            State::Draining(_) | State::Resetting(_) => {
                self.waiters.push(user).map_err(|_| LockError::Full)?;
                Ok(Requested::Queued { holder: None })
            }
            State::Quarantined(_) => Err(LockError::Lost),
        }
    }

    /// `user` gives the lock back; `idle` tells whether its last operation has ended. If so, call
    /// [`EngineLock::grant_next`]; else call [`EngineLock::drained`] once it has.
    ///
    /// # Errors
    /// [`LockError::NotHeld`].
    pub fn release(&mut self, user: u16, idle: bool) -> Result<(), LockError> {
        if self.state != State::Held(user) {
            return Err(LockError::NotHeld);
        }
        self.state = if idle { State::Free } else { State::Draining(user) };
        Ok(())
    }

    /// The engine is idle: its last operation has ended, or the driver has reset it, in time or late. Returns the user of
    /// that operation, if there was one.
    pub fn drained(&mut self) -> Option<u16> {
        let (State::Draining(user) | State::Resetting(user) | State::Quarantined(user)) = self.state else {
            return None;
        };
        self.state = State::Free;
        Some(user)
    }

    /// The last operation has not ended in time: the driver resets the engine. Returns the user of that operation, if the
    /// lock was draining.
    pub fn expire(&mut self) -> Option<u16> {
        let State::Draining(user) = self.state else { return None };
        self.state = State::Resetting(user);
        Some(user)
    }

    /// The driver has not answered in time. Returns the user of the operation that was to be ended, if the lock was
    /// resetting.
    pub fn quarantine(&mut self) -> Option<u16> {
        let State::Resetting(user) = self.state else { return None };
        self.state = State::Quarantined(user);
        Some(user)
    }

    /// The user that is next, if the lock is free. `key_of` orders waiters; it is not called for FIFO locks.
    pub fn next<K: Ord>(&self, mut key_of: impl FnMut(u16) -> K) -> Option<u16> {
        if self.state != State::Free {
            return None;
        }
        match self.order {
            Order::Fifo => self.waiters.first().copied(),
            Order::Priority => self.waiters.iter().copied().min_by_key(|user| key_of(*user)),
        }
    }

    /// Grants a free lock to the next waiter, which is returned.
    pub fn grant_next<K: Ord>(&mut self, key_of: impl FnMut(u16) -> K) -> Option<u16> {
        let user = self.next(key_of)?;
        self.grant(user);
        Some(user)
    }

    /// Grants a free lock to `user`, the [next](EngineLock::next) waiter.
    pub fn grant(&mut self, user: u16) {
        self.withdraw(user);
        self.state = State::Held(user);
    }

    /// Whether the holder, whose key is `own`, should release the lock between two operations. By arrival, the holder should
    /// if there is a waiter; by priority, if there is a waiter with an earlier key. Otherwise the holder continues at once.
    /// An operation in many chunks is thus delayed by one chunk of each later job, not by one after every chunk.
    ///
    /// # Source
    /// Elliott 2015, section 3.2.3.4 (critical-section fusion).
    #[must_use]
    pub fn should_yield<K: Ord>(&self, own: K, mut key_of: impl FnMut(u16) -> K) -> bool {
        match self.order {
            Order::Fifo => !self.waiters.is_empty(),
            Order::Priority => self.waiters.iter().any(|waiter| key_of(*waiter) < own),
        }
    }

    /// `user` stops waiting. Says whether it did wait.
    pub fn withdraw(&mut self, user: u16) -> bool {
        let Some(at) = self.waiters.iter().position(|waiter| *waiter == user) else { return false };
        self.waiters.remove(at);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec as List;

    #[test]
    fn a_release_with_work_in_flight_drains_before_the_next_grant() {
        let mut lock = EngineLock::<4>::EMPTY;
        assert_eq!(lock.request(1), Ok(Requested::Granted));
        assert_eq!(lock.request(2), Ok(Requested::Queued { holder: Some(1) }));
        assert_eq!(lock.release(1, false), Ok(()));
        assert_eq!(lock.grant_next(|user| user), None);
        assert_eq!(lock.request(3), Ok(Requested::Queued { holder: None }));
        assert_eq!(lock.drained(), Some(1));
        assert_eq!(lock.grant_next(|user| user), Some(2));
        assert_eq!(lock.release(1, true), Err(LockError::NotHeld));
    }

    #[test]
    fn an_endless_operation_costs_the_lock_and_a_reset_gives_it_to_the_next() {
        let mut lock = EngineLock::<4>::EMPTY;
        assert_eq!(lock.request(1), Ok(Requested::Granted));
        assert_eq!(lock.request(2), Ok(Requested::Queued { holder: Some(1) }));
        assert_eq!(lock.expire(), None);
        assert_eq!(lock.release(1, false), Ok(()));
        assert_eq!(lock.expire(), Some(1));
        assert_eq!(lock.request(1), Ok(Requested::Queued { holder: None }));
        assert_eq!(lock.quarantine(), Some(1));
        assert_eq!(lock.request(3), Err(LockError::Lost));
        assert_eq!(lock.grant_next(|user| user), None);
        assert_eq!(lock.drained(), Some(1));
        assert_eq!(lock.grant_next(|user| user), Some(2));
    }

    /// Two jobs copy in `chunks` chunks each, and the one with the later key has just begun. Returns how many chunks
    /// of it delay the other.
    fn chunks_that_delay_the_higher_job(chunks: u32, with_fusion: bool) -> u32 {
        let [high, low] = [0, 1];
        let mut lock = EngineLock::<2>::EMPTY;
        lock.set_order(Order::Priority);
        assert_eq!(lock.request(low), Ok(Requested::Granted));
        assert_eq!(lock.request(high), Ok(Requested::Queued { holder: Some(low) }));
        let mut left = [chunks; 2];
        let mut delay = 0;
        while left[usize::from(high)] > 0 {
            let State::Held(holder) = lock.state() else { panic!("nobody copies") };
            left[usize::from(holder)] -= 1;
            delay += u32::from(holder == low);
            let is_last = left[usize::from(holder)] == 0;
            if is_last || !with_fusion || lock.should_yield(holder, |user| user) {
                assert_eq!(lock.release(holder, true), Ok(()));
                let _ = lock.grant_next(|user| user);
                if !is_last {
                    assert!(lock.request(holder).is_ok());
                }
            }
        }
        delay
    }

    #[test]
    fn fusion_delays_a_higher_job_by_one_chunk_where_it_was_delayed_by_as_many_as_it_has() {
        assert_eq!(chunks_that_delay_the_higher_job(7, false), 7);
        assert_eq!(chunks_that_delay_the_higher_job(7, true), 1);
    }

    /// State transitions of the lock as a table: the next state for each state and event, with the engine idle or not.
    fn next(state: State, event: &str, idle: bool) -> Option<State> {
        let (State::Held(user) | State::Draining(user) | State::Resetting(user) | State::Quarantined(user)) = state
        else {
            return None;
        };
        match (event, state) {
            ("release", State::Held(_)) if !idle => Some(State::Draining(user)),
            ("expire", State::Draining(_)) => Some(State::Resetting(user)),
            ("quarantine", State::Resetting(_)) => Some(State::Quarantined(user)),
            ("release", State::Held(_)) => Some(State::Free),
            ("drained", State::Held(_)) => None,
            ("drained", _) => Some(State::Free),
            _ => None,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100_000))]

        /// Against a list of waiters and a table of transitions: one holder, FIFO or key order, no lost request, and
        /// no way but those of the table.
        #[test]
        fn grants_follow_the_order_and_lose_nobody(
            by_priority in any::<bool>(),
            keys in proptest::array::uniform6(0u8..4),
            steps in proptest::collection::vec((0u16..6, 0u8..8, any::<bool>()), 0..60),
        ) {
            let mut lock = EngineLock::<6>::EMPTY;
            lock.set_order(if by_priority { Order::Priority } else { Order::Fifo });
            let mut waiting: List<u16> = List::new();
            let mut state = State::Free;
            for (user, action, idle) in steps {
                match action {
                    0..=2 => {
                        let expected = match state {
                            State::Free => {
                                state = State::Held(user);
                                Ok(Requested::Granted)
                            }
                            State::Held(holder) if holder == user => Err(LockError::AlreadyHeld),
                            _ if waiting.contains(&user) => Err(LockError::AlreadyHeld),
                            State::Quarantined(_) => Err(LockError::Lost),
                            State::Held(holder) => Ok(Requested::Queued { holder: Some(holder) }),
                            _ => Ok(Requested::Queued { holder: None }),
                        };
                        if matches!(expected, Ok(Requested::Queued { .. })) {
                            waiting.push(user);
                        }
                        prop_assert_eq!(lock.request(user), expected);
                    }
                    3 => {
                        prop_assert_eq!(lock.withdraw(user), waiting.contains(&user));
                        waiting.retain(|waiter| *waiter != user);
                    }
                    4 => {
                        let owned = state == State::Held(user);
                        prop_assert_eq!(lock.release(user, idle).is_ok(), owned);
                        if owned { state = next(state, "release", idle).unwrap() }
                    }
                    _ => {
                        let (event, did) = match action {
                            5 => ("drained", lock.drained()),
                            6 => ("expire", lock.expire()),
                            _ => ("quarantine", lock.quarantine()),
                        };
                        let expected = next(state, event, idle);
                        prop_assert_eq!(did.is_some(), expected.is_some());
                        state = expected.unwrap_or(state);
                    }
                }
                if state == State::Free {
                    let expected = if by_priority {
                        let earliest = waiting.iter().map(|user| keys[usize::from(*user)]).min();
                        waiting.iter().copied().find(|user| Some(keys[usize::from(*user)]) == earliest)
                    } else {
                        waiting.first().copied()
                    };
                    prop_assert_eq!(lock.grant_next(|user| keys[usize::from(user)]), expected);
                    if let Some(user) = expected {
                        waiting.retain(|waiter| *waiter != user);
                        state = State::Held(user);
                    }
                } else {
                    prop_assert_eq!(lock.grant_next(|user| keys[usize::from(user)]), None);
                }
                prop_assert_eq!(lock.state(), state);
                prop_assert_eq!(lock.waiters(), &waiting[..]);
            }
        }
    }
}
