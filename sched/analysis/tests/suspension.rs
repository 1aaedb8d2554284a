//! Bounds on jobs that suspend themselves, on one CPU: published values, acceptance, and schedules in unit steps that no bound may be
//! earlier than. Analyses that the literature has refuted are refuted by the same schedules.

use fusee_sched::key::{Policy, PolicyName};
use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sched_analysis::blocking::{self, Locks, Rest};
use fusee_sched_analysis::report::{Hard, Test, Verdict};
use fusee_sched_analysis::{Cluster, Overheads, Report, Task};
use num_traits::ToPrimitive;

/// Execution, suspension, period, deadline.
type Sleeper = (u64, u64, u64, u64);

const KEPT: Rest = Rest { is_counted: true, keeps_word: true, is_alone: true };
const FREE: Rest = Rest { keeps_word: false, ..KEPT };

fn cluster(policy: PolicyName, tasks: &[Sleeper]) -> Cluster {
    let task = |(&(execution, _, period, deadline), priority): (&Sleeper, u32)| Task {
        execution: Nanoseconds(execution),
        period: Nanoseconds(period),
        deadline: Nanoseconds(deadline),
        priority,
    };
    Cluster::new(1, policy, tasks.iter().zip(1..).map(task).collect()).unwrap()
}

fn report(policy: PolicyName, tasks: &[Sleeper], rest: Rest) -> Report {
    let suspends = tasks.iter().map(|task| Nanoseconds(task.1)).collect();
    let locks = Locks { suspends, rests: vec![rest; tasks.len()], ..Locks::default() };
    blocking::analyse(&cluster(policy, tasks), &Overheads::default(), &locks).unwrap().0
}

fn responses(report: &Report) -> Vec<Option<u64>> {
    let response = |one: &fusee_sched_analysis::report::TaskReport| one.bound.as_ref()?.response.to_integer().to_u64();
    report.tasks.iter().map(response).collect()
}

//--- Known values

/// Forty per cent of load: the CPU would be overloaded if the tasks computed for as long as they sleep.
const SLEEPY: [Sleeper; 3] = [(2, 3, 10, 10), (4, 8, 40, 40), (10, 20, 100, 100)];

#[test]
fn a_set_that_sleeps_is_no_overload() {
    let kept = report(PolicyName::Rm, &SLEEPY, KEPT);
    assert_eq!(responses(&kept), [Some(5), Some(16), Some(50)]);
    assert_eq!((kept.is_hard(), kept.bounded), (true, Some(true)));
    assert_eq!(kept.tasks[2].bound.as_ref().map(|bound| bound.test), Some(Test::Jitter));
    let verdict = |test| kept.tests.iter().find(|(one, _)| *one == test).map(|(_, verdict)| *verdict);
    assert_eq!((verdict(Test::Jitter), verdict(Test::Utilisation)), (Some(Verdict::Proved), Some(Verdict::Silent)));
    // Tasks on which nobody may rely may have a part of their budget late, and the rest early.
    assert_eq!(responses(&report(PolicyName::Rm, &SLEEPY, FREE)), [Some(5), Some(18), Some(50)]);
    let oblivious = report(PolicyName::Rm, &SLEEPY, Rest::default());
    assert_eq!(responses(&oblivious), [Some(5), Some(27), None]);
    assert_eq!(oblivious.bounded, Some(false));
    assert!(report(PolicyName::Edf, &SLEEPY, KEPT).is_hard());
}

/// Tasks that do not sleep have no jitter, and their exact response times beside those that do.
#[test]
fn a_task_that_never_sleeps_brings_no_jitter() {
    for rest in [KEPT, FREE] {
        let found = report(PolicyName::Rm, &[(2, 0, 5, 5), (3, 0, 12, 12), (1, 8, 30, 30)], rest);
        assert_eq!(responses(&found), [Some(2), Some(5), Some(9 + 6 * 2 + 3 * 3)]);
    }
}

//--- Acceptance

/// A sequence of numbers that repeats.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from `from` to `to`.
    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }

    /// A fraction below 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Six tasks with periods from 1 to 100 ms, uniform in their logarithms, and suspensions from 0 to `2 f (T - C)`: by period.
