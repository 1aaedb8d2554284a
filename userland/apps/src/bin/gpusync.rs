//! A task of the experiments on budgets and migration: in each job it works on one of two GPUs, the one that its token is for,
//! with a state that it fetches from where it was.
//!
//! A job computes, takes a token, fetches its state if that is on another GPU, copies a matrix in, multiplies twice, copies the state
//! out, gives the token back, and computes. The new state is the old one times the matrix, twice; the result is compared with
//! the task's own computation, so that a state that was lost or mixed up is a fault. A job that is told that it has used up its
//! budget ends: it gives its token back, and the next one begins without a state.
//!
//! Handles: pool "gpus"; for each GPU *n* the engines "ee.n", "in.n" and "out.n", those that copy in one group, and the handles of clients of
//! the devices `gpu0`, `gpu1`; the region "buffer" (read, write), which is `buffer.<this task>` of both drivers. Parameters:
//! "compute_ns" before and after the token; "kernel_ns" of each product; "bytes" of each copy
//! and of the state; "long0", "long1" and so on, instants in order: the first job released then or later runs "factor" times as long.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::library::Product;
use fusee::gpu::{Context, Fence, FenceError, Operation, launch_at};
use fusee::{
    AcquireError, Engine, EngineGuard, Environment, Instant, Nanoseconds, Notification, Pool, Region, SharedBytes,
    Token, WaitError, burn, environment, next_job, yield_now,
};
use fusee_accel_contract::space::{BUFFER_BASE, LOCAL_BASE, peer};
use fusee_accel_contract::timing::EXECUTION_SETUP;

fusee::entry!(main);

const ORDER: usize = 4;
const WORDS: usize = ORDER * ORDER;
type Matrix = [u32; WORDS];

/// Names by GPU: of engines, and of clients' handles.
const ENGINES: [[&str; 3]; 2] = [["ee.0", "in.0", "out.0"], ["ee.1", "in.1", "out.1"]];
const RINGS: [&str; 2] = ["ring.gpu0", "ring.gpu1"];
const DONE: [&str; 2] = ["gpu_done.gpu0", "gpu_done.gpu1"];
const LONG: [&str; 8] = ["long0", "long1", "long2", "long3", "long4", "long5", "long6", "long7"];

/// The job has used up its budget.
struct Told;

fn acquire<'token>(token: &'token Token<'_>, engine: &Engine) -> Result<EngineGuard<'token>, Told> {
    match token.acquire(engine, Instant::NEVER) {
        Err(AcquireError::Overrun) => Err(Told),
        guard => Ok(guard.expect("nobody has this engine for ever")),
    }
}

/// The handles to one GPU.
struct Gpu {
    context: Context,
    done: Notification,
    execute: Engine,
    copy_in: Engine,
    copy_out: Engine,
}

impl Gpu {
    fn of(environment: &Environment, number: usize) -> Gpu {
        let done = environment.expect(DONE[number]);
        let context = Context::new(environment, environment.expect(RINGS[number]), done);
        let context = context.expect("this task is a client of the GPU");
        let [execute, copy_in, copy_out] = ENGINES[number].map(|name| environment.expect(name));
        Gpu { context, done, execute, copy_in, copy_out }
    }

    /// Does `operation`; the engine is given back while it works, so that the next in line has it at once.
    fn run(&self, token: &Token<'_>, engine: &Engine, operation: Operation) -> Result<(), Told> {
        let guard = acquire(token, engine)?;
        let fence = self.context.start(&guard, operation).expect("the ring is empty");
        guard.release().expect("we hold it");
        self.finish(fence)
    }

    /// Waits until an operation is done, with any notices meanwhile.
    fn finish(&self, fence: Fence) -> Result<(), Told> {
        let wait = || self.context.wait_for(fence, self.done, Instant::NEVER);
        let (first, told) = match wait() {
            Err(FenceError::Wait(WaitError::Overrun)) => (wait(), Err(Told)),
            first => (first, Ok(())),
        };
        first.expect("the operation stays within our memory");
        told
    }

    /// Copies so many times, and asks between two whether others should have the engine.
    fn copy(&self, token: &Token<'_>, engine: &Engine, operation: Operation, times: u64) -> Result<(), Told> {
        let mut guard: Option<EngineGuard<'_>> = None;
        for _ in 1..times {
            let held = guard.take().map_or_else(|| acquire(token, engine), Ok)?;
            let copy = self.context.submit(&held, operation).expect("the ring is empty");
            copy.wait().expect("the operation stays within our memory");
            if held.should_yield().expect("we hold it") {
                held.release().expect("we hold it");
            } else {
                guard = Some(held);
            }
        }
        let held = guard.take().map_or_else(|| acquire(token, engine), Ok)?;
        let fence = self.context.start(&held, operation).expect("the ring is empty");
        held.release().expect("we hold it");
        self.finish(fence)
    }
}

