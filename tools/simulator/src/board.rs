//! The simulated machine: registers, interrupts, a little physical memory, and the accelerator.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fusee_abi::call::{HandleValue, NUMBER, rights};
use fusee_abi::image::{EngineUser, Supervision, System, kind};
use fusee_abi::trace::{BY_INTERRUPT, Event, Level, PANIC_CODE, Record, TRAP_FAULT, TRAP_KICK, TRAP_TIMER};
use fusee_accel_contract as contract;
use fusee_device_model::{Arbiter, Bus, Description, Device, Equipment, Sms, Window};
use fusee_kernel_core::id::{EngineId, EngineUserId, InterruptId, RegionId, ThreadId};
use fusee_kernel_core::machine::{Members, Page as Given, Store};
use fusee_kernel_core::reach::Reach;
use fusee_kernel_core::{CpuId, Fault, Machine, Place, Registers, Trap};
use fusee_sched::time::{Instant, Nanoseconds};

use self::regions::Regions;
use crate::overheads::Overheads;
use crate::run::Commands;

mod machine;
mod memory;
mod regions;

pub use self::memory::Memory;

/// Physical addresses of the first simulated device; only the simulator knows them.
const CONTROL: u64 = 0x1000_0000;
const STATUS: u64 = 0x1000_1000;
const DOORBELLS: u64 = 0x1010_0000;
const LOCAL: Window = Window { base: 0x2000_0000, length: 0x10_0000 };
const SYSTEM: Window = Window { base: 0x4000_0000, length: 0x10_0000 };
/// How far those of the next device are from them.
const STEP: u64 = 0x100_0000;

/// One use of one engine, in the device's terms.
#[derive(Clone, Copy, Debug)]
pub struct DeviceUse {
    /// Its place among all uses.
    place: usize,
    /// The engine, as the system numbers it.
    system_engine: usize,
    /// The device.
    pub device: usize,
    /// Engine of the device.
    pub engine: contract::EngineIndex,
    /// Context of the task.
    pub context: usize,
    /// Task index.
    pub task: usize,
    /// The page in the place of the task's doorbell.
    pub page: Page,
    /// The page while its task has not ended, for its next life.
    at_boot: Page,
    /// The task uses the engine without its lock.
    pub shares: bool,
    /// The count in its shadow.
    shadow: u32,
}

/// The page at the address of a doorbell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Page {
    /// Nothing: a store faults.
    Nothing,
    /// The doorbell.
    Doorbell,
    /// Memory that tells that the engine was taken away.
    Replaced,
    /// The doorbell, to be read.
    ReadOnly,
    /// Memory that no device looks at.
    Shadow,
}

/// A store to a doorbell that a client may have to ask for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DoorbellStore {
    /// The use that the doorbell belongs to, by its place among all uses.
    place: usize,
    /// The stored value.
    value: u32,
    /// Whether the client lets the device look afterwards.
    kicks: bool,
}

/// The result of a submission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Submitted {
    /// The operation is done once so many commands have retired.
    Done(u32),
    /// As above, once this store, which faults now, is made.
    Asked(u32, DoorbellStore),
    /// The device hears of nothing: the engine was taken away.
    Lost,
}

/// A device, and its next wish.
struct Simulated {
    /// The page by which the system tells it from others.
    status_page: u64,
    device: Box<Device>,
    contexts: contract::Contexts,
    /// The device decides by keys between clients of its execution engine.
    keyed: bool,
    /// When it must be polled next.
    next: Option<u64>,
    /// Index of its interrupt.
    interrupt: Option<usize>,
}

