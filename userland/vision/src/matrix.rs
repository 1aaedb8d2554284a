//! Homographies: how the points of one plane lie on another.
//!
//! Points are *normalised*: the centre of a frame is (0, 0), and half its width, 64 pixels, is 1. So all nine numbers are of one size.

use crate::{HEIGHT, WIDTH};

/// Pixels of a unit of length.
pub const UNIT: f64 = WIDTH as f64 / 2.0;
/// The centre of a frame, in pixels.
const CENTRE: [f64; 2] = [(WIDTH as f64 - 1.0) / 2.0, (HEIGHT as f64 - 1.0) / 2.0];

/// Nine numbers by rows, of which the last is 1: point (x, y) goes to `((h0 x + h1 y + h2) / w, (h3 x + h4 y + h5) / w)` with `w = h6 x + h7 y + 1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matrix(pub [f64; 9]);

impl Matrix {
    /// Leaves all points where they are.
    pub const IDENTITY: Self = Self([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);

    /// As it stands in memory: nine numbers, the low byte of each first.
    #[must_use]
    pub fn bytes(&self) -> [u8; 72] {
        core::array::from_fn(|at| self.0[at / 8].to_le_bytes()[at % 8])
    }

    /// Read from memory.
    #[must_use]
    pub fn of(bytes: &[u8; 72]) -> Self {
        Self(core::array::from_fn(|at| f64::from_le_bytes(core::array::from_fn(|byte| bytes[8 * at + byte]))))
    }

    /// First `first`, then `self`.
    #[must_use]
    pub fn after(&self, first: &Self) -> Self {
        let number = |row: usize, column: usize| (0..3).map(|at| self.0[3 * row + at] * first.0[3 * at + column]).sum();
        Self(core::array::from_fn(|at| number(at / 3, at % 3))).scaled()
    }

    /// Undoes `self`. If nothing does, the numbers are not finite.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let [a, b, c, d, e, f, g, h, i] = self.0;
        let adjoint = [
            e * i - f * h,
            c * h - b * i,
            b * f - c * e,
            f * g - d * i,
            a * i - c * g,
            c * d - a * f,
            d * h - e * g,
            b * g - a * h,
            a * e - b * d,
        ];
        Self(adjoint).scaled()
    }

    /// Where a point goes.
    #[must_use]
    pub fn apply(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let h = &self.0;
        let w = h[6] * x + h[7] * y + h[8];
        [(h[0] * x + h[1] * y + h[2]) / w, (h[3] * x + h[4] * y + h[5]) / w]
    }

    /// The homography, scaled so that its last number is 1.
    #[must_use]
    pub fn scaled(&self) -> Self {
        Self(self.0.map(|number| number / self.0[8]))
    }

    /// Whether all numbers are.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.0.iter().all(|number| number.is_finite())
    }

    /// The homography between points in pixels. Its last number is near to 1.
    #[must_use]
    pub fn pixels(&self) -> [f64; 9] {
        let [x, y] = CENTRE;
        let [a, b, c, d, e, f, g, h, i] = self.0;
        let last = [g / UNIT, h / UNIT, i - (g * x + h * y) / UNIT];
        let row = |[a, b, c]: [f64; 3], centre: f64| {
            [a + centre * last[0], b + centre * last[1], c * UNIT - a * x - b * y + centre * last[2]]
        };
        let rows = [row([a, b, c], x), row([d, e, f], y), last];
        core::array::from_fn(|at| rows[at / 3][at % 3])
    }
}

/// A point in pixels, normalised.
#[must_use]
pub fn normalised(pixels: [f64; 2]) -> [f64; 2] {
    core::array::from_fn(|axis| (pixels[axis] - CENTRE[axis]) / UNIT)
}

/// The corners of a frame: the centres of the pixels there.
#[must_use]
pub fn corners() -> [[f64; 2]; 4] {
    let [x, y] = normalised([0.0, 0.0]);
    [[x, y], [-x, y], [x, -y], [-x, -y]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near() -> impl Strategy<Value = Matrix> {
        [-0.2..0.2_f64, -0.2..0.2, -0.5..0.5, -0.2..0.2, -0.2..0.2, -0.5..0.5, -0.1..0.1, -0.1..0.1, 0.0..0.1]
            .prop_map(|deviation| Matrix(core::array::from_fn(|at| Matrix::IDENTITY.0[at] + deviation[at])).scaled())
    }

    fn is_near(one: [f64; 2], other: [f64; 2]) -> bool {
        (one[0] - other[0]).abs() + (one[1] - other[1]).abs() < 1e-9
    }

    proptest! {
        #[test]
        fn one_after_another_is_one_after_another(one in near(), other in near(), x in -1.0..1.0_f64, y in -1.0..1.0_f64) {
            prop_assert!(is_near(one.after(&other).apply([x, y]), one.apply(other.apply([x, y]))));
            prop_assert!(is_near(one.inverse().apply(one.apply([x, y])), [x, y]));
        }

        #[test]
        fn what_is_read_is_what_was_written(matrix in near()) {
            prop_assert_eq!(Matrix::of(&matrix.bytes()), matrix);
        }

        #[test]
        fn pixels_go_where_normalised_points_go(matrix in near(), x in 0.0..127.0_f64, y in 0.0..95.0_f64) {
            let there = normalised(Matrix(matrix.pixels()).apply([x, y]));
            prop_assert!(is_near(there, matrix.apply(normalised([x, y]))));
        }
    }
}
