//! The groups of an engine's clients: their description in the manifest, the members that are held back, and the requests that tasks may make.
//!
//! # Invariants
//!
//! 1. A client's request moves shares within its group only: it changes its own weight, and a client without a group has no say.
//! 2. A member is held back by managers of groups above it only, and so is its running command ended. It is let in when all of them let it in.

use fusee::Message;
use fusee::sharing::{Answer, Refusal, Request, Standing, reply};
use fusee_sharing::{GROUPS, Group, MEMBERS, Member, Members, Place, Shares, Told, Tree, Weight};

/// One group or member as the manifest describes it.
#[derive(Clone, Copy, Debug)]
struct Node {
    above: Group,
    weight: Weight,
    /// The badge of the member, or of the group's manager; 0: none.
    badge: u32,
}

/// The description of groups and members is no tree: no manifest has this.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoTree;

/// The consequence of a granted request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Follows {
    /// Nothing more.
    Nothing,
    /// The member has another weight now.
    Weighs(Member, Weight),
    /// The running command of the member is to be reset.
    Ends(Member),
}

/// The groups of one engine, and where its clients stand.
#[derive(Clone, Debug)]
pub struct Groups {
    tree: Tree,
    groups: [Node; GROUPS],
    count: usize,
    members: [Node; MEMBERS],
    /// The members that the manager of each group does not let in.
    held_back: [Members; GROUPS],
}

impl Groups {
    /// Groups and members as they are told; all members that nothing is said of are directly below the root, with weight 1.
    ///
    /// # Errors
    /// [`NoTree`]: the description is no tree.
    pub fn of(
        shares: Shares,
        groups: impl Iterator<Item = Told> + Clone,
        members: impl Iterator<Item = Told>,
    ) -> Result<Groups, NoTree> {
        let root = Node { above: Group::ROOT, weight: Weight::ONE, badge: 0 };
        let mut of = Groups {
            tree: Tree::new(shares),
            groups: [root; GROUPS],
            count: 1,
            members: [root; MEMBERS],
            held_back: [Members::EMPTY; GROUPS],
        };
        // Parents have lower numbers.
        while let Some(told) = groups.clone().find(|told| usize::from(told.number) == of.count) {
            let node = of.node(&told)?;
            let group = of.tree.add_group(node.above, node.weight).map_err(|_| NoTree)?;
            if told.managed {
                of.tree.leave_to_manager(group);
            }
            of.groups[group.index()] = node;
            of.count += 1;
        }
        for told in members {
            let node = of.node(&told)?;
            *of.members.get_mut(usize::from(told.number)).ok_or(NoTree)? = node;
        }
        Ok(of)
    }

    fn node(&self, told: &Told) -> Result<Node, NoTree> {
        let weight = Weight::new(told.weight).map_err(|_| NoTree)?;
        Ok(Node { above: self.group(told.group).ok_or(NoTree)?, weight, badge: told.badge })
    }

    /// The tree, without members.
    pub const fn tree(&self) -> Tree {
        self.tree
    }

    /// How many groups there are, the root included.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Whether some client has another share than the others.
    pub fn has_weights(&self) -> bool {
        self.count > 1 || self.members.iter().any(|member| member.weight != Weight::ONE)
    }

    /// Where `member` stands, as the manifest says.
    pub const fn place(&self, member: Member) -> Place {
        let Node { above, weight, .. } = self.members[member.index()];
        Place { group: above, weight }
    }

