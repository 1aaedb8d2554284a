//! Bounds against schedules: no run may be later than its bound, and exact bounds must be reached.
//!
//! The oracle plays jobs in unit steps with the scheduler's own priority points. Its ties go against one task,
//! as the worst case of that task demands.

use fusee_sched::key::{Policy, PolicyName};
use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sched_analysis::compliant::{textbook, tightest};
use fusee_sched_analysis::report::{Hard, TaskReport};
use fusee_sched_analysis::uniprocessor::{deadline_responses, fixed_priority_response, meets_demand};
use fusee_sched_analysis::utilisation::{Utilisations, density};
use fusee_sched_analysis::{Cluster, Overheads, Task, analyse, devi, interference};
use num_rational::BigRational;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// The releases of the jobs of each task.
type Releases = Vec<Vec<u64>>;

/// The longest response time of each task, of those jobs that are released.
fn play(cluster: &Cluster, releases: &Releases, loses_ties: usize) -> Vec<u64> {
    let all = |(task, releases): (&Task, &Vec<u64>)| vec![task.execution.0; releases.len()];
    let executions: Vec<Vec<u64>> = cluster.tasks().iter().zip(releases).map(all).collect();
    play_some(cluster, releases, &executions, loses_ties)
}

/// Plays a cluster with jobs that execute for the given times.
fn play_some(cluster: &Cluster, releases: &Releases, executions: &[Vec<u64>], loses_ties: usize) -> Vec<u64> {
    let tasks = cluster.tasks();
    let point = |task: usize, release: u64| {
        cluster.policy().priority_point(&tasks[task].parameters(cluster.cpus())).of_job(Instant(release))
    };
    let mut next = vec![0; tasks.len()];
    let mut left: Vec<u64> = executions.iter().map(|own| own.first().copied().unwrap_or(0)).collect();
    let mut worst = vec![0; tasks.len()];
    let mut now = 0;
    loop {
        let head = |task: usize| releases[task].get(next[task]).copied();
        let Some(first) = (0..tasks.len()).filter_map(head).min() else { return worst };
        now = first.max(now);
        let mut ready: Vec<(Instant, bool, usize)> = (0..tasks.len())
            .filter_map(|task| head(task).filter(|release| *release <= now).map(|release| (task, release)))
            .map(|(task, release)| (point(task, release), task == loses_ties, task))
            .collect();
        ready.sort_unstable();
        now += 1;
        for (.., task) in ready.into_iter().take(cluster.cpus() as usize) {
            left[task] -= 1;
            if left[task] == 0 {
                worst[task] = worst[task].max(now - releases[task][next[task]]);
                next[task] += 1;
                left[task] = executions[task].get(next[task]).copied().unwrap_or(0);
            }
        }
    }
}

/// Plays a cluster as [`play`] does, but for the task `hostile`: it computes for the first number of each of `pieces`, then is away
/// for the second, and comes back as if released then. Its used budget comes back a period after the piece that it was used in
/// became available.
fn play_pieces(
    cluster: &Cluster,
    releases: &Releases,
    hostile: usize,
    pieces: &[(u64, u64)],
    loses_ties: usize,
) -> Vec<u64> {
    let tasks = cluster.tasks();
    let point = |task: usize, release: u64| {
        cluster.policy().priority_point(&tasks[task].parameters(cluster.cpus())).of_job(Instant(release))
    };
    let mut next = vec![0; tasks.len()];
    let mut left: Vec<u64> = tasks.iter().map(|task| task.execution.0).collect();
    let mut worst = vec![0; tasks.len()];
    // The account of the hostile task, its refills, and its present piece: from when, and how much of it is left.
    let (mut account, mut refills): (u64, Vec<(u64, u64)>) = (tasks[hostile].execution.0, Vec::new());
    let (mut piece, mut number, mut back): (Option<(u64, u64)>, usize, u64) = (None, 0, 0);
    for now in 0..160 {
        refills.retain(|(at, amount)| {
            account += if *at <= now { *amount } else { 0 };
            *at > now
        });
        if piece.is_none() && now >= back && account > 0 && number < pieces.len() {
            piece = Some((now, pieces[number].0));
        }
        let head = |task: usize| match (task == hostile, piece) {
            (true, piece) => piece.map(|(from, _)| from),
            (false, _) => releases[task].get(next[task]).copied().filter(|release| *release <= now),
        };
        let mut ready: Vec<(Instant, bool, usize)> = (0..tasks.len())
            .filter_map(|task| head(task).map(|release| (point(task, release), task == loses_ties, task)))
            .collect();
        ready.sort_unstable();
        for (.., task) in ready.into_iter().take(cluster.cpus() as usize) {
            if let Some((from, rest)) = piece.filter(|_| task == hostile) {
                refills.push((from + tasks[task].period.0, 1));
                account -= 1;
                piece = (rest > 1 && account > 0).then_some((from, rest - 1));
                if piece.is_none() {
                    back = now + 1 + pieces[number].1;
                    number += 1;
                }
                continue;
            }
            left[task] -= 1;
            if left[task] == 0 {
                worst[task] = worst[task].max(now + 1 - releases[task][next[task]]);
                left[task] = tasks[task].execution.0;
                next[task] += 1;
            }
        }
    }
    worst
}

