//! The lock around the kernel: tickets, first come first served.
//!
//! Waiting is bounded by (CPUs - 1) x the longest kernel path, because tickets are served in order. `spin`'s
//! ticket lock does not tell whether a ticket was served at once, and the clock shall be read only if it was
//! not; hence our own.
//!
//! Both counters share one word, the next ticket above the one served: one exclusive load tells whether the
//! lock is free. The holder advances the lower half by a store of that half. Rust's atomics have no accesses
//! of two sizes to one place, so all accesses are in assembly, in this file: every trap pays for them.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use crate::clock;

/// A FIFO lock around `T`. The tickets come first, so that one base address serves them and the value.
#[repr(C, align(64))]
pub struct TicketLock<T> {
    /// Low half: the ticket being served. High half: the next ticket. At most 65535 may wait.
    tickets: UnsafeCell<u32>,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached only through a `Guard`, of which there is one at a time: see `queue`. Handing the
// value from CPU to CPU needs `Send`. `tickets` is accessed by single-copy atomic instructions only.
unsafe impl<T: Send> Sync for TicketLock<T> {}

impl<T> TicketLock<T> {
    /// An unlocked value.
    pub const fn new(value: T) -> Self {
        Self { tickets: UnsafeCell::new(0), value: UnsafeCell::new(value) }
    }

    /// Takes a ticket; with it the lock, if that was free. No look at the clock.
    #[inline(always)]
    pub fn queue(&self) -> Result<Guard<'_, T>, Ticket<'_, T>> {
        let before: u32;
        let difference: u32;
        // SAFETY: `tickets` is an aligned word of a live object, changed only by this file's instructions. The
        // exclusive pair makes each ticket unique; the load acquires the stores that `Guard::drop` released. Without a
        // bound, as the architecture promises progress to such a loop.
        unsafe {
            asm!(
                "2: ldaxr {before:w}, [{tickets}]",
                "add {after:w}, {before:w}, #16, lsl #12",
                "stxr {failed:w}, {after:w}, [{tickets}]",
                "cbnz {failed:w}, 2b",
                "eor {after:w}, {before:w}, {before:w}, ror #16",
                tickets = in(reg) self.tickets.get(),
                before = out(reg) before,
                after = out(reg) difference,
                failed = out(reg) _,
                options(nostack, preserves_flags)
            );
        }
        // The halves are equal exactly if ours, the upper one, is the ticket being served.
        if difference == 0 {
            Ok(Guard { lock: self, number: before })
        } else {
            Err(Ticket { lock: self, number: before >> 16 })
        }
    }

    /// Takes the lock.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        match self.queue() {
            Ok(guard) => guard,
            Err(ticket) => ticket.wait(),
        }
    }

    /// The ticket being served.
    fn serving(&self) -> u32 {
        let serving: u32;
        // SAFETY: the lower half of `tickets` (little endian), read whole; acquires as in `queue`.
        unsafe {
            asm!(
                "ldarh {serving:w}, [{tickets}]",
                tickets = in(reg) self.tickets.get(),
                serving = out(reg) serving,
                options(nostack, preserves_flags)
            );
        }
        serving
    }
}

/// Looks at the lock, some five instructions each, before a waiting CPU naps.
const PATIENCE: u32 = 10_000;

/// A place in the queue for the lock. A dropped place stops the queue for ever.
#[must_use]
pub struct Ticket<'a, T> {
    lock: &'a TicketLock<T>,
    number: u32,
}

impl<'a, T> Ticket<'a, T> {
    /// Waits for the lock, and tells how long that took.
    ///
    /// After [`PATIENCE`] looks, which is more than all other CPUs together can need, some CPU before us is not
    /// running: an emulator has fewer host CPUs than we have CPUs. Then sleep, so that it gets its turn.
    #[cold]
    pub fn wait(self) -> Guard<'a, T> {
        let mut patience = PATIENCE;
        while self.lock.serving() != self.number {
            fusee_bsp::relax();
            patience = patience.saturating_sub(1);
            if patience == 0 {
                clock::nap();
            }
        }
        Guard { lock: self.lock, number: self.number }
    }
}

/// The right to use the value; dropping it serves the next ticket.
pub struct Guard<'a, T> {
    lock: &'a TicketLock<T>,
    /// The ticket, in the low half; the rest means nothing.
    number: u32,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: our ticket is served until we are dropped, and tickets are unique among waiters: no other CPU
        // has a guard.
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
        // SAFETY: the lower half of `tickets`, which only the holder of the lock stores to: us. An exclusive
        // store of the whole word by a CPU that queues meanwhile fails and is tried again. Releases the stores
        // under the lock to the next `queue` or `serving` that sees it.
        unsafe {
            asm!(
                "stlrh {next:w}, [{tickets}]",
                next = in(reg) self.number.wrapping_add(1),
                tickets = in(reg) self.lock.tickets.get(),
                options(nostack, preserves_flags)
            );
        }
    }
}
