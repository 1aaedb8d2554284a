//! Tables of pools of tokens, and of buses.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{Named, is_default};
use crate::quantity::{Bytes, Time};

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
