//! The SM driver: it issues blocks, takes SMs away, and counts time.
//!
//! Everything that changes is due at an instant: the first block on an SM ends, a restore or a save ends, a drain reaches its
//! limit. [`Engine::advance`] goes from instant to instant. At each one it does, in this order:
//!
//! 1. On each SM, by number: the events due there. Slots of blocks that ended are filled again, with preempted blocks before fresh
//!    ones, as long as the SM is not reserved. A reserved SM that is free is set to the kernel that it is reserved for.
//! 2. Kernels without a block left are over.
//! 3. If an SM is idle, if blocks have been saved, or if anything else has changed for the policy: launches are admitted, and
//!    the policy decides.
//!
//! So all events of one instant are seen together. A request of the caller (a launch, a key, a removal) is part of the instant to
//! which the engine was advanced last. The next [`Engine::advance`], even to an equal instant, decides about it.
//!
//! # Invariants
//!
//! 1. An SM holds blocks of one kernel only.
//! 2. An SM that is running and not reserved holds at least one block at the end of each instant.
//! 3. The restore of a block stops its whole SM: the other blocks on it have as much left afterwards as before.
//! 4. The blocks of a kernel that are on SMs or preempted are at most as many as fit on all SMs.
//! 5. Each nanosecond of each SM is booked once.
//!
//! # Time within an SM
//!
//! Blocks end by the *clock of their SM*, which stands while the SM restores. So a restore moves no end, and the loop that runs
//! for each block looks at the ends of one SM and at one due instant of each other SM.
//!
//! Not here: events on one SM (`engine/unit.rs`), decisions (`policy.rs`), the length of a save (`limits.rs`), the work of a block
//! (the host). Source: Tanasic et al., ISCA 2014, sections 3.1 to 3.3. The number of places of the active queue is a parameter
//! here: with fewer places than contexts, a launch with a small key may wait for kernels that it could preempt if it were active.

mod instant;
mod unit;

use self::unit::Unit;
use crate::account::{Counters, Payer};
use crate::limits::{Fit, Grid, GridError, Limits, Times};
use crate::policy::{Decision, Policy};
use crate::preempted::Queue;
use crate::preemption::Mechanism;
use crate::table::{Active, CONTEXTS, Context, Key, PLACES_MAX, Place, SMS_MAX, Sm, State, Table, Waits};

//--- Public types

/// The parameters of an engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Description {
    /// The number of its SMs, 1 to [`SMS_MAX`]. The paper's GPU has 13.
    pub sms: u8,
    /// The number of kernels that may be active at a time, 1 to [`PLACES_MAX`]. The paper has as many as SMs.
    pub places: u8,
    /// The resources of an SM.
    pub limits: Limits,
    /// The mechanism by which SMs are taken away.
    pub mechanism: Mechanism,
}

impl Description {
    /// An engine as in the paper: as many places as SMs, and SMs of a K20c.
    #[must_use]
    pub const fn of(sms: u8, mechanism: Mechanism) -> Description {
        Description { sms, places: sms, limits: Limits::K20C, mechanism }
    }

    const fn check(&self) -> Result<(), DescriptionError> {
        let Description { sms, places, limits, .. } = *self;
        if sms == 0 || sms as usize > SMS_MAX {
            return Err(DescriptionError::Sms(sms));
        }
        if places == 0 || places as usize > PLACES_MAX {
            return Err(DescriptionError::Places(places));
        }
        if !limits.are_sound() {
            return Err(DescriptionError::Limits(limits));
        }
        Ok(())
    }
}

/// A number in a [`Description`] is out of its range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DescriptionError {
    /// Not 1 to [`SMS_MAX`].
    Sms(u8),
    /// Not 1 to [`PLACES_MAX`].
    Places(u8),
    /// [`Limits::are_sound`] is false.
    Limits(Limits),
}

/// A preempted block whose state is moved between an SM and the save area of its client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Record {
    /// The context of the block.
    pub context: Context,
    /// The launch, by the number that the caller gave it.
    pub work: u64,
    /// The number of the block.
    pub block: u32,
    /// The place of the state in the context's save area: a number below the SMs times the blocks on an SM, which no other saved
    /// block of the context has. So a save area as large as the state of all SMs is always large enough.
    pub slot: u16,
    /// Bytes of state.
    pub bytes: u32,
    /// Nanoseconds for which the block has still to run. The engine goes by this number, not by the save area.
    pub remaining: u64,
}

/// An error of the [`Host`]: a block's work failed, or its saved state could not be written or read back. The client's kernel ends with a fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bad;

/// The outcome of a kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// All its blocks have ended.
    Complete,
    /// The host could not do the work of this block.
    BlockFailed {
        /// The number of the block.
        block: u32,
    },
    /// The host could not write the state of this block to the save area.
    NotSaved {
        /// The number of the block.
        block: u32,
    },
    /// The host found the saved state of this block damaged.
    Damaged {
        /// The number of the block.
        block: u32,
    },
}

