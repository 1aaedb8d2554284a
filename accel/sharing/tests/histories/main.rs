//! Each policy against a slow oracle of its own, in random histories: members that come, go, send, stay silent and hang, on a
//! device that completes commands in any order. All verdicts and accounts have to be equal, and keep the guarantees of the
//! interface.

mod fair;
mod log;
mod slices;
mod virtual_gpus;

use std::collections::BTreeSet;

use fair::{FairOracle, Forest};
use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sharing::*;
use log::{Log, WatchOracle};
use slices::{AccountingOracle, TimesliceOracle};
use virtual_gpus::VirtualGpuOracle;

const HISTORIES: u64 = 100_000;
const MICROSECOND: u64 = 1_000;

/// A policy, written once more.
pub(crate) trait Oracle {
    fn join(&mut self, member: usize, place: Place, reading: &Reading, now: u64);
    fn leave(&mut self, member: usize);
    fn reweigh(&mut self, member: usize, weight: Weight);
    fn step(&mut self, now: u64, readings: &Readings) -> Verdict;
    fn usage(&self, member: usize) -> Usage;
}

pub(crate) fn members(list: impl IntoIterator<Item = usize>) -> Members {
    list.into_iter().filter_map(Member::new).collect()
}

/// A small generator (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

fn random_parameters(chance: &mut Chance) -> Parameters {
    let poll = 100 * MICROSECOND * (1 + chance.below(20));
    Parameters {
        poll: Nanoseconds(poll),
        slice: Nanoseconds(poll.max(1_000 * MICROSECOND) + chance.below(4_000 * MICROSECOND)),
        sample: Nanoseconds(1_000 * MICROSECOND + chance.below(1_000 * MICROSECOND)),
        sample_most: Nanoseconds(2_000 * MICROSECOND + chance.below(8_000 * MICROSECOND)),
        sample_poll: Nanoseconds(poll / 4),
        sample_requests: 1 + chance.below(4) as u32,
        free_run: 1 + chance.below(3) as u32,
        backlogged: [1, 50, 90, 100][chance.below(4) as usize],
        request_limit: Nanoseconds(poll + chance.below(20_000 * MICROSECOND)),
        period: Nanoseconds(1_000 * MICROSECOND + chance.below(30_000 * MICROSECOND)),
        wait: Nanoseconds(chance.below(2) * chance.below(1_000 * MICROSECOND)),
    }
}

/// The habits of a member in one history.
#[derive(Clone, Copy, Default)]
struct Habits {
    /// The member sends in one of so many steps.
    seldom: u64,
    most: u64,
    hangs: bool,
}

struct World<'a, P: Policy, O: Oracle> {
    chance: &'a mut Chance,
    policy: P,
    oracle: O,
    now: u64,
    words: [Reading; MEMBERS],
    habits: [Habits; MEMBERS],
    joined: BTreeSet<usize>,
    open: BTreeSet<usize>,
    call_again: Option<u64>,
    counters: bool,
    tells_running: bool,
    groups: Vec<Group>,
}

