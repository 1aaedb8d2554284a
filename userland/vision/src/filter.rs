//! Homography Filter: a movement that no camera makes from one frame to the next is noise.

use crate::Matrix;
use crate::homography::Estimate;
use crate::matrix::corners;

/// Fewest matches that have to agree.
pub const AGREEING_MIN: usize = 12;
/// Furthest that a corner of the frame moves from one frame to the next, in units: 16 pixels.
pub const MOVE_MAX: f64 = 0.25;
/// Largest part of perspective: with it, one end of the frame is 2 % nearer than its centre.
pub const PERSPECTIVE_MAX: f64 = 0.02;

/// The verdict on a homography.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The homography stays as it is.
    Kept,
    /// Its perspective was more than [`PERSPECTIVE_MAX`], and is that now.
    Limited,
    /// There was none: too few corners were found again.
    Missing,
    /// Fewer than [`AGREEING_MIN`] matches agree with it.
    Unsure,
    /// The homography moves a corner further than [`MOVE_MAX`].
    TooFar,
}

/// The output of the filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filtered {
    /// The homography to go on with.
    pub matrix: Matrix,
    /// The verdict on the one that came in.
    pub verdict: Verdict,
}

/// Limits a homography. One that cannot be trusted is replaced by the identity, since a camera that shakes is as likely to move either way.
#[must_use]
pub fn filtered(estimate: Option<&Estimate>) -> Filtered {
    let replaced = |verdict| Filtered { matrix: Matrix::IDENTITY, verdict };
    let Some(Estimate { matrix, agreeing }) = estimate else { return replaced(Verdict::Missing) };
    if *agreeing < AGREEING_MIN {
        return replaced(Verdict::Unsure);
    }
    let mut limited = *matrix;
    limited.0[6..8].iter_mut().for_each(|number| *number = number.clamp(-PERSPECTIVE_MAX, PERSPECTIVE_MAX));
    let is_near = |corner: [f64; 2]| {
        let there = limited.apply(corner);
        (0..2).all(|axis| (there[axis] - corner[axis]).abs() <= MOVE_MAX)
    };
    match corners().into_iter().all(is_near) {
        true if limited == *matrix => Filtered { matrix: limited, verdict: Verdict::Kept },
        true => Filtered { matrix: limited, verdict: Verdict::Limited },
        false => replaced(Verdict::TooFar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_comes_out_is_a_movement_of_a_camera(numbers in any::<[f64; 9]>(), small in prop::array::uniform9(-0.3..0.3_f64), agreeing in 0_usize..48) {
            for numbers in [numbers, core::array::from_fn(|at| Matrix::IDENTITY.0[at] + if at < 8 { small[at] } else { 0.0 })] {
                let Filtered { matrix, verdict } = filtered(Some(&Estimate { matrix: Matrix(numbers), agreeing }));
                prop_assert!(matrix.is_finite());
                for corner in corners() {
                    let there = matrix.apply(corner);
                    prop_assert!((there[0] - corner[0]).abs() <= 0.25 && (there[1] - corner[1]).abs() <= 0.25);
                }
                prop_assert_eq!(verdict == Verdict::Kept, matrix == Matrix(numbers) && agreeing >= AGREEING_MIN);
            }
        }
    }

    #[test]
    fn each_verdict_is_reached() {
        let verdict = |numbers, agreeing| filtered(Some(&Estimate { matrix: Matrix(numbers), agreeing })).verdict;
        assert_eq!(filtered(None), Filtered { matrix: Matrix::IDENTITY, verdict: Verdict::Missing });
        assert_eq!(verdict(Matrix::IDENTITY.0, 12), Verdict::Kept);
        assert_eq!(verdict(Matrix::IDENTITY.0, 11), Verdict::Unsure);
        assert_eq!(verdict([1.0, 0.0, 0.3, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], 48), Verdict::TooFar);
        assert_eq!(verdict([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.05, 0.0, 1.0], 48), Verdict::Limited);
        assert_eq!(verdict([f64::NAN; 9], 48), Verdict::TooFar);
    }
}
