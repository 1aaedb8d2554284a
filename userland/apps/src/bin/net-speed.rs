//! A wheel that sends its speed by datagrams, and a display that prints it: two tasks of this program. The display has a console.
//!
//! Handles: endpoint "net" (call), region "memory" (read, write, lend); of the display endpoint "console" (call), notification "changed" (wait, signal,
//! grant), the system as "system".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::net::{Ipv4Addr, SocketAddrV4};

use fusee::net::{Net, NetError};
use fusee::{Environment, Instant, environment, next_job, println, shutdown};

fusee::entry!(main);

/// The display's address, and the port for speeds.
const DISPLAY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 4000);

fn main() {
    let environment = environment();
    match environment.endpoint("console") {
        Ok(_) => show(&environment),
        Err(_) => drive(&environment),
    }
}

/// A job each 10 ms: one datagram, with the speed in mm/s.
fn drive(environment: &Environment) {
    let (server, memory) = (environment.expect("net"), environment.expect("memory"));
    let net = Net::open(server, memory, None, Instant::NEVER).expect("the manifest gives this task a network");
    let socket = net.bind(0).expect("a port is free");
    for speed in (13_000u16..).step_by(25) {
        match net.send_to(&socket, DISPLAY, &speed.to_be_bytes()) {
            // The next datagram has a newer speed.
            Ok(()) | Err(NetError::QueueFull) => {}
            Err(error) => panic!("no speed is sent: {error}"),
        }
        next_job().expect("this task has jobs");
    }
}

/// Waits for datagrams, and prints them with their sender.
fn show(environment: &Environment) {
    let (server, memory, changed) =
        (environment.expect("net"), environment.expect("memory"), environment.expect("changed"));
    let net = Net::open(server, memory, Some(changed), Instant::NEVER).expect("there is a network");
    let mut socket = net.bind(DISPLAY.port()).expect("the port is free");
    let mut bytes = [0; 2];
    for _ in 0..5 {
        match net.receive_from(&mut socket, &mut bytes) {
            Ok((2, wheel)) => println!("{} mm/s from {}", u16::from_be_bytes(bytes), wheel.ip()),
            Ok((length, from)) => println!("{length} bytes from {from} are no speed"),
            Err(NetError::Lost(datagrams)) => println!("{datagrams} speeds are lost"),
            Err(error) => panic!("no speed is received: {error}"),
        }
    }
    shutdown(environment.expect("system"), 0)
}
