//! What a signal processor computes, in fixed point: a filter with a finite impulse response, and a Fourier transform.
//!
//! As in `kernels`, each function can do a part of its work. Numbers are little-endian `i16` in memory, of which 32768
//! would be 1; products and sums are exact, and rounded where it is said.
//!
//! # Panics
//!
//! All functions panic if slices do not fit each other, so sizes are checked before.

use fusee_accel_contract::POINTS_MAX;

/// A complex number, real part first.
pub type Point = [i32; 2];

/// Bits after the point.
const FRACTION: u32 = 15;

/// Reads numbers from memory.
pub fn numbers(bytes: &[u8], numbers: &mut [i16]) {
    for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(2)) {
        *number = i16::from_le_bytes([bytes[0], bytes[1]]);
    }
}

fn saturated(number: i64) -> i16 {
    number.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
}

//--- Filter

/// `out(i)` is the sum of `response(j) * signal(i + response.len() - 1 - j)`, rounded. `signal` has `response.len() - 1`
/// samples more than `out`, which stands as it does in memory.
pub fn filter(signal: &[i16], response: &[i16], out: &mut [u8]) {
    assert_eq!(signal.len() + 1, out.len() / 2 + response.len());
    for (out, signal) in out.chunks_exact_mut(2).zip(signal.windows(response.len())) {
        let products =
            signal.iter().rev().zip(response).map(|(sample, weight)| i32::from(*sample) * i32::from(*weight));
        let sum: i64 = products.map(i64::from).sum();
        out.copy_from_slice(&saturated((sum + (1 << (FRACTION - 1))) >> FRACTION).to_le_bytes());
    }
}

//--- Transform

/// The whole transform, on memory: what the device does in slices. `points` is for it to work on.
pub fn transform(samples: &[u8], points: &mut [Point], out: &mut [u8]) {
    sorted(samples, points);
    (0..points.len().ilog2()).for_each(|number| stage(points, number));
    spectrum(points, out);
}

/// Reads the samples, each to the place that has its number with the bits in reverse.
pub fn sorted(samples: &[u8], points: &mut [Point]) {
    assert!(points.len().is_power_of_two() && points.len() > 1 && samples.len() == 4 * points.len());
    let unused = usize::BITS - points.len().ilog2();
    for (number, bytes) in samples.chunks_exact(4).enumerate() {
        let part = |at: usize| i32::from(i16::from_le_bytes([bytes[at], bytes[at + 1]]));
        points[number.reverse_bits() >> unused] = [part(0), part(2)];
    }
}

/// Stage `number` of log2(points), from 0: transforms of 2^number points each become half as many of twice the points. Each
/// result is halved, and rounded once; so no number grows.
pub fn stage(points: &mut [Point], number: u32) {
    let half = 1 << number;
    let step = TURNS.len() >> number;
    for block in points.chunks_exact_mut(2 * half) {
        let (even, odd) = block.split_at_mut(half);
        for ((even, odd), [cosine, sine]) in even.iter_mut().zip(odd).zip(TURNS.iter().step_by(step)) {
            let wide = |number: i32| i64::from(number);
            let turned = [
                wide(odd[0]) * wide(*cosine) - wide(odd[1]) * wide(*sine),
                wide(odd[0]) * wide(*sine) + wide(odd[1]) * wide(*cosine),
            ];
            for part in 0..2 {
                let stays = (wide(even[part]) << FRACTION) + (1 << FRACTION);
                even[part] = ((stays + turned[part]) >> (FRACTION + 1)) as i32;
                odd[part] = ((stays - turned[part]) >> (FRACTION + 1)) as i32;
            }
        }
    }
}

