//! Tests of the course of commands: clients in a world without a device.

extern crate std;

use std::vec::Vec;

use fusee::sharing::Request;
use fusee_sharing::Told;

use super::*;
use crate::setup::Rule;

/// Two clients, and the commands that a device has done for them.
#[derive(Default)]
struct World {
    now: u64,
    running: usize,
    submitted: [u32; 2],
    retired: [u32; 2],
}

impl View for World {
    fn now(&mut self) -> Instant {
        Instant(self.now)
    }

    fn running(&mut self) -> usize {
        self.running
    }

    fn submitted(&mut self, member: usize) -> u32 {
        self.submitted[member]
    }

    fn seen(&mut self, member: usize) -> u32 {
        self.submitted[member]
    }

    fn retired(&mut self, member: usize) -> u32 {
        self.retired[member]
    }

    fn counters(&mut self, _: usize) -> Option<Counters> {
        None
    }
}

/// Those with the contexts 3 and 5; answers are numbers.
fn sharer(parameters: &[(&'static str, u64)], means: Means) -> (Sharer<u8, Rule>, World) {
    let setup = Setup::of(parameters.iter().copied()).unwrap();
    let rule = setup.rule().unwrap();
    (Sharer::new(setup, rule, means, [3, 5].into_iter()), World::default())
}

fn store(member: usize, submitted: u32, token: u8) -> Asked<u8> {
    Asked { badge: member as u64, words: [0; 6], store: Some(Store { member, submitted }), token }
}

/// The steps of the sharer until it waits, and the end of the wait.
fn round(sharer: &mut Sharer<u8, Rule>, world: &mut World) -> (Vec<Do<u8>>, Instant) {
    let mut done = Vec::new();
    loop {
        match sharer.next(world) {
            Do::Receive(until) => return (done, until),
            Do::Submit(store) => {
                world.submitted[store.member] = store.submitted;
                done.push(Do::Submit(store));
            }
            other => done.push(other),
        }
    }
}

#[test]
fn a_store_is_made_and_then_answered_once() {
    let (mut sharer, mut world) = sharer(&[("policy", 0), ("poll_us", 1000)], Means::default());
    assert!(matches!(round(&mut sharer, &mut world), (done, Instant::NEVER) if done.is_empty()));
    sharer.keep(store(1, 3, 7));
    let (done, until) = round(&mut sharer, &mut world);
    let made = Store { member: 1, submitted: 3 };
    let Do::Reply { token: 7, words } = done[1] else { panic!("{done:?}") };
    assert_eq!(words, fusee::Verdict::GoOn.words());
    assert!(matches!(done[..], [Do::Submit(store), _] if store == made), "{done:?}");
    assert_eq!(until, Instant(1_000_000));
    world.now = 1_000_000;
    assert!(round(&mut sharer, &mut world).0.is_empty());
}

/// A wait that was ended after the sharer had stored for it, and before it was answered.
#[test]
fn a_client_that_stores_again_what_stands_there_is_only_answered() {
    let (mut sharer, mut world) = sharer(&[("policy", 0)], Means::default());
    round(&mut sharer, &mut world);
    world.submitted[0] = 1;
    sharer.keep(store(0, 1, 9));
    let (done, _) = round(&mut sharer, &mut world);
    assert!(matches!(done[..], [Do::Reply { token: 9, .. }]), "{done:?}");
}

#[test]
fn a_slice_opens_the_doorbell_of_one_and_the_other_waits_until_that_is_shut_and_its_commands_are_done() {
    let parameters = [("policy", 2), ("poll_us", 1000), ("slice_us", 1000), ("log_verdicts", 1)];
    let (mut sharer, mut world) = sharer(&parameters, Means::default());
    sharer.keep(store(0, 1, 1));
    sharer.keep(store(1, 1, 2));
    let (done, _) = round(&mut sharer, &mut world);
    let open = |done: &Do<u8>| matches!(done, Do::Share { members: 1, page: DoorbellPage::Open });
    assert!(matches!(done[..2], [Do::Log(SEASON, 1), Do::Log(VERDICT, 0x200)]), "{done:?}");
    assert!(open(&done[2]) && matches!(done[3..], [Do::Submit(_), Do::Reply { token: 1, .. }]), "{done:?}");

    (world.now, world.running) = (1_500_000, 4);
    let (done, _) = round(&mut sharer, &mut world);
    let shut = |done: &Do<u8>| matches!(done, Do::Share { members: 1, page: DoorbellPage::ReadOnly });
    assert!(matches!(done[..1], [Do::Log(VERDICT, 0)]) && done[1..].iter().all(shut), "{done:?}");
    assert_eq!(world.submitted, [1, 0]);

    (world.now, world.running, world.retired) = (2_000_000, 0, [1, 0]);
    let (done, _) = round(&mut sharer, &mut world);
    assert!(matches!(done[..2], [Do::Log(SEASON, 0x101), Do::Log(VERDICT, 0x201)]), "{done:?}");
    assert_eq!(world.submitted, [1, 1]);
}

#[test]
fn a_command_that_takes_too_long_is_reset_and_the_second_one_ends_its_client() {
    let parameters = [("policy", 0), ("poll_us", 1000), ("request_limit_us", 5000)];
    let (mut sharer, mut world) = sharer(&parameters, Means { resets: true, ..Means::default() });
    sharer.keep(store(0, 1, 1));
    round(&mut sharer, &mut world);
    world.running = 4;
    let mut done = Vec::new();
    for retired in [0, 1] {
        // The reset lets the device forget the command; the client begins the next one.
        (world.retired[0], world.submitted[0]) = (retired, retired + 1);
        for _ in 0..20 {
            world.now += 1_000_000;
            done.extend(round(&mut sharer, &mut world).0);
        }
    }
    let first = Member::new(0).unwrap();
    let is_first = |member: &Member| *member == first;
    assert!(matches!(&done[..2], [Do::Log(ACCUSED, 0), Do::Reset(member)] if is_first(member)), "{done:?}");
    let second = &done[2..];
    assert!(matches!(second[..2], [Do::Log(ACCUSED, 0), Do::Stop(_)]), "{done:?}");
    assert!(matches!(second[2], Do::Reset(_)), "{done:?}");
    (world.now, world.retired) = (world.now + 1_000_000, [2, 0]);
    sharer.keep(store(0, 3, 2));
    let done = round(&mut sharer, &mut world).0;
    assert!(matches!(done[..], [Do::Log(BROKE, 0)]), "{done:?}");
    assert_eq!(world.submitted, [2, 0], "nothing that it stores later reaches the device");
}

/// The second client is in a group that can be told, with the first one below it in a group that cannot.
#[test]
fn a_group_is_told_of_a_command_that_takes_too_long_and_all_of_it_is_shut_out_if_that_runs_on() {
    let told = |number, group, badge| Told { number, group, weight: 1, managed: false, badge }.encode();
    let parameters = [
        ("policy", 4),
        ("poll_us", 1000),
        ("request_limit_us", 5000),
        ("group.outer", told(1, 0, 30)),
        ("group.inner", told(2, 1, 0)),
        ("member.ada", told(0, 2, 10)),
        ("member.bob", told(1, 1, 11)),
    ];
    let [ada, bob] = [0, 1].map(|index| Member::new(index).unwrap());
    let means = Means { resets: true, tells: 1 << 1, ..Means::default() };
    let late = |sharer: &mut Sharer<u8, Rule>, world: &mut World, times| -> Vec<Do<u8>> {
        let mut done = Vec::new();
        for _ in 0..times {
            world.now += 1_000_000;
            done.extend(round(sharer, world).0.into_iter().filter(|done| !matches!(done, Do::Kick | Do::Share { .. })));
        }
        done
    };
    let begun = |sharer: &mut Sharer<u8, Rule>, world: &mut World| {
        sharer.keep(store(0, 1, 1));
        round(sharer, world);
        world.running = 4;
        let done = late(sharer, world, 7);
        assert!(
            matches!(done[..], [Do::Log(ACCUSED, 0), Do::Tell(group, member)] if group.index() == 1 && member == ada),
            "{done:?}"
        );
    };

    // No member ends the command.
    let (mut one, mut world) = sharer(&parameters, means);
    begun(&mut one, &mut world);
    let done = late(&mut one, &mut world, 7);
    let stops = |done: &Do<u8>, whose| matches!(done, Do::Stop(member) if *member == whose);
    assert!(matches!(done[0], Do::Log(ACCUSED, 0)) && stops(&done[1], ada) && stops(&done[2], bob), "{done:?}");
    assert!(matches!(done[3..], [Do::Reset(member), Do::Log(BROKE, 1)] if member == ada), "{done:?}");

    // Its manager does, again and again: nothing else happens.
    let (mut one, mut world) = sharer(&parameters, means);
    begun(&mut one, &mut world);
    for retired in 1..5 {
        let end = Asked { badge: 30, words: Request::End(1).message(), store: None, token: 9 };
        one.keep(end);
        let (done, _) = round(&mut one, &mut world);
        let granted = |words: &Message| words[0] == 0;
        assert!(
            matches!(&done[..2], [Do::Reply { token: 9, words }, Do::Reset(member)] if granted(words) && *member == ada),
            "{done:?}"
        );
        (world.retired[0], world.submitted[0]) = (retired, retired + 1);
        let done = late(&mut one, &mut world, 7);
        assert!(matches!(done[..], [Do::Log(ACCUSED, 0), Do::Tell(..)]), "{retired}: {done:?}");
    }
}
