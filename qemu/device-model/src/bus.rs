//! The door to physical memory.

/// The bus refused an access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BusError;

/// Physical memory, as the device sees it.
///
/// The device asks for naturally aligned words only, and starts bulk accesses at addresses
/// that are multiples of 8; their length may be anything. The buffer of an image is aligned
/// to 8 bytes as well, other buffers are not, and have at most 64 bytes. No access crosses a
/// page, and none is outside the device's description.
///
/// # Order
///
/// [`Bus::read_u32`] comes before every access after it (acquire), and every access before a
/// [`Bus::write_u32`] comes before it (release). Words are read and written whole.
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
    fn read_u32(&mut self, address: u64) -> Result<u32, BusError>;

    /// Writes an aligned 32-bit word.
    ///
    /// # Errors
    /// [`BusError`] if there is no memory.
    fn write_u32(&mut self, address: u64, value: u32) -> Result<(), BusError>;

    /// Reads an aligned 64-bit word.
    ///
    /// # Errors
    /// [`BusError`] if there is no memory.
    fn read_u64(&mut self, address: u64) -> Result<u64, BusError>;

    /// Writes an aligned 64-bit word.
    ///
    /// # Errors
    /// [`BusError`] if there is no memory.
    fn write_u64(&mut self, address: u64, value: u64) -> Result<(), BusError>;

    /// Waits until everybody sees what was written so far; what is read afterwards is read after that. Memory that only one CPU
    /// uses at a time is like that anyway.
    fn settle(&mut self) {}

    /// Copies `length` bytes; addresses and length are multiples of 8, and the two ranges
    /// either do not overlap, or what arrives is undefined. Meant to be overridden.
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
