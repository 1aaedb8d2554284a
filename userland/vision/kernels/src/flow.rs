//! Optical flow: where corners of one picture are in the next. Source: Lucas and Kanade 1981, by a pyramid as Bouguet 2001.

use core::array::from_fn;
use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::{Aligned, Corner, PIXELS_MAX, Pyramid};

/// Most corners.
pub const COUNT_MAX: u16 = 256;
/// Bits after the point of positions: they are in 1/1,024 pixels.
pub const POSITION_BITS: u32 = 10;

/// Nanoseconds of each corner and level, whether it is found or not: 8 ms for 48 corners and 3 levels of 128 x 96, with all that follows. 5,500
/// instructions at the border of a picture of noise, 4,500 elsewhere.
const FLOW_LEVEL: u64 = 45_000;
/// Nanoseconds of each corner besides: the last level has a step more, and a last look. 1,800 instructions.
const FLOW_CORNER: u64 = 15_000;
/// Nanoseconds of each block for each pixel of the picture: both pyramids are read. 0.8 instructions.
const FLOW_PIXEL: u64 = 8;
/// Nanoseconds of each block besides. 11,000 instructions: its memory is cleared.
const FLOW_BLOCK: u64 = 96_000;

/// Corners of a block.
const BLOCK: usize = 12;
/// Most pixels of a pyramid, which has less than 4/3 of those of its picture.
const PYRAMID_MAX: usize = PIXELS_MAX + PIXELS_MAX / 3;

/// Pixels of the window on each side of its centre.
const RADIUS: i32 = 3;
/// Pixels of a side of the window.
const WINDOW: usize = 2 * RADIUS as usize + 1;
/// Steps towards the place at the finest level.
const STEPS: usize = 3;
/// Steps at other levels: a pixel of theirs is two of the next, so they need not be exact.
const COARSE_STEPS: usize = 2;
/// A step that is no longer ends the search at a level: 1/128 pixel.
const SHORT: i64 = 1 << (POSITION_BITS - 7);
/// Longest step: the window's radius.
const LONG: i64 = (RADIUS as i64) << POSITION_BITS;
const ONE: i32 = 1 << POSITION_BITS;

/// Bits after the point of grey levels between pixels.
const LEVEL_BITS: u32 = 4;
/// The smaller eigenvalue of the sums of products of slopes is at least that: as of a slope of one grey level a pixel. Noise of one grey level has half of it.
const TEXTURE: i64 = (WINDOW * WINDOW) as i64 * (2 << LEVEL_BITS) * (2 << LEVEL_BITS);

/// Where a corner was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Track {
    /// Place in the second picture, in 1/1,024 pixels.
    pub x: i32,
    /// The row of the corner.
    pub y: i32,
    /// Mean absolute difference of both windows, in 1/16 grey level; negative: the corner was not found.
    pub difference: i32,
}

impl Track {
    /// The track of a corner that was not found.
    pub const LOST: Self = Self { x: 0, y: 0, difference: -1 };

    /// As it stands in memory.
    #[must_use]
    pub const fn words(&self) -> [i32; 3] {
        [self.x, self.y, self.difference]
    }

    /// Read from memory: all words are one.
    #[must_use]
    pub const fn of([x, y, difference]: [i32; 3]) -> Self {
        Self { x, y, difference }
    }
}

arguments! {
    /// Finds where corners of one picture are in the next. At each level, from the coarsest on, up to two steps, at the last three, lead to the place where a window of 7 x 7
    /// pixels differs least in squares.
    ///
    /// A corner is not found if it is none ([`Corner::default`]) or lies outside the picture; if its window has no texture in some direction; or if its
    /// place would be outside the second picture. Views: the [`Pyramid`] of the first picture; that of the second; the [`Corner`]s, three words each; a
    /// [`Track`] for each, three words.
    pub struct Flow {
        /// Pixels of a row, as of a [`Pyramid`].
        pub width: u16,
        /// Rows.
        pub height: u16,
        /// Levels.
        pub levels: u8,
        /// Corners, 1 to [`COUNT_MAX`].
        pub count: u16,
    }
}

impl Flow {
    fn pyramid(self) -> Pyramid {
        Pyramid { width: self.width, height: self.height, levels: self.levels }
    }

