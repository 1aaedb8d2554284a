//! From a manifest to a simulation.

use std::sync::Arc;

use fusee_abi::environment;
use fusee_abi::image::{Engine, PAGE, System, kind};
use fusee_abi::lives::Policy;
use fusee_abi::trace::Record;
use fusee_accel_contract::space::client_contexts;
use fusee_graph::{Edge, names};
use fusee_kernel_core::Planted;
use fusee_manifest::{Entry, Manifest, ManifestError, PackOptions, Resolved, Task};
use sharer::setup::{of_groups, of_members};

use crate::actor::Program;
use crate::graph::Node;
use crate::overheads::Overheads;
use crate::process::{Failure, Hosted, Memory, Process, unsuited};
use crate::run::{Checks, First, Mishap, Report, Simulation, SimulationError};
use crate::sharing::{Sessions, Sharer};
use crate::watcher::{Supervisor, Watched};

/// The programs of a console, of a sharer, and of the server of sessions.
const CONSOLE: &str = "console-driver/console-driver";
const SHARER: &str = "sharer/sharer";
const SESSIONS: &str = "gpu-driver/sessions";

/// The choices of a user whose program cannot run.
pub const INSTEAD: &str = "a server with a script (`serve`), or a `model`, can take its place";

/// Why a manifest could not be simulated.
#[derive(Debug)]
pub enum Error {
    /// The system could not be packed.
    Manifest(ManifestError),
    /// A task asks the kernel again and again, and no time passes.
    Stuck {
        /// Its name.
        task: String,
        /// When, in nanoseconds.
        at: u64,
    },
    /// The program of a task cannot go on.
    Program {
        /// The task's name.
        task: String,
        /// When, in nanoseconds.
        at: u64,
        /// The reason.
        why: Failure,
    },
    /// The program of a task cannot run on the host.
    Unsuited {
        /// The task's name.
        task: String,
        /// The reason.
        why: String,
    },
    /// The simulation failed.
    Simulation(SimulationError),
}

