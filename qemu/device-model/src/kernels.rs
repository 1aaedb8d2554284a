//! The arithmetic of the execution engine: pure functions on slices.
//!
//! A program on the host that wants to know what the device should have computed calls
//! these. Images are rows of 8-bit pixels without gaps; a slice may be longer than its image.
//! Each function can do a part of its work, so that the device can do it in slices.
//!
//! # Panics
//!
//! All functions panic if a slice is shorter than its image, so sizes are checked before.

use core::ops::Range;
use fusee_accel_contract::{ImageSize, MatchResult, timing};

//--- Gradient

/// Strength of edges: |left - right| + |above - below|, at most 255, border repeated.
pub fn gradient(source: &[u8], size: ImageSize, destination: &mut [u8]) {
    gradient_rows(source, size, 0..usize::from(size.height), destination);
}

/// The same for some rows; `destination` is the whole image.
pub fn gradient_rows(source: &[u8], size: ImageSize, rows: Range<usize>, destination: &mut [u8]) {
    let (width, height) = (usize::from(size.width), usize::from(size.height));
    for y in rows {
        let row = |y: usize| &source[y * width..][..width];
        let (above, here, below) = (row(y.saturating_sub(1)), row(y), row((y + 1).min(height - 1)));
        let out = &mut destination[y * width..][..width];

        let inner = width.saturating_sub(2);
        if inner > 0 {
            let (above, below) = (&above[1..][..inner], &below[1..][..inner]);
            let (left, right) = (&here[..inner], &here[2..][..inner]);
            let out = &mut out[1..][..inner];
            for x in 0..inner {
                let dx = right[x].abs_diff(left[x]);
                out[x] = dx.saturating_add(below[x].abs_diff(above[x]));
            }
        }
        let last = width - 1;
        for (x, left, right) in [(0, 0, last.min(1)), (last, last.saturating_sub(1), last)] {
            let dx = here[right].abs_diff(here[left]);
            out[x] = dx.saturating_add(below[x].abs_diff(above[x]));
        }
    }
}

//--- Block match

/// A search for the displacement of an image, in as many steps as it takes.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    radius: u8,
    stride: u8,
    candidate: u16,
    row: u16,
    sum: u32,
    best: MatchResult,
}

impl Search {
    /// A search for nothing; all zeros.
    pub(crate) const fn idle() -> Self {
        let best = MatchResult { dx: 0, dy: 0, difference: 0, second_best: 0 };
        Self { radius: 0, stride: 0, candidate: 0, row: 0, sum: 0, best }
    }

    /// A search that has not begun. See `Operation::BlockMatch` for what is compared.
    #[must_use]
    pub const fn new(radius: u8, stride: u8) -> Self {
        let best = MatchResult { dx: 0, dy: 0, difference: u32::MAX, second_best: u32::MAX };
        Self { radius, stride, candidate: 0, row: 0, sum: 0, best }
    }

    /// Compares up to `comparisons` pixels, rounded up to a whole row; `None` if some are left.
    /// A row counts as [`timing::MATCH_ROW`] comparisons more than it has.
    ///
    /// The images must be the same in each step. Twice the radius must be less than each side.
    pub fn step(
        &mut self,
        reference: &[u8],
        current: &[u8],
        size: ImageSize,
        mut comparisons: usize,
    ) -> Option<MatchResult> {
        let (width, height) = (usize::from(size.width), usize::from(size.height));
        let (radius, stride) = (usize::from(self.radius), usize::from(self.stride));
        let side = 2 * radius + 1;
        let inner = width - 2 * radius;
        let samples = inner.div_ceil(stride);

        while usize::from(self.candidate) < side * side {
            // Displacements shifted by the radius, so that they count from 0.
            let (dx, dy) = (usize::from(self.candidate) % side, usize::from(self.candidate) / side);
            while usize::from(self.row) < height - 2 * radius {
                if comparisons == 0 {
                    return None;
                }
                comparisons = comparisons.saturating_sub(samples + timing::MATCH_ROW as usize);
                let y = usize::from(self.row);
                let still = &reference[(y + radius) * width + radius..][..inner];
                let moved = &current[(y + dy) * width + dx..][..inner];
                self.sum += row_difference(still, moved, stride);
                self.row = self.row.saturating_add(u16::from(self.stride));
            }
            self.consider(dx as i32 - radius as i32, dy as i32 - radius as i32);
            self.candidate += 1;
            self.row = 0;
            self.sum = 0;
        }
        Some(self.best)
    }

