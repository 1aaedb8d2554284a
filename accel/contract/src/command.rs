//! Commands: requests of a client to an engine, and their 64 bytes.
//!
//! [`Command::decode`] is the only way from bytes to a command, so a command that exists
//! has sizes within its limits, aligned addresses and no forgotten field. Whether its
//! addresses are mapped is a question for the translation table.
//!
//! ```text
//! offset  bytes  field
//! 0x00    4      operation code
//! 0x04    4      flags, 0
//! 0x08    8      source        device address
//! 0x10    8      destination   device address
//! 0x18    16     0
//! 0x28    8      amount        bytes of a copy, also from a peer; nanoseconds of a burn
//! 0x30    8      fence         device address, 0 for none
//! 0x38    4      fence value   below 2^31
//! 0x3C    4      0
//! ```
//!
//! Fields an operation does not use are 0. A launch is laid out otherwise:
//!
//! ```text
//! 0x00    4      operation code
//! 0x04    4      identity of the kernel, not 0
//! 0x08    4      its first block
//! 0x0C    4      number of blocks, not 0
//! 0x10    32     the first eight words: device addresses of its views, then its arguments
//! 0x30    12     fence, as above
//! 0x3C    4      1 if there are more words, which are in the slot's place at MORE_OFFSET; else 0
//! ```

use crate::{EngineIndex, FENCE_ERROR};

/// Bytes of a command.
pub const COMMAND_BYTES: usize = 64;
/// Alignment of operands, in bytes. The length of a copy is a multiple of it, too.
pub const OPERAND_ALIGNMENT: u64 = 8;
/// Words of a launch at most.
pub const LAUNCH_WORDS: usize = 20;
/// The number of words, of 4 bytes each, that the command of a launch holds. Further words are in the ring page, at
/// [`crate::more_offset`].
pub const LAUNCH_WORDS_HERE: usize = 8;
/// Bytes of those others.
pub const MORE_BYTES: usize = 4 * (LAUNCH_WORDS - LAUNCH_WORDS_HERE);
/// Some blocks of a kernel, with memory and arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Launch {
    /// Identity of the kernel, not 0. Its meaning is between client and device.
    pub kernel: u32,
    /// The first block.
    pub first: u32,
    /// The number of blocks, not 0.
    pub blocks: u32,
    /// Device addresses of its views, then its arguments, then zeros.
    pub words: [u32; LAUNCH_WORDS],
}

/// The work of an engine for a command. Addresses are device addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Copies `length` bytes. Copy engines only: `CopyIn` from system to local memory,
    /// `CopyOut` from local to system memory, an only copy engine from either to the other. Overlap is undefined.
    Copy {
        /// The address to read from.
        source: u64,
        /// The address to write to.
        destination: u64,
        /// Bytes, a positive multiple of [`OPERAND_ALIGNMENT`].
        length: u64,
    },
    /// Copies `length` bytes from the memory of another device into this device's. `CopyIn` only. The copy engine of the
    /// other device has no part in it here, but on other hardware might, so its lock is held, too.
    PeerCopy {
        /// The address to read from: memory of another device, as this device sees it.
        source: u64,
        /// The address to write to.
        destination: u64,
        /// Bytes, a positive multiple of [`OPERAND_ALIGNMENT`].
        length: u64,
    },
    /// Runs blocks of a kernel. The device defines the kernels; the contract carries their words.
    Launch(Launch),
    /// Keeps the engine busy and touches nothing. Any engine.
    Burn {
        /// Nanoseconds to take, exactly, but at least [`crate::timing::SETUP`].
        time: u64,
    },
}

impl Operation {
    /// Whether `engine` knows this operation, if the device has it.
    #[must_use]
    pub const fn runs_on(&self, engine: EngineIndex) -> bool {
        match self {
            Self::Burn { .. } => true,
            Self::Copy { .. } => !matches!(engine, EngineIndex::Execution),
            Self::PeerCopy { .. } => matches!(engine, EngineIndex::CopyIn),
            _ => matches!(engine, EngineIndex::Execution),
        }
    }
}

/// A word to write when a command retires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fence {
    /// Device address of a `u32` in writable system memory, not 0.
    pub address: u64,
    /// The value to write, below 2^31; see [`FENCE_ERROR`].
    pub value: u32,
}

/// An operation, and the fence that reports its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Command {
    /// The operation.
    pub operation: Operation,
    /// The fence to write when it is done.
    pub fence: Option<Fence>,
}

/// The command breaks a rule of this module.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadCommand;

const COPY: u32 = 1;
const BURN: u32 = 6;
const PEER_COPY: u32 = 9;
const LAUNCH: u32 = 11;

/// The fields of a command as they stand in memory.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
struct Fields {
    code: u32,
    source: u64,
    destination: u64,
    amount: u64,
    fence: u64,
    fence_value: u32,
}

