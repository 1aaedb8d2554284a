//! The device: doorbells in, completions out.
//!
//! Up to three engines, each with one running command at most, and one ring for each engine and
//! context. [`Device::poll`] looks at everything there is to see at one instant: resets,
//! doorbells, completions that are due, engines that are free, work left to do.
//!
//! # Invariants
//!
//! 1. `retired <= next <= seen` in each ring, counted with wrapping, and `seen - retired` is
//!    at most [`RING_ENTRIES`]. `next - retired` is 1 while a command of the ring runs of which the device does not lie, else 0.
//! 2. An engine is free only if nothing is queued for it.
//! 3. The device keeps its counts for itself and only copies them into the status page: no
//!    client can change its mind by writing there.
//! 4. A command begins only if, after its count was published as seen, the doorbell still said so. So a
//!    reader that finds doorbell, seen and retired word equal, while no client stores to the doorbell, knows
//!    that nothing of this ring runs or will.
//!
//! 5. Of a shared context, a command runs only if the gate of its engine was open after it was counted as begun. So a reader that has shut the gate,
//!    and then reads as many begun as ended, knows that no shared command runs or will; a reader of another count is interrupted when it is so.
//!
//! Where the contract says that the device misbehaves on request (`CONTEXT_INJECT`), it does so for commands of that
//! context only: a fault there is no excuse for a wrong result elsewhere.
//!
//! Not here: the work of a command (`work.rs`), translation (`space.rs`).

mod hearing;
mod running;

use crate::space::{Fault, Space};
use crate::spatial::{Equipment, Spatial};
use crate::times::{Launched, Measured, Times};
use crate::work::Progress;
use crate::{Bus, BusError, Description, DescriptionError, PEERS, Peer, Window};
use fusee_accel::sharing::Arbiter;
use fusee_accel_contract::{
    COMMAND_BYTES, CONTEXT_FLAGS, CONTEXT_INJECT, CONTEXT_SHARED, CONTEXT_TABLE, CONTEXT_TABLE_ENTRIES, CONTEXT_VALID,
    CONTEXTS, Contexts, CopyEngines, DOORBELL_SUBMITTED, ENGINES, EngineIndex, FaultKind, Fence, KERNELS, Memory,
    Operation, RING_ENTRIES, control_context, control_gate, doorbell_page, outstanding, timing::Slowdown,
};
use fusee_compute::Entry;
use fusee_spatial::{Context, RealTime};

//--- Public types

/// The actions that the caller of [`Device::poll`] must take.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Actions {
    /// Raise the device's interrupt, once: something retired, or faulted, or was reset.
    pub interrupt: bool,
    /// When to poll again, unless a kick comes first. Not after `now`: again at once.
    /// `None`: only a kick can change anything.
    pub next: Option<u64>,
}

/// The whole device. Large: it belongs into a static, not onto a stack.
pub struct Device {
    pub(crate) description: Description,
    rings: [[Ring; CONTEXTS]; ENGINES],
    engines: [Engine; ENGINES],
    reset_done: [[u32; CONTEXTS]; ENGINES],
    faults: [u32; CONTEXTS],
    late_completions: u32,
    configured: bool,
    interrupt: bool,
    /// When an interrupt comes that has been kept back.
    late_interrupt: Option<u64>,
    /// When the next spurious one may come.
    noise_at: u64,
    /// An interrupt for completions of shared contexts is kept back,
    kept_back: bool,
    /// until the last one is so long ago.
    quiet_until: u64,
    kernels: &'static [Entry],
    times: Times,
    /// Time consists of executed instructions: code takes too long by its own instructions only.
    is_exact: bool,
    /// Jobs of kernels so far.
    jobs: u64,
    /// The measurements of each class of launches, as far as the control page has room.
    measured: [Measured; KERNELS],
    /// The SMs of the execution engine, if it has some, and the work under way on them: then nothing runs on the engine itself.
    pub(crate) equipment: Equipment,
    pub(crate) spatial: Spatial,
}