/// Writes the spectrum to memory.
pub fn spectrum(points: &[Point], out: &mut [u8]) {
    for (out, point) in out.chunks_exact_mut(2).zip(points.as_flattened()) {
        out.copy_from_slice(&saturated(i64::from(*point)).to_le_bytes());
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
    // The series of Taylor; what is left out is below the last bit, because the angle is below 1/80.
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
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::f64::consts::TAU;
    use std::vec;
    use std::vec::Vec;

    fn bytes(numbers: &[i16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn from(bytes: &[u8]) -> Vec<i16> {
        let mut numbers = vec![0; bytes.len() / 2];
        super::numbers(bytes, &mut numbers);
        numbers
    }

    fn sample() -> impl Strategy<Value = i16> {
        prop_oneof![8 => any::<i16>(), 1 => Just(i16::MAX), 1 => Just(i16::MIN), 2 => -9i16..9]
    }

    /// By its definition, in floating point.
    fn slow_transform(samples: &[i16]) -> Vec<f64> {
        let count = samples.len() / 2;
        let point = |k: usize| {
            let (mut real, mut imaginary) = (0.0, 0.0);
            for (t, sample) in samples.chunks_exact(2).enumerate() {
                // The angle of k * t, taken modulo a turn before it becomes inexact.
                let (sine, cosine) = (-TAU * (k * t % count) as f64 / count as f64).sin_cos();
                let (x, y) = (f64::from(sample[0]), f64::from(sample[1]));
                real += x * cosine - y * sine;
                imaginary += x * sine + y * cosine;
            }
            [real / count as f64, imaginary / count as f64]
        };
        (0..count).flat_map(point).collect()
    }

    fn check_transform(samples: &[i16]) {
        let count = samples.len() / 2;
        let mut out = vec![0; 4 * count];
        transform(&bytes(samples), &mut vec![[0; 2]; count], &mut out);
        let allowed = 1.21 * f64::from(count.ilog2());
        for (got, exact) in from(&out).into_iter().zip(slow_transform(samples)) {
            let exact = exact.clamp(f64::from(i16::MIN), f64::from(i16::MAX));
            assert!((f64::from(got) - exact).abs() <= allowed, "{got} instead of {exact}, {count} points");
        }
    }

    proptest! {
        #[test]
        fn a_filter_equals_the_direct_convolution(
            response in prop::collection::vec(sample(), 1..40),
            samples in 1usize..60,
            more in prop::collection::vec(sample(), 100),
        ) {
            let signal = &more[..samples + response.len() - 1];
            let mut out = vec![0; 2 * samples];
            filter(signal, &response, &mut out);
            let expected: Vec<i16> = (0..samples)
                .map(|i| {
                    let term = |j: usize| i64::from(response[j]) * i64::from(signal[i + response.len() - 1 - j]);
                    let sum: i64 = (0..response.len()).map(term).sum();
                    (sum as f64 / 32768.0 + 0.5).floor().clamp(-32768.0, 32767.0) as i16
                })
                .collect();
            prop_assert_eq!(from(&out), expected);
        }

        #[test]
        fn a_transform_is_near_its_definition(order in 1u32..=8, samples in prop::collection::vec(sample(), 512)) {
            check_transform(&samples[..2 << order]);
        }
    }

    #[test]
    fn the_longest_transform_is_near_its_definition_too() {
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 48) as i16
        };
        check_transform(&(0..1024).map(|_| noise()).collect::<Vec<i16>>());
        check_transform(&[i16::MIN; 1024]);
        check_transform(&(0..1024).map(|at| if at % 3 == 0 { i16::MIN } else { i16::MAX }).collect::<Vec<i16>>());
    }

    /// A tone of eight periods in 64 samples is one point of the spectrum, and its mirror image.
    #[test]
    fn a_tone_is_one_line() {
        let tone = (0..64).flat_map(|t| [(20_000.0 * (TAU * f64::from(t) / 8.0).cos()).round() as i16, 0]);
        let mut out = vec![0; 256];
        transform(&bytes(&tone.collect::<Vec<i16>>()), &mut [[0; 2]; 64], &mut out);
        let loud: Vec<(usize, i16)> = from(&out).into_iter().enumerate().filter(|(_, part)| part.abs() > 4).collect();
        assert!(matches!(loud[..], [(16, 9_996..=10_004), (112, 9_996..=10_004)]), "{loud:?}");
    }

    #[test]
    fn every_turn_is_the_nearest() {
        for (k, [cosine, sine]) in TURNS.iter().enumerate() {
            let (y, x) = (-TAU * k as f64 / f64::from(POINTS_MAX)).sin_cos();
            assert_eq!((*cosine, *sine), ((x * 32768.0).round() as i32, (y * 32768.0).round() as i32), "{k}");
        }
    }
}