fn sleepy_set(numbers: &mut Numbers, load: f64, f: f64) -> Vec<Sleeper> {
    let mut left = load;
    let mut tasks: Vec<Sleeper> = (0..6)
        .map(|task| {
            let rest = if task == 5 { 0.0 } else { left * numbers.fraction().powf(1.0 / f64::from(5 - task)) };
            let share = left - rest;
            left = rest;
            let period = (1e6 * 100f64.powf(numbers.fraction())) as u64;
            let execution = ((period as f64 * share) as u64).max(1);
            let suspension = (numbers.fraction() * 2.0 * f * (period - execution) as f64) as u64;
            (execution, suspension, period, period)
        })
        .collect();
    tasks.sort_by_key(|task| task.2);
    tasks
}

/// Whether the published form proves a set in the order of priorities: jitter of the response time less the execution.
fn jitter_form(tasks: &[Sleeper]) -> bool {
    let mut before: Vec<(Sleeper, u64)> = Vec::new();
    for &task in tasks {
        let own = task.0 + task.1;
        let mut response = own;
        loop {
            let work = |&((execution, _, period, _), response_before): &(Sleeper, u64)| {
                (response + response_before - execution).div_ceil(period) * execution
            };
            let next = own + before.iter().map(work).sum::<u64>();
            if next > task.3 {
                return false;
            }
            if next == response {
                break;
            }
            response = next;
        }
        before.push((task, response));
    }
    true
}

#[test]
fn sets_that_sleep_for_a_fifth_of_their_periods_are_proved() {
    for (load, f, least) in [(0.4, 0.05, 300), (0.4, 0.2, 290), (0.6, 0.05, 290), (0.6, 0.2, 200), (0.8, 0.2, 40)] {
        let mut numbers = Numbers(7);
        let [mut proved, mut by_form, mut oblivious, mut deadlines] = [0; 4];
        for _ in 0..300 {
            let tasks = sleepy_set(&mut numbers, load, f);
            let is_proved = report(PolicyName::Rm, &tasks, KEPT).is_hard();
            assert!(is_proved || !jitter_form(&tasks), "{tasks:?}");
            proved += u32::from(is_proved);
            by_form += u32::from(jitter_form(&tasks));
            oblivious += u32::from(report(PolicyName::Rm, &tasks, Rest::default()).is_hard());
            deadlines += u32::from(report(PolicyName::Edf, &tasks, KEPT).is_hard());
        }
        println!(
            "U = {load}, f = {f}: {proved} of 300 proved under RM, {by_form} by the published form, {oblivious} with \
             suspension as execution; {deadlines} under EDF"
        );
        assert!(proved >= least, "{proved} of 300 at U = {load}, f = {f}");
    }
}

//--- Schedules

/// A job: its release, and its pieces of execution, each with the sleep after it.
struct Job {
    release: u64,
    pieces: Vec<(u64, u64)>,
}

/// The longest response time of each task of a schedule on one CPU, in unit steps.
fn play(cluster: &Cluster, jobs: &[Vec<Job>], loses_ties: usize) -> Vec<u64> {
    let tasks = cluster.tasks();
    let point = |task: usize, release: u64| {
        cluster.policy().priority_point(&tasks[task].parameters(1)).of_job(Instant(release))
    };
    // By task: its job, the piece of that, how much of the piece is left, and when it is awake.
    let mut at: Vec<(usize, usize, u64, u64)> =
        jobs.iter().map(|jobs| (0, 0, jobs.first().map_or(0, |job| job.pieces[0].0), 0)).collect();
    let mut worst = vec![0; tasks.len()];
    let mut now = 0;
    loop {
        let ready_at = |task: usize| jobs[task].get(at[task].0).map(|job| job.release.max(at[task].3));
        let Some(first) = (0..tasks.len()).filter_map(ready_at).min() else { return worst };
        now = first.max(now);
        let ready = (0..tasks.len()).filter(|task| ready_at(*task).is_some_and(|ready| ready <= now));
        let key = |task: &usize| (point(*task, jobs[*task][at[*task].0].release), *task == loses_ties, *task);
        let Some(task) = ready.min_by_key(key) else { unreachable!("one is ready at its instant") };
        now += 1;
        let (job, piece, left, awake) = &mut at[task];
        *left -= 1;
        if *left > 0 {
            continue;
        }
        let own = &jobs[task][*job];
        *awake = now + own.pieces[*piece].1;
        if *piece + 1 < own.pieces.len() {
            *piece += 1;
        } else {
            worst[task] = worst[task].max(*awake - own.release);
            (*job, *piece) = (*job + 1, 0);
        }
        *left = jobs[task].get(*job).map_or(0, |job| job.pieces[*piece].0);
    }
}

