//! The bit timing of a bit rate: how the controller's clock divides a bit.
//!
//! A bit has one quantum for synchronisation, the quanta before the sample point, and the quanta behind it. A quantum is some whole number of
//! periods of the clock.

use core::fmt;

use fusee::Nanoseconds;

/// The highest bit rate of classical frames, in bits per second.
pub const HIGHEST_RATE: u32 = 1_000_000;
/// The largest deviation of a bit rate, in millionths: two nodes with such deviations still understand each other.
pub const TOLERANCE: u64 = 5_000;
/// The sample point, in thousandths of a bit (CiA 301, version 4.2, table 1).
const SAMPLE_POINT: u32 = 875;

/// The bit timing, in the units of the controller's registers plus one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// Periods of the clock in a quantum: 1 to 256.
    pub prescaler: u32,
    /// Quanta between synchronisation and sample point: 1 to 16.
    pub before: u32,
    /// Quanta behind the sample point: 1 to 8.
    pub after: u32,
    /// Quanta by which a bit may be longer or shorter to synchronise: 1 to 4, and at most `after`.
    pub jump: u32,
}

/// A bit rate that the controller cannot have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TimingError {
    /// The rate is zero, or above [`HIGHEST_RATE`].
    OutOfRange {
        /// The rate, in bits per second.
        rate: u32,
    },
    /// Each rate that the clock can make deviates by more than [`TOLERANCE`].
    Unreachable {
        /// The rate, in bits per second.
        rate: u32,
        /// The frequency of the clock, in hertz.
        clock: u32,
    },
}

impl fmt::Display for TimingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimingError::OutOfRange { rate } => {
                write!(f, "the parameter `bit_rate` is {rate} bit/s: a CAN bus has 1 to {HIGHEST_RATE} bit/s")
            }
            TimingError::Unreachable { rate, clock } => write!(
                f,
                "the parameter `bit_rate` is {rate} bit/s: a clock of {clock} Hz (parameter `clock`) makes no rate within \
                 0.5 % of it; a bit has 4 to 25 quanta of 1 to 256 periods of the clock"
            ),
        }
    }
}

impl core::error::Error for TimingError {}

impl Timing {
    /// The timing with the least deviation from `rate`, in bits per second, with a clock of `clock` hertz. Among equals it is the one with the
    /// sample point next to 87.5 %, and then the one with the most quanta.
    ///
    /// # Errors
    /// [`TimingError`] if there is none within [`TOLERANCE`].
    pub fn new(clock: u32, rate: u32) -> Result<Timing, TimingError> {
        if !(1..=HIGHEST_RATE).contains(&rate) {
            return Err(TimingError::OutOfRange { rate });
        }
        let candidates = (4..=25).rev().flat_map(|quanta| {
            let product = u64::from(rate) * u64::from(quanta);
            // The two prescalers next to the quotient, as the nearest rate is at one of them, or at the end of their range.
            let least = u64::from(clock) / product;
            [least, least + 1].map(|prescaler| Timing::of(prescaler.clamp(1, 256) as u32, quanta))
        });
        // The first of equals is taken, which has the most quanta.
        let best = candidates.min_by_key(|timing| (timing.deviation(clock, rate), timing.sample_error()));
        let within = best.filter(|timing| timing.deviation(clock, rate) <= TOLERANCE);
        within.ok_or(TimingError::Unreachable { rate, clock })
    }

    /// The timing with so many quanta, and the sample point as near to its place as the registers allow.
    fn of(prescaler: u32, quanta: u32) -> Timing {
        let wanted = (quanta * (1000 - SAMPLE_POINT) + 500) / 1000;
        let after = wanted.clamp(1, 8).max(quanta.saturating_sub(17));
        Timing { prescaler, before: quanta - 1 - after, after, jump: after.min(4) }
    }

    /// Quanta of a bit.
    #[must_use]
    pub fn quanta(&self) -> u32 {
        1 + self.before + self.after
    }

    /// The deviation from `rate`, in millionths of it.
    #[must_use]
    pub fn deviation(&self, clock: u32, rate: u32) -> u64 {
        let wanted = u64::from(rate) * u64::from(self.prescaler * self.quanta());
        (u64::from(clock).abs_diff(wanted) * 1_000_000).div_ceil(wanted.max(1))
    }

    /// The distance of the sample point from its place, in thousandths of a bit.
    fn sample_error(&self) -> u32 {
        (1000 * (1 + self.before) / self.quanta()).abs_diff(SAMPLE_POINT)
    }

    /// The time of so many bits, rounded up.
    #[must_use]
    pub fn bits(&self, bits: u64, clock: u32) -> Nanoseconds {
        let periods = bits * u64::from(self.prescaler * self.quanta());
        Nanoseconds((periods * 1_000_000_000).div_ceil(u64::from(clock.max(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usual_rates_have_their_exact_timing() {
        for (rate, prescaler, before, after) in [(1_000_000, 3, 6, 1), (500_000, 3, 13, 2), (125_000, 12, 13, 2)] {
            let timing = Timing::new(24_000_000, rate).unwrap();
            assert_eq!((timing.prescaler, timing.before, timing.after), (prescaler, before, after), "{rate}");
            assert_eq!(timing.deviation(24_000_000, rate), 0);
            assert_eq!(timing.bits(u64::from(rate), 24_000_000), Nanoseconds(1_000_000_000));
        }
    }

    #[test]
    fn a_rate_that_the_clock_cannot_make_is_refused_with_its_figures() {
        let error = Timing::new(24_000_000, 0).unwrap_err();
        assert_eq!(error, TimingError::OutOfRange { rate: 0 });
        assert_eq!(Timing::new(24_000_000, 1_000_001), Err(TimingError::OutOfRange { rate: 1_000_001 }));
        let error = Timing::new(24_000_000, 3_000).unwrap_err();
        assert!(error.to_string().contains("3000 bit/s: a clock of 24000000 Hz"), "{error}");
        assert!(Timing::new(3_900_000, 1_000_000).is_err());
    }

    proptest! {
        /// The search by quotients finds what a search of everything finds, and what it finds fits the registers.
        #[test]
        fn no_timing_is_nearer(clock in 1_000_000..200_000_000u32, rate in 1..=HIGHEST_RATE, usual in 0..8usize) {
            let usual = [1_000_000, 800_000, 500_000, 250_000, 125_000, 100_000, 50_000, 20_000][usual];
            for rate in [rate, usual] {
                let every = (1..=256).flat_map(|prescaler| (4..=25).map(move |quanta| Timing::of(prescaler, quanta)));
                let best = every.map(|timing| timing.deviation(clock, rate)).min().unwrap();
                match Timing::new(clock, rate) {
                    Ok(timing) => {
                        prop_assert_eq!(timing.deviation(clock, rate), best);
                        prop_assert!((1..=256).contains(&timing.prescaler) && (1..=16).contains(&timing.before));
                        prop_assert!((1..=8).contains(&timing.after) && timing.jump <= timing.after.min(4));
                    }
                    Err(_) => prop_assert!(best > TOLERANCE),
                }
            }
        }
    }
}
