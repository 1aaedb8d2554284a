//! Groups of members, and the order of their leads.
//!
//! The root shares the engine among its children, and each group shares its part among its own: a member's share is the product of
//! the shares on its path, for any behaviour of other branches. Each node has a *lead*: by how much more engine time it has used,
//! divided by its weight, than the slowest of its siblings that wants the engine. A flat system is a tree with one level.
//!
//! Leads stand for the virtual times of the literature. When each node's distance to the system time is known, the times themselves
//! are not needed. [`Tree::settle`] subtracts the smallest lead of those that set the system time; a lead that would become
//! negative becomes zero. This *is* the lift of idle members: no member hoards unused time.
//!
//! A group may be *left to its manager*: then none of its children has a lead, and the choice of children to hold back is made
//! elsewhere ([`level`](crate::level)). The group itself leads its siblings as any other does.
//!
//! # Invariants
//!
//! 1. After [`Tree::settle`], of the children of each node that set the system time one has no lead.
//! 2. The use of a member is charged to it and to all groups above it, and changes no other lead before the next [`Tree::settle`].
//!    A weight changes no lead but its own member's.
//!
//! # Source
//!
//! Menychtas et al., ASPLOS 2014, fair queueing; Fleig 2016, tree of groups, static weights ([`Shares::Static`]). The static
//! weights are kept to compare with: a silent sibling halves the share of the others, which settling each node by those
//! that want the engine does not.

use fusee_sched::time::Nanoseconds;

use crate::member::{MEMBERS, Member, Members};
use crate::parameters::{Parameter, ParameterError, in_range};

/// The number of groups that a tree may have, the root included.
pub const GROUPS: usize = 16;
/// The number of nodes that a path from the root to a member may have, the member included and the root not.
pub const LEVELS: usize = 4;
/// The number of places for groups and members together.
pub(crate) const NODES: usize = GROUPS + MEMBERS;
/// A lead counts in such parts of a nanosecond, so that division by a weight loses less than a nanosecond.
const PARTS: u64 = 1 << 10;

/// A group of members and groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Group(u8);

impl Group {
    /// The group of all.
    pub const ROOT: Group = Group(0);

    /// The number of this group, below [`GROUPS`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of shares of a node, compared with its siblings: 1 to 1024.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Weight(u16);

impl Weight {
    /// One share.
    pub const ONE: Weight = Weight(1);

    /// So many shares.
    ///
    /// # Errors
    /// [`ParameterError`] if there are none, or more than 1024.
    pub fn new(shares: u16) -> Result<Weight, ParameterError> {
        in_range(Parameter::Weight, u64::from(shares), 1, PARTS).map(|()| Weight(shares))
    }

    /// The number of shares.
    #[must_use]
    pub const fn shares(self) -> u64 {
        self.0 as u64
    }
}

/// The rule by which groups divide their parts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Shares {
    /// Each group has a lead of its own, and its system time is set by those of its children that want the engine.
    #[default]
    Hierarchical,
    /// The use of a member is multiplied by the number of siblings on its path, silent or not.
    Static,
}

/// The reason why a group cannot be added.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TreeError {
    /// There are [`GROUPS`] already.
    Full,
    /// The tree has no such parent.
    UnknownGroup(Group),
    /// Members of the new group would be below level [`LEVELS`].
    TooDeep(Group),
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Index of its group.
    parent: u8,
    /// Nodes on the path from the root to this one, the root not included.
    level: u8,
    weight: Weight,
    lead: u64,
    /// For a group: the weight of the slowest of its children, at the last settlement.
    slowest: Weight,
}

/// Groups, members and their leads.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    shares: Shares,
    groups: u8,
    /// A bit for each group that is left to its manager.
    managed: u16,
    joined: Members,
    /// Groups first, then members.
    nodes: [Node; NODES],
}

impl Tree {
    /// The root alone.
    #[must_use]
    pub const fn new(shares: Shares) -> Tree {
        let node = Node { parent: 0, level: 0, weight: Weight::ONE, lead: 0, slowest: Weight::ONE };
        Tree { shares, groups: 1, managed: 0, joined: Members::EMPTY, nodes: [node; NODES] }
    }

