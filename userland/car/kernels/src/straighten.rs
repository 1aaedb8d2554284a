//! The camera's picture without the distortion of its lens.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::calibration::{HEIGHT, PIXELS, WIDTH};
use crate::{Aligned, PLACE_BITS, between};

/// Nanoseconds of each row. 160 pixels of 40 instructions.
const ROW_TIME: u64 = 56_000;
/// Nanoseconds of each block besides. 6,000 instructions: its memory is cleared, and the picture is read.
const BLOCK_TIME: u64 = 50_000;
/// Rows of a block.
const ROWS: usize = 12;
/// Pixels from one to the next with a place that is computed; those between lie evenly between them, to 1/100 of a pixel.
const STRIDE: usize = 4;
/// Rows of the picture that a block reads at most: at the border of the picture a row bends by 17.
const SOURCE_ROWS: usize = 40;
/// Bytes of them, and a row and more behind them that have no weight.
const SOURCE: usize = (SOURCE_ROWS + 2) * WIDTH;
/// The last pixel of a row and the last row, in half pixels: coordinates from the centre have these at both ends.
const LAST: [i32; 2] = [WIDTH as i32 - 1, HEIGHT as i32 - 1];

arguments! {
    /// Moves each pixel back to the place where a lens without distortion would have it, between the four pixels around its place in the
    /// picture. Rows before `first` and from `end` on stay as they are. Views: the picture; the straight picture.
    pub struct Straighten {
        /// The focal length in pixels, 100 to 1,000.
        pub focal: u16,
        /// The distortion, in 1/65,536: see [`crate::calibration::LENS`]. From -1/2 to 0.
        pub lens: i32,
        /// The first row that is needed.
        pub first: u16,
        /// The row after the last one that is needed, up to [`HEIGHT`].
        pub end: u16,
    }
}

impl Straighten {
    fn rows(self, block: u32) -> Range<usize> {
        let (begin, end) = (usize::from(self.first) + ROWS * block as usize, usize::from(self.end));
        begin.min(end)..(begin + ROWS).min(end)
    }

    /// Parts of 2^32 by which a point moves, for a distance of half a pixel from the axis.
    fn factor(self) -> i64 {
        i64::from(self.lens) * 65_536 / (4 * i64::from(self.focal) * i64::from(self.focal))
    }

    /// The place of a point in the picture, both in half pixels from the centre, in 1/2^17 pixels from the first pixel. It is nearer to the centre than
    /// the point.
    fn place(factor: i64, [x, y]: [i32; 2]) -> [i32; 2] {
        let scale = 65_536 + ((i64::from(x * x + y * y) * factor) >> 16) as i32;
        let there = |at: i32, last: i32| at * scale + (last << 16);
        [there(x, LAST[0]), there(y, LAST[1])]
    }

    /// The pixels of a row, from the rows of the picture from `first` on.
    fn line(factor: i64, y: i32, source: &[u8; SOURCE], first: usize) -> Aligned<[u8; WIDTH]> {
        let mut line = Aligned([0; WIDTH]);
        let mut x = -LAST[0];
        let mut place = Self::place(factor, [x, y]);
        for pixels in &mut line.0.as_chunks_mut::<STRIDE>().0[..] {
            x += 2 * STRIDE as i32;
            let next = Self::place(factor, [x, y]);
            let steps = [0, 1].map(|side: usize| (next[side] - place[side]) / STRIDE as i32);
            for pixel in pixels {
                let [right, down] = place.map(|side| (side >> 9) as u32);
                let at = ((down >> PLACE_BITS) as usize - first) * WIDTH + (right >> PLACE_BITS) as usize;
                let near = source.get(at..at + WIDTH + 2).unwrap_or(&[0; WIDTH + 2]);
                let four = [near[0], near[1], near[WIDTH], near[WIDTH + 1]];
                *pixel = between(four, right & 255, down & 255);
                (0..2).for_each(|side| place[side] += steps[side]);
            }
            place = next;
        }
        line
    }
}

impl Kernel for Straighten {
    const NAME: &'static str = "car straighten";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn is_valid(&self) -> bool {
        let is_lens = (100..=1000).contains(&self.focal) && (-32_768..=0).contains(&self.lens);
        is_lens && self.first < self.end && usize::from(self.end) <= HEIGHT
    }

    fn elements(&self) -> [usize; 2] {
        [PIXELS; 2]
    }

    fn blocks(&self) -> u32 {
        usize::from(self.end - self.first).div_ceil(ROWS) as u32
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        blocks.map(|block| BLOCK_TIME + self.rows(block).len() as u64 * ROW_TIME).sum()
    }

    fn block(&self, block: u32, (picture, straight): Self::Views<'_>) {
        let rows = self.rows(block);
        let factor = self.factor();
        let y = |row: usize| 2 * row as i32 - LAST[1];
        // The columns at the border and in the middle have the extreme places of a row.
        let ends = [rows.start, rows.end - 1].map(|row| [0, 1].map(|x| Self::place(factor, [x * LAST[0], y(row)])[1]));
        let ends = ends.as_flattened().iter().map(|place| (place >> 17) as usize);
        let (first, last) = (ends.clone().min().unwrap_or(0), ends.max().unwrap_or(0));
        let mut source = Aligned([0; SOURCE]);
        let end = (last + 2).min(HEIGHT).min(first + SOURCE_ROWS);
        picture.load(first * WIDTH, &mut source.0[..(end - first) * WIDTH]);
        for row in rows {
            straight.store(row * WIDTH, &Self::line(factor, y(row), &source.0, first).0);
        }
    }
}
