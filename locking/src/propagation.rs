//! The graph of waiting threads, and the reservation on which each thread runs: one structure for all kinds of waiting.
//!
//! A thread waits for at most one other: the server that has its request, the holder of a lock, the driver whose
//! interrupt it awaits. The waiting thread is a *donor* of that thread. A thread *chooses* one reservation: its own, or
//! one that a donor of it has chosen and lends. Donors lend on, so a chain of waiting ends at the thread that can make
//! progress, and that thread runs with the earliest key of all waiting threads, on the budget to which the key belongs.
//!
//! # The rule
//!
//! 1. The offers of a thread are the reservations that its donors have chosen, and its own reservation while that has
//!    budget. A donor without an offer (all its budgets are exhausted) is passed over.
//! 2. Keys are comparable within one cluster only, so a cluster is selected first. The first that applies is taken: the
//!    cluster of the offer of the client that is *served*; the cluster of the thread's own reservation, if a donor in it
//!    makes an offer; the lowest cluster in which a donor makes an offer.
//! 3. The earliest offer in that cluster is chosen, the thread's own included. Without any donor's offer the thread
//!    chooses its own.
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
//! 2. A donor is in exactly one heap of the thread for which it waits: the heap of the cluster of its chosen reservation,
//!    or the last heap if it has chosen none.
//!    Exception: an only donor that came when there was no other, or that is served since there is no other. Such a donor
//!    is in no heap and is not counted, until another donor comes.
//! 3. A heap is ordered by the keys its members had when they were put there. The key of an only member is looked up when
//!    a second member comes: until then it may be out of date.
//!
//! Not here: budgets, readiness of threads, locks. Source: Elliott 2015, section 3.3.3 (detect, apply,
//! propagate); the donor set is ours.

/// Links of the longest chain of waiting threads.
pub const CHAIN_MAX: usize = 8;
/// Number of clusters with separate heaps of donors.
pub const CLUSTERS: usize = 8;
/// Heaps of a thread: one for each cluster, and one for donors without an offer.
const HEAPS: usize = CLUSTERS + 1;
/// The heap of donors without an offer.
const DRY: usize = CLUSTERS;

/// Node of the graph for one thread. Threads are named by `T`, reservations by `R`, and offers are ordered by `K`.
#[derive(Clone, Copy, Debug)]
pub struct Node<T, R, K> {
    /// The reservation the thread has chosen.
    chosen: Option<R>,
    /// The thread for which this thread waits.
    waits_for: Option<T>,
    /// The only donor, if it is in no heap, is served, and may be let go by [`take_back`].
    lent_by: Option<T>,
    /// The only donor, if it is in no heap and [`take_back`] may not let it go.
    only: Option<T>,
    /// The donor that the thread serves, unless that is in `lent_by`.
    serving: Option<T>,
    /// Length of the longest chain of donors that ends here.
    depth: u8,
    /// Heap that holds this thread, among the heaps of the thread for which it waits.
    heap: u8,
    /// Rank of this thread in that heap: distance to the nearest place for a child.
    rank: u8,
    /// The clusters with donors in their heaps, one bit each.
    offers: u8,
    /// Neighbours of this thread in that heap.
    left: Option<T>,
    right: Option<T>,
    above: Option<T>,
    /// Key of this thread in that heap.
    key: K,
    /// Donors, counted by the length of the longest chain that ends at them.
    below: [u16; CHAIN_MAX],
    /// Heaps of this thread's donors.
    heaps: [Option<T>; HEAPS],
    /// A thread of another cluster than that of the chosen reservation waits for it, directly or through others.
    urgent: bool,
    /// The thread is to be settled.
    marked: bool,
    /// Number of donors in the heaps.
    donors: u16,
    /// Number of urgent donors in the heaps.
    urgent_donors: u16,
}

