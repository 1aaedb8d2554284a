//! Schedules tick by tick: jobs with one critical section each, under each protocol, and how long they are pi-blocked.

use std::vec;
use std::vec::Vec;

use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::{self, Abroad, Section};
use fusee_sched_analysis::pi_blocking::{Pending, State, classify};
use fusee_sched_analysis::{Overheads, Task};
use proptest::prelude::*;

use crate::ck_omlp::Cluster;
use crate::ck_omlp::tests::Resource;
use crate::engine::{EngineLock, State as Engine};
use crate::pool::tests::{Wild, wild};
use crate::pool::{
    Advice, Measure, Place, Pool, Rules, Unadvised, k_fmlp_blocking_by_length, k_fmlp_requests, r2dglp_limit,
    r2dglp_requests,
};
use crate::propagation::tests::Threads;

const USERS: usize = 8;
/// More ticks than any schedule here has.
const END: u64 = 5_000;

/// A job: it computes, holds the resource while it computes on, and computes again.
#[derive(Clone, Copy, Debug)]
struct Job {
    release: u64,
    key: u32,
    before: u64,
    /// Zero: it does not use the resource.
    critical: u64,
    after: u64,
}

/// A protocol and its progress mechanism.
trait Protocol {
    fn job_released(&mut self, _user: u16, _key: u32) {}
    fn job_complete(&mut self, _user: u16) {}
    fn may_request(&self, _user: u16) -> bool {
        true
    }
    fn request(&mut self, user: u16, length: u64);
    fn release(&mut self, user: u16);
    fn holds(&self, user: u16) -> bool;
    /// Whether it must not run, because it lends its CPU.
    fn is_donor(&self, _user: u16) -> bool {
        false
    }
    fn effective_key(&self, user: u16) -> u32;
}

/// Result of a job.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Ticks of s-oblivious pi-blocking.
    blocked: u64,
    /// Ticks of s-oblivious pi-blocking in which the job was ready: it suffered from jobs that should not have run.
    blocked_while_ready: u64,
    /// Tick at which the job first ran in its critical section.
    entered: u64,
    /// Tick at which the job had left its critical section.
    left: u64,
    complete: u64,
    /// Ticks in which it held the resource, and did not run.
    held_in_vain: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Before,
    Waiting,
    Critical,
    After,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    job: usize,
    phase: Phase,
    done: u64,
}

/// The schedule of `tasks`, each with jobs one after the other, on clusters of `cpus` CPUs. Task `t` is in cluster `t %
/// clusters`. Returns the result of each job.
fn simulate(tasks: &[Vec<Job>], clusters: usize, cpus: usize, protocol: &mut dyn Protocol) -> Vec<Vec<Outcome>> {
    let mut outcomes: Vec<Vec<Outcome>> = tasks.iter().map(|jobs| vec![Outcome::default(); jobs.len()]).collect();
    let mut next = vec![0; tasks.len()];
    let mut running: Vec<Option<Running>> = vec![None; tasks.len()];
    for now in 0..END {
        for task in 0..tasks.len() {
            let job = next[task];
            if running[task].is_none() && tasks[task].get(job).is_some_and(|job| job.release <= now) {
                running[task] = Some(Running { job, phase: Phase::Before, done: 0 });
                next[task] += 1;
                protocol.job_released(task as u16, tasks[task][job].key);
            }
        }
        // Transitions that take no time, until none is left.
        let scheduled = loop {
            let mut scheduled = Vec::new();
            for cluster in 0..clusters {
                let mut ready: Vec<usize> = (cluster..tasks.len())
                    .step_by(clusters)
                    .filter(|task| state(tasks, &running, *task, protocol) == Some(State::Ready))
                    .collect();
                ready.sort_by_key(|task| protocol.effective_key(*task as u16));
                scheduled.extend(ready.into_iter().take(cpus));
            }
            if !scheduled.iter().any(|task| advance(tasks, &mut running, *task, now, &mut outcomes, protocol)) {
                break scheduled;
            }
        };
        for cluster in 0..clusters {
            let members = (cluster..tasks.len()).step_by(clusters);
            let pending: Vec<(usize, Pending<u32>)> = members
                .filter_map(|task| {
                    let state = state(tasks, &running, task, protocol)?;
                    let state = if scheduled.contains(&task) { State::Scheduled } else { state };
                    Some((task, Pending { key: tasks[task][running[task]?.job].key, state }))
                })
                .collect();
            let jobs: Vec<Pending<u32>> = pending.iter().map(|(_, job)| *job).collect();
            for ((task, job), blocking) in pending.iter().zip(classify(cpus, &jobs)) {
                let Some(Running { job: index, phase, .. }) = running[*task] else { continue };
                let outcome = &mut outcomes[*task][index];
                outcome.blocked += u64::from(blocking.oblivious);
                outcome.blocked_while_ready += u64::from(blocking.oblivious && job.state == State::Ready);
                outcome.held_in_vain += u64::from(phase == Phase::Critical && job.state != State::Scheduled);
            }
        }
        for task in scheduled {
            if let Some(running) = &mut running[task] {
                if running.phase == Phase::Critical && running.done == 0 {
                    outcomes[task][running.job].entered = now;
                }
                running.done += 1;
            }
        }
        if running.iter().all(Option::is_none) && next.iter().zip(tasks).all(|(next, jobs)| *next == jobs.len()) {
            return outcomes;
        }
    }
    panic!("a job never completes: {tasks:?}");
}

