//! Three protocols by three small machines of their own, the rules by brute force, and every interleaving of five jobs.

#[path = "pool_oracles.rs"]
mod oracles;

use self::oracles::{ByPriority, Fmlp, Text};
use super::*;
use crate::interleavings::explore;
use crate::propagation::tests::Threads;
use core::cell::Cell;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec as List;

const USERS: usize = 9;
type Tested = Pool<u32, 4, USERS>;

fn pool(rules: Rules) -> Tested {
    let mut pool = Tested::EMPTY;
    pool.set_rules(rules);
    pool
}

/// The users in the FQ of `replica`, holder first.
fn fifo(pool: &Tested, replica: u8) -> List<u16> {
    let mut queue: List<(u16, u16)> = pool
        .requests()
        .iter()
        .filter_map(|request| match request.place {
            Place::Fifo { replica: of, ahead } if of == replica => Some((ahead, request.user)),
            _ => None,
        })
        .collect();
    queue.sort_unstable();
    queue.into_iter().map(|(_, user)| user).collect()
}

fn fifos(pool: &Tested) -> List<List<u16>> {
    (0..pool.rules().replicas).map(|replica| fifo(pool, replica)).collect()
}

/// Users whose requests are in PQ or DQ.
fn outside(pool: &Tested) -> BTreeSet<u16> {
    pool.requests().iter().filter(|request| !is_fifo(&request.place)).map(|request| request.user).collect()
}

fn donations(pool: &Tested) -> BTreeSet<(u16, u16)> {
    pool.requests().iter().filter_map(|request| donee_of(request.place).map(|donee| (request.user, donee))).collect()
}

/// Users to whose requests a donor may donate: in an FQ, without a donor, and not among the c highest, one for each CPU.
/// Empty if there is a donor for each CPU.
fn donees(pool: &Tested) -> List<u16> {
    let mut order: List<usize> = (0..pool.requests().len()).collect();
    order.sort_by_key(|index| pool.requests()[*index].key);
    let low: BTreeSet<usize> = order.into_iter().skip(usize::from(pool.rules().cpus)).collect();
    let donations = donations(pool);
    let has_donor = |user: u16| donations.iter().any(|(_, donee)| *donee == user);
    let may = |(index, request): &(usize, &Request<u32>)| {
        low.contains(index) && is_fifo(&request.place) && !has_donor(request.user)
    };
    let all = pool.requests().iter().enumerate().filter(may).map(|(_, request)| request.user);
    if donations.len() < usize::from(pool.rules().cpus) { all.collect() } else { List::new() }
}

fn holders(pool: &Tested) -> List<u16> {
    pool.queues().iter().filter_map(|queue| queue.holder).collect()
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Step {
    Issue(u16, u64),
    Release(u16),
    Withdraw(u16),
    Key(u16, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let user = 0..USERS as u16;
    prop_oneof![
        5 => (user.clone(), 0u64..6).prop_map(|(user, length)| Step::Issue(user, length)),
        3 => user.clone().prop_map(Step::Release),
        1 => user.clone().prop_map(Step::Withdraw),
        1 => (user, 0u32..30).prop_map(|(user, key)| Step::Key(user, key)),
    ]
}

/// Does `step` with a pool; says whether anything happened.
fn act(pool: &mut Tested, keys: &mut [u32], step: Step, advice: &impl Advice<u32, 4, USERS>) -> Option<Change> {
    match step {
        Step::Issue(user, length) => pool.request(user, keys[usize::from(user)], Nanoseconds(length), advice).ok(),
        Step::Release(user) => pool.release(user, advice).ok(),
        Step::Withdraw(user) => pool.withdraw(user, advice),
        Step::Key(user, key) => {
            keys[usize::from(user)] = key;
            pool.change_key(user, key, advice)
        }
    }
}

//--- The k-FMLP, by rules F1 to F3

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn without_a_bound_on_its_queues_a_pool_is_the_k_fmlp(
        replicas in 1u8..=4,
        measure in prop::sample::select(vec![Measure::Requests, Measure::CriticalSections]),
        mut keys in prop::collection::vec(0u32..30, USERS),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut pool = pool(Rules::k_fmlp(replicas, 3, measure));
        let mut fmlp = Fmlp {
            queues: vec![List::new(); usize::from(replicas)],
            lengths: vec![0; USERS],
            ..Fmlp::default()
        };
        for step in steps {
            let _ = act(&mut pool, &mut keys, step, &Unadvised);
            fmlp.act(&keys, step, measure);
            prop_assert_eq!(&fifos(&pool), &fmlp.queues);
            prop_assert_eq!(pool.requests().len(), fmlp.issued.len());
        }
    }
}

//--- Pure priority

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn with_queues_of_one_and_fewer_replicas_than_cpus_a_pool_grants_by_priority_alone(
        replicas in 1u8..=4,
        more_cpus in 1u16..4,
        mut keys in prop::collection::vec(0u32..30, USERS),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let cpus = u16::from(replicas) + more_cpus;
        let mut pool = pool(Rules { limit: Some(1), ..Rules::r2dglp(replicas, cpus) });
        let mut by_priority = ByPriority { holders: vec![None; usize::from(replicas)], ..ByPriority::default() };
        for step in steps {
            let _ = act(&mut pool, &mut keys, step, &Unadvised);
            by_priority.act(&keys, step);
            let holders: List<Option<u16>> = pool.queues()[..usize::from(replicas)].iter().map(|queue| queue.holder).collect();
            prop_assert_eq!(holders, &by_priority.holders[..]);
            prop_assert_eq!(outside(&pool), by_priority.waiting.iter().copied().collect());
        }
    }
}

