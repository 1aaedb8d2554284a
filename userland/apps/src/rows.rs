//! The rows of `cargo xtask bench`, and the words by which its tasks report events to each other.
//!
//! The client logs each sample on its own, as `log(row, instructions)`; `research/src/bench.rs` sorts them. This
//! file depends on nothing, so that a host tool can include it.

/// A call and its reply, without words that matter.
pub const CALL_0: u64 = 0;
/// A call and its reply; four words are written before and read after.
pub const CALL_4: u64 = 1;
/// From a device raising its line to the first instruction of the waiting task.
pub const INTERRUPT: u64 = 2;
/// From a signal to the first instruction of a waiting task of higher priority.
pub const SIGNAL: u64 = 3;
/// From the end of a sleep to the next instruction, the CPU being idle.
pub const TIMER: u64 = 4;
/// From a yield to the first instruction of another task.
pub const YIELD: u64 = 5;
/// A system call that does nothing.
pub const NULL: u64 = 6;
/// Mapping a region of one page.
pub const MAP: u64 = 7;
/// Stopping a task that waits for the reply to its call.
pub const KILL: u64 = 8;
/// Stopping a server that owes three replies: no trap tells more than four of a death.
pub const KILL_SERVER: u64 = 9;
/// Revoking a handle of which there is one copy.
pub const REVOKE_1: u64 = 10;
/// Revoking a handle with eight copies, held by another task.
pub const REVOKE_8: u64 = 11;
/// A call and its reply, through a server that itself calls another.
pub const NESTED: u64 = 12;
/// A call and its reply, of a server in the middle of another's request, which it finishes first.
pub const BUSY: u64 = 13;
/// A call and its reply under a deadline, which is set and taken back.
pub const TIMED: u64 = 14;
/// From a server's reply to a request that it has deferred, to the next instruction of that request's client, which has a higher priority.
pub const DEFERRED: u64 = 15;
/// Acquiring an engine that is free: its doorbell is mapped.
pub const ACQUIRE: u64 = 16;
/// From sending words to the first instruction of their receiver.
pub const SEND: u64 = 17;
/// From a wait to the next instruction of another thread.
pub const WAIT: u64 = 18;
/// Unmapping a region of one page.
pub const UNMAP: u64 = 19;
/// A call that lends a region, and its reply.
pub const LEND: u64 = 20;
/// Releasing an engine that is idle and has no waiters: its doorbell is unmapped.
pub const RELEASE: u64 = 21;
/// Acquiring a mutex that is free.
pub const LOCK: u64 = 22;
/// Releasing a mutex without waiters.
pub const UNLOCK: u64 = 23;
/// From acquiring a mutex that is held to the next instruction of its holder, which inherits.
pub const BLOCK: u64 = 24;
/// From releasing a mutex to the next instruction of a waiter of higher priority.
pub const PASS_ON: u64 = 25;
/// From the instruction of a server that faults to the next instruction of the client it was serving.
pub const FAULT: u64 = 26;
/// Taking a token of which there is one free, and giving it back: two calls.
pub const TOKEN: u64 = 27;
/// From a higher-priority thread that asks for the token of a pool that has no other to the next instruction of its holder.
pub const BLOCK_TOKEN: u64 = 28;
/// Giving back that token, up to the first instruction of the thread that waited.
pub const PASS_ON_TOKEN: u64 = 29;
/// Taking two engines of one group at once, and giving them back: two calls.
pub const PAIR: u64 = 30;
/// From the signal of a driver, which runs for the thread that waits for it, to that thread's first instruction.
pub const BOTTOM: u64 = 31;

/// The name of each row.
pub const NAMES: [&str; 32] = [
    "call + reply round trip, 0 words",
    "call + reply round trip, 4 words",
    "interrupt -> user handler running",
    "signal -> higher-priority thread runs",
    "timer deadline -> waiting task running",
    "yield to another process",
    "null system call",
    "page map",
    "kill, of a client in a call",
    "kill, of a server with 3 clients",
    "revoke, 1 copy",
    "revoke, 8 copies",
    "call + reply through two servers",
    "call + reply of a busy server",
    "call + reply with a deadline",
    "deferred reply -> its client runs",
    "acquire a free engine, map its doorbell",
    "send -> higher-priority receiver runs",
    "wait -> the next thread runs",
    "page unmap",
    "call + reply with a lent region",
    "release an engine, unmap its doorbell",
    "acquire a free mutex",
    "release a mutex",
    "acquire a held mutex -> its holder runs",
    "release -> higher-priority waiter runs",
    "fault of a server -> its client is told",
    "acquire + release of a free token",
    "acquire a held token -> its holder runs",
    "release a token -> its waiter runs",
    "acquire + release of two free engines",
    "bottom half signals -> its client runs",
];

