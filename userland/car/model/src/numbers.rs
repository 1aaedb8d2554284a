//! Functions that `core` does not have, of the four basic operations: so host and board compute the same bits.

use core::f64::consts::{FRAC_PI_2, PI, TAU};

/// The sine and the cosine of an angle, in radians, of at most some hundred turns. Right to eleven digits.
#[must_use]
pub const fn sine_cosine(angle: f64) -> (f64, f64) {
    let turns = angle / TAU;
    // The nearest whole number: a conversion cuts off towards zero.
    let whole = (if turns < 0.0 { turns - 0.5 } else { turns + 0.5 }) as i64;
    let angle = angle - whole as f64 * TAU;
    (sine(angle), sine(if angle > FRAC_PI_2 { angle - 3.0 * FRAC_PI_2 } else { angle + FRAC_PI_2 }))
}

/// The sine of an angle from -pi to pi: Taylor's series, from its last term on.
const fn sine(angle: f64) -> f64 {
    let near = if angle > FRAC_PI_2 {
        PI - angle
    } else if angle < -FRAC_PI_2 {
        -PI - angle
    } else {
        angle
    };
    let square = near * near;
    let factors = [210.0, 156.0, 110.0, 72.0, 42.0, 20.0, 6.0];
    let (mut sum, mut at) = (1.0, 0);
    while at < factors.len() {
        sum = 1.0 - square / factors[at] * sum;
        at += 1;
    }
    near * sum
}

/// The nearest whole number; halves go away from zero.
#[must_use]
pub const fn rounded(number: f64) -> i32 {
    (if number < 0.0 { number - 0.5 } else { number + 0.5 }) as i32
}

/// The next random number of a sequence, and its state (Steele, Lea, Flood 2014: SplitMix).
#[must_use]
pub const fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sine_and_cosine_are_right_to_ten_digits() {
        for step in -700..700 {
            let angle = f64::from(step) * 0.0173;
            let (sine, cosine) = sine_cosine(angle);
            assert!((sine - angle.sin()).abs() < 1e-10 && (cosine - angle.cos()).abs() < 1e-10, "{angle}");
        }
    }
}
