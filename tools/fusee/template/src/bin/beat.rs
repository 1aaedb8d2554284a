//! A periodic task: computes a while in each job, says so in each tenth, and ends the system after some.
//!
//! Handles: endpoint "console" (call), "system" (shutdown). Parameters: "work_us" of computing in each job, "jobs" until the end.

// On the target there is no operating system below; on the host, `cargo test` can test what is pure.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Nanoseconds, System, burn, environment, next_job, println, shutdown};

// The first function of the task. This also says, in the program, for which version of the kernel it was built.
fusee::entry!(main);

fn main() {
    // All that the manifest gives this task, by name.
    let environment = environment();
    let work = Nanoseconds(environment.parameter("work_us").unwrap_or(500) * 1_000);
    let jobs = environment.parameter("jobs").unwrap_or(50);
    loop {
        // Ends this job, and sleeps until the next one is released.
        let job = next_job().expect("the manifest gives this task a period");
        // Put your own work here. This computes until the task has been charged that much time.
        burn(work);
        if is_told(job.number) {
            println!("beat: job {}; lateness of the one before: {} us", job.number, job.late_by / 1_000);
        }
        // Without these lines it runs for ever: `fusee run --for 1s` then ends the run.
        if job.number == jobs {
            shutdown(environment.expect::<System>("system"), 0);
        }
    }
}

/// Whether a job prints a line: each tenth does.
fn is_told(job: u64) -> bool {
    job.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tenth_job_is_told() {
        let told: Vec<u64> = (1..=30).filter(|job| is_told(*job)).collect();
        assert_eq!(told, [10, 20, 30]);
    }
}