/// The machine.
pub struct Board {
    /// The time outside the kernel.
    pub now: u64,
    /// How far past `now` the trap in progress is.
    pub spent: u64,
    /// The costs of kernel paths.
    pub overheads: Overheads,
    /// Where the kernel is running.
    pub cpu: CpuId,
    registers: Vec<Registers>,
    /// Tasks that have begun another life in this trap.
    pub begun: Vec<ThreadId>,
    /// Tasks that have no addresses any more.
    closed: Vec<bool>,
    enabled: Vec<bool>,
    /// Lines that fired while they were kept from it.
    pub pending: Vec<bool>,
    /// The trace so far.
    pub records: Vec<Record>,
    /// How many records there were.
    pub recorded: u64,
    /// Exit code, once the system has ended.
    pub ended: Option<u32>,
    /// For each engine its device and its number there, if it has users there.
    places: Vec<Option<(usize, contract::EngineIndex)>>,
    /// The uses of devices, by engine user; then those without a lock, by member.
    pub uses: Vec<DeviceUse>,
    /// How many of them have locks.
    locks: usize,
    /// When clients without locks stored to their doorbells themselves, and their tasks.
    pub own_stores: Vec<(u64, usize)>,
    /// The store that faults in this trap, and its thread.
    pub storing: Option<(ThreadId, DoorbellStore)>,
    regions: Regions,
    memory: Memory,
    devices: Vec<Simulated>,
    /// How many jobs a node of a graph has ended: by the graph's region, and its number.
    pub ended_jobs: BTreeMap<(usize, usize), u64>,
    /// Nodes that say that they wait for a free frame, in the same way.
    pub waiting_nodes: BTreeSet<(usize, usize)>,
    /// Jobs of sources and sinks of graphs that have ended.
    pub graph_ends: Vec<GraphEnd>,
    /// Whether scripted tasks look at the device again and again in place of waiting to be told.
    pub polls: bool,
    /// The text that tasks have printed.
    pub console: Console,
    /// For each task whose program has pages, the changes of those that it maps by calls.
    page_changes: BTreeMap<ThreadId, Vec<PageChange>>,
}

/// The text of a console, line by line: a line stands where it was complete, as on a board.
#[derive(Clone, Debug, Default)]
pub struct Console {
    /// The complete lines, each with its end.
    pub text: String,
    /// For each client, by its badge, the line that is not complete.
    open: BTreeMap<u64, Vec<u8>>,
}

impl Console {
    /// Keeps the text of a message, if it has some.
    pub fn print(&mut self, client: u64, message: &fusee::Message) {
        let Some(fusee::console::Request::Print(text, length)) = fusee::console::Request::of(message) else { return };
        let line = self.open.entry(client).or_default();
        for &byte in &text[..length] {
            line.push(byte);
            if byte == b'\n' {
                self.text.push_str(&String::from_utf8_lossy(&std::mem::take(line)));
            }
        }
    }

    /// The whole text: all complete lines, then the incomplete line of each client, in order of badges, with a newline added.
    #[must_use]
    pub fn all(mut self) -> String {
        for line in self.open.into_values().filter(|line| !line.is_empty()) {
            self.text.push_str(&String::from_utf8_lossy(&line));
            self.text.push('\n');
        }
        self.text
    }
}

/// A change of pages of a region that a task maps by calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PageChange {
    /// The region.
    pub region: RegionId,
    /// Number of the first page.
    pub first: u64,
    /// How many pages.
    pub count: u64,
    /// Whether they are there afterwards.
    pub mapped: bool,
}

/// A job of a source or a sink of a graph has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GraphEnd {
    /// The graph's region.
    pub graph: usize,
    /// The node's number.
    pub node: usize,
    /// When the job was released, nanoseconds.
    pub release: u64,
    /// When its script ended.
    pub at: u64,
}

