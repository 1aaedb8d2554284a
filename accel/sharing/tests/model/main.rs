//! The real policies on a modelled device: the shares of clients, in figures.
//!
//! Times are four times those of the papers, as in [`Parameters::DEFAULT`]. Each figure is printed and held to a range.

mod machine;

use std::collections::BTreeMap;

use fusee_sched::time::Instant;
use fusee_sharing::*;
use machine::{Load, MICROSECOND as US, Machine, SECOND, member};

const LENGTH: u64 = 60 * SECOND;
const ESTIMATORS: [Estimator; 3] = [Estimator::SampledSize, Estimator::BacklogAware, Estimator::Counted];

fn timeslice(interception: Interception) -> Timeslice {
    Timeslice::new(&Parameters::DEFAULT, interception).unwrap()
}

fn disengaged() -> Timeslice {
    timeslice(Interception::Disengaged)
}

fn fair(estimator: Estimator) -> FairQueueing {
    FairQueueing::new(&Parameters::DEFAULT, estimator, Tree::new(Shares::Hierarchical)).unwrap()
}

fn flat(loads: &[Load]) -> Vec<(Load, Place)> {
    loads.iter().map(|&load| (load, Place::FLAT)).collect()
}

fn run<'a>(policy: Option<&'a mut dyn Policy>, loads: &[Load]) -> Machine<'a> {
    run_counting(policy, loads, true)
}

fn run_counting<'a>(policy: Option<&'a mut dyn Policy>, loads: &[Load], counters: bool) -> Machine<'a> {
    let mut machine = Machine::new(policy, &flat(loads));
    machine.counters = counters;
    machine.tells_running = counters;
    machine.run(LENGTH);
    machine
}

fn slowdowns(machine: &Machine) -> Vec<f64> {
    machine.outcomes().iter().map(|outcome| outcome.slowdown).collect()
}

#[track_caller]
fn near(what: &str, value: f64, aim: f64, off: f64) {
    println!("{what}: {value:.3}");
    assert!((value - aim).abs() <= off, "{what}: {value:.3} is not within {off} of {aim}");
}

/// Each policy that promises halves to two members, with and without counters of the device.
fn halves(mut check: impl FnMut(&str, &mut dyn Policy, bool)) {
    check("timeslice, engaged", &mut timeslice(Interception::Engaged), false);
    check("timeslice, disengaged", &mut disengaged(), false);
    for estimator in ESTIMATORS {
        check(&format!("fair, {estimator:?}"), &mut fair(estimator), true);
        check(&format!("fair, {estimator:?}, no counters"), &mut fair(estimator), false);
    }
}

#[test]
fn equal_and_unequal_pairs_are_both_twice_as_slow_as_alone() {
    let mut worst_direct: f64 = 0.0;
    for size in [76, 152, 264, 680, 1700, 3400, 6800] {
        let loads = [Load::of(264 * US), Load::of(size * US)];
        worst_direct = worst_direct.max(slowdowns(&run(None, &loads))[0]);
        halves(|name, policy, counters| {
            let slowdowns = slowdowns(&run_counting(Some(policy), &loads, counters));
            near(&format!("264 us against {size} us, {name}"), slowdowns[0], 2.0, 0.3);
            near(&format!("{size} us against 264 us, {name}"), slowdowns[1], 2.0, 0.3);
        });
    }
    near("264 us against 6800 us, direct", worst_direct, 26.8, 0.3);
}

#[test]
fn merged_requests_gain_nothing() {
    for depth in [1, 4, 16] {
        let loads = [Load::of(264 * US), Load::of(2640 * US).depth(depth)];
        near("the victim of merged requests, direct", slowdowns(&run(None, &loads))[0], 11.0, 0.2);
        halves(|name, policy, counters| {
            let victim = slowdowns(&run_counting(Some(policy), &loads, counters))[0];
            near(&format!("the victim of merged requests, {depth} queued, {name}"), victim, 2.1, 0.2);
        });
    }
}

#[test]
fn time_beyond_the_slice_is_paid_back() {
    let loads = [Load::of(108_000 * US), Load::of(400 * US)];
    let mut without = disengaged().without_overuse_control();
    near("108 ms against 0.4 ms, no overuse control", run(Some(&mut without), &loads).shares()[0], 0.646, 0.01);
    near("108 ms against 0.4 ms, overuse control", run(Some(&mut disengaged()), &loads).shares()[0], 0.507, 0.01);
}

