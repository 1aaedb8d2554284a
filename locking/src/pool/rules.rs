//! Parameters of a pool, by which its queues have room or not.

use super::{Queue, r2dglp_limit};

/// Measure of the length of an FQ, for the search of the shortest. Whether an FQ has room always depends on the number of
/// its requests.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Measure {
    /// The number of its requests (eq. 2.29, 2.33).
    #[default]
    Requests,
    /// The sum of their declared critical sections (eq. 2.30).
    CriticalSections,
}

/// Parameters of a pool.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Rules {
    /// Replicas: `k`.
    pub replicas: u8,
    /// CPUs of the cluster whose jobs share the pool: `c`, the size of M.
    pub cpus: u16,
    /// Requests that one FQ holds at most: `f`. `None`: no bound.
    pub limit: Option<u16>,
    /// Requests that all FQs together hold at most: `t`. `None`: as many as each of them has room for.
    pub total: Option<u16>,
    /// Measure by which the shortest FQ is found.
    pub measure: Measure,
}

impl Rules {
    /// The k-FMLP.
    #[must_use]
    pub const fn k_fmlp(replicas: u8, cpus: u16, measure: Measure) -> Rules {
        Rules { replicas, cpus, limit: None, total: None, measure }
    }

    /// The R2DGLP.
    #[must_use]
    pub const fn r2dglp(replicas: u8, cpus: u16) -> Rules {
        Rules { replicas, cpus, limit: Some(r2dglp_limit(replicas, cpus)), total: None, measure: Measure::Requests }
    }

    /// Rules for the queue of a resource that clusters share, whose jobs donate at release ([`crate::ck_omlp`]): a request
    /// takes a free replica, or waits for the first that is released. Keys are instants of arrival, and waiters do not lend.
    #[must_use]
    pub const fn ck_omlp(replicas: u8) -> Rules {
        Rules { replicas, cpus: u16::MAX, limit: Some(1), total: None, measure: Measure::Requests }
    }

    /// Requests that all FQs together hold at most, by either limit. `None`: no bound.
    #[must_use]
    pub const fn capacity(&self) -> Option<u32> {
        let of_queues = match self.limit {
            Some(limit) => Some((self.replicas as u32) * (limit as u32)),
            None => None,
        };
        match (of_queues, self.total) {
            (Some(of_queues), Some(total)) if (total as u32) < of_queues => Some(total as u32),
            (None, Some(total)) => Some(total as u32),
            (of_queues, _) => of_queues,
        }
    }

    /// Whether requests outside the FQs are admitted by priority alone.
    #[must_use]
    pub const fn admits_by_priority(&self) -> bool {
        match self.capacity() {
            Some(capacity) => capacity < self.cpus as u32,
            None => false,
        }
    }

    /// Whether another request may join `queue`, as long as fewer than [`Rules::total`] are in all. Numbers of requests
    /// decide under any measure.
    #[must_use]
    pub fn leaves_room(&self, queue: &Queue) -> bool {
        self.limit.is_none_or(|limit| queue.requests < limit)
    }
}
