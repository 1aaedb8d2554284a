//! An execution engine with SMs: commands of several contexts at once, as blocks that are preempted within microseconds.
//!
//! The assignment of blocks to SMs, and the ends of blocks, are the business of `fusee-spatial`. Here a command becomes a grid of blocks, and the
//! real work of each block is done once: after it was issued, and in the order of blocks, however they were preempted. So the results are those of an
//! engine without SMs.
//!
//! | Command | Becomes |
//! |---|---|
//! | a launch | its blocks, each of the same time: as many as there are SMs run at once, and all together, alone, take the time that the launch says |
//! | a burn | one block for each SM, which takes its time |
//!
//! Nothing is known of registers and shared memory of a block: it is taken to need those of a whole SM, which is the most that a save can take. Commands of a context that has no lock
//! ([`CONTEXT_SHARED`](fusee_accel_contract::CONTEXT_SHARED)) are best effort. All others have the key that the kernel says
//! ([`control_key`]), if the device is one that looks at it; else one key, since their lock orders them.
//!
//! # Invariants
//!
//! 1. Of each context one command at most is under way; its ring's others wait.
//! 2. The real work of one block goes on until it has ended before that of another begins.
//! 3. A command is announced at the end of its last block, and after the real work of all its blocks.
//!
//! Not here: policies and mechanisms (`accel/spatial`).

use fusee_accel_contract::{
    CONTEXTS, EngineIndex, Operation, STATUS_SM_TIME, control_key, status_busy, status_counted, status_running,
    status_sm_time, timing,
};
use fusee_spatial::limits::BLOCK_TIME_MAX;
use fusee_spatial::{Bad, Context, Engine, Grid, Host, Key, Limits, Mechanism, Outcome, RealTime, Record};

use crate::Bus;
use crate::device::{Device, Running};
use crate::work::Progress;

/// The state of all SMs. Large: it belongs into a static, or onto a heap.
pub type Units = Engine<RealTime>;

/// One SM, to be made as many as a device has when that is configured.
pub const UNITS: Units = match Units::new(RealTime, Sms::of(1, Mechanism::Switch).description()) {
    Ok(units) => units,
    Err(_) => panic!("an engine has one SM at least"),
};

/// The SMs of an execution engine, in a [`Description`](crate::Description).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sms {
    /// How many, 1 to 16.
    pub number: u8,
    /// How blocks make room for those of others.
    pub mechanism: Mechanism,
    /// The parts that each context has in the SMs that clients without a lock share.
    pub tokens: [u16; CONTEXTS],
    /// Contexts with a lock have the keys that the kernel says ([`FEATURE_KEYS`](fusee_accel_contract::FEATURE_KEYS)).
    pub keyed: bool,
}

impl Sms {
    /// So many; all contexts alike.
    #[must_use]
    pub const fn of(number: u8, mechanism: Mechanism) -> Sms {
        Sms { number, mechanism, tokens: [1; CONTEXTS], keyed: false }
    }

    pub(crate) const fn description(&self) -> fusee_spatial::Description {
        // As many kernels as contexts: a lock's holder does not wait behind clients without one.
        let places = CONTEXTS as u8;
        fusee_spatial::Description { sms: self.number, places, limits: Limits::K20C, mechanism: self.mechanism }
    }
}