/// A client whose requests are small while its stores are trapped gets nearly everything under a sampled estimate, which no paper
/// mentions. Counters are not deceived.
#[test]
fn small_requests_while_sampled_deceive_samples_and_not_counters() {
    for small in [26, 66, 100] {
        let loads = [Load::of(264 * US), Load::of(2640 * US).pretends(small * US)];
        let victim = |estimator| run(Some(&mut fair(estimator)), &loads).shares()[0];
        let [sampled, aware] = [victim(Estimator::SampledSize), victim(Estimator::BacklogAware)];
        println!("2640 us that pretends to be {small} us: victim's share {sampled:.3} (E1), {aware:.3} (E5)");
        assert!(sampled < 0.10 && aware < 0.07, "a better estimate than we know of: correct the documentation");
        near("the same by counters", victim(Estimator::Counted), 0.5, 0.03);
    }
}

#[test]
fn a_lone_member_loses_nothing_and_is_trapped_once() {
    for size in [25, 76, 264, 6800] {
        let loads = [Load::of(size * US), Load::of(264 * US).silent()];
        for policy in [
            &mut disengaged() as &mut dyn Policy,
            &mut fair(ESTIMATORS[0]),
            &mut fair(ESTIMATORS[1]),
            &mut fair(ESTIMATORS[2]),
        ] {
            let machine = run(Some(policy), &loads);
            near(&format!("{size} us alone"), slowdowns(&machine)[0], 1.0, 0.0005);
            assert_eq!(machine.stores_trapped, 1);
        }
        // An engaged policy pays for each trap, and for nothing else.
        let trapped = (size * US + machine::TRAP) as f64 / (size * US) as f64;
        for policy in [
            &mut timeslice(Interception::Engaged) as &mut dyn Policy,
            &mut Accounting::new(&Parameters::DEFAULT).unwrap(),
        ] {
            near(&format!("{size} us alone, engaged"), slowdowns(&run(Some(policy), &loads))[0], trapped, 0.0005);
        }
    }
}

/// Losses of efficiency against direct access, as in the paper's experiment: timeslices 34 to 36 %, fair queueing about 0.
///
/// Missed by sampled estimates: a member that is idle for most of its sample costs that time, about 5 %. Without counters
/// [`Estimator::SampledSize`] also takes the pauses after its requests for requests, and then the other member waits in vain,
/// as with large requests. Counters reach the paper's figure.
#[test]
fn a_member_that_is_idle_for_four_fifths_costs_timeslices_much_and_fair_queueing_little() {
    for (size, sampled_size, sampled_size_without_counters) in [(264, 6.3, 19.2), (1720, 19.2, 19.6)] {
        let loads = [Load::of(264 * US), Load::of(size * US).off(80)];
        let direct = run(None, &loads).efficiency();
        let loss = |name: &str, policy: &mut dyn Policy, counters, aim, off| {
            let machine = run_counting(Some(policy), &loads, counters);
            let slowdowns = slowdowns(&machine);
            println!("{size} us, 80 % off, {name}: slower {:.2} and {:.2}", slowdowns[0], slowdowns[1]);
            near("  loss in percent", 100.0 * (1.0 - machine.efficiency() / direct), aim, off);
            assert!(slowdowns.iter().all(|&slowdown| slowdown < 2.1));
        };
        loss("timeslice, engaged", &mut timeslice(Interception::Engaged), false, 44.5, 1.0);
        loss("timeslice, disengaged", &mut disengaged(), false, 44.0, 1.0);
        loss("fair, SampledSize", &mut fair(Estimator::SampledSize), true, sampled_size, 1.5);
        let without = sampled_size_without_counters;
        loss("fair, SampledSize, no counters", &mut fair(Estimator::SampledSize), false, without, 1.5);
        loss("fair, BacklogAware", &mut fair(Estimator::BacklogAware), true, 5.3, 1.0);
        loss("fair, BacklogAware, no counters", &mut fair(Estimator::BacklogAware), false, 5.3, 1.0);
        loss("fair, Counted", &mut fair(Estimator::Counted), true, 0.0, 0.5);
    }
}

