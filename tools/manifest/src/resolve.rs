//! From names to indices: checks a manifest and lays the system out.
//!
//! The result needs no binaries: the simulator boots from it, `pack.rs` adds the programs. All indices
//! follow the order of the file.
//!
//! Here are the tables that are read first, from clusters to regions, and scripts. In the order in which they are read:
//!
//! - tasks ([`reservations`])
//! - devices, engines, pools ([`accelerators`]), and the advisers of pools ([`advice`])
//! - the handles of tasks ([`handles`]), their roles as clients ([`users`]), the reach of devices ([`streams`]), and objects that
//!   have one end only ([`ends`])
//! - how clients without a lock share ([`groups`])
//! - which nodes of graphs begin early ([`early`])
//! - CAN buses ([`buses`])
//! - the shortest budgets ([`paths`]), and the declarations of tasks on their locks ([`uses`])
//! - whether all that is accepted ([`verdict`])
//!
//! Mistakes are collected ([`mistakes`]): the first of each object, of all objects.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use fusee_abi::call::HandleValue;
use fusee_abi::image::{self, Supervision};
use fusee_abi::lives::Policy;
use fusee_abi::script::{Step, operation};
use fusee_abi::trace::{Level, RING_BYTES};
use fusee_accel_contract as contract;
use fusee_accel_contract::timing::Slowdown;
use fusee_accel_contract::{Contexts, CopyEngines, EngineIndex};
use fusee_kernel_core::limits;
use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_spatial::Mechanism;
use toml::Spanned;

use crate::board::{Board, BoardDevice, ControllerKind, Start};
use crate::error::Reason;
use crate::layout::{self, PAGE};
use crate::quantity::{Bytes, Time};
use crate::read::Mistake;
use crate::schema::{self, Named, Panic};
use crate::script::{Target, parse_step};
use crate::times::TimeTable;

mod accelerators;
mod advice;
mod buses;
mod early;
mod ends;
mod features;
pub(crate) mod graphs;
mod groups;
pub(crate) mod handles;
mod insides;
mod lives;
mod mistakes;
pub(crate) mod names;
mod paths;
mod reservations;
mod sessions;
mod spatial;
mod streams;
mod users;
mod uses;
mod verdict;

pub use buses::{Bus, BusFrame};
pub use graphs::Graph;
pub(crate) use handles::object_of;
use mistakes::Fail::{self, At};
use mistakes::{Of, names};
pub use uses::DeclaredHold;
use uses::span;

/// Budget of a task that may run for ever: it never runs dry.
pub const UNLIMITED: u64 = u64::MAX;

/// A checked system: everything but the bytes of its programs.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Name of the system.
    pub name: String,
    /// The board.
    pub board: Board,
    /// CPUs of the kernel.
    pub cpus: u32,
    /// Instant of the synchronous first release, nanoseconds.
    pub start: u64,
    /// Whether engine locks are enforced.
    pub managed: bool,
    /// The level of the kernel's trace.
    pub trace: Level,
    /// The behaviour of a kernel after a panic.
    pub panic: Panic,
    /// Whether unproved tasks are refused, not only warned of.
    pub is_strict: bool,
    /// Clusters, in order of their indices; so are all others.
    pub clusters: Vec<(String, image::Cluster)>,
    /// Tasks.
    pub tasks: Vec<Task>,
    /// Reservations.
    pub reservations: Vec<image::Reservation>,
    /// Endpoints.
    pub endpoints: Vec<(String, image::Endpoint)>,
    /// Notifications.
    pub notifications: Vec<(String, image::Notification)>,
    /// The one by which devices are kicked, if a call does that.
    pub kick: Option<usize>,
    /// Engines.
    pub engines: Vec<(String, image::Engine)>,
    /// The users of each engine with its lock.
    pub engine_users: Vec<image::EngineUser>,
    /// The users of each engine without its lock.
    pub shared_users: Vec<image::EngineUser>,
    /// For each user with a lock its holds, by number and length, if it declares them.
    pub engine_holds: Vec<Option<DeclaredHold>>,
    /// For each engine the time of the end of an operation, and its increase if the operation hangs.
    pub engine_ends: Vec<(Nanoseconds, Nanoseconds)>,
    /// For each engine how long a job waits, at most, until clients without a lock have it no more; zero: there are none.
    pub engine_take_backs: Vec<Nanoseconds>,
    /// For each engine the address of the first of the pages that take the place of its clients' doorbells, in the order of the
    /// clients; zero: no server decides on them.
    pub engine_shadows: Vec<u64>,
    /// For each engine its device and its number there, if it belongs to one.
    pub engine_places: Vec<Option<(usize, EngineIndex)>>,
    /// For each engine that is one user's part of an engine whose device decides: the name of the whole engine.
    pub arbitrated: Vec<Option<String>>,
    /// Pools of tokens.
    pub pools: Vec<(String, image::Pool)>,
    /// The users of each pool.
    pub pool_users: Vec<image::PoolUser>,
    /// The users that declare how long they have a token, the holds of engines apart: task, pool, CPU time.
    pub sections: Vec<(usize, usize, Nanoseconds)>,
    /// For each task how long a job suspends itself at most, operations apart.
    pub suspends: Vec<Nanoseconds>,
    /// For each task whether others may rely on its declarations: it is hard, so its own proof rests on them, or the manifest
    /// trusts it.
    pub keeps_word: Vec<bool>,
    /// The tasks that declare how often they call, or wait for requests: task, endpoint, times.
    pub calls: Vec<(usize, usize, u32)>,
    /// The tasks that declare a wait for a notification: task, notification.
    pub waits: Vec<(usize, usize)>,
    /// The task that gives others further lives.
    pub supervisor: Option<usize>,
    /// The supervisor's policy for each task that it watches.
    pub policies: Vec<Policy>,
    /// Interrupts.
    pub interrupts: Vec<(String, image::Interrupt)>,
    /// Regions.
    pub regions: Vec<(String, image::Region)>,
    /// Regions that are registers of a device which the board names: which region, and the device's name.
    pub board_regions: Vec<(usize, String)>,
    /// Devices whose addresses are translated.
    pub streams: Vec<image::Stream>,
    /// The physical address of the page to which the SMMU writes DMA faults.
    pub dma_faults: Option<u64>,
    /// Handles of all tasks.
    pub handles: Vec<image::Handle>,
    /// Mappings of regions, and of the memory that those devices reach. Binaries, stacks, environments and doorbells join them when
    /// packed.
    pub mappings: Vec<image::Mapping>,
    /// Accelerators.
    pub devices: Vec<Device>,
    /// The first free physical address of the pool.
    pub pool_next: u64,
    /// Graphs of tasks.
    pub graphs: Vec<Graph>,
    /// CAN buses.
    pub buses: Vec<Bus>,
    /// For each cluster the reason why nothing is proved of tasks that share something with it, if that is so.
    pub doubts: Vec<Option<String>>,
    /// Doubtful entries that the manifest allows.
    pub warnings: Vec<String>,
}