/// Releases of all tasks as often as may be, until `end`.
fn periodic(cluster: &Cluster, phases: &[u64], end: u64) -> Releases {
    let of_task = |(task, phase): (&Task, &u64)| (*phase..end).step_by(task.period.0 as usize).collect();
    cluster.tasks().iter().zip(phases).map(of_task).collect()
}

fn hyperperiod(cluster: &Cluster) -> u64 {
    let multiple = |one: u64, other: u64| (1..).map(|times| one * times).find(|all| all % other == 0).unwrap();
    cluster.tasks().iter().map(|task| task.period.0).fold(1, multiple)
}

/// Sets of tasks that fit `cpus`, as many of those drawn as do. Deadlines are up to `deadlines` periods.
fn clusters(
    cpus: std::ops::Range<u32>,
    policies: &'static [PolicyName],
    periods: std::ops::Range<u64>,
    deadlines: u64,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Cluster> {
    let task =
        (periods, 0..=1_000u64, 0..=1_000u64, 1..3u32).prop_map(move |(period, execution, deadline, priority)| {
            let execution = 1 + execution * (period - 1) / 1_000;
            let deadline = match deadlines {
                // Constrained, and not so short that all is lost.
                1 => execution + deadline * (period - execution) / 1_000,
                _ => deadline * period * deadlines / 1_000,
            };
            Task {
                execution: Nanoseconds(execution),
                period: Nanoseconds(period),
                deadline: Nanoseconds(deadline),
                priority,
            }
        });
    (cpus, prop::sample::select(policies), prop::collection::vec(task, count)).prop_map(|(cpus, policy, drawn)| {
        let mut tasks: Vec<Task> = Vec::new();
        for task in drawn {
            tasks.push(task);
            if !Utilisations::of(&tasks).fit(cpus) {
                tasks.pop();
            }
        }
        Cluster::new(cpus, policy, tasks).unwrap()
    })
}

/// The times of a cluster multiplied by `by`: sets at any scale up to years, so that nothing is a small number.
fn scaled(cluster: &Cluster, by: u64) -> Cluster {
    let scale = |task: &Task| Task {
        execution: Nanoseconds(task.execution.0 * by),
        period: Nanoseconds(task.period.0 * by),
        deadline: Nanoseconds(task.deadline.0 * by),
        priority: task.priority,
    };
    Cluster::new(cluster.cpus(), cluster.policy(), cluster.tasks().iter().map(scale).collect()).unwrap()
}

fn integer(value: u64) -> BigRational {
    BigRational::from_integer(value.into())
}

fn cases(cases: u32) -> ProptestConfig {
    let persistence: Box<FileFailurePersistence> = Box::new(FileFailurePersistence::Off);
    ProptestConfig { cases, failure_persistence: Some(persistence), ..ProptestConfig::default() }
}

const DEADLINES: &[PolicyName] = &[PolicyName::Edf, PolicyName::Fl];
const PRIORITIES: &[PolicyName] = &[PolicyName::Rm, PolicyName::Dm, PolicyName::Fp];

//--- Several CPUs

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn no_schedule_is_later_than_a_global_bound(
        cluster in clusters(1..4, DEADLINES, 1..13, 2, 1..9),
        phases in prop::collection::vec(0..6u64, 9),
        delays in prop::collection::vec(0..12u64, 16),
        loses_ties in 0..9usize,
    ) {
        let mut releases = periodic(&cluster, &phases, 120);
        for (task, releases) in releases.iter_mut().enumerate() {
            // Sporadic: now and then a task comes late, and so do all its later jobs.
            let mut late = 0;
            for (job, release) in releases.iter_mut().enumerate() {
                late += delays[(task + job) % 16].saturating_sub(9);
                *release += late;
            }
        }
        let shares = Utilisations::of(cluster.tasks());
        let seen = play(&cluster, &releases, loses_ties);
        let bounds = tightest(&cluster, &shares, cluster.tasks()).unwrap();
        let is_dense = cluster.policy() == PolicyName::Edf && density(&cluster) == Some(true);
        let tardiness = devi::tardiness(&cluster, &shares).ok();
        for (index, task) in cluster.tasks().iter().enumerate() {
            prop_assert!(integer(seen[index]) <= bounds.responses[index], "task {index} of {cluster:?}: {seen:?}");
            prop_assert!(!is_dense || seen[index] <= task.deadline.0);
            if let Some(tardiness) = &tardiness {
                prop_assert!(integer(seen[index]) <= integer(task.deadline.0) + &tardiness[index]);
            }
        }
        let report = analyse(&cluster, &Overheads::default(), &[]).unwrap();
        for ((task, seen), report) in cluster.tasks().iter().zip(&seen).zip(&report.tasks) {
            prop_assert!(integer(*seen) <= report.bound.as_ref().unwrap().response);
            prop_assert!(report.hard != Hard::Proved || *seen <= task.deadline.0);
        }
    }
}

