//! The interrupt controller, GICv3: set-up through `arm-gic`, the hot path by single register accesses.
//!
//! Everything is one non-secure group 1 with one priority, but for the end of a nap: the kernel decides what is
//! urgent, not the controller. Interrupts are taken with interrupts masked, so acknowledging and ending come in pairs.

use core::arch::asm;
use core::ptr::NonNull;

use arm_gic::gicv3::registers::{Gicd, GicrSgi};
use arm_gic::gicv3::{GicCpuInterface, GicError, GicV3};
use arm_gic::{IntId, Trigger, UniqueMmioPointer};

use crate::mmio::Registers;

/// Numbers from here on are not interrupts but "nothing to acknowledge" and its kin.
pub const SPECIAL: u32 = 1020;
/// First number of a shared interrupt.
pub const SHARED: u32 = 32;
/// Numbers of interrupts that are not message-signalled: below [`SPECIAL`].
pub const LINES: usize = SPECIAL as usize;

const SET_ENABLE: usize = 0x100;
const CLEAR_ENABLE: usize = 0x180;
const SET_PENDING: usize = 0x200;
/// `GICR_WAKER` of a redistributor, and its bits.
const WAKER: usize = 0x14;
const PROCESSOR_SLEEP: u32 = 1 << 1;
const CHILDREN_ASLEEP: u32 = 1 << 2;

/// How a line tells that it wants something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Signal {
    /// By being high.
    Level,
    /// By going high.
    Edge,
}

/// Set-up of the controller, one CPU at a time.
pub struct Setup<'a>(GicV3<'a>);

impl Setup<'_> {
    /// Takes hold of the controller of a board with `cpus` CPUs.
    ///
    /// # Errors
    /// What `arm-gic` does not recognise.
    ///
    /// # Safety
    /// `distributor` and `redistributors` are mapped as device memory, 64 KiB and 128 KiB for each CPU; the
    /// board has a GICv3 there; and nothing else touches either until the value is dropped.
    pub unsafe fn new(distributor: NonNull<u8>, redistributors: NonNull<u8>, cpus: usize) -> Result<Self, GicError> {
        // SAFETY: mapped, a distributor, no alias: all promised by our caller.
        let distributor = unsafe { UniqueMmioPointer::<Gicd>::new(distributor.cast()) };
        // SAFETY: the same for the redistributors.
        unsafe { GicV3::new(distributor, redistributors.cast::<GicrSgi>(), cpus) }.map(Self)
    }

    /// Brings the distributor to a known state: everything group 1, disabled, level triggered.
    pub fn reset(&mut self) {
        let distributor = self.0.distributor();
        distributor.enable_all_interrupts(false);
        distributor.configure_default_settings();
    }

    /// Makes the calling CPU, number `index` on the board, ready to take interrupts, and enables its private
    /// interrupts `private`; and `urgent`, before all others: it reaches the CPU even while another interrupt is
    /// not ended.
    ///
    /// # Errors
    /// There is no CPU `index`.
    pub fn enter(&mut self, index: usize, private: &[u32], urgent: u32) -> Result<(), GicError> {
        self.0.redistributor(index)?.configure_default_settings();
        self.0.init_cpu(index);
        for &number in private {
            let Some(id) = private_id(number) else { continue };
            self.0.enable_interrupt(id, Some(index), true)?;
        }
        if let Some(id) = private_id(urgent) {
            self.0.set_interrupt_priority(id, Some(index), 0)?;
            self.0.enable_interrupt(id, Some(index), true)?;
        }
        GicCpuInterface::set_priority_mask(0xff);
        GicCpuInterface::enable_group1(true);
        Ok(())
    }

    /// Routes the shared interrupt `line` to the CPU with `affinity`; it stays disabled.
    ///
    /// # Errors
    /// There is no such line.
    pub fn route(&mut self, line: u32, signal: Signal, affinity: u64) -> Result<(), GicError> {
        let id = line.checked_sub(SHARED).filter(|_| line < SPECIAL).map(IntId::spi);
        let id = id.ok_or(GicError::InvalidGicdIntid(IntId::SPECIAL_NONE))?;
        let trigger = match signal {
            Signal::Level => Trigger::Level,
            Signal::Edge => Trigger::Edge,
        };
        let distributor = self.0.distributor();
        distributor.set_trigger(id, trigger)?;
        distributor.set_routing(id, Some(affinity))
    }
}

/// Software interrupts are 0 to 15, private lines 16 to 31.
fn private_id(number: u32) -> Option<IntId> {
    match number {
        0..16 => Some(IntId::sgi(number)),
        16..32 => Some(IntId::ppi(number - 16)),
        _ => None,
    }
}

/// The distributor, as far as it is used while the system runs.
#[derive(Clone, Copy)]
pub struct Distributor(Registers);

