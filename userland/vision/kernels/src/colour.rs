//! Colour pictures: a copy, and their grey picture.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::{Aligned, PIXELS_MAX};

/// Nanoseconds of each byte of a copy: 0.4 ms for a colour picture of 128 x 96. 1.2 instructions.
const COPY_BYTE: u64 = 10;
/// Nanoseconds of each pixel that becomes grey: 1.9 ms for 128 x 96. 16 instructions, of which 4 move it.
const GREY_PIXEL: u64 = 144;
/// Nanoseconds of each block of both besides. 1,500 instructions.
const BLOCK: u64 = 16_000;

/// Bytes of a block of a copy.
const COPY_BLOCK: usize = 8192;
/// Most bytes of a copy.
const COPY_MAX: u32 = 1 << 20;
/// Pixels of a block of grey.
const GREY_BLOCK: usize = 2048;

/// Weights of red, green and blue in the brightness that the eye sees, of 65,536. Source: ITU-R BT.601, 0.299, 0.587 and 0.114.
const WEIGHTS: [u32; 3] = [19_595, 38_470, 7_471];

/// The part of `length` elements that a block has, if each but the last has `each`.
fn part(length: usize, each: usize, blocks: Range<u32>) -> Range<usize> {
    let at = |block: u32| (block as usize * each).min(length);
    at(blocks.start)..at(blocks.end)
}

//--- Duplicate

arguments! {
    /// Copies bytes. Views: the bytes, the copy.
    pub struct Duplicate {
        /// How many, 1 to 1 MiB.
        pub bytes: u32,
    }
}

impl Kernel for Duplicate {
    const NAME: &'static str = "vision duplicate";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn is_valid(&self) -> bool {
        (1..=COPY_MAX).contains(&self.bytes)
    }

    fn elements(&self) -> [usize; 2] {
        [self.bytes as usize; 2]
    }

    fn blocks(&self) -> u32 {
        self.bytes.div_ceil(COPY_BLOCK as u32)
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        let count = u64::from(blocks.end - blocks.start);
        count * BLOCK + part(self.bytes as usize, COPY_BLOCK, blocks).len() as u64 * COPY_BYTE
    }

    fn block(&self, block: u32, (from, to): Self::Views<'_>) {
        let part = part(self.bytes as usize, COPY_BLOCK, block..block + 1);
        let mut bytes = Aligned([0; COPY_BLOCK]);
        let bytes = &mut bytes.0[..part.len()];
        from.load(part.start, bytes);
        to.store(part.start, bytes);
    }
}

//--- Grey

arguments! {
    /// Turns a colour picture grey: 0.299 of red, 0.587 of green and 0.114 of blue, rounded to the nearest. Views: the colour picture, the grey one.
    pub struct Grey {
        /// Pixels, 1 to [`PIXELS_MAX`].
        pub pixels: u32,
    }
}

impl Kernel for Grey {
    const NAME: &'static str = "vision grey";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn is_valid(&self) -> bool {
        (1..=PIXELS_MAX as u32).contains(&self.pixels)
    }

    fn elements(&self) -> [usize; 2] {
        [3 * self.pixels as usize, self.pixels as usize]
    }

    fn blocks(&self) -> u32 {
        self.pixels.div_ceil(GREY_BLOCK as u32)
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        let count = u64::from(blocks.end - blocks.start);
        count * BLOCK + part(self.pixels as usize, GREY_BLOCK, blocks).len() as u64 * GREY_PIXEL
    }

    fn block(&self, block: u32, (colour, grey): Self::Views<'_>) {
        let part = part(self.pixels as usize, GREY_BLOCK, block..block + 1);
        let (mut from, mut to) = (Aligned([0; 3 * GREY_BLOCK]), Aligned([0; GREY_BLOCK]));
        let (from, to) = (&mut from.0[..3 * part.len()], &mut to.0[..part.len()]);
        colour.load(3 * part.start, from);
        for (to, pixel) in to.iter_mut().zip(from.as_chunks().0) {
            let [red, green, blue] = pixel.map(u32::from);
            *to = ((red * WEIGHTS[0] + green * WEIGHTS[1] + blue * WEIGHTS[2] + (1 << 15)) >> 16) as u8;
        }
        grey.store(part.start, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::run;
    use proptest::prelude::*;
    use std::vec;

    const _: () = assert!(WEIGHTS[0] + WEIGHTS[1] + WEIGHTS[2] == 1 << 16);

    proptest! {
        #[test]
        fn grey_is_within_one_level_of_the_weighted_sum(
            colour in prop::collection::vec(prop_oneof![3 => any::<[u8; 3]>(), 1 => Just([255; 3])], 1..5_000),
        ) {
            let mut grey = vec![0; colour.len()];
            run(&Grey { pixels: colour.len() as u32 }, (colour.as_flattened().into(), grey.as_mut_slice().into()));
            for (grey, [red, green, blue]) in grey.into_iter().zip(colour) {
                let exact = 0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue);
                prop_assert!((f64::from(grey) - exact).abs() <= 0.51, "{grey} instead of {exact}");
            }
        }

        #[test]
        fn a_copy_is_the_same(bytes in prop::collection::vec(any::<u8>(), 1..20_000)) {
            let mut copy = vec![0; bytes.len()];
            run(&Duplicate { bytes: bytes.len() as u32 }, (bytes[..].into(), copy.as_mut_slice().into()));
            prop_assert_eq!(copy, bytes);
        }
    }
}
