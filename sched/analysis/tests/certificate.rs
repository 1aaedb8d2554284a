//! Certificates of random clusters: what the analysis writes is accepted, and with one number falsified it is refused.
//!
//! A falsified certificate may still be true: a bound with some slack holds for a task that costs a little more. Then a slow oracle
//! decides: on one CPU a search over all offsets, job by job; on several CPUs the analysis of the falsified cluster.

use std::collections::BTreeMap;
use std::time::Instant as Clock;

use fusee_certificate::format::{self, By, Policy};
use fusee_certificate::{Certificate, check};
use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::{self, Blocked, Engine, Hold, Locks, Order, Rest, User};
use fusee_sched_analysis::certify::{Subject, certify};
use fusee_sched_analysis::{Cluster, Overheads, Task, analyse};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A source of numbers that repeats.
struct Numbers(ChaCha8Rng);

impl Numbers {
    fn new(seed: u64) -> Numbers {
        let mut all = [0; 32];
        all[..8].copy_from_slice(&seed.to_le_bytes());
        Numbers(ChaCha8Rng::from_seed(all))
    }

    /// A number from `from` to `to`.
    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }

    fn is_one_in(&mut self, many: u64) -> bool {
        self.between(1, many) == 1
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.between(0, all.len() as u64 - 1) as usize]
    }
}

/// A random system of one cluster.
struct Drawn {
    cluster: Cluster,
    overheads: Overheads,
    locks: Locks,
}

/// A cluster of up to `most` tasks, with small numbers or with those of real systems.
fn cluster(numbers: &mut Numbers, cpus: u32, policy: PolicyName, most: u64) -> Cluster {
    let is_small = numbers.is_one_in(2);
    let count = numbers.between(1, most);
    let load = if numbers.is_one_in(5) { numbers.between(5, 40) } else { numbers.between(35, 105) } * u64::from(cpus);
    let mut tasks = Vec::new();
    for priority in 1..=count as u32 {
        let period = match is_small {
            true => numbers.between(2, 24),
            false => numbers.one_of(&[1, 2, 4, 5, 8, 10, 16, 20, 25, 40, 50, 100]) * 1_000_000,
        };
        let share = numbers.between(1, (2 * load / count).min(100));
        let execution = (period * share / 100).max(1);
        let deadline = match numbers.between(0, 3) {
            0 => numbers.between(execution, period.max(execution)),
            1 => numbers.between(period, 3 * period),
            _ => period,
        };
        let [execution, period, deadline] = [execution, period, deadline].map(Nanoseconds);
        tasks.push(Task { execution, period, deadline, priority });
    }
    Cluster::new(cpus, policy, tasks).unwrap()
}

/// Costs of a kernel that are small for periods of milliseconds.
fn overheads(numbers: &mut Numbers) -> Overheads {
    let mut cost = |most| Nanoseconds(numbers.between(0, most));
    Overheads {
        schedule: cost(900),
        release: cost(900),
        context_switch: cost(900),
        cache_delay: cost(9_000),
        event_latency: cost(9_000),
        interprocessor_interrupt: cost(500),
        call_in: cost(200),
        call_out: cost(200),
        ..Overheads::default()
    }
}

/// Engines that some tasks hold, and sleep of some.
fn locks(numbers: &mut Numbers, cluster: &Cluster) -> Locks {
    let tasks = cluster.tasks();
    let part = numbers.one_of(&[4, 12]);
    let longest = |task: usize| (tasks[task].period.0 / part).max(1);
    let mut engines = Vec::new();
    for _ in 0..numbers.between(0, 2) {
        let mut users = Vec::new();
        for task in 0..tasks.len() {
            if numbers.is_one_in(2) {
                continue;
            }
            let hold =
                Hold { cpu: Nanoseconds(0), operation: Nanoseconds(numbers.between(1, longest(task))), commands: 1 };
            users.push(User { task, times: 1, hold, operations: hold.operation });
        }
        engines.push(Engine { order: numbers.one_of(&[Order::Fifo, Order::Priority]), users, ..Engine::default() });
    }
    let suspends = (0..tasks.len()).map(|task| {
        let is_sleeping = numbers.is_one_in(3);
        Nanoseconds(if is_sleeping { numbers.between(0, 2 * longest(task)) } else { 0 })
    });
    let suspends = suspends.collect();
    let is_kept = numbers.is_one_in(2);
    let rest = |_| Rest { is_counted: true, keeps_word: is_kept || numbers.is_one_in(2), is_alone: true };
    let rests = (0..tasks.len()).map(rest).collect();
    Locks { engines, suspends, rests, ..Locks::default() }
}

