//! The cost of a datagram, in instructions: the shortest of several times, from the last instruction of the task that its interrupt preempts, to the first
//! one of the client that has waited for it and has its bytes (0). Ends the system.
//!
//! Handles: endpoint "net" (call), region "memory" (read, write, lend), notification "changed" (wait, signal, grant), region "page" (read, write), by which a
//! stranger says the time and hears of each datagram (`net-driver/flood`), the system as "system".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::net::Net;
use fusee::{Instant, Region, System, counter, environment, log, shutdown};

fusee::entry!(main);

const SAMPLES: u64 = 64;
const PORT: u16 = 4000;
/// Where the stranger leaves the time, and this task the number of its datagrams.
const TIME: usize = 0;
const RECEIVED: usize = 8;

fn main() {
    let environment = environment();
    let (server, memory) = (environment.expect("net"), environment.expect("memory"));
    let page = environment.expect::<Region>("page").shared();
    let net = Net::open(server, memory, Some(environment.expect("changed")), Instant::NEVER);
    let net = net.expect("the network is there");
    let mut socket = net.bind(PORT).expect("the port is free");
    let (mut shortest, mut bytes) = (u64::MAX, [0; 64]);
    // Until it has heard of one, the stranger sends none.
    for number in 1..=SAMPLES {
        page.write_u64(RECEIVED, number);
        net.receive_from(&mut socket, &mut bytes).expect("the stranger goes on");
        shortest = shortest.min(counter() - page.read_u64(TIME));
    }
    log(0, shortest);
    shutdown(environment.expect::<System>("system"), 0)
}
