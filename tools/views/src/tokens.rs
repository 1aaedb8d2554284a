//! Facts about tokens that a trace has only in hindsight: with which token a wait ended, and which job gave its budget to another that has a
//! request for a shared pool.
//!
//! A job that donates by the CK-OMLP is suspended by the kernel, not by a call, and no record says so. The proof of a donation is a record by
//! which a task with such a request runs on the reservation of a job that neither runs nor waits for anything else. It has begun when something first
//! ran on that, or when a CPU first was idle that the job might have had: the donee may be suspended at first.
//!
//! Not here: the present holder of each token, and the words (`explain`).

use std::collections::{BTreeMap, BTreeSet};

use fusee_abi::Call;
use fusee_abi::trace::{Event, POOL, Record};
use fusee_manifest::Resolved;

/// Whether clusters share this pool.
pub(crate) fn is_shared(system: &Resolved, pool: usize) -> bool {
    system.pools.get(pool).is_some_and(|(_, pool)| pool.crosses != 0)
}

/// A job gives its budget to another that has a request. Instants in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Donation {
    /// It has begun.
    pub from: u64,
    /// It has ended.
    pub until: u64,
    /// The donee.
    pub to: usize,
    /// A pool whose token the donee had, or had asked for.
    pub pool: usize,
    /// The donee has not been seen to run on the donor's reservation, but another task that it must wait for.
    is_guess: bool,
}

/// Facts about tokens; lists are by task and in the order of time.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// When a task was granted which token of which pool.
    grants: Vec<Vec<(u64, usize, u32)>>,
    donations: Vec<Vec<Donation>>,
}

impl Tokens {
    /// Of these records.
    pub fn of(records: &[Record], system: &Resolved) -> Tokens {
        let empty = Tokens { grants: Vec::new(), donations: Vec::new() };
        if system.pools.is_empty() {
            return empty;
        }
        let tasks = vec![Task::default(); system.tasks.len()];
        let mut reader = Reader { system, now: 0, running: BTreeMap::new(), tasks };
        records.iter().for_each(|record| reader.read(record));
        let end = records.last().map_or(0, |record| record.time);
        (0..reader.tasks.len()).for_each(|task| reader.end_donation(task, end));
        reader.tasks.into_iter().fold(empty, |mut all, task| {
            all.grants.push(task.grants);
            all.donations.push(task.donations);
            all
        })
    }

    /// The token of `pool` that `task` is granted next after `now`.
    pub fn granted(&self, task: usize, pool: usize, now: u64) -> Option<u32> {
        let grants = self.grants.get(task)?;
        let later = &grants[grants.partition_point(|(at, ..)| *at <= now)..];
        later.iter().find(|(_, of, _)| *of == pool).map(|(.., token)| *token)
    }

    /// The donation of `task` that is under way after `now`.
    pub fn donation(&self, task: usize, now: u64) -> Option<Donation> {
        let donations = self.donations.get(task)?;
        let next = donations.get(donations.partition_point(|one| one.until <= now)).copied();
        next.filter(|next| next.from <= now)
    }

    /// The tasks that donate to `task` after `now`.
    pub fn donors(&self, task: usize, now: u64) -> impl Iterator<Item = usize> {
        let donates = move |donor: &usize| self.donation(*donor, now).is_some_and(|one| one.to == task);
        (0..self.donations.len()).filter(donates)
    }
}

#[derive(Clone, Default)]
struct Task {
    /// Pools that it has a request for.
    requests: BTreeSet<usize>,
    /// The one of these whose token it has not.
    asks: Option<usize>,
    /// It is between jobs, or suspended by a call.
    waits: bool,
    /// It neither runs nor waits for anything but its turn to ask.
    may_donate: bool,
    /// Since when a CPU was idle that it might have had.
    lent_since: Option<u64>,
    donates: Option<Donation>,
    /// The latest key that it had of its own.
    key: u32,
    grants: Vec<(u64, usize, u32)>,
    donations: Vec<Donation>,
}

