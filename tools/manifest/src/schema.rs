//! The manifest as it is written: one struct per kind of table. Each can be written again ([`crate::Manifest::expanded`]).
//!
//! Nothing here is checked beyond its type; `resolve.rs` does that. Every name and every value that a
//! check may complain about carries its place in the file.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;

use crate::board::DeviceKind;
pub use crate::board::DeviceQemu;
use crate::error::Reason;
use crate::quantity::{Bytes, Operation, Time};
use crate::times::TimeTable;

/// Named tables in the order of the file.
#[derive(Clone, Debug)]
pub struct Named<T>(pub Vec<(Spanned<String>, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Named<T> {
    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The table called `name`.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    /// Adds a table where the place of its name is in the order of the file.
    pub fn insert(&mut self, name: Spanned<String>, value: T) {
        let at = self.0.partition_point(|(other, _)| other.span().start <= name.span().start);
        self.0.insert(at, (name, value));
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name.get_ref(), value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamedVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for NamedVisitor<T> {
            type Value = Named<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("named tables")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut entries: Vec<(Spanned<String>, T)> = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                entries.sort_by_key(|(name, _)| name.span().start);
                Ok(Named(entries))
            }
        }
        deserializer.deserialize_map(NamedVisitor(PhantomData))
    }
}

/// A whole manifest.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub system: System,
    #[serde(default, skip_serializing_if = "OwnBoard::is_empty")]
    pub board: OwnBoard,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub clusters: Named<Cluster>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub tasks: Named<Task>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub endpoints: Named<Endpoint>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub notifications: Named<Notification>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub interrupts: Named<Interrupt>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub regions: Named<Region>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub devices: Named<Device>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub engines: Named<Engine>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub groups: Named<Group>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub graphs: Named<Graph>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub pools: Named<Pool>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub buses: Named<Bus>,
    pub supervisor: Option<Supervisor>,
    pub test: Option<Test>,
    /// Times of kernels are measured: the values in files are not needed.
    #[serde(skip)]
    pub measures: bool,
}

/// The system itself: its name, its board, its CPUs, and rules for all of its tasks.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    pub name: Spanned<String>,
    /// The addition to the name for runs of another policy or other clusters.
    #[serde(skip)]
    pub variant: String,
    pub board: Spanned<String>,
    pub cpus: Spanned<u32>,
    pub start: Option<Spanned<Time>>,
    /// The end of the run: a task that sleeps until then, and shuts the system down.
    pub end: Option<Spanned<End>>,
    /// Policy of the clusters that name none.
    pub policy: Option<Spanned<String>>,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub managed: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub trace: Trace,
    #[serde(default, skip_serializing_if = "is_default")]
    pub admission: Admission,
    pub panic: Option<Spanned<Panic>>,
    /// Whether the kernel prints each step of its start on the serial line, and its trace after the end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub speaks: bool,
    /// The distances between devices: percent of the time over a near way.
    pub distance: Option<Spanned<Vec<Vec<Spanned<u32>>>>>,
}

/// The additions of a project to the file of its board.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OwnBoard {
    /// Devices that the file does not have.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub devices: Named<OwnDevice>,
    /// The system is built for another board than the manifest's.
    #[serde(skip)]
    pub is_elsewhere: bool,
}

impl OwnBoard {
    /// Whether nothing is added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }
}

/// A device of the board.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OwnDevice {
    /// The kind that its driver knows.
    pub kind: Spanned<DeviceKind>,
    /// The physical address at which its registers begin.
    pub at: Spanned<u64>,
    /// The length of its registers.
    pub bytes: Spanned<Bytes>,
    /// The number of its interrupt.
    pub line: Option<Spanned<u32>>,
    /// The number by which the SMMU knows it.
    pub stream: Option<Spanned<u32>>,
    /// Whether a device of the kind `other` reads and writes memory.
    pub masters_memory: Option<Spanned<bool>>,
    /// QEMU's options, if the emulated board does not have the device always.
    pub qemu: Option<Spanned<DeviceQemu>>,
}

