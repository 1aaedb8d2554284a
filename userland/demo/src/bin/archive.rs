//! A best-effort client of the signal processor: filters for 7 ms, again and again. Since its engine is preemptible, it gives it to
//! a more urgent client after each block.
//!
//! Handles: engine "dsp"; regions "ring", "kick" and "buffer"; notification "gpu_done".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use demo::vibration::archive::{COEFFICIENT, COEFFICIENTS, FILTERED, RESPONSE, ROUNDS, SAMPLES, SIGNAL, sample};
use demo::{AGAIN, PAUSE};
use fusee::gpu::library::Filter;
use fusee::gpu::{Buffer, Context, Work};
use fusee::{Engine, Instant, Region, environment};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let engine = environment.expect::<Engine>("dsp");
    let context = Context::of(&environment).expect("this task is a client of the signal processor");
    let mut signal = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut response = signal.split_off(RESPONSE as u64);
    let mut filtered = response.split_off((FILTERED - RESPONSE) as u64);
    let mut rounds = filtered.split_off((ROUNDS - FILTERED) as u64);
    for index in 0..SIGNAL {
        signal.copy_from_slice(2 * index, &sample(index).to_le_bytes());
    }
    for index in 0..COEFFICIENTS {
        response.copy_from_slice(2 * index, &COEFFICIENT.to_le_bytes());
    }
    let filter = Filter { samples: SAMPLES as u16, length: COEFFICIENTS as u16 };
    for round in 1.. {
        let work = Work::launch(filter, (&signal, &response, &mut filtered));
        let done = context.run_again(&engine, work, Instant::NEVER, AGAIN, PAUSE);
        done.expect("all operands are in our buffer");
        rounds.write_u32(0, round);
    }
}
