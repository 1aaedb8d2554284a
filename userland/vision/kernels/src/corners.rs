//! Harris corners: the strongest of each cell.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::{Aligned, SIDE_MAX, Size};

/// Fewest pixels of a side of a cell.
pub const CELL_MIN: u8 = 8;
/// Most.
pub const CELL_MAX: u8 = 32;
/// Narrowest border without corners, in pixels: the window, and one pixel for differences.
pub const MARGIN_MIN: u8 = RADIUS as u8 + 1;

/// Nanoseconds of each pixel of the rows that enter the window: 5.7 ms for 128 x 96, cells of 16 and a margin of 6, with all that follows. 24 instructions.
const ENTER_PIXEL: u64 = 200;
/// Nanoseconds of each response. 22 instructions.
const RESPONSE: u64 = 184;
/// Nanoseconds of each row of a cell besides. 60 instructions.
const CELL_ROW: u64 = 512;
/// Nanoseconds of each block besides. 11,000 instructions: its memory is cleared.
const CORNERS_BLOCK: u64 = 96_000;

/// Pixels of the window on each side of its centre.
const RADIUS: usize = 2;
/// Rows of the window.
const ROWS: usize = 2 * RADIUS + 1;
const WIDTH: usize = SIDE_MAX as usize;
/// Bits of a response that are below its unit.
const RESPONSE_BITS: u32 = 12;

/// A corner.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Corner {
    /// Where it is, in pixels.
    pub x: i32,
    /// The row of the corner.
    pub y: i32,
    /// How strong it is, in units of 4,096 grey levels to the fourth; zero: the cell has none.
    pub response: i32,
}

impl Corner {
    /// As it stands in memory.
    #[must_use]
    pub const fn words(&self) -> [i32; 3] {
        [self.x, self.y, self.response]
    }

    /// Read from memory: all words are one.
    #[must_use]
    pub const fn of([x, y, response]: [i32; 3]) -> Self {
        Self { x, y, response }
    }
}

arguments! {
    /// Finds the strongest Harris corner of each cell of a picture. A response is `det(M) - 5/128 trace(M)^2`. Here `M` has the sums, over a window of
    /// 5 x 5 pixels, of the products of the central differences in x and y. A cell without a response above zero has [`Corner::default`]. Of equal
    /// responses the uppermost wins, then the leftmost. Views: the grey picture; the [`Corner`]s, cell by cell, row by row, three words each.
    pub struct Corners {
        /// Pixels of a row; see [`crate::SIDE_MAX`] and [`crate::PIXELS_MAX`].
        pub width: u16,
        /// Rows.
        pub height: u16,
        /// Pixels of a side of a cell, [`CELL_MIN`] to [`CELL_MAX`]. The last cell of a row or column may be smaller.
        pub cell: u8,
        /// Pixels of the border in which no corner is looked for, [`MARGIN_MIN`] to 255.
        pub margin: u8,
    }
}

impl Corners {
    fn size(self) -> Size {
        Size::new(self.width, self.height)
    }

    /// Cells of a row, and rows of cells.
    #[must_use]
    pub fn cells(&self) -> [usize; 2] {
        [self.width, self.height].map(|side| side.div_ceil(self.cell.into()).into())
    }

    /// The rows of these rows of cells in which corners are looked for.
    fn rows(self, blocks: Range<u32>) -> Range<usize> {
        let (rows, margin) = (self.size().rows(self.cell.into(), blocks), usize::from(self.margin));
        let end = rows.end.min(self.size().height.saturating_sub(margin));
        rows.start.max(margin)..end.max(rows.start.max(margin))
    }
}

impl Kernel for Corners {
    const NAME: &'static str = "vision corners";
    type Views<'m> = (Input<'m, u8>, Output<'m, i32>);

    fn is_valid(&self) -> bool {
        self.size().is_valid() && (CELL_MIN..=CELL_MAX).contains(&self.cell) && self.margin >= MARGIN_MIN
    }

    fn elements(&self) -> [usize; 2] {
        let [columns, rows] = self.cells();
        [self.size().pixels(), 3 * columns * rows]
    }

