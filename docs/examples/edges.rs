//! A task of 20 Hz: the GPU finds the edges of a white square in each job.
//!
//! Handles: engine "ee" (acquire), region "buffer" (read, write), endpoint "console" (call).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::{Buffer, Context, Work, library::Gradient};
use fusee::{Engine, Instant, Region, environment, next_job, println};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let gpu = environment.expect::<Engine>("ee");
    let context = Context::of(&environment).expect("this task is a client of the GPU");
    let mut picture = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut edges = picture.split_off(64 * 48);
    for row in 16..32 {
        picture.copy_from_slice(64 * row + 24, &[255; 16]);
    }
    loop {
        let job = next_job().expect("the manifest gives this task a period");
        let work = Work::launch(Gradient { width: 64, height: 48 }, (&picture, &mut edges));
        context.run(&gpu, work, Instant::NEVER).expect("both buffers are ours");
        let mut strengths = [0; 64 * 48];
        edges.copy_to_slice(0, &mut strengths);
        println!("job {}: {} pixels are edges", job.number, strengths.iter().filter(|one| **one > 0).count());
    }
}
