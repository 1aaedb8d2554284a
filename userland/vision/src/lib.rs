//! Video stabilisation as a graph of eleven nodes: a camera that shakes is made to move smoothly.
//!
//! | Node | Runs on | Is | Takes |
//! |---|---|---|---|
//! | Read Frame | CPU | [`source::render_row`], for all rows | 1.1 ms |
//! | Duplicate Colour | GPU | [`DUPLICATE`] | 0.45 ms, 5 blocks |
//! | To Gray | GPU | [`GREY`] | 1.87 ms, 6 blocks |
//! | Harris Tracker | GPU | [`CORNERS`] | 5.66 ms, 6 blocks |
//! | Image Pyramid | GPU | [`PYRAMID`] | 0.92 ms, 6 blocks |
//! | Optical Flow | GPU | [`FLOW`], of the corners of the frame before | 7.98 ms, 4 blocks |
//! | Homography | CPU | [`homography::estimate`] of [`homography::matches`] | 0.6 ms |
//! | Homography Filter | CPU | [`filter::filtered`] | microseconds |
//! | Smooth Homography | CPU, DSP | [`smooth::Window`], and [`smooth::FILTER`] in between | 15 us, 0.12 ms in one block |
//! | Warp Perspective | GPU | [`WARP`], of the frame that came [`smooth::DELAY`] frames before | 9.12 ms, 4 blocks |
//! | Display | CPU | takes the stabilised frame; [`digest`] tells frames apart | |
//!
//! Times of devices are those of the kernels, without 40 us of setup for each launch: 26.0 ms a frame on the GPU. Times of CPUs were
//! measured in QEMU, where an instruction takes a nanosecond.
//!
//! Each node is a pure piece: it has its inputs as arguments and returns its outputs. [`pipeline::Pipeline`] puts all together, as plain functions, and so
//! computes the results that a graph of tasks has to. Devices compute with integers. CPUs compute with `f64` and the four basic operations alone. So
//! a board and the host compute the same bits.
//!
//! # Data
//!
//! A frame has [`WIDTH`] x [`HEIGHT`] pixels. The table has the objects that nodes hand on, the bytes of each, and how many of them a stream needs. If each begins
//! at a page of 4 KiB, all have 110 pages.
//!
//! | Object | Bytes | How many |
//! |---|---|---|
//! | colour frame as it is read | [`COLOUR_BYTES`], 36,864 | 1 |
//! | copy, until it is warped | 36,864 | [`smooth::DELAY`] + 1, which are 8 |
//! | grey frame | [`GREY_BYTES`], 12,288 | 1 |
//! | pyramid | [`PYRAMID_BYTES`], 16,128 | 2: this frame's, and the one before |
//! | corners | [`CORNERS_BYTES`], 576 | 2, as well |
//! | tracks | 576 | 1 |
//! | estimated homography | 80, [`homography::Estimate::bytes`] | 1 |
//! | filtered homography | 72, [`Matrix::bytes`] | 1 |
//! | signal for the DSP; its weights; the filtered signal | 240; 30; 212 | 1 |
//! | matrix of the warp | 36, nine `i32` | 1 |
//! | stabilised frame | 36,864 | 1 |
//!
//! Not here: tasks, their periods and their buffers.
//! Source of the graph: Elliott 2015, section 5.5.1 and table 5.1.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod filter;
pub mod homography;
pub mod matrix;
pub mod pipeline;
pub mod smooth;
pub mod source;
mod window;

pub use matrix::Matrix;

use vision_kernels::{Corners, Duplicate, Flow, Grey, Pyramid, Warp};

/// Pixels of a row of a frame.
pub const WIDTH: usize = 128;
/// Rows of a frame.
pub const HEIGHT: usize = 96;
/// Frames a second.
pub const RATE: u32 = 30;

/// Bytes of a colour frame.
pub const COLOUR_BYTES: usize = 3 * GREY_BYTES;
/// Bytes of a grey one.
pub const GREY_BYTES: usize = WIDTH * HEIGHT;
/// Levels of a pyramid.
pub const LEVELS: u8 = 3;
/// Bytes of a pyramid.
pub const PYRAMID_BYTES: usize = GREY_BYTES + GREY_BYTES / 4 + GREY_BYTES / 16;
/// Number of cells of a frame. Each cell has one detected corner, or none.
pub const CELLS: usize = (WIDTH / CELL) * (HEIGHT / CELL);
/// Bytes of the corners of a frame; and of tracks.
pub const CORNERS_BYTES: usize = 3 * 4 * CELLS;

/// Pixels of a side of a cell.
const CELL: usize = 16;
const SIDES: (u16, u16) = (WIDTH as u16, HEIGHT as u16);

/// The kernel of node Duplicate Colour. Views: the frame, the copy.
pub const DUPLICATE: Duplicate = Duplicate { bytes: COLOUR_BYTES as u32 };
/// The kernel of node To Gray. Views: the frame, the grey frame.
pub const GREY: Grey = Grey { pixels: GREY_BYTES as u32 };
/// The kernel of node Harris Tracker. Views: the grey frame, the corners. Each corner has the window of a flow within the frame.
pub const CORNERS: Corners = Corners { width: SIDES.0, height: SIDES.1, cell: CELL as u8, margin: 6 };
/// The kernel of node Image Pyramid. Views: the grey frame, the pyramid.
pub const PYRAMID: Pyramid = Pyramid { width: SIDES.0, height: SIDES.1, levels: LEVELS };
/// The kernel of node Optical Flow. Views: pyramid of the frame before, pyramid of the frame, corners of the frame before, tracks.
pub const FLOW: Flow = Flow { width: SIDES.0, height: SIDES.1, levels: LEVELS, count: CELLS as u16 };
/// The kernel of node Warp Perspective. Views: the copy, the matrix of the warp, the stabilised frame.
pub const WARP: Warp = Warp { width: SIDES.0, height: SIDES.1 };

/// A number that tells frames apart (FNV-1a, 32 bits).
#[must_use]
pub fn digest(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::{Kernel, Views};
    use std::vec;
    use std::vec::Vec;

    /// Bytes and nanoseconds of each kernel's launch.
    fn said<K: Kernel>(kernel: &K) -> (Vec<usize>, u64, u32) {
        assert!(kernel.is_valid(), "{}", K::NAME);
        let each = <K::Views<'static> as Views<'static>>::EACH;
        let bytes =
            kernel.elements().as_ref().iter().zip(each).map(|(elements, (_, bytes))| elements * bytes).collect();
        (bytes, kernel.time(0..kernel.blocks()), kernel.blocks())
    }

    #[test]
    fn the_published_sizes_and_times_hold() {
        assert_eq!(said(&DUPLICATE), (vec![36_864, 36_864], 448_640, 5));
        assert_eq!(said(&GREY), (vec![36_864, 12_288], 1_865_472, 6));
        assert_eq!(said(&CORNERS), (vec![12_288, 576], 5_663_232, 6));
        assert_eq!(said(&PYRAMID), (vec![12_288, 16_128], 924_672, 6));
        assert_eq!(said(&FLOW), (vec![16_128, 16_128, 576, 576], 7_977_216, 4));
        assert_eq!(said(&WARP), (vec![36_864, 36, 36_864], 9_119_232, 4));
        assert_eq!(said(&smooth::FILTER), (vec![240, 30, 212], 117_024, 1));
        assert_eq!((COLOUR_BYTES, GREY_BYTES, PYRAMID_BYTES, CORNERS_BYTES), (36_864, 12_288, 16_128, 576));
    }
}
