//! Fair queueing, straight from its rules: absolute virtual times in maps, samples and intervals looked up in the log.

use std::collections::{BTreeMap, BTreeSet};

use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sharing::*;

use crate::log::{Log, WatchOracle};
use crate::{Oracle, members};

const PARTS: u128 = 1024;

/// A node of the tree by its name: groups count from 0, members from 100.
pub type Name = usize;

pub fn leaf(member: usize) -> Name {
    100 + member
}

/// The tree as lists.
#[derive(Clone, Default)]
pub struct Forest {
    pub shares: Shares,
    pub parent: BTreeMap<Name, Name>,
    pub weight: BTreeMap<Name, u128>,
}

impl Forest {
    pub fn path(&self, member: usize) -> Vec<Name> {
        let mut path = vec![leaf(member)];
        while let Some(&parent) = self.parent.get(path.last().unwrap()) {
            path.push(parent);
        }
        path.pop();
        path
    }
}

#[derive(Clone)]
enum Phase {
    Barrier,
    Draining,
    /// Members to sample, the step at which the present sample began, and its end; `None` if there is none now.
    Sampling {
        list: Vec<usize>,
        length: u64,
        window: Option<(usize, usize, u64)>,
    },
    FreeRun {
        until: u64,
        idle_since: u64,
    },
}

#[derive(Clone, Default)]
struct Interval {
    time: u64,
    active: BTreeSet<usize>,
    backlogged: BTreeSet<usize>,
    completed: BTreeMap<usize, u64>,
    busy: BTreeMap<usize, u64>,
}

pub struct FairOracle {
    parameters: Parameters,
    estimator: Estimator,
    forest: Forest,
    log: Log,
    watch: WatchOracle,
    phase: Phase,
    /// The step at which the interval began. `None`: at time zero.
    began: Option<usize>,
    frozen: Interval,
    denied: BTreeSet<usize>,
    means: BTreeMap<usize, u64>,
    sampled: BTreeMap<usize, u64>,
    used: BTreeMap<usize, u64>,
    virtual_time: BTreeMap<Name, u128>,
    system: BTreeMap<Name, u128>,
    slowest: BTreeMap<Name, u128>,
    threshold: u64,
}

impl FairOracle {
    pub fn new(parameters: &Parameters, estimator: Estimator, forest: Forest) -> FairOracle {
        FairOracle {
            parameters: *parameters,
            estimator,
            virtual_time: forest.weight.keys().map(|&name| (name, 0)).collect(),
            system: forest.weight.keys().map(|&name| (name, 0)).chain([(0, 0)]).collect(),
            forest,
            log: Log::default(),
            watch: WatchOracle::default(),
            phase: Phase::Barrier,
            began: None,
            frozen: Interval::default(),
            denied: BTreeSet::new(),
            means: BTreeMap::new(),
            sampled: BTreeMap::new(),
            used: BTreeMap::new(),
            slowest: BTreeMap::new(),
            threshold: 0,
        }
    }

    /// The events since the interval began, as of the latest step.
    fn interval(&self) -> Interval {
        let last = self.log.steps.len() - 1;
        let now = self.log.steps[last].now;
        let start = self.began.map_or(0, |step| self.log.steps[step].now);
        let mut interval = Interval { time: now - start, ..Interval::default() };
        for &member in &self.log.joined {
            let (joined, join_words, _) = self.log.joined_at(member);
            // A join between two steps belongs to the later one.
            let in_interval = self.began.is_none_or(|step| joined > step);
            let mark = if in_interval { join_words } else { self.log.reading(self.began.unwrap(), member) };
            let first = if in_interval { joined } else { self.began.unwrap() + 1 };
            let reading = self.log.reading(last, member);
            let (mut seen, mut held) = (0, 0);
            for step in first..=last {
                let reading = self.log.reading(step, member);
                let passed = self.log.steps[step].now - self.log.time_before(step);
                if reading.announced > reading.completed && (reading.waits() || reading.at_device()) {
                    seen += passed;
                }
                if reading.waits() && !reading.at_device() {
                    held += passed;
                }
            }
            let completed = reading.completed - mark.completed;
            interval.completed.insert(member, completed);
            let mut backlog = seen;
            if let (Some(mark), Some(now)) = (mark.counters, reading.counters) {
                interval.busy.insert(member, now.busy.0 - mark.busy.0);
                backlog = now.backlogged.0 - mark.backlogged.0 + held;
            }
            let moved = completed > 0 || reading.submitted != mark.submitted;
            if moved || reading.waits() || reading.at_device() {
                interval.active.insert(member);
                if backlog * 100 >= interval.time * u64::from(self.parameters.backlogged) {
                    interval.backlogged.insert(member);
                }
            }
        }
        interval
    }