/// The services that the engine needs of the device that it is part of.
///
/// Calls come in the order of time; `now` is the instant of the call. None comes for a context after [`Engine::remove`], until it launches again.
pub trait Host {
    /// Does the work of a block, when the block is first issued. Called once for each block of a kernel that completes.
    ///
    /// # Errors
    /// [`Bad`] ends the kernel.
    fn block(&mut self, now: u64, context: Context, work: u64, block: u32) -> Result<(), Bad>;

    /// Writes the state of a block to its client's save area, when the save ends.
    ///
    /// # Errors
    /// [`Bad`] ends the kernel.
    fn saved(&mut self, now: u64, record: &Record) -> Result<(), Bad>;

    /// Reads the state of a block back, when the restore begins. The record equals that of the last [`Host::saved`] for it.
    ///
    /// # Errors
    /// [`Bad`] ends the kernel.
    fn restored(&mut self, now: u64, record: &Record) -> Result<(), Bad>;

    /// A kernel is over. Its context may have launched again already.
    fn ended(&mut self, now: u64, context: Context, work: u64, outcome: Outcome);
}

/// The reason why a launch is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SubmitError {
    /// A launch of the context waits already: its command buffer is full.
    Full,
    /// No SM can run it.
    Grid(GridError),
}

/// The reason why a decision is not carried out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// The engine has no such SM.
    NoSuchSm,
    /// The SM is not in the state that the decision is for.
    WrongState(State),
    /// There is no such kernel.
    NoSuchKernel,
    /// The kernel has no block to issue.
    NothingToIssue,
    /// The SM is the kernel's already.
    SameKernel,
}

/// An execution engine. Large: it belongs into a static, not onto a stack.
///
/// Instants are nanoseconds below 2^63 of any clock that starts at zero and does not go backwards.
pub struct Engine<P> {
    policy: P,
    description: Description,
    now: u64,
    arrivals: u64,
    /// Something has changed that the policy must see.
    asks: bool,
    /// The policy was asked since the last [`Engine::was_asked`].
    asked: bool,
    /// Kernels that are over, one bit for each place.
    over: u16,
    /// A kernel ended since [`Engine::advance_to_an_end`] began.
    has_ended: bool,
    /// The instant of the next due event on each SM. `u64::MAX`: never.
    due: [u64; SMS_MAX],
    sms: [Unit; SMS_MAX],
    kernels: [Kernel; PLACES_MAX],
    preempted: [Queue; PLACES_MAX],
    launches: [Option<Launch>; CONTEXTS],
    keys: [Key; CONTEXTS],
    tokens: [u16; CONTEXTS],
    table: Table,
    counters: Counters,
}

/// So many decisions at one instant are more than any policy has that comes to an end.
const DECISIONS_MAX: usize = 4 * SMS_MAX * PLACES_MAX;
const NEVER: u64 = u64::MAX;

//--- Requests to the engine

impl<P: Policy + Copy> Engine<P> {
    /// An engine that is idle at instant zero. Each context is best effort, and has one token.
    ///
    /// # Errors
    /// [`DescriptionError`]: the first number out of its range.
    pub const fn new(policy: P, description: Description) -> Result<Engine<P>, DescriptionError> {
        if let Err(error) = description.check() {
            return Err(error);
        }
        Ok(Engine {
            policy,
            description,
            now: 0,
            arrivals: 0,
            asks: false,
            asked: false,
            over: 0,
            has_ended: false,
            due: [NEVER; SMS_MAX],
            sms: [const { Unit::FREE }; SMS_MAX],
            kernels: [const { Kernel::NONE }; PLACES_MAX],
            preempted: [const { Queue::EMPTY }; PLACES_MAX],
            launches: [None; CONTEXTS],
            keys: [Key::BEST_EFFORT; CONTEXTS],
            tokens: [1; CONTEXTS],
            table: Table::new(description.sms),
            counters: Counters::NONE,
        })
    }
}

impl<P: Policy> Engine<P> {
    /// Makes it another engine, as a new one is, in its place: it may be too large for a stack.
    ///
    /// # Errors
    /// As [`Engine::new`]; then nothing has changed.
    pub fn become_new(&mut self, policy: P, description: Description) -> Result<(), DescriptionError> {
        description.check()?;
        (self.policy, self.description) = (policy, description);
        (self.now, self.arrivals, self.asks, self.asked, self.over) = (0, 0, false, false, 0);
        self.due = [NEVER; SMS_MAX];
        self.sms.iter_mut().for_each(|unit| *unit = Unit::FREE);
        self.kernels.iter_mut().for_each(|kernel| *kernel = Kernel::NONE);
        self.preempted.iter_mut().for_each(Queue::clear);
        self.launches = [None; CONTEXTS];
        self.keys = [Key::BEST_EFFORT; CONTEXTS];
        self.tokens = [1; CONTEXTS];
        self.table = Table::new(description.sms);
        self.counters = Counters::NONE;
        Ok(())
    }

