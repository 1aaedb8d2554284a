//! The interrupt controller, GICv3 (Arm IHI 0069H), by its registers.
//!
//! Everything is one non-secure group 1 with one priority, but for the end of a nap: the kernel decides on
//! urgency, not the controller. Interrupts are taken with interrupts masked, so acknowledging and ending come in pairs.
//!
//! # Why no driver crate
//!
//! `arm-gic` 0.10 did the set-up until it came with all registers of AArch32, which took a third of the time to build a kernel. Set-up is some thirty stores.

use core::arch::asm;
use core::ops::Range;
use core::ptr::NonNull;

use crate::interrupt::{SHARED, SPECIAL, SetupError, Signal};
use crate::mmio::Registers;

// Registers of the distributor. Those of extended shared interrupts are apart.
const CONTROL: usize = 0x000;
const TYPE: usize = 0x004;
const GROUP: usize = 0x080;
const SET_ENABLE: usize = 0x100;
const CLEAR_ENABLE: usize = 0x180;
const SET_PENDING: usize = 0x200;
const PRIORITY: usize = 0x400;
const CONFIGURATION: usize = 0xc00;
const EXTENDED_GROUP: usize = 0x1000;
const EXTENDED_CLEAR_ENABLE: usize = 0x1400;
const EXTENDED_PRIORITY: usize = 0x2000;
const EXTENDED_CONFIGURATION: usize = 0x3000;
const ROUTE: usize = 0x6000;
/// `GICD_CTLR`: interrupts are routed by affinity, group 1 is enabled, and a store has not taken effect yet.
const BY_AFFINITY: u32 = 1 << 4;
const ENABLE_GROUP: u32 = 1 << 1;
const PENDING_WRITE: u32 = 1 << 31;
/// `GICD_TYPER`: there are extended shared interrupts.
const HAS_EXTENDED: u32 = 1 << 8;
/// Bits of `GICD_IROUTER` that are an affinity.
const AFFINITY: u64 = 0xff_00ff_ffff;

// A redistributor has a frame for itself and a frame for the private interrupts of its CPU; with GICv4 two more frames.
const FRAME: usize = 0x1_0000;
/// `GICR_CTLR`: a store has not taken effect yet.
const REDISTRIBUTOR_PENDING_WRITE: u32 = 1 << 3;
/// `GICR_TYPER`, and its bit for virtual message-signalled interrupts.
const REDISTRIBUTOR_TYPE: usize = 0x08;
const HAS_VIRTUAL: u64 = 1 << 1;
/// `GICR_WAKER`, and its bits.
const WAKER: usize = 0x14;
const PROCESSOR_SLEEP: u32 = 1 << 1;
const CHILDREN_ASLEEP: u32 = 1 << 2;
/// `GICR_PIDR2`, of which bits 4 to 7 are the revision of the architecture.
const REVISION: usize = 0xffe8;

/// The priority of four interrupts: 0x80.
const ALIKE: u32 = 0x8080_8080;

/// Set-up of the controller, one CPU at a time.
pub struct Setup {
    distributor: Registers,
    first: NonNull<u8>,
    cpus: usize,
    /// Bytes from one redistributor to the next.
    step: usize,
}

