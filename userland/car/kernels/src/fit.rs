//! The lane as a parabola.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::Aligned;
use crate::calibration::{CELLS, COLUMN, COLUMNS, FIRST, ROW, ROWS, forward};

/// Nanoseconds. 140,000 instructions.
const TIME: u64 = 1_300_000;

/// Words of a lane: marks that were found; the distance of the lane's centre to the left of the car, in um; its slope there, in 1/1,000,000; its
/// curvature, in 1/1,000,000 m; millimetres from the car to an obstacle on the lane, or 0; the mean deviation of the marks, in um; two zeros.
pub const LANE_WORDS: usize = 8;

/// Bits after the point of columns.
const BITS: u32 = 8;
/// Rows with which the search begins, and how far from the middle it looks for the lane, in columns: 1.1 m.
const BEGIN: usize = 12;
const AROUND: i32 = 9;
/// Slopes of a lane that the search tries, in 1/16 columns each row, to both sides: up to 0.13.
const SLOPES: i32 = 4;
/// Columns from its expected place in which a mark is looked for.
const WINDOW: i32 = 3;
/// Rows without a mark after which a lane ends.
const GAP: u32 = 12;
/// The row from which others are counted in sums: the numbers stay small.
const ORIGIN: i32 = 14;
/// Columns from the parabola beyond which a mark is another thing: 0.25 m.
const STRAY: i64 = 2 << BITS;

arguments! {
    /// Follows both marks of the lane from the car on, and fits the parabola in the middle between them that has the least squares, with marks
    /// that are far away counting less. Then it looks for the first row where the lane is much darker than the lane at its left. Views: the road from above; the
    /// marks; the [lane](LANE_WORDS).
    pub struct Fit {
        /// Millimetres from one mark to the other, 2,000 to 5,000.
        pub lane: u16,
        /// Rows with marks that count, up to [`ROWS`].
        pub rows: u16,
    }
}

impl Kernel for Fit {
    const NAME: &'static str = "car fit";
    type Views<'m> = (Input<'m, u8>, Input<'m, u8>, Output<'m, i32>);

    fn is_valid(&self) -> bool {
        (2000..=5000).contains(&self.lane) && (1..=ROWS).contains(&self.rows.into())
    }

    fn elements(&self) -> [usize; 3] {
        [CELLS, CELLS, LANE_WORDS]
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        TIME * u64::from(blocks.end - blocks.start)
    }

    fn block(&self, _: u32, (road, marks, lane): Self::Views<'_>) {
        let mut cells = Aligned([0_u8; CELLS]);
        marks.load(0, &mut cells.0);
        let mut found = Found::default();
        let half = i32::from(self.lane) * (1 << BITS) / (2 * COLUMN);
        if let Some(begin) = begin(&cells.0, half) {
            found.follow(&cells.0, begin, half, self.rows.into());
        }
        let parabola = found.parabola(None).and_then(|first| found.parabola(Some(&first)));
        let mut words = [0; LANE_WORDS];
        if let Some(parabola) = parabola {
            road.load(0, &mut cells.0);
            words[..4].copy_from_slice(&parabola.words());
            words[4] = obstacle(&cells.0, &parabola, 2 * half);
            words[5] = parabola.deviation;
        }
        lane.store(0, &words);
    }
}

/// A mark, at this column in 1/256 and row of the road, moved to the middle of the lane.
#[derive(Clone, Copy, Default)]
struct Mark {
    row: i32,
    column: i32,
}

/// The marks of a lane.
struct Found {
    marks: [Mark; 2 * ROWS],
    count: usize,
}

impl Default for Found {
    fn default() -> Self {
        Found { marks: [Mark::default(); 2 * ROWS], count: 0 }
    }
}

/// The strength of a cell as a mark; 0 beyond the road.
fn strength(marks: &[u8; CELLS], row: usize, column: i32) -> i32 {
    let column = usize::try_from(column).unwrap_or(COLUMNS);
    if column < COLUMNS { marks.get(row * COLUMNS + column).copied().unwrap_or(0).into() } else { 0 }
}

