//! Computations of a signal processor, in fixed point: a filter with a finite impulse response, and a Fourier transform.
//!
//! Numbers are `i16`, of which 32768 would be 1; products and sums are exact, and rounded only where a comment has it.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, Update, arguments};

use crate::Aligned;

/// The largest number of samples in the result of one launch of [`Filter`].
pub const SAMPLES_MAX: u16 = 4096;
/// Most coefficients of a filter.
pub const COEFFICIENTS_MAX: u16 = 128;
/// Most points of a Fourier transform.
pub const POINTS_MAX: u16 = 512;

/// Nanoseconds of each multiplication of a filter: 2 ms for 1024 samples and 32 coefficients. 5 instructions.
const FILTER_STEP: u64 = 48;
/// The time of each sample of a filter, in multiplications. 40 instructions.
const FILTER_SAMPLE: u64 = 8;
/// Samples that a filter puts out in a block.
const FILTER_BLOCK: u16 = 128;
/// Nanoseconds of each pair of points that a stage of a transform combines: 1.1 ms for 512 points. 35 instructions.
const TRANSFORM_STEP: u64 = 320;
/// Points of which all stages are one block.
const SMALL: u16 = 64;
/// The time to read and sort the points, in stages; and to write them.
const TRANSFORM_END: u64 = 2;

/// Bits after the point.
const FRACTION: u32 = 15;

/// A complex number of a transform, real part first.
type Point = [i32; 2];

fn saturated(number: i64) -> i16 {
    number.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
}

//--- Filter

arguments! {
    /// Filters a signal with a finite impulse response: sample `i` of the result is the sum over all `j` of `response(j) * signal(i
    /// + length - 1 - j)`, rounded to the nearest, of two to the upper, and limited to the range of an `i16`. Views: the signal,
    /// `samples + length - 1` of them, where the samples before the first come first; the response; the filtered signal.
    pub struct Filter {
        /// Samples of the result, 1 to [`SAMPLES_MAX`].
        pub samples: u16,
        /// Coefficients of the response, 1 to [`COEFFICIENTS_MAX`].
        pub length: u16,
    }
}

impl Filter {
    /// The samples of some blocks.
    fn samples(self, blocks: Range<u32>) -> Range<usize> {
        let sample = |block: u32| (block * u32::from(FILTER_BLOCK)).min(self.samples.into()) as usize;
        sample(blocks.start)..sample(blocks.end)
    }
}

impl Kernel for Filter {
    const NAME: &'static str = "filter";
    type Views<'m> = (Input<'m, i16>, Input<'m, i16>, Output<'m, i16>);

    fn is_valid(&self) -> bool {
        (1..=SAMPLES_MAX).contains(&self.samples) && (1..=COEFFICIENTS_MAX).contains(&self.length)
    }

    fn elements(&self) -> [usize; 3] {
        let [samples, length] = [self.samples, self.length].map(usize::from);
        [samples + length - 1, length, samples]
    }

    fn blocks(&self) -> u32 {
        self.samples.div_ceil(FILTER_BLOCK).into()
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        self.samples(blocks).len() as u64 * (u64::from(self.length) + FILTER_SAMPLE) * FILTER_STEP
    }

    fn block(&self, block: u32, (signal, response, filtered): Self::Views<'_>) {
        let mut part = Aligned([0; (FILTER_BLOCK + COEFFICIENTS_MAX) as usize]);
        let mut weights = Aligned([0; COEFFICIENTS_MAX as usize]);
        let mut out = Aligned([0; FILTER_BLOCK as usize]);
        let samples = self.samples(block..block + 1);
        let length = usize::from(self.length);
        let (part, weights) = (&mut part.0[..samples.len() + length - 1], &mut weights.0[..length]);
        signal.load(samples.start, part);
        response.load(0, weights);
        let out = &mut out.0[..samples.len()];
        for (out, window) in out.iter_mut().zip(part.windows(length)) {
            let products =
                window.iter().rev().zip(&*weights).map(|(sample, weight)| i32::from(*sample) * i32::from(*weight));
            let sum: i64 = products.map(i64::from).sum();
            *out = saturated((sum + (1 << (FRACTION - 1))) >> FRACTION);
        }
        filtered.store(samples.start, out);
    }
}

