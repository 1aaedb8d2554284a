//! The Cortex-R5F: its memory, its reset, and one request at a time.

use fusee::{Instant, Nanoseconds, Region, SharedBytes, complete_stores, now};
use fusee_accel_contract::{Command, Operation};
use fusee_driver::claim;
use fusee_driver::safe_mmio::fields::ReadPureWrite;
use fusee_driver::safe_mmio::{UniqueMmioPointer, field};
use fusee_r5f_commands::mailbox::{ANSWERED, BEGUN, COMMAND, DONE, KICK, MAILBOX, NUMBER, OUTCOME};
use zerocopy::FromBytes;

/// The part of Versal's reset controller up to the register for its two R5F (AM012, module CRL).
#[derive(FromBytes)]
#[repr(C)]
struct Resets {
    _others: [u32; 192],
    processors: ReadPureWrite<u32>,
}

const _: () = assert!(core::mem::offset_of!(Resets, processors) == 0x300);

/// Both processors are held.
const HOLD: u32 = 0b11;
/// The first runs, from address 0 on; the second is held.
const RUN: u32 = 0b10;

/// A processor that was released begins within this time, or it does not begin: the release came too soon after it was held. On QEMU's `par` it is held
/// when its thread gets to it, and a release before that is lost.
const TO_BEGIN: Nanoseconds = Nanoseconds(5_000_000);

/// How far a request has come, as far as we know.
#[derive(Clone, Copy)]
enum Phase {
    /// There is none, or it has begun.
    Settled,
    /// The processor was released; at this instant it must have begun.
    Released(Instant),
    /// The processor had not answered, and is held; at this instant it is to be released again.
    Held(Instant),
}

/// The processor, its memory, and the request it was given last.
pub struct Processor {
    resets: UniqueMmioPointer<'static, Resets>,
    memory: SharedBytes,
    firmware: SharedBytes,
    number: u32,
    phase: Phase,
}

impl Processor {
    /// Holds it, and gives it its firmware. `kick`: the word by which it tells that it is done.
    pub fn open(resets: &Region, memory: &Region, firmware: &Region, kick: u64) -> Processor {
        let resets = claim::<Resets>(resets).expect("the region `reset` holds the reset controller");
        let (memory, firmware) = (memory.shared(), firmware.shared());
        assert!(firmware.len() <= MAILBOX, "the firmware does not fit below the mailbox");
        let mut processor = Processor { resets, memory, firmware, number: 0, phase: Phase::Settled };
        processor.reset();
        let kick = u32::try_from(kick).expect("the processor has 32 bits");
        processor.memory.write_u32(MAILBOX + KICK, kick);
        processor
    }

    /// Ends any operation. The program is written anew: nothing keeps a processor that went astray from its own instructions.
    pub fn reset(&mut self) {
        field!(self.resets, processors).write(HOLD);
        complete_stores();
        for offset in (0..self.firmware.len()).step_by(8) {
            self.memory.write_u64(offset, self.firmware.read_u64(offset));
        }
        // An answer that was on its way is to no request.
        self.number = self.number.wrapping_add(1);
        self.phase = Phase::Settled;
    }

    /// Lets the processor do `operation`, which has physical addresses.
    pub fn start(&mut self, operation: Operation) {
        self.number = self.number.wrapping_add(1);
        self.memory.copy_from_slice(MAILBOX + COMMAND, &Command { operation, fence: None }.encode());
        self.memory.write_u32(MAILBOX + NUMBER, self.number);
        complete_stores();
        self.release();
    }

    fn release(&mut self) {
        field!(self.resets, processors).write(RUN);
        self.phase = Phase::Released(now().now + TO_BEGIN);
    }

    /// When [`Processor::look`] is to be called, at the latest.
    pub fn next_look(&self) -> Instant {
        match self.phase {
            Phase::Settled => Instant::NEVER,
            Phase::Released(at) | Phase::Held(at) => at,
        }
    }

    /// Looks whether the processor has begun, and releases it again if not. Says whether the request has failed: the processor has begun too late, and was
    /// held in the middle of it.
    pub fn look(&mut self) -> bool {
        if now().now < self.next_look() {
            return false;
        }
        let has_begun = self.memory.observe_u32(MAILBOX + BEGUN) == self.number;
        match self.phase {
            Phase::Settled => false,
            Phase::Released(_) if has_begun => {
                self.phase = Phase::Settled;
                false
            }
            // Not at once: it may be about to begin, and a request is not done twice.
            Phase::Released(at) => {
                field!(self.resets, processors).write(HOLD);
                self.phase = Phase::Held(at + TO_BEGIN);
                false
            }
            Phase::Held(_) if has_begun => {
                self.phase = Phase::Settled;
                self.memory.observe_u32(MAILBOX + ANSWERED) != self.number
            }
            Phase::Held(_) => {
                self.release();
                false
            }
        }
    }

    /// Takes the answer to the request, if there is one: whether it was carried out. The processor, which sleeps, is held from now on: only one that
    /// was held begins at address 0. That takes a while, so it is done here, and not when the next request is there.
    pub fn take_answer(&mut self) -> Option<bool> {
        if self.memory.observe_u32(MAILBOX + ANSWERED) != self.number {
            return None;
        }
        field!(self.resets, processors).write(HOLD);
        self.phase = Phase::Settled;
        Some(self.memory.read_u32(MAILBOX + OUTCOME) == DONE)
    }
}
