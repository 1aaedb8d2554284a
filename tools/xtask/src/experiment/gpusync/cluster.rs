//! One cluster of the model: jobs, tokens, engine locks and accounts in a loop over events.
//!
//! In each turn the highest jobs that compute do so, until one of them is done or the next event comes: a release, or the end of what
//! an engine does. Events of one instant are handled in a fixed order, so a seed gives one schedule.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fusee_accel::heuristics::{Gain, Heuristics};
use fusee_accel::topology::{Distance, Topology};
use fusee_locking::engine::Order;
use fusee_locking::group::{self, GroupLock, LockSet};
use fusee_locking::pool::{self, Place, Pool, Rules, r2dglp_requests};
use fusee_sched::account::Account;
use fusee_sched::time::{Instant, Nanoseconds};
use fusee_simulator::workload::Source;

use super::{
    APART, Advised, Adviser, CPUS, DISTANCES, FACTOR, GPUS, Key, Outcome, Overrun, Policy, REPLICAS, Setup, TOKENS,
    Task, Tokens, USERS, may_overrun, tasks,
};

type Locks = GroupLock<Key, USERS>;

/// What a job does, in this order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Before,
    Token,
    Migrate,
    In,
    First,
    Second,
    Out,
    After,
}

/// A job under way.
#[derive(Clone, Copy, Debug)]
struct Job {
    release: u64,
    /// Its deadline, later by those of jobs whose budgets it took.
    deadline: u64,
    taken: u64,
    /// How many times its declared time it runs.
    factor: u64,
    step: Step,
    /// Left to compute; or of the operation, in chunks of equal length.
    left: u64,
    chunks: u64,
    /// The GPU that its token is for, and where its state was.
    gpu: u8,
    from: u8,
    /// Whether a token of the GPU that has its state was free when it asked for one; and any.
    had_own: bool,
    had_any: bool,
    /// Since when it has its token.
    since: u64,
    /// What it used of its token's time.
    held: u64,
    account: Account,
    is_told: bool,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    /// The end of the chunk under way.
    Ends(usize),
    Release(usize),
}

pub struct Cluster {
    setup: Setup,
    now: u64,
    tasks: Vec<Task>,
    jobs: Vec<Option<Job>>,
    /// Releases so far, those of jobs dropped among them.
    released: Vec<u64>,
    /// Where the state of each GPU task is.
    state: [Option<u8>; USERS],
    outcomes: Vec<Outcome>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    tokens: Tokens,
    topology: Topology<GPUS>,
    locks: Locks,
    advice: Advised,
    /// From which each task's moments are drawn.
    moments: Vec<Source>,
}

impl Cluster {
    /// Cluster `number` of the model.
    pub fn new(setup: Setup, seed: u64, number: u64) -> Cluster {
        let mut tasks = tasks(&mut Source::new(seed, number));
        let mut moments: Vec<Source> =
            (0..USERS as u64).map(|one| Source::new(seed, (2 + one) << 8 | number)).collect();
        if setup.aberrant {
            for one in (0..USERS).filter(|one| may_overrun(*one)) {
                tasks[one].aberrant_from = moments[one].draw(0, APART);
            }
        }
        if setup.overrun == Overrun::Inheritance {
            let longest = tasks.iter().map(Task::critical_section).max().unwrap_or_default();
            let bound = r2dglp_requests(CPUS as u16, REPLICAS as u8) * longest.0;
            tasks[..USERS].iter_mut().for_each(|task| task.budget += Nanoseconds(bound));
        }
        let topology = Topology::new(GPUS as u8, TOKENS, DISTANCES).expect("two pairs of GPUs");
        let mut tokens = Pool::EMPTY;
        tokens.set_rules(Rules::r2dglp(REPLICAS as u8, CPUS as u16));
        let mut locks = GroupLock::EMPTY;
        locks.set_order(if setup.policy == Policy::Edf { Order::Fifo } else { Order::Priority });
        let advice = match setup.adviser {
            Adviser::Heuristics => Advised::Informed(Box::new(Heuristics::new(topology, Gain::default()))),
            Adviser::Nobody => Advised::Nothing,
            Adviser::Chance => Advised::Chance(Box::new(RefCell::new(Source::new(seed, 1 << 8 | number)))),
        };
        let outcome = |(number, task): (usize, &Task)| Outcome {
            declared: 2 * task.kernel,
            period: task.period,
            may_overrun: may_overrun(number),
            ..Outcome::default()
        };
        Cluster {
            setup,
            now: 0,
            jobs: vec![None; tasks.len()],
            released: vec![0; tasks.len()],
            state: [None; USERS],
            outcomes: tasks.iter().enumerate().map(outcome).collect(),
            events: tasks.iter().enumerate().map(|(one, task)| Reverse((task.phase, Event::Release(one)))).collect(),
            tasks,
            tokens,
            topology,
            locks,
            advice,
            moments,
        }
    }

