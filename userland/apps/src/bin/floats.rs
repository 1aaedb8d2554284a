//! Keeps floating-point registers busy across preemptions and checks that no other task's numbers turn up in them.
//!
//! Handles: none. Parameters: "seed", different for each such task; "rounds" in each job. Logs `log(1, jobs)` after
//! "jobs" jobs if every sum was right, `log(0, job)` at the first that was not.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::hint::black_box;
use fusee::{environment, exit, log, next_job};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let seed = environment.parameter("seed").unwrap_or(1) as f64;
    let rounds = environment.parameter("rounds").unwrap_or(10_000);
    let jobs = environment.parameter("jobs").unwrap_or(10);
    for job in 1..=jobs {
        next_job().expect("this task has jobs");
        // Four sums that live in registers all the while; each is exact in double precision.
        let mut sums = [seed, 2.0 * seed, 3.0 * seed, 4.0 * seed];
        for _ in 0..rounds {
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum += (index + 1) as f64 * seed;
            }
            black_box(&mut sums);
        }
        let right = sums.iter().enumerate().all(|(index, sum)| *sum == (index + 1) as f64 * seed * (rounds + 1) as f64);
        if !right {
            log(0, job);
            exit(1);
        }
    }
    log(1, jobs);
}
