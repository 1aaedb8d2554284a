//! Times and lengths as people write them: `"33333us"`, `"16KiB"`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// Nanoseconds, written with a unit: `"10ms"`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Time(pub u64);

/// Bytes, written with a unit, `"16KiB"`, or as a bare number.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Bytes(pub u64);

impl Time {
    /// Reads `text`; `None` if it is no time.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        with_unit(text, &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)]).map(Self)
    }
}

impl Bytes {
    /// Reads `text`; `None` if it is no length.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        with_unit(text, &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)]).map(Self)
    }
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_')?;
    let number: u64 = text[..end].replace('_', "").parse().ok()?;
    let unit = text[end..].trim_start();
    units.iter().find(|(name, _)| *name == unit).and_then(|(_, factor)| number.checked_mul(*factor))
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimeVisitor;
        impl Visitor<'_> for TimeVisitor {
            type Value = Time;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time with its unit, such as \"10ms\" (ns, us, ms, s)")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
                Time::parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(TimeVisitor)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;
        impl Visitor<'_> for BytesVisitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length, such as \"16KiB\" (B, KiB, MiB, GiB)")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                Bytes::parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Bytes, E> {
                u64::try_from(number)
                    .map(Bytes)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
            }
        }
        deserializer.deserialize_any(BytesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_lengths_have_units() {
        assert_eq!(Time::parse("33_333us"), Some(Time(33_333_000)));
        assert_eq!(Time::parse("2 ms"), Some(Time(2_000_000)));
        assert_eq!(Bytes::parse("16KiB"), Some(Bytes(16_384)));
        for wrong in ["", "10", "ms", "10 minutes", "-1ms", "99999999999999999999s", "18446744073709551615s"] {
            assert_eq!(Time::parse(wrong), None, "{wrong}");
        }
    }
}
