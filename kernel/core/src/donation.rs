//! The donor set: the choice of the reservation on which a thread runs.
//!
//! A thread's donors are the threads suspended on it: callers being served or queued, waiters for an engine
//! it holds, waiters for an event it will signal. The rule by which it chooses one reservation, its own or one that a
//! donor lends, is `locking::propagation`; key and charge come from the same one. A thread that runs never donates.
//!
//! Here the rule meets threads and reservations. Any change of an edge, a budget or a key marks the threads that may have
//! to choose anew; `settling` lets them choose, at the end of the trap.

mod inside;
pub(crate) mod keys;
mod withdrawal;

use fusee_abi::Error;
use fusee_locking::propagation::{self, Graph, Node, Refusal};
use fusee_sched::key::{Class, Key, Tie};
use fusee_sched::time::Instant;

use crate::Kernel;
use crate::id::{ReservationId, ThreadId};
use crate::object::State;

impl Graph for Kernel {
    type Thread = ThreadId;
    type Reservation = ReservationId;
    type Key = Key;

    #[inline]
    fn node(&self, thread: ThreadId) -> &Node<ThreadId, ReservationId, Key> {
        self.threads[thread].waits()
    }

    #[inline]
    fn node_mut(&mut self, thread: ThreadId) -> &mut Node<ThreadId, ReservationId, Key> {
        self.threads[thread].waits_mut()
    }

    #[inline]
    fn own(&self, thread: ThreadId) -> Option<ReservationId> {
        self.threads[thread].own().filter(|own| !self.reservations[*own].is_throttled())
    }

    #[inline]
    fn key(&self, reservation: ReservationId) -> Key {
        self.reservations[reservation].key()
    }

    #[inline]
    fn cluster(&self, reservation: ReservationId) -> u8 {
        self.reservations[reservation].cluster().map_or(0, |cluster| cluster.index() as u8)
    }

    #[inline]
    fn touch(&mut self, reservation: ReservationId) {
        self.reservations[reservation].mark(reservation, &mut self.touched);
    }
}

/// The number of a thread as a user of a group, or in the record of pending jobs.
#[inline]
pub(crate) fn node_index(thread: ThreadId) -> u16 {
    thread.index() as u16
}

impl Kernel {
    /// Marks `thread` after a change on which its choice depends, or its permission to run on the chosen reservation.
    #[inline]
    pub(crate) fn unsettle(&mut self, thread: ThreadId) {
        self.threads[thread].mark(thread, &mut self.unsettled);
    }

    /// The key with which `thread` queues for a lock or a server. Service and background threads of one class are
    /// equal here, so that they queue by arrival: their turns show the order in which they ran, not the length of their
    /// waits.
    pub(crate) fn waiting_key(&self, thread: ThreadId) -> Key {
        self.queue_key(self.threads[thread].chosen())
    }

    /// The base key of `thread`: that of its own reservation, as a key to queue with. Without budget it has none: all
    /// others come first.
    pub(crate) fn base_key(&self, thread: ThreadId) -> Key {
        let own = self.threads[thread].own();
        self.queue_key(own.filter(|own| !self.reservations[*own].is_throttled()))
    }

    fn queue_key(&self, reservation: Option<ReservationId>) -> Key {
        let Some(reservation) = reservation else { return Key::at(Instant::NEVER) };
        let key = self.reservations[reservation].key();
        match key.class() {
            Class::RealTime => key,
            class => Key::in_turn(class, 0, Tie::ZERO),
        }
    }

    /// `donor`, which is suspended, donates to `target` from here on.
    pub(crate) fn add_donor(&mut self, target: ThreadId, donor: ThreadId) {
        propagation::wait_for(self, donor, target);
        self.unsettle(target);
    }

    /// `donor` no longer donates.
    pub(crate) fn remove_donor(&mut self, donor: ThreadId) {
        if let Some(target) = propagation::stop_waiting(self, donor)
            && self.threads[target].state() != State::Stopped
        {
            // No thread runs on the choice of a dead one, and many may wait for it.
            self.unsettle(target);
        }
    }

    /// Whether `waiter` may suspend on `target`.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`] if `target` waits for `waiter`, however indirectly; [`Error::ChainTooLong`] if
    /// the chain below or above would exceed the bound.
    pub(crate) fn may_wait_for(&self, waiter: ThreadId, target: ThreadId) -> Result<(), Error> {
        propagation::may_wait_for(self, waiter, target).map_err(|refusal| match refusal {
            Refusal::Cycle => Error::WouldDeadlock,
            Refusal::TooLong => Error::ChainTooLong,
        })
    }
}
