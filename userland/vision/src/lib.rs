//! Video stabilisation as a graph of eleven nodes: a camera that shakes is made to move smoothly.
//!
//! | Node | Runs on | Is |
//! |---|---|---|
//! | Read Frame | CPU | [`source::render_row`] |
//! | Duplicate Colour | GPU | [`COPY`] |
//! | To Gray | GPU | [`GREY`] |
//! | Harris Tracker | GPU | [`CORNERS`] |
//! | Image Pyramid | GPU | [`PYRAMID`] |
//! | Optical Flow | GPU | [`FLOW`], of the corners of the frame before |
//! | Homography | CPU | [`homography::estimate`] of [`homography::matches`] |
//! | Homography Filter | CPU | [`filter::filtered`] |
//! | Smooth Homography | CPU and DSP | [`smooth::Window`], and [`smooth::FILTER`] in between |
//! | Warp Perspective | GPU | [`WARP`], of the frame that came [`smooth::DELAY`] frames before |
//! | Display | CPU | takes the stabilised frame; [`digest`] tells frames apart |
//!
//! Each node is a pure piece: it has its inputs as arguments and returns its outputs. [`pipeline::Pipeline`] puts them together, as plain functions, and so
//! computes what a graph of tasks has to. Numbers are integers on devices, and `f64` on CPUs without any function but the four basic operations: so
//! a board and the host compute the same bits.
//!
//! # Data
//!
//! A frame has [`WIDTH`] x [`HEIGHT`] pixels. The table says how many bytes the objects have that nodes hand on, and how many of each a stream needs.
//!
//! | Object | Bytes | How many |
//! |---|---|---|
//! | colour frame as it is read | [`COLOUR_BYTES`] = 36,864 | 1 |
//! | copy, until it is warped | 36,864 | [`smooth::DELAY`] + 1 = 8 |
//! | grey frame | [`GREY_BYTES`] = 12,288 | 1 |
//! | pyramid | [`PYRAMID_BYTES`] = 16,128 | 2: this frame's, and the one before |
//! | corners | [`CORNERS_BYTES`] = 576 | 2, as well |
//! | tracks | 576 | 1 |
//! | homography | 72, nine `f64` | 1 from each node |
//! | window of motions, for the DSP; its weights; what it makes of them | 240, 30, 212 | 1 |
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

use vision_kernels::{Copy, Corners, Flow, Grey, Pyramid, Warp};

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
/// Cells of a frame, each of which has a corner or none.
pub const CELLS: usize = (WIDTH / CELL) * (HEIGHT / CELL);
/// Bytes of the corners of a frame; and of tracks.
pub const CORNERS_BYTES: usize = 3 * 4 * CELLS;

/// Pixels of a side of a cell.
const CELL: usize = 16;
const SIDES: (u16, u16) = (WIDTH as u16, HEIGHT as u16);

/// What node Duplicate Colour launches. Views: the frame, the copy.
pub const COPY: Copy = Copy { bytes: COLOUR_BYTES as u32 };
/// What node To Gray launches. Views: the frame, the grey frame.
pub const GREY: Grey = Grey { pixels: GREY_BYTES as u32 };
/// What node Harris Tracker launches. Views: the grey frame, the corners. Each corner has the window of a flow within the frame.
pub const CORNERS: Corners = Corners { width: SIDES.0, height: SIDES.1, cell: CELL as u8, margin: 6 };
/// What node Image Pyramid launches. Views: the grey frame, the pyramid.
pub const PYRAMID: Pyramid = Pyramid { width: SIDES.0, height: SIDES.1, levels: LEVELS };
/// What node Optical Flow launches. Views: pyramid of the frame before, pyramid of the frame, corners of the frame before, tracks.
pub const FLOW: Flow = Flow { width: SIDES.0, height: SIDES.1, levels: LEVELS, count: CELLS as u16 };
/// What node Warp Perspective launches. Views: the copy, the matrix of the warp, the stabilised frame.
pub const WARP: Warp = Warp { width: SIDES.0, height: SIDES.1 };

/// A number that tells frames apart (FNV-1a, 32 bits).
#[must_use]
pub fn digest(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::Kernel;

    #[test]
    fn the_published_sizes_and_times_hold() {
        fn time<K: Kernel>(kernel: &K) -> u64 {
            assert!(kernel.is_valid(), "{}", K::NAME);
            kernel.time(0..kernel.blocks())
        }
        std::println!(
            "{:?}",
            [time(&COPY), time(&GREY), time(&CORNERS), time(&PYRAMID), time(&FLOW), time(&WARP), time(&smooth::FILTER)]
        );
        std::println!(
            "{:?}",
            [
                COPY.blocks(),
                GREY.blocks(),
                CORNERS.blocks(),
                PYRAMID.blocks(),
                FLOW.blocks(),
                WARP.blocks(),
                smooth::FILTER.blocks()
            ]
        );
    }
}
