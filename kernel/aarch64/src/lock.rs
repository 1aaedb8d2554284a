//! The lock around the kernel: tickets, first come first served.
//!
//! Waiting is bounded by (CPUs - 1) x the longest kernel path, because tickets are served in order. `spin`'s
//! ticket lock does not tell whether a ticket was served at once, and the clock shall be read only if it was
//! not; hence these few lines.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use fusee_sched::time::Nanoseconds;

use crate::clock;

/// A FIFO lock around `T`.
pub struct TicketLock<T> {
    next: AtomicU32,
    serving: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached only through a `Guard`, of which there is one at a time: see `lock`. Handing the
// value from CPU to CPU needs `Send`.
unsafe impl<T: Send> Sync for TicketLock<T> {}

impl<T> TicketLock<T> {
    /// An unlocked value.
    pub const fn new(value: T) -> Self {
        Self { next: AtomicU32::new(0), serving: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Takes the lock. The second result is how long that took: zero, and no look at the clock, if the lock
    /// was free.
    #[inline(always)]
    pub fn lock(&self) -> (Guard<'_, T>, Nanoseconds) {
        // Relaxed: the ticket is only a number; `serving` carries the order.
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        // Acquire: pairs with the release in `Guard::drop` of the ticket before ours.
        let waited = if self.serving.load(Ordering::Acquire) == ticket { Nanoseconds::ZERO } else { self.wait(ticket) };
        (Guard { lock: self, ticket }, waited)
    }

    #[cold]
    fn wait(&self, ticket: u32) -> Nanoseconds {
        let start = clock::now();
        // Acquire: as in `lock`.
        while self.serving.load(Ordering::Acquire) != ticket {
            fusee_bsp::relax();
        }
        clock::now().since(start)
    }
}

/// The right to use the value; dropping it serves the next ticket.
pub struct Guard<'a, T> {
    lock: &'a TicketLock<T>,
    ticket: u32,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: `serving` equals our ticket until we are dropped, and tickets are unique among waiters
        // (fewer than 2^32 CPUs): nobody else has a guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; and `&mut self` makes this the only reference.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: pairs with the acquire in `lock` and `wait` of the next ticket.
        self.lock.serving.store(self.ticket.wrapping_add(1), Ordering::Release);
    }
}
