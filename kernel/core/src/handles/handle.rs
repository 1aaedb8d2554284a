//! Handles, and tables of them.
//!
//! # Invariants
//!
//! 1. A handle has rights by its declaration in the manifest, or by the copy of a handle that had them. No other change gives any.
//! 2. The generation of a slot is another one whenever the slot is filled, so that an old value never fits.
//! 3. A copy has an origin; a handle from the manifest has none.
//!
//! Fields are private, so only the methods here change a handle.

use fusee_abi::call::HandleValue;

use crate::handles::derivation::Origin;
use crate::id::{
    DerivationId, EndpointId, EngineId, EngineUserId, InterruptId, NotificationId, PoolUserId, RegionId, ThreadId,
};
use crate::limits::HANDLES;

/// The object that a slot of a handle table names.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Object {
    /// No object.
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
    object: Object,
    rights: u16,
    kept: u16,
    badge: u32,
    origin: Option<DerivationId>,
    node: Option<DerivationId>,
    /// The epoch of a copy's origin when the copy was made. A handle from the manifest to an endpoint has the life of the server that its holder knows of.
    epoch: u64,
    /// The slot, and the number of times it was filled. That number has 48 bits, so an old value fits again only after years,
    /// and then it gives its holder the handle that the holder has anyway.
    value: HandleValue,
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

    /// The object that the handle names.
    #[must_use]
    #[inline]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The rights of the holder, if the handle comes from the manifest.
    #[must_use]
    #[inline]
    pub fn rights(&self) -> u16 {
        self.rights
    }

    /// The rights of the holder, if the handle is a copy and its origin holds.
    #[must_use]
    #[inline]
    pub fn kept(&self) -> u16 {
        self.kept
    }

    /// The number that identifies the handle to the receiver of a message. A copy has that of its source, on behalf of which
    /// it is used.
    #[must_use]
    #[inline]
    pub fn badge(&self) -> u32 {
        self.badge
    }

    /// The node of the handle that this one was copied from; `None`: it comes from the manifest.
    #[must_use]
    #[inline]
    pub fn source(&self) -> Option<DerivationId> {
        self.origin
    }

    /// The node that stands for the handle as the origin of copies, if there are any.
    #[must_use]
    #[inline]
    pub fn node(&self) -> Option<DerivationId> {
        self.node
    }

    /// The epoch of a copy's origin when the copy was made; of a handle from the manifest to an endpoint, the life of the server that its holder knows of.
    #[must_use]
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The value that names the handle: its slot, and the number of times that was filled.
    #[must_use]
    #[inline]
    pub fn value(&self) -> HandleValue {
        self.value
    }

    /// The origin of a copy, with its epoch; `None`: the handle comes from the manifest.
    #[must_use]
    #[inline]
    pub fn origin(&self) -> Option<Origin> {
        self.origin.map(|node| Origin { node, epoch: self.epoch })
    }

    /// Names `object` with these rights, as the manifest declares for this slot. For boot.
    pub(crate) fn declare(&mut self, slot: u16, object: Object, rights: u16, badge: u32) {
        (self.object, self.rights, self.badge) = (object, rights, badge);
        self.value = HandleValue::new(slot, 1);
    }

    /// Becomes a copy of `source` with the rights `kept`. The origin is `node` in this epoch. Returns the new value, which no
    /// handle in this slot had.
    #[inline]
    pub(super) fn become_copy(
        &mut self,
        slot: u16,
        source: &Handle,
        kept: u16,
        node: DerivationId,
        epoch: u64,
    ) -> HandleValue {
        let value = HandleValue::new(slot, self.value.generation() + 1);
        let (object, badge) = (source.object, source.badge);
        *self = Handle { object, rights: 0, kept, badge, origin: Some(node), node: None, epoch, value };
        value
    }

    /// `node` stands for the handle as the origin of copies.
    #[inline]
    pub(super) fn set_node(&mut self, node: DerivationId) {
        self.node = Some(node);
    }

    /// No node stands for the handle any more. Returns the node that did.
    #[inline]
    pub(super) fn take_node(&mut self) -> Option<DerivationId> {
        self.node.take()
    }

    /// Names nothing. The generation stays: the next handle in this slot has another.
    #[inline]
    pub(super) fn empty(&mut self) {
        *self = Handle { value: self.value, ..Handle::EMPTY };
    }

    /// Keeps its object, but no value finds the handle until [`show`](Self::show).
    #[inline]
    pub(super) fn hide(&mut self, slot: usize) {
        // Values are looked up by their slot, and this value has another one.
        self.value = HandleValue::new(((slot + 1) % HANDLES) as u16, 0);
    }

    /// Is found again by the value that it had at boot. Its holder knows of this life of the server.
    #[inline]
    pub(crate) fn show(&mut self, slot: u16, life: u32) {
        debug_assert!(self.origin.is_none(), "a task begins again with the handles of the manifest");
        self.value = HandleValue::new(slot, 1);
        self.epoch = u64::from(life);
    }

    /// The holder of the handle, which is no copy, knows of this life of the server from here on.
    #[inline]
    pub(crate) fn know(&mut self, life: u64) {
        debug_assert!(self.origin.is_none(), "copies are for the life they were made in");
        self.epoch = life;
    }
}

/// A task's handles.
pub type HandleTable = [Handle; HANDLES];
