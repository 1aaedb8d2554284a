//! Does, on request, what a task must not do: every fault the kernel claims to survive is a value of `how`.
//!
//! Handles: for 9 and 12 to 14 an engine "engine", which 9 does not acquire; for 4 whatever the manifest likes to give; for 10
//! an endpoint "console" (call); for 11 and 12 an endpoint "service" (receive), for 15 "door" (call); for 12 a notification
//! "event" (signal), for 15 (signal, grant); for 13, 14, 16 and 17 a pool "gpu", an engine "lock" without a device if they shall hold a mutex, too, and what
//! a client of the GPU has; for 13 an engine "other". For 18 an engine "engine", what a client of its device has and, if it shall hold
//! these, too, a pool "gpu" and an engine "second" of the same group.
//! Parameters: "how"; "calls" for 4, a hundred thousand if absent; "requests" that 11 answers first. For 18: "times", how often it
//! holds the engine; "operation_us", how long what it submits takes, 0 for ever (absent: nothing is submitted); "change", what it then
//! adds to its count, and "before_us", how much later; "kicks", how often it kicks afterwards; "gap_us", how long it sleeps between holds. For 19 an engine
//! "engine" and "times".
//!
//! | `how` | what                              | how it must end                          |
//! |-------|-----------------------------------|------------------------------------------|
//! | 1     | reads address zero                | fault                                    |
//! | 2     | runs data                         | fault                                    |
//! | 3     | overflows its stack               | fault                                    |
//! | 4     | calls with handles it was not given | `log(4, calls)`, exit 0; a call that succeeds: `log(number, handle)`, exit 1 |
//! | 5     | computes for ever                 | out of budget, again and again           |
//! | 6     | writes to its instructions        | fault                                    |
//! | 7     | runs an undefined instruction     | fault                                    |
//! | 8     | reads the kernel                  | fault                                    |
//! | 9     | rings an engine it does not hold  | fault                                    |
//! | 10    | panics                            | a line on the console, exit 101          |
//! | 11    | dies while it owes a reply        | `log(11, requests)`, then a fault        |
//! | 12    | asks for what it may not have     | `log(call, error)` for each, exit 0      |
//! | 13    | with a token, a mutex, and an engine that works, rings another engine | fault |
//! | 14    | exits with these                  | exit 14                                  |
//! | 15    | gives a server handles until it takes none, and calls it ever after | `log(15, handles)`, then out of budget, again and again |
//! | 16    | drops these                       | `log(16, 1)`, exit 0                     |
//! | 17    | computes for ever with these      | it is killed                             |
//! | 18    | miscounts what it submits         | `log(18, times)`, `log(19, holds it lost)`, exit 0 |
//! | 19    | counts what it submits, and lets nobody know | `log(20, times)`, exit 0      |
//! | 20    | as a node of a graph, says of another that it has ended no job | fault             |
//!
//! Comments `<- how` mark the lines that a backtrace must name when it is at that, here and in `fusee::misbehave`. (Calls that the
//! compiler has joined with others have no line.)
//!
//! A task with jobs does it in its first job, or if its name ends with a digit in the job of that number, others at once. A fault that goes unnoticed ends the task with code 99.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::hint::black_box;
use fusee::abi::call::{Call, HandleValue, NEVER};
use fusee::abi::environment::Entry;
use fusee::gpu::{Context, Operation};
use fusee::graph::{Node, names};
use fusee::misbehave::{Fault, miscount, provoke};
use fusee::{
    CallWithError, Endpoint, Engine, EngineGuard, Environment, Instant, Kick, Nanoseconds, Notification, Pool, Rights,
    Server, burn, environment, exit, log, next_job, now, raw, sleep_until,
};

fusee::entry!(main);

/// How long 13, 14, 16 and 17 hold an engine before it works, and how long it works then.
const HOLD: Nanoseconds = Nanoseconds(500_000);
const WORK: u64 = 1_000_000;