/// One task.
#[derive(Clone, Debug)]
pub struct Task {
    /// The name of the task.
    pub name: String,
    /// The program of the task: `package/binary`, or the path of an ELF file ([`Task::elf`]).
    pub binary: String,
    /// The script of the task; empty if it has none.
    pub script: Vec<Step>,
    /// The script that the simulator runs in place of the program; empty if there is none.
    pub model: Vec<Step>,
    /// Cluster it starts in.
    pub cluster: u32,
    /// The reservation of the task, if it has one.
    pub reservation: Option<usize>,
    /// Whether it must not miss a deadline.
    pub hard: bool,
    /// Whether it may sleep, and end its job, while it holds an engine or a token.
    pub sleeps_inside: bool,
    /// Bytes of its stack.
    pub stack: u64,
    /// The entries of the task's environment page.
    pub environment: Vec<Entry>,
    /// The policy after the task's end.
    pub supervision: Supervision,
}

impl Task {
    /// The path of its program, from the manifest's folder, if the manifest names an ELF file.
    #[must_use]
    pub fn elf(&self) -> Option<&Path> {
        self.binary.starts_with(['.', '/']).then(|| Path::new(&self.binary))
    }
}

/// The name among binaries of a program that the manifest names by its path. No package begins with a dot or a slash, so no
/// `package/binary` has such a name.
pub(crate) fn elf_binary(path: &str) -> String {
    if path.starts_with(['.', '/']) { path.to_owned() } else { format!("./{path}") }
}

/// One entry of an environment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Name.
    pub name: String,
    /// `image::kind` or `environment::kind`.
    pub kind: u32,
    /// For engines and doorbells: number of the engine in its device.
    pub flags: u32,
    /// Handle, or zero.
    pub handle: u64,
    /// Virtual address, or value.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// Physical address, or zero.
    pub physical: u64,
}

impl Device {
    /// The package of a firmware, and of the kernels of each device of the system, if one has some.
    #[must_use]
    pub fn kernels(firmware: &str) -> (&str, Vec<Option<&str>>) {
        let mut parts = firmware.split('+');
        (parts.next().unwrap_or_default(), parts.map(|name| Some(name).filter(|name| !name.is_empty())).collect())
    }
}

/// One accelerator: the places of its pages, and the clients of its contexts.
#[derive(Clone, Debug)]
pub struct Device {
    /// The name of the device.
    pub name: String,
    /// The firmware of the device: name of the package; and if a device of the engine CPU has kernels, behind a `+` for each of
    /// these devices, the package of its kernels, or nothing. See [`Device::kernels`]. `None`: it runs none.
    pub firmware: Option<String>,
    /// The part of the board that does the work; `None`: it is the engine CPU, by the device model.
    pub processor: Option<Processor>,
    /// The file beside the manifest with times of its kernels.
    pub time_file: Option<String>,
    /// The time of a block, for kernels whose authors do not know it: identity, class, nanoseconds. `None`: that is measured.
    pub times: Option<Vec<(u32, u32, u64)>>,
    /// Task that drives it; its context is 0.
    pub driver: usize,
    /// First physical address after the memory of regions, which the device may reach.
    pub system_end: u64,
    /// Physical address of the ring pages made for clients that bring none of their own.
    pub rings: u64,
    /// Physical address of the control page.
    pub control: u64,
    /// Physical address of the status page.
    pub status: u64,
    /// Physical address of the first doorbell page.
    pub doorbells: u64,
    /// The number of its copy engines.
    pub copy_engines: CopyEngines,
    /// Whether its execution engine can do operations block by block.
    pub preemptible: bool,
    /// The number of its contexts.
    pub size: Contexts,
    /// The rule for the next command on an engine, among clients without its lock.
    pub arbiter: schema::Arbiter,
    /// Tasks with other weights than 1, where that is by weight.
    pub weighed: Vec<(usize, u8)>,
    /// Nanoseconds by which a command takes longer after one of another context.
    pub switch: u32,
    /// Whether the device counts the work of each context.
    pub counters: bool,
    /// SMs of its execution engine; zero: it does one command at a time.
    pub sms: u8,
    /// Whether that engine's SMs go by the keys of jobs,
    pub keyed: bool,
    /// and how they are taken from one command for another.
    pub mechanism: Mechanism,
    /// Physical address of its local memory.
    pub memory: u64,
    /// Bytes of its local memory; zero without copy engines.
    pub memory_bytes: u64,
    /// The ways of its copies, by device: from memory of that one, and from and to memory of the board by its own number.
    pub ways: Vec<Slowdown>,
    /// The regions of the device that its driver and its clients get, by name.
    given: Vec<(&'static str, usize)>,
    /// Task of each context, the driver first.
    pub contexts: Vec<usize>,
    /// The line it raises when any of its engines has news; zero: none.
    pub line: u32,
}

/// The part of the board that does an accelerator's work: a processor beside those that the kernel runs on, or a device that works
/// on commands of its driver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Processor {
    /// The name of the processor on the board.
    pub name: String,
    /// The place of its program; `None`: it runs none.
    pub program: Option<Program>,
}

/// Memory of a processor of the board, in which it begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Program {
    /// The first physical address.
    pub memory: u64,
    /// Bytes of that.
    pub memory_bytes: u64,
}

