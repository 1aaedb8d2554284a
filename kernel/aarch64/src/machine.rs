//! The kernel's door to this board.

use core::ptr::NonNull;

use fusee_abi::environment::LOST;
use fusee_abi::image::GATE_SHUT;
use fusee_abi::trace::{Level, Record};
use fusee_kernel_core::id::{EngineId, EngineUserId, InterruptId, NotificationId, RegionId, ThreadId};
use fusee_kernel_core::limits::{
    ENGINE_USERS, ENGINES, INTERRUPTS, LIVES, MEMBERS, REGIONS, RESTARTS, SPATIAL, STREAMS,
};
#[cfg(feature = "check")]
use fusee_kernel_core::reach::Reach;
use fusee_kernel_core::{Fault, Machine, Members, Page, Place, Registers, Store, stored_register};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::panic::Plain;
use crate::streams::Streams;
use crate::translation::{self, Leaf, PAGE, Space, invalidation};
use crate::{clock, engine, fault, frame, interrupts, trace};

/// One task's doorbell on one engine.
pub struct Doorbell {
    /// The page's slot.
    pub leaf: Leaf,
    /// The operand that makes all CPUs forget the page.
    pub invalidation: u64,
    /// How many commands the task has submitted: the first word of the page.
    pub submitted: NonNull<u32>,
    /// How many the engine has retired, and above that, how many it has seen.
    pub progress: NonNull<u64>,
    /// The page's descriptor, valid.
    pub mapped: u64,
    /// The descriptor of the memory that takes its place when the lock is taken away.
    pub replaced: u64,
    /// The word of that memory by which the task knows it.
    pub lost: NonNull<u32>,
}

// SAFETY: the words are memory for ever. All accesses are volatile and under the kernel's lock; counts are only read.
unsafe impl Send for Doorbell {}

/// The gate of one engine.
#[derive(Clone, Copy)]
pub struct Gate {
    /// Whether it is shut.
    pub shut: NonNull<u32>,
    /// How many shared commands have ended, and above that, how many have begun.
    pub progress: NonNull<u64>,
}

// SAFETY: the words are memory for ever. All accesses are volatile and under the kernel's lock; counts are only read.
unsafe impl Send for Gate {}

/// The words of a user of an engine with a device that decides.
#[derive(Clone, Copy)]
pub struct Keyed {
    /// The key of its job.
    pub key: NonNull<u64>,
    /// For how long it has occupied the engine.
    pub occupied: NonNull<u64>,
}

// SAFETY: the words are memory for ever. All accesses are volatile and under the kernel's lock; counts are only read.
unsafe impl Send for Keyed {}

/// The doorbell of a client that stores to it when a server lets it.
#[derive(Clone, Copy)]
pub struct Shared {
    /// The engine of the doorbell.
    pub engine: EngineId,
    /// The page's slot.
    pub leaf: Leaf,
    /// The operand that makes all CPUs forget the page.
    pub invalidation: u64,
    /// The page's descriptor, valid, to be read.
    pub mapped: u64,
    /// That of its shadow, valid.
    pub shadow: u64,
}

/// The data of `Machine`, filled at boot.
pub struct Board {
    doorbells: [Option<Doorbell>; ENGINE_USERS],
    /// The gates of engines that clients without a lock have meanwhile.
    gates: [Option<Gate>; ENGINES],
    /// The words of users of engines with devices that decide.
    keyed: [Option<Keyed>; KEYED],
    /// The doorbells of clients that a server decides on.
    shared: [Option<Shared>; MEMBERS],
    /// First virtual address of each region in the tasks that map it, and number of windows of a place for it.
    regions: [(u64, u64); REGIONS],
    /// The line of each interrupt.
    lines: [u32; INTERRUPTS],
    /// Where each task begins: instruction, stack, and environment page.
    births: [[u64; 3]; LIVES],
    /// Devices that are kept from memory which is not theirs.
    streams: [Streams; if STREAMS { 1 } else { 0 }],
    /// How many entries the first table of a task uses at most: one for each GiB up to its highest address.
    entries: u64,
}

/// Users of engines that may have such words.
const KEYED: usize = if SPATIAL { ENGINE_USERS } else { 2 };

const _: () = assert!(
    ENGINES.is_power_of_two()
        && ENGINE_USERS.is_power_of_two()
        && REGIONS.is_power_of_two()
        && INTERRUPTS.is_power_of_two()
        && MEMBERS.is_power_of_two()
);