/// Whether the job of `task` may run; nothing if it has none.
fn state(tasks: &[Vec<Job>], running: &[Option<Running>], task: usize, protocol: &dyn Protocol) -> Option<State> {
    let Running { job, phase, done } = running[task]?;
    let job = &tasks[task][job];
    let user = task as u16;
    let waits = match phase {
        Phase::Before => done == job.before && job.critical > 0 && !protocol.may_request(user),
        Phase::Waiting => !protocol.holds(user),
        Phase::Critical | Phase::After => false,
    };
    Some(if waits || protocol.is_donor(user) { State::Suspended } else { State::Ready })
}

/// Lets a scheduled job take its next step, if that takes no time. Says whether it did.
fn advance(
    tasks: &[Vec<Job>],
    running: &mut [Option<Running>],
    task: usize,
    now: u64,
    outcomes: &mut [Vec<Outcome>],
    protocol: &mut dyn Protocol,
) -> bool {
    let Some(Running { job: index, phase, done }) = running[task] else { return false };
    let (job, outcome, user) = (&tasks[task][index], &mut outcomes[task][index], task as u16);
    let next = match phase {
        Phase::Before if done == job.before && job.critical == 0 => Phase::After,
        Phase::Before if done == job.before => {
            protocol.request(user, job.critical);
            Phase::Waiting
        }
        Phase::Waiting => Phase::Critical,
        Phase::Critical if done == job.critical => {
            protocol.release(user);
            outcome.left = now;
            Phase::After
        }
        Phase::After if done == job.after => {
            protocol.job_complete(user);
            outcome.complete = now;
            running[task] = None;
            return true;
        }
        _ => return false,
    };
    running[task] = Some(Running { job: index, phase: next, done: 0 });
    true
}

//--- Protocols

fn threads() -> Threads {
    Threads::with_keys(&[0; USERS])
}

fn set_key(threads: &mut Threads, user: u16, key: u32) {
    threads.keys[usize::from(user)] = key;
    threads.settle(user);
}

fn key_of(threads: &Threads, user: u16) -> u32 {
    threads.key_of(user).expect("it has budget")
}

#[derive(Clone, Copy, PartialEq)]
enum Progress {
    Nothing,
    Inheritance,
    /// On contention.
    Boosting,
}

/// A mutex by arrival.
struct Mutex {
    lock: EngineLock<USERS>,
    threads: Threads,
    progress: Progress,
}

impl Mutex {
    fn new(progress: Progress) -> Mutex {
        Mutex { lock: EngineLock::EMPTY, threads: threads(), progress }
    }
}

impl Protocol for Mutex {
    fn job_released(&mut self, user: u16, key: u32) {
        set_key(&mut self.threads, user, key);
    }