/// The commands of one engine and context, by number.
#[derive(Clone, Copy)]
struct Ring {
    seen: u32,
    next: u32,
    retired: u32,
    /// A doorbell made no sense; nothing is taken from it until a reset.
    halted: bool,
    arrivals: [u64; RING_ENTRIES as usize],
}

struct Engine {
    running: Option<Running>,
    /// When the last command ended.
    free_at: u64,
    busy: u64,
    /// Shared commands that have begun and ended. Both are counted where they are published.
    begun: u32,
    ended: u32,
    /// The gate was shut when the device looked last: commands that wait behind it begin when it is open, and not when they came.
    was_shut: bool,
    arbiter: Arbiter,
    /// The context of the last command.
    last: Option<usize>,
    /// Nanoseconds of each context: run, and backlogged until `counted`.
    ran: [u64; CONTEXTS],
    backlogged: [u64; CONTEXTS],
    counted: u64,
}

impl Engine {
    const IDLE: Self = Self {
        running: None,
        free_at: 0,
        busy: 0,
        begun: 0,
        ended: 0,
        was_shut: false,
        arbiter: Arbiter::ARRIVAL,
        last: None,
        ran: [0; CONTEXTS],
        backlogged: [0; CONTEXTS],
        counted: 0,
    };
}

#[derive(Clone, Copy)]
pub(crate) struct Running {
    context: usize,
    number: u32,
    pub start: u64,
    pub due: u64,
    pub operation: Operation,
    fence: Option<Fence>,
    pub fault: Option<Fault>,
    pub progress: Progress,
    pub launched: Option<Launched>,
    /// The command was announced as retired when it began.
    lied: bool,
    /// The command was counted as a shared one.
    pub shares: bool,
}

//--- Public functions

impl Device {
    /// A device that has not been configured.
    pub const EMPTY: Self = Self::new();

    const fn new() -> Self {
        Self {
            description: Description {
                control: 0,
                status: 0,
                doorbells: 0,
                local: Window { base: 0, length: 0 },
                system: Window { base: 0, length: 0 },
                copy_engines: CopyEngines::None,
                preemptible: false,
                slowdown: Slowdown::NEAR,
                peers: [Peer::NONE; PEERS],
                contexts: Contexts::DEFAULT,
                arbiter: Arbiter::ARRIVAL,
                switch: 0,
                counters: false,
                sms: None,
            },
            rings: [[Ring::EMPTY; CONTEXTS]; ENGINES],
            engines: [const { Engine::IDLE }; ENGINES],
            reset_done: [[0; CONTEXTS]; ENGINES],
            faults: [0; CONTEXTS],
            late_completions: 0,
            configured: false,
            interrupt: false,
            late_interrupt: None,
            noise_at: 0,
            kept_back: false,
            quiet_until: 0,
            kernels: &[],
            times: Times::Known(&[]),
            is_exact: false,
            jobs: 0,
            measured: [Measured::NOTHING; KERNELS],
            equipment: Equipment::Nothing,
            spatial: Spatial::IDLE,
        }
    }

    /// Gives the device kernels, and measured times of those without a time by their authors, before it is configured. `is_exact`: the time that
    /// [`Device::poll`] is told counts executed instructions, and not the work of a host meanwhile; then a launch that takes far longer than its time
    /// fails ([`FaultKind::TooLong`]), otherwise it is late.
    pub fn offer(&mut self, kernels: &'static [Entry], times: Times, is_exact: bool) {
        (self.kernels, self.times, self.is_exact) = (kernels, times, is_exact);
    }

    /// Gives the device SMs, before it is configured as one that has some.
    pub fn equip(&mut self, equipment: Equipment) {
        self.equipment = equipment;
    }

