//! Finding objects: by the value of a handle, by a copy of one, by number.

use fusee_abi::Error;
use fusee_abi::call::HandleValue;

use crate::id::{ClusterId, ThreadId};
use crate::limits::HANDLES;
use crate::object::{Handle, Object};
use crate::planted::Planted;
use crate::{Kernel, Machine};

impl Kernel {
    /// The object that `value` names in `thread`'s handle table, and the badge of that handle.
    ///
    /// # Errors
    /// [`Error::BadHandle`] if it names nothing (any more); [`Error::MissingRight`].
    #[inline]
    pub(crate) fn resolve(&self, thread: ThreadId, value: u64, right: u32) -> Result<(Object, u32), Error> {
        let value = HandleValue(value);
        // A slot beyond the table does not match the value at its wrapped index.
        let handle = &self.handles[thread][usize::from(value.slot()) % HANDLES];
        let is_forgotten = self.forgets(Planted::GenerationIsNotCompared) && value.slot() == handle.value().slot();
        if (value != handle.value() && !is_forgotten) || matches!(*handle.object(), Object::Empty) {
            return Err(Error::BadHandle);
        }
        if u32::from(handle.rights()) & right != right {
            self.check_copy(handle, right)?;
        }
        Ok((*handle.object(), handle.badge()))
    }

    /// The object that the first argument of `thread` names, if `thread` has this right to it.
    ///
    /// # Errors
    /// Those of [`Kernel::resolve`].
    #[inline(never)]
    pub(crate) fn argument<M: Machine>(&self, machine: &mut M, thread: ThreadId, right: u32) -> Result<Object, Error> {
        let handle = machine.registers(thread).general[0];
        self.resolve(thread, handle, right).map(|(object, _)| object)
    }

    /// The task that the first argument of `thread` names, if `thread` has this right to it.
    ///
    /// # Errors
    /// Those of [`Kernel::argument`], and [`Error::WrongKind`].
    pub(crate) fn task_argument<M: Machine>(
        &self,
        machine: &mut M,
        thread: ThreadId,
        right: u32,
    ) -> Result<ThreadId, Error> {
        let Object::Task(task) = self.argument(machine, thread, right)? else { return Err(Error::WrongKind) };
        Ok(task)
    }

    /// The clusters in use; for checks.
    pub(crate) fn cluster_ids(&self) -> impl Iterator<Item = ClusterId> + use<> {
        (0..self.counts.clusters).filter_map(ClusterId::new)
    }

    /// Whether a copy gives this right now.
    ///
    /// # Errors
    /// [`Error::BadHandle`] if its origin was revoked; [`Error::MissingRight`], also if `handle` is no copy.
    pub(crate) fn check_copy(&self, handle: &Handle, right: u32) -> Result<(), Error> {
        if !self.derivations.holds(handle.origin()) {
            return Err(Error::BadHandle);
        }
        if u32::from(handle.kept()) & right == right { Ok(()) } else { Err(Error::MissingRight) }
    }
}