    fn must_sample(&self, interval: &Interval) -> bool {
        let let_in: Vec<_> = interval.active.difference(&self.denied).collect();
        match self.estimator {
            _ if interval.active.len() < 2 => false,
            Estimator::SampledSize => let_in.len() >= 2,
            Estimator::BacklogAware => !let_in.is_empty(),
            Estimator::Counted => let_in.iter().any(|member| !interval.busy.contains_key(member)),
        }
    }

    fn sample_length(&self, active: &BTreeSet<usize>) -> u64 {
        let longest = active.iter().filter_map(|member| self.means.get(member)).max().copied().unwrap_or(0);
        (8 * longest).max(self.parameters.sample.0).min(self.parameters.sample_most.0)
    }

    /// Whether the sample that began at step `first` is over, how many more commands it has room for, and if it is complete, the
    /// use in it.
    fn sample(&self, member: usize, first: usize, end: u64) -> (bool, u64, Option<u64>) {
        let last = self.log.steps.len() - 1;
        let start = self.log.reading(first, member);
        let mut busy_since = None;
        let mut used = 0;
        for step in first..=last {
            let (now, reading) = (self.log.steps[step].now, self.log.reading(step, member));
            let submitted = reading.submitted - start.submitted;
            let enough = u64::from(self.parameters.sample_requests);
            let over = now >= end || reading.completed.saturating_sub(start.completed) >= enough;
            let room = if over { 0 } else { enough.saturating_sub(submitted) };
            if !reading.at_device() {
                used += busy_since.take().map_or(0, |since: u64| now - since);
            }
            if busy_since.is_none() && (reading.at_device() || (room > 0 && reading.waits())) {
                busy_since = Some(now);
            }
            if step == last {
                if let (Some(start), Some(now)) = (start.counters, reading.counters) {
                    used = now.busy.0 - start.busy.0;
                }
                let pass = room.min(reading.announced - reading.submitted);
                return (over, pass, (over && !reading.at_device()).then_some(used));
            }
        }
        unreachable!("a sample has a first step")
    }

    fn settle(&mut self, interval: &Interval) {
        let now = self.log.last();
        for (member, used) in self.uses(interval) {
            *self.used.entry(member).or_insert(0) += used;
            self.charge(member, used);
        }
        let setters = if self.estimator == Estimator::SampledSize { &interval.active } else { &interval.backlogged };
        self.move_system_times(interval, setters);
        let length = self.deny(interval, setters);
        self.threshold = length;
        self.began = Some(self.log.steps.len() - 1);
        self.phase = Phase::FreeRun { until: now + length, idle_since: now };
    }

