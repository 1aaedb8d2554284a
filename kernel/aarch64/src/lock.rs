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

/// A FIFO lock around `T`. The tickets come first, so that one base address serves them and the value.
#[repr(C, align(64))]
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

    /// Takes a ticket; with it the lock, if that was free. No look at the clock.
    #[inline(always)]
    pub fn queue(&self) -> Result<Guard<'_, T>, Ticket<'_, T>> {
        // Relaxed: the ticket is only a number; `serving` carries the order.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket { lock: self, number };
        // Acquire: pairs with the release in `Guard::drop` of the ticket before ours.
        if self.serving.load(Ordering::Acquire) == number { Ok(Guard(ticket)) } else { Err(ticket) }
    }

    /// Takes the lock. The second result is how long that took: zero if the lock was free.
    #[inline(always)]
    pub fn lock(&self) -> (Guard<'_, T>, Nanoseconds) {
        match self.queue() {
            Ok(guard) => (guard, Nanoseconds::ZERO),
            Err(ticket) => ticket.wait(),
        }
    }
}

/// A place in the queue for the lock. Whoever drops it stops the queue for ever.
#[must_use]
pub struct Ticket<'a, T> {
    lock: &'a TicketLock<T>,
    number: u32,
}

impl<'a, T> Ticket<'a, T> {
    /// Waits for the lock, and tells how long that took.
    #[cold]
    pub fn wait(self) -> (Guard<'a, T>, Nanoseconds) {
        let start = clock::now();
        // Acquire: as in `queue`.
        while self.lock.serving.load(Ordering::Acquire) != self.number {
            fusee_bsp::relax();
        }
        (Guard(self), clock::now().since(start))
    }
}

/// The right to use the value; dropping it serves the next ticket.
pub struct Guard<'a, T>(Ticket<'a, T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: `serving` equals our ticket until we are dropped, and tickets are unique among waiters
        // (fewer than 2^32 CPUs): nobody else has a guard.
        unsafe { &*self.0.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; and `&mut self` makes this the only reference.
        unsafe { &mut *self.0.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: pairs with the acquire in `queue` or `wait` of the next ticket.
        self.0.lock.serving.store(self.0.number.wrapping_add(1), Ordering::Release);
    }
}