/// Replaces each task that wants copies by them: `hog` becomes `hog1`, `hog2` and so on.
pub(crate) fn expand(file: &mut schema::File) -> Result<(), Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let mut tasks: Vec<(Spanned<String>, schema::Task)> = Vec::new();
    for (name, task) in std::mem::take(&mut file.tasks).0 {
        let Some(copies) = task.copies.as_ref() else {
            tasks.push((name, task));
            continue;
        };
        if *copies.get_ref() == 0 {
            let of = name.get_ref().clone();
            mistakes.push((copies.span(), Reason::Zero { what: "number of copies", of }));
        }
        // One more than fits is enough to be refused for it.
        for number in 1..=(*copies.get_ref()).min(limits::THREADS as u32 + 1) {
            let copy = Spanned::new(name.span(), format!("{}{number}", name.get_ref()));
            tasks.push((copy, task.clone()));
        }
    }
    let mut known = BTreeSet::new();
    let twice = tasks.iter().filter(|(name, _)| !known.insert(name.get_ref()));
    let twice =
        twice.map(|(name, _)| (name.span(), Reason::DefinedTwice { kind: "task", name: name.get_ref().clone() }));
    mistakes.extend(twice);
    file.tasks = Named(tasks);
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// Reads the files of `folder` that devices name: measured times of their kernels.
pub(crate) fn read_times(file: &mut schema::File, folder: &Path) {
    let measures = file.measures;
    for (_, device) in &mut file.devices.0 {
        let Some(name) = device.times.as_ref().map(Spanned::get_ref) else { continue };
        let is_beside = Path::new(name).file_name() == Some(name.as_ref());
        device.time_table = match is_beside.then(|| TimeTable::read(&folder.join(name))) {
            None => Some(Err(Reason::NotBeside(name.clone()))),
            Some(Ok(table)) => Some(Ok(table)),
            Some(Err(_)) if measures => None,
            Some(Err(why)) => Some(Err(Reason::BadTimes { file: name.clone(), why })),
        };
    }
}

/// Changes the policy and the clusters of the file to those of `--policy` and `--clusters`.
pub(crate) fn vary(file: &mut schema::File, variant: &Variant) {
    file.measures = variant.measures;
    let place = file.system.cpus.span();
    if let Some(board) = &variant.board {
        file.system.board = Spanned::new(file.system.board.span(), board.clone());
    }
    if variant.policy.is_some() || variant.clusters.is_some() {
        file.system.variant = format!(".{variant}");
    }
    let spanned = |text: &str| Spanned::new(place.clone(), text.to_owned());
    if let Some(sizes) = &variant.clusters {
        let total = sizes.iter().sum();
        file.system.cpus = Spanned::new(place.clone(), total);
        let mut next = 0;
        file.clusters = Named::default();
        for (index, size) in sizes.iter().enumerate() {
            let cpus = (next..next + size).map(|cpu| Spanned::new(place.clone(), cpu)).collect();
            next += size;
            file.clusters.0.push((spanned(&format!("c{index}")), schema::Cluster { cpus, policy: None }));
        }
        let share = |task: &schema::Task| match (&task.wcet, &task.budget, &task.period) {
            (Some(time), _, Some(period)) | (None, Some(time), Some(period)) if task.class.is_none() => {
                (time.get_ref().0, period.get_ref().0.max(1))
            }
            _ => (0, 1),
        };
        let shares: Vec<_> = file.tasks.0.iter().map(|(_, task)| share(task)).collect();
        for ((_, task), cluster) in file.tasks.0.iter_mut().zip(worst_fit(&shares, sizes)) {
            task.cluster = Some(spanned(&format!("c{cluster}")));
        }
        for (_, interrupt) in &mut file.interrupts.0 {
            interrupt.cluster = Some(spanned("c0"));
            interrupt.cpu = None;
        }
    }
    if let Some(policy) = variant.policy {
        file.system.policy = Some(spanned(policy.name()));
        for (_, cluster) in &mut file.clusters.0 {
            cluster.policy = None;
        }
    }
}

/// Gives each task, by (time, period), a cluster: worst fit, by decreasing utilisation. Tasks without a time go to the first.
fn worst_fit(shares: &[(u64, u64)], sizes: &[u32]) -> Vec<usize> {
    let parts = |(time, period): (u64, u64)| u128::from(time) * 1_000_000_000 / u128::from(period);
    let mut left: Vec<i128> = sizes.iter().map(|size| i128::from(*size) * 1_000_000_000).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|task| std::cmp::Reverse(parts(shares[*task])));
    let mut clusters = vec![0; shares.len()];
    for task in order {
        let roomiest = (0..left.len()).max_by_key(|cluster| (left[*cluster], std::cmp::Reverse(*cluster))).unwrap_or(0);
        let part = parts(shares[task]) as i128;
        if part > 0 {
            clusters[task] = roomiest;
            left[roomiest] -= part;
        }
    }
    clusters
}

/// The difference of a system from its manifest.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Variant {
    /// The policy of all clusters.
    pub policy: Option<PolicyName>,
    /// Numbers of CPUs of the clusters `c0`, `c1` and so on, which replace those of the manifest. Tasks are spread over them, worst
    /// fit, by decreasing utilisation; tasks without a utilisation go to the first.
    pub clusters: Option<Vec<u32>>,
    /// The board, in place of the manifest's.
    pub board: Option<String>,
    /// Times of kernels are measured, which takes none of them from a file.
    pub measures: bool,
    /// The folder of the files beside the manifest, if it is not that of its path.
    pub folder: Option<PathBuf>,
}

impl std::fmt::Display for Variant {
    /// `FL.2-1`: the addition to the system's name; nothing if nothing is varied.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let clusters = self.clusters.as_ref();
        let sizes = clusters.map(|sizes| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("-"));
        let parts: Vec<String> = self.policy.map(|policy| policy.name().to_owned()).into_iter().chain(sizes).collect();
        f.write_str(&parts.join("."))
    }
}

impl Variant {
    /// Reads sizes of clusters: `2,1`. `None` if it is no such list.
    #[must_use]
    pub fn parse_clusters(text: &str) -> Option<Vec<u32>> {
        let sizes = text.split(',').map(|size| size.trim().parse().ok().filter(|size| (1..=64).contains(size)));
        sizes.collect()
    }
}

