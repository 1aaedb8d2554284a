//! Known values, and properties that no bound may lack. Against schedules: `locking/src/schedules.rs`, and the simulator.

use fusee_sched::key::PolicyName;
use num_rational::BigRational;
use proptest::prelude::*;

use super::*;
use crate::report::{Hard, Reason, Term, Test};
use crate::task::Task;

fn cluster(cpus: u32, periods: &[(u64, u64)]) -> Cluster {
    let task = |&(execution, period): &(u64, u64)| Task {
        execution: Nanoseconds(execution),
        period: Nanoseconds(period),
        deadline: Nanoseconds(period),
        priority: 1,
    };
    Cluster::new(cpus, PolicyName::Edf, periods.iter().map(task).collect()).unwrap()
}

fn user(task: usize, times: u32, cpu: u64, operation: u64) -> User {
    let operations = Nanoseconds(u64::from(times) * operation);
    User {
        task,
        times,
        hold: Hold { cpu: Nanoseconds(cpu), operation: Nanoseconds(operation), commands: 1 },
        operations,
    }
}

fn engine(order: Order, users: &[User]) -> Engine {
    Engine { order, users: users.to_vec(), ..Engine::default() }
}

fn engines(engines: &[Engine]) -> Locks {
    Locks { engines: engines.to_vec(), ..Locks::default() }
}

fn blocked(cluster: &Cluster, locks: &Locks) -> Vec<Blocked> {
    analyse(cluster, &Overheads::default(), locks).expect("bounds").1
}

fn spans(blocked: &[Blocked]) -> Vec<u64> {
    blocked.iter().map(|one| one.blocking.0).collect()
}

/// Three users hold for 3, 5 + 2 and 11; the second of them twice. The fourth task uses nothing.
fn three() -> [User; 3] {
    [user(0, 1, 1, 2), user(1, 2, 2, 5), user(2, 1, 11, 0)]
}

const FOUR: [(u64, u64); 4] = [(10, 1_000); 4];

#[test]
fn by_arrival_each_request_waits_for_one_hold_of_each_other() {
    for cpus in [1, 2] {
        let found = blocked(&cluster(cpus, &FOUR), &engines(&[engine(Order::Fifo, &three())]));
        assert_eq!(spans(&found), [18, 28, 10, 0]);
        assert_eq!(found.iter().map(|one| one.operations.0).collect::<Vec<_>>(), [2, 10, 0, 0]);
        assert_eq!(found.iter().map(|one| one.lends.0).collect::<Vec<_>>(), [13, 24, 3, 0]);
        assert_eq!(found[1].parts, [Part { on: On::Engine(0), span: Nanoseconds(28), largest: 2 }]);
    }
}

/// One of three operations takes 9, and all of them 12: others wait for the longest, and the job for all.
#[test]
fn operations_of_different_lengths_count_for_their_sum_and_for_the_longest() {
    let uneven = User { operations: Nanoseconds(12), ..user(0, 3, 1, 9) };
    let one = |uneven| Engine { completion: Nanoseconds(2), ..engine(Order::Fifo, &[uneven, user(1, 1, 0, 5)]) };
    let found = blocked(&cluster(2, &FOUR), &engines(&[one(uneven)]));
    assert_eq!(spans(&found), [21, 12, 0, 0]);
    assert_eq!(found.iter().map(|one| one.operations.0).collect::<Vec<_>>(), [18, 7, 0, 0]);
    let covering = Locks { covering: vec![0], ..engines(&[one(uneven)]) };
    let even = Locks { covering: vec![0], ..engines(&[one(user(0, 3, 1, 9))]) };
    let drawn = |locks| blocked(&cluster(2, &FOUR), &locks)[0].drawn.0;
    assert_eq!(drawn(even) - drawn(covering), 27 - 12);
}

#[test]
fn tokens_leave_one_rival_fewer_than_there_are() {
    let rivals = |rivals| Engine { rivals: Some(rivals), ..engine(Order::Fifo, &three()) };
    let of = |count| spans(&blocked(&cluster(2, &FOUR), &engines(&[rivals(count)])));
    assert_eq!([of(1), of(2), of(3)], [[0, 0, 0, 0], [11, 22, 7, 0], [18, 28, 10, 0]]);
}

