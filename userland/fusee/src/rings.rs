//! The kernel's trace, for a task that the manifest lets read it: a region with `trace = true`.
//!
//! The kernel goes on writing, and a full ring keeps the newest records. So each record is read, and then counts only if the kernel cannot
//! have begun to write over it meanwhile.

use core::mem::offset_of;
use core::sync::atomic::{Ordering, fence};

use fusee_abi::trace::{RING_BYTES, RING_MAGIC, Record, RingHeader};
use zerocopy::IntoBytes;

use crate::Region;
use crate::memory::SharedBytes;

/// Part of a ring that is not read any more, because the kernel may be about to write there: one of so many. The kernel says how many records
/// it has written after each, but its next writes may be seen before that, until its trap ends. No trap writes as many records as this part holds.
const MARGIN: u64 = 64;

/// The rings of all CPUs, and how far they are read.
#[derive(Debug)]
pub struct Rings {
    rings: [Ring; CPUS],
    cpus: usize,
}

/// CPUs a kernel has at most.
const CPUS: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Ring {
    bytes: SharedBytes,
    /// Records that were read or are lost.
    next: u64,
}

/// Why a region is not the kernel's trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoTrace;

/// The result of [`Rings::read`]: the numbers of the consecutive records of one CPU that it copied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Batch {
    /// Records that this CPU had written before the first of these.
    pub first: u64,
    /// How many there are.
    pub count: usize,
}

impl Rings {
    /// The rings in `region`, from their oldest records on.
    ///
    /// # Errors
    /// [`NoTrace`] if the region is something else: the manifest says `trace = true` of the right one.
    pub fn new(region: &Region) -> Result<Rings, NoTrace> {
        Rings::of(region.shared(), RING_BYTES)
    }

    /// The rings in `shared`, each of `stride` bytes.
    fn of(shared: SharedBytes, stride: usize) -> Result<Rings, NoTrace> {
        let cpus = shared.len() / stride;
        let mut rings = [Ring { bytes: SharedBytes::EMPTY, next: 0 }; CPUS];
        if cpus == 0 || cpus > CPUS {
            return Err(NoTrace);
        }
        for (cpu, ring) in rings[..cpus].iter_mut().enumerate() {
            ring.bytes = shared.part(cpu * stride, stride);
            ring.is_one().then_some(()).ok_or(NoTrace)?;
        }
        Ok(Rings { rings, cpus })
    }

    /// How many CPUs there are.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// How many records a CPU has written so far.
    ///
    /// # Panics
    /// There is no such CPU.
    #[must_use]
    pub fn written(&self, cpu: usize) -> u64 {
        self.rings[..self.cpus][cpu].written()
    }

    /// The CPU with the most records that are not read, if there is one: records that are read from there first are overwritten the least.
    #[must_use]
    pub fn fullest(&self) -> Option<usize> {
        let unread = |cpu: &usize| self.rings[*cpu].written() - self.rings[*cpu].next;
        (0..self.cpus).max_by_key(unread).filter(|cpu| unread(cpu) > 0)
    }

    /// Reads the oldest unread records of a CPU into `records`, as many as fit or as there are. Records that were overwritten unread are lost:
    /// then [`Batch::first`] is more than `first + count` of this CPU's batch before.
    ///
    /// # Panics
    /// There is no such CPU.
    pub fn read(&mut self, cpu: usize, records: &mut [Record]) -> Batch {
        self.rings[..self.cpus][cpu].read(records)
    }
}

impl Ring {
    fn is_one(&self) -> bool {
        let capacity = self.capacity();
        self.bytes.read_u64(offset_of!(RingHeader, magic)) == RING_MAGIC
            && capacity >= MARGIN
            && capacity <= ((self.bytes.len() - size_of::<RingHeader>()) / size_of::<Record>()) as u64
    }

    fn capacity(&self) -> u64 {
        self.bytes.read_u64(offset_of!(RingHeader, capacity))
    }

    /// Later reads are at least as new.
    fn written(&self) -> u64 {
        let written = self.bytes.read_u64(offset_of!(RingHeader, written));
        fence(Ordering::Acquire);
        written
    }

    /// The oldest record that the kernel does not write over.
    fn oldest(&self) -> u64 {
        let capacity = self.capacity();
        (self.written() + capacity / MARGIN).saturating_sub(capacity)
    }

