//! A copy's result is read after the copy has been waited for.

use fusee::gpu::{Buffer, Context, Local, Work};
use fusee::EngineGuard;

fn buffer_read_while_a_copy_writes_it(context: &Context, guard: &EngineGuard<'_>, source: &Buffer<Local>, destination: &mut Buffer) {
    let copy = context.submit(guard, Work::copy_out(source, destination));
    let _ = destination.read_u32(0);
    drop(copy);
}

fn main() {}
