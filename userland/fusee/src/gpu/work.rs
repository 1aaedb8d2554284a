//! What an engine is to do, and the buffers it does it with.
//!
//! A [`Buffer`] is memory that both this task and the device reach, or the device alone, and it is one value: parts of it are
//! [split off](Buffer::split_off), so no two buffers overlap. [`Work`] borrows the buffers it reads, and those it writes
//! mutably; what is [submitted](super::Context::submit) goes on borrowing them until it was waited for.
//!
//! Not here: what the commands compute (`accel/contract/src/command.rs`).

use super::{ImageSize, Operation};
use crate::Region;
use crate::memory::SharedBytes;
use core::marker::PhantomData;
use fusee_accel_contract::{MATCH_BYTES, OPERAND_ALIGNMENT, space};

/// Memory of the board: what this task and its device share.
#[derive(Debug)]
pub enum Board {}

/// Memory of the device, which this task reaches by copies only.
#[derive(Debug)]
pub enum Local {}

/// Memory for operands, of the board or of the device, that nobody else in this task has.
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
    /// what is not there.
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

/// A command that was not submitted yet, and what it borrows.
///
/// Of its operands one is written, the last; it is never one of those that are read:
///
/// ```compile_fail,E0502
/// # use fusee::gpu::{Buffer, Local, Work};
/// fn in_place(samples: &mut Buffer<Local>) {
///     let work = Work::transform(samples, samples, 64);
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

/// A command by addresses: of what it reads and writes, nothing is known here.
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
        Self::if_fits(operation, &[(destination.bytes, length)])
    }

    /// [`Operation::Gradient`].
    pub fn gradient<M>(source: &'b Buffer<M>, size: ImageSize, destination: &'b mut Buffer<M>) -> Self {
        let operation = Operation::Gradient { source: source.address, destination: destination.address, size };
        let pixels = size.pixels() as u64;
        Self::if_fits(operation, &[(source.bytes, pixels), (destination.bytes, pixels)])
    }

    /// [`Operation::BlockMatch`].
    pub fn block_match<M>(
        [reference, current]: [&'b Buffer<M>; 2],
        size: ImageSize,
        radius: u8,
        stride: u8,
        result: &'b mut Buffer<M>,
    ) -> Self {
        let addresses = (reference.address, current.address, result.address);
        let (reference_at, current_at, result_at) = addresses;
        let operation = Operation::BlockMatch {
            reference: reference_at,
            current: current_at,
            result: result_at,
            size,
            radius,
            stride,
        };
        let pixels = size.pixels() as u64;
        let operands = [(reference.bytes, pixels), (current.bytes, pixels), (result.bytes, MATCH_BYTES as u64)];
        Self::if_fits(operation, &operands)
    }

    /// [`Operation::Shift`].
    pub fn shift<M>(
        source: &'b Buffer<M>,
        displacement: &'b Buffer<M>,
        size: ImageSize,
        destination: &'b mut Buffer<M>,
    ) -> Self {
        let operation = Operation::Shift {
            source: source.address,
            destination: destination.address,
            displacement: displacement.address,
            size,
        };
        let pixels = size.pixels() as u64;
        let operands = [(source.bytes, pixels), (displacement.bytes, MATCH_BYTES as u64), (destination.bytes, pixels)];
        Self::if_fits(operation, &operands)
    }

    /// [`Operation::MatrixProduct`], in `time` nanoseconds if that is more than it needs.
    pub fn product<M>([left, right]: [&'b Buffer<M>; 2], order: u16, time: u64, product: &'b mut Buffer<M>) -> Self {
        let bytes = 4 * u64::from(order) * u64::from(order);
        let operands = [left.bytes, right.bytes, product.bytes].map(|has| (has, bytes));
        let [left, right, product] = [left.address, right.address, product.address];
        Self::if_fits(Operation::MatrixProduct { left, right, product, order, time }, &operands)
    }

    /// [`Operation::Filter`], with the first `length` coefficients.
    pub fn filter<M>(
        source: &'b Buffer<M>,
        coefficients: &'b Buffer<M>,
        length: u16,
        samples: u16,
        destination: &'b mut Buffer<M>,
    ) -> Self {
        let operation = Operation::Filter {
            source: source.address,
            coefficients: coefficients.address,
            destination: destination.address,
            samples,
            length,
        };
        let words = |count: u64| 2 * count;
        let signal = words((u64::from(samples) + u64::from(length)).saturating_sub(1));
        let operands = [
            (source.bytes, signal),
            (coefficients.bytes, words(length.into())),
            (destination.bytes, words(samples.into())),
        ];
        Self::if_fits(operation, &operands)
    }

    /// [`Operation::Transform`].
    pub fn transform<M>(source: &'b Buffer<M>, destination: &'b mut Buffer<M>, points: u16) -> Self {
        let operation = Operation::Transform { source: source.address, destination: destination.address, points };
        let bytes = 4 * u64::from(points);
        Self::if_fits(operation, &[(source.bytes, bytes), (destination.bytes, bytes)])
    }

    /// The operation, if each operand has as many bytes as it needs.
    fn if_fits(operation: Operation, operands: &[(u64, u64)]) -> Self {
        let fits = operands.iter().all(|(has, needs)| needs <= has);
        Self { operation: fits.then_some(operation), buffers: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let is_some = Work::product([&left, &right], 16, 0, &mut product).operation.is_some();
            assert_eq!(is_some, cut.is_none());
        }
    }
}
