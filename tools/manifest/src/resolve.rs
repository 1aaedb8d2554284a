//! From names to indices: checks a manifest and lays the system out.
//!
//! The result needs no binaries: the simulator boots from it, `pack.rs` adds the programs. All indices
//! follow the order of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fusee_abi::call::{HandleValue, RESET, rights};
use fusee_abi::image::{self, class, kind, mapping, order, overrun, release};
use fusee_abi::script::Step;
use fusee_accel_contract as contract;
use fusee_accel_contract::timing::Slowdown;
use fusee_accel_contract::{CopyEngines, EngineIndex};
use fusee_kernel_core::limits;
use fusee_sched::key::{FAIR_LATENESS_OFFSET, PolicyName};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::report::Hard;
use fusee_sched_analysis::{Overheads, approximate};
use num_bigint::BigInt;
use toml::Spanned;

use crate::admission;
use crate::board::Board;
use crate::error::Reason;
use crate::layout::{self, PAGE};
use crate::schema::{self, Admission, Class, Covers, Limit, Named, Order, Overrun, Release};
use crate::script::{Target, parse_step};

mod advice;
mod paths;
mod uses;

pub use uses::DeclaredHold;
use uses::span;

/// Budget of a task that may run for ever: it never runs dry.
pub const UNLIMITED: u64 = u64::MAX;
/// The replenishment period of such a task, which is never used.
const UNLIMITED_PERIOD: u64 = 1_000_000_000;

/// How long a driver may take to reset an engine, at least, if nobody says; in nanoseconds.
const RESET_BOUND: u64 = 10_000_000;

/// Releases of one task that may queue.
const BACKLOG_MAX: u32 = 255;

/// The first line of the interrupt controller that is not some CPU's own.
const FIRST_SHARED_LINE: u32 = 32;
/// The farthest distance, in percent of the time over a near way.
const FARTHEST: u32 = 100_000;

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
    /// Its program: `package/binary`.
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

type Fail = (Range<usize>, Reason);

