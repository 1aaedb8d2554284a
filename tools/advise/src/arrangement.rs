//! The parts of a system that can be arranged in another way, and one choice for all of them.

use std::collections::BTreeMap;

use fusee_abi::call::rights;
use fusee_abi::image::{class, kind, order};
use fusee_manifest::{PolicyName, Resolved};
use toml_edit::{DocumentMut, TableLike};

//--- Types

/// Billionths of a CPU.
const CPU: u64 = 1_000_000_000;

/// A cluster of CPUs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its CPUs, a bit each.
    pub cpus: u32,
    /// The order of its jobs.
    pub policy: PolicyName,
}

/// One choice for all parts of a system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Arrangement {
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// The cluster of each [unit](Parts::units).
    pub homes: Vec<usize>,
    /// The rule of each [lock](Parts::locks).
    pub grants: Vec<Grants>,
    /// The limit of each [pool](Parts::pools), as a value of TOML; `None`: the manifest has none, or clusters share the pool.
    pub limits: Vec<Option<String>>,
}

/// The rule by which a lock is granted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Grants {
    /// By arrival.
    Fifo,
    /// By priority.
    Priority,
    /// The device decides.
    Device,
}

/// All parts of a system that can be arranged in another way.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The number of CPUs.
    pub cpus: u32,
    /// Whether the manifest has clusters; otherwise all CPUs are one.
    pub is_divided: bool,
    /// Task tables of the manifest.
    pub tables: Vec<Table>,
    /// Tables that stay together.
    pub units: Vec<Unit>,
    /// Interrupts that are routed to clusters.
    pub interrupts: Vec<Follower>,
    /// Pools of one cluster.
    pub pools: Vec<Follower>,
    /// The present cluster of the task that the key `end` stands for, if the manifest has this key.
    pub end: Option<usize>,
    /// Locks of engines.
    pub locks: Vec<Lock>,
    /// Policies for which the tasks have all keys.
    pub policies: Vec<PolicyName>,
    /// The arrangement of the manifest itself.
    pub present: Arrangement,
}

/// One task table of the manifest: a task, or its copies.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The number of one of its tasks.
    pub task: usize,
    /// Its unit.
    pub unit: usize,
}

/// Tables that stay together: they share an engine, a pool, or a server without a budget of its own.
#[derive(Clone, Debug)]
pub struct Unit {
    /// CPU time and engine time of its real-time tasks, in billionths of a CPU.
    pub load: u64,
}

/// An object whose cluster follows from that of tasks.
#[derive(Clone, Debug)]
pub struct Follower {
    /// Its name.
    pub name: String,
    /// Its present cluster.
    pub cluster: usize,
    /// The unit that it follows.
    pub unit: Option<usize>,
}

/// The lock of an engine, or of a group of them.
#[derive(Clone, Debug)]
pub struct Lock {
    /// The names of its engines.
    pub engines: Vec<String>,
    /// Its possible rules.
    pub choices: Vec<Grants>,
}

//--- Reading

