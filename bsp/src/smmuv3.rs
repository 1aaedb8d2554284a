//! Arm's SMMUv3: which memory devices reach.
//!
//! Each device behind it has a number, its *stream*. The SMMU finds a stream's entry in a table, from there a context, and from there translation tables of the
//! same format as a CPU's. A stream that we have not added is aborted. One that we have is *shut* or *open*: shut it has the context of tables that
//! map nothing, so that each of its accesses is told, with its address; open it has its own. Nothing but the entry changes, by one store.
//!
//! A refused access is a fault: it is written to a queue, for another task to read. We keep its two numbers; its memory is not ours.
//!
//! Source of registers, entries and commands: Arm IHI 0070 (SMMUv3), chapters 5 to 7.

use core::ptr::NonNull;

use crate::mmio::{Registers, barrier};

/// Numbers of streams are below this.
pub const STREAMS: usize = 64;
/// Streams that can be added.
pub const ADDED: usize = 16;
/// The queue of faults has so many records, as a power of two: a page of them.
const FAULT_BITS: u32 = 7;
const FAULT_NUMBERS: u32 = (2 << FAULT_BITS) - 1;

const COMMANDS: usize = 64;
const COMMAND_BITS: u64 = COMMANDS.ilog2() as u64;

// Registers. Those of the queue of faults are on the second page.
const FEATURES: usize = 0x00;
const ADDRESS_SIZES: usize = 0x14;
const CONTROL: usize = 0x20;
const CONTROL_ACKNOWLEDGED: usize = 0x24;
const ATTRIBUTES: usize = 0x28;
const CONTROL_2: usize = 0x2c;
const INTERRUPTS: usize = 0x50;
const INTERRUPTS_ACKNOWLEDGED: usize = 0x54;
const STREAM_TABLE: usize = 0x80;
const STREAM_TABLE_FORM: usize = 0x88;
const COMMAND_QUEUE: usize = 0x90;
const COMMANDS_PRODUCED: usize = 0x98;
const COMMANDS_CONSUMED: usize = 0x9c;
const FAULT_QUEUE: usize = 0xa0;
const FAULTS_PRODUCED: usize = 0x1_00a8;
const FAULTS_CONSUMED: usize = 0x1_00ac;

/// Stage 1; tables of AArch64's format.
const STAGE_1: u32 = 1 << 1;
const TABLES_64: u32 = 2 << 2;
/// Tables of 4 KiB pages.
const PAGES_4K: u32 = 1 << 4;
/// Bits of [`CONTROL`].
const ENABLED: u32 = 1;
const FAULTS_ENABLED: u32 = 1 << 2;
const COMMANDS_ENABLED: u32 = 1 << 3;
/// An interrupt when a fault was written.
const FAULT_INTERRUPT: u32 = 1 << 2;
/// Tables and queues: inner shareable, write back.
const CACHED: u32 = 3 << 10 | 1 << 8 | 1 << 6 | 3 << 4 | 1 << 2 | 1;
/// Streams beyond the table are told of, too; no broadcast of CPUs' invalidations is needed, as tables do not change.
const TELL_STRANGERS: u32 = 1 << 1 | 1 << 2;
/// Read and write allocate, for queues and the table of streams.
const ALLOCATE: u64 = 1 << 62;

/// Bits of an entry of the table of streams: it is valid, and stage 1 translates.
const TRANSLATED: u64 = 5 << 1 | 1;
/// Contexts are cached, inner shareable.
const CONTEXT_CACHED: u64 = 3 << 6 | 1 << 4 | 1 << 2;
/// Attributes of an access are those that come in.
const ATTRIBUTES_COME_IN: u64 = 1 << 44;
/// Bits of a context: 39 bits of address in pages of 4 KiB; tables cached, inner shareable; none for the upper half; valid; tables of AArch64; faults
/// are recorded, and abort; numbers of address spaces are the SMMU's own.
const CONTEXT: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 30 | 1 << 31 | 1 << 41 | 7 << 45;

/// The codes with which commands begin.
const FORGET_STREAM: u64 = 0x03;
const FORGET_ALL_STREAMS: u64 = 0x04;
const ALL: u64 = 31;
const FORGET_ALL_TRANSLATIONS: u64 = 0x30;
const SYNCHRONISE: u64 = 0x46;