impl Command {
    /// The command as it stands in a ring.
    #[must_use]
    pub fn encode(&self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        let fields = self.fields();
        if let Operation::Launch(launch) = &self.operation {
            let head = [LAUNCH, launch.kernel, launch.first, launch.blocks];
            let words = head.iter().chain(&launch.words[..LAUNCH_WORDS_HERE]);
            for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            bytes[0x30..0x38].copy_from_slice(&fields.fence.to_le_bytes());
            bytes[0x38..0x3C].copy_from_slice(&fields.fence_value.to_le_bytes());
            bytes[0x3C] = u8::from(launch.has_more());
            return bytes;
        }
        bytes[0x00..0x04].copy_from_slice(&fields.code.to_le_bytes());
        bytes[0x08..0x10].copy_from_slice(&fields.source.to_le_bytes());
        bytes[0x10..0x18].copy_from_slice(&fields.destination.to_le_bytes());
        bytes[0x28..0x30].copy_from_slice(&fields.amount.to_le_bytes());
        bytes[0x30..0x38].copy_from_slice(&fields.fence.to_le_bytes());
        bytes[0x38..0x3C].copy_from_slice(&fields.fence_value.to_le_bytes());
        bytes
    }

    /// The words of a launch that do not fit into its command, as they stand in the ring page; `None`: there are none.
    #[must_use]
    pub fn encode_more(&self) -> Option<[u8; MORE_BYTES]> {
        let Operation::Launch(launch) = &self.operation else { return None };
        let mut bytes = [0; MORE_BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(&launch.words[LAUNCH_WORDS_HERE..]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        launch.has_more().then_some(bytes)
    }

    /// Whether `bytes` are a launch with further words in the ring page, at [`crate::more_offset`].
    #[must_use]
    pub fn has_more(bytes: &[u8; COMMAND_BYTES]) -> bool {
        u32_at(bytes, 0) == LAUNCH && u32_at(bytes, 0x3C) == 1
    }

    /// Reads a command from a ring.
    ///
    /// # Errors
    /// [`BadCommand`] if it breaks a rule of this module, or has words beside it.
    pub fn decode(bytes: &[u8; COMMAND_BYTES]) -> Result<Self, BadCommand> {
        Self::decode_with(bytes, &[0; MORE_BYTES])
    }

    /// Reads a command from a ring, and the words beside it, if it has some.
    ///
    /// # Errors
    /// [`BadCommand`] if it breaks a rule of this module.
    pub fn decode_with(bytes: &[u8; COMMAND_BYTES], more: &[u8; MORE_BYTES]) -> Result<Self, BadCommand> {
        if u32_at(bytes, 0) == LAUNCH {
            let mut words = [0; LAUNCH_WORDS];
            let (here, beside) = words.split_at_mut(LAUNCH_WORDS_HERE);
            here.iter_mut().enumerate().for_each(|(at, word)| *word = u32_at(bytes, 0x10 + 4 * at));
            if Self::has_more(bytes) {
                for (word, bytes) in beside.iter_mut().zip(more.as_chunks::<4>().0) {
                    *word = u32::from_le_bytes(*bytes);
                }
            }
            let launch = Launch { kernel: u32_at(bytes, 4), first: u32_at(bytes, 8), blocks: u32_at(bytes, 12), words };
            let command = Self { operation: Operation::Launch(launch), fence: Self::fence_word(bytes) };
            return if command.is_valid() && command.encode() == *bytes { Ok(command) } else { Err(BadCommand) };
        }
        let fields = Fields {
            code: u32_at(bytes, 0x00),
            source: u64_at(bytes, 0x08),
            destination: u64_at(bytes, 0x10),
            amount: u64_at(bytes, 0x28),
            fence: u64_at(bytes, 0x30),
            fence_value: u32_at(bytes, 0x38),
        };
        let command = Self { operation: operation(&fields)?, fence: fence(&fields) };
        // Unused bytes of a command are 0: the encoded command must equal these bytes.
        if command.is_valid() && command.encode() == *bytes { Ok(command) } else { Err(BadCommand) }
    }

    /// The fence of a command, even of one that [`Command::decode`] refuses for another reason; so that a client can see the
    /// failure.
    #[must_use]
    pub fn fence_of(bytes: &[u8; COMMAND_BYTES]) -> Option<Fence> {
        Self::fence_word(bytes).filter(Fence::is_valid)
    }

    fn fence_word(bytes: &[u8; COMMAND_BYTES]) -> Option<Fence> {
        fence(&Fields { fence: u64_at(bytes, 0x30), fence_value: u32_at(bytes, 0x38), ..Fields::default() })
    }

    /// Whether the command keeps the rules of this module; the device refuses hand-made commands that break one.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let aligned = |addresses: &[u64]| addresses.iter().all(|a| a % OPERAND_ALIGNMENT == 0);
        let operation = match self.operation {
            Operation::Copy { source, destination, length } | Operation::PeerCopy { source, destination, length } => {
                aligned(&[source, destination, length]) && length > 0
            }
            Operation::Launch(launch) => {
                launch.kernel > 0 && launch.blocks > 0 && launch.first.checked_add(launch.blocks).is_some()
            }
            Operation::Burn { .. } => true,
        };
        operation && self.fence.as_ref().is_none_or(Fence::is_valid)
    }

    fn fields(&self) -> Fields {
        let fence = self.fence.unwrap_or(Fence { address: 0, value: 0 });
        let common = Fields { fence: fence.address, fence_value: fence.value, ..Fields::default() };
        match self.operation {
            Operation::Copy { source, destination, length } => {
                Fields { code: COPY, source, destination, amount: length, ..common }
            }
            Operation::PeerCopy { source, destination, length } => {
                Fields { code: PEER_COPY, source, destination, amount: length, ..common }
            }
            // The words of a launch have another layout.
            Operation::Launch(_) => Fields { code: LAUNCH, ..common },
            Operation::Burn { time } => Fields { code: BURN, amount: time, ..common },
        }
    }
}

impl Launch {
    /// The block `number` of the launch, from 0, as a launch of its own: on a preemptible engine, the work between two points at
    /// which it may be given to another.
    #[must_use]
    pub const fn block(self, number: u32) -> Self {
        Self { first: self.first.saturating_add(number), blocks: 1, ..self }
    }

