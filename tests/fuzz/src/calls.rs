//! Tasks that make any call, with any argument, on several CPUs, while kicks, timers, interrupts and deaths come in any order.
//!
//! A string begins with the number of a system of `systems`. Each further byte selects the next event and its CPU; those behind it are arguments.
//!
//! # Checks
//!
//! After every trap: `Kernel::check`; no thread runs on two CPUs, and no dead one on any; the kernel touches no registers of a thread that runs
//! elsewhere; timers are set as the kernel believes. If no kick is on its way: `Kernel::check_settled`. Besides:
//!
//! 1. A call by a handle that the kernel has never issued to the task is refused, and the task goes on.
//! 2. No shared command runs on an engine while a task has that engine, and no engine is granted while the command of another runs.
//! 3. A store of a client without a lock that is asked about goes on behind it only when the server that decides has said so, and no register of the client but the program counter
//!    is written until then.
//! 4. With feature `small`: a fast path has done exactly the work of the slow path.

use std::path::Path;
use std::sync::OnceLock;

use fusee_abi::Error;
use fusee_abi::call::{
    CARRIES, Call, DEADLINE, FIRST_WORD, GIVEN, GO_ON, HandleValue, KEPT, NEVER, NUMBER, PAGE_SHIFT, RESET, TOKEN,
    rights,
};
use fusee_abi::image::{self, Span, Table};
use fusee_kernel_core::id::{EngineUserId, InterruptId, ThreadId};
use fusee_kernel_core::object::State;
use fusee_kernel_core::{CpuId, Fault, FaultKind, Kernel, Outcome, Page, Planted, Registers, Trap};
use fusee_manifest::Manifest;
use fusee_sched::time::{Instant, Nanoseconds};
use zerocopy::{FromBytes, IntoBytes};

use crate::bytes::Bytes;
use crate::table::device::{Shared, Tape};
use crate::table::{Board, DOORBELL, STORED_FROM, pack, thread};

/// Whether there is time to compare each fast path with the slow one: a kernel of few objects is copied fast.
const COMPARES: bool = cfg!(feature = "small");
/// How late a timer may be, in nanoseconds.
const LATE: u64 = 20_000;

pub(crate) const SYSTEMS: [(&str, &str); 6] = [
    ("calls", include_str!("../systems/calls.toml")),
    ("locks", include_str!("../systems/locks.toml")),
    ("gates", include_str!("../systems/gates.toml")),
    ("shared_pool", include_str!("../systems/shared_pool.toml")),
    ("lives", include_str!("../systems/lives.toml")),
    (SHARING, include_str!("../systems/sharing.toml")),
];
/// The systems with engines of a device,
const GATES: &str = "gates";
/// and of these the one in which a server, by a slot of it, decides on the stores of a client.
const SHARING: &str = "sharing";
const DOORMAN: usize = 1;
const BELLS: usize = 1;
const MEMBER: usize = 2;
/// Where a client's instruction is that stores.
const STORES_AT: u64 = 0x2000;

/// A system, booted, with all CPUs in service.
#[derive(Clone)]
struct World {
    kernel: Box<Kernel>,
    board: Box<Board<true>>,
    has_device: bool,
    tasks: usize,
    /// The CPU that takes each line.
    lines: Vec<CpuId>,
    /// Engine and task of each use.
    users: Vec<(usize, ThreadId)>,
    /// Handles that each task has been issued.
    issued: Vec<Vec<u64>>,
    /// The registers of each task that waits with a store.
    stores: Vec<Option<Registers>>,
}

/// Takes the steps that `data` says, in a kernel that forgets the rule `planted`; how many calls these were.
///
/// # Panics
/// Something does not hold.
pub fn run(data: &[u8], planted: Option<Planted>) -> u64 {
    let mut bytes = Bytes(data);
    let mut world = worlds()[usize::from(bytes.byte()) % SYSTEMS.len()].clone();
    if let Some(planted) = planted {
        world.kernel.plant(planted);
    }
    let mut calls = 0;
    while let Some(what) = bytes.next() {
        calls += u64::from(world.step(what, &mut bytes));
    }
    calls
}

fn worlds() -> &'static [World] {
    static WORLDS: OnceLock<Vec<World>> = OnceLock::new();
    WORLDS.get_or_init(|| SYSTEMS.iter().map(|(name, text)| World::new(name, text)).collect())
}

