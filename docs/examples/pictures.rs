//! A task that lets the GPU smooth a picture and count its pixels by value, in each job, and compares with what the kernels compute as plain functions.
//!
//! Handles: engine "gpu" (acquire), what a client of its device has, region "buffer" (read, write), which is `buffer.pictures` of the driver;
//! endpoint "console" (call).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::compute::{self, Input, Output, Update};
use fusee::gpu::{Buffer, Context, Work};
use fusee::{Engine, Instant, Region, environment, next_job, println};
use my_kernels::{Histogram, Median};

fusee::entry!(main);

const WIDTH: usize = 64;
const HEIGHT: usize = 48;
const PIXELS: usize = WIDTH * HEIGHT;

fn main() {
    let environment = environment();
    let gpu = environment.expect::<Engine>("gpu");
    let context = Context::of(&environment).expect("this task is a client of the device");
    let mut picture = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut smooth = picture.split_off(4096);
    let mut counters = smooth.split_off(4096);
    let median = Median { width: WIDTH as u16, height: HEIGHT as u16 };
    let histogram = Histogram { pixels: PIXELS as u32 };
    loop {
        let job = next_job().expect("the manifest gives this task a period");
        let pixels = scene(job.number);
        picture.copy_from_slice(0, &pixels);
        counters.fill(0);
        context.run(&gpu, Work::launch(median, (&picture, &mut smooth)), Instant::NEVER).expect("both are ours");
        context.run(&gpu, Work::launch(histogram, (&smooth, &mut counters)), Instant::NEVER).expect("both are ours");

        let (mut expected, mut counts) = ([0; PIXELS], [0; 256]);
        compute::run(&median, (Input::from(&pixels[..]), Output::from(&mut expected[..])));
        compute::run(&histogram, (Input::from(&expected[..]), Update::from(&mut counts[..])));
        let mut computed = [0; PIXELS];
        smooth.copy_to_slice(0, &mut computed);
        let same = computed.iter().zip(&expected).filter(|(one, other)| one == other).count();
        let counted = (0..256).filter(|value| counters.read_u32(4 * value) == counts[*value]).count();
        println!("{same} of {PIXELS} pixels, {counted} of 256 counters; {} are dark", counts[..64].iter().sum::<u32>());
    }
}

/// A slope with wrong pixels on it.
fn scene(job: u64) -> [u8; PIXELS] {
    core::array::from_fn(|at| if (at as u64 * 31 + job) % 17 == 0 { 255 } else { (2 * (at % WIDTH) + at / WIDTH) as u8 })
}
