//! A report as a certificate: each bound with a witness, for a checker that does not trust this crate.
//!
//! The tests are asked again, and give the numbers that make their results easy to check: busy windows, instants at which jobs are complete,
//! windows of due work, fixed points, delays. `fusee_certificate` has the conditions that the checker evaluates.
//!
//! Instants are chosen from the last job of a window backwards: each serves for as many earlier jobs as it can.

use fusee_certificate::format::{self};
use fusee_certificate::format::{By, Claim, Part, Policy, Span, Suspended, Task, Uncertified, Window, Witness};
use fusee_sched::key::{Policy as _, PolicyName, PriorityPoint};
use fusee_sched::time::Nanoseconds;
use num_rational::BigRational;
use num_traits::ToPrimitive;

use crate::blocking::{self, Blocked};
use crate::locks::{Locks, Rest};
use crate::overheads::{Infeasible, Locking, Overheads, inflate_each, sum};
use crate::report::{self, Bound, Hard, Report, Test};
use crate::task::Cluster;
use crate::uniprocessor::{self, Looks};
use crate::utilisation::{self, Utilisations};
use crate::{compliant, devi, interference, plus, suspension, windows};

/// The longest time that a checker adds up: 2^57 ns.
const LONGEST: u64 = 1 << 57;

/// A cluster with its report.
pub struct Subject<'a> {
    /// The name of the cluster.
    pub name: &'a str,
    /// The names of its tasks.
    pub names: Vec<&'a str>,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The costs of the kernel.
    pub overheads: &'a Overheads,
    /// The locks that its tasks share.
    pub locks: Option<&'a Locks>,
    /// The report.
    pub report: &'a Report,
    /// The blocking of each task.
    pub blocked: &'a [Blocked],
    /// A part of a task's blocking in words.
    pub words: &'a dyn Fn(&blocking::Part) -> String,
}

/// The cluster of a certificate that makes the claims of a report.
///
/// # Errors
/// [`Infeasible::OnlyInterrupts`].
pub fn certify(subject: &Subject<'_>) -> Result<format::Cluster, Infeasible> {
    let Subject { cluster, overheads, report, .. } = *subject;
    let locking: Vec<Locking> = subject.blocked.iter().map(Blocked::locking).collect();
    let locking = if locking.iter().all(|one| *one == Locking::default()) { &[] } else { &locking[..] };
    let requests = |one: &Locking| Locking { requests: one.requests, ..Locking::default() };
    let requests: Vec<Locking> = locking.iter().map(requests).collect();
    let (whole, infeasible) = inflate_each(cluster, overheads, locking)?;
    let (executing, _) = inflate_each(cluster, overheads, &requests)?;
    let shares = Utilisations::of(whole.tasks());
    // By tests with witnesses.
    let base = report::analyse(&cluster.clone().released_by_clock(Vec::new()), overheads, locking)?;
    let latency = overheads.event_latency.0;
    let mut writer = Writer { subject, whole, executing, shares, base: &base, witness: Witness::default() };
    let is_too_long = |task: usize| infeasible.iter().any(|why| why.task() == Some(task));
    let mut tasks: Vec<Task> =
        (0..writer.whole.tasks().len()).map(|task| writer.task(task, is_too_long(task))).collect();
    for (task, one) in tasks.iter_mut().enumerate() {
        let Some(bound) = &report.tasks[task].bound else { continue };
        let mut bounds = vec![bound];
        let before = base.tasks[task].bound.as_ref();
        if matches!(bound.test, Test::Windows | Test::Jitter | Test::Reachability) {
            bounds.extend(before);
        }
        let is_hard = report.tasks[task].hard == Hard::Proved;
        for bound in bounds {
            writer.add(task, bound, is_hard, one);
        }
        if before.is_some_and(|before| before.test == bound.test && before.response < bound.response) {
            one.assumes.push("budgets that others take in advance come first until the deadline".to_owned());
        }
    }
    let policy = match cluster.policy() {
        PolicyName::Edf => Policy::Edf,
        PolicyName::Fl => Policy::Fl,
        PolicyName::Rm => Policy::Rm,
        PolicyName::Dm => Policy::Dm,
        PolicyName::Fp => Policy::Fp,
    };
    let (name, cpus) = (subject.name.to_owned(), cluster.cpus());
    Ok(format::Cluster { name, cpus, policy, latency, tasks, witness: writer.witness })
}

