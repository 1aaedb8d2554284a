//! Random requests with random arguments on the whole kernel, with kicks that take their time.
//!
//! Where `random.rs` plays scripts, tasks here make any system call in any state: with deadlines, with handles of
//! the wrong kind or of no object, with tokens they made up, with doorbells they do not hold. The simulator checks the
//! kernel's invariants after every trap, and that every CPU runs its linked reservation whenever no kick is on its way.
//! In other systems tasks stop each other, and a supervisor stops them, in the middle of any step; in others still it gives them further lives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{ENGINE_TIME_SHIFT, Event, Ledger, Record};
use fusee_kernel_core::object::State;
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_simulator::{Options, Overheads, Program, Reply, Report, Request, Until, simulate_with};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use self::strategies::{deadly_system, restarted_system, system};
use super::common::{self, Device, MS, US};
use crate::explain::parts_add_up;

mod strategies;
mod systems;

/// When the systems end themselves.
const END: &str = "40ms";
/// A time longer than all of that.
const ENDLESS: u64 = 1_000 * MS;

/// The objects of each task's handles, in this order.
const OBJECTS: [&str; 11] = ["s0", "s1", "n0", "n1", "e0", "e1", "sporadic", "page", "victim", "p0", "p1"];
/// The tasks that the supervisor may stop besides.
const OTHERS: [&str; 3] = ["gpu", "sporadic", "supervisor"];

/// The advisers of a pool.
const ADVICE: [&str; 3] = ["none", "affinity", "random"];

#[derive(Clone, Copy, Debug)]
enum Class {
    Periodic,
    Background,
    /// No reservation of its own.
    Passive,
}

#[derive(Clone, Debug)]
struct Task {
    class: Class,
    second_cluster: bool,
    period: u64,
    budget: u64,
    deadline: u64,
    phase: u64,
    /// The needs that its budget covers, and the consequence of its end.
    overrun: (bool, usize),
    requests: Vec<Wish>,
    /// Computes so long in each round: time must pass.
    burn: u64,
}

/// A request with a handle that has yet to be found.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Burn(u64),
    Submit(u32, u64),
    /// Stores another count to the doorbell of this engine, and kicks or not.
    Ring(u32, i32, bool),
    /// Both engines at once, this one named first.
    Both(usize, Until),
    Call {
        call: Call,
        object: usize,
        second: u64,
        until: Until,
        reply: Reply,
    },
    Wild {
        number: u64,
        first: u64,
        second: u64,
        until: Until,
        token: u64,
    },
}

#[derive(Clone, Debug)]
struct System {
    cpus: u32,
    first_cluster: u32,
    servers: [usize; 2],
    bound: [Option<usize>; 2],
    tasks: Vec<Task>,
    kick_delay: u64,
    managed: bool,
    /// The engines form a group.
    grouped: bool,
    /// The second pool is for both clusters.
    crossing: bool,
    /// How long a hold and a reset may take, in microseconds. Nothing: there is no watchdog.
    watchdog: Option<(u64, u64)>,
    /// The device's faults with commands of each task, if there is a watchdog.
    wrong: Vec<u32>,
    /// The steps of the supervisor: sleeps so long, then stops this task, one of the others among them. Nothing: there is no
    /// supervisor, and no task is stopped.
    stops: Vec<(u64, usize)>,
    /// Its step after each of these, if tasks have further lives: sleeps so long, restarts that task, and waits so long at most until it is up.
    agains: Vec<(u64, Option<u64>)>,
}

//--- The properties

fn run(system: &System) -> Result<(Manifest, Report), String> {
    let text = system.text();
    let manifest = Manifest::parse(Path::new("random.toml"), &text).map_err(|error| format!("{error}\n{text}"))?;
    let programs = system.programs(&manifest);
    let overheads = Overheads::kicks(system.kick_delay);
    let options = Options { overheads, programs, ..Options::default() };
    let report = simulate_with(&manifest, &options, 100 * MS).map_err(|error| format!("{error}\n{text}"))?;
    Ok((manifest, report))
}

