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

use super::common::{self, Device, MS, US};
use crate::explain::parts_add_up;

/// When the systems end themselves.
const END: &str = "40ms";
/// A time longer than all of that.
const ENDLESS: u64 = 1_000 * MS;

/// The objects of each task's handles, in this order.
const OBJECTS: [&str; 11] = ["s0", "s1", "n0", "n1", "e0", "e1", "sporadic", "page", "victim", "p0", "p1"];
/// The tasks that the supervisor may stop besides.
const OTHERS: [&str; 3] = ["gpu", "sporadic", "supervisor"];

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

//--- Strategies

fn until() -> impl Strategy<Value = Until> {
    prop_oneof![3 => Just(Until::Never), 1 => (0u64..3_000).prop_map(|span| Until::After(span * US))]
}

fn wish() -> impl Strategy<Value = Wish> {
    let call = |call, object: usize, until| Wish::Call { call, object, second: 1, until, reply: Reply::Nobody };
    let engine = 4usize..6;
    prop_oneof![
        12 => (1u64..2_000).prop_map(|span| Wish::Burn(span * US)),
        2 => Just(call(Call::NextJob, 0, Until::Never)),
        6 => (0usize..2, until()).prop_map(move |(object, until)| call(Call::Call, object, until)),
        1 => (0usize..2, until()).prop_map(move |(object, until)| call(Call::Send, object, until)),
        4 => (0usize..2, until(), prop_oneof![3 => Just(Reply::Last), 1 => Just(Reply::Nobody)]).prop_map(
            |(object, until, reply)| Wish::Call { call: Call::ReplyReceive, object, second: 0, until, reply }
        ),
        4 => (2usize..4).prop_map(move |object| call(Call::Signal, object, Until::Never)),
        4 => (2usize..4, until()).prop_map(move |(object, until)| call(Call::Wait, object, until)),
        6 => (engine.clone(), until()).prop_map(move |(object, until)| call(Call::Acquire, object, until)),
        3 => (engine.clone(), until()).prop_map(|(object, until)| Wish::Both(object, until)),
        3 => (0u32..2, 1u64..3_000).prop_map(|(engine, span)| Wish::Submit(engine, span * US)),
        1 => (0u32..2).prop_map(|engine| Wish::Submit(engine, ENDLESS)),
        1 => (0u32..2, -2i32..4, any::<bool>()).prop_map(|(engine, change, kicks)| Wish::Ring(engine, change, kicks)),
        4 => engine.prop_map(move |object| call(Call::Release, object, Until::Never)),
        1 => Just(call(Call::ShouldYield, 4, Until::Never)),
        6 => (9usize..11, until()).prop_map(move |(object, until)| call(Call::Acquire, object, until)),
        4 => (9usize..11).prop_map(move |object| call(Call::Release, object, Until::Never)),
        1 => (9usize..11).prop_map(move |object| call(Call::ShouldYield, object, Until::Never)),
        1 => Just(call(Call::EarlyRelease, 0, Until::Never)),
        1 => (0u64..9).prop_map(|second| {
            Wish::Call { call: Call::ReleaseJob, object: 6, second, until: Until::Never, reply: Reply::Nobody }
        }),
        1 => prop::sample::select(vec![Call::Map, Call::Unmap]).prop_map(move |which| call(which, 7, Until::Never)),
        1 => (0u64..3_000).prop_map(move |span| call(Call::SleepUntil, 0, Until::After(span * US))),
        // Without a handle it is the task that ends.
        1 => Just(Wish::Wild { number: Call::Exit as u64, first: 0, second: 3, until: Until::Never, token: 0 }),
        1 => Just(call(Call::Stop, 8, Until::Never)),
        1 => Just(call(Call::Yield, 0, Until::Never)),
        1 => Just(call(Call::Now, 0, Until::Never)),
        1 => (0u64..34, any::<u64>(), any::<u64>(), until(), any::<u64>()).prop_map(
            |(number, first, second, until, token)| {
                // Handles near those that exist; `exit` needs one of none, and the end of all is not theirs.
                let first = (first % 40) | ((1 + (first >> 32) % 2) << 16);
                Wish::Wild { number, first, second: second % 4, until, token: token % 1024 }
            }
        ),
    ]
}

