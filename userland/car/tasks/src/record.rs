//! The record of a run, in memory that the host reads after it. Numbers are little-endian.
//!
//! | Region | Writer | Entry |
//! |---|---|---|
//! | `course` | world | a [head](HEAD_WORDS); then for each step of the world the data of the command that held in it, 8 bytes |
//! | `lanes` | track | for each picture its number, the instant at which its lane was there in us, and the [words of the lane](car_kernels::LANE_WORDS) |
//! | `steps` | control | for each step its instant in us; the number of the picture of its lane, or 0 if it had none; the data of the wheels, the yaw rate and its command, 8 bytes each |
//!
//! The first four bytes of `lanes` and `steps` are the number of entries, which begin at [`BEGIN`].

use car::world::Result;
use car_kernels::LANE_WORDS;
use fusee::SharedBytes;

/// Words of 8 bytes of the head of `course`: steps, room before the obstacle in `f64`, the fields of the result behind `steps`, in `f64`, and the
/// release of the world's first step, in ns.
pub const HEAD_WORDS: usize = 9;
/// Bytes before the first entry.
pub const BEGIN: usize = 128;
/// Bytes of an entry of `lanes`.
pub const LANE: usize = 8 + 4 * LANE_WORDS;
/// Bytes of an entry of `steps`.
pub const STEP: usize = 32;
/// Bytes of an entry of `course`.
pub const COMMAND: usize = 8;

/// Appends an entry to `lanes` or `steps`, unless these are full.
pub fn append<const N: usize>(memory: &SharedBytes, entry: &[u8; N]) {
    let count = memory.read_u32(0);
    let at = BEGIN + count as usize * N;
    if at + N <= memory.len() {
        memory.copy_from_slice(at, entry);
        memory.publish_u32(0, count + 1);
    }
}

/// Writes the command of a step of the world, counted from 1, if there is room.
pub fn command(memory: &SharedBytes, step: u32, data: [u8; 8]) {
    let at = BEGIN + (step as usize - 1) * COMMAND;
    if at + COMMAND <= memory.len() {
        memory.copy_from_slice(at, &data);
    }
}

/// Writes the head of `course`.
pub fn head(memory: &SharedBytes, result: &Result, room: f64, begin: u64) {
    let Result { steps, worst, worst_at, squares, driven, fastest, braked } = *result;
    memory.write_u64(0, steps.into());
    for (at, number) in [room, worst, worst_at, squares, driven, fastest, braked].into_iter().enumerate() {
        memory.write_u64(8 * (at + 1), number.to_bits());
    }
    memory.write_u64(8 * (HEAD_WORDS - 1), begin);
}

/// Reads the head of `course`: the result, and the room before the obstacle.
#[must_use]
pub fn head_of(memory: &SharedBytes) -> (Result, f64) {
    let [room, worst, worst_at, squares, driven, fastest, braked] =
        core::array::from_fn(|at| f64::from_bits(memory.read_u64(8 * (at + 1))));
    (Result { steps: memory.read_u64(0) as u32, worst, worst_at, squares, driven, fastest, braked }, room)
}