impl Parts {
    /// The parts of `system`, whose manifest is `document`.
    #[must_use]
    pub fn of(system: &Resolved, document: &DocumentMut) -> Parts {
        let names = |section: &str| -> Vec<String> {
            let table = document.get(section).and_then(|item| item.as_table_like());
            table.into_iter().flat_map(|table| table.iter().map(|(name, _)| name.to_owned())).collect()
        };
        let mut units = Together::new(system, &names("tasks"));
        units.join_users(system);
        let (tables, homes) = units.finish();
        let unit_of = |task: usize| tables.iter().find(|(_, tasks, _)| tasks.contains(&task)).map(|(_, _, unit)| *unit);
        let loads = homes.iter().enumerate().map(|(unit, _)| {
            let tasks = tables.iter().filter(|(_, _, own)| *own == unit).flat_map(|(_, tasks, _)| tasks);
            Unit { load: tasks.map(|task| load(system, *task)).fold(0, u64::saturating_add) }
        });
        let clusters = system.clusters.iter().map(|(name, cluster)| Cluster {
            name: name.clone(),
            cpus: cluster.cpus,
            policy: PolicyName::from_number(cluster.policy).unwrap_or_default(),
        });
        let (interrupts, pools) =
            (interrupts(system, document, &names("interrupts"), unit_of), pools(system, &names("pools"), unit_of));
        let locks = locks(system, document, &names("engines"));
        let limit = |pool: &Follower| {
            let limit = entry(document, "pools", &pool.name)?.get("limit")?.as_value()?;
            Some(limit.clone().decorated("", "").to_string())
        };
        let real_time = system.reservations.iter().filter(|one| one.class == class::REAL_TIME);
        let has_priorities = real_time.map(|one| one.priority).all(|priority| priority > 0);
        let policies = [PolicyName::Edf, PolicyName::Fl, PolicyName::Rm, PolicyName::Dm, PolicyName::Fp];
        Parts {
            cpus: system.cpus,
            is_divided: document.contains_key("clusters"),
            units: loads.collect(),
            present: Arrangement {
                clusters: clusters.collect(),
                homes: homes.clone(),
                grants: locks.iter().map(|(_, present)| *present).collect(),
                limits: pools.iter().map(limit).collect(),
            },
            tables: tables
                .iter()
                .map(|(name, tasks, unit)| Table { name: name.clone(), task: tasks[0], unit: *unit })
                .collect(),
            interrupts,
            pools,
            end: end(system, document),
            locks: locks.into_iter().map(|(lock, _)| lock).collect(),
            policies: policies.into_iter().filter(|one| *one != PolicyName::Fp || has_priorities).collect(),
        }
    }
}

/// The table called `name` of a section.
fn entry<'a>(document: &'a DocumentMut, section: &str, name: &str) -> Option<&'a dyn TableLike> {
    document.get(section)?.as_table_like()?.get(name)?.as_table_like()
}

/// The present cluster of the task for which the key `end` stands.
fn end(system: &Resolved, document: &DocumentMut) -> Option<usize> {
    document.get("system")?.get("end")?;
    system.tasks.iter().rev().find(|task| task.name == "end").map(|task| task.cluster as usize)
}

/// The part of a CPU that the budget and the declared operations of a real-time task need.
fn load(system: &Resolved, task: usize) -> u64 {
    let reservation = system.tasks[task].reservation.map(|own| &system.reservations[own]);
    let Some(own) = reservation.filter(|own| own.class == class::REAL_TIME && own.period > 0) else { return 0 };
    let holds = system.engine_users.iter().zip(&system.engine_holds).filter(|(user, _)| user.task as usize == task);
    let covers = own.covers_engines != 0;
    let operations = holds.filter(|_| !covers).filter_map(|(_, hold)| hold.as_ref()).map(|hold| hold.operations.0);
    let time = operations.fold(own.budget, u64::saturating_add);
    u64::try_from(u128::from(time) * u128::from(CPU) / u128::from(own.period)).unwrap_or(u64::MAX)
}

/// A table's name, its tasks and its unit.
type Joined = (String, Vec<usize>, usize);

/// Tables of tasks while those that stay together are found.
struct Together {
    /// Name, tasks, present cluster.
    tables: Vec<(String, Vec<usize>, usize)>,
    /// The table of each task.
    table_of: Vec<Option<usize>>,
    /// For each table the first of its unit.
    first: Vec<usize>,
}

impl Together {
    /// With each table for itself.
    fn new(system: &Resolved, names: &[String]) -> Together {
        let has = |name: &str| names.iter().any(|one| one == name);
        // Copies are called as their table, with numbers.
        let own_name = |task: &str| match has(task) {
            true => task.to_owned(),
            false => task.trim_end_matches(|digit: char| digit.is_ascii_digit()).to_owned(),
        };
        let mut tables: Vec<(String, Vec<usize>, usize)> = Vec::new();
        let mut table_of = Vec::new();
        for (index, task) in system.tasks.iter().enumerate() {
            let name = own_name(&task.name);
            let at = tables.iter().position(|(one, _, _)| *one == name);
            if at.is_none() && has(&name) {
                tables.push((name, vec![index], task.cluster as usize));
                table_of.push(Some(tables.len() - 1));
                continue;
            }
            at.into_iter().for_each(|at| tables[at].1.push(index));
            table_of.push(at);
        }
        let first = (0..tables.len()).collect();
        Together { tables, table_of, first }
    }

