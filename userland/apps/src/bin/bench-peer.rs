//! The other side of each path that `bench-client` measures; the parameter `role` says which.
//!
//! | role        | handles                                                                              |
//! |-------------|--------------------------------------------------------------------------------------|
//! | 0, server   | endpoint "server" (receive)                                                          |
//! | 1, waiter   | notification "event" (wait), interrupt "line" (acknowledge), regions "samples", "clock" |
//! | 2, yielder  | notification "go" (wait), region "samples"                                           |
//! | 3, mute     | endpoint "server" (receive)                                                          |
//! | 4, caller   | endpoint "server" (call)                                                             |
//! | 5, keeper   | endpoint "keeper" (receive)                                                          |
//! | 6, front    | endpoints "front" (receive) and "server" (call)                                      |
//! | 7, busy     | endpoint "busy" (receive), notification "hurry" (signal)                             |
//! | 8, hurried  | endpoint "busy" (call), notification "hurry" (wait), region "samples"                |
//! | 9, deferring | endpoint "later" (receive), region "samples"                                        |
//! | 10, deferred | endpoint "later" (call), region "samples"                                           |
//! | 11, faulty  | endpoint "server" (receive), region "samples"                                        |
//! | 12, inbox   | endpoint "inbox" (receive), region "samples"                                         |
//! | 13, patient | notification "again" (wait), region "samples"                                        |
//! | 14, rival   | engine "mutex", pool "token" (acquire), notification "compete" (wait), region "samples" |
//! | 15, driver  | notifications "work" (wait) and "done" (signal), region "samples"                    |
//! | 16, helped  | notification "done" (wait), bound to the driver; region "samples"                    |
//!
//! A peer reads the counter first thing when it runs and leaves its value for the client. If the parameter `floats` is
//! one, it computes with floating point before.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::rows::{self, INTERRUPTED, SINCE, STAMP, clock, role};
use apps::{compute, counter};
use fusee::{
    Endpoint, Engine, Environment, Instant, Interrupt, Notification, Pool, Region, Server, environment, give_up,
    next_job, yield_now,
};

fusee::entry!(main);

fn main() {
    let environment = environment();
    if environment.parameter("floats") == Some(1) { be::<true>(&environment) } else { be::<false>(&environment) }
}

