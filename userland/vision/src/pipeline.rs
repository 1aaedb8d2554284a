//! All nodes one after the other, on one CPU: the reference for graphs of tasks and devices, bit for bit.

use fusee_compute::run;

use crate::filter::{Filtered, Verdict, filtered};
use crate::homography::{Estimate, estimate, matches};
use crate::smooth::{DELAY, FILTER, FILTERED, WEIGHTS, Window, warp};
use crate::{
    CELLS, COLOUR_BYTES, CORNERS, DUPLICATE, FLOW, GREY, GREY_BYTES, HEIGHT, Matrix, PYRAMID, PYRAMID_BYTES, WARP,
    WIDTH, source,
};

/// The pipeline's state after the frames so far. It has 370 KiB.
#[derive(Clone)]
pub struct Pipeline {
    frame: u32,
    copies: [[u8; COLOUR_BYTES]; DELAY + 1],
    grey: [u8; GREY_BYTES],
    pyramids: [[u8; PYRAMID_BYTES]; 2],
    corners: [[i32; 3 * CELLS]; 2],
    window: Window,
    stabilised: [u8; COLOUR_BYTES],
}

/// The results of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The homography from the frame before, as it was estimated. There is none for the first frame.
    pub estimate: Option<Estimate>,
    /// The motion that the filter has let through.
    pub motion: Matrix,
    /// The filter's verdict on it.
    pub verdict: Verdict,
    /// The frame that is shown now, once there is one.
    pub shown: Option<Shown<'a>>,
}

/// A stabilised frame.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Its number: that of the newest frame, less [`DELAY`].
    pub frame: u32,
    /// Where its points are shown.
    pub correction: Matrix,
    /// The matrix of its warp.
    pub matrix: [i32; 9],
    /// The frame as it was read.
    pub read: &'a [u8; COLOUR_BYTES],
    /// The stabilised frame.
    pub pixels: &'a [u8; COLOUR_BYTES],
}

impl Default for Pipeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Pipeline {
    /// Before the first frame.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            frame: 0,
            copies: [[0; COLOUR_BYTES]; DELAY + 1],
            grey: [0; GREY_BYTES],
            pyramids: [[0; PYRAMID_BYTES]; 2],
            corners: [[0; 3 * CELLS]; 2],
            window: Window::new(),
            stabilised: [0; COLOUR_BYTES],
        }
    }

    /// Does the next frame.
    pub fn step(&mut self, colour: &[u8; COLOUR_BYTES]) -> Step<'_> {
        let number = self.frame;
        self.frame = number.wrapping_add(1);
        let copy = &mut self.copies[number as usize % (DELAY + 1)];
        run(&DUPLICATE, (colour[..].into(), copy[..].as_mut().into()));
        run(&GREY, (colour[..].into(), self.grey[..].as_mut().into()));

        // Of the frame before come pyramid and corners; the first has none, so nothing is found again.
        self.pyramids.swap(0, 1);
        self.corners.swap(0, 1);
        run(&CORNERS, (self.grey[..].into(), self.corners[1][..].as_mut().into()));
        run(&PYRAMID, (self.grey[..].into(), self.pyramids[1][..].as_mut().into()));
        let mut tracks = [0; 3 * CELLS];
        let [before, now] = &self.pyramids;
        run(&FLOW, (before[..].into(), now[..].into(), self.corners[0][..].into(), tracks[..].as_mut().into()));

        let estimate = estimate(matches(&self.corners[0], &tracks).as_slice());
        let Filtered { matrix: motion, verdict } = filtered(estimate.as_ref());
        self.window.push(&motion);
        let (signal, mut samples) = (self.window.signal(), [0; FILTERED]);
        run(&FILTER, (signal[..].into(), WEIGHTS[..].into(), samples[..].as_mut().into()));
        let shown = number.checked_sub(DELAY as u32).map(|frame| {
            let correction = Window::correction(&samples);
            let matrix = warp(&correction);
            let read = &self.copies[frame as usize % (DELAY + 1)];
            run(&WARP, (read[..].into(), matrix[..].into(), self.stabilised[..].as_mut().into()));
            Shown { frame, correction, matrix, read, pixels: &self.stabilised }
        });
        Step { estimate, motion, verdict, shown }
    }
}

/// Renders frame number `frame` of the simulated camera ([`source`]) into `colour`: row by row, 3 bytes a pixel (red, green, blue).
pub fn render(frame: u32, colour: &mut [u8; COLOUR_BYTES]) {
    let camera = source::camera(frame);
    for (y, row) in colour.as_chunks_mut::<{ 3 * WIDTH }>().0.iter_mut().enumerate().take(HEIGHT) {
        source::render_row(frame, &camera, y, row);
    }
}
