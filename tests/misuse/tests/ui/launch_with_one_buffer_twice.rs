//! A buffer that a kernel writes is none of its other views.

use fusee::gpu::compute::{self, Input, Kernel, Output};
use fusee::gpu::{Buffer, Local, Work};

compute::arguments! {
    struct Negative {
        pixels: u32,
    }
}

impl Kernel for Negative {
    const NAME: &'static str = "negative";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn elements(&self) -> [usize; 2] {
        [self.pixels as usize; 2]
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn time(&self, _: core::ops::Range<u32>) -> u64 {
        1_000_000
    }

    fn block(&self, _: u32, _: Self::Views<'_>) {}
}

fn launch_with_one_buffer_twice(picture: &mut Buffer<Local>) {
    drop(Work::launch(Negative { pixels: 64 }, (&*picture, &mut *picture)));
}

fn main() {}