/// Resolves `file`; or all mistakes, with their places in the text. Whether the tasks fit is asked if there is no other.
pub(crate) fn resolve(file: &schema::File, graphs: Vec<Graph>) -> Result<Resolved, Vec<Mistake>> {
    let name = &file.system.board;
    let unknown = || {
        let choices = Board::NAMES.map(str::to_owned).to_vec();
        vec![(name.span(), Reason::Unknown { kind: "board", name: name.get_ref().clone(), choices })]
    };
    let known = Board::named(name.get_ref());
    let mistakes = if known.is_some() { Vec::new() } else { unknown() };
    // In place of one that is unknown the first: its memory is laid out, and nothing comes of it.
    let Some(board) = known.or_else(|| Board::named(Board::NAMES[0])) else { return Err(mistakes) };
    let mut resolver = Resolver {
        file,
        out: Resolved {
            name: format!("{}{}", file.system.name.get_ref(), file.system.variant),
            cpus: *file.system.cpus.get_ref(),
            start: file.system.start.as_ref().map_or(0, |start| start.get_ref().0),
            managed: file.system.managed,
            trace: match file.system.trace {
                schema::Trace::Off => Level::Off,
                schema::Trace::Marks => Level::Marks,
                schema::Trace::Schedule => Level::Schedule,
                schema::Trace::Full => Level::Full,
            },
            panic: file.system.panic.as_ref().map(|panic| *panic.get_ref()).unwrap_or_default(),
            is_strict: file.system.admission == schema::Admission::Refuse,
            clusters: Vec::new(),
            tasks: Vec::new(),
            reservations: Vec::new(),
            endpoints: Vec::new(),
            notifications: Vec::new(),
            kick: None,
            engines: Vec::new(),
            engine_users: Vec::new(),
            shared_users: Vec::new(),
            engine_holds: Vec::new(),
            engine_ends: Vec::new(),
            engine_take_backs: Vec::new(),
            engine_shadows: Vec::new(),
            engine_places: Vec::new(),
            arbitrated: Vec::new(),
            pools: Vec::new(),
            pool_users: Vec::new(),
            sections: Vec::new(),
            suspends: Vec::new(),
            keeps_word: Vec::new(),
            calls: Vec::new(),
            waits: Vec::new(),
            supervisor: None,
            policies: Vec::new(),
            interrupts: Vec::new(),
            regions: Vec::new(),
            board_regions: Vec::new(),
            streams: Vec::new(),
            dma_faults: None,
            handles: Vec::new(),
            mappings: Vec::new(),
            devices: Vec::new(),
            pool_next: board.memory.pool,
            graphs,
            buses: Vec::new(),
            doubts: Vec::new(),
            warnings: Vec::new(),
            board,
        },
        next_address: layout::REGIONS,
        region_kinds: Vec::new(),
        told: BTreeSet::new(),
        mistakes,
        spoiled: BTreeSet::new(),
    };
    resolver.all();
    if resolver.mistakes.is_empty() {
        resolver.admission();
    }
    match resolver.mistakes() {
        mistakes if mistakes.is_empty() => Ok(resolver.out),
        mistakes => Err(mistakes),
    }
}

/// The kind of a region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RegionKind {
    /// Memory of tasks.
    Memory,
    /// Memory that no cache keeps.
    Uncached,
    /// Registers of a device, by the kind in its driver's environment (`abi::environment::device`), or zero.
    Device(u32),
    /// The kernel's trace.
    Trace,
}

struct Resolver<'a> {
    file: &'a schema::File,
    out: Resolved,
    /// First free virtual address for regions.
    next_address: u64,
    /// The kind of each region.
    region_kinds: Vec<RegionKind>,
    /// Tasks that know where a region is, and cannot reach it themselves: they need no handle.
    told: BTreeSet<(usize, usize)>,
    /// The mistakes so far.
    mistakes: Vec<Mistake>,
    /// The objects of the mistakes.
    spoiled: BTreeSet<Of>,
}

//--- Tables