fn drawn(numbers: &mut Numbers) -> Drawn {
    let policy = numbers.one_of(&PolicyName::ALL);
    let cpus = numbers.one_of(&[1, 1, 1, 2, 3, 4, 8]);
    let mut cluster = cluster(numbers, cpus, policy, 4 + 2 * u64::from(cpus));
    let mut overheads = Overheads::default();
    let mut locks = Locks::default();
    if cluster.tasks().iter().all(|task| task.period.0 >= 1_000_000) && numbers.is_one_in(2) {
        overheads = self::overheads(numbers);
    }
    if numbers.is_one_in(3) {
        locks = self::locks(numbers, &cluster);
    }
    if numbers.is_one_in(4) {
        let expected = |task: &Task| Nanoseconds((task.execution.0 * 2 / 3).max(1));
        let expected: Vec<Nanoseconds> = cluster.tasks().iter().map(expected).collect();
        cluster = cluster.expecting(&expected);
    }
    Drawn { cluster, overheads, locks }
}

/// The certificate of a system; `None`: its locks have no bounds.
fn certificate(drawn: &Drawn) -> Option<Certificate> {
    let Drawn { cluster, overheads, locks } = drawn;
    let (report, blocked): (_, Vec<Blocked>) = blocking::analyse(cluster, overheads, locks).ok()?;
    let names: Vec<String> = (0..cluster.tasks().len()).map(|task| format!("t{task}")).collect();
    let words = |part: &blocking::Part| format!("{:?} by {}", part.on, part.largest);
    let subject = Subject {
        name: "c0",
        names: names.iter().map(String::as_str).collect(),
        cluster,
        overheads,
        locks: Some(locks),
        report: &report,
        blocked: &blocked,
        words: &words,
    };
    let clusters = vec![certify(&subject).ok()?];
    let certificate = Certificate { format: format::FORMAT, system: "drawn".into(), clusters };
    // Each bound of the report stands in it.
    for (task, one) in report.tasks.iter().zip(&certificate.clusters[0].tasks) {
        let Some(bound) = &task.bound else {
            assert!(one.claims.is_empty() && one.uncertified.is_empty());
            continue;
        };
        let response = bound.response.ceil().to_integer();
        let claims =
            one.claims.iter().map(|claim| claim.response).chain(one.uncertified.iter().map(|one| one.response));
        assert_eq!(claims.min().map(Into::into), Some(response));
        let meets = one.claims.iter().any(|claim| claim.meets);
        let is_hard = task.hard == fusee_sched_analysis::report::Hard::Proved;
        assert!(meets == is_hard || !one.uncertified.is_empty(), "{one:?}");
    }
    Some(certificate)
}

fn test(by: &By) -> &'static str {
    match by {
        By::OwnCpu => "own CPU",
        By::FixedPriorities { .. } => "fixed priorities",
        By::Deadlines { .. } => "deadlines",
        By::Demand => "demand",
        By::Density => "density",
        By::Compliant => "compliant",
        By::Tardiness => "tardiness",
        By::Interference => "interference",
        By::Windows => "windows",
        By::Suspension => "suspension",
    }
}