/// Jobs of a task until `end`: late now and then, shorter now and then, with their suspension where it happens to be. The first
/// piece may be a mere unit, so that a job sleeps nearly from its release on.
fn jobs(numbers: &mut Numbers, (execution, suspension, period, _): Sleeper, end: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut release = numbers.between(0, period);
    let is_late = numbers.between(0, 2) == 0;
    while release < end {
        let execution = if numbers.between(0, 5) == 0 { numbers.between(1, execution) } else { execution };
        let suspension = match numbers.between(0, 3) {
            0 => 0,
            1 => numbers.between(0, suspension),
            _ => suspension,
        };
        let mut pieces = Vec::new();
        let (mut computes, mut sleeps) = (execution, suspension);
        while computes > 0 {
            let is_last = numbers.between(0, 2) == 0;
            let piece = if is_last { computes } else { numbers.between(1, computes) };
            let sleep =
                if piece == computes || numbers.between(0, 1) == 0 { sleeps } else { numbers.between(0, sleeps) };
            pieces.push((piece, sleep));
            (computes, sleeps) = (computes - piece, sleeps - sleep);
        }
        jobs.push(Job { release, pieces });
        release += period + if is_late { numbers.between(0, 3).saturating_sub(1) } else { 0 };
    }
    jobs
}

/// A small set of tasks that sleep, by deadline, with integers that a schedule of unit steps can show.
fn small_set(numbers: &mut Numbers, are_implicit: bool) -> Vec<Sleeper> {
    let mut tasks: Vec<Sleeper> = (0..numbers.between(2, 4))
        .map(|_| {
            let period = numbers.between(2, 20);
            let execution = numbers.between(1, (period * 2 / 3).max(1));
            let sleeps = if numbers.between(0, 2) > 0 { numbers.between(0, period - execution) } else { 0 };
            let deadline = if are_implicit { period } else { numbers.between(execution + sleeps, period + 3) };
            (execution, sleeps, period, deadline)
        })
        .collect();
    tasks.sort_by_key(|task| task.3);
    tasks
}

/// Claims of an analysis on a set in the order of deadlines, under DM or EDF: the response time of each task.
type Analysis<'a> = &'a dyn Fn(PolicyName, &[Sleeper]) -> Vec<Option<u64>>;

/// The results of a search.
#[derive(Default)]
struct Found {
    systems: u32,
    tasks: u32,
    refuted: Option<(Vec<Sleeper>, Vec<Option<u64>>, Vec<u64>)>,
    tightest: (u64, u64),
    reached: u32,
}

/// Looks for a schedule of one of `systems` random sets in which a job takes longer than claimed.
fn search(policy: PolicyName, systems: u32, are_implicit: bool, analysis: Analysis<'_>) -> Found {
    let mut numbers = Numbers(policy as u64 + 11);
    let mut found = Found { tightest: (0, 1), ..Found::default() };
    while found.systems < systems && found.refuted.is_none() {
        let tasks = small_set(&mut numbers, are_implicit);
        let claims = analysis(policy, &tasks);
        if claims.iter().all(Option::is_none) {
            continue;
        }
        found.systems += 1;
        found.tasks += claims.iter().flatten().count() as u32;
        let cluster = cluster(policy, &tasks);
        let mut most = vec![0; tasks.len()];
        for _ in 0..12 {
            let jobs: Vec<Vec<Job>> = tasks.iter().map(|task| jobs(&mut numbers, *task, 120)).collect();
            let loses_ties = numbers.between(0, tasks.len() as u64 - 1) as usize;
            let seen = play(&cluster, &jobs, loses_ties);
            most = most.iter().zip(&seen).map(|(one, other)| *one.max(other)).collect();
        }
        for (claim, seen) in claims.iter().zip(&most) {
            let Some(claim) = claim else { continue };
            found.reached += u32::from(seen == claim);
            if seen > claim {
                found.refuted = Some((tasks.clone(), claims.clone(), most.clone()));
            } else if seen * found.tightest.1 > found.tightest.0 * claim {
                found.tightest = (*seen, *claim);
            }
        }
    }
    found
}

