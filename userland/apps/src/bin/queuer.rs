//! Clients of an engine without its lock, and a task that holds the lock beside them.
//!
//! | role      | does                                                                                                        |
//! |-----------|-------------------------------------------------------------------------------------------------------------|
//! | 0, queuer | hands over as many products as there is room for, `rounds` times, and waits for each; with the parameter `hangs`, at last an operation that never ends |
//! | 1, wanter | in each of `jobs` jobs acquires the engine, has one product computed, and gives the engine back               |
//! | 2, hoarder | for `for_ms` milliseconds hands over as many products as there is room for, waits for them, and begins again |
//!
//! Handles: engine "ee" of a device without copy engines; region "buffer" (read, write), which is the driver's `buffer.<this task>`. The parameter
//! `product_us` says how long a product takes. A queuer logs how many products were right (1) and how many operations failed (2); a wanter
//! how many products were right (1), and how many times it was granted the engine in `within_us` (2); a hoarder whether all products were right (1), and
//! whether it had the engine for `least_ms` to `most_ms` (2), or without these for how many milliseconds it had (3).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::library::Product;
use fusee::gpu::{Buffer, Context, Operation, Work};
use fusee::{Engine, Environment, Instant, Nanoseconds, Region, environment, log, next_job, now};
use fusee_accel_contract::timing::EXECUTION_SETUP;

fusee::entry!(main);

const ORDER: usize = 4;
const BYTES: u64 = 4 * (ORDER * ORDER) as u64;
/// Commands for which a ring has room.
const DEPTH: usize = fusee_accel_contract::RING_ENTRIES as usize;

/// Two factors, and places for products.
struct Numbers {
    left: Buffer,
    right: Buffer,
    products: [Buffer; DEPTH],
}

impl Numbers {
    fn of(environment: &Environment) -> Numbers {
        let mut left = Buffer::of(&environment.expect::<Region>("buffer"));
        let mut right = left.split_off(BYTES);
        let mut rest = right.split_off(BYTES);
        let products = core::array::from_fn(|_| {
            let next = rest.split_off(BYTES);
            core::mem::replace(&mut rest, next)
        });
        Numbers { left, right, products }
    }

    /// Others in each round.
    fn fill(&mut self, round: u64) {
        for (row, column) in places() {
            self.left.write_u32(at(row, column), factor(round, 0, row, column));
            self.right.write_u32(at(row, column), factor(round, 1, row, column));
        }
        self.products.iter_mut().for_each(|product| product.fill(0));
    }

    fn is_right(&self, round: u64, product: usize) -> bool {
        places().all(|(row, column)| {
            let terms = (0..ORDER).map(|k| factor(round, 0, row, k).wrapping_mul(factor(round, 1, k, column)));
            self.products[product].read_u32(at(row, column)) == terms.fold(0, u32::wrapping_add)
        })
    }
}

fn main() {
    let environment = environment();
    let engine = environment.expect::<Engine>("ee");
    let context = Context::of(&environment).expect("this task is a client of the device");
    let time = environment.parameter("product_us").unwrap_or(0) * 1000;
    let kernel = Product { order: ORDER as u16, time: time.saturating_sub(EXECUTION_SETUP) };
    let numbers = Numbers::of(&environment);
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => queue(&environment, &context, &engine, kernel, numbers),
        1 => want(&environment, &context, &engine, kernel, numbers),
        2 => hoard(&environment, &context, &engine, time, kernel, numbers),
        unknown => panic!("there is no role {unknown}"),
    }
}

/// Fills the ring once, and says after each operation, in their order, whether it failed. How many products were right.
fn fill_ring(
    context: &Context,
    engine: &Engine,
    kernel: Product,
    numbers: &mut Numbers,
    round: u64,
    mut ended: impl FnMut(bool),
) -> u64 {
    numbers.fill(round);
    let guard = engine.acquire(Instant::NEVER).expect("there is no lock to wait for");
    let Numbers { left, right, products } = &mut *numbers;
    let all = products.each_mut().map(|product| {
        let work = Work::launch(kernel, (&*left, &*right, product));
        context.submit(&guard, work).expect("there is room for as many")
    });
    for operation in all {
        ended(operation.wait().is_err());
    }
    drop(guard);
    (0..DEPTH).filter(|product| numbers.is_right(round, *product)).count() as u64
}

fn queue(environment: &Environment, context: &Context, engine: &Engine, kernel: Product, mut numbers: Numbers) {
    let (mut right, mut failed) = (0, 0);
    for round in 0..environment.parameter("rounds").unwrap_or(1) {
        right += fill_ring(context, engine, kernel, &mut numbers, round, |has_failed| failed += u64::from(has_failed));
    }
    if environment.parameter("hangs").is_some() {
        failed += u64::from(context.run(engine, Operation::Burn { time: u64::MAX }, Instant::NEVER).is_err());
    }
    log(1, right);
    log(2, failed);
}

fn hoard(
    environment: &Environment,
    context: &Context,
    engine: &Engine,
    time: u64,
    kernel: Product,
    mut numbers: Numbers,
) {
    let milliseconds = |name: &str| environment.parameter(name).unwrap_or_else(|| panic!("no parameter `{name}`"));
    let until = now().now + Nanoseconds(milliseconds("for_ms") * 1_000_000);
    let (mut had, mut wrong, mut round) = (0, 0, 0);
    while now().now < until {
        let right = fill_ring(context, engine, kernel, &mut numbers, round, |has_failed| {
            wrong += u64::from(has_failed);
            had += if now().now < until { time } else { 0 };
        });
        wrong += DEPTH as u64 - right;
        round += 1;
    }
    let had = had / 1_000_000;
    log(1, u64::from(wrong == 0));
    match environment.parameter("least_ms") {
        Some(least) => log(2, u64::from((least..=milliseconds("most_ms")).contains(&had))),
        None => log(3, had),
    }
}

fn want(environment: &Environment, context: &Context, engine: &Engine, kernel: Product, mut numbers: Numbers) {
    let within = environment.parameter("within_us").expect("the parameter `within_us`") * 1000;
    let (mut right, mut in_time) = (0, 0);
    for job in 0..environment.parameter("jobs").unwrap_or(1) {
        next_job().expect("this task is periodic");
        numbers.fill(job);
        let asked = now().now;
        let guard = engine.acquire(Instant::NEVER).expect("nobody has the engine for ever");
        let waited = now().now.since(asked).0;
        let work = Work::launch(kernel, (&numbers.left, &numbers.right, &mut numbers.products[0]));
        context.submit(&guard, work).expect("the ring is empty").wait().expect("nothing is wrong with it");
        drop(guard);
        right += u64::from(numbers.is_right(job, 0));
        in_time += u64::from(waited <= within);
    }
    log(1, right);
    log(2, in_time);
}

/// Numbers that differ from round to round.
fn factor(round: u64, which: u32, row: usize, column: usize) -> u32 {
    (which + 1 + round as u32 * 0x9E37) * (1 + row as u32 * 31 + column as u32 * 7)
}

fn at(row: usize, column: usize) -> usize {
    4 * (row * ORDER + column)
}

fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..ORDER).flat_map(|row| (0..ORDER).map(move |column| (row, column)))
}