    /// Connects the device to memory, once, before the first poll.
    ///
    /// Every ring starts where the status page says it was left: commands rung since count as done. Every reset counts as done.
    /// [`MAGIC`](fusee_accel_contract::MAGIC) appears in the control page when all else is in place.
    ///
    /// # Errors
    /// [`DescriptionError`]. The device then stays as it was.
    pub fn configure(&mut self, description: Description, bus: &mut impl Bus) -> Result<(), DescriptionError> {
        description.check()?;
        if let Some(sms) = &description.sms {
            let units = self.equipment.units().ok_or(DescriptionError::Sms)?;
            units.become_new(RealTime, sms.description()).map_err(|_| DescriptionError::Sms)?;
            for (context, tokens) in Context::all().zip(sms.tokens) {
                units.set_tokens(context, tokens);
            }
        }
        let before = core::mem::replace(&mut self.description, description);
        if let Err(BusError) = self.introduce(bus) {
            self.description = before;
            return Err(DescriptionError::Bus);
        }
        self.engines.iter_mut().for_each(|engine| engine.arbiter = description.arbiter);
        self.configured = true;
        Ok(())
    }

    /// Looks at the world at instant `now`, in nanoseconds that never go back.
    ///
    /// Call it after each kick and at each instant it asked for. It costs some thousand
    /// instructions, and a slice of work if there is any.
    ///
    /// A bus that refuses the device's own pages, which [`Device::configure`] has seen working,
    /// makes the device deaf, not wrong.
    pub fn poll(&mut self, now: u64, bus: &mut impl Bus) -> Actions {
        if !self.configured {
            return Actions { interrupt: false, next: None };
        }
        // 1. Hear: resets that the driver asks for, commands of the clients.
        for context in 0..self.description.contexts.number() {
            for engine in EngineIndex::ALL {
                self.answer_reset(engine, context, now, bus);
            }
            if self.is_valid(context, bus) {
                for engine in EngineIndex::ALL {
                    self.read_doorbell(engine, context, now, bus);
                }
            }
        }
        // 2. Announce what is due, in model order; the successor starts where it ended.
        if self.has_sms() {
            self.advance_sms(now, bus);
            while self.announce_sms(now, bus) {
                self.advance_sms(now, bus);
            }
        }
        while let Some(engine) = self.earliest(|running| running.progress == Progress::Finished && running.due <= now) {
            self.announce(engine, now, bus);
            self.start_next(engine, now, bus);
        }
        for engine in EngineIndex::ALL {
            self.start_next(engine, now, bus);
        }
        // 3. Work, a slice, for the engine that is due first; blocks on SMs have a slice besides.
        if let Some(engine) = self.earliest(|running| running.progress != Progress::Finished) {
            self.work(engine, now, bus);
        }
        if self.has_sms() {
            self.work_on_sms(now, bus);
        }
        // 4. Say when to come again.
        let unfinished = self.earliest(|running| running.progress != Progress::Finished);
        let next = match unfinished {
            Some(_) => Some(now),
            None => self.running().map(|(_, running)| running.due).min(),
        };
        let kept_back = self.let_go(now);
        let on_sms = if self.has_sms() { self.next_of_sms(now) } else { None };
        let next = [next, on_sms, self.misbehave(now, bus), kept_back].into_iter().flatten().min();
        Actions { interrupt: core::mem::take(&mut self.interrupt), next }
    }

    /// The context with the command that `engine` works on at this moment. The status page does not say it of a device that lies; tests
    /// compare both.
    #[must_use]
    pub fn working_for(&self, engine: EngineIndex) -> Option<usize> {
        let on_sms = || self.spatial.running().next().map(|(context, _)| context);
        let runs = self.engines[engine.number()].running.map(|running| running.context);
        runs.or_else(|| on_sms().filter(|_| engine == EngineIndex::Execution))
    }

    /// Completions announced more than [`timing::LATE_TOLERANCE`](fusee_accel_contract::timing::LATE_TOLERANCE) after their instant. In a run
    /// with results that count, this is 0.
    #[must_use]
    pub fn late_completions(&self) -> u32 {
        self.late_completions
    }
}

//--- Small things

impl Ring {
    const EMPTY: Self = Self::starting_at(0);

