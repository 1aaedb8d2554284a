//! The donor set: on whose reservation a thread runs.
//!
//! A thread's donors are the threads suspended on it: callers being served or queued, waiters for an engine
//! it holds, waiters for an event it will signal. The rule by which it chooses one reservation, its own or one that a
//! donor lends, is `locking::propagation`; key and charge come from the same one. A thread that runs never donates.
//!
//! Here the rule meets threads and reservations: the thread at the end of a chain, if it is ready, becomes the runner
//! of what it has chosen.
//!
//! # Invariants
//!
//! 1. What a ready or donating thread has chosen is what the rule says.
//! 2. A reservation's runner is the ready thread at the end of the chain that chose it, if there is one.

use fusee_abi::Error;
use fusee_locking::propagation::{self, Graph, Node, Refusal, Touched};
use fusee_sched::key::{Class, Key, Tie};
use fusee_sched::time::Instant;

use crate::Kernel;
use crate::id::{ReservationId, ThreadId};
use crate::object::State;

impl Graph for Kernel {
    type Key = Key;

    #[inline]
    fn node(&self, thread: u16) -> &Node<Key> {
        &self.threads.at(thread).waits
    }

    #[inline]
    fn node_mut(&mut self, thread: u16) -> &mut Node<Key> {
        &mut self.threads.at_mut(thread).waits
    }

    #[inline]
    fn own(&self, thread: u16) -> Option<u16> {
        let home = self.threads.at(thread).home?;
        (!self.reservations[home].throttled).then_some(home.index() as u16)
    }

    #[inline]
    fn key(&self, reservation: u16) -> Key {
        self.reservations.at(reservation).key
    }

    #[inline]
    fn cluster(&self, reservation: u16) -> u8 {
        self.reservations.at(reservation).cluster.map_or(0, |cluster| cluster.index() as u8)
    }
}

/// The number of a thread in the graph.
#[inline]
pub(crate) fn number(thread: ThreadId) -> u16 {
    thread.index() as u16
}

impl Kernel {
    /// Re-evaluates the rule for `start` and everybody it donates to, and sets runners accordingly.
    ///
    /// Works upward and downward alike: keys and budgets may have come or gone.
    pub(crate) fn settle(&mut self, start: ThreadId) {
        let node = &self.threads[start].waits;
        if node.is_alone() && node.waits_for().is_none() {
            self.settle_alone(start);
        } else {
            self.settle_chain(start);
        }
    }

    /// The rule for a thread that nobody waits for and that waits for nobody: its own reservation, if that has
    /// budget. Nobody else runs on it.
    fn settle_alone(&mut self, thread: ThreadId) {
        let state = &self.threads[thread];
        let (before, ready) = (state.chosen(), state.state == State::Ready);
        let own = state.home.filter(|reservation| !self.reservations[*reservation].throttled);
        if before != own {
            self.threads[thread].waits.choose_own(own.map(|own| own.index() as u16));
        }
        if let Some(reservation) = before
            && before != own
            && self.reservations[reservation].runner == Some(thread)
        {
            self.set_runner(reservation, None);
        }
        if let Some(reservation) = own {
            self.set_runner(reservation, ready.then_some(thread));
            if self.reservations[reservation].boosted {
                self.set_boosted(reservation, false);
            }
        }
    }

    fn settle_chain(&mut self, start: ThreadId) {
        let mut touched = Touched::new();
        let end = propagation::settle(self, number(start), &mut touched);
        let Some(thread) = ThreadId::new(usize::from(end)) else { return };
        let end = &self.threads[thread];
        let chosen = if end.state == State::Ready { end.chosen() } else { None };
        // Keys are compared within a cluster: whom a thread keeps waiting from another, it serves above all keys of its
        // own, for as long as a service may take.
        let boosted = self.threads[thread].waits.is_urgent() && self.may_be_boosted(thread);
        for reservation in touched.iter().filter_map(|number| ReservationId::new(usize::from(*number))) {
            if Some(reservation) == chosen {
                self.set_runner(reservation, Some(thread));
                if self.reservations[reservation].boosted != boosted {
                    self.set_boosted(reservation, boosted);
                }
            } else if self.reservations[reservation]
                .runner
                .is_some_and(|runner| self.carries(runner) != Some(reservation))
            {
                self.set_runner(reservation, None);
            }
        }
    }

    /// Whether `thread` may be boosted now: its boost is an account, of `service_max` in each `service_period`. It begins a chunk when
    /// a boost does.
    #[cold]
    fn may_be_boosted(&mut self, thread: ThreadId) -> bool {
        let is_boosted = self.threads[thread].chosen().is_some_and(|chosen| self.reservations[chosen].boosted);
        let now = self.now;
        let boost = &mut self.threads[thread].boost;
        if !is_boosted {
            boost.resume(now);
        }
        !boost.is_dry()
    }

    /// The reservation that carries `thread`, if it may run.
    fn carries(&self, thread: ThreadId) -> Option<ReservationId> {
        let state = &self.threads[thread];
        if state.state == State::Ready && state.waits.waits_for().is_none() { state.chosen() } else { None }
    }

    /// The key `thread` queues with for a lock or a server. Service and background threads of one class are
    /// equal here, so that they queue by arrival: their turns say who ran last, not who waits longest.
    pub(crate) fn waiting_key(&self, thread: ThreadId) -> Key {
        self.queue_key(self.threads[thread].chosen())
    }

    /// The base key of `thread`: that of its own reservation, as a key to queue with. Without budget it has none: all
    /// others come first.
    pub(crate) fn base_key(&self, thread: ThreadId) -> Key {
        let home = self.threads[thread].home;
        self.queue_key(home.filter(|home| !self.reservations[*home].throttled))
    }

    fn queue_key(&self, reservation: Option<ReservationId>) -> Key {
        let Some(reservation) = reservation else { return Key::at(Instant::NEVER) };
        let key = self.reservations[reservation].key;
        match key.class() {
            Class::RealTime => key,
            class => Key::in_turn(class, 0, Tie::ZERO),
        }
    }

    /// `donor` suspends on `target`. It must be settled afterwards, and everybody up the chain with it.
    pub(crate) fn add_donor(&mut self, target: ThreadId, donor: ThreadId) {
        propagation::wait_for(self, number(donor), number(target));
    }

    /// `donor` no longer donates. The thread it donated to, if any, must be settled.
    pub(crate) fn remove_donor(&mut self, donor: ThreadId) -> Option<ThreadId> {
        propagation::stop_waiting(self, number(donor)).and_then(|target| ThreadId::new(usize::from(target)))
    }

    /// Whether `waiter` may suspend on `target`.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`] if `target` waits for `waiter`, however indirectly; [`Error::ChainTooLong`] if
    /// the chain below or above would exceed the bound.
    pub(crate) fn may_wait_for(&self, waiter: ThreadId, target: ThreadId) -> Result<(), Error> {
        propagation::may_wait_for(self, number(waiter), number(target)).map_err(|refusal| match refusal {
            Refusal::Cycle => Error::WouldDeadlock,
            Refusal::TooLong => Error::ChainTooLong,
        })
    }

    /// Settles `thread` unless it is dead: nothing runs on what the dead would choose, and many may wait for it.
    pub(crate) fn settle_living(&mut self, thread: ThreadId) {
        if self.threads[thread].state != State::Stopped {
            self.settle(thread);
        }
    }
}
