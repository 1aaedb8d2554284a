//! The server of a CAN controller of a ZynqMP ([`fusee::can`]): two tasks of this program, because a task waits either for clients or for an interrupt.
//!
//! | Task | Handles | Does |
//! |---|---|---|
//! | the server | region "can" (registers), region "stamp" (read), endpoint "bus" (to serve), notification "event" (signal) | serves clients, and the interrupt when its bottom half asks it to |
//! | its bottom half | region "stamp" (read, write), endpoint "bus" (call), interrupt "line", notification "event" that the line signals (wait) | has the server serve each interrupt |
//!
//! Parameters of the server: "bit_rate" in bits per second; "clock" in hertz, the frequency of the controller's clock; "loop_back", one for a
//! controller that receives what it sends and is not on the bus. The server needs a stack of 64 KiB.
//!
//! Neither has a budget of its own, unless the manifest gives one to the bottom half. A client that waits for a notification whose `bound` is the bottom half
//! lends it its own budget. The bottom half lends it on, since it calls the server. So an interrupt is served at the key of the most urgent
//! client that waits, and the state of the server is in one task.
//!
//! # Invariants
//!
//! 1. The server alone has the registers. A client that asks it to serve an interrupt that has not come costs itself a look at them.
//! 2. The instant of an interrupt stands in a region that the bottom half alone can write, so no client can make up a time stamp.
//! 3. The bottom half ends when the server has begun another life: tasks that wait for it then get an error, and open the bus again. In its own next
//!    life it goes on with the present server.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use can_driver::server::{BITS_OFF, CLIENTS};
use can_driver::{Bus, Clock, Controller, Mode, Registers, Timing, controller};
use fusee::can::Request;
use fusee::{Environment, Instant, Notification, Region, Server, SharedBytes, environment, now};
use fusee_driver::safe_mmio::fields::ReadWrite;
use fusee_driver::safe_mmio::{UniqueMmioPointer, field};
use fusee_driver::{BottomHalf, Wakes, claim};
use zerocopy::FromBytes;

fusee::entry!(main);

fn main() {
    let environment = environment();
    match environment.region("can") {
        Ok(registers) => serve(&environment, &registers),
        Err(_) => serve_interrupts(&environment),
    }
}

/// The registers in memory.
#[derive(FromBytes)]
#[repr(C)]
struct Words {
    words: [ReadWrite<u32>; controller::WORDS],
}

struct Mapped(UniqueMmioPointer<'static, Words>);

impl Registers for Mapped {
    fn read(&mut self, word: usize) -> u32 {
        field!(self.0, words).get(word).map_or(0, |mut word| word.read())
    }

    fn write(&mut self, word: usize, value: u32) {
        if let Some(mut word) = field!(self.0, words).get(word) {
            word.write(value);
        }
    }
}

/// The kernel's clock, and the region where the bottom half leaves instants.
struct Stamps(SharedBytes);

impl Clock for Stamps {
    fn now(&self) -> Instant {
        now().now
    }

    fn interrupted(&self) -> Instant {
        Instant(self.0.read_u64(0))
    }
}

//--- The server

fn serve(environment: &Environment, registers: &Region) -> ! {
    let number = |name| {
        let value = environment.parameter(name).unwrap_or_else(|| panic!("the manifest gives no parameter `{name}`"));
        u32::try_from(value).unwrap_or_else(|_| panic!("the parameter `{name}` has more than 32 bits: {value}"))
    };
    let clock = number("clock");
    let timing = Timing::new(clock, number("bit_rate")).unwrap_or_else(|error| panic!("{error}"));
    let mode = match environment.parameter("loop_back") {
        None | Some(0) => Mode::Normal,
        Some(1) => Mode::LoopBack,
        Some(other) => panic!("the parameter `loop_back` is {other}: it is 0 or 1"),
    };
    let registers = claim(registers).expect("the region `can` holds a CAN controller");
    let stamps = Stamps(environment.expect::<Region>("stamp").shared());
    let controller = Controller::new(Mapped(registers), timing, mode);
    let mut bus =
        Bus::new(controller, timing.bits(BITS_OFF, clock), &stamps).expect("the CAN controller resets: it has a clock");
    let mut wakes = Wakes::<CLIENTS>::default();
    // A bottom half that knows an earlier life finds out that this is another one.
    let event = environment.expect::<Notification>("event");
    let _ = event.signal(1);

    let server = Server::new(environment.expect("bus"));
    server.serve(|request| {
        let reply = bus.serve(request.badge, &request.words, &stamps);
        let opens = Request::of(&request.words) == Ok(Request::Open);
        wakes.keep(request, bus.index(request.badge).filter(|_| opens));
        wakes.signal(&bus.take_signals());
        if bus.take_urgency() {
            let _ = event.signal(1);
        }
        reply
    })
}

//--- Its bottom half

fn serve_interrupts(environment: &Environment) -> ! {
    let stamp = environment.expect::<Region>("stamp").shared();
    let half = BottomHalf {
        line: environment.expect("line"),
        event: environment.expect("event"),
        server: environment.expect("bus"),
    };
    half.run(Request::Interrupt.message(), || stamp.write_u64(0, now().now.0))
}