fn main() {
    let environment = environment();
    let turn = environment.task_name().bytes().last().filter(u8::is_ascii_digit).map_or(1, |digit| digit - b'0');
    // As a node of a graph it is a good one until then.
    let mut node = Node::of(&environment).ok();
    for left in (0..turn).rev() {
        // Without jobs there is nothing to wait for.
        if let (Ok(job), Some(node), 1..) = (next_job(), &mut node, left) {
            node.end(&job);
        }
    }
    match environment.parameter("how").expect("the parameter `how` says what to do") {
        1 => provoke(Fault::ReadNothing), // <- how 1
        2 => provoke(Fault::RunData),
        3 => exit(overflow(0)), // <- how 3
        4 => try_handles(&environment, environment.parameter("calls").unwrap_or(100_000)), // <- how 4
        5 => compute(),         // <- how 5
        6 => provoke(Fault::WriteText),
        7 => provoke(Fault::UndefinedInstruction),
        8 => provoke(Fault::ReadKernel),
        9 => provoke(Fault::RingUnheld(environment.expect("engine"))),
        10 => panic!("it was asked to panic"), // <- how 10
        11 => die_serving(environment.expect("service"), environment.parameter("requests").unwrap_or(0)), // <- how 11
        12 => ask_too_much(&environment),      // <- how 12
        13 => end_holding(&environment, || provoke(Fault::RingUnheld(environment.expect("other")))), // <- how 13
        14 => end_holding(&environment, || exit(14)), // <- how 14
        15 => flood(environment.expect("door"), environment.expect("event")), // <- how 15
        16 => {
            end_holding(&environment, || ()); // <- how 16
            log(16, 1);
        }
        17 => end_holding(&environment, compute), // <- how 17
        18 => miscount_holds(&environment),       // <- how 18
        19 => count_in_silence(&environment),
        20 => environment.region(names::GRAPH).expect("it is a node").shared().write_u64(0, 0), // <- how 20
        unknown => panic!("no misbehaviour has the number {unknown}"),
    }
}

/// Recurses until there is no stack left; what it computes is meant to be too much for the optimiser.
#[expect(unconditional_recursion, reason = "the stack is what shall end it")]
fn overflow(depth: u64) -> u64 {
    let mut room = [depth; 32];
    black_box(&mut room);
    overflow(depth + 1) + room[(depth % 32) as usize] // <- how 3
}

fn compute() {
    let mut count = 0u64;
    // <- gdb: the next line
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

/// Answers `requests` requests, and dies on the next.
fn die_serving(service: Endpoint, requests: u64) {
    let mut answered = 0;
    Server::new(service).run(|_, words| {
        if answered == requests {
            log(11, answered);
            provoke(Fault::ReadNothing) // <- how 11
        }
        answered += 1;
        words
    })
}

/// Ends as `end` does, with a token, an engine that is at work, and the mutex if it is given one. What it then still has, is
/// dropped.
fn end_holding(environment: &Environment, end: impl FnOnce()) {
    let mut pool: Pool = environment.expect("gpu");
    let context = Context::of(environment).expect("this task is a client of the GPU");
    let token = pool.acquire(Instant::NEVER).expect("a token comes back to the pool");
    let guard = token.acquire(&environment.expect::<Engine>("engine"), Instant::NEVER).expect("nobody keeps it");
    let lock = environment.engine("lock").ok();
    let _lock = lock.map(|lock| lock.acquire(Instant::NEVER).expect("nobody keeps it"));
    burn(HOLD);
    context.start(&guard, Operation::Burn { time: WORK }).expect("the ring is empty");
    end();
}

/// Holds an engine again and again, and stores counts that are not those of its commands.
fn miscount_holds(environment: &Environment) {
    let parameter = |name: &str| environment.parameter(name).unwrap_or(0);
    let kick = Kick::of(environment).expect("a client of a device may kick it");
    let context = Context::of(environment).expect("this task is a client of the GPU");
    let engine: Engine = environment.expect("engine");
    let second = environment.engine("second").ok();
    let mut pool = environment.pool("gpu").ok();
    let times = parameter("times");
    let mut lost = 0;
    let misuse = |guard: &EngineGuard<'_>| {
        if let Some(time) = environment.parameter("operation_us") {
            let time = if time == 0 { u64::MAX } else { time * 1_000 };
            // A ring that it has filled, or an engine that it has lost, is no reason to stop.
            let _ = context.start(guard, Operation::Burn { time });
        }
        burn(Nanoseconds(parameter("before_us") * 1_000));
        miscount(guard, parameter("change") as u32);
        (0..parameter("kicks")).for_each(|_| kick.send());
    };
    for _ in 0..times {
        let token = pool.as_mut().map(|pool| pool.acquire(Instant::NEVER).expect("a token comes back to the pool"));
        let released = match (second, &token) {
            (Some(second), _) => Engine::acquire_together([engine, second], Instant::NEVER).map(|both| {
                both.guards().into_iter().for_each(misuse);
                both.release()
            }),
            (None, Some(token)) => token.acquire(&engine, Instant::NEVER).map(|guard| {
                misuse(&guard);
                guard.release()
            }),
            (None, None) => engine.acquire(Instant::NEVER).map(|guard| {
                misuse(&guard);
                guard.release()
            }),
        };
        lost += u64::from(!matches!(released, Ok(Ok(()))));
        drop(token);
        let _ = sleep_until(now().now + Nanoseconds(parameter("gap_us") * 1_000));
    }
    log(18, times);
    log(19, lost);
    exit(0)
}

