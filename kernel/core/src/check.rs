//! The kernel's invariants, checked in full. For tests and self-checking builds: it walks everything.

use crate::Kernel;
use crate::id::{ReservationId, ThreadId};
use crate::object::{Payer, State};

impl Kernel {
    /// Checks every invariant.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        // `on` is a partial injection between threads and CPUs.
        for cpu in self.cpus() {
            if let Some(thread) = self.cpus[cpu.index()].current
                && self.threads[thread].on != Some(cpu)
            {
                return Err("a CPU's current thread is not on it");
            }
            if let Some(reservation) = self.cpus[cpu.index()].carried
                && self.reservations[reservation].on != Some(cpu)
            {
                return Err("a reservation runs on two CPUs");
            }
        }
        for thread in (0..self.counts.threads).filter_map(ThreadId::new) {
            self.check_thread(thread)?;
        }
        for cluster in self.cluster_ids() {
            self.clusters[cluster].schedule.check()?;
        }
        for reservation in (0..self.counts.reservations).filter_map(ReservationId::new) {
            let object = &self.reservations[reservation];
            if let Some(runner) = object.runner {
                let state = &self.threads[runner];
                if state.state != State::Ready || state.donates_to.is_some() {
                    return Err("a runner that may not run");
                }
                if state.chosen != Some(reservation) {
                    return Err("a runner that chose another reservation");
                }
                if object.throttled {
                    return Err("a runner on a dry reservation");
                }
            }
            if let Some(cluster) = object.cluster
                && self.clusters[cluster].schedule.contains(reservation.index() as u16) != object.runner.is_some()
            {
                return Err("competing and having a runner differ");
            }
        }
        for cpu in self.cpus() {
            let state = &self.cpus[cpu.index()];
            if state.entered && state.charged.0 + state.kernel.0 + state.idle.0 != state.mark.since(state.since).0 {
                return Err("the sum of charges is not the sum of time");
            }
        }
        Ok(())
    }

    /// Checks what holds once no kick is on its way: every CPU runs what it is linked to, at its expense.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check_settled(&self) -> Result<(), &'static str> {
        for cpu in self.cpus() {
            let state = &self.cpus[cpu.index()];
            let Some(cluster) = state.cluster.filter(|_| state.entered) else { continue };
            let linked = self.clusters[cluster].schedule.linked(cpu).and_then(|id| ReservationId::new(id.into()));
            if linked.and_then(|linked| self.reservations[linked].runner) != state.current {
                return Err("a CPU does not run what it is linked to");
            }
            if state.payer != linked.map_or(Payer::Idle, Payer::Reservation) {
                return Err("what runs is paid by another");
            }
        }
        Ok(())
    }

    fn check_thread(&self, thread: ThreadId) -> Result<(), &'static str> {
        let state = &self.threads[thread];
        if let Some(cpu) = state.on
            && self.cpus[cpu.index()].current != Some(thread)
        {
            return Err("a thread is on a CPU that runs another");
        }
        if state.state == State::Ready && state.donates_to.is_some() {
            return Err("a thread that runs donates");
        }
        if (state.state == State::Ready || state.donates_to.is_some()) && state.chosen != self.best(thread) {
            return Err("the chosen reservation is not the best");
        }
        if state.state == State::Ready
            && let Some(chosen) = state.chosen
            && self.reservations[chosen].runner != Some(thread)
        {
            return Err("a ready thread does not run on what it chose");
        }
        if state.donates_to != self.donee(thread) {
            return Err("a thread donates to another than the one it waits for");
        }
        let mut donors = 0;
        let mut next = state.first_donor;
        while let Some(donor) = next {
            if self.threads[donor].donates_to != Some(thread) {
                return Err("a donor that donates elsewhere");
            }
            donors += 1;
            if donors > self.counts.threads {
                return Err("a ring of donors");
            }
            next = self.threads[donor].next_donor;
        }
        Ok(())
    }

    /// Whom `thread` must donate to, by what it waits for.
    fn donee(&self, thread: ThreadId) -> Option<ThreadId> {
        let state = &self.threads[thread];
        let donee = match state.state {
            State::Calling(endpoint) if !state.sends => self.endpoints[endpoint].server,
            State::AwaitingReply { server, .. } => Some(server),
            State::Waiting(notification) => self.notifications[notification].bound,
            State::Acquiring(user) => self.engine_users[user].engine.and_then(|engine| self.engine_donee(engine)),
            _ => None,
        };
        donee.filter(|donee| *donee != thread)
    }
}
