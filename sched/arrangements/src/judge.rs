//! The test of one task set under one arrangement: is the lateness of all tasks bounded, or does each job end within its period?
//!
//! Suspension counts as execution. Blocking depends on response times, and these on blocking, so both are computed in turn from no lateness at
//! all until neither grows: the bounds hold then, since until the first job that is later than its bound all were within theirs.
//!
//! # Conditions
//!
//! 1. CPUs are scheduled by one policy in all clusters; engine locks are granted by arrival; each job has one token section. The bounds on blocking
//!    hold for any policy that orders jobs by a key that a job keeps.
//! 2. With `g` GPUs in a cluster each job is taken to move its state.
//! 3. Costs are upper bounds.
//! 4. In a cluster of unequal GPUs each kernel takes as long as on the slowest, since a job may get a token of any of them.
//!
//! # Source
//! Elliott 2015, section 4.3.2: 4.4, 4.5, 4.11, 4.12; 4.46 for top halves. The text has fair lateness only; other policies and periods as deadlines are
//! ours.

use fusee_sched::key::PolicyName;

use crate::arrangement::{Arrangement, Owner, Speeds};
use crate::costs::{Costs, Interrupts, Line};
use crate::engines::{Blocked, Copies, Engines, GpuCluster, Migration, Use};
use crate::in_time::responses_in_time;
use crate::lateness::{Load, responses};
use crate::place::{self, ONE, Place, User, share};
use crate::task::{Gpu, Task};
use crate::tokens::{Sharer, ck_omlp, r2dglp, r2dglp_requests};

/// The bytes of a chunk: one mebibyte.
pub const CHUNK: u64 = 1 << 20;

/// The bounds on blocking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// As if each request that is ahead were the longest of all.
    Coarse,
    /// Distinct requests, and chains of them.
    Fine,
}

/// The condition under which a set is accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Goal {
    /// Lateness is bounded. Fixed priorities have bounds up to the period only, so for them it is [`InTime`](Goal::InTime).
    Bounded,
    /// Each job ends within its period.
    InTime,
}

/// The rules by which a set is judged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rules {
    /// The bounds on blocking.
    pub method: Method,
    /// The policy of the CPU clusters. Deadlines are periods, so DM is RM.
    pub policy: PolicyName,
    /// The condition under which a set is accepted.
    pub goal: Goal,
}

impl Rules {
    /// The rules of the text: fine bounds, fair lateness, bounded lateness.
    pub const TEXT: Rules = Rules { method: Method::Fine, policy: PolicyName::Fl, goal: Goal::Bounded };
}

/// The bounds of one task, nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Bounds {
    /// Its place.
    pub place: Place,
    /// Blocking by engine locks.
    pub engines: u64,
    /// Blocking by tokens, while its own request waits.
    pub tokens: u64,
    /// Blocking as a donor.
    pub donor: u64,
    /// The longest time for which it has its token.
    pub section: u64,
    /// Its execution with all suspension, blocking and costs.
    pub execution: u64,
    /// Its response time.
    pub response: u64,
}

/// The reason why a task set is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// A task needs more than its period.
    TooLong {
        /// The task.
        task: usize,
    },
    /// The tasks of a CPU cluster need more than its CPUs.
    Overload {
        /// The CPU cluster.
        cluster: usize,
    },
    /// No bound of a task is within its period.
    Late {
        /// The task.
        task: usize,
    },
    /// Bounds grew on and on.
    GaveUp,
}

/// The number of times that blocking and response times are computed before giving up.
const ROUNDS: usize = 100;

/// Judges `tasks`: their bounds, or the reason why there are none.
///
/// # Errors
/// [`Refused`].
pub fn judge(tasks: &[Task], arrangement: &Arrangement, costs: &Costs, rules: Rules) -> Result<Vec<Bounds>, Refused> {
    Study::new(tasks, arrangement, costs, rules)?.settle()
}

/// The GPU tasks of one GPU cluster.
struct Group {
    members: Vec<usize>,
    cluster: GpuCluster,
    uses: Vec<Use>,
    /// All tokens, and the most token requests before one (of the R2DGLP).
    tokens: u64,
    owner: Owner,
}

/// Facts of a task that do not change.
#[derive(Clone, Copy, Default)]
struct Fixed {
    /// Its execution and its own operations.
    own: u64,
    /// Requests of engines.
    requests: u64,
    /// The additions of 4.50, 4.51 and 2.45.
    added: u64,
    /// The time that it has a token, blocking apart.
    section: u64,
    /// A reciprocal of its period: see [`jobs`].
    reciprocal: u128,
}

