//! A client of the accelerator, for tests of the effects on it and on others when the device, or another client, misbehaves.
//!
//! With the parameter `count` it sends a page through device memory and back, on the engines "ce_in" and "ce_out", once in each
//! of so many jobs, and compares; then `log(count, pages that came back as they were)`. Its region "buffer" has two pages. A job that fails is done again, `again` times at most, 100 us later.
//!
//! With the parameter `operation_us` it takes "engine" in its first job, submits an operation of that length (zero: endless),
//! waits for its end, at most `patience_us` (absent: for ever; zero: not at all), and gives the engine back. Then it takes the engine
//! again for an operation that is all right. With the parameter `late_us` it computes for so long between the grant and the first
//! operation. It logs its results:
//!
//! | `log`     | of                | second word                                                             |
//! |-----------|-------------------|-------------------------------------------------------------------------|
//! | `log(0)`  | the first turn    | the error's code; only if the engine was not granted                    |
//! | `log(1)`  | the first wait    | 0: done, 1: failed, 2: its deadline came first, 3: not waited, 4: not submitted, the engine was lost |
//! | `log(2)`  | the first release | 0, or the error's code                                                  |
//! | `log(3)`  | the second turn   | 0: done, 1: failed; the error's code, if the engine was not granted, or not found held |
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::Error;
use fusee::gpu::{Context, FenceError, Operation, SubmitError};
use fusee::{
    AcquireError, Engine, EngineError, EngineGuard, Environment, Instant, Nanoseconds, Notification, Region, WaitError,
    burn, environment, log, next_job, now,
};
use fusee_accel_contract::PAGE_BYTES;
use fusee_accel_contract::space::{BUFFER_BASE, LOCAL_BASE};

fusee::entry!(main);

/// An operation that no other task has reason to complain of, in nanoseconds.
const SHORT: u64 = 200_000;

fn main() {
    let environment = environment();
    let context = Context::of(&environment).expect("this task is a client of the accelerator");
    match environment.parameter("count") {
        Some(count) => copy(&environment, &context, count),
        None => operate(&environment, &context),
    }
}

/// The notification of the ends of this task's operations.
fn done_of(environment: &Environment) -> Notification {
    environment.expect("gpu_done")
}

/// Sends a page there and back in each of `count` jobs.
fn copy(environment: &Environment, context: &Context, count: u64) {
    let [ce_in, ce_out] = ["ce_in", "ce_out"].map(|name| environment.expect::<Engine>(name));
    let buffer = environment.expect::<Region>("buffer").shared();
    let again = environment.parameter("again").unwrap_or(0) as u32;
    let words = PAGE_BYTES as usize / 8;
    let pattern = |job: u64, word: usize| (job << 32 | word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut good = 0;
    for job in 1..=count {
        next_job().expect("this task has jobs");
        for word in 0..words {
            buffer.write_u64(8 * word, pattern(job, word));
            buffer.write_u64(PAGE_BYTES as usize + 8 * word, 0);
        }
        let there = Operation::Copy { source: BUFFER_BASE, destination: LOCAL_BASE, length: PAGE_BYTES };
        let back = Operation::Copy { source: LOCAL_BASE, destination: BUFFER_BASE + PAGE_BYTES, length: PAGE_BYTES };
        let done = [(ce_in, there), (ce_out, back)].into_iter().all(|(engine, operation)| {
            context.run_again(&engine, operation, Instant::NEVER, again, Nanoseconds(100_000)).is_ok()
        });
        let came_back = |word| buffer.read_u64(PAGE_BYTES as usize + 8 * word) == pattern(job, word);
        good += u64::from(done && (0..words).all(came_back));
    }
    log(count, good);
}

/// Submits an operation, waits, gives the engine back, and does the same with a short one.
fn operate(environment: &Environment, context: &Context) {
    let engine = environment.expect::<Engine>("engine");
    let time = match environment.parameter("operation_us").expect("the parameter `operation_us`, or `count`") {
        0 => u64::MAX,
        time => time * 1_000,
    };
    let patience = environment.parameter("patience_us");
    next_job().expect("this task has jobs");
    let guard = match engine.acquire(Instant::NEVER) {
        Ok(guard) => guard,
        Err(error) => return log(0, of_acquire(error)),
    };
    burn(Nanoseconds(environment.parameter("late_us").unwrap_or(0) * 1_000));
    let started = context.start(&guard, Operation::Burn { time });
    let deadline = patience.map_or(Instant::NEVER, |time| now().now + Nanoseconds(time * 1_000));
    let heard = match (started, patience) {
        (Err(SubmitError::EngineLost), _) => 4,
        (Err(error), _) => panic!("{error:?}"),
        (Ok(_), Some(0)) => 3,
        (Ok(fence), _) => match context.wait_for(fence, done_of(environment), deadline) {
            Ok(()) => 0,
            Err(FenceError::Failed) => 1,
            Err(FenceError::Wait(WaitError::TimedOut)) => 2,
            Err(error) => panic!("{error:?}"),
        },
    };
    log(1, heard);
    log(2, of_release(guard));
    let second = match engine.acquire(Instant::NEVER) {
        Ok(guard) => {
            let fence = context.start(&guard, Operation::Burn { time: SHORT }).expect("the ring is not full");
            let done = context.wait_for(fence, done_of(environment), Instant::NEVER);
            match of_release(guard) {
                0 => u64::from(done.is_err()),
                code => code,
            }
        }
        Err(error) => of_acquire(error),
    };
    log(3, second);
}

fn of_release(guard: EngineGuard) -> u64 {
    match guard.release() {
        Ok(()) => 0,
        Err(EngineError::EngineLost) => Error::EngineLost as u64,
        Err(error) => panic!("{error:?}"),
    }
}

fn of_acquire(error: AcquireError) -> u64 {
    match error {
        AcquireError::EngineLost => Error::EngineLost as u64,
        error => panic!("{error:?}"),
    }
}
