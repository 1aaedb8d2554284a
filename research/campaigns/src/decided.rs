//! Clusters of one CPU each that share an engine that its device arbitrates: their bounds against the whole kernel.
//!
//! Each system has two or three CPUs under RM, DM or FP, tasks that only compute or sleep, and tasks with commands for one device of
//! several SMs, which works for the task of the highest priority of all CPUs. It is run with jobs that take their worst times, from
//! random phases and from equal ones. No job may be later than its bound, and no budget may run dry.
//!
//! Not here: the bounds (`fusee_sched_analysis::decided`).

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::path::Path;

use fusee_manifest::Manifest;
use fusee_manifest::admission::Study;
use fusee_sched_analysis::Overheads;
use fusee_sched_analysis::blocking::{Blocked, Locks};
use fusee_sched_analysis::report::{Bound, Report};
use fusee_simulator::workload::Source;
use fusee_simulator::{Checks, First, Options, system};
use fusee_views::metrics::Metrics;

use crate::draws::{Draws, Wrong};

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
/// Tasks with commands, at most.
const CLIENTS: u64 = 7;
/// The longest periods of a run.
const PERIODS: u64 = 6;

/// A function from a system to the longest response time of each task of it, in nanoseconds, if it has a bound.
pub type Claiming<'a> = dyn Fn(&Manifest) -> Vec<Option<u64>> + Sync + 'a;

/// The results.
#[derive(Clone, Debug, Default)]
pub struct DecidedReport {
    /// Systems drawn.
    pub systems: u64,
    /// Those of them in which all tasks have bounds,
    pub bounded: u64,
    /// and in which all are proved.
    pub proved: u64,
    /// Those without a miss in a run.
    pub met: u64,
    /// Jobs completed.
    pub jobs: u64,
    /// Tasks with commands and with a bound.
    pub clients: u64,
    /// Tasks that reached nine tenths of their bounds.
    pub near: u64,
    /// The longest observed response time of a task with commands and its bound, by their ratio.
    pub tightest: (u64, u64),
    /// Bounds that do not hold.
    pub violations: Vec<Wrong>,
    /// Systems that could not be simulated.
    pub failures: Vec<Wrong>,
}

/// The bounds of the analysis.
#[must_use]
pub fn bounds(manifest: &Manifest) -> Vec<Option<u64>> {
    bounds_of(manifest, |_| {})
}

/// A change of the locks that the analysis knows: a planted fault, or none.
pub type Change = fn(&mut Locks);

/// The analysis with a change of each cluster that has one.
fn analyses(manifest: &Manifest, change: Change) -> impl Iterator<Item = (Study, Report, Vec<Blocked>)> {
    let system = &manifest.system;
    (0..system.clusters.len()).filter_map(move |index| {
        let mut study = Study::new(system, index).ok()?;
        change(&mut study.locks);
        let (report, blocked) = study.analyse(&Overheads::default()).ok()?;
        Some((study, report, blocked))
    })
}

/// The bounds of the analysis with a change.
fn bounds_of(manifest: &Manifest, change: Change) -> Vec<Option<u64>> {
    let mut found = vec![None; manifest.system.tasks.len()];
    for (study, report, blocked) in analyses(manifest, change) {
        let whole = |bound: &Bound| u64::try_from(bound.response.ceil().to_integer()).ok();
        for (at, member) in study.members.iter().enumerate() {
            found[*member] = study.bound(at, &report, &blocked).and_then(whole);
        }
    }
    found
}

/// Whether all tasks with jobs are proved.
fn are_proved(manifest: &Manifest) -> bool {
    (0..manifest.system.clusters.len()).all(|index| {
        let Ok(study) = Study::new(&manifest.system, index) else { return false };
        let Ok((report, blocked)) = study.analyse(&Overheads::default()) else { return false };
        (0..study.members.len()).all(|task| study.is_proved(task, &report, &blocked))
    })
}

/// Draws systems, and compares runs of each with the claims about it.
pub fn decided(draws: Draws, claims: &Claiming<'_>) -> DecidedReport {
    judge(draws, &drawn, claims)
}

/// Draws systems under locks, and compares runs of each with the bounds of the analysis with a change.
pub fn under_lock(draws: Draws, change: Change) -> DecidedReport {
    let locked = |seed, number| locked(seed, number, change);
    judge(draws, &locked, &|manifest| bounds_of(manifest, change))
}

