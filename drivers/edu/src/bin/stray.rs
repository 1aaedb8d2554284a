//! A driver that tells its device to copy from and to memory that is not its own, and checks the results.
//!
//! Handles: those of the driver (`edu_driver`); region "own" (read write physical) of two pages, which the device reaches; endpoint "guard" (call), "system" (shutdown).
//! Parameters: "strays", how many; "stream", the device's number; "place.0", "pages.0" and so on, memory and devices of others.
//!
//! Marks: `log(1, n)`: strays that the guard saw, each as it was meant; `log(2, n)`: copies of the device's buffer with contents of others; `log(3,
//! 1)`: its own pages it reaches.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use edu_driver::{BUFFER, Edu, Way};
use fusee::{Endpoint, Environment, Instant, Region, System, environment, log, shutdown};

fusee::entry!(main);

const PAGE: u64 = 4096;
const OWN: u8 = 0x5a;
/// After so many strays the device is searched for contents of other tasks.
const LOOKS: u64 = 10;
const PLACES: [(&str, &str); 8] = [
    ("place.0", "pages.0"),
    ("place.1", "pages.1"),
    ("place.2", "pages.2"),
    ("place.3", "pages.3"),
    ("place.4", "pages.4"),
    ("place.5", "pages.5"),
    ("place.6", "pages.6"),
    ("place.7", "pages.7"),
];

/// Numbers without an end (Steele and Vigna 2021, a linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        (self.0 >> 33) % limit.max(1)
    }
}

fn main() {
    let environment = environment();
    let number = |name| environment.parameter(name).expect("a parameter says it");
    let own = environment.expect::<Region>("own");
    let guard = environment.expect::<Endpoint>("guard");
    let mut edu = Edu::open(&environment);
    // Without leave, it does not reach even that.
    edu.copy(Way::FromMemory, own.physical(), 8);
    assert!(is_refused(&guard, number("stream"), own.physical(), 8, Way::FromMemory), "it reaches what it may not yet");
    edu.region().let_device_reach_memory().expect("its addresses are translated");

    own.shared().fill(0, PAGE as usize, OWN);
    edu.copy(Way::FromMemory, own.physical(), BUFFER);
    let mut numbers = Numbers(1);
    let (mut seen, mut leaked) = (0, 0);
    for stray in 1..=number("strays") {
        let (address, bytes) = somewhere(&environment, &own, &mut numbers);
        let way = if numbers.below(2) == 0 { Way::FromMemory } else { Way::ToMemory };
        edu.copy(way, address, bytes);
        seen += u64::from(is_refused(&guard, number("stream"), address, bytes, way));
        if stray % LOOKS == 0 {
            edu.copy(Way::ToMemory, own.physical() + PAGE, BUFFER);
            leaked += u64::from(!holds_nothing_of_others(&own));
        }
    }
    log(1, seen);
    log(2, leaked);
    own.shared().fill(0, PAGE as usize, OWN);
    own.shared().fill(PAGE as usize, PAGE as usize, 0);
    edu.copy(Way::FromMemory, own.physical(), BUFFER);
    edu.copy(Way::ToMemory, own.physical() + PAGE, BUFFER);
    log(3, u64::from((0..BUFFER as usize).all(|at| own.shared().read_u8(PAGE as usize + at) == OWN)));
    shutdown(environment.expect::<System>("system"), 0)
}

/// Whether the guard saw that this was refused, and nothing else.
fn is_refused(guard: &Endpoint, stream: u64, address: u64, bytes: u64, way: Way) -> bool {
    let words = [stream, address, bytes, u64::from(way == Way::ToMemory), 0, 0];
    guard.call(words, Instant::NEVER).expect("the guard answers")[0] != 0
}

/// Memory of another task, or none, and its length: also memory right behind our own, and right before.
fn somewhere(environment: &Environment, own: &Region, numbers: &mut Numbers) -> (u64, u64) {
    let bytes = [1, 8, 64, BUFFER][numbers.below(4) as usize];
    match numbers.below(12) {
        0 => (own.physical() - bytes, bytes),
        1 => (own.physical() + own.bytes(), bytes),
        // Anywhere, in as many bits as addresses have.
        2 => (numbers.below(1 << 31) << numbers.below(17), bytes),
        _ => {
            let (place, pages) = PLACES[numbers.below(PLACES.len() as u64) as usize];
            let [place, pages] = [place, pages].map(|name| environment.parameter(name).unwrap_or(0));
            let offset = numbers.below(PAGE + 1 - bytes);
            (place + numbers.below(pages) * PAGE + offset, bytes)
        }
    }
}

/// Whether our second page, to which the device's buffer was copied, has only bytes that were ours or zero.
fn holds_nothing_of_others(own: &Region) -> bool {
    (0..PAGE as usize).all(|at| matches!(own.shared().read_u8(PAGE as usize + at), 0 | OWN))
}
