//! Why a call was refused or ended early: one enum for each kind of call.
//!
//! Each lists the errors of that call in a correct system, plus two variants common to all: the handle itself was
//! refused, or the kernel answered something this call does not document (a newer kernel).

use fusee_abi::Error;

/// The fault of a handle in a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HandleError {
    /// The handle was revoked, or the object's task has died since.
    Stale,
    /// The handle names an object of another kind.
    WrongKind,
    /// The handle does not carry the right this call needs; or it is to be given away without a right that is left.
    MissingRight,
}

impl HandleError {
    fn of(error: Error) -> Option<Self> {
        match error {
            Error::BadHandle => Some(Self::Stale),
            Error::WrongKind => Some(Self::WrongKind),
            Error::MissingRight => Some(Self::MissingRight),
            _ => None,
        }
    }
}

macro_rules! call_errors {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])* $variant:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum $name {
            $($(#[$meaning])* $variant,)*
            /// The handle was refused.
            Handle(HandleError),
            /// The kernel gave a reason this call does not know; `None` for a code newer than this crate.
            Unexpected(Option<Error>),
        }

        impl $name {
            /// The error behind a code other than zero.
            #[cold]
            pub(crate) fn from_code(code: u64) -> Self {
                match Error::from_code(code) {
                    $(Some(Error::$variant) => Self::$variant,)*
                    Some(error) => HandleError::of(error).map_or(Self::Unexpected(Some(error)), Self::Handle),
                    None => Self::Unexpected(None),
                }
            }

            /// `Ok` for code zero.
            #[inline]
            pub(crate) fn check(code: u64) -> Result<(), Self> {
                if code == 0 { Ok(()) } else { Err(Self::from_code(code)) }
            }
        }
    };
}

call_errors! {
    /// Why [`Endpoint::call`](crate::Endpoint::call) brought no reply.
    CallError {
        /// The server has begun another life since this task called it last, and knows nothing of earlier calls. Nothing was delivered; the next call
        /// reaches it.
        PeerRestarted,
        /// The deadline passed first.
        TimedOut,
        /// The server waits, directly or through others, for the caller.
        WouldDeadlock,
        /// Too many tasks already wait for each other in a row.
        ChainTooLong,
        /// The server died, or dropped the request.
        PeerDied,
        /// Too many callers are queued at the endpoint.
        BadArgument,
    }
}

call_errors! {
    /// Why [`Endpoint::send`](crate::Endpoint::send) was refused.
    SendError {
        /// As [`CallError::PeerRestarted`].
        PeerRestarted,
        /// The deadline passed first.
        TimedOut,
        /// The server has no budget of its own: it can only be called.
        NeedsCall,
        /// The server died.
        PeerDied,
        /// Too many callers are queued at the endpoint.
        BadArgument,
    }
}

call_errors! {
    /// Why [`Endpoint::call_with`](crate::Endpoint::call_with) brought no reply.
    CallWithError {
        /// As [`CallError::PeerRestarted`].
        PeerRestarted,
        /// The deadline passed first.
        TimedOut,
        /// The server waits, directly or through others, for the caller.
        WouldDeadlock,
        /// Too many tasks already wait for each other in a row, or the handle given is a copy of too many copies.
        ChainTooLong,
        /// The server died, or dropped the request.
        PeerDied,
        /// Too many callers are queued at the endpoint.
        BadArgument,
        /// The server's handle table is full.
        NoHandleSlot,
        /// As many handles have been copied as the kernel can keep track of.
        NoDerivation,
    }
}

call_errors! {
    /// Why [`Endpoint::call_lending`](crate::Endpoint::call_lending) brought no reply.
    CallLendingError {
        /// As [`CallError::PeerRestarted`].
        PeerRestarted,
        /// The deadline passed first.
        TimedOut,
        /// The server waits, directly or through others, for the caller.
        WouldDeadlock,
        /// Too many tasks already wait for each other in a row.
        ChainTooLong,
        /// The server died, or dropped the request.
        PeerDied,
        /// Too many callers are queued at the endpoint.
        BadArgument,
        /// The server has no place for the region.
        NoHandleSlot,
        /// The region is lent already, by another task that has it.
        AlreadyLent,
    }
}

impl From<CallError> for CallLendingError {
    /// A call that lends nothing ends for some of the reasons for which one that does may end.
    fn from(error: CallError) -> Self {
        match error {
            CallError::TimedOut => Self::TimedOut,
            CallError::WouldDeadlock => Self::WouldDeadlock,
            CallError::ChainTooLong => Self::ChainTooLong,
            CallError::PeerDied => Self::PeerDied,
            CallError::PeerRestarted => Self::PeerRestarted,
            CallError::BadArgument => Self::BadArgument,
            CallError::Handle(error) => Self::Handle(error),
            CallError::Unexpected(error) => Self::Unexpected(error),
        }
    }
}

call_errors! {
    /// Why [`Endpoint::send_with`](crate::Endpoint::send_with) was refused.
    SendWithError {
        /// As [`CallError::PeerRestarted`].
        PeerRestarted,
        /// The deadline passed first.
        TimedOut,
        /// The server has no budget of its own: it can only be called.
        NeedsCall,
        /// The server died.
        PeerDied,
        /// Too many callers are queued at the endpoint.
        BadArgument,
        /// The handle given is a copy of too many copies.
        ChainTooLong,
        /// The server's handle table is full.
        NoHandleSlot,
        /// As many handles have been copied as the kernel can keep track of.
        NoDerivation,
    }
}

call_errors! {
    /// Why a client could not be given a handle with its reply.
    GiveError {
        /// The handle is a copy of too many copies.
        ChainTooLong,
        /// The client takes no handle, or its handle table is full.
        NoHandleSlot,
        /// As many handles have been copied as the kernel can keep track of.
        NoDerivation,
    }
}

