//! An engine that was given back is not there to be given back.

use fusee::EngineGuard;

fn engine_released_twice(guard: EngineGuard<'_>) {
    let _ = guard.release();
    let _ = guard.release();
}

fn main() {}
