//! Seventeen graphs of eleven nodes each that share six CPUs and one GPU: a video is steadied in each.
//!
//! Source: Elliott 2015, section 5.5, the demo "video stabilization" of VisionWorks. More tasks share the GPU than a kernel for a board has room for, so
//! the system exists in a process with the [limits](fusee_kernel_core::limits) `large` only, which the program `video` is; [`run`] fails in others.
//!
//! # The numbers of the text, and those that it leaves open
//!
//! The numbers of graphs, nodes, CPUs and GPUs, periods, base priorities and the purpose of each node are the text's. By top its CPUs were busy for
//! 5.76 of 6, by nvidia-smi its execution engine for 66 %. It says nothing of single nodes, so these are ours:
//!
//! - Edges: read from its table of nodes. Those to earlier frames are left out: each connects two nodes that an edge connects already.
//! - Eight nodes use the GPU, with one operation each, all of one length: six launch a kernel, one copies in, one copies out. So three quarters of the GPU's work
//!   are kernels, as in its section 4.4.1.
//! - All nodes compute for as long as each other, in all graphs: it is one application on pictures of one size. So 0.37 frames in a millisecond are those 66 %, and with bottom
//!   halves of 66 us (its section 4.3.1.1), one for each operation, and with kernel paths those 5.76 CPUs.
//! - Of its computing a node has 5 % with its token, as in its section 4.3.6.1, half before its operation, half after.
//! - Times do not vary. Sources begin at instants drawn within their periods.
//!
//! # Differences from the text
//!
//! Nothing holds a source back when its frames are not done: frames in flight are not limited. Budgets are as long as periods, so a job that
//! polls for longer comes later.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use fusee_abi::call::{HandleValue, rights};
use fusee_abi::image::{Handle, kind};
use fusee_abi::script::operation;
use fusee_abi::trace::{Event, Ledger, Record};
use fusee_accel_contract::{CONTEXTS, EngineIndex, PAGE_BYTES, status_retired};
use fusee_graph::names::{GRAPH, NEXT};
use fusee_graph::{Edge, Tokens};
use fusee_kernel_core::limits::USERS_PER_POOL;
use fusee_manifest::{Manifest, Resolved};
use fusee_simulator::board::GraphEnd;
use fusee_simulator::graph::{Node, Thread};
use fusee_simulator::system::object;
use fusee_simulator::workload::Source;
use fusee_simulator::{Checks, Options, Overheads, Program, simulate_observed};

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
/// Releases are later than this.
const START: u64 = 10 * MILLISECOND;
/// CPUs.
pub const CPUS: u16 = 6;
/// Periods, how many graphs have each, and their base priorities: the higher the more urgent.
const CLASSES: [(u64, usize, u64); 6] = [(20, 2, 75), (30, 2, 60), (40, 2, 45), (60, 5, 30), (80, 4, 15), (100, 2, 1)];
/// The time that a bottom half computes.
const BOTTOM_HALF: u64 = 66 * MICROSECOND;
/// Frames in 1.2 s, over all graphs.
const FRAMES: u64 = 444;
/// The length of each operation: all kernels take 66 % of the time.
const OPERATION: u64 = 660_000 * 1_200_000 / (FRAMES * 1_000 * KERNELS);
const KERNELS: u64 = 6;
const OPERATIONS: u64 = 8;
/// The time that each node computes: with bottom halves, 5.76 CPUs.
const COMPUTE: u64 = (5_760 * 1_200_000 / FRAMES - OPERATIONS * BOTTOM_HALF - KERNEL_PATHS) / NODES.len() as u64;
/// The time of kernel paths in a frame where nothing is dropped: measured here, some 120 traps.
const KERNEL_PATHS: u64 = 200 * MICROSECOND;
/// The part of a node's computing with a token, in thousandths.
pub const WITH_TOKEN: u64 = 50;
/// Time slices of tasks without jobs.
const SLICE: u64 = 3 * MILLISECOND;

