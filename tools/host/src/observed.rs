//! Declarations of tasks beside the longest observations: budgets, `wcet`, holds of engines and tokens, calls, services.
//!
//! Records are looked at one by one, as [`Observed::observe`] is told of them. CPU time is that between switches, kernel paths included. What
//! was seen is no bound: a longer one may come. Where the records of a run were overwritten, only those that are left count.

use std::collections::{BTreeMap, BTreeSet};

use fusee_abi::trace::{Event, Record};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Resolved, admission};
use fusee_sched_analysis::Overheads;
use fusee_views::explain::Wait;
use fusee_views::services::Services;
use schemars::JsonSchema;
use serde::Serialize;

use crate::table::Table;
use crate::words;

/// What is declared.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Time that is charged to the task's reservation for one job, that of tasks which ran for it included.
    Budget,
    /// A job's own CPU time, without that of its holds of engines.
    Wcet,
    /// CPU time of one hold of an engine.
    HoldCpu,
    /// One hold of an engine until the engine is idle: CPU time and suspension, without time in which the task was ready to run. Of a
    /// preemptible engine the part in which another task waits for it: only then it is to be given away between blocks.
    Hold,
    /// Holds of an engine in one job.
    Holds,
    /// CPU time with a token, without that of holds of engines.
    Token,
    /// All of the time with a token, without time in which the task was ready to run. Nobody declares it: the analysis says what it is at most.
    Section,
    /// Calls of an endpoint in one job.
    Calls,
    /// CPU time of one service of an endpoint, without the calls that the server makes meanwhile.
    Service,
    /// Sleeps and waits for notifications and requests in one job, without those in holds of engines.
    Suspension,
}

impl What {
    fn words(self) -> &'static str {
        match self {
            What::Budget => "budget, a job",
            What::Wcet => "wcet, a job",
            What::HoldCpu => "CPU time, a hold",
            What::Hold => "whole, a hold",
            What::Holds => "holds, a job",
            What::Token => "CPU time, a token",
            What::Section => "whole, a token",
            What::Calls => "calls, a job",
            What::Service => "service_max",
            What::Suspension => "suspends, a job",
        }
    }

    fn is_count(self) -> bool {
        matches!(self, What::Holds | What::Calls)
    }
}

/// One declaration beside what was seen. Nanoseconds; holds and calls of a job are counts.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Declaration {
    /// The task that it is about.
    pub task: String,
    /// What is declared.
    pub what: What,
    /// The engine, pool or endpoint, if it is about one.
    pub object: Option<String>,
    /// What the manifest says, or what follows from that.
    pub declared: u64,
    /// The longest, or the most, that was seen; absent if it did not happen.
    pub longest: Option<u64>,
    /// The job of the longest, such as `sensor#1`: of a service that of its client.
    pub longest_in: Option<String>,
    /// Whether that is more.
    pub exceeds: bool,
}

/// Watches a run.
pub struct Observed<'a> {
    system: &'a Resolved,
    services: Services,
    threads: Vec<Thread>,
    /// Time charged to each reservation since its task's last job ended, nanoseconds.
    charged: Vec<u64>,
    /// Since when, which thread, on which reservation, of each CPU.
    running: BTreeMap<u8, (u64, usize, usize)>,
    /// Engine and thread of requests that are not granted.
    waiting: BTreeSet<(usize, usize)>,
    longest: BTreeMap<(usize, What, usize), Longest>,
}

/// The longest, or the most, and the number of its job.
#[derive(Clone, Copy, Debug, Default)]
struct Longest {
    amount: u64,
    job: u32,
}

/// The longest, or the most, of one task, whether it is declared or not. Nanoseconds; holds and calls of a job are counts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    /// The task, by index.
    pub task: usize,
    /// The kind.
    pub what: What,
    /// The engine, pool or endpoint, by index, if it is about one.
    pub object: usize,
    /// The longest, or the most.
    pub longest: u64,
    /// Its job.
    pub longest_in: String,
}

