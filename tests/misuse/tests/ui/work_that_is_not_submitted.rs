//! Work does nothing by itself.
#![deny(unused_must_use)]

use fusee::gpu::{Buffer, Local, Work};

fn work_that_is_not_submitted(source: &Buffer, destination: &mut Buffer<Local>) {
    Work::copy_in(source, destination);
}

fn main() {}
