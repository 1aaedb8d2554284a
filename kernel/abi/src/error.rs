//! Why a system call was refused or ended early.

/// The error code in `x0`; zero means success.
///
/// A wrong argument never harms anyone but the caller: each of these leaves all other tasks as they were.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Error {
    /// No call has this number.
    BadCall = 1,
    /// The handle's slot is empty, out of range, or of another generation; or its source was revoked.
    BadHandle = 2,
    /// The handle names an object of another kind.
    WrongKind = 3,
    /// The handle does not carry the right this call needs.
    MissingRight = 4,
    /// An argument is out of range.
    BadArgument = 5,
    /// The deadline passed first.
    TimedOut = 6,
    /// Waiting would close a cycle of tasks waiting for each other.
    WouldDeadlock = 7,
    /// A chain would exceed the kernel's bound: of tasks waiting for each other, or of copies of copies of a handle.
    ChainTooLong = 8,
    /// The server has no budget of its own: it can only be called, with donation.
    NeedsCall = 9,
    /// The other side died, or dropped the request.
    PeerDied = 10,
    /// The caller does not hold this engine.
    NotHeld = 11,
    /// The caller already holds this engine.
    AlreadyHeld = 12,
    /// The reply token names no request waiting for this server.
    BadToken = 13,
    /// The manifest gives this task no jobs.
    NoJobs = 14,
    /// This version of the kernel knows the call but does not offer it.
    Unsupported = 15,
    /// All reply slots of the server are taken.
    NoReplySlot = 16,
    /// The job used up its budget, and its overrun policy is *signal*: clean up and end it.
    Overrun = 17,
    /// The receiver takes no handle with a reply, has no place for the region, or its handle table is full.
    NoHandleSlot = 18,
    /// As many handles are copied from as the kernel can keep track of.
    NoDerivation = 19,
    /// The region is lent already.
    AlreadyLent = 20,
    /// Of a release: the engine was taken away, for it was not idle and free in time. Of a request: an operation did not end, and the
    /// driver has not reset the engine in time.
    EngineLost = 21,
    /// Of a release: the token was taken away, for it was not given back in time. Of a request for an engine: the token for it was.
    TokenLost = 22,
    /// As many releases queue for the task as its `backlog` allows: this one is dropped, and counted.
    BacklogFull = 23,
    /// The server has begun another life since this handle was used last, and knows nothing of earlier calls. Nothing was delivered; the same call
    /// reaches the new life. A copy of a handle that was made for an earlier life is answered so for ever.
    PeerRestarted = 24,
    /// The task has not ended, or not all have heard of it.
    NotEnded = 25,
    /// The caller holds an engine or a token, and may not wait for this inside: its handle lacks the right `inside`. Of `sleep_until` and `next_job`: its task
    /// has no `sleeps_inside`.
    Holding = 26,
}

impl Error {
    /// The error with code `code`; `None` for success and for codes of newer kernels.
    #[must_use]
    pub fn from_code(code: u64) -> Option<Error> {
        use Error::*;
        const ALL: [Error; 26] = [
            BadCall,
            BadHandle,
            WrongKind,
            MissingRight,
            BadArgument,
            TimedOut,
            WouldDeadlock,
            ChainTooLong,
            NeedsCall,
            PeerDied,
            NotHeld,
            AlreadyHeld,
            BadToken,
            NoJobs,
            Unsupported,
            NoReplySlot,
            Overrun,
            NoHandleSlot,
            NoDerivation,
            AlreadyLent,
            EngineLost,
            TokenLost,
            BacklogFull,
            PeerRestarted,
            NotEnded,
            Holding,
        ];
        ALL.iter().copied().find(|error| *error as u64 == code)
    }
}
