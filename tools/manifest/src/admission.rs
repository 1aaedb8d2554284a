//! Admission: which promises of a manifest the analysis can prove.

use fusee_abi::image::{self, advice, class, kind, order, release};
use fusee_abi::script::operation;
use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::{
    self, Abroad, Alternative, Blocked, Engine, Locks, On, Order, Part, Pool, Protocol, Rest, Section, Unbounded, User,
};
use fusee_sched_analysis::overheads::Infeasible;
use fusee_sched_analysis::report::{Bound, Term};
use fusee_sched_analysis::{Cluster, Nonsense, Overheads, Report, Task};

mod buses;
mod decided;
mod latency;
mod lives;
pub(crate) mod scripts;
mod servers;
mod unknown;
mod verdict;

pub use buses::{BusReport, FrameReport, buses};
pub(crate) use decided::{Boost, needed_boost};
pub(crate) use latency::replicas;
pub use latency::{Latencies, Path, latencies};
pub use lives::{Recovery, recoveries};
use servers::Waiting;
pub use verdict::{Missing, Origin};

use crate::error::Reason;
use crate::interrupts;
use crate::resolve::{DeclaredHold, Resolved};

/// One cluster of a system, as the analysis sees it.
#[derive(Clone, Debug)]
pub struct Study {
    /// The real-time tasks of the cluster. Each job may execute for its whole budget, which is enforced; its expected execution,
    /// its `wcet`, only orders jobs under FL.
    pub cluster: Cluster,
    /// The index of each among the system's tasks.
    pub members: Vec<usize>,
    /// The reservations of these tasks.
    pub reservations: Vec<image::Reservation>,
    /// The engines whose users all declare how long they hold them, and the pools whose users all declare this for the tokens.
    pub locks: Locks,
    /// The others: waiting for them is not bounded.
    pub undeclared: Vec<Undeclared>,
    /// For each task of the cluster, its waits that its bound does not count: those for which nothing declares a length.
    pub uncounted: Vec<Vec<String>>,
    /// For each task of the cluster, the reason why its deadlines rest on the behaviour of others, which nothing enforces; `None`
    /// if they do not.
    pub unenforced: Vec<Option<String>>,
    /// For each task of the cluster, the node of its own graph that may keep it waiting, if one may. The lateness of the graph
    /// rests on the declarations of its nodes anyway.
    pub kept_waiting: Vec<Option<String>>,
    /// For each task of the cluster whether others may rely on it to be suspended no longer than declared, or the kernel sees to it.
    pub sleeps_as_said: Vec<bool>,
    /// Tasks, among the system's, of which bounds here assume that they meet their deadlines.
    assumed: Vec<usize>,
    /// The reason why nothing is known of tasks that share something with another cluster.
    elsewhere: Option<String>,
    /// The names of the servers in `locks`.
    servers: Vec<String>,
    /// The names of the engines in `locks`.
    engines: Vec<String>,
    /// The names of the pools in `locks`.
    pools: Vec<String>,
    /// Names of the system's tasks, those in the cluster first.
    tasks: Vec<String>,
    /// The indices of these tasks.
    order: Vec<usize>,
    /// The engine that the cluster shares with others, if its device decides.
    decided: Option<decided::Share>,
}

/// The tasks of a cluster and the longest waits of each; or the reason why there are no bounds.
pub(crate) type Analysis = Result<(Report, Vec<Blocked>), Unbounded>;

/// An engine, a group or a pool for which the time that jobs wait for it is unknown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Undeclared {
    /// The name of the lock, such as "engine `ee`".
    pub lock: String,
    /// The reason: a user that does not declare how long it holds the lock, or an engine for which the holders of a token wait.
    pub why: String,
    /// Tasks of the cluster whose jobs may wait for the lock.
    pub members: Vec<usize>,
}

impl Study {
    /// Makes the study of the cluster with this index.
    ///
    /// # Errors
    /// Input without a meaning, which the checks of the manifest have excluded.
    pub fn new(system: &Resolved, index: usize) -> Result<Study, Nonsense> {
        let mut study = Study::assuming(system, index)?;
        let late = study.assumed.iter().find(|task| !meets_deadlines(system, **task)).copied();
        if let Some(task) = late {
            let why =
                format!("`{}`, which calls the same servers, may be late or is not counted", system.tasks[task].name);
            study.uncounted.iter_mut().for_each(|reasons| reasons.push(why.clone()));
        }
        Ok(study)
    }