    fn read(&mut self, records: &mut [Record]) -> Batch {
        let capacity = self.capacity();
        let first = self.next.max(self.oldest());
        let count = (self.written() - first).min(records.len() as u64) as usize;
        for (number, record) in (first..).zip(&mut records[..count]) {
            let at = size_of::<RingHeader>() + (number % capacity) as usize * size_of::<Record>();
            self.bytes.copy_to_slice(at, record.as_mut_bytes());
        }
        // The count is read after the records.
        fence(Ordering::Acquire);
        let overwritten = self.oldest().saturating_sub(first).min(count as u64) as usize;
        records.copy_within(overwritten..count, 0);
        self.next = first + count as u64;
        Batch { first: first + overwritten as u64, count: count - overwritten }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    /// Records of a small ring: the margin is one.
    const CAPACITY: u64 = MARGIN;
    const BYTES: usize = size_of::<RingHeader>() + CAPACITY as usize * size_of::<Record>();

    fn write(memory: SharedBytes, from: u64, count: u64) -> u64 {
        for number in from..from + count {
            let record = Record { number, time: number * 10, ..Record::default() };
            let at = size_of::<RingHeader>() + (number % CAPACITY) as usize * size_of::<Record>();
            memory.copy_from_slice(at, record.as_bytes());
            fence(Ordering::Release);
            memory.write_u64(offset_of!(RingHeader, written), number + 1);
            // Each record is written in a trap of its own.
            fence(Ordering::SeqCst);
        }
        from + count
    }

    fn empty(cpus: usize) -> SharedBytes {
        let memory = SharedBytes::leaked(cpus * BYTES);
        for cpu in 0..cpus {
            let header = RingHeader { magic: RING_MAGIC, written: 0, capacity: CAPACITY };
            memory.copy_from_slice(cpu * BYTES, header.as_bytes());
        }
        memory
    }

    proptest! {
        #[test]
        fn each_record_is_read_once_in_order_unless_it_is_overwritten(
            steps in prop::collection::vec((0u64..100, 0usize..40), 1..40),
        ) {
            let memory = empty(2);
            let mut rings = Rings::of(memory, BYTES).unwrap();
            let mut written = 0;
            let mut next = 0;
            for (count, room) in steps {
                written = write(memory.part(BYTES, BYTES), written, count);
                prop_assert_eq!(rings.fullest(), (written > next).then_some(1));
                let mut records = [Record::default(); 40];
                let batch = rings.read(1, &mut records[..room]);
                prop_assert_eq!(batch.first, next.max((written + 1).saturating_sub(CAPACITY)));
                prop_assert_eq!(batch.count as u64, (written - batch.first).min(room as u64));
                for (record, number) in records[..batch.count].iter().zip(batch.first..) {
                    prop_assert_eq!((record.number, record.time), (number, number * 10));
                }
                next = batch.first + batch.count as u64;
            }
            prop_assert_eq!(rings.read(0, &mut [Record::default(); 4]), Batch { first: 0, count: 0 });
        }
    }

    /// A writer that laps the reader while it copies: records that count are whole.
    #[test]
    fn what_is_overwritten_while_it_is_read_does_not_count() {
        let memory = empty(1);
        let mut rings = Rings::of(memory, BYTES).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(memory, 0, 200_000));
            let mut seen: Vec<u64> = Vec::new();
            loop {
                let is_over = writer.is_finished();
                let mut records = [Record::default(); 24];
                let batch = rings.read(0, &mut records);
                for (record, number) in records[..batch.count].iter().zip(batch.first..) {
                    assert_eq!((record.number, record.time), (number, number * 10));
                    seen.push(number);
                }
                if is_over && batch.count == 0 {
                    break;
                }
            }
            assert!(seen.is_sorted() && seen.last() == Some(&199_999));
        });
    }

    #[test]
    fn other_memory_is_no_trace() {
        assert_eq!(Rings::of(SharedBytes::leaked(BYTES), BYTES).unwrap_err(), NoTrace);
        assert_eq!(Rings::of(SharedBytes::leaked(8), BYTES).unwrap_err(), NoTrace);
        let memory = empty(1);
        memory.write_u64(offset_of!(RingHeader, capacity), CAPACITY + 1);
        assert_eq!(Rings::of(memory, BYTES).unwrap_err(), NoTrace);
    }
}