fn be<const FLOATS: bool>(environment: &Environment) {
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        role::SERVER => Server::new(environment.expect("server")).run(|_, words| {
            compute::<FLOATS>();
            words
        }),
        role::WAITER => wait::<FLOATS>(environment),
        role::YIELDER => yield_for_ever::<FLOATS>(environment),
        role::MUTE => keep_silent(environment),
        role::CALLER => {
            // One without jobs calls at once.
            let _ = next_job();
            // One of the two is stopped: no answer comes.
            let _ = environment.expect::<Endpoint>("server").call([0; 6], Instant::NEVER);
        }
        role::FRONT => {
            let server = environment.expect::<Endpoint>("server");
            Server::new(environment.expect("front")).run(|_, words| {
                compute::<FLOATS>();
                server.call(words, Instant::NEVER).unwrap_or(words)
            })
        }
        role::BUSY => {
            let hurry = environment.expect::<Notification>("hurry");
            Server::new(environment.expect("busy")).run(|_, words| {
                compute::<FLOATS>();
                if words[0] != rows::HURRIED {
                    hurry.signal(1).expect("the busy one may signal");
                }
                words
            })
        }
        role::FAULTY => fault::<FLOATS>(environment),
        role::PATIENT => wait_again::<FLOATS>(environment),
        role::RIVAL => compete::<FLOATS>(environment),
        role::DRIVER => drive::<FLOATS>(environment),
        role::HELPED => wait_for_the_driver::<FLOATS>(environment),
        role::INBOX => take_what_is_sent::<FLOATS>(environment),
        role::HURRIED => call_in_a_hurry::<FLOATS>(environment),
        role::DEFERRING => defer::<FLOATS>(environment),
        role::DEFERRED => wait_for_replies::<FLOATS>(environment),
        role::KEEPER => keep::<FLOATS>(Server::new(environment.expect("keeper"))),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn wait<const FLOATS: bool>(environment: &Environment) {
    let event = environment.expect::<Notification>("event");
    let line = environment.expect::<Interrupt>("line");
    let samples = environment.expect::<Region>("samples").shared();
    let device = environment.expect::<Region>("clock").shared();
    loop {
        let bits = event.wait(Instant::NEVER);
        let stamp = counter::<FLOATS>();
        let bits = bits.expect("the waiter may wait");
        if bits & INTERRUPTED != 0 {
            device.write_u32(clock::MASK, 0);
            line.acknowledge().expect("the waiter may acknowledge");
        }
        samples.write_u64(STAMP, stamp);
    }
}

fn wait_again<const FLOATS: bool>(environment: &Environment) {
    let again = environment.expect::<Notification>("again");
    let samples = environment.expect::<Region>("samples").shared();
    loop {
        samples.write_u64(SINCE, counter::<FLOATS>());
        again.wait(Instant::NEVER).expect("the patient one may wait");
    }
}

fn take_what_is_sent<const FLOATS: bool>(environment: &Environment) {
    let mut server = Server::new(environment.expect("inbox"));
    let samples = environment.expect::<Region>("samples").shared();
    loop {
        let request = server.receive(Instant::NEVER);
        let stamp = counter::<FLOATS>();
        let words = request.expect("the receiver may receive").words;
        samples.write_u64(STAMP, stamp + words[0]);
    }
}

fn keep_silent(environment: &Environment) {
    let mut server = Server::new(environment.expect("server"));
    loop {
        server.receive(Instant::NEVER).map(drop).expect("there is a slot for each client");
    }
}

/// Keeps handles until a request brings none.
fn keep<const FLOATS: bool>(mut server: Server) {
    let mut kept: [Option<Notification>; rows::COPIES] = [None; rows::COPIES];
    let mut request = server.receive(Instant::NEVER).expect("the keeper may receive");
    loop {
        compute::<FLOATS>();
        match (request.take(), kept.iter_mut().find(|place| place.is_none())) {
            (Some(handle), Some(place)) => *place = Some(handle),
            (Some(_), None) => panic!("more handles than the keeper can keep"),
            (None, _) => {
                for handle in kept.iter_mut().filter_map(Option::take) {
                    give_up(handle).expect("what it was given is the keeper's");
                }
            }
        }
        request = server.reply_receive(request.token, [0; 6], Instant::NEVER).expect("the client waits");
    }
}

/// Runs an instruction that is none: the emulator counts it, unlike an access that faults, and so does a profiler.
fn fault<const FLOATS: bool>(environment: &Environment) {
    let mut server = Server::new(environment.expect("server"));
    let samples = environment.expect::<Region>("samples").shared();
    server.receive(Instant::NEVER).map(drop).expect("the client calls");
    samples.write_u64(SINCE, counter::<FLOATS>());
    #[cfg(target_os = "none")]
    fusee::misbehave::provoke(fusee::misbehave::Fault::UndefinedInstruction);
}

fn compete<const FLOATS: bool>(environment: &Environment) {
    let signal = environment.expect::<Notification>("compete");
    let (mutex, mut token) = (environment.expect::<Engine>("mutex"), environment.expect::<Pool>("token"));
    let samples = environment.expect::<Region>("samples").shared();
    loop {
        let told = signal.wait(Instant::NEVER).expect("the rival may wait");
        let before = || {
            if told & rows::BEFORE != 0 {
                samples.write_u64(SINCE, counter::<FLOATS>());
            }
        };
        let after = || {
            if told & rows::AFTER != 0 {
                samples.write_u64(STAMP, counter::<FLOATS>());
            }
        };
        if told & rows::FOR_A_TOKEN != 0 {
            before();
            let held = token.acquire(Instant::NEVER);
            after();
            held.expect("the token is granted at last").release().expect("the rival holds it");
        } else {
            before();
            let held = mutex.acquire(Instant::NEVER);
            after();
            held.expect("the mutex is granted at last").release().expect("the rival holds it");
        }
    }
}

fn drive<const FLOATS: bool>(environment: &Environment) {
    let (work, done) = (environment.expect::<Notification>("work"), environment.expect::<Notification>("done"));
    let samples = environment.expect::<Region>("samples").shared();
    loop {
        work.wait(Instant::NEVER).expect("the driver may wait");
        samples.write_u64(SINCE, counter::<FLOATS>());
        done.signal(rows::SIGNALLED).expect("the driver may signal");
    }
}

fn wait_for_the_driver<const FLOATS: bool>(environment: &Environment) {
    let done = environment.expect::<Notification>("done");
    let samples = environment.expect::<Region>("samples").shared();
    loop {
        let told = done.wait(Instant::NEVER);
        samples.write_u64(STAMP, counter::<FLOATS>());
        told.expect("the helped one may wait");
    }
}

fn call_in_a_hurry<const FLOATS: bool>(environment: &Environment) {
    let hurry = environment.expect::<Notification>("hurry");
    let busy = environment.expect::<Endpoint>("busy");
    let samples = environment.expect::<Region>("samples").shared();
    loop {
        hurry.wait(Instant::NEVER).expect("the hurried one may wait");
        let since = counter::<FLOATS>();
        let result = busy.call([rows::HURRIED, 0, 0, 0, 0, 0], Instant::NEVER);
        let stamp = counter::<FLOATS>();
        result.expect("the busy one answers");
        samples.write_u64(SINCE, since);
        samples.write_u64(STAMP, stamp);
    }
}

fn wait_for_replies<const FLOATS: bool>(environment: &Environment) {
    let later = environment.expect::<Endpoint>("later");
    let samples = environment.expect::<Region>("samples").shared();
    loop {
        let result = later.call([rows::HURRIED, 0, 0, 0, 0, 0], Instant::NEVER);
        let stamp = counter::<FLOATS>();
        result.expect("the reply comes at last");
        samples.write_u64(STAMP, stamp);
    }
}

/// Answers the client once the other has been answered, and has called again.
fn defer<const FLOATS: bool>(environment: &Environment) {
    let mut server = Server::new(environment.expect("later"));
    let samples = environment.expect::<Region>("samples").shared();
    let mut kept = server.receive(Instant::NEVER).expect("the other calls first");
    loop {
        let request = server.receive(Instant::NEVER).expect("the client calls");
        samples.write_u64(SINCE, counter::<FLOATS>());
        let next = server.reply_receive(kept.token, kept.words, Instant::NEVER).expect("the other calls again");
        kept = next;
        let reply = server.reply(request.token, request.words).expect("the client waits");
        assert!(reply.is_none(), "a request of nobody");
    }
}

fn yield_for_ever<const FLOATS: bool>(environment: &Environment) {
    let samples = environment.expect::<Region>("samples").shared();
    environment.expect::<Notification>("go").wait(Instant::NEVER).expect("the yielder may wait");
    loop {
        let stamp = counter::<FLOATS>();
        samples.write_u64(STAMP, stamp);
        yield_now().expect("no job can overrun here");
    }
}
