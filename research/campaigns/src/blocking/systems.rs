//! Random systems with tokens and engine locks.
//!
//! # Invariants
//!
//! 1. A system depends on the seed and its number only.
//! 2. No two jobs of a cluster have the same priority point: periods are drawn to the nanosecond.
//! 3. Budgets cover the computing of jobs, and most of them the time that jobs may lend: the analysis computes that time for the same
//!    system with longer budgets. Whether it is right is for others to find out: no budget may run dry.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use fusee_kernel_core::limits;
use fusee_manifest::{Manifest, admission};
use fusee_sched_analysis::Overheads;
use fusee_simulator::workload::Source;

use super::{Family, MICROSECOND, MILLISECOND};

/// Requests of each job of a task: an engine, and perhaps another of its group at once; how often; CPU time before and after
/// the operation; the operation; whether a token is held meanwhile.
struct Use {
    engine: usize,
    with: Option<usize>,
    times: u64,
    cpu: u64,
    operation: u64,
    within: bool,
}

/// The objects that a task shares.
struct Sharing {
    /// A pool, and how long it computes with a token of it, holds apart.
    section: Option<(usize, u64)>,
    uses: Vec<Use>,
}

/// The objects that tasks of one cluster share.
struct Shared {
    engines: Vec<Engine>,
    /// Engines from this one on are of one group.
    grouped: usize,
    /// Their names.
    pools: Vec<String>,
    /// So many of the first ones they share with other clusters.
    across: usize,
    /// They compute little, and wait for long, for engines and nothing else.
    only_waits: bool,
}

#[derive(Clone)]
struct Engine {
    name: String,
    /// The engine is one of the accelerator.
    works: bool,
    /// The engine is held with a token of this pool only.
    pool: Option<usize>,
}

/// Clients of the accelerator, the driver aside.
const CLIENTS: u64 = 7;
/// Those of them without locks, at most.
const RIDERS: u64 = 3;
/// Tasks that share a pool, at most.
const ACROSS: u64 = 12;

/// The manifest of the system with this number, and the longest period in it.
pub(super) fn draw(family: Family, seed: u64, number: u64) -> (String, u64) {
    draw_twice(&|waits| draw_with(family, false, seed, number, waits))
}

/// A system as of [`draw`] with nodes of one graph or two as its tasks with jobs.
pub(super) fn draw_graphs(seed: u64, number: u64) -> (String, u64) {
    draw_twice(&|waits| draw_with(Family::Within, true, seed, number, waits))
}

/// First with guesses, then with the results of their analysis.
fn draw_twice(draw: &dyn Fn(&Waits) -> (String, u64)) -> (String, u64) {
    let (text, longest) = draw(&HashMap::new());
    let Ok(manifest) = Manifest::parse(Path::new("random.toml"), &text) else { return (text, longest) };
    let mut waits = HashMap::new();
    for index in 0..manifest.system.clusters.len() {
        let Ok(study) = admission::Study::new(&manifest.system, index) else { continue };
        let Ok((_, blocked)) = study.analyse(&Overheads::default()) else { continue };
        for (member, blocked) in study.members.iter().zip(blocked) {
            let name = manifest.system.tasks[*member].name.clone();
            waits.insert(name, (blocked.lends.0 + blocked.drawn.0, blocked.blocking.0));
        }
    }
    draw(&waits)
}

/// The time that each task lends and pays for engines, and the time for which it is blocked.
pub(super) type Waits = HashMap<String, (u64, u64)>;

