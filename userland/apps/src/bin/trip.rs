//! Records speeds in a log, and prints how many are there: an example for the file server.
//!
//! Handles: endpoint "files" (call), region "memory" (read, write, lend), the system as "system".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::files::{Files, Mode, Recorder};
use fusee::{Instant, environment, println, shutdown};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let (server, memory) = (environment.expect("files"), environment.expect("memory"));
    let files = Files::open(server, memory, Instant::NEVER).expect("there is a file server");
    let mut trip = Recorder::open(&files, "TRIP.LOG", 64 << 10).expect("there is room for a log");
    for speed in [13_000_u16, 13_025, 13_050] {
        let number = trip.append(&speed.to_be_bytes()).expect("the log has room");
        println!("record {number} outlives a loss of power");
    }
    let mut note = files.file("NOTE.TXT", Mode::Create).expect("there is room for a name");
    note.append(b"three speeds, in mm/s\n").expect("there is room");
    note.sync().expect("the disk keeps it");
    for item in files.list("") {
        let item = item.expect("the directory is read");
        println!("{} has {} bytes", item.name().unwrap_or("?"), item.bytes);
    }
    shutdown(environment.expect("system"), 0)
}
