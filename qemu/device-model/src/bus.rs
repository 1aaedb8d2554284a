//! The door to physical memory, and to the code that runs kernels.

use fusee_accel_contract::FaultKind;

use crate::{Job, Ran};

/// The bus refused an access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BusError;

/// Physical memory, as the device sees it.
///
/// The device asks for naturally aligned words only. Bulk accesses of its own start at addresses
/// that are multiples of 8; those of kernels anywhere. Their length may be anything. The buffer of an image is aligned
/// to 8 bytes as well, others need not be. No access crosses a
/// page, and none is outside the device's description.
///
/// # Order
///
/// [`Bus::read_u32`] comes before every access after it (acquire), and every access before a
/// [`Bus::write_u32`] comes before it (release). Words are read and written whole. Where only one CPU uses memory at a time, that is so anyway: the
/// functions for words need no others than those here.
pub trait Bus {
    /// Reads bytes.
    ///
    /// # Errors
    /// [`BusError`] if there is no memory. The same holds for the other functions.
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), BusError>;

    /// Writes bytes.
    ///
    /// # Errors
    /// [`BusError`] if there is no memory.
    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), BusError>;

    /// Reads an aligned 32-bit word.
    ///
    /// # Errors
    /// [`BusError`] if there is no memory.
    fn read_u32(&mut self, address: u64) -> Result<u32, BusError> {
        let mut word = [0; 4];
        self.read(address, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    /// Writes an aligned 32-bit word.
    ///
    /// # Errors
    /// [`BusError`] if there is no memory.
    fn write_u32(&mut self, address: u64, value: u32) -> Result<(), BusError> {
        self.write(address, &value.to_le_bytes())
    }

    /// Reads an aligned 64-bit word.
    ///
    /// # Errors
    /// [`BusError`] if there is no memory.
    fn read_u64(&mut self, address: u64) -> Result<u64, BusError> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Writes an aligned 64-bit word.
    ///
    /// # Errors
    /// [`BusError`] if there is no memory.
    fn write_u64(&mut self, address: u64, value: u64) -> Result<(), BusError> {
        self.write(address, &value.to_le_bytes())
    }

    /// Waits until all earlier writes are visible to all; later reads are read after that. Memory that only one CPU
    /// uses at a time is like that anyway.
    fn settle(&mut self) {}

    /// Runs code of a kernel's author, or goes on with it if it was run before and is [`Ran::Unfinished`]: then `job` is the same. A job
    /// that is followed by another before it ended is forgotten.
    ///
    /// This implementation exposes the caller to all that the code does. A player of several devices lets the code do no more than fail.
    ///
    /// # Errors
    /// The reason for the early end, with a number: the device address of missing memory, or see [`FaultKind::Panicked`] and
    /// [`FaultKind::Exception`].
    fn run(&mut self, job: &Job) -> Result<Ran, (FaultKind, u64)>
    where
        Self: Sized,
    {
        job.run(self)
    }

    /// Nanoseconds that jobs have run so far, all together; always zero where they are not measured.
    fn spent(&self) -> u64 {
        0
    }

    /// Copies `length` bytes; addresses and length are multiples of 8, and the two ranges
    /// either do not overlap, or the result is undefined. Meant to be overridden.
    ///
    /// # Errors
    /// [`BusError`] if there is no memory at either end.
    fn copy(&mut self, destination: u64, source: u64, length: u64) -> Result<(), BusError> {
        for offset in (0..length).step_by(8) {
            let word = self.read_u64(source + offset)?;
            self.write_u64(destination + offset, word)?;
        }
        Ok(())
    }
}
