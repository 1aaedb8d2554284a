//! Tasks that share a count by a mutex, and one that waits until it is high enough; the parameter `role` selects one.
//!
//! All have the region "state" (read, write) and the engine "lock".
//!
//! | role       | handles                                            | does                                               |
//! |------------|----------------------------------------------------|----------------------------------------------------|
//! | 0, counter | notification "counted" (signal)                    | counts; `log(1, 1)`: the count was always whole     |
//! | 1, waiter  | "counted" (wait), "go" (signal), "locked" (wait)   | waits for all counters, then for the doomed         |
//! | 2, doomed  | "go" (wait), "locked" (signal)                     | changes the count, and ends with the mutex locked   |
//! | 3, low     |                                                    | in each job, computes 5 ms with the mutex locked   |
//! | 4, high    |                                                    | in each job, locks it; `log(1, 1)` in the second   |
//!
//! The waiter logs the count (1), that a wait for more ends by its deadline (2), the result after the doomed (3), and that
//! this is over once it was repaired (4).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{
    Condvar, CondvarError, Engine, Environment, Instant, LockError, Mutex, Nanoseconds, Notification, Region,
    WaitError, burn, environment, exit, log, next_job, now,
};

fusee::entry!(main);

/// How often each counter counts, and how many counters there are.
const TIMES: u64 = 1_000;
const COUNTERS: u64 = 2;
/// A count, and a word computed from it.
type State = [u64; 2];

fn main() {
    let environment = environment();
    let state = environment.expect::<Region>("state").shared();
    let state = Mutex::<State>::new(environment.expect::<Engine>("lock"), state).expect("the region is large enough");
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => count(&environment, &state),
        1 => wait(&environment, &state),
        2 => die(&environment, &state),
        3 => hold(&state),
        4 => hurry(&state),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn event(environment: &Environment, name: &str) -> Notification {
    environment.expect(name)
}

fn follower(count: u64) -> u64 {
    count.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn count(environment: &Environment, state: &Mutex<State>) {
    let counted = Condvar::new(event(environment, "counted"));
    let mut is_whole = true;
    for time in 1..=TIMES {
        let mut guard = state.lock(Instant::NEVER).expect("nobody dies yet");
        is_whole &= guard[1] == follower(guard[0]);
        *guard = [guard[0] + 1, follower(guard[0] + 1)];
        drop(guard);
        if time % 100 == 0 {
            counted.notify().expect("the waiter may be woken");
        }
    }
    log(1, u64::from(is_whole));
}

fn wait(environment: &Environment, state: &Mutex<State>) {
    let counted = Condvar::new(event(environment, "counted"));
    let guard = state.lock(Instant::NEVER).expect("nobody dies yet");
    let guard = counted.wait_while(guard, Instant::NEVER, |state| state[0] < COUNTERS * TIMES).expect("all count");
    log(1, guard[0]);
    let late = counted.wait_while(guard, now().now + Nanoseconds(1_000_000), |_| true);
    log(2, u64::from(matches!(late, Err(CondvarError::Wait(WaitError::TimedOut)))));

    event(environment, "go").signal(1).expect("the doomed may be woken");
    event(environment, "locked").wait(Instant::NEVER).expect("it locks the mutex");
    let Err(LockError::Poisoned(mut guard)) = state.lock(Instant::NEVER) else { panic!("nobody died") };
    log(3, guard[0]);
    guard.repaired();
    drop(guard);
    log(4, u64::from(state.lock(Instant::NEVER).is_ok()));
}

fn die(environment: &Environment, state: &Mutex<State>) {
    event(environment, "go").wait(Instant::NEVER).expect("the waiter says when");
    let mut guard = state.lock(Instant::NEVER).expect("nobody died yet");
    guard[0] = 0;
    event(environment, "locked").signal(1).expect("the waiter waits for it");
    burn(Nanoseconds(1_000_000));
    exit(7)
}

fn hold(state: &Mutex<State>) {
    loop {
        next_job().expect("this task has jobs");
        let guard = state.lock(Instant::NEVER).expect("nobody dies with this mutex");
        burn(Nanoseconds(5_000_000));
        drop(guard);
    }
}

/// The task finds the mutex locked by a task with a deadline far away, in a job that ends soon.
fn hurry(state: &Mutex<State>) {
    loop {
        let job = next_job().expect("this task has jobs");
        if job.number == 2 {
            log(1, u64::from(job.late_by <= 0));
        }
        let before = now();
        let guard = state.lock(job.deadline).expect("its holder goes on at once");
        drop(guard);
        let after = now();
        if job.number == 2 {
            // It suspended, and paid for the holder's work meanwhile.
            let waited = after.now.since(before.now);
            log(2, u64::from(waited >= Nanoseconds(1_000_000) && waited < Nanoseconds(20_000_000)));
        }
    }
}
