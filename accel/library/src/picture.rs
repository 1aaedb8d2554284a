//! Pictures of 8-bit pixels, row by row without gaps: edges, movement, and its compensation.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::Aligned;

/// Most pixels of a picture.
pub const PIXELS_MAX: usize = 16 * 1024;
/// Most pixels of a side.
pub const SIDE_MAX: u16 = 1024;
/// Largest search radius, in pixels.
pub const RADIUS_MAX: u8 = 16;

/// Nanoseconds of each pixel of a gradient: 2 ms for 128 x 96. 20 instructions.
const GRADIENT_PIXEL: u64 = 160;
/// The time of each comparison of a block match: 9 ms for 128 x 96, radius 6, stride 4. 8.5 instructions.
const MATCH_COMPARISON: u64 = 68;
/// The time of each row of a block match, for each displacement, in comparisons.
const MATCH_ROW: u64 = 8;
/// Nanoseconds of each pixel of a shift: 1 ms for 128 x 96. 10 instructions.
const SHIFT_PIXEL: u64 = 80;

/// Pixels of a block, rounded down to rows, at least one row.
const BLOCK: u32 = 2048;
/// Pixels of a block, and a row above and below.
const AROUND: usize = BLOCK as usize + 2 * SIDE_MAX as usize;

/// Width and height of a picture.
#[derive(Clone, Copy)]
struct Size(u16, u16);

impl Size {
    const fn pixels(self) -> usize {
        self.0 as usize * self.1 as usize
    }

    fn is_valid(self) -> bool {
        let side = 1..=SIDE_MAX;
        side.contains(&self.0) && side.contains(&self.1) && self.pixels() <= PIXELS_MAX
    }

    const fn rows_of_block(self) -> u32 {
        BLOCK / self.0 as u32
    }

    fn blocks(self) -> u32 {
        u32::from(self.1).div_ceil(self.rows_of_block())
    }

    /// The rows of some blocks.
    fn rows(self, blocks: Range<u32>) -> Range<usize> {
        let row = |block: u32| (block * self.rows_of_block()).min(self.1.into()) as usize;
        row(blocks.start)..row(blocks.end)
    }

    /// The pixels of these blocks.
    fn pixels_of(self, blocks: Range<u32>) -> u64 {
        (self.rows(blocks).len() * usize::from(self.0)) as u64
    }
}

//--- Gradient

arguments! {
    /// Turns a picture into the strength of its edges: the sum of the absolute horizontal and vertical central differences, at most
    /// 255. Pixels beyond the border equal the border. Views: the picture, the strengths.
    pub struct Gradient {
        /// Pixels of a row, 1 to [`SIDE_MAX`].
        pub width: u16,
        /// Rows, 1 to [`SIDE_MAX`]; at most [`PIXELS_MAX`] pixels in all.
        pub height: u16,
    }
}

impl Gradient {
    const fn size(self) -> Size {
        Size(self.width, self.height)
    }
}

impl Kernel for Gradient {
    const NAME: &'static str = "gradient";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn is_valid(&self) -> bool {
        self.size().is_valid()
    }

    fn elements(&self) -> [usize; 2] {
        [self.size().pixels(); 2]
    }

    fn blocks(&self) -> u32 {
        self.size().blocks()
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        self.size().pixels_of(blocks) * GRADIENT_PIXEL
    }

    fn block(&self, block: u32, (picture, strengths): Self::Views<'_>) {
        let (width, height) = (usize::from(self.width), usize::from(self.height));
        let rows = self.size().rows(block..block + 1);
        let first = rows.start.saturating_sub(1);
        let (mut around, mut out) = (Aligned([0; AROUND]), Aligned([0; BLOCK as usize]));
        let around = &mut around.0[..((rows.end + 1).min(height) - first) * width];
        picture.load(first * width, around);
        let out = &mut out.0[..rows.len() * width];
        let row = |y: usize| &around[(y - first) * width..][..width];
        for (y, out) in rows.clone().zip(out.chunks_exact_mut(width)) {
            gradient(row(y.saturating_sub(1)), row(y), row((y + 1).min(height - 1)), out);
        }
        strengths.store(rows.start * width, out);
    }
}