/// The words of a system, packed.
pub(crate) fn packed(name: &str, text: &str) -> Vec<u64> {
    let manifest = Manifest::parse(Path::new(name), text).unwrap_or_else(|error| panic!("{error}"));
    let image = pack(&manifest);
    let mut words = vec![0; image.bytes().len().div_ceil(8)];
    words.as_mut_bytes()[..image.bytes().len()].copy_from_slice(image.bytes());
    words
}

/// Makes the engines those of a device with gates: a manifest says of such a device more than a small kernel has room for.
fn set_gates(packed: &mut [u64]) {
    let parsed = image::System::parse(packed.as_bytes()).expect("a packed system");
    let Span { offset, count } = parsed.header().tables[Table::Engines as usize];
    let bytes = &mut packed.as_mut_bytes()[offset as usize..];
    let (engines, _) = <[image::Engine]>::mut_from_prefix_with_elems(bytes, count as usize).expect("a table");
    for (number, engine) in engines.iter_mut().enumerate() {
        engine.interrupt_plus_one = 1;
        engine.watchdog = 2_000_000;
        engine.reset_bound = 500_000;
        engine.reset_bits = RESET << number;
        engine.shared_longest = 300_000;
    }
}

/// Lets the doorman decide on the stores of the client.
fn set_sharer(packed: &mut [u64]) {
    let parsed = image::System::parse(packed.as_bytes()).expect("a packed system");
    let [engines, handles] = [Table::Engines, Table::Handles].map(|table| parsed.header().tables[table as usize]);
    let bytes = &mut packed.as_mut_bytes()[engines.offset as usize..];
    let (engine, _) = image::Engine::mut_from_prefix(bytes).expect("an engine");
    (engine.sharer_plus_one, engine.first_member, engine.members) = (1, 0, 1);
    let bytes = &mut packed.as_mut_bytes()[handles.offset as usize..];
    let (handles, _) = <[image::Handle]>::mut_from_prefix_with_elems(bytes, handles.count as usize).expect("a table");
    let is_it = |handle: &&mut image::Handle| (handle.task as usize, handle.slot as usize) == (DOORMAN, BELLS);
    let bells = handles.iter_mut().find(is_it).expect("the doorman has such a slot");
    (bells.kind, bells.object, bells.rights) = (image::kind::DOORBELLS, 0, rights::MAP);
    // There is a use without a lock: the same record as one with it.
    let (header, _) = image::Header::mut_from_prefix(packed.as_mut_bytes()).expect("a header");
    header.tables[Table::SharedUsers as usize] = header.tables[Table::EngineUsers as usize];
}

impl World {
    fn new(name: &str, text: &str) -> World {
        let mut packed = packed(name, text);
        let has_device = [GATES, SHARING].contains(&name);
        if has_device {
            set_gates(&mut packed);
        }
        if name == SHARING {
            set_sharer(&mut packed);
        }
        let system = image::System::parse(packed.as_bytes()).expect("a packed system");
        let mut kernel = Box::new(Kernel::EMPTY);
        kernel.boot(&system).expect("the system fits");
        let users = system.engine_users().iter();
        let users: Vec<(usize, ThreadId)> =
            users.map(|user| (user.engine as usize, thread(user.task as usize))).collect();
        let mut board = Box::new(Board::new());
        board.keep_shut(&system);
        if has_device {
            board.device.count = system.engines().len();
            for (of, (engine, _)) in board.device.engine_of.iter_mut().zip(&users) {
                *of = *engine;
            }
        }
        if name == SHARING {
            board.members[MEMBER] = Some(0);
        }
        let mut issued = vec![Vec::new(); system.tasks().len()];
        let stores = vec![None; system.tasks().len()];
        for handle in system.handles() {
            issued[handle.task as usize].push(HandleValue::new(handle.slot as u16, 1).0);
        }
        let lines = system.interrupts().iter().map(|line| CpuId(line.cpu as u8)).collect();
        let mut world = World { kernel, board, has_device, tasks: system.tasks().len(), lines, users, issued, stores };
        for cpu in world.kernel.cpus() {
            let outcome = world.board.enter(&mut world.kernel, cpu);
            world.apply(cpu, outcome);
        }
        world
    }