call_errors! {
    /// Why a handle was neither revoked nor given up.
    RevokeError {
    }
}

call_errors! {
    /// Why a [`Server`](crate::Server) got no request.
    ServeError {
        /// The deadline passed first.
        TimedOut,
        /// The client that was to be answered is gone.
        BadToken,
        /// This server owes as many replies as it may.
        NoReplySlot,
        /// Waiting would close a cycle.
        WouldDeadlock,
        /// Too many tasks already wait for each other in a row.
        ChainTooLong,
    }
}

call_errors! {
    /// Why a signal was refused.
    SignalError {
        /// No bit was set.
        BadArgument,
    }
}

call_errors! {
    /// Why a wait ended without an event.
    WaitError {
        /// The deadline passed first.
        TimedOut,
        /// The task that is to signal waits for the caller.
        WouldDeadlock,
        /// Too many tasks already wait for each other in a row.
        ChainTooLong,
        /// The task that was to signal died.
        PeerDied,
        /// Another task waits already.
        BadArgument,
        /// The job has used up its budget: clean up and end it.
        Overrun,
    }
}

call_errors! {
    /// Why a task did not simply go on after it yielded.
    YieldError {
        /// The job has used up its budget: clean up and end it.
        Overrun,
    }
}

call_errors! {
    /// Why there is no next job.
    JobError {
        /// The manifest gives this task no jobs.
        NoJobs,
    }
}

call_errors! {
    /// Why a job of another task was not released.
    ReleaseJobError {
        /// The manifest gives that task no sporadic jobs.
        NoJobs,
        /// That task died.
        PeerDied,
        /// As many releases queue for it as its `backlog` allows: this one is dropped, and counted.
        BacklogFull,
    }
}

call_errors! {
    /// Why a task was not given credit for all its jobs up to a number.
    CreditError {
        /// The manifest gives that task no sporadic jobs.
        NoJobs,
        /// That task died.
        PeerDied,
        /// As many releases queue for it as its `backlog` allows: say it again later. Nothing is lost.
        BacklogFull,
    }
}

call_errors! {
    /// Why another task was not ended.
    StopError {}
}

call_errors! {
    /// Why a task was not given another life, or it was not said how its last one ended.
    RestartError {
        /// The task has not ended, or not all have been notified. The notification `ends` reports that they have.
        NotEnded,
        /// This kernel does not offer the call.
        Unsupported,
    }
}

call_errors! {
    /// Why a dormant task keeps the budget that it had.
    ReservationError {
        /// The task has not ended, or not all have been notified.
        NotEnded,
        /// More than the manifest declares, or more often, or less than 40 us; or the manifest declares no budget.
        BadArgument,
        /// This kernel does not offer the call.
        Unsupported,
    }
}

call_errors! {
    /// Why doorbells stayed as they were.
    ShareError {
        /// The engine has fewer clients without its lock.
        BadArgument,
    }
}

call_errors! {
    /// Why an engine was not granted.
    AcquireError {
        /// The deadline passed first.
        TimedOut,
        /// Waiting would close a cycle.
        WouldDeadlock,
        /// Too many tasks already wait for each other in a row.
        ChainTooLong,
        /// The task holds this engine already.
        AlreadyHeld,
        /// The engine's driver died, and an operation has yet to end.
        PeerDied,
        /// The job has used up its budget: clean up and end it.
        Overrun,
        /// Engines that were to be acquired at once are not of one group.
        BadArgument,
        /// The engine takes a token, which is not held.
        NotHeld,
        /// Tokens of a pool that clusters share are for jobs: the first has not begun.
        NoJobs,
        /// The engine's last operation did not end, and its driver has not reset it in time.
        EngineLost,
        /// The token for the engine was taken away: it was not given back in time.
        TokenLost,
    }
}

call_errors! {
    /// Why a held engine was not found held.
    EngineError {
        /// The task does not hold it.
        NotHeld,
        /// The lock was taken away: the engine was not idle and given back in time.
        EngineLost,
        /// The token was taken away: it was not given back in time.
        TokenLost,
    }
}

call_errors! {
    /// Why an interrupt was not acknowledged.
    AcknowledgeError {
        /// The line does not wait for it.
        BadArgument,
    }
}

call_errors! {
    /// Why the kernel did not hear that an engine has been reset.
    CompleteError {
        /// That engine is not to be reset, or it still works.
        BadArgument,
    }
}

call_errors! {
    /// Why a region was not mapped or unmapped.
    RegionError {
        /// The device is in this state already.
        BadArgument,
        /// This kernel does not offer the call.
        Unsupported,
    }
}

call_errors! {
    /// The reason for which a device's reach was not changed.
    DmaError {
        /// No SMMU translates the addresses of the device in this region, or another task is its driver.
        Unsupported,
    }
}

call_errors! {
    /// Why a sleep ended early.
    SleepError {
        /// The instant is out of range.
        BadArgument,
        /// The job has used up its budget: clean up and end it.
        Overrun,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_becomes_the_reason_its_call_documents() {
        assert_eq!(CallError::from_code(Error::PeerDied as u64), CallError::PeerDied);
        assert_eq!(CallError::from_code(Error::MissingRight as u64), CallError::Handle(HandleError::MissingRight));
        assert_eq!(CallError::from_code(Error::NoJobs as u64), CallError::Unexpected(Some(Error::NoJobs)));
        assert_eq!(CallError::from_code(1 << 40), CallError::Unexpected(None));
        assert_eq!(CallError::check(0), Ok(()));
    }
}
