//! One cluster as a system: its manifest, its GPUs, and the programs of its tasks.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use fusee_abi::image::EngineUser;
use fusee_abi::trace::Record;
use fusee_accel_contract::space::tables_bytes;
use fusee_accel_contract::{CONTEXTS, Contexts, EngineIndex, PAGE_BYTES, status_retired};
use fusee_locking::pool::r2dglp_requests;
use fusee_manifest::{Manifest, Profile, Resolved};
use fusee_simulator::gpu_job::{GpuHandles, GpuTask};
use fusee_simulator::workload::Source;
use fusee_simulator::{Checks, Options, Program, simulate_observed};

use super::outcome::{Observer, Outcome};
use super::{
    Adviser, BOTTOM_HALF, CHUNK, FACTOR, MILLISECOND, Overrun, Policy, Scale, Setup, Task, distance, may_overrun,
};
use crate::experiment::systems::OVERHEADS;
use fusee_host::system::{self as images, RunOptions, Workspace};

/// First releases are later than this.
const START: u64 = 10 * MILLISECOND;
/// A token is not taken away before: jobs of ten times their time are the ones that are measured.
const TOKEN_WATCHDOG: u64 = 10_000 * MILLISECOND;
/// Engines of a GPU, by their numbers.
const ENGINES: [&str; 3] = ["ee", "in", "out"];
/// Clients of a device: context 0 is the driver's.
const CLIENTS: usize = CONTEXTS - 1;
/// The time that a copy takes besides its bytes, and each of these, in nanoseconds.
const COPY_SETUP: u64 = 25_000;
const COPY_BYTE: u64 = 10;

/// One cluster, ready to run.
struct Cluster<'a> {
    scale: &'a Scale,
    setup: Setup,
    tasks: Vec<Task>,
    /// The budget of each GPU task, in nanoseconds.
    budgets: Vec<u64>,
    /// The instants from which on a job of each GPU task runs longer than declared.
    moments: Vec<Vec<u64>>,
    manifest: Manifest,
    length: u64,
}

/// Runs a cluster for `length` nanoseconds in the simulator, with a seed and the cluster's number.
pub fn run(scale: &Scale, setup: Setup, seed: [u64; 2], length: u64) -> Result<Vec<Outcome>> {
    Cluster::new(scale, setup, seed, length)?.simulate()
}

/// Runs a cluster in QEMU, and in the simulator: the results of its tasks in both.
pub fn emulate(
    workspace: &Workspace,
    scale: &Scale,
    setup: Setup,
    seed: u64,
    length: u64,
) -> Result<[Vec<Outcome>; 2]> {
    let cluster = Cluster::new(scale, setup, [seed, 0], length)?;
    let simulated = cluster.simulate()?;
    let programs = workspace.builder().programs(&[&cluster.manifest.system])?;
    let mut observer = cluster.observer()?;
    let image = workspace.image_of(cluster.manifest, programs, Profile::Det, false)?;
    let options = RunOptions { quantum: 50, ..RunOptions::quiet(240) };
    let run = images::run(workspace, &image, &options)?;
    let trace = run.trace?;
    ensure!(
        run.outcome.code == Some(0) && trace.lost == 0,
        "QEMU ended with {:?}, {} records lost:\n{}",
        run.outcome.code,
        trace.lost,
        run.outcome.console
    );
    trace.records.iter().for_each(|record| observer.see(record));
    Ok([observer.end()?, simulated])
}

