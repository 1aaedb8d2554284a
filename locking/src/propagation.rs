//! Who waits for whom, and on whose reservation each thread runs: one structure for all kinds of waiting.
//!
//! A thread waits for at most one other: the server that has its request, the holder of a lock, the driver whose
//! interrupt it awaits. It is then a *donor* of that thread. A thread *chooses* one reservation: its own, or what one
//! of its donors has chosen and lends. Donors lend on, so a chain of waiting ends at the thread that can make
//! progress, and that thread runs with the earliest key of all that wait, on the budget the key belongs to.
//!
//! # The rule
//!
//! 1. Offers are what donors have chosen, and the thread's own reservation while it has budget. A donor without an
//!    offer (all its budgets are dry) is passed over.
//! 2. Keys are comparable within one cluster only. So first a cluster is taken: that of the offer of the client that
//!    is *served*, if it makes one; else that of the thread's own reservation, if a donor of it makes one; else the lowest
//!    in which a donor does.
//! 3. In that cluster the earliest offer is chosen, the thread's own among them. With no donor's offer at all it is the
//!    thread's own.
//!
//! # Cost
//!
//! Each thread has a leftist heap of its donors for each cluster: the next choice, and a donor that comes, goes or
//! changes its key, take O(log n) steps. [`settle`] walks up one chain, which has at most [`CHAIN_MAX`] links.
//! Keys may rise and fall: nothing here assumes that a donor only ever helps.
//!
//! # Invariants
//!
//! 1. The graph of waiting has no cycle, and no chain longer than [`CHAIN_MAX`]: [`may_wait_for`] refuses first.
//! 2. A donor is in exactly one heap of the thread it waits for: that of the cluster of what it has chosen, or the
//!    last one if it has chosen nothing.
//!    Except for an only donor that came when there was no other, or that is served since there is no other: it is in no heap and is
//!    not counted, until somebody else comes.
//! 3. A heap is ordered by the keys its members had when they were put there. The key of an only member is looked up
//!    when a second comes: until then it may be out of date.
//!
//! Not here: budgets, who is ready to run, locks. Source: Elliott 2015, section 3.3.3 (detect, apply, propagate); the
//! donor set is ours.

/// Links of the longest chain of waiting threads.
pub const CHAIN_MAX: usize = 8;
/// Clusters whose donors are told apart.
pub const CLUSTERS: usize = 8;
/// Heaps of a thread: one for each cluster, and one for donors without an offer.
const HEAPS: usize = CLUSTERS + 1;
/// The heap of donors without an offer.
const DRY: usize = CLUSTERS;

/// The number of a thread, plus one; zero is none.
type Link = u16;
/// Beside the link to an only donor: it is not served.
const UNSERVED: Link = 1 << 15;

/// What the graph knows of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Node<K> {
    /// The reservation the thread has chosen, plus one; zero: none.
    chosen: u16,
    /// Whom it waits for.
    waits_for: Link,
    /// The donor it serves, if any; of several.
    serving: Link,
    /// Its only donor, if that is in no heap, and whether it is [`UNSERVED`].
    only: Link,
    /// Length of the longest chain of donors that ends here.
    depth: u8,
    /// In which heap of whom it waits for it is.
    heap: u8,
    /// Rank in that heap: distance to the nearest place for a child.
    rank: u8,
    /// Its neighbours there.
    left: Link,
    right: Link,
    above: Link,
    /// Its key there.
    key: K,
    /// Donors, by the length of the longest chain that ends at them.
    below: [u16; CHAIN_MAX],
    /// Its heaps of donors.
    heaps: [Link; HEAPS],
    /// The clusters whose heaps are not empty, one bit each.
    offers: u8,
    /// A thread of another cluster than that of the chosen reservation waits for it, directly or through others.
    urgent: bool,
    /// It is to be settled.
    marked: bool,
    /// Donors in its heaps,
    donors: u16,
    /// and those of them that are urgent.
    urgent_donors: u16,
}

