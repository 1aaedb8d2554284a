//! Where each word lies: control, status, doorbell and ring pages.
//!
//! Offsets are in bytes from the start of the page, and every word has one writer, except
//! the fault kind of a context, which the device sets and the driver clears.

use crate::{COMMAND_BYTES, MORE_BYTES, Memory};

/// Bytes of a page, for the device as for the CPUs.
pub const PAGE_BYTES: u64 = 4096;

/// Engines a device has at most.
pub const ENGINES: usize = 3;

/// Devices a system has at most.
pub const DEVICES: usize = 8;

/// Contexts a device has at most, and those for which all pages have places. Context 0 belongs to the driver.
pub const CONTEXTS: usize = 16;

/// The number of contexts of a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Contexts(u8);

impl Contexts {
    /// The number of contexts of most devices.
    pub const DEFAULT: Self = Self(8);

    /// So many, the driver's included: 2 to [`CONTEXTS`].
    #[must_use]
    pub const fn new(number: usize) -> Option<Self> {
        if number >= 2 && number <= CONTEXTS { Some(Self(number as u8)) } else { None }
    }

    /// The number itself.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

impl Default for Contexts {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One engine of a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd)]
#[repr(u8)]
pub enum EngineIndex {
    /// The execution engine: works on device memory, or on system memory if there are no copy engines.
    Execution = 0,
    /// The copy engine from system memory to device memory; in both directions if there is no other.
    CopyIn = 1,
    /// The copy engine from device memory to system memory.
    CopyOut = 2,
}

impl EngineIndex {
    /// All engines, in the order of their numbers.
    pub const ALL: [Self; ENGINES] = [Self::Execution, Self::CopyIn, Self::CopyOut];

    /// The engine with this number.
    #[must_use]
    pub const fn from_number(number: usize) -> Option<Self> {
        match number {
            0 => Some(Self::Execution),
            1 => Some(Self::CopyIn),
            2 => Some(Self::CopyOut),
            _ => None,
        }
    }

    /// The engine's number.
    #[inline]
    #[must_use]
    pub const fn number(self) -> usize {
        self as usize
    }
}

/// The number of copy engines of a device, which also implies the memory that it works on. Engines that it does not have keep their
/// places in all pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum CopyEngines {
    /// An integrated accelerator, or a signal processor: it has no memory of its own.
    #[default]
    None = 0,
    /// [`EngineIndex::CopyIn`] alone, half duplex: which way it copies follows from the memories of the operands.
    One = 1,
    /// One for each direction.
    Two = 2,
}

impl CopyEngines {
    /// So many of them.
    #[must_use]
    pub const fn from_number(number: usize) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }

    /// The number of engines of the device, with the one for execution.
    #[must_use]
    pub const fn engines(self) -> usize {
        1 + self as usize
    }

    /// Whether the device has `engine`.
    #[must_use]
    pub const fn include(self, engine: EngineIndex) -> bool {
        engine.number() < self.engines()
    }

    /// The memory in which the execution engine has its operands.
    #[must_use]
    pub const fn operands(self) -> Memory {
        match self {
            Self::None => Memory::System,
            Self::One | Self::Two => Memory::Local,
        }
    }
}

//--- Control page

/// First word of the control page. The device writes it last: once it reads right, the
/// other words of the page are valid. Spells `FUSE`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"FUSE");
/// The version of this contract.
pub const VERSION: u32 = 9;
/// Feature: each context has a translation table, and the device touches nothing else.
pub const FEATURE_TRANSLATION: u32 = 1;
/// Feature: one engine can be reset for one context.
pub const FEATURE_RESET: u32 = 2;
/// Feature: commands without data take the time they ask for.
pub const FEATURE_BURN: u32 = 4;
/// Feature: the device misbehaves on request, see [`CONTEXT_INJECT`]. For tests of software that must survive it.
pub const FEATURE_INJECT: u32 = 8;

/// Feature: the execution engine is given to another client at the end of a command, so one that launches block by block
/// ([`crate::Launch::block`]) may be asked for it in between.
pub const FEATURE_PREEMPTIBLE: u32 = 16;
/// Feature: the device counts for each context how long it ran and was backlogged ([`status_counted`]).
pub const FEATURE_COUNTERS: u32 = 32;

