//! A client of the server `filter`: sends it a sample in each job.
//!
//! Handles: endpoint "filter" (call), endpoint "console" (call).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Endpoint, Instant, environment, next_job, println};

fusee::entry!(main);

fn main() {
    let filter = environment().expect::<Endpoint>("filter");
    loop {
        let job = next_job().expect("the manifest gives this task a period");
        // Put the reading of a sensor here.
        let sample = 100 + job.number;
        // A deadline in the place of `Instant::NEVER` gives the call up then.
        let reply = filter.call([sample, 0, 0, 0, 0, 0], Instant::NEVER).expect("the server answers");
        if job.number == 10 {
            println!("sensor: the mean is {}", reply[0]);
        }
    }
}
