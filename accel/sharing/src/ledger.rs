//! The use of each member, for policies that do not need to know it themselves.

use fusee_sched::time::{Instant, Nanoseconds};

use crate::member::{MEMBERS, Member, Members};
use crate::policy::{Reading, Readings, Usage};

/// The use of each member since it joined.
///
/// Without counters of the device, the time between two steps belongs in equal parts to the members that had commands at
/// the device when it began, or have completed some by its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger {
    last: Instant,
    at_device: Members,
    readings: [Reading; MEMBERS],
    usage: [Usage; MEMBERS],
}

impl Ledger {
    pub(crate) const EMPTY: Ledger = Ledger {
        last: Instant::ZERO,
        at_device: Members::EMPTY,
        readings: [Reading { announced: 0, submitted: 0, completed: 0, counters: None }; MEMBERS],
        usage: [Usage { used: Nanoseconds::ZERO, commands: 0, ahead: Nanoseconds::ZERO, denied: false }; MEMBERS],
    };

    pub(crate) fn join(&mut self, member: Member, reading: &Reading) {
        self.readings[member.index()] = *reading;
        self.usage[member.index()] = Usage::default();
        self.at_device.remove(member);
    }

    pub(crate) fn book(&mut self, now: Instant, readings: &Readings, joined: Members) {
        let elapsed = now.since(self.last);
        let completed =
            |member: Member| readings.of(member).completed.saturating_sub(self.readings[member.index()].completed);
        let sharers = joined.filter(|member| self.at_device.contains(member) || completed(member) > 0);
        for member in joined.iter() {
            let (before, reading) = (self.readings[member.index()], readings.of(member));
            let usage = &mut self.usage[member.index()];
            usage.commands += completed(member);
            usage.used += match (before.counters, reading.counters) {
                (Some(before), Some(counters)) => counters.busy.saturating_sub(before.busy),
                _ if sharers.contains(member) => Nanoseconds(elapsed.0 / sharers.len() as u64),
                _ => Nanoseconds::ZERO,
            };
        }
        self.last = now;
        self.at_device = readings.at_device(joined);
        self.readings = readings.members;
    }

    pub(crate) const fn usage(&self, member: Member) -> Usage {
        self.usage[member.index()]
    }
}
