//! Prints lines that take several messages each, which a console must keep whole.
//!
//! Handles: endpoint "console" (call); notification "done" (signal), or none. Parameters: "lines", five if absent; "name", a number that each line tells.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{environment, exit, println};

fusee::entry!(main);

fn main() {
    let lines = environment().parameter("lines").unwrap_or(5);
    let name = environment().parameter("name").unwrap_or(0);
    for line in 1..=lines {
        println!("line {line} of {lines} by task {name}, long enough for more than one message of forty bytes");
    }
    if let Ok(done) = environment().notification("done") {
        done.signal(1).expect("this task may say that it is done");
    }
    exit(0)
}
