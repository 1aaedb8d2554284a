//! The result of a launch is no operand of it.

use fusee::gpu::{Buffer, Local, Work};

fn one_buffer_as_operand_and_result(left: &mut Buffer<Local>, right: &Buffer<Local>) {
    drop(Work::product([left, right], 16, 0, left));
}

fn main() {}