    /// Takes the finished candidate into account.
    fn consider(&mut self, dx: i32, dy: i32) {
        let best = self.best;
        let shorter = dx * dx + dy * dy < best.dx * best.dx + best.dy * best.dy;
        if self.candidate == 0 || self.sum < best.difference || (self.sum == best.difference && shorter) {
            self.best = MatchResult { dx, dy, difference: self.sum, second_best: best.difference };
        } else {
            self.best.second_best = best.second_best.min(self.sum);
        }
    }
}

/// The displacement between two images; see `Operation::BlockMatch`.
#[must_use]
pub fn block_match(reference: &[u8], current: &[u8], size: ImageSize, radius: u8, stride: u8) -> MatchResult {
    let mut search = Search::new(radius, stride);
    loop {
        if let Some(result) = search.step(reference, current, size, usize::MAX) {
            return result;
        }
    }
}

/// Sum of absolute differences of each `stride`-th pixel of two rows of equal length.
fn row_difference(still: &[u8], moved: &[u8], stride: usize) -> u32 {
    let moved = &moved[..still.len()];
    let (mut sum, mut x) = (0, 0);
    while x < still.len() {
        sum += u32::from(still[x].abs_diff(moved[x]));
        x += stride;
    }
    sum
}

//--- Shift

/// `destination(x, y) = source(x + dx, y + dy)`, border repeated. Any displacement will do.
pub fn shift(source: &[u8], size: ImageSize, displacement: (i32, i32), destination: &mut [u8]) {
    shift_rows(source, size, displacement, 0..usize::from(size.height), destination);
}

/// The same for some rows; `destination` is the whole image.
pub fn shift_rows(source: &[u8], size: ImageSize, (dx, dy): (i32, i32), rows: Range<usize>, destination: &mut [u8]) {
    let (width, height) = (usize::from(size.width), usize::from(size.height));
    // Further than the image is wide, one step looks like the next.
    let distance = (dx.unsigned_abs() as usize).min(width);
    for y in rows {
        let from = (y as i64 + i64::from(dy)).clamp(0, height as i64 - 1) as usize;
        let from = &source[from * width..][..width];
        let out = &mut destination[y * width..][..width];
        if dx >= 0 {
            let (inner, border) = out.split_at_mut(width - distance);
            inner.copy_from_slice(&from[distance..]);
            border.fill(from[width - 1]);
        } else {
            let (border, inner) = out.split_at_mut(distance);
            inner.copy_from_slice(&from[..width - distance]);
            border.fill(from[0]);
        }
    }
}

//--- Matrix product