impl<P: Policy, O: Oracle> World<'_, P, O> {
    fn join(&mut self) {
        let index = self.chance.below(6) as usize;
        let member = Member::new(index).unwrap();
        let group = self.groups[self.chance.below(self.groups.len() as u64) as usize];
        let place = Place { group, weight: self.weight() };
        let now = Instant(self.now);
        if self.joined.contains(&index) {
            assert_eq!(self.policy.join(member, place, &self.words[index], now), Err(JoinError::AlreadyJoined(member)));
            return;
        }
        if self.counters {
            let counters = self.words[index].counters.unwrap_or_default();
            self.words[index].counters = Some(counters);
        }
        self.policy.join(member, place, &self.words[index], now).unwrap();
        self.oracle.join(index, place, &self.words[index], self.now);
        self.joined.insert(index);
        self.habits[index] =
            Habits { seldom: 1 + self.chance.below(8), most: 1 + self.chance.below(4), hangs: self.chance.once_in(12) };
    }

    fn weight(&mut self) -> Weight {
        let shares = if self.groups.len() == 1 { 1 } else { 1 + self.chance.below(3) as u16 };
        Weight::new(shares).unwrap()
    }

    fn leave(&mut self, index: usize) {
        self.policy.leave(Member::new(index).unwrap(), Instant(self.now));
        self.oracle.leave(index);
        self.joined.remove(&index);
        self.open.remove(&index);
        let words = &mut self.words[index];
        words.submitted = words.submitted.max(words.completed);
        words.completed = words.submitted;
        words.announced = words.submitted;
    }

    /// Time passes, and every member acts. `quiet`: no member sends anything, and nothing hangs.
    fn pass_time(&mut self, quiet: bool) {
        let due = self.call_again.map(|at| at.saturating_sub(self.now));
        let passed = match self.chance.below(8) {
            0 => 0,
            1 => self.chance.below(300 * MICROSECOND),
            2 => due.unwrap_or(0) + self.chance.below(2_000 * MICROSECOND),
            3 if !quiet => self.chance.below(30_000 * MICROSECOND),
            _ => due.unwrap_or_else(|| self.chance.below(5_000 * MICROSECOND)),
        };
        self.now += passed;
        let here: Vec<usize> = self.joined.iter().copied().filter(|&index| self.words[index].at_device()).collect();
        if let Some(&served) = here.get(self.chance.below(here.len().max(1) as u64) as usize) {
            let used = self.chance.below(passed + 1);
            for index in here {
                let words = &mut self.words[index];
                if let Some(counters) = &mut words.counters {
                    counters.backlogged.0 += passed;
                    counters.busy.0 += if index == served { used } else { 0 };
                }
                let under_way = words.submitted - words.completed;
                if quiet || (!self.habits[index].hangs && !self.chance.once_in(3)) {
                    words.completed += if quiet { under_way } else { self.chance.below(under_way + 1) };
                }
            }
        }
        for index in self.joined.clone() {
            let habits = self.habits[index];
            let waits = self.words[index].waits();
            if quiet || waits || !self.chance.once_in(habits.seldom) {
                continue;
            }
            let commands = 1 + self.chance.below(habits.most);
            self.words[index].announced += commands;
            if self.open.contains(&index) {
                self.words[index].submitted += commands;
            }
        }
    }

    fn step(&mut self, check: impl Fn(&P, &Verdict, &Readings, Members)) {
        let mut readings = Readings { members: self.words, running: Running::Unknown };
        let here: Vec<usize> = self.joined.iter().copied().filter(|&index| self.words[index].at_device()).collect();
        if self.tells_running {
            readings.running = match here.len() as u64 {
                0 => Running::Nobody,
                count if self.chance.once_in(10) => [Running::Unknown, Running::Nobody][(count % 2) as usize],
                count => Running::Member(Member::new(here[self.chance.below(count) as usize]).unwrap()),
            };
        }
        let verdict = self.policy.step(Instant(self.now), &readings);
        let expected = self.oracle.step(self.now, &readings);
        assert_eq!(verdict, expected, "at {}: {readings:?}", self.now);
        self.check_promises(&verdict, &readings);
        check(&self.policy, &verdict, &readings, members(self.joined.iter().copied()));
        self.open.clear();
        for &index in &self.joined {
            let words = &mut self.words[index];
            match verdict.doorbells[index] {
                Doorbell::Open => {
                    words.submitted = words.announced;
                    self.open.insert(index);
                }
                Doorbell::Trapped { pass } => words.submitted += pass,
            }
        }
        self.call_again = verdict.call_again.map(|at| at.0);
        match verdict.accused {
            Some(Accusation { member, response: Response::Reset }) => {
                self.words[member.index()].completed = self.words[member.index()].submitted;
            }
            Some(Accusation { member, response: Response::Stop }) => self.leave(member.index()),
            None => {}
        }
    }

    fn check_promises(&self, verdict: &Verdict, readings: &Readings) {
        let joined = members(self.joined.iter().copied());
        let (waiting, here) = (readings.waiting(joined), readings.at_device(joined));
        for member in Member::all() {
            let reading = readings.of(member);
            match verdict.doorbell(member) {
                doorbell if !joined.contains(member) => assert_eq!(doorbell, Doorbell::SHUT),
                Doorbell::Open => assert!(verdict.call_again.is_some(), "an open doorbell is looked after"),
                Doorbell::Trapped { pass } => assert!(pass <= reading.announced - reading.submitted),
            }
        }
        assert!(verdict.drain.without(here).is_empty());
        if verdict.call_again.is_none() {
            assert!(here.is_empty() && waiting.is_empty(), "who is backlogged is looked after");
        }
        if let Some(accusation) = verdict.accused {
            assert!(here.contains(accusation.member) || accusation.response == Response::Stop);
        }
        if joined.len() == 1 && !waiting.or(here).is_empty() {
            assert!(joined.iter().all(|member| {
                verdict.doorbell(member) == Doorbell::Open
                    || verdict.doorbell(member) != Doorbell::SHUT
                    || !readings.of(member).waits()
            }));
            assert!(verdict.drain.is_empty(), "a lone member is not drained");
        }
    }

    fn check_usage(&self) {
        for &index in &self.joined {
            assert_eq!(self.policy.usage(Member::new(index).unwrap()), self.oracle.usage(index));
        }
    }
}

