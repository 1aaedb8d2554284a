//! Regions: memory shared with other tasks or devices.

use crate::RegionError;
use crate::environment::{Environment, Object};
use crate::memory::{SharedBytes, shared};
use crate::syscall::plain;
use fusee_abi::call::Call;
use fusee_abi::environment::{ALONE, Entry};
use fusee_abi::image::kind;

/// Physical memory or a device window at a fixed address.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    handle: u64,
    /// Empty if the task may neither read nor write: then the region is nowhere in its address space.
    shared: SharedBytes,
    bytes: u64,
    address: usize,
    physical: u64,
    flags: u32,
}

impl Object for Region {
    const KIND: u32 = kind::REGION;
    const NAME: &'static str = "region";

    fn from_entry(_: &Environment, entry: &'static Entry) -> Self {
        let shared = shared(entry);
        let address = entry.address as usize;
        Self { handle: entry.handle, shared, bytes: entry.bytes, address, physical: entry.physical, flags: entry.flags }
    }
}

impl Region {
    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    /// The bytes of the region. While the region is not mapped, an access faults.
    #[inline]
    #[must_use]
    pub fn shared(&self) -> SharedBytes {
        self.shared
    }

    /// The length of the region in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The address of the region in this task; zero if the task may neither read nor write it.
    #[must_use]
    pub fn address(&self) -> usize {
        self.address
    }

    /// The physical address of the region, for tasks that program devices; zero for others.
    #[must_use]
    pub fn physical(&self) -> u64 {
        self.physical
    }

    /// The device's kind, of [`fusee_abi::environment::device`], if the manifest names it as a device of the board; zero if not.
    #[must_use]
    pub fn device(&self) -> u32 {
        self.flags & (ALONE - 1)
    }

    /// Whether it is memory that no other task has a handle of.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.flags & ALONE != 0
    }

    /// The slot of its handle: different for each region of a task.
    #[must_use]
    pub fn slot(&self) -> u16 {
        fusee_abi::call::HandleValue(self.handle).slot()
    }

    /// Maps it at its address.
    ///
    /// # Errors
    /// [`RegionError`] says why not.
    #[inline]
    pub fn map(&self) -> Result<(), RegionError> {
        RegionError::check(plain(Call::Map as u64, self.handle, 0).code)
    }

    /// Takes it out of this task's address space.
    ///
    /// # Errors
    /// [`RegionError`] says why not.
    #[inline]
    pub fn unmap(&self) -> Result<(), RegionError> {
        RegionError::check(plain(Call::Unmap as u64, self.handle, 0).code)
    }
}

#[cfg(test)]
impl Region {
    /// A page of the host's memory.
    pub(crate) fn on_host() -> Region {
        Region { handle: 0, shared: SharedBytes::leaked(4096), bytes: 4096, address: 0, physical: 0, flags: 0 }
    }
}
