//! The common part of the demo's tasks and the host: the camera, its shaking, and the places of data.
//!
//! The camera is a window on a photograph (`scene.png`: a photographer at work, by Lav Varshney, given to
//! the public under CC0; it comes with scikit-image as `data.camera`). Its shaking is pseudo-random but known,
//! so that the host can check the displacements that the stabiliser recovers; its sensor adds noise.
//!
//! The host renders the same frames with the same functions and moves them back by the *true* displacement:
//! the GPU's findings must give the same bytes.
#![no_std]
#![forbid(unsafe_code)]

pub mod vibration;
pub mod window;

use fusee::Nanoseconds;
pub use window::{HEIGHT, SHAKE, WIDTH};
use window::{SCENE_HEIGHT, SCENE_WIDTH};

/// How often an operation of a device is done again that did not end well, because its driver has begun another life,
pub const AGAIN: u32 = 1_000;
/// and the pause between two tries.
pub const PAUSE: Nanoseconds = Nanoseconds(200_000);

/// Bytes of a frame, one for each pixel.
pub const FRAME_BYTES: usize = WIDTH * HEIGHT;

static SCENE: &[u8; SCENE_WIDTH * SCENE_HEIGHT] = include_bytes!(concat!(env!("OUT_DIR"), "/scene.raw"));

/// How far the window is from its resting place in frame `frame`: x to the right, y down, in pixels.
/// The first frame is at rest.
#[must_use]
pub fn shake(frame: u32) -> (i32, i32) {
    if frame == 0 {
        return (0, 0);
    }
    let random = scramble(u64::from(frame));
    let range = 2 * SHAKE as u64 + 1;
    ((random % range) as i32 - SHAKE as i32, ((random >> 32) % range) as i32 - SHAKE as i32)
}

/// Renders row `y` of frame `frame`: the scene in the shaken window, with noise of -1 to 2 grey levels.
pub fn render_row(frame: u32, y: usize, row: &mut [u8; WIDTH]) {
    let (dx, dy) = shake(frame);
    let top = (SHAKE + y).saturating_add_signed(dy as isize);
    let left = SHAKE.saturating_add_signed(dx as isize);
    let start = top * SCENE_WIDTH + left;
    let source = &SCENE[start..start + WIDTH];
    let mut seed = scramble(u64::from(frame) << 16 | y as u64);
    for (pixels, source) in row.chunks_exact_mut(8).zip(source.chunks_exact(8)) {
        seed = scramble(seed);
        for ((pixel, source), noise) in pixels.iter_mut().zip(source).zip(seed.to_le_bytes()) {
            *pixel = source.saturating_add(noise & 3).saturating_sub(1);
        }
    }
}

/// One step of a xorshift generator, on a scrambled seed.
fn scramble(seed: u64) -> u64 {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03;
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    word
}

/// Where data lies in the stabiliser's buffer, which camera and device share with it.
pub mod buffer {
    use super::FRAME_BYTES;

    /// Frames from the camera, used in turn.
    pub const SLOTS: u32 = 2;

    /// Offset of the slot of frame `frame`.
    #[must_use]
    pub const fn slot(frame: u32) -> usize {
        (frame % SLOTS) as usize * FRAME_BYTES
    }

    /// Offset of the stabilised frame.
    pub const STABILISED: usize = SLOTS as usize * FRAME_BYTES;
    /// Offset of the match result.
    pub const RESULT: usize = STABILISED + FRAME_BYTES;
    /// Offset of the word that counts frames the camera has delivered.
    pub const DELIVERED: usize = RESULT + 4096;
}

/// The stabiliser's record, which the host reads after the run.
pub mod record {
    use super::FRAME_BYTES;

    /// Bytes of one frame's entry: processed (1 or 0), x and y displacement, zero; 32 bits each.
    pub const ENTRY_BYTES: usize = 16;
    /// Frames the record has room for.
    pub const FRAMES: usize = 96;

    /// Offset of the entry of frame `frame`.
    #[must_use]
    pub const fn entry(frame: usize) -> usize {
        frame * ENTRY_BYTES
    }

    /// Offset of the stabilised frame `frame`.
    #[must_use]
    pub const fn frame(frame: usize) -> usize {
        4096 + frame * FRAME_BYTES
    }

    /// Bytes of the whole record.
    pub const BYTES: usize = frame(FRAMES);
}

const _: () = assert!(record::FRAMES * record::ENTRY_BYTES <= 4096);