/// A node: its purpose, the engine of its operation, and the nodes that it leads to.
type Kind = (&'static str, Option<EngineIndex>, &'static [usize]);
const EE: Option<EngineIndex> = Some(EngineIndex::Execution);
/// All nodes of a graph.
const NODES: [Kind; 11] = [
    ("read frame", None, &[1, 2]),
    ("duplicate color image", Some(EngineIndex::CopyIn), &[9]),
    ("convert to grayscale", EE, &[3, 4]),
    ("harris feature tracker", EE, &[5]),
    ("compute image pyramid", EE, &[5]),
    ("compute optical flow", EE, &[6]),
    ("compute homography", EE, &[7]),
    ("homography filter", None, &[8]),
    ("smooth homography", None, &[9]),
    ("warp perspective", EE, &[10]),
    ("display stabilized image", Some(EngineIndex::CopyOut), &[]),
];
/// Engines, by their numbers.
const ENGINES: [&str; 3] = ["ee", "in", "out"];
/// Clients of a device: context 0 is the driver's.
const CLIENTS: usize = CONTEXTS - 1;

//--- Public types

/// How CPUs are scheduled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scheduling {
    /// By deadline, all six as one cluster.
    Edf,
    /// By the priority of the graph and the depth of the node.
    Fixed,
    /// In the background, in turns.
    Slices,
}

/// How the GPU is shared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sharing {
    /// By so many tokens, and engine locks by arrival or by priority.
    Managed {
        /// Tokens.
        tokens: u8,
        /// Whether locks are by priority.
        by_priority: bool,
    },
    /// By the device's own queues, and clients look until they are done.
    Polled,
}

/// One arrangement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Setup {
    /// How CPUs are scheduled.
    pub scheduling: Scheduling,
    /// How the GPU is shared.
    pub sharing: Sharing,
    /// The part of a node's computing that is done with a token, in thousandths.
    pub with_token: u64,
    /// Nodes begin before their releases, where the manifest lets them by default.
    pub early: bool,
}

/// The results of one graph.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Frames {
    /// Its period, nanoseconds.
    pub period: u64,
    /// The instants at which each finished frame was released and done, in nanoseconds from the first release of all on, in order.
    pub done: Vec<[u64; 2]>,
}

/// The results of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Outcome {
    /// The results of each graph, those with the shortest periods first.
    pub graphs: Vec<Frames>,
    /// For how long CPUs were not idle, in sum, nanoseconds.
    pub busy: u64,
    /// For how long tokens were held, in sum; nothing, if there are none.
    pub held: u64,
    /// For how long nodes waited for tokens, and for engines, in sum.
    pub waited: [u64; 2],
    /// How often a node's budget ended.
    pub throttles: u64,
}

/// How the line of the rest begins.
const SUMS: &str = "sums ";

/// Periods of all graphs, nanoseconds.
pub fn periods() -> impl Iterator<Item = u64> {
    graphs().map(|graph| graph.period)
}

impl Setup {
    /// As the program `video` is told.
    #[must_use]
    pub fn words(self) -> [String; 5] {
        let scheduling = match self.scheduling {
            Scheduling::Edf => "edf",
            Scheduling::Fixed => "fixed",
            Scheduling::Slices => "slices",
        };
        let (tokens, order) = match self.sharing {
            Sharing::Polled => (0, "polled"),
            Sharing::Managed { tokens, by_priority: false } => (tokens, "fifo"),
            Sharing::Managed { tokens, by_priority: true } => (tokens, "priority"),
        };
        let early = if self.early { "early" } else { "released" };
        [scheduling.into(), tokens.to_string(), order.into(), self.with_token.to_string(), early.into()]
    }

