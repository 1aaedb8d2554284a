//! The token lock: k replicas of a resource for the jobs of one cluster, and the graph of their waiting.
//!
//! ```text
//!               FQ1   [holder, waiting, ...]   at most f
//! request  ->   ...                                           -> replica x goes to the head of FQx
//!               FQk   [holder, waiting, ...]   at most f
//!               DQ    donors, each to a request in an FQ
//!               PQ    by priority
//! ```
//!
//! One machine serves three protocols; the bound `f` on the queues selects:
//!
//! | `f` | Protocol |
//! |---|---|
//! | none | k-FMLP: all queues are FIFO |
//! | `ceil(c/k)` or more | R2DGLP: of the requests that find no room the c highest become donors, the others wait by priority |
//! | less | a request that finds no room is admitted strictly by priority; with `f = 1` that is a pure priority lock |
//!
//! A second limit, `t`, may bound the requests in all FQs together; without it they hold `k * f`. A queue *has room* if it is shorter
//! than f, and all FQs together hold fewer than t. With `t >= c` the R2DGLP keeps its bound; with less, admission is by priority.
//!
//! # The rules
//!
//! M is the set of the c incomplete requests with the highest base priorities. The highest has the earliest key; of equal
//! keys, the request that came first.
//!
//! - R1a: a request joins the shortest FQ, if that has room; or the FQ that advice names, if that has room.
//! - R1b: else PQ, if the request is not in M.
//! - R1c: else DQ: it donates to a request in an FQ that is not in M and has no donor. If there is none, or DQ holds c
//!   donors, it takes the place of the lowest donor, if that donor is lower, which then goes to PQ.
//! - R2, R3: the head of FQx holds replica x, all others wait.
//! - R4: the head of FQx inherits from all of FQx, and they from their donors.
//! - R5: into the place that a request leaves comes its donor; else the head of PQ; else the highest donor of others.
//!   If FQx stays empty, a request that waits elsewhere is stolen. With a limit t other replicas may be free, too: so if FQx is
//!   empty, the request that comes joins a queue as by R1a, and advice is asked again.
//! - R6: a request in PQ that comes into M, because others left or keys changed, is treated by R1c.
//!
//! # Where the text is corrected
//!
//! R1a is strict (`|FQ| < f`), since f is the bound of the queue. R1c asks whether a donee is left. R5 steals, which the
//! text relies on but does not state, and prefers donors of others to an empty place. R6 is ours. The text argues that no
//! release brings a request in PQ into M, since a request that leaves M then has no donor; but a donee may come into M
//! and keep its donor. For `f < ceil(c/k)` the text has no donee for some members of M. There the highest donate, and R5
//! admits the highest of all waiters; its donee then passes to the donor of the request that left. The limit t is not in
//! the text; its source is `max_in_fifos` in the published implementation of the author (`r2dglp_lock.c`).
//!
//! # Invariants
//!
//! 1. No FQ is longer than f, all together hold t requests at most, and no request waits in PQ or DQ while an FQ has
//!    room.
//! 2. Every donor has a donee in an FQ, and no two have the same.
//! 3. With `min(k * f, t) >= c` no request in PQ is in M.
//! 4. Unless advice chose otherwise, no replica is free while a request waits in an FQ; nor, without t, while any request
//!    waits.
//!
//! # Why a limit on all queues keeps the bound of the R2DGLP
//!
//! Let t be c at least. If a request of M waits outside the FQs, these hold `min(k * f, t) >= c` requests, of which c - 1
//! are in M at most. So one of them is not in M, and the waiting request may donate to it, or takes the place of a lower
//! donor. A donee has `f - 1` requests ahead at most. When the donee completes, the FQs together hold t - 1 requests, so
//! one of them has room, and the donor joins a queue with `f - 1` others at most. The sum is `2 f - 1` requests as
//! without t, and no request waits while in PQ and in M.
//!
//! # Why keys are kept here
//!
//! PQ and M are orders. A key that changed behind their back would leave them wrong until the next operation;
//! [`Pool::change_key`] is the one door.
//!
//! Each operation walks over the incomplete requests some ten times, and for each of them without a donor over the
//! donors, of which there are no more than CPUs.
//!
//! Not here: suspending and waking, effective priorities (`propagation`: each request waits for one other at most,
//! [`Pool::waits_on`]), predictions. Sources: Ward, Elliott, Anderson 2012; Elliott 2015, sections 2.1.7 and 3.2.3.2.