//--- The R2DGLP, rule by rule

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn with_queues_of_cpus_over_replicas_a_pool_is_the_r2dglp(
        replicas in 1u8..=4,
        cpus in 1u16..=6,
        // More than CPUs by so many: the limit on all queues.
        above in prop::option::of(0u16..4),
        mut keys in prop::collection::vec(0u32..30, USERS),
        steps in prop::collection::vec((0..USERS as u16, any::<bool>()), 1..50),
    ) {
        let total = above.map(|above| cpus + above);
        let mut pool = pool(Rules { total, ..Rules::r2dglp(replicas, cpus) });
        let mut text = Text {
            cpus: usize::from(cpus),
            limit: usize::from(cpus.div_ceil(u16::from(replicas))),
            total: total.map_or(usize::MAX, usize::from),
            keys: keys.clone(),
            queues: vec![List::new(); usize::from(replicas)],
            pq: List::new(),
            dq: List::new(),
            issued: List::new(),
        };
        for (user, more) in steps {
            if text.issued.contains(&user) {
                let _ = act(&mut pool, &mut keys, Step::Release(user), &Unadvised);
                text.release(user);
            } else if more {
                let _ = act(&mut pool, &mut keys, Step::Issue(user, 1), &Unadvised);
                text.issue(user);
            }
            prop_assert_eq!(&fifos(&pool), &text.queues);
            prop_assert_eq!(donations(&pool), text.dq.iter().copied().collect());
            let mut issued: List<u16> = pool.requests().iter().map(|request| request.user).collect();
            prop_assert_eq!(&issued, &text.issued);
            issued.retain(|user| pool.request_of(*user).unwrap().place == Place::Priority);
            prop_assert_eq!(issued.into_iter().collect::<BTreeSet<u16>>(), text.pq.iter().copied().collect());
        }
    }
}

//--- Any rules, any advice, all that can happen

