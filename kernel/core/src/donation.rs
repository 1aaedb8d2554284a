//! The donor set: on whose reservation a thread runs.
//!
//! A thread's donors are the threads suspended on it: callers being served or queued, waiters for an engine
//! it holds, waiters for an event it will signal. It runs on exactly one reservation: its own, or that of
//! the donor with the earliest key that still has budget; key and charge come from the same one. A thread
//! that runs never donates. Donors donate on: a chain ends at the thread that is not suspended on anybody.
//!
//! Keys are comparable within a cluster only. Across clusters a donor that is being *served* wins; bounding
//! that boost by `service_max` is the caller's analysis.
//!
//! # Invariants
//!
//! 1. `chosen` of a ready or donating thread is what [`Kernel::best`] says.
//! 2. A reservation's runner is the ready thread at the end of the chain that chose it, if there is one.

use crate::Kernel;
use crate::id::{ReservationId, ThreadId};
use crate::limits::{CHAIN_MAX, THREADS};
use crate::object::State;
use fusee_abi::Error;
use fusee_sched::key::{Class, Key, Tie};
use fusee_sched::time::Instant;

/// Reservations whose runner may change in one evaluation: two per link of the chain.
type Touched = heapless::Vec<ReservationId, { 2 * (CHAIN_MAX + 2) }>;

impl Kernel {
    /// The reservation `thread` runs on, or lends to whom it waits for: the rule itself.
    pub(crate) fn best(&self, thread: ThreadId) -> Option<ReservationId> {
        let own = self.threads[thread].home;
        let mut best = own.filter(|reservation| !self.reservations[*reservation].throttled);
        let mut best_served = false;
        let mut next = self.threads[thread].first_donor;
        for _ in 0..THREADS {
            let Some(donor) = next else { break };
            let state = &self.threads[donor];
            next = state.next_donor;
            let Some(candidate) = state.chosen else { continue };
            let served = matches!(state.state, State::AwaitingReply { .. });
            let better = match best {
                None => true,
                Some(current) => {
                    let (current, candidate) = (&self.reservations[current], &self.reservations[candidate]);
                    if current.cluster == candidate.cluster {
                        candidate.key < current.key
                    } else {
                        served && !best_served || best == own
                    }
                }
            };
            if better {
                best = Some(candidate);
                best_served = served;
            }
        }
        best
    }

    /// Re-evaluates the rule for `start` and everybody it donates to, and sets runners accordingly.
    ///
    /// Works upward and downward alike: keys and budgets may have come or gone.
    pub(crate) fn settle(&mut self, start: ThreadId) {
        let state = &self.threads[start];
        if state.first_donor.is_none() && state.donates_to.is_none() {
            self.settle_alone(start);
        } else {
            self.settle_chain(start);
        }
    }

    /// The rule for a thread that nobody waits for and that waits for nobody: its own reservation, if that has
    /// budget. Nobody else runs on it.
    fn settle_alone(&mut self, thread: ThreadId) {
        let state = &self.threads[thread];
        let (before, ready) = (state.chosen, state.state == State::Ready);
        let own = state.home.filter(|reservation| !self.reservations[*reservation].throttled);
        self.threads[thread].chosen = own;
        if let Some(reservation) = before
            && before != own
            && self.reservations[reservation].runner == Some(thread)
        {
            self.set_runner(reservation, None);
        }
        if let Some(reservation) = own {
            self.set_runner(reservation, ready.then_some(thread));
        }
    }