#[test]
fn certificates_of_ten_thousand_clusters_are_accepted() {
    let mut numbers = Numbers::new(1);
    let (mut accepted, mut bytes, mut uncertified, mut unbounded) = (0u32, 0, 0, 0);
    let mut claims: BTreeMap<&str, u32> = BTreeMap::new();
    while accepted < 10_000 {
        let drawn = drawn(&mut numbers);
        let Some(certificate) = certificate(&drawn) else { continue };
        let text = serde_json::to_string_pretty(&certificate).unwrap();
        let certificate = serde_json::from_str::<Certificate>(&text).unwrap();
        let found = check(&certificate).unwrap_or_else(|why| panic!("{why}\n{text}"));
        accepted += 1;
        bytes += text.len();
        uncertified += found.uncertified.len();
        unbounded += found.unbounded;
        for claim in certificate.clusters[0].tasks.iter().flat_map(|task| &task.claims) {
            *claims.entry(test(&claim.by)).or_default() += 1;
        }
    }
    println!(
        "{accepted} certificates accepted, {bytes} bytes; claims: {claims:?}; {uncertified} bounds uncertified, {unbounded} tasks without"
    );
    assert_eq!(uncertified, 0);
    for test in ["own CPU", "fixed priorities", "deadlines", "compliant", "interference", "suspension"] {
        assert!(claims.get(test).is_some_and(|claims| *claims > 500), "{test}");
    }
    assert!(claims.contains_key("density") && claims.contains_key("windows"));
}

/// A CPU that is nearly full: the busy window is too long for a search, and the deadlines are proved by the work that is due.
#[test]
fn a_busy_window_without_end_has_a_certificate_of_due_work() {
    let periods = [1_000_003, 1_000_033, 1_000_037, 1_000_039];
    let task = |period: u64| {
        let [execution, deadline, period] = [period / 4, period - period % 2 * 9, period].map(Nanoseconds);
        Task { execution, period, deadline, priority: 0 }
    };
    let cluster = Cluster::new(1, PolicyName::Edf, periods.map(task).to_vec()).unwrap();
    let (overheads, locks) = (Overheads::default(), Locks::default());
    let certificate = certificate(&Drawn { cluster, overheads, locks }).unwrap();
    let tasks = &certificate.clusters[0].tasks;
    assert!(tasks.iter().all(|task| task.claims[0].by == By::Demand), "{tasks:?}");
    let accepted = check(&certificate).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(accepted.meeting, 4);
}

//--- Falsified

/// Changes one number; the words of the change, or nothing if there is no such number.
fn falsify(numbers: &mut Numbers, cluster: &mut format::Cluster) -> Option<&'static str> {
    let index = numbers.between(0, cluster.tasks.len() as u64 - 1) as usize;
    let task = &mut cluster.tasks[index];
    match numbers.between(0, 5) {
        0 => {
            let cost = task.cost.as_mut()?;
            let more = numbers.between(1, (*cost / 4).max(1));
            *cost += more;
            task.parts[0].span += more;
            Some("cost raised")
        }
        1 => {
            let claim = task.claims.first_mut()?;
            claim.response -= numbers.between(1, (claim.response / 8).max(1)).min(claim.response);
            Some("bound lowered")
        }
        2 => {
            let less = numbers.between(1, (task.period / 3).max(1));
            task.period = (task.period - less.min(task.period - 1)).max(cluster.latency + 1);
            Some("period lowered")
        }
        3 => {
            let many = task.parts.len() as u64;
            let _ = task.cost?;
            task.parts.remove(numbers.between(0, many - 1) as usize);
            Some("part removed")
        }
        4 => {
            let claim = task.claims.iter().find(|claim| claim.meets)?;
            task.deadline = numbers.between(claim.response - claim.response / 4, claim.response) - 1;
            Some("deadline lowered")
        }
        _ => witness(numbers, cluster, index),
    }
}

/// Lowers one number of a witness.
fn witness(numbers: &mut Numbers, cluster: &mut format::Cluster, index: usize) -> Option<&'static str> {
    let mut all: Vec<&mut u64> = Vec::new();
    let format::Witness { busy, demand, fixed_point, tardiness, delays, windows, suspension } = &mut cluster.witness;
    all.extend(busy.iter_mut().chain(fixed_point).chain(tardiness));
    all.extend(demand.iter_mut().flatten().chain(windows.iter_mut().flatten()));
    all.extend(delays.iter_mut().flatten().flatten().map(|delay| &mut delay.span));
    for suspended in suspension.iter_mut().flatten() {
        all.extend(suspended.life.iter_mut().map(|life| &mut life.span));
        all.extend(suspended.window.iter_mut().map(|window| &mut window.length));
    }
    for claim in &mut cluster.tasks[index].claims {
        match &mut claim.by {
            By::FixedPriorities { busy, instants } => {
                all.push(busy);
                all.extend(instants);
            }
            By::Deadlines { instants } => all.extend(instants),
            _ => {}
        }
    }
    all.retain(|number| **number > 0);
    if all.is_empty() {
        return None;
    }
    let one = numbers.between(0, all.len() as u64 - 1) as usize;
    *all[one] -= numbers.between(1, (*all[one] / 4).max(1));
    Some("witness lowered")
}

