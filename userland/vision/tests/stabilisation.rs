//! Given ten seconds of a camera that pans, turns, zooms, tilts, shakes and is noisy,
//! when all nodes have done each frame,
//! then the homographies are near to the truth, little of the shaking is left, and each stabilised frame is that of exact arithmetic.
//!
//! The oracles share no code with the pipeline beyond the truth of the source. `--nocapture` shows the measured values.

use std::f64::consts::TAU;

use vision::filter::Verdict;
use vision::pipeline::{Pipeline, render};
use vision::{COLOUR_BYTES, HEIGHT, RATE, WIDTH, digest, source};

const FRAMES: u32 = 300;
/// The corners of a frame and its centre, in pixels.
const POINTS: [[f64; 2]; 5] = [[0.0, 0.0], [127.0, 0.0], [0.0, 95.0], [127.0, 95.0], [63.5, 47.5]];

type Numbers = [f64; 9];

/// Where a homography of normalised points takes a point in pixels, in normalised points.
fn project(h: &Numbers, [x, y]: [f64; 2]) -> [f64; 2] {
    let (x, y) = ((x - 63.5) / 64.0, (y - 47.5) / 64.0);
    let w = h[6] * x + h[7] * y + h[8];
    [(h[0] * x + h[1] * y + h[2]) / w, (h[3] * x + h[4] * y + h[5]) / w]
}

fn to_pixels([x, y]: [f64; 2]) -> [f64; 2] {
    [64.0 * x + 63.5, 64.0 * y + 47.5]
}

/// The point that a homography takes to `to`, all in pixels: its two equations are linear in it.
fn source_of(h: &Numbers, to: [f64; 2]) -> [f64; 2] {
    let [u, v] = [(to[0] - 63.5) / 64.0, (to[1] - 47.5) / 64.0];
    let (a, b, c) = (h[0] - u * h[6], h[1] - u * h[7], u * h[8] - h[2]);
    let (d, e, f) = (h[3] - v * h[6], h[4] - v * h[7], v * h[8] - h[5]);
    let determinant = a * e - b * d;
    to_pixels([(c * e - b * f) / determinant, (a * f - c * d) / determinant])
}

/// Largest difference between a stabilised frame and the result of exact arithmetic on the frame that was read, in grey levels.
fn warp_error(read: &[u8], correction: &Numbers, pixels: &[u8]) -> f64 {
    let level = |x: f64, y: f64, colour: usize| f64::from(read[(y as usize * WIDTH + x as usize) * 3 + colour]);
    let mut worst = 0.0_f64;
    for (at, pixel) in pixels.chunks_exact(3).enumerate() {
        let [u, v] = source_of(correction, [(at % WIDTH) as f64, (at / WIDTH) as f64]);
        let (u, v) = (u.clamp(0.0, WIDTH as f64 - 1.0), v.clamp(0.0, HEIGHT as f64 - 1.0));
        let (left, top) = (u.floor(), v.floor());
        let (right, bottom) = (u.ceil(), v.ceil());
        for (colour, pixel) in pixel.iter().enumerate() {
            let above = level(left, top, colour) * (1.0 - u + left) + level(right, top, colour) * (u - left);
            let below = level(left, bottom, colour) * (1.0 - u + left) + level(right, bottom, colour) * (u - left);
            let exact = above * (1.0 - v + top) + below * (v - top);
            worst = worst.max((f64::from(*pixel) - exact.round()).abs());
        }
    }
    worst
}

/// The energy of movements faster than 1 Hz.
fn fast(path: &[f64]) -> f64 {
    let count = path.len() as f64;
    let mean = path.iter().sum::<f64>() / count;
    let windowed: Vec<f64> = path
        .iter()
        .enumerate()
        .map(|(at, x)| (x - mean) * (0.5 - 0.5 * (TAU * (at as f64 + 0.5) / count).cos()))
        .collect();
    let first = (count / f64::from(RATE)).floor() as usize + 1;
    let bin = |k: usize| {
        let turn = |at: usize| TAU * (k * at) as f64 / count;
        let real: f64 = windowed.iter().enumerate().map(|(at, x)| x * turn(at).cos()).sum();
        let imaginary: f64 = windowed.iter().enumerate().map(|(at, x)| x * turn(at).sin()).sum();
        real * real + imaginary * imaginary
    };
    (first..=path.len() / 2).map(bin).sum()
}

