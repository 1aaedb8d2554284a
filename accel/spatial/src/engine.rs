//! The SM driver: it issues blocks, takes SMs away, and counts time.
//!
//! Everything that changes is due at an instant: the first block on an SM ends, a restore or a save ends, a drain reaches its
//! limit. [`Engine::advance`] goes from instant to instant. At each one it does, in this order:
//!
//! 1. On each SM, by number: what is due there. Places of blocks that ended are filled again, with preempted blocks before
//!    fresh ones, as long as the SM is not reserved. A reserved SM that is free is set to the kernel that it is reserved for.
//! 2. Kernels without a block left are over.
//! 3. If an SM is idle, if blocks have been saved, or if anything else has changed for the policy: launches are admitted, and
//!    the policy decides.
//!
//! So all that happens at one instant is seen together. What the caller asks for (a launch, a key, a removal) is part of the
//! instant to which the engine was advanced last. The next [`Engine::advance`], even to the same instant, decides about it.
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
//! Not here: who decides (`policy.rs`), how long a save takes (`limits.rs`), the work of a block (the host).
//! Source: Tanasic et al., ISCA 2014, sections 3.1 to 3.3. The number of places of the active queue is a parameter here: with
//! fewer places than contexts, a launch with a small key may wait for kernels that it could preempt if it were active.

use crate::account::{Counters, Payer};
use crate::limits::{BLOCKS_MAX, Fit, Grid, GridError, Limits, Times};
use crate::policy::{Decision, Policy};
use crate::preempted::{Preempted, Queue};
use crate::preemption::Mechanism;
use crate::table::{Active, CONTEXTS, Context, Key, PLACES_MAX, Place, SMS_MAX, Sm, State, Table, Waits};

//--- Public types

/// What an engine is made with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Description {
    /// How many SMs it has, 1 to [`SMS_MAX`]. The paper's GPU has 13.
    pub sms: u8,
    /// How many kernels may be active at a time, 1 to [`PLACES_MAX`]. The paper has as many as SMs.
    pub places: u8,
    /// What an SM has.
    pub limits: Limits,
    /// How SMs are taken away.
    pub mechanism: Mechanism,
}

impl Description {
    /// An engine as in the paper: as many places as SMs, and SMs of a K20c.
    #[must_use]
    pub const fn of(sms: u8, mechanism: Mechanism) -> Description {
        Description { sms, places: sms, limits: Limits::K20C, mechanism }
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
    /// Whose block it is.
    pub context: Context,
    /// The launch, by the number that the caller gave it.
    pub work: u64,
    /// The number of the block.
    pub block: u32,
    /// Where in the context's save area the state is: a number below 256, which no other saved block of the context has.
    pub slot: u16,
    /// Bytes of state.
    pub bytes: u32,
    /// Nanoseconds for which the block has still to run. What the engine goes by, whatever the save area says.
    pub remaining: u64,
}

/// Something of a client's that the host could not do or read. The client's kernel ends with a fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bad;

/// How a kernel ended.
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

/// What the engine asks of the device that it is part of.
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

/// Why a launch is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SubmitError {
    /// A launch of the context waits already: its command buffer is full.
    Full,
    /// No SM can run it.
    Grid(GridError),
}

/// Why a decision is not carried out.
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
    /// When something is next due on each SM. `u64::MAX`: never.
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

//--- What the engine is asked for

impl<P: Policy + Copy> Engine<P> {
    /// An engine that is idle at instant zero. Each context is best effort, and has one token.
    ///
    /// # Errors
    /// [`DescriptionError`]: the first number out of its range.
    pub const fn new(policy: P, description: Description) -> Result<Engine<P>, DescriptionError> {
        let Description { sms, places, limits, .. } = description;
        if sms == 0 || sms as usize > SMS_MAX {
            return Err(DescriptionError::Sms(sms));
        }
        if places == 0 || places as usize > PLACES_MAX {
            return Err(DescriptionError::Places(places));
        }
        if !limits.are_sound() {
            return Err(DescriptionError::Limits(limits));
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
            table: Table::new(sms),
            counters: Counters::NONE,
        })
    }
}

impl<P: Policy> Engine<P> {
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

