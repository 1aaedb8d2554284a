//! A task has no address for memory of the device.

use fusee::gpu::{Buffer, Local};

fn memory_of_the_device_read_without_a_copy(buffer: &Buffer<Local>) {
    let _ = buffer.read_u32(0);
}

fn main() {}