/// A function from a seed and a number to a system; or the reason why there is none.
type Drawing<'a> = dyn Fn(u64, u64) -> Result<Manifest, String> + Sync + 'a;

fn judge(draws: Draws, drawn: &Drawing<'_>, claims: &Claiming<'_>) -> DecidedReport {
    let check = |report: &mut DecidedReport, number: u64| {
        let checked =
            drawn(draws.seed, number).and_then(|manifest| report.check(&manifest, (draws.seed, number), claims));
        if let Err(what) = checked {
            report.failures.push(Wrong { seed: draws.seed, number, what });
        }
    };
    let is_wrong = |report: &DecidedReport| !report.violations.is_empty();
    let mut report = draws.judge(&check, is_wrong, DecidedReport::join);
    report.violations.sort();
    report.failures.sort();
    report
}

/// The system with this number.
///
/// # Errors
/// It is not a system; the words name the mistakes and have its text.
pub fn drawn(seed: u64, number: u64) -> Result<Manifest, String> {
    with_loans(&|lends| draw(seed, number, lends).0, |_| {})
}

/// The system with this number under locks: the same tasks on one cluster, and a device with two engines that they hold in turn; budgets are as long as the
/// analysis with this change needs them.
///
/// # Errors
/// It is not a system; the words name the mistakes and have its text.
pub fn locked(seed: u64, number: u64, change: Change) -> Result<Manifest, String> {
    with_loans(&|lends| under_locks(&draw(seed, number, lends).0, &mut Source::new(!seed, number)), change)
}

/// A system with budgets as long as its `text` needs them for the time that is lent.
fn with_loans(text: &dyn Fn(&HashMap<String, u64>) -> String, change: Change) -> Result<Manifest, String> {
    let first = text(&HashMap::new());
    let Ok(manifest) = parse(&first) else { return parse(&first) };
    let mut lends = HashMap::new();
    for (study, _, blocked) in analyses(&manifest, change) {
        for (member, blocked) in study.members.iter().zip(blocked) {
            lends.insert(manifest.system.tasks[*member].name.clone(), blocked.lends.0);
        }
    }
    // Longer budgets make longer bounds, and these longer loans.
    let grown = lends.iter().map(|(name, lent)| (name.clone(), lent + lent / 4));
    parse(&text(&grown.collect()))
}

/// The text of a system with a device that decides, with locks in place of that: on one cluster of one or two CPUs, and a copy engine for some of
/// the clients. Some tasks do not wait for their ends, and some drivers have hardly a budget of their own.
fn under_locks(text: &str, source: &mut Source) -> String {
    let (cpus, order) = (source.draw(1, 2), source.pick(&["fifo", "priority"]));
    let listed = if cpus == 1 { "0" } else { "0, 1" };
    let completion = text.lines().find(|line| line.starts_with("completion = ")).unwrap_or_default();
    let mut out = String::new();
    let (mut copies, mut starts) = (false, false);
    let (leaving, is_poor) = (source.draw(0, 7) == 0, source.draw(0, 1) == 0);
    let mut is_driver = false;
    for line in text.lines() {
        is_driver |= line.starts_with("[tasks.gpu]");
        match line {
            "period = \"10ms\"" if is_driver && is_poor => out.push_str("period = \"200ms\"\n"),
            "budget = \"5ms\"" if is_driver && is_poor => out.push_str("budget = \"50us\"\n"),
            _ if line.starts_with("cpus = ") && !line.contains('[') => _ = writeln!(out, "cpus = {cpus}"),
            "[clusters.c0]" => out.push_str("[clusters.c0]\n"),
            "cpus = [0]" => _ = writeln!(out, "cpus = [{listed}]"),
            "arbiter = \"device\"" => _ = writeln!(out, "order = \"{order}\""),
            _ if line.starts_with("[clusters.") || line.starts_with("cpus = [") => {}
            _ if ["sms", "preemption", "drain_limit"].iter().any(|key| line.starts_with(key)) => {}
            _ if line.starts_with("cluster = ") => out.push_str("cluster = \"c0\"\n"),
            _ => {
                if line.starts_with("[tasks.t") {
                    copies = source.draw(0, 2) == 0;
                    starts = leaving && source.draw(0, 1) == 0;
                }
                let mut line = line.to_owned();
                if starts {
                    line = line.replace("submit ee", "start ee").replace(" gpu_done", "");
                }
                if copies {
                    line = line.replace(" ee", " ce").replace(".ee", ".ce");
                }
                _ = writeln!(out, "{line}");
            }
        }
        (copies, starts) = (copies && !is_driver, starts && !is_driver);
    }
    let _ = write!(
        out,
        "\n[engines.ce]\ndevice = \"gpu\"\nindex = 1\ninterrupt = \"gpu\"\norder = \"{order}\"\n{completion}\n"
    );
    out
}

