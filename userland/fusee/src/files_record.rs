//! Records of a log: the form that each has in the file.
//!
//! A record stands in a *frame* of whole sectors, with zeros behind it:
//!
//! | Bytes | Contents |
//! |---|---|
//! | 0 | "FREC" |
//! | 4 | bytes of the record |
//! | 8 | its number: the first one is 1 |
//! | 16 | CRC-32 of the 16 bytes before and of the record |
//! | 20 | the record |
//!
//! Numbers are little-endian. The log ends before the first frame that is not whole, or has another number than the next one. A sector with a record is
//! never written again, so a write that a loss of power tears spoils no earlier record.

use core::ops::Range;

use super::PIECE;

/// Bytes of a sector: frames begin at multiples of it.
const SECTOR: usize = 512;
const MAGIC: [u8; 4] = *b"FREC";
/// Bytes before a record.
pub const HEADER: usize = 20;
/// Bytes of a record, at most.
pub const RECORD: usize = PIECE - HEADER;

/// A reason for which there is no record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FrameError {
    /// The bytes are no frame with this number: the log ends here.
    End,
    /// The frame needs so many bytes.
    Short(usize),
}

/// Bytes of the frame of a record with `length` bytes.
#[must_use]
pub const fn frame_bytes(length: usize) -> usize {
    (HEADER + length).next_multiple_of(SECTOR)
}

/// Puts a record into a frame, and returns the bytes of the frame. None if the record is longer than [`RECORD`].
#[must_use]
pub fn frame(number: u64, record: &[u8], into: &mut [u8; PIECE]) -> Option<usize> {
    if record.len() > RECORD {
        return None;
    }
    let bytes = frame_bytes(record.len());
    into[..bytes].fill(0);
    into[..4].copy_from_slice(&MAGIC);
    into[4..8].copy_from_slice(&(record.len() as u32).to_le_bytes());
    into[8..16].copy_from_slice(&number.to_le_bytes());
    into[HEADER..HEADER + record.len()].copy_from_slice(record);
    let sum = sum(&into[..16], record);
    into[16..HEADER].copy_from_slice(&sum.to_le_bytes());
    Some(bytes)
}

/// The place of the record with this number in a frame at the beginning of `bytes`.
///
/// # Errors
/// [`FrameError`] has the reason.
pub fn parse(bytes: &[u8], number: u64) -> Result<Range<usize>, FrameError> {
    let header = bytes.get(..HEADER).ok_or(FrameError::Short(SECTOR))?;
    let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|byte| header[at + byte]));
    let length = word(4) as usize;
    let is_next = u64::from(word(8)) | u64::from(word(12)) << 32 == number;
    if header[..4] != MAGIC || length > RECORD || !is_next {
        return Err(FrameError::End);
    }
    let record = bytes.get(HEADER..HEADER + length).ok_or(FrameError::Short(frame_bytes(length)))?;
    if sum(&header[..16], record) == word(16) { Ok(HEADER..HEADER + length) } else { Err(FrameError::End) }
}

fn sum(header: &[u8], record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(record);
    hasher.finalize()
}

/// The records in the bytes of a whole log, in their order.
#[derive(Clone, Debug)]
pub struct Records<'log> {
    log: &'log [u8],
    number: u64,
}

impl<'log> Records<'log> {
    /// The records in `log`.
    #[must_use]
    pub fn new(log: &'log [u8]) -> Records<'log> {
        Records { log, number: 1 }
    }
}

impl<'log> Iterator for Records<'log> {
    type Item = &'log [u8];

    fn next(&mut self) -> Option<&'log [u8]> {
        let place = parse(self.log, self.number).ok()?;
        let record = &self.log[place];
        self.log = self.log.get(frame_bytes(record.len())..).unwrap_or_default();
        self.number += 1;
        Some(record)
    }
}