//--- Groups

fn grouped(shares: Shares, groups: &[&[Load]]) -> (Tree, Vec<(Load, Place)>) {
    let mut tree = Tree::new(shares);
    let mut loads = Vec::new();
    for &members in groups {
        let group = tree.add_group(Group::ROOT, Weight::ONE).unwrap();
        loads.extend(members.iter().map(|&load| (load, Place { group, weight: Weight::ONE })));
    }
    (tree, loads)
}

fn group_shares(shares: Shares, estimator: Estimator, groups: &[&[Load]]) -> Vec<f64> {
    let (tree, loads) = grouped(shares, groups);
    let mut policy = FairQueueing::new(&Parameters::DEFAULT, estimator, tree).unwrap();
    let mut machine = Machine::new(Some(&mut policy), &loads);
    machine.run(LENGTH);
    machine.shares()
}

#[test]
fn groups_share_equally_and_divide_among_their_own() {
    let load = Load::of(264 * US);
    for estimator in ESTIMATORS {
        for other in [load, Load::of(3 * 264 * US)] {
            let shares = group_shares(Shares::Hierarchical, estimator, &[&[load], &[load, other]]);
            println!("{estimator:?}: {shares:.3?}");
            near("the group of one", shares[0], 0.5, 0.03);
            near("one of two", shares[1], 0.25, 0.03);
            near("the other of two", shares[2], 0.25, 0.03);
        }
        // The literature has 0.47 where samples are not billed.
        let shares = group_shares(Shares::Hierarchical, estimator, &[&[load], &[load; 8]]);
        near("one against a group of eight", shares[0], 0.5, 0.02);
    }
}

#[test]
fn a_silent_sibling_costs_its_group_nothing_unless_weights_are_static() {
    let load = Load::of(264 * US);
    for estimator in ESTIMATORS {
        let groups: &[&[Load]] = &[&[load], &[load, load.silent()]];
        near("beside a silent sibling", group_shares(Shares::Hierarchical, estimator, groups)[1], 0.5, 0.03);
        near("the same, static", group_shares(Shares::Static, estimator, groups)[1], 0.34, 0.01);
        let busy = group_shares(Shares::Static, estimator, &[&[load], &[load, load]]);
        near("all busy, static", busy[0], 0.5, 0.03);
    }
}

#[test]
fn weights_divide_a_group_and_lies_about_them_change_no_other_group() {
    let load = Load::of(264 * US);
    for estimator in ESTIMATORS {
        for lie in [1, 3, 1000] {
            let (tree, loads) = grouped(Shares::Hierarchical, &[&[load], &[load, Load::of(1000 * US)]]);
            let mut policy = FairQueueing::new(&Parameters::DEFAULT, estimator, tree).unwrap();
            let mut machine = Machine::new(Some(&mut policy), &loads);
            machine.run_with(LENGTH, |policy, now| {
                let claimed = if (now / SECOND).is_multiple_of(2) { lie } else { 1 };
                policy.reweigh(member(2), Weight::new(claimed).unwrap());
            });
            near(&format!("beside a group that claims {lie}"), machine.shares()[0], 0.5, 0.01);
        }
        let mut tree = Tree::new(Shares::Hierarchical);
        let heavy = tree.add_group(Group::ROOT, Weight::new(3).unwrap()).unwrap();
        let inner = tree.add_group(heavy, Weight::ONE).unwrap();
        let places = [(heavy, 1), (inner, 2), (inner, 4), (Group::ROOT, 1)];
        let loads: Vec<_> = places
            .iter()
            .map(|&(group, shares)| (load, Place { group, weight: Weight::new(shares).unwrap() }))
            .collect();
        let mut policy = FairQueueing::new(&Parameters::DEFAULT, estimator, tree).unwrap();
        let mut machine = Machine::new(Some(&mut policy), &loads);
        machine.run(4 * LENGTH);
        for (share, aim) in machine.shares().iter().zip([0.375, 0.125, 0.25, 0.25]) {
            near("weights 3 (1, 1 (2, 4)) and 1", *share, aim, 0.03);
        }
    }
}

