//! A picture at several resolutions.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::{Aligned, SIDE_MAX, Size};

/// Most levels of a pyramid.
pub const LEVELS_MAX: u8 = 4;

/// Nanoseconds of each pixel of the picture, all levels included: 0.9 ms for 128 x 96, with blocks. 5 instructions.
const PYRAMID_PIXEL: u64 = 44;
/// Nanoseconds of each block besides, and of bytes that do not lie at multiples of eight. 7,500 instructions.
const PYRAMID_BLOCK: u64 = 64_000;

/// Rows of the picture that a block halves, again and again: a multiple of those that become one.
const ROWS: usize = 16;

arguments! {
    /// Writes a picture at several resolutions, one after the other: level 0 is the picture, and each pixel of the next level is the mean of a
    /// square of 2 x 2, rounded to the nearest, of two to the upper. So pixel *x* of level *l* has its centre at `2^l (x + 1/2) - 1/2` of the picture.
    /// Views: the grey picture, the pyramid.
    ///
    /// A square, and not a wider filter: it needs no neighbour beyond its block, and a [`crate::Flow`] ends at level 0, which has no filter at all.
    pub struct Pyramid {
        /// Pixels of a row, a multiple of `2^(levels - 1)`; see [`crate::SIDE_MAX`] and [`crate::PIXELS_MAX`].
        pub width: u16,
        /// Rows, a multiple of the same.
        pub height: u16,
        /// Levels, 1 to [`LEVELS_MAX`].
        pub levels: u8,
    }
}

impl Pyramid {
    fn size(self) -> Size {
        Size::new(self.width, self.height)
    }

    /// Width and height of a level, in pixels.
    #[must_use]
    pub fn sides(&self, level: u8) -> [usize; 2] {
        [self.width, self.height].map(|side| usize::from(side >> level))
    }

    /// Where a level begins, in bytes; the level after the last: how many bytes there are.
    #[must_use]
    pub fn offset(&self, level: u8) -> usize {
        (0..level).map(|level| self.sides(level)).map(|[width, height]| width * height).sum()
    }
}

impl Kernel for Pyramid {
    const NAME: &'static str = "vision pyramid";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn is_valid(&self) -> bool {
        let is_whole = |side: u16| side.trailing_zeros() + 1 >= self.levels.into();
        self.size().is_valid()
            && (1..=LEVELS_MAX).contains(&self.levels)
            && is_whole(self.width)
            && is_whole(self.height)
    }

    fn elements(&self) -> [usize; 2] {
        [self.size().pixels(), self.offset(self.levels)]
    }

    fn blocks(&self) -> u32 {
        u32::from(self.height).div_ceil(ROWS as u32)
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        let count = u64::from(blocks.end - blocks.start);
        count * PYRAMID_BLOCK + (self.size().rows(ROWS, blocks).len() * self.size().width) as u64 * PYRAMID_PIXEL
    }

    fn block(&self, block: u32, (grey, pyramid): Self::Views<'_>) {
        let mut rows = self.size().rows(ROWS, block..block + 1);
        let mut width = self.size().width;
        let mut levels = Aligned([0; 4 * ROWS * SIDE_MAX as usize / 3 + 1]);
        let (mut pixels, mut rest) = levels.0.split_at_mut(rows.len() * width);
        grey.load(rows.start * width, pixels);
        for level in 0..self.levels {
            pyramid.store(self.offset(level) + rows.start * width, pixels);
            let (next, beyond) = rest.split_at_mut(pixels.len() / 4);
            if level + 1 < self.levels {
                halve(pixels, width, next);
            }
            (pixels, rest) = (next, beyond);
            (width, rows) = (width / 2, rows.start / 2..rows.end / 2);
        }
    }
}

/// Writes a picture of half the width and height.
fn halve(pixels: &[u8], width: usize, to: &mut [u8]) {
    for (to, two) in to.chunks_exact_mut(width / 2).zip(pixels.chunks_exact(2 * width)) {
        let (above, below) = two.split_at(width);
        for (to, (above, below)) in to.iter_mut().zip(above.as_chunks::<2>().0.iter().zip(below.as_chunks::<2>().0)) {
            let [a, b, c, d] = [above[0], above[1], below[0], below[1]].map(u32::from);
            *to = ((a + b + c + d + 2) >> 2) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::run;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        #[test]
        fn each_pixel_is_within_one_level_of_a_mean(
            (width, height) in (1_u16..12, 1_u16..12), levels in 1..=LEVELS_MAX, pixels in prop::collection::vec(any::<u8>(), 96 * 96),
        ) {
            let (width, height) = (width << (levels - 1), height << (levels - 1));
            let kernel = Pyramid { width, height, levels };
            let [count, bytes] = kernel.elements();
            let mut pyramid = vec![0; bytes];
            run(&kernel, (pixels[..count].into(), pyramid.as_mut_slice().into()));
            prop_assert_eq!(&pyramid[..count], &pixels[..count]);
            let mut at = 0;
            for level in 0..levels {
                let side = 1 << level;
                for y in 0..usize::from(height) / side {
                    for x in 0..usize::from(width) / side {
                        let square = (0..side * side).map(|i| (y * side + i / side) * usize::from(width) + x * side + i % side);
                        let mean = square.map(|at| f64::from(pixels[at])).sum::<f64>() / (side * side) as f64;
                        // Half a level is lost by each rounding.
                        prop_assert!((f64::from(pyramid[at]) - mean).abs() <= 0.5 * f64::from(level));
                        at += 1;
                    }
                }
            }
            prop_assert_eq!(at, bytes);
        }
    }
}
