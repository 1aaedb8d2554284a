//! The server of a real-time clock, a PL031 (`fusee::rtc`).
//!
//! Handles: region "rtc", interrupt "line", endpoint "clock" (to serve). The line signals the client that waits for the alarm, not this server, which
//! hears of it when that client ends the alarm, and then lets the line fire again.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::rtc::{Refusal, Request, reply};
use fusee::{Interrupt, Server, environment};
use fusee_driver::claim;
use fusee_driver::safe_mmio::fields::{ReadPure, ReadPureWrite, WriteOnly};
use fusee_driver::safe_mmio::{UniqueMmioPointer, field, field_shared};
use zerocopy::FromBytes;

fusee::entry!(main);

/// The registers of a PL031 (Arm DDI 0224B, table 3-1).
#[derive(FromBytes)]
#[repr(C)]
struct Pl031 {
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
    let registers = claim::<Pl031>(&environment.expect("rtc")).expect("the region `rtc` holds a PL031");
    let mut clock = Clock { registers, line: environment.expect("line"), owner: None };
    clock.silence();
    Server::new(environment.expect("clock"))
        .run(|badge, words| reply(Request::of(&words).and_then(|request| clock.serve(badge, request))))
}

struct Clock {
    registers: UniqueMmioPointer<'static, Pl031>,
    line: Interrupt,
    /// The badge of the alarm's owner.
    owner: Option<u64>,
}

impl Clock {
    fn serve(&mut self, badge: u64, request: Request) -> Result<u64, Refusal> {
        match request {
            Request::Read => Ok(self.seconds().into()),
            Request::Alarm(second) => {
                // One that has rung is over, even if its task never came back for it.
                if self.owner.is_some_and(|owner| owner != badge) && !self.has_rung() {
                    return Err(Refusal::Taken);
                }
                self.silence();
                field!(self.registers, alarm).write(second);
                field!(self.registers, enabled).write(1);
                // The alarm rings as the second begins. If that is over, it would ring in 136 years.
                if self.seconds() >= second && !self.has_rung() {
                    self.silence();
                    return Err(Refusal::Passed);
                }
                self.owner = Some(badge);
                Ok(0)
            }
            Request::End if self.owner.is_some_and(|owner| owner != badge) => Err(Refusal::Taken),
            Request::End => {
                let has_rung = self.has_rung();
                self.silence();
                Ok(has_rung.into())
            }
        }
    }

    fn seconds(&self) -> u32 {
        field_shared!(self.registers, seconds).read()
    }

    fn has_rung(&self) -> bool {
        field_shared!(self.registers, rung).read() & 1 != 0
    }

    /// No alarm: none is set, none rings, and the line may fire again.
    fn silence(&mut self) {
        field!(self.registers, enabled).write(0);
        field!(self.registers, clear).write(1);
        let _ = self.line.acknowledge();
        self.owner = None;
    }
}
