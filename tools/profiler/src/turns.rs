//! From executed instructions to turns: which core the emulator executes, and when in terms of the kernel's clock.
//!
//! Instructions are counted over all cores, as the emulator's clock counts them while any core has something to do. While none has, that clock
//! jumps, and a plugin is not told how far. But each record of the kernel's trace has the time that its core has just read. So the
//! file says when records were written, by our count, and the owner of the trace knows the clock there.
//!
//! ```text
//! turn CORE COUNT      after so many instructions this core is executed
//! record RING COUNT    the next record of this ring has the time that was read after so many instructions
//! ```
//! All numbers are decimal.
//!
//! # Caveats
//!
//! An instruction that reaches a device counts twice; the error is a few instructions, and the next record ends it.

use std::fmt::Write;
use std::num::ParseIntError;

/// Where the kernel counts the records of its rings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rings {
    /// Virtual address of the first count.
    pub first: u64,
    /// Bytes from one count to the next.
    pub stride: u64,
    /// How many there are.
    pub count: u64,
}

impl Rings {
    /// Reads `FIRST:STRIDE:COUNT`, hexadecimal.
    ///
    /// # Errors
    /// A number that is none.
    pub fn parse(text: &str) -> Result<Rings, ParseIntError> {
        let mut numbers = text.splitn(3, ':').map(|number| u64::from_str_radix(number, 16));
        let mut next = || numbers.next().unwrap_or_else(|| u64::from_str_radix("", 16));
        Ok(Rings { first: next()?, stride: next()?, count: next()? })
    }

    /// The ring with its count at `address`.
    fn at(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.first)?;
        let ring = offset.checked_div(self.stride)?;
        (offset % self.stride == 0 && ring < self.count).then_some(ring)
    }
}

/// All cores.
#[derive(Debug)]
pub struct Turns {
    rings: Rings,
    /// The core that is executed.
    core: Option<usize>,
    /// By core, the count at which the kernel has read the clock there last.
    read: Vec<Option<u64>>,
    /// By ring, the count of its last record.
    told: Vec<Option<u64>>,
    text: String,
}

impl Turns {
    /// Nothing yet.
    pub fn new(rings: Rings) -> Turns {
        let told = vec![None; rings.count as usize];
        Turns { rings, core: None, read: Vec::new(), told, text: String::new() }
    }

    /// `core` is about to execute a block; all have `executed` so many instructions.
    pub fn block(&mut self, core: usize, executed: u64) {
        if self.core.replace(core) != Some(core) {
            let _ = writeln!(self.text, "turn {core} {executed}");
        }
    }

    /// The kernel reads the clock on `core`.
    pub fn read(&mut self, core: usize, executed: u64) {
        if self.read.len() <= core {
            self.read.resize(core + 1, None);
        }
        self.read[core] = Some(executed);
    }

    /// The kernel stores to `address` on `core`.
    pub fn store(&mut self, core: usize, address: u64) {
        let (Some(ring), Some(&Some(read))) = (self.rings.at(address), self.read.get(core)) else { return };
        // The emulator tells of some stores twice; each record reads the clock anew.
        if self.told[ring as usize].replace(read) != Some(read) {
            let _ = writeln!(self.text, "record {ring} {read}");
        }
    }

    /// The news since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Whether there is much to say.
    pub fn is_long(&self) -> bool {
        self.text.len() > 1 << 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RINGS: Rings = Rings { first: 0x1008, stride: 0x100, count: 2 };

    #[test]
    fn turns_and_records_are_told_by_the_instructions_before_them() {
        let mut turns = Turns::new(RINGS);
        turns.block(0, 0);
        turns.read(0, 10);
        turns.block(0, 11);
        turns.store(0, 0x1008);
        turns.store(0, 0x1008);
        turns.block(2, 15);
        turns.block(0, 22);
        turns.read(0, 23);
        turns.store(0, 0x1108);
        assert_eq!(turns.take(), "turn 0 0\nrecord 0 10\nturn 2 15\nturn 0 22\nrecord 1 23\n");
        assert_eq!(turns.take(), "");
    }

    #[test]
    fn stores_elsewhere_and_before_the_clock_was_read_are_no_records() {
        let mut turns = Turns::new(RINGS);
        turns.store(0, 0x1008);
        turns.block(0, 0);
        turns.read(0, 1);
        for address in [0x1000, 0x1010, 0x1208, 0x908] {
            turns.store(0, address);
        }
        turns.store(3, 0x1008);
        assert_eq!(turns.take(), "turn 0 0\n");
    }

    #[test]
    fn rings_are_three_numbers() {
        assert_eq!(Rings::parse("1008:100:2"), Ok(RINGS));
        assert!(Rings::parse("1008:100").is_err());
        assert!(Rings::parse("1008:100:x").is_err());
    }
}
