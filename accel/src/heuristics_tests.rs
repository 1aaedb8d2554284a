//! The heuristics against the sentences of the text, in pools that live; and by hand.

extern crate std;

use super::*;
use Distance::{Far, Near, Same, System};
use fusee_locking::pool::{Change, Rules};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const USERS: usize = 9;
/// One more than the heuristics know.
const REQUESTS: usize = USERS + 1;
type Tested = Pool<u32, 6, REQUESTS>;
type Three = Heuristics<3, USERS>;

fn time(nanoseconds: u64) -> Nanoseconds {
    Nanoseconds(nanoseconds)
}

/// The users in each FQ, holders first.
fn fifos(pool: &Tested) -> Vec<Vec<u16>> {
    let mut queues = vec![Vec::new(); usize::from(pool.rules().replicas)];
    let mut queued: Vec<(u16, u8, u16)> = Vec::new();
    for request in pool.requests() {
        if let Place::Fifo { replica, ahead } = request.place {
            queued.push((ahead, replica, request.user));
        }
    }
    queued.sort_unstable();
    queued.into_iter().for_each(|(_, replica, user)| queues[usize::from(replica)].push(user));
    queues
}

//--- The text, slowly

/// All that was ever reported.
struct Text {
    topology: Topology<3>,
    gain: Gain,
    /// User, where it came from, where it went, how long it stayed, if it is done.
    holds: Vec<(u16, Option<u8>, u8, Option<u64>)>,
}

impl Text {
    fn last(&self, user: u16) -> Option<u8> {
        self.holds.iter().rev().find(|hold| hold.0 == user).map(|hold| hold.2)
    }

    fn distance(&self, from: Option<u8>, to: u8) -> Distance {
        from.map_or(Same, |from| self.topology.distance(from, to).unwrap())
    }

    /// L of a user at a replica.
    fn length(&self, pool: &Tested, user: u16, replica: u8) -> u64 {
        let provisioned = pool.request_of(user).unwrap().length;
        let to = self.topology.gpu_of(replica).unwrap();
        let mut history = History::EMPTY;
        let mut distance = self.distance(self.last(user), to);
        for (_, from, to, hold) in self.holds.iter().filter(|hold| hold.0 == user) {
            match hold {
                Some(hold) => history.observe(self.distance(*from, *to), time(*hold)),
                // It is there now.
                None => distance = self.distance(*from, *to),
            }
        }
        if usize::from(user) < USERS { history.predict(distance, provisioned).0 } else { provisioned.0 }
    }

    /// Equation 3.2.
    fn exec_length(&self, pool: &Tested, users: &[u16], replica: u8) -> u64 {
        users.iter().map(|user| self.length(pool, *user, replica)).sum()
    }

    fn open(&self, pool: &Tested) -> Vec<u8> {
        let room = |queue: &Vec<u16>| pool.rules().limit.is_none_or(|limit| queue.len() < usize::from(limit));
        (0..).zip(fifos(pool)).filter(|(_, queue)| room(queue)).map(|(replica, _)| replica).collect()
    }

    fn minimum_response(&self, pool: &Tested, user: u16, among: &[u8]) -> Option<u8> {
        let queues = fifos(pool);
        among.iter().copied().min_by_key(|replica| {
            let queue = &queues[usize::from(*replica)];
            let distance = self.distance(self.last(user), self.topology.gpu_of(*replica).unwrap());
            let end = self.exec_length(pool, queue, *replica) + self.length(pool, user, *replica);
            (end, distance, queue.len(), *replica)
        })
    }

    fn active_users(&self, pool: &Tested, gpu: u8) -> usize {
        let uses = |user: u16| match self.last(user) {
            Some(last) => last == gpu,
            None => {
                let waits_at = fifos(pool).iter().position(|queue| queue.contains(&user));
                waits_at.is_some_and(|replica| self.topology.gpu_of(replica as u8) == Some(gpu))
            }
        };
        (0..REQUESTS as u16).filter(|user| uses(*user)).count()
    }

