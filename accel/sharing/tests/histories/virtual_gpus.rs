//! Virtual GPUs, straight from their rules: a queue that is a list, and periods that end one after the other.

use std::collections::{BTreeMap, BTreeSet};

use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sharing::*;

use crate::fair::{Forest, Name, leaf};
use crate::log::{Log, WatchOracle};
use crate::{Oracle, members};

const SECOND: u64 = 1_000_000_000;

pub struct VirtualGpuOracle {
    parameters: Parameters,
    succession: Succession,
    forest: Forest,
    log: Log,
    watch: WatchOracle,
    /// Virtual GPUs, the head first; and members, the one that was dispatched longest ago first.
    queue: Vec<Name>,
    turns: Vec<usize>,
    credit: BTreeMap<Name, i128>,
    busy: BTreeMap<Name, u64>,
    /// Time used, of so much.
    utilisation: BTreeMap<Name, (u64, u64)>,
    period_ends: u64,
    window_begins: u64,
    /// The member with the turn, and the step of its beginning.
    turn: Option<(usize, usize)>,
    buffering: Option<(u64, BTreeSet<usize>)>,
}

impl VirtualGpuOracle {
    pub fn new(parameters: &Parameters, succession: Succession, forest: Forest) -> VirtualGpuOracle {
        VirtualGpuOracle {
            parameters: *parameters,
            succession,
            forest,
            log: Log::default(),
            watch: WatchOracle::default(),
            queue: Vec::new(),
            turns: Vec::new(),
            credit: BTreeMap::new(),
            busy: BTreeMap::new(),
            utilisation: BTreeMap::new(),
            period_ends: parameters.period.0,
            window_begins: 0,
            turn: None,
            buffering: None,
        }
    }

    fn gpu(&self, member: usize) -> Name {
        *self.forest.path(member).last().unwrap()
    }

    /// The weight of a virtual GPU, and those of all.
    fn parts(&self, gpu: Name) -> (u128, u128) {
        (self.forest.weight[&gpu], self.queue.iter().map(|gpu| self.forest.weight[gpu]).sum())
    }

    fn end_periods(&mut self, now: u64) {
        let period = self.parameters.period.0;
        while self.period_ends <= now {
            let time = self.period_ends - self.window_begins;
            for gpu in self.queue.clone() {
                let (own, all) = self.parts(gpu);
                let credit = self.credit.get_mut(&gpu).unwrap();
                *credit += (u128::from(period) * own / all) as i128;
                if credit.abs() > i128::from(period) {
                    *credit = 0;
                }
                self.utilisation.insert(gpu, (self.busy[&gpu], time));
            }
            if time >= SECOND {
                self.window_begins = self.period_ends;
                self.busy.values_mut().for_each(|busy| *busy = 0);
            }
            self.period_ends += period;
        }
    }

    fn is_over_used(&self, gpu: Name) -> bool {
        let ((used, time), (own, all)) = (self.utilisation[&gpu], self.parts(gpu));
        // More than all of the time is all of it.
        u128::from(used.min(time)) * all > own * u128::from(time)
    }

    /// The first of `candidates`.
    fn first(&self, candidates: &BTreeSet<usize>) -> Option<usize> {
        let with = |gpu: &Name| candidates.iter().any(|&member| self.gpu(member) == *gpu);
        let gpu = *self.queue.iter().find(|gpu| with(gpu))?;
        let of_gpu = || self.turns.iter().copied().filter(|&one| candidates.contains(&one) && self.gpu(one) == gpu);
        let highest = of_gpu().map(|member| self.forest.weight[&leaf(member)]).max()?;
        of_gpu().find(|&member| self.forest.weight[&leaf(member)] == highest)
    }

    fn complete(&mut self, member: usize, began: usize, step: usize) {
        let (start, now) = (self.log.steps[began].now, self.log.steps[step].now);
        let words = [began, step].map(|step| self.log.reading(step, member).counters);
        let used = match words {
            [Some(before), Some(after)] => after.busy.0 - before.busy.0,
            _ => now - start,
        };
        let gpu = self.gpu(member);
        *self.credit.get_mut(&gpu).unwrap() -= i128::from(used);
        *self.busy.get_mut(&gpu).unwrap() += used;
        let out_of_credit = self.credit[&gpu] < 0;
        let moves = match self.succession {
            Succession::Fifo => true,
            Succession::Credit => out_of_credit,
            Succession::Band => out_of_credit && self.is_over_used(gpu),
        };
        if moves {
            self.queue.retain(|&other| other != gpu);
            self.queue.push(gpu);
        }
        let waiting = self.log.waiting(step);
        let Some(next) = self.first(&waiting) else { return };
        if self.succession == Succession::Band && self.gpu(next) != gpu && self.is_over_used(self.gpu(next)) {
            self.buffering = Some(((start + used).min(now) + self.parameters.wait.0, waiting));
        }
    }
}