impl Resolver<'_> {
    /// All but admission.
    fn all(&mut self) {
        self.limits();
        self.clusters();
        self.tasks();
        self.endpoints();
        self.notifications();
        self.interrupts();
        self.regions();
        self.devices();
        self.engines();
        self.pools();
        self.handles();
        self.streams();
        self.lives();
        self.dormant();
        self.ends();
        self.sharing();
        self.budgets();
        self.uses();
        self.lengths();
        self.watchdogs();
        self.gates();
        self.groups();
        self.token_watchdogs();
        self.suspensions();
        self.scripts();
        self.insides();
        self.environments();
        let found = self.panic();
        self.keep(Of::Nothing, found);
        let start = span("start", &self.file.system.start, &self.file.system.name);
        self.keep(Of::Nothing, start);
        self.split_locks();
        self.early();
        self.buses();
        self.test();
    }

    /// Checks that the chosen end of a panic is possible.
    fn panic(&self) -> Result<(), Fail> {
        let Some(panic) = self.file.system.panic.as_ref().filter(|panic| *panic.get_ref() == Panic::Reset) else {
            return Ok(());
        };
        let board = &self.out.board;
        match board.cpus.start == Start::SpinTable && board.watchdog.is_none() {
            true => Err(self
                .lacks(panic.span(), "firmware and no watchdog to reset it by: `panic` is \"end\" or \"halt\"".into())),
            false => Ok(()),
        }
    }

    /// The board has no such thing.
    fn lacks(&self, place: Range<usize>, what: String) -> Fail {
        At(place, Reason::BoardLacks { board: self.out.board.name.clone(), what })
    }

    /// The device of the board that is called `name`.
    fn board_device(&self, name: &str, place: Range<usize>) -> Result<&BoardDevice, Fail> {
        let devices = &self.out.board.devices;
        devices.get(name).ok_or_else(|| {
            let mut others = Board::NAMES.into_iter().filter_map(Board::named);
            if others.any(|other| other.devices.contains_key(name)) {
                return self.lacks(place, format!("device `{name}`"));
            }
            let choices = devices.keys().cloned().collect();
            At(place, Reason::Unknown { kind: "device of the board", name: name.to_owned(), choices })
        })
    }

    /// The number of a line, which the board's controller must have.
    fn line(&self, name: &Spanned<String>, interrupt: &schema::Interrupt) -> Result<u32, Fail> {
        let place = interrupt.line.span();
        let line = match interrupt.line.get_ref() {
            schema::Line::Number(line) => *line,
            schema::Line::Named(device) if device == streams::SMMU => {
                let smmu = self.out.board.smmu.as_ref();
                smmu.map(|smmu| smmu.line).ok_or_else(|| self.lacks(place.clone(), "SMMU".to_owned()))?
            }
            schema::Line::Named(device) => {
                let line = self.board_device(device, place.clone())?.line;
                line.ok_or_else(|| self.lacks(place.clone(), format!("interrupt of `{device}`")))?
            }
        };
        if line == 0 {
            return Err(At(place, Reason::Zero { what: "line", of: name.get_ref().clone() }));
        }
        if self.out.board.controller.kind == ControllerKind::Bcm2836 {
            // Mailboxes, for devices that are played by software; they are the only ones triggered by edges.
            let is_made = (112..115).contains(&line);
            if !is_made && !(32..96).contains(&line) {
                return Err(self.lacks(place, format!("line {line}; its lines are 32 to 95, and 112 to 114")));
            }
            if is_made != interrupt.edge {
                let what =
                    if is_made { "lines 112 to 114 but by edges" } else { "lines 32 to 95 that are told by edges" };
                return Err(self.lacks(name.span(), what.to_owned()));
            }
        }
        Ok(line)
    }

    fn limits(&mut self) {
        let file = self.file;
        let cpus = &file.system.cpus;
        let count = match *cpus.get_ref() as usize {
            0 => Err(At(cpus.span(), Reason::Zero { what: "number of CPUs", of: file.system.name.get_ref().clone() })),
            count if count > limits::CPUS => {
                Err(At(cpus.span(), Reason::TooMany { what: "CPUs", limit: limits::CPUS }))
            }
            count if count > self.out.board.cpus.count as usize => {
                Err(self.lacks(cpus.span(), format!("{count} CPUs; it has {}", self.out.board.cpus.count)))
            }
            count => Ok(count as u32),
        };
        self.out.cpus = self.keep(Of::Cpus, count).unwrap_or(1);
        self.limit(&file.clusters, "clusters", limits::CLUSTERS, 24, Of::Cluster);
        self.limit(&file.tasks, "tasks", limits::THREADS, 15, Of::Task);
        self.limit(&file.endpoints, "endpoints", limits::ENDPOINTS, 24, Of::Endpoint);
        self.limit(&file.notifications, "notifications", limits::NOTIFICATIONS, 24, Of::Notification);
        self.limit(&file.interrupts, "interrupts", limits::INTERRUPTS, 24, Of::Interrupt);
        self.limit(&file.regions, "regions", limits::REGIONS, 24, Of::Region);
        self.limit(&file.engines, "engines", limits::ENGINES, 24, Of::Engine);
        self.limit(&file.groups, "groups", limits::ENGINES * (fusee_sharing::GROUPS - 1), 18, Of::Group);
        self.limit(&file.pools, "pools", limits::POOLS, 24, Of::Pool);
        self.limit(&file.devices, "devices", contract::DEVICES, 24, Of::Device);
    }

    fn limit<T>(&mut self, table: &Named<T>, what: &'static str, limit: usize, name: usize, of: fn(usize) -> Of) {
        for (index, (key, _)) in table.0.iter().enumerate() {
            if index >= limit {
                self.keep(of(index), Err::<(), _>(At(key.span(), Reason::TooMany { what, limit })));
            }
            if key.get_ref().len() > name {
                let reason = Reason::NameTooLong { name: key.get_ref().clone(), limit: name };
                self.keep(of(index), Err::<(), _>(At(key.span(), reason)));
            }
        }
    }

    fn clusters(&mut self) {
        let cpus = self.out.cpus;
        if self.file.clusters.0.is_empty() {
            let policy = self.policy(None);
            let policy = self.keep(Of::Cluster(0), policy).unwrap_or_default();
            let all = ((1u64 << cpus) - 1) as u32;
            self.out.clusters.push(("all".to_owned(), image::Cluster { cpus: all, policy }));
            return;
        }
        let mut owner: Vec<Option<&str>> = vec![None; cpus as usize];
        let mut is_complete = true;
        for (index, (name, cluster)) in self.file.clusters.0.iter().enumerate() {
            let set = self.sound(Of::Cpus).and_then(|()| cpus_of(name, cluster, &mut owner));
            let policy = self.policy(cluster.policy.as_ref());
            is_complete &= set.is_ok();
            let cpus = self.keep(Of::Cluster(index), set).unwrap_or_default();
            let policy = self.keep(Of::Cluster(index), policy).unwrap_or_default();
            self.out.clusters.push((name.get_ref().clone(), image::Cluster { cpus, policy }));
        }
        let left = owner.iter().position(Option::is_none).filter(|_| is_complete);
        if let Some(cpu) = left {
            let reason = Reason::CpuInNoCluster { cpu: cpu as u32 };
            self.keep(Of::Nothing, Err::<(), _>(At(self.file.system.cpus.span(), reason)));
        }
    }

    /// Number of the policy a cluster names; else of the system's; else EDF.
    fn policy(&self, named: Option<&Spanned<String>>) -> Result<u32, Fail> {
        let Some(name) = named.or(self.file.system.policy.as_ref()) else { return Ok(PolicyName::Edf as u32) };
        PolicyName::from_name(name.get_ref()).map(|policy| policy as u32).ok_or_else(|| unknown_policy(name))
    }

    /// The cluster in `named`, or the only one there is.
    fn cluster(&self, named: Option<&Spanned<String>>, of: &Spanned<String>) -> Result<usize, Fail> {
        match named {
            Some(name) => index_of(&self.file.clusters, "cluster", name),
            None if self.out.clusters.len() == 1 => Ok(0),
            None => Err(At(of.span(), Reason::NoCluster { of: of.get_ref().clone() })),
        }
    }

    fn endpoints(&mut self) {
        for (index, (name, endpoint)) in self.file.endpoints.0.iter().enumerate() {
            let record = self.endpoint(name, endpoint);
            let record = self.keep_or_zero(Of::Endpoint(index), record);
            self.out.endpoints.push((name.get_ref().clone(), record));
        }
    }

    fn endpoint(&self, name: &Spanned<String>, endpoint: &schema::Endpoint) -> Result<image::Endpoint, Fail> {
        let server = self.task(&endpoint.server)? as u32;
        let service_max = span("service_max", &endpoint.service_max, name)?.0;
        let service_period = span("service_period", &endpoint.service_period, name)?.0;
        if let Some(key) = &endpoint.service_period {
            let of = || name.get_ref().clone();
            if service_max == 0 {
                return Err(At(key.span(), Reason::Needs { what: "service_period", of: of(), needs: "a service_max" }));
            }
            if service_period < service_max {
                let (service_period, service_max) = (Time(service_period), Time(service_max));
                return Err(At(key.span(), Reason::ServicePeriod { endpoint: of(), service_period, service_max }));
            }
        }
        Ok(image::Endpoint { server, flags: 0, service_max, service_period })
    }

    fn notifications(&mut self) {
        for (index, (name, notification)) in self.file.notifications.0.iter().enumerate() {
            let bound = notification.bound.as_ref().map(|task| self.task(task)).transpose();
            let bound = self.keep(Of::Notification(index), bound).flatten();
            let record = image::Notification { bound_plus_one: plus_one(bound), flags: 0 };
            self.out.notifications.push((name.get_ref().clone(), record));
        }
    }

    /// A notification that the manifest does not name.
    fn notification(&mut self, name: String, place: Range<usize>) -> Result<usize, Fail> {
        if self.out.notifications.len() >= limits::NOTIFICATIONS {
            return Err(At(place, Reason::TooMany { what: "notifications", limit: limits::NOTIFICATIONS }));
        }
        self.out.notifications.push((name, image::Notification { bound_plus_one: 0, flags: 0 }));
        Ok(self.out.notifications.len() - 1)
    }

    fn interrupts(&mut self) {
        let mut lines = BTreeMap::new();
        for (index, (name, interrupt)) in self.file.interrupts.0.iter().enumerate() {
            let record = self.interrupt(name, interrupt, &mut lines);
            let record = self.keep_or_zero(Of::Interrupt(index), record);
            self.out.interrupts.push((name.get_ref().clone(), record));
        }
    }

    /// `lines`: the users of the lines so far.
    fn interrupt<'a>(
        &self,
        name: &'a Spanned<String>,
        interrupt: &schema::Interrupt,
        lines: &mut BTreeMap<u32, &'a str>,
    ) -> Result<image::Interrupt, Fail> {
        let of = name.get_ref().clone();
        let line = self.line(name, interrupt)?;
        if let Some(by) = lines.insert(line, name.get_ref()) {
            return Err(At(interrupt.line.span(), Reason::PlaceTaken { what: "line", of, by: by.to_owned() }));
        }
        let notification = index_of(&self.file.notifications, "notification", &interrupt.notification)?;
        let bits = interrupt.bits.as_ref().map_or(1, |bits| *bits.get_ref());
        if bits == 0 {
            let place = interrupt.bits.as_ref().map_or(name.span(), Spanned::span);
            return Err(At(place, Reason::Zero { what: "set of bits", of }));
        }
        self.sound(Of::Cpus)?;
        let cpu = match (&interrupt.cpu, &interrupt.cluster) {
            (Some(cpu), None) if *cpu.get_ref() < self.out.cpus => *cpu.get_ref(),
            (Some(cpu), None) => {
                let reason = Reason::NoSuchCpu { cpu: *cpu.get_ref(), cpus: self.out.cpus };
                return Err(At(cpu.span(), reason));
            }
            (Some(cpu), Some(_)) => {
                return Err(At(cpu.span(), Reason::Excludes { what: "CPU", of, with: "a cluster" }));
            }
            (None, cluster) => {
                let cluster = self.cluster(cluster.as_ref(), name)?;
                self.out.clusters[cluster].1.cpus.trailing_zeros()
            }
        };
        let others = self.out.interrupts.iter().any(|(_, other)| other.line != 0 && other.cpu != cpu);
        if self.out.board.controller.kind == ControllerKind::Bcm2836 && others {
            return Err(self.lacks(name.span(), "interrupts of several CPUs: all lines go to one".to_owned()));
        }
        Ok(image::Interrupt { line, notification: notification as u32, bits, cpu, edge: interrupt.edge.into() })
    }

    fn regions(&mut self) {
        let mut fixed = Vec::new();
        for (index, (name, region)) in self.file.regions.0.iter().enumerate() {
            let memory = match &region.cached {
                Some(cached) if !*cached.get_ref() => RegionKind::Uncached,
                _ => RegionKind::Memory,
            };
            let (kind, place) = match (region.trace, &region.device) {
                (true, _) => (RegionKind::Trace, self.rings(name, region)),
                (_, None) => (memory, self.physical(name, region, false, &mut fixed)),
                (_, Some(device)) => match device.get_ref() {
                    schema::RegionDevice::Plain(false) => (memory, self.physical(name, region, false, &mut fixed)),
                    schema::RegionDevice::Plain(true) => {
                        (RegionKind::Device(0), self.physical(name, region, true, &mut fixed))
                    }
                    schema::RegionDevice::Named(wanted) => {
                        let kind = self.out.board.devices.get(wanted).map_or(0, |device| device.kind.number());
                        self.out.board_regions.push((index, wanted.clone()));
                        (RegionKind::Device(kind), self.named_device(name, region, wanted, device.span(), &mut fixed))
                    }
                },
            };
            let place = match (&region.cached, memory == kind) {
                (Some(cached), false) => {
                    let with = if region.trace { "trace" } else { "device" };
                    Err(At(cached.span(), Reason::Excludes { what: "cached", of: name.get_ref().clone(), with }))
                }
                _ => place,
            };
            let added = place
                .and_then(|(physical, bytes)| self.region(name.get_ref().clone(), physical, bytes, kind, name.span()));
            if self.keep(Of::Region(index), added).is_none() {
                let nowhere = image::Region { physical: 0, bytes: 0, address: 0 };
                self.out.regions.push((name.get_ref().clone(), nowhere));
                self.region_kinds.push(kind);
            }
        }
    }

    /// The place of the CPUs' rings in the kernel's trace, and their length.
    fn rings(&self, name: &Spanned<String>, region: &schema::Region) -> Result<(u64, u64), Fail> {
        let of = || name.get_ref().clone();
        let others = [
            ("bytes", region.bytes.as_ref().map(Spanned::span)),
            ("physical", region.physical.as_ref().map(Spanned::span)),
            ("device", region.device.as_ref().map(Spanned::span)),
        ];
        for (with, place) in others {
            if let Some(place) = place {
                return Err(At(place, Reason::Excludes { what: "trace", of: of(), with }));
            }
        }
        if self.out.trace == Level::Off {
            let with = "`trace = \"off\"` of the system";
            return Err(At(name.span(), Reason::Excludes { what: "trace", of: of(), with }));
        }
        Ok((0, u64::from(self.out.cpus) * RING_BYTES as u64))
    }

    /// The place of the board's device that is called `wanted`, and the length of its registers.
    fn named_device<'a>(
        &mut self,
        name: &'a Spanned<String>,
        region: &schema::Region,
        wanted: &str,
        place: Range<usize>,
        fixed: &mut Vec<(Range<u64>, &'a str)>,
    ) -> Result<(u64, u64), Fail> {
        let BoardDevice { at, bytes, .. } = *self.board_device(wanted, place.clone())?;
        let others = [
            ("bytes", region.bytes.as_ref().map(Spanned::span)),
            ("physical", region.physical.as_ref().map(Spanned::span)),
        ];
        for (with, place) in others {
            if let Some(place) = place {
                return Err(At(place, Reason::Excludes { what: "device", of: name.get_ref().clone(), with }));
            }
        }
        take_place(at..at + bytes.0, name, place, fixed)?;
        Ok((at, bytes.0))
    }

    /// The place of a region, and its length. `fixed`: those with a place of their own so far.
    fn physical<'a>(
        &mut self,
        name: &'a Spanned<String>,
        region: &schema::Region,
        is_device: bool,
        fixed: &mut Vec<(Range<u64>, &'a str)>,
    ) -> Result<(u64, u64), Fail> {
        let memory = &self.out.board.memory;
        let ram = memory.base..memory.base + memory.bytes.0;
        let of = name.get_ref().clone();
        let length = region.bytes.as_ref().ok_or_else(|| At(name.span(), Reason::MissingKey("bytes".into())))?;
        let bytes = length.get_ref().0;
        if bytes == 0 || !bytes.is_multiple_of(PAGE) {
            return Err(At(length.span(), Reason::NotPages { what: "length", of }));
        }
        if let Some((whole, offset)) = &region.part_of {
            let known = self.out.regions.iter().find(|(name, _)| name == whole);
            let (_, whole) = known.ok_or(Fail::Follows)?;
            return Ok((whole.physical + offset, bytes));
        }
        match &region.physical {
            None if is_device => {
                Err(At(name.span(), Reason::Needs { what: "device", of, needs: "a physical address" }))
            }
            None => Ok((self.allocate(&of, bytes, length.span())?, bytes)),
            Some(at) => {
                let start = *at.get_ref();
                if !start.is_multiple_of(PAGE) {
                    return Err(At(at.span(), Reason::NotPages { what: "physical address", of }));
                }
                let range = start..start.saturating_add(bytes);
                let overlap = |other: &Range<u64>| range.start < other.end && other.start < range.end;
                if overlap(&ram) {
                    let with = "the board's RAM, which is given out by the packer".into();
                    return Err(At(at.span(), Reason::Overlap { region: of, with }));
                }
                let mut owned = self.out.board.owned.iter();
                if let Some(device) = owned.find(|device| overlap(&(device.from..device.to))) {
                    return Err(At(at.span(), Reason::KernelDevice { region: of, device: device.name.clone() }));
                }
                if self.out.board.kick.as_ref().is_some_and(|kick| overlap(&memory_page(kick.page))) {
                    let with = "the page through which the accelerator is kicked".into();
                    return Err(At(at.span(), Reason::Overlap { region: of, with }));
                }
                take_place(range, name, at.span(), fixed)?;
                Ok((start, bytes))
            }
        }
    }
}

