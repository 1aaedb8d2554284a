//! Waiting: the one door through which a thread is suspended, and becomes ready again.
//!
//! The consequences for the donees of the thread are settled at the end of the trap (`settling`).

use fusee_abi::Error;
use fusee_abi::call::{DEADLINE, NUMBER};
use fusee_abi::trace::Event;
use fusee_locking::propagation;
use fusee_sched::time::Instant;

use crate::id::{NotificationId, ThreadId};
use crate::object::State;
use crate::{Kernel, Machine, Planted};

impl Kernel {
    //--- The two writers of a thread's state -------------------------------------------------------------

    /// `thread` does not execute from here on. For [`Kernel::block`], and for fast paths, which know the consequences.
    #[inline(always)]
    pub(crate) fn suspend(&mut self, thread: ThreadId, state: State) {
        self.threads[thread].state = state;
    }

    /// `thread` may execute from here on. For [`Kernel::resume`], for boot, and for fast paths, which know the consequences.
    #[inline(always)]
    pub(crate) fn make_ready(&mut self, thread: ThreadId) {
        self.threads[thread].state = State::Ready;
    }

    //--- The door ----------------------------------------------------------------------------------------

    /// `thread` is suspended in `state` from here on, and donates to `donee`. A thread that is suspended already is suspended
    /// for another reason from here on; without a `donee` it donates to the same thread as before.
    #[inline]
    pub(crate) fn block(&mut self, thread: ThreadId, state: State, donee: Option<ThreadId>) {
        debug_assert!(donee != Some(thread), "a thread does not wait for itself");
        self.suspend(thread, state);
        if let Some(donee) = donee {
            propagation::wait_for(self, thread, donee);
        }
        // Settling the thread settles the donee, too.
        self.unsettle(thread);
    }

    /// `thread`, which is not queued anywhere any more, is ready from here on, and donates no longer.
    #[inline(never)]
    pub(crate) fn resume(&mut self, thread: ThreadId) {
        debug_assert!(self.threads[thread].state() != State::Ready, "a thread that is ready waits for nothing");
        self.cancel_timeout(thread);
        self.make_ready(thread);
        self.remove_donor(thread);
        self.unsettle(thread);
    }

    /// Resumes `thread`, and its call returns `result`, if a call is its way of waiting.
    #[inline(never)]
    pub(crate) fn wake<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, result: Result<(), Error>) {
        // A thread that waits with a store makes the store again.
        if self.threads[thread].store().is_some() {
            self.threads[thread].end_store();
        } else {
            machine.registers(thread).general[0] = result.map_or_else(|error| error as u64, |()| 0);
        }
        if matches!(result, Err(Error::TimedOut)) && self.forgets(Planted::DonationOutlastsTheWait) {
            self.make_ready(thread);
            self.unsettle(thread);
        } else {
            self.resume(thread);
        }
        self.trace(machine, Event::Resume, Some(thread), self.cause, 0);
    }

    /// Sets bits of `notification`, and wakes the thread that waits for any.
    pub(crate) fn signal<M: Machine>(&mut self, machine: &mut M, notification: NotificationId, bits: u64) {
        if let Some((waiter, bits)) = self.notifications[notification].post(bits) {
            machine.registers(waiter).general[1] = bits;
            self.wake(machine, waiter, Ok(()));
        }
    }

    /// `thread`, which is suspended for a lock or a token, waits until the deadline in its registers.
    #[inline(never)]
    pub(crate) fn wait_for_lock<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, object: u32) {
        let general = &machine.registers(thread).general;
        let (deadline, number) = (general[DEADLINE], general[NUMBER] as u32);
        self.plan_timeout(thread, Instant(deadline));
        self.trace(machine, Event::Block, Some(thread), object, number);
    }

    /// The death of `thread` has steps left: its timekeeper takes them.
    #[cold]
    pub(crate) fn plan_death<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        if !self.threads[thread].timed {
            self.plan_timeout(thread, machine.now());
        }
    }
}
