//! A best-effort client that keeps the execution engine as busy as it is let: long products of small matrices,
//! one after the other.
//!
//! Handles: engine "ee", regions "ring", notification "gpu_done". Parameter: "operation_us", how long each
//! operation takes.
//!
//! Copies of it start one after the other, by the digit their names end with: in which order they queue for the first
//! time is then no matter of a few instructions.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use demo::{AGAIN, PAUSE};
use fusee::gpu::library::Product;
use fusee::gpu::{Buffer, Context, Work};
use fusee::{Engine, Instant, environment, sleep_until};
use fusee_accel_contract::timing::EXECUTION_SETUP;

fusee::entry!(main);

/// When the first copy may start, nanoseconds after boot, and how long after it the next.
const FIRST: u64 = 1_000_000;
const STEP: u64 = 200_000;

fn main() {
    let environment = environment();
    let engine = environment.expect::<Engine>("ee");
    let context = Context::of(&environment).expect("this task is a client of the GPU");
    let time = environment.parameter("operation_us").unwrap_or(1000) * 1000;
    let kernel = Product { order: 16, time: time.saturating_sub(EXECUTION_SETUP) };
    let mut left = Buffer::local(3 * 4096);
    let mut right = left.split_off(4096);
    let mut product = right.split_off(4096);
    let number = environment.task_name().bytes().last().map_or(0, |digit| u64::from(digit.saturating_sub(b'0')));
    sleep_until(Instant(FIRST + number * STEP)).expect("this task may sleep");
    loop {
        let work = Work::launch(kernel, (&left, &right, &mut product));
        let done = context.run_again(&engine, work, Instant::NEVER, AGAIN, PAUSE);
        done.expect("the operation stays within our memory");
    }
}