    fn request(&mut self, user: u16, _: u64) {
        let _ = self.lock.request(user).expect("a place");
        if let Engine::Held(holder) = self.lock.state()
            && holder != user
        {
            self.threads.wait(user, holder);
        }
    }

    fn release(&mut self, user: u16) {
        self.lock.release(user, true).expect("it holds");
        let next = self.lock.grant_next(|user| user);
        let waiters = self.lock.waiters();
        waiters.iter().chain(&next).for_each(|waiter| self.threads.stop(*waiter));
        waiters.iter().for_each(|waiter| self.threads.wait(*waiter, next.expect("somebody waited")));
    }

    fn holds(&self, user: u16) -> bool {
        self.lock.state() == Engine::Held(user)
    }

    fn effective_key(&self, user: u16) -> u32 {
        match self.progress {
            Progress::Inheritance => key_of(&self.threads, user),
            Progress::Boosting if self.holds(user) && !self.lock.waiters().is_empty() => 0,
            _ => self.threads.keys[usize::from(user)],
        }
    }
}

/// A pool of one cluster.
struct Tokens<A> {
    pool: Pool<u32, 4, USERS>,
    threads: Threads,
    advice: A,
}

impl<A: Advice<u32, 4, USERS>> Tokens<A> {
    fn new(rules: Rules, advice: A) -> Tokens<A> {
        let mut pool = Pool::EMPTY;
        pool.set_rules(rules);
        Tokens { pool, threads: threads(), advice }
    }
}

impl<A: Advice<u32, 4, USERS>> Protocol for Tokens<A> {
    fn job_released(&mut self, user: u16, key: u32) {
        set_key(&mut self.threads, user, key);
    }

    fn request(&mut self, user: u16, length: u64) {
        let key = self.threads.keys[usize::from(user)];
        let change = self.pool.request(user, key, Nanoseconds(length), &self.advice).expect("a place");
        self.threads.follow(&self.pool.moved(change).collect::<Vec<_>>(), |user| self.pool.waits_on(user));
    }

    fn release(&mut self, user: u16) {
        let change = self.pool.release(user, &self.advice).expect("it holds");
        self.threads.follow(&self.pool.moved(change).collect::<Vec<_>>(), |user| self.pool.waits_on(user));
    }

    fn holds(&self, user: u16) -> bool {
        self.pool.request_of(user).is_some_and(|request| matches!(request.place, Place::Fifo { ahead: 0, .. }))
    }

    fn effective_key(&self, user: u16) -> u32 {
        key_of(&self.threads, user)
    }
}

/// Lock that is shared by jobs of several clusters.
enum Queue {
    One(Resource<4, USERS>),
    Pool(Pool<u32, 4, USERS>),
}

/// Donation at release.
struct Shared {
    clusters: Vec<Cluster<u32, USERS>>,
    queue: Queue,
    threads: Threads,
}

impl Shared {
    fn new(clusters: usize, cpus: u16, replicas: u8, with_pool: bool) -> Shared {
        let queue = if with_pool {
            let limit = Some(shared_limit(replicas, cpus, clusters as u16));
            let mut pool = Pool::EMPTY;
            pool.set_rules(Rules { limit, ..Rules::r2dglp(replicas, cpus * clusters as u16) });
            Queue::Pool(pool)
        } else {
            Queue::One(Resource::new(replicas))
        };
        let mut cluster = Cluster::EMPTY;
        cluster.set_cpus(cpus);
        Shared { clusters: vec![cluster; clusters], queue, threads: threads() }
    }

    fn of(&mut self, user: u16) -> &mut Cluster<u32, USERS> {
        let count = self.clusters.len();
        &mut self.clusters[usize::from(user) % count]
    }

    fn of_shared(&self, user: u16) -> &Cluster<u32, USERS> {
        &self.clusters[usize::from(user) % self.clusters.len()]
    }

    fn follow(&mut self, moved: &[u16]) {
        let clusters = &self.clusters;
        self.threads.follow(moved, |user| clusters[usize::from(user) % clusters.len()].donee(user));
    }
}