impl Error {
    /// The error of a simulation of this system.
    #[must_use]
    pub fn of(error: SimulationError, manifest: &Manifest) -> Error {
        match error {
            SimulationError::Stuck { at, task } => Error::Stuck { task: manifest.system.tasks[task].name.clone(), at },
            SimulationError::Program { at, task, why } => {
                Error::Program { task: manifest.system.tasks[task].name.clone(), at, why }
            }
            error => Error::Simulation(error),
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Manifest(error) => write!(f, "{error}"),
            Error::Stuck { task, at } => write!(
                f,
                "`{task}` asks the kernel again and again and no time passes, at {} us: its script or program needs a step that takes time, such as `burn`, or \
                 paths of the kernel that do (`--overheads`)",
                at / 1_000
            ),
            Error::Program { task, at, why } => write!(f, "the program of `{task}`, at {} us, {why}", at / 1_000),
            Error::Unsuited { task, why } => {
                write!(f, "the program of `{task}` cannot run in the simulator: {why}; {INSTEAD}")
            }
            Error::Simulation(error) => write!(f, "the simulation failed: {error:?}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<SimulationError> for Error {
    fn from(error: SimulationError) -> Error {
        Error::Simulation(error)
    }
}

/// How a simulation departs from the plain run of a manifest.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether engine locks are in force, in place of the manifest's choice.
    pub managed: Option<bool>,
    /// The costs of kernel paths.
    pub overheads: Overheads,
    /// When the kernel's invariants are checked.
    pub checks: Checks,
    /// The first of all events at one instant.
    pub first: First,
    /// A rule that the kernel forgets.
    pub planted: Option<Planted>,
    /// Tasks, by index, that run something else than the manifest says.
    pub programs: Vec<(usize, Program)>,
    /// Tasks that run their programs, built for the host.
    pub hosted: Hosted,
    /// Tasks, by index, that fault the first time they run from an instant on.
    pub faults: Vec<(u64, usize)>,
    /// When devices misbehave.
    pub mishaps: Vec<Mishap>,
    /// Whether scripted tasks look at their device until it is done, in place of waiting to be told.
    pub polls: bool,
    /// Tasks, by index, whose end ends the simulation: that of the last of each list.
    pub decisive: Vec<Vec<usize>>,
    /// The seed that orders CPUs at one instant; `None`: the lowest comes first.
    pub order: Option<u64>,
}

/// Simulates the system of `manifest` until it ends itself, at the latest until `limit` nanoseconds.
///
/// # Errors
/// [`Error`].
pub fn simulate(manifest: &Manifest, managed: Option<bool>, limit: u64) -> Result<Report, Error> {
    simulate_with(manifest, &Options { managed, ..Options::default() }, limit)
}

/// Simulates the system of `manifest` with the departures `options` until it ends itself, at the latest until
/// `limit` nanoseconds.
///
/// # Errors
/// [`Error`].
pub fn simulate_with(manifest: &Manifest, options: &Options, limit: u64) -> Result<Report, Error> {
    prepare(manifest, options)?.run(limit, None).map_err(|error| Error::of(error, manifest))
}

/// As [`simulate_with`], but `observer` sees each record of the trace, in order, and none is kept.
///
/// # Errors
/// [`Error`].
pub fn simulate_observed(
    manifest: &Manifest,
    options: &Options,
    limit: u64,
    observer: &mut dyn FnMut(&Record),
) -> Result<Report, Error> {
    prepare(manifest, options)?.run(limit, Some(observer)).map_err(|error| Error::of(error, manifest))
}

fn prepare(manifest: &Manifest, options: &Options) -> Result<Simulation, Error> {
    Ok(begin(manifest, options)?.simulation)
}

/// A simulation that goes on step by step, and the memory of its programs.
pub struct Begun {
    /// The simulation, before its first instant.
    pub simulation: Simulation,
    /// The memory of all tasks that run programs; `None`: there is no such task.
    pub memory: Option<Arc<Memory>>,
    /// The physical address of each region, and its length in bytes.
    pub regions: Vec<(u64, u64)>,
}

/// The system of `manifest` with the departures `options`, before its first instant.
///
/// # Errors
/// [`Error`].
pub fn begin(manifest: &Manifest, options: &Options) -> Result<Begun, Error> {
    let pack = PackOptions { cpu_stride: 1, managed: options.managed };
    let packed = manifest.pack_tables(pack).map_err(Error::Manifest)?;
    let mut programs: Vec<Program> =
        manifest.system.tasks.iter().enumerate().map(|(index, task)| program(manifest, index, task)).collect();
    for (index, other) in &options.programs {
        programs[*index] = other.clone();
    }
    let memory = host(manifest, &packed.system(), &options.hosted, &mut programs)?;
    let regions = packed.system().regions().iter().map(|region| (region.physical, region.bytes)).collect();
    let simulation = Simulation::new(&packed.system(), programs)?;
    let simulation = simulation.with_overheads(options.overheads).with_checks(options.checks);
    let simulation = simulation
        .with_devices(&manifest.system.devices)
        .with_first(options.first)
        .with_planted(options.planted)
        .with_faults(&options.faults)
        .with_mishaps(&options.mishaps)
        .with_polling(options.polls)
        .with_decisive(&options.decisive)
        .with_order(options.order);
    Ok(Begun { simulation, memory, regions })
}

/// Lets tasks run their programs on the host.
fn host(
    manifest: &Manifest,
    packed: &System<'_>,
    hosted: &Hosted,
    programs: &mut [Program],
) -> Result<Option<Arc<Memory>>, Error> {
    let Some((first, _)) = hosted.programs.first() else { return Ok(None) };
    let name = |index: usize| manifest.system.tasks[index].name.clone();
    for (index, _) in &hosted.programs {
        if let Some(why) = unsuited(manifest, *index) {
            return Err(Error::Unsuited { task: name(*index), why });
        }
    }
    for (index, of) in (0..programs.len()).filter_map(|index| Some((index, graph(&manifest.system, index)?))) {
        let is_hosted = |index: usize| hosted.programs.iter().any(|(one, _)| *one == index);
        let node = (0..programs.len()).find(|other| is_hosted(*other) && graph(&manifest.system, *other) == Some(of));
        if let Some(node) = node.filter(|_| !is_hosted(index)) {
            let other = name(index);
            let why = format!(
                "it is a node of a graph, of which the node `{other}` runs a script: nodes of a graph all run programs, or none does"
            );
            return Err(Error::Unsuited { task: name(node), why });
        }
    }
    let not_made = |error: std::io::Error| {
        let why = Failure::NotStarted(error.kind());
        Error::Program { task: name(*first), at: 0, why }
    };
    let memory = Arc::new(Memory::new(packed).map_err(not_made)?);
    for (index, path) in &hosted.programs {
        let process = Process::new(packed, &manifest.system, *index, path, &memory, hosted);
        programs[*index] = Program::Custom(Box::new(process));
    }
    Ok(Some(memory))
}

/// Whether the simulator has a substitute of its own for the program of a task without script and model: one that does what the program does, and not
/// only answers requests at once.
#[must_use]
pub fn has_substitute(manifest: &Manifest, index: usize) -> bool {
    let program = program(manifest, index, &manifest.system.tasks[index]);
    !matches!(program, Program::Script { .. } | Program::Server { .. } | Program::Nothing)
}

/// Tasks with a program for which nothing else stands: no script, no model, and they neither serve nor drive. Here they end at once, unless their programs
/// are [`Hosted`].
#[must_use]
pub fn unmodelled(manifest: &Manifest) -> Vec<usize> {
    let tasks = manifest.system.tasks.iter().enumerate();
    let idle = tasks.filter(|(index, task)| matches!(program(manifest, *index, task), Program::Nothing));
    idle.map(|(index, _)| index).collect()
}

/// The program that the simulator runs in place of a task's binary: its script, the model of its program, or the work of
/// servers, at no cost of time.
fn program(manifest: &Manifest, index: usize, task: &Task) -> Program {
    let system = &manifest.system;
    let steps = if task.script.is_empty() { &task.model } else { &task.script };
    if !steps.is_empty() {
        let has_jobs = system.has_jobs(task);
        return Program::Script { steps: steps.clone(), has_jobs, node: node(system, index, task) };
    }
    if system.supervisor == Some(index) {
        return Program::Supervisor(supervisor(system, task));
    }
    let handle = |wanted: u32, suits: &dyn Fn(u32) -> bool| {
        let entries = task.environment.iter().filter(|entry| entry.kind == wanted);
        entries.map(|entry| entry.handle).find(|value| object(system, index, *value).is_some_and(suits))
    };
    let serves = |object: u32| system.endpoints[object as usize].1.server as usize == index;
    let endpoint = handle(kind::ENDPOINT, &serves);
    if let Some(endpoint) = endpoint.filter(|_| task.binary == CONSOLE) {
        return Program::Console { endpoint };
    }
    if let Some(interrupt) = handle(kind::INTERRUPT, &|_| true) {
        let notified = |object: u32| system.interrupts.iter().any(|(_, interrupt)| interrupt.notification == object);
        let Some(wait) = handle(kind::NOTIFICATION, &notified) else { return Program::Nothing };
        let bottom_half = parameter(task, "bottom_half_us").unwrap_or(0) * 1_000;
        let line = object(system, index, interrupt).map_or(0, |interrupt| interrupt as usize);
        let wrong = contexts(task)
            .filter_map(|(client, context)| Some((context, parameter(task, &format!("inject.{client}"))? as u32)));
        return Program::Driver { wait, interrupt, line, clients: clients(task), wrong: wrong.collect(), bottom_half };
    }
    let Some(endpoint) = endpoint else { return Program::Nothing };
    match task.binary.as_str() {
        SHARER => sharer(system, index, task).map_or(Program::Nothing, |sharer| Program::Sharer(Box::new(sharer))),
        SESSIONS => Program::Sessions(Sessions { endpoint, sharers: sharers(system) }),
        _ => Program::Server { endpoint, service: Vec::new() },
    }
}

/// The object of a task by this handle, among all of its kind.
#[must_use]
pub fn object(system: &Resolved, task: usize, handle: u64) -> Option<u32> {
    system.handle(task, handle).map(|record| record.object)
}

/// The graph of which a task is a node.
fn graph(system: &Resolved, index: usize) -> Option<usize> {
    node(system, index, &system.tasks[index]).map(|node| node.graph)
}

/// A task's place in a graph by the manifest, as `fusee::graph` finds it in its environment.
fn node(system: &Resolved, index: usize, task: &Task) -> Option<Node> {
    let number = parameter(task, names::NODE)? as usize;
    let region = task.environment.iter().find(|entry| entry.name == names::GRAPH)?;
    let graph = object(system, index, region.handle)?;
    let edges = |prefix: &'static str| {
        let named = task.environment.iter().filter(move |entry| entry.name.starts_with(prefix));
        named.filter_map(|entry| Edge::decode(entry.address)).collect()
    };
    let handles = |prefix: &'static str| {
        let to = |entry: &Entry| Some((names::number(&entry.name, prefix)?, entry.handle));
        task.environment.iter().filter_map(to).collect()
    };
    let room = task.environment.iter().find(|entry| entry.name == names::ROOM);
    Some(Node {
        number,
        graph: graph as usize,
        edges: edges(names::EDGE),
        next: handles(names::NEXT),
        back: edges(names::BACK),
        room: room.map(|entry| entry.handle),
        rooms: handles(names::ROOM_OF),
        thread: None,
    })
}

