//! Physical memory, as the device model wants to see it.

use core::arch::asm;
use core::ops::Range;

use fusee_bsp::virt as board;
use fusee_device_model::{Bus, BusError};

/// All memory of the board but this firmware.
pub struct Memory {
    /// What is not to be touched.
    own: Range<u64>,
}

impl Memory {
    /// Memory without `own`.
    pub const fn without(own: Range<u64>) -> Self {
        Self { own }
    }

    /// The address as a pointer, if `bytes` bytes there are memory.
    fn at<T>(&self, address: u64, bytes: u64) -> Result<*mut T, BusError> {
        let end = address.checked_add(bytes).ok_or(BusError)?;
        let outside = address < board::MEMORY.start || end > board::MEMORY.end;
        if outside || address < self.own.end && self.own.start < end || !address.is_multiple_of(align_of::<T>() as u64)
        {
            return Err(BusError);
        }
        Ok(address as *mut T)
    }
}

/// Orders what was read before against what follows.
fn acquire() {
    // SAFETY: a barrier changes no state.
    unsafe { asm!("dmb ish", options(nostack, preserves_flags)) };
}

impl Bus for Memory {
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        // SAFETY: any bytes are valid words, and words valid bytes.
        let (head, words, tail) = unsafe { buffer.align_to_mut::<u64>() };
        if !head.is_empty() {
            let source = self.at::<u8>(address, buffer.len() as u64)?;
            for (offset, byte) in buffer.iter_mut().enumerate() {
                // SAFETY: memory, by `at`; plain bytes. Volatile: a client may write it meanwhile.
                *byte = unsafe { source.wrapping_add(offset).read_volatile() };
            }
            return Ok(());
        }
        let source = self.at::<u64>(address, (8 * words.len() + tail.len()) as u64)?;
        let rest = source.wrapping_add(words.len()).cast::<u8>();
        for (offset, word) in words.iter_mut().enumerate() {
            // SAFETY: as above, aligned by `at`.
            *word = unsafe { source.wrapping_add(offset).read_volatile() };
        }
        for (offset, byte) in tail.iter_mut().enumerate() {
            // SAFETY: as above.
            *byte = unsafe { rest.wrapping_add(offset).read_volatile() };
        }
        Ok(())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), BusError> {
        // SAFETY: any bytes are valid words.
        let (head, words, tail) = unsafe { data.align_to::<u64>() };
        if !head.is_empty() {
            let target = self.at::<u8>(address, data.len() as u64)?;
            for (offset, byte) in data.iter().enumerate() {
                // SAFETY: memory that is not ours, by `at`: no Rust object is there.
                unsafe { target.wrapping_add(offset).write_volatile(*byte) };
            }
            return Ok(());
        }
        let target = self.at::<u64>(address, data.len() as u64)?;
        let rest = target.wrapping_add(words.len()).cast::<u8>();
        for (offset, word) in words.iter().enumerate() {
            // SAFETY: as above, aligned by `at`.
            unsafe { target.wrapping_add(offset).write_volatile(*word) };
        }
        for (offset, byte) in tail.iter().enumerate() {
            // SAFETY: as above.
            unsafe { rest.wrapping_add(offset).write_volatile(*byte) };
        }
        Ok(())
    }

    fn read_u32(&mut self, address: u64) -> Result<u32, BusError> {
        let source = self.at::<u32>(address, 4)?;
        // SAFETY: memory, aligned, by `at`.
        let word = unsafe { source.read_volatile() };
        acquire();
        Ok(word)
    }

    fn write_u32(&mut self, address: u64, value: u32) -> Result<(), BusError> {
        let target = self.at::<u32>(address, 4)?;
        // What was read or written before must be complete before the word is seen.
        acquire();
        // SAFETY: memory that is not ours, aligned, by `at`.
        unsafe { target.write_volatile(value) };
        Ok(())
    }

    fn read_u64(&mut self, address: u64) -> Result<u64, BusError> {
        let source = self.at::<u64>(address, 8)?;
        // SAFETY: memory, aligned, by `at`.
        Ok(unsafe { source.read_volatile() })
    }

    fn write_u64(&mut self, address: u64, value: u64) -> Result<(), BusError> {
        let target = self.at::<u64>(address, 8)?;
        // SAFETY: memory that is not ours, aligned, by `at`.
        unsafe { target.write_volatile(value) };
        Ok(())
    }

    fn settle(&mut self) {
        // A full barrier: stores before it come before loads after it.
        acquire();
    }

    fn copy(&mut self, destination: u64, source: u64, length: u64) -> Result<(), BusError> {
        let from = self.at::<u64>(source, length)?;
        let to = self.at::<u64>(destination, length)?;
        for index in 0..(length / 8) as usize {
            // SAFETY: memory, aligned, by `at`.
            let word = unsafe { from.wrapping_add(index).read_volatile() };
            // SAFETY: memory that is not ours, aligned, by `at`.
            unsafe { to.wrapping_add(index).write_volatile(word) };
        }
        Ok(())
    }
}