/// The observations of one thread. Nanoseconds.
#[derive(Clone, Default)]
struct Thread {
    /// The number of its job.
    number: u32,
    /// CPU time since the start, since the last job ended, and of it in holds of engines.
    run: u64,
    job: u64,
    job_held: u64,
    /// Time of suspension that is over, and since when it is suspended.
    suspended: u64,
    since: Option<u64>,
    /// Whether that is a part of `suspends`, and how much of it is over in this job.
    sleeps: bool,
    slept: u64,
    /// Engines that it holds, and those that are not idle after their release.
    holds: BTreeMap<usize, Hold>,
    /// CPU time at the grant of each token, in holds of engines until then, and time of suspension.
    tokens: BTreeMap<usize, (u64, u64, u64)>,
    /// CPU time in holds of engines since the start.
    held: u64,
    /// How often in this job, by engine and by endpoint.
    counts: BTreeMap<(What, usize), u64>,
}

#[derive(Clone, Copy)]
struct Hold {
    /// CPU time at the grant.
    run: u64,
    /// CPU time, and suspension, when the hold began to count as a whole.
    began: Option<(u64, u64)>,
    /// The instant of its release, and the time that it took until then.
    released: Option<(u64, u64)>,
}

impl Thread {
    fn suspended(&self, now: u64) -> u64 {
        self.suspended + self.since.map_or(0, |since| now.saturating_sub(since))
    }
}

impl<'a> Observed<'a> {
    /// Of a system that has not run yet.
    pub fn new(system: &'a Resolved) -> Self {
        Self {
            system,
            services: Services::new(system),
            threads: vec![Thread::default(); system.tasks.len()],
            charged: vec![0; system.reservations.len()],
            running: BTreeMap::new(),
            waiting: BTreeSet::new(),
            longest: BTreeMap::new(),
        }
    }

    /// Of a whole trace.
    pub fn of(trace: &Trace, system: &'a Resolved) -> Self {
        let mut observed = Self::new(system);
        trace.records.iter().for_each(|record| observed.observe(record));
        observed
    }

    /// Looks at one record.
    pub fn observe(&mut self, record: &Record) {
        self.services.observe(record);
        let Some(event) = Event::from_number(record.event) else { return };
        let now = record.time;
        let thread = usize::from(record.thread).checked_sub(1).filter(|thread| *thread < self.threads.len());
        let object = (record.object as usize).wrapping_sub(1);
        match event {
            Event::SwitchTo | Event::RunOn => {
                self.settle(record.cpu, now);
                let Some(thread) = thread else { return };
                self.threads[thread].number = record.job;
                self.running.insert(record.cpu, (now, thread, object));
                self.resume(thread, now);
                return;
            }
            Event::Idle => {
                self.settle(record.cpu, now);
                self.running.remove(&record.cpu);
                return;
            }
            _ => {}
        }
        let Some(thread) = thread else { return };
        // The thread may be on another CPU than the one that writes the record.
        let cpus: Vec<u8> = self.running.iter().filter(|(_, run)| run.1 == thread).map(|(cpu, _)| *cpu).collect();
        cpus.iter().for_each(|cpu| self.settle(*cpu, now));
        match event {
            Event::SwitchAway => self.running.retain(|_, run| run.1 != thread),
            // Another life begins with nothing.
            Event::Exit | Event::Fault | Event::Stop => {
                let one = &mut self.threads[thread];
                *one = Thread { run: one.run, suspended: one.suspended, held: one.held, ..Thread::default() };
            }
            Event::Block => {
                let wait = Wait::of(record.value, record.object);
                let is_declared = matches!(wait, Wait::Sleep | Wait::Notification(_) | Wait::Request);
                let one = &mut self.threads[thread];
                (one.since, one.sleeps) = (Some(now), is_declared && record.job > 0 && one.holds.is_empty());
            }
            Event::Resume => self.resume(thread, now),
            Event::Complete => self.complete(thread, now),
            Event::EngineRequest => {
                self.waiting.insert((object, thread));
                let running: Vec<u8> = self.running.keys().copied().collect();
                running.iter().for_each(|cpu| self.settle(*cpu, now));
                let others = self.threads.iter_mut().enumerate().filter(|(other, _)| *other != thread);
                for (_, one) in others {
                    let now = (one.run, one.suspended(now));
                    if let Some(hold) = one.holds.get_mut(&object).filter(|hold| hold.released.is_none()) {
                        hold.began.get_or_insert(now);
                    }
                }
            }
            Event::EngineGrant => {
                self.waiting.remove(&(object, thread));
                let counts = !self.is_preemptible(object) || self.waiting.iter().any(|(engine, _)| *engine == object);
                let one = &mut self.threads[thread];
                let began = counts.then(|| (one.run, one.suspended(now)));
                one.holds.insert(object, Hold { run: one.run, began, released: None });
                *one.counts.entry((What::Holds, object)).or_default() += 1;
            }
            Event::EngineRelease => {
                let one = &mut self.threads[thread];
                let (run, suspended) = (one.run, one.suspended(now));
                let Some(hold) = one.holds.get_mut(&object) else { return };
                let cpu = run - hold.run;
                hold.released = hold.began.map(|began| (now, run - began.0 + suspended - began.1));
                one.held += cpu;
                one.job_held += cpu;
                self.see(thread, What::HoldCpu, object, cpu);
            }
            Event::EngineIdle => {
                let Some(hold) = self.threads[thread].holds.remove(&object) else { return };
                let Some((released, until)) = hold.released else { return };
                // Others may have had SMs meanwhile, which no record tells.
                if self.system.arbitrated.get(object).is_some_and(Option::is_some) {
                    return;
                }
                self.see(thread, What::Hold, object, until + now.saturating_sub(released));
            }
            Event::TokenGrant => {
                let one = &mut self.threads[thread];
                one.tokens.insert(object, (one.run, one.held, one.suspended(now)));
            }
            Event::TokenRelease => {
                let one = &mut self.threads[thread];
                let (run, held, suspended) = (one.run, one.held, one.suspended(now));
                let Some(at) = one.tokens.remove(&object) else { return };
                self.see(thread, What::Token, object, (run - at.0).saturating_sub(held - at.1));
                self.see(thread, What::Section, object, run - at.0 + suspended - at.2);
            }
            Event::Call => *self.threads[thread].counts.entry((What::Calls, object)).or_default() += 1,
            _ => {}
        }
    }