/// A system with budgets by the time that each task lends, or enough for most; and where clusters share, periods by how long it waits.
fn draw_with(family: Family, has_graphs: bool, seed: u64, number: u64, waits: &Waits) -> (String, u64) {
    let mut source = Source::new(seed, number);
    let across = family == Family::Across;
    let cpus = if across { source.draw(2, 4) } else { source.draw(1, 4) };
    let policy = source.pick(&["EDF", "FL", "EDF", "FL", "RM"]);
    let clusters = match across {
        true => source.pick(&[&[1, 1][..], &[2, 1], &[1, 2], &[1, 1, 1], &[2, 2], &[3, 1], &[1, 1, 2]]).to_vec(),
        // On several CPUs there are no bounds for engines with a device that decides.
        false if family == Family::Keyed => vec![1; cpus as usize],
        false => clusters(&mut source, cpus),
    };
    let cpus = clusters.iter().sum::<u64>();
    let mut text = format!(
        "[system]\nname = \"s{number}\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"1ms\"\npolicy = \"{policy}\"\nadmission = \"warn\"\n"
    );
    let mut next = 0;
    for (index, size) in clusters.iter().enumerate() {
        let members: Vec<String> = (next..next + size).map(|cpu| cpu.to_string()).collect();
        next += size;
        let _ = write!(text, "\n[clusters.c{index}]\ncpus = [{}]\n", members.join(", "));
    }
    let is_keyed = family == Family::Keyed;
    let is_spatial = family == Family::Spatial || is_keyed;
    let is_shared = family == Family::Shared || is_spatial;
    let only_waits = family == Family::Waiting;
    let has_device = source.draw(0, 3) > 0 || is_shared || has_graphs || only_waits;
    let mut longest = 0;
    let all = if across { shared_by_all(&mut source, &mut text, has_device) } else { Shared::nothing() };
    for (index, size) in clusters.iter().enumerate() {
        let shared = match across {
            true => all.and(own(&mut source, &mut text, (index, *size))),
            false => shared(
                &mut source,
                &mut text,
                (index, *size),
                has_device && index == 0,
                only_waits,
                is_keyed && index == 0,
            ),
        };
        let most = if is_shared { CLIENTS - RIDERS - 1 } else { CLIENTS - 1 };
        longest = tasks(&mut source, &mut text, (index, *size), most, &shared, waits).max(longest);
    }
    if has_graphs {
        super::graphs::connect(&mut source, &mut text);
    }
    if is_keyed {
        text = text.replace("[engines.ee]\n", "[engines.ee]\narbiter = \"device\"\n");
    }
    let has_riders = is_shared && !(is_keyed && source.draw(0, 1) == 0);
    if has_riders {
        riders(&mut source, &mut text, clusters.len() as u64, is_spatial);
    }
    if has_device {
        text += DEVICE;
        let switch = source.pick(&[0, 0, 1_000, 50 * MICROSECOND, 400 * MICROSECOND]);
        let arbiter = source.pick(&["arrival", "round-robin", "weighted"]);
        let _ = writeln!(text, "arbiter = \"{arbiter}\"");
        let _ = match is_spatial {
            true => writeln!(text, "sms = {}", source.pick(&[1, 2, 4, 13, 16])),
            false => writeln!(text, "switch = \"{switch}ns\""),
        };
        let limit = source.draw(1, 500) * MICROSECOND;
        match source.draw(0, 3) {
            0 if is_spatial => {
                let _ = write!(text, "preemption = \"drain-then-switch\"\ndrain_limit = \"{limit}ns\"\n");
            }
            1 if is_spatial && !has_riders => {
                text = with_blocks(&text);
                text.push_str("preemption = \"drain\"\n");
            }
            _ => {}
        }
    }
    (text, longest)
}

/// The text with a declared length of a block for each use of the execution engine: as long as the operation, which has one for each SM.
fn with_blocks(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let operation = line.strip_prefix("uses.ee = ").and_then(|uses| uses.split("operation = ").nth(1));
        match operation.and_then(|rest| rest.split([',', ' ']).next()) {
            Some(operation) => line.replace(" }", &format!(", block = {operation} }}")) + "\n",
            None => line.to_owned() + "\n",
        }
    });
    lines.collect()
}

/// Sizes of clusters: one, one for each CPU, or something between.
pub(super) fn clusters(source: &mut Source, cpus: u64) -> Vec<u64> {
    let most = source.pick(&[1, 3, cpus]);
    let (mut sizes, mut left) = (Vec::new(), cpus);
    while left > 0 {
        let size = if most == cpus { left } else { source.draw(1, most.min(left)) };
        sizes.push(size);
        left -= size;
    }
    sizes
}