/// Whether the claims of a certificate with changed parameters are true after all.
fn is_true(cluster: &format::Cluster) -> bool {
    let policy = match cluster.policy {
        Policy::Edf => PolicyName::Edf,
        Policy::Fl => PolicyName::Fl,
        Policy::Rm => PolicyName::Rm,
        Policy::Dm => PolicyName::Dm,
        Policy::Fp => PolicyName::Fp,
    };
    let task = |task: &format::Task| Task {
        execution: Nanoseconds(task.cost.unwrap_or(task.period + 1)),
        period: Nanoseconds(task.period - cluster.latency.min(task.period - 1)),
        deadline: Nanoseconds(task.deadline.saturating_sub(cluster.latency)),
        priority: task.priority,
    };
    let tasks: Vec<Task> = cluster.tasks.iter().map(task).collect();
    let expected: Vec<Nanoseconds> = cluster.tasks.iter().map(|task| Nanoseconds(task.expected)).collect();
    let found = Cluster::new(cluster.cpus, policy, tasks.clone()).unwrap().expecting(&expected);
    let report = analyse(&found, &Overheads::default(), &[]).unwrap();
    cluster.tasks.iter().enumerate().all(|(index, task)| {
        task.claims.iter().all(|claim| {
            let response = claim.response - cluster.latency;
            let is_in_time = !claim.meets || claim.response <= task.deadline;
            let is_bounded = match &claim.by {
                By::Windows => windows(cluster)[index].is_some_and(|slow| slow <= response),
                By::Suspension => suspended(cluster)[index].is_some_and(|slow| slow <= response),
                _ => {
                    let bound = report.tasks[index].bound.as_ref();
                    bound.is_some_and(|bound| bound.response.ceil().to_integer() <= response.into())
                }
            };
            is_in_time
                && is_bounded
                && slowly(&found, &tasks, index).is_none_or(|slow| slow <= response || is_waiting(&claim.by))
        })
    })
}

fn is_waiting(by: &By) -> bool {
    matches!(by, By::Windows | By::Suspension)
}

/// The execution of a task's jobs, the period, and the cost with waits.
fn numbers_of(cluster: &format::Cluster, task: usize) -> (u64, u64, u64) {
    let one = &cluster.tasks[task];
    let executing = one.parts.iter().filter(|part| !part.waits).map(|part| part.span).sum();
    (executing, one.period - cluster.latency, one.cost.unwrap())
}

/// The least response times by windows, from nothing upwards.
fn windows(cluster: &format::Cluster) -> Vec<Option<u64>> {
    let count = cluster.tasks.len();
    let mut found: Vec<u64> = (0..count).map(|task| numbers_of(cluster, task).2).collect();
    loop {
        let next = |own: usize| {
            let others = (0..count).filter(|other| *other != own).map(|other| {
                let (executing, period, _) = numbers_of(cluster, other);
                (found[own] + found[other]).div_ceil(period) * executing
            });
            numbers_of(cluster, own).2 + others.sum::<u64>() / u64::from(cluster.cpus)
        };
        let next: Vec<u64> = (0..count).map(next).collect();
        if next.iter().enumerate().any(|(task, next)| *next > numbers_of(cluster, task).1) {
            return vec![None; count];
        }
        if next == found {
            return found.into_iter().map(Some).collect();
        }
        found = next;
    }
}

