//! Ending tasks, be it others, and the system, releasing other tasks' jobs, and leaving numbers in the trace.

use crate::environment::{Environment, Object};
use crate::grant::{Grantable, Handle};
use crate::syscall::{message, plain, relax};
use crate::{CreditError, Instant, Nanoseconds, ReleaseJobError, ReservationError, RestartError, StopError};
use fusee_abi::call::{Call, MESSAGE_WORDS, ending};
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

    /// Lets this sporadic task have its jobs up to number `upto`, each released now or a period after the one before, whichever is later. That is no request for
    /// jobs but a statement: to say it twice, or together with others, or to say less than was said, changes nothing. Numbers count from 1, go on across
    /// lives, and are compared as distances of less than 2^31.
    ///
    /// # Errors
    /// [`CreditError`] says why some of the jobs are not released. With zero nothing is done.
    pub fn credit(&self, upto: u32) -> Result<(), CreditError> {
        // The kernel releases one in a call, and takes zero for one more than there were.
        let mut missing = i32::from(upto != 0);
        while missing > 0 {
            let answer = plain(Call::ReleaseJob as u64, self.handle, upto.into());
            CreditError::check(answer.code)?;
            missing = answer.value as i32;
        }
        Ok(())
    }

    /// Has this task begin, which is dormant; it may have begun and ended before. Returns the number of its life, zero for the first.
    ///
    /// # Errors
    /// [`RestartError`] says why not.
    pub fn start(&self) -> Result<u32, RestartError> {
        let answer = plain(Call::Start as u64, self.handle, 0);
        RestartError::check(answer.code).map(|()| answer.value as u32)
    }

    /// Gives this dormant task, which has not begun or has ended, another budget and period, from its next start on. No more budget than the manifest declares, 40 us at least, and no
    /// shorter period: a task with less is one of those that the analysis has counted. Its deadline and its priority are as declared, measured from each release.
    ///
    /// The remaining budget stays, up to the size of the new one; the rest comes a period after this call. Releases by the clock go on from the next
    /// one that there would have been.
    ///
    /// # Errors
    /// [`ReservationError`] says why not; nothing has changed.
    pub fn set_reservation(&self, budget: Nanoseconds, period: Nanoseconds) -> Result<(), ReservationError> {
        let words = [budget.0, period.0, 0, 0, 0, 0];
        ReservationError::check(message(Call::SetReservation as u64, self.handle, words, 0, 0).code)
    }

    /// Ends this task at any instant. Afterwards it stores nothing more; tasks that wait for it are notified soon. A
    /// task that has ended may be ended again, and one that ends itself does not come back from here.
    ///
    /// # Errors
    /// [`StopError`] if it may not be ended by this one.
    pub fn stop(&self) -> Result<(), StopError> {
        StopError::check(plain(Call::Stop as u64, self.handle, 0).code)
    }
}

/// How a life of a task ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// The task has not ended since it was started first.
    None,
    /// By itself, with this code; a panic has [`PANIC_CODE`](crate::PANIC_CODE).
    Exited {
        /// Code.
        code: u64,
    },
    /// The task made a forbidden access.
    Faulted {
        /// The kernel's syndrome register, `ESR_EL1`.
        syndrome: u64,
        /// The address that it touched, if the hardware says one.
        address: Option<u64>,
        /// The address of the instruction.
        instruction: u64,
    },
    /// The task with this number, in the order of the manifest, ended it.
    Stopped {
        /// Number.
        by: u64,
    },
}

/// The known facts about the end of a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct End {
    /// How it ended last.
    pub ending: Ending,
    /// The number of the present life, or of the last, if the task has ended. Zero is the first.
    pub life: u32,
    /// When that end was.
    pub at: Instant,
}

impl Task {
    /// Gives this task, which has ended, another life, and returns its number. It begins at its first instruction with the objects of its manifest;
    /// the used part of its budget is used. A task without a budget starts on the budget of the task that waits for the notification `starts.NAME`.
    ///
    /// # Errors
    /// [`RestartError`] says why it has none.
    pub fn restart(&self) -> Result<u32, RestartError> {
        let answer = plain(Call::Restart as u64, self.handle, 0);
        RestartError::check(answer.code)?;
        Ok(answer.value as u32)
    }

    /// How this task ended last.
    ///
    /// # Errors
    /// [`RestartError`] if this task may not know.
    pub fn end(&self) -> Result<End, RestartError> {
        let answer = message(Call::ReadFault as u64, self.handle, [0; MESSAGE_WORDS], 0, 0);
        RestartError::check(answer.code)?;
        let [life, at, first, second, third, _] = answer.words;
        let ending = match answer.value {
            ending::EXITED => Ending::Exited { code: first },
            ending::STOPPED => Ending::Stopped { by: first.saturating_sub(1) },
            ending::FAULTED => Ending::Faulted {
                syndrome: first,
                address: Some(second).filter(|at| *at != u64::MAX),
                instruction: third,
            },
            _ => Ending::None,
        };
        Ok(End { ending, life: life as u32, at: Instant(at) })
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
