//! Waiting: a thread is suspended for a lock, and becomes ready again.
//!
//! Whoever becomes ready has its rest settled first: a reservation that was suspended for too long gets another key ([`resting`](crate::resting)).

use fusee_abi::Error;
use fusee_abi::call::{DEADLINE, NUMBER};
use fusee_abi::trace::Event;
use fusee_sched::cpu::CpuId;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::donation::number;
use crate::id::{ReservationId, ThreadId};
use crate::object::State;
use crate::resting::TRIFLE;
use crate::{Kernel, Machine, Planted};

/// How many reservations a thread may try before it runs on one whose key changes a nanosecond later.
const RENEWALS: usize = 3;

impl Kernel {
    /// The death of `thread` has steps left: its timekeeper takes them.
    #[cold]
    pub(crate) fn plan_death<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        if !self.threads[thread].timed {
            self.plan_timeout(thread, machine.now());
        }
    }

    /// `thread`, whose state says for which, suspends for a lock or a token.
    #[inline(never)]
    pub(crate) fn suspend_for_lock<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId, object: u32) {
        let general = &machine.registers(thread).general;
        let (deadline, number) = (general[DEADLINE], general[NUMBER] as u32);
        self.plan_timeout(thread, Instant(deadline));
        self.trace(machine, Event::Block, Some(thread), object, number);
        self.cpus[cpu].stale = true;
        self.settle(thread);
    }

    /// `thread`, which waits for nothing any more, becomes ready with this result.
    #[inline(never)]
    pub(crate) fn wake<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, result: Result<(), Error>) {
        self.cancel_timeout(thread);
        machine.registers(thread).general[0] = result.map_or_else(|error| error as u64, |()| 0);
        self.threads[thread].state = State::Ready;
        self.trace(machine, Event::Resume, Some(thread), 0, 0);
        let timed_out = matches!(result, Err(Error::TimedOut)) && self.forgets(Planted::DonationOutlastsTheWait);
        let target = if timed_out { None } else { self.remove_donor(thread) };
        self.renew_rested(thread);
        // First it takes back, so that what it lent stays where it is linked; then the one it lent to lets go.
        self.settle(thread);
        if let Some(target) = target {
            self.settle_living(target);
        }
    }

    /// Before `thread`, which has become ready, chooses what it runs on: what it would choose is renewed if it has rested for too
    /// long, until what it would choose has not. To be called where a whole operation is over, and the thread is settled next.
    #[inline(never)]
    pub(crate) fn renew_rested(&mut self, thread: ThreadId) {
        for _ in 0..RENEWALS {
            let chosen = fusee_locking::propagation::choose(self, number(thread));
            let Some(reservation) = chosen.and_then(|chosen| ReservationId::new(usize::from(chosen))) else { return };
            let since = self.reservations[reservation].rests;
            let is_lent = self.reservations[reservation].home != Some(thread);
            let may_owe = if is_lent { TRIFLE } else { Nanoseconds::ZERO };
            if since == Instant::NEVER || self.owed(reservation, since) <= may_owe {
                return;
            }
            self.renew(reservation);
            match self.reservations[reservation].home {
                Some(home) if home != thread => self.settle(home),
                _ => return,
            }
        }
    }

    /// `reservation`, which rests, is as if it were released now, with what is left.
    #[inline(never)]
    fn renew(&mut self, reservation: ReservationId) {
        self.leave_rest(reservation);
        let now = self.now;
        self.reservations[reservation].account.resume(now);
        let key = self.job_key(reservation, self.reservations[reservation].account.release);
        if !self.forgets(Planted::AnySuspensionKeepsTheKey) {
            self.set_key(reservation, key);
        }
        // With another key it may have been chosen meanwhile.
        if self.reservations[reservation].runner.is_none() {
            self.begin_rest(reservation);
        }
    }
}
