//! Translation tables: 39-bit addresses, 4 KiB pages, three levels, for the kernel (`TTBR1_EL1`) and each
//! task (`TTBR0_EL1`).
//!
//! Tables come from one static pool while the system boots; afterwards only leaves of tasks change, the first table
//! of one that dies, and second-level entries of places. A leaf that is *held back* has everything but its valid bit, so
//! that mapping it is one store and can never fail.
//!
//! A *place* for a region that others lend is made of *windows* of 2 MiB, which nothing else shares. Behind the
//! second-level entry of each are two last-level tables, one after the other: of the region, and of scratch memory. The
//! entry says which of them is in force, if any.
//!
//! # Invariants
//!
//! 1. No leaf is writable and executable.
//! 2. A leaf that EL0 may use is never executable at EL1, and only TTBR0 tables have such leaves.
//! 3. A descriptor once valid in a live table is never changed into another valid one: it is made invalid,
//!    invalidated on every CPU, and only then made valid again.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Virtual minus physical address of everything the kernel maps.
pub const OFFSET: u64 = 0xffff_ff80_0000_0000;
/// Bytes of a page.
pub const PAGE: u64 = 4096;
const BLOCK: u64 = 2 * 1024 * 1024;
/// Bytes of a window: the range of a last-level table.
pub const WINDOW: u64 = BLOCK;
/// Windows behind one second-level table.
pub const WINDOWS: u64 = ENTRIES as u64;
/// Addresses from here on are no task's.
pub const TASK_END: u64 = 1 << 39;

const ENTRIES: usize = 512;
/// Tables of the kernel and all tasks.
const TABLES: usize = 4096;

/// Distance of the two tables of a window: an address bit of its entry says which one is meant.
const SCRATCH: u64 = PAGE;

const VALID: u64 = 1;
const TABLE_OR_PAGE: u64 = 2;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
const EL0: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESSED: u64 = 1 << 10;
const NOT_GLOBAL: u64 = 1 << 11;
/// In entries that point to a table: nothing behind it may be written (`APTable[1]`).
const TABLE_READ_ONLY: u64 = 1 << 62;
const EL1_NO_EXECUTE: u64 = 1 << 53;
const EL0_NO_EXECUTE: u64 = 1 << 54;
/// Indices into `MAIR_EL1`, which boot code sets to [`MEMORY_TYPES`].
const DEVICE: u64 = 0 << 2;
const NORMAL: u64 = 1 << 2;
const UNCACHED: u64 = 2 << 2;
/// Device-nGnRnE; normal, write back; normal, not cached.
pub const MEMORY_TYPES: u64 = 0x44_ff_00;

/// The memory behind a page of a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Behind {
    /// Memory.
    Memory,
    /// Memory that no cache keeps. The kernel's own mapping of it is cached: it is cleaned once, and not written after.
    Uncached,
    /// A device.
    Device,
}

/// The permitted accesses to a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// The kernel executes it.
    KernelText,
    /// The kernel reads it.
    KernelRead,
    /// The kernel reads and writes it.
    KernelWrite,
    /// The kernel drives a device through it.
    KernelDevice,
    /// A task uses it.
    Task {
        /// May store to it.
        write: bool,
        /// May execute it; never together with `write`.
        execute: bool,
        /// The memory behind the page.
        behind: Behind,
    },
}

impl Access {
    /// The attributes of a leaf, without address and type bits.
    const fn attributes(self) -> u64 {
        let common = ACCESSED | INNER_SHAREABLE;
        match self {
            Self::KernelText => common | NORMAL | READ_ONLY | EL0_NO_EXECUTE,
            Self::KernelRead => common | NORMAL | READ_ONLY | EL0_NO_EXECUTE | EL1_NO_EXECUTE,
            Self::KernelWrite => common | NORMAL | EL0_NO_EXECUTE | EL1_NO_EXECUTE,
            Self::KernelDevice => common | DEVICE | EL0_NO_EXECUTE | EL1_NO_EXECUTE,
            Self::Task { write, execute, behind } => {
                let memory = match behind {
                    Behind::Memory => NORMAL,
                    Behind::Uncached => UNCACHED,
                    Behind::Device => DEVICE,
                };
                let write = if write { 0 } else { READ_ONLY };
                let execute = if execute { 0 } else { EL0_NO_EXECUTE };
                common | memory | EL0 | NOT_GLOBAL | EL1_NO_EXECUTE | write | execute
            }
        }
    }