    fn is_preemptible(&self, engine: usize) -> bool {
        let place = self.system.engine_places.get(engine).copied().flatten();
        place.and_then(|(device, _)| self.system.devices.get(device)).is_some_and(|device| device.preemptible)
    }

    fn resume(&mut self, thread: usize, now: u64) {
        let one = &mut self.threads[thread];
        if let Some(since) = one.since.take() {
            one.suspended += now.saturating_sub(since);
            one.slept += if one.sleeps { now.saturating_sub(since) } else { 0 };
        }
    }

    /// The time of the CPU so far counts for the thread and for the reservation on it.
    fn settle(&mut self, cpu: u8, now: u64) {
        let Some((since, thread, reservation)) = self.running.get_mut(&cpu) else { return };
        let span = now.saturating_sub(*since);
        *since = now;
        let one = &mut self.threads[*thread];
        one.run += span;
        one.job += span;
        self.charged.get_mut(*reservation).into_iter().for_each(|charged| *charged += span);
    }

    fn complete(&mut self, thread: usize, now: u64) {
        let own = self.system.tasks[thread].reservation;
        // Others may run on its reservation.
        let cpus: Vec<u8> = self.running.iter().filter(|(_, run)| Some(run.2) == own).map(|(cpu, _)| *cpu).collect();
        cpus.iter().for_each(|cpu| self.settle(*cpu, now));
        let charged = own.map(|own| std::mem::take(&mut self.charged[own]));
        let one = &mut self.threads[thread];
        let cpu = std::mem::take(&mut one.job).saturating_sub(std::mem::take(&mut one.job_held));
        let (counts, slept) = (std::mem::take(&mut one.counts), std::mem::take(&mut one.slept));
        charged.into_iter().for_each(|charged| self.see(thread, What::Budget, 0, charged));
        self.see(thread, What::Wcet, 0, cpu);
        self.see(thread, What::Suspension, 0, slept);
        counts.into_iter().for_each(|((what, object), count)| self.see(thread, what, object, count));
    }