impl<K: Copy> Node<K> {
    /// A thread that waits for nobody and has no donors. All zero bytes if `key` is.
    #[must_use]
    pub const fn new(key: K) -> Self {
        Self {
            chosen: 0,
            waits_for: 0,
            serving: 0,
            only: 0,
            depth: 0,
            heap: 0,
            rank: 0,
            left: 0,
            right: 0,
            above: 0,
            key,
            below: [0; CHAIN_MAX],
            heaps: [0; HEAPS],
            offers: 0,
            urgent: false,
            marked: false,
            donors: 0,
            urgent_donors: 0,
        }
    }

    /// It is to be settled: something that its choice depends on has changed.
    #[inline]
    pub const fn mark(&mut self) {
        self.marked = true;
    }

    /// Whether it is to be settled: it was marked, and nobody has walked past since then.
    #[must_use]
    #[inline]
    pub const fn is_marked(&self) -> bool {
        self.marked
    }

    /// Whether a thread of another cluster waits for it, directly or through others. As of when it was settled.
    #[must_use]
    #[inline]
    pub const fn is_urgent(&self) -> bool {
        self.urgent
    }

    fn set_root(&mut self, heap: usize, root: Link) {
        self.heaps[heap % HEAPS] = root;
        if heap < CLUSTERS {
            self.offers = self.offers & !(1 << heap) | u8::from(root != 0) << heap;
        }
    }

    /// The first donor of the lowest cluster in which one makes an offer.
    fn lowest_root(&self) -> Option<Link> {
        let heap = self.offers.trailing_zeros() as usize;
        if heap < CLUSTERS { Some(self.heaps[heap]) } else { None }
    }

    /// The reservation the thread has chosen.
    #[must_use]
    #[inline]
    pub const fn chosen(&self) -> Option<u16> {
        self.chosen.checked_sub(1)
    }

    /// Whom it waits for.
    #[must_use]
    #[inline]
    pub const fn waits_for(&self) -> Option<u16> {
        self.waits_for.checked_sub(1)
    }

    /// What a thread without donors that waits for nobody chooses: the only case in which there is no choice.
    #[inline]
    pub fn choose_own(&mut self, own: Option<u16>) {
        debug_assert!(self.depth == 0 && self.waits_for == 0);
        self.marked = false;
        self.chosen = own.map_or(0, |own| own + 1);
    }

    /// The donor it serves.
    #[must_use]
    pub const fn serving(&self) -> Option<u16> {
        // One of the two is zero.
        if self.only & UNSERVED != 0 { None } else { (self.serving | self.only).checked_sub(1) }
    }

    /// Its only donor, if that is in no heap.
    const fn only(&self) -> Option<u16> {
        (self.only & !UNSERVED).checked_sub(1)
    }

    /// Whether nobody waits for it.
    #[must_use]
    #[inline]
    pub const fn is_alone(&self) -> bool {
        self.depth == 0
    }

    /// Length of the longest chain of donors that ends at it.
    #[must_use]
    #[inline]
    pub const fn depth(&self) -> usize {
        self.depth as usize
    }
}

/// The threads, as the kernel keeps them.
pub trait Graph {
    /// What offers are ordered by: the smaller comes first.
    type Key: Copy + Ord;

    /// A thread.
    fn node(&self, thread: u16) -> &Node<Self::Key>;
    /// The same, to be changed by this module alone.
    fn node_mut(&mut self, thread: u16) -> &mut Node<Self::Key>;
    /// The thread's own reservation, while it has budget.
    fn own(&self, thread: u16) -> Option<u16>;
    /// The key of a reservation.
    fn key(&self, reservation: u16) -> Self::Key;
    /// The cluster of a reservation, below [`CLUSTERS`].
    fn cluster(&self, reservation: u16) -> u8;
    /// [`settle`] has come to a thread that chose `reservation`, or chooses it now: who runs on it may have changed.
    fn touch(&mut self, reservation: u16);
}