/// The invariants of the module's head, and R4.
fn check(pool: &Tested, advised: bool) {
    let rules = pool.rules();
    let (k, c) = (usize::from(rules.replicas), usize::from(rules.cpus));
    let mut by_rank: List<(u32, usize)> =
        pool.requests().iter().enumerate().map(|(index, request)| (request.key, index)).collect();
    by_rank.sort_unstable();
    let user = |(_, index): &(u32, usize)| pool.requests()[*index].user;
    let rank = |of: u16| by_rank.iter().position(|entry| user(entry) == of).unwrap();
    let among_highest: BTreeSet<u16> = by_rank.iter().take(c).map(user).collect();

    let queues = fifos(pool);
    assert!(pool.queues()[k..].iter().all(|queue| *queue == Queue::default()), "more than k replicas");
    let in_queues: BTreeSet<u16> = queues.iter().flatten().copied().collect();
    let (outside, donations) = (outside(pool), donations(pool));
    assert_eq!(in_queues.len() + outside.len(), pool.requests().len(), "a request is in one place");

    // 1.
    let is_full = |queue: &List<u16>| Some(queue.len()) == rules.limit.map(usize::from);
    assert!(rules.limit.is_none_or(|limit| queues.iter().all(|queue| queue.len() <= usize::from(limit))));
    assert!(rules.total.is_none_or(|total| in_queues.len() <= usize::from(total)));
    let is_exhausted = rules.total.is_some_and(|total| in_queues.len() == usize::from(total));
    assert!(
        outside.is_empty() || is_exhausted || queues.iter().all(is_full),
        "somebody waits outside while there is room"
    );
    for queue in &queues {
        for (ahead, user) in queue.iter().enumerate() {
            let Place::Fifo { ahead: said, .. } = pool.request_of(*user).unwrap().place else { panic!("in a queue") };
            assert_eq!(usize::from(said), ahead, "a gap in a queue");
        }
    }
    // 2.
    let donees: BTreeSet<u16> = donations.iter().map(|(_, donee)| *donee).collect();
    assert!(donees.len() == donations.len() && donees.is_subset(&in_queues));
    assert!(donations.len() <= c);
    // 3.
    let donors: BTreeSet<u16> = donations.iter().map(|(donor, _)| *donor).collect();
    let by_priority: BTreeSet<u16> = outside.difference(&donors).copied().collect();
    let without: List<u16> = by_priority.intersection(&among_highest).copied().collect();
    let of_queues = rules.limit.map_or(usize::MAX, |limit| k * usize::from(limit));
    if of_queues.min(rules.total.map_or(usize::MAX, usize::from)) >= c {
        assert_eq!(without, [], "in PQ and in M");
    } else if !without.is_empty() {
        assert!(in_queues.iter().all(|user| donees.contains(user) || among_highest.contains(user)), "a donee is left");
        let highest = without.iter().map(|user| rank(*user)).min();
        assert!(donors.iter().all(|donor| Some(rank(*donor)) < highest), "a higher request has no donee");
    }
    // 4.
    if !advised && queues.iter().any(List::is_empty) {
        assert!(queues.iter().all(|queue| queue.len() <= 1), "a replica is free while a request waits");
    }
}

/// The propagation of priorities through `pool` is R4.
fn check_inheritance(pool: &Tested, threads: &Threads) {
    let donations = donations(pool);
    let lent = |user: u16| donations.iter().filter(move |(_, donee)| *donee == user).map(|(donor, _)| *donor);
    let key = |user: u16| threads.keys[usize::from(user)];
    for queue in fifos(pool) {
        for (ahead, user) in queue.iter().enumerate() {
            let behind = if ahead == 0 { &queue[..] } else { core::slice::from_ref(user) };
            let all = behind.iter().flat_map(|user| lent(*user).chain([*user]));
            assert_eq!(threads.key_of(*user), all.map(key).min(), "user {user}");
        }
    }
    for user in (0..USERS as u16).filter(|user| pool.request_of(*user).is_none_or(|request| !is_fifo(&request.place))) {
        assert_eq!(threads.key_of(user), Some(key(user)), "user {user} inherits from nobody");
    }
}

/// Heuristics gone wild: the invariants hold for any advice. These heuristics know neither the numbers of replicas and
/// users, nor their own last advice.
#[derive(Clone, Debug)]
pub(crate) struct Wild {
    says: List<u8>,
    asked: Cell<usize>,
}

impl Wild {
    pub(crate) fn new(says: List<u8>) -> Wild {
        Wild { says, asked: Cell::new(0) }
    }

    fn say(&self, of: u16) -> u8 {
        self.asked.set(self.asked.get() + 1);
        self.says[(usize::from(of) + self.asked.get()) % self.says.len()]
    }
}

/// Advice of the wild heuristics: mostly numbers that can be valid.
pub(crate) fn wild() -> impl Strategy<Value = List<u8>> {
    prop::collection::vec(prop_oneof![9 => 0u8..10, 1 => any::<u8>()], 7)
}

impl<const N: usize> Advice<u32, 4, N> for Wild {
    fn queue(&self, _: &Pool<u32, 4, N>, user: u16) -> Option<u8> {
        Some(self.say(user)).filter(|advised| advised % 3 != 0)
    }

    fn donee(&self, _: &Pool<u32, 4, N>, donor: u16) -> Option<u16> {
        Some(u16::from(self.say(donor + 1)))
    }