    /// Makes the study of the cluster with this index, if the tasks that it assumes to meet their deadlines do.
    fn assuming(system: &Resolved, index: usize) -> Result<Study, Nonsense> {
        let record = &system.clusters[index].1;
        let own = |one: &&image::Reservation| one.class == class::REAL_TIME && one.cluster as usize == index;
        let reservations: Vec<image::Reservation> = system.reservations.iter().filter(own).copied().collect();
        let expected: Vec<Nanoseconds> = reservations.iter().map(|one| Nanoseconds(one.execution)).collect();
        let policy = PolicyName::from_number(record.policy).unwrap_or_default();
        let cluster = Cluster::new(record.cpus.count_ones(), policy, reservations.iter().map(analysed).collect())?;
        let members: Vec<usize> = reservations.iter().map(|one| one.task as usize).collect();
        let others = (0..system.tasks.len()).filter(|task| !members.contains(task));
        let order: Vec<usize> = members.iter().copied().chain(others).collect();
        let mut study = Study {
            cluster: cluster.expecting(&expected),
            members,
            reservations,
            locks: Locks::default(),
            undeclared: Vec::new(),
            uncounted: Vec::new(),
            unenforced: Vec::new(),
            kept_waiting: Vec::new(),
            sleeps_as_said: Vec::new(),
            assumed: Vec::new(),
            elsewhere: None,
            servers: Vec::new(),
            engines: Vec::new(),
            pools: Vec::new(),
            tasks: order.iter().map(|task| system.tasks[*task].name.clone()).collect(),
            order: order.clone(),
            decided: None,
        };
        let mut unknown = Vec::new();
        let waiting = Waiting::new(system);
        let workers: Vec<usize> = study.members.iter().flat_map(|task| waiting.works_for(*task)).collect();
        // For each pool the engines that are held with a token of it.
        let mut within = vec![Vec::new(); system.pools.len()];
        for number in 0..system.engines.len() {
            let engines = unknown::of_one_lock(system, number);
            // A group is one lock, that of its first engine.
            if engines[0] == number {
                study.engines_of(system, (&order, &workers), &engines, &mut unknown, &mut within);
            }
        }
        for (number, engines) in within.into_iter().enumerate() {
            study.pool_of(system, (&order, &workers), number, engines, &unknown);
        }
        let cluster_of = |(number, task): (usize, &usize)| {
            let cluster = system.tasks[*task].cluster as usize;
            let cpus = system.clusters[cluster].1.cpus.count_ones();
            (cluster != index).then_some(Abroad { task: number, cluster, cpus })
        };
        study.locks.abroad = order.iter().enumerate().filter_map(cluster_of).collect();
        let covers = |(_, one): &(usize, &image::Reservation)| one.covers_engines != 0;
        let covering = study.reservations.iter().enumerate().filter(covers);
        study.locks.covering = covering.map(|(task, _)| task).collect();
        study.decide(system, index, &waiting);
        study.waiting(system, index, &order, &waiting);
        let others = system.doubts.iter().enumerate().filter(|(other, _)| *other != index);
        study.elsewhere = others.filter_map(|(_, doubt)| doubt.clone()).next();
        Ok(study)
    }

    /// Takes notice of an engine that the cluster `index` shares with others, if its device decides and bounds are known.
    fn decide(&mut self, system: &Resolved, index: usize, waiting: &Waiting<'_>) {
        let Some(Ok(all)) =
            decided::decided(system, waiting).filter(|found| found.as_ref().is_ok_and(|all| all.has(index)))
        else {
            return;
        };
        let is_it = |engine: &Engine| {
            engine.order == Order::Preemptive && engine.users.iter().any(|user| user.task >= self.members.len())
        };
        self.decided = self.locks.engines.iter().position(is_it).map(|engine| decided::Share { all, engine });
    }

