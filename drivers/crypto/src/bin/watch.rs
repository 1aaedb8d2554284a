//! The second task of the crypto server: it receives interrupts, and requests of the kernel to the device's driver, and passes both on.
//!
//! Handles: notification "event" (to wait), which the device's line signals; notification "wake" (to signal), for which the server waits while the
//! device works; endpoint "cipher" (to send).
//!
//! Why a task of its own: the kernel asks for a reset by the notification of the line. A server that waits for clients does not hear that, and
//! no client can be trusted to call just then.
//!
//! # Invariants
//!
//! 1. This task never waits for the server, which waits for it: it offers a message, and if the server does not wait for one, again later.
//! 2. Whenever the kernel has asked for a reset, the server receives a message after that.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::crypto::LOOK;
use fusee::{Endpoint, Instant, Nanoseconds, Notification, SendError, WaitError, environment, now};

fusee::entry!(main);

/// Bits by which the kernel asks for resets.
const RESETS: u64 = u64::MAX << 32;
/// How soon a message is offered again that the server did not take.
const AGAIN: Nanoseconds = Nanoseconds(100_000);

fn main() {
    let environment = environment();
    let (event, wake) = (environment.expect::<Notification>("event"), environment.expect::<Notification>("wake"));
    let server = environment.expect::<Endpoint>("cipher");
    let mut owes_message = false;
    loop {
        let deadline = if owes_message { now().now + AGAIN } else { Instant::NEVER };
        match event.wait(deadline) {
            Ok(bits) => {
                // If the server is gone, the watchdog takes the engine back and closes it.
                let _ = wake.signal(bits);
                owes_message |= bits & RESETS != 0;
            }
            Err(WaitError::TimedOut) => {}
            Err(error) => panic!("this task may wait for the line: {error:?}"),
        }
        // A server that waits for the device has heard it already. One that waits for clients has not, nor has one that is about to.
        if owes_message {
            owes_message = server.send([LOOK, 0, 0, 0, 0, 0], Instant::ZERO) == Err(SendError::TimedOut);
        }
    }
}
