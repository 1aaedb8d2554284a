//! A driver: serves a real-time clock, a PL031, with an alarm for one client.
//!
//! Handles: region "registers", interrupt "line" (acknowledge), endpoint "clock" (receive). The line signals the client that waits for the alarm, so this
//! driver need not run then. It lets the line fire again when that client asks for the second, or for another alarm.
//!
//! Request: in word 0 the second of an alarm, or zero for none. Reply: in word 0 the second that it is now.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Interrupt, Server, environment};
use fusee_driver::claim;
use fusee_driver::safe_mmio::fields::{ReadPure, ReadPureWrite, WriteOnly};
use fusee_driver::safe_mmio::{UniqueMmioPointer, field, field_shared};
use zerocopy::FromBytes;

fusee::entry!(main);

/// The registers of a PL031 (Arm DDI 0224B, table 3-1), in the order of their addresses.
#[derive(FromBytes)]
#[repr(C)]
struct Registers {
    seconds: ReadPure<u32>,
    alarm: ReadPureWrite<u32>,
    load: ReadPureWrite<u32>,
    control: ReadPureWrite<u32>,
    enabled: ReadPureWrite<u32>,
    rung: ReadPure<u32>,
    masked: ReadPure<u32>,
    clear: WriteOnly<u32>,
}

fn main() {
    let environment = environment();
    // The region has to be as large as the registers, and can be claimed once.
    let mut registers = claim::<Registers>(&environment.expect("registers")).expect("the region holds a PL031");
    let line = environment.expect::<Interrupt>("line");
    Server::new(environment.expect("clock")).run(|_badge, words| {
        serve(&mut registers, &line, words[0]);
        [field_shared!(registers, seconds).read().into(), 0, 0, 0, 0, 0]
    })
}

/// Ends the alarm that is set or has rung, and sets one at `second`, unless that is zero or no second.
fn serve(registers: &mut UniqueMmioPointer<'static, Registers>, line: &Interrupt, second: u64) {
    field!(*registers, enabled).write(0);
    field!(*registers, clear).write(1);
    // Nothing is to be acknowledged if the alarm has not rung.
    let _ = line.acknowledge();
    if let Some(second) = alarm(second) {
        field!(*registers, alarm).write(second);
        field!(*registers, enabled).write(1);
    }
}

/// The second of the alarm that a client asks for. Words of a client are any numbers.
fn alarm(word: u64) -> Option<u32> {
    u32::try_from(word).ok().filter(|second| *second != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_second_sets_no_alarm() {
        assert_eq!([0, 1, u64::from(u32::MAX), 1 << 32].map(alarm), [None, Some(1), Some(u32::MAX), None]);
    }
}