    /// Adds servers, and the waits of tasks of their own accord. `order`: the system's tasks as they are counted here.
    fn waiting(&mut self, system: &Resolved, index: usize, order: &[usize], waiting: &Waiting<'_>) {
        let number = |task: usize| order.iter().position(|other| *other == task);
        let mut assumed = Vec::new();
        (self.locks.servers, self.servers) = waiting.servers(index, number, &mut assumed);
        self.locks.signallers = waiting.signallers().into_iter().filter_map(number).collect();
        self.locks.suspends = self.members.iter().map(|task| system.suspends[*task]).collect();
        self.uncounted = self.members.iter().map(|task| waiting.uncounted(*task)).collect();
        match waiting.above(index, &mut assumed) {
            Ok(above) => self.cluster = self.cluster.clone().below(above),
            Err(why) => self.uncounted.iter_mut().for_each(|reasons| reasons.push(why.clone())),
        }
        for undeclared in &self.undeclared {
            let why = format!("waiting for {} is not bounded: {}", undeclared.lock, undeclared.why);
            for member in undeclared.members.iter().filter_map(|task| self.members.iter().position(|one| one == task)) {
                self.uncounted[member].push(why.clone());
            }
        }
        let boost = waiting.unbounded_boost(index);
        let donates = donates_for_untrusted(system, index, waiting);
        let unenforced = |task: &usize| {
            let calls = waiting.unenforced(*task).or(boost.clone());
            let relies = || {
                let other = self.decided.as_ref()?.all.untrusted(*task)?;
                let other = &system.tasks[other].name;
                Some(format!(
                    "`{other}` may wait or use an engine for longer than it says; is it `hard`, or to be `trusted`?"
                ))
            };
            let calls = calls.or_else(relies);
            let calls = calls.or_else(|| shares_with_untrusted(system, *task, waiting)).or_else(|| donates.clone());
            calls.or_else(|| self.waits_beside_untrusted(system, *task))
        };
        self.unenforced = self.members.iter().map(unenforced).collect();
        self.kept_waiting = self.members.iter().map(|task| waiting.kept_waiting(*task)).collect();
        self.sleeps_as_said = self.members.iter().map(|task| waiting.sleeps_as_said(*task)).collect();
        // With budgets that are taken in advance a chunk may execute before its release.
        if !self.reservations.iter().any(comes_early) {
            self.locks.rests = (0..self.members.len()).map(|at| self.rest(at, waiting)).collect();
        }
        if let Some(phases) = self.phases(system, index, waiting) {
            self.cluster = self.cluster.clone().released_by_clock(phases);
        }
        assumed.sort_unstable();
        assumed.dedup();
        self.assumed = assumed;
    }

    /// The user of another engine, for commands of which the driver may work longer than declared while `task` waits for it, and on the budget of that.
    fn waits_beside_untrusted(&self, system: &Resolved, task: usize) -> Option<String> {
        let number = self.order.iter().position(|other| *other == task)?;
        let engines = self.locks.engines.iter().filter(|engine| self.locks.waits_for(number, engine));
        let beside = engines.flat_map(|engine| &engine.beside);
        let mut others = beside.map(|one| (self.order[one.task], one.engine)).filter(|(other, _)| *other != task);
        let (other, engine) = others.find(|(other, _)| !system.keeps_word[*other])?;
        let (other, engine) = (&system.tasks[other].name, &system.engines[engine].0);
        Some(format!(
            "`{other}` may have more commands on engine `{engine}`, which has the driver, than it says; is it `hard`, or to be `trusted`?"
        ))
    }

    /// The phases of the real-time tasks of the cluster `index`, if they compute by the clock: docs/scheduling.md has all the conditions.
    fn phases(&self, system: &Resolved, index: usize, waiting: &Waiting<'_>) -> Option<Vec<Nanoseconds>> {
        let mut ours = (0..system.tasks.len()).filter(|task| system.tasks[*task].cluster as usize == index);
        let are_detached = system.clusters.len() == 1 || ours.all(|task| waiting.is_alone(task));
        let begins_in_time = system.start > 0 || self.reservations.iter().all(|one| one.phase == 0);
        let is_by_clock = |(at, one): (usize, &image::Reservation)| {
            let task = self.members[at];
            let only_computes =
                self.uncounted[at].is_empty() && waiting.is_alone(task) && waiting.keeps_word(task, true);
            let (steps, _) = scripts::written(system, task);
            let sleeps = steps.iter().any(|step| matches!(step.operation, operation::SLEEP | operation::PAUSE));
            let suspends = sleeps || one.suspension != 0 || system.suspends[task] != Nanoseconds::ZERO;
            let begins_once = !waiting.is_special(task) && !system.tasks[task].supervision.is_dormant;
            let keeps_key = one.release == release::PERIODIC && !comes_early(one) && one.covers_engines == 0;
            only_computes && !suspends && begins_once && keeps_key
        };
        let holds = are_detached && begins_in_time && self.reservations.iter().enumerate().all(is_by_clock);
        holds.then(|| self.reservations.iter().map(|one| Nanoseconds(one.phase)).collect())
    }

