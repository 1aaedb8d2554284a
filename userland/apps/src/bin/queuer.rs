//! Clients of an engine without its lock, and a task that holds the lock beside them.
//!
//! | role      | does                                                                                                        |
//! |-----------|-------------------------------------------------------------------------------------------------------------|
//! | 0, queuer | hands over as many products as there is room for, `rounds` times, and waits for each; with the parameter `hangs`, at last so many operations that never end |
//! | 1, wanter | in each of `jobs` jobs acquires the engine, has one product computed, and gives the engine back               |
//! | 2, hoarder | for `for_ms` milliseconds hands over as many products as there is room for, waits for them, and begins again |
//! | 3, manager | after `after_ms` milliseconds suspends the group that it is told as `group.media`, and resumes it `for_ms` milliseconds later |
//! | 4, warden | as the manager of the group that it is told as `group.media`, `times` times waits for the notification "over" and has the command ended that this is about |
//!
//! Handles: engine "ee" of a device without copy engines; region "buffer" (read, write), which is the driver's `buffer.<this task>`. The parameter
//! `product_us` says how long a product takes. A queuer logs how many products were right (1) and how many operations failed (2); a wanter
//! how many products were right (1), and how many times it was granted the engine in `within_us` (2); a hoarder whether all products were right (1), and
//! whether it had the engine for `least_ms` to `most_ms` (2), or without these for how many milliseconds it had (3). With the parameter `silent` it
//! submits nothing for so long. With the parameter `claims` it asks the sharer, by its endpoint "requests", for that weight before each round,
//! and logs whether that was granted (4). A manager needs "requests" and the region "usage" (read), and logs how many permille of the time of all the group had while it was suspended (1), and whether it had
//! `least` to `most` permille for as long afterwards (2), or without these how many (3). A warden logs, in bits from 8 on, of which members it was told, and 1 if it was granted the end (1).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::library::Product;
use fusee::gpu::{Buffer, Context, Operation, Work};
use fusee::sharing::Sharer;
use fusee::usage::UsagePage;
use fusee::{
    Endpoint, Engine, Environment, Instant, Nanoseconds, Notification, Region, environment, log, next_job, now,
    sleep_until,
};
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
    let role = environment.parameter("role").expect("the parameter `role` says what to be");
    match role {
        3 => return manage(&environment),
        4 => return guard(&environment),
        _ => {}
    }
    let engine = environment.expect::<Engine>("ee");
    let context = Context::of(&environment).expect("this task is a client of the device");
    let time = environment.parameter("product_us").unwrap_or(0) * 1000;
    let kernel = Product { order: ORDER as u16, time: time.saturating_sub(EXECUTION_SETUP) };
    let numbers = Numbers::of(&environment);
    match role {
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
    for _ in 0..environment.parameter("hangs").unwrap_or(0) {
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
    let until = now().now + milliseconds(environment, "for_ms");
    let claims = environment.parameter("claims");
    if environment.parameter("silent").is_some() {
        sleep_until(until).expect("this task may sleep");
    }
    let (mut had, mut wrong, mut round, mut granted) = (0, 0, 0, true);
    while now().now < until {
        if let Some(claims) = claims {
            granted &= Sharer::new(environment.expect::<Endpoint>("requests")).weigh(0, claims as u16).is_ok();
        }
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
        Some(least) => log(2, u64::from((least..=milliseconds(environment, "most_ms").0 / 1_000_000).contains(&had))),
        None => log(3, had),
    }
    if claims.is_some() {
        log(4, u64::from(granted));
    }
}

fn manage(environment: &Environment) {
    let sharer = Sharer::new(environment.expect::<Endpoint>("requests"));
    let page = UsagePage::new(&environment.expect::<Region>("usage"));
    let group = environment.parameter("group.media").expect("this task is the manager of `media`");
    let sleep = |time: Nanoseconds| sleep_until(now().now + time).expect("this task may sleep");
    // Used time is booked when an interval ends.
    let (settling, time) = (milliseconds(environment, "settling_ms"), milliseconds(environment, "for_ms"));
    let permille_of_group = || {
        let picture = || page.picture().expect("the sharer has shown what was used");
        sleep(settling);
        let before = picture();
        sleep(time);
        let after = picture();
        let used = |group: usize| after.groups[group].used - before.groups[group].used;
        used(group as usize) * 1000 / used(0).max(1)
    };
    sleep(milliseconds(environment, "after_ms"));
    sharer.suspend(group as u8).expect("the manager of a group may suspend it");
    let suspended = permille_of_group();
    sharer.resume(group as u8).expect("and resume it");
    let resumed = permille_of_group();
    log(1, suspended);
    match (environment.parameter("least"), environment.parameter("most")) {
        (Some(least), Some(most)) => log(2, u64::from((least..=most).contains(&resumed))),
        _ => log(3, resumed),
    }
}

fn milliseconds(environment: &Environment, name: &str) -> Nanoseconds {
    let said = environment.parameter(name).unwrap_or_else(|| panic!("no parameter `{name}`"));
    Nanoseconds(said * 1_000_000)
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

fn guard(environment: &Environment) {
    let sharer = Sharer::new(environment.expect::<Endpoint>("requests"));
    let over = environment.expect::<Notification>("over");
    let group = environment.parameter("group.media").expect("the number of the group that it manages") as u8;
    for _ in 0..environment.parameter("times").unwrap_or(1) {
        let members = over.wait(Instant::NEVER).expect("the sharer may tell of commands that take too long");
        let ended = sharer.end(group);
        log(1, members << 8 | u64::from(ended.is_ok()));
    }
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