/// A proved system among tasks that do anything: on these CPUs with jobs of their own, and with none.
///
/// # Errors
/// Why there is no such system: text, for people.
pub fn beside(seed: u64, number: u64) -> Result<Manifest, String> {
    let manifest = parse(&text_beside(seed, number)?)?;
    if hard_are_proved(&manifest) { Ok(manifest) } else { Err("not proved".to_owned()) }
}

/// The text of a system with tasks that are hard, perhaps in vain, and others that do anything.
///
/// # Errors
/// It is not a system; the words name the mistakes.
fn text_beside(seed: u64, number: u64) -> Result<String, String> {
    let mut source = Source::new(seed, number);
    let cpus = source.draw(2, 3);
    let mut text = drawn(seed, number)?.text.replace("trusted = true", "hard = true");
    for other in 0..source.draw(1, 3) {
        let cpu = source.draw(0, cpus - 1);
        let period = source.pick(&[5, 9, 20]);
        let _ = write!(text, "\n[tasks.x{other}]\nbinary = \"apps/anything\"\ncluster = \"c{cpu}\"\n");
        match source.draw(0, 3) {
            0 | 1 => {
                let priority = source.draw(1, 9);
                let _ = write!(text, "period = \"{period}ms\"\nbudget = \"500us\"\npriority = {priority}\n");
                continue;
            }
            2 => {
                let _ = write!(text, "class = \"service\"\nperiod = \"{period}ms\"\nbudget = \"500us\"\n");
            }
            _ => text.push_str("class = \"background\"\n"),
        }
        let receives = if other == 0 { " receive" } else { "" };
        let _ = writeln!(text, "handles.e = \"endpoint e: call send{receives}\"");
        let _ = writeln!(text, "handles.n = \"notification n: signal wait\"");
    }
    if text.contains("handles.e") {
        text.push_str("\n[endpoints.e]\nserver = \"x0\"\n\n[notifications.n]\n");
    }
    Ok(text)
}

/// Whether all hard tasks are proved, and some of them shares the device with another cluster.
fn hard_are_proved(manifest: &Manifest) -> bool {
    let system = &manifest.system;
    let studies = (0..system.clusters.len()).map(|index| {
        let study = Study::new(system, index).ok()?;
        let (report, blocked) = study.analyse(&Overheads::default()).ok()?;
        let is_good = |at: usize| !system.tasks[study.members[at]].hard || study.is_proved(at, &report, &blocked);
        (0..study.members.len()).all(is_good).then(|| study.decided().is_some())
    });
    let found: Option<Vec<bool>> = studies.collect();
    found.is_some_and(|found| found.contains(&true))
}

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("decided.toml"), text).map_err(|errors| format!("{errors}\n{text}"))
}