impl Cluster<'_> {
    fn new(scale: &Scale, setup: Setup, [seed, number]: [u64; 2], length: u64) -> Result<Cluster<'_>> {
        let tasks = (scale.tasks)(&mut Source::new(seed, number));
        let moments = (0..scale.users).map(|one| {
            let mut source = Source::new(seed, (2 + one as u64) << 8 | number);
            let overruns = setup.aberrant && may_overrun(scale, one);
            if overruns { moments(&mut source, scale.apart, length) } else { Vec::new() }
        });
        let moments: Vec<Vec<u64>> = moments.collect();
        let budgets: Vec<u64> = tasks[..scale.users].iter().map(|task| budget(scale, &tasks, task, setup)).collect();
        let text = text(scale, &tasks, &budgets, &moments, setup, length);
        let mut manifest = Manifest::parse(Path::new("gpusync"), &text)?;
        if !scale.is_emulated {
            connect(scale, &mut manifest.system)?;
        }
        Ok(Cluster { scale, setup, tasks, budgets, moments, manifest, length })
    }

    fn observer(&self) -> Result<Observer> {
        let engines = (0..self.scale.gpus).map(|gpu| engine(&self.manifest.system, gpu, EngineIndex::Execution));
        let outcome = |number: usize| {
            let task = &self.tasks[number];
            Outcome {
                declared: 2 * task.kernel,
                work: task.execution(self.scale),
                period: task.period,
                budget: self.budgets[number],
                releases_early: self.setup.overrun.releases_early(),
                may_overrun: may_overrun(self.scale, number),
                overruns: overruns(task, &self.moments[number], self.length),
                ..Outcome::default()
            }
        };
        let outcomes = (0..self.scale.users).map(outcome).collect();
        Ok(Observer::new(self.scale, outcomes, engines.collect::<Result<_>>()?))
    }

    fn simulate(&self) -> Result<Vec<Outcome>> {
        let mut programs = Vec::new();
        for one in 0..self.scale.users {
            programs.push((one, Program::Gpus(self.program(one)?)));
        }
        if !self.scale.is_emulated {
            for gpu in 0..self.scale.gpus {
                programs.push(driver(self.scale, &self.manifest.system, gpu)?);
            }
        }
        let mut observer = self.observer()?;
        let options =
            Options { overheads: OVERHEADS, checks: Checks::Instants(10_000), programs, ..Options::default() };
        let mut see = |record: &Record| observer.see(record);
        let report = simulate_observed(&self.manifest, &options, START + 2 * self.length, &mut see)?;
        ensure!(
            report.exit == Some(0) && report.late_completions == 0,
            "the simulation ended with {:?}, {} completions late",
            report.exit,
            report.late_completions
        );
        observer.end()
    }

    /// The program of GPU task `one`.
    fn program(&self, one: usize) -> Result<GpuTask> {
        let (system, scale, task) = (&self.manifest.system, self.scale, &self.tasks[one]);
        let handle = |name: &str| handle(system, one, name);
        let mut gpus = Vec::new();
        for gpu in 0..scale.gpus {
            let mut handles = GpuHandles { done: handle(&format!("gpu_done.gpu{gpu}"))?, ..GpuHandles::default() };
            for number in EngineIndex::ALL {
                let engine = engine(system, gpu, number)?;
                let is_it = |user: &EngineUser| user.engine as usize == engine && user.task as usize == one;
                let user = system.engine_users.iter().position(is_it).context("no use")?;
                handles.engines[number.number()] = (handle(&format!("{}.{gpu}", ENGINES[number.number()]))?, user);
            }
            gpus.push(handles);
        }
        let provisioned = if scale.is_emulated { copied(bytes(task)) } else { task.copy };
        let from = |distance: usize| if distance == 0 { 0 } else { provisioned * scale.state[distance - 1] / 1_000 };
        let copy = provisioned * scale.copies / 1_000;
        let moves = |to| (0..scale.gpus).map(|gpu| from(distance(to, gpu))).collect();
        Ok(GpuTask {
            pool: (handle("gpus")?, scale.tokens),
            gpus,
            compute: task.compute,
            kernel: task.kernel,
            copy,
            // A job that overruns copies its bytes again.
            chunk: if scale.is_emulated { copy } else { CHUNK * scale.copies / 1_000 },
            moves: (0..scale.gpus).map(moves).collect(),
            pieces: task.pieces(scale).1,
            moments: self.moments[one].clone(),
            factor: FACTOR,
        })
    }
}

