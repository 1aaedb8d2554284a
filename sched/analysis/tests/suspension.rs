//! Bounds on jobs that suspend themselves, on one CPU: published values, acceptance, and schedules in unit steps that no bound may be
//! earlier than. Analyses that the literature has refuted are refuted by the same schedules.

use std::collections::VecDeque;

use fusee_sched::account::{Account, GRAIN};
use fusee_sched::key::{Policy, PolicyName};
use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sched_analysis::blocking::{self, Locks, Rest};
use fusee_sched_analysis::report::{Hard, TaskReport, Test, Verdict};
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
    let response = |one: &TaskReport| one.bound.as_ref()?.response.to_integer().to_u64();
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

/// A set, the claims on its response times, and longer ones of a schedule.
type Refuted = (Vec<Sleeper>, Vec<Option<u64>>, Vec<u64>);

/// The results of a search.
struct Found {
    systems: u32,
    tasks: u32,
    refuted: Option<Refuted>,
    tightest: (u64, u64),
    reached: u32,
}

impl Default for Found {
    fn default() -> Found {
        Found { systems: 0, tasks: 0, refuted: None, tightest: (0, 1), reached: 0 }
    }
}

impl Found {
    /// Compares the claims on a set with the longest response times of its schedules.
    fn judge(&mut self, tasks: &[Sleeper], claims: &[Option<u64>], most: &[u64]) {
        for (claim, seen) in claims.iter().zip(most) {
            let Some(claim) = claim else { continue };
            self.reached += u32::from(seen == claim);
            if seen > claim {
                self.refuted = Some((tasks.to_vec(), claims.to_vec(), most.to_vec()));
            } else if seen * self.tightest.1 > self.tightest.0 * claim {
                self.tightest = (*seen, *claim);
            }
        }
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Found { systems, tasks, refuted, tightest: (seen, bound), reached } = self;
        write!(f, "{systems} sets, {tasks} tasks with a bound, {reached} bounds reached, tightest {seen} of {bound}")?;
        match refuted {
            Some((tasks, claims, seen)) => write!(f, "; refuted by {tasks:?}: {seen:?}, not {claims:?}"),
            None => Ok(()),
        }
    }
}

/// Looks for a schedule of one of `systems` random sets in which a job takes longer than claimed.
fn search(policy: PolicyName, systems: u32, are_implicit: bool, analysis: Analysis<'_>) -> Found {
    let mut numbers = Numbers(policy as u64 + 11);
    let mut found = Found::default();
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
        found.judge(&tasks, &claims, &most);
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
            println!("{}: {found}", policy.name());
            assert!(found.refuted.is_none() && found.reached > 500, "{found}");
        }
    }
}

//--- Attackers

/// A unit of time of schedules with accounts: refills that are a unit apart are not joined.
const UNIT: u64 = 2 * GRAIN.0;

/// A task that computes and sleeps as it likes, on a budget that is enforced as the kernel does it.
struct Attacker {
    account: Account,
    /// Releases: of the present key, of the next job, and of those that queue.
    key: u64,
    next: u64,
    queue: VecDeque<u64>,
    is_between_jobs: bool,
    /// The instants at which it is awake, and has budget.
    awake: u64,
    refilled: u64,
    /// How long it has been suspended in this job, as far as it counts; and since when it sleeps.
    suspended: u64,
    since: Option<u64>,
    /// How long it computes before it does something else.
    computes: u64,
    /// Its first acts: for how long it computes, and sleeps then; without a sleep the job ends.
    plan: VecDeque<(u64, u64)>,
}

impl Attacker {
    fn new((execution, _, period, _): Sleeper, phase: u64) -> Attacker {
        Attacker {
            account: Account::new(Nanoseconds(execution * UNIT), Nanoseconds(period * UNIT)),
            key: 0,
            next: phase,
            queue: VecDeque::new(),
            is_between_jobs: true,
            awake: 0,
            refilled: 0,
            suspended: 0,
            since: None,
            computes: 0,
            plan: VecDeque::new(),
        }
    }

