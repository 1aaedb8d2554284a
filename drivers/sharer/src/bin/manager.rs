//! The manager of a group: a policy of `fusee_sharing` decides which members are let in, while the engine's sharer decides on the part of the group.
//!
//! The manifest leaves a group to it with `within = "manager"`. Handles: endpoint "requests" (call) of the sharer, region "usage" (read), which the sharer writes.
//! It needs a stack of 32 KiB.
//!
//! | Parameter | Unit | Without it |
//! |---|---|---|
//! | `policy` | as the sharer's, 0 to 5; 5 goes by the sharer's bookings, 3 and 4 take samples of their own and err by the use of other groups meanwhile ([`fusee_sharing::level`]) | 5 |
//! | `poll_us`, `slice_us`, `sample_us`, `sample_most_us`, `sample_poll_us` | microseconds | [`Parameters::DEFAULT`](fusee_sharing::Parameters::DEFAULT) |
//!
//! It looks at the page each `sample_poll_us` to `poll_us`, and asks the sharer when another member is to be let in. While no member of the group
//! wants the engine all are let in. By policy 5 its intervals, which are 10 samples long for two members, should be no shorter than the sharer's, by
//! which that books: else it sees nothing in one interval and twice as much in the next. All its members have the same weight. If it dies, its last
//! word stands.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::environment::kind;
use fusee::sharing::Sharer;
use fusee::usage::{Picture, UsagePage};
use fusee::{Endpoint, Environment, Instant, Nanoseconds, Region, environment, now, sleep_until};
use fusee_driver::name_of;
use fusee_sharing::{Level, MEMBERS, Member, Policy, Seen, Weight};
use sharer::setup::Setup;

fusee::entry!(main);

/// The beginning of the names of groups, among the parameters.
const GROUP: &str = "group.";

fn main() {
    let environment = environment();
    let group = group(&environment);
    let sharer = Sharer::new(environment.expect::<Endpoint>("requests"));
    let page = UsagePage::new(&environment.expect::<Region>("usage"));
    let setup = Setup::of(given(&environment)).unwrap_or_else(|error| panic!("{error}"));
    assert!(!setup.is_by_request(), "a manager sees no requests: its policy may be 0 to 5");
    let [shortest, longest] = [setup.parameters.sample_poll, setup.parameters.poll];

    let all = sharer.admit(group, u16::MAX);
    let all = all.unwrap_or_else(|error| panic!("this task cannot manage group {group}: {error:?}"));
    let mut rule = setup.rule().unwrap_or_else(|error| panic!("{error}"));
    let mut level = Level::new(rule.counts());
    let first = picture(&page, longest);
    for member in Member::all().filter(|member| all & 1 << member.index() != 0) {
        let joined = level.join(&mut rule, member, Weight::ONE, &seen(&first, member), Instant(first.time));
        joined.expect("each joins once");
    }
    let mut admitted = all;
    loop {
        let picture = picture(&page, longest);
        let time = Instant(picture.time);
        let seen: [Seen; MEMBERS] =
            core::array::from_fn(|index| Member::new(index).map_or(Seen::default(), |member| seen(&picture, member)));
        let admission = level.step(&mut rule, time, &seen);
        let wanted = admission.members.iter().map(|member| 1 << member.index()).sum();
        if wanted != admitted && sharer.admit(group, wanted).is_ok() {
            admitted = wanted;
        }
        let delay = admission.call_again.map_or(longest, |again| again.since(time));
        sleep(delay.clamp(shortest, longest));
    }
}

/// The number of the group that this task manages.
fn group(environment: &Environment) -> u8 {
    let mut groups = environment
        .entries()
        .iter()
        .filter(|entry| entry.kind == kind::PARAMETER && name_of(entry).is_some_and(|name| name.starts_with(GROUP)));
    match (groups.next(), groups.next()) {
        (Some(group), None) => u8::try_from(group.address).expect("the manifest numbers groups from 1 to 15"),
        (None, _) => panic!("this task is the manager of no group"),
        (Some(_), Some(_)) => panic!("this task is the manager of several groups: it manages one"),
    }
}

/// The numbers that the manifest gives this task, by name, but for that of its group.
fn given(environment: &Environment) -> impl Iterator<Item = (&'static str, u64)> + Clone {
    let entries = environment.entries().iter().filter(|entry| entry.kind == kind::PARAMETER);
    let all = entries.filter_map(|entry| Some((name_of(entry)?, entry.address)));
    // The first one counts.
    all.filter(|(name, _)| !name.starts_with(GROUP)).chain([("policy", 5)])
}

/// The sharer's page of usage, once it shows something.
fn picture(page: &UsagePage, wait: Nanoseconds) -> Picture {
    loop {
        match page.picture() {
            Some(picture) => return picture,
            None => sleep(wait),
        }
    }
}

fn seen(picture: &Picture, member: Member) -> Seen {
    let record = &picture.members[member.index()];
    Seen {
        used: Nanoseconds(record.used),
        completed: record.commands,
        at_device: record.at_device,
        waits: record.waits,
    }
}

fn sleep(time: Nanoseconds) {
    sleep_until(now().now + time).expect("this task may sleep");
}
