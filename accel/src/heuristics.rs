//! Advice to a pool of tokens, so that tasks stay near their data and queues end early.
//!
//! | | When | Chosen is |
//! |---|---|---|
//! | H1 | a task that never held a token joins an FQ | one of the GPU with the fewest active users; of those, by H2 |
//! | H2 | any other joins an FQ | the one in which it will have ended first, the cost of moving there included |
//! | H3 | a task must donate | the donee nearest to the GPU it last used; of those, the first to end |
//! | H4 | a token is free, and requests wait for others | the one that gains most of those that would end earlier, or none |
//!
//! Advice chooses among the choices that the rules of the pool allow, and the pool takes nothing else, so no bound depends on it;
//! with one exception: that of the k-FMLP holds for the shortest queue only ([`fusee_locking::pool`]).
//!
//! They are one [plugin](crate::plugin) of a pool. Of its notifications they need three:
//!
//! | Text, table 3.1 | Here |
//! |---|---|
//! | `advise_enqueue`, `advise_donee_selection`, `advise_steal` | [`Advice::queue`], [`Advice::donee`], [`Advice::steal`] |
//! | `notify_acquired`, `notify_freed`, `notify_exit` | [`Heuristics::acquired`], [`Heuristics::freed`], [`Heuristics::exited`] |
//! | `notify_enqueue`, `notify_dequeue` | not needed: advice sees the pool itself, and so keeps no copy of its queues that could differ |
//!
//! The caller reports every grant and every release after the pool has made it. If it forgets one, predictions are worse, and
//! nothing else happens.
//!
//! # Invariants
//!
//! 1. All advice is a move that the rules of the pool allow, if the topology has the replicas of the pool.
//! 2. Each call takes constant time and memory: at most as many predictions as requests and replicas, and as many additions
//!    as pairs of requests.
//!
//! # Corrections of the text, and its open points
//!
//! H4 prints the set from which it picks as those that would *not* gain. Its pick is the request whose critical section shortens
//! most, which may be a request that was about to get its token anyway; [`Gain::Completion`] is the alternative. An active user of
//! a GPU is one that holds a token of it, or did so last; we count those that wait for their first token where they wait, or many
//! first requests at once would all choose the same GPU. Ties that the text leaves open go to the FQ of the nearest GPU, of these
//! to that with fewer requests, then to that of the lower number; to the request of higher priority. So a task that gains nothing
//! by a move stays.
//!
//! Source: Elliott 2015, sections 3.2.3.2 and 3.2.3.3.

use core::cmp::Reverse;

use fusee_locking::pool::{Advice, Place, Pool, Request, Steal};
use fusee_sched::time::Nanoseconds;

use crate::predictor::History;
use crate::topology::{Distance, Topology};

/// The quantity that H4 makes large.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Gain {
    /// The time by which the critical section becomes shorter: the text's choice. It may be less than nothing.
    #[default]
    CriticalSection,
    /// The time by which it ends earlier.
    Completion,
}

/// The records of one user of the pool.
#[derive(Clone, Copy, Debug)]
struct User {
    /// The GPU of the token it has, or had last.
    gpu: Option<u8>,
    /// Whether it has a token,
    holds: bool,
    /// and how far it moved to that.
    moved: Distance,
    history: History,
}

impl User {
    // All zero bytes, so that a kernel's heuristics need no place in its image.
    const NEW: Self = Self { gpu: None, holds: false, moved: Distance::Same, history: History::EMPTY };
}

/// The heuristics of one pool, of `G` GPUs and `U` users at most. The numbers of users are below `U`; to others the
/// pool's own rules apply, and their holds are taken to be as long as provisioned.
#[derive(Clone, Debug)]
pub struct Heuristics<const G: usize, const U: usize> {
    topology: Topology<G>,
    gain: Gain,
    users: [User; U],
}

//--- Notifications

