//! An engine is held until its submitted operations have been waited for.

use fusee::gpu::{Context, Operation};
use fusee::EngineGuard;

fn engine_released_while_its_operation_runs(context: &Context, guard: EngineGuard<'_>) {
    let burn = context.submit(&guard, Operation::Burn { time: 1 });
    let _ = guard.release();
    drop(burn);
}

fn main() {}