/// Why a thread must not wait for another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The other waits for it, directly or through others.
    Cycle,
    /// The chain of waiting threads would be longer than [`CHAIN_MAX`].
    TooLong,
}

//--- The rule

/// What `thread` should run on, or lend to whom it waits for.
#[must_use]
pub fn choose<G: Graph>(graph: &G, thread: u16) -> Option<u16> {
    let node = graph.node(thread);
    let own = graph.own(thread);
    if node.is_alone() {
        return own;
    }
    let heap_of = |offer: u16| {
        let root = node.heaps.get(usize::from(graph.cluster(offer))).copied();
        root.filter(|root| *root != 0)
    };
    let served = || node.serving().and_then(|client| graph.node(client).chosen());
    let only = node.only().map(|only| only + 1);
    let root =
        only.or_else(|| served().and_then(heap_of)).or_else(|| own.and_then(heap_of)).or_else(|| node.lowest_root());
    let Some(lent) = root.and_then(|root| graph.node(root - 1).chosen()) else { return own };
    match own {
        Some(own) if graph.cluster(own) == graph.cluster(lent) && graph.key(own) <= graph.key(lent) => Some(own),
        _ => Some(lent),
    }
}

/// Whether a donor in another cluster than that of the chosen reservation makes an offer.
#[must_use]
pub fn has_foreign_donors<G: Graph>(graph: &G, thread: u16) -> bool {
    let node = graph.node(thread);
    let Some(chosen) = node.chosen() else { return false };
    let home = graph.cluster(chosen);
    let lent = node.only().and_then(|donor| graph.node(donor).chosen());
    lent.is_some_and(|lent| graph.cluster(lent) != home)
        || 1u8.checked_shl(home.into()).is_some_and(|home| node.offers & !home != 0)
}

/// Whether a thread of another cluster than that of the chosen reservation waits for `thread`: directly, or for one of its donors.
#[must_use]
pub fn is_urgent<G: Graph>(graph: &G, thread: u16) -> bool {
    let node = graph.node(thread);
    let lender = node.only().is_some_and(|donor| graph.node(donor).urgent);
    node.urgent_donors != 0 || lender || has_foreign_donors(graph, thread)
}

/// Counts at `target` a donor in its heaps that is urgent, or is no longer.
fn count_urgent<G: Graph>(graph: &mut G, target: u16, step: i16) {
    let node = graph.node_mut(target);
    node.urgent_donors = node.urgent_donors.wrapping_add_signed(step);
}

/// Puts `donor` into the heaps of `target`.
fn join<G: Graph>(graph: &mut G, donor: u16, target: u16) {
    enter(graph, donor, target);
    let urgent = graph.node(donor).urgent;
    let node = graph.node_mut(target);
    node.donors += 1;
    node.urgent_donors += u16::from(urgent);
}

/// Takes `donor` out of the heaps of `target`.
fn part<G: Graph>(graph: &mut G, donor: u16, target: u16) {
    leave(graph, donor, target);
    let urgent = graph.node(donor).urgent;
    let node = graph.node_mut(target);
    node.donors -= 1;
    node.urgent_donors -= u16::from(urgent);
}

/// Whether `waiter` may wait for `target`: to be asked before anything changes.
///
/// # Errors
/// [`Refusal`].
pub fn may_wait_for<G: Graph>(graph: &G, waiter: u16, target: u16) -> Result<(), Refusal> {
    let mut length = graph.node(waiter).depth();
    let mut at = Some(target);
    while let Some(thread) = at {
        if thread == waiter {
            return Err(Refusal::Cycle);
        }
        length += 1;
        at = graph.node(thread).waits_for();
    }
    if length < CHAIN_MAX { Ok(()) } else { Err(Refusal::TooLong) }
}

//--- Waiting and not waiting

