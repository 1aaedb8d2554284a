//! Read Frame: a camera that shakes, and the truth about it.
//!
//! The camera looks at a photograph (`scene.png` of the demo: a photographer at work, by Lav Varshney, given to the public under CC0). It pans,
//! turns, zooms and tilts slowly; it shakes, at 2.3 Hz and above; and its sensor adds noise. The photograph is grey, so it is tinted by place. All is
//! a function of the number of the frame, without end.

use crate::matrix::{UNIT, normalised};
use crate::window::{SCENE_HEIGHT, SCENE_WIDTH};
use crate::{Matrix, RATE, WIDTH};

static SCENE: &[u8; SCENE_WIDTH * SCENE_HEIGHT] = include_bytes!(concat!(env!("OUT_DIR"), "/scene.raw"));

/// Pixels of the photograph that a pixel of a frame is wide.
const SCALE: f64 = 0.8;
/// Bits after the point of a place between pixels of the photograph.
const PLACE_BITS: u32 = 8;

/// A movement as a sum of waves, each with its amplitude and its frequency in Hz, and of a jitter, which is another in each frame.
struct Movement {
    slow: (f64, f64),
    shake: [(f64, f64); 3],
    jitter: f64,
}

/// To the right and down, in pixels of a frame; the turn, in radians; the zoom; the parts of perspective.
const MOVEMENTS: [Movement; 6] = [
    Movement { slow: (30.0, 0.05), shake: [(3.5, 2.3), (2.0, 4.1), (0.8, 7.3)], jitter: 0.3 },
    Movement { slow: (18.0, 0.07), shake: [(3.0, 2.6), (1.5, 4.7), (0.8, 8.1)], jitter: 0.3 },
    Movement { slow: (0.04, 0.06), shake: [(0.012, 2.9), (0.006, 5.3), (0.002, 6.7)], jitter: 0.001 },
    Movement { slow: (0.06, 0.04), shake: [(0.006, 3.1), (0.003, 5.9), (0.001, 7.9)], jitter: 0.001 },
    Movement { slow: (0.01, 0.05), shake: [(0.002, 2.4), (0.001, 4.3), (0.0, 0.0)], jitter: 0.0 },
    Movement { slow: (0.01, 0.06), shake: [(0.002, 2.7), (0.001, 3.7), (0.0, 0.0)], jitter: 0.0 },
];

impl Movement {
    fn at(&self, frame: u32, number: usize) -> f64 {
        // Turns of a wave: the first frame is somewhere in each.
        let phase = |at: usize| (number * 5 + at) as f64 * 0.137;
        let wave = |at: usize, (amplitude, frequency): (f64, f64)| {
            amplitude * sine(f64::from(frame) * frequency / f64::from(RATE) + phase(at))
        };
        let shake: f64 = self.shake.iter().enumerate().map(|(at, of)| wave(at, *of)).sum();
        let random = scramble(u64::from(frame) << 8 | number as u64) >> 11;
        let jitter = self.jitter * (random as f64 / (1_u64 << 52) as f64 - 1.0);
        wave(3, self.slow) + shake + jitter
    }
}

/// The place of a point of frame `frame` in the photograph: from normalised points to pixels of the part that the camera can see.
#[must_use]
pub fn camera(frame: u32) -> Matrix {
    let [right, down, turn, zoom, g, h] = core::array::from_fn(|number| MOVEMENTS[number].at(frame, number));
    let size = SCALE * UNIT * (1.0 + zoom);
    let turns = turn / TURN;
    let (a, b) = (size * sine(turns + 0.25), size * sine(turns));
    let (x, y) = (SCENE_WIDTH as f64 / 2.0 + SCALE * right, SCENE_HEIGHT as f64 / 2.0 + SCALE * down);
    Matrix([a + x * g, x * h - b, x, b + y * g, a + y * h, y, g, h, 1.0])
}

/// The true homography from the frame before `frame` to it, normalised. Of frame 0, the identity.
#[must_use]
pub fn motion(frame: u32) -> Matrix {
    frame.checked_sub(1).map_or(Matrix::IDENTITY, |before| camera(frame).inverse().after(&camera(before)))
}

/// Renders row `y` of a frame, given its [`camera`], red, green and blue for each pixel.
pub fn render_row(frame: u32, camera: &Matrix, y: usize, row: &mut [u8; 3 * WIDTH]) {
    let h = &camera.0;
    let [left, y_there] = normalised([0.0, y as f64]);
    let mut place: [f64; 3] = core::array::from_fn(|at| h[3 * at] * left + h[3 * at + 1] * y_there + h[3 * at + 2]);
    let mut seed = scramble(u64::from(frame) << 16 | y as u64);
    for pixel in row.as_chunks_mut().0 {
        let scale = f64::from(1 << PLACE_BITS) / place[2];
        *pixel = scene((place[0] * scale) as i32, (place[1] * scale) as i32);
        seed = scramble(seed);
        for (colour, noise) in pixel.iter_mut().zip(seed.to_le_bytes()) {
            // From -3 to 3, and rather little.
            *colour = colour.saturating_add((noise & 3) + (noise >> 2 & 3)).saturating_sub(3);
        }
        (0..3).for_each(|at| place[at] += h[3 * at] / UNIT);
    }
}

