//! Translation of this CPU: every address is itself, and addresses that are not to be touched are not mapped.
//!
//! All memory may be read and written, and nothing of it run but the firmware's text, which may not be written. Below each stack is a page that is not
//! there. So a wrong access of a kernel is an exception, and not a store into a neighbour's stack.

use core::arch::asm;
use core::cell::UnsafeCell;

use fusee_bsp::board;

use crate::start;

pub const PAGE: u64 = 4 << 10;
const BLOCK: u64 = 2 << 20;
const GIB: u64 = 1 << 30;
const ENTRIES: usize = 512;

const TABLE: u64 = 3;
const LEAF: u64 = 1;
const LAST: u64 = 3;
/// Attribute 0, inner shareable, accessed.
const NORMAL: u64 = 3 << 8 | 1 << 10;
/// Attribute 1, accessed.
const DEVICE: u64 = 1 << 2 | 1 << 10;
const READ_ONLY: u64 = 1 << 7;
const NEVER_RUN: u64 = 1 << 53 | 1 << 54;

#[repr(C, align(4096))]
struct Tables(UnsafeCell<[[u64; ENTRIES]; 3]>);
// SAFETY: written once, by `start`, on the one CPU that runs this firmware, before translation is on.
unsafe impl Sync for Tables {}
static TABLES: Tables = Tables(UnsafeCell::new([[0; ENTRIES]; 3]));

/// Fills the tables and turns translation and caches on. Called once.
pub fn start() {
    let own = start::own();
    assert!(
        own.start / GIB == (own.end - 1) / GIB && own.start.is_multiple_of(BLOCK),
        "the firmware is not where it was linked"
    );
    assert!(own.end - own.start <= BLOCK, "the firmware is larger than the last table");
    // SAFETY: called once, before anybody else: the only reference.
    let [gibs, blocks, pages] = unsafe { &mut *TABLES.0.get() };
    let is_memory = |from: u64, bytes: u64| from < board::MEMORY.end && board::MEMORY.start < from + bytes;
    for (entry, from) in gibs.iter_mut().zip((0..).step_by(GIB as usize)) {
        *entry = from | LEAF | NEVER_RUN | if is_memory(from, GIB) { NORMAL } else { DEVICE };
    }
    let gib = own.start / GIB * GIB;
    for (entry, from) in blocks.iter_mut().zip((gib..).step_by(BLOCK as usize)) {
        *entry = from | LEAF | NEVER_RUN | if is_memory(from, BLOCK) { NORMAL } else { DEVICE };
    }
    for (entry, from) in pages.iter_mut().zip((own.start..).step_by(PAGE as usize)) {
        *entry = from | LAST | NORMAL | if start::text().contains(&from) { READ_ONLY } else { NEVER_RUN };
    }
    for guard in start::guards() {
        pages[((guard - own.start) / PAGE) as usize] = 0;
    }
    blocks[((own.start - gib) / BLOCK) as usize] = pages.as_ptr() as u64 | TABLE;
    gibs[(gib / GIB) as usize] = blocks.as_ptr() as u64 | TABLE;
    let (attributes, size) = (0x00FF_u64, 25_u64 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32);
    // SAFETY: the tables map every address to itself, so nothing that runs or is used moves; 39 bits of addresses, as the first table has.
    // Caches are off: only lines that others have left there are dropped from them.
    unsafe {
        asm!(
            "dsb sy",
            "bl fusee_engine_forget", // of the tables, too
            "msr mair_el1, {attributes}",
            "msr tcr_el1, {size}",
            "msr ttbr0_el1, {table}",
            "isb",
            "tlbi vmalle1",
            "dsb sy",
            "isb",
            "mrs {scratch}, sctlr_el1",
            "orr {scratch}, {scratch}, #0x1",    // translation
            "orr {scratch}, {scratch}, #0x4",    // data caches
            "orr {scratch}, {scratch}, #0x1000", // instruction caches
            "msr sctlr_el1, {scratch}",
            "isb",
            attributes = in(reg) attributes,
            size = in(reg) size,
            table = in(reg) gibs.as_ptr() as u64,
            scratch = out(reg) _,
            out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x30") _,
        );
    }
}