    fn blocks(&self) -> u32 {
        self.cells()[1] as u32
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        let (width, cells) = (u64::from(self.width), self.cells()[0] as u64);
        let block = |block| {
            let rows = self.rows(block..block + 1).len() as u64;
            // The first row has a window when four others have entered it.
            let enter = (rows + 2 * RADIUS as u64) * width * ENTER_PIXEL;
            CORNERS_BLOCK + enter + rows * (width * RESPONSE + cells * CELL_ROW)
        };
        blocks.map(block).sum()
    }

    fn block(&self, block: u32, (grey, corners): Self::Views<'_>) {
        let (width, margin, cell) = (self.size().width, usize::from(self.margin), usize::from(self.cell));
        let rows = self.rows(block..block + 1);
        let columns = self.cells()[0];
        let mut best = [Corner::default(); WIDTH / CELL_MIN as usize];
        if !rows.is_empty() && width > 2 * margin {
            let mut around = Aligned([0; (CELL_MAX as usize + ROWS + 1) * WIDTH]);
            let first = rows.start - RADIUS - 1;
            let around = &mut around.0[..(rows.end + RADIUS + 1 - first) * width];
            grey.load(first * width, around);
            let row = |y: usize| &around[(y - first) * width..][..width];
            let mut window = Window { rows: [[0; WIDTH]; ROWS], sum: [0; WIDTH] };
            for y in rows.start - RADIUS..rows.end + RADIUS {
                window.enter(y % ROWS, row(y - 1), row(y), row(y + 1));
                // The middle of the window, once it is full.
                let Some(y) = y.checked_sub(RADIUS).filter(|y| *y >= rows.start) else { continue };
                for (number, best) in best.iter_mut().enumerate().take(columns) {
                    let columns = (number * cell).max(margin)..((number + 1) * cell).min(width - margin);
                    window.strongest(columns, y, best);
                }
            }
        }
        let mut words = Aligned([0; 3 * WIDTH / CELL_MIN as usize]);
        words.0.as_chunks_mut().0.iter_mut().zip(best).for_each(|(words, best)| *words = best.words());
        corners.store(3 * block as usize * columns, &words.0[..3 * columns]);
    }
}

/// Sums of products of differences, all three in one word: those of x by x in the lowest 21 bits, of y by y in the next 21, of x by y, which has a
/// sign, in the others. A sum of 25 products is less than 2^21, so sums of such words have the sums of products in them, in any order.
#[derive(Clone, Copy)]
struct Sums(u64);

const SUM_BITS: u32 = 21;

impl Sums {
    fn of(dx: i32, dy: i32) -> Self {
        let [xx, xy, yy] = [dx * dx, dx * dy, dy * dy].map(|product| i64::from(product).cast_unsigned());
        Self(xx.wrapping_add(yy << SUM_BITS).wrapping_add(xy << (2 * SUM_BITS)))
    }

    /// These, and `more`, and without `less`.
    fn moved(self, more: Self, less: Self) -> Self {
        Self(self.0.wrapping_add(more.0).wrapping_sub(less.0))
    }

    fn response(self) -> i32 {
        let part = |at: u32| (self.0 >> at & ((1 << SUM_BITS) - 1)).cast_signed();
        let (xx, yy, xy) = (part(0), part(SUM_BITS), self.0.cast_signed() >> (2 * SUM_BITS));
        let trace = xx + yy;
        // The determinant is below 2^42.
        ((xx * yy - xy * xy - ((trace * trace * 5) >> 7)) >> RESPONSE_BITS) as i32
    }
}

/// Products of the last rows, and their sums by column.
struct Window {
    rows: [[u64; WIDTH]; ROWS],
    sum: [u64; WIDTH],
}

impl Window {
    /// Replaces a row by another, given with its neighbours.
    fn enter(&mut self, at: usize, above: &[u8], here: &[u8], below: &[u8]) {
        let inner = here.len() - 2;
        let (above, below) = (&above[1..][..inner], &below[1..][..inner]);
        let (left, right) = (&here[..inner], &here[2..][..inner]);
        let (row, sum) = (&mut self.rows[at][1..][..inner], &mut self.sum[1..][..inner]);
        for x in 0..inner {
            let products =
                Sums::of(i32::from(right[x]) - i32::from(left[x]), i32::from(below[x]) - i32::from(above[x]));
            sum[x] = Sums(sum[x]).moved(products, Sums(row[x])).0;
            row[x] = products.0;
        }
    }

