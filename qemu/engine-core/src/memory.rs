//! Physical memory, as the device model wants to see it.

use core::arch::asm;
use core::ops::Range;

use fusee_accel_contract::FaultKind;
use fusee_bsp::board;
use fusee_device_model::{Bus, BusError, Job, Ran};

use crate::clock::Clock;
use crate::{firmware, worker};

/// The time that a job runs before the devices look at the world again, nanoseconds, where time is that of executed instructions. Longer than any
/// turn of an emulated CPU, 50 us: QEMU ends the turn of a CPU that arms the timer that is next of all. The other turns then take as long as a
/// shorter slice, which so ends before its job has executed anything, each time anew.
const SLICE: u64 = 64_000;
/// The slice where time is the host's: an emulator that many wait for needs longer for the interrupt alone.
const LOOSE_SLICE: u64 = 100_000;

/// All memory of the board but this firmware.
pub struct Memory {
    /// Memory that is not to be touched.
    own: Range<u64>,
    /// The device that uses it, and the clock by which its jobs run; in a job there is neither.
    device: Option<(usize, Clock)>,
    /// Nanoseconds that jobs have run so far.
    spent: u64,
    /// Whether a kick came while one did.
    kicked: bool,
}

impl Memory {
    /// Memory without `own`, for the loop.
    pub const fn without(own: Range<u64>, clock: Clock) -> Self {
        Self { own, device: Some((0, clock)), spent: 0, kicked: false }
    }

    /// Memory for a job, in which no other job is run.
    pub const fn of_job(own: Range<u64>) -> Self {
        Self { own, device: None, spent: 0, kicked: false }
    }

    /// Whether a kick has come while a job ran, since this was asked.
    pub fn was_kicked(&mut self) -> bool {
        core::mem::take(&mut self.kicked)
    }

    /// Memory for a device.
    pub fn of_device(&mut self, device: usize) -> &mut Self {
        if let Some((place, _)) = &mut self.device {
            *place = device;
        }
        self
    }

    /// The address as a pointer, if `bytes` bytes there are memory.
    fn at<T>(&self, address: u64, bytes: u64) -> Result<*mut T, BusError> {
        let end = address.checked_add(bytes).ok_or(BusError)?;
        let outside = !board::MEMORY.contains(&address) || end > board::MEMORY.end;
        if outside || address < self.own.end && self.own.start < end || !address.is_multiple_of(align_of::<T>() as u64)
        {
            return Err(BusError);
        }
        Ok(address as *mut T)
    }
}

/// Orders earlier reads against later accesses.
fn acquire() {
    // SAFETY: a barrier changes no state.
    unsafe { asm!("dmb ish", options(nostack, preserves_flags)) };
}

impl Bus for Memory {
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        let source = self.at::<u8>(address, buffer.len() as u64)?;
        let byte = |offset: usize| {
            // SAFETY: memory, by `at`; plain bytes. Volatile: a client may write it meanwhile.
            unsafe { source.wrapping_add(offset).read_volatile() }
        };
        let mut at = 0;
        if (buffer.as_ptr() as usize).wrapping_sub(address as usize).is_multiple_of(8) {
            // SAFETY: any bytes are valid words, and words valid bytes.
            let (head, words, _) = unsafe { buffer.align_to_mut::<u64>() };
            head.iter_mut().enumerate().for_each(|(offset, to)| *to = byte(offset));
            let from = source.wrapping_add(head.len()).cast::<u64>();
            // Eight at a time: a third of the instructions.
            let (eights, rest) = words.as_chunks_mut::<8>();
            for (offset, eight) in eights.iter_mut().enumerate() {
                // SAFETY: as above; aligned as the buffer is.
                *eight = core::array::from_fn(|at| unsafe { from.wrapping_add(8 * offset + at).read_volatile() });
            }
            let done = 8 * eights.len();
            for (offset, word) in rest.iter_mut().enumerate() {
                // SAFETY: as above.
                *word = unsafe { from.wrapping_add(done + offset).read_volatile() };
            }
            at = head.len() + 8 * words.len();
        }
        buffer.iter_mut().enumerate().skip(at).for_each(|(offset, to)| *to = byte(offset));
        Ok(())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), BusError> {
        let target = self.at::<u8>(address, data.len() as u64)?;
        let byte = |offset: usize, byte: u8| {
            // SAFETY: memory that is not ours, by `at`: no Rust object is there.
            unsafe { target.wrapping_add(offset).write_volatile(byte) }
        };
        let mut at = 0;
        if (data.as_ptr() as usize).wrapping_sub(address as usize).is_multiple_of(8) {
            // SAFETY: any bytes are valid words.
            let (head, words, _) = unsafe { data.align_to::<u64>() };
            head.iter().enumerate().for_each(|(offset, from)| byte(offset, *from));
            let to = target.wrapping_add(head.len()).cast::<u64>();
            let (eights, rest) = words.as_chunks::<8>();
            for (offset, eight) in eights.iter().enumerate() {
                for (at, word) in eight.iter().enumerate() {
                    // SAFETY: as above; aligned as the data is.
                    unsafe { to.wrapping_add(8 * offset + at).write_volatile(*word) };
                }
            }
            let done = 8 * eights.len();
            for (offset, word) in rest.iter().enumerate() {
                // SAFETY: as above.
                unsafe { to.wrapping_add(done + offset).write_volatile(*word) };
            }
            at = head.len() + 8 * words.len();
        }
        data.iter().enumerate().skip(at).for_each(|(offset, from)| byte(offset, *from));
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
        // Earlier reads and writes must be complete before the word is seen.
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

    fn run(&mut self, job: &Job) -> Result<Ran, (FaultKind, u64)> {
        let Some((device, clock)) = &self.device else { return job.run(self) };
        let slice = if Clock::is_exact() { SLICE } else { LOOSE_SLICE };
        let begin = clock.now();
        clock.arm(Some(begin + slice));
        let ran = worker::run(*device, job);
        self.spent += clock.now() - begin;
        clock.arm(None);
        self.kicked |= firmware::drain();
        ran
    }

    fn spent(&self) -> u64 {
        self.spent
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
