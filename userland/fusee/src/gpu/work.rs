//! Operations of engines, and the buffers they use.
//!
//! A [`Buffer`] is memory that both this task and the device reach, or the device alone, and it is one value: parts of it are
//! [split off](Buffer::split_off), so no two buffers overlap. [`Work`] borrows the buffers it reads, and those it writes
//! mutably; [submitted](super::Context::submit) work goes on borrowing them until it was waited for.
//!
//! Not here: the computations of kernels (`accel/library`, or a package of a project's own).

use super::Operation;
use super::compute::Kernel;
use super::launch::{self, Operands};
use crate::Region;
use crate::memory::SharedBytes;
use core::marker::PhantomData;
use fusee_accel_contract::{OPERAND_ALIGNMENT, space};

/// Memory of the board: shared by this task and its device.
#[derive(Debug)]
pub enum Board {}

/// Memory of the device, which this task reaches by copies only.
#[derive(Debug)]
pub enum Local {}

/// Memory for operands, of the board or of the device, that no other part of this task has.
#[derive(Debug)]
pub struct Buffer<M = Board> {
    /// Empty for memory of the device.
    shared: SharedBytes,
    address: u64,
    bytes: u64,
    memory: PhantomData<M>,
}

impl Buffer {
    /// The whole of `region`, which the driver has as `buffer.<this task>`.
    ///
    /// A second buffer of the same region is not prevented, as a handle can be looked up twice; take one, and split it.
    #[must_use]
    pub fn of(region: &Region) -> Self {
        Self::at(space::BUFFER_BASE, region.bytes(), region.shared())
    }

    /// A frame of a graph's objects, at this device address.
    pub(crate) fn of_frame(address: u64, shared: SharedBytes) -> Self {
        Self::at(address, shared.len() as u64, shared)
    }

    /// Reads the word at `offset`, a multiple of four. Panics beyond the end, as all accesses do.
    #[must_use]
    #[track_caller]
    pub fn read_u32(&self, offset: usize) -> u32 {
        self.shared.read_u32(offset)
    }

    /// Writes the word at `offset`, a multiple of four.
    #[track_caller]
    pub fn write_u32(&mut self, offset: usize, value: u32) {
        self.shared.write_u32(offset, value);
    }

    /// Copies the bytes at `offset` to `destination`.
    #[track_caller]
    pub fn copy_to_slice(&self, offset: usize, destination: &mut [u8]) {
        self.shared.copy_to_slice(offset, destination);
    }

    /// Copies `source` to `offset`.
    #[track_caller]
    pub fn copy_from_slice(&mut self, offset: usize, source: &[u8]) {
        self.shared.copy_from_slice(offset, source);
    }

    /// Writes `value` to all bytes.
    pub fn fill(&mut self, value: u8) {
        self.shared.fill(0, self.shared.len(), value);
    }
}

impl Buffer<Local> {
    /// The first `bytes` bytes of this task's share of the device's memory. If that is shorter, commands fail that would use
    /// missing bytes.
    ///
    /// A second one is not prevented; take one, and split it.
    #[must_use]
    pub fn local(bytes: u64) -> Self {
        Self::at(space::LOCAL_BASE, bytes, SharedBytes::EMPTY)
    }
}

impl<M> Buffer<M> {
    fn at(address: u64, bytes: u64, shared: SharedBytes) -> Self {
        Self { shared, address, bytes, memory: PhantomData }
    }

    /// The first device address of the buffer, and its bytes.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.address, self.bytes)
    }

    /// Number of bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps the first `at` bytes, and returns the others.
    ///
    /// # Panics
    /// If `at` is beyond the end, or no multiple of eight.
    #[must_use = "the bytes split off are lost"]
    #[track_caller]
    pub fn split_off(&mut self, at: u64) -> Self {
        assert!(at <= self.bytes && at.is_multiple_of(OPERAND_ALIGNMENT), "{at} does not split {} bytes", self.bytes);
        let shared = if self.shared.is_empty() { [SharedBytes::EMPTY; 2] } else { self.halves(at as usize) };
        let rest = Self::at(self.address + at, self.bytes - at, shared[1]);
        (self.shared, self.bytes) = (shared[0], at);
        rest
    }

    fn halves(&self, at: usize) -> [SharedBytes; 2] {
        [self.shared.part(0, at), self.shared.part(at, self.shared.len() - at)]
    }
}