#[test]
fn by_priority_on_one_cpu_each_request_waits_for_one_hold() {
    let found = blocked(&cluster(1, &FOUR), &engines(&[engine(Order::Priority, &three())]));
    assert_eq!(spans(&found), [11, 22, 7, 0]);
    assert_eq!(found.iter().map(|one| one.lends.0).collect::<Vec<_>>(), [11, 22, 2, 0]);
}

/// Jobs of others that overlap with one: `ceil((r + r') / 1000)`, one each, as all are early.
#[test]
fn by_priority_on_several_cpus_jobs_that_may_pass_are_counted() {
    let found = blocked(&cluster(2, &FOUR), &engines(&[engine(Order::Priority, &three())]));
    // All holds of one job of each of the others, and for each request but the first the longest hold besides.
    assert_eq!(spans(&found), [14 + 11, 11 + 3 + 11, 3 + 14, 0]);
    // Two users cannot pass each other twice.
    let two = engines(&[engine(Order::Priority, &three()[..2])]);
    assert_eq!(spans(&blocked(&cluster(2, &FOUR), &two)), [7, 6, 0, 0]);
}

#[test]
fn tasks_of_other_classes_block_but_do_not_pass() {
    let mut users = three().to_vec();
    users.push(user(9, 1, 0, 100));
    for (order, expected) in [(Order::Fifo, [118, 228, 110, 0]), (Order::Priority, [100, 200, 100, 0])] {
        let found = blocked(&cluster(1, &FOUR), &engines(&[engine(order, &users)]));
        assert_eq!(spans(&found), expected);
        assert_eq!(found[0].parts[0].largest, 9);
    }
    let found = blocked(&cluster(2, &FOUR), &engines(&[engine(Order::Priority, &users)]));
    assert_eq!(spans(&found), [100 + 25, 200 + 14, 100 + 17, 0]);
}

#[test]
fn interrupts_and_resets_lengthen_holds_with_operations() {
    let slow = Engine { completion: Nanoseconds(100), reset: Nanoseconds(1_000), ..engine(Order::Fifo, &three()) };
    let cluster = cluster(1, &[(10, 1_000_000); 4]);
    let found = blocked(&cluster, &engines(&[slow]));
    assert_eq!(spans(&found), [1_118, 2 * 1_114, 2_210, 0]);
    assert_eq!(found[1].operations, Nanoseconds(2 * 1_105));
    // The driver works for the end that a job waits for, on the budget of that job; the reset is the device's.
    assert_eq!(found.iter().map(|one| one.lends.0).collect::<Vec<_>>(), [102 + 11, 2 * (101 + 11), 102 + 101, 0]);
}

#[test]
fn each_command_of_a_hold_ends_with_work_of_the_driver_that_waiting_jobs_pay_for() {
    let mut three = user(0, 1, 1, 9);
    three.hold.commands = 3;
    let one = Engine {
        completion: Nanoseconds(10),
        others: Nanoseconds(5),
        ..engine(Order::Fifo, &[three, user(1, 2, 0, 7)])
    };
    let found = blocked(&cluster(2, &FOUR), &engines(&[one]));
    assert_eq!(spans(&found), [7 + 15, 2 * (1 + 9 + 45), 0, 0]);
    assert_eq!(found.iter().map(|one| one.operations.0).collect::<Vec<_>>(), [9 + 45, 2 * (7 + 15), 0, 0]);
    assert_eq!(found.iter().map(|one| one.lends.0).collect::<Vec<_>>(), [10, 2 * (1 + 30), 0, 0]);
}

/// A job of task 0 waits for 40 of its own operation; meanwhile there are ends of task 1 on another engine: one from before, and two of each of two jobs.
#[test]
fn a_job_that_waits_for_the_driver_pays_for_ends_on_other_engines_but_no_longer_than_it_waits() {
    let beside = |completion, jobs| Beside { engine: 1, task: 1, completion: Nanoseconds(completion), jobs };
    let lends = |beside| {
        let one = Engine { beside: vec![beside], ..engine(Order::Fifo, &[user(0, 1, 1, 40)]) };
        blocked(&cluster(2, &FOUR), &engines(&[one])).iter().map(|one| one.lends.0).collect::<Vec<_>>()
    };
    let period = Nanoseconds(1_000);
    assert_eq!(lends(beside(3, Some((period, 2)))), [9, 0, 0, 0]);
    assert_eq!(lends(beside(3, Some((Nanoseconds(60), 2)))), [15, 0, 0, 0]);
    assert_eq!(lends(beside(30, Some((period, 2)))), [40, 0, 0, 0]);
    assert_eq!(lends(beside(3, None)), [40, 0, 0, 0]);
}

