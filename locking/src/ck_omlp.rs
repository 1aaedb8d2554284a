//! The CK-OMLP: k replicas shared across clusters, where holders are always among those that run.
//!
//! A priority has no meaning in another cluster, so inheritance does not help a holder there. Instead, consider a job
//! that would push a holder or a waiter from the CPUs of its cluster. Such a job donates its priority at once, when it is
//! released, and does not run until the other job has released the resource. [`Cluster`] is this rule, for one cluster
//! and all resources that its jobs share. The queue of one resource is a [`crate::pool::Pool`] with the rules
//! [`crate::pool::Rules::ck_omlp`], with instants of arrival as keys.
//!
//! # The rules
//!
//! Pending jobs are all that are released and not complete, suspended ones among them. The *top* of a cluster are the c
//! with the highest base priorities.
//!
//! - C1: a job issues a request only while it is in the top and no donor. If a released job pushes `i` from the top, it
//!   donates to `i`, if `i` has an incomplete request and no donor. If `i` is a donor, the released job donates to the
//!   donee of `i` instead, and `i` is a donor no longer. A donation ends with the donee's last request.
//! - C2: a request takes a free replica, or waits at the end of the FIFO queue. C3: a released replica goes to the first
//!   request of the queue.
//!
//! Our additions: the text would give a second donor to a job that came back into the top and is pushed away again. The
//! text also does not cover jobs that leave, or change their base key. If a job with a request is then left outside the
//! top without a donor, the job that came into the top donates. If that job has a request itself, it cannot donate; its
//! own donor, which it no longer needs, donates instead.
//!
//! # Invariants
//!
//! 1. No more than c jobs of a cluster have incomplete requests. So no more than m - k wait for a resource.
//! 2. A job with an incomplete request is in the top, or has a donor that is.
//! 3. A donor is in the top, has no request, and is the only donor of its donee.
//!
//! From 2 and 3: a holder is among the c jobs with the highest effective priorities, and is scheduled whenever it is
//! ready.
//!
//! Not here: suspending and waking; the graph of waiting threads (`propagation`). Sources: Brandenburg, Anderson 2013;
//! Elliott 2015, sections 2.1.6.1 and 2.1.7.3. The first sentence of C1 is in the former only, and without it 1 does
//! not hold.

use heapless::Vec;

//--- One cluster

/// A released job that is not complete. Users are numbers of the caller's choice.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Job<Key> {
    /// User (task) of the job.
    pub user: u16,
    /// Base key of the job. The smaller key is the higher priority.
    pub key: Key,
    /// Number of the job's incomplete requests.
    pub requests: u16,
    /// User to which the job donates.
    pub donee: Option<u16>,
}

/// Users that donate to another than before, or no longer, or from here on; see [`Cluster::donee`].
pub type Moved = Vec<u16, 3>;

/// Reason why a job cannot do an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JobError {
    /// The table of pending jobs is full.
    Full,
    /// The user has a pending job already.
    Pending,
    /// The user has no pending job.
    NotPending,
    /// The job is outside the top, or a donor: its request has to wait until the job is in the top and no donor.
    NotNow,
}

/// The pending jobs of a cluster, with their donations. `N` bounds the jobs.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Cluster<Key, const N: usize> {
    cpus: u16,
    /// Jobs, the highest base priority first; of equal priorities, by release.
    pending: Vec<Job<Key>, N>,
}

impl<Key, const N: usize> Cluster<Key, N> {
    /// A cluster without CPUs.
    pub const EMPTY: Self = Self { cpus: 0, pending: Vec::new() };
}

impl<Key: Copy + Ord, const N: usize> Cluster<Key, N> {
    /// Sets the number of CPUs. Only while no job is pending.
    pub fn set_cpus(&mut self, cpus: u16) {
        debug_assert!(self.pending.is_empty());
        self.cpus = cpus;
    }

    /// The pending jobs, the highest base priority first.
    #[must_use]
    pub fn pending(&self) -> &[Job<Key>] {
        &self.pending
    }

    /// The c pending jobs with the highest base priorities.
    #[must_use]
    pub fn top(&self) -> &[Job<Key>] {
        &self.pending[..self.pending.len().min(usize::from(self.cpus))]
    }

    /// The user that the job of `user` donates to. While there is one, the job must not run.
    #[must_use]
    pub fn donee(&self, user: u16) -> Option<u16> {
        self.pending.iter().find(|job| job.user == user).and_then(|job| job.donee)
    }