/// Writes the engines and pools of a cluster of `size` CPUs. `is_alone`: the first engine is in no group.
fn shared(
    source: &mut Source,
    text: &mut String,
    (cluster, size): (usize, u64),
    has_device: bool,
    only_waits: bool,
    is_alone: bool,
) -> Shared {
    let engines: Vec<Engine> = match has_device {
        true => DEVICE_ENGINES.map(|name| Engine { name: name.into(), works: true, pool: None }).to_vec(),
        false => (0..source.draw(1, 3)).map(|engine| Engine::mutex(format!("e{cluster}{engine}"))).collect(),
    };
    let count = engines.len();
    let is_grouped = count > 1 && source.draw(0, 2) == 0 && !only_waits;
    let first = u64::from(is_alone);
    let grouped = if is_grouped { source.draw(first, count as u64 - 2) as usize } else { count };
    let together = source.pick(&["fifo", "fifo", "priority"]);
    for (number, engine) in engines.iter().enumerate() {
        let order = source.pick(&["fifo", "priority"]);
        let _ = write!(text, "\n[engines.{}]\n", engine.name);
        let _ = match number >= grouped {
            true => writeln!(text, "order = \"{together}\"\ngroup = \"g{cluster}\""),
            false => writeln!(text, "order = \"{order}\""),
        };
        if has_device {
            let _ = write!(text, "device = \"gpu\"\nindex = {number}\ninterrupt = \"gpu\"\n");
        }
    }
    let mut pools = Vec::new();
    let count = source.pick(&[0, 1, 1, 1, 2]);
    for number in 0..if only_waits { 0 } else { count } {
        let replicas = source.draw(1, 3);
        // By priority there is a bound for one token only.
        let least = if replicas == 1 { 1 } else { size.div_ceil(replicas) };
        let any = source.draw(least, 4.max(least));
        let limit = source.pick(&[0, size.div_ceil(replicas), any]);
        let name = format!("p{cluster}{number}");
        let written = if limit == 0 { "\"unlimited\"".to_owned() } else { limit.to_string() };
        let advice = source.pick(&["none", "none", "affinity", "random"]);
        let advised = text.matches("advice = \"affinity\"").count() + text.matches("advice = \"random\"").count();
        let advice = if advised < limits::ADVISED_POOLS { advice } else { "none" };
        let shortest = source.pick(&["requests", "lengths"]);
        let _ = write!(
            text,
            "\n[pools.{name}]\nreplicas = {replicas}\nlimit = {written}\nadvice = \"{advice}\"\nshortest = \"{shortest}\"\n\
             cluster = \"c{cluster}\"\n"
        );
        pools.push(name);
    }
    Shared { engines, grouped, pools, across: 0, only_waits }
}

/// Writes the engines and pools that all clusters share: one pool or two, and some engines that are held with a token of the
/// first, by priority only if there are two tokens at most.
fn shared_by_all(source: &mut Source, text: &mut String, has_device: bool) -> Shared {
    let mut pools = Vec::new();
    let mut first = 0;
    for number in 0..source.pick(&[1, 1, 2]) {
        let replicas = source.draw(1, 4);
        first = if number == 0 { replicas } else { first };
        let _ = write!(text, "\n[pools.x{number}]\nreplicas = {replicas}\nlimit = \"ck-omlp\"\n");
        pools.push(format!("x{number}"));
    }
    let count = source.draw(1, 3) as usize;
    let names = if has_device { DEVICE_ENGINES } else { ["m0", "m1", "m2"] };
    let engines = names.map(|name| Engine { name: name.into(), works: has_device, pool: Some(0) })[..count].to_vec();
    let grouped = if count > 1 && source.draw(0, 3) == 0 { count - 2 } else { usize::MAX };
    for (number, engine) in engines.iter().enumerate() {
        let order = if number < grouped && first <= 2 { source.pick(&["fifo", "priority"]) } else { "fifo" };
        let _ = write!(text, "\n[engines.{}]\norder = \"{order}\"\npool = \"x0\"\n", engine.name);
        if number >= grouped {
            text.push_str("group = \"gx\"\n");
        }
        if has_device {
            let _ = write!(text, "device = \"gpu\"\nindex = {number}\ninterrupt = \"gpu\"\n");
        }
    }
    let across = pools.len();
    Shared { engines, grouped, pools, across, only_waits: false }
}

