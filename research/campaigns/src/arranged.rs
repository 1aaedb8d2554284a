//! Fine bounds against observations: random task sets of the study, placed by an arrangement of CPUs and GPUs, each simulated on the whole kernel.
//!
//! A set is one that the study accepts, on 4 or 8 CPUs and 2 or 4 GPUs, under EDF, fair lateness or rate-monotonic priorities; either because its lateness
//! is bounded, or because no job ends after its period. Its system has a pool for each GPU cluster, engines by arrival, and copies in
//! chunks; with migration from GPU to GPU a copy engine of each is acquired at once. Its jobs do all that they may: each moves its state when its token
//! is for another GPU than the last one.
//!
//! The observations of each job are how long it is pi-blocked while it waits for engines, for its token, and as a donor, by suspension-oblivious
//! analysis; and its response time.
//!
//! # Limits
//!
//! - The simulated kernel takes no time; bottom halves do.
//! - State that migrates through memory is copied with the data of the job, in and out.
//! - At most seven tasks use a GPU cluster, as a device has room for.
//!
//! Not here: bounds (`sched/arrangements`).

use std::fmt::Write;
use std::path::Path;

use fusee_accel_contract::space::tables_bytes;
use fusee_accel_contract::{Contexts, EngineIndex};
use fusee_arrangements::arrangement::{Arrangement, Owner, Platform, Speeds};
use fusee_arrangements::costs::{Costs, Line};
use fusee_arrangements::draw::{Nominal, SETTINGS, Setting, draw};
use fusee_arrangements::engines::Migration;
use fusee_arrangements::judge::{Bounds, CHUNK, Goal, Rules, judge};
use fusee_arrangements::task::{Gpu, Task};
use fusee_manifest::{Manifest, Resolved};
use fusee_sched::key::PolicyName;
use fusee_simulator::gpu_job::{GpuHandles, GpuTask};
use fusee_simulator::workload::Source;
use fusee_simulator::{Checks, First, Options, Program};

use crate::blocking::{Observed, observe, tighten};
use crate::draws::{Draws, Wrong};

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
/// First releases are not before.
const START: u64 = 10 * MILLISECOND;
/// Each system runs for so long.
const LENGTH: u64 = 1_500 * MILLISECOND;
/// Tasks that use one GPU cluster, at most: a device has room for so many clients. And all tasks.
const USERS: usize = 7;
const TASKS: usize = 28;
/// Engines of a GPU, by their numbers.
const ENGINES: [&str; 3] = ["ee", "in", "out"];
/// The policies of CPUs.
pub const POLICIES: [PolicyName; 3] = [PolicyName::Fl, PolicyName::Edf, PolicyName::Rm];
/// The kinds of blocking.
const WAITS: [&str; 3] = ["engines", "tokens", "donation"];

/// A task set under an arrangement.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The arrangement.
    pub arrangement: Arrangement,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The costs of its machine.
    pub costs: Costs,
    /// The policy of its CPUs, and why it is accepted.
    pub rules: Rules,
}

/// The bounds of the tasks of a set; `None`: it is refused.
pub type Claims<'a> = &'a (dyn Fn(&Drawn) -> Option<Vec<Bounds>> + Sync);