/// Where the SMs of a device are.
#[derive(Default)]
pub enum Equipment {
    /// The engine has no SMs.
    #[default]
    Nothing,
    /// Somewhere else.
    Lent(&'static mut Units),
    /// On the heap.
    #[cfg(feature = "std")]
    Owned(std::boxed::Box<Units>),
}

impl Equipment {
    pub(crate) fn units(&mut self) -> Option<&mut Units> {
        match self {
            Equipment::Nothing => None,
            Equipment::Lent(units) => Some(units),
            #[cfg(feature = "std")]
            Equipment::Owned(units) => Some(units),
        }
    }
}

#[cfg(feature = "std")]
impl Equipment {
    /// SMs on the heap, for a device that has some.
    #[must_use]
    pub fn owned(sms: Option<&Sms>) -> Equipment {
        let units = sms.and_then(|sms| Units::new(RealTime, sms.description()).ok());
        units.map_or(Equipment::Nothing, |units| Equipment::Owned(std::boxed::Box::new(units)))
    }
}

/// The work of contexts under way.
pub(crate) struct Spatial {
    pub slots: [Slot; CONTEXTS],
    /// The context with a block that has been worked on and has not ended, and the instant since when.
    working: Option<(usize, u64)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub running: Option<Running>,
    /// When its blocks come to the SMs; `u64::MAX`: they have.
    arrives: u64,
    /// The grid that comes then: how many blocks, and how long each takes.
    grid: (u32, u64),
    /// Blocks that were issued.
    issued: u32,
    /// The key of its blocks.
    key: Key,
    /// When the last command ended.
    pub free_at: u64,
}

impl Spatial {
    pub const IDLE: Self = Self {
        slots: [Slot { running: None, arrives: NEVER, grid: (0, 0), issued: 0, key: Key(0), free_at: 0 }; CONTEXTS],
        working: None,
    };

    /// Commands under way, with their contexts.
    pub fn running(&self) -> impl Iterator<Item = (usize, &Running)> {
        self.slots.iter().enumerate().filter_map(|(context, slot)| Some((context, slot.running.as_ref()?)))
    }

    /// The context of the next block to work on: one that has begun goes on, and the smallest key comes first.
    fn next_work(&self) -> Option<usize> {
        let has_work = |slot: &Slot| {
            slot.running.is_some_and(|running| match running.progress {
                Progress::Slices(done) => done < u64::from(slot.issued),
                Progress::Finished => false,
            })
        };
        let begun = self.working.map(|(context, _)| context).filter(|context| has_work(&self.slots[*context]));
        let all = self.running().filter(|(context, _)| has_work(&self.slots[*context]));
        begun.or_else(|| Some(all.min_by_key(|(context, running)| (self.slots[*context].key, running.start))?.0))
    }
}

const ENGINE: EngineIndex = EngineIndex::Execution;
const NEVER: u64 = u64::MAX;

/// The receiver of the SMs' events of blocks and launches. The state of a preempted block is its number: its work was done when it was issued.
struct Slots<'a>(&'a mut [Slot; CONTEXTS]);

impl Host for Slots<'_> {
    fn block(&mut self, _: u64, context: Context, _: u64, _: u32) -> Result<(), Bad> {
        self.0[context.index()].issued += 1;
        Ok(())
    }

    fn saved(&mut self, _: u64, _: &Record) -> Result<(), Bad> {
        Ok(())
    }

    fn restored(&mut self, _: u64, _: &Record) -> Result<(), Bad> {
        Ok(())
    }

    fn ended(&mut self, now: u64, context: Context, _: u64, _: Outcome) {
        if let Some(running) = &mut self.0[context.index()].running {
            running.due = now;
        }
    }
}

impl Device {
    /// Begins the next command of each context that has none under way, and lets time pass on the SMs until `now`.
    pub(crate) fn advance_sms(&mut self, now: u64, bus: &mut impl Bus) {
        for context in 0..CONTEXTS {
            self.begin_on_sms(context, now, bus);
        }
        let Some(units) = self.equipment.units() else { return };
        loop {
            let first = self.spatial.slots.iter().map(|slot| slot.arrives).min().unwrap_or(NEVER);
            units.advance(first.min(now), &mut Slots(&mut self.spatial.slots));
            if first > now {
                return self.hear_keys(now, bus);
            }
            for (index, slot) in self.spatial.slots.iter_mut().enumerate().filter(|(_, slot)| slot.arrives == first) {
                slot.arrives = NEVER;
                let (Some(context), Some(running)) = (Context::new(index), &mut slot.running) else { continue };
                units.set_key(context, slot.key);
                let (blocks, time) = slot.grid;
                if units.submit(context, &grid(blocks, time), 0).is_err() {
                    // Each grid made here fits, and of each context there is one at a time.
                    running.due = first;
                }
            }
        }
    }

