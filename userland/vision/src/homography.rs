//! Homography: how the picture has moved, from where its corners have gone, most of which are right.
//!
//! Source: Fischler and Bolles 1981, random sample consensus; the score of a trial is Torr and Zisserman's of 2000. The matches with which the best
//! trial agrees are then fitted by least squares, weighted by how well they agree.

use vision_kernels::{POSITION_BITS, Track};

use crate::matrix::{UNIT, normalised};
use crate::{CELLS, Matrix};

/// Trials, always as many: with half of the corners wrong, 98 of 100 frames have one without a wrong corner.
pub const TRIALS: usize = 64;
/// Furthest from its place that a corner is taken to be right, in pixels.
pub const TOLERANCE: f64 = 1.0;
/// The weight of the squares of both numbers of perspective in a fit, beside the squares of distances in units.
///
/// A match is off by 0.1 pixel in each direction, which is 0.0016 units (measured, frames of the [source](crate::source)). In a thirtieth of a second a
/// camera's perspective changes by 0.001. So the weight is the square of 1.6. Without it, noise becomes perspective, which moves the corners of the frame most.
const STEADY: f64 = 2.5;
/// Fits after the best trial.
const FITS: usize = 4;
/// Largest [`Track::difference`] of a corner that counts: 12 grey levels.
const DIFFERENCE_MAX: i32 = 12 << 4;
/// Least pivot of normal equations that are solved: those of four points in general position are about 1, and a square.
const PIVOT_MIN: f64 = 1e-8;

/// A point of a frame and where it is in the next one, both normalised.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Match {
    /// Where it was.
    pub from: [f64; 2],
    /// Where it is.
    pub to: [f64; 2],
}

/// At most one match for each cell.
#[derive(Clone, Copy, Debug)]
pub struct Matches {
    all: [Match; CELLS],
    count: usize,
}

impl Matches {
    /// The matches.
    #[must_use]
    pub fn as_slice(&self) -> &[Match] {
        &self.all[..self.count]
    }
}

/// A homography and the matches it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// From a frame to the next.
    pub matrix: Matrix,
    /// Matches that agree with it, within [`TOLERANCE`].
    pub agreeing: usize,
}

impl Estimate {
    /// As it stands in memory: the number of matches that agree, 64 bits, and the matrix. All are zero if there is none.
    #[must_use]
    pub fn bytes(estimate: Option<&Self>) -> [u8; 80] {
        let mut bytes = [0; 80];
        if let Some(Self { matrix, agreeing }) = estimate {
            bytes[..8].copy_from_slice(&(*agreeing as u64).to_le_bytes());
            bytes[8..].copy_from_slice(&matrix.bytes());
        }
        bytes
    }

    /// Read from memory. Nonsense is an estimate too: a [filter](crate::filter::filtered) stops it.
    #[must_use]
    pub fn of(bytes: &[u8; 80]) -> Option<Self> {
        let (agreeing, matrix) = (bytes.first_chunk()?, bytes.last_chunk()?);
        let agreeing = u64::from_le_bytes(*agreeing).min(CELLS as u64) as usize;
        (agreeing > 0).then(|| Self { matrix: Matrix::of(matrix), agreeing })
    }
}

/// The corners that were found again, by the words of corners and tracks as they stand in memory, three for each cell.
#[must_use]
pub fn matches(corners: &[i32; 3 * CELLS], tracks: &[i32; 3 * CELLS]) -> Matches {
    let mut matches = Matches { all: [Match::default(); CELLS], count: 0 };
    for (corner, track) in corners.as_chunks::<3>().0.iter().zip(tracks.as_chunks::<3>().0) {
        let track = Track::of(*track);
        if (0..=DIFFERENCE_MAX).contains(&track.difference) {
            let place = |number: i32| f64::from(number) / f64::from(1 << POSITION_BITS);
            let from = normalised([corner[0].into(), corner[1].into()]);
            matches.all[matches.count] = Match { from, to: normalised([place(track.x), place(track.y)]) };
            matches.count += 1;
        }
    }
    matches
}