    /// The known part of the suspensions of the task with this index among the cluster's.
    fn rest(&self, at: usize, waiting: &Waiting<'_>) -> Rest {
        let task = self.members[at];
        let is_special = waiting.is_special(task);
        let is_alone = !is_special && waiting.is_alone(task);
        let is_enforced = self.unenforced[at].is_none() && self.kept_waiting[at].is_none();
        Rest {
            is_counted: !is_special && self.uncounted[at].is_empty(),
            keeps_word: is_enforced && waiting.keeps_word(task, is_alone),
            is_alone,
        }
    }

    /// Adds an engine, or those of a group, if tasks of this cluster use it, or servers for them; or if another task uses it with a
    /// token of a pool that they use, too. `order`: the system's tasks as they are counted here. `workers`: the cluster's tasks,
    /// and their servers. Tasks with a wait without a known end come to `unknown`.
    fn engines_of(
        &mut self,
        system: &Resolved,
        (order, workers): (&[usize], &[usize]),
        engines: &[usize],
        unknown: &mut Vec<(usize, Undeclared)>,
        within: &mut [Vec<usize>],
    ) {
        let uses = system.engine_users.iter().zip(&system.engine_holds);
        let uses: Vec<_> = uses.filter(|(user, _)| engines.contains(&(user.engine as usize))).collect();
        let concerns = uses.iter().any(|(user, _)| workers.contains(&(user.task as usize)));
        let arbitrated = system.arbitrated[engines[0]].as_deref();
        let names = names_of(system, engines);
        let lock = words_of(&names);
        if let Some(why) = unknown::engines(system, engines) {
            let members = uses.iter().map(|(user, _)| user.task as usize).collect();
            let undeclared = Undeclared { why, lock, members };
            unknown.extend(uses.iter().map(|(user, _)| (user.task as usize, undeclared.clone())));
            if concerns {
                self.undeclared.push(undeclared);
            }
            return;
        }
        // A task that waits for a token waits for the work of its holder with it, too.
        let is_ours = |pool: usize| users_of(system, pool).any(|task| workers.contains(&task));
        let pools = |hold: &DeclaredHold| {
            let tokens = hold.tokens;
            (0..system.pools.len()).filter(move |pool| tokens >> pool & 1 != 0)
        };
        if !concerns && !uses.iter().any(|(_, hold)| hold.iter().flat_map(pools).any(is_ours)) {
            return;
        }
        let mut holds: Vec<(usize, DeclaredHold)> = Vec::new();
        for (user, hold) in uses {
            let Some(hold) = *hold else { continue };
            for pool in pools(&hold) {
                if !within[pool].contains(&self.engines.len()) {
                    within[pool].push(self.engines.len());
                }
            }
            match holds.iter_mut().find(|(task, _)| *task == user.task as usize) {
                Some((_, other)) => *other = other.or(hold),
                None => holds.push((user.task as usize, hold)),
            }
        }
        let first = engines[0];
        let (completion, reset) = engines.iter().fold((Nanoseconds::ZERO, Nanoseconds::ZERO), |longest, engine| {
            let (completion, reset) = system.engine_ends[*engine];
            (longest.0.max(completion), longest.1.max(reset))
        });
        let user = |(task, hold): &(usize, DeclaredHold)| {
            let task = order.iter().position(|other| other == task)?;
            Some(User { task, times: hold.times, hold: hold.hold, operations: hold.operations })
        };
        let is_by_priority = system.engines[first].1.order == order::PRIORITY;
        let decided = holds.iter().filter(|_| arbitrated.is_some() && holds.len() > 1);
        let windows = decided.filter_map(|(task, _)| {
            Some((order.iter().position(|other| other == task)?, Nanoseconds(system.period_and_window(*task)?.1)))
        });
        self.locks.engines.push(Engine {
            order: match (arbitrated, is_by_priority) {
                (Some(_), _) => Order::Preemptive,
                (None, true) => Order::Priority,
                (None, false) => Order::Fifo,
            },
            is_group: names.len() > 1,
            is_mutex: engines.iter().all(|engine| system.engine_places[*engine].is_none()),
            users: holds.iter().filter_map(user).collect(),
            alternative: alternative(&system.engines[first].1),
            rivals: rivals(system, &system.engines[first].1, &holds),
            completion,
            shared: interrupts::shared(system, engines),
            others: interrupts::other_ends(system, engines, &holds),
            beside: interrupts::beside(system, engines, order),
            reset,
            windows: windows.collect(),
        });
        self.engines.push(names.join("+"));
    }