fn pool(protocol: Protocol, cpu: &[u64], engines: &[usize]) -> Pool {
    let sections = cpu.iter().enumerate().map(|(task, cpu)| Section { task, cpu: Nanoseconds(*cpu) });
    Pool { protocol, advised: false, sections: sections.collect(), engines: engines.to_vec() }
}

fn tokens(cpus: u32, protocol: Protocol, cpu: &[u64]) -> Vec<u64> {
    of_tokens(cpus, pool(protocol, cpu, &[]))
}

fn of_tokens(cpus: u32, pool: Pool) -> Vec<u64> {
    let tasks = vec![(10, 100_000); pool.sections.len() + 1];
    let locks = Locks { pools: vec![pool], ..Locks::default() };
    spans(&blocked(&cluster(cpus, &tasks), &locks))
}

#[test]
fn with_advice_a_request_may_wait_for_all_that_one_queue_has_room_for() {
    let advised = |cpus: u16, rules| {
        let pool = pool(Protocol::Pool(rules), &[1, 2, 4, 8, 16], &[]);
        of_tokens(cpus.into(), Pool { advised: true, ..pool })
    };
    assert_eq!(advised(2, Rules::k_fmlp(2, 2, Measure::Requests)), [30, 29, 27, 23, 15, 0]);
    assert_eq!(advised(2, Rules::k_fmlp(2, 2, Measure::CriticalSections)), [30, 29, 27, 23, 15, 0]);
    // Queues of three, of two, and of one.
    assert_eq!(advised(5, Rules::r2dglp(2, 5)), [24, 24, 24, 20, 12, 0]);
    assert_eq!(advised(8, Rules::r2dglp(5, 8)), [16, 16, 16, 16, 8, 0]);
    assert_eq!(advised(2, Rules::r2dglp(5, 2)), [0; 6]);
    // More than there is room for: as without.
    assert_eq!(advised(4, Rules::r2dglp(2, 4)), [48, 48, 48, 48, 24, 0]);
}

#[test]
fn a_limit_on_all_queues_is_counted_where_it_keeps_requests_out() {
    let of = |cpus: u16, rules| tokens(cpus.into(), Protocol::Pool(rules), &[1, 2, 4, 8, 16]);
    let together = |replicas, cpus, total| Rules { total: Some(total), ..Rules::r2dglp(replicas, cpus) };
    // Queues of three, with room for all five in both together: as without.
    assert_eq!(of(5, together(2, 5, 5)), of(5, Rules::r2dglp(2, 5)));
    // As many tokens as tasks, but four places: a request may wait for one other, as a donor.
    assert_eq!(of(4, Rules::r2dglp(5, 4)), [0; 6]);
    assert_eq!(of(4, together(5, 4, 4)), [16, 16, 16, 16, 8, 0]);
    // Queues of two: two as a donor, and one in its queue.
    assert_eq!(of(4, together(3, 4, 4)), [48, 48, 48, 48, 24, 0]);
    // Fewer places than CPUs: by priority, and for several tokens nothing is known.
    let locks = |rules| {
        let pool = pool(Protocol::Pool(rules), &[1, 2, 4, 8, 16], &[]);
        analyse(&cluster(4, &FOUR), &Overheads::default(), &Locks { pools: vec![pool], ..Locks::default() }).err()
    };
    assert_eq!(locks(together(3, 4, 3)), Some(Unbounded::NoBound(On::Token(0))));
    assert_eq!(locks(Rules { limit: None, ..together(3, 4, 4) }), Some(Unbounded::NoBound(On::Token(0))));
}

