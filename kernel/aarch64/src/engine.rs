//! The CPU that plays the accelerator: firmware, kicks, start.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;

use fusee_abi::image::{FLAG_ENGINE_CPU, System};
use fusee_bsp::controller::Target;
#[cfg(not(start = "spin-table"))]
use fusee_bsp::start::Conduit;
use fusee_bsp::{board, its};
use fusee_kernel_core::id::{EngineId, NotificationId};

use crate::cell::BootCell;
use crate::translation::{self, direct, physical, synchronise};
use crate::{interrupts, smp};

/// Events a client may kick with: one per engine, with room.
const EVENTS: u32 = 8;
/// The event that means "look at the doorbells".
const LOOK: u32 = 0;
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

/// The CPU of engines, ready to be started.
pub struct EngineCpu {
    /// Its place in the board's list.
    pub cpu: usize,
    /// Its first instruction, a physical address.
    pub entry: u64,
    /// The argument of the CPU, if it is started with one.
    #[cfg_attr(start = "spin-table", expect(dead_code, reason = "who waits at a table is told nothing"))]
    argument: u64,
}

/// Copies the firmware, and lets kicks interrupt the CPU that will run it, the next one after the kernel's: event numbers stored to the translation
/// page, or signals to the notification that stands for it.
///
/// # Errors
/// [`EngineError`].
///
/// # Safety
/// Called once, by the boot CPU alone. `free` holds nothing of value.
pub unsafe fn prepare(system: &System<'_>, free: &core::ops::Range<u64>) -> Result<Option<EngineCpu>, EngineError> {
    let header = system.header();
    if !EngineId::EXISTS || header.flags & FLAG_ENGINE_CPU == 0 {
        return Ok(None);
    }
    let firmware = firmware(system).ok_or(EngineError::BadFirmware)?;
    let end = header.firmware_load.checked_add(firmware.len() as u64).ok_or(EngineError::BadFirmware)?;
    if header.firmware_load < free.start || end > free.end {
        return Err(EngineError::BadFirmware);
    }
    // SAFETY: in `free`, which the kernel maps and which has no user: promised by our caller.
    let load = unsafe { slice::from_raw_parts_mut(direct::<u8>(header.firmware_load), firmware.len()) };
    load.copy_from_slice(firmware);
    synchronise(header.firmware_load, firmware.len() as u64);

    let cpu = smp::on_board(header.cpus as usize);
    if cpu >= board::CPUS {
        return Err(EngineError::Refused);
    }
    match board::ITS {
        // SAFETY: promised by our caller.
        Some(its) => unsafe { route_events(its, cpu)? },
        None => {
            // SAFETY: alone: promised by our caller.
            unsafe { KICKED.set((header.kick_plus_one as u16, Target::of(board::affinity(cpu)))) };
        }
    }
    Ok(Some(EngineCpu { cpu, entry: header.firmware_entry, argument: header.firmware_argument }))
}

impl EngineCpu {
    /// Starts it, by the board's firmware.
    ///
    /// # Errors
    /// [`EngineError::Refused`].
    #[cfg(not(start = "spin-table"))]
    pub fn start(&self, conduit: Conduit) -> Result<(), EngineError> {
        // SAFETY: the manifest's tool says that the firmware starts there and takes that argument; `prepare` has put it there.
        unsafe { conduit.start_cpu(board::affinity(self.cpu), self.entry, self.argument) }
            .map_err(|_| EngineError::Refused)
    }
}

/// Lets event numbers that are stored to the page of the translation service `its` interrupt the board's CPU `cpu`.
///
/// # Safety
/// Called once, by the boot CPU alone.
unsafe fn route_events(its: u64, cpu: usize) -> Result<(), EngineError> {
    let redistributor = board::CPU_INTERFACE + cpu as u64 * REDISTRIBUTOR;
    // SAFETY: called once: the only reference.
    let memory = unsafe { &mut *ITS_MEMORY.0.get() };
    // SAFETY: any bytes are valid in it: it is made of integers.
    let memory = unsafe { memory.assume_init_mut() };
    let place = physical(&raw const *memory);
    let its = NonNull::new(direct(its)).ok_or(EngineError::Translation)?;
    let redistributor = NonNull::new(direct(redistributor)).ok_or(EngineError::Translation)?;
    // SAFETY: the board has both there, mapped as `board::DEVICES`, and they have not been set up. `place` is
    // where `memory` is.
    unsafe { its::route_events(its, redistributor, cpu, EVENTS, memory, place) }.map_err(|_| EngineError::Translation)
}

/// Whether devices are kicked by a call: on boards without a page with stores that interrupt a CPU.
pub const KICKS: bool = EngineId::EXISTS && board::ITS.is_none();

/// Lets the CPU of engines look at its devices.
pub fn rouse() {
    match board::ITS {
        Some(its) => {
            translation::settle();
            // SAFETY: the register of the translation service that a store makes an interrupt of, which the kernel maps with the rest of it. `prepare`
            // has let the event interrupt the CPU of engines; the kernel's lock is held.
            unsafe { direct::<u32>(its + its::TRANSLATER).write_volatile(LOOK) };
        }
        None => interrupts::controller().send(KICKED.get().1, interrupts::KICK),
    }
}

/// The number of the notification that stands for the CPU of engines, or zero, which is none's; and how that CPU is reached.
static KICKED: BootCell<(u16, Target)> = BootCell::new((0, Target::NONE));

/// Interrupts the CPU of engines, if `notification` stands for it.
#[inline(always)]
pub fn kick(notification: NotificationId) -> bool {
    let (kicks, target) = *KICKED.get();
    let is_kick = kicks == notification.number();
    if is_kick {
        interrupts::controller().send(target, interrupts::KICK);
    }
    is_kick
}

fn firmware<'a>(system: &System<'a>) -> Option<&'a [u8]> {
    let start = usize::try_from(system.header().firmware_offset).ok()?;
    let length = usize::try_from(system.header().firmware_bytes).ok()?;
    system.bytes().get(start..start.checked_add(length)?)
}
