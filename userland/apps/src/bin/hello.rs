//! Prints a line in each of its jobs, then ends the system: the first thing to run on a new board.
//!
//! Handles: endpoint "console" (call), "system" (shutdown). Parameter: "jobs", ten if absent.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{System, environment, next_job, println, shutdown};

fusee::entry!(main);

fn main() {
    let jobs = environment().parameter("jobs").unwrap_or(10);
    let mut late = 0;
    for _ in 0..jobs {
        let job = next_job().expect("this task has jobs");
        late += u64::from(job.late_by > 0);
        println!("hello from job {} of {jobs}, released at {} us", job.number, job.release.0 / 1000);
    }
    println!("{late} jobs were late");
    shutdown(environment().expect::<System>("system"), 0)
}
