//! A model checker for the kernel: everything that a small system can do, in every order.
//!
//! A [`Model`] is a few CPUs and a few tasks, each with an alphabet of system calls. [`Model::explore`] starts at
//! boot and takes, in every state, every action that some CPU could take next: a kick arrives, however late; the
//! timer fires; the task that executes makes any call of its alphabet; time passes. Each action is one trap on the
//! real kernel, since a trap holds the lock from its first look to its last.
//!
//! # Checks
//!
//! After every trap:
//!
//! 1. No CPU runs a thread that another CPU still executes. The board here knows that by itself: a CPU executes
//!    the thread that its last outcome named, until its next trap ends.
//! 2. The kernel touches no registers of a thread that another CPU executes.
//! 3. No two CPUs run at the expense of one reservation.
//! 4. `Kernel::check`; a CPU's timer is set to the instant that the kernel believes; a client gets the reply to its own request.
//! 5. One task at most holds each mutex: has been told that it does, and not that it no longer does.
//! 6. A dead thread is put on no CPU, and its late calls change nothing for any other.
//! 7. A fast path has the result of the slow path: a fast call but for the CPUs that threads are linked
//!    to, a switch to the last nanosecond.
//!
//! Whenever no kick is on its way:
//!
//! 8. `Kernel::check_settled`.
//! 9. No wake-up was lost: in each cluster the earliest reservations run. The oracle sorts, and knows nothing of
//!    links, runners or lists of donors.
//!
//! Of all states together:
//!
//! 10. Kicks alone, in any order, come to an end: the states that they lead through form no circle.
//!
//! If the engines have [gates](Gates), also the conditions of `state::gates`.
//!
//! # Assumptions
//!
//! Two states are taken for one if `Kernel::hash_state` and the board feed the same words to two hashes of 64 bits
//! with different seeds. Among ten million states some two collide in both with a chance of 10^-25.
//!
//! Time stands still, or passes in ticks, up to [`Model::ticks`]. States are told apart by how far instants are from
//! now, and explored tick by tick, so that of equal states the one with most time left is explored.
//!
//! # Limits
//!
//! A trap is one step here; on a board the lock makes it so. Kernel paths take no time, which passes in whole ticks. A
//! difference that `Kernel::hash_state` forgets, two states merge over. Engines that drain are here with gates only.
// Each file of tests compiles this for itself, and uses its share.
#![allow(dead_code)]

mod search;
mod state;

pub use state::Fault;

use std::fmt::Write;
use std::path::Path;

use fusee_abi::call::{HandleValue, RESET};
use fusee_abi::image::{self, Table};
use fusee_kernel_core::id::ThreadId;
use fusee_manifest::Manifest;
use zerocopy::{FromBytes, IntoBytes};

use crate::table::device::Wrong;
use crate::table::pack;

/// A tick in nanoseconds: the models' unit of time.
pub const TICK: u64 = 1_000_000;