    /// Changes the key of `context`, for what is active and for what waits.
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
    /// The host hears no more of them. Saves and restores that the context has caused and that are not over are paid by nobody.
    /// Key, tokens and counters of the context stay.
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
        self.asks = true;
    }

    /// Carries a decision out that was made elsewhere, at the instant to which the engine was advanced last.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn carry_out(&mut self, decision: Decision, host: &mut impl Host) -> Result<(), Refused> {
        self.carry_out_by(decision, self.description.mechanism, host)
    }

    /// The same, with a mechanism for this decision only.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn carry_out_by(
        &mut self,
        decision: Decision,
        mechanism: Mechanism,
        host: &mut impl Host,
    ) -> Result<(), Refused> {
        self.apply(decision, mechanism, host)?;
        self.refresh();
        Ok(())
    }

    /// Does all that is due until `now`, and at `now`, in the order of time. An earlier instant than the last one counts as the
    /// last one.
    pub fn advance(&mut self, now: u64, host: &mut impl Host) {
        self.advance_while(now, host, |_| true);
    }

    /// The same, but not beyond the first instant at which a kernel ends. For a caller that launches another one then: it need
    /// not ask for each block whether that was the last.
    pub fn advance_to_an_end(&mut self, now: u64, host: &mut impl Host) {
        self.has_ended = false;
        self.advance_while(now, host, |engine| !engine.has_ended);
    }

    fn advance_while(&mut self, now: u64, host: &mut impl Host, goes_on: impl Fn(&Self) -> bool) {
        let now = now.max(self.now);
        loop {
            let next = self.instant(host);
            if !goes_on(self) {
                break;
            }
            if next > now {
                self.now = now;
                break;
            }
            self.now = next;
        }
        self.book_all();
        self.refresh();
    }

    /// When the engine must be advanced to next. Not after the last instant: again, to the same one. `None`: nothing is under
    /// way.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        if self.asks || self.over != 0 {
            return Some(self.now);
        }
        Some(self.first_due()).filter(|&due| due != NEVER)
    }
}

//--- What the engine tells

impl<P> Engine<P> {
    /// The instant to which it was advanced last.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// What it was made with.
    #[must_use]
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// What its policy sees.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// All that was counted until the last instant.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many blocks are on `sm`.
    #[must_use]
    pub const fn resident(&self, sm: Sm) -> u8 {
        self.sms[sm.index()].resident
    }

    /// How many blocks of the kernel at `place` are preempted.
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

//--- One instant

impl<P: Policy> Engine<P> {
    /// Does all that is due now. Returns when something is due next.
    fn instant(&mut self, host: &mut impl Host) -> u64 {
        loop {
            // What fires on one SM makes nothing due on another one, so all can be found at once.
            let mut due = self.all_due();
            while due != 0 {
                self.fire(due.trailing_zeros() as usize, host);
                due &= due - 1;
            }
            if self.over != 0 {
                self.retire(host);
            }
            let next = self.first_due();
            if next <= self.now {
                continue;
            }
            if !self.asks {
                return next;
            }
            self.asks = false;
            self.ask(host);
        }
    }

    /// Does what is due on one SM.
    fn fire(&mut self, sm: usize, host: &mut impl Host) {
        match self.sms[sm].phase {
            Phase::Free => self.due[sm] = NEVER,
            Phase::Running => {
                self.fill(sm, host);
                self.go_on(sm, host);
            }
            Phase::Restoring => {
                self.book(sm);
                self.sms[sm].phase = Phase::Running;
                self.fill(sm, host);
                self.go_on(sm, host);
            }
            Phase::Saving => {
                self.book(sm);
                self.keep(sm, host);
                self.hand_over(sm, host);
                // The blocks that were saved may be worth an SM of another kernel.
                self.asks = true;
            }
        }
    }

    /// Ends what is over.
    fn retire(&mut self, host: &mut impl Host) {
        for place in 0..PLACES_MAX {
            if self.over & 1 << place == 0 {
                continue;
            }
            let Kernel { context, work, fault, .. } = self.kernels[place];
            self.has_ended = true;
            self.evict(place);
            host.ended(self.now, context, work, fault.unwrap_or(Outcome::Complete));
        }
    }

