//! Agreement with another implementation: the crate `response-time-analysis`, whose analyses are instances of proofs in Prosa.
//!
//! Both are exact for independent sporadic tasks on one CPU that are preempted at any time, with ties against the task. So all response times are
//! equal, and where one finds none, the other finds none.

use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::Task;
use fusee_sched_analysis::uniprocessor::{Unanswered, deadline_responses, fixed_priority_response};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::RBF;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::{edf, fixed_priority, wcet};

/// The longest time of a search by the crate. Busy windows of the sets here are shorter, unless there is overload: no more than the sum of
/// all executions over what is left of the CPU, which is a fiftieth at least.
const LIMIT: u64 = 10_000_000;

/// The sets of each policy.
const SETS: u32 = 3_000;

fn set(numbers: &mut ChaCha8Rng) -> Vec<Task> {
    let mut between = |from: u64, to: u64| from + numbers.next_u64() % (to - from + 1);
    let (count, load) = (between(1, 7), between(30, 104));
    let one = |priority: u64| {
        let period = between(2, 60) * [1, 100][between(0, 1) as usize];
        let share = between(1, 2 * load / count).min(100);
        let execution = (period * share / 100).max(1);
        let deadline = [between(execution, period.max(execution)), period, between(period, 2 * period)];
        let deadline = deadline[between(0, 2) as usize];
        // Numbers that repeat, so that some tie.
        let priority = 1 + priority as u32 / 2;
        let [execution, period, deadline] = [execution, period, deadline].map(Nanoseconds);
        Task { execution, period, deadline, priority }
    };
    (0..count).map(one).collect()
}

/// Whether some level of a set, or the set, uses nearly all of a CPU: then a search may take very long.
fn is_nearly_full(tasks: &[Task], policy: PolicyName) -> bool {
    let used = |level: &mut dyn Iterator<Item = &Task>| {
        level.map(|task| (task.execution.0 * 1_000_000).div_ceil(task.period.0)).sum::<u64>()
    };
    let is_full = |millionths: u64| (980_000..1_000_010).contains(&millionths);
    match policy {
        PolicyName::Edf => is_full(used(&mut tasks.iter())),
        _ => tasks.iter().any(|own| {
            let before = |one: &&Task| point(one, policy) <= point(own, policy);
            is_full(used(&mut tasks.iter().filter(before)))
        }),
    }
}

/// The smaller number is first.
fn point(task: &Task, policy: PolicyName) -> u64 {
    match policy {
        PolicyName::Rm => task.period.0,
        PolicyName::Dm => task.deadline.0,
        _ => task.priority.into(),
    }
}

/// The response times that the crate finds.
fn theirs(tasks: &[Task], policy: PolicyName) -> Vec<Option<u64>> {
    let arrivals: Vec<Sporadic> =
        tasks.iter().map(|task| Sporadic::new_zero_jitter(Duration::from(task.period.0))).collect();
    let costs: Vec<wcet::Scalar> =
        tasks.iter().map(|task| wcet::Scalar::new(Service::from(task.execution.0))).collect();
    let demand = |task: usize| RBF::new(&arrivals[task], &costs[task]);
    let limit = Duration::from(LIMIT);
    let one = |own: usize| {
        let others = || (0..tasks.len()).filter(|other| *other != own);
        let found = if policy == PolicyName::Edf {
            let demands: Vec<_> = (0..tasks.len()).map(demand).collect();
            let of = |task: usize| edf::fully_preemptive::Task {
                rbf: &demands[task],
                deadline: Duration::from(tasks[task].deadline.0),
            };
            let others: Vec<_> = others().map(of).collect();
            edf::fully_preemptive::dedicated_uniproc_rta(&of(own), &others, limit)
        } else {
            let before: Vec<_> = others()
                .filter(|other| point(&tasks[*other], policy) <= point(&tasks[own], policy))
                .map(demand)
                .collect();
            fixed_priority::fully_preemptive::dedicated_uniproc_rta(&demand(own), &before, limit)
        };
        found.ok().map(u64::from)
    };
    (0..tasks.len()).map(one).collect()
}

/// The response times that this crate finds.
fn ours(tasks: &[Task], policy: PolicyName) -> Vec<Option<u64>> {
    if policy == PolicyName::Edf {
        return match deadline_responses(tasks) {
            Ok(all) => all.into_iter().map(|response| Some(response.longest.0)).collect(),
            Err(why) => {
                assert_eq!(why, Unanswered::Unbounded);
                vec![None; tasks.len()]
            }
        };
    }
    let one = |task| fixed_priority_response(tasks, policy, task).ok().map(|response| response.longest.0);
    (0..tasks.len()).map(one).collect()
}

fn agree_on(policy: PolicyName, seed: u8) {
    let mut numbers = ChaCha8Rng::from_seed([seed; 32]);
    let (mut equal, mut none) = (0, 0);
    let mut sets = 0;
    while sets < SETS {
        let tasks = set(&mut numbers);
        if is_nearly_full(&tasks, policy) {
            continue;
        }
        sets += 1;
        let (ours, theirs) = (ours(&tasks, policy), theirs(&tasks, policy));
        assert_eq!(ours, theirs, "{policy:?}: {tasks:?}");
        none += ours.iter().filter(|one| one.is_none()).count();
        equal += ours.iter().flatten().count();
    }
    println!("{policy:?}: {SETS} sets, {equal} equal response times, {none} tasks without one by either");
    assert!(equal > 9_000 && none > 300);
}

#[test]
fn response_times_under_edf_are_those_of_response_time_analysis() {
    agree_on(PolicyName::Edf, 1);
}

#[test]
fn response_times_under_fixed_priorities_are_those_of_response_time_analysis() {
    for (policy, seed) in [(PolicyName::Rm, 2), (PolicyName::Dm, 3), (PolicyName::Fp, 4)] {
        agree_on(policy, seed);
    }
}
