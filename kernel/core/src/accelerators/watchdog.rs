//! The watchdog: an engine that is not idle and given back in time is taken away, reset, and if need be given up.
//!
//! One timer event of the cluster of its users belongs to each watched engine, a *look*. A look is planned with the first
//! grant and not taken back: if it finds a newer grant, it plans the next look; if it finds the engine free, it plans
//! none. So grants and releases do not pay for looks, and a look comes as punctually as if it were set with each grant.
//!
//! A look that comes `watchdog` after the grant finds
//!
//! 1. an idle engine: its interrupt was lost, or its holder holds it for too long. The lock goes to the next in line.
//! 2. a busy one: its holder is released by force, and the driver is asked for a reset. The driver runs on key and budget
//!    of the holder, if the holder waits for the driver's signal, and of all threads that wait for the engine.
//!    `engine_complete` ends the reset.
//!
//! For the class of clients without a lock the look comes `shared_longest` after the gate was shut, and finds an engine
//! that drains (`gates`).
//!
//! In both cases the driver is notified as if the line had fired, since the interrupt may have been lost.
//!
//! A task that loses an engine while it holds it may be blameless, for instance because it was preempted for too long. So
//! its next store to the doorbell is no fault. Memory of the task's own takes the doorbell's place
//! (`Machine::replace_doorbell`), until it releases the engine, with `EngineLost` as the result, or asks for it again, or
//! dies.
//!
//! A reset takes a driver `reset_bound` at most, unless it waits for a CPU. So a look comes after each `reset_bound`, or millisecond
//! if that is longer. If it finds that
//! the driver has slept since the look before, or has had a CPU for `reset_bound` since then, the engine is *quarantined*. Its waiters get `EngineLost`, one
//! a look, and any task that requests it gets `EngineLost` at once. A reset that is completed after all ends the quarantine. A driver that
//! others keep from its CPU costs no task the engine: each task that waits for the engine lends to the driver, so its own bound has that time in it.
//!
//! # Invariants
//!
//! 1. While a watched engine is not free, a look at it is planned, for `watchdog` after the grant at the latest; while
//!    its lock is quarantined, as long as there are waiters.
//! 2. An engine is `unwatched` if the next grant must plan a look, or move the one that has come to be about a reset.
//!
//! # What cannot be enforced
//!
//! The device alone reports that an engine is idle. The probe compares the number of commands that the client has
//! submitted with the numbers that the device has seen and retired. The client, whose doorbell is out of reach by then,
//! can only make the first differ from the others. Such an engine looks busy, and the client pays until the watchdog. But
//! a device that counts too early lets the next holder in while it works. The device cannot reach memory of others by
//! that, for it translates addresses of each client by themselves; but the next holder's time is not its own.
//!
//! Source: ours. GPUSync's authors leave recovery open (Elliott 2015, section 3.2).

use fusee_abi::Error;
use fusee_abi::call::rights;
use fusee_abi::trace::Event;
use fusee_locking::engine::State as Lock;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::accelerators::gates::SHARED;
use crate::id::{EngineId, ThreadId, user_of};
use crate::limits::{GATES, THREADS, WATCHDOGS};
use crate::object::{Object, State};
use crate::{Kernel, Machine, Planted};

/// The least time between two looks at a driver that is at a reset.
const PAUSE: Nanoseconds = Nanoseconds(1_000_000);