/// Replaces each task that wants copies by them: `hog` becomes `hog1`, `hog2` and so on.
pub(crate) fn expand(file: &mut schema::File) -> Result<(), Fail> {
    let mut tasks: Vec<(Spanned<String>, schema::Task)> = Vec::new();
    for (name, task) in std::mem::take(&mut file.tasks).0 {
        let Some(copies) = task.copies.as_ref() else {
            tasks.push((name, task));
            continue;
        };
        if *copies.get_ref() == 0 {
            return Err((copies.span(), Reason::Zero { what: "number of copies", of: name.into_inner() }));
        }
        // One more than fits is enough to be refused for it.
        for number in 1..=(*copies.get_ref()).min(limits::THREADS as u32 + 1) {
            let copy = Spanned::new(name.span(), format!("{}{number}", name.get_ref()));
            tasks.push((copy, task.clone()));
        }
    }
    for (index, (name, _)) in tasks.iter().enumerate() {
        if tasks[..index].iter().any(|(earlier, _)| earlier.get_ref() == name.get_ref()) {
            return Err((name.span(), Reason::DefinedTwice { kind: "task", name: name.get_ref().clone() }));
        }
    }
    file.tasks = Named(tasks);
    Ok(())
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

/// Resolves `file`; a mistake comes with its place in the text.
pub(crate) fn resolve(file: &schema::File) -> Result<Resolved, Fail> {
    let board_name = file.system.board.get_ref();
    let board =
        Board::named(board_name).ok_or_else(|| (file.system.board.span(), Reason::UnknownBoard(board_name.clone())))?;
    let mut resolver = Resolver {
        file,
        out: Resolved {
            name: file.system.name.clone(),
            cpus: *file.system.cpus.get_ref(),
            start: file.system.start.unwrap_or_default().0,
            managed: file.system.managed,
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
    };
    resolver.limits()?;
    resolver.clusters()?;
    resolver.tasks()?;
    resolver.endpoints()?;
    resolver.notifications()?;
    resolver.interrupts()?;
    resolver.regions()?;
    resolver.devices()?;
    resolver.engines()?;
    resolver.pools()?;
    resolver.handles()?;
    resolver.sharing()?;
    resolver.budgets()?;
    resolver.uses()?;
    resolver.lengths()?;
    resolver.watchdogs()?;
    resolver.scripts()?;
    resolver.environments()?;
    resolver.admission()?;
    resolver.test()?;
    Ok(resolver.out)
}

struct Resolver<'a> {
    file: &'a schema::File,
    out: Resolved,
    /// First free virtual address for regions.
    next_address: u64,
    /// Whether each region is device memory.
    region_is_device: Vec<bool>,
}

//--- Tables

impl Resolver<'_> {
    fn limits(&self) -> Result<(), Fail> {
        fn check<T>(table: &Named<T>, what: &'static str, limit: usize, name: usize) -> Result<(), Fail> {
            for (index, (key, _)) in table.0.iter().enumerate() {
                if index >= limit {
                    return Err((key.span(), Reason::TooMany { what, limit }));
                }
                if key.get_ref().len() > name {
                    return Err((key.span(), Reason::NameTooLong { name: key.get_ref().clone(), limit: name }));
                }
            }
            Ok(())
        }
        let file = self.file;
        let cpus = &file.system.cpus;
        if *cpus.get_ref() == 0 {
            return Err((cpus.span(), Reason::Zero { what: "number of CPUs", of: file.system.name.clone() }));
        }
        if *cpus.get_ref() as usize > limits::CPUS {
            return Err((cpus.span(), Reason::TooMany { what: "CPUs", limit: limits::CPUS }));
        }
        check(&file.clusters, "clusters", limits::CLUSTERS, 24)?;
        check(&file.tasks, "tasks", limits::THREADS, 15)?;
        check(&file.endpoints, "endpoints", limits::ENDPOINTS, 24)?;
        check(&file.notifications, "notifications", limits::NOTIFICATIONS, 24)?;
        check(&file.interrupts, "interrupts", limits::INTERRUPTS, 24)?;
        check(&file.regions, "regions", limits::REGIONS, 24)?;
        check(&file.engines, "engines", limits::ENGINES, 24)?;
        check(&file.pools, "pools", limits::POOLS, 24)?;
        check(&file.devices, "devices", contract::DEVICES, 24)
    }

    fn clusters(&mut self) -> Result<(), Fail> {
        let cpus = self.out.cpus;
        if self.file.clusters.0.is_empty() {
            let all = ((1u64 << cpus) - 1) as u32;
            let policy = self.policy(None)?;
            self.out.clusters.push(("all".into(), image::Cluster { cpus: all, policy }));
            return Ok(());
        }
        let mut owner: Vec<Option<&str>> = vec![None; cpus as usize];
        for (name, cluster) in &self.file.clusters.0 {
            let policy = self.policy(cluster.policy.as_ref())?;
            if cluster.cpus.is_empty() {
                let of = name.get_ref().clone();
                return Err((name.span(), Reason::Zero { what: "number of CPUs", of }));
            }
            let mut set = 0;
            for cpu in &cluster.cpus {
                let number = *cpu.get_ref();
                let Some(owner) = owner.get_mut(number as usize) else {
                    return Err((cpu.span(), Reason::NoSuchCpu { cpu: number, cpus }));
                };
                if let Some(first) = owner.replace(name.get_ref()) {
                    let (first, second) = (first.to_owned(), name.get_ref().clone());
                    return Err((cpu.span(), Reason::CpuInTwoClusters { cpu: number, first, second }));
                }
                set |= 1 << number;
            }
            self.out.clusters.push((name.get_ref().clone(), image::Cluster { cpus: set, policy }));
        }
        match owner.iter().position(Option::is_none) {
            Some(cpu) => Err((self.file.system.cpus.span(), Reason::CpuInNoCluster { cpu: cpu as u32 })),
            None => Ok(()),
        }
    }

    /// Number of the policy a cluster names; else of the system's; else EDF.
    fn policy(&self, named: Option<&Spanned<String>>) -> Result<u32, Fail> {
        let Some(name) = named.or(self.file.system.policy.as_ref()) else { return Ok(PolicyName::Edf as u32) };
        PolicyName::from_name(name.get_ref()).map(|policy| policy as u32).ok_or_else(|| {
            let reason = Reason::NotOffered { what: "policy", name: name.get_ref().clone() };
            (name.span(), reason)
        })
    }

    /// The cluster that `named` says, or the only one there is.
    fn cluster(&self, named: Option<&Spanned<String>>, of: &Spanned<String>) -> Result<usize, Fail> {
        match named {
            Some(name) => index_of(&self.file.clusters, "cluster", name),
            None if self.out.clusters.len() == 1 => Ok(0),
            None => Err((of.span(), Reason::NoCluster { of: of.get_ref().clone() })),
        }
    }

    fn tasks(&mut self) -> Result<(), Fail> {
        for (index, (name, task)) in self.file.tasks.0.iter().enumerate() {
            let cluster = self.cluster(task.cluster.as_ref(), name)?;
            let binary = match (&task.binary, &task.script) {
                (Some(binary), None) => binary.get_ref().clone(),
                (None, Some(_)) => "apps/scripted".to_owned(),
                _ => return Err((name.span(), Reason::BinaryOrScript { task: name.get_ref().clone() })),
            };
            let stack = task.stack.as_ref().map_or(16 << 10, |stack| stack.get_ref().0);
            if stack == 0 || !stack.is_multiple_of(PAGE) || stack > layout::STACK_MAX {
                let place = task.stack.as_ref().map_or(name.span(), Spanned::span);
                return Err((place, Reason::NotPages { what: "stack", of: name.get_ref().clone() }));
            }
            let reservation = reservation(index, cluster, name, task)?;
            let policy = self.out.clusters[cluster].1.policy;
            if policy == PolicyName::Fp as u32
                && reservation.is_some_and(|one| one.class == class::REAL_TIME && one.priority == 0)
            {
                let of = name.get_ref().clone();
                return Err((name.span(), Reason::Needs { what: "policy", of, needs: "a priority" }));
            }
            if let Some(reservation) = reservation {
                self.out.reservations.push(reservation);
            }
            self.out.tasks.push(Task {
                name: name.get_ref().clone(),
                binary,
                script: Vec::new(),
                model: Vec::new(),
                cluster: cluster as u32,
                reservation: reservation.map(|_| self.out.reservations.len() - 1),
                hard: task.hard.as_ref().is_some_and(|hard| *hard.get_ref()),
                stack,
                environment: Vec::new(),
            });
        }
        Ok(())
    }

    fn endpoints(&mut self) -> Result<(), Fail> {
        for (name, endpoint) in &self.file.endpoints.0 {
            let server = self.task(&endpoint.server)? as u32;
            let service_max = endpoint.service_max.unwrap_or_default().0;
            let record = image::Endpoint { server, flags: 0, service_max };
            self.out.endpoints.push((name.get_ref().clone(), record));
        }
        Ok(())
    }

    fn notifications(&mut self) -> Result<(), Fail> {
        for (name, notification) in &self.file.notifications.0 {
            let bound = notification.bound.as_ref().map(|task| self.task(task)).transpose()?;
            let record = image::Notification { bound_plus_one: plus_one(bound), flags: 0 };
            self.out.notifications.push((name.get_ref().clone(), record));
        }
        Ok(())
    }

    fn interrupts(&mut self) -> Result<(), Fail> {
        let mut lines: BTreeMap<u32, &str> = BTreeMap::new();
        for (name, interrupt) in &self.file.interrupts.0 {
            let of = name.get_ref().clone();
            let line = *interrupt.line.get_ref();
            if line == 0 {
                return Err((interrupt.line.span(), Reason::Zero { what: "line", of }));
            }
            if let Some(by) = lines.insert(line, name.get_ref()) {
                return Err((interrupt.line.span(), Reason::PlaceTaken { what: "line", of, by: by.to_owned() }));
            }
            let notification = index_of(&self.file.notifications, "notification", &interrupt.notification)?;
            let bits = interrupt.bits.as_ref().map_or(1, |bits| *bits.get_ref());
            if bits == 0 {
                let place = interrupt.bits.as_ref().map_or(name.span(), Spanned::span);
                return Err((place, Reason::Zero { what: "set of bits", of }));
            }
            let cpu = match (&interrupt.cpu, &interrupt.cluster) {
                (Some(cpu), None) if *cpu.get_ref() < self.out.cpus => *cpu.get_ref(),
                (Some(cpu), None) => {
                    let reason = Reason::NoSuchCpu { cpu: *cpu.get_ref(), cpus: self.out.cpus };
                    return Err((cpu.span(), reason));
                }
                (Some(cpu), Some(_)) => {
                    return Err((cpu.span(), Reason::Excludes { what: "CPU", of, with: "a cluster" }));
                }
                (None, cluster) => {
                    let cluster = self.cluster(cluster.as_ref(), name)?;
                    self.out.clusters[cluster].1.cpus.trailing_zeros()
                }
            };
            let record =
                image::Interrupt { line, notification: notification as u32, bits, cpu, edge: interrupt.edge.into() };
            self.out.interrupts.push((name.get_ref().clone(), record));
        }
        Ok(())
    }

    fn regions(&mut self) -> Result<(), Fail> {
        let memory = self.out.board.memory.clone();
        let ram = memory.base..memory.base + memory.bytes.0;
        let mut fixed: Vec<(Range<u64>, &str)> = Vec::new();
        for (name, region) in &self.file.regions.0 {
            let of = name.get_ref().clone();
            let bytes = region.bytes.get_ref().0;
            if bytes == 0 || !bytes.is_multiple_of(PAGE) {
                return Err((region.bytes.span(), Reason::NotPages { what: "length", of }));
            }
            let physical = match &region.physical {
                None if region.device => {
                    return Err((name.span(), Reason::Needs { what: "device", of, needs: "a physical address" }));
                }
                None => self.allocate(&of, bytes, region.bytes.span())?,
                Some(at) => {
                    let start = *at.get_ref();
                    if !start.is_multiple_of(PAGE) {
                        return Err((at.span(), Reason::NotPages { what: "physical address", of }));
                    }
                    let range = start..start.saturating_add(bytes);
                    let overlap = |other: &Range<u64>| range.start < other.end && other.start < range.end;
                    if overlap(&ram) {
                        let with = "the board's RAM, which is given out by the packer".into();
                        return Err((at.span(), Reason::Overlap { region: of, with }));
                    }
                    let kick = memory_page(self.out.board.kick.page);
                    if !self.file.devices.0.is_empty() && overlap(&kick) {
                        let with = "the page through which the accelerator is kicked".into();
                        return Err((at.span(), Reason::Overlap { region: of, with }));
                    }
                    if let Some((_, with)) = fixed.iter().find(|(other, _)| overlap(other)) {
                        return Err((at.span(), Reason::Overlap { region: of, with: format!("region `{with}`") }));
                    }
                    fixed.push((range, name.get_ref()));
                    start
                }
            };
            self.region(of, physical, bytes, region.device, name.span())?;
        }
        Ok(())
    }

    /// The matrix of ways: percent of the time that a byte takes over a near one, by the device that copies and the
    /// device that it copies from.
    fn ways(&self) -> Result<Vec<Vec<Slowdown>>, Fail> {
        let count = self.file.devices.0.len();
        let Some(rows) = &self.file.system.distance else { return Ok(vec![vec![Slowdown::NEAR; count]; count]) };
        if rows.get_ref().len() != count || rows.get_ref().iter().any(|row| row.len() != count) {
            return Err((rows.span(), Reason::NotSquare { count }));
        }
        let way = |percent: &Spanned<u32>| {
            let fits = (100..=FARTHEST).contains(percent.get_ref());
            fits.then(|| Slowdown(percent.get_ref() - 100)).ok_or_else(|| (percent.span(), Reason::Distance))
        };
        rows.get_ref().iter().map(|row| row.iter().map(way).collect()).collect()
    }

    fn devices(&mut self) -> Result<(), Fail> {
        let Some((first, _)) = self.file.devices.0.first() else {
            return match &self.file.system.distance {
                Some(rows) => Err((rows.span(), Reason::NotSquare { count: 0 })),
                None => Ok(()),
            };
        };
        let ways = self.ways()?;
        // All that devices reach lies before all that is theirs alone.
        let mut rings = Vec::new();
        for (name, _) in &self.file.devices.0 {
            rings.push(self.allocate(name.get_ref(), (contract::CONTEXTS - 1) as u64 * PAGE, name.span())?);
        }
        let system_end = self.out.pool_next;
        let kick =
            self.region(format!("{}.kick", first.get_ref()), self.out.board.kick.page, PAGE, true, first.span())?;
        for (((name, device), rings), ways) in self.file.devices.0.iter().zip(rings).zip(ways) {
            let driver = self.task(&device.driver)?;
            let of = name.get_ref().clone();
            let firmware = device.firmware.get_ref().clone();
            if let Some(other) = self.out.devices.first().filter(|other| other.firmware != firmware) {
                let (first, second) = (other.name.clone(), of);
                return Err((device.firmware.span(), Reason::TwoFirmwares { first, second }));
            }
            if let Some(other) = self.out.devices.iter().find(|other| other.driver == driver) {
                let (what, of, by) = ("driver", of, other.name.clone());
                return Err((device.driver.span(), Reason::PlaceTaken { what, of, by }));
            }
            let place = name.span();
            let copy_engines = match &device.copy_engines {
                None => CopyEngines::Two,
                Some(number) => CopyEngines::from_number(*number.get_ref()).ok_or_else(|| {
                    (number.span(), Reason::TooMany { what: "copy engines", limit: contract::ENGINES - 1 })
                })?,
            };
            let memory_bytes = match (&device.memory, copy_engines != CopyEngines::None) {
                (None, false) => 0,
                (None, true) => {
                    return Err((place, Reason::Needs { what: "device", of, needs: "memory" }));
                }
                (Some(memory), false) => {
                    let with = "`copy_engines = 0`";
                    return Err((memory.span(), Reason::Excludes { what: "memory", of, with }));
                }
                (Some(memory), true) => {
                    let bytes = memory.get_ref().0;
                    if bytes == 0 || !bytes.is_multiple_of(PAGE) {
                        return Err((memory.span(), Reason::NotPages { what: "memory", of }));
                    }
                    bytes
                }
            };
            let control = self.allocate(&of, PAGE, place.clone())?;
            let status = self.allocate(&of, PAGE, place.clone())?;
            let doorbells = self.allocate(&of, contract::DOORBELL_PAGES as u64 * PAGE, place.clone())?;
            let memory_place = device.memory.as_ref().map_or(place.clone(), Spanned::span);
            let memory = self.allocate(&of, memory_bytes, memory_place)?;
            let mut given = vec![("kick", kick)];
            for (entry, physical, bytes) in
                [("control", control, PAGE), ("status", status, PAGE), ("local", memory, memory_bytes)]
            {
                if bytes > 0 {
                    given.push((entry, self.region(format!("{of}.{entry}"), physical, bytes, false, place.clone())?));
                }
            }
            self.out.devices.push(Device {
                name: of,
                firmware,
                driver,
                system_end,
                rings,
                control,
                status,
                doorbells,
                copy_engines,
                preemptible: device.preemptible,
                memory,
                memory_bytes,
                ways,
                given,
                contexts: vec![driver],
                line: 0,
            });
        }
        Ok(())
    }

    fn pools(&mut self) -> Result<(), Fail> {
        for (name, pool) in &self.file.pools.0 {
            let of = || name.get_ref().clone();
            let crosses =
                matches!(pool.limit.as_ref().map(Spanned::get_ref), Some(Limit::Named(name)) if name == "ck-omlp");
            let cluster = match &pool.cluster {
                Some(cluster) if crosses => {
                    return Err((cluster.span(), Reason::ClusterOfShared { pool: of() }));
                }
                None if crosses => 0,
                cluster => self.cluster(cluster.as_ref(), name)?,
            };
            let replicas = *pool.replicas.get_ref();
            let to = limits::POOL_REPLICAS as u32;
            if !(1..=to).contains(&replicas) {
                return Err((pool.replicas.span(), Reason::OutOfRange { what: "replicas", of: of(), from: 1, to }));
            }
            let cpus = self.out.clusters[cluster].1.cpus.count_ones();
            let limit = match pool.limit.as_ref().map(|limit| (limit.span(), limit.get_ref())) {
                None => cpus.div_ceil(replicas),
                Some((place, Limit::Number(number))) => {
                    let to = limits::USERS_PER_POOL as u32;
                    if !(1..=to).contains(number) {
                        return Err((place, Reason::OutOfRange { what: "limit", of: of(), from: 1, to }));
                    }
                    *number
                }
                Some((_, Limit::Named(name))) if name == "r2dglp" => cpus.div_ceil(replicas),
                Some((_, Limit::Named(name))) if name == "unlimited" || crosses => 0,
                Some((place, Limit::Named(name))) => {
                    return Err((place, Reason::NotOffered { what: "limit", name: name.clone() }));
                }
            };
            let (cluster, crosses) = (cluster as u32, u32::from(crosses));
            let record = image::Pool { replicas, limit, cluster, crosses, ..self.advised(name, pool)? };
            self.out.pools.push((of(), record));
        }
        Ok(())
    }

    fn engines(&mut self) -> Result<(), Fail> {
        let mut taken: BTreeMap<(usize, EngineIndex), &str> = BTreeMap::new();
        let mut groups: Vec<(&str, u32)> = Vec::new();
        for (name, engine) in &self.file.engines.0 {
            let of = name.get_ref().clone();
            let interrupt = engine
                .interrupt
                .as_ref()
                .map(|interrupt| index_of(&self.file.interrupts, "interrupt", interrupt))
                .transpose()?;
            let place = match (&engine.device, &engine.index) {
                (None, None) => None,
                (None, Some(index)) => {
                    return Err((index.span(), Reason::Needs { what: "index", of, needs: "a device" }));
                }
                (Some(device), None) => {
                    return Err((device.span(), Reason::Needs { what: "device", of, needs: "an index" }));
                }
                // Nobody would hear of its completions, nor let it go on once it has drained.
                (Some(device), Some(_)) if interrupt.is_none() => {
                    return Err((device.span(), Reason::Needs { what: "device", of, needs: "an interrupt" }));
                }
                (Some(device), Some(index)) => {
                    let owner = index_of(&self.file.devices, "device", device)?;
                    let copy_engines = self.out.devices[owner].copy_engines;
                    let number = EngineIndex::from_number(*index.get_ref());
                    let number = number.filter(|number| copy_engines.include(*number)).ok_or_else(|| {
                        let (device, limit) = (device.get_ref().clone(), copy_engines.engines());
                        (index.span(), Reason::DeviceFull { device, what: "engines", limit })
                    })?;
                    if let Some(by) = taken.insert((owner, number), name.get_ref()) {
                        return Err((index.span(), Reason::PlaceTaken { what: "index", of, by: by.to_owned() }));
                    }
                    if let (Some(interrupt), Some(named)) = (interrupt, &engine.interrupt) {
                        let line = self.out.interrupts[interrupt].1.line;
                        if ![0, line].contains(&self.out.devices[owner].line) {
                            return Err((named.span(), Reason::SecondLine { device: device.get_ref().clone() }));
                        }
                        let mut others = self.out.devices.iter().enumerate().filter(|(index, _)| *index != owner);
                        if let Some((_, other)) = others.find(|(_, other)| other.line == line) {
                            let (what, by) = ("interrupt", other.name.clone());
                            return Err((named.span(), Reason::PlaceTaken { what, of, by }));
                        }
                        self.out.devices[owner].line = line;
                    }
                    Some((owner, number))
                }
            };
            let order = match engine.order {
                Order::Fifo => order::FIFO,
                Order::Priority => order::PRIORITY,
            };
            let group = match &engine.group {
                None => None,
                Some(group) => {
                    let known = groups.iter().position(|(of, _)| of == group.get_ref());
                    let index = known.unwrap_or(groups.len());
                    if known.is_none() {
                        groups.push((group.get_ref(), order));
                    }
                    if groups[index].1 != order {
                        return Err((group.span(), Reason::TwoOrders { group: group.get_ref().clone() }));
                    }
                    if groups.len() > limits::GROUPS {
                        let limit = limits::GROUPS;
                        return Err((group.span(), Reason::TooMany { what: "groups of engines", limit }));
                    }
                    Some(index)
                }
            };
            let pool = engine.pool.as_ref().map(|pool| index_of(&self.file.pools, "pool", pool)).transpose()?;
            let (interrupt_plus_one, group_plus_one) = (plus_one(interrupt), plus_one(group));
            let pool_plus_one = plus_one(pool);
            let record =
                image::Engine { order, interrupt_plus_one, group_plus_one, pool_plus_one, ..image::Engine::default() };
            if let (Some(time), None) = (&engine.completion, place) {
                return Err((time.span(), Reason::Needs { what: "completion", of, needs: "a device" }));
            }
            self.out.engine_ends.push((span(&engine.completion, name)?, Nanoseconds::ZERO));
            self.out.engines.push((name.get_ref().clone(), record));
            self.out.engine_places.push(place);
        }
        // Without an interrupt nobody would hear of completions.
        let silent = self.out.devices.iter().position(|device| device.line < FIRST_SHARED_LINE);
        match silent.map(|device| &self.file.devices.0[device].0) {
            Some(name) => {
                let of = name.get_ref().clone();
                Err((name.span(), Reason::Needs { what: "device", of, needs: "an engine with an interrupt above 31" }))
            }
            None => Ok(()),
        }
    }
}