impl Board {
    /// The machine that `system` describes. `managed` doorbells are mapped by the kernel alone.
    #[must_use]
    pub fn new(system: &System<'_>, managed: bool) -> Board {
        let mut memory = Memory::default();
        // Those without a lock come after the others: the kernel does not count them.
        let users = || {
            let of_lock = system.engine_users().iter().map(|user| (user, false));
            of_lock.chain(system.shared_users().iter().map(|user| (user, true)))
        };
        // One for each status page, in the order of these.
        let pages: BTreeSet<u64> = users().map(|(user, _)| user.progress / contract::PAGE_BYTES).collect();
        // The place of its words in the status page tells engine and context.
        let place = |user: &EngineUser| {
            let place = user.progress % contract::PAGE_BYTES / contract::STATUS_PROGRESS_BYTES;
            (place as usize / contract::CONTEXTS, place as usize % contract::CONTEXTS)
        };
        let new = |(index, page)| {
            let here = users().filter(|(user, _)| user.progress / contract::PAGE_BYTES == page);
            let last = here.map(|(user, _)| place(user).1).max().unwrap_or_default();
            Simulated::new(index, page, contract::Contexts::new(last + 1).unwrap_or_default(), &mut memory)
        };
        let mut devices: Vec<Simulated> = pages.into_iter().enumerate().map(new).collect();
        let uses: Vec<DeviceUse> = users()
            .enumerate()
            .map(|(place_of_use, (user, shares))| {
                let status_page = user.progress / contract::PAGE_BYTES;
                let device = devices.partition_point(|one| one.status_page < status_page);
                // A damaged system may name an engine that is not there.
                let engine = system.engines().get(user.engine as usize);
                let interrupt = engine.and_then(|engine| engine.interrupt_plus_one.checked_sub(1));
                devices[device].interrupt = devices[device].interrupt.or(interrupt.map(|index| index as usize));
                let (number, context) = place(user);
                let at_boot = match (shares, engine.is_some_and(|engine| engine.sharer_plus_one != 0)) {
                    (true, true) => Page::ReadOnly,
                    // Without a device there is no doorbell, managed or not.
                    (false, _) if managed || context == 0 => Page::Nothing,
                    _ => Page::Doorbell,
                };
                DeviceUse {
                    place: place_of_use,
                    system_engine: user.engine as usize,
                    device,
                    engine: contract::EngineIndex::from_number(number).unwrap_or(contract::EngineIndex::Execution),
                    context,
                    task: user.task as usize,
                    page: at_boot,
                    at_boot,
                    shares,
                    shadow: 0,
                }
            })
            .collect();
        let mut places = vec![None; system.engines().len()];
        for ((user, _), one) in users().zip(&uses) {
            if let Some(place) = places.get_mut(user.engine as usize) {
                *place = (one.context > 0).then_some((one.device, one.engine));
            }
        }
        let mut board = Board {
            now: 0,
            spent: 0,
            overheads: Overheads::NONE,
            cpu: CpuId(0),
            registers: vec![Registers::EMPTY; system.tasks().len()],
            begun: Vec::new(),
            closed: system.tasks().iter().map(|task| Supervision::of(task.supervision).is_dormant).collect(),
            enabled: vec![false; system.interrupts().len()],
            pending: vec![false; system.interrupts().len()],
            records: Vec::new(),
            recorded: 0,
            ended: None,
            places,
            uses,
            locks: system.engine_users().len(),
            own_stores: Vec::new(),
            storing: None,
            regions: Regions::new(system),
            memory,
            devices,
            ended_jobs: BTreeMap::new(),
            waiting_nodes: BTreeSet::new(),
            graph_ends: Vec::new(),
            polls: false,
            console: Console::default(),
            page_changes: BTreeMap::new(),
        };
        for device in 0..board.devices.len() {
            board.open_contexts(device);
        }
        board
    }

    /// Gives a device its choice among clients, and the cost of that.
    pub fn describe(&mut self, device: &fusee_manifest::Device) {
        let page = device.status / contract::PAGE_BYTES;
        let Some(index) = self.devices.iter().position(|one| one.status_page == page) else { return };
        let arbiter = match device.arbiter {
            fusee_manifest::Arbiter::Arrival => Arbiter::ARRIVAL,
            fusee_manifest::Arbiter::RoundRobin => Arbiter::ROUND_ROBIN,
            fusee_manifest::Arbiter::Weighted => Arbiter::weighted(device.weights()),
        };
        let (switch, counters) = (device.switch.into(), device.counters);
        let tokens = device.weights().map(u16::from);
        let (number, mechanism, keyed) = (device.sms, device.mechanism, device.keyed);
        let sms = (number > 0).then_some(Sms { number, mechanism, tokens, keyed });
        self.devices[index].keyed = keyed;
        let Simulated { device, contexts, .. } = &mut self.devices[index];
        let description = Description { arbiter, switch, counters, sms, ..description(index, *contexts) };
        device.equip(Equipment::owned(sms.as_ref()));
        device.configure(description, &mut self.memory).expect("the simulator's own device description is right");
    }

