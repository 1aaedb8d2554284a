//! A server that works in place on regions lent by its clients, and clients that go away in the middle: the parameter
//! `role` selects one.
//!
//! | role        | handles                                                                                          |
//! |-------------|--------------------------------------------------------------------------------------------------|
//! | 0, director | endpoint "server" (call), region "frame" (read, write, lend), tasks "victim1" ... "victim4" (stop) |
//! | 1, server   | endpoint "server" (receive), place "frame" (read, write, lent)                                   |
//! | 2, victim   | endpoint "server" (call), region "frame" (read, write, lend)                                     |
//!
//! Director and server log their observations, as `log(request, word)`; a director with all expected ones exits with code 0.
//! At the end the server reads a region that is lent to it no more, which must fault. There is no limit but that of the run, since the
//! emulator of a busy host may stop the server's CPU for seconds.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::Error;
use fusee::misbehave::{Fault, provoke};
use fusee::{
    CallLendingError, Endpoint, Environment, Instant, Nanoseconds, Place, Region, Request, Rights, ServeError, Server,
    SharedBytes, Task, burn, environment, log, now, relax, sleep_until,
};

fusee::entry!(main);

/// Adds one to the first and the last word of each page. Answer: how many pages there are.
const ADD: u64 = 1;
/// Answer: one if the region may be written.
const ASK: u64 = 2;
/// Works until the region is taken back; the second word is the client's number.
const HOLD: u64 = 3;
/// Answers, and then reads on.
const TRESPASS: u64 = 4;

const PAGE: usize = 4096;
/// Offset of a word that is [`MINE`] in the region, and zero in scratch memory, where it is never written.
const OWNER: usize = 0;
/// Offset of the word that the server writes while it works: the client's number, and below that a count.
const COUNT: usize = 8;
/// Offset of a word that tells victims to begin.
const BEGIN: usize = 16;
const MINE: u64 = 0xf05e_e001;
const SECRET: u64 = 0xf05e_e002;

