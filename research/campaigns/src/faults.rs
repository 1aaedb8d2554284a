//! A system that works while tasks of it end, and devices misbehave: one campaign is many runs of it, each with others at other instants.
//!
//! Conditions that must hold after each run ([`Campaign::judge`]):
//!
//! 1. A task that is given another life is up again within the bound of the analysis ([`recoveries`](fusee_manifest::admission::recoveries)).
//! 2. Hard tasks that have nothing to do with those that ended miss nothing, and do as many jobs as without ends.
//! 3. An engine that is asked for all the time is granted again once its driver is up.
//! 4. A client of a device has an engine of it, until that is idle again, no longer than the watchdog and a reset take, with any behaviour of the
//!    device.
//! 5. Hard tasks that have not ended do their jobs again once all is over.
//! 6. Nothing leaks: handles are as many as without ends, and copies, too. The kernel's invariants hold after each trap.
//!
//! A run is judged by its trace, so runs in QEMU are judged by the same rules, but for the last.
//!
//! A client with a device that misbehaves gets its engines in the way of all clients, so the effects on the device's users are judged as those of an
//! end of the driver.
//!
//! Not here: the choice of the system, and the output (`research/src/faults.rs`); ends in a trace ([`fusee_simulator::lives`]).

use std::collections::{BTreeMap, BTreeSet};

use fusee_abi::call::rights;
use fusee_abi::image::{class, kind, release};
use fusee_abi::script::{Step, operation};
use fusee_abi::trace::{Event, Record};
use fusee_accel_contract as contract;
use fusee_kernel_core::Planted;
use fusee_kernel_core::object::State;
use fusee_manifest::{Manifest, Resolved};
use fusee_sched_analysis::Overheads as Analysed;
use fusee_simulator::lives::{End, Ended, bounds, ends};
use fusee_simulator::run::Mishap;
use fusee_simulator::system::{Error, contexts};
use fusee_simulator::workload::Source;
use fusee_simulator::{Checks, Options, Overheads, Program, Report, simulate_with};
use fusee_views::metrics::Metrics;

use crate::soundness::in_parallel;

/// The task that stops others, in each system that a campaign is of: a script, and a handle to each task that it may stop (`stop`).
pub const SABOTEUR: &str = "saboteur";
/// Ends of one run, at most.
const ENDS: u64 = 4;
/// From the last instant at which a task may end to the end of the run there are so many of the longest time in which one is up again.
const AFTER: u64 = 3;
/// Failed runs that a report keeps.
const KEPT: usize = 10;

/// For how long a device misbehaves, nanoseconds.
const MISHAP: u64 = 20_000_000;

/// The way in which a task ends, or the event of one that goes on.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum How {
    /// Another stops it, at any instant.
    Stopped,
    /// The task makes a forbidden access, the next time it runs.
    Faults,
    /// The device of which it is a client does this with its commands, for a while.
    Device(Wrong),
}

impl From<End> for How {
    fn from(end: End) -> How {
        match end {
            End::Stopped => How::Stopped,
            End::Faults => How::Faults,
        }
    }
}

/// A fault of a device.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Wrong {
    /// Interrupts of completions do not come,
    Lost,
    /// or come late.
    Late,
    /// Interrupts come for nothing, again and again.
    Spurious,
    /// A command is said to have ended when it begins.
    Lie,
}

impl Wrong {
    /// All of them.
    pub const ALL: [Wrong; 4] = [Wrong::Lost, Wrong::Late, Wrong::Spurious, Wrong::Lie];

    fn bits(self) -> u32 {
        match self {
            Wrong::Lost => contract::INJECT_LOST,
            Wrong::Late => contract::INJECT_LATE,
            Wrong::Spurious => contract::INJECT_SPURIOUS,
            Wrong::Lie => contract::INJECT_LIE,
        }
    }

    /// The fault in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Wrong::Lost => "interrupts lost",
            Wrong::Late => "interrupts late",
            Wrong::Spurious => "interrupts for nothing",
            Wrong::Lie => "ends told too early",
        }
    }
}

/// One task that ends, or has a device that misbehaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault {
    /// When, in nanoseconds.
    pub at: u64,
    /// The task's index.
    pub victim: usize,
    /// How.
    pub how: How,
}