    /// Step 1: the use of every member.
    fn uses(&mut self, interval: &Interval) -> BTreeMap<usize, u64> {
        let size = |member: &usize| match self.means.get(member) {
            Some(&mean) => mean.max(1),
            None => (interval.time / interval.completed[member].max(1)).max(1),
        };
        let by_size = |member: &usize| match (self.estimator, interval.busy.get(member)) {
            (Estimator::Counted, Some(&busy)) => busy,
            _ => (size(member) * interval.completed[member]).min(interval.time),
        };
        let (shut_out, let_in): (Vec<usize>, Vec<usize>) =
            interval.active.iter().partition(|member| self.denied.contains(member));
        let mut uses: BTreeMap<usize, u64> = shut_out.iter().map(|member| (*member, by_size(member))).collect();
        let rest = interval.time.saturating_sub(uses.values().sum());
        let sizes: u64 = let_in.iter().map(size).sum();
        for member in &let_in {
            let used = match self.estimator {
                Estimator::SampledSize => (u128::from(rest) * u128::from(size(member)) / u128::from(sizes)) as u64,
                _ => by_size(member),
            };
            uses.insert(*member, used);
        }
        if self.estimator == Estimator::SampledSize {
            assert!(
                let_in.iter().map(|member| uses[member]).sum::<u64>() <= interval.time,
                "more was billed than passed"
            );
        }
        for (&member, &used) in &self.sampled {
            *uses.entry(member).or_insert(0) += used;
        }
        self.sampled.clear();
        if self.estimator == Estimator::Counted {
            for &member in &self.log.joined {
                let completed = interval.completed.get(&member).copied().unwrap_or(0);
                if let Some(&busy) = interval.busy.get(&member)
                    && completed > 0
                {
                    self.means.insert(member, busy / completed);
                }
            }
        }
        uses
    }

    /// Step 2: charges a use along the path of its member.
    fn charge(&mut self, member: usize, used: u64) {
        let path = self.forest.path(member);
        if self.forest.shares == Shares::Static {
            let mut charge = u128::from(used) * PARTS;
            for (place, name) in path.iter().enumerate() {
                if place + 1 < path.len() {
                    let parent = self.forest.parent[name];
                    let siblings = self.forest.parent.iter().filter(|(_, other)| **other == parent);
                    charge *= siblings.map(|(name, _)| self.forest.weight[name]).sum::<u128>();
                }
                charge /= self.forest.weight[name];
            }
            *self.virtual_time.get_mut(&leaf(member)).unwrap() += charge;
        } else {
            for name in path {
                *self.virtual_time.get_mut(&name).unwrap() += u128::from(used) * PARTS / self.forest.weight[&name];
            }
        }
    }

    /// Step 3: moves the system time of each group, and lifts members that are behind it.
    fn move_system_times(&mut self, interval: &Interval, setters: &BTreeSet<usize>) {
        let fixed = self.forest.shares == Shares::Static;
        let family = |group: Name| -> Vec<Name> {
            match fixed {
                true if group == 0 => self.log.joined.iter().map(|&member| leaf(member)).collect(),
                true => Vec::new(),
                false => {
                    self.forest.parent.iter().filter(|(_, parent)| **parent == group).map(|(name, _)| *name).collect()
                }
            }
        };
        let has =
            |name: Name, set: &BTreeSet<usize>| set.iter().any(|&member| self.forest.path(member).contains(&name));
        let mut moves = Vec::new();
        for &group in self.system.keys() {
            let children = family(group);
            let setting: Vec<Name> = children.iter().copied().filter(|&name| has(name, setters)).collect();
            let weight = |name: Name| if fixed { 1 } else { self.forest.weight[&name] };
            if let Some((time, weight)) = setting.iter().map(|&name| (self.virtual_time[&name], weight(name))).min() {
                moves.push((group, time, weight, children));
            } else if children.iter().any(|&name| has(name, &interval.active)) {
                let time = children.iter().map(|name| self.virtual_time[name]).max().unwrap();
                moves.push((group, time, 1, children));
            }
        }
        for (group, time, weight, children) in moves {
            assert!(time >= self.system[&group], "system time of group {group} goes backwards");
            self.system.insert(group, time);
            self.slowest.insert(group, weight);
            for child in children {
                let lifted = self.virtual_time[&child].max(time);
                self.virtual_time.insert(child, lifted);
            }
        }
    }

