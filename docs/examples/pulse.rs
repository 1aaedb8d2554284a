//! A task of 100 Hz: computes a while in each job, reports each tenth, and ends the system after fifty.
//!
//! Handles: endpoint "console" (call), "system" (shutdown). Parameter: "work_us" of computing in each job.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Nanoseconds, System, burn, environment, next_job, println, shutdown};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let work = Nanoseconds(environment.parameter("work_us").unwrap_or(500) * 1_000);
    loop {
        let job = next_job().expect("the manifest gives this task a period");
        burn(work);
        if job.number.is_multiple_of(10) {
            println!("pulse: job {}; lateness of the one before: {} us", job.number, job.late_by / 1_000);
        }
        if job.number == 50 {
            shutdown(environment.expect::<System>("system"), 0);
        }
    }
}
