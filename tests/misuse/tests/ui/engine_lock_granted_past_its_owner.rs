//! A lock is granted together with a doorbell and a clock.

use fusee_kernel_core::object::Engine;

fn engine_lock_granted_past_its_owner(engine: &mut Engine) {
    engine.lock.grant(0);
}

fn main() {}