struct Study<'a> {
    tasks: &'a [Task],
    arrangement: &'a Arrangement,
    costs: &'a Costs,
    rules: Rules,
    fixed: Vec<Fixed>,
    groups: Vec<Group>,
    bounds: Vec<Bounds>,
}

/// The number of jobs with period `p` in `span`, rounded up: `1 / p` is kept with 64 binary places, rounded up, so it is never too small.
fn jobs(span: u64, task: &Task, reciprocal: u128) -> u64 {
    ((u128::from(span + task.period - 1) * reciprocal) >> 64) as u64
}

impl<'a> Study<'a> {
    /// Places the GPU tasks.
    fn new(
        tasks: &'a [Task],
        arrangement: &'a Arrangement,
        costs: &'a Costs,
        rules: Rules,
    ) -> Result<Study<'a>, Refused> {
        let own = |task: &Task, speed: u64| {
            task.gpu.map_or(0, |gpu| {
                Speeds::time(gpu.kernel, speed).saturating_mul(gpu.kernels) + transfers(&gpu, arrangement, costs)
            }) + task.cpu
        };
        let speeds: Vec<u64> = (0..arrangement.gpu_clusters()).map(|cluster| arrangement.speed(cluster)).collect();
        let fastest = speeds.iter().copied().max().unwrap_or(100);
        let mut fixed = Vec::with_capacity(tasks.len());
        let mut users = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            let least = own(task, fastest);
            if least > task.period {
                return Err(Refused::TooLong { task: index });
            }
            if let Some(gpu) = &task.gpu {
                let shares = speeds.iter().map(|speed| match own(task, *speed) {
                    own if own > task.period => (u64::MAX, u64::MAX),
                    own => (share(own - task.cpu + gpu.section, task.period), share(own, task.period)),
                });
                let (gpu, cpu) = shares.unzip();
                users.push(User { task: index, gpu, cpu });
            }
            let reciprocal = (1u128 << 64).div_ceil(task.period.into());
            fixed.push(Fixed { own: least, reciprocal, ..Fixed::default() });
        }
        let total: u64 = tasks.iter().zip(&fixed).map(|(task, fixed)| share(fixed.own, task.period)).sum();
        if total > arrangement.platform.cpus * ONE {
            return Err(Refused::Overload { cluster: 0 });
        }
        let mut places = vec![Place::default(); tasks.len()];
        place::gpu_tasks(&users, arrangement, &mut places);
        for (index, (task, place)) in tasks.iter().zip(&places).enumerate() {
            if let Some(cluster) = place.gpus {
                fixed[index].own = own(task, speeds[cluster]);
                if fixed[index].own > task.period {
                    return Err(Refused::TooLong { task: index });
                }
            }
        }
        let bounds = places.into_iter().zip(tasks).map(|(place, task)| Bounds {
            place,
            response: task.period,
            ..Bounds::default()
        });
        let bounds = bounds.collect();
        let mut study = Study { tasks, arrangement, costs, rules, fixed, groups: Vec::new(), bounds };
        study.groups = (0..arrangement.gpu_clusters()).filter_map(|cluster| study.group(cluster)).collect();
        Ok(study)
    }

    /// The tasks of a GPU cluster, and their requests with all costs; `None`: there are none.
    fn group(&mut self, index: usize) -> Option<Group> {
        let members: Vec<usize> =
            (0..self.tasks.len()).filter(|task| self.bounds[*task].place.gpus == Some(index)).collect();
        if members.is_empty() {
            return None;
        }
        let Arrangement { gpu_cluster: gpus, cpu_cluster, migration, .. } = *self.arrangement;
        let owner = self.arrangement.owner(index);
        let users = members.len() as u64;
        // With donation at release, no more jobs have requests than there are CPUs.
        let most = match &owner {
            Owner::One(_) => users,
            Owner::Shared(clusters) => users.min(clusters.len() as u64 * cpu_cluster),
        };
        let all = self.arrangement.tokens.unwrap_or(users);
        let tokens = all.min(most);
        let cluster = match self.rules.method {
            Method::Fine => GpuCluster { gpus, tokens, holders: (tokens * gpus).min(most), migration },
            Method::Coarse => GpuCluster { gpus, tokens: all, holders: all * gpus, migration },
        };
        let is_apart = self.arrangement.is_apart();
        let uses: Vec<Use> = members
            .iter()
            .map(|task| {
                let gpu = self.tasks[*task].gpu.as_ref()?;
                let one = requests(
                    gpu,
                    self.arrangement,
                    &|line: &Line, bytes| self.costs.request(line.time(bytes), tokens, is_apart),
                    self.costs,
                );
                let kernel = Speeds::time(gpu.kernel, self.arrangement.speed(index));
                Some(Use { kernels: gpu.kernels, kernel: self.costs.request(kernel, tokens, is_apart), ..one })
            })
            .collect::<Option<_>>()?;
        for (task, one) in members.iter().zip(&uses) {
            let copies = [one.input, one.output, one.state, one.state_out];
            let requests = one.kernels + copies.iter().map(Copies::count).sum::<u64>();
            let spans = one.kernels * one.kernel + copies.iter().map(Copies::span).sum::<u64>();
            let section = self.tasks[*task].gpu.map_or(0, |gpu| gpu.section);
            let fixed = &mut self.fixed[*task];
            fixed.requests = requests;
            fixed.added = self.costs.job(requests, tokens, is_apart);
            fixed.section = section + spans + self.costs.section();
        }
        Some(Group { members, cluster, uses, tokens: all * gpus, owner })
    }

    /// The number of jobs of `other` that are pending at some instant of a job of `task` (4.12).
    fn jobs(&self, task: usize, other: usize) -> u64 {
        let span = self.tasks[task].period.max(self.bounds[task].response) + self.bounds[other].response;
        jobs(span, &self.tasks[other], self.fixed[other].reciprocal)
    }

    /// Blocking and response times that do not grow any more.
    fn settle(mut self) -> Result<Vec<Bounds>, Refused> {
        self.block();
        self.place_others()?;
        for _ in 0..ROUNDS {
            if !self.respond()? {
                return Ok(self.bounds);
            }
            self.block();
        }
        Err(Refused::GaveUp)
    }

    /// Computes the blocking of all tasks from the response times so far.
    fn block(&mut self) {
        for one in &mut self.bounds {
            (one.engines, one.tokens, one.donor) = (0, 0, 0);
        }
        let groups = std::mem::take(&mut self.groups);
        for group in &groups {
            let engines = Engines::new(group.cluster, &group.uses);
            for (member, task) in group.members.iter().enumerate() {
                let of = |other: usize| self.jobs(*task, group.members[other]);
                let Blocked { kernels, copies } = match self.rules.method {
                    Method::Coarse => engines.coarse(member),
                    Method::Fine => engines.fine(member, of),
                };
                let blocked = kernels.saturating_add(copies);
                self.bounds[*task].engines = blocked;
                self.bounds[*task].section = self.fixed[*task].section.saturating_add(blocked);
            }
            self.block_by_tokens(group);
        }
        self.groups = groups;
    }

    fn block_by_tokens(&mut self, group: &Group) {
        let sections: Vec<u64> = group.members.iter().map(|task| self.bounds[*task].section).collect();
        match &group.owner {
            Owner::One(_) => {
                let most = r2dglp_requests(sections.len() as u64, self.arrangement.cpu_cluster, group.tokens);
                for (member, task) in group.members.iter().enumerate() {
                    self.bounds[*task].tokens = match self.rules.method {
                        Method::Fine => r2dglp(member, most, &sections, |other| self.jobs(*task, group.members[other])),
                        Method::Coarse => {
                            let others = sections.iter().enumerate().filter(|(other, _)| *other != member);
                            most.saturating_mul(others.map(|(_, section)| *section).max().unwrap_or(0))
                        }
                    };
                }
            }
            Owner::Shared(clusters) => {
                let cluster = |task: &usize| self.bounds[*task].place.cpus - clusters.start;
                let all: Vec<(usize, u64)> = group.members.iter().map(cluster).zip(sections).collect();
                let sharers = vec![Sharer { cpus: self.arrangement.cpu_cluster }; clusters.len()];
                let found = ck_omlp(&all, &sharers, group.tokens);
                for one in self.bounds.iter_mut().filter(|one| one.place.gpus.is_none()) {
                    if clusters.contains(&one.place.cpus) {
                        one.donor = found.others[one.place.cpus - clusters.start];
                    }
                }
                for (member, task) in group.members.iter().enumerate() {
                    (self.bounds[*task].tokens, self.bounds[*task].donor) = (found.direct[member], found.donor[member]);
                }
            }
        }
    }

    /// Places the tasks without GPUs, besides GPU tasks with their blocking.
    fn place_others(&mut self) -> Result<(), Refused> {
        let mut loads = vec![0u64; self.arrangement.cpu_clusters()];
        let mut others = Vec::new();
        let mut places: Vec<Place> = self.bounds.iter().map(|one| one.place).collect();
        for (index, (task, place)) in self.tasks.iter().zip(&places).enumerate() {
            let share = share(self.demand(index), task.period);
            if share > ONE {
                return Err(Refused::TooLong { task: index });
            }
            match place.gpus {
                Some(_) => loads[place.cpus] += share,
                None => others.push((index, share)),
            }
        }
        if let Some(cluster) = loads.iter().position(|load| *load > self.arrangement.cpu_cluster * ONE) {
            return Err(Refused::Overload { cluster });
        }
        place::cpu_tasks(&others, &mut loads, &mut places);
        for (bounds, place) in self.bounds.iter_mut().zip(places) {
            bounds.place = place;
        }
        // Their places decide whether they donate.
        if self.arrangement.shares() {
            self.block();
        }
        Ok(())
    }

    /// Execution, own operations and blocking of a task, with the costs of its requests.
    fn demand(&self, task: usize) -> u64 {
        let (fixed, bounds) = (&self.fixed[task], &self.bounds[task]);
        let parts = [fixed.own, fixed.added, bounds.engines, bounds.tokens, bounds.donor];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// Computes response times from the blocking so far; whether one has grown.
    fn respond(&mut self) -> Result<bool, Refused> {
        let mut has_grown = false;
        for cluster in 0..self.arrangement.cpu_clusters() {
            let members: Vec<usize> =
                (0..self.tasks.len()).filter(|task| self.bounds[*task].place.cpus == cluster).collect();
            let periods = members.iter().map(|task| self.tasks[*task].period);
            let interrupts = Interrupts::new(self.costs, periods).ok_or(Refused::Overload { cluster })?;
            let hits = self.hitting(cluster);
            let mut loads = Vec::with_capacity(members.len());
            for task in &members {
                let halves: u64 = hits
                    .iter()
                    .filter(|other| *other != task)
                    .map(|other| self.fixed[*other].requests * self.jobs(*task, *other))
                    .sum();
                let demand = self.demand(*task).saturating_add(halves.saturating_mul(self.costs.top_half));
                let execution = interrupts.inflate(self.costs, demand);
                let period = self.tasks[*task].period.saturating_sub(self.costs.event_latency);
                if execution > period {
                    return Err(Refused::TooLong { task: *task });
                }
                self.bounds[*task].execution = execution;
                loads.push(match self.rules.policy {
                    PolicyName::Fl => Load::fair(execution, period, self.arrangement.cpu_cluster),
                    _ => Load { execution, period, point: period },
                });
            }
            let cpus = self.arrangement.cpu_cluster;
            let found = match (self.rules.goal, self.rules.policy) {
                (Goal::Bounded, PolicyName::Edf | PolicyName::Fl) => {
                    responses(&loads, cpus).ok_or(Refused::Overload { cluster })?
                }
                (_, policy) => {
                    responses_in_time(&loads, cpus, policy).map_err(|member| Refused::Late { task: members[member] })?
                }
            };
            for (task, response) in members.iter().zip(found) {
                let response = response.saturating_add(self.costs.event_latency);
                let known = &mut self.bounds[*task].response;
                has_grown |= response > *known;
                *known = response.max(*known);
            }
        }
        Ok(has_grown)
    }

    /// The GPU tasks whose interrupts reach CPUs of a CPU cluster.
    fn hitting(&self, cluster: usize) -> Vec<usize> {
        if self.costs.top_half == 0 {
            return Vec::new();
        }
        let reaches = |group: &&Group| match &group.owner {
            Owner::One(owner) => *owner == cluster,
            Owner::Shared(clusters) => clusters.contains(&cluster),
        };
        self.groups.iter().filter(reaches).flat_map(|group| group.members.iter().copied()).collect()
    }
}

