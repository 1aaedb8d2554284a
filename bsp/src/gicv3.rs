//! The interrupt controller, GICv3: set-up through `arm-gic`, the hot path by single register accesses.
//!
//! Everything is one non-secure group 1 with one priority, but for the end of a nap: the kernel decides what is
//! urgent, not the controller. Interrupts are taken with interrupts masked, so acknowledging and ending come in pairs.

use core::arch::asm;
use core::ptr::NonNull;

use arm_gic::gicv3::registers::{Gicd, GicrSgi};
use arm_gic::gicv3::{GicCpuInterface, GicError, GicV3};
use arm_gic::{IntId, Trigger, UniqueMmioPointer};

use crate::interrupt::{SHARED, SPECIAL, SetupError, Signal};
use crate::mmio::Registers;

const SET_ENABLE: usize = 0x100;
const CLEAR_ENABLE: usize = 0x180;
const SET_PENDING: usize = 0x200;
/// `GICR_WAKER` of a redistributor, and its bits.
const WAKER: usize = 0x14;
const PROCESSOR_SLEEP: u32 = 1 << 1;
const CHILDREN_ASLEEP: u32 = 1 << 2;

/// Set-up of the controller, one CPU at a time.
pub struct Setup(GicV3<'static>);

impl From<GicError> for SetupError {
    fn from(_: GicError) -> Self {
        Self
    }
}

impl Setup {
    /// Takes hold of the controller of a board with `cpus` CPUs. `cpu`: the first one's redistributor.
    ///
    /// # Errors
    /// The CPU has no registers of a GICv3, or the redistributors are not what `arm-gic` expects.
    ///
    /// # Safety
    /// `distributor` and `cpu` are mapped as device memory, 64 KiB and 128 KiB for each CPU; the
    /// board has a GICv3 there; and nothing else touches either until the value is dropped.
    pub unsafe fn new(distributor: NonNull<u8>, cpu: NonNull<u8>, cpus: usize) -> Result<Self, SetupError> {
        let features: u64;
        // SAFETY: reading an identification register changes nothing.
        unsafe { asm!("mrs {}, id_aa64pfr0_el1", out(reg) features, options(nomem, nostack, preserves_flags)) };
        // Without, nothing may be at these addresses.
        if features >> 24 & 0xf == 0 {
            return Err(SetupError);
        }
        // SAFETY: mapped, a distributor, no alias: all promised by our caller.
        let distributor = unsafe { UniqueMmioPointer::<Gicd>::new(distributor.cast()) };
        // SAFETY: the same for the redistributors.
        unsafe { GicV3::new(distributor, cpu.cast::<GicrSgi>(), cpus) }.map(Self).map_err(SetupError::from)
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
    pub fn enter(&mut self, index: usize, private: &[u32], urgent: u32) -> Result<(), SetupError> {
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
    pub fn route(&mut self, line: u32, signal: Signal, affinity: u64) -> Result<(), SetupError> {
        let id = line.checked_sub(SHARED).filter(|_| line < SPECIAL).map(IntId::spi);
        let id = id.ok_or(SetupError)?;
        let trigger = match signal {
            Signal::Level => Trigger::Level,
            Signal::Edge => Trigger::Edge,
        };
        let distributor = self.0.distributor();
        distributor.set_trigger(id, trigger)?;
        Ok(distributor.set_routing(id, Some(affinity))?)
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

/// The controller, as far as it is used while the system runs.
#[derive(Clone, Copy)]
pub struct Controller(Registers);

/// What was acknowledged, and is to be ended.
#[derive(Clone, Copy)]
pub struct Acknowledged(u32);

impl Acknowledged {
    /// The interrupt; [`SPECIAL`] or more if there is none, and then there is nothing to end.
    #[inline(always)]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Which CPU a software interrupt goes to.
#[derive(Clone, Copy)]
pub struct Target(u64);

impl Target {
    /// None.
    pub const NONE: Target = Target(0);

    /// The CPU with `affinity`.
    #[must_use]
    pub const fn of(affinity: u64) -> Target {
        let level0 = affinity & 0xff;
        let list = 1 << (level0 & 0xf);
        let range = level0 >> 4;
        let level1 = affinity >> 8 & 0xff;
        let level2 = affinity >> 16 & 0xff;
        let level3 = affinity >> 32 & 0xff;
        Target(list | level1 << 16 | level2 << 32 | range << 44 | level3 << 48)
    }
}

impl Controller {
    /// The controller whose distributor is at `distributor`. It is called as the others are, of which CPUs have registers in memory.
    ///
    /// # Safety
    /// `distributor` is mapped as device memory for 64 KiB and is a GICv3 distributor, for as long as the result is
    /// used. Interrupts are taken by CPUs that [`Setup::enter`] or [`listen`] has run on.
    pub const unsafe fn new(distributor: NonNull<u8>, _cpu: NonNull<u8>) -> Self {
        // SAFETY: mapped: promised by our caller. Harmless: a distributor writes no memory.
        Self(unsafe { Registers::new(distributor) })
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

    /// Takes the most urgent pending interrupt of this CPU.
    #[inline(always)]
    pub fn acknowledge(self) -> Acknowledged {
        let number: u64;
        // SAFETY: ICC_IAR1_EL1 is readable at EL1 once the CPU interface is set up (promised to `new`); reading it changes nothing but the
        // controller's state. The barrier orders the handler's accesses to the device after it.
        unsafe { asm!("mrs {}, s3_0_c12_c12_0", "dsb sy", out(reg) number, options(nostack, preserves_flags)) };
        Acknowledged(number as u32)
    }

    /// Ends an interrupt.
    #[inline(always)]
    pub fn end(self, taken: Acknowledged) {
        // SAFETY: ICC_EOIR1_EL1 is writable at EL1 once the CPU interface is set up. Not `nomem`: accesses to
        // the device come before it.
        unsafe { asm!("msr s3_0_c12_c12_1, {}", in(reg) u64::from(taken.0), options(nostack, preserves_flags)) };
    }

    /// Interrupts a CPU by software interrupt `number`, 0 to 15.
    #[inline(always)]
    pub fn send(self, to: Target, number: u32) {
        let word = to.0 | u64::from(number) << 24;
        // SAFETY: ICC_SGI1R_EL1 is writable at EL1 once the CPU interface is set up. Not `nomem`: what the other
        // CPU shall find must be stored before it is interrupted.
        unsafe { asm!("msr s3_0_c12_c11_5, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

/// Lets the calling CPU, which is `index` on the board, take `private` interrupts and whatever is routed to it: with nothing but register accesses, for
/// code beside the kernel.
///
/// # Safety
/// `first` is accessible as device memory, 128 KiB for each CPU, and is the redistributor of the first.
pub unsafe fn listen(_distributor: NonNull<u8>, first: NonNull<u8>, index: usize, private: &[u32]) {
    const REDISTRIBUTOR: usize = 0x2_0000;
    // SAFETY: promised by our caller.
    let redistributor = unsafe { first.add(index * REDISTRIBUTOR) };
    // SAFETY: promised by our caller.
    unsafe { wake_redistributor(redistributor) };
    for number in private {
        // SAFETY: promised by our caller.
        unsafe { enable_private(redistributor, *number) };
    }
    enable_cpu_interface();
}

/// Wakes the redistributor at `base`, that of the calling CPU, with nothing but register accesses: for code
/// that runs without translation.
///
/// # Safety
/// `base` is accessible as device memory for 64 KiB and is a GICv3 redistributor.
unsafe fn wake_redistributor(base: NonNull<u8>) {
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
unsafe fn enable_private(base: NonNull<u8>, number: u32) {
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
fn enable_cpu_interface() {
    GicCpuInterface::enable_system_register_el1();
    GicCpuInterface::set_priority_mask(0xff);
    GicCpuInterface::enable_group1(true);
}
