//! A best-effort client that keeps the execution engine as busy as it is let: long products of small matrices,
//! one after the other.
//!
//! Handles: engine "ee", regions "ring", notification "gpu_done". Parameter: "operation_us", how long each
//! operation takes.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::{Context, Operation};
use fusee::{Engine, Instant, environment};
use fusee_accel_contract::space::LOCAL_BASE;

fusee::entry!(main);

fn main() {
    let environment = environment();
    let engine = environment.expect::<Engine>("ee");
    let mut context = Context::of(&environment).expect("this task is a client of the GPU");
    let time = environment.parameter("operation_us").unwrap_or(1000) * 1000;
    let product = Operation::MatrixProduct {
        left: LOCAL_BASE,
        right: LOCAL_BASE + 4096,
        product: LOCAL_BASE + 8192,
        order: 16,
        time,
    };
    loop {
        let guard = engine.acquire(Instant::NEVER).expect("nobody takes this engine from us for ever");
        let fence = context.submit(&guard, product).expect("the ring is empty");
        context.wait(fence, Instant::NEVER).expect("the operation stays within our memory");
        guard.release().expect("we hold it");
    }
}
