//! The end of a thread: it runs no more, all threads that waited for it are notified, and its engines and tokens are
//! released in order.
//!
//! A thread ends by `exit`, by a fault, or because another thread stops it, at any instant and wherever it runs. The trap
//! of its end does the urgent part at once, in constant time but for the queue in which the thread stood:
//!
//! 1. The thread is dead: it waits nowhere, lends no reservation, runs on none, and has no more releases. If it is on
//!    another CPU, that CPU is kicked and leaves it. Until then a call or a fault of the dead thread does nothing but
//!    enter the kernel, and the time is charged to its reservation, as before.
//! 2. The thread's addresses are invalid everywhere. So it stores nothing more, even before the kick arrives, and faults
//!    instead.
//!
//! All further work is a row of steps, each of which gives one engine or token back or ends one thread's wait:
//!
//! 3. Engines that the thread held go to the next in line, or drain; so do tokens, which never drain. Then three kinds of
//!    waiters go on, with `PeerDied`: clients to which it owes a reply, callers that queue, and waiters for a
//!    notification that it would have signalled. Then waiters for a draining engine that the thread drove: see below.
//!
//! The trap takes [`TOLD_AT_DEATH`] steps. If more are left, the dead thread is queued with the timeouts of its cluster,
//! as due now. The timekeeper takes the other steps, behind all events that were due before, one event a trap as ever.
//!
//! # Invariants
//!
//! 1. No thread runs on the reservation of a dead thread, nor on one that is lent to it: a thread that waits for a dead
//!    one is as if it waited for a thread that sleeps.
//! 2. While a thread waits for the dead one, or it holds an engine or a token, the dead one is queued.
//! 3. No thread begins to wait for a dead one, except for an engine or token that the dead one has yet to give back.
//!
//! # Why the timekeeper, and not the caller of `stop` again and again
//!
//! `exit` and faults have no caller to go on, and a thread that stops another may run out of budget, or be stopped
//! itself, and leave the rest undone. The caller would also pay for clients it has never heard of. So all three ends are
//! one, and a death with many clients costs as much as an equal number of timeouts at one instant.
//!
//! # Drivers
//!
//! A line that is not acknowledged stays silent, so an engine that drains after its driver's death has no thread that
//! reports its end. The waiters of the engine are notified, and so is any thread that requests it; unless it has drained
//! by then, which is looked up.
//!
//! Not here: the time after the end (`lives`). A handle to a dead task stays, and calls by it return `PeerDied`. Reply
//! tokens have generations, and those that the dead thread gave or held are void.

use fusee_abi::Error;
use fusee_abi::call::{ending, rights};
use fusee_abi::trace::Event;
use fusee_sched::time::Instant;

use crate::id::ThreadId;
use crate::limits::{ENDPOINTS, ENGINE_USERS, GATES, NOTIFICATIONS, POOLS_PER_TASK, RESTARTS, TOLD_AT_DEATH};
use crate::machine::Place;
use crate::object::{Release, State};
use crate::{Fault, Kernel, Machine};

impl Kernel {
    //--- Three ways to end -------------------------------------------------------------------------------