impl Protocol for Shared {
    fn job_released(&mut self, user: u16, key: u32) {
        set_key(&mut self.threads, user, key);
        let moved = self.of(user).release(user, key).expect("it is its only job");
        self.follow(&moved);
    }

    fn job_complete(&mut self, user: u16) {
        let moved = self.of(user).complete(user);
        self.follow(&moved);
    }

    fn may_request(&self, user: u16) -> bool {
        self.of_shared(user).may_request(user)
    }

    fn request(&mut self, user: u16, length: u64) {
        self.of(user).request(user).expect("it may");
        match &mut self.queue {
            Queue::One(lock) => _ = lock.request(user).expect("a place"),
            // Keys of several clusters do not compare: all the same.
            Queue::Pool(pool) => _ = pool.request(user, 0, Nanoseconds(length), &Unadvised).expect("a place"),
        }
    }

    fn release(&mut self, user: u16) {
        match &mut self.queue {
            Queue::One(lock) => _ = lock.release(user).expect("it holds"),
            Queue::Pool(pool) => _ = pool.release(user, &Unadvised).expect("it holds"),
        }
        let moved = self.of(user).complete_request(user);
        self.follow(&moved);
    }

    fn holds(&self, user: u16) -> bool {
        match &self.queue {
            Queue::One(lock) => lock.holds(user),
            Queue::Pool(pool) => pool.queues().iter().any(|queue| queue.holder == Some(user)),
        }
    }

    fn is_donor(&self, user: u16) -> bool {
        self.of_shared(user).donee(user).is_some()
    }

    fn effective_key(&self, user: u16) -> u32 {
        key_of(&self.threads, user)
    }
}

//--- By name

fn job(release: u64, key: u32, [before, critical, after]: [u64; 3]) -> Job {
    Job { release, key, before, critical, after }
}

/// Elliott 2015, figure 2.6: one CPU. JL locks at 5; JH is released at 8, and requests at 15; JM is released at 18
/// and computes for `middle`; JVH, if there is one, at 19, for 5.
fn inversion(middle: u64, progress: Progress, with_highest: bool) -> Vec<Vec<Outcome>> {
    let mut tasks = vec![vec![job(0, 40, [5, 8, 1])], vec![job(8, 20, [7, 3, 1])], vec![job(18, 30, [middle, 0, 0])]];
    if with_highest {
        tasks.push(vec![job(19, 10, [5, 0, 0])]);
    }
    simulate(&tasks, 1, 1, &mut Mutex::new(progress))
}

#[test]
fn without_a_progress_mechanism_an_inversion_is_as_long_as_other_jobs_like() {
    for middle in [10, 100] {
        let [low, high, ..] = &inversion(middle, Progress::Nothing, false)[..] else { panic!() };
        assert_eq!((low[0].left, high[0].entered), (18 + middle + 2, 18 + middle + 2));
        assert_eq!(high[0].blocked, 5 + middle);
    }
}

#[test]
fn inheritance_and_boosting_bound_an_inversion_by_the_critical_section() {
    for progress in [Progress::Inheritance, Progress::Boosting] {
        for middle in [10, 100] {
            let [low, high, ..] = &inversion(middle, progress, false)[..] else { panic!() };
            assert_eq!((low[0].left, high[0].entered, high[0].blocked), (20, 20, 5));
        }
    }
}

#[test]
fn boosting_delays_even_the_highest_job_that_shares_nothing() {
    let [low, high, _, highest] = &inversion(10, Progress::Boosting, true)[..] else { panic!() };
    assert_eq!((low[0].left, highest[0].complete, high[0].entered), (20, 25, 25));
    assert_eq!((highest[0].blocked, highest[0].blocked_while_ready), (1, 1));
    let [low, _, _, highest] = &inversion(10, Progress::Inheritance, true)[..] else { panic!() };
    assert_eq!((low[0].left, highest[0].complete, highest[0].blocked), (25, 24, 0));
}