/// The instants from which on a job runs longer than declared.
fn moments(source: &mut Source, apart: u64, length: u64) -> Vec<u64> {
    let mut at = START;
    std::iter::repeat_with(|| {
        at += source.draw(0, apart);
        at
    })
    .take_while(|at| *at < START + length)
    .collect()
}

/// How many jobs run longer than declared: the first to be released at each moment or later.
fn overruns(task: &Task, moments: &[u64], length: u64) -> u64 {
    let release = |moment: &u64| moment.saturating_sub(START + task.phase).div_ceil(task.period);
    let mut releases: Vec<u64> = moments.iter().map(release).collect();
    releases.dedup();
    releases.into_iter().filter(|number| task.phase + number * task.period < length).count() as u64
}

/// The budget of a GPU task.
fn budget(scale: &Scale, tasks: &[Task], task: &Task, setup: Setup) -> u64 {
    let longest = tasks.iter().map(|task| task.critical_section(scale)).max().unwrap_or_default();
    let room = r2dglp_requests(scale.cpus as u16, scale.replicas() as u8) * longest;
    let budget = match setup.overrun {
        Overrun::Ignored => task.period,
        Overrun::Signal | Overrun::EarlyRelease => task.budget(scale).0,
        Overrun::Inheritance => task.budget(scale).0 + room,
    };
    budget.min(task.period)
}

/// Bytes that are copied in that time, in eights, and how long they take.
fn bytes(task: &Task) -> u64 {
    (task.copy - COPY_SETUP) / COPY_BYTE / 8 * 8
}

fn copied(bytes: u64) -> u64 {
    COPY_SETUP + COPY_BYTE * bytes
}

//--- The manifest

fn text(scale: &Scale, tasks: &[Task], budgets: &[u64], moments: &[Vec<u64>], setup: Setup, length: u64) -> String {
    let Scale { cpus, gpus, users, is_emulated, .. } = *scale;
    let policy = match setup.policy {
        Policy::Edf => "EDF",
        Policy::Rm => "RM",
    };
    let advice = match setup.adviser {
        Adviser::Heuristics => "affinity",
        Adviser::Nobody => "none",
        Adviser::Chance => "random",
    };
    let total =
        if setup.few_queued { format!("total_limit = {}\n", cpus.min(scale.replicas())) } else { String::new() };
    let devices: Vec<String> = (0..gpus).map(|gpu| format!("gpu{gpu}")).collect();
    let mut text = format!(
        "[system]\nname = \"gpusync\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"{START}ns\"\npolicy = \"{policy}\"\n\
         admission = \"warn\"\ndistance = {}\n\
         [pools.gpus]\nreplicas = {}\nlimit = \"r2dglp\"\n{total}devices = {devices:?}\nadvice = \"{advice}\"\n\
         watchdog = \"{TOKEN_WATCHDOG}ns\"\n",
        distances(scale),
        scale.replicas(),
    );
    for (one, task) in tasks.iter().enumerate() {
        let Task { period, phase, compute, .. } = task;
        let _ = write!(text, "[tasks.t{one}]\nperiod = \"{period}ns\"\nphase = \"{phase}ns\"\nbacklog = 255\n");
        if one >= users {
            let budget = task.budget(scale).0;
            let _ = write!(text, "script = [\"burn {}ns\"]\nbudget = \"{budget}ns\"\n", 2 * compute);
            continue;
        }
        let covers = "budget_covers = \"cpu+engines\"\n";
        let (overrun, covers) = match setup.overrun {
            Overrun::Ignored => ("throttle", ""),
            Overrun::Signal => ("signal", covers),
            Overrun::EarlyRelease | Overrun::Inheritance => ("early-release", covers),
        };
        let _ = write!(
            text,
            // The time that a job waits is not bounded here; it keeps its key meanwhile.
            "binary = \"apps/gpusync\"\nbudget = \"{}ns\"\noverrun = \"{overrun}\"\n{covers}suspends = \"1000s\"\n",
            budgets[one]
        );
        if is_emulated {
            parameters(&mut text, task, &moments[one]);
        }
        let _ = write!(
            text,
            "uses.gpus = {{ cpu = \"{}ns\" }}\n[tasks.t{one}.handles]\ngpus = \"pool gpus: acquire\"\n",
            task.critical_section(scale)
        );
        if is_emulated {
            let _ = writeln!(text, "buffer = \"region buffer{one}: read write\"");
        }
        for gpu in 0..gpus {
            for engine in ENGINES {
                let _ = writeln!(text, "\"{engine}.{gpu}\" = \"engine {engine}{gpu}: acquire\"");
            }
            let _ = writeln!(text, "\"gpu_done.gpu{gpu}\" = \"notification done{gpu}_{one}: wait\"");
        }
    }
    for gpu in 0..gpus {
        driver_text(&mut text, scale, gpu);
    }
    for gpu in 0..gpus {
        gpu_text(&mut text, scale, setup, gpu);
    }
    if is_emulated {
        for (one, task) in tasks[..users].iter().enumerate() {
            let _ = write!(text, "[regions.buffer{one}]\nbytes = {}\n", (2 * bytes(task)).next_multiple_of(PAGE_BYTES));
        }
    }
    let _ = write!(
        text,
        "[tasks.end]\nscript = [\"sleep {}ns\", \"shutdown\"]\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n\
         handles = {{ system = \"system: shutdown\" }}\n",
        START + length
    );
    text
}