    /// The corners of some blocks.
    fn corners(self, blocks: Range<u32>) -> Range<usize> {
        let at = |block: u32| (block as usize * BLOCK).min(self.count.into());
        at(blocks.start)..at(blocks.end)
    }
}

impl Kernel for Flow {
    const NAME: &'static str = "vision flow";
    type Views<'m> = (Input<'m, u8>, Input<'m, u8>, Input<'m, i32>, Output<'m, i32>);

    fn is_valid(&self) -> bool {
        self.pyramid().is_valid() && (1..=COUNT_MAX).contains(&self.count)
    }

    fn elements(&self) -> [usize; 4] {
        let bytes = self.pyramid().offset(self.levels);
        [bytes, bytes, 3 * usize::from(self.count), 3 * usize::from(self.count)]
    }

    fn blocks(&self) -> u32 {
        u32::from(self.count).div_ceil(BLOCK as u32)
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        let pixels = u64::from(self.width) * u64::from(self.height);
        let corners = self.corners(blocks.clone()).len() as u64;
        let count = u64::from(blocks.end - blocks.start);
        count * (FLOW_BLOCK + pixels * FLOW_PIXEL) + corners * (u64::from(self.levels) * FLOW_LEVEL + FLOW_CORNER)
    }

    fn block(&self, block: u32, (first, second, corners, tracks): Self::Views<'_>) {
        let mut pixels = [const { Aligned([0; PYRAMID_MAX]) }; 2];
        for (pixels, view) in pixels.iter_mut().zip([first, second]) {
            view.load(0, &mut pixels.0[..self.elements()[0]]);
        }
        let part = self.corners(block..block + 1);
        let mut words = Aligned([[0; 3]; BLOCK]);
        let words = &mut words.0[..part.len()];
        corners.load(3 * part.start, words.as_flattened_mut());
        for words in words.iter_mut() {
            *words = self
                .track(&pixels.each_ref().map(|pixels| &pixels.0[..]), Corner::of(*words))
                .unwrap_or(Track::LOST)
                .words();
        }
        tracks.store(3 * part.start, words.as_flattened());
    }
}

impl Flow {
    fn track(self, pyramids: &[&[u8]; 2], corner: Corner) -> Option<Track> {
        let sides = [i32::from(self.width), i32::from(self.height)];
        let place = [corner.x, corner.y];
        if corner.response <= 0 || (0..2).any(|axis| !(0..sides[axis]).contains(&place[axis])) {
            return None;
        }
        let mut flow = [0; 2];
        let mut difference = None;
        for level in (0..self.levels).rev() {
            let (offset, sides) = (self.pyramid().offset(level), self.pyramid().sides(level));
            let [one, other] = pyramids.map(|all| Level { pixels: &all[offset..], sides });
            // The centre of the same place: see `Pyramid`.
            let place = place.map(|at| (((2 * at + 1) * ONE) >> (level + 1)) - ONE / 2);
            flow = flow.map(|part| 2 * part);
            let template = Template::of(&one, place);
            // Where a level has no texture it says nothing, and the finest has to.
            let Some(solver) = template.solver() else { continue };
            let steps = if level == 0 { STEPS } else { COARSE_STEPS };
            template.search(&other, place, &mut flow, (&solver, steps));
            if level == 0 {
                difference = Some(template.difference(&other, from_fn(|axis| place[axis] + flow[axis])));
            }
        }
        let found: [i32; 2] = from_fn(|axis| place[axis] * ONE + flow[axis]);
        let is_inside = (0..2).all(|axis| (0..=(sides[axis] - 1) * ONE).contains(&found[axis]));
        difference.filter(|_| is_inside).map(|difference| Track { x: found[0], y: found[1], difference })
    }
}

/// A picture of a pyramid.
struct Level<'a> {
    pixels: &'a [u8],
    sides: [usize; 2],
}

