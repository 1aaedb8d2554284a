//! From names to indices: checks a manifest and lays the system out.
//!
//! The result needs no binaries: the simulator boots from it, `pack.rs` adds the programs. All indices
//! follow the order of the file.
//!
//! Here are the tables that are read first, from clusters to regions, and scripts. In the order in which they are read:
//!
//! - tasks ([`reservations`])
//! - devices, engines, pools ([`accelerators`]), and who advises those ([`advice`])
//! - what tasks are given ([`handles`]), whose clients they are ([`users`]), and what has one end only ([`ends`])
//! - how long budgets must be ([`paths`]), and what tasks say of their locks ([`uses`])
//! - whether all that is accepted ([`verdict`])
//!
//! Mistakes are collected ([`mistakes`]): the first of each object, of all objects.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use fusee_abi::image;
use fusee_abi::script::Step;
use fusee_abi::trace::Level;
use fusee_accel_contract as contract;
use fusee_accel_contract::timing::Slowdown;
use fusee_accel_contract::{CopyEngines, EngineIndex};
use fusee_kernel_core::limits;
use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use toml::Spanned;

use crate::board::Board;
use crate::error::Reason;
use crate::layout::{self, PAGE};
use crate::quantity::{Bytes, Time};
use crate::read::Mistake;
use crate::schema::{self, Named};
use crate::script::{Target, parse_step};

mod accelerators;
mod advice;
mod ends;
mod features;
mod handles;
mod mistakes;
mod paths;
mod reservations;
mod users;
mod uses;
mod verdict;

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
    /// What its kernel keeps in the trace.
    pub trace: Level,
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
    /// Engines.
    pub engines: Vec<(String, image::Engine)>,
    /// Who uses which engine.
    pub engine_users: Vec<image::EngineUser>,
    /// Of each of them how often and how long, if it says so.
    pub engine_holds: Vec<Option<DeclaredHold>>,
    /// For each engine what the end of an operation takes, and how much longer it is if it hangs.
    pub engine_ends: Vec<(Nanoseconds, Nanoseconds)>,
    /// For each engine its device and its number there, if it belongs to one.
    pub engine_places: Vec<Option<(usize, EngineIndex)>>,
    /// Pools of tokens.
    pub pools: Vec<(String, image::Pool)>,
    /// Who uses which pool.
    pub pool_users: Vec<image::PoolUser>,
    /// Who says how long it has a token, the holds of engines apart: task, pool, CPU time.
    pub sections: Vec<(usize, usize, Nanoseconds)>,
    /// For each task how long a job suspends itself at most, operations apart.
    pub suspends: Vec<Nanoseconds>,
    /// For each task whether others may rely on what it declares: it is hard, so its own proof rests on it, or the manifest trusts it.
    pub keeps_word: Vec<bool>,
    /// Who says how often it calls, or waits for requests: task, endpoint, times.
    pub calls: Vec<(usize, usize, u32)>,
    /// Who says that it waits for a notification: task, notification.
    pub waits: Vec<(usize, usize)>,
    /// Interrupts.
    pub interrupts: Vec<(String, image::Interrupt)>,
    /// Regions.
    pub regions: Vec<(String, image::Region)>,
    /// Handles of all tasks.
    pub handles: Vec<image::Handle>,
    /// Mappings of regions. Binaries, stacks, environments and doorbells join them when packed.
    pub mappings: Vec<image::Mapping>,
    /// Accelerators.
    pub devices: Vec<Device>,
    /// The first free physical address of the pool.
    pub pool_next: u64,
    /// What is doubtful, but allowed by the manifest.
    pub warnings: Vec<String>,
}

/// One task.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Its program: `package/binary`, or the path of an ELF file ([`Task::elf`]).
    pub binary: String,
    /// Its script; empty if it has none.
    pub script: Vec<Step>,
    /// What the simulator runs in place of its program; empty if nothing is said.
    pub model: Vec<Step>,
    /// Cluster it starts in.
    pub cluster: u32,
    /// Its reservation, if it has one.
    pub reservation: Option<usize>,
    /// Whether it must not miss a deadline.
    pub hard: bool,
    /// Bytes of its stack.
    pub stack: u64,
    /// What its environment page will say.
    pub environment: Vec<Entry>,
}

impl Task {
    /// The path of its program, from the manifest's folder, if the manifest names an ELF file.
    #[must_use]
    pub fn elf(&self) -> Option<&Path> {
        self.binary.starts_with(['.', '/']).then(|| Path::new(&self.binary))
    }
}

