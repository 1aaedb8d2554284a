//! A trace that has left the board over a serial line, in the frames of `fusee-frames`.

use std::collections::BTreeMap;
use std::fmt;

use fusee_abi::trace::Record;
use fusee_frames::{FrameError, Header, decode};
use fusee_manifest::trace::Trace;

/// The parts of the input of a line.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Stream {
    /// The records of each CPU, by their numbers among those that it has written.
    records: Vec<BTreeMap<u64, Record>>,
    /// Records that each CPU had written when it was last said.
    written: Vec<u64>,
    /// Records that came.
    came: u64,
    /// Of each CPU, the number that its newest record has among those that it has written, plus one, and that among those of all.
    ends: Vec<(u64, u64)>,
    /// Frames that were read.
    pub frames: usize,
    /// Frames that were spoilt, and how the last of them was. Bytes before the first good frame, and an end that is cut, do not count.
    pub spoilt: usize,
    /// How the last of them was.
    pub why: Option<FrameError>,
    /// Bytes after the last complete frame.
    rest: Vec<u8>,
}

/// Why bytes are not a stream: there is no frame in them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoStream {
    /// How the last thing that was no frame was.
    pub why: Option<FrameError>,
}

impl fmt::Display for NoStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Some(why @ FrameError::Version(_)) => write!(f, "it is the trace of another Fusee: {why}"),
            Some(why) => write!(f, "there is no frame of a trace in it: {why}"),
            None => f.write_str("there is no frame of a trace in it"),
        }
    }
}

impl std::error::Error for NoStream {}

impl Stream {
    /// Reads all bytes that have come.
    ///
    /// # Errors
    /// [`NoStream`] if there is no frame in it.
    pub fn read(bytes: &[u8]) -> Result<Stream, NoStream> {
        let mut stream = Stream::default();
        stream.add(bytes);
        if stream.frames == 0 { Err(NoStream { why: stream.why }) } else { Ok(stream) }
    }

    /// Takes the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == 0) {
            self.rest.extend_from_slice(part);
            if self.rest.last() == Some(&0) {
                self.rest.pop();
                let mut frame = std::mem::take(&mut self.rest);
                if !frame.is_empty() {
                    self.frame(&mut frame);
                }
            }
        }
    }

    fn frame(&mut self, frame: &mut [u8]) {
        let mut records = Vec::new();
        match decode(frame, &mut |record| records.push(record)) {
            Ok(Header { cpu, first, cpus, written }) => {
                let count = self.written.len().max(cpus.into());
                self.written.resize(count, 0);
                self.ends.resize(count, (0, 0));
                self.records.resize_with(count, BTreeMap::new);
                for (known, said) in self.written.iter_mut().zip(&written[..cpus.into()]) {
                    *known = (*known).max(*said);
                }
                self.came += records.len() as u64;
                if let Some(last) = records.last() {
                    self.ends[usize::from(cpu)] = (first + records.len() as u64, last.number);
                }
                self.records[usize::from(cpu)].extend((first..).zip(records));
                self.frames += 1;
            }
            Err(why) => {
                // The first may have begun before we listened.
                self.spoilt += usize::from(self.frames > 0);
                self.why = Some(why);
            }
        }
    }

    /// Records that were written, as far as is known, and did not come: overwritten, spoilt or not yet sent.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.written.iter().sum::<u64>().saturating_sub(self.came)
    }

    /// Records that each CPU had written when it was last said.
    #[must_use]
    pub fn written(&self) -> &[u64] {
        &self.written
    }

    /// The records that came from each CPU, by their numbers among those that this CPU has written.
    #[must_use]
    pub fn records(&self) -> &[BTreeMap<u64, Record>] {
        &self.records
    }

    /// Takes the records since the last time, up to where nothing can come in between any more; of all CPUs in the order in which it was written. What is
    /// missing is left out.
    pub fn take(&mut self) -> Trace {
        let ends = self.ends.iter().zip(&self.written).map(|((count, number), written)| {
            // All that this CPU has written is here; its next records come after all that is here of others.
            if count >= written { u64::MAX } else { *number }
        });
        let end = ends.min().unwrap_or(0);
        let mut taken = Vec::new();
        for records in &mut self.records {
            let later = records.iter().find(|(_, record)| record.number > end).map(|(number, _)| *number);
            let later = later.map(|number| records.split_off(&number)).unwrap_or_default();
            taken.extend(std::mem::replace(records, later).into_values());
        }
        Trace::from_records(taken)
    }

    /// The trace, as far as it came.
    #[must_use]
    pub fn trace(&self) -> Trace {
        let records = self.records.iter().flat_map(BTreeMap::values).copied().collect();
        Trace { lost: self.missing(), ..Trace::from_records(records) }
    }
}

