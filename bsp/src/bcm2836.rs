//! The interrupt controllers of a BCM2836 and, behind it, of a BCM2835 (ARM quad-A7 core, QA7_rev3.4; BCM2835 ARM Peripherals, chapter 7).
//!
//! Each CPU has its timers and four mailboxes, of which the first has a bit for each software interrupt. All device lines go to one CPU, the one that the last
//! line was routed to. There are no priorities, and nothing has to be ended: a timer is set anew, a bit of a mailbox is cleared when it is read, a line
//! stays until its device is content or it is disabled.
//!
//! No device line can be made pending by software. So the other three mailboxes of the CPU that has the device lines are lines, too, for the player
//! of a device: [`MADE`] and the next two. They tell by edges: the contents of a mailbox are forgotten as they are taken, and come back if they are
//! sent anew, however long the line is disabled meanwhile. A mailbox each, because it is enabled as a whole.
//!
//! # Invariants
//!
//! 1. Which mailboxes interrupt is changed by [`Setup::reset`], while one CPU is alone, and by [`Controller::set_enabled`], under its caller's lock.

use core::arch::asm;
use core::ptr::NonNull;

use crate::interrupt::{SHARED, SPECIAL, SetupError, Signal};
use crate::mmio::{Registers, barrier};

/// Lines of the BCM2835.
const DEVICE_LINES: u32 = 64;
/// The first line that software makes pending,
const MADE: u32 = 112;
/// and how many there are.
const MADE_LINES: u32 = 3;
const CPUS: usize = 4;

// BCM2835: lines 0 to 31, then 32 to 63.
const PENDING: [usize; 2] = [0x204, 0x208];
const ENABLE: usize = 0x210;
const DISABLE: usize = 0x21c;
/// Offset of the mask of its own eight lines, of which none is used.
const DISABLE_BASIC: usize = 0x224;
// BCM2836: words of four CPUs each.
const ROUTING: usize = 0x0c;
const TIMERS: usize = 0x40;
const MAILBOXES: usize = 0x50;
const SOURCES: usize = 0x60;
/// Mailboxes are sixteen bytes for each CPU.
const MAILBOX_SET: usize = 0x80;
const MAILBOX_CLEAR: usize = 0xc0;

/// In `TIMERS` and `SOURCES`: the physical timer, the virtual one,
const PHYSICAL_TIMER: u32 = 1 << 1;
const VIRTUAL_TIMER: u32 = 1 << 3;
/// the first mailbox, and all lines of the BCM2835.
const MAILBOX: u32 = 1 << 4;
const DEVICES: u32 = 1 << 8;
/// In `SOURCES`: the mailboxes that are lines.
const MADE_MAILBOXES: u32 = MAILBOX << 1 | MAILBOX << 2 | MAILBOX << 3;
/// The number of the virtual timer.
const VIRTUAL_TIMER_NUMBER: u32 = 27;

/// Set-up of the controller, one CPU at a time.
pub struct Setup(Controller);

impl Setup {
    /// Takes hold of the controllers.
    ///
    /// # Errors
    /// None here.
    ///
    /// # Safety
    /// As of [`Controller::new`]; and nothing else sets them up until the value is dropped.
    pub unsafe fn new(distributor: NonNull<u8>, cpu: NonNull<u8>, _cpus: usize) -> Result<Self, SetupError> {
        // SAFETY: promised by our caller.
        Ok(Self(unsafe { Controller::new(distributor, cpu) }))
    }

    /// Disables all lines.
    pub fn reset(&mut self) {
        for at in [DISABLE, DISABLE + 4, DISABLE_BASIC] {
            self.0.devices.write32(at, !0);
        }
        self.0.cpus.write32(ROUTING, 0);
        for cpu in 0..CPUS {
            self.0.cpus.write32(MAILBOXES + 4 * cpu, 1);
        }
    }

    /// Makes the CPU `index` ready to take interrupts of its timers; its mailbox is.
    ///
    /// # Errors
    /// None here.
    pub fn enter(&mut self, index: usize, _private: &[u32], _urgent: u32) -> Result<(), SetupError> {
        self.0.cpus.write32(TIMERS + 4 * index, VIRTUAL_TIMER | PHYSICAL_TIMER);
        Ok(())
    }

    /// Routes all lines to the CPU with `affinity`; `line` stays disabled.
    ///
    /// # Errors
    /// There is no such line, or it should be told by edges, or by its level, and is not.
    pub fn route(&mut self, line: u32, signal: Signal, affinity: u64) -> Result<(), SetupError> {
        let is_there = match signal {
            Signal::Level => (SHARED..SHARED + DEVICE_LINES).contains(&line),
            Signal::Edge => made(line).is_some(),
        };
        if !is_there {
            return Err(SetupError);
        }
        self.0.cpus.write32(ROUTING, affinity as u32 & 3);
        Ok(())
    }
}

/// Lets the CPU `index`, the calling one, take its virtual timer and software interrupts: for code beside the kernel.
///
/// # Safety
/// As of [`Controller::new`], and the kernel has reset them.
pub unsafe fn listen(distributor: NonNull<u8>, cpu: NonNull<u8>, index: usize, _private: &[u32]) {
    // SAFETY: promised by our caller.
    let controller = unsafe { Controller::new(distributor, cpu) };
    controller.cpus.write32(TIMERS + 4 * index, VIRTUAL_TIMER);
}