    /// Tables of two tasks stay together, if they are together at present.
    fn join(&mut self, one: usize, other: usize) {
        let (Some(one), Some(other)) = (self.table_of[one], self.table_of[other]) else { return };
        if self.tables[one].2 != self.tables[other].2 {
            return;
        }
        let [from, to] = [self.first[one].max(self.first[other]), self.first[one].min(self.first[other])];
        self.first.iter_mut().filter(|first| **first == from).for_each(|first| *first = to);
    }

    /// Joins the users of engines and pools, drivers and their clients, servers without budgets and their clients.
    fn join_users(&mut self, system: &Resolved) {
        let crosses = |engine: usize| {
            let pool = (system.engines[engine].1.pool_plus_one as usize).checked_sub(1);
            pool.is_some_and(|pool| system.pools[pool].1.crosses != 0)
        };
        let users = system.engine_users.iter().chain(&system.shared_users);
        let users: Vec<(usize, usize)> = users.map(|user| (user.engine as usize, user.task as usize)).collect();
        let mut seen: BTreeMap<Name, usize> = BTreeMap::new();
        for (engine, task) in users.iter().filter(|(engine, _)| !crosses(*engine)) {
            let first = *seen.entry(lock_of(system, *engine)).or_insert(*task);
            self.join(first, *task);
        }
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        let pools = system.handles.iter().filter(|handle| handle.kind == kind::POOL);
        for handle in pools.filter(|handle| system.pools[handle.object as usize].1.crosses == 0) {
            let first = *seen.entry(handle.object).or_insert(handle.task as usize);
            self.join(first, handle.task as usize);
        }
        for (engine, task) in &users {
            if let Some((device, _)) = system.engine_places[*engine] {
                self.join(system.devices[device].driver, *task);
            }
        }
        for (server, _) in system.tasks.iter().enumerate().filter(|(_, task)| task.reservation.is_none()) {
            let is_own = |endpoint: u32| system.endpoints[endpoint as usize].1.server as usize == server;
            let calls = system.handles.iter().filter(|handle| {
                handle.kind == kind::ENDPOINT
                    && handle.rights & (rights::CALL | rights::SEND) != 0
                    && is_own(handle.object)
            });
            let near = calls.map(|handle| handle.task as usize);
            let near = near.filter(|task| system.tasks[*task].cluster == system.tasks[server].cluster);
            // The first of the heaviest.
            let heaviest = near.max_by_key(|task| (load(system, *task), std::cmp::Reverse(*task)));
            heaviest.into_iter().for_each(|client| self.join(client, server));
        }
    }

    /// The tables with the numbers of their units, and the present cluster of each unit.
    fn finish(self) -> (Vec<Joined>, Vec<usize>) {
        let mut firsts: Vec<usize> = self.first.clone();
        firsts.sort_unstable();
        firsts.dedup();
        let homes = firsts.iter().map(|first| self.tables[*first].2).collect();
        let unit = |first: usize| firsts.iter().position(|one| *one == first).unwrap_or(0);
        let tables = self.tables.into_iter().zip(&self.first);
        (tables.map(|((name, tasks, _), first)| (name, tasks, unit(*first))).collect(), homes)
    }
}

/// The identity of a lock: an engine's own, that of a group, or that of an engine whose device decides.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Name {
    Engine(usize),
    Group(u32),
    Arbitrated(String),
}

fn lock_of(system: &Resolved, engine: usize) -> Name {
    match (&system.arbitrated[engine], system.engines[engine].1.group_plus_one) {
        (Some(name), _) => Name::Arbitrated(name.clone()),
        (None, 0) => Name::Engine(engine),
        (None, group) => Name::Group(group),
    }
}