/// The parameters of `apps/gpusync`.
fn parameters(text: &mut String, task: &Task, moments: &[u64]) {
    let _ = write!(
        text,
        "parameters = {{ compute_ns = {}, kernel_ns = {}, bytes = {}, factor = {FACTOR}",
        task.compute,
        task.kernel,
        bytes(task)
    );
    for (number, moment) in moments.iter().enumerate() {
        let _ = write!(text, ", long{number} = {moment}");
    }
    *text += " }\n";
}

fn driver_text(text: &mut String, scale: &Scale, gpu: usize) {
    let _ = write!(
        text,
        "[tasks.driver{gpu}]\nbinary = \"gpu-driver/gpu-driver\"\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"2ms\"\n\
         parameters = {{ bottom_half_us = {} }}\n\
         [tasks.driver{gpu}.handles]\nline = \"interrupt gpu{gpu}: acknowledge\"\nevent = \"notification gpu{gpu}: wait\"\n\
         tables = \"region tables{gpu}: read write physical\"\n",
        BOTTOM_HALF / 1_000
    );
    for one in 0..scale.users {
        let _ = writeln!(text, "\"done.t{one}\" = \"notification done{gpu}_{one}: signal\"");
        if scale.is_emulated {
            let _ = writeln!(text, "\"buffer.t{one}\" = \"region buffer{one}: physical\"");
        }
    }
}