    fn settle_chain(&mut self, start: ThreadId) {
        let mut touched = Touched::new();
        let mut thread = start;
        for _ in 0..=CHAIN_MAX {
            let best = self.best(thread);
            let before = core::mem::replace(&mut self.threads[thread].chosen, best);
            for reservation in [before, best].into_iter().flatten() {
                if !touched.contains(&reservation) {
                    // Two per link always fit: the chain is no longer than CHAIN_MAX.
                    let _ = touched.push(reservation);
                }
            }
            let Some(next) = self.threads[thread].donates_to else { break };
            thread = next;
        }
        let end = &self.threads[thread];
        let chosen = if end.state == State::Ready { end.chosen } else { None };
        for index in 0..touched.len() {
            let Some(reservation) = touched.get(index).copied() else { break };
            if Some(reservation) == chosen {
                self.set_runner(reservation, Some(thread));
            } else if self.reservations[reservation]
                .runner
                .is_some_and(|runner| self.carries(runner) != Some(reservation))
            {
                self.set_runner(reservation, None);
            }
        }
    }

    /// The reservation that carries `thread`, if it may run.
    fn carries(&self, thread: ThreadId) -> Option<ReservationId> {
        let state = &self.threads[thread];
        if state.state == State::Ready && state.donates_to.is_none() { state.chosen } else { None }
    }

    /// The key `thread` queues with for a lock or a server. Service and background threads of one class are
    /// equal here, so that they queue by arrival: their turns say who ran last, not who waits longest.
    pub(crate) fn waiting_key(&self, thread: ThreadId) -> Key {
        let Some(reservation) = self.threads[thread].chosen else { return Key::at(Instant::NEVER) };
        let key = self.reservations[reservation].key;
        match key.class() {
            Class::RealTime => key,
            class => Key::in_turn(class, 0, Tie::ZERO),
        }
    }

    /// `donor` suspends on `target`.
    pub(crate) fn add_donor(&mut self, target: ThreadId, donor: ThreadId) {
        let first = self.threads[target].first_donor.replace(donor);
        let state = &mut self.threads[donor];
        state.donates_to = Some(target);
        state.next_donor = first;
        state.previous_donor = None;
        if let Some(first) = first {
            self.threads[first].previous_donor = Some(donor);
        }
    }

    /// `donor` no longer donates. The thread it donated to, if any, must be settled.
    pub(crate) fn remove_donor(&mut self, donor: ThreadId) -> Option<ThreadId> {
        let state = &mut self.threads[donor];
        let target = state.donates_to.take()?;
        let (previous, next) = (state.previous_donor.take(), state.next_donor.take());
        match previous {
            Some(previous) => self.threads[previous].next_donor = next,
            None => self.threads[target].first_donor = next,
        }
        if let Some(next) = next {
            self.threads[next].previous_donor = previous;
        }
        Some(target)
    }

    /// Whether `waiter` may suspend on `target`.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`] if `target` waits for `waiter`, however indirectly; [`Error::ChainTooLong`] if
    /// the chain below or above would exceed the bound.
    pub(crate) fn may_wait_for(&self, waiter: ThreadId, target: ThreadId) -> Result<(), Error> {
        let mut length = self.donor_depth(waiter);
        let mut thread = Some(target);
        while let Some(link) = thread {
            if link == waiter {
                return Err(Error::WouldDeadlock);
            }
            length += 1;
            if length >= CHAIN_MAX {
                return Err(Error::ChainTooLong);
            }
            thread = self.threads[link].donates_to;
        }
        Ok(())
    }

    /// Longest chain of donors that ends at `thread`, up to the bound. A walk over the donor tree, which has
    /// each thread at most once.
    fn donor_depth(&self, thread: ThreadId) -> usize {
        let mut deepest = 0;
        let mut depth = 0;
        let mut at = thread;
        for _ in 0..2 * THREADS {
            if let Some(down) = self.threads[at].first_donor {
                depth += 1;
                deepest = deepest.max(depth);
                at = down;
                continue;
            }
            loop {
                if at == thread {
                    return deepest;
                }
                if let Some(beside) = self.threads[at].next_donor {
                    at = beside;
                    break;
                }
                let Some(up) = self.threads[at].donates_to else { return deepest };
                depth -= 1;
                at = up;
            }
        }
        deepest
    }
}