/// Elliott 2015, figure 2.7c: JL locks at 5, JH is released at 8 on the same CPU, and runs when JL releases at 13.
#[test]
fn a_donor_runs_when_the_holder_it_would_have_pushed_away_has_released() {
    let tasks = [vec![job(0, 20, [5, 8, 2])], vec![job(8, 10, [4, 0, 0])]];
    let [low, high] = &simulate(&tasks, 1, 1, &mut Shared::new(1, 1, 1, false))[..] else { panic!() };
    assert_eq!((low[0].left, low[0].held_in_vain), (13, 0));
    assert_eq!((high[0].complete, high[0].blocked), (17, 5));
}

/// Elliott 2015, figure 2.8, as the protocols make it.
#[test]
fn the_last_of_three_on_two_cpus_is_blocked_when_the_second_is_done() {
    let tasks = [vec![job(0, 1, [5, 5, 0])], vec![job(0, 2, [0, 15, 0])], vec![job(5, 3, [5, 5, 0])]];
    let outcomes = simulate(&tasks, 1, 2, &mut Mutex::new(Progress::Inheritance));
    assert_eq!([0, 1, 2].map(|task: usize| outcomes[task][0].blocked), [10, 0, 5]);
    assert_eq!(outcomes[2][0].entered, 20);
}

//--- Bounds as the text prints them

/// `f` of a pool whose users come from `clusters` clusters of `cpus` CPUs each and donate at release: `ceil(c * clusters
/// / k)`. This value is also the least that is valid there. Source: Elliott 2015, section 3.2.3.2.
fn shared_limit(replicas: u8, cpus: u16, clusters: u16) -> u16 {
    r2dglp_limit(replicas, cpus.saturating_mul(clusters))
}

/// `ceil(m / k)`: how often all replicas are given back before a request is granted, if it came last.
fn rounds(cpus: u16, replicas: u8) -> u64 {
    cpus.div_ceil(replicas.into()).into()
}

/// The longest time for which a job is pi-blocked while it waits for a replica: `(ceil(m / k) - 1) * longest`. `cpus` is `m`,
/// all CPUs of the clusters that share the resource. Elliott 2015, eq. 2.36.
fn direct_blocking(cpus: u16, replicas: u8, longest: Nanoseconds) -> Nanoseconds {
    Nanoseconds((rounds(cpus, replicas) - 1) * longest.0)
}

/// The longest time for which a job is pi-blocked as a donor because of one resource: `ceil(m / k) * longest`. Elliott 2015, eq. 2.37.
fn indirect_blocking(cpus: u16, replicas: u8, longest: Nanoseconds) -> Nanoseconds {
    Nanoseconds(rounds(cpus, replicas) * longest.0)
}

/// The longest time for which a job is pi-blocked. `shared` has the indirect blocking of each resource that jobs of its cluster use: it is a donor
/// once. `requests` has the direct blocking of each request of its own; none, if it uses nothing. Elliott 2015, eq. 2.38 to 2.40.
fn blocking_of_a_donor(shared: &[Nanoseconds], requests: &[Nanoseconds]) -> Nanoseconds {
    let indirect = shared.iter().max().map_or(0, |longest| longest.0);
    Nanoseconds(requests.iter().fold(indirect, |sum, direct| sum + direct.0))
}

#[test]
fn a_job_is_blocked_for_as_long_as_the_text_says() {
    let long = Nanoseconds(10);
    assert_eq!(shared_limit(8, 6, 2), 2);
    assert_eq!([(12, 8), (12, 1), (4, 4), (2, 4)].map(|(m, k)| direct_blocking(m, k, long).0), [10, 110, 0, 0]);
    assert_eq!([(12, 8), (12, 1), (4, 4), (2, 4)].map(|(m, k)| indirect_blocking(m, k, long).0), [20, 120, 10, 10]);
    assert_eq!(
        blocking_of_a_donor(&[Nanoseconds(20), Nanoseconds(50)], &[]),
        Nanoseconds(50),
        "whoever uses nothing, too"
    );
    assert_eq!(
        blocking_of_a_donor(&[Nanoseconds(20), Nanoseconds(50)], &[Nanoseconds(10), Nanoseconds(30)]),
        Nanoseconds(90)
    );
}

//--- Bounds against schedules

