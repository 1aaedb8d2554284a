//! Response times in reachable states against schedules that are played step by step.
//!
//! The oracle plays one time unit after another, with the scheduler's own priority points, until a state at a multiple of the
//! hyperperiod comes again. Its ties follow a list of numbers, as those of a run follow what happened before.

use std::cell::Cell;

use fusee_sched::key::{Policy, PolicyName};
use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sched_analysis::reachability::{LOOKS, Reached, Unreached, inflate, responses};
use fusee_sched_analysis::{Cluster, Overheads, Task};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::FileFailurePersistence;

fn cases(cases: u32) -> ProptestConfig {
    let persistence: Box<FileFailurePersistence> = Box::new(FileFailurePersistence::Off);
    ProptestConfig { cases, failure_persistence: Some(persistence), ..ProptestConfig::default() }
}

/// Numbers that look drawn, from a first one.
struct Numbers(Cell<u64>);

impl Numbers {
    fn new(seed: u64) -> Numbers {
        Numbers(Cell::new(seed))
    }

    fn below(&self, limit: u64) -> u64 {
        let next = self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        (next >> 33) % limit
    }
}

fn hyperperiod(cluster: &Cluster) -> u64 {
    let multiple = |one: u64, other: u64| (1..).map(|times| one * times).find(|all| all % other == 0).unwrap();
    cluster.tasks().iter().map(|task| task.period.0).fold(1, multiple)
}

/// The behaviour of the jobs of a run.
struct Run<'a> {
    /// The order of a job among equals, when it is released: of the task with this number.
    tie: &'a dyn Fn(usize) -> u64,
    /// The execution of a job of this task, and for how long after its release it stands still.
    job: &'a dyn Fn(usize) -> (u64, u64),
    /// Hyperperiods after the latest phase; `None`: until a state comes again.
    cycles: Option<u64>,
}

/// The longest response times of the tasks; `None` if a job is not complete a period after its release.
fn play(cluster: &Cluster, run: &Run<'_>) -> Option<Vec<u64>> {
    let (tasks, phases) = (cluster.tasks(), cluster.phases().unwrap());
    let last = phases.iter().map(|phase| phase.0).max().unwrap();
    let cycle = hyperperiod(cluster);
    let mut left = vec![0; tasks.len()];
    let mut jobs = vec![(0, Instant(0), 0, 0); tasks.len()];
    let mut worst = vec![0; tasks.len()];
    let mut seen: Vec<Vec<u64>> = Vec::new();
    for now in 0.. {
        if now >= last && (now - last).is_multiple_of(cycle) {
            let is_over = match run.cycles {
                Some(cycles) => now == last + cycles * cycle,
                None => seen.contains(&left),
            };
            if is_over {
                return Some(worst);
            }
            seen.push(left.clone());
        }
        for (index, task) in tasks.iter().enumerate() {
            if now < phases[index].0 || !(now - phases[index].0).is_multiple_of(task.period.0) {
                continue;
            }
            if left[index] > 0 {
                return None;
            }
            let point = cluster.policy().priority_point(&task.parameters(cluster.cpus())).of_job(Instant(now));
            let (execution, still) = (run.job)(index);
            left[index] = execution;
            jobs[index] = (now, point, (run.tie)(index), now + still);
        }
        let mut ready: Vec<(Instant, u64, usize)> = (0..tasks.len())
            .filter(|task| left[*task] > 0 && jobs[*task].3 <= now)
            .map(|task| (jobs[task].1, jobs[task].2, task))
            .collect();
        ready.sort_unstable();
        for (.., task) in ready.into_iter().take(cluster.cpus() as usize) {
            left[task] -= 1;
            if left[task] == 0 {
                worst[task] = worst[task].max(now + 1 - jobs[task].0);
            }
        }
    }
    unreachable!("a state comes again")
}

fn worst_times(cluster: &Cluster) -> impl Fn(usize) -> (u64, u64) {
    let executions: Vec<u64> = cluster.tasks().iter().map(|task| task.execution.0).collect();
    move |task| (executions[task], 0)
}