/// The instant at which a system ends: a time, or a table.
#[derive(Clone, Debug, Serialize)]
pub struct End(pub EndTask);

/// The instant, and the reservation of the task that ends the system.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EndTask {
    /// From the release of the task until the end.
    pub after: Time,
    /// The cluster of the task.
    pub cluster: Option<Spanned<String>>,
    /// Without a period the task is a service.
    pub period: Option<Spanned<Time>>,
    pub deadline: Option<Spanned<Time>>,
    pub budget: Option<Spanned<Time>>,
    pub suspends: Option<Spanned<Time>>,
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EndVisitor;
        impl<'de> Visitor<'de> for EndVisitor {
            type Value = End;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time with its unit, such as \"10ms\" (ns, us, ms, s), or { after = \"10ms\", cluster = \"NAME\" }")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<End, E> {
                let after = Time::deserialize(StrDeserializer::new(text))?;
                Ok(End(EndTask { after, ..EndTask::default() }))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<End, A::Error> {
                EndTask::deserialize(MapAccessDeserializer::new(map)).map(End)
            }
        }
        deserializer.deserialize_any(EndVisitor)
    }
}

/// The events that the kernel keeps in its trace.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trace {
    /// No events.
    Off,
    /// The events by which a run is judged.
    Marks,
    /// Each decision.
    #[default]
    Schedule,
    /// Each trap, too.
    Full,
}

/// The behaviour of a kernel after a panic and its message.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Panic {
    /// The kernel ends the emulator, or switches the board off.
    #[default]
    End,
    /// The kernel stays where it is, for a debugger.
    Halt,
    /// The kernel resets the board.
    Reset,
}

/// The treatment of a system whose deadlines do not hold.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// The system is not packed.
    #[default]
    Refuse,
    /// The system is packed, with a warning.
    Warn,
}

/// CPUs that share one queue of jobs, with their policy.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub cpus: Vec<Spanned<u32>>,
    pub policy: Option<Spanned<String>>,
}

/// A task: its program or script, its budget and its deadline, and the objects that it may use.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The task whose keys it has, those apart that it writes itself.
    pub like: Option<Spanned<String>>,
    pub binary: Option<Spanned<String>>,
    /// A program that is there already: the path of an ELF file, from the manifest's folder.
    pub elf: Option<Spanned<String>>,
    pub script: Option<Vec<Spanned<String>>>,
    /// The script that the simulator runs in place of `binary`: the task's operations and their times.
    pub model: Option<Vec<Spanned<String>>>,
    /// The number of such tasks: `name1`, `name2` and so on.
    pub copies: Option<Spanned<u32>>,
    pub cluster: Option<Spanned<String>>,
    pub class: Option<Spanned<Class>>,
    pub release: Option<Spanned<Release>>,
    pub period: Option<Spanned<Time>>,
    pub deadline: Option<Spanned<Time>>,
    pub budget: Option<Spanned<Time>>,
    pub wcet: Option<Spanned<Time>>,
    pub priority: Option<Spanned<u32>>,
    pub overrun: Option<Spanned<Overrun>>,
    pub budget_covers: Option<Spanned<Covers>>,
    pub backlog: Option<Spanned<u32>>,
    /// The time that a job suspends itself, in sum: by sleeping, and by waiting for notifications.
    pub suspends: Option<Spanned<Time>>,
    /// Hard tasks may rely on the task's declarations, though nothing enforces them.
    pub trusted: Option<bool>,
    /// The task may sleep, and end its job, while it holds an engine or a token.
    pub sleeps_inside: Option<bool>,
    /// Jobs of the task may take the budget of the next job before its release.
    pub early_release: Option<Spanned<bool>>,
    /// Jobs of the task, as a node of a graph, may begin before their releases.
    pub early: Option<Spanned<bool>>,
    /// A graph releases it.
    #[serde(skip)]
    pub is_released_by_tokens: bool,
    pub phase: Option<Spanned<Time>>,
    pub hard: Option<Spanned<bool>>,
    pub stack: Option<Spanned<Bytes>>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub parameters: Named<Spanned<i64>>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub handles: Named<Spanned<String>>,
    /// The times for which the task holds the objects that its handles name.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub uses: Named<Use>,
    /// The policy after the task's end.
    pub restart: Option<Spanned<Restart>>,
    /// The task begins when another task starts it.
    pub dormant: Option<Spanned<bool>>,
    /// The place of the task among the clients of an engine that it uses without the lock, by handle.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub shares: Named<Share>,
}

