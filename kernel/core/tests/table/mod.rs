//! The kernel on a table: the machine that all of its tests have, and how traps enter it there.
//!
//! Time passes when a test says so, and a device is there in models of one. The machine knows by itself what each CPU executes: what its
//! last outcome said.
//!
//! [`Board`] is the machine alone, of which the models make a state. [`Table`] is a whole system whose kicks arrive at once, for
//! histories at random.
// Each file of tests compiles this for itself, and uses its share.
#![allow(dead_code)]

pub mod device;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use fusee_abi::image;
use fusee_abi::trace::{Event, Level, Record};
use fusee_kernel_core::id::{EngineId, EngineUserId, InterruptId, NotificationId, RegionId, ThreadId};
use fusee_kernel_core::limits::{CPUS, ENGINE_USERS, INTERRUPTS, MEMBERS, THREADS};
use fusee_kernel_core::object::State;
use fusee_kernel_core::reach::Reach;
use fusee_kernel_core::{CpuId, Entry, Fault, Kernel, Machine, Members, Outcome, Page, Place, Registers, Store, Trap};
use fusee_manifest::{Manifest, PackOptions, PackedSystem};
use fusee_sched::time::{Instant, Nanoseconds};

use device::{Device, Tape};

/// One CPU, as the kernel cannot see it.
#[derive(Clone, Copy, Debug)]
pub struct BoardCpu {
    /// It is in service.
    pub entered: bool,
    /// The thread that it executes since its last outcome.
    pub executes: Option<ThreadId>,
    /// When its timer fires.
    pub timer: Instant,
    /// A kick is on its way.
    pub kicked: bool,
}

/// The machine. `TRACE`: the kernel traces scheduling events.
#[derive(Clone, Debug)]
pub struct Board<const TRACE: bool> {
    /// The time.
    pub now: Instant,
    /// The CPU whose trap is handled.
    here: CpuId,
    /// The CPUs.
    pub cpus: [BoardCpu; CPUS],
    /// The registers of all threads.
    pub registers: [Registers; THREADS],
    /// A thread whose registers the kernel touched while another CPU executed it.
    pub touched: Option<ThreadId>,
    /// Lines that may fire.
    pub enabled: [bool; INTERRUPTS],
    /// Uses of a mutex whose task holds it.
    pub holds: [bool; ENGINE_USERS],
    /// Hash of the records of the trap.
    pub traced: u64,
    /// The stand-in for devices, if they are kicked by a call, and how often they were.
    pub kicks: (Option<NotificationId>, u32),
    /// The device of the engines.
    pub device: Device,
    /// Its acts while a trap is handled.
    pub tape: Tape,
    /// Engines that the kernel has had to do with in this trap.
    accessed: u32,
    /// The contents of the places of regions, by thread and region.
    places: BTreeMap<(usize, usize), Place>,
    /// Threads none of whose addresses is valid any more.
    closed: [bool; THREADS],
    /// The place of each thread among the clients without a lock, if it is one of the first engine.
    pub members: [Option<u16>; THREADS],
    /// The pages that these have in the place of their doorbells.
    pub pages: [Page; MEMBERS],
}

/// Where the doorbell of a member is, for each of them.
pub const DOORBELL: u64 = 0xd00b_e110_0000;
/// The register that a member stores there from.
pub const STORED_FROM: usize = 5;

impl<const TRACE: bool> Board<TRACE> {
    /// A machine of which no CPU is in service.
    pub fn new() -> Self {
        let cpu = BoardCpu { entered: false, executes: None, timer: Instant::NEVER, kicked: false };
        Board {
            now: Instant::ZERO,
            here: CpuId(0),
            cpus: [cpu; CPUS],
            registers: [Registers::EMPTY; THREADS],
            touched: None,
            enabled: [false; INTERRUPTS],
            holds: [false; ENGINE_USERS],
            traced: 0,
            kicks: (None, 0),
            device: Device::NONE,
            tape: Tape::default(),
            accessed: 0,
            places: BTreeMap::new(),
            closed: [false; THREADS],
            members: [None; THREADS],
            pages: [Page::Absent; MEMBERS],
        }
    }

    //--- The ways into the kernel ------------------------------------------------------------------------------