    /// The setup of these words; `None`: there is none.
    #[must_use]
    pub fn of_words([scheduling, tokens, order, with_token, early]: [&str; 5]) -> Option<Setup> {
        let scheduling = match scheduling {
            "edf" => Scheduling::Edf,
            "fixed" => Scheduling::Fixed,
            "slices" => Scheduling::Slices,
            _ => return None,
        };
        let tokens = tokens.parse().ok()?;
        let sharing = match order {
            "polled" => Sharing::Polled,
            "fifo" => Sharing::Managed { tokens, by_priority: false },
            "priority" => Sharing::Managed { tokens, by_priority: true },
            _ => return None,
        };
        let early = match early {
            "early" => true,
            "released" => false,
            _ => return None,
        };
        Some(Setup { scheduling, sharing, with_token: with_token.parse().ok()?, early })
    }
}

impl Outcome {
    /// As the program `video` prints it: a line for each frame, with the number of its graph and its two instants, and then one of the rest.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for (graph, frames) in self.graphs.iter().enumerate() {
            for [release, done] in &frames.done {
                let _ = writeln!(text, "{graph} {release} {done}");
            }
        }
        let Outcome { busy, held, waited: [tokens, engines], throttles, .. } = self;
        text + &format!("{SUMS}{busy} {held} {tokens} {engines} {throttles}\n")
    }

    /// The results in such lines; `None`: it did not print these.
    #[must_use]
    pub fn of_lines(lines: &str) -> Option<Outcome> {
        let graphs = periods().map(|period| Frames { period, done: Vec::new() }).collect();
        let (mut outcome, mut is_whole) = (Outcome { graphs, ..Outcome::default() }, false);
        for line in lines.lines() {
            let sums = line.strip_prefix(SUMS);
            let numbers = sums.unwrap_or(line).split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
            match (sums, &numbers[..]) {
                (None, &[graph, release, done]) => {
                    outcome.graphs.get_mut(graph as usize)?.done.push([release, done]);
                }
                (Some(_), &[busy, held, tokens, engines, throttles]) => {
                    outcome = Outcome { busy, held, waited: [tokens, engines], throttles, ..outcome };
                    is_whole = true;
                }
                _ => return None,
            }
        }
        is_whole.then_some(outcome)
    }
}

//--- Running it

/// Runs all graphs for `length` nanoseconds from the first release on.
///
/// # Errors
/// In words.
pub fn run(setup: Setup, seed: u64, length: u64) -> Result<Outcome, String> {
    Workload::new(setup, graphs().collect(), seed, length).run()
}

#[derive(Clone, Copy, Debug)]
struct Graph {
    period: u64,
    base: u64,
    phase: u64,
}

/// All graphs, with sources that begin at once.
fn graphs() -> impl Iterator<Item = Graph> {
    let of = |(period, count, base)| std::iter::repeat_n(Graph { period: period * MILLISECOND, base, phase: 0 }, count);
    CLASSES.into_iter().flat_map(of)
}

/// Nodes on the longest path to each, itself not counted.
fn depths() -> [u64; NODES.len()] {
    let mut depths = [0; NODES.len()];
    for (node, (.., next)) in NODES.iter().enumerate() {
        next.iter().for_each(|consumer| depths[*consumer] = depths[*consumer].max(depths[node] + 1));
    }
    depths
}

fn edges() -> impl Iterator<Item = (usize, usize)> {
    NODES.iter().enumerate().flat_map(|(from, (.., next))| next.iter().map(move |to| (from, *to)))
}

/// Graphs in one arrangement, ready to run.
struct Workload {
    setup: Setup,
    graphs: Vec<Graph>,
    length: u64,
}

impl Workload {
    fn new(setup: Setup, mut graphs: Vec<Graph>, seed: u64, length: u64) -> Workload {
        let mut source = Source::new(seed, 0);
        graphs.iter_mut().for_each(|graph| graph.phase = source.draw(0, graph.period - 1));
        Workload { setup, graphs, length }
    }

    fn has_jobs(&self) -> bool {
        self.setup.scheduling != Scheduling::Slices
    }