    const fn starting_at(number: u32) -> Self {
        let arrivals = [0; RING_ENTRIES as usize];
        Self { seen: number, next: number, retired: number, halted: false, arrivals }
    }

    /// Whether a doorbell may say this: neither more than fits, nor less than was there before.
    const fn takes(&self, submitted: u32) -> bool {
        let claimed = outstanding(submitted, self.retired);
        claimed <= RING_ENTRIES && claimed >= outstanding(self.seen, self.retired)
    }
}

impl Device {
    fn has_sms(&self) -> bool {
        self.description.sms.is_some()
    }

    fn ring(&mut self, engine: EngineIndex, context: usize) -> &mut Ring {
        &mut self.rings[engine.number()][context]
    }

    fn doorbell(&self, engine: EngineIndex, context: usize) -> u64 {
        self.description.doorbells + doorbell_page(engine, context) + DOORBELL_SUBMITTED
    }

    fn running(&self) -> impl Iterator<Item = (EngineIndex, &Running)> {
        EngineIndex::ALL
            .into_iter()
            .filter_map(|engine| Some((engine, self.engines[engine.number()].running.as_ref()?)))
    }

    /// The engine that is due first, of those with a command that is `wanted`.
    fn earliest(&self, wanted: impl Fn(&Running) -> bool) -> Option<EngineIndex> {
        let wanted = self.running().filter(|(_, running)| wanted(running));
        wanted.min_by_key(|(_, running)| running.due).map(|(engine, _)| engine)
    }

    fn is_valid(&self, context: usize, bus: &mut impl Bus) -> bool {
        let flags = bus.read_u32(self.description.control + control_context(context) + CONTEXT_FLAGS);
        flags.is_ok_and(|flags| flags & CONTEXT_VALID != 0)
    }

    pub(crate) fn is_shared(&self, context: usize, bus: &mut impl Bus) -> bool {
        let flags = bus.read_u32(self.description.control + control_context(context) + CONTEXT_FLAGS);
        flags.is_ok_and(|flags| flags & CONTEXT_SHARED != 0)
    }

    pub(crate) fn is_shut(&self, engine: EngineIndex, bus: &mut impl Bus) -> bool {
        bus.read_u32(self.description.control + control_gate(engine)) != Ok(0)
    }

    /// Whether the device is to do this wrong with commands of a context.
    fn does(&self, wrong: u32, context: usize, bus: &mut impl Bus) -> bool {
        let bits = bus.read_u32(self.description.control + control_context(context) + CONTEXT_INJECT);
        bits.is_ok_and(|bits| bits & wrong != 0)
    }

    /// The command in a slot of a ring.
    fn fetch(&self, context: usize, slot: u64, bus: &mut impl Bus) -> Result<[u8; COMMAND_BYTES], Fault> {
        let mut bytes = [0; COMMAND_BYTES];
        self.space(context, slot, bus)?.read(bus, slot, Memory::System, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes a command's fence, if it has one.
    fn write_fence(&self, context: usize, fence: Option<Fence>, error: u32, bus: &mut impl Bus) -> Result<(), Fault> {
        let Some(fence) = fence else { return Ok(()) };
        self.space(context, fence.address, bus)?.write_word(bus, fence.address, fence.value | error)
    }

    /// The memory that a context may touch now, or a fault about `address`.
    fn space(&self, context: usize, address: u64, bus: &mut impl Bus) -> Result<Space, Fault> {
        if !self.is_valid(context, bus) {
            return Err(Fault { kind: FaultKind::ContextInvalid, address });
        }
        let words = self.description.control + control_context(context);
        let table = bus.read_u64(words + CONTEXT_TABLE);
        let entries = bus.read_u32(words + CONTEXT_TABLE_ENTRIES);
        let (Ok(table), Ok(entries)) = (table, entries) else {
            return Err(Fault { kind: FaultKind::Bus, address });
        };
        let Description { local, system, copy_engines, peers, .. } = self.description;
        Ok(Space { table, entries, local, system, copy_engines, peers })
    }
}