    /// Takes the step `what`, if it is possible. Whether it was a call.
    fn step(&mut self, what: u8, bytes: &mut Bytes<'_>) -> bool {
        let cpus = self.kernel.cpus().count();
        let cpu = CpuId((usize::from(what & 3) % cpus) as u8);
        let state = self.board.cpus[cpu.index()];
        match what >> 2 {
            0..40 => {
                let Some(thread) = state.executes else { return false };
                self.call(cpu, thread, bytes);
                return true;
            }
            40..44 if state.kicked => {
                self.board.cpus[cpu.index()].kicked = false;
                self.trap(cpu, Trap::Kick);
            }
            // One that no CPU has sent.
            44 => self.trap(cpu, Trap::Kick),
            45..49 => {
                if state.timer <= self.board.now {
                    self.board.cpus[cpu.index()].timer = Instant::NEVER;
                    self.trap(cpu, Trap::Timer);
                } else {
                    self.pass(u64::MAX);
                }
            }
            49..53 => self.pass([1, 500, 5_000, 40_000, 200_000, 1_000_000][usize::from(bytes.byte()) % 6]),
            53..56 => self.interrupt(bytes),
            56..59 => self.device(cpu, bytes),
            59 => {
                let kinds =
                    [FaultKind::Read, FaultKind::Write, FaultKind::Execute, FaultKind::Illegal, FaultKind::Other];
                let kind = kinds[usize::from(bytes.byte()) % kinds.len()];
                if state.executes.is_some() && bytes.byte() == 0 {
                    let fault = Fault { kind, address: Some(bytes.number(6)), syndrome: bytes.number(4) };
                    self.trap(cpu, Trap::Fault(fault));
                }
            }
            60 => {
                if let Some(thread) = state.executes {
                    self.store(cpu, thread, bytes);
                }
            }
            _ => {}
        }
        false
    }

    /// The task on `cpu` stores to its doorbell, if it has one, and is asked about.
    fn store(&mut self, cpu: CpuId, thread: ThreadId, bytes: &mut Bytes<'_>) {
        let Some(place) = self.board.members[thread.index()] else { return };
        if self.board.pages[usize::from(place)] == Page::Open && bytes.byte() != 0 {
            return;
        }
        let registers = &mut self.board.registers[thread.index()];
        registers.general[STORED_FROM] = bytes.number(4);
        registers.program_counter = STORES_AT;
        self.stores[thread.index()] = Some(*registers);
        let fault = Fault { kind: FaultKind::Write, address: Some(DOORBELL), syndrome: 0 };
        self.trap(cpu, Trap::Fault(fault));
    }

    /// Checks that a thread that waited with a store stores again, or is dead; or goes on, if the trap was a reply that `says` so.
    fn check_stores(&mut self, says: bool) {
        for (task, stored) in self.stores.iter_mut().enumerate() {
            let Some(before) = *stored else { continue };
            let Registers { program_counter, .. } = self.board.registers[task];
            assert!(
                program_counter == STORES_AT || says && program_counter == STORES_AT + 4,
                "task {task} goes on behind its store at {program_counter:#x}, and nobody said so"
            );
            let as_before = Registers { program_counter: STORES_AT, ..self.board.registers[task] };
            let is_dead = self.kernel.thread(thread(task)).state() == State::Stopped;
            assert!(is_dead || as_before == before, "registers of task {task}, which waits with a store, were written");
            if self.kernel.thread(thread(task)).store().is_none() {
                *stored = None;
            }
        }
    }

    /// Time passes, but no timer is later than [`LATE`].
    fn pass(&mut self, span: u64) {
        let first = self.board.cpus.iter().map(|cpu| cpu.timer.0).min().unwrap_or(u64::MAX);
        let most = if span == u64::MAX { first } else { first.saturating_add(LATE) };
        let most = most.saturating_sub(self.board.now.0);
        // An event that never comes is waited for a while.
        self.board.now += Nanoseconds(span.min(most).min(1 << 40));
    }

    fn interrupt(&mut self, bytes: &mut Bytes<'_>) {
        let Some(number) = usize::from(bytes.byte()).checked_rem(self.lines.len()) else { return };
        let Some(line) = InterruptId::new(number) else { return };
        let fires = !self.has_device || number != 0 || self.board.device.interrupts;
        if self.board.enabled[number] && fires {
            self.board.device.interrupts &= number != 0;
            self.trap(self.lines[number], Trap::Interrupt(line));
        }
    }

