//! The server of a network device of virtio ([`fusee::net`]): two tasks of this program, because a task waits either for clients or for an interrupt.
//!
//! | Task | Handles | Does |
//! |---|---|---|
//! | the server | region "net" (registers), region "memory" (read, write, physical), of which it has the only handle, endpoint "sockets" (to serve), places "loan.<client>" or "loan" (read, write, lent), notification "event" (signal) | serves clients, and the interrupt when its bottom half asks it to |
//! | its bottom half | endpoint "sockets" (call), interrupt "line", notification "event" that the line signals (wait) | has the server serve each interrupt |
//!
//! Parameters of the server: "address", "prefix" and "gateway", an address of IPv4 as a number, the bits of it that are the network's, and the neighbour
//! that forwards to other networks. Without "address" another server in the network assigns it. "seed" is where random numbers begin. The region
//! "memory" has 276 KiB. The server needs a stack of 96 KiB.
//!
//! # A flood
//!
//! A frame that comes costs the bottom half alone, since requests of clients take no frames from the device. The line stays masked until the bottom half has
//! asked for all frames. One whose budget is used up asks again when it has the next one, and meanwhile the device drops frames for which it has no buffer. So
//! a bottom half with a budget of its own, that lends from no client, bounds what a flood costs. A client that waits for a notification that is
//! `bound` to the bottom half lends it its own budget, and a flood may use that up.
//!
//! # Invariants
//!
//! 1. The server alone has the registers. A client that asks it to serve an interrupt that has not come costs itself a look at them.
//! 2. The device reaches no memory of a client: payloads are copied.
//! 3. The bottom half ends when the server has begun another life: tasks that wait for it then get an error, and open the network again. In its own next
//!    life it goes on with the present server.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::net::Ipv4Addr;

use fusee::net::Request;
use fusee::{Environment, Notification, Region, environment, life, now};
use fusee_driver::virtio::Packets;
use fusee_driver::{BottomHalf, Loan, Loans, Wakes};
use net_driver::memory::{CLIENTS, SOCKETS};
use net_driver::server::is_host;
use net_driver::{Address, FRAME, Frames, Memory, Server};
use smoltcp::iface::SocketStorage;
use static_cell::ConstStaticCell;
use virtio_drivers::transport::DeviceType;

fusee::entry!(main);

/// The feature that the device has an address of its own (version 1.2, 5.1.3).
const MAC: u64 = 1 << 5;
/// Frames that the device has room for in each direction.
const BUFFERS: usize = 64;

static MEMORY: ConstStaticCell<Memory> = ConstStaticCell::new(Memory::EMPTY);

fn main() {
    let environment = environment();
    match environment.region("net") {
        Ok(registers) => serve(&environment, &registers),
        Err(_) => serve_interrupts(&environment),
    }
}

//--- The device

struct Port {
    packets: Packets<BUFFERS>,
    is_dead: bool,
}

impl Port {
    /// The result of the device, which is dead from its first error on.
    fn checked<T, E>(&mut self, result: Result<T, E>) -> Option<T> {
        self.is_dead |= result.is_err();
        result.ok()
    }
}

impl Frames for Port {
    fn silence(&mut self) {
        self.packets.silence();
    }

    fn has_received(&self) -> bool {
        self.packets.has_received()
    }

    fn receive(&mut self, frame: &mut [u8; FRAME]) -> Option<usize> {
        let received = self.packets.receive(frame);
        self.checked(received).flatten()
    }

    fn room(&mut self) -> usize {
        let room = self.packets.room();
        self.checked(room).unwrap_or(0)
    }

    fn send(&mut self, frame: &[u8]) {
        let sent = self.packets.send(frame);
        self.checked(sent);
    }

    fn tell(&mut self) {
        self.packets.tell();
    }

    fn is_dead(&self) -> bool {
        self.is_dead
    }
}

//--- The server

/// The address that the manifest gives.
fn address(environment: &Environment) -> Address {
    let number = |name| {
        let value = environment.parameter(name)?;
        let number = u32::try_from(value);
        Some(number.unwrap_or_else(|_| panic!("the parameter `{name}` has more than 32 bits: {value:#x}")))
    };
    let host = |name| {
        let address = number(name).map(Ipv4Addr::from_bits);
        if let Some(address) = address.filter(|address| !is_host(*address)) {
            panic!("the parameter `{name}` is {address}, which no host has");
        }
        address
    };
    let Some(address) = host("address") else { return Address::Assigned };
    let prefix = environment.parameter("prefix").unwrap_or(24);
    match u8::try_from(prefix) {
        Ok(prefix @ 1..=32) => Address::Fixed { address, prefix, gateway: host("gateway") },
        _ => panic!("the parameter `prefix` is {prefix}: an address has 1 to 32 bits of a network"),
    }
}

fn serve(environment: &Environment, registers: &Region) -> ! {
    let address = address(environment);
    let packets = Packets::open(registers, &environment.expect("memory"), DeviceType::Network, MAC);
    let packets = packets.expect("the region `net` holds a virtio network device, and `memory` is for it alone");
    assert!(packets.features() & MAC != 0, "the network device has no address of its own");
    let registers = packets.configuration(0).expect("a network device says its address");
    let hardware = core::array::from_fn(|byte| registers.to_le_bytes()[byte]);
    let seed = environment.parameter("seed").unwrap_or_else(|| now().now.0) ^ u64::from(life()) << 32;
    let mut storage = [const { SocketStorage::EMPTY }; SOCKETS];
    let port = Port { packets, is_dead: false };
    let mut state = Server::new(port, hardware, address, seed, MEMORY.take(), &mut storage, now().now);
    let mut wakes = Wakes::<CLIENTS>::default();
    let loans = Loans::<CLIENTS>::of(environment);
    let event = environment.expect::<Notification>("event");
    // A bottom half that knows an earlier life finds out that this is another one.
    let _ = event.signal(1);

    let server = fusee::Server::new(environment.expect("sockets"));
    server.serve(|request| {
        let lease = loans.lease(request);
        let loan = lease.as_ref().map(|lease| lease as &dyn Loan);
        let reply = state.serve(request.badge, &request.words, loan, now().now);
        let opens = Request::of(&request.words) == Ok(Request::Open);
        wakes.keep(request, state.index(request.badge).filter(|_| opens));
        wakes.signal(&state.take_signals());
        if state.take_urgency() {
            let _ = event.signal(1);
        }
        reply
    })
}

//--- Its bottom half

fn serve_interrupts(environment: &Environment) -> ! {
    let half = BottomHalf {
        line: environment.expect("line"),
        event: environment.expect("event"),
        server: environment.expect("sockets"),
    };
    half.run(Request::Interrupt.message(), || {})
}