    /// Handles a thread's access that is not allowed: its registers are traced, and it alone stops. An access that failed
    /// only because another CPU took back a loan of the thread at that moment is made again, and a store may be a request
    /// (see `stores`).
    pub(crate) fn fault<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, fault: Fault) {
        if machine.has_passed(thread, &fault) || GATES && self.is_request(machine, thread, &fault) {
            return;
        }
        self.threads[thread].count_fault();
        let what = (fault.kind as u64) | u64::from(self.threads[thread].job().number()) << 32;
        self.trace_number(machine, Event::Fault, Some(thread), fault.syndrome as u32, what);
        if M::TRACE.keeps_schedule() {
            let registers = *machine.registers(thread);
            let rest = [registers.stack, registers.program_counter, registers.state, fault.address.unwrap_or(u64::MAX)];
            for (number, value) in registers.general.iter().chain(rest.iter()).enumerate() {
                self.trace_number(machine, Event::FaultRegister, Some(thread), number as u32, *value);
            }
        }
        let address = fault.address.unwrap_or(u64::MAX);
        let words = [fault.syndrome, address, machine.registers(thread).program_counter];
        self.note_end(machine, thread, ending::FAULTED, words);
        self.stop(machine, thread);
    }

    /// `exit` of one task.
    pub(crate) fn exit<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, code: u64) {
        let what = (code & 0xffff_ffff) | u64::from(self.threads[thread].job().number()) << 32;
        self.trace_number(machine, Event::Exit, Some(thread), 0, what);
        self.note_end(machine, thread, ending::EXITED, [code, 0, 0]);
        self.stop(machine, thread);
    }

    /// `stop` of another task, or of the caller. A dead task may be stopped again.
    pub(crate) fn stop_call<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let target = self.task_argument(machine, thread, rights::STOP)?;
        if self.threads[target].state() != State::Stopped {
            self.trace(machine, Event::Stop, Some(target), u32::from(thread.number()), 0);
            self.note_end(machine, target, ending::STOPPED, [u64::from(thread.number()), 0, 0]);
            self.stop(machine, target);
        }
        Ok(())
    }

    //--- The end -----------------------------------------------------------------------------------------

    /// Ends `thread`, which may be on any CPU. Its registers are not touched.
    #[cold]
    fn stop<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        if RESTARTS && self.lives[thread].is_vital {
            self.book_all(machine);
            machine.give_up("the supervisor has ended");
        }
        self.cancel_timeout(thread);
        self.withdraw(machine, thread);
        self.block(thread, State::Stopped, None);
        self.remove_donor(thread);
        let state = &mut self.threads[thread];
        state.job_mut().abandon();
        let (on, own) = (state.on(), state.own());
        if let Some(cpu) = on {
            self.request_reschedule(cpu);
        }
        self.drop_handles(thread);
        if self.threads[thread].jobs_are_recorded() {
            self.job_ends(thread);
        }
        if let Some(reservation) = own {
            self.end_early(machine, reservation);
            let object = &mut self.reservations[reservation];
            object.plan_nothing();
            object.set_release(Release::None);
            self.leave_rest(reservation);
            self.event_moves(reservation);
        }
        machine.close_space(thread);
        for _ in 0..TOLD_AT_DEATH {
            if !self.die(machine, thread) {
                self.end_is_told(machine, thread);
                return;
            }
        }
        self.plan_death(machine, thread);
    }

    /// Takes one more step of the death of `thread`, which had its turn at `now`.
    #[cold]
    pub(crate) fn go_on_dying<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, now: Instant) {
        if self.die(machine, thread) {
            self.plan_timeout(thread, now);
        } else {
            self.end_is_told(machine, thread);
        }
    }

    /// Takes one step of the death of `thread`. Returns whether there was any step left.
    fn die<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> bool {
        debug_assert!(self.threads[thread].state() == State::Stopped, "a thread that dies is stopped");
        for _ in 0..ENGINE_USERS {
            let Some(user) = self.threads[thread].uses() else { break };
            self.threads[thread].pass_engine(self.engine_users[user].next());
            if let Some(engine) = self.engine_users[user].engine()
                && self.give_back(machine, engine, user).is_ok()
            {
                return true;
            }
        }
        for _ in 0..POOLS_PER_TASK {
            let Some(user) = self.threads[thread].tokens() else { break };
            self.threads[thread].pass_pool(self.pool_users[user].next());
            let held = self.release_token(machine, user).is_ok();
            if let Some(pool) = self.pool_users[user].pool() {
                self.advisers.exited(pool, user.index() as u16);
            }
            if held {
                return true;
            }
        }
        let Some(waiter) = self.take_waiter(machine, thread) else { return self.fail_drain_waiter(machine, thread) };
        self.wake(machine, waiter, Err(Error::PeerDied));
        true
    }

    /// Takes one thread that waits for a reply, a service or a signal of the dead `thread` out of its queue.
    fn take_waiter<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Option<ThreadId> {
        if let Some(slot) = self.threads[thread].first_taken_slot() {
            return self.free_slot(machine, thread, slot, Place::Empty);
        }
        for _ in 0..ENDPOINTS {
            let Some(endpoint) = self.threads[thread].serves() else { break };
            if let Some(caller) = self.endpoints[endpoint].take_last() {
                return Some(caller);
            }
            self.threads[thread].pass_endpoint(self.endpoints[endpoint].next());
        }
        for _ in 0..NOTIFICATIONS {
            let notification = self.threads[thread].signals()?;
            self.threads[thread].pass_notification(self.notifications[notification].next());
            if let Some(waiter) = self.notifications[notification].end_wait() {
                return Some(waiter);
            }
        }
        None
    }
}