/// A certificate in the making.
struct Writer<'a> {
    subject: &'a Subject<'a>,
    /// The cluster with the waits of jobs and the costs of the kernel.
    whole: Cluster,
    /// The cluster without the waits.
    executing: Cluster,
    shares: Utilisations,
    /// The report by tests for which waiting is execution.
    base: &'a Report,
    witness: Witness,
}

/// The reason why a bound has no witness, in words.
type Missing = &'static str;

const TOO_LONG: Missing = "a time is longer than is checked";
const NOT_FOUND: Missing = "the test does not find it again";

impl Writer<'_> {
    /// The parameters of a task, and the parts of its cost.
    fn task(&self, index: usize, is_too_long: bool) -> Task {
        let Subject { cluster, names, .. } = self.subject;
        let declared = cluster.tasks()[index];
        Task {
            name: names[index].to_owned(),
            period: declared.period.0,
            deadline: declared.deadline.0,
            priority: declared.priority,
            expected: cluster.scheduled()[index].execution.0,
            cost: (!is_too_long).then_some(self.whole.tasks()[index].execution.0),
            parts: self.parts(index, is_too_long),
            claims: Vec::new(),
            uncertified: Vec::new(),
            assumes: Vec::new(),
        }
    }

    /// The parts of the cost of a task, the largest causes by name.
    fn parts(&self, index: usize, is_too_long: bool) -> Vec<Part> {
        let Subject { cluster, overheads, blocked, words, .. } = self.subject;
        let own = &blocked[index];
        let waiting = own.locking();
        let switches = sum(&[(2, overheads.schedule), (2, overheads.context_switch), (1, overheads.cache_delay)]);
        let requests = sum(&[(waiting.requests.into(), overheads.request())]);
        let executes = [
            ("execution", cluster.tasks()[index].execution),
            ("requests of locks and servers", requests),
            ("schedules and switches", switches),
            ("interprocessor interrupt", overheads.interprocessor_interrupt),
        ];
        let waits = [("operations of engines", waiting.operations), ("suspension", waiting.suspends)];
        let part = |name: &str, span: u64, waits: bool| Part { name: name.to_owned(), span, waits };
        let mut parts: Vec<Part> = executes.iter().map(|(name, span)| part(name, span.0, false)).collect();
        let executing: u64 = executes.iter().map(|(_, span)| span.0).fold(0, u64::saturating_add);
        if !is_too_long {
            let name = if cluster.above().is_empty() { "interrupts" } else { "interrupts and boosted servers" };
            let rest = self.executing.tasks()[index].execution.0.saturating_sub(executing);
            parts.push(part(name, rest, false));
        }
        parts.extend(waits.iter().map(|(name, span)| part(name, span.0, true)));
        parts.extend(own.parts.iter().map(|one| part(&format!("waiting for {}", words(one)), one.span.0, true)));
        if !is_too_long {
            let [whole, executing] = [&self.whole, &self.executing].map(|one| one.tasks()[index].execution.0);
            let waits = waiting.operations + waiting.suspends + waiting.blocking;
            parts.push(part(
                "interrupts while it waits",
                whole.saturating_sub(executing).saturating_sub(waits.0),
                true,
            ));
        }
        parts.retain(|part| part.span > 0);
        parts
    }

    /// Adds the claim of a bound, with its witness.
    fn add(&mut self, task: usize, bound: &Bound, is_hard: bool, one: &mut Task) {
        let latency = self.subject.overheads.event_latency.0;
        let response = whole_nanoseconds(&bound.response);
        let found = match response.filter(|response| *response <= LONGEST).map(|response| response - latency) {
            Some(model) => self.by(task, bound.test, model),
            None => Err(TOO_LONG),
        };
        let response = response.unwrap_or(u64::MAX);
        match found {
            Ok(by) => one.claims.push(Claim { response, meets: is_hard && response <= one.deadline, by }),
            Err(why) => {
                let (test, why) = (bound.test.name().to_owned(), why.to_owned());
                one.uncertified.push(Uncertified { response, test, why });
            }
        }
    }

    /// The test with its witness, for a bound of `response` after the release.
    fn by(&mut self, task: usize, test: Test, response: u64) -> Result<By, Missing> {
        match test {
            Test::OwnCpu => Ok(By::OwnCpu),
            Test::FixedPriorityResponse => self.fixed_priorities(task, response),
            Test::DeadlineResponse => self.deadlines(task, response),
            Test::Demand => self.demand(),
            Test::Density => Ok(By::Density),
            Test::Tightest => self.compliant(),
            Test::Devi => self.tardiness(),
            Test::Interference | Test::LimitedCarryIn => self.interference(),
            Test::Reachability => Err("its witness would be all schedules"),
            Test::Decided => Err("its witness would be all clusters that share the engine"),
            Test::Windows => self.windows(),
            Test::Jitter => self.suspension(),
            Test::Utilisation | Test::Hyperbolic | Test::LiuLayland | Test::Printed => Err("the test gives no bounds"),
        }
    }
}