impl<const G: usize, const U: usize> Heuristics<G, U> {
    /// Heuristics that know of no user yet.
    #[must_use]
    pub const fn new(topology: Topology<G>, gain: Gain) -> Self {
        Self { topology, gain, users: [User::NEW; U] }
    }

    /// The GPUs, of which nothing was known before. In place: with their users, heuristics are large.
    pub(crate) fn topology_mut(&mut self) -> &mut Topology<G> {
        &mut self.topology
    }

    /// `user` holds `replica` from now on.
    pub fn acquired(&mut self, user: u16, replica: u8) {
        let Some(gpu) = self.topology.gpu_of(replica) else { return };
        let Some(user) = self.users.get_mut(usize::from(user)) else { return };
        user.moved = user.gpu.and_then(|last| self.topology.distance(last, gpu)).unwrap_or_default();
        (user.gpu, user.holds) = (Some(gpu), true);
    }

    /// `user` has given its token back. It has used it for `hold`: its execution, and its suspension for its own operations;
    /// neither its preemption nor its waits for engine locks.
    pub fn freed(&mut self, user: u16, hold: Nanoseconds) {
        let Some(user) = self.users.get_mut(usize::from(user)) else { return };
        if core::mem::take(&mut user.holds) {
            user.history.observe(user.moved, hold);
        }
    }

    /// `user` is gone, with all its data, or a new one has its number.
    pub fn exited(&mut self, user: u16) {
        if let Some(user) = self.users.get_mut(usize::from(user)) {
            *user = User::NEW;
        }
    }
}

//--- Knowledge

impl<const G: usize, const U: usize> Heuristics<G, U> {
    /// The GPU of the token that `user` has, or had last.
    #[must_use]
    pub fn last_gpu(&self, user: u16) -> Option<u8> {
        self.users.get(usize::from(user))?.gpu
    }

    /// The time that `request` will hold its token if that is `replica`: the predicted length, or the provisioned one.
    #[must_use]
    pub fn predicted<Key>(&self, request: &Request<Key>, replica: u8) -> Nanoseconds {
        let Some(user) = self.users.get(usize::from(request.user)) else { return request.length };
        let Some(distance) = self.distance_of(user, replica) else { return request.length };
        user.history.predict(distance, request.length)
    }

    /// The distance that `user` moves, or has moved, to `replica`.
    fn distance_of(&self, user: &User, replica: u8) -> Option<Distance> {
        if user.holds { Some(user.moved) } else { self.distance(user.gpu, replica) }
    }

    /// The distance from `gpu` to that of `replica`; no way at all for a user that was nowhere.
    fn distance(&self, gpu: Option<u8>, replica: u8) -> Option<Distance> {
        let to = self.topology.gpu_of(replica)?;
        gpu.map_or(Some(Distance::Same), |from| self.topology.distance(from, to))
    }

    /// The number of tasks that use each GPU, or used it last.
    fn active_users<Key: Copy + Ord, const K: usize, const N: usize>(&self, pool: &Pool<Key, K, N>) -> [u16; G] {
        let last = self.users.iter().filter_map(|user| user.gpu);
        let first = pool.requests().iter().filter_map(|request| match request.place {
            Place::Fifo { replica, .. } if self.last_gpu(request.user).is_none() => self.topology.gpu_of(replica),
            _ => None,
        });
        let mut active = [0; G];
        for gpu in last.chain(first) {
            active[usize::from(gpu)] += 1;
        }
        active
    }

