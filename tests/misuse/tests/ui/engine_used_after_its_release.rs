//! An engine that was given back cannot be rung.

use fusee::gpu::{Context, Operation};
use fusee::EngineGuard;

fn engine_used_after_its_release(context: &Context, guard: EngineGuard<'_>) {
    let _ = guard.release();
    let _ = context.start(&guard, Operation::Burn { time: 1 });
}

fn main() {}
