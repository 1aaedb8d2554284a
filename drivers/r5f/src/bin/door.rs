//! The door of a signal processor's driver: each call makes the driver look at submitted commands.
//!
//! Handles: endpoint "door" (to serve), notification "event" (to signal), which is the one that the driver waits for.
//!
//! Why a task of its own: by the same notification the kernel asks the driver for resets. A client that could signal it could ask for the
//! reset of an engine of another client. And a driver that served the endpoint itself would wait there, where no interrupt wakes it.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Endpoint, Notification, Server, environment};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let event = environment.expect::<Notification>("event");
    Server::new(environment.expect::<Endpoint>("door")).run(|_, _| {
        // If the driver is gone, the watchdogs take its engines back and close them.
        let _ = event.signal(1);
        [0; 6]
    })
}