/// The task that is signalled at the ends of tasks with the key `restart`, and gives them further lives.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Supervisor {
    pub task: Spanned<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub dies: SupervisorDies,
}

/// The behaviour after the end of a supervisor.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SupervisorDies {
    /// The kernel panics.
    #[default]
    Panic,
    /// No consequence: tasks have no further lives from then on.
    GoOn,
}

/// The conditions under which a task is given another life, and how often.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "`restart` is \"always\", \"never\", or a table with `at_most` and `within`")]
pub enum Restart {
    Named(RestartName),
    Limited(RestartLimits),
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartName {
    Always,
    /// The ends of the task are signalled and kept.
    Never,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RestartLimits {
    /// The number of further lives in each interval of `within`; without the key: any number.
    pub at_most: Option<u32>,
    pub within: Option<Time>,
    /// From its end to its next life, at first; it doubles with each further end within `within`,
    pub delay: Option<Time>,
    /// up to this.
    pub longest_delay: Option<Time>,
    /// For how long the supervisor lends it its budget to start with.
    pub start_within: Option<Time>,
}

/// A client's place among the clients of an engine without its lock.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The group of the client.
    pub group: Option<Spanned<String>>,
    /// The client's number of shares, compared with its neighbours.
    pub weight: Option<Spanned<u32>>,
}

/// The longest a task holds an engine at a time, and how often in a job; or the longest it has a token, once in each.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Use {
    pub times: Option<Spanned<u32>>,
    pub cpu: Option<Spanned<Time>>,
    pub operation: Option<Spanned<Operation>>,
    pub operations: Option<Spanned<Time>>,
    /// Commands of one hold, at most.
    pub commands: Option<Spanned<u32>>,
    /// The longest time of one block of them on an SM.
    pub block: Option<Spanned<Time>>,
    /// The handle of the pool whose token the task has with it.
    pub within: Option<Spanned<String>>,
    /// The handle of the engine of its group that is acquired together with it.
    pub with: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    RealTime,
    Service,
    Background,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    Periodic,
    Sporadic,
}

/// The treatment of a job that uses up its budget.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overrun {
    #[default]
    Throttle,
    Signal,
    EarlyRelease,
}

/// The costs that a budget pays for.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Covers {
    #[default]
    #[serde(rename = "cpu")]
    Cpu,
    #[serde(rename = "cpu+engines")]
    CpuAndEngines,
}

/// An endpoint: a door at which a server receives calls.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub server: Spanned<String>,
    pub service_max: Option<Spanned<Time>>,
    /// In how long its server is boosted for `service_max` at most.
    pub service_period: Option<Spanned<Time>>,
}

/// A notification: a set of bits that tasks and interrupts signal, and for which tasks wait.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Notification {
    pub bound: Option<Spanned<String>>,
}

/// An interrupt of a device, which signals a notification.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    pub line: Spanned<Line>,
    pub notification: Spanned<String>,
    pub bits: Option<Spanned<u64>>,
    pub cluster: Option<Spanned<String>>,
    pub cpu: Option<Spanned<u32>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub edge: bool,
}

