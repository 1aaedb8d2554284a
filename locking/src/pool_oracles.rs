//! Three small machines that grant tokens by the rules of three texts: the k-FMLP, priority alone, and the R2DGLP.

use super::{List, Measure, Step};

#[derive(Default)]
pub(super) struct Fmlp {
    pub(super) queues: List<List<u16>>,
    pub(super) lengths: List<u64>,
    /// Users by the time of their requests.
    pub(super) issued: List<u16>,
}

impl Fmlp {
    pub(super) fn act(&mut self, keys: &[u32], step: Step, measure: Measure) {
        match step {
            Step::Issue(user, length) if !self.issued.contains(&user) => {
                self.issued.push(user);
                self.lengths[usize::from(user)] = length;
                let length = |queue: &List<u16>| match measure {
                    Measure::Requests => (queue.len() as u64, 0),
                    Measure::CriticalSections => {
                        (queue.iter().map(|user| self.lengths[usize::from(*user)]).sum(), queue.len())
                    }
                };
                let shortest = (0..self.queues.len()).min_by_key(|queue| length(&self.queues[*queue])).unwrap();
                self.queues[shortest].push(user);
            }
            Step::Release(user) if self.queues.iter().any(|queue| queue.first() == Some(&user)) => {
                self.remove(keys, user);
            }
            Step::Withdraw(user) if self.issued.contains(&user) => self.remove(keys, user),
            _ => {}
        }
    }

    pub(super) fn remove(&mut self, keys: &[u32], user: u16) {
        self.issued.retain(|other| *other != user);
        let from = self.queues.iter().position(|queue| queue.contains(&user)).unwrap();
        self.queues[from].retain(|other| *other != user);
        if self.queues[from].is_empty() {
            let waits =
                |user: &&u16| self.queues.iter().any(|queue| queue[..].iter().skip(1).any(|other| other == *user));
            let stolen = self.issued.iter().filter(waits).min_by_key(|user| keys[usize::from(**user)]).copied();
            if let Some(stolen) = stolen {
                self.queues.iter_mut().for_each(|queue| queue.retain(|other| *other != stolen));
                self.queues[from].push(stolen);
            }
        }
    }
}

/// Replicas and waiters, by the time of their requests.
#[derive(Default)]
pub(super) struct ByPriority {
    pub(super) holders: List<Option<u16>>,
    pub(super) waiting: List<u16>,
}

impl ByPriority {
    pub(super) fn act(&mut self, keys: &[u32], step: Step) {
        match step {
            Step::Issue(user, _) if !self.waiting.contains(&user) && !self.holders.contains(&Some(user)) => {
                self.waiting.push(user);
            }
            Step::Release(user) => self.free(user),
            Step::Withdraw(user) => {
                self.free(user);
                self.waiting.retain(|other| *other != user);
            }
            _ => {}
        }
        for holder in self.holders.iter_mut().filter(|holder| holder.is_none()) {
            *holder = self.waiting.iter().min_by_key(|user| keys[usize::from(**user)]).copied();
            self.waiting.retain(|other| Some(*other) != *holder);
        }
    }

    fn free(&mut self, user: u16) {
        self.holders.iter_mut().filter(|holder| **holder == Some(user)).for_each(|holder| *holder = None);
    }
}

/// The text's structure, with keys that stay as they are and requests that end by release only.
pub(super) struct Text {
    pub(super) cpus: usize,
    pub(super) limit: usize,
    /// Requests in all queues, at most: not of the text.
    pub(super) total: usize,
    pub(super) keys: List<u32>,
    pub(super) queues: List<List<u16>>,
    pub(super) pq: List<u16>,
    /// Donors and donees.
    pub(super) dq: List<(u16, u16)>,
    /// Users by the time of their requests.
    pub(super) issued: List<u16>,
}

impl Text {
    fn rank(&self, user: u16) -> (u32, Option<usize>) {
        (self.keys[usize::from(user)], self.issued.iter().position(|other| *other == user))
    }

    /// M: sort all, take the first.
    fn highest(&self) -> List<u16> {
        let mut all = self.issued.clone();
        all.sort_by_key(|user| self.rank(*user));
        all.truncate(self.cpus);
        all
    }

    fn shortest(&self) -> usize {
        (0..self.queues.len()).min_by_key(|queue| self.queues[*queue].len()).unwrap()
    }

    pub(super) fn issue(&mut self, user: u16) {
        self.issued.push(user);
        let shortest = self.shortest();
        if self.queues[shortest].len() < self.limit && self.queues.concat().len() < self.total {
            self.queues[shortest].push(user);
            return;
        }
        if self.highest().contains(&user) {
            self.donate(user);
        } else {
            self.pq.push(user);
        }
    }

    /// R1c.
    fn donate(&mut self, user: u16) {
        let among_highest = self.highest();
        let donees: List<u16> = self.dq.iter().map(|(_, donee)| *donee).collect();
        let free = self.queues.iter().flatten().filter(|user| !donees.contains(user) && !among_highest.contains(user));
        let eligible: List<u16> = free.copied().collect();
        if self.dq.len() < self.cpus && !eligible.is_empty() {
            let donee = eligible.into_iter().max_by_key(|user| self.rank(*user)).unwrap();
            self.dq.push((user, donee));
        } else {
            let lowest =
                (0..self.dq.len()).max_by_key(|donor| self.rank(self.dq[*donor].0)).expect("a donor to replace");
            let (lowest, donee) = self.dq.remove(lowest);
            assert!(!among_highest.contains(&lowest), "R1c: the lowest donor is not in M");
            self.pq.push(lowest);
            self.dq.push((user, donee));
        }
    }

    pub(super) fn release(&mut self, user: u16) {
        let Some(queue) = self.queues.iter().position(|queue| queue.first() == Some(&user)) else { return };
        self.issued.retain(|other| *other != user);
        self.queues[queue].remove(0);
        let next = if let Some(donor) = self.dq.iter().position(|(_, donee)| *donee == user) {
            Some(self.dq.remove(donor).0)
        } else if let Some(head) = self.pq.iter().copied().min_by_key(|user| self.rank(*user)) {
            self.pq.retain(|other| *other != head);
            Some(head)
        } else if let Some(donor) = (0..self.dq.len()).min_by_key(|donor| self.rank(self.dq[*donor].0)) {
            Some(self.dq.remove(donor).0)
        } else if self.queues[queue].is_empty() {
            let waiting = self.queues.iter().flat_map(|queue| queue.iter().skip(1));
            let stolen = waiting.copied().min_by_key(|user| self.rank(*user));
            self.queues.iter_mut().for_each(|queue| queue.retain(|other| Some(*other) != stolen));
            stolen
        } else {
            None
        };
        // Without a limit on all queues only the queue that was left has room.
        let to = if next.is_some() && self.queues[queue].is_empty() { self.shortest() } else { queue };
        self.queues[to].extend(next);
        // R6.
        if let Some(risen) = self.pq.iter().copied().find(|user| self.highest().contains(user)) {
            self.pq.retain(|other| *other != risen);
            self.donate(risen);
        }
    }
}