    /// Adds a pool, if tasks of this cluster use it, or servers for them, and those hold `engines` with a token.
    fn pool_of(
        &mut self,
        system: &Resolved,
        (order, workers): (&[usize], &[usize]),
        number: usize,
        engines: Vec<usize>,
        unknown: &[(usize, Undeclared)],
    ) {
        let (name, record) = &system.pools[number];
        let users: Vec<usize> = users_of(system, number).collect();
        if !users.iter().any(|task| workers.contains(task)) {
            return;
        }
        let said = |task: usize| system.sections.iter().find(|(by, of, _)| *by == task && *of == number);
        let lock = format!("pool `{name}`");
        // Where clusters share, all of their jobs donate.
        let members = if record.crosses != 0 { self.members.clone() } else { users.clone() };
        if let Some(why) = unknown::tokens(system, number) {
            self.undeclared.push(Undeclared { why, lock, members });
            return;
        }
        if let Some((_, why)) = unknown.iter().find(|(task, _)| users.contains(task)) {
            self.undeclared.push(Undeclared { lock, members, ..why.clone() });
            return;
        }
        let section = |task: &usize| {
            let (_, _, cpu) = *said(*task)?;
            Some(Section { task: order.iter().position(|other| other == task)?, cpu })
        };
        let protocol = unknown::protocol(system, number);
        let advised = record.advice != advice::NOBODY;
        let sections = users.iter().filter_map(section).collect();
        self.locks.pools.push(Pool { protocol, advised, sections, engines });
        self.pools.push(name.clone());
    }

    /// Analyses the cluster, on a kernel with these costs.
    ///
    /// # Errors
    /// The reason why there are no bounds.
    pub fn analyse(&self, overheads: &Overheads) -> Result<(Report, Vec<Blocked>), Unbounded> {
        if let Some(share) = &self.decided {
            return share.all.analyse(self, overheads, share.engine);
        }
        let (mut report, blocked) = blocking::analyse(&self.cluster, overheads, &self.locks)?;
        for (at, task) in report.tasks.iter_mut().enumerate() {
            let mut others = self.reservations.iter().enumerate().filter(|(other, _)| *other != at);
            // Budgets that others take in advance come before this job as long as its key is later: until its deadline.
            if others.any(|(_, one)| comes_early(one)) {
                task.bound.iter_mut().for_each(Bound::put_off);
            }
        }
        Ok((report, blocked))
    }

    /// Whether the budget of a task is enough for its computation, its loans, and its payments for engines. The computation of a
    /// task that shares nothing is not checked: it may compute for its whole budget.
    #[must_use]
    pub fn is_covered(&self, task: usize, blocked: &Blocked) -> bool {
        let one = &self.reservations[task];
        let others = blocked.lends.0.saturating_add(blocked.drawn.0).saturating_add(blocked.services.0);
        others == 0 || one.execution.saturating_add(others) <= one.budget
    }

    /// A term of a task's bound in words.
    #[must_use]
    pub fn term(&self, term: Term, blocked: &Blocked) -> String {
        match term {
            Term::Interference { largest } => format!("{}, first {}", term.words(), self.tasks[largest]),
            Term::Blocking => {
                let first = self.first(blocked).map(|first| format!(", first {first}"));
                format!("{}{}", term.words(), first.unwrap_or_default())
            }
            term => term.words().to_owned(),
        }
    }

    /// The longest wait of a task, and the holder that makes most of it: "engine by task".
    #[must_use]
    pub fn first(&self, blocked: &Blocked) -> Option<String> {
        blocked.parts.first().map(|part| self.part(part))
    }