    /// The first step of the driver: a translation table for each context, with its ring page.
    fn open_contexts(&mut self, device: usize) {
        for context in self.contexts(device) {
            let table = of(device, SYSTEM.base) + context as u64 * 0x2000;
            let page = ring_page(device, context);
            let entry = contract::TableEntry { page, writable: true, memory: contract::Memory::System };
            let slot = table + contract::table_index(contract::RING_BASE) * contract::ENTRY_BYTES;
            let words = contract::control_context(context) + of(device, CONTROL);
            self.store_u64(slot, entry.encode());
            self.store_u64(words + contract::CONTEXT_TABLE, table);
            self.store(words + contract::CONTEXT_TABLE_ENTRIES, 2);
            let flags =
                contract::CONTEXT_VALID | if self.shares(device, context) { contract::CONTEXT_SHARED } else { 0 };
            self.store(words + contract::CONTEXT_FLAGS, flags);
        }
    }

    /// The contexts of its clients.
    fn contexts(&self, device: usize) -> Range<usize> {
        1..self.devices[device].contexts.number()
    }

    /// Whether the client of this context uses engines without their locks.
    fn shares(&self, device: usize, context: usize) -> bool {
        self.uses.iter().any(|one| one.shares && (one.device, one.context) == (device, context))
    }

    fn store(&mut self, address: u64, value: u32) {
        self.memory.write_u32(address, value).expect("the simulator's own addresses are right");
    }

    fn store_u64(&mut self, address: u64, value: u64) {
        self.memory.write_u64(address, value).expect("the simulator's own addresses are right");
    }

    fn load_u64(&mut self, address: u64) -> u64 {
        self.memory.read_u64(address).expect("the simulator's own addresses are right")
    }

    fn load(&mut self, address: u64) -> u32 {
        self.memory.read_u32(address).expect("the simulator's own addresses are right")
    }

    /// Commands that `engine` of `device` has retired for `context`.
    pub fn retired(&mut self, device: usize, engine: contract::EngineIndex, context: usize) -> u32 {
        self.load(of(device, STATUS) + contract::status_retired(engine, context))
    }

    /// For how many nanoseconds `engine` of `device` has run for `context`, and that has been backlogged, if the device counts.
    pub fn counted(&mut self, device: usize, engine: contract::EngineIndex, context: usize) -> Option<[u64; 2]> {
        let status = of(device, STATUS);
        let mut read = |at| self.memory.read_u64(status + at).expect("the simulator's own addresses are right");
        let counted = [contract::status_counted, contract::status_backlogged].map(|at| read(at(engine, context)));
        (self.load(status + contract::STATUS_COUNTS) != 0).then_some(counted)
    }

    /// The devices that raise interrupt `index`, which stand side by side.
    #[must_use]
    pub fn devices_of(&self, index: usize) -> Range<usize> {
        let raises = |device: &&Simulated| device.interrupt == Some(index);
        let first = self.devices.iter().take_while(|device| !raises(device)).count();
        first..first + self.devices[first..].iter().take_while(raises).count()
    }

    /// When a device must be polled next.
    #[must_use]
    pub fn devices_next(&self) -> Option<u64> {
        self.devices.iter().filter_map(|device| device.next).min()
    }

