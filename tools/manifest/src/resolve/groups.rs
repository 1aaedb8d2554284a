//! Groups of clients without a lock, and their weights: `[groups.NAME]`, and `shares` of tasks.
//!
//! A task with several contexts at an engine is one client of it: a group of its own, unless its contexts stand in several groups.
//!
//! The results are numbers in the environment of the engine's sharer ([`fusee_sharing::told`]); the kernel knows nothing of groups.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fusee_abi::call::rights;
use fusee_abi::image::kind;
use fusee_sharing::{GROUPS, Group, LEVELS, Shares, Told, Tree, TreeError, Weight};
use toml::Spanned;

use super::{
    Fail::{self, At},
    Of, Resolver, index_of,
};
use crate::error::Reason;
use crate::schema;

/// Clients have one of these, compared with their siblings.
const WEIGHTS: (u32, u32) = (1, 1024);

/// The prefix of entries for members.
const MEMBER: &str = "member.";

/// The groups of one engine, by their index in the file.
type Numbers = BTreeMap<usize, Group>;

impl Resolver<'_> {
    /// Tells the sharers of engines which groups and clients there are.
    pub(super) fn groups(&mut self) {
        let file = self.file;
        // By the address of the doorbell: a task may be several clients of one engine.
        let mut shares = BTreeMap::new();
        for (task, (_, one)) in file.tasks.0.iter().enumerate() {
            for share in &one.shares.0 {
                let client = self.client(task, &share.0);
                if let Some((engine, doorbell)) = self.keep(Of::Handles(task), client) {
                    shares.insert(doorbell, (engine, share));
                }
            }
        }
        let engines: Vec<_> = (0..file.groups.0.len())
            .map(|group| {
                let engine = self.sound(Of::Group(group)).and_then(|()| self.grouped_engine(group));
                self.keep(Of::Group(group), engine)
            })
            .collect();
        for engine in 0..self.out.engines.len() {
            let groups: Vec<usize> = (0..engines.len()).filter(|&group| engines[group] == Some(engine)).collect();
            let is_said = !groups.is_empty() || shares.values().any(|(of, _)| *of == engine);
            if is_said || self.may_be_stopped(engine) || self.has_several_contexts(engine) {
                let result = self.grouped(engine, &groups, &shares);
                self.keep(Of::Nothing, result);
            }
        }
    }

    /// The engine that `task` uses without its lock, and calls `name`; and the address of its doorbell.
    fn client(&self, task: usize, name: &Spanned<String>) -> Result<(usize, u64), Fail> {
        let doorbells = self.out.tasks[task]
            .environment
            .iter()
            .filter(|entry| entry.kind == fusee_abi::environment::kind::DOORBELL && entry.name == *name.get_ref());
        let users = &self.out.shared_users;
        let is_it = |address| users.iter().find(|user| user.task as usize == task && user.address == address);
        let user = doorbells.filter_map(|entry| is_it(entry.address)).next();
        let Some((engine, doorbell)) = user.map(|user| (user.engine as usize, user.address)) else {
            self.sound(Of::Handles(task))?;
            let (task, to) = (self.out.tasks[task].name.clone(), "an engine with the right `share`");
            return Err(At(name.span(), Reason::NotUsed { task, name: name.get_ref().clone(), to }));
        };
        self.has_sharer(engine, "shares", name)?;
        Ok((engine, doorbell))
    }

    fn grouped_engine(&self, group: usize) -> Result<usize, Fail> {
        let (name, group) = &self.file.groups.0[group];
        let engine = index_of(&self.file.engines, "engine", &group.engine)?;
        self.has_sharer(engine, "group", name)?;
        Ok(engine)
    }

    fn has_sharer(&self, engine: usize, what: &'static str, of: &Spanned<String>) -> Result<(), Fail> {
        self.sound(Of::Engine(engine))?;
        if self.file.engines.0[engine].1.sharer.is_some() {
            return Ok(());
        }
        Err(At(of.span(), Reason::Needs { what, of: of.get_ref().clone(), needs: "an engine with a `sharer`" }))
    }

    /// Whether the sharer of `engine` may stop one of its clients: it has to know which one that is.
    fn may_be_stopped(&self, engine: usize) -> bool {
        let Some(endpoint) = self.out.engines[engine].1.sharer_plus_one.checked_sub(1) else { return false };
        let server = self.out.endpoints[endpoint as usize].1.server;
        let is_client =
            |task: u32| self.out.shared_users.iter().any(|user| user.engine as usize == engine && user.task == task);
        self.out.handles.iter().any(|handle| {
            let may_stop = handle.kind == kind::TASK && handle.rights & rights::STOP != 0;
            may_stop && handle.task == server && is_client(handle.object)
        })
    }

    /// The clients of `engine` without its lock: their tasks, and the addresses of their doorbells.
    fn clients_of(&self, engine: usize) -> Vec<(usize, u64)> {
        let users = self.out.shared_users.iter().filter(|user| user.engine as usize == engine);
        users.map(|user| (user.task as usize, user.address)).collect()
    }

    /// Whether a task is several clients of `engine`, which has a sharer.
    fn has_several_contexts(&self, engine: usize) -> bool {
        let clients = self.clients_of(engine);
        let is_again = |(at, (task, _)): (usize, &(usize, u64))| clients[..at].iter().any(|(other, _)| other == task);
        self.out.engines[engine].1.sharer_plus_one != 0 && clients.iter().enumerate().any(is_again)
    }

    /// The tree of one engine: `groups` by their index, `shares` by doorbell.
    fn grouped(
        &mut self,
        engine: usize,
        groups: &[usize],
        shares: &BTreeMap<u64, (usize, &(Spanned<String>, schema::Share))>,
    ) -> Result<(), Fail> {
        // The mistake of its sharer has been reported.
        let Some(endpoint) = self.out.engines[engine].1.sharer_plus_one.checked_sub(1) else { return Ok(()) };
        let endpoint = endpoint as usize;
        let server = self.out.endpoints[endpoint].1.server as usize;
        if self.out.tasks[server].environment.iter().any(|entry| entry.name.starts_with(MEMBER)) {
            let (name, _) = &self.file.engines.0[engine];
            let with = "a sharer that serves another engine with groups or weights";
            return Err(At(name.span(), Reason::Excludes { what: "groups", of: name.get_ref().clone(), with }));
        }
        let (mut tree, numbers) = self.tree(groups);

        let clients = self.clients_of(engine);
        let mut places = Vec::new();
        for &(task, doorbell) in &clients {
            let place = match shares.get(&doorbell) {
                Some((_, (name, share))) => self.place_in_tree(engine, name, share, groups, &numbers),
                None => Ok((Group::ROOT, Weight::ONE)),
            };
            places.push(self.keep(Of::Handles(task), place));
        }
        let in_use: Vec<Group> = places.iter().flatten().map(|(group, _)| *group).collect();
        let own = self.groups_of_tasks((engine, server), &clients, &places, &mut tree);
        for (member, (&(task, _), place)) in clients.iter().zip(places).enumerate() {
            let Some((group, weight)) = place else { continue };
            let group = own.get(&task).copied().unwrap_or(group);
            let told = Told {
                number: member as u8,
                group: group.index() as u8,
                weight: weight.shares() as u16,
                managed: false,
                badge: task as u32 + 1,
            };
            let earlier = clients[..member].iter().filter(|(other, _)| *other == task).count();
            let mut entry = format!("{MEMBER}{}", self.out.tasks[task].name);
            if earlier > 0 {
                entry += &format!(".{}", earlier + 1);
            }
            self.announce(server, &entry, told.encode(), self.file.tasks.0[task].0.span());
        }
        for (&group, &number) in &numbers {
            let result = self.group(group, number, server, endpoint, groups, &numbers);
            self.keep(Of::Group(group), result);
        }
        // A group without clients is a mistake, unless they are missing because of another one.
        if numbers.len() == groups.len() && self.mistakes.is_empty() {
            for (&group, &number) in &numbers {
                let result = self.has_clients(group, number, &in_use, &numbers);
                self.keep(Of::Group(group), result);
            }
        }
        Ok(())
    }

    /// A group for each task that has several contexts in one place: there it counts as one client, with the largest weight that
    /// they declare.
    fn groups_of_tasks(
        &mut self,
        (engine, server): (usize, usize),
        clients: &[(usize, u64)],
        places: &[Option<(Group, Weight)>],
        tree: &mut Tree,
    ) -> BTreeMap<usize, Group> {
        let mut own = BTreeMap::new();
        for task in clients.iter().map(|(task, _)| *task).collect::<BTreeSet<usize>>() {
            let those = clients.iter().zip(places).filter(|((of, _), _)| *of == task);
            let those: Option<Vec<(Group, Weight)>> = those.map(|(_, place)| *place).collect();
            let Some(those) = those.filter(|those| those.len() > 1) else { continue };
            let (parent, _) = those[0];
            if those.iter().any(|(group, _)| *group != parent) {
                continue;
            }
            let weight = those.iter().map(|(_, weight)| *weight).max_by_key(|weight| weight.shares());
            let weight = weight.unwrap_or(Weight::ONE);
            let name = &self.file.tasks.0[task].0;
            let of = (name, self.file.engines.0[engine].0.get_ref());
            let added = tree.add_group(parent, weight).map_err(|error| no_place(&error, of));
            let Some(number) = self.keep(Of::Nothing, added) else { continue };
            let told = Told {
                number: number.index() as u8,
                group: parent.index() as u8,
                weight: weight.shares() as u16,
                managed: false,
                badge: 0,
            };
            self.announce(server, &format!("group.{}", name.get_ref()), told.encode(), name.span());
            own.insert(task, number);
        }
        own
    }

    /// The tree of `groups`, and their numbers in it, a parent's before its children's. Groups that have no place in it are
    /// missing.
    fn tree(&mut self, groups: &[usize]) -> (Tree, Numbers) {
        let file = self.file;
        let mut tree = Tree::new(Shares::Hierarchical);
        let mut numbers = Numbers::new();
        let mut left: Vec<usize> = groups.to_vec();
        loop {
            let before = left.len();
            left.retain(|&group| {
                let parent = match self.parent(group, groups) {
                    Ok(None) => Group::ROOT,
                    Ok(Some(parent)) if self.sound(Of::Group(parent)).is_err() => {
                        self.keep(Of::Group(group), Err::<(), _>(Fail::Follows));
                        return false;
                    }
                    Ok(Some(parent)) => match numbers.get(&parent) {
                        Some(&number) => number,
                        None => return true,
                    },
                    Err(fail) => {
                        self.keep(Of::Group(group), Err::<(), _>(fail));
                        return false;
                    }
                };
                let (name, one) = &file.groups.0[group];
                let weight = weight(name, &one.weight);
                let of = (name, one.engine.get_ref());
                let added =
                    weight.and_then(|weight| tree.add_group(parent, weight).map_err(|error| no_place(&error, of)));
                if let Some(number) = self.keep(Of::Group(group), added) {
                    numbers.insert(group, number);
                }
                false
            });
            if left.len() == before {
                break;
            }
        }
        for group in left {
            let name = &file.groups.0[group].0;
            let reason = Reason::GroupInItself { group: name.get_ref().clone() };
            self.keep(Of::Group(group), Err::<(), _>(At(name.span(), reason)));
        }
        (tree, numbers)
    }

    /// The group that `group` is a part of.
    fn parent(&self, group: usize, groups: &[usize]) -> Result<Option<usize>, Fail> {
        let parent = self.file.groups.0[group].1.parent.as_ref();
        parent.map(|parent| self.group_of_engine(parent, groups)).transpose()
    }

    /// The group called `name` among `groups`, which are those of one engine.
    fn group_of_engine(&self, name: &Spanned<String>, groups: &[usize]) -> Result<usize, Fail> {
        let all = &self.file.groups.0;
        let found = groups.iter().copied().find(|&group| all[group].0.get_ref() == name.get_ref());
        found.ok_or_else(|| {
            let is_spoiled = |(index, (key, _)): (usize, &(Spanned<String>, schema::Group))| {
                key.get_ref() == name.get_ref() && self.sound(Of::Group(index)).is_err()
            };
            if all.iter().enumerate().any(is_spoiled) {
                return Fail::Follows;
            }
            let choices = groups.iter().map(|&group| all[group].0.get_ref().clone()).collect();
            At(name.span(), Reason::Unknown { kind: "group of this engine", name: name.get_ref().clone(), choices })
        })
    }

    /// The place of a client.
    fn place_in_tree(
        &self,
        engine: usize,
        name: &Spanned<String>,
        share: &schema::Share,
        groups: &[usize],
        numbers: &Numbers,
    ) -> Result<(Group, Weight), Fail> {
        self.sound(Of::Engine(engine))?;
        let group = match &share.group {
            Some(group) => {
                let group = self.group_of_engine(group, groups)?;
                *numbers.get(&group).ok_or(Fail::Follows)?
            }
            None => Group::ROOT,
        };
        Ok((group, weight(name, &share.weight)?))
    }

    /// Tells of one group: its sharer of all, and its manager of its number.
    fn group(
        &mut self,
        group: usize,
        number: Group,
        server: usize,
        endpoint: usize,
        groups: &[usize],
        numbers: &Numbers,
    ) -> Result<(), Fail> {
        let (name, one) = &self.file.groups.0[group];
        let parent = self.parent(group, groups)?.and_then(|parent| numbers.get(&parent)).copied();
        let weight = weight(name, &one.weight)?;
        let manager = match &one.manager {
            None => None,
            Some(manager) => {
                let task = self.task(manager)?;
                self.sound(Of::Handles(task))?;
                let may_call = self.out.handles.iter().any(|handle| {
                    let is_it = handle.kind == kind::ENDPOINT && handle.object as usize == endpoint;
                    is_it && handle.task as usize == task && handle.rights & rights::CALL != 0
                });
                if !may_call {
                    let needs = "a task that may call the endpoint of the engine's sharer";
                    let of = name.get_ref().clone();
                    return Err(At(manager.span(), Reason::Needs { what: "manager", of, needs }));
                }
                Some(task)
            }
        };
        let within = one.within.as_ref().filter(|within| *within.get_ref() == schema::Within::Manager);
        if let (Some(within), None) = (within, manager) {
            let of = name.get_ref().clone();
            return Err(At(within.span(), Reason::Needs { what: "`within = \"manager\"`", of, needs: "a `manager`" }));
        }
        let told = Told {
            number: number.index() as u8,
            group: parent.unwrap_or(Group::ROOT).index() as u8,
            weight: weight.shares() as u16,
            managed: within.is_some(),
            badge: manager.map_or(0, |task| task as u32 + 1),
        };
        let entry = format!("group.{}", name.get_ref());
        self.announce(server, &entry, told.encode(), name.span());
        if let Some(task) = manager {
            self.announce(task, &entry, number.index() as u64, name.span());
        }
        Ok(())
    }

    fn announce(&mut self, task: usize, entry: &str, value: u64, place: Range<usize>) {
        let is_free = self.unused(task, entry, place);
        if self.keep(Of::Nothing, is_free).is_some() {
            self.parameter(task, entry, value);
        }
    }

    /// A client stands in `group`, or in a group below it.
    fn has_clients(&self, group: usize, number: Group, in_use: &[Group], numbers: &Numbers) -> Result<(), Fail> {
        let (name, _) = &self.file.groups.0[group];
        let parent_of = |one: Group| {
            let index = numbers.iter().find(|(_, number)| **number == one).map(|(index, _)| *index)?;
            let parent = self.file.groups.0[index].1.parent.as_ref()?;
            let is_it = |index: &&usize| self.file.groups.0[**index].0.get_ref() == parent.get_ref();
            numbers.keys().find(is_it).map(|index| numbers[index])
        };
        let is_below = |&one: &Group| std::iter::successors(Some(one), |&one| parent_of(one)).any(|one| one == number);
        if in_use.iter().any(is_below) {
            return Ok(());
        }
        let needs = "a client: a task whose `shares` name it";
        Err(At(name.span(), Reason::Needs { what: "group", of: name.get_ref().clone(), needs }))
    }
}

/// The reason why a group of this name, of this engine, has no place in the tree.
fn no_place(error: &TreeError, (name, engine): (&Spanned<String>, &String)) -> Fail {
    let reason = match error {
        TreeError::TooDeep(_) => Reason::GroupTooDeep { group: name.get_ref().clone(), limit: LEVELS },
        TreeError::Full | TreeError::UnknownGroup(_) => {
            Reason::Crowded { kind: "engine", name: engine.clone(), what: "groups", limit: GROUPS - 1 }
        }
    };
    At(name.span(), reason)
}

/// The declared weight, or one.
fn weight(of: &Spanned<String>, said: &Option<Spanned<u32>>) -> Result<Weight, Fail> {
    let Some(said) = said else { return Ok(Weight::ONE) };
    let weight = u16::try_from(*said.get_ref()).ok().and_then(|shares| Weight::new(shares).ok());
    weight.ok_or_else(|| {
        let (from, to) = WEIGHTS;
        At(said.span(), Reason::OutOfRange { what: "weight", of: of.get_ref().clone(), from, to })
    })
}