mod rules;

use fusee_sched::time::Nanoseconds;
use heapless::Vec;

use crate::bits::{BITS, Bits};
use crate::engine::LockError;

pub use rules::{Measure, Rules};

//--- Public types

/// Place of a request in the queues of a pool.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Place {
    /// The request is in the FQ of `replica`, behind `ahead` others. With none ahead it holds the replica.
    Fifo {
        /// The replica.
        replica: u8,
        /// Requests ahead.
        ahead: u16,
    },
    /// The request is in PQ.
    Priority,
    /// The request is in DQ, and donates to the request of `donee`.
    Donor {
        /// User of the request in an FQ to which the donor donates.
        donee: u16,
    },
}

/// A request that is not complete. Users are numbers of the caller's choice.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Request<Key> {
    /// User that made the request.
    pub user: u16,
    /// Base key of the user's job. The smaller key is the higher priority.
    pub key: Key,
    /// Declared length of the critical section.
    pub length: Nanoseconds,
    /// Place of the request in the queues.
    pub place: Place,
    /// The user for which this one waits, as last reported.
    waits_on: Option<u16>,
    holds: bool,
}

/// A replica for a user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grant {
    /// The user that holds it from here on.
    pub user: u16,
    /// The replica that is granted.
    pub replica: u8,
}

/// Changes made by an operation. Until the next operation, [`Pool::moved`] returns the users that wait for another user
/// than before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Change {
    /// The user that was granted a replica. An operation grants one replica at most.
    pub granted: Option<Grant>,
    moved: Bits,
}

impl Change {
    /// Whether each user waits for the user for which it waited before.
    #[must_use]
    pub const fn moves_nobody(&self) -> bool {
        self.moved.is_empty()
    }
}

/// Use of a replica for which no request waits, while requests wait for others.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Steal {
    /// Give the replica to the highest of these requests.
    #[default]
    Highest,
    /// Give the replica to the request of this user; to the highest, if that does not wait in an FQ.
    From(u16),
    /// Leave it free: moving would cost more than waiting.
    Nothing,
}

/// Choices of heuristics where the rules leave one. Advice that the rules forbid is not taken.
pub trait Advice<Key, const K: usize, const N: usize> {
    /// The replica for which `user` should wait (heuristics H1, H2). `None`: the shortest.
    fn queue(&self, pool: &Pool<Key, K, N>, user: u16) -> Option<u8> {
        let _ = (pool, user);
        None
    }

    /// The user that should get the donation of `donor` (H3). `None`: the lowest to which it may donate.
    fn donee(&self, pool: &Pool<Key, K, N>, donor: u16) -> Option<u16> {
        let _ = (pool, donor);
        None
    }

    /// Use of `replica`, which is free (H4).
    fn steal(&self, pool: &Pool<Key, K, N>, replica: u8) -> Steal {
        let _ = (pool, replica);
        Steal::Highest
    }
}

/// No advice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unadvised;

impl<Key, const K: usize, const N: usize> Advice<Key, K, N> for Unadvised {}

/// The given replica, if its queue has room.
#[derive(Clone, Copy, Debug)]
pub struct Preferred(pub u8);

impl<Key, const K: usize, const N: usize> Advice<Key, K, N> for Preferred {
    fn queue(&self, _: &Pool<Key, K, N>, _: u16) -> Option<u8> {
        Some(self.0)
    }
}

/// An FQ.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Queue {
    /// The user that holds the replica.
    pub holder: Option<u16>,
    /// Requests, that of the holder among them.
    pub requests: u16,
    /// The sum of their declared critical sections.
    pub length: Nanoseconds,
}

/// The pool. `K` bounds the replicas, `N` the incomplete requests.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Pool<Key, const K: usize, const N: usize> {
    rules: Rules,
    /// Requests, in the order in which they were issued.
    requests: Vec<Request<Key>, N>,
}

//--- Public functions

impl<Key, const K: usize, const N: usize> Pool<Key, K, N> {
    /// A pool without replicas.
    pub const EMPTY: Self = const {
        assert!(N <= BITS, "a request is a bit of a change");
        let rules = Rules { replicas: 0, cpus: 0, limit: None, total: None, measure: Measure::Requests };
        Self { rules, requests: Vec::new() }
    };
}