    fn is_managed(&self) -> bool {
        self.setup.sharing != Sharing::Polled
    }

    fn run(&self) -> Result<Outcome, String> {
        let users = self.users().count();
        if users > USERS_PER_POOL {
            return Err(format!("{users} tasks share a pool, and this kernel has room for {USERS_PER_POOL}"));
        }
        let mut manifest = Manifest::parse(Path::new("video"), &self.text()).map_err(|error| error.to_string())?;
        self.connect(&mut manifest.system)?;
        let options = Options {
            managed: Some(self.is_managed()),
            overheads: Overheads::ROUND,
            checks: Checks::Instants(10_000),
            programs: self.programs(&manifest.system)?,
            polls: !self.is_managed(),
            ..Options::default()
        };
        let mut seen = Seen { nodes: self.graphs.len() * NODES.len(), ..Seen::default() };
        let limit = START + 2 * self.length;
        let report = simulate_observed(&manifest, &options, limit, &mut |record| seen.see(record));
        let report = report.map_err(|error| error.to_string())?;
        let Seen { idle, faults, outcome, .. } = seen;
        if report.exit != Some(0) || faults > 0 || report.late_completions > 0 {
            let (exit, late) = (report.exit, report.late_completions);
            return Err(format!("it ended with {exit:?}; {faults} faults, {late} completions late"));
        }
        let graphs = self.graphs.iter().enumerate().map(|(number, graph)| {
            let region = if self.has_jobs() { region(&manifest.system, number)? } else { number };
            Ok(frames(&report.graph_ends, region, graph.period))
        });
        let busy = (report.ended_at * u64::from(CPUS)).saturating_sub(idle);
        Ok(Outcome { graphs: graphs.collect::<Result<_, String>>()?, busy, ..outcome })
    }

    /// All nodes that use the GPU, by graph and number, and their engines.
    fn users(&self) -> impl Iterator<Item = (usize, usize, EngineIndex)> {
        let of = |graph: usize| {
            NODES.iter().enumerate().filter_map(move |(node, (_, engine, _))| Some((graph, node, (*engine)?)))
        };
        (0..self.graphs.len()).flat_map(of)
    }
}

/// The observations in the trace.
#[derive(Default)]
struct Seen {
    /// How many nodes there are.
    nodes: usize,
    /// How long CPUs were idle, in sum.
    idle: u64,
    faults: u64,
    /// When each task that waits for a token or an engine asked for it.
    asked: BTreeMap<u16, u64>,
    /// When each token that is held was granted.
    granted: BTreeMap<u32, u64>,
    outcome: Outcome,
}

impl Seen {
    /// A task is granted its request.
    fn answer(&mut self, record: &Record, what: usize) {
        let waited = self.asked.remove(&record.thread).map_or(0, |since| record.time - since);
        self.outcome.waited[what] += waited;
    }

    fn see(&mut self, record: &Record) {
        match Event::from_number(record.event) {
            Some(Event::Fault) => self.faults += 1,
            // Nodes come first, and so do their budgets.
            Some(Event::Throttle) => self.outcome.throttles += u64::from(record.object as usize <= self.nodes),
            Some(Event::TokenRequest | Event::EngineRequest) => _ = self.asked.insert(record.thread, record.time),
            Some(Event::TokenGrant) => {
                self.granted.insert(record.value, record.time);
                self.answer(record, 0);
            }
            Some(Event::EngineGrant) => self.answer(record, 1),
            Some(Event::TokenRelease) => {
                self.outcome.held += self.granted.remove(&record.value).map_or(0, |since| record.time - since);
            }
            Some(Event::Ledger) if record.object >> 16 == Ledger::IdleTime as u32 => {
                self.idle += u64::from(record.job) << 32 | u64::from(record.value);
            }
            _ => {}
        }
    }
}

