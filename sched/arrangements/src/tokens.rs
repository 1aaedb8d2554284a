//! The blocking of one job by the tokens of its GPU cluster.
//!
//! Within one CPU cluster tokens are taken by the R2DGLP. CPU clusters that share a GPU cluster use the CK-OMLP: requests queue by arrival, and
//! a job that pushes the job with a request out of the first `c` of its cluster donates to it at its release. So each task of such a CPU
//! cluster may be blocked as a donor, whether or not it uses GPUs.
//!
//! # Corrections of the text
//!
//! - 4.41 prints the CPUs of one cluster, where the protocol's bound 2.36 has those of all clusters that share.
//! - Lengths of queues are `c / k` rounded up; one place prints it rounded down.
//!
//! # Source
//! Elliott 2015, eq. 4.34 to 4.43.

use crate::requests::{Requests, Sorted};

/// The largest number of token requests that are before one request under the R2DGLP, in a CPU cluster of `cpus` CPUs, with `users` tasks and `tokens`
/// tokens in all.
///
/// Without a limit on queues below the number of users, 4.35 holds as long as there are no more users than CPUs.
#[must_use]
pub fn r2dglp_requests(users: u64, cpus: u64, tokens: u64) -> u64 {
    match () {
        () if users <= tokens => 0,
        () if users <= cpus => (users - 1) / tokens,
        () => 2 * cpus.div_ceil(tokens) - 1,
    }
}

/// The blocking of `task` under the R2DGLP: the sum of the longest sections of other tasks, nanoseconds.
#[must_use]
pub fn r2dglp(task: usize, most: u64, sections: &[u64], jobs: impl Fn(usize) -> u64) -> u64 {
    if most == 0 {
        return 0;
    }
    let request = |(task, length): (usize, &u64)| Requests { task, length: *length, count: 1 };
    Sorted::new(sections.iter().enumerate().map(request).collect()).longest(task, most, jobs)
}

/// One CPU cluster that shares a GPU cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sharer {
    /// Its CPUs.
    pub cpus: u64,
}

/// The blocking under the CK-OMLP.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Shared {
    /// Of each user, while its own request waits, nanoseconds.
    pub direct: Vec<u64>,
    /// Of each user as a donor.
    pub donor: Vec<u64>,
    /// Of each task without GPUs as a donor, by CPU cluster.
    pub others: Vec<u64>,
}

/// The blocking of all tasks that share a GPU cluster with `tokens` tokens in all: `sections` has for each user its CPU cluster and the time for which it
/// has its token, nanoseconds.
///
/// Requests are granted by arrival, so each other task is at most once before a request, and a cluster has no more requests than CPUs.
#[must_use]
pub fn ck_omlp(sections: &[(usize, u64)], sharers: &[Sharer], tokens: u64) -> Shared {
    let mut order: Vec<usize> = (0..sections.len()).collect();
    order.sort_by_key(|user| (std::cmp::Reverse(sections[*user].1), *user));
    let direct = |user: usize| {
        let mut room: Vec<u64> = sharers.iter().map(|sharer| sharer.cpus).collect();
        room[sections[user].0] -= 1;
        let mut ahead = Vec::new();
        for other in order.iter().filter(|other| **other != user) {
            let (cluster, section) = sections[*other];
            if room[cluster] > 0 {
                room[cluster] -= 1;
                ahead.push(section);
            }
        }
        // While the request waits all tokens are held, so one of them sees no more than its share of the requests ahead.
        let rounds = ahead.len() as u64 / tokens;
        ahead
            .iter()
            .take(usize::try_from(rounds).unwrap_or(usize::MAX))
            .fold(0, |sum: u64, one| sum.saturating_add(*one))
    };
    let direct: Vec<u64> = (0..sections.len()).map(direct).collect();
    // The two longest of each cluster: a task does not donate to itself.
    let mut longest = vec![[(0, usize::MAX); 2]; sharers.len()];
    for (user, (cluster, section)) in sections.iter().enumerate() {
        let one = (direct[user].saturating_add(*section), user);
        let [first, second] = &mut longest[*cluster];
        if one.0 > first.0 {
            (*first, *second) = (one, *first);
        } else if one.0 > second.0 {
            *second = one;
        }
    }
    let donor = |user: usize| {
        let [first, second] = longest[sections[user].0];
        if first.1 == user { second.0 } else { first.0 }
    };
    let donor = (0..sections.len()).map(donor).collect();
    Shared { direct, donor, others: longest.iter().map(|[first, _]| first.0).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_before_one_grow_with_users_up_to_twice_the_queues() {
        // 6 CPUs: one GPU with 1, 2, 3 and 6 tokens.
        assert_eq!([1, 2, 3, 6].map(|tokens| r2dglp_requests(20, 6, tokens)), [11, 5, 3, 1]);
        assert_eq!([1, 2, 3, 4, 6, 7].map(|users| r2dglp_requests(users, 6, 2)), [0, 0, 1, 1, 2, 5]);
    }

    #[test]
    fn sections_of_one_task_count_as_often_as_it_has_jobs() {
        assert_eq!(r2dglp(0, 3, &[9, 5, 2], |task| [0, 2, 7][task]), 5 + 5 + 2);
        assert_eq!(r2dglp(1, 3, &[9, 5, 2], |_| 1), 9 + 2);
    }

    /// Two clusters of one CPU and of two, and one token: a request of the first has two others before it, of the second cluster.
    #[test]
    fn donors_wait_for_the_longest_request_of_their_own_cluster() {
        let sections = [(0, 10), (0, 20), (1, 5), (1, 7), (1, 1)];
        let found = ck_omlp(&sections, &[Sharer { cpus: 1 }, Sharer { cpus: 2 }], 1);
        assert_eq!(found.direct, [12, 12, 20 + 7, 20 + 5, 20 + 7]);
        assert_eq!(found.donor, [32, 22, 32, 32, 32]);
        assert_eq!(found.others, [32, 32]);
        // Three requests are no more than three tokens.
        let found = ck_omlp(&sections, &[Sharer { cpus: 1 }, Sharer { cpus: 2 }], 3);
        assert_eq!((found.direct, found.others), (vec![0; 5], vec![20, 7]));
    }
}