impl Oracle for VirtualGpuOracle {
    fn join(&mut self, member: usize, place: Place, reading: &Reading, now: u64) {
        self.end_periods(now);
        self.forest.parent.insert(leaf(member), place.group.index());
        self.forest.weight.insert(leaf(member), u128::from(place.weight.shares()));
        self.log.join(member, reading, now);
        self.watch.join(member);
        let gpu = self.gpu(member);
        if !self.queue.contains(&gpu) {
            self.queue.push(gpu);
            self.credit.insert(gpu, 0);
            self.busy.insert(gpu, 0);
            self.utilisation.insert(gpu, (0, 1));
        }
        self.turns.push(member);
    }

    fn leave(&mut self, member: usize) {
        self.log.joined.remove(&member);
        self.turns.retain(|&other| other != member);
        let gpu = self.gpu(member);
        if !self.log.joined.iter().any(|&other| self.gpu(other) == gpu) {
            self.queue.retain(|&other| other != gpu);
        }
        self.turn = self.turn.filter(|&(turn, _)| turn != member);
        self.buffering = None;
    }

    fn reweigh(&mut self, member: usize, weight: Weight) {
        self.forest.weight.insert(leaf(member), u128::from(weight.shares()));
    }

    fn step(&mut self, now: u64, readings: &Readings) -> Verdict {
        let (step, now) = self.log.step(now, readings);
        let accused = self.watch.look(&self.log, self.turn.map(|turn| turn.0), self.parameters.request_limit.0);
        self.end_periods(now);
        let here = self.log.at_device(step);
        if let Some((member, began)) = self.turn.filter(|(member, _)| !here.contains(member)) {
            self.turn = None;
            self.complete(member, began, step);
        }
        let waiting = self.log.waiting(step);
        self.buffering = self.buffering.take().filter(|_| !waiting.is_empty());
        let mut dispatched = None;
        if self.turn.is_none() {
            dispatched = match &self.buffering {
                None => self.first(&waiting),
                Some((until, passed_over)) => {
                    let arrivals: BTreeSet<usize> = waiting.difference(passed_over).copied().collect();
                    self.first(&arrivals).or_else(|| if now >= *until { self.first(&waiting) } else { None })
                }
            };
        }
        if let Some(member) = dispatched {
            self.buffering = None;
            self.turn = Some((member, step));
            self.turns.retain(|&other| other != member);
            self.turns.push(member);
        }

        let mut verdict = Verdict { accused, ..Verdict::QUIET };
        let poll = now + self.parameters.poll.0;
        match (self.turn, &self.buffering) {
            (Some((member, _)), _) => {
                let reading = self.log.reading(step, member);
                if dispatched.is_some() || waiting.iter().all(|&other| other == member) {
                    let pass = reading.announced - reading.submitted;
                    verdict.doorbells[member] = Doorbell::Trapped { pass };
                } else if here.contains(&member) {
                    verdict.drain = members([member]);
                }
                verdict.call_again = Some(Instant(now + self.parameters.sample_poll.0));
            }
            (None, Some((until, _))) => verdict.call_again = Some(Instant(poll.min(*until))),
            (None, None) if here.is_empty() && waiting.is_empty() => {}
            (None, None) => verdict.call_again = Some(Instant(poll)),
        }
        verdict
    }

    fn usage(&self, member: usize) -> Usage {
        let owed = -self.credit[&self.gpu(member)].min(0);
        let denied = match (self.turn, &self.buffering) {
            (Some((turn, _)), _) => turn != member,
            (None, Some((_, passed_over))) => passed_over.contains(&member),
            (None, None) => false,
        };
        Usage { ahead: Nanoseconds(owed as u64), denied, ..self.log.usage(member) }
    }
}