fn main() {
    let environment = environment();
    let parameter = |name| environment.parameter(name).unwrap_or(0);
    let gpus = [0, 1].map(|number| Gpu::of(&environment, number));
    let (bytes, kernel) = (parameter("bytes"), parameter("kernel_ns"));
    let (compute, long) = (parameter("compute_ns"), parameter("factor"));
    let moments = LONG.map(|name| environment.parameter(name).unwrap_or(u64::MAX));
    let mut pool = environment.expect::<Pool>("gpus");
    let buffer = environment.expect::<Region>("buffer").shared();
    let (input, output) = (buffer.part(0, bytes as usize), buffer.part(bytes as usize, bytes as usize));

    // On each GPU: the state, the matrix, and their product.
    let [state, matrix, product] = [0, 1, 2].map(|part| LOCAL_BASE + part * bytes);
    let mut home: Option<usize> = None;
    let mut expected: Matrix = [0; WORDS];
    let mut passed: usize = 0;
    for job in 0.. {
        let release = next_job().expect("this task is periodic").release;
        let before = core::mem::replace(&mut passed, moments.iter().filter(|moment| **moment <= release.0).count());
        let factor = if passed > before { long } else { 1 };
        burn(Nanoseconds(factor * compute));
        let factors: Matrix = core::array::from_fn(|at| job * 0x9E37 + at as u32 * 31);
        write(&input, &factors);
        let token = match pool.acquire(Instant::NEVER) {
            Ok(token) => token,
            Err(AcquireError::Overrun) => continue,
            Err(error) => panic!("no token: {error:?}"),
        };
        let number = token.device();
        let gpu = &gpus[number];
        let from = home.take();
        let left = if from.is_some() { state } else { matrix };
        let time = (factor * kernel).saturating_sub(EXECUTION_SETUP);
        let times = |left: u64, product: u64| {
            launch_at(&Product { order: ORDER as u16, time }, &[left, matrix, product].map(|address| address as u32))
        };
        let copy_in = Operation::Copy { source: BUFFER_BASE, destination: matrix, length: bytes };
        let copy_out = Operation::Copy { source: state, destination: BUFFER_BASE + bytes, length: bytes };
        let work = || {
            if let Some(from) = from.filter(|from| *from != number) {
                let operation = Operation::PeerCopy { source: peer(from), destination: state, length: bytes };
                let group = match Engine::acquire_together([gpu.copy_in, gpus[from].copy_out], Instant::NEVER) {
                    Err(AcquireError::Overrun) => return Err(Told),
                    group => group.expect("nobody has these engines for ever"),
                };
                let copy = gpu.context.submit(group.guards()[0], operation).expect("the ring is empty");
                copy.wait().expect("the operation stays within our memory");
                group.release().expect("we hold them");
            }
            gpu.copy(&token, &gpu.copy_in, copy_in, factor)?;
            // If there is no state yet, the matrix takes its place.
            gpu.run(&token, &gpu.execute, times(left, product))?;
            gpu.run(&token, &gpu.execute, times(product, state))?;
            gpu.copy(&token, &gpu.copy_out, copy_out, factor)
        };
        let done = work();
        drop(token);
        if done.is_err() {
            continue;
        }
        home = Some(number);
        let is_first = from.is_none();

        expected = multiply(&multiply(if is_first { &factors } else { &expected }, &factors), &factors);
        assert!((0..WORDS).all(|at| output.read_u32(4 * at) == expected[at]), "the state is not what it was");
        if yield_now().is_ok() {
            burn(Nanoseconds(factor * compute));
        }
    }
}

fn write(buffer: &SharedBytes, matrix: &Matrix) {
    matrix.iter().enumerate().for_each(|(at, word)| buffer.write_u32(4 * at, *word));
}

fn multiply(left: &Matrix, right: &Matrix) -> Matrix {
    core::array::from_fn(|at| {
        let (row, column) = (at / ORDER, at % ORDER);
        let terms = (0..ORDER).map(|k| left[row * ORDER + k].wrapping_mul(right[k * ORDER + column]));
        terms.fold(0, u32::wrapping_add)
    })
}