    /// The device does something, or the task on `cpu` submits, or its driver resets an engine.
    fn device(&mut self, cpu: CpuId, bytes: &mut Bytes<'_>) {
        let what = bytes.byte();
        let Some(engine) = usize::from(what >> 4).checked_rem(self.board.device.count) else { return };
        let executes = self.board.cpus[cpu.index()].executes;
        let device = &mut self.board.device;
        match what & 7 {
            0 => {
                let is_own = |user: &usize| self.board.holds[*user] && self.users[*user].0 == engine;
                let user = (0..self.users.len()).find(|user| is_own(user) && Some(self.users[*user].1) == executes);
                if let (Some(user), None) = (user.and_then(EngineUserId::new), device.engines[engine].own) {
                    device.submit(user);
                }
            }
            1 if executes == Some(thread(0)) => device.reset(engine),
            _ => {
                let moves: Vec<_> = device.moves(engine).collect();
                if let Some(next) = bytes.one_of(&moves) {
                    device.act(engine, next, self.board.enabled[0]);
                }
            }
        }
        self.check_engines();
    }

    /// The task on `cpu` makes a call.
    fn call(&mut self, cpu: CpuId, caller: ThreadId, bytes: &mut Bytes<'_>) {
        let number = u64::from(bytes.byte() % 34);
        let first = self.handle(caller, bytes);
        let second = match bytes.byte() {
            small @ 0..128 => u64::from(small % 16),
            page @ 128..192 => u64::from(page % 4) << PAGE_SHIFT | bytes.number(2),
            _ => bytes.number(8),
        };
        let words = if number == Call::AcquireGroup as u64 {
            [self.handle(caller, bytes), 0, 0]
        } else if number == Call::SetReservation as u64 {
            // A budget and a period, in nanoseconds.
            let period = [0, 3_999_999, 4_000_000, 4_000_001, 9_000_000, u64::MAX][usize::from(bytes.byte()) % 6];
            [second.wrapping_mul(20_000), period, 0]
        } else {
            [bytes.number(1), 0, 0]
        };
        let deadline = self.deadline(bytes);
        let extra = bytes.byte();
        let others = self.board.registers[usize::from(extra >> 5) % self.tasks].general[TOKEN];
        let given = if extra & 1 == 0 { 0 } else { self.handle(caller, bytes) };
        let general = &mut self.board.registers[caller.index()].general;
        general[NUMBER] = number;
        general[0] = first;
        general[1] = second;
        general[FIRST_WORD..FIRST_WORD + 3].copy_from_slice(&words);
        general[DEADLINE] = deadline;
        general[GIVEN] = given;
        general[KEPT] = if extra & 2 == 0 { u64::from(u32::MAX) } else { bytes.number(4) };
        match extra >> 2 & 7 {
            // That of the last request, as a server does.
            0..4 => {}
            4 => general[TOKEN] = 0,
            5 => general[TOKEN] |= CARRIES,
            6 => general[TOKEN] = others,
            _ => general[TOKEN] = bytes.number(8),
        }
        self.board.registers[caller.index()].program_counter = 0x1000;

        let may = self.kernel.thread(caller).state() == State::Ready;
        let is_foreign = takes_handle(number) && !self.issued[caller.index()].contains(&first);
        self.trap(cpu, Trap::Syscall);
        if may && is_foreign {
            let result = self.board.registers[caller.index()].general[0];
            let state = self.kernel.thread(caller).state();
            assert!(
                Error::from_code(result).is_some() && state == State::Ready,
                "call {number} by the handle {first:#x}, which was never issued, is answered with {result}; {state:?}"
            );
        }
    }

    /// A handle: one of the caller's, or one that it was issued, or an older or newer one, or none.
    fn handle(&self, caller: ThreadId, bytes: &mut Bytes<'_>) -> u64 {
        let choice = bytes.byte();
        let slot = u16::from(choice & 31);
        match choice >> 5 {
            0..4 => self.issued[caller.index()].get(usize::from(slot) % 8).copied().unwrap_or_default(),
            4 => bytes.one_of(&self.issued[caller.index()]).unwrap_or_default(),
            5 => HandleValue::new(slot, u64::from(bytes.byte() % 4)).0,
            6 => HandleValue::new(slot, 1).0,
            _ => bytes.number(8),
        }
    }

    fn deadline(&self, bytes: &mut Bytes<'_>) -> u64 {
        let now = self.board.now.0;
        match bytes.byte() % 12 {
            0..4 => NEVER,
            4 => 0,
            5 => now,
            6 => now + 1,
            7 => now + 30_000,
            8 => now + 400_000,
            9 => now + 5_000_000,
            10 => NEVER - 1,
            _ => 1 << (bytes.byte() % 64),
        }
    }