impl<T: Copy + Eq, R: Copy, K: Copy> Node<T, R, K> {
    /// A thread that does not wait and has no donors. All zero bytes if `key` is.
    #[must_use]
    pub const fn new(key: K) -> Self {
        Self {
            chosen: None,
            waits_for: None,
            lent_by: None,
            only: None,
            serving: None,
            depth: 0,
            heap: 0,
            rank: 0,
            offers: 0,
            left: None,
            right: None,
            above: None,
            key,
            below: [0; CHAIN_MAX],
            heaps: [None; HEAPS],
            urgent: false,
            marked: false,
            donors: 0,
            urgent_donors: 0,
        }
    }

    /// Marks the thread to be settled: something on which its choice depends has changed.
    #[inline]
    pub const fn mark(&mut self) {
        self.marked = true;
    }

    /// Whether the thread is to be settled: it was marked, and has not been settled since then.
    #[must_use]
    #[inline]
    pub const fn is_marked(&self) -> bool {
        self.marked
    }

    /// Whether a thread of another cluster waits for this one, directly or through others, as of the last time it was
    /// settled.
    #[must_use]
    #[inline]
    pub const fn is_urgent(&self) -> bool {
        self.urgent
    }

    fn set_root(&mut self, heap: usize, root: Option<T>) {
        self.heaps[heap % HEAPS] = root;
        if heap < CLUSTERS {
            self.offers = self.offers & !(1 << heap) | u8::from(root.is_some()) << heap;
        }
    }

    /// The first donor of the lowest cluster in which a donor makes an offer.
    fn lowest_root(&self) -> Option<T> {
        let heap = self.offers.trailing_zeros() as usize;
        if heap < CLUSTERS { self.heaps[heap] } else { None }
    }

    /// The only donor, if it is in no heap.
    fn only(&self) -> Option<T> {
        self.lent_by.or(self.only)
    }

    /// The only donor, if it is in no heap, and came when there was no other.
    #[must_use]
    #[inline]
    pub fn only_donor(&self) -> Option<T> {
        self.only()
    }

    /// The reservation the thread has chosen.
    #[must_use]
    #[inline]
    pub const fn chosen(&self) -> Option<R> {
        self.chosen
    }

    /// The thread for which this thread waits.
    #[must_use]
    #[inline]
    pub const fn waits_for(&self) -> Option<T> {
        self.waits_for
    }

    /// Chooses the own reservation of a thread that has no donors and does not wait: the only case in which there is no
    /// choice.
    #[inline]
    pub fn choose_own(&mut self, own: Option<R>) {
        debug_assert!(self.depth == 0 && self.waits_for.is_none());
        self.marked = false;
        self.chosen = own;
    }

    /// The donor that the thread serves.
    #[must_use]
    pub fn serving(&self) -> Option<T> {
        // At most one of the two fields is set.
        self.serving.or(self.lent_by)
    }

    /// Whether the thread has no donors.
    #[must_use]
    #[inline]
    pub const fn is_alone(&self) -> bool {
        self.depth == 0
    }

    /// Length of the longest chain of donors that ends at this thread.
    #[must_use]
    #[inline]
    pub const fn depth(&self) -> usize {
        self.depth as usize
    }
}

/// The threads, as the kernel keeps them.
pub trait Graph {
    /// Names a thread.
    type Thread: Copy + Eq;
    /// Names a reservation.
    type Reservation: Copy + Eq;
    /// Order of offers: the smaller key comes first.
    type Key: Copy + Ord;

    /// A thread.
    fn node(&self, thread: Self::Thread) -> &Node<Self::Thread, Self::Reservation, Self::Key>;
    /// The node of a thread, to be changed by this module alone.
    fn node_mut(&mut self, thread: Self::Thread) -> &mut Node<Self::Thread, Self::Reservation, Self::Key>;
    /// The thread's own reservation, while it has budget.
    fn own(&self, thread: Self::Thread) -> Option<Self::Reservation>;
    /// The key of a reservation.
    fn key(&self, reservation: Self::Reservation) -> Self::Key;
    /// The cluster of a reservation, below [`CLUSTERS`].
    fn cluster(&self, reservation: Self::Reservation) -> u8;
    /// [`settle`] has come to a thread that chose `reservation`, or chooses it now: its runner may have changed.
    fn touch(&mut self, reservation: Self::Reservation);
}