    /// Adds a group below `parent`.
    ///
    /// # Errors
    /// [`TreeError`]; then nothing has changed.
    pub fn add_group(&mut self, parent: Group, weight: Weight) -> Result<Group, TreeError> {
        if parent.index() >= usize::from(self.groups) {
            return Err(TreeError::UnknownGroup(parent));
        }
        let level = self.nodes[parent.index()].level + 1;
        if usize::from(level) >= LEVELS {
            return Err(TreeError::TooDeep(parent));
        }
        if usize::from(self.groups) == GROUPS {
            return Err(TreeError::Full);
        }
        let group = Group(self.groups);
        self.groups += 1;
        self.nodes[group.index()] = Node { parent: parent.0, level, weight, lead: 0, slowest: Weight::ONE };
        Ok(group)
    }

    /// Leaves the order of the children of `group` to its manager.
    pub const fn leave_to_manager(&mut self, group: Group) {
        self.managed |= 1 << group.0;
    }

    /// The group with this number.
    #[must_use]
    pub const fn group(&self, number: usize) -> Option<Group> {
        if number < self.groups as usize { Some(Group(number as u8)) } else { None }
    }

    /// Whether the tree has this group.
    #[must_use]
    pub const fn has(&self, group: Group) -> bool {
        group.0 < self.groups
    }

    /// Puts `member` below `group`, without a lead. The caller has checked that the group is there.
    pub fn join(&mut self, member: Member, group: Group, weight: Weight) {
        debug_assert!(self.has(group), "members join groups of the tree");
        let level = self.nodes[group.index()].level + 1;
        self.nodes[leaf(member)] = Node { parent: group.0, level, weight, lead: 0, slowest: Weight::ONE };
        self.joined.insert(member);
    }

    /// Takes `member` out.
    pub fn leave(&mut self, member: Member) {
        self.joined.remove(member);
    }

    /// Changes the weight of `member` for its charges from now on.
    pub fn reweigh(&mut self, member: Member, weight: Weight) {
        self.nodes[leaf(member)].weight = weight;
    }

    /// Charges `used` engine time to `member` and to the groups above it.
    pub fn charge(&mut self, member: Member, used: Nanoseconds) {
        let parts = used.0.saturating_mul(PARTS);
        if self.shares == Shares::Static {
            let charged = self.statically(member, parts);
            let lead = &mut self.nodes[leaf(member)].lead;
            *lead = lead.saturating_add(charged);
            return;
        }
        for node in self.path(member) {
            let node = &mut self.nodes[node];
            node.lead = node.lead.saturating_add(parts / node.weight.shares());
        }
    }

    /// Moves the system time of each group to the slowest of its children that set it: those with a member in `setters` below.
    /// Where no child sets it although one was `active`, no child lacked anything, and all start anew.
    ///
    /// Corrected: the smallest virtual time of *all active* tasks makes a task that is mostly idle the slowest for ever,
    /// and all others wait for it in vain. See `setters` of [`FairQueueing`](crate::FairQueueing).
    pub fn settle(&mut self, active: Members, setters: Members) {
        for group in 0..usize::from(self.groups) {
            let mut slowest = None;
            let mut any_active = false;
            for child in self.children(group) {
                any_active |= !self.below(child).and(active).is_empty();
                if !self.below(child).and(setters).is_empty() {
                    let node = &self.nodes[child];
                    let candidate = (node.lead, self.weight_in_leads(child));
                    slowest = Some(slowest.map_or(candidate, |best| candidate.min(best)));
                }
            }
            let (system, weight) = match slowest {
                _ if self.managed & 1 << group != 0 => (u64::MAX, Weight::ONE),
                Some(slowest) => slowest,
                None if any_active => (u64::MAX, Weight::ONE),
                None => continue,
            };
            for child in self.children(group) {
                self.nodes[child].lead = self.nodes[child].lead.saturating_sub(system);
            }
            self.nodes[group].slowest = weight;
        }
    }

    /// The members that are too far ahead: those with a node on their path that leads by more than its slowest sibling could catch
    /// up with in `interval`, had it the engine for itself.
    ///
    /// Corrected: the paper prints "at least"; then two equal members that are an interval apart wait in turn for ever.
    #[must_use]
    pub fn denied(&self, interval: Nanoseconds) -> Members {
        let parts = interval.0.saturating_mul(PARTS);
        self.joined.filter(|member| {
            self.path(member).any(|node| {
                let slowest = self.nodes[self.parent(node)].slowest;
                self.nodes[node].lead > parts / slowest.shares()
            })
        })
    }