impl Board {
    /// A board without objects: all zero.
    pub const EMPTY: Board = Board {
        doorbells: [const { None }; ENGINE_USERS],
        gates: [None; ENGINES],
        keyed: [None; KEYED],
        shared: [None; MEMBERS],
        regions: [(0, 0); REGIONS],
        lines: [0; INTERRUPTS],
        births: [[0; 3]; LIVES],
        streams: [const { Streams::EMPTY }; if STREAMS { 1 } else { 0 }],
        entries: 0,
    };

    /// Remembers the doorbell of `user`.
    pub fn set_doorbell(&mut self, user: EngineUserId, doorbell: Doorbell) {
        self.doorbells[user.index() % ENGINE_USERS] = Some(doorbell);
    }

    /// Remembers the gate of `engine`.
    pub fn set_gate_words(&mut self, engine: EngineId, gate: Gate) {
        self.gates[engine.index() % ENGINES] = Some(gate);
    }

    /// Remembers the words of `user`.
    pub fn set_keyed(&mut self, user: EngineUserId, words: Keyed) {
        self.keyed[user.index() % KEYED] = Some(words);
    }

    /// Remembers the doorbell of the member at `place` among all members; one beyond the last is none.
    pub fn set_shared(&mut self, place: usize, doorbell: Shared) {
        if let Some(shared) = self.shared.get_mut(place) {
            *shared = Some(doorbell);
        }
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

    /// Remembers where `thread` begins.
    pub fn set_birth(&mut self, thread: ThreadId, birth: [u64; 3]) {
        if let Some(place) = self.births.get_mut(thread.index()).filter(|_| RESTARTS) {
            *place = birth;
        }
    }

    /// Remembers that a task has addresses below `end`.
    pub fn set_end(&mut self, end: u64) {
        self.entries = self.entries.max(end.div_ceil(1 << 30));
    }

    /// A dormant task has no addresses until it is started.
    #[cold]
    #[inline(never)]
    pub fn keep_shut(&mut self, thread: ThreadId) {
        space_of(thread).0.close(self.entries);
    }

    /// The devices that are kept from memory which is not theirs, in a kernel that has that.
    pub fn streams(&mut self) -> Option<&mut Streams> {
        self.streams.first_mut()
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

#[cfg(feature = "check")]
impl Reach for Board {
    fn has_doorbell(&self, user: EngineUserId) -> Option<bool> {
        self.doorbell(user).map(|doorbell| doorbell.leaf.is(doorbell.mapped))
    }

    fn place(&self, thread: ThreadId, region: RegionId) -> Place {
        let (address, _) = self.regions[region.index() % REGIONS];
        space_of(thread).0.window(address).map_or(Place::Empty, |window| match window.shown() {
            None => Place::Empty,
            Some((true, _)) => Place::Scratch,
            Some((false, writable)) => Place::Lent { writable },
        })
    }

    fn has_space(&self, thread: ThreadId) -> bool {
        space_of(thread).0.is_open(self.entries)
    }

    fn lets_device(&self, thread: ThreadId) -> bool {
        self.streams.iter().any(|streams| streams.lets(thread))
    }
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
        // The last store of the task comes before the question to the device, which stores its word and reads the task's again.
        translation::settle();
        // SAFETY: a word of memory the kernel maps, aligned: `spaces::build` checked both. Volatile: the
        // device writes it.
        let progress = unsafe { doorbell.progress.read_volatile() };
        // SAFETY: as above; a client may have written it.
        let submitted = u64::from(unsafe { doorbell.submitted.read_volatile() });
        submitted << 32 | submitted == progress
    }

    fn set_gate(&mut self, engine: EngineId, open: bool) {
        let Some(gate) = self.gates[engine.index() % ENGINES] else { return };
        let value = if open { 0 } else { GATE_SHUT };
        // SAFETY: a word of memory the kernel maps, aligned: `spaces::build` checked both. Volatile: the device reads it.
        unsafe { gate.shut.write_volatile(value) };
        if open {
            engine::rouse();
        }
    }

    fn is_shared_idle(&mut self, engine: EngineId) -> bool {
        let Some(gate) = self.gates[engine.index() % ENGINES] else { return true };
        // The gate was shut before the device is asked: it counts a command as begun and looks at the gate again.
        translation::settle();
        // SAFETY: a word of memory the kernel maps, aligned: `spaces::build` checked both. Volatile: the device writes it.
        let progress = unsafe { gate.progress.read_volatile() };
        progress >> 32 == progress & u64::from(u32::MAX)
    }

    fn set_engine_key(&mut self, user: EngineUserId, key: u64, rouse: bool) {
        let Some(words) = self.keyed[user.index() % KEYED] else { return };
        // SAFETY: a word of memory the kernel maps, aligned: `spaces::build` checked both. Volatile: the device reads it.
        unsafe { words.key.write_volatile(key) };
        if rouse {
            engine::rouse();
        }
    }

    fn occupied(&mut self, user: EngineUserId) -> Nanoseconds {
        let Some(words) = self.keyed[user.index() % KEYED] else { return Nanoseconds::ZERO };
        // SAFETY: a word of memory the kernel maps, aligned: `spaces::build` checked both. Volatile: the device writes it.
        Nanoseconds(unsafe { words.occupied.read_volatile() })
    }

    fn doorbell_store(&mut self, thread: ThreadId, fault: &Fault) -> Option<Store> {
        let address = fault.address.filter(|address| address.is_multiple_of(PAGE))?;
        if !fault::is_of_store(fault.syndrome) {
            return None;
        }
        let space = space_of(thread).0;
        let leaf = space.leaf_of(address)?;
        let is_its = |shared: &Option<Shared>| shared.as_ref().is_some_and(|shared| shared.leaf == leaf);
        let place = self.shared.iter().position(is_its)?;
        let engine = self.shared[place % MEMBERS].as_ref()?.engine;
        let registers = self.registers(thread);
        let register = stored_register(space.instruction(registers.program_counter)?)?;
        // Register 31 is zero here.
        let value = registers.general.get(register).copied().unwrap_or(0) as u32;
        Some(Store { engine, place: place as u16, value, is_allowed: leaf.is_writable() })
    }

    fn set_doorbells(&mut self, members: Members, page: Page) {
        let each = || members.each().filter_map(|member| self.shared[member % MEMBERS].as_ref());
        each().for_each(|shared| {
            shared.leaf.hide();
            translation::publish();
            translation::withdraw(shared.invalidation);
        });
        translation::wait();
        if page != Page::Absent {
            each().for_each(|shared| {
                shared.leaf.set(match page {
                    Page::Shadow => shared.shadow,
                    _ => translation::with_access(shared.mapped, page == Page::Open),
                });
            });
            translation::publish();
        }
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
        space_of(thread).0.leaf_of(address).is_some_and(Leaf::is_valid)
    }

    fn close_space(&mut self, thread: ThreadId) {
        let (space, number) = space_of(thread);
        space.close(self.entries);
        translation::publish();
        translation::forget_space(number);
        translation::wait();
        if let Some(streams) = self.streams() {
            streams.shut(thread);
        }
    }

    fn set_dma(&mut self, thread: ThreadId, region: RegionId, value: u64) -> Option<u64> {
        self.streams()?.set(thread, region, value)
    }

    fn open_space(&mut self, thread: ThreadId) {
        let (space, _) = space_of(thread);
        space.open(self.entries);
        translation::publish();
        let [entry, stack, environment] = self.births.get(thread.index()).copied().unwrap_or_default();
        // SAFETY: the thread is on no CPU, and this is called under the kernel's lock.
        unsafe { frame::begin(thread, entry, stack, environment) };
    }

    #[inline]
    fn set_interrupt_enabled(&mut self, interrupt: InterruptId, enabled: bool) {
        interrupts::controller().set_enabled(self.lines[interrupt.index() % INTERRUPTS], enabled);
    }

    const KICKS: bool = engine::KICKS;

    #[inline(always)]
    fn kick(&mut self, notification: NotificationId) -> bool {
        engine::kick(notification)
    }

    #[inline]
    fn trace(&mut self, record: Record) {
        // SAFETY: `Machine` is called under the kernel's lock only, and boot starts the rings first.
        unsafe { trace::write(record) };
    }

    fn give_up(&mut self, why: &'static str) {
        panic!("{}", Plain(why));
    }

    fn shutdown(&mut self, code: u32) {
        interrupts::shut_down(code);
    }
}
