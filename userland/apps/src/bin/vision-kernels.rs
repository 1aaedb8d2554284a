//! Launches the kernels of video stabilisation on pictures of noise, at the largest size and at small ones, and computes nothing meanwhile.
//!
//! Handles: engine "ee"; region "buffer", which is `buffer.<this task>` of the driver.
//!
//! Logs how many launches ended well (1).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::compute::Kernel;
use fusee::gpu::{Buffer, Context, Work};
use fusee::{Engine, Instant, Region, environment, log, next_job};
use vision_kernels::{Corners, Duplicate, Flow, Grey, MATRIX_BITS, Pyramid, Warp};

fusee::entry!(main);

/// Bytes of the largest colour picture.
const PICTURE: u64 = 3 * 128 * 96;
const SIZES: [(u16, u16); 5] = [(128, 96), (96, 72), (64, 48), (256, 48), (48, 256)];

fn main() {
    let environment = environment();
    let engine = environment.expect::<Engine>("ee");
    let context = Context::of(&environment).expect("this task is a client of the device");
    let mut one = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut two = one.split_off(PICTURE);
    let mut corners = two.split_off(PICTURE);
    let mut tracks = corners.split_off(8 * 1024);
    let mut matrix = tracks.split_off(8 * 1024);
    let mut ended = 0;
    let mut run = |work: Work<'_>| ended += u64::from(context.run(&engine, work, Instant::NEVER).is_ok());
    for (width, height) in SIZES {
        next_job().expect("this task is periodic");
        let pixels = u32::from(width) * u32::from(height);
        for at in (0..PICTURE as usize).step_by(4) {
            let noise = (at as u32).wrapping_mul(0x9E37_79B9);
            one.write_u32(at, noise ^ noise >> 15);
            two.write_u32(at, noise.rotate_left(7));
        }
        next_job().expect("this task is periodic");
        run(Work::launch(Duplicate { bytes: 3 * pixels }, (&one, &mut two)));
        run(Work::launch(Grey { pixels }, (&one, &mut two)));
        let all = Corners { width, height, cell: 16, margin: 6 };
        run(Work::launch(all, (&one, &mut corners)));
        run(Work::launch(Corners { cell: 8, ..all }, (&one, &mut tracks)));
        run(Work::launch(Pyramid { width, height, levels: 4 }, (&one, &mut two)));
        // Both are noise, so no search comes to its end early.
        let count = all.elements()[1] as u16 / 3;
        run(Work::launch(Flow { width, height, levels: 3, count }, (&one, &two, &corners, &mut tracks)));
        run(Work::launch(Flow { width, height, levels: 1, count: 5 }, (&one, &two, &corners, &mut tracks)));
        // At the border, which takes longest.
        for at in 0..24 {
            [0, i32::from(height) / 24 * at, 1]
                .iter()
                .enumerate()
                .for_each(|(word, number)| corners.write_u32(4 * (3 * at as usize + word), number.cast_unsigned()));
        }
        run(Work::launch(Flow { width, height, levels: 3, count: 24 }, (&one, &two, &corners, &mut tracks)));
        // No movement, a movement that takes each row from another, and one that needs all of the picture in each block.
        let unit = 1 << MATRIX_BITS[0];
        for [a, b, d, e] in [[unit, 0, 0, unit], [unit, unit / 32, -unit / 32, unit], [0, unit, unit / 2, 0]] {
            for (at, number) in
                [a, b, 1 << 16, d, e, 1 << 15, 1 << 15, -(1 << 15), 1 << MATRIX_BITS[2]].into_iter().enumerate()
            {
                matrix.write_u32(4 * at, i32::cast_unsigned(number));
            }
            run(Work::launch(Warp { width, height }, (&one, &matrix, &mut two)));
        }
    }
    log(1, ended);
}
