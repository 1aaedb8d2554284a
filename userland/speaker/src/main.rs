//! Says something by the macros of the crate `defmt`, with all kinds of arguments, and how many ticks a message takes; ends the system.
//!
//! Handle: "system" (shutdown).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use defmt::{Display2Format, Format};
use fusee::messages::{self, LevelFilter};
use fusee::{System, counter, environment, shutdown};

fusee::entry!(main);

/// Calls of each kind that are measured.
const CALLS: u64 = 64;

#[derive(Format)]
struct Axis {
    name: &'static str,
    degrees: i16,
    faults: Option<Fault>,
}

#[derive(Format)]
enum Fault {
    Stuck,
    Slips { by: u32 },
}

fn main() {
    messages::start(LevelFilter::Info).expect("nothing else is started");
    log::info!("beside {}", "log");
    defmt::info!("begins");
    defmt::info!("integers {} {} {=i8} {=u128}", 7_u8, u64::MAX, -1, u128::MAX);
    defmt::info!("hex {=u32:#010x}, binary {:08b}, bits {2=4..6}", 0xbeef_u32, 5_u8, 0x30_u8);
    defmt::info!("text {} and {=istr}, {}", "Grüße", defmt::intern!("interned"), 'x');
    defmt::info!("slices {} {=[u8]:02x} {=[?]}", [1_u16, 2], &[0xab, 0][..], &[Some(1_u8), None][..]);
    let nested = [
        Axis { name: "roll", degrees: -12, faults: None },
        Axis { name: "pitch", degrees: 3, faults: Some(Fault::Stuck) },
        Axis { name: "yaw", degrees: 0, faults: Some(Fault::Slips { by: 40 }) },
    ];
    defmt::warn!("nested {}", nested);
    defmt::warn!("float {} {}, by core {}, {}", 1.5_f32, true, Display2Format(&format_args!("{:>4}", 1)), ());
    defmt::println!("without level");
    defmt::debug!("not kept");
    defmt::error!("too long: {}", LONG);
    measure(1, || log::info!("two numbers: {} {}", 1_000, 2_000));
    measure(2, || defmt::info!("two numbers: {} {}", 1_000, 2_000));
    measure(3, || log::info!("text: {}", "twelve bytes"));
    measure(4, || defmt::info!("text: {}", "twelve bytes"));
    defmt::error!("the last");
    shutdown(environment().expect::<System>("system"), 0);
}

/// Longer than a frame.
const LONG: &str = match core::str::from_utf8(&[b'x'; 600]) {
    Ok(text) => text,
    Err(_) => "",
};

/// Logs, with this key, the ticks that so many calls take.
fn measure(key: u64, say: impl Fn()) {
    let began = counter();
    (0..CALLS).for_each(|_| say());
    fusee::log(key, counter() - began);
}