/// The homography that most matches agree with; `None` if there are fewer than four, or no four of those that were tried say one.
/// The same matches give the same bits.
#[must_use]
pub fn estimate(matches: &[Match]) -> Option<Estimate> {
    let mut best: Option<(f64, Matrix)> = None;
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..TRIALS {
        let Some(four) = random.four(matches) else { continue };
        let Some(matrix) = fit(four.into_iter().map(|of| (of, 1.0)), 0.0) else { continue };
        let score = matches.iter().map(|of| square_error(&matrix, of).min(TOLERANCE * TOLERANCE)).sum();
        if best.is_none_or(|(least, _)| score < least) {
            best = Some((score, matrix));
        }
    }
    let (_, mut matrix) = best?;
    for _ in 0..FITS {
        let weighted = matches.iter().map(|of| (*of, weight(square_error(&matrix, of))));
        matrix = fit(weighted.filter(|(_, weight)| *weight > 0.0), STEADY).unwrap_or(matrix);
    }
    let agreeing = matches.iter().filter(|of| weight(square_error(&matrix, of)) > 0.0).count();
    Some(Estimate { matrix, agreeing })
}

/// The square of how far from its place a match is, in pixels. A result that is no number counts as far.
fn square_error(matrix: &Matrix, of: &Match) -> f64 {
    let there = matrix.apply(of.from);
    let [x, y] = [0, 1].map(|axis| (there[axis] - of.to[axis]) * UNIT);
    let square = x * x + y * y;
    if square.is_finite() { square } else { f64::MAX }
}

/// Tukey's weight.
fn weight(square_error: f64) -> f64 {
    let rest = (1.0 - square_error / (TOLERANCE * TOLERANCE)).max(0.0);
    rest * rest
}

/// The homography with the least weighted squares of `x' w - u` and `y' w - v`, where (u / w, v / w) is where it takes a point, and of its two
/// numbers of perspective, with a weight of their own.
fn fit(matches: impl Iterator<Item = (Match, f64)>, steady: f64) -> Option<Matrix> {
    // Normal equations: eight unknowns, and in the last column their right sides.
    let mut equations = [[0.0; 9]; 8];
    (6..8).for_each(|at| equations[at][at] = steady);
    for (Match { from: [x, y], to }, weight) in matches {
        for (axis, to) in to.into_iter().enumerate() {
            let mut row = [0.0; 9];
            row[3 * axis..3 * axis + 3].copy_from_slice(&[x, y, 1.0]);
            row[6..].copy_from_slice(&[-to * x, -to * y, to]);
            for (equation, factor) in equations.iter_mut().zip(row) {
                equation.iter_mut().zip(row).for_each(|(sum, number)| *sum += weight * factor * number);
            }
        }
    }
    let solution = solve(equations)?;
    Some(Matrix(core::array::from_fn(|at| solution.get(at).copied().unwrap_or(1.0))))
}

