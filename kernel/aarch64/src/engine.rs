//! The CPU that plays the accelerator: firmware, kicks, start.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;

use fusee_abi::image::{FLAG_ENGINE_CPU, System};
use fusee_bsp::psci::Conduit;
use fusee_bsp::{its, virt as board};
use fusee_kernel_core::id::EngineId;

use crate::smp;
use crate::translation::{direct, physical, synchronise_code};

/// Events a client may kick with: one per engine, with room.
const EVENTS: u32 = 8;
/// Bytes of one CPU's redistributor.
const REDISTRIBUTOR: u64 = 0x2_0000;

struct ItsMemory(UnsafeCell<MaybeUninit<its::Memory>>);
// SAFETY: touched once, by `start`.
unsafe impl Sync for ItsMemory {}

#[unsafe(link_section = ".noinit")]
static ITS_MEMORY: ItsMemory = ItsMemory(UnsafeCell::new(MaybeUninit::uninit()));

/// Why there is no engine CPU although the system wants one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EngineError {
    /// The firmware is not in the image, or would not lie in free memory.
    BadFirmware,
    /// The interrupt translation service does not answer.
    Translation,
    /// The board has no such CPU.
    Refused,
}

/// Copies the firmware, lets event numbers stored to the translation page interrupt the engine CPU, and
/// starts it: the next CPU after the kernel's.
///
/// # Errors
/// [`EngineError`].
///
/// # Safety
/// Called once, by the boot CPU alone. `free` holds nothing of value.
pub unsafe fn start(system: &System<'_>, conduit: Conduit, free: &core::ops::Range<u64>) -> Result<(), EngineError> {
    let header = system.header();
    if !EngineId::EXISTS || header.flags & FLAG_ENGINE_CPU == 0 {
        return Ok(());
    }
    let firmware = firmware(system).ok_or(EngineError::BadFirmware)?;
    let end = header.firmware_load.checked_add(firmware.len() as u64).ok_or(EngineError::BadFirmware)?;
    if header.firmware_load < free.start || end > free.end {
        return Err(EngineError::BadFirmware);
    }
    // SAFETY: in `free`, which the kernel maps and nobody uses: promised by our caller.
    let load = unsafe { slice::from_raw_parts_mut(direct::<u8>(header.firmware_load), firmware.len()) };
    load.copy_from_slice(firmware);
    synchronise_code(header.firmware_load, firmware.len() as u64);

    let cpu = smp::on_board(header.cpus as usize);
    let redistributor = board::GIC_REDISTRIBUTORS + cpu as u64 * REDISTRIBUTOR;
    // SAFETY: called once: the only reference.
    let memory = unsafe { &mut *ITS_MEMORY.0.get() };
    // SAFETY: any bytes are valid in it: it is made of integers.
    let memory = unsafe { memory.assume_init_mut() };
    let place = physical(&raw const *memory);
    let its = NonNull::new(direct(board::ITS)).ok_or(EngineError::Translation)?;
    let redistributor = NonNull::new(direct(redistributor)).ok_or(EngineError::Translation)?;
    // SAFETY: the board has both there, mapped as `board::DEVICES`, and nobody has set them up. `place` is
    // where `memory` is.
    unsafe { its::route_events(its, redistributor, cpu, EVENTS, memory, place) }
        .map_err(|_| EngineError::Translation)?;

    // SAFETY: the manifest's tool says that the firmware starts there and takes that argument.
    unsafe { conduit.start_cpu(board::affinity(cpu), header.firmware_entry, header.firmware_argument) }
        .map_err(|_| EngineError::Refused)
}

fn firmware<'a>(system: &System<'a>) -> Option<&'a [u8]> {
    let start = usize::try_from(system.header().firmware_offset).ok()?;
    let length = usize::try_from(system.header().firmware_bytes).ok()?;
    system.bytes().get(start..start.checked_add(length)?)
}
