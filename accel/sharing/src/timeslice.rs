//! Timeslices: one member at a time has the engine, and owes the time that it used beyond its slice.
//!
//! The holder of the slice goes on; all others wait at their doorbells. When the slice ends and another member waits, the
//! holder's doorbell is shut, its commands at the device are waited for, and the time this takes is *overuse*. The slice
//! then goes to the next member in a circle that waits. A member whose overuse is more than a slice is skipped instead, and
//! owes a slice less. The engine idles while its holder does: a timeslice does not conserve work, fair queueing does.
//!
//! With [`Interception::Engaged`] each of the holder's requests is trapped, too.
//!
//! # Invariants
//!
//! 1. Only the holder has commands at the device.
//! 2. Overuse of one slice is at most the time of the holder's commands at the device when the slice ended, and one poll.
//! 3. No member starts a slice while it owes more than one.
//! 4. A lone member is never drained, shut out or charged. When a slice ends and no other member waits, the holder keeps the
//!    engine, and owes nothing any more: there is no member to be paid.
//!
//! # Corrected
//!
//! The paper passes the slice to idle members, too, where it is lost; members that wait are enough, because no member can reach the
//! device without waiting first. The paper forgives a debt when the circle comes back to the debtor, although all others may only
//! have been skipped for debts of their own; here the circle goes on.
//!
//! # Source
//!
//! Menychtas et al., ASPLOS 2014: timeslice with overuse control, engaged and disengaged.

use fusee_sched::time::{Instant, Nanoseconds};

use crate::ledger::Ledger;
use crate::member::{MEMBERS, Member, Members};
use crate::parameters::{ParameterError, Parameters};
use crate::policy::{Interception, JoinError, Place, Policy, Reading, Readings, Usage, Verdict};
use crate::tree::Weight;
use crate::watch::Watch;

/// A slice with its holder.
#[derive(Clone, Copy, Debug)]
struct Turn {
    holder: Member,
    ends: Instant,
    /// The slice has ended, another member waits, and the holder's doorbell is shut.
    closed: bool,
    /// The holder had commands at the device after its doorbell was shut.
    overran: bool,
}

/// Timeslices for the members that want the engine.
#[derive(Clone, Copy, Debug)]
pub struct Timeslice {
    parameters: Parameters,
    interception: Interception,
    overuse_control: bool,
    joined: Members,
    clock: Instant,
    turn: Option<Turn>,
    last_holder: Member,
    overuse: [Nanoseconds; MEMBERS],
    ledger: Ledger,
    watch: Watch,
}

impl Timeslice {
    /// Timeslices without members yet, with overuse control.
    ///
    /// # Errors
    /// A parameter that is out of its range.
    pub fn new(parameters: &Parameters, interception: Interception) -> Result<Timeslice, ParameterError> {
        parameters.check()?;
        Ok(Timeslice {
            parameters: *parameters,
            interception,
            overuse_control: true,
            joined: Members::EMPTY,
            clock: Instant::ZERO,
            turn: None,
            last_holder: const { Member::new(MEMBERS - 1).unwrap() },
            overuse: [Nanoseconds::ZERO; MEMBERS],
            ledger: Ledger::EMPTY,
            watch: Watch::new(parameters.request_limit),
        })
    }

    /// This policy without overuse control, to compare with: long requests then steal the slices of others.
    #[must_use]
    pub const fn without_overuse_control(mut self) -> Timeslice {
        self.overuse_control = false;
        self
    }

    /// The member that holds the slice.
    #[must_use]
    pub fn holder(&self) -> Option<Member> {
        self.turn.map(|turn| turn.holder)
    }

