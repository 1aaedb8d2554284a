//! Who runs where, who pays, and when to look again.
//!
//! Anything that changes a plan calls [`Kernel::set_runner`] or [`Kernel::set_key`]; those change links and
//! mark CPUs stale. A stale CPU other than the current one is kicked. [`Kernel::leave`] ends every trap: it
//! books the time, picks the linked reservation's runner, and plans the timer.
//!
//! # The hand-over
//!
//! A runner that is still `on` another CPU cannot be taken: that CPU is kicked, and meanwhile the earliest
//! ready reservation runs here, unlinked. The other CPU records the thread `off` as it leaves it, and kicks
//! back. So it is with a reservation that another CPU still runs on: what that CPU used is not booked yet, so
//! nobody knows what is left.

use fusee_abi::trace::{Event, Record};
use fusee_sched::cpu::{CpuId, CpuSet};
use fusee_sched::key::{Class, Key};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{ClusterId, ReservationId, ThreadId};
use crate::object::{Cpu, Overrun, Payer, State};
use crate::{Kernel, Machine, Outcome, Planted};

/// Whether the first event of a queue moved forward: then its timekeeper must set its timer anew. One that
/// moved back costs at most a timer that fires for nothing.
fn earlier(first: Option<Key>, before: Option<Key>) -> bool {
    first.is_some_and(|first| before.is_none_or(|before| first < before))
}

impl Kernel {
    //--- Plans -------------------------------------------------------------------------------------------

    /// This CPU's plan may have changed. The current CPU looks again by itself; others are kicked.
    pub(crate) fn mark_stale(&mut self, cpu: CpuId) {
        let is_lost = self.forgets(Planted::KickIsLost);
        let state = &mut self.cpus[cpu];
        if !state.stale {
            state.stale = true;
            if !is_lost {
                self.kicks.insert(cpu);
            }
        }
    }

    /// Makes `runner` the one thread that runs on `reservation`, which competes exactly while it has one.
    pub(crate) fn set_runner(&mut self, reservation: ReservationId, runner: Option<ThreadId>) {
        let object = &mut self.reservations[reservation];
        let before = object.runner;
        if before == runner {
            return;
        }
        object.runner = runner;
        let rested = before.is_none() && object.rests != Instant::NEVER;
        if rested {
            self.end_rest(reservation);
        }
        let object = &mut self.reservations[reservation];
        if object.boosted {
            // A boost is for the one runner.
            self.set_boosted(reservation, false);
        }
        let object = &self.reservations[reservation];
        let (Some(cluster), key) = (object.cluster, object.key) else { return };
        let id = reservation.index() as u16;
        let schedule = &mut self.clusters[cluster].schedule;
        let changed = match (before, runner) {
            (None, Some(thread)) => {
                let state = &self.threads[thread];
                schedule.insert(id, key, state.on.or(state.last))
            }
            (Some(_), None) => schedule.remove(id),
            _ => schedule.link_of(id),
        };
        if runner.is_none() {
            self.begin_rest(reservation);
        }
        if let Some(cpu) = changed {
            self.mark_stale(cpu);
        }
        for thread in [before, runner].into_iter().flatten() {
            if let Some(cpu) = self.threads[thread].on {
                self.mark_stale(cpu);
            }
        }
    }

    /// Gives `reservation` a new key.
    #[inline(never)]
    pub(crate) fn set_key(&mut self, reservation: ReservationId, key: Key) {
        self.reservations[reservation].key = key;
        self.compete(reservation);
        self.base_key_changes(reservation);
    }

    /// The base key of a job of `reservation` has changed: its requests for tokens, and its place among the jobs of a cluster
    /// that shares a pool, are ordered by the new one.
    fn base_key_changes(&mut self, reservation: ReservationId) {
        let Some(home) = self.reservations[reservation].home else { return };
        if self.threads[home].crosses {
            self.job_key_changes(home);
        }
        if self.threads[home].requests != 0 {
            self.change_base_key(home);
        }
    }

    /// Boosts `reservation`, which competes, or ends its boost.
    #[cold]
    pub(crate) fn set_boosted(&mut self, reservation: ReservationId, boosted: bool) {
        let object = &mut self.reservations[reservation];
        object.boosted = boosted;
        // The CPU's timer tells when a boost ends.
        let on = object.on;
        self.compete(reservation);
        if let Some(cpu) = on {
            self.mark_stale(cpu);
        }
    }