const VICTIMS: u64 = 4;
const SHORT: Nanoseconds = Nanoseconds(1_000_000);
/// The server has begun to work by then.
const LONG: Nanoseconds = Nanoseconds(5_000_000);

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => direct(&environment),
        1 => serve(&environment),
        2 => be_stopped(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

//--- Clients

fn direct(environment: &Environment) {
    let (server, region) = (environment.expect::<Endpoint>("server"), environment.expect::<Region>("frame"));
    let frame = region.shared();
    let (both, never) = (Rights::READ | Rights::WRITE, Instant::NEVER);

    for page in 0..frame.len() / PAGE {
        frame.write_u64(page * PAGE, page as u64);
        frame.write_u64((page + 1) * PAGE - 8, !(page as u64));
    }
    let answer = server.call_lending([ADD, 0, 0, 0, 0, 0], &region, both, never).expect("the server answers");
    for page in 0..frame.len() / PAGE {
        assert_eq!(frame.read_u64(page * PAGE), page as u64 + 1, "the first word of page {page}");
        assert_eq!(frame.read_u64((page + 1) * PAGE - 8), !(page as u64) + 1, "the last word of page {page}");
    }
    log(ADD, answer.words[0]);

    let asked = server.call_lending([ASK, 0, 0, 0, 0, 0], &region, Rights::READ, never);
    log(ASK, asked.expect("the server answers").words[0]);

    time_out(server, &region);
    frame.write_u64(BEGIN, 1);
    for _ in 0..VICTIMS {
        stop_one(environment, frame);
    }

    let last = server.call_lending([TRESPASS, 0, 0, 0, 0, 0], &region, both, never);
    assert!(last.is_ok(), "the server answers: {last:?}");
}

/// A write after the deadline reaches no client, and the region stays as it is.
fn time_out(server: Endpoint, region: &Region) {
    let frame = region.shared();
    let mut patience = LONG;
    // Emulated on a busy host, the server may not have begun by then: once more, with more time.
    let (held, count) = loop {
        frame.write_u64(OWNER, MINE);
        let deadline = now().now + patience;
        let held = server.call_lending([HOLD, 0, 0, 0, 0, 0], region, Rights::READ | Rights::WRITE, deadline);
        frame.write_u64(OWNER, SECRET);
        let count = frame.read_u64(COUNT);
        if count > 0 {
            break (held, count);
        }
        patience = Nanoseconds(patience.0 * 2);
    };
    log(HOLD, if let Err(CallLendingError::TimedOut) = held { Error::TimedOut as u64 } else { 0 });
    burn(LONG);
    assert_eq!(frame.read_u64(COUNT), count, "the server has written once more");
    assert_eq!(frame.read_u64(OWNER), SECRET);
}

/// Stops the victim that the server works for.
fn stop_one(environment: &Environment, frame: SharedBytes) {
    const NAMES: [&str; VICTIMS as usize] = ["victim1", "victim2", "victim3", "victim4"];
    loop {
        let count = frame.read_u64(COUNT);
        // Zero: left by the director's own call, or by the victim before.
        let Some(name) = (count >> 32).checked_sub(1).and_then(|victim| NAMES.get(victim as usize)) else {
            relax();
            continue;
        };
        if count as u32 > 100 {
            environment.expect::<Task>(name).stop().expect("the director may stop victims");
            let last = frame.read_u64(COUNT);
            burn(Nanoseconds(100_000));
            let now = frame.read_u64(COUNT);
            assert!(now == last || now >> 32 != last >> 32, "the server has written once more");
            // Unless it works for the next already.
            if now == last {
                frame.write_u64(COUNT, 0);
            }
            return;
        }
        relax();
    }
}

fn be_stopped(environment: &Environment) {
    let (server, region) = (environment.expect::<Endpoint>("server"), environment.expect::<Region>("frame"));
    while region.shared().read_u64(BEGIN) == 0 {
        sleep_until(now().now + SHORT).expect("a victim may sleep");
    }
    region.shared().write_u64(OWNER, MINE);
    let number = environment.task_name().bytes().last().map_or(0, |digit| u64::from(digit - b'0'));
    let rights = Rights::READ | Rights::WRITE;
    let held = server.call_lending([HOLD, number, 0, 0, 0, 0], &region, rights, Instant::NEVER);
    panic!("the victim lives on: {held:?}");
}

//--- The server

/// Sums over the requests to hold: one of each victim, and one or more of the director, of which a late one may begin as its time ends.
#[derive(Default)]
struct Held {
    times: u64,
    /// Replies that came too late.
    refused: u64,
    /// Contents of others that were seen.
    seen: u64,
}

fn serve(environment: &Environment) {
    let mut server = Server::new(environment.expect("server"));
    let place = environment.expect::<Place>("frame");
    let mut held = Held::default();
    let mut next = server.receive(Instant::NEVER);
    loop {
        let request = match next {
            Ok(request) => request,
            Err(ServeError::BadToken) => {
                held.refused += 1;
                server.receive(Instant::NEVER).expect("the server may receive")
            }
            Err(error) => panic!("no request: {error:?}"),
        };
        let answer = match request.words[0] {
            ADD => add(&request, &place),
            ASK => u64::from(request.lent_to_write(&place).is_some()),
            HOLD => {
                held.times += 1;
                held.seen += hold(&request, &place);
                0
            }
            _ => {
                log(HOLD, held.seen);
                log(TRESPASS, u64::from(held.times > VICTIMS && held.refused == held.times));
                let rest = server.reply(request.token, [0; 6]);
                assert!(matches!(rest, Ok(None)), "nobody else asks: {rest:?}");
                provoke(Fault::ReadUnlent(place))
            }
        };
        next = server.reply_receive(request.token, [answer, 0, 0, 0, 0, 0], Instant::NEVER);
    }
}

fn add(request: &Request, place: &Place) -> u64 {
    let frame = request.lent_to_write(place).expect("the region is lent to be written");
    let pages = frame.len() / PAGE;
    for page in 0..pages {
        for offset in [page * PAGE, (page + 1) * PAGE - 8] {
            frame.write_u64(offset, frame.read_u64(offset).wrapping_add(1));
        }
    }
    pages as u64
}

/// Writes until the region is gone, and then for a while. The result is how often it saw contents of others.
fn hold(request: &Request, place: &Place) -> u64 {
    let frame = request.lent_to_write(place).expect("the region is lent to be written");
    let mut count = 0;
    while frame.read_u64(OWNER) == MINE {
        count += 1;
        frame.write_u64(COUNT, request.words[1] << 32 | count);
        // In the simulator no time passes otherwise.
        if count % 64 == 0 {
            relax();
        }
    }
    let mut seen = 0;
    for round in 0..10_000 {
        seen += u64::from(frame.read_u64(OWNER) != 0);
        frame.write_u64(COUNT, round);
        // The last page is the same one.
        seen += u64::from(frame.read_u64(frame.len() - PAGE + COUNT) != round);
    }
    seen
}
