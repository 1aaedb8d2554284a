//! Handles in messages, one story each. Histories at random are in `kernel/core/tests/grants.rs`.

use fusee_abi::Error;
use fusee_abi::call::{Call, HandleValue, rights};
use fusee_simulator::{RECEIVED, Reply};

use super::common::{Asked, MS, US, burn, carry, run_four, slot, through};

const ALL: u32 = u32::MAX;
const DONE: u64 = 0;

const BAD_HANDLE: u64 = Error::BadHandle as u64;
const MISSING_RIGHT: u64 = Error::MissingRight as u64;
const TIMED_OUT: u64 = Error::TimedOut as u64;
const NO_HANDLE_SLOT: u64 = Error::NoHandleSlot as u64;

/// Tasks on a CPU of their own, with their handles, by the order of their slots.
const TASKS: [(&str, &[&str]); 4] = [
    ("owner", &["endpoint first: call send", "endpoint second: call", "notification event: signal wait grant"]),
    ("first", &["endpoint first: call receive grant", "endpoint second: call"]),
    ("second", &["endpoint second: receive", "endpoint first: call", "notification other: signal grant"]),
    ("client", &["endpoint first: call", "endpoint second: call", "notification other: signal grant"]),
];

/// Revokes the copies of a handle and keeps it.
fn revoke(handle: u64) -> Asked {
    through(Call::Revoke, handle).with(0)
}

fn give_up(handle: u64) -> Asked {
    through(Call::Revoke, handle)
}

/// Answers the last request, and waits for the next.
fn answer() -> Asked {
    through(Call::ReplyReceive, slot(0)).replying(Reply::Last)
}

/// Answers the last request with a handle, and waits for the next.
fn answer_with() -> Asked {
    through(Call::ReplyReceive, slot(0)).replying(Reply::LastWith)
}

/// Answers the last request, and goes on.
fn answer_at_once() -> Asked {
    answer().within(0)
}

/// Lets the tasks make these requests. Returns the answers. `full`: a task with a table that has no empty slot.
fn run(full: Option<&str>, asked: [Vec<Asked>; 4]) -> [Vec<u64>; 4] {
    let tasks = TASKS.map(|(name, handles)| {
        let fill = if full == Some(name) { 32 } else { handles.len() };
        let mut handles = handles.to_vec();
        handles.resize(fill, "notification other: signal");
        (name, handles)
    });
    let endpoints = "[endpoints.first]\nserver = \"first\"\n[endpoints.second]\nserver = \"second\"\n";
    let run = run_four(&tasks, &format!("{endpoints}[notifications.event]\n[notifications.other]\n"), asked);
    TASKS.map(|(name, _)| run.results(name).to_vec())
}

/// The owner gives its notification to `first`, which gives it on to `second`; both use it before the owner revokes
/// it and after.
#[test]
fn a_revoked_handle_and_all_its_copies_are_void_at_once() {
    let revokes = [revoke(slot(2)), through(Call::Signal, slot(2)), burn(9 * MS)];
    let owner = [&[carry(slot(2), ALL), through(Call::CallWith, slot(0)), burn(2 * MS)][..], &revokes].concat();
    let uses =
        [answer_at_once(), burn(MS), through(Call::Signal, RECEIVED), burn(2 * MS), through(Call::Signal, RECEIVED)];
    let pass_on = [through(Call::Receive, slot(0)), carry(RECEIVED, ALL), through(Call::CallWith, slot(1))];
    let first = [&pass_on[..], &uses].concat();
    let second = [&pass_on[..1], &uses].concat();
    let [owner, first, second, _] = run(None, [owner, first, second, vec![]]);
    assert_eq!(owner, [DONE, DONE, DONE], "to give, to revoke, and to use what was revoked");
    assert_eq!(first, [DONE, DONE, TIMED_OUT, DONE, BAD_HANDLE]);
    assert_eq!(second, [DONE, TIMED_OUT, DONE, BAD_HANDLE]);
}

#[test]
fn rights_only_shrink_along_a_chain_of_copies() {
    let owner = vec![carry(slot(2), rights::SIGNAL | rights::GRANT), through(Call::CallWith, slot(0)), burn(9 * MS)];
    let uses = [through(Call::Wait, RECEIVED), through(Call::Signal, RECEIVED)];
    // To wait, `first` has no right; neither can it give any, by any mask.
    let first = [
        &[through(Call::Receive, slot(0))][..],
        &uses,
        &[carry(RECEIVED, rights::WAIT), through(Call::CallWith, slot(1))],
        &[carry(RECEIVED, rights::GRANT), through(Call::CallWith, slot(1))],
        &[carry(RECEIVED, ALL & !rights::GRANT), through(Call::CallWith, slot(1))],
        &[burn(9 * MS)],
    ];
    // Without the right to grant, it ends at `second`.
    let second = [&[through(Call::Receive, slot(0))][..], &uses, &[carry(RECEIVED, ALL), answer_with(), burn(9 * MS)]];
    let [_, first, second, _] = run(None, [owner, first.concat(), second.concat(), vec![]]);
    // The last request of `first` was never answered: its server ended.
    let died = Error::PeerDied as u64;
    assert_eq!(first, [DONE, MISSING_RIGHT, DONE, MISSING_RIGHT, MISSING_RIGHT, died]);
    assert_eq!(second, [DONE, MISSING_RIGHT, DONE, MISSING_RIGHT]);
}

