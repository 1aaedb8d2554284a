//! Jobs: release, completion, lateness.
//!
//! Releases that come while a job is active queue, one unless the manifest allows more; further ones are
//! counted as skipped, until none is queued. A job is ordered by its own priority point for as long as it has budget; a
//! job that used its budget up goes on with that of the next period, and with its priority point.
//!
//! Under the overrun policy *early release* the job takes that budget at once, and the next job is dropped.
//!
//! Not here: jobs that begin before their releases (`early`).

use fusee_abi::Error;
use fusee_abi::call::rights;
use fusee_abi::trace::{Event, Record};
use fusee_sched::cpu::CpuId;
use fusee_sched::time::Instant;

use crate::id::{ReservationId, ThreadId};
use crate::limits::{CREDITS, RESTARTS};
use crate::object::{Release, State};
use crate::{Kernel, Machine, Planted};

impl Kernel {
    /// `next_job`: completes the job; waits for the next release.
    pub(crate) fn next_job<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId) -> Result<(), Error> {
        self.may_wait_here(machine, thread)?;
        let reservation = self.threads[thread].own().ok_or(Error::NoJobs)?;
        if self.reservations[reservation].release() == Release::None {
            return Err(Error::NoJobs);
        }
        self.is_up(machine, thread);
        if self.threads[thread].job().is_active() {
            let now = machine.now();
            self.complete(machine, thread, reservation, now);
        }
        self.cpus[cpu].request_reschedule();
        if CREDITS && self.reservations[reservation].begins_early() {
            self.next_early(machine, cpu, thread, reservation);
            return Ok(());
        }
        if let Some(release) = self.take_queued(thread, reservation, self.now) {
            // Time that the late job used is not the next one's to pay.
            let now = machine.now();
            self.charge(machine, cpu, now);
            self.end_rest_late(reservation);
            self.start_job(machine, thread, reservation, release);
        } else {
            self.block(thread, State::BetweenJobs, None);
            self.plan_sporadic(thread, reservation);
        }
        Ok(())
    }

    /// Plans the next sporadic release of `thread`, which is between jobs.
    fn plan_sporadic(&mut self, thread: ThreadId, reservation: ReservationId) {
        if let Some(first) = self.first_sporadic(thread) {
            self.reservations[reservation].plan_release(first);
            self.event_moves(reservation);
        }
    }

    fn complete<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, reservation: ReservationId, now: Instant) {
        let state = &mut self.threads[thread];
        let lateness = state.complete_job(now);
        let crosses = state.jobs_are_recorded();
        self.reservations[reservation].set_tie(lateness, thread);
        let (upper, lower) = Record::lateness_words(lateness);
        self.trace(machine, Event::Complete, Some(thread), upper, lower);
        if crosses {
            self.give_back_shared(machine, thread);
            self.job_ends(thread);
        }
    }

    /// Makes the job released at `release` the current one.
    fn start_job<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        reservation: ReservationId,
        release: Instant,
    ) {
        if self.forgets(Planted::QueuedReleasesRefill) {
            self.reservations[reservation].restart_budget(self.now);
        }
        let deadline = release + self.reservations[reservation].deadline();
        self.open_budget(thread, reservation, release);
        let job = self.threads[thread].job_mut();
        let (skipped, overruns) = job.begin(release, deadline);
        let general = &mut machine.registers(thread).general;
        general[0] = 0;
        general[1] = u64::from(job.number());
        general[2] = release.0;
        general[3] = deadline.0;
        general[4] = job.lateness() as u64;
        general[5] = u64::from(skipped);
        general[6] = u64::from(overruns);
        let relative = self.reservations[reservation].deadline().0 / 1000;
        self.trace(machine, Event::Release, Some(thread), (relative >> 32) as u32, relative as u32);
        if self.threads[thread].jobs_are_recorded() && !self.reservations[reservation].is_throttled() {
            self.job_begins(thread);
        }
    }

    /// The budget of a job of `thread` that is released at `release`, and its key.
    #[inline(always)]
    fn open_budget(&mut self, thread: ThreadId, reservation: ReservationId, release: Instant) {
        let object = &mut self.reservations[reservation];
        let chunk = object.account().release;
        if chunk < release {
            if chunk < self.start && self.threads[thread].job().number() == 0 && object.rests() <= self.start {
                // Time that a task used before the start of the system, and nothing since, is not its first job's to pay.
                object.restart_budget(release);
            } else {
                object.resume_budget(release);
            }
            object.clear_suspension();
            object.throttle_if_dry(release);
            self.event_moves(reservation);
        }
        self.leave_rest(reservation);
        self.budget_changes(thread, reservation);
        // A release that is older than the budget that is left has no older key than that: the job was late by its own fault.
        let key = self.job_key(reservation, release.max(chunk));
        self.set_key(reservation, key);
    }

    /// A release by the clock.
    pub(crate) fn planned_release<M: Machine>(
        &mut self,
        machine: &mut M,
        reservation: ReservationId,
        release: Instant,
    ) {
        let object = &mut self.reservations[reservation];
        if object.release() == Release::Periodic {
            object.plan_release(release + object.account().period);
            let is_forgotten = self.forgets(Planted::ReleaseIsForgotten) && release.0.is_multiple_of(4);
            if !is_forgotten {
                self.release(machine, reservation, release);
            }
            return;
        }
        object.plan_release(Instant::NEVER);
        let Some(thread) = object.owner() else {
            impossible!("a reservation has an owner");
            return;
        };
        if CREDITS && object.begins_early() {
            self.planned_early(machine, thread, reservation, release);
            return;
        }
        // The release was planned because no release is on its way.
        if let Some(release) = self.take_queued(thread, reservation, release) {
            self.release(machine, reservation, release);
        }
    }

    fn release<M: Machine>(&mut self, machine: &mut M, reservation: ReservationId, release: Instant) {
        let Some(thread) = self.reservations[reservation].owner() else {
            impossible!("a reservation has an owner");
            return;
        };
        if self.threads[thread].state() == State::BetweenJobs {
            self.resume(thread);
            self.start_job(machine, thread, reservation, release);
            return;
        }
        if self.threads[thread].state() == State::Stopped {
            return;
        }
        let (period, backlog) =
            (self.reservations[reservation].account().period, self.reservations[reservation].backlog());
        let job = self.threads[thread].job_mut();
        // A thread that has not asked for its first job yet is not at one.
        let room = backlog.saturating_add(u8::from(!job.is_active()));
        if !job.queue(release, room, period) {
            self.skip(machine, thread);
        }
    }

    /// `early_release`.
    pub(crate) fn early_release<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
    ) -> Result<(), Error> {
        let reservation = self.threads[thread].own().ok_or(Error::NoJobs)?;
        if self.reservations[reservation].release() == Release::None || !self.threads[thread].job().is_active() {
            return Err(Error::NoJobs);
        }
        let is_forgotten = self.forgets(Planted::EarlyReleaseUnderConstantPoints);
        if !self.reservations[reservation].releases_early() && !is_forgotten {
            return Err(Error::MissingRight);
        }
        // The rest of the present budget is given up, but its use so far is still charged.
        let now = machine.now();
        self.charge(machine, cpu, now);
        self.cpus[cpu].request_reschedule();
        self.release_early(machine, reservation, thread);
        Ok(())
    }

    /// A job of policy *signal* that used up its budget gets an error at its next checkpoint: a call that takes an engine or
    /// a token, waits for anything but a server, or yields. The error comes once, and not while the job holds an
    /// engine. The job may hold a token, and gives it back with all else that it gives up. (A call that gives a token back is
    /// no checkpoint: destructors make it, and cannot report an error.)
    ///
    /// # Errors
    /// [`Error::Overrun`].
    pub(crate) fn checkpoint<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let is_starting = RESTARTS && self.lives[thread].is_starting;
        let state = &mut self.threads[thread];
        // A thread that executes waits for nothing, so all its requests are for tokens that it holds.
        if !state.job().is_signalled() || state.holds() != state.requests() || is_starting {
            return Ok(());
        }
        state.job_mut().end_signal();
        let object = state.own().map_or(0, ReservationId::number);
        self.trace(machine, Event::Overrun, Some(thread), u32::from(object), 0);
        Err(Error::Overrun)
    }

    /// `release_job`: a sporadic release, now or as soon as a period has passed since the last one. If the release must wait,
    /// for that or for the end of the job, it queues with its own instant. With a number, the job is released only if the job
    /// of this number has not been; `x1` is then the number of jobs still missing up to it. A repeated call changes nothing.
    ///
    /// # Errors
    /// [`Error::BacklogFull`]: there is no place. Without a number the release is dropped, and counted as skipped.
    pub(crate) fn release_job<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let upto = if CREDITS { machine.registers(thread).general[1] as u32 } else { 0 };
        let right = if upto == 0 { rights::RELEASE_JOB } else { rights::CREDIT };
        let target = self.task_argument(machine, thread, right)?;
        if self.threads[target].state() == State::Stopped {
            return Err(Error::PeerDied);
        }
        let reservation = self.threads[target].own().ok_or(Error::NoJobs)?;
        if self.reservations[reservation].release() != Release::Sporadic {
            return Err(Error::NoJobs);
        }
        if upto != 0 {
            let job = self.threads[target].job();
            // Counted are the jobs that have begun, and the releases that queue. Numbers are compared as distances: they begin again
            // after 2^32.
            let missing = upto.wrapping_sub(job.number().wrapping_add(u32::from(job.sporadic().count()))) as i32;
            machine.registers(thread).general[1] = (missing - 1).max(0) as u64;
            if missing <= 0 {
                return Ok(());
            }
        }
        if CREDITS && self.reservations[reservation].begins_early() {
            return self.ask_early(machine, target, reservation, upto);
        }
        let now = machine.now();
        if self.forgets(Planted::SporadicReleasesComeAtOnce) {
            self.reservations[reservation].allow_release(Instant::ZERO);
        }
        let is_waiting = self.threads[target].state() == State::BetweenJobs;
        let object = &mut self.reservations[reservation];
        let release = now.max(object.earliest_release());
        let queue = self.threads[target].job().sporadic();
        if release <= now && is_waiting && queue.count() == 0 {
            object.space_releases(release);
            self.release(machine, reservation, release);
            return Ok(());
        }
        if queue.count() == queue.places() {
            if upto == 0 {
                self.skip(machine, target);
            }
            return Err(Error::BacklogFull);
        }
        object.space_releases(release);
        if let Some(place) = self.releases.get_mut(queue.place(queue.count())) {
            *place = release;
        }
        self.threads[target].job_mut().put_sporadic();
        if is_waiting && queue.count() == 0 {
            self.plan_sporadic(target, reservation);
        }
        Ok(())
    }

    //--- Where jobs begin early -----------------------------------------------------------------------------

    /// Does the rest of `next_job` for a thread with jobs that begin early.
    #[cold]
    #[inline(never)]
    fn next_early<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId, reservation: ReservationId) {
        let now = machine.now();
        self.end_early(machine, reservation);
        let until = if self.now < self.start { self.now } else { Instant::NEVER };
        let Some(release) = self.take_asked(thread, reservation, until) else {
            self.block(thread, State::BetweenJobs, None);
            self.plan_asked(thread, reservation);
            return;
        };
        // Time that the late job used is not the next one's to pay.
        self.charge(machine, cpu, now);
        if release <= now {
            self.end_rest_late(reservation);
        }
        self.begin_job(machine, thread, reservation, (release, now));
    }

    /// Before the start of the system no job begins: the first that was asked for is released then.
    fn plan_asked(&mut self, thread: ThreadId, reservation: ReservationId) {
        if let Some(first) = self.first_asked(thread, reservation) {
            self.reservations[reservation].plan_release(first);
            self.event_moves(reservation);
        }
    }

    /// A job of `thread` begins at `now`, whether `release` has come or not.
    #[inline(never)]
    fn begin_job<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        reservation: ReservationId,
        (release, now): (Instant, Instant),
    ) {
        let is_early = release > now && !self.forgets(Planted::EarlyJobsHaveTheirKey);
        if is_early {
            self.put_aside(machine, reservation);
        }
        self.start_job(machine, thread, reservation, release);
        if is_early && self.forgets(Planted::EarlyJobsAreReleased) {
            let object = &mut self.reservations[reservation];
            object.restart_budget(now);
            object.end_throttle();
            self.renew_key(reservation);
        } else if is_early {
            self.begin_early(thread, reservation, release);
        }
    }

    /// Handles the planned release of a reservation with jobs that begin early: of the job that has begun, or of one that was
    /// asked for before the start of the system.
    #[cold]
    #[inline(never)]
    fn planned_early<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        reservation: ReservationId,
        release: Instant,
    ) {
        if self.is_early(reservation) {
            self.end_early_at_release(machine, reservation);
            self.open_budget(thread, reservation, release);
        } else if let Some(release) = self.take_asked(thread, reservation, release) {
            self.release(machine, reservation, release);
        }
    }

    /// `release_job` of `target`, for jobs that begin early.
    #[cold]
    #[inline(never)]
    fn ask_early<M: Machine>(
        &mut self,
        machine: &mut M,
        target: ThreadId,
        reservation: ReservationId,
        upto: u32,
    ) -> Result<(), Error> {
        let now = machine.now();
        let is_next =
            self.threads[target].state() == State::BetweenJobs && self.threads[target].job().sporadic().count() == 0;
        if is_next && self.now >= self.start {
            let object = &mut self.reservations[reservation];
            let release = now.max(object.earliest_release());
            object.space_releases(release);
            self.resume(target);
            self.begin_job(machine, target, reservation, (release, now));
            return Ok(());
        }
        if !self.queue_asked(target, now) {
            if upto == 0 {
                self.skip(machine, target);
            }
            return Err(Error::BacklogFull);
        }
        if is_next {
            self.plan_asked(target, reservation);
        }
        Ok(())
    }
}