/// All jobs for their worst times, with ties by the numbers of tasks.
fn play_worst(cluster: &Cluster, cycles: Option<u64>) -> Option<Vec<u64>> {
    play(cluster, &Run { tie: &|task| task as u64, job: &worst_times(cluster), cycles })
}

fn found(cluster: &Cluster) -> Result<Reached, Unreached> {
    responses(cluster, cluster.tasks(), LOOKS)
}

fn numbers(reached: &Reached) -> Vec<u64> {
    reached.responses.iter().map(|response| response.0).collect()
}

/// Up to six tasks on two or three CPUs, busy but not always possible. A third of the sets is released together.
fn clusters() -> impl Strategy<Value = Cluster> {
    let period = prop::sample::select(vec![2u64, 3, 4, 5, 6, 8, 9, 10, 12, 15, 20]);
    let task = (period, 0..=1_000u64, 0..=1_000u64, 1..7u32, 0..60u64, 0..4u8);
    let policies = prop::sample::select(PolicyName::ALL.to_vec());
    (2..4u32, policies, prop::collection::vec(task, 2..7), 0..3u8).prop_map(|(cpus, policy, drawn, together)| {
        let mut tasks: Vec<Task> = Vec::new();
        let mut phases = Vec::new();
        let mut share = 0;
        for (period, execution, deadline, priority, phase, copies) in drawn {
            let execution = 1 + execution * (period - 1) / 1_000;
            // Now and then a task has an equal one.
            let copies = 1 + u64::from(copies == 0);
            if share + copies * execution * 1_000 / period > u64::from(cpus) * 1_000 || tasks.len() > 4 {
                continue;
            }
            share += copies * execution * 1_000 / period;
            let deadline = execution + deadline * (period - execution) / 1_000;
            let (execution, period) = (Nanoseconds(execution), Nanoseconds(period));
            let phase = Nanoseconds(if together == 0 { 0 } else { phase % (2 * period.0) });
            for _ in 0..copies {
                tasks.push(Task { execution, period, deadline: Nanoseconds(deadline), priority });
                phases.push(phase);
            }
        }
        Cluster::new(cpus, policy, tasks).unwrap().released_by_clock(phases)
    })
}

proptest! {
    #![proptest_config(cases(6_000))]

    #[test]
    fn without_ties_responses_are_those_of_the_schedule(cluster in clusters()) {
        match found(&cluster) {
            Ok(reached) if !reached.has_ties => {
                prop_assert_eq!(Some(numbers(&reached)), play_worst(&cluster, None));
            }
            Err(Unreached::TooLate { has_ties: false, .. }) => {
                prop_assert_eq!(play_worst(&cluster, None), None);
            }
            Err(Unreached::GaveUp) => prop_assert!(false, "{:?}", cluster),
            _ => {}
        }
    }

    #[test]
    fn no_run_is_later_whatever_its_ties_executions_and_hyperperiods(cluster in clusters(), seed: u64) {
        let Ok(reached) = found(&cluster) else { return Ok(()) };
        let numbers_drawn = Numbers::new(seed);
        let tie = |_| numbers_drawn.below(6);
        let worst = play(&cluster, &Run { tie: &tie, job: &worst_times(&cluster), cycles: Some(3) });
        let job = |task: usize| (1 + numbers_drawn.below(cluster.tasks()[task].execution.0), 0);
        let shorter = play(&cluster, &Run { tie: &tie, job: &job, cycles: Some(3) });
        for seen in [worst, shorter] {
            let seen = seen.expect("each job is complete a period after its release");
            let bounds = numbers(&reached);
            prop_assert!(seen.iter().zip(&bounds).all(|(seen, bound)| seen <= bound), "{:?} {:?}", seen, bounds);
        }
    }

    /// A job that begins late, as its release was handled late, is one that executes for longer.
    #[test]
    fn no_run_with_late_releases_is_later_than_with_longer_executions(cluster in clusters(), seed: u64, late in 1..4u64) {
        let tasks = inflate(&cluster, &Overheads { event_latency: Nanoseconds(late), ..Overheads::default() }).unwrap();
        prop_assert!(tasks.iter().zip(cluster.tasks()).all(|(one, other)| one.execution >= other.execution + Nanoseconds(late)));
        // Only its own release keeps a job of this run waiting.
        let own = |task: &Task| Task { execution: task.execution + Nanoseconds(late), ..*task };
        let longer = Cluster::new(cluster.cpus(), cluster.policy(), cluster.tasks().iter().map(own).collect()).unwrap();
        let longer = longer.released_by_clock(cluster.phases().unwrap().to_vec());
        let Ok(reached) = responses(&longer, cluster.tasks(), LOOKS) else { return Ok(()) };
        let numbers_drawn = Numbers::new(seed);
        let job = |task: usize| (1 + numbers_drawn.below(cluster.tasks()[task].execution.0), numbers_drawn.below(late + 1));
        let seen = play(&cluster, &Run { tie: &|_| numbers_drawn.below(6), job: &job, cycles: Some(3) });
        let seen = seen.expect("each job is complete a period after its release");
        let bounds = numbers(&reached);
        prop_assert!(seen.iter().zip(&bounds).all(|(seen, bound)| seen <= bound), "{:?} {:?}", seen, bounds);
    }
}

