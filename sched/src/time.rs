//! Instants and spans of time, in nanoseconds.
//!
//! All time is 64-bit and never wraps: additions saturate at [`Instant::NEVER`], some 584 years after boot.

use core::ops::{Add, AddAssign, Sub};

/// A point in time, in nanoseconds since the kernel's time zero.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct Instant(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct Nanoseconds(pub u64);

impl Instant {
    /// The kernel's time zero.
    pub const ZERO: Instant = Instant(0);
    /// An instant that never comes.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// Time passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Instant) -> Nanoseconds {
        Nanoseconds(self.0.saturating_sub(earlier.0))
    }

    /// Signed distance to `other` in nanoseconds (positive: `self` is later), saturated.
    #[must_use]
    #[inline]
    pub const fn signed_since(self, other: Instant) -> i64 {
        let distance = self.0 as i128 - other.0 as i128;
        if distance > i64::MAX as i128 {
            i64::MAX
        } else if distance < i64::MIN as i128 {
            i64::MIN
        } else {
            distance as i64
        }
    }
}

impl Nanoseconds {
    /// No time.
    pub const ZERO: Nanoseconds = Nanoseconds(0);

    /// The rest after taking `other` away; zero if nothing is left.
    #[must_use]
    #[inline]
    pub const fn saturating_sub(self, other: Nanoseconds) -> Nanoseconds {
        Nanoseconds(self.0.saturating_sub(other.0))
    }
}

impl Add<Nanoseconds> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, span: Nanoseconds) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Nanoseconds> for Instant {
    #[inline]
    fn add_assign(&mut self, span: Nanoseconds) {
        *self = *self + span;
    }
}

impl Sub<Nanoseconds> for Instant {
    type Output = Instant;
    #[inline]
    fn sub(self, span: Nanoseconds) -> Instant {
        Instant(self.0.saturating_sub(span.0))
    }
}

impl Add for Nanoseconds {
    type Output = Nanoseconds;
    #[inline]
    fn add(self, other: Nanoseconds) -> Nanoseconds {
        Nanoseconds(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanoseconds {
    #[inline]
    fn add_assign(&mut self, other: Nanoseconds) {
        *self = *self + other;
    }
}

/// `nanoseconds * 2^32 / scale`, rounded up: the ticks of a counter of which 2^32 take `scale` nanoseconds, at least
/// 2^28 and at most 2^42. `u64::MAX` if it is 2^64 or more.
///
/// By hand: a division of 128 bits is a function of its own, of 780 bytes.
#[must_use]
pub fn divide_up(nanoseconds: u64, scale: u64) -> u64 {
    debug_assert!((1 << 28..=1 << 42).contains(&scale));
    let (mut quotient, mut rest) = (nanoseconds / scale, nanoseconds % scale);
    if quotient >> 32 != 0 {
        return u64::MAX;
    }
    for _ in 0..2 {
        rest <<= 16;
        quotient = (quotient << 16) | (rest / scale);
        rest %= scale;
    }
    quotient.saturating_add(u64::from(rest != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ticks_are_the_quotient_rounded_up(high in 0u32..64, nanoseconds: u64, scale in 1u64 << 28..=1 << 42) {
            let nanoseconds = nanoseconds >> high;
            let exact = (u128::from(nanoseconds) << 32).div_ceil(u128::from(scale));
            prop_assert_eq!(divide_up(nanoseconds, scale), u64::try_from(exact).unwrap_or(u64::MAX));
        }
    }

    #[test]
    fn time_saturates_instead_of_wrapping() {
        assert_eq!(Instant::NEVER + Nanoseconds(1), Instant::NEVER);
        assert_eq!(Instant::ZERO - Nanoseconds(1), Instant::ZERO);
        assert_eq!(Instant(3).signed_since(Instant(10)), -7);
        assert_eq!(Instant::NEVER.signed_since(Instant::ZERO), i64::MAX);
    }
}
