//! The kernel's door to this board.

use core::ptr::NonNull;

use fusee_abi::environment::LOST;
use fusee_abi::trace::{Level, Record};
use fusee_bsp::gic::Distributor;
use fusee_bsp::virt as board;
use fusee_kernel_core::id::{EngineUserId, InterruptId, RegionId, ThreadId};
use fusee_kernel_core::limits::{ENGINE_USERS, INTERRUPTS, REGIONS};
use fusee_kernel_core::{Fault, Machine, Place, Registers};
use fusee_sched::time::Instant;

use crate::translation::{self, Leaf, PAGE, Space, direct, invalidation};
use crate::{clock, fault, frame, interrupts, trace};

/// One task's doorbell on one engine.
pub struct Doorbell {
    /// The page's slot.
    pub leaf: Leaf,
    /// What makes all CPUs forget the page.
    pub invalidation: u64,
    /// How many commands the task has submitted: the first word of the page.
    pub submitted: NonNull<u32>,
    /// How many the engine has retired, and above that, how many it has seen.
    pub progress: NonNull<u64>,
    /// The page's descriptor, valid.
    pub mapped: u64,
    /// The same, of the memory that takes its place when the lock is taken away.
    pub replaced: u64,
    /// The word of that memory by which the task knows it.
    pub lost: NonNull<u32>,
}

// SAFETY: the words are memory for ever. All accesses are volatile and under the kernel's lock; counts are only read.
unsafe impl Send for Doorbell {}

/// What `Machine` needs to know, filled at boot.
pub struct Board {
    doorbells: [Option<Doorbell>; ENGINE_USERS],
    /// First virtual address of each region in the tasks that map it, and number of windows of a place for it.
    regions: [(u64, u64); REGIONS],
    /// The line of each interrupt.
    lines: [u32; INTERRUPTS],
    /// How many entries the first table of a task uses at most: one for each GiB up to its highest address.
    entries: u64,
}

const _: () = assert!(ENGINE_USERS.is_power_of_two() && REGIONS.is_power_of_two() && INTERRUPTS.is_power_of_two());

impl Board {
    /// A board without objects: all zero.
    pub const EMPTY: Board = Board {
        doorbells: [const { None }; ENGINE_USERS],
        regions: [(0, 0); REGIONS],
        lines: [0; INTERRUPTS],
        entries: 0,
    };

    /// Remembers the doorbell of `user`.
    pub fn set_doorbell(&mut self, user: EngineUserId, doorbell: Doorbell) {
        self.doorbells[user.index() % ENGINE_USERS] = Some(doorbell);
    }

    /// The physical address of the page that takes the place of the doorbell of `user`.
    pub fn replacement(&self, user: EngineUserId) -> Option<u64> {
        self.doorbell(user).map(|doorbell| translation::page_of(doorbell.replaced))
    }

    /// Remembers where tasks map `region`, and how many windows a place for it has.
    pub fn set_region(&mut self, region: RegionId, address: u64, windows: u64) {
        self.regions[region.index() % REGIONS] = (address, windows);
    }

    /// Remembers the line of `interrupt`.
    pub fn set_line(&mut self, interrupt: InterruptId, line: u32) {
        self.lines[interrupt.index() % INTERRUPTS] = line;
    }

    /// Remembers that a task has addresses below `end`.
    pub fn set_end(&mut self, end: u64) {
        self.entries = self.entries.max(end.div_ceil(1 << 30));
    }

    #[inline]
    fn doorbell(&self, user: EngineUserId) -> Option<&Doorbell> {
        self.doorbells[user.index() % ENGINE_USERS].as_ref()
    }
}

/// The address space of `thread`, and its number.
fn space_of(thread: ThreadId) -> (Space, u64) {
    // SAFETY: the field is written only at boot, so reading it races with nothing.
    let base = unsafe { (*frame::of(thread)).translation };
    // SAFETY: `spaces::build` put the base of the thread's address space there.
    (unsafe { Space::from_base(base) }, base >> 48)
}

/// The interrupt controller's distributor.
pub fn distributor() -> Distributor {
    let base = NonNull::new(direct(board::GIC_DISTRIBUTOR)).unwrap_or(NonNull::dangling());
    // SAFETY: the board has its distributor there, and the kernel's tables map all of `board::DEVICES`.
    unsafe { Distributor::new(base) }
}

impl Machine for Board {
    const TRACE: Level = trace::LEVEL;

    #[inline(always)]
    fn now(&mut self) -> Instant {
        clock::now()
    }

