//! An operation ends once.

use fusee::gpu::Pending;

fn operation_waited_for_twice(operation: Pending<'_>) {
    let _ = operation.wait();
    let _ = operation.wait();
}

fn main() {}
