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

use crate::launch;
use crate::space::{Access, Fault, Space};
use crate::spatial::{Equipment, Spatial};
use crate::times::{Launched, Measured, Times, Unmeasured};
use crate::work::{self, Progress, Slice};
use crate::{Bus, BusError, Description, DescriptionError, Job, PEERS, Peer, Ran, Window};
use fusee_accel::sharing::{Arbiter, Arrival, Client, Sharing, Waiting};
use fusee_accel_contract::{
    COMMAND_BYTES, CONTEXT_FAULT, CONTEXT_FAULT_ADDRESS, CONTEXT_FAULT_COMMAND, CONTEXT_FAULT_COUNT, CONTEXT_FLAGS,
    CONTEXT_INJECT, CONTEXT_SHARED, CONTEXT_TABLE, CONTEXT_TABLE_ENTRIES, CONTEXT_VALID, CONTEXTS, CONTROL_CONTEXTS,
    CONTROL_ENGINES, CONTROL_FEATURES, CONTROL_KERNELS, CONTROL_LATE_COMPLETIONS, CONTROL_MAGIC, CONTROL_SMS,
    CONTROL_VERSION, Command, Contexts, CopyEngines, DOORBELL_SUBMITTED, ENGINES, EngineIndex, FEATURE_BURN,
    FEATURE_COUNTERS, FEATURE_INJECT, FEATURE_KEYS, FEATURE_PREEMPTIBLE, FEATURE_RESET, FEATURE_SMS,
    FEATURE_TRANSLATION, FENCE_ERROR, FaultKind, FaultWord, Fence, INJECT_DEAF, INJECT_LATE, INJECT_LIE, INJECT_LOST,
    INJECT_SPURIOUS, KERNEL_BYTES, KERNEL_LAUNCHES, KERNELS, Launch, MAGIC, MORE_BYTES, Memory, Operation, RING_BASE,
    RING_ENTRIES, STATUS_COUNTS, VERSION, control_context, control_gate, control_reset_done, control_reset_request,
    doorbell_page, more_offset, outstanding, ring_slot, status_backlogged, status_begun, status_busy, status_counted,
    status_ended, status_retired, status_running, status_seen,
    timing::{self, Slowdown},
};
use fusee_compute::{Entry, find};
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

/// The number of times that a kernel may go on to compute the needs of its launch, if it is interrupted: an author may have made it endless, and
/// meanwhile no engine of the device is served. Where time consists of executed instructions it also goes on no third time after so many nanoseconds;
/// elsewhere time says nothing, as a host may do something else all the while.
const PLAN_SLICES: usize = 32;
const PLAN_TIME: u64 = 100_000;

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
    /// [`MAGIC`] appears in the control page when all else is in place.
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

    /// Completions announced more than [`timing::LATE_TOLERANCE`] after their instant. In a run
    /// with results that count, this is 0.
    #[must_use]
    pub fn late_completions(&self) -> u32 {
        self.late_completions
    }
}

//--- Hearing

