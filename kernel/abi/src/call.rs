//! System-call numbers, the registers they use, and handles.
//!
//! A call is `svc #0` with the number in `x8`. Arguments: `x0` is a handle or the first argument, `x1` the
//! second; `x2..x8` are the six message words; `x9` is the absolute deadline of a blocking call in
//! nanoseconds ([`NEVER`] never ends it); `x10` is a reply token. Results: `x0` is zero or an
//! [`Error`](crate::Error) code, `x1` a value or the sender's badge, `x2..x8` message words, `x10` a reply
//! token. All other registers are preserved.
//!
//! A message may carry one handle: `x11` is the handle given, `x12` the mask of the rights that the receiver's copy
//! keeps. `call_with` and `send` look at them (`x11` zero: none), a reply if its token has bit [`CARRIES`] set. A server
//! learns of a handle by the same bit of `x1`, and finds it in `x11`; in the result of `call_with`, `x11` is the handle
//! that came with the reply, or zero. No other task is given any.
//!
//! If `x11` of a `call_with` is a region, it is lent until the call ends, and `x12` the mask of the server's rights to
//! it. The server learns of it by bit [`LENT`] of `x1`, and finds its own handle to the region in `x11`; it may store to it
//! if [`WRITABLE`] is set as well.

/// Words a message carries in registers.
pub const MESSAGE_WORDS: usize = 6;
/// The register that holds the first message word.
pub const FIRST_WORD: usize = 2;
/// The register that holds the call number.
pub const NUMBER: usize = 8;
/// The register that holds the deadline of a blocking call.
pub const DEADLINE: usize = 9;
/// The register that holds a reply token.
pub const TOKEN: usize = 10;
/// The register that holds the handle a message carries.
pub const GIVEN: usize = 11;
/// The register that holds the mask of rights kept by the copy of a handle that is given.
pub const KEPT: usize = 12;
/// Set in the reply token: the reply carries a handle. Set in `x1` of a request received: it carried one.
pub const CARRIES: u64 = 1 << 63;
/// Set in `x1` of a request received: a region is lent with it.
pub const LENT: u64 = 1 << 62;
/// Set together with [`LENT`]: the region may be written.
pub const WRITABLE: u64 = 1 << 61;
/// Set in `x1` of a request received: it is a store to a doorbell, of the client with the number in the other bits; the first word is the value to
/// be stored. The first word of the reply is [`GO_ON`] or [`AGAIN`].
pub const STORED: u64 = 1 << 60;
/// Answer to a store: it is done, the client goes on behind it.
pub const GO_ON: u64 = 0;
/// Answer to a store: the client makes it again.
pub const AGAIN: u64 = 1;
/// Event bit of the notification of a device's line: engine 0 of the device must be reset. That of engine *n* is *n* bits higher.
pub const RESET: u64 = 1 << 32;
/// A deadline that never comes.
pub const NEVER: u64 = u64::MAX;