fn task() -> impl Strategy<Value = Task> {
    let class = prop_oneof![4 => Just(Class::Periodic), 2 => Just(Class::Background), 1 => Just(Class::Passive)];
    let shape = (class, any::<bool>(), 3u64..15, 1u64..=10, 1u64..=10, 0u64..10, (any::<bool>(), 0usize..3));
    (shape, prop::collection::vec(wish(), 1..9), 10u64..1_000).prop_map(
        |((class, second_cluster, period, budget, deadline, phase, overrun), requests, burn)| Task {
            class,
            second_cluster,
            period,
            budget,
            deadline: deadline.max(budget),
            phase,
            overrun,
            requests,
            burn: burn * US,
        },
    )
}

/// The advisers of a pool.
const ADVICE: [&str; 3] = ["none", "affinity", "random"];

fn system() -> impl Strategy<Value = System> {
    let shape = (2u32..5, 1u32..5, 0usize..8, 0usize..8, prop::option::of(0usize..8), prop::option::of(0usize..8));
    let delay = prop_oneof![2 => Just(0), 1 => Just(US), 1 => 1..50 * US];
    let watchdog = prop::option::of((200u64..6_000, 200u64..6_000));
    let wrong = prop::collection::vec(prop_oneof![5 => Just(0), 1 => 1u32..32], 8);
    let flags = (prop::bool::weighted(0.9), any::<bool>(), any::<bool>());
    (shape, prop::collection::vec(task(), 3..8), delay, flags, watchdog, wrong).prop_map(
        |((cpus, first_cluster, s0, s1, n0, n1), tasks, kick_delay, flags, watchdog, wrong)| {
            let count = tasks.len();
            let bound = [n0, n1].map(|task| task.map(|task| task % count));
            let servers = [s0 % count, s1 % count];
            let (first_cluster, stops, agains) = (first_cluster.min(cpus), Vec::new(), Vec::new());
            let (managed, grouped, crossing) = flags;
            System {
                cpus,
                first_cluster,
                servers,
                bound,
                tasks,
                kick_delay,
                managed,
                grouped,
                crossing,
                watchdog,
                wrong,
                stops,
                agains,
            }
        },
    )
}

fn deadly_system() -> impl Strategy<Value = System> {
    let stop = (0u64..12_000, 0usize..usize::MAX).prop_map(|(span, victim)| (span * US, victim));
    (system(), prop::collection::vec(stop, 1..9)).prop_map(|(system, stops)| System { stops, ..system })
}

/// Many stops, soon one after the other, and after each another life.
fn restarted_system() -> impl Strategy<Value = System> {
    let stop = (0u64..4_000, 0usize..usize::MAX).prop_map(|(span, victim)| (span * US, victim));
    let again = (prop_oneof![1 => Just(0), 3 => 0u64..3_000], prop::option::of(0u64..2_000));
    let again = again.prop_map(|(after, waits)| (after * US, waits.map(|span| span * US)));
    (system(), prop::collection::vec((stop, again), 1..16)).prop_map(|(system, both)| {
        let (stops, agains) = both.into_iter().unzip();
        System { stops, agains, ..system }
    })
}

//--- From shapes to systems

impl Task {
    fn covers_engines(&self) -> bool {
        self.overrun.0 && matches!(self.class, Class::Periodic)
    }
}

impl System {
    fn has_two_clusters(&self) -> bool {
        self.first_cluster < self.cpus
    }

    fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string takes everything");
        let (cpus, first, managed) = (self.cpus, self.first_cluster, self.managed);
        line(format_args!("[system]\nname = \"random\"\nboard = \"virt\"\ncpus = {cpus}"));
        line(format_args!("start = \"1ms\"\nmanaged = {managed}\nadmission = \"warn\""));
        line(format_args!("[clusters.a]\ncpus = {:?}", (0..first).collect::<Vec<_>>()));
        if self.has_two_clusters() {
            line(format_args!("[clusters.b]\ncpus = {:?}", (first..cpus).collect::<Vec<_>>()));
        }
        for (index, task) in self.tasks.iter().enumerate() {
            self.write_task(&mut out, index, task);
        }
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string takes everything");
        if !self.stops.is_empty() {
            line(format_args!("[tasks.supervisor]\nscript = [\"burn 1us\"]\ncluster = \"a\"\nclass = \"service\""));
            line(format_args!("period = \"10ms\"\nbudget = \"1ms\"\n[tasks.supervisor.handles]"));
            let victims = (0..self.tasks.len()).map(|index| format!("t{index}"));
            for victim in victims.chain(OTHERS.map(String::from)) {
                line(format_args!("{victim} = \"task {victim}: stop\""));
            }
        }
        if !self.agains.is_empty() {
            line(format_args!("[supervisor]\ntask = \"supervisor\"\ndies = \"go-on\""));
        }
        for other in 0..2 {
            line(format_args!("[endpoints.s{other}]\nserver = \"t{}\"\n[notifications.n{other}]", self.servers[other]));
            if let Some(bound) = self.bound[other] {
                line(format_args!("bound = \"t{bound}\""));
            }
        }
        self.write_device(&mut out);
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string takes everything");
        if self.watchdog.is_some() {
            line(format_args!("[tasks.gpu.parameters]"));
            for index in 0..self.tasks.len() {
                line(format_args!("\"inject.t{index}\" = {}", self.wrong[index]));
            }
        }
        let keys = "cluster = \"a\"\nperiod = \"1s\"\ndeadline = \"120us\"\nbudget = \"120us\"";
        line(format_args!("{}", common::end(END, &format!("{keys}\nsuspends = \"{END}\""))));
        out
    }

    fn write_task(&self, out: &mut String, index: usize, task: &Task) {
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string takes everything");
        let cluster = if task.second_cluster && self.has_two_clusters() { "b" } else { "a" };
        line(format_args!("[tasks.t{index}]\nscript = [\"burn 1us\"]\ncluster = \"{cluster}\""));
        let period = task.period * 1_000;
        // Advice makes paths long.
        let (budget, deadline) = ((period * task.budget / 20).max(120), (period * task.deadline / 10).max(120));
        match task.class {
            Class::Periodic => {
                line(format_args!("period = \"{period}us\"\nbudget = \"{budget}us\"\ndeadline = \"{deadline}us\""));
                let (covers, overrun) = (if task.covers_engines() { "cpu+engines" } else { "cpu" }, task.overrun.1);
                let overrun = ["throttle", "signal", "early-release"][overrun];
                line(format_args!(
                    "budget_covers = \"{covers}\"\noverrun = \"{overrun}\"\nphase = \"{}ms\"",
                    task.phase
                ));
            }
            Class::Background => line(format_args!("class = \"background\"")),
            Class::Passive => {}
        }
        if !self.agains.is_empty() {
            line(format_args!("restart = \"always\""));
        }
        line(format_args!("[tasks.t{index}.handles]"));
        let mut used = Vec::new();
        for server in 0..2 {
            let receive = if self.servers[server] == index { " receive" } else { "" };
            line(format_args!("s{server} = \"endpoint s{server}: call send{receive}\""));
        }
        line(format_args!("n0 = \"notification n0: signal wait\"\nn1 = \"notification n1: signal wait\""));
        // Engines are used from one cluster: the manifest refuses anything else.
        if cluster == "a" {
            line(format_args!("e0 = \"engine e0: acquire\"\ne1 = \"engine e1: acquire\""));
            // Tokens are for those with a budget,
            if !matches!(task.class, Class::Passive) {
                line(format_args!("p0 = \"pool p0: acquire\""));
                used.push("p0");
            }
            if !self.crossing && !matches!(task.class, Class::Passive) {
                line(format_args!("p1 = \"pool p1: acquire\""));
                used.push("p1");
            }
        }
        // and across clusters for jobs.
        if self.crossing && matches!(task.class, Class::Periodic) {
            line(format_args!("p1 = \"pool p1: acquire\""));
            used.push("p1");
        }
        line(format_args!("sporadic = \"task sporadic: release_job credit\"\npage = \"region page: read map\""));
        if !self.stops.is_empty() {
            line(format_args!("victim = \"task t{}: stop\"", (index + 1) % self.tasks.len()));
        }
        // Said, not kept.
        for pool in used {
            line(format_args!("[tasks.t{index}.uses.{pool}]\ncpu = \"{}us\"", 100 * (index + 1)));
        }
    }

    /// The device with its two engines, and its pools.
    fn write_device(&self, out: &mut String) {
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string takes everything");
        let order = if self.cpus.is_multiple_of(2) { "priority" } else { "fifo" };
        let mut keys = format!("order = \"{order}\"\n");
        if self.grouped {
            keys += "group = \"both\"\n";
        }
        if let Some((hold, reset)) = self.watchdog {
            keys += &format!("watchdog = \"{hold}us\"\nreset_bound = \"{reset}us\"\n");
        }
        let again = if self.agains.is_empty() { "" } else { "\nrestart = \"always\"" };
        let driver = format!("period = \"5ms\"\nbudget = \"1ms\"{again}");
        let engines = [("e0", keys.as_str()), ("e1", &keys)];
        let device = Device { cluster: Some("a"), driver: &driver, engines: &engines, ..Device::GPU };
        let limit = ["\"unlimited\"", "\"r2dglp\"", "1"][self.tasks.len() % 3];
        let shortest = ["requests", "lengths"][self.tasks.len() / 3 % 2];
        let keys = format!("advice = \"{}\"\nshortest = \"{shortest}\"", ADVICE[self.servers[0] % 3]);
        for (pool, replicas) in [(0, 2), (1, 1)] {
            if pool == 1 && self.crossing {
                line(format_args!("[pools.p1]\nreplicas = 1\nlimit = \"ck-omlp\"\n{keys}"));
                continue;
            }
            line(format_args!("[pools.p{pool}]\ncluster = \"a\"\nreplicas = {replicas}\nlimit = {limit}\n{keys}"));
        }
        line(format_args!("{REST}{}", device.text()));
    }

    fn programs(&self, manifest: &Manifest) -> Vec<(usize, Program)> {
        let program = |index: usize, task: &Task| {
            let handle = |object: usize| common::handle(manifest, index, OBJECTS[object]).unwrap_or(0);
            let wished = task.requests.iter().map(|wish| match *wish {
                Wish::Burn(span) => Request::Burn(span),
                // It would never be ended.
                Wish::Submit(engine, ENDLESS) if self.watchdog.is_none() => Request::Submit(engine, MS),
                Wish::Submit(engine, span) => Request::Submit(engine, span),
                // The same.
                Wish::Ring(..) if self.watchdog.is_none() => Request::Burn(US),
                Wish::Ring(engine, change, kicks) => Request::Ring(engine, change, kicks),
                Wish::Both(first, until) => {
                    let (first, words, number) = (handle(first), [handle(9 - first), 0], Call::AcquireGroup as u64);
                    Request::Call { number, first, second: 0, words, until, reply: Reply::Nobody }
                }
                Wish::Call { call, object, second, until, reply } => {
                    Request::Call { number: call as u64, first: handle(object), second, words: [0; 2], until, reply }
                }
                Wish::Wild { number, first, second, until, token } => {
                    Request::Call { number, first, second, words: [0; 2], until, reply: Reply::Token(token) }
                }
            });
            // Only jobs share a pool with other clusters.
            let number = if self.crossing { Call::NextJob as u64 } else { Call::Null as u64 };
            let (until, reply) = (Until::Never, Reply::Nobody);
            let begins = Request::Call { number, first: 0, second: 0, words: [0; 2], until, reply };
            let requests = [begins].into_iter().chain(wished).chain([Request::Burn(task.burn)]).collect();
            (index, Program::Requests { requests, again_from: Some(0) })
        };
        let mut programs: Vec<_> = self.tasks.iter().enumerate().map(|(index, task)| program(index, task)).collect();
        if !self.stops.is_empty() {
            programs.push((self.tasks.len(), self.supervisor(manifest)));
        }
        programs
    }

    /// Its index is that after the tasks'.
    fn supervisor(&self, manifest: &Manifest) -> Program {
        let call = |call: Call, first, until| {
            let (number, reply) = (call as u64, Reply::Nobody);
            Request::Call { number, first, second: 0, words: [0; 2], until, reply }
        };
        let agains = self.agains.iter().map(Some).chain(std::iter::repeat(None));
        let requests = self.stops.iter().zip(agains).flat_map(|((span, victim), again)| {
            // The tasks first, the others behind them.
            let victim = victim % (self.tasks.len() + OTHERS.len());
            let name = victim.checked_sub(self.tasks.len()).map_or(format!("t{victim}"), |other| OTHERS[other].into());
            let handle = common::handle(manifest, self.tasks.len(), &name).unwrap_or(0);
            let mut requests =
                vec![call(Call::SleepUntil, 0, Until::After(*span)), call(Call::Stop, handle, Until::Never)];
            let of = |what: &str| common::handle(manifest, self.tasks.len(), &format!("{what}.{name}"));
            if let (Some((after, waits)), Some(task), Some(starts)) = (again, of("task"), of("starts")) {
                requests.push(call(Call::SleepUntil, 0, Until::After(*after)));
                requests.push(call(Call::Restart, task, Until::Never));
                requests.extend(waits.map(|span| call(Call::Wait, starts, Until::After(span))));
                requests.push(call(Call::ReadFault, task, Until::Never));
            }
            requests
        });
        Program::Requests { requests: requests.collect(), again_from: None }
    }
}

const REST: &str = r#"
[tasks.sporadic]
script = ["burn 500us"]
cluster = "a"
release = "sporadic"
period = "4ms"
budget = "1ms"

[regions.page]
bytes = "128KiB"
"#;

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