/// Runs `count` histories. `make` returns a policy, its oracle, and the groups that members may join. `check` sees each verdict.
fn histories<P: Policy, O: Oracle>(
    seed: u64,
    count: u64,
    mut make: impl FnMut(&mut Chance, &Parameters) -> (P, O, Vec<Group>),
    check: impl Fn(&P, &Verdict, &Readings, Members),
) {
    let mut chance = Chance(seed);
    let mut steps = 0_u64;
    for history in 0..count {
        let parameters = random_parameters(&mut chance);
        let (policy, oracle, groups) = make(&mut chance, &parameters);
        let counters = chance.once_in(2);
        let tells_running = chance.once_in(2);
        let mut world = World {
            chance: &mut chance,
            policy,
            oracle,
            now: 0,
            words: [Reading::default(); MEMBERS],
            habits: [Habits::default(); MEMBERS],
            joined: BTreeSet::new(),
            open: BTreeSet::new(),
            call_again: None,
            counters,
            tells_running,
            groups,
        };
        for _ in 0..1 + world.chance.below(4) {
            world.join();
        }
        for _ in 0..10 + world.chance.below(36) {
            match world.chance.below(60) {
                0 | 1 => world.join(),
                2 => {
                    if let Some(&index) = world.joined.iter().next() {
                        world.leave(index);
                    }
                }
                3 => {
                    let index = world.chance.below(6) as usize;
                    let weight = world.weight();
                    if world.joined.contains(&index) {
                        world.policy.reweigh(Member::new(index).unwrap(), weight);
                        world.oracle.reweigh(index, weight);
                    }
                }
                _ => {}
            }
            world.pass_time(false);
            world.step(&check);
            steps += 1;
        }
        world.check_usage();
        // All members fall silent: soon there are no ticks any more.
        if history % 64 == 0 {
            let mut quiet = 0;
            while world.call_again.is_some()
                || world.joined.iter().any(|&index| world.words[index].announced > world.words[index].completed)
            {
                world.pass_time(true);
                world.step(&check);
                quiet += 1;
                assert!(quiet < 3_000, "an idle device is ticked for ever");
            }
        }
    }
    println!("{count} histories, {steps} steps");
}

/// No device idles while a member that is let in is backlogged: a member that waits with nothing at the device sees a way on.
fn somebody_goes_on(verdict: &Verdict, readings: &Readings, joined: Members) {
    if !readings.waiting(joined).is_empty() && readings.at_device(joined).is_empty() {
        assert!(joined.iter().any(|member| verdict.lets_in(member)), "the device idles for nobody");
    }
}

fn of_accounting(seed: u64, count: u64) {
    let make = |_: &mut Chance, parameters: &Parameters| {
        let oracle = AccountingOracle { parameters: *parameters, log: Log::default(), watch: WatchOracle::default() };
        (Accounting::new(parameters).unwrap(), oracle, vec![Group::ROOT])
    };
    histories(seed, count, make, |_, verdict, readings, joined| {
        somebody_goes_on(verdict, readings, joined);
        assert!(readings.waiting(joined).iter().all(|member| verdict.lets_in(member)));
    });
}

fn of_timeslices(interception: Interception, seed: u64, count: u64) {
    let make = |chance: &mut Chance, parameters: &Parameters| {
        let policy = Timeslice::new(parameters, interception).unwrap();
        let control = !chance.once_in(8);
        let policy = if control { policy } else { policy.without_overuse_control() };
        (policy, TimesliceOracle::new(parameters, interception, control), vec![Group::ROOT])
    };
    histories(seed, count, make, |policy, verdict, readings, joined| match policy.holder() {
        Some(holder) => assert!(Member::all().all(|member| member == holder || !verdict.lets_in(member))),
        None => {
            assert!(readings.waiting(joined).is_empty());
            assert_eq!(verdict.call_again, None);
        }
    });
}

