//! Tables of devices: sessions, engines, groups of clients.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{Named, Within, is_default};
use crate::error::Reason;
use crate::quantity::{Bytes, Time};
use crate::times::TimeTable;

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
