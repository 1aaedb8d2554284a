//! One system in the simulator, and the judgement of its proved tasks.

use std::panic::{self, AssertUnwindSafe};

use fusee_abi::call::{HandleValue, rights};
use fusee_abi::environment;
use fusee_abi::image::{Reservation, kind, release};
use fusee_abi::script::{Step, operation};
use fusee_abi::trace::{Event, Record};
use fusee_graph::names;
use fusee_manifest::admission::{Missing, Study};
use fusee_manifest::{Entry, Manifest, PolicyName, Resolved};
use fusee_simulator::system;
use fusee_simulator::{Checks, Options, Overheads, Program};
use fusee_views::metrics::{Metrics, TaskMetrics};

use super::attacker::{Attacker, Pace};
use super::{BEHAVIOURS, CALLS, Fault, Granted, HostileReport, Kind, Outcome, SPARE, Which, first, jobs, tree};
use crate::blocking::calls;
/// How long a simulation is: so many of the longest period of its system,
const LONGEST: [u64; 2] = [2, 5];
/// or between them, so many of the shortest.
const SHORTEST: u64 = 40;

/// Runs as [`run`] does, and a panic is a fault, where panics unwind.
pub(super) fn run_or_panic(manifest: &Manifest, origin: (u64, u64), kernel: Which) -> Result<Outcome, String> {
    panic::catch_unwind(AssertUnwindSafe(|| run(manifest, origin, kernel))).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref().copied());
        Ok(Outcome { wrong: Some((Fault::Panics, words.unwrap_or("a panic").to_owned())), ..Outcome::default() })
    })
}

/// Simulates one system, and judges its hard tasks.
pub(super) fn run(manifest: &Manifest, (seed, number): (u64, u64), kernel: Which) -> Result<Outcome, String> {
    let system = &manifest.system;
    let costs = kernel.costs_of(number / BEHAVIOURS);
    let attackers = attackers(system, seed, number);
    let habit = |(task, attacker): &(usize, Attacker)| format!("{}: {}", system.tasks[*task].name, attacker.habits());
    let habits: Vec<String> = attackers.iter().map(habit).collect();
    let habits = habits.join(", ");
    let mut programs: Vec<(usize, Program)> =
        attackers.into_iter().map(|(task, attacker)| (task, attacker.program())).collect();
    let attackers = programs.len() as u64;
    if costs.is_none() {
        programs.extend(tempted(system, number));
    }
    // Work of the kernel for a service is part of the service.
    programs.extend(calls::programs(manifest, costs.map_or(0, |(costs, _)| SPARE + CALLS * costs.sum())));
    let periods = || jobs(system).map(|one| one.period);
    let (shortest, longest) = (periods().min().unwrap_or(0), periods().max().unwrap_or(0));
    let limit = system.start + (SHORTEST * shortest).clamp(LONGEST[0] * longest, LONGEST[1] * longest);
    let checks = if number.is_multiple_of(16) { Checks::Traps } else { Checks::Instants(16) };
    let overheads = costs.map_or(Overheads::NONE, |costs| costs.0);
    let options = Options {
        overheads,
        checks,
        first: first(number / BEHAVIOURS, kernel),
        planted: kernel.planted,
        programs,
        ..Options::default()
    };
    let mut metrics = Metrics::new(system);
    let mut watch = Watch::new(system);
    let mut observe = |record: &Record| {
        metrics.observe(record);
        watch.observe(record);
    };
    let report = match system::simulate_observed(manifest, &options, limit, &mut observe) {
        Ok(report) => report,
        Err(error) => return failed(&error, &habits).map(|outcome| Outcome { attackers, ..outcome }),
    };
    let is_warned = !system.warnings.is_empty();
    let mut outcome = Outcome { traps: report.traps, attackers, is_warned, ..Outcome::default() };
    let proved = proved(system, costs.map(|costs| costs.1), kernel.granted);
    for (index, task) in metrics.tasks.iter().enumerate() {
        let Some(reservation) = system.tasks[index].reservation.filter(|_| proved[index]) else { continue };
        let one = &system.reservations[reservation];
        let what = kind_of(system, index, one);
        let policy = PolicyName::from_number(system.clusters[one.cluster as usize].1.policy).unwrap_or_default();
        *outcome.proved.entry((policy.name(), what)).or_default() += 1;
        outcome.jobs += task.jobs();
        let latest = task.max_lateness().unwrap_or(i64::MIN);
        let wrong = fault_of(system, (index, one), task, &watch, report.ended_at);
        if let Some((fault, wrong)) = wrong {
            let text = format!(
                "hard task {}, {} {what:?}, deadline {} ns: {wrong} ({habits})",
                task.name,
                policy.name(),
                one.deadline
            );
            outcome.wrong = outcome.wrong.or(Some((fault, text)));
        } else if latest > i64::MIN {
            let response = one.deadline.saturating_add_signed(latest);
            let mut report = HostileReport { tightest: outcome.tightest, ..HostileReport::default() };
            report.tighten((response, one.deadline));
            outcome.tightest = report.tightest;
        }
    }
    Ok(outcome)
}

