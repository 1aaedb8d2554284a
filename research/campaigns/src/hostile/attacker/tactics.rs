//! The tactics of an attacker: each plans some moves.

use fusee_abi::call::{Call, NEVER};
use fusee_abi::image::kind;

use super::{Attacker, FOR_EVER, MICROSECOND, Made, Mind, Move, Pace, Said, sleep};

/// A way to harm others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tactic {
    /// Computes its whole budget in each job.
    Work,
    /// Sleeps in its job until shortly before a later release, then computes as much as it can.
    Hoard,
    /// Hoards its budget without ever ending a job.
    HoardForEver,
    /// Sleeps until a victim is released, then computes.
    Ambush,
    /// Keeps its budget until its own deadline is near.
    LastMinute,
    /// Takes budgets in advance.
    EarlyRelease,
    /// Takes each lock that it can have, and keeps it.
    Hold,
    /// Makes one call over and over.
    Flood,
    /// Makes any call.
    Chaos,
    /// Lets servers work for it.
    Client,
    /// Serves, for as long as it likes.
    Serve,
    /// Receives and never replies.
    Silence,
    /// Releases jobs of others.
    Release,
    /// Signals, and waits for signals.
    PingPong,
    /// Yields and computes in turn.
    Yields,
    /// Waits with deadlines that no clock reaches, or that have passed.
    Extremes,
    /// Gives engines more to do than there is time.
    Submit,
    /// Gives engines more to do that it uses without their locks.
    Ride,
    /// Writes any values to the words of its graph.
    Scribble,
    /// Gives handles away, and takes them back.
    Gifts,
    /// Stops another.
    Stop,
    /// Ends itself, or makes a call that it has no right to.
    Die,
}

pub(super) const TACTICS: [Tactic; 22] = [
    Tactic::Work,
    Tactic::Hoard,
    Tactic::HoardForEver,
    Tactic::Ambush,
    Tactic::LastMinute,
    Tactic::EarlyRelease,
    Tactic::Hold,
    Tactic::Flood,
    Tactic::Chaos,
    Tactic::Client,
    Tactic::Serve,
    Tactic::Silence,
    Tactic::Release,
    Tactic::PingPong,
    Tactic::Yields,
    Tactic::Extremes,
    Tactic::Submit,
    Tactic::Ride,
    Tactic::Scribble,
    Tactic::Gifts,
    Tactic::Stop,
    Tactic::Die,
];

/// Instants that programs get wrong.
pub(super) const EXTREMES: [u64; 12] = [
    0,
    1,
    (1 << 62) - 1,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 3,
    u64::MAX - 2,
    u64::MAX - 1,
    u64::MAX,
    1 << 56,
    1 << 32,
];

/// An attacker as its tactics see it: times in nanoseconds.
struct Means<'a> {
    attacker: &'a Attacker,
    now: u64,
    own: Option<Pace>,
    budget: u64,
    period: u64,
}

impl Mind {
    /// Plans the next moves.
    pub(super) fn plan(&mut self, attacker: &Attacker, now: u64) {
        let tactic = self.source.pick(&self.tactics);
        let own = attacker.own;
        let (budget, period) = own.map_or((100 * MICROSECOND, 1_000 * MICROSECOND), |own| (own.budget, own.period));
        let means = &Means { attacker, now, own, budget, period };
        match tactic {
            Tactic::Work => self.work(means),
            Tactic::Hoard => self.hoard(means),
            Tactic::HoardForEver => self.hoard_for_ever(means),
            Tactic::Ambush => self.ambush(means),
            Tactic::LastMinute => self.last_minute(means),
            Tactic::EarlyRelease => self.early_release(means),
            Tactic::Hold => self.hold(means.attacker, means.now),
            Tactic::Flood => self.flood(means),
            Tactic::Chaos => self.chaos(means),
            Tactic::Client => self.client(means),
            Tactic::Serve => self.serve(means),
            Tactic::Silence => self.silence(means),
            Tactic::Release => self.release(means),
            Tactic::PingPong => self.ping_pong(means),
            Tactic::Yields => self.yields(),
            Tactic::Extremes => self.extremes(means),
            Tactic::Submit => self.submit(means),
            Tactic::Ride => self.ride(means),
            Tactic::Scribble => self.scribble(means),
            Tactic::Gifts => self.gifts(means),
            Tactic::Stop => self.stop(means),
            Tactic::Die => self.die(means),
        }
    }

    /// A part of `of` that is a habit of this attacker.
    fn part(&self, habit: usize, of: u64) -> u64 {
        of * self.habits[habit] / 1_000
    }