    /// The use of engine `engine` by `task`.
    #[must_use]
    pub fn find_use(&self, task: usize, engine: u32) -> Option<DeviceUse> {
        // Context 0 is nobody's: a lock without a device.
        let is_asked_for =
            |one: &DeviceUse| one.context > 0 && one.task == task && one.engine.number() == engine as usize;
        // Of several devices, the one with the engine that the task holds.
        let of_task = || self.uses.iter().copied().filter(is_asked_for);
        of_task().find(|one| !matches!(one.page, Page::Nothing)).or_else(|| of_task().next())
    }

    /// A client submits a burn and rings: the store faults on a board if the doorbell is not mapped, or may only be read.
    ///
    /// # Errors
    /// The client would have faulted for good.
    pub fn submit(&mut self, one: DeviceUse, time: u64) -> Result<Submitted, &'static str> {
        if one.page == Page::Replaced {
            return Ok(Submitted::Lost);
        }
        let number = self.count(one)?;
        let command = contract::Command { operation: contract::Operation::Burn { time }, fence: None };
        let slot = ring_page(one.device, one.context) + contract::ring_slot(one.engine, number);
        self.memory.write(slot, &command.encode()).expect("a ring page exists");
        let target = number.wrapping_add(1);
        let store = DoorbellStore { place: one.place, value: target, kicks: true };
        Ok(if self.make(store) { Submitted::Done(target) } else { Submitted::Asked(target, store) })
    }

    /// A client changes the count in its doorbell, by `change`, and kicks the device or not. The store, if it faults.
    ///
    /// # Errors
    /// The client would have faulted for good.
    pub fn ring(&mut self, one: DeviceUse, change: i32, kicks: bool) -> Result<Option<DoorbellStore>, &'static str> {
        if one.page == Page::Replaced {
            if kicks {
                self.kick();
            }
            return Ok(None);
        }
        let store = DoorbellStore { place: one.place, value: self.count(one)?.wrapping_add_signed(change), kicks };
        Ok((!self.make(store)).then_some(store))
    }

    /// The count that a client reads in the place of its doorbell.
    fn count(&mut self, one: DeviceUse) -> Result<u32, &'static str> {
        match one.page {
            Page::Nothing if one.shares => Err("a doorbell that is absent"),
            Page::Nothing => Err("a store to a doorbell whose lock is not held"),
            Page::Shadow | Page::Replaced => Ok(one.shadow),
            Page::Doorbell | Page::ReadOnly => Ok(self.load(doorbell(one))),
        }
    }

    /// Makes a store of a client, if it may be made now, and the client's next step; returns whether it was made.
    #[must_use]
    pub fn make(&mut self, store: DoorbellStore) -> bool {
        let one = self.uses[store.place];
        match one.page {
            Page::Doorbell => {
                self.store(doorbell(one), store.value);
                self.own_stores.extend(one.shares.then_some((self.now, one.task)));
            }
            Page::Shadow => self.uses[store.place].shadow = store.value,
            Page::Nothing | Page::ReadOnly | Page::Replaced => return false,
        }
        self.go_on(store);
        true
    }

    /// The client goes on behind a store that was made.
    pub fn go_on(&mut self, store: DoorbellStore) {
        if store.kicks {
            self.kick();
        }
    }

    /// Lets all devices look.
    pub fn kick(&mut self) {
        let now = Some(self.now);
        self.devices.iter_mut().for_each(|device| device.next = now);
    }

    /// Where on which device an engine of the system is, if anybody uses it there.
    #[must_use]
    pub fn place_of(&self, engine: usize) -> Option<(usize, contract::EngineIndex)> {
        self.places.get(engine).copied().flatten()
    }

    /// Commands that stand in the doorbell of `context` for `engine` of `device`.
    pub fn submitted(&mut self, device: usize, engine: contract::EngineIndex, context: usize) -> u32 {
        self.load(doorbell_of(device, engine, context))
    }

    /// Makes a store to that doorbell in the place of its client.
    pub fn submit_for(&mut self, device: usize, engine: contract::EngineIndex, context: usize, submitted: u32) {
        self.store(doorbell_of(device, engine, context), submitted);
    }

    /// Commands of it that `engine` of `device` has seen.
    pub fn seen(&mut self, device: usize, engine: contract::EngineIndex, context: usize) -> u32 {
        self.load(of(device, STATUS) + contract::status_seen(engine, context))
    }

    /// The context with the command that `engine` of `device` runs, plus one; 0: none.
    pub fn running(&mut self, device: usize, engine: contract::EngineIndex) -> usize {
        self.load(of(device, STATUS) + contract::status_running(engine)) as usize
    }

    /// The resets that another life of the driver of `device` begins with: each is said to have been asked before, as in [`Board::request_resets`].
    pub fn all_resets(&self, device: usize) -> u64 {
        let bits = contract::ENGINES + if self.devices[device].keyed { contract::CONTEXTS } else { 0 };
        (1 << bits) - 1
    }

    /// The driver of `device` lets it forget commands submitted to these engines, one bit each; the bits above are contexts with commands that the
    /// execution engine alone forgets.
    pub fn request_resets(&mut self, device: usize, engines: u64) {
        for context in self.contexts(device).filter(|context| engines >> contract::ENGINES >> context & 1 != 0) {
            self.request_reset(device, contract::EngineIndex::Execution, context);
            self.devices[device].next = Some(self.now);
        }
        for engine in contract::EngineIndex::ALL.into_iter().filter(|engine| engines >> engine.number() & 1 != 0) {
            let running = self.running(device, engine);
            for context in self.contexts(device) {
                if self.shares(device, context) && context + 1 != running {
                    continue;
                }
                self.request_reset(device, engine, context);
            }
            self.devices[device].next = Some(self.now);
        }
    }

    /// Lets `device` forget the commands of `context`, one without locks, on `engine`, if one of them runs. Returns whether one does.
    pub fn reset_running(&mut self, device: usize, engine: contract::EngineIndex, context: usize) -> bool {
        let runs = self.shares(device, context) && self.running(device, engine) == context + 1;
        if runs {
            self.request_reset(device, engine, context);
            self.devices[device].next = Some(self.now);
        }
        runs
    }

    fn request_reset(&mut self, device: usize, engine: contract::EngineIndex, context: usize) {
        let request = of(device, CONTROL) + contract::control_reset_request(context, engine);
        let before = self.load(request);
        self.store(request, before.wrapping_add(1));
    }

    /// Whether it has forgotten them.
    pub fn is_reset(&mut self, device: usize, engine: contract::EngineIndex) -> bool {
        let control = of(device, CONTROL);
        self.contexts(device).all(|context| {
            self.load(control + contract::control_reset_request(context, engine))
                == self.load(control + contract::control_reset_done(context, engine))
        })
    }

    /// From now on `device` misbehaves with commands of `context` as these bits say.
    pub fn inject(&mut self, device: usize, context: usize, wrong: u32) {
        self.store(of(device, CONTROL) + contract::control_context(context) + contract::CONTEXT_INJECT, wrong);
    }

    /// The word that `thread` would load from the region of its `handle`, or store to.
    ///
    /// # Errors
    /// The access would have faulted.
    pub fn reach(&mut self, thread: ThreadId, handle: u64, stores: bool) -> Result<&mut u64, &'static str> {
        self.regions.reach(thread.index(), handle, stores).ok_or("a region that is not mapped")
    }

    /// Keeps the changes of pages that `thread` maps by calls, from here on.
    pub fn keep_page_changes(&mut self, thread: ThreadId) {
        self.page_changes.entry(thread).or_default();
    }

    /// All changes of pages that `thread` has made by calls, in all of its lives.
    #[must_use]
    pub fn page_changes(&self, thread: ThreadId) -> &[PageChange] {
        self.page_changes.get(&thread).map_or(&[], Vec::as_slice)
    }

    /// Polls the devices that are due; interrupts that they raise are pending.
    pub fn poll_devices(&mut self) {
        for device in &mut self.devices {
            while device.next.is_some_and(|next| next <= self.now) {
                let actions = device.device.poll(self.now, &mut self.memory);
                device.next = actions.next;
                if let Some(interrupt) = device.interrupt.filter(|_| actions.interrupt) {
                    self.pending[interrupt] = true;
                }
            }
        }
    }

    /// The commands done for each use.
    pub fn commands(&mut self) -> Vec<Commands> {
        let uses = self.uses.clone();
        let of = |one: DeviceUse| Commands {
            task: one.task,
            shares: one.shares,
            submitted: self.submitted(one.device, one.engine, one.context),
            retired: self.retired(one.device, one.engine, one.context),
        };
        uses.into_iter().filter(|one| one.context > 0).map(of).collect()
    }

    /// The number of completions, of all devices, announced later than [`LATE_TOLERANCE`](contract::timing::LATE_TOLERANCE) after
    /// their modelled instant.
    #[must_use]
    pub fn late_completions(&self) -> u32 {
        self.devices.iter().map(|device| device.device.late_completions()).sum()
    }

    /// Whether the line has something to say and is not kept from it.
    #[must_use]
    pub fn may_fire(&self, interrupt: usize) -> bool {
        self.pending[interrupt] && self.enabled[interrupt]
    }
}