/// The least response times with suspension as jitter, from nothing upwards, in windows that begin where those of the witness do.
fn suspended(cluster: &format::Cluster) -> Vec<Option<u64>> {
    let count = cluster.tasks.len();
    let all = cluster.witness.suspension.as_ref().unwrap();
    let never = |task: usize| all[task].alone && numbers_of(cluster, task).0 == numbers_of(cluster, task).2;
    let enforced = |task: usize| {
        let claims = cluster.tasks[task].claims.iter().filter(|claim| !is_waiting(&claim.by));
        claims.map(|claim| claim.response - cluster.latency).min()
    };
    let mut found: Vec<Option<u64>> =
        (0..count).map(|task| all[task].window.map(|_| numbers_of(cluster, task).2)).collect();
    loop {
        let life = |task: usize| {
            let own = found[task].filter(|_| all[task].kept && all[task].counted || never(task));
            own.into_iter().chain(enforced(task)).min()
        };
        let lives: Vec<Option<u64>> = (0..count).map(life).collect();
        let next = |own: usize| found[own].and_then(|_| end_of_window(cluster, own, &lives, &never));
        let next: Vec<Option<u64>> = (0..count).map(next).collect();
        if next == found {
            return found;
        }
        found = next;
    }
}

/// The end of the least window in which a job is complete, with these lives of others.
fn end_of_window(
    cluster: &format::Cluster,
    own: usize,
    lives: &[Option<u64>],
    never: &dyn Fn(usize) -> bool,
) -> Option<u64> {
    let all = cluster.witness.suspension.as_ref()?;
    let by_deadline = matches!(cluster.policy, Policy::Edf | Policy::Fl);
    let point = |task: usize| match cluster.policy {
        Policy::Edf | Policy::Fl | Policy::Dm => cluster.tasks[task].deadline,
        Policy::Rm => cluster.tasks[task].period,
        Policy::Fp => cluster.tasks[task].priority.into(),
    };
    let later = all[own].window?.later;
    let (_, period, cost) = numbers_of(cluster, own);
    let mut length = cost;
    loop {
        let mut sum = cost;
        for other in (0..lives.len()).filter(|other| *other != own && (by_deadline || point(*other) <= point(own))) {
            let (executing, theirs, _) = numbers_of(cluster, other);
            let jitter = match () {
                () if !by_deadline && point(other) < point(own) && never(other) => 0,
                () if all[other].kept && all[other].counted => lives[other]?.saturating_sub(executing),
                () => lives[other]?,
            };
            let mut jobs = (length + jitter).div_ceil(theirs);
            if by_deadline {
                let reach = (point(own) + lives[other]?).saturating_sub(point(other) + later);
                jobs = jobs.min(reach.div_ceil(theirs));
            }
            sum += jobs * executing;
        }
        if later + sum > period {
            return None;
        }
        if sum == length {
            return Some(later + length);
        }
        length = sum;
    }
}

/// The longest response of a task on one CPU with small numbers, job by job and offset by offset; ties go against it.
fn slowly(cluster: &Cluster, tasks: &[Task], own: usize) -> Option<u64> {
    let is_small = tasks.iter().all(|task| task.period.0 <= 24) && cluster.cpus() == 1;
    let shares: u64 = tasks.iter().map(|task| task.execution.0 * 1_000 / task.period.0 + 1).sum();
    if !is_small || shares > 970 {
        return None;
    }
    let by_deadline = matches!(cluster.policy(), PolicyName::Edf | PolicyName::Fl);
    let key = |task: usize, release: u64| match cluster.policy() {
        PolicyName::Edf | PolicyName::Fl => release + tasks[task].deadline.0,
        PolicyName::Rm => tasks[task].period.0,
        PolicyName::Dm => tasks[task].deadline.0,
        PolicyName::Fp => tasks[task].priority.into(),
    };
    let mut worst = 0;
    let phases = if by_deadline { tasks[own].period.0 } else { 1 };
    for phase in 0..phases {
        // Each task's ready jobs: release and what is left.
        let mut ready: Vec<Vec<(u64, u64)>> = vec![Vec::new(); tasks.len()];
        for now in 0..400 {
            for (task, one) in tasks.iter().enumerate() {
                let from = if task == own { phase } else { 0 };
                if now >= from && (now - from) % one.period.0 == 0 {
                    ready[task].push((now, one.execution.0));
                }
            }
            let heads = ready.iter().enumerate().filter_map(|(task, jobs)| Some((task, jobs.first()?.0)));
            let Some((task, release)) = heads.min_by_key(|(task, release)| (key(*task, *release), *task == own)) else {
                if now > phase {
                    break;
                }
                continue;
            };
            ready[task][0].1 -= 1;
            if ready[task][0].1 == 0 {
                ready[task].remove(0);
                if task == own {
                    worst = worst.max(now + 1 - release);
                }
            }
        }
    }
    Some(worst)
}