/// A row of a gradient, from the one above it to the one below.
fn gradient(above: &[u8], here: &[u8], below: &[u8], out: &mut [u8]) {
    let width = here.len();
    let inner = width.saturating_sub(2);
    if inner > 0 {
        let (above, below) = (&above[1..][..inner], &below[1..][..inner]);
        let (left, right) = (&here[..inner], &here[2..][..inner]);
        let out = &mut out[1..][..inner];
        for x in 0..inner {
            let dx = right[x].abs_diff(left[x]);
            out[x] = dx.saturating_add(below[x].abs_diff(above[x]));
        }
    }
    let last = width - 1;
    for (x, left, right) in [(0, 0, last.min(1)), (last, last.saturating_sub(1), last)] {
        let dx = here[right].abs_diff(here[left]);
        out[x] = dx.saturating_add(below[x].abs_diff(above[x]));
    }
}

//--- Block match

/// The result of [`BlockMatch`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Match {
    /// The movement of the picture to the right, in pixels.
    pub dx: i32,
    /// The movement down.
    pub dy: i32,
    /// Sum of absolute differences at that displacement.
    pub difference: u32,
    /// The smallest sum at any other displacement, `u32::MAX` if there is none: its distance from `difference` is a measure of the
    /// match's certainty.
    pub second_best: u32,
}

impl Match {
    /// The words of the match in memory.
    #[must_use]
    pub const fn words(&self) -> [i32; 4] {
        [self.dx, self.dy, self.difference.cast_signed(), self.second_best.cast_signed()]
    }

    /// Read from memory: all words are one.
    #[must_use]
    pub const fn of([dx, dy, difference, second_best]: [i32; 4]) -> Self {
        Self { dx, dy, difference: difference.cast_unsigned(), second_best: second_best.cast_unsigned() }
    }
}

arguments! {
    /// Finds how far a picture has moved: the displacement (dx, dy), each within `radius`, for which `current(x + dx, y + dy)`
    /// differs least from `reference(x, y)`. Compares each `stride`-th pixel of each `stride`-th row, leaving out a border of
    /// `radius`. The shortest of equal displacements wins. Views: reference, current, and the [`Match`], four words.
    pub struct BlockMatch {
        /// Pixels of a row, 1 to [`SIDE_MAX`].
        pub width: u16,
        /// Rows, 1 to [`SIDE_MAX`]; at most [`PIXELS_MAX`] pixels in all.
        pub height: u16,
        /// Largest displacement in each direction, at most [`RADIUS_MAX`], and less than half of each side.
        pub radius: u8,
        /// Distance of compared pixels, at least 1. With 128 x 96 pixels and radius 6, a stride of 4 compares 609 pixels for each
        /// of 169 displacements.
        pub stride: u8,
    }
}

impl BlockMatch {
    const fn size(self) -> Size {
        Size(self.width, self.height)
    }

    /// Displacements times rows times compared pixels of a row, of which each row has [`MATCH_ROW`] more than it seems.
    fn comparisons(self) -> u64 {
        let radius = u64::from(self.radius);
        let samples = |length: u16| (u64::from(length) - 2 * radius).div_ceil(self.stride.into());
        (2 * radius + 1).pow(2) * samples(self.height) * (samples(self.width) + MATCH_ROW)
    }

    fn search(self, reference: &[u8], current: &[u8]) -> Match {
        let (width, height) = (usize::from(self.width), usize::from(self.height));
        let (radius, stride) = (usize::from(self.radius), usize::from(self.stride));
        let inner = width - 2 * radius;
        let mut best = None;
        // Displacements shifted by the radius, so that they count from 0.
        for (dy, dx) in (0..=2 * radius).flat_map(|dy| (0..=2 * radius).map(move |dx| (dy, dx))) {
            let mut sum = 0;
            for y in (0..height - 2 * radius).step_by(stride) {
                let still = &reference[(y + radius) * width + radius..][..inner];
                let moved = &current[(y + dy) * width + dx..][..inner];
                sum += difference(still, moved, stride);
            }
            let (dx, dy) = (dx as i32 - radius as i32, dy as i32 - radius as i32);
            best = Some(better(best, Match { dx, dy, difference: sum, second_best: u32::MAX }));
        }
        best.unwrap_or_default()
    }
}