/// The orders of equals in a run are a part of the choices of the search: how often is each bound reached by some of 100 orders?
#[test]
fn most_bounds_are_reached_by_an_order_of_equal_points() {
    let (mut reached_bounds, mut bounds, mut sets) = (0, 0, 0);
    each_of(3_000, |cluster| {
        let Ok(reached) = found(cluster) else { return };
        if !reached.has_ties {
            return;
        }
        let mut longest = vec![0; cluster.tasks().len()];
        for seed in 0..100 {
            let drawn = Numbers::new(seed);
            let tie = |_| drawn.below(1 << 20);
            let seen = play(cluster, &Run { tie: &tie, job: &worst_times(cluster), cycles: Some(2) }).unwrap();
            longest.iter_mut().zip(seen).for_each(|(longest, seen)| *longest = seen.max(*longest));
        }
        sets += 1;
        bounds += longest.len();
        reached_bounds += longest.iter().zip(numbers(&reached)).filter(|(seen, bound)| **seen == *bound).count();
    });
    println!("{reached_bounds} of {bounds} bounds of {sets} sets with ties are reached");
    assert!(sets > 100 && reached_bounds * 100 >= bounds * 95, "{reached_bounds} of {bounds}, {sets} sets");
}

fn by_clock(cpus: u32, policy: PolicyName, tasks: &[(u64, u64)]) -> Cluster {
    let task = |(execution, period): &(u64, u64)| Task {
        execution: Nanoseconds(*execution),
        period: Nanoseconds(*period),
        deadline: Nanoseconds(*period),
        priority: 1,
    };
    let cluster = Cluster::new(cpus, policy, tasks.iter().map(task).collect()).unwrap();
    cluster.released_by_clock(vec![Nanoseconds(0); tasks.len()])
}

/// Fifty tasks of one period, of which eight at a time have CPUs: equal ones are one task seven times, and of unequal ones there are
/// too many orders.
#[test]
fn a_search_with_too_many_orders_ends() {
    let equal = found(&by_clock(8, PolicyName::Rm, &[(14, 100); 50])).unwrap();
    assert_eq!(numbers(&equal), [98; 50]);
    assert!(equal.looks < 1_000, "{equal:?}");
    let unequal: Vec<(u64, u64)> = (0..50).map(|task| (3_001 + task, 100_000)).collect();
    assert_eq!(found(&by_clock(8, PolicyName::Edf, &unequal)), Err(Unreached::GaveUp));
    // Hyperperiods that are too long are not begun.
    let long: Vec<(u64, u64)> = [1_009, 1_013, 1_019, 1_021].map(|period| (500, period)).to_vec();
    assert_eq!(found(&by_clock(2, PolicyName::Edf, &long)), Err(Unreached::GaveUp));
    assert_eq!(found(&by_clock(2, PolicyName::Edf, &long).released_by_clock(Vec::new())), Err(Unreached::NotByClock));
}