/// Adds the place of a region to those that are taken, unless it overlaps one. `at`: its entry in the manifest.
fn take_place<'a>(
    range: Range<u64>,
    name: &'a Spanned<String>,
    at: Range<usize>,
    taken: &mut Vec<(Range<u64>, &'a str)>,
) -> Result<(), Fail> {
    if let Some((_, with)) = taken.iter().find(|(other, _)| range.start < other.end && other.start < range.end) {
        let with = format!("region `{with}`");
        return Err(At(at, Reason::Overlap { region: name.get_ref().clone(), with }));
    }
    taken.push((range, name.get_ref()));
    Ok(())
}

/// The CPUs of a cluster, which then are its own. `owner`: the owners of the CPUs so far.
fn cpus_of<'a>(
    name: &'a Spanned<String>,
    cluster: &schema::Cluster,
    owner: &mut [Option<&'a str>],
) -> Result<u32, Fail> {
    if cluster.cpus.is_empty() {
        return Err(At(name.span(), Reason::Zero { what: "number of CPUs", of: name.get_ref().clone() }));
    }
    let cpus = owner.len() as u32;
    let mut set = 0;
    for cpu in &cluster.cpus {
        let number = *cpu.get_ref();
        let Some(owner) = owner.get_mut(number as usize) else {
            return Err(At(cpu.span(), Reason::NoSuchCpu { cpu: number, cpus }));
        };
        if let Some(first) = owner.replace(name.get_ref()) {
            let (first, second) = (first.to_owned(), name.get_ref().clone());
            return Err(At(cpu.span(), Reason::CpuInTwoClusters { cpu: number, first, second }));
        }
        set |= 1 << number;
    }
    Ok(set)
}

