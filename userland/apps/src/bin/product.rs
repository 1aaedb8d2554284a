//! A client of one GPU: in each job, copies two matrices in, multiplies them there, copies the product out, and compares it
//! with what it computes itself.
//!
//! Handles: engines "in", "ee", "out"; regions "ring", "kick" and "buffer" (read, write), which is the driver's
//! `buffer.<this task>`; notifications "gpu_done" and "finished"; perhaps a pool "gpu", of which each job then has a token
//! first. Parameters: "jobs", how many; "product_us", how long a product takes; "bits", what is signalled in the end.
//!
//! Logs how many products were right (1).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::{Buffer, Context, Work};
use fusee::{Engine, EngineGuard, Instant, Notification, Pool, Region, environment, log, next_job};

fusee::entry!(main);

const ORDER: usize = 12;
const BYTES: u64 = 4 * (ORDER * ORDER) as u64;

fn main() {
    let environment = environment();
    let [into, execute, out] = ["in", "ee", "out"].map(|name| environment.expect::<Engine>(name));
    let mut pool = environment.get::<Pool>("gpu").ok();
    let context = Context::of(&environment).expect("this task is a client of the GPU");
    let mut left = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut right = left.split_off(BYTES);
    let mut product = right.split_off(BYTES);
    let mut local_left = Buffer::local(3 * BYTES);
    let mut local_right = local_left.split_off(BYTES);
    let mut local_product = local_right.split_off(BYTES);

    let time = environment.parameter("product_us").unwrap_or(0) * 1000;
    let mut matches = 0;
    for job in 1..=environment.parameter("jobs").unwrap_or(1) {
        next_job().expect("this task is periodic");
        // Numbers that differ from job to job and from task to task.
        let seed = job as u32 * 0x9E37 + environment.task_name().len() as u32;
        let factor = |which: u32, row: usize, column: usize| (which + seed) * (1 + row as u32 * 31 + column as u32 * 7);
        let at = |row: usize, column: usize| 4 * (row * ORDER + column);
        for (row, column) in places() {
            left.write_u32(at(row, column), factor(0, row, column));
            right.write_u32(at(row, column), factor(1, row, column));
        }
        product.fill(0);

        let token = pool.as_mut().map(|pool| pool.acquire(Instant::NEVER).expect("a token comes back to the pool"));
        let acquire = |engine: &Engine| {
            let guard = match &token {
                Some(token) => token.acquire(engine, Instant::NEVER),
                None => engine.acquire(Instant::NEVER),
            };
            guard.expect("nobody has this engine for ever")
        };
        let copies = [Work::copy_in(&left, &mut local_left), Work::copy_in(&right, &mut local_right)];
        run(&context, &acquire(&into), copies);
        let factors = [&local_left, &local_right];
        run(&context, &acquire(&execute), [Work::product(factors, ORDER as u16, time, &mut local_product)]);
        run(&context, &acquire(&out), [Work::copy_out(&local_product, &mut product)]);
        drop(token);

        let is_right = places().all(|(row, column)| {
            let terms = (0..ORDER).map(|k| factor(0, row, k).wrapping_mul(factor(1, k, column)));
            product.read_u32(at(row, column)) == terms.fold(0, u32::wrapping_add)
        });
        matches += u64::from(is_right);
    }
    log(1, matches);
    let bits = environment.parameter("bits").unwrap_or(1);
    environment.expect::<Notification>("finished").signal(bits).expect("the manifest gives us the right");
}

/// Does all of `work` on one engine: the second while the first is still under way.
fn run<const N: usize>(context: &Context, engine: &EngineGuard<'_>, work: [Work<'_>; N]) {
    let operations = work.map(|work| context.submit(engine, work).expect("the ring is empty"));
    for operation in operations {
        operation.wait().expect("the operation stays within our memory");
    }
}

fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..ORDER).flat_map(|row| (0..ORDER).map(move |column| (row, column)))
}