fn reservation(
    index: usize,
    cluster: usize,
    name: &Spanned<String>,
    task: &schema::Task,
) -> Result<Option<image::Reservation>, Fail> {
    let of = || name.get_ref().clone();
    let positive = |time: &Option<Spanned<crate::Time>>, what| match time {
        Some(time) if time.get_ref().0 == 0 => Err((time.span(), Reason::Zero { what, of: of() })),
        Some(time) => Ok(Some(time.get_ref().0)),
        None => Ok(None),
    };
    let period = positive(&task.period, "period")?;
    let deadline = positive(&task.deadline, "deadline")?;
    let budget = positive(&task.budget, "budget")?;
    let class = match (&task.class, period) {
        (Some(class), _) => Some(*class.get_ref()),
        (None, Some(_)) => Some(Class::RealTime),
        (None, None) => None,
    };
    if class != Some(Class::RealTime) {
        let with = match class {
            None => "no period",
            _ => "a class other than real-time",
        };
        let excluded = [
            ("deadline", task.deadline.as_ref().map(Spanned::span)),
            ("release", task.release.as_ref().map(Spanned::span)),
            ("phase", task.phase.as_ref().map(Spanned::span)),
            ("hard", task.hard.as_ref().map(Spanned::span)),
            ("wcet", task.wcet.as_ref().map(Spanned::span)),
            ("priority", task.priority.as_ref().map(Spanned::span)),
            ("overrun", task.overrun.as_ref().map(Spanned::span)),
            ("budget_covers", task.budget_covers.as_ref().map(Spanned::span)),
            ("backlog", task.backlog.as_ref().map(Spanned::span)),
        ];
        for (what, place) in excluded {
            if let Some(place) = place {
                return Err((place, Reason::Excludes { what, of: of(), with }));
            }
        }
    }
    let needs = |what, needs| (name.span(), Reason::Needs { what, of: of(), needs });
    let (class, release, budget, period) = match (class, budget, period) {
        (None, None, _) => return Ok(None),
        (None, Some(_), _) => return Err(needs("budget", "a period")),
        (Some(Class::RealTime), _, None) => return Err(needs("class", "a period")),
        (Some(Class::Service), _, None) => return Err(needs("class", "a period")),
        (Some(Class::RealTime | Class::Service), None, Some(_)) => return Err(needs("period", "a budget")),
        (Some(Class::RealTime), Some(budget), Some(period)) => {
            let release = match task.release.as_ref().map(Spanned::get_ref) {
                None | Some(Release::Periodic) => release::PERIODIC,
                Some(Release::Sporadic) => release::SPORADIC,
            };
            (class::REAL_TIME, release, budget, period)
        }
        (Some(Class::Service), Some(budget), Some(period)) => (class::SERVICE, release::NONE, budget, period),
        (Some(Class::Background), None, None) => (class::BACKGROUND, release::NONE, UNLIMITED, UNLIMITED_PERIOD),
        (Some(Class::Background), Some(budget), Some(period)) => (class::BACKGROUND, release::NONE, budget, period),
        (Some(Class::Background), Some(_), None) => return Err(needs("budget", "a period")),
        (Some(Class::Background), None, Some(_)) => return Err(needs("period", "a budget")),
    };
    let deadline = deadline.unwrap_or(period);
    if budget != UNLIMITED {
        let place = task.budget.as_ref().map_or(name.span(), Spanned::span);
        for (what, limit) in [("period", period), ("deadline", deadline), ("limit", FAIR_LATENESS_OFFSET.0)] {
            if budget > limit {
                return Err((place, Reason::BudgetExceeds { task: of(), budget, what, limit }));
            }
        }
    }
    let execution = positive(&task.wcet, "wcet")?.unwrap_or(budget);
    if let Some(place) = task.wcet.as_ref().filter(|_| execution > budget) {
        let reason = Reason::ExecutionExceeds { task: of(), execution, budget };
        return Err((place.span(), reason));
    }
    let priority = task.priority.as_ref().map_or(0, |priority| *priority.get_ref());
    if let Some(place) = task.priority.as_ref().filter(|_| priority == 0) {
        return Err((place.span(), Reason::Zero { what: "priority", of: of() }));
    }
    let backlog = task.backlog.as_ref().map_or(1, |backlog| *backlog.get_ref());
    if let Some(place) = task.backlog.as_ref().filter(|_| backlog == 0 || backlog > BACKLOG_MAX) {
        return Err((place.span(), Reason::OutOfRange { what: "backlog", of: of(), from: 1, to: BACKLOG_MAX }));
    }
    let overrun = match task.overrun.as_ref().map_or(Overrun::default(), |overrun| *overrun.get_ref()) {
        Overrun::Throttle => overrun::THROTTLE,
        Overrun::Signal => overrun::SIGNAL,
        Overrun::EarlyRelease => overrun::EARLY_RELEASE,
    };
    let covers = task.budget_covers.as_ref().map_or(Covers::default(), |covers| *covers.get_ref());
    Ok(Some(image::Reservation {
        task: index as u32,
        cluster: cluster as u32,
        class,
        release,
        budget,
        period,
        deadline,
        phase: task.phase.as_ref().map_or(0, |phase| phase.get_ref().0),
        execution,
        priority,
        overrun,
        backlog,
        covers_engines: u32::from(covers == Covers::CpuAndEngines),
    }))
}

