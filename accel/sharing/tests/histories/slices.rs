//! Accounting and timeslices, straight from their rules.

use std::collections::BTreeMap;

use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sharing::*;

use crate::log::{Log, WatchOracle};
use crate::{Oracle, members};

pub struct AccountingOracle {
    pub parameters: Parameters,
    pub log: Log,
    pub watch: WatchOracle,
}

impl Oracle for AccountingOracle {
    fn join(&mut self, member: usize, _: Place, reading: &Reading, now: u64) {
        self.log.join(member, reading, now);
        self.watch.join(member);
    }

    fn leave(&mut self, member: usize) {
        self.log.joined.remove(&member);
    }

    fn reweigh(&mut self, _: usize, _: Weight) {}

    fn step(&mut self, now: u64, readings: &Readings) -> Verdict {
        let (step, now) = self.log.step(now, readings);
        let accused = self.watch.look(&self.log, None, self.parameters.request_limit.0);
        let mut verdict = Verdict { accused, ..Verdict::QUIET };
        for &member in &self.log.joined {
            let reading = self.log.reading(step, member);
            verdict.doorbells[member] = Doorbell::Trapped { pass: reading.announced - reading.submitted };
        }
        if !self.log.waiting(step).is_empty() || !self.log.at_device(step).is_empty() {
            verdict.call_again = Some(Instant(now + self.parameters.poll.0));
        }
        verdict
    }

    fn usage(&self, member: usize) -> Usage {
        self.log.usage(member)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Turn {
    Free,
    Holds { holder: usize, end: u64 },
    Closing { holder: usize, end: u64, overran: bool },
}

pub struct TimesliceOracle {
    parameters: Parameters,
    interception: Interception,
    overuse_control: bool,
    log: Log,
    watch: WatchOracle,
    turn: Turn,
    last_holder: usize,
    debts: BTreeMap<usize, u64>,
}

impl TimesliceOracle {
    pub fn new(parameters: &Parameters, interception: Interception, overuse_control: bool) -> TimesliceOracle {
        TimesliceOracle {
            parameters: *parameters,
            interception,
            overuse_control,
            log: Log::default(),
            watch: WatchOracle::default(),
            turn: Turn::Free,
            last_holder: MEMBERS - 1,
            debts: BTreeMap::new(),
        }
    }

    fn holder(&self) -> Option<usize> {
        match self.turn {
            Turn::Free => None,
            Turn::Holds { holder, .. } | Turn::Closing { holder, .. } => Some(holder),
        }
    }
}

impl Oracle for TimesliceOracle {
    fn join(&mut self, member: usize, _: Place, reading: &Reading, now: u64) {
        self.log.join(member, reading, now);
        self.watch.join(member);
        self.debts.insert(member, 0);
    }

    fn leave(&mut self, member: usize) {
        self.log.joined.remove(&member);
        if self.holder() == Some(member) {
            self.turn = Turn::Free;
        }
    }

    fn reweigh(&mut self, _: usize, _: Weight) {}

    fn step(&mut self, now: u64, readings: &Readings) -> Verdict {
        let (step, now) = self.log.step(now, readings);
        let slice = self.parameters.slice.0;
        let accused = self.watch.look(&self.log, self.holder(), self.parameters.request_limit.0);
        let waiting = self.log.waiting(step);
        if let Some(holder) = self.holder() {
            let here = self.log.at_device(step).contains(&holder);
            let wanted = here || waiting.contains(&holder);
            let contended = waiting.iter().any(|&member| member != holder);
            self.turn = match self.turn {
                Turn::Holds { end, .. } if now < end => self.turn,
                Turn::Holds { end, .. } if contended => Turn::Closing { holder, end, overran: false },
                Turn::Closing { end, .. } if contended && here => Turn::Closing { holder, end, overran: true },
                Turn::Closing { end, overran, .. } if contended => {
                    if overran && self.overuse_control {
                        *self.debts.get_mut(&holder).unwrap() += now - end;
                    }
                    Turn::Free
                }
                // Alone: nothing is owed, and the slice goes on if it is of use.
                turn => {
                    self.debts.insert(holder, 0);
                    match (wanted, turn) {
                        (true, _) => Turn::Holds { holder, end: now + slice },
                        (false, Turn::Holds { end, .. }) if self.interception == Interception::Disengaged => {
                            Turn::Closing { holder, end, overran: false }
                        }
                        (false, _) => Turn::Free,
                    }
                }
            };
        }
        if self.turn == Turn::Free && !waiting.is_empty() {
            let mut candidate = self.last_holder;
            loop {
                candidate = (candidate + 1) % MEMBERS;
                if !waiting.contains(&candidate) {
                    continue;
                }
                let debt = self.debts.get_mut(&candidate).unwrap();
                if *debt <= slice {
                    break;
                }
                *debt -= slice;
            }
            self.last_holder = candidate;
            self.turn = Turn::Holds { holder: candidate, end: now + slice };
        }

        let mut verdict = Verdict { accused, ..Verdict::QUIET };
        let poll = now + self.parameters.poll.0;
        match self.turn {
            Turn::Free => {}
            Turn::Holds { holder, end } => {
                let reading = self.log.reading(step, holder);
                verdict.doorbells[holder] = match self.interception {
                    Interception::Disengaged => Doorbell::Open,
                    Interception::Engaged => Doorbell::Trapped { pass: reading.announced - reading.submitted },
                };
                verdict.call_again = Some(Instant(end.min(poll)));
            }
            Turn::Closing { holder, .. } if self.log.at_device(step).contains(&holder) => {
                verdict.drain = members([holder]);
                verdict.call_again = Some(Instant(poll));
            }
            Turn::Closing { .. } => verdict.call_again = Some(Instant(now)),
        }
        verdict
    }

    fn usage(&self, member: usize) -> Usage {
        let holds = matches!(self.turn, Turn::Holds { holder, .. } if holder == member);
        Usage { ahead: Nanoseconds(self.debts[&member]), denied: !holds, ..self.log.usage(member) }
    }
}