/// A region: memory, or the registers of a device, which tasks map.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// No key: a part of another region, so many bytes from its start.
    #[serde(skip)]
    pub part_of: Option<(String, u64)>,
    pub bytes: Option<Spanned<Bytes>>,
    pub physical: Option<Spanned<u64>>,
    pub device: Option<Spanned<RegionDevice>>,
    /// The region is the kernel's trace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trace: bool,
    /// Whether caches may keep the contents.
    pub cached: Option<Spanned<bool>>,
    /// The device of the board that reaches it; or the SMMU, which writes DMA faults there.
    pub dma: Option<Spanned<String>>,
}

/// A line of the interrupt controller, or a device of the board that has one.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "a line is a number, or the name of a device of the board")]
pub enum Line {
    Number(u32),
    Named(String),
}

/// Whether a region is device memory, or which device of the board it is.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "a device is `true`, or the name of one of the board")]
pub enum RegionDevice {
    Plain(bool),
    Named(String),
}

/// A device with engines, or a processor of the board.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The driver; without the key the device has a driver of its own.
    pub driver: Option<Spanned<String>>,
    /// The engines of a device with a driver of its own, by index.
    pub engines: Option<Vec<Spanned<String>>>,
    /// The regions of clients that such a driver opens to the device, by client.
    pub buffers: Option<Named<Spanned<String>>>,
    /// The program of the engine CPU, or of a processor of the board; a device of the board without a program of its own has none.
    pub firmware: Option<Spanned<String>>,
    /// The processor of the board that runs the firmware, or the device that its driver makes an engine; else it is the engine CPU.
    pub device: Option<Spanned<String>>,
    pub memory: Option<Spanned<Bytes>>,
    pub copy_engines: Option<Spanned<usize>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub preemptible: bool,
    /// The number of its contexts, the driver's included.
    pub contexts: Option<Spanned<usize>>,
    /// The rule for the next command on an engine, among clients without its lock.
    pub arbiter: Option<Spanned<Arbiter>>,
    /// The weights of tasks, where the choice is by weight.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub weights: Named<Spanned<u32>>,
    /// The additional time of a command after one of another context.
    pub switch: Option<Spanned<Time>>,
    /// Whether the device counts the work of each context.
    pub counters: Option<Spanned<bool>>,
    /// The number of SMs of its execution engine.
    pub sms: Option<Spanned<u32>>,
    /// how they are taken from one command for another,
    pub preemption: Option<Spanned<Preemption>>,
    /// and for how long its blocks run on before they are saved.
    pub drain_limit: Option<Spanned<Time>>,
    /// Package of the kernels that its execution engine runs.
    pub kernels: Option<Spanned<String>>,
    /// The server that opens contexts of its clients without locks, if these are not open from the start.
    pub sessions: Option<Spanned<Sessions>>,
    /// File beside the manifest with the times of kernels whose authors do not know them, and its contents.
    pub times: Option<Spanned<String>>,
    #[serde(skip)]
    pub time_table: Option<Result<TimeTable, Reason>>,
}

/// The rule for the next command on an engine, among those of clients without its lock.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbiter {
    /// The one that arrived first.
    #[default]
    Arrival = 0,
    /// The oldest of the next context that has any.
    RoundRobin = 1,
    /// In proportion to the weights of tasks.
    Weighted = 2,
}

/// The server that opens contexts of a device for its clients without locks, and how many may be open.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// The endpoint at which the server opens sessions.
    pub endpoint: Spanned<String>,
    /// The number of contexts that may be open at a time.
    pub contexts: Option<Spanned<u32>>,
    /// The limit for one client.
    pub each: Option<Spanned<u32>>,
}

impl Device {
    /// The measurements of its kernels, if its file could be read.
    pub fn measured(&self) -> Option<&TimeTable> {
        self.time_table.as_ref()?.as_ref().ok()
    }
}

