//! Ends the demo when its time is over, and prints its results.
//!
//! Handles: endpoint "console", region "record", "system". Parameters: "count"; "end_us", when to end.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use demo::record;
use fusee::{Instant, Region, System, environment, println, shutdown, sleep_until};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let record = environment.expect::<Region>("record").shared();
    let system = environment.expect::<System>("system");
    let frames = environment.parameter("count").unwrap_or(0) as usize;
    let end = environment.parameter("end_us").unwrap_or(1_000_000) * 1_000;
    println!("demo: {frames} frames to come");
    sleep_until(Instant(end)).expect("the end is in the future");
    let done = (0..frames.min(record::FRAMES)).filter(|frame| record.observe_u32(record::entry(*frame)) == 1).count();
    println!("demo: {done} of {frames} frames stabilised");
    shutdown(system, 0)
}