    /// The time from now until each request in an FQ will have ended, by its place among the pool's requests: the predicted lengths
    /// of those ahead, and its own.
    fn completions<Key: Copy + Ord, const K: usize, const N: usize>(&self, pool: &Pool<Key, K, N>) -> [Nanoseconds; N] {
        let mut lengths = [Nanoseconds::ZERO; N];
        for (length, request) in lengths.iter_mut().zip(pool.requests()) {
            if let Place::Fifo { replica, .. } = request.place {
                *length = self.predicted(request, replica);
            }
        }
        let not_behind = |place: Place, other: Place| match (place, other) {
            (Place::Fifo { replica, ahead }, Place::Fifo { replica: of, ahead: before }) => {
                replica == of && before <= ahead
            }
            _ => false,
        };
        let mut completions = [Nanoseconds::ZERO; N];
        for (completion, request) in completions.iter_mut().zip(pool.requests()) {
            let others = pool.requests().iter().zip(&lengths);
            let counted = others.filter(|(other, _)| not_behind(request.place, other.place));
            *completion = counted.fold(Nanoseconds::ZERO, |sum, (_, length)| sum + *length);
        }
        completions
    }
}

//--- Advice

impl<Key: Copy + Ord, const K: usize, const N: usize, const G: usize, const U: usize> Advice<Key, K, N>
    for Heuristics<G, U>
{
    /// H1 and H2.
    fn queue(&self, pool: &Pool<Key, K, N>, user: u16) -> Option<u8> {
        let request = pool.request_of(user)?;
        let gpu = self.users.get(usize::from(user))?.gpu;
        let active = if gpu.is_none() { self.active_users(pool) } else { [0; G] };
        let queues = pool.queues();
        let mut ends = [Nanoseconds::ZERO; K];
        for queued in pool.requests() {
            if let Place::Fifo { replica, .. } = queued.place {
                let end = &mut ends[usize::from(replica)];
                *end += self.predicted(queued, replica);
            }
        }
        let open = (0..pool.rules().replicas).zip(queues.iter().zip(ends));
        let open = open.filter(|(_, (queue, _))| pool.rules().leaves_room(queue));
        let ranked = open.filter_map(|(replica, (queue, end))| {
            let active = active[usize::from(self.topology.gpu_of(replica)?)];
            let distance = self.distance(gpu, replica)?;
            Some(((active, end + self.predicted(request, replica), distance, queue.requests), replica))
        });
        ranked.min().map(|(_, replica)| replica)
    }

    /// H3.
    fn donee(&self, pool: &Pool<Key, K, N>, donor: u16) -> Option<u16> {
        let gpu = self.users.get(usize::from(donor))?.gpu;
        let completions = self.completions(pool);
        let completion = |user: u16| {
            let of = pool.requests().iter().zip(&completions).find(|(request, _)| request.user == user);
            of.map(|(_, completion)| *completion)
        };
        let ranked = pool.donees().filter_map(|request| match request.place {
            Place::Fifo { replica, .. } => {
                Some((self.distance(gpu, replica)?, completion(request.user)?, request.user))
            }
            _ => None,
        });
        ranked.min_by_key(|(distance, completion, _)| (*distance, *completion)).map(|(.., user)| user)
    }

    /// H4.
    fn steal(&self, pool: &Pool<Key, K, N>, replica: u8) -> Steal {
        if self.topology.gpu_of(replica).is_none() {
            return Steal::Highest;
        }
        let saved = |before: Nanoseconds, after: Nanoseconds| i128::from(before.0) - i128::from(after.0);
        let waiting = pool.requests().iter().zip(self.completions(pool)).filter_map(|(request, stays)| {
            let Place::Fifo { replica: own, ahead: 1.. } = request.place else { return None };
            let moves = self.predicted(request, replica);
            let gain = match self.gain {
                Gain::CriticalSection => saved(self.predicted(request, own), moves),
                Gain::Completion => saved(stays, moves),
            };
            (stays > moves).then_some((Reverse(gain), request.key, request.user))
        });
        // Among equal gains and keys the request that came first is first.
        let best = waiting.min_by_key(|(gain, key, _)| (*gain, *key));
        best.map_or(Steal::Nothing, |(.., user)| Steal::From(user))
    }
}

#[cfg(test)]
#[path = "heuristics_tests.rs"]
mod tests;
