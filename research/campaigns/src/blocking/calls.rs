//! Random systems with jobs that call servers, which call each other.
//!
//! Each server computes for its whole service, the nested calls among it. Each of the tasks calls some of them, a few times in a
//! job; some sleep; and one of no importance calls for ever.
//!
//! # Invariants
//!
//! 1. A system depends on the seed and its number only.
//! 2. Tasks and servers keep their declarations exactly.
//! 3. A server that clients of several clusters call makes no calls itself.

use std::fmt::Write;
use std::path::Path;

use fusee_abi::call::rights;
use fusee_abi::image::kind;
use fusee_kernel_core::limits;
use fusee_manifest::{Manifest, admission};
use fusee_sched_analysis::Overheads;
use fusee_simulator::workload::Source;
use fusee_simulator::{Part, Program};

use super::served::{Shared, Uses};
use super::systems::{Waits, clusters};
use super::{Family, MICROSECOND, MILLISECOND};

/// A server: how long a service takes without its calls, which of the servers after it it calls, and the only cluster of its clients,
/// if it has one.
struct Server {
    service: u64,
    calls: Vec<(usize, u64)>,
    cluster: Option<usize>,
    /// The server has a budget of its own, which is for tokens, and for nothing here.
    has_budget: bool,
    uses: Uses,
}

/// The manifest of the system with this number, and the longest period in it.
pub(super) fn draw(family: Family, seed: u64, number: u64) -> (String, u64) {
    let (text, longest) = draw_with(family, seed, number, &Waits::new());
    let Ok(manifest) = Manifest::parse(Path::new("random.toml"), &text) else { return (text, longest) };
    let mut waits = Waits::new();
    for index in 0..manifest.system.clusters.len() {
        let Ok(study) = admission::Study::new(&manifest.system, index) else { continue };
        let Ok((_, blocked)) = study.analyse(&Overheads::default()) else { continue };
        for (member, blocked) in study.members.iter().zip(blocked) {
            let name = manifest.system.tasks[*member].name.clone();
            waits.insert(name, (blocked.lends.0, blocked.blocking.0));
        }
    }
    draw_with(family, seed, number, &waits)
}