impl Level<'_> {
    /// `N` x `N` pixels, of which the upper left is `radius` to the left of a place and above it. Pixels beyond the border equal the border: they are
    /// written to `copy`.
    #[inline(always)]
    fn around<'a, const N: usize>(
        &'a self,
        place: [i32; 2],
        radius: i32,
        copy: &'a mut [[u8; N]; N],
    ) -> [&'a [u8; N]; N] {
        let [x, y] = place.map(|at| (at >> POSITION_BITS) - radius);
        let [width, height] = self.sides;
        let whole = |row: usize| {
            let (x, y) = (usize::try_from(x).ok()?, usize::try_from(y).ok()? + row);
            if x + N > width || y >= height { None } else { self.pixels.get(y * width + x..)?.first_chunk() }
        };
        if let (Some(_), Some(_)) = (whole(0), whole(N - 1)) {
            return from_fn(|row| whole(row).unwrap_or(&[0; N]));
        }
        self.copy(x, y, copy);
        copy.each_ref()
    }

    /// Copies `N` x `N` pixels from (x, y) on, by coordinates moved into the picture.
    #[inline(never)]
    fn copy<const N: usize>(&self, x: i32, y: i32, to: &mut [[u8; N]; N]) {
        let [width, height] = self.sides;
        let inside = |at: i32, side: usize| at.clamp(0, side as i32 - 1) as usize;
        let columns: [usize; N] = from_fn(|column| inside(x + column as i32, width));
        for (row, to) in to.iter_mut().enumerate() {
            let line = &self.pixels[inside(y + row as i32, height) * width..][..width];
            *to = columns.map(|column| line[column]);
        }
    }
}

/// The weights of four pixels in a grey level between them: upper left, upper right, lower left, lower right.
#[derive(Clone, Copy)]
struct Weights([i32; 4]);

impl Weights {
    fn of(place: [i32; 2]) -> Self {
        let [u, v] = place.map(|at| at & (ONE - 1));
        Self([(ONE - u) * (ONE - v), u * (ONE - v), (ONE - u) * v, u * v])
    }

    /// The grey levels between two rows, from left to right, in 1/16.
    #[inline(always)]
    fn between<const N: usize>(self, above: &[u8; N], below: &[u8; N], mut found: impl FnMut(usize, i32)) {
        const SHIFT: u32 = 2 * POSITION_BITS - LEVEL_BITS;
        let [a, b, c, d] = self.0;
        let mut left = [above[0], below[0]].map(i32::from);
        for x in 1..N {
            let right = [above[x], below[x]].map(i32::from);
            found(x - 1, ((1 << (SHIFT - 1)) + left[0] * a + right[0] * b + left[1] * c + right[1] * d) >> SHIFT);
            left = right;
        }
    }
}

/// The window around a corner.
struct Template {
    levels: [[i16; WINDOW]; WINDOW],
    /// Twice the slope in x and y.
    slopes: [[[i16; 2]; WINDOW]; WINDOW],
}

/// The equations that give a step.
struct Solver {
    /// Sums of the products of slopes: x by x, x by y, y by y.
    products: [i64; 3],
    /// Their determinant, divided by 1,024: so quotients are in 1/1,024 pixels. At least 49, by [`TEXTURE`].
    determinant: i64,
}

impl Template {
    #[inline(never)]
    fn of(level: &Level<'_>, place: [i32; 2]) -> Self {
        // One more on each side, for differences.
        let mut copy = [[0; WINDOW + 3]; WINDOW + 3];
        let (pixels, weights) = (level.around(place, RADIUS + 1, &mut copy), Weights::of(place));
        let mut levels = [[0; WINDOW + 2]; WINDOW + 2];
        for (row, levels) in levels.iter_mut().enumerate() {
            weights.between(pixels[row], pixels[row + 1], |x, level| levels[x] = level as i16);
        }
        let mut template = Self { levels: [[0; WINDOW]; WINDOW], slopes: [[[0; 2]; WINDOW]; WINDOW] };
        for y in 0..WINDOW {
            for x in 0..WINDOW {
                template.levels[y][x] = levels[y + 1][x + 1];
                template.slopes[y][x] =
                    [levels[y + 1][x + 2] - levels[y + 1][x], levels[y + 2][x + 1] - levels[y][x + 1]];
            }
        }
        template
    }

