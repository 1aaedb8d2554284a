//! Fine bounds: known values, a slow oracle, and the coarse bounds above them. Against schedules: the campaigns of `research/campaigns/src/blocking.rs`.

use fusee_sched::key::PolicyName;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::{analyse, settle};
use super::*;
use crate::locks::{Hold, Order, Pool, Protocol, Rest, Section, User};
use crate::task::Task;
use fusee_locking::pool::{Measure, Rules};

const KEPT: Rest = Rest { is_counted: true, keeps_word: true, is_alone: false };

fn cluster(cpus: u32, policy: PolicyName, tasks: &[(u64, u64)]) -> Cluster {
    let task = |&(execution, period): &(u64, u64)| Task {
        execution: Nanoseconds(execution),
        period: Nanoseconds(period),
        deadline: Nanoseconds(period),
        priority: 1,
    };
    Cluster::new(cpus, policy, tasks.iter().map(task).collect()).unwrap()
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

fn locks(users: &[User], rests: &[Rest]) -> Locks {
    let engine = Engine { order: Order::Fifo, users: users.to_vec(), ..Engine::default() };
    Locks { engines: vec![engine], rests: rests.to_vec(), ..Locks::default() }
}

fn waits(cluster: &Cluster, locks: &Locks) -> Vec<u64> {
    let found = analyse(cluster, &Overheads::default(), locks).expect("bounds").1;
    found.iter().map(|one| one.blocking.0).collect()
}

/// The first has eight holds in a job, the second one of 5: one job of that fits into the first's, unless it cannot be counted.
#[test]
fn eight_requests_wait_for_the_one_hold_that_a_rival_has() {
    let two = cluster(2, PolicyName::Edf, &[(20, 1_000), (10, 1_000)]);
    let users = [user(0, 8, 1, 2), user(1, 1, 1, 4)];
    assert_eq!(waits(&two, &locks(&users, &[KEPT; 2])), [5, 3]);
    for unknown in [Rest { keeps_word: false, ..KEPT }, Rest { is_counted: false, ..KEPT }] {
        assert_eq!(waits(&two, &locks(&users, &[KEPT, unknown])), [40, 3]);
        assert_eq!(waits(&two, &locks(&users, &[unknown, KEPT])), [40, 3]);
    }
    assert_eq!(waits(&two, &locks(&users, &[])), [40, 3]);
    let mut grouped = locks(&users, &[KEPT; 2]);
    grouped.engines[0].is_group = true;
    assert_eq!(waits(&two, &grouped), [40, 3]);
}

/// The last hold of a job may go on after it: so a hold of 5 extends the window.
#[test]
fn as_many_jobs_count_as_are_released_within_both_response_times_and_a_hold() {
    let users = [user(0, 8, 0, 3), user(1, 1, 0, 5)];
    let mut counts = std::collections::BTreeSet::new();
    for period in 30..200 {
        let two = cluster(2, PolicyName::Edf, &[(20, 1_000), (10, period)]);
        let (report, blocked) = analyse(&two, &Overheads::default(), &locks(&users, &[KEPT; 2])).unwrap();
        let response = |task: usize| response_of(&report.tasks[task]).map(|bound| bound.0);
        let window = response(0).unwrap() + response(1).unwrap() + 5;
        // The last round may have begun from longer response times.
        let jobs = blocked[0].blocking.0 / 5;
        assert!((window.div_ceil(period).min(8)..=8).contains(&jobs), "{period}: {jobs}");
        if window.div_ceil(period) == 1 {
            counts.insert((window == period, jobs));
        }
    }
    // A window as long as the period has room for one job.
    assert!(counts.iter().any(|(_, jobs)| *jobs == 1), "{counts:?}");
}

/// The most that `count` requests wait, each for some of the waits, no more than `most`, of each no more than its limit in all.
fn most_by_trial(waits: &[(u64, u64)], most: usize, count: u64) -> u64 {
    if count == 0 {
        return 0;
    }
    let sets = (0u32..1 << waits.len()).filter(|set| set.count_ones() as usize <= most);
    let is_in = |set: u32, index: usize| set >> index & 1 == 1;
    let possible = sets.filter(|set| (0..waits.len()).all(|index| !is_in(*set, index) || waits[index].1 > 0));
    let after = |set: u32| -> u64 {
        let rest: Vec<(u64, u64)> =
            (0..waits.len()).map(|index| (waits[index].0, waits[index].1 - u64::from(is_in(set, index)))).collect();
        let now: u64 = (0..waits.len()).filter(|index| is_in(set, *index)).map(|index| waits[index].0).sum();
        now + most_by_trial(&rest, most, count - 1)
    };
    possible.map(after).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn requests_that_choose_what_they_wait_for_wait_no_longer(
        waits in prop::collection::vec((1u64..20, 0u64..5), 1..4),
        most in 1usize..4,
        count in 0u64..4,
    ) {
        let list: Vec<Wait> = waits
            .iter()
            .enumerate()
            .map(|(task, (span, _))| Wait { task, span: Nanoseconds(*span), cpu: Nanoseconds(20 - *span) })
            .collect();
        let mut total = Total::default();
        total.add_distinct(&list, most, count, |task| Some(waits[task].1)).unwrap();
        prop_assert!(total.span.0 >= most_by_trial(&waits, most, count));
        let cpus: Vec<(u64, u64)> = waits.iter().map(|(span, limit)| (20 - span, *limit)).collect();
        prop_assert!(total.cpu.0 >= most_by_trial(&cpus, most, count));
        // Where nothing is known it is the sum of the longest.
        let (mut coarse, mut unknown) = (Total::default(), Total::default());
        coarse.add_longest(&list, most, count).unwrap();
        unknown.add_distinct(&list, most, count, |_| None).unwrap();
        prop_assert_eq!((coarse.span, coarse.cpu, coarse.largest), (unknown.span, unknown.cpu, unknown.largest));
        prop_assert!(total.span <= coarse.span && total.cpu <= coarse.cpu);
    }
}

/// CPUs, policy, tasks (execution, period), uses of two engines (task, holds, CPU time, operation), tokens, whether declarations are kept.
type Set = (u32, PolicyName, Vec<(u64, u64)>, Vec<(bool, u32, u64, u64)>, u8, Vec<bool>);

fn sets() -> impl Strategy<Value = Set> {
    let policy = prop::sample::select(vec![PolicyName::Edf, PolicyName::Fl, PolicyName::Rm]);
    let task = (100u64..2_000, 10_000u64..100_000);
    let hold = (any::<bool>(), 1u32..12, 1u64..20, 0u64..400);
    (1u32..4, policy, 2usize..7, 0u8..3).prop_flat_map(move |(cpus, policy, count, tokens)| {
        let tasks = prop::collection::vec(task.clone(), count);
        let holds = prop::collection::vec(hold.clone(), count);
        let kept = prop::collection::vec(prop::bool::weighted(0.8), count);
        (Just(cpus), Just(policy), tasks, holds, Just(tokens), kept)
    })
}

fn locks_of((cpus, _, tasks, holds, tokens, kept): &Set) -> Locks {
    let engine = |second: bool| {
        let users = holds.iter().enumerate().filter(|(_, hold)| hold.0 == second);
        let users = users.map(|(task, (_, times, cpu, operation))| user(task, *times, *cpu, *operation)).collect();
        let rivals = (*tokens > 0).then_some(u32::from(*tokens));
        Engine { order: Order::Fifo, users, rivals, ..Engine::default() }
    };
    let section = |task| Section { task, cpu: Nanoseconds(5) };
    let limit = u16::try_from(cpus.div_ceil(u32::from((*tokens).max(1)))).unwrap();
    let rules = Rules {
        replicas: *tokens,
        limit: Some(limit.max(1)),
        measure: Measure::Requests,
        total: None,
        cpus: *cpus as u16,
    };
    let pool = Pool {
        protocol: Protocol::Pool(rules),
        advised: false,
        sections: (0..tasks.len()).map(section).collect(),
        engines: vec![0, 1],
    };
    let rest = |kept: &bool| if *kept { KEPT } else { Rest::default() };
    Locks {
        engines: vec![engine(false), engine(true)],
        pools: if *tokens > 0 { vec![pool] } else { Vec::new() },
        rests: kept.iter().map(rest).collect(),
        ..Locks::default()
    }
}

#[test]
fn no_fine_bound_is_above_the_coarse_one_in_ten_thousand_sets_and_many_are_below() {
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 10_000, failure_persistence: None, ..Config::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let counts = (std::cell::Cell::new(0u64), std::cell::Cell::new(0u64));
    runner
        .run(&sets(), |set| {
            let cluster = cluster(set.0, set.1, &set.2);
            let locks = locks_of(&set);
            let (fine, coarse) =
                (analyse(&cluster, &Overheads::default(), &locks), settle(&cluster, &Overheads::default(), &locks));
            let (Ok(fine), Ok(coarse)) = (fine, coarse) else { return Ok(()) };
            counts.1.set(counts.1.get() + 1);
            for (fine, coarse) in fine.1.iter().zip(&coarse.1) {
                prop_assert!(fine.blocking <= coarse.blocking && fine.lends <= coarse.lends);
                prop_assert_eq!((fine.operations, fine.requests), (coarse.operations, coarse.requests));
                counts.0.set(counts.0.get() + u64::from(fine.blocking < coarse.blocking));
            }
            prop_assert!(is_no_worse(&fine.0, &coarse.0));
            Ok(())
        })
        .unwrap();
    let (finer, compared) = (counts.0.get(), counts.1.get());
    assert!(compared > 3_000 && finer > 1_000, "{finer} finer bounds in {compared} sets");
}