proptest! {
    #![proptest_config(cases(40_000))]

    /// Small sets on two and three CPUs, under each policy, with jobs that come late and jobs that end early.
    #[test]
    fn no_schedule_is_later_than_its_interference_allows(
        cluster in prop_oneof![
            clusters(2..4, &PolicyName::ALL, 2..13, 1, 3..9),
            clusters(2..4, &PolicyName::ALL, 2..13, 2, 3..9),
        ],
        phases in prop::collection::vec(0..6u64, 9),
        delays in prop::collection::vec(0..12u64, 16),
        early in prop::collection::vec(0..8u64, 16),
        loses_ties in 0..9usize,
    ) {
        let mut releases = periodic(&cluster, &phases, 120);
        let mut executions = Vec::new();
        for (task, releases) in releases.iter_mut().enumerate() {
            let mut late = 0;
            let mut own = Vec::new();
            for (job, release) in releases.iter_mut().enumerate() {
                late += delays[(task + job) % 16].saturating_sub(9);
                *release += late;
                let saved = early[(3 * task + job) % 16].saturating_sub(5);
                own.push(cluster.tasks()[task].execution.0.saturating_sub(saved).max(1));
            }
            executions.push(own);
        }
        let seen = play_some(&cluster, &releases, &executions, loses_ties);
        let known = vec![None; cluster.tasks().len()];
        let bounds = interference::responses(&cluster, cluster.tasks(), &known).unwrap();
        let report = analyse(&cluster, &Overheads::default(), &[]).unwrap();
        for (task, seen) in seen.iter().enumerate() {
            prop_assert!(bounds[task].is_none_or(|bound| *seen <= bound.longest.0), "task {task} of {cluster:?}: {seen:?}");
            let best = report.tasks[task].bound.as_ref();
            prop_assert!(best.is_none_or(|bound| integer(*seen) <= bound.response), "task {task} of {cluster:?}: {seen:?}");
            prop_assert!(report.tasks[task].hard != Hard::Proved || *seen <= cluster.tasks()[task].deadline.0);
        }
    }

    /// One task has its budget in pieces, each released when it comes back, with a key of its own, and no more of them in a period
    /// than the budget. No other task is later than its bound.
    #[test]
    fn a_task_that_comes_back_in_pieces_makes_no_other_one_late(
        cluster in clusters(2..4, &PolicyName::ALL, 2..13, 1, 3..9),
        phases in prop::collection::vec(0..6u64, 9),
        pieces in prop::collection::vec((1..4u64, 0..5u64), 40),
        hostile in 0..9usize,
        loses_ties in 0..9usize,
    ) {
        let hostile = hostile % cluster.tasks().len().max(1);
        prop_assume!(!cluster.tasks().is_empty());
        let seen = play_pieces(&cluster, &periodic(&cluster, &phases, 120), hostile, &pieces, loses_ties);
        let known = vec![None; cluster.tasks().len()];
        let bounds = interference::responses(&cluster, cluster.tasks(), &known).unwrap();
        let report = analyse(&cluster, &Overheads::default(), &[]).unwrap();
        for (task, seen) in seen.iter().enumerate().filter(|(task, _)| *task != hostile) {
            prop_assert!(bounds[task].is_none_or(|bound| *seen <= bound.longest.0), "task {task} of {cluster:?}: {seen:?}");
            prop_assert!(report.tasks[task].hard != Hard::Proved || *seen <= cluster.tasks()[task].deadline.0);
        }
    }
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn the_fixed_point_solves_its_inequality_and_nothing_below_does(
        small in clusters(1..5, DEADLINES, 1..60, 2, 1..12),
        scale in 1..1_000_000_000u64,
    ) {
        let cluster = scaled(&small, scale);
        let shares = Utilisations::of(cluster.tasks());
        for bounds in [textbook(&cluster, &shares).unwrap(), tightest(&cluster, &shares, cluster.tasks()).unwrap()] {
            let fixed = &bounds.fixed_point;
            let (at_fixed, carried) = inequality(&cluster, &bounds.points, fixed);
            prop_assert_eq!(&at_fixed, fixed);
            prop_assert_eq!(carried, bounds.carried_in);
            let near = BigRational::new(1.into(), 1_000_000_000_000_000_000u64.into());
            for below in [fixed - near, fixed * integer(99) / integer(100), fixed / integer(2), -integer(1)] {
                prop_assert!(below >= *fixed || inequality(&cluster, &bounds.points, &below).0 > below);
            }
        }
    }
}

