//! No other task can be given an engine that this one holds.

use fusee::{Endpoint, EngineGuard, Instant, Rights};

fn engine_given_in_a_message(endpoint: &Endpoint, guard: &EngineGuard<'_>) {
    let _ = endpoint.call_with([0; 6], guard, Rights::ALL, Instant::NEVER);
}

fn main() {}
