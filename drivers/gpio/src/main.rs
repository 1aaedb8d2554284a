//! The servers of general purpose lines, a PL061 with eight pins: two tasks of this program, because a task waits either for clients or for an
//! interrupt.
//!
//! | Task | Handles | Does |
//! |---|---|---|
//! | the server | region "gpio", endpoint "pins" (to serve) | requests of clients (`fusee::gpio`) |
//! | its bottom half | region "gpio", interrupt "line", notification "event" that the line signals, notifications "pin0" to "pin7" as far as there are clients that wait | signals the notifications of pins that had an edge |
//!
//! Neither has a budget of its own. A client lends its budget to the bottom half while it waits for a notification bound to that.
//!
//! # Invariants
//!
//! 1. A pin belongs to the first client that asks for it.
//! 2. The bottom half writes one register, by which edges are forgotten and which keeps no value: so the server's are its own.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpio::{Edge, PINS, Refusal, Request, reply};
use fusee::{Environment, Instant, Interrupt, Notification, Server, environment};
use fusee_driver::claim;
use fusee_driver::safe_mmio::fields::{ReadPure, ReadPureWrite, WriteOnly};
use fusee_driver::safe_mmio::{UniqueMmioPointer, field, field_shared};
use zerocopy::FromBytes;

fusee::entry!(main);

/// The registers of a PL061 that are used (Arm DDI 0190B, table 3-1).
#[derive(FromBytes)]
#[repr(C)]
struct Pl061 {
    /// Bits 2 to 9 of the address say which pins are meant: word `1 << pin` is one pin.
    data: [ReadPureWrite<u32>; 256],
    /// One for an output.
    direction: ReadPureWrite<u32>,
    /// One for levels, zero for edges.
    by_level: ReadPureWrite<u32>,
    both_edges: ReadPureWrite<u32>,
    /// One for rising edges, unless it is both.
    rising: ReadPureWrite<u32>,
    enabled: ReadPureWrite<u32>,
    raw: ReadPure<u32>,
    masked: ReadPure<u32>,
    clear: WriteOnly<u32>,
}

type Registers = UniqueMmioPointer<'static, Pl061>;

fn main() {
    let environment = environment();
    let registers: Registers = claim(&environment.expect("gpio")).expect("the region `gpio` holds a PL061");
    match environment.endpoint("pins") {
        Ok(endpoint) => {
            let mut pins = Pins { registers, owners: [None; PINS as usize] };
            Server::new(endpoint)
                .run(|badge, words| reply(Request::of(&words).and_then(|request| pins.serve(badge, request))))
        }
        Err(_) => signal_edges(&environment, registers),
    }
}

//--- The server

struct Pins {
    registers: Registers,
    /// By their badges.
    owners: [Option<u64>; PINS as usize],
}

impl Pins {
    fn serve(&mut self, badge: u64, request: Request) -> Result<u64, Refusal> {
        let (Request::Input(pin) | Request::Get(pin) | Request::Drive(pin, _) | Request::Listen(pin, _)) = request;
        let owner = self.owners.get_mut(usize::from(pin)).ok_or(Refusal::NoPin)?;
        if *owner.get_or_insert(badge) != badge {
            return Err(Refusal::Taken);
        }
        let bit = 1 << pin;
        let is_output = field_shared!(self.registers, direction).read() & bit != 0;
        match request {
            Request::Input(_) => {
                self.listen(bit, None);
                field!(self.registers, direction).modify(|pins| pins & !bit);
            }
            Request::Get(_) => {
                let level = self.level(pin);
                return Ok(level.into());
            }
            Request::Drive(_, is_high) => {
                self.listen(bit, None);
                // The level is kept before the pin is an output, so that it never shows another.
                self.set_level(pin, is_high);
                field!(self.registers, direction).modify(|pins| pins | bit);
                // Of an input the PL061 keeps no level.
                self.set_level(pin, is_high);
            }
            Request::Listen(_, Some(_)) if is_output => return Err(Refusal::NotAnInput),
            Request::Listen(_, edge) => self.listen(bit, edge),
        }
        Ok(0)
    }

    fn level(&mut self, pin: u8) -> bool {
        let mut data = field!(self.registers, data);
        data.get(1 << pin).is_some_and(|word| word.read() != 0)
    }

    fn set_level(&mut self, pin: u8, is_high: bool) {
        let mut data = field!(self.registers, data);
        if let Some(mut word) = data.get(1 << pin) {
            word.write(u32::from(is_high) << pin);
        }
    }

    /// Has the interrupt fire for such edges of a pin that come from here on, or for none.
    fn listen(&mut self, bit: u32, edge: Option<Edge>) {
        let registers = &mut self.registers;
        field!(*registers, enabled).modify(|pins| pins & !bit);
        let Some(edge) = edge else { return };
        let set = |pins: u32, is_set: bool| if is_set { pins | bit } else { pins & !bit };
        field!(*registers, by_level).modify(|pins| set(pins, false));
        field!(*registers, both_edges).modify(|pins| set(pins, edge == Edge::Both));
        field!(*registers, rising).modify(|pins| set(pins, edge == Edge::Rising));
        field!(*registers, clear).write(bit);
        field!(*registers, enabled).modify(|pins| set(pins, true));
    }
}

//--- Its bottom half

fn signal_edges(environment: &Environment, mut registers: Registers) -> ! {
    const NAMES: [&str; PINS as usize] = ["pin0", "pin1", "pin2", "pin3", "pin4", "pin5", "pin6", "pin7"];
    let signalled = NAMES.map(|name| environment.get::<Notification>(name).ok());
    let (line, event) = (environment.expect::<Interrupt>("line"), environment.expect::<Notification>("event"));
    loop {
        event.wait(Instant::NEVER).expect("the bottom half may wait for its device");
        let edges = field_shared!(registers, masked).read();
        // First: an edge that comes meanwhile fires again.
        field!(registers, clear).write(edges);
        for (pin, signalled) in signalled.iter().enumerate() {
            if let (true, Some(signalled)) = (edges >> pin & 1 != 0, signalled) {
                // A client that died no longer hears.
                let _ = signalled.signal(1);
            }
        }
        let _ = line.acknowledge();
    }
}
