//! Stops a task that stores to memory all the time, and looks whether it stores once more; the parameter `role` selects one.
//!
//! | role       | handles                                                | does                                          |
//! |------------|--------------------------------------------------------|-----------------------------------------------|
//! | 0, counter | region "memory" (read, write)                          | counts there for ever                         |
//! | 1, stopper | region "memory" (read), task "counter" (stop)          | stops it; `log(1, 1)` if the count then stands |
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Environment, Nanoseconds, Region, Task, burn, environment, log};

fusee::entry!(main);

/// Where the count is.
const COUNT: usize = 0;
/// A store that was on its way would have arrived by then.
const LONG: Nanoseconds = Nanoseconds(5_000_000);

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => count(&environment),
        1 => stop(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn count(environment: &Environment) {
    let memory = environment.expect::<Region>("memory").shared();
    for count in 1.. {
        memory.write_u64(COUNT, count);
    }
}

fn stop(environment: &Environment) {
    let memory = environment.expect::<Region>("memory").shared();
    let counter = environment.expect::<Task>("counter");
    while memory.read_u64(COUNT) < 1_000 {
        burn(Nanoseconds(10_000));
    }
    counter.stop().expect("the counter may be stopped");
    let count = memory.read_u64(COUNT);
    burn(LONG);
    log(1, u64::from(memory.read_u64(COUNT) == count));
}