/// The frames of a graph: they are done in the order in which they were released.
fn frames(ends: &[GraphEnd], graph: usize, period: u64) -> Frames {
    let of = |node: usize| ends.iter().filter(move |end| (end.graph, end.node) == (graph, node));
    let done = of(0).zip(of(NODES.len() - 1)).map(|(source, sink)| [source.release - START, sink.at - START]);
    Frames { period, done: done.collect() }
}

//--- The manifest

/// The name of a node's task; they are in order.
fn name(graph: usize, node: usize) -> String {
    format!("g{graph:02}n{node:02}")
}

impl Workload {
    fn text(&self) -> String {
        let policy = if self.setup.scheduling == Scheduling::Fixed { "FP" } else { "EDF" };
        let mut text = format!(
            "[system]\nname = \"video\"\nboard = \"virt\"\ncpus = {CPUS}\nstart = \"{START}ns\"\npolicy = \"{policy}\"\nadmission = \"warn\"\n"
        );
        for graph in 0..self.graphs.len() {
            for node in 0..NODES.len() {
                self.node(&mut text, graph, node);
            }
            if self.has_jobs() {
                let _ = write!(text, "[graphs.g{graph:02}]\nsource = \"{}\"\n", name(graph, 0));
                for (from, to) in edges() {
                    let [first, second] = [from, to].map(|node| name(graph, node));
                    let edge = format!("graphs.g{graph:02}.edges.\"{from}-{to}\"");
                    let _ = write!(text, "[{edge}]\nfrom = \"{first}\"\nto = \"{second}\"\n");
                }
            } else {
                for node in 0..NODES.len() {
                    let _ = writeln!(text, "[notifications.\"tokens.{}\"]", name(graph, node));
                }
            }
        }
        self.gpu(&mut text);
        let urgent = if self.setup.scheduling == Scheduling::Fixed { "priority = 1\n" } else { "" };
        let _ = write!(
            text,
            "[tasks.end]\nscript = [\"sleep {}ns\", \"shutdown\"]\nperiod = \"1000s\"\ndeadline = \"1ms\"\nbudget = \"1ms\"\n\
             suspends = \"1000s\"\n{urgent}handles = {{ system = \"system: shutdown\" }}\n",
            self.length
        );
        text
    }

    /// The task of a node.
    fn node(&self, text: &mut String, graph: usize, node: usize) {
        let (_, engine, next) = NODES[node];
        let Graph { period, base, phase } = self.graphs[graph];
        let name = name(graph, node);
        let _ = write!(text, "[tasks.{name}]\nscript = {:?}\n", self.script(engine));
        if self.has_jobs() {
            let _ = write!(text, "budget = \"{period}ns\"\nsuspends = \"1000s\"\n");
            if node == 0 {
                let _ = write!(text, "period = \"{period}ns\"\nphase = \"{phase}ns\"\nbacklog = 255\n");
            } else if !self.setup.early {
                *text += "early = false\n";
            }
        } else {
            let _ = write!(text, "class = \"background\"\nperiod = \"{SLICE}ns\"\nbudget = \"{SLICE}ns\"\n");
        }
        if self.setup.scheduling == Scheduling::Fixed {
            // The text's priorities are the higher the more urgent.
            let _ = writeln!(text, "priority = {}", 100 - base - depths()[node]);
        }
        let _ = writeln!(text, "[tasks.{name}.handles]");
        if let Some(engine) = engine {
            let engine = ENGINES[engine.number()];
            let _ = writeln!(text, "{engine} = \"engine {engine}: acquire\"");
            if self.is_managed() {
                let _ = write!(text, "gpu = \"pool gpu: acquire\"\ndone = \"notification done.{name}: wait\"\n");
            } else {
                // A script names the object that it would wait for.
                *text += "done = \"notification done: wait\"\n";
            }
        }
        if !self.has_jobs() {
            let _ = writeln!(text, "tokens = \"notification tokens.{name}: wait\"");
            for one in next {
                let consumer = self::name(graph, *one);
                let _ = writeln!(text, "\"{NEXT}{one}\" = \"notification tokens.{consumer}: signal\"");
            }
        }
    }