    /// A wait of a task, and the holder that makes most of it: "engine by task".
    #[must_use]
    pub fn part(&self, part: &Part) -> String {
        let by = self.tasks.get(part.largest).map_or("clients without its lock", String::as_str);
        format!("{} by {by}", self.on(part.on))
    }

    /// The name of the engine, or the names of the group, with this index in `locks`.
    #[must_use]
    pub fn engine(&self, index: usize) -> &str {
        &self.engines[index]
    }

    /// The name of the pool with this index in `locks`.
    #[must_use]
    pub fn pool(&self, index: usize) -> &str {
        &self.pools[index]
    }

    fn on(&self, on: On) -> String {
        match on {
            On::Engine(index) => self.engines[index].clone(),
            On::Token(index) | On::Donation(index) => format!("pool {}", self.pools[index]),
            On::Server(index) => format!("server {}", self.servers[index]),
        }
    }

    /// The longest wait of all tasks, in words; `None` if no task waits.
    pub(crate) fn longest_wait(&self, blocked: &[Blocked]) -> Option<String> {
        let (task, longest) = blocked.iter().enumerate().max_by_key(|(_, one)| one.blocking)?;
        let first = self.first(longest)?;
        Some(format!("{} for {}, first {first}", milliseconds(longest.blocking.0), self.tasks[task]))
    }

    /// The need of a job of a task, term by term, in words.
    fn needs(&self, task: usize, blocked: &Blocked) -> String {
        let [own, operations, waiting] =
            [self.reservations[task].budget, blocked.operations.0, blocked.blocking.0].map(milliseconds);
        let first = self.first(blocked).map(|first| format!(", first {first}")).unwrap_or_default();
        format!("{own} of budget, {operations} of operations, {waiting} of blocking{first}")
    }

    /// The complaint that the cluster called `cluster` has no bounds.
    #[must_use]
    pub fn unbounded(&self, cluster: &str, why: &Unbounded) -> Reason {
        match why {
            Unbounded::Overcommitted { on, per_mille, largest: (task, part) } => {
                let (per_mille, task, part) = (*per_mille, self.tasks[*task].clone(), *part);
                match *on {
                    On::Engine(index) => {
                        Reason::Overcommitted { engine: self.engines[index].clone(), per_mille, task, part }
                    }
                    On::Server(index) => {
                        Reason::Overcommitted { engine: self.servers[index].clone(), per_mille, task, part }
                    }
                    On::Token(index) | On::Donation(index) => {
                        let pool = self.pools[index].clone();
                        let replicas = match self.locks.pools[index].protocol {
                            Protocol::Pool(rules) => rules.replicas.into(),
                            Protocol::CkOmlp { replicas } => replicas.into(),
                        };
                        Reason::TooFewTokens { pool, replicas, per_mille, task, part }
                    }
                }
            }
            Unbounded::NoResponse(on) => {
                let words = "is by priority, and no test gives all response times a bound";
                Reason::Unbounded { cluster: cluster.to_owned(), why: format!("{} {words}", self.on(*on)) }
            }
            Unbounded::NoBound(on) => {
                let words = match on {
                    On::Engine(index) if self.is_shared(*index) => {
                        "is by priority, and tasks of other clusters may be ahead again and again"
                    }
                    On::Engine(_) => "is by priority, and tasks that are not real-time may be ahead again and again",
                    On::Server(_) => "is called from several clusters, and is not boosted for as long as they wait",
                    On::Token(_) | On::Donation(_) => {
                        "lets in by priority alone, and no bound is known for several tokens"
                    }
                };
                Reason::Unbounded { cluster: cluster.to_owned(), why: format!("{} {words}", self.on(*on)) }
            }
            Unbounded::Preempted(task) => {
                let task = &self.tasks[*task];
                let why = format!(
                    "response times have no bound, nor has how long `{task}` holds engines, for which its budget pays"
                );
                Reason::Unbounded { cluster: cluster.to_owned(), why }
            }
            why => Reason::Unbounded { cluster: cluster.to_owned(), why: why.to_string() },
        }
    }