    /// `cpu` enters service.
    pub fn enter(&mut self, kernel: &mut Kernel, cpu: CpuId) -> Outcome {
        let at = self.now;
        self.begin(cpu);
        self.cpus[cpu.index()].entered = true;
        kernel.enter(self, cpu, at)
    }

    /// A trap, as boards enter it: a system call by the fast calls, and the rest by [`Board::trap`].
    pub fn any_trap(&mut self, kernel: &mut Kernel, cpu: CpuId, trap: Trap) -> Outcome {
        let fast = if trap == Trap::Syscall { self.fast_call(kernel, cpu) } else { None };
        fast.unwrap_or_else(|| self.trap(kernel, cpu, trap))
    }

    /// A system call by the fast calls: first those without a reading of the clock. `None`: nothing has changed.
    pub fn fast_call(&mut self, kernel: &mut Kernel, cpu: CpuId) -> Option<Outcome> {
        self.begin(cpu);
        kernel.fast_calls(self, cpu)
    }

    /// A trap by the fast switches, and the rest by the slow path.
    pub fn trap(&mut self, kernel: &mut Kernel, cpu: CpuId, trap: Trap) -> Outcome {
        self.begin(cpu);
        let entry = self.entry(trap);
        kernel.trap(self, cpu, entry)
    }

    /// A trap by the slow path, even if a fast one exists.
    pub fn slow_trap(&mut self, kernel: &mut Kernel, cpu: CpuId, trap: Trap) -> Outcome {
        self.begin(cpu);
        let entry = self.entry(trap);
        kernel.slow_trap(self, cpu, entry)
    }

    fn begin(&mut self, cpu: CpuId) {
        self.here = cpu;
        self.traced = 0;
        self.accessed = 0;
    }

    /// The kernel is about to read or write a word of `engine`, and the device may have done something since it last did.
    fn access(&mut self, engine: usize) {
        let before = self.accessed;
        self.accessed |= 1 << engine;
        if before >> engine & 1 != 0 {
            let reach = self.device.reach(engine, self.enabled[0]);
            self.device = reach[self.tape.choose(reach.len())];
        }
    }

    /// Calls read the clock in the kernel, if they need it.
    fn entry(&self, trap: Trap) -> Entry {
        Entry { trap, at: (trap != Trap::Syscall).then_some(self.now) }
    }

    //--- Acts of the hardware ----------------------------------------------------------------------------------

    /// `cpu` does as the kernel said; kicks are on their way.
    pub fn apply(&mut self, cpu: CpuId, outcome: Outcome) {
        let state = &mut self.cpus[cpu.index()];
        state.executes = outcome.run;
        state.timer = outcome.timer.unwrap_or(state.timer);
        for other in outcome.kick.iter() {
            self.cpus[other.index()].kicked = true;
        }
    }

    /// The dormant tasks of `system` have no addresses.
    pub fn keep_shut(&mut self, system: &image::System<'_>) {
        for (closed, task) in self.closed.iter_mut().zip(system.tasks()) {
            *closed = image::Supervision::of(task.supervision).is_dormant;
        }
    }

    /// The contents of the place of `task` for `region`.
    pub fn place(&self, task: usize, region: usize) -> Place {
        let place = self.places.get(&(task, region)).copied().unwrap_or(Place::Empty);
        if self.closed[task] { Place::Empty } else { place }
    }
}

impl<const TRACE: bool> Machine for Board<TRACE> {
    const TRACE: Level = if TRACE { Level::Schedule } else { Level::Marks };

    fn now(&mut self) -> Instant {
        self.now
    }

    fn registers(&mut self, thread: ThreadId) -> &mut Registers {
        let executes = |(cpu, state): (usize, &BoardCpu)| cpu != self.here.index() && state.executes == Some(thread);
        if self.cpus.iter().enumerate().any(executes) {
            self.touched = Some(thread);
        }
        &mut self.registers[thread.index()]
    }

    fn map_doorbell(&mut self, user: EngineUserId) {
        self.holds[user.index()] = true;
        self.device.engines[self.device.engine_of[user.index()]].asked = false;
    }

    fn unmap_doorbell(&mut self, user: EngineUserId) {
        self.holds[user.index()] = false;
    }

    fn replace_doorbell(&mut self, user: EngineUserId) {
        self.holds[user.index()] = false;
    }