//--- One CPU

impl Writer<'_> {
    fn fixed_priorities(&self, index: usize, response: u64) -> Result<By, Missing> {
        let (tasks, policy) = (self.whole.tasks(), self.whole.policy());
        let point = |task: &crate::Task| match policy.priority_point(&task.parameters(1)) {
            PriorityPoint::Constant(point) => point,
            PriorityPoint::AfterRelease(offset) => offset.0,
        };
        let own = tasks[index];
        let first = |other: usize| other != index && point(&tasks[other]) <= point(&own);
        let before: Vec<_> = (0..tasks.len()).filter(|other| first(*other)).map(|other| tasks[other]).collect();
        let others = |until: u64| {
            let work = before.iter().map(|task| until.div_ceil(task.period.0).saturating_mul(task.execution.0));
            work.fold(0, u64::saturating_add)
        };
        let (mut ends, mut end, mut release) = (Vec::new(), 0, 0);
        while ends.is_empty() || end > release {
            let all = (ends.len() as u64 + 1).saturating_mul(own.execution.0);
            end = least(end.max(all), |until| all.saturating_add(others(until)))?;
            ends.push((release, end));
            release += own.period.0;
        }
        Ok(By::FixedPriorities { busy: end, instants: instants(&ends, response) })
    }

    fn deadlines(&mut self, index: usize, response: u64) -> Result<By, Missing> {
        let tasks = self.whole.tasks();
        let busy = uniprocessor::busy_period(tasks, &mut Looks(u64::MAX)).ok().filter(|busy| *busy <= LONGEST);
        let busy = busy.ok_or(TOO_LONG)?;
        let own = tasks[index];
        let mut offsets: Vec<u64> = Vec::new();
        for other in tasks {
            // The releases of the job with which it has the deadline of a job of the other task.
            let (early, late) = (own.deadline.0, other.deadline.0);
            let first = late + early.saturating_sub(late).div_ceil(other.period.0) * other.period.0 - early;
            offsets.extend((first..busy).step_by(other.period.0 as usize));
        }
        offsets.sort_unstable();
        offsets.dedup();
        let (mut ends, mut end) = (Vec::with_capacity(offsets.len()), 0);
        for offset in offsets {
            let all = (offset / own.period.0 + 1) * own.execution.0;
            let others = |until: u64| {
                let others = tasks.iter().enumerate().filter(|(other, _)| *other != index);
                let jobs = |task: &crate::Task| {
                    until.div_ceil(task.period.0).min(uniprocessor::jobs_due(task, offset + own.deadline.0))
                };
                others.map(|(_, task)| jobs(task) * task.execution.0).sum::<u64>()
            };
            end = least(end.max(all), |until| all + others(until))?;
            ends.push((offset, end));
        }
        self.witness.busy = Some(busy);
        Ok(By::Deadlines { instants: instants(&ends, response) })
    }

    fn demand(&mut self) -> Result<By, Missing> {
        if self.witness.demand.is_some() {
            return Ok(By::Demand);
        }
        let tasks = self.whole.tasks();
        let busy = uniprocessor::busy_period(tasks, &mut Looks(uniprocessor::LOOKS)).ok();
        let ends = [busy, uniprocessor::demand_horizon(tasks, &self.shares)];
        let end = ends.into_iter().flatten().min().filter(|end| *end <= LONGEST).ok_or(TOO_LONG)?;
        let (mut chain, mut window) = (Vec::new(), end);
        while window > 0 {
            chain.push(window);
            let due = |task: &crate::Task| uniprocessor::jobs_due(task, window - 1) * task.execution.0;
            let due = tasks.iter().map(due).sum::<u64>();
            if due >= window {
                return Err(NOT_FOUND);
            }
            window = due;
        }
        chain.reverse();
        self.witness.demand = Some(chain);
        Ok(By::Demand)
    }
}

