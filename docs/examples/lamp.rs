//! A task of 20 Hz: computes for 3 ms in each job, then prints a line.
//!
//! Handle: endpoint "console" (call).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Nanoseconds, burn, next_job, println};

fusee::entry!(main);

fn main() {
    loop {
        let job = next_job().expect("the manifest gives this task a period");
        burn(Nanoseconds(3_000_000));
        println!("lamp: {}", job.number);
    }
}
