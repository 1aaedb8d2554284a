//! A static that boot writes once and everybody reads afterwards.

use core::cell::UnsafeCell;

/// A value set by the boot CPU while it is alone, and only read from then on.
#[repr(transparent)]
pub struct BootCell<T>(UnsafeCell<T>);

// SAFETY: `set` demands that there is no other access meanwhile; all other access is by shared reference to
// a `Sync` value.
unsafe impl<T: Sync> Sync for BootCell<T> {}

impl<T> BootCell<T> {
    /// A cell that holds `value` until boot sets it.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> &T {
        // SAFETY: `set` is not running and will not run while the reference lives: its caller promised.
        unsafe { &*self.0.get() }
    }

    /// Sets the value.
    ///
    /// # Safety
    /// Only the boot CPU calls this, before it starts any other CPU and before it enters a task, and holds no
    /// reference from [`BootCell::get`] of this cell.
    pub unsafe fn set(&self, value: T) {
        // SAFETY: there is no other reader: promised by our caller.
        unsafe { *self.0.get() = value };
    }

    /// Changes the value in place.
    ///
    /// # Safety
    /// As for [`BootCell::set`]; and the result is dropped before the next access to the cell.
    #[expect(clippy::mut_from_ref, reason = "that is what the cell is for; the caller promises to be alone")]
    pub unsafe fn change(&self) -> &mut T {
        // SAFETY: there is no other reader: promised by our caller.
        unsafe { &mut *self.0.get() }
    }
}
