//! Marks of lanes: cells that are brighter than the road on both sides.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::Aligned;
use crate::calibration::{CELLS, COLUMNS, ROWS};

/// Nanoseconds of each row. 128 cells of 22 instructions.
const ROW_TIME: u64 = 26_000;
/// Nanoseconds of each block besides.
const BLOCK_TIME: u64 = 20_000;
/// Rows of a block.
const EACH: usize = 16;
/// Cells from a cell to those that it is compared with: 0.375 m, so a mark of up to 0.5 m stands out.
const REACH: usize = 3;

arguments! {
    /// Writes for each cell of the road by how many levels it is brighter than the brighter one of two cells at its left and right, or 0 if these are
    /// less than `least`. The border of a bright surface has none: one side of it is as bright. Views: the road from above; the marks.
    pub struct Marks {
        /// The levels that are more than noise.
        pub least: u8,
    }
}

impl Kernel for Marks {
    const NAME: &'static str = "car marks";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn elements(&self) -> [usize; 2] {
        [CELLS; 2]
    }

    fn blocks(&self) -> u32 {
        ROWS.div_ceil(EACH) as u32
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        (BLOCK_TIME + EACH as u64 * ROW_TIME) * u64::from(blocks.end - blocks.start)
    }

    fn block(&self, block: u32, (road, marks): Self::Views<'_>) {
        let (mut cells, mut found) = (Aligned([0_u8; COLUMNS]), Aligned([0_u8; COLUMNS]));
        for row in EACH * block as usize..EACH * (block as usize + 1) {
            road.load(row * COLUMNS, &mut cells.0);
            for (mark, part) in found.0[REACH..].iter_mut().zip(cells.0.windows(2 * REACH + 1)) {
                let (left, here, right) = (part[0], part[REACH], part[2 * REACH]);
                let above = here.saturating_sub(left.max(right));
                // A cell beyond the picture is black.
                *mark = if above < self.least || left == 0 || right == 0 { 0 } else { above };
            }
            marks.store(row * COLUMNS, &found.0);
        }
    }
}