    /// H1 and H2.
    fn enqueue(&self, pool: &Tested, user: u16) -> Option<u8> {
        let mut open = self.open(pool);
        if self.last(user).is_none() {
            let active = |replica: &u8| self.active_users(pool, self.topology.gpu_of(*replica).unwrap());
            let fewest = open.iter().map(active).min();
            open.retain(|replica| Some(active(replica)) == fewest);
        }
        self.minimum_response(pool, user, &open)
    }

    /// The donees that R1c allows.
    fn donees(&self, pool: &Tested) -> Vec<u16> {
        let mut by_rank: Vec<(u32, usize, u16)> =
            pool.requests().iter().enumerate().map(|(index, request)| (request.key, index, request.user)).collect();
        by_rank.sort_unstable();
        let donees: Vec<u16> = pool
            .requests()
            .iter()
            .filter_map(|request| if let Place::Donor { donee } = request.place { Some(donee) } else { None })
            .collect();
        let low = by_rank.iter().skip(usize::from(pool.rules().cpus)).map(|(.., user)| *user);
        let eligible = low.filter(|user| fifos(pool).concat().contains(user) && !donees.contains(user));
        if donees.len() < usize::from(pool.rules().cpus) { eligible.collect() } else { Vec::new() }
    }

    fn ends(&self, pool: &Tested, user: u16) -> (u8, u64) {
        let queues = fifos(pool);
        let replica = queues.iter().position(|queue| queue.contains(&user)).unwrap();
        let ahead = queues[replica].iter().position(|other| *other == user).unwrap();
        (replica as u8, self.exec_length(pool, &queues[replica][..=ahead], replica as u8))
    }

    /// The cost that H3 makes small.
    fn donation_cost(&self, pool: &Tested, donor: u16, donee: u16) -> (Distance, u64) {
        let (replica, end) = self.ends(pool, donee);
        (self.distance(self.last(donor), self.topology.gpu_of(replica).unwrap()), end)
    }

    /// H4, with the set as corrected: the gains and keys of those that would end earlier.
    fn gains(&self, pool: &Tested, free: u8) -> Vec<(i64, u32, u16)> {
        let waiting = fifos(pool).into_iter().flat_map(|queue| queue.into_iter().skip(1));
        let gain = |user: u16| {
            let (own, stays) = self.ends(pool, user);
            let moved = self.length(pool, user, free);
            let before = match self.gain {
                Gain::CriticalSection => self.length(pool, user, own),
                Gain::Completion => stays,
            };
            (stays > moved).then_some((before as i64 - moved as i64, pool.request_of(user).unwrap().key, user))
        };
        waiting.filter_map(gain).collect()
    }
}

/// Lets each piece of advice be checked when it is given.
struct Checked<'a>(&'a Three, &'a Text);