    /// `None` if there is too little texture.
    fn solver(&self) -> Option<Solver> {
        // 49 products of at most 4,080 * 4,080.
        let mut sums = [0_i32; 3];
        for [x, y] in self.slopes.as_flattened().iter().map(|slope| slope.map(i32::from)) {
            sums = [sums[0] + x * x, sums[1] + x * y, sums[2] + y * y];
        }
        let products = sums.map(i64::from);
        let [xx, xy, yy] = products;
        let determinant = xx * yy - xy * xy;
        // The determinant by the trace is at most the smaller eigenvalue, and at least half of it.
        (determinant >= TEXTURE * (xx + yy) && determinant > 0)
            .then_some(Solver { products, determinant: determinant >> POSITION_BITS })
    }

    /// Improves a flow from `place`, by up to so many steps.
    #[inline(never)]
    fn search(&self, other: &Level<'_>, place: [i32; 2], flow: &mut [i32; 2], (solver, steps): (&Solver, usize)) {
        let [xx, xy, yy] = solver.products;
        for _ in 0..steps {
            // 49 products of at most 4,080 * 4,080.
            let mut sums = [0_i32; 2];
            self.compare(other, from_fn(|axis| place[axis] + flow[axis]), |difference, slope| {
                sums = [sums[0] + difference * i32::from(slope[0]), sums[1] + difference * i32::from(slope[1])];
            });
            let [x, y] = sums.map(i64::from);
            // Slopes are twice as large as they should be, so the step is twice their result.
            let step =
                [yy * x - xy * y, xx * y - xy * x].map(|part| (2 * (part / solver.determinant)).clamp(-LONG, LONG));
            *flow = from_fn(|axis| flow[axis] + step[axis] as i32);
            if step.iter().all(|part| part.abs() <= SHORT) {
                break;
            }
        }
    }

    /// How much is different at a place, see [`Track::difference`].
    #[inline(never)]
    fn difference(&self, other: &Level<'_>, place: [i32; 2]) -> i32 {
        let mut sum = 0;
        self.compare(other, place, |difference, _| sum += difference.abs());
        sum / (WINDOW * WINDOW) as i32
    }

