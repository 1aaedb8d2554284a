//! A client of the driver `clock`: waits until the next second begins, and prints a line.
//!
//! Handles: endpoint "clock" (call), notification "rung" (wait), endpoint "console" (call).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Endpoint, Instant, Notification, environment, println};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let clock = environment.expect::<Endpoint>("clock");
    let rung = environment.expect::<Notification>("rung");
    let ask = |alarm: u64| clock.call([alarm, 0, 0, 0, 0, 0], Instant::NEVER).expect("the driver answers")[0];
    let next = ask(0) + 1;
    ask(next);
    rung.wait(Instant::NEVER).expect("the alarm rings");
    println!("waker: the alarm rang {} s after the second that it was set to", ask(0) - next);
}