/// A command that was not submitted yet, and the buffers that it borrows.
///
/// A buffer that is written is never one of the buffers that are read:
///
/// ```compile_fail,E0502
/// # use fusee::gpu::{Buffer, Local, Work, library::Gradient};
/// fn in_place(picture: &mut Buffer<Local>) {
///     let work = Work::launch(Gradient { width: 64, height: 64 }, (&*picture, picture));
///     drop(work);
/// }
/// ```
#[derive(Debug)]
#[must_use = "nothing is done until it is submitted"]
pub struct Work<'b> {
    /// `None`: an operand is too short.
    pub(super) operation: Option<Operation>,
    buffers: PhantomData<&'b mut ()>,
}

/// A command by addresses: the memory that it reads and writes is not known here.
impl From<Operation> for Work<'_> {
    fn from(operation: Operation) -> Self {
        Self { operation: Some(operation), buffers: PhantomData }
    }
}

impl<'b> Work<'b> {
    /// Copies all of `source` to the beginning of `destination`.
    pub fn copy_in(source: &'b Buffer, destination: &'b mut Buffer<Local>) -> Self {
        Self::copy(source, destination)
    }

    /// Copies all of `source` to the beginning of `destination`.
    pub fn copy_out(source: &'b Buffer<Local>, destination: &'b mut Buffer) -> Self {
        Self::copy(source, destination)
    }

    fn copy<A, B>(source: &'b Buffer<A>, destination: &'b mut Buffer<B>) -> Self {
        let length = source.bytes;
        let operation = Operation::Copy { source: source.address, destination: destination.address, length };
        Self::of((length <= destination.bytes).then_some(operation))
    }

    /// All blocks of `kernel`, with the beginnings of these buffers as its views. On a preemptible engine,
    /// [`Context::run`](super::Context::run) gives the engine to earlier keys between two blocks.
    ///
    /// A buffer that is shorter than its view, or arguments beyond the limits of the kernel, are refused as it is submitted.
    pub fn launch<K: Kernel, O: Operands<'b, K::Views<'static>>>(kernel: K, buffers: O) -> Self {
        Self::of(launch::operation(&kernel, &buffers.places()))
    }

    fn of(operation: Option<Operation>) -> Self {
        Self { operation, buffers: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_library::Product;

    #[test]
    fn what_is_split_off_begins_where_the_rest_ends() {
        let mut first = Buffer::<Board>::at(space::BUFFER_BASE, 64, SharedBytes::leaked(64));
        let mut second = first.split_off(24);
        let third = second.split_off(32);
        assert_eq!([first.bytes(), second.bytes(), third.bytes()], [24, 32, 8]);
        second.fill(1);
        assert_eq!(
            [first.read_u32(20), second.read_u32(0), second.read_u32(28), third.read_u32(0)],
            [0, 0x0101_0101, 0x0101_0101, 0]
        );
        let mut local = Buffer::local(64);
        let work = Work::copy_in(&second, &mut local);
        let (source, destination) = (space::BUFFER_BASE + 24, space::LOCAL_BASE);
        assert_eq!(work.operation, Some(Operation::Copy { source, destination, length: 32 }));
    }

    #[test]
    fn work_whose_operands_are_too_short_is_none() {
        for missing in 0..4 {
            let mut left = Buffer::local(4096);
            let mut right = left.split_off(1024);
            let mut product = right.split_off(1024);
            let _rest = product.split_off(1024);
            let shortened = [&mut left, &mut right, &mut product].into_iter().nth(missing);
            let cut = shortened.map(|buffer| buffer.split_off(1016));
            let work = Work::launch(Product { order: 16, time: 0 }, (&left, &right, &mut product));
            let is_some = work.operation.is_some();
            assert_eq!(is_some, cut.is_none());
        }
    }
}
