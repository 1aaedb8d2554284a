//! Ending tasks, be it others, and the system, releasing other tasks' jobs, and leaving numbers in the trace.

use crate::environment::{Environment, Object};
use crate::grant::{Grantable, Handle};
use crate::syscall::{plain, relax};
use crate::{ReleaseJobError, StopError};
use fusee_abi::call::Call;
use fusee_abi::environment::Entry;
use fusee_abi::image::kind;

/// Another task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Task {
    handle: u64,
}

impl Object for Task {
    const KIND: u32 = kind::TASK;
    const NAME: &'static str = "task";

    fn from_entry(_: &Environment, entry: &'static Entry) -> Self {
        Self { handle: entry.handle }
    }
}

impl Grantable for Task {}

impl Handle for Task {
    fn value(&self) -> u64 {
        self.handle
    }

    fn of(value: u64) -> Self {
        Self { handle: value }
    }
}

impl Task {
    /// Releases a job of this sporadic task, at once or when its period has passed.
    ///
    /// # Errors
    /// [`ReleaseJobError`] says why not.
    #[inline]
    pub fn release_job(&self) -> Result<(), ReleaseJobError> {
        ReleaseJobError::check(plain(Call::ReleaseJob as u64, self.handle, 0).code)
    }

    /// Ends this task, whatever it is doing. Afterwards it stores nothing more; whoever waits for it hears of it soon. A
    /// task that has ended may be ended again, and one that ends itself does not come back from here.
    ///
    /// # Errors
    /// [`StopError`] if it may not be ended by this one.
    pub fn stop(&self) -> Result<(), StopError> {
        StopError::check(plain(Call::Stop as u64, self.handle, 0).code)
    }
}

/// The whole system.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct System {
    handle: u64,
}

impl Object for System {
    const KIND: u32 = kind::SYSTEM;
    const NAME: &'static str = "system";

    fn from_entry(_: &Environment, entry: &'static Entry) -> Self {
        Self { handle: entry.handle }
    }
}

/// Ends this task; others see it as dead.
pub fn exit(code: u64) -> ! {
    plain(Call::Exit as u64, 0, code);
    stand_still()
}

/// Ends the system with this exit code.
///
/// If the kernel refuses, the task ends instead.
pub fn shutdown(system: System, code: u64) -> ! {
    plain(Call::Exit as u64, system.handle, code);
    exit(code)
}

/// Writes a record to the trace: the low half of `key`, and `value`.
#[inline]
pub fn log(key: u64, value: u64) {
    plain(Call::Log as u64, key, value);
}

/// Enters the kernel and comes back.
#[inline]
pub fn null() {
    plain(Call::Null as u64, 0, 0);
}

/// Where a task ends up that the kernel did not end: only a kernel without `exit` would.
fn stand_still() -> ! {
    loop {
        relax();
    }
}