    /// Lets the policy admit and decide.
    fn ask(&mut self, host: &mut impl Host) {
        self.asked = true;
        loop {
            let mut has_admitted = false;
            while self.table.kernels().count() < usize::from(self.description.places) {
                self.refresh();
                let Some(context) = self.policy.admit(&self.table) else { break };
                let Some(launch) = self.launches[context.index()].take() else { break };
                self.admit(context, launch);
                has_admitted = true;
            }
            for _ in 0..DECISIONS_MAX {
                self.refresh();
                let Some(decision) = self.policy.decide(&self.table) else { break };
                let carried_out = self.apply(decision, self.description.mechanism, host);
                debug_assert_eq!(carried_out, Ok(()), "{decision:?} is not possible");
                if carried_out.is_err() {
                    break;
                }
            }
            self.refresh();
            debug_assert_eq!(self.policy.decide(&self.table), None, "the policy does not come to an end");
            if !has_admitted {
                return;
            }
        }
    }

    fn admit(&mut self, context: Context, launch: Launch) {
        let Some(waits) = self.table.waiting[context.index()].take() else { return };
        let Some(place) = self.table.active.iter().position(Option::is_none) else { return };
        let budget = i32::from(self.policy.budget(&self.table, self.tokens[context.index()]));
        let Launch { work, blocks, fit, times } = launch;
        self.kernels[place] = Kernel { context, work, fit, times, blocks, fresh: 0, resident: 0, fault: None };
        self.preempted[place].clear();
        self.table.active[place] = Some(Active {
            context,
            key: waits.key,
            arrival: waits.arrival,
            budget,
            count: budget,
            issuable: blocks,
            capacity: fit.blocks,
        });
    }

    fn apply(&mut self, decision: Decision, mechanism: Mechanism, host: &mut impl Host) -> Result<(), Refused> {
        let (Decision::Assign { sm, kernel: to }
        | Decision::Reserve { sm, next: to }
        | Decision::Retarget { sm, next: to }) = decision;
        if sm.index() >= usize::from(self.description.sms) {
            return Err(Refused::NoSuchSm);
        }
        if self.table.kernel(to).is_none() {
            return Err(Refused::NoSuchKernel);
        }
        let state = self.table.state(sm);
        // A kernel without blocks to issue may still keep the SM that its blocks are on.
        let keeps = |victim| matches!(decision, Decision::Retarget { .. }) && victim == Some(to);
        if self.issuable(to.index()) == 0 && !matches!(state, State::Reserved { victim, .. } if keeps(victim)) {
            return Err(Refused::NothingToIssue);
        }
        match (decision, state) {
            (Decision::Assign { .. }, State::Idle) => {
                self.add_token(Some(to), -1);
                self.set_up(sm.index(), to, host);
                Ok(())
            }
            (Decision::Reserve { .. }, State::Running(victim)) if victim != to => {
                self.book(sm.index());
                self.add_token(Some(victim), 1);
                self.add_token(Some(to), -1);
                self.table.states[sm.index()] = State::Reserved { victim: Some(victim), next: Some(to) };
                self.preempt(sm.index(), to, mechanism);
                Ok(())
            }
            (Decision::Retarget { .. }, State::Reserved { victim, next }) if next != Some(to) => {
                self.add_token(next, 1);
                self.add_token(Some(to), -1);
                self.table.states[sm.index()] = State::Reserved { victim, next: Some(to) };
                if victim == Some(to) && self.sms[sm.index()].phase != Phase::Saving {
                    self.call_off(sm.index(), to);
                    if self.sms[sm.index()].phase == Phase::Running {
                        self.fill(sm.index(), host);
                        self.go_on(sm.index(), host);
                    }
                }
                Ok(())
            }
            (Decision::Reserve { .. }, State::Running(_)) | (Decision::Retarget { .. }, State::Reserved { .. }) => {
                Err(Refused::SameKernel)
            }
            _ => Err(Refused::WrongState(state)),
        }
    }
}

//--- One SM

impl<P> Engine<P> {
    /// Sets an SM up for a kernel with blocks to issue.
    fn set_up(&mut self, sm: usize, kernel: Place, host: &mut impl Host) {
        self.book(sm);
        self.table.states[sm] = State::Running(kernel);
        let unit = &mut self.sms[sm];
        unit.phase = Phase::Running;
        unit.kernel = kernel.index() as u8;
        unit.owner = Payer::from(self.kernels[kernel.index()].context);
        unit.saves_at = NEVER;
        unit.started = self.now;
        self.fill(sm, host);
        self.go_on(sm, host);
    }