#[test]
fn certificates_with_a_falsified_number_are_refused_unless_they_are_true() {
    let mut numbers = Numbers::new(2);
    let (mut tried, mut still) = (0u32, 0u32);
    let mut refused: BTreeMap<&str, u32> = BTreeMap::new();
    let mut accepted: BTreeMap<&str, u32> = BTreeMap::new();
    while tried < 10_000 {
        let drawn = drawn(&mut numbers);
        let Some(certificate) = certificate(&drawn) else { continue };
        let mut falsified = certificate.clone();
        let Some(change) = falsify(&mut numbers, &mut falsified.clusters[0]) else { continue };
        if falsified == certificate {
            continue;
        }
        tried += 1;
        match check(&falsified) {
            Err(_) => *refused.entry(change).or_default() += 1,
            Ok(_) => {
                *accepted.entry(change).or_default() += 1;
                still += 1;
                assert!(
                    is_true(&falsified.clusters[0]),
                    "{change}\n{}",
                    serde_json::to_string_pretty(&falsified).unwrap()
                );
            }
        }
    }
    println!("{tried} falsified; refused: {refused:?}; {still} still true: {accepted:?}");
    assert!(still < tried / 2);
    assert!(!accepted.contains_key("part removed"));
    for change in
        ["cost raised", "bound lowered", "period lowered", "part removed", "deadline lowered", "witness lowered"]
    {
        assert!(refused.get(change).is_some_and(|refused| *refused > 300), "{change}");
    }
}

#[test]
fn a_certificate_of_fifty_tasks_on_eight_cpus_is_small() {
    let mut numbers = Numbers::new(3);
    for policy in PolicyName::ALL {
        let cluster = loop {
            let drawn = cluster(&mut numbers, 8, policy, 50);
            let is_large = drawn.tasks().len() == 50 && drawn.tasks().iter().all(|task| task.period.0 > 1_000);
            if is_large && fusee_sched_analysis::utilisation::Utilisations::of(drawn.tasks()).fit(8) {
                break drawn;
            }
        };
        let drawn = Drawn { cluster, overheads: overheads(&mut numbers), locks: Locks::default() };
        let begin = Clock::now();
        let certificate = certificate(&drawn).unwrap();
        let written = begin.elapsed();
        let text = serde_json::to_string_pretty(&certificate).unwrap();
        let begin = Clock::now();
        let accepted = check(&serde_json::from_str::<Certificate>(&text).unwrap()).unwrap();
        let checked = begin.elapsed();
        println!(
            "{policy:?}: {} bytes; analysed and written in {written:?}, read and checked in {checked:?}; {} certified",
            text.len(),
            accepted.certified
        );
        assert!(text.len() < 100_000);
    }
}

/// Bounds by reachable states are named as uncertified, with the reason. The tasks have certified bounds by other tests.
#[test]
fn bounds_by_reachable_states_stand_beside_certified_ones() {
    let task = |(execution, period): (u64, u64)| Task {
        execution: Nanoseconds(execution),
        period: Nanoseconds(period),
        deadline: Nanoseconds(period),
        priority: 1,
    };
    let tasks: Vec<Task> = [(2_500, 10_000), (8_000, 12_000), (2_500, 6_000), (5_000, 20_000)].map(task).to_vec();
    let cluster = Cluster::new(2, PolicyName::Edf, tasks).unwrap().released_by_clock(vec![Nanoseconds(0); 4]);
    let drawn = Drawn { cluster, overheads: Overheads::default(), locks: Locks::default() };
    let certificate = certificate(&drawn).unwrap();
    for one in &certificate.clusters[0].tasks {
        let [uncertified] = &one.uncertified[..] else { panic!("{one:?}") };
        assert_eq!(
            (uncertified.test.as_str(), uncertified.why.as_str()),
            ("reachable states", "its witness would be all schedules")
        );
        assert!(one.claims.iter().all(|claim| claim.response > uncertified.response && !claim.meets));
        assert_eq!(one.claims.len(), 1);
    }
    let accepted = check(&certificate).unwrap();
    assert_eq!((accepted.certified, accepted.meeting, accepted.uncertified.len(), accepted.unbounded), (4, 0, 4, 0));
}