/// Random trees of clients that always want the engine; one client makes any claims, anew at each step of the policy.
#[test]
fn whatever_a_client_claims_other_groups_get_what_they_would() {
    let mut state = 3;
    let mut furthest: f64 = 0.0;
    for round in 0..60 {
        let estimator = ESTIMATORS[round % 3];
        let mut tree = Tree::new(Shares::Hierarchical);
        let (mut loads, mut group_of) = (Vec::new(), Vec::new());
        for number in 0..2 + random(&mut state, 2) as usize {
            let weight = Weight::new(1 + random(&mut state, 3) as u16).unwrap();
            let mut group = tree.add_group(Group::ROOT, weight).unwrap();
            for _ in 0..1 + random(&mut state, 3) {
                // Some stand one level lower.
                if random(&mut state, 4) == 0
                    && let Ok(inner) = tree.add_group(group, Weight::ONE)
                {
                    group = inner;
                }
                let load = Load::of((100 + random(&mut state, 1_500)) * US).depth(1 + random(&mut state, 4) as usize);
                loads.push((load, Place { group, weight: Weight::new(1 + random(&mut state, 4) as u16).unwrap() }));
                group_of.push(number);
            }
        }
        let liar = random(&mut state, loads.len() as u64) as usize;
        let mut shares = |lies: bool| {
            let mut policy = FairQueueing::new(&Parameters::DEFAULT, estimator, tree).unwrap();
            let mut machine = Machine::new(Some(&mut policy), &loads);
            machine.run_with(LENGTH, |policy, _| {
                if lies {
                    policy.reweigh(member(liar), Weight::new(1 + random(&mut state, 1024) as u16).unwrap());
                }
            });
            let mut shares = [0.0; 3];
            machine.shares().iter().zip(&group_of).for_each(|(share, &group)| shares[group] += share);
            shares
        };
        let (honest, lying) = (shares(false), shares(true));
        for group in (0..3).filter(|&group| group != group_of[liar]) {
            let changed = (lying[group] - honest[group]).abs();
            furthest = furthest.max(changed);
            assert!(
                changed <= 0.02,
                "group {group} of {loads:?}, liar {liar}, {estimator:?}: {honest:.3?}, {lying:.3?}"
            );
        }
    }
    println!("the furthest that a lie moved another group's share: {furthest:.4}");
}

/// A group that is suspended for ten seconds, and resumed. While it is, the others have all; afterwards it has its half, and no more.
#[test]
fn a_suspended_group_leaves_its_share_to_others_and_hoards_nothing() {
    let load = Load::of(264 * US);
    for estimator in ESTIMATORS {
        for depth in [1, 4] {
            let (tree, loads) = grouped(Shares::Hierarchical, &[&[load], &[load.depth(depth), Load::of(1000 * US)]]);
            let mut policy = FairQueueing::new(&Parameters::DEFAULT, estimator, tree).unwrap();
            let mut machine = Machine::new(Some(&mut policy), &loads);
            let group: Members = [member(1), member(2)].into_iter().collect();
            let mut before = [0; 3];
            let mut had = |machine: &Machine<'_>| {
                let now: Vec<u64> = machine.outcomes().iter().map(|outcome| outcome.busy).collect();
                let had: Vec<f64> = now.iter().zip(before).map(|(now, before)| (now - before) as f64).collect();
                before.copy_from_slice(&now);
                had
            };
            machine.run(10 * SECOND);
            had(&machine);
            machine.suspend(group);
            machine.run(20 * SECOND);
            let suspended = had(&machine);
            // Commands at the device are done.
            let rest = (264 * depth as u64 + 1000) * US;
            assert!(suspended[1] + suspended[2] <= rest as f64, "{estimator:?}: {suspended:?}");
            near(&format!("{estimator:?}, {depth} queued, the others meanwhile"), suspended[0] / 10e9, 1.0, 0.02);
            machine.suspend(Members::EMPTY);
            machine.run(25 * SECOND);
            let resumed = had(&machine);
            let share = (resumed[1] + resumed[2]) / resumed.iter().sum::<f64>();
            near("  the group once resumed", share, 0.5, 0.06);
        }
    }
}