    /// Step 4: denies members that are too far ahead; the length of the next free run.
    fn deny(&mut self, interval: &Interval, setters: &BTreeSet<usize>) -> u64 {
        let length = self.sample_length(&interval.active)
            * interval.active.len().max(1) as u64
            * u64::from(self.parameters.free_run);
        let before = std::mem::take(&mut self.denied);
        self.denied = self.log.joined.iter().copied().filter(|&member| self.too_far_ahead(member, length)).collect();
        assert!(setters.is_empty() || setters.iter().any(|member| !self.denied.contains(member)), "nobody is let in");
        if self.flat() {
            for &member in interval.active.difference(&before) {
                let lead = self.virtual_time[&leaf(member)] - self.system[&0];
                let most = u128::from(self.threshold + interval.time + self.sampled_at_most()) * PARTS;
                assert!(lead <= most, "a lead of {lead} in an interval of {}", interval.time);
            }
        }
        length
    }

    fn flat(&self) -> bool {
        self.forest.weight.values().all(|&weight| weight == 1) && self.forest.parent.values().all(|&parent| parent == 0)
    }

    /// Time since the drain ended: no sample was longer.
    fn sampled_at_most(&self) -> u64 {
        self.log.last() - self.began.map_or(0, |step| self.log.steps[step].now)
    }

    fn too_far_ahead(&self, member: usize, length: u64) -> bool {
        let fixed = self.forest.shares == Shares::Static;
        let path = if fixed { vec![leaf(member)] } else { self.forest.path(member) };
        path.into_iter().any(|name| {
            let group = if fixed { 0 } else { self.forest.parent[&name] };
            let lead = self.virtual_time[&name] - self.system[&group];
            lead * self.slowest.get(&group).copied().unwrap_or(1) > u128::from(length) * PARTS
        })
    }

    fn stranded(&mut self, step: usize) -> bool {
        let now = self.log.steps[step].now;
        let busy = self.log.joined.difference(&self.denied).any(|&member| {
            let reading = self.log.reading(step, member);
            reading.waits() || reading.at_device() || self.log.moved(step, member)
        });
        let Phase::FreeRun { idle_since, .. } = &mut self.phase else { return false };
        if busy {
            *idle_since = now;
        }
        let idle = now - *idle_since >= self.parameters.poll.0 || self.log.joined.is_subset(&self.denied);
        idle && self.log.waiting(step).iter().any(|member| self.denied.contains(member))
    }

    /// Goes on from phase to phase; true if the barrier has been entered.
    fn go_on(&mut self, step: usize) -> bool {
        let now = self.log.steps[step].now;
        match self.phase.clone() {
            Phase::FreeRun { until, .. } => {
                let stranded = now < until && self.stranded(step);
                if now < until && !stranded {
                    return false;
                }
                let interval = self.interval();
                if interval.active.is_empty() || self.must_sample(&interval) {
                    self.phase = Phase::Barrier;
                    return true;
                }
                self.settle(&interval);
            }
            Phase::Barrier => {
                if self.interval().active.is_empty() {
                    self.began = Some(step);
                    return false;
                }
                self.phase = Phase::Draining;
                return self.go_on(step);
            }
            Phase::Draining => {
                let interval = self.interval();
                if !self.must_sample(&interval) {
                    self.settle(&interval);
                } else if self.log.at_device(step).is_empty() {
                    let list = interval.active.difference(&self.denied).copied().collect();
                    let length = self.sample_length(&interval.active);
                    self.frozen = interval;
                    self.phase = Phase::Sampling { list, length, window: None };
                    return self.go_on(step);
                }
            }
            Phase::Sampling { .. } if self.frozen.active.is_empty() => {
                self.began = Some(step);
                self.phase = Phase::Barrier;
                return self.go_on(step);
            }
            Phase::Sampling { mut list, length, window } => {
                if let Some((member, first, end)) = window {
                    match self.sample(member, first, end).2 {
                        None if self.frozen.active.len() > 1 => return false,
                        None => {}
                        Some(used) => {
                            let completed =
                                self.log.reading(step, member).completed - self.log.reading(first, member).completed;
                            if let Some(mean) = used.checked_div(completed) {
                                self.means.insert(member, mean);
                            }
                            *self.sampled.entry(member).or_insert(0) += used;
                        }
                    }
                }
                if list.is_empty() || self.frozen.active.len() <= 1 {
                    let interval = self.frozen.clone();
                    self.settle(&interval);
                } else {
                    let member = list.remove(0);
                    self.phase = Phase::Sampling { list, length, window: Some((member, step, now + length)) };
                    return self.go_on(step);
                }
            }
        }
        false
    }
}

