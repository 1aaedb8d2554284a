//! Tables of graphs: nodes, edges, objects that they share.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::Named;
use crate::quantity::{Bytes, Time};

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
