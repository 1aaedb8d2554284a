//! One queue for each lock, a group of one against the engine lock, and every interleaving of five jobs.

use super::*;
use crate::engine::{EngineLock, State};
use crate::interleavings::explore;
use crate::propagation::tests::Threads;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec as List;

const USERS: usize = 7;
const LOCKS: usize = 5;
type Tested = GroupLock<u32, USERS>;

fn group(order: Order) -> Tested {
    let mut group = Tested::EMPTY;
    group.set_order(order);
    group
}

fn set(locks: &[u8]) -> LockSet {
    locks.iter().fold(LockSet::EMPTY, |set, lock| set.with(*lock))
}

fn locks(set: LockSet) -> impl Iterator<Item = usize> {
    (0..LOCKS).filter(move |lock| set.overlaps(LockSet::EMPTY.with(*lock as u8)))
}

fn holders(group: &Tested) -> List<u16> {
    let holders = group.requests().iter().filter(|request| request.waits == Waits::Not);
    let mut holders: List<u16> = holders.map(|request| request.user).collect();
    holders.sort_unstable();
    holders
}

//--- One queue for each lock

/// The structure of the text: a queue for each lock, holders in them. A request that is first in all of its queues has
/// its locks.
struct Queues {
    by_priority: bool,
    queues: List<List<u16>>,
    keys: List<u32>,
    needs: List<LockSet>,
    holders: List<u16>,
    draining: List<bool>,
}

impl Queues {
    fn is_known(&self, user: u16) -> bool {
        self.queues.iter().flatten().any(|other| *other == user)
    }

    /// Queues the request behind requests that hold the lock or come earlier.
    fn enter(&mut self, user: u16) {
        for lock in locks(self.needs[usize::from(user)]) {
            let comes_later = |other: &u16| {
                let later = self.keys[usize::from(*other)] > self.keys[usize::from(user)];
                self.by_priority && later && !self.holders.contains(other)
            };
            let queue = &self.queues[lock];
            let at = queue.iter().position(comes_later).unwrap_or(queue.len());
            self.queues[lock].insert(at, user);
        }
    }

    fn leave(&mut self, user: u16) {
        self.queues.iter_mut().for_each(|queue| queue.retain(|other| *other != user));
        self.holders.retain(|other| *other != user);
    }

    fn grant(&mut self) {
        for user in (0..USERS as u16).filter(|user| self.is_known(*user)).collect::<List<_>>() {
            let is_first = |lock: usize| self.queues[lock].first() == Some(&user) && !self.draining[lock];
            if !self.holders.contains(&user) && locks(self.needs[usize::from(user)]).all(is_first) {
                self.holders.push(user);
            }
        }
        self.holders.sort_unstable();
    }