impl Oracle for FairOracle {
    fn join(&mut self, member: usize, place: Place, reading: &Reading, now: u64) {
        self.log.join(member, reading, now);
        self.watch.join(member);
        let group = place.group.index();
        self.forest.parent.insert(leaf(member), group);
        self.forest.weight.insert(leaf(member), u128::from(place.weight.shares()));
        let compared = if self.forest.shares == Shares::Static { 0 } else { group };
        self.virtual_time.insert(leaf(member), self.system[&compared]);
        self.used.insert(member, 0);
    }

    fn leave(&mut self, member: usize) {
        self.log.joined.remove(&member);
        self.forest.parent.remove(&leaf(member));
        self.forest.weight.remove(&leaf(member));
        self.virtual_time.remove(&leaf(member));
        self.denied.remove(&member);
        self.frozen.active.remove(&member);
        self.frozen.backlogged.remove(&member);
        self.means.remove(&member);
        self.sampled.remove(&member);
        if let Phase::Sampling { list, window, .. } = &mut self.phase {
            list.retain(|&other| other != member);
            *window = window.filter(|window| window.0 != member);
        }
    }

    fn reweigh(&mut self, member: usize, weight: Weight) {
        self.forest.weight.insert(leaf(member), u128::from(weight.shares()));
    }

    fn step(&mut self, now: u64, readings: &Readings) -> Verdict {
        let (step, now) = self.log.step(now, readings);
        let alone = match &self.phase {
            Phase::Sampling { window, .. } => window.map(|window| window.0),
            _ => None,
        };
        let accused = self.watch.look(&self.log, alone, self.parameters.request_limit.0);
        let entered = self.go_on(step);
        let mut verdict = Verdict { accused, ..Verdict::QUIET };
        let mut again;
        match &self.phase {
            Phase::Barrier => again = entered.then_some(now),
            Phase::Draining => {
                verdict.drain = members(self.log.at_device(step));
                again = Some(now + self.parameters.poll.0);
            }
            Phase::Sampling { window, .. } => {
                let (member, first, end) = window.unwrap();
                again = Some(now + self.parameters.sample_poll.0);
                match self.sample(member, first, end) {
                    (true, ..) => verdict.drain = members([member]),
                    (false, pass, _) => {
                        verdict.doorbells[member] = Doorbell::Trapped { pass };
                        again = again.map(|at| at.min(end));
                    }
                }
            }
            Phase::FreeRun { until, .. } => {
                for &member in self.log.joined.difference(&self.denied) {
                    verdict.doorbells[member] = Doorbell::Open;
                }
                again = Some((*until).min(now + self.parameters.poll.0));
            }
        }
        verdict.call_again = again.map(Instant);
        verdict
    }

    fn usage(&self, member: usize) -> Usage {
        let name = leaf(member);
        let fixed = self.forest.shares == Shares::Static;
        let (group, weight) = if fixed { (0, 1) } else { (self.forest.parent[&name], self.forest.weight[&name]) };
        let lead = (self.virtual_time[&name] - self.system[&group]) / PARTS * weight;
        let (joined, words, _) = self.log.joined_at(member);
        let latest =
            if joined < self.log.steps.len() { self.log.steps.last().unwrap().readings.members[member] } else { words };
        Usage {
            used: Nanoseconds(self.used[&member]),
            commands: latest.completed - words.completed,
            ahead: Nanoseconds(lead as u64),
            denied: self.denied.contains(&member),
        }
    }
}