/// The number of a system call, as found in `x8`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Call {
    /// `call(endpoint, _, words, deadline)`: sends a request, donates, waits for the reply.
    Call = 0,
    /// `reply_receive(endpoint, _, words, deadline, token)`: answers `token` (zero: none), then receives.
    ReplyReceive = 1,
    /// `send(endpoint, _, words, deadline, handle, mask)`: a request without donation; refused if the server has no
    /// budget of its own.
    Send = 2,
    /// `receive(endpoint, _, deadline)`: the first half of a server's life.
    Receive = 3,
    /// `signal(notification, bits)`: sets event bits; wakes the waiter.
    Signal = 4,
    /// `wait(notification, _, deadline)`: takes all event bits, waiting until there is one. Bits in `x1`.
    Wait = 5,
    /// `next_job()`: completes this job; waits for the next release. `x1` number, `x2` release, `x3`
    /// deadline, `x4` lateness of the completed job (signed), `x5` releases skipped, `x6` times the completed
    /// job used up its budget.
    NextJob = 6,
    /// `release_job(task, upto)`: releases a job of a sporadic task, not before its period has passed. With `upto` not zero: only if its
    /// job of this number has not been released; `x1` is then how many are missing up to that one.
    ReleaseJob = 7,
    /// `early_release()`: this job takes the budget and the deadline of the next, which is dropped.
    EarlyRelease = 8,
    /// `yield()`: lets the next of equal or later key run once.
    Yield = 9,
    /// `acquire(engine, _, deadline)`: takes the engine's lock; maps its doorbell. Of a pool: takes a token, `x1` says
    /// which.
    Acquire = 10,
    /// `release(engine)`: gives the lock back; unmaps the doorbell. Or the token of a pool. Never blocks.
    Release = 11,
    /// `should_yield(engine)`: `x1` is one if an earlier key waits for the engine, or for a token of the pool.
    ShouldYield = 12,
    /// `acquire_group(engine, _, engine, deadline)`: takes the locks of two engines of one group, `x0` and `x2`, at once.
    /// `release` of one of them gives both back.
    AcquireGroup = 13,
    /// `share(doorbells, members and page)`: clients of an engine without its lock, a bit each below [`PAGE_SHIFT`], have the [`page`] above it in the place of their doorbell.
    /// When it returns, no store that is not allowed any more is under way.
    Share = 14,
    /// `engine_complete(interrupt, bits)`: the engines of that line's device that these bits asked to be reset ([`RESET`]) have
    /// been, and are idle.
    EngineComplete = 15,
    /// `map(region)`: maps the region at its place; at most 16 pages a trap, restarted by the kernel.
    Map = 16,
    /// `unmap(region)`.
    Unmap = 17,
    /// `dma(region, value)`: of registers of a device with translated addresses: with one, the device reaches the memory that the manifest gives it,
    /// with zero none, as at boot and from its driver's end on. Of the page of DMA faults: those before number `value` have been
    /// read, if that has 32 bits; `x1` is the number of the next to come, and above its 32 bits that of the first not yet read.
    Dma = 18,
    /// `revoke(handle, gives_up)`: from now on all copies of the handle are void, and their copies; with a second
    /// argument of one, the handle itself is given up. Constant time.
    Revoke = 19,
    /// `interrupt_ack(interrupt)`: the line may fire again.
    InterruptAck = 20,
    /// `now()`: `x1` is the time since boot in nanoseconds, `x2` the time that this thread has been charged.
    Now = 21,
    /// `sleep_until(_, _, deadline)`: `x9` is the instant of waking.
    SleepUntil = 22,
    /// `start(task)`: a dormant task begins, as for `restart`; it may have ended before. `x1` is the number of its life, zero at first.
    Start = 23,
    /// `stop(task)`: ends the task, at any instant and on any CPU.
    Stop = 24,
    /// `restart(task)`: gives a task that has ended another life: handles, engines, regions and addresses are as at boot, and it begins at
    /// its first instruction, with the number of the life in `x1`. The used part of its budget stays used. `x1` is that number. Constant time.
    Restart = 25,
    /// `set_reservation(task, _, words)`: the budget of a dormant task that has ended, or not begun, from its next start on, in nanoseconds: `x2`
    /// each `x3`. No more than the manifest declares, and no more often. Releases by the clock go on from the next one that there would have been.
    /// Constant time.
    SetReservation = 26,
    /// `read_fault(task)`: how a task ended last. `x1` is one of [`ending`], `x2` its life then, `x3` when that was; `x4` is the exit code, or of a
    /// fault the syndrome, `x5` the address it touched, or all ones, and `x6` that of the instruction; of a task that was stopped, `x4` is
    /// the index of the one that did so, plus one.
    ReadFault = 27,
    /// `exit(handle, code)`: ends this task; with a handle to the system, ends the system.
    Exit = 28,
    /// `log(value, value)`: writes two numbers to the trace.
    Log = 29,
    /// `null()`: does nothing; the price of a trap.
    Null = 30,
    /// `call_with(endpoint, _, words, deadline, handle, mask)`: as `call`; request and reply may each carry a handle, or the
    /// request lends a region.
    CallWith = 31,
}

impl Call {
    /// The call with number `number`, if there is one.
    #[must_use]
    #[inline]
    pub fn from_number(number: u64) -> Option<Self> {
        use Call::{
            Acquire, AcquireGroup, CallWith, Dma, EarlyRelease, EngineComplete, Exit, InterruptAck, Log, Map, NextJob,
            Now, Null, ReadFault, Receive, Release, ReleaseJob, ReplyReceive, Restart, Revoke, Send, SetReservation,
            Share, ShouldYield, Signal, SleepUntil, Start, Stop, Unmap, Wait, Yield,
        };
        const ALL: [self::Call; 32] = [
            self::Call::Call,
            ReplyReceive,
            Send,
            Receive,
            Signal,
            Wait,
            NextJob,
            ReleaseJob,
            EarlyRelease,
            Yield,
            Acquire,
            Release,
            ShouldYield,
            AcquireGroup,
            Share,
            EngineComplete,
            Map,
            Unmap,
            Dma,
            Revoke,
            InterruptAck,
            Now,
            SleepUntil,
            Start,
            Stop,
            Restart,
            SetReservation,
            ReadFault,
            Exit,
            Log,
            Null,
            CallWith,
        ];
        usize::try_from(number).ok().and_then(|index| ALL.get(index).copied())
    }
}