    fn see(&mut self, thread: usize, what: What, object: usize, amount: u64) {
        let job = self.threads[thread].number;
        let longest = self.longest.entry((thread, what, object)).or_insert(Longest { amount, job });
        if amount > longest.amount {
            *longest = Longest { amount, job };
        }
    }

    /// A job, or the task if it has none.
    fn job(&self, task: usize, job: u32) -> String {
        let name = self.system.tasks.get(task).map_or("?", |task| task.name.as_str());
        if job == 0 { name.to_owned() } else { format!("{name}#{job}") }
    }

    /// All that was seen, task by task.
    pub fn seen(&self) -> Vec<Seen> {
        let of_services = self.services.all().filter_map(|service| {
            let object = self.system.endpoints.iter().position(|(name, _)| *name == service.endpoint)?;
            let (client, job) = service.longest_for?;
            let task = self.system.endpoints[object].1.server as usize;
            let longest_in = self.job(client, job);
            Some(Seen { task, what: What::Service, object, longest: service.longest, longest_in })
        });
        let of_tasks = self.longest.iter().map(|(&(task, what, object), seen)| {
            let longest_in = self.job(task, seen.job);
            Seen { task, what, object, longest: seen.amount, longest_in }
        });
        of_tasks.chain(of_services).collect()
    }

    /// All that is declared, task by task.
    pub fn declarations(&self) -> Vec<Declaration> {
        let system = self.system;
        let mut all = Vec::new();
        let mut add = |task: usize, what: What, (index, object): (usize, Option<&String>), declared: u64| {
            let seen = self.longest.get(&(task, what, index));
            let longest = seen.map(|seen| (seen.amount, self.job(task, seen.job)));
            all.push((task, what, object.cloned(), declared, longest));
        };
        for (index, task) in system.tasks.iter().enumerate().filter(|(_, task)| system.has_jobs(task)) {
            let Some(reservation) = task.reservation.map(|one| &system.reservations[one]) else { continue };
            add(index, What::Budget, (0, None), reservation.budget);
            if reservation.execution != reservation.budget {
                add(index, What::Wcet, (0, None), reservation.execution);
            }
            // The proof of a hard task relies on it, written or not.
            let suspends = system.suspends[index].0;
            let sleeps = self.longest.get(&(index, What::Suspension, 0)).is_some_and(|seen| seen.amount > 0);
            if suspends > 0 || task.hard && sleeps {
                add(index, What::Suspension, (0, None), suspends);
            }
        }
        for (user, hold) in system.engine_users.iter().zip(&system.engine_holds) {
            let Some(declared) = hold else { continue };
            let (task, engine) = (user.task as usize, user.engine as usize);
            let object = (engine, system.engines.get(engine).map(|(name, _)| name));
            let ends = system.engine_ends.get(engine).map_or(0, |ends| ends.0.0);
            let whole = declared.hold.cpu.0 + declared.hold.operation.0 + ends;
            add(task, What::HoldCpu, object, declared.hold.cpu.0);
            add(task, What::Hold, object, whole);
            if declared.times > 0 && system.has_jobs(&system.tasks[task]) {
                add(task, What::Holds, object, declared.times.into());
            }
        }
        for (task, pool, cpu) in &system.sections {
            add(*task, What::Token, (*pool, system.pools.get(*pool).map(|(name, _)| name)), cpu.0);
        }
        for (task, pool, span) in sections(system) {
            add(task, What::Section, (pool, system.pools.get(pool).map(|(name, _)| name)), span);
        }
        for (task, endpoint, times) in &system.calls {
            let Some((name, one)) = system.endpoints.get(*endpoint) else { continue };
            if one.server as usize != *task && system.has_jobs(&system.tasks[*task]) {
                add(*task, What::Calls, (*endpoint, Some(name)), (*times).into());
            }
        }
        for service in self.services.all().filter(|service| service.service_max > 0) {
            let Some((_, endpoint)) = system.endpoints.iter().find(|(name, _)| *name == service.endpoint) else {
                continue;
            };
            let longest = service.longest_for.map(|(client, job)| (service.longest, self.job(client, job)));
            let (server, name) = (endpoint.server as usize, Some(service.endpoint.clone()));
            all.push((server, What::Service, name, service.service_max, longest));
        }
        all.sort();
        let declaration = |(task, what, object, declared, seen): (usize, _, _, _, Option<(u64, String)>)| {
            let (longest, longest_in) = seen.unzip();
            let exceeds = longest.is_some_and(|longest| longest > declared);
            Declaration { task: system.tasks[task].name.clone(), what, object, declared, longest, longest_in, exceeds }
        };
        all.into_iter().map(declaration).collect()
    }
}