impl<Key: Copy + Ord, const K: usize, const N: usize> Pool<Key, K, N> {
    /// Sets the rules. Only while there are no requests. Replicas beyond `K` do not count.
    pub fn set_rules(&mut self, rules: Rules) {
        debug_assert!(self.requests.is_empty() && usize::from(rules.replicas) <= K && rules.capacity() != Some(0));
        self.rules = Rules { replicas: rules.replicas.min(K as u8), ..rules };
    }

    /// The rules.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        self.rules
    }

    /// The incomplete requests, in the order in which they were issued.
    #[must_use]
    pub fn requests(&self) -> &[Request<Key>] {
        &self.requests
    }

    /// The request of `user`.
    #[must_use]
    pub fn request_of(&self, user: u16) -> Option<&Request<Key>> {
        self.requests.iter().find(|request| request.user == user)
    }

    /// The user for which `user` waits now: the holder of its queue, or its donee.
    #[must_use]
    pub fn waits_on(&self, user: u16) -> Option<u16> {
        self.request_of(user).and_then(|request| request.waits_on)
    }

    /// The replica that `user` holds.
    #[must_use]
    pub fn held_by(&self, user: u16) -> Option<u8> {
        match self.request_of(user)?.place {
            Place::Fifo { replica, ahead: 0 } => Some(replica),
            _ => None,
        }
    }

    /// Users whose [`Pool::waits_on`] was changed by the last operation, which returned `change`. To update the graph of waiting,
    /// first remove the old edges of all these users, then add an edge from each to its new target.
    pub fn moved(&self, change: Change) -> impl Iterator<Item = u16> {
        let is_it = move |(index, _): &(usize, &Request<Key>)| change.moved.has(*index);
        self.requests.iter().enumerate().filter(is_it).map(|(_, request)| request.user)
    }

    /// The FQs, by replica.
    #[must_use]
    pub fn queues(&self) -> [Queue; K] {
        let mut queues = [Queue::default(); K];
        self.count(&mut queues);
        queues
    }

    /// Counts requests into the FQs, which are empty so far.
    #[inline(always)]
    fn count(&self, queues: &mut [Queue; K]) {
        for request in &self.requests {
            if let Place::Fifo { replica, ahead } = request.place
                && let Some(queue) = queues.get_mut(usize::from(replica))
            {
                queue.requests += 1;
                queue.length = Nanoseconds(queue.length.0.saturating_add(request.length.0));
                if ahead == 0 {
                    queue.holder = Some(request.user);
                }
            }
        }
    }

    /// Requests that a donor may donate to: those in an FQ that have no donor and are not in M.
    pub fn donees(&self) -> impl Iterator<Item = &Request<Key>> {
        let open = self.without_donor();
        let is_open = move |index: &usize| open.has(*index) && !self.is_among_highest(*index);
        (0..self.requests.len()).filter(is_open).map(|index| &self.requests[index])
    }

    /// Requests a replica for `user`, whose job has the base key `key`, for a critical section of `length`.
    ///
    /// # Errors
    /// [`LockError::AlreadyHeld`] if it has a request already; [`LockError::Full`] if there is no place for another, or
    /// there are no replicas.
    pub fn request(
        &mut self,
        user: u16,
        key: Key,
        length: Nanoseconds,
        advice: &dyn Advice<Key, K, N>,
    ) -> Result<Change, LockError> {
        if self.request_of(user).is_some() {
            return Err(LockError::AlreadyHeld);
        }
        if self.rules.replicas == 0 {
            return Err(LockError::Full);
        }
        let index = self.requests.len();
        let request = Request { user, key, length, place: Place::Priority, waits_on: None, holds: false };
        self.requests.push(request).map_err(|_| LockError::Full)?;
        if index == 0 {
            // All replicas are free, and all queues have room.
            let replica = advice.queue(self, user).filter(|advised| *advised < self.rules.replicas).unwrap_or(0);
            let request = &mut self.requests[index];
            (request.place, request.holds) = (Place::Fifo { replica, ahead: 0 }, true);
            return Ok(Change { granted: Some(Grant { user, replica }), moved: Bits::NONE });
        }
        match self.queue_with_room(user, advice) {
            Some(replica) => self.append(index, replica),
            None => self.admit_donors(advice),
        }
        Ok(self.report())
    }

    /// `user` gives its replica back.
    ///
    /// # Errors
    /// [`LockError::NotHeld`].
    pub fn release(&mut self, user: u16, advice: &dyn Advice<Key, K, N>) -> Result<Change, LockError> {
        match self.requests.iter().position(|request| request.user == user) {
            Some(index) if self.requests[index].holds => Ok(self.remove(index, advice)),
            _ => Err(LockError::NotHeld),
        }
    }

    /// The request of `user`, if there is one, ends wherever it is: by timeout, abort or death.
    pub fn withdraw(&mut self, user: u16, advice: &dyn Advice<Key, K, N>) -> Option<Change> {
        let index = self.requests.iter().position(|request| request.user == user)?;
        Some(self.remove(index, advice))
    }

    /// The job of `user`, if it has a request, has the base key `key` from here on. Queues keep their order, but PQ.
    pub fn change_key(&mut self, user: u16, key: Key, advice: &dyn Advice<Key, K, N>) -> Option<Change> {
        self.requests.iter_mut().find(|request| request.user == user)?.key = key;
        self.admit_donors(advice);
        Some(self.report())
    }
}