/// The bounds of a set as the study judges it.
#[must_use]
pub fn judged(drawn: &Drawn) -> Option<Vec<Bounds>> {
    judge(&drawn.tasks, &drawn.arrangement, &drawn.costs, drawn.rules).ok()
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct ArrangedReport {
    /// Sets simulated.
    pub systems: u64,
    /// Sets that were drawn and are refused, or too large.
    pub refused: u64,
    /// Jobs completed.
    pub jobs: u64,
    /// Tasks in which some job was blocked by engines, by tokens, and as a donor.
    pub blocked: [u64; 3],
    /// Sets with migration from GPU to GPU, and sets whose CPU clusters share GPUs.
    pub kinds: [u64; 2],
    /// Sets under each policy of [`POLICIES`].
    pub policies: [u64; 3],
    /// Sets that could not be simulated.
    pub failures: Vec<Wrong>,
    /// Claims that do not hold.
    pub violations: Vec<Wrong>,
    /// The largest observation and its bound, by their ratio: of each kind of blocking, and of a response time.
    pub tightest: [(u64, u64); 4],
}

/// Draws and simulates sets on all CPUs of the host, and compares the observations with `claims`.
pub fn arranged(draws: Draws, claims: Claims<'_>) -> ArrangedReport {
    let check = |report: &mut ArrangedReport, number: u64| {
        if let Err(what) = report.check(draws.seed, number, claims) {
            report.failures.push(Wrong { seed: draws.seed, number, what });
        }
    };
    let mut report = draws.judge(&check, |report| !report.violations.is_empty(), ArrangedReport::join);
    report.violations.sort();
    report.failures.sort();
    report
}

/// The costs of the simulated machine: bottom halves and copies.
fn costs(source: &mut Source) -> Costs {
    let line = |least: u64, mebibyte: u64| Line { least: least * MICROSECOND, mebibyte: mebibyte * MICROSECOND };
    let (copy, near) = (source.draw(200, 1_200), source.draw(100, 900));
    Costs {
        bottom_half: source.pick(&[20, 100, 400]) * MICROSECOND,
        inbound: line(20, copy),
        outbound: line(20, copy),
        near: line(20, near),
        far: line(20, near),
        ..Costs::default()
    }
}

/// The set with this number.
#[must_use]
pub fn drawn(seed: u64, number: u64) -> Drawn {
    let mut source = Source::new(seed, number);
    let (cpus, gpus) = source.pick(&[(4, 2), (4, 2), (4, 4), (8, 4)]);
    let cpu_cluster = source.pick(&[1, 2, 4, cpus]);
    let gpu_cluster = source.pick(&[1, 2, 2, gpus]);
    let migration = match gpu_cluster {
        1 => Migration::Never,
        _ => source.pick(&[Migration::System, Migration::Peer, Migration::Peer]),
    };
    // A pool has twelve tokens at most.
    let tokens = Some(source.draw(1, 3));
    let (platform, speeds) = (Platform { cpus, gpus }, Speeds::EQUAL);
    let arrangement = Arrangement { platform, cpu_cluster, gpu_cluster, migration, tokens, speeds };
    let costs = costs(&mut source);
    let nominal = Nominal { inbound: costs.inbound, outbound: costs.outbound };
    let is_whole = |setting: &Setting| {
        let state = setting.data * setting.state / 100;
        // Light tasks are too many, and only state in whole chunks is copied with the data.
        setting.utilisation.0 >= 100
            && setting.period.1 == 100
            && state.is_multiple_of(CHUNK)
            && (state == 0 || (setting.data / 2).is_multiple_of(CHUNK))
    };
    let settings: Vec<Setting> = (0..SETTINGS).filter_map(Setting::of).filter(is_whole).collect();
    let setting = settings[source.draw(0, settings.len() as u64 - 1) as usize];
    let target = source.draw(cpus * 300, cpus * 1_000);
    let mut tasks = draw(&setting, target, &nominal, seed, number);
    for gpu in tasks.iter_mut().filter_map(|task| task.gpu.as_mut()) {
        // Jobs of the simulator have two kernels, and hold their token for nothing else.
        (gpu.kernels, gpu.kernel, gpu.section) = (2, gpu.kernel / 2, 0);
        // State that does not migrate is none.
        if migration == Migration::Never {
            gpu.state = 0;
        }
    }
    // A source of its own: nothing else that is drawn depends on it.
    let mut source = Source::new(!seed, number);
    let policy = source.pick(&POLICIES);
    let goal = source.pick(&[Goal::Bounded, Goal::InTime]);
    Drawn { arrangement, tasks, costs, rules: Rules { policy, goal, ..Rules::TEXT } }
}

impl ArrangedReport {
    fn check(&mut self, seed: u64, number: u64, claims: Claims<'_>) -> Result<(), String> {
        let drawn = drawn(seed, number);
        let bounds = if drawn.tasks.len() <= TASKS { claims(&drawn) } else { None };
        let Some(bounds) = bounds.filter(|bounds| crowd(bounds) <= USERS) else {
            self.refused += 1;
            return Ok(());
        };
        let text = text(&drawn, &bounds);
        let fail = |why: String| format!("{} {why}\n{text}", drawn.arrangement);
        let manifest = Manifest::parse(Path::new("arranged.toml"), &text).map_err(|error| fail(error.to_string()))?;
        let mut programs = Vec::new();
        for (task, one) in drawn.tasks.iter().enumerate() {
            if let Some(gpu) = &one.gpu {
                let program = program(&drawn, &bounds, &manifest.system, task, gpu).map_err(fail)?;
                programs.push((task, Program::Gpus(program)));
            }
        }
        let options = Options { checks: Checks::Instants(64), first: First::Tasks, programs, ..Options::default() };
        let seen = observe(&manifest, &options, START + LENGTH).map_err(fail)?;
        self.systems += 1;
        let policies = self.policies.iter_mut().zip(POLICIES);
        policies.for_each(|(count, policy)| *count += u64::from(policy == drawn.rules.policy));
        self.kinds[0] += u64::from(drawn.arrangement.migration == Migration::Peer && crowd(&bounds) > 1);
        self.kinds[1] += u64::from(drawn.arrangement.shares() && crowd(&bounds) > 1);
        for (task, (seen, bound)) in seen.iter().zip(&bounds).enumerate() {
            let Some(seen) = seen else { continue };
            self.compare(seen, bound, &mut |what, seen, bound| Wrong {
                seed,
                number,
                what: format!(
                    "{} {:?}: {what} of t{task} {seen} ns, bound {bound} ns\n{text}",
                    drawn.arrangement, drawn.rules
                ),
            });
        }
        Ok(())
    }

    fn compare(&mut self, seen: &Observed, bound: &Bounds, wrong: &mut dyn FnMut(&str, u64, u64) -> Wrong) {
        self.jobs += seen.jobs;
        let bounds = [bound.engines, bound.tokens, bound.donor];
        for (kind, (seen, bound)) in seen.blocked.into_iter().zip(bounds).enumerate() {
            self.blocked[kind] += u64::from(seen > 0);
            tighten(&mut self.tightest[kind], (seen, bound));
            if seen > bound {
                self.violations.push(wrong(WAITS[kind], seen, bound));
            }
        }
        tighten(&mut self.tightest[WAITS.len()], (seen.response, bound.response));
        if seen.response > bound.response {
            self.violations.push(wrong("response", seen.response, bound.response));
        }
    }

    /// Merges `other`, a report on other task sets: counts add up, failures and violations are appended, the tightest ratios stay.
    pub fn join(&mut self, other: ArrangedReport) {
        self.systems += other.systems;
        self.refused += other.refused;
        self.jobs += other.jobs;
        self.blocked.iter_mut().zip(other.blocked).for_each(|(sum, more)| *sum += more);
        self.kinds.iter_mut().zip(other.kinds).for_each(|(sum, more)| *sum += more);
        self.policies.iter_mut().zip(other.policies).for_each(|(sum, more)| *sum += more);
        self.failures.extend(other.failures);
        self.violations.extend(other.violations);
        self.tightest.iter_mut().zip(other.tightest).for_each(|(most, other)| tighten(most, other));
    }
}

impl std::fmt::Display for ArrangedReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ratio = |kind: usize| self.tightest[kind].0 as f64 / self.tightest[kind].1.max(1) as f64;
        writeln!(
            f,
            "{} task sets under arrangements ({} under FL, {} EDF, {} RM; {} with migration from GPU to GPU, {} with shared GPUs; \
             {} refused), {} jobs; \
             tasks blocked by engines {} (tightest {:.3}), by tokens {} ({:.3}), as donors {} ({:.3}); response {:.3}",
            self.systems,
            self.policies[0],
            self.policies[1],
            self.policies[2],
            self.kinds[0],
            self.kinds[1],
            self.refused,
            self.jobs,
            self.blocked[0],
            ratio(0),
            self.blocked[1],
            ratio(1),
            self.blocked[2],
            ratio(2),
            ratio(3)
        )?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "failed: {failure}"))?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "violated: {violation}"))
    }
}

