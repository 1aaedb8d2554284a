//! The rule by brute force, and chains by name.

use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const THREADS: usize = 14;

/// Threads and reservations of the same numbers; reservation `t` is that of thread `t`, if it has one.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    nodes: Vec<Node<u16, u16, (u32, u16)>>,
    owns: Vec<bool>,
    dry: Vec<bool>,
    pub(crate) keys: Vec<u32>,
    clusters: Vec<u8>,
    /// Model of the kernel's record: the thread that runs on each reservation.
    runners: Vec<Option<u16>>,
    /// Threads that are to be settled.
    unsettled: Vec<u16>,
    /// Reservations whose runner may have changed.
    touched: Vec<u16>,
    /// Whether everything is settled only when [`Threads::settle_all`] is called.
    is_lazy: bool,
}

impl Graph for Threads {
    type Thread = u16;
    type Reservation = u16;
    type Key = (u32, u16);

    fn node(&self, thread: u16) -> &Node<u16, u16, Self::Key> {
        &self.nodes[usize::from(thread)]
    }

    fn node_mut(&mut self, thread: u16) -> &mut Node<u16, u16, Self::Key> {
        &mut self.nodes[usize::from(thread)]
    }

    fn own(&self, thread: u16) -> Option<u16> {
        (self.owns[usize::from(thread)] && !self.dry[usize::from(thread)]).then_some(thread)
    }

    fn key(&self, reservation: u16) -> Self::Key {
        (self.keys[usize::from(reservation)], reservation)
    }

    fn cluster(&self, reservation: u16) -> u8 {
        self.clusters[usize::from(reservation)]
    }

    fn touch(&mut self, reservation: u16) {
        self.touched.push(reservation);
    }
}

impl Threads {
    fn new(owns: Vec<bool>, clusters: Vec<u8>, keys: Vec<u32>) -> Threads {
        let count = owns.len();
        let mut threads = Threads {
            nodes: vec![Node::new((0, 0)); count],
            owns,
            dry: vec![false; count],
            keys,
            clusters,
            runners: vec![None; count],
            unsettled: Vec::new(),
            touched: Vec::new(),
            is_lazy: false,
        };
        (0..count as u16).for_each(|thread| threads.settle(thread));
        threads
    }

    /// Threads that all have reservations in one cluster, with these keys.
    pub(crate) fn with_keys(keys: &[u32]) -> Threads {
        Threads::new(vec![true; keys.len()], vec![0; keys.len()], keys.to_vec())
    }

    pub(crate) fn settle(&mut self, thread: u16) {
        self.unsettled.push(thread);
        if !self.is_lazy {
            self.settle_all();
        }
    }

    fn settle_all(&mut self) {
        while let Some(thread) = self.unsettled.pop() {
            settle(self, thread);
        }
        while let Some(reservation) = self.touched.pop() {
            self.runners[usize::from(reservation)] = carrier(self, reservation, reservation);
        }
    }

    pub(crate) fn wait(&mut self, waiter: u16, target: u16) {
        may_wait_for(self, waiter, target).expect("the chain is short");
        wait_for(self, waiter, target);
        self.settle(waiter);
    }

    pub(crate) fn stop(&mut self, waiter: u16) {
        if let Some(target) = stop_waiting(self, waiter) {
            self.settle(waiter);
            self.settle(target);
        }
    }

    /// Lets the threads that an operation of a lock has moved wait for their new targets.
    pub(crate) fn follow(&mut self, moved: &[u16], waits_on: impl Fn(u16) -> Option<u16>) {
        moved.iter().for_each(|waiter| self.stop(*waiter));
        for waiter in moved {
            if let Some(target) = waits_on(*waiter) {
                self.wait(*waiter, target);
            }
        }
    }

    /// The key that `thread` runs or waits with.
    pub(crate) fn key_of(&self, thread: u16) -> Option<u32> {
        self.node(thread).chosen().map(|chosen| self.keys[usize::from(chosen)])
    }
}

//--- By brute force

fn donors(threads: &Threads, thread: u16) -> Vec<u16> {
    (0..threads.nodes.len() as u16).filter(|other| threads.node(*other).waits_for() == Some(thread)).collect()
}

