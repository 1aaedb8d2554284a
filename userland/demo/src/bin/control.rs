//! The control loop: 1 kHz, hard. Keeps a modelled steering actuator on its course, in fixed point.
//!
//! It has a CPU cluster of its own and no handles: nothing that happens elsewhere may delay it.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::hint::black_box;
use fusee::next_job;

fusee::entry!(main);

/// Fractional bits of all numbers here.
const FRACTION: u32 = 16;

/// A second-order plant under a PID controller.
struct Loop {
    position: i64,
    velocity: i64,
    integral: i64,
    last_error: i64,
}

impl Loop {
    /// One period: measure, decide, actuate; then the plant moves.
    fn step(&mut self, target: i64) {
        let error = target - self.position;
        self.integral = (self.integral + error).clamp(-(1 << 24), 1 << 24);
        let slope = error - self.last_error;
        self.last_error = error;
        let force = (error * 3 + self.integral / 64 + slope * 24) >> 2;
        // Ten small steps of the plant a period.
        for _ in 0..10 {
            self.velocity += (force - self.velocity / 4) / 160;
            self.position += self.velocity / 10;
        }
    }
}

fn main() {
    let mut plant = Loop { position: 0, velocity: 0, integral: 0, last_error: 0 };
    loop {
        let job = next_job().expect("the control task is periodic");
        // A course that changes each quarter second.
        let target = ((job.number / 250 % 4) as i64) << FRACTION;
        plant.step(target);
        black_box(plant.position);
    }
}
