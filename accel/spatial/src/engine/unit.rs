//! Events on one SM: it is set up, filled, taken away, saved, and handed over.
//!
//! | Phase | The SM | It ends |
//! |---|---|---|
//! | free | belongs to no kernel | by a decision |
//! | running | runs blocks, of its kernel or of the kernel that it is taken from | when the last block has ended, or when the blocks are saved |
//! | restoring | moves the state of blocks in, and runs none | after a time that depends on the blocks |
//! | saving | moves the state of blocks out, and runs none | after a time that depends on the blocks |
//!
//! Not here: in which order things happen at one instant (`engine.rs`).

use super::{Engine, Host, NEVER, Outcome};
use crate::account::Payer;
use crate::limits::BLOCKS_MAX;
use crate::preempted::Preempted;
use crate::preemption::Mechanism;
use crate::table::{Place, State};

impl<P> Engine<P> {
    /// Sets an SM up for a kernel with blocks to issue.
    pub(super) fn set_up(&mut self, sm: usize, kernel: Place, host: &mut impl Host) {
        self.book(sm);
        self.table.states[sm] = State::Running(kernel);
        let unit = &mut self.sms[sm];
        unit.kernel = kernel.index() as u8;
        unit.owner = Payer::from(self.kernels[kernel.index()].context);
        unit.saves_at = NEVER;
        unit.started = self.now;
        self.turn(sm, Phase::Running);
        self.fill(sm, host);
        self.go_on(sm, host);
    }

    /// Ends blocks whose time is over, and fills the slots of an SM that is not reserved.
    ///
    /// This is the loop that runs for each block.
    pub(super) fn fill(&mut self, sm: usize, host: &mut impl Host) {
        let unit = &mut self.sms[sm];
        let place = usize::from(unit.kernel);
        let (kernel, queue) = (&mut self.kernels[place], &mut self.preempted[place]);
        let is_reserved = !matches!(self.table.states[sm], State::Running(_));
        let clock = self.now - unit.started;
        let mut restoring = 0_u16;
        let holds = kernel.fit.blocks.min(BLOCKS_MAX as u8);
        let has_more = queue.len() > 0 || kernel.fresh < kernel.blocks;
        // Mostly one block has ended and no slot is empty: then the slot is known, and the others are not looked at one by one.
        let mut open = if unit.resident < holds && has_more && !is_reserved {
            unit.open(clock) & ((1 << holds) - 1)
        } else {
            u32::from(unit.ends[usize::from(unit.first)] <= clock) << unit.first
        };
        loop {
            while open != 0 {
                let slot = open.trailing_zeros() as usize;
                open &= open - 1;
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
            }
            unit.find_first();
            if unit.earliest > clock {
                break;
            }
            open = 1 << unit.first;
        }
        if kernel.fault.is_some() || (kernel.resident == 0 && kernel.fresh == kernel.blocks && queue.len() == 0) {
            self.over |= 1 << place;
        }
        if restoring != 0 {
            let time = kernel.fit.time_of(restoring.count_ones(), &self.description.limits);
            self.book(sm);
            self.turn(sm, Phase::Restoring);
            let unit = &mut self.sms[sm];
            unit.restoring = restoring;
            unit.restore_from = self.now;
            unit.until = self.now + time;
            unit.started += time;
        }
        self.publish(place);
    }

    /// The next phase of an SM, after its blocks were looked at.
    pub(super) fn go_on(&mut self, sm: usize, host: &mut impl Host) {
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
    pub(super) fn preempt(&mut self, sm: usize, next: Place, mechanism: Mechanism) {
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
    pub(super) fn call_off(&mut self, sm: usize, victim: Place) {
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
        unit.until = self.now + fit.time_of(u32::from(unit.resident), &self.description.limits);
        self.due[sm] = unit.until;
        self.counters.account(unit.causer).saved_bytes += u64::from(unit.resident) * u64::from(fit.block_bytes);
        self.turn(sm, Phase::Saving);
    }

    /// The blocks of an SM have been saved.
    pub(super) fn keep(&mut self, sm: usize, host: &mut impl Host) {
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
        self.publish(place);
    }

    /// An SM without blocks goes to the kernel that it is reserved for, or is idle.
    pub(super) fn hand_over(&mut self, sm: usize, host: &mut impl Host) {
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
        self.turn(sm, Phase::Free);
        let unit = &mut self.sms[sm];
        unit.saves_at = NEVER;
        unit.drop_blocks();
        self.due[sm] = NEVER;
        self.asks = true;
    }

    /// Takes a kernel off the engine, at once, in any state.
    pub(super) fn evict(&mut self, place: usize) {
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
                        self.turn(sm, Phase::Saving);
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
                // Free slots are filled at this instant, or when the restore has ended.
                if self.sms[sm].phase == Phase::Running {
                    self.due[sm] = self.now;
                }
            }
            _ => {}
        }
    }

