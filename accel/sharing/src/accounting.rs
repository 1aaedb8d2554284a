//! Accounting only: every request is trapped, passes at once, and is booked.
//!
//! Members are served in the order of the device's own arbiter. Other policies are compared with this one.

use fusee_sched::time::Instant;

use crate::ledger::Ledger;
use crate::member::{Member, Members};
use crate::parameters::{ParameterError, Parameters};
use crate::policy::{Interception, JoinError, Place, Policy, Reading, Readings, Usage, Verdict};
use crate::tree::Weight;
use crate::watch::Watch;

/// Accounting alone, which lets all members in. A request that takes too long is still an accusation.
#[derive(Clone, Copy, Debug)]
pub struct Accounting {
    parameters: Parameters,
    joined: Members,
    clock: Instant,
    ledger: Ledger,
    watch: Watch,
}

impl Accounting {
    /// Accounts without members yet.
    ///
    /// # Errors
    /// A parameter that is out of its range.
    pub fn new(parameters: &Parameters) -> Result<Accounting, ParameterError> {
        parameters.check()?;
        Ok(Accounting {
            parameters: *parameters,
            joined: Members::EMPTY,
            clock: Instant::ZERO,
            ledger: Ledger::EMPTY,
            watch: Watch::new(parameters.request_limit),
        })
    }
}

impl Policy for Accounting {
    fn join(&mut self, member: Member, _: Place, reading: &Reading, now: Instant) -> Result<(), JoinError> {
        if self.joined.contains(member) {
            return Err(JoinError::AlreadyJoined(member));
        }
        self.joined.insert(member);
        self.ledger.join(member, reading);
        self.watch.join(member, reading, now.max(self.clock));
        Ok(())
    }

    fn leave(&mut self, member: Member, _: Instant) {
        self.joined.remove(member);
    }

    fn reweigh(&mut self, _: Member, _: Weight) {}

    fn step(&mut self, now: Instant, readings: &Readings) -> Verdict {
        let now = now.max(self.clock);
        self.clock = now;
        self.ledger.book(now, readings, self.joined);
        let mut verdict = Verdict { accused: self.watch.look(now, readings, self.joined, None), ..Verdict::QUIET };
        for member in self.joined.iter() {
            verdict.let_in(member, Interception::Engaged, readings);
        }
        let backlogged = readings.at_device(self.joined).or(readings.waiting(self.joined));
        verdict.call_again = (!backlogged.is_empty()).then(|| now + self.parameters.poll);
        verdict
    }

    fn usage(&self, member: Member) -> Usage {
        if self.joined.contains(member) { self.ledger.usage(member) } else { Usage::default() }
    }
}
