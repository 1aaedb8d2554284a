//! A client of the GPU: has it multiply numbers in each job, and compares with its own products.
//!
//! Handles: engine "gpu" (acquire), what a client of its device has, region "buffer" (read, write), endpoint "console" (call).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::{Buffer, Context, Work};
use fusee::{Engine, Instant, Region, environment, next_job, println};
use kernels::Scale;

fusee::entry!(main);

/// Numbers that are multiplied.
const LENGTH: usize = 512;

fn main() {
    let environment = environment();
    let gpu = environment.expect::<Engine>("gpu");
    let context = Context::of(&environment).expect("this task is a client of the device");
    // A buffer is memory that this task and the device reach. Its parts do not overlap.
    let mut from = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut to = from.split_off(4096);
    let scale = Scale { length: LENGTH as u32, by: 3 };
    loop {
        let job = next_job().expect("the manifest gives this task a period");
        let numbers: [u32; LENGTH] = core::array::from_fn(|at| at as u32 + job.number as u32);
        for (at, number) in numbers.iter().enumerate() {
            from.write_u32(4 * at, *number);
        }
        // Acquires the engine, submits, waits for the end, and releases.
        context.run(&gpu, Work::launch(scale, (&from, &mut to)), Instant::NEVER).expect("both buffers are ours");

        let right = (0..LENGTH).filter(|at| to.read_u32(4 * at) == numbers[*at].wrapping_mul(scale.by)).count();
        if job.number == 5 {
            println!("scaler: {right} of {LENGTH} numbers are right");
        }
    }
}