/// The text of a system with budgets for these loans, and the tasks with commands.
fn draw(seed: u64, number: u64, lends: &HashMap<String, u64>) -> (String, u64) {
    let mut source = Source::new(seed, number);
    let cpus = source.draw(2, 3);
    let policy = source.pick(&["RM", "DM", "FP"]);
    let mut text = format!(
        "[system]\nname = \"decided\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"1ms\"\npolicy = \"{policy}\"\nadmission = \"warn\"\n"
    );
    for cpu in 0..cpus {
        let _ = write!(text, "\n[clusters.c{cpu}]\ncpus = [{cpu}]\n");
    }
    let completion = source.pick(&[0, 5, 20, 50, 200]) * MICROSECOND;
    let together = source.draw(0, 2) == 0;
    let load = source.draw(2, 9);
    let mut clients = 0;
    for cpu in 0..cpus {
        for task in 0..source.draw(1, 4) {
            let left = clients < CLIENTS - (cpus - 1 - cpu);
            let is_client = left && (task == 0 || source.draw(0, 1) == 0);
            clients += u64::from(is_client);
            one(&mut source, &mut text, (cpu, task, is_client), (load, completion, together), lends);
        }
    }
    let sms = source.pick(&[1, 2, 4, 13]);
    let preemption = source.pick(&["switch", "switch", "drain-then-switch"]);
    let limit = if preemption == "switch" { String::new() } else { "drain_limit = \"100us\"\n".to_owned() };
    let home = source.draw(0, cpus - 1);
    let _ = write!(
        text,
        "\n[tasks.gpu]\nbinary = \"gpu-driver/gpu-driver\"\ncluster = \"c{home}\"\nclass = \"service\"\nperiod = \"10ms\"\n\
         budget = \"5ms\"\nparameters = {{ bottom_half_us = {} }}\n\n[tasks.gpu.handles]\nline = \"interrupt gpu: acknowledge\"\n\
         event = \"notification gpu_event: wait\"\ntables = \"region tables: read write physical\"\n\n\
         [notifications.gpu_event]\n\n[interrupts.gpu]\nline = 112\nnotification = \"gpu_event\"\ncluster = \"c{home}\"\nedge = true\n\n\
         [regions.tables]\nbytes = \"16KiB\"\n\n[devices.gpu]\ndriver = \"gpu\"\nfirmware = \"engine-core\"\nmemory = \"64KiB\"\n\
         sms = {sms}\npreemption = \"{preemption}\"\n{limit}\n[engines.ee]\ndevice = \"gpu\"\nindex = 0\ninterrupt = \"gpu\"\n\
         arbiter = \"device\"\ncompletion = \"{completion}ns\"\n",
        completion / MICROSECOND
    );
    (text, clients)
}

/// Writes a task: its CPU, its number there, and whether it has commands.
fn one(
    source: &mut Source,
    text: &mut String,
    (cpu, task, is_client): (u64, u64, bool),
    (load, completion, together): (u64, u64, bool),
    lends: &HashMap<String, u64>,
) {
    let name = format!("t{cpu}_{task}");
    let period = source.pick(&[5, 8, 10, 20, 30, 50]) * MILLISECOND + source.draw(0, MILLISECOND);
    let share = |source: &mut Source| period * load / 10 * source.draw(5, 40) / 100;
    let execution = (share(source) / 2).max(40 * MICROSECOND);
    let mut steps = Vec::new();
    let (times, operation) = match is_client {
        true => {
            let times = source.draw(1, 3);
            (times, (share(source) / times).max(30 * MICROSECOND))
        }
        false => (0, 0),
    };
    let mut left = execution;
    for _ in 0..times {
        let before = source.draw(1, left / 3);
        let inside = source.draw(1, (left / 6).max(1)).min(20 * MICROSECOND);
        left = left.saturating_sub(before + inside).max(1);
        steps.push(format!("\"burn {before}ns\", \"acquire ee\", \"submit ee {operation}ns gpu_done\", \"burn {inside}ns\", \"release ee\""));
    }
    let sleep = if !is_client && source.draw(0, 3) == 0 { share(source) } else { 0 };
    if sleep > 0 {
        let before = source.draw(1, left / 2);
        left -= before;
        steps.push(format!("\"burn {before}ns\", \"sleep {sleep}ns\""));
    }
    steps.push(format!("\"burn {left}ns\""));
    let lent = lends.get(&name).copied().unwrap_or(if is_client { 10 * completion } else { 0 });
    let wcet = execution + 1_000 * MICROSECOND / 1_000 + times * completion + times;
    let budget = (wcet + lent + MICROSECOND).max(40 * MICROSECOND).min(period);
    let deadline = if source.draw(0, 2) == 0 { source.draw(period / 2, period).max(budget) } else { period };
    let phase = if together { 0 } else { source.draw(0, period) };
    let _ = write!(
        text,
        "\n[tasks.{name}]\ncluster = \"c{cpu}\"\nscript = [{}]\nperiod = \"{period}ns\"\ndeadline = \"{deadline}ns\"\n\
         budget = \"{budget}ns\"\nwcet = \"{}ns\"\nphase = \"{phase}ns\"\nbacklog = 255\ntrusted = true\npriority = {}\n",
        steps.join(", "),
        wcet.min(budget),
        source.draw(1, 9)
    );
    if sleep > 0 {
        let _ = writeln!(text, "suspends = \"{sleep}ns\"");
    }
    if is_client {
        let _ = write!(
            text,
            "uses.ee = {{ times = {times}, cpu = \"25us\", operation = \"{operation}ns\" }}\nhandles.ee = \"engine ee: acquire\"\n"
        );
    }
}

