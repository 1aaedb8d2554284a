//! Regions lent for the duration of a call, one story each. Histories at random are in `kernel/core/tests/loans.rs`.

use fusee_abi::Error;
use fusee_abi::call::{Call, rights};
use fusee_abi::trace::Event;
use fusee_kernel_core::object::State;
use fusee_simulator::{Overheads, RECEIVED, Reply, Request};

use super::common::{self, Asked, LIMIT, MS, Run, US, burn, carry, plain, run_four, slot, through};

const ALL: u32 = rights::READ | rights::WRITE;
const DONE: u64 = 0;

const MISSING_RIGHT: u64 = Error::MissingRight as u64;
const TIMED_OUT: u64 = Error::TimedOut as u64;
const BAD_TOKEN: u64 = Error::BadToken as u64;
const NO_PLACE: u64 = Error::NoHandleSlot as u64;
const PEER_DIED: u64 = Error::PeerDied as u64;

/// Tasks on a CPU of their own, with their handles, by the order of their slots.
const TASKS: [(&str, &[&str]); 4] = [
    ("client", &["endpoint server: call send", "region frame: read write lend", "region own: read write"]),
    ("other", &["endpoint server: call", "region frame: read lend", "region own: read write lend"]),
    ("server", &["endpoint server: receive", "region frame: read write lent", "region own: read lent"]),
    ("killer", &["task client: stop", "task server: stop"]),
];
const SERVER: usize = 2;
/// Slots: of the endpoint, of the region that is lent, of another.
const ENDPOINT: u64 = slot(0);
const FRAME: u64 = slot(1);
const OWN: u64 = slot(2);

fn receive() -> Asked {
    through(Call::Receive, ENDPOINT)
}

/// Answers the last request, and goes on.
fn answer() -> Asked {
    through(Call::ReplyReceive, ENDPOINT).replying(Reply::Last).within(0)
}

/// Calls the server and lends it this region, to be used so.
fn lend(region: u64, kept: u32) -> [Asked; 2] {
    [carry(region, kept), through(Call::CallWith, ENDPOINT)]
}

fn load(region: u64) -> Asked {
    plain(Request::Load(region))
}

fn store(region: u64, word: u64) -> Asked {
    plain(Request::Store(region, word))
}

fn stop(task: u16) -> Asked {
    through(Call::Stop, slot(task))
}

/// Lets the tasks make these requests.
fn run(asked: [Vec<Asked>; 4]) -> Run {
    let rest = "[endpoints.server]\nserver = \"server\"\n\
                [regions.frame]\nbytes = \"4MiB\"\n[regions.own]\nbytes = \"4KiB\"\n";
    run_four(&TASKS.map(|(name, handles)| (name, handles.to_vec())), rest, asked)
}

#[test]
fn a_server_works_in_place_on_what_it_is_lent_and_loses_it_with_its_reply() {
    let client = [&[store(FRAME, 7)], &lend(FRAME, ALL)[..], &[load(FRAME), burn(9 * MS)]];
    let works = [receive(), load(RECEIVED), store(FRAME, 8), load(FRAME), answer()];
    let server = [&works[..], &[load(FRAME), receive()]].concat();
    let run = run([client.concat(), vec![], server, vec![]]);
    assert_eq!(run.report.results[0], [DONE, 8]);
    assert_eq!(run.report.results[SERVER], [DONE, 7, 8, TIMED_OUT]);
    assert_eq!(run.faults(), [SERVER], "after its reply the server reached what was lent to it");
}

#[test]
fn what_nobody_has_lent_yet_cannot_be_reached() {
    let run = run([vec![], vec![], vec![load(FRAME), receive()], vec![]]);
    assert_eq!(run.faults(), [SERVER]);
}

/// The server is in the middle of its work when the client's deadline passes, and stays so for a while.
#[test]
fn a_client_that_times_out_has_its_region_back_and_does_not_harm_the_server() {
    let begin =
        [&[store(FRAME, 7)][..], &[carry(FRAME, ALL), through(Call::CallWith, ENDPOINT).within(MS)][..]].concat();
    let client = [&begin[..], &[store(FRAME, 1_234), burn(4 * MS), load(FRAME), burn(9 * MS)]].concat();
    let works = [receive(), load(FRAME), burn(3 * MS)];
    let goes_on = [load(FRAME), store(FRAME, 99), load(FRAME), answer(), burn(9 * MS)];
    let run = run([client, vec![], [&works[..], &goes_on].concat(), vec![]]);
    assert_eq!(run.report.results[0], [TIMED_OUT, 1_234], "what the client wrote after its deadline is what it reads");
    assert_eq!(run.report.results[SERVER], [DONE, 7, 0, 99, BAD_TOKEN]);
    assert_eq!(run.faults(), []);
}

