//! The other side of each path that `bench-client` measures; the parameter `role` says which.
//!
//! | role        | handles                                                                              |
//! |-------------|--------------------------------------------------------------------------------------|
//! | 0, server   | endpoint "server" (receive)                                                          |
//! | 1, waiter   | notification "event" (wait), interrupt "line" (acknowledge), regions "samples", "clock" |
//! | 2, yielder  | notification "go" (wait), region "samples"                                           |
//! | 3, mute     | endpoint "server" (receive)                                                          |
//! | 4, caller   | endpoint "server" (call)                                                             |
//!
//! A peer reads the counter first thing when it runs and leaves what it read for the client.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::rows::{INTERRUPTED, STAMP, clock, role};
use fusee::{
    Endpoint, Environment, Instant, Interrupt, Notification, Region, Server, counter, environment, next_job, yield_now,
};

fusee::entry!(main);

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        role::SERVER => Server::new(environment.expect("server")).run(|_, words| words),
        role::WAITER => wait(&environment),
        role::YIELDER => yield_for_ever(&environment),
        role::MUTE => keep_silent(&environment),
        role::CALLER => {
            // One without jobs calls at once.
            let _ = next_job();
            // Whichever of the two is stopped: nobody answers.
            let _ = environment.expect::<Endpoint>("server").call([0; 6], Instant::NEVER);
        }
        unknown => panic!("there is no role {unknown}"),
    }
}

fn wait(environment: &Environment) {
    let event = environment.expect::<Notification>("event");
    let line = environment.expect::<Interrupt>("line");
    let samples = environment.expect::<Region>("samples").shared();
    let device = environment.expect::<Region>("clock").shared();
    loop {
        let bits = event.wait(Instant::NEVER);
        let stamp = counter();
        let bits = bits.expect("the waiter may wait");
        if bits & INTERRUPTED != 0 {
            device.write_u32(clock::MASK, 0);
            line.acknowledge().expect("the waiter may acknowledge");
        }
        samples.write_u64(STAMP, stamp);
    }
}

fn keep_silent(environment: &Environment) {
    let mut server = Server::new(environment.expect("server"));
    loop {
        server.receive(Instant::NEVER).map(drop).expect("there is a slot for each client");
    }
}

fn yield_for_ever(environment: &Environment) {
    let samples = environment.expect::<Region>("samples").shared();
    environment.expect::<Notification>("go").wait(Instant::NEVER).expect("the yielder may wait");
    loop {
        let stamp = counter();
        samples.write_u64(STAMP, stamp);
        yield_now().expect("no job can overrun here");
    }
}
