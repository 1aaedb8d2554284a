//! Tables of endpoints, notifications, interrupts and regions.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::is_default;
use crate::quantity::{Bytes, Time};

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