    /// The steps of a node in each job.
    fn script(&self, engine: Option<EngineIndex>) -> Vec<String> {
        let burn = |span: u64| format!("burn {span}ns");
        let Some(engine) = engine.map(|engine| ENGINES[engine.number()]) else { return vec![burn(COMPUTE)] };
        let submit = format!("submit {engine} {OPERATION}ns done");
        // Half before the operation, half after it.
        let half = COMPUTE * self.setup.with_token / 2_000;
        let [before, within] = [COMPUTE - 2 * half, half].map(burn);
        if !self.is_managed() {
            return vec![before, within.clone(), submit, within];
        }
        let [take, give] = ["acquire", "release"].map(|verb| [format!("{verb} gpu"), format!("{verb} {engine}")]);
        let [[take_token, take_engine], [give_token, give_engine]] = [take, give];
        vec![before, take_token, within.clone(), take_engine, submit, give_engine, within, give_token]
    }

    /// The GPU: tokens, driver, interrupt, device and engines.
    fn gpu(&self, text: &mut String) {
        *text += "[tasks.driver]\nbinary = \"gpu-driver/gpu-driver\"\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"2ms\"\n\
             [tasks.driver.handles]\nline = \"interrupt gpu: acknowledge\"\nevent = \"notification gpu: wait\"\n\
             tables = \"region tables: read write physical\"\n\
             [notifications.gpu]\n[interrupts.gpu]\nline = 112\nnotification = \"gpu\"\nedge = true\ncpu = 0\n\
             [regions.tables]\nbytes = 65536\n\
             [devices.gpu]\ndriver = \"driver\"\nfirmware = \"engine-core\"\nmemory = \"64KiB\"\n\
             [engines.line]\ndevice = \"gpu\"\nindex = 0\ninterrupt = \"gpu\"\n";
        let keys = match self.setup.sharing {
            Sharing::Polled => {
                *text += "[notifications.done]\n";
                String::new()
            }
            Sharing::Managed { tokens, by_priority } => {
                for (graph, node, _) in self.users() {
                    let _ = write!(text, "[notifications.\"done.{}\"]\nbound = \"driver\"\n", name(graph, node));
                }
                let _ = write!(text, "[pools.gpu]\nreplicas = {tokens}\nlimit = \"r2dglp\"\nwatchdog = \"100s\"\n");
                format!("order = \"{}\"\npool = \"gpu\"\n", if by_priority { "priority" } else { "fifo" })
            }
        };
        ENGINES.iter().for_each(|engine| _ = write!(text, "[engines.{engine}]\n{keys}"));
    }
}

// --- Facts that the manifest cannot express

impl Workload {
    /// Connects engines to the devices that play them: a manifest has no device with so many clients.
    ///
    /// Managed, each client has a context, so ten devices with one interrupt are one GPU: only the holder of an engine's lock rings, so one of them
    /// works at a time. With the device's own queues it is one device, and all nodes of a graph, or of two, have one context: it has no more of them, and serves
    /// by arrival anyway.
    fn connect(&self, system: &mut Resolved) -> Result<(), String> {
        let interrupt = system.interrupts.iter().position(|one| one.0 == "gpu").ok_or("no interrupt")?;
        for number in EngineIndex::ALL {
            let engine = system.engines.iter().position(|engine| engine.0 == ENGINES[number.number()]);
            let engine = engine.ok_or("no engine")?;
            system.engines[engine].1.interrupt_plus_one = interrupt as u32 + 1;
            for user in system.engine_users.iter_mut().filter(|user| user.engine as usize == engine) {
                let task = &mut system.tasks[user.task as usize];
                // Of an engine without a device it is not known which one it is there.
                let submissions = task.script.iter_mut().filter(|step| step.operation == operation::SUBMIT);
                submissions.for_each(|step| step.selector = number.number() as u32);
                let place = self.users().position(|(graph, node, _)| name(graph, node) == task.name);
                let place = place.ok_or("no node")?;
                let (device, context) = if self.is_managed() {
                    (place / CLIENTS, place % CLIENTS)
                } else {
                    (0, place / OPERATIONS as usize % CLIENTS)
                };
                user.progress = (1 + device as u64) * PAGE_BYTES + status_retired(number, 1 + context);
            }
        }
        if !self.is_managed() {
            return Ok(());
        }
        // A driver's environment names fewer clients than this one has.
        let driver = task(system, "driver")? as u32;
        for (place, (graph, node, _)) in self.users().enumerate() {
            let name = format!("done.{}", name(graph, node));
            let object = system.notifications.iter().position(|one| one.0 == name).ok_or("no notification")? as u32;
            let (slot, kind, rights) = (u32::from(slot(place)), kind::NOTIFICATION, rights::SIGNAL);
            system.handles.push(Handle { task: driver, slot, kind, object, rights, badge: 0 });
        }
        Ok(())
    }