/// Memory that the SMMU reads: its table of streams, contexts, and commands.
#[repr(C, align(4096))]
pub struct Memory {
    streams: [[u64; 8]; STREAMS],
    // At a multiple of its length.
    commands: [[u64; 2]; COMMANDS],
    contexts: [[u64; 8]; ADDED + 1],
}

impl Memory {
    /// Zeros.
    pub const EMPTY: Memory =
        Memory { streams: [[0; 8]; STREAMS], commands: [[0; 2]; COMMANDS], contexts: [[0; 8]; ADDED + 1] };
}

/// Why there is no SMMU to be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SmmuError {
    /// The board has none.
    Missing,
    /// The SMMU cannot translate as we want it to.
    Unfit,
    /// The SMMU does not carry out commands.
    Silent,
    /// A stream's number is too high, or more streams are added than there is room for.
    NoRoom,
}

/// A stream that was added.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stream {
    number: u32,
    context: usize,
}

/// An SMMU.
pub struct Smmu {
    registers: Registers,
    memory: &'static mut Memory,
    physical: u64,
    /// Streams added.
    added: usize,
    /// Commands given, and one bit more.
    given: u32,
}

// SAFETY: registers belong to no CPU; the owner of the value is alone with them.
unsafe impl Send for Smmu {}

impl Smmu {
    /// Switches the SMMU at `base` on: each access of a stream is aborted from here on. `physical` is the physical address of `memory`, `nothing`
    /// that of a table that maps nothing. `faults` is that of the page for faults.
    ///
    /// # Errors
    /// [`SmmuError`].
    ///
    /// # Safety
    /// - `base` is mapped as device memory, 128 KiB, and is an SMMUv3 that nothing else uses.
    /// - `physical` and `nothing` are as described above; the memory at `faults` is memory that the SMMU may write.
    pub unsafe fn start(
        base: NonNull<u8>,
        memory: &'static mut Memory,
        physical: u64,
        nothing: u64,
        memory_types: u64,
        faults: Option<u64>,
    ) -> Result<Smmu, SmmuError> {
        // SAFETY: mapped: promised by our caller. Harmless: the SMMU writes only the page of faults.
        let registers = unsafe { Registers::new(base) };
        let sizes = registers.read32(ADDRESS_SIZES);
        let fits = registers.read32(FEATURES) & (STAGE_1 | TABLES_64) == STAGE_1 | TABLES_64 && sizes & PAGES_4K != 0;
        if !fits {
            return Err(SmmuError::Unfit);
        }
        *memory = Memory::EMPTY;
        let mut smmu = Smmu { registers, memory, physical, added: 0, given: 0 };
        smmu.set_context(0, nothing, memory_types, sizes);
        smmu.control(0)?;
        registers.write32(ATTRIBUTES, CACHED);
        registers.write32(CONTROL_2, TELL_STRANGERS);
        registers.write64(STREAM_TABLE, ALLOCATE | physical);
        registers.write32(STREAM_TABLE_FORM, STREAMS.ilog2());
        registers.write64(COMMAND_QUEUE, ALLOCATE | smmu.commands_at() | COMMAND_BITS);
        registers.write32(COMMANDS_PRODUCED, 0);
        registers.write32(COMMANDS_CONSUMED, 0);
        smmu.control(COMMANDS_ENABLED)?;
        smmu.command([FORGET_ALL_STREAMS, ALL])?;
        smmu.command([FORGET_ALL_TRANSLATIONS, 0])?;
        let mut control = COMMANDS_ENABLED;
        if let Some(faults) = faults {
            registers.write64(FAULT_QUEUE, ALLOCATE | faults | u64::from(FAULT_BITS));
            registers.write32(FAULTS_PRODUCED, 0);
            registers.write32(FAULTS_CONSUMED, 0);
            control |= FAULTS_ENABLED;
            smmu.control(control)?;
            registers.write32(INTERRUPTS, FAULT_INTERRUPT);
            smmu.wait_for(INTERRUPTS_ACKNOWLEDGED, FAULT_INTERRUPT)?;
        }
        smmu.control(control | ENABLED)?;
        Ok(smmu)
    }