impl Device {
    /// Fills control and status page, and starts each ring behind the retired commands: where memory is fresh, at zero.
    fn introduce(&mut self, bus: &mut impl Bus) -> Result<(), BusError> {
        let Description { control, status, contexts, .. } = self.description;
        for context in 0..contexts.number() {
            for engine in EngineIndex::ALL {
                let retired = bus.read_u32(status + status_retired(engine, context))?;
                *self.ring(engine, context) = Ring::starting_at(retired);
                bus.write_u32(status + status_seen(engine, context), retired)?;
                let request = bus.read_u32(control + control_reset_request(context, engine))?;
                self.reset_done[engine.number()][context] = request;
                bus.write_u32(control + control_reset_done(context, engine), request)?;
                bus.write_u64(status + status_counted(engine, context), 0)?;
                bus.write_u64(status + status_backlogged(engine, context), 0)?;
            }
            let words = control + control_context(context);
            bus.write_u32(words + CONTEXT_FAULT, 0)?;
            bus.write_u32(words + CONTEXT_FAULT_COUNT, 0)?;
        }
        for engine in EngineIndex::ALL {
            bus.write_u64(status + status_busy(engine), 0)?;
            bus.write_u32(status + status_begun(engine), 0)?;
            bus.write_u32(status + status_ended(engine), 0)?;
            bus.write_u32(status + status_running(engine), 0)?;
        }
        self.measured = [Measured::NOTHING; KERNELS];
        for place in 0..KERNELS as u64 {
            bus.write_u32(control + CONTROL_KERNELS + KERNEL_BYTES * place + KERNEL_LAUNCHES, 0)?;
        }
        bus.write_u32(control + CONTROL_VERSION, VERSION)?;
        let preemptible = if self.description.preemptible { FEATURE_PREEMPTIBLE } else { 0 };
        let counters = if self.description.counters { FEATURE_COUNTERS } else { 0 };
        let sms = self.description.sms.map_or(0, |sms| sms.number.into());
        let keys = if self.description.sms.is_some_and(|sms| sms.keyed) { FEATURE_KEYS } else { 0 };
        let spatial = if sms > 0 { FEATURE_SMS | keys } else { 0 };
        if sms > 0 {
            self.introduce_sms(bus)?;
        }
        bus.write_u32(status + STATUS_COUNTS, self.description.counters.into())?;
        let features =
            FEATURE_TRANSLATION | FEATURE_RESET | FEATURE_BURN | FEATURE_INJECT | preemptible | counters | spatial;
        bus.write_u32(control + CONTROL_FEATURES, features)?;
        bus.write_u32(control + CONTROL_ENGINES, self.description.copy_engines.engines() as u32)?;
        bus.write_u32(control + CONTROL_CONTEXTS, contexts.number() as u32)?;
        bus.write_u32(control + CONTROL_SMS, sms)?;
        bus.write_u32(control + CONTROL_LATE_COMPLETIONS, 0)?;
        bus.write_u32(control + CONTROL_MAGIC, MAGIC)
    }

    /// Forgets a ring's commands if the driver asks for it.
    fn answer_reset(&mut self, engine: EngineIndex, context: usize, now: u64, bus: &mut impl Bus) {
        let Description { control, status, .. } = self.description;
        let Ok(request) = bus.read_u32(control + control_reset_request(context, engine)) else { return };
        if request == self.reset_done[engine.number()][context] || self.does(INJECT_DEAF, context, bus) {
            return;
        }
        let Ok(submitted) = bus.read_u32(self.doorbell(engine, context)) else { return };
        let ring = *self.ring(engine, context);
        let is_on_sms = engine == EngineIndex::Execution && self.has_sms();
        let unit = &mut self.engines[engine.number()];
        let aborted = match is_on_sms {
            true => self.spatial.slots[context].running,
            false => unit.running.filter(|running| running.context == context),
        };
        let has_run = aborted.is_some();
        let end = aborted.map_or(now, |aborted| now.min(aborted.due));
        self.count(engine, end, bus);
        if let Some(aborted) = aborted {
            match is_on_sms {
                true => self.remove_from_sms(context, end, bus),
                false => self.free(engine, &aborted, end, bus),
            }
            if !aborted.lied {
                let _ = self.write_fence(context, aborted.fence, FENCE_ERROR, bus);
            }
            self.leave(engine, &aborted, bus);
        }
        // Commands that were rung for and not seen are lost, too.
        let Ring { next, .. } = ring;
        let last = if ring.takes(submitted) { submitted } else { ring.seen };
        for number in 0..outstanding(last, next) {
            let slot = RING_BASE + ring_slot(engine, next.wrapping_add(number));
            if let Ok(bytes) = self.fetch(context, slot, bus) {
                let _ = self.write_fence(context, Command::fence_of(&bytes), FENCE_ERROR, bus);
            }
        }
        *self.ring(engine, context) = Ring::starting_at(submitted);
        self.reset_done[engine.number()][context] = request;
        let _ = bus.write_u32(status + status_seen(engine, context), submitted);
        let _ = bus.write_u32(status + status_retired(engine, context), submitted);
        let _ = bus.write_u32(control + control_reset_done(context, engine), request);
        // As of completions; for commands that ran behind a shut gate the kernel may wait.
        let is_moderated = self.is_shared(context, bus) && !(has_run && self.is_shut(engine, bus));
        self.interrupt |= !is_moderated;
        self.kept_back |= is_moderated;
    }

