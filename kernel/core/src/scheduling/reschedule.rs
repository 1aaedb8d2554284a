//! The end of a trap: the time is booked, the linked reservation's runner is picked, the timer is set, other CPUs are kicked.
//!
//! # The hand-over
//!
//! A runner that is still `on` another CPU cannot be taken: that CPU is kicked, and meanwhile the earliest ready
//! reservation runs here, unlinked. The other CPU records the thread `off` as it leaves it, and kicks back. A reservation
//! that another CPU still runs on is treated alike: the time that CPU used is not booked yet, so the budget that is left
//! is not known.

use fusee_abi::trace::Event;
use fusee_sched::cpu::{CpuId, CpuSet};
use fusee_sched::time::Instant;

use crate::id::{ReservationId, ThreadId};
use crate::object::{Payer, State};
use crate::{Kernel, Machine, Outcome};

impl Kernel {
    /// Ends a trap on `cpu`: settles its changes, and returns the thread to run, the setting of the timer, and the CPUs to
    /// kick.
    pub(crate) fn reschedule<M: Machine>(&mut self, machine: &mut M, cpu: CpuId) -> Outcome {
        // 1. Book the time up to here; this may throttle the running reservation. Then all inputs of the choice are known.
        let now = machine.now();
        self.charge(machine, cpu, now);
        if let Some(payer) = self.billed.take() {
            self.bill(machine, cpu, payer, now);
        }
        if !self.is_settled() {
            self.settle();
        }
        self.count_all();
        if !self.cpus[cpu].needs_reschedule() {
            return self.go_on(cpu);
        }
        self.cpus[cpu].end_reschedule();
        // 2. Hand over.
        let choice = self.choose(cpu);
        let thread = choice.map(|(thread, _)| thread);
        let previous = self.cpus[cpu].current();
        if previous != thread {
            if let Some(old) = previous {
                self.put_off(machine, cpu, old);
            }
            match choice {
                Some((new, reservation)) => {
                    self.threads[new].enter(cpu);
                    self.trace_run(machine, Event::SwitchTo, new, reservation);
                }
                None => self.trace(machine, Event::Idle, None, 0, 0),
            }
            self.cpus[cpu].set_current(thread);
        } else if M::TRACE.keeps_schedule()
            && let Some((thread, reservation)) = choice
            && self.cpus[cpu].running() != Some(reservation)
        {
            self.trace_run(machine, Event::RunOn, thread, reservation);
        }
        self.run_on(cpu, choice.map(|(_, reservation)| reservation));
        // 3. Find the account that pays from here on, and the limit of its time.
        let mut boosted = false;
        let (payer, mut next) = match choice {
            Some((thread, reservation)) => {
                let object = &self.reservations[reservation];
                let mut left = object.account().left;
                boosted = object.is_boosted();
                if boosted {
                    left = left.min(self.boosts[thread].left);
                }
                (Payer::Reservation(reservation), now + left)
            }
            None => (Payer::Idle, Instant::NEVER),
        };
        if let Some(cluster) = self.cpus[cpu].cluster() {
            next = next.min(self.clusters[cluster].next_event(cpu));
        }
        let timer = self.cpus[cpu].leave_kernel(payer, boosted, next);
        Outcome { run: thread, timer, kick: self.take_kicks(cpu) }
    }

    /// Ends a trap on `cpu` that has changed nothing there.
    #[inline]
    pub(crate) fn go_on(&mut self, cpu: CpuId) -> Outcome {
        Outcome { run: self.cpus[cpu].current(), timer: None, kick: self.take_kicks(cpu) }
    }

    fn take_kicks(&mut self, cpu: CpuId) -> CpuSet {
        let mut kicks = core::mem::take(&mut self.kicks);
        kicks.remove(cpu);
        kicks
    }

    /// The runner of the reservation linked to `cpu`; if another CPU still has one of the two, the next choice.
    fn choose(&mut self, cpu: CpuId) -> Option<(ThreadId, ReservationId)> {
        let cluster = self.cpus[cpu].cluster()?;
        let schedule = &self.clusters[cluster].schedule;
        let linked = schedule.linked(cpu).and_then(|id| ReservationId::new(usize::from(id)))?;
        let ready = schedule.first_ready().and_then(|id| ReservationId::new(usize::from(id)));
        if let Some(thread) = self.reservations[linked].runner() {
            match self.elsewhere(cpu, thread, linked) {
                Some(other) => self.request_reschedule(other),
                None => return Some((thread, linked)),
            }
        }
        let reservation = ready?;
        let thread = self.reservations[reservation].runner()?;
        self.elsewhere(cpu, thread, reservation).is_none().then_some((thread, reservation))
    }

    /// The other CPU that `thread` is still on, or that still runs on `reservation`.
    fn elsewhere(&self, cpu: CpuId, thread: ThreadId, reservation: ReservationId) -> Option<CpuId> {
        let other = |on: Option<CpuId>| on.filter(|on| *on != cpu);
        other(self.threads[thread].on()).or(other(self.reservations[reservation].on()))
    }

    /// From here on `cpu` runs on `reservation`. The reservation before has been booked; the CPU to which it is linked is
    /// kicked.
    fn run_on(&mut self, cpu: CpuId, reservation: Option<ReservationId>) {
        let before = self.cpus[cpu].run_on(reservation);
        if before == reservation {
            return;
        }
        if let Some(reservation) = reservation {
            debug_assert!(self.reservations[reservation].on().is_none(), "a reservation runs on one CPU");
            self.reservations[reservation].enter(cpu);
        }
        let Some(before) = before else { return };
        let object = &mut self.reservations[before];
        object.leave();
        if object.runner().is_some()
            && let Some(cluster) = object.cluster()
            && let Some(wanted) = self.clusters[cluster].schedule.link_of(before.index() as u16)
            && wanted != cpu
        {
            self.request_reschedule(wanted);
        }
    }

    /// Records that `old` no longer runs on `cpu`, and kicks the CPU that waits for it.
    fn put_off<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, old: ThreadId) {
        self.threads[old].leave(cpu);
        self.trace(machine, Event::SwitchAway, Some(old), 0, 0);
        if self.threads[old].state() != State::Ready {
            return;
        }
        if let Some(reservation) = self.threads[old].chosen()
            && self.reservations[reservation].runner() == Some(old)
            && let Some(cluster) = self.reservations[reservation].cluster()
            && let Some(wanted) = self.clusters[cluster].schedule.link_of(reservation.index() as u16)
            && wanted != cpu
        {
            self.request_reschedule(wanted);
        }
    }
}
