//! Tasks that end and are given other lives, and a client of one.
//!
//! | role        | does                                                                                                       |
//! |-------------|------------------------------------------------------------------------------------------------------------|
//! | 0, worker   | does jobs; in each life it ends by a fault in job `ends_in`, unless this is life `last`                       |
//! | 1, server   | prepares itself for `prepares_us`, then serves endpoint "requests" (receive): a first word of one ends it by a panic, others are answered with the life it is |
//! | 2, client   | calls "requests": `calls` times to be answered, then once to end it, and all that `rounds` times                |
//! | 3, breaker  | ends the task "victim" (stop) `rounds` times, `every_ms` after it has seen it alive                             |
//!
//! Each life of 0 and 1 looks whether its data are as at first, and spoils them: it logs (1) its number, in the upper half one if anything was not. A worker logs in its
//! last life how many jobs it has done there by the tenth (2). A client logs how many calls were answered (1) by the server as it must be, how many requests
//! died with it (2), and how often it was told that the server had begun another life (3).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use fusee::{
    CallError, Endpoint, Environment, Instant, Nanoseconds, Server, Task, burn, environment, life, log, next_job, now,
    sleep_until,
};

fusee::entry!(main);

/// Data that a life finds as they were written here.
static GIVEN: AtomicU64 = AtomicU64::new(0x0123_4567_89ab_cdef);
/// And such that it finds zero, more than a page of them.
static ZERO: [AtomicU64; 700] = [const { AtomicU64::new(0) }; 700];

/// Whether all is as at first; afterwards it is not.
fn find_and_spoil() -> bool {
    let given = GIVEN.swap(life().into(), Ordering::Relaxed) == 0x0123_4567_89ab_cdef;
    ZERO.iter().fold(given, |found, word| found & (word.swap(u64::MAX, Ordering::Relaxed) == 0))
}

fn say_life() {
    let is_spoilt = !find_and_spoil();
    log(1, u64::from(life()) | u64::from(is_spoilt) << 32);
}

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => work(&environment),
        1 => serve(&environment),
        2 => ask(&environment),
        3 => stop(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn work(environment: &Environment) {
    say_life();
    let number = |name| environment.parameter(name).unwrap_or(0);
    let is_last = u64::from(life()) == number("last");
    for done in 1.. {
        next_job().expect("this task has jobs");
        if done == number("ends_in") && !is_last {
            // No program has this address.
            let nothing: Option<&u64> = None;
            log(9, *nothing.expect("there is nothing"));
        }
        if done == 10 {
            log(2, done);
        }
    }
}

fn serve(environment: &Environment) {
    say_life();
    burn(Nanoseconds(environment.parameter("prepares_us").unwrap_or(0) * 1000));
    let mut server = Server::new(environment.expect::<Endpoint>("requests"));
    let mut request = server.receive(Instant::NEVER).expect("somebody asks");
    loop {
        assert!(request.words[0] != 1, "asked to end");
        let answer = [request.words[0] + 1, life().into(), 0, 0, 0, 0];
        request = server.reply_receive(request.token, answer, Instant::NEVER).expect("somebody asks");
    }
}

fn ask(environment: &Environment) {
    let number = |name| environment.parameter(name).unwrap_or(0);
    let server = environment.expect::<Endpoint>("requests");
    let (mut right, mut died, mut told) = (0, 0, 0);
    for round in 0..number("rounds") {
        let mut answered = 0;
        while answered < number("calls") {
            match server.call([10 + answered, 0, 0, 0, 0, 0], Instant::NEVER) {
                Ok(answer) => {
                    right += u64::from(answer[..2] == [11 + answered, round]);
                    answered += 1;
                }
                Err(CallError::PeerRestarted) => told += 1,
                Err(CallError::PeerDied) => sleep_until(now().now + Nanoseconds(1_000_000)).expect("it may sleep"),
                Err(error) => panic!("{error:?}"),
            }
        }
        if round + 1 < number("rounds") {
            died += u64::from(server.call([1, 0, 0, 0, 0, 0], Instant::NEVER) == Err(CallError::PeerDied));
        }
    }
    log(1, right);
    log(2, died);
    log(3, told);
}

fn stop(environment: &Environment) {
    let victim = environment.expect::<Task>("victim");
    let number = |name| environment.parameter(name).unwrap_or(0);
    for _ in 0..number("rounds") {
        sleep_until(now().now + Nanoseconds(number("every_ms") * 1_000_000)).expect("it may sleep");
        victim.stop().expect("it may");
    }
}
