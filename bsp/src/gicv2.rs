//! The interrupt controller, GICv2, of which CPUs have registers in memory (Arm IHI 0048B).
//!
//! Everything has one priority, but for the end of a nap: the kernel decides on urgency, not the controller. Interrupts are taken with
//! interrupts masked, so acknowledging and ending come in pairs. Set-up is by registers, too.

use core::ptr::NonNull;

use crate::interrupt::{SHARED, SPECIAL, SetupError, Signal};
use crate::mmio::{Registers, barrier};

// The distributor. Registers of bit n of a line are followed by those of the next 32.
const CONTROL: usize = 0x000;
const TYPE: usize = 0x004;
/// Identification, of which bits 4 to 7 are the revision of the architecture.
const REVISION: usize = 0xfe8;
const SET_ENABLE: usize = 0x100;
const CLEAR_ENABLE: usize = 0x180;
const SET_PENDING: usize = 0x200;
const PRIORITY: usize = 0x400;
const TARGETS: usize = 0x800;
const CONFIGURATION: usize = 0xc00;
const SOFTWARE: usize = 0xf00;
// A CPU's interface.
const CPU_CONTROL: usize = 0x00;
const CPU_MASK: usize = 0x04;
const CPU_ACKNOWLEDGE: usize = 0x0c;
const CPU_END: usize = 0x10;
/// One priority for four lines: 0x80.
const ALIKE: u32 = 0x8080_8080;

/// Set-up of the controller, one CPU at a time.
pub struct Setup {
    distributor: Registers,
    cpu: Registers,
    lines: u32,
}

impl Setup {
    /// Takes hold of the controller. `cpu`: the interface, which each CPU finds at the same place.
    ///
    /// # Errors
    /// The device there does not say that it is a GICv2, or has no lines.
    ///
    /// # Safety
    /// `distributor` and `cpu` are mapped as device memory, 4 KiB each; the board has a GICv2 there; and nothing else sets it up until the
    /// value is dropped.
    pub unsafe fn new(distributor: NonNull<u8>, cpu: NonNull<u8>, _cpus: usize) -> Result<Self, SetupError> {
        // SAFETY: mapped: promised by our caller. Harmless: it writes no memory.
        let distributor = unsafe { Registers::new(distributor) };
        // SAFETY: the same.
        let cpu = unsafe { Registers::new(cpu) };
        let lines = ((distributor.read32(TYPE) & 0x1f) + 1) * 32;
        let is_there = distributor.read32(REVISION) >> 4 & 0xf == 2;
        if lines <= SHARED || !is_there {
            Err(SetupError)
        } else {
            Ok(Setup { distributor, cpu, lines: lines.min(SPECIAL) })
        }
    }

    /// Brings the distributor to a known state: everything disabled, of one priority.
    pub fn reset(&mut self) {
        self.distributor.write32(CONTROL, 0);
        for word in 1..self.lines as usize / 32 {
            self.distributor.write32(CLEAR_ENABLE + 4 * word, !0);
        }
        for word in SHARED as usize / 4..self.lines as usize / 4 {
            self.distributor.write32(PRIORITY + 4 * word, ALIKE);
        }
        self.distributor.write32(CONTROL, 1);
    }

    /// Makes the calling CPU ready to take interrupts, and enables its private interrupts `private`; and `urgent`, before all others: it reaches
    /// the CPU even while another interrupt is not ended.
    ///
    /// # Errors
    /// None here.
    pub fn enter(&mut self, _index: usize, private: &[u32], urgent: u32) -> Result<(), SetupError> {
        self.distributor.write32(CLEAR_ENABLE, !0);
        for word in 0..SHARED as usize / 4 {
            self.distributor.write32(PRIORITY + 4 * word, ALIKE);
        }
        let word = PRIORITY + (urgent as usize & !3);
        let others = self.distributor.read32(word) & !(0xff << (8 * (urgent % 4)));
        self.distributor.write32(word, others);
        self.open(private.iter().fold(1 << (urgent % 32), |set, number| set | 1 << (number % 32)));
        Ok(())
    }

    /// Enables private interrupts, a bit each, and the calling CPU's interface.
    fn open(&self, enabled: u32) {
        self.distributor.write32(SET_ENABLE, enabled);
        self.cpu.write32(CPU_MASK, 0xff);
        self.cpu.write32(CPU_CONTROL, 1);
    }