/// The sharer of an engine by the manifest; `None`: the task is the sharer of none.
fn sharer(system: &Resolved, index: usize, task: &Task) -> Option<Sharer> {
    let named = |kind: u32, name: &str| task.environment.iter().find(|entry| entry.kind == kind && entry.name == name);
    let doorbells = task.environment.iter().find(|entry| entry.kind == kind::DOORBELLS)?;
    let engine = object(system, index, doorbells.handle)?;
    let parameters = task.environment.iter().filter(|entry| entry.kind == environment::kind::PARAMETER);
    let parameters: Vec<(String, u64)> = parameters.map(|entry| (entry.name.clone(), entry.address)).collect();
    let over = |group: &str| named(kind::NOTIFICATION, &format!("over.{group}")).map(|entry| entry.handle);
    let stop = |client: &str| named(kind::TASK, &format!("stop.{client}")).map(|entry| entry.handle);
    Some(Sharer {
        endpoint: named(kind::ENDPOINT, "requests")?.handle,
        doorbells: doorbells.handle,
        engine: engine as usize,
        // Of each client two pages are there, its doorbell and its shadow; and 4 bits say its context.
        contexts: (0..doorbells.bytes / (2 * PAGE)).map(|at| (doorbells.physical >> (4 * at) & 15) as usize).collect(),
        sessions: named(kind::ENDPOINT, "sessions").map(|entry| entry.handle),
        groups: of_groups(parameters.iter().map(|(name, value)| (name.as_str(), *value)), over),
        tasks: of_members(parameters.iter().map(|(name, value)| (name.as_str(), *value)), stop),
        parameters,
    })
}