//--- The system

/// The tasks of the GPU cluster that most tasks use.
fn crowd(bounds: &[Bounds]) -> usize {
    let of = |cluster: usize| bounds.iter().filter(|one| one.place.gpus == Some(cluster)).count();
    bounds.iter().filter_map(|one| one.place.gpus).map(of).max().unwrap_or(0)
}

/// The GPUs of a GPU cluster.
fn gpus_of(arrangement: &Arrangement, cluster: usize) -> std::ops::Range<usize> {
    let size = arrangement.gpu_cluster as usize;
    cluster * size..(cluster + 1) * size
}

fn text(drawn: &Drawn, bounds: &[Bounds]) -> String {
    let Drawn { arrangement, tasks, rules, .. } = drawn;
    let mut text = format!(
        "[system]\nname = \"arranged\"\nboard = \"virt\"\ncpus = {}\nstart = \"{START}ns\"\npolicy = \"{}\"\nadmission = \"warn\"\n",
        arrangement.platform.cpus,
        rules.policy.name()
    );
    for cluster in 0..arrangement.cpu_clusters() {
        let first = cluster as u64 * arrangement.cpu_cluster;
        let cpus: Vec<String> = (first..first + arrangement.cpu_cluster).map(|cpu| cpu.to_string()).collect();
        let _ = writeln!(text, "[clusters.c{cluster}]\ncpus = [{}]", cpus.join(", "));
    }
    let users = |cluster: usize| -> Vec<usize> {
        (0..tasks.len()).filter(|task| bounds[*task].place.gpus == Some(cluster)).collect()
    };
    for cluster in (0..arrangement.gpu_clusters()).filter(|cluster| !users(*cluster).is_empty()) {
        let protocol = match arrangement.owner(cluster) {
            Owner::One(cpus) => format!("limit = \"r2dglp\"\ncluster = \"c{cpus}\""),
            Owner::Shared(_) => "limit = \"ck-omlp\"".to_owned(),
        };
        let devices: Vec<String> = gpus_of(arrangement, cluster).map(|gpu| format!("gpu{gpu}")).collect();
        let replicas = arrangement.tokens.unwrap_or(1) * arrangement.gpu_cluster;
        let _ = writeln!(text, "[pools.p{cluster}]\nreplicas = {replicas}\ndevices = {devices:?}\n{protocol}");
    }
    for (index, (task, bound)) in tasks.iter().zip(bounds).enumerate() {
        let Task { period, cpu, .. } = task;
        let _ = write!(
            text,
            "[tasks.t{index}]\ncluster = \"c{}\"\nperiod = \"{period}ns\"\nbudget = \"{period}ns\"\nwcet = \"{}ns\"\nbacklog = 255\n\
             phase = \"{}ns\"\n",
            bound.place.cpus,
            bound.execution,
            // First releases lie close together.
            index as u64 * 77_777
        );
        let Some(cluster) = bound.place.gpus else {
            let _ = writeln!(text, "script = [\"burn {cpu}ns\"]");
            continue;
        };
        let _ = write!(
            text,
            "binary = \"apps/gpusync\"\nsuspends = \"1000s\"\nuses.p{cluster} = {{ cpu = \"1ms\" }}\n[tasks.t{index}.handles]\n\
             p{cluster} = \"pool p{cluster}: acquire\"\n"
        );
        for gpu in gpus_of(arrangement, cluster) {
            for engine in ENGINES {
                let _ = writeln!(text, "\"{engine}.{gpu}\" = \"engine {engine}{gpu}: acquire\"");
            }
        }
    }
    for cluster in 0..arrangement.gpu_clusters() {
        let users = users(cluster);
        if !users.is_empty() {
            gpus_of(arrangement, cluster).for_each(|gpu| gpu_text(&mut text, drawn, (cluster, gpu)));
        }
    }
    text
}