/// Interrupts that are routed to the cluster of the task that waits for them.
fn interrupts(
    system: &Resolved,
    document: &DocumentMut,
    names: &[String],
    unit_of: impl Fn(usize) -> Option<usize>,
) -> Vec<Follower> {
    let routed = names
        .iter()
        .filter(|name| entry(document, "interrupts", name).is_some_and(|interrupt| !interrupt.contains_key("cpu")));
    let follower = |name: &String| {
        let (_, interrupt) = system.interrupts.iter().find(|(one, _)| one == name)?;
        let cluster = system.clusters.iter().position(|(_, cluster)| cluster.cpus >> interrupt.cpu & 1 != 0)?;
        let waits = system.handles.iter().filter(|handle| {
            let is_it = handle.kind == kind::NOTIFICATION && handle.object == interrupt.notification;
            is_it && handle.rights & rights::WAIT != 0
        });
        let mut near = waits.map(|handle| handle.task as usize);
        let waiter = near.find(|task| system.tasks[*task].cluster as usize == cluster);
        Some(Follower { name: name.clone(), cluster, unit: waiter.and_then(&unit_of) })
    };
    routed.filter_map(follower).collect()
}

/// Pools of one cluster each.
fn pools(system: &Resolved, names: &[String], unit_of: impl Fn(usize) -> Option<usize>) -> Vec<Follower> {
    let follower = |name: &String| {
        let index = system.pools.iter().position(|(one, _)| one == name)?;
        let pool = &system.pools[index].1;
        let is_user = |handle: &&fusee_abi::image::Handle| handle.kind == kind::POOL && handle.object as usize == index;
        let user = system.handles.iter().find(is_user).map(|handle| handle.task as usize);
        let unit = user.and_then(&unit_of);
        (pool.crosses == 0).then(|| Follower { name: name.clone(), cluster: pool.cluster as usize, unit })
    };
    names.iter().filter_map(follower).collect()
}

/// Locks whose engines stand in the manifest, with their present rules.
fn locks(system: &Resolved, document: &DocumentMut, names: &[String]) -> Vec<(Lock, Grants)> {
    let mut groups: BTreeMap<Name, (Vec<String>, Grants)> = BTreeMap::new();
    for (engine, (name, record)) in system.engines.iter().enumerate() {
        let written = system.arbitrated[engine].as_ref().unwrap_or(name);
        if !names.contains(written) {
            continue;
        }
        let present = match (&system.arbitrated[engine], record.order == order::PRIORITY) {
            (Some(_), _) => Grants::Device,
            (None, true) => Grants::Priority,
            (None, false) => Grants::Fifo,
        };
        let (engines, _) = groups.entry(lock_of(system, engine)).or_insert((Vec::new(), present));
        if !engines.contains(written) {
            engines.push(written.clone());
        }
    }
    let decides = |name: &String| {
        let Some(engine) = entry(document, "engines", name) else { return false };
        let device = engine.get("device").and_then(|device| device.as_str());
        let device = device.and_then(|device| entry(document, "devices", device));
        let is_execution = engine.get("index").and_then(|index| index.as_integer()) == Some(0);
        device.is_some_and(|device| device.contains_key("sms"))
            && is_execution
            && !engine.contains_key("pool")
            && !engine.contains_key("group")
    };
    let lock = |(engines, present): (Vec<String>, Grants)| {
        let mut choices = vec![Grants::Priority, Grants::Fifo];
        choices.extend(engines.iter().all(decides).then_some(Grants::Device));
        (Lock { engines, choices }, present)
    };
    groups.into_values().map(lock).collect()
}

//--- Making

/// The way in which units are given clusters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Placing {
    /// Each unit stays where it is.
    Present,
    /// The heaviest first, each where it is if it fits there. The others are placed by worst fit after them.
    Near,
    /// The heaviest first, each where most is left.
    WorstFit,
}