/// Writes the mutexes of a cluster that shares others, and perhaps a pool.
fn own(source: &mut Source, text: &mut String, (cluster, size): (usize, u64)) -> (Vec<Engine>, Option<String>) {
    let count = source.pick(&[0, 1, 1, 2]);
    let one = |number: usize| {
        let name = format!("e{cluster}{number}");
        // By priority jobs are counted, which those of other clusters cannot be.
        let order = if number == 0 { "fifo" } else { "priority" };
        let _ = write!(text, "\n[engines.{name}]\norder = \"{order}\"\n");
        Engine::mutex(name)
    };
    let engines = (0..count).map(one).collect();
    let pool = (source.draw(0, 3) == 0).then(|| {
        let replicas = source.draw(1, 2.min(size));
        let _ = write!(text, "\n[pools.p{cluster}]\nreplicas = {replicas}\ncluster = \"c{cluster}\"\n");
        format!("p{cluster}")
    });
    (engines, pool)
}

const DEVICE_ENGINES: [&str; 3] = ["ee", "ce_in", "ce_out"];

pub(super) const DEVICE: &str = "
[tasks.gpu]
binary = \"gpu-driver/gpu-driver\"
cluster = \"c0\"
class = \"service\"
period = \"10ms\"
budget = \"5ms\"

[tasks.gpu.handles]
line = \"interrupt gpu: acknowledge\"
event = \"notification gpu_event: wait\"
tables = \"region tables: read write physical\"

[notifications.gpu_event]

[interrupts.gpu]
line = 112
notification = \"gpu_event\"
cluster = \"c0\"
edge = true

[regions.tables]
bytes = \"16KiB\"

[devices.gpu]
driver = \"gpu\"
firmware = \"engine-core\"
memory = \"64KiB\"
";