/// A GPU: its driver, its interrupt, its device, and its engines.
fn gpu_text(text: &mut String, drawn: &Drawn, (cluster, gpu): (usize, usize)) {
    let Drawn { arrangement, costs, .. } = drawn;
    let cpus = match arrangement.owner(cluster) {
        Owner::One(cpus) => cpus,
        Owner::Shared(clusters) => clusters.start,
    };
    let _ = write!(
        text,
        "[tasks.driver{gpu}]\nbinary = \"gpu-driver/gpu-driver\"\ncluster = \"c{cpus}\"\nclass = \"service\"\nperiod = \"10ms\"\n\
         budget = \"5ms\"\nparameters = {{ bottom_half_us = {} }}\n\
         [tasks.driver{gpu}.handles]\nline = \"interrupt gpu{gpu}: acknowledge\"\nevent = \"notification gpu{gpu}: wait\"\n\
         tables = \"region tables{gpu}: read write physical\"\n",
        costs.bottom_half / MICROSECOND
    );
    let tables = tables_bytes(Contexts::DEFAULT, arrangement.platform.gpus as usize, 0);
    let _ = write!(
        text,
        "[notifications.gpu{gpu}]\n\
         [interrupts.gpu{gpu}]\nline = {}\nnotification = \"gpu{gpu}\"\nedge = true\ncluster = \"c{cpus}\"\n\
         [regions.tables{gpu}]\nbytes = {tables}\n\
         [devices.gpu{gpu}]\ndriver = \"driver{gpu}\"\nfirmware = \"engine-core\"\nmemory = \"64KiB\"\n",
        112 + gpu
    );
    for (index, engine) in ENGINES.iter().enumerate() {
        let _ = write!(
            text,
            "[engines.{engine}{gpu}]\norder = \"fifo\"\npool = \"p{cluster}\"\ndevice = \"gpu{gpu}\"\nindex = {index}\n\
             interrupt = \"gpu{gpu}\"\n"
        );
        if index > 0 && arrangement.migration == Migration::Peer {
            let _ = writeln!(text, "group = \"copies{cluster}\"");
        }
    }
}

