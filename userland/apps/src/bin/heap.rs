//! A program with a heap of 256 KiB, whose allocator searches as `fusee::heap::ConstantTime` does.
//!
//! Handles: none. Parameters: "rounds", of a random history; "bound" of its operations, in ticks of the counter; "exhaust": allocates until nothing is left, and so panics. Logs `log(1, ticks)`, the
//! longest allocation, `log(2, ticks)`, the longest release of memory, and `log(3, bytes)`, the most that was allocated at one time.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

#[path = "../heaps.rs"]
mod heaps;

use fusee::{environment, exit, log, next_job};

fusee::entry!(main);
fusee::heap!(256 * 1024, fusee::heap::ConstantTime);

fn main() {
    let environment = environment();
    next_job().expect("this task has jobs");
    if environment.parameter("exhaust").is_some() {
        exit(heaps::exhaust().len() as u64);
    }
    assert!(heaps::collections(), "collections hold what is put into them");
    // The first use of vector registers in a job is a trap, and is not measured.
    let _ = heaps::random(10, 1);
    let longest = heaps::random(environment.parameter("rounds").unwrap_or(1_000), 7);
    let bound = environment.parameter("bound").unwrap_or(u64::MAX);
    assert!(longest.allocate.max(longest.free) <= bound, "an operation takes {bound} ticks at most");
    log(1, longest.allocate);
    log(2, longest.free);
    #[cfg(target_os = "none")]
    log(3, HEAP.peak() as u64);
}
