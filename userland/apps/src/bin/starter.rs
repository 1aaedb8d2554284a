//! Starts and stops tasks that are dormant, and calls one of them between.
//!
//! Handles: tasks "server" and "worker" (start, stop), endpoint "door" (call), "system" (shutdown). It logs the answers to calls, `log(1, error)`,
//! zero if with a reply; the numbers of the server's lives, `log(2, life)`; the answer to a start of the worker, `log(3, error)`; and the answers to
//! other budgets, `log(4, error)`: the worker's manifest declares 1 ms each 10 ms, the server's nothing.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::Error;
use fusee::{
    CallError, Endpoint, Instant, Nanoseconds, ReservationError, RestartError, System, Task, environment, log, now,
    shutdown, sleep_until,
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
    let set = |task: &Task, budget: u64, period: u64| {
        let answer = task.set_reservation(Nanoseconds(budget), Nanoseconds(period));
        log(
            4,
            match answer {
                Ok(()) => 0,
                Err(ReservationError::NotEnded) => Error::NotEnded as u64,
                Err(ReservationError::BadArgument) => Error::BadArgument as u64,
                Err(_) => u64::MAX,
            },
        );
    };
    let ms = 1_000_000;
    for (budget, period) in [(0, 10 * ms), (ms + 1, 10 * ms), (ms, 10 * ms - 1), (u64::MAX, u64::MAX)] {
        set(&worker, budget, period);
    }
    set(&server, ms, 10 * ms);
    let _ = server.stop();
    set(&server, ms, 10 * ms);
    set(&worker, ms / 2, 20 * ms);
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
    set(&worker, ms, 10 * ms);
    let _ = sleep_until(now().now + Nanoseconds(50_000_000));
    shutdown(environment.expect::<System>("system"), 0)
}
