//! Best-effort clients that may reach an engine now, so that each gets its fair share of the engine's time.
//!
//! A best-effort client stores to its doorbell directly, and the device runs the commands that it finds. A server takes doorbells
//! away and gives them back; in between it learns of every store as a fault. A *policy* of this crate returns the server's next
//! actions. The crate is pure: no register, no clock, no allocation. The words that the server has read come in as an argument, a
//! [`Verdict`] goes out as a value, and one server runs every policy.
//!
//! - [`policy`]: the interface: the input of a policy, its verdicts, and the guarantees of both sides.
//! - [`parameters`]: the lengths of slices, samples and polls, checked.
//! - [`member`]: clients as small numbers, and sets of them.
//! - [`accounting`]: every request passes, and is booked.
//! - [`timeslice`]: one member at a time; time used beyond a slice is owed.
//! - [`fair_queueing`]: all members together; a member that is too far ahead waits.
//! - [`virtual_gpu`]: one request at a time, the next one by credit and use.
//! - [`tree`]: groups of members, and the order of their leads.
//! - [`level`]: a policy of one group, run by its manager on the values that the engine's sharer shows.
//! - [`told`]: the manifest's parameters for a server about its clients and groups.
//! - [`watch`]: requests that take too long.
//!
//! Not here: the device's own choice between commands that it already has (`accel`, module `sharing`), the real-time
//! class (`locking`), and everything that touches a page or a register (the server).
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod accounting;
pub mod fair_queueing;
mod interval;
mod ledger;
pub mod level;
pub mod member;
pub mod parameters;
pub mod policy;
pub mod timeslice;
pub mod told;
pub mod tree;
pub mod virtual_gpu;
pub mod watch;

pub use accounting::Accounting;
pub use fair_queueing::{Estimator, FairQueueing, Season};
pub use level::{Admission, Level, Seen};
pub use member::{MEMBERS, Member, Members};
pub use parameters::{Parameter, ParameterError, Parameters};
pub use policy::{
    Accusation, Counters, Doorbell, Interception, JoinError, Place, Policy, Reading, Readings, Response, Running,
    Usage, Verdict,
};
pub use timeslice::Timeslice;
pub use told::Told;
pub use tree::{GROUPS, Group, LEVELS, Shares, Tree, TreeError, Weight};
pub use virtual_gpu::{Succession, VirtualGpus};