/// The faults of one run, and how long tasks were away.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The broken conditions.
    pub problems: Vec<String>,
    /// Each end.
    pub ends: Vec<Ended>,
    /// For each device that misbehaved: its client, its fault, whether an engine was taken from that, and for how long it had one at most.
    pub mishaps: Vec<(usize, Wrong, bool, u64)>,
}

/// A task's context in a device.
#[derive(Clone, Copy, Debug)]
struct Client {
    task: usize,
    device: usize,
    context: usize,
}

/// One system, and its undisturbed run.
pub struct Campaign<'a> {
    manifest: &'a Manifest,
    overheads: Overheads,
    /// How long a run is.
    until: u64,
    /// Tasks that may end, and the saboteur's handles to them.
    victims: Vec<(usize, u64)>,
    saboteur: usize,
    /// Clients of devices.
    clients: Vec<Client>,
    /// A rule that the kernel forgets.
    planted: Option<Planted>,
    calm: Metrics,
    /// Handles of each task, and handles copied from, at the end of a run in which nothing ends.
    held: Option<(Vec<usize>, usize)>,
    /// The longest times for which tasks with further lives are away.
    bounds: BTreeMap<usize, u64>,
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct FaultReport {
    /// Runs.
    pub runs: u64,
    /// By victim and how it ended: how often, how often it was up again, and the longest time that took, in nanoseconds. Of a device that misbehaved: how often, how often
    /// an engine was taken from its client, and the longest time for which that had one.
    pub ends: BTreeMap<(usize, How), (u64, u64, u64)>,
    /// Runs that went wrong, of which some are kept: the run's number, the ends without which it goes well, and the broken conditions.
    pub violations: Vec<(u64, Vec<Fault>, Vec<String>)>,
}

