//! Lane detection: the arguments of the kernels, and all of them one after the other.

use car_kernels::calibration::{CELLS, COSINE, FOCAL, LANE, LENS, PIXELS, RISE, SINE};
use car_kernels::{Birdseye, Fit, LANE_WORDS, Marks, Straighten};
use fusee_compute::run;

/// The arguments of the first stage of lane detection, which removes the distortion of the lens. Input view: the picture. Output
/// view: the straight picture.
pub const STRAIGHTEN: Straighten =
    Straighten { focal: FOCAL as u16, lens: (LENS * 65_536.0) as i32, first: 38, end: 86 };
/// The second stage. Views: the straight picture; the road from above.
pub const BIRDSEYE: Birdseye = Birdseye {
    focal: FOCAL as u16,
    rise: (RISE * 1000.0) as u16,
    sine: (SINE * 16_384.0 + 0.5) as u16,
    cosine: (COSINE * 16_384.0 + 0.5) as u16,
};
/// The third stage. Views: the road from above; the marks.
pub const MARKS: Marks = Marks { least: 16 };
/// The last stage. Views: the road from above; the marks; the lane.
pub const FIT: Fit = Fit { lane: LANE as u16, rows: 40 };

/// The outputs of the four stages of lane detection for one picture, computed on a CPU. A device must compute the same bits.
pub struct Seen {
    /// The straight picture.
    pub straight: [u8; PIXELS],
    /// The road from above.
    pub road: [u8; CELLS],
    /// The marks.
    pub marks: [u8; CELLS],
    /// The lane.
    pub lane: [i32; LANE_WORDS],
}

impl Default for Seen {
    fn default() -> Self {
        Seen { straight: [0; PIXELS], road: [0; CELLS], marks: [0; CELLS], lane: [0; LANE_WORDS] }
    }
}

impl Seen {
    /// Looks at the next picture.
    pub fn look(&mut self, picture: &[u8; PIXELS]) -> [i32; LANE_WORDS] {
        run(&STRAIGHTEN, (picture[..].into(), self.straight[..].as_mut().into()));
        run(&BIRDSEYE, (self.straight[..].into(), self.road[..].as_mut().into()));
        run(&MARKS, (self.road[..].into(), self.marks[..].as_mut().into()));
        run(&FIT, (self.road[..].into(), self.marks[..].into(), self.lane[..].as_mut().into()));
        self.lane
    }
}