/// The better of the best so far and another.
fn better(best: Option<Match>, other: Match) -> Match {
    let Some(best) = best else { return other };
    let distance = |of: Match| of.dx * of.dx + of.dy * of.dy;
    if (other.difference, distance(other)) < (best.difference, distance(best)) {
        Match { second_best: best.difference, ..other }
    } else {
        Match { second_best: best.second_best.min(other.difference), ..best }
    }
}

/// Sum of absolute differences of each `stride`-th pixel of two rows of equal length.
fn difference(still: &[u8], moved: &[u8], stride: usize) -> u32 {
    let moved = &moved[..still.len()];
    let (mut sum, mut x) = (0, 0);
    while x < still.len() {
        sum += u32::from(still[x].abs_diff(moved[x]));
        x += stride;
    }
    sum
}

impl Kernel for BlockMatch {
    const NAME: &'static str = "block match";
    type Views<'m> = (Input<'m, u8>, Input<'m, u8>, Output<'m, i32>);

    fn is_valid(&self) -> bool {
        let shorter = self.width.min(self.height);
        self.size().is_valid() && self.radius <= RADIUS_MAX && 2 * u16::from(self.radius) < shorter && self.stride > 0
    }

    fn elements(&self) -> [usize; 3] {
        [self.size().pixels(), self.size().pixels(), 4]
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn time(&self, _: Range<u32>) -> u64 {
        self.comparisons() * MATCH_COMPARISON
    }

    fn block(&self, _: u32, views: Self::Views<'_>) {
        match self.size().pixels() {
            ..=1024 => self.find::<1024>(views),
            _ => self.find::<PIXELS_MAX>(views),
        }
    }
}

impl BlockMatch {
    /// All of it, with room for `N` pixels of each picture: to clear more than that takes longer than to search a small one.
    fn find<const N: usize>(self, (reference, current, found): <Self as Kernel>::Views<'_>) {
        let [mut still, mut moved] = [const { Aligned([0; N]) }; 2];
        let [still, moved] = [&mut still, &mut moved].map(|all| &mut all.0[..self.size().pixels()]);
        reference.load(0, still);
        current.load(0, moved);
        found.store(0, &self.search(still, moved).words());
    }
}

//--- Shift

arguments! {
    /// Moves a picture: `moved(x, y) = picture(x + dx, y + dy)`, where pixels beyond the border equal the border. Undoes the movement that a
    /// [`BlockMatch`] found. Views: the picture; a [`Match`], of which it takes the displacement; the moved picture.
    pub struct Shift {
        /// Pixels of a row, 1 to [`SIDE_MAX`].
        pub width: u16,
        /// Rows, 1 to [`SIDE_MAX`]; at most [`PIXELS_MAX`] pixels in all.
        pub height: u16,
    }
}

impl Shift {
    const fn size(self) -> Size {
        Size(self.width, self.height)
    }
}