fn holders_alternate(report: &Report) -> Result<(), String> {
    let mut holders: BTreeMap<u32, u16> = BTreeMap::new();
    let mut tokens: BTreeMap<(u32, u32), u16> = BTreeMap::new();
    for record in &report.records {
        let token = (record.object, record.value);
        let wrong = match Event::from_number(record.event) {
            Some(Event::TokenGrant) => tokens.insert(token, record.thread).is_some(),
            Some(Event::TokenRelease) => tokens.remove(&token) != Some(record.thread),
            Some(Event::EngineGrant) => holders.insert(record.object, record.thread).is_some(),
            Some(Event::EngineIdle) => holders.remove(&record.object) != Some(record.thread),
            _ => false,
        };
        if wrong {
            return Err(format!("two holders of engine or pool {} at {} ns", record.object, record.time));
        }
    }
    Ok(())
}

/// The records of the task at this place about engines.
fn engine_requests(report: &Report, task: usize) -> impl DoubleEndedIterator<Item = &Record> {
    let own = move |record: &&Record| usize::from(record.thread) == task + 1;
    report.records.iter().filter(own).filter(|record| record.event == Event::EngineRequest as u8)
}

/// With a watchdog, no task holds an engine for longer than that, and none waits for one that is closed.
fn nobody_keeps_an_engine(system: &System, report: &Report) -> Result<(), String> {
    let Some((hold, _)) = system.watchdog.filter(|_| system.managed) else { return Ok(()) };
    // Timers are set by way of kicks, and a trap takes a few events only.
    let most = hold * US + 4 * system.kick_delay + 1;
    let mut grants: BTreeMap<u32, u64> = BTreeMap::new();
    let mut lost = BTreeMap::new();
    for record in &report.records {
        let since = match Event::from_number(record.event) {
            Some(Event::EngineGrant) => grants.insert(record.object, record.time),
            Some(Event::EngineRelease | Event::EngineTaken) => grants.remove(&record.object),
            Some(Event::EngineLost) => {
                lost.insert(record.object, record.time);
                None
            }
            Some(Event::EngineIdle) => {
                lost.remove(&record.object);
                None
            }
            _ => None,
        };
        if since.is_some_and(|since| record.time > since + most) {
            return Err(format!("engine {} is held from {since:?} ns to {} ns", record.object, record.time));
        }
    }
    if let Some((engine, since)) = grants.iter().find(|(_, since)| report.ended_at > *since + most) {
        return Err(format!("engine {engine} is held from {since} ns on"));
    }
    for (task, state) in report.states.iter().enumerate() {
        if let State::Acquiring(_) = state
            && let Some(since) = engine_requests(report, task).next_back().and_then(|record| lost.get(&record.object))
            && report.ended_at > since + most
        {
            return Err(format!("task {task} waits for an engine that is closed since {since} ns"));
        }
    }
    Ok(())
}

fn engine_time(ledgers: &BTreeMap<(u16, u16), u64>, task: u32) -> u64 {
    let of_task = |index: u16| u32::from(index & ((1 << ENGINE_TIME_SHIFT) - 1)) == task;
    let own = |((kind, index), _): &(&(u16, u16), &u64)| *kind == Ledger::EngineTime as u16 && of_task(*index);
    ledgers.iter().filter(own).map(|(_, amount)| amount).sum()
}

fn time_is_accounted_for(system: &System, manifest: &Manifest, report: &Report) -> Result<(), String> {
    let ledgers = Trace::from_records(report.records.clone()).ledgers();
    let sum = |wanted: Ledger| -> u64 {
        ledgers.iter().filter(|((kind, _), _)| *kind == wanted as u16).map(|(_, amount)| amount).sum()
    };
    let (charged, run) = (sum(Ledger::Charged), sum(Ledger::ThreadTime));
    if sum(Ledger::CpuCharged) != charged || run != charged {
        return Err(format!("CPUs charged {}, reservations {charged}, threads ran {run}", sum(Ledger::CpuCharged)));
    }
    for (index, reservation) in manifest.system.reservations.iter().enumerate() {
        let amount = |kind: Ledger| ledgers.get(&(kind as u16, index as u16)).copied().unwrap_or(0);
        if reservation.class == fusee_abi::image::class::BACKGROUND {
            continue;
        }
        let covers = system.tasks.get(reservation.task as usize).is_some_and(Task::covers_engines);
        // A CPU that is kicked later goes on for that long, at most. An engine, until it is done.
        if amount(Ledger::Overshoot) > system.kick_delay && !covers {
            return Err(format!("reservation {index} overran by {} ns", amount(Ledger::Overshoot)));
        }
        // A job may ask for the budgets of later ones, and get them with their deadlines.
        let is_early =
            |record: &&Record| record.event == Event::EarlyRelease as u8 && record.object as usize == index + 1;
        let early = report.records.iter().filter(is_early).count() as u64;
        // Until its first release its periods begin with the system.
        let periods = report.ended_at.div_ceil(reservation.period) + 2 + early;
        // Time used beyond all budgets is owed, of CPUs and of engines; but time used before the start is void.
        let void = manifest.system.start * (1 + manifest.system.engines.len() as u64);
        let most = reservation.budget * periods + report.debts[index] + void;
        let of_engines = if covers { engine_time(&ledgers, reservation.task) } else { 0 };
        if amount(Ledger::Charged) + of_engines > most {
            let charged = amount(Ledger::Charged);
            return Err(format!("reservation {index} used {charged} ns and {of_engines} of engines, of {most}"));
        }
    }
    Ok(())
}