/// The copies of a job as requests, each of a length by its line and bytes.
fn requests(gpu: &Gpu, arrangement: &Arrangement, length: &dyn Fn(&Line, u64) -> u64, costs: &Costs) -> Use {
    let copies = |line: &Line, bytes: u64| Copies {
        whole: bytes / CHUNK,
        length: length(line, CHUNK),
        rest: length(line, bytes % CHUNK),
    };
    let peer = if arrangement.gpu_cluster <= 2 { &costs.near } else { &costs.far };
    let (state, state_out) = match arrangement.migration {
        Migration::Never => (Copies::default(), Copies::default()),
        Migration::System => (copies(&costs.inbound, gpu.state), copies(&costs.outbound, gpu.state)),
        Migration::Peer => (copies(peer, gpu.state), Copies::default()),
    };
    Use {
        kernels: 0,
        kernel: 0,
        input: copies(&costs.inbound, gpu.input),
        output: copies(&costs.outbound, gpu.output),
        state,
        state_out,
    }
}

/// The time of all copies of a job, nanoseconds.
fn transfers(gpu: &Gpu, arrangement: &Arrangement, costs: &Costs) -> u64 {
    let Use { input, output, state, state_out, .. } =
        requests(gpu, arrangement, &|line, bytes| line.time(bytes), costs);
    [input, output, state, state_out].iter().map(Copies::span).sum()
}
