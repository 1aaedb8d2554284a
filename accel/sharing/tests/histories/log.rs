//! All input that a policy ever had. Oracles look things up here instead of remembering them.

use std::collections::BTreeSet;

use fusee_sharing::*;

#[derive(Clone)]
pub struct Step {
    pub now: u64,
    pub readings: Readings,
    pub joined: BTreeSet<usize>,
}

#[derive(Clone, Default)]
pub struct Log {
    pub steps: Vec<Step>,
    /// For each join: the number of steps before it, the member, and its words then.
    pub joins: Vec<(usize, usize, Reading, u64)>,
    pub joined: BTreeSet<usize>,
}

impl Log {
    pub fn join(&mut self, member: usize, reading: &Reading, now: u64) {
        self.joins.push((self.steps.len(), member, *reading, now.max(self.last())));
        self.joined.insert(member);
    }

    pub fn last(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.now)
    }

    /// Notes a step and returns its number and its time, which never goes backwards.
    pub fn step(&mut self, now: u64, readings: &Readings) -> (usize, u64) {
        let now = now.max(self.last());
        self.steps.push(Step { now, readings: *readings, joined: self.joined.clone() });
        (self.steps.len() - 1, now)
    }

    /// The latest join of a member.
    pub fn joined_at(&self, member: usize) -> (usize, Reading, u64) {
        let &(step, _, reading, now) = self.joins.iter().rev().find(|join| join.1 == member).unwrap();
        (step, reading, now)
    }

    pub fn reading(&self, step: usize, member: usize) -> Reading {
        self.steps[step].readings.members[member]
    }

    /// The words of `member` at the step before `step`, or when it joined if it was not there then.
    pub fn before(&self, step: usize, member: usize) -> Reading {
        let join = self.joins.iter().rev().find(|join| join.1 == member && join.0 <= step).unwrap();
        if join.0 == step { join.2 } else { self.reading(step - 1, member) }
    }

    /// Whether `member` was there at the step before, in the same life, with commands at the device.
    pub fn was_at_device(&self, step: usize, member: usize) -> bool {
        let join = self.joins.iter().rev().find(|join| join.1 == member && join.0 <= step).unwrap();
        join.0 < step && self.reading(step - 1, member).at_device()
    }

    pub fn time_before(&self, step: usize) -> u64 {
        if step == 0 { 0 } else { self.steps[step - 1].now }
    }

    pub fn waiting(&self, step: usize) -> BTreeSet<usize> {
        let step = &self.steps[step];
        step.joined.iter().copied().filter(|&member| step.readings.members[member].waits()).collect()
    }

    pub fn at_device(&self, step: usize) -> BTreeSet<usize> {
        let step = &self.steps[step];
        step.joined.iter().copied().filter(|&member| step.readings.members[member].at_device()).collect()
    }

    pub fn moved(&self, step: usize, member: usize) -> bool {
        self.reading(step, member).completed != self.before(step, member).completed
    }

    /// The use of each member since it joined, summed up from the beginning.
    pub fn usage(&self, member: usize) -> Usage {
        let (first, _, _) = self.joined_at(member);
        let mut usage = Usage::default();
        for step in first..self.steps.len() {
            let completed =
                |member| self.reading(step, member).completed.saturating_sub(self.before(step, member).completed);
            let elapsed = self.steps[step].now - self.time_before(step);
            let sharers: Vec<usize> = self.steps[step]
                .joined
                .iter()
                .copied()
                .filter(|&member| self.was_at_device(step, member) || completed(member) > 0)
                .collect();
            usage.commands += completed(member);
            let counters = (self.before(step, member).counters, self.reading(step, member).counters);
            usage.used.0 += match counters {
                (Some(before), Some(after)) => after.busy.0 - before.busy.0,
                _ if sharers.contains(&member) => elapsed / sharers.len() as u64,
                _ => 0,
            };
        }
        usage
    }
}

/// Requests that take too long, by looking back.
#[derive(Clone, Default)]
pub struct WatchOracle {
    accusations: Vec<usize>,
    guilty: Vec<usize>,
    guess: Option<usize>,
}

impl WatchOracle {
    pub fn join(&mut self, member: usize) {
        self.guilty.retain(|&other| other != member);
        if self.guess == Some(member) {
            self.guess = None;
        }
    }

    pub fn look(&mut self, log: &Log, alone: Option<usize>, limit: u64) -> Option<Accusation> {
        let step = log.steps.len() - 1;
        let joined = &log.steps[step].joined;
        if let Some(guess) = self.guess
            && joined.iter().any(|&member| member != guess && log.moved(step, member))
        {
            self.guess = None;
            if joined.contains(&guess) && self.guilty.contains(&guess) {
                return accuse(guess, Response::Stop);
            }
            self.guilty.push(guess);
        }
        // Since when has nothing happened?
        let progress = |step: usize| {
            let joined = &log.steps[step].joined;
            let running = if step == 0 { Running::Unknown } else { log.steps[step - 1].readings.running };
            joined.iter().any(|&member| log.moved(step, member))
                || !joined.iter().any(|&member| log.was_at_device(step, member))
                || running != log.steps[step].readings.running
        };
        let since = (0..=step).rev().find(|&step| self.accusations.contains(&step) || progress(step)).unwrap_or(0);
        if log.steps[step].now - log.steps[since].now <= limit {
            return None;
        }
        let at_device = log.at_device(step);
        let age = |member: usize| {
            let (first, _, joined) = log.joined_at(member);
            let last = (first..=step).rev().find(|&step| {
                self.accusations.contains(&step) || log.moved(step, member) || !log.was_at_device(step, member)
            });
            last.map_or(joined, |step| log.steps[step].now)
        };
        let (suspect, certain) = match log.steps[step].readings.running {
            Running::Nobody => return None,
            Running::Member(member) => (Some(member.index()), true),
            Running::Unknown if at_device.len() == 1 => (at_device.first().copied(), true),
            Running::Unknown if alone.is_some() => (alone, true),
            Running::Unknown => {
                let oldest = at_device.iter().map(|&member| age(member)).min();
                (at_device.iter().copied().find(|&member| Some(age(member)) == oldest), false)
            }
        };
        let suspect = suspect.filter(|suspect| at_device.contains(suspect))?;
        self.accusations.push(step);
        self.guess = None;
        if !certain {
            self.guess = Some(suspect);
            accuse(suspect, Response::Reset)
        } else if self.guilty.contains(&suspect) {
            accuse(suspect, Response::Stop)
        } else {
            self.guilty.push(suspect);
            accuse(suspect, Response::Reset)
        }
    }
}

fn accuse(member: usize, response: Response) -> Option<Accusation> {
    Some(Accusation { member: Member::new(member).unwrap(), response })
}
