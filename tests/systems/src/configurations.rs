//! Four CPUs and four GPUs in each arrangement: clusters of one, two or four CPUs that use GPU clusters of one, two or four GPUs,
//! with engines by arrival and by priority.
//!
//! A GPU cluster is a pool, with some tokens for each of its GPUs. Where CPU clusters share it they do so by the CK-OMLP, else its
//! tasks take tokens by the R2DGLP. Each task, `apps/product`, works in each job on the GPU that its token is for, and checks the
//! result, and that no other task has that token.
//!
//! Source: Elliott 2015, section 3.2.2: CPUs in clusters of equal size, GPUs in clusters of equal size.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;

use anyhow::Result;
use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Ledger, POOL};
use fusee_host::system::Workspace;
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Profile, Resolved};

use crate::case::Found;
use crate::target;

/// CPUs, and GPUs.
const COUNT: usize = 4;
/// How large clusters are.
const SIZES: [usize; 3] = [1, 2, COUNT];
/// Tokens for one GPU, as far as there are so many,
const TOKENS: usize = 3;
/// and of all GPUs of a pool.
const TOKENS_MAX: usize = 8;
/// Tasks for each GPU, as far as a GPU has room for clients.
const CLIENTS: usize = 4;
/// Clients that one GPU has room for.
const CLIENTS_MAX: usize = 7;
/// The beginning of the clients' names.
const CLIENT: &str = "client";
/// Jobs of each task. The last one ends with its task, and the ledger does not count it.
const JOBS: usize = 7;

/// One arrangement.
pub struct Configuration {
    /// CPUs of a cluster.
    cpus: usize,
    /// GPUs of a GPU cluster.
    gpus: usize,
    /// The order in which an engine is granted.
    order: &'static str,
}

/// All of them.
pub fn all() -> Vec<Configuration> {
    let sizes = SIZES.into_iter().flat_map(|cpus| SIZES.map(|gpus| (cpus, gpus)));
    sizes.flat_map(|(cpus, gpus)| ["fifo", "priority"].map(|order| Configuration { cpus, gpus, order })).collect()
}

/// Builds and runs a system of this arrangement. Returns the findings and the faults.
///
/// # Errors
/// The system cannot be built or run.
pub fn check(workspace: &Workspace, name: &str, one: &Configuration) -> Result<Found> {
    let manifest = Manifest::parse(Path::new(&one.name()), &one.manifest())?;
    let case = target::Case { manifest, profile: Profile::Det };
    let programs = workspace.builder().programs(&[&case.manifest.system])?;
    target::run_and(workspace, name, &case, &programs, true, |run, problems| {
        let seen = Seen::of(run.trace.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?, &case.manifest.system);
        problems.extend(one.problems(&seen));
        Ok(seen.to_string())
    })
}

impl Configuration {
    /// The name of the arrangement.
    pub fn name(&self) -> String {
        format!("configurations_cpus_by_{}_gpus_by_{}_{}", self.cpus, self.gpus, self.order)
    }

    /// Tokens for one GPU, and tasks that share a GPU cluster.
    fn load(&self) -> (usize, usize) {
        ((TOKENS_MAX / self.gpus).min(TOKENS), (CLIENTS * self.gpus).min(CLIENTS_MAX))
    }

    /// Whether several CPU clusters share a GPU cluster.
    fn is_shared(&self) -> bool {
        self.cpus < self.gpus
    }

    /// The faults in the findings.
    pub fn problems(&self, seen: &Seen) -> Vec<String> {
        let (tokens, clients) = self.load();
        let jobs = (COUNT / self.gpus * clients * (JOBS - 1)) as u64;
        // Only so can three want one engine at once: jobs with requests for a shared pool are not more than CPUs, here no more than
        // tokens; and four GPUs have two tokens each.
        let contended = tokens == TOKENS && !self.is_shared();
        [
            (seen.jobs == jobs, format!("{} jobs, not {jobs}", seen.jobs)),
            (seen.token_waits > 0 || !contended, "nobody waited for a token".to_owned()),
            (seen.engine_waits > 0, "nobody waited for an engine".to_owned()),
            ((seen.passed > 0) == (contended && self.order == "priority"), format!("{} were passed over", seen.passed)),
        ]
        .into_iter()
        .filter_map(|(holds, problem)| (!holds).then_some(problem))
        .collect()
    }

