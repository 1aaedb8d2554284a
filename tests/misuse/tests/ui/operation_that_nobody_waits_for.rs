//! A task that drops an operation does not learn whether it failed.
#![deny(unused_must_use)]

use fusee::gpu::Pending;

fn operation_that_nobody_waits_for(operation: fn() -> Pending<'static>) {
    operation();
}

fn main() {}
