//! The kernel's objects.
//!
//! Each type stands in the module that keeps its invariants, and its fields are private there. Every type has an `EMPTY` value of all zero bytes;
//! `Kernel::boot` fills objects in place.

pub use crate::accelerators::engine::{Engine, EngineUser};
pub use crate::handles::handle::{Handle, HandleTable, Object};
pub use crate::ipc::endpoint::{Endpoint, Notification};
pub use crate::ipc::interrupt::{Interrupt, Region};
pub use crate::locks::pool::{PoolUser, TokenWatch};
pub use crate::marks::{Link, List};
pub use crate::scheduling::cluster::{ClusterObject, Waiter};
pub use crate::scheduling::cpu::{Cpu, Payer};
pub use crate::scheduling::reservation::{Overrun, Release, Reservation};
pub use crate::scheduling::thread::{Belongings, ReplySlot, State, Thread};
pub use crate::time::job::{Job, ReleaseQueue, Statistics};