    fn read_doorbell(&mut self, engine: EngineIndex, context: usize, now: u64, bus: &mut impl Bus) {
        let doorbell = self.doorbell(engine, context);
        let Ok(submitted) = bus.read_u32(doorbell) else { return };
        let present = self.description.copy_engines.include(engine);
        let ring = self.ring(engine, context);
        let before = ring.seen;
        if submitted == before || ring.halted {
            return;
        }
        if !ring.takes(submitted) || !present {
            ring.halted = true;
            let kind = if present { FaultKind::DoorbellOverrun } else { FaultKind::NoEngine };
            let fault = Fault { kind, address: u64::from(submitted) };
            self.record(engine, context, before, fault, bus);
            // Once until its driver resets it.
            self.interrupt = true;
            return;
        }
        // Either it still stands there after all can know that it was seen, or nothing comes of it: its client changes its mind, and
        // kicks again if it means its present store.
        let seen = self.description.status + status_seen(engine, context);
        let _ = bus.write_u32(seen, submitted);
        bus.settle();
        if bus.read_u32(doorbell) != Ok(submitted) {
            let _ = bus.write_u32(seen, before);
            return;
        }
        self.count(engine, now, bus);
        let ring = self.ring(engine, context);
        while ring.seen != submitted {
            ring.arrivals[(ring.seen % RING_ENTRIES) as usize] = now;
            ring.seen = ring.seen.wrapping_add(1);
        }
    }
}

//--- Running

impl Device {
    /// Starts the next command on a free engine, if one is queued.
    fn start_next(&mut self, engine: EngineIndex, now: u64, bus: &mut impl Bus) {
        if engine == EngineIndex::Execution && self.has_sms() {
            return;
        }
        let is_empty = |ring: &Ring| ring.next == ring.seen;
        if self.engines[engine.number()].running.is_some() || self.rings[engine.number()].iter().all(is_empty) {
            return;
        }
        let is_shut = self.is_shut(engine, bus);
        let mut kept_out = [false; CONTEXTS];
        for (context, kept_out) in kept_out.iter_mut().enumerate() {
            let ring = &self.rings[engine.number()][context];
            *kept_out = is_shut && ring.next != ring.seen && self.is_shared(context, bus);
        }
        let was_shut = core::mem::replace(&mut self.engines[engine.number()].was_shut, is_shut);
        let begins_late = was_shut && !is_shut;
        let unit = &self.engines[engine.number()];
        let waiting = |context: usize, ring: &Ring| Waiting {
            client: Client(context as u8),
            arrival: Arrival(ring.arrivals[(ring.next % RING_ENTRIES) as usize]),
        };
        let heads = || {
            let rings = self.rings[engine.number()].iter().enumerate();
            let rings = rings.filter(|(context, ring)| ring.next != ring.seen && !kept_out[*context]);
            rings.map(|(context, ring)| waiting(context, ring))
        };
        // The choice is made when the engine becomes free, or when the first command arrives;
        // later commands are no part of it.
        let Some(first) = heads().map(|head| head.arrival.0).min() else { return };
        let start = unit.free_at.max(first).max(if begins_late { now } else { 0 });
        let mut list = [Waiting { client: Client(0), arrival: Arrival(0) }; CONTEXTS];
        let mut length = 0;
        for (place, head) in list.iter_mut().zip(heads().filter(|head| head.arrival.0 <= start)) {
            *place = head;
            length += 1;
        }
        let list = &list[..length];
        // A policy that answers nonsense gets the first.
        let chosen = self.engines[engine.number()]
            .arbiter
            .choose(list)
            .and_then(|position| list.get(position))
            .unwrap_or(&list[0]);
        let context = usize::from(chosen.client.0);
        let shares = self.is_shared(context, bus);
        if shares && !self.enter(engine, bus) {
            return;
        }
        self.start(engine, context, shares, start, bus);
    }

