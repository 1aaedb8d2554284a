//! Engines that servers and tasks of one cluster hold: what [`super::calls`] adds to its systems.
//!
//! # Invariants
//!
//! 1. An engine is of one cluster, and so are all who hold it.
//! 2. On several CPUs no more than two hold an engine by priority.
//! 3. Whoever says that it holds an engine so often, for so long, does.

use std::fmt::Write;

use fusee_simulator::workload::Source;

use super::{MICROSECOND, MILLISECOND};

/// An engine of a cluster.
pub(super) struct Engine {
    name: String,
    pub(super) cluster: usize,
    /// It is one of the accelerator.
    works: bool,
    /// How many more may hold it.
    room: u64,
}

/// How a job or a service holds an engine.
pub(super) struct Hold {
    engine: usize,
    times: u64,
    cpu: u64,
    operation: u64,
}

/// Clients of the accelerator, at most.
const CLIENTS: u64 = 7;

/// Writes the engines of clusters of these sizes: mutexes; and those of an accelerator, of the first.
pub(super) fn engines(source: &mut Source, text: &mut String, sizes: &[u64]) -> Vec<Engine> {
    let mut engines = Vec::new();
    let has_device = source.draw(0, 2) > 0;
    for (cluster, size) in sizes.iter().enumerate() {
        let works = has_device && cluster == 0;
        let count = source.draw(1, 2) as usize;
        for number in 0..count {
            let name = if works { ["ee", "ce_in"][number].to_owned() } else { format!("e{cluster}{number}") };
            let order = source.pick(&["fifo", "priority"]);
            let room = match (order, size) {
                ("priority", 2..) => 2,
                _ if works => CLIENTS,
                _ => u64::MAX,
            };
            let _ = write!(text, "\n[engines.{name}]\norder = \"{order}\"\n");
            if works {
                let _ = write!(text, "device = \"gpu\"\nindex = {number}\ninterrupt = \"gpu\"\n");
            }
            engines.push(Engine { name, cluster, works, room });
        }
    }
    if has_device {
        *text += super::systems::DEVICE;
    }
    engines
}

/// Draws how a job or a service of `cluster` holds engines, and how much of its CPU time is left besides.
pub(super) fn holds(source: &mut Source, engines: &mut [Engine], cluster: usize, longest: u64) -> Vec<Hold> {
    // A client of the accelerator is one, with how many engines ever.
    let clients = engines.iter().filter(|one| one.works).map(|one| one.room).min().unwrap_or(0);
    let mut holds = Vec::new();
    for (engine, one) in engines.iter_mut().enumerate().filter(|(_, one)| one.cluster == cluster) {
        if source.draw(0, 2) == 0 || one.room == 0 || (one.works && clients == 0) {
            continue;
        }
        one.room -= 1;
        let cpu = source.draw(4, longest);
        let operation = if one.works { source.draw(50 * MICROSECOND, MILLISECOND) } else { 0 };
        holds.push(Hold { engine, times: source.draw(1, 2), cpu, operation });
    }
    // Whoever uses one engine of the accelerator has one of its contexts.
    let is_client = holds.iter().any(|hold| engines[hold.engine].works);
    for (_, other) in engines
        .iter_mut()
        .enumerate()
        .filter(|(at, one)| is_client && one.works && holds.iter().all(|hold| hold.engine != *at))
    {
        other.room = other.room.saturating_sub(u64::from(other.room > 2));
    }
    holds
}

impl Hold {
    /// Its steps, once for each time.
    pub(super) fn steps(&self, engines: &[Engine]) -> impl Iterator<Item = String> {
        let name = &engines[self.engine].name;
        let work = match self.operation {
            0 => String::new(),
            span => format!("\"submit {name} {span}ns gpu_done\", "),
        };
        let (before, after) = (self.cpu / 3, self.cpu - self.cpu / 3);
        let one = format!("\"acquire {name}\", \"burn {before}ns\", {work}\"burn {after}ns\", \"release {name}\"");
        (0..self.times).map(move |_| one.clone())
    }

    /// CPU time of all its times.
    pub(super) fn cpu(&self) -> u64 {
        self.times * self.cpu
    }

    /// How long the engine works in all of them.
    pub(super) fn operations(&self) -> u64 {
        self.times * self.operation
    }

    /// Handle and declaration.
    pub(super) fn write(&self, text: &mut String, engines: &[Engine]) {
        let name = &engines[self.engine].name;
        let Hold { times, cpu, operation, .. } = self;
        let _ = write!(
            text,
            "handles.{name} = \"engine {name}: acquire\"\nuses.{name} = {{ times = {times}, cpu = \"{cpu}ns\", operation = \
             \"{operation}ns\" }}\n"
        );
    }
}