/// The middle of the lane in the first row, in 1/256 columns, and its change in the next: where most marks are at both sides.
fn begin(marks: &[u8; CELLS], half: i32) -> Option<(i32, i32)> {
    let half = (half + (1 << (BITS - 1))) >> BITS;
    let (mut best, mut most) = (None, 0);
    for middle in COLUMNS as i32 / 2 - AROUND..=COLUMNS as i32 / 2 + AROUND {
        for slope in -SLOPES..=SLOPES {
            let sum = (0..BEGIN).map(|row| {
                let column = middle + ((slope * row as i32) >> 4);
                strength(marks, row, column - half) + strength(marks, row, column + half)
            });
            let sum: i32 = sum.sum();
            if sum > most {
                (best, most) = (Some((middle << BITS, slope << (BITS - 4))), sum);
            }
        }
    }
    best
}

/// The place of a mark near a column, in 1/256: the mean of the strongest cell and its neighbours, by their strengths.
fn mark_near(marks: &[u8; CELLS], row: usize, column: i32) -> Option<i32> {
    let near = (column + (1 << (BITS - 1))) >> BITS;
    let best = (near - WINDOW..=near + WINDOW).max_by_key(|column| strength(marks, row, *column))?;
    let three = [-1, 0, 1].map(|step| strength(marks, row, best + step));
    let sum: i32 = three.iter().sum();
    (three[1] > 0).then(|| (best << BITS) + ((three[2] - three[0]) << BITS) / sum)
}

impl Found {
    /// Follows the lane from row to row.
    fn follow(&mut self, marks: &[u8; CELLS], (mut middle, mut slope): (i32, i32), half: i32, rows: usize) {
        let mut empty = 0;
        for row in 0..rows.min(ROWS) {
            // A lane that is not parallel to the car is wider along a row: by the root of 1 + slope^2.
            let slant = slope * COLUMN / ROW;
            let half = half + half * ((slant * slant) >> (BITS + 1)) / (1 << BITS);
            let [left, right] = [-half, half].map(|aside| Some(mark_near(marks, row, middle + aside)? - aside));
            let seen = match (left, right) {
                (Some(left), Some(right)) => Some(i32::midpoint(left, right)),
                (one, other) => one.or(other),
            };
            for column in [left, right].into_iter().flatten() {
                self.marks[self.count] = Mark { row: row as i32, column };
                self.count += 1;
            }
            empty = if seen.is_some() { 0 } else { empty + 1 };
            if empty > GAP {
                return;
            }
            let error = seen.map_or(0, |seen| seen - middle);
            slope += error / 8;
            middle += error / 2 + slope;
        }
    }

    /// The parabola with the least squares, without marks that are far from another one; `None` if they do not determine it.
    fn parabola(&self, other: Option<&Parabola>) -> Option<Parabola> {
        let mut powers = [0_i64; 5];
        let mut columns = [0_i64; 3];
        let (mut count, mut deviations) = (0, 0);
        for mark in &self.marks[..self.count] {
            let deviation = other.map_or(0, |other| i64::from(mark.column) - other.at(mark.row));
            if deviation.abs() > STRAY {
                continue;
            }
            let at = i64::from(mark.row - ORIGIN);
            let mut weighed = 4096 / i64::from((mark.row + FIRST / ROW) * (mark.row + FIRST / ROW));
            for (power, sum) in powers.iter_mut().enumerate() {
                *sum += weighed;
                if let Some(column) = columns.get_mut(power) {
                    *column += weighed * i64::from(mark.column);
                }
                weighed *= at;
            }
            count += 1;
            deviations += deviation.abs();
        }
        let matrix =
            [[powers[0], powers[1], powers[2]], [powers[1], powers[2], powers[3]], [powers[2], powers[3], powers[4]]];
        let whole = determinant(&matrix);
        if count < 10 || whole <= 0 {
            return None;
        }
        let terms = core::array::from_fn(|term| {
            let mut replaced = matrix;
            (0..3).for_each(|row| replaced[row][term] = columns[row]);
            ((determinant(&replaced) << TERM_BITS) / whole) as i64
        });
        let deviation = (deviations * i64::from(COLUMN) * 1000 / i64::from(count)) >> BITS;
        Some(Parabola { terms, count, deviation: deviation as i32 })
    }
}