    /// Ends blocks whose time is over, and fills places of an SM that is not reserved.
    ///
    /// This is the loop that runs for each block.
    fn fill(&mut self, sm: usize, host: &mut impl Host) {
        let unit = &mut self.sms[sm];
        let place = usize::from(unit.kernel);
        let (kernel, queue) = (&mut self.kernels[place], &mut self.preempted[place]);
        let is_reserved = !matches!(self.table.states[sm], State::Running(_));
        let clock = self.now - unit.started;
        let (mut earliest, mut restoring) = (NEVER, 0_u16);
        for slot in 0..usize::from(kernel.fit.blocks).min(BLOCKS_MAX) {
            let mut end = unit.ends[slot];
            if end <= clock {
                end = NEVER;
                unit.resident -= 1;
                kernel.resident -= 1;
            }
            if end == NEVER && !is_reserved && kernel.fault.is_none() {
                if let Some((entry, preempted)) = queue.pop() {
                    let Preempted { block, remaining, payer } = preempted;
                    let record = kernel.record(entry, block, remaining);
                    if host.restored(self.now, &record).is_ok() {
                        end = clock + remaining;
                        (unit.blocks[slot], unit.payers[slot]) = (block, payer);
                        restoring |= 1 << slot;
                        self.counters.account(unit.owner).resumed += 1;
                    } else {
                        kernel.fault = Some(Outcome::Damaged { block });
                    }
                } else if kernel.fresh < kernel.blocks {
                    let block = kernel.fresh;
                    kernel.fresh += 1;
                    self.counters.account(unit.owner).issued += 1;
                    if host.block(self.now, kernel.context, kernel.work, block).is_ok() {
                        end = clock + kernel.times.of(block);
                        unit.blocks[slot] = block;
                    } else {
                        kernel.fault = Some(Outcome::BlockFailed { block });
                    }
                }
                if end != NEVER {
                    unit.resident += 1;
                    kernel.resident += 1;
                }
            }
            unit.ends[slot] = end;
            earliest = earliest.min(end);
        }
        unit.earliest = earliest;
        if kernel.fault.is_some() || (kernel.resident == 0 && kernel.fresh == kernel.blocks && queue.len() == 0) {
            self.over |= 1 << place;
        }
        if restoring != 0 {
            let time = kernel.fit.time_of(restoring.count_ones(), &self.description.limits);
            self.book(sm);
            let unit = &mut self.sms[sm];
            unit.phase = Phase::Restoring;
            unit.restoring = restoring;
            unit.restore_from = self.now;
            unit.until = self.now + time;
            unit.started += time;
        }
    }

    /// What an SM does next, after its blocks were looked at.
    fn go_on(&mut self, sm: usize, host: &mut impl Host) {
        let unit = &self.sms[sm];
        match unit.phase {
            Phase::Free => self.due[sm] = NEVER,
            Phase::Saving | Phase::Restoring => self.due[sm] = unit.until,
            Phase::Running if unit.resident == 0 => self.hand_over(sm, host),
            Phase::Running if unit.saves_at <= self.now => self.save(sm),
            Phase::Running => self.due[sm] = (unit.started + unit.earliest).min(unit.saves_at),
        }
    }

    /// Starts to take an SM away, for the kernel at `next`.
    fn preempt(&mut self, sm: usize, next: Place, mechanism: Mechanism) {
        let causer = Payer::from(self.kernels[next.index()].context);
        self.counters.account(causer).preemptions += 1;
        let unit = &mut self.sms[sm];
        unit.causer = causer;
        unit.saves_at = mechanism.saves_at(self.now);
        if unit.phase == Phase::Running {
            if unit.saves_at <= self.now {
                self.save(sm);
            } else {
                self.due[sm] = self.due[sm].min(unit.saves_at);
            }
        }
    }

    /// Leaves an SM, on which nothing is being saved, to the kernel whose blocks are on it.
    fn call_off(&mut self, sm: usize, victim: Place) {
        self.book(sm);
        self.table.states[sm] = State::Running(victim);
        self.sms[sm].saves_at = NEVER;
    }