/// Writes the tasks of a cluster of `size` CPUs; returns the longest period.
fn tasks(
    source: &mut Source,
    text: &mut String,
    (cluster, size): (usize, u64),
    clients: u64,
    shared: &Shared,
    waits: &Waits,
) -> u64 {
    // All clusters together are no more than may share a pool, or an accelerator.
    let most = match shared.across {
        0 => (size * 2 + 2).min(clients),
        _ if shared.engines.iter().any(|engine| engine.works) => {
            if cluster == 0 {
                3
            } else {
                2
            }
        }
        _ => (size * 2 + 1).min(ACROSS / 4 + u64::from(cluster == 0)),
    };
    let count = source.draw(2, most);
    let idlers = if shared.across == 0 { source.draw(0, 1) } else { 0 };
    let heavy = source.draw(1, 3);
    let mut all: Vec<Sharing> = (0..count + idlers).map(|_| shared.draw(source, heavy)).collect();
    if shared.across > 0 && source.draw(0, 1) == 0 {
        // It shares nothing, and donates.
        all.push(Sharing { section: None, uses: Vec::new() });
    }
    let count = all.len() as u64 - idlers;
    let mut longest = 0;
    for (index, own) in all.iter().enumerate() {
        let is_idler = index as u64 >= count;
        let name = if is_idler { format!("idler{cluster}") } else { format!("t{cluster}_{index}") };
        let (script, computed) = script(source, shared, own, is_idler);
        let _ = write!(text, "\n[tasks.{name}]\ncluster = \"c{cluster}\"\n");
        if is_idler {
            let reserve = own.section.map_or("", |_| "period = \"10ms\"\nbudget = \"1ms\"\n");
            let _ = write!(text, "class = \"background\"\n{reserve}script = [{script}, \"repeat\"]\n");
        } else {
            let operations: u64 = own.uses.iter().map(|one| one.times * one.operation).sum();
            let covers = operations > 0 && source.draw(0, 3) == 0;
            let (lends, blocking) = match waits.get(&name) {
                Some((lends, blocking)) if shared.across > 0 => (*lends, *blocking),
                Some((lends, _)) => (*lends, 0),
                None if shared.across > 0 => (shared.lends(&all, index), 1_000 * MILLISECOND),
                None => (shared.lends(&all, index), 0),
            };
            // It pays for preemptions, too; at first much is guessed.
            let lends = lends + if covers && !waits.contains_key(&name) { 3 * (computed + operations) } else { 0 };
            // Advice makes a system crowded.
            let least = limits::least_budget(limits::LONGEST_PATH_CROWDED);
            let budget = (computed + lends + MICROSECOND).max(least);
            // As much of its period as it can wait.
            let waits =
                if shared.only_waits { waits.get(&name).map_or(0, |(_, blocking)| *blocking) } else { blocking };
            let times = if shared.only_waits { source.draw(20, 60) } else { 10 * source.draw(2, 12) };
            let period = (budget + operations + waits) * times / 10 / if shared.only_waits { 2 } else { 1 };
            // Where little is computed, not so short that two jobs have one priority point by chance.
            let least = if shared.only_waits { 10 * MILLISECOND } else { 0 };
            let period = period.max(budget).max(least) + source.draw(0, MILLISECOND);
            longest = longest.max(period);
            let deadline = if source.draw(0, 1) == 0 { period } else { source.draw(budget.max(period / 2), period) };
            let phase = if source.draw(0, 1) == 0 { 0 } else { source.draw(0, period) };
            if covers {
                text.push_str("budget_covers = \"cpu+engines\"\n");
            }
            let _ = write!(
                text,
                "script = [{script}]\nperiod = \"{period}ns\"\ndeadline = \"{deadline}ns\"\nbudget = \"{budget}ns\"\nwcet = \"{computed}ns\"\nphase = \"{phase}ns\"\nbacklog = 255\n"
            );
        }
        shared.write(text, own, is_idler);
    }
    longest
}

/// Writes clients without locks, of any cluster: they queue as many commands as there is room for, as long as they may be or shorter, and some that
/// never end; and says of the engines how long they take. With `on_sms` they use the execution engine, which has SMs and is said nothing of.
fn riders(source: &mut Source, text: &mut String, clusters: u64, on_sms: bool) {
    let hang = source.draw(0, 1) == 0;
    let first = if on_sms { 0 } else { source.draw(0, 2) as usize };
    let used: Vec<(&str, u64)> = DEVICE_ENGINES
        .into_iter()
        .enumerate()
        .filter(|(number, _)| *number == first || source.draw(0, 1) == 0)
        .map(|(_, name)| (name, 0))
        .collect();
    let used: Vec<(&str, u64)> =
        used.into_iter().map(|(name, _)| (name, source.draw(50 * MICROSECOND, 2 * MILLISECOND))).collect();
    for (name, longest) in used.iter().skip(usize::from(on_sms)) {
        let keys = format!("[engines.{name}]\nshared_longest = \"{longest}ns\"\nreset_bound = \"1ms\"\n");
        *text = text.replace(&format!("[engines.{name}]\n"), &keys);
    }
    for rider in 0..source.draw(1, RIDERS) {
        let cluster = source.draw(0, clusters - 1);
        let mut steps = Vec::new();
        for _ in 0..source.draw(1, 3) {
            let (name, longest) = source.pick(&used);
            for _ in 0..source.draw(0, 6) {
                let span = if source.draw(0, 1) == 0 { longest } else { source.draw(MICROSECOND, longest) };
                steps.push(format!("\"start {name} {span}ns\""));
            }
            if hang && source.draw(0, 5) == 0 {
                steps.push(format!("\"start {name} 1000s\""));
            }
            let last = source.draw(MICROSECOND, longest);
            steps.push(format!("\"submit {name} {last}ns gpu_done\""));
            if source.draw(0, 1) == 0 {
                steps.push(format!("\"sleep {}ns\"", source.draw(MICROSECOND, 5 * MILLISECOND)));
            }
        }
        let handles: Vec<String> = used.iter().map(|(name, _)| format!("{name} = \"engine {name}: share\"")).collect();
        let _ = write!(
            text,
            "\n[tasks.rider{rider}]\ncluster = \"c{cluster}\"\nclass = \"background\"\ntrusted = {}\nscript = [{}, \"repeat\"]\nhandles = {{ {} }}\n",
            !hang,
            steps.join(", "),
            handles.join(", "),
        );
    }
}