#[test]
fn a_client_that_is_stopped_does_not_harm_the_server_which_then_serves_another() {
    let client = [&[store(FRAME, 7)], &lend(FRAME, ALL)[..]].concat();
    let other = [&[burn(6 * MS)], &lend(FRAME, ALL)[..], &[load(FRAME)]].concat();
    let works = [receive(), burn(3 * MS), load(FRAME), store(FRAME, 99), answer()];
    let again = [receive(), load(FRAME), answer(), burn(9 * MS)];
    let run = run([client, other, [&works[..], &again].concat(), vec![burn(MS), stop(0)]]);
    assert_eq!(run.report.results[SERVER], [DONE, 0, BAD_TOKEN, DONE, 7, TIMED_OUT]);
    assert_eq!(run.report.results[1], [DONE, 7]);
    assert_eq!(run.faults(), []);
}

#[test]
fn a_server_that_is_stopped_leaves_the_region_to_be_lent_again() {
    let client = [&lend(FRAME, ALL)[..], &lend(FRAME, ALL), &[burn(9 * MS)]].concat();
    let run = run([client, vec![], vec![receive(), burn(9 * MS)], vec![burn(MS), stop(1)]]);
    assert_eq!(run.report.results[0], [PEER_DIED, PEER_DIED]);
    assert_eq!((run.all(Event::Lend).count(), run.all(Event::TakeBack).count()), (1, 1));
}

/// The server keeps the first request, and looks for another.
#[test]
fn a_region_is_lent_to_one_call_at_a_time() {
    let client = [&lend(FRAME, ALL)[..], &[burn(9 * MS)]].concat();
    let other = [&[burn(MS)], &lend(FRAME, ALL)[..], &lend(OWN, ALL)].concat();
    let server = vec![receive(), receive(), load(OWN), load(FRAME), answer(), burn(9 * MS)];
    let run = run([client, other, server, vec![]]);
    assert_eq!(run.report.results[1], [Error::AlreadyLent as u64, DONE]);
    assert_eq!(run.report.results[SERVER], [DONE, DONE, 0, 0, TIMED_OUT]);
}

/// A region that the client may not write, or does not let be written, or that has a place that is only read, is not written.
#[test]
fn a_loan_gives_no_more_than_client_and_place_allow() {
    for (task, region, kept) in [(0, FRAME, rights::READ), (1, FRAME, ALL), (1, OWN, ALL)] {
        let lends = [&lend(region, kept)[..], &[burn(9 * MS)]].concat();
        let mut programs = [vec![], vec![], vec![], vec![]];
        programs[task] = lends;
        programs[SERVER] = vec![receive(), load(RECEIVED), store(RECEIVED, 1), answer()];
        let run = run(programs);
        assert_eq!(run.report.results[SERVER], [DONE, 0]);
        assert_eq!(run.faults(), [SERVER], "task {task} let its region be written");
        assert_eq!(run.report.results[task], [PEER_DIED]);
    }
}

#[test]
fn what_cannot_be_lent_is_refused_and_the_server_waits_on() {
    let wrong_kind = Error::WrongKind as u64;
    let sends = [carry(FRAME, ALL), through(Call::Send, ENDPOINT)];
    let no_right = lend(OWN, ALL);
    let nothing = lend(FRAME, rights::WRITE);
    let client = [&sends[..], &no_right, &nothing, &lend(FRAME, ALL), &[burn(9 * MS)]].concat();
    let replies = [carry(FRAME, ALL), through(Call::ReplyReceive, ENDPOINT).replying(Reply::LastWith)];
    let server = [&[receive()][..], &replies, &[answer(), burn(9 * MS)]].concat();
    let run = run([client, vec![], server, vec![]]);
    assert_eq!(run.report.results[0], [wrong_kind, MISSING_RIGHT, MISSING_RIGHT, DONE]);
    assert_eq!(run.report.results[SERVER], [DONE, wrong_kind, TIMED_OUT]);
    assert_eq!(run.report.states[SERVER], State::Stopped, "it went on to its end");
}

/// A client that was given an endpoint of a server without a place for its region.
#[test]
fn a_server_without_a_place_is_lent_nothing() {
    let text = r#"
[system]
name = "no_place"
board = "virt"
cpus = 2
[clusters.all]
cpus = [0, 1]
[tasks.client]
script = ["burn 1us"]
cluster = "all"
class = "background"
handles = { e = "endpoint server: call", r = "region frame: read write lend" }
[tasks.server]
script = ["burn 1us"]
cluster = "all"
class = "background"
handles = { e = "endpoint server: receive", r = "region frame: read write", s = "system: shutdown" }
[endpoints.server]
server = "server"
[regions.frame]
bytes = "4KiB"
"#;
    let client = [&[burn(100 * US)], &lend(FRAME, ALL)[..], &lend(FRAME, ALL)].concat();
    let server = [receive().within(MS), through(Call::Exit, slot(2))];
    let run = common::run_for(text, Overheads::NONE, LIMIT, &[("client", &client, None), ("server", &server, None)]);
    assert_eq!(run.results("client"), [NO_PLACE, NO_PLACE]);
    assert_eq!(run.results("server")[0], TIMED_OUT);
}