//--- Handles

impl Resolver<'_> {
    fn handles(&mut self) -> Result<(), Fail> {
        for index in 0..self.file.tasks.0.len() {
            let (_, task) = &self.file.tasks.0[index];
            for (slot, (entry, text)) in task.handles.0.iter().enumerate() {
                self.unused(index, entry.get_ref(), entry.span())?;
                self.handle(index, slot, entry, text)?;
            }
            for (entry, value) in &task.parameters.0 {
                self.unused(index, entry.get_ref(), entry.span())?;
                let value = *value.get_ref() as u64;
                self.parameter(index, entry.get_ref(), value);
            }
        }
        // What nobody wrote comes after what somebody did, in each table.
        for index in 0..self.file.tasks.0.len() {
            self.automatic_handles(index, &self.file.tasks.0[index].0)?;
        }
        for device in 0..self.out.devices.len() {
            let Device { driver, contexts, .. } = self.out.devices[device].clone();
            for (context, client) in contexts.iter().enumerate().skip(1) {
                let entry = format!("context.{}", self.out.tasks[*client].name);
                self.unused(driver, &entry, self.file.devices.0[device].0.span())?;
                self.parameter(driver, &entry, context as u64);
            }
        }
        Ok(())
    }

    fn handle(
        &mut self,
        task: usize,
        slot: usize,
        entry: &Spanned<String>,
        text: &Spanned<String>,
    ) -> Result<(), Fail> {
        let place = text.span();
        let bad = || (place.clone(), Reason::BadHandle(text.get_ref().clone()));
        let (what, words) = text.get_ref().split_once(':').ok_or_else(bad)?;
        let mut what = what.split_whitespace();
        let kind = what.next().ok_or_else(bad)?;
        let object = what.next();
        let words: Vec<&str> = words.split_whitespace().collect();
        if what.next().is_some() || (object.is_none() && kind != "system") || words.is_empty() {
            return Err(bad());
        }
        let object = Spanned::new(place.clone(), object.unwrap_or_default().to_owned());
        let file = self.file;
        let rights_of = |kind: &'static str, known: &[(&str, u32)]| {
            words.iter().try_fold(0, |set, word| match known.iter().find(|(name, _)| name == word) {
                Some((_, bit)) => Ok(set | bit),
                None => Err((place.clone(), Reason::BadRight { kind, right: (*word).to_owned() })),
            })
        };
        match kind {
            "endpoint" => {
                let known = [("call", rights::CALL), ("send", rights::SEND), ("receive", rights::RECEIVE), GRANT];
                let set = rights_of("endpoint", &known)?;
                let endpoint = index_of(&file.endpoints, "endpoint", &object)?;
                let server = self.out.endpoints[endpoint].1.server as usize;
                if set & rights::RECEIVE != 0 && server != task {
                    let reason = Reason::NotTheServer {
                        task: self.out.tasks[task].name.clone(),
                        endpoint: object.into_inner(),
                        server: self.out.tasks[server].name.clone(),
                    };
                    return Err((place, reason));
                }
                self.give(task, slot, entry, kind::ENDPOINT, endpoint, set)?;
                let may_call = |handle: &&image::Handle| {
                    let is_it = handle.kind == kind::ENDPOINT && handle.object as usize == endpoint;
                    is_it && handle.rights & (rights::CALL | rights::SEND) != 0
                };
                let callers: BTreeSet<u32> =
                    self.out.handles.iter().filter(may_call).map(|handle| handle.task).collect();
                let limit = limits::CALLERS;
                if callers.len() > limit {
                    let name = self.out.endpoints[endpoint].0.clone();
                    return Err((place, Reason::Crowded { kind: "endpoint", name, what: "callers", limit }));
                }
                Ok(())
            }
            "notification" => {
                let set = rights_of("notification", &[("signal", rights::SIGNAL), ("wait", rights::WAIT), GRANT])?;
                let notification = index_of(&file.notifications, "notification", &object)?;
                self.give(task, slot, entry, kind::NOTIFICATION, notification, set)
            }
            "engine" => {
                let set = rights_of("engine", &[("acquire", rights::ACQUIRE)])?;
                let engine = index_of(&file.engines, "engine", &object)?;
                self.give(task, slot, entry, kind::ENGINE, engine, set)?;
                self.engine_user(task, engine, entry, &place)
            }
            "pool" => {
                let set = rights_of("pool", &[("acquire", rights::ACQUIRE)])?;
                let pool = index_of(&file.pools, "pool", &object)?;
                self.pool_user(task, pool, &place)?;
                self.out.pool_users.push(image::PoolUser { pool: pool as u32, task: task as u32, length: 0 });
                self.give(task, slot, entry, kind::POOL, pool, set)?;
                let record = &self.out.pools[pool].1;
                if let Some(handle) = self.out.tasks[task].environment.last_mut() {
                    handle.flags = record.replicas / record.devices.max(1);
                }
                Ok(())
            }
            "interrupt" => {
                let set = rights_of("interrupt", &[("acknowledge", rights::ACKNOWLEDGE)])?;
                let interrupt = index_of(&file.interrupts, "interrupt", &object)?;
                self.give(task, slot, entry, kind::INTERRUPT, interrupt, set)
            }
            "region" => {
                let (lend, lent) = (("lend", rights::LEND), ("lent", rights::LENT));
                let known = [("read", READ), ("write", WRITE), ("map", MAP), ("physical", PHYSICAL), lend, lent];
                let set = rights_of("region", &known)?;
                let region = index_of(&file.regions, "region", &object)?;
                self.may_lend(entry, region, set, &place)?;
                self.share(task, slot, entry, region, set, &place)
            }
            "task" => {
                let set = rights_of("task", &[("release_job", rights::RELEASE_JOB), ("stop", rights::STOP), GRANT])?;
                let other = index_of(&file.tasks, "task", &object)?;
                self.give(task, slot, entry, kind::TASK, other, set)
            }
            "system" => {
                let set = rights_of("system", &[("shutdown", rights::SHUTDOWN)])?;
                self.give(task, slot, entry, kind::SYSTEM, 0, set)
            }
            _ => Err(bad()),
        }
    }

    /// When engines are taken from those who hold them.
    fn watchdogs(&mut self) -> Result<(), Fail> {
        for (index, (name, engine)) in self.file.engines.0.iter().enumerate() {
            let of = || name.get_ref().clone();
            let hangs = engine.hangs.as_ref().filter(|hangs| *hangs.get_ref()).map(Spanned::span);
            let unwatched = |place| Err((place, Reason::Needs { what: "hangs", of: of(), needs: "a watchdog" }));
            let Some((owner, number)) = self.out.engine_places[index] else {
                let key = engine.watchdog.as_ref().map(|time| (time, "watchdog"));
                match key.or(engine.reset_bound.as_ref().map(|time| (time, "reset_bound"))) {
                    Some((time, what)) => {
                        return Err((time.span(), Reason::Needs { what, of: of(), needs: "a device" }));
                    }
                    None => match hangs {
                        Some(place) => return unwatched(place),
                        None => continue,
                    },
                }
            };
            let Some(watchdog) = engine.watchdog.as_ref().map(|time| time.get_ref().0).or(self.usual_watchdog(index))
            else {
                match &engine.reset_bound {
                    Some(time) => {
                        let reason = Reason::Needs { what: "reset_bound", of: of(), needs: "a watchdog" };
                        return Err((time.span(), reason));
                    }
                    None => match hangs {
                        Some(place) => return unwatched(place),
                        None => continue,
                    },
                }
            };
            let reset_bound = engine.reset_bound.as_ref().map_or(watchdog.max(RESET_BOUND), |time| time.get_ref().0);
            let place = engine.watchdog.as_ref().map_or(name.span(), Spanned::span);
            for (what, time) in [("watchdog", watchdog), ("reset_bound", reset_bound)] {
                if time == 0 {
                    return Err((place, Reason::Zero { what, of: of() }));
                }
                if time > FAIR_LATENESS_OFFSET.0 {
                    return Err((place, Reason::Needs { what, of: of(), needs: "a time of at most 2^56 ns" }));
                }
            }
            if let Some((user, hold)) = self.holds_of(index).find(|(_, hold)| hold.is_some_and(|hold| hold > watchdog))
            {
                let (user, hold) = (self.out.tasks[user].name.clone(), hold.unwrap_or(0));
                return Err((place, Reason::WatchdogTooShort { engine: of(), watchdog, user, hold }));
            }
            let line = self.out.engines[index].1.interrupt_plus_one - 1;
            let driver = self.out.devices[owner].contexts[0];
            let is_heard = |handle: &image::Handle| {
                handle.kind == kind::INTERRUPT && handle.object == line && handle.task as usize == driver
            };
            if !self.out.handles.iter().any(is_heard) {
                let needs = "a driver that may acknowledge its interrupt";
                return Err((place, Reason::Needs { what: "watchdog", of: of(), needs }));
            }
            let reset_bits = RESET << number.number();
            if self.out.interrupts[line as usize].1.bits & reset_bits != 0 {
                let with = "event bits of its interrupt from 32 on";
                return Err((place, Reason::Excludes { what: "watchdog", of: of(), with }));
            }
            if hangs.is_some() {
                self.out.engine_ends[index].1 = Nanoseconds(watchdog.saturating_add(reset_bound));
            }
            let record = &mut self.out.engines[index].1;
            (record.watchdog, record.reset_bound, record.reset_bits) = (watchdog, reset_bound, reset_bits);
        }
        Ok(())
    }

    /// For each user of `engine` its task, and how long it says that it holds it.
    fn holds_of(&self, engine: usize) -> impl Iterator<Item = (usize, Option<u64>)> {
        let users = self.out.engine_users.iter().zip(&self.out.engine_holds);
        let users = users.filter(move |(user, _)| user.engine as usize == engine);
        users.map(|(user, hold)| (user.task as usize, hold.map(|one| one.hold.cpu.0 + one.hold.operation.0)))
    }

    /// A time after which no user can still hold `engine` that meets its deadlines and keeps to what it said: its longest
    /// period or deadline, and three of its holds, since the last may go on after the job. `None`: somebody says nothing.
    fn usual_watchdog(&self, engine: usize) -> Option<u64> {
        let mut longest = None;
        for (task, hold) in self.holds_of(engine) {
            let reservation = &self.out.reservations[self.out.tasks[task].reservation?];
            let is_timed = reservation.class != class::BACKGROUND;
            let span = is_timed.then_some(reservation.period.max(reservation.deadline))?;
            longest = longest.max(Some(span + 3 * hold?));
        }
        longest
    }

    /// Puts a handle into a slot, and an entry into the environment.
    fn give(
        &mut self,
        task: usize,
        slot: usize,
        name: &Spanned<String>,
        kind: u32,
        object: usize,
        rights: u32,
    ) -> Result<(), Fail> {
        if slot >= limits::HANDLES {
            return Err((name.span(), Reason::TooMany { what: "handles of one task", limit: limits::HANDLES }));
        }
        let badge = task as u32 + 1;
        let record = image::Handle { task: task as u32, slot: slot as u32, kind, object: object as u32, rights, badge };
        self.out.handles.push(record);
        self.out.tasks[task].environment.push(Entry {
            name: name.get_ref().clone(),
            kind,
            flags: 0,
            handle: HandleValue::new(slot as u16, 1).0,
            address: 0,
            bytes: 0,
            physical: 0,
        });
        Ok(())
    }

    /// What is lent is read; and a place for it is of limited size, and nothing else.
    fn may_lend(&self, name: &Spanned<String>, region: usize, set: u32, place: &Range<usize>) -> Result<(), Fail> {
        let of = name.get_ref().clone();
        let refuse = |reason| Err((place.clone(), reason));
        let lends = set & rights::LEND != 0;
        if set & (rights::LEND | rights::LENT) == 0 {
            return Ok(());
        }
        if set & READ == 0 {
            let what = if lends { "lend" } else { "lent" };
            return refuse(Reason::Needs { what, of, needs: "the right to read" });
        }
        if set & rights::LENT == 0 {
            return Ok(());
        }
        let others = [("lend", rights::LEND), ("map", MAP), ("physical", PHYSICAL)];
        if let Some((with, _)) = others.into_iter().find(|(_, right)| set & right != 0) {
            return refuse(Reason::Excludes { what: "lent", of, with });
        }
        if self.region_is_device[region] {
            return refuse(Reason::Excludes { what: "lent", of, with: "a device" });
        }
        let (bytes, limit) = (self.out.regions[region].1.bytes, layout::LENT_MAX);
        if bytes > limit { refuse(Reason::TooLargeToLend { place: of, bytes, limit }) } else { Ok(()) }
    }

    /// Gives a task a region, mapped from the start unless it has the right to map, or it is only lent to it.
    fn share(
        &mut self,
        task: usize,
        slot: usize,
        name: &Spanned<String>,
        region: usize,
        set: u32,
        place: &Range<usize>,
    ) -> Result<(), Fail> {
        let twice = |handle: &image::Handle| {
            handle.task as usize == task && handle.kind == kind::REGION && handle.object as usize == region
        };
        let (region_name, record) = self.out.regions[region].clone();
        if self.out.handles.iter().any(twice) {
            let task = self.out.tasks[task].name.clone();
            return Err((place.clone(), Reason::RegionTwice { task, region: region_name }));
        }
        let is_place = set & rights::LENT != 0;
        self.give(task, slot, name, kind::REGION, region, set & !PHYSICAL)?;
        let entry = self.out.tasks[task].environment.last_mut();
        if let Some(entry) = entry {
            if is_place {
                entry.kind = fusee_abi::environment::kind::PLACE;
            }
            entry.address = if set & (READ | WRITE) != 0 { record.address } else { 0 };
            entry.bytes = record.bytes;
            entry.physical = if set & PHYSICAL != 0 { record.physical } else { 0 };
        }
        if set & (READ | WRITE) == 0 {
            return Ok(());
        }
        let mut flags = mapping::READ;
        if set & WRITE != 0 {
            flags |= mapping::WRITE;
        }
        if set & MAP != 0 {
            flags |= mapping::HELD_BACK;
        }
        if is_place {
            let scratch = self.scratch(task, place)?;
            self.out.mappings.push(image::Mapping {
                task: task as u32,
                flags: flags | mapping::SCRATCH | mapping::FILL,
                address: record.address,
                physical: scratch,
                pages: record.bytes / PAGE,
                source_offset: 0,
                source_bytes: 0,
            });
            flags |= mapping::LENT;
        }
        if self.region_is_device[region] {
            flags |= mapping::DEVICE;
        } else if !self.out.mappings.iter().any(|other| other.physical == record.physical) {
            // The first task that has the region lets the kernel zero it.
            flags |= mapping::FILL;
        }
        self.out.mappings.push(image::Mapping {
            task: task as u32,
            flags,
            address: record.address,
            physical: record.physical,
            pages: record.bytes / PAGE,
            source_offset: 0,
            source_bytes: 0,
        });
        Ok(())
    }

    /// The page that a task finds at its places while what was lent to it is gone: one for all of them.
    fn scratch(&mut self, task: usize, place: &Range<usize>) -> Result<u64, Fail> {
        let is_scratch =
            |mapping: &&image::Mapping| mapping.task as usize == task && mapping.flags & mapping::SCRATCH != 0;
        match self.out.mappings.iter().find(is_scratch) {
            Some(mapping) => Ok(mapping.physical),
            None => self.allocate(&self.out.tasks[task].name.clone(), PAGE, place.clone()),
        }
    }

    /// Whether `task` may share `pool` with those who do.
    fn pool_user(&self, task: usize, pool: usize, place: &Range<usize>) -> Result<(), Fail> {
        let fail = |reason| Err((place.clone(), reason));
        let (name, record) = &self.out.pools[pool];
        let one = &self.out.tasks[task];
        if record.crosses == 0 && one.cluster != record.cluster {
            let cluster = self.out.clusters[record.cluster as usize].0.clone();
            return fail(Reason::PoolOfAnotherCluster { pool: name.clone(), cluster, task: one.name.clone() });
        }
        if one.reservation.is_none() {
            return fail(Reason::Needs { what: "pool", of: one.name.clone(), needs: "a budget" });
        }
        if record.crosses != 0 && !self.has_jobs(one) {
            return fail(Reason::Needs { what: "shared pool", of: one.name.clone(), needs: "jobs" });
        }
        let uses = self.out.pool_users.iter();
        let users: Vec<usize> =
            uses.clone().filter(|one| one.pool as usize == pool).map(|one| one.task as usize).collect();
        if users.contains(&task) {
            return fail(Reason::PoolTwice { task: one.name.clone(), pool: name.clone() });
        }
        for (what, count, limit) in [
            ("tasks that share one pool", users.len(), limits::USERS_PER_POOL),
            ("pools of one task", uses.clone().filter(|one| one.task as usize == task).count(), limits::POOLS_PER_TASK),
            ("uses of pools", uses.count(), limits::POOL_USERS),
        ] {
            if count >= limit {
                return fail(Reason::TooMany { what, limit });
            }
        }
        Ok(())
    }

    fn has_jobs(&self, task: &Task) -> bool {
        task.reservation.is_some_and(|reservation| self.out.reservations[reservation].release != release::NONE)
    }

    /// Who uses an engine that asks for a token can have one; and where a cluster shares a pool with others, there is a place for
    /// each of its jobs.
    fn sharing(&self) -> Result<(), Fail> {
        let uses = |task: u32, pool: u32| self.out.pool_users.iter().any(|user| user.pool == pool && user.task == task);
        for user in &self.out.engine_users {
            let (name, engine) = &self.out.engines[user.engine as usize];
            let lacks = engine.pool_plus_one.checked_sub(1).filter(|pool| !uses(user.task, *pool));
            if let (Some(pool), Some(named)) = (lacks, &self.file.engines.0[user.engine as usize].1.pool) {
                let task = self.out.tasks[user.task as usize].name.clone();
                let (engine, pool) = (name.clone(), self.out.pools[pool as usize].0.clone());
                return Err((named.span(), Reason::NoToken { engine, pool, task }));
            }
        }
        for (index, _) in self.out.pools.iter().enumerate().filter(|(_, (_, pool))| pool.crosses != 0) {
            let users = self.out.tasks.iter().enumerate().filter(|(task, _)| uses(*task as u32, index as u32));
            for (_, user) in users {
                let mates = self.out.tasks.iter().filter(|one| one.cluster == user.cluster);
                if mates.filter(|one| self.has_jobs(one)).count() > limits::JOBS_ACROSS {
                    let (name, limit) = (self.out.clusters[user.cluster as usize].0.clone(), limits::JOBS_ACROSS);
                    let place = self.file.pools.0[index].0.span();
                    return Err((
                        place,
                        Reason::Crowded { kind: "sharing cluster", name, what: "tasks with jobs", limit },
                    ));
                }
            }
        }
        Ok(())
    }

    fn engine_user(
        &mut self,
        task: usize,
        engine: usize,
        name: &Spanned<String>,
        place: &Range<usize>,
    ) -> Result<(), Fail> {
        if self.out.engine_users.len() >= limits::ENGINE_USERS {
            let limit = limits::ENGINE_USERS;
            return Err((place.clone(), Reason::TooMany { what: "uses of engines", limit }));
        }
        let same = |user: &&image::EngineUser| user.engine as usize == engine;
        let limit = limits::USERS_PER_ENGINE;
        if self.out.engine_users.iter().filter(same).count() >= limit {
            let name = self.out.engines[engine].0.clone();
            return Err((place.clone(), Reason::Crowded { kind: "engine", name, what: "users", limit }));
        }
        // Who may be acquired with it has the same queue.
        let group = self.out.engines[engine].1.group_plus_one;
        let in_group =
            |user: &&image::EngineUser| group != 0 && self.out.engines[user.engine as usize].1.group_plus_one == group;
        let mut tasks: Vec<usize> =
            self.out.engine_users.iter().filter(in_group).map(|user| user.task as usize).collect();
        tasks.push(task);
        tasks.sort_unstable();
        tasks.dedup();
        if group != 0 && tasks.len() > limits::USERS_PER_GROUP {
            let (name, limit) = (self.out.engines[engine].0.clone(), limits::USERS_PER_GROUP);
            return Err((place.clone(), Reason::Crowded { kind: "group of engine", name, what: "users", limit }));
        }
        if let Some(other) = self.out.engine_users.iter().find(|user| same(user) || in_group(user)) {
            let other = &self.out.tasks[other.task as usize];
            let pool = self.out.engines[engine].1.pool_plus_one.checked_sub(1);
            let crosses = pool.is_some_and(|pool| self.out.pools[pool as usize].1.crosses != 0);
            if !crosses && other.cluster != self.out.tasks[task].cluster {
                let reason = Reason::EngineInTwoClusters {
                    engine: self.out.engines[engine].0.clone(),
                    first: other.name.clone(),
                    second: self.out.tasks[task].name.clone(),
                };
                return Err((place.clone(), reason));
            }
        }
        let mut record = image::EngineUser { engine: engine as u32, task: task as u32, ..Default::default() };
        let Some((device, number)) = self.out.engine_places[engine] else {
            self.out.engine_users.push(record);
            return Ok(());
        };
        let context = self.context(device, task, place)?;
        let device = &self.out.devices[device];
        record.doorbell = device.doorbells + contract::doorbell_page(number, context);
        record.retired = device.status + contract::status_retired(number, context);
        record.address = layout::DOORBELLS + self.out.engine_users.len() as u64 * layout::DOORBELL_STEP;
        self.out.engine_users.push(record);
        let preemptible = device.preemptible && number == EngineIndex::Execution;
        let flags = number.number() as u32 | if preemptible { fusee_abi::environment::PREEMPTIBLE } else { 0 };
        let address = record.address;
        let environment = &mut self.out.tasks[task].environment;
        if let Some(handle) = environment.last_mut() {
            handle.flags = flags;
        }
        environment.push(Entry {
            name: name.get_ref().clone(),
            kind: fusee_abi::environment::kind::DOORBELL,
            flags,
            handle: 0,
            address,
            bytes: PAGE,
            physical: 0,
        });
        Ok(())
    }

    /// The context of `task` on `device`, a new one if it has none.
    fn context(&mut self, device: usize, task: usize, place: &Range<usize>) -> Result<usize, Fail> {
        let mut others = self.out.devices.iter().enumerate().filter(|(index, _)| *index != device);
        let (_, file) = &self.file.tasks.0[task];
        // A step of a script names an engine by its number in its device.
        if let Some((_, other)) = others.find(|(_, other)| other.contexts.contains(&task))
            && (file.script.is_some() || file.model.is_some())
        {
            let (first, second) = (other.name.clone(), self.out.devices[device].name.clone());
            let task = self.out.tasks[task].name.clone();
            return Err((place.clone(), Reason::TwoDevices { task, first, second }));
        }
        let device = &mut self.out.devices[device];
        if let Some(context) = device.contexts.iter().position(|owner| *owner == task) {
            return Ok(context);
        }
        if device.contexts.len() >= contract::CONTEXTS {
            let (device, limit) = (device.name.clone(), contract::CONTEXTS - 1);
            return Err((place.clone(), Reason::DeviceFull { device, what: "contexts for clients", limit }));
        }
        device.contexts.push(task);
        Ok(device.contexts.len() - 1)
    }

    /// What drivers and clients of a device get without asking.
    fn automatic_handles(&mut self, task: usize, name: &Spanned<String>) -> Result<(), Fail> {
        for device in 0..self.out.devices.len() {
            let Some(context) = self.out.devices[device].contexts.iter().position(|owner| *owner == task) else {
                continue;
            };
            let is_driver = self.out.devices[device].driver == task;
            let suffix = self.suffix(device, task);
            let wanted: &[(&str, u32)] = if is_driver {
                &[
                    ("control", READ | WRITE | PHYSICAL),
                    ("status", READ | PHYSICAL),
                    ("local", READ | WRITE | PHYSICAL),
                    ("kick", READ | WRITE),
                ]
            } else {
                &[("status", READ), ("kick", READ | WRITE)]
            };
            for (entry, set) in wanted {
                let given = &self.out.devices[device].given;
                let Some((_, region)) = given.iter().find(|(given, _)| given == entry).copied() else { continue };
                // One page for all devices.
                let is_kick = *entry == "kick";
                if is_kick && self.out.devices[..device].iter().any(|earlier| earlier.contexts.contains(&task)) {
                    continue;
                }
                let entry = if is_kick { (*entry).to_owned() } else { format!("{entry}{suffix}") };
                self.unused(task, &entry, name.span())?;
                let slot = self.next_slot(task);
                self.share(task, slot, &Spanned::new(name.span(), entry), region, *set, &name.span())?;
            }
            let entry = format!("context{suffix}");
            self.unused(task, &entry, name.span())?;
            self.parameter(task, &entry, context as u64);
            if !suffix.is_empty() {
                let entry = format!("device{suffix}");
                self.unused(task, &entry, name.span())?;
                self.parameter(task, &entry, device as u64);
                self.peers(device, task, context, name)?;
            }
            if !is_driver {
                self.client_handles(device, task, context, name)?;
            }
        }
        Ok(())
    }

    /// What is appended to the names of what `task` gets of `device`: nothing if it is the only one it uses.
    fn suffix(&self, device: usize, task: usize) -> String {
        let used = self.out.devices.iter().filter(|device| device.contexts.contains(&task)).count();
        let is_driver = self.out.devices[device].driver == task;
        if used > 1 && !is_driver { format!(".{}", self.out.devices[device].name) } else { String::new() }
    }

    /// Lets the other drivers of a client know where its memory on `device` is, if the manifest says how far devices are.
    fn peers(&mut self, device: usize, task: usize, context: usize, name: &Spanned<String>) -> Result<(), Fail> {
        if self.file.system.distance.is_none() {
            return Ok(());
        }
        let Device { memory, memory_bytes, ref contexts, .. } = self.out.devices[device];
        let (offset, pages) = contract::space::share(memory_bytes, contexts.len() - 1, context);
        if pages == 0 {
            return Ok(());
        }
        let drivers =
            self.out.devices.iter().enumerate().filter(|(index, other)| {
                *index != device && other.memory_bytes > 0 && other.contexts[1..].contains(&task)
            });
        let drivers: Vec<usize> = drivers.map(|(_, other)| other.driver).collect();
        let entry = format!("peer{device}.{}", name.get_ref());
        let region = self.region(entry.clone(), memory + offset, pages * PAGE, false, name.span())?;
        for driver in drivers {
            self.unused(driver, &entry, name.span())?;
            let slot = self.next_slot(driver);
            self.share(driver, slot, &Spanned::new(name.span(), entry.clone()), region, PHYSICAL, &name.span())?;
        }
        Ok(())
    }

    /// A client's ring page, and the notification that tells it of completions, if it names none itself; the
    /// driver gets its ends of both.
    fn client_handles(
        &mut self,
        device: usize,
        task: usize,
        context: usize,
        name: &Spanned<String>,
    ) -> Result<(), Fail> {
        let Device { driver, rings, .. } = self.out.devices[device];
        let suffix = self.suffix(device, task);
        let (ring, done) = (format!("ring{suffix}"), format!("gpu_done{suffix}"));
        let place = name.span();
        let spanned = |text: String| Spanned::new(place.clone(), text);
        let has = |out: &Resolved, entry: &str| out.tasks[task].environment.iter().any(|one| one.name == entry);
        if !has(&self.out, &ring) {
            let entry = format!("ring.{}", name.get_ref());
            let physical = rings + (context - 1) as u64 * PAGE;
            let region = self.region(entry.clone(), physical, PAGE, false, place.clone())?;
            self.unused(driver, &entry, place.clone())?;
            let slot = self.next_slot(task);
            self.unused(task, &ring, place.clone())?;
            self.share(task, slot, &spanned(ring), region, READ | WRITE, &place)?;
            let slot = self.next_slot(driver);
            self.share(driver, slot, &spanned(entry), region, PHYSICAL, &place)?;
        }
        if !has(&self.out, &done) {
            let entry = format!("done.{}", name.get_ref());
            if self.out.notifications.len() >= limits::NOTIFICATIONS {
                let limit = limits::NOTIFICATIONS;
                return Err((place, Reason::TooMany { what: "notifications", limit }));
            }
            self.unused(driver, &entry, place.clone())?;
            let record = image::Notification { bound_plus_one: plus_one(Some(driver)), flags: 0 };
            self.out.notifications.push((entry.clone(), record));
            let object = self.out.notifications.len() - 1;
            let slot = self.next_slot(task);
            self.unused(task, &done, place.clone())?;
            self.give(task, slot, &spanned(done), kind::NOTIFICATION, object, rights::WAIT)?;
            let slot = self.next_slot(driver);
            self.give(driver, slot, &spanned(entry), kind::NOTIFICATION, object, rights::SIGNAL)?;
        }
        Ok(())
    }

    /// The first slot of `task` after those that are filled.
    fn next_slot(&self, task: usize) -> usize {
        self.out.handles.iter().filter(|handle| handle.task as usize == task).count()
    }

    fn parameter(&mut self, task: usize, name: &str, value: u64) {
        self.out.tasks[task].environment.push(Entry {
            name: name.to_owned(),
            kind: fusee_abi::environment::kind::PARAMETER,
            flags: 0,
            handle: 0,
            address: value,
            bytes: 0,
            physical: 0,
        });
    }

    fn unused(&self, task: usize, name: &str, place: Range<usize>) -> Result<(), Fail> {
        if name.len() > 24 {
            return Err((place, Reason::NameTooLong { name: name.to_owned(), limit: 24 }));
        }
        let task = &self.out.tasks[task];
        match task.environment.iter().any(|entry| entry.name == name) {
            true => Err((place, Reason::NameTaken { task: task.name.clone(), name: name.to_owned() })),
            false => Ok(()),
        }
    }

    fn scripts(&mut self) -> Result<(), Fail> {
        for (index, (_, task)) in self.file.tasks.0.iter().enumerate() {
            let written = task.script.iter().flatten().map(|text| (text, false));
            let texts = written.chain(task.model.iter().flatten().map(|text| (text, true)));
            for (text, is_model) in texts {
                let environment = &self.out.tasks[index].environment;
                let find = |name: &str| {
                    let entry = environment.iter().find(|entry| entry.name == name)?;
                    let selector = entry.flags & (fusee_abi::environment::PREEMPTIBLE - 1);
                    Some(Target { kind: entry.kind, handle: entry.handle, selector })
                };
                let step = parse_step(text.get_ref(), find)
                    .map_err(|why| (text.span(), Reason::BadStep { step: text.get_ref().clone(), why }))?;
                let resolved = &mut self.out.tasks[index];
                if is_model { resolved.model.push(step) } else { resolved.script.push(step) }
            }
        }
        Ok(())
    }
}