//--- The rules

impl<Key: Copy + Ord, const K: usize, const N: usize> Pool<Key, K, N> {
    /// The order of requests: by key, then by arrival.
    fn rank(&self, index: usize) -> (Key, usize) {
        (self.requests[index].key, index)
    }

    fn indices(&self, of: impl Fn(&Place) -> bool) -> impl Iterator<Item = usize> {
        self.requests.iter().enumerate().filter(move |(_, request)| of(&request.place)).map(|(index, _)| index)
    }

    #[inline(never)]
    fn highest(&self, of: fn(&Place) -> bool) -> Option<usize> {
        self.indices(of).min_by_key(|index| self.rank(*index))
    }

    /// Whether a request is in M.
    fn is_among_highest(&self, index: usize) -> bool {
        let rank = self.rank(index);
        let higher = (0..self.requests.len()).filter(|other| self.rank(*other) < rank).count();
        higher < usize::from(self.rules.cpus)
    }

    /// R1a: where a request waits that is in no FQ. Advice is asked only if there is room at all.
    fn queue_with_room(&self, user: u16, advice: &dyn Advice<Key, K, N>) -> Option<u8> {
        if self.rules.total.is_some_and(|total| self.indices(is_fifo).count() >= usize::from(total)) {
            return None;
        }
        let mut queues = [Queue::default(); K];
        self.count(&mut queues);
        let advised = advice.queue(self, user);
        let mut shortest: Option<(u8, (u64, u16))> = None;
        for replica in 0..self.rules.replicas {
            let Some(queue) = queues.get(usize::from(replica)).filter(|queue| self.rules.leaves_room(queue)) else {
                continue;
            };
            if advised == Some(replica) {
                return advised;
            }
            // If two are equally long, the one with fewer requests: critical sections may be declared empty.
            let length = match self.rules.measure {
                Measure::Requests => 0,
                Measure::CriticalSections => queue.length.0,
            };
            let rank = (length, queue.requests);
            if shortest.is_none_or(|(_, least)| rank < least) {
                shortest = Some((replica, rank));
            }
        }
        shortest.map(|(replica, _)| replica)
    }

    /// R1b, R1c and R6: as long as the head of PQ is in M, it becomes a donor, if there is a donee for it.
    fn admit_donors(&mut self, advice: &dyn Advice<Key, K, N>) {
        // An operation brings one request into M, or frees one donee: one round makes a donor, and the next finds nothing
        // left to do.
        for _ in 0..N {
            let Some(head) = self.highest(|place| *place == Place::Priority) else { return };
            if !self.is_among_highest(head) {
                return;
            }
            if let Some(donee) = self.donee_for(head, advice) {
                self.requests[head].place = Place::Donor { donee };
                continue;
            }
            let donors = self.indices(|place| donee_of(*place).is_some());
            let lowest = donors.max_by_key(|index| self.rank(*index));
            let Some(lowest) = lowest.filter(|lowest| self.rank(*lowest) > self.rank(head)) else { return };
            self.requests[head].place = self.requests[lowest].place;
            self.requests[lowest].place = Place::Priority;
        }
    }

