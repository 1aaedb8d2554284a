//! The activity of members between two settlements.

use fusee_sched::time::{Instant, Nanoseconds};

use crate::member::{MEMBERS, Member, Members};
use crate::policy::{Reading, Readings};

const WORDS: Reading = Reading { announced: 0, submitted: 0, completed: 0, counters: None };

/// An interval that is not over yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    since: Instant,
    last: Instant,
    /// The words when it began.
    marks: [Reading; MEMBERS],
    /// Time during which a member was seen to be backlogged, and to wait with nothing at the device.
    backlogged: [Nanoseconds; MEMBERS],
    held: [Nanoseconds; MEMBERS],
}

/// An interval that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elapsed {
    pub(crate) time: Nanoseconds,
    /// The members that asked for something, or had not got all that they had asked for before.
    pub(crate) active: Members,
    /// The active members that were backlogged for most of the time.
    pub(crate) backlogged: Members,
    /// Commands completed.
    pub(crate) completed: [u64; MEMBERS],
    /// Engine time, if the device counts it.
    pub(crate) busy: [Option<Nanoseconds>; MEMBERS],
}

impl Elapsed {
    pub(crate) const NONE: Elapsed = Elapsed {
        time: Nanoseconds::ZERO,
        active: Members::EMPTY,
        backlogged: Members::EMPTY,
        completed: [0; MEMBERS],
        busy: [None; MEMBERS],
    };

    pub(crate) fn forget(&mut self, member: Member) {
        self.active.remove(member);
        self.backlogged.remove(member);
    }
}

impl Interval {
    pub(crate) const fn new() -> Interval {
        let none = [Nanoseconds::ZERO; MEMBERS];
        Interval { since: Instant::ZERO, last: Instant::ZERO, marks: [WORDS; MEMBERS], backlogged: none, held: none }
    }

    pub(crate) fn begin(&mut self, now: Instant, readings: &Readings) {
        *self = Interval { since: now, last: now, marks: readings.members, ..Interval::new() };
    }

    pub(crate) fn join(&mut self, member: Member, reading: &Reading) {
        self.marks[member.index()] = *reading;
        self.backlogged[member.index()] = Nanoseconds::ZERO;
        self.held[member.index()] = Nanoseconds::ZERO;
    }

    /// Takes in the words of a step: the present state of a member has lasted since the step before.
    pub(crate) fn note(&mut self, now: Instant, readings: &Readings, joined: Members) {
        let passed = now.since(self.last);
        self.last = now;
        for member in joined.iter() {
            let reading = readings.of(member);
            if reading.waits() || reading.at_device() {
                self.backlogged[member.index()] += passed;
            }
            if reading.waits() && !reading.at_device() {
                self.held[member.index()] += passed;
            }
        }
    }

    /// The interval as it would be if it ended now. `percent`: how much of it a member must be backlogged to count as such.
    pub(crate) fn elapsed(&self, now: Instant, readings: &Readings, joined: Members, percent: u8) -> Elapsed {
        let time = now.since(self.since);
        let mut elapsed = Elapsed { time, ..Elapsed::NONE };
        for member in joined.iter() {
            let (mark, reading) = (&self.marks[member.index()], readings.of(member));
            let completed = reading.completed.saturating_sub(mark.completed);
            elapsed.completed[member.index()] = completed;
            let counted = mark.counters.zip(reading.counters);
            elapsed.busy[member.index()] = counted.map(|(mark, now)| now.busy.saturating_sub(mark.busy));
            let backlog = match counted {
                Some((mark, now)) => now.backlogged.saturating_sub(mark.backlogged) + self.held[member.index()],
                None => self.backlogged[member.index()],
            };
            if completed > 0 || reading.submitted != mark.submitted || reading.waits() || reading.at_device() {
                elapsed.active.insert(member);
                if u128::from(backlog.0) * 100 >= u128::from(time.0) * u128::from(percent) {
                    elapsed.backlogged.insert(member);
                }
            }
        }
        elapsed
    }
}
