//! Requests that take too long.
//!
//! A command cannot be stopped, so the only sign of a hung one is that nothing completes. As long as a member has commands
//! at the device, something has to complete within the limit. Otherwise one member is accused: of its first such request
//! its context is reset, for the second its task is stopped.
//!
//! Accused is the member whose command runs. On a device that does not show it, it is the member that is alone with the engine: the
//! holder of a slice, the member being sampled, the last one that is drained. While several run together it can only be guessed.
//! The guess is the member whose last completion is longest ago, because an arbiter that serves members in turn has come to that
//! one. A guess is a reset, and counts against its member only if another member completes something afterwards. If so, and it is
//! the second time, the member's task is stopped then.
//!
//! The ages of all requests start anew with each accusation, because the others may only have queued behind the accused.
//!
//! # Invariant
//!
//! No member is accused unless one request has been running for longer than the limit: time counts from the latest step that saw a
//! completion, or saw another command run.

use fusee_sched::time::{Instant, Nanoseconds};

use crate::member::{MEMBERS, Member, Members};
use crate::policy::{Accusation, Reading, Readings, Response, Running};

/// The time of the engine without progress, and the earlier accusations.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    limit: Nanoseconds,
    since: Instant,
    at_device: Members,
    running: Running,
    completed: [u64; MEMBERS],
    progressed: [Instant; MEMBERS],
    warned: Members,
    /// The member that was reset by a guess that nothing has confirmed yet.
    guessed: Option<Member>,
}

impl Watch {
    /// A watch for requests that may run for `limit`.
    #[must_use]
    pub const fn new(limit: Nanoseconds) -> Watch {
        Watch {
            limit,
            since: Instant::ZERO,
            at_device: Members::EMPTY,
            running: Running::Unknown,
            completed: [0; MEMBERS],
            progressed: [Instant::ZERO; MEMBERS],
            warned: Members::EMPTY,
            guessed: None,
        }
    }

    /// Forgets the records of `member`.
    pub fn join(&mut self, member: Member, reading: &Reading, now: Instant) {
        self.warned.remove(member);
        self.at_device.remove(member);
        self.guessed = self.guessed.filter(|&guessed| guessed != member);
        self.completed[member.index()] = reading.completed;
        self.progressed[member.index()] = now;
    }

    /// Looks at the words of a step. `alone`: the member that has the engine for itself.
    pub fn look(
        &mut self,
        now: Instant,
        readings: &Readings,
        joined: Members,
        alone: Option<Member>,
    ) -> Option<Accusation> {
        let at_device = readings.at_device(joined);
        let moved = joined.filter(|member| readings.of(member).completed != self.completed[member.index()]);
        for member in joined.iter() {
            if moved.contains(member) || !self.at_device.contains(member) {
                self.progressed[member.index()] = now;
            }
            self.completed[member.index()] = readings.of(member).completed;
        }
        let progress = !moved.is_empty() || self.at_device.and(joined).is_empty() || self.running != readings.running;
        self.at_device = at_device;
        self.running = readings.running;
        if progress {
            self.since = now;
        }
        let guilty = self.guessed.filter(|&guessed| !moved.without(Members::only(guessed)).is_empty());
        if let Some(member) = guilty {
            self.guessed = None;
            if joined.contains(member) && self.warned.contains(member) {
                return Some(Accusation { member, response: Response::Stop });
            }
            self.warned.insert(member);
        }
        if now.since(self.since) <= self.limit {
            return None;
        }
        let known = match readings.running {
            Running::Nobody => return None,
            Running::Member(member) => Some(member),
            Running::Unknown if at_device.len() == 1 => at_device.iter().next(),
            Running::Unknown => alone,
        };
        let oldest = || at_device.iter().min_by_key(|member| self.progressed[member.index()]);
        let member = known.or_else(oldest).filter(|&member| at_device.contains(member))?;
        self.since = now;
        self.progressed = [now; MEMBERS];
        self.guessed = None;
        if known.is_none() {
            self.guessed = Some(member);
            return Some(Accusation { member, response: Response::Reset });
        }
        let response = if self.warned.contains(member) { Response::Stop } else { Response::Reset };
        self.warned.insert(member);
        Some(Accusation { member, response })
    }
}
