//! Waits for a button: a pin that goes up and comes down again, read by the traits of the crate `embedded-hal`; or, as a thief, asks for the pin of
//! another. Which, the parameter `role` says.
//!
//! | Role | Handles |
//! |---|---|
//! | 0, owner | endpoint "pins" (call), notifications "edge" (wait) and "go" (signal), the system as "system" |
//! | 1, thief | endpoint "pins" (call), notification "go" (wait) |
//!
//! The owner logs `log(1, edge)` for each edge that came, the level behind it as `log(2, level)`, and codes of refusals as `log(3, code)`. So does the
//! thief. Parameter: "pin".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use embedded_hal::digital::{InputPin, StatefulOutputPin};
use fusee::gpio::{Edge, Input, Output, PinError, Request};
use fusee::{Endpoint, Environment, Instant, Notification, environment, exit, log, shutdown};

fusee::entry!(main);

/// A pin that nothing is connected with.
const FREE: u8 = 5;

fn main() {
    let environment = environment();
    let pins = environment.expect::<Endpoint>("pins");
    let pin = environment.parameter("pin").expect("the parameter `pin` says which one") as u8;
    match environment.parameter("role") {
        Some(0) => own(&environment, pins, pin),
        _ => {
            environment.expect::<Notification>("go").wait(Instant::NEVER).expect("the owner says when");
            refused(Input::open(pins, pin));
            refused(Output::open(pins, pin, true));
            exit(0)
        }
    }
}

fn own(environment: &Environment, pins: Endpoint, pin: u8) -> ! {
    let edge = environment.expect::<Notification>("edge");
    let mut button = Input::open(pins, pin).expect("the pin is free");
    environment.expect::<Notification>("go").signal(1).expect("the thief waits for it");
    for wanted in [Edge::Rising, Edge::Falling] {
        button.wait_for_edge(wanted, &edge, Instant::NEVER).expect("the button is pressed, and comes up again");
        log(1, wanted as u64);
        log(2, level(&mut button));
    }
    let mut lamp = Output::open(pins, FREE, false).expect("the pin is free");
    for _ in 0..3 {
        lamp.toggle().expect("the pin can be driven");
        log(2, lamp.is_set_high().expect("the pin is known").into());
        // The level of the pin, and not the level that was set.
        let seen = pins.call(Request::Get(FREE).message(), Instant::NEVER).expect("the server answers");
        log(2, seen[1]);
    }
    refused(Input::open(pins, 8));
    let listen = Request::Listen(FREE, Some(Edge::Both));
    log(3, pins.call(listen.message(), Instant::NEVER).expect("the server answers")[0]);
    log(3, pins.call([u64::MAX, 0, 0, 0, 0, 0], Instant::NEVER).expect("the server answers")[0]);
    shutdown(environment.expect("system"), 0)
}

fn level(pin: &mut impl InputPin) -> u64 {
    pin.is_high().expect("the pin can be read").into()
}

/// Logs why: the server's code, 100 if it gave none, or 0 if it did as it was asked.
fn refused<T>(result: Result<T, PinError>) {
    let code = match result {
        Ok(_) => 0,
        Err(PinError::Refused(refusal)) => refusal as u64,
        Err(_) => 100,
    };
    log(3, code);
}