impl Setup {
    /// Takes hold of the controller of a board with `cpus` CPUs. `cpu`: the first one's redistributor.
    ///
    /// # Errors
    /// The CPU has no registers of a GICv3, or the redistributors are neither a GICv3's nor a GICv4's.
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
        // SAFETY: mapped: promised by our caller. Harmless: a distributor writes no memory.
        let distributor = unsafe { Registers::new(distributor) };
        // SAFETY: mapped: promised by our caller. Harmless: only identification registers are read here.
        let redistributor = unsafe { Registers::new(cpu) };
        let has_virtual = redistributor.read64(REDISTRIBUTOR_TYPE) & HAS_VIRTUAL != 0;
        let step = match (redistributor.read32(REVISION) >> 4 & 0xf, has_virtual) {
            (3, false) => 2 * FRAME,
            (4, true) => 4 * FRAME,
            _ => return Err(SetupError),
        };
        Ok(Setup { distributor, first: cpu, cpus, step })
    }

    /// Brings the distributor to a known state: everything group 1, disabled, level triggered.
    pub fn reset(&mut self) {
        let kind = self.distributor.read32(TYPE);
        let lines = ((kind & 0x1f) as usize + 1) * 32;
        let extended = if kind & HAS_EXTENDED == 0 { 0 } else { ((kind >> 27) as usize + 1) * 32 };
        self.fill(CLEAR_ENABLE, 1..lines / 32, !0);
        self.fill(EXTENDED_CLEAR_ENABLE, 0..extended / 32, !0);
        self.control(BY_AFFINITY);
        self.control(ENABLE_GROUP);
        self.fill(GROUP, 1..lines / 32, !0);
        self.fill(EXTENDED_GROUP, 0..extended / 32, !0);
        self.fill(PRIORITY, SHARED as usize / 4..lines.min(SPECIAL as usize) / 4, ALIKE);
        self.fill(EXTENDED_PRIORITY, 0..extended / 4, ALIKE);
        self.fill(CONFIGURATION, SHARED as usize / 16..lines / 16, 0);
        self.fill(EXTENDED_CONFIGURATION, 0..extended / 16, 0);
        self.settle();
    }

    /// Stores `value` to these words from `register` on.
    fn fill(&self, register: usize, words: Range<usize>, value: u32) {
        words.for_each(|word| self.distributor.write32(register + 4 * word, value));
    }

    /// Sets `bits` of the distributor's control register.
    fn control(&self, bits: u32) {
        self.distributor.write32(CONTROL, self.distributor.read32(CONTROL) | bits);
        self.settle();
    }

    /// Waits until all stores have taken effect.
    fn settle(&self) {
        while self.distributor.read32(CONTROL) & PENDING_WRITE != 0 {
            crate::relax();
        }
    }

    /// Makes the calling CPU, number `index` on the board, ready to take interrupts, and enables its private
    /// interrupts `private`; and `urgent`, before all others: it reaches the CPU even while another interrupt is
    /// not ended.
    ///
    /// # Errors
    /// There is no CPU `index`.
    pub fn enter(&mut self, index: usize, private: &[u32], urgent: u32) -> Result<(), SetupError> {
        if index >= self.cpus {
            return Err(SetupError);
        }
        // SAFETY: the caller of `new` guarantees registers for each CPU of the board.
        let base = unsafe { self.first.add(index * self.step) };
        // SAFETY: mapped: promised to `new`. Harmless: the stores here make no redistributor write memory.
        let redistributor = unsafe { Registers::new(base) };
        // Extended private interrupts, if there are some, follow the first 32.
        let words = 1 + (redistributor.read64(REDISTRIBUTOR_TYPE) >> 27 & 0x1f).min(2) as usize;
        let fill = |register: usize, words: Range<usize>, value: u32| {
            words.for_each(|word| redistributor.write32(FRAME + register + 4 * word, value));
        };
        fill(CLEAR_ENABLE, 0..words, !0);
        while redistributor.read32(CONTROL) & REDISTRIBUTOR_PENDING_WRITE != 0 {
            crate::relax();
        }
        fill(GROUP, 0..words, !0);
        fill(PRIORITY, 0..8 * words, ALIKE);
        // Software interrupts, the first 16, have edges for good.
        fill(CONFIGURATION, 1..2 * words, 0);
        enable_system_registers();
        // SAFETY: a redistributor, by the promise made to `new`.
        unsafe { wake_redistributor(base) };
        let word = FRAME + PRIORITY + (urgent as usize % 32 / 4 * 4);
        let others = redistributor.read32(word) & !(0xff << (8 * (urgent % 4)));
        redistributor.write32(word, others);
        let enabled = private.iter().fold(1 << (urgent % 32), |set, number| set | 1 << (number % 32));
        redistributor.write32(FRAME + SET_ENABLE, enabled);
        take_group();
        Ok(())
    }

    /// Routes the shared interrupt `line` to the CPU with `affinity`; it stays disabled.
    ///
    /// # Errors
    /// There is no such line.
    pub fn route(&mut self, line: u32, signal: Signal, affinity: u64) -> Result<(), SetupError> {
        if !(SHARED..SPECIAL).contains(&line) {
            return Err(SetupError);
        }
        let edge = 2 << (2 * (line % 16));
        let word = CONFIGURATION + (line as usize / 16) * 4;
        let others = self.distributor.read32(word) & !edge;
        self.distributor.write32(word, others | if signal == Signal::Edge { edge } else { 0 });
        self.distributor.write64(ROUTE + 8 * line as usize, affinity & AFFINITY);
        Ok(())
    }
}

/// The controller, as far as it is used while the system runs.
#[derive(Clone, Copy)]
pub struct Controller(Registers);

/// The interrupt that was acknowledged, and is to be ended.
#[derive(Clone, Copy)]
pub struct Acknowledged(u32);

impl Acknowledged {
    /// The interrupt; [`SPECIAL`] or more if there is none, and then there is nothing to end.
    #[inline(always)]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The target of a software interrupt.
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
    /// The controller with its distributor at `distributor`. It is called as the others are, of which CPUs have registers in memory.
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
        // SAFETY: ICC_SGI1R_EL1 is writable at EL1 once the CPU interface is set up. Not `nomem`: words that the other
        // CPU shall find must be stored before it is interrupted.
        unsafe { asm!("msr s3_0_c12_c11_5, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

/// Lets the calling CPU, which is `index` on the board, take `private` interrupts and all that are routed to it: with nothing but register accesses,
/// for code beside the kernel.
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
    enable_system_registers();
    take_group();
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
    // SAFETY: mapped: promised by our caller. Harmless: an interrupt enable writes no memory.
    let redistributor = unsafe { Registers::new(base) };
    let bit = 1 << (number % 32);
    let groups = redistributor.read32(FRAME + GROUP);
    redistributor.write32(FRAME + GROUP, groups | bit);
    redistributor.write32(FRAME + SET_ENABLE, bit);
}

/// Gives the calling CPU its interface to the controller by system registers. Ending an interrupt also deactivates it.
fn enable_system_registers() {
    // SAFETY: ICC_SRE_EL1 is readable and writable at EL1, where firmware and the entry code let EL1 use it; its bit 0 is only set. The barrier makes the
    // other registers accessible.
    unsafe {
        asm!(
            "mrs {0}, s3_0_c12_c12_5",
            "orr {0}, {0}, #1",
            "msr s3_0_c12_c12_5, {0}",
            "isb",
            out(reg) _,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Lets the calling CPU take all group 1 interrupts, of any priority.
fn take_group() {
    // SAFETY: ICC_CTLR_EL1, ICC_PMR_EL1 and ICC_IGRPEN1_EL1 are writable at EL1 once `enable_system_registers` has run. Not `nomem`: all words that a
    // handler finds are stored before the first interrupt.
    unsafe {
        asm!(
            "msr s3_0_c12_c12_4, xzr",
            "msr s3_0_c4_c6_0, {0}",
            "msr s3_0_c12_c12_7, {1}",
            in(reg) 0xff_u64,
            in(reg) 1_u64,
            options(nostack, preserves_flags)
        );
    }
}