//--- Deaths

/// From when to when tasks were dead, as places in the trace: the task, its end, and that of its next life.
fn graves(report: &Report) -> Vec<(usize, usize, usize)> {
    let ends = [Event::Stop as u8, Event::Exit as u8, Event::Fault as u8];
    let mut open: BTreeMap<usize, usize> = BTreeMap::new();
    let mut graves = Vec::new();
    for (place, record) in report.records.iter().enumerate() {
        let task = usize::from(record.thread).wrapping_sub(1);
        if ends.contains(&record.event) {
            open.entry(task).or_insert(place);
        } else if record.event == Event::Restart as u8
            && let Some(end) = open.remove(&task)
        {
            graves.push((task, end, place));
        }
    }
    graves.extend(open.into_iter().map(|(task, end)| (task, end, report.records.len())));
    graves
}

/// When each task that is dead at the end died; by index.
fn deaths(report: &Report) -> BTreeMap<usize, u64> {
    let last = graves(report).into_iter().filter(|(.., until)| *until == report.records.len());
    last.map(|(task, end, _)| (task, report.records[end].time)).collect()
}

/// The dead do nothing; later records about them are steps of others.
fn the_dead_rest(report: &Report) -> Result<(), String> {
    let done_for_them = [
        Event::SwitchAway,
        Event::EngineRelease,
        Event::EngineIdle,
        Event::EngineTaken,
        Event::EngineLost,
        Event::TokenRelease,
        Event::FaultRegister,
        Event::Ledger,
    ];
    for (task, time) in deaths(report) {
        if report.states[task] != State::Stopped {
            return Err(format!("task {task} ended at {time} ns, and is {:?}", report.states[task]));
        }
    }
    for (task, place, until) in graves(report) {
        let time = report.records[place].time;
        let mut after = report.records[place + 1..until].iter().filter(|record| usize::from(record.thread) == task + 1);
        if let Some(record) = after.find(|record| !done_for_them.iter().any(|event| *event as u8 == record.event)) {
            return Err(format!("task {task} ended at {time} ns, then came {record:?}"));
        }
    }
    Ok(())
}

/// At the end no thread waits for a task that is dead, unless it has died just now: for a reply, a service, a signal, an
/// engine or a token.
fn nobody_waits_for_the_dead(system: &System, report: &Report) -> Result<(), String> {
    let deaths = deaths(report);
    let driver = system.tasks.len() + 2;
    // The kicks that carry the news may be on their way.
    let recent = report.ended_at.saturating_sub(4 * system.kick_delay + 1);
    let is_long_dead = |task: usize| deaths.get(&task).is_some_and(|death| *death < recent);
    let mut holders: BTreeMap<u32, (usize, bool, u64)> = BTreeMap::new();
    let mut tokens: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for record in &report.records {
        let thread = usize::from(record.thread).wrapping_sub(1);
        match Event::from_number(record.event) {
            Some(Event::EngineGrant) => _ = holders.insert(record.object, (thread, true, record.time)),
            Some(Event::EngineRelease | Event::EngineTaken) => {
                holders.insert(record.object, (thread, false, record.time));
            }
            Some(Event::EngineIdle) => _ = holders.remove(&record.object),
            Some(Event::TokenGrant) => _ = tokens.insert((record.object, record.value), thread),
            Some(Event::TokenRelease) => _ = tokens.remove(&(record.object, record.value)),
            _ => {}
        }
    }
    if let Some(((pool, _), holder)) = tokens.iter().find(|(_, holder)| is_long_dead(**holder)) {
        return Err(format!("the dead {holder} holds a token of pool {pool}"));
    }
    for (engine, (holder, holds, _)) in &holders {
        if *holds && is_long_dead(*holder) {
            return Err(format!("the dead {holder} holds engine {engine}"));
        }
    }
    for (task, state) in report.states.iter().enumerate() {
        let dead = match *state {
            State::Calling(endpoint) => is_long_dead(system.servers[endpoint.index()]),
            State::AwaitingReply { server, .. } => is_long_dead(server.index()),
            State::Waiting(notification) => {
                system.managed
                    && system.bound.get(notification.index()).is_some_and(|bound| bound.is_some_and(is_long_dead))
            }
            State::Acquiring(_) => {
                let held = engine_requests(report, task).next_back().and_then(|record| holders.get(&record.object));
                held.is_none_or(|(_, holds, since)| !holds && *since < recent && is_long_dead(driver))
            }
            State::AwaitingGroup { .. } => {
                // All that it still lacks drains, and no task will tell.
                let last = engine_requests(report, task).next_back().map(|record| record.time);
                let asked = engine_requests(report, task).filter(|record| Some(record.time) == last);
                let mut asked = asked.filter_map(|record| holders.get(&record.object)).peekable();
                asked.peek().is_some()
                    && asked.all(|(_, holds, since)| !holds && *since < recent)
                    && is_long_dead(driver)
            }
            _ => false,
        };
        if dead {
            return Err(format!("task {task} is {state:?}, and nobody will come"));
        }
    }
    Ok(())
}

