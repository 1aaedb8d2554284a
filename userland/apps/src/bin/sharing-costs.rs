//! The cost of clients without a lock for the kernel, in instructions: the shortest of several times, less the code around it.
//!
//! | role      | measures                                                                                    | handles                                     |
//! |-----------|---------------------------------------------------------------------------------------------|---------------------------------------------|
//! | 0, taker  | an `acquire` that takes the engine back from such clients (0), a `release` that hands it back (1), a store to its doorbell meanwhile (6) | engine "one" (acquire) |
//! | 1, writer | a store to a doorbell that may only be read, up to the next instruction (2); then has the sharer measure and open it, and stores again (7); ends the system | engine "one" (share), endpoint "requests" (call), "system" |
//! | 2, sharer | makes each store at once; when called, logs the cost to change one doorbell (3), seven (4), all fifteen (8), and to put shadows in the place of seven (5) | endpoint "requests" (receive), sharer of engines "one" and "many" |
//! | 3, other  | nothing                                                                                     | engine "many" (share)                       |
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::least;
use fusee::misbehave::miscount;
use fusee::{
    DoorbellPage, Doorbells, Endpoint, Engine, EngineGuard, Environment, Instant, Nanoseconds, Server, System, Verdict,
    counter, environment, log, now, shutdown, sleep_until,
};

fusee::entry!(main);

const SAMPLES: usize = 64;
/// How long the driver takes to begin, at most, and then the taker to measure.
const BEGINNING: Nanoseconds = Nanoseconds(2_000_000);
const TAKER: Nanoseconds = Nanoseconds(20_000_000);

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => take(&environment),
        1 => write(&environment),
        2 => serve(&environment),
        3 => sleep_until(Instant::NEVER).expect("sleeping is allowed"),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn take(environment: &Environment) {
    sleep_until(now().now + BEGINNING).expect("sleeping is allowed");
    let engine = environment.expect::<Engine>("one");
    let (mut taken, mut handed) = (u64::MAX, u64::MAX);
    for _ in 0..SAMPLES {
        let before = counter();
        let guard = engine.acquire(Instant::NEVER).expect("nobody holds it");
        let between = counter();
        guard.release().expect("it is held");
        (taken, handed) = (taken.min(between - before), handed.min(counter() - between));
    }
    log(0, taken - least(SAMPLES, || ()));
    log(1, handed - least(SAMPLES, || ()));
    let guard = engine.acquire(Instant::NEVER).expect("nobody holds it");
    log(6, store(&guard));
    guard.release().expect("it is held");
}

/// The cost of a store to a doorbell; it changes nothing.
fn store(guard: &EngineGuard<'_>) -> u64 {
    least(SAMPLES, || miscount(guard, 0)) - least(SAMPLES, || ())
}

fn write(environment: &Environment) {
    sleep_until(now().now + BEGINNING + TAKER).expect("sleeping is allowed");
    let guard = environment.expect::<Engine>("one").acquire(Instant::NEVER).expect("there is no lock");
    log(2, store(&guard));
    environment.expect::<Endpoint>("requests").call([0; 6], Instant::NEVER).expect("the sharer serves");
    log(7, store(&guard));
    shutdown(environment.expect::<System>("system"), 0)
}

fn serve(environment: &Environment) {
    let mut server = Server::new(environment.expect::<Endpoint>("requests"));
    let [one, many] = ["doorbells.one", "doorbells.many"].map(|name| environment.expect::<Doorbells>(name));
    let mut next = server.receive(Instant::NEVER);
    loop {
        let request = next.expect("all clients live");
        next = match request.store() {
            Some(store) => {
                one.submit(store);
                server.reply_receive(request.token, Verdict::GoOn.words(), Instant::NEVER)
            }
            None => {
                let (seven, all) = (0x7f, (1 << many.members()) - 1);
                let cost = |doorbells: &Doorbells, members, page| {
                    let share = || doorbells.share(members, page).expect("these are its clients");
                    least(SAMPLES, share) - least(SAMPLES, || ())
                };
                log(3, cost(&one, 1, DoorbellPage::ReadOnly));
                log(4, cost(&many, seven, DoorbellPage::ReadOnly));
                log(5, cost(&many, seven, DoorbellPage::Shadow));
                log(8, cost(&many, all, DoorbellPage::ReadOnly));
                one.share(1, DoorbellPage::Open).expect("it has a client");
                server.reply_receive(request.token, [0; 6], Instant::NEVER)
            }
        };
    }
}