#[test]
fn each_protocol_blocks_for_as_many_sections_as_its_equation_says() {
    let sections = [1, 2, 4, 8, 16];
    let fmlp = |measure| tokens(2, Protocol::Pool(Rules::k_fmlp(2, 2, measure)), &sections);
    assert_eq!(fmlp(Measure::Requests), [16 + 8, 16 + 8, 16 + 8, 16 + 4, 8 + 4, 0]);
    assert_eq!(fmlp(Measure::CriticalSections), [15, 15, 14, 12, 8, 0]);
    // Two CPUs, one token: 2 * 2 - 1. Four, two: the same.
    let r2dglp = |replicas, cpus: u16| tokens(cpus.into(), Protocol::Pool(Rules::r2dglp(replicas, cpus)), &sections);
    assert_eq!(r2dglp(1, 2), [48, 48, 48, 48, 24, 0]);
    assert_eq!(r2dglp(2, 4), [48, 48, 48, 48, 24, 0]);
    // All fit into the queues: floor((5 - 1) / 2) others. No more tasks than tokens: none.
    assert_eq!(r2dglp(2, 5), [24, 24, 24, 20, 12, 0]);
    assert_eq!(r2dglp(5, 2), [0; 6]);
    let by_priority = |replicas, cpus| Rules { limit: Some(1), ..Rules::r2dglp(replicas, cpus) };
    assert_eq!(
        tokens(1, Protocol::Pool(Rules { limit: Some(1), ..Rules::r2dglp(1, 1) }), &sections),
        [16, 16, 16, 16, 8, 0]
    );
    // Four CPUs, a queue of two: both may be before it when it comes, and each job of higher priority once.
    let of_two = Rules { limit: Some(2), ..Rules::r2dglp(1, 4) };
    let locks = Locks { pools: vec![pool(Protocol::Pool(of_two), &sections, &[])], ..Locks::default() };
    let found = blocked(&cluster(4, &[(10, 100_000); 6]), &locks);
    assert_eq!(spans(&found), [24 + 30, 24 + 29, 24 + 27, 20 + 23, 12 + 15, 0]);
    assert_eq!(found.iter().map(|one| one.lends.0).collect::<Vec<_>>(), [24, 24, 24, 20, 12, 0]);
    let refused = |replicas, cpus: u16| {
        let locks = Locks {
            pools: vec![pool(Protocol::Pool(by_priority(replicas, cpus)), &sections, &[])],
            ..Locks::default()
        };
        analyse(&cluster(cpus.into(), &FOUR), &Overheads::default(), &locks).err()
    };
    assert_eq!(refused(2, 3), Some(Unbounded::NoBound(On::Token(0))));
}

/// Two CPUs and some tokens, shared with a cluster of three CPUs. One request of the job's own cluster is ahead, and three of the
/// other. A donor waits for as long as another of its cluster does, and for that one's section.
#[test]
fn clusters_share_tokens_by_arrival_and_each_job_donates_once_whether_it_uses_them_or_not() {
    // The fourth task uses nothing; the other cluster has four that do.
    let sections = [(0, 1), (1, 2), (2, 4), (4, 100), (5, 50), (6, 25), (7, 12)];
    let sections = sections.map(|(task, cpu)| Section { task, cpu: Nanoseconds(cpu) });
    let abroad: Vec<Abroad> = (4..8).map(|task| Abroad { task, cluster: 7, cpus: 3 }).collect();
    let locks = |replicas, engines: &[Engine]| {
        let held = (0..engines.len()).collect();
        let sections = sections.to_vec();
        let pool = Pool { protocol: Protocol::CkOmlp { replicas }, advised: false, sections, engines: held };
        Locks { engines: engines.to_vec(), pools: vec![pool], abroad: abroad.clone(), ..Locks::default() }
    };
    let here = cluster(2, &FOUR);
    let lends = |blocked: &[Blocked]| blocked.iter().map(|one| one.lends.0).collect::<Vec<_>>();
    let found = blocked(&here, &locks(2, &[]));
    assert_eq!(spans(&found), [150 + 154, 150 + 154, 150 + 152, 154]);
    assert_eq!(lends(&found), [4, 4, 2, 4]);
    assert_eq!(found[3].parts, [Part { on: On::Donation(0), span: Nanoseconds(154), largest: 4 }]);
    // One token: a round for each. Eight: no job waits, but for the job that it donates to.
    assert_eq!(spans(&blocked(&here, &locks(1, &[]))), [179 + 181, 179 + 181, 177 + 181, 181]);
    assert_eq!(spans(&blocked(&here, &locks(8, &[]))), [4, 4, 2, 4]);
    // An engine that one task of each cluster holds with its token, for 10 and 20: sections are 1 + 10 + 20 and 50 + 20 + 10.
    let users = [user(0, 1, 4, 6), user(5, 1, 5, 15)];
    let found = blocked(&here, &locks(2, &[Engine { rivals: Some(2), ..engine(Order::Fifo, &users) }]));
    assert_eq!(spans(&found), [20 + 180 + 184, 180 + 211, 180 + 211, 211]);
    // The holder of the other cluster computes on a reservation of that cluster.
    assert_eq!(lends(&found), [4, 1 + 4, 1 + 4, 1 + 4]);
    // By priority among three, jobs of another cluster cannot be counted.
    let by_priority = Engine { rivals: Some(3), ..engine(Order::Priority, &users) };
    let refused = analyse(&here, &Overheads::default(), &locks(3, &[by_priority])).err();
    assert_eq!(refused, Some(Unbounded::NoBound(On::Engine(0))));
}