    /// Counts a shared command as begun, if the gate is open after that.
    pub(crate) fn enter(&mut self, engine: EngineIndex, bus: &mut impl Bus) -> bool {
        let status = self.description.status;
        let unit = &mut self.engines[engine.number()];
        unit.begun = unit.begun.wrapping_add(1);
        let _ = bus.write_u32(status + status_begun(engine), unit.begun);
        bus.settle();
        if !self.is_shut(engine, bus) {
            return true;
        }
        // The gate was shut in between. The reader that shut it may have seen this command, and waits for it.
        let unit = &mut self.engines[engine.number()];
        unit.was_shut = true;
        unit.ended = unit.ended.wrapping_add(1);
        let _ = bus.write_u32(status + status_ended(engine), unit.ended);
        self.interrupt = true;
        false
    }

    /// Adds the time until `end` to that of contexts which have been backlogged.
    pub(crate) fn count(&mut self, engine: EngineIndex, end: u64, bus: &mut impl Bus) {
        if !self.description.counters {
            return;
        }
        let status = self.description.status;
        let unit = &mut self.engines[engine.number()];
        let passed = end.saturating_sub(unit.counted);
        unit.counted = unit.counted.max(end);
        let is_others = unit.running.is_some_and(|running| !running.shares);
        for (context, ring) in self.rings[engine.number()].iter().enumerate() {
            if ring.seen != ring.retired && !(is_others && self.is_shared(context, bus)) {
                let backlogged = &mut self.engines[engine.number()].backlogged[context];
                *backlogged = backlogged.saturating_add(passed);
                let _ = bus.write_u64(status + status_backlogged(engine, context), *backlogged);
            }
        }
    }

    /// The command that ran has done so until `end`.
    fn free(&mut self, engine: EngineIndex, running: &Running, end: u64, bus: &mut impl Bus) {
        let Description { status, counters, .. } = self.description;
        let unit = &mut self.engines[engine.number()];
        unit.running = None;
        unit.free_at = end;
        unit.busy = unit.busy.saturating_add(end - running.start);
        let _ = bus.write_u64(status + status_busy(engine), unit.busy);
        if counters {
            let ran = &mut unit.ran[running.context];
            *ran = ran.saturating_add(end - running.start);
            let _ = bus.write_u64(status + status_counted(engine, running.context), *ran);
        }
    }

    /// A command runs no more.
    fn leave(&mut self, engine: EngineIndex, running: &Running, bus: &mut impl Bus) {
        let status = self.description.status;
        let _ = bus.write_u32(status + status_running(engine), 0);
        if running.shares {
            let unit = &mut self.engines[engine.number()];
            unit.ended = unit.ended.wrapping_add(1);
            let _ = bus.write_u32(status + status_ended(engine), unit.ended);
            bus.settle();
        }
    }

    fn start(&mut self, engine: EngineIndex, context: usize, shares: bool, start: u64, bus: &mut impl Bus) {
        let running = self.description.status + status_running(engine);
        let _ = bus.write_u32(running, context as u32 + 1);
        let running = self.begin(engine, context, shares, start, bus);
        self.engines[engine.number()].running = Some(running);
    }

