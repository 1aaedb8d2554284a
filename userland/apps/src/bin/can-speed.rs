//! A wheel that sends its speed on a CAN bus, and a display that prints it: two tasks of this program. The display has a console.
//!
//! Handles: endpoint "bus" (call); of the display endpoint "console" (call), notification "changed" (wait, signal, grant), the system as "system".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use embedded_can::{Frame as _, StandardId};
use fusee::can::{Can, CanError, Filter, Frame, Received};
use fusee::{Endpoint, Environment, Instant, environment, next_job, println, shutdown};

fusee::entry!(main);

/// The identifier of the wheel's speed.
const SPEED: StandardId = StandardId::new(0x101).expect("an identifier has eleven bits");

fn main() {
    let environment = environment();
    match environment.endpoint("console") {
        Ok(_) => show(&environment),
        Err(_) => drive(environment.expect("bus")),
    }
}

/// A job each 10 ms: one frame, with the speed in mm/s.
fn drive(bus: Endpoint) {
    let can = Can::open(bus, None, &[], Instant::NEVER).expect("the manifest gives this task a bus");
    for speed in (13_000u16..).step_by(25) {
        let frame = Frame::new(SPEED, &speed.to_be_bytes()).expect("two bytes fit");
        match can.send(&frame) {
            // The next frame has a newer speed.
            Ok(()) | Err(CanError::QueueFull | CanError::BusOff) => {}
            Err(error) => panic!("no speed is sent: {error}"),
        }
        next_job().expect("this task has jobs");
    }
}

/// Waits for frames, and prints them with their age.
fn show(environment: &Environment) {
    let (bus, changed) = (environment.expect("bus"), environment.expect("changed"));
    let can = Can::open(bus, Some(changed), &[Filter::exactly(SPEED)], Instant::NEVER).expect("there is a bus");
    for _ in 0..5 {
        match can.receive_stamped() {
            Ok(Received { frame, at }) => {
                let speed = frame.data().try_into().map_or(0, u16::from_be_bytes);
                println!("{speed} mm/s after {} us", at.0 / 1_000);
            }
            Err(CanError::Lost(gap)) => println!("{} speeds are lost", gap.frames),
            Err(error) => panic!("no speed is received: {error}"),
        }
    }
    shutdown(environment.expect("system"), 0)
}