    /// What came of its GPU tasks in `length` nanoseconds.
    pub fn run(mut self, length: u64) -> Vec<Outcome> {
        loop {
            let running = self.running();
            let until = |one: &usize| self.now + self.slice(*one);
            let computed = running.iter().map(until).min().unwrap_or(u64::MAX);
            let next = self.events.peek().map_or(u64::MAX, |Reverse((at, _))| *at).min(computed);
            if next > length {
                self.outcomes.truncate(USERS);
                return self.outcomes;
            }
            let passed = next - self.now;
            self.now = next;
            for one in running {
                self.computed(one, passed);
            }
            while let Some(Reverse((at, event))) =
                self.events.peek().copied().filter(|Reverse((at, _))| *at <= self.now)
            {
                debug_assert_eq!(at, self.now);
                self.events.pop();
                match event {
                    Event::Release(one) => self.release(one),
                    Event::Ends(one) => self.chunk_ended(one),
                }
            }
        }
    }

    fn job(&mut self, one: usize) -> &mut Job {
        self.jobs[one].as_mut().expect("it has a job under way")
    }

    fn key(&self, one: usize) -> Key {
        match self.setup.policy {
            Policy::Edf => (self.jobs[one].map_or(u64::MAX, |job| job.deadline), one),
            Policy::Rm => (self.tasks[one].period, one),
        }
    }

    /// Who computes: the highest of those that would.
    fn running(&self) -> Vec<usize> {
        let computes = |one: &usize| self.jobs[*one].is_some_and(|job| matches!(job.step, Step::Before | Step::After));
        let mut ready: Vec<usize> = (0..self.tasks.len()).filter(computes).collect();
        ready.sort_by_key(|one| self.key(*one));
        ready.truncate(CPUS);
        ready
    }

    /// How long `one` computes before something must be decided.
    fn slice(&self, one: usize) -> u64 {
        let job = self.jobs[one].expect("it runs");
        if self.setup.overrun == Overrun::Ignored { job.left } else { job.left.min(job.account.left.0.max(1)) }
    }

    fn release(&mut self, one: usize) {
        let task = &mut self.tasks[one];
        let release = task.phase + self.released[one] * task.period;
        self.released[one] += 1;
        let is_aberrant = release >= task.aberrant_from;
        if is_aberrant {
            task.aberrant_from = release + self.moments[one].draw(0, APART);
        }
        let factor = if is_aberrant { FACTOR } else { 1 };
        let task = &self.tasks[one];
        self.jobs[one] = Some(Job {
            release,
            deadline: release + task.period,
            taken: 0,
            factor,
            // Who takes no token computes both halves at once.
            step: if one < USERS { Step::Before } else { Step::After },
            left: factor * task.compute * if one < USERS { 1 } else { 2 },
            chunks: 0,
            gpu: 0,
            from: 0,
            had_own: true,
            had_any: true,
            since: 0,
            held: 0,
            account: Account::new(task.budget, Nanoseconds(task.period)),
            is_told: false,
        });
    }

    fn computed(&mut self, one: usize, passed: u64) {
        self.job(one).left -= passed;
        self.charge(one, passed);
        let job = *self.job(one);
        if job.is_told {
            self.complete(one);
        } else if job.left == 0 {
            if job.step == Step::Before { self.ask_for_token(one) } else { self.complete(one) }
        }
    }

