//! Smooth Homography: the way of the camera, as it would be without its shaking.
//!
//! Where a point of frame *t* is in each of the frames from *t* - 7 to *t* + 7 is known by the motions between them. The weighted mean of these places
//! is where the point is to be shown: a camera that moves evenly is left alone, and one that shakes is held. So a frame is shown [`DELAY`] frames after it was read.
//!
//! The mean is taken of the numbers of the 15 homographies. All eight means are one launch of a signal processor's [`Filter`]: the samples of each number stand one after the
//! other, and of the filtered signal each 15th sample is one of the means.
//!
//! The weights fall linearly to both sides. At 30 frames a second, of a movement at 1 Hz 79 % are left, at 2 Hz 36 %, at 3 Hz 8 %, and above at most 5 %.

use fusee_library::Filter;
use vision_kernels::MATRIX_BITS;

use crate::Matrix;

/// Frames that are read after a frame and before it is shown.
pub const DELAY: usize = 7;
/// Frames of the window.
pub const LENGTH: usize = 2 * DELAY + 1;
/// Numbers of a homography that are not always 1.
const NUMBERS: usize = 8;
/// Samples of the signal that the filter has.
pub const SIGNAL: usize = NUMBERS * LENGTH;
/// Samples that the filter puts out.
pub const FILTERED: usize = SIGNAL - LENGTH + 1;
/// Bits after the point of all of them: an `i16` is less than 1, which is 64 pixels.
const BITS: u32 = 15;

/// The kernel of the node on the signal processor. Views: [`Window::signal`], [`WEIGHTS`], [`FILTERED`] samples for [`Window::correction`].
pub const FILTER: Filter = Filter { samples: FILTERED as u16, length: LENGTH as u16 };

/// The weights of the frames of the window, which are 1 together.
pub const WEIGHTS: [i16; LENGTH] = {
    let mut weights = [0; LENGTH];
    let mut at = 0;
    while at < LENGTH {
        let distance = at.abs_diff(DELAY);
        weights[at] = ((1 << BITS) / (DELAY + 1) / (DELAY + 1) * (DELAY + 1 - distance)) as i16;
        at += 1;
    }
    weights
};

/// The motions between the frames of the window, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct Window([Matrix; LENGTH - 1]);

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

impl Window {
    /// The window of a camera that has not moved yet.
    #[must_use]
    pub const fn new() -> Self {
        Self([Matrix::IDENTITY; LENGTH - 1])
    }

    /// Adds the motion from the newest frame of the window to the next, which then is the newest. The frame in the middle came [`DELAY`] frames before that one.
    pub fn push(&mut self, motion: &Matrix) {
        self.0.rotate_left(1);
        self.0[LENGTH - 2] = *motion;
    }

    /// From the frame in the middle to each.
    fn homographies(&self) -> [Matrix; LENGTH] {
        let mut all = [Matrix::IDENTITY; LENGTH];
        for at in DELAY + 1..LENGTH {
            all[at] = self.0[at - 1].after(&all[at - 1]);
        }
        for at in (0..DELAY).rev() {
            all[at] = self.0[at].inverse().after(&all[at + 1]);
        }
        all
    }

    /// The signal for the filter: by how much the homographies from the frame in the middle to each differ from the identity. Each is at most
    /// 1 - 2^-15, and at least -1, which are 64 pixels.
    #[must_use]
    pub fn signal(&self) -> [i16; SIGNAL] {
        let all = self.homographies();
        core::array::from_fn(|at| {
            let (number, frame) = (at / LENGTH, at % LENGTH);
            rounded((all[frame].0[number] - Matrix::IDENTITY.0[number]) * f64::from(1 << BITS))
                .clamp(i16::MIN.into(), i16::MAX.into()) as i16
        })
    }

    /// The correction by the filter's result: where the points of the frame in the middle are to be shown.
    #[must_use]
    pub fn correction(filtered: &[i16; FILTERED]) -> Matrix {
        let mean = |number: usize| f64::from(filtered[number * LENGTH]) / f64::from(1 << BITS);
        Matrix(core::array::from_fn(|at| Matrix::IDENTITY.0[at] + if at < NUMBERS { mean(at) } else { 0.0 }))
    }
}