/// The program of a task that uses GPUs.
fn program(drawn: &Drawn, bounds: &[Bounds], system: &Resolved, task: usize, gpu: &Gpu) -> Result<GpuTask, String> {
    let Drawn { arrangement, tasks, costs, .. } = drawn;
    let cluster = bounds[task].place.gpus.ok_or("no GPU cluster")?;
    let handle = |name: &str| {
        let mut entries = system.tasks[task].environment.iter().filter(|entry| entry.name == name && entry.handle != 0);
        entries.next().map(|entry| entry.handle).ok_or_else(|| format!("no handle `{name}`"))
    };
    let mut gpus = Vec::new();
    for number in gpus_of(arrangement, cluster) {
        // A task with one device has a shorter name for its completions.
        let done = if arrangement.gpu_cluster == 1 { "gpu_done".to_owned() } else { format!("gpu_done.gpu{number}") };
        let mut handles = GpuHandles { done: handle(&done)?, ..GpuHandles::default() };
        for index in EngineIndex::ALL {
            let name = format!("{}{number}", ENGINES[index.number()]);
            let engine = system.engines.iter().position(|one| one.0 == name).ok_or("no engine")?;
            let is_it =
                |user: &fusee_abi::image::EngineUser| (user.engine as usize, user.task as usize) == (engine, task);
            let user = system.engine_users.iter().position(is_it).ok_or("no use")?;
            handles.engines[index.number()] = (handle(&format!("{}.{number}", ENGINES[index.number()]))?, user);
        }
        gpus.push(handles);
    }
    let is_peer = arrangement.migration == Migration::Peer;
    // Through memory state is copied with the data.
    let bytes = gpu.input + if is_peer { 0 } else { gpu.state };
    let (copy, chunk) = match bytes / CHUNK {
        0 => (costs.inbound.time(bytes), costs.inbound.time(bytes)),
        chunks => (chunks * costs.inbound.time(CHUNK), costs.inbound.time(CHUNK)),
    };
    let pieces = if is_peer { gpu.state / CHUNK } else { 0 };
    let count = gpus.len();
    let before = tasks[task].cpu / 2;
    Ok(GpuTask {
        pool: (handle(&format!("p{cluster}"))?, arrangement.tokens.unwrap_or(1) as usize),
        gpus,
        compute: before,
        kernel: gpu.kernel,
        copy,
        chunk,
        moves: vec![vec![pieces * costs.near.time(CHUNK); count]; count],
        pieces,
        moments: Vec::new(),
        factor: 1,
    })
}