/// Reason why a thread must not wait for another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The other waits for it, directly or through others.
    Cycle,
    /// The chain of waiting threads would be longer than [`CHAIN_MAX`].
    TooLong,
}

//--- The rule

/// The reservation on which `thread` should run, or which it should lend to the thread for which it waits.
#[must_use]
pub fn choose<G: Graph>(graph: &G, thread: G::Thread) -> Option<G::Reservation> {
    let node = graph.node(thread);
    let own = graph.own(thread);
    if node.is_alone() {
        return own;
    }
    let heap_of = |offer: G::Reservation| node.heaps.get(usize::from(graph.cluster(offer))).copied().flatten();
    let served = || node.serving.and_then(|client| graph.node(client).chosen);
    let root = node
        .only()
        .or_else(|| served().and_then(heap_of))
        .or_else(|| own.and_then(heap_of))
        .or_else(|| node.lowest_root());
    let Some(lent) = root.and_then(|root| graph.node(root).chosen) else { return own };
    match own {
        Some(own) if graph.cluster(own) == graph.cluster(lent) && graph.key(own) <= graph.key(lent) => Some(own),
        _ => Some(lent),
    }
}

/// Whether a donor in another cluster than that of the chosen reservation makes an offer.
#[must_use]
pub fn has_foreign_donors<G: Graph>(graph: &G, thread: G::Thread) -> bool {
    let node = graph.node(thread);
    let Some(chosen) = node.chosen else { return false };
    let home = graph.cluster(chosen);
    let lent = node.only().and_then(|donor| graph.node(donor).chosen);
    lent.is_some_and(|lent| graph.cluster(lent) != home)
        || 1u8.checked_shl(home.into()).is_some_and(|home| node.offers & !home != 0)
}

/// Whether a thread of another cluster than that of the chosen reservation waits for `thread`: directly, or for one of its donors.
#[must_use]
pub fn is_urgent<G: Graph>(graph: &G, thread: G::Thread) -> bool {
    let node = graph.node(thread);
    if node.is_alone() {
        return false;
    }
    let lender = node.only().is_some_and(|donor| graph.node(donor).urgent);
    node.urgent_donors != 0 || lender || has_foreign_donors(graph, thread)
}

/// Counts at `target` a donor in its heaps that is urgent, or is no longer.
fn count_urgent<G: Graph>(graph: &mut G, target: G::Thread, step: i16) {
    let node = graph.node_mut(target);
    node.urgent_donors = node.urgent_donors.wrapping_add_signed(step);
}

/// Puts `donor` into the heaps of `target`.
fn join<G: Graph>(graph: &mut G, donor: G::Thread, target: G::Thread) {
    enter(graph, donor, target);
    let urgent = graph.node(donor).urgent;
    let node = graph.node_mut(target);
    node.donors += 1;
    node.urgent_donors += u16::from(urgent);
}