impl Parts {
    /// All divisions of the CPUs into clusters: the present one, one cluster, clusters of equal size, and all others, the larger
    /// clusters first.
    #[must_use]
    pub fn divisions(&self) -> Vec<Vec<u32>> {
        let present: Vec<u32> = self.present.clusters.iter().map(|cluster| cluster.cpus).collect();
        let sizes_of = |division: &[u32]| {
            let mut sizes: Vec<u32> = division.iter().map(|cpus| cpus.count_ones()).collect();
            sizes.sort_unstable_by(|one, other| other.cmp(one));
            sizes
        };
        let own = sizes_of(&present);
        let mut sizes = partitions(self.cpus, self.cpus);
        let is_equal = |sizes: &Vec<u32>| sizes.iter().all(|size| *size == sizes[0]);
        sizes.sort_by_key(|sizes| !is_equal(sizes));
        let masks = |sizes: Vec<u32>| {
            let mut next = 0;
            let mask = |size: u32| {
                let cpus = ((1_u32 << size) - 1) << next;
                next += size;
                cpus
            };
            sizes.into_iter().map(mask).collect()
        };
        [present].into_iter().chain(sizes.into_iter().filter(|sizes| *sizes != own).map(masks)).collect()
    }

    /// A cluster of `division` for each unit.
    #[must_use]
    pub fn place(&self, division: &[u32], placing: Placing) -> Vec<usize> {
        let present = |unit: usize| self.present.clusters[self.present.homes[unit]].cpus;
        // The cluster that has most of the present CPUs.
        let nearest = |unit: usize| {
            let shared = |cluster: &usize| (division[*cluster] & present(unit)).count_ones();
            (0..division.len()).rev().max_by_key(shared).unwrap_or(0)
        };
        let mut homes: Vec<usize> = (0..self.units.len()).map(nearest).collect();
        if placing == Placing::Present {
            return homes;
        }
        let mut left: Vec<i128> = division.iter().map(|cpus| i128::from(cpus.count_ones()) * i128::from(CPU)).collect();
        let mut order: Vec<usize> = (0..self.units.len()).filter(|unit| self.units[*unit].load > 0).collect();
        order.sort_by_key(|unit| std::cmp::Reverse(self.units[*unit].load));
        // Those that stay take their room first.
        if placing == Placing::Near {
            order.retain(|unit| {
                let load = i128::from(self.units[*unit].load);
                let fits = left[homes[*unit]] >= load;
                left[homes[*unit]] -= if fits { load } else { 0 };
                !fits
            });
        }
        for unit in order {
            let near = homes[unit];
            let room = |cluster: &usize| (left[*cluster], *cluster == near, std::cmp::Reverse(*cluster));
            homes[unit] = (0..left.len()).max_by_key(room).unwrap_or(near);
            left[homes[unit]] -= i128::from(self.units[unit].load);
        }
        homes
    }

    /// The arrangement of these clusters. Present names stay where most tables keep them.
    #[must_use]
    pub fn arrange(&self, division: &[u32], homes: &[usize], policy: impl Fn(usize) -> PolicyName) -> Arrangement {
        let old = &self.present.clusters;
        let kept = |new: usize, name: usize| {
            let stays = |table: &&Table| homes[table.unit] == new && self.present.homes[table.unit] == name;
            (division[new] == old[name].cpus, self.tables.iter().filter(stays).count())
        };
        let pairs = (0..division.len()).flat_map(|new| (0..old.len()).map(move |name| (new, name)));
        let mut pairs: Vec<(usize, usize)> = pairs.filter(|_| self.is_divided || division.len() == 1).collect();
        pairs.sort_by_key(|(new, name)| std::cmp::Reverse(kept(*new, *name)));
        let mut names: Vec<Option<usize>> = vec![None; division.len()];
        for (new, name) in pairs {
            if names[new].is_none() && !names.contains(&Some(name)) {
                names[new] = Some(name);
            }
        }
        // Present ones in their order, new ones behind them.
        let mut order: Vec<usize> = (0..division.len()).collect();
        order.sort_by_key(|new| (names[*new].is_none(), names[*new], *new));
        let name = |new: usize| match names[new] {
            Some(name) => old[name].name.clone(),
            None => {
                let mut name = format!("cpu{}", words_of(division[new]).replace(", ", "-"));
                while old.iter().any(|one| one.name == name) {
                    name.push('_');
                }
                name
            }
        };
        let cluster = |new: &usize| Cluster { name: name(*new), cpus: division[*new], policy: policy(*new) };
        let place = |home: &usize| order.iter().position(|new| new == home).unwrap_or(0);
        Arrangement {
            clusters: order.iter().map(cluster).collect(),
            homes: homes.iter().map(place).collect(),
            ..self.present.clone()
        }
    }