impl DecidedReport {
    fn check(&mut self, manifest: &Manifest, (seed, number): (u64, u64), claims: &Claiming<'_>) -> Result<(), String> {
        let bounds = claims(manifest);
        self.systems += 1;
        let reservations = &manifest.system.reservations;
        let has_jobs =
            |task: usize| manifest.system.tasks[task].reservation.is_some_and(|own| reservations[own].class == 0);
        let watched: Vec<usize> = (0..bounds.len()).filter(|task| has_jobs(*task)).collect();
        if watched.iter().all(|task| bounds[*task].is_none()) {
            return Ok(());
        }
        self.bounded += u64::from(watched.iter().all(|task| bounds[*task].is_some()));
        let is_proved = are_proved(manifest);
        self.proved += u64::from(is_proved);
        let longest = reservations.iter().map(|one| one.period).max().unwrap_or(0);
        let first = if number.is_multiple_of(2) { First::Tasks } else { First::Interrupts };
        let options = Options { checks: Checks::Instants(64), first, ..Options::default() };
        let mut metrics = Metrics::new(&manifest.system);
        let until = manifest.system.start + PERIODS * longest;
        let run = system::simulate_observed(manifest, &options, until, &mut |record| metrics.observe(record));
        run.map_err(|error| format!("{error}\n{}", manifest.text))?;
        let mut misses = false;
        for task in watched {
            let seen = &metrics.tasks[task];
            self.jobs += seen.jobs();
            let Some(latest) = seen.max_lateness() else { continue };
            let own = manifest.system.tasks[task].reservation.map(|own| reservations[own]);
            let response = own.map_or(0, |own| own.deadline).saturating_add_signed(latest);
            misses |= latest > 0;
            let Some(bound) = bounds[task] else { continue };
            if response > bound || is_proved && latest > 0 {
                let name = &manifest.system.tasks[task].name;
                let what = format!("{name}: a job takes {response} ns, bound {bound}\n{}", manifest.text);
                self.violations.push(Wrong { seed, number, what });
            }
            let is_client = manifest.system.engine_users.iter().any(|user| user.task as usize == task);
            self.near += u64::from(response * 10 >= bound * 9);
            if is_client {
                self.clients += 1;
                let ratio = |(response, bound): (u64, u64)| {
                    u128::from(response) * u128::from(u64::MAX) / u128::from(bound.max(1))
                };
                if ratio((response, bound)) > ratio(self.tightest) {
                    self.tightest = (response, bound);
                }
            }
        }
        self.met += u64::from(!misses);
        Ok(())
    }

    /// Adds the results of other systems.
    pub fn join(&mut self, other: DecidedReport) {
        self.systems += other.systems;
        self.bounded += other.bounded;
        self.proved += other.proved;
        self.met += other.met;
        self.jobs += other.jobs;
        self.clients += other.clients;
        self.near += other.near;
        let (one, two) = (self.tightest, other.tightest);
        if u128::from(two.0) * u128::from(one.1.max(1)) > u128::from(one.0) * u128::from(two.1.max(1)) {
            self.tightest = two;
        }
        self.violations.extend(other.violations);
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for DecidedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecidedReport { systems, bounded, proved, met, jobs, clients, near, tightest: (seen, bound), .. } = self;
        writeln!(
            f,
            "{systems} systems, {bounded} with bounds on all tasks, {proved} proved, {met} of those with bounds without a miss; \
             {jobs} jobs; {clients} bounds of tasks with commands, tightest {seen} of {bound} ns; {near} tasks near their bounds"
        )?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "failed: {failure}"))?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "violated: {violation}"))
    }
}