/// The scene at a place, in 1/256 pixels: the photograph between its pixels, redder to the right, bluer to the left, less green at the top.
fn scene(x: i32, y: i32) -> [u8; 3] {
    let inside = |place: i32, side: usize| place.clamp(0, ((side as i32 - 1) << PLACE_BITS) - 1);
    let (x, y) = (inside(x, SCENE_WIDTH), inside(y, SCENE_HEIGHT));
    let (column, row) = ((x >> PLACE_BITS) as usize, (y >> PLACE_BITS) as usize);
    let (u, v) = (x & 255, y & 255);
    let pair = |row: usize| {
        let [left, right] = [0, 1].map(|at| i32::from(SCENE[row * SCENE_WIDTH + column + at]));
        (left << PLACE_BITS) + (right - left) * u
    };
    let (above, below) = (pair(row), pair(row + 1));
    let grey = ((above << PLACE_BITS) + (below - above) * v) >> PLACE_BITS;
    // 0 to 64 over the scene.
    let (right, down) = ((x >> 2) / SCENE_WIDTH as i32, (y >> 2) / SCENE_HEIGHT as i32);
    [192 + right, 192 + down, 256 - right].map(|tint| ((grey * tint + (1 << 15)) >> 16) as u8)
}

//--- Numbers

const TURN: f64 = core::f64::consts::TAU;

/// The sine of so many turns, not less than -1. Right to 9 digits.
fn sine(turns: f64) -> f64 {
    let turns = turns + 1.0;
    let turns = turns - (turns as u32) as f64;
    // From -1/4 to 1/4 turn: where the sine is the same.
    let near = if turns < 0.25 {
        turns
    } else if turns < 0.75 {
        0.5 - turns
    } else {
        turns - 1.0
    };
    let angle = near * TURN;
    let square = angle * angle;
    // Taylor's series, from its last term on.
    let terms = [156.0, 110.0, 72.0, 42.0, 20.0, 6.0];
    angle * terms.iter().fold(1.0, |sum, divisor| 1.0 - square / divisor * sum)
}

/// One step of a xorshift generator, on a scrambled seed.
fn scramble(seed: u64) -> u64 {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03;
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HEIGHT;
    use crate::matrix::corners;

    #[test]
    fn a_sine_is_one() {
        for at in -900..100_000 {
            let turns = f64::from(at) / 997.0;
            assert!((sine(turns) - (TURN * turns).sin()).abs() < 1e-8, "{turns}");
        }
    }

    /// Or the pixels at its border would be wrong.
    #[test]
    fn the_camera_never_sees_the_end_of_the_scene() {
        for frame in 0..20_000 {
            for corner in corners() {
                let [x, y] = camera(frame).apply(corner);
                assert!(
                    (0.0..SCENE_WIDTH as f64 - 1.0).contains(&x) && (0.0..SCENE_HEIGHT as f64 - 1.0).contains(&y),
                    "{frame}: {x} {y}"
                );
            }
        }
    }

    /// A frame has the scene where the camera says, next to any other, and little noise.
    #[test]
    fn a_frame_shows_the_scene_where_the_camera_looks() {
        for frame in [0, 77, 5_000] {
            let camera = camera(frame);
            let (mut sum, mut row) = (0.0, [0; 3 * WIDTH]);
            for y in 0..HEIGHT {
                render_row(frame, &camera, y, &mut row);
                for (x, pixel) in row.as_chunks::<3>().0.iter().enumerate() {
                    let [u, v] = camera.apply(normalised([x as f64, y as f64]));
                    let level =
                        |dx: usize, dy: usize| f64::from(SCENE[(v as usize + dy) * SCENE_WIDTH + u as usize + dx]);
                    let mix = |dy| level(0, dy) + u.fract() * (level(1, dy) - level(0, dy));
                    let grey = mix(0) + v.fract() * (mix(1) - mix(0));
                    let tints = [
                        0.75 + u / 4.0 / SCENE_WIDTH as f64,
                        0.75 + v / 4.0 / SCENE_HEIGHT as f64,
                        1.0 - u / 4.0 / SCENE_WIDTH as f64,
                    ];
                    for (colour, tint) in pixel.iter().zip(tints) {
                        let error = f64::from(*colour) - grey * tint;
                        assert!(error.abs() < 6.0, "{error} at {x}, {y}");
                        sum += error;
                    }
                }
            }
            assert!((sum / (3 * WIDTH * HEIGHT) as f64).abs() < 0.5, "noise is even");
        }
    }
}
