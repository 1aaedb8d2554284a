//! Scripts of conformance systems: the steps of a scripted task in each of its jobs.
//!
//! The manifest's `script` lines become these records. The simulator runs them directly; on the target,
//! the task `scripted` does. Both end each job with `next_job`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One step of a script.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Step {
    /// An operation number of [`operation`].
    pub operation: u32,
    /// The engine, device context or similar small number of the operation.
    pub selector: u32,
    /// The handle it acts on, or zero.
    pub handle: u64,
    /// The time in nanoseconds, bits, or other number of the operation.
    pub value: u64,
}

/// Operations of a [`Step`].
pub mod operation {
    /// Compute until the thread has been charged `value` nanoseconds more.
    pub const BURN: u32 = 1;
    /// Call endpoint `handle`; word 0 is `value`: the time that the server burns.
    pub const CALL: u32 = 2;
    /// Signal notification `handle` with bits `value`.
    pub const SIGNAL: u32 = 3;
    /// Wait for notification `handle`.
    pub const WAIT: u32 = 4;
    /// Acquire engine `handle`, or a token of pool `handle`.
    pub const ACQUIRE: u32 = 5;
    /// Acquire engines `handle` and `value`, of one group, at once.
    pub const ACQUIRE_BOTH: u32 = 18;
    /// Run an operation of `value` nanoseconds on engine `selector` and wait on notification `handle` for its end.
    pub const SUBMIT: u32 = 6;
    /// Release engine or token `handle`.
    pub const RELEASE: u32 = 7;
    /// Release a job of task `handle`.
    pub const RELEASE_JOB: u32 = 8;
    /// Serve endpoint `handle` for ever: burn the time that each request asks for, then reply.
    pub const SERVE: u32 = 9;
    /// End the system.
    pub const SHUTDOWN: u32 = 10;
    /// Suspend until `value` nanoseconds after this job's release.
    pub const SLEEP: u32 = 11;
    /// Suspend for `value` nanoseconds from now on.
    pub const PAUSE: u32 = 24;
    /// Start over from the first step, without completing a job.
    pub const REPEAT: u32 = 12;
    /// Start an operation of `value` nanoseconds on engine `selector`, and do not wait for its end.
    pub const START: u32 = 13;
    /// Yield: a checkpoint. After an overrun that is signalled here or elsewhere, the rest of the job is left out.
    pub const YIELD: u32 = 14;
    /// Release engine `handle` and acquire it again, if an earlier key waits for it.
    pub const YIELD_ENGINE: u32 = 19;
    /// Take the budget and the deadline of the next job.
    pub const EARLY_RELEASE: u32 = 15;
    /// Send to endpoint `handle`, without donating; word 0 is `value`: the time that the server burns.
    pub const SEND: u32 = 17;
    /// End task `handle`.
    pub const STOP: u32 = 16;
    /// Let task `handle` have its jobs up to the number of this job, times `value`.
    pub const CREDIT: u32 = 21;
    /// Start task `handle`, which is dormant.
    pub const BEGIN: u32 = 20;
    /// Wait for a request at endpoint `handle`. The steps up to [`REPLY`] are its service.
    pub const RECEIVE: u32 = 22;
    /// Answer the request that came last, wait for the next one at endpoint `handle`, and go on after the step that received the first.
    pub const REPLY: u32 = 23;
}