    /// Programs that differ from the manifest's: the driver, with a device that has more clients, and nodes that have no jobs.
    fn programs(&self, system: &Resolved) -> Result<Vec<(usize, Program)>, String> {
        let driver = task(system, "driver")?;
        let client =
            |place: usize| (place / CLIENTS * CONTEXTS + 1 + place % CLIENTS, HandleValue::new(slot(place), 1).0);
        let program = Program::Driver {
            wait: handle(system, driver, "event")?,
            interrupt: handle(system, driver, "line")?,
            line: system.interrupts.iter().position(|one| one.0 == "gpu").ok_or("no interrupt")?,
            clients: (0..self.users().count()).map(client).collect(),
            wrong: Vec::new(),
            bottom_half: BOTTOM_HALF,
        };
        // No task that polls waits for it.
        let mut programs = vec![(driver, if self.is_managed() { program } else { Program::Nothing })];
        if self.has_jobs() {
            return Ok(programs);
        }
        for (graph, Graph { period, phase, .. }) in self.graphs.iter().enumerate() {
            for (number, (.., next)) in NODES.iter().enumerate() {
                let one = task(system, &name(graph, number))?;
                let next = next.iter().map(|to| Ok((*to, handle(system, one, &format!("{NEXT}{to}"))?)));
                let tokens = handle(system, one, "tokens")?;
                let node = Node {
                    number,
                    graph,
                    edges: edges().map(|(from, to)| Edge { from, to, tokens: Tokens::ONE }).collect(),
                    next: next.collect::<Result<_, String>>()?,
                    back: Vec::new(),
                    room: None,
                    rooms: Vec::new(),
                    thread: Some(Thread { tokens, first: START + phase, period: *period }),
                };
                let steps = system.tasks[one].script.clone();
                programs.push((one, Program::Script { steps, has_jobs: false, node: Some(node) }));
            }
        }
        Ok(programs)
    }
}

/// The slot of the driver's handle to the notification of client `place`: behind all handles that the manifest gives it.
fn slot(place: usize) -> u16 {
    8 + place as u16
}

fn task(system: &Resolved, name: &str) -> Result<usize, String> {
    system.tasks.iter().position(|task| task.name == name).ok_or_else(|| format!("no task `{name}`"))
}

fn handle(system: &Resolved, task: usize, name: &str) -> Result<u64, String> {
    let mut entries = system.tasks[task].environment.iter().filter(|entry| entry.name == name && entry.handle != 0);
    Ok(entries.next().ok_or_else(|| format!("no handle `{name}`"))?.handle)
}

/// The index of a graph's region.
fn region(system: &Resolved, graph: usize) -> Result<usize, String> {
    let source = task(system, &name(graph, 0))?;
    let region = object(system, source, handle(system, source, GRAPH)?).ok_or("no region")?;
    Ok(region as usize)
}

#[cfg(test)]
mod tests;