/// A GPU: its interrupt, its device, and its engines.
fn gpu_text(text: &mut String, scale: &Scale, setup: Setup, gpu: usize) {
    let tables = tables_bytes(Contexts::DEFAULT, scale.gpus, 0);
    let _ = write!(
        text,
        "[notifications.gpu{gpu}]\n\
         [interrupts.gpu{gpu}]\nline = {}\nnotification = \"gpu{gpu}\"\nedge = true\ncpu = {gpu}\n\
         [regions.tables{gpu}]\nbytes = {tables}\n\
         [devices.gpu{gpu}]\ndriver = \"driver{gpu}\"\nfirmware = \"engine-core\"\nmemory = \"{}KiB\"\n",
        112 + gpu,
        if scale.is_emulated { 256 * scale.users } else { 64 }
    );
    for one in 0..scale.users {
        let _ = write!(text, "[notifications.done{gpu}_{one}]\nbound = \"driver{gpu}\"\n");
    }
    let order = if setup.policy == Policy::Edf { "fifo" } else { "priority" };
    let of_device = |index: usize| format!("device = \"gpu{gpu}\"\nindex = {index}\ninterrupt = \"gpu{gpu}\"\n");
    if !scale.is_emulated {
        // A device has an engine, and it has no room for all users of the others.
        let _ = write!(text, "[engines.line{gpu}]\n{}", of_device(0));
    }
    for (index, engine) in ENGINES.iter().enumerate() {
        let _ = write!(text, "[engines.{engine}{gpu}]\norder = \"{order}\"\npool = \"gpus\"\n");
        if index > 0 {
            *text += "group = \"copies\"\n";
        }
        if scale.is_emulated {
            *text += &of_device(index);
        }
    }
}

/// How far GPUs are from each other, in hundredths of the shortest way.
fn distances(scale: &Scale) -> String {
    let way = |to, from| if distance(to, from) == 2 { 200 } else { 100 };
    let rows = (0..scale.gpus).map(|to| (0..scale.gpus).map(|from| way(to, from)).collect::<Vec<_>>());
    format!("{:?}", rows.collect::<Vec<_>>())
}

// --- Facts that the manifest cannot express

/// Connects engines to the devices that play them: a manifest has no device with so many clients.
fn connect(scale: &Scale, system: &mut Resolved) -> Result<()> {
    for gpu in 0..scale.gpus {
        let interrupt = interrupt(system, gpu)?;
        for number in EngineIndex::ALL {
            let engine = engine(system, gpu, number)?;
            system.engines[engine].1.interrupt_plus_one = interrupt as u32 + 1;
            for user in system.engine_users.iter_mut().filter(|user| user.engine as usize == engine) {
                let (part, context) = place(user.task as usize);
                let page = 1 + gpu * scale.users.div_ceil(CLIENTS) + part;
                user.progress = page as u64 * PAGE_BYTES + status_retired(number, context);
            }
        }
    }
    Ok(())
}

/// The number of client `one`'s device among those that are a GPU, and its context there.
fn place(one: usize) -> (usize, usize) {
    (one / CLIENTS, 1 + one % CLIENTS)
}

fn interrupt(system: &Resolved, gpu: usize) -> Result<usize> {
    let name = format!("gpu{gpu}");
    system.interrupts.iter().position(|one| one.0 == name).context("no interrupt")
}

fn engine(system: &Resolved, gpu: usize, number: EngineIndex) -> Result<usize> {
    let name = format!("{}{gpu}", ENGINES[number.number()]);
    system.engines.iter().position(|engine| engine.0 == name).context("no engine")
}

fn handle(system: &Resolved, task: usize, name: &str) -> Result<u64> {
    let mut entries = system.tasks[task].environment.iter().filter(|entry| entry.name == name && entry.handle != 0);
    Ok(entries.next().with_context(|| format!("no handle `{name}`"))?.handle)
}

/// The driver of a GPU, and its task.
fn driver(scale: &Scale, system: &Resolved, gpu: usize) -> Result<(usize, Program)> {
    let name = format!("driver{gpu}");
    let Some(task) = system.tasks.iter().position(|task| task.name == name) else { bail!("no task `{name}`") };
    let clients = (0..scale.users).map(|one| {
        let (part, context) = place(one);
        Ok((part * CONTEXTS + context, handle(system, task, &format!("done.t{one}"))?))
    });
    let program = Program::Driver {
        wait: handle(system, task, "event")?,
        interrupt: handle(system, task, "line")?,
        line: interrupt(system, gpu)?,
        clients: clients.collect::<Result<_>>()?,
        wrong: Vec::new(),
        bottom_half: BOTTOM_HALF,
    };
    Ok((task, program))
}