    /// Stops the blocks on an SM.
    fn save(&mut self, sm: usize) {
        self.book(sm);
        let unit = &mut self.sms[sm];
        let fit = self.kernels[usize::from(unit.kernel)].fit;
        let clock = self.now - unit.started;
        for end in unit.ends.iter_mut().filter(|end| **end != NEVER) {
            *end -= clock;
        }
        unit.phase = Phase::Saving;
        unit.until = self.now + fit.time_of(u32::from(unit.resident), &self.description.limits);
        self.due[sm] = unit.until;
        self.counters.account(unit.causer).saved_bytes += u64::from(unit.resident) * u64::from(fit.block_bytes);
    }

    /// The blocks of an SM have been saved.
    fn keep(&mut self, sm: usize, host: &mut impl Host) {
        let unit = &mut self.sms[sm];
        let place = usize::from(unit.kernel);
        let kernel = &mut self.kernels[place];
        for slot in 0..BLOCKS_MAX {
            let remaining = core::mem::replace(&mut unit.ends[slot], NEVER);
            if remaining == NEVER {
                continue;
            }
            kernel.resident -= 1;
            let (block, payer) = (unit.blocks[slot], unit.causer);
            let entry = self.preempted[place].push(Preempted { block, remaining, payer });
            if kernel.fault.is_none() && host.saved(self.now, &kernel.record(entry, block, remaining)).is_err() {
                kernel.fault = Some(Outcome::NotSaved { block });
                self.over |= 1 << place;
            }
        }
        unit.resident = 0;
    }

    /// An SM without blocks goes to the kernel that it is reserved for, or is idle.
    fn hand_over(&mut self, sm: usize, host: &mut impl Host) {
        let kernel = match self.table.states[sm] {
            State::Idle => None,
            State::Running(kernel) => Some(kernel),
            State::Reserved { next: Some(next), .. } if self.issuable(next.index()) > 0 => {
                return self.set_up(sm, next, host);
            }
            State::Reserved { next, .. } => next,
        };
        self.add_token(kernel, 1);
        self.free(sm);
    }

    fn free(&mut self, sm: usize) {
        self.book(sm);
        self.table.states[sm] = State::Idle;
        let unit = &mut self.sms[sm];
        unit.phase = Phase::Free;
        unit.saves_at = NEVER;
        unit.drop_blocks();
        self.due[sm] = NEVER;
        self.asks = true;
    }

    /// Takes a kernel off the engine, at once, whatever state it is in.
    fn evict(&mut self, place: usize) {
        let gone = self.table.active[place].take();
        debug_assert!(gone.is_some(), "only an active kernel is taken off");
        self.over &= !(1 << place);
        self.preempted[place].clear();
        for sm in 0..usize::from(self.description.sms) {
            let is_gone = |kernel: &Place| kernel.index() == place;
            match self.table.states[sm] {
                State::Running(kernel) if is_gone(&kernel) => self.free(sm),
                State::Reserved { victim, next } => {
                    if victim.is_some_and(|victim| is_gone(&victim)) {
                        // As if they had been saved in no time.
                        self.book(sm);
                        self.sms[sm].drop_blocks();
                        self.sms[sm].phase = Phase::Saving;
                        self.sms[sm].until = self.now;
                        self.due[sm] = self.now;
                    }
                    self.reserve_again(sm, victim.filter(|one| !is_gone(one)), next.filter(|one| !is_gone(one)));
                }
                _ => {}
            }
        }
        self.asks = true;
    }

    /// Sets a reserved SM's victim and next kernel, one of which may have gone.
    fn reserve_again(&mut self, sm: usize, victim: Option<Place>, next: Option<Place>) {
        self.table.states[sm] = State::Reserved { victim, next };
        match (victim, next) {
            (None, None) => self.free(sm),
            (Some(victim), None) if self.sms[sm].phase != Phase::Saving => {
                self.add_token(Some(victim), -1);
                self.call_off(sm, victim);
                // Free places are filled at this instant, or when the restore has ended.
                if self.sms[sm].phase == Phase::Running {
                    self.due[sm] = self.now;
                }
            }
            _ => {}
        }
    }
}

//--- Small things

impl<P> Engine<P> {
    /// The SMs on which something is due now, a bit each. Without branches: which SM it is cannot be predicted.
    fn all_due(&self) -> u32 {
        (0..SMS_MAX).fold(0, |all, sm| all | u32::from(self.due[sm] <= self.now) << sm)
    }

    fn first_due(&self) -> u64 {
        self.due.iter().copied().fold(NEVER, u64::min)
    }

