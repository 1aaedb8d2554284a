//! Two operations under way do not write to one place.

use fusee::gpu::{Buffer, Context, Local, Work};
use fusee::EngineGuard;

fn one_destination_of_two_operations(context: &Context, guard: &EngineGuard<'_>, source: &Buffer<Local>, destination: &mut Buffer) {
    let first = context.submit(guard, Work::copy_out(source, destination));
    let second = context.submit(guard, Work::copy_out(source, destination));
    drop((first, second));
}

fn main() {}
