//! The cost of releases by number, and of the end of a node's job, in instructions.
//!
//! | role | does | logs | handles |
//! |---|---|---|---|
//! | 0, releaser | says up to which job "remote" may run, and says it again | 0, 1: the two calls | task "remote" (credit), "system" |
//! | 1, producer | ends jobs as a node | its parameter `row`: the end of a job | region "stamps" |
//! | 2, consumer | is released by that, on another CPU | 4: from the producer's last instruction before it to its own first one, if it has "stamps" | |
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::graph::Node;
use fusee::{Environment, System, Task, counter, environment, log, next_job, relax, shutdown};

fusee::entry!(main);

/// Jobs that are measured.
const ROUNDS: u32 = 64;
/// The key of the consumer's log.
const TOKEN: u64 = 4;

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => release(&environment),
        1 => produce(&environment),
        _ => consume(&environment),
    }
}

fn release(environment: &Environment) {
    let remote = environment.expect::<Task>("remote");
    for round in 1..=ROUNDS {
        next_job().expect("a job follows");
        let before = counter();
        remote.credit(round).expect("the remote task takes releases");
        let back = counter();
        remote.credit(round).expect("the remote task takes releases");
        log(1, counter() - back);
        log(0, back - before);
    }
    shutdown(environment.expect::<System>("system"), 0)
}

fn produce(environment: &Environment) -> ! {
    let row = environment.parameter("row").expect("the parameter `row` says what to log");
    let stamps = environment.region("stamps").map(|region| region.shared()).ok();
    let mut node = Node::of(environment).expect("the task is a node");
    loop {
        let job = next_job().expect("a job follows");
        // CPUs that take turns do so at the same instant of each period: jobs are to end at all instants of a turn.
        let began = counter();
        while counter() - began < job.number * 617 % 10_000 {
            core::hint::black_box(());
        }
        let before = counter();
        stamps.inspect(|stamps| stamps.write_u64(0, before));
        node.end(&job);
        let after = counter();
        // The other CPU takes the kick now.
        relax();
        log(row, after - before);
    }
}

fn consume(environment: &Environment) -> ! {
    let stamps = environment.region("stamps").map(|region| region.shared()).ok();
    loop {
        next_job().expect("a job follows");
        let began = counter();
        if let Some(stamps) = &stamps {
            log(TOKEN, began.saturating_sub(stamps.read_u64(0)));
        }
    }
}
