//! The format of the trace's records on a serial line: the task `stream` writes it, and `cargo xtask trace --stream` reads it.
//!
//! A frame holds records of one CPU, one after the other. It is a [`Header`], the records, and a CRC-32 (ISO-HDLC, little endian) of both, in COBS,
//! and ends with a zero byte: a reader that comes late, or missed a byte, goes on with the next frame. All numbers are variable in length
//! (`postcard`); of a record's time and number only the difference to the record before it is sent, and to zero in each frame's first. So a record takes
//! some twelve bytes of its 32.
//!
//! Each frame has the number of its first record among those of its CPU, and the number of records that each CPU has written. So missing records are
//! known one by one, whether they were overwritten before they were sent, spoilt on their way, or not sent when the line was closed.
#![no_std]
#![forbid(unsafe_code)]

use crc::{CRC_32_ISO_HDLC, Crc, Table};
use fusee_abi::trace::Record;
use serde::{Deserialize, Serialize};

/// The first byte of frames of this version.
pub const VERSION: u8 = 1;
/// Records of a frame, at most.
pub const RECORDS: usize = 24;
/// CPUs, at most.
pub const CPUS: usize = 8;
/// Bytes of the largest frame, its end included.
pub const FRAME_BYTES: usize = cobs::max_encoding_length(BODY_BYTES) + 1;

/// Version, CPU, two counts of one byte, the number of the first record, how many each CPU has written, and the checksum.
const HEADER_BYTES: usize = 4 + NUMBER_BYTES * (1 + CPUS) + CRC_BYTES;
const CRC_BYTES: usize = 4;
/// Bytes of numbers of 64, 32 and 16 bits, seven bits in each byte.
const NUMBER_BYTES: usize = 10;
const WORD_BYTES: usize = 5;
const HALF_BYTES: usize = 3;
const RECORD_BYTES: usize = 2 * NUMBER_BYTES + 1 + HALF_BYTES + 3 * WORD_BYTES;
const BODY_BYTES: usize = HEADER_BYTES + RECORDS * RECORD_BYTES;

/// A table of sixteen entries: small, on the side of the sender.
static CRC: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISO_HDLC);

/// The description of the records of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// The CPU that has written them.
    pub cpu: u8,
    /// Records that this CPU had written before the first of these.
    pub first: u64,
    /// CPUs of the system.
    pub cpus: u8,
    /// Records that each of them has written so far.
    pub written: [u64; CPUS],
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FrameError {
    /// No COBS, or its end is missing.
    Cut,
    /// The checksum is that of other bytes.
    Spoilt,
    /// A frame of another version, which is named.
    Version(u8),
    /// The header makes no sense.
    Senseless,
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Cut => f.write_str("a frame is cut"),
            Self::Spoilt => f.write_str("the checksum of a frame is wrong"),
            Self::Version(version) => write!(f, "a frame of version {version}; this is version {VERSION}"),
            Self::Senseless => f.write_str("a frame makes no sense, though its checksum is right"),
        }
    }
}

impl core::error::Error for FrameError {}

/// One record, as the difference to the one before.
#[derive(Default, Deserialize, Serialize)]
struct Step {
    /// The difference of times. A record's time is read before its number is given: it may go back.
    time: i64,
    number: u64,
    event: u8,
    thread: u16,
    job: u32,
    object: u32,
    value: u32,
}

/// Encodes a frame into `out`, its end included; how long it is. `None`: there are more than [`RECORDS`] records, or `out` is too short: no frame is
/// longer than [`FRAME_BYTES`].
#[must_use]
pub fn encode(header: &Header, records: &[Record], out: &mut [u8]) -> Option<usize> {
    if records.len() > RECORDS || header.cpus == 0 || usize::from(header.cpus) > CPUS {
        return None;
    }
    let mut body = [0; BODY_BYTES];
    let mut filled = 0;
    put(&mut body, &mut filled, &(VERSION, header.cpu, records.len() as u8, header.cpus, header.first))?;
    for written in &header.written[..usize::from(header.cpus)] {
        put(&mut body, &mut filled, written)?;
    }
    let mut last = Record::default();
    for record in records {
        let Record { time, number, event, cpu: _, thread, job, object, value } = *record;
        let step = Step {
            time: time.wrapping_sub(last.time).cast_signed(),
            number: number.wrapping_sub(last.number),
            event,
            thread,
            job,
            object,
            value,
        };
        put(&mut body, &mut filled, &step)?;
        last = *record;
    }
    let sum = CRC.checksum(&body[..filled]);
    body[filled..].get_mut(..CRC_BYTES)?.copy_from_slice(&sum.to_le_bytes());
    filled += CRC_BYTES;
    if out.len() <= cobs::max_encoding_length(filled) {
        return None;
    }
    let length = cobs::encode(&body[..filled], out);
    out[length] = 0;
    Some(length + 1)
}

