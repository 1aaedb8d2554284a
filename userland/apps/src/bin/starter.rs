//! Starts and stops tasks that are dormant, and calls one of them between.
//!
//! Handles: tasks "server" and "worker" (start, stop), endpoint "door" (call), "system" (shutdown). It logs what calls are answered with, `log(1, error)`, zero if with a reply; the numbers of the server's
//! lives, `log(2, life)`; and what a start of the worker is answered with, `log(3, error)`.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::Error;
use fusee::{
    CallError, Endpoint, Instant, Nanoseconds, RestartError, System, Task, environment, log, now, shutdown, sleep_until,
};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let door = environment.expect::<Endpoint>("door");
    let [server, worker] = ["server", "worker"].map(|name| environment.expect::<Task>(name));
    let call = || {
        log(
            1,
            match door.call([0; 6], Instant::NEVER) {
                Ok(_) => 0,
                Err(CallError::PeerDied) => Error::PeerDied as u64,
                Err(CallError::PeerRestarted) => Error::PeerRestarted as u64,
                Err(_) => u64::MAX,
            },
        );
    };
    call();
    for life in 0..2 {
        log(2, server.start().map_or(u64::MAX, u64::from));
        call();
        if life == 0 {
            server.stop().expect("it may be stopped");
        }
        call();
    }
    for _ in 0..2 {
        log(
            3,
            match worker.start() {
                Ok(_) => 0,
                Err(RestartError::NotEnded) => Error::NotEnded as u64,
                Err(_) => u64::MAX,
            },
        );
    }
    let _ = sleep_until(now().now + Nanoseconds(50_000_000));
    shutdown(environment.expect::<System>("system"), 0)
}
