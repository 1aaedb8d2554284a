//! Launches the kernels that every device has, with the largest arguments and with small ones, and computes nothing meanwhile.
//!
//! Handles: engine "ee"; regions "ring" and "buffer", which is `buffer.<this task>` of the driver; notification "gpu_done".
//!
//! Logs how many launches ended well (1).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::library::{BlockMatch, Filter, Gradient, Product, Shift, Transform};
use fusee::gpu::{Buffer, Context, Work};
use fusee::{Engine, Instant, Region, environment, log, next_job};

fusee::entry!(main);

const PART: u64 = 16 * 1024;

fn main() {
    let environment = environment();
    let engine = environment.expect::<Engine>("ee");
    let context = Context::of(&environment).expect("this task is a client of the device");
    let mut one = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut two = one.split_off(PART);
    let mut three = two.split_off(PART);
    for at in (0..PART as usize).step_by(4) {
        let noise = (at as u32).wrapping_mul(0x9E37_79B9);
        one.write_u32(at, noise);
        two.write_u32(at, noise.rotate_left(7));
    }
    let mut ended = 0;
    let mut run = |work: Work<'_>| ended += u64::from(context.run(&engine, work, Instant::NEVER).is_ok());
    for (width, height) in [(128, 128), (16, 16), (1024, 16), (40, 30)] {
        next_job().expect("this task is periodic");
        run(Work::launch(Gradient { width, height }, (&one, &mut three)));
        run(Work::launch(BlockMatch { width, height, radius: 6, stride: 4 }, (&one, &two, &mut three)));
        // Moved by the values there: anywhere.
        run(Work::launch(Shift { width, height }, (&one, &two, &mut three)));
    }
    for order in [4, 16, 32] {
        next_job().expect("this task is periodic");
        run(Work::launch(Product { order, time: 0 }, (&one, &two, &mut three)));
    }
    for (samples, length) in [(4096, 128), (4096, 16), (300, 32)] {
        next_job().expect("this task is periodic");
        run(Work::launch(Filter { samples, length }, (&one, &two, &mut three)));
    }
    for points in [64, 512] {
        next_job().expect("this task is periodic");
        run(Work::launch(Transform { points }, (&one, &mut two, &mut three)));
    }
    log(1, ended);
}