    /// Takes the next command of a context's ring, which runs from `start` on, and computes its end if it runs alone.
    pub(crate) fn begin(
        &mut self,
        engine: EngineIndex,
        context: usize,
        shares: bool,
        start: u64,
        bus: &mut impl Bus,
    ) -> Running {
        let ring = self.ring(engine, context);
        let number = ring.next;
        ring.next = ring.next.wrapping_add(1);

        let slot = RING_BASE + ring_slot(engine, number);
        let bad = Fault { kind: FaultKind::BadCommand, address: slot };
        let fetched = self.fetch(context, slot, bus);
        let command = fetched
            .and_then(|bytes| self.decode(&bytes, context, number, bus)?.ok_or(bad))
            .and_then(|command| if command.operation.runs_on(engine) { Ok(command) } else { Err(bad) });
        let prepared = command.and_then(|command| match &command.operation {
            Operation::Launch(launch) => self.prepare(launch, context, bad, bus).map(Some),
            _ => Ok(None),
        });
        let command = command.and_then(|command| Ok((command, prepared?)));
        let lied = self.does(INJECT_LIE, context, bus);
        let switches = self.engines[engine.number()].last.replace(context) != Some(context);
        let runs_from = start.saturating_add(if switches { self.description.switch } else { 0 });
        let running = match command {
            Ok((command, prepared)) => Running {
                context,
                number,
                start,
                due: runs_from
                    .saturating_add(prepared.and_then(|launched| launched.said).unwrap_or(0))
                    .saturating_add(timing::modelled_time_over(self.way(&command, context, bus), &command, engine)),
                operation: command.operation,
                fence: command.fence,
                fault: None,
                progress: match command.operation {
                    Operation::Burn { .. } => Progress::Finished,
                    _ => Progress::Slices(0),
                },
                launched: prepared,
                lied,
                shares,
            },
            Err(fault) => Running {
                context,
                number,
                start,
                due: runs_from.saturating_add(timing::SETUP),
                operation: Operation::Burn { time: timing::SETUP },
                fence: fetched.ok().and_then(|bytes| Command::fence_of(&bytes)),
                fault: Some(fault),
                progress: Progress::Finished,
                launched: None,
                lied,
                shares,
            },
        };
        if lied {
            self.retire(engine, &running, bus);
            self.interrupt |= !shares;
            self.kept_back |= shares;
        }
        running
    }

    /// When the next command of a context's ring came, if there is one.
    pub(crate) fn next_arrival(&self, engine: EngineIndex, context: usize) -> Option<u64> {
        let ring = &self.rings[engine.number()][context];
        (ring.next != ring.seen).then_some(ring.arrivals[(ring.next % RING_ENTRIES) as usize])
    }

    /// The command in a slot of a ring, and the words beside it; nothing, if that is no command.
    fn decode(
        &self,
        bytes: &[u8; COMMAND_BYTES],
        context: usize,
        number: u32,
        bus: &mut impl Bus,
    ) -> Result<Option<Command>, Fault> {
        let mut more = [0; MORE_BYTES];
        if Command::has_more(bytes) {
            let at = RING_BASE + more_offset(number);
            self.space(context, at, bus)?.read(bus, at, Memory::System, &mut more)?;
        }
        Ok(Command::decode_with(bytes, &more).ok())
    }

    /// Computes the needs of a launch, if it is possible. `bad` is the fault if the kernel does not do such a launch.
    fn prepare(&mut self, launch: &Launch, context: usize, bad: Fault, bus: &mut impl Bus) -> Result<Launched, Fault> {
        let unknown = Fault { kind: FaultKind::NoKernel, address: launch.kernel.into() };
        let entry = find(self.kernels, launch.kernel).ok_or(unknown)?;
        let space = self.space(context, bad.address, bus)?;
        let first = self.jobs + 1;
        let job = Job::plan(entry, launch, space, (self.description.control, self.jobs));
        let before = bus.spent();
        let mut ran = bus.run(&job);
        for again in 1..PLAN_SLICES {
            let has_time = !self.is_exact || again == 1 || bus.spent() - before < PLAN_TIME;
            if has_time && matches!(ran, Ok(Ran::Unfinished)) {
                ran = bus.run(&job);
            }
        }
        self.jobs = first + u64::from(launch.blocks);
        let plan = match ran {
            Ok(Ran::Planned(plan)) => plan.ok_or(bad)?,
            Err((kind, address)) => return Err(Fault { kind, address }),
            Ok(Ran::Done | Ran::Unfinished) => {
                return Err(Fault { kind: FaultKind::TooLong, address: launch.first.into() });
            }
        };
        launch::check(&plan, &space, self.description.copy_engines.operands(), bus)?;
        let said = match plan.time {
            Some(time) => Some(time),
            None => self
                .times
                .of(launch.kernel, plan.class, launch.blocks)
                .map_err(|Unmeasured| Fault { kind: FaultKind::NotMeasured, address: plan.class.into() })?,
        };
        // A launch that is being measured has a poll for each block.
        let of_block = said.map_or(u64::MAX, |said| said / u64::from(launch.blocks) / timing::INSTRUCTION);
        let instructions = usize::try_from(of_block).unwrap_or(usize::MAX).min(work::ENOUGH);
        Ok(Launched { entry, class: plan.class, first, instructions, said, ran: 0, longest: 0, block: 0 })
    }