/// The conditions of a system in which tasks are stopped, and perhaps given further lives.
fn all_holds_among_the_dead(system: &System) -> Result<(), String> {
    let (manifest, report) = run(system)?;
    holders_alternate(&report)?;
    nobody_keeps_an_engine(system, &report)?;
    parts_add_up(&manifest, &report.records, system.kick_delay)?;
    the_dead_rest(&report)?;
    nobody_waits_for_the_dead(system, &report)?;
    time_is_accounted_for(system, &manifest, &report)?;
    if report.exit == Some(0) { Ok(()) } else { Err("the end did not come".to_owned()) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, max_shrink_iters: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_request_breaks_an_invariant_exceeds_a_budget_or_shares_an_engine(system in system()) {
        let (manifest, report) = run(&system).map_err(TestCaseError::fail)?;
        holders_alternate(&report).map_err(TestCaseError::fail)?;
        parts_add_up(&manifest, &report.records, system.kick_delay).map_err(TestCaseError::fail)?;
        nobody_keeps_an_engine(&system, &report).map_err(TestCaseError::fail)?;
        if report.exit.is_some() {
            time_is_accounted_for(&system, &manifest, &report).map_err(TestCaseError::fail)?;
        }
        prop_assert!(report.exit == Some(0), "the end did not come");
        prop_assert_eq!(report.late_completions, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_shrink_iters: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whoever_is_stopped_rests_and_leaves_nobody_behind(system in deadly_system()) {
        all_holds_among_the_dead(&system).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_shrink_iters: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tasks that are restarted again and again have no more budget than those that are not.
    #[test]
    fn whoever_is_given_another_life_gains_nothing_by_it_and_leaves_nobody_behind(system in restarted_system()) {
        all_holds_among_the_dead(&system).map_err(TestCaseError::fail)?;
    }
}

/// The property above is worth as much as the systems do.
#[test]
fn restarted_systems_restart_tasks_of_all_kinds_and_their_clients_hear_of_it() {
    let mut runner = TestRunner::deterministic();
    // By class, and of the driver.
    const DRIVER: usize = 3;
    let (mut restarts, mut errors, mut third) = ([0_u32; DRIVER + 1], BTreeMap::new(), 0);
    for _ in 0..1_000 {
        let system = restarted_system().new_tree(&mut runner).expect("a system").current();
        let (_, report) = run(&system).unwrap_or_else(|error| panic!("{error}"));
        for record in report.records.iter().filter(|record| record.event == Event::Restart as u8) {
            let class = system.tasks.get(usize::from(record.thread) - 1).map_or(DRIVER, |task| task.class as usize);
            restarts[class] += 1;
            third += u32::from(record.value >= 2);
        }
        for error in report.results.iter().flatten().filter_map(|code| Error::from_code(*code)) {
            *errors.entry(error as u64).or_insert(0_u32) += 1;
        }
    }
    let told =
        [Error::PeerRestarted, Error::PeerDied, Error::NotEnded].map(|error| errors.get(&(error as u64)).copied());
    println!("restarts by class {restarts:?}, {third} of a later life; told of restarts, deaths, lives: {told:?}");
    assert!(restarts.iter().all(|count| *count > 100) && third > 100, "{restarts:?}, {third}");
    assert!(told.iter().all(|count| count.is_some_and(|count| count > 10)), "{told:?}");
}

/// The steps in the middle of which tasks are stopped.
#[test]
fn random_tasks_are_stopped_in_the_middle_of_everything() {
    let mut runner = TestRunner::deterministic();
    let mut met = BTreeSet::new();
    for _ in 0..3_000 {
        let system = deadly_system().new_tree(&mut runner).expect("a system").current();
        let (_, report) = run(&system).unwrap_or_else(|error| panic!("{error}"));
        for (place, stop) in report.records.iter().enumerate().filter(|(_, one)| one.event == Event::Stop as u8) {
            let mut before = report.records[..place].iter().rev().filter(|record| record.thread == stop.thread);
            let last = before.clone().find(|record| record.event != Event::SwitchAway as u8);
            met.insert(match last.and_then(|last| Some((Event::from_number(last.event)?, last.value))) {
                Some((Event::Block, call)) => format!("waits in call {call}"),
                Some((Event::SwitchTo, _))
                    if before.next().is_some_and(|record| record.event == Event::SwitchAway as u8) =>
                {
                    "is preempted".into()
                }
                Some((Event::SwitchTo, _)) => "runs".into(),
                Some((event, _)) => format!("has just met {event:?}"),
                None => "has not begun".into(),
            });
            let mut tokens = report.records[..place].iter().rev().filter(|record| {
                record.thread == stop.thread
                    && [Event::TokenGrant as u8, Event::TokenRelease as u8].contains(&record.event)
            });
            if tokens.next().is_some_and(|record| record.event == Event::TokenGrant as u8) {
                met.insert("holds a token".into());
            }
            let mut engines = report.records[..place].iter().rev().filter(|record| {
                record.thread == stop.thread
                    && [Event::EngineGrant as u8, Event::EngineRelease as u8, Event::EngineIdle as u8]
                        .contains(&record.event)
            });
            match engines.next().and_then(|record| Event::from_number(record.event)) {
                Some(Event::EngineGrant) => _ = met.insert("holds an engine".into()),
                Some(Event::EngineRelease) => _ = met.insert("has left an engine draining".into()),
                _ => {}
            }
        }
    }
    for expected in [
        "waits in call 0",
        "waits in call 5",
        "waits in call 10",
        "waits in call 13",
        "waits in call 22",
        "is preempted",
        "runs",
        "has just met Complete",
        "has just met Call",
        "has just met Throttle",
        "holds a token",
        "holds an engine",
        "has left an engine draining",
    ] {
        assert!(met.contains(expected), "nobody who {expected} is stopped, only who {met:?}");
    }
}

/// The property above is worth as much as the systems do: among a thousand of them everything happens.
#[test]
fn random_systems_meet_every_event_and_every_error() {
    let mut runner = TestRunner::deterministic();
    let (mut events, mut errors) = (BTreeSet::new(), BTreeSet::new());
    let (mut donating, mut early, mut in_debt) = (0, 0, 0);
    for _ in 0..1_000 {
        let system = system().new_tree(&mut runner).expect("a system").current();
        let (_, report) = run(&system).unwrap_or_else(|error| panic!("{error}"));
        for record in &report.records {
            events.insert(record.event);
        }
        // A job of a task that waits for nothing and does not run: released while another of its cluster has a token.
        donating += report.states.iter().filter(|state| **state == State::Donating).count();
        let asks = |one: &Record| {
            let mut same = report.records.iter().filter(|other| other.time == one.time && other.thread == one.thread);
            same.any(|other| other.event == Event::TokenRequest as u8)
        };
        let waits = |one: &&Record| one.event == Event::Block as u8 && one.object >= fusee_abi::trace::POOL;
        early += report.records.iter().filter(waits).filter(|one| !asks(one)).count();
        for error in report.results.iter().flatten().filter_map(|code| Error::from_code(*code)) {
            errors.insert(error as u64);
        }
        // More than a late kick can do.
        in_debt += report.debts.iter().filter(|debt| **debt > system.kick_delay).count();
    }
    println!("at the end {donating} donate; {early} asked before their turn");
    assert!(early > 0, "nobody shares a pool with another cluster");
    assert!(in_debt > 10, "{in_debt} budgets at the end of which an engine was in use");
    // Kicks are traced by boards alone.
    let missing: Vec<Event> = (1..=26)
        .chain(30..=34)
        .filter_map(Event::from_number)
        .filter(|event| *event != Event::Kick && !events.contains(&(*event as u8)))
        .collect();
    assert_eq!(missing, []);
    // No object of another kind carries the right that is looked for first; the others take more tasks, or more
    // patience: `waiting.rs` has them.
    let rare = [Error::WrongKind, Error::ChainTooLong, Error::NoReplySlot];
    let missing: Vec<Error> = (1..=17)
        .filter_map(Error::from_code)
        .chain([Error::EngineLost])
        .filter(|error| !rare.contains(error) && !errors.contains(&(*error as u64)))
        .collect();
    assert_eq!(missing, []);
}

/// A call with one of [`OBJECTS`].
fn call(call: Call, object: usize, until: Until) -> Wish {
    Wish::Call { call, object, second: 1, until, reply: Reply::Nobody }
}

/// A task in the first cluster that has a period and computes for `burn` microseconds in each round.
fn job(period: u64, budget: u64, deadline: u64, phase: u64, requests: Vec<Wish>, burn: u64) -> Task {
    Task {
        class: Class::Periodic,
        second_cluster: false,
        period,
        budget,
        deadline,
        phase,
        overrun: (false, 0),
        requests,
        burn: burn * US,
    }
}

/// A thread loses its donor while its CPU has yet to take the kick, and the donor has another runner before: the time that this CPU books is no
/// excess.
#[test]
fn a_budget_that_a_cpu_still_pays_from_does_not_rest() {
    let (until, reply) = (Until::Never, Reply::Last);
    let receive = || Wish::Call { call: Call::ReplyReceive, object: 0, second: 0, until, reply };
    let asks = |after: u64| call(Call::Call, 0, Until::After(after * US));
    let donor = job(8, 6, 6, 5, vec![receive()], 461);
    let ask = call(Call::Call, 0, Until::Never);
    let holder = job(6, 2, 2, 4, vec![call(Call::Acquire, 10, Until::Never), ask, ask], 310);
    let wishes = [
        Wish::Burn(183 * US),
        call(Call::SleepUntil, 0, Until::After(785 * US)),
        asks(9),
        Wish::Burn(1_820 * US),
        asks(98),
        Wish::Burn(859 * US),
    ];
    let tasks = vec![
        job(3, 1, 1, 0, vec![Wish::Burn(US)], 10),
        donor,
        job(8, 4, 4, 4, vec![Wish::Burn(1_107 * US), receive()], 505),
        job(10, 1, 5, 3, vec![call(Call::Acquire, 4, Until::Never)], 10),
        Task { class: Class::Background, ..job(3, 1, 1, 0, wishes.to_vec(), 522) },
        holder,
    ];
    let system = System {
        cpus: 3,
        first_cluster: 3,
        servers: [2, 3],
        bound: [None, None],
        tasks,
        kick_delay: 19_200,
        managed: false,
        grouped: false,
        crossing: true,
        watchdog: None,
        wrong: vec![0; 8],
        stops: vec![(0, 3)],
        agains: Vec::new(),
    };
    let (manifest, report) = run(&system).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(time_is_accounted_for(&system, &manifest, &report), Ok(()));
}

/// A donor waits for its turn and is woken while another task runs on its budget: from that moment it gives, though the run began before.
#[test]
fn a_donor_that_is_woken_gives_from_then_on() {
    let job = |period, budget, deadline, phase, requests| Task {
        overrun: (false, 2),
        ..job(period, budget, deadline, phase, requests, 10)
    };
    let tasks = vec![
        job(6, 2, 2, 2, vec![call(Call::Acquire, 10, Until::After(1_450 * US))]),
        job(6, 7, 7, 5, vec![call(Call::Acquire, 10, Until::Never), call(Call::Call, 0, Until::Never)]),
        Task { class: Class::Background, ..job(3, 1, 1, 0, vec![Wish::Ring(0, 0, false)]) },
        job(7, 9, 9, 9, vec![Wish::Burn(US)]),
    ];
    let system = System {
        cpus: 2,
        first_cluster: 2,
        servers: [2, 0],
        bound: [None, None],
        tasks,
        kick_delay: US,
        managed: false,
        grouped: false,
        crossing: true,
        watchdog: None,
        wrong: vec![0; 8],
        stops: vec![],
        agains: Vec::new(),
    };
    let (manifest, report) = run(&system).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(parts_add_up(&manifest, &report.records, system.kick_delay), Ok(()));
}