/// Feature: the execution engine has SMs ([`CONTROL_SMS`]), on which commands of several contexts run at once. Commands of a
/// context that is [`CONTEXT_SHARED`] lose SMs to those of others, for any state of the gate, and share the rest.
pub const FEATURE_SMS: u32 = 64;

/// Feature, beside [`FEATURE_SMS`]: of contexts that are not [`CONTEXT_SHARED`] the one with the smallest [key](control_key) has SMs first, and
/// takes them from those with greater ones. Without it they are all alike, since a lock lets in one of them.
pub const FEATURE_KEYS: u32 = 128;

/// Offset of [`MAGIC`], `u32`, written by the device.
pub const CONTROL_MAGIC: u64 = 0x00;
/// Offset of [`VERSION`], `u32`, written by the device.
pub const CONTROL_VERSION: u64 = 0x04;
/// Offset of the feature bits, `u32`, written by the device.
pub const CONTROL_FEATURES: u64 = 0x08;
/// Offset of the number of engines, `u32`, written by the device: [`CopyEngines::engines`].
pub const CONTROL_ENGINES: u64 = 0x0C;
/// Offset of the number of contexts, `u32`, written by the device: [`Contexts`].
pub const CONTROL_CONTEXTS: u64 = 0x10;
/// Offset of the number of completions announced too late, `u32`, written by the device.
/// See [`crate::timing::LATE_TOLERANCE`].
pub const CONTROL_LATE_COMPLETIONS: u64 = 0x14;

/// Offset of the number of SMs of the execution engine, `u32`, written by the device; zero: it has none, and does one command at a time.
pub const CONTROL_SMS: u64 = 0x18;

/// Offset of the gate of each engine, `u32`, by the kernel: [`GATE_SHUT`] or 0. While it is shut, no command of a context that is
/// [`CONTEXT_SHARED`] begins there; one that runs goes on to its end.
pub const CONTROL_GATES: u64 = 0x20;
/// No shared command begins.
pub const GATE_SHUT: u32 = 1;

/// Offset of the key of the first context; see [`control_key`].
pub const CONTROL_KEYS: u64 = 0x40;
/// A key that takes no SM from others: its job has no budget, or there is none.
pub const KEY_LAST: u64 = u64::MAX;
/// The bound below which real-time keys are.
pub const KEY_BEST_EFFORT: u64 = u64::MAX - 1;

/// Offset of the first context's words; see [`control_context`].
pub const CONTROL_CONTEXT_BASE: u64 = 0x100;
/// Bytes of one context's words.
pub const CONTROL_CONTEXT_BYTES: u64 = 0x40;
/// Offset in a context's words of the physical address of its translation table, `u64`, written by the driver.
pub const CONTEXT_TABLE: u64 = 0x00;
/// Within a context: entries in its translation table, `u32`, by the driver.
pub const CONTEXT_TABLE_ENTRIES: u64 = 0x08;
/// Within a context: 0, or [`CONTEXT_VALID`], with [`CONTEXT_SHARED`] or without, `u32`, by the driver.
///
/// Write table and length before setting it. While it is clear the device ignores the context's doorbells and faults queued
/// commands.
pub const CONTEXT_FLAGS: u64 = 0x0C;
/// Within a context: `u32` for each engine, by the driver. A new value asks for a reset: the
/// device forgets the context's commands on that engine, running, queued or not seen before, writes
/// their fences with [`FENCE_ERROR`], makes the seen and the retired word equal to the doorbell word,
/// and answers in [`CONTEXT_RESET_DONE`]. The doorbell must be out of the client's reach by then.
/// A context that is idle on that engine loses nothing by a reset.
pub const CONTEXT_RESET_REQUEST: u64 = 0x10;
/// Within a context: `u32` for each engine, by the device; equals the request once it is done.
pub const CONTEXT_RESET_DONE: u64 = 0x1C;
/// Within a context: faults so far, `u32`, by the device, wrapping.
pub const CONTEXT_FAULT_COUNT: u64 = 0x28;
/// Within a context: a [`crate::FaultWord`], `u32`. The first fault is kept until the driver
/// stores 0; later ones are only counted.
pub const CONTEXT_FAULT: u64 = 0x2C;
/// Within a context: the device address that the kept fault is about, `u64`, by the device.
pub const CONTEXT_FAULT_ADDRESS: u64 = 0x30;
/// Within a context: the number of the command that faulted, `u32`, by the device.
pub const CONTEXT_FAULT_COMMAND: u64 = 0x38;
/// Within a context: the injected errors of the device in its commands, `u32`, by the driver; bits below. They need
/// [`FEATURE_INJECT`].
pub const CONTEXT_INJECT: u64 = 0x3C;

