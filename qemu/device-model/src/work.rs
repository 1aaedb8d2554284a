//! The real work of a copy of any length, a slice at a time. It faults at the first page it may not touch, and then nothing more is done.

use crate::Bus;
use crate::space::{Fault, Space};
use fusee_accel_contract::{CopyEngines, EngineIndex, Memory, Operation};

/// Bytes of a copy in a slice.
const COPY_SLICE: u64 = 4096;

/// How far a command has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Progress {
    /// This many slices are done, or blocks of a launch.
    Slices(u64),
    /// All is done, or given up.
    Finished,
}

/// Instructions after which a poll does no further slice.
pub(crate) const ENOUGH: usize = 8000;

/// One slice: how far the command has come, and roughly how many instructions it took.
pub(crate) struct Slice {
    pub progress: Progress,
    pub instructions: usize,
}

/// Does the slice after `done` others of a copy.
pub(crate) fn slice(
    operation: &Operation,
    engine: EngineIndex,
    done: u64,
    space: &Space,
    bus: &mut impl Bus,
) -> Result<Slice, Fault> {
    let ((destination, to), (source, from), length) = match *operation {
        // They copy nothing.
        Operation::Burn { .. } | Operation::Launch(_) => {
            return Ok(Slice { progress: Progress::Finished, instructions: 0 });
        }
        Operation::Copy { source, destination, length } => {
            let is_in = match (engine, space.copy_engines) {
                (EngineIndex::CopyIn, CopyEngines::One) => space.memory_of(bus, source)? == Memory::System,
                (EngineIndex::CopyIn, _) => true,
                (EngineIndex::CopyOut | EngineIndex::Execution, _) => false,
            };
            let (from, to) = if is_in { (Memory::System, Memory::Local) } else { (Memory::Local, Memory::System) };
            ((destination, to), (source, from), length)
        }
        Operation::PeerCopy { source, destination, length } => {
            ((destination, Memory::Local), (source, Memory::Peer), length)
        }
    };
    let begin = done * COPY_SLICE;
    let bytes = (length - begin).min(COPY_SLICE);
    space.copy_part(bus, (destination, to), (source, from), begin, bytes)?;
    let progress = if begin + bytes < length { Progress::Slices(done + 1) } else { Progress::Finished };
    Ok(Slice { progress, instructions: bytes as usize })
}