/// The rule, read from its text.
fn oracle(threads: &Threads, thread: u16) -> Option<u16> {
    let offers: Vec<u16> = donors(threads, thread).into_iter().filter_map(|donor| oracle(threads, donor)).collect();
    let own = threads.own(thread);
    let makes = |cluster: &u8| offers.iter().any(|offer| threads.cluster(*offer) == *cluster);
    let served = threads.node(thread).serving().and_then(|client| oracle(threads, client));
    let served = served.map(|offer| threads.cluster(offer));
    let home = own.map(|own| threads.cluster(own)).filter(makes);
    let lowest = (0..CLUSTERS as u8).find(makes);
    let Some(cluster) = served.or(home).or(lowest) else { return own };
    let all = offers.iter().copied().chain(own);
    all.filter(|offer| threads.cluster(*offer) == cluster).min_by_key(|offer| threads.key(*offer))
}

/// Whether a donor offers a reservation of another cluster than that of the chosen one.
fn has_foreign_offer(threads: &Threads, thread: u16) -> bool {
    let Some(chosen) = oracle(threads, thread) else { return false };
    let home = threads.cluster(chosen);
    donors(threads, thread)
        .into_iter()
        .filter_map(|donor| oracle(threads, donor))
        .any(|offer| threads.cluster(offer) != home)
}

/// Whether the thread, or a thread that waits for it directly or through others, has a foreign offer.
fn is_urgent_by_text(threads: &Threads, thread: u16) -> bool {
    has_foreign_offer(threads, thread)
        || donors(threads, thread).into_iter().any(|donor| is_urgent_by_text(threads, donor))
}

fn depth(threads: &Threads, thread: u16) -> usize {
    donors(threads, thread).into_iter().map(|donor| depth(threads, donor) + 1).max().unwrap_or(0)
}

fn check(threads: &Threads) -> Result<(), TestCaseError> {
    for thread in 0..threads.nodes.len() as u16 {
        let node = threads.node(thread);
        prop_assert_eq!(node.chosen(), oracle(threads, thread), "thread {}", thread);
        prop_assert_eq!(node.depth(), depth(threads, thread), "thread {}", thread);
        prop_assert_eq!(has_foreign_donors(threads, thread), has_foreign_offer(threads, thread), "thread {}", thread);
        let urgent = is_urgent_by_text(threads, thread);
        prop_assert_eq!((node.is_urgent(), is_urgent(threads, thread)), (urgent, urgent), "thread {}", thread);
        let donor = a_donor(threads, thread);
        prop_assert_eq!(donor.is_some(), !node.is_alone());
        prop_assert!(donor.is_none_or(|donor| threads.node(donor).waits_for() == Some(thread)));
        prop_assert!(node.depth() + usize::from(node.waits_for().is_some()) <= CHAIN_MAX);
        let runs: Vec<u16> = (0..threads.nodes.len() as u16)
            .filter(|other| threads.node(*other).waits_for().is_none() && threads.node(*other).chosen() == Some(thread))
            .collect();
        prop_assert!(runs.len() <= 1, "reservation {} on two threads", thread);
        prop_assert_eq!(threads.runners[usize::from(thread)], runs.first().copied(), "reservation {}", thread);
        // Every donor is in one heap, and in order.
        let mut seen = Vec::new();
        for root in node.heaps {
            let mut stack = vec![root];
            while let Some(link) = stack.pop() {
                if let Some(link) = link {
                    let member = threads.node(link);
                    seen.push(link);
                    let rank = |child: Option<u16>| child.map_or(0, |child| threads.node(child).rank);
                    let (left, right) = (rank(member.left), rank(member.right));
                    prop_assert!(left >= right && member.rank == right + 1, "a heap that does not lean to the left");
                    for child in [member.left, member.right] {
                        let in_order = child.is_none_or(|child| member.key <= threads.node(child).key);
                        prop_assert!(in_order, "a heap out of order");
                        stack.push(child);
                    }
                }
            }
        }
        seen.extend(node.only());
        prop_assert_eq!(usize::from(node.donors), seen.len() - node.only().iter().len());
        seen.sort_unstable();
        prop_assert_eq!(seen, donors(threads, thread));
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u16, u16),
    Stop(u16),
    Key(u16, u32),
    Budget(u16, bool),
    Serve(u16, bool),
    /// The fast path of a call, and of its reply.
    Lend(u16, u16),
}

