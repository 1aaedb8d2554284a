//! Faults of commands, and their records by the device.
//!
//! A fault concerns only the context that caused it. The command retires as always, with [`crate::FENCE_ERROR`] in its fence if the
//! fence can be written.

use crate::EngineIndex;

/// The reason why the device refused a command, or gave it up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum FaultKind {
    /// The command means nothing, or nothing to this engine. Address: its ring slot.
    BadCommand = 1,
    /// The doorbell claims more commands than a ring holds. The ring stands still until the
    /// driver resets this engine for this context. Address: the doorbell's value.
    DoorbellOverrun = 2,
    /// The table has no valid entry for the address, or is not a table.
    NotMapped = 3,
    /// The device was to write where it may only read.
    NotWritable = 4,
    /// Device memory where system memory is required, or the reverse.
    WrongMemory = 5,
    /// The table names a physical page outside the windows the device is confined to.
    OutsideWindow = 6,
    /// The driver invalidated the context while it had commands.
    ContextInvalid = 7,
    /// The bus answered with an error.
    Bus = 8,
    /// The doorbell is that of an engine the device does not have. The ring stands still until the driver resets it.
    /// Address: the doorbell's value.
    NoEngine = 9,
    /// The device has no such kernel. Address: its identity.
    NoKernel = 10,
    /// A view that is written has bytes of another one. Address: where the later of the two begins.
    Overlap = 11,
    /// A kernel panicked. Address: the line of its source.
    Panicked = 12,
    /// A kernel took far longer than its time. Address: the block.
    TooLong = 13,
    /// A kernel did something that ends a program: its stack is full, or it used an address of its own making. Address: the used
    /// one.
    Exception = 14,
    /// The author of a kernel does not know how long its launch takes, and it was not measured. Address: its class.
    NotMeasured = 15,
}

impl FaultKind {
    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::BadCommand,
            2 => Self::DoorbellOverrun,
            3 => Self::NotMapped,
            4 => Self::NotWritable,
            5 => Self::WrongMemory,
            6 => Self::OutsideWindow,
            7 => Self::ContextInvalid,
            8 => Self::Bus,
            9 => Self::NoEngine,
            10 => Self::NoKernel,
            11 => Self::Overlap,
            12 => Self::Panicked,
            13 => Self::TooLong,
            14 => Self::Exception,
            15 => Self::NotMeasured,
            _ => return None,
        })
    }
}

/// The word at [`crate::CONTEXT_FAULT`]: kind in bits 0 to 7, engine in bits 8 to 15.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FaultWord {
    /// The fault.
    pub kind: FaultKind,
    /// The engine that found out.
    pub engine: EngineIndex,
}

impl FaultWord {
    /// The word as it stands in the control page. Never 0.
    #[must_use]
    pub const fn encode(self) -> u32 {
        self.kind as u32 | (self.engine as u32) << 8
    }

    /// Reads the word; `None` if no fault is kept (0), or for a word no device writes.
    #[must_use]
    pub const fn decode(word: u32) -> Option<Self> {
        let [kind, engine, 0, 0] = word.to_le_bytes() else { return None };
        match (FaultKind::from_code(kind), EngineIndex::from_number(engine as usize)) {
            (Some(kind), Some(engine)) => Some(Self { kind, engine }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_survives_the_control_page() {
        for engine in EngineIndex::ALL {
            for code in 0..=u8::MAX {
                let Some(kind) = FaultKind::from_code(code) else { continue };
                let word = FaultWord { kind, engine };
                assert_eq!(kind as u8, code);
                assert_eq!(FaultWord::decode(word.encode()), Some(word));
            }
        }
        assert_eq!(FaultWord::decode(0), None);
    }
}