/// The outcome of a simulation that did not come to its end; an error is one of the campaign itself.
fn failed(error: &system::Error, habits: &str) -> Result<Outcome, String> {
    let fault = match error {
        // No task of a campaign runs a program of the host.
        system::Error::Manifest(_) | system::Error::Program { .. } | system::Error::Unsuited { .. } => {
            return Err(error.to_string());
        }
        // Where calls cost nothing, a request that is refused at once may be repeated for ever.
        system::Error::Stuck { .. } => return Ok(Outcome { is_stuck: true, ..Outcome::default() }),
        system::Error::Simulation(error) => {
            Fault::Kernel(format!("{error:?}").chars().filter(|letter| !letter.is_ascii_digit()).collect())
        }
    };
    Ok(Outcome { wrong: Some((fault, format!("{error} ({habits})"))), ..Outcome::default() })
}

/// The sort of a proved task, by the means it uses.
fn kind_of(system: &Resolved, index: usize, one: &Reservation) -> Kind {
    let uses = |kinds: u32| system.handles.iter().any(|handle| handle.task as usize == index && handle.kind == kinds);
    match () {
        () if uses(kind::ENGINE) || uses(kind::POOL) => Kind::Locks,
        () if uses(kind::ENDPOINT) => Kind::Calls,
        () if system.suspends[index].0 > 0 => Kind::Sleeps,
        () if one.release == release::SPORADIC => Kind::Sporadic,
        () => Kind::Periodic,
    }
}

/// The first promise to a proved task that the run up to `ended_at` broke, in words.
fn fault_of(
    system: &Resolved,
    (index, one): (usize, &Reservation),
    task: &TaskMetrics,
    watch: &Watch,
    ended_at: u64,
) -> Option<(Fault, String)> {
    // Jobs whose deadlines have passed are over.
    let since = ended_at.checked_sub(system.start + one.phase + one.deadline);
    let due = since.map_or(0, |since| since.div_ceil(one.period));
    // Others begin this one, or no task does.
    let due = if system.tasks[index].supervision.is_dormant { 0 } else { due };
    let latest = task.max_lateness().unwrap_or(i64::MIN);
    let name = || task.name.clone();
    if latest > 0 {
        return Some((Fault::Late(name()), format!("a job is {latest} ns late")));
    }
    if one.release != release::SPORADIC && task.jobs() < due {
        let words = format!("{} of {due} jobs are complete, and {} were skipped", task.jobs(), task.skipped);
        return Some((Fault::Missing(name()), words));
    }
    if let Some(begun) = watch.overdue(index, ended_at, one.deadline + early(one)) {
        let words = format!("the job that began at {begun} ns is not complete at {ended_at} ns");
        return Some((Fault::Endless(name()), words));
    }
    watch.dead[index].then(|| (Fault::Dead(name()), "it is dead".to_owned()))
}

/// How long before its release a job may begin, at most.
fn early(own: &Reservation) -> u64 {
    if own.begins_early != 0 { own.period } else { 0 }
}

/// The tasks that are proved, with costs of the kernel's paths, and with a condition taken for granted.
pub(super) fn proved(
    system: &Resolved,
    costs: Option<fusee_sched_analysis::Overheads>,
    granted: Option<Granted>,
) -> Vec<bool> {
    let mut proved: Vec<bool> = system.tasks.iter().map(|task| task.hard).collect();
    // Admission has proved them all.
    if costs.is_none() && granted.is_none() && system.warnings.is_empty() {
        return proved;
    }
    for cluster in 0..system.clusters.len() {
        let Ok(mut study) = Study::new(system, cluster) else {
            let is_here = |task: &fusee_manifest::Task| task.cluster as usize == cluster;
            system.tasks.iter().zip(&mut proved).for_each(|(task, proved)| *proved &= !is_here(task));
            continue;
        };
        if costs.is_some() {
            study.doubt_interrupts(system, cluster);
        }
        let found = study.analyse(&costs.unwrap_or_default());
        let is_granted = |missing: &Missing| granted.is_some_and(|granted| granted.covers(missing));
        for (at, member) in study.members.iter().enumerate() {
            proved[*member] &=
                found.as_ref().is_ok_and(|(report, blocked)| study.missing(at, report, blocked).iter().all(is_granted));
        }
    }
    proved
}

