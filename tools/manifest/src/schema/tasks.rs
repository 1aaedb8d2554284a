//! Tables of tasks: programs, supervisors, shares, the objects that they use.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{Named, is_default};
use crate::quantity::{Bytes, Operation, Time};

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
    /// Whether the task hears of their ends before it releases the engine.
    pub awaits: Option<Spanned<bool>>,
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