    const fn is_task(self) -> bool {
        matches!(self, Self::Task { .. })
    }
}

/// How pages are mapped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// At once.
    Shown,
    /// Leaves are written, but not valid.
    HeldBack,
    /// A place for a region, which is shut.
    Lent,
    /// The other side of a place: each page is the one at the physical address.
    Scratch,
}

/// Why something cannot be mapped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MapError {
    /// The pool of tables is used up.
    OutOfTables,
    /// An address is not page aligned, or out of range.
    BadAddress,
    /// Something is mapped there already.
    Overlap,
    /// Writable and executable, or an executable device.
    BadAccess,
}

//--- Addresses

/// Where the kernel finds physical address `address`.
#[inline]
pub const fn direct<T>(address: u64) -> *mut T {
    (address | OFFSET) as *mut T
}

/// The physical address of something the kernel has mapped.
#[inline]
pub fn physical<T: ?Sized>(pointer: *const T) -> u64 {
    pointer.cast::<u8>() as u64 & !OFFSET
}

//--- Tables

/// One table of some level.
#[derive(Clone, Copy)]
struct Table(NonNull<u64>);

impl Table {
    /// The table that a descriptor points to.
    ///
    /// # Safety
    /// `descriptor` is a table descriptor written by this module, or the value of [`Space::base`].
    unsafe fn of(descriptor: u64) -> Self {
        let pointer = direct::<u64>(descriptor & ADDRESS);
        // SAFETY: upper-half addresses are not null.
        Self(unsafe { NonNull::new_unchecked(pointer) })
    }

    /// The slot for `address` at `level` (1 to 3).
    fn slot(self, address: u64, level: u32) -> NonNull<u64> {
        let index = address >> (12 + 9 * (3 - level)) & (ENTRIES as u64 - 1);
        // SAFETY: index < ENTRIES, and a table has that many: it came from the pool.
        unsafe { self.0.add(index as usize) }
    }
}

#[inline]
fn load(slot: NonNull<u64>) -> u64 {
    // SAFETY: a slot of a table from the pool, which lives for ever. Volatile: the hardware reads it, too.
    unsafe { slot.read_volatile() }
}

#[inline]
fn store(slot: NonNull<u64>, descriptor: u64) {
    // SAFETY: as in `load`; the memory that the store makes reachable is checked by `Space::map`, or was by then.
    unsafe { slot.write_volatile(descriptor) };
}

// Aligned to two tables, for windows.
#[repr(C, align(8192))]
struct Memory(UnsafeCell<[[MaybeUninit<u64>; ENTRIES]; TABLES]>);

// SAFETY: each table is handed out once, by the one `Pool`.
unsafe impl Sync for Memory {}

#[unsafe(link_section = ".noinit")]
static MEMORY: Memory = Memory(UnsafeCell::new([[const { MaybeUninit::uninit() }; ENTRIES]; TABLES]));

/// The tables not used yet.
pub struct Pool {
    used: usize,
}

impl Pool {
    /// All tables.
    ///
    /// # Safety
    /// Called once.
    pub unsafe fn take() -> Self {
        Self { used: 0 }
    }

    #[inline(never)]
    fn allocate(&mut self) -> Result<Table, MapError> {
        if self.used == TABLES {
            return Err(MapError::OutOfTables);
        }
        let table = MEMORY.0.get().cast::<[u64; ENTRIES]>().wrapping_add(self.used);
        self.used += 1;
        // SAFETY: inside the static array, aligned like it, and never handed out before: `used` only grows and
        // there is one pool.
        unsafe { table.write([0; ENTRIES]) };
        NonNull::new(table.cast()).map(Table).ok_or(MapError::OutOfTables)
    }

    /// The physical address of a page of zeros, which is no table: for memory that tasks may have in the place of other.
    ///
    /// # Errors
    /// [`MapError::OutOfTables`].
    pub fn page(&mut self) -> Result<u64, MapError> {
        self.allocate().map(|Table(page)| physical(page.as_ptr()))
    }

    /// Two tables, one after the other, of which the first lies at a multiple of both.
    fn allocate_two(&mut self) -> Result<Table, MapError> {
        self.used = self.used.next_multiple_of(2);
        let first = self.allocate()?;
        self.allocate()?;
        Ok(first)
    }
}

/// One address space: the kernel's or a task's.
#[derive(Clone, Copy)]
pub struct Space {
    root: Table,
}

impl Space {
    /// An empty address space.
    ///
    /// # Errors
    /// [`MapError::OutOfTables`].
    pub fn new(pool: &mut Pool) -> Result<Self, MapError> {
        Ok(Self { root: pool.allocate()? })
    }