    fn kernels_of(&mut self, context: Context) -> impl Iterator<Item = &mut Active> {
        self.table.active.iter_mut().flatten().filter(move |kernel| kernel.context == context)
    }

    fn issuable(&self, place: usize) -> u32 {
        let kernel = &self.kernels[place];
        if kernel.fault.is_some() { 0 } else { kernel.blocks - kernel.fresh + self.preempted[place].len() }
    }

    /// Brings the policy's view of blocks up to date.
    fn refresh(&mut self) {
        for place in 0..PLACES_MAX {
            let issuable = if self.table.active[place].is_some() { self.issuable(place) } else { 0 };
            if let Some(kernel) = &mut self.table.active[place] {
                kernel.issuable = issuable;
            }
        }
    }

    fn add_token(&mut self, kernel: Option<Place>, tokens: i32) {
        if let Some(kernel) = kernel.and_then(|kernel| self.table.active[kernel.index()].as_mut()) {
            kernel.count += tokens;
        }
    }

    fn book_all(&mut self) {
        (0..usize::from(self.description.sms)).for_each(|sm| self.book(sm));
    }

    /// Books the time of an SM from the last booking until now.
    fn book(&mut self, sm: usize) {
        let unit = &mut self.sms[sm];
        let from = core::mem::replace(&mut unit.since, self.now);
        let time = self.now - from;
        if time == 0 {
            return;
        }
        match unit.phase {
            Phase::Free => self.counters.count_idle(time),
            Phase::Running => {
                self.counters.account(unit.owner).running += time;
                if matches!(self.table.states[sm], State::Reserved { .. }) {
                    self.counters.count_draining(time);
                }
            }
            Phase::Saving => self.counters.account(unit.causer).saving += time,
            Phase::Restoring => {
                // One block is restored after another, and each may have another payer.
                let fit = self.kernels[usize::from(unit.kernel)].fit;
                let restored = |blocks| unit.restore_from + fit.time_of(blocks, &self.description.limits);
                let slots = (0..BLOCKS_MAX).filter(|slot| unit.restoring & 1 << slot != 0);
                for (number, slot) in (0..).zip(slots) {
                    let (start, end) = (restored(number).max(from), restored(number + 1).min(self.now));
                    self.counters.account(unit.payers[slot]).restoring += end.saturating_sub(start);
                }
            }
        }
    }
}

/// One SM.
struct Unit {
    phase: Phase,
    /// The place of the kernel whose blocks are on it.
    kernel: u8,
    resident: u8,
    /// To whom its running is booked.
    owner: Payer,
    /// To whom its save is booked.
    causer: Payer,
    /// The slots whose blocks are being restored, a bit each.
    restoring: u16,
    /// From when on its blocks are saved if it is not free. [`NEVER`] if it is not reserved.
    saves_at: u64,
    /// When the save or the restore ends.
    until: u64,
    restore_from: u64,
    /// Until when its time has been booked.
    since: u64,
    /// When its clock would have been zero, had the clock not stood.
    started: u64,
    /// The first of `ends`.
    earliest: u64,
    /// When each block ends by the SM's clock; [`NEVER`]: no block. While saving: what the block has left.
    ends: [u64; BLOCKS_MAX],
    blocks: [u32; BLOCKS_MAX],
    /// To whom the restore of each block is booked.
    payers: [Payer; BLOCKS_MAX],
}

impl Unit {
    const FREE: Unit = Unit {
        phase: Phase::Free,
        kernel: 0,
        resident: 0,
        owner: Payer::NOBODY,
        causer: Payer::NOBODY,
        restoring: 0,
        saves_at: NEVER,
        until: 0,
        restore_from: 0,
        since: 0,
        started: 0,
        earliest: NEVER,
        ends: [NEVER; BLOCKS_MAX],
        blocks: [0; BLOCKS_MAX],
        payers: [Payer::NOBODY; BLOCKS_MAX],
    };

    fn drop_blocks(&mut self) {
        self.ends = [NEVER; BLOCKS_MAX];
        self.earliest = NEVER;
        self.resident = 0;
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Free,
    Running,
    Restoring,
    Saving,
}

/// What a kernel is made of: its KSR, but for what the policy sees.
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

/// A launch in its command buffer.
#[derive(Clone, Copy)]
struct Launch {
    work: u64,
    blocks: u32,
    fit: Fit,
    times: Times,
}