/// `waiter`, which waits for nobody, waits for `target`. Both must be settled afterwards, `waiter` first.
pub fn wait_for<G: Graph>(graph: &mut G, waiter: u16, target: u16) {
    debug_assert!(graph.node(waiter).waits_for().is_none() && waiter != target);
    let node = graph.node_mut(waiter);
    node.waits_for = target + 1;
    let depth = node.depth;
    let node = graph.node_mut(target);
    if node.is_alone() {
        node.only = (waiter + 1) | UNSERVED;
    } else {
        if let Some(only) = node.only() {
            // It is one of several from here on.
            node.serving = node.serving().map_or(0, |client| client + 1);
            node.only = 0;
            let depth = graph.node(only).depth;
            graph.node_mut(target).below[usize::from(depth) % CHAIN_MAX] = 1;
            join(graph, only, target);
        }
        join(graph, waiter, target);
    }
    deepen(graph, target, None, Some(depth));
}

/// `waiter` no longer waits. Returns whom it waited for; both must be settled afterwards.
pub fn stop_waiting<G: Graph>(graph: &mut G, waiter: u16) -> Option<u16> {
    let target = graph.node(waiter).waits_for()?;
    if graph.node(target).only == 0 {
        part(graph, waiter, target);
    }
    let node = graph.node_mut(waiter);
    node.waits_for = 0;
    let depth = node.depth;
    deepen(graph, target, Some(depth), None);
    let node = graph.node_mut(target);
    node.only = 0;
    if node.serving == waiter + 1 {
        node.serving = 0;
    }
    if node.depth == 0 && node.waits_for == 0 {
        // There is no chain to settle.
        node.urgent = false;
    }
    Some(target)
}

/// From here on `server` serves `client`, which waits for it, until somebody else is served or `client` stops waiting.
/// `server` must be settled afterwards.
pub fn serve<G: Graph>(graph: &mut G, server: u16, client: u16) {
    let node = graph.node_mut(server);
    if node.only != 0 {
        node.only = client + 1;
        return;
    }
    node.serving = client + 1;
    if node.donors == 1 {
        // It is the only one that is left.
        part(graph, client, server);
        let depth = graph.node(client).depth;
        let node = graph.node_mut(server);
        node.below[usize::from(depth) % CHAIN_MAX] = 0;
        (node.serving, node.only) = (0, client + 1);
    }
}

/// One of the donors of `thread`, whichever; `None`: it has none.
#[must_use]
pub fn a_donor<G: Graph>(graph: &G, thread: u16) -> Option<u16> {
    let node = graph.node(thread);
    node.only().or_else(|| node.heaps.iter().find_map(|root| root.checked_sub(1)))
}

/// Applies the rule to `start` and to everybody up the chain, after something there has changed: a key, a budget, a
/// donor. [Touches](Graph::touch) the reservations whose runner may have changed. If several threads are to be settled, the order
/// does not matter: what is chosen is right when the last has been.
pub fn settle<G: Graph>(graph: &mut G, start: u16) {
    let mut at = start;
    for _ in 0..=CHAIN_MAX {
        let chosen = choose(graph, at);
        let before = graph.node(at).chosen();
        if before != chosen {
            graph.node_mut(at).chosen = chosen.map_or(0, |chosen| chosen + 1);
            if let Some(before) = before {
                graph.touch(before);
            }
        }
        if let Some(chosen) = chosen {
            graph.touch(chosen);
        }
        let urgent = is_urgent(graph, at);
        let node = graph.node_mut(at);
        node.marked = false;
        let was_urgent = core::mem::replace(&mut node.urgent, urgent);
        let Some(target) = node.waits_for() else { return };
        if graph.node(target).only == 0 {
            if urgent != was_urgent {
                count_urgent(graph, target, if urgent { 1 } else { -1 });
            }
            if !is_in_place(graph, at, before) {
                leave(graph, at, target);
                enter(graph, at, target);
            }
        }
        at = target;
    }
}