impl Kernel {
    /// The look with this number is due.
    #[inline(never)]
    pub(crate) fn look<M: Machine>(&mut self, machine: &mut M, event: u16, now: Instant) {
        if !WATCHDOGS {
            return;
        }
        let number = (THREADS - 1).saturating_sub(usize::from(event));
        if number >= self.counts.engines {
            self.look_at_tokens(machine, event, now);
            return;
        }
        let Some(engine) = EngineId::new(number) else {
            impossible!("a number below that of engines names one");
            return;
        };
        let object = &mut self.engines[engine];
        let until = object.end_watch();
        let state = object.lock().state();
        let (Lock::Held(user) | Lock::Draining(user) | Lock::Resetting(user) | Lock::Quarantined(user)) = state else {
            return;
        };
        let of_class = GATES && user == SHARED;
        let (until, of_cluster) = match user_of(user) {
            Some(user) => (until, user),
            // The class holds the engine for as long as no user wants it.
            None if matches!(state, Lock::Held(_)) => return,
            None => {
                let gate = self.gates[engine];
                let Some(user) = gate.user() else { return };
                (object.granted() + gate.longest(), user)
            }
        };
        let next = match state {
            Lock::Held(_) | Lock::Draining(_) if now < until && of_class => until,
            Lock::Held(_) | Lock::Draining(_) if now < until => return self.watch(engine, of_cluster),
            Lock::Held(_) | Lock::Draining(_)
                if self.is_arbitrated(engine)
                    && let Some(next) = self.look_again(machine, engine, of_cluster, now) =>
            {
                self.engines[engine].keep_watch();
                next
            }
            Lock::Held(_) | Lock::Draining(_) => {
                self.take_away(machine, engine, user);
                match self.engines[engine].lock().state() {
                    Lock::Resetting(_) => self.next_look_at_reset(engine, now, true).unwrap_or(now),
                    _ => return,
                }
            }
            Lock::Resetting(_) if let Some(next) = self.next_look_at_reset(engine, now, false) => next,
            _ => {
                if self.engines[engine].lock_mut().quarantine().is_some() {
                    let thread = user_of(user).and_then(|user| self.engine_users[user].thread());
                    self.trace(machine, Event::EngineLost, thread, u32::from(engine.number()), 0);
                }
                if !self.refuse_waiter(machine, engine, Error::EngineLost) {
                    return;
                }
                now
            }
        };
        self.plan_look(engine, of_cluster, next);
    }

    /// The next look at the driver that has to reset `engine`: it has just been asked, if it `is_asked`; or it may need more time, since it had no
    /// CPU. Then it is ready or has run since the look before, but not for as long as a reset takes. A driver that is dead does not run.
    #[inline(never)]
    fn next_look_at_reset(&mut self, engine: EngineId, now: Instant, is_asked: bool) -> Option<Instant> {
        let object = &self.engines[engine];
        let (bound, thread) = (object.reset_bound(), &self.threads[object.driver()?]);
        let (time, is_ready) = (thread.statistics().time, matches!(thread.state(), State::Ready));
        let ran = time.saturating_sub(core::mem::replace(&mut self.resets[engine], time));
        let goes_on = is_asked || ran < bound && (is_ready || ran != Nanoseconds::ZERO);
        goes_on.then(|| now + bound.max(PAUSE))
    }

    /// Takes `engine` away from `user`, which has had it for too long. A held engine is released; if it is still busy then,
    /// the driver must reset it.
    fn take_away<M: Machine>(&mut self, machine: &mut M, engine: EngineId, user: u16) {
        if self.forgets(Planted::EngineWithoutWatchdog) {
            return;
        }
        let is_held = matches!(self.engines[engine].lock().state(), Lock::Held(_));
        let idle = self.is_over(machine, engine, user);
        if is_held || !idle {
            let thread = user_of(user).and_then(|user| self.engine_users[user].thread());
            self.trace(machine, Event::EngineTaken, thread, u32::from(engine.number()), u32::from(!idle));
        }
        if is_held && let Some(user) = user_of(user) {
            self.lose(engine, user);
            let given = self.give_back(machine, engine, user);
            debug_assert!(given.is_ok(), "the user holds the engine");
        } else if idle {
            self.drained(machine, engine, user);
        }
        let object = &mut self.engines[engine];
        let bits = if object.lock_mut().expire().is_some() { object.reset_bits() } else { 0 };
        if let Some(interrupt) = object.interrupt()
            && let Some(notification) = self.interrupts[interrupt].notification()
        {
            self.signal(machine, notification, self.interrupts[interrupt].bits() | bits);
        }
    }

    /// `engine_complete`: the driver has reset an engine, which is idle now.
    pub(crate) fn engine_complete<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let bits = machine.registers(thread).general[1];
        let Object::Interrupt(interrupt) = self.argument(machine, thread, rights::ACKNOWLEDGE)? else {
            return Err(Error::WrongKind);
        };
        for engine in (0..self.counts.engines).filter_map(EngineId::new) {
            let object = &self.engines[engine];
            if WATCHDOGS
                && object.interrupt() == Some(interrupt)
                && object.reset_bits() == bits
                && let Lock::Resetting(user) | Lock::Quarantined(user) = object.lock().state()
                && self.is_over(machine, engine, user)
            {
                self.drained(machine, engine, user);
                return Ok(());
            }
        }
        Err(Error::BadArgument)
    }
}
