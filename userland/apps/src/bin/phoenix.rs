//! Tasks that end and are given other lives, and a client of one.
//!
//! | role        | does                                                                                                       |
//! |-------------|------------------------------------------------------------------------------------------------------------|
//! | 0, worker   | does jobs; in each life it panics in job `ends_in`, unless this is life `last`                       |
//! | 1, server   | prepares itself for `prepares_us`, then serves endpoint "requests" (receive): a first word of one ends it by a panic, others are answered with the life it is |
//! | 2, client   | calls "requests" (call): `calls` times to be answered, then once to end it, and all that `rounds` times; then until it was told of `lives` others |
//! | 3, breaker  | ends the task "victim" (stop) `rounds` times, `every_us` apart, each time after "progress" (wait) if it has that, and then the system, if it has a handle |
//!
//! Each life of 0 and 1 looks whether its data are as at first, and spoils them: it logs (1) its number, in the upper half one if anything was not. A worker logs in its
//! last life how many jobs it has done there by the tenth (2). A client logs how many answers were wrong (1), or of another life than before although it had not
//! been told; how many requests ended the server (2), and how often it was told that the server had begun another life (3).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use apps::meeting::wait;
use fusee::{
    CallError, Endpoint, Environment, Instant, Nanoseconds, Server, System, Task, burn, environment, life, log,
    next_job, now, shutdown, sleep_until,
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
            panic!("as it was told to");
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
    let (mut wrong, mut died, mut told) = (0, 0, 0);
    // Which life answers, once one has.
    let mut known = Some(0);
    let mut ask = |word: u64, told: &mut u64| loop {
        match server.call([word, 0, 0, 0, 0, 0], Instant::NEVER) {
            Ok(answer) => {
                let is_right = answer[0] == word + 1 && known.is_none_or(|known| answer[1] == known);
                known = Some(answer[1]);
                return Ok(is_right);
            }
            Err(CallError::PeerRestarted) => (*told, known) = (*told + 1, None),
            Err(CallError::PeerDied) if word == 1 => return Err(CallError::PeerDied),
            Err(CallError::PeerDied) => sleep_until(now().now + Nanoseconds(500_000)).expect("it may sleep"),
            Err(error) => panic!("{error:?}"),
        }
    };
    for round in 0..number("rounds") {
        for call in 0..number("calls") {
            wrong += u64::from(ask(10 + call, &mut told) != Ok(true));
        }
        if round + 1 < number("rounds") {
            died += u64::from(ask(1, &mut told).is_err());
        }
    }
    while told < number("lives") {
        wrong += u64::from(ask(10, &mut told) != Ok(true));
    }
    log(1, wrong);
    log(2, died);
    log(3, told);
}

fn stop(environment: &Environment) {
    let victim = environment.expect::<Task>("victim");
    let number = |name| environment.parameter(name).unwrap_or(0);
    for _ in 0..number("rounds") {
        wait(environment, "progress");
        sleep_until(now().now + Nanoseconds(number("every_us") * 1_000)).expect("it may sleep");
        victim.stop().expect("it may");
    }
    if let Ok(system) = environment.get::<System>("system") {
        shutdown(system, 0);
    }
}
