//! The binary trace: one ring per CPU in memory, read by the host from the emulator's memory file.
//!
//! The host finds the rings by the symbol `FUSEE_TRACE` of the ELF file: `CPUS` rings, one after the other,
//! each a header (`fusee_abi::trace::RingHeader`) and [`CAPACITY`] records. A full ring keeps the newest.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering};

use fusee_abi::trace::{RING_MAGIC, Record, RingHeader};
use fusee_kernel_core::limits::CPUS;

/// Records a ring holds.
pub const CAPACITY: usize = 65536;

#[repr(C)]
struct Ring {
    header: MaybeUninit<RingHeader>,
    records: [MaybeUninit<Record>; CAPACITY],
}

#[repr(transparent)]
struct Rings(UnsafeCell<[Ring; CPUS]>);

// SAFETY: the rings are written by `start`, when the boot CPU is alone, and by `write`, under the kernel's
// lock.
unsafe impl Sync for Rings {}

/// Not zeroed at boot: it is large, and headers say what is valid.
#[unsafe(export_name = "FUSEE_TRACE")]
#[unsafe(link_section = ".noinit")]
static RINGS: Rings = Rings(UnsafeCell::new(
    [const { Ring { header: MaybeUninit::uninit(), records: [const { MaybeUninit::uninit() }; CAPACITY] } }; CPUS],
));

/// Records that were written, by all CPUs.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

fn ring(cpu: usize) -> *mut Ring {
    RINGS.0.get().cast::<Ring>().wrapping_add(cpu % CPUS)
}

/// Makes all rings empty.
///
/// # Safety
/// The boot CPU is alone.
pub unsafe fn start() {
    for cpu in 0..CPUS {
        let header = RingHeader { magic: RING_MAGIC, written: 0, capacity: CAPACITY as u64 };
        // SAFETY: inside the static array; nobody else uses it: promised by our caller.
        unsafe { (*ring(cpu)).header = MaybeUninit::new(header) };
    }
}

/// Keeps one record in the ring of the CPU it names.
///
/// # Safety
/// The caller holds the kernel's lock, and [`start`] has run.
pub unsafe fn write(record: Record) {
    // Relaxed, and in two steps: under the lock there is one writer.
    let number = WRITTEN.load(Ordering::Relaxed) + 1;
    WRITTEN.store(number, Ordering::Relaxed);
    let record = Record { number, ..record };
    // SAFETY: inside the static array, and ours while we hold the lock (promised).
    let ring = unsafe { &mut *ring(usize::from(record.cpu)) };
    // SAFETY: `start` has initialised it (promised).
    let header = unsafe { ring.header.assume_init_mut() };
    let slot = header.written as usize % CAPACITY;
    header.written += 1;
    ring.records[slot] = MaybeUninit::new(record);
}