impl Campaign<'_> {
    /// A campaign on the system of `manifest`, with runs of `until` nanoseconds, in a kernel with these costs of its paths.
    ///
    /// # Errors
    /// It has no saboteur, a task of which it is not known when it is up again, or it goes wrong undisturbed.
    pub fn new(
        manifest: &Manifest,
        until: u64,
        (overheads, analysed): (Overheads, Analysed),
    ) -> Result<Campaign<'_>, String> {
        let system = &manifest.system;
        let saboteur = system.tasks.iter().position(|task| task.name == SABOTEUR);
        let saboteur = saboteur.ok_or_else(|| format!("there is no task `{SABOTEUR}`"))?;
        let stopped = system.tasks[saboteur].environment.iter().filter(|entry| entry.kind == kind::TASK);
        let index = |name: &str| system.tasks.iter().position(|task| task.name == name);
        let victims: Vec<_> = stopped.filter_map(|entry| Some((index(&entry.name)?, entry.handle))).collect();
        let bounds = bounds(system, &analysed)?;
        let clients = clients(system);
        let calm = Metrics::new(system);
        let (planted, held) = (None, None);
        let mut campaign =
            Campaign { manifest, overheads, until, victims, saboteur, clients, planted, calm, held, bounds };
        if campaign.latest() <= system.start {
            return Err("the run is too short for anything to end, and to be up again".to_owned());
        }
        let report = campaign.simulate(&[]).map_err(|error| error.to_string())?;
        report.records.iter().for_each(|record| campaign.calm.observe(record));
        campaign.held = Some((report.handles.clone(), report.copied_from));
        let verdict = campaign.judge(&report.records, &[]);
        if !verdict.problems.is_empty() {
            return Err(format!("nothing has ended, and {}", verdict.problems.join("; ")));
        }
        Ok(campaign)
    }

    /// The campaign with the undisturbed run of another machine, such as one in QEMU.
    #[must_use]
    pub fn beside(mut self, calm: Metrics) -> Self {
        self.calm = calm;
        self.held = None;
        self
    }

    /// When a task is up again at the latest.
    #[must_use]
    pub fn bound(&self, task: usize) -> Option<u64> {
        self.bounds.get(&task).copied()
    }

    /// For how long a client has an engine of `device` at most, with any behaviour of that: until the watchdog takes it, and it is reset.
    #[must_use]
    pub fn longest_hold(&self, device: usize) -> u64 {
        let system = &self.manifest.system;
        let places = system.engine_places.iter().zip(&system.engines);
        let of_device = places.filter(|(place, _)| place.is_some_and(|(of, _)| of == device));
        of_device.map(|(_, (_, engine))| engine.watchdog.saturating_add(engine.reset_bound)).max().unwrap_or(0)
    }

    /// The device of a client.
    #[must_use]
    pub fn device_of(&self, task: usize) -> Option<usize> {
        self.clients.iter().find(|client| client.task == task).map(|client| client.device)
    }

    /// The latest instant at which a task may end.
    fn latest(&self) -> u64 {
        let holds = self.clients.iter().map(|client| MISHAP + self.longest_hold(client.device));
        let longest = self.bounds.values().copied().max().map_or(0, |bound| AFTER * bound);
        self.until.saturating_sub(holds.fold(longest, u64::max))
    }

    /// The ends of the run with this number, in their order. Such as can be had in QEMU, too: all by the saboteur.
    #[must_use]
    pub fn draw(&self, seed: u64, number: u64, is_simulated: bool) -> Vec<Fault> {
        let mut source = Source::new(seed, number);
        let count = source.draw(1, ENDS);
        let start = self.manifest.system.start;
        let mut drawn: Vec<Fault> = Vec::new();
        let watched: Vec<_> = self.victims.iter().copied().filter(|(task, _)| self.bound(*task).is_some()).collect();
        for _ in 0..count {
            // Half of them are such as begin again.
            let some = source.pick(&[&watched, &self.victims]);
            let (victim, _) = source.pick(if some.is_empty() { &self.victims } else { some });
            let how = source.pick(&[How::Stopped, How::Faults]);
            let how = if is_simulated { how } else { How::Stopped };
            let at = source.draw(start, self.latest());
            drawn.push(if is_simulated && !self.clients.is_empty() && source.draw(1, 3) == 1 {
                Fault { at, victim: source.pick(&self.clients).task, how: How::Device(source.pick(&Wrong::ALL)) }
            } else {
                Fault { at, victim, how }
            });
        }
        drawn.sort_by_key(|fault| fault.at);
        drawn
    }

    fn simulate(&self, faults: &[Fault]) -> Result<Report, Error> {
        let step = |operation, handle, value| Step { operation, selector: 0, handle, value };
        let stopped = faults.iter().filter(|fault| fault.how == How::Stopped);
        let steps = stopped.flat_map(|fault| {
            let handle =
                self.victims.iter().find(|(victim, _)| *victim == fault.victim).map_or(0, |(_, handle)| *handle);
            [step(operation::SLEEP, 0, fault.at), step(operation::STOP, handle, 0)]
        });
        let saboteur = Program::Script { steps: steps.collect(), has_jobs: false, node: None };
        let faulting = faults.iter().filter(|fault| fault.how == How::Faults);
        let mishaps = faults.iter().filter_map(|fault| {
            let How::Device(wrong) = fault.how else { return None };
            let Client { device, context, .. } = *self.clients.iter().find(|client| client.task == fault.victim)?;
            Some([(fault.at, wrong.bits()), (fault.at + MISHAP, 0)].map(|(at, wrong)| Mishap {
                at,
                device,
                context,
                wrong,
            }))
        });
        let options = Options {
            overheads: self.overheads,
            // A planted fault is for the judge to find, not for the kernel.
            checks: if self.planted.is_none() { Checks::Traps } else { Checks::Instants(0) },
            programs: vec![(self.saboteur, saboteur)],
            faults: faulting.map(|fault| (fault.at, fault.victim)).collect(),
            mishaps: mishaps.flatten().collect(),
            planted: self.planted,
            ..Options::default()
        };
        simulate_with(self.manifest, &options, self.until)
    }

    /// The broken conditions of a run with these ends that left these records.
    #[must_use]
    pub fn judge(&self, records: &[Record], faults: &[Fault]) -> Verdict {
        let system = &self.manifest.system;
        let ends = ends(records, system.tasks.len());
        let mut problems = Vec::new();
        let name = |task: usize| &system.tasks[task].name;
        let is_drawn =
            |end: &&Ended| faults.iter().any(|fault| (fault.victim, fault.how) == (end.victim, end.how.into()));
        problems
            .extend(ends.iter().filter(|end| !is_drawn(end)).map(|end| format!("`{}` ended, too", name(end.victim))));
        let exits = records.iter().filter(|record| record.event == Event::Exit as u8);
        let by_itself = exits.filter_map(|record| usize::from(record.thread).checked_sub(1));
        let by_itself = by_itself.filter(|task| *task != self.saboteur && *task < system.tasks.len());
        problems.extend(by_itself.map(|task| format!("`{}` exited", name(task))));
        let mut last = system.start;
        for (place, end) in ends.iter().enumerate() {
            last = last.max(end.at);
            let Some(bound) = self.bound(end.victim) else { continue };
            let due = end.at + bound;
            last = last.max(due);
            let is_over = ends[place + 1..].iter().any(|other| other.victim == end.victim && other.at <= due);
            if !is_over && due <= self.until && end.up.is_none_or(|up| up > due) {
                let after =
                    end.up.map_or("was not up again".to_owned(), |up| format!("was up after {} ns", up - end.at));
                problems.push(format!(
                    "`{}`, which ended at {} ns, {after}: the bound is {bound}",
                    name(end.victim),
                    end.at
                ));
            }
        }
        let mishaps = self.mishaps(records, faults);
        for (victim, _, _, longest) in &mishaps {
            let bound = self.device_of(*victim).map_or(0, |device| self.longest_hold(device));
            last = last.max(faults.iter().map(|fault| fault.at).max().unwrap_or(0) + MISHAP + bound);
            if *longest > bound {
                problems.push(format!("`{}` had an engine for {longest} ns: the bound is {bound}", name(*victim)));
            }
        }
        let concerned = self.concern(&ends, &mishaps.iter().map(|mishap| mishap.0).collect::<Vec<_>>());
        let mut metrics = Metrics::new(system);
        records.iter().for_each(|record| metrics.observe(record));
        for (task, (found, calm)) in metrics.tasks.iter().zip(&self.calm.tasks).enumerate() {
            if !system.tasks[task].hard || concerned.contains(&task) {
                continue;
            }
            if found.misses() + found.skipped > 0 {
                problems.push(format!("`{}` missed {} deadlines", found.name, found.misses() + found.skipped));
            }
            // One may be under way at the end.
            if found.jobs() + 1 < calm.jobs() {
                problems.push(format!("`{}` did {} jobs of {}", found.name, found.jobs(), calm.jobs()));
            }
        }
        let asks_always = |user: &&fusee_abi::image::EngineUser| {
            let task = user.task as usize;
            let reservation = system.tasks[task].reservation.map(|at| &system.reservations[at]);
            let is_background = reservation.is_some_and(|one| one.class == class::BACKGROUND);
            is_background && !ends.iter().any(|end| end.victim == task)
        };
        let asked: BTreeSet<u32> = system.engine_users.iter().filter(asks_always).map(|user| user.engine).collect();
        for engine in asked {
            let is_granted = |record: &&Record| record.event == Event::EngineGrant as u8 && record.object == engine + 1;
            if last < self.until && !records.iter().filter(is_granted).any(|record| record.time > last) {
                problems.push(format!("engine `{}` is not granted any more", system.engines[engine as usize].0));
            }
        }
        // A task that lives and has work by the clock does it again.
        for (task, reservation) in
            system.tasks.iter().enumerate().filter_map(|(index, task)| Some((index, task.reservation?)))
        {
            let reservation = &system.reservations[reservation];
            let due = last + 2 * (reservation.period + reservation.deadline);
            let has_jobs = system.tasks[task].hard && reservation.release == release::PERIODIC;
            let has_ended = ends.iter().any(|end| end.victim == task);
            let mut completed = records.iter().filter(|record| record.event == Event::Complete as u8);
            let works = |record: &Record| usize::from(record.thread) == task + 1 && record.time > last;
            if has_jobs && !has_ended && due <= self.until && !completed.any(works) {
                problems.push(format!("`{}` does no jobs any more", name(task)));
            }
        }
        Verdict { problems, ends, mishaps }
    }

    /// The results for each device that misbehaved, see [`Verdict::mishaps`].
    fn mishaps(&self, records: &[Record], faults: &[Fault]) -> Vec<(usize, Wrong, bool, u64)> {
        let of = |fault: &Fault| {
            let How::Device(wrong) = fault.how else { return None };
            let (mut granted, mut longest, mut is_taken) = (BTreeMap::new(), 0, false);
            for record in records {
                let is_its = usize::from(record.thread) == fault.victim + 1;
                let event = Event::from_number(record.event);
                is_taken |= is_its && event == Some(Event::EngineTaken) && record.time >= fault.at;
                if !matches!(event, Some(Event::EngineGrant | Event::EngineIdle)) {
                    continue;
                }
                if let Some(since) = granted.remove(&record.object)
                    && record.time >= fault.at
                {
                    longest = longest.max(record.time - since);
                }
                if is_its && event == Some(Event::EngineGrant) {
                    granted.insert(record.object, record.time);
                }
            }
            Some((fault.victim, wrong, is_taken, longest))
        };
        faults.iter().filter_map(of).collect()
    }

    /// The names of the tasks that have to do with those that ended.
    #[must_use]
    pub fn concerned(&self, ends: &[Ended]) -> Vec<&str> {
        self.concern(ends, &[]).into_iter().map(|task| self.manifest.system.tasks[task].name.as_str()).collect()
    }

    /// They, their servers' clients, users of their devices, tasks that they release; and so on. Of clients with devices that misbehave, all users of
    /// those.
    fn concern(&self, ends: &[Ended], clients: &[usize]) -> BTreeSet<usize> {
        let system = &self.manifest.system;
        let has = |task: usize, of: u32, wanted: u32, object: usize| {
            let mut handles = system.handles.iter().filter(|handle| handle.task as usize == task && handle.kind == of);
            handles.any(|handle| handle.rights & wanted != 0 && handle.object as usize == object)
        };
        let depends = |task: usize, on: usize| {
            let serves = |at: &usize| system.endpoints[*at].1.server as usize == on;
            let drives = |user: &&fusee_abi::image::EngineUser| {
                let device = system.engine_places[user.engine as usize].map(|(device, _)| device);
                user.task as usize == task && device.is_some_and(|device| system.devices[device].driver == on)
            };
            (0..system.endpoints.len())
                .filter(serves)
                .any(|at| has(task, kind::ENDPOINT, rights::CALL | rights::SEND, at))
                || system.engine_users.iter().any(|user| drives(&user))
                || has(on, kind::TASK, rights::RELEASE_JOB, task)
        };
        let drivers = clients.iter().filter_map(|client| Some(system.devices[self.device_of(*client)?].driver));
        let mut concerned: BTreeSet<usize> = ends.iter().map(|end| end.victim).chain(drivers).collect();
        loop {
            let more = (0..system.tasks.len()).filter(|task| concerned.iter().any(|on| depends(*task, *on)));
            let all: BTreeSet<usize> = concerned.iter().copied().chain(more).collect();
            if all.len() == concerned.len() {
                return concerned;
            }
            concerned = all;
        }
    }

    /// The objects in `report` that leaked.
    fn leaks(&self, report: &Report, ends: &[Ended]) -> Vec<String> {
        let Some((handles, copied_from)) = &self.held else { return Vec::new() };
        let mut problems = Vec::new();
        for (task, (found, calm)) in report.handles.iter().zip(handles).enumerate() {
            let is_dead = report.states[task] == State::Stopped;
            let is_for_good = is_dead && ends.iter().any(|end| end.victim == task) && self.bound(task).is_none();
            if found != if is_for_good { &0 } else { calm } {
                problems.push(format!("`{}` has {found} handles, not {calm}", self.manifest.system.tasks[task].name));
            }
        }
        if report.copied_from != *copied_from {
            problems.push(format!("{} handles are copied from, not {copied_from}", report.copied_from));
        }
        problems
    }

    /// Simulates one run, and judges it.
    fn attempt(&self, faults: &[Fault]) -> Verdict {
        match self.simulate(faults) {
            Ok(report) => {
                let mut verdict = self.judge(&report.records, faults);
                verdict.problems.extend(self.leaks(&report, &verdict.ends));
                verdict
            }
            Err(error) => Verdict { problems: vec![error.to_string()], ..Verdict::default() },
        }
    }

    /// Simulates so many runs, from the one with number `first` on, on all CPUs of the host.
    #[must_use]
    pub fn run(&self, seed: u64, first: u64, runs: u64) -> FaultReport {
        let one = |report: &mut FaultReport, index: u64| {
            let number = first + index;
            report.judge(number, &self.draw(seed, number, true), &|faults: &[Fault]| self.attempt(faults));
        };
        in_parallel(runs, &one, FaultReport::join)
    }

    /// These ends, in words.
    #[must_use]
    pub fn words(&self, faults: &[Fault]) -> String {
        let words = |Fault { at, victim, how }: &Fault| {
            let how = match how {
                How::Stopped => "is stopped",
                How::Faults => "faults",
                How::Device(wrong) => wrong.words(),
            };
            format!("`{}` {how} at {at} ns", self.manifest.system.tasks[*victim].name)
        };
        faults.iter().map(words).collect::<Vec<_>>().join(", ")
    }
}