impl Distributor {
    /// The distributor whose registers are at `base`.
    ///
    /// # Safety
    /// `base` is mapped as device memory for 64 KiB and is a GICv3 distributor, for as long as the result is
    /// used.
    pub const unsafe fn new(base: NonNull<u8>) -> Self {
        // SAFETY: mapped: promised by our caller. Harmless: a distributor writes no memory.
        Self(unsafe { Registers::new(base) })
    }

    /// Lets a shared line interrupt, or keeps it from that.
    ///
    /// Does not wait for the change to take effect: a late interrupt of a line just disabled is only an early
    /// look at the device.
    #[inline]
    pub fn set_enabled(self, line: u32, enabled: bool) {
        let register = if enabled { SET_ENABLE } else { CLEAR_ENABLE };
        self.0.write32(register + (line as usize / 32) * 4, 1 << (line % 32));
    }

    /// Makes a shared line pending, as if its device had raised it.
    #[inline]
    pub fn set_pending(self, line: u32) {
        self.0.write32(SET_PENDING + (line as usize / 32) * 4, 1 << (line % 32));
    }
}

/// Wakes the redistributor at `base`, that of the calling CPU, with nothing but register accesses: for code
/// that runs without translation.
///
/// # Safety
/// `base` is accessible as device memory for 64 KiB and is a GICv3 redistributor.
pub unsafe fn wake_redistributor(base: NonNull<u8>) {
    // SAFETY: mapped: promised by our caller. Harmless: waking writes no memory.
    let redistributor = unsafe { Registers::new(base) };
    let waker = redistributor.read32(WAKER);
    redistributor.write32(WAKER, waker & !PROCESSOR_SLEEP);
    while redistributor.read32(WAKER) & CHILDREN_ASLEEP != 0 {
        crate::relax();
    }
}

/// Enables a private interrupt at the redistributor `base` as group 1.
///
/// # Safety
/// `base` is accessible as device memory for 128 KiB and is a GICv3 redistributor.
pub unsafe fn enable_private(base: NonNull<u8>, number: u32) {
    const FRAME: usize = 0x1_0000;
    const GROUP: usize = 0x80;
    // SAFETY: mapped: promised by our caller. Harmless: an interrupt enable writes no memory.
    let redistributor = unsafe { Registers::new(base) };
    let bit = 1 << (number % 32);
    let groups = redistributor.read32(FRAME + GROUP);
    redistributor.write32(FRAME + GROUP, groups | bit);
    redistributor.write32(FRAME + SET_ENABLE, bit);
}

/// Lets the calling CPU take all group 1 interrupts through system registers.
pub fn enable_cpu_interface() {
    GicCpuInterface::enable_system_register_el1();
    GicCpuInterface::set_priority_mask(0xff);
    GicCpuInterface::enable_group1(true);
}

/// Takes the most urgent pending interrupt of this CPU; [`SPECIAL`] or more if there is none.
#[inline]
pub fn acknowledge() -> u32 {
    let number: u64;
    // SAFETY: ICC_IAR1_EL1 is readable at EL1 once `Setup::enter` or `enable_cpu_interface` has run on this
    // CPU; reading it changes nothing but the controller's state. The barrier orders the handler's
    // accesses to the device after it.
    unsafe { asm!("mrs {}, s3_0_c12_c12_0", "dsb sy", out(reg) number, options(nostack, preserves_flags)) };
    number as u32
}

/// Ends interrupt `number`, which [`acknowledge`] returned.
#[inline]
pub fn end(number: u32) {
    // SAFETY: ICC_EOIR1_EL1 is writable at EL1 once the CPU interface is set up. Not `nomem`: accesses to
    // the device come before it.
    unsafe { asm!("msr s3_0_c12_c12_1, {}", in(reg) u64::from(number), options(nostack, preserves_flags)) };
}

/// The value that makes [`send`] interrupt the CPU with `affinity` by software interrupt `number`.
#[must_use]
pub const fn software_interrupt(affinity: u64, number: u32) -> u64 {
    let level0 = affinity & 0xff;
    let list = 1 << (level0 & 0xf);
    let range = level0 >> 4;
    let level1 = affinity >> 8 & 0xff;
    let level2 = affinity >> 16 & 0xff;
    let level3 = affinity >> 32 & 0xff;
    list | level1 << 16 | (number as u64) << 24 | level2 << 32 | range << 44 | level3 << 48
}

/// Sends a [`software_interrupt`].
#[inline]
pub fn send(interrupt: u64) {
    // SAFETY: ICC_SGI1R_EL1 is writable at EL1 once the CPU interface is set up. Not `nomem`: what the other
    // CPU shall find must be stored before it is interrupted.
    unsafe { asm!("msr s3_0_c12_c11_5, {}", in(reg) interrupt, options(nostack, preserves_flags)) };
}