    /// The system.
    pub fn manifest(&self) -> String {
        let Configuration { cpus, gpus, order } = *self;
        let (tokens, clients) = self.load();
        let mut text = format!(
            "[system]\nname = \"{}\"\nboard = \"virt\"\ncpus = {COUNT}\nstart = \"10ms\"\nadmission = \"warn\"\n",
            self.name()
        );
        for cluster in 0..COUNT / cpus {
            let list: Vec<String> = (cluster * cpus..(cluster + 1) * cpus).map(|cpu| cpu.to_string()).collect();
            let _ = writeln!(text, "[clusters.cpus{cluster}]\ncpus = [{}]", list.join(", "));
        }
        let mut expected = (String::new(), String::new());
        for pool in 0..COUNT / gpus {
            // Those of the CPUs with the same numbers.
            let first = pool * gpus;
            let clusters: Vec<usize> = (first / cpus..(first + gpus).div_ceil(cpus)).collect();
            let protocol = match self.is_shared() {
                false => format!("limit = \"r2dglp\"\ncluster = \"cpus{}\"", clusters[0]),
                true => "limit = \"ck-omlp\"".to_owned(),
            };
            let devices: Vec<String> = (first..first + gpus).map(|gpu| format!("\"gpu{gpu}\"")).collect();
            let (replicas, devices) = (gpus * tokens, devices.join(", "));
            let _ = writeln!(text, "[pools.pool{pool}]\nreplicas = {replicas}\ndevices = [{devices}]\n{protocol}");
            let _ = writeln!(text, "[regions.holders{pool}]\nbytes = \"4KiB\"");
            let names: Vec<String> = (0..clients).map(|client| format!("{CLIENT}{pool}_{client}")).collect();
            for (number, name) in names.iter().enumerate() {
                let cluster = clusters[number % clusters.len()];
                let _ = write!(
                    text,
                    "[regions.{name}]\nbytes = \"4KiB\"\n\
                     [tasks.{name}]\nbinary = \"apps/product\"\ncluster = \"cpus{cluster}\"\nperiod = \"{}ms\"\ndeadline = \"{}ms\"\n\
                     phase = \"{}us\"\nbudget = \"2ms\"\nsuspends = \"16ms\"\n\
                     parameters = {{ jobs = {JOBS}, product_us = 2000, gpus = {gpus}, first = {first},\
                      bits = {} }}\n\
                     [tasks.{name}.handles]\ngpu = \"pool pool{pool}: acquire\"\nbuffer = \"region {name}: read write\"\n\
                     holders = \"region holders{pool}: read write\"\n",
                    // Later tasks are more urgent.
                    20 + number % 3 * 2,
                    20 - number,
                    300 * number,
                    number + 1
                );
                for place in 0..gpus {
                    for engine in ["in", "ee", "out"] {
                        let _ = writeln!(text, "\"{engine}.{place}\" = \"engine {engine}{}: acquire\"", first + place);
                    }
                }
                let _ = write!(expected.0, "\"{name}: 1 {JOBS}\", \"{name}: 2 0\", ");
                let _ = write!(expected.1, "\"{name}\", ");
            }
            for place in 0..gpus {
                gpu(&mut text, first + place, (first + place) / cpus, pool, order, &names);
            }
        }
        let (marks, no_misses) = expected;
        let _ = write!(
            text,
            "[tasks.end]\nscript = [\"shutdown\"]\ncluster = \"cpus0\"\nperiod = \"1s\"\nphase = \"{}ms\"\ndeadline = \"1ms\"\n\
             budget = \"300us\"\nhandles = {{ system = \"system: shutdown\" }}\n\
             [test]\nprofiles = [\"det\"]\nmarks = [{marks}]\nno_misses = [{no_misses}]\n",
            24 * JOBS
        );
        text
    }
}

