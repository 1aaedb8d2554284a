//! Engines and tokens that servers and tasks of one cluster hold: the addition to the systems of [`super::calls`].
//!
//! # Invariants
//!
//! 1. An engine, and a pool, is of one cluster, and so are all its users.
//! 2. On several CPUs, or where it is held with tokens, no more than two hold an engine by priority.
//! 3. Each request for a token joins a queue at once.
//! 4. A task that declares to hold something so often, for so long, does.

use std::fmt::Write;

use fusee_simulator::workload::Source;

use super::{MICROSECOND, MILLISECOND};

/// An engine of a cluster.
struct Engine {
    name: String,
    cluster: usize,
    /// The engine is one of the accelerator.
    works: bool,
    /// How many more may hold it.
    room: u64,
}

/// Locks of clusters.
#[derive(Default)]
pub(super) struct Shared {
    engines: Vec<Engine>,
    /// Clusters that have a pool.
    pools: Vec<usize>,
    /// How many more may be clients of the accelerator.
    clients: u64,
}

/// How a job or a service holds an engine.
struct Hold {
    engine: usize,
    times: u64,
    cpu: u64,
    operation: u64,
    /// With a token.
    within: bool,
}

/// Uses of a job or a service.
#[derive(Default)]
pub(super) struct Uses {
    holds: Vec<Hold>,
    /// The cluster of a pool, and how long it computes with a token of it, holds apart.
    section: Option<(usize, u64)>,
}

/// Users of a pool, at most.
const USERS: u64 = 8;
/// Clients of the accelerator, at most.
const CLIENTS: u64 = 7;

impl Shared {
    /// Writes the objects of clusters of these sizes: mutexes, or the engines of an accelerator in the first; and pools.
    pub(super) fn draw(source: &mut Source, text: &mut String, sizes: &[u64]) -> Shared {
        let mut shared = Shared { clients: CLIENTS, ..Shared::default() };
        let has_device = source.draw(0, 2) > 0;
        for (cluster, size) in sizes.iter().enumerate() {
            let has_pool = source.draw(0, 1) == 0;
            if has_pool {
                let replicas = source.draw(1, 2);
                let limit = source.pick(&["\"unlimited\"", "8"]);
                let _ = write!(
                    text,
                    "\n[pools.p{cluster}]\nreplicas = {replicas}\nlimit = {limit}\ncluster = \"c{cluster}\"\n"
                );
                shared.pools.push(cluster);
            }
            let works = has_device && cluster == 0;
            for number in 0..source.draw(1, 2) as usize {
                let name = if works { ["ee", "ce_in"][number].to_owned() } else { format!("e{cluster}{number}") };
                let order = source.pick(&["fifo", "priority"]);
                let room = match (order, size) {
                    ("priority", 2..) => 2,
                    ("priority", _) if has_pool => 2,
                    _ => USERS,
                };
                let _ = write!(text, "\n[engines.{name}]\norder = \"{order}\"\n");
                if works {
                    let _ = write!(text, "device = \"gpu\"\nindex = {number}\ninterrupt = \"gpu\"\n");
                }
                shared.engines.push(Engine { name, cluster, works, room });
            }
        }
        if has_device {
            *text += super::systems::DEVICE;
        }
        shared
    }

    pub(super) fn is_empty(&self) -> bool {
        self.engines.is_empty()
    }

    /// Draws the objects that a job or a service of `cluster` uses; a token only if it has a budget.
    pub(super) fn uses(&mut self, source: &mut Source, cluster: usize, longest: u64, has_budget: bool) -> Uses {
        let mut uses = Uses::default();
        if has_budget && self.pools.contains(&cluster) && source.draw(0, 2) > 0 {
            uses.section = Some((cluster, source.draw(0, longest)));
        }
        let clients = self.clients;
        for (engine, one) in self.engines.iter_mut().enumerate().filter(|(_, one)| one.cluster == cluster) {
            if source.draw(0, 2) == 0 || one.room == 0 || (one.works && clients == 0) {
                continue;
            }
            one.room -= 1;
            let operation = if one.works { source.draw(50 * MICROSECOND, MILLISECOND) } else { 0 };
            let within = uses.section.is_some() && source.draw(0, 1) == 0;
            uses.holds.push(Hold { engine, times: source.draw(1, 2), cpu: source.draw(4, longest), operation, within });
        }
        self.clients -= u64::from(uses.operations() > 0);
        uses
    }
}

impl Uses {
    /// The steps of it: parts between which others may come.
    pub(super) fn steps(&self, shared: &Shared) -> Vec<String> {
        let hold = |hold: &Hold| {
            let name = &shared.engines[hold.engine].name;
            let work = match hold.operation {
                0 => String::new(),
                span => format!("\"submit {name} {span}ns gpu_done\", "),
            };
            let (before, after) = (hold.cpu / 3, hold.cpu - hold.cpu / 3);
            format!("\"acquire {name}\", \"burn {before}ns\", {work}\"burn {after}ns\", \"release {name}\"")
        };
        let holds = |within: bool| {
            let those = self.holds.iter().filter(move |one| one.within == within);
            those.flat_map(move |one| (0..one.times).map(move |_| hold(one)))
        };
        let section = self.section.map(|(pool, cpu)| {
            let inside: String = holds(true).map(|one| one + ", ").collect();
            format!("\"acquire p{pool}\", {inside}\"burn {cpu}ns\", \"release p{pool}\"")
        });
        holds(false).chain(section).collect()
    }

    /// CPU time of all of it.
    pub(super) fn cpu(&self) -> u64 {
        let holds: u64 = self.holds.iter().map(|hold| hold.times * hold.cpu).sum();
        holds + self.section.map_or(0, |(_, cpu)| cpu)
    }

    /// How long engines work in all of it.
    pub(super) fn operations(&self) -> u64 {
        self.holds.iter().map(|hold| hold.times * hold.operation).sum()
    }

    /// Handles and declarations.
    pub(super) fn write(&self, text: &mut String, shared: &Shared) {
        if let Some((pool, cpu)) = self.section {
            let _ =
                write!(text, "handles.p{pool} = \"pool p{pool}: acquire\"\nuses.p{pool} = {{ cpu = \"{cpu}ns\" }}\n");
        }
        for Hold { engine, times, cpu, operation, within } in &self.holds {
            let name = &shared.engines[*engine].name;
            let within = self.section.filter(|_| *within).map(|(pool, _)| format!(", within = \"p{pool}\""));
            let _ = write!(
                text,
                "handles.{name} = \"engine {name}: acquire\"\nuses.{name} = {{ times = {times}, cpu = \"{cpu}ns\", operation = \
                 \"{operation}ns\"{} }}\n",
                within.unwrap_or_default()
            );
        }
    }
}