/// The thread at the end of the chain that has chosen `reservation`, which is that of `owner`; `None`: somebody on the way has
/// chosen another. Right where all are settled.
#[must_use]
pub fn carrier<G: Graph>(graph: &G, owner: u16, reservation: u16) -> Option<u16> {
    let mut at = owner;
    for _ in 0..=CHAIN_MAX {
        let node = graph.node(at);
        if node.chosen != reservation + 1 {
            return None;
        }
        let Some(target) = node.waits_for() else { return Some(at) };
        at = target;
    }
    None
}

/// Whether a donor that had chosen `before` is where it belongs among the donors of whom it waits for.
fn is_in_place<G: Graph>(graph: &G, donor: u16, before: Option<u16>) -> bool {
    let node = graph.node(donor);
    // Nobody looks at the key of an only member, nor of one without an offer.
    let is_only = node.left == 0 && node.above == 0;
    node.chosen() == before && (is_only || node.chosen().is_none_or(|chosen| graph.key(chosen) == node.key))
}

/// For an uncontended call: `waiter` becomes the only donor of `target`, is served, and `target` takes over what it
/// has chosen. What [`wait_for`], [`serve`] and two [`settle`]s would do, if `target` has nothing of its own that
/// comes before.
///
/// Neither may wait for anybody, `waiter` must not be urgent, `target` must be alone, and the chain must have room.
#[inline(always)]
pub fn lend<G: Graph>(graph: &mut G, waiter: u16, target: u16) {
    let node = graph.node_mut(waiter);
    node.waits_for = target + 1;
    let (chosen, depth) = (node.chosen, node.depth);
    let node = graph.node_mut(target);
    node.chosen = chosen;
    node.only = waiter + 1;
    node.depth = depth + 1;
}

/// Whether `waiter` is the only donor of `target`, in no heap, and served, and what it lends is what `target` has chosen.
#[inline(always)]
#[must_use]
pub fn has_lent<G: Graph>(graph: &G, waiter: u16, target: u16) -> bool {
    let (one, other) = (graph.node(waiter), graph.node(target));
    other.only == waiter + 1 && one.chosen == other.chosen
}

/// Takes back what [`lend`] lent: `target` has chosen nothing from here on, and waits to be settled if it goes on.
#[inline(always)]
pub fn take_back<G: Graph>(graph: &mut G, waiter: u16, target: u16) {
    graph.node_mut(waiter).waits_for = 0;
    let node = graph.node_mut(target);
    node.chosen = 0;
    node.only = 0;
    node.depth = 0;
}

/// Counts at `target` a donor whose chain was `from` links long and is `to`; then, where that changes the length of
/// its own chain, at whom it waits for, and so on.
#[inline(never)]
fn deepen<G: Graph>(graph: &mut G, target: u16, from: Option<u8>, to: Option<u8>) {
    let (mut from, mut to) = (from, to);
    let mut at = Some(target);
    for _ in 0..=CHAIN_MAX {
        let Some(thread) = at else { return };
        let node = graph.node_mut(thread);
        let before = node.depth;
        let after = if node.only != 0 {
            to.map_or(0, |depth| depth + 1)
        } else {
            if let Some(depth) = from {
                let count = &mut node.below[usize::from(depth) % CHAIN_MAX];
                *count = count.wrapping_sub(1);
            }
            if let Some(depth) = to {
                let count = &mut node.below[usize::from(depth) % CHAIN_MAX];
                *count = count.wrapping_add(1);
            }
            longest(&node.below)
        };
        if before == after {
            return;
        }
        node.depth = after;
        (from, to) = (Some(before), Some(after));
        at = node.waits_for();
    }
}

/// The index, plus one, of the last count that is not zero.
#[inline(always)]
fn longest(below: &[u16; CHAIN_MAX]) -> u8 {
    const _: () = assert!(CHAIN_MAX == 8);
    // Four counts a word.
    let word = |first: usize| {
        let count = |at: usize| u64::from(below[first + at]) << (16 * at);
        count(0) | count(1) | count(2) | count(3)
    };
    let (low, high) = (word(0), word(4));
    if high != 0 { 8 - (high.leading_zeros() / 16) as u8 } else { 4 - (low.leading_zeros() / 16) as u8 }
}

