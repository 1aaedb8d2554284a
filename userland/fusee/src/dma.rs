//! The memory that devices behind an SMMU reach, and their refused accesses.
//!
//! A device that copies by itself (DMA) reaches the regions of which the manifest says so (`dma = "edu0"`), at their physical addresses, and no other memory; and
//! these only while its driver lets it: not at the start, and not from its driver's end on, until another life lets it again. So a driver first resets its device,
//! and then calls [`Region::let_device_reach_memory`] of the region of its registers. Where nothing translates the addresses of a device
//! the device reaches all memory at all times, the call is answered with [`DmaError::Unsupported`], and `cargo xtask run`
//! names the driver.
//!
//! Any other access of a device has no effect, and is a [`DmaFault`]. One task may read these, from a region of one page (`dma = "smmu"`), woken by
//! the line `"smmu"`:
//!
//! ```no_run
//! use fusee::dma::DmaFaults;
//! use fusee::{Instant, Interrupt, Notification, Region, environment};
//!
//! let environment = environment();
//! let mut faults = DmaFaults::new(&environment.expect::<Region>("faults")).expect("the page of DMA faults");
//! let (told, line) = (environment.expect::<Notification>("told"), environment.expect::<Interrupt>("line"));
//! loop {
//!     while let Ok(Some(fault)) = faults.next() {
//!         fusee::log(fault.stream.into(), fault.address);
//!     }
//!     let _ = line.acknowledge();
//!     let _ = told.wait(Instant::NEVER);
//! }
//! ```
//!
//! The SMMU keeps 128 faults that were not read. Of those beyond one knows that there were some ([`DmaFaults::have_been_lost`]), but not in QEMU 7.2,
//! which does not say so.

use fusee_abi::call::Call;

use crate::syscall::plain;
use crate::{DmaError, Region, SharedBytes};

/// Bytes of one record (Arm IHI 0070, 7.3).
const RECORD: usize = 32;
/// Records in the page.
const RECORDS: u32 = 128;
/// Numbers of faults count modulo so many.
const NUMBERS: u32 = 2 * RECORDS;
/// Changes when faults were lost.
const LOST: u32 = 1 << 31;

/// An access of a device that an SMMU refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DmaFault {
    /// The number by which the SMMU knows the device: that of the board's file.
    pub stream: u32,
    /// The address that the device used. Zero if `why` has none.
    pub address: u64,
    /// Whether it wanted to write.
    pub is_write: bool,
    /// Why it was refused.
    pub why: Why,
}

/// Why an access of a device was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// Nothing is there for this device, or its driver does not let it.
    NotMapped,
    /// The address has too many bits.
    TooHigh,
    /// The memory there may not be used in this way.
    Forbidden,
    /// No device of this number is in the manifest.
    UnknownDevice,
    /// Another reason, by the architecture's number.
    Other(u8),
}

impl DmaFault {
    /// The fault that a record describes, word by word.
    #[must_use]
    pub fn decode(record: [u64; 4]) -> DmaFault {
        let why = match record[0] as u8 {
            0x02 | 0x04 => Why::UnknownDevice,
            0x10 => Why::NotMapped,
            0x11 => Why::TooHigh,
            0x12 | 0x13 => Why::Forbidden,
            other => Why::Other(other),
        };
        let has_address = (0x10..=0x13).contains(&(record[0] as u8));
        DmaFault {
            stream: (record[0] >> 32) as u32,
            address: if has_address { record[2] } else { 0 },
            is_write: has_address && record[1] >> 35 & 1 == 0,
            why,
        }
    }
}

/// The faults of all devices, in order.
#[derive(Debug)]
pub struct DmaFaults {
    region: Region,
    /// Number of the next to be read.
    read: u32,
    /// Number of the next to come, as far as we know.
    next: u32,
    lost: bool,
}

impl DmaFaults {
    /// The faults in the page `region` that were not read.
    ///
    /// # Errors
    /// [`DmaError`]: the region is not the one with `dma = "smmu"`.
    pub fn new(region: &Region) -> Result<DmaFaults, DmaError> {
        let [next, read] = numbers(region, None)?;
        Ok(DmaFaults { region: *region, read, next, lost: false })
    }

    /// The next fault; none if there was no other.
    ///
    /// # Errors
    /// [`DmaError`]: the handle was taken away.
    #[expect(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<DmaFault>, DmaError> {
        if self.read == self.next % NUMBERS {
            let [next, _] = numbers(&self.region, Some(self.read))?;
            self.lost |= (self.next ^ next) & LOST != 0;
            self.next = next;
        }
        if self.read == self.next % NUMBERS {
            return Ok(None);
        }
        let record = record(&self.region.shared(), self.read);
        self.read = (self.read + 1) % NUMBERS;
        Ok(Some(DmaFault::decode(record)))
    }

    /// Whether there were more than could be kept since this was asked last.
    pub fn have_been_lost(&mut self) -> bool {
        core::mem::take(&mut self.lost)
    }
}

/// The number of the next fault to come, and of the first that was not read.
fn numbers(region: &Region, read: Option<u32>) -> Result<[u32; 2], DmaError> {
    let reply = plain(Call::Dma as u64, region.handle(), read.map_or(u64::MAX, u64::from));
    DmaError::check(reply.code)?;
    Ok([reply.value as u32, (reply.value >> 32) as u32 % NUMBERS])
}

fn record(page: &SharedBytes, number: u32) -> [u64; 4] {
    let mut bytes = [0; RECORD];
    page.copy_to_slice((number % RECORDS) as usize * RECORD, &mut bytes);
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.try_into().map_or(0, u64::from_le_bytes);
    }
    words
}

impl Region {
    /// Lets the device of these registers reach the memory that the manifest gives it, from here on. Its driver is this task. Earlier commands of the
    /// device should be over: it may go on.
    ///
    /// # Errors
    /// [`DmaError::Unsupported`]: nothing translates the addresses of this device, which reaches all memory; or another task is its driver.
    pub fn let_device_reach_memory(&self) -> Result<(), DmaError> {
        DmaError::check(plain(Call::Dma as u64, self.handle(), 1).code)
    }

    /// Keeps the device from all memory again; an access that it has begun does not go on when this returns.
    ///
    /// # Errors
    /// As of [`Region::let_device_reach_memory`].
    pub fn keep_device_from_memory(&self) -> Result<(), DmaError> {
        DmaError::check(plain(Call::Dma as u64, self.handle(), 0).code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_say_who_wanted_what() {
        // Words as QEMU 7.2 writes them: F_TRANSLATION of stream 8, a read, then a write, at 0x4300_0000.
        let read = DmaFault::decode([8 << 32 | 0x10, 1 << 35, 0x4300_0000, 0]);
        assert_eq!(read, DmaFault { stream: 8, address: 0x4300_0000, is_write: false, why: Why::NotMapped });
        assert!(DmaFault::decode([8 << 32 | 0x10, 0, 0x4300_0000, 0]).is_write);
        let unknown = DmaFault::decode([9 << 32 | 0x02, 0, 7, 0]);
        assert_eq!(unknown, DmaFault { stream: 9, address: 0, is_write: false, why: Why::UnknownDevice });
        assert_eq!(DmaFault::decode([0x13, 0, 0, 0]).why, Why::Forbidden);
        assert_eq!(DmaFault::decode([0x0b, 0, 0, 0]).why, Why::Other(0x0b));
    }
}