#[cfg(test)]
mod tests {
    use fusee_frames::{CPUS, FRAME_BYTES, encode};
    use proptest::prelude::*;

    use super::*;

    /// Two CPUs write `counts` records each; they are sent in frames of three, by turns.
    fn sent(counts: [u64; 2]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for first in (0..counts[0].max(counts[1])).step_by(3) {
            for (cpu, count) in counts.into_iter().enumerate().filter(|(_, count)| first < *count) {
                let record = |number| Record {
                    number: 2 * number + cpu as u64 + 1,
                    time: number,
                    cpu: cpu as u8,
                    ..Record::default()
                };
                let records: Vec<Record> = (first..count.min(first + 3)).map(record).collect();
                let mut written = [0; CPUS];
                written[..2].copy_from_slice(&counts);
                let mut out = [0; FRAME_BYTES];
                let header = Header { cpu: cpu as u8, first, cpus: 2, written };
                let length = encode(&header, &records, &mut out).unwrap();
                frames.push(out[..length].to_vec());
            }
        }
        frames
    }

    proptest! {
        #[test]
        fn what_comes_and_what_is_missing_is_what_was_written(
            counts in [1u64..40, 1u64..40],
            lost in prop::collection::vec(prop::bool::weighted(0.2), 27),
            pieces in 1usize..50,
        ) {
            let frames = sent(counts);
            let came: Vec<u8> = frames.iter().zip(&lost).filter(|(_, lost)| !**lost).flat_map(|(frame, _)| frame.clone()).collect();
            let mut stream = Stream::default();
            came.chunks(pieces).for_each(|piece| stream.add(piece));
            let trace = stream.trace();
            if stream.frames > 0 {
                prop_assert_eq!(trace.records.len() as u64 + trace.lost, counts[0] + counts[1]);
                prop_assert_eq!(stream.written(), &counts);
            }
            prop_assert!(trace.records.is_sorted_by_key(|record| record.number));
            prop_assert_eq!(stream.spoilt, 0);
            let mut again = Stream::default();
            let mut taken = Vec::new();
            for piece in came.chunks(pieces) {
                again.add(piece);
                taken.extend(again.take().records);
            }
            // In order, whenever it is taken; a part that a CPU may still add to is left.
            prop_assert!(taken.is_sorted_by_key(|record| record.number));
            prop_assert!(taken.iter().all(|record| trace.records.contains(record)));
            if lost.iter().all(|lost| !lost) {
                prop_assert_eq!(taken, trace.records);
            }
        }

        #[test]
        fn a_spoilt_frame_is_counted_and_the_next_is_read(at in 0usize..200, to in 1u8..) {
            let frames = sent([30, 30]);
            let mut bytes = frames.concat();
            let at = frames[0].len() + at % (bytes.len() - frames[0].len());
            bytes[at] = if bytes[at] == to { to.wrapping_add(1).max(1) } else { to };
            let stream = Stream::read(&bytes).unwrap();
            let trace = stream.trace();
            // One frame; two, if the mark between them is gone; the last, if it has no end any more.
            prop_assert!((0..=6).contains(&stream.missing()) && stream.missing() > 0);
            prop_assert_eq!(trace.records.len() as u64, 60 - trace.lost);
        }
    }

    #[test]
    fn bytes_without_a_frame_are_refused() {
        assert!(Stream::read(b"").unwrap_err().to_string().contains("no frame"));
        assert!(Stream::read(b"login: \0\0root\0").unwrap_err().to_string().contains("no frame"));
    }

    #[test]
    fn who_begins_to_listen_in_the_middle_reads_the_rest() {
        let bytes = sent([9, 0]).concat();
        let stream = Stream::read(&bytes[5..]).unwrap();
        assert_eq!((stream.frames, stream.spoilt, stream.missing()), (2, 0, 3));
    }
}
