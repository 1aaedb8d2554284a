//! Devices behind an SMMU: each reaches the memory that the manifest gives it, while its driver lives and lets it.
//!
//! Their tables are made at boot, by the code that makes those of tasks, and never change. A stream is opened and shut by one store and two commands, so in constant
//! time: by its driver, which resets its device first, and by the driver's end. What they are refused, the DMA faults, the SMMU writes to a page of a task that reads it; the kernel only says how
//! far that has come.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use fusee_abi::image::System;
use fusee_bsp::board;
use fusee_bsp::smmuv3::{Memory, Smmu, SmmuError, Stream};
use fusee_kernel_core::id::{RegionId, ThreadId};
use fusee_kernel_core::limits::{STREAMS, STREAMS_MAX};

use crate::spaces::SpaceError;
use crate::translation::{MEMORY_TYPES, Pool, Space, direct, physical};

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
    /// what lies before record `value` has been read.
    pub fn set(&mut self, thread: ThreadId, region: RegionId, value: u64) -> Option<u64> {
        let smmu = self.smmu.as_mut()?;
        if self.faults == Some(region) {
            let (next, read) = smmu.faults(u32::try_from(value).ok());
            return Some(u64::from(read) << 32 | u64::from(next));
        }
        let is_it = |device: &&Device| device.registers == region && device.driver == thread;
        let stream = self.devices.iter().flatten().find(is_it)?.stream;
        if value <= 1 {
            obeyed(smmu.set(stream, value == 1));
        }
        Some(0)
    }

    /// The driver `thread` has ended: its devices reach nothing.
    pub fn shut(&mut self, thread: ThreadId) {
        let Some(smmu) = self.smmu.as_mut() else { return };
        for device in self.devices.iter().flatten().filter(|device| device.driver == thread) {
            obeyed(smmu.set(device.stream, false));
        }
    }
}

/// A device that cannot be kept from memory may write to the kernel.
fn obeyed(done: Result<(), SmmuError>) {
    if done.is_err() {
        panic!("the SMMU does not do as it is told");
    }
}

/// Switches the SMMU on. `spaces` are those of the streams, by their numbers in the image, of which each is shut.
///
/// # Errors
/// [`SpaceError::NoSmmu`]; [`SpaceError::BadStream`].
///
/// # Safety
/// Called once, by the boot CPU alone. `faults` of the image is memory of tasks.
pub unsafe fn start(
    system: &System<'_>,
    pool: &mut Pool,
    spaces: &[Option<Space>; STREAMS_MAX],
    streams: &mut Streams,
) -> Result<(), SpaceError> {
    let faults = Some(system.header().dma_faults).filter(|page| *page != 0);
    if !STREAMS || system.streams().is_empty() && faults.is_none() {
        return Ok(());
    }
    let base = board::SMMU.and_then(|at| NonNull::new(direct::<u8>(at))).ok_or(SpaceError::NoSmmu)?;
    let nothing = pool.page().map_err(|_| SpaceError::OutOfTables)?;
    let at = physical(MEMORY.0.get());
    // SAFETY: the only reference to it: called once.
    let memory = unsafe { &mut *MEMORY.0.get() };
    // SAFETY: the board's file says what is at `base`, and the kernel maps its devices; `at` and `nothing` are what they are called. Faults go to memory of
    // tasks: promised by our caller.
    let smmu = unsafe { Smmu::start(base, memory, at, nothing, MEMORY_TYPES, faults) };
    let mut smmu = smmu.map_err(|_| SpaceError::NoSmmu)?;
    for (index, stream) in system.streams().iter().enumerate() {
        let bad = || SpaceError::BadStream(index);
        let place = streams.devices.get_mut(index).ok_or_else(bad)?;
        let space = spaces.get(index).copied().flatten().ok_or_else(bad)?;
        let driver = ThreadId::new(stream.task as usize).filter(|_| (stream.task as usize) < system.tasks().len());
        let registers = RegionId::new(stream.region as usize);
        *place = Some(Device {
            stream: smmu.add(stream.number, space.base(), MEMORY_TYPES).map_err(|_| bad())?,
            driver: driver.ok_or_else(bad)?,
            registers: registers.ok_or_else(bad)?,
        });
    }
    let is_it = |region: &fusee_abi::image::Region| Some(region.physical) == faults;
    streams.faults = system.regions().iter().position(is_it).and_then(RegionId::new);
    streams.smmu = Some(smmu);
    Ok(())
}