/// Samples of each row, but for those that take a life each.
pub const SAMPLES: usize = 64;
/// Clients that are stopped.
pub const CLIENTS: [&str; 2] = ["victim1", "victim2"];
/// Servers that are stopped.
pub const SERVERS: [&str; 2] = ["doomed1", "doomed2"];
/// Servers that fault.
pub const FAULTY: [&str; 2] = ["faulty1", "faulty2"];
/// Rounds before them that are not counted.
pub const WARM_UP: usize = 16;

/// The most copies of a handle that are revoked at once.
pub const COPIES: usize = 8;

/// Event bit of the client's signals.
pub const SIGNALLED: u64 = 1;
/// Event bit of the interrupt, as the manifest gives it.
pub const INTERRUPTED: u64 = 2;

/// Event bit that tells the rival to read the counter before it acquires.
pub const BEFORE: u64 = 1;
/// The counter afterwards. One reading, because a profiler takes two for a sample.
pub const AFTER: u64 = 2;
/// That it is the token, not the mutex.
pub const FOR_A_TOKEN: u64 = 4;

/// Values of the parameter `role` of `bench-peer`.
pub mod role {
    /// Answers calls.
    pub const SERVER: u64 = 0;
    /// Waits for signals and interrupts, above the client.
    pub const WAITER: u64 = 1;
    /// Yields for ever, at the client's level, once it is told to go.
    pub const YIELDER: u64 = 2;
    /// Takes requests and answers none.
    pub const MUTE: u64 = 3;
    /// Calls a server: in its first job, or at once if it has none.
    pub const CALLER: u64 = 4;
    /// Keeps the handles it is given, and gives them up when a request brings none.
    pub const KEEPER: u64 = 5;
    /// Answers each call with another server's answer to it.
    pub const FRONT: u64 = 6;
    /// Hurries a peer to call, in the middle of a request that does not say [`super::HURRIED`].
    pub const BUSY: u64 = 7;
    /// Calls the busy one when it is told to, above the client.
    pub const HURRIED: u64 = 8;
    /// Keeps one request until the next one comes, and answers the earlier one first.
    pub const DEFERRING: u64 = 9;
    /// The owner of that request, above the client.
    pub const DEFERRED: u64 = 10;
    /// Takes one request, and faults.
    pub const FAULTY: u64 = 11;
    /// Receives sent messages, above the client.
    pub const INBOX: u64 = 12;
    /// Waits for signals, above the client, and leaves behind when it did.
    pub const PATIENT: u64 = 13;
    /// Acquires a mutex when it is told to, above the client, and gives it back.
    pub const RIVAL: u64 = 14;
    /// Signals the notification that its client waits for, once it is told to.
    pub const DRIVER: u64 = 15;
    /// Waits for the driver, above the client.
    pub const HELPED: u64 = 16;
}

/// First word of a request that comes from a peer, not from the client.
pub const HURRIED: u64 = 1;

/// Offset in the region `samples` of the instant at which a peer ran.
pub const STAMP: usize = 0;
/// The instant from which on it could have.
pub const SINCE: usize = 8;

/// Registers of the PL031 clock, the device that interrupts on request (Arm DDI 0224C, table 3-1).
///
/// Its raw status is made one once, and stays so; the line then follows the mask.
pub mod clock {
    /// The time, in seconds.
    pub const DATA: usize = 0x00;
    /// The time that sets the raw status.
    pub const MATCH: usize = 0x04;
    /// One: the raw status reaches the line.
    pub const MASK: usize = 0x10;
    /// The raw status.
    pub const RAW: usize = 0x14;
}

/// The rows of `bench-crowd`, and the roles of its tasks.
pub mod crowd {
    /// A release that preempts no thread: the interruption of the running one.
    pub const RELEASE: u64 = 0;
    /// From a release to the first instruction of the job, which preempts.
    pub const SWITCH: u64 = 1;
    /// From the end of a job to the next instruction of the one that was preempted.
    pub const SCHEDULE: u64 = 2;
    /// A call that releases a job on another CPU and kicks it.
    pub const SEND: u64 = 3;
    /// From there to the first instruction of that job on the other CPU.
    pub const KICK: u64 = 4;

    /// The name of each row.
    pub const NAMES: [&str; 5] = [
        "release, nobody is preempted",
        "release -> first instruction of the job",
        "end of a job -> next instruction of another",
        "release by a call, with a kick",
        "kick -> first instruction of the job",
    ];

    /// Jobs that are measured.
    pub const ROUNDS: u64 = 64;

    /// Values of the parameter `role`.
    pub mod role {
        /// One of many.
        pub const CROWD: u64 = 0;
        /// Runs while no other task does, and sees when it does not.
        pub const WATCHER: u64 = 1;
        /// Preempts it.
        pub const JOB: u64 = 2;
        /// Releases jobs of another task.
        pub const RELEASER: u64 = 3;
        /// Runs them on another CPU.
        pub const REMOTE: u64 = 4;
    }
}
