//! QEMU's device for teaching, `edu`, as far as it copies: nearly 4 KiB at most between memory and a buffer of its own, in 100 ms of its time.
//!
//! Handles of its driver: regions "edu" (read write physical) and "pci" (read write), the registers and the configuration space; interrupt "line" (acknowledge) and
//! notification "done" (wait).
//!
//! Source: QEMU, docs/specs/edu.rst.
#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

use fusee::{Environment, Instant, Interrupt, Nanoseconds, Notification, Region, now, sleep_until};
use fusee_driver::safe_mmio::fields::{ReadPure, ReadPureWrite, WriteOnly};
use fusee_driver::safe_mmio::{UniqueMmioPointer, field, field_shared};
use fusee_driver::{claim, pci};
use zerocopy::FromBytes;

/// Bytes that it copies at most: QEMU does not let it reach the last of the 4096 in its buffer.
pub const BUFFER: u64 = 4088;
/// Where the device finds that.
const BUFFER_AT: u64 = 0x4_0000;
/// The identity that the device reports.
const IDENTITY: u32 = 0x0100_00ed;

#[derive(FromBytes)]
#[repr(C)]
struct Registers {
    identity: ReadPure<u32>,
    unused: [u32; 8],
    interrupts: ReadPure<u32>,
    unused_too: [u32; 15],
    acknowledged: WriteOnly<u32>,
    also_unused: [u32; 6],
    source: ReadPureWrite<u64>,
    destination: ReadPureWrite<u64>,
    count: ReadPureWrite<u64>,
    command: ReadPureWrite<u64>,
}

/// Bits of the command: it begins, or still goes on; from the device to memory; an interrupt ends it.
const RUN: u64 = 1;
const TO_MEMORY: u64 = 1 << 1;
const TELL: u64 = 1 << 2;

/// The direction of a copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// From memory to the device.
    FromMemory,
    /// From the device to memory.
    ToMemory,
}

/// The device.
pub struct Edu {
    region: Region,
    registers: UniqueMmioPointer<'static, Registers>,
    line: Interrupt,
    done: Notification,
}

impl Edu {
    /// Finds the device, and waits for the end of a copy that an earlier life began: the device has no reset. It may not reach memory yet.
    ///
    /// # Panics
    /// If a handle is missing or is to something else.
    #[must_use]
    pub fn open(environment: &Environment) -> Edu {
        Edu::open_and_see(environment).0
    }

    /// Finds the device as [`Edu::open`] does, and returns whether there was a copy to wait for.
    ///
    /// # Panics
    /// As [`Edu::open`].
    #[must_use]
    pub fn open_and_see(environment: &Environment) -> (Edu, bool) {
        let region = environment.expect::<Region>("edu");
        let may = pci::MEMORY | pci::MASTER;
        pci::enable(&environment.expect("pci"), region.physical() as u32, may).expect("a configuration space");
        let registers = claim::<Registers>(&region).expect("registers of an edu");
        let mut edu = Edu { region, registers, line: environment.expect("line"), done: environment.expect("done") };
        assert_eq!(field_shared!(edu.registers, identity).read(), IDENTITY, "this is no edu");
        let was_busy = edu.is_busy();
        while edu.is_busy() {
            let _ = sleep_until(now().now + Nanoseconds(1_000_000));
        }
        edu.silence();
        (edu, was_busy)
    }

    /// The region of its registers.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Whether it copies at the moment.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        field_shared!(self.registers, command).read() & RUN != 0
    }

    /// Begins to copy `bytes` bytes between its buffer and the device's memory at `address`.
    pub fn start(&mut self, way: Way, address: u64, bytes: u64) {
        let (source, destination, command) = match way {
            Way::FromMemory => (address, BUFFER_AT, RUN | TELL),
            Way::ToMemory => (BUFFER_AT, address, RUN | TELL | TO_MEMORY),
        };
        field!(self.registers, source).write(source);
        field!(self.registers, destination).write(destination);
        field!(self.registers, count).write(bytes.min(BUFFER));
        field!(self.registers, command).write(command);
    }

    /// Waits until it has copied.
    pub fn finish(&mut self) {
        while self.is_busy() {
            let _ = self.done.wait(Instant::NEVER);
            self.silence();
        }
    }

    /// Copies.
    pub fn copy(&mut self, way: Way, address: u64, bytes: u64) {
        self.start(way, address, bytes);
        self.finish();
    }

    /// Acknowledges the device's interrupt.
    fn silence(&mut self) {
        let raised = field_shared!(self.registers, interrupts).read();
        field!(self.registers, acknowledged).write(raised);
        let _ = self.line.acknowledge();
    }
}
