//! Jobs: release, completion, lateness.
//!
//! One release that comes while a job is active is queued; further ones are counted as skipped. A job is
//! ordered by its own deadline for as long as it has budget; a job that overran its budget goes on with that
//! of the next period, and with its deadline.

use fusee_abi::Error;
use fusee_abi::call::rights;
use fusee_abi::trace::Event;
use fusee_sched::cpu::CpuId;
use fusee_sched::key::Tie;
use fusee_sched::time::Instant;

use crate::id::{ReservationId, ThreadId};
use crate::object::{Object, Release, State};
use crate::{Kernel, Machine};

impl Kernel {
    /// `next_job`: completes the job; waits for the next release.
    pub(crate) fn next_job<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId) -> Result<(), Error> {
        let reservation = self.threads[thread].home.ok_or(Error::NoJobs)?;
        if self.reservations[reservation].release == Release::None {
            return Err(Error::NoJobs);
        }
        if self.threads[thread].job.active {
            let now = machine.now();
            self.complete(machine, thread, reservation, now);
        }
        self.cpus[cpu.index()].stale = true;
        if let Some(release) = self.threads[thread].job.queued.take() {
            // What the late job used is not the next one's to pay.
            let now = machine.now();
            self.charge(machine, cpu, now);
            self.start_job(machine, thread, reservation, release);
        } else {
            self.threads[thread].state = State::BetweenJobs;
        }
        self.settle(thread);
        Ok(())
    }

    fn complete<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, reservation: ReservationId, now: Instant) {
        let state = &mut self.threads[thread];
        let lateness = now.signed_since(state.job.deadline);
        state.job.active = false;
        state.job.lateness = lateness;
        let statistics = &mut state.statistics;
        statistics.max_lateness = if statistics.jobs == 0 { lateness } else { statistics.max_lateness.max(lateness) };
        statistics.jobs += 1;
        statistics.misses += u32::from(lateness > 0);
        let deadline = self.reservations[reservation].deadline;
        self.reservations[reservation].tie = Tie::new(lateness, deadline, thread.index() as u16);
        let traced = lateness.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        self.trace(machine, Event::Complete, Some(thread), 0, traced as u32);
    }

    /// Makes the job released at `release` the current one. The thread must be settled afterwards.
    fn start_job<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        reservation: ReservationId,
        release: Instant,
    ) {
        let object = &mut self.reservations[reservation];
        let deadline = release + object.deadline;
        if object.account.replenished < release {
            object.account.replenish(release);
            object.throttled = object.account.is_dry();
            object.replenish_at = if object.throttled { release + object.account.period } else { Instant::NEVER };
            self.plan_event(reservation);
        }
        let key = self.job_key(reservation, release);
        self.set_key(reservation, key);
        let job = &mut self.threads[thread].job;
        job.number = job.number.wrapping_add(1);
        job.active = true;
        job.release = release;
        job.deadline = deadline;
        let skipped = core::mem::take(&mut job.skipped);
        let general = &mut machine.registers(thread).general;
        general[0] = 0;
        general[1] = u64::from(job.number);
        general[2] = release.0;
        general[3] = deadline.0;
        general[4] = job.lateness as u64;
        general[5] = u64::from(skipped);
        let relative = self.reservations[reservation].deadline.0 / 1000;
        self.trace(machine, Event::Release, Some(thread), 0, relative as u32);
    }

    /// A release by the clock.
    pub(crate) fn planned_release<M: Machine>(
        &mut self,
        machine: &mut M,
        reservation: ReservationId,
        release: Instant,
    ) {
        let object = &mut self.reservations[reservation];
        object.next_release =
            if object.release == Release::Periodic { release + object.account.period } else { Instant::NEVER };
        object.earliest_release = release + object.account.period;
        self.release(machine, reservation, release);
    }

    fn release<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, release: Instant) {
        let Some(thread) = self.reservations[reservation].home else { return };
        if self.threads[thread].state == State::BetweenJobs {
            self.threads[thread].state = State::Ready;
            self.start_job(machine, thread, reservation, release);
            self.settle(thread);
            return;
        }
        let state = &mut self.threads[thread];
        if state.state == State::Stopped {
            return;
        }
        if state.job.queued.is_none() {
            state.job.queued = Some(release);
        } else {
            state.job.skipped += 1;
            state.statistics.skipped += 1;
            self.trace(machine, Event::Skip, Some(thread), 0, 0);
        }
    }

    /// `release_job`: a sporadic release, now or as soon as a period has passed since the last one.
    pub(crate) fn release_job<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let handle = machine.registers(thread).general[0];
        let (object, _) = self.resolve(thread, handle, rights::RELEASE_JOB)?;
        let Object::Task(target) = object else { return Err(Error::WrongKind) };
        if self.threads[target].state == State::Stopped {
            return Err(Error::PeerDied);
        }
        let reservation = self.threads[target].home.ok_or(Error::NoJobs)?;
        if self.reservations[reservation].release != Release::Sporadic {
            return Err(Error::NoJobs);
        }
        let now = machine.now();
        let object = &mut self.reservations[reservation];
        if object.next_release != Instant::NEVER {
            // One is planned already: this one is too many.
            self.threads[target].job.skipped += 1;
            self.threads[target].statistics.skipped += 1;
            self.trace(machine, Event::Skip, Some(target), 0, 0);
        } else if now < object.earliest_release {
            object.next_release = object.earliest_release;
            self.plan_event(reservation);
        } else {
            object.earliest_release = now + object.account.period;
            self.release(machine, reservation, now);
        }
        Ok(())
    }
}
