//! Loads and stores of device registers.

use core::ptr::NonNull;

/// A block of device registers at a known place.
#[derive(Clone, Copy)]
pub struct Registers(NonNull<u8>);

impl Registers {
    /// The registers at `base`.
    ///
    /// # Safety
    /// `base` is mapped as device memory, at least as far as any offset used with it, for as long as the
    /// result or a copy of it is used, and a load or store of these registers breaks no memory safety.
    pub const unsafe fn new(base: NonNull<u8>) -> Self {
        Self(base)
    }

    #[inline]
    fn at<T>(self, offset: usize) -> *mut T {
        self.0.as_ptr().wrapping_add(offset).cast()
    }

    #[inline]
    pub fn read32(self, offset: usize) -> u32 {
        // SAFETY: a mapped, aligned register: the caller of `new` guarantees the first; all offsets in this
        // crate are multiples of the access size.
        unsafe { self.at::<u32>(offset).read_volatile() }
    }

    #[inline]
    pub fn write32(self, offset: usize, value: u32) {
        // SAFETY: as in `read32`; that the store harms no memory is the promise made to `new`.
        unsafe { self.at::<u32>(offset).write_volatile(value) }
    }

    #[inline]
    pub fn read64(self, offset: usize) -> u64 {
        // SAFETY: as in `read32`.
        unsafe { self.at::<u64>(offset).read_volatile() }
    }

    #[inline]
    pub fn write64(self, offset: usize, value: u64) {
        // SAFETY: as in `write32`.
        unsafe { self.at::<u64>(offset).write_volatile(value) }
    }
}

/// Accesses to memory and to devices before it come before those after it.
#[inline]
#[allow(dead_code, reason = "not all controllers are in memory")]
pub fn barrier() {
    // SAFETY: a barrier changes no state.
    unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
}
