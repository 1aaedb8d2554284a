//! A task that must not miss: a little integer work in each job, nothing printed, nothing logged.
//!
//! Handles: none. Parameter: "rounds" of work in each job, a thousand if absent (some 4 us at a gigahertz).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::hint::black_box;
use fusee::{environment, next_job};

fusee::entry!(main);

fn main() {
    let rounds = environment().parameter("rounds").unwrap_or(1_000);
    let mut state = 1;
    loop {
        next_job().expect("this task has jobs");
        for _ in 0..rounds {
            state = black_box(advance(state));
        }
    }
}

/// One step of a xorshift generator.
fn advance(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ state << 17
}
