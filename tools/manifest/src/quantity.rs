//! Times and lengths as people write them: `"33333us"`, `"16KiB"`.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Nanoseconds, written with a unit: `"10ms"`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Time(pub u64);

/// The time that an engine works in a hold: a time, or a launch of a kernel whose time was measured, `{ kernel = "median", blocks =
/// 12 }`.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Operation {
    /// A time.
    Time(Time),
    /// A launch.
    Launch(Launched),
}

/// The launch: of a class of the kernel's, or of the one that takes longest.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Launched {
    /// The kernel.
    pub kernel: String,
    /// The class of its arguments, if it has several.
    pub class: Option<u32>,
    /// Number of blocks.
    pub blocks: u32,
}

/// Bytes, written with a unit, `"16KiB"`, or as a bare number.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Bytes(pub u64);

/// Units of times, the largest first.
const TIMES: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
/// Units of lengths, the largest first.
const LENGTHS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Time {
    /// Reads `text`; `None` if it is no time.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        with_unit(text, &TIMES).map(Self)
    }

    /// The time as a manifest or a step of a script has it: `3ms`.
    pub(crate) fn compact(self) -> String {
        self.to_string().replace(' ', "")
    }
}

impl Bytes {
    /// Reads `text`; `None` if it is no length.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        with_unit(text, &LENGTHS).map(Self)
    }
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_')?;
    let number: u64 = text[..end].replace('_', "").parse().ok()?;
    let unit = text[end..].trim_start();
    units.iter().find(|(name, _)| *name == unit).and_then(|(_, factor)| number.checked_mul(*factor))
}

/// The text in a unit in which it is a whole number, if `text` has a decimal point: `1500us` for `1.5ms`.
fn without_point(text: &str, units: &[(&str, u64)]) -> Option<String> {
    let (whole, rest) = text.split_once('.')?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = rest.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    let number: u128 = format!("{whole}{digits}").parse().ok()?;
    let divisor = 10u128.checked_pow(u32::try_from(digits.len()).ok()?)?;
    let value = number.checked_mul(u128::from(*factor))?;
    let value = u64::try_from(value / divisor).ok().filter(|_| value.is_multiple_of(divisor))?;
    Some(in_units(value, units).replace(' ', ""))
}

/// `value` in the largest unit in which it is a whole number: `3 ms`.
fn in_units(value: u64, units: &[(&str, u64)]) -> String {
    let fits = units.iter().find(|(_, factor)| value >= *factor && value.is_multiple_of(*factor));
    fits.or(units.last()).map_or_else(String::new, |(name, factor)| format!("{} {name}", value / factor))
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_units(self.0, &TIMES))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_units(self.0, &LENGTHS))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.compact())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string().replace(' ', ""))
    }
}

/// The reason why `text` is not `wanted`.
fn wrong<E: Error>(text: &str, units: &[(&str, u64)], wanted: &dyn serde::de::Expected) -> E {
    match without_point(text, units) {
        Some(better) => E::custom(format!("`{text}` is not a whole number: write \"{better}\"")),
        None => E::invalid_value(serde::de::Unexpected::Str(text), wanted),
    }
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
                Time::parse(text).ok_or_else(|| wrong(text, &TIMES, &self))
            }
        }
        deserializer.deserialize_any(TimeVisitor)
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OperationVisitor;
        impl<'de> Visitor<'de> for OperationVisitor {
            type Value = Operation;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a time with its unit, such as \"10ms\" (ns, us, ms, s), or { kernel = \"NAME\", blocks = 12 }",
                )
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Operation, E> {
                Time::parse(text).map(Operation::Time).ok_or_else(|| wrong(text, &TIMES, &self))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Operation, A::Error> {
                Launched::deserialize(MapAccessDeserializer::new(map)).map(Operation::Launch)
            }
        }
        deserializer.deserialize_any(OperationVisitor)
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
                Bytes::parse(text).ok_or_else(|| wrong(text, &LENGTHS, &self))
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