    fn complete(&mut self, one: usize) {
        let job = self.jobs[one].take().expect("it ran");
        let outcome = &mut self.outcomes[one];
        outcome.jobs += u64::from(!job.is_told);
        outcome.aborted += u64::from(job.is_told);
        outcome.dropped += job.taken;
        outcome.late += u64::from(self.now > job.release + self.tasks[one].period);
        self.released[one] += job.taken;
        let next = self.tasks[one].phase + self.released[one] * self.tasks[one].period;
        self.events.push(Reverse((next.max(self.now), Event::Release(one))));
    }

    //--- Budgets

    /// `one` has executed, on a CPU or an engine.
    fn charge(&mut self, one: usize, used: u64) {
        match self.setup.overrun {
            Overrun::Ignored => {}
            Overrun::Inheritance => match self.donor_above(one) {
                Some(donor) => self.charge_job(donor, used),
                None => self.charge_job(one, used),
            },
            Overrun::Signal | Overrun::EarlyRelease => self.charge_job(one, used),
        }
    }

    /// Who donates to the token holder `one` a priority higher than its own.
    fn donor_above(&self, one: usize) -> Option<usize> {
        let donors =
            self.tokens.requests().iter().filter(|request| self.tokens.waits_on(request.user) == Some(one as u16));
        let above = donors.filter(|request| request.key < self.key(one)).min_by_key(|request| request.key);
        above.map(|request| usize::from(request.user))
    }

    fn charge_job(&mut self, one: usize, used: u64) {
        let (now, period) = (self.now, self.tasks[one].period);
        let tells = self.setup.overrun == Overrun::Signal;
        let job = self.job(one);
        job.account.charge(Nanoseconds(used));
        // What is used up exactly with the last of its work is not overrun.
        let mut took = 0;
        while job.account.is_dry() && (job.account.debt > Nanoseconds::ZERO || job.step != Step::After || job.left > 0)
        {
            if tells {
                job.is_told = true;
                return;
            }
            job.account.replenish(Instant(now));
            took += 1;
        }
        job.taken += took;
        job.deadline += took * period;
        if took > 0 && one < USERS && self.setup.policy == Policy::Edf {
            self.lower(one);
        }
    }

    /// The key of `one` is later than it was. Who waits for a token asks anew, so that it waits where it would have.
    fn lower(&mut self, one: usize) {
        let (user, key) = (one as u16, self.key(one));
        let waits =
            self.tokens.request_of(user).is_some_and(|request| !matches!(request.place, Place::Fifo { ahead: 0, .. }));
        if waits {
            if let Some(change) = self.tokens.withdraw(user, &self.advice) {
                self.granted_token(&change);
            }
            self.ask_for_token(one);
        } else if let Some(change) = self.tokens.change_key(user, key, &self.advice) {
            self.granted_token(&change);
        }
    }

    //--- Tokens

    fn ask_for_token(&mut self, one: usize) {
        let (rules, queues) = (self.tokens.rules(), self.tokens.queues());
        let own = self.state[one];
        let has_room = |replica: &usize| rules.leaves_room(&queues[*replica]);
        let had_any = (0..REPLICAS).any(|replica| has_room(&replica));
        let had_own = (0..REPLICAS).any(|replica| has_room(&replica) && self.topology.gpu_of(replica as u8) == own);
        let job = self.job(one);
        (job.step, job.had_own, job.had_any) = (Step::Token, had_own, had_any);
        let (key, length) = (self.key(one), self.tasks[one].critical_section());
        let change = self.tokens.request(one as u16, key, length, &self.advice).expect("as many places as users");
        self.granted_token(&change);
    }

    fn give_token_back(&mut self, one: usize) {
        let job = *self.job(one);
        self.outcomes[one].holding += self.now - job.since;
        let held = Nanoseconds(job.held);
        let change = self.tokens.release(one as u16, &self.advice).expect("it has a token");
        if let Advised::Informed(heuristics) = &mut self.advice {
            heuristics.freed(one as u16, held);
        }
        self.granted_token(&change);
    }