/// Hard tasks that try to wait inside their holds for all that they can, and keep their declarations. All that they try is refused.
fn tempted(system: &Resolved, number: u64) -> Vec<(usize, Program)> {
    let program = |(index, task): (usize, &fusee_manifest::Task)| {
        let is_node = task.environment.iter().any(|entry| entry.name == names::GRAPH);
        if !task.hard || is_node || task.sleeps_inside || (index as u64 + number).is_multiple_of(2) {
            return None;
        }
        let reservation = &system.reservations[task.reservation?];
        let own: Vec<_> = system.handles.iter().filter(|handle| handle.task as usize == index).collect();
        let value =
            |slot: u32| task.environment.iter().find(|entry| u32::from(HandleValue(entry.handle).slot()) == slot);
        let tries = own.iter().filter_map(|handle| {
            let operation = match handle.kind {
                kind::ENDPOINT if handle.rights & rights::CALL != 0 => operation::CALL,
                kind::NOTIFICATION if handle.rights & rights::WAIT != 0 => operation::WAIT,
                kind::ENGINE | kind::POOL => operation::ACQUIRE,
                _ => return None,
            };
            let handle = value(handle.slot).filter(|_| handle.rights & rights::INSIDE == 0)?.handle;
            Some(Step { operation, selector: 0, handle, value: 0 })
        });
        let sleep = Step { operation: operation::SLEEP, selector: 0, handle: 0, value: 2 * reservation.period };
        let tries: Vec<Step> = tries.chain([sleep]).collect();
        let mut steps = Vec::new();
        for step in &task.script {
            steps.push(*step);
            // A task without the right holds nothing then.
            let held = system.handle(index, step.handle).filter(|one| one.rights & rights::ACQUIRE != 0);
            if step.operation == operation::ACQUIRE && held.is_some() {
                steps.extend_from_slice(&tries);
            }
        }
        let has_tried = steps.len() > task.script.len();
        has_tried.then(|| (index, Program::Script { steps, has_jobs: true, node: None }))
    };
    system.tasks.iter().enumerate().filter_map(program).collect()
}

/// The bits of an engine's flags that are its number in its device.
const ENGINE: u32 = 0xff;

/// The attackers among the tasks.
fn attackers(system: &Resolved, seed: u64, number: u64) -> Vec<(usize, Attacker)> {
    let pace = |task: usize| {
        let one = &system.reservations[system.tasks[task].reservation?];
        let pace =
            Pace { first: system.start + one.phase, period: one.period, budget: one.budget, deadline: one.deadline };
        (one.release != release::NONE).then_some(pace)
    };
    let mut all = Vec::new();
    for (index, task) in system.tasks.iter().enumerate() {
        let is_server = tree::is_server(&task.name);
        // A script is all that its task does, also if others rely on it.
        let is_relied_on = !task.script.is_empty() || system.keeps_word[index] || system.supervisor == Some(index);
        if is_relied_on || is_server || system.devices.iter().any(|device| device.driver == index) {
            continue;
        }
        let handles = task.environment.iter().filter(|entry| entry.handle != 0 && entry.kind <= kind::POOL);
        let handles = handles.map(|entry| (entry.kind, entry.handle, entry.flags & ENGINE)).collect();
        let is_shared = |entry: &&Entry| entry.kind == kind::ENGINE && entry.flags & environment::SHARED != 0;
        let shared = task.environment.iter().filter(is_shared).map(|entry| entry.flags & ENGINE).collect();
        let graph = task.environment.iter().find(|entry| entry.name == names::GRAPH).and_then(|entry| {
            let region = system::object(system, index, entry.handle)? as usize;
            let number = task.environment.iter().find(|entry| entry.name == names::NODE)?.address;
            Some((region, number as usize))
        });
        let others = (0..system.tasks.len()).filter(|other| *other != index).filter_map(pace).collect();
        // A smaller system shows it, too.
        let name = task.name.bytes().fold(0, |sum: u64, byte| sum * 31 + u64::from(byte));
        let stream = number << 16 | name & 0xffff;
        let attacker = Attacker { seed: seed ^ 1 << 63, stream, handles, shared, graph, own: pace(index), others };
        all.push((index, attacker));
    }
    all
}

/// The facts about jobs in a trace besides [`Metrics`].
struct Watch {
    /// By task, when its job began that is not complete.
    begun: Vec<Option<u64>>,
    /// By task, whether it has ended.
    dead: Vec<bool>,
}

impl Watch {
    fn new(system: &Resolved) -> Watch {
        Watch { begun: vec![None; system.tasks.len()], dead: vec![false; system.tasks.len()] }
    }

    fn observe(&mut self, record: &Record) {
        let Some(task) = usize::from(record.thread).checked_sub(1).filter(|task| *task < self.begun.len()) else {
            return;
        };
        match Event::from_number(record.event) {
            Some(Event::Release) => self.begun[task] = Some(record.time),
            Some(Event::Complete) => self.begun[task] = None,
            Some(Event::Exit | Event::Fault) => self.dead[task] = true,
            _ => {}
        }
    }

    /// When the job of a task began that should be complete at `now`, and is not.
    fn overdue(&self, task: usize, now: u64, deadline: u64) -> Option<u64> {
        self.begun[task].filter(|begun| begun + deadline < now)
    }
}