/// Completions raise no interrupt.
pub const INJECT_LOST: u32 = 1;
/// Interrupts of completions come [`crate::timing::INJECT_DELAY`] late.
pub const INJECT_LATE: u32 = 2;
/// While a command runs, interrupts come every [`crate::timing::INJECT_PERIOD`] for nothing.
pub const INJECT_SPURIOUS: u32 = 4;
/// A command is reported as retired, fence and all, when it begins; the engine works on it all the same.
pub const INJECT_LIE: u32 = 8;
/// Resets are not answered.
pub const INJECT_DEAF: u32 = 16;

/// The context may be used.
pub const CONTEXT_VALID: u32 = 1;
/// Its client holds no lock: its commands begin while the engine's gate is open, and their interrupts come
/// [moderated](crate::timing::MODERATION).
pub const CONTEXT_SHARED: u32 = 2;

/// Offset of the device's measurements of its kernels: [`KERNEL_BYTES`] for each class of launches, in the order of their first
/// ends, as far as the page has room; then zeros.
pub const CONTROL_KERNELS: u64 = 0x500;
/// Bytes of the measurements of a class of launches.
pub const KERNEL_BYTES: u64 = 64;
/// Classes of launches of which something is measured.
pub const KERNELS: usize = ((PAGE_BYTES - CONTROL_KERNELS) / KERNEL_BYTES) as usize;
/// Field of a class: launches that ended well, `u32`.
pub const KERNEL_LAUNCHES: u64 = 0;
/// Field of a class: the number that distinguishes its launches from others of their kernel, `u32`; 0 if the kernel's author knows
/// their times.
pub const KERNEL_CLASS: u64 = 4;
/// Field of a class: the nanoseconds that the blocks of a launch ran for, `u64`. The launch is the one that ran for the largest
/// part of its declared time.
pub const KERNEL_RAN: u64 = 8;
/// Field of a class: the nanoseconds that this launch was to take, without the setup, `u64`; all ones: that was being measured.
pub const KERNEL_SAID: u64 = 16;
/// Field of a class: the nanoseconds that its longest block ran for, `u64`.
pub const KERNEL_BLOCK: u64 = 24;
/// Field of a class: the identity of its kernel, `u32`.
pub const KERNEL_IDENTITY: u64 = 32;
/// Field of a class: the beginning of its kernel's name, then zeros.
pub const KERNEL_NAME: u64 = 36;
/// Bytes of that.
pub const KERNEL_NAME_BYTES: usize = (KERNEL_BYTES - KERNEL_NAME) as usize;

/// Offset of an engine's gate in the control page.
#[must_use]
pub const fn control_gate(engine: EngineIndex) -> u64 {
    CONTROL_GATES + 4 * engine.number() as u64
}

/// Offset in the control page of the key of a context, `u64`, by the kernel: it stores it before the context's client can reach a
/// doorbell, and again whenever the job has another key while the client has the engine. A smaller key goes first. A device with
/// [`FEATURE_KEYS`] looks at it as often as at doorbells.
#[must_use]
pub const fn control_key(context: usize) -> u64 {
    CONTROL_KEYS + 8 * context as u64
}

/// Offset of a context's words in the control page.
#[must_use]
pub const fn control_context(context: usize) -> u64 {
    CONTROL_CONTEXT_BASE + context as u64 * CONTROL_CONTEXT_BYTES
}

