//! A task has one token of a pool at most.

use fusee::{Instant, Pool};

fn two_tokens_of_one_pool(pool: &mut Pool) {
    let one = pool.acquire(Instant::NEVER);
    let other = pool.acquire(Instant::NEVER);
    drop(one);
    drop(other);
}

fn main() {}