/// Up to eight tasks with up to three jobs each. Base keys are all different.
fn tasks() -> impl Strategy<Value = Vec<Vec<Job>>> {
    let job = (0u64..25, 0u32..40, (0u64..6, 0u64..8, 0u64..6));
    let job = job.prop_map(|(release, key, (before, critical, after))| Job { release, key, before, critical, after });
    prop::collection::vec(prop::collection::vec(job, 1..4), 2..=USERS).prop_map(|mut tasks| {
        for (jobs, task) in tasks.iter_mut().zip(0..) {
            let mut release = 0;
            for (job, index) in jobs.iter_mut().zip(0..) {
                release += job.release;
                job.release = release;
                job.key = job.key * 64 + task * 4 + index;
            }
        }
        tasks
    })
}

/// The longest critical section of each task.
fn longest(tasks: &[Vec<Job>]) -> Vec<Nanoseconds> {
    let of_task = |jobs: &Vec<Job>| jobs.iter().map(|job| job.critical).max().unwrap_or(0);
    tasks.iter().map(of_task).map(Nanoseconds).collect()
}

/// The rules, for the analysis: to it these tests are another build of this crate.
fn analysed_rules(Rules { replicas, cpus, limit, total, measure }: Rules) -> blocking::Protocol {
    let measure = match measure {
        Measure::Requests => blocking::Measure::Requests,
        Measure::CriticalSections => blocking::Measure::CriticalSections,
    };
    blocking::Protocol::Pool(blocking::Rules { replicas, cpus, limit, total, measure })
}