/// The name of an object for a task: a slot of its handle table and the generation it was filled in.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(transparent)]
pub struct HandleValue(pub u64);

impl HandleValue {
    /// The handle to slot `slot` at `generation`.
    #[must_use]
    pub const fn new(slot: u16, generation: u64) -> Self {
        Self(slot as u64 | generation << 16)
    }

    /// The slot this handle claims.
    #[must_use]
    #[inline]
    pub const fn slot(self) -> u16 {
        self.0 as u16
    }

    /// The generation this handle claims, 48 bits.
    #[must_use]
    #[inline]
    pub const fn generation(self) -> u64 {
        self.0 >> 16
    }
}

/// Where the number of a [`page`] begins in the second argument of `share`.
pub const PAGE_SHIFT: u32 = 32;

/// The page in the place of the doorbell of a client without a lock.
pub mod page {
    /// Nothing: loads and stores are requests to the engine's sharer, and loads cannot be answered.
    pub const ABSENT: u64 = 0;
    /// The doorbell, to be read: a store is a request to the sharer.
    pub const READ_ONLY: u64 = 1;
    /// The doorbell.
    pub const OPEN: u64 = 2;
    /// Memory that no device looks at: a store succeeds, and reaches nothing but that.
    pub const SHADOW: u64 = 3;
}

/// How a task ended, as `read_fault` says it.
pub mod ending {
    /// The task has not ended, since its last start.
    pub const NONE: u64 = 0;
    /// By `exit`.
    pub const EXITED: u64 = 1;
    /// The task made a forbidden access.
    pub const FAULTED: u64 = 2;
    /// Another task ended it.
    pub const STOPPED: u64 = 3;
}

/// The uses of an object that a handle allows. Rights only shrink when a handle is copied.
pub mod rights {
    /// Call an endpoint.
    pub const CALL: u32 = 1;
    /// Send to an endpoint.
    pub const SEND: u32 = 1 << 1;
    /// Serve an endpoint.
    pub const RECEIVE: u32 = 1 << 2;
    /// Signal a notification.
    pub const SIGNAL: u32 = 1 << 3;
    /// Wait for a notification.
    pub const WAIT: u32 = 1 << 4;
    /// Release jobs of a sporadic task.
    pub const RELEASE_JOB: u32 = 1 << 5;
    /// Acquire and release an engine, or a token of a pool.
    pub const ACQUIRE: u32 = 1 << 6;
    /// Map and unmap a region; decide on the doorbells of an engine's clients without its lock.
    pub const MAP: u32 = 1 << 7;
    /// Acknowledge an interrupt.
    pub const ACKNOWLEDGE: u32 = 1 << 8;
    /// End the whole system.
    pub const SHUTDOWN: u32 = 1 << 9;
    /// End a task.
    pub const STOP: u32 = 1 << 10;
    /// Give a task that has ended another life, or start a dormant one, and read how it ended. The bit is another one's, of engines: no object has both.
    pub const RESTART: u32 = ACQUIRE;
    /// Say how many jobs of a sporadic task may be released. The bit is another one's, of interrupts: no object has both.
    pub const CREDIT: u32 = ACKNOWLEDGE;
    /// Give copies of an endpoint, notification or task away in messages.
    pub const GRANT: u32 = 1 << 11;
    /// Read a region.
    pub const READ: u32 = 1 << 12;
    /// Write a region.
    pub const WRITE: u32 = 1 << 13;
    /// Lend a region to servers.
    pub const LEND: u32 = 1 << 14;
    /// Reach a region while it is lent to the holder, and only then.
    pub const LENT: u32 = 1 << 15;
    /// Wait for the handle's object while holding an engine or a token. The bit is another one's, of regions: no object has both.
    pub const INSIDE: u32 = READ;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_names_the_call_it_belongs_to() {
        for number in 0..32 {
            assert_eq!(Call::from_number(number).map(|call| call as u64), Some(number));
        }
        assert_eq!(Call::from_number(32), None);
        assert_eq!(Call::from_number(u64::MAX), None);
    }
}