/// Offset of a context's reset request for `engine` in the control page.
#[must_use]
pub const fn control_reset_request(context: usize, engine: EngineIndex) -> u64 {
    control_context(context) + CONTEXT_RESET_REQUEST + 4 * engine.number() as u64
}

/// Offset of a context's reset answer for `engine` in the control page.
#[must_use]
pub const fn control_reset_done(context: usize, engine: EngineIndex) -> u64 {
    control_context(context) + CONTEXT_RESET_DONE + 4 * engine.number() as u64
}

//--- Status page

/// Offset of the first engine's busy time.
pub const STATUS_BUSY: u64 = 0x180;
/// Bytes of the status page for one engine and context: two words, which can be read as one of 64 bits.
pub const STATUS_PROGRESS_BYTES: u64 = 8;

/// Offset in the status page of the commands retired on this engine for this context, `u32`. The seen word follows it.
#[must_use]
pub const fn status_retired(engine: EngineIndex, context: usize) -> u64 {
    STATUS_PROGRESS_BYTES * (engine.number() * CONTEXTS + context) as u64
}

/// Offset in the status page of the count that the device has read in the doorbell page of this engine and context, `u32`.
#[must_use]
pub const fn status_seen(engine: EngineIndex, context: usize) -> u64 {
    status_retired(engine, context) + 4
}

/// Offset in the status page of the modelled nanoseconds this engine has been busy, `u64`.
#[must_use]
pub const fn status_busy(engine: EngineIndex) -> u64 {
    STATUS_BUSY + 8 * engine.number() as u64
}

/// Offset in the status page of the shared commands of the first engine.
pub const STATUS_SHARED: u64 = 0x1A0;
/// Offset of the first engine's running context.
pub const STATUS_RUNNING: u64 = 0x1C0;

/// Offset in the status page of the count of shared commands that have ended on this engine, `u32`, wrapping. [`status_begun`] follows it,
/// so that both can be read as one of 64 bits.
///
/// A reader that shuts the gate and then reads both equal knows that no shared command runs, and none will until the gate is open.
/// For the device counts one as begun before it looks at the gate for the last time; if the gate is shut by then, it counts it as
/// ended at once, does not begin it, and raises its interrupt: so a reader that saw them different gets an interrupt.
#[must_use]
pub const fn status_ended(engine: EngineIndex) -> u64 {
    STATUS_SHARED + STATUS_PROGRESS_BYTES * engine.number() as u64
}

/// Offset in the status page of the count of shared commands that have begun on this engine, `u32`, wrapping.
#[must_use]
pub const fn status_begun(engine: EngineIndex) -> u64 {
    status_ended(engine) + 4
}

/// Offset in the status page of the context, plus one, whose command runs on this engine, `u32`; zero: none does.
#[must_use]
pub const fn status_running(engine: EngineIndex) -> u64 {
    STATUS_RUNNING + 4 * engine.number() as u64
}

/// Offset of a word that is 1 if the device has [`FEATURE_COUNTERS`], for readers that do not see the control page.
pub const STATUS_COUNTS: u64 = 0x1CC;
/// Offset of the counters of the first engine and context.
pub const STATUS_COUNTED: u64 = 0x200;
/// Bytes of the counters of one engine and context: two numbers of 64 bits.
pub const STATUS_COUNTED_BYTES: u64 = 16;

/// Offset in the status page of the modelled nanoseconds for which this engine has run commands of this context, `u64`: those that
/// have ended, each with the change of context before it. [`status_backlogged`] follows. Both are written if the device has
/// [`FEATURE_COUNTERS`], whenever a command ends on the engine; so they are behind by the command that runs.
///
/// On an execution engine with [`FEATURE_KEYS`] the nanoseconds for which this context had one SM or more, or had some saved for
/// it. It is written whenever the device looks, so it is not behind by more than a look. It is no share of the SMs: a context with
/// one SM keeps others waiting as one with all does, if each of their blocks needs an SM at the same time.
#[must_use]
pub const fn status_counted(engine: EngineIndex, context: usize) -> u64 {
    STATUS_COUNTED + STATUS_COUNTED_BYTES * (engine.number() * CONTEXTS + context) as u64
}