/// A system as of [`draw`], with budgets and periods by how long each task lends and waits.
fn draw_with(family: Family, seed: u64, number: u64, waits: &Waits) -> (String, u64) {
    let mut source = Source::new(seed, number);
    let across = family == Family::CallsAcross;
    let cpus = source.draw(1, 4);
    let policy = match across {
        true => source.pick(&["EDF", "FL", "EDF"]),
        false => source.pick(&["EDF", "FL", "EDF", "RM", "DM"]),
    };
    let clusters = match across {
        true => source.pick(&[&[1, 1][..], &[2, 1], &[1, 1, 1], &[2, 2]]).to_vec(),
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
    let mut shared = match family {
        Family::Served => Shared::draw(&mut source, &mut text, &clusters),
        _ => Shared::default(),
    };
    let servers = servers(&mut source, &mut text, &clusters, across, &mut shared);
    let mut longest = 0;
    let idle = source.draw(0, 2 * clusters.len() as u64) as usize;
    for (cluster, size) in clusters.iter().enumerate() {
        longest = longest.max(tasks(
            &mut source,
            &mut text,
            (cluster, *size),
            (&servers, &mut shared),
            waits,
            (across, idle == cluster),
        ));
    }
    (text, longest)
}

/// Writes servers for clusters of these sizes: no more are shared than each has CPUs, as many as are boosted at once there.
fn servers(source: &mut Source, text: &mut String, sizes: &[u64], across: bool, shared: &mut Shared) -> Vec<Server> {
    let (clusters, least) = (sizes.len(), sizes.iter().copied().min().unwrap_or(1));
    let count = source.draw(1, 4) as usize;
    let mut servers: Vec<Server> = Vec::new();
    for index in 0..count {
        // The last is one that all share, at least.
        let is_shared = across && (index + 1 == count || index + 2 == count && least > 1 && source.draw(0, 1) == 0);
        let cluster = (!is_shared).then(|| source.draw(0, clusters as u64 - 1) as usize);
        let has_budget = !shared.is_empty() && source.draw(0, 1) == 0;
        let uses = match cluster {
            Some(cluster) if !shared.is_empty() => shared.uses(source, cluster, 150 * MICROSECOND, has_budget),
            _ => Uses::default(),
        };
        let service = uses.cpu() + source.draw(10 * MICROSECOND, 400 * MICROSECOND);
        servers.push(Server { service, calls: Vec::new(), cluster, has_budget, uses });
    }
    for index in 0..count {
        let Some(cluster) = servers[index].cluster else { continue };
        for other in index + 1..count {
            let may = servers[other].cluster.is_none_or(|of| of == cluster);
            if may && source.draw(0, 1) == 0 {
                let times = source.draw(1, 2);
                servers[index].calls.push((other, times));
            }
        }
    }
    for (index, server) in servers.iter().enumerate() {
        let cluster = server.cluster.unwrap_or_else(|| source.draw(0, clusters as u64 - 1) as usize);
        let program = match shared.is_empty() {
            true => "binary = \"apps/server\"\n".to_owned(),
            false => {
                let budget = "class = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n";
                let budget = if server.has_budget { budget } else { "" };
                format!("{budget}trusted = true\nscript = [{}]\n", service(source, index, server, shared))
            }
        };
        let _ = write!(
            text,
            "\n[endpoints.s{index}]\nserver = \"server{index}\"\nservice_max = \"{}ns\"\n\n[tasks.server{index}]\ncluster = \
             \"c{cluster}\"\n{program}handles.s{index} = \"endpoint s{index}: receive\"\n",
            server.service
        );
        server.uses.write(text, shared);
        for (other, times) in &server.calls {
            let _ =
                write!(text, "handles.s{other} = \"endpoint s{other}: call\"\nuses.s{other} = {{ times = {times} }}\n");
        }
    }
    servers
}

/// The script of a server that uses engines and tokens, and calls others, in any order.
fn service(source: &mut Source, index: usize, server: &Server, shared: &Shared) -> String {
    let calls =
        server.calls.iter().flat_map(|(other, times)| (0..*times).map(move |_| format!("\"call s{other} 0ns\"")));
    let mut parts: Vec<String> = server.uses.steps(shared).into_iter().chain(calls).collect();
    shuffle(source, &mut parts);
    let besides = server.service - server.uses.cpu();
    let first = source.draw(0, besides);
    let parts: String = parts.into_iter().map(|part| part + ", ").collect();
    format!("\"receive s{index}\", \"burn {first}ns\", {parts}\"burn {}ns\", \"reply s{index}\"", besides - first)
}

fn shuffle(source: &mut Source, steps: &mut [String]) {
    for last in (1..steps.len()).rev() {
        steps.swap(last, source.draw(0, last as u64) as usize);
    }
}

/// Writes the tasks of a cluster of `size` CPUs; returns the longest period.
fn tasks(
    source: &mut Source,
    text: &mut String,
    (cluster, size): (usize, u64),
    (servers, shared): (&[Server], &mut Shared),
    waits: &Waits,
    (across, idles): (bool, bool),
) -> u64 {
    let usable: Vec<usize> =
        (0..servers.len()).filter(|index| servers[*index].cluster.is_none_or(|of| of == cluster)).collect();
    let count = source.draw(1 + u64::from(!across), size + if across { 1 } else { 3 });
    let mut longest = 0;
    for index in 0..count {
        let name = format!("t{cluster}_{index}");
        let mut calls: Vec<(usize, u64)> = Vec::new();
        for server in usable.iter().filter(|_| source.draw(0, 2) > 0).copied().collect::<Vec<_>>() {
            calls.push((server, source.draw(1, 2)));
        }
        let uses = match shared.is_empty() {
            true => Uses::default(),
            false => shared.uses(source, cluster, 300 * MICROSECOND, true),
        };
        let mut steps: Vec<String> = calls
            .iter()
            .flat_map(|(server, times)| (0..*times).map(move |_| format!("\"call s{server} 0ns\"")))
            .chain(uses.steps(shared))
            .collect();
        shuffle(source, &mut steps);
        let held = uses.cpu();
        let mut computed = held;
        let mut script = Vec::new();
        let mut burn = |source: &mut Source, script: &mut Vec<String>, most: u64| {
            let span = source.draw(MICROSECOND, most);
            computed += span;
            script.push(format!("\"burn {span}ns\""));
        };
        burn(source, &mut script, 400 * MICROSECOND);
        let sleeps = if source.draw(0, 3) == 0 { source.draw(1, MILLISECOND) } else { 0 };
        if sleeps > 0 {
            script.push(format!("\"sleep {sleeps}ns\""));
        }
        for step in steps {
            script.push(step);
            burn(source, &mut script, 300 * MICROSECOND);
        }
        let services: u64 = calls.iter().map(|(server, times)| times * whole(servers, *server)).sum();
        let operations =
            uses.operations() + calls.iter().map(|(server, times)| times * works(servers, *server)).sum::<u64>();
        let (lends, blocking) =
            waits.get(&name).copied().unwrap_or((10 * (services + held), 20 * (services + held + operations)));
        let budget = (computed + services + lends + MICROSECOND).max(limits::BUDGET_MIN);
        let period = (budget + sleeps + operations + blocking)
            * source.draw(if across { 8 } else { 2 }, if across { 40 } else { 12 })
            + source.draw(0, MILLISECOND);
        longest = longest.max(period);
        let deadline =
            if across || source.draw(0, 1) == 0 { period } else { source.draw(budget.max(period / 2), period) };
        let phase = if source.draw(0, 1) == 0 { 0 } else { source.draw(0, period) };
        let _ = write!(
            text,
            "\n[tasks.{name}]\ncluster = \"c{cluster}\"\nscript = [{}]\nperiod = \"{period}ns\"\ndeadline = \"{deadline}ns\"\nbudget = \
             \"{budget}ns\"\nwcet = \"{computed}ns\"\nphase = \"{phase}ns\"\nbacklog = 255\nsuspends = \"{sleeps}ns\"\n",
            script.join(", ")
        );
        uses.write(text, shared);
        for (server, times) in calls {
            let _ = write!(
                text,
                "handles.s{server} = \"endpoint s{server}: call\"\nuses.s{server} = {{ times = {times} }}\n"
            );
        }
    }
    if let Some(server) = usable.first().filter(|_| idles) {
        let _ = write!(
            text,
            "\n[tasks.idler{cluster}]\ncluster = \"c{cluster}\"\nclass = \"background\"\nscript = [\"call s{server} 0ns\", \"burn 7us\", \
             \"repeat\"]\nhandles.s{server} = \"endpoint s{server}: call\"\n"
        );
    }
    longest
}

/// CPU time of one request with all calls that it makes.
fn whole(servers: &[Server], index: usize) -> u64 {
    let calls = servers[index].calls.iter();
    servers[index].service + calls.map(|(other, times)| times * whole(servers, *other)).sum::<u64>()
}

/// How long engines work in one request with all calls that it makes.
fn works(servers: &[Server], index: usize) -> u64 {
    servers[index].uses.operations()
        + servers[index].calls.iter().map(|(other, times)| times * works(servers, *other)).sum::<u64>()
}

/// The programs of the servers of such a system, with names that begin with `server`: each service takes as long as it may, but for so many
/// nanoseconds, with the calls that are declared in between.
pub(crate) fn programs(manifest: &Manifest, spare: u64) -> Vec<(usize, Program)> {
    let system = &manifest.system;
    let program = |(task, one): (usize, &fusee_manifest::Task)| {
        one.name.strip_prefix("server").filter(|_| one.script.is_empty())?;
        let (mut endpoint, mut called) = (0, Vec::new());
        for entry in one.environment.iter().filter(|entry| entry.kind == kind::ENDPOINT) {
            let handle = system.handle(task, entry.handle)?;
            let is_it = |(by, at, _): &&(usize, usize, u32)| (*by, *at) == (task, handle.object as usize);
            match system.calls.iter().find(is_it) {
                _ if handle.rights & rights::RECEIVE != 0 => endpoint = entry.handle,
                None => {}
                Some((.., times)) => {
                    let longest = system.endpoints[handle.object as usize].1.service_max.saturating_sub(spare);
                    called.extend((0..*times).map(|_| Part::Call(entry.handle, longest)));
                }
            }
        }
        let longest = system.endpoints.iter().find(|(_, endpoint)| endpoint.server as usize == task)?.1.service_max;
        let span = longest.saturating_sub(spare);
        let part = span / (called.len() as u64 + 1);
        let mut service = Vec::new();
        for call in &called {
            service.extend([Part::Burn(part), *call]);
        }
        service.push(Part::Burn(span - part * called.len() as u64));
        Some((task, Program::Server { endpoint, service }))
    };
    system.tasks.iter().enumerate().filter_map(program).collect()
}