/// The badges of all sharers, and their engines.
fn sharers(system: &Resolved) -> Vec<(u64, usize)> {
    let of = |(index, (_, engine)): (usize, &(String, Engine))| {
        let (_, endpoint) = system.endpoints.get(engine.sharer_plus_one.checked_sub(1)? as usize)?;
        Some((u64::from(endpoint.server) + 1, index))
    };
    system.engines.iter().enumerate().filter_map(of).collect()
}

/// The tasks that the manifest lets a supervisor watch.
fn supervisor(system: &Resolved, task: &Task) -> Supervisor {
    let named = |name: &str| task.environment.iter().find(|entry| entry.name == name).map(|entry| entry.handle);
    let watched = |policy: &Policy| {
        let name = &system.tasks[usize::from(policy.task)].name;
        let starts = named(&format!("starts.{name}"));
        Some(Watched { task: named(&format!("task.{name}"))?, starts, policy: *policy })
    };
    Supervisor {
        ends: named("ends").unwrap_or(0),
        has_jobs: system.has_jobs(task),
        watched: system.policies.iter().filter_map(watched).collect(),
    }
}

/// A number of the manifest's `parameters`.
fn parameter(task: &Task, name: &str) -> Option<u64> {
    let entry = task.environment.iter().find(|entry| entry.kind == environment::kind::PARAMETER && entry.name == name);
    entry.map(|entry| entry.address)
}

/// For each client of the driver's device its context and the driver's handle to its notification, by the
/// names the driver itself goes by: the parameter `context.<client>` and the notification `done.<client>`.
fn clients(task: &Task) -> Vec<(usize, u64)> {
    let notification = |client: &str| {
        let name = format!("done.{client}");
        task.environment.iter().find(|entry| entry.kind == kind::NOTIFICATION && entry.name == name)
    };
    contexts(task).filter_map(|(client, context)| Some((context, notification(client)?.handle))).collect()
}

/// The name and context of each client of the driver's device.
pub fn contexts(task: &Task) -> impl Iterator<Item = (&str, usize)> {
    let parameters = task.environment.iter().filter(|entry| entry.kind == environment::kind::PARAMETER);
    let told = parameters.filter_map(|entry| Some((entry.name.strip_prefix("context.")?, entry.address)));
    // A driver's parameter about a client has all of its contexts, and whether it has engines without their locks.
    told.flat_map(|(client, told)| client_contexts(told).map(move |context| (client, context)))
}