/// Two tokens and one engine; both users of tokens hold the engine for 5. A section is 3 + 5, and 5 of blocking.
#[test]
fn a_section_is_as_long_as_its_computing_its_holds_and_their_blocking() {
    let ee = Engine { rivals: Some(2), ..engine(Order::Fifo, &[0, 1, 2].map(|task| user(task, 1, 1, 4))) };
    let rules = Rules::k_fmlp(2, 2, Measure::Requests);
    let pools = vec![pool(Protocol::Pool(rules), &[3, 3, 3], &[0])];
    let locks = Locks { engines: vec![ee], pools, ..Locks::default() };
    let found = blocked(&cluster(2, &[(10, 1_000); 3]), &locks);
    assert_eq!(spans(&found), [5 + 13; 3]);
    assert_eq!((found[0].requests, found[0].operations.0, found[0].lends.0), (2, 4, 1 + 3 + 1 + 1));
    assert_eq!(found[0].parts.iter().map(|part| part.on).collect::<Vec<_>>(), [On::Token(0), On::Engine(0)]);
}

/// By priority, requests of a group, and of three tasks with tokens, are passed even on one CPU; a job that passes may run on the
/// budget of a waiting one. Jobs of other classes cannot be counted then.
#[test]
fn what_is_ordered_by_a_priority_that_changes_meanwhile_is_counted_on_one_cpu_too() {
    let plain = engine(Order::Priority, &three());
    for lock in [Engine { is_group: true, ..plain.clone() }, Engine { rivals: Some(3), ..plain.clone() }] {
        let found = blocked(&cluster(1, &FOUR), &engines(std::slice::from_ref(&lock)));
        assert_eq!(spans(&found), [14 + 11, 11 + 3 + 11, 3 + 14, 0]);
        assert_eq!(found.iter().map(|one| one.lends.0).collect::<Vec<_>>(), [11 + 4 + 11, 22 + 1 + 11, 2 + 1 + 4, 0]);
        let mut foreign = lock;
        foreign.users.push(user(9, 1, 0, 100));
        let refused = analyse(&cluster(1, &FOUR), &Overheads::default(), &engines(&[foreign])).err();
        assert_eq!(refused, Some(Unbounded::NoBound(On::Engine(0))));
    }
    let two = engines(&[Engine { rivals: Some(2), ..plain }]);
    assert_eq!(spans(&blocked(&cluster(2, &FOUR), &two)), [11, 22, 7, 0]);
    let by_arrival = Engine { is_group: true, ..engine(Order::Fifo, &three()) };
    assert_eq!(spans(&blocked(&cluster(2, &FOUR), &engines(&[by_arrival]))), [18, 28, 10, 0]);
}

