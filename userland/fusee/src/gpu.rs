//! The client half of the accelerator contract: commands into rings, fences out.
//!
//! A client is given engines, the region "ring" (its ring page, shared with driver and device), the region "kick",
//! and the notification "gpu_done", which the driver signals when something of this client has retired. That
//! notification is bound to the driver, so a task that waits for a fence lends the driver its key and budget.
//!
//! # Invariants
//!
//! 1. Each slot of a ring has a fence of its own, so a slot is reused only after its fence has been written.
//! 2. Fence values of a slot differ from one command to the next.
//!
//! Not here: engine locks (`engine`), resets and translation (`drivers/gpu`).

use crate::{EngineGuard, Environment, Instant, MissingHandle, Notification, Region, SharedBytes, WaitError};
use fusee_accel_contract as contract;

pub use contract::{Command, ENGINES, EngineIndex, FenceState, ImageSize, MatchResult, Operation};

const SLOTS: usize = contract::RING_ENTRIES as usize;
/// Fence values are 31 bits wide; zero is what a fresh page holds.
const LAST_VALUE: u32 = contract::FENCE_ERROR - 1;

/// The client's end of one device context.
#[derive(Debug)]
pub struct Context {
    ring: SharedBytes,
    kick: Region,
    done: Notification,
    /// The value each slot's last command was to write; zero: nothing was submitted.
    values: [[u32; SLOTS]; contract::ENGINES],
}

/// The promise that a command will retire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fence {
    index: usize,
    value: u32,
}

/// Why a command was not submitted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SubmitError {
    /// The command breaks a rule of the contract, or the engine does not know it.
    BadCommand,
    /// The ring is full: the oldest command has not retired. Wait for its fence.
    RingFull,
}

/// Why a fence did not say "done".
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FenceError {
    /// The command faulted, or the engine was reset; what it wrote is undefined.
    Failed,
    /// The wait itself ended early.
    Wait(WaitError),
}

impl Context {
    /// The context the manifest gives this task: regions "ring" and "kick", notification "gpu_done".
    ///
    /// # Errors
    /// [`MissingHandle`] names what is missing.
    pub fn of(environment: &Environment) -> Result<Context, MissingHandle<'static>> {
        let done = environment.notification("gpu_done")?;
        Ok(Context::new(environment.region("ring")?, environment.region("kick")?, done))
    }

    /// The context with this ring page, kick page and completion notification.
    #[must_use]
    pub fn new(ring: Region, kick: Region, done: Notification) -> Context {
        Context { ring: ring.shared(), kick, done, values: [[0; SLOTS]; contract::ENGINES] }
    }

    /// Writes a command into the ring of the engine that `guard` holds, and rings its doorbell.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was submitted.
    pub fn submit(&mut self, guard: &EngineGuard, operation: Operation) -> Result<Fence, SubmitError> {
        let index = EngineIndex::from_number(guard.engine().number() as usize).ok_or(SubmitError::BadCommand)?;
        // The doorbell is the only counter: it survives resets, and a restart of this task.
        let number = guard.submitted();
        let slot = (number % contract::RING_ENTRIES) as usize;
        let fence = index.number() * SLOTS + slot;
        let earlier = self.values[index.number()][slot];
        if earlier != 0 && self.poll(Fence { index: fence, value: earlier }) == contract::FenceState::Pending {
            return Err(SubmitError::RingFull);
        }

        // Unlike what stands there now, whoever left it.
        let written = self.ring.read_u32(contract::fence_offset(fence) as usize) & LAST_VALUE;
        let value = if written == LAST_VALUE { 1 } else { written + 1 };
        let target = contract::Fence { address: contract::fence_address(fence), value };
        let command = Command { operation, fence: Some(target) };
        if !command.is_valid() || !operation.runs_on(index) {
            return Err(SubmitError::BadCommand);
        }

        self.ring.copy_from_slice(contract::ring_slot(index, number) as usize, &command.encode());
        self.values[index.number()][slot] = value;
        guard.ring(&self.kick, number.wrapping_add(1));
        Ok(Fence { index: fence, value })
    }

    /// Whether the command behind `fence` has retired, and how.
    #[must_use]
    pub fn poll(&self, fence: Fence) -> contract::FenceState {
        contract::fence_state(self.ring.observe_u32(contract::fence_offset(fence.index) as usize), fence.value)
    }

    /// Waits until the command behind `fence` has retired, at the latest until `deadline`.
    ///
    /// # Errors
    /// [`FenceError`] if it faulted, or the wait ended early.
    pub fn wait(&self, fence: Fence, deadline: Instant) -> Result<(), FenceError> {
        self.wait_with(fence, self.done, deadline)
    }

    /// The same, with another notification that the driver signals.
    ///
    /// # Errors
    /// [`FenceError`] if it faulted, or the wait ended early.
    pub fn wait_with(&self, fence: Fence, done: Notification, deadline: Instant) -> Result<(), FenceError> {
        loop {
            match self.poll(fence) {
                contract::FenceState::Done => return Ok(()),
                contract::FenceState::Failed => return Err(FenceError::Failed),
                // The bits may tell of another command: look again.
                contract::FenceState::Pending => done.wait(deadline).map_err(FenceError::Wait)?,
            };
        }
    }
}

const _: () = assert!(contract::ENGINES * SLOTS <= contract::FENCES);