    /// The reason why these tasks of the cluster have no bound, though others have: with their waits they need more than their
    /// periods.
    pub fn too_long<'a>(&'a self, report: &'a Report, blocked: &'a [Blocked]) -> impl Iterator<Item = Reason> + 'a {
        report.infeasible.iter().filter_map(Infeasible::task).map(|task| Reason::WaitsTooLong {
            task: self.tasks[task].clone(),
            needs: self.needs(task, &blocked[task]),
            period: crate::Time(self.reservations[task].period),
        })
    }

    /// Whether tasks of other clusters use the engine with this index.
    fn is_shared(&self, engine: usize) -> bool {
        let users = &self.locks.engines[engine].users;
        self.locks.abroad.iter().any(|abroad| users.iter().any(|user| user.task == abroad.task))
    }
}

/// The task of a reservation: each job may execute for the whole budget.
fn analysed(one: &image::Reservation) -> Task {
    let [execution, period, deadline] = [one.budget, one.period, one.deadline].map(Nanoseconds);
    Task { execution, period, deadline, priority: one.priority }
}

/// Whether a task may take the budgets of its next jobs.
fn comes_early(one: &image::Reservation) -> bool {
    one.early_release != 0 || one.overrun == image::overrun::EARLY_RELEASE
}

/// Whether all waits of `task` are known, and its bound is not later than its deadline.
fn meets_deadlines(system: &Resolved, task: usize) -> bool {
    let study = Study::assuming(system, system.tasks[task].cluster as usize);
    let Ok(study) = study else { return false };
    let Some(at) = study.members.iter().position(|one| *one == task) else { return false };
    let Ok((report, blocked)) = study.analyse(&Overheads::default()) else { return false };
    study.missing(at, &report, &blocked).iter().all(|missing| missing.origin == Origin::Others)
}

/// The user of an engine or a pool of `task` that may hold it for longer than declared: then `task` may wait for longer than is
/// counted. Watchdogs take engines and tokens that are held for too long, but later than the declared times.
///
/// Servers that `task` calls wait for objects that they share with others as `task` would.
fn shares_with_untrusted(system: &Resolved, task: usize, waiting: &Waiting<'_>) -> Option<String> {
    let waits = waiting.works_for(task);
    let same_lock = |one: &image::EngineUser, other: &image::EngineUser| {
        system.are_one_lock(one.engine as usize, other.engine as usize)
    };
    let own = system.engine_users.iter().filter(|user| waits.contains(&(user.task as usize)));
    let rivals = own.flat_map(|own| system.engine_users.iter().filter(move |other| same_lock(own, other)));
    let engines =
        rivals.map(|rival| (rival.task as usize, format!("engine `{}`", system.engines[rival.engine as usize].0)));
    let pools = (0..system.pools.len()).filter(|pool| users_of(system, *pool).any(|user| waits.contains(&user)));
    let tokens = pools.flat_map(|pool| {
        let name = format!("pool `{}`", system.pools[pool].0);
        users_of(system, pool).map(move |user| (user, name.clone()))
    });
    let (who, lock) = engines.chain(tokens).find(|(other, _)| !waits.contains(other) && !system.keeps_word[*other])?;
    Some(format!(
        "`{}` may hold {lock} for longer than it says; is it `hard`, or to be `trusted`?",
        system.tasks[who].name
    ))
}

/// The user for which donations are in vain, in words. Where clusters share a pool, all jobs of each of them may donate to a
/// holder, for as long as any user holds a token and any job of their cluster keeps others from asking for one.
fn donates_for_untrusted(system: &Resolved, index: usize, waiting: &Waiting<'_>) -> Option<String> {
    let cluster_of = |task: usize| system.tasks[task].cluster as usize;
    let shared = (0..system.pools.len()).filter(|pool| system.pools[*pool].1.crosses != 0);
    let mut concerns = shared.filter(|pool| users_of(system, *pool).any(|user| cluster_of(user) == index));
    concerns.find_map(|pool| {
        let is_concerned = |task: usize| users_of(system, pool).any(|user| cluster_of(user) == cluster_of(task));
        let has_jobs = |task: usize| {
            let reservation = system.tasks[task].reservation.map(|own| system.reservations[own].class);
            reservation == Some(class::REAL_TIME)
        };
        let untrusted = |task: &usize| {
            let is_user = users_of(system, pool).any(|user| user == *task);
            !system.keeps_word[*task] && (is_user || has_jobs(*task)) && is_concerned(*task)
        };
        let untrusted = (0..system.tasks.len()).find(untrusted);
        // A job that waits for what is not counted may be pending for ever. Of a trusted task the manifest says that it does not.
        let hard = (0..system.tasks.len()).filter(|task| system.tasks[*task].hard && is_concerned(*task));
        let why = |task: usize| waiting.kept_waiting(task).or_else(|| waiting.uncounted(task).into_iter().next());
        let mut endless = hard.filter_map(|task| Some((task, why(task)?)));
        let (who, doubt) = match untrusted {
            Some(who) => (who, "is that `hard`, or to be `trusted`?".to_owned()),
            None => endless.next()?,
        };
        let (who, pool) = (&system.tasks[who].name, &system.pools[pool].0);
        Some(format!("clusters share pool `{pool}`, so its jobs wait for `{who}`, too; {doubt}"))
    })
}