/// GPU `number` with its driver, which runs in the cluster of that number, for tasks with tokens of that pool.
fn gpu(text: &mut String, number: usize, cluster: usize, pool: usize, order: &str, clients: &[String]) {
    let _ = write!(
        text,
        "[notifications.gpu{number}]\n\
         [interrupts.gpu{number}]\nline = {}\nnotification = \"gpu{number}\"\nedge = true\ncluster = \"cpus{cluster}\"\n\
         [regions.tables{number}]\nbytes = \"16KiB\"\n\
         [devices.gpu{number}]\ndriver = \"gpu{number}\"\nfirmware = \"engine-core\"\nmemory = \"64KiB\"\n\
         [tasks.gpu{number}]\nbinary = \"gpu-driver/gpu-driver\"\ncluster = \"cpus{cluster}\"\nclass = \"service\"\n\
         period = \"10ms\"\nbudget = \"2ms\"\n\
         [tasks.gpu{number}.handles]\nline = \"interrupt gpu{number}: acknowledge\"\nevent = \"notification gpu{number}: wait\"\n\
         tables = \"region tables{number}: read write physical\"\n",
        112 + number
    );
    for client in clients {
        let _ = writeln!(text, "\"buffer.{client}\" = \"region {client}: physical\"");
    }
    for (index, engine) in ["ee", "in", "out"].into_iter().enumerate() {
        let _ = write!(
            text,
            "[engines.{engine}{number}]\ndevice = \"gpu{number}\"\nindex = {index}\ninterrupt = \"gpu{number}\"\n\
             order = \"{order}\"\npool = \"pool{pool}\"\n"
        );
    }
}

/// The findings of a run.
#[derive(Default)]
pub struct Seen {
    /// Jobs that were completed by clients.
    jobs: u64,
    /// The number of those that were too late.
    misses: u64,
    /// The number of waits for a token.
    token_waits: usize,
    /// How often for an engine.
    engine_waits: usize,
    /// The number of times that an engine was granted to another than the one that had waited longest.
    passed: usize,
}

impl Seen {
    /// The findings in a trace.
    pub fn of(trace: &Trace, system: &Resolved) -> Seen {
        let mut seen = Seen::default();
        let ledgers = trace.ledgers();
        let amount = |ledger: Ledger, task: usize| ledgers.get(&(ledger as u16, task as u16)).copied().unwrap_or(0);
        for (index, _) in system.tasks.iter().enumerate().filter(|(_, task)| task.name.starts_with(CLIENT)) {
            seen.jobs += amount(Ledger::Jobs, index);
            seen.misses += amount(Ledger::Misses, index);
        }
        let mut queues: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for record in &trace.records {
            let (thread, object) = (record.thread, record.object);
            match Event::from_number(record.event) {
                Some(Event::Block) if record.value == Call::Acquire as u32 => match object & POOL {
                    0 => seen.engine_waits += 1,
                    _ => seen.token_waits += 1,
                },
                Some(Event::EngineRequest) => queues.entry(object).or_default().push(thread),
                Some(Event::EngineGrant) => {
                    let queue = queues.entry(object).or_default();
                    let place = queue.iter().position(|other| *other == thread);
                    seen.passed += usize::from(place != Some(0));
                    queue.retain(|other| *other != thread);
                }
                _ => {}
            }
        }
        seen
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { jobs, misses, token_waits, engine_waits, passed } = self;
        write!(
            f,
            "{jobs} jobs, {misses} late; waited {token_waits} times for tokens, {engine_waits} for engines, passed over {passed}"
        )
    }
}
