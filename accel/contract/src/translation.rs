//! The translation table of a context: the memory that the device may touch on its behalf.
//!
//! An array of 64-bit entries, one for each page of device addresses, starting with page 0.
//! It lies in memory of one of the device's windows, contiguous, eight-byte aligned. The
//! device keeps no copy: a changed entry takes effect at the next page it touches, so a
//! driver that takes a page away first waits until the context is idle, or resets it.

use crate::PAGE_BYTES;

/// The kind of memory that a page is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Memory {
    /// Memory of the board: rings, fences and one end of each copy; operands of an execution engine without copy engines.
    System,
    /// Memory of the device: operands of the execution engine, other end of each copy. A device without copy engines has none.
    Local,
    /// Memory of another device: where [`crate::Operation::PeerCopy`] copies from, and nothing else.
    Peer,
}

/// One valid entry of a translation table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TableEntry {
    /// Physical address of the page, a multiple of [`PAGE_BYTES`], below 2^48.
    pub page: u64,
    /// Whether the device may write to it.
    pub writable: bool,
    /// The kind of memory that it is in. The device checks that the page is in that memory's window.
    pub memory: Memory,
}

/// Bit of an entry: the page may be used at all.
pub const ENTRY_VALID: u64 = 1;
/// Bit of an entry: the device may write to the page.
pub const ENTRY_WRITE: u64 = 2;
/// Bit of an entry: the page is device memory.
pub const ENTRY_LOCAL: u64 = 4;
/// Bit of an entry: the page is memory of another device. Never together with [`ENTRY_LOCAL`].
pub const ENTRY_PEER: u64 = 8;
/// Bits of an entry that hold the page's physical address. All others are 0.
pub const ENTRY_PAGE: u64 = 0x0000_FFFF_FFFF_F000;
/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 8;

impl TableEntry {
    /// The entry as it stands in the table. Address bits that no page has are dropped.
    #[must_use]
    pub const fn encode(self) -> u64 {
        let write = if self.writable { ENTRY_WRITE } else { 0 };
        let memory = match self.memory {
            Memory::System => 0,
            Memory::Local => ENTRY_LOCAL,
            Memory::Peer => ENTRY_PEER,
        };
        self.page & ENTRY_PAGE | ENTRY_VALID | write | memory
    }

    /// Reads an entry; `None` if it is not valid or has a bit set that means nothing.
    #[must_use]
    pub const fn decode(word: u64) -> Option<Self> {
        let known = ENTRY_PAGE | ENTRY_VALID | ENTRY_WRITE | ENTRY_LOCAL | ENTRY_PEER;
        if word & ENTRY_VALID == 0 || word & !known != 0 {
            return None;
        }
        let memory = match word & (ENTRY_LOCAL | ENTRY_PEER) {
            0 => Memory::System,
            ENTRY_LOCAL => Memory::Local,
            ENTRY_PEER => Memory::Peer,
            _ => return None,
        };
        Some(Self { page: word & ENTRY_PAGE, writable: word & ENTRY_WRITE != 0, memory })
    }
}

/// The number of the entry for a device address.
#[must_use]
pub const fn table_index(device_address: u64) -> u64 {
    device_address / PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(word: u64) {
            for candidate in [word, word & 0xFFFF_FFFF_FFFF, word & (ENTRY_PAGE | 15) | 1] {
                if let Some(entry) = TableEntry::decode(candidate) {
                    prop_assert_eq!(entry.encode(), candidate);
                }
            }
        }
    }
}
