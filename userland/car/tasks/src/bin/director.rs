//! Ends the run when the course is over, and prints how it went.
//!
//! Handles: endpoint "console" (call), region "course", notification "over" (wait), the system as "system".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use car::world::{PERIOD, Result};
use car_tasks::record::head_of;
use fusee::{Instant, Notification, Region, environment, println, shutdown};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let course = environment.expect::<Region>("course").shared();
    println!("car: a lap, up to an obstacle");
    environment.expect::<Notification>("over").wait(Instant::NEVER).expect("the manifest gives this right");
    let (Result { steps, worst, worst_at, driven, .. }, room) = head_of(&course);
    let seconds = f64::from(steps) * PERIOD as f64 / 1e9;
    println!("car: {driven:.1} m in {seconds:.1} s");
    println!("car: off by {worst:.3} m at most, at {worst_at:.0} m");
    match room > 0.0 {
        true => println!("car: stands {room:.2} m before the obstacle"),
        false => println!("car: hit the obstacle, or never saw it"),
    }
    shutdown(environment.expect("system"), 0)
}