/// Two devices with two tokens each, and an engine of each; a job has one token. On the second, waiting is longer: for one of three
/// others, the longest. Operations are those of one device, also of a task whose own are longest on the first.
#[test]
fn of_engines_of_several_devices_those_of_one_count() {
    let on = |device, holds: [u64; 4]| Engine {
        rivals: Some(2),
        alternative: Some(Alternative { pool: 0, device }),
        ..engine(Order::Fifo, &[0, 1, 2, 3].map(|task| user(task, 1, 0, holds[task])))
    };
    let here = cluster(4, &FOUR);
    let locks = Locks {
        engines: vec![on(0, [9, 3, 3, 3]), on(1, [5, 7, 5, 6])],
        pools: vec![pool(Protocol::Pool(Rules::r2dglp(4, 4)), &[1, 1, 1, 1], &[0, 1])],
        ..Locks::default()
    };
    let found = blocked(&here, &locks);
    assert_eq!(spans(&found), [7, 9, 9, 9]);
    let operations: Vec<u64> = found.iter().map(|one| one.operations.0).collect();
    assert_eq!(operations, [9, 7, 5, 6]);
    assert!(found.iter().all(|one| one.parts.len() == 1));
    // With one token for all a section takes its own longest hold and the longest wait there: 1 + 9 + 7 of the first.
    let mut fewer = locks.clone();
    fewer.pools[0].protocol = Protocol::Pool(Rules::k_fmlp(1, 4, Measure::Requests));
    assert_eq!(spans(&blocked(&here, &fewer))[1], 9 + 17 + (1 + 5 + 9) + (1 + 6 + 9));
    // As if a job used both.
    let mut both = locks;
    both.engines.iter_mut().for_each(|engine| engine.alternative = None);
    assert_eq!(spans(&blocked(&here, &both)), [10, 15, 16, 16]);
}

#[test]
fn blocking_is_added_to_what_is_executed_and_no_test_is_exact_any_more() {
    // Lone responses are 10, 30 and 60; with blocking of 18 and 10, operations of 2, and so on, later.
    let users = [user(0, 1, 1, 2), user(2, 1, 18, 0)];
    let (report, found) = analyse(
        &cluster(1, &[(10, 100), (20, 200), (30, 300)]),
        &Overheads::default(),
        &engines(&[engine(Order::Fifo, &users)]),
    )
    .unwrap();
    assert_eq!(spans(&found), [18, 0, 3]);
    // As if waiting were execution: 30 + 20 + 33. By windows: in 73 + 80, two jobs of the first, and one of the second.
    let bound = report.tasks[2].bound.clone().unwrap();
    assert_eq!(bound.response, BigRational::from_integer((2 * 10 + 20 + 33).into()));
    assert_eq!(bound.test, Test::Windows);
    assert_eq!(report.tasks[0].bound.as_ref().unwrap().dominating, Term::Blocking);
    let tight = cluster(1, &[(10, 30), (20, 200), (30, 300)]);
    let (report, _) = analyse(&tight, &Overheads::default(), &engines(&[engine(Order::Fifo, &users)])).unwrap();
    assert_eq!(report.tasks[0].hard, Hard::NotProved(Reason::Overload));
}

