//! Kernels of lane detection, in fixed point: the part of the GPU.
//!
//! | Kernel | Makes of | |
//! |---|---|---|
//! | [`Straighten`] | the camera's picture | the picture of a lens without distortion |
//! | [`Birdseye`] | that | the road from above |
//! | [`Marks`] | that | for each cell, how much it looks like a mark of a lane |
//! | [`Fit`] | both | the lane as a parabola, and the distance of an obstacle |
//!
//! A picture has a byte for each pixel, row by row without gaps, the upper left one first. The road from above has a byte for each cell, row by row,
//! the nearest row first and the leftmost cell first; see [`calibration`].
//!
//! All arithmetic is on integers, so a device and the plain function compute the same bits. Blocks run in any order.
//!
//! # Times
//!
//! Each is a bound for any picture. An emulated engine executes one instruction in a nanosecond, and may execute an eighth of a kernel's time in
//! instructions.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod birdseye;
pub mod calibration;
mod fit;
mod marks;
mod straighten;

pub use birdseye::Birdseye;
pub use fit::{Fit, LANE_WORDS};
pub use marks::Marks;
pub use straighten::Straighten;

use fusee_compute::{Entry, table};

/// All of them.
pub const KERNELS: &[Entry] =
    &table([Entry::of::<Straighten>(), Entry::of::<Birdseye>(), Entry::of::<Marks>(), Entry::of::<Fit>()]);

/// Elements at a multiple of eight bytes, as views are: so they are moved word by word.
#[repr(align(8))]
struct Aligned<T>(T);

/// Bits after the point of a place between pixels.
const PLACE_BITS: u32 = 8;

/// The level between four pixels, two above two, at so many 1/256 pixels to the right and below.
#[inline(always)]
fn between([a, b, c, d]: [u8; 4], right: u32, below: u32) -> u8 {
    let [a, b, c, d] = [a, b, c, d].map(u32::from);
    let (above, under) = (a * (256 - right) + b * right, c * (256 - right) + d * right);
    ((above * (256 - below) + under * below + (1 << 15)) >> 16) as u8
}
