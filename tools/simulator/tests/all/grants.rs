//! Handles in messages, one story each. Histories at random are in `kernel/core/tests/grants.rs`.

use std::fmt::Write;
use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::{Call, HandleValue, rights};
use fusee_manifest::Manifest;
use fusee_simulator::{Options, Program, RECEIVED, Reply, Request, Until, simulate_with};

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const ALL: u32 = u32::MAX;
const DONE: u64 = 0;

const BAD_HANDLE: u64 = Error::BadHandle as u64;
const MISSING_RIGHT: u64 = Error::MissingRight as u64;
const TIMED_OUT: u64 = Error::TimedOut as u64;
const NO_HANDLE_SLOT: u64 = Error::NoHandleSlot as u64;

/// Tasks on a CPU of their own, with what the manifest gives them, by the order of their slots.
const TASKS: [(&str, &[&str]); 4] = [
    ("owner", &["endpoint first: call send", "endpoint second: call", "notification event: signal wait grant"]),
    ("first", &["endpoint first: call receive grant", "endpoint second: call"]),
    ("second", &["endpoint second: receive", "endpoint first: call", "notification other: signal grant"]),
    ("client", &["endpoint first: call", "endpoint second: call", "notification other: signal grant"]),
];

/// The handle in a slot that the manifest filled.
fn slot(slot: u16) -> u64 {
    HandleValue::new(slot, 1).0
}

fn call(call: Call, handle: u64) -> Request {
    with_reply(call, handle, Reply::Nobody)
}

fn with_reply(call: Call, handle: u64, reply: Reply) -> Request {
    Request::Call { number: call as u64, first: handle, second: 1, word: 0, until: Until::Never, reply }
}

/// Revokes the copies of a handle and keeps it.
fn revoke(handle: u64) -> Request {
    let (number, until, reply) = (Call::Revoke as u64, Until::Never, Reply::Nobody);
    Request::Call { number, first: handle, second: 0, word: 0, until, reply }
}

fn give_up(handle: u64) -> Request {
    call(Call::Revoke, handle)
}

/// Answers the last request, and waits for the next.
fn answer() -> Request {
    with_reply(Call::ReplyReceive, slot(0), Reply::Last)
}

/// Answers the last request, and goes on.
fn answer_at_once() -> Request {
    let (number, until, reply) = (Call::ReplyReceive as u64, Until::After(0), Reply::Last);
    Request::Call { number, first: slot(0), second: 0, word: 0, until, reply }
}

fn with(given: u64, kept: u32) -> Request {
    Request::With { given, kept }
}

fn burn(microseconds: u64) -> Request {
    Request::Burn(microseconds * US)
}

