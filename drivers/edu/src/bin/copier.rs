//! A driver that is killed again and again while its device copies.
//!
//! Handles: those of the driver (`edu_driver`); regions "own" (read write physical) of two pages, which the device reaches, and "notes" (read write), where lives leave
//! word to the next; endpoint "guard" (call), "system" (shutdown). Parameters: "lives", in how many it lets the device write; "stream", the device's number.
//!
//! Each life has the device read its second page, fills the first with another value, and has the device write that. The next one looks whether the device was at work when it
//! came to be, and waits for its end: then the first page must be unchanged, and the guard must have seen that this access was refused, and nothing
//! else. Marks of the last life: `log(1, n)`: how often the device was at work when its driver was killed; `log(2, 1)`: more often with a write than
//! with a read; `log(3, n)`: how often the page was not as it was left; `log(4, n)`: how often the guard had seen the expected refusal; `log(5, 1)`:
//! the last life's own write reached the page.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use edu_driver::{BUFFER, Edu, Way};
use fusee::{Endpoint, Instant, Region, System, environment, life, log, shutdown};

fusee::entry!(main);

const PAGE: usize = 4096;
const LEFT: u8 = 0xa5;
const SENT: u8 = 0x3c;
/// Words of the notes: the last command of the device; how often it was to write, or to read, when its driver was killed; how often the page had
/// changed; how often the guard had seen the expected refusal.
const TOLD: usize = 0;
const COUNTS: [usize; 4] = [8, 16, 24, 32];
const WRITE: u64 = 1;
const READ: u64 = 2;

fn main() {
    let environment = environment();
    let number = |name| environment.parameter(name).expect("a parameter says it");
    let own = environment.expect::<Region>("own");
    let notes = environment.expect::<Region>("notes").shared();
    let guard = environment.expect::<Endpoint>("guard");
    let add = |note: usize, more: bool| notes.write_u64(note, notes.read_u64(note) + u64::from(more));
    let source = own.physical() + PAGE as u64;
    let (mut edu, was_busy) = Edu::open_and_see(&environment);
    if was_busy {
        let is_write = notes.read_u64(TOLD) == WRITE;
        add(COUNTS[usize::from(!is_write)], true);
        add(COUNTS[2], is_write && !holds(&own, LEFT));
        let address = if is_write { own.physical() } else { source };
        let words = [number("stream"), address, BUFFER, u64::from(is_write), 0, 0];
        // A server that lives on knows this one.
        add(COUNTS[3], guard.call(words, Instant::NEVER).expect("the guard answers")[0] != 0);
    }
    edu.region().let_device_reach_memory().expect("its addresses are translated");
    own.shared().fill(PAGE, PAGE, SENT);
    notes.write_u64(TOLD, READ);
    edu.copy(Way::FromMemory, source, BUFFER);
    own.shared().fill(0, PAGE, LEFT);
    notes.write_u64(TOLD, WRITE);
    edu.copy(Way::ToMemory, own.physical(), BUFFER);
    let is_there = holds(&own, SENT);
    notes.write_u64(TOLD, READ);
    while u64::from(life()) < number("lives") {
        // It was not killed in time. The next kill finds it here.
        edu.copy(Way::FromMemory, source, BUFFER);
    }
    let [writes, reads, changed, refused] = COUNTS.map(|note| notes.read_u64(note));
    log(1, writes + reads);
    log(2, u64::from(writes > reads));
    log(3, changed);
    log(4, refused);
    log(5, u64::from(is_there));
    shutdown(environment.expect::<System>("system"), 0)
}

fn holds(own: &Region, value: u8) -> bool {
    (0..BUFFER as usize).all(|at| own.shared().read_u8(at) == value)
}