fn step() -> impl Strategy<Value = Step> {
    let thread = 0..THREADS as u16;
    prop_oneof![
        5 => (thread.clone(), thread.clone()).prop_map(|(waiter, target)| Step::Wait(waiter, target)),
        3 => thread.clone().prop_map(Step::Stop),
        3 => (thread.clone(), 0u32..20).prop_map(|(thread, key)| Step::Key(thread, key)),
        2 => (thread.clone(), any::<bool>()).prop_map(|(thread, dry)| Step::Budget(thread, dry)),
        1 => (thread.clone(), any::<bool>()).prop_map(|(client, is_plain)| Step::Serve(client, is_plain)),
        5 => (thread.clone(), thread).prop_map(|(waiter, target)| Step::Lend(waiter, target)),
    ]
}

fn apply(threads: &mut Threads, step: &Step) -> Result<(), TestCaseError> {
    match *step {
        Step::Wait(waiter, target) => {
            if threads.node(waiter).waits_for().is_some() {
                return Ok(());
            }
            let mut chain = vec![target];
            while let Some(next) = threads.node(chain[chain.len() - 1]).waits_for() {
                chain.push(next);
            }
            let expected = if chain.contains(&waiter) {
                Err(Refusal::Cycle)
            } else if depth(threads, waiter) + chain.len() >= CHAIN_MAX {
                Err(Refusal::TooLong)
            } else {
                Ok(())
            };
            prop_assert_eq!(may_wait_for(threads, waiter, target), expected);
            if expected.is_ok() {
                threads.wait(waiter, target);
            }
        }
        Step::Stop(waiter) => threads.stop(waiter),
        Step::Key(thread, key) => {
            threads.keys[usize::from(thread)] = key;
            threads.settle(thread);
        }
        Step::Budget(thread, dry) => {
            threads.dry[usize::from(thread)] = dry;
            threads.settle(thread);
        }
        Step::Lend(waiter, target) => {
            threads.settle_all();
            let (one, other) = (threads.node(waiter), threads.node(target));
            if has_lent(threads, waiter, target) {
                if other.waits_for().is_none() {
                    take_back(threads, waiter, target);
                    prop_assert!(threads.node(waiter).waits_for().is_none() && threads.node(target).is_alone());
                    prop_assert!(!has_lent(threads, waiter, target));
                    threads.settle(waiter);
                    threads.settle(target);
                }
            } else if one.waits_for().is_none()
                && other.waits_for().is_none()
                && other.is_alone()
                && one.chosen().is_some()
                && !one.is_urgent()
                && may_wait_for(threads, waiter, target).is_ok()
                && threads.own(target).is_none()
            {
                let chosen = one.chosen();
                lend(threads, waiter, target);
                prop_assert!(has_lent(threads, waiter, target) && !has_lent(threads, target, waiter));
                if let Some(chosen) = chosen {
                    threads.runners[usize::from(chosen)] = Some(target);
                }
            }
        }
        Step::Serve(client, is_plain) => {
            if let Some(server) = threads.node(client).waits_for() {
                // A client whose call a fast reply may end is not served anew.
                if threads.node(server).lent_by == Some(client) {
                    return Ok(());
                }
                serve(threads, server, client, is_plain);
                prop_assert_eq!(threads.node(server).serving(), Some(client));
                threads.settle(server);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn whenever_all_are_settled_each_thread_has_what_the_rule_says(
        owns in prop::collection::vec(any::<bool>(), THREADS),
        clusters in prop::collection::vec(prop::sample::select(vec![0u8, 0, 0, 1, 7]), THREADS),
        keys in prop::collection::vec(0u32..20, THREADS),
        steps in prop::collection::vec((step(), any::<bool>()), 1..40),
        is_lazy: bool,
    ) {
        let mut threads = Threads::new(owns, clusters, keys);
        threads.is_lazy = is_lazy;
        for (number, (step, settles)) in steps.iter().enumerate() {
            apply(&mut threads, step)?;
            if !is_lazy || *settles || number + 1 == steps.len() {
                threads.settle_all();
                check(&threads)?;
            }
        }
    }
}

//--- By name

/// Elliott 2015, figure 3.10. A donor waits in a queue whose head waits for a copy engine. The holder of that engine
/// waits for a second one, and the holder of the second one is suspended on its transfer. The callback thread and the
/// interrupt's bottom half work for the last holder. Smaller keys are earlier.
#[test]
fn all_helpers_of_a_long_chain_run_at_its_highest_priority_and_fall_when_that_one_is_stolen() {
    // t1 donates to t2, which queues behind t3, as t4 does; t3 waits for the engine of t6, as t5 does; t6 for that of
    // t8, as t7 does; t8 is suspended on its transfer. t9 waits for another transfer of the same device.
    let [t1, t2, t3, t4, t5, t6, t7, t8, t9, callback, bottom_half] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    let keys = [30, 40, 50, 10, 60, 70, 80, 90, 20];
    let mut owns = vec![true; 9];
    owns.extend([false, false]);
    let mut all = keys.to_vec();
    all.extend([0, 0]);
    let mut threads = Threads::new(owns, vec![0; 11], all);
    for (waiter, target) in [(t1, t2), (t2, t3), (t4, t3), (t3, t6), (t5, t6), (t6, t8), (t7, t8), (t8, callback)] {
        threads.wait(waiter, target);
    }
    // The bottom half signals the callback thread and t9.
    threads.wait(callback, bottom_half);
    threads.wait(t9, bottom_half);
    assert_eq!(threads.key_of(callback), Some(10));
    assert_eq!(threads.key_of(bottom_half), Some(10));
    assert_eq!(threads.runners[usize::from(t4)], Some(bottom_half), "on whose budget");

    // t4 is stolen by another queue.
    threads.stop(t4);
    assert_eq!([t3, t6, t8, callback].map(|thread| threads.key_of(thread)), [Some(30); 4]);
    assert_eq!(threads.key_of(bottom_half), Some(20), "t9 waits for it, too");
    assert_eq!(threads.runners[usize::from(t4)], Some(t4), "it may go its own way");
    check(&threads).expect("the rule holds");
}

#[test]
fn a_donor_that_runs_dry_is_passed_over_until_it_is_refilled() {
    let mut threads = Threads::with_keys(&[5, 7, 9]);
    threads.wait(0, 2);
    threads.wait(1, 2);
    assert_eq!(threads.node(2).chosen(), Some(0));
    threads.dry[0] = true;
    threads.settle(0);
    assert_eq!(threads.node(2).chosen(), Some(1));
    threads.dry[0] = false;
    threads.settle(0);
    assert_eq!(threads.node(2).chosen(), Some(0));
}

#[test]
fn nobody_waits_in_a_circle_or_in_a_row_that_is_too_long() {
    let mut threads = Threads::with_keys(&[0; CHAIN_MAX + 2]);
    for waiter in 0..CHAIN_MAX as u16 - 1 {
        threads.wait(waiter, waiter + 1);
    }
    let last = CHAIN_MAX as u16 - 1;
    assert_eq!(may_wait_for(&threads, last, 0), Err(Refusal::Cycle));
    assert_eq!(may_wait_for(&threads, last, last + 1), Err(Refusal::TooLong));
    assert_eq!(may_wait_for(&threads, last + 1, 0), Err(Refusal::TooLong));
    assert_eq!(may_wait_for(&threads, last + 1, 1), Ok(()));
}

#[test]
fn who_is_marked_is_to_be_settled_until_somebody_has_walked_past() {
    let mut threads = Threads::with_keys(&[5, 7]);
    assert!(!threads.node(0).is_marked());
    threads.node_mut(0).mark();
    assert!(threads.node(0).is_marked() && !threads.node(1).is_marked());
    threads.settle(0);
    assert!(!threads.node(0).is_marked());
    // A thread without a choice chooses without a walk.
    threads.node_mut(1).mark();
    threads.node_mut(1).choose_own(None);
    assert_eq!((threads.node(1).is_marked(), threads.node(1).chosen()), (false, None));
    threads.node_mut(1).choose_own(Some(1));
    assert_eq!(threads.node(1).chosen(), Some(1));
}

/// A choice among 500 donors looks at no more of them than a choice among a few.
#[test]
fn five_hundred_donors_come_and_go_in_any_order() {
    let count = 500;
    let keys: Vec<u32> = (0..count).map(|index| index * 7919 % 1009).chain([2000]).collect();
    let mut threads = Threads::with_keys(&keys);
    let server = count as u16;
    for donor in 0..server {
        threads.wait(donor, server);
        assert!(threads.nodes.iter().all(|node| node.rank <= 9), "ranks grow with the logarithm");
    }
    for step in 0..server {
        let donor = step * 7 % server;
        let earliest = donors(&threads, server).into_iter().min_by_key(|donor| threads.key(*donor));
        assert_eq!(threads.node(server).chosen(), earliest);
        threads.stop(donor);
    }
    assert!(threads.node(server).is_alone());
}
