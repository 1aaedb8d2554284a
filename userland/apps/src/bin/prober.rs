//! Tries the accesses of a task, one access a life: a fault is the end of a life, and another begins.
//!
//! Life `n` brings itself into the state that the parameter "stage" says, and then reads the word at the address "probe.00n", or, if that is odd, writes the one before it. If it lives on, it
//! logs `log(1, n)` and ends. The life after the last one ends the system.
//!
//! | stage | before the access |
//! |---|---|
//! | 0 | nothing |
//! | 1 | region "mine" (map) is mapped |
//! | 2 | and not any more |
//! | 3 | region "lent" (lent) is lent, with the request that is served at endpoint "requests" (receive) |
//! | 4 | and not any more: the request is answered |
//! | 5 | engine "ee" (acquire) is held |
//! | 6 | and not any more |
//!
//! With the parameter `role = 1` it is the client that lends region "lent" (lend) to "requests" (call) again and again.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::misbehave::{peek, poke};
use fusee::{
    Endpoint, Engine, Environment, Instant, Region, Rights, Server, System, environment, exit, life, log, shutdown,
};

fusee::entry!(main);

fn main() {
    let environment = environment();
    if environment.parameter("role") == Some(1) {
        lend(&environment);
    }
    let number = u64::from(life());
    let Some(probe) = probe_of(&environment, number) else {
        shutdown(environment.expect::<System>("system"), 0);
    };
    let access = || {
        if probe % 2 == 0 {
            peek(probe)
        } else {
            poke(probe - 1)
        }
        log(1, number);
        exit(0)
    };
    match environment.parameter("stage").unwrap_or(0) {
        0 => access(),
        stage @ 1..3 => {
            let mine = environment.expect::<Region>("mine");
            mine.map().expect("it may be mapped");
            if stage == 2 {
                mine.unmap().expect("it is mapped");
            }
            access()
        }
        stage @ 3..5 => {
            let mut server = Server::new(environment.expect("requests"));
            let request = server.receive(Instant::NEVER).expect("a client asks");
            if stage == 4 {
                // Its client comes after this task, and so has not asked again.
                assert!(matches!(server.reply(request.token, [0; 6]), Ok(None)), "it asks again at once");
            }
            access()
        }
        stage => {
            let ee = environment.expect::<Engine>("ee");
            let guard = ee.acquire(Instant::NEVER).expect("nobody else has it for long");
            if stage == 6 {
                drop(guard);
                access()
            }
            access()
        }
    }
}

/// The number of life `life` of its probes, `probe.017`.
fn probe_of(environment: &Environment, life: u64) -> Option<u64> {
    let mut name = *b"probe.000";
    for (digit, unit) in name[6..].iter_mut().zip([100, 10, 1]) {
        *digit += (life / unit % 10) as u8;
    }
    environment.parameter(core::str::from_utf8(&name).ok()?)
}

/// Lends the region with each call, to any server.
fn lend(environment: &Environment) -> ! {
    let (requests, region) = (environment.expect::<Endpoint>("requests"), environment.expect::<Region>("lent"));
    loop {
        let _ = requests.call_lending([0; 6], &region, Rights::READ | Rights::WRITE, Instant::NEVER);
    }
}