/// Names of the engines of one lock.
fn names_of<'a>(system: &'a Resolved, engines: &[usize]) -> Vec<&'a str> {
    match system.arbitrated[engines[0]].as_deref() {
        Some(name) => vec![name],
        None => engines.iter().map(|engine| system.engines[*engine].0.as_str()).collect(),
    }
}

fn words_of(names: &[&str]) -> String {
    format!("engine{} `{}`", if names.len() == 1 { "" } else { "s" }, names.join("`, `"))
}

/// The tasks for which `task` uses engines, and how often a job of each has it do so: itself, once; or its callers, if it serves
/// others.
pub(crate) fn worked_for(system: &Resolved, task: usize) -> Vec<(usize, u64)> {
    match unknown::is_for_others(system, task) {
        true => Waiting::new(system).requests_to(task),
        false => vec![(task, 1)],
    }
}

/// For each task itself, and the servers that use engines for it.
pub(crate) fn workers(system: &Resolved) -> Vec<Vec<usize>> {
    let mut users = system.engine_users.iter().map(|user| user.task as usize);
    let waiting = users.any(|user| unknown::is_for_others(system, user)).then(|| Waiting::new(system));
    let works = |task| waiting.as_ref().map_or_else(|| vec![task], |waiting| waiting.works_for(task));
    (0..system.tasks.len()).map(works).collect()
}

/// The tasks that use the pool with this number.
fn users_of(system: &Resolved, pool: usize) -> impl Iterator<Item = usize> {
    let handles = system.handles.iter().filter(move |one| one.kind == kind::POOL && one.object as usize == pool);
    handles.map(|handle| handle.task as usize)
}

/// The complaint that waiting for `lock` is not bounded: `task` does not declare how long it uses it.
fn is_silent(system: &Resolved, task: usize, lock: &str) -> String {
    format!("`{}` does not say how long it uses {lock}", system.tasks[task].name)
}

/// The device of several to which the engine belongs, if it is held with tokens of that device only.
fn alternative(engine: &image::Engine) -> Option<Alternative> {
    let device = engine.first_token.checked_div(engine.tokens)? as usize;
    Some(Alternative { pool: engine.pool_plus_one.checked_sub(1)? as usize, device })
}

/// The number of jobs that can want `engine` at the same time, if some hold it with a token only. From a cluster that shares its
/// pool with others, no more jobs than CPUs have tokens (Elliott 2015, section 4.3.4.3).
fn rivals(system: &Resolved, engine: &image::Engine, holds: &[(usize, DeclaredHold)]) -> Option<u32> {
    let users = |pool: Option<usize>| holds.iter().filter(move |(_, hold)| hold.within == pool).map(|(task, _)| *task);
    let without = users(None).count() as u32;
    let with_tokens = system.pools.iter().enumerate().map(|(number, (_, pool))| {
        let have = system.clusters.iter().enumerate().map(|(index, (_, cluster))| {
            let here = users(Some(number)).filter(|task| system.tasks[*task].cluster as usize == index).count() as u32;
            if pool.crosses != 0 { here.min(cluster.cpus.count_ones()) } else { here }
        });
        // With tokens of several devices, those of the engine's own device.
        have.sum::<u32>().min(if engine.tokens > 0 { engine.tokens } else { pool.replicas })
    });
    (without < holds.len() as u32).then(|| without + with_tokens.sum::<u32>())
}

fn milliseconds(span: u64) -> String {
    format!("{:.3} ms", span as f64 / 1e6)
}
