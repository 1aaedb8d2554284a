//! A checked system, as the packer, the simulator and all views read it.

use std::path::Path;

use fusee_abi::call::HandleValue;
use fusee_abi::image::{self, Supervision, release};
use fusee_abi::lives::Policy;
use fusee_abi::script::Step;
use fusee_abi::trace::Level;
use fusee_accel_contract::timing::Slowdown;
use fusee_accel_contract::{Contexts, CopyEngines, EngineIndex};
use fusee_sched::time::Nanoseconds;
use fusee_spatial::Mechanism;

use super::handles;
use super::{Bus, DeclaredHold, Graph};
use crate::board::{Board, BoardDevice};
use crate::error::Reason;
use crate::layout::PAGE;
use crate::quantity::Bytes;
use crate::schema::{Arbiter, Panic};

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
    /// Whether the kernel prints the steps of its start, and the trace after its end.
    pub speaks: bool,
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
    pub arbiter: Arbiter,
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
    pub(super) given: Vec<(&'static str, usize)>,
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

impl Resolved {
    /// The task that owns a reservation, if there is such a reservation.
    #[must_use]
    pub fn owner(&self, reservation: usize) -> Option<usize> {
        self.reservations.get(reservation).map(|one| one.task as usize)
    }

    /// Whether a task has jobs.
    #[must_use]
    pub fn has_jobs(&self, task: &Task) -> bool {
        task.reservation.is_some_and(|reservation| self.reservations[reservation].release != release::NONE)
    }

    /// Whether a supervisor gives `task` further lives.
    #[must_use]
    pub fn has_lives(&self, task: usize) -> bool {
        self.policies.iter().any(|policy| usize::from(policy.task) == task)
    }

    /// The driver of the device of `engine`, if it has one.
    #[must_use]
    pub fn driver_of(&self, engine: usize) -> Option<usize> {
        self.engine_places[engine].map(|(device, _)| self.devices[device].driver)
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
    /// nothing translates. Of a device that the manifest gives by its address alone nothing is known: a task counts that may write to it, and knows
    /// where memory lies.
    #[must_use]
    pub fn reaching_all_memory(&self) -> Vec<(&str, &str)> {
        let is_known = |region: usize| self.board_regions.iter().find(|(known, _)| *known == region);
        let mut found = Vec::new();
        for handle in
            self.handles.iter().filter(|one| one.kind == image::kind::REGION && one.rights & handles::WRITE != 0)
        {
            let (task, region) = (&self.tasks[handle.task as usize], handle.object as usize);
            let device = match is_known(region) {
                Some((_, name)) => {
                    let device = self.board.devices.get(name);
                    device.filter(|device| device.masters_memory() && device.stream.is_none()).map(|_| name.as_str())
                }
                None => {
                    let physical = self.regions[region].1.physical;
                    // The page by which an engine is kicked does nothing else.
                    let is_kick = self.board.kick.as_ref().is_some_and(|kick| kick.page == physical);
                    let is_device = !is_kick
                        && self.mappings.iter().any(|mapping| {
                            mapping.task == handle.task
                                && mapping.physical == physical
                                && mapping.flags & image::mapping::DEVICE != 0
                        });
                    let knows = |entry: &&Entry| entry.kind == image::kind::REGION && entry.physical != 0;
                    let has_address = task.environment.iter().any(|entry| knows(&entry));
                    (is_device && has_address).then(|| self.regions[region].0.as_str())
                }
            };
            found.extend(device.map(|device| (task.name.as_str(), device)));
        }
        found
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