fn put<T: Serialize>(body: &mut [u8], filled: &mut usize, value: &T) -> Option<()> {
    *filled += postcard::to_slice(value, &mut body[*filled..]).ok()?.len();
    Some(())
}

/// Decodes a frame, without the zero at its end, which destroys its content. Each record is given to `keep`, if all of the frame is good.
///
/// # Errors
/// [`FrameError`], and no record was given to `keep`.
pub fn decode(frame: &mut [u8], keep: &mut dyn FnMut(Record)) -> Result<Header, FrameError> {
    let length = cobs::decode_in_place(frame).map_err(|_| FrameError::Cut)?;
    let body = length.checked_sub(CRC_BYTES).ok_or(FrameError::Cut)?;
    let (body, sum) = frame[..length].split_at(body);
    if sum != CRC.checksum(body).to_le_bytes() {
        return Err(FrameError::Spoilt);
    }
    let version = *body.first().ok_or(FrameError::Cut)?;
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    read(body, keep).ok_or(FrameError::Senseless)
}

fn read(body: &[u8], keep: &mut dyn FnMut(Record)) -> Option<Header> {
    let rest = &mut &body[..];
    let (_, cpu, count, cpus, first): (u8, u8, u8, u8, u64) = take(rest)?;
    let mut header = Header { cpu, first, cpus, written: [0; CPUS] };
    for written in header.written.get_mut(..usize::from(cpus))? {
        *written = take(rest)?;
    }
    let mut records = [Record::default(); RECORDS];
    let mut last = Record::default();
    for record in records.get_mut(..usize::from(count))? {
        let Step { time, number, event, thread, job, object, value } = take(rest)?;
        last = Record {
            time: last.time.wrapping_add_signed(time),
            number: last.number.wrapping_add(number),
            event,
            cpu,
            thread,
            job,
            object,
            value,
        };
        *record = last;
    }
    if cpu >= cpus || !rest.is_empty() {
        return None;
    }
    records[..usize::from(count)].iter().copied().for_each(keep);
    Some(header)
}

fn take<'a, T: Deserialize<'a>>(rest: &mut &'a [u8]) -> Option<T> {
    let (value, after) = postcard::take_from_bytes(rest).ok()?;
    *rest = after;
    Some(value)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    fn record() -> impl Strategy<Value = Record> {
        (any::<u64>(), any::<u64>(), any::<(u8, u16, u32, u32, u32)>()).prop_map(|(time, number, rest)| {
            let (event, thread, job, object, value) = rest;
            Record { time, number, event, cpu: 2, thread, job, object, value }
        })
    }

    fn decoded(frame: &[u8]) -> (Result<Header, FrameError>, Vec<Record>) {
        let mut records = Vec::new();
        let header = decode(&mut frame.to_vec(), &mut |record| records.push(record));
        (header, records)
    }

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written_and_a_spoilt_one_gives_no_record(
            records in vec(record(), 0..=RECORDS),
            first in any::<u64>(),
            written in any::<[u64; CPUS]>(),
            spoil in (any::<prop::sample::Index>(), 1u8..),
        ) {
            let header = Header { cpu: 2, first, cpus: CPUS as u8, written };
            let mut out = [0; FRAME_BYTES];
            let length = encode(&header, &records, &mut out).unwrap();
            let frame = &mut out[..length];
            prop_assert_eq!(frame.iter().position(|byte| *byte == 0), Some(length - 1));
            prop_assert_eq!(decoded(&frame[..length - 1]), (Ok(header), records));
            frame[spoil.0.index(length - 1)] ^= spoil.1;
            let (header, records) = decoded(&frame[..length - 1]);
            prop_assert!(header.is_err() && records.is_empty());
        }

        #[test]
        fn whatever_comes_is_no_frame(bytes in vec(any::<u8>(), 0..300)) {
            let (header, records) = decoded(&bytes);
            prop_assert!(header.is_err() && records.is_empty());
        }
    }

    #[test]
    fn what_is_too_much_makes_no_frame() {
        let header = Header { cpu: 0, first: 0, cpus: 1, written: [0; CPUS] };
        let records = [Record::default(); RECORDS + 1];
        assert_eq!(encode(&header, &records, &mut [0; FRAME_BYTES]), None);
        assert_eq!(encode(&header, &records[..3], &mut [0; 20]), None);
        assert!(encode(&header, &records[..RECORDS], &mut [0; FRAME_BYTES]).is_some());
        assert_eq!(encode(&Header { cpus: 9, ..header }, &[], &mut [0; FRAME_BYTES]), None);
    }

    #[test]
    fn another_version_is_named() {
        let mut body = [7u8, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let sum = CRC.checksum(&body[..6]);
        body[6..].copy_from_slice(&sum.to_le_bytes());
        let mut frame = [0; 32];
        let length = cobs::encode(&body, &mut frame);
        assert_eq!(decoded(&frame[..length]).0, Err(FrameError::Version(7)));
    }
}