/// No other member wants the engine: the policy falls silent while all are suspended, and goes on when the message comes.
#[test]
fn a_device_all_of_whose_members_are_suspended_is_not_ticked() {
    let load = Load::of(264 * US);
    for estimator in ESTIMATORS {
        let mut policy = fair(estimator);
        let mut machine = Machine::new(Some(&mut policy), &flat(&[load, load]));
        machine.run(SECOND);
        machine.suspend([member(0), member(1)].into_iter().collect());
        machine.run(2 * SECOND);
        let (steps, busy) = (machine.steps, machine.outcomes()[0].busy);
        machine.run(100 * SECOND);
        assert_eq!((machine.steps, machine.outcomes()[0].busy), (steps, busy));
        machine.suspend(Members::EMPTY);
        machine.run(110 * SECOND);
        near("one of two that were both suspended", (machine.outcomes()[0].busy - busy) as f64 / 10e9, 0.5, 0.05);
    }
}

//--- Groups that are left to their managers

/// The rule by which a manager decides.
#[derive(Clone, Copy, Debug)]
enum Manager {
    /// The manager lets all in.
    Idle,
    /// The manager decides by the sharer's bookings.
    Exported,
    /// The manager decides by samples of its own.
    Nested(Estimator),
    /// The manager lets in any members, anew each millisecond or so.
    Hostile(u64),
}

/// Groups whose managers look each millisecond.
fn managed_shares(manager: Manager, groups: &[&[Load]], are_managed: impl Fn(usize) -> bool) -> Vec<f64> {
    let (mut tree, loads) = grouped(Shares::Hierarchical, groups);
    let managed: Vec<Group> =
        (1..=groups.len()).filter(|&group| are_managed(group)).filter_map(|group| tree.group(group)).collect();
    managed.iter().for_each(|group| tree.leave_to_manager(*group));
    let mut outer = FairQueueing::new(&Parameters::DEFAULT, Estimator::BacklogAware, tree).unwrap();
    let mut machine = Machine::new(Some(&mut outer), &loads);
    let (estimator, exported) = match manager {
        Manager::Nested(estimator) => (estimator, false),
        _ => (Estimator::Counted, true),
    };
    let mut managers = Vec::new();
    for group in managed {
        let (mut policy, mut level, mut members) = (fair(estimator), Level::new(exported), Members::EMPTY);
        for (index, _) in loads.iter().enumerate().filter(|(_, (_, place))| place.group == group) {
            level.join(&mut policy, member(index), Weight::ONE, &Seen::default(), Instant(0)).unwrap();
            members.insert(member(index));
        }
        managers.push((policy, level, members));
    }
    let (mut held_back, mut state) = (Members::EMPTY, 5);
    for now in (0..4 * LENGTH).step_by(1_000_000) {
        machine.run(now);
        let seen = machine.seen();
        for (policy, level, members) in &mut managers {
            let admitted = match manager {
                Manager::Idle => *members,
                Manager::Exported | Manager::Nested(_) => level.step(policy, Instant(now), &seen).members,
                Manager::Hostile(seldom) if random(&mut state, seldom) == 0 => {
                    let drawn = random(&mut state, 1 << 16);
                    members.filter(|member| drawn >> member.index() & 1 != 0)
                }
                Manager::Hostile(_) => continue,
            };
            held_back = held_back.without(*members).or(members.without(admitted));
        }
        machine.suspend(held_back);
    }
    machine.shares()
}

/// A member's part of its group, against an equal part: samples that a manager takes while the other level has seasons of its own
/// mislead it, and the bookings of that level do not.
#[test]
fn a_managers_policy_errs_more_by_samples_of_its_own_than_by_exported_usage() {
    let us = |size| Load::of(size * US);
    let systems: [&[&[Load]]; 4] = [
        &[&[us(264)], &[us(264), us(1700)]],
        &[&[us(1700)], &[us(264), us(680), us(1700)]],
        &[&[us(6800).depth(4)], &[us(76), us(680)]],
        &[&[us(264), us(1700)], &[us(680), us(152)]],
    ];
    for groups in systems {
        let sizes: Vec<Vec<u64>> =
            groups.iter().map(|group| group.iter().map(|load| load.size / US).collect()).collect();
        let errors = |manager| {
            let shares = managed_shares(manager, groups, |_| true);
            let (mut within, mut between, mut rest): (f64, f64, _) = (0.0, 0.0, &shares[..]);
            for group in groups {
                let (of_group, others) = rest.split_at(group.len());
                rest = others;
                let all: f64 = of_group.iter().sum();
                between = between.max((all - 1.0 / groups.len() as f64).abs());
                within =
                    of_group.iter().map(|share| (share / all - 1.0 / group.len() as f64).abs()).fold(within, f64::max);
            }
            println!("{sizes:?} us, {manager:?}: error within groups {within:.3}, between groups {between:.3}");
            assert!(between < 0.05, "no manager changes what its group gets");
            within
        };
        let [idle, exported, sampled, aware] = [
            Manager::Idle,
            Manager::Exported,
            Manager::Nested(Estimator::SampledSize),
            Manager::Nested(Estimator::BacklogAware),
        ]
        .map(errors);
        assert!(exported < 0.03, "exported usage is exact over many intervals");
        assert!(idle > 0.2, "without a policy of its manager nobody shares within the group");
        assert!(sampled > 2.0 * exported && aware > 2.0 * exported, "a better nested scheduler than we know of");
    }
}