    /// The address space with its [`Space::base`] in `base`, which may hold an address-space number, too.
    ///
    /// # Safety
    /// There is such an address space.
    pub unsafe fn from_base(base: u64) -> Self {
        // SAFETY: promised by our caller.
        Self { root: unsafe { Table::of(base) } }
    }

    /// The physical address of the first table.
    pub fn base(self) -> u64 {
        physical(self.root.0.as_ptr())
    }

    /// Maps `bytes` bytes, as `how` says. Kernel mappings use 2 MiB blocks where they can.
    ///
    /// # Errors
    /// [`MapError`]; part of the range may be mapped by then.
    pub fn map(
        self,
        pool: &mut Pool,
        address: u64,
        physical: u64,
        bytes: u64,
        access: Access,
        how: How,
    ) -> Result<(), MapError> {
        let end = address.checked_add(bytes).ok_or(MapError::BadAddress)?;
        let physical_end = physical.checked_add(bytes).ok_or(MapError::BadAddress)?;
        if !(address | physical | bytes).is_multiple_of(PAGE) || physical_end > ADDRESS {
            return Err(MapError::BadAddress);
        }
        if access.is_task() != (end <= TASK_END) || !access.is_task() && address < OFFSET {
            return Err(MapError::BadAddress);
        }
        if let Access::Task { execute: true, write, behind } = access
            && (write || behind != Behind::Memory)
        {
            return Err(MapError::BadAccess);
        }
        let attributes = access.attributes() | if how == How::HeldBack { 0 } else { VALID };
        let mut done = 0;
        while done < bytes {
            let at = address + done;
            let to = if how == How::Scratch { physical } else { physical + done };
            let block = !access.is_task() && (at | to).is_multiple_of(BLOCK) && bytes - done >= BLOCK;
            let second = self.descend(pool, self.root.slot(at, 1))?;
            let (slot, leaf, step) = if block {
                (second.slot(at, 2), to | attributes, BLOCK)
            } else {
                let third = match how {
                    How::Shown | How::HeldBack => self.descend(pool, second.slot(at, 2))?,
                    How::Lent => self.window_table(pool, second.slot(at, 2), 0)?,
                    How::Scratch => self.window_table(pool, second.slot(at, 2), SCRATCH)?,
                };
                (third.slot(at, 3), to | attributes | TABLE_OR_PAGE, PAGE)
            };
            if load(slot) != 0 {
                return Err(MapError::Overlap);
            }
            store(slot, leaf);
            done += step;
        }
        Ok(())
    }

    /// The table behind `slot`, made if there is none.
    #[inline(never)]
    fn descend(self, pool: &mut Pool, slot: NonNull<u64>) -> Result<Table, MapError> {
        let descriptor = load(slot);
        if descriptor == 0 {
            let table = pool.allocate()?;
            store(slot, physical(table.0.as_ptr()) | TABLE_OR_PAGE | VALID);
            return Ok(table);
        }
        // A block, or the window of a place.
        if descriptor & (TABLE_OR_PAGE | VALID) != TABLE_OR_PAGE | VALID {
            return Err(MapError::Overlap);
        }
        // SAFETY: a valid table descriptor: while the system boots, only this function writes both bits above level 3.
        Ok(unsafe { Table::of(descriptor) })
    }

    /// One of the two tables of the window behind `slot`, which are made if there are none.
    #[inline(never)]
    fn window_table(self, pool: &mut Pool, slot: NonNull<u64>, side: u64) -> Result<Table, MapError> {
        if load(slot) == 0 {
            store(slot, physical(pool.allocate_two()?.0.as_ptr()) | TABLE_OR_PAGE);
        }
        if load(slot) & VALID != 0 {
            return Err(MapError::Overlap);
        }
        // SAFETY: not valid, yet not empty: while the system boots, only this function writes that above level 3, with the
        // first of two tables.
        Ok(unsafe { Table::of(load(slot) | side) })
    }

    /// The first window of the place at `address`, if anything is there.
    #[inline]
    pub fn window(self, address: u64) -> Option<Window> {
        let descriptor = load(self.root.slot(address, 1));
        if descriptor & TABLE_OR_PAGE == 0 {
            return None;
        }
        // SAFETY: a table descriptor, by the test above.
        let slot = unsafe { Table::of(descriptor) }.slot(address, 2);
        (load(slot) != 0).then_some(Window(slot))
    }

