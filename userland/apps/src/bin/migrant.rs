//! A client of two GPUs with a state that moves in each job: from the first to the second directly, and back through memory.
//!
//! Handles: for each of the GPUs "left" and "right" the engines "in.GPU" and "out.GPU", and the handles of their clients; the
//! region "buffer" (read, write), which is `buffer.<this task>` of both drivers; notification "finished"; system, which it
//! ends when it has got all bits of "others" from there. Parameters: "others"; "jobs", how many; "slowdown", by how many
//! percent a byte takes longer from left to right than over a near way.
//!
//! Logs how often every byte arrived directly (1) and through memory (2), how often the direct move took at least as
//! long as its way says (3), and whether a copy from the memory of a GPU as if it were this one's was refused (4).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::{Command, Context, EngineIndex, FenceError, Operation};
use fusee::migration::{Side, State, directly, through_memory};
use fusee::{
    Engine, Environment, Instant, Notification, Region, SharedBytes, System, environment, log, next_job, now, shutdown,
};
use fusee_accel_contract::space::{BUFFER_BASE, LOCAL_BASE, peer};
use fusee_accel_contract::timing::{Slowdown, modelled_time_over};

fusee::entry!(main);

/// Two whole chunks, and a shorter one.
const STATE: State = State { offset: 0x1000, bytes: 0xA000, chunk: 0x4000 };
/// Where in the buffer the state starts out, passes through, and comes back.
const START: u64 = 0;
const PASSAGE: u64 = STATE.bytes;
const BACK: u64 = 2 * STATE.bytes;

fn main() {
    let environment = environment();
    let buffer = environment.expect::<Region>("buffer").shared();
    let left = side(&environment, ["ring.left", "gpu_done.left", "in.left", "out.left", "device.left"]);
    let right = side(&environment, ["ring.right", "gpu_done.right", "in.right", "out.right", "device.right"]);
    let slowdown = Slowdown(environment.parameter("slowdown").unwrap_or(0) as u32);
    let least = |length| {
        let operation = Operation::PeerCopy { source: 0, destination: 0, length };
        modelled_time_over(slowdown, &Command { operation, fence: None }, EngineIndex::CopyIn)
    };
    let least = 2 * least(STATE.chunk) + least(STATE.bytes - 2 * STATE.chunk);

    let (mut direct, mut through, mut long) = (0, 0, 0);
    for job in 1..=environment.parameter("jobs").unwrap_or(1) {
        next_job().expect("this task is periodic");
        upload(&left, &buffer, 2 * job);
        let begin = now().now;
        directly(&left, &right, STATE, Instant::NEVER).expect("both have the state's place");
        long += u64::from(now().now.0 - begin.0 >= least);
        direct += u64::from(download(&right, &buffer, 2 * job));

        upload(&right, &buffer, 2 * job + 1);
        through_memory(&right, &left, STATE, BUFFER_BASE + PASSAGE, Instant::NEVER).expect("the same");
        through += u64::from(download(&left, &buffer, 2 * job + 1));
    }
    log(1, direct);
    log(2, through);
    log(3, long);
    let stray = Operation::Copy { source: peer(right.device), destination: BUFFER_BASE, length: 64 };
    let guard = left.copy_out.acquire(Instant::NEVER).expect("nobody else wants it");
    let copy = left.context.submit(&guard, stray).expect("the ring is empty");
    log(4, u64::from(copy.wait() == Err(FenceError::Failed)));
    guard.release().expect("we hold it");

    let (finished, others) =
        (environment.expect::<Notification>("finished"), environment.parameter("others").unwrap_or(0));
    let mut bits = 0;
    while bits & others != others {
        bits |= finished.wait(Instant::NEVER).expect("the manifest gives us the right");
    }
    shutdown(environment.expect::<System>("system"), 0);
}

fn side(environment: &Environment, [ring, done, copy_in, copy_out, device]: [&str; 5]) -> Side {
    let [copy_in, copy_out] = [copy_in, copy_out].map(|name| environment.expect::<Engine>(name));
    let context = Context::new(environment, environment.expect(ring), environment.expect(done));
    let context = context.expect("this task is a client of the GPU");
    let device = environment.parameter(device).expect("this task is a client of two GPUs") as usize;
    Side { context, copy_in, copy_out, device }
}

/// Puts the state of number `seed` onto a GPU.
fn upload(side: &Side, buffer: &SharedBytes, seed: u64) {
    for offset in (0..STATE.bytes).step_by(8) {
        buffer.write_u64((START + offset) as usize, noise(seed, offset));
    }
    // The memory through which a state passes holds nothing of it.
    buffer.fill(PASSAGE as usize, 2 * STATE.bytes as usize, 0);
    let (source, destination) = (BUFFER_BASE + START, LOCAL_BASE + STATE.offset);
    run(&side.context, &side.copy_in, Operation::Copy { source, destination, length: STATE.bytes });
}

/// Whether a GPU has the state of number `seed`, byte for byte.
fn download(side: &Side, buffer: &SharedBytes, seed: u64) -> bool {
    let (source, destination) = (LOCAL_BASE + STATE.offset, BUFFER_BASE + BACK);
    run(&side.context, &side.copy_out, Operation::Copy { source, destination, length: STATE.bytes });
    (0..STATE.bytes).step_by(8).all(|offset| buffer.read_u64((BACK + offset) as usize) == noise(seed, offset))
}

fn run(context: &Context, engine: &Engine, operation: Operation) {
    context.run(engine, operation, Instant::NEVER).expect("the operation stays within our memory");
}

/// Eight bytes that differ from state to state and from place to place.
fn noise(seed: u64, offset: u64) -> u64 {
    let mixed = (seed << 32 | offset).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}
