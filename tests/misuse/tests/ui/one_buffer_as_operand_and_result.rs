//! The result of a launch is no operand of it.

use fusee::gpu::{Buffer, Local, Work, library::Product};

fn one_buffer_as_operand_and_result(left: &mut Buffer<Local>, right: &Buffer<Local>) {
    drop(Work::launch(Product { order: 16, time: 0 }, (&*left, right, left)));
}

fn main() {}