    /// The state of a turn after this step. `None`: the slice is free.
    fn continued(&mut self, turn: Turn, now: Instant, readings: &Readings) -> Option<Turn> {
        let holder = turn.holder;
        if now < turn.ends {
            return Some(turn);
        }
        let reading = readings.of(holder);
        let others = readings.waiting(self.joined).without(Members::only(holder));
        if others.is_empty() {
            self.overuse[holder.index()] = Nanoseconds::ZERO;
            let wanted = reading.waits() || reading.at_device();
            // A doorbell that is open may be stored to after it was read, so it is shut first, and read again.
            let shut = turn.closed || self.interception == Interception::Engaged;
            return match (wanted, shut) {
                (true, _) => Some(Turn { ends: now + self.parameters.slice, closed: false, overran: false, ..turn }),
                (false, true) => None,
                (false, false) => Some(Turn { closed: true, ..turn }),
            };
        }
        if !turn.closed || reading.at_device() {
            return Some(Turn { closed: true, overran: turn.overran || (turn.closed && reading.at_device()), ..turn });
        }
        if turn.overran && self.overuse_control {
            self.overuse[holder.index()] += now.since(turn.ends);
        }
        None
    }

    /// The next member in the circle that waits and owes at most a slice. Each that is skipped owes a slice less.
    fn next_holder(&mut self, waiting: Members) -> Option<Member> {
        // The number of whole rounds in which all are skipped, at once: debts may be long, steps may not.
        let slice = self.parameters.slice.0;
        let skips = |debt: Nanoseconds| debt.0.saturating_sub(1) / slice;
        let rounds = waiting.iter().map(|member| skips(self.overuse[member.index()])).min()?;
        for member in waiting.iter() {
            self.overuse[member.index()].0 -= rounds * slice;
        }
        for member in waiting.circle_behind(self.last_holder) {
            let overuse = &mut self.overuse[member.index()];
            if overuse.0 <= slice {
                return Some(member);
            }
            overuse.0 -= slice;
        }
        None
    }
}

impl Policy for Timeslice {
    fn join(&mut self, member: Member, _: Place, reading: &Reading, now: Instant) -> Result<(), JoinError> {
        if self.joined.contains(member) {
            return Err(JoinError::AlreadyJoined(member));
        }
        self.joined.insert(member);
        self.overuse[member.index()] = Nanoseconds::ZERO;
        self.ledger.join(member, reading);
        self.watch.join(member, reading, now.max(self.clock));
        Ok(())
    }

    fn leave(&mut self, member: Member, _: Instant) {
        self.joined.remove(member);
        self.turn = self.turn.filter(|turn| turn.holder != member);
    }

    fn reweigh(&mut self, _: Member, _: Weight) {}

    fn step(&mut self, now: Instant, readings: &Readings) -> Verdict {
        let now = now.max(self.clock);
        self.clock = now;
        self.ledger.book(now, readings, self.joined);
        let accused = self.watch.look(now, readings, self.joined, self.holder());

        if let Some(turn) = self.turn {
            self.turn = self.continued(turn, now, readings);
        }
        if self.turn.is_none()
            && let Some(holder) = self.next_holder(readings.waiting(self.joined))
        {
            self.last_holder = holder;
            let ends = now + self.parameters.slice;
            self.turn = Some(Turn { holder, ends, closed: false, overran: false });
        }

        let mut verdict = Verdict { accused, ..Verdict::QUIET };
        let Some(turn) = self.turn else { return verdict };
        let at_device = readings.of(turn.holder).at_device();
        verdict.call_again = Some(if !turn.closed {
            verdict.let_in(turn.holder, self.interception, readings);
            turn.ends.min(now + self.parameters.poll)
        } else if at_device {
            verdict.drain = Members::only(turn.holder);
            now + self.parameters.poll
        } else {
            now
        });
        verdict
    }

    fn usage(&self, member: Member) -> Usage {
        if !self.joined.contains(member) {
            return Usage::default();
        }
        let holds = self.turn.is_some_and(|turn| turn.holder == member && !turn.closed);
        Usage { ahead: self.overuse[member.index()], denied: !holds, ..self.ledger.usage(member) }
    }

    fn season(&self) -> u64 {
        self.holder().map_or(0, |holder| 1 | (holder.index() as u64) << 8)
    }
}
