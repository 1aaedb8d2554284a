//! Devices behind an SMMU: each reaches the memory that the manifest gives it, while its driver lives and lets it.
//!
//! Their tables are made at boot, by the code that makes those of tasks, and never change. A stream is opened and shut by one store and two commands, so in constant
//! time: by its driver, which resets its device first, and by the driver's end. The SMMU writes refused accesses, the DMA faults, to a page of a task
//! that reads it; the kernel only says how far that has come.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use fusee_abi::image::{Region, System};
use fusee_bsp::board;
use fusee_bsp::smmuv3::{Memory, STREAMS, Smmu, SmmuError, Stream};
use fusee_kernel_core::id::{RegionId, ThreadId};
use fusee_kernel_core::limits::{STREAM_NUMBERS, STREAMS_MAX};

use crate::panic::Plain;
use crate::translation::{MEMORY_TYPES, Space, direct, physical};

const _: () = assert!(STREAM_NUMBERS as usize == STREAMS, "manifests are checked against the SMMU's table");

#[repr(transparent)]
struct Own(UnsafeCell<Memory>);
// SAFETY: the only reference to it is made by `start`, once.
unsafe impl Sync for Own {}
static MEMORY: Own = Own(UnsafeCell::new(Memory::EMPTY));

/// A device.
#[derive(Clone, Copy)]
struct Device {
    stream: Stream,
    driver: ThreadId,
    registers: RegionId,
}

/// All devices behind the SMMU.
pub struct Streams {
    smmu: Option<Smmu>,
    devices: [Option<Device>; STREAMS_MAX],
    /// Where a task reads them.
    faults: Option<RegionId>,
}

impl Streams {
    /// None, and no SMMU.
    pub const EMPTY: Streams = Streams { smmu: None, devices: [None; STREAMS_MAX], faults: None };

    /// Whether the device with these registers is to reach its memory, if `thread` is its driver; or how many faults there are up to now, if `region` is where they stand, and
    /// the records before record `value` have been read.
    #[inline(never)]
    pub fn set(&mut self, thread: ThreadId, region: RegionId, value: u64) -> Option<u64> {
        let smmu = self.smmu.as_mut()?;
        if self.faults == Some(region) {
            let (next, read) = smmu.faults(u32::try_from(value).ok());
            return Some(u64::from(read) << 32 | u64::from(next));
        }
        let is_it = |device: &&Device| device.registers == region && device.driver == thread;
        let stream = self.devices.iter().flatten().find(is_it)?.stream;
        if value <= 1 {
            smmu.set(stream, value == 1).unwrap_or_else(|error| refuse(error));
        }
        Some(0)
    }

    /// Whether a device that `thread` drives reaches memory.
    #[cfg(feature = "check")]
    pub fn lets(&self, thread: ThreadId) -> bool {
        let is_open = |device: &Device| self.smmu.as_ref().is_some_and(|smmu| smmu.is_open(device.stream));
        self.devices.iter().flatten().any(|device| device.driver == thread && is_open(device))
    }

    /// The driver `thread` has ended: its devices reach nothing.
    #[inline(never)]
    pub fn shut(&mut self, thread: ThreadId) {
        let Some(smmu) = self.smmu.as_mut() else { return };
        for device in self.devices.iter().flatten().filter(|device| device.driver == thread) {
            smmu.set(device.stream, false).unwrap_or_else(|error| refuse(error));
        }
    }
}

/// A device that cannot be kept from memory may write to the kernel.
#[cold]
#[inline(never)]
fn refuse(error: SmmuError) -> ! {
    panic!(
        "{}",
        Plain(match error {
            SmmuError::Missing => "the board has no SMMU",
            SmmuError::Unfit => "the SMMU cannot translate what the devices behind it do",
            SmmuError::Silent => "the SMMU does not do as it is told",
            SmmuError::NoRoom => "the kernel cannot keep one of the devices behind the SMMU from memory",
        })
    )
}

/// Switches the SMMU on, if there are devices behind it. `spaces` are theirs, by their numbers in the image; each reaches nothing yet.
///
/// # Safety
/// Called once, by the boot CPU alone. `faults` of the image is memory of tasks.
#[inline(never)]
pub unsafe fn start(system: &System<'_>, nothing: u64, spaces: &[Option<Space>; STREAMS_MAX], streams: &mut Streams) {
    // SAFETY: promised by our caller.
    unsafe { begin(system, nothing, spaces, streams) }.unwrap_or_else(|error| refuse(error));
}

/// # Safety
/// As of [`start`].
unsafe fn begin(
    system: &System<'_>,
    nothing: u64,
    spaces: &[Option<Space>; STREAMS_MAX],
    streams: &mut Streams,
) -> Result<(), SmmuError> {
    let faults = Some(system.header().dma_faults).filter(|page| *page != 0);
    let base = board::SMMU.and_then(|at| NonNull::new(direct::<u8>(at))).ok_or(SmmuError::Missing)?;
    let at = physical(MEMORY.0.get());
    // SAFETY: the only reference to it: called once.
    let memory = unsafe { &mut *MEMORY.0.get() };
    // SAFETY: the board's file describes the device at `base`, and the kernel maps its devices; `at` and `nothing` are as named. Faults go to memory
    // of tasks: promised by our caller.
    let mut smmu = unsafe { Smmu::start(base, memory, at, nothing, MEMORY_TYPES, faults)? };
    for ((stream, space), place) in system.streams().iter().zip(spaces).zip(&mut streams.devices) {
        let tasks = system.tasks().len();
        let driver = ThreadId::new(stream.task as usize).filter(|driver| driver.index() < tasks);
        *place = Some(Device {
            stream: smmu.add(stream.number, space.ok_or(SmmuError::NoRoom)?.base(), MEMORY_TYPES)?,
            driver: driver.ok_or(SmmuError::NoRoom)?,
            registers: RegionId::new(stream.region as usize).ok_or(SmmuError::NoRoom)?,
        });
    }
    let is_it = |region: &Region| Some(region.physical) == faults;
    streams.faults = system.regions().iter().position(is_it).and_then(RegionId::new);
    streams.smmu = Some(smmu);
    Ok(())
}