    /// Gives commands under way their present keys, and publishes the time that each context has occupied so far.
    fn hear_keys(&mut self, now: u64, bus: &mut impl Bus) {
        if !self.is_keyed() {
            return;
        }
        for index in 0..CONTEXTS {
            let Some(running) = self.spatial.slots[index].running else { continue };
            let key = self.key_of(index, running.shares, bus);
            self.spatial.slots[index].key = key;
            if let (Some(units), Some(context)) = (self.equipment.units(), Context::new(index)) {
                units.set_key(context, key);
            }
        }
        let Some(units) = self.equipment.units() else { return };
        units.advance(now, &mut Slots(&mut self.spatial.slots));
        for index in 0..CONTEXTS {
            if self.spatial.slots[index].running.is_some() {
                self.tell_occupied(index, bus);
            }
        }
    }

    /// Whether contexts have keys of their own.
    fn is_keyed(&self) -> bool {
        self.description.sms.is_some_and(|sms| sms.keyed)
    }

    /// The key of a context's blocks. One that cannot be read is the last.
    fn key_of(&self, context: usize, shares: bool, bus: &mut impl Bus) -> Key {
        match shares {
            true => Key::BEST_EFFORT,
            false if self.is_keyed() => {
                let word = self.description.control + control_key(context);
                bus.read_u64(word).map_or(Key::EXHAUSTED, Key)
            }
            false => Key(0),
        }
    }

    /// Says for how long a context has had an SM.
    fn tell_occupied(&mut self, context: usize, bus: &mut impl Bus) {
        let at = self.description.status + status_counted(ENGINE, context);
        let (Some(units), Some(number)) = (self.equipment.units(), Context::new(context)) else { return };
        let _ = bus.write_u64(at, units.counters().of(number).occupied);
    }

    /// Begins the next command of a context, if it has none under way and one waits.
    fn begin_on_sms(&mut self, context: usize, now: u64, bus: &mut impl Bus) {
        let is_free = self.spatial.slots[context].running.is_none();
        let Some(arrival) = self.next_arrival(ENGINE, context).filter(|_| is_free) else { return };
        let shares = self.is_shared(context, bus);
        if shares && (self.is_shut(ENGINE, bus) || !self.enter(ENGINE, bus)) {
            return;
        }
        let start = self.spatial.slots[context].free_at.max(arrival).min(now);
        let (mut running, sms) = (self.begin(ENGINE, context, shares, start, bus), self.sms());
        let key = self.key_of(context, shares, bus);
        let slot = &mut self.spatial.slots[context];
        (slot.issued, slot.arrives, slot.key) = (0, NEVER, key);
        if running.fault.is_none() {
            let time = running.due - start;
            slot.grid = match running.operation {
                Operation::Launch(launch) => {
                    let said = running.launched.and_then(|launched| launched.said).unwrap_or(0);
                    slot.arrives = start + (time - said.min(time));
                    (launch.blocks, said / u64::from(launch.blocks.div_ceil(sms)))
                }
                _ => {
                    slot.arrives = start;
                    (sms, time)
                }
            };
            running.due = NEVER;
        }
        slot.running = Some(running);
        self.say_who_runs(bus);
    }

    /// Announces all commands that have ended by `now`, in the order of their ends. Returns whether there were any.
    pub(crate) fn announce_sms(&mut self, now: u64, bus: &mut impl Bus) -> bool {
        let is_over = |running: &Running| running.progress == Progress::Finished && running.due <= now;
        let mut has_any = false;
        while let Some((context, running)) =
            self.spatial.running().filter(|(_, running)| is_over(running)).min_by_key(|(_, running)| running.due)
        {
            let running = *running;
            has_any = true;
            self.count(ENGINE, running.due, bus);
            self.free_slot(context, running.due, bus);
            self.tell(ENGINE, &running, now, bus);
            self.say_who_runs(bus);
        }
        has_any
    }

    /// How many SMs there are.
    fn sms(&self) -> u32 {
        self.description.sms.map_or(1, |sms| sms.number.into())
    }

    /// Takes a context's blocks from all SMs.
    fn clear_sms(&mut self, context: usize) {
        if let (Some(units), Some(context)) = (self.equipment.units(), Context::new(context)) {
            units.remove(context);
        }
    }