/// In its period and a latency of 4 a job of the first task finds at most 3 releases of the second task and 1 of the third. With its
/// own release that is 5 times `each`, and there are 11 ticks.
#[test]
fn what_the_kernel_may_take_from_a_job_is_part_of_its_execution() {
    let cluster = by_clock(2, PolicyName::Edf, &[(100, 1_000), (50, 450), (70, 2_000)]);
    let costs = Overheads {
        release: Nanoseconds(1),
        cache_interrupt: Nanoseconds(1),
        schedule: Nanoseconds(3),
        context_switch: Nanoseconds(5),
        cache_delay: Nanoseconds(7),
        event_latency: Nanoseconds(4),
        interprocessor_interrupt: Nanoseconds(1),
        tick_period: Nanoseconds(100),
        ..Overheads::default()
    };
    let executions =
        |cluster| inflate(cluster, &costs).unwrap().iter().map(|task| task.execution.0).collect::<Vec<_>>();
    let each = 2 + 2 * (3 + 5) + 7 + 4 + 1;
    let ticks = [11, 5, 21];
    assert_eq!(executions(&cluster), [100 + 5 * each + ticks[0], 50 + 3 * each + ticks[1], 70 + 9 * each + ticks[2]]);
}

/// Hands `count` drawn clusters to `look`.
fn each_of(count: usize, mut look: impl FnMut(&Cluster)) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..count {
        look(&clusters().new_tree(&mut runner).unwrap().current());
    }
}

/// Whether some response of `faulty` is shorter than that of a run.
fn is_refuted(faulty: Option<Vec<u64>>, seen: Option<Vec<u64>>) -> bool {
    let Some(faulty) = faulty else { return false };
    seen.is_none_or(|seen| seen.iter().zip(&faulty).any(|(seen, bound)| seen > bound))
}

/// Four wrong tests, and the number of the drawn sets that refute each.
#[test]
fn wrong_tests_are_refuted() {
    let [mut too_short, mut no_phases, mut one_order, mut not_charged, mut shorter_period] = [0; 5];
    each_of(3_000, |cluster| {
        let right = play_worst(cluster, None);
        // It ends a hyperperiod too early.
        too_short += u32::from(is_refuted(play_worst(cluster, Some(1)), right.clone()));
        let together = cluster.clone().released_by_clock(vec![Nanoseconds(0); cluster.tasks().len()]);
        no_phases += u32::from(is_refuted(play_worst(&together, None), right.clone()));
        // It orders equals by the numbers of their tasks; here the last comes first.
        let last_first = |task: usize| 100 - task as u64;
        let other = play(cluster, &Run { tie: &last_first, job: &worst_times(cluster), cycles: Some(2) });
        one_order += u32::from(is_refuted(right.clone(), other));
        // It leaves out that releases are handled late; or it takes that for a shorter period and deadline.
        for seed in 0..20 {
            let drawn = Numbers::new(seed);
            let job = |task: usize| (cluster.tasks()[task].execution.0, drawn.below(2));
            let late = play(cluster, &Run { tie: &|task| task as u64, job: &job, cycles: Some(2) });
            not_charged += u32::from(is_refuted(right.clone(), late.clone()));
            let later = right.clone().map(|all| all.into_iter().map(|response| response + 1).collect());
            shorter_period += u32::from(is_refuted(later, late));
        }
    });
    println!("refuted: {too_short}, {no_phases}, {one_order}, {not_charged}, {shorter_period}");
    assert!([too_short, no_phases, one_order, not_charged, shorter_period].iter().all(|refuted| *refuted > 0));
}