    /// Whether `user` cannot have its locks before `holder` releases, as things are.
    fn waits_for(&self, user: u16, holder: u16) -> bool {
        // The search goes through the queues, from a waiter to the requests ahead of it.
        let mut behind = vec![user];
        let mut next = 0;
        while let Some(user) = behind.get(next).copied() {
            for queue in self.queues.iter().filter(|queue| queue.contains(&user)) {
                for ahead in queue.iter().take_while(|other| **other != user) {
                    if !behind.contains(ahead) {
                        behind.push(*ahead);
                    }
                }
            }
            next += 1;
        }
        user != holder && behind.contains(&holder)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Issue(u16, List<u8>),
    Release(u16, List<u8>),
    Drained(u8),
    Drain(u8),
    Withdraw(u16),
    Key(u16, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let user = 0..USERS as u16;
    let some = |size| prop::collection::vec(0..LOCKS as u8, size);
    prop_oneof![
        6 => (user.clone(), some(1..4)).prop_map(|(user, locks)| Step::Issue(user, locks)),
        4 => (user.clone(), some(0..3)).prop_map(|(user, busy)| Step::Release(user, busy)),
        3 => (0..LOCKS as u8).prop_map(Step::Drained),
        1 => (0..LOCKS as u8).prop_map(Step::Drain),
        1 => user.clone().prop_map(Step::Withdraw),
        1 => (user, 0u32..30).prop_map(|(user, key)| Step::Key(user, key)),
    ]
}

/// The invariants of the module's head.
fn check(group: &Tested) {
    let mut taken = group.draining();
    for request in group.requests().iter().filter(|request| request.waits == Waits::Not) {
        assert!(!taken.overlaps(request.locks), "1: two holders");
        taken = taken.or(request.locks);
    }
    let waits = group.requests().iter().any(|request| request.waits != Waits::Not);
    assert!(!waits || taken != LockSet::EMPTY, "2: a deadlock");
    for request in group.requests() {
        match request.waits {
            Waits::Not => {}
            Waits::For(user) => assert_eq!(group.request_of(user).map(|holder| holder.waits), Some(Waits::Not), "3"),
            Waits::ForDrain(lock) => assert!(group.draining().overlaps(LockSet::EMPTY.with(lock))),
        }
    }
}

/// No request is forgotten: when holders release and locks drain, each request has a turn.
fn check_end(mut group: Tested) {
    (0..LOCKS as u8).for_each(|lock| _ = group.drained(lock));
    while let Some(holder) = holders(&group).first().copied() {
        let _ = group.release(holder, LockSet::EMPTY);
    }
    assert!(group.requests().is_empty(), "a lost request");
}

/// Checks that an operation reports exactly the requests that it has changed.
fn check_report(
    group: &Tested,
    change: Change,
    before: &(Tested, List<u16>),
    queues: &Queues,
) -> Result<(), TestCaseError> {
    let new: List<u16> = queues.holders.iter().copied().filter(|user| !before.1.contains(user)).collect();
    let mut granted: List<u16> = group.granted(change).collect();
    granted.sort_unstable();
    prop_assert_eq!(change.grants(), !new.is_empty());
    prop_assert_eq!(granted, new);
    let mut others = group.moved(change).filter(|user| group.granted(change).all(|other| other != *user));
    prop_assert_eq!(change.moves_waiters(), others.next().is_some());
    for lock in 0..LOCKS {
        let is_wanted = queues.draining[lock] || !queues.queues[lock].is_empty();
        prop_assert_eq!(group.is_wanted(lock as u8), is_wanted);
    }
    let draining: List<u8> = (0..LOCKS as u8).filter(|lock| queues.draining[usize::from(*lock)]).collect();
    prop_assert_eq!(group.draining().iter().collect::<List<_>>(), draining);
    for request in group.requests() {
        let was = before.0.request_of(request.user).map(|request| request.waits);
        prop_assert_eq!(group.moved(change).any(|user| user == request.user), was != Some(request.waits));
    }
    Ok(())
}

/// Checks that each waiter lends to the one holder for which it waits, and that this holder has the highest of the keys lent to it.
fn check_loans(group: &Tested, threads: &Threads, queues: &Queues) -> Result<(), TestCaseError> {
    for request in group.requests() {
        if let Waits::For(holder) = request.waits {
            prop_assert!(queues.waits_for(request.user, holder));
        }
        let lent = group.requests().iter().filter(|other| other.waits == Waits::For(request.user));
        let all = lent.map(|other| other.user).chain([request.user]);
        prop_assert_eq!(threads.key_of(request.user), all.map(|user| queues.keys[usize::from(user)]).min());
        // The waiters for the locks of a holder decide whether it should go on.
        let rivals = queues.queues.iter().filter(|queue| queue.first() == Some(&request.user));
        let mut rivals = rivals.flat_map(|queue| queue.iter().skip(1));
        let own = queues.keys[usize::from(request.user)];
        if request.waits == Waits::Not {
            let expected = rivals.any(|user| !queues.by_priority || queues.keys[usize::from(*user)] < own);
            prop_assert_eq!(group.should_yield(request.user), expected);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn who_is_first_in_all_its_queues_has_its_locks_and_nobody_else(
        by_priority in any::<bool>(),
        keys in prop::collection::vec(0u32..30, USERS),
        steps in prop::collection::vec(step(), 1..50),
    ) {
        let mut group = group(if by_priority { Order::Priority } else { Order::Fifo });
        let mut threads = Threads::with_keys(&keys);
        let mut queues = Queues {
            by_priority,
            queues: vec![List::new(); LOCKS],
            keys,
            needs: vec![LockSet::EMPTY; USERS],
            holders: List::new(),
            draining: vec![false; LOCKS],
        };
        for step in steps {
            let before = (group.clone(), queues.holders.clone());
            let change = match step {
                Step::Issue(user, locks) => {
                    let change = group.request(user, queues.keys[usize::from(user)], set(&locks));
                    prop_assert_eq!(change.is_err(), queues.is_known(user));
                    if change.is_ok() {
                        queues.needs[usize::from(user)] = set(&locks);
                        queues.enter(user);
                    }
                    change.ok()
                }
                Step::Release(user, busy) => {
                    let change = group.release(user, set(&busy));
                    prop_assert_eq!(change.is_ok(), queues.holders.contains(&user));
                    if change.is_ok() {
                        let held = locks(queues.needs[usize::from(user)]);
                        held.filter(|lock| busy.contains(&(*lock as u8))).for_each(|lock| queues.draining[lock] = true);
                        queues.leave(user);
                    }
                    change.ok()
                }
                Step::Drained(lock) => {
                    queues.draining[usize::from(lock)] = false;
                    Some(group.drained(lock))
                }
                Step::Drain(lock) => {
                    // For a lock that no request names.
                    if queues.queues[usize::from(lock)].is_empty() {
                        group.drain(lock);
                        queues.draining[usize::from(lock)] = true;
                    }
                    prop_assert_eq!(group.draining().overlaps(set(&[lock])), queues.draining[usize::from(lock)]);
                    continue;
                }
                Step::Withdraw(user) => {
                    let change = group.withdraw(user);
                    prop_assert_eq!(change.is_some(), queues.is_known(user) && !queues.holders.contains(&user));
                    if change.is_some() {
                        queues.leave(user);
                        threads.stop(user);
                    }
                    change
                }
                Step::Key(user, key) => {
                    queues.keys[usize::from(user)] = key;
                    if queues.is_known(user) && by_priority && !queues.holders.contains(&user) {
                        queues.leave(user);
                        queues.enter(user);
                    }
                    threads.keys[usize::from(user)] = key;
                    threads.settle(user);
                    group.change_key(user, key)
                }
            };
            queues.grant();
            let Some(change) = change else {
                prop_assert_eq!(&group, &before.0);
                continue;
            };
            prop_assert_eq!(holders(&group), &queues.holders[..]);
            check(&group);
            check_report(&group, change, &before, &queues)?;
            threads.follow(&group.moved(change).collect::<List<_>>(), |user| match group.request_of(user)?.waits {
                Waits::For(holder) => Some(holder),
                _ => None,
            });
            check_loans(&group, &threads, &queues)?;
        }
        check_end(group);
    }

    /// The lock of one engine is a group of one.
    #[test]
    fn an_engine_lock_is_a_group_of_one(
        by_priority in any::<bool>(),
        keys in prop::collection::vec(0u32..6, USERS),
        steps in prop::collection::vec((0..USERS as u16, 0u8..6), 1..60),
    ) {
        let order = if by_priority { Order::Priority } else { Order::Fifo };
        let (mut group, mut lock) = (group(order), EngineLock::<USERS>::EMPTY);
        lock.set_order(order);
        let (only, key_of) = (set(&[0]), |user: u16| keys[usize::from(user)]);
        for (user, action) in steps {
            let (one, other) = match action {
                0 | 1 => (group.request(user, key_of(user), only).is_ok(), lock.request(user).is_ok()),
                2 => (group.release(user, LockSet::EMPTY).is_ok(), lock.release(user, true).is_ok()),
                3 => (group.release(user, only).is_ok(), lock.release(user, false).is_ok()),
                4 => (group.withdraw(user).is_some(), lock.withdraw(user)),
                _ => {
                    let is_draining = group.draining() == only;
                    let _ = group.drained(0);
                    (is_draining, lock.drained().is_some())
                }
            };
            let _ = lock.grant_next(key_of);
            prop_assert_eq!(one, other);
            let held = match lock.state() {
                State::Held(holder) => List::from([holder]),
                _ => List::new(),
            };
            prop_assert_eq!(holders(&group), &held[..]);
            prop_assert_eq!(group.draining() == only, matches!(lock.state(), State::Draining(_)));
            prop_assert_eq!(group.requests().len(), held.len() + lock.waiters().len());
            for holder in held {
                prop_assert_eq!(group.should_yield(holder), lock.should_yield(key_of(holder), key_of));
            }
        }
    }
}

//--- Every interleaving

/// Five jobs that need two or three of four locks each, and have two keys. Lock 0 may drain.
fn every_interleaving(name: &str, order: Order) -> usize {
    let needs = [set(&[0, 1]), set(&[1, 2]), set(&[2, 3]), set(&[0, 2, 3]), set(&[1, 3])];
    let next = |(before, lowered): &(Tested, [bool; 5])| {
        let mut reached = List::new();
        for user in 0..5u16 {
            let index = usize::from(user);
            let key = |lower: bool| u32::from(user) + if lower { 10 } else { 0 };
            for action in 0..6 {
                let (mut group, mut lowered) = (before.clone(), *lowered);
                let change = match action {
                    0 => group.request(user, key(lowered[index]), needs[index]).ok(),
                    1 => group.release(user, LockSet::EMPTY).ok(),
                    2 => group.release(user, set(&[0])).ok(),
                    3 => group.withdraw(user),
                    4 if user == 0 => Some(group.drained(0)),
                    5 => {
                        lowered[index] = !lowered[index];
                        group.change_key(user, key(lowered[index]))
                    }
                    _ => None,
                };
                if change.is_some() {
                    reached.push((group, lowered));
                }
            }
        }
        reached
    };
    explore(name, (group(order), [false; 5]), next, |(group, _)| {
        check(group);
        check_end(group.clone());
    })
}

#[test]
fn no_interleaving_of_five_jobs_breaks_group_locks() {
    let states = [
        every_interleaving("group lock by arrival, 4 locks, 5 jobs", Order::Fifo),
        every_interleaving("group lock by priority, 4 locks, 5 jobs", Order::Priority),
    ];
    assert!(states.iter().all(|states| *states > 1_000), "{states:?}");
}

//--- By name

#[test]
fn two_jobs_that_name_the_same_two_locks_in_opposite_orders_do_not_deadlock() {
    for order in [Order::Fifo, Order::Priority] {
        let mut group = group(order);
        let first = group.request(1, 20, set(&[0, 1])).expect("a place");
        assert_eq!(group.granted(first).collect::<List<_>>(), [1]);
        let second = group.request(2, 10, set(&[1, 0])).expect("a place");
        assert!(!second.grants());
        let last = group.release(1, LockSet::EMPTY).expect("it holds");
        assert_eq!(group.granted(last).collect::<List<_>>(), [2]);
    }
}

/// Elliott 2015, section 2.1.6.2: either the holder of the one lock inherits, or that of the other.
#[test]
fn who_waits_for_two_holders_lends_to_one_after_the_other() {
    let mut group = group(Order::Priority);
    let mut threads = Threads::with_keys(&[10, 20, 30]);
    for (user, key, locks) in [(1, 20, &[0][..]), (2, 30, &[1]), (0, 10, &[0, 1])] {
        let change = group.request(user, key, set(locks)).expect("a place");
        let waits_on = |user| if let Waits::For(holder) = group.request_of(user)?.waits { Some(holder) } else { None };
        threads.follow(&group.moved(change).collect::<List<_>>(), waits_on);
    }
    assert_eq!([1, 2].map(|holder| threads.key_of(holder)), [Some(10), Some(30)]);
    let change = group.release(1, LockSet::EMPTY).expect("it holds");
    assert_eq!(group.request_of(0).map(|request| request.waits), Some(Waits::For(2)));
    threads.follow(&group.moved(change).collect::<List<_>>(), |_| Some(2));
    assert_eq!([1, 2].map(|holder| threads.key_of(holder)), [Some(20), Some(10)]);
}

#[test]
fn a_lower_job_does_not_take_a_lock_that_a_higher_one_waits_for() {
    let mut group = group(Order::Priority);
    for (user, key, locks) in [(0, 30, &[0][..]), (1, 10, &[0, 1]), (2, 20, &[1])] {
        let _ = group.request(user, key, set(locks)).expect("a place");
    }
    assert_eq!(holders(&group), [0]);
    let change = group.release(0, LockSet::EMPTY).expect("it holds");
    assert_eq!(group.granted(change).collect::<List<_>>(), [1]);
}

#[test]
fn a_set_says_each_of_its_locks_once() {
    assert_eq!(set(&[31, 0, 7, 7]).iter().collect::<List<_>>(), [0, 7, 31]);
    assert_eq!(LockSet::EMPTY.iter().next(), None);
}