/// The script of a job, and how long it computes.
fn script(source: &mut Source, shared: &Shared, own: &Sharing, is_idler: bool) -> (String, u64) {
    let mut steps = Vec::new();
    let mut computed = 0;
    let mut burn = |steps: &mut Vec<String>, span: u64| {
        if span > 0 {
            computed += span;
            steps.push(format!("\"burn {span}ns\""));
        }
    };
    // A task of no importance goes round for ever: how often it holds an object counts with a token only.
    let times = |one: &Use| if is_idler && !one.within { 1 } else { one.times };
    let requests = |source: &mut Source, within: bool| -> Vec<&Use> {
        let uses = own.uses.iter().filter(|one| one.within == within);
        let mut all: Vec<&Use> = uses.flat_map(|one| (0..times(one)).map(move |_| one)).collect();
        for last in (1..all.len()).rev() {
            all.swap(last, source.draw(0, last as u64) as usize);
        }
        all
    };
    let without = requests(source, false);
    let within = requests(source, true);
    let section_at = source.draw(0, without.len() as u64) as usize;
    for at in 0..=without.len() {
        if let Some((pool, cpu)) = own.section.filter(|_| at == section_at) {
            let pool = &shared.pools[pool];
            burn(&mut steps, source.draw(1, 400 * MICROSECOND));
            steps.push(format!("\"acquire {pool}\""));
            // Now and then it computes less than was said.
            let mut left = if source.draw(0, 3) == 0 { source.draw(0, cpu) } else { cpu };
            for request in &within {
                let part = source.draw(0, left);
                left -= part;
                burn(&mut steps, part);
                shared.request(source, &mut steps, request, &mut burn);
            }
            burn(&mut steps, left);
            steps.push(format!("\"release {pool}\""));
        }
        if let Some(request) = without.get(at) {
            burn(&mut steps, source.draw(1, 400 * MICROSECOND));
            shared.request(source, &mut steps, request, &mut burn);
        }
    }
    burn(&mut steps, source.draw(1, if shared.only_waits { 100 * MICROSECOND } else { 2 * MILLISECOND }));
    (steps.join(", "), computed)
}

impl Engine {
    fn mutex(name: String) -> Engine {
        Engine { name, works: false, pool: None }
    }
}

impl Shared {
    fn nothing() -> Shared {
        Shared { engines: Vec::new(), grouped: 0, pools: Vec::new(), across: 0, only_waits: false }
    }

    /// The objects shared by all, with those of one cluster.
    fn and(&self, (engines, pool): (Vec<Engine>, Option<String>)) -> Shared {
        let engines = self.engines.iter().cloned().chain(engines).collect();
        let pools = self.pools.iter().cloned().chain(pool).collect();
        Shared { engines, pools, ..*self }
    }

