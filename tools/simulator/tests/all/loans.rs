//! Regions lent for the duration of a call, one story each. Histories at random are in `kernel/core/tests/loans.rs`.

use std::fmt::Write;
use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::{Call, HandleValue, rights};
use fusee_abi::trace::Event;
use fusee_kernel_core::object::State;
use fusee_manifest::Manifest;
use fusee_simulator::{Options, Program, RECEIVED, Reply, Report, Request, Until, simulate_with};

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const ALL: u32 = rights::READ | rights::WRITE;
const DONE: u64 = 0;

const MISSING_RIGHT: u64 = Error::MissingRight as u64;
const TIMED_OUT: u64 = Error::TimedOut as u64;
const BAD_TOKEN: u64 = Error::BadToken as u64;
const NO_PLACE: u64 = Error::NoHandleSlot as u64;
const PEER_DIED: u64 = Error::PeerDied as u64;

/// Tasks on a CPU of their own, with what the manifest gives them, by the order of their slots.
const TASKS: [(&str, &[&str]); 4] = [
    ("client", &["endpoint server: call send", "region frame: read write lend", "region own: read write"]),
    ("other", &["endpoint server: call", "region frame: read lend", "region own: read write lend"]),
    ("server", &["endpoint server: receive", "region frame: read write lent", "region own: read lent"]),
    ("killer", &["task client: stop", "task server: stop"]),
];
const SERVER: usize = 2;
/// Slots: of the endpoint, of the region that is lent, of another.
const ENDPOINT: u64 = HandleValue::new(0, 1).0;
const FRAME: u64 = HandleValue::new(1, 1).0;
const OWN: u64 = HandleValue::new(2, 1).0;

fn request(call: Call, handle: u64, until: Until, reply: Reply) -> Request {
    Request::Call { number: call as u64, first: handle, second: 1, word: 0, until, reply }
}

fn receive() -> Request {
    request(Call::Receive, ENDPOINT, Until::Never, Reply::Nobody)
}

/// Answers the last request, and goes on.
fn answer() -> Request {
    request(Call::ReplyReceive, ENDPOINT, Until::After(0), Reply::Last)
}

/// Calls the server and lends it this region, to be used so.
fn lend(region: u64, kept: u32, until: Until) -> [Request; 2] {
    [Request::With { given: region, kept }, request(Call::CallWith, ENDPOINT, until, Reply::Nobody)]
}

fn burn(microseconds: u64) -> Request {
    Request::Burn(microseconds * US)
}

fn stop(slot: u16) -> Request {
    request(Call::Stop, HandleValue::new(slot, 1).0, Until::Never, Reply::Nobody)
}

