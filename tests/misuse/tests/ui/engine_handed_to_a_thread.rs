//! An engine and a token stay with the task that acquired them; engines may be named anywhere.

use fusee::{EngineGuard, Token};

fn engine_handed_to_a_thread(guard: EngineGuard<'_>, token: Token<'_>) {
    thread(guard);
    thread(token);
}

fn thread<T: Send>(_: T) {}

fn main() {}
