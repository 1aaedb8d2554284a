//! The binary trace: one 32-byte record per event, in one ring per CPU.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One event.
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Record {
    /// Nanoseconds since the kernel's time zero.
    pub time: u64,
    /// Counts the records of all CPUs, from one: the first decision under the kernel's lock has the lower number. Zero: it was not
    /// written by a kernel.
    pub number: u64,
    /// An [`Event`], as a number.
    pub event: u8,
    /// The CPU that wrote the record.
    pub cpu: u8,
    /// The thread it is about, index + 1; zero: none.
    pub thread: u16,
    /// The thread's job at that moment; zero before its first release.
    pub job: u32,
    /// The object of the record; each [`Event`] declares its kind.
    pub object: u32,
    /// A number; each [`Event`] declares its meaning.
    pub value: u32,
}

impl Record {
    /// How late the job was that completed: nanoseconds after its deadline. Of an [`Event::Complete`].
    #[must_use]
    pub const fn lateness(&self) -> i64 {
        let value = self.value.cast_signed();
        let upper = self.object.cast_signed() ^ (value >> 31);
        (upper as i64) << 32 | self.value as i64
    }

    /// How long after its release the deadline of a job is: nanoseconds, of whole microseconds. Of an [`Event::Release`].
    #[must_use]
    pub const fn relative_deadline(&self) -> u64 {
        ((self.object as u64) << 32 | self.value as u64).saturating_mul(1_000)
    }

    /// `object` and `value` of an [`Event::Complete`]. The upper half is written as it differs from the sign of the lower one, so it is zero where a lateness
    /// has 32 bits.
    #[must_use]
    pub const fn lateness_words(lateness: i64) -> (u32, u32) {
        let value = lateness as i32;
        let upper = (lateness >> 32) as i32 ^ (value >> 31);
        (upper.cast_unsigned(), value.cast_unsigned())
    }
}

/// How much a kernel keeps in its trace: each level keeps all records of the one before it, too.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Level {
    /// Nothing: there are no rings.
    Off,
    /// The records by which a run is judged: faults, ends of tasks, marks of tasks, and ledgers.
    Marks,
    /// Each decision of the scheduler, of locks and of calls.
    #[default]
    Schedule,
    /// Each trap, too: how long it took, and how long it waited for the kernel's lock.
    Full,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 4] = [Level::Off, Level::Marks, Level::Schedule, Level::Full];

    /// The name of the level in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Marks => "marks",
            Level::Schedule => "schedule",
            Level::Full => "full",
        }
    }

    /// Whether decisions are kept.
    #[must_use]
    pub const fn keeps_schedule(self) -> bool {
        self as u8 >= Level::Schedule as u8
    }

    /// Whether traps are kept.
    #[must_use]
    pub const fn keeps_traps(self) -> bool {
        self as u8 >= Level::Full as u8
    }
}