    /// Works for about a budget, or for ever.
    fn work(&mut self, means: &Means<'_>) {
        let Means { own, budget, .. } = *means;
        let span = [budget, budget - 1, budget - self.part(0, budget).max(1), FOR_EVER][self.pick_index(4)];
        self.next_job(own);
        self.push(Move::Burn(span));
    }

    /// Sleeps until little before a release, and works through it.
    fn hoard(&mut self, means: &Means<'_>) {
        let Means { own, budget, period, .. } = *means;
        let jobs = [1, 1, 1, 2, 3][self.habits[1] as usize % 5];
        let before =
            [budget, self.part(0, budget), budget + self.part(0, budget), 2 * budget][self.habits[2] as usize % 4];
        let first = if self.habits[3] > 600 { self.part(3, budget) } else { 0 };
        self.next_job(own);
        self.push(Move::Burn(first));
        self.push(Move::SleepIntoJob((jobs * period).saturating_sub(before).max(1)));
        self.push(Move::Burn((jobs + 1) * budget));
    }

    /// Waits until little before some later release with the rest of the budget.
    fn hoard_for_ever(&mut self, means: &Means<'_>) {
        let Means { now, own, budget, period, .. } = *means;
        let before = [budget, self.part(0, budget), budget + self.part(0, budget)][self.habits[2] as usize % 3];
        let after = self.habits[1] % 3;
        let release = own.map_or(now + period, |own| own.release(now + before, after));
        self.push(sleep(release.saturating_sub(before)));
        self.push(Move::Burn((after + 2) * budget));
    }

    /// Begins to work at an instant at which others are hurt.
    fn ambush(&mut self, means: &Means<'_>) {
        let Means { attacker, now, own, budget, .. } = *means;
        let at = self.aim(attacker, now);
        self.push(sleep(at));
        let span = [budget, 2 * budget, 10 * MICROSECOND, FOR_EVER][self.pick_index(4)];
        self.push(Move::Burn(span));
        if self.source.draw(0, 1) == 0 {
            self.next_job(own);
        }
    }

    /// Works only so late that the job just meets its deadline, or does not.
    fn last_minute(&mut self, means: &Means<'_>) {
        let Means { own, budget, period, .. } = *means;
        let deadline = own.map_or(period, |own| own.deadline);
        let margin = [0, 1, MICROSECOND, self.part(0, budget)][self.habits[1] as usize % 4];
        self.next_job(own);
        self.push(Move::SleepIntoJob(deadline.saturating_sub(budget + margin)));
        self.push(Move::BurnIntoJob(deadline.saturating_sub(margin)));
    }

    /// Takes budgets in advance, again and again.
    fn early_release(&mut self, means: &Means<'_>) {
        let Means { own, budget, .. } = *means;
        for _ in 0..1 + self.source.draw(0, 8) {
            let span = budget.saturating_sub([1, MICROSECOND, self.part(0, budget)][self.habits[1] as usize % 3]);
            self.push(Move::Burn(span));
            self.call(Call::EarlyRelease, 0, NEVER);
        }
        if self.source.draw(0, 3) == 0 {
            self.next_job(own);
        }
    }

    /// Makes one call many times.
    fn flood(&mut self, means: &Means<'_>) {
        let Means { attacker, now, .. } = *means;
        let made = self.any_call(attacker, now);
        for _ in 0..self.source.draw(4, 40) {
            self.push(Move::Call(made));
        }
        let span = self.source.draw(1, 10 * MICROSECOND);
        self.push(Move::Burn(span));
    }

    /// Makes any call.
    fn chaos(&mut self, means: &Means<'_>) {
        let Means { attacker, now, budget, .. } = *means;
        let made = self.any_call(attacker, now);
        self.push(Move::Call(made));
        let span = self.source.draw(0, budget / 2 + 1);
        self.push(Move::Burn(span));
    }

    /// Calls a server, for as much service as it dares to ask for.
    fn client(&mut self, means: &Means<'_>) {
        let Means { attacker, now, own, budget, .. } = *means;
        let until = self.deadline(attacker, now);
        let door = self.handle(attacker, kind::ENDPOINT);
        let word = [budget, self.part(0, budget), 50 * MICROSECOND, FOR_EVER][self.habits[1] as usize % 4];
        let send = self.source.draw(0, 9) == 0;
        let number = if send { Call::Send } else { Call::Call } as u64;
        self.push(Move::Call(Made { word, ..Made::new(number, door, until) }));
        let span = [0, 1, self.part(2, budget)][self.pick_index(3)];
        self.push(Move::Burn(span));
        if self.source.draw(0, 2) == 0 {
            self.next_job(own);
        }
    }