#[test]
fn a_handle_to_receive_cannot_be_given_away() {
    let first = vec![
        carry(slot(0), rights::RECEIVE | rights::GRANT),
        through(Call::CallWith, slot(1)),
        carry(slot(0), ALL),
        through(Call::CallWith, slot(1)),
        through(Call::Receive, slot(0)),
    ];
    let second = vec![
        through(Call::Receive, slot(0)),
        through(Call::Receive, RECEIVED),
        through(Call::CallWith, RECEIVED),
        burn(MS),
    ];
    let [_, first, second, _] = run(None, [vec![], first, second, vec![]]);
    assert_eq!(first[0], MISSING_RIGHT);
    // To call through the copy is allowed; that `first` waits for `second` itself is another matter.
    assert_eq!(second, [DONE, MISSING_RIGHT, Error::WouldDeadlock as u64]);
}

/// The server waits, is busy, and answers a client that is full itself.
#[test]
fn a_full_table_refuses_the_gift_and_nothing_is_half_done() {
    let give = [carry(slot(2), ALL), through(Call::CallWith, slot(0))];
    let plain = through(Call::Call, slot(0));

    // Refused at once, and the server still waits; then refused in the queue, and the request behind is received.
    let owner = [&give[..], &[plain], &give, &[burn(100 * US)]].concat();
    let first = vec![through(Call::Receive, slot(0)), burn(3 * MS), answer(), burn(2 * MS), answer(), burn(9 * MS)];
    let client = vec![burn(MS), plain];
    let [owner, first, _, client] = run(Some("first"), [owner, first, vec![], client]);
    assert_eq!(owner, [NO_HANDLE_SLOT, DONE, NO_HANDLE_SLOT]);
    assert_eq!(client, [DONE]);
    assert_eq!(first[..2], [DONE, DONE]);

    // A reply that is refused can be given again, without the handle.
    let first = vec![through(Call::CallWith, slot(1)), burn(9 * MS)];
    let gift = [carry(slot(2), ALL), answer_with()];
    let second = [&[through(Call::Receive, slot(0))][..], &gift, &gift, &[answer(), burn(9 * MS)]].concat();
    let [_, first, second, _] = run(Some("first"), [vec![], first, second, vec![]]);
    assert_eq!(first, [DONE]);
    assert_eq!(second[..3], [DONE, NO_HANDLE_SLOT, NO_HANDLE_SLOT]);
}

#[test]
fn a_plain_call_is_given_no_handle_with_its_reply() {
    let client = vec![through(Call::Call, slot(1)), through(Call::Signal, HandleValue::new(3, 1).0)];
    let gift = [carry(slot(2), ALL), answer_with()];
    let second = [&[through(Call::Receive, slot(0))][..], &gift, &[answer()]].concat();
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
            let receive = if round == 1 { through(Call::Receive, slot(0)) } else { answer() };
            let uses = [through(Call::Signal, old), through(Call::Signal, HandleValue::new(2, round).0)];
            let give = [carry(slot(2), ALL), through(Call::CallWith, slot(0))];
            (give, [&[receive][..], &uses, &[give_up(RECEIVED), through(Call::Signal, RECEIVED)]].concat())
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
    let owner = vec![carry(slot(2), ALL), through(Call::Send, slot(0)), burn(2 * MS)];
    let use_it = through(Call::Signal, RECEIVED);
    let first = vec![through(Call::Receive, slot(0)), burn(MS), use_it, burn(3 * MS), use_it, give_up(RECEIVED)];
    let [owner, first, _, _] = run(None, [owner, first, vec![], vec![]]);
    assert_eq!(owner, [DONE]);
    assert_eq!(first, [DONE, DONE, BAD_HANDLE, DONE]);
}

/// The owner revokes the handle that `first` is about to give to a server that is busy.
#[test]
fn a_gift_that_is_revoked_while_its_request_queues_ends_the_call() {
    let owner = vec![carry(slot(2), ALL), through(Call::Send, slot(0)), burn(MS), revoke(slot(2)), burn(9 * MS)];
    let first =
        vec![through(Call::Receive, slot(0)), carry(RECEIVED, ALL), through(Call::CallWith, slot(1)), burn(100 * US)];
    let second = vec![burn(2 * MS), through(Call::Receive, slot(0)), answer(), burn(9 * MS)];
    let client = vec![burn(500 * US), through(Call::Call, slot(1)), burn(100 * US)];
    let [_, first, second, client] = run(None, [owner, first, second, client]);
    assert_eq!(first, [DONE, BAD_HANDLE]);
    assert_eq!(client, [DONE]);
    assert_eq!(second[0], DONE);
}