/// One system call that a task may make. Objects go by their names; the server of an endpoint makes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// `wait` on a notification.
    Wait(&'static str),
    /// The same, for so many ticks at most.
    WaitFor(&'static str, u64),
    /// `signal` a notification.
    Signal(&'static str),
    /// `call` an endpoint.
    Call(&'static str),
    /// The same, for so many ticks at most.
    CallFor(&'static str, u64),
    /// `send` to an endpoint.
    Send(&'static str),
    /// The same with a handle that is none, so that it is refused.
    SendGift(&'static str),
    /// `reply_receive`: answers the client that waits, if there is one.
    Serve(&'static str),
    /// `next_job`.
    NextJob,
    /// `yield`.
    Yield,
    /// `sleep_until`, so many ticks from now.
    Sleep(u64),
    /// `exit`.
    Exit,
    /// `stop` a task.
    Stop(&'static str),
    /// `restart` of the task that this one supervises.
    Restart,
    /// `wait`, so many ticks at most, until that task is up, and lend it its needs.
    Await(u64),
    /// `interrupt_ack` of a line.
    Acknowledge(&'static str),
    /// `acquire` a mutex.
    Acquire(&'static str),
    /// The same, for so many ticks at most.
    AcquireFor(&'static str, u64),
    /// `acquire_group` of two; the second must be in the alphabet on its own, too.
    AcquireBoth(&'static str, &'static str),
    /// `release` it, and the locks that were acquired with it.
    Release(&'static str),
    /// `acquire` a token of a pool.
    Take(&'static str),
    /// The same, for so many ticks at most.
    TakeFor(&'static str, u64),
    /// `release` it.
    Give(&'static str),
    /// A store to the doorbell of an engine, if the task has it: its command begins. No call.
    Submit(&'static str),
    /// The driver ends the command that runs on an engine. No call.
    Reset(&'static str),
    /// `engine_complete` by this line, of this engine.
    Complete(&'static str, &'static str),
}

impl Step {
    /// The object it names, its kind, and the right it needs.
    fn object(self) -> Option<(&'static str, &'static str, &'static str)> {
        Some(match self {
            Step::Wait(name) | Step::WaitFor(name, _) => (name, "notification", "wait"),
            Step::Signal(name) => (name, "notification", "signal"),
            Step::Call(name) | Step::CallFor(name, _) => (name, "endpoint", "call"),
            Step::Send(name) | Step::SendGift(name) => (name, "endpoint", "send"),
            Step::Serve(name) => (name, "endpoint", "receive"),
            Step::Stop(name) => (name, "task", "stop"),
            Step::Acknowledge(name) | Step::Complete(name, _) => (name, "interrupt", "acknowledge"),
            Step::Acquire(name)
            | Step::AcquireFor(name, _)
            | Step::AcquireBoth(name, _)
            | Step::Release(name)
            | Step::Submit(name) => (name, "engine", "acquire"),
            Step::Take(name) | Step::TakeFor(name, _) | Step::Give(name) => (name, "pool", "acquire"),
            _ => return None,
        })
    }
}

/// A task of a model.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name.
    pub name: &'static str,
    /// Its cluster.
    pub cluster: usize,
    /// The other keys of the manifest: see [`real_time`], [`background`], [`PASSIVE`].
    pub keys: String,
    /// The steps that it may do, at any time and in any order.
    pub alphabet: Vec<Step>,
}

/// A passive server.
pub const PASSIVE: &str = "";

/// A real-time task without releases: it starts with one, whose deadline is `deadline` ticks.
pub fn real_time(deadline: u64) -> String {
    format!("release = \"sporadic\"\nperiod = \"1s\"\nbudget = \"1ms\"\ndeadline = \"{deadline}ms\"\n")
}

/// A real-time task released every `period` ticks.
pub fn periodic(period: u64, budget: u64, deadline: u64) -> String {
    format!("period = \"{period}ms\"\nbudget = \"{budget}ms\"\ndeadline = \"{deadline}ms\"\n")
}

/// A background task with slices of `slice` ticks.
pub fn background(slice: u64) -> String {
    format!("class = \"background\"\nperiod = \"1s\"\nbudget = \"{slice}ms\"\n")
}

/// The description of engines with gates. All are of one device, whose line is the model's first; the task that acknowledges it is the driver.
#[derive(Clone, Copy, Debug)]
pub struct Gates {
    /// How many ticks a shared command takes at most once the gate is shut.
    pub longest: u64,
    /// How many ticks an engine may be held.
    pub watchdog: u64,
    /// How many ticks the driver has for a reset.
    pub reset: u64,
    /// The fault of the device.
    pub wrong: Option<Wrong>,
}

/// A small system, and how far it is explored.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name, for reports.
    pub name: String,
    /// How many CPUs each cluster has.
    pub clusters: Vec<u8>,
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// Notifications whose waiters donate, and the task they donate to.
    pub bound: Vec<(&'static str, &'static str)>,
    /// Interrupts, each with the notification it signals and the cluster whose first CPU takes it. A line that is enabled
    /// may fire at any time.
    pub lines: Vec<(&'static str, &'static str, usize)>,
    /// All mutexes are in one group, which is granted in this order.
    pub group: Option<&'static str>,
    /// How many tokens each pool has, and its `limit`.
    pub tokens: (u8, &'static str),
    /// After how many ticks a token is taken from its holder; zero: never.
    pub watchdog: u64,
    /// If there is one, all engines are of a device, with gates: mutexes no more.
    pub gates: Option<Gates>,
    /// The device of each engine decides by the keys of jobs. Each has one user.
    pub keyed: bool,
    /// How many ticks a service takes at most, and in how many ticks servers are boosted once for so long. Zero: no boosts.
    pub service: (u64, u64),
    /// The supervisor of each task with further lives.
    pub supervisor: Option<(&'static str, &'static str)>,
    /// How many ticks pass at most; with zero time stands still.
    pub ticks: u64,
    /// How many ticks late a timer may fire.
    pub late: u64,
    /// The fault that happens, once, at any time.
    pub fault: Option<Fault>,
}

impl Model {
    /// A model of these clusters, without tasks, in which time stands still.
    pub fn new(name: impl Into<String>, clusters: &[u8]) -> Model {
        let clusters = clusters.to_vec();
        let (tasks, bound, lines) = (Vec::new(), Vec::new(), Vec::new());
        let (group, tokens, fault) = (None, (1, "\"r2dglp\""), None);
        let (watchdog, gates, keyed, service, supervisor, ticks, late) = (0, None, false, (0, 0), None, 0, 0);
        let name = name.into();
        Model {
            name,
            clusters,
            tasks,
            bound,
            lines,
            group,
            tokens,
            watchdog,
            gates,
            keyed,
            service,
            supervisor,
            ticks,
            late,
            fault,
        }
    }

    /// Adds a task.
    #[must_use]
    pub fn task(mut self, name: &'static str, cluster: usize, keys: impl Into<String>, alphabet: &[Step]) -> Model {
        self.tasks.push(Task { name, cluster, keys: keys.into(), alphabet: alphabet.to_vec() });
        self
    }

    /// Lets time pass.
    #[must_use]
    pub fn ticks(self, ticks: u64) -> Model {
        Model { ticks, ..self }
    }
}

/// A model with its names resolved.
struct System {
    model: Model,
    /// The packed system, word by word.
    packed: Vec<u64>,
    /// The handle of each task's each step, or zero.
    handles: Vec<Vec<u64>>,
    /// The objects that a step names beside.
    seconds: Vec<Vec<u64>>,
    /// The server of each endpoint.
    servers: Vec<ThreadId>,
    /// The task that will signal each notification.
    bound: Vec<Option<ThreadId>>,
    /// Engine and task of each use of one.
    users: Vec<(u32, Option<ThreadId>)>,
    /// Engines by their numbers.
    engines: Vec<&'static str>,
    /// The task that hears from the device of the engines.
    driver: Option<ThreadId>,
}

impl System {
    fn new(model: &Model) -> System {
        let named = |name: &str| model.tasks.iter().position(|task| task.name == name).and_then(ThreadId::new);
        let (endpoints, notifications) = (objects(model, "endpoint"), objects(model, "notification"));
        let server = |name: &str| {
            let serves = |task: &Task| task.alphabet.iter().any(|step| matches!(step, Step::Serve(of) if *of == name));
            model.tasks.iter().position(serves).and_then(ThreadId::new).expect("every endpoint of a model is served")
        };
        let servers: Vec<ThreadId> = endpoints.iter().map(|name| server(name)).collect();
        let bound_to = |name: &str| model.bound.iter().find(|bound| bound.0 == name).and_then(|bound| named(bound.1));
        let mut bound: Vec<Option<ThreadId>> = notifications.iter().map(|name| bound_to(name)).collect();
        let mut text = preamble(model);
        if let Some((supervisor, _)) = model.supervisor {
            let _ = writeln!(text, "[supervisor]\ntask = \"{supervisor}\"");
        }
        for task in &model.tasks {
            let _ = writeln!(text, "[tasks.{}]\nbinary = \"model/model\"\ncluster = \"c{}\"", task.name, task.cluster);
            if model.supervisor.is_some_and(|(_, restarted)| restarted == task.name) {
                text += "restart = \"always\"\n";
            }
            let _ = writeln!(text, "{}[tasks.{}.handles]", task.keys, task.name);
            for (name, kind, rights) in handles_of(task) {
                let _ = writeln!(text, "{name} = \"{kind} {name}: {rights}\"");
            }
        }
        for (name, server) in endpoints.iter().zip(&servers) {
            let _ = writeln!(text, "[endpoints.{name}]\nserver = \"{}\"", model.tasks[server.index()].name);
            if let (longest @ 1.., period) = model.service {
                let _ = writeln!(text, "service_max = \"{longest}ms\"\nservice_period = \"{period}ms\"");
            }
        }
        for (name, bound) in notifications.iter().zip(&bound) {
            let _ = writeln!(text, "[notifications.{name}]");
            if let Some(task) = bound {
                let _ = writeln!(text, "bound = \"{}\"", model.tasks[task.index()].name);
            }
        }
        for name in objects(model, "engine") {
            let _ = writeln!(text, "[engines.{name}]");
            if let Some(order) = model.group {
                let _ = writeln!(text, "group = \"g\"\norder = \"{order}\"");
            }
        }
        for name in objects(model, "pool") {
            let _ = writeln!(text, "[pools.{name}]\nreplicas = {}\nlimit = {}", model.tokens.0, model.tokens.1);
            if model.watchdog > 0 {
                let _ = writeln!(text, "watchdog = \"{}ms\"", model.watchdog);
            }
        }
        for (number, (name, notification, cluster)) in model.lines.iter().enumerate() {
            let _ = writeln!(text, "[interrupts.{name}]\nline = {}\nedge = true", 112 + number);
            let _ = writeln!(text, "notification = \"{notification}\"\ncluster = \"c{cluster}\"");
        }
        if let Some((_, restarted)) = model.supervisor {
            // Behind those that are named: that of ends, and that of the task's start.
            bound.extend([None, named(restarted)]);
        }
        let manifest = Manifest::parse(Path::new(&model.name), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let image = pack(&manifest);
        let mut packed = vec![0; image.bytes().len().div_ceil(8)];
        packed.as_mut_bytes()[..image.bytes().len()].copy_from_slice(image.bytes());
        if let Some(gates) = model.gates {
            set_gates(&mut packed, gates);
        }
        if model.keyed {
            set_keys(&mut packed);
        }
        let engines = objects(model, "engine");
        let handles = model.tasks.iter().map(|task| task.alphabet.iter().map(|step| handle(task, *step)).collect());
        let second = |task: &Task, step: &Step| match step {
            Step::AcquireBoth(_, name) => handle(task, Step::Acquire(name)),
            Step::Complete(_, name) => reset_bits(engine(&engines, name)),
            Step::Submit(name) | Step::Reset(name) => engine(&engines, name) as u64,
            _ => 0,
        };
        let seconds = |task: &Task| task.alphabet.iter().map(|step| second(task, step)).collect();
        let seconds = model.tasks.iter().map(seconds).collect();
        let users = parsed(&packed).engine_users().iter();
        let users = users.map(|user| (user.engine, ThreadId::new(user.task as usize))).collect();
        let acknowledges = |step: &Step| matches!(step, Step::Acknowledge(line) if *line == model.lines[0].0);
        let drives = |task: &Task| task.alphabet.iter().any(acknowledges);
        let driver = model.gates.and_then(|_| ThreadId::new(model.tasks.iter().position(drives)?));
        let handles = handles.collect();
        System { model: model.clone(), packed, handles, seconds, servers, bound, users, engines, driver }
    }

    /// The packed system.
    fn image(&self) -> image::System<'_> {
        parsed(&self.packed)
    }

    fn threads(&self) -> impl Iterator<Item = ThreadId> + use<> {
        (0..self.model.tasks.len()).filter_map(ThreadId::new)
    }

    fn name(&self, thread: ThreadId) -> &'static str {
        self.model.tasks[thread.index()].name
    }
}

fn parsed(packed: &[u64]) -> image::System<'_> {
    image::System::parse(packed.as_bytes()).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Makes all engines those of a device, with gates. A manifest says of such a device more than a small kernel has room for.
fn set_gates(packed: &mut [u64], gates: Gates) {
    let image::Span { offset, count } = parsed(packed).header().tables[Table::Engines as usize];
    let bytes = &mut packed.as_mut_bytes()[offset as usize..];
    let (engines, _) = <[image::Engine]>::mut_from_prefix_with_elems(bytes, count as usize).expect("a table");
    for (number, engine) in engines.iter_mut().enumerate() {
        engine.interrupt_plus_one = 1;
        engine.watchdog = gates.watchdog * TICK;
        engine.reset_bound = gates.reset * TICK;
        engine.reset_bits = reset_bits(number);
        engine.shared_longest = gates.longest * TICK;
    }
}

/// Lets the devices of all engines decide by keys. A manifest says of such a device more than a small kernel has room for.
fn set_keys(packed: &mut [u64]) {
    let image::Span { offset, count } = parsed(packed).header().tables[Table::EngineUsers as usize];
    let bytes = &mut packed.as_mut_bytes()[offset as usize..];
    let (users, _) = <[image::EngineUser]>::mut_from_prefix_with_elems(bytes, count as usize).expect("a table");
    users.iter_mut().for_each(|user| user.key = 8);
}

/// The number of an engine.
fn engine(engines: &[&str], name: &str) -> usize {
    engines.iter().position(|engine| *engine == name).expect("an engine that is used")
}

/// By which events the driver is asked to reset an engine.
fn reset_bits(engine: usize) -> u64 {
    RESET << engine
}

/// The manifest up to its tasks.
fn preamble(model: &Model) -> String {
    let cpus: u8 = model.clusters.iter().sum();
    // Where time stands still, no job is released.
    let start = if model.ticks == 0 { 1000 } else { 1 };
    let mut text = format!(
        "[system]\nname = \"model\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"{start}ms\"\nadmission = \"warn\"\n"
    );
    let mut first = 0;
    for (index, count) in model.clusters.iter().enumerate() {
        let of: Vec<u8> = (first..first + count).collect();
        first += count;
        let _ = writeln!(text, "[clusters.c{index}]\ncpus = {of:?}");
    }
    text
}

/// The objects of a kind that the alphabets name, in the order of the manifest.
fn objects(model: &Model, kind: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for (name, of, _) in model.tasks.iter().flat_map(|task| &task.alphabet).filter_map(|step| step.object()) {
        if of == kind && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The handles of a task, one an object: name, kind, rights.
fn handles_of(task: &Task) -> Vec<(&'static str, &'static str, String)> {
    let mut handles: Vec<(&'static str, &'static str, String)> = Vec::new();
    for (name, kind, right) in task.alphabet.iter().filter_map(|step| step.object()) {
        match handles.iter_mut().find(|handle| handle.0 == name) {
            Some((_, _, rights)) if rights.split(' ').any(|had| had == right) => {}
            Some((_, _, rights)) => *rights = format!("{rights} {right}"),
            None => handles.push((name, kind, right.to_owned())),
        }
    }
    handles
}

/// The value of the handle that `step` needs.
fn handle(task: &Task, step: Step) -> u64 {
    // The handles of a supervisor come behind those that are named: the notification of ends, the task, and the notification of its start.
    let own = handles_of(task).len();
    let slot = match step {
        Step::Restart => Some(own + 1),
        Step::Await(_) => Some(own + 2),
        _ => step.object().and_then(|(name, ..)| handles_of(task).iter().position(|handle| handle.0 == name)),
    };
    slot.map_or(0, |slot| HandleValue::new(slot as u16, 1).0)
}