    /// The leaf for an address that a task has used, as [`Space::leaf`].
    #[inline(never)]
    pub fn leaf_of(self, address: u64) -> Option<Leaf> {
        if address < TASK_END { self.leaf(address) } else { None }
    }

    /// The instruction at `address`, if the task may execute it.
    pub fn instruction(self, address: u64) -> Option<u32> {
        let Leaf(slot) = self.leaf_of(address)?;
        let descriptor = load(slot);
        if descriptor & (VALID | EL0 | EL0_NO_EXECUTE) != VALID | EL0 || !address.is_multiple_of(4) {
            return None;
        }
        // SAFETY: memory that a task may execute is memory that the kernel maps (`Space::map` refuses all else), the address is in the page and
        // aligned. It is not written: no leaf is writable and executable.
        Some(unsafe { direct::<u32>(page_of(descriptor) | (address % PAGE)).read_volatile() })
    }

    /// Makes all addresses below `entries` GiB invalid for good. [`forget_space`] must follow.
    ///
    /// A CPU may have this space's base loaded still, and walk its tables: they do not change behind the entries of
    /// the first one, which it finds invalid.
    #[inline]
    pub fn close(self, entries: u64) {
        for entry in 0..entries {
            Leaf(self.root.slot(entry << 30, 1)).hide();
        }
    }

    /// Makes all addresses below `entries` GiB valid again that were so before they were closed. [`publish`] must follow.
    #[inline]
    pub fn open(self, entries: u64) {
        for entry in 0..entries {
            let slot = self.root.slot(entry << 30, 1);
            if load(slot) != 0 {
                Leaf(slot).show();
            }
        }
    }

    /// Whether any address below `entries` GiB may be valid.
    #[cfg(feature = "check")]
    pub fn is_open(self, entries: u64) -> bool {
        (0..entries).any(|entry| load(self.root.slot(entry << 30, 1)) & VALID != 0)
    }

    /// The leaf for `address`, mapped or held back; none in a place where nothing is.
    pub fn leaf(self, address: u64) -> Option<Leaf> {
        let mut table = self.root;
        for level in 1..3 {
            let descriptor = load(table.slot(address, level));
            if descriptor & (TABLE_OR_PAGE | VALID) != TABLE_OR_PAGE | VALID {
                return None;
            }
            // SAFETY: a table descriptor, by the test above.
            table = unsafe { Table::of(descriptor) };
        }
        let slot = table.slot(address, 3);
        (load(slot) != 0).then_some(Leaf(slot))
    }
}

/// The slot of one page of a task.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Leaf(NonNull<u64>);

// SAFETY: a leaf names a word of a table, which lives for ever; the right to change it is settled by the kernel's
// lock, under which `Machine` is called.
unsafe impl Send for Leaf {}

impl Leaf {
    /// Whether the page is mapped.
    pub fn is_valid(self) -> bool {
        load(self.0) & VALID != 0
    }

    /// Whether `descriptor` is in the entry.
    #[cfg(feature = "check")]
    pub fn is(self, descriptor: u64) -> bool {
        load(self.0) == descriptor
    }

    /// Whether the page is mapped, and may be stored to.
    pub fn is_writable(self) -> bool {
        load(self.0) & (VALID | READ_ONLY) == VALID
    }

    /// Makes the page valid. A barrier must follow: [`publish`].
    #[inline]
    pub fn show(self) {
        store(self.0, load(self.0) | VALID);
    }

    /// The page's descriptor, made valid, and the same for the page at `physical` instead.
    pub fn descriptors(self, physical: u64) -> [u64; 2] {
        let own = load(self.0) | VALID;
        [own, own & !ADDRESS | physical & ADDRESS]
    }

    /// Puts one of its [descriptors](Leaf::descriptors) there. The page must be invalid, and forgotten by all CPUs. A barrier must
    /// follow: [`publish`].
    #[inline]
    pub fn set(self, descriptor: u64) {
        store(self.0, descriptor);
    }

    /// Makes the page invalid. [`withdraw`] must follow for its address.
    #[inline]
    pub fn hide(self) {
        store(self.0, load(self.0) & !VALID);
    }
}

/// The physical address of the page that a leaf's descriptor maps.
pub const fn page_of(descriptor: u64) -> u64 {
    descriptor & ADDRESS
}

/// The descriptor of the same page that may be stored to or not.
pub const fn with_access(descriptor: u64, writable: bool) -> u64 {
    if writable { descriptor & !READ_ONLY } else { descriptor | READ_ONLY }
}

