//! Dynamic group locks: all the locks that a job needs, asked for in one step.
//!
//! A copy from one accelerator to another needs a copy engine of both. A job that takes one and then waits for the other can
//! wait for a job that does it the other way round. Here a request names a set of locks, and comes into all their
//! queues at once.
//!
//! # The rules
//!
//! 1. The order is the same in all queues: by arrival, or by priority; of equal priorities, by arrival.
//! 2. A request is granted when all its locks are free and no request is ahead of it in any of their queues: all or
//!    nothing. So a holder never waits for another lock, in either order, and there is no deadlock.
//! 3. A request that waits lends its priority to one holder at a time. Behind requests that wait themselves, it lends to
//!    the holder to which they lend. A holder of several of its locks is one holder.
//!
//! With FIFO queues a request could be given locks one by one. The request could not use them earlier, and the requests
//! behind it would not have them earlier; only the holder for which each of them waits would be another.
//!
//! # Invariants
//!
//! 1. No lock has two holders.
//! 2. If a request waits, a request holds a lock, or a lock is draining.
//! 3. Chains have one link: the request that another waits for is granted.
//!
//! A lock that is released while its last operation runs is *draining*, as in [`crate::engine`], whose lock is a
//! group of one.
//!
//! Not here: suspending and waking, effective priorities (`propagation`). Sources: Ward, Anderson 2013; Elliott 2015,
//! section 2.1.6.2.

use heapless::Vec;

use crate::engine::{LockError, Order};

/// A set of locks, out of at most 32.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct LockSet(u32);

impl LockSet {
    /// No lock.
    pub const EMPTY: LockSet = LockSet(0);

    /// This set and the lock with number `lock`, which is below 32.
    #[must_use]
    pub const fn with(self, lock: u8) -> LockSet {
        LockSet(self.0 | 1 << (lock % 32))
    }

    /// The locks in this set or in `other`.
    #[must_use]
    pub const fn or(self, other: LockSet) -> LockSet {
        LockSet(self.0 | other.0)
    }

    /// The locks in this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: LockSet) -> LockSet {
        LockSet(self.0 & !other.0)
    }

    /// Whether a lock is in both.
    #[must_use]
    pub const fn overlaps(self, other: LockSet) -> bool {
        self.0 & other.0 != 0
    }

    /// The numbers of its locks, the least first.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let lock = rest.trailing_zeros() as u8;
            rest &= rest.wrapping_sub(1);
            (lock < 32).then_some(lock)
        })
    }

    /// The first lock that is in both sets.
    #[must_use]
    pub const fn first_of_both(self, other: LockSet) -> Option<u8> {
        let both = self.0 & other.0;
        if both == 0 { None } else { Some(both.trailing_zeros() as u8) }
    }
}

/// The obstacle of a request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Waits {
    /// The request is granted, and does not wait.
    Not,
    /// The request waits until this user releases its locks.
    For(u16),
    /// The request waits until this lock has drained.
    ForDrain(u8),
}

/// A request that is not complete. Users are numbers of the caller's choice.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Request<Key> {
    /// User that made the request.
    pub user: u16,
    /// Key that orders the requests. The smaller key is the higher priority.
    pub key: Key,
    /// Locks that the request needs.
    pub locks: LockSet,
    /// Obstacle for which the request waits.
    pub waits: Waits,
}

/// Changes made by an operation, a bit for each request. Until the next operation, [`GroupLock::granted`] and
/// [`GroupLock::moved`] return their users.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Change {
    granted: u32,
    moved: u32,
}

impl Change {
    /// Whether a request was granted by the operation.
    #[must_use]
    pub const fn grants(&self) -> bool {
        self.granted != 0
    }

    /// Whether a waiter has another obstacle than before.
    #[must_use]
    pub const fn moves_waiters(&self) -> bool {
        self.moved != self.granted
    }
}

/// The locks, their holders and their waiters. `N` bounds the incomplete requests.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct GroupLock<Key, const N: usize> {
    order: Order,
    draining: LockSet,
    /// Requests, in the order of all queues. Holders are ahead of all waiters, wherever they stand in this list.
    requests: Vec<Request<Key>, N>,
}

impl<Key, const N: usize> GroupLock<Key, N> {
    /// Free locks, by arrival.
    pub const EMPTY: Self = const {
        assert!(N <= u32::BITS as usize, "a request is a bit of a change");
        Self { order: Order::Fifo, draining: LockSet::EMPTY, requests: Vec::new() }
    };
}

impl<Key: Copy + Ord, const N: usize> GroupLock<Key, N> {
    /// Sets the order. Only while there are no requests.
    pub fn set_order(&mut self, order: Order) {
        debug_assert!(self.requests.is_empty());
        self.order = order;
    }

    /// The incomplete requests.
    #[must_use]
    pub fn requests(&self) -> &[Request<Key>] {
        &self.requests
    }

    /// The incomplete request of `user`, granted or waiting. `None`: it has no request.
    #[must_use]
    pub fn request_of(&self, user: u16) -> Option<&Request<Key>> {
        self.requests.iter().find(|request| request.user == user)
    }

    /// Users that hold their locks since the last operation, which made `change`.
    pub fn granted(&self, change: Change) -> impl Iterator<Item = u16> {
        self.users(change.granted)
    }

    /// Users whose request has another obstacle than before the last operation, which made `change`; granted requests are
    /// among them.
    pub fn moved(&self, change: Change) -> impl Iterator<Item = u16> {
        self.users(change.moved)
    }