/// A manager moves the parts in its own group, and takes nothing from another.
#[test]
fn whomever_a_hostile_manager_lets_in_other_groups_get_no_less() {
    let us = |size| Load::of(size * US);
    let groups: [&[Load]; 2] = [&[us(264), us(680)], &[us(1700), us(152).depth(4)]];
    for seldom in [1, 7, 50, 400] {
        let shares = managed_shares(Manager::Hostile(seldom), &groups, |group| group == 2);
        let [first, second] = [shares[0], shares[1]];
        println!("beside a manager that changes its mind every {seldom} ms: {first:.3} and {second:.3}");
        assert!(first + second > 0.48 && (first - second).abs() < 0.05, "{shares:?}");
    }
}

//--- Bounds

/// A small generator, the same each time (xorshift64*).
fn random(state: &mut u64, below: u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
}

fn random_loads(state: &mut u64) -> Vec<Load> {
    (0..2 + random(state, 5))
        .map(|_| {
            let load = Load::of((25 + random(state, 100) * random(state, 100)) * US).begins(random(state, SECOND));
            if random(state, 3) == 0 { load.off(10 * (1 + random(state, 9))) } else { load }
        })
        .collect()
}

#[test]
fn nobody_leads_by_more_than_two_intervals_and_a_request() {
    let mut state = 1;
    let mut tightest: f64 = 0.0;
    for round in 0..300 {
        let loads = random_loads(&mut state);
        let estimator = ESTIMATORS[round % 3];
        let longest = loads.iter().map(|load| load.size).max().unwrap();
        // The measured time of a request may be longer by a trap, or by a step without counters.
        let parameters = Parameters::DEFAULT;
        let sample = (8 * (longest + machine::TRAP)).max(parameters.sample.0);
        let interval = 5 * sample * loads.len() as u64;
        let mut policy = fair(estimator);
        let mut machine = Machine::new(Some(&mut policy), &flat(&loads));
        machine.run_with(3 * SECOND, |policy, now| {
            for (index, load) in loads.iter().enumerate() {
                let ahead = policy.usage(member(index)).ahead.0;
                // Billed samples are the sampled member's own.
                let bound = 2 * interval + load.size + sample;
                tightest = tightest.max(ahead as f64 / bound as f64);
                assert!(
                    ahead <= bound,
                    "member {index} leads by {ahead} of {bound} ns at {now}: {estimator:?} {loads:?}"
                );
            }
        });
        assert_eq!(machine.accusations, []);
    }
    println!("tightest lead: {tightest:.3} of its bound");
}

#[test]
fn overuse_is_at_most_one_request() {
    let mut state = 7;
    for round in 0..300 {
        let loads = random_loads(&mut state);
        let slice = Parameters::DEFAULT.slice.0;
        let mut policy = timeslice([Interception::Engaged, Interception::Disengaged][round % 2]);
        let mut before = BTreeMap::new();
        let mut machine = Machine::new(Some(&mut policy), &flat(&loads));
        machine.run_with(3 * SECOND, |policy, _| {
            for (index, load) in loads.iter().enumerate() {
                let owed = policy.usage(member(index)).ahead.0;
                let grown = owed.saturating_sub(before.insert(index, owed).unwrap_or(0));
                assert!(grown <= load.size + Parameters::DEFAULT.poll.0, "{grown} ns by requests of {load:?}");
                assert!(owed <= slice + load.size + Parameters::DEFAULT.poll.0);
            }
        });
    }
}

