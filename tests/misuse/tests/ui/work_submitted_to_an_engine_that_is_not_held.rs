//! Nothing is submitted to an engine, only to the guard of one.

use fusee::gpu::{Context, Operation};
use fusee::Engine;

fn work_submitted_to_an_engine_that_is_not_held(context: &Context, engine: &Engine) {
    let _ = context.submit(engine, Operation::Burn { time: 1 });
}

fn main() {}