    /// Looks for a stronger corner in these columns of the row in the middle, `y`.
    fn strongest(&self, columns: Range<usize>, y: usize, best: &mut Corner) {
        if columns.is_empty() {
            return;
        }
        let part = &self.sum[columns.start - RADIUS..columns.end + RADIUS];
        let mut sums = part[..ROWS - 1].iter().fold(Sums(0), |sums, more| sums.moved(Sums(*more), Sums(0)));
        let mut leaves = 0;
        for ((x, enters), left) in columns.zip(&part[ROWS - 1..]).zip(part) {
            sums = sums.moved(Sums(*enters), Sums(leaves));
            leaves = *left;
            let response = sums.response();
            if response > best.response {
                *best = Corner { x: x as i32, y: y as i32, response };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::run;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn corners(kernel: &Corners, picture: &[u8]) -> Vec<Corner> {
        let mut found = vec![0; kernel.elements()[1]];
        run(kernel, (picture.into(), found.as_mut_slice().into()));
        found.as_chunks().0.iter().copied().map(Corner::of).collect()
    }

    /// By its definition, in floating point.
    fn slow_response(width: usize, picture: &[u8], x: usize, y: usize) -> f64 {
        let at = |x: usize, y: usize| f64::from(picture[y * width + x]);
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for v in y - 2..=y + 2 {
            for u in x - 2..=x + 2 {
                let (dx, dy) = (at(u + 1, v) - at(u - 1, v), at(u, v + 1) - at(u, v - 1));
                (xx, xy, yy) = (xx + dx * dx, xy + dx * dy, yy + dy * dy);
            }
        }
        (xx * yy - xy * xy - 5.0 / 128.0 * (xx + yy) * (xx + yy)) / 4096.0
    }

    proptest! {
        #[test]
        fn each_cell_has_the_strongest_of_its_responses(
            (width, height) in (1_u16..70, 1_u16..70), cell in CELL_MIN..=CELL_MAX, margin in MARGIN_MIN..12,
            smooth: bool, pixels in prop::collection::vec(any::<u8>(), 70 * 70),
        ) {
            let (w, h, edge) = (usize::from(width), usize::from(height), usize::from(margin));
            let level = |at: usize| if smooth { (pixels[at / w / 5 * 14 + at % w / 5] / 2) + pixels[at] / 32 } else { pixels[at] };
            let picture: Vec<u8> = (0..w * h).map(level).collect();
            let kernel = Corners { width, height, cell, margin };
            let [columns, _] = kernel.cells();
            let mut strongest = vec![0.0_f64; columns * kernel.cells()[1]];
            for y in edge..h.saturating_sub(edge) {
                for x in edge..w.saturating_sub(edge) {
                    let best = &mut strongest[y / usize::from(cell) * columns + x / usize::from(cell)];
                    *best = best.max(slow_response(w, &picture, x, y));
                }
            }
            for (number, (corner, strongest)) in corners(&kernel, &picture).into_iter().zip(strongest).enumerate() {
                // The part that is cut off is less than one unit.
                prop_assert!((f64::from(corner.response) - strongest).abs() <= 1.001, "{corner:?}, not {strongest}");
                if corner.response > 0 {
                    let (x, y) = (corner.x as usize, corner.y as usize);
                    prop_assert_eq!(y / usize::from(cell) * columns + x / usize::from(cell), number);
                    prop_assert!((slow_response(w, &picture, x, y) - strongest).abs() <= 1.001);
                }
            }
        }
    }

    #[test]
    fn the_corners_of_a_square_are_corners_and_its_edges_are_not() {
        let kernel = Corners { width: 64, height: 64, cell: 32, margin: 4 };
        let picture: Vec<u8> = (0..64 * 64)
            .map(|at| if (16..48).contains(&(at % 64)) && (16..48).contains(&(at / 64)) { 200 } else { 50 })
            .collect();
        let found = corners(&kernel, &picture);
        for (corner, (x, y)) in found.into_iter().zip([(16, 16), (47, 16), (16, 47), (47, 47)]) {
            assert!(corner.response > 0 && (corner.x - x).abs() <= 1 && (corner.y - y).abs() <= 1, "{corner:?}");
        }
        let edge: Vec<u8> = (0..64 * 64).map(|at| if at % 64 < 30 { 200 } else { 50 }).collect();
        assert!(corners(&kernel, &edge).iter().all(|corner| *corner == Corner::default()));
    }
}