/// Bounds by the analysis of a cluster of `cpus` CPUs on the blocking of the jobs of each of its tasks; `home` gives the
/// cluster of a task, and the first cluster is this one.
fn analysed(
    tasks: &[Vec<Job>],
    cpus: u16,
    home: impl Fn(usize) -> usize,
    protocol: blocking::Protocol,
    advised: bool,
) -> Vec<u64> {
    const LONG: Nanoseconds = Nanoseconds(1 << 40);
    let task = Task { execution: Nanoseconds(1), period: LONG, deadline: LONG, priority: 1 };
    let all = longest(tasks);
    let (members, others): (Vec<usize>, Vec<usize>) = (0..tasks.len()).partition(|task| home(*task) == 0);
    let sections = members.iter().chain(&others).enumerate().map(|(task, of)| Section { task, cpu: all[*of] });
    let sections = sections.filter(|section| section.cpu > Nanoseconds(0)).collect();
    let pools = vec![blocking::Pool { protocol, advised, sections, engines: vec![] }];
    let cluster = fusee_sched_analysis::Cluster::new(cpus.into(), PolicyName::Edf, vec![task; members.len()]);
    let of = |(task, of): (usize, &usize)| Abroad { task: members.len() + task, cluster: home(*of), cpus: cpus.into() };
    let abroad = others.iter().enumerate().map(of).collect();
    let locks = blocking::Locks { pools, abroad, ..blocking::Locks::default() };
    let bounds = blocking::analyse(&cluster.expect("good tasks"), &Overheads::default(), &locks);
    bounds.expect("bounds").1.iter().map(|blocked| blocked.blocking.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30_000))]

    /// The bound holds with or without advice, good, bad or contradicting itself, and with or without a limit on all queues
    /// of as many as CPUs or more.
    #[test]
    fn no_job_is_blocked_for_longer_than_the_bound_of_the_r2dglp(
        tasks in tasks(),
        cpus in 1u16..=4,
        replicas in 1u8..=4,
        above in prop::option::of(0u16..3),
        wild in prop::option::of(wild()),
    ) {
        let longest = longest(&tasks).into_iter().max().unwrap_or_default();
        let bound = Nanoseconds(r2dglp_requests(cpus, replicas) * longest.0);
        let rules = Rules { total: above.map(|above| cpus + above), ..Rules::r2dglp(replicas, cpus) };
        let analysed = analysed(&tasks, cpus, |_| 0, analysed_rules(rules), wild.is_some());
        let outcomes = match wild {
            Some(wild) => simulate(&tasks, 1, usize::from(cpus), &mut Tokens::new(rules, Wild::new(wild))),
            None => simulate(&tasks, 1, usize::from(cpus), &mut Tokens::new(rules, Unadvised)),
        };
        for ((jobs, outcomes), analysed) in tasks.iter().zip(outcomes).zip(analysed) {
            for (job, outcome) in jobs.iter().zip(outcomes) {
                let bound = if job.critical > 0 { bound.0.min(analysed) } else { 0 };
                prop_assert!(outcome.blocked <= bound, "{:?}: {:?}, bound {}", job, outcome, bound);
                prop_assert_eq!(outcome.blocked_while_ready, 0);
            }
        }
    }

    #[test]
    fn no_job_is_blocked_for_longer_than_the_bounds_of_the_k_fmlp(
        tasks in tasks(),
        cpus in 1u16..=4,
        replicas in 1u8..=4,
        measure in prop::sample::select(vec![Measure::Requests, Measure::CriticalSections]),
        wild in prop::option::of(wild()),
    ) {
        let longest = longest(&tasks);
        let all = longest.iter().copied().max().unwrap_or_default();
        let rules = Rules::k_fmlp(replicas, cpus, measure);
        let is_advised = wild.is_some();
        let analysed = analysed(&tasks, cpus, |_| 0, analysed_rules(rules), is_advised);
        let outcomes = match wild {
            Some(wild) => simulate(&tasks, 1, usize::from(cpus), &mut Tokens::new(rules, Wild::new(wild))),
            None => simulate(&tasks, 1, usize::from(cpus), &mut Tokens::new(rules, Unadvised)),
        };
        for (task, outcomes) in outcomes.into_iter().enumerate() {
            let mut others = longest.clone();
            others.remove(task);
            let bound = match measure {
                // The equations are for the shortest queue.
                _ if is_advised => Nanoseconds(u64::MAX),
                Measure::Requests => Nanoseconds(k_fmlp_requests(tasks.len() as u64, replicas) * all.0),
                Measure::CriticalSections => k_fmlp_blocking_by_length(&others, replicas),
            };
            for (job, outcome) in tasks[task].iter().zip(outcomes) {
                let bound = if job.critical > 0 { bound.0.min(analysed[task]) } else { 0 };
                prop_assert!(outcome.blocked <= bound, "{:?}: {:?}, bound {}", job, outcome, bound);
                prop_assert_eq!(outcome.blocked_while_ready, 0);
            }
        }
    }

    #[test]
    fn no_job_is_blocked_for_longer_than_the_bounds_of_the_ck_omlp_and_no_holder_waits_for_a_cpu(
        tasks in tasks(),
        clusters in 1usize..=3,
        cpus in 1u16..=3,
        replicas in 1u8..=4,
        with_pool in any::<bool>(),
    ) {
        let longest = longest(&tasks).into_iter().max().unwrap_or_default();
        let all_cpus = cpus * clusters as u16;
        let direct = direct_blocking(all_cpus, replicas, longest);
        let indirect = indirect_blocking(all_cpus, replicas, longest);
        let mut protocol = Shared::new(clusters, cpus, replicas, with_pool);
        let outcomes = simulate(&tasks, clusters, usize::from(cpus), &mut protocol);
        let analysed: Vec<Vec<u64>> = (0..clusters)
            .map(|cluster| {
                let home = |task: usize| (task + clusters - cluster) % clusters;
                analysed(&tasks, cpus, home, blocking::Protocol::CkOmlp { replicas }, false)
            })
            .collect();
        for (task, (jobs, outcomes)) in tasks.iter().zip(outcomes).enumerate() {
            for (job, outcome) in jobs.iter().zip(outcomes) {
                let requests = [direct];
                let bound = blocking_of_a_donor(&[indirect], if job.critical > 0 { &requests } else { &[] });
                let bound = Nanoseconds(bound.0.min(analysed[task % clusters][task / clusters]));
                prop_assert!(outcome.blocked <= bound.0, "{:?}: {:?}, bound {:?}", job, outcome, bound);
                prop_assert_eq!((outcome.held_in_vain, outcome.blocked_while_ready), (0, 0));
            }
        }
    }
}