/// Offset in the status page of the nanoseconds for which this context has been backlogged on this engine, `u64`.
///
/// A context is *backlogged* while it has commands that the device has seen and that have not retired. Time in which a command of a
/// context runs that is not [`CONTEXT_SHARED`] is no time of those that are.
#[must_use]
pub const fn status_backlogged(engine: EngineIndex, context: usize) -> u64 {
    status_counted(engine, context) + 8
}

/// Offset of the SM counters of the first context.
pub const STATUS_SM_TIME: u64 = 0x800;
/// Bytes of the SM counters of one context: four numbers of 64 bits.
pub const STATUS_SM_TIME_BYTES: u64 = 32;

/// Offset in the status page of the work of SMs for this context: four `u64`, the nanoseconds of SMs for which they ran its blocks,
/// saved and restored blocks of others that had to make room for its own, and how often they had to. Written by a device with
/// [`FEATURE_SMS`] whenever a command ends. One SM for a second are as many nanoseconds as two for half of one.
#[must_use]
pub const fn status_sm_time(context: usize) -> u64 {
    STATUS_SM_TIME + STATUS_SM_TIME_BYTES * context as u64
}

//--- Doorbell pages

/// Doorbell pages of a device: one for each engine and context, also for those that it does not have.
pub const DOORBELL_PAGES: usize = ENGINES * CONTEXTS;

/// Offset in a doorbell page of the commands submitted so far, `u32`, wrapping.
///
/// The device reads it, copies it into the seen word, and then reads it again: commands begin only if it is unchanged. So a reader
/// of both words, at a time when no client stores to the doorbell any more, knows by [`is_idle`] that nothing will begin. Each
/// store must be followed by a kick; without one, the device may see it at any time or never.
pub const DOORBELL_SUBMITTED: u64 = 0;

/// Offset of a doorbell page from the device's first one.
#[must_use]
pub const fn doorbell_page(engine: EngineIndex, context: usize) -> u64 {
    (engine.number() * CONTEXTS + context) as u64 * PAGE_BYTES
}

/// Whether an engine has nothing left to do for a context: the kernel's probe. The words are wrapping counts of commands.
///
/// The client writes `submitted`, the device writes `seen` and `retired`. A client that decreases `submitted`, or increases it without
/// a kick, only makes it differ from `seen`. So a client can make an idle engine look busy, but never a busy engine idle.
#[must_use]
pub const fn is_idle(submitted: u32, seen: u32, retired: u32) -> bool {
    submitted == seen && seen == retired
}

/// Commands handed over but not retired. More than [`RING_ENTRIES`] is a fault.
#[must_use]
pub const fn outstanding(submitted: u32, retired: u32) -> u32 {
    submitted.wrapping_sub(retired)
}

//--- Ring page: three rings and the fences, one page of system memory for each context

/// Commands in one ring.
pub const RING_ENTRIES: u32 = 16;
/// Bytes of one ring.
pub const RING_BYTES: u64 = RING_ENTRIES as u64 * COMMAND_BYTES as u64;
/// Device address of the ring page in every context. Page 0 is left out, so that a
/// forgotten address faults.
pub const RING_BASE: u64 = PAGE_BYTES;
/// Offset of the fences in the ring page.
pub const FENCE_OFFSET: u64 = ENGINES as u64 * RING_BYTES;
/// Device address of the first fence.
pub const FENCE_BASE: u64 = RING_BASE + FENCE_OFFSET;
/// Fences in the ring page, 32 bits each: more than there are slots.
pub const FENCES: usize = (MORE_OFFSET - FENCE_OFFSET) as usize / 4;
/// Offset in the ring page of the words that do not fit into launches: a place for each slot of the execution engine's ring.
pub const MORE_OFFSET: u64 = FENCE_OFFSET + 256;

/// Set by the device in the fence of a command that faulted. Fence values leave it clear.
pub const FENCE_ERROR: u32 = 1 << 31;

/// Offset of the slot of command `number` in the ring page.
#[must_use]
pub const fn ring_slot(engine: EngineIndex, number: u32) -> u64 {
    engine.number() as u64 * RING_BYTES + (number % RING_ENTRIES) as u64 * COMMAND_BYTES as u64
}

