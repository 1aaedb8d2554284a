//! Handles, and tables of them.

use fusee_abi::call::HandleValue;

use crate::handles::derivation::Origin;
use crate::id::{
    DerivationId, EndpointId, EngineId, EngineUserId, InterruptId, NotificationId, PoolUserId, RegionId, ThreadId,
};
use crate::limits::HANDLES;

/// What a slot of a handle table names.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Object {
    /// Nothing.
    Empty,
    /// An endpoint.
    Endpoint(EndpointId),
    /// A notification.
    Notification(NotificationId),
    /// An engine, as used by the holder.
    Engine(EngineUserId),
    /// A pool of tokens, as used by the holder.
    Pool(PoolUserId),
    /// The doorbells of an engine's members.
    Doorbells(EngineId),
    /// An interrupt.
    Interrupt(InterruptId),
    /// A region.
    Region(RegionId),
    /// Another task.
    Task(ThreadId),
    /// The whole system.
    System,
}

/// One slot of a handle table.
///
/// A handle from the manifest has `rights`, a copy of another has `kept` instead. So the fast paths, which look at
/// `rights` alone, leave copies to the slow path, and do not pay for them.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    /// What it names.
    pub object: Object,
    /// What its holder may do with it, if it comes from the manifest.
    pub rights: u16,
    /// What its holder may do with it, if it is a copy and its origin holds.
    pub kept: u16,
    /// Told to the receiver of what is sent through it. A copy has that of its source, on whose behalf it is used.
    pub badge: u32,
    /// What it was copied from,
    pub origin: Option<DerivationId>,
    /// What stands for it as the origin of copies, if there are any.
    pub node: Option<DerivationId>,
    /// and the epoch of that when it was. Of a handle from the manifest to an endpoint: the life of the server that its holder knows of.
    pub epoch: u64,
    /// The value that names it: its slot, and how often that was filled. A count has 48 bits, so it is years before an old
    /// value fits again, and then it gives its holder what it holds anyway.
    pub value: HandleValue,
}

// A power of two, so that the way to a slot needs no multiplication.
const _: () = assert!(size_of::<Handle>() == 32);

impl Handle {
    /// Names nothing.
    pub const EMPTY: Handle = Handle {
        object: Object::Empty,
        rights: 0,
        kept: 0,
        badge: 0,
        origin: None,
        node: None,
        epoch: 0,
        value: HandleValue(0),
    };

    /// What it was copied from; `None`: it comes from the manifest.
    #[must_use]
    pub fn origin(&self) -> Option<Origin> {
        self.origin.map(|node| Origin { node, epoch: self.epoch })
    }
}

/// A task's handles.
pub type HandleTable = [Handle; HANDLES];
