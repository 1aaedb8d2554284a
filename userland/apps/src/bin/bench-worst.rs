//! Makes traps as long as they can be, for `cargo xtask worst`: many wait at one place, in long chains, until one instant.
//!
//! | role        | handles                                                                                         |
//! |-------------|-------------------------------------------------------------------------------------------------|
//! | 0, director | "system" (shutdown); tasks "victim1" and so on (stop): one is stopped in each job               |
//! | 1, caller   | endpoint "server" (call)                                                                        |
//! | 2, server   | endpoint "serves" (receive); in a chain endpoint "next" (call)                                  |
//! | 3, sleeper  |                                                                                                 |
//! | 4, locker   | engine "engine"                                                                                 |
//! | 5, keeper   | endpoint "serves" (receive); endpoint "next" (call), to which it gives copies of its handles    |
//! | 6, giver    | endpoint "server" (call); notification "event" (signal, grant)                                  |
//! | 7, mute     | endpoint "serves" (receive); takes as many requests as it can owe replies                       |
//! | 8, talker   | notifications "event" (wait) and "other" (signal)                                               |
//! | 9, worker   |                                                                                                 |
//! | 10, sharer  | pools "pool1" and so on (acquire), all of which it takes a token of                             |
//! | 11, grouper | engines "engine1" to "engine4" of one group (acquire): one of them, or two                      |
//!
//! Parameters: "role"; "number", another for each task; "grid": calls that wait do so for ever, or until a multiple of so
//! many nanoseconds; "work": nanoseconds that a request or a hold takes; "jobs" of the director, after which it ends the
//! system. Every task with jobs goes on in its first.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{
    Endpoint, Engine, Environment, Instant, Nanoseconds, Notification, Pool, Rights, Server, System, Task, burn,
    environment, give_up, next_job, now, revoke, shutdown, sleep_until, yield_now,
};

fusee::entry!(main);

/// The names of the tasks that are stopped.
const VICTIMS: [&str; 16] = [
    "victim1", "victim2", "victim3", "victim4", "victim5", "victim6", "victim7", "victim8", "victim9", "victim10",
    "victim11", "victim12", "victim13", "victim14", "victim15", "victim16",
];
/// The names of pools that are shared.
const POOLS: [&str; 2] = ["pool1", "pool2"];
/// Handles that a keeper keeps at most: it has a slot or two of its own.
const KEPT: usize = 31;

fn main() {
    let environment = environment();
    let patience = Patience::of(&environment);
    // One without jobs begins at once.
    let _ = next_job();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => direct(&environment),
        1 => call_for_ever(&environment, patience),
        2 => serve(&environment, patience),
        3 => loop {
            let _ = sleep_until(patience.next_multiple());
        },
        4 => lock_for_ever(&environment, patience),
        5 => keep(&environment),
        6 => give(&environment),
        7 => keep_silent(&environment),
        8 => talk(&environment, patience),
        9 => loop {
            burn(patience.work);
            let _ = next_job();
        },
        10 => share_for_ever(&environment, patience),
        11 => group_for_ever(&environment, patience),
        unknown => panic!("there is no role {unknown}"),
    }
}

/// Until when calls wait.
struct Patience {
    grid: u64,
    work: Nanoseconds,
    /// A xorshift generator.
    dice: u64,
}

impl Patience {
    fn of(environment: &Environment) -> Patience {
        let parameter = |name| environment.parameter(name).unwrap_or(0);
        let dice = (parameter("number") + 1) * 0x9e37_79b9_7f4a_7c15;
        Patience { grid: parameter("grid").max(1), work: Nanoseconds(parameter("work")), dice }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % sides
    }

    fn next_multiple(&self) -> Instant {
        Instant((now().now.0 / self.grid + 1) * self.grid)
    }

    fn deadline(&mut self) -> Instant {
        if self.roll(4) == 0 { Instant::NEVER } else { self.next_multiple() }
    }
}

fn direct(environment: &Environment) {
    for job in 0..environment.parameter("jobs").expect("the director has so many jobs") {
        let victim = VICTIMS.get(job as usize).and_then(|name| environment.get::<Task>(name).ok());
        if let Some(victim) = victim {
            victim.stop().expect("the director may stop it");
        }
        next_job().expect("the director has jobs");
    }
    shutdown(environment.expect::<System>("system"), 0)
}