/// A tree, the same once more for oracles, and the groups in it.
fn random_tree(chance: &mut Chance) -> (Tree, Forest, Vec<Group>) {
    let shares = if chance.once_in(4) { Shares::Static } else { Shares::Hierarchical };
    let mut tree = Tree::new(shares);
    let mut forest = Forest { shares, ..Forest::default() };
    let mut groups = vec![Group::ROOT];
    for _ in 0..chance.below(5) {
        let parent = groups[chance.below(groups.len() as u64) as usize];
        let weight = Weight::new(1 + chance.below(3) as u16).unwrap();
        if let Ok(group) = tree.add_group(parent, weight) {
            groups.push(group);
            forest.parent.insert(group.index(), parent.index());
            forest.weight.insert(group.index(), u128::from(weight.shares()));
        }
    }
    (tree, forest, groups)
}

fn of_virtual_gpus(succession: Succession, seed: u64, count: u64) {
    let make = |chance: &mut Chance, parameters: &Parameters| {
        let (tree, forest, groups) = random_tree(chance);
        let policy = VirtualGpus::new(parameters, succession, tree).unwrap();
        (policy, VirtualGpuOracle::new(parameters, succession, forest), groups)
    };
    histories(seed, count, make, |policy, verdict, readings, joined| {
        let turn = policy.dispatched();
        assert!(Member::all().all(|member| Some(member) == turn || !verdict.lets_in(member)));
        assert!(readings.at_device(joined).iter().all(|member| Some(member) == turn));
        assert!(verdict.doorbells.iter().all(|doorbell| *doorbell != Doorbell::Open), "each store is trapped");
        if !policy.buffers() {
            somebody_goes_on(verdict, readings, joined);
        } else {
            assert!(succession == Succession::Band && joined.len() > 1);
        }
    });
}

fn of_fair_queueing(estimator: Estimator, seed: u64, count: u64) {
    let make = |chance: &mut Chance, parameters: &Parameters| {
        let (tree, forest, groups) = random_tree(chance);
        let policy = FairQueueing::new(parameters, estimator, tree).unwrap();
        (policy, FairOracle::new(parameters, estimator, forest), groups)
    };
    histories(seed, count, make, |policy, verdict, readings, joined| match policy.season() {
        Season::Sampling(sampled) => {
            assert!(Member::all().all(|member| member == sampled || !verdict.lets_in(member)));
            assert!(readings.at_device(joined).without(Members::only(sampled)).is_empty());
        }
        // The next step is now.
        Season::Barrier if verdict.call_again.is_some() => {}
        Season::FreeRun => {
            assert!(joined.without(policy.denied()).iter().all(|member| verdict.doorbell(member) == Doorbell::Open));
            somebody_goes_on(verdict, readings, joined);
        }
        _ => somebody_goes_on(verdict, readings, joined),
    });
}

#[test]
fn accounting_is_what_its_oracle_says() {
    of_accounting(1, HISTORIES);
}

#[test]
fn engaged_timeslices_are_what_their_oracle_says() {
    of_timeslices(Interception::Engaged, 2, HISTORIES);
}

#[test]
fn disengaged_timeslices_are_what_their_oracle_says() {
    of_timeslices(Interception::Disengaged, 3, HISTORIES);
}

#[test]
fn fair_queueing_by_mean_size_is_what_its_oracle_says() {
    of_fair_queueing(Estimator::SampledSize, 4, HISTORIES);
}

#[test]
fn fair_queueing_aware_of_backlog_is_what_its_oracle_says() {
    of_fair_queueing(Estimator::BacklogAware, 5, HISTORIES);
}

#[test]
fn fair_queueing_by_counters_is_what_its_oracle_says() {
    of_fair_queueing(Estimator::Counted, 6, HISTORIES);
}

#[test]
fn virtual_gpus_in_turn_are_what_their_oracle_says() {
    of_virtual_gpus(Succession::Fifo, 7, HISTORIES);
}

#[test]
fn virtual_gpus_by_credit_are_what_their_oracle_says() {
    of_virtual_gpus(Succession::Credit, 8, HISTORIES);
}

#[test]
fn virtual_gpus_by_bandwidth_are_what_their_oracle_says() {
    of_virtual_gpus(Succession::Band, 9, HISTORIES);
}