/// An engine of a device, which one job holds at a time; without a device a mutex.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    pub device: Option<Spanned<String>>,
    pub index: Option<Spanned<usize>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub order: Order,
    pub group: Option<Spanned<String>>,
    pub pool: Option<Spanned<String>>,
    pub interrupt: Option<Spanned<String>>,
    pub watchdog: Option<Spanned<Time>>,
    pub reset_bound: Option<Spanned<Time>>,
    /// The part that chooses the next commands.
    pub arbiter: Option<Spanned<Grants>>,
    /// The time of the end of an operation: interrupt and bottom half.
    pub completion: Option<Spanned<Time>>,
    /// The longest time of one command of a client without the lock, once a job asks for the engine.
    pub shared_longest: Option<Spanned<Time>>,
    /// The endpoint whose server decides which of these clients may store to their doorbells.
    pub sharer: Option<Spanned<String>>,
    /// Operations may hang, until the watchdog and the reset end them: waiting for that counts.
    pub hangs: Option<Spanned<bool>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    Fifo,
    #[default]
    Priority,
}

/// The mechanism by which SMs are taken from one command for another.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preemption {
    /// Blocks are saved, and go on later.
    #[default]
    Switch,
    /// Blocks run to their end.
    Drain,
    /// Blocks drain for a while; those that have not ended by then are saved.
    DrainThenSwitch,
}

/// The part that chooses the next commands of an engine, among those of tasks with its lock.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grants {
    /// The lock: it lets in one at a time.
    #[default]
    Lock,
    /// The device, by the keys of their jobs: it takes SMs from one for the other.
    Device,
}

/// Clients of an engine without its lock that share their part of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub engine: Spanned<String>,
    /// The group that it is a part of.
    pub parent: Option<Spanned<String>>,
    pub weight: Option<Spanned<u32>>,
    /// The task that may choose the members that are let in.
    pub manager: Option<Spanned<String>>,
    pub within: Option<Spanned<Within>>,
}

/// Tasks that release each other by tokens.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// The task that the clock releases.
    pub source: Spanned<String>,
    /// The time from a release of the source until the end of the last job that works on its tokens.
    pub latency: Option<Spanned<Time>>,
    /// The device that some of its objects are for.
    pub device: Option<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub edges: Named<GraphEdge>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub objects: Named<GraphObject>,
}

/// An object that a task writes in each of its jobs, and others read in their jobs of equal number.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GraphObject {
    pub writer: Spanned<String>,
    pub bytes: Spanned<Bytes>,
    pub readers: Named<GraphReader>,
    /// The graph's device reads or writes it.
    #[serde(default)]
    pub on_device: Option<Spanned<bool>>,
    /// The number of jobs of the writer that may be under way.
    pub replicas: Option<Spanned<u32>>,
    /// The writer does not wait for readers that are late: they lose frames.
    pub overwrite: Option<Spanned<bool>>,
}

/// The versions of a writer's jobs that a reader reads.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GraphReader {
    /// The newest is that of the job so many before its own,
    pub delay: Option<Spanned<u32>>,
    /// and it reads so many that are older, too.
    pub history: Option<Spanned<u32>>,
}

/// Tokens that each job of one task puts, and each job of another one takes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GraphEdge {
    pub from: Spanned<String>,
    pub to: Spanned<String>,
    pub produces: Option<Spanned<u32>>,
    pub consumes: Option<Spanned<u32>>,
    /// Tokens that have to be there before a job begins.
    pub threshold: Option<Spanned<u32>>,
    /// Tokens that are there at the start.
    pub initial: Option<Spanned<u32>>,
}

/// The part that decides which members of a group to hold back for the benefit of others in it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Within {
    /// The sharer of the engine.
    #[default]
    Sharer,
    /// The group's manager alone.
    Manager,
}

/// A pool of tokens, each of which one job holds at a time.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    pub replicas: Spanned<u32>,
    pub limit: Option<Spanned<Limit>>,
    /// Requests in all queues together.
    pub total_limit: Option<Spanned<u32>>,
    pub cluster: Option<Spanned<String>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub shortest: Shortest,
    /// The devices of the tokens: the first tokens are of the first of these, and so on.
    pub devices: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub advice: Option<Spanned<Advice>>,
    /// The time after its grant when a token is taken away.
    pub watchdog: Option<Spanned<Time>>,
}

