//! The cost to let a device reach memory, and to keep it from that, in instructions: the shortest of several times, less the code around it.
//!
//! Handles: regions "edu" (read write), "system" (shutdown). It logs (0) the first, (1) the second.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::least;
use fusee::{Region, System, environment, log, shutdown};

fusee::entry!(main);

const SAMPLES: usize = 64;

fn main() {
    let environment = environment();
    let edu = environment.expect::<Region>("edu");
    let around = least(SAMPLES, || ());
    log(0, least(SAMPLES, || edu.let_device_reach_memory().expect("it is behind an SMMU")) - around);
    log(1, least(SAMPLES, || edu.keep_device_from_memory().expect("it is behind an SMMU")) - around);
    shutdown(environment.expect::<System>("system"), 0)
}
