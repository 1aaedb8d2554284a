//! The interrupt translation service: a store of an event number becomes an interrupt of one CPU.
//!
//! Used for one thing: clients kick the emulated accelerator by storing an event number to the ITS's
//! translation page, and the CPU that plays the accelerator wakes from `wfi`. A CPU's own store is taken for
//! DeviceID 0; that is QEMU's behaviour, not the architecture's.

use core::arch::asm;
use core::ptr::NonNull;

use crate::mmio::Registers;

/// Number of the first message-signalled interrupt.
pub const FIRST_MESSAGE: u32 = 8192;

/// Offset of the register of which a store makes an interrupt: the event that was stored (Arm IHI 0069, `GITS_TRANSLATER`).
pub const TRANSLATER: u64 = 0x1_0040;

const PAGE: usize = 64 * 1024;
/// Bits of an event's number, and of a message-signalled interrupt's number: the least QEMU accepts is 14.
const EVENT_BITS: u64 = 5;
const NUMBER_BITS: u64 = 14;
/// Enabled, priority 0x80.
const PROPERTY: u8 = 0x81;

// Distributor, redistributor and ITS registers.
const R_CONTROL: usize = 0x00;
const R_PROPERTIES: usize = 0x70;
const R_PENDING: usize = 0x78;
const CONTROL: usize = 0x00;
const COMMAND_BASE: usize = 0x80;
const COMMAND_WRITE: usize = 0x88;
const COMMAND_READ: usize = 0x90;
const TABLE_BASE: usize = 0x100;
const TABLE_BASES: usize = 8;
const VALID: u64 = 1 << 63;
const PENDING_ZERO: u64 = 1 << 62;
/// Inner shareable, write back; where shareability and inner cacheability stand in each register.
const TABLE_ATTRIBUTES: u64 = 7 << 59 | 1 << 10;
const REDISTRIBUTOR_ATTRIBUTES: u64 = 7 << 7 | 1 << 10;
/// Types of the tables that need memory.
const DEVICES: u64 = 1;
const COLLECTIONS: u64 = 4;

/// Memory the ITS and one redistributor work in.
#[repr(C, align(65536))]
pub struct Memory {
    devices: [u8; PAGE],
    collections: [u8; PAGE],
    commands: [u64; PAGE / 8],
    pending: [u8; PAGE],
    properties: [u8; PAGE],
    translations: [u8; PAGE],
}

/// The ITS did not do as it was told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unresponsive;

/// Makes event `e` of DeviceID 0, for each `e` below `events` (at most 32), interrupt `FIRST_MESSAGE + e` of
/// the CPU `cpu` of the board. `physical` is the physical address of `memory`.
///
/// # Errors
/// [`Unresponsive`] if the command queue is not worked off.
///
/// # Safety
/// - `its` and `redistributor` are mapped as device memory (64 KiB each) and are an ITS and the
///   redistributor of CPU `cpu`, neither set up before.
/// - `physical` is the physical address of `memory`.
pub unsafe fn route_events(
    its: NonNull<u8>,
    redistributor: NonNull<u8>,
    cpu: usize,
    events: u32,
    memory: &'static mut Memory,
    physical: u64,
) -> Result<(), Unresponsive> {
    // SAFETY: mapped: promised by our caller. Harmless: the ITS writes only the memory it is given below,
    // which is ours for ever (`&'static mut`), at the address our caller vouches for.
    let its = unsafe { Registers::new(its) };
    // SAFETY: the same for the redistributor and its pending table.
    let redistributor = unsafe { Registers::new(redistributor) };
    for table in [&mut memory.devices, &mut memory.collections, &mut memory.pending, &mut memory.translations] {
        table.fill(0);
    }
    memory.properties.fill(PROPERTY);
    memory.commands.fill(0);
    let table = |number: u64| physical + number * PAGE as u64;
    let (devices, collections, commands) = (table(0), table(1), table(2));
    let (pending, properties, translations) = (table(3), table(4), table(5));

    redistributor.write64(R_PROPERTIES, properties | REDISTRIBUTOR_ATTRIBUTES | (NUMBER_BITS - 1));
    redistributor.write64(R_PENDING, pending | PENDING_ZERO | REDISTRIBUTOR_ATTRIBUTES);
    redistributor.write32(R_CONTROL, redistributor.read32(R_CONTROL) | 1);

    for index in 0..TABLE_BASES {
        let register = TABLE_BASE + 8 * index;
        let memory = match its.read64(register) >> 56 & 7 {
            DEVICES => devices,
            COLLECTIONS => collections,
            _ => continue,
        };
        const PAGE_64K: u64 = 2 << 8;
        its.write64(register, VALID | TABLE_ATTRIBUTES | memory | PAGE_64K);
    }
    its.write64(COMMAND_BASE, VALID | TABLE_ATTRIBUTES | commands | (PAGE as u64 / 4096 - 1));
    its.write64(COMMAND_WRITE, 0);
    its.write32(CONTROL, 1);

    // Commands: QEMU wants a collection's target as a CPU number in bits 16 up (GITS_TYPER.PTA = 0).
    const COLLECTION: u64 = 0;
    let target = (cpu as u64) << 16;
    let mut queue = Queue { words: &mut memory.commands, used: 0 };
    queue.push([0x09, 0, VALID | target | COLLECTION, 0]);
    queue.push([0x08, EVENT_BITS - 1, VALID | translations, 0]);
    for event in 0..events.min(1 << EVENT_BITS) {
        let number = u64::from(FIRST_MESSAGE + event);
        queue.push([0x0a, u64::from(event) | number << 32, COLLECTION, 0]);
        queue.push([0x0c, u64::from(event), 0, 0]);
    }
    queue.push([0x05, 0, target, 0]);
    let end = queue.used as u64 * 8;
    // SAFETY: a barrier changes no state. It is given the memory's address, and is not `nomem`: the ITS must
    // find the commands, and the redistributor the properties, in memory before it is told to look.
    unsafe { asm!("dsb sy", "/* {0} */", in(reg) &raw const *memory, options(nostack, preserves_flags)) };
    its.write64(COMMAND_WRITE, end);
    const PATIENCE: u32 = 1_000_000;
    for _ in 0..PATIENCE {
        if its.read64(COMMAND_READ) == end {
            return Ok(());
        }
        crate::relax();
    }
    Err(Unresponsive)
}

struct Queue<'a> {
    words: &'a mut [u64],
    used: usize,
}

impl Queue<'_> {
    fn push(&mut self, command: [u64; 4]) {
        self.words[self.used..self.used + 4].copy_from_slice(&command);
        self.used += 4;
    }
}
