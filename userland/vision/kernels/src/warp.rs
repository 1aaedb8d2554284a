//! A colour picture, as another camera would see it.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::{Aligned, PIXELS_MAX, SIDE_MAX, Size};

/// Bits after the point of the rows of a matrix. Of those that say where from, a number is at most 512, which is a movement in pixels; of the last row,
/// the divisor, it is less than 2.
pub const MATRIX_BITS: [u32; 3] = [22, 22, 30];

/// Nanoseconds of each pixel of a warp: 9.1 ms for 128 x 96, with blocks. 80 instructions.
const WARP_PIXEL: u64 = 664;
/// Nanoseconds of each block besides. 27,000 instructions: its memory is cleared, and the picture is read.
const WARP_BLOCK: u64 = 240_000;

/// Rows of a block.
const ROWS: usize = 24;
/// Bits after the point of a place in the picture.
const PLACE_BITS: u32 = 11;
const ONE: u32 = 1 << PLACE_BITS;
/// The missing bits in a quotient of numbers of a matrix.
const QUOTIENT_BITS: u32 = PLACE_BITS + MATRIX_BITS[2] - MATRIX_BITS[0];

arguments! {
    /// Looks up each pixel (x, y) of a picture in another, at `((h0 x + h1 y + h2) / w, (h3 x + h4 y + h5) / w)`, where `w = h6 x + h7 y + h8`, between
    /// the four pixels around that place. A place beyond the border is moved to the border. A pixel with a `w` that is not positive is black. Each
    /// pixel is within one grey level of the value by exact numbers.
    ///
    /// The matrix says where a pixel comes *from*: it is the inverse of the movement of the picture. Views: the colour picture; the matrix, nine
    /// numbers by rows, of which the rows have [`MATRIX_BITS`] after the point; the warped picture.
    pub struct Warp {
        /// Pixels of a row; see [`crate::SIDE_MAX`] and [`crate::PIXELS_MAX`].
        pub width: u16,
        /// Rows.
        pub height: u16,
    }
}

impl Warp {
    fn size(self) -> Size {
        Size::new(self.width, self.height)
    }
}

impl Kernel for Warp {
    const NAME: &'static str = "vision warp";
    type Views<'m> = (Input<'m, u8>, Input<'m, i32>, Output<'m, u8>);

    fn is_valid(&self) -> bool {
        self.size().is_valid()
    }

    fn elements(&self) -> [usize; 3] {
        [3 * self.size().pixels(), 9, 3 * self.size().pixels()]
    }

    fn blocks(&self) -> u32 {
        u32::from(self.height).div_ceil(ROWS as u32)
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        let count = u64::from(blocks.end - blocks.start);
        count * WARP_BLOCK + (self.size().rows(ROWS, blocks).len() * self.size().width) as u64 * WARP_PIXEL
    }

    fn block(&self, block: u32, (picture, matrix, warped): Self::Views<'_>) {
        let Size { width, height } = self.size();
        let mut numbers = Aligned([0; 9]);
        matrix.load(0, &mut numbers.0);
        let rows = self.size().rows(ROWS, block..block + 1);
        let mapping = Mapping { matrix: numbers.0.map(i64::from), last: [width, height].map(|side| side as i64 - 1) };
        let needed = mapping.rows_needed(rows.clone());
        // Beyond the last pixel is a row and a pixel more: a pixel that is looked up there has no weight.
        let mut source = Aligned([0; 3 * (PIXELS_MAX + SIDE_MAX as usize + 1)]);
        picture.load(3 * needed.start * width, &mut source.0[..3 * needed.len() * width]);
        let mut line = Aligned([0; 3 * SIDE_MAX as usize]);
        let line = &mut line.0[..3 * width];
        for y in rows {
            let mut place = mapping.numerators(0, y);
            for pixel in line.as_chunks_mut().0 {
                let from = mapping.quotients(place);
                *pixel = from.map_or([0; 3], |place| between(&source.0, width, needed.start, place));
                (0..3).for_each(|row| place[row] += mapping.matrix[3 * row]);
            }
            warped.store(3 * y * width, line);
        }
    }
}

/// Where pixels come from.
struct Mapping {
    matrix: [i64; 9],
    /// The last column and row of the picture.
    last: [i64; 2],
}

impl Mapping {
    fn numerators(&self, x: usize, y: usize) -> [i64; 3] {
        let (x, y) = (x as i64, y as i64);
        // A number of a matrix has 32 bits, and a coordinate 8.
        self.matrix
            .as_chunks::<3>()
            .0
            .try_into()
            .map_or([0; 3], |rows: [[i64; 3]; 3]| rows.map(|[a, b, c]| a * x + b * y + c))
    }

    /// The place in the picture, in 1/2,048 pixels.
    fn quotients(&self, [u, v, w]: [i64; 3]) -> Option<[i64; 2]> {
        (w > 0).then(|| {
            let quotient = |number: i64, last: i64| ((number << QUOTIENT_BITS) / w).min(last << PLACE_BITS).max(0);
            [quotient(u, self.last[0]), quotient(v, self.last[1])]
        })
    }