/// Offset in the ring page of the words that do not fit into launch `number` of the execution engine.
#[must_use]
pub const fn more_offset(number: u32) -> u64 {
    MORE_OFFSET + (number % RING_ENTRIES) as u64 * MORE_BYTES as u64
}

/// Offset of a fence in the ring page. `index` is below [`FENCES`].
#[must_use]
pub const fn fence_offset(index: usize) -> u64 {
    FENCE_OFFSET + 4 * index as u64
}

/// Device address of a fence in the ring page. `index` is below [`FENCES`].
#[must_use]
pub const fn fence_address(index: usize) -> u64 {
    RING_BASE + fence_offset(index)
}

/// The state in a fence of the command that was to write `value`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FenceState {
    /// The fence holds some other value: the command has not retired.
    Pending,
    /// The command did its work.
    Done,
    /// The command faulted; its output is undefined.
    Failed,
}

/// Reads a fence word, for a client that uses a different value for each command.
#[must_use]
pub const fn fence_state(word: u32, value: u32) -> FenceState {
    if word == value {
        FenceState::Done
    } else if word == value | FENCE_ERROR {
        FenceState::Failed
    } else {
        FenceState::Pending
    }
}

const _: () = assert!(FENCES >= ENGINES * RING_ENTRIES as usize);
const _: () = assert!(more_offset(RING_ENTRIES - 1) + MORE_BYTES as u64 <= PAGE_BYTES);
const _: () = assert!(status_seen(EngineIndex::CopyOut, CONTEXTS - 1) < STATUS_BUSY);
const _: () = assert!(status_busy(EngineIndex::CopyOut) < STATUS_SHARED);
const _: () = assert!(status_begun(EngineIndex::CopyOut) < STATUS_RUNNING);
const _: () = assert!(status_running(EngineIndex::CopyOut) < STATUS_COUNTS && STATUS_COUNTS < STATUS_COUNTED);
const _: () = assert!(status_counted(EngineIndex::CopyOut, CONTEXTS) <= STATUS_SM_TIME);
const _: () = assert!(status_sm_time(CONTEXTS) <= PAGE_BYTES);
const _: () = assert!(CONTROL_SMS + 4 <= CONTROL_GATES);
const _: () = assert!(control_gate(EngineIndex::CopyOut) < CONTROL_KEYS);
const _: () = assert!(control_key(CONTEXTS) <= CONTROL_CONTEXT_BASE);
const _: () = assert!(control_context(CONTEXTS) <= CONTROL_KERNELS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stay_meaningful_when_they_wrap() {
        assert_eq!(outstanding(3, u32::MAX - 1), 5);
        assert_eq!(ring_slot(EngineIndex::CopyIn, u32::MAX), RING_BYTES + 15 * 64);
        assert_eq!(ring_slot(EngineIndex::CopyIn, 0), RING_BYTES);
    }

    #[test]
    fn a_fence_tells_success_from_failure() {
        assert_eq!(fence_state(6, 7), FenceState::Pending);
        assert_eq!(fence_state(7, 7), FenceState::Done);
        assert_eq!(fence_state(FENCE_ERROR | 7, 7), FenceState::Failed);
    }

    #[test]
    fn a_device_has_the_engines_with_the_lowest_numbers() {
        let engines = |number| {
            let copies = CopyEngines::from_number(number).unwrap();
            EngineIndex::ALL.map(|engine| copies.include(engine))
        };
        assert_eq!([0, 1, 2].map(engines), [[true, false, false], [true, true, false], [true, true, true]]);
        assert_eq!(CopyEngines::from_number(3), None);
        assert_eq!(CopyEngines::None.operands(), Memory::System);
        assert_eq!(CopyEngines::One.operands(), Memory::Local);
    }

    #[test]
    fn rings_and_fences_fill_one_page() {
        assert_eq!((RING_BYTES, FENCE_BASE, FENCES), (1024, 0x1C00, 64));
        assert_eq!(fence_offset(FENCES), more_offset(0));
    }
}