impl Resolver<'_> {
    /// Each environment fits into its page, with room for the entry of a script.
    fn environments(&self) -> Result<(), Fail> {
        let limit = layout::ENVIRONMENT_ENTRIES - 1;
        for (task, (name, _)) in self.out.tasks.iter().zip(&self.file.tasks.0) {
            if task.environment.len() > limit {
                return Err((name.span(), Reason::TooMany { what: "entries in the environment of one task", limit }));
            }
        }
        Ok(())
    }
}

/// The right to give copies away, of handles that can be given.
const GRANT: (&str, u32) = ("grant", rights::GRANT);

/// Rights to regions.
const READ: u32 = rights::READ;
const WRITE: u32 = rights::WRITE;
const MAP: u32 = rights::MAP;
/// To know the physical address, which the kernel does not look at: no bit of its rights.
const PHYSICAL: u32 = 1 << 31;

//--- Admission and expectations

impl Resolver<'_> {
    /// Refuses what is overloaded, and hard tasks that the analysis cannot prove.
    fn admission(&mut self) -> Result<(), Fail> {
        for index in 0..self.out.clusters.len() {
            for (place, reason) in self.complaints(index)? {
                match self.file.system.admission {
                    Admission::Refuse => return Err((place, reason)),
                    Admission::Warn => self.out.warnings.push(reason.to_string()),
                }
            }
        }
        Ok(())
    }

    /// What does not hold in the cluster with this index.
    fn complaints(&self, index: usize) -> Result<Vec<Fail>, Fail> {
        let (name, record) = &self.out.clusters[index];
        let key = self.file.clusters.0.get(index).map_or(self.file.system.cpus.span(), |(key, _)| key.span());
        let study =
            admission::Study::new(&self.out, index).map_err(|why| (key.clone(), Reason::Nonsense(why.to_string())))?;
        let members = &study.members;
        let hard = |member: usize| self.file.tasks.0[member].1.hard.as_ref().filter(|hard| *hard.get_ref());
        let mut complaints: Vec<Fail> = Vec::new();
        let (report, blocked) = match study.analyse(&Overheads::default()) {
            Ok(found) => found,
            Err(why) => {
                let reason = study.unbounded(name, &why);
                complaints.push((self.place_of(&reason).unwrap_or(key), reason));
                return Ok(complaints);
            }
        };
        if report.bounded == Some(false) {
            let cpus = record.cpus.count_ones();
            let utilisation = (&report.utilisation * BigInt::from(1_000)).ceil().to_integer();
            let per_mille = u64::try_from(utilisation).unwrap_or(u64::MAX);
            let waiting = study.longest_wait(&blocked);
            complaints.push((key, Reason::Overload { cluster: name.clone(), per_mille, cpus, waiting }));
        }
        for (at, (member, verdict)) in members.iter().zip(&report.tasks).enumerate() {
            let (task, _) = &self.file.tasks.0[*member];
            let reservation = study.reservations[at];
            let (execution, budget) = (reservation.execution, reservation.budget);
            let (lends, drawn) = (blocked[at].lends.0, blocked[at].drawn.0);
            if !study.is_covered(at, &blocked[at]) {
                let name = task.get_ref().clone();
                let reason = match drawn {
                    0 => Reason::LendsTooMuch { task: name, execution, lends, budget },
                    _ => Reason::DrawsTooMuch { task: name, execution, lends, drawn, budget },
                };
                complaints.push((task.span(), reason));
            }
            let Hard::NotProved(why) = verdict.hard else { continue };
            if let Some(hard) = hard(*member) {
                let task = task.get_ref().clone();
                let bound = verdict.bound.as_ref();
                let mostly = bound.map(|bound| study.term(bound.dominating, &blocked[at]));
                let late_by = bound.map(|bound| approximate(&bound.lateness) / 1e6);
                let late = mostly.zip(late_by).map(|(mostly, by)| format!("{by:.3} ms late, mostly {mostly}"));
                complaints.push((hard.span(), Reason::NotProved { task, why: why.words(), late }));
            }
        }
        if let Some(undeclared) = study.undeclared.first() {
            let first = members.iter().find_map(|member| Some((*member, hard(*member)?)));
            complaints.extend(first.map(|(member, hard)| {
                let (task, why) = (self.out.tasks[member].name.clone(), undeclared.why.clone());
                (hard.span(), Reason::Undeclared { task, why })
            }));
        }
        Ok(complaints)
    }

    /// Where it is written what `reason` is about, if that is one task, engine or pool.
    fn place_of(&self, reason: &Reason) -> Option<Range<usize>> {
        let file = self.file;
        let name = match reason {
            Reason::Overcommitted { engine, .. } => {
                file.engines.0.iter().map(|one| &one.0).find(|name| name.get_ref() == engine)
            }
            Reason::TooFewTokens { pool, .. } => {
                file.pools.0.iter().map(|one| &one.0).find(|name| name.get_ref() == pool)
            }
            Reason::WaitsTooLong { task, .. } => {
                file.tasks.0.iter().map(|one| &one.0).find(|name| name.get_ref() == task)
            }
            _ => None,
        };
        name.map(Spanned::span)
    }

    fn test(&self) -> Result<(), Fail> {
        let Some(test) = &self.file.test else { return Ok(()) };
        for name in test.faults.iter().chain(&test.no_misses).chain(&test.responses) {
            self.task(name)?;
        }
        let task = |name: &str| self.out.tasks.iter().position(|task| task.name == name);
        for policy in &test.policies {
            if PolicyName::from_name(policy.get_ref()).is_none() {
                let reason = Reason::NotOffered { what: "policy", name: policy.get_ref().clone() };
                return Err((policy.span(), reason));
            }
        }
        for clusters in &test.clusters {
            if Variant::parse_clusters(clusters.get_ref()).is_none() {
                return Err((clusters.span(), Reason::BadClusters(clusters.get_ref().clone())));
            }
        }
        for mark in &test.marks {
            crate::expect::Mark::parse(mark.get_ref(), task)
                .ok_or_else(|| (mark.span(), Reason::BadMark(mark.get_ref().clone())))?;
        }
        for exit in &test.exits {
            crate::expect::parse_exit(exit.get_ref(), task)
                .ok_or_else(|| (exit.span(), Reason::BadExit(exit.get_ref().clone())))?;
        }
        Ok(())
    }
}