//--- Transform

arguments! {
    /// The discrete Fourier transform of complex samples, real part first: point `k` of the result is the sum over all `t` of
    /// `samples(t) * exp(-2 pi i k t / points)`, divided by `points`, so that it fits. No part is off by more than 1.21 for each
    /// halving of `points`, and none exceeds the range of an `i16`. Each of its log2(points) stages is a block, if there are more
    /// than 64 points; between two it keeps unfinished values in memory. Views: the samples, the spectrum, and eight bytes for each
    /// point, which nothing else may write until it has ended.
    pub struct Transform {
        /// Samples and points, a power of two from 2 to [`POINTS_MAX`].
        pub points: u16,
    }
}

impl Kernel for Transform {
    const NAME: &'static str = "transform";
    const ORDERED: bool = true;
    type Views<'m> = (Input<'m, [i16; 2]>, Output<'m, [i16; 2]>, Update<'m, Point>);

    fn is_valid(&self) -> bool {
        self.points.is_power_of_two() && (2..=POINTS_MAX).contains(&self.points)
    }

    fn elements(&self) -> [usize; 3] {
        [self.points.into(); 3]
    }

    fn blocks(&self) -> u32 {
        if self.points <= SMALL { 1 } else { self.points.ilog2() }
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        let ends = u64::from(blocks.start == 0) + u64::from(blocks.end == self.blocks());
        let stages = self.stages(blocks).len() as u64 + TRANSFORM_END * ends;
        u64::from(self.points / 2) * stages * TRANSFORM_STEP
    }

    fn block(&self, number: u32, views: Self::Views<'_>) {
        match self.points {
            ..=SMALL => self.some::<{ SMALL as usize }>(number, views),
            _ => self.some::<{ POINTS_MAX as usize }>(number, views),
        }
    }
}

impl Transform {
    /// The stages of some blocks.
    fn stages(self, blocks: Range<u32>) -> Range<u32> {
        if self.points <= SMALL { 0..self.points.ilog2() } else { blocks }
    }

    /// A block, with room for `N` points: to clear more than that takes longer than a few points.
    fn some<const N: usize>(self, number: u32, (samples, spectrum, unfinished): <Self as Kernel>::Views<'_>) {
        let count = usize::from(self.points);
        let mut points = Aligned([[0; 2]; N]);
        let points = &mut points.0[..count];
        if number == 0 {
            sort::<N>(&samples, points);
        } else {
            unfinished.load(0, points);
        }
        self.stages(number..number + 1).for_each(|number| stage(points, number));
        if number + 1 == self.blocks() {
            finish::<N>(points, &spectrum);
        } else {
            unfinished.store(0, points);
        }
    }
}

/// Reads the samples, each to the place that has its number with the bits in reverse.
#[inline(never)]
fn sort<const N: usize>(samples: &Input<'_, [i16; 2]>, points: &mut [Point]) {
    let mut all = Aligned([[0; 2]; N]);
    let all = &mut all.0[..points.len()];
    samples.load(0, all);
    let unused = usize::BITS - points.len().ilog2();
    for (number, sample) in all.iter().enumerate() {
        points[number.reverse_bits() >> unused] = sample.map(i32::from);
    }
}

#[inline(never)]
fn finish<const N: usize>(points: &[Point], spectrum: &Output<'_, [i16; 2]>) {
    let mut all = Aligned([[0; 2]; N]);
    let all = &mut all.0[..points.len()];
    for (out, point) in all.iter_mut().zip(points) {
        *out = point.map(|part| saturated(part.into()));
    }
    spectrum.store(0, all);
}

/// Stage `number` of log2(points), from 0: transforms of 2^number points each become half as many of twice the points.
fn stage(points: &mut [Point], number: u32) {
    let half = 1 << number;
    let step = TURNS.len() >> number;
    if half < MANY {
        for k in 0..half {
            for block in points.chunks_exact_mut(2 * half) {
                let (even, odd) = block.split_at_mut(half);
                combine(&mut even[k], &mut odd[k], TURNS[k * step]);
            }
        }
        return;
    }
    for block in points.chunks_exact_mut(2 * half) {
        let (even, odd) = block.split_at_mut(half);
        for (k, (even, odd)) in even.iter_mut().zip(odd).enumerate() {
            combine(even, odd, TURNS[k * step % TURNS.len()]);
        }
    }
}

