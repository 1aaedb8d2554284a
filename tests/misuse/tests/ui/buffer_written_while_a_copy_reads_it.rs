//! A source stays as it is until the copy has been waited for.

use fusee::gpu::{Buffer, Context, Local, Work};
use fusee::EngineGuard;

fn buffer_written_while_a_copy_reads_it(context: &Context, guard: &EngineGuard<'_>, source: &mut Buffer, destination: &mut Buffer<Local>) {
    let copy = context.submit(guard, Work::copy_in(source, destination));
    source.write_u32(0, 1);
    drop(copy);
}

fn main() {}