/// The entry of a window; those of the other windows of its place follow it.
#[derive(Clone, Copy)]
pub struct Window(NonNull<u64>);

impl Window {
    /// The entries of the place's windows.
    ///
    /// `count` must be the number that boot has found: `spaces::build` computes it so that they end with their table, and
    /// looks at each with [`Window::is_provided`].
    #[inline]
    fn entries(self, count: u64) -> impl Iterator<Item = NonNull<u64>> {
        // SAFETY: a table has an entry for each window up to the next GiB: `count` is no more than those.
        (0..count as usize).map(move |window| unsafe { self.0.add(window) })
    }

    /// Whether each window has its tables, and none is open.
    pub fn is_provided(self, count: u64) -> bool {
        self.entries(count).all(|entry| load(entry) != 0 && load(entry) & VALID == 0)
    }

    /// Whether something is mapped there.
    #[inline]
    pub fn is_open(self) -> bool {
        load(self.0) & VALID != 0
    }

    /// The mapping there, if there is one: whether it is scratch memory, and whether it may be stored to.
    #[cfg(feature = "check")]
    pub fn shown(self) -> Option<(bool, bool)> {
        let entry = load(self.0);
        (entry & VALID != 0).then_some((entry & SCRATCH != 0, entry & TABLE_READ_ONLY == 0))
    }

    /// Makes all of the place invalid. [`publish`], [`forget_space`] and [`wait`] must follow.
    #[inline]
    pub fn shut(self, count: u64) {
        self.entries(count).for_each(|entry| store(entry, load(entry) & !VALID));
    }

    /// Puts the region or the scratch memory at a place that is shut. [`publish`] must follow.
    #[inline]
    pub fn open(self, count: u64, scratch: bool, writable: bool) {
        let side = if scratch { SCRATCH } else { 0 };
        let access = if writable { 0 } else { TABLE_READ_ONLY };
        self.entries(count).for_each(|entry| {
            let tables = load(entry) & ADDRESS & !SCRATCH;
            store(entry, tables | side | access | TABLE_OR_PAGE | VALID);
        });
    }
}

/// Makes entries just made valid visible to all table walks from here on; a task is entered by an exception
/// return, which is the `isb` that goes with it.
#[inline]
pub fn publish() {
    // SAFETY: a barrier changes no state; not `nomem`, as it orders the stores of leaves.
    unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) };
}

/// Orders all accesses before it against all accesses after it, for CPUs and devices.
#[inline]
pub fn settle() {
    // SAFETY: a barrier changes no state; not `nomem`, as it orders accesses to memory.
    unsafe { asm!("dmb ish", options(nostack, preserves_flags)) };
}

/// The argument of `tlbi vae1is` for a page of the task with address-space number `number`.
pub const fn invalidation(number: u64, address: u64) -> u64 {
    number << 48 | address >> 12 & 0xfff_ffff_ffff
}

/// Makes every CPU forget a page with a leaf that was just made invalid. Complete only after [`wait`].
#[inline]
pub fn withdraw(invalidation: u64) {
    // SAFETY: forgetting a translation is always allowed: it would be found again in the tables.
    unsafe { asm!("tlbi vae1is, {}", in(reg) invalidation, options(nostack, preserves_flags)) };
}

/// Makes every CPU forget all addresses of the task with address-space number `number`, and the tables behind them.
/// Complete only after [`wait`].
#[inline]
pub fn forget_space(number: u64) {
    // SAFETY: forgetting a translation is always allowed: it would be found again in the tables.
    unsafe { asm!("tlbi aside1is, {}", in(reg) number << 48, options(nostack, preserves_flags)) };
}

/// Waits until all CPUs have completed this CPU's TLB invalidations, and their accesses through the removed translations are complete.
#[inline]
pub fn wait() {
    // SAFETY: a barrier changes no state.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
}

/// Makes `bytes` bytes just written from `start` on fit to be executed on every CPU, and to be read past the caches.
pub fn synchronise(start: u64, bytes: u64) {
    const LINE: usize = 64;
    for line in (start..start + bytes).step_by(LINE) {
        let line = direct::<u8>(line);
        // SAFETY: cleaning and dropping a mapped line changes no data; 64 bytes is at most the size of a line on the CPUs of our boards.
        unsafe { asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: forgetting instructions is always allowed.
    unsafe { asm!("dsb sy", "ic ialluis", "dsb ish", "isb", options(nostack, preserves_flags)) };
}
