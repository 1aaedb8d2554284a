//! The rule for donors by its text, and every interleaving of two clusters that share a resource.

use super::*;
use crate::engine::LockError;
use crate::interleavings::explore;
use crate::pool::{Grant, Pool, Rules, Unadvised};
use crate::propagation::tests::Threads;
use fusee_sched::time::Nanoseconds;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec as List;

const JOBS: usize = 8;
type Jobs = Cluster<u32, JOBS>;

fn cluster(cpus: u16) -> Jobs {
    let mut cluster = Jobs::EMPTY;
    cluster.set_cpus(cpus);
    cluster
}

/// The invariants of the module's head, for one cluster.
fn check(cluster: &Jobs) {
    let top = cluster.top();
    assert!(cluster.pending().is_sorted_by_key(|job| job.key));
    assert_eq!(top.len(), cluster.pending().len().min(usize::from(cluster.cpus)));
    let is_in_top = |user: u16| top.iter().any(|job| job.user == user);
    let donors = |user: u16| cluster.pending().iter().filter(move |job| job.donee == Some(user)).count();
    assert!(cluster.pending().iter().filter(|job| job.requests > 0).count() <= usize::from(cluster.cpus), "1");
    for job in cluster.pending() {
        assert!(job.requests == 0 || is_in_top(job.user) || donors(job.user) == 1, "2: {cluster:?}");
        assert!(donors(job.user) <= 1, "3: {cluster:?}");
        if let Some(donee) = job.donee {
            assert!(is_in_top(job.user) && job.requests == 0, "3: {cluster:?}");
            assert!(cluster.pending().iter().any(|job| job.user == donee && job.requests > 0), "over: {cluster:?}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Release(u16),
    Request(u16),
    CompleteRequest(u16),
    Complete(u16),
    Key(u16, u32),
}

fn step(with_ours: bool) -> impl Strategy<Value = Step> {
    let user = 0..JOBS as u16;
    prop_oneof![
        6 => user.clone().prop_map(Step::Release),
        6 => user.clone().prop_map(Step::Request),
        3 => user.clone().prop_map(Step::CompleteRequest),
        3 => user.clone().prop_map(Step::Complete),
        if with_ours { 2 } else { 0 } => (user, 0u32..30).prop_map(|(user, key)| Step::Key(user, key)),
    ]
}

//--- The rule, by its text

/// Pending jobs, jobs with a request, and donees by their donors.
#[derive(Default)]
struct Text {
    cpus: usize,
    pending: List<(u32, u16)>,
    requests: List<u16>,
    donations: BTreeMap<u16, u16>,
}

impl Text {
    /// The top, found by sorting all jobs and taking the first.
    fn top(&self) -> List<u16> {
        let mut all = self.pending.clone();
        all.sort_unstable();
        all.iter().take(self.cpus).map(|(_, user)| *user).collect()
    }

    fn release(&mut self, user: u16, key: u32) {
        let before = self.top();
        self.pending.push((key, user));
        let after = self.top();
        let Some(pushed) = before.into_iter().find(|other| !after.contains(other)) else { return };
        let has_donor = self.donations.values().any(|donee| *donee == pushed);
        if self.requests.contains(&pushed) && !has_donor {
            self.donations.insert(user, pushed);
        } else if let Some(donee) = self.donations.remove(&pushed) {
            self.donations.insert(user, donee);
        }
    }
}

/// A base key of its own for each user.
fn distinct(key: u32, user: u16) -> u32 {
    key * 16 + u32::from(user)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    /// Jobs that complete have no requests and are no donors, and keys stay as they are: all that the text knows.
    #[test]
    fn who_donates_to_whom_is_as_the_text_says(
        cpus in 1u16..=4,
        keys in prop::collection::vec(0u32..30, JOBS),
        steps in prop::collection::vec(step(false), 1..50),
    ) {
        let mut cluster = cluster(cpus);
        let mut text = Text { cpus: usize::from(cpus), ..Text::default() };
        for step in steps {
            match step {
                Step::Release(user) => {
                    let key = distinct(keys[usize::from(user)], user);
                    if cluster.release(user, key).is_ok() {
                        text.release(user, key);
                    }
                }
                Step::Request(user) => {
                    let may = text.top().contains(&user) && !text.donations.contains_key(&user);
                    let has = text.requests.contains(&user);
                    prop_assert_eq!(cluster.may_request(user), may || has);
                    if may && !has && cluster.request(user).is_ok() {
                        text.requests.push(user);
                    }
                }
                Step::CompleteRequest(user) => {
                    let _ = cluster.complete_request(user);
                    text.requests.retain(|other| *other != user);
                    text.donations.retain(|_, donee| *donee != user);
                }
                Step::Complete(user) => {
                    if !text.requests.contains(&user) && !text.donations.contains_key(&user) {
                        let _ = cluster.complete(user);
                        text.pending.retain(|(_, other)| *other != user);
                    }
                }
                Step::Key(..) => unreachable!("no such step"),
            }
            let donations = cluster.pending().iter().filter_map(|job| Some((job.user, job.donee?))).collect();
            prop_assert_eq!(&text.donations, &donations);
            check(&cluster);
        }
    }

    /// Donors may die, jobs may complete or die with requests, keys may change.
    #[test]
    fn whatever_happens_holders_are_among_the_highest_effective_priorities(
        cpus in 1u16..=4,
        keys in prop::collection::vec(0u32..30, JOBS),
        steps in prop::collection::vec(step(true), 1..50),
    ) {
        let mut cluster = cluster(cpus);
        let keys: List<u32> = keys.into_iter().zip(0..).map(|(key, user)| distinct(key, user)).collect();
        let mut threads = Threads::with_keys(&keys);
        for step in steps {
            let before = cluster.clone();
            let (moved, ended) = match step {
                Step::Release(user) => {
                    let moved = cluster.release(user, threads.keys[usize::from(user)]);
                    prop_assert_eq!(moved.is_err(), before.position(user).is_some());
                    (moved.unwrap_or_default(), None)
                }
                Step::Request(user) => {
                    prop_assert_eq!(cluster.request(user).is_ok(), before.may_request(user));
                    (Moved::new(), None)
                }
                Step::CompleteRequest(user) => (cluster.complete_request(user), None),
                Step::Complete(user) => (cluster.complete(user), Some(user)),
                Step::Key(user, key) => {
                    threads.keys[usize::from(user)] = distinct(key, user);
                    threads.settle(user);
                    (cluster.change_key(user, distinct(key, user)), None)
                }
            };
            check(&cluster);
            // The operation reports exactly the donations that changed.
            for job in cluster.pending() {
                let is_other = before.donee(job.user) != job.donee;
                prop_assert!(moved.contains(&job.user) || !is_other, "user {}", job.user);
            }
            if let Some(ended) = ended {
                threads.stop(ended);
            }
            threads.follow(&moved, |user| cluster.donee(user));
            // Donors do not run; of the others the c highest effective priorities do, if they are ready.
            let mut others: List<&Job<u32>> = cluster.pending().iter().filter(|job| job.donee.is_none()).collect();
            others.sort_by_key(|job| threads.key_of(job.user));
            prop_assert!(others.iter().skip(usize::from(cpus)).all(|job| job.requests == 0), "a holder may not run");
        }
    }
}

//--- The queue

/// A resource of several clusters as the kernel has it: a pool with instants of arrival as keys. The keys are numbered
/// anew after each operation, so that a model comes back to states it knows.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Resource<const K: usize, const N: usize>(Pool<u32, K, N>);

impl<const K: usize, const N: usize> Resource<K, N> {
    pub fn new(replicas: u8) -> Self {
        let mut pool = Pool::EMPTY;
        pool.set_rules(Rules::ck_omlp(replicas));
        Self(pool)
    }

    pub fn request(&mut self, user: u16) -> Result<Option<Grant>, LockError> {
        let key = self.0.requests().len() as u32;
        self.0.request(user, key, Nanoseconds(1), &Unadvised).map(|change| change.granted)
    }

    pub fn release(&mut self, user: u16) -> Result<Option<Grant>, LockError> {
        let released = self.0.release(user, &Unadvised).map(|change| change.granted);
        self.number();
        released
    }

    pub fn withdraw(&mut self, user: u16) -> Option<Grant> {
        let granted = self.0.withdraw(user, &Unadvised).and_then(|change| change.granted);
        self.number();
        granted
    }

    fn number(&mut self) {
        let users: List<u16> = self.0.requests().iter().map(|request| request.user).collect();
        for (user, key) in users.into_iter().zip(0..) {
            let change = self.0.change_key(user, key, &Unadvised).expect("it has a request");
            assert_eq!(change.granted, None);
        }
    }

    /// Holders, or waiters, in the order of arrival.
    fn users(&self, who_holds: bool) -> List<u16> {
        let of = self.0.requests().iter().filter(|request| self.holds(request.user) == who_holds);
        of.map(|request| request.user).collect()
    }

    pub fn holds(&self, user: u16) -> bool {
        self.0.held_by(user).is_some()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn replicas_are_granted_by_arrival_and_nobody_is_lost(
        replicas in 1usize..=3,
        steps in prop::collection::vec((0..JOBS as u16, 0u8..4), 1..60),
    ) {
        let mut lock = Resource::<3, JOBS>::new(replicas as u8);
        // All holders and waiters, by arrival, and the holders among them.
        let (mut all, mut holders) = (List::new(), List::new());
        for (user, action) in steps {
            let granted = match action {
                0 | 1 => {
                    let requested = lock.request(user);
                    prop_assert_eq!(requested.is_err(), all.contains(&user));
                    if requested.is_ok() {
                        all.push(user);
                    }
                    requested.ok().flatten()
                }
                _ => {
                    let is_holder = holders.contains(&user);
                    let granted = if action == 2 {
                        let released = lock.release(user);
                        prop_assert_eq!(released.is_ok(), is_holder);
                        released.ok().flatten()
                    } else {
                        lock.withdraw(user)
                    };
                    if action == 3 || is_holder {
                        all.retain(|other| *other != user);
                        holders.retain(|other| *other != user);
                    }
                    granted
                }
            };
            let free = replicas - holders.len();
            let next: List<u16> = all.iter().copied().filter(|user| !holders.contains(user)).take(free).collect();
            prop_assert_eq!(granted.map(|grant| grant.user).into_iter().collect::<List<_>>(), &next[..]);
            holders.extend(next);
            let mut held = lock.users(true);
            held.sort_unstable();
            holders.sort_unstable();
            prop_assert_eq!(held, &holders[..]);
            let waiting: List<u16> = all.iter().copied().filter(|user| !holders.contains(user)).collect();
            prop_assert_eq!(lock.users(false), waiting);
        }
    }
}

//--- Every interleaving

/// Clusters that share one resource, and the base keys of their jobs. Job `j` is of cluster `j % clusters`.
#[derive(Clone, Eq, Hash, PartialEq)]
struct System {
    clusters: List<Jobs>,
    lock: Resource<2, JOBS>,
    lowered: List<bool>,
}

impl System {
    fn of(&mut self, user: u16) -> &mut Jobs {
        let count = self.clusters.len();
        &mut self.clusters[usize::from(user) % count]
    }

    /// All that `user` can do or suffer now, by number; `None` if it cannot.
    fn act(&self, user: u16, action: u8) -> Option<System> {
        let mut next = self.clone();
        let lower = self.lowered[usize::from(user)];
        let key = |lower: bool| u32::from(user) + if lower { 10 } else { 0 };
        let job = *next.of(user).pending().iter().find(|job| job.user == user).unwrap_or(&Job {
            user,
            key: 0,
            requests: u16::MAX,
            donee: None,
        });
        let is_pending = job.requests != u16::MAX;
        match action {
            0 if !is_pending => _ = next.of(user).release(user, key(lower)),
            1 if is_pending && job.requests == 0 => {
                next.of(user).request(user).ok()?;
                let _ = next.lock.request(user);
            }
            // The holder releases, or a waiter times out.
            2 if is_pending && job.requests > 0 => {
                next.lock.withdraw(user);
                let _ = next.of(user).complete_request(user);
            }
            3 if is_pending && job.requests == 0 && job.donee.is_none() => _ = next.of(user).complete(user),
            // The task dies, in any state.
            4 if is_pending => {
                next.lock.withdraw(user);
                let _ = next.of(user).complete(user);
            }
            5 if is_pending && user < 2 => {
                next.lowered[usize::from(user)] = !lower;
                let _ = next.of(user).change_key(user, key(!lower));
            }
            _ => return None,
        }
        Some(next)
    }
}

fn every_interleaving(name: &str, clusters: usize, cpus: u16, jobs: u16) -> usize {
    let start = System {
        clusters: vec![cluster(cpus); clusters],
        lock: Resource::new(2),
        lowered: vec![false; usize::from(jobs)],
    };
    let all_cpus = clusters * usize::from(cpus);
    let next = |system: &System| -> List<System> {
        (0..jobs).flat_map(|user| (0..6).filter_map(move |action| system.act(user, action))).collect()
    };
    explore(name, start, next, |system| {
        system.clusters.iter().for_each(check);
        assert!(system.lock.users(false).len() <= all_cpus.saturating_sub(2), "more than m - k wait");
        let with_requests = system.clusters.iter().flat_map(|cluster| cluster.pending()).filter(|job| job.requests > 0);
        let mut with_requests: List<u16> = with_requests.map(|job| job.user).collect();
        let mut in_lock = [system.lock.users(true), system.lock.users(false)].concat();
        with_requests.sort_unstable();
        in_lock.sort_unstable();
        assert_eq!(with_requests, in_lock);
    })
}

#[test]
fn no_interleaving_of_two_clusters_breaks_the_ck_omlp() {
    let states = [
        every_interleaving("CK-OMLP, 2 replicas, 2 clusters of 1 CPU, 5 jobs", 2, 1, 5),
        every_interleaving("CK-OMLP, 2 replicas, 2 clusters of 2 CPUs, 6 jobs", 2, 2, 6),
        every_interleaving("CK-OMLP, 2 replicas, 1 cluster of 3 CPUs, 5 jobs", 1, 3, 5),
    ];
    assert!(states.iter().all(|states| *states > 300), "{states:?}");
}

//--- By name

/// Elliott 2015, figure 2.7c: JL holds the resource since 5, JH is released at 8 on its CPU, and JL releases at 13.
#[test]
fn a_released_job_lends_its_cpu_to_the_holder_it_pushes_away_until_that_releases() {
    let [high, low] = [0, 1];
    let mut cluster = cluster(1);
    assert_eq!(cluster.release(low, 20), Ok(Moved::new()));
    assert_eq!(cluster.request(low), Ok(()));
    assert_eq!(cluster.release(high, 10).as_deref(), Ok(&[high][..]));
    assert_eq!(cluster.donee(high), Some(low));
    assert_eq!(cluster.request(high), Err(JobError::NotNow));
    assert_eq!(cluster.complete_request(low)[..], [high]);
    assert_eq!(cluster.donee(high), None);
    assert_eq!(cluster.request(low), Err(JobError::NotNow), "it is not in the top any more");
    assert_eq!(cluster.request(high), Ok(()));
}

#[test]
fn a_job_that_pushes_a_donor_away_takes_its_donation_over() {
    let mut cluster = cluster(1);
    for (user, key) in [(2, 30), (1, 20), (0, 10)] {
        let moved = cluster.release(user, key).expect("it is the first job");
        if user == 2 {
            assert_eq!(cluster.request(2), Ok(()));
        }
        assert_eq!(moved.contains(&user), user != 2);
    }
    assert_eq!([0, 1].map(|user| cluster.donee(user)), [Some(2), None]);
}

#[test]
fn a_job_that_comes_back_and_is_pushed_away_again_keeps_its_donor() {
    let mut cluster = cluster(2);
    let [low, first, donor, late] = [0, 1, 2, 3];
    for (user, key) in [(low, 40), (first, 10)] {
        let _ = cluster.release(user, key).expect("it is its first job");
    }
    assert_eq!(cluster.request(low), Ok(()));
    assert_eq!(cluster.release(donor, 30).as_deref(), Ok(&[donor][..]));
    assert_eq!(cluster.complete(first)[..], []);
    assert_eq!(cluster.release(late, 20).as_deref(), Ok(&[][..]));
    assert_eq!([donor, late].map(|user| cluster.donee(user)), [Some(low), None]);
}

#[test]
fn of_jobs_with_one_key_the_earlier_release_comes_first() {
    let mut jobs = cluster(1);
    for user in [4, 2, 6] {
        let _ = jobs.release(user, 7).unwrap();
    }
    assert_eq!(jobs.pending().iter().map(|job| job.user).collect::<List<_>>(), [4, 2, 6]);
}