    /// The objects that one task shares.
    fn draw(&self, source: &mut Source, heavy: u64) -> Sharing {
        let has_section = !self.pools.is_empty() && source.draw(0, 4) > 0;
        let section = has_section.then(|| {
            let pool = source.draw(0, self.pools.len() as u64 - 1) as usize;
            (pool, source.draw(0, heavy * 500 * MICROSECOND))
        });
        let used: Vec<usize> = (0..self.engines.len()).filter(|_| source.draw(0, 3) > 0).collect();
        let may = |engine: &usize| {
            let pool = self.engines[*engine].pool;
            pool.is_none() || pool == section.map(|(pool, _)| pool)
        };
        let mut one = |engine: usize| {
            let is_grouped = engine >= self.grouped && self.engines[engine].pool == self.engines[self.grouped].pool;
            let last = self.engines.iter().rposition(|one| one.pool == self.engines[engine].pool).unwrap_or(engine);
            let mates = if is_grouped { last + 1 - self.grouped } else { 1 } as u64;
            let mate = self.grouped + source.draw(0, mates - 1) as usize;
            Use {
                engine,
                with: (mate != engine && mates > 1).then_some(mate),
                times: source.draw(1, 2),
                cpu: source.draw(4, if self.only_waits { 50 * MICROSECOND } else { heavy * 500 * MICROSECOND }),
                operation: if self.engines[engine].works {
                    source.draw(50 * MICROSECOND, heavy * MILLISECOND * if self.only_waits { 4 } else { 1 })
                } else {
                    0
                },
                within: section.is_some() && (source.draw(0, 4) > 0 || self.engines[engine].pool.is_some()),
            }
        };
        Sharing { section, uses: used.into_iter().filter(may).map(&mut one).collect() }
    }

    fn request(
        &self,
        source: &mut Source,
        steps: &mut Vec<String>,
        request: &Use,
        burn: &mut impl FnMut(&mut Vec<String>, u64),
    ) {
        // The CPU time of a hold lies before and after its operation; now and then it is less than was said.
        let cpu = if source.draw(0, 3) == 0 { source.draw(2, request.cpu) } else { request.cpu };
        let before = source.draw(1, cpu - 1);
        let engine = &self.engines[request.engine].name;
        let with = request.with.map(|with| format!(" {}", self.engines[with].name)).unwrap_or_default();
        steps.push(format!("\"acquire {engine}{with}\""));
        burn(steps, before);
        if request.operation > 0 {
            steps.push(format!("\"submit {engine} {}ns gpu_done\"", request.operation));
        }
        burn(steps, cpu - before);
        steps.push(format!("\"release {engine}\""));
    }

    /// The time that others may take from the budget of `all[index]` while it waits, unless they come again and again: all that they
    /// compute with engines and tokens, for each of its requests, and for as many of theirs as may be before it.
    fn lends(&self, all: &[Sharing], index: usize) -> u64 {
        let others = all.iter().enumerate().filter(|(other, _)| *other != index);
        let held = |one: &Sharing| {
            let holds = one.uses.iter().map(|one| one.times * one.cpu).sum::<u64>();
            holds + one.section.map_or(0, |(_, cpu)| cpu)
        };
        let requests = all[index].uses.iter().map(|one| one.times).sum::<u64>() + 1;
        requests * 8 * others.map(|(_, one)| held(one)).sum::<u64>()
    }

    /// Writes handles and declarations.
    fn write(&self, text: &mut String, own: &Sharing, is_idler: bool) {
        let named = |engine: usize| own.uses.iter().any(|one| one.engine == engine || one.with == Some(engine));
        for (_, Engine { name: engine, .. }) in self.engines.iter().enumerate().filter(|(engine, _)| named(*engine)) {
            let _ = writeln!(text, "handles.{engine} = \"engine {engine}: acquire\"");
        }
        if let Some((pool, cpu)) = own.section {
            let pool = &self.pools[pool];
            let _ = write!(text, "handles.{pool} = \"pool {pool}: acquire\"\nuses.{pool} = {{ cpu = \"{cpu}ns\" }}\n");
        }
        for one in &own.uses {
            let mut keys = vec![format!("cpu = \"{}ns\"", one.cpu)];
            if !is_idler || one.within {
                keys.push(format!("times = {}", one.times));
            }
            if one.operation > 0 {
                keys.push(format!("operation = \"{}ns\"", one.operation));
            }
            if let Some((pool, _)) = own.section.filter(|_| one.within) {
                keys.push(format!("within = \"{}\"", self.pools[pool]));
            }
            if let Some(with) = one.with {
                keys.push(format!("with = \"{}\"", self.engines[with].name));
            }
            let _ = writeln!(text, "uses.{} = {{ {} }}", self.engines[one.engine].name, keys.join(", "));
        }
    }
}