impl Task {
    /// It could run from here on.
    fn is_idle(&mut self) {
        (self.waits, self.may_donate, self.lent_since) = (false, true, None);
    }
}

struct Reader<'a> {
    system: &'a Resolved,
    now: u64,
    /// The thread that runs on each CPU.
    running: BTreeMap<u8, usize>,
    tasks: Vec<Task>,
}

impl Reader<'_> {
    /// Between two records: no job leaves a CPU of its cluster idle, unless it donates.
    fn advance(&mut self, now: u64) {
        let since = std::mem::replace(&mut self.now, now);
        if since == now {
            return;
        }
        for (index, (_, cluster)) in self.system.clusters.iter().enumerate() {
            let mut cpus = (0..self.system.cpus as u8).filter(|cpu| cluster.cpus & 1 << cpu != 0);
            if cpus.any(|cpu| !self.running.contains_key(&cpu)) {
                let tasks = self.tasks.iter_mut().zip(&self.system.tasks);
                let of_cluster = tasks.filter(|(task, of)| of.cluster as usize == index && task.may_donate);
                of_cluster.for_each(|(task, _)| _ = task.lent_since.get_or_insert(since));
            }
        }
    }

    fn read(&mut self, record: &Record) {
        let now = record.time;
        self.advance(now);
        let object = (record.object as usize).checked_sub(1);
        let owner = object.and_then(|index| self.system.owner(index));
        let event = Event::from_number(record.event);
        match (event, owner) {
            (Some(Event::Throttle), Some(owner)) => {
                let waits = self.tasks[owner].waits;
                self.goes_elsewhere(owner, waits, now);
            }
            // A job that runs all the same is seen to leave.
            (Some(Event::Replenish), Some(owner)) if !self.tasks[owner].waits => self.tasks[owner].is_idle(),
            (Some(Event::Idle), _) => _ = self.running.remove(&record.cpu),
            _ => {}
        }
        let Some(task) = usize::from(record.thread).checked_sub(1).filter(|task| *task < self.tasks.len()) else {
            return;
        };
        match (event, object) {
            (Some(Event::SwitchTo | Event::RunOn), _) => {
                self.goes_elsewhere(task, false, now);
                self.running.insert(record.cpu, task);
                match owner {
                    Some(owner) if owner != task => self.runs_on(task, owner, now),
                    _ => self.tasks[task].key = record.value,
                }
            }
            (Some(Event::SwitchAway), _) => {
                if self.running.get(&record.cpu) == Some(&task) {
                    self.running.remove(&record.cpu);
                }
                if !self.tasks[task].waits {
                    self.tasks[task].is_idle();
                }
            }
            (Some(Event::Release), _) => self.tasks[task].is_idle(),
            (Some(Event::Block), Some(object)) => {
                self.goes_elsewhere(task, true, now);
                let pool = object.checked_sub(POOL as usize).filter(|_| record.value == Call::Acquire as u32);
                self.tasks[task].may_donate = pool.is_some_and(|pool| self.awaits_turn(task, pool));
            }
            (Some(Event::Block | Event::Complete), _) => self.goes_elsewhere(task, true, now),
            (Some(Event::Call), _) if record.value == 0 => self.goes_elsewhere(task, true, now),
            (Some(Event::Resume), _) => {
                self.tasks[task].is_idle();
                if let Some(pool) = self.tasks[task].asks {
                    self.request_ends(task, pool, now);
                }
            }
            (Some(Event::TokenRequest), Some(pool)) => {
                let waits = self.tasks[task].waits;
                self.goes_elsewhere(task, waits, now);
                self.tasks[task].requests.insert(pool);
                self.tasks[task].asks = Some(pool);
            }
            (Some(Event::TokenGrant), Some(pool)) => {
                self.tasks[task].asks = None;
                self.tasks[task].grants.push((now, pool, record.value));
            }
            (Some(Event::TokenRelease), Some(pool)) => self.request_ends(task, pool, now),
            (Some(Event::Exit | Event::Stop | Event::Fault), _) => {
                self.goes_elsewhere(task, true, now);
                for pool in self.tasks[task].requests.clone() {
                    self.request_ends(task, pool, now);
                }
            }
            _ => {}
        }
    }

    /// Whether a task that is suspended by `acquire` has not asked yet: it waits for its turn to.
    fn awaits_turn(&self, task: usize, pool: usize) -> bool {
        is_shared(self.system, pool) && !self.tasks[task].requests.contains(&pool)
    }

    /// `task` runs, or waits for something that no donation explains.
    fn goes_elsewhere(&mut self, task: usize, waits: bool, now: u64) {
        self.end_donation(task, now);
        let task = &mut self.tasks[task];
        (task.waits, task.may_donate, task.lent_since) = (waits, false, None);
    }

    /// `task` runs on the reservation of `owner`.
    fn runs_on(&mut self, task: usize, owner: usize, now: u64) {
        let of = &self.tasks[owner];
        if !of.may_donate {
            return;
        }
        let (before, from) = (of.donates, of.lent_since.unwrap_or(now));
        let donation = match (before, self.shared_request(task)) {
            // The donee waits for `task`.
            (Some(_), None) => return,
            (None, None) => {
                let Some((to, pool)) = self.needy(owner) else { return };
                Donation { from, until: u64::MAX, to, pool, is_guess: true }
            }
            (Some(before), Some(_)) if before.to == task => {
                self.tasks[owner].donates = Some(Donation { is_guess: false, ..before });
                return;
            }
            (Some(before), Some(pool)) if !before.is_guess => {
                self.end_donation(owner, now);
                Donation { from: now, pool, to: task, ..before }
            }
            (_, Some(pool)) => Donation { from, until: u64::MAX, to: task, pool, is_guess: false },
        };
        // A donee has one donor.
        self.end_donations_to(donation.to, now);
        self.tasks[owner].donates = Some(donation);
    }

    fn shared_request(&self, task: usize) -> Option<usize> {
        self.tasks[task].requests.iter().copied().find(|pool| is_shared(self.system, *pool))
    }

    /// The task of the same cluster that has a request and no donor; or that with the lowest priority, whose donor `donor` has replaced.
    fn needy(&self, donor: usize) -> Option<(usize, usize)> {
        let has_donor = |task: usize| self.tasks.iter().any(|one| one.donates.is_some_and(|one| one.to == task));
        let cluster = self.system.tasks[donor].cluster;
        let others = (0..self.tasks.len()).filter(|task| self.system.tasks[*task].cluster == cluster);
        let needy = others.filter_map(|task| Some((task, self.shared_request(task)?)));
        needy.max_by_key(|(task, _)| (!has_donor(*task), self.tasks[*task].key))
    }

    /// A request of `task` has ended; with the last of these its donor has nothing to donate for.
    fn request_ends(&mut self, task: usize, pool: usize, now: u64) {
        let system = self.system;
        let one = &mut self.tasks[task];
        one.requests.remove(&pool);
        one.asks = one.asks.filter(|asked| *asked != pool);
        if !one.requests.iter().any(|pool| is_shared(system, *pool)) {
            self.end_donations_to(task, now);
        }
    }

    fn end_donations_to(&mut self, donee: usize, now: u64) {
        for donor in 0..self.tasks.len() {
            if self.tasks[donor].donates.is_some_and(|donation| donation.to == donee) {
                self.end_donation(donor, now);
            }
        }
    }

    fn end_donation(&mut self, donor: usize, now: u64) {
        let donor = &mut self.tasks[donor];
        if let Some(donation) = donor.donates.take() {
            donor.donations.push(Donation { until: now, ..donation });
            donor.lent_since = None;
        }
    }
}
