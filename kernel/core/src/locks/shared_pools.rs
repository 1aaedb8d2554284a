//! Pools that clusters share: donation at release.
//!
//! A priority has no meaning in another cluster, so inheritance does not help a holder there. In each cluster with tasks
//! that share such a pool, `locking::ck_omlp` records the jobs that are released and not complete. The highest of these
//! jobs, as many as CPUs, have the CPUs by right. A job that would push one with a request from them *donates*: it is
//! suspended, and the other runs on its reservation, until it has no request any more. So holders always run, and waiters
//! do not lend.
//!
//! Tokens are granted to jobs by arrival, across all clusters. A job gives back at its end all that it still
//! holds.
//!
//! # Invariants
//!
//! 1. A thread that is `Donating`, or awaits its turn and lends, waits for the donee that the record of its cluster names.
//! 2. A thread of such a cluster is in the record while it has a job that has budget or a request.
//!
//! # Limits of the rule
//!
//! - A job that waits for a server, an event or an instant when its turn to donate comes goes on waiting: it donates when
//!   it is ready and asks for a token itself. Bounds hold for jobs that wait for tokens and engines alone.
//! - A job without budget takes no part: it is out of the record, or behind all others there if it has a request. So
//!   another comes into the top, and donates.
//! - A donation that would close a cycle of waiting, or make a chain too long, is not made.
//!
//! A job may have to donate while it executes on a CPU that has not taken its kick yet. If the job makes a call meanwhile, the
//! call is made again when it goes on (`slow_trap`).
//!
//! Source: Brandenburg, Anderson 2013; Elliott 2015, section 2.1.7.3; the rules are in `locking::ck_omlp`.

use fusee_sched::time::Instant;

use crate::Kernel;
use crate::donation::node_index;
use crate::id::{ClusterId, PoolId, ThreadId};
use crate::limits::CLUSTERS;
use crate::object::State;

impl Kernel {
    /// Whether clusters share `pool`.
    pub(crate) fn is_shared(&self, pool: PoolId) -> bool {
        CLUSTERS > 1 && self.shared & 1 << pool.index() != 0
    }

    /// The record of pending jobs that `thread` has a place in.
    pub(crate) fn record(&self, thread: ThreadId) -> Option<ClusterId> {
        let thread = &self.threads[thread];
        if CLUSTERS > 1 && thread.jobs_are_recorded() { thread.cluster() } else { None }
    }

    /// A job of `thread`, which has budget, is pending from here on.
    #[cold]
    pub(crate) fn job_begins(&mut self, thread: ThreadId) {
        let (Some(cluster), Some(reservation)) = (self.record(thread), self.threads[thread].own()) else { return };
        let key = self.reservations[reservation].key();
        // There is a place for each task of the cluster.
        let released = self.pending_jobs[cluster].release(node_index(thread), key);
        if let Ok(moved) = released {
            self.donors_moved(cluster, &moved);
        }
    }

    /// The job of `thread` is complete.
    #[cold]
    pub(crate) fn job_ends(&mut self, thread: ThreadId) {
        let Some(cluster) = self.record(thread) else { return };
        let moved = self.pending_jobs[cluster].complete(node_index(thread));
        if matches!(self.threads[thread].state(), State::Donating | State::AwaitingTurn { .. }) {
            self.end_donation(thread);
        }
        self.donors_moved(cluster, &moved);
    }

    /// The job of `thread`, if one is pending, has another base key. Without budget and requests it is pending no longer.
    #[cold]
    pub(crate) fn job_key_changes(&mut self, thread: ThreadId) {
        let Some(cluster) = self.record(thread) else { return };
        let mut jobs = self.pending_jobs[cluster].pending().iter();
        let asks = jobs.any(|job| job.user == node_index(thread) && job.requests != 0);
        if !asks && self.is_dry(thread) {
            self.job_ends(thread);
            return;
        }
        let key = self.base_key(thread);
        let moved = self.pending_jobs[cluster].change_key(node_index(thread), key);
        self.donors_moved(cluster, &moved);
    }

    fn is_dry(&self, thread: ThreadId) -> bool {
        self.threads[thread].own().is_some_and(|own| self.reservations[own].is_throttled())
    }

    /// A request of `thread` is complete, or withdrawn.
    #[cold]
    pub(crate) fn request_ends(&mut self, thread: ThreadId) {
        let Some(cluster) = self.record(thread) else { return };
        let moved = self.pending_jobs[cluster].complete_request(node_index(thread));
        self.donors_moved(cluster, &moved);
        if self.is_dry(thread) {
            self.job_key_changes(thread);
        }
    }

    /// Whether the job of `thread` may ask for a token now.
    pub(crate) fn may_request(&self, thread: ThreadId) -> bool {
        self.record(thread).is_some_and(|cluster| self.pending_jobs[cluster].may_request(node_index(thread)))
    }

    /// The thread that `thread` donates to by the record.
    pub(crate) fn release_donee(&self, thread: ThreadId) -> Option<ThreadId> {
        let donee = self.pending_jobs[self.record(thread)?].donee(node_index(thread))?;
        ThreadId::new(usize::from(donee))
    }

    /// Follows each operation on the record of `cluster`: donors with a new donee let go of the old one, and suspend for the
    /// new one; and jobs in the top that could not ask before may ask.
    #[inline(never)]
    fn donors_moved(&mut self, cluster: ClusterId, moved: &[u16]) {
        for thread in moved.iter().filter_map(|one| ThreadId::new(usize::from(*one))) {
            let state = self.threads[thread].state();
            if !matches!(state, State::Ready | State::Donating | State::AwaitingTurn { .. }) {
                continue;
            }
            if state != State::Ready {
                self.remove_donor(thread);
            }
            let donee = self.release_donee(thread).filter(|target| self.may_wait_for(thread, *target).is_ok());
            match state {
                State::Ready if donee.is_none() => {}
                State::Ready => self.block(thread, State::Donating, donee),
                State::Donating if donee.is_none() => self.resume(thread),
                _ => self.block(thread, state, donee),
            }
        }
        let mut called: heapless::Vec<ThreadId, { crate::limits::CPUS }> = heapless::Vec::new();
        for job in self.pending_jobs[cluster].top() {
            if job.donee.is_none()
                && let Some(thread) = ThreadId::new(usize::from(job.user))
                && matches!(self.threads[thread].state(), State::AwaitingTurn { due: false, .. })
            {
                let pushed = called.push(thread);
                debug_assert!(pushed.is_ok(), "the top has as many places as CPUs");
            }
        }
        for thread in called {
            if let State::AwaitingTurn { user, .. } = self.threads[thread].state() {
                self.block(thread, State::AwaitingTurn { user, due: true }, None);
            }
            // The operation that moved the thread has no place for another.
            self.plan_timeout(thread, Instant::ZERO);
        }
    }

    /// `thread` lends no longer, and goes on if it waits for nothing else.
    fn end_donation(&mut self, thread: ThreadId) {
        if self.threads[thread].state() == State::Donating {
            self.resume(thread);
        } else {
            self.remove_donor(thread);
        }
    }
}
