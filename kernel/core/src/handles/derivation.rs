//! The derivation of handles from each other: a tree that is cut in constant time.
//!
//! A handle that is copied from gets a *node*. A copy refers to the node of its source at the node's *epoch* of that
//! moment, and the node refers in the same way to the source of that source. To revoke is to move the epoch of one node
//! on: all copies that refer to the epoch before are void, directly or over others, however many there are. Whether a
//! handle still holds is found out when it is used, in at most [`COPY_DEPTH_MAX`] steps.
//!
//! # Invariants
//!
//! 1. A node is of one handle, or free.
//! 2. An epoch only grows, from one owner of a node to the next as well. So a reference to an epoch that has passed is
//!    void for ever.
//! 3. A handle of the manifest has depth zero, a copy one more than its source, and none is deeper than
//!    [`COPY_DEPTH_MAX`].
//! 4. Copies have no more nodes than are left when each handle of the manifest that may be copied has one.
//!
//! # Tasks that can use nodes up
//!
//! A handle of the manifest always finds a node: one is set aside for it. Copies that are copied on share the other
//! nodes, so tasks that are given such copies can refuse nodes to each other.
//!
//! # Why an epoch has 64 bits
//!
//! Each trap moves an epoch by one at most, except the death of a task, which moves some by one: at a trap every
//! nanosecond that is enough for 580 years. After 32 bits, some minutes, a revoked copy would hold again.
//!
//! # Why no list of copies
//!
//! To walk it would take as long as there are copies, and the holder of any copy could make it longer.
//!
//! Not here: handle tables and rights (`grants`).

use crate::arena::Arena;
use crate::id::DerivationId;
use crate::limits::COPY_DEPTH_MAX;

/// Source of a copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Origin {
    /// Node of the source.
    pub node: DerivationId,
    /// Epoch of that node when the copy was made.
    pub epoch: u64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Source of the node's handle, if that is a copy.
    parent: Option<Origin>,
    /// Present epoch: a reference to another epoch is void.
    epoch: u64,
    /// Number of copies between the node's handle and the manifest.
    depth: u8,
    /// Life of the server that the node's handle knew of when the node was taken, if the handle names an endpoint.
    life: u32,
    /// The next free node, if this one is free.
    next: Option<DerivationId>,
}

/// The nodes of all handles that are copied from.
#[derive(Clone, Debug)]
pub struct Derivations<const N: usize> {
    nodes: Arena<Node, DerivationId, N>,
    /// First of the nodes that have never been used.
    fresh: u16,
    /// First of the free nodes that have been used before.
    free: Option<DerivationId>,
    /// Number of nodes in use.
    used: u16,
    /// Number of nodes in use for copies.
    copies: u16,
    /// Number of nodes that are set aside for handles of the manifest.
    reserved: u16,
}

impl<const N: usize> Derivations<N> {
    /// All nodes are free. All zero bytes.
    pub const EMPTY: Derivations<N> = Derivations {
        nodes: Arena::new([const { Node { parent: None, epoch: 0, depth: 0, life: 0, next: None } }; N]),
        fresh: 0,
        free: None,
        used: 0,
        copies: 0,
        reserved: 0,
    };

    /// Sets a node aside for one more handle of the manifest. Returns whether there is one. For boot.
    pub fn reserve(&mut self) -> bool {
        let has_room = usize::from(self.reserved) < N;
        self.reserved += u16::from(has_room);
        has_room
    }