    /// Events that come due at `now`: releases, refills, the end of a sleep.
    fn come(&mut self, numbers: &mut Numbers, (execution, suspension, period, _): Sleeper, now: u64) {
        if self.next <= now {
            self.queue.push_back(self.next);
            let is_late = self.plan.is_empty() && numbers.between(0, 15) == 0;
            self.next += period + u64::from(is_late);
        }
        if self.is_between_jobs
            && let Some(release) = self.queue.pop_front()
        {
            self.is_between_jobs = false;
            if self.account.release.0 < release * UNIT {
                self.account.resume(Instant(release * UNIT));
                self.suspended = 0;
            }
            self.key = release.max(self.account.release.0 / UNIT);
            self.since = None;
            self.computes = self.piece(numbers, execution);
            if self.account.is_dry() {
                self.refilled = self.account.next_refill(Instant(now * UNIT)).0 / UNIT;
            }
        }
        if self.account.is_dry() && self.refilled <= now {
            self.account.resume(Instant(now * UNIT));
            self.key = now;
        }
        if self.awake <= now
            && let Some(since) = self.since.take()
        {
            let excess = if suspension > 0 { self.suspended.saturating_sub(suspension) } else { now - since };
            if excess > 0 && !self.account.is_dry() {
                self.account.resume(Instant(now * UNIT));
                self.key = now;
            }
            self.suspended = self.suspended.min(suspension);
        }
    }

    /// A time of computing, often a mere unit.
    fn piece(&self, numbers: &mut Numbers, most: u64) -> u64 {
        match self.plan.front() {
            Some((computes, _)) => *computes,
            None if numbers.between(0, 1) == 0 => 1,
            None => numbers.between(1, most),
        }
    }

    fn is_ready(&self, now: u64) -> bool {
        !self.is_between_jobs && self.awake <= now && !self.account.is_dry()
    }

    /// It executes for a unit that begins at `now`, and does something else at its end.
    fn execute(&mut self, numbers: &mut Numbers, (execution, suspension, period, _): Sleeper, now: u64) {
        self.account.charge(Nanoseconds(UNIT));
        if self.account.is_dry() {
            self.refilled = self.account.next_refill(Instant((now + 1) * UNIT)).0 / UNIT;
        }
        self.computes -= 1;
        if self.computes > 0 {
            return;
        }
        let sleep = match (self.plan.pop_front(), numbers.between(0, 5)) {
            (Some((_, sleep)), _) => sleep,
            (None, 0) => 0,
            (None, 1) => numbers.between(1, 2),
            (None, 2) => suspension.max(1),
            (None, 3) => suspension + 1,
            (None, _) => numbers.between(1, period),
        };
        self.computes = self.piece(numbers, execution);
        if sleep == 0 {
            self.is_between_jobs = true;
            return;
        }
        (self.awake, self.since) = (now + 1 + sleep, Some(now + 1));
    }
}

/// The end of schedules with attackers.
const END: u64 = 160;

/// The longest response times of tasks that keep their declarations, which have `kept`, beside attackers; theirs are zero.
fn play_beside(
    numbers: &mut Numbers,
    (cluster, set): (&Cluster, &[Sleeper]),
    (mut attackers, kept): (Vec<Option<Attacker>>, Vec<Vec<Job>>),
    loses_ties: usize,
) -> Vec<u64> {
    let tasks = cluster.tasks();
    let point = |task: usize, release: u64| {
        cluster.policy().priority_point(&tasks[task].parameters(1)).of_job(Instant(release))
    };
    let count = set.len();
    // The state of each other task: its job, the piece, what is left of it, when it is awake, and how long it was suspended.
    let mut at: Vec<(usize, usize, u64, u64, u64)> =
        kept.iter().map(|jobs| (0, 0, jobs.first().map_or(0, |job| job.pieces[0].0), 0, 0)).collect();
    let mut worst = vec![0; count];
    for now in 0..END {
        let mut ready = Vec::new();
        // Those that sleep in a job, with budget: key, task.
        let mut sleep = Vec::new();
        for task in 0..count {
            // A job that sleeps at its end is complete when it is awake.
            let (job, piece, left, awake, suspended) = &mut at[task];
            if *left == 0 && *awake <= now && *job < kept[task].len() {
                (*job, *piece, *suspended) = (*job + 1, 0, 0);
                *left = kept[task].get(*job).map_or(0, |job| job.pieces[0].0);
            }
            let key = |release: u64| (point(task, release), task == loses_ties, task);
            if let Some(one) = &mut attackers[task] {
                one.come(numbers, set[task], now);
                if one.is_ready(now) {
                    ready.push(key(one.key));
                } else if one.since.is_some() && !one.account.is_dry() && set[task].1 > 0 {
                    sleep.push(key(one.key));
                }
            } else if let Some(job) = kept[task].get(at[task].0).filter(|job| job.release <= now) {
                if at[task].3 <= now { &mut ready } else { &mut sleep }.push(key(job.release));
            }
        }
        let runs = ready.into_iter().min();
        // Time counts for those that sleep unless an earlier key executes, or is suspended by its allowance.
        sleep.sort_unstable();
        for key in sleep {
            if runs.is_some_and(|first| first < key) {
                break;
            }
            let suspended = match &mut attackers[key.2] {
                Some(one) => &mut one.suspended,
                None => &mut at[key.2].4,
            };
            *suspended += 1;
            if *suspended <= set[key.2].1 {
                break;
            }
        }
        let Some((.., task)) = runs else { continue };
        if let Some(one) = &mut attackers[task] {
            one.execute(numbers, set[task], now);
            continue;
        }
        let (job, piece, left, awake, _) = &mut at[task];
        *left -= 1;
        if *left > 0 {
            continue;
        }
        let own = &kept[task][*job];
        *awake = now + 1 + own.pieces[*piece].1;
        if *piece + 1 < own.pieces.len() {
            *piece += 1;
            *left = own.pieces[*piece].0;
        } else {
            worst[task] = worst[task].max(*awake - own.release);
        }
    }
    worst
}