    fn steal(&self, _: &Pool<u32, 4, N>, replica: u8) -> Steal {
        match self.say(u16::from(replica) + 5) {
            said if said % 3 == 0 => Steal::Nothing,
            said => Steal::From(u16::from(said)),
        }
    }
}

fn rules() -> impl Strategy<Value = Rules> {
    let measure = prop::sample::select(vec![Measure::Requests, Measure::CriticalSections]);
    let (limit, total) = (prop::option::weighted(0.8, 1u16..=4), prop::option::of(1u16..=9));
    (1u8..=4, 1u16..=6, limit, total, measure).prop_map(|(replicas, cpus, limit, total, measure)| Rules {
        replicas,
        cpus,
        limit,
        total,
        measure,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn whatever_happens_and_is_advised_the_rules_hold(
        rules in rules(),
        mut keys in prop::collection::vec(0u32..30, USERS),
        wild in wild(),
        is_advised in any::<bool>(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut pool = pool(rules);
        let mut threads = Threads::with_keys(&keys);
        let wild = Wild::new(wild);
        for step in steps {
            let before = (fifos(&pool), holders(&pool), pool.clone());
            let change = if is_advised {
                act(&mut pool, &mut keys, step, &wild)
            } else {
                act(&mut pool, &mut keys, step, &Unadvised)
            };
            if let Step::Key(user, key) = step {
                threads.keys[usize::from(user)] = key;
                threads.settle(user);
            }
            if let Step::Release(user) | Step::Withdraw(user) = step
                && change.is_some()
            {
                threads.stop(user);
            }
            let Some(change) = change else {
                prop_assert_eq!(&pool, &before.2);
                continue;
            };
            // The operation reports exactly the requests that changed.
            for request in pool.requests() {
                let moved = before.2.waits_on(request.user) != request.waits_on;
                prop_assert_eq!(pool.moved(change).any(|user| user == request.user), moved, "user {}", request.user);
            }
            prop_assert_eq!(change.moves_nobody(), pool.moved(change).next().is_none());
            prop_assert_eq!(pool.donees().map(|request| request.user).collect::<List<_>>(), donees(&pool));
            threads.follow(&pool.moved(change).collect::<List<_>>(), |user| pool.waits_on(user));
            let now = holders(&pool);
            let new = now.iter().copied().filter(|user| !before.1.contains(user)).collect::<List<_>>();
            prop_assert_eq!(change.granted.map(|grant| grant.user).into_iter().collect::<List<_>>(), new);
            if let Some(Grant { user, replica }) = change.granted {
                prop_assert_eq!(pool.queues()[usize::from(replica)].holder, Some(user));
            }
            // No request in a queue is overtaken.
            for (before, now) in before.0.iter().zip(fifos(&pool)) {
                let mut stayed = before.clone();
                stayed.retain(|user| now.contains(user));
                prop_assert_eq!(&now[..stayed.len()], &stayed[..]);
                prop_assert!(now.len() <= stayed.len() + 1);
            }
            check(&pool, is_advised);
            check_inheritance(&pool, &threads);
        }
        // No request is forgotten: when holders release, each request has a turn.
        let mut waiting: BTreeSet<u16> = pool.requests().iter().map(|request| request.user).collect();
        while let Some(holder) = holders(&pool).first().copied() {
            prop_assert!(waiting.remove(&holder));
            let _ = act(&mut pool, &mut keys, Step::Release(holder), &Unadvised);
        }
        prop_assert!(waiting.is_empty(), "a lost request");
    }
}

//--- Every interleaving

/// All that `jobs` jobs can do with a pool, in every order. All base keys are different, and the first two jobs have
/// two each.
fn every_interleaving(name: &str, rules: Rules, jobs: u16) -> usize {
    let next = |(before, lowered): &(Tested, List<bool>)| {
        let mut reached = List::new();
        for user in 0..jobs {
            let lower = lowered[usize::from(user)];
            let key = |lower: bool| u32::from(user) + if lower { 10 } else { 0 };
            let steps = [Step::Issue(user, 1), Step::Release(user), Step::Withdraw(user), Step::Key(user, key(!lower))];
            for step in steps.into_iter().take(if user < 2 { 4 } else { 3 }) {
                let (mut pool, mut lowered) = (before.clone(), lowered.clone());
                let mut keys: List<u32> = (0..jobs).map(|_| key(lower)).collect();
                let is_change = act(&mut pool, &mut keys, step, &Unadvised).is_some();
                if let Step::Key(..) = step
                    && is_change
                {
                    lowered[usize::from(user)] = !lower;
                }
                reached.push((pool, lowered));
            }
        }
        reached
    };
    explore(name, (pool(rules), vec![false; usize::from(jobs)]), next, |(pool, _)| {
        check(pool, false);
        for request in pool.requests() {
            let target = request.waits_on.map(|target| pool.request_of(target).expect("it has a request").place);
            match (request.place, target) {
                (Place::Fifo { ahead: 0, .. } | Place::Priority, None)
                | (Place::Donor { .. }, Some(Place::Fifo { .. })) => {}
                (Place::Fifo { replica, .. }, Some(Place::Fifo { replica: of, ahead: 0 })) if replica == of => {}
                wrong => panic!("{wrong:?}"),
            }
        }
        let mut end = pool.clone();
        while let Some(holder) = holders(&end).first().copied() {
            let _ = end.release(holder, &Unadvised);
        }
        assert!(end.requests().is_empty(), "a lost request");
    })
}

#[test]
fn no_interleaving_of_five_jobs_breaks_the_r2dglp_or_its_kin() {
    let two = |cpus, limit| Rules { limit, ..Rules::r2dglp(2, cpus) };
    let together = |cpus, total| Rules { total: Some(total), ..Rules::r2dglp(2, cpus) };
    let states = [
        every_interleaving("R2DGLP, 2 replicas, 2 CPUs, 5 jobs", Rules::r2dglp(2, 2), 5),
        every_interleaving("R2DGLP, 2 replicas, 4 CPUs, 5 jobs", Rules::r2dglp(2, 4), 5),
        every_interleaving("pure priority, 2 replicas, 3 CPUs, 5 jobs", two(3, Some(1)), 5),
        every_interleaving("k-FMLP, 2 replicas, 5 jobs", two(2, None), 5),
        every_interleaving("R2DGLP, 2 replicas, 3 CPUs, 3 in all queues, 5 jobs", together(3, 3), 5),
        every_interleaving("by priority, 2 replicas, 4 CPUs, 3 in all queues, 5 jobs", together(4, 3), 5),
    ];
    assert!(states.iter().all(|states| *states > 1_000), "{states:?}");
}

//--- By name

/// Elliott 2015, section 3.3.3: the highest request waits in FQ1 and is stolen by FQ2. The holder of FQ1 inherits from it
/// until then.
#[test]
fn a_steal_lowers_the_old_holders_priority() {
    let [low, other, middle, high] = [0, 1, 2, 3];
    let mut keys = [40, 30, 20, 10];
    let mut threads = Threads::with_keys(&keys);
    let mut pool = pool(Rules::k_fmlp(2, 2, Measure::Requests));
    let advice = [Preferred(0), Preferred(1), Preferred(0), Preferred(0)];
    for (user, advice) in [low, other, middle, high].into_iter().zip(advice) {
        let change = act(&mut pool, &mut keys, Step::Issue(user, 1), &advice).expect("a request");
        threads.follow(&pool.moved(change).collect::<List<_>>(), |user| pool.waits_on(user));
    }
    assert_eq!(fifos(&pool), [vec![low, middle, high], vec![other]]);
    assert_eq!(threads.key_of(low), Some(10));

    let change = pool.release(other, &Unadvised).expect("it holds");
    threads.follow(&pool.moved(change).collect::<List<_>>(), |user| pool.waits_on(user));
    assert_eq!(change.granted, Some(Grant { user: high, replica: 1 }));
    assert_eq!(threads.key_of(low), Some(20), "what middle lends it is left");
    assert_eq!(threads.key_of(high), Some(10));
}

#[test]
fn a_donor_gets_the_place_of_its_donee_and_lends_it_its_priority_until_then() {
    let mut keys = [10, 20, 30, 40, 0];
    let mut threads = Threads::with_keys(&keys);
    let mut pool = pool(Rules::r2dglp(2, 4));
    for user in [0, 1, 2, 3, 4] {
        let change = act(&mut pool, &mut keys, Step::Issue(user, 1), &Unadvised).expect("a request");
        threads.follow(&pool.moved(change).collect::<List<_>>(), |user| pool.waits_on(user));
    }
    // User 3 waits behind user 1, and is the only one not in M.
    assert_eq!(donations(&pool), BTreeSet::from([(4, 3)]));
    assert_eq!(threads.key_of(1), Some(0), "through the queue, too");

    let change = pool.withdraw(3, &Unadvised).expect("it waits");
    threads.stop(3);
    threads.follow(&pool.moved(change).collect::<List<_>>(), |user| pool.waits_on(user));
    assert_eq!(fifos(&pool), [vec![0, 2], vec![1, 4]]);
    assert_eq!(pool.waits_on(4), Some(1));
}

#[test]
fn with_queues_full_of_donees_the_lowest_donor_makes_place() {
    // Correction (b): as many places as CPUs, and all donees taken.
    let mut pool = pool(Rules::r2dglp(2, 2));
    let mut keys = [50, 40, 30, 20, 10];
    for user in 0..5 {
        let _ = act(&mut pool, &mut keys, Step::Issue(user, 1), &Unadvised);
    }
    assert_eq!(donations(&pool), BTreeSet::from([(3, 1), (4, 0)]));
    assert_eq!(pool.request_of(2).map(|request| request.place), Some(Place::Priority));
}

/// The text argues that a request of M that is released has no donor, so that no request in PQ comes into M by a release.
/// But a donee can come into M after it got its donor.
#[test]
fn a_request_that_comes_into_m_in_pq_becomes_a_donor() {
    let mut pool = pool(Rules::r2dglp(3, 3));
    let mut keys = [80, 10, 90, 20, 30, 85];
    for user in 0..5 {
        let _ = act(&mut pool, &mut keys, Step::Issue(user, 1), &Unadvised);
    }
    assert_eq!(donations(&pool), BTreeSet::from([(3, 2), (4, 0)]));
    // User 0 comes into M, and keeps its donor.
    let _ = pool.release(1, &Unadvised).expect("it holds");
    let _ = act(&mut pool, &mut keys, Step::Issue(5, 1), &Unadvised);
    assert_eq!(pool.request_of(5).map(|request| request.place), Some(Place::Priority));
    // The released request leaves its place to its donor, and M to the head of PQ.
    let _ = pool.release(0, &Unadvised).expect("it holds");
    assert_eq!(donations(&pool), BTreeSet::from([(5, 2)]));
}

#[test]
fn a_place_that_nobody_in_pq_wants_goes_to_a_donor_of_others() {
    let mut pool = pool(Rules::r2dglp(2, 2));
    let mut keys = [50, 10, 20];
    for user in 0..3 {
        let _ = act(&mut pool, &mut keys, Step::Issue(user, 1), &Unadvised);
    }
    assert_eq!(donations(&pool), BTreeSet::from([(2, 0)]));
    let change = pool.release(1, &Unadvised).expect("it holds");
    assert_eq!(change.granted, Some(Grant { user: 2, replica: 1 }));
    assert_eq!(donations(&pool), BTreeSet::new());
}

#[test]
fn advice_to_a_full_queue_or_to_none_at_all_is_not_taken() {
    let mut pool = pool(Rules::r2dglp(2, 4));
    for (user, advised, expected) in [(0, 1, 1), (1, 1, 1), (2, 1, 0), (3, 7, 0)] {
        let _ = pool.request(user, 0, Nanoseconds(1), &Preferred(advised));
        let Some(Place::Fifo { replica, .. }) = pool.request_of(user).map(|request| request.place) else { panic!() };
        assert_eq!(replica, expected, "user {user}");
    }
}

#[test]
fn a_pool_without_replicas_and_one_without_places_refuse() {
    let mut none = Tested::EMPTY;
    assert_eq!(none.request(0, 0, Nanoseconds(1), &Unadvised), Err(LockError::Full));
    let mut pool = pool(Rules::k_fmlp(1, 1, Measure::Requests));
    for user in 0..USERS as u16 {
        assert!(pool.request(user, 0, Nanoseconds(1), &Unadvised).is_ok());
    }
    assert_eq!(pool.request(99, 0, Nanoseconds(1), &Unadvised), Err(LockError::Full));
    assert_eq!(pool.request(3, 0, Nanoseconds(1), &Unadvised), Err(LockError::AlreadyHeld));
    assert_eq!(pool.release(3, &Unadvised), Err(LockError::NotHeld));
    assert_eq!(pool.withdraw(99, &Unadvised), None);
}

//--- Bounds

#[test]
fn a_request_is_blocked_by_as_many_others_as_the_text_says() {
    assert_eq!([(4, 2), (6, 4), (12, 8)].map(|(cpus, replicas)| r2dglp_requests(cpus, replicas)), [3, 3, 3]);
    assert_eq!([(4, 4), (2, 8)].map(|(cpus, replicas)| r2dglp_requests(cpus, replicas)), [1, 1], "k >= c");
    assert_eq!(k_fmlp_requests(10, 4), 2);
    assert_eq!(k_fmlp_requests(10, 3), 3);
    assert_eq!(k_fmlp_blocking_by_length(&[4, 4, 5].map(Nanoseconds), 2), Nanoseconds(7), "6.5 rounded up");
}

/// The evaluation's table for 6 CPUs and 1 GPU, with 1, 2, 3 and 6 tokens.
#[test]
fn queues_for_six_cpus_are_as_long_as_the_evaluation_says() {
    assert_eq!([1, 2, 3, 6].map(|tokens| r2dglp_limit(tokens, 6)), [6, 3, 2, 1]);
    assert_eq!(r2dglp_limit(12, 6), 1);
    assert!(!Rules::r2dglp(12, 6).admits_by_priority());
}

/// Gives a free replica to this user.
struct To(u16);

impl Advice<u32, 4, USERS> for To {
    fn steal(&self, _: &Tested, _: u8) -> Steal {
        Steal::From(self.0)
    }
}

#[test]
fn a_free_replica_goes_to_whom_it_is_advised_to_if_that_waits_and_to_the_highest_else() {
    for (advised, next) in [(3, 3), (2, 2), (0, 2), (8, 2)] {
        let mut pool = pool(Rules::k_fmlp(2, 4, Measure::Requests));
        for (user, replica) in [(0, 0), (1, 1), (2, 0), (3, 0)] {
            let _ = pool.request(user, u32::from(user), Nanoseconds(1), &Preferred(replica)).unwrap();
        }
        let change = pool.release(1, &To(advised)).unwrap();
        assert_eq!(change.granted, Some(Grant { user: next, replica: 1 }), "advised {advised}");
    }
}

/// Advice to wait at the first replica, with a fixed decision for a free one.
struct First(Steal);

impl Advice<u32, 4, USERS> for First {
    fn queue(&self, _: &Tested, _: u16) -> Option<u8> {
        Some(0)
    }

    fn steal(&self, _: &Tested, _: u8) -> Steal {
        self.0
    }
}

/// With a limit on all queues a request that waited outside may be advised to another queue than the one that is free now; that one then steals, unless it is
/// advised not to.
#[test]
fn who_comes_into_another_queue_than_the_free_one_is_stolen_for_that() {
    for (steal, place) in [(Steal::Highest, (1, 0)), (Steal::Nothing, (0, 1))] {
        let mut pool = pool(Rules { total: Some(2), limit: Some(2), ..Rules::r2dglp(2, 4) });
        for (user, replica) in [(0, 0), (1, 1)] {
            let _ = pool.request(user, u32::from(user), Nanoseconds(1), &Preferred(replica)).unwrap();
        }
        let _ = pool.request(2, 2, Nanoseconds(1), &Unadvised).unwrap();
        let _ = pool.release(1, &First(steal)).unwrap();
        let (replica, ahead) = place;
        assert_eq!(pool.requests()[1].place, Place::Fifo { replica, ahead }, "{steal:?}");
    }
}

/// Donates to this user.
struct For(u16);

impl Advice<u32, 4, USERS> for For {
    fn donee(&self, _: &Tested, _: u16) -> Option<u16> {
        Some(self.0)
    }
}

#[test]
fn a_donor_donates_to_whom_it_is_advised_to_if_it_may_and_to_the_lowest_else() {
    for (advised, donee) in [(2, 2), (1, 1), (3, 3), (0, 3), (8, 3)] {
        let mut pool = pool(Rules { limit: Some(4), ..Rules::r2dglp(1, 2) });
        for user in 0..4 {
            let _ = pool.request(user, 10 + u32::from(user), Nanoseconds(1), &Unadvised).unwrap();
        }
        let _ = pool.request(4, 1, Nanoseconds(1), &For(advised)).unwrap();
        assert_eq!(donations(&pool), BTreeSet::from([(4, donee)]), "advised {advised}");
    }
}