    /// The requests in an FQ that have no donor, a bit each; none, if there are as many donors as CPUs.
    fn without_donor(&self) -> Bits {
        let (mut open, mut donors) = (Bits::NONE, 0);
        for (index, request) in self.requests.iter().enumerate() {
            open.add(index, is_fifo(&request.place));
        }
        for donee in self.requests.iter().filter_map(|request| donee_of(request.place)) {
            donors += 1;
            if let Some(index) = self.requests.iter().position(|request| request.user == donee) {
                open.remove(index);
            }
        }
        if donors < self.rules.cpus { open } else { Bits::NONE }
    }

    /// A request in an FQ without a donor that is not in M: the advised one, or the lowest.
    fn donee_for(&self, donor: usize, advice: &dyn Advice<Key, K, N>) -> Option<u16> {
        let open = self.without_donor();
        if open.is_empty() {
            return None;
        }
        let is_open = |index: &usize| open.has(*index);
        let is_allowed = |index: &usize| !self.is_among_highest(*index);
        let advised = advice.donee(self, self.requests[donor].user);
        let advised = advised.and_then(|user| self.requests.iter().position(|request| request.user == user));
        // If the lowest is in M, so are all.
        let all = || (0..self.requests.len()).filter(is_open);
        let lowest = || all().max_by_key(|index| self.rank(*index)).filter(is_allowed);
        advised.filter(is_open).filter(is_allowed).or_else(lowest).map(|index| self.requests[index].user)
    }

    /// The request that donates to that of `donee`.
    #[inline(never)]
    fn donor_of(&self, donee: u16) -> Option<usize> {
        self.indices(|place| *place == Place::Donor { donee }).next()
    }

    /// Puts a request at the end of an FQ.
    fn append(&mut self, index: usize, replica: u8) {
        let ahead = self.queued(replica);
        self.requests[index].place = Place::Fifo { replica, ahead };
    }

    /// Number of requests in the FQ of `replica`.
    fn queued(&self, replica: u8) -> u16 {
        self.indices(|place| matches!(place, Place::Fifo { replica: of, .. } if *of == replica)).count() as u16
    }

    /// Requests behind a place that was left move up.
    #[inline(never)]
    fn close_gap(&mut self, left: u8, gap: u16) {
        for request in &mut self.requests {
            if let Place::Fifo { replica, ahead } = &mut request.place
                && *replica == left
                && *ahead > gap
            {
                *ahead -= 1;
            }
        }
    }

    /// A request is complete or withdrawn.
    fn remove(&mut self, index: usize, advice: &dyn Advice<Key, K, N>) -> Change {
        let gone = self.requests.remove(index);
        if self.requests.iter().all(|request| request.holds) {
            // No request waits.
            return Change { granted: None, moved: Bits::NONE };
        }
        if let Place::Fifo { replica, ahead } = gone.place {
            self.close_gap(replica, ahead);
            self.refill(replica, gone.user, advice);
        }
        self.admit_donors(advice);
        self.report()
    }

    /// R5: a request takes the place in the FQ of `replica` that `gone` has left, or another place, if a limit on all queues
    /// kept that one free and no request of this FQ moves up. So one replica is granted at most.
    fn refill(&mut self, replica: u8, gone: u16, advice: &dyn Advice<Key, K, N>) {
        let donor = self.donor_of(gone);
        let next = if self.rules.admits_by_priority() {
            self.highest(|place| !is_fifo(place))
        } else {
            let of_others = || self.highest(|place| !is_fifo(place));
            donor.or_else(|| self.highest(|place| *place == Place::Priority)).or_else(of_others)
        };
        let Some(next) = next else {
            if self.queued(replica) == 0 {
                self.steal(replica, advice);
            }
            return;
        };
        let free = donee_of(self.requests[next].place);
        let to = match self.rules.total {
            Some(_) if self.queued(replica) == 0 => {
                self.queue_with_room(self.requests[next].user, advice).unwrap_or(replica)
            }
            _ => replica,
        };
        self.append(next, to);
        if let Some(donor) = donor.filter(|donor| *donor != next) {
            self.requests[donor].place = free.map_or(Place::Priority, |donee| Place::Donor { donee });
        }
        if self.queued(replica) == 0 && self.queued(to) > 1 {
            self.steal(replica, advice);
        }
    }

