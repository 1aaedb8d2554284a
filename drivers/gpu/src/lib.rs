//! The common part of the two tasks of the GPU's driver: the format of contexts, translation tables and resets.
//!
//! The driver (`main.rs`) runs the bottom halves of completions; the server of sessions (`bin/sessions`) serves requests of clients without locks.
//! They are two tasks, so that no bottom half of a job waits for a request. Both write to the control page, each to the words of its own contexts;
//! only the word that asks for a reset may be written by both, so they add to it.
#![no_std]
#![forbid(unsafe_code)]

use fusee::{Environment, Instant, Region, SharedBytes};
use fusee_accel_contract as contract;
use fusee_accel_contract::{EngineIndex, space};

/// The device, once it is there.
///
/// # Panics
/// The manifest gives this task no region "control".
#[must_use]
pub fn control(environment: &Environment) -> SharedBytes {
    let control = environment.expect::<Region>("control").shared();
    while control.observe_u32(contract::CONTROL_MAGIC as usize) != contract::MAGIC {
        // The device comes up by itself, on its own processor.
        let soon = Instant(fusee::now().now.0 + 100_000);
        let _ = fusee::sleep_until(soon);
    }
    control
}

/// A device address, the physical one behind it, how many pages, and in which memory.
pub type Window = (u64, u64, u64, contract::Memory);

/// The translation table of one context.
#[derive(Clone, Copy)]
pub struct Table {
    bytes: SharedBytes,
    physical: u64,
}

impl Table {
    /// That of `context`, in the region "tables", which has one for each of the device's contexts.
    #[must_use]
    pub fn of(control: &SharedBytes, tables: &Region, context: usize) -> Table {
        let contexts = control.read_u32(contract::CONTROL_CONTEXTS as usize) as usize;
        let bytes = tables.bytes() as usize / contexts.clamp(1, contract::CONTEXTS) / 8 * 8;
        let offset = context * bytes;
        Table { bytes: tables.shared().part(offset, bytes), physical: tables.physical() + offset as u64 }
    }

    /// Unmaps all, and maps the ring page.
    pub fn begin(&self, ring: u64) {
        self.bytes.fill(0, self.bytes.len(), 0);
        self.map(contract::RING_BASE, ring, 1, contract::Memory::System, true);
    }

    /// Maps these windows to be read and written, each of so many pages from a physical address on, and nothing else. An entry that is right already is right all the time.
    pub fn set(&self, windows: &[Option<Window>]) {
        for index in 0..self.bytes.len() as u64 / contract::ENTRY_BYTES {
            let entry = |&(address, physical, pages, memory): &Window| {
                let page = index.checked_sub(contract::table_index(address)).filter(|page| *page < pages)?;
                let page = physical + page * contract::PAGE_BYTES;
                Some(contract::TableEntry { page, writable: true, memory }.encode())
            };
            let value = windows.iter().flatten().find_map(entry).unwrap_or(0);
            self.bytes.write_u64((index * contract::ENTRY_BYTES) as usize, value);
        }
    }

    /// Maps `pages` pages from `physical` on at device address `address`.
    pub fn map(&self, address: u64, physical: u64, pages: u64, memory: contract::Memory, writable: bool) {
        for page in 0..pages {
            let entry = contract::TableEntry { page: physical + page * contract::PAGE_BYTES, writable, memory };
            let place = contract::table_index(address + page * contract::PAGE_BYTES) * contract::ENTRY_BYTES;
            self.bytes.write_u64(place as usize, entry.encode());
        }
    }

    /// Unmaps `pages` pages from device address `address` on.
    pub fn unmap(&self, address: u64, pages: u64) {
        let first = contract::table_index(address) * contract::ENTRY_BYTES;
        self.bytes.fill(first as usize, (pages * contract::ENTRY_BYTES) as usize, 0);
    }

    /// Lets the device use `context` with this table.
    pub fn open(&self, control: &SharedBytes, context: usize, shares: bool) {
        let words = contract::control_context(context) as usize;
        control.write_u64(words + contract::CONTEXT_TABLE as usize, self.physical);
        let entries = self.bytes.len() as u64 / contract::ENTRY_BYTES;
        control.write_u32(words + contract::CONTEXT_TABLE_ENTRIES as usize, entries as u32);
        let flags = contract::CONTEXT_VALID | if shares { contract::CONTEXT_SHARED } else { 0 };
        control.publish_u32(words + contract::CONTEXT_FLAGS as usize, flags);
    }
}

/// Lets the device use `context` no more: its commands at the device fail.
pub fn close(control: &SharedBytes, context: usize) {
    control
        .publish_u32((contract::control_context(context) + contract::CONTEXT_FLAGS) as usize, contract::CONTEXT_SHARED);
}

/// Asks the device to forget all commands of `context` on `engine`. Returns the number of this request.
#[must_use]
pub fn request_reset(control: &SharedBytes, engine: EngineIndex, context: usize) -> u32 {
    control.add_u32(contract::control_reset_request(context, engine) as usize, 1)
}

/// Whether the device has answered `request`, or a later one.
#[must_use]
pub fn has_reset(control: &SharedBytes, engine: EngineIndex, context: usize, request: u32) -> bool {
    let done = control.observe_u32(contract::control_reset_done(context, engine) as usize);
    done.wrapping_sub(request) as i32 >= 0
}

/// Where the ring page of `context` is, of a client that has brought none of its own.
#[must_use]
pub fn ring(rings: &Region, context: usize) -> u64 {
    rings.physical() + (context as u64 - 1) * contract::PAGE_BYTES
}

/// How many contexts clients have, all together.
#[must_use]
pub fn contexts(environment: &Environment) -> usize {
    fusee_driver::clients(environment).map(|(_, told)| space::client_contexts(told as u64).count()).sum()
}