impl Resolver<'_> {
    fn scripts(&mut self) {
        for (index, (_, task)) in self.file.tasks.0.iter().enumerate() {
            let written = task.script.iter().flatten().map(|text| (text, false));
            let texts = written.chain(task.model.iter().flatten().map(|text| (text, true)));
            for (text, is_model) in texts {
                let step = self.step(index, text);
                let Some(step) = self.keep(Of::Nothing, step) else { continue };
                let resolved = &mut self.out.tasks[index];
                let steps = if is_model { &mut resolved.model } else { &mut resolved.script };
                let receives = |one: &Step| one.operation == operation::RECEIVE && one.handle == step.handle;
                if step.operation == operation::REPLY && !steps.iter().any(receives) {
                    let why = "no step before it receives there".to_owned();
                    let reason = Reason::BadStep { step: text.get_ref().clone(), why };
                    self.keep(Of::Nothing, Err::<(), _>(At(text.span(), reason)));
                    continue;
                }
                steps.push(step);
            }
        }
    }

    fn step(&self, task: usize, text: &Spanned<String>) -> Result<Step, Fail> {
        let environment = &self.out.tasks[task].environment;
        let is_missing = Cell::new(false);
        let find = |name: &str| {
            let entry = environment.iter().find(|entry| entry.name == name);
            is_missing.set(is_missing.get() || entry.is_none());
            let selector = entry?.flags & (fusee_abi::environment::PREEMPTIBLE - 1);
            let rights = self.out.handle(task, entry?.handle).map_or(0, |one| one.rights);
            Some(Target { kind: entry?.kind, handle: entry?.handle, rights, selector })
        };
        parse_step(text.get_ref(), find).or_else(|why| {
            if is_missing.get() {
                self.sound(Of::Handles(task))?;
            }
            Err(At(text.span(), Reason::BadStep { step: text.get_ref().clone(), why }))
        })
    }

    /// Each environment fits into its page, with room for the entry of a script.
    fn environments(&mut self) {
        let limit = layout::ENVIRONMENT_ENTRIES - 1;
        for (index, (name, _)) in self.file.tasks.0.iter().enumerate() {
            if self.out.tasks[index].environment.len() > limit {
                let (name_text, what) = (name.get_ref().clone(), "entries in its environment");
                let reason = Reason::Crowded { kind: "task", name: name_text, what, limit };
                self.keep(Of::Nothing, Err::<(), _>(At(name.span(), reason)));
            }
        }
    }
}