    fn engine_is_idle(&mut self, user: EngineUserId) -> bool {
        let engine = self.device.engine_of[user.index()];
        if engine < self.device.count {
            self.access(engine);
        }
        self.device.engines[engine].own != Some(user)
    }

    fn set_gate(&mut self, engine: EngineId, open: bool) {
        self.access(engine.index());
        let engine = &mut self.device.engines[engine.index()];
        (engine.open, engine.asked) = (open, engine.asked && !open);
        if !open {
            engine.shut_at = self.now;
        }
    }

    fn is_shared_idle(&mut self, engine: EngineId) -> bool {
        self.access(engine.index());
        self.device.is_shared_idle(engine.index())
    }

    fn doorbell_store(&mut self, thread: ThreadId, fault: &Fault) -> Option<Store> {
        let place = self.members[thread.index()].filter(|_| fault.address == Some(DOORBELL))?;
        let value = self.registers[thread.index()].general[STORED_FROM] as u32;
        Some(Store {
            engine: EngineId::new(0)?,
            place,
            value,
            is_allowed: self.pages[usize::from(place)] == Page::Open,
        })
    }

    fn set_doorbells(&mut self, members: Members, page: Page) {
        members.each().for_each(|place| self.pages[place] = page);
    }

    fn set_region_pages(&mut self, _thread: ThreadId, _region: RegionId, _first: u64, _count: u64, _mapped: bool) {}

    fn set_place(&mut self, thread: ThreadId, region: RegionId, place: Place) {
        self.places.insert((thread.index(), region.index()), place);
    }

    fn has_passed(&mut self, _thread: ThreadId, _fault: &Fault) -> bool {
        false
    }

    fn close_space(&mut self, thread: ThreadId) {
        self.closed[thread.index()] = true;
    }

    fn open_space(&mut self, thread: ThreadId) {
        self.closed[thread.index()] = false;
        self.registers[thread.index()] = Registers::EMPTY;
    }

    fn set_interrupt_enabled(&mut self, interrupt: InterruptId, enabled: bool) {
        self.enabled[interrupt.index()] = enabled;
    }

    const KICKS: bool = true;

    fn kick(&mut self, notification: NotificationId) -> bool {
        let (kicks, count) = &mut self.kicks;
        let is_kick = *kicks == Some(notification);
        *count += u32::from(is_kick);
        is_kick
    }

    fn trace(&mut self, record: Record) {
        let Record { time, number: _, event, cpu, thread, job, object, value } = record;
        if event == Event::EngineTaken as u8 && value == 1 {
            self.device.ask(object as usize - 1, self.now);
        }
        for word in [time, event.into(), cpu.into(), thread.into(), job.into(), object.into(), value.into()] {
            self.traced = mixed(self.traced, word, MULTIPLIERS[0]);
        }
    }

    fn give_up(&mut self, why: &'static str) {
        panic!("{why}");
    }

    fn shutdown(&mut self, _code: u32) {}
}

impl<const TRACE: bool> Reach for Board<TRACE> {
    fn has_doorbell(&self, user: EngineUserId) -> Option<bool> {
        Some(self.holds[user.index()])
    }

    fn place(&self, thread: ThreadId, region: RegionId) -> Place {
        Board::place(self, thread.index(), region.index())
    }

    fn has_space(&self, thread: ThreadId) -> bool {
        !self.closed[thread.index()]
    }
}

/// Two multipliers for [`mixed`].
pub const MULTIPLIERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

/// A hash of the words of `hash`, and of `word`.
pub fn mixed(hash: u64, word: u64, multiplier: u64) -> u64 {
    // A full product, folded: every bit of the word reaches every bit of the hash.
    let product = u128::from(hash ^ word).wrapping_mul(u128::from(multiplier));
    (product as u64).rotate_left(23) ^ (product >> 64) as u64
}

//--- Whole systems -----------------------------------------------------------------------------------------

/// `manifest`, packed.
pub fn pack(manifest: &Manifest) -> PackedSystem {
    let options = PackOptions { cpu_stride: 1, managed: None };
    manifest.pack_tables(options).unwrap_or_else(|error| panic!("{error}"))
}

/// The thread of the task with this index.
pub fn thread(task: usize) -> ThreadId {
    ThreadId::new(task).expect("there are few tasks")
}

