//! The preempted blocks of one kernel, in the order in which they were saved: its PTBQ (section 3.3 of the paper).
//!
//! Preempted blocks go before fresh ones, and a fresh block is only issued when there is no preempted one. So the blocks of a
//! kernel that are preempted or on SMs are never more than fit on all SMs together, and the queue cannot overflow.
//!
//! An entry takes 10 bytes. The paper's takes 8, because it keeps the remaining time of a block in the saved state; here that state
//! is memory of a client, which could change it.

use crate::account::Payer;
use crate::limits::BLOCKS_MAX;
use crate::table::SMS_MAX;

/// The number of blocks that fit on all SMs.
pub(crate) const ENTRIES: usize = SMS_MAX * BLOCKS_MAX;

/// The upper part of an entry: 11 bits of time, and the payer.
const PAYER_BITS: u32 = 5;

/// One preempted block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Preempted {
    pub block: u32,
    /// Nanoseconds for which the block has still to run, at most [`crate::limits::BLOCK_TIME_MAX`].
    pub remaining: u64,
    /// The account to which its restore is booked.
    pub payer: Payer,
}

pub(crate) struct Queue {
    first: u16,
    len: u16,
    /// The number of used slots: as many as blocks of the kernel fit on all SMs, so that the slots fit into a save area as large as
    /// the state of all SMs.
    size: u16,
    blocks: [u32; ENTRIES],
    low: [u32; ENTRIES],
    high: [u16; ENTRIES],
}

impl Queue {
    pub const EMPTY: Queue =
        Queue { first: 0, len: 0, size: 1, blocks: [0; ENTRIES], low: [0; ENTRIES], high: [0; ENTRIES] };

    pub const fn len(&self) -> u32 {
        self.len as u32
    }

    /// Empties the queue for a kernel that has so many blocks on all SMs.
    pub fn start(&mut self, size: usize) {
        (self.first, self.len, self.size) = (0, 0, size.clamp(1, ENTRIES) as u16);
    }

    pub fn clear(&mut self) {
        (self.first, self.len) = (0, 0);
    }

    /// Puts a block at the end. Returns the number of its slot, which nothing else has until the block is taken out.
    pub fn push(&mut self, preempted: Preempted) -> u16 {
        debug_assert!(self.len < self.size, "more blocks are preempted than fit on all SMs");
        let slot = self.slot(self.len);
        self.blocks[slot] = preempted.block;
        self.low[slot] = preempted.remaining as u32;
        self.high[slot] = ((preempted.remaining >> 32) as u16) << PAYER_BITS | u16::from(preempted.payer.number());
        self.len += 1;
        slot as u16
    }

    /// Takes the block out that was preempted first, with the number of its slot.
    pub fn pop(&mut self) -> Option<(u16, Preempted)> {
        if self.len == 0 {
            return None;
        }
        let slot = usize::from(self.first);
        self.first = self.slot(1) as u16;
        self.len -= 1;
        let high = self.high[slot];
        let remaining = u64::from(high >> PAYER_BITS) << 32 | u64::from(self.low[slot]);
        let payer = Payer::from_number((high & ((1 << PAYER_BITS) - 1)) as u8);
        Some((slot as u16, Preempted { block: self.blocks[slot], remaining, payer }))
    }

    /// Restores that `payer` would have paid are paid by no context.
    pub fn forgive(&mut self, payer: Payer) {
        for entry in 0..self.len {
            let high = &mut self.high[self.slot(entry)];
            if *high & ((1 << PAYER_BITS) - 1) == u16::from(payer.number()) {
                *high = *high >> PAYER_BITS << PAYER_BITS | u16::from(Payer::NOBODY.number());
            }
        }
    }

    /// The slot of an entry, counted from the first one.
    const fn slot(&self, entry: u16) -> usize {
        let slot = self.first + entry;
        (if slot < self.size { slot } else { slot - self.size }) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BLOCK_TIME_MAX;
    use crate::table::Context;

    #[test]
    fn what_goes_in_comes_out_in_order_with_all_bits_and_the_same_slot() {
        let mut queue = Queue::EMPTY;
        let payer = |number: usize| Context::new(number % 17).map_or(Payer::NOBODY, Payer::from);
        let entry = |number: usize| Preempted {
            block: u32::MAX - number as u32,
            remaining: BLOCK_TIME_MAX >> (number % 44),
            payer: payer(number),
        };
        for size in [1, 3, 100, ENTRIES] {
            queue.start(size);
            for round in 0..3 {
                let mut slots = [0; ENTRIES];
                for (number, slot) in slots.iter_mut().enumerate().take(size) {
                    *slot = queue.push(entry(number + round));
                    assert!(usize::from(*slot) < size);
                }
                for (number, &slot) in slots.iter().enumerate().take(size) {
                    assert_eq!(queue.pop(), Some((slot, entry(number + round))));
                }
                queue.push(entry(0));
                assert!(queue.pop().is_some() && queue.pop().is_none());
            }
        }
    }

    #[test]
    fn a_forgiven_restore_keeps_its_block_and_its_time() {
        let mut queue = Queue::EMPTY;
        queue.start(2);
        let [one, other] = [3, 4].map(|number| Payer::from(Context::new(number).unwrap()));
        queue.push(Preempted { block: 7, remaining: BLOCK_TIME_MAX, payer: one });
        queue.push(Preempted { block: 8, remaining: 5, payer: other });
        queue.forgive(one);
        let popped = [queue.pop().unwrap().1, queue.pop().unwrap().1];
        assert_eq!(popped[0], Preempted { block: 7, remaining: BLOCK_TIME_MAX, payer: Payer::NOBODY });
        assert_eq!(popped[1], Preempted { block: 8, remaining: 5, payer: other });
    }
}