impl Simulated {
    fn new(index: usize, status_page: u64, contexts: contract::Contexts, memory: &mut Memory) -> Simulated {
        let mut device = Box::new(Device::EMPTY);
        device
            .configure(description(index, contexts), memory)
            .expect("the simulator's own device description is right");
        Simulated { status_page, device, contexts, keyed: false, next: None, interrupt: None }
    }
}

impl Board {
    /// How the records say that `thread` traps so.
    pub fn what(&mut self, thread: Option<ThreadId>, trap: Trap) -> u32 {
        match trap {
            Trap::Syscall => thread.map_or(0, |thread| self.registers(thread).general[NUMBER].min(0xff) as u32),
            Trap::Fault(_) => TRAP_FAULT,
            Trap::Timer => TRAP_TIMER,
            Trap::Kick => TRAP_KICK,
            Trap::Interrupt(interrupt) => BY_INTERRUPT + u32::from(interrupt.number()),
        }
    }

    /// Keeps the record of a trap that ends, if it took any time.
    pub fn keep_trap(&mut self, thread: Option<ThreadId>, what: u32, waited: u64) {
        if self.spent > 0 {
            self.trace(Record {
                time: self.now + self.spent,
                event: Event::Trap as u8,
                thread: thread.map_or(0, ThreadId::number),
                job: what,
                object: waited as u32,
                value: self.spent as u32,
                ..Record::default()
            });
        }
    }
}

/// A device as it is unless a manifest says more of it. Burns run on all engines, and a task only uses those that the manifest says there are.
fn description(index: usize, contexts: contract::Contexts) -> Description {
    Description {
        control: of(index, CONTROL),
        status: of(index, STATUS),
        doorbells: of(index, DOORBELLS),
        local: Window { base: of(index, LOCAL.base), ..LOCAL },
        system: Window { base: of(index, SYSTEM.base), ..SYSTEM },
        copy_engines: contract::CopyEngines::Two,
        contexts,
        ..Description::default()
    }
}

/// The address in the device with this index for `address` of the first device.
fn of(device: usize, address: u64) -> u64 {
    address + device as u64 * STEP
}

fn ring_page(device: usize, context: usize) -> u64 {
    of(device, SYSTEM.base) + 0x8_0000 + context as u64 * contract::PAGE_BYTES
}

fn doorbell(one: DeviceUse) -> u64 {
    doorbell_of(one.device, one.engine, one.context)
}

fn doorbell_of(device: usize, engine: contract::EngineIndex, context: usize) -> u64 {
    of(device, DOORBELLS) + contract::doorbell_page(engine, context) + contract::DOORBELL_SUBMITTED
}