/// The clients of all devices.
fn clients(system: &Resolved) -> Vec<Client> {
    let index = |name: &str| system.tasks.iter().position(|task| task.name == name);
    let of_device = |(device, resolved): (usize, &fusee_manifest::Device)| {
        let driver = system.tasks.get(resolved.driver).into_iter();
        let contexts = driver.flat_map(contexts);
        contexts
            .filter_map(move |(name, context)| Some(Client { task: index(name)?, device, context }))
            .collect::<Vec<_>>()
    };
    system.devices.iter().enumerate().flat_map(of_device).collect()
}

/// The script of the saboteur of `system` that ends these tasks.
#[must_use]
pub fn script(system: &Resolved, faults: &[Fault]) -> Vec<String> {
    let stop = |fault: &Fault| format!("stop {}", system.tasks[fault.victim].name);
    faults.iter().flat_map(|fault| [format!("sleep {}ns", fault.at), stop(fault)]).collect()
}

/// Leaves out of `faults` those without which the run goes wrong, too.
fn shrink(faults: &[Fault], run: &dyn Fn(&[Fault]) -> Verdict) -> (Vec<Fault>, Verdict) {
    let mut smallest = (faults.to_vec(), run(faults));
    let mut place = 0;
    while place < smallest.0.len() {
        let mut fewer = smallest.0.clone();
        fewer.remove(place);
        let verdict = run(&fewer);
        match verdict.problems.is_empty() {
            true => place += 1,
            false => smallest = (fewer, verdict),
        }
    }
    smallest
}