    /// Serves, slowly, and asks another server within.
    fn serve(&mut self, means: &Means<'_>) {
        let Means { attacker, now, .. } = *means;
        let door = self.handle(attacker, kind::ENDPOINT);
        let until = if self.source.draw(0, 3) == 0 { self.deadline(attacker, now) } else { NEVER };
        let span = [0, self.part(0, 500 * MICROSECOND), self.part(1, 5_000 * MICROSECOND), FOR_EVER]
            [self.habits[2] as usize % 4];
        self.push(Move::Call(Made::new(Call::Receive as u64, door, until)));
        for _ in 0..self.source.draw(1, 12) {
            self.push(Move::Burn(span));
            if self.habits[3] > 700 {
                let other = self.handle(attacker, kind::ENDPOINT);
                let until = self.deadline(attacker, now);
                self.push(Move::Call(Made { word: span, ..Made::new(Call::Call as u64, other, until) }));
            }
            let token = if self.source.draw(0, 9) == 0 { Said::LastWith } else { Said::Last(0) };
            self.push(Move::Call(Made { token, ..Made::new(Call::ReplyReceive as u64, door, until) }));
        }
    }

    /// Takes a request and does not answer.
    fn silence(&mut self, means: &Means<'_>) {
        let Means { attacker, now, budget, .. } = *means;
        let door = self.handle(attacker, kind::ENDPOINT);
        let until = self.deadline(attacker, now);
        self.push(Move::Call(Made::new(Call::Receive as u64, door, until)));
        let span = self.source.pick(&[1, budget, FOR_EVER]);
        self.push(Move::Burn(span));
    }

    /// Releases jobs of all tasks that it may release.
    fn release(&mut self, means: &Means<'_>) {
        let Means { attacker, now, .. } = *means;
        let again = self.source.draw(1, 6);
        for (_, task, _) in attacker.handles.iter().filter(|handle| handle.0 == kind::TASK) {
            for _ in 0..again {
                // One more; all up to one of the next; up to one that is over, as distances of numbers go.
                let second = self.source.pick(&[0, 0, 3, 20, 1 << 20, u64::MAX]);
                self.push(Move::Call(Made { second, ..Made::new(Call::ReleaseJob as u64, *task, NEVER) }));
            }
        }
        let at = self.aim(attacker, now);
        self.push(sleep(at));
    }

    /// Signals one notification and waits for another.
    fn ping_pong(&mut self, means: &Means<'_>) {
        let Means { attacker, now, own, budget, .. } = *means;
        let (one, other) = (self.handle(attacker, kind::NOTIFICATION), self.handle(attacker, kind::NOTIFICATION));
        self.push(Move::Call(Made { second: 1, ..Made::new(Call::Signal as u64, one, NEVER) }));
        let span = [0, self.part(0, budget), budget - 1][self.habits[1] as usize % 3];
        self.push(Move::Burn(span));
        let until = self.deadline(attacker, now);
        self.push(Move::Call(Made::new(Call::Wait as u64, other, until)));
        if self.source.draw(0, 3) == 0 {
            self.next_job(own);
        }
    }

    /// Yields, with little work between.
    fn yields(&mut self) {
        for _ in 0..self.source.draw(1, 20) {
            self.call(Call::Yield, 0, NEVER);
            let span = self.source.pick(&[1, 10, MICROSECOND, 20 * MICROSECOND]);
            self.push(Move::Burn(span));
        }
    }

    /// Waits until the first or the last instants that there are.
    fn extremes(&mut self, means: &Means<'_>) {
        let Means { attacker, budget, .. } = *means;
        let until = self.source.pick(&EXTREMES);
        let (number, of) = self.source.pick(&[
            (Call::SleepUntil, 0),
            (Call::Wait, kind::NOTIFICATION),
            (Call::Acquire, kind::POOL),
            (Call::Acquire, kind::ENGINE),
            (Call::Call, kind::ENDPOINT),
            (Call::Receive, kind::ENDPOINT),
        ]);
        let handle = if of == 0 { 0 } else { self.handle(attacker, of) };
        self.push(Move::Call(Made::new(number as u64, handle, until)));
        let span = self.source.pick(&[1, MICROSECOND, budget]);
        self.push(Move::Burn(span));
    }