/// Gauss and Jordan, with the largest pivot of a column.
fn solve(mut equations: [[f64; 9]; 8]) -> Option<[f64; 8]> {
    for column in 0..8 {
        let size = |row: usize, equations: &[[f64; 9]; 8]| equations[row][column].abs();
        let largest = (column..8)
            .fold(column, |best, row| if size(row, &equations) > size(best, &equations) { row } else { best });
        equations.swap(column, largest);
        let pivot = equations[column];
        if pivot[column].is_nan() || pivot[column].abs() <= PIVOT_MIN {
            return None;
        }
        for row in (0..8).filter(|row| *row != column) {
            let factor = equations[row][column] / pivot[column];
            equations[row].iter_mut().zip(pivot).for_each(|(number, pivot)| *number -= factor * pivot);
        }
    }
    Some(core::array::from_fn(|row| equations[row][8] / equations[row][row]))
}

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * end as u64) >> 32) as usize
    }

    /// Four different matches; `None` if there are not as many, or it took one twice.
    fn four(&mut self, matches: &[Match]) -> Option<[Match; 4]> {
        if matches.len() < 4 {
            return None;
        }
        let taken: [usize; 4] = core::array::from_fn(|_| self.below(matches.len()));
        let is_new = |at: usize| !taken[..at].contains(&taken[at]);
        (1..4).all(is_new).then(|| taken.map(|at| matches[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::corners;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn error(one: &Matrix, other: &Matrix) -> f64 {
        let distance = |corner| {
            let (a, b) = (one.apply(corner), other.apply(corner));
            UNIT * (a[0] - b[0]).hypot(a[1] - b[1])
        };
        corners().into_iter().map(distance).fold(0.0, f64::max)
    }

    fn motion() -> impl Strategy<Value = Matrix> {
        [-0.1..0.1_f64, -0.1..0.1, -0.1..0.1, -0.1..0.1, -0.1..0.1, -0.1..0.1, -0.003..0.003, -0.003..0.003, 0.0..0.01]
            .prop_map(|deviation| Matrix(core::array::from_fn(|at| Matrix::IDENTITY.0[at] + deviation[at])).scaled())
    }

    fn points() -> impl Strategy<Value = Vec<[f64; 2]>> {
        prop::collection::vec([-0.95..0.95_f64, -0.7..0.7_f64], CELLS)
    }

    proptest! {
        #[test]
        fn a_homography_is_found_though_a_third_of_the_matches_is_wrong(
            motion in motion(), points in points(), wrong in prop::collection::vec([-0.5..0.5_f64, -0.5..0.5_f64], CELLS / 3),
        ) {
            let mut matches: Vec<Match> = points.into_iter().map(|from| Match { from, to: motion.apply(from) }).collect();
            for (of, by) in matches.iter_mut().zip(&wrong) {
                of.to = [of.to[0] + by[0], of.to[1] + by[1]];
            }
            let found = estimate(&matches).unwrap();
            // A wrong one may be nearly right.
            prop_assert!(error(&found.matrix, &motion) < 0.5, "{}", error(&found.matrix, &motion));
            prop_assert!(found.agreeing >= CELLS - wrong.len());
            prop_assert_eq!(estimate(&matches), Some(found));
            prop_assert_eq!(Estimate::of(&Estimate::bytes(Some(&found))), Some(found));
        }

        #[test]
        fn matches_in_a_line_or_in_a_point_say_nothing_and_nonsense_does_not_panic(
            along in prop::collection::vec(-1.0..1.0_f64, 0..CELLS), nonsense in prop::collection::vec(any::<[f64; 4]>(), 0..CELLS),
        ) {
            let line: Vec<Match> = along.iter().map(|x| Match { from: [*x, *x / 2.0], to: [*x, *x / 2.0] }).collect();
            prop_assert_eq!(estimate(&line), None);
            let point: Vec<Match> = along.iter().map(|_| Match::default()).collect();
            prop_assert_eq!(estimate(&point), None);
            let nonsense: Vec<Match> = nonsense.iter().map(|[a, b, c, d]| Match { from: [*a, *b], to: [*c, *d] }).collect();
            let _ = estimate(&nonsense);
        }
    }

    #[test]
    fn four_exact_matches_are_enough_and_three_are_not() {
        let motion = Matrix([1.01, 0.02, 0.05, -0.02, 0.99, -0.03, 0.0, 0.0, 1.0]);
        let four = corners().map(|from| Match { from, to: motion.apply(from) });
        assert!(error(&estimate(&four).unwrap().matrix, &motion) < 1e-6);
        assert_eq!(estimate(&four[..3]), None);
        assert_eq!(Estimate::of(&Estimate::bytes(None)), None);
    }
}