/// The least number of combinations with successive turns for which a block is worth a loop.
const MANY: usize = 16;

/// Two points become the transform of both. Each result is halved, and rounded once; so no number grows.
#[inline(always)]
fn combine(even: &mut Point, odd: &mut Point, [cosine, sine]: Point) {
    let wide = |number: i32| i64::from(number);
    let turns = [[wide(cosine), -wide(sine)], [wide(sine), wide(cosine)]];
    let [x, y] = odd.map(wide);
    for part in 0..2 {
        let stays = (wide(even[part]) + 1) << FRACTION;
        let sum = stays + x * turns[part][0] + y * turns[part][1];
        even[part] = (sum >> (FRACTION + 1)) as i32;
        odd[part] = ((2 * stays - sum) >> (FRACTION + 1)) as i32;
    }
}

/// `exp(-2 pi i k / POINTS_MAX)` for half a turn, rounded to [`FRACTION`] bits.
static TURNS: [Point; POINTS_MAX as usize / 2] = turns();

/// Turns by one step after the other, with 60 bits after the point: after 256 of them 15 bits are right.
const fn turns() -> [Point; POINTS_MAX as usize / 2] {
    const BITS: u32 = 60;
    const ONE: i128 = 1 << BITS;
    /// Pi.
    const PI: i128 = 3_622_009_729_038_561_421;
    const fn times(left: i128, right: i128) -> i128 {
        (left * right) >> BITS
    }
    const fn rounded(number: i128) -> i32 {
        ((number + (1 << (BITS - FRACTION - 1))) >> (BITS - FRACTION)) as i32
    }
    // The series of Taylor; the omitted terms are below the last bit, because the angle is below 1/80.
    let angle = 2 * PI / POINTS_MAX as i128;
    let square = times(angle, angle);
    let fourth = times(square, square);
    let cosine = ONE - square / 2 + fourth / 24 - times(fourth, square) / 720;
    let sine =
        angle - times(angle, square) / 6 + times(angle, fourth) / 120 - times(times(angle, fourth), square) / 5040;

    let mut turns = [[0; 2]; POINTS_MAX as usize / 2];
    let (mut x, mut y) = (ONE, 0);
    let mut k = 0;
    while k < turns.len() {
        turns[k] = [rounded(x), rounded(-y)];
        (x, y) = (times(x, cosine) - times(y, sine), times(x, sine) + times(y, cosine));
        k += 1;
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::run;
    use proptest::prelude::*;
    use std::f64::consts::TAU;
    fn filter(signal: &[i16], response: &[i16]) -> Vec<i16> {
        let length = response.len() as u16;
        let mut out = vec![0; signal.len() + 1 - response.len()];
        let kernel = Filter { samples: out.len() as u16, length };
        run(&kernel, (signal.into(), response.into(), out.as_mut_slice().into()));
        out
    }

    fn transform(samples: &[[i16; 2]]) -> Vec<[i16; 2]> {
        let (mut out, mut unfinished) = (vec![[0; 2]; samples.len()], vec![[0; 2]; samples.len()]);
        let kernel = Transform { points: samples.len() as u16 };
        run(&kernel, (samples.into(), out.as_mut_slice().into(), unfinished.as_mut_slice().into()));
        out
    }

    fn sample() -> impl Strategy<Value = i16> {
        prop_oneof![8 => any::<i16>(), 1 => Just(i16::MAX), 1 => Just(i16::MIN), 2 => -9i16..9]
    }

    /// The transform by its definition, in floating point.
    fn slow_transform(samples: &[[i16; 2]]) -> Vec<[f64; 2]> {
        let count = samples.len();
        let point = |k: usize| {
            let (mut real, mut imaginary) = (0.0, 0.0);
            for (t, sample) in samples.iter().enumerate() {
                // The angle of k * t, taken modulo a turn before it becomes inexact.
                let (sine, cosine) = (-TAU * (k * t % count) as f64 / count as f64).sin_cos();
                let [x, y] = sample.map(f64::from);
                real += x * cosine - y * sine;
                imaginary += x * sine + y * cosine;
            }
            [real / count as f64, imaginary / count as f64]
        };
        (0..count).map(point).collect()
    }

    fn check_transform(samples: &[[i16; 2]]) {
        let allowed = 1.21 * f64::from(samples.len().ilog2());
        let (out, exact) = (transform(samples), slow_transform(samples));
        for (got, exact) in out.as_flattened().iter().zip(exact.as_flattened()) {
            let exact = exact.clamp(f64::from(i16::MIN), f64::from(i16::MAX));
            assert!((f64::from(*got) - exact).abs() <= allowed, "{got} instead of {exact}, {} points", samples.len());
        }
    }

    proptest! {
        #[test]
        fn a_filter_equals_the_direct_convolution(
            response in prop::collection::vec(sample(), 1..40),
            samples in prop_oneof![1usize..60, 100usize..300],
            more in prop::collection::vec(sample(), 340),
        ) {
            let signal = &more[..samples + response.len() - 1];
            let expected: Vec<i16> = (0..samples)
                .map(|i| {
                    let term = |j: usize| i64::from(response[j]) * i64::from(signal[i + response.len() - 1 - j]);
                    let sum: i64 = (0..response.len()).map(term).sum();
                    (sum as f64 / 32768.0 + 0.5).floor().clamp(-32768.0, 32767.0) as i16
                })
                .collect();
            prop_assert_eq!(filter(signal, &response), expected);
        }

        #[test]
        fn a_transform_is_near_its_definition(order in 1u32..=8, samples in prop::collection::vec([sample(), sample()], 256)) {
            check_transform(&samples[..1 << order]);
        }
    }

    #[test]
    fn the_longest_transform_is_near_its_definition_too() {
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 48) as i16
        };
        let extreme = |at: usize| if at.is_multiple_of(3) { i16::MIN } else { i16::MAX };
        check_transform(&core::array::from_fn::<_, 512, _>(|_| [noise(), noise()]));
        check_transform(&[[i16::MIN; 2]; 512]);
        check_transform(&core::array::from_fn::<_, 512, _>(|at| [extreme(2 * at), extreme(2 * at + 1)]));
    }

    /// A tone of eight periods in 64 samples is one point of the spectrum, and its mirror image.
    #[test]
    fn a_tone_is_one_line() {
        let tone = |t: usize| [(20_000.0 * (TAU * t as f64 / 8.0).cos()).round() as i16, 0];
        let out = transform(&core::array::from_fn::<_, 64, _>(tone));
        let loud: Vec<(usize, i16)> =
            out.into_iter().flatten().enumerate().filter(|(_, part)| part.abs() > 4).collect();
        assert!(matches!(loud[..], [(16, 9_996..=10_004), (112, 9_996..=10_004)]), "{loud:?}");
    }

    #[test]
    fn the_published_times_hold_and_blocks_take_no_more_than_all_of_them() {
        let filter = Filter { samples: 1024, length: 32 };
        assert_eq!(filter.time(0..8), 1_966_080);
        let filter = Filter { samples: 1000, length: 32 };
        assert_eq!((0..8).map(|block| filter.time(block..block + 1)).sum::<u64>(), filter.time(0..8));
        let transform = Transform { points: 512 };
        assert_eq!((transform.time(0..9), transform.time(4..5)), (1_064_960, 81_920));
        for points in [2, 64, 128, 512] {
            let transform = Transform { points };
            let blocks = transform.blocks();
            let parts = (0..blocks).map(|block| transform.time(block..block + 1));
            assert_eq!(parts.sum::<u64>(), transform.time(0..blocks));
        }
    }

    #[test]
    fn every_turn_is_the_nearest() {
        for (k, [cosine, sine]) in TURNS.iter().enumerate() {
            let (y, x) = (-TAU * k as f64 / f64::from(POINTS_MAX)).sin_cos();
            assert_eq!((*cosine, *sine), ((x * 32768.0).round() as i32, (y * 32768.0).round() as i32), "{k}");
        }
    }
}