    /// The engine time by which `member` leads the slowest of its siblings.
    #[must_use]
    pub fn lead(&self, member: Member) -> Nanoseconds {
        self.lead_of(leaf(member))
    }

    /// The engine time by which `group` leads the slowest of its siblings.
    #[must_use]
    pub fn group_lead(&self, group: Group) -> Nanoseconds {
        self.lead_of(group.index())
    }

    /// The node directly below the root on the path to `member`: the member itself, or the outermost of its groups.
    pub(crate) fn top(&self, member: Member) -> usize {
        let mut node = leaf(member);
        while self.nodes[node].parent != 0 {
            node = usize::from(self.nodes[node].parent);
        }
        node
    }

    /// The weight of a node among its siblings.
    pub(crate) const fn shares_of(&self, node: usize) -> u64 {
        self.nodes[node].weight.shares()
    }

    /// The weight of `member` among its siblings.
    pub(crate) const fn shares_of_member(&self, member: Member) -> u64 {
        self.shares_of(leaf(member))
    }

    fn lead_of(&self, node: usize) -> Nanoseconds {
        Nanoseconds(self.nodes[node].lead / PARTS * self.weight_in_leads(node).shares())
    }

    /// Static weights are part of the charges, and leads do not use any.
    fn weight_in_leads(&self, node: usize) -> Weight {
        if self.shares == Shares::Static { Weight::ONE } else { self.nodes[node].weight }
    }

    /// The nodes whose leads are compared for `member`, from itself upward.
    fn path(&self, member: Member) -> impl Iterator<Item = usize> + use<> {
        let mut nodes = [None; LEVELS];
        let mut node = leaf(member);
        for place in &mut nodes {
            *place = Some(node);
            node = self.parent(node);
            if node == 0 {
                break;
            }
        }
        nodes.into_iter().flatten()
    }

    /// The node with which `node` and its siblings compare themselves. Statically all members are siblings.
    fn parent(&self, node: usize) -> usize {
        if self.shares == Shares::Static { 0 } else { usize::from(self.nodes[node].parent) }
    }

    fn children(&self, group: usize) -> impl Iterator<Item = usize> + use<> {
        let tree = *self;
        let groups = 1..if self.shares == Shares::Static { 1 } else { usize::from(self.groups) };
        groups.chain(self.joined.iter().map(leaf)).filter(move |&node| tree.parent(node) == group)
    }

    /// The members on or below `node`.
    fn below(&self, node: usize) -> Members {
        self.joined.filter(|member| self.path(member).any(|step| step == node))
    }

    /// `parts` times how many shares there are on each level below the first, for each that `member` has there; divided by
    /// the weight of the first.
    fn statically(&self, member: Member, parts: u64) -> u64 {
        let mut charged = u128::from(parts);
        let mut node = leaf(member);
        loop {
            let parent = usize::from(self.nodes[node].parent);
            if parent != 0 {
                let groups = 1..usize::from(self.groups);
                let siblings = groups.chain(self.joined.iter().map(leaf));
                let all: u64 = siblings
                    .filter(|&sibling| usize::from(self.nodes[sibling].parent) == parent)
                    .map(|sibling| self.nodes[sibling].weight.shares())
                    .sum();
                charged = charged.saturating_mul(u128::from(all));
            }
            charged /= u128::from(self.nodes[node].weight.shares());
            if parent == 0 {
                return u64::try_from(charged).unwrap_or(u64::MAX);
            }
            node = parent;
        }
    }
}

const fn leaf(member: Member) -> usize {
    GROUPS + member.index()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_four_levels_with_its_members_and_sixteen_groups() {
        let mut tree = Tree::new(Shares::Hierarchical);
        let first = tree.add_group(Group::ROOT, Weight::ONE).unwrap();
        let second = tree.add_group(first, Weight::ONE).unwrap();
        let third = tree.add_group(second, Weight::ONE).unwrap();
        assert_eq!(tree.add_group(third, Weight::ONE), Err(TreeError::TooDeep(third)));
        assert_eq!(tree.add_group(Group(4), Weight::ONE), Err(TreeError::UnknownGroup(Group(4))));
        for _ in 4..GROUPS {
            tree.add_group(Group::ROOT, Weight::ONE).unwrap();
        }
        assert_eq!(tree.add_group(Group::ROOT, Weight::ONE), Err(TreeError::Full));
        assert!(Weight::new(0).is_err() && Weight::new(1025).is_err());
    }
}
