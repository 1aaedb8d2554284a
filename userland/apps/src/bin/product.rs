//! A client of a GPU: in each job, copies two matrices in, multiplies them there, copies the product out, and compares it
//! with its own computation.
//!
//! Handles: engines "in", "ee", "out"; regions "ring", "kick" and "buffer" (read, write), which is the driver's
//! `buffer.<this task>`; notifications "gpu_done" and, perhaps, "finished"; perhaps a pool "gpu", of which each job then has a
//! token first. Parameters: "jobs", how many; "product_us", how long a product takes; "bits", which are signalled in the end.
//!
//! With the parameter "gpus" it is a client of so many, and each job works on the one that its token is for. Its engines are "in.0",
//! "ee.0", "out.0", "in.1" and so on, the devices `gpu<first>` and those that follow, where "first" is a parameter, too. All users of the pool share the region "holders", a word for each token, which names its holder.
//!
//! Logs how many products were right (1) and, with "holders", how often a token was another's, too (2).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::library::Product;
use fusee::gpu::{Buffer, Context, Work};
use fusee::{Engine, EngineGuard, Environment, Instant, Notification, Pool, Region, environment, log, next_job};
use fusee_accel_contract::timing::EXECUTION_SETUP;

fusee::entry!(main);

const ORDER: usize = 12;
const BYTES: u64 = 4 * (ORDER * ORDER) as u64;

/// The handles to one GPU.
struct Gpu {
    context: Context,
    /// Copies in, executes, copies out.
    engines: [Engine; 3],
}

/// Names of engines by place in the pool, and of clients' handles by device.
const ENGINES: [[&str; 3]; 4] =
    [["in.0", "ee.0", "out.0"], ["in.1", "ee.1", "out.1"], ["in.2", "ee.2", "out.2"], ["in.3", "ee.3", "out.3"]];
const RINGS: [&str; 4] = ["ring.gpu0", "ring.gpu1", "ring.gpu2", "ring.gpu3"];
const DONE: [&str; 4] = ["gpu_done.gpu0", "gpu_done.gpu1", "gpu_done.gpu2", "gpu_done.gpu3"];

impl Gpu {
    /// The only one, or number `place` of several.
    fn of(environment: &Environment, place: usize) -> Gpu {
        let gpus = environment.parameter("gpus");
        let names = if gpus.is_some() { ENGINES[place] } else { ["in", "ee", "out"] };
        let context = if gpus.is_some_and(|gpus| gpus > 1) {
            let device = environment.parameter("first").unwrap_or(0) as usize + place;
            Context::new(environment, environment.expect(RINGS[device]), environment.expect(DONE[device]))
        } else {
            Context::of(environment)
        };
        let context = context.expect("this task is a client of the GPU");
        Gpu { context, engines: names.map(|name| environment.expect(name)) }
    }
}

fn main() {
    let environment = environment();
    let count = environment.parameter("gpus").unwrap_or(1);
    let gpus: [Option<Gpu>; 4] =
        core::array::from_fn(|place| (place < count as usize).then(|| Gpu::of(&environment, place)));
    let holders = environment.get::<Region>("holders").ok().map(|region| region.shared());
    let own = environment.parameter("bits").unwrap_or(1);
    let mut pool = environment.get::<Pool>("gpu").ok();
    let mut left = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut right = left.split_off(BYTES);
    let mut product = right.split_off(BYTES);
    let mut local_left = Buffer::local(3 * BYTES);
    let mut local_right = local_left.split_off(BYTES);
    let mut local_product = local_right.split_off(BYTES);

    let time = environment.parameter("product_us").unwrap_or(0) * 1000;
    let kernel = Product { order: ORDER as u16, time: time.saturating_sub(EXECUTION_SETUP) };
    let (mut matches, mut doubles) = (0, 0);
    for job in 1..=environment.parameter("jobs").unwrap_or(1) {
        next_job().expect("this task is periodic");
        // Numbers that differ from job to job and from task to task.
        let seed = job as u32 * 0x9E37 + own as u32;
        let factor = |which: u32, row: usize, column: usize| (which + seed) * (1 + row as u32 * 31 + column as u32 * 7);
        let at = |row: usize, column: usize| 4 * (row * ORDER + column);
        for (row, column) in places() {
            left.write_u32(at(row, column), factor(0, row, column));
            right.write_u32(at(row, column), factor(1, row, column));
        }
        product.fill(0);

        let token = pool.as_mut().map(|pool| pool.acquire(Instant::NEVER).expect("a token comes back to the pool"));
        let replica = token.as_ref().map_or(0, |token| token.replica());
        // A task that comes finds no holder, and a task that goes finds itself.
        let mut pass = |from: u64, to: u64| {
            if let Some(holders) = &holders {
                let place = 8 * usize::from(replica);
                doubles += u64::from(holders.read_u64(place) != from);
                holders.write_u64(place, to);
            }
        };
        pass(0, own);
        let gpu = gpus.get(token.as_ref().map_or(0, |token| token.device())).and_then(Option::as_ref);
        let Gpu { context, engines: [into, execute, out] } = gpu.expect("each token is for a GPU");
        let acquire = |engine: &Engine| {
            let guard = match &token {
                Some(token) => token.acquire(engine, Instant::NEVER),
                None => engine.acquire(Instant::NEVER),
            };
            guard.expect("nobody has this engine for ever")
        };
        let copies = [Work::copy_in(&left, &mut local_left), Work::copy_in(&right, &mut local_right)];
        run(context, &acquire(into), copies);
        let work = Work::launch(kernel, (&local_left, &local_right, &mut local_product));
        run(context, &acquire(execute), [work]);
        run(context, &acquire(out), [Work::copy_out(&local_product, &mut product)]);
        pass(own, 0);
        drop(token);

        let is_right = places().all(|(row, column)| {
            let terms = (0..ORDER).map(|k| factor(0, row, k).wrapping_mul(factor(1, k, column)));
            product.read_u32(at(row, column)) == terms.fold(0, u32::wrapping_add)
        });
        matches += u64::from(is_right);
    }
    log(1, matches);
    if holders.is_some() {
        log(2, doubles);
    }
    if let Ok(finished) = environment.get::<Notification>("finished") {
        finished.signal(own).expect("the manifest gives us the right");
    }
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