    /// The way that a copy takes: that of its first byte, if it comes from a peer. A copy that faults takes any.
    fn way(&self, command: &Command, context: usize, bus: &mut impl Bus) -> Slowdown {
        let Operation::PeerCopy { source, .. } = command.operation else { return self.description.slowdown };
        let found =
            self.space(context, source, bus).and_then(|space| space.translate(bus, source, Memory::Peer, Access::Read));
        let peer = found.ok().and_then(|page| self.description.peers.iter().find(|peer| peer.memory.contains(page, 1)));
        peer.map_or(Slowdown::NEAR, |peer| peer.slowdown)
    }

    /// Does a slice of work, or several small ones.
    fn work(&mut self, engine: EngineIndex, now: u64, bus: &mut impl Bus) {
        let Some(mut running) = self.engines[engine.number()].running else { return };
        let late_from = running.due.saturating_add(timing::LATE_TOLERANCE / 2);
        self.work_on(&mut running, engine, (u64::MAX, late_from), now, bus);
        self.engines[engine.number()].running = Some(running);
    }

    /// Does a slice of work of this command, up to slice or block `available`; a block that is worked on after `late_from` takes too long.
    pub(crate) fn work_on(
        &mut self,
        running: &mut Running,
        engine: EngineIndex,
        (available, late_from): (u64, u64),
        now: u64,
        bus: &mut impl Bus,
    ) {
        let space = self.space(running.context, 0, bus);
        let mut instructions = 0;
        while let Progress::Slices(done) = running.progress
            && instructions < work::ENOUGH
            && done < available
        {
            let operation = running.operation;
            let before = bus.spent();
            let slice = space.and_then(|space| match (&operation, running.launched) {
                (Operation::Launch(launch), Some(Launched { entry, first, instructions, .. })) => {
                    let block = launch.first + done as u32;
                    let late = now > late_from;
                    if late && self.is_exact && running.launched.is_some_and(|launched| launched.said.is_some()) {
                        return Err(Fault { kind: FaultKind::TooLong, address: block.into() });
                    }
                    let job = Job::block(entry, launch, block, space, (self.description.control, first + done));
                    let progress = match bus.run(&job) {
                        Ok(Ran::Unfinished) => {
                            return Ok(Slice { progress: running.progress, instructions: work::ENOUGH });
                        }
                        Err((kind, address)) => return Err(Fault { kind, address }),
                        Ok(_) if done + 1 == u64::from(launch.blocks) => Progress::Finished,
                        Ok(_) => Progress::Slices(done + 1),
                    };
                    Ok(Slice { progress, instructions })
                }
                _ => work::slice(&operation, engine, done, &space, bus),
            });
            if let Some(launched) = &mut running.launched {
                let ran = bus.spent() - before;
                launched.ran += ran;
                launched.block += ran;
                launched.longest = launched.longest.max(launched.block);
                if slice.as_ref().is_ok_and(|slice| slice.progress != running.progress) {
                    launched.block = 0;
                }
            }
            match slice {
                Ok(slice) => {
                    running.progress = slice.progress;
                    instructions += slice.instructions;
                }
                Err(fault) => {
                    running.fault = Some(fault);
                    running.progress = Progress::Finished;
                }
            }
        }
    }