    /// The groups above `member`, from its own to the root.
    pub fn above(&self, member: Member) -> impl Iterator<Item = Group> + use<'_> {
        self.upward(self.members[member.index()].above)
    }

    /// The members that some manager does not let in.
    pub fn held_back(&self) -> Members {
        self.held_back.iter().fold(Members::EMPTY, |all, members| all.or(*members))
    }

    /// The members of `group`, and of the groups below it.
    pub fn below(&self, group: Group) -> Members {
        Member::all().filter(|member| self.above(*member).any(|above| above == group)).collect()
    }

    /// Carries out the request in `message` of the task with this badge, while a command of the member `running` runs that may be ended. The reply,
    /// and the consequence.
    pub fn answer(&mut self, badge: u64, message: &Message, running: Option<Member>) -> (Message, Follows) {
        match Request::of(message).and_then(|request| self.obey(badge, request, running)) {
            Ok((answer, follows)) => (reply(Ok(answer)), follows),
            Err(refusal) => (reply(Err(refusal)), Follows::Nothing),
        }
    }

    fn obey(&mut self, badge: u64, request: Request, running: Option<Member>) -> Result<(Answer, Follows), Refusal> {
        match request {
            Request::Place(handle) => {
                let member = self.member(badge, handle)?;
                let Node { above, weight, .. } = self.members[member.index()];
                let (group, weight) = (above.index() as u8, weight.shares() as u16);
                Ok((Answer::Place(Standing { member: member.index() as u8, group, weight }), Follows::Nothing))
            }
            Request::Weigh(handle, shares) => {
                let member = self.member(badge, handle)?;
                let node = &mut self.members[member.index()];
                if node.above == Group::ROOT {
                    return Err(Refusal::NoGroup);
                }
                node.weight = Weight::new(shares).map_err(|_| Refusal::OutOfRange)?;
                Ok((Answer::Done, Follows::Weighs(member, node.weight)))
            }
            Request::Admit(group, members) => {
                let group = self.managed(badge, group)?;
                let below = self.below(group);
                self.held_back[group.index()] = below.filter(|member| members & 1 << member.index() == 0);
                let of_group = below.iter().map(|member| 1 << member.index()).sum();
                Ok((Answer::Members(of_group), Follows::Nothing))
            }
            Request::End(group) => {
                let group = self.managed(badge, group)?;
                let running = running.filter(|member| self.below(group).contains(*member));
                let member = running.ok_or(Refusal::NothingToEnd)?;
                Ok((Answer::Done, Follows::Ends(member)))
            }
        }
    }

    /// The member that the task with this badge is by its handle of this number.
    fn member(&self, badge: u64, handle: u8) -> Result<Member, Refusal> {
        let is_it = |member: &Member| badge != 0 && u64::from(self.members[member.index()].badge) == badge;
        Member::all().filter(is_it).nth(handle.into()).ok_or(Refusal::NotAMember)
    }

    /// The group of this number, if the task with this badge is its manager.
    fn managed(&self, badge: u64, group: u8) -> Result<Group, Refusal> {
        let group = self.group(group).filter(|group| *group != Group::ROOT).ok_or(Refusal::UnknownGroup)?;
        let manager = u64::from(self.groups[group.index()].badge);
        if manager != 0 && manager == badge { Ok(group) } else { Err(Refusal::NotTheManager) }
    }

    fn group(&self, number: u8) -> Option<Group> {
        self.tree.group(number.into())
    }

    fn upward(&self, group: Group) -> impl Iterator<Item = Group> + use<'_> {
        let next = |group: &Group| (*group != Group::ROOT).then(|| self.groups[group.index()].above);
        core::iter::successors(Some(group), next)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    const ADA: u64 = 11;
    const BOB: u64 = 12;
    const CYD: u64 = 13;
    const MANAGER: u64 = 20;

    /// Ada below the root, and bob by a second handle; bob in `inner`, which is in `outer`; cyd in `outer`, which has a manager.
    fn groups() -> Groups {
        let told = |number, group, weight, badge| Told { number, group, weight, managed: false, badge };
        // In the order of the file, which need not be that of the numbers.
        let groups = [told(2, 1, 1, 0), told(1, 0, 3, MANAGER as u32)];
        let members = [
            told(0, 0, 2, ADA as u32),
            told(1, 2, 1, BOB as u32),
            told(2, 1, 5, CYD as u32),
            told(3, 0, 1, BOB as u32),
        ];
        Groups::of(Shares::Hierarchical, groups.into_iter(), members.into_iter()).unwrap()
    }

    fn member(index: usize) -> Member {
        Member::new(index).unwrap()
    }

    fn members(list: &[usize]) -> Members {
        list.iter().map(|&index| member(index)).collect()
    }

    fn answer(groups: &mut Groups, badge: u64, request: Request) -> Result<Follows, u64> {
        let (words, follows) = groups.answer(badge, &request.message(), None);
        if words[0] == 0 { Ok(follows) } else { Err(words[0]) }
    }

    #[test]
    fn the_tree_is_what_the_manifest_says() {
        let groups = groups();
        let above = |index| -> Vec<usize> { groups.above(member(index)).map(Group::index).collect() };
        assert_eq!([above(0), above(1), above(2)], [vec![0], vec![2, 1, 0], vec![1, 0]]);
        assert_eq!(groups.place(member(2)).weight.shares(), 5);
        assert_eq!((groups.count(), groups.has_weights()), (3, true));
        let none = Groups::of(Shares::Static, core::iter::empty(), core::iter::empty()).unwrap();
        assert_eq!((none.count(), none.has_weights(), none.place(member(7))), (1, false, Place::FLAT));
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let told = |number, group, weight| Told { number, group, weight, managed: false, badge: 0 };
        let (tree, member) = (told(1, 0, 1), told(0, 1, 1));
        let of = |group: Told, member: Told| {
            let [group, member] = [group, member].map(|told| [told].into_iter());
            Groups::of(Shares::Hierarchical, group, member).err()
        };
        assert_eq!(of(tree, member), None);
        for group in [told(1, 1, 1), told(1, 0, 0), told(2, 0, 1)] {
            assert_eq!(of(group, member), Some(NoTree), "{group:?}");
        }
        for member in [told(16, 1, 1), told(0, 2, 1), told(0, 1, 1025)] {
            assert_eq!(of(tree, member), Some(NoTree), "{member:?}");
        }
    }

    #[test]
    fn a_client_weighs_itself_in_its_group_and_no_other() {
        let mut groups = groups();
        let weight = Weight::new(1000).unwrap();
        assert_eq!(answer(&mut groups, BOB, Request::Weigh(0, 1000)), Ok(Follows::Weighs(member(1), weight)));
        let standing = Standing { member: 1, group: 2, weight: 1000 };
        assert_eq!(groups.answer(BOB, &Request::Place(0).message(), None).0, reply(Ok(Answer::Place(standing))));
        assert_eq!(answer(&mut groups, ADA, Request::Weigh(0, 3)), Err(Refusal::NoGroup as u64));
        assert_eq!(answer(&mut groups, BOB, Request::Weigh(1, 3)), Err(Refusal::NoGroup as u64));
        for unknown in [0, MANAGER, u64::MAX, BOB | 1 << 32] {
            assert_eq!(answer(&mut groups, unknown, Request::Weigh(0, 3)), Err(Refusal::NotAMember as u64));
        }
        for wrong in [0, 1025] {
            assert_eq!(answer(&mut groups, BOB, Request::Weigh(0, wrong)), Err(Refusal::OutOfRange as u64));
        }
        assert_eq!(answer(&mut groups, BOB, Request::Weigh(2, 3)), Err(Refusal::NotAMember as u64));
        assert_eq!(groups.answer(BOB, &[9; 6], None).0[0], Refusal::Malformed as u64);
        assert_eq!(groups.place(member(1)).weight, weight, "what is refused changes nothing");
    }

    #[test]
    fn a_manager_lets_in_whom_it_likes_below_its_group_and_nobody_else() {
        let mut groups = groups();
        assert_eq!(groups.held_back(), Members::EMPTY);
        for (badge, group, refusal) in [
            (MANAGER, 0, Refusal::UnknownGroup),
            (MANAGER, 3, Refusal::UnknownGroup),
            (MANAGER, 2, Refusal::NotTheManager),
            (CYD, 1, Refusal::NotTheManager),
            (0, 2, Refusal::NotTheManager),
        ] {
            assert_eq!(answer(&mut groups, badge, Request::Admit(group, 0)), Err(refusal as u64));
        }
        assert_eq!(groups.held_back(), Members::EMPTY);
        for (let_in, held_back) in [(0, &[1, 2][..]), (0, &[1, 2]), (0b11_1101, &[1]), (0b10, &[2]), (u16::MAX, &[])] {
            let (words, _) = groups.answer(MANAGER, &Request::Admit(1, let_in).message(), None);
            assert_eq!(words, reply(Ok(Answer::Members(0b110))), "the members of the group, whomever it lets in");
            assert_eq!(groups.held_back(), members(held_back), "{let_in:#b}");
        }
    }

    #[test]
    fn a_member_is_let_in_if_all_managers_above_it_say_so() {
        let told = |number, group, badge| Told { number, group, weight: 1, managed: true, badge };
        let groups = [told(1, 0, 20), told(2, 1, 21)];
        let members_told = [told(0, 2, 0), told(1, 1, 0)];
        let mut groups = Groups::of(Shares::Hierarchical, groups.into_iter(), members_told.into_iter()).unwrap();
        for (outer, inner, held_back) in [(0b11, 0b1, &[][..]), (0b10, 0b1, &[0]), (0b1, 0, &[0, 1]), (0b11, 0, &[0])] {
            answer(&mut groups, 20, Request::Admit(1, outer)).unwrap();
            answer(&mut groups, 21, Request::Admit(2, inner)).unwrap();
            assert_eq!(groups.held_back(), members(held_back), "{outer:#b} {inner:#b}");
        }
    }

    #[test]
    fn a_manager_ends_what_runs_below_its_group_and_nothing_else() {
        let mut groups = groups();
        let mut end = |badge, group, running: Option<usize>| {
            let (words, follows) = groups.answer(badge, &Request::End(group).message(), running.map(member));
            if words[0] == 0 { Ok(follows) } else { Err(words[0]) }
        };
        for below in [1, 2] {
            assert_eq!(end(MANAGER, 1, Some(below)), Ok(Follows::Ends(member(below))));
        }
        for running in [None, Some(0), Some(3)] {
            assert_eq!(end(MANAGER, 1, running), Err(Refusal::NothingToEnd as u64), "{running:?}");
        }
        assert_eq!(end(CYD, 1, Some(1)), Err(Refusal::NotTheManager as u64));
        assert_eq!(end(MANAGER, 2, Some(1)), Err(Refusal::NotTheManager as u64));
    }
}
