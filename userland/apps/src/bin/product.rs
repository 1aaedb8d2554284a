//! A client of one GPU: in each job, copies two matrices in, multiplies them there, copies the product out, and compares it
//! with what it computes itself.
//!
//! Handles: engines "in", "ee", "out"; regions "ring", "kick" and "buffer" (read, write), which is the driver's
//! `buffer.<this task>`; notifications "gpu_done" and "finished". Parameters: "jobs", how many; "product_us", how long a
//! product takes; "bits", what is signalled in the end.
//!
//! Logs how many products were right (1).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::{Context, Operation};
use fusee::{Engine, Instant, Notification, Region, environment, log, next_job};
use fusee_accel_contract::space::{BUFFER_BASE, LOCAL_BASE};

fusee::entry!(main);

const ORDER: usize = 12;
const BYTES: u64 = 4 * (ORDER * ORDER) as u64;

fn main() {
    let environment = environment();
    let buffer = environment.expect::<Region>("buffer").shared();
    let [into, execute, out] = ["in", "ee", "out"].map(|name| environment.expect::<Engine>(name));
    let mut context = Context::of(&environment).expect("this task is a client of the GPU");
    let mut run = |engine: &Engine, operation| {
        let guard = engine.acquire(Instant::NEVER).expect("nobody takes this engine from us for ever");
        let fence = context.submit(&guard, operation).expect("the ring is empty");
        context.wait(fence, Instant::NEVER).expect("the operation stays within our memory");
        guard.release().expect("we hold it");
    };
    let time = environment.parameter("product_us").unwrap_or(0) * 1000;
    let mut right = 0;
    for job in 1..=environment.parameter("jobs").unwrap_or(1) {
        next_job().expect("this task is periodic");
        // Left factor, right factor, product: numbers that differ from job to job and from task to task.
        let seed = job as u32 * 0x9E37 + environment.task_name().len() as u32;
        let factor = |which: u32, row: usize, column: usize| (which + seed) * (1 + row as u32 * 31 + column as u32 * 7);
        let at = |which: usize, row: usize, column: usize| 4 * ((which * ORDER + row) * ORDER + column);
        for (row, column) in places() {
            buffer.write_u32(at(0, row, column), factor(0, row, column));
            buffer.write_u32(at(1, row, column), factor(1, row, column));
            buffer.write_u32(at(2, row, column), 0);
        }
        run(&into, Operation::Copy { source: BUFFER_BASE, destination: LOCAL_BASE, length: 2 * BYTES });
        let (left, second, product) = (LOCAL_BASE, LOCAL_BASE + BYTES, LOCAL_BASE + 2 * BYTES);
        run(&execute, Operation::MatrixProduct { left, right: second, product, order: ORDER as u16, time });
        run(&out, Operation::Copy { source: product, destination: BUFFER_BASE + 2 * BYTES, length: BYTES });
        let is_right = places().all(|(row, column)| {
            let terms = (0..ORDER).map(|k| factor(0, row, k).wrapping_mul(factor(1, k, column)));
            buffer.read_u32(at(2, row, column)) == terms.fold(0, u32::wrapping_add)
        });
        right += u64::from(is_right);
    }
    log(1, right);
    let bits = environment.parameter("bits").unwrap_or(1);
    environment.expect::<Notification>("finished").signal(bits).expect("the manifest gives us the right");
}

fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..ORDER).flat_map(|row| (0..ORDER).map(move |column| (row, column)))
}