    /// Number of nodes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        usize::from(self.used)
    }

    /// Number of nodes in use for copies, and its limit.
    #[must_use]
    pub fn copies(&self) -> (usize, usize) {
        (usize::from(self.copies), N - usize::from(self.reserved))
    }

    /// Whether there is a node for a handle with this origin.
    #[must_use]
    pub fn has_room(&self, origin: Option<Origin>) -> bool {
        let (copies, most) = self.copies();
        origin.is_none() || copies < most
    }

    /// Number of copies between the manifest and a handle with this origin.
    #[must_use]
    pub fn depth(&self, origin: Option<Origin>) -> usize {
        origin.map_or(0, |origin| usize::from(self.nodes[origin.node].depth) + 1)
    }

    /// Whether nothing on the way from the manifest to a handle with this origin was revoked.
    #[must_use]
    pub fn holds(&self, mut origin: Option<Origin>) -> bool {
        for _ in 0..COPY_DEPTH_MAX {
            let Some(Origin { node, epoch }) = origin else { break };
            if self.nodes[node].epoch != epoch {
                return false;
            }
            origin = self.nodes[node].parent;
        }
        origin.is_none()
    }

    /// Takes a node for a handle with this origin, which must hold, and which knows of this life of its server; `None` if
    /// none is left for it.
    pub fn take(&mut self, origin: Option<Origin>, life: u32) -> Option<DerivationId> {
        if !self.has_room(origin) {
            return None;
        }
        let depth = self.depth(origin) as u8;
        let node = match self.free {
            Some(node) => {
                self.free = self.nodes[node].next;
                node
            }
            None => {
                let node = DerivationId::new(usize::from(self.fresh)).filter(|node| node.index() < N)?;
                self.fresh += 1;
                node
            }
        };
        self.used += 1;
        self.copies += u16::from(origin.is_some());
        let object = &mut self.nodes[node];
        object.parent = origin;
        object.depth = depth;
        object.life = life;
        Some(node)
    }

    /// The origin of a copy that is made now from the handle of `node`.
    #[must_use]
    pub fn origin(&self, node: DerivationId) -> Origin {
        Origin { node, epoch: self.nodes[node].epoch }
    }

    /// Makes all copies of the handle of `node` void; the node is free.
    pub fn release(&mut self, node: DerivationId) {
        let object = &mut self.nodes[node];
        object.epoch += 1;
        object.next = self.free;
        self.copies -= u16::from(object.parent.is_some());
        self.free = Some(node);
        self.used -= 1;
    }

    /// The life of a server for which copies of the handle of `node` are meant.
    #[must_use]
    pub fn life(&self, node: DerivationId) -> u32 {
        self.nodes[node].life
    }

    /// The source of the handle of `node`.
    pub(crate) fn parent(&self, node: DerivationId) -> Option<Origin> {
        self.nodes[node].parent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn what_comes_from_a_released_node_is_void_at_every_depth() {
        let mut nodes = Derivations::<4>::EMPTY;
        let mut origins = Vec::from([None]);
        for _ in 0..COPY_DEPTH_MAX {
            let node = nodes.take(origins[origins.len() - 1], 0).unwrap();
            origins.push(Some(nodes.origin(node)));
        }
        assert!(origins.iter().all(|origin| nodes.holds(*origin)));
        assert_eq!(nodes.depth(origins[COPY_DEPTH_MAX]), COPY_DEPTH_MAX);
        nodes.release(origins[2].unwrap().node);
        let holds: Vec<bool> = origins.iter().map(|origin| nodes.holds(*origin)).collect();
        assert_eq!(holds, [true, true, false, false, false]);
    }

    #[test]
    fn a_node_that_is_used_again_does_not_revive_what_came_from_it_before() {
        let mut nodes = Derivations::<1>::EMPTY;
        let mut old = Vec::new();
        for _ in 0..100 {
            let node = nodes.take(None, 0).unwrap();
            old.push(nodes.origin(node));
            assert!(nodes.used() == 1 && nodes.take(None, 0).is_none());
            let (last, before) = old.split_last().unwrap();
            assert!(nodes.holds(Some(*last)) && before.iter().all(|origin| !nodes.holds(Some(*origin))));
            nodes.release(node);
        }
        assert_eq!(nodes.used(), 0);
    }

    #[test]
    fn copies_leave_a_node_for_each_handle_of_the_manifest() {
        let mut nodes = Derivations::<4>::EMPTY;
        assert!(nodes.reserve() && nodes.reserve());
        let root = nodes.take(None, 0).unwrap();
        let copies = [(); 2].map(|()| nodes.take(Some(nodes.origin(root)), 0).unwrap());
        let origin = Some(nodes.origin(copies[0]));
        assert!(!nodes.has_room(origin) && nodes.take(origin, 0).is_none());
        let other = nodes.take(None, 0).expect("one is set aside");
        assert_eq!((nodes.used(), nodes.copies()), (4, (2, 2)));
        // A node of the manifest is not for copies, and one of a copy is for the next copy.
        nodes.release(other);
        assert!(!nodes.has_room(origin));
        nodes.release(copies[1]);
        assert!(nodes.take(origin, 0).is_some());
        assert_eq!([(); 3].map(|()| nodes.reserve()), [true, true, false]);
    }
}