    /// Tells everybody that a command has ended: fault, fence, retired word, interrupt.
    fn announce(&mut self, engine: EngineIndex, now: u64, bus: &mut impl Bus) {
        let Some(running) = self.engines[engine.number()].running else { return };
        self.count(engine, running.due, bus);
        self.free(engine, &running, running.due, bus);
        self.tell(engine, &running, now, bus);
    }

    /// Announces the end of a command that runs no more.
    pub(crate) fn tell(&mut self, engine: EngineIndex, running: &Running, now: u64, bus: &mut impl Bus) {
        let Description { control, .. } = self.description;
        let is_measured = running.launched.is_some_and(|launched| launched.said.is_none());
        if !is_measured && now > running.due.saturating_add(timing::LATE_TOLERANCE) {
            self.late_completions = self.late_completions.saturating_add(1);
            let _ = bus.write_u32(control + CONTROL_LATE_COMPLETIONS, self.late_completions);
        }
        if let (Some(launched), None) = (running.launched, running.fault) {
            Measured::take_down(&mut self.measured, &launched, control, bus);
        }
        if !running.lied {
            self.retire(engine, running, bus);
        }
        self.leave(engine, running, bus);
        if running.shares && !self.is_shut(engine, bus) {
            self.kept_back = true;
            return;
        }
        if self.does(INJECT_LATE, running.context, bus) {
            self.late_interrupt.get_or_insert(now + timing::INJECT_DELAY);
        } else if !self.does(INJECT_LOST, running.context, bus) {
            self.interrupt = true;
        }
    }

    /// Fault, fence and retired word of a command that has ended.
    fn retire(&mut self, engine: EngineIndex, running: &Running, bus: &mut impl Bus) {
        let Running { context, number, fault, fence, .. } = *running;
        let error = if fault.is_some() { FENCE_ERROR } else { 0 };
        let written = self.write_fence(context, fence, error, bus);
        if let Some(fault) = fault.or(written.err()) {
            self.record(engine, context, number, fault, bus);
        }
        let ring = self.ring(engine, context);
        ring.retired = ring.retired.wrapping_add(1);
        let retired = ring.retired;
        let _ = bus.write_u32(self.description.status + status_retired(engine, context), retired);
    }

    /// Raises the interrupt that shared contexts wait for, if the last one is long enough ago; when it is.
    fn let_go(&mut self, now: u64) -> Option<u64> {
        if self.kept_back && self.quiet_until <= now {
            (self.kept_back, self.interrupt) = (false, true);
            self.quiet_until = now + timing::MODERATION;
        }
        self.kept_back.then_some(self.quiet_until)
    }

    /// Raises the interrupts that are late or for nothing; when the next is due.
    fn misbehave(&mut self, now: u64, bus: &mut impl Bus) -> Option<u64> {
        if self.late_interrupt.take_if(|at| *at <= now).is_some() {
            self.interrupt = true;
        }
        let running = self.engines.iter().filter_map(|engine| engine.running.as_ref());
        let mut running = running.chain(self.spatial.running().map(|(_, running)| running));
        if !running.any(|one| self.does(INJECT_SPURIOUS, one.context, bus)) {
            return self.late_interrupt;
        }
        if self.noise_at <= now {
            self.noise_at = now + timing::INJECT_PERIOD;
            self.interrupt = true;
        }
        Some(self.noise_at.min(self.late_interrupt.unwrap_or(u64::MAX)))
    }

    /// Keeps a context's first fault, and counts all of them.
    fn record(&mut self, engine: EngineIndex, context: usize, number: u32, fault: Fault, bus: &mut impl Bus) {
        let words = self.description.control + control_context(context);
        self.faults[context] = self.faults[context].wrapping_add(1);
        let _ = bus.write_u32(words + CONTEXT_FAULT_COUNT, self.faults[context]);
        if bus.read_u32(words + CONTEXT_FAULT) == Ok(0) {
            let _ = bus.write_u64(words + CONTEXT_FAULT_ADDRESS, fault.address);
            let _ = bus.write_u32(words + CONTEXT_FAULT_COMMAND, number);
            let _ = bus.write_u32(words + CONTEXT_FAULT, FaultWord { kind: fault.kind, engine }.encode());
        }
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
