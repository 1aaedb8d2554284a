//! One channel of a DMA controller with the registers of Xilinx's ZDMA, in simple mode: one transfer, then an interrupt.
//! Source: UG1087, modules GDMA and ADMA. Versal has the same channels in its low-power domain.

use fusee::Region;
use fusee_driver::claim;
use fusee_driver::safe_mmio::fields::{ReadPure, ReadPureWrite, WriteOnly};
use fusee_driver::safe_mmio::{UniqueMmioPointer, field, field_shared};
use zerocopy::FromBytes;

#[derive(FromBytes)]
#[repr(C)]
struct Registers {
    _errors: [u32; 64],
    /// Events of the channel: a one that is written takes itself away.
    events: ReadPureWrite<u32>,
    _mask: ReadPure<u32>,
    enable: WriteOnly<u32>,
    disable: WriteOnly<u32>,
    mode: ReadPureWrite<u32>,
    _attributes: [u32; 5],
    /// Address, low word first; bytes; and flags, of which we need none.
    source: [ReadPureWrite<u32>; 4],
    /// Destination of the next copy, in the form of the source.
    destination: [ReadPureWrite<u32>; 4],
    _others: [u32; 46],
    start: ReadPureWrite<u32>,
}

/// Offset of the register that starts a channel.
pub const START: u64 = 0x200;
const _: () = assert!(core::mem::offset_of!(Registers, start) == START as usize);
const _: () = assert!(core::mem::offset_of!(Registers, source) == 0x128);

/// In `events`: the transfer has ended.
const DONE: u32 = 1 << 10;
const ALL: u32 = u32::MAX;

/// A channel that is ours.
pub struct Channel {
    registers: UniqueMmioPointer<'static, Registers>,
}

impl Channel {
    /// Opens the channel with its registers in `region`, idle, with its interrupt enabled.
    pub fn open(region: &Region) -> Channel {
        let mut registers = claim::<Registers>(region).expect("the region holds a channel of the DMA controller");
        field!(registers, start).write(0);
        field!(registers, disable).write(ALL);
        field!(registers, events).write(ALL);
        field!(registers, mode).write(0);
        field!(registers, enable).write(DONE);
        Channel { registers }
    }

    /// Sets source and destination of the next copy.
    pub fn prepare(&mut self, source: u64, destination: u64, bytes: u32) {
        let words = |address: u64| [address as u32, (address >> 32) as u32, bytes, 0];
        let mut registers = field!(self.registers, source);
        for (index, word) in words(source).into_iter().enumerate() {
            registers.get(index).expect("there are four").write(word);
        }
        let mut registers = field!(self.registers, destination);
        for (index, word) in words(destination).into_iter().enumerate() {
            registers.get(index).expect("there are four").write(word);
        }
    }

    /// Starts the prepared copy.
    pub fn start(&mut self) {
        field!(self.registers, start).write(1);
    }

    /// Stops it, and forgets that it had anything to say.
    pub fn stop(&mut self) {
        field!(self.registers, start).write(0);
        self.take_done();
    }

    /// Whether a transfer has ended since this was asked last. The line falls.
    pub fn take_done(&mut self) -> bool {
        let is_done = field_shared!(self.registers, events).read() & DONE != 0;
        if is_done {
            field!(self.registers, events).write(DONE);
        }
        is_done
    }
}
