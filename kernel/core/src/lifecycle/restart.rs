//! A task begins again, or for the first time: `restart` and `start`, and how its last life ended.
//!
//! Lives, and the knowledge that others have of them, are in `lives`.

use fusee_abi::Error;
use fusee_abi::call::{FIRST_WORD, rights};
use fusee_abi::trace::Event;
use fusee_sched::key::Class;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{EngineId, ThreadId};
use crate::lifecycle::lives::Life;
use crate::limits::{BUDGET_MIN, ENGINE_USERS, GATES, HANDLES, POOLS_PER_TASK};
use crate::machine::Place;
use crate::object::{Object, Release};
use crate::{Kernel, Machine};

impl Kernel {
    /// `restart`, or `start` of a dormant task.
    ///
    /// # Errors
    /// [`Error::MissingRight`] also if the task has one life, or is not dormant; [`Error::NotEnded`].
    pub(crate) fn restart<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, starts: bool) -> Result<(), Error> {
        let target = self.ended_argument(machine, thread, starts)?;
        // Waiters for a draining engine of the target have not been notified yet, and need not be: its new life will get the
        // notice that the engine is idle.
        self.cancel_timeout(target);
        self.begin_again(machine, target);
        let number = u64::from(self.threads[target].life());
        machine.registers(target).general[1] = number;
        machine.registers(thread).general[1] = number;
        self.trace(machine, Event::Restart, Some(target), u32::from(thread.number()), number as u32);
        Ok(())
    }

    /// `set_reservation` of a dormant task, within the limits that the manifest declares.
    ///
    /// A job with less budget, released later, is one of those that the declared task may have: no bound that was computed
    /// for the declaration moves. Keys stay as they are.
    ///
    /// # Errors
    /// Those of `start`; [`Error::BadArgument`]: there is no declared budget, more of it would be had than declared, or less
    /// than any reservation has ([`BUDGET_MIN`]).
    pub(crate) fn set_reservation<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let target = self.ended_argument(machine, thread, true)?;
        let general = machine.registers(thread).general;
        let (budget, period) = (Nanoseconds(general[FIRST_WORD]), Nanoseconds(general[FIRST_WORD + 1]));
        let own = self.threads[target].own().ok_or(Error::BadArgument)?;
        let (life, now) = (&mut self.lives[target], self.now);
        if budget.0 < BUDGET_MIN || budget > life.budget || period < life.period {
            return Err(Error::BadArgument);
        }
        let object = &mut self.reservations[own];
        life.first_release = next_release(life.first_release, object.account().period, now);
        object.change_budget(budget, period, now);
        Ok(())
    }

    /// The ended task that the first argument of `thread` names, after all its waiters were notified; a dormant one if `starts`.
    ///
    /// # Errors
    /// Those of [`restart`](Kernel::restart).
    #[inline(never)]
    fn ended_argument<M: Machine>(&self, machine: &mut M, thread: ThreadId, starts: bool) -> Result<ThreadId, Error> {
        let target = self.task_argument(machine, thread, rights::RESTART)?;
        let life = &self.lives[target];
        if !(if starts { life.is_dormant } else { life.starts.is_some() }) {
            return Err(Error::MissingRight);
        }
        if !life.is_told {
            return Err(Error::NotEnded);
        }
        Ok(target)
    }

    /// `read_fault`.
    ///
    /// # Errors
    /// Those of [`Kernel::task_argument`].
    pub(crate) fn read_end<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let target = self.task_argument(machine, thread, rights::RESTART)?;
        let (life, number) = (self.lives[target], self.threads[target].life());
        let general = &mut machine.registers(thread).general;
        (general[1], general[2], general[3]) = (life.end.how, u64::from(number), life.ended.0);
        general[4..7].copy_from_slice(&life.end.words);
        Ok(())
    }

    /// Makes `thread` ready at its first instruction. The thread is dead and on no CPU, and all waiters know of its end.
    #[inline(never)]
    fn begin_again<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        let life = &mut self.lives[thread];
        (life.is_told, life.is_starting) = (false, true);
        let life = *life;
        self.threads[thread].begin_life(life.belongings);
        self.find_uses(machine, thread);
        self.fill_slots(machine, thread);
        self.begin_budget(thread, life);
        machine.open_space(thread);
        self.resume(thread);
        if GATES {
            self.open_gates(machine, thread);
        }
    }

    /// Gives engines back to clients without a lock, if no task wanted them while their driver, `thread`, was dead.
    fn open_gates<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        for engine in (0..self.counts.engines).filter_map(EngineId::new) {
            if self.engines[engine].driver() == Some(thread) {
                self.hand_back(machine, engine);
            }
        }
    }

    /// Engines that were taken from the last life of `thread` are not lost to this one.
    fn find_uses<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        let mut next = self.threads[thread].uses();
        for _ in 0..ENGINE_USERS {
            let Some(user) = next else { break };
            next = self.engine_users[user].next();
            if self.engine_users[user].is_lost() {
                self.end_loss(machine, user);
            }
        }
        let mut next = self.threads[thread].tokens();
        for _ in 0..POOLS_PER_TASK {
            let Some(user) = next else { break };
            next = self.pool_users[user].next();
            self.pool_users[user].end_loss();
        }
    }

    /// Restores the slots of `thread` that the manifest filled, and no others. The thread knows each of its servers as it is.
    /// Its places are empty, and its lines may fire, as at boot: the life before may not have acknowledged their last
    /// interrupt. The line of an engine may fire when `thread` has acknowledged it, and is taken as if it had fired, so that
    /// the report of an interrupt before is not lost.
    fn fill_slots<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        for slot in 0..HANDLES {
            let object = *self.handles[thread][slot].object();
            let life = match object {
                Object::Empty => continue,
                Object::Endpoint(endpoint) => self.life_of(endpoint),
                _ => 0,
            };
            let handle = &mut self.handles[thread][slot];
            handle.show(slot as u16, life);
            if let Object::Interrupt(interrupt) = object {
                let line = self.interrupts[interrupt];
                let of_engine = line.is_of_engine();
                machine.set_interrupt_enabled(interrupt, !of_engine);
                if let Some(notification) = line.notification().filter(|_| of_engine) {
                    self.signal(machine, notification, line.bits());
                }
            }
            if let Object::Region(region) = object
                && u32::from(self.handles[thread][slot].rights()) & rights::LENT != 0
            {
                machine.set_place(thread, region, Place::Empty);
            }
        }
    }

    /// The reservation of `thread` goes on with the budget left, as if that were released now, and its jobs are released at
    /// the instants at which they would be.
    fn begin_budget(&mut self, thread: ThreadId, life: Life) {
        self.end_start(thread);
        let Some(own) = self.threads[thread].own() else { return };
        let now = self.now;
        let object = &mut self.reservations[own];
        object.set_release(life.release);
        object.plan_release(match life.release {
            Release::Periodic => next_release(life.first_release, object.account().period, now),
            Release::None | Release::Sporadic => Instant::NEVER,
        });
        object.clear_suspension();
        object.resume_budget(now);
        object.throttle_if_dry(now);
        if now < self.start && object.class() == Class::RealTime {
            // Any use before the start of the system is void.
            object.start_over_by(self.start);
        }
        self.renew_key(own);
        self.event_moves(own);
    }
}

/// The first release after `now` of those that begin at `first` and are a `period` apart; `first`, if that is later.
#[inline(never)]
fn next_release(first: Instant, period: Nanoseconds, now: Instant) -> Instant {
    if first > now {
        return first;
    }
    let periods = now.since(first).0 / period.0.max(1) + 1;
    first + Nanoseconds(period.0.saturating_mul(periods))
}