    fn has_more(&self) -> bool {
        self.words[LAUNCH_WORDS_HERE..].iter().any(|word| *word != 0)
    }
}

impl Fence {
    fn is_valid(&self) -> bool {
        self.address != 0 && self.address.is_multiple_of(4) && self.value & FENCE_ERROR == 0
    }
}

fn operation(fields: &Fields) -> Result<Operation, BadCommand> {
    let &Fields { source, destination, amount, .. } = fields;
    Ok(match fields.code {
        COPY => Operation::Copy { source, destination, length: amount },
        PEER_COPY => Operation::PeerCopy { source, destination, length: amount },
        BURN => Operation::Burn { time: amount },
        _ => return Err(BadCommand),
    })
}

fn fence(fields: &Fields) -> Option<Fence> {
    (fields.fence != 0).then_some(Fence { address: fields.fence, value: fields.fence_value })
}

fn u32_at(bytes: &[u8; COMMAND_BYTES], offset: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|i| bytes[offset + i]))
}

fn u64_at(bytes: &[u8; COMMAND_BYTES], offset: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[offset + i]))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_launch(words: usize)(
            kernel in 0_u32..9,
            first in prop_oneof![0_u32..9, any::<u32>()],
            blocks in prop_oneof![0_u32..9, any::<u32>()],
            given in prop::collection::vec(any::<u32>(), words),
        ) -> Operation {
            let words = core::array::from_fn(|at| given.get(at).copied().unwrap_or(0));
            Operation::Launch(Launch { kernel, first, blocks, words })
        }
    }

    fn any_operation() -> impl Strategy<Value = Operation> {
        let address = || (0_u64..1 << 20).prop_map(|address| address * 4);
        prop_oneof![
            any_launch(LAUNCH_WORDS_HERE),
            (address(), address(), 0_u64..1 << 16).prop_map(|(source, destination, length)| {
                Operation::Copy { source, destination, length: length * 8 }
            }),
            (address(), address(), 0_u64..1 << 16).prop_map(|(source, destination, length)| {
                Operation::PeerCopy { source, destination, length: length * 8 }
            }),
            any::<u64>().prop_map(|time| Operation::Burn { time }),
        ]
    }

    prop_compose! {
        fn any_command()(
            operation in any_operation(),
            fence in prop::option::of((0_u64..4096, any::<u32>())),
        ) -> Command {
            Command { operation, fence: fence.map(|(address, value)| Fence { address, value }) }
        }
    }

    proptest! {
        #[test]
        fn a_command_that_keeps_the_rules_arrives_unchanged(command in any_command()) {
            let expected = if command.is_valid() { Ok(command) } else { Err(BadCommand) };
            prop_assert_eq!(Command::decode(&command.encode()), expected);
        }

        #[test]
        fn a_stray_bit_is_refused_or_changes_the_command(
            command in any_command().prop_filter("valid", Command::is_valid),
            bit in 0_usize..8 * COMMAND_BYTES,
        ) {
            let mut bytes = command.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(Command::decode(&bytes), Ok(command));
        }

        #[test]
        fn a_launch_with_words_beside_it_survives_memory(
            operation in any_launch(LAUNCH_WORDS),
            other: [u8; MORE_BYTES],
        ) {
            let command = Command { operation, fence: None };
            let bytes = command.encode();
            let expected = if command.is_valid() { Ok(command) } else { Err(BadCommand) };
            match command.encode_more() {
                Some(more) => {
                    prop_assert!(Command::has_more(&bytes));
                    prop_assert_eq!(Command::decode_with(&bytes, &more), expected);
                    prop_assert_eq!(Command::decode(&bytes), Err(BadCommand), "words that are not there");
                }
                None => prop_assert_eq!(Command::decode_with(&bytes, &other), expected),
            }
        }
    }
}