    /// Holds an engine and gives its device work beyond the hold.
    fn submit(&mut self, means: &Means<'_>) {
        let Means { attacker, now, budget, period, .. } = *means;
        let engines: Vec<_> = attacker.handles.iter().filter(|handle| handle.0 == kind::ENGINE).collect();
        let (_, handle, engine) = *self.source.pick(&engines);
        let until = self.deadline(attacker, now);
        self.call(Call::Acquire, handle, until);
        for _ in 0..self.source.draw(1, 3) {
            let span = self.source.pick(&[MICROSECOND, 100 * MICROSECOND, period, FOR_EVER]);
            self.push(Move::Submit(engine, span));
        }
        let at = self.aim(attacker, now);
        let then = self.source.pick(&[Move::Burn(0), Move::Burn(budget), sleep(at)]);
        self.push(then);
        self.call(Call::Release, handle, NEVER);
    }

    /// Gives work to an engine that it has without a lock.
    fn ride(&mut self, means: &Means<'_>) {
        let Means { attacker, now, budget, period, .. } = *means;
        let engine = self.source.pick(&attacker.shared);
        for _ in 0..self.source.draw(1, 8) {
            let span = self.source.pick(&[MICROSECOND, 100 * MICROSECOND, period, FOR_EVER]);
            self.push(Move::Submit(engine, span));
        }
        let at = self.aim(attacker, now);
        let then = self.source.pick(&[Move::Burn(MICROSECOND), Move::Burn(budget), sleep(at)]);
        self.push(then);
    }

    /// Writes numbers of its own choice into the words that others read of its node.
    fn scribble(&mut self, means: &Means<'_>) {
        let Means { attacker, own, budget, .. } = *means;
        if let Some((graph, node)) = attacker.graph {
            for _ in 0..self.source.draw(1, 4) {
                let (few, many) = (self.source.draw(0, 40), self.source.pick(&EXTREMES));
                let ended = self.source.pick(&[Some(0), Some(few), Some(many), None]);
                self.push(Move::Write((graph, node), ended));
            }
        }
        let span = [1, 10 * MICROSECOND, self.part(1, budget)][self.habits[2] as usize % 3];
        self.push(Move::Burn(span));
        if self.source.draw(0, 1) == 0 {
            self.next_job(own);
        }
    }

    /// Gives handles away, and takes them back.
    fn gifts(&mut self, means: &Means<'_>) {
        let Means { attacker, now, budget, .. } = *means;
        let (door, given) = (self.handle(attacker, kind::ENDPOINT), self.any_handle(attacker));
        let until = self.deadline(attacker, now);
        let number = if self.source.draw(0, 1) == 0 { Call::Send } else { Call::CallWith } as u64;
        self.push(Move::Call(Made { given, ..Made::new(number, door, until) }));
        let second = self.source.draw(0, 1);
        self.push(Move::Call(Made { second, ..Made::new(Call::Revoke as u64, given, NEVER) }));
        let span = self.source.draw(0, budget);
        self.push(Move::Burn(span));
    }

    /// Stops another task.
    fn stop(&mut self, means: &Means<'_>) {
        let Means { attacker, now, budget, .. } = *means;
        let task = self.handle(attacker, kind::TASK);
        let at = self.aim(attacker, now);
        self.push(sleep(at));
        self.call(Call::Stop, task, NEVER);
        self.push(Move::Burn(budget));
    }

    /// Dies in the middle of a hold.
    fn die(&mut self, means: &Means<'_>) {
        let Means { attacker, now, period, .. } = *means;
        let at = self.aim(attacker, now + 2 * period);
        self.hold(attacker, now);
        self.push(Move::BurnUntil(at));
        if self.source.draw(0, 1) == 0 {
            self.push(Move::Fault);
        } else {
            self.call(Call::Exit, 0, NEVER);
        }
    }
}

impl Tactic {
    /// Whether an attacker can do it at all.
    pub(super) fn suits(self, attacker: &Attacker) -> bool {
        let has = |wanted: u32| attacker.handles.iter().any(|handle| handle.0 == wanted);
        match self {
            Tactic::Hoard | Tactic::LastMinute | Tactic::EarlyRelease | Tactic::HoardForEver => attacker.own.is_some(),
            Tactic::Hold => has(kind::ENGINE) || has(kind::POOL),
            Tactic::Client | Tactic::Serve | Tactic::Silence | Tactic::Gifts => has(kind::ENDPOINT),
            Tactic::Release | Tactic::Stop => has(kind::TASK),
            Tactic::PingPong => has(kind::NOTIFICATION),
            Tactic::Ride => !attacker.shared.is_empty(),
            Tactic::Scribble => attacker.graph.is_some(),
            Tactic::Submit => attacker.handles.iter().any(|handle| handle.0 == kind::ENGINE),
            _ => true,
        }
    }
}