impl Advice<u32, 6, REQUESTS> for Checked<'_> {
    fn queue(&self, pool: &Tested, user: u16) -> Option<u8> {
        let advised = self.0.queue(pool, user);
        let known = usize::from(user) < USERS;
        assert_eq!(advised, if known { self.1.enqueue(pool, user) } else { None }, "queue of {user}: {pool:?}");
        advised
    }

    fn donee(&self, pool: &Tested, donor: u16) -> Option<u16> {
        let advised = self.0.donee(pool, donor);
        let allowed = self.1.donees(pool);
        let mut offered: Vec<u16> = pool.donees().map(|request| request.user).collect();
        offered.sort_unstable();
        let mut sorted = allowed.clone();
        sorted.sort_unstable();
        assert_eq!(offered, sorted, "donees: {pool:?}");
        if usize::from(donor) < USERS {
            let cost = |donee: u16| self.1.donation_cost(pool, donor, donee);
            assert_eq!(advised.is_some(), !allowed.is_empty());
            assert!(advised.is_none_or(|donee| allowed.contains(&donee)));
            assert_eq!(advised.map(cost), allowed.iter().map(|donee| cost(*donee)).min(), "donee of {donor}: {pool:?}");
        }
        advised
    }

    fn steal(&self, pool: &Tested, replica: u8) -> Steal {
        let advised = self.0.steal(pool, replica);
        let gains = self.1.gains(pool, replica);
        let most = gains.iter().map(|(gain, ..)| *gain).max();
        let best: Vec<&(i64, u32, u16)> = gains.iter().filter(|(gain, ..)| Some(*gain) == most).collect();
        let key = best.iter().map(|(_, key, _)| *key).min();
        match advised {
            Steal::From(user) => assert!(best.iter().any(|(_, of, who)| *who == user && Some(*of) == key), "{pool:?}"),
            Steal::Nothing => assert!(gains.is_empty(), "{replica} should be taken: {pool:?}"),
            Steal::Highest => panic!("the heuristics always know"),
        }
        advised
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Issue(u16, u64),
    Release(u16, u64),
    Withdraw(u16),
    Key(u16, u32),
    Exit(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let user = 0..REQUESTS as u16;
    prop_oneof![
        10 => (user.clone(), 0u64..60).prop_map(|(user, length)| Step::Issue(user, length)),
        8 => (user.clone(), 0u64..50).prop_map(|(user, hold)| Step::Release(user, hold)),
        1 => user.clone().prop_map(Step::Withdraw),
        1 => (user.clone(), 0u32..30).prop_map(|(user, key)| Step::Key(user, key)),
        1 => user.prop_map(Step::Exit),
    ]
}

fn topology() -> impl Strategy<Value = Topology<3>> {
    let distance = prop::sample::select(vec![Near, Far, System]);
    (1u8..=3, 1u8..=2, [distance.clone(), distance.clone(), distance]).prop_map(|(gpus, tokens, [a, b, c])| {
        Topology::new(gpus, tokens, [[Same, a, b], [a, Same, c], [b, c, Same]]).unwrap()
    })
}

/// A pool and its advisers.
struct World {
    pool: Tested,
    heuristics: Three,
    text: Text,
    keys: [u32; REQUESTS],
}

impl World {
    fn new(topology: Topology<3>, gain: Gain, cpus: u16, limit: Option<u16>) -> World {
        World::limited(topology, gain, Rules { limit, ..Rules::r2dglp(topology.replicas(), cpus) })
    }

    fn limited(topology: Topology<3>, gain: Gain, rules: Rules) -> World {
        let mut pool = Tested::EMPTY;
        pool.set_rules(rules);
        let heuristics = Heuristics::new(topology, gain);
        World { pool, heuristics, text: Text { topology, gain, holds: Vec::new() }, keys: [0; REQUESTS] }
    }

    fn act(&mut self, step: Step) {
        let advice = Checked(&self.heuristics, &self.text);
        let change = match step {
            Step::Issue(user, length) => {
                self.pool.request(user, self.keys[usize::from(user)], time(length), &advice).ok()
            }
            Step::Release(user, hold) => {
                let change = self.pool.release(user, &advice).ok();
                if change.is_some() {
                    self.heuristics.freed(user, time(hold));
                    let held = self.text.holds.iter_mut().rev().find(|held| held.0 == user);
                    held.into_iter().for_each(|held| held.3 = Some(hold));
                }
                change
            }
            Step::Withdraw(user) | Step::Exit(user) => {
                let held = fifos(&self.pool).iter().any(|queue| queue.first() == Some(&user));
                let change = self.pool.withdraw(user, &advice);
                if held || matches!(step, Step::Exit(_)) {
                    self.heuristics.exited(user);
                    self.text.holds.retain(|held| held.0 != user);
                }
                change
            }
            Step::Key(user, key) => {
                self.keys[usize::from(user)] = key;
                self.pool.change_key(user, key, &advice)
            }
        };
        if let Some(Change { granted: Some(grant), .. }) = change {
            self.heuristics.acquired(grant.user, grant.replica);
            if usize::from(grant.user) < USERS {
                let gpu = self.text.topology.gpu_of(grant.replica).unwrap();
                self.text.holds.push((grant.user, self.text.last(grant.user), gpu, None));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    /// So none of it is refused, either.
    #[test]
    fn all_advice_is_what_the_text_says_and_the_rules_allow(
        topology in topology(),
        completion in any::<bool>(),
        cpus in 1u16..=6,
        limit in prop::option::weighted(0.8, 1u16..=4),
        total in prop::option::weighted(0.3, 1u16..=8),
        keys in prop::array::uniform10(0u32..30),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let gain = if completion { Gain::Completion } else { Gain::CriticalSection };
        let rules = Rules { limit, total, ..Rules::r2dglp(topology.replicas(), cpus) };
        let mut world = World::limited(topology, gain, rules);
        world.keys = keys;
        for step in steps {
            world.act(step);
            let queues = fifos(&world.pool);
            let queued = queues.concat().len();
            prop_assert!(limit.is_none_or(|limit| queues.iter().all(|queue| queue.len() <= usize::from(limit))));
            let is_full = |queue: &Vec<u16>| limit == Some(queue.len() as u16);
            let is_exhausted = total.is_some_and(|total| queued == usize::from(total));
            prop_assert!(queued == world.pool.requests().len() || is_exhausted || queues.iter().all(is_full));
            for user in 0..USERS as u16 {
                prop_assert_eq!(world.heuristics.last_gpu(user), world.text.last(user));
            }
        }
    }
}

//--- By hand

/// Two GPUs with two tokens each, near, as in figure 3.10.
fn two_by_two() -> Topology<3> {
    Topology::new(2, 2, [[Same, Near, Same], [Near, Same, Same], [Same, Same, Same]]).unwrap()
}

fn place(world: &World, user: u16) -> Place {
    world.pool.request_of(user).unwrap().place
}

fn first(replica: u8) -> Place {
    Place::Fifo { replica, ahead: 0 }
}

/// Lets `user` have its data on the GPU of `home`, use it for `here`, and for `elsewhere` after it has moved; there are
/// two GPUs with one token each.
fn teach(heuristics: &mut Three, user: u16, home: u8, [here, elsewhere]: [u64; 2]) {
    for (replica, hold) in [(home, here), (1 - home, elsewhere), (home, elsewhere)] {
        heuristics.acquired(user, replica);
        heuristics.freed(user, time(hold));
    }
}

/// Two GPUs with one token each, near.
fn one_each() -> Topology<3> {
    Topology::new(2, 1, [[Same, Near, Same], [Near, Same, Same], [Same, Same, Same]]).unwrap()
}

/// Lets `user` ask, with advice; reports to the heuristics.
fn ask(world: &mut World, user: u16, advice: &impl Advice<u32, 6, REQUESTS>) -> Place {
    let change = world.pool.request(user, world.keys[usize::from(user)], time(1_000), advice).unwrap();
    if let Some(grant) = change.granted {
        world.heuristics.acquired(grant.user, grant.replica);
    }
    place(world, user)
}

#[test]
fn first_requests_are_spread_over_gpus_before_tokens() {
    let mut world = World::new(two_by_two(), Gain::CriticalSection, 4, Some(1));
    (0..4).for_each(|user| world.act(Step::Issue(user, 10)));
    assert_eq!([0, 1, 2, 3].map(|user| place(&world, user)), [first(0), first(2), first(1), first(3)]);
    // A user that has gone does not count; one that only rests does.
    [Step::Exit(1), Step::Exit(3), Step::Release(0, 10), Step::Issue(4, 10)]
        .into_iter()
        .for_each(|step| world.act(step));
    assert_eq!(place(&world, 4), first(2));
    [Step::Withdraw(4), Step::Release(2, 10), Step::Issue(5, 10)].into_iter().for_each(|step| world.act(step));
    assert_eq!(place(&world, 5), first(2), "0 and 2 have their data on the first GPU");
}

/// A task that needs 10 near its data and 25 elsewhere waits for another's 10, but not for two.
#[test]
fn a_task_waits_for_its_gpu_as_long_as_that_is_shorter_than_moving() {
    let mut world = World::new(one_each(), Gain::CriticalSection, 8, None);
    (0..3).for_each(|user| teach(&mut world.heuristics, user, 0, [10, 25]));
    let advice = world.heuristics.clone();
    assert_eq!(ask(&mut world, 1, &advice), first(0));
    assert_eq!(ask(&mut world, 0, &advice), Place::Fifo { replica: 0, ahead: 1 }, "20 here, 25 there");
    assert_eq!(ask(&mut world, 2, &advice), first(1), "30 here, 25 there");
}

/// Two GPUs with two tokens each; user 1 has its data on the second, and has never moved.
#[test]
fn of_tokens_that_are_free_a_task_takes_one_of_its_own_gpu_whatever_it_knows_of_moves() {
    let place_of = |holds: &[(u8, u64)]| {
        let mut world = World::new(two_by_two(), Gain::CriticalSection, 4, Some(1));
        for (replica, hold) in holds {
            world.heuristics.acquired(1, *replica);
            world.heuristics.freed(1, time(*hold));
        }
        let advice = world.heuristics.clone();
        ask(&mut world, 1, &advice)
    };
    assert_eq!(place_of(&[(2, 10)]), first(2), "a move that is not known is no shorter");
    assert_eq!(place_of(&[(2, 10), (0, 5), (2, 5), (2, 30)]), first(2), "nor is one that was short in quieter times");
}

#[test]
fn a_donor_donates_to_who_is_nearest_to_its_data() {
    let topology = Topology::new(3, 1, [[Same, Far, Near], [Far, Same, Far], [Near, Far, Same]]).unwrap();
    let mut world = World::new(topology, Gain::CriticalSection, 1, Some(1));
    // The lowest, user 0, to which the pool by itself would let all donate.
    world.keys = core::array::from_fn(|user| 90 - user as u32);
    for (user, replica) in [(3, 0), (4, 1), (5, 2)] {
        world.heuristics.acquired(user, replica);
        world.heuristics.freed(user, time(10));
    }
    let advice = world.heuristics.clone();
    assert_eq!([0, 1, 2].map(|user| ask(&mut world, user, &advice)), [first(0), first(1), first(2)]);
    for (donor, donee) in [(3, 0), (4, 1), (5, 2)] {
        assert_eq!(ask(&mut world, donor, &advice), Place::Donor { donee });
        let _ = world.pool.withdraw(donor, &advice).unwrap();
    }
    assert_eq!(ask(&mut world, 6, &advice), Place::Donor { donee: 0 }, "it has no data: all end at the same time");
}

/// The user that gets GPU 1 when it becomes free, while user 0 holds the token of GPU 0, and 1 and 2 wait for it.
fn stolen(gain: Gain, first: (u8, [u64; 2]), second: (u8, [u64; 2])) -> Option<u16> {
    let mut world = World::new(one_each(), gain, 8, None);
    teach(&mut world.heuristics, 0, 0, [10, 10]);
    for (user, (home, holds)) in [(1, first), (2, second)] {
        teach(&mut world.heuristics, user, home, holds);
    }
    let on = fusee_locking::pool::Preferred;
    for (user, replica) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
        ask(&mut world, user, &on(replica));
    }
    let change = world.pool.release(3, &world.heuristics).unwrap();
    assert_eq!(world.pool.queues()[1].holder, change.granted.map(|grant| grant.user));
    change.granted.map(|grant| grant.user)
}

#[test]
fn a_free_token_goes_to_who_gains_and_to_nobody_if_none_does() {
    // They end at 20 and 30 if they stay.
    assert_eq!(stolen(Gain::CriticalSection, (0, [10, 40]), (0, [10, 25])), Some(2), "at 25 instead of 30");
    assert_eq!(stolen(Gain::CriticalSection, (0, [10, 20]), (0, [10, 30])), None, "not one nanosecond earlier");
    assert_eq!(stolen(Gain::CriticalSection, (0, [10, 19]), (0, [10, 30])), Some(1));
}

#[test]
fn the_text_shortens_critical_sections_and_the_alternative_ends_them_earlier() {
    // 1 holds for 5 instead of 12, and ends at 5 instead of 22; 2 holds for 9 instead of 10, and ends at 9 instead of 32.
    let (first, second) = ((1, [5, 12]), (1, [9, 10]));
    assert_eq!(stolen(Gain::CriticalSection, first, second), Some(1));
    assert_eq!(stolen(Gain::Completion, first, second), Some(2));
}