/// `f(s)` and `G(s)`, step by step as printed. Terms below zero count as none.
fn inequality(cluster: &Cluster, points: &[i128], s: &BigRational) -> (BigRational, BigRational) {
    let cpus = integer(cluster.cpus().into());
    let utilisation = |task: &Task| integer(task.execution.0) / integer(task.period.0);
    let total: BigRational = cluster.tasks().iter().map(utilisation).sum();
    let carriers: usize = total.ceil().to_integer().to_string().parse::<usize>().unwrap().saturating_sub(1);
    let mut early = integer(0);
    let mut terms = Vec::new();
    for (task, point) in cluster.tasks().iter().zip(points) {
        let point = BigRational::from_integer((*point).into()) / &cpus;
        let execution = integer(task.execution.0);
        let share = (integer(1) - point / integer(task.period.0)).max(integer(0));
        let own = &execution * share;
        terms.push((((s - &execution) / &cpus) * utilisation(task) + execution - &own).max(integer(0)));
        early += own;
    }
    terms.sort();
    let carried: BigRational = terms.into_iter().rev().take(carriers).sum();
    (&carried + early, carried)
}

proptest! {
    #![proptest_config(cases(100_000))]

    #[test]
    fn under_fair_lateness_the_latest_task_is_no_later_than_under_edf(
        cluster in clusters(1..7, &[PolicyName::Edf], 1..1_000, 2, 1..14),
    ) {
        let shares = Utilisations::of(cluster.tasks());
        let fair = Cluster::new(cluster.cpus(), PolicyName::Fl, cluster.tasks().to_vec()).unwrap();
        let latest = |cluster: &Cluster| textbook(cluster, &shares).unwrap().lateness(cluster.tasks()).into_iter().max();
        prop_assert!(latest(&fair) <= latest(&cluster));
    }

    /// The earlier bound to compare with: all of U rounded up in place of CPUs, in the divisor, too.
    #[test]
    fn tardiness_is_no_larger_than_with_fewer_cpus_in_the_divisor(
        cluster in clusters(1..7, &[PolicyName::Edf], 1..1_000, 1, 1..14),
    ) {
        let implicit = |task: &Task| Task { deadline: task.period, ..*task };
        let tasks: Vec<Task> = cluster.tasks().iter().map(implicit).collect();
        let shares = Utilisations::of(&tasks);
        let needed = shares.ceiling().max(1) as u32;
        let tardiness = |cpus| {
            let cluster = Cluster::new(cpus, PolicyName::Edf, tasks.clone()).unwrap();
            devi::tardiness(&cluster, &shares).unwrap()
        };
        let (found, before) = (tardiness(cluster.cpus()), tardiness(needed.min(cluster.cpus())));
        prop_assert!(found.iter().zip(&before).all(|(one, other)| one <= other));
    }

    #[test]
    fn moving_points_to_zero_never_makes_a_bound_worse(cluster in clusters(1..7, &[PolicyName::Edf], 1..1_000, 2, 1..14)) {
        let shares = Utilisations::of(cluster.tasks());
        let (printed, tightest) = (textbook(&cluster, &shares).unwrap(), tightest(&cluster, &shares, cluster.tasks()).unwrap());
        prop_assert!(tightest.responses.iter().zip(&printed.responses).all(|(one, other)| one <= other));
    }
}

