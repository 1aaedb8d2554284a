//! The state of a task on a GPU, moved to another GPU.
//!
//! Two ways: [`directly`], from one device's memory into the other's, which keeps a copy engine of both; or
//! [`through_memory`], out of the one and then into the other, which copies twice and never holds two engines. Both copy
//! in chunks, and give engines back between two chunks if a more urgent task waits for one.
//!
//! # Invariants
//!
//! 1. A task that needs two engines takes that of the device with the lower number first, so no two tasks wait for each other.
//! 2. Engines are held while a command runs, and given back on all ways out.
//!
//! Not here: which GPU a task should go to (`accel`). Source: Elliott 2015, chapter 3: migration peer-to-peer, and the
//! conservative way through system memory; chunks, and the question whether to yield between two. We differ: there both
//! engines are one group, granted at once; here the order excludes deadlock, but waiting for the second counts as holding
//! the first.

use crate::gpu::{Context, Operation, RunError};
use crate::{Engine, EngineGuard, Instant};
use fusee_accel_contract::space;

/// A task's end of one device.
#[derive(Debug)]
pub struct Side {
    /// The context of the task there.
    pub context: Context,
    /// The engine that copies to the device's memory, from memory of the board and of other devices.
    pub copy_in: Engine,
    /// The engine that copies from the device's memory; of a device with one copy engine, that one.
    pub copy_out: Engine,
    /// The device's number: the parameter `device.DEVICE`.
    pub device: usize,
}

/// The state that moves: one range of the task's memory on both devices.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Offset in the task's memory on a device, a multiple of eight.
    pub offset: u64,
    /// How many, a multiple of eight.
    pub bytes: u64,
    /// How many at once, a positive multiple of eight.
    pub chunk: u64,
}

/// Moves `state`, holding a copy engine of each side.
///
/// # Errors
/// [`RunError`]. The state is still where it was, and undefined where it should be.
pub fn directly(from: &Side, to: &Side, state: State, deadline: Instant) -> Result<(), RunError> {
    let (source, destination) = (space::peer(from.device) + state.offset, space::LOCAL_BASE + state.offset);
    let operation = |at, length| Operation::PeerCopy { source: source + at, destination: destination + at, length };
    let acquire = |engine: &Engine| engine.acquire(deadline).map_err(RunError::Acquire);
    let mut done = 0;
    while done < state.bytes {
        let (out, into);
        if from.device < to.device {
            out = acquire(&from.copy_out)?;
            into = acquire(&to.copy_in)?;
        } else {
            into = acquire(&to.copy_in)?;
            out = acquire(&from.copy_out)?;
        }
        while done < state.bytes {
            done += chunk(&to.context, &into, state, done, deadline, operation)?;
            if out.should_yield().map_err(RunError::Lost)? || into.should_yield().map_err(RunError::Lost)? {
                break;
            }
        }
        into.release().map_err(RunError::Lost)?;
        out.release().map_err(RunError::Lost)?;
    }
    Ok(())
}

/// Moves `state` by way of the task's buffer in memory of the board, from device address `buffer` on, which is the same
/// memory on both sides. Holds one engine at a time.
///
/// # Errors
/// [`RunError`]. The state is still where it was, and undefined where it should be.
pub fn through_memory(from: &Side, to: &Side, state: State, buffer: u64, deadline: Instant) -> Result<(), RunError> {
    let local = space::LOCAL_BASE + state.offset;
    let copy = |source, destination| Operation::Copy { source, destination, length: state.bytes };
    from.context.run_in_chunks(&from.copy_out, copy(local, buffer), state.chunk, deadline)?;
    to.context.run_in_chunks(&to.copy_in, copy(buffer, local), state.chunk, deadline)
}

/// Does the chunk after the first `done` bytes; says how long it was.
fn chunk(
    context: &Context,
    guard: &EngineGuard<'_>,
    state: State,
    done: u64,
    deadline: Instant,
    operation: impl Fn(u64, u64) -> Operation,
) -> Result<u64, RunError> {
    let length = state.chunk.min(state.bytes - done);
    let mut copy = context.submit(guard, operation(done, length)).map_err(RunError::Submit)?;
    copy.wait_until(deadline).map_err(RunError::Fence)?;
    Ok(length)
}
