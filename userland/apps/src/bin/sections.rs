//! A client of the GPU that names no pool and no engine, and computes on after its last copy.
//!
//! Each job copies two matrices in, has them multiplied, copies the product out, compares it with its own computation, and then computes for a while.
//! With the parameter "early" it says after the last copy that it does not need the device any more, so that its token is another's meanwhile; without it, it has the token until the end.
//!
//! Handles: engines of a device, a pool, and the handles of clients; the region "buffer" (read, write), which is `buffer.<this task>` of the driver.
//! Parameters: "early"; "after_us", how long it computes; "seed", of its matrices.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::library::Product;
use fusee::gpu::{Auto, Buffer, Work, compute};
use fusee::{Instant, Nanoseconds, Region, burn, environment, next_job};

fusee::entry!(main);

const ORDER: usize = 8;
const ELEMENTS: usize = ORDER * ORDER;
const BYTES: u64 = 4 * ELEMENTS as u64;
const PRODUCT: Product = Product { order: ORDER as u16, time: 760_000 };

fn main() {
    let environment = environment();
    let mut device = Auto::of(&environment).expect("this task is a client of one device");
    let mut left = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut product = left.split_off(2 * BYTES);
    let _ = product.split_off(BYTES);
    let mut right = left.split_off(BYTES);
    let mut left_there = Buffer::local(3 * BYTES);
    let mut right_there = left_there.split_off(BYTES);
    let mut product_there = right_there.split_off(BYTES);
    let is_early = environment.parameter("early") == Some(1);
    let after = Nanoseconds(environment.parameter("after_us").unwrap_or(0) * 1_000);
    let seed = environment.parameter("seed").unwrap_or(0) as u32;

    let matrix = |first: u32| core::array::from_fn(|at| (first + at as u32).wrapping_mul(0x9E37_79B9));
    let numbers: [[u32; ELEMENTS]; 2] = [matrix(seed), matrix(seed + 1_000)];
    for (buffer, numbers) in [&mut left, &mut right].into_iter().zip(&numbers) {
        numbers.iter().enumerate().for_each(|(at, number)| buffer.write_u32(4 * at, *number));
    }
    let mut expected = [0; ELEMENTS];
    compute::run(&PRODUCT, (numbers[0][..].into(), numbers[1][..].into(), expected[..].as_mut().into()));
    loop {
        next_job().expect("this task is periodic");
        product.fill(0);
        let mut run = |work: Work<'_>| device.run(work, Instant::NEVER).expect("all operands are in our memory");
        run(Work::copy_in(&left, &mut left_there));
        run(Work::copy_in(&right, &mut right_there));
        run(Work::launch(PRODUCT, (&left_there, &right_there, &mut product_there)));
        run(Work::copy_out(&product_there, &mut product));
        if is_early {
            device.done_with_device().expect("it was not held for too long");
        }
        let found: [u32; ELEMENTS] = core::array::from_fn(|at| product.read_u32(4 * at));
        assert!(found == expected, "the product is that of the factors");
        burn(after);
        device.end().expect("it was not held for too long");
    }
}
