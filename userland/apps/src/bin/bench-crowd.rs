//! Measures the cost of scheduling among many tasks, from user mode: `log(row, instructions)` for each sample.
//!
//! | role        | does                                                                            | handles           |
//! |-------------|---------------------------------------------------------------------------------|-------------------|
//! | 0, crowd    | has one job, which never ends                                                   |                   |
//! | 1, watcher  | the same, and stamps the counter all the time; sees when it was interrupted     | region "stamps"   |
//! | 2, job      | short jobs by the clock, above all others                                       | region "stamps"   |
//! | 3, releaser | releases "remote", which runs on the other CPU                                  | region "stamps", task "remote" |
//! | 4, remote   | is released so                                                                  | region "stamps"   |
//!
//! `job` and `releaser` end the system after [`ROUNDS`] jobs: handle "system".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::rows::crowd::{self, ROUNDS, role};
use fusee::{Environment, Region, SharedBytes, System, Task, counter, environment, log, next_job, relax, shutdown};

fusee::entry!(main);

/// Offsets in the region `stamps`: when the watcher ran last,
const WATCHED: usize = 0;
/// when it ran again after an interruption,
const RESUMED: usize = 8;
/// when a job began last,
const BEGAN: usize = 16;
/// when it ended,
const ENDED: usize = 24;
/// when the releaser was back from its call.
const RELEASED: usize = 32;

/// More instructions than one round of the watcher takes, and fewer than any trap.
const ROUND: u64 = 64;

fn main() {
    let environment = environment();
    next_job().expect("everybody has jobs here");
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        role::CROWD => loop {
            core::hint::black_box(counter());
        },
        role::WATCHER => watch(stamps(&environment)),
        role::JOB => job(&environment),
        role::RELEASER => release(&environment),
        role::REMOTE => run_remotely(stamps(&environment)),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn stamps(environment: &Environment) -> SharedBytes {
    environment.expect::<Region>("stamps").shared()
}

/// Interruptions without a job are releases of tasks that come later than the watcher.
fn watch(stamps: SharedBytes) -> ! {
    let mut job = 0;
    let mut last = counter();
    loop {
        let now = counter();
        if now - last > ROUND {
            let began = stamps.read_u64(BEGAN);
            if began == job {
                log(crowd::RELEASE, now - last);
            } else {
                stamps.write_u64(RESUMED, now);
            }
            job = began;
            last = counter();
        } else {
            last = now;
        }
        stamps.write_u64(WATCHED, last);
    }
}

fn job(environment: &Environment) {
    let stamps = stamps(environment);
    for round in 0..ROUNDS {
        let began = counter();
        let (watched, resumed, ended) = (stamps.read_u64(WATCHED), stamps.read_u64(RESUMED), stamps.read_u64(ENDED));
        stamps.write_u64(BEGAN, began);
        if round > 0 {
            log(crowd::SWITCH, began - watched);
            log(crowd::SCHEDULE, resumed - ended);
        }
        stamps.write_u64(ENDED, counter());
        next_job().expect("a job follows");
    }
    shutdown(environment.expect::<System>("system"), 0)
}

fn release(environment: &Environment) {
    let stamps = stamps(environment);
    let remote = environment.expect::<Task>("remote");
    for _ in 0..ROUNDS {
        let before = counter();
        remote.release_job().expect("the remote task takes releases");
        let back = counter();
        stamps.write_u64(RELEASED, back);
        // The other CPU takes the kick now, and runs its job to the end.
        relax();
        log(crowd::SEND, back - before);
        next_job().expect("a job follows");
    }
    shutdown(environment.expect::<System>("system"), 0)
}

fn run_remotely(stamps: SharedBytes) -> ! {
    loop {
        let began = counter();
        let released = stamps.read_u64(RELEASED);
        stamps.write_u64(BEGAN, began);
        if released != 0 {
            log(crowd::KICK, began.saturating_sub(released));
        }
        next_job().expect("a job follows");
    }
}
