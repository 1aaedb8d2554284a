//! The binary trace: one ring per CPU in memory, read by the host from the emulator's memory file.
//!
//! The host finds the rings by the symbol `FUSEE_TRACE` of the ELF file: `CPUS` rings, one after the other,
//! each a header (`fusee_abi::trace::RingHeader`) and [`RING_RECORDS`] records. A full ring keeps the newest. A kernel that keeps no trace has
//! no rings.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use fusee_abi::trace::{Event, Level, RING_BYTES, RING_MAGIC, RING_RECORDS, Record, RingHeader};
use fusee_kernel_core::CpuId;
use fusee_kernel_core::id::ThreadId;
use fusee_kernel_core::limits::CPUS;

use crate::clock;
use crate::translation::physical;

/// The level of this kernel's trace.
pub const LEVEL: Level = if cfg!(feature = "full") {
    Level::Full
} else if cfg!(feature = "schedule") {
    Level::Schedule
} else if cfg!(feature = "marks") {
    Level::Marks
} else {
    Level::Off
};

/// One for each CPU, if anything is kept.
const COUNT: usize = if matches!(LEVEL, Level::Off) { 0 } else { CPUS };

/// Whole pages: the manifest may let a task read them.
#[repr(C, align(4096))]
struct Ring {
    header: MaybeUninit<RingHeader>,
    records: [MaybeUninit<Record>; RING_RECORDS],
}

const _: () = assert!(size_of::<Ring>() == RING_BYTES);

#[repr(transparent)]
struct Rings(UnsafeCell<[Ring; COUNT]>);

// SAFETY: the rings are written by `start`, when the boot CPU is alone, and by `write`, under the kernel's
// lock.
unsafe impl Sync for Rings {}

/// Not zeroed at boot: it is large, and headers say which records are valid.
#[unsafe(export_name = "FUSEE_TRACE")]
#[unsafe(link_section = ".noinit")]
static RINGS: Rings = Rings(UnsafeCell::new(
    [const { Ring { header: MaybeUninit::uninit(), records: [const { MaybeUninit::uninit() }; RING_RECORDS] } }; COUNT],
));

/// Records that were written, by all CPUs.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// The ring of a CPU, if there are any.
fn ring(cpu: usize) -> Option<*mut Ring> {
    if matches!(LEVEL, Level::Off) {
        return None;
    }
    Some(RINGS.0.get().cast::<Ring>().wrapping_add(cpu % CPUS))
}

/// The physical addresses of all rings.
pub fn rings() -> Range<u64> {
    let start = physical(RINGS.0.get());
    start..start + (COUNT * RING_BYTES) as u64
}

/// Makes all rings empty.
///
/// # Safety
/// The boot CPU is alone.
pub unsafe fn start() {
    for ring in (0..CPUS).filter_map(ring) {
        let header = RingHeader { magic: RING_MAGIC, written: 0, capacity: RING_RECORDS as u64 };
        // SAFETY: inside the static array; it has no other user: promised by our caller.
        unsafe { (*ring).header = MaybeUninit::new(header) };
    }
}

/// Keeps one record in the ring of the CPU it names.
///
/// # Safety
/// The caller holds the kernel's lock, and [`start`] has run.
pub unsafe fn write(record: Record) {
    let Some(ring) = ring(usize::from(record.cpu)) else { return };
    // Relaxed, and in two steps: under the lock there is one writer.
    let number = WRITTEN.load(Ordering::Relaxed) + 1;
    WRITTEN.store(number, Ordering::Relaxed);
    let record = Record { number, ..record };
    // SAFETY: inside the static array, and ours while we hold the lock (promised).
    let ring = unsafe { &mut *ring };
    // SAFETY: `start` has initialised it (promised).
    let header = unsafe { ring.header.assume_init_mut() };
    let written = header.written;
    ring.records[written as usize % RING_RECORDS] = MaybeUninit::new(record);
    // SAFETY: aligned, and ours to write while we hold the lock (promised); all other readers read it atomically. Release: a task that
    // may read the rings sees the record, once it sees that there is one more.
    unsafe { AtomicU64::from_ptr(&raw mut header.written) }.store(written + 1, Ordering::Release);
}

/// Records that a CPU has written.
#[cfg(feature = "speaks")]
pub fn written(cpu: usize) -> u64 {
    let Some(ring) = ring(cpu) else { return 0 };
    // SAFETY: inside the static array. Nobody holds the kernel's lock any more but the caller, or the kernel has panicked.
    let ring = unsafe { &*ring };
    // SAFETY: `start` has initialised it, before anything that could ask.
    unsafe { ring.header.assume_init_ref() }.written
}

/// Records of a CPU that are kept, at most.
#[cfg(feature = "speaks")]
pub const CAPACITY: u64 = RING_RECORDS as u64;

/// The record of a CPU with this number among those that it has written; one of the newest [`CAPACITY`].
#[cfg(feature = "speaks")]
pub fn record(cpu: usize, number: u64) -> Record {
    let Some(ring) = ring(cpu) else { return Record::default() };
    // SAFETY: inside the static array. Nobody holds the kernel's lock any more but the caller, or the kernel has panicked.
    let ring = unsafe { &*ring };
    // SAFETY: `number` is below `written`; and any bits are a record.
    unsafe { ring.records[number as usize % RING_RECORDS].assume_init_read() }
}

//--- Traps

/// The known facts about the trap that a CPU handles, for levels that keep traps: for others this is nothing, and takes no time.
pub struct Timing {
    /// The cause of the trap: `job` of [`Event::Trap`].
    what: u32,
    /// When it came, nanoseconds.
    begun: u64,
    /// When it had the kernel's lock.
    locked: u64,
}

impl Timing {
    /// Before the first.
    pub const NONE: Timing = Timing { what: 0, begun: 0, locked: 0 };

    /// A trap comes. `what` is called only if it is kept.
    #[inline(always)]
    pub fn begin(&mut self, what: impl FnOnce() -> u32) {
        if LEVEL.keeps_traps() {
            self.what = what();
            self.begun = clock::now().0;
        }
    }

    /// The trap has the lock.
    #[inline(always)]
    pub fn lock(&mut self) {
        if LEVEL.keeps_traps() {
            self.locked = clock::now().0;
        }
    }

    /// The trap ends, but for this: `keep` is given its record. Under the lock.
    #[inline(always)]
    pub fn end(&self, cpu: CpuId, thread: Option<ThreadId>, keep: impl FnOnce(Record)) {
        if LEVEL.keeps_traps() {
            let time = clock::now().0;
            let span = |from: u64, to: u64| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
            keep(Record {
                time,
                number: 0,
                event: Event::Trap as u8,
                cpu: cpu.0,
                thread: thread.map_or(0, ThreadId::number),
                job: self.what,
                object: span(self.begun, self.locked),
                value: span(self.begun, time),
            });
        }
    }
}