/// The matrix for a [`vision_kernels::Warp`] that shows points where `correction` says: it says where they come from, in pixels.
#[must_use]
pub fn warp(correction: &Matrix) -> [i32; 9] {
    let numbers = correction.inverse().pixels();
    core::array::from_fn(|at| rounded(numbers[at] * f64::from(1_u32 << MATRIX_BITS[at / 3])))
}

/// To the nearest, of two away from zero; within the range of an `i32`.
fn rounded(number: f64) -> i32 {
    (number + 0.5_f64.copysign(number)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{UNIT, corners};
    use fusee_compute::run;
    use proptest::prelude::*;
    use std::vec::Vec;

    const _: () = {
        let (mut sum, mut at) = (0, 0);
        while at < LENGTH {
            sum += WEIGHTS[at] as i32;
            at += 1;
        }
        assert!(sum == 1 << BITS);
    };

    fn correction(window: &Window) -> Matrix {
        let (signal, mut filtered) = (window.signal(), [0; FILTERED]);
        run(&FILTER, (signal[..].into(), WEIGHTS[..].into(), filtered[..].as_mut().into()));
        Window::correction(&filtered)
    }

    fn motions() -> impl Strategy<Value = Vec<Matrix>> {
        let deviation = [
            -0.02..0.02_f64,
            -0.02..0.02,
            -0.06..0.06,
            -0.02..0.02,
            -0.02..0.02,
            -0.06..0.06,
            -0.002..0.002,
            -0.002..0.002,
        ];
        let motion = deviation
            .prop_map(|by| Matrix(core::array::from_fn(|at| Matrix::IDENTITY.0[at] + by.get(at).unwrap_or(&0.0))));
        prop::collection::vec(motion, LENGTH - 1)
    }

    proptest! {
        /// By its definition: places in the other frames come from moving a point on, or back, frame by frame.
        #[test]
        fn a_point_is_shown_at_the_mean_of_its_places(motions in motions()) {
            let mut window = Window::new();
            motions.iter().for_each(|motion| window.push(motion));
            let correction = correction(&window);
            for corner in corners() {
                let mut mean = corner.map(|part| part * 8.0);
                for direction in [1, -1] {
                    let mut place = corner;
                    for distance in 1..=7_usize {
                        place = if direction > 0 { motions[6 + distance].apply(place) } else { motions[7 - distance].inverse().apply(place) };
                        (0..2).for_each(|axis| mean[axis] += place[axis] * (8 - distance) as f64);
                    }
                }
                // The mean of homographies is not that of places, if they have perspective; and an i16 has 1/512 pixel.
                let there = correction.apply(corner);
                prop_assert!((0..2).all(|axis| (there[axis] - mean[axis] / 64.0).abs() * UNIT < 0.15), "{there:?} {mean:?}");
            }
        }

        #[test]
        fn a_warp_is_the_inverse_in_pixels(motions in motions(), x in 0.0..127.0_f64, y in 0.0..95.0_f64) {
            let mut window = Window::new();
            motions.iter().for_each(|motion| window.push(motion));
            let correction = correction(&window);
            let words = warp(&correction);
            let exact = Matrix(correction.pixels()).inverse().apply([x, y]);
            let h: Vec<f64> = words.iter().enumerate().map(|(at, word)| f64::from(*word) / if at < 6 { 4_194_304.0 } else { 1_073_741_824.0 }).collect();
            let there = Matrix(core::array::from_fn(|at| h[at])).apply([x, y]);
            prop_assert!((0..2).all(|axis| (there[axis] - exact[axis]).abs() < 1e-3));
        }
    }

    #[test]
    fn a_camera_that_moves_evenly_is_left_alone() {
        let mut window = Window::new();
        let even = Matrix([1.0, 0.0, 0.02, 0.0, 1.0, -0.01, 0.0, 0.0, 1.0]);
        (0..LENGTH).for_each(|_| window.push(&even));
        assert_eq!(warp(&correction(&window)), warp(&Matrix::IDENTITY));
    }
}
