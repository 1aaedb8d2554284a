//! How the GPU driver lays out the device addresses of a context: what a client may count on.
//!
//! ```text
//! page 0          nothing, so that a forgotten address faults
//! RING_BASE       the ring page
//! BUFFER_BASE     the client's buffer in system memory, at most BUFFER_PAGES
//! LOCAL_BASE      the client's share of device memory, at most LOCAL_PAGES
//! ```

use crate::{ENTRY_BYTES, PAGE_BYTES};

/// Device address of the client's buffer.
pub const BUFFER_BASE: u64 = 16 * PAGE_BYTES;
/// Pages a buffer may have.
pub const BUFFER_PAGES: u64 = 112;
/// Device address of the client's device memory.
pub const LOCAL_BASE: u64 = BUFFER_BASE + BUFFER_PAGES * PAGE_BYTES;
/// Pages of device memory a client may have.
pub const LOCAL_PAGES: u64 = 128;
/// Entries of each context's translation table; half a page holds them.
pub const TABLE_ENTRIES: u32 = ((LOCAL_BASE / PAGE_BYTES) + LOCAL_PAGES) as u32;
/// Bytes set aside for one table.
pub const TABLE_BYTES: u64 = PAGE_BYTES / 2;

const _: () = assert!(TABLE_ENTRIES as u64 * ENTRY_BYTES <= TABLE_BYTES);