    /// All arrangements that differ in one choice: the rule of a lock or a pool, the policy of a cluster, the cluster of a unit.
    #[must_use]
    pub fn neighbours(&self, from: &Arrangement) -> Vec<Arrangement> {
        let mut all = Vec::new();
        let mut add = |change: &dyn Fn(&mut Arrangement)| {
            let mut next = from.clone();
            change(&mut next);
            if next != *from {
                all.push(next);
            }
        };
        for (at, lock) in self.locks.iter().enumerate() {
            lock.choices.iter().for_each(|choice| add(&|next| next.grants[at] = *choice));
        }
        for at in (0..self.pools.len()).filter(|at| from.limits[*at].is_some()) {
            ["\"r2dglp\"", "\"unlimited\""]
                .iter()
                .for_each(|one| add(&|next| next.limits[at] = Some((*one).to_owned())));
        }
        for at in 0..from.clusters.len() {
            self.policies.iter().for_each(|policy| add(&|next| next.clusters[at].policy = *policy));
        }
        for unit in (0..self.units.len()).filter(|unit| self.units[*unit].load > 0) {
            (0..from.clusters.len()).for_each(|cluster| add(&|next| next.homes[unit] = cluster));
        }
        all
    }
}

/// All ways to write `sum` as a sum of numbers up to `most`, the larger first.
fn partitions(sum: u32, most: u32) -> Vec<Vec<u32>> {
    if sum == 0 {
        return vec![Vec::new()];
    }
    let firsts = (1..=most.min(sum)).rev();
    let with = |first: u32| {
        partitions(sum - first, first).into_iter().map(move |rest| [vec![first], rest].concat()).collect::<Vec<_>>()
    };
    firsts.flat_map(with).collect()
}

/// CPUs in words: `0`, `1-3`, `0, 2`.
#[must_use]
pub fn words_of(cpus: u32) -> String {
    let numbers: Vec<u32> = (0..u32::BITS).filter(|cpu| cpus >> cpu & 1 != 0).collect();
    match numbers[..] {
        [first, .., last] if last - first + 1 == numbers.len() as u32 => format!("{first}-{last}"),
        _ => numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl Arrangement {
    /// The clusters in words: `0 + 1-2`.
    #[must_use]
    pub fn words(&self) -> String {
        if self.clusters.len() > 2 && self.clusters.iter().all(|cluster| cluster.cpus.count_ones() == 1) {
            return "each CPU".to_owned();
        }
        self.clusters.iter().map(|cluster| words_of(cluster.cpus)).collect::<Vec<_>>().join(" + ")
    }

    /// The policy of all clusters, or the policy of each.
    #[must_use]
    pub fn policies(&self) -> String {
        let mut names: Vec<&str> = self.clusters.iter().map(|cluster| cluster.policy.name()).collect();
        if self.is_uniform() {
            names.truncate(1);
        }
        names.join(" + ")
    }

    /// Whether all clusters have one policy.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.clusters.iter().all(|cluster| cluster.policy == self.clusters[0].policy)
    }
}

impl Grants {
    /// The rule in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Grants::Fifo => "fifo",
            Grants::Priority => "priority",
            Grants::Device => "device",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_cpus_can_be_divided_in_twenty_two_ways() {
        assert_eq!(partitions(4, 4), [vec![4], vec![3, 1], vec![2, 2], vec![2, 1, 1], vec![1; 4]]);
        let all = partitions(8, 8);
        assert_eq!(all.len(), 22);
        assert!(all.iter().all(|sizes| sizes.iter().sum::<u32>() == 8 && sizes.is_sorted_by(|one, next| one >= next)));
    }

    #[test]
    fn cpus_are_written_as_a_range_or_as_a_list() {
        assert_eq!([0b1, 0b110, 0b101, 0b1011].map(words_of), ["0", "1-2", "0, 2", "0, 1, 3"]);
    }
}