#[test]
fn what_cannot_be_bounded_says_why() {
    let refused = |cluster: &Cluster, locks: &Locks| analyse(cluster, &Overheads::default(), locks).unwrap_err();
    let long = engines(&[engine(Order::Fifo, &[user(0, 3, 0, 200), user(1, 1, 1, 500)])]);
    let over = Unbounded::Overcommitted { on: On::Engine(0), per_mille: 1_101, largest: (0, 600) };
    assert_eq!(refused(&cluster(1, &[(10, 1_000); 2]), &long), over);
    // Each of two engines of a group can be held for half of that; two tokens can be held for 600 + 500 + 1.
    let group = engines(&[Engine { is_group: true, ..long.engines[0].clone() }]);
    let too_long = |cluster: &Cluster, locks: &Locks| {
        let (report, blocked) = analyse(cluster, &Overheads::default(), locks).unwrap();
        (report.infeasible, blocked[0].parts[0].largest)
    };
    let first = vec![Infeasible::TooLong { task: 0 }];
    assert_eq!(too_long(&cluster(1, &[(10, 1_000); 2]), &group), (first.clone(), 1));
    let with_tokens = |replicas, cpu| Locks {
        pools: vec![pool(Protocol::Pool(Rules::k_fmlp(replicas, 2, Measure::Requests)), cpu, &[0])],
        ..group.clone()
    };
    let over = Unbounded::Overcommitted { on: On::Token(0), per_mille: 1_101, largest: (0, 600) };
    assert_eq!(refused(&cluster(2, &[(10, 1_000); 2]), &with_tokens(1, &[0, 0])), over);
    let over = Unbounded::Overcommitted { on: On::Token(0), per_mille: 2_001, largest: (1, 1_001) };
    assert_eq!(refused(&cluster(2, &[(10, 1_000); 2]), &with_tokens(2, &[400, 500])), over);
    let waits = engines(&[engine(Order::Fifo, &[user(0, 1, 0, 200), user(1, 1, 0, 900)])]);
    assert_eq!(too_long(&cluster(2, &[(10, 1_000), (10, 2_000)]), &waits), (first, 1));
    let huge = engines(&[engine(Order::Fifo, &[user(0, 1, 1, 1), user(9, 1, LONGEST.0, 1)])]);
    assert_eq!(refused(&cluster(1, &[(1, 10)]), &huge), Unbounded::Overflow);
    let many = engines(&[engine(Order::Fifo, &[user(0, u32::MAX, 0, 0), user(9, 1, LONGEST.0 / 2, 1)])]);
    assert_eq!(refused(&cluster(1, &[(1, 10)]), &many), Unbounded::Overflow);
    // Fixed priorities on several CPUs, and no response time of the last to count by.
    let tasks = cluster(2, &[(50, 100), (40, 100), (40, 101), (1, 1_000)]).tasks().to_vec();
    let monotonic = Cluster::new(2, PolicyName::Rm, tasks).unwrap();
    let locks = engines(&[engine(Order::Priority, &three())]);
    assert_eq!(refused(&monotonic, &locks), Unbounded::NoResponse(On::Engine(0)));
}

/// Four tasks of four CPUs: responses are execution + operation + blocking, and blocking counts jobs by responses: those with no later deadline.
#[test]
fn counted_blocking_and_responses_agree_in_the_end() {
    let holds = [40, 30, 20, 10];
    let users: Vec<User> = (0..4).map(|task| user(task, 1, 0, holds[task])).collect();
    let periods = [(5, 1_000), (6, 1_000), (7, 1_000), (8, 150)];
    let (report, found) =
        analyse(&cluster(4, &periods), &Overheads::default(), &engines(&[engine(Order::Priority, &users)])).unwrap();
    let responses: Vec<u64> =
        report.tasks.iter().map(|task| task.bound.as_ref().unwrap().response.to_integer().to_u64().unwrap()).collect();
    for (task, blocked) in found.iter().enumerate() {
        let others = (0..4).filter(|other| *other != task);
        let passing = others.map(|other| {
            let earlier = (responses[other] + periods[task].1).saturating_sub(periods[other].1);
            (holds[other], earlier.min(responses[task] + responses[other]).div_ceil(periods[other].1) * holds[other])
        });
        let longest = passing.clone().map(|(hold, passing)| hold.saturating_sub(passing)).max().unwrap();
        assert_eq!(blocked.blocking.0, longest + passing.map(|(_, passing)| passing).sum::<u64>());
        assert_eq!(responses[task], periods[task].0 + holds[task] + blocked.blocking.0);
    }
    assert!(responses[..3].iter().all(|response| response + responses[3] > 150), "two jobs of the last: {responses:?}");
}