fn count_in_silence(environment: &Environment) {
    let engine: Engine = environment.expect("engine");
    let times = environment.parameter("times").unwrap_or(1);
    for _ in 0..times {
        let guard = engine.acquire(Instant::NEVER).expect("the engine is reset in time");
        miscount(&guard, 1);
    }
    log(20, times);
    exit(0)
}

/// Fills the table of a server with copies of a handle; then keeps it as busy as this task's budget allows.
fn flood(door: Endpoint, event: Notification) {
    let mut taken = 0;
    while !matches!(door.call_with([0; 6], &event, Rights::SIGNAL, Instant::NEVER), Err(CallWithError::NoHandleSlot)) {
        taken += 1;
    }
    log(15, taken);
    loop {
        let _ = door.call([0; 6], Instant::NEVER);
    }
}

/// Calls with good handles and wrong intentions; logs what each of them gets to hear.
fn ask_too_much(environment: &Environment) {
    let handle = |name: &str| {
        let named = |entry: &&Entry| entry.name[..name.len()] == *name.as_bytes() && entry.name[name.len()] == 0;
        environment.entries().iter().find(named).map_or(0, |entry| entry.handle)
    };
    let (engine, service, event) = (handle("engine"), handle("service"), handle("event"));
    // None of these waits, except to take an engine that another holds.
    for (call, handle) in [
        (Call::Release, engine),
        (Call::ShouldYield, engine),
        (Call::Acquire, engine),
        (Call::Acquire, engine),
        (Call::Release, engine),
        (Call::Release, engine),
        (Call::Call, service),
        (Call::Wait, event),
        (Call::Signal, service),
        (Call::Signal, event + (1 << 16)),
        (Call::ReleaseJob, 0),
        (Call::Exit, engine),
        (Call::Revoke, event),
    ] {
        log(call as u64, raw::message(call as u64, handle, [0; 6], NEVER, 0).code);
    }
    // A token for a request that nobody made.
    log(Call::ReplyReceive as u64, raw::message(Call::ReplyReceive as u64, service, [0; 6], NEVER, 0x101).code);
}

/// Calls that take a handle; the others harm nobody and would stop the test.
const CALLS: [Call; 23] = [
    Call::Call,
    Call::CallWith,
    Call::ReplyReceive,
    Call::Send,
    Call::Receive,
    Call::Signal,
    Call::Wait,
    Call::ReleaseJob,
    Call::Acquire,
    Call::Release,
    Call::ShouldYield,
    Call::AcquireGroup,
    Call::Share,
    Call::EngineComplete,
    Call::Map,
    Call::Unmap,
    Call::Dma,
    Call::Revoke,
    Call::InterruptAck,
    Call::Start,
    Call::Stop,
    Call::Restart,
    Call::ReadFault,
];

/// Every call must be refused, because no handle is one the task was given.
fn try_handles(environment: &Environment, calls: u64) {
    let mut random = 0x9E37_79B9_7F4A_7C15;
    for _ in 0..calls {
        let number = CALLS[(next(&mut random) % CALLS.len() as u64) as usize] as u64;
        let handle = guess(&mut random);
        let given = environment.entries().iter().any(|entry| entry.handle == handle);
        // A number that is no call at all must be refused, too.
        let number = if random.is_multiple_of(16) { number | 1 << (5 + random % 50) } else { number };
        if given {
            continue;
        }
        let words = [next(&mut random); 6];
        // A deadline in the past: should the call be accepted after all, it ends.
        if raw::message(number, handle, words, 0, random).code == 0 {
            log(number, handle);
            exit(1)
        }
    }
    log(4, calls);
}

/// A handle of any shape: near what exists, or just bits. Never zero, which is "this task" for some calls.
fn guess(random: &mut u64) -> u64 {
    let bits = next(random);
    let handle = match bits % 4 {
        0 => bits,
        1 => HandleValue::new((bits >> 8) as u16 % 64, (bits >> 32) % 4).0,
        2 => HandleValue::new((bits >> 8) as u16, 1).0,
        _ => HandleValue::new((bits >> 8) as u16 % 64, bits >> 32).0 | bits << 62,
    };
    handle.max(1)
}

/// One step of a xorshift generator.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