//--- One CPU

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn edf_meets_demand_exactly_if_the_synchronous_schedule_meets_all_deadlines(
        cluster in prop_oneof![
            clusters(1..2, &[PolicyName::Edf], 2..9, 1, 1..6),
            clusters(1..2, &[PolicyName::Edf], 2..9, 3, 1..6),
        ],
    ) {
        let end = hyperperiod(&cluster) + 3 * 9;
        let seen = play(&cluster, &periodic(&cluster, &[0; 6], end), 0);
        let met = seen.iter().zip(cluster.tasks()).all(|(seen, task)| *seen <= task.deadline.0);
        prop_assert_eq!(meets_demand(cluster.tasks()), Ok(met));
    }

    #[test]
    fn edf_response_times_are_reached_by_some_phase_and_passed_by_none(
        cluster in prop_oneof![
            clusters(1..2, &[PolicyName::Edf], 2..7, 1, 1..5),
            clusters(1..2, &[PolicyName::Edf], 2..7, 3, 1..5),
        ],
    ) {
        let responses = deadline_responses(cluster.tasks()).unwrap();
        let end = 2 * hyperperiod(&cluster) + 3 * 7;
        for (index, task) in cluster.tasks().iter().enumerate() {
            let worst = (0..task.period.0).map(|phase| {
                let mut phases = [0; 6];
                phases[index] = phase;
                play(&cluster, &periodic(&cluster, &phases, end), index)[index]
            });
            prop_assert_eq!(Some(responses[index].longest.0), worst.max(), "task {} of {:?}", index, cluster);
        }
        let met = responses.iter().zip(cluster.tasks()).all(|(response, task)| response.longest <= task.deadline);
        prop_assert_eq!(meets_demand(cluster.tasks()), Ok(met));
    }

    #[test]
    fn fixed_priority_response_times_are_reached_when_all_are_released_together(
        cluster in prop_oneof![
            clusters(1..2, PRIORITIES, 2..9, 1, 1..6),
            clusters(1..2, PRIORITIES, 2..9, 3, 1..6),
        ],
    ) {
        for index in 0..cluster.tasks().len() {
            let response = fixed_priority_response(cluster.tasks(), cluster.policy(), index).unwrap();
            let releases = periodic(&cluster, &[0; 6], 2 * hyperperiod(&cluster));
            prop_assert_eq!(response.longest.0, play(&cluster, &releases, index)[index]);
        }
    }
}

//--- Size

#[test]
fn fifty_tasks_are_analysed_at_once() {
    let task = |index: u64| Task {
        execution: Nanoseconds(1_000_003 + 10_007 * index),
        period: Nanoseconds(5_000_011 + 1_000_003 * index),
        deadline: Nanoseconds(5_000_011 + 1_000_003 * index),
        priority: index as u32,
    };
    for (cpus, policy) in PolicyName::ALL.map(|policy| (4, policy)) {
        let cluster = Cluster::new(cpus, policy, (0..50).map(task).collect()).unwrap();
        let start = std::time::Instant::now();
        let report = analyse(&cluster, &Overheads::default(), &[]).unwrap();
        println!("50 tasks, {cpus} CPUs, {}: {:?}", policy.name(), start.elapsed());
        let is_bounded = |task: &TaskReport| task.bound.is_some() || PRIORITIES.contains(&policy);
        assert!(report.tasks.iter().all(is_bounded));
    }
}