//--- Leftist heaps

/// Puts `donor` into the heap of `target` where what it has chosen belongs.
fn enter<G: Graph>(graph: &mut G, donor: u16, target: u16) {
    let chosen = graph.node(donor).chosen();
    let heap = chosen.map_or(DRY, |chosen| usize::from(graph.cluster(chosen)).min(CLUSTERS - 1));
    // Without offers there is no order; any key will do.
    let key = chosen.map_or(graph.node(donor).key, |chosen| graph.key(chosen));
    let node = graph.node_mut(donor);
    (node.heap, node.rank, node.key) = (heap as u8, 1, key);
    (node.left, node.right, node.above) = (0, 0, 0);
    let root = graph.node(target).heaps[heap];
    if root != 0 {
        let first = graph.node(root - 1);
        if let (0, Some(chosen)) = (first.left, first.chosen()) {
            let key = graph.key(chosen);
            graph.node_mut(root - 1).key = key;
        }
    }
    let root = merge(graph, root, donor + 1);
    graph.node_mut(target).set_root(heap, root);
}

/// Takes `donor` out of its heap of `target`.
fn leave<G: Graph>(graph: &mut G, donor: u16, target: u16) {
    let node = graph.node_mut(donor);
    let (left, right, above, heap) = (node.left, node.right, node.above, usize::from(node.heap));
    (node.left, node.right, node.above) = (0, 0, 0);
    let rest = merge(graph, left, right);
    if rest != 0 {
        graph.node_mut(rest - 1).above = above;
    }
    if above == 0 {
        graph.node_mut(target).set_root(heap, rest);
        return;
    }
    let mut at = above;
    let above = graph.node_mut(at - 1);
    if above.left == donor + 1 {
        above.left = rest;
    } else {
        above.right = rest;
    }
    // Ranks change on the way up for no more steps than there are ranks.
    while at != 0 && lean(graph, at) {
        at = graph.node(at - 1).above;
    }
}

/// Joins two heaps; returns the root.
fn merge<G: Graph>(graph: &mut G, one: Link, other: Link) -> Link {
    if one == 0 || other == 0 {
        return one | other;
    }
    let ordered = |graph: &G, one: Link, other: Link| {
        if graph.node(other - 1).key < graph.node(one - 1).key { (other, one) } else { (one, other) }
    };
    // Down the right sides: each is as short as the logarithm of its heap.
    let (root, mut rest) = ordered(graph, one, other);
    let mut at = root;
    loop {
        let right = graph.node(at - 1).right;
        if right == 0 {
            break;
        }
        let (first, second) = ordered(graph, right, rest);
        graph.node_mut(at - 1).right = first;
        graph.node_mut(first - 1).above = at;
        (at, rest) = (first, second);
    }
    graph.node_mut(at - 1).right = rest;
    graph.node_mut(rest - 1).above = at;
    // And up again.
    loop {
        lean(graph, at);
        if at == root {
            return root;
        }
        at = graph.node(at - 1).above;
    }
}

/// Puts the child of the higher rank to the left; says whether the rank of `at` changed.
fn lean<G: Graph>(graph: &mut G, at: Link) -> bool {
    let node = graph.node(at - 1);
    let rank = |child: Link| if child == 0 { 0 } else { graph.node(child - 1).rank };
    let (left, right) = (rank(node.left), rank(node.right));
    let node = graph.node_mut(at - 1);
    if left < right {
        core::mem::swap(&mut node.left, &mut node.right);
    }
    let before = core::mem::replace(&mut node.rank, left.min(right) + 1);
    before != node.rank
}

#[cfg(test)]
#[path = "propagation_tests.rs"]
pub(crate) mod tests;