fn call_for_ever(environment: &Environment, mut patience: Patience) {
    let server = environment.expect::<Endpoint>("server");
    loop {
        let _ = server.call([0; 6], patience.deadline());
        match patience.roll(8) {
            0 => drop(yield_now()),
            1 => drop(next_job()),
            2 => drop(sleep_until(patience.next_multiple())),
            _ => {}
        }
    }
}

fn serve(environment: &Environment, mut patience: Patience) {
    let mut server = Server::new(environment.expect("serves"));
    let next: Option<Endpoint> = environment.get("next").ok();
    let mut request = server.receive(Instant::NEVER);
    while let Ok(present) = request {
        burn(patience.work);
        if let Some(next) = next {
            let _ = next.call(present.words, patience.deadline());
        }
        request = match server.reply_receive(present.token, present.words, Instant::NEVER) {
            Ok(request) => Ok(request),
            // The client has given up.
            Err(_) => server.receive(Instant::NEVER),
        };
    }
}

fn lock_for_ever(environment: &Environment, mut patience: Patience) {
    let engine = environment.expect::<Engine>("engine");
    loop {
        if let Ok(guard) = engine.acquire(patience.deadline()) {
            burn(patience.work);
            let _ = guard.should_yield();
            drop(guard);
        }
        if patience.roll(4) == 0 {
            let _ = next_job();
        }
    }
}

/// Takes a token of each pool, all in the same order, and gives all back.
fn share_for_ever(environment: &Environment, mut patience: Patience) {
    let mut pools = POOLS.map(|name| environment.get::<Pool>(name).ok());
    loop {
        for pool in pools.iter_mut().flatten() {
            if let Ok(token) = pool.acquire(patience.deadline()) {
                let _ = token.should_yield();
                token.keep();
            }
        }
        burn(patience.work);
        for pool in pools.iter_mut().flatten() {
            let _ = pool.give_back();
        }
        if patience.roll(4) == 0 {
            let _ = next_job();
        }
    }
}

/// Takes one of the engines, or two together, and gives them back.
fn group_for_ever(environment: &Environment, mut patience: Patience) {
    let engines = ["engine1", "engine2", "engine3", "engine4"].map(|name| environment.expect::<Engine>(name));
    loop {
        let first = patience.roll(4) as usize;
        if patience.roll(2) == 0 {
            let both = [engines[first], engines[(first + 1) % 4]];
            if let Ok(group) = Engine::acquire_together(both, patience.deadline()) {
                burn(patience.work);
                drop(group);
            }
        } else if let Ok(guard) = engines[first].acquire(patience.deadline()) {
            burn(patience.work);
            let _ = guard.should_yield();
            drop(guard);
        }
        if patience.roll(4) == 0 {
            let _ = next_job();
        }
    }
}

fn talk(environment: &Environment, mut patience: Patience) {
    let (event, other) = (environment.expect::<Notification>("event"), environment.expect::<Notification>("other"));
    loop {
        let _ = event.wait(patience.deadline());
        let _ = other.signal(1);
    }
}

/// Takes handles until its table is full, and gives a copy of each to the next.
fn keep(environment: &Environment) {
    let mut server = Server::new(environment.expect("serves"));
    let next: Option<Endpoint> = environment.get("next").ok();
    let mut kept: [Option<Notification>; KEPT] = [None; KEPT];
    let mut request = server.receive(Instant::NEVER);
    while let Ok(mut present) = request {
        if let (Some(handle), Some(place)) = (present.take(), kept.iter_mut().find(|place| place.is_none())) {
            if let Some(next) = next {
                let _ = next.call_with([0; 6], &handle, Rights::ALL, Instant::NEVER);
            }
            *place = Some(handle);
        }
        request = server.reply_receive(present.token, [0; 6], Instant::NEVER);
    }
}

fn give(environment: &Environment) {
    let server = environment.expect::<Endpoint>("server");
    let event = environment.expect::<Notification>("event");
    while server.call_with([0; 6], &event, Rights::ALL, Instant::NEVER).is_ok() {}
    let _ = next_job();
    let _ = revoke(&event);
    let _ = give_up(event);
    loop {
        let _ = next_job();
    }
}

fn keep_silent(environment: &Environment) {
    let mut server = Server::new(environment.expect("serves"));
    while server.receive(Instant::NEVER).is_ok() {}
    loop {
        let _ = sleep_until(Instant::NEVER);
    }
}