/// Further bits after the point of a parabola's terms.
const TERM_BITS: u32 = 12;

/// Columns by the row, from [`ORIGIN`] on.
struct Parabola {
    terms: [i64; 3],
    count: i32,
    deviation: i32,
}

fn determinant(m: &[[i64; 3]; 3]) -> i128 {
    let minor =
        |a: usize, b: usize| i128::from(m[1][a]) * i128::from(m[2][b]) - i128::from(m[1][b]) * i128::from(m[2][a]);
    i128::from(m[0][0]) * minor(1, 2) - i128::from(m[0][1]) * minor(0, 2) + i128::from(m[0][2]) * minor(0, 1)
}

impl Parabola {
    /// The column in a row, in 1/256.
    fn at(&self, row: i32) -> i64 {
        let at = i64::from(row - ORIGIN);
        (self.terms[0] + at * (self.terms[1] + at * self.terms[2])) >> TERM_BITS
    }

    /// The first words of the lane.
    fn words(&self) -> [i32; 4] {
        let [constant, linear, square] = self.terms;
        // The row of the car itself.
        let car = i64::from(-FIRST / ROW - ORIGIN);
        let column = constant + car * (linear + car * square);
        let middle = ((COLUMNS as i64 - 1) << (BITS + TERM_BITS)) / 2;
        let micrometres = |columns: i64| (columns * i64::from(COLUMN) * 1000) >> (BITS + TERM_BITS);
        let left = micrometres(middle - column);
        let slope = -micrometres(linear + 2 * car * square) * 1000 / i64::from(ROW);
        let row = i64::from(ROW);
        let curvature = -micrometres(2 * square) * 1_000_000 / (row * row);
        [self.count, left as i32, slope as i32, curvature as i32]
    }
}

/// Levels by which an obstacle is darker than the other lane, at least.
const DARKER: i32 = 20;
/// Columns to both sides of the middle of a lane that are looked at: 0.6 m.
const BREADTH: usize = 5;

/// Millimetres to the place where the lane becomes dark, or 0.
fn obstacle(road: &[u8; CELLS], parabola: &Parabola, lane: i32) -> i32 {
    let level = |row: usize, column: i64| {
        let column = usize::try_from(column >> BITS).ok()?;
        let from = row * COLUMNS + column.checked_sub(BREADTH)?;
        let cells = road.get(from..=from + 2 * BREADTH).filter(|_| column + BREADTH < COLUMNS)?;
        (!cells.contains(&0)).then(|| cells.iter().map(|cell| i32::from(*cell)).sum::<i32>())
    };
    let (count, mut before) = (2 * BREADTH as i32 + 1, None);
    let mut darker = [None; ROWS];
    // Near to the car the other lane is beyond the picture, and is as bright as its nearest part.
    let mut other = None;
    for (row, darker) in darker.iter_mut().enumerate().rev() {
        let column = parabola.at(row as i32);
        other = level(row, column - i64::from(lane)).or(other);
        *darker = other.zip(level(row, column)).map(|(other, own)| other - own);
    }
    for (row, here) in darker.iter().enumerate() {
        let most = darker[row..].iter().take(8).flatten().max().copied().unwrap_or(0);
        if let (Some(before), Some(here)) = (before, *here)
            && most >= 2 * DARKER * count
            && here >= most / 2
        {
            // Between the rows, where half of the darkness is reached.
            let part = if here > before { (here - most / 2) * ROW / (here - before) } else { 0 };
            return forward(row) - part.clamp(0, ROW);
        }
        before = *here;
    }
    0
}