    #[inline(always)]
    fn registers(&mut self, thread: ThreadId) -> &mut Registers {
        // SAFETY: in bounds: the kernel names only threads of its arena, which is as large as the array of
        // frames. Initialised: a static. Ours: the kernel asks only for the trapping thread and for threads
        // that are `off` (`Machine`'s contract), and we are called under its lock. The reference borrows
        // `self`, so that there is one at a time.
        unsafe { &mut (*frame::of(thread)).registers }
    }

    #[inline(always)]
    fn copy_message(&mut self, from: ThreadId, to: ThreadId) {
        // SAFETY: as in `registers`, for both.
        unsafe { frame::copy_message(from, to) };
    }

    #[inline]
    fn map_doorbell(&mut self, user: EngineUserId) {
        if let Some(doorbell) = self.doorbell(user) {
            doorbell.leaf.set(doorbell.mapped);
            translation::publish();
        }
    }

    #[inline]
    fn unmap_doorbell(&mut self, user: EngineUserId) {
        if let Some(doorbell) = self.doorbell(user) {
            doorbell.leaf.hide();
            translation::publish();
            translation::withdraw(doorbell.invalidation);
            translation::wait();
        }
    }

    #[cold]
    fn replace_doorbell(&mut self, user: EngineUserId) {
        self.unmap_doorbell(user);
        if let Some(doorbell) = self.doorbell(user) {
            // SAFETY: a word of a page that `spaces::build` has set aside, which the kernel maps, and aligned. Volatile: the task
            // may have written there.
            unsafe { doorbell.lost.write_volatile(LOST) };
            doorbell.leaf.set(doorbell.replaced);
            translation::publish();
        }
    }

    #[inline]
    fn engine_is_idle(&mut self, user: EngineUserId) -> bool {
        let Some(doorbell) = self.doorbell(user) else { return true };
        // What the task stored last comes before what the device is asked: it stores its word and reads the task's again.
        translation::settle();
        // SAFETY: a word of memory the kernel maps, aligned: `spaces::build` checked both. Volatile: the
        // device writes it.
        let progress = unsafe { doorbell.progress.read_volatile() };
        // SAFETY: as above; a client may have written it.
        let submitted = u64::from(unsafe { doorbell.submitted.read_volatile() });
        submitted << 32 | submitted == progress
    }

    fn set_region_pages(&mut self, thread: ThreadId, region: RegionId, first: u64, count: u64, mapped: bool) {
        let (space, number) = space_of(thread);
        let start = self.regions[region.index() % REGIONS].0 + first * PAGE;
        for page in 0..count {
            let address = start + page * PAGE;
            let Some(leaf) = space.leaf(address) else { continue };
            if mapped {
                leaf.show();
            } else {
                leaf.hide();
            }
        }
        translation::publish();
        if !mapped {
            for page in 0..count {
                translation::withdraw(invalidation(number, start + page * PAGE));
            }
            translation::wait();
        }
    }

    fn set_place(&mut self, thread: ThreadId, region: RegionId, place: Place) {
        let (space, number) = space_of(thread);
        let (address, windows) = self.regions[region.index() % REGIONS];
        let Some(window) = space.window(address) else { return };
        if window.is_open() {
            window.shut(windows);
            translation::publish();
            // By its number, and not page by page: that is one instruction, however many pages there are.
            translation::forget_space(number);
            translation::wait();
        }
        let (scratch, writable) = match place {
            Place::Empty => return,
            Place::Lent { writable } => (false, writable),
            Place::Scratch => (true, true),
        };
        window.open(windows, scratch, writable);
        translation::publish();
    }

    fn has_passed(&mut self, thread: ThreadId, fault: &Fault) -> bool {
        let Some(address) = fault.address.filter(|_| fault::is_of_translation(fault.syndrome)) else { return false };
        space_of(thread).0.is_mapped(address)
    }

    fn close_space(&mut self, thread: ThreadId) {
        let (space, number) = space_of(thread);
        space.close(self.entries);
        translation::publish();
        translation::forget_space(number);
        translation::wait();
    }

    #[inline]
    fn set_interrupt_enabled(&mut self, interrupt: InterruptId, enabled: bool) {
        distributor().set_enabled(self.lines[interrupt.index() % INTERRUPTS], enabled);
    }

    #[inline]
    fn trace(&mut self, record: Record) {
        // SAFETY: `Machine` is called under the kernel's lock only, and boot starts the rings first.
        unsafe { trace::write(record) };
    }

    fn shutdown(&mut self, code: u32) {
        interrupts::shut_down(code);
    }
}
