//! Kernels of the GPU.
#![no_std]
#![forbid(unsafe_code)]

use core::ops::Range;

use fusee_compute::{Entry, Input, Kernel, Output, arguments, table};

/// All of them: the table of the device.
pub const KERNELS: &[Entry] = &table([Entry::of::<Scale>()]);

/// Numbers of a block. Between two blocks an engine that is preemptible is given to an earlier deadline.
const BLOCK: usize = 256;

arguments! {
    /// `to[i] = by * from[i]`, wrapping.
    pub struct Scale {
        /// How many numbers there are.
        pub length: u32,
        /// The factor.
        pub by: u32,
    }
}

impl Kernel for Scale {
    const NAME: &'static str = "scale";
    type Views<'m> = (Input<'m, u32>, Output<'m, u32>);

    fn elements(&self) -> [usize; 2] {
        [self.length as usize; 2]
    }

    fn blocks(&self) -> u32 {
        self.length.div_ceil(BLOCK as u32)
    }

    /// Nanoseconds that the blocks take. An emulated engine may execute an eighth of that in instructions.
    fn time(&self, blocks: Range<u32>) -> u64 {
        100_000 * u64::from(blocks.end - blocks.start)
    }

    fn block(&self, block: u32, (from, to): Self::Views<'_>) {
        let begin = BLOCK * block as usize;
        let count = BLOCK.min(from.len() - begin);
        let mut numbers = [0; BLOCK];
        from.load(begin, &mut numbers[..count]);
        for number in &mut numbers[..count] {
            *number = number.wrapping_mul(self.by);
        }
        to.store(begin, &numbers[..count]);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use fusee_device_model::bench::Bench;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn the_device_multiplies_as_the_plain_function_does() {
        let scale = Scale { length: 300, by: 7 };
        let numbers: Vec<u32> = (0..300).collect();
        let mut expected = [0; 300];
        fusee_compute::run(&scale, (Input::from(&numbers[..]), Output::from(&mut expected[..])));
        assert_eq!((expected[1], expected[299]), (7, 2093));

        let mut from: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut to = std::vec![0; 4 * 300];
        Bench::new(KERNELS).launch(&scale, &mut [&mut from, &mut to]).unwrap();
        assert!(to.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).eq(expected));
    }
}