    /// Gives a free replica to a request that waits for another.
    fn steal(&mut self, free: u8, advice: &dyn Advice<Key, K, N>) {
        let waits: fn(&Place) -> bool = |place| matches!(place, Place::Fifo { ahead, .. } if *ahead > 0);
        let advised = match advice.steal(self, free) {
            Steal::Highest => None,
            Steal::From(user) => self.indices(waits).find(|index| self.requests[*index].user == user),
            Steal::Nothing => return,
        };
        let Some(index) = advised.or_else(|| self.highest(waits)) else { return };
        if let Place::Fifo { replica, ahead } = self.requests[index].place {
            self.append(index, free);
            self.close_gap(replica, ahead);
        }
    }

    /// Finds the user for which each user waits now, and reports the changes.
    fn report(&mut self) -> Change {
        let mut holders = [None; K];
        for request in &self.requests {
            if let Place::Fifo { replica, ahead: 0 } = request.place
                && let Some(holder) = holders.get_mut(usize::from(replica))
            {
                *holder = Some(request.user);
            }
        }
        let mut change = Change { granted: None, moved: Bits::NONE };
        for (index, request) in self.requests.iter_mut().enumerate() {
            let target = match request.place {
                Place::Fifo { replica, ahead: 0 } => {
                    if !request.holds {
                        request.holds = true;
                        change.granted = Some(Grant { user: request.user, replica });
                    }
                    None
                }
                Place::Fifo { replica, .. } => holders[usize::from(replica)],
                Place::Priority => None,
                Place::Donor { donee } => Some(donee),
            };
            if request.waits_on != target {
                request.waits_on = target;
                change.moved.add(index, true);
            }
        }
        change
    }
}

fn is_fifo(place: &Place) -> bool {
    matches!(place, Place::Fifo { .. })
}

fn donee_of(place: Place) -> Option<u16> {
    if let Place::Donor { donee } = place { Some(donee) } else { None }
}

//--- Bounds

/// `f` of the R2DGLP: `ceil(c / k)`. Zero if there are no replicas or no CPUs.
///
/// # Source
/// Elliott 2015, section 3.2.3.2, which prints the floor; all uses of it there, and rule R1a, are the ceiling.
#[must_use]
pub const fn r2dglp_limit(replicas: u8, cpus: u16) -> u16 {
    if replicas == 0 { 0 } else { cpus.div_ceil(replicas as u16) }
}

/// Largest number of other requests that pi-block one request under the k-FMLP: `floor((n - 1) / k)`, for `n` tasks with one request
/// a job each.
///
/// # Source
/// Elliott 2015, eq. 2.31. For the shortest queue by number of requests, and without advice on queues: that may fill
/// one with all.
#[must_use]
pub const fn k_fmlp_requests(tasks: u64, replicas: u8) -> u64 {
    if replicas == 0 { u64::MAX } else { tasks.saturating_sub(1) / replicas as u64 }
}

/// The longest time for which one request is pi-blocked under the k-FMLP by critical sections. `others` has the longest critical
/// section of each other task. The sum divided by `k`, rounded up to a nanosecond.
///
/// # Source
/// Elliott 2015, eq. 2.32. Without advice on queues, as before.
#[must_use]
pub fn k_fmlp_blocking_by_length(others: &[Nanoseconds], replicas: u8) -> Nanoseconds {
    let sum = others.iter().fold(0u64, |sum, length| sum.saturating_add(length.0));
    if replicas == 0 { Nanoseconds(u64::MAX) } else { Nanoseconds(sum.div_ceil(u64::from(replicas))) }
}

/// Largest number of other requests that pi-block one request under the R2DGLP: `2 * ceil(c / k) - 1`.
///
/// `ceil(c / k) - 1` in an FQ, `ceil(c / k)` as a donor, none in PQ.
///
/// # Source
/// Elliott 2015, eq. 2.34 (4.37), with the CPUs of the cluster. The derivation prints `floor(m / k)` for the donor; its
/// sum, and this, have the ceiling.
#[must_use]
pub const fn r2dglp_requests(cpus: u16, replicas: u8) -> u64 {
    if replicas == 0 { u64::MAX } else { (2 * r2dglp_limit(replicas, cpus) as u64).saturating_sub(1) }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
pub(crate) mod tests;
