//! From names to indices: checks a manifest and lays the system out.
//!
//! The result needs no binaries: the simulator boots from it, `pack.rs` adds the programs. All indices
//! follow the order of the file.
//!
//! Here are the tables that are read first, from clusters to regions, and scripts. In the order in which they are read:
//!
//! - tasks ([`reservations`])
//! - devices that a project adds to its board ([`own_devices`])
//! - devices ([`accelerators`]), engines and pools ([`engines`]), and the advisers of pools ([`advice`])
//! - the handles of tasks ([`handles`]), their roles as clients ([`users`]), the reach of devices ([`streams`]), and objects that
//!   have one end only ([`ends`])
//! - how clients without a lock share ([`groups`], [`gates`]), and when locks are taken away ([`watchdogs`])
//! - which nodes of graphs begin early ([`early`])
//! - CAN buses ([`buses`])
//! - the shortest budgets ([`paths`]), and the declarations of tasks on their locks ([`uses`])
//! - whether all that is accepted ([`verdict`])
//!
//! Mistakes are collected ([`mistakes`]): the first of each object, of all objects.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use fusee_abi::image;
use fusee_abi::script::{Step, operation};
use fusee_abi::trace::Level;
use fusee_accel_contract as contract;
use fusee_kernel_core::limits;
use fusee_sched::key::PolicyName;
use toml::Spanned;

use crate::board::{Board, BoardDevice, ControllerKind, Start};
use crate::error::Reason;
use crate::layout;
use crate::quantity::Time;
use crate::read::Mistake;
use crate::schema::{self, Named, Panic};
use crate::script::{Target, parse_step};
use crate::times::TimeTable;

mod accelerators;
mod advice;
mod buses;
mod early;
mod ends;
mod engines;
mod features;
mod gates;
pub(crate) mod graphs;
mod groups;
pub(crate) mod handles;
mod insides;
mod lives;
mod mistakes;
pub(crate) mod names;
mod own_devices;
mod paths;
mod regions;
mod reservations;
mod resolved;
mod sessions;
mod spatial;
mod streams;
mod users;
mod uses;
mod variants;
mod verdict;
mod watchdogs;

pub use buses::{Bus, BusFrame};
pub use graphs::Graph;
pub(crate) use handles::object_of;
use mistakes::Fail::{self, At};
use mistakes::{Of, names};
pub(crate) use resolved::elf_binary;
pub use resolved::{Device, Entry, Processor, Program, Resolved, Task, UNLIMITED};
pub(crate) use spatial::SAVE;
pub use uses::DeclaredHold;
use uses::span;
pub use variants::Variant;
pub(crate) use variants::vary;

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

/// Resolves `file`; or all mistakes, with their places in the text. Whether the tasks fit is asked if there is no other.
pub(crate) fn resolve(file: &schema::File, graphs: Vec<Graph>) -> Result<Resolved, Vec<Mistake>> {
    let name = &file.system.board;
    let unknown = || {
        let choices = Board::NAMES.map(str::to_owned).to_vec();
        vec![(name.span(), Reason::Unknown { kind: "board", name: name.get_ref().clone(), choices })]
    };
    let known = Board::named(name.get_ref());
    let mut mistakes = if known.is_some() { Vec::new() } else { unknown() };
    // In place of one that is unknown the first: its memory is laid out, and nothing comes of it.
    let Some(mut board) = known.or_else(|| Board::named(Board::NAMES[0])) else { return Err(mistakes) };
    mistakes.extend(own_devices::add(&mut board, &file.board));
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
            speaks: file.system.speaks,
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
        self.boost_driver();
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
            if self.file.board.devices.get(name).is_some() || others.any(|other| other.devices.contains_key(name)) {
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
