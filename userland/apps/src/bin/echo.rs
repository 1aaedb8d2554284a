//! Reads lines of a serial port and writes each back, by the traits of the crate `embedded-io` alone.
//!
//! Handles: endpoint "console" (call), notifications "received" and "done" (wait), the system as "system". Parameter: "lines", one if absent. After
//! these and "done" the system ends.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use embedded_io::{Read, Write};
use fusee::serial::Serial;
use fusee::{Instant, Notification, console, environment, shutdown};

fusee::entry!(main);

/// The longest line that is written back whole.
const LINE: usize = 256;

fn main() {
    let environment = environment();
    let mut port = Serial::new(environment.expect(console::NAME), environment.expect("received"));
    for number in 1..=environment.parameter("lines").unwrap_or(1) {
        echo(&mut port, number).expect("the port can be read and written");
    }
    environment.expect::<Notification>("done").wait(Instant::NEVER).expect("another task says that it is done");
    shutdown(environment.expect("system"), 0)
}

fn echo<P: Read + Write>(port: &mut P, number: u64) -> Result<(), P::Error> {
    let (mut line, mut filled) = ([0; LINE], 0);
    // One by one: bytes after the end of the line belong to the next one.
    while filled < LINE && !line[..filled].ends_with(b"\n") {
        filled += port.read(&mut line[filled..=filled])?;
    }
    port.write_all(b"line ")?;
    port.write_all(&[b'0' + (number % 10) as u8])?;
    port.write_all(b": ")?;
    port.write_all(&line[..filled])?;
    port.flush()
}