/// Under priorities no job of the less urgent passes one of the more urgent; one that is lent a priority may.
#[test]
fn of_jobs_with_later_priority_points_only_one_hold_comes_before() {
    let holds = [10, 20, 40];
    let users: Vec<User> = (0..3).map(|task| user(task, 1, 0, holds[task])).collect();
    let tasks = cluster(2, &[(1, 1_000), (1, 2_000), (1, 4_000)]).tasks().to_vec();
    let monotonic = Cluster::new(2, PolicyName::Rm, tasks.clone()).unwrap();
    let locks = engines(&[engine(Order::Priority, &users)]);
    // One hold of a later one, and all earlier jobs: none; one of the first; one of each, and no later ones.
    assert_eq!(spans(&blocked(&monotonic, &locks)), [40, 40 + 10, 10 + 20]);
    // The last one may have the priority of another.
    let lent = Locks { signallers: vec![2], ..locks };
    assert_eq!(spans(&blocked(&monotonic, &lent)), [20 + 40, 10 + 40, 10 + 20]);
    // Deadlines as long as each other: none of the next jobs passes, though there are some within the responses of both.
    let tight = Cluster::new(2, PolicyName::Edf, cluster(2, &[(1, 100); 3]).tasks().to_vec()).unwrap();
    assert_eq!(spans(&blocked(&tight, &engines(&[engine(Order::Priority, &users)]))), [60, 50, 30]);
}

fn random_engine() -> impl Strategy<Value = Engine> {
    let users = prop::collection::btree_map(0usize..7, (1u32..4, 0u64..50, 0u64..50), 1..6);
    (prop::bool::ANY, users).prop_map(|(is_fifo, users)| {
        let order = if is_fifo { Order::Fifo } else { Order::Priority };
        let users: Vec<User> =
            users.into_iter().map(|(task, (n, cpu, operation))| user(task, n, cpu, operation)).collect();
        engine(order, &users)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Longer holds, more of them and more users block no less; a task that uses nothing is not blocked; the parts are the whole.
    #[test]
    fn more_use_never_blocks_less(
        cpus in 1u32..4,
        shared in prop::collection::vec(random_engine(), 1..3),
        longer in (0usize..6, 1u64..20),
        another in (1u32..3, 0u64..50),
    ) {
        let cluster = cluster(cpus, &[(10, 1_000_000), (20, 1_500_000), (30, 2_000_000), (15, 700_000)]);
        let before = blocked(&cluster, &engines(&shared));
        let mut more = shared.clone();
        let at = longer.0 % more[0].users.len();
        more[0].users[at].hold.cpu.0 += longer.1;
        more[0].users[at].times += 1;
        more[0].users.push(user(8, another.0, another.1, 3));
        let after = blocked(&cluster, &engines(&more));
        for (task, (before, after)) in before.iter().zip(&after).enumerate() {
            prop_assert!(before.blocking <= after.blocking && before.lends <= after.lends);
            prop_assert!(before.operations <= after.operations);
            let uses = shared.iter().any(|engine| engine.users.iter().any(|user| user.task == task));
            prop_assert!(uses || *before == Blocked::default());
            let parts: u64 = before.parts.iter().map(|part| part.span.0).sum();
            prop_assert_eq!(parts, before.blocking.0);
            prop_assert!(before.lends <= before.blocking);
        }
    }
}

/// A job of the first task holds an engine twice, for 1 + 9, and the second preempts it once, for 10.
#[test]
fn a_budget_that_covers_engines_holds_operations_and_pays_for_preemptions() {
    let holds = [engine(Order::Fifo, &[user(0, 2, 1, 9)])];
    let tasks = [(100, 1_000), (10, 500)];
    let of = |cpus, locks: &Locks| {
        let (report, blocked) = analyse(&cluster(cpus, &tasks), &Overheads::default(), locks).expect("bounds");
        let response = report.tasks[0].bound.as_ref().expect("a bound").response.to_integer();
        (response, blocked[0].operations.0, blocked[0].drawn.0)
    };
    assert_eq!(of(1, &engines(&holds)), (128.into(), 18, 0));
    let covering = Locks { covering: vec![0], ..engines(&holds) };
    assert_eq!(of(1, &covering), (110.into(), 18, 20 + 10));
    // With a CPU for each no job is preempted; for a group both engines are paid for.
    assert_eq!(of(2, &covering), (100.into(), 18, 20));
    let group = Locks { engines: vec![Engine { is_group: true, ..holds[0].clone() }], ..covering.clone() };
    assert_eq!(of(1, &group).2, 40 + 20);
    // A mutex costs nothing.
    let mutex = Engine { is_mutex: true, ..engine(Order::Fifo, &[user(0, 2, 10, 0)]) };
    assert_eq!(of(1, &Locks { engines: vec![mutex], ..covering }), (110.into(), 0, 0));
}
