//! Jobs and time.

use crate::syscall::{self, message, plain, spin, timed};
use crate::{Instant, JobError, Nanoseconds, SleepError, YieldError};
use fusee_abi::call::{Call, NEVER};

/// One activation of this task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct JobInfo {
    /// The number of the job; the first is one.
    pub number: u64,
    /// The instant it might first run.
    pub release: Instant,
    /// The instant it should be complete.
    pub deadline: Instant,
    /// Lateness of the job before it in nanoseconds: completion minus deadline, so negative if it was early.
    pub late_by: i64,
    /// Releases given up since, because that job was too late.
    pub skipped: u64,
    /// Times that job used up a budget.
    pub overruns: u64,
}

/// The time, and the part of it that this task has used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Clock {
    /// Time since the kernel's time zero.
    pub now: Instant,
    /// CPU time charged to this thread so far.
    pub charged: Nanoseconds,
}

/// Completes this job and waits for the release of the next.
///
/// # Errors
/// [`JobError::NoJobs`] if the manifest gives this task none.
pub fn next_job() -> Result<JobInfo, JobError> {
    let answer = message(Call::NextJob as u64, 0, [0; 6], NEVER, 0);
    JobError::check(answer.code)?;
    let [release, deadline, late_by, skipped, overruns, _] = answer.words;
    Ok(JobInfo {
        number: answer.value,
        release: Instant(release),
        deadline: Instant(deadline),
        late_by: late_by.cast_signed(),
        skipped,
        overruns,
    })
}

/// Lets the next task of this class run, if this is a service or background task. In a job, a checkpoint: the
/// place to learn, between two pieces of work, that the budget is used up.
///
/// # Errors
/// [`YieldError::Overrun`], once a job with the overrun policy *signal* has used up its budget.
#[inline]
pub fn yield_now() -> Result<(), YieldError> {
    YieldError::check(plain(Call::Yield as u64, 0, 0).code)
}

/// Lets this job take the budget and the deadline of the next, which is dropped; the rest of its own budget is
/// given up. For a job that knows it will not finish in time, before its budget ends.
///
/// # Errors
/// [`JobError::NoJobs`] if the manifest gives this task none, or none is active.
pub fn early_release() -> Result<(), JobError> {
    JobError::check(plain(Call::EarlyRelease as u64, 0, 0).code)
}

/// The time, and the time that this thread has been charged.
#[inline]
#[must_use]
pub fn now() -> Clock {
    let answer = plain(Call::Now as u64, 0, 0);
    Clock { now: Instant(answer.value), charged: Nanoseconds(answer.second) }
}

/// Suspends until `instant`.
///
/// # Errors
/// [`SleepError`] says why it did not.
pub fn sleep_until(instant: Instant) -> Result<(), SleepError> {
    SleepError::check(timed(Call::SleepUntil as u64, 0, instant.0).code)
}

/// The time that [`burn`] computes in one stretch, at the end, in nanoseconds.
const LAST_STRETCH: u64 = 16_000;
/// Instructions of one round of `spin`.
const ROUND: u64 = 4;

/// Computes until this thread has been charged `time` more, preempted or not: never less, and a microsecond or two
/// more. In the simulator exactly `time`, and without a call.
///
/// Each stretch of computing takes at most two thirds of the rest, even where four emulated CPUs share one timeline
/// and an instruction costs four nanoseconds. Looking at the clock is a trap, and traps of several CPUs wait for each
/// other, on no task's account; so the last few microseconds are computed at once, at the speed of the stretch before.
pub fn burn(time: Nanoseconds) {
    if time == Nanoseconds::ZERO || syscall::burn(time) {
        return;
    }
    let mut charged = now().charged;
    let end = charged + time;
    // Nanoseconds that 256 instructions take.
    let mut speed = 256;
    while charged < end {
        let left = end.saturating_sub(charged).0;
        let rounds = if left <= LAST_STRETCH { left * 256 / speed / ROUND + 1 } else { left / 24 };
        spin(rounds);
        let before = core::mem::replace(&mut charged, now().charged);
        speed = (charged.saturating_sub(before).0.saturating_mul(256) / (rounds * ROUND)).clamp(256, 1024);
    }
}