fn ours(rest: Rest) -> impl Fn(PolicyName, &[Sleeper]) -> Vec<Option<u64>> {
    move |policy, tasks| {
        let report = report(policy, tasks, rest);
        let by_jitter = |(task, response): (usize, Option<u64>)| {
            let bound = report.tasks[task].bound.as_ref();
            response.filter(|_| bound.is_some_and(|bound| bound.test == Test::Jitter))
        };
        responses(&report).into_iter().enumerate().map(by_jitter).collect()
    }
}

#[test]
fn no_schedule_is_later_than_its_bound() {
    for policy in [PolicyName::Dm, PolicyName::Edf] {
        for rest in [KEPT, FREE] {
            let found = search(policy, 4_000, false, &ours(rest));
            println!(
                "{}: {} sets, {} tasks with bounds by jitter, {} of them reached, tightest {} of {}",
                policy.name(),
                found.systems,
                found.tasks,
                found.reached,
                found.tightest.0,
                found.tightest.1
            );
            assert!(found.refuted.is_none(), "{}: {:?}", policy.name(), found.refuted);
            assert!(found.reached > 100);
        }
    }
}

//--- Refuted analyses

/// The response times under fixed priorities if a task that sleeps has this much jitter, and is `more` in a job's way once besides.
fn by_priority(tasks: &[Sleeper], jitter: fn(Sleeper) -> u64) -> Vec<Option<u64>> {
    let response = |index: usize| {
        let own = tasks[index].0 + tasks[index].1;
        let mut response = own;
        loop {
            let work = |other: &Sleeper| (response + jitter(*other)).div_ceil(other.2) * other.0;
            // Tasks with equal priorities may come first.
            let others = (0..tasks.len()).filter(|other| *other != index && tasks[*other].3 <= tasks[index].3);
            let next = own + others.map(|other| work(&tasks[other])).sum::<u64>();
            if next > tasks[index].2 {
                return None;
            }
            if next == response {
                return Some(response);
            }
            response = next;
        }
    };
    (0..tasks.len()).map(response).collect()
}

/// Whether all deadlines, which are periods, are met under EDF if suspension is blocking (Devi 2003).
fn devi(tasks: &[Sleeper]) -> bool {
    (0..tasks.len()).all(|last| {
        let level = &tasks[..=last];
        let blocking: u64 = level.iter().map(|task| task.0.min(task.1)).sum();
        let longest = level.iter().map(|task| task.1.saturating_sub(task.0)).max().unwrap_or(0);
        let load: f64 = level.iter().map(|task| task.0 as f64 / task.2 as f64).sum();
        (blocking + longest) as f64 / tasks[last].2 as f64 + load <= 1.0 + 1e-9
    })
}

#[test]
fn analyses_that_the_literature_has_refuted_are_refuted_by_schedules() {
    let refuted: [(&str, PolicyName, Analysis<'_>); 3] = [
        ("jitter of the suspension alone", PolicyName::Dm, &|_, tasks| by_priority(tasks, |task| task.1)),
        ("pieces that are released in periods", PolicyName::Dm, &|_, tasks| by_priority(tasks, |_| 0)),
        ("suspension as blocking under EDF", PolicyName::Edf, &|_, tasks| {
            tasks.iter().map(|task| Some(task.2).filter(|_| devi(tasks))).collect()
        }),
    ];
    for (what, policy, analysis) in refuted {
        let found = search(policy, 400_000, true, analysis);
        println!("{what}: refuted by set {}: {:?}", found.systems, found.refuted);
        assert!(found.refuted.is_some(), "{what}");
    }
}

#[test]
fn a_bound_is_never_later_than_with_suspension_as_execution() {
    let mut numbers = Numbers(3);
    for _ in 0..2_000 {
        let tasks = small_set(&mut numbers, false);
        for policy in PolicyName::ALL {
            let [kept, free, oblivious] = [KEPT, FREE, Rest::default()].map(|rest| report(policy, &tasks, rest));
            let pairs = responses(&kept).into_iter().zip(responses(&free)).zip(responses(&oblivious));
            for ((kept, free), oblivious) in pairs {
                let is_better = |one: Option<u64>, other: Option<u64>| {
                    other.is_none_or(|other| one.is_some_and(|one| one <= other))
                };
                assert!(is_better(kept, free) && is_better(free, oblivious), "{tasks:?}");
            }
            let is_proved =
                |report: &Report| report.tasks.iter().map(|task| task.hard == Hard::Proved).collect::<Vec<_>>();
            assert!(is_proved(&kept).iter().zip(is_proved(&oblivious)).all(|(kept, before)| *kept >= before));
        }
    }
}