/// How a program that the manifest names by its path is called among binaries. No package begins with a dot or a slash, so no
/// `package/binary` is called so.
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

/// One accelerator: where its pages lie, and whose context is whose.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its firmware: name of the package.
    pub firmware: String,
    /// Task that drives it; its context is 0.
    pub driver: usize,
    /// First physical address after the memory of regions, which is what the device may reach.
    pub system_end: u64,
    /// Physical address of the ring pages made for clients that bring none of their own.
    pub rings: u64,
    /// Physical address of the control page.
    pub control: u64,
    /// Physical address of the status page.
    pub status: u64,
    /// Physical address of the first doorbell page.
    pub doorbells: u64,
    /// How many copy engines it has.
    pub copy_engines: CopyEngines,
    /// Whether its execution engine can do operations block by block.
    pub preemptible: bool,
    /// Physical address of its local memory.
    pub memory: u64,
    /// Bytes of its local memory; zero without copy engines.
    pub memory_bytes: u64,
    /// The ways of its copies, by device: from memory of that one, and from and to memory of the board by its own number.
    pub ways: Vec<Slowdown>,
    /// What its driver and its clients are given of it, by name: regions.
    given: Vec<(&'static str, usize)>,
    /// Task of each context, the driver first.
    pub contexts: Vec<usize>,
    /// The line it raises when any of its engines has news; zero: none.
    pub line: u32,
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

/// Another policy and other clusters than the file says: what `--policy` and `--clusters` ask for.
pub(crate) fn vary(file: &mut schema::File, variant: &Variant) {
    let place = file.system.cpus.span();
    if *variant != Variant::default() {
        file.system.name = format!("{}.{variant}", file.system.name);
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

/// Gives each task, by (time, period), a cluster: worst fit, by decreasing utilisation. What takes no time goes
/// to the first.
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

/// How a system departs from its manifest.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Variant {
    /// The policy of all clusters.
    pub policy: Option<PolicyName>,
    /// Numbers of CPUs of the clusters `c0`, `c1` and so on, which replace those of the manifest. Tasks are
    /// spread over them, worst fit, by decreasing utilisation; what has no utilisation goes to the first.
    pub clusters: Option<Vec<u32>>,
}

impl std::fmt::Display for Variant {
    /// `FL.2-1`: what is added to the system's name; nothing if nothing is varied.
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
pub(crate) fn resolve(file: &schema::File) -> Result<Resolved, Vec<Mistake>> {
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
            name: file.system.name.clone(),
            cpus: *file.system.cpus.get_ref(),
            start: file.system.start.unwrap_or_default().0,
            managed: file.system.managed,
            trace: match file.system.trace {
                schema::Trace::Off => Level::Off,
                schema::Trace::Marks => Level::Marks,
                schema::Trace::Schedule => Level::Schedule,
                schema::Trace::Full => Level::Full,
            },
            clusters: Vec::new(),
            tasks: Vec::new(),
            reservations: Vec::new(),
            endpoints: Vec::new(),
            notifications: Vec::new(),
            engines: Vec::new(),
            engine_users: Vec::new(),
            engine_holds: Vec::new(),
            engine_ends: Vec::new(),
            engine_places: Vec::new(),
            pools: Vec::new(),
            pool_users: Vec::new(),
            sections: Vec::new(),
            suspends: Vec::new(),
            keeps_word: Vec::new(),
            calls: Vec::new(),
            waits: Vec::new(),
            interrupts: Vec::new(),
            regions: Vec::new(),
            handles: Vec::new(),
            mappings: Vec::new(),
            devices: Vec::new(),
            pool_next: board.memory.pool,
            warnings: Vec::new(),
            board,
        },
        next_address: layout::REGIONS,
        region_is_device: Vec::new(),
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

struct Resolver<'a> {
    file: &'a schema::File,
    out: Resolved,
    /// First free virtual address for regions.
    next_address: u64,
    /// Whether each region is device memory.
    region_is_device: Vec<bool>,
    /// What is wrong so far.
    mistakes: Vec<Mistake>,
    /// What that is about.
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
        self.ends();
        self.sharing();
        self.budgets();
        self.uses();
        self.lengths();
        self.watchdogs();
        self.token_watchdogs();
        self.suspensions();
        self.scripts();
        self.environments();
        self.test();
    }

    fn limits(&mut self) {
        let file = self.file;
        let cpus = &file.system.cpus;
        let count = match *cpus.get_ref() as usize {
            0 => Err(At(cpus.span(), Reason::Zero { what: "number of CPUs", of: file.system.name.clone() })),
            1..=limits::CPUS => Ok(*cpus.get_ref()),
            _ => Err(At(cpus.span(), Reason::TooMany { what: "CPUs", limit: limits::CPUS })),
        };
        self.out.cpus = self.keep(Of::Cpus, count).unwrap_or(1);
        self.limit(&file.clusters, "clusters", limits::CLUSTERS, 24, Of::Cluster);
        self.limit(&file.tasks, "tasks", limits::THREADS, 15, Of::Task);
        self.limit(&file.endpoints, "endpoints", limits::ENDPOINTS, 24, Of::Endpoint);
        self.limit(&file.notifications, "notifications", limits::NOTIFICATIONS, 24, Of::Notification);
        self.limit(&file.interrupts, "interrupts", limits::INTERRUPTS, 24, Of::Interrupt);
        self.limit(&file.regions, "regions", limits::REGIONS, 24, Of::Region);
        self.limit(&file.engines, "engines", limits::ENGINES, 24, Of::Engine);
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

    /// The cluster that `named` says, or the only one there is.
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

    fn interrupts(&mut self) {
        let mut lines = BTreeMap::new();
        for (index, (name, interrupt)) in self.file.interrupts.0.iter().enumerate() {
            let record = self.interrupt(name, interrupt, &mut lines);
            let record = self.keep_or_zero(Of::Interrupt(index), record);
            self.out.interrupts.push((name.get_ref().clone(), record));
        }
    }

    /// `lines`: whose they are so far.
    fn interrupt<'a>(
        &self,
        name: &'a Spanned<String>,
        interrupt: &schema::Interrupt,
        lines: &mut BTreeMap<u32, &'a str>,
    ) -> Result<image::Interrupt, Fail> {
        let of = name.get_ref().clone();
        let line = *interrupt.line.get_ref();
        if line == 0 {
            return Err(At(interrupt.line.span(), Reason::Zero { what: "line", of }));
        }
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
        Ok(image::Interrupt { line, notification: notification as u32, bits, cpu, edge: interrupt.edge.into() })
    }

    fn regions(&mut self) {
        let mut fixed = Vec::new();
        for (index, (name, region)) in self.file.regions.0.iter().enumerate() {
            let bytes = region.bytes.get_ref().0;
            let physical = self.physical(name, region, &mut fixed);
            let added = physical
                .and_then(|physical| self.region(name.get_ref().clone(), physical, bytes, region.device, name.span()));
            if self.keep(Of::Region(index), added).is_none() {
                self.out.regions.push((name.get_ref().clone(), image::Region { physical: 0, bytes, address: 0 }));
                self.region_is_device.push(region.device);
            }
        }
    }

    /// Where a region lies. `fixed`: those with a place of their own so far.
    fn physical<'a>(
        &mut self,
        name: &'a Spanned<String>,
        region: &schema::Region,
        fixed: &mut Vec<(Range<u64>, &'a str)>,
    ) -> Result<u64, Fail> {
        let memory = &self.out.board.memory;
        let ram = memory.base..memory.base + memory.bytes.0;
        let of = name.get_ref().clone();
        let bytes = region.bytes.get_ref().0;
        if bytes == 0 || !bytes.is_multiple_of(PAGE) {
            return Err(At(region.bytes.span(), Reason::NotPages { what: "length", of }));
        }
        match &region.physical {
            None if region.device => {
                Err(At(name.span(), Reason::Needs { what: "device", of, needs: "a physical address" }))
            }
            None => self.allocate(&of, bytes, region.bytes.span()),
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
                if overlap(&memory_page(self.out.board.kick.page)) {
                    let with = "the page through which the accelerator is kicked".into();
                    return Err(At(at.span(), Reason::Overlap { region: of, with }));
                }
                if let Some((_, with)) = fixed.iter().find(|(other, _)| overlap(other)) {
                    return Err(At(at.span(), Reason::Overlap { region: of, with: format!("region `{with}`") }));
                }
                fixed.push((range, name.get_ref()));
                Ok(start)
            }
        }
    }
}

/// The CPUs of a cluster, which then are its own. `owner`: whose they are so far.
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
                if is_model { resolved.model.push(step) } else { resolved.script.push(step) }
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
            Some(Target { kind: entry?.kind, handle: entry?.handle, selector })
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
        is_device: bool,
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
        self.region_is_device.push(is_device);
        Ok(self.out.regions.len() - 1)
    }
}

impl Resolved {
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