//--- Small things

impl Resolver<'_> {
    fn task(&self, name: &Spanned<String>) -> Result<usize, Fail> {
        index_of(&self.file.tasks, "task", name)
    }

    fn allocate(&mut self, of: &str, bytes: u64, place: Range<usize>) -> Result<u64, Fail> {
        self.out.allocate(of, bytes).map_err(|reason| At(place, reason))
    }

    /// Adds a region and finds an address for it.
    fn region(
        &mut self,
        name: String,
        physical: u64,
        bytes: u64,
        kind: RegionKind,
        place: Range<usize>,
    ) -> Result<usize, Fail> {
        if self.out.regions.len() >= limits::REGIONS {
            return Err(At(place, Reason::TooMany { what: "regions", limit: limits::REGIONS }));
        }
        let address = self.next_address;
        let end = bytes.checked_next_multiple_of(layout::REGION_STEP).and_then(|bytes| address.checked_add(bytes));
        match end {
            Some(end) if end <= layout::DOORBELLS => self.next_address = end,
            _ => return Err(At(place, Reason::NoAddresses { of: name })),
        }
        self.out.regions.push((name, image::Region { physical, bytes, address }));
        self.region_kinds.push(kind);
        Ok(self.out.regions.len() - 1)
    }
}

impl Resolved {
    /// The task that owns a reservation, if there is such a reservation.
    #[must_use]
    pub fn owner(&self, reservation: usize) -> Option<usize> {
        self.reservations.get(reservation).map(|one| one.task as usize)
    }

    /// The handle of `task` that has this value in its environment.
    #[must_use]
    pub fn handle(&self, task: usize, value: u64) -> Option<&image::Handle> {
        let slot = u32::from(HandleValue(value).slot());
        self.handles.iter().find(|one| (one.task as usize, one.slot) == (task, slot))
    }

    /// Whether one more CPU is wanted, to play devices.
    #[must_use]
    pub fn has_engine_cpu(&self) -> bool {
        self.devices.iter().any(|device| device.processor.is_none())
    }

    /// The devices of the board that the system has regions of, by name.
    pub fn board_devices(&self) -> impl Iterator<Item = (&str, &BoardDevice)> {
        let named = self.board_regions.iter();
        named.filter_map(|(_, name)| Some((name.as_str(), self.board.devices.get(name)?)))
    }

    /// Whether the kernel sets up the board's SMMU.
    #[must_use]
    pub fn has_smmu(&self) -> bool {
        !self.streams.is_empty() || self.dma_faults.is_some()
    }

    /// Whether a device of the system has a screen.
    #[must_use]
    pub fn has_screen(&self) -> bool {
        self.board_devices().any(|(_, device)| device.screen)
    }

    /// The tasks that can reach all memory, each with the device by which it can: one that takes physical addresses from its driver, and that
    /// nothing translates. Devices that a manifest gives by their addresses are not known, and not among them.
    #[must_use]
    pub fn reaching_all_memory(&self) -> Vec<(&str, &str)> {
        let masters = self.board_regions.iter().filter(|(_, name)| {
            let device = self.board.devices.get(name);
            device.is_some_and(|device| device.kind.masters_memory() && device.stream.is_none())
        });
        let users = masters.flat_map(|(region, device)| {
            let is_it = |handle: &&image::Handle| {
                handle.kind == image::kind::REGION
                    && handle.object as usize == *region
                    && handle.rights & handles::WRITE != 0
            };
            self.handles.iter().filter(is_it).map(|handle| (handle.task as usize, device.as_str()))
        });
        users.map(|(task, device)| (self.tasks[task].name.as_str(), device)).collect()
    }

    /// Whether a task may read the kernel's trace, and so can send it away.
    #[must_use]
    pub fn shows_trace(&self) -> bool {
        self.mappings.iter().any(|mapping| mapping.flags & image::mapping::TRACE != 0)
    }

    /// Takes whole pages from the board's pool.
    pub(crate) fn allocate(&mut self, of: &str, bytes: u64) -> Result<u64, Reason> {
        let memory = &self.board.memory;
        let left = memory.pool + memory.pool_bytes.0 - self.pool_next;
        match bytes.checked_next_multiple_of(PAGE) {
            Some(whole) if whole <= left => {
                let start = self.pool_next;
                self.pool_next += whole;
                Ok(start)
            }
            _ => Err(Reason::PoolExhausted { of: of.to_owned(), bytes: Bytes(bytes), left: Bytes(left) }),
        }
    }
}

fn index_of<T>(table: &Named<T>, kind: &'static str, name: &Spanned<String>) -> Result<usize, Fail> {
    table.0.iter().position(|(key, _)| key.get_ref() == name.get_ref()).ok_or_else(|| {
        let choices = names(&table.0);
        At(name.span(), Reason::Unknown { kind, name: name.get_ref().clone(), choices })
    })
}

fn unknown_policy(name: &Spanned<String>) -> Fail {
    let choices = PolicyName::ALL.map(|policy| policy.name().to_owned()).to_vec();
    At(name.span(), Reason::Unknown { kind: "policy", name: name.get_ref().clone(), choices })
}

fn plus_one(index: Option<usize>) -> u32 {
    index.map_or(0, |index| index as u32 + 1)
}

fn memory_page(page: u64) -> Range<u64> {
    page..page + PAGE
}