    fn granted_token(&mut self, change: &pool::Change) {
        self.inherit();
        let Some(grant) = change.granted else { return };
        let one = usize::from(grant.user);
        if let Advised::Informed(heuristics) = &mut self.advice {
            heuristics.acquired(grant.user, grant.replica);
        }
        let gpu = self.topology.gpu_of(grant.replica).expect("a replica of the pool");
        let from = self.state[one].replace(gpu).unwrap_or(gpu);
        let distance = self.topology.distance(from, gpu).expect("GPUs of the pool");
        self.outcomes[one].moves[distance.number()] += 1;
        let now = self.now;
        let job = self.job(one);
        (job.gpu, job.from, job.since) = (gpu, from, now);
        let (had_own, had_any) = (job.had_own, job.had_any);
        if distance != Distance::Same {
            self.outcomes[one].own_full += u64::from(!had_own);
            self.outcomes[one].all_full += u64::from(!had_any);
        }
        self.operate(one, if distance == Distance::Same { Step::In } else { Step::Migrate });
    }

    /// Brings the keys of those at engine locks up to date: holders of tokens inherit from their donors.
    fn inherit(&mut self) {
        let users: Vec<u16> = self.locks.requests().iter().map(|request| request.user).collect();
        for user in users {
            let one = usize::from(user);
            let key = self.donor_above(one).map_or(self.key(one), |donor| self.key(donor));
            if let Some(change) = self.locks.change_key(user, key) {
                self.granted_locks(change);
            }
        }
    }

    //--- Engines

    /// Locks of a GPU: its execution engine, its copy engines in and out.
    fn lock(gpu: u8, engine: u8) -> LockSet {
        LockSet::EMPTY.with(3 * gpu + engine)
    }

    /// Begins an operation, with the locks it needs.
    fn operate(&mut self, one: usize, step: Step) {
        let task = &self.tasks[one];
        let job = self.jobs[one].as_mut().expect("it has a token");
        let factor = job.factor;
        let distance = self.topology.distance(job.from, job.gpu).unwrap_or_default();
        (job.step, job.left) = match step {
            Step::Migrate => (step, task.migration(distance)),
            Step::In | Step::Out => (step, factor * task.copy),
            _ => (step, factor * task.kernel),
        };
        job.chunks = match step {
            // Four times as many bytes as one way, in whatever time.
            Step::Migrate => Task::chunks(4 * task.copy),
            Step::In | Step::Out => Task::chunks(job.left),
            _ => 1,
        };
        self.ask_for_locks(one);
    }

    fn ask_for_locks(&mut self, one: usize) {
        let job = *self.job(one);
        let locks = match job.step {
            Step::Migrate => Self::lock(job.from, 2).or(Self::lock(job.gpu, 1)),
            Step::In => Self::lock(job.gpu, 1),
            Step::Out => Self::lock(job.gpu, 2),
            _ => Self::lock(job.gpu, 0),
        };
        let key = self.donor_above(one).map_or(self.key(one), |donor| self.key(donor));
        let change = self.locks.request(one as u16, key, locks).expect("as many places as users");
        self.granted_locks(change);
    }

    fn granted_locks(&mut self, change: group::Change) {
        let granted: Vec<u16> = self.locks.granted(change).collect();
        for user in granted {
            self.start_chunk(usize::from(user));
        }
    }

    fn start_chunk(&mut self, one: usize) {
        let job = self.job(one);
        let length = job.left / job.chunks;
        let at = self.now + length;
        self.events.push(Reverse((at, Event::Ends(one))));
    }

    fn chunk_ended(&mut self, one: usize) {
        let job = self.job(one);
        let used = job.left / job.chunks;
        job.left -= used;
        job.chunks -= 1;
        job.held += used;
        let step = job.step;
        if matches!(step, Step::First | Step::Second) {
            self.outcomes[one].execution += used;
        }
        self.charge(one, used);
        let job = *self.job(one);
        if job.chunks > 0 && !job.is_told && !self.locks.should_yield(one as u16) {
            return self.start_chunk(one);
        }
        let change = self.locks.release(one as u16, LockSet::EMPTY).expect("it has its locks");
        self.granted_locks(change);
        if job.is_told {
            self.give_token_back(one);
            return self.complete(one);
        }
        match step {
            _ if job.chunks > 0 => self.ask_for_locks(one),
            Step::Migrate => self.operate(one, Step::In),
            Step::In => self.operate(one, Step::First),
            Step::First => self.operate(one, Step::Second),
            Step::Second => self.operate(one, Step::Out),
            _ => {
                let left = job.factor * self.tasks[one].compute;
                let job = self.job(one);
                (job.step, job.left) = (Step::After, left);
                self.give_token_back(one);
            }
        }
    }
}