/// Sentences that are printed of declarations that did not hold, at most.
const BROKEN: usize = 3;

/// The declarations that did not hold, as sentences, by how far they were exceeded. A budget stands there only if it is alone: a task that pays for a
/// service or a hold that is too long exhausts its budget, too.
#[must_use]
pub fn broken(declarations: &[Declaration]) -> Vec<String> {
    let mut broken: Vec<&Declaration> =
        declarations.iter().filter(|one| one.exceeds && one.what != What::Section).collect();
    if broken.iter().any(|one| one.what != What::Budget) {
        broken.retain(|one| one.what != What::Budget);
    }
    let factor = |one: &Declaration| one.longest.unwrap_or(0) as f64 / one.declared.max(1) as f64;
    broken.sort_by(|one, other| factor(other).total_cmp(&factor(one)));
    broken.into_iter().take(BROKEN).filter_map(Declaration::sentence).collect()
}

/// The declarations that did not hold in a run without a missed deadline. Where emulated CPUs take turns, or time is the host's, `times_are_own` is
/// false: then a time may be that of others, and only numbers of holds and calls are sure.
#[must_use]
pub fn broken_unnoticed(declarations: &[Declaration], times_are_own: bool) -> Vec<String> {
    let sure: Vec<Declaration> =
        declarations.iter().filter(|one| times_are_own || one.what.is_count()).cloned().collect();
    broken(&sure)
}

impl Declaration {
    /// That it did not hold, if it did not.
    fn sentence(&self) -> Option<String> {
        let seen = self.longest.filter(|_| self.exceeds)?;
        let (task, object) = (&self.task, self.object.as_deref().unwrap_or("?"));
        let times = |count: u64| if count == 1 { "once".to_owned() } else { format!("{count} times") };
        let job = self.longest_in.as_ref().filter(|job| **job != self.task);
        let place = job.map_or_else(String::new, |job| format!(" in `{job}`"));
        let span = |time: u64| words::span(time.cast_signed());
        let (declared, seen) = match self.what.is_count() {
            true => (times(self.declared), format!("it did so {}", times(seen))),
            false => (span(self.declared).replace(".000 ", " "), format!("it took {}", span(seen))),
        };
        let words = match self.what {
            What::Budget => format!("a job of `{task}` needs a budget of {declared}"),
            What::Wcet => format!("a job of `{task}` computes for {declared} (`wcet`)"),
            What::HoldCpu => format!("`{task}` computes for {declared} in a hold of `{object}` (`cpu`)"),
            What::Hold => format!("a hold of `{object}` by `{task}` takes {declared} in all (`cpu`, `operation`)"),
            What::Token => format!("`{task}` computes for {declared} with a token of `{object}` (`cpu`)"),
            What::Section => format!("`{task}` has a token of `{object}` for {declared}"),
            What::Service => format!("a call of `{object}` takes {declared} (`service_max`)"),
            What::Holds => format!("a job of `{task}` holds `{object}` {declared} (`times`)"),
            What::Calls => format!("a job of `{task}` calls `{object}` {declared} (`times`)"),
            What::Suspension => format!("a job of `{task}` sleeps and waits for {declared} in all (`suspends`)"),
        };
        let source = if self.what == What::Section { "expected" } else { "declared" };
        Some(format!("{source}: {words}; {seen}{place}"))
    }
}