impl Kernel for Shift {
    const NAME: &'static str = "shift";
    type Views<'m> = (Input<'m, u8>, Input<'m, i32>, Output<'m, u8>);

    fn is_valid(&self) -> bool {
        self.size().is_valid()
    }

    fn elements(&self) -> [usize; 3] {
        [self.size().pixels(), 4, self.size().pixels()]
    }

    fn blocks(&self) -> u32 {
        self.size().blocks()
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        self.size().pixels_of(blocks) * SHIFT_PIXEL
    }

    fn block(&self, block: u32, (picture, displacement, moved): Self::Views<'_>) {
        let (width, height) = (usize::from(self.width), usize::from(self.height));
        let rows = self.size().rows(block..block + 1);
        let (dx, dy) = (displacement.get(0), displacement.get(1));
        // Further than the picture is wide, one step looks like the next.
        let distance = (dx.unsigned_abs() as usize).min(width);
        let from = |y: usize| (y as i64 + i64::from(dy)).clamp(0, height as i64 - 1) as usize;
        let (mut source, mut out) = (Aligned([0; BLOCK as usize]), Aligned([0; BLOCK as usize]));
        let first = from(rows.start);
        let source = &mut source.0[..(from(rows.end - 1) + 1 - first) * width];
        picture.load(first * width, source);
        let out = &mut out.0[..rows.len() * width];
        for (y, out) in rows.clone().zip(out.chunks_exact_mut(width)) {
            let from = &source[(from(y) - first) * width..][..width];
            if dx >= 0 {
                let (inner, border) = out.split_at_mut(width - distance);
                inner.copy_from_slice(&from[distance..]);
                border.fill(from[width - 1]);
            } else {
                let (border, inner) = out.split_at_mut(distance);
                inner.copy_from_slice(&from[..width - distance]);
                border.fill(from[0]);
            }
        }
        moved.store(rows.start * width, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::run;
    use proptest::prelude::*;

    /// A pixel, where those beyond the border equal the border.
    fn pixel(picture: &[u8], (width, height): (u16, u16), x: i64, y: i64) -> u8 {
        let x = x.clamp(0, i64::from(width) - 1);
        let y = y.clamp(0, i64::from(height) - 1);
        picture[(y * i64::from(width) + x) as usize]
    }

    fn each_pixel((width, height): (u16, u16)) -> impl Iterator<Item = (i64, i64)> {
        (0..i64::from(height)).flat_map(move |y| (0..i64::from(width)).map(move |x| (x, y)))
    }

    fn gradient((width, height): (u16, u16), picture: &[u8]) -> Vec<u8> {
        let mut out = vec![0; picture.len()];
        run(&Gradient { width, height }, (picture.into(), out.as_mut_slice().into()));
        out
    }

    fn block_match((width, height): (u16, u16), radius: u8, stride: u8, reference: &[u8], current: &[u8]) -> Match {
        let mut words = [0; 4];
        let kernel = BlockMatch { width, height, radius, stride };
        run(&kernel, (reference.into(), current.into(), (&mut words[..]).into()));
        Match::of(words)
    }

    prop_compose! {
        /// Small ones, and some of several blocks.
        fn any_picture()(
            (width, height) in prop_oneof![3 => (1_u16..24, 1_u16..24), 1 => (100_u16..130, 30_u16..90), 1 => (1_u16..3, 900_u16..=1024)],
        )(
            picture in prop::collection::vec(any::<u8>(), usize::from(width) * usize::from(height)),
            size in Just((width, height)),
        ) -> ((u16, u16), Vec<u8>) {
            (size, picture)
        }
    }

    proptest! {
        #[test]
        fn a_gradient_equals_its_definition((size, picture) in any_picture()) {
            let expected: Vec<u8> = each_pixel(size)
                .map(|(x, y)| {
                    let at = |x, y| i32::from(pixel(&picture, size, x, y));
                    let sum = (at(x + 1, y) - at(x - 1, y)).abs() + (at(x, y + 1) - at(x, y - 1)).abs();
                    sum.min(255) as u8
                })
                .collect();
            prop_assert_eq!(gradient(size, &picture), expected);
        }

        #[test]
        fn a_shift_equals_its_definition(
            (size, picture) in any_picture(),
            dx in prop_oneof![-30..30, any::<i32>()],
            dy in prop_oneof![-30..30, any::<i32>()],
        ) {
            let mut out = vec![0; picture.len()];
            let (width, height) = size;
            let displacement = [dx, dy, 0, 0];
            run(&Shift { width, height }, (picture[..].into(), displacement[..].into(), out.as_mut_slice().into()));
            let expected: Vec<u8> = each_pixel(size)
                .map(|(x, y)| pixel(&picture, size, x + i64::from(dx), y + i64::from(dy)))
                .collect();
            prop_assert_eq!(out, expected);
        }

        #[test]
        fn a_match_is_the_best_of_all_displacements(
            (size, reference) in any_picture().prop_filter("small", |(size, _)| size.0.max(size.1) < 24),
            seed: u8,
            radius in 0_u8..6,
            stride in 1_u8..5,
        ) {
            prop_assume!(2 * u16::from(radius) < size.0.min(size.1));
            let current: Vec<u8> = reference.iter().rev().map(|p| p.wrapping_mul(seed)).collect();
            let r = i32::from(radius);
            let mut sums: Vec<(u32, i32, i32, i32)> = Vec::new();
            for (dy, dx) in (-r..=r).flat_map(|dy| (-r..=r).map(move |dx| (dy, dx))) {
                let mut sum = 0;
                for y in (r..i32::from(size.1) - r).step_by(usize::from(stride)) {
                    for x in (r..i32::from(size.0) - r).step_by(usize::from(stride)) {
                        let at = |picture: &[u8], x: i32, y: i32| pixel(picture, size, x.into(), y.into());
                        sum += u32::from(at(&reference, x, y).abs_diff(at(&current, x + dx, y + dy)));
                    }
                }
                sums.push((sum, dx * dx + dy * dy, dy, dx));
            }
            sums.sort_unstable();
            let second_best = sums.get(1).map_or(u32::MAX, |second| second.0);
            let (difference, _, dy, dx) = sums[0];
            let expected = Match { dx, dy, difference, second_best };
            prop_assert_eq!(block_match(size, radius, stride, &reference, &current), expected);
        }

        /// The property that the stabiliser of a camera relies on.
        #[test]
        fn a_known_movement_is_found_in_spite_of_noise(
            seed: u64, dx in -6_i32..=6, dy in -6_i32..=6, through_gradient: bool,
        ) {
            let size = (128, 96);
            let mut state = seed | 1;
            let mut random = move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u32
            };
            // A scene larger than the picture, so that nothing is repeated at the border.
            let scene: Vec<u8> = (0..144 * 112).map(|_| (random() % 256) as u8).collect();
            let mut picture = |dx: i32, dy: i32| -> Vec<u8> {
                each_pixel(size)
                    .map(|(x, y)| {
                        let at = (y + 8 - i64::from(dy)) * 144 + x + 8 - i64::from(dx);
                        let noise = (random() % 7) as i32 - 3;
                        (i32::from(scene[at as usize]) + noise).clamp(0, 255) as u8
                    })
                    .collect()
            };
            let (mut reference, mut current) = (picture(0, 0), picture(dx, dy));
            if through_gradient {
                for picture in [&mut reference, &mut current] {
                    *picture = gradient(size, picture);
                }
            }
            let found = block_match(size, 6, 4, &reference, &current);
            prop_assert_eq!((found.dx, found.dy), (dx, dy));
            prop_assert!(found.second_best > 2 * found.difference);
        }
    }

    #[test]
    fn the_published_times_hold() {
        let (width, height) = (128, 96);
        let gradient = Gradient { width, height };
        assert_eq!(gradient.time(0..gradient.blocks()), 1_966_080);
        assert_eq!(gradient.time(2..4), 2 * 16 * 128 * GRADIENT_PIXEL);
        let search = BlockMatch { width, height, radius: 6, stride: 4 };
        assert_eq!(search.comparisons(), 169 * 21 * (29 + 8));
        assert_eq!(search.time(0..1), 8_929_284);
        let shift = Shift { width, height };
        assert_eq!(shift.time(0..shift.blocks()), 983_040);
    }

    #[test]
    fn sizes_beyond_the_limits_are_no_arguments() {
        let gradient = |width, height| Gradient { width, height }.is_valid();
        assert!(gradient(1, 1) && gradient(1024, 16) && gradient(16, 1024) && gradient(128, 128));
        assert!(!gradient(0, 1) && !gradient(1, 0) && !gradient(1025, 1) && !gradient(1, 1025) && !gradient(129, 128));
        let search = |width, height, radius, stride| BlockMatch { width, height, radius, stride }.is_valid();
        assert!(search(33, 33, 16, 1) && search(1, 1, 0, 255));
        assert!(!search(32, 33, 16, 1) && !search(33, 32, 16, 1) && !search(40, 40, 17, 1) && !search(33, 33, 1, 0));
    }
}
