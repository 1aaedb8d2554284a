//! One context's view of memory: device addresses in, physical addresses out, or a fault.
//!
//! Nothing is remembered from one access to the next but where the table is, and that only
//! for one slice of work.

use crate::{Bus, BusError};
use fusee_accel_contract::timing::Slowdown;
use fusee_accel_contract::{CopyEngines, DEVICES, ENTRY_BYTES, FaultKind, Memory, PAGE_BYTES, TableEntry, table_index};

/// A range of physical addresses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Window {
    /// First address, a multiple of a page.
    pub base: u64,
    /// Bytes, a multiple of a page.
    pub length: u64,
}

impl Window {
    /// Whether all of a range of `length` bytes is inside.
    #[must_use]
    pub const fn contains(&self, address: u64, length: u64) -> bool {
        match address.checked_sub(self.base) {
            Some(offset) => offset <= self.length && length <= self.length - offset,
            None => false,
        }
    }

    /// Whether the two share an address.
    #[must_use]
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.length > 0
            && other.length > 0
            && self.base < other.base.saturating_add(other.length)
            && other.base < self.base.saturating_add(self.length)
    }
}

/// Other devices that one can copy from.
pub const PEERS: usize = DEVICES - 1;

/// Memory of another device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Peer {
    /// Where it is.
    pub memory: Window,
    /// The way from there.
    pub slowdown: Slowdown,
}

impl Peer {
    /// No device.
    pub const NONE: Self = Self { memory: Window { base: 0, length: 0 }, slowdown: Slowdown::NEAR };
}

/// The kind of a fault, and its device address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Fault {
    pub kind: FaultKind,
    pub address: u64,
}

/// Whether an access reads or writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The translation of one context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub table: u64,
    pub entries: u32,
    pub local: Window,
    pub system: Window,
    pub copy_engines: CopyEngines,
    pub peers: [Peer; PEERS],
}

impl Space {
    /// The physical address of one byte. Its neighbours up to the end of the page follow.
    pub fn translate(&self, bus: &mut impl Bus, address: u64, memory: Memory, access: Access) -> Result<u64, Fault> {
        let fault = |kind| Fault { kind, address };
        let entry = self.entry(bus, address)?;
        if entry.memory != memory {
            return Err(fault(FaultKind::WrongMemory));
        }
        if access == Access::Write && !entry.writable {
            return Err(fault(FaultKind::NotWritable));
        }
        let inside = match memory {
            Memory::Local => self.local.contains(entry.page, PAGE_BYTES),
            Memory::System => self.system.contains(entry.page, PAGE_BYTES),
            Memory::Peer => self.peers.iter().any(|peer| peer.memory.contains(entry.page, PAGE_BYTES)),
        };
        if !inside {
            return Err(fault(FaultKind::OutsideWindow));
        }
        Ok(entry.page + address % PAGE_BYTES)
    }

    /// The memory in which one byte lies.
    pub fn memory_of(&self, bus: &mut impl Bus, address: u64) -> Result<Memory, Fault> {
        Ok(self.entry(bus, address)?.memory)
    }

    fn entry(&self, bus: &mut impl Bus, address: u64) -> Result<TableEntry, Fault> {
        let fault = |kind| Fault { kind, address };
        let index = table_index(address);
        if index >= u64::from(self.entries) || !self.table.is_multiple_of(ENTRY_BYTES) {
            return Err(fault(FaultKind::NotMapped));
        }
        let entry = index
            .checked_mul(ENTRY_BYTES)
            .and_then(|offset| self.table.checked_add(offset))
            .filter(|&at| self.system.contains(at, ENTRY_BYTES) || self.local.contains(at, ENTRY_BYTES))
            .ok_or(fault(FaultKind::OutsideWindow))?;
        let word = bus.read_u64(entry).map_err(|BusError| fault(FaultKind::Bus))?;
        TableEntry::decode(word).ok_or(fault(FaultKind::NotMapped))
    }

    /// Reads bytes, page by page.
    pub fn read(&self, bus: &mut impl Bus, address: u64, memory: Memory, buffer: &mut [u8]) -> Result<(), Fault> {
        let (mut address, mut rest) = (address, buffer);
        while !rest.is_empty() {
            let physical = self.translate(bus, address, memory, Access::Read)?;
            let (chunk, tail) = rest.split_at_mut(rest.len().min(left_in_page(address) as usize));
            bus.read(physical, chunk).map_err(|BusError| Fault { kind: FaultKind::Bus, address })?;
            address = advance(address, chunk.len() as u64)?;
            rest = tail;
        }
        Ok(())
    }

    /// Copies `length` bytes from one memory to another, page by page, leaving out the first `begin`.
    pub fn copy_part(
        &self,
        bus: &mut impl Bus,
        (destination, destination_memory): (u64, Memory),
        (source, source_memory): (u64, Memory),
        begin: u64,
        length: u64,
    ) -> Result<(), Fault> {
        let mut done = 0;
        while done < length {
            let from = advance(source, begin + done)?;
            let to = advance(destination, begin + done)?;
            let chunk = (length - done).min(left_in_page(from)).min(left_in_page(to));
            let read = self.translate(bus, from, source_memory, Access::Read)?;
            let written = self.translate(bus, to, destination_memory, Access::Write)?;
            bus.copy(written, read, chunk).map_err(|BusError| Fault { kind: FaultKind::Bus, address: from })?;
            done += chunk;
        }
        Ok(())
    }

    /// Writes one aligned word of system memory.
    pub fn write_word(&self, bus: &mut impl Bus, address: u64, value: u32) -> Result<(), Fault> {
        let physical = self.translate(bus, address, Memory::System, Access::Write)?;
        bus.write_u32(physical, value).map_err(|BusError| Fault { kind: FaultKind::Bus, address })
    }
}

fn left_in_page(address: u64) -> u64 {
    PAGE_BYTES - address % PAGE_BYTES
}

fn advance(address: u64, by: u64) -> Result<u64, Fault> {
    // Device addresses end where the largest table ends, far below 2^64.
    address.checked_add(by).ok_or(Fault { kind: FaultKind::NotMapped, address })
}
