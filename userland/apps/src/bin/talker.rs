//! Says something by the macros of the crate `log`, and ends the system.
//!
//! Handle: "system" (shutdown).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::messages::{self, LevelFilter};
use fusee::{System, environment, shutdown};

fusee::entry!(main);

fn main() {
    messages::start(LevelFilter::Info).expect("nothing else is started");
    log::debug!("not kept");
    log::info!("{} of {}", 1, 2);
    log::warn!("{:600}", "too long");
    log::error!("the last");
    shutdown(environment().expect::<System>("system"), 0);
}