    /// Calls `found` with the difference of each pixel of the window from the picture around a place, and its slopes.
    #[inline(always)]
    fn compare(&self, other: &Level<'_>, place: [i32; 2], mut found: impl FnMut(i32, [i16; 2])) {
        let mut copy = [[0; WINDOW + 1]; WINDOW + 1];
        let (pixels, weights) = (other.around(place, RADIUS, &mut copy), Weights::of(place));
        for y in 0..WINDOW {
            let (levels, slopes) = (&self.levels[y], &self.slopes[y]);
            weights.between(pixels[y], pixels[y + 1], |x, there| found(i32::from(levels[x]) - there, slopes[x]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::run;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const WIDTH: u16 = 128;
    const HEIGHT: u16 = 96;

    /// A smooth scene without end: waves, so that it is known between pixels too. As in a photograph, the longest are the strongest.
    fn scene(x: f64, y: f64, seed: f64) -> f64 {
        let waves =
            [(0.04, 0.07), (-0.10, 0.05), (0.31, 0.12), (-0.14, 0.36), (0.52, 0.41), (0.07, -0.53), (0.61, -0.22)];
        let wave = |(at, (a, b)): (usize, &(f64, f64))| {
            (a * x + b * y + seed * (at + 1) as f64).sin() * 11.0 / (a.hypot(*b) + 0.2)
        };
        128.0 + waves.iter().enumerate().map(wave).sum::<f64>()
    }

    fn pyramid(of: impl Fn(f64, f64) -> f64) -> Vec<u8> {
        let kernel = Pyramid { width: WIDTH, height: HEIGHT, levels: 3 };
        let pixel = |at: usize| of((at % 128) as f64, (at / 128) as f64).round().clamp(0.0, 255.0) as u8;
        let picture: Vec<u8> = (0..kernel.elements()[0]).map(pixel).collect();
        let mut pyramid = vec![0; kernel.elements()[1]];
        run(&kernel, (picture[..].into(), pyramid.as_mut_slice().into()));
        pyramid
    }

    fn flow(first: &[u8], second: &[u8], corners: &[Corner]) -> Vec<Track> {
        let kernel = Flow { width: WIDTH, height: HEIGHT, levels: 3, count: corners.len() as u16 };
        let (words, mut tracks): (Vec<_>, _) =
            (corners.iter().flat_map(Corner::words).collect(), vec![0; 3 * corners.len()]);
        run(&kernel, (first.into(), second.into(), words[..].into(), tracks.as_mut_slice().into()));
        tracks.as_chunks().0.iter().copied().map(Track::of).collect()
    }

    /// Points in the middle, far enough from the border for all movements.
    fn middle() -> Vec<Corner> {
        (0..35).map(|at| Corner { x: 24 + at % 7 * 13, y: 24 + at / 7 * 12, response: 1 }).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The oracle is the scene: it is rendered where it has moved to. Two of 35 corners may have been taken for another, because waves are alike.
        #[test]
        fn a_shift_is_found_to_a_sixteenth_of_a_pixel_and_a_turn_to_an_eighth(
            seed in 0.0..6.3_f64, dx in -5.0..5.0_f64, dy in -5.0..5.0_f64, turned: bool, angle in -0.03..0.03_f64, zoom in -0.03..0.03_f64,
        ) {
            // A window is compared as it stands, so one that turns or grows is matched less well.
            let (angle, zoom, allowed) = if turned { (angle, zoom, 0.125) } else { (0.0, 0.0, 0.0625) };
            let (first, second) = (pyramid(|x, y| scene(x, y, seed)), pyramid(|x, y| {
                let (x, y) = (x - 63.5 - dx, y - 47.5 - dy);
                let scale = (1.0 + zoom) / ((1.0 + zoom).powi(2) + angle.powi(2));
                let (c, s) = (scale, scale * angle / (1.0 + zoom));
                scene(63.5 + c * x + s * y, 47.5 - s * x + c * y, seed)
            }));
            let mut errors: Vec<f64> = Vec::new();
            for (corner, track) in middle().iter().zip(flow(&first, &second, &middle())) {
                let (x, y) = (f64::from(corner.x) - 63.5, f64::from(corner.y) - 47.5);
                let to = [63.5 + dx + (1.0 + zoom) * x - angle * y, 47.5 + dy + angle * x + (1.0 + zoom) * y];
                prop_assert!(track.difference >= 0);
                errors.push((f64::from(track.x) / 1024.0 - to[0]).hypot(f64::from(track.y) / 1024.0 - to[1]));
            }
            errors.sort_by(f64::total_cmp);
            prop_assert!(errors[errors.len() / 2] < allowed && errors[errors.len() - 3] < 0.3, "{errors:?}");
        }

        /// With any bytes in memory, nothing panics.
        #[test]
        fn nonsense_is_not_found_and_does_not_panic(
            corners in prop::collection::vec(any::<[i32; 3]>(), 1..20), pixels in prop::collection::vec(any::<u8>(), 2 * 16_128),
        ) {
            let inside = corners.iter().enumerate().map(|(at, [x, y, response])| match at % 2 {
                0 => Corner { x: x.rem_euclid(128), y: y.rem_euclid(96), response: response.saturating_abs() },
                _ => Corner { x: *x, y: *y, response: *response },
            });
            let corners: Vec<Corner> = inside.collect();
            for (corner, track) in corners.iter().zip(flow(&pixels[..16_128], &pixels[16_128..], &corners)) {
                let is_inside = (0..128).contains(&corner.x) && (0..96).contains(&corner.y) && corner.response > 0;
                prop_assert!(is_inside || track == Track::LOST);
                prop_assert!(track.difference < 0 || ((0..=127 * 1024).contains(&track.x) && (0..=95 * 1024).contains(&track.y)));
            }
        }
    }

    #[test]
    fn what_does_not_move_stays_and_what_has_no_texture_is_lost() {
        let picture = pyramid(|x, y| scene(x, y, 1.0));
        for (corner, track) in middle().iter().zip(flow(&picture, &picture, &middle())) {
            assert_eq!(track, Track { x: corner.x * 1024, y: corner.y * 1024, difference: 0 });
        }
        let edge = pyramid(|x, _| if x < 64.0 { 60.0 } else { 190.0 });
        assert!(flow(&edge, &edge, &middle()).iter().all(|track| *track == Track::LOST));
    }
}
