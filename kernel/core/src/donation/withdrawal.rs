//! Withdrawal: a thread leaves its queue, because its time is over or its request is refused.

use fusee_abi::Error;
use fusee_locking::engine::State as Lock;

use crate::id::{EngineId, ThreadId};
use crate::machine::Place;
use crate::object::State;
use crate::{Kernel, Machine};

impl Kernel {
    /// Ends, with an error, the wait of one thread that waits for an operation on `engine` to end. Returns whether there was
    /// one.
    #[inline(never)]
    pub(crate) fn refuse_waiter<M: Machine>(&mut self, machine: &mut M, engine: EngineId, error: Error) -> bool {
        let Some(waiter) = self.drain_waiter(engine) else { return false };
        self.withdraw(machine, waiter);
        self.wake(machine, waiter, Err(error));
        true
    }

    /// Ends the wait of one thread that waits for an engine of the dead driver `thread` to drain or to be reset: with the
    /// engine, if it has drained after all, or with an error. The engine may have been quarantined before all waiters were
    /// notified. Returns whether there was a waiter.
    pub(crate) fn fail_drain_waiter<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> bool {
        for engine in (0..self.counts.engines).filter_map(EngineId::new) {
            let object = &self.engines[engine];
            if object.driver() != Some(thread) || matches!(object.lock().state(), Lock::Free | Lock::Held(_)) {
                continue;
            }
            if self.drain_waiter(engine).is_none() {
                continue;
            }
            if let Err(error) = self.drain_for_the_dead(machine, engine) {
                self.refuse_waiter(machine, engine, error);
            }
            return true;
        }
        false
    }

    /// Takes `thread` out of the queue in which it waits, of any kind. The thread is still suspended, and in no queue any
    /// more.
    pub(crate) fn withdraw<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        match self.threads[thread].state() {
            State::Calling(endpoint) => {
                self.endpoints[endpoint].withdraw(thread);
            }
            State::AwaitingReply { server, slot } => {
                // The server may be at work on its loan.
                self.free_slot(machine, server, usize::from(slot), Place::Scratch);
            }
            State::Waiting(notification) => {
                self.notifications[notification].end_wait();
            }
            State::Acquiring(user) => {
                if let Some(engine) = self.engine_users[user].engine() {
                    self.engines[engine].lock_mut().withdraw(user.index() as u16);
                }
            }
            State::AwaitingToken { user, .. } => self.withdraw_request(user),
            State::AwaitingGroup { group, .. } => self.withdraw_group(machine, group, thread),
            State::Dormant
            | State::Ready
            | State::Receiving(_)
            | State::BetweenJobs
            | State::Sleeping
            | State::Donating
            | State::AwaitingTurn { .. }
            | State::Stopped => {}
        }
    }
}