    /// An SM, whose time has been booked until now, is in this phase from here on.
    pub(super) fn turn(&mut self, sm: usize, phase: Phase) {
        let unit = &mut self.sms[sm];
        unit.phase = phase;
        let occupant = match phase {
            Phase::Running => Some(unit.owner),
            Phase::Saving => Some(unit.causer),
            Phase::Free | Phase::Restoring => None,
        };
        let before = core::mem::replace(&mut unit.occupant, occupant);
        self.counters.occupy(before, occupant, self.now);
    }

    /// Books the time of an SM from the last booking until now.
    pub(super) fn book(&mut self, sm: usize) {
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
pub(super) struct Unit {
    pub(super) phase: Phase,
    /// The place of the kernel whose blocks are on it.
    kernel: u8,
    pub(super) resident: u8,
    /// The account of its running.
    owner: Payer,
    /// The account of its save.
    pub(super) causer: Payer,
    /// The one of those two accounts that it works for; none while it restores.
    occupant: Option<Payer>,
    /// The slots whose blocks are being restored, a bit each.
    restoring: u16,
    /// The instant from which on its blocks are saved if it is not free. [`NEVER`] if it is not reserved.
    saves_at: u64,
    /// The instant when the save or the restore ends.
    until: u64,
    restore_from: u64,
    /// Until when its time has been booked.
    since: u64,
    /// The instant when its clock would have been zero, had the clock not stood.
    started: u64,
    /// The first of `ends`,
    earliest: u64,
    /// and its slot; of several the one with the smallest number.
    first: u8,
    /// The end of each block by the SM's clock; [`NEVER`]: no block. While saving: the remaining time of the block.
    ends: [u64; BLOCKS_MAX],
    blocks: [u32; BLOCKS_MAX],
    /// The account of the restore of each block.
    pub(super) payers: [Payer; BLOCKS_MAX],
}

impl Unit {
    pub(super) const FREE: Unit = Unit {
        phase: Phase::Free,
        kernel: 0,
        resident: 0,
        owner: Payer::NOBODY,
        causer: Payer::NOBODY,
        occupant: None,
        restoring: 0,
        saves_at: NEVER,
        until: 0,
        restore_from: 0,
        since: 0,
        started: 0,
        earliest: NEVER,
        first: 0,
        ends: [NEVER; BLOCKS_MAX],
        blocks: [0; BLOCKS_MAX],
        payers: [Payer::NOBODY; BLOCKS_MAX],
    };

    /// The slots without a block, and those whose blocks have ended by the SM's clock, a bit each.
    fn open(&self, clock: u64) -> u32 {
        let is_open = |end: u64| end == NEVER || end <= clock;
        (0..BLOCKS_MAX).fold(0, |all, slot| all | u32::from(is_open(self.ends[slot])) << slot)
    }

    /// Finds the first of `ends`, as [`Engine::first_due`] finds the first SM.
    fn find_first(&mut self) {
        let at = |slot: usize| (self.ends[slot], slot as u8);
        let earlier = |one: (u64, u8), other: (u64, u8)| if other.0 < one.0 { other } else { one };
        let of_two = |slot: usize| earlier(at(slot), at(slot + 1));
        let of_four = |slot: usize| earlier(of_two(slot), of_two(slot + 2));
        let of_eight = |slot: usize| earlier(of_four(slot), of_four(slot + 4));
        const { assert!(BLOCKS_MAX == 16) };
        (self.earliest, self.first) = earlier(of_eight(0), of_eight(8));
    }

    fn drop_blocks(&mut self) {
        self.ends = [NEVER; BLOCKS_MAX];
        self.earliest = NEVER;
        self.resident = 0;
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    Free,
    Running,
    Restoring,
    Saving,
}