    /// Lets `reservation` compete with the key it has now, if it competes.
    fn compete(&mut self, reservation: ReservationId) {
        let object = &self.reservations[reservation];
        let (Some(cluster), key) = (object.cluster, object.competing_key()) else { return };
        let id = reservation.index() as u16;
        let schedule = &mut self.clusters[cluster].schedule;
        if schedule.contains(id)
            && let Some(cpu) = schedule.change_key(id, key)
        {
            self.mark_stale(cpu);
        }
    }

    /// The key of a job of `reservation` released at `release`, by its cluster's policy.
    pub(crate) fn job_key(&self, reservation: ReservationId, release: Instant) -> Key {
        let object = &self.reservations[reservation];
        Key::real_time(object.point.of_job(release), object.tie)
    }

    /// The last place in the queue of a service or background reservation.
    pub(crate) fn next_turn(&mut self, class: Class, reservation: ReservationId) -> Key {
        self.turns += 1;
        Key::in_turn(class, self.turns, self.reservations[reservation].tie)
    }

    //--- Time --------------------------------------------------------------------------------------------

    /// Books the time since the last mark to whoever pays on `cpu`, and throttles a budget that ran dry.
    pub(crate) fn charge<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, now: Instant) {
        let state = &mut self.cpus[cpu];
        let span = now.since(state.mark);
        state.mark += span;
        match state.payer {
            Payer::Idle => state.idle += span,
            Payer::Kernel => state.kernel += span,
            Payer::Reservation(reservation) => {
                state.charged += span;
                if let Some(thread) = state.current {
                    self.threads[thread].statistics.time += span;
                }
                if state.boosted {
                    self.charge_boost(cpu, reservation, span);
                }
                let object = &mut self.reservations[reservation];
                object.charged += span;
                let excess = object.account.charge(span);
                object.overshoot = object.overshoot.max(excess);
                if object.account.is_dry() && !object.throttled {
                    self.exhaust(machine, reservation, now);
                }
            }
        }
    }

    /// `payer` pays for the trap in progress, which has been booked to the kernel: a timer interrupt that its thread has asked for.
    /// Otherwise a task could have others wait for as many interrupts as it likes.
    #[inline(never)]
    fn bill<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, payer: ReservationId, now: Instant) {
        let span = now.since(self.now);
        let state = &mut self.cpus[cpu];
        state.kernel = state.kernel.saturating_sub(span);
        state.charged += span;
        self.reservations[payer].charged += span;
        self.draw_from(machine, payer, span);
    }

    /// Draws engine time from the budget of `reservation`. As of CPU time, the excess is debt.
    #[cold]
    pub(crate) fn charge_engine<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, held: Nanoseconds) {
        self.draw_from(machine, reservation, held);
    }

    /// Takes `time` that did not pass on a CPU as that of its runner from the budget of `reservation`.
    fn draw_from<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, time: Nanoseconds) {
        let object = &mut self.reservations[reservation];
        let excess = object.account.charge(time);
        object.overshoot = object.overshoot.max(excess);
        let exhausted = object.account.is_dry() && !object.throttled;
        if let Some(cpu) = object.on {
            // Its timer tells when the budget ends.
            self.mark_stale(cpu);
        }
        if exhausted {
            let now = machine.now();
            self.exhaust(machine, reservation, now);
        }
    }

    /// Takes `span` from the boost of what runs on `cpu`.
    #[cold]
    fn charge_boost(&mut self, cpu: CpuId, reservation: ReservationId, span: Nanoseconds) {
        let Some(thread) = self.cpus[cpu].current else { return };
        if self.forgets(Planted::BoostHasNoEnd) {
            return;
        }
        let boost = &mut self.threads[thread].boost;
        // A boost ends by the timer, as a budget does: the excess is debt here, too.
        boost.charge(span);
        if boost.is_dry() && self.reservations[reservation].boosted {
            self.set_boosted(reservation, false);
        }
    }

    /// `reservation` has no budget left.
    #[inline(never)]
    fn exhaust<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, now: Instant) {
        let object = &mut self.reservations[reservation];
        if let Some(home) = object.home
            && self.threads[home].state == State::Stopped
        {
            // Its CPU has yet to hear of it. The dead have no next period.
            object.throttled = true;
            return;
        }
        let (class, home) = (object.class, object.home);
        if class == Class::RealTime && self.goes_on(reservation, now) {
            return;
        }
        let object = &mut self.reservations[reservation];
        object.throttles += 1;
        if self.forgets(Planted::ExhaustionRefills) && class == Class::RealTime {
            self.reservations[reservation].account.restart(now);
            return;
        }
        let object = &mut self.reservations[reservation];
        let excess = object.account.debt;
        if class == Class::Background {
            // Nothing is promised to background work: its budget is only its time slice.
            object.account.restart(now);
            let key = self.next_turn(class, reservation);
            self.set_key(reservation, key);
            if let Some(home) = home {
                self.settle(home);
            }
            return;
        }
        let overrun = object.overrun;
        if let Some(thread) = home
            && self.threads[thread].job.active
        {
            let job = &mut self.threads[thread].job;
            job.overruns = job.overruns.saturating_add(1);
            job.signalled |= overrun == Overrun::Signal;
            if overrun == Overrun::EarlyRelease && self.release_early(machine, reservation, thread) {
                self.settle_refilled(thread, reservation);
                return;
            }
        }
        let object = &mut self.reservations[reservation];
        object.throttled = true;
        object.replenish_at =
            object.account.next_refill(now).min(if now < self.start { self.start } else { Instant::NEVER });
        self.forget_rest(reservation);
        self.plan_event(reservation);
        self.trace(machine, Event::Throttle, home, u32::from(reservation.number()), excess.0 as u32);
        if let Some(thread) = home {
            self.settle(thread);
        }
        // Whoever runs on it now must stop, even where the rule names no successor.
        if let Some(runner) = self.reservations[reservation].runner {
            self.settle(runner);
        }
        self.base_key_changes(reservation);
    }

    /// Whether something has come back of what a real-time `reservation` used, by the time that it has nothing left: then it goes on, with
    /// the key of a job released when it came back; but one that lags behind by more than a period, with that of a job released now.
    fn goes_on(&mut self, reservation: ReservationId, now: Instant) -> bool {
        let account = &mut self.reservations[reservation].account;
        let at = account.next_refill(Instant::ZERO);
        if at > now {
            return false;
        }
        account.resume(if now.since(at) > account.period { now } else { at });
        let (release, is_dry) = (account.release, account.is_dry());
        if is_dry {
            return false;
        }
        let key = self.job_key(reservation, release);
        self.set_key(reservation, key);
        if let Some(home) = self.reservations[reservation].home {
            self.settle(home);
        }
        true
    }

    /// Refills `reservation` at `at`; a new deadline follows, as of a sporadic server. At the start of the system it starts over.
    pub(crate) fn replenish<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, at: Instant) {
        let object = &mut self.reservations[reservation];
        object.replenish_at = Instant::NEVER;
        let was_throttled = object.throttled;
        if at == self.start && object.account.release < at {
            object.account.restart(at);
        }
        object.account.resume(at);
        let release = object.account.release;
        let home = object.home;
        if object.account.is_dry() {
            // All of it went into debt: the next one, then.
            object.throttled = true;
            object.replenish_at = object.account.next_refill(at);
            self.plan_event(reservation);
            return;
        }
        object.throttled = false;
        let class = object.class;
        let key = if class == Class::RealTime {
            self.job_key(reservation, release)
        } else {
            self.next_turn(class, reservation)
        };
        if !self.forgets(Planted::ReplenishmentKeepsTheKey) {
            self.set_key(reservation, key);
        }
        self.plan_event(reservation);
        if was_throttled {
            self.trace(machine, Event::Replenish, home, u32::from(reservation.number()), 0);
        }
        if let Some(thread) = home {
            if was_throttled && self.threads[thread].crosses && self.threads[thread].job.active {
                self.job_begins(thread);
            }
            self.settle_refilled(thread, reservation);
        }
    }

    /// Settles `thread`, whose `reservation` has budget again or has a new job.
    pub(crate) fn settle_refilled(&mut self, thread: ThreadId, reservation: ReservationId) {
        self.settle(thread);
        if self.reservations[reservation].runner.is_none() {
            self.begin_rest(reservation);
        }
    }

    /// Queues the next release or replenishment of `reservation`, whichever is earlier.
    pub(crate) fn plan_event(&mut self, reservation: ReservationId) {
        let object = &self.reservations[reservation];
        let at = object.next_release.min(object.replenish_at);
        let Some(cluster) = object.cluster else { return };
        let queue = &mut self.clusters[cluster].events;
        let before = queue.first().map(|event| event.0);
        let id = reservation.index() as u16;
        if at == Instant::NEVER {
            queue.remove(id);
        } else {
            queue.insert(id, Key::at(at));
        }
        if earlier(queue.first().map(|event| event.0), before) {
            self.mark_stale(self.clusters[cluster].timekeeper);
        }
    }

    /// Wakes `thread` at `deadline` unless something else does.
    #[inline(never)]
    pub(crate) fn plan_timeout(&mut self, thread: ThreadId, deadline: Instant) {
        let Some(cluster) = self.threads[thread].cluster else { return };
        if deadline >= Cpu::FIRED {
            // An instant beyond all others is never reached, nor is the one that marks a timer as fired.
            return;
        }
        self.threads[thread].timed = true;
        self.queue_timeout(cluster, thread.index() as u16, deadline);
    }

    /// Queues an event with the timeouts of `cluster`.
    #[inline(never)]
    pub(crate) fn queue_timeout(&mut self, cluster: ClusterId, event: u16, at: Instant) {
        let queue = &mut self.clusters[cluster].timeouts;
        let before = queue.first().map(|event| event.0);
        queue.insert(event, Key::at(at));
        if earlier(queue.first().map(|event| event.0), before) {
            self.mark_stale(self.clusters[cluster].timekeeper);
        }
    }

    /// Takes back what [`Kernel::plan_timeout`] planned. The timekeeper's timer may fire for nothing.
    pub(crate) fn cancel_timeout(&mut self, thread: ThreadId) {
        if !self.threads[thread].timed {
            return;
        }
        self.threads[thread].timed = false;
        if let Some(cluster) = self.threads[thread].cluster {
            self.clusters[cluster].timeouts.remove(thread.index() as u16);
        }
    }

    /// The timer of `cpu` fired: a budget may be dry (already booked), and events of its cluster may be due.
    pub(crate) fn timer<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, now: Instant) {
        let Some(cluster) = self.cpus[cpu].cluster else { return };
        if self.clusters[cluster].timekeeper != cpu {
            return;
        }
        // One: the rest waits for the next trap, which follows at once.
        self.next_event(machine, cluster, now);
    }

    /// Handles one event of `cluster` that is due, if there is one.
    fn next_event<M: Machine>(&mut self, machine: &mut M, cluster: ClusterId, now: Instant) {
        let object = &mut self.clusters[cluster];
        if let Some((key, id)) = object.events.first()
            && key.instant() <= now
        {
            object.events.remove(id);
            if let Some(reservation) = ReservationId::new(usize::from(id)) {
                self.reservation_event(machine, reservation, now);
            }
        } else if let Some((key, id)) = object.timeouts.first()
            && key.instant() <= now
        {
            object.timeouts.remove(id);
            if usize::from(id) >= self.counts.threads {
                self.look(machine, id, now);
            } else if let Some(thread) = ThreadId::new(usize::from(id)) {
                self.threads[thread].timed = false;
                if self.threads[thread].state == State::Stopped {
                    self.go_on_dying(machine, thread, now);
                } else {
                    self.billed = self.threads[thread].home;
                    self.time_out(machine, thread);
                }
            }
        }
    }

    fn reservation_event<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, now: Instant) {
        let object = &self.reservations[reservation];
        let (release, replenish) = (object.next_release, object.replenish_at);
        if release <= now {
            self.planned_release(machine, reservation, release);
        }
        // A job that starts with a release is refilled by it; then nothing is planned any more.
        if replenish <= now && self.reservations[reservation].replenish_at == replenish {
            self.replenish(machine, reservation, replenish);
        }
        self.plan_event(reservation);
    }

    //--- The end of a trap -------------------------------------------------------------------------------

    /// Ends a trap on `cpu`: what to run, when to come back, whom to kick.
    pub(crate) fn leave<M: Machine>(&mut self, machine: &mut M, cpu: CpuId) -> Outcome {
        if !self.cpus[cpu].stale {
            return Outcome { run: self.cpus[cpu].current, timer: None, kick: self.take_kicks(cpu) };
        }
        // 1. Book the time up to here; this may throttle what ran.
        let now = machine.now();
        self.charge(machine, cpu, now);
        if let Some(payer) = self.billed.take() {
            self.bill(machine, cpu, payer, now);
        }
        self.cpus[cpu].stale = false;
        // 2. Hand over.
        let choice = self.choose(cpu);
        let thread = choice.map(|(thread, _)| thread);
        let previous = self.cpus[cpu].current;
        if previous != thread {
            if let Some(old) = previous {
                self.put_off(machine, cpu, old);
            }
            match choice {
                Some((new, reservation)) => {
                    let state = &mut self.threads[new];
                    state.on = Some(cpu);
                    let number = u32::from(reservation.number());
                    self.trace(machine, Event::SwitchTo, Some(new), number, 0);
                }
                None => self.trace(machine, Event::Idle, None, 0, 0),
            }
            self.cpus[cpu].current = thread;
        }
        self.carry(cpu, choice.map(|(_, reservation)| reservation));
        // 3. Who pays from here, and until when.
        let mut boosted = false;
        let (payer, mut next) = match choice {
            Some((thread, reservation)) => {
                let object = &self.reservations[reservation];
                let mut left = object.account.left;
                boosted = object.boosted;
                if boosted {
                    left = left.min(self.threads[thread].boost.left);
                }
                (Payer::Reservation(reservation), now + left)
            }
            None => (Payer::Idle, Instant::NEVER),
        };
        if let Some(cluster) = self.cpus[cpu].cluster {
            next = next.min(self.clusters[cluster].next_event(cpu));
        }
        let state = &mut self.cpus[cpu];
        state.payer = payer;
        state.boosted = boosted;
        let timer = (next != state.armed).then_some(next);
        state.armed = next;
        Outcome { run: thread, timer, kick: self.take_kicks(cpu) }
    }

    fn take_kicks(&mut self, cpu: CpuId) -> CpuSet {
        let mut kicks = core::mem::take(&mut self.kicks);
        kicks.remove(cpu);
        kicks
    }

    /// The runner of the reservation linked to `cpu`; if another CPU still has one of the two, the next choice.
    fn choose(&mut self, cpu: CpuId) -> Option<(ThreadId, ReservationId)> {
        let cluster = self.cpus[cpu].cluster?;
        let schedule = &self.clusters[cluster].schedule;
        let linked = schedule.linked(cpu).and_then(|id| ReservationId::new(usize::from(id)))?;
        let ready = schedule.first_ready().and_then(|id| ReservationId::new(usize::from(id)));
        if let Some(thread) = self.reservations[linked].runner {
            match self.elsewhere(cpu, thread, linked) {
                Some(other) => self.mark_stale(other),
                None => return Some((thread, linked)),
            }
        }
        let reservation = ready?;
        let thread = self.reservations[reservation].runner?;
        self.elsewhere(cpu, thread, reservation).is_none().then_some((thread, reservation))
    }

    /// The other CPU that `thread` is still on, or that still runs on `reservation`.
    fn elsewhere(&self, cpu: CpuId, thread: ThreadId, reservation: ReservationId) -> Option<CpuId> {
        let other = |on: Option<CpuId>| on.filter(|on| *on != cpu);
        other(self.threads[thread].on).or(other(self.reservations[reservation].on))
    }

    /// From here on `cpu` runs on `reservation`. The one it ran on before is booked; who waits for it is told.
    fn carry(&mut self, cpu: CpuId, reservation: Option<ReservationId>) {
        let before = core::mem::replace(&mut self.cpus[cpu].carried, reservation);
        if before == reservation {
            return;
        }
        if let Some(reservation) = reservation {
            self.reservations[reservation].on = Some(cpu);
        }
        let Some(before) = before else { return };
        let object = &mut self.reservations[before];
        object.on = None;
        if object.runner.is_some()
            && let Some(cluster) = object.cluster
            && let Some(wanted) = self.clusters[cluster].schedule.link_of(before.index() as u16)
            && wanted != cpu
        {
            self.mark_stale(wanted);
        }
    }

    /// Records that `old` no longer runs on `cpu`, and tells the CPU that waits for it.
    fn put_off<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, old: ThreadId) {
        self.threads[old].on = None;
        self.threads[old].last = Some(cpu);
        self.trace(machine, Event::SwitchAway, Some(old), 0, 0);
        if self.threads[old].state != State::Ready {
            return;
        }
        if let Some(reservation) = self.threads[old].chosen()
            && self.reservations[reservation].runner == Some(old)
            && let Some(cluster) = self.reservations[reservation].cluster
            && let Some(wanted) = self.clusters[cluster].schedule.link_of(reservation.index() as u16)
            && wanted != cpu
        {
            self.mark_stale(wanted);
        }
    }

    //--- Trace -------------------------------------------------------------------------------------------

    /// Traces an event, if this build traces.
    #[inline(always)]
    pub(crate) fn trace<M: Machine>(
        &self,
        machine: &mut M,
        event: Event,
        thread: Option<ThreadId>,
        object: u32,
        value: u32,
    ) {
        if M::TRACE {
            self.write_record(machine, event, thread, object, value);
        }
    }

    /// A call, so that a build that traces is not much larger than one that does not.
    #[inline(never)]
    fn write_record<M: Machine>(
        &self,
        machine: &mut M,
        event: Event,
        thread: Option<ThreadId>,
        object: u32,
        value: u32,
    ) {
        let time = machine.now().0;
        let job = thread.map_or(0, |thread| self.threads[thread].job.number);
        let thread = thread.map_or(0, ThreadId::number);
        machine.trace(Record { time, event: event as u8, cpu: self.here.0, thread, job, object, value });
    }
}