/// The bounds by jitter of tasks that keep their declarations, if the analysis knows this much of the attackers among them.
fn claims_beside(cluster: &Cluster, tasks: &[Sleeper], attacks: &[bool], known: Rest) -> Vec<Option<u64>> {
    let suspends = tasks.iter().map(|task| Nanoseconds(task.1)).collect();
    let rests = attacks.iter().map(|attacks| if *attacks { known } else { KEPT }).collect();
    let locks = Locks { suspends, rests, ..Locks::default() };
    let report = blocking::analyse(cluster, &Overheads::default(), &locks).unwrap().0;
    let by_jitter = |task: &TaskReport| task.bound.as_ref().is_some_and(|bound| bound.test == Test::Jitter);
    let claim = |task: usize| responses(&report)[task].filter(|_| !attacks[task] && by_jitter(&report.tasks[task]));
    (0..tasks.len()).map(claim).collect()
}

#[test]
fn no_attacker_makes_a_job_later_than_its_bound() {
    for policy in [PolicyName::Dm, PolicyName::Edf] {
        let mut numbers = Numbers(policy as u64 + 23);
        let mut found = Found::default();
        while found.systems < 6_000 && found.refuted.is_none() {
            let tasks = small_set(&mut numbers, found.systems.is_multiple_of(2));
            let attacks: Vec<bool> = tasks.iter().map(|_| numbers.between(0, 1) == 0).collect();
            let cluster = cluster(policy, &tasks);
            let claims = claims_beside(&cluster, &tasks, &attacks, FREE);
            if claims.iter().all(Option::is_none) || !attacks.contains(&true) {
                continue;
            }
            found.systems += 1;
            found.tasks += claims.iter().flatten().count() as u32;
            let mut most = vec![0; tasks.len()];
            for _ in 0..20 {
                let loses_ties = numbers.between(0, tasks.len() as u64 - 1) as usize;
                let each = || tasks.iter().zip(&attacks);
                let attackers =
                    each().map(|(task, attacks)| attacks.then(|| Attacker::new(*task, task.2 / 2))).collect();
                let kept =
                    each().map(|(task, attacks)| if *attacks { Vec::new() } else { jobs(&mut numbers, *task, END) });
                let players = (attackers, kept.collect());
                let seen = play_beside(&mut numbers, (&cluster, &tasks), players, loses_ties);
                most = most.iter().zip(&seen).map(|(one, other)| *one.max(other)).collect();
            }
            found.judge(&tasks, &claims, &most);
        }
        println!("beside attackers, {}: {found}", policy.name());
        assert!(found.refuted.is_none() && found.reached > 500, "{found}");
    }
}

/// While a job with an earlier key sleeps, the kernel lets the attacker sleep, too: longer than the attacker declares.
#[test]
fn attackers_that_are_relied_on_make_jobs_later_than_their_bounds() {
    let tasks = [(1, 6, 40, 8), (4, 1, 12, 12), (2, 0, 40, 40)];
    for policy in [PolicyName::Dm, PolicyName::Edf] {
        let cluster = cluster(policy, &tasks);
        let plan = VecDeque::from([(1, 6), (3, 0), (4, 0)]);
        let attacker = Attacker { plan, ..Attacker::new(tasks[1], 0) };
        let job = |release, pieces| vec![Job { release, pieces }];
        let kept = vec![job(0, vec![(1, 6)]), Vec::new(), job(8, vec![(2, 0)])];
        let seen = play_beside(&mut Numbers(5), (&cluster, &tasks), (vec![None, Some(attacker), None], kept), 2);
        let claim = |known| claims_beside(&cluster, &tasks, &[false, true, false], known)[2];
        assert_eq!((claim(KEPT), seen[2], claim(FREE)), (Some(7), 9, Some(11)), "{}", policy.name());
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
        println!("{what}: {found}");
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