/// A member that was idle gets no more than the others when it comes back.
#[test]
fn idle_members_hoard_nothing() {
    let loads = [Load::of(264 * US), Load::of(264 * US).begins(30 * SECOND)];
    halves(|name, policy, counters| {
        let mut machine = Machine::new(Some(policy), &flat(&loads));
        machine.counters = counters;
        machine.run(30 * SECOND);
        let before = machine.outcomes()[0].busy;
        machine.run(36 * SECOND);
        let after = (machine.outcomes()[0].busy - before) as f64 / (6 * SECOND) as f64;
        near(&format!("beside a member that slept, {name}"), after, 0.5, 0.06);
    });
}

//--- Hung requests, idle devices

#[test]
fn a_request_that_never_ends_is_reset_once_and_then_its_task_is_stopped() {
    for tells_running in [true, false] {
        halves(|name, policy, counters| {
            let loads = [Load::of(264 * US), Load::of(1_000 * SECOND), Load::of(2640 * US)];
            let mut machine = Machine::new(Some(policy), &flat(&loads));
            machine.counters = counters;
            machine.tells_running = tells_running;
            machine.run(LENGTH);
            let accused: Vec<_> = machine.accusations.iter().map(|&(_, index, response)| (index, response)).collect();
            let guilty: Vec<_> = accused.iter().copied().filter(|&(index, _)| index == 1).collect();
            let innocent = accused.len() - guilty.len();
            println!("beside a hung request, {name}, device tells {tells_running}: {innocent} innocent resets");
            // A guess may be wrong, but is never the end of a task.
            assert!(innocent == 0 || !tells_running && innocent <= 2 && !accused.contains(&(0, Response::Stop)));
            assert!(innocent == 0 || !accused.contains(&(2, Response::Stop)));
            assert_eq!(guilty.last(), Some(&(1, Response::Stop)), "{name}: {accused:?}");
            assert!(guilty.len() <= 3);
            let slowdowns = slowdowns(&machine);
            println!("beside a hung request, {name}: {:.2} {:.2}", slowdowns[0], slowdowns[2]);
            // Each accusation costs 4 s of the 60, and wrong ones make it three.
            let most = if tells_running { 2.5 } else { 3.0 };
            assert!(slowdowns[0] < most && slowdowns[2] < most);
        });
    }
}

#[test]
fn an_idle_device_is_not_ticked() {
    halves(|name, policy, counters| {
        // Four requests of each in 100 s, and then nothing.
        let loads = [Load { pause: 30 * SECOND, ..Load::of(264 * US) }; 2];
        let machine = run_counting(Some(policy), &loads, counters);
        println!("{name}: {} steps in a minute for {} requests", machine.steps, machine.outcomes()[0].commands * 2);
        assert!(machine.steps < 400);
    });
}

/// The parts of two virtual GPUs with weights 3 and 1, each a group of two clients with equal commands.
fn parts_of_gpus(succession: Succession) -> f64 {
    let mut tree = Tree::new(Shares::Hierarchical);
    let gpus = [3, 1].map(|weight| tree.add_group(Group::ROOT, Weight::new(weight).unwrap()).unwrap());
    let mut policy = VirtualGpus::new(&Parameters::DEFAULT, succession, tree).unwrap();
    let place = |gpu: usize| Place { group: gpus[gpu], weight: Weight::ONE };
    let loads: Vec<(Load, Place)> = (0..4).map(|client| (Load::of(2_000 * US), place(client / 2))).collect();
    let mut machine = Machine::new(Some(&mut policy), &loads);
    machine.run(LENGTH);
    let shares = machine.shares();
    shares[0] + shares[1]
}

#[test]
fn credit_divides_by_weights_between_virtual_gpus_that_always_wait() {
    near("weights 3 to 1, in turn", parts_of_gpus(Succession::Fifo), 0.5, 0.01);
    near("weights 3 to 1, by credit", parts_of_gpus(Succession::Credit), 0.75, 0.02);
    near("weights 3 to 1, by bandwidth", parts_of_gpus(Succession::Band), 0.75, 0.05);
}