/// A CAN bus, of which only the analysis knows.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Bits per second.
    pub bit_rate: Spanned<u32>,
    /// Bits per second of the data of CAN FD frames.
    pub data_rate: Option<Spanned<u32>>,
    /// The least time between two faults.
    pub fault_interval: Option<Spanned<Time>>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub frames: Named<BusFrame>,
}

/// A frame of a CAN bus, of a task or of another node.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BusFrame {
    pub identifier: Spanned<u32>,
    /// The identifier has 29 bits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extended: bool,
    pub bytes: Spanned<Bytes>,
    /// It has the format of CAN FD.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fd: bool,
    /// The least time between two events.
    pub period: Option<Spanned<Time>>,
    /// The longest time from the end of the sender's job, or from the event, until the frame is in a transmit buffer.
    pub jitter: Option<Spanned<Time>>,
    pub deadline: Option<Spanned<Time>>,
    /// The task that sends the frame in its jobs.
    pub sender: Option<Spanned<String>>,
    /// The task that reads the frame in each job.
    pub to: Option<Spanned<String>>,
}

/// The measure for the shortest queue of a pool.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shortest {
    #[default]
    Requests,
    Lengths,
}

/// The adviser of a pool.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    None,
    Affinity,
    Random,
}

/// The largest number of requests in the queue of one token.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged, expecting = "a limit is a number, \"r2dglp\", \"unlimited\" or \"ck-omlp\"")]
pub enum Limit {
    Number(u32),
    Named(NamedLimit),
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedLimit {
    R2dglp,
    Unlimited,
    CkOmlp,
}

/// The expectations of `cargo xtask test` on the system.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    #[serde(default = "det_only")]
    pub profiles: Vec<Profile>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub exit: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Spanned<String>>,
    /// The faults come in an order that depends on the board.
    #[serde(default, skip_serializing_if = "is_default")]
    pub faults_in_any_order: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub console: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_misses: Vec<Spanned<String>>,
    /// The complaints of `cargo xtask run`.
    pub verdict: Option<Vec<String>>,
    /// Tasks from which watchdogs take engines. They take none from others.
    pub taken: Option<Vec<Spanned<String>>>,
    pub seconds: Option<u64>,
    /// The text typed at the board's serial line.
    pub input: Option<String>,
    /// The expected picture on the screen when the console reports that the picture stands.
    pub screenshot: Option<String>,
    /// The button for power is pressed again and again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub power_button: bool,
    /// The number of bytes that the host sends to the system's port 7, and expects back.
    pub echo: Option<usize>,
    /// The expected files on the volume of the disk, after the run.
    pub files: Option<String>,
    /// The package of a program that judges the results of a run.
    pub judge: Option<String>,
    /// Run it on a kernel that checks all its invariants after every trap.
    #[serde(default, skip_serializing_if = "is_default")]
    pub self_check: bool,
    /// A second run does the same, to the record.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repeatable: bool,
    /// The test runs long: only if it is named whole.
    #[serde(default, skip_serializing_if = "is_default")]
    pub campaign: bool,
    /// The longest turn of an emulated CPU.
    pub turns: Option<Spanned<Time>>,
    /// Kernels of accelerators run for an eighth of their declared time, at most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub eighth: bool,
    /// Conformance systems: the policies and the clusters to run it with; each combination is a system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<Spanned<String>>,
    /// The golden trace has the CPUs on which tasks run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub places: bool,
    /// Tasks whose longest response times are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub responses: Vec<Spanned<String>>,
}

/// How QEMU runs a system.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Instructions are counted: exact and repeatable.
    Det,
    /// Host threads: races and stress.
    Par,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

fn det_only() -> Vec<Profile> {
    vec![Profile::Det]
}
