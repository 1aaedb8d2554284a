//! Admission: which promises of a manifest the analysis can prove.

use fusee_abi::image::{self, class, order};
use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::{self, Blocked, Engine, Locks, On, Order, Unbounded, User};
use fusee_sched_analysis::overheads::Infeasible;
use fusee_sched_analysis::report::Term;
use fusee_sched_analysis::{Cluster, Nonsense, Overheads, Report, Task};

use crate::error::Reason;
use crate::resolve::Resolved;

/// One cluster of a system, as the analysis sees it.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its real-time tasks. Each job may execute for its whole budget, which is enforced; what is expected of it, its
    /// `wcet`, only orders jobs under FL.
    pub cluster: Cluster,
    /// The index of each among the system's tasks.
    pub members: Vec<usize>,
    /// Their reservations.
    pub reservations: Vec<image::Reservation>,
    /// The engines whose users all say how long they hold them.
    pub locks: Locks,
    /// The others: waiting for them is not bounded.
    pub undeclared: Vec<Undeclared>,
    /// Names of the engines in `locks`.
    engines: Vec<String>,
    /// Names of the system's tasks, those in the cluster first.
    tasks: Vec<String>,
}

/// An engine of which somebody does not say how long it is held.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Undeclared {
    /// Its name.
    pub engine: String,
    /// Who that is.
    pub user: String,
}

impl Study {
    /// Of the cluster with this index.
    ///
    /// # Errors
    /// What makes no sense, which the checks of the manifest have excluded.
    pub fn new(system: &Resolved, index: usize) -> Result<Study, Nonsense> {
        let record = &system.clusters[index].1;
        let own = |one: &&image::Reservation| one.class == class::REAL_TIME && one.cluster as usize == index;
        let reservations: Vec<image::Reservation> = system.reservations.iter().filter(own).copied().collect();
        let task = |one: &image::Reservation| Task {
            execution: Nanoseconds(one.budget),
            period: Nanoseconds(one.period),
            deadline: Nanoseconds(one.deadline),
            priority: one.priority,
        };
        let expected: Vec<Nanoseconds> = reservations.iter().map(|one| Nanoseconds(one.execution)).collect();
        let policy = PolicyName::from_number(record.policy).unwrap_or_default();
        let cluster = Cluster::new(record.cpus.count_ones(), policy, reservations.iter().map(task).collect())?;
        let members: Vec<usize> = reservations.iter().map(|one| one.task as usize).collect();
        let others = (0..system.tasks.len()).filter(|task| !members.contains(task));
        let order: Vec<usize> = members.iter().copied().chain(others).collect();
        let mut study = Study {
            cluster: cluster.expecting(&expected),
            members,
            reservations,
            locks: Locks::default(),
            undeclared: Vec::new(),
            engines: Vec::new(),
            tasks: order.iter().map(|task| system.tasks[*task].name.clone()).collect(),
        };
        for (number, (name, engine)) in system.engines.iter().enumerate() {
            study.engine_of(system, &order, number, name, engine);
        }
        Ok(study)
    }

    /// Adds an engine, if tasks of this cluster use it. `order`: the system's tasks as they are counted here.
    fn engine_of(&mut self, system: &Resolved, order: &[usize], number: usize, name: &str, engine: &image::Engine) {
        let uses = system.engine_users.iter().zip(&system.engine_holds);
        let uses: Vec<_> = uses.filter(|(user, _)| user.engine as usize == number).collect();
        if !uses.iter().any(|(user, _)| self.members.contains(&(user.task as usize))) {
            return;
        }
        if let Some((user, _)) = uses.iter().find(|(_, hold)| hold.is_none()) {
            let user = system.tasks[user.task as usize].name.clone();
            self.undeclared.push(Undeclared { engine: name.to_owned(), user });
            return;
        }
        let user = |(user, hold): &(&image::EngineUser, &Option<_>)| {
            let task = order.iter().position(|task| *task == user.task as usize)?;
            hold.map(|(times, hold)| User { task, times, hold })
        };
        let order = if engine.order == order::PRIORITY { Order::Priority } else { Order::Fifo };
        let users = uses.iter().filter_map(user).collect();
        self.locks.engines.push(Engine { order, users, ..Engine::default() });
        self.engines.push(name.to_owned());
    }

    /// Analyses the cluster, on a kernel with these costs.
    ///
    /// # Errors
    /// Why there are no bounds.
    pub fn analyse(&self, overheads: &Overheads) -> Result<(Report, Vec<Blocked>), Unbounded> {
        blocking::analyse(&self.cluster, overheads, &self.locks)
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

    /// What a task waits for longest, and whose hold is most of that: "engine by task".
    #[must_use]
    pub fn first(&self, blocked: &Blocked) -> Option<String> {
        let part = blocked.parts.first()?;
        Some(format!("{} by {}", self.on(part.on), self.tasks[part.largest]))
    }

    fn on(&self, on: On) -> &str {
        match on {
            On::Engine(index) => &self.engines[index],
            On::Token(_) | On::Donation(_) => "tokens",
        }
    }

    /// The longest wait of all tasks, in words; `None` if nobody waits.
    pub(crate) fn longest_wait(&self, blocked: &[Blocked]) -> Option<String> {
        let (task, longest) = blocked.iter().enumerate().max_by_key(|(_, one)| one.blocking)?;
        let first = self.first(longest)?;
        Some(format!("{} for {}, first {first}", milliseconds(longest.blocking.0), self.tasks[task]))
    }

    /// What a job of a task needs, term by term, in words.
    fn needs(&self, task: usize, blocked: &Blocked) -> String {
        let [own, operations, waiting] =
            [self.reservations[task].budget, blocked.operations.0, blocked.blocking.0].map(milliseconds);
        let first = self.first(blocked).map(|first| format!(", first {first}")).unwrap_or_default();
        format!("{own} of budget, {operations} of operations, {waiting} of blocking{first}")
    }

    /// Why the cluster called `cluster` has no bounds.
    #[must_use]
    pub fn unbounded(&self, cluster: &str, why: &Unbounded) -> Reason {
        match why {
            Unbounded::Overcommitted { engine, per_mille, largest: (task, part) } => Reason::Overcommitted {
                engine: self.engines[*engine].clone(),
                per_mille: *per_mille,
                task: self.tasks[*task].clone(),
                part: *part,
            },
            Unbounded::Infeasible(Infeasible::TooLong { task }, blocked) => Reason::WaitsTooLong {
                task: self.tasks[*task].clone(),
                needs: self.needs(*task, &blocked[*task]),
                period: self.reservations[*task].period,
            },
            Unbounded::NoResponse(on) => {
                let words = "is by priority, and response times on several CPUs have no bound under this policy";
                Reason::Unbounded { cluster: cluster.to_owned(), why: format!("{} {words}", self.on(*on)) }
            }
            why => Reason::Unbounded { cluster: cluster.to_owned(), why: why.to_string() },
        }
    }
}

fn milliseconds(span: u64) -> String {
    format!("{:.3} ms", span as f64 / 1e6)
}