/// The mailbox that is the line `line`, if one is.
#[inline]
fn made(line: u32) -> Option<usize> {
    let place = line.wrapping_sub(MADE);
    (place < MADE_LINES).then_some(1 + place as usize)
}

/// The controllers, as far as they are used while the system runs.
#[derive(Clone, Copy)]
pub struct Controller {
    devices: Registers,
    cpus: Registers,
}

/// The interrupt that was acknowledged.
#[derive(Clone, Copy)]
pub struct Acknowledged(u32);

impl Acknowledged {
    /// The interrupt; [`SPECIAL`] or more if there is none.
    #[inline(always)]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The target of a software interrupt.
#[derive(Clone, Copy)]
pub struct Target(usize);

impl Target {
    /// None.
    pub const NONE: Target = Target(0);

    /// The CPU with `affinity`, of which there are four.
    #[must_use]
    pub const fn of(affinity: u64) -> Target {
        Target((affinity & 3) as usize)
    }
}

impl Controller {
    /// The controllers with registers at these places: the BCM2835's, and the BCM2836's.
    ///
    /// # Safety
    /// Both are mapped as device memory, for 4 KiB and for 256 bytes, and are these controllers, for as long as the result is used.
    pub const unsafe fn new(distributor: NonNull<u8>, cpu: NonNull<u8>) -> Self {
        // SAFETY: mapped: promised by our caller. Harmless: they write no memory.
        let devices = unsafe { Registers::new(distributor) };
        // SAFETY: the same.
        let cpus = unsafe { Registers::new(cpu) };
        Self { devices, cpus }
    }

    /// Lets a line interrupt, or keeps it from that.
    #[inline]
    pub fn set_enabled(self, line: u32, enabled: bool) {
        if line >= MADE {
            return self.set_made_enabled(line, enabled);
        }
        let number = line.wrapping_sub(SHARED) % DEVICE_LINES;
        let register = if enabled { ENABLE } else { DISABLE };
        self.devices.write32(register + (number as usize / 32) * 4, 1 << (number % 32));
        // A line is level, and nothing is ended: the kernel must not find it again because the store is still on its way.
        barrier();
    }

    /// Makes a line pending, as if its device had raised it: one of those that are made by software.
    #[inline]
    pub fn set_pending(self, line: u32) {
        if let Some(mailbox) = made(line) {
            barrier();
            self.cpus.write32(MAILBOX_SET + 16 * self.routed() + 4 * mailbox, 1);
        }
    }

    #[cold]
    #[inline(never)]
    fn set_made_enabled(self, line: u32, enabled: bool) {
        let Some(mailbox) = made(line) else { return };
        let register = MAILBOXES + 4 * self.routed();
        let others = self.cpus.read32(register) & !(1 << mailbox);
        self.cpus.write32(register, others | u32::from(enabled) << mailbox);
        barrier();
    }

    /// Takes one of the lines that are made by software; `sources`: those of this CPU, of which one is.
    #[cold]
    #[inline(never)]
    fn take_made(self, cpu: usize, sources: u32) -> Acknowledged {
        let mailbox = (sources & MADE_MAILBOXES).trailing_zeros() as usize - MAILBOX.trailing_zeros() as usize;
        self.cpus.write32(MAILBOX_CLEAR + 16 * cpu + 4 * mailbox, !0);
        barrier();
        Acknowledged(MADE + mailbox as u32 - 1)
    }

    /// The CPU that device lines go to.
    fn routed(self) -> usize {
        self.cpus.read32(ROUTING) as usize % CPUS
    }

    /// Takes a pending interrupt of this CPU: kicks first, then its timer, then devices.
    #[inline]
    pub fn acknowledge(self) -> Acknowledged {
        let cpu = this_cpu();
        let sources = self.cpus.read32(SOURCES + 4 * cpu);
        if sources & MAILBOX != 0 {
            let clear = MAILBOX_CLEAR + 16 * cpu;
            let number = self.cpus.read32(clear).trailing_zeros();
            if number < 32 {
                self.cpus.write32(clear, 1 << number);
                barrier();
                return Acknowledged(number);
            }
        }
        if sources & VIRTUAL_TIMER != 0 {
            return Acknowledged(VIRTUAL_TIMER_NUMBER);
        }
        if sources & DEVICES != 0 {
            for (first, at) in [SHARED, SHARED + 32].into_iter().zip(PENDING) {
                let pending = self.devices.read32(at);
                if pending != 0 {
                    barrier();
                    return Acknowledged(first + pending.trailing_zeros());
                }
            }
        }
        if sources & MADE_MAILBOXES != 0 {
            return self.take_made(cpu, sources);
        }
        Acknowledged(SPECIAL)
    }

    /// Nothing is ended here.
    #[inline(always)]
    pub fn end(self, _taken: Acknowledged) {}

    /// Interrupts a CPU by software interrupt `number`, 0 to 15.
    #[inline]
    pub fn send(self, to: Target, number: u32) {
        barrier();
        self.cpus.write32(MAILBOX_SET + 16 * to.0, 1 << number);
    }
}

/// The number of the calling CPU, of which there are four.
#[inline]
fn this_cpu() -> usize {
    let affinity: u64;
    // SAFETY: reading MPIDR_EL1 changes nothing.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) affinity, options(nomem, nostack, preserves_flags)) };
    (affinity & 3) as usize
}
