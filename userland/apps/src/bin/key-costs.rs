//! The cost of an engine with a device that decides by keys, in instructions: the shortest of several times, less the code around it.
//!
//! | role      | measures                                                                            | handles                                                |
//! |-----------|-------------------------------------------------------------------------------------|--------------------------------------------------------|
//! | 0, client | an `acquire` (0), a `release` (1), and a call and its reply while the server has an engine (2): with the call it has the client's key, with the reply none | engine "ee" (acquire), endpoint "desk" (call), "system" |
//! | 1, server | nothing: it acquires the engine when it is called first                              | engine "ee" (acquire), endpoint "desk" (receive)        |
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::least;
use fusee::{
    Endpoint, Engine, Environment, Instant, Nanoseconds, Server, System, counter, environment, log, now, shutdown,
    sleep_until,
};

fusee::entry!(main);

const SAMPLES: usize = 64;
/// How long the driver takes to begin, at most.
const BEGINNING: Nanoseconds = Nanoseconds(2_000_000);

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => measure(&environment),
        1 => serve(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn measure(environment: &Environment) {
    sleep_until(now().now + BEGINNING).expect("sleeping is allowed");
    let engine = environment.expect::<Engine>("ee");
    let desk = environment.expect::<Endpoint>("desk");
    let around = least(SAMPLES, || ());
    let (mut acquired, mut released) = (u64::MAX, u64::MAX);
    for _ in 0..SAMPLES {
        let before = counter();
        let guard = engine.acquire(Instant::NEVER).expect("it is granted at once");
        let between = counter();
        guard.release().expect("it is held");
        (acquired, released) = (acquired.min(between - before), released.min(counter() - between));
    }
    log(0, acquired - around);
    log(1, released - around);
    let call = || {
        desk.call([0; 6], Instant::NEVER).expect("the server serves");
    };
    call();
    log(2, least(SAMPLES, call) - around);
    shutdown(environment.expect::<System>("system"), 0)
}

fn serve(environment: &Environment) {
    let engine = environment.expect::<Engine>("ee");
    let mut server = Server::new(environment.expect::<Endpoint>("desk"));
    let mut request = server.receive(Instant::NEVER).expect("the client lives");
    let _guard = engine.acquire(Instant::NEVER).expect("it is granted at once");
    loop {
        request = server.reply_receive(request.token, [0; 6], Instant::NEVER).expect("the client lives");
    }
}