/// The kind of a record. `object` and `value` are zero where nothing is said.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Event {
    /// A job was released. `value`: relative deadline in microseconds, and in `object` the part that does not fit ([`Record::relative_deadline`]).
    Release = 1,
    /// A job completed. `value`: lateness in nanoseconds, and in `object` the part that does not fit ([`Record::lateness`]).
    Complete = 2,
    /// The thread starts to run on this CPU. `object`: the reservation it runs on. `value`: the key of that, as [`key_word`].
    SwitchTo = 3,
    /// The thread stops running on this CPU.
    SwitchAway = 4,
    /// The CPU has nothing to run.
    Idle = 5,
    /// The thread suspends. `object`: the object that it waits for (`value`: the call's number).
    Block = 6,
    /// The thread is ready again. `object`: the thread that has woken it, index + 1, or [`BY_INTERRUPT`] + an interrupt, index + 1; zero: its
    /// deadline or another event of time.
    Resume = 7,
    /// A reservation ran dry. `object`: the reservation. `value`: overshoot in nanoseconds.
    Throttle = 8,
    /// A reservation was refilled. `object`: the reservation.
    Replenish = 9,
    /// The thread asks for an engine. `object`: the engine.
    EngineRequest = 10,
    /// The thread is granted an engine. `object`: the engine. No thread: its gate is opened to clients without a lock.
    EngineGrant = 11,
    /// The thread gives an engine back. `object`: the engine. No thread: its gate is shut.
    EngineRelease = 12,
    /// An engine is idle after a release. `object`: the engine. `value`: microseconds since its grant.
    EngineIdle = 13,
    /// The thread called a server. `object`: the endpoint. `value`: one if it does not wait for an answer (`send`).
    Call = 14,
    /// The thread (a client) was answered. `object`: the server thread, index + 1.
    Reply = 15,
    /// An interrupt's top half ran. `object`: the interrupt.
    Interrupt = 16,
    /// A release was skipped.
    Skip = 17,
    /// A thread faulted. `object`: low word of the syndrome. `value`: kind (see `kernel/core`).
    Fault = 18,
    /// One register of a faulting thread. `object`: number (31 sp, 32 pc, 33 state, 34 fault address).
    /// `job`/`value`: high and low half.
    FaultRegister = 19,
    /// `log` of a task. `job` / `value`: high and low half of the second argument; `object`: low half of the
    /// first, the key. Keys from [`DEFMT_FRAME`] on carry frames of `defmt`, those from [`LOG_TEXT`] on messages, those from
    /// [`PANIC_TEXT`] on that of a panic.
    Log = 20,
    /// One line of a ledger. `object`: a [`Ledger`] in the high 16 bits, an index in the low ones.
    /// `job`/`value`: high and low half of the amount.
    Ledger = 21,
    /// The system ends. `value`: exit code.
    Shutdown = 22,
    /// A task ended by itself. `value`: its code.
    Exit = 23,
    /// The kernel kicked another CPU. `object`: that CPU.
    Kick = 24,
    /// A job that used up its budget is told so. `object`: its reservation.
    Overrun = 25,
    /// A job takes the budget and the deadline of the next. `object`: its reservation.
    EarlyRelease = 26,
    /// A task was ended by another. `object`: that thread, index + 1.
    Stop = 27,
    /// A region is lent to the thread (a server), with the request that it takes. `object`: the region, index + 1.
    Lend = 28,
    /// A region that was lent to the thread is its no more. `object`: the region, index + 1.
    TakeBack = 29,
    /// The thread asks for a token. `object`: the pool.
    TokenRequest = 30,
    /// The thread is granted a token. `object`: the pool. `value`: which.
    TokenGrant = 31,
    /// The thread gives a token back. `object`: the pool. `value`: which.
    TokenRelease = 32,
    /// An engine is taken from the thread: it was not idle, and given back, in time. `object`: the engine. `value`: one if its
    /// driver must reset it; zero if it is idle.
    EngineTaken = 33,
    /// An engine has not been reset in time, and its last operation was the thread's. `object`: the engine.
    EngineLost = 34,
    /// A token is taken from the thread: it was not given back in time. `object`: the pool.
    TokenTaken = 35,
    /// The thread, which runs, goes on on another reservation. `object` and `value`: as of [`Event::SwitchTo`].
    RunOn = 36,
    /// A trap through the kernel ends at this record's time. The thread: which had trapped, or was interrupted. `object`: nanoseconds that the
    /// trap waited for the kernel's lock. `value`: nanoseconds since it began, that wait included. `job`: the number of the call, or
    /// [`TRAP_FAULT`], [`TRAP_TIMER`], [`TRAP_KICK`], or [`BY_INTERRUPT`] + an interrupt, index + 1.
    Trap = 37,
    /// The thread, which had ended, begins again. `object`: the thread that has asked for it, index + 1. `value`: the number of its life.
    Restart = 38,
}

/// In [`Event::Trap`] causes other than calls: a fault of the thread,
pub const TRAP_FAULT: u32 = 1 << 8;
/// the CPU's timer,
pub const TRAP_TIMER: u32 = 2 << 8;
/// and an interrupt from another CPU.
pub const TRAP_KICK: u32 = 3 << 8;

/// Added to the number of an interrupt where an object could be a thread: in [`Event::Resume`].
pub const BY_INTERRUPT: u32 = 1 << 16;

/// Key words of reservations behind all jobs: service,
pub const SERVICE_KEY: u32 = u32::MAX - 1;
/// and background.
pub const BACKGROUND_KEY: u32 = u32::MAX;

/// A priority point in a record: its microseconds, modulo 2^32, but for the numbers above.
#[must_use]
pub const fn key_word(point: u64) -> u32 {
    let word = (point / 1_000) as u32;
    if word >= SERVICE_KEY { SERVICE_KEY - 1 } else { word }
}

/// Added to the number of a pool where an object could be an engine: in [`Event::Block`].
pub const POOL: u32 = 1 << 16;

/// Exit code of a task that panicked.
pub const PANIC_CODE: u64 = 101;

/// Keys of `log` from this one on carry the message of a panic: key `PANIC_TEXT + n` its bytes `8 n` to `8 n + 7`, little endian,
/// padded with zeros. So a task without a console is heard, too.
pub const PANIC_TEXT: u32 = 0xffff_ff00;

/// The first of the keys for messages that a task logs. A new one begins with this key.
pub const LOG_TEXT: u32 = 0xffff_fe00;

/// Bytes of such a message, at most; the rest is cut.
pub const TEXT_BYTES: usize = 512;

/// The first of the keys for frames of the crate `defmt`, in its encoding rzCOBS, of which a zero byte is the end.
pub const DEFMT_FRAME: u32 = 0xffff_fd00;

/// Bytes of a frame before it is encoded, at most; the rest is cut. Encoded it has at most one byte more for each 134 begun, and
/// its end: no more than [`TEXT_BYTES`].
pub const DEFMT_BYTES: usize = 504;

