//! Copies go from the memory of the board to that of the device, or the other way.

use fusee::gpu::{Board, Buffer, Work};

fn copy_within_one_memory(source: &Buffer<Board>, destination: &mut Buffer<Board>) {
    drop(Work::copy_in(source, destination));
}

fn main() {}