/// The least `t >= start` with `t = demand(t)`.
fn least(start: u64, demand: impl Fn(u64) -> u64) -> Result<u64, Missing> {
    let mut time = start;
    loop {
        let next = demand(time);
        if next > LONGEST {
            return Err(TOO_LONG);
        }
        if next <= time {
            return Ok(time);
        }
        time = next;
    }
}

/// Few instants for jobs with these releases and ends, each within `response` of the releases that it serves for.
fn instants(ends: &[(u64, u64)], response: u64) -> Vec<u64> {
    let mut instants: Vec<u64> = Vec::new();
    for (release, end) in ends.iter().rev() {
        if instants.last().is_none_or(|last| *last > release + response) {
            instants.push(*end);
        }
    }
    instants.reverse();
    instants
}

//--- Several CPUs

impl Writer<'_> {
    fn compliant(&mut self) -> Result<By, Missing> {
        if self.witness.fixed_point.is_none() {
            let bounds = compliant::tightest(&self.whole, &self.shares, self.subject.cluster.scheduled());
            let left = whole_nanoseconds(&bounds.ok_or(NOT_FOUND)?.fixed_point);
            self.witness.fixed_point = Some(left.ok_or(TOO_LONG)?);
        }
        Ok(By::Compliant)
    }

    fn tardiness(&mut self) -> Result<By, Missing> {
        if self.witness.tardiness.is_none() {
            let all = devi::tardiness(&self.whole, &self.shares).map_err(|_| NOT_FOUND)?;
            let first = self.whole.tasks().first().zip(all.first());
            let common = first.map(|(task, tardiness)| plus(tardiness, -num_bigint::BigInt::from(task.execution.0)));
            let common = common.map_or(Some(0), |common| whole_nanoseconds(&common).or(Some(0)));
            self.witness.tardiness = Some(common.ok_or(TOO_LONG)?);
        }
        Ok(By::Tardiness)
    }

    /// Bounds by tests that do not rest on other bounds, as [`report`] has them.
    fn known(&self) -> Vec<Option<Nanoseconds>> {
        let tasks = self.whole.tasks();
        if !matches!(self.whole.policy(), PolicyName::Edf | PolicyName::Fl) {
            return vec![None; tasks.len()];
        }
        let Some(bounds) = compliant::tightest(&self.whole, &self.shares, self.subject.cluster.scheduled()) else {
            return vec![None; tasks.len()];
        };
        let all_meet = match self.whole.cpus() {
            1 => uniprocessor::meets_demand(tasks) == Ok(true),
            _ => self.whole.policy() == PolicyName::Edf && utilisation::density(&self.whole) == Some(true),
        };
        let tardiness = devi::tardiness(&self.whole, &self.shares).ok();
        let known = |index: usize| {
            let deadline = tasks[index].deadline.0;
            let late = tardiness.as_ref().and_then(|all| whole_nanoseconds(&plus(&all[index], deadline)));
            let met = all_meet.then_some(deadline);
            let all = [whole_nanoseconds(&bounds.responses[index]), late, met];
            all.into_iter().flatten().min().map(Nanoseconds)
        };
        (0..tasks.len()).map(known).collect()
    }

    fn interference(&mut self) -> Result<By, Missing> {
        if self.witness.delays.is_some() {
            return Ok(By::Interference);
        }
        let known = self.known();
        let found = interference::responses(&self.whole, self.subject.cluster.scheduled(), &known);
        let found = found.map_err(|_| NOT_FOUND)?;
        let delay = |task: usize| {
            let one = self.whole.tasks()[task];
            let own = found[task].map(|own| own.longest.0 - one.execution.0);
            let known = known[task].filter(|_| one.execution <= one.period).map(|known| known.0);
            match (own, known) {
                (Some(own), known) if known.is_none_or(|known| own <= known) => {
                    Some(Span { span: own, elsewhere: false })
                }
                (_, Some(known)) => Some(Span { span: known, elsewhere: true }),
                (_, None) => None,
            }
        };
        self.witness.delays = Some((0..known.len()).map(delay).collect());
        Ok(By::Interference)
    }
}