#[derive(Default)]
struct Measured {
    /// The largest error of the four corners, in pixels, for each frame but the first, sorted.
    corners: Vec<f64>,
    /// The errors of these frames, if nothing had been estimated.
    moved: Vec<f64>,
    agreeing: Vec<usize>,
    verdicts: Vec<Verdict>,
    warp: f64,
    /// Energy of movements faster than 1 Hz, as read and as shown.
    energy: [f64; 2],
    digests: Vec<u32>,
}

fn stabilise() -> Measured {
    let mut measured = Measured::default();
    let mut pipeline = Box::new(Pipeline::new());
    let mut colour = [0; COLOUR_BYTES];
    // Where the points are in the photograph: for each coordinate, as read and as shown, frame by frame.
    let mut paths = vec![[Vec::new(), Vec::new()]; 2 * POINTS.len()];
    for frame in 0..FRAMES {
        render(frame, &mut colour);
        let step = pipeline.step(&colour);
        if frame > 0 {
            let [before, now] = [source::camera(frame - 1), source::camera(frame)];
            let (mut error, mut moved) = (0.0_f64, 0.0_f64);
            for corner in &POINTS[..4] {
                // The truth: the part of the photograph that the corner showed, and its place now.
                let truth = source_of(&now.0, to_pixels(project(&before.0, *corner)));
                let found = to_pixels(project(&step.motion.0, *corner));
                error = error.max((found[0] - truth[0]).hypot(found[1] - truth[1]));
                moved = moved.max((corner[0] - truth[0]).hypot(corner[1] - truth[1]));
            }
            measured.corners.push(error);
            measured.moved.push(moved);
            measured.agreeing.push(step.estimate.map_or(0, |estimate| estimate.agreeing));
            measured.verdicts.push(step.verdict);
        }
        let Some(shown) = step.shown else { continue };
        assert_eq!(shown.frame + 7, frame);
        measured.digests.push(digest(shown.pixels));
        measured.warp = measured.warp.max(warp_error(shown.read, &shown.correction.0, shown.pixels));
        let camera = source::camera(shown.frame);
        for (point, paths) in POINTS.iter().zip(paths.chunks_exact_mut(2)) {
            let (read, shown) =
                (project(&camera.0, *point), project(&camera.0, source_of(&shown.correction.0, *point)));
            for (axis, [as_read, as_shown]) in paths.iter_mut().enumerate() {
                as_read.push(read[axis]);
                as_shown.push(shown[axis]);
            }
        }
    }
    for path in &paths {
        (0..2).for_each(|of| measured.energy[of] += fast(&path[of]));
    }
    measured.corners.sort_by(f64::total_cmp);
    measured.moved.sort_by(f64::total_cmp);
    measured
}

#[test]
fn a_shaking_camera_is_made_smooth() {
    let measured = stabilise();
    let corners = &measured.corners;
    let (median, worst) = (corners[corners.len() / 2], corners[corners.len() - 1]);
    let left = (measured.energy[1] / measured.energy[0]).sqrt();
    let moved = &measured.moved;
    println!("{FRAMES} frames of {WIDTH} x {HEIGHT} at {RATE} Hz");
    println!(
        "corners move from frame to frame: median {:.3}, worst {:.3} pixel",
        moved[moved.len() / 2],
        moved[moved.len() - 1]
    );
    println!(
        "corner error of homographies: median {median:.3}, 90 % {:.3}, worst {worst:.3} pixel",
        corners[corners.len() * 9 / 10]
    );
    println!(
        "matches that agree: at least {:?}, at most {:?}",
        measured.agreeing.iter().min(),
        measured.agreeing.iter().max()
    );
    let kept = measured.verdicts.iter().filter(|verdict| **verdict == Verdict::Kept).count();
    println!("homographies kept as they were: {kept} of {}", measured.verdicts.len());
    println!("shake left above 1 Hz: {:.1} %", 100.0 * left);
    println!("warps differ from exact ones by at most {} grey level", measured.warp);
    let all = digest(&measured.digests.iter().flat_map(|digest| digest.to_le_bytes()).collect::<Vec<u8>>());
    println!("digest of {} stabilised frames: {all:08x}", measured.digests.len());

    assert!(median <= 0.3 && worst <= 1.0);
    assert!(left <= 0.4);
    assert!(measured.warp <= 1.0);
    assert!(stabilise().digests == measured.digests, "a second run shows other frames");
}
