//! The beginning and the end of tasks that begin together, and of which one ends the system when the others are at their ends.
//!
//! Each handle that the manifest does not give is left out.

use fusee::{Environment, Instant, Notification, System, shutdown};

/// Lets others begin, and waits until this task may: signals "ready", and waits for "go".
pub fn start(environment: &Environment) {
    signal(environment, "ready");
    wait(environment, "go");
}

/// Waits for "done" and ends the system if the task has it as "system". Others signal "done".
pub fn end(environment: &Environment) {
    match environment.get::<System>("system") {
        Ok(system) => {
            wait(environment, "done");
            shutdown(system, 0)
        }
        Err(_) => signal(environment, "done"),
    }
}

/// Signals the notification of this name.
///
/// # Panics
/// If the task may not.
pub fn signal(environment: &Environment, name: &str) {
    if let Ok(notification) = environment.get::<Notification>(name) {
        notification.signal(1).expect("another task waits for it");
    }
}

/// Waits for the notification of this name.
///
/// # Panics
/// If the task may not.
pub fn wait(environment: &Environment, name: &str) {
    if let Ok(notification) = environment.get::<Notification>(name) {
        notification.wait(Instant::NEVER).expect("another task signals it");
    }
}

/// The parameter of this name.
///
/// # Panics
/// If the manifest gives none.
#[must_use]
pub fn parameter(environment: &Environment, name: &str) -> u64 {
    environment.parameter(name).unwrap_or_else(|| panic!("the manifest gives no parameter `{name}`"))
}