/// Lets the tasks make these requests; what each of them was answered. `full`: a task whose table has no empty slot.
fn run(full: Option<&str>, programs: [Vec<Request>; 4]) -> [Vec<u64>; 4] {
    let mut text = String::from("[system]\nname = \"grants\"\nboard = \"virt\"\ncpus = 5\nstart = \"1ms\"\n");
    let mut line = |text_of: String| writeln!(text, "{text_of}").expect("a string takes everything");
    line("[clusters.all]\ncpus = [0, 1, 2, 3, 4]".into());
    for (name, handles) in TASKS {
        line(format!("[tasks.{name}]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nclass = \"background\""));
        line(format!("[tasks.{name}.handles]"));
        let fill = if full == Some(name) { 32 } else { 0 };
        let all = handles.iter().copied().chain((handles.len()..fill).map(|_| "notification other: signal"));
        all.enumerate().for_each(|(slot, handle)| line(format!("h{slot} = \"{handle}\"")));
    }
    line("[endpoints.first]\nserver = \"first\"\n[endpoints.second]\nserver = \"second\"".into());
    line("[notifications.event]\n[notifications.other]".into());
    line("[tasks.end]\nscript = [\"sleep 50ms\", \"shutdown\"]\ncluster = \"all\"\nperiod = \"1s\"".into());
    line("budget = \"1ms\"\nhandles = { system = \"system: shutdown\" }".into());
    let manifest = Manifest::parse(Path::new("grants.toml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let programs = programs.map(|requests| Program::Requests { requests, again_from: None });
    let options = Options { programs: programs.into_iter().enumerate().collect(), ..Options::default() };
    let report = simulate_with(&manifest, &options, 100 * MS).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.exit, Some(0));
    let mut results = report.results.into_iter();
    [(); 4].map(|()| results.next().unwrap_or_default())
}

/// The owner gives its notification to `first`, which gives it on to `second`; both use it before the owner revokes
/// it and after.
#[test]
fn a_revoked_handle_and_all_its_copies_are_void_at_once() {
    let revokes = [revoke(slot(2)), call(Call::Signal, slot(2)), burn(9_000)];
    let owner = [&[with(slot(2), ALL), call(Call::CallWith, slot(0)), burn(2_000)][..], &revokes].concat();
    let uses = [answer_at_once(), burn(1_000), call(Call::Signal, RECEIVED), burn(2_000), call(Call::Signal, RECEIVED)];
    let pass_on = [call(Call::Receive, slot(0)), with(RECEIVED, ALL), call(Call::CallWith, slot(1))];
    let first = [&pass_on[..], &uses].concat();
    let second = [&pass_on[..1], &uses].concat();
    let [owner, first, second, _] = run(None, [owner, first, second, vec![]]);
    assert_eq!(owner, [DONE, DONE, DONE], "to give, to revoke, and to use what was revoked");
    assert_eq!(first, [DONE, DONE, TIMED_OUT, DONE, BAD_HANDLE]);
    assert_eq!(second, [DONE, TIMED_OUT, DONE, BAD_HANDLE]);
}

#[test]
fn rights_only_shrink_along_a_chain_of_copies() {
    let owner = vec![with(slot(2), rights::SIGNAL | rights::GRANT), call(Call::CallWith, slot(0)), burn(9_000)];
    let uses = [call(Call::Wait, RECEIVED), call(Call::Signal, RECEIVED)];
    // To wait, `first` has no right; neither can it give any, by whatever mask.
    let first = [
        &[call(Call::Receive, slot(0))][..],
        &uses,
        &[with(RECEIVED, rights::WAIT), call(Call::CallWith, slot(1))],
        &[with(RECEIVED, rights::GRANT), call(Call::CallWith, slot(1))],
        &[with(RECEIVED, ALL & !rights::GRANT), call(Call::CallWith, slot(1))],
        &[burn(9_000)],
    ];
    // Without the right to grant, it ends at `second`.
    let second = [
        &[call(Call::Receive, slot(0))][..],
        &uses,
        &[with(RECEIVED, ALL), with_reply(Call::ReplyReceive, slot(0), Reply::LastWith), burn(9_000)],
    ];
    let [_, first, second, _] = run(None, [owner, first.concat(), second.concat(), vec![]]);
    // The last request of `first` was never answered: its server ended.
    let died = Error::PeerDied as u64;
    assert_eq!(first, [DONE, MISSING_RIGHT, DONE, MISSING_RIGHT, MISSING_RIGHT, died]);
    assert_eq!(second, [DONE, MISSING_RIGHT, DONE, MISSING_RIGHT]);
}

#[test]
fn a_handle_to_receive_cannot_be_given_away() {
    let first = vec![
        with(slot(0), rights::RECEIVE | rights::GRANT),
        call(Call::CallWith, slot(1)),
        with(slot(0), ALL),
        call(Call::CallWith, slot(1)),
        call(Call::Receive, slot(0)),
    ];
    let second =
        vec![call(Call::Receive, slot(0)), call(Call::Receive, RECEIVED), call(Call::CallWith, RECEIVED), burn(1_000)];
    let [_, first, second, _] = run(None, [vec![], first, second, vec![]]);
    assert_eq!(first[0], MISSING_RIGHT);
    // To call through the copy is allowed; that `first` waits for `second` itself is another matter.
    assert_eq!(second, [DONE, MISSING_RIGHT, Error::WouldDeadlock as u64]);
}

/// The server waits, is busy, and answers a client that is full itself.
#[test]
fn a_full_table_refuses_the_gift_and_nothing_is_half_done() {
    let give = [with(slot(2), ALL), call(Call::CallWith, slot(0))];
    let plain = call(Call::Call, slot(0));

    // Refused at once, and the server still waits; then refused in the queue, and the request behind is received.
    let owner = [&give[..], &[plain], &give, &[burn(100)]].concat();
    let first = vec![call(Call::Receive, slot(0)), burn(3_000), answer(), burn(2_000), answer(), burn(9_000)];
    let client = vec![burn(1_000), plain];
    let [owner, first, _, client] = run(Some("first"), [owner, first, vec![], client]);
    assert_eq!(owner, [NO_HANDLE_SLOT, DONE, NO_HANDLE_SLOT]);
    assert_eq!(client, [DONE]);
    assert_eq!(first[..2], [DONE, DONE]);

    // A reply that is refused can be given again, without the handle.
    let first = vec![call(Call::CallWith, slot(1)), burn(9_000)];
    let gift = [with(slot(2), ALL), with_reply(Call::ReplyReceive, slot(0), Reply::LastWith)];
    let second = [&[call(Call::Receive, slot(0))][..], &gift, &gift, &[answer(), burn(9_000)]].concat();
    let [_, first, second, _] = run(Some("first"), [vec![], first, second, vec![]]);
    assert_eq!(first, [DONE]);
    assert_eq!(second[..3], [DONE, NO_HANDLE_SLOT, NO_HANDLE_SLOT]);
}

#[test]
fn a_plain_call_is_given_no_handle_with_its_reply() {
    let client = vec![call(Call::Call, slot(1)), call(Call::Signal, HandleValue::new(3, 1).0)];
    let gift = [with(slot(2), ALL), with_reply(Call::ReplyReceive, slot(0), Reply::LastWith)];
    let second = [&[call(Call::Receive, slot(0))][..], &gift, &[answer()]].concat();
    let [_, _, second, client] = run(None, [vec![], vec![], second, client]);
    assert_eq!(second[..2], [DONE, NO_HANDLE_SLOT]);
    assert_eq!(client, [DONE, BAD_HANDLE]);
}

#[test]
fn an_old_handle_value_never_fits_a_reused_slot() {
    let rounds = 5;
    let (owner, first): (Vec<_>, Vec<_>) = (1..=rounds)
        .map(|round| {
            let old = HandleValue::new(2, round - 1).0;
            let receive = if round == 1 { call(Call::Receive, slot(0)) } else { answer() };
            let uses = [call(Call::Signal, old), call(Call::Signal, HandleValue::new(2, round).0)];
            let give = [with(slot(2), ALL), call(Call::CallWith, slot(0))];
            (give, [&[receive][..], &uses, &[give_up(RECEIVED), call(Call::Signal, RECEIVED)]].concat())
        })
        .unzip();
    let [_, first, _, _] = run(None, [owner.concat(), first.concat(), vec![], vec![]]);
    for round in first.chunks(5) {
        assert_eq!(round, [DONE, BAD_HANDLE, DONE, DONE, BAD_HANDLE]);
    }
    assert_eq!(first.len(), 5 * rounds as usize);
}

#[test]
fn what_a_dead_task_gave_away_is_void() {
    let owner = vec![with(slot(2), ALL), call(Call::Send, slot(0)), burn(2_000)];
    let use_it = call(Call::Signal, RECEIVED);
    let first = vec![call(Call::Receive, slot(0)), burn(1_000), use_it, burn(3_000), use_it, give_up(RECEIVED)];
    let [owner, first, _, _] = run(None, [owner, first, vec![], vec![]]);
    assert_eq!(owner, [DONE]);
    assert_eq!(first, [DONE, DONE, BAD_HANDLE, DONE]);
}

/// The owner revokes what `first` is about to give to a server that is busy.
#[test]
fn a_gift_that_is_revoked_while_its_request_queues_ends_the_call() {
    let owner = vec![with(slot(2), ALL), call(Call::Send, slot(0)), burn(1_000), revoke(slot(2)), burn(9_000)];
    let first = vec![call(Call::Receive, slot(0)), with(RECEIVED, ALL), call(Call::CallWith, slot(1)), burn(100)];
    let second = vec![burn(2_000), call(Call::Receive, slot(0)), answer(), burn(9_000)];
    let client = vec![burn(500), call(Call::Call, slot(1)), burn(100)];
    let [_, first, second, client] = run(None, [owner, first, second, client]);
    assert_eq!(first, [DONE, BAD_HANDLE]);
    assert_eq!(client, [DONE]);
    assert_eq!(second[0], DONE);
}
