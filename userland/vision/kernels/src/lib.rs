//! Kernels of video stabilisation, in fixed point: the part of the GPU.
//!
//! | Kernel | Makes of | |
//! |---|---|---|
//! | [`Duplicate`] | bytes | the same bytes |
//! | [`Grey`] | a colour picture | a grey one |
//! | [`Corners`] | a grey picture | the strongest Harris corner of each cell |
//! | [`Pyramid`] | a grey picture | the same at several resolutions |
//! | [`Flow`] | two pyramids and corners of the first | where each corner is in the second (Lucas and Kanade) |
//! | [`Warp`] | a colour picture and a matrix | the picture as another camera would see it |
//!
//! A grey picture has a byte for each pixel, row by row without gaps. A colour picture has three, red, green and blue, side by side: a pixel of a
//! [`Warp`] comes from four neighbours, and the place of each is then computed once for all three colours.
//! Pixel (0, 0) is at the upper left; x grows to the right, y downwards; a pixel's coordinates are those of its centre.
//!
//! All arithmetic is on integers, so a device and the plain function compute the same bits. Blocks run in any order.
//!
//! # Times
//!
//! Each is a bound for any picture. An emulated engine executes one instruction in a nanosecond, and may execute an eighth of a kernel's time in
//! instructions. The comment in front of each time says how many instructions that are.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod colour;
mod corners;
mod flow;
mod pyramid;
mod warp;

pub use colour::{Duplicate, Grey};
pub use corners::{CELL_MAX, CELL_MIN, Corner, Corners, MARGIN_MIN};
pub use flow::{COUNT_MAX, Flow, POSITION_BITS, Track};
pub use pyramid::{LEVELS_MAX, Pyramid};
pub use warp::{MATRIX_BITS, Warp};

use core::ops::Range;
use fusee_compute::{Entry, table};

/// All of them.
pub const KERNELS: &[Entry] = &table([
    Entry::of::<Duplicate>(),
    Entry::of::<Grey>(),
    Entry::of::<Corners>(),
    Entry::of::<Pyramid>(),
    Entry::of::<Flow>(),
    Entry::of::<Warp>(),
]);

/// Most pixels of a picture. A block has 60 KiB for the memory it works on, and a [`Warp`] has a whole colour picture there.
pub const PIXELS_MAX: usize = 128 * 96;
/// Most pixels of a row, and most rows.
pub const SIDE_MAX: u16 = 256;

/// Elements at a multiple of eight bytes, as views are: so they are moved word by word.
#[repr(align(8))]
struct Aligned<T>(T);

/// Width and height of a picture, in pixels.
#[derive(Clone, Copy)]
struct Size {
    width: usize,
    height: usize,
}

impl Size {
    fn new(width: u16, height: u16) -> Self {
        Self { width: width.into(), height: height.into() }
    }

    fn pixels(self) -> usize {
        self.width * self.height
    }

    fn is_valid(self) -> bool {
        let side = 1..=usize::from(SIDE_MAX);
        side.contains(&self.width) && side.contains(&self.height) && self.pixels() <= PIXELS_MAX
    }

    /// The rows of blocks of `rows` rows each.
    fn rows(self, rows: usize, blocks: Range<u32>) -> Range<usize> {
        let row = |block: u32| (block as usize * rows).min(self.height);
        row(blocks.start)..row(blocks.end)
    }
}
