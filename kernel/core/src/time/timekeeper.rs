//! Timer interrupts: releases, replenishments, timeouts and looks that are due, one a trap.

use fusee_abi::Error;
use fusee_sched::cpu::CpuId;
use fusee_sched::time::Instant;

use crate::id::{ClusterId, ReservationId, ThreadId};
use crate::object::State;
use crate::{Kernel, Machine};

impl Kernel {
    /// The deadline of a blocking call passed.
    pub(crate) fn time_out<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        if let State::AwaitingTurn { user, due: true } = self.threads[thread].state() {
            self.take_turn(machine, thread, user);
            return;
        }
        let result = match self.threads[thread].state() {
            State::Sleeping => Ok(()),
            State::AwaitingToken { refused: true, .. } | State::AwaitingGroup { refused: true, .. } => {
                Err(Error::ChainTooLong)
            }
            _ => Err(Error::TimedOut),
        };
        self.withdraw(machine, thread);
        self.wake(machine, thread, result);
    }

    /// The timer of `cpu` fired: a budget may be exhausted (already booked), and events of its cluster may be due.
    pub(crate) fn timer<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, now: Instant) {
        let Some(cluster) = self.cpus[cpu].cluster() else { return };
        if self.clusters[cluster].timekeeper() != cpu {
            return;
        }
        // One event only: the rest waits for the next trap, which follows at once.
        self.next_event(machine, cluster, now);
    }

    /// Handles one event of `cluster` that is due, if there is one.
    fn next_event<M: Machine>(&mut self, machine: &mut M, cluster: ClusterId, now: Instant) {
        let object = &mut self.clusters[cluster];
        if let Some((key, id)) = object.events().first()
            && key.instant() <= now
        {
            // The event stays in its queue until it is planned anew, at the end of this trap.
            if let Some(reservation) = ReservationId::new(usize::from(id)) {
                self.reservation_event(machine, reservation, now);
            }
        } else if let Some((key, id)) = object.timeouts().first()
            && key.instant() <= now
        {
            object.remove_timeout(id);
            if usize::from(id) >= self.counts.threads {
                self.look(machine, id, now);
            } else if let Some(thread) = ThreadId::new(usize::from(id)) {
                self.threads[thread].end_timeout();
                if self.threads[thread].state() == State::Stopped {
                    self.go_on_dying(machine, thread, now);
                } else {
                    self.billed = self.threads[thread].own();
                    self.time_out(machine, thread);
                }
            }
        }
    }

    fn reservation_event<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, now: Instant) {
        let object = &self.reservations[reservation];
        let (release, replenish) = (object.next_release(), object.replenish_at());
        if release <= now {
            self.planned_release(machine, reservation, release);
        }
        // A job that starts with a release is refilled by it; then nothing is planned any more.
        if replenish <= now && self.reservations[reservation].replenish_at() == replenish {
            self.replenish(machine, reservation, replenish);
        }
        self.event_moves(reservation);
    }
}