impl FaultReport {
    /// Adds the run with this number and these ends, which `run` makes and judges.
    pub fn judge(&mut self, number: u64, faults: &[Fault], run: &dyn Fn(&[Fault]) -> Verdict) {
        let Verdict { problems, ends, mishaps } = run(faults);
        self.runs += 1;
        if !problems.is_empty() {
            let (faults, verdict) = shrink(faults, run);
            self.violations.push((number, faults, verdict.problems));
        }
        self.note(&mishaps);
        for end in ends {
            let (times, again, longest) = self.ends.entry((end.victim, end.how.into())).or_default();
            *times += 1;
            if let Some(up) = end.up {
                *again += 1;
                *longest = (*longest).max(up - end.at);
            }
        }
    }

    /// Adds the results of devices that misbehaved.
    fn note(&mut self, mishaps: &[(usize, Wrong, bool, u64)]) {
        for (victim, wrong, is_taken, longest) in mishaps {
            let all = self.ends.entry((*victim, How::Device(*wrong))).or_default();
            *all = (all.0 + 1, all.1 + u64::from(*is_taken), all.2.max(*longest));
        }
    }

    /// Adds the results of other runs.
    pub fn join(&mut self, other: FaultReport) {
        self.runs += other.runs;
        for (key, (times, again, longest)) in other.ends {
            let all = self.ends.entry(key).or_default();
            *all = (all.0 + times, all.1 + again, all.2.max(longest));
        }
        self.violations.extend(other.violations);
        self.violations.sort_by_key(|violation| violation.0);
        self.violations.truncate(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::{ANALYSED, COSTS};
    use std::path::Path;

    fn demo() -> Manifest {
        Manifest::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../userland/demo/faults.toml")).unwrap()
    }

    fn campaign(manifest: &Manifest) -> Campaign<'_> {
        Campaign::new(manifest, 250_000_000, (COSTS, ANALYSED)).unwrap()
    }

    fn task(manifest: &Manifest, name: &str) -> usize {
        manifest.system.tasks.iter().position(|task| task.name == name).unwrap()
    }

    #[test]
    fn a_bound_that_does_not_hold_is_found_and_the_run_has_one_end_that_shows_it() {
        let manifest = demo();
        let mut campaign = campaign(&manifest);
        assert!(campaign.run(1, 0, 20).violations.is_empty());
        campaign.bounds.values_mut().for_each(|bound| *bound /= 10);
        let report = campaign.run(1, 0, 20);
        assert!(report.violations.len() > 5, "{report:?}");
        for (_, faults, problems) in &report.violations {
            assert!(
                faults.len() == 1 && problems.iter().all(|why| why.contains("the bound is 339")),
                "{faults:?} {problems:?}"
            );
        }
    }

    /// Six clients ask for an engine that drains for a driver that is dead, again and again, so that one of them has always yet to be told, when the supervisor looks, too.
    #[test]
    fn clients_that_ask_all_the_time_keep_no_driver_from_its_next_life() {
        let manifest = demo();
        let campaign = campaign(&manifest);
        let fault = |name: &str, at: u64, how: How| Fault { at, victim: task(&manifest, name), how };
        let faults = [
            fault("dsp", 29_792_008, How::Faults),
            fault("vibration", 96_198_950, How::Faults),
            fault("gpu", 120_274_592, How::Stopped),
        ];
        assert_eq!(campaign.attempt(&faults).problems, [""; 0]);
    }

    #[test]
    fn a_device_that_keeps_an_engine_is_found_where_nobody_watches() {
        let manifest = demo();
        let mut campaign = campaign(&manifest);
        let lost = [Fault { at: 50_000_000, victim: task(&manifest, "archive"), how: How::Device(Wrong::Lost) }];
        let watched = campaign.attempt(&lost);
        assert!(watched.problems.is_empty() && watched.mishaps[0].2, "{watched:?}");
        campaign.planted = Some(Planted::EngineWithoutWatchdog);
        let unwatched = campaign.attempt(&lost);
        assert!(unwatched.problems.iter().any(|why| why.contains("`dsp`")) && !unwatched.mishaps[0].2, "{unwatched:?}");
    }

    #[test]
    fn an_end_that_was_not_drawn_and_a_handle_too_few_are_found() {
        let manifest = demo();
        let campaign = campaign(&manifest);
        let at = 50_000_000;
        let fault = |name: &str| Fault { at, victim: task(&manifest, name), how: How::Stopped };
        let report = campaign.simulate(&[fault("gpu"), fault("hog1")]).unwrap();
        let problems = campaign.judge(&report.records, &[fault("gpu")]).problems;
        assert_eq!(problems, ["`hog1` ended, too"]);
        assert_eq!(campaign.leaks(&report, &[]), ["`hog1` has 0 handles, not 5"]);
    }

    #[test]
    fn an_end_concerns_clients_users_and_whom_it_releases_and_nobody_else() {
        let manifest = demo();
        let campaign = campaign(&manifest);
        let concerned = |name: &str| {
            let end = Ended { victim: task(&manifest, name), how: End::Stopped, at: 0, again: None, up: None };
            campaign.concerned(&[end])
        };
        assert_eq!(concerned("dsp"), ["vibration", "dsp", "archive"]);
        assert_eq!(concerned("camera"), ["camera", "stabiliser"]);
        assert_eq!(concerned("console"), ["stabiliser", "console", "director"]);
        assert_eq!(concerned("hog2"), ["hog2"]);
        assert_eq!(concerned("gpu").len(), 8);
    }
}