/// Task, pool and how long it has a token, at most, where the analysis says so.
fn sections(system: &Resolved) -> Vec<(usize, usize, u64)> {
    let mut all = Vec::new();
    for cluster in 0..system.clusters.len() {
        let Ok(study) = admission::Study::new(system, cluster) else { continue };
        let Ok((_, blocked)) = study.analyse(&Overheads::default()) else { continue };
        for (member, blocked) in study.members.iter().zip(blocked) {
            let named = |index| system.pools.iter().position(|(name, _)| name == study.pool(index));
            let held = blocked.sections.iter();
            all.extend(held.filter_map(|(index, span)| Some((*member, named(*index)?, span.0))));
        }
    }
    all
}

/// The table of `--observed`.
pub fn table(declarations: &[Declaration]) -> Table {
    let mut table =
        Table::new(["task", "of", "declares", "declared", "longest", "unit", ""]).left(&["of", "declares", "unit", ""]);
    for one in declarations {
        let show = |amount: u64| match one.what.is_count() {
            true => amount.to_string(),
            false => words::microseconds(amount),
        };
        table.add_row([
            one.task.clone(),
            one.object.clone().unwrap_or_else(|| "-".into()),
            one.what.words().to_owned(),
            show(one.declared),
            one.longest.map_or_else(|| "-".into(), show),
            if one.what.is_count() { String::new() } else { "us".into() },
            if one.exceeds { words::red("EXCEEDS") } else { String::new() },
        ]);
    }
    table
}

/// The bytes of a stack that are used, of all: `1.234 of 16 KiB`.
#[must_use]
pub fn stack_words(used: u64, whole: u64) -> String {
    let thousandths = (used * 1000).div_ceil(1024);
    format!("{}.{:03} of {} KiB", thousandths / 1000, thousandths % 1000, whole / 1024)
}

