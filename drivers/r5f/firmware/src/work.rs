//! Operations of the processor.

use core::arch::asm;

use fusee_accel_contract::Operation;
use fusee_compute::{Memory, find};
use fusee_library::KERNELS;

use crate::memory;

/// Memory by physical address.
struct Physical;

impl Memory for Physical {
    fn read(&self, address: u64, to: &mut [u8]) {
        memory::read_bytes(address as usize, to);
    }

    fn write(&self, address: u64, from: &[u8]) {
        memory::write_bytes(address as usize, from);
    }
}

/// Does `operation`, which has physical addresses; `None` if this firmware does not know it.
///
/// Called once after each reset.
pub fn run(operation: &Operation) -> Option<()> {
    match *operation {
        Operation::Launch(launch) => {
            let entry = find(KERNELS, launch.kernel)?;
            (0..launch.blocks).for_each(|block| entry.block(&launch.words, launch.first + block, &Physical));
        }
        Operation::Burn { time } => burn(time),
        Operation::Copy { .. } | Operation::PeerCopy { .. } => return None,
    }
    Some(())
}

/// Takes about `time` nanoseconds, if an instruction takes one: this processor has no clock.
fn burn(time: u64) {
    /// Instructions of a turn of the loop.
    const TURN: u64 = 4;
    for _ in 0..time / TURN {
        // SAFETY: does nothing. It keeps the loop.
        unsafe { asm!("nop", options(nomem, nostack, preserves_flags)) };
    }
}