//--- Waiting that is no execution

impl Writer<'_> {
    fn windows(&mut self) -> Result<By, Missing> {
        if self.witness.windows.is_none() {
            let responses = windows::responses(&self.executing, &self.whole).ok_or(NOT_FOUND)?;
            self.witness.windows = Some(responses.into_iter().map(|response| response.0).collect());
        }
        Ok(By::Windows)
    }

    fn suspension(&mut self) -> Result<By, Missing> {
        if self.witness.suspension.is_some() {
            return Ok(By::Suspension);
        }
        let locks = self.subject.locks.ok_or(NOT_FOUND)?;
        let tasks = 0..self.whole.tasks().len();
        let rests: Vec<Rest> = tasks.clone().map(|task| locks.rest(self.subject.cluster, task)).collect();
        let latency = self.subject.overheads.event_latency.0;
        let enforced = |report: &report::TaskReport| {
            let response = whole_nanoseconds(&report.bound.as_ref()?.response)?;
            response.checked_sub(latency).map(Nanoseconds)
        };
        let enforced: Vec<Option<Nanoseconds>> = self.base.tasks.iter().map(enforced).collect();
        let (executing, whole) = (&self.executing, &self.whole);
        let found = suspension::responses(executing, whole, &rests, &enforced);
        let lives = suspension::lives(executing, whole, &rests, &enforced, &found);
        let windows = suspension::windows(executing, whole, &rests, &lives);
        let suspended = |task: usize| {
            let life = lives[task].map(|life| Span { span: life.0, elsewhere: enforced[task] == Some(life) });
            let window = windows[task].filter(|_| found[task].is_some());
            let window = window.map(|(later, length)| Window { later, length });
            let Rest { is_counted: counted, keeps_word: kept, is_alone: alone } = rests[task];
            Suspended { counted, kept, alone, life, window }
        };
        self.witness.suspension = Some(tasks.map(suspended).collect());
        Ok(By::Suspension)
    }
}

/// The time, rounded up.
fn whole_nanoseconds(value: &BigRational) -> Option<u64> {
    value.ceil().to_integer().to_u64()
}