/// Takes `donor` out of the heaps of `target`.
fn part<G: Graph>(graph: &mut G, donor: G::Thread, target: G::Thread) {
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
pub fn may_wait_for<G: Graph>(graph: &G, waiter: G::Thread, target: G::Thread) -> Result<(), Refusal> {
    let mut length = graph.node(waiter).depth();
    let mut at = Some(target);
    while let Some(thread) = at {
        if thread == waiter {
            return Err(Refusal::Cycle);
        }
        length += 1;
        at = graph.node(thread).waits_for;
    }
    if length < CHAIN_MAX { Ok(()) } else { Err(Refusal::TooLong) }
}

//--- Waiting and not waiting

/// Makes `waiter`, which does not wait yet, wait for `target`. Both must be settled afterwards, `waiter` first.
pub fn wait_for<G: Graph>(graph: &mut G, waiter: G::Thread, target: G::Thread) {
    debug_assert!(graph.node(waiter).waits_for.is_none() && waiter != target);
    let node = graph.node_mut(waiter);
    node.waits_for = Some(target);
    let depth = node.depth;
    let node = graph.node_mut(target);
    if node.is_alone() {
        node.only = Some(waiter);
    } else {
        if let Some(only) = node.only() {
            // The only donor becomes one of several.
            node.serving = node.serving();
            (node.lent_by, node.only) = (None, None);
            let depth = graph.node(only).depth;
            graph.node_mut(target).below[usize::from(depth) % CHAIN_MAX] = 1;
            join(graph, only, target);
        }
        join(graph, waiter, target);
    }
    deepen(graph, target, None, Some(depth));
}

/// Ends the wait of `waiter`. Returns the thread for which it waited; both must be settled afterwards.
#[inline(always)]
pub fn stop_waiting<G: Graph>(graph: &mut G, waiter: G::Thread) -> Option<G::Thread> {
    let target = graph.node(waiter).waits_for?;
    if graph.node(target).only().is_none() {
        part(graph, waiter, target);
    }
    let node = graph.node_mut(waiter);
    node.waits_for = None;
    let depth = node.depth;
    deepen(graph, target, Some(depth), None);
    let node = graph.node_mut(target);
    (node.lent_by, node.only) = (None, None);
    if node.serving == Some(waiter) {
        node.serving = None;
    }
    if node.depth == 0 && node.waits_for.is_none() {
        // There is no chain to settle.
        node.urgent = false;
    }
    Some(target)
}

/// Makes `server` serve `client`, which waits for it, until the server serves another client or `client` stops waiting.
/// `server` must be settled afterwards. If `is_plain`, [`take_back`] may end the service if the client is then the only
/// donor.
pub fn serve<G: Graph>(graph: &mut G, server: G::Thread, client: G::Thread, is_plain: bool) {
    let node = graph.node_mut(server);
    node.serving = Some(client);
    if node.donors == 1 {
        // The client is the only donor that is left.
        part(graph, client, server);
        let depth = graph.node(client).depth;
        let node = graph.node_mut(server);
        node.below[usize::from(depth) % CHAIN_MAX] = 0;
        node.only = Some(client);
    }
    let node = graph.node_mut(server);
    if is_plain && node.donors == 0 {
        (node.lent_by, node.only, node.serving) = (Some(client), None, None);
    }
}

/// Any donor of `thread`; `None` if it has none.
#[must_use]
pub fn a_donor<G: Graph>(graph: &G, thread: G::Thread) -> Option<G::Thread> {
    let node = graph.node(thread);
    node.only().or_else(|| node.heaps.iter().find_map(|root| *root))
}

/// Applies the rule to `start` and to each thread up the chain, after a change there: a key, a budget, a donor.
/// [Touches](Graph::touch) the reservations whose runner may have changed. If several threads are to be settled, the
/// order does not matter: the choices are right when the last of them has been settled.
pub fn settle<G: Graph>(graph: &mut G, start: G::Thread) {
    let mut at = start;
    for _ in 0..=CHAIN_MAX {
        let chosen = choose(graph, at);
        let before = graph.node(at).chosen;
        if before != chosen {
            graph.node_mut(at).chosen = chosen;
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
        let Some(target) = node.waits_for else { return };
        if graph.node(target).only().is_none() {
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

/// The thread at the end of the chain that has chosen `reservation`, the reservation of `owner`. `None`: a thread on the
/// way has chosen another. The result is right only when all threads are settled.
#[must_use]
#[inline]
pub fn carrier<G: Graph>(graph: &G, owner: G::Thread, reservation: G::Reservation) -> Option<G::Thread> {
    let mut at = owner;
    for _ in 0..=CHAIN_MAX {
        let node = graph.node(at);
        if node.chosen != Some(reservation) {
            return None;
        }
        let Some(target) = node.waits_for else { return Some(at) };
        at = target;
    }
    None
}

/// Whether a donor that had chosen `before` is still in its right place, in the heaps of the thread for which it waits.
fn is_in_place<G: Graph>(graph: &G, donor: G::Thread, before: Option<G::Reservation>) -> bool {
    let node = graph.node(donor);
    // The key of an only member is never looked at, nor that of one without an offer.
    let is_only = node.left.is_none() && node.above.is_none();
    node.chosen == before && (is_only || node.chosen.is_none_or(|chosen| graph.key(chosen) == node.key))
}

/// Lends for an uncontended call: `waiter` becomes the only donor of `target` and is served, and `target` takes over the
/// reservation that `waiter` has chosen. The effect equals [`wait_for`], [`serve`] and two [`settle`]s, if `target` has
/// no reservation of its own that comes before.
///
/// Neither thread may wait, `waiter` must not be urgent, `target` must be alone, and the chain must have room.
#[inline(always)]
pub fn lend<G: Graph>(graph: &mut G, waiter: G::Thread, target: G::Thread) {
    let node = graph.node_mut(waiter);
    node.waits_for = Some(target);
    let (chosen, depth) = (node.chosen, node.depth);
    let node = graph.node_mut(target);
    node.chosen = chosen;
    node.lent_by = Some(waiter);
    node.depth = depth + 1;
}

/// Whether `waiter` is the only donor of `target`, in no heap, and served, and `target` has chosen the reservation that
/// it lends.
#[inline(always)]
#[must_use]
pub fn has_lent<G: Graph>(graph: &G, waiter: G::Thread, target: G::Thread) -> bool {
    let (one, other) = (graph.node(waiter), graph.node(target));
    other.lent_by == Some(waiter) && one.chosen == other.chosen
}

/// Takes back the reservation lent by [`lend`]: `target` has chosen nothing from here on, and waits to be settled if it
/// goes on.
#[inline(always)]
pub fn take_back<G: Graph>(graph: &mut G, waiter: G::Thread, target: G::Thread) {
    graph.node_mut(waiter).waits_for = None;
    let node = graph.node_mut(target);
    node.chosen = None;
    node.lent_by = None;
    node.depth = 0;
}

/// Lends for a wait: `target` takes over the reservation that `waiter` has chosen. The effect equals [`wait_for`] and two [`settle`]s, if no offer in
/// the cluster of that reservation comes before, and `target` is not urgent.
///
/// `target` must not wait, `waiter` must neither wait nor have donors, and the reservation of `target` must be of the same cluster.
#[inline]
pub fn lend_first<G: Graph>(graph: &mut G, waiter: G::Thread, target: G::Thread) {
    debug_assert!(graph.node(waiter).is_alone() && graph.node(target).waits_for.is_none(), "neither waits");
    if graph.node(target).is_alone() {
        graph.node_mut(waiter).waits_for = Some(target);
        let node = graph.node_mut(target);
        (node.only, node.depth) = (Some(waiter), 1);
    } else {
        wait_for(graph, waiter, target);
    }
    graph.node_mut(target).chosen = graph.node(waiter).chosen;
}

/// Ends the wait of `waiter`, the only donor of `target`, which chooses `own` from here on. The effect equals [`stop_waiting`] and two [`settle`]s, if
/// `own` is the reservation of `target` that has budget, and `target` has chosen that of `waiter`, which has no donors. So `target` is not urgent before
/// or after.
#[inline]
pub fn return_alone<G: Graph>(graph: &mut G, waiter: G::Thread, target: G::Thread, own: Option<G::Reservation>) {
    debug_assert!(graph.node(target).only() == Some(waiter), "the waiter is the only donor");
    graph.node_mut(waiter).waits_for = None;
    let node = graph.node_mut(target);
    (node.chosen, node.only, node.lent_by, node.depth) = (own, None, None, 0);
    if node.serving == Some(waiter) {
        node.serving = None;
    }
}

/// Ends the wait of `waiter`, which has no donors and goes on with the reservation that it has lent. The thread for which it waited chooses `next` from
/// here on: the effect equals [`stop_waiting`] and two [`settle`]s, if that is its choice.
#[inline(never)]
pub fn stop_lending<G: Graph>(graph: &mut G, waiter: G::Thread, next: Option<G::Reservation>) {
    if let Some(target) = stop_waiting(graph, waiter) {
        graph.node_mut(target).chosen = next;
    }
}

/// Counts at `target` a donor whose chain was `from` links long and is `to` links long now. If that changes the length of
/// the chain of `target`, continues at the thread for which `target` waits, and so on.
#[inline(never)]
fn deepen<G: Graph>(graph: &mut G, target: G::Thread, from: Option<u8>, to: Option<u8>) {
    let (mut from, mut to) = (from, to);
    let mut at = Some(target);
    for _ in 0..=CHAIN_MAX {
        let Some(thread) = at else { return };
        let node = graph.node_mut(thread);
        let before = node.depth;
        let after = if node.only().is_some() {
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
        at = node.waits_for;
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

/// Puts `donor` into the heap of `target` for the cluster of its chosen reservation.
fn enter<G: Graph>(graph: &mut G, donor: G::Thread, target: G::Thread) {
    let chosen = graph.node(donor).chosen;
    let heap = chosen.map_or(DRY, |chosen| usize::from(graph.cluster(chosen)).min(CLUSTERS - 1));
    // Without offers there is no order; any key will do.
    let key = chosen.map_or(graph.node(donor).key, |chosen| graph.key(chosen));
    let node = graph.node_mut(donor);
    (node.heap, node.rank, node.key) = (heap as u8, 1, key);
    (node.left, node.right, node.above) = (None, None, None);
    let Some(root) = graph.node(target).heaps[heap] else {
        graph.node_mut(target).set_root(heap, Some(donor));
        return;
    };
    let first = graph.node(root);
    if let (None, Some(chosen)) = (first.left, first.chosen) {
        let key = graph.key(chosen);
        graph.node_mut(root).key = key;
    }
    let root = merge(graph, root, donor);
    graph.node_mut(target).set_root(heap, Some(root));
}

/// Takes `donor` out of its heap of `target`.
fn leave<G: Graph>(graph: &mut G, donor: G::Thread, target: G::Thread) {
    let node = graph.node_mut(donor);
    let (left, right, above, heap) = (node.left, node.right, node.above, usize::from(node.heap));
    (node.left, node.right, node.above) = (None, None, None);
    let rest = match (left, right) {
        (Some(left), Some(right)) => Some(merge(graph, left, right)),
        (left, right) => left.or(right),
    };
    if let Some(rest) = rest {
        graph.node_mut(rest).above = above;
    }
    let Some(parent) = above else {
        graph.node_mut(target).set_root(heap, rest);
        return;
    };
    let node = graph.node_mut(parent);
    if node.left == Some(donor) {
        node.left = rest;
    } else {
        node.right = rest;
    }
    // Ranks change on the way up for no more steps than there are ranks.
    let mut at = above;
    while let Some(node) = at
        && lean(graph, node)
    {
        at = graph.node(node).above;
    }
}

/// Joins two heaps; returns the root.
fn merge<G: Graph>(graph: &mut G, one: G::Thread, other: G::Thread) -> G::Thread {
    let ordered = |graph: &G, one: G::Thread, other: G::Thread| {
        if graph.node(other).key < graph.node(one).key { (other, one) } else { (one, other) }
    };
    // Down the right sides: each is as short as the logarithm of its heap.
    let (root, mut rest) = ordered(graph, one, other);
    let mut at = root;
    while let Some(right) = graph.node(at).right {
        let (first, second) = ordered(graph, right, rest);
        graph.node_mut(at).right = Some(first);
        graph.node_mut(first).above = Some(at);
        (at, rest) = (first, second);
    }
    graph.node_mut(at).right = Some(rest);
    graph.node_mut(rest).above = Some(at);
    // Ranks are restored on the way up.
    loop {
        lean(graph, at);
        if at == root {
            return root;
        }
        let Some(above) = graph.node(at).above else { return root };
        at = above;
    }
}

/// Puts the child of the higher rank to the left; says whether the rank of `at` changed.
fn lean<G: Graph>(graph: &mut G, at: G::Thread) -> bool {
    let node = graph.node(at);
    let rank = |child: Option<G::Thread>| child.map_or(0, |child| graph.node(child).rank);
    let (left, right) = (rank(node.left), rank(node.right));
    let node = graph.node_mut(at);
    if left < right {
        core::mem::swap(&mut node.left, &mut node.right);
    }
    let before = core::mem::replace(&mut node.rank, left.min(right) + 1);
    before != node.rank
}

#[cfg(test)]
#[path = "propagation_tests.rs"]
pub(crate) mod tests;
