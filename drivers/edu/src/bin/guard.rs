//! Reads the accesses that an SMMU refused, and answers whether they are the expected ones.
//!
//! Handles: region "faults" (read), the page of DMA faults; interrupt "line" (acknowledge), endpoint "expected" (receive).
//!
//! | Words of a request | Answer |
//! |---|---|
//! | stream, address, bytes, one for a write | how many faults there were since the last answer, all of this device, at these addresses and of this kind; zero if there was any other |
//!
//! A device may end an access at the first page that it is refused, or try each. An unexpected access is logged: device, address.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::dma::{DmaFaults, Why};
use fusee::{Interrupt, Region, Server, environment, log};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let mut faults = DmaFaults::new(&environment.expect::<Region>("faults")).expect("the page of DMA faults");
    let line = environment.expect::<Interrupt>("line");
    Server::new(environment.expect("expected")).run(|_, words| {
        let [stream, address, bytes, is_write, _, _] = words;
        let (mut seen, mut others) = (0, 0);
        while let Some(fault) = faults.next().expect("the page is ours") {
            let is_reason = matches!(fault.why, Why::NotMapped | Why::TooHigh);
            let is_place = fault.address >= address && fault.address - address < bytes;
            if is_reason && is_place && u64::from(fault.stream) == stream && fault.is_write == (is_write != 0) {
                seen += 1;
            } else {
                others += 1;
                log(fault.stream.into(), fault.address);
            }
        }
        let _ = line.acknowledge();
        [if others == 0 && !faults.have_been_lost() { seen } else { 0 }, 0, 0, 0, 0, 0]
    })
}