    fn users(&self, bits: u32) -> impl Iterator<Item = u16> {
        let is_it = move |(index, _): &(usize, &Request<Key>)| bits & 1 << index != 0;
        self.requests.iter().enumerate().filter(is_it).map(|(_, request)| request.user)
    }

    /// The locks without a holder that still have an operation under way.
    #[must_use]
    pub const fn draining(&self) -> LockSet {
        self.draining
    }

    /// `user` asks for all of `locks`.
    ///
    /// # Errors
    /// [`LockError::AlreadyHeld`] if it has a request already; [`LockError::Full`].
    pub fn request(&mut self, user: u16, key: Key, locks: LockSet) -> Result<Change, LockError> {
        if self.request_of(user).is_some() {
            return Err(LockError::AlreadyHeld);
        }
        // Any obstacle of this request is a change, and so is having none: then the request is granted.
        self.insert(Request { user, key, locks, waits: Waits::For(user) })?;
        Ok(self.grant())
    }

    /// `user` gives its locks back; of those in `busy` the last operation has not ended.
    ///
    /// # Errors
    /// [`LockError::NotHeld`].
    pub fn release(&mut self, user: u16, busy: LockSet) -> Result<Change, LockError> {
        let is_held = |request: &Request<Key>| request.user == user && request.waits == Waits::Not;
        let index = self.requests.iter().position(is_held).ok_or(LockError::NotHeld)?;
        let LockSet(locks) = self.requests.remove(index).locks;
        self.draining = self.draining.or(LockSet(locks & busy.0));
        Ok(self.grant())
    }

    /// The last operation of `lock` has ended.
    pub fn drained(&mut self, lock: u8) -> Change {
        self.draining = self.draining.without(LockSet::EMPTY.with(lock));
        self.grant()
    }

    /// A thread that is none of the users has released `lock`, which no request names, and its last operation has not ended.
    pub fn drain(&mut self, lock: u8) {
        self.draining = self.draining.or(LockSet::EMPTY.with(lock));
    }

    /// Whether a request names `lock`, granted or not, or it drains.
    #[must_use]
    pub fn is_wanted(&self, lock: u8) -> bool {
        let of_requests = self.requests.iter().fold(self.draining, |all, request| all.or(request.locks));
        of_requests.overlaps(LockSet::EMPTY.with(lock))
    }

    /// `user` stops waiting. `None`: it did not wait.
    pub fn withdraw(&mut self, user: u16) -> Option<Change> {
        let waits = |request: &Request<Key>| request.user == user && request.waits != Waits::Not;
        let index = self.requests.iter().position(waits)?;
        self.requests.remove(index);
        Some(self.grant())
    }

    /// The request of `user`, if there is one, is ordered by `key` from here on; if it waits by priority it may go
    /// ahead of others, or fall behind.
    pub fn change_key(&mut self, user: u16, key: Key) -> Option<Change> {
        let index = self.requests.iter().position(|request| request.user == user)?;
        if self.order == Order::Fifo {
            self.requests[index].key = key;
        } else {
            let request = self.requests.remove(index);
            // There is a place: it was just left.
            let _ = self.insert(Request { key, ..request });
        }
        Some(self.grant())
    }

    /// Whether `user`, which holds its locks, should release them between two operations. By arrival, the holder should if a
    /// request waits for one of them; by priority, if a request with an earlier key does. See
    /// [`crate::engine::EngineLock::should_yield`].
    #[must_use]
    pub fn should_yield(&self, user: u16) -> bool {
        let Some(held) = self.request_of(user) else { return false };
        self.requests.iter().any(|other| {
            let comes_first = self.order == Order::Fifo || other.key < held.key;
            other.waits != Waits::Not && other.locks.overlaps(held.locks) && comes_first
        })
    }

    fn insert(&mut self, request: Request<Key>) -> Result<(), LockError> {
        let later = self.requests.iter().position(|other| self.order == Order::Priority && other.key > request.key);
        self.requests.insert(later.unwrap_or(self.requests.len()), request).map_err(|_| LockError::Full)
    }

    /// Rules 2 and 3.
    fn grant(&mut self) -> Change {
        let mut change = Change::default();
        let is_granted = |request: &Request<Key>| request.waits == Waits::Not;
        let held = self.requests.iter().filter(|request| is_granted(request));
        let mut taken = held.fold(self.draining, |taken, request| taken.or(request.locks));
        for index in 0..self.requests.len() {
            let request = self.requests[index];
            if is_granted(&request) {
                continue;
            }
            let waits = if request.locks.overlaps(taken) { self.obstacle(index) } else { Waits::Not };
            taken = taken.or(request.locks);
            if waits == Waits::Not {
                change.granted |= 1 << index;
            }
            if waits != request.waits {
                self.requests[index].waits = waits;
                change.moved |= 1 << index;
            }
        }
        change
    }

    /// The obstacle of a request that cannot be granted. The requests ahead of it have their obstacles already.
    fn obstacle(&self, index: usize) -> Waits {
        let locks = self.requests[index].locks;
        let overlapping = |request: &&Request<Key>| request.locks.overlaps(locks);
        let mut holders = self.requests.iter().filter(overlapping).filter(|request| request.waits == Waits::Not);
        if let Some(holder) = holders.next() {
            return Waits::For(holder.user);
        }
        if let Some(lock) = locks.first_of_both(self.draining) {
            return Waits::ForDrain(lock);
        }
        self.requests[..index].iter().find(overlapping).map_or(Waits::Not, |ahead| ahead.waits)
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