    /// Launches a kernel of `context`: it waits until the policy admits it. `work` is the caller's name of it.
    ///
    /// # Errors
    /// [`SubmitError`]; then nothing has changed.
    pub fn submit(&mut self, context: Context, grid: &Grid, work: u64) -> Result<(), SubmitError> {
        if self.launches[context.index()].is_some() {
            return Err(SubmitError::Full);
        }
        let fit = self.description.limits.fit(grid).map_err(SubmitError::Grid)?;
        self.launches[context.index()] = Some(Launch { work, blocks: grid.blocks, fit, times: grid.times() });
        let key = self.keys[context.index()];
        self.table.waiting[context.index()] = Some(Waits { context, key, arrival: self.arrivals });
        self.arrivals += 1;
        self.asks = true;
        Ok(())
    }

    /// Changes the key of `context`, for its active and its waiting launches.
    pub fn set_key(&mut self, context: Context, key: Key) {
        if self.keys[context.index()] == key {
            return;
        }
        self.keys[context.index()] = key;
        self.kernels_of(context).for_each(|kernel| kernel.key = key);
        if let Some(waits) = &mut self.table.waiting[context.index()] {
            waits.key = key;
        }
        self.asks = true;
    }

    /// Changes the tokens of `context`. Its active kernel has so many more or fewer left, if its budget comes from them.
    pub fn set_tokens(&mut self, context: Context, tokens: u16) {
        let before = core::mem::replace(&mut self.tokens[context.index()], tokens);
        let budget = |tokens| i32::from(self.policy.budget(&self.table, tokens));
        let more = budget(tokens) - budget(before);
        self.kernels_of(context).for_each(|kernel| {
            kernel.budget += more;
            kernel.count += more;
        });
        self.asks = true;
    }

    /// Forgets all launches of `context`, active or waiting, at once: its SMs, its preempted blocks and its tokens are free.
    ///
    /// The host gets no more calls for them. Saves and restores that the context has caused and that are not over are paid by no
    /// context. Key, tokens and counters of the context stay.
    pub fn remove(&mut self, context: Context) {
        self.book_all();
        self.launches[context.index()] = None;
        self.table.waiting[context.index()] = None;
        for place in 0..PLACES_MAX {
            if self.table.active[place].is_some_and(|kernel| kernel.context == context) {
                self.evict(place);
            }
        }
        let payer = Payer::from(context);
        self.preempted.iter_mut().for_each(|queue| queue.forgive(payer));
        for unit in &mut self.sms {
            let payers = unit.payers.iter_mut().chain([&mut unit.causer]);
            payers.filter(|one| **one == payer).for_each(|one| *one = Payer::NOBODY);
        }
        (0..SMS_MAX).for_each(|sm| self.turn(sm, self.sms[sm].phase));
        self.asks = true;
    }

    /// Carries a decision out that was made elsewhere, at the instant to which the engine was advanced last.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn carry_out(&mut self, decision: Decision, host: &mut impl Host) -> Result<(), Refused> {
        self.carry_out_by(decision, self.description.mechanism, host)
    }

    /// Carries a decision out as [`Engine::carry_out`] does, with a mechanism for this decision only.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn carry_out_by(
        &mut self,
        decision: Decision,
        mechanism: Mechanism,
        host: &mut impl Host,
    ) -> Result<(), Refused> {
        self.apply(decision, mechanism, host)
    }

    /// Does all that is due until `now`, and at `now`, in the order of time. An earlier instant than the last one counts as the
    /// last one.
    pub fn advance(&mut self, now: u64, host: &mut impl Host) {
        self.advance_while(now, host, |_| true);
    }

    /// Advances, but not beyond the first instant at which a kernel ends. For a caller that launches another one then: it need not
    /// ask for each block whether that was the last.
    pub fn advance_to_an_end(&mut self, now: u64, host: &mut impl Host) {
        self.has_ended = false;
        self.advance_while(now, host, |engine| !engine.has_ended);
    }

    fn advance_while(&mut self, now: u64, host: &mut impl Host, goes_on: impl Fn(&Self) -> bool) {
        let now = now.max(self.now);
        let mut first = self.first_due();
        loop {
            first = self.instant(first, host);
            if !goes_on(self) {
                break;
            }
            if first.due > now {
                self.now = now;
                break;
            }
            self.now = first.due;
        }
        self.book_all();
        debug_assert!(
            self.table.kernels().all(|(place, kernel)| kernel.issuable == self.issuable(place.index())),
            "the table says how many blocks each kernel has to issue"
        );
    }

    /// The instant to which the engine must be advanced next. Not after the last instant: again, to an equal one. `None`: nothing
    /// is under way.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        if self.asks || self.over != 0 {
            return Some(self.now);
        }
        Some(self.first_due().due).filter(|&due| due != NEVER)
    }
}