//--- Small things

impl Resolver<'_> {
    fn task(&self, name: &Spanned<String>) -> Result<usize, Fail> {
        index_of(&self.file.tasks, "task", name)
    }

    fn allocate(&mut self, of: &str, bytes: u64, place: Range<usize>) -> Result<u64, Fail> {
        self.out.allocate(of, bytes).map_err(|reason| (place, reason))
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
            return Err((place, Reason::TooMany { what: "regions", limit: limits::REGIONS }));
        }
        let address = self.next_address;
        let end = bytes.checked_next_multiple_of(layout::REGION_STEP).and_then(|bytes| address.checked_add(bytes));
        match end {
            Some(end) if end <= layout::DOORBELLS => self.next_address = end,
            _ => return Err((place, Reason::NoAddresses { of: name })),
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
            _ => Err(Reason::PoolExhausted { of: of.to_owned(), bytes, left }),
        }
    }
}

fn index_of<T>(table: &Named<T>, kind: &'static str, name: &Spanned<String>) -> Result<usize, Fail> {
    table
        .0
        .iter()
        .position(|(key, _)| key.get_ref() == name.get_ref())
        .ok_or_else(|| (name.span(), Reason::Unknown { kind, name: name.get_ref().clone() }))
}

fn plus_one(index: Option<usize>) -> u32 {
    index.map_or(0, |index| index as u32 + 1)
}

fn memory_page(page: u64) -> Range<u64> {
    page..page + PAGE
}