    /// Forgets the command that a context has under way: it has worked until `end`.
    pub(crate) fn remove_from_sms(&mut self, context: usize, end: u64, bus: &mut impl Bus) {
        self.clear_sms(context);
        self.free_slot(context, end, bus);
        self.say_who_runs(bus);
    }

    fn free_slot(&mut self, context: usize, end: u64, bus: &mut impl Bus) {
        let slot = &mut self.spatial.slots[context];
        (slot.running, slot.arrives, slot.free_at) = (None, NEVER, end);
        self.spatial.working = self.spatial.working.filter(|(working, _)| *working != context);
        let (status, sms, keyed) = (self.description.status, u64::from(self.sms()), self.is_keyed());
        let counts = self.description.counters;
        if keyed {
            self.tell_occupied(context, bus);
        }
        let (Some(units), Some(number)) = (self.equipment.units(), Context::new(context)) else { return };
        let usage = units.counters().of(number);
        let words = [usage.running, usage.saving, usage.restoring, usage.preemptions];
        for (place, word) in words.into_iter().enumerate() {
            let _ = bus.write_u64(status + status_sm_time(context) + 8 * place as u64, word);
        }
        if counts && !keyed {
            let _ = bus.write_u64(status + status_counted(ENGINE, context), usage.running / sms);
        }
        let busy: u64 = Context::all().map(|context| units.counters().of(context).sm_time()).sum();
        let _ = bus.write_u64(status + status_busy(ENGINE), busy / sms);
    }

    /// Publishes one of the contexts with commands under way.
    fn say_who_runs(&self, bus: &mut impl Bus) {
        let first = self.spatial.running().next().map_or(0, |(context, _)| context as u32 + 1);
        let _ = bus.write_u32(self.description.status + status_running(ENGINE), first);
    }

    /// Clears the counters of SMs.
    pub(crate) fn introduce_sms(&mut self, bus: &mut impl Bus) -> Result<(), crate::BusError> {
        for place in 0..4 * CONTEXTS as u64 {
            bus.write_u64(self.description.status + STATUS_SM_TIME + 8 * place, 0)?;
        }
        for context in 0..CONTEXTS {
            bus.write_u64(self.description.status + status_counted(ENGINE, context), 0)?;
        }
        Ok(())
    }

    /// Does a slice of the real work of blocks that were issued.
    pub(crate) fn work_on_sms(&mut self, now: u64, bus: &mut impl Bus) {
        let Some(context) = self.spatial.next_work() else { return };
        let slot = self.spatial.slots[context];
        let Some(mut running) = slot.running else { return };
        let (before, since) = (running.progress, self.spatial.working.filter(|(working, _)| *working == context));
        let since = since.map_or(now, |(_, since)| since);
        // For a block that takes too long the due end is unknown, but not the time for which it may be worked on.
        let late_from = since.saturating_add(slot.grid.1).saturating_add(timing::LATE_TOLERANCE / 2);
        let limit = late_from.min(running.due.saturating_add(timing::LATE_TOLERANCE / 2));
        self.work_on(&mut running, ENGINE, (u64::from(slot.issued), limit), now, bus);
        self.spatial.working = (running.progress == before).then_some((context, since));
        if running.fault.is_some() {
            self.clear_sms(context);
            running.due = running.due.min(now);
        }
        self.spatial.slots[context].running = Some(running);
    }

    /// When the SMs want to be looked at next.
    pub(crate) fn next_of_sms(&mut self, now: u64) -> Option<u64> {
        if self.spatial.next_work().is_some() {
            return Some(now);
        }
        let ends = self.spatial.running().filter(|(_, running)| running.progress == Progress::Finished);
        let ends = ends.map(|(_, running)| running.due).chain(self.spatial.slots.iter().map(|slot| slot.arrives));
        let next = self.equipment.units().and_then(|units| units.next());
        ends.chain(next).filter(|at| *at != NEVER).min()
    }
}

/// Blocks that fill an SM each, of one length.
fn grid(blocks: u32, time: u64) -> Grid {
    let Limits { registers, shared: [.., shared], .. } = Limits::K20C;
    let time = time.clamp(1, BLOCK_TIME_MAX);
    Grid { blocks, time, spread: 0, seed: 0, registers, shared, threads: 0, blocks_per_sm: None }
}
