//! A task with a planted race: producer or consumer of a protocol by two words in memory and a notification, in which a wake-up can be lost.
//!
//! The consumer looks whether there is an item, computes, says that it waits, and waits. A producer that comes between the look and the word finds no task
//! that waits. The next item of that producer is not the first one, so it wakes no task either.
//!
//! Handles: region "words" (read, write), notification "full" (wait or signal). Parameters: "produces", "look_us" of computing after the look,
//! "patience": the number of jobs after which a producer panics whose item is not taken.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Instant, Nanoseconds, Notification, Region, burn, environment, next_job};

fusee::entry!(main);

// The places of words: whether there is an item, whether the consumer waits, and the number of items that it has taken.
const FULL: usize = 0;
const WAITS: usize = 8;
const TAKEN: usize = 16;

fn main() {
    let environment = environment();
    let words = environment.expect::<Region>("words").shared();
    let full = environment.expect::<Notification>("full");
    let produces = environment.parameter("produces").unwrap_or(0) != 0;
    let look = Nanoseconds(environment.parameter("look_us").unwrap_or(0) * 1_000);
    let patience = environment.parameter("patience").unwrap_or(u64::MAX);
    let mut left = 0;
    loop {
        next_job().expect("the manifest gives this task a period");
        if produces {
            if words.read_u64(FULL) == 0 {
                left = 0;
                words.write_u64(FULL, 1);
                if words.read_u64(WAITS) != 0 {
                    full.signal(1).expect("the manifest gives the right");
                }
            } else {
                left += 1;
                assert!(left < patience, "no task takes the item");
            }
        } else {
            if words.read_u64(FULL) == 0 {
                burn(look);
                words.write_u64(WAITS, 1);
                full.wait(Instant::NEVER).expect("the manifest gives the right");
                words.write_u64(WAITS, 0);
            }
            words.write_u64(FULL, 0);
            words.write_u64(TAKEN, words.read_u64(TAKEN) + 1);
        }
    }
}