    /// Routes the shared interrupt `line` to the CPU with `affinity`; it stays disabled.
    ///
    /// # Errors
    /// There is no such line.
    pub fn route(&mut self, line: u32, signal: Signal, affinity: u64) -> Result<(), SetupError> {
        if !(SHARED..self.lines).contains(&line) || affinity >= 8 {
            return Err(SetupError);
        }
        let edge = 2 << (2 * (line % 16));
        let word = CONFIGURATION + (line as usize / 16) * 4;
        let others = self.distributor.read32(word) & !edge;
        self.distributor.write32(word, others | if signal == Signal::Edge { edge } else { 0 });
        let shift = 8 * (line % 4);
        let word = TARGETS + (line as usize & !3);
        let others = self.distributor.read32(word) & !(0xff << shift);
        self.distributor.write32(word, others | (1 << affinity) << shift);
        Ok(())
    }
}

/// Lets the calling CPU take `private` interrupts and all that are routed to it: for code beside the kernel.
///
/// # Safety
/// As of [`Setup::new`], but that the kernel may set up its own registers meanwhile: all that is written here is the calling CPU's.
pub unsafe fn listen(distributor: NonNull<u8>, cpu: NonNull<u8>, _index: usize, private: &[u32]) {
    // SAFETY: promised by our caller.
    if let Ok(setup) = unsafe { Setup::new(distributor, cpu, 0) } {
        setup.open(private.iter().fold(0, |set, number| set | 1 << (number % 32)));
    }
}

/// The controller, as far as it is used while the system runs.
#[derive(Clone, Copy)]
pub struct Controller {
    distributor: Registers,
    cpu: Registers,
}

/// The interrupt that was acknowledged, and is to be ended: with the CPU that has sent it, if it was one.
#[derive(Clone, Copy)]
pub struct Acknowledged(u32);

impl Acknowledged {
    /// The interrupt; [`SPECIAL`] or more if there is none, and then there is nothing to end.
    #[inline(always)]
    pub fn number(self) -> u32 {
        self.0 & 0x3ff
    }
}

/// The target of a software interrupt.
#[derive(Clone, Copy)]
pub struct Target(u32);

impl Target {
    /// None.
    pub const NONE: Target = Target(0);

    /// The CPU with `affinity`, of which GICv2 has eight.
    #[must_use]
    pub const fn of(affinity: u64) -> Target {
        Target(1 << (16 + (affinity & 7)))
    }
}

impl Controller {
    /// The controller with registers at these places.
    ///
    /// # Safety
    /// Both are mapped as device memory for 4 KiB and are a GICv2's, for as long as the result is used. Interrupts are taken by CPUs that
    /// [`Setup::enter`] has run on.
    pub const unsafe fn new(distributor: NonNull<u8>, cpu: NonNull<u8>) -> Self {
        // SAFETY: mapped: promised by our caller. Harmless: it writes no memory.
        let distributor = unsafe { Registers::new(distributor) };
        // SAFETY: the same.
        let cpu = unsafe { Registers::new(cpu) };
        Self { distributor, cpu }
    }

    /// Lets a shared line interrupt, or keeps it from that. Does not wait for the change to take effect.
    #[inline]
    pub fn set_enabled(self, line: u32, enabled: bool) {
        let register = if enabled { SET_ENABLE } else { CLEAR_ENABLE };
        self.distributor.write32(register + (line as usize / 32) * 4, 1 << (line % 32));
    }

    /// Makes a shared line pending, as if its device had raised it.
    #[inline]
    pub fn set_pending(self, line: u32) {
        self.distributor.write32(SET_PENDING + (line as usize / 32) * 4, 1 << (line % 32));
    }

    /// Takes the most urgent pending interrupt of this CPU.
    #[inline]
    pub fn acknowledge(self) -> Acknowledged {
        let taken = Acknowledged(self.cpu.read32(CPU_ACKNOWLEDGE));
        barrier();
        taken
    }

    /// Ends an interrupt.
    #[inline]
    pub fn end(self, taken: Acknowledged) {
        barrier();
        self.cpu.write32(CPU_END, taken.0);
    }

    /// Interrupts a CPU by software interrupt `number`, 0 to 15.
    #[inline]
    pub fn send(self, to: Target, number: u32) {
        barrier();
        self.distributor.write32(SOFTWARE, to.0 | number);
    }
}