/// The second table of `--observed`: stacks of tasks, each with the bytes of it that were used.
#[must_use]
pub fn stack_table(system: &Resolved, used: impl Fn(usize) -> Option<u64>) -> Table {
    let mut table = Table::new(["task", "stack used"]);
    for (index, task) in system.tasks.iter().enumerate() {
        let words = used(index).map(|used| stack_words(used, task.stack));
        table.add_row([task.name.clone(), words.unwrap_or_else(|| "-".into())]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fusee_manifest::Manifest;
    use fusee_simulator::{Options, simulate_observed};

    use super::*;

    /// A job computes 300 us, calls for 100 us, and holds a mutex for 200 us, CALLS times each.
    const SYSTEM: &str = "
        [system]
        name = \"observed\"
        board = \"virt\"
        cpus = 1
        [tasks.client]
        script = [\"burn 300us\", \"call desk 100us\", \"acquire mutex\", \"burn 200us\", \"release mutex\"]
        period = \"10ms\"
        budget = \"2ms\"
        wcet = \"WCET\"
        handles = { desk = \"endpoint desk: call\", mutex = \"engine mutex: acquire\" }
        uses = { mutex = { times = 1, cpu = \"HOLD\" }, desk = { times = 1 } }
        [tasks.desk]
        script = [\"serve desk\"]
        handles = { desk = \"endpoint desk: receive\" }
        [endpoints.desk]
        server = \"desk\"
        service_max = \"100us\"
        [engines.mutex]
    ";

    fn seen(wcet: &str, hold: &str) -> Vec<(What, u64, Option<u64>, bool)> {
        let text = SYSTEM.replace("WCET", wcet).replace("HOLD", hold);
        declarations(&text).into_iter().map(|one| (one.what, one.declared, one.longest, one.exceeds)).collect()
    }

    fn declarations(text: &str) -> Vec<Declaration> {
        let manifest = Manifest::parse(Path::new("m.toml"), text).expect("a manifest");
        let mut observed = Observed::new(&manifest.system);
        let mut observe = |record: &Record| observed.observe(record);
        simulate_observed(&manifest, &Options::default(), 100_000_000, &mut observe).expect("a simulation");
        observed.declarations()
    }

    #[test]
    fn what_is_declared_stands_beside_what_a_script_says() {
        let all = [
            (What::Budget, 2_000_000, Some(600_000), false),
            (What::Wcet, 300_000, Some(300_000), false),
            (What::HoldCpu, 200_000, Some(200_000), false),
            (What::Hold, 200_000, Some(200_000), false),
            (What::Holds, 1, Some(1), false),
            (What::Calls, 1, Some(1), false),
            (What::Service, 100_000, Some(100_000), false),
        ];
        assert_eq!(seen("300us", "200us"), all);
    }

    /// A job sleeps for 4 ms in two parts, and declares 3 ms; a task that neither sleeps nor says so has no row.
    #[test]
    fn sleeps_stand_beside_what_a_task_declares_of_them() {
        let text = "
            [system]
            name = \"observed\"
            board = \"virt\"
            cpus = 1
            [tasks.sleeper]
            script = [\"pause 3ms\", \"burn 1ms\", \"pause 1ms\"]
            period = \"20ms\"
            budget = \"2ms\"
            suspends = \"3ms\"
            [tasks.other]
            script = [\"burn 1ms\"]
            period = \"20ms\"
            budget = \"2ms\"
        ";
        let observed = declarations(text);
        let sleeps: Vec<_> = observed.iter().filter(|one| one.what == What::Suspension).collect();
        let [sleeper] = sleeps[..] else { panic!("{sleeps:?}") };
        assert_eq!((sleeper.declared, sleeper.longest, sleeper.exceeds), (3_000_000, Some(4_000_000), true));
        let words = "declared: a job of `sleeper` sleeps and waits for 3 ms in all (`suspends`); it took 4.000 ms in `sleeper#1`";
        assert_eq!(broken(&observed), [words]);
    }

    fn declared(what: What, declared: u64, longest: u64, object: Option<&str>) -> Declaration {
        let (task, longest_in, object) = ("store".to_owned(), Some("sensor#1".to_owned()), object.map(str::to_owned));
        Declaration { task, what, object, declared, longest: Some(longest), longest_in, exceeds: longest > declared }
    }

    #[test]
    fn what_did_not_hold_is_a_sentence_and_the_farthest_comes_first() {
        let service = declared(What::Service, 50_000, 803_743, Some("store"));
        let calls = declared(What::Calls, 1, 2, Some("store"));
        let budget = declared(What::Budget, 100_000, 9_000_000, None);
        let kept = declared(What::Wcet, 100_000, 99_999, None);
        let words = "declared: a call of `store` takes 50 us (`service_max`); it took 803.743 us in `sensor#1`";
        let twice = "declared: a job of `store` calls `store` once (`times`); it did so 2 times in `sensor#1`";
        assert_eq!(broken(&[calls, kept.clone(), budget.clone(), service]), [words, twice]);
        assert_eq!(broken(&[budget]).len(), 1);
        assert_eq!(broken(&[kept]), [""; 0]);
    }

    #[test]
    fn without_a_missed_deadline_times_count_only_where_they_are_the_tasks_own() {
        let calls = declared(What::Calls, 1, 2, Some("store"));
        let wcet = declared(What::Wcet, 100_000, 900_000, None);
        let words = [
            "declared: a job of `store` computes for 100 us (`wcet`); it took 900 us in `sensor#1`",
            "declared: a job of `store` calls `store` once (`times`); it did so 2 times in `sensor#1`",
        ];
        let all = [calls, wcet];
        assert_eq!(broken_unnoticed(&all, true).len(), 2);
        assert_eq!(broken_unnoticed(&all, false), words[1..]);
    }

    #[test]
    fn used_bytes_of_a_stack_are_rounded_up() {
        assert_eq!(stack_words(0, 16384), "0.000 of 16 KiB");
        assert_eq!(stack_words(1, 16384), "0.001 of 16 KiB");
        assert_eq!(stack_words(16383, 16384), "16.000 of 16 KiB");
        assert_eq!(stack_words(1536, 65536), "1.500 of 64 KiB");
    }

    #[test]
    fn what_exceeds_its_declaration_is_marked() {
        let exceeding = |wcet, hold| {
            let marked = seen(wcet, hold).into_iter().filter(|one| one.3);
            marked.map(|one| one.0).collect::<Vec<_>>()
        };
        assert_eq!(exceeding("299us", "200us"), [What::Wcet]);
        assert_eq!(exceeding("300us", "199us"), [What::HoldCpu, What::Hold]);
    }
}