    // --- Traps, and their invariants ----------------------------------------------------------------------------

    fn trap(&mut self, cpu: CpuId, trap: Trap) {
        let before: Vec<u64> = self.board.registers[..self.tasks].iter().map(|of| of.general[GIVEN]).collect();
        let other = COMPARES.then(|| self.clone());
        self.board.tape = Tape::default();
        let caller = self.board.cpus[cpu.index()].executes.filter(|_| trap == Trap::Syscall);
        let says = caller.is_some_and(|caller| {
            let general = &self.board.registers[caller.index()].general;
            let replies = general[NUMBER] == Call::ReplyReceive as u64;
            caller.index() == DOORMAN && replies && general[FIRST_WORD] == GO_ON
        });
        let outcome = self.board.any_trap(&mut self.kernel, cpu, trap);
        if let Some(other) = other {
            self.compare(other, cpu, trap, outcome);
        }
        self.apply(cpu, outcome);
        self.check_stores(says);
        for (task, before) in before.into_iter().enumerate() {
            let given = self.board.registers[task].general[GIVEN];
            if given != before && given != 0 {
                self.issued[task].push(given);
            }
        }
        self.check();
    }

    /// The trap took this way; by the slow path from `other` the same must come out. Which CPU a thread comes to may differ until all kicks have arrived,
    /// after a fast call.
    fn compare(&self, mut other: World, cpu: CpuId, trap: Trap, outcome: Outcome) {
        let long = other.board.slow_trap(&mut other.kernel, cpu, trap);
        if trap == Trap::Syscall && outcome != long {
            return;
        }
        assert_eq!(outcome, long, "a fast path of {trap:?} did not do what the slow path does");
        assert_eq!(
            self.board.registers[..self.tasks],
            other.board.registers[..self.tasks],
            "after a fast path of {trap:?} registers are not what they are after the slow path"
        );
    }

    /// The CPU carries out the kernel's outcome.
    fn apply(&mut self, cpu: CpuId, outcome: Outcome) {
        assert_eq!(self.board.touched, None, "the kernel touched registers of a thread that runs elsewhere");
        if let Some(next) = outcome.run {
            let elsewhere = |at: &CpuId| *at != cpu && self.board.cpus[at.index()].executes == Some(next);
            assert_eq!(self.kernel.cpus().find(elsewhere), None, "thread {} runs on two CPUs", next.index());
            assert_ne!(self.kernel.thread(next).state(), State::Stopped, "a dead thread is to run");
        }
        self.board.apply(cpu, outcome);
    }

    fn check(&self) {
        self.kernel.check().unwrap_or_else(|broken| panic!("{broken}"));
        self.kernel.check_reach(&*self.board).unwrap_or_else(|broken| panic!("{broken}"));
        let cpus = || self.kernel.cpus();
        if !cpus().any(|cpu| self.board.cpus[cpu.index()].kicked) {
            self.kernel.check_settled().unwrap_or_else(|broken| panic!("{broken}"));
        }
        for cpu in cpus() {
            assert_eq!(self.board.cpus[cpu.index()].timer, self.kernel.cpu(cpu).armed(), "the timer of a CPU");
        }
        self.check_engines();
    }

    fn check_engines(&self) {
        for (number, engine) in self.board.device.engines[..self.board.device.count].iter().enumerate() {
            let mut users =
                (0..self.users.len()).filter(|user| self.board.holds[*user] && self.users[*user].0 == number);
            let holder = users.next();
            assert_eq!(users.next(), None, "two tasks have engine {number}");
            if engine.shared == Shared::Running {
                assert!(holder.is_none() && engine.own.is_none(), "a shared command runs beside one of its holder");
            }
            if let (Some(holder), Some(own)) = (holder, engine.own) {
                assert_eq!(holder, own.index(), "engine {number} was granted while the command of another runs");
            }
        }
    }
}

/// Whether the first argument of this call is a handle, without which it is refused.
fn takes_handle(number: u64) -> bool {
    let Some(call) = Call::from_number(number) else { return false };
    !matches!(
        call,
        Call::NextJob
            | Call::EarlyRelease
            | Call::Yield
            | Call::Now
            | Call::SleepUntil
            | Call::Exit
            | Call::Log
            | Call::Null
    )
}
