//! The road from above.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::calibration::{CELLS, COLUMN, COLUMNS, HEIGHT, PIXELS, ROWS, WIDTH, forward, left};
use crate::{Aligned, PLACE_BITS, between};

/// Nanoseconds of each row. 128 cells of 30 instructions.
const ROW_TIME: u64 = 32_000;
/// Nanoseconds of each block besides. 12,000 instructions: its memory is cleared, and the picture is read.
const BLOCK_TIME: u64 = 100_000;
/// Rows of a block.
const EACH: usize = 16;

arguments! {
    /// Looks up each cell of the road in a picture without distortion, between the four pixels around its place. A cell beyond the picture is
    /// black, and no other one is. Views: the straight picture; the road from above.
    pub struct Birdseye {
        /// The focal length in pixels, 100 to 1,000.
        pub focal: u16,
        /// Millimetres from the road to the camera, 500 to 3,000.
        pub rise: u16,
        /// The sine of the angle by which the camera looks down, in 1/16,384: up to 1/4.
        pub sine: u16,
        /// Its cosine: at least 3/4.
        pub cosine: u16,
    }
}

/// A row of the road in the picture: the row there in 1/256 pixels, the place of the first column and the step to the next in 1/65,536 pixels.
struct Line {
    y: i32,
    x: i32,
    step: i32,
}

impl Birdseye {
    fn line(self, row: usize) -> Line {
        let [rise, sine, cosine] = [self.rise, self.sine, self.cosine].map(i64::from);
        let ahead = i64::from(forward(row));
        // Along and across the axis of the camera, in mm; the first one is more than a metre.
        let depth = (ahead * cosine + rise * sine) >> 14;
        let below = (rise * cosine - ahead * sine) >> 14;
        let scale = i64::from(self.focal) << 16;
        let middle = |last: usize| ((last as i64 - 1) << 16) / 2;
        let y = middle(HEIGHT) + scale * below / depth;
        let x = middle(WIDTH) - scale * i64::from(left(0)) / depth;
        Line { y: (y >> 8) as i32, x: x as i32, step: (scale * i64::from(COLUMN) / depth) as i32 }
    }
}

impl Kernel for Birdseye {
    const NAME: &'static str = "car birdseye";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn is_valid(&self) -> bool {
        (100..=1000).contains(&self.focal)
            && (500..=3000).contains(&self.rise)
            && self.sine <= 4096
            && (12_288..=16_384).contains(&self.cosine)
    }

    fn elements(&self) -> [usize; 2] {
        [PIXELS, CELLS]
    }

    fn blocks(&self) -> u32 {
        ROWS.div_ceil(EACH) as u32
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        (BLOCK_TIME + EACH as u64 * ROW_TIME) * u64::from(blocks.end - blocks.start)
    }

    fn block(&self, block: u32, (straight, road): Self::Views<'_>) {
        let rows = EACH * block as usize..EACH * (block as usize + 1);
        // A farther row of the road is a higher one of the picture.
        let [last, first] = [rows.start, rows.end - 1].map(|row| self.line(row).y >> PLACE_BITS);
        let (first, last) = (first.clamp(0, HEIGHT as i32), (last + 2).clamp(0, HEIGHT as i32));
        let mut source = Aligned([0; PIXELS]);
        let source = &mut source.0[..(last - first).max(0) as usize * WIDTH];
        straight.load(first as usize * WIDTH, source);
        for row in rows {
            let Line { y, mut x, step } = self.line(row);
            let mut cells = Aligned([0; COLUMNS]);
            let from = usize::try_from((y >> PLACE_BITS) - first).unwrap_or(HEIGHT) * WIDTH;
            if let Some((above, below)) = source.get(from..).and_then(|rows| rows.split_first_chunk::<WIDTH>())
                && let Some(below) = below.first_chunk::<WIDTH>()
            {
                for cell in &mut cells.0 {
                    let at = (x >> 16) as usize;
                    if at < WIDTH - 1 {
                        let four = [above[at], above[at + 1], below[at], below[at + 1]];
                        *cell = between(four, (x >> 8) as u32 & 255, y as u32 & 255).max(1);
                    }
                    x += step;
                }
            }
            road.store(row * COLUMNS, &cells.0);
        }
    }
}