/// A system whose kicks arrive at once.
pub struct Table {
    /// The kernel.
    pub kernel: Box<Kernel>,
    /// The machine.
    pub board: Box<Board<false>>,
}

impl Table {
    /// The system of `manifest`, booted, with all CPUs in service.
    pub fn new(manifest: &Manifest) -> Table {
        let mut kernel = Box::new(Kernel::EMPTY);
        kernel.boot(&pack(manifest).system()).expect("the system fits");
        let mut table = Table { kernel, board: Box::new(Board::new()) };
        table.board.keep_shut(&pack(manifest).system());
        for cpu in table.kernel.cpus() {
            let outcome = table.board.enter(&mut table.kernel, cpu);
            table.apply(cpu, outcome);
        }
        table
    }

    /// A trap on `cpu`, and those of all kicks that come of it.
    pub fn trap(&mut self, cpu: CpuId, trap: Trap) {
        let outcome = self.board.any_trap(&mut self.kernel, cpu, trap);
        self.apply(cpu, outcome);
    }

    /// The system call of the thread on `cpu`, as [`Table::trap`] makes it. Returns whether it was by a fast path that books time; such a path has left
    /// kernel and machine as the slow path leaves them. Needs a stack for copies of both.
    #[allow(dead_code, reason = "for the tests with such paths")]
    #[inline(never)]
    pub fn exact_call(&mut self, cpu: CpuId) -> Result<bool, String> {
        let (mut kernel, mut board) = (self.kernel.clone(), self.board.clone());
        let Some(outcome) = self.board.fast_call(&mut self.kernel, cpu) else {
            self.trap(cpu, Trap::Syscall);
            return Ok(false);
        };
        let books = self.kernel.cpu(cpu).mark() != kernel.cpu(cpu).mark();
        if books {
            let slow = board.slow_trap(&mut kernel, cpu, Trap::Syscall);
            let hash = |kernel: &Kernel| {
                let mut hasher = DefaultHasher::new();
                kernel.hash_state(board.now, &mut hasher);
                hasher.finish()
            };
            let is_same = self.board.registers == board.registers && self.board.places == board.places;
            if outcome != slow || !is_same || hash(&self.kernel) != hash(&kernel) {
                return Err("a fast path did not do what the slow path does".into());
            }
        }
        self.apply(cpu, outcome);
        Ok(books)
    }

    fn apply(&mut self, cpu: CpuId, outcome: Outcome) {
        self.board.apply(cpu, outcome);
        for other in outcome.kick.iter() {
            self.board.cpus[other.index()].kicked = false;
            self.trap(other, Trap::Kick);
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: u64) {
        self.board.now += Nanoseconds(span);
    }

    /// Lets a timer fire whose time has come; `false` if there is none.
    pub fn fire(&mut self) -> bool {
        let now = self.board.now;
        let Some(cpu) = self.kernel.cpus().find(|cpu| self.board.cpus[cpu.index()].timer <= now) else { return false };
        self.board.cpus[cpu.index()].timer = Instant::NEVER;
        self.trap(cpu, Trap::Timer);
        true
    }

    /// One of the CPUs that execute a task, and the task.
    pub fn running(&self, draw: &mut Draw) -> Option<(CpuId, usize)> {
        let cpus = self.kernel.cpus();
        let running: Vec<(CpuId, usize)> = cpus.filter_map(|cpu| Some((cpu, self.executes(cpu)?))).collect();
        running.get(draw.below(self.kernel.cpus().count()) % running.len().max(1)).copied()
    }

    /// The task that `cpu` executes.
    pub fn executes(&self, cpu: CpuId) -> Option<usize> {
        self.board.cpus[cpu.index()].executes.map(ThreadId::index)
    }

    /// The state of `task`.
    pub fn state(&self, task: usize) -> State {
        self.kernel.thread(thread(task)).state()
    }

    /// The general registers of `task`.
    pub fn general(&mut self, task: usize) -> &mut [u64; 31] {
        &mut self.board.registers[task].general
    }

    /// Whether `task` is to make its last call again, which is noted nowhere from then on.
    pub fn starts_again(&mut self, task: usize) -> bool {
        std::mem::take(&mut self.board.registers[task].program_counter) != 0
    }
}

/// Numbers drawn from one number.
pub struct Draw(pub u64);

impl Draw {
    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) as usize) % limit
    }

    /// `true` once in so many times.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}