/// Lets the tasks make these requests.
fn run(programs: [Vec<Request>; 4]) -> Report {
    let mut text = String::from("[system]\nname = \"loans\"\nboard = \"virt\"\ncpus = 5\nstart = \"1ms\"\n");
    let mut line = |text_of: String| writeln!(text, "{text_of}").expect("a string takes everything");
    line("[clusters.all]\ncpus = [0, 1, 2, 3, 4]".into());
    for (name, handles) in TASKS {
        line(format!("[tasks.{name}]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nclass = \"background\""));
        line(format!("[tasks.{name}.handles]"));
        handles.iter().enumerate().for_each(|(slot, handle)| line(format!("h{slot} = \"{handle}\"")));
    }
    line("[endpoints.server]\nserver = \"server\"".into());
    line("[regions.frame]\nbytes = \"4MiB\"\n[regions.own]\nbytes = \"4KiB\"".into());
    line("[tasks.end]\nscript = [\"sleep 50ms\", \"shutdown\"]\ncluster = \"all\"\nperiod = \"1s\"".into());
    line("budget = \"1ms\"\nhandles = { system = \"system: shutdown\" }".into());
    let manifest = Manifest::parse(Path::new("loans.toml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let programs = programs.map(|requests| Program::Requests { requests, again_from: None });
    let options = Options { programs: programs.into_iter().enumerate().collect(), ..Options::default() };
    let report = simulate_with(&manifest, &options, 100 * MS).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.exit, Some(0));
    report
}

fn faults(report: &Report) -> Vec<u16> {
    report.records.iter().filter(|one| one.event == Event::Fault as u8).map(|one| one.thread - 1).collect()
}

#[test]
fn a_server_works_in_place_on_what_it_is_lent_and_loses_it_with_its_reply() {
    let client =
        [&[Request::Store(FRAME, 7)], &lend(FRAME, ALL, Until::Never)[..], &[Request::Load(FRAME), burn(9_000)]];
    let works = [receive(), Request::Load(RECEIVED), Request::Store(FRAME, 8), Request::Load(FRAME), answer()];
    let server = [&works[..], &[Request::Load(FRAME), receive()]].concat();
    let report = run([client.concat(), vec![], server, vec![]]);
    assert_eq!(report.results[0], [DONE, 8]);
    assert_eq!(report.results[SERVER], [DONE, 7, 8, TIMED_OUT]);
    assert_eq!(faults(&report), [SERVER as u16], "after its reply the server reached what was lent to it");
}

#[test]
fn what_nobody_has_lent_yet_cannot_be_reached() {
    let report = run([vec![], vec![], vec![Request::Load(FRAME), receive()], vec![]]);
    assert_eq!(faults(&report), [SERVER as u16]);
}

/// The server is in the middle of its work when the client's deadline passes, and stays so for a while.
#[test]
fn a_client_that_times_out_has_its_region_back_and_does_not_harm_the_server() {
    let begin = [&[Request::Store(FRAME, 7)], &lend(FRAME, ALL, Until::After(MS))[..]].concat();
    let client = [&begin[..], &[Request::Store(FRAME, 1_234), burn(4_000), Request::Load(FRAME), burn(9_000)]].concat();
    let works = [receive(), Request::Load(FRAME), burn(3_000)];
    let goes_on = [Request::Load(FRAME), Request::Store(FRAME, 99), Request::Load(FRAME), answer(), burn(9_000)];
    let report = run([client, vec![], [&works[..], &goes_on].concat(), vec![]]);
    assert_eq!(report.results[0], [TIMED_OUT, 1_234], "what the client wrote after its deadline is what it reads");
    assert_eq!(report.results[SERVER], [DONE, 7, 0, 99, BAD_TOKEN]);
    assert_eq!(faults(&report), []);
}

#[test]
fn a_client_that_is_stopped_does_not_harm_the_server_which_then_serves_another() {
    let client = [&[Request::Store(FRAME, 7)], &lend(FRAME, ALL, Until::Never)[..]].concat();
    let other = [&[burn(6_000)], &lend(FRAME, ALL, Until::Never)[..], &[Request::Load(FRAME)]].concat();
    let works = [receive(), burn(3_000), Request::Load(FRAME), Request::Store(FRAME, 99), answer()];
    let again = [receive(), Request::Load(FRAME), answer(), burn(9_000)];
    let report = run([client, other, [&works[..], &again].concat(), vec![burn(1_000), stop(0)]]);
    assert_eq!(report.results[SERVER], [DONE, 0, BAD_TOKEN, DONE, 7, TIMED_OUT]);
    assert_eq!(report.results[1], [DONE, 7]);
    assert_eq!(faults(&report), []);
}

#[test]
fn a_server_that_is_stopped_leaves_the_region_to_be_lent_again() {
    let client = [&lend(FRAME, ALL, Until::Never)[..], &lend(FRAME, ALL, Until::Never), &[burn(9_000)]].concat();
    let report = run([client, vec![], vec![receive(), burn(9_000)], vec![burn(1_000), stop(1)]]);
    assert_eq!(report.results[0], [PEER_DIED, PEER_DIED]);
    let ends = |event: Event| report.records.iter().filter(|one| one.event == event as u8).count();
    assert_eq!((ends(Event::Lend), ends(Event::TakeBack)), (1, 1));
}

/// The server keeps the first request, and looks for another.
#[test]
fn a_region_is_lent_to_one_call_at_a_time() {
    let client = [&lend(FRAME, ALL, Until::Never)[..], &[burn(9_000)]].concat();
    let other = [&[burn(1_000)], &lend(FRAME, ALL, Until::Never)[..], &lend(OWN, ALL, Until::Never)].concat();
    let server = vec![receive(), receive(), Request::Load(OWN), Request::Load(FRAME), answer(), burn(9_000)];
    let report = run([client, other, server, vec![]]);
    assert_eq!(report.results[1], [Error::AlreadyLent as u64, DONE]);
    assert_eq!(report.results[SERVER], [DONE, DONE, 0, 0, TIMED_OUT]);
}

/// What the client may not write, or does not let be written, or what has a place that is only read, is not written.
#[test]
fn a_loan_gives_no_more_than_client_and_place_allow() {
    for (task, region, kept) in [(0, FRAME, rights::READ), (1, FRAME, ALL), (1, OWN, ALL)] {
        let lends = [&lend(region, kept, Until::Never)[..], &[burn(9_000)]].concat();
        let mut programs = [vec![], vec![], vec![], vec![]];
        programs[task] = lends;
        programs[SERVER] = vec![receive(), Request::Load(RECEIVED), Request::Store(RECEIVED, 1), answer()];
        let report = run(programs);
        assert_eq!(report.results[SERVER], [DONE, 0]);
        assert_eq!(faults(&report), [SERVER as u16], "task {task} let its region be written");
        assert_eq!(report.results[task], [PEER_DIED]);
    }
}

#[test]
fn what_cannot_be_lent_is_refused_and_the_server_waits_on() {
    let wrong_kind = Error::WrongKind as u64;
    let sends = [Request::With { given: FRAME, kept: ALL }, request(Call::Send, ENDPOINT, Until::Never, Reply::Nobody)];
    let no_right = lend(OWN, ALL, Until::Never);
    let nothing = lend(FRAME, rights::WRITE, Until::Never);
    let client = [&sends[..], &no_right, &nothing, &lend(FRAME, ALL, Until::Never), &[burn(9_000)]].concat();
    let replies = [
        Request::With { given: FRAME, kept: ALL },
        request(Call::ReplyReceive, ENDPOINT, Until::Never, Reply::LastWith),
    ];
    let server = [&[receive()][..], &replies, &[answer(), burn(9_000)]].concat();
    let report = run([client, vec![], server, vec![]]);
    assert_eq!(report.results[0], [wrong_kind, MISSING_RIGHT, MISSING_RIGHT, DONE]);
    assert_eq!(report.results[SERVER], [DONE, wrong_kind, TIMED_OUT]);
    assert_eq!(report.states[SERVER], State::Stopped, "it went on to its end");
}

/// A client that was given an endpoint whose server has no place for its region.
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
    let manifest = Manifest::parse(Path::new("no_place.toml"), text).unwrap_or_else(|error| panic!("{error}"));
    let client = [&[burn(100)], &lend(FRAME, ALL, Until::Never)[..], &lend(FRAME, ALL, Until::Never)].concat();
    let waits = |span| request(Call::Receive, ENDPOINT, Until::After(span), Reply::Nobody);
    let end = request(Call::Exit, HandleValue::new(2, 1).0, Until::Never, Reply::Nobody);
    let programs = [client, vec![waits(MS), end]].map(|requests| Program::Requests { requests, again_from: None });
    let options = Options { programs: programs.into_iter().enumerate().collect(), ..Options::default() };
    let report = simulate_with(&manifest, &options, 100 * MS).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.results[0], [NO_PLACE, NO_PLACE]);
    assert_eq!(report.results[1][0], TIMED_OUT);
}