//--- Reports of the engine

impl<P> Engine<P> {
    /// The instant to which it was advanced last.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// The description that it was made with.
    #[must_use]
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// The table that its policy sees.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// All that was counted until the last instant.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The number of blocks on `sm`.
    #[must_use]
    pub const fn resident(&self, sm: Sm) -> u8 {
        self.sms[sm.index()].resident
    }

    /// The number of preempted blocks of the kernel at `place`.
    #[must_use]
    pub const fn preempted(&self, place: Place) -> u32 {
        self.preempted[place.index()].len()
    }

    /// Whether `context` has a launch that waits, or an active kernel.
    #[must_use]
    pub fn is_busy(&self, context: Context) -> bool {
        self.launches[context.index()].is_some() || self.table.kernels().any(|(_, kernel)| kernel.context == context)
    }

    /// Whether a launch of `context` waits, so that another one would be refused.
    #[must_use]
    pub const fn is_full(&self, context: Context) -> bool {
        self.launches[context.index()].is_some()
    }

    /// Whether the policy was asked since the last call. For a policy that is elsewhere.
    pub fn was_asked(&mut self) -> bool {
        core::mem::take(&mut self.asked)
    }
}

//--- Small things

impl<P> Engine<P> {
    /// The SMs on which something is due now, a bit each. Without branches: which SM it is cannot be predicted.
    fn all_due(&self) -> u32 {
        (0..SMS_MAX).fold(0, |all, sm| all | u32::from(self.due[sm] <= self.now) << sm)
    }

    /// The first due event; among several SMs, the one on that with the smallest number.
    fn first_due(&self) -> First {
        let at = |sm: usize| First { due: self.due[sm], sm };
        let earlier = |one: First, other: First| if other.due < one.due { other } else { one };
        // As a tournament: one after the other, each comparison would wait for the one before it.
        let of_two = |sm: usize| earlier(at(sm), at(sm + 1));
        let of_four = |sm: usize| earlier(of_two(sm), of_two(sm + 2));
        let of_eight = |sm: usize| earlier(of_four(sm), of_four(sm + 4));
        const { assert!(SMS_MAX == 16) };
        earlier(of_eight(0), of_eight(8))
    }

    fn kernels_of(&mut self, context: Context) -> impl Iterator<Item = &mut Active> {
        self.table.active.iter_mut().flatten().filter(move |kernel| kernel.context == context)
    }

    fn issuable(&self, place: usize) -> u32 {
        let kernel = &self.kernels[place];
        if kernel.fault.is_some() { 0 } else { kernel.blocks - kernel.fresh + self.preempted[place].len() }
    }

    /// Brings the policy's view of a kernel's blocks up to date.
    fn publish(&mut self, place: usize) {
        let issuable = self.issuable(place);
        if let Some(kernel) = &mut self.table.active[place] {
            kernel.issuable = issuable;
        }
    }

    fn add_token(&mut self, kernel: Option<Place>, tokens: i32) {
        if let Some(kernel) = kernel.and_then(|kernel| self.table.active[kernel.index()].as_mut()) {
            kernel.count += tokens;
        }
    }

    fn book_all(&mut self) {
        (0..usize::from(self.description.sms)).for_each(|sm| self.book(sm));
        self.counters.count_occupied(self.now);
    }
}

/// The parts of a kernel: its KSR, but for the fields that the policy sees.
#[derive(Clone, Copy)]
struct Kernel {
    context: Context,
    work: u64,
    fit: Fit,
    times: Times,
    blocks: u32,
    /// The number of the next fresh block.
    fresh: u32,
    /// Blocks on SMs.
    resident: u32,
    fault: Option<Outcome>,
}

impl Kernel {
    const NONE: Kernel = Kernel {
        context: Context::FIRST,
        work: 0,
        fit: Fit { blocks: 1, block_bytes: 0 },
        times: Times::NONE,
        blocks: 0,
        fresh: 0,
        resident: 0,
        fault: None,
    };

    fn record(&self, slot: u16, block: u32, remaining: u64) -> Record {
        let Kernel { context, work, fit, .. } = *self;
        Record { context, work, block, slot, bytes: fit.block_bytes, remaining }
    }
}

/// The first due event.
#[derive(Clone, Copy)]
struct First {
    /// The instant of the event. [`NEVER`]: there is none.
    due: u64,
    sm: usize,
}

/// A launch in its command buffer.
#[derive(Clone, Copy)]
struct Launch {
    work: u64,
    blocks: u32,
    fit: Fit,
    times: Times,
}