    /// The rows of the picture that rows of the warped one come from.
    fn rows_needed(&self, rows: Range<usize>) -> Range<usize> {
        let ends = [0, self.last[0] as usize];
        let corners = [rows.start, rows.end - 1].into_iter().flat_map(|y| ends.map(|x| self.numerators(x, y)));
        // If all corners lie before the camera, all pixels between them come from pixels between their places.
        let mut needed = (usize::MAX, 0);
        for corner in corners {
            let Some([_, v]) = self.quotients(corner) else { return 0..self.last[1] as usize + 1 };
            let v = (v >> PLACE_BITS) as usize;
            needed = (needed.0.min(v), needed.1.max(v + 1));
        }
        needed.0..(needed.1 + 1).min(self.last[1] as usize + 1)
    }
}

/// The pixel at a place, between its neighbours. `source` has rows from `first` on.
#[inline(always)]
fn between(source: &[u8], width: usize, first: usize, place: [i64; 2]) -> [u8; 3] {
    let [x, y] = place.map(|part| (part >> PLACE_BITS) as usize);
    let at = 3 * ((y - first) * width + x);
    let pair = |at: usize| source.get(at..).and_then(|from| from.first_chunk()).unwrap_or(&[0; 6]);
    let (above, below) = (pair(at), pair(at + 3 * width));
    let [u, v] = place.map(|part| part as u32 & (ONE - 1));
    let weights = [(ONE - u) * (ONE - v), u * (ONE - v), (ONE - u) * v, u * v];
    core::array::from_fn(|colour| {
        let four = [above[colour], above[colour + 3], below[colour], below[colour + 3]];
        let [a, b, c, d] = core::array::from_fn(|at| u32::from(four[at]) * weights[at]);
        ((a + b + c + d + (1 << (2 * PLACE_BITS - 1))) >> (2 * PLACE_BITS)) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::run;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// By its definition, in floating point.
    fn slow_warp((width, height): (usize, usize), picture: &[[u8; 3]], matrix: &[i32; 9]) -> Vec<[f64; 3]> {
        let h: Vec<f64> =
            matrix.iter().enumerate().map(|(at, n)| f64::from(*n) / 2_f64.powi(if at < 6 { 22 } else { 30 })).collect();
        let pixel = |at: usize| {
            let (x, y) = ((at % width) as f64, (at / width) as f64);
            let w = h[6] * x + h[7] * y + h[8];
            if w <= 0.0 {
                return [0.0; 3];
            }
            let u = ((h[0] * x + h[1] * y + h[2]) / w).clamp(0.0, width as f64 - 1.0);
            let v = ((h[3] * x + h[4] * y + h[5]) / w).clamp(0.0, height as f64 - 1.0);
            let mut sum = [0.0; 3];
            for (at, pixel) in picture.iter().enumerate() {
                let weight =
                    (1.0 - (u - (at % width) as f64).abs()).max(0.0) * (1.0 - (v - (at / width) as f64).abs()).max(0.0);
                (0..3).for_each(|colour| sum[colour] += weight * f64::from(pixel[colour]));
            }
            sum
        };
        (0..width * height).map(pixel).collect()
    }

    fn check(size: (usize, usize), picture: &[[u8; 3]], matrix: &[i32; 9]) {
        let mut warped = vec![[0; 3]; picture.len()];
        run(
            &Warp { width: size.0 as u16, height: size.1 as u16 },
            (picture.as_flattened().into(), matrix[..].into(), warped.as_flattened_mut().into()),
        );
        let exact = slow_warp(size, picture, matrix);
        for (at, (got, exact)) in warped.as_flattened().iter().zip(exact.as_flattened()).enumerate() {
            assert!((f64::from(*got) - exact.round()).abs() <= 1.0, "{got} instead of {exact} at {at}, {matrix:?}");
        }
    }

    /// Any, and near to no movement.
    fn matrix() -> impl Strategy<Value = [i32; 9]> {
        let near = |bits: u32, one: bool, by: i32| {
            (-(1_i32 << (bits - 1)) / by..(1_i32 << (bits - 1)) / by)
                .prop_map(move |n| n + i32::from(one) * (1 << bits))
        };
        prop_oneof![
            1 => any::<[i32; 9]>(),
            4 => ([near(22, true, 1), near(22, false, 1)], -30 << 22..30 << 22, [near(22, false, 1), near(22, true, 1)], -30 << 22..30 << 22, [near(30, false, 40), near(30, false, 40)], near(30, true, 3))
                .prop_map(|([a, b], c, [d, e], f, [g, h], i)| [a, b, c, d, e, f, g, h, i]),
        ]
    }

    proptest! {
        #[test]
        fn a_warp_is_within_one_level_of_its_definition(
            (width, height) in (1_usize..25, 1_usize..25), pixels in prop::collection::vec(prop_oneof![any::<[u8; 3]>(), Just([0; 3]), Just([255; 3])], 25 * 25), matrix in matrix(),
        ) {
            check((width, height), &pixels[..width * height], &matrix);
        }
    }

    #[test]
    fn no_movement_changes_nothing_and_the_largest_picture_fits() {
        let picture: Vec<[u8; 3]> = (0..PIXELS_MAX).map(|at| [at as u8, (at / 7) as u8, (at * at / 5) as u8]).collect();
        let mut warped = vec![[0; 3]; PIXELS_MAX];
        let matrix = [1 << 22, 0, 0, 0, 1 << 22, 0, 0, 0, 1 << 30];
        run(
            &Warp { width: 128, height: 96 },
            (picture.as_flattened().into(), matrix[..].into(), warped.as_flattened_mut().into()),
        );
        assert_eq!(warped, picture);
    }
}
