//! The mutex of one engine, and why releasing it never blocks.
//!
//! ```text
//! Free -> Held -> Draining -> Free
//! ```
//!
//! A holder may release while its last operation still runs. The lock is then *Draining*: nobody holds it,
//! nobody is granted it, until the device says that it is idle.
//!
//! # Invariants
//!
//! 1. At most one user holds the lock, and it does not wait for it.
//! 2. While the lock is free nobody waits.
//! 3. A request is granted or withdrawn exactly once.
//!
//! Not here: inheritance among holder and waiters (`kernel/core`), the watchdog and engine resets.
//! Source: Elliott 2015, section 3.2.3.4 (engine locks); the Draining state is ours, because here a release
//! is enforced by the kernel and cannot wait for its caller's good will.

use heapless::Vec;

/// In which order waiters are granted.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Order {
    /// By arrival.
    #[default]
    Fifo,
    /// Earliest key first; of equal keys, by arrival.
    Priority,
}

/// What the lock is doing. Users are numbers of the caller's choice.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum State {
    /// Nobody holds it, and the engine is idle.
    #[default]
    Free,
    /// This user may submit.
    Held(u16),
    /// This user gave it back, but its last operation has not ended.
    Draining(u16),
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Requested {
    /// The caller holds the lock now.
    Granted,
    /// The caller waits; the holder, if there is one, should inherit from it.
    Queued {
        /// Who holds the lock.
        holder: Option<u16>,
    },
}

/// Why a request or release was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockError {
    /// The caller holds the lock already, or waits for it.
    AlreadyHeld,
    /// The caller does not hold the lock.
    NotHeld,
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

    /// Sets the order. Only while nobody waits.
    pub fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    /// What the lock is doing.
    #[must_use]
    #[inline]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Who waits, by arrival.
    #[must_use]
    #[inline]
    pub fn waiters(&self) -> &[u16] {
        &self.waiters
    }

    /// `user` asks for the lock.
    ///
    /// # Errors
    /// [`LockError::AlreadyHeld`] if it holds it or waits already; [`LockError::Full`].
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
            State::Draining(_) => {
                self.waiters.push(user).map_err(|_| LockError::Full)?;
                Ok(Requested::Queued { holder: None })
            }
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

    /// The engine went idle. Returns the user whose operation it was, if the lock was draining.
    pub fn drained(&mut self) -> Option<u16> {
        let State::Draining(user) = self.state else { return None };
        self.state = State::Free;
        Some(user)
    }

    /// Grants a free lock to the next waiter, which is returned. `key_of` orders waiters; it is not called
    /// for FIFO locks.
    pub fn grant_next<K: Ord>(&mut self, mut key_of: impl FnMut(u16) -> K) -> Option<u16> {
        if self.state != State::Free {
            return None;
        }
        let next = match self.order {
            Order::Fifo => 0,
            Order::Priority => self.waiters.iter().enumerate().min_by_key(|(_, user)| key_of(**user))?.0,
        };
        if next >= self.waiters.len() {
            return None;
        }
        let user = self.waiters.remove(next);
        self.state = State::Held(user);
        Some(user)
    }

    /// Whether its holder, whose key is `own`, should release the lock between two operations: by arrival, if anybody
    /// waits; by priority, if somebody with an earlier key does. If it need not, it goes on at once, and an operation
    /// in many chunks is delayed by one of each later job, not by one after every chunk.
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100_000))]

        /// Against a list of waiters: one holder, FIFO or key order, no lost request.
        #[test]
        fn grants_follow_the_order_and_lose_nobody(
            by_priority in any::<bool>(),
            keys in proptest::array::uniform6(0u8..4),
            steps in proptest::collection::vec((0u16..6, 0u8..5), 0..60),
        ) {
            let mut lock = EngineLock::<6>::EMPTY;
            lock.set_order(if by_priority { Order::Priority } else { Order::Fifo });
            let mut waiting: List<u16> = List::new();
            let mut holder: Option<u16> = None;
            let mut draining = false;
            for (user, action) in steps {
                match action {
                    0 => {
                        let expected = if holder == Some(user) && !draining || waiting.contains(&user) {
                            Err(LockError::AlreadyHeld)
                        } else if holder.is_none() {
                            holder = Some(user);
                            Ok(Requested::Granted)
                        } else {
                            waiting.push(user);
                            Ok(Requested::Queued { holder: if draining { None } else { holder } })
                        };
                        prop_assert_eq!(lock.request(user), expected);
                    }
                    1 | 2 => {
                        let idle = action == 1;
                        let owned = holder == Some(user) && !draining;
                        prop_assert_eq!(lock.release(user, idle).is_ok(), owned);
                        if owned {
                            draining = !idle;
                            if idle { holder = None }
                        }
                    }
                    3 => {
                        prop_assert_eq!(lock.withdraw(user), waiting.contains(&user));
                        waiting.retain(|waiter| *waiter != user);
                    }
                    _ => {
                        prop_assert_eq!(lock.drained().is_some(), draining);
                        if draining { holder = None; draining = false }
                    }
                }
                if holder.is_none() {
                    let expected = if by_priority {
                        let earliest = waiting.iter().map(|user| keys[usize::from(*user)]).min();
                        waiting.iter().copied().find(|user| Some(keys[usize::from(*user)]) == earliest)
                    } else {
                        waiting.first().copied()
                    };
                    prop_assert_eq!(lock.grant_next(|user| keys[usize::from(user)]), expected);
                    if let Some(user) = expected {
                        waiting.retain(|waiter| *waiter != user);
                        holder = Some(user);
                    }
                }
                prop_assert_eq!(lock.waiters(), &waiting[..]);
            }
        }
    }
}