const _: () = assert!(PANIC_TEXT as u64 + (TEXT_BYTES as u64).div_ceil(8) - 1 <= u32::MAX as u64);
const _: () = assert!(LOG_TEXT + (TEXT_BYTES as u32).div_ceil(8) <= PANIC_TEXT);
const _: () = assert!(DEFMT_FRAME + (TEXT_BYTES as u32).div_ceil(8) <= LOG_TEXT);
const _: () = assert!(DEFMT_BYTES + DEFMT_BYTES / 134 + 2 <= TEXT_BYTES);

impl Event {
    /// The event with number `number`.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Event> {
        use Event::*;
        const ALL: [self::Event; 38] = [
            Release,
            Complete,
            SwitchTo,
            SwitchAway,
            Idle,
            Block,
            Resume,
            Throttle,
            Replenish,
            EngineRequest,
            EngineGrant,
            EngineRelease,
            EngineIdle,
            Call,
            Reply,
            Interrupt,
            Skip,
            Fault,
            FaultRegister,
            Log,
            self::Event::Ledger,
            Shutdown,
            Exit,
            Kick,
            Overrun,
            EarlyRelease,
            Stop,
            Lend,
            TakeBack,
            TokenRequest,
            TokenGrant,
            TokenRelease,
            EngineTaken,
            EngineLost,
            TokenTaken,
            RunOn,
            self::Event::Trap,
            Restart,
        ];
        ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// Bits of the thread in the index of [`Ledger::EngineTime`]; the engine is above them.
pub const ENGINE_TIME_SHIFT: usize = 9;

/// The count in a [`Event::Ledger`] record. Times in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u16)]
pub enum Ledger {
    /// Jobs completed by a thread.
    Jobs = 1,
    /// Jobs of a thread that completed after their deadline.
    Misses = 2,
    /// Largest lateness of a thread's jobs (signed).
    MaxLateness = 3,
    /// Releases skipped.
    Skipped = 4,
    /// CPU time a thread ran.
    ThreadTime = 5,
    /// CPU time charged to a reservation.
    Charged = 6,
    /// Time a CPU spent on interrupts and waiting for the kernel lock.
    Kernel = 7,
    /// Time a CPU had nothing to run.
    IdleTime = 8,
    /// Time since a CPU entered service; equals the sum of all charges on it.
    Uptime = 9,
    /// CPU time charged to all reservations on one CPU.
    CpuCharged = 10,
    /// Engine time charged to a thread: `index` is `engine << ENGINE_TIME_SHIFT | thread`.
    EngineTime = 11,
    /// Times a reservation ran dry.
    Throttles = 12,
    /// Faults of a thread.
    Faults = 13,
    /// Largest budget overshoot of a reservation, nanoseconds.
    Overshoot = 14,
    /// Engine time of clients without a lock, all together, by engine: from the instant at which its gate is opened until it is idle behind the shut one.
    SharedTime = 15,
}

/// The header of one CPU's ring in memory, followed by its records.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct RingHeader {
    /// "FUSEETRC".
    pub magic: u64,
    /// Records ever written; the newest is at `(written - 1) % capacity`.
    pub written: u64,
    /// Records the ring holds.
    pub capacity: u64,
}

/// Records that a ring of a kernel holds.
pub const RING_RECORDS: usize = 65536;
/// Bytes from the ring of one CPU to that of the next: whole pages, so that a task may be given them to read.
pub const RING_BYTES: usize =
    (size_of::<RingHeader>() + RING_RECORDS * size_of::<Record>()).next_multiple_of(crate::image::PAGE as usize);

/// First word of a ring.
pub const RING_MAGIC: u64 = u64::from_le_bytes(*b"FUSEETRC");

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(lateness: i64) -> Record {
        let (object, value) = Record::lateness_words(lateness);
        Record { time: 0, number: 1, event: Event::Complete as u8, cpu: 0, thread: 1, job: 1, object, value }
    }

    #[test]
    fn a_lateness_has_64_bits_and_one_word_if_that_is_enough() {
        for lateness in [0, 1, -1, i64::from(i32::MAX), i64::from(i32::MIN)] {
            assert_eq!((complete(lateness).lateness(), complete(lateness).object), (lateness, 0));
        }
        for lateness in [1 << 31, -(1 << 31) - 1, 1 << 32, -(1 << 32), i64::MAX, i64::MIN] {
            assert_eq!(complete(lateness).lateness(), lateness);
            assert_ne!(complete(lateness).object, 0);
        }
    }

    #[test]
    fn a_deadline_may_be_hours_away() {
        let release = |object, value| Record { object, value, ..complete(0) };
        assert_eq!(release(0, u32::MAX).relative_deadline(), 1_000 * u64::from(u32::MAX));
        assert_eq!(release(1, 5).relative_deadline(), 1_000 * ((1 << 32) + 5));
    }
}
