//! Enters the kernel as often as it can, first alone and then together with a rival on another CPU, and looks how long that takes
//! and which part of it was not charged; the parameter `role` selects a task.
//!
//! | role         | handles                                   | does                                                     |
//! |--------------|-------------------------------------------|----------------------------------------------------------|
//! | 0, contender | notification "go" (signal), "system"      | `log(1, 1)`: alone it pays for all; `log(2, 1)`: so it does when calls take longer because of the rival |
//! | 1, rival     | notification "go" (wait)                  | once it is told to, makes calls for ever                 |
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Environment, Instant, Nanoseconds, Notification, System, environment, log, now, null, shutdown};

fusee::entry!(main);

/// Calls in a row.
const CALLS: usize = 2_000;
/// How often it looks; the two meet at the lock sooner or later.
const ROUNDS: usize = 100;

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => contend(&environment),
        1 => rival(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

/// How long some calls take, and how much of that was charged to nobody's account but the kernel's.
fn spent() -> (Nanoseconds, Nanoseconds) {
    let before = now();
    (0..CALLS).for_each(|_| null());
    let after = now();
    let span = after.now.since(before.now);
    (span, span.saturating_sub(after.charged.saturating_sub(before.charged)))
}

fn contend(environment: &Environment) {
    // The rival begins and goes to sleep.
    spent();
    let alone = [(); 10].map(|()| spent());
    log(1, u64::from(alone.iter().all(|(_, uncharged)| *uncharged == Nanoseconds::ZERO)));
    let longest = alone.iter().map(|(span, _)| *span).max().unwrap_or(Nanoseconds::ZERO);
    environment.expect::<Notification>("go").signal(1).expect("the rival may be woken");
    let (mut waited, mut pays) = (false, true);
    for (span, uncharged) in (0..ROUNDS).map(|_| spent()) {
        waited |= span > longest;
        pays &= uncharged == Nanoseconds::ZERO;
    }
    log(2, u64::from(waited && pays));
    shutdown(environment.expect::<System>("system"), 0)
}

fn rival(environment: &Environment) {
    environment.expect::<Notification>("go").wait(Instant::NEVER).expect("the rival may wait");
    loop {
        null();
    }
}
