//! Waits inside holds: the holder of an engine or a token waits only for objects that its manifest names.
//!
//! Bounds on holds rest on this rule. Permission to wait inside for an object is a right of the task's handle to it;
//! permission to sleep, for which there is no handle, is a bit of the task. Fast paths ask for the number of holds alone,
//! except where waits inside are usual.
//!
//! Not here: the assignment of the right (`tools/manifest`).

use fusee_abi::Error;
use fusee_abi::call::{Call, DEADLINE, NUMBER, rights};
use fusee_locking::engine::State as Lock;

use crate::id::ThreadId;
use crate::object::Object;
use crate::planted::Planted;
use crate::{Kernel, Machine};

impl Kernel {
    /// Refuses the call in the registers of `thread` if it may wait, inside a hold, for something that the manifest does not name.
    ///
    /// # Errors
    /// [`Error::Holding`].
    #[inline]
    pub(crate) fn may_wait_here<M: Machine>(&self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        if !self.threads[thread].is_holding() || self.forgets(Planted::WaitsAreLetIn) {
            return Ok(());
        }
        self.check_inside(machine, thread)
    }

    #[cold]
    #[inline(never)]
    fn check_inside<M: Machine>(&self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let general = &machine.registers(thread).general;
        let may_wait = match Call::from_number(general[NUMBER]) {
            Some(Call::SleepUntil | Call::NextJob) => {
                self.sleepers[thread.index() / 32] >> (thread.index() % 32) & 1 != 0
            }
            // A look is no wait.
            Some(Call::Wait) if general[DEADLINE] == 0 => true,
            // An engine that it has, and a handle that names nothing, have errors of their own.
            _ => {
                self.has_engine(machine, thread)
                    || self.argument(machine, thread, rights::INSIDE) != Err(Error::MissingRight)
            }
        };
        if may_wait { Ok(()) } else { Err(Error::Holding) }
    }

    /// Whether `thread` holds the engine that its first argument names.
    fn has_engine<M: Machine>(&self, machine: &mut M, thread: ThreadId) -> bool {
        let Ok(Object::Engine(user)) = self.argument(machine, thread, rights::ACQUIRE) else { return false };
        let engine = self.engine_users[user].engine();
        engine.is_some_and(|engine| self.engines[engine].lock().state() == Lock::Held(user.index() as u16))
    }

    /// Whether `thread` may wait for the object that its first argument names: for fast paths.
    #[inline(always)]
    pub(crate) fn may_wait<M: Machine>(&self, machine: &mut M, thread: ThreadId) -> bool {
        !self.threads[thread].is_holding() || self.argument(machine, thread, rights::INSIDE).is_ok()
    }
}