    /// Whether the job of `user` may issue a request now.
    #[must_use]
    pub fn may_request(&self, user: u16) -> bool {
        self.pending.iter().any(|job| job.user == user && job.requests > 0)
            || self.top().iter().any(|job| job.user == user && job.donee.is_none())
    }

    /// A job of `user` with the base key `key` is released.
    ///
    /// # Errors
    /// [`JobError::Pending`], [`JobError::Full`].
    pub fn release(&mut self, user: u16, key: Key) -> Result<Moved, JobError> {
        if self.position(user).is_some() {
            return Err(JobError::Pending);
        }
        self.insert(Job { user, key, requests: 0, donee: None })?;
        Ok(self.mend(Some(user)))
    }

    /// The job of `user` issues a request.
    ///
    /// # Errors
    /// [`JobError::NotPending`], [`JobError::NotNow`].
    pub fn request(&mut self, user: u16) -> Result<(), JobError> {
        let index = self.position(user).ok_or(JobError::NotPending)?;
        if !self.may_request(user) {
            return Err(JobError::NotNow);
        }
        self.pending[index].requests += 1;
        Ok(())
    }

    /// A request of the job of `user` is complete, or withdrawn.
    pub fn complete_request(&mut self, user: u16) -> Moved {
        if let Some(index) = self.position(user) {
            let requests = &mut self.pending[index].requests;
            *requests = requests.saturating_sub(1);
        }
        self.mend(None)
    }

    /// The job of `user` is complete, or its task dies. Requests that the job still has are withdrawn.
    pub fn complete(&mut self, user: u16) -> Moved {
        if let Some(index) = self.position(user) {
            self.pending.remove(index);
        }
        self.mend(self.last_of_top())
    }

    /// The job of `user`, if there is one, has the base key `key` from here on.
    pub fn change_key(&mut self, user: u16, key: Key) -> Moved {
        let Some(index) = self.position(user) else { return Moved::new() };
        let job = self.pending.remove(index);
        // There is a place: it was just left.
        let _ = self.insert(Job { key, ..job });
        let is_in_top = self.top().iter().any(|job| job.user == user);
        self.mend(if is_in_top { Some(user) } else { self.last_of_top() })
    }

    fn position(&self, user: u16) -> Option<usize> {
        self.pending.iter().position(|job| job.user == user)
    }

    fn last_of_top(&self) -> Option<u16> {
        self.top().last().map(|job| job.user)
    }

    fn insert(&mut self, job: Job<Key>) -> Result<(), JobError> {
        let index = self.pending.iter().position(|other| other.key > job.key).unwrap_or(self.pending.len());
        self.pending.insert(index, job).map_err(|_| JobError::Full)
    }

    /// Ends donations that are over, and finds a donor for a job that needs one: `newcomer`, if that has come into
    /// the top.
    fn mend(&mut self, newcomer: Option<u16>) -> Moved {
        let mut moved = Moved::new();
        let top = self.top().len();
        // Ends: donors outside the top, and those of jobs without requests. At most one donation of each kind.
        for index in 0..self.pending.len() {
            let Job { user, donee: Some(donee), .. } = self.pending[index] else { continue };
            let is_over = self.position(donee).is_none_or(|donee| self.pending[donee].requests == 0);
            if index >= top || is_over {
                self.pending[index].donee = None;
                let _ = moved.push(user);
            }
        }
        let has_donor = |user: u16| self.pending.iter().any(|job| job.donee == Some(user));
        let outside = &self.pending[top..];
        let Some(needy) = outside.iter().find(|job| job.requests > 0 && !has_donor(job.user)) else { return moved };
        let needy = needy.user;
        let in_top = |user: u16| self.top().iter().any(|job| job.user == user);
        let may_donate = |job: &Job<Key>| Some(job.user) == newcomer && job.requests == 0 && job.donee.is_none();
        let is_spare = |job: &Job<Key>| job.donee.is_some_and(in_top);
        let donor = self.top().iter().position(may_donate).or_else(|| self.top().iter().position(is_spare));
        if let Some(donor) = donor {
            self.pending[donor].donee = Some(needy);
            let _ = moved.push(self.pending[donor].user);
        }
        moved
    }
}

#[cfg(test)]
#[path = "ck_omlp_tests.rs"]
pub(crate) mod tests;