/// One row of the product of two square matrices of little-endian, wrapping `u32`.
///
/// `row` and `out` are `order` words long, `right` is the whole right factor, row by row.
pub fn matrix_row(row: &[u8], right: &[u8], order: u16, out: &mut [u8]) {
    let bytes = 4 * usize::from(order);
    let mut sums = [0_u32; fusee_accel_contract::MATRIX_ORDER_MAX as usize];
    for (factor, right) in row[..bytes].chunks_exact(4).zip(right.chunks_exact(bytes)) {
        let factor = word(factor);
        for (sum, right) in sums.iter_mut().zip(right.chunks_exact(4)) {
            *sum = sum.wrapping_add(factor.wrapping_mul(word(right)));
        }
    }
    for (out, sum) in out[..bytes].chunks_exact_mut(4).zip(sums) {
        out.copy_from_slice(&sum.to_le_bytes());
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// A pixel, where those beyond the border equal the border.
    fn pixel(image: &[u8], size: ImageSize, x: i64, y: i64) -> u8 {
        let x = x.clamp(0, i64::from(size.width) - 1);
        let y = y.clamp(0, i64::from(size.height) - 1);
        image[(y * i64::from(size.width) + x) as usize]
    }

    fn each_pixel(size: ImageSize) -> impl Iterator<Item = (i64, i64)> {
        (0..i64::from(size.height)).flat_map(move |y| (0..i64::from(size.width)).map(move |x| (x, y)))
    }

    prop_compose! {
        fn any_image()(width in 1_u16..24, height in 1_u16..24)(
            size in Just(ImageSize { width, height }),
            image in prop::collection::vec(any::<u8>(), usize::from(width * height)),
        ) -> (ImageSize, Vec<u8>) {
            (size, image)
        }
    }

    proptest! {
        #[test]
        fn a_gradient_equals_its_definition((size, image) in any_image()) {
            let mut out = vec![0; size.pixels()];
            gradient(&image, size, &mut out);
            let expected: Vec<u8> = each_pixel(size)
                .map(|(x, y)| {
                    let at = |x, y| i32::from(pixel(&image, size, x, y));
                    let sum = (at(x + 1, y) - at(x - 1, y)).abs() + (at(x, y + 1) - at(x, y - 1)).abs();
                    sum.min(255) as u8
                })
                .collect();
            prop_assert_eq!(out, expected);
        }

        #[test]
        fn a_shift_equals_its_definition(
            (size, image) in any_image(),
            dx in prop_oneof![-30..30, any::<i32>()],
            dy in prop_oneof![-30..30, any::<i32>()],
        ) {
            let mut out = vec![0; size.pixels()];
            shift(&image, size, (dx, dy), &mut out);
            let expected: Vec<u8> = each_pixel(size)
                .map(|(x, y)| pixel(&image, size, x + i64::from(dx), y + i64::from(dy)))
                .collect();
            prop_assert_eq!(out, expected);
        }

        #[test]
        fn a_match_is_the_best_of_all_displacements(
            (size, reference) in any_image(),
            seed: u8,
            radius in 0_u8..6,
            stride in 1_u8..5,
            slice in 1_usize..50,
        ) {
            prop_assume!(2 * u16::from(radius) < size.width.min(size.height));
            let current: Vec<u8> = reference.iter().rev().map(|p| p.wrapping_mul(seed)).collect();
            let r = i32::from(radius);
            let mut sums: Vec<(u32, i32, i32, i32)> = Vec::new();
            for (dy, dx) in (-r..=r).flat_map(|dy| (-r..=r).map(move |dx| (dy, dx))) {
                let mut sum = 0;
                for y in (r..i32::from(size.height) - r).step_by(usize::from(stride)) {
                    for x in (r..i32::from(size.width) - r).step_by(usize::from(stride)) {
                        let at = |image: &[u8], x: i32, y: i32| pixel(image, size, x.into(), y.into());
                        sum += u32::from(at(&reference, x, y).abs_diff(at(&current, x + dx, y + dy)));
                    }
                }
                sums.push((sum, dx * dx + dy * dy, dy, dx));
            }
            sums.sort_unstable();
            let second_best = sums.get(1).map_or(u32::MAX, |second| second.0);
            let (difference, _, dy, dx) = sums[0];
            let expected = MatchResult { dx, dy, difference, second_best };

            prop_assert_eq!(block_match(&reference, &current, size, radius, stride), expected);

            let mut search = Search::new(radius, stride);
            let in_slices = core::iter::repeat_with(|| search.step(&reference, &current, size, slice))
                .find_map(|result| result);
            prop_assert_eq!(in_slices, Some(expected));
        }

        /// What the stabiliser of a camera relies on.
        #[test]
        fn a_known_movement_is_found_in_spite_of_noise(
            seed: u64, dx in -6_i32..=6, dy in -6_i32..=6, through_gradient: bool,
        ) {
            let size = ImageSize { width: 128, height: 96 };
            let mut state = seed | 1;
            let mut random = move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u32
            };
            // A scene larger than the picture, so that nothing is repeated at the border.
            let scene: Vec<u8> = (0..144 * 112).map(|_| (random() % 256) as u8).collect();
            let mut picture = |dx: i32, dy: i32| -> Vec<u8> {
                each_pixel(size)
                    .map(|(x, y)| {
                        let at = (y + 8 - i64::from(dy)) * 144 + x + 8 - i64::from(dx);
                        let noise = (random() % 7) as i32 - 3;
                        (i32::from(scene[at as usize]) + noise).clamp(0, 255) as u8
                    })
                    .collect()
            };
            let (mut reference, mut current) = (picture(0, 0), picture(dx, dy));
            if through_gradient {
                for image in [&mut reference, &mut current] {
                    let source = image.clone();
                    gradient(&source, size, image);
                }
            }
            let result = block_match(&reference, &current, size, 6, 4);
            prop_assert_eq!((result.dx, result.dy), (dx, dy));
            prop_assert!(result.second_best > 2 * result.difference);
        }

        #[test]
        fn a_product_equals_its_definition(
            order in 1_u16..9,
            words in prop::collection::vec(any::<u32>(), 128),
        ) {
            let n = usize::from(order);
            let (left, right) = words.split_at(64);
            let bytes = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
            for i in 0..n {
                let mut out = vec![0; 4 * n];
                matrix_row(&bytes(&left[i * n..][..n]), &bytes(right), order, &mut out);
                let expected: Vec<u32> = (0..n)
                    .map(|j| {
                        (0..n).fold(0_u32, |sum, k| {
                            sum.wrapping_add(left[i * n + k].wrapping_mul(right[k * n + j]))
                        })
                    })
                    .collect();
                prop_assert_eq!(out, bytes(&expected));
            }
        }
    }
}