    /// Adds the stream with this number, shut. Open it reaches the memory that the tables at `base` map.
    ///
    /// # Errors
    /// [`SmmuError::NoRoom`]; [`SmmuError::Silent`].
    pub fn add(&mut self, number: u32, base: u64, memory_types: u64) -> Result<Stream, SmmuError> {
        if number as usize >= STREAMS || self.added == ADDED {
            return Err(SmmuError::NoRoom);
        }
        self.added += 1;
        let stream = Stream { number, context: self.added };
        let sizes = self.registers.read32(ADDRESS_SIZES);
        self.set_context(stream.context, base, memory_types, sizes);
        self.memory.streams[number as usize % STREAMS][1] = CONTEXT_CACHED | ATTRIBUTES_COME_IN;
        self.set(stream, false)?;
        Ok(stream)
    }

    /// Opens a stream, or shuts it: then nothing that it has begun goes on when this returns.
    ///
    /// # Errors
    /// [`SmmuError::Silent`].
    #[inline(never)]
    pub fn set(&mut self, stream: Stream, open: bool) -> Result<(), SmmuError> {
        let context = if open { stream.context } else { 0 };
        let entry = TRANSLATED | self.context_at(context);
        let place = &mut self.memory.streams[stream.number as usize % STREAMS][0];
        // SAFETY: ours. Volatile: the SMMU reads it, whole.
        unsafe { (&raw mut *place).write_volatile(entry) };
        self.command([FORGET_STREAM | u64::from(stream.number) << 32, 1])
    }

    /// Whether a stream is open.
    #[must_use]
    pub fn is_open(&self, stream: Stream) -> bool {
        self.memory.streams[stream.number as usize % STREAMS][0] != TRANSLATED | self.context_at(0)
    }

    /// The number of the next fault to come, and of the first that was not yet read; if `read` is one, the latter from here on. Both count modulo twice the queue's length, and the
    /// highest bit of the first changes whenever faults were lost.
    pub fn faults(&mut self, read: Option<u32>) -> (u32, u32) {
        let next = self.registers.read32(FAULTS_PRODUCED);
        if let Some(read) = read {
            let heard = next & 1 << 31;
            self.registers.write32(FAULTS_CONSUMED, read & FAULT_NUMBERS | heard);
        }
        (next, self.registers.read32(FAULTS_CONSUMED) & FAULT_NUMBERS)
    }

    fn set_context(&mut self, index: usize, base: u64, memory_types: u64, sizes: u32) {
        let (size, space) = (u64::from(sizes & 7), index as u64 + 1);
        self.memory.contexts[index % (ADDED + 1)] =
            [CONTEXT | size << 32 | space << 48, base, 0, memory_types, 0, 0, 0, 0];
    }

    fn context_at(&self, index: usize) -> u64 {
        self.physical + core::mem::offset_of!(Memory, contexts) as u64 + index as u64 * 64
    }

    fn commands_at(&self) -> u64 {
        self.physical + core::mem::offset_of!(Memory, commands) as u64
    }

    #[inline(never)]
    fn control(&self, bits: u32) -> Result<(), SmmuError> {
        self.registers.write32(CONTROL, bits);
        self.wait_for(CONTROL_ACKNOWLEDGED, bits)
    }

    /// Gives a command, and waits until it has come to its end, for accesses that streams have begun, too.
    #[inline(never)]
    fn command(&mut self, command: [u64; 2]) -> Result<(), SmmuError> {
        for command in [command, [SYNCHRONISE, 0]] {
            self.memory.commands[self.given as usize % COMMANDS] = command;
            self.given = (self.given + 1) % (2 * COMMANDS as u32);
        }
        // The SMMU finds in memory the words written there before it is told.
        barrier();
        self.registers.write32(COMMANDS_PRODUCED, self.given);
        self.wait_for(COMMANDS_CONSUMED, self.given)
    }

    #[inline(never)]
    fn wait_for(&self, register: usize, value: u32) -> Result<(), SmmuError> {
        const PATIENCE: u32 = 100_000;
        for _ in 0..PATIENCE {
            if self.registers.read32(register) == value {
                return Ok(());
            }
            crate::relax();
        }
        Err(SmmuError::Silent)
    }
}
